"""A tool's name and annotations -> what it says it does, and its risk; the words stand in `effects/tools.tbl`.

A server that lies about its tools can call anything `get_weather`: a name is a claim, never a proof. A name only looks,
and is of low risk, where the first step that knows says so:

1. A name that is not plain words acts: it may only look like a harmless one.
2. The table of known tools: names of known hosts and servers.
3. The first verb of the name. One that looks is believed, unless a word further on acts as well, it looks at an
   address of the caller's choosing (the address itself can carry data out) or at secrets, or the verb is vague and
   what it looks at is not a thing we know.
4. What has no verb may act: we know nothing about it.

What a name does that acts is the gravest row of `acts` that fits a verb and the other words. The policy's own list and
MCP annotations are asked afterwards. They can raise the risk, and never lower it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from lockgate.core.errors import quoted
from lockgate.core.ruling.effects.effect import KINDS, Severity
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
WORDS, GROUPS = read_words("words", "sort"), read_words("groups", "group")
_VERB_BEFORE_NOUN = WORDS["acting before noun"]
_MAY_ACT = WORDS["acting noun"] | _VERB_BEFORE_NOUN
_LOOKS, _LOOKS_VAGUELY, _ONLY_LOOKS = WORDS["looks"], WORDS["looks vaguely"], WORDS["only looks"]
# A medium can be fetched from anywhere and extracted to anywhere; a table is queried in a language that also drops it.
_TOO_VAGUE: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("fetch", "load", "extract", "convert"), WORDS["medium"]),
    "query": frozenset({"table", "row", "record"}),
}
_ACTS = VERBS - _MAY_ACT - _LOOKS_VAGUELY
# What is a verb wherever it stands, acting or looking.
PLAIN_VERBS = _ACTS | _LOOKS
_JOINS = WORDS["joins"]
# Where the address is an argument, the answer is not the only thing that travels. Name lookups count: a host name
# reaches the name server of the domain's owner.
_ADDRESSES = WORDS["address"]
_MANY_ADDRESSES = frozenset(f"{word}s" for word in _ADDRESSES)
NOUNS = frozenset().union(*OBJECT_CLASSES) | WORDS["noun"]
# Product names that read as orders or as other words once camelCase has been split.
_BRANDS = {(pair.partition("+")[0], pair.partition("+")[2]): pair.replace("+", "") for pair in WORDS["brand"]}
# A thing, of which the name asks for neither.
_REQUESTS = {(act, word): f"{act[0]}r" for act in ("pull", "merge") for word in ("request", "requests")}
_TRANSLATIONS = {
    word: english
    for _, english, words in read_table(EFFECTS, TABLE, "translations", ("language", "english", "words"))
    for word in words.split()
}
_ENGLISH = frozenset(_TRANSLATIONS.values()) | VERBS | WORDS["plain english"] | WORDS["no object"] | _JOINS
_WORD = re.compile(r"[A-Z]{2,}s(?![a-z])|[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+|[^\W\d_a-zA-Z]+")
# Letters, digits and underscores, with single separators between: what every host accepts and nothing that hides.
_PLAIN = re.compile(r"[A-Za-z0-9_]+(?:[ ./:-][A-Za-z0-9_]+)*")
_HOST_PREFIXES = ("functions.", "default_api.", "multi_tool_use.")
_IRREGULAR: Mapping[str, str] = {"people": "person", "children": "child", "men": "man", "women": "woman"}
_SAME_PLURAL = frozenset({"news", "series", "species", "status", "address", "access", "business", "sms"})


# Words.


def split_server(name: str) -> tuple[str, str]:
    """Return the server that a host put in front of a tool's name (often none), and the tool's own name.

    A server is named by the user's configuration, so its words say nothing about the tool. Only the first part is
    taken off: in `mcp__a__delete__list` the tool is `delete__list`.
    """
    for prefix in _HOST_PREFIXES:
        name = name.removeprefix(prefix) or name
    if name[:5].lower() == "mcp__":
        server, mark, tool = name[5:].partition("__")
        return (server, tool) if server and mark and tool.strip("_") else ("", name)
    for separator in "/:":
        server, mark, tool = name.partition(separator)
        if server and mark and tool:
            return server, tool
    return "", name


def _join_words(words: Iterable[str], pairs: Mapping[tuple[str, str], str]) -> tuple[str, ...]:
    """Return the words with those that are one thing together as one word."""
    joined: list[str] = []
    for word in words:
        pair = pairs.get((joined[-1], word)) if joined else None
        joined[-1:] = [pair] if pair else [*joined[-1:], word]
    return tuple(joined)


@lru_cache(maxsize=CACHED_NAMES)
def _cached_words(name: str) -> tuple[str, ...]:
    return _join_words((word.lower() for word in _WORD.findall(split_server(name)[1])), _BRANDS)


def tool_words(name: str) -> tuple[str, ...]:
    """Return the words of a tool's own name, lowercase, without its server; a name longer than `MAX_NAME` is cut."""
    return _cached_words(name[:MAX_NAME])


def singular(word: str) -> str:
    """Return the singular of a plural, as far as its ending tells."""
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if word in _SAME_PLURAL or word.endswith(("ss", "us", "is")) or len(word) < 4:
        return word
    if word.endswith("ies"):
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes", "zes")):
        return word[:-2]
    return word.removesuffix("s")


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


# The rows that say what a name does.


class Alternatives(NamedTuple):
    """Words of which one has to be there, or all of a set; nothing fits everything."""

    words: frozenset[str]
    joint: tuple[tuple[frozenset[str], ...], ...] = ()

    def fit(self, words: frozenset[str]) -> bool:
        """Return whether these words have one of the alternatives."""
        if not self.words.isdisjoint(words) or not (self.words or self.joint):
            return True
        return any(all(not part.isdisjoint(words) for part in parts) for parts in self.joint)


def read_alternatives(cell: str, groups: dict[str, frozenset[str]]) -> Alternatives:
    """Return the words of a cell: `-` is nothing, `a+b` needs both, and a word in capitals stands for its group."""
    entries = [] if cell == "-" else cell.split()
    expanded = [
        [groups[word] if word.isupper() else frozenset({word}) for word in entry.split("+")] for entry in entries
    ]
    single = frozenset[str]().union(*(parts[0] for parts in expanded if len(parts) == 1))
    return Alternatives(single, tuple(tuple(parts) for parts in expanded if len(parts) > 1))


class Act(NamedTuple):
    """A row of the table: the verbs and words that it fits, its kind of effect, and which arguments it is aimed at."""

    verbs: frozenset[str]
    words: Alternatives
    kind: str
    role: str


ACTS = tuple(
    Act(read_alternatives(verbs, GROUPS).words, read_alternatives(words, {}), kind, role)
    for verbs, words, kind, role in read_table(EFFECTS, TABLE, "acts", ("verbs", "words", "kind", "target"))
)
# Verbs of the rows that no class of verbs has: they act all the same.
_MORE_VERBS = frozenset[str]().union(*(act.verbs for act in ACTS)) - VERBS
SURE_VERBS = _MORE_VERBS | (VERBS - WORDS["acting noun"])
_NOTHING_KNOWN = Act(frozenset(), Alternatives(frozenset()), "unknown-act", "shape")


def gravest_act(verbs: Iterable[str], words: frozenset[str]) -> tuple[str, Act]:
    """Return the verb with the gravest act among several, and that act; a kind we know goes before one we do not."""
    acts = [
        (verb, next((act for act in ACTS if verb in act.verbs and act.words.fit(words - {verb})), _NOTHING_KNOWN))
        for verb in verbs
    ]
    return max(acts, key=lambda pair: (KINDS[pair[1].kind].severity, pair[1].kind != "unknown-act"))


# Known tools.


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


def _find_known_tool(name: str, words: tuple[str, ...]) -> _KnownTool | None:
    known = _CATALOGUE.get("_".join(words))
    if known is not None:
        return None if known.bare and split_server(name)[0] else known
    # `developer__shell`: we cannot be sure that the first part is a server, so only a high name counts behind it.
    known = _CATALOGUE.get("_".join(_cached_words(name.rpartition("__")[2]))) if "__" in name else None
    return known if known is not None and known.risk is Risk.HIGH else None


def canonical_tool(name: str) -> str:
    """The common name of a host's tool (`Bash`, `shell` and `local_shell` are `bash`), else the name in lowercase."""
    return read_tool_name(name).common or name.lower()


# What a name says.


class ToolName(NamedTuple):
    """A name as it is read: its words in English with their singulars, its main verb, the kind and aim it comes to.

    A name that does not act has no verb; its kind is then `looks`, or what its words come to. `acting` are its verbs,
    and `at` is where the deciding one stands. `known` is what a tool known by name is, `common` the name of its kind.
    """

    words: frozenset[str]
    verb: str
    kind: str
    role: str = "shape"
    acting: tuple[str, ...] = ()
    at: int = -1
    known: str = ""
    common: str = ""

    def has(self, sort: str) -> bool:
        """Return whether one of the words is of this sort."""
        return not WORDS[sort].isdisjoint(self.words)


def read_tool_name(name: str) -> ToolName:
    """Return what a name says; one longer than any host allows says nothing."""
    return _read_name(name) if len(name) <= MAX_NAME else ToolName(frozenset(), "", "unknown-act")


@lru_cache(maxsize=CACHED_NAMES)
def _read_name(name: str) -> ToolName:
    own = _cached_words(name)
    words = tuple(_TRANSLATIONS.get(word, word) for word in own)
    joined = _join_words(words, _REQUESTS)
    all_words = frozenset((*words, *joined)) | frozenset(map(singular, words))
    looks, acting, at = _judge_words(words)
    verbs = _verbs_of(joined)
    # A name with odd characters may only look like a harmless one, and a half-translated one hides the rest.
    is_plain = _PLAIN.fullmatch(name) is not None
    known = _find_known_tool(name, own) if is_plain else None
    if known is not None:
        looks = known.risk is Risk.LOW
    elif "visit" not in acting:
        looks = looks or _shows_information(words, verbs)
    if not is_plain or (own != words and not _ENGLISH.issuperset(frozenset(own).intersection(words))):
        looks = False
    what, common = (known.what, known.common_name) if known is not None else ("", "")
    if looks:
        return ToolName(all_words, "", _kind_of_look(all_words), at=at, known=what, common=common)
    verb, act = gravest_act(verbs, all_words) if verbs else ("", _act_without_verb(all_words))
    kind = "unknown-act" if act.kind == "looks" and not is_plain else act.kind
    return ToolName(all_words, verb, kind, act.role, acting, at, what, common)


def _kind_of_look(words: frozenset[str]) -> str:
    return "reads-secret" if "key" in words and not WORDS["secret key"].isdisjoint(words) else "looks"


def _acting_words(words: tuple[str, ...]) -> Iterable[str]:
    sure = [_ACTING_FORMS[word] for word in words if word in _ACTING_FORMS]
    likely = [word for word in words if word in _VERB_BEFORE_NOUN]
    return dict.fromkeys(sure or likely or [word for word in words if word in WORDS["acting noun"]])


def _verbs_of(words: tuple[str, ...]) -> tuple[str, ...]:
    verbs = (*_acting_words(words), *(word for word in words if word in _MORE_VERBS))
    if "draft" in words:
        return tuple(verb for verb in verbs if verb not in WORDS["writes message"]) or ("draft",)
    # Behind a verb that keeps records these are things: `upsert_contact` writes to no one.
    others = tuple(verb for verb in verbs if verb not in ("contact", "phone"))
    return others if not WORDS["keeps"].isdisjoint(others) else verbs


def _shows_information(words: tuple[str, ...], verbs: tuple[str, ...]) -> bool:
    """Return whether a name ends with information on things, or with which messages are looked at: `mail_latest`."""
    last = words[-1:]
    if verbs and last in (("latest",), ("recent",), ("unread",)):
        return WORDS["message"].issuperset(verbs)
    return not WORDS["information"].isdisjoint(last) and WORDS["mostly thing"].issuperset(verbs)


def _act_without_verb(words: frozenset[str]) -> Act:
    if not WORDS["named secret"].isdisjoint(words):
        return _NOTHING_KNOWN._replace(kind="reads-secret")
    return _NOTHING_KNOWN if WORDS["named address"].isdisjoint(words) else _NOTHING_KNOWN._replace(kind="requests")


def _first_verb(words: tuple[str, ...]) -> tuple[int, str]:
    """Where the verb stands that says what the tool does, and its base form if it acts."""
    for i, word in enumerate(words):
        if word in _LOOKS or word in _LOOKS_VAGUELY:
            return i, ""
        if word in _ACTING_FORMS:
            return i, _ACTING_FORMS[word]
        if word in _MAY_ACT:
            # In `MailHubGetThread` the mail is not an order.
            at = next((n for n in range(i + 1, len(words)) if words[n] not in WORDS["product"] | _MAY_ACT), i)
            is_noun = word not in _VERB_BEFORE_NOUN and words[at] in ("search", "lookup", "count", "list")
            return (at, "") if words[at] in _ONLY_LOOKS or is_noun else (i, word)
    return -1, ""


def _judge_words(words: tuple[str, ...]) -> tuple[bool, tuple[str, ...], int]:
    """Return whether words only look, the verbs that act, and where the deciding verb stands."""
    at, verb = _first_verb(words)
    if at < 0:
        return False, (), at
    look, rest = words[at], words[at + 1 :]
    if verb:
        return False, (verb, *(word for word in rest if word in _ACTS and word != verb)), at
    second = next((word for word in rest if word in _ACTS), "") or _joined_act(words, at)
    if len(rest) == 1 and look not in _ONLY_LOOKS and rest[0] in (_MAY_ACT if look == "list" else _VERB_BEFORE_NOUN):
        # `list_update` may be an order to update a list.
        second = rest[0]
    if second or not _JOINS.isdisjoint(words[:at]):
        return False, tuple(filter(None, (second,))), at
    acts = _judge_look(words, look, rest)
    return acts == (), tuple(filter(None, acts)), at


def _judge_look(words: tuple[str, ...], look: str, rest: tuple[str, ...]) -> tuple[str, ...]:
    """Return nothing where looking is harmless: at no address, no secret, and not vaguely at a thing we do not know."""
    if look == "count":
        return ()
    places = _ADDRESSES if look in WORDS["looks over many"] else _ADDRESSES | _MANY_ADDRESSES
    # Searching the whole web asks one provider; searching a site may ask the site.
    if not places.difference(("web", "internet") if look in ("search", "find") else ()).isdisjoint(words):
        return ("visit",)
    # A list of secrets has their names.
    listed = look == "list" and not WORDS["listed by name"].isdisjoint(rest)
    if not WORDS["secret"].difference(WORDS["listed by name"] if listed else ()).isdisjoint(words):
        return ("",)
    known = NOUNS - _TOO_VAGUE.get(look, frozenset())
    is_verb_alone = rest[:1] in (("in",), ("out",), ("off",), ("up",))
    is_vague = look in _LOOKS_VAGUELY and (is_verb_alone or known.isdisjoint(map(singular, rest or words)))
    return (look,) if is_vague else ()


def _joined_act(words: tuple[str, ...], at: int) -> str:
    """The word after an `and`, `then` or `to` that may act, if any: `read_and_forward`, `get_contacts_and_email`."""
    for i in range(at + 1, len(words)):
        join, word = words[i - 1], words[i]
        if join not in _JOINS or word in _LOOKS or word.isdigit():
            continue
        # In get_and_… what follows can only be another verb.
        is_thing = join == "to" or word in NOUNS or word.endswith(("s", "ing", "ed", "ion"))
        if (i - 2 == at and join != "to") or word in _MAY_ACT or not is_thing:
            return word
    return ""


# Risk.


def _name_forms(name: str) -> frozenset[str]:
    """How a name may come back: as written, as its common name, as words."""
    return frozenset((name.lower(), canonical_tool(name), "_".join(tool_words(name))))


@lru_cache(maxsize=64)
def _policy_name_forms(additional: frozenset[str]) -> frozenset[str]:
    """The policy's own names in all their forms; one that names its server means that server's tool only."""
    return frozenset(
        form for name in additional for form in ((name.lower(),) if split_server(name)[0] else _name_forms(name))
    )


_HINTS = [
    (hint, raises == "true", kind)
    for hint, raises, kind in read_table(EFFECTS, TABLE, "hints", ("hint", "raises", "kind"))
]
_TYPES_OF_HINTS = {"title": str, "idempotenthint": bool} | {hint: bool for hint, _, _ in _HINTS}


def kind_by_annotations(annotations: object) -> str:
    """Return what the annotations of an MCP server say that its tool may do besides, or nothing.

    They come from the server that is being judged, so a reassuring one changes nothing and a broken one counts
    against it. An absent hint, or one left at None by a client library, says nothing.
    """
    if not isinstance(annotations, Mapping):
        return "" if annotations is None else "unknown-act"
    # On the wire hints are camelCase, in Python clients snake_case.
    stated = [(str(key).replace("_", "").lower(), value) for key, value in annotations.items()]
    for hint, raises, kind in _HINTS:
        if (hint, raises) in stated:
            return kind
    is_sound = all(value is None or isinstance(value, _TYPES_OF_HINTS.get(name, object)) for name, value in stated)
    return "" if is_sound and all(isinstance(key, str) for key in annotations) else "unknown-act"


def tool_risk(
    name: str, *, additional: frozenset[str] = frozenset(), annotations: Mapping[str, object] | None = None
) -> Risk:
    """How much harm a call of this tool could do; high for every tool we know nothing about.

    `additional` are the policy's own high-risk names, `annotations` what an MCP server says of its tool: both can
    only raise the risk.
    """
    if KINDS[read_tool_name(name).kind].severity is not Severity.LOOKS or kind_by_annotations(annotations):
        return Risk.HIGH
    is_listed = bool(additional) and not _policy_name_forms(additional).isdisjoint(_name_forms(name))
    return Risk.HIGH if is_listed else Risk.LOW


def explain_risk(name: str) -> str:
    """Return what a name says, in one short sentence."""
    named = read_tool_name(name)
    if named.known:
        return f"known by name: {named.known}"
    verb = named.verb or "".join(named.acting[:1])
    return f"{quoted(verb)} acts" if verb else KINDS[named.kind].does.removesuffix(" `{target}`")


# What a text that asks for a tool would say.

_COMMON_INTENT = {
    name: words for name, *words in read_table(EFFECTS, TABLE, "common intents", ("common name", "verb", "thing"))
}


class ToolIntent(NamedTuple):
    """What a call of the tool would do, in the words in which a text might ask for it.

    `verbs` are its acting verbs with their everyday synonyms, in base form; a tool that only looks has none.
    `objects` are the things it is done to, singular and plural.
    """

    verbs: frozenset[str]
    objects: frozenset[str]


def _add_synonyms(words: Iterable[str], classes: tuple[frozenset[str], ...]) -> frozenset[str]:
    own = frozenset(words)
    return own.union(*(group for group in classes if not group.isdisjoint(own)))


@lru_cache(maxsize=CACHED_NAMES)
def _intent(name: str) -> ToolIntent:
    words, reading = _cached_words(name), read_tool_name(name)
    verb, thing = _COMMON_INTENT.get(canonical_tool(name), ("", ""))
    acting = {*reading.acting, verb} - {""}
    # A tool that manages something does what its arguments say: any everyday action on the object is a request for it.
    if not acting.isdisjoint(WORDS["anything"]):
        acting |= WORDS["any action"]
    # Words after the verb name its object. Before it stand product names, so there only everyday nouns count, unless
    # nothing follows the verb: `file_delete`.
    before, after = words[: max(reading.at, 0)], words[reading.at + 1 :]
    named = {word for word in (*before, *after) if word in after or not after or singular(word) in NOUNS}
    named = {word for word in named if not word.isdigit()} - _JOINS - WORDS["no object"] - acting
    things = _add_synonyms({*map(singular, named), thing} - {""}, OBJECT_CLASSES)
    plurals = {plural for plural, word in _IRREGULAR.items() if word in things} | {
        _with_s(word) for word in things - _SAME_PLURAL - frozenset(_IRREGULAR.values())
    }
    return ToolIntent(_add_synonyms(acting, VERB_CLASSES), things | plurals | named)


def tool_intent(name: str) -> ToolIntent:
    """What the name says the tool does: the words to look for in a text that asks for this call."""
    return _intent(name[:MAX_NAME])
