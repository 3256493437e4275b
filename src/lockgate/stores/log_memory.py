"""The journal's log for one process: gone when it ends, and with nothing on disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock

from lockgate.core.merkle import Frontier
from lockgate.journal import Head, JournalDamaged, Row, Shard


class _Log:
    """Everything that is kept. A transaction works on a copy, which takes its place when it commits."""

    def __init__(self) -> None:
        self.kept: list[Shard] = []
        self.rows: dict[int, list[bytes]] = {}
        self.texts: dict[int, dict[int, bytes]] = {}
        self.signed: dict[int, list[Head]] = {}

    def copy(self) -> _Log:
        made = _Log()
        made.kept = list(self.kept)
        made.rows = {number: list(each) for number, each in self.rows.items()}
        made.texts = {number: dict(each) for number, each in self.texts.items()}
        made.signed = {number: list(each) for number, each in self.signed.items()}
        return made

    def shards(self) -> list[Shard]:
        return list(self.kept)

    def current(self) -> Shard | None:
        return self.kept[-1] if self.kept else None

    def leaves(self, shard: int, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
        return iter(list(enumerate(self.rows[shard]))[start:stop])

    def bodies(self, shard: int, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
        texts = self.texts[shard]
        return ((index, texts[index]) for index in range(start, stop) if index in texts)

    def newest(self, shard: int) -> Head | None:
        return self.signed[shard][-1] if self.signed.get(shard) else None

    def heads(self, shard: int) -> Iterator[Head]:
        return iter(list(self.signed[shard]))

    def older(self, shard: int, at_ms: int) -> int:
        size = 0
        for head in self.signed[shard]:
            if head.at_ms >= at_ms:
                break
            size = head.size
        return size

    def open_shard(self, vkey: str) -> Shard:
        empty = Frontier().to_bytes()
        shard = Shard(len(self.kept) + 1, vkey, empty, empty, 0)
        self.kept.append(shard)
        self.rows[shard.number], self.texts[shard.number], self.signed[shard.number] = [], {}, []
        return shard

    def append(self, shard: Shard, rows: Sequence[Row], edge: bytes) -> None:
        if shard.number != len(self.kept):
            raise JournalDamaged("a closed shard takes no more records")
        leaves, texts = self.rows[shard.number], self.texts[shard.number]
        for row in rows:
            texts[len(leaves)] = row.body
            leaves.append(row.leaf)
        self._change(shard.number, edge=edge)

    def sign(self, shard: int, head: Head, edge: bytes) -> None:
        newest = self.newest(shard)
        if newest is not None and newest.size >= head.size:
            raise JournalDamaged("a head must be larger than those before it")
        self.signed[shard].append(head)
        self._change(shard, signed_edge=edge)

    def prune(self, shard: int, before: int) -> None:
        self._change(shard, pruned=max(before, self.kept[shard - 1].pruned))

    def sweep(self, shard: int, start: int, stop: int, most: int) -> int:
        texts = self.texts[shard]
        stop = min(stop, self.kept[shard - 1].pruned)
        gone = [index for index in range(start, stop) if index in texts][:most]
        for index in gone:
            del texts[index]
        return len(gone)

    def _change(self, number: int, **changes: bytes | int) -> None:
        self.kept[number - 1] = self.kept[number - 1]._replace(**changes)  # type: ignore[arg-type]


class MemoryLog:
    """For tests and for trying things out: a transaction costs as much as the log is long."""

    def __init__(self) -> None:
        self._log = _Log()
        self._lock = Lock()

    @contextmanager
    def reading(self) -> Iterator[_Log]:
        # What was committed is never changed, only replaced.
        yield self._log

    @contextmanager
    def writing(self, *, durable: bool) -> Iterator[_Log]:  # noqa: ARG002  # nothing here outlives the process
        with self._lock:
            changed = self._log.copy()
            yield changed
            self._log = changed

    def tidy(self) -> None:
        pass

    def close(self) -> None:
        pass
