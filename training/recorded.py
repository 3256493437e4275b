"""Recorded sessions to rows, to measure and to compare models with; nothing is learned from them.

    python training/recorded.py --out dev.jsonl.gz TRACE…

One row for each call that Tier 1 escalates, as in prepare.py, and one for each that it lets pass, with its label alone.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

from lockgate import Gate
from lockgate.cli.eval.trace_files import load_sessions
from lockgate.core.ruling.pipeline import EscalatedCall
from lockgate.core.vocabulary import ToolCall
from lockgate.gate.judge_evidence import collect_evidence
from lockgate.sessions.trace_format import BlockEvent


def rows_of(path: Path, part: int, parts: int) -> list[dict[str, object]]:
    gate, made = Gate(), []
    name = path.name.removesuffix(".gz").removesuffix(".jsonl").removeprefix("dev.")
    for recorded in load_sessions(path)[part::parts]:
        session, poisoned = gate.session(goal=recorded.start.goal), False
        for event in recorded.events:
            if isinstance(event, BlockEvent):
                session.add(event.content, source=event.source, trust=event.trust)
                poisoned = poisoned or bool(event.poisoned)
                continue
            call = ToolCall(event.tool, event.arguments, event.annotations or {})
            ruling = session._ruler._begin(call)[1]
            row: dict[str, object] = {
                "kind": "pass",
                "family": name,
                "session": recorded.start.id,
                "label": event.label,
                "attacked": recorded.is_attacked,
                "poisoned": poisoned,
                "call": f"{event.tool} {json.dumps(event.arguments, ensure_ascii=False)[:300]}",
            }
            if isinstance(ruling, EscalatedCall):
                seen = collect_evidence(ruling, session._ruler._context, recorded.start.goal)
                row |= {
                    "kind": "call",
                    "case": seen.case,
                    "windows": seen.windows,
                    "facts": seen.facts,
                    "whole": seen.is_complete,
                    "clearable": seen.is_clearable,
                    "driven": float(event.label == "attack"),
                    "rules": sorted({found.rule for found in ruling.findings}),
                }
            made.append(row)
            session.check(event.tool, event.arguments, annotations=event.annotations)
    return made


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("traces", type=Path, nargs="+")
    asked.add_argument("--out", type=Path, required=True)
    asked.add_argument("--jobs", type=int, default=1)
    args = asked.parse_args()
    with gzip.open(args.out, "wt", encoding="utf-8") as out, ProcessPoolExecutor(args.jobs) as pool:
        jobs = [pool.submit(rows_of, path, part, args.jobs) for path in args.traces for part in range(args.jobs)]
        for job in jobs:
            for row in job.result():
                out.write(json.dumps(row, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
