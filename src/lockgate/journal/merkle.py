"""The Merkle tree of RFC 6962 (section 2.1) over the bytes of records: roots, and the two kinds of proof.

The functions here ask only for hashes of *complete* subtrees: `hash_of(level, index)` is the hash over the leaves from
`index << level` up to `(index + 1) << level`. These hashes never change as the tree grows, so a store may keep them.
Our stores keep those of 256 leaves, of 256 times 256 leaves, and so on: a proof then reads hundreds of hashes, not all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import NamedTuple

HASH = 32
# The hash of the tree without leaves.
EMPTY_ROOT = sha256(b"").digest()
# C2SP numbers leaves with 63 bits: no log is larger.
MAX_SIZE = 1 << 63
# A store keeps the hashes of every eighth level.
TILE_LEVELS = 8

HashOf = Callable[[int, int], bytes]


class Tile(NamedTuple):
    """The hash of a complete subtree, as a store keeps it."""

    level: int
    at: int
    hash: bytes


def leaf_hash(data: bytes) -> bytes:
    """Return the hash of a leaf. Leaves and nodes have different prefixes, so neither can pass for the other."""
    return sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of a node with these two children."""
    return sha256(b"\x01" + left + right).digest()


class Frontier:
    """The right edge of a tree: at most 63 hashes, enough to append a leaf and to compute the root.

    `hashes` are the roots of the complete subtrees the tree consists of, largest first: one per set bit of the size.
    `append` changes the object in place; call `copy` first when the change may be rolled back.
    """

    __slots__ = ("hashes", "size")

    def __init__(self, size: int = 0, hashes: Iterable[bytes] = ()) -> None:
        self.size = size
        self.hashes = list(hashes)
        if not 0 <= size < MAX_SIZE or len(self.hashes) != size.bit_count():
            raise ValueError(f"a tree of {size} leaves does not have {len(self.hashes)} hashes at its edge")
        if any(len(each) != HASH for each in self.hashes):
            raise ValueError(f"a hash has {HASH} bytes")

    def append(self, leaf: bytes, tiles: list[Tile] | None = None) -> int:
        """Add one leaf by its hash and return its index. Tiles that the leaf completes are added to `tiles`."""
        if len(leaf) != HASH:
            raise ValueError(f"a leaf's hash has {HASH} bytes")
        index, level = self.size, 0
        # Each set bit at the low end is a complete subtree as large as the one just made: the two become one.
        while index >> level & 1:
            leaf = node_hash(self.hashes.pop(), leaf)
            level += 1
            if tiles is not None and level % TILE_LEVELS == 0:
                tiles.append(Tile(level, index >> level, leaf))
        self.hashes.append(leaf)
        self.size = index + 1
        return index

    def root(self) -> bytes:
        """Return the root of the tree."""
        return _fold_hashes(self.hashes)

    def copy(self) -> Frontier:
        """Return an independent copy."""
        # Not by `__init__`, which would check all hashes again: every append makes one copy.
        made = Frontier.__new__(Frontier)
        made.size, made.hashes = self.size, self.hashes.copy()
        return made

    def to_bytes(self) -> bytes:
        """Return the size in eight bytes, highest first, and then the hashes, largest subtree first."""
        return self.size.to_bytes(8, "big") + b"".join(self.hashes)

    @classmethod
    def from_bytes(cls, data: bytes) -> Frontier:
        """Parse what `to_bytes` returned; raise ValueError for anything else."""
        if len(data) < 8 or (len(data) - 8) % HASH:
            raise ValueError("not the edge of a tree")
        return cls(int.from_bytes(data[:8], "big"), (data[at : at + HASH] for at in range(8, len(data), HASH)))

    @classmethod
    def of_size(cls, size: int, hash_of: HashOf) -> Frontier:
        """Return the edge of the tree of the first leaves, from the hashes of its complete subtrees."""
        return cls(size, (hash_of(level, index) for level, index in _complete_subtrees(0, size)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Frontier) and (self.size, self.hashes) == (other.size, other.hashes)

    __hash__ = None  # type: ignore[assignment]  # it changes


def root_of(leaves: Iterable[bytes]) -> bytes:
    """Return the root over these leaves' hashes."""
    frontier = Frontier()
    for leaf in leaves:
        frontier.append(leaf)
    return frontier.root()


def range_root(start: int, end: int, hash_of: HashOf) -> bytes:
    """Return the hash over these leaves; a complete subtree must begin at `start`."""
    return _fold_hashes([hash_of(level, index) for level, index in _complete_subtrees(start, end)])


def inclusion_proof(index: int, size: int, hash_of: HashOf) -> list[bytes]:
    """Return the hashes that lead from one leaf to the root of the tree of this size, the leaf's neighbour first."""
    if not 0 <= index < size < MAX_SIZE:
        raise ValueError(f"a tree of {size} leaves has no leaf {index}")
    proof: list[bytes] = []
    start, end = 0, size
    while end - start > 1:
        middle = start + _split_point(end - start)
        if index < middle:
            proof.append(range_root(middle, end, hash_of))
            end = middle
        else:
            proof.append(range_root(start, middle, hash_of))
            start = middle
    return proof[::-1]


def consistency_proof(old: int, size: int, hash_of: HashOf) -> list[bytes]:
    """Return the hashes that prove: the tree of `size` leaves begins with the tree of `old`. Empty for `old` 0."""
    if not 0 <= old <= size < MAX_SIZE:
        raise ValueError(f"a tree of {size} leaves cannot begin with {old}")
    proof: list[bytes] = []
    if old in (0, size):
        return proof
    start, end, whole = 0, size, True
    while end != old:
        middle = start + _split_point(end - start)
        if old <= middle:
            proof.append(range_root(middle, end, hash_of))
            end = middle
        else:
            proof.append(range_root(start, middle, hash_of))
            start, whole = middle, False
    # The caller knows the old tree's root, so the proof names it only where it is a part of a larger subtree.
    if not whole:
        proof.append(range_root(start, end, hash_of))
    return proof[::-1]


def verify_inclusion(index: int, size: int, leaf: bytes, proof: Sequence[bytes], root: bytes) -> bool:
    """Return whether the proof leads from this leaf's hash at this index to this root. Never raise."""
    if not 0 <= index < size < MAX_SIZE or not _are_hashes(leaf, root, *proof):
        return False
    # The hashes inside the complete subtree come first, then one for each larger subtree to the left.
    inner = (index ^ (size - 1)).bit_length()
    if len(proof) != inner + (index >> inner).bit_count():
        return False
    found = leaf
    for level, other in enumerate(proof[:inner]):
        found = node_hash(other, found) if index >> level & 1 else node_hash(found, other)
    for other in proof[inner:]:
        found = node_hash(other, found)
    return found == root


def verify_consistency(old: int, size: int, old_root: bytes, root: bytes, proof: Sequence[bytes]) -> bool:
    """Return whether the proof shows that the tree of `size` leaves begins with the tree of `old`. Never raise."""
    if not 0 <= old <= size < MAX_SIZE or not _are_hashes(old_root, root, *proof):
        return False
    # Every tree begins with the empty tree, which has exactly one root.
    if old == 0 and old_root != EMPTY_ROOT:
        return False
    if old == size:
        return not proof and old_root == root
    if old == 0:
        return not proof
    # Where the old tree is a complete subtree, its root is the first hash.
    steps = list(proof) if old & (old - 1) else [old_root, *proof]
    return bool(steps) and _roots_by_proof(old, size, steps) == (old_root, root)


def _roots_by_proof(old: int, size: int, steps: Sequence[bytes]) -> tuple[bytes, bytes] | None:
    """Return the old and the new root that the steps lead to (RFC 9162, section 2.1.4.2); None for a wrong length."""
    first, last = old - 1, size - 1
    while first & 1:
        first, last = first >> 1, last >> 1
    older = newer = steps[0]
    for other in steps[1:]:
        if last == 0:
            return None
        if first & 1 or first == last:
            older, newer = node_hash(other, older), node_hash(other, newer)
            while not first & 1 and first:
                first, last = first >> 1, last >> 1
        else:
            newer = node_hash(newer, other)
        first, last = first >> 1, last >> 1
    return (older, newer) if last == 0 else None


def _split_point(size: int) -> int:
    """Return the largest power of two below the size: where RFC 6962 divides a tree."""
    return 1 << (size - 1).bit_length() - 1


def _complete_subtrees(start: int, end: int) -> list[tuple[int, int]]:
    """Return the complete subtrees that these leaves consist of, largest first, as (level, index)."""
    found: list[tuple[int, int]] = []
    while start < end:
        level = (end - start).bit_length() - 1
        found.append((level, start >> level))
        start += 1 << level
    return found


def _fold_hashes(hashes: Sequence[bytes]) -> bytes:
    if not hashes:
        return EMPTY_ROOT
    root = hashes[-1]
    for each in hashes[-2::-1]:
        root = node_hash(each, root)
    return root


def _are_hashes(*values: bytes) -> bool:
    return all(len(each) == HASH for each in values)
