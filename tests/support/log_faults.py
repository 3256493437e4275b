"""One system call at a time goes wrong: python tests/support/log_faults.py PLACE [--every 1].

`strace` makes the n-th call that changes a file fail, or kills the process in it, for every n there is. Afterwards the
log must be sound, hold everything that was acknowledged, and take another record.
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from log_checks import find_signer, record, signer, whole

from lockgate.journal import keys
from lockgate.journal.journal import Journal
from lockgate.journal.stores.sqlite import SqliteLog

# Not `write`: SQLite does not use it on a file, and our own output does.
CALLS = "pwrite64,fdatasync,fsync,ftruncate,link,linkat,unlink,unlinkat,rename,mkdir,mkdirat,fallocate"
FAULTS = {"killed": "signal=KILL", "EIO": "error=EIO", "ENOSPC": "error=ENOSPC"}
# Only the calls that are traced stop the process: all others are as fast as without a tracer.
STRACE = ["strace", "-f", "--seccomp-bpf", "-qq"]
ONCE = [sys.executable, str(Path(__file__).parent / "log_storm.py"), "once"]


def unavailable() -> str:
    """Why nothing can be traced here; empty where it can."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    tried = subprocess.run([*STRACE, "-e", "trace=none", "true"], capture_output=True, text=True, check=False)
    return "" if tried.returncode == 0 else "tracing is not allowed here"


def traced(place: Path, *options: str, call: str = CALLS) -> subprocess.CompletedProcess[bytes]:
    trace = place.with_suffix(".trace")
    command = [*STRACE, "-o", str(trace), "-e", f"trace={call}", *options]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run([*command, *ONCE, str(place)], capture_output=True, env=environ, timeout=60, check=False)


def points(folder: Path) -> Counter[str]:
    """Each call with how often a life without faults makes it."""
    place = folder / "counted" / "log.db"
    place.parent.mkdir(mode=0o700)
    done = traced(place)
    assert done.returncode == 10, done.stderr
    calls = re.findall(r"^\d+ +(\w+)\(", place.with_suffix(".trace").read_text(), re.MULTILINE)
    return Counter(calls)


def faults(folder: Path, every: int) -> Iterator[tuple[str, str, int]]:
    number = 0
    for call, count in sorted(points(folder).items()):
        for when in range(1, count + 1):
            for kind in FAULTS:
                number += 1
                if number % every == 0:
                    yield kind, call, when


def suffer(folder: Path, kind: str, call: str, when: int) -> tuple[str, int]:
    """One life with one fault; what became of it, and how many records it was told are safe."""
    place = folder / f"{kind}-{call}-{when}" / "log.db"
    place.parent.mkdir(mode=0o700)
    done = traced(place, "-e", f"inject={call}:{FAULTS[kind]}:when={when}", call=call)
    told = [line.split(" ") for line in done.stdout.decode().splitlines()]
    acknowledged = {(origin, int(index)): bytes.fromhex(leaf) for origin, index, leaf in told}
    assert done.returncode in (-9, 137) or 10 <= done.returncode < 20, (kind, call, when, done.stderr.decode())
    ended = "killed" if done.returncode in (-9, 137) else "refused" if done.returncode > 10 else "went on"
    with Journal(SqliteLog(place), signer(), verify=keys.verify, find_signer=find_signer) as log:
        (last,) = log.append([record()], durable=True)
        log.checkpoint()
        acknowledged[last.origin, last.index] = last.leaf_hash
        try:
            whole(log.store, acknowledged)
        except AssertionError as error:
            raise AssertionError(f"{kind} in {call} {when}: {error}") from error
    shutil.rmtree(place.parent)
    return ended, len(told)


def everything(folder: Path, every: int, workers: int = 2) -> dict[str, object]:
    with ThreadPoolExecutor(workers) as pool:
        ends = list(pool.map(lambda fault: (fault[0], *suffer(folder, *fault)), faults(folder, every)))
    return {
        "faults": dict(Counter(kind for kind, _, _ in ends)),
        "ended": dict(Counter(f"{kind}: {ended}" for kind, ended, _ in ends)),
        "acknowledged": sum(told for _, _, told in ends),
        "lost": 0,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="make every system call on the log's files fail once")
    parser.add_argument("place", type=Path, help="a folder for the logs")
    parser.add_argument("--every", type=int, default=1, help="try only each n-th fault (1)")
    arguments = parser.parse_args()
    why = unavailable()
    if why:
        print(f"skipped: {why}")
        return 0
    arguments.place.mkdir(mode=0o700, parents=True, exist_ok=True)
    print(json.dumps(everything(arguments.place, arguments.every)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
