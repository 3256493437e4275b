"""A log of many rulings: how large it is, how long verification takes, and in how much memory.

    python bench/journal_size.py make PLACE --records 10000000    # PLACE/log.db, its key and a head kept on the way
    python bench/journal_size.py measure PLACE                    # `lockgate audit` on it, each command a process

The records are rulings as a gate writes them, in sessions of 50 calls: random hashes and salts, a new block before
every fourth call, every hundredth call held. They go through the journal itself, 1,024 to an append; no gate ruled on
them. The head is kept 10,000 records before the end, for the verification of what came after it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from lockgate.core.vocabulary import Action, Decision, Finding, Origin, Ran, Reason, Risk
from lockgate.journal import keys
from lockgate.journal.journal import Journal
from lockgate.journal.record import ruling_bytes, sha256_hex
from lockgate.journal.stores.sqlite import SqliteLog

SESSION_CALLS = 50
BATCH = 1_024
HELD_BEFORE_END = 10_000
# A call every quarter of a second, up to now: a log of 10 million covers a month.
STEP_MS = 250
PASSED = Decision(Action.CONTINUE, 1, Reason.NO_RED_FLAGS, Risk.HIGH)
PAUSED = Decision(
    Action.PAUSE,
    3,
    Reason.SUPERVISOR,
    Risk.HIGH,
    findings=(Finding("order:send", "b0001", 0, 5),),
    origins=(Origin("to", "x", "b0001", "tool:read_inbox", 0, 1),),
    judged=(Ran(2, "suspicious", "openai/gpt-small"), Ran(3, "PAUSE", "openai/gpt-large")),
)


def rulings(count: int, first_ms: int) -> Iterator[bytes]:
    """Yield so many records of rulings."""
    policy = "sha256:" + sha256_hex("policy")
    run = session = ""
    for number in range(count):
        call = number % SESSION_CALLS
        chance = os.urandom(128).hex()
        if not call:
            run, session = chance[:16], f"session-{chance[16:32]}"
        yield ruling_bytes(
            session=session,
            run=run,
            seq=call + 1,
            ts_ms=first_ms + number * STEP_MS,
            salt=bytes.fromhex(chance[32:64]),
            mode="default",
            tool=("read_file", "Bash", "send_email", "mcp__browser__open")[number % 4],
            args_sha256=chance[64:128],
            blocks=[(f"b{call:04}", "untrusted", chance[192:256])] if call % 4 == 0 else [],
            decision=PAUSED if number % 100 == 99 else PASSED,
            policy_hash=policy,
            context_sha256=chance[128:192],
        )


def make(place: Path, count: int) -> None:
    place.mkdir(mode=0o700, parents=True, exist_ok=False)
    signer = keys.create(place / "log.key", "example.com/large")
    began = said = time.monotonic()
    made = rulings(count, int(time.time() * 1000) - count * STEP_MS)
    with Journal(SqliteLog(place / "log.db"), signer, verify=keys.verify) as log:
        done = 0
        while batch := list(islice(made, min(BATCH, max(count - HELD_BEFORE_END - done, 0) or BATCH))):
            log.append(batch, durable=False)
            done += len(batch)
            if done == count - HELD_BEFORE_END:
                (place / "head.txt").write_bytes(log.checkpoint())
            if time.monotonic() - said > 30:
                said = time.monotonic()
                print(f"{done:,} records, {done / (said - began):,.0f} a second", flush=True)
    spent, size = time.monotonic() - began, (place / "log.db").stat().st_size
    print(f"{count:,} records in {spent:,.0f} s; {size:,} bytes, {size / count:,.0f} a record", flush=True)


def run(*args: str) -> dict[str, object]:
    """Run `lockgate` with these arguments; return its seconds, its peak memory and the end of its output."""
    command = [sys.executable, "-P", "-m", "lockgate", *args]
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert process.stdout is not None
    with process.stdout as pipe:
        output = pipe.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return {
        "command": " ".join(args),
        "exit": process.returncode,
        "seconds": round(time.monotonic() - began, 1),
        "cpu_s": round(used.ru_utime + used.ru_stime, 1),
        "peak_mb": round(used.ru_maxrss / 1024),
        "said": output.decode("utf-8", "replace").splitlines()[:2],
    }


def measure(place: Path) -> None:
    log, key = str(place / "log.db"), str(place / "log.key")
    held, archive = str(place / "head.txt"), place / "archive"
    shutil.rmtree(archive, ignore_errors=True)
    for args in (
        ("verify", log, "--key", key, "--held", held),
        ("verify", log, "--key", key, "--after", held),
        ("archive", "--log", log, "--out", str(archive)),
    ):
        print(json.dumps(run("audit", *args)), flush=True)
    pieces = sorted(archive.glob("*.parquet"))
    print(json.dumps({"archive_bytes": sum(each.stat().st_size for each in pieces), "pieces": len(pieces)}), flush=True)
    print(json.dumps(run("audit", "verify", *map(str, pieces), "--key", key, "--held", held)), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="make a large log, and measure what `lockgate audit` takes for it")
    parser.add_argument("what", choices=("make", "measure"))
    parser.add_argument("place", type=Path, help="a folder for the log")
    parser.add_argument("--records", type=int, default=1_000_000, help="how many to make (1,000,000)")
    arguments = parser.parse_args()
    if arguments.what == "make":
        make(arguments.place, arguments.records)
    else:
        measure(arguments.place)
    return 0


if __name__ == "__main__":
    sys.exit(main())
