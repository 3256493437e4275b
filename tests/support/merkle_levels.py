"""All hashes of a tree over a list of leaves, to make proofs from."""

from __future__ import annotations

from collections.abc import Sequence

from lockgate.journal.merkle import HashOf, node_hash


def hash_levels(leaves: Sequence[bytes]) -> HashOf:
    """Return `hash_of` for a list of leaves' hashes; all levels are computed at once."""
    levels = [list(leaves)]
    while len(levels[-1]) > 1:
        below = levels[-1]
        levels.append([node_hash(below[at], below[at + 1]) for at in range(0, len(below) - 1, 2)])
    return lambda level, index: levels[level][index]
