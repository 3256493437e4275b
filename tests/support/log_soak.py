"""Storms on the log until the time is up or the targets are met, then every faulty system call: log_soak.py.

    python tests/support/log_soak.py --minutes 5
    python tests/support/log_soak.py --minutes 240 --records 1000000 --kills 5000 --most-s 0.3

Prints one line a storm and the totals at the end, also after Ctrl-C, and whether the targets are met. The first loss is
an error with its seed.
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).parent
COUNTED = ("kills", "acknowledged", "records", "heads", "shards", "lost", "doubled")


def run_script(name: str, *args: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, str(HERE / name), *args]
    return subprocess.run(command, capture_output=True, text=True, env=environ, check=False)


def storm(arguments: argparse.Namespace, seed: int, total: Counter[str]) -> bool:
    """One storm on a log of its own; False if it lost or doubled a record, or failed otherwise."""
    with TemporaryDirectory() as folder:
        options = ["--kills", str(arguments.storm_kills), "--seed", str(seed), "--most-s", str(arguments.most_s)]
        done = run_script("log_storm.py", "sqlite", f"{folder}/state/log.db", *options)
    if done.returncode:
        print(f"seed {seed}:\n{done.stderr}", file=sys.stderr)
        return False
    report = json.loads(done.stdout)
    total.update({name: report[name] for name in COUNTED})
    total["storms"] += 1
    print(f"seed {seed}: {json.dumps(report)}", flush=True)
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description="kill writers of the log until the time is up")
    parser.add_argument("--minutes", type=float, default=5.0, help="how long to go on with the storms (5)")
    parser.add_argument("--records", type=int, default=0, help="end earlier, at this many acknowledged records")
    parser.add_argument("--kills", type=int, default=0, help="and at this many killed writers")
    parser.add_argument("--seed", type=int, default=1_000, help="the first seed (1000); those after it follow")
    parser.add_argument("--storm-kills", type=int, default=250, help="in each storm (250)")
    parser.add_argument("--most-s", type=float, default=0.06, help="the longest time between two kills (0.06)")
    arguments = parser.parse_args()
    total: Counter[str] = Counter()
    began, status = time.monotonic(), 0
    aims = {"acknowledged": arguments.records, "kills": arguments.kills}

    def met() -> bool:
        return all(total[name] >= aim for name, aim in aims.items())

    try:
        while not total or (time.monotonic() - began < arguments.minutes * 60 and not (any(aims.values()) and met())):
            if not storm(arguments, arguments.seed + total["storms"], total):
                status = 1
                break
        else:
            with TemporaryDirectory() as folder:
                faults = run_script("log_faults.py", folder)
            print(faults.stdout.strip(), faults.stderr.strip())
            status = faults.returncode
    except KeyboardInterrupt:
        status = 130
    finally:
        print(json.dumps({**total, "minutes": round((time.monotonic() - began) / 60, 1), "targets_met": met()}))
    return status


if __name__ == "__main__":
    sys.exit(main())
