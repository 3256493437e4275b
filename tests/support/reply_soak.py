"""Mutated replies of every provider until the time is up or so many are done: reply_soak.py --replies 10000000.

What still clears a text is held against the second reading in `test_envelope_mutated_replies.py`. Prints one line a
minute and the totals at the end, also after Ctrl-C; the first reply that is wrongly accepted is an error with its seed.
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from random import Random

from paths import TESTS

sys.path.insert(0, str(TESTS / "verifiers" / "providers"))

from test_envelope_mutated_replies import FORMATS, try_mutants

AT_ONCE = 1_000


def main() -> int:
    parser = argparse.ArgumentParser(description="mutate the replies of providers until the time is up")
    parser.add_argument("--minutes", type=float, default=5.0, help="how long to go on (5)")
    parser.add_argument("--replies", type=int, default=0, help="end earlier, after this many replies")
    parser.add_argument("--seed", type=int, default=1_000, help="the first seed (1000); those after it follow")
    arguments = parser.parse_args()
    began = said = time.monotonic()
    total: Counter[str] = Counter()
    seed = arguments.seed
    try:
        while time.monotonic() - began < arguments.minutes * 60 and not 0 < arguments.replies <= total["replies"]:
            for name in FORMATS:
                passed, changed = try_mutants(name, Random(f"{seed} {name}"), AT_ONCE)
                total.update(replies=AT_ONCE, changed=changed, cleared=passed)
            seed += 1
            if time.monotonic() - said > 60:
                said = time.monotonic()
                print(_summary(total), flush=True)
    except AssertionError as error:
        total["wrongly accepted"] += 1
        print(f"seed {seed}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        print(_summary(total), flush=True)
    return 0


def _summary(total: Counter[str]) -> str:
    return (
        f"{total['replies']:,} replies of {len(FORMATS)} formats, {total['changed']:,} of them changed: "
        f"{total['cleared']:,} cleared a text, by a change that does not matter; "
        f"{total['wrongly accepted']} accepted that should not be"
    )


if __name__ == "__main__":
    sys.exit(main())
