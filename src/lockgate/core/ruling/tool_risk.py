"""A tool's name and annotations -> its risk, and what the name says it does; the words stand in `effects/tools.tbl`.

A name is judged in this order; the first step that knows decides:

1. A name that is not plain ASCII words is high: it may only look like a harmless one.
2. The table of known tools: names of known hosts and servers.
3. The first verb of the name. One that acts is high; one that looks is low, unless
   4. a word further on acts as well,
   5. it looks at an address of the caller's choosing (the address itself can carry data out),
   6. it looks at secrets, or
   7. the verb is vague and what it looks at is not a thing we know.
8. A name without a verb is high: we know nothing about it.

The policy's own list and MCP annotations are asked afterwards. They can raise the risk, and never lower it.
A server that lies about its tools can still call anything `get_weather`: a name is a claim, never a proof.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from lockgate.core.errors import quoted
from lockgate.core.tables import read_table
from lockgate.core.vocabulary import Risk

# Longer names are refused before any cache sees them: a cache of 4,096 names must not hold 4,096 megabytes.
MAX_NAME = 256
CACHED_NAMES = 4096
EFFECTS, TABLE = "lockgate.core.ruling.effects", "tools.tbl"


def read_words(section: str, title: str) -> dict[str, frozenset[str]]:
    """Return the words of one section by their sort; rows of one sort count together."""
    words: dict[str, frozenset[str]] = {}
    for sort, row in read_table(EFFECTS, TABLE, section, (title, "words")):
        words[sort] = words.get(sort, frozenset()) | frozenset(row.split())
    return words


def _word_sets(section: str) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(words.split()) for (words,) in read_table(EFFECTS, TABLE, section, ("words",)))


# Acting verbs and nouns, grouped by what people say for one another. A verb may stand in several groups.
VERB_CLASSES, OBJECT_CLASSES = _word_sets("verbs"), _word_sets("things")
VERBS: frozenset[str] = frozenset().union(*VERB_CLASSES)
WORDS = read_words("words", "sort")
_VERB_OR_NOUN, _VERB_BEFORE_NOUN = WORDS["acting noun"], WORDS["acting before noun"]
_MAY_ACT = _VERB_OR_NOUN | _VERB_BEFORE_NOUN
_LOOKS, _LOOKS_VAGUELY = WORDS["looks"], WORDS["looks vaguely"]
# These never are nouns: a word before one of them is the thing looked at (`issue_read`, `email_get`).
_ONLY_LOOKS = WORDS["only looks"]
# A medium can be fetched from anywhere and extracted to anywhere; a table is queried in a language that also drops it.
_TOO_VAGUE: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("fetch", "load", "extract", "convert"), WORDS["medium"]),
    "query": frozenset({"table", "row", "record"}),
}
_ACTS = VERBS - _MAY_ACT - _LOOKS_VAGUELY
# What is a verb wherever it stands, acting or looking.
PLAIN_VERBS = _ACTS | _LOOKS
# What product names are made of: in `MailHubGetThread` the mail is not an order.
_PRODUCT, _JOINS = WORDS["product"], WORDS["joins"]
# Where the address is an argument, the answer is not the only thing that travels. Name lookups count: a host name
# reaches the name server of the domain's owner.
_ADDRESSES, _SECRETS = WORDS["address"], WORDS["secret"]
_MANY_ADDRESSES = frozenset(f"{word}s" for word in _ADDRESSES)
NOUNS = frozenset().union(*OBJECT_CLASSES) | WORDS["noun"]
# Product names that read as orders or as other words once camelCase has been split.
_BRANDS = {tuple(pair.split("+")): pair.replace("+", "") for pair in WORDS["brand"]}
_WORD = re.compile(r"[A-Z]{2,}s(?![a-z])|[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+|[^\W\d_a-zA-Z]+")
# Letters, digits and underscores, with single separators between: what every host accepts and nothing that hides.
_PLAIN = re.compile(r"[A-Za-z0-9_]+(?:[ ./:-][A-Za-z0-9_]+)*")
_HOST_PREFIXES = ("functions.", "default_api.", "multi_tool_use.")


def split_server(name: str) -> tuple[str, str]:
    """Return the server that a host put in front of a tool's name (often none), and the tool's own name.

    A server is named by the user's configuration, so its words say nothing about the tool. Only the first part is
    taken off: in `mcp__a__delete__list` the tool is `delete__list`.
    """
    for prefix in _HOST_PREFIXES:
        if name.startswith(prefix) and len(name) > len(prefix):
            name = name[len(prefix) :]
    if name[:5].lower() == "mcp__":
        server, found, tool = name[5:].partition("__")
        return (server, tool) if server and found and tool.strip("_") else ("", name)
    for mark in "/:":
        server, found, tool = name.partition(mark)
        if server and found and tool:
            return server, tool
    return "", name


def _words(text: str) -> tuple[str, ...]:
    words: list[str] = []
    for word in _WORD.findall(text):
        low = word.lower()
        if words and (words[-1], low) in _BRANDS:
            words[-1] = _BRANDS[words[-1], low]
        else:
            words.append(low)
    return tuple(words)


@lru_cache(maxsize=CACHED_NAMES)
def _cached_words(name: str) -> tuple[str, ...]:
    return _words(split_server(name)[1])


def tool_words(name: str) -> tuple[str, ...]:
    """Return the words of a tool's own name, lowercase, without its server; a name longer than `MAX_NAME` is cut."""
    return _cached_words(name[:MAX_NAME])


class _KnownTool(NamedTuple):
    """What the table says of a name: its risk, the name that tools of its kind share, whether it is a host's own."""

    risk: Risk
    common_name: str
    what: str
    bare: bool


_CATALOGUE: dict[str, _KnownTool] = {
    name: _KnownTool(Risk(risk), common.strip("-"), what, own == "own")
    for common, risk, own, what, names in read_table(
        EFFECTS, TABLE, "known tools", ("common name", "risk", "own", "what", "names")
    )
    for name in names.split()
}
# What the common names ask for: some hosts give such a tool a name without a verb (`terminal`, `Task`).
_COMMON_INTENT: Mapping[str, tuple[str, str]] = {
    "bash": ("run", "command"),
    "write": ("write", "file"),
    "web_fetch": ("fetch", "page"),
    "spawn_agent": ("spawn", "agent"),
}


def _find_known_tool(name: str, words: tuple[str, ...]) -> _KnownTool | None:
    known = _CATALOGUE.get("_".join(words))
    if known is not None:
        return None if known.bare and split_server(name)[0] else known
    # `developer__shell`: we cannot be sure that the first part is a server, so only a high name counts behind it.
    known = _CATALOGUE.get("_".join(_words(name.rpartition("__")[2]))) if "__" in name else None
    return known if known is not None and known.risk is Risk.HIGH else None


class _NameRisk(NamedTuple):
    """What a name came to: its acting verbs in base form, and where among its words the deciding verb stands."""

    risk: Risk
    why: str
    acting: tuple[str, ...] = ()
    at: int = -1


def _with_s(word: str) -> str:
    """The third person of a verb, the plural of a noun."""
    if word[-1:] == "y" and word[-2:-1] not in "aeiou":
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "x", "z", "ch", "sh")) else "s")


# `sends`, `sending`, `dropping`; a made-up form such as `sendding` does no harm.
_ACTING_FORMS: Mapping[str, str] = {
    form: verb
    for verb in sorted(_ACTS)
    for form in (_with_s(verb), verb.removesuffix("e") + "ing", verb + verb[-1] + "ing", verb)
}
# `check_out`, `query_in`: with one of these behind it the verb is another verb.
_PARTICLES = (("in",), ("out",), ("off",), ("up",))


def _first_verb(words: tuple[str, ...]) -> tuple[int, str]:
    """Where the verb stands that says what the tool does, and its base form if it acts."""
    for i, word in enumerate(words):
        if word == "look" and words[i + 1 : i + 2] == ("up",):
            return i + 1, ""
        if word == "get" and words[i + 1 : i + 2] == ("rid",):
            return i, "delete"
        if word in _LOOKS or word in _LOOKS_VAGUELY:
            return i, ""
        if word in _ACTING_FORMS:
            return i, _ACTING_FORMS[word]
        if word in _MAY_ACT:
            at = i + 1
            while at < len(words) and (words[at] in _PRODUCT or words[at] in _MAY_ACT):
                at += 1
            verb = words[at] if at < len(words) else ""
            thing = verb in _ONLY_LOOKS or (verb in ("search", "lookup", "count") and word in _VERB_OR_NOUN)
            return (at, "") if thing else (i, word)
    return -1, ""


def _judge_words(words: tuple[str, ...]) -> _NameRisk:
    # 3. The first verb, or 8. none.
    at, acts = _first_verb(words)
    if at < 0:
        return _NameRisk(Risk.HIGH, "nothing is known about this name")
    if acts:
        later = tuple(word for word in words[at + 1 :] if word in _ACTS and word != acts)
        return _NameRisk(Risk.HIGH, f"{quoted(acts)} acts", (acts, *later), at)
    return _judge_looking(words, at)


def _judge_looking(words: tuple[str, ...], at: int) -> _NameRisk:
    look, rest = words[at], words[at + 1 :]
    # 4. A second verb.
    if not _JOINS.isdisjoint(words[:at]):
        return _NameRisk(Risk.HIGH, f"something else is done before {quoted(look)}", (), at)
    second = next((word for word in rest if word in _ACTS), "") or _joined_act(words, at)
    if second:
        return _NameRisk(Risk.HIGH, f"{quoted(look)} looks, but {quoted(second)} acts", (second,), at)
    if len(rest) == 1 and look not in _ONLY_LOOKS and rest[0] in (_MAY_ACT if look == "list" else _VERB_BEFORE_NOUN):
        why = f"{quoted(look)} may be a thing here that {quoted(rest[0])} acts on"
        return _NameRisk(Risk.HIGH, why, rest, at)
    return _judge_thing(words, at)


def _judge_thing(words: tuple[str, ...], at: int) -> _NameRisk:
    look, rest = words[at], words[at + 1 :]
    # 5. An address of the caller's choosing.
    address = next((word for word in words if _is_address(word, look)), "")
    if address:
        return _NameRisk(Risk.HIGH, f"{quoted(address)} may be an address of the caller's choosing", ("visit",), at)
    # 6. Secrets.
    secret = next((word for word in words if word in _SECRETS), "")
    if secret and look != "count":
        return _NameRisk(Risk.HIGH, f"{quoted(secret)} is a secret", (), at)
    # 7. A vague verb.
    things = map(_singular, rest or words[:at])
    is_known = rest[:1] not in _PARTICLES and not (NOUNS - _TOO_VAGUE.get(look, frozenset())).isdisjoint(things)
    if look in _LOOKS_VAGUELY and not is_known:
        return _NameRisk(Risk.HIGH, f"{quoted(look)} is vague, and what it is done to is not known", (look,), at)
    return _NameRisk(Risk.LOW, f"{quoted(look)} only looks, and no other word acts", (), at)


def _joined_act(words: tuple[str, ...], at: int) -> str:
    """The word after an `and`, `then` or `to` that may act, if any: `read_and_forward`, `get_contacts_and_email`."""
    for i in range(at + 1, len(words)):
        word = words[i]
        if words[i - 1] not in _JOINS or word in _LOOKS or word.isdigit():
            continue
        towards = words[i - 1] == "to"
        joins_verbs = i - 2 == at and not towards  # get_and_…: what follows can only be another verb
        thing = towards or word in NOUNS or word.endswith(("s", "ing", "ed", "ion"))
        if joins_verbs or word in _MAY_ACT or not thing:
            return word
    return ""


def _is_address(word: str, look: str) -> bool:
    if word in _MANY_ADDRESSES:
        return look not in WORDS["looks over many"]
    # Searching the whole web asks one provider; searching a site may ask the site.
    return word in _ADDRESSES and look != "count" and not (look in ("search", "find") and word in ("web", "internet"))


@lru_cache(maxsize=CACHED_NAMES)
def _cached_name_risk(name: str) -> _NameRisk:
    words = _cached_words(name)
    judged = _judge_words(words)
    # 1. Plain words.
    if not _PLAIN.fullmatch(name):
        why = "the name is not made of plain words, and may only look like a harmless one"
        return judged._replace(risk=Risk.HIGH, why=why)
    # 2. The table of known tools.
    known = _find_known_tool(name, words)
    if known is None:
        return judged
    acting = judged.acting if known.risk is Risk.HIGH else ()
    return _NameRisk(known.risk, f"known by name: {known.what}", acting, judged.at)


def _name_risk(name: str) -> _NameRisk:
    if len(name) <= MAX_NAME:
        return _cached_name_risk(name)
    return _NameRisk(Risk.HIGH, f"the name is longer than {MAX_NAME} characters")


def _name_forms(name: str) -> tuple[str, str, str]:
    """How a name may come back: as written, as its common name, as words."""
    return name.lower(), canonical_tool(name), "_".join(tool_words(name))


@lru_cache(maxsize=64)
def _policy_name_forms(additional: frozenset[str]) -> frozenset[str]:
    """The policy's own names in all their forms; one that names its server means that server's tool only."""
    return frozenset(
        form for name in additional for form in ((name.lower(),) if split_server(name)[0] else _name_forms(name))
    )


# The value that raises, and why. On the wire hints are camelCase, in Python clients snake_case.
_HINTS: Mapping[str, tuple[bool | None, str]] = {
    "destructivehint": (True, "its annotations say it is destructive"),
    "openworldhint": (True, "its annotations say it reaches the open world"),
    "readonlyhint": (False, "its annotations say it is not read-only"),
    "idempotenthint": (None, ""),
}


def _why_annotations_raise(annotations: object) -> str:
    """Why the annotations raise the risk, or nothing.

    They come from the server that is being judged, so a reassuring one changes nothing and a broken one counts
    against it. An absent hint, or one left at None by a client library, says nothing.
    """
    if not isinstance(annotations, Mapping):
        return "its annotations are not an object"
    for key, value in annotations.items():
        if not isinstance(key, str) or (key == "title" and not isinstance(value, str | None)):
            return "its annotations are not those of the protocol"
        raises, why = _HINTS.get(key.replace("_", "").lower(), (None, None))
        if value is None or why is None:
            continue
        if not isinstance(value, bool):
            return f"its annotation {quoted(key)} is not true or false"
        if value is raises:
            return why
    return ""


def _why_raised(name: str, additional: frozenset[str], annotations: object) -> str:
    if additional and len(name) <= MAX_NAME and not _policy_name_forms(additional).isdisjoint(_name_forms(name)):
        return "the policy names it in additional_high_risk_tools"
    return "" if annotations is None else _why_annotations_raise(annotations)


def tool_risk(
    name: str, *, additional: frozenset[str] = frozenset(), annotations: Mapping[str, object] | None = None
) -> Risk:
    """How much harm a call of this tool could do; high for every tool we know nothing about.

    `additional` are the policy's own high-risk names, `annotations` what an MCP server says of its tool: both can
    only raise the risk.
    """
    risk = _name_risk(name).risk
    # Looking a member up in its enumeration takes longer than everything else here.
    if risk is not Risk.LOW or (annotations is None and not additional):
        return risk
    return Risk.HIGH if _why_raised(name, additional, annotations) else Risk.LOW


def explain_risk(
    name: str, *, additional: frozenset[str] = frozenset(), annotations: Mapping[str, object] | None = None
) -> str:
    """Which rule decided `tool_risk`, in one short sentence."""
    ruling = _name_risk(name)
    return ruling.why if ruling.risk is Risk.HIGH else _why_raised(name, additional, annotations) or ruling.why


def may_reach_any_address(name: str) -> bool:
    """Whether a tool that only looks may look wherever an address leads: all but those that we know by name."""
    return len(name) > MAX_NAME or _find_known_tool(name, _cached_words(name)) is None


@lru_cache(maxsize=CACHED_NAMES)
def _acting_words(name: str) -> tuple[str, ...]:
    words = _cached_words(name)
    sure = [_ACTING_FORMS[word] for word in words if word in _ACTING_FORMS]
    likely = [word for word in words if word in _VERB_BEFORE_NOUN]
    return tuple(dict.fromkeys(sure or likely or [word for word in words if word in _VERB_OR_NOUN]))


def acting_words(name: str) -> tuple[str, ...]:
    """Return the verbs of a name in base form; words that are nouns as well count only where there is no other."""
    return _acting_words(name[:MAX_NAME])


@lru_cache(maxsize=CACHED_NAMES)
def _canonical(name: str) -> str:
    known = _find_known_tool(name, _cached_words(name)) if _PLAIN.fullmatch(name) else None
    return (known.common_name if known is not None else "") or name.lower()


def canonical_tool(name: str) -> str:
    """The common name of a host's tool (`Bash`, `shell` and `local_shell` are `bash`), else the name in lowercase."""
    return _canonical(name) if len(name) <= MAX_NAME else name.lower()


_COMMON_NAMES = frozenset(known.common_name for known in _CATALOGUE.values()) - {""}


def has_common_name(name: str) -> bool:
    """Return whether this is a host's tool of a kind that has a common name, such as `Read` or `Grep`."""
    return canonical_tool(name) in _COMMON_NAMES


class ToolIntent(NamedTuple):
    """What a call of the tool would do, in the words in which a text might ask for it.

    `verbs` are its acting verbs with their everyday synonyms, in base form; a tool that only looks has none.
    `objects` are the things it is done to, singular and plural.
    """

    verbs: frozenset[str]
    objects: frozenset[str]


_IRREGULAR: Mapping[str, str] = {"people": "person", "children": "child", "men": "man", "women": "woman"}
_SAME_PLURAL = frozenset({"news", "series", "species", "status", "address", "access", "business", "sms"})


def _singular(word: str) -> str:
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if word in _SAME_PLURAL or word.endswith(("ss", "us", "is")) or len(word) < 4:
        return word
    if word.endswith("ies"):
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes", "zes")):
        return word[:-2]
    return word.removesuffix("s")


def _add_synonyms(words: Iterable[str], classes: tuple[frozenset[str], ...]) -> frozenset[str]:
    own = frozenset(words)
    return own.union(*(group for group in classes if not group.isdisjoint(own)))


@lru_cache(maxsize=CACHED_NAMES)
def _intent(name: str) -> ToolIntent:
    words, ruling = _cached_words(name), _cached_name_risk(name)
    verb, thing = _COMMON_INTENT.get(canonical_tool(name), ("", ""))
    acting = {*ruling.acting, verb} - {""}
    # A tool that manages something does what its arguments say: any everyday action on the object is a request for it.
    if not acting.isdisjoint(WORDS["anything"]):
        acting |= WORDS["any action"]
    # Words after the verb name its object. Before it stand product names, so there only everyday nouns count, unless
    # nothing follows the verb: `file_delete`.
    before, after = words[: max(ruling.at, 0)], words[ruling.at + 1 :]
    named = {word for word in (*before, *after) if word in after or not after or _singular(word) in NOUNS}
    named = {word for word in named if not word.isdigit()} - _JOINS - WORDS["no object"] - acting
    things = _add_synonyms({*map(_singular, named), thing} - {""}, OBJECT_CLASSES)
    plurals = {plural for plural, word in _IRREGULAR.items() if word in things} | {
        _with_s(word) for word in things - _SAME_PLURAL - frozenset(_IRREGULAR.values())
    }
    return ToolIntent(_add_synonyms(acting, VERB_CLASSES), things | plurals | named)


def tool_intent(name: str) -> ToolIntent:
    """What the name says the tool does: the words to look for in a text that asks for this call."""
    return _intent(name[:MAX_NAME])
