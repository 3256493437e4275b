"""What the name of a tool says it does: its words in English, its verb, and the kind of effect these come to.

A server that lies about its tools can call anything `get_weather`: a name is a claim, never a proof. What a name cannot
say is `unknown-act`, never `looks`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from lockgate.core.ruling.effects.effect import KINDS
from lockgate.core.ruling.tool_risk import CACHED_NAMES, MAX_NAME, VERBS, acting_words, tool_risk, tool_words
from lockgate.core.tables import read_sections
from lockgate.core.vocabulary import Risk

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_]+(?:[ ./:-][A-Za-z0-9_]+)*")
_FILLERS = frozenset("a an the of in on at by for from with to my your and as tool id up out off via into".split())


class ToolName(NamedTuple):
    """A name as it is read: its words in English with their singulars, its main verb, and the kind it comes to.

    A name without a verb that acts has none; its kind is then `looks`, or the gravest that fits.
    """

    words: frozenset[str]
    verb: str
    kind: str


class _Line(NamedTuple):
    """One line of the table: the verbs it fits, and sets of words of which a name has to have one; none fits all."""

    kind: str
    verbs: frozenset[str]
    things: tuple[frozenset[str], ...]


def _read_table() -> tuple[_Line, ...]:
    sections = read_sections(__package__, "tool_acts.txt")
    groups = dict(line.split(": ") for line in sections.pop("groups"))
    lines = []
    # A kind may have two sections; the reader of sections keeps one of a name, so the second is called `kind again`.
    for section, entries in sections.items():
        for entry in entries:
            verbs, _, things = entry.partition(" : ")
            spelled = " ".join(groups.get(word, word) for word in verbs.split())
            wanted = () if things == "*" else tuple(frozenset(thing.split("+")) for thing in things.split())
            lines.append(_Line(section.partition(" ")[0], frozenset(spelled.split()), wanted))
    return tuple(lines)


def _read_translations() -> dict[str, str]:
    sections = read_sections(__package__, "translations.txt")
    pairs = (entry.split(": ") for entries in sections.values() for entry in entries)
    return {word: english for english, words in pairs for word in words.split()}


_TABLE = _read_table()
_TRANSLATIONS = _read_translations()
# Verbs of the table that `tool_risk` does not list: they act all the same.
_MORE_VERBS = frozenset().union(*(line.verbs for line in _TABLE)) - VERBS
_SECRETS = frozenset("secret password passcode passphrase credential token apikey env environ environment otp".split())
_ADDRESSES = frozenset("url uri href link webpage website site page http https html web domain host endpoint".split())
# Verbs that name a thing where the name ends with a piece of information: `build_status`.
_MOSTLY_THINGS = frozenset("build order bill credit process log record commit stock trade job".split())
_INFORMATION = frozenset(
    "status summary history info information details overview statistics stats news forecast weather balance "
    "logs".split()
)
# A message is a thing too where the name ends with which ones are looked at: `mail_latest`.
_MESSAGES, _WHICH = frozenset("email mail message".split()), frozenset("latest recent unread".split())
_WRITES_MESSAGE = frozenset("email mail message text reply respond answer post forward contact".split())
_OFTEN_THINGS = frozenset("contact phone".split())
_KEEPS = frozenset("create add update upsert edit save store delete remove merge import insert set change sync".split())
_REQUESTS = {("pull", "request"): "pr", ("merge", "request"): "mr"}
_KEYS = frozenset("api access private ssh".split())
# Tools of well-known hosts that only show the user something; another server's tool of such a name has its prefix.
_LOOKS_BY_NAME = frozenset("ExitPlanMode EnterPlanMode exit_plan_mode attempt_completion update_plan".split())


@lru_cache(maxsize=CACHED_NAMES)
def _read_name(name: str) -> ToolName:
    own = tool_words(name)
    words = tuple(_TRANSLATIONS.get(word, word) for word in own)
    english = "_".join(words) if words != own else name
    joined = _join_requests(words)
    all_words = frozenset((*words, *joined)) | frozenset(map(_singular, words))
    # A name with odd characters may only look like a harmless one, and a half-translated one hides the rest.
    may_look = bool(words) and _PLAIN_NAME.fullmatch(name) is not None and _is_translated_wholly(own, words)
    verbs = _verbs_of(english if joined == words else "_".join(joined), joined)
    if may_look and _only_looks(english, words, verbs):
        names_key = "key" in all_words and not _KEYS.isdisjoint(all_words)
        return ToolName(all_words, "", "reads-secret" if names_key else "looks")
    verb, kind = gravest_kind(verbs, all_words) if verbs else ("", _kind_without_verb(all_words))
    return ToolName(all_words, verb, kind if may_look or kind != "looks" else "unknown-act")


def _join_requests(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words with `pr` and `mr` for a pull or merge request: a thing, of which the name asks for neither."""
    joined: list[str] = []
    for word in words:
        short = _REQUESTS.get((joined[-1], _singular(word))) if joined else None
        joined[-1:] = [short] if short else [*joined[-1:], word]
    return tuple(joined)


def _verbs_of(english: str, words: tuple[str, ...]) -> tuple[str, ...]:
    verbs = (*acting_words(english), *(word for word in words if word in _MORE_VERBS))
    if "draft" in words:
        return tuple(verb for verb in verbs if verb not in _WRITES_MESSAGE) or ("draft",)
    # Behind a verb that keeps records these are things: `upsert_contact` writes to no one.
    others = tuple(verb for verb in verbs if verb not in _OFTEN_THINGS)
    return others if not _KEEPS.isdisjoint(others) else verbs


def _only_looks(english: str, words: tuple[str, ...], verbs: tuple[str, ...]) -> bool:
    if english in _LOOKS_BY_NAME or tool_risk(english) is Risk.LOW:
        return True
    if words[-1] in _WHICH and verbs and _MESSAGES.issuperset(verbs):
        return True
    return words[-1] in _INFORMATION and _MOSTLY_THINGS.issuperset(verbs)


def _is_translated_wholly(own: tuple[str, ...], words: tuple[str, ...]) -> bool:
    return own == words or all(
        word != before or word in _FILLERS or word in _ENGLISH for word, before in zip(words, own, strict=True)
    )


def read_tool_name(name: str) -> ToolName:
    """Return what a name says; one longer than any host allows says nothing."""
    if len(name) > MAX_NAME:
        return ToolName(frozenset(), "", "unknown-act")
    return _read_name(name)


def gravest_kind(verbs: Iterable[str], words: frozenset[str]) -> tuple[str, str]:
    """Return the verb with the gravest kind among several, and that kind; a kind we know goes before one we do not."""
    kinds = [(verb, _kind_from_words(verb, words)) for verb in verbs]
    return max(kinds, key=lambda each: (KINDS[each[1]].severity, each[1] != "unknown-act"))


def _kind_from_words(verb: str, words: frozenset[str]) -> str:
    others = words - {verb}
    for line in _TABLE:
        if verb in line.verbs and (not line.things or any(thing <= others for thing in line.things)):
            return line.kind
    return "unknown-act"


def _kind_without_verb(words: frozenset[str]) -> str:
    if not _SECRETS.isdisjoint(words):
        return "reads-secret"
    return "requests" if not _ADDRESSES.isdisjoint(words) else "unknown-act"


def _singular(word: str) -> str:
    if len(word) < 4 or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies"):
        return word[:-3] + "y"
    return word.removesuffix("s")


_ENGLISH = (
    frozenset(_TRANSLATIONS.values())
    | VERBS
    | frozenset("all new email mail inbox user account list detail details status".split())
)
