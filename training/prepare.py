"""Composed cases, texts and real documents to rows for the encoder, through the same code that will ask it.

    python training/prepare.py --out rows.jsonl.gz [--rounds 150] [--older 40] [--foreign 30000]

Two kinds of rows. A `call` has the case in words, the passages that go with it, facts, and how much the call is driven by
what was read, from 0 to 1. A `text` has a passage and how foreign what it asks for is to it. Documents are what
permissively licensed packages that happen to be installed ship: source, read-me files.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import distributions
from itertools import chain
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

import carriers
import compose
import foreign
import matters

from lockgate import Gate
from lockgate.core.errors import LockgateError
from lockgate.core.ruling.effects.effects_of_call import effects_of
from lockgate.core.ruling.pipeline import EscalatedCall
from lockgate.core.vocabulary import ToolCall
from lockgate.gate.judge_evidence import collect_evidence, plain_text

# Licences that let a derived model be handed on; a package that claims another, or none, is left out.
PERMITTED = re.compile(r"\b(MIT|BSD|Apache|ISC|PSF|Python Software Foundation|Zlib|Unlicense|CC0)\b", re.IGNORECASE)
REFUSED = re.compile(r"GPL|MPL|Mozilla|CC-BY-SA|proprietary", re.IGNORECASE)


def permitted() -> Iterator[tuple[str, str, list[Path]]]:
    for package in distributions():
        about = package.metadata
        claims = " ".join(
            [about.get("License-Expression") or "", (about.get("License") or "")[:120]]
            + [line for line in about.get_all("Classifier", []) if line.startswith("License")]
        )
        if PERMITTED.search(claims) and not REFUSED.search(claims):
            files = [Path(str(package.locate_file(file))) for file in package.files or ()]
            yield (
                about["Name"],
                claims.strip()[:80],
                [file for file in files if file.suffix in {".py", ".md", ".rst", ".txt", ".json", ".html", ".js"}],
            )


def documents(chance: random.Random) -> Iterator[tuple[str, str]]:
    """Windows of real files without end, as many from each package as from any other."""
    pool = [(name, files) for name, _, files in permitted() if files]
    for _, files in pool:
        readme = next((file.parent / "METADATA" for file in files if (file.parent / "METADATA").exists()), None)
        if readme is not None:
            files.extend([readme] * 8)
    while True:
        name, files = chance.choice(pool)
        try:
            text = chance.choice(files).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        if len(text) < 80:
            continue
        at = chance.randrange(max(1, len(text) - 640))
        yield name, text[at : at + chance.choice([200, 400, 640, 800])]


def around(text: str, said: str, chance: random.Random) -> str:
    """A passage that fits a window, with what was put in; nothing where that cannot be found."""
    if len(text) <= 620:
        return text
    at = text.lower().find(said[:30].lower()) if said else chance.randrange(len(text) - 600)
    low = max(0, min(at - chance.randrange(350), len(text) - 620))
    return text[low : low + 620] if at >= 0 else ""


def older(chance: random.Random, rounds: int) -> Iterator[matters.Case]:
    """The sessions of `banks/scenarios` and `banks/episodes.toml` as cases."""
    for made in chain(compose.sessions(chance, rounds), compose.episodes(chance, rounds)):
        yield matters.Case(
            made.goal,
            "",
            made.blocks,
            made.tool,
            made.args,
            float(made.attack),
            made.family,
            made.scenario,
            made.planted if made.attack else "",
        )


def row_of(gate: Gate, made: matters.Case) -> dict[str, object] | None:
    """The evidence of a case, escalated or not: what Tier 1 lets pass today it may ask about tomorrow."""
    session = gate.session(goal=made.goal)
    for source, text in made.blocks:
        session.add(text, source=source, trust="untrusted")
    if made.said:
        session.add(made.said, source="user", trust="trusted")
    ruler, call = session._ruler, ToolCall(made.tool, made.args)
    try:
        ruling = ruler._begin(call)[1]
    except LockgateError:
        return None
    effects = ruling.effects or effects_of(call)
    ask = ruling
    if not isinstance(ask, EscalatedCall):
        ask = EscalatedCall(call, ruling.risk, ruling.reason, ruling.findings, ruling.origins, effects=effects)
    seen = collect_evidence(ask, ruler._context, made.goal)
    return {
        "kind": "call",
        "case": seen.case,
        "windows": seen.windows,
        "words": plain_text(made.planted)[:400],
        "facts": seen.facts,
        "whole": seen.is_complete,
        "clearable": seen.is_clearable,
        "driven": made.driven,
        "severity": int(max(effect.severity for effect in effects)),
        "escalated": isinstance(ruling, EscalatedCall),
        "family": made.family,
        "scenario": made.scenario,
    }


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--out", type=Path, required=True)
    asked.add_argument("--rounds", type=int, default=150, help="over the matters")
    asked.add_argument("--older", type=int, default=40, help="rounds over the scenarios and episodes")
    asked.add_argument("--foreign", type=int, default=30_000, help="rows for the question about whole texts")
    asked.add_argument("--seed", type=int, default=7)
    args = asked.parse_args()
    chance, counts = random.Random(args.seed), Counter()
    gate = Gate()
    with gzip.open(args.out, "wt", encoding="utf-8") as out:

        def put(row: dict[str, object]) -> None:
            out.write(json.dumps(row, ensure_ascii=False) + "\n")

        for made in chain(matters.cases(chance, args.rounds), older(chance, args.older)):
            row = row_of(gate, made)
            if row is not None:
                counts[made.driven > 0.5, row["severity"], row["escalated"]] += 1
                put(row)
        pages, listed = documents(chance), carriers.mails(chance, 2000)
        for made in foreign.rows(chance, args.foreign, listed, lambda: next(pages)):
            text = around(plain_text(made.text), plain_text(made.said), chance)
            if text:
                put({"kind": "text", "text": text, "foreign": made.foreign, "family": made.family, "scenario": made.scenario})  # fmt: skip
    for key, value in sorted(counts.items()):
        print(*key, value)


if __name__ == "__main__":
    main()
