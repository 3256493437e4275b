"""Processes that use one store of sessions and are killed at random moments; nothing they were told may be gone.

python sessions_storm.py sqlite FILE|postgres URL [--kills N] [--most-s S]

Each worker prints what was acknowledged, a line at a time, and only then goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from lockgate.core.vocabulary import Action, Decision, Reason, Risk
from lockgate.sessions import SessionStore
from lockgate.sessions.session_entries import (
    EntrySort,
    SessionEntry,
    SessionInfo,
    decode_text,
    encode_text,
    ruling_from_row,
    ruling_to_json,
    searchable_ruling,
)
from lockgate.sessions.stores.sqlite import SqliteSessions


def opened(kind: str, place: str) -> SessionStore:
    if kind == "sqlite":
        return SqliteSessions(Path(place))
    from lockgate.sessions.stores.postgres import PostgresSessions

    return PostgresSessions(place)


# Below the hosts: what they keep is what is kept here, and compiling rules takes longer than these processes live.
PASSED = Decision(Action.CONTINUE, 1, Reason.LOW_RISK_TOOL, Risk.LOW)


def work(kind: str, place: str, name: str) -> None:
    store = opened(kind, place)
    info = store.session("storm")
    assert info is not None
    for turn in range(1_000_000):
        text = f"{name} {turn}"
        block = SessionEntry(EntrySort.BLOCK, 1.0, text, encode_text(text), "[]")
        detail = ruling_to_json("read_file", {"path": text}, None, PASSED, turn)
        ruling = SessionEntry(
            EntrySort.RULING, 1.0, text, b"", detail, searchable_ruling(f"d{name}.{turn}", "api", "read_file", PASSED)
        )
        puts = store.append((info.number,), [block]), store.append((info.number,), [ruling])
        sys.stdout.write(json.dumps([text, *(put[0].seq for put in puts if put)]) + "\n")
        sys.stdout.flush()
        # A machine that is busy with this alone kills no worker in time.
        time.sleep(0.002)


def storm(kind: str, place: str, kills: int, most_s: float) -> dict[str, int]:
    store = opened(kind, place)
    info = store.create(SessionInfo("storm"))
    chance = random.Random(7)
    said: list[tuple[str, int, int]] = []
    running: list[tuple[subprocess.Popen[str], float]] = []
    killed = begun = 0
    while killed < kills:
        while len(running) < 4 and begun < kills:
            command = [sys.executable, __file__, kind, place, "--worker", f"w{begun}"]
            worker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            begun += 1
            assert worker.stdout is not None
            # It is under way before its end is near.
            first = worker.stdout.readline()
            assert first, "a worker that did nothing"
            said.append(tuple(json.loads(first)))
            running.append((worker, time.monotonic() + chance.uniform(0, most_s)))
        worker, until = running.pop(0)
        time.sleep(max(0.0, until - time.monotonic()))
        worker.send_signal(signal.SIGKILL)
        killed += 1
        out, _ = worker.communicate()
        said += [tuple(json.loads(line)) for line in out.splitlines(keepends=True) if line.endswith("\n")]
    rows = {row.seq: row for row in opened(kind, place).read_entries((info.number,), 0)}
    lost = 0
    for text, block, ruling in said:
        lost += block not in rows or decode_text(rows[block].content) != text
        lost += ruling not in rows or ruling_from_row(rows[ruling], "storm", "api").arguments != {"path": text}
    numbers = [row.n for row in rows.values() if row.sort == EntrySort.BLOCK]
    assert numbers == list(range(1, len(numbers) + 1))
    return {"kills": killed, "acknowledged": len(said), "lost": lost}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("kind")
    parser.add_argument("place")
    parser.add_argument("--kills", type=int, default=8)
    parser.add_argument("--most-s", type=float, default=0.2)
    parser.add_argument("--worker", default="")
    asked = parser.parse_args()
    if asked.worker:
        work(asked.kind, asked.place, asked.worker)
    else:
        sys.stdout.write(json.dumps(storm(asked.kind, asked.place, asked.kills, asked.most_s)) + "\n")
    os._exit(0)
