"""The journal's log in memory: for one process, and lost when it ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import NamedTuple

from lockgate.core.errors import JournalDamaged
from lockgate.journal.log import Head, LogRow, Shard
from lockgate.journal.merkle import Frontier, Tile


class _MemoryShard(NamedTuple):
    """One shard. List items beyond the shard's size were never committed."""

    shard: Shard
    leaves: list[bytes]
    tiles: dict[int, list[bytes]]
    bodies: dict[int, bytes]
    heads: tuple[Head, ...]

    def without_uncommitted(self) -> _MemoryShard:
        """Return the shard with lists cut to its size: a transaction that was rolled back leaves longer ones."""
        size = self.shard.size
        if len(self.leaves) == size:
            return self
        return self._replace(
            leaves=self.leaves[:size],
            tiles={level: hashes[: size >> level] for level, hashes in self.tiles.items()},
            bodies={index: body for index, body in self.bodies.items() if index < size},
        )


class _MemorySnapshot:
    """The log at one moment. A transaction is a copy, which replaces the original when it commits.

    All copies share their lists, which only grow; each reader stops at the size of its own shard.
    """

    def __init__(self, kept: Sequence[_MemoryShard] = ()) -> None:
        self.kept = list(kept)

    def shards(self) -> list[Shard]:
        return [each.shard for each in self.kept]

    def current(self) -> Shard | None:
        return self.kept[-1].shard if self.kept else None

    def leaves(self, shard: int, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
        kept = self.kept[shard - 1]
        return ((index, kept.leaves[index]) for index in range(start, min(stop, kept.shard.size)))

    def tiles(self, shard: int, level: int, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
        kept = self.kept[shard - 1]
        hashes = kept.tiles.get(level, [])
        return ((index, hashes[index]) for index in range(start, min(stop, kept.shard.size >> level)))

    def bodies(self, shard: int, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
        kept = self.kept[shard - 1]
        indexes = range(start, min(stop, kept.shard.size))
        return ((index, kept.bodies[index]) for index in indexes if index in kept.bodies)

    def newest(self, shard: int) -> Head | None:
        heads = self.kept[shard - 1].heads
        return heads[-1] if heads else None

    def heads(self, shard: int) -> Iterator[Head]:
        return iter(self.kept[shard - 1].heads)

    def open_shard(self, vkey: str) -> Shard:
        empty = Frontier().to_bytes()
        shard = Shard(len(self.kept) + 1, vkey, empty, empty, 0)
        self.kept.append(_MemoryShard(shard, [], {}, {}, ()))
        return shard

    def append(self, shard: Shard, rows: Sequence[LogRow], edge: bytes, tiles: Sequence[Tile], seal: bytes) -> bool:
        if shard.number != len(self.kept) or shard.edge != self.kept[-1].shard.edge:
            return False
        kept = self.kept[-1].without_uncommitted()
        for row in rows:
            kept.bodies[len(kept.leaves)] = row.body
            kept.leaves.append(row.leaf)
        for tile in tiles:
            kept.tiles.setdefault(tile.level, []).append(tile.hash)
        self.kept[-1] = kept._replace(shard=kept.shard._replace(edge=edge, seal=seal))
        return True

    def sign(self, shard: int, head: Head, edge: bytes) -> None:
        kept = self.kept[shard - 1]
        if kept.heads and kept.heads[-1].size >= head.size:
            raise JournalDamaged("a head must be larger than those before it")
        shown = kept.shard._replace(signed_edge=edge)
        self.kept[shard - 1] = kept._replace(shard=shown, heads=(*kept.heads, head))

    def prune(self, shard: int, before: int, seal: bytes) -> None:
        kept = self.kept[shard - 1]
        shown = kept.shard._replace(pruned=max(before, kept.shard.pruned), seal=seal)
        self.kept[shard - 1] = kept._replace(shard=shown)

    def sweep(self, shard: int, indexes: Sequence[int]) -> None:
        kept = self.kept[shard - 1]
        if any(index >= kept.shard.pruned for index in indexes):
            raise JournalDamaged("a log only grows")
        gone = set(indexes)
        bodies = {index: body for index, body in kept.bodies.items() if index not in gone}
        self.kept[shard - 1] = kept._replace(bodies=bodies)


class MemoryLog:
    """A log in memory, for tests and first steps."""

    def __init__(self) -> None:
        self._log = _MemorySnapshot()
        self._lock = Lock()

    @contextmanager
    def reading(self) -> Iterator[_MemorySnapshot]:
        # A committed snapshot is never changed, only replaced.
        yield self._log

    @contextmanager
    def writing(self, *, durable: bool) -> Iterator[_MemorySnapshot]:  # noqa: ARG002  # nothing here outlives the process
        with self._lock:
            changed = _MemorySnapshot(self._log.kept)
            yield changed
            self._log = changed

    def tidy(self) -> None:
        pass

    def close(self) -> None:
        pass
