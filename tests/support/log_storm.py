"""Writers on one log, killed at random moments: python tests/support/log_storm.py sqlite PLACE [--kills 200].

Each writer is a fork that opens the log, appends, signs, and now and then rotates the key or prunes, until it is
killed; its clock is wrong by up to three days in either direction. What `append` returned goes through a pipe, which
outlives its writer. In the end all of it must be in the log, and the log must be sound. Prints the counts as JSON.

`once` is one short life, for a tracer that makes a system call fail or kills the process in it.
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import json
import os
import random
import selectors
import signal
import sys
import time
from pathlib import Path
from threading import Thread

from log_checks import find_signer, record, signer, whole

from lockgate.core.errors import LockgateError
from lockgate.core.vocabulary import Receipt
from lockgate.journal import journal, keys
from lockgate.journal.journal import Journal
from lockgate.journal.log import Store


def opened(kind: str, place: str) -> Store:
    if kind == "postgres":
        import psycopg  # noqa: F401

        from lockgate.journal.stores.postgres import PostgresLog

        return PostgresLog(place)
    from lockgate.journal.stores.sqlite import SqliteLog

    return SqliteLog(Path(place))


def write(kind: str, place: str, pipe: int, seed: int, *, rotates: bool) -> None:
    """One writer's life, in a process of its own."""
    chance = random.Random(seed)
    # The first ones live in the past, so that there is something to prune.
    offset = (-3 if seed <= 8 else chance.uniform(-3, 3)) * 86_400
    log = Journal(
        opened(kind, place),
        signer(),
        verify=keys.verify,
        clock=lambda: time.time() + offset,
        find_signer=find_signer,
    )

    def appends(chance: random.Random) -> None:
        while True:
            try:
                batch = [record() for _ in range(chance.randint(1, 3))]
                receipts = log.append(batch, durable=chance.random() < 0.3)
            except LockgateError as error:
                os.write(pipe, f"! {error.message}\n".encode())
                time.sleep(0.01)
                continue
            # One write of less than a page is never cut in two.
            os.write(pipe, "".join(f"{r.origin} {r.index} {r.leaf_hash.hex()}\n" for r in receipts).encode())

    Thread(target=appends, args=(random.Random(seed + 1),), daemon=True).start()
    if rotates:
        try:
            log.prune(retention_days=1)
            log.rotate(signer(f"example.com/log/{seed}"))
        except LockgateError as error:
            os.write(pipe, f"! {error.message}\n".encode())
    appends(chance)


class Storm:
    def __init__(self, kind: str, place: str, seed: int) -> None:
        self.kind, self.place = kind, place
        self.chance = random.Random(seed)
        self.selector = selectors.DefaultSelector()
        self.writers: dict[int, int] = {}
        self.read: dict[int, bytes] = {}
        self.acknowledged: dict[tuple[str, int], bytes] = {}
        self.refused: dict[str, int] = {}
        self.started = self.kills = 0

    def start(self) -> None:
        source, pipe = os.pipe()
        self.started += 1
        number = self.started
        pid = os.fork()
        if not pid:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            try:
                write(self.kind, self.place, pipe, number, rotates=number % 12 == 0)
            finally:
                os._exit(3)
        os.close(pipe)
        os.set_blocking(source, False)
        self.selector.register(source, selectors.EVENT_READ)
        self.read[source] = b""
        self.writers[pid] = source

    def listen(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while True:
            for key, _ in self.selector.select(max(0.0, until - time.monotonic())):
                self.take(key.fd)
            if time.monotonic() >= until:
                return

    def take(self, source: int) -> bool:
        data = os.read(source, 1 << 16)
        *lines, self.read[source] = (self.read[source] + data).split(b"\n")
        for line in lines:
            if line.startswith(b"!"):
                said = line[2:].decode()
                self.refused[said] = self.refused.get(said, 0) + 1
                continue
            origin, index, leaf = line.decode().split(" ")
            before = self.acknowledged.setdefault((origin, int(index)), bytes.fromhex(leaf))
            assert before == bytes.fromhex(leaf), f"record {index} of {origin} was given to two writers"
        if not data:
            self.selector.unregister(source)
            os.close(source)
            del self.read[source]
        return bool(data)

    def kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        assert os.WIFSIGNALED(status), f"a writer ended by itself: {status}"
        assert os.WTERMSIG(status) == signal.SIGKILL
        self.kills += 1
        source = self.writers.pop(pid)
        while source in self.read:
            self.take(source)

    def run(self, kills: int, writers: int, most_s: float) -> None:
        while self.kills < kills:
            while len(self.writers) < writers:
                self.start()
            self.listen(self.chance.uniform(0.0, most_s))
            self.kill(self.chance.choice(list(self.writers)))
        for pid in list(self.writers):
            self.kill(pid)

    def report(self) -> dict[str, object]:
        """Also appends once more: a log that is sound but stuck would be of no use.

        A lost or doubled record is a failed assertion of `whole`, so a report can only count none.
        """
        with Journal(opened(self.kind, self.place), signer(), verify=keys.verify, find_signer=find_signer) as log:
            (last,) = log.append([record()], durable=True)
            log.checkpoint()
            self.acknowledged[last.origin, last.index] = last.leaf_hash
            records = whole(log.store, self.acknowledged)
            with log.store.reading() as view:
                shards = view.shards()
                heads = sum(1 for shard in shards for _ in view.heads(shard.number))
        return {
            "kills": self.kills,
            "acknowledged": len(self.acknowledged),
            "records": records,
            "lost": 0,
            "doubled": 0,
            "shards": len(shards),
            "heads": heads,
            "pruned": sum(shard.pruned for shard in shards),
            "refused": self.refused,
        }


def hasten() -> None:
    """Heads as often as can be, so that kills hit them too."""
    journal.CHECKPOINT_S = 0.01
    journal.CHECKPOINT_RECORDS = 16


def once(place: str) -> int:
    """Everything the journal does with its files, in order; each receipt is printed as soon as it is there."""
    failed = 0

    def say(*receipts: Receipt) -> None:
        for each in receipts:
            os.write(1, f"{each.origin} {each.index} {each.leaf_hash.hex()}\n".encode())

    log = Journal(opened("sqlite", place), signer(), verify=keys.verify, find_signer=find_signer)
    # By hand only: with a thread of its own the calls would come in another order each time.
    log._request_head = lambda count: log._changed.set()  # type: ignore[method-assign]
    steps = (
        lambda: say(*log.append([record()], durable=True)),
        lambda: say(*log.append([record(), record()], durable=False)),
        log.checkpoint,
        lambda: say(*log.append([record()], durable=False)),
        lambda: log.rotate(signer(f"example.com/log/{os.getpid()}")),
        lambda: say(*log.append([record()], durable=True)),
        log.close,
    )
    for step in steps:
        try:
            step()
        except LockgateError:
            failed += 1
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description="kill writers of one log at random moments")
    parser.add_argument("kind", choices=("sqlite", "postgres", "once"))
    parser.add_argument("place", help="the file, or how to connect")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--writers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most-s", type=float, default=0.06, help="the longest time between two kills (0.06)")
    arguments = parser.parse_args()
    if arguments.kind == "once":
        return 10 + once(arguments.place)
    hasten()
    # Loaded once here: each fork would spend its short life on it.
    made = signer()
    assert keys.verify(made.key.public, b"", made.sign(b""))
    opened(arguments.kind, arguments.place)
    storm = Storm(arguments.kind, arguments.place, arguments.seed)
    storm.run(arguments.kills, arguments.writers, arguments.most_s)
    print(json.dumps(storm.report()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
