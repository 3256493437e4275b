"""The tree against its definition in RFC 6962, against published figures, and against what Go computes."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Sequence
from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from merkle_levels import hash_levels
from paths import SUPPORT

from lockgate.journal.merkle import (
    EMPTY_ROOT,
    MAX_SIZE,
    Frontier,
    consistency_proof,
    inclusion_proof,
    leaf_hash,
    node_hash,
    range_root,
    root_of,
    verify_consistency,
    verify_inclusion,
)

# The leaves and roots that implementations of Certificate Transparency test themselves with.
CT_LEAVES = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
CT_ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
MOST = 68
LEAVES = [leaf_hash(str(number).encode()) for number in range(MOST)]
HASH_OF = hash_levels(LEAVES)
OTHER = leaf_hash(b"another")
GO = json.loads((SUPPORT / "go_log.json").read_text(encoding="utf-8"))


def defined(leaves: Sequence[bytes]) -> bytes:
    """RFC 6962, section 2.1, word for word."""
    if not leaves:
        return sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    k = 1
    while k * 2 < len(leaves):
        k *= 2
    return sha256(b"\x01" + defined(leaves[:k]) + defined(leaves[k:])).digest()


ROOTS = [defined(LEAVES[:size]) for size in range(MOST + 1)]


def test_the_published_roots() -> None:
    leaves = [leaf_hash(bytes.fromhex(text)) for text in CT_LEAVES]
    assert [root_of(leaves[:size]).hex() for size in range(9)] == CT_ROOTS


def test_the_definition_is_met_at_every_size() -> None:
    frontier = Frontier()
    for size in range(MOST):
        assert frontier.root() == ROOTS[size] == range_root(0, size, HASH_OF)
        assert frontier.append(LEAVES[size]) == size
    assert frontier.root() == root_of(LEAVES) == ROOTS[MOST]


def test_a_leaf_is_no_pair_of_leaves() -> None:
    pair = LEAVES[0] + LEAVES[1]
    assert node_hash(LEAVES[0], LEAVES[1]) not in (leaf_hash(pair), sha256(pair).digest())


# What is written down of a tree


def test_the_edge_of_a_tree_comes_back_from_its_bytes() -> None:
    frontier = Frontier()
    for leaf in LEAVES:
        again = Frontier.from_bytes(frontier.to_bytes())
        assert again == frontier
        assert again.root() == frontier.root()
        assert len(frontier.to_bytes()) == 8 + 32 * frontier.size.bit_count()
        frontier.append(leaf)


def test_the_edge_of_a_tree_is_made_of_its_complete_subtrees() -> None:
    hash_of, frontier = hash_levels(LEAVES), Frontier()
    for size, leaf in enumerate(LEAVES):
        assert Frontier.of_size(size, hash_of) == frontier
        frontier.append(leaf)


def test_a_copy_goes_its_own_way() -> None:
    frontier = Frontier()
    frontier.append(LEAVES[0])
    copy = frontier.copy()
    copy.append(LEAVES[1])
    assert (frontier.size, frontier.root()) == (1, LEAVES[0])
    assert copy != frontier


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00" * 7,
        b"\x00" * 9,
        (1).to_bytes(8, "big"),
        (0).to_bytes(8, "big") + OTHER,
        (3).to_bytes(8, "big") + OTHER,
        (2).to_bytes(8, "big") + OTHER[:-1],
        MAX_SIZE.to_bytes(8, "big") + OTHER,
    ],
)
def test_other_bytes_are_no_edge(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"edge|hash"):
        Frontier.from_bytes(data)


def test_what_is_no_hash_is_not_appended() -> None:
    frontier = Frontier()
    with pytest.raises(ValueError, match="32 bytes"):
        frontier.append(b"short")
    with pytest.raises(ValueError, match="32 bytes"):
        Frontier(1, [b"short"])
    assert frontier.size == 0


# Proofs


def test_every_record_of_every_tree_is_proven() -> None:
    for size in range(1, MOST + 1):
        for at in range(size):
            proof = inclusion_proof(at, size, HASH_OF)
            assert verify_inclusion(at, size, LEAVES[at], proof, ROOTS[size])


def test_every_tree_is_proven_to_begin_every_later_one() -> None:
    for size in range(MOST + 1):
        for old in range(size + 1):
            proof = consistency_proof(old, size, HASH_OF)
            assert verify_consistency(old, size, ROOTS[old], ROOTS[size], proof)


def spoilt(proof: list[bytes]) -> list[list[bytes]]:
    changed = [[*proof[:at], OTHER, *proof[at + 1 :]] for at in range(len(proof))]
    cut = [proof[:-1], proof[1:]] if proof else []
    exchanged = [[proof[1], proof[0], *proof[2:]]] if len(proof) > 1 else []
    return [[*proof, OTHER], [OTHER, *proof], [*proof, *proof[-1:]] if proof else [OTHER], *changed, *cut, *exchanged]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 33])
def test_no_spoilt_proof_of_inclusion_is_taken(size: int) -> None:
    root = ROOTS[size]
    for at in range(size):
        proof = inclusion_proof(at, size, HASH_OF)
        for wrong in spoilt(proof):
            assert not verify_inclusion(at, size, LEAVES[at], wrong, root)
        for where in (-1, at - 1, at + 1, at ^ 1, size, at + size, MAX_SIZE):
            assert where == at or not verify_inclusion(where, size, LEAVES[at], proof, root)
        assert not verify_inclusion(at, size, OTHER, proof, root)
        assert not verify_inclusion(at, size, LEAVES[at], proof, OTHER)
        assert not verify_inclusion(at, size, b"", proof, root)
        assert not verify_inclusion(at, MAX_SIZE, LEAVES[at], proof, root)
        # Where one tree ends as the other does, a proof may hold in both; but never for another number of hashes.
        assert not verify_inclusion(at, size * 4, LEAVES[at], proof, root)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 33])
def test_no_spoilt_proof_of_consistency_is_taken(size: int) -> None:
    root = ROOTS[size]
    for old in range(size + 1):
        proof = consistency_proof(old, size, HASH_OF)
        for wrong in spoilt(proof):
            assert not verify_consistency(old, size, ROOTS[old], root, wrong)
        assert not verify_consistency(old, size, OTHER, root, proof)
        # From nothing to something nothing is proven, so any root will do there.
        assert (old == 0 and size > 0) or not verify_consistency(old, size, ROOTS[old], OTHER, proof)
        for where in (-1, old - 1, old + 1, size + 1):
            assert where < 1 or not verify_consistency(where, size, ROOTS[old], root, proof) or old == where
        assert not verify_consistency(old, MAX_SIZE, ROOTS[old], root, proof)


def test_a_rewritten_beginning_has_no_proof() -> None:
    forged = [OTHER, *LEAVES[1:]]
    hash_of = hash_levels(forged)
    for size in range(1, 20):
        for old in range(1, size + 1):
            proof = consistency_proof(old, size, hash_of)
            assert not verify_consistency(old, size, ROOTS[old], root_of(forged[:size]), proof)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 80), st.integers(0, 80), st.lists(st.sampled_from([*LEAVES[:6], *ROOTS[:9]]), max_size=8))
def test_no_proof_out_of_thin_air(old: int, size: int, proof: list[bytes]) -> None:
    assert not verify_inclusion(old, size, OTHER, proof, ROOTS[7])
    assert not verify_consistency(old, size, OTHER, ROOTS[7], proof)


@pytest.mark.parametrize(("at", "size"), [(0, 0), (-1, 4), (4, 4), (0, MAX_SIZE)])
def test_what_is_not_there_cannot_be_proven(at: int, size: int) -> None:
    with pytest.raises(ValueError, match="no leaf"):
        inclusion_proof(at, size, HASH_OF)


@pytest.mark.parametrize(("old", "size"), [(-1, 4), (5, 4), (0, MAX_SIZE)])
def test_a_tree_cannot_begin_with_a_larger_one(old: int, size: int) -> None:
    with pytest.raises(ValueError, match="cannot begin"):
        consistency_proof(old, size, HASH_OF)


def test_only_complete_subtrees_are_asked_for() -> None:
    """They never change as the tree grows, so a store may keep them all."""
    asked: set[tuple[int, int]] = set()

    def hash_of(level: int, index: int) -> bytes:
        asked.add((level, index))
        return HASH_OF(level, index)

    for size in range(1, 40):
        for at in range(size):
            inclusion_proof(at, size, hash_of)
            consistency_proof(at, size, hash_of)
            assert all((index + 1) << level <= size for level, index in asked)
        asked.clear()


# What Go wrote


def hashes(texts: list[str] | None) -> list[bytes]:
    return [b64decode(text) for text in texts or ()]


def test_the_proofs_that_go_makes_are_ours() -> None:
    leaves = [leaf_hash(text.encode()) for text in GO["Records"]]
    hash_of = hash_levels(leaves)
    assert len(GO["Inclusion"]) == len(GO["Consistency"]) == len(leaves) == 70
    for each in GO["Inclusion"]:
        proof = hashes(each["Proof"])
        assert proof == inclusion_proof(each["Index"], each["Size"], hash_of)
        assert b64decode(each["Leaf"]) == leaves[each["Index"]]
        assert verify_inclusion(each["Index"], each["Size"], leaves[each["Index"]], proof, b64decode(each["Root"]))
    for each in GO["Consistency"]:
        proof = hashes(each["Proof"])
        root, old_root = b64decode(each["Root"]), b64decode(each["OldRoot"])
        assert (root, old_root) == (root_of(leaves), root_of(leaves[: each["Old"]]))
        assert verify_consistency(each["Old"], each["Size"], old_root, root, proof)
        assert proof == consistency_proof(each["Old"], each["Size"], hash_of)


def test_nothing_is_the_hash_of_nothing() -> None:
    assert root_of([]) == Frontier().root() == EMPTY_ROOT
    assert verify_consistency(0, 0, EMPTY_ROOT, EMPTY_ROOT, [])
    assert not verify_consistency(0, 0, OTHER, OTHER, [])
