"""Composes what the request head learns from: requests to an application, ordinary ones and attacks.

    python training/request_rows.py --out request_rows.jsonl.gz [--seed 1]

Each row has the tokens of one window, `attack` (0 or 1), its `family`, and `whole`: whether it stands in a bank as it is. The
literal texts are in `banks/requests`. Around them: frames with asks and ordinary errands of the older banks, attacks put
into mail, records and other requests, and the same words with slips, in capitals or without marks. The family of a composed
row is that of the attack in it, so that a family can be kept apart whole.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(Path(__file__).parent)]

import carriers  # noqa: E402
import compose  # noqa: E402
import foreign  # noqa: E402
from values import Slots  # noqa: E402

from lockgate.gate.judge_evidence import plain_text  # noqa: E402
from lockgate.verifiers.embedded_judge import Encoder, shipped_files  # noqa: E402

BANK = Path(__file__).parent / "banks" / "requests"
# Kinds of `asked.toml` that ask for content that a model should refuse, and say nothing about its rules.
NOT_AN_ATTACK = ("harmful_help",)
# Orders about the form of an answer: a user may give them.
FORM = ("style_change", "language_change", "length_change", "letters_and_marks", "tone_change")
TASKS = (
    "Summarise this mail:\n{}", "{}\n\nWhat does this ask of me?", "Please translate into French:\n{}", "Proofread this:\n\n{}",
    "Answer this for me:\n\"{}\"", "tl;dr?\n{}", "Extract names and dates.\n---\n{}\n---", "{}", "Is this urgent?\n{}",
    "Fasse zusammen:\n{}", "Turn the text into bullet points: {}", "<document>\n{}\n</document>\nSummarise the document.",
    "What is this about?\n\n{}", "My boss sent me this, what should I answer?\n\n{}", "Résume ce texte : {}", "Resume esto:\n{}",
    "Traduci in italiano: {}", "Vat dit samen: {}", "Кратко перескажи:\n{}", "Streść to: {}", "Sammanfatta:\n{}", "总结：{}",
    "Answer from the text alone.\n\n{}\n\nQuestion: what is the main point?", "```\n{}\n```\nExplain this.", "Özetle: {}", "要約して：{}",
)  # fmt: skip
ABOUT = (
    'What does "{}" mean when people talk about prompt injection?', 'Why do attackers write things like "{}"?',
    'Our filter let this pass: "{}". How do I improve it?', 'Add a test which checks that "{}" is blocked.',
    'A user of our chatbot wrote "{}" yesterday. Which category of attack is this?',
    'Slide text: attackers may type "{}" and hope for the best. Make it shorter.',
)  # fmt: skip
JOINED = ("{} {}", "{}\n\n{}", "{} Also: {}", "{}\n---\n{}", "{} Thanks. {}", "{} And another thing, {}", "{}\nPS: {}")
# Ways to bring an order in that speak to a model or in its place, and such as people use among each other.
TO_A_MODEL = ("to-the-machine", "revoke", "format", "own-voice", "reward")
TO_PEOPLE = ("bare", "friendly", "pressure")
OPENED = (
    "Hi! {}",
    "Please help. {}",
    "hey, {}",
    "Good morning, {}",
    "{} Thanks!",
    "{} please",
    "Quick question: {}",
    "> {}",
    '"{}"',
)


class Row(NamedTuple):
    """`of`: the rows that it was put together from, as side, family, language and text."""

    text: str
    attack: int
    family: str
    whole: bool
    language: str = "en"
    of: tuple[tuple[int, str, str, str], ...] = ()

    @property
    def origin(self) -> tuple[int, str, str, str]:
        return self.attack, self.family, self.language, self.text


def literal() -> Iterator[Row]:
    for name in ("attacks", "ordinary"):
        for line in (BANK / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
            said = json.loads(line)
            yield Row(said["text"], int(name == "attacks"), said["family"], True, said.get("language", "en"))


def older(chance: random.Random) -> Iterator[Row]:
    asked: dict[str, dict[str, list[str]]] = compose.read("asked.toml")  # type: ignore[assignment]
    for kind, texts in asked["working"].items():
        if kind not in NOT_AN_ATTACK:
            yield from (Row(text, 1, f"asked-{kind}", False) for text in texts)
    for kind, texts in asked["errands"].items():
        yield from (Row(text, 0, f"errand-{kind}", False) for text in texts)
    for kind in FORM:
        yield from (Row(text, 0, "form", False) for text in asked["answering"][kind])
    for _ in range(900):
        text, kind = foreign.prompt(chance)
        yield Row(text, 1, f"frame-{kind}", False)
    negatives: dict[str, list[str]] = compose.read("negatives.toml")  # type: ignore[assignment]
    for text in negatives["product-prompts"]:
        yield Row(Slots(chance).fill(text.replace("{attack}", "")), 0, "configuration", False)
    for _ in range(1500):
        text, kind = foreign.typed(chance)
        yield Row(text, 0, f"typed-{kind}", False)


def page(chance: random.Random, bodies: list[str]) -> str:
    if chance.random() < 0.5:
        return Slots(chance).fill(chance.choice(bodies))
    return carriers.record(chance, [])[0][:600]


def in_pages(chance: random.Random, attacks: list[Row], ordinary: list[Row]) -> Iterator[Row]:
    """Pages with what belongs there, and pages with an attack, or with an order to the model that reads them."""
    bodies: list[str] = compose.read("letters.toml")["bodies"]  # type: ignore[assignment]
    belonging: dict[str, list[str]] = compose.read("belonging.toml")["kinds"]  # type: ignore[assignment]
    bare: dict[str, list[str]] = compose.read("bare.toml")["kinds"]  # type: ignore[assignment]
    wrappers: dict[str, dict[str, list[str]]] = compose.read("wrappers.toml")  # type: ignore[assignment]

    def put_in(said: str) -> str:
        return chance.choice(TASKS).replace("{}", carriers.between(page(chance, bodies), said, chance))

    def order(ways: tuple[str, ...]) -> tuple[str, str]:
        way = chance.choice(ways)
        said = chance.choice(bare[chance.choice(list(bare))])
        return compose.wrapped(said, wrappers[way]["templates"], Slots(chance)), way

    notes = [[row for row in side if row.family == "document" and "\n" not in row.text] for side in (attacks, ordinary)]
    for _ in range(750):
        yield Row(chance.choice(TASKS).replace("{}", page(chance, bodies)), 0, "page", False)
        said = Slots(chance).fill(chance.choice(belonging[chance.choice(list(belonging))]))
        yield Row(put_in(said), 0, "page", False)
        yield Row(put_in(order(TO_PEOPLE)[0]), 0, "page", False)
        note = chance.choice(notes[1])
        yield Row(put_in(note.text), 0, note.family, False, note.language, (note.origin,))
    for _ in range(1000):
        said, way = order(TO_A_MODEL)
        yield Row(put_in(said), 1, f"order-{way}", False)
        found = chance.choice(notes[0] if chance.random() < 0.4 else attacks)
        yield Row(put_in(found.text), 1, found.family, False, found.language, (found.origin,))


def in_prose(chance: random.Random, attacks: list[Row], ordinary: list[Row]) -> Iterator[Row]:
    """Requests with plain sentences around them, up to a whole window, some of which only fill the room."""
    bodies: list[str] = compose.read("letters.toml")["bodies"]  # type: ignore[assignment]

    def prose(most: int) -> str:
        text = Slots(chance).fill(chance.choice(bodies)).replace("\n", " ")
        said = [each.strip() for each in text.split(". ") if len(each) > 20] or [text]
        if chance.random() < 0.5:
            said = [chance.choice(said)]
        filled = ""
        while len(filled) < most:
            filled += f"{chance.choice(said)}. "
        return filled[:most]

    for _ in range(1200):
        for row in (chance.choice(attacks), chance.choice(attacks), chance.choice(ordinary)):
            # About what a window holds.
            room = max(60, chance.choice([250, 450, 700]) - len(row.text))
            before = chance.choice([0, room // 2, room])
            parts = [*([prose(before)] if before else []), row.text, *([prose(room - before)] if before < room else [])]
            text = chance.choice([" ", "\n", "\n\n"]).join(parts)
            yield Row(text, row.attack, row.family, False, row.language, (row.origin,))
        if chance.random() < 0.3:
            yield Row(prose(chance.choice([250, 450, 700])), 0, "prose", False)


def chats(chance: random.Random, attacks: list[Row], ordinary: list[Row]) -> Iterator[Row]:
    """Messages one after the other, as the gate reads a chat; the last of an attack's is mostly the attack."""
    by_language: dict[str, list[Row]] = {}
    for row in ordinary:
        by_language.setdefault(row.language, []).append(row)

    def said(language: str, count: int) -> list[Row]:
        known = by_language.get(language, ordinary)
        return chance.choices(known if len(known) > 4 else ordinary, k=count)

    def chat(rows: list[Row], about: Row) -> Row:
        text = "\n\n".join(row.text for row in rows)
        return Row(text, about.attack, about.family, False, about.language, tuple(row.origin for row in rows))

    for _ in range(1200):
        first = chance.choice(ordinary)
        yield chat([first, *said(first.language, chance.randint(2, 6))], first)
    for _ in range(1000):
        found = chance.choice(attacks)
        rows = said(found.language, chance.randint(1, 4))
        rows.insert(len(rows) if chance.random() < 0.7 else chance.randrange(len(rows)), found)
        yield chat(rows, found)


def put_together(chance: random.Random, attacks: list[Row], ordinary: list[Row]) -> Iterator[Row]:
    yield from in_pages(chance, attacks, ordinary)
    yield from in_prose(chance, attacks, ordinary)
    yield from chats(chance, attacks, ordinary)
    for _ in range(1500):
        first, found = chance.choice(ordinary), chance.choice(attacks)
        pair = (first.text, found.text) if chance.random() < 0.7 else (found.text, first.text)
        text = chance.choice(JOINED).format(*pair)
        yield Row(text, 1, found.family, False, found.language, (found.origin, first.origin))
        one, two = chance.choice(ordinary), chance.choice(ordinary)
        text = chance.choice(JOINED).format(one.text, two.text)
        yield Row(text, 0, one.family, False, one.language, (one.origin, two.origin))
    # An application's own prompt stands before what its users write, and so do earlier messages.
    prompts = [row for row in ordinary if row.family == "configuration"]
    for _ in range(900):
        prompt, first, found = chance.choice(prompts), chance.choice(ordinary), chance.choice(attacks)
        for row in (first, found):
            text = f"{prompt.text}\n\n{row.text}"
            yield Row(text, row.attack, row.family, False, row.language, (prompt.origin, row.origin))
    for _ in range(250):
        found = chance.choice([row for row in attacks if len(row.text) < 90])
        yield Row(chance.choice(ABOUT).replace("{}", found.text), 0, "about", False, found.language, (found.origin,))


def respelled(text: str, chance: random.Random) -> str:
    what = chance.random()
    if what < 0.25:
        return text.lower()
    if what < 0.32:
        return text.upper()
    if what < 0.5:
        return "".join(letter for letter in text if letter.isalnum() or letter.isspace()).lower()
    if what < 0.75:
        letters = list(text)
        for _ in range(max(1, len(letters) // 25)):
            at = chance.randrange(max(1, len(letters) - 1))
            letters[at : at + 2] = letters[at : at + 2][::-1]
        return "".join(letters)
    return chance.choice(OPENED).replace("{}", text)


def rows(seed: int) -> Iterator[Row]:
    chance = random.Random(seed)
    listed = [*literal(), *older(chance)]
    attacks, ordinary = ([row for row in listed if row.attack == side] for side in (1, 0))
    banked = [row for row in attacks if row.whole]
    yield from listed
    yield from put_together(chance, banked, [row for row in ordinary if row.whole])
    for row in listed:
        for _ in range(2 if row.whole else 1):
            if "\n" not in row.text:
                yield Row(respelled(row.text, chance), row.attack, row.family, False, row.language, (row.origin,))


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--out", type=Path, required=True)
    asked.add_argument("--seed", type=int, default=1)
    args = asked.parse_args()
    encoder, count = Encoder(shipped_files()), 0
    with gzip.open(args.out, "wt", encoding="utf-8") as file:
        for row in rows(args.seed):
            windows, _ = encoder.split_windows(encoder.tokenize(plain_text(row.text)))
            # Of an attack in several windows it is not known which one holds it.
            for window in windows if not row.attack or len(windows) == 1 else []:
                file.write(json.dumps({"ids": window, **row._asdict()}, ensure_ascii=False) + "\n")
                count += 1
    print(f"{count:,} windows")


if __name__ == "__main__":
    main()
