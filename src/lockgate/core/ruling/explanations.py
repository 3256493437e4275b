"""What a finding and an escalation are in words: the catalogue of all ids, and one plain sentence for a person.

`ENTRIES` has everything that Tier 1 can name in a finding: rules, encoded content, origin signals, reached limits.
Terminal, hook, page and API show what `explain` returns; the tree in the terminal adds lines (`cli/ruling_tree.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from string import ascii_uppercase

from lockgate.core.errors import printable, quoted
from lockgate.core.ruling.effects.effect import KINDS
from lockgate.core.tables import read_rows
from lockgate.core.text.rules import RULES
from lockgate.core.vocabulary import Effect, Finding, Origin, Reason, Severity

# What stands before the kind of an effect in a rule id.
EFFECT = "effect:"
# A call does what the goal forbids altogether; the excerpt says so in words.
FORBIDDEN = EFFECT + "forbidden"
# A block repeats untrusted text of an earlier session; the excerpt is the source of that text, the reading its time.
CARRIED = "carried:untrusted-text"
# A call goes to an address that looks like a known one; the excerpt says so in words.
LOOKALIKE = "origin:lookalike-address"
# Untrusted text has a whole command of the call word for word; the excerpt is the command.
DICTATED = "origin:dictated-command"
# The call has another value in a slot than the user's words; the excerpt says which.
SLOT = "slot:"


# The catalogue


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """One id with its explanation. `scope` is a rule's, or `call` for what is a property of a whole call."""

    id: str
    family: str
    scope: str
    what: str
    why: str
    hit: str = ""
    miss: str = ""
    pattern: str = ""
    owasp: str = "LLM01:2026, ASI01"


_WHY_EFFECTS = {
    Severity.REACHES_OUT: "untrusted text names or orders its target, and neither the user nor the project names it",
    Severity.OPENS_A_DOOR: "it opens a door, the goal does not ask for it, and the agent has read untrusted text",
}


def _read_entries() -> Iterator[CatalogueEntry]:
    for rule in RULES:
        texts = rule.what, rule.why, rule.hit, rule.miss, rule.pattern, rule.owasp
        yield CatalogueEntry(rule.id, rule.family, rule.scope.value, *texts)
    for row in read_rows(__package__, "findings.tbl", "findings", ("id", "family", "scope", "owasp", "what", "why")):
        id, family, scope, owasp, what, why = row.cells
        hit, miss = [example.text for example in row.examples] or ["", ""]
        yield CatalogueEntry(id, family, scope, what, why, hit, miss, owasp=owasp)
    for name, kind in KINDS.items():
        if kind.severity in _WHY_EFFECTS:
            what = f"the call {kind.does.replace('`{target}`', 'TARGET')}"
            yield CatalogueEntry(f"{EFFECT}{name}", "effect", "call", what, _WHY_EFFECTS[kind.severity])


ENTRIES = tuple(_read_entries())
_BY_ID = {entry.id: entry for entry in ENTRIES}
# By the beginning of an id that differs, its entry in the table, which ends with a word in capitals.
_BY_PREFIX = {entry.id.rstrip(ascii_uppercase): entry for entry in ENTRIES if entry.id[-1].isupper()}
LOST_TEXT = _BY_ID["plug:lost-text"]
SIGNALS = {entry.id: (entry.what, entry.why) for entry in ENTRIES if entry.family == "origin"}


def find_entry(rule: str) -> CatalogueEntry | None:
    """The entry of an id as it stands in a finding (`encoded:base64>hex`) or in the table (`encoded:READING`)."""
    return _BY_ID.get(rule) or next((entry for key, entry in _BY_PREFIX.items() if rule.startswith(key)), None)


def entry_for(rule: str) -> CatalogueEntry:
    """The entry of any id that a finding can carry; patterns of this installation have none of their own."""
    why, family = "its configuration names it in additional_patterns", rule.partition(":")[0]
    return find_entry(rule) or CatalogueEntry(rule, family, "agent", "a pattern of this installation", why)


# Why a call was escalated

# The first sentence has at most so many characters.
MAX_FIRST = 160
_MAX_TARGET, _MAX_PLACE = 48, 32
# A sentence that is too long shows less of its values, and still ends.
_ROOMS = (_MAX_TARGET, 36, 24, 16)
_MAX_ORIGINS, _MAX_DETAILS = 2, 4


def explain(
    reason: Reason, findings: Sequence[Finding], origins: Sequence[Origin], effects: Sequence[Effect], outcome: str
) -> str:
    """Return the sentence, the details and `outcome`, which says how the call comes out."""
    first = first_sentence(reason, findings, origins, effects)
    details = _details(findings, origins)
    return f"{first} {'; '.join([*details, outcome] if details else [outcome[:1].upper() + outcome[1:]])}"


def first_sentence(
    reason: Reason, findings: Sequence[Finding], origins: Sequence[Origin], effects: Sequence[Effect]
) -> str:
    """Return why a call was escalated in one whole sentence of at most `MAX_FIRST` characters."""
    last = f"This call was escalated: {reason.value}"
    for room in _ROOMS:
        sentences = (
            *_sentences_from_findings(findings, origins, room),
            *_sentences_from_origins(findings, origins, effects, room),
            *_sentences_from_reason(reason, findings, effects, room),
        )
        if len(sentence := next(iter(sentences), last)) < MAX_FIRST:
            return f"{sentence}."
    return f"{last}."


def describe_effect(kind: str, target: str, room: int = _MAX_TARGET) -> str:
    """Return what an effect does as the end of the sentence "this call …"."""
    shown = _shorten(printable(target), room)
    return KINDS[kind].does.replace("`{target}`", f"`{shown}`" if shown else "something that it does not name")


def _shorten(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: room - 1]}…"


def _sentences_from_findings(findings: Sequence[Finding], origins: Sequence[Origin], room: int) -> Iterator[str]:
    """Yield what a flow rule, the goal, a known address and the effects say, each without its full stop."""
    for found in findings:
        if found.rule.startswith("flow:"):
            said = f"Your policy {quoted(found.rule.removeprefix('flow:'), room)} holds this"
            yield f"{said}: {found.excerpt}" if len(said) + len(found.excerpt) < MAX_FIRST - 2 else said
    yield from [found.excerpt for found in findings if found.rule in (FORBIDDEN, LOOKALIKE) and found.excerpt]
    dictated = {found.excerpt for found in findings if found.rule == DICTATED}
    for found in findings:
        if found.rule.startswith(EFFECT) and found.rule != FORBIDDEN:
            does = f"This call {describe_effect(found.rule.removeprefix(EFFECT), found.excerpt, room)}"
            yield f"{does}{_who_names(found.excerpt, dictated, origins, room)}"


def _who_names(target: str, dictated: set[str], origins: Sequence[Origin], room: int) -> str:
    """Return which untrusted text has the command of a call, or its target, as the end of a sentence."""
    for origin in sorted(origins, key=lambda origin: origin.value not in dictated):
        if origin.value in dictated:
            return f"; {name_of_source(origin, room)} has its command word for word"
        if origin.sink == "target" and origin.value == target:
            return f", which stands in {name_of_source(origin, room)} and not in your words"
    return ""


def _sentences_from_origins(
    findings: Sequence[Finding], origins: Sequence[Origin], effects: Sequence[Effect], room: int
) -> Iterator[str]:
    does = describe_effect(effects[0].kind, effects[0].target, room) if effects and effects[0].target else "acts"
    for origin in origins:
        if origin.order and not origin.known:
            value = quoted(origin.value, room)
            yield f"This call {does}; {value} stands in or beside an order in {name_of_source(origin, room)}"
    for found in findings:
        if found.rule == "origin:tool-in-order":
            yield f"An order in {printable(found.where, room)} says what this call does"
        if found.rule == "origin:unasked-recipient":
            yield f"This call goes to {quoted(found.excerpt, room)}, which untrusted text gives in a sentence"


def _sentences_from_reason(
    reason: Reason, findings: Sequence[Finding], effects: Sequence[Effect], room: int
) -> Iterator[str]:
    for found in findings:
        if not found.rule.startswith("origin:") and found.rule != CARRIED:
            what = f": {quoted(found.excerpt, room)}" if found.excerpt else ""
            yield f"Rule {found.rule} matches in {printable(found.where, room)}{what}"
    if reason is Reason.PARANOID_MODE:
        yield "Every call is escalated in paranoid mode"
    if reason is Reason.UNNAMED_TARGET and effects:
        does = describe_effect(effects[0].kind, effects[0].target, room)
        yield f"This call {does}, after untrusted text was read, and your words do not name that letter by letter"


def name_of_source(origin: Origin, room: int = _MAX_PLACE) -> str:
    """Return what a person calls the place of a text: a page, a file, the result of a tool."""
    kind, _, place = printable(origin.source).partition(":")
    place = _shorten(place.removeprefix("https://").removeprefix("http://"), min(room, _MAX_PLACE))
    result = f"the result of {place}"
    named = {"web": f"the page {place}", "tool": result, "mcp": result, "file": place, "mail": f"the mail {place}"}
    return named.get(kind, f"{kind} {place}".strip()) if place else kind[:_MAX_PLACE]


def _details(findings: Sequence[Finding], origins: Sequence[Origin]) -> list[str]:
    """Return the strongest reasons for the escalation: first the origins, then the rules."""
    unasked = {finding.where for finding in findings if finding.rule == "origin:unasked-recipient"}
    telling = [origin for origin in origins if not origin.known and (origin.order or origin.argument in unasked)]
    sentences = list(dict.fromkeys(map(_origin_sentence, telling)))
    more = len(sentences) - _MAX_ORIGINS
    sentences = [*sentences[:_MAX_ORIGINS], *([f"{more} more values from untrusted text"] if more > 0 else [])]
    sentences += filter(None, map(_finding_sentence, findings))
    return list(dict.fromkeys(sentences[:_MAX_DETAILS]))


def _finding_sentence(found: Finding) -> str:
    """Return a finding in words; empty for a signal that the origins tell already."""
    if found.rule == "origin:tool-in-order":
        return f"an order in {printable(found.where)} names this tool: {quoted(found.excerpt, 120)}"
    if found.rule.startswith(SLOT):
        return f"another {found.rule.removeprefix(SLOT)} than in your words: {found.excerpt}"
    if found.rule == CARRIED:
        where, at = printable(found.where), found.reading
        day = datetime.fromtimestamp(int(at), UTC).date().isoformat() if at.isdigit() else "an earlier day"
        return f"words of {where} came from {printable(found.excerpt)} in a session of {day}"
    if found.rule.startswith(("origin:", EFFECT)):
        return ""
    what = f" in {quoted(found.excerpt, 80)}" if found.excerpt else ""
    reading = "" if found.reading == "raw" else f", read as {found.reading}"
    return f"{found.rule} found in {printable(found.where)}{reading}{what}"


def _origin_sentence(origin: Origin) -> str:
    how = f", in or beside an order ({quoted(origin.order, 120)})" if origin.order else ""
    return f"{quoted(origin.argument)} = {quoted(origin.value)} stands in {name_of_source(origin)}{how}"
