"""The simulation of outages on a virtual clock: verifier_soak.py [--minutes 5] [--outages 100000] [--seed 1000].

Ends when the time is up or the outages are done. Prints one line a minute and the totals at the end, also after
Ctrl-C; the first violation is printed with its seed, and ends it with status 1.
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import logging
import sys
import time

from paths import TESTS

sys.path.insert(0, str(TESTS / "verifiers"))

from test_client_simulation import SECONDS, Report, simulate


def main() -> int:
    parser = argparse.ArgumentParser(description="simulate outages and cancelled callers until the time is up")
    parser.add_argument("--minutes", type=float, default=5.0, help="how long to go on (5)")
    parser.add_argument("--outages", type=int, default=0, help="end earlier, after this many outages")
    parser.add_argument("--seed", type=int, default=1_000, help="the first seed (1000); those after it follow")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"the length of one history ({SECONDS})")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)  # it is all about outages
    began = said = time.monotonic()
    seeds, total = 0, Report()
    try:
        while time.monotonic() - began < arguments.minutes * 60:
            if 0 < arguments.outages <= total.outages:
                break
            report = simulate(arguments.seed + seeds, arguments.seconds)
            total.violations += report.violations
            if report.violations:
                print(f"seed {arguments.seed + seeds}: {report.violations[0]}", file=sys.stderr)
                return 1
            seeds += 1
            total.outages += report.outages
            total.cancelled += report.cancelled
            total.probes += report.probes
            total.seconds += report.seconds
            total.answers.update(report.answers)
            if time.monotonic() - said > 60:
                said = time.monotonic()
                print(_summary(seeds, total), flush=True)
    except KeyboardInterrupt:
        return 130
    finally:
        print(_summary(seeds, total), flush=True)
    return 0


def _summary(seeds: int, total: Report) -> str:
    return (
        f"{seeds} seeds, {total.seconds / 3600:.1f} hours: {total.outages} outages, {total.answers.total()} answers, "
        f"{total.cancelled} cancelled callers, {total.probes} probes, "
        f"{len(total.violations)} violations"
    )


if __name__ == "__main__":
    sys.exit(main())
