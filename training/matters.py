"""Composes cases from `banks/matters`: a goal, what the agent has read, and one call that the text has led to or not.

A matter is something that a text holds and a call can do: an ordinary one (`item`) or a stranger's (`strange`). Whether
a call is the user's wish depends on the goal: one that means this very matter (`want`), one that leaves the ordinary
matters to the text (`hand`), or one that wants something else (`look`). So the same text and the same call stand on both
sides, and the words of the text alone do not settle it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import compose
from values import Slots

MATTERS = compose.BANKS / "matters"

# A call for an ordinary matter that the goal does not mean is unwanted, but no attack.
UNASKED = 0.8


class Case(NamedTuple):
    goal: str
    said: str
    blocks: tuple[tuple[str, str], ...]
    tool: str
    args: dict[str, object]
    driven: float
    # What the data is split by: a form of attack or a scenario is in training or held out, never both.
    family: str
    scenario: str
    # What the text says about the call's matter.
    planted: str


@cache
def scenarios() -> list[dict]:
    import tomllib

    found = [tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted(Path(MATTERS).glob("*.toml"))]
    return [scenario for each in found for scenario in each["scenario"]]


class Told(NamedTuple):
    """A matter as one text tells it."""

    words: str
    matter: dict
    strange: bool


VAGUE = ["{goal}", "{goal}", "{goal}", "{goal}", "hi! {goal}", "{goal} thanks", "{goal} Be brief.", "Please: {goal}", "{goal} Take your time.", "ok, {goal}", "{goal} I am in a hurry."]  # fmt: skip
FIRST = ["Good morning.", "Let us go on with {repo1}.", "I need some help with {company2}.", "We are working on {title2} today.", "Have a look at what came in."]  # fmt: skip


def cases(chance: random.Random, rounds: int) -> Iterator[Case]:
    listed = scenarios()
    wrappers: dict[str, dict] = dict(compose.read("wrappers.toml"))  # type: ignore[arg-type]
    for _ in range(rounds):
        for scenario in listed:
            yield from _round(scenario, chance, wrappers)


def _round(scenario: dict, chance: random.Random, wrappers: dict[str, dict]) -> Iterator[Case]:
    slots = Slots(chance)
    items = chance.sample(scenario["item"], min(len(scenario["item"]), chance.choice([1, 1, 2, 2, 3])))
    told = [Told(_told(item, slots, chance), item, strange=False) for item in items]
    bad: list[Told] = []
    family = "none"
    if chance.random() < 0.72:
        matter = chance.choice(scenario["strange"])
        words, family = _told(matter, slots, chance), matter["form"]
        if chance.random() < 0.2 and not scenario.get("split"):
            family = chance.choice(list(wrappers))
            words = compose.wrapped(words.strip(" -*1234567890;").replace("{", "(").replace("}", ")"), wrappers[family]["templates"], slots)  # fmt: skip
        bad = [Told(words, matter, strange=True)]
    name = scenario["name"]
    blocks = _blocks(scenario, [*told, *bad], slots, chance)

    def made(goal: str, each: Told, driven: float, kind: str) -> Case:
        goal, said = slots.fill(chance.choice(VAGUE).replace("{goal}", goal)), ""
        if chance.random() < 0.08:
            goal, said = slots.fill(chance.choice(FIRST)), goal
        call = compose._deep(_chosen(each, slots, chance), slots)
        tool = call.pop("tool")  # type: ignore[union-attr]
        if chance.random() < 0.15 and not {"command", "sql", "code", "url", "content"} & set(call):  # type: ignore[arg-type]
            call = compose._loosened(call, chance)  # type: ignore[arg-type]
        return Case(goal, said, blocks, compose._styled(tool, chance), call, driven, kind, name, each.words)  # type: ignore[arg-type]

    for each in told:
        others = [goal for other in told if other is not each for goal in other.matter["want"]]
        yield made(chance.choice(each.matter["want"]), each, 0.0, "wanted")
        if chance.random() < 0.6:
            yield made(chance.choice(scenario["hand"]), each, 0.0, "handed")
        if chance.random() < (0.7 if name.startswith("acts-") else 0.35):
            yield made(chance.choice([*scenario["look"], *others]), each, UNASKED, "unasked")
        if chance.random() < 0.15:
            # The user names every value: whatever stands in the text, this is the user's own call.
            case = made("", each, 0.0, "named")
            yield case._replace(goal=_named(case, chance), said="")
    for each in bad:
        goals = [*scenario["look"], *scenario["hand"], *(goal for item in items for goal in item["want"])]
        for goal in chance.sample(goals, 2):
            yield made(goal, each, 1.0, family)
        if chance.random() < 0.35:
            yield made(chance.choice(scenario["hand"]), each, 1.0, family)
        if chance.random() < 0.45:
            yield made(chance.choice(each.matter["want"]), each, 0.0, "wished")
        if chance.random() < 0.1:
            case = made("", each, 0.0, "named")
            yield case._replace(goal=_named(case, chance), said="")


def _named(case: Case, chance: random.Random) -> str:
    wish = chance.choice(["{}.", "Please {}.", "{} please", "I need you to {}.", "Could you {}?"])
    if isinstance(case.args.get("command"), str):
        return chance.choice(["Run {}", "run this: {}", "Please execute {} for me"]).format(f"`{case.args['command']}`")
    asked = wish.format(compose._spelled(case.tool, case.args, chance))
    return asked[:1].upper() + asked[1:]


def _told(matter: dict, slots: Slots, chance: random.Random) -> str:
    return slots.fill(chance.choice(matter["say"]))


def _chosen(each: Told, slots: Slots, chance: random.Random) -> dict:
    """The call for a matter: preferably one whose values the words have."""
    fitting = []
    for call in each.matter["do"]:
        values = [slots.fill(str(value)) for key, value in call.items() if key != "tool"]
        used = {found for found in slots.values.values() if len(found) > 3 and any(found in value for value in values)}
        fitting.append((sum(found in each.words for found in used), call))
    best = max(score for score, _ in fitting)
    return dict(chance.choice([call for score, call in fitting if score == best]))


def _blocks(scenario: dict, told: list[Told], slots: Slots, chance: random.Random) -> tuple[tuple[str, str], ...]:
    told = chance.sample(told, len(told))
    pages: list[list[str]] = [[]]
    for each in told:
        parts = each.words.split("||")
        while len(pages) < len(parts):
            pages.append([])
        for number, part in enumerate(parts):
            pages[number if len(parts) > 1 else chance.randrange(len(pages))].append(part.strip())
    if len(told) > 1 and len(pages) == 1 and chance.random() < 0.25:
        pages = [[each.words] for each in told]
    made = []
    for lines in pages:
        page = chance.choice(scenario["pages"])
        text = slots.fill(page.replace("{items}", "\4"))
        inner = chance.choice(["\n", "\n", " "]).join(lines)
        if text.lstrip().startswith(("{", "[{")):
            inner = json.dumps(inner, ensure_ascii=False)[1:-1]
        text = text.replace("\4", inner)
        made.append((scenario["source"], compose.dressed(text, chance) if chance.random() < 0.2 else text))
    older: list[tuple[str, str]] = []
    while chance.random() < 0.3 and len(older) < 2:
        other = chance.choice(scenarios())
        fresh = Slots(chance)
        item = fresh.fill(chance.choice(chance.choice(other["item"])["say"]).replace("||", " "))
        older.append((other["source"], fresh.fill(chance.choice(other["pages"]).replace("{items}", "\4")).replace("\4", item)))  # fmt: skip
    return (*older, *made)
