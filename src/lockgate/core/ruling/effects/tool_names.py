"""What the name of a tool says it does: its words in English, its verb, and the row of `tools.tbl` these come to.

A server that lies about its tools can call anything `get_weather`: a name is a claim, never a proof. What a name cannot
say is `unknown-act`, never `looks`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from lockgate.core.ruling.effects.effect import KINDS
from lockgate.core.ruling.tool_risk import (
    CACHED_NAMES,
    EFFECTS,
    MAX_NAME,
    TABLE,
    VERBS,
    WORDS,
    acting_words,
    read_words,
    tool_risk,
    tool_words,
)
from lockgate.core.tables import read_table
from lockgate.core.vocabulary import Risk

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_]+(?:[ ./:-][A-Za-z0-9_]+)*")
_REQUESTS = {("pull", "request"): "pr", ("merge", "request"): "mr"}
GROUPS = read_words("groups", "group")


class Alternatives(NamedTuple):
    """Words of which one has to be there, or all of a set; nothing fits everything."""

    words: frozenset[str]
    joint: tuple[tuple[frozenset[str], ...], ...] = ()

    def fit(self, words: frozenset[str]) -> bool:
        """Return whether these words have one of the alternatives."""
        if not self.words and not self.joint:
            return True
        if not self.words.isdisjoint(words):
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


class ToolName(NamedTuple):
    """A name as it is read: its words in English with their singulars, its main verb, the kind and aim it comes to.

    A name without a verb that acts has none; its kind is then `looks`, or the gravest that fits.
    """

    words: frozenset[str]
    verb: str
    kind: str
    role: str = "shape"


ACTS = tuple(
    Act(read_alternatives(verbs, GROUPS).words, read_alternatives(words, {}), kind, role)
    for verbs, words, kind, role in read_table(EFFECTS, TABLE, "acts", ("verbs", "words", "kind", "target"))
)
_TRANSLATIONS = {
    word: english
    for _, english, words in read_table(EFFECTS, TABLE, "translations", ("language", "english", "words"))
    for word in words.split()
}
# Verbs of the table that `tool_risk` does not list: they act all the same.
_MORE_VERBS = frozenset[str]().union(*(act.verbs for act in ACTS)) - VERBS
_ENGLISH = frozenset(_TRANSLATIONS.values()) | VERBS | WORDS["plain english"] | WORDS["no object"] | WORDS["joins"]
_NOTHING_KNOWN = Act(frozenset(), Alternatives(frozenset()), "unknown-act", "shape")


def read_tool_name(name: str) -> ToolName:
    """Return what a name says; one longer than any host allows says nothing."""
    return _read_name(name) if len(name) <= MAX_NAME else ToolName(frozenset(), "", "unknown-act")


@lru_cache(maxsize=CACHED_NAMES)
def _read_name(name: str) -> ToolName:
    own = tool_words(name)
    words = tuple(_TRANSLATIONS.get(word, word) for word in own)
    english = "_".join(words) if words != own else name
    joined = _join_requests(words)
    all_words = frozenset((*words, *joined)) | frozenset(map(singular, words))
    # A name with odd characters may only look like a harmless one, and a half-translated one hides the rest.
    may_look = bool(words) and _PLAIN_NAME.fullmatch(name) is not None and _is_translated_wholly(own, words)
    verbs = _verbs_of(english if joined == words else "_".join(joined), joined)
    if may_look and _only_looks(english, words, verbs):
        names_key = "key" in all_words and not WORDS["secret key"].isdisjoint(all_words)
        return ToolName(all_words, "", "reads-secret" if names_key else "looks")
    if verbs:
        verb, act = gravest_act(verbs, all_words)
        kind, role = act.kind, act.role
    else:
        verb, kind, role = "", _kind_without_verb(all_words), "shape"
    return ToolName(all_words, verb, kind if may_look or kind != "looks" else "unknown-act", role)


def _join_requests(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words with `pr` and `mr` for a pull or merge request: a thing, of which the name asks for neither."""
    joined: list[str] = []
    for word in words:
        short = _REQUESTS.get((joined[-1], singular(word))) if joined else None
        joined[-1:] = [short] if short else [*joined[-1:], word]
    return tuple(joined)


def _verbs_of(english: str, words: tuple[str, ...]) -> tuple[str, ...]:
    verbs = (*acting_words(english), *(word for word in words if word in _MORE_VERBS))
    if "draft" in words:
        return tuple(verb for verb in verbs if verb not in WORDS["writes message"]) or ("draft",)
    # Behind a verb that keeps records these are things: `upsert_contact` writes to no one.
    others = tuple(verb for verb in verbs if verb not in ("contact", "phone"))
    return others if not WORDS["keeps"].isdisjoint(others) else verbs


def _only_looks(english: str, words: tuple[str, ...], verbs: tuple[str, ...]) -> bool:
    # Another server's tool of a host's name has its prefix.
    if ("__" not in english and "_".join(words) in WORDS["shows only"]) or tool_risk(english) is Risk.LOW:
        return True
    # A message is a thing where the name ends with which ones are looked at: `mail_latest`.
    if words[-1] in ("latest", "recent", "unread") and verbs and WORDS["message"].issuperset(verbs):
        return True
    return words[-1] in WORDS["information"] and WORDS["mostly thing"].issuperset(verbs)


def _is_translated_wholly(own: tuple[str, ...], words: tuple[str, ...]) -> bool:
    return own == words or all(word != before or word in _ENGLISH for word, before in zip(words, own, strict=True))


def gravest_act(verbs: Iterable[str], words: frozenset[str]) -> tuple[str, Act]:
    """Return the verb with the gravest act among several, and that act; a kind we know goes before one we do not."""
    acts = [(verb, _find_act(verb, words)) for verb in verbs]
    return max(acts, key=lambda each: (KINDS[each[1].kind].severity, each[1].kind != "unknown-act"))


def _find_act(verb: str, words: frozenset[str]) -> Act:
    others = words - {verb}
    return next((act for act in ACTS if verb in act.verbs and act.words.fit(others)), _NOTHING_KNOWN)


def _kind_without_verb(words: frozenset[str]) -> str:
    if not WORDS["named secret"].isdisjoint(words):
        return "reads-secret"
    return "requests" if not WORDS["named address"].isdisjoint(words) else "unknown-act"


def singular(word: str) -> str:
    """Return the singular of a plural, as far as its ending tells."""
    if len(word) < 4 or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies"):
        return word[:-3] + "y"
    return word.removesuffix("s")
