"""What the tests of the journal's log share: keys, records, and a look at everything that is stored."""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import sha256

from lockgate.core.vocabulary import Receipt
from lockgate.journal import keys
from lockgate.journal.exports import ExportRow as AuditedRow
from lockgate.journal.log import Shard, Snapshot, Store
from lockgate.journal.log_audit import AuditedShard as AuditedShard
from lockgate.journal.log_audit import audit
from lockgate.journal.merkle import Frontier, Tile, leaf_hash
from lockgate.journal.record import configuration_record, encode_record, parse_record
from lockgate.journal.signed_notes import open_checkpoint, parse_vkey
from lockgate.journal.signing import Seal

NAME = "example.com/log"


def signer(name: str = NAME) -> keys.Ed25519Signer:
    """The one key of this name: every process makes the same."""
    return keys.signer_from_seed(name, sha256(name.encode()).digest())


def find_signer(vkey: str) -> keys.Ed25519Signer:
    return signer(parse_vkey(vkey).name)


def record(seq: int = 1, *, at_s: float = 0.001) -> bytes:
    fields = configuration_record(
        run=os.urandom(8).hex(),
        seq=seq,
        ts_ms=int(at_s * 1000),
        salt=os.urandom(16),
        policy_hash="ab" * 32,
        software="lockgate",
    )
    return encode_record(fields)


def stored(store: Store) -> list[bytes]:
    """The bodies of the newest shard that the tests put there."""
    with store.reading() as log:
        shard = log.current()
        assert shard is not None
        bodies = [body for _, body in log.bodies(shard.number, 0, shard.size)]
    return [body for body in bodies if parse_record(body)["kind"] == "configuration"]


def whole(store: Store, acknowledged: Mapping[tuple[str, int], bytes] | None = None) -> int:
    """Fails unless the log is sound from its first record to its last and has everything that was acknowledged.

    Twice: by code that shares nothing with the journal's own checks, which look only at what is new, and by the audit.
    """
    with store.reading() as log:
        leaves = _whole(log)
        shards = log.shards()
        Seal(find_signer(shards[-1].vkey), keys.verify).check_shards(shards)
        audited = audit([_audited(log, shard) for shard in log.shards()], signer().key, keys.verify, live=True)
    assert audited.sound, audited.faults[:3]
    # Every record has a salt of its own, so two equal leaves are one record that was stored twice.
    assert len(set(leaves.values())) == len(leaves), "a record is in the log twice"
    for (origin, index), leaf in (acknowledged or {}).items():
        assert leaves.get((origin, index)) == leaf, f"record {index} of {origin} was acknowledged, and is lost"
    return len(leaves)


def _audited(log: Snapshot, shard: Shard) -> AuditedShard:
    """A shard as the audit takes it, which a user would run."""
    bodies = dict(log.bodies(shard.number, 0, shard.size))
    rows = [AuditedRow(at, leaf, bodies.get(at)) for at, leaf in log.leaves(shard.number, 0, shard.size)]
    heads = list(log.heads(shard.number))
    return AuditedShard(
        rows,
        [head.note for head in heads],
        shard.edge,
        shard.vkey,
        shard.signed_edge,
        shard.pruned,
        [head.size for head in heads],
    )


def _whole(log: Snapshot) -> dict[tuple[str, int], bytes]:
    found: dict[tuple[str, int], bytes] = {}
    previous = ("", "")
    pruned: dict[str, int] = {}
    shards = log.shards()
    for shard in shards:
        key = parse_vkey(shard.vkey)
        frontier = Frontier()
        roots = {0: frontier.root()}
        tiles: list[Tile] = []
        for index, leaf in log.leaves(shard.number, 0, shard.size + 10):
            assert frontier.append(leaf, tiles) == index
            roots[frontier.size] = frontier.root()
            found[key.name, index] = leaf
        assert frontier.to_bytes() == shard.edge
        for level in (8, 16, 24):
            kept = list(log.tiles(shard.number, level, 0, shard.size))
            assert kept == [(tile.at, tile.hash) for tile in tiles if tile.level == level]
        bodies = dict(log.bodies(shard.number, 0, shard.size + 10))
        for index, body in bodies.items():
            assert leaf_hash(body) == found[key.name, index]
            fields = parse_record(body)
            if fields["kind"] == "prune":
                before = fields["before"]
                assert isinstance(before, int)
                pruned[str(fields["origin"])] = max(before, pruned.get(str(fields["origin"]), 0))
        heads = list(log.heads(shard.number))
        assert heads
        assert heads[-1] == log.newest(shard.number)
        for head in heads:
            checkpoint = open_checkpoint(head.note, key, keys.verify)
            assert (checkpoint.size, checkpoint.root) == (head.size, roots[head.size])
        first = parse_record(bodies[0])
        assert (first["kind"], first["previous_vkey"], first["previous"]) == ("opening", *previous)
        if shard != shards[-1]:
            last = parse_record(bodies[shard.size - 1])
            assert (last["kind"], last["next_vkey"]) == ("rotation", shards[shard.number].vkey)
            assert heads[-1].size == shard.size
        previous = (shard.vkey, heads[-1].note.decode())
    for shard in shards:
        bodies = dict(log.bodies(shard.number, 0, shard.size))
        missing = set(range(shard.size)) - set(bodies)
        assert all(index < pruned.get(shard.origin, 0) for index in missing)
    return found


def acknowledged(*receipts: Receipt) -> dict[tuple[str, int], bytes]:
    return {(each.origin, each.index): each.leaf_hash for each in receipts}
