"""Texts that carry a request that is foreign to them, texts that carry none, and prompts that work on an assistant.

Each has a number from 0 to 1, how foreign: nothing in a record or a mail that asks for nothing; little in one that asks
its reader for something; much for an errand that no reader of mail would run; all for an order to the machine. A
prompt by itself lies between, as it asks an assistant for something and is where it belongs.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import carriers
import compose
from values import Slots

CODES = "Python Rust Go SQL".split()
HARMLESS, ASKED, QUOTED, TYPED, ERRAND, WORKED = 0.0, 0.03, 0.15, 0.03, 0.95, 1.0


class Foreign(NamedTuple):
    """`said` is what was put into the text. `order` is the older question, whether it gives orders to the machine; None where that has no clear answer."""

    text: str
    foreign: float
    order: float | None
    family: str
    scenario: str
    said: str = ""


def task(chance: random.Random) -> tuple[str, str]:
    """An errand, and its kind."""
    bank: dict = compose.read("tasks.toml")  # type: ignore[assignment]
    kind = chance.choice(list(bank["kinds"]))
    said = chance.choice(bank["kinds"][kind])
    said = re.sub(r"<(\w+)>", lambda found: chance.choice(bank["words"][found[1]]), said)
    return said, kind


def one_of(bank: str, table: str, chance: random.Random) -> tuple[str, str]:
    """A line of a bank's table, every kind alike, and its kind."""
    kinds: dict[str, list[str]] = compose.read(bank)[table]  # type: ignore[assignment]
    kind = chance.choice(list(kinds))
    return chance.choice(kinds[kind]), kind


def prompt(chance: random.Random) -> tuple[str, str]:
    """What a client types that wants more than it should get, and its kind."""
    bank: dict = compose.read("prompts.toml")  # type: ignore[assignment]
    if chance.random() < 0.08:
        return chance.choice(bank["foreign"]["said"]), "foreign"
    kind = chance.choice(list(bank["frames"]))
    slots, frame = Slots(chance), chance.choice(bank["frames"][kind])
    ask = task(chance)[0] if chance.random() < 0.25 else chance.choice(bank["asks"])
    frame = frame.replace("{said}", chance.choice(bank["foreign"]["said"]))
    ask = ask if ask[-1] in ".?!" else ask + chance.choice([".", "", "!"])
    text = frame.replace("<Ask>", ask[:1].upper() + ask[1:]).replace("<ask>", ask)
    text = re.sub("<shape>", lambda _: chance.choice(bank["shapes"]), text)
    if kind not in ("shaped", "parts") and chance.random() < 0.15:
        text = f"{text} Answer {chance.choice(bank['shapes'])}."
    text = text.replace("{lang}", chance.choice(bank["languages"]))
    return slots.fill(text), kind


def typed(chance: random.Random) -> tuple[str, str]:
    """What people type who want something ordinary, and its kind."""
    bank: dict = compose.read("prompts.toml")  # type: ignore[assignment]
    if chance.random() < 0.35:
        said, kind = task(chance)
        return said, f"typed-{kind}"
    kind = chance.choice(["trigger", "trigger", "plain"])
    text = chance.choice(bank["ordinary"][kind]).replace("{code}", chance.choice(CODES))
    if chance.random() < 0.15:
        text = f"{text} {chance.choice(bank['ordinary']['plain'])}"
    return Slots(chance).fill(text), kind


ADDRESSED = ["{}", "{}", "{}", "{}", "{}", "PS: {}", "By the way: {}", "And one more thing. {}", "Also: {}", "Hey, {}", "Before you go on: {}"]  # fmt: skip


def rows(
    chance: random.Random, count: int, listed: list[str], document: Callable[[], tuple[str, str]]
) -> Iterator[Foreign]:
    """So many, with `listed` mail and with documents from elsewhere as carriers."""
    negatives: dict[str, list[str]] = compose.read("negatives.toml")  # type: ignore[assignment]
    common, made_up, kinds = (
        [name for name in negatives if name not in compose.RARE],
        compose.orders(chance),
        compose.scenarios(),
    )
    wrappers: dict[str, dict] = compose.read("wrappers.toml")  # type: ignore[assignment]

    def put_into(said: str) -> tuple[str, str]:
        """The words in a carrier of some kind, and which."""
        what = chance.random()
        if what < 0.45:
            if said and chance.random() < 0.4:
                said = carriers.between(carriers.notice(Slots(chance)), said, chance)
            return carriers.record(chance, [said] if said else [])
        if what < 0.75 and listed:
            number = chance.randrange(len(listed))
            text, name = carriers.mail(chance, listed[number : number + 1]), f"mail-{number % 40}"
        elif what < 0.9:
            name, text = document()
        else:
            kind = chance.choice(kinds)
            page = chance.choice(kind["content"]).replace("{aside}", chance.choice(kind["asides"]))
            name, text = kind["name"], Slots(chance).fill(page)[:700]
        return (carriers.between(text, said, chance) if said else text), name

    def in_carrier(said: str, foreign: float, order: float | None, family: str) -> Foreign:
        text, scenario = put_into(said)
        return Foreign(text, foreign, order, family, scenario, said)

    for _ in range(count):
        slots, what = Slots(chance), chance.random()
        if what < 0.20:
            yield in_carrier("", HARMLESS, 0.0, "none")
        elif what < 0.24:
            other = (
                carriers.notice(slots) if chance.random() < 0.5 or not listed else carriers.mail(chance, listed)[-160:]
            )
            yield in_carrier(other, HARMLESS, 0.0, "none")
        elif what < 0.32:
            sort = chance.choice(common)
            said = slots.fill(chance.choice(negatives[sort]).replace("{attack}", ""))
            asked = QUOTED if sort in ("product-prompts", "about-models") else ASKED
            yield in_carrier(said, asked, 0.25, sort)
        elif what < 0.41:
            said, kind = one_of("belonging.toml", "kinds", chance)
            said = slots.fill(said)
            if chance.random() < 0.5:
                yield in_carrier(said, ASKED, 0.15, f"belonging-{kind}")
            else:
                yield Foreign(said, ASKED, 0.15, f"belonging-{kind}", "")
        elif what < 0.56:
            order, family, _ = next(made_up)
            yield in_carrier(order, WORKED, 1.0, family)
        elif what < 0.69:
            said, kind = one_of("bare.toml", "kinds", chance)
            said = slots.fill(said)
            if chance.random() < 0.25:
                # In one of the ways to bring an order in.
                family = chance.choice(list(wrappers))
                said = compose.wrapped(said, wrappers[family]["templates"], slots)
            yield in_carrier(said, ERRAND, 0.9, f"bare-{kind}")
        elif what < 0.80:
            pick = chance.random()
            if pick < 0.35:
                said, kind = task(chance)
            else:
                table = "errands" if pick < 0.7 else "answering"
                said, kind = one_of("asked.toml", table, chance)
                kind = f"{table}-{kind}"
            yield in_carrier(chance.choice(ADDRESSED).replace("{}", said), ERRAND, None, kind)
        elif what < 0.88:
            said, kind = prompt(chance)
            if chance.random() < 0.4:
                said, kind = one_of("asked.toml", "working", chance)
                kind = f"working-{kind}"
            yield Foreign(said, WORKED, None, kind, "")
        else:
            # The same by itself is what a user types, and no stranger's.
            said, kind = typed(chance)
            if (pick := chance.random()) < 0.4:
                said, kind = one_of("asked.toml", "errands", chance)
                kind = f"errands-{kind}"
            elif pick < 0.55:
                said, kind = one_of("bare.toml", "kinds", chance)
                said, kind = slots.fill(said), f"bare-{kind}"
            yield Foreign(said, TYPED, None, kind, "")
