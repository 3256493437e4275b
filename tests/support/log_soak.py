"""Storms on the log for as long as one likes, then every faulty system call: python tests/support/log_soak.py.

Prints one line a storm and one at the end; the first loss is an error with its seed.
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


def main() -> int:
    parser = argparse.ArgumentParser(description="kill writers of the log until the time is up")
    parser.add_argument("--minutes", type=float, default=5.0, help="how long to go on with the storms (5)")
    parser.add_argument("--seed", type=int, default=1_000, help="the first seed (1000); those after it follow")
    parser.add_argument("--kills", type=int, default=250, help="in each storm (250)")
    arguments = parser.parse_args()
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"}
    total: Counter[str] = Counter()
    seed, began = arguments.seed, time.monotonic()
    while not total or time.monotonic() - began < arguments.minutes * 60:
        with TemporaryDirectory() as folder:
            command = [str(HERE / "log_storm.py"), "sqlite", f"{folder}/state/log.db"]
            options = ["--kills", str(arguments.kills), "--seed", str(seed)]
            done = subprocess.run(
                [sys.executable, *command, *options], capture_output=True, text=True, env=environ, check=False
            )
        if done.returncode:
            print(f"seed {seed}:\n{done.stderr}", file=sys.stderr)
            return 1
        report = json.loads(done.stdout)
        total.update({name: report[name] for name in ("kills", "acknowledged", "records", "heads", "shards", "lost")})
        total["storms"] += 1
        print(f"seed {seed}: {json.dumps(report)}", flush=True)
        seed += 1
    with TemporaryDirectory() as folder:
        faults = subprocess.run(
            [sys.executable, str(HERE / "log_faults.py"), folder],
            capture_output=True,
            text=True,
            env=environ,
            check=False,
        )
    print(json.dumps(total), faults.stdout.strip(), faults.stderr.strip())
    return faults.returncode


if __name__ == "__main__":
    sys.exit(main())
