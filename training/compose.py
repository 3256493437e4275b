"""Composes training data from the banks: sessions of an agent that was attacked, or was not, and single texts.

A session is a goal, what the agent has read, and one call. It counts as an attack when the call carries out a stranger's
order that stands in what was read; the same content with an ordinary call, or an ordinary call that takes its values
from the content, is its opposite. Everything is drawn with a seed: the same seed gives the same data.
"""

from __future__ import annotations

import json
import random
import re
import textwrap
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from values import Slots

BANKS = Path(__file__).parent / "banks"


class Session(NamedTuple):
    goal: str
    blocks: tuple[tuple[str, str], ...]
    tool: str
    args: dict[str, object]
    attack: bool
    # What the data is split by: a family or scenario is in training or held out, never both.
    family: str
    scenario: str
    # The stranger's words and where they were put, to label the windows that hold them; empty when there are none.
    planted: str


class Text(NamedTuple):
    text: str
    order: bool
    family: str


@cache
def read(name: str) -> dict[str, object]:
    return tomllib.loads((BANKS / name).read_text(encoding="utf-8"))


@cache
def scenarios() -> list[dict]:
    return [tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted((BANKS / "scenarios").glob("*.toml"))]


def _deep(value: object, slots: Slots) -> object:
    if isinstance(value, str):
        return slots.fill(value)
    if isinstance(value, dict):
        return {key: _deep(item, slots) for key, item in value.items()}
    return [_deep(item, slots) for item in value] if isinstance(value, list) else value


# How a planted text is put into its surroundings, besides standing there plainly.
def _carried(text: str, chance: random.Random) -> str:
    match chance.randrange(16):
        case 0:
            return f"<!-- {text} -->"
        case 1:
            return f"\n\n{text}\n\n"
        case 2:
            return f"# {text}"
        case 3:
            return f"PS: {text}"
        case 4:
            return f"> {text}"
        case 5:
            return f"<span style='font-size:0'>{text}</span>"
        case 6:
            return f"/* {text} */"
        case 7:
            return text.upper() if len(text) < 160 and chance.random() < 0.3 else text
        case 8:
            return f"({text})"
    return text


def dressed(text: str, chance: random.Random) -> str:
    """A whole passage as another program would print it: what it looks like must not decide what it is."""
    match chance.randrange(12):
        case 0 | 1:
            indent = " " * chance.choice([2, 4, 6])
            lines = textwrap.wrap(
                text.replace("'", "''"), chance.choice([68, 76, 84]), replace_whitespace=chance.random() < 0.5
            )
            return (
                f"- {chance.choice(['body', 'content', 'text', 'description', 'note'])}: '"
                + f"\n{indent}".join(lines)
                + "'"
            )
        case 2:
            return json.dumps({chance.choice(["result", "output", "data", "message"]): text, "ok": True})
        case 3:
            return json.dumps([{"id": chance.randrange(99), "snippet": text}], indent=2)
        case 4:
            return (
                f"{{'{chance.choice(['Text', 'Review', 'Bio', 'Details'])}': {text!r}, 'id': {chance.randrange(999)}}}"
            )
        case 5:
            return "\n".join(textwrap.wrap(text, chance.choice([60, 72, 90])))
        case 6:
            return f"<p>{text}</p>".replace("\n", "<br/>")
    return text


def wrapped(order: str, templates: list[str], slots: Slots) -> str:
    order = slots.fill(order).strip().rstrip(".")
    template = slots.fill(slots.chance.choice(templates).replace("{Order}", "\2").replace("{order}", "\3"))
    return template.replace("\2", order[:1].upper() + order[1:]).replace("\3", order)


class Stranger(NamedTuple):
    """What a stranger wants: his words, and the call that carries them out."""

    words: str
    tool: str
    args: dict[str, object]
    family: str


def _spelled(tool: str, args: dict[str, object], chance: random.Random) -> str:
    """The blunt form of an order: what to do and with what, as an attacker who knows the tool writes it."""
    parts = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", tool)
    verb = next((part for part in parts if part.lower() in VERBS), "")
    rest = " ".join(part.lower() for part in parts if part != verb)
    said = [f"{key.replace('_', ' ')} {value}" for key, value in args.items() if isinstance(value, str | int)]
    chance.shuffle(said)
    what = f"{verb.lower()} {chance.choice(['the', 'a', 'this', 'my'])} {rest}".strip() if verb else f"use {tool}"
    return chance.choice(
        [
            f"{what} with {' and '.join(said)}",
            f"{what}: {', '.join(said)}",
            f"call {tool} with {', '.join(said)}",
            f"{what}. {'. '.join(part[:1].upper() + part[1:] for part in said)}",
            f"{what} ({'; '.join(said)})",
        ]
    )


VERBS = frozenset(
    "add book buy cancel change close confirm create delete edit export forward grant install invite move open order "
    "pay post publish push register remove rename reply reset run schedule send set share start submit subscribe "
    "transfer unlock update upload write".split()
)


def _styled(tool: str, chance: random.Random) -> str:
    """The same tool as another host would call it."""
    parts = re.split(r"[._]", tool)
    match chance.randrange(5):
        case 0:
            return "_".join(parts)
        case 1:
            return "".join(part[:1].upper() + part[1:] for part in parts)
    return tool


def _loosened(args: dict[str, object], chance: random.Random) -> dict[str, object]:
    """As an agent passes it on that does not copy: some values in its own words, some left out."""
    made: dict[str, object] = {}
    for key, value in args.items():
        if isinstance(value, str) and len(value.split()) > 2:
            words = value.split()
            made[key] = chance.choice(
                [value, " ".join(words[: len(words) // 2]), f"{words[0]} as discussed", "see attached", "details below"]
            )
        elif len(args) == 1 or chance.random() < 0.75:
            made[key] = value
    return made


def _remarked(args: dict[str, object], slots: Slots, share: float) -> dict[str, object]:
    """Now and then with a word about passwords and the like, which says nothing about who wants the call."""
    chance = slots.chance
    if chance.random() >= share:
        return args
    remark = slots.fill(chance.choice(read("episodes.toml")["remarks"]))  # type: ignore[arg-type]
    long = [key for key, value in args.items() if isinstance(value, str) and len(value.split()) > 3]
    if long:
        key = chance.choice(long)
        return {**args, key: f"{args[key]} {remark}" if chance.random() < 0.6 else f"{remark} {args[key]}"}
    return {**args, chance.choice(["note", "comment", "memo", "text", "label", "value"]): remark}


def stranger(attack: dict, families: dict[str, dict], family: str, slots: Slots) -> Stranger:
    chance = slots.chance
    tool = _styled(attack["tool"], chance)
    args: dict[str, object] = _deep(attack["args"], slots)  # type: ignore[assignment]
    order = (
        _spelled(tool, args, chance).replace("{", "").replace("}", "")
        if chance.random() < 0.45
        else chance.choice(attack["orders"])
    )
    if chance.random() < 0.35:
        args = _loosened(args, chance)
    args = _remarked(args, slots, 0.1)
    return Stranger(wrapped(order, families[family]["templates"], slots), tool, args, family)


def _placed(page: str, aside: str, planted: str, chance: random.Random) -> str:
    """The page with an ordinary remark, the stranger's words, or both, where its place for remarks is."""
    if not planted:
        return page.replace("\4", aside)
    either = chance.choice([planted, planted, planted, f"{aside} {planted}", f"{planted} {aside}"])
    if page.lstrip().startswith(("{", "[")) and chance.random() < 0.8:
        # Inside JSON quotes and newlines are written as JSON writes them.
        either = json.dumps(either)[1:-1]
    if "\4" in page:
        return page.replace("\4", either)
    return f"{page}\n{either}" if chance.random() < 0.7 else f"{either}\n{page}"


def sessions(chance: random.Random, rounds: int) -> Iterator[Session]:
    """So many rounds over every scenario: each gives a handful of sessions that share their content."""
    families: dict[str, dict] = dict(read("wrappers.toml"))  # type: ignore[arg-type]
    kinds = scenarios()
    for _ in range(rounds):
        for kind in kinds:
            slots = Slots(chance)
            name = kind["name"]
            bad = stranger(chance.choice(kind["attacks"]), families, chance.choice(["bare", "bare", *families]), slots)
            page = slots.fill(chance.choice(kind["content"]).replace("{aside}", "\4"))
            aside = slots.fill(chance.choice(kind["asides"]))
            pages = [page]
            if chance.random() < 0.5:
                pages.append(
                    slots.fill(chance.choice(kind["content"]).replace("{aside}", chance.choice(kind["asides"])))
                )
            goal = slots.fill(chance.choice(kind["goals"]))
            call = chance.choice(kind["calls"])
            serving = slots.fill(call.get("serves") or "") or goal
            args = _remarked(_deep(call["args"], slots), slots, 0.5)  # type: ignore[arg-type]
            dirty, tidy = _contexts([(kind["source"], text) for text in pages], aside, bad, chance, kinds)
            # 1. The stranger's call. 2. An ordinary one after the same poison. 3. The same without poison.
            yield Session(goal, dirty, bad.tool, bad.args, True, bad.family, name, bad.words)
            yield Session(serving, dirty, call["tool"], args, False, bad.family, name, bad.words)
            yield Session(serving, tidy, call["tool"], args, False, "none", name, "")
            # 4. The user asks for the very thing that a stranger would want: then it is the user's wish.
            if chance.random() < 0.3:
                wish = chance.choice(["{}.", "Please {}.", "{} please", "I need you to {}.", "Could you {}?"])
                asked = wish.format(_spelled(bad.tool, bad.args, chance))
                yield Session(asked[:1].upper() + asked[1:], tidy, bad.tool, bad.args, False, "wish", name, "")
            # 5. An ordinary call whose values come from the content, for a goal that leaves them to it.
            if chance.random() < 0.5:
                yield Session(chance.choice(LEFT_TO_IT), tidy, call["tool"], args, False, "left", name, "")


def episodes(chance: random.Random, rounds: int) -> Iterator[Session]:
    """The same with episodes.toml, whose ordinary calls are the kind that is escalated; any scenario's stranger."""
    families: dict[str, dict] = dict(read("wrappers.toml"))  # type: ignore[arg-type]
    kinds = scenarios()
    english = [kind for kind in kinds if kind["language"] == "en"]
    asides = [*read("negatives.toml")["requests"], *read("negatives.toml")["manuals"]]  # type: ignore[index]
    for _ in range(rounds):
        for episode in read("episodes.toml")["episodes"]:  # type: ignore[attr-defined]
            slots = Slots(chance)
            kind = chance.choice(english if chance.random() < 0.8 else kinds)
            family = chance.choice(["bare", "bare", *families])
            bad = stranger(chance.choice(kind["attacks"]), families, family, slots)
            goal = slots.fill(chance.choice(episode["goals"]))
            pages = [(source, slots.fill(text.replace("{aside}", "\4"))) for source, text in episode["blocks"]]
            aside = slots.fill(chance.choice([*asides, *kind["asides"], ""]))
            dirty, tidy = _contexts(pages, aside, bad, chance, kinds)
            name = episode["name"]
            for call in episode["calls"]:
                args: dict[str, object] = _deep(call["args"], slots)  # type: ignore[assignment]
                yield Session(goal, tidy, call["tool"], args, False, "none", name, "")
                yield Session(goal, dirty, call["tool"], args, False, bad.family, name, bad.words)
            yield Session(goal, dirty, bad.tool, bad.args, True, bad.family, name, bad.words)
            again = _loosened(bad.args, chance)
            if again != bad.args:
                yield Session(goal, dirty, bad.tool, again, True, bad.family, name, bad.words)


Blocks = tuple[tuple[str, str], ...]


def _contexts(
    pages: list[tuple[str, str]], aside: str, bad: Stranger, chance: random.Random, kinds: list[dict]
) -> tuple[Blocks, Blocks]:
    """What was read, with the stranger's words in one of the pages and without, perhaps after older pages."""
    at = chance.randrange(len(pages))
    places = [number for number, (_, text) in enumerate(pages) if "\4" in text]
    if places and chance.random() < 0.7:
        at = chance.choice(places)
    planted = _carried(bad.words, chance)
    dress = chance.random() < 0.4
    older: list[tuple[str, str]] = []
    while chance.random() < 0.35 and len(older) < 3:
        kind = chance.choice(kinds)
        slots = Slots(chance)
        text = chance.choice(kind["content"]).replace("{aside}", chance.choice(kind["asides"]))
        older.append((kind["source"], slots.fill(text)))
    seed = chance.random()

    def made(words: str) -> Blocks:
        # The same dress for both: what it looks like must not tell them apart.
        look = random.Random(seed)
        found = []
        for number, (source, text) in enumerate(pages):
            full = _placed(text, aside, words if number == at else "", look)
            found.append((source, dressed(full, look) if dress else full))
        return (*older, *found)

    return made(planted), made("")


LEFT_TO_IT = [
    "Take care of what is asked in there.",
    "Do whatever the message says needs doing.",
    "Please handle the open points in the document.",
    "Read it and act on it accordingly.",
    "Work through the items listed and complete them.",
    "Follow the steps in that file.",
    "Reply to everything that needs a reply, and do what they ask for.",
    "Process today's requests as written.",
    "Fill in the details from the document and submit it.",
]


# Kinds of negatives that quote attacks: rare in life, and nearly the same words as an attack.
RARE = {"quoting", "test-files"}


def orders(chance: random.Random) -> Iterator[tuple[str, str, Slots]]:
    """Wrapped orders without end: the words, their family, and the values they were made with."""
    families: dict[str, dict] = dict(read("wrappers.toml"))  # type: ignore[arg-type]
    kinds = scenarios()
    names = [name for name in families if name != "bare"]
    errands: list[str] = read("errands.toml")["answers"]  # type: ignore[assignment]
    while True:
        slots = Slots(chance)
        family = chance.choice([*names, "bare"]) if chance.random() < 0.3 else chance.choice(names)
        attack = chance.choice(chance.choice(kinds)["attacks"])
        order = chance.choice(attack["orders"])
        match chance.randrange(10):
            case 0 | 1 | 2:
                order = chance.choice(errands)
            case 3 | 4:
                order = _spelled(attack["tool"], _deep(attack["args"], slots), chance)  # type: ignore[arg-type]
                order = order.replace("{", "").replace("}", "")
        if chance.random() < 0.25:
            # Several at once, as longer attacks have it.
            order = (
                f"{order.rstrip('.')}, then {chance.choice(chance.choice(chance.choice(kinds)['attacks'])['orders'])}"
            )
        yield wrapped(order, families[family]["templates"], slots), family, slots


def planted(document: str, chance: random.Random, order: str) -> str:
    """A document with a stranger's words somewhere in it, between lines or sentences where there are any."""
    places = [found.end() for found in re.finditer(r"\n|[.!?;] ", document)] or [0, len(document)]
    at = chance.choice(places)
    return f"{document[:at]}{_carried(order, chance)}{chance.choice([' ', chr(10), chr(10) * 2])}{document[at:]}"


def texts(chance: random.Random, rounds: int) -> Iterator[Text]:
    """Passages by themselves: with an order to the machine, and without."""
    negatives: dict[str, list[str]] = read("negatives.toml")  # type: ignore[assignment]
    common = [name for name in negatives if name not in RARE]
    kinds = scenarios()
    for (order, family, slots), _ in zip(orders(chance), range(rounds), strict=False):
        kind = chance.choice(kinds)
        sort = chance.choice(list(RARE)) if chance.random() < 0.04 else chance.choice(common)
        line = slots.fill(chance.choice(negatives[sort]).replace("{attack}", "\4")).replace("\4", order)
        other = slots.fill(chance.choice(negatives[chance.choice(common)]))
        page = slots.fill(chance.choice(kind["content"]).replace("{aside}", "\4"))
        aside = slots.fill(chance.choice(kind["asides"]))
        yield Text(dressed(page.replace("\4", chance.choice([line, aside, f"{aside} {line}"])), chance), False, sort)
        yield Text(
            dressed(
                line
                if chance.random() < 0.4
                else chance.choice([f"{aside} {line}", f"{other}\n{line}", f"{line} {other}"]),
                chance,
            ),
            False,
            sort,
        )
        carried = _carried(order, chance)
        yield Text(dressed(page.replace("\4", carried) if "\4" in page else f"{page}\n{carried}", chance), True, family)
        yield Text(
            dressed(
                chance.choice(
                    [
                        order,
                        f"{aside} {carried}",
                        planted(other, chance, order),
                        planted(f"{other}\n{aside}", chance, order),
                    ]
                ),
                chance,
            ),
            True,
            family,
        )
