"""Heads and seals: what only the holder of a log's key can make."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from log_checks import signer

from lockgate.core.errors import JournalDamaged, JournalUnavailable
from lockgate.journal import keys
from lockgate.journal.log import Shard
from lockgate.journal.merkle import Frontier, leaf_hash
from lockgate.journal.signed_notes import PublicKey, open_checkpoint
from lockgate.journal.signing import Seal, make_head


class Odd:
    """A signer with the log's key that answers with something else."""

    def __init__(self, answer: Callable[[bytes], object]) -> None:
        self._answer = answer

    @property
    def key(self) -> PublicKey:
        return signer().key

    def sign(self, message: bytes) -> bytes:
        return self._answer(message)  # type: ignore[return-value]


def fail(message: bytes) -> bytes:
    raise OSError("a secret")


ODD = {
    "raises": fail,
    "returns nothing": lambda _: None,
    "returns text": lambda _: "signed",
    "returns too little": lambda _: b"\0",
    "signs something else": lambda message: signer().sign(message + b"!"),
    "signs with another key": signer("example.com/other").sign,
}


def tree() -> Frontier:
    frontier = Frontier()
    frontier.append(leaf_hash(b"record"))
    return frontier


def shard_of(frontier: Frontier, vkey: str = "") -> Shard:
    edge = frontier.to_bytes()
    return Shard(1, vkey or signer().key.vkey, edge, edge, 0)


def test_a_head_states_the_tree_under_the_shards_key() -> None:
    head = make_head(shard_of(tree()), tree(), signer(), keys.verify, 7)
    checkpoint = open_checkpoint(head.note, signer().key, keys.verify)
    assert (checkpoint.size, checkpoint.root, head.at_ms) == (1, tree().root(), 7)


def test_a_head_is_not_made_with_another_shards_key() -> None:
    other = signer("example.com/other").key.vkey
    with pytest.raises(JournalUnavailable, match="continues under the key"):
        make_head(shard_of(tree(), other), tree(), signer(), keys.verify, 7)


@pytest.mark.parametrize("what", ODD)
def test_a_signer_that_fails_makes_neither_head_nor_seal(what: str) -> None:
    odd = Odd(ODD[what])
    with pytest.raises(JournalUnavailable, match="the signer failed") as no_head:
        make_head(shard_of(tree()), tree(), odd, keys.verify, 7)
    with pytest.raises(JournalUnavailable, match="the signer failed") as no_seal:
        Seal(odd, keys.verify)
    assert "secret" not in f"{no_head.value}{no_seal.value}"


def test_a_seal_covers_the_shards_end_and_what_may_be_deleted() -> None:
    seal = Seal(signer(), keys.verify)
    shard = shard_of(tree())
    sealed = shard._replace(seal=seal.seal_shard(shard))
    seal.check_shards([sealed])
    longer = tree()
    longer.append(leaf_hash(b"another"))
    for changed in (
        sealed._replace(edge=longer.to_bytes()),
        sealed._replace(pruned=1),
        sealed._replace(number=2),
        sealed._replace(vkey=signer("example.com/other").key.vkey),
        sealed._replace(seal=Seal(signer("example.com/other"), keys.verify).seal_shard(shard)),
    ):
        with pytest.raises(JournalDamaged, match="was written without its key"):
            seal.check_shards([sealed, changed])
