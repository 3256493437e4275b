"""Fill the store of carried texts with many blocks: python tests/support/carried_soak.py --blocks 1000000.

Every block is looked up as a session would, and one of four is written down. Prints what the store has become. A bound
that is passed, or a text of before the flood that is neither known nor marked, is an error.
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from lockgate.core.ruling.carried_text import (
    DerivedText,
    Fingerprint,
    FingerprintKind,
    hashes_of_marks,
    list_places,
    weigh_hits,
)
from lockgate.gate.carried_sqlite import MAX_PRINTS, SqliteCarriedTexts

MAX_BYTES = 64 * 1024 * 1024
_EARLY, _KINDS = (
    200,
    (FingerprintKind.PASSAGE,) * 12
    + (FingerprintKind.ADDRESS, FingerprintKind.ORDERED_ADDRESS, FingerprintKind.ORDERED_NAME),
)


def make_text(number: int) -> DerivedText:
    random = Random(number)
    prints = [
        Fingerprint(random.getrandbits(62), random.choice(_KINDS), b"word%d" % random.randrange(60_000))
        for _ in range(random.randrange(1, 64))
    ]
    path = f"/repo/{number % 97}/{number}.md" if number % 3 else ""
    return DerivedText(tuple(prints), f"web:https://site{number % 500}.example/{number}", f"o{number}", path, "then")


def is_known(store: SqliteCarriedTexts, text: DerivedText) -> bool:
    source = f"file:{text.path}" if text.path else "agent:memory"
    marks = hashes_of_marks(list_places(source, ""), store.words())
    hits = store.find([*marks, *(each.hash for each in text.prints)])
    return weigh_hits(hits, source=source, asked="", session="now") is not None


def main() -> int:
    parser = argparse.ArgumentParser(description="fill the store of carried texts")
    parser.add_argument("--blocks", type=int, default=20_000, help="how many blocks are read (20,000)")
    parser.add_argument("--minutes", type=float, default=5.0, help="stop after this time (5)")
    arguments = parser.parse_args()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "state" / "carried.db"
        store = SqliteCarriedTexts(path)
        began, largest, blocks = time.monotonic(), 0, 0
        while blocks < arguments.blocks and time.monotonic() - began < arguments.minutes * 60:
            text = make_text(blocks // 4)
            if blocks % 4 == 0:
                store.keep(text)
            elif any(each.word in store.words() for each in text.prints):
                store.find([each.hash for each in text.prints])
            blocks += 1
            if blocks % 1_000 == 0:
                largest = max(largest, sum(each.stat().st_size for each in path.parent.iterdir()))
        took_s, counts = time.monotonic() - began, store.counts()
        lost = sum(not is_known(store, make_text(number)) for number in range(min(_EARLY, blocks // 4)))
        store.close()
    report = {"blocks": blocks, "seconds": round(took_s, 1), "largest_bytes": largest, **counts._asdict(), "lost": lost}
    print(json.dumps(report))
    return int(counts.prints > MAX_PRINTS or largest > MAX_BYTES or lost > 0)


if __name__ == "__main__":
    sys.exit(main())
