"""Cases that were written whole, by hand: `banks/cases`. One text and one call, with goals that want it and goals that do not.

    python training/written.py --out written.jsonl.gz

Each goal makes a row, through the same code that will ask the judge. Where the goal decides, the same text and the same
call stand on both sides.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

import matters
from prepare import row_of

from lockgate import Gate

CASES = Path(__file__).parent / "banks" / "cases"


def cases() -> Iterator[matters.Case]:
    for path in sorted(CASES.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            told = json.loads(line)
            blocks = ((told["source"], told["text"]),)
            for side, driven in (("wanted", 0.0), ("unwanted", 1.0)):
                for goal in told[side]:
                    yield matters.Case(
                        goal, "", blocks, told["tool"], told["arguments"], driven, path.stem, told["id"], told["text"]
                    )


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--out", type=Path, required=True)
    args = asked.parse_args()
    gate = Gate()
    with gzip.open(args.out, "wt", encoding="utf-8") as out:
        for made in cases():
            row = row_of(gate, made)
            if row is not None:
                out.write(json.dumps(row, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
