"""Why a call was escalated, in words: one plain sentence that a person can act on, then the details.

Terminal, hook, page and API show this text; the tree in the terminal adds lines of its own (`cli/ruling_tree.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from lockgate.core.errors import printable, quoted
from lockgate.core.ruling.effects.effect import KINDS
from lockgate.core.vocabulary import Effect, Finding, Origin, Reason

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
    sentences = (_sentence(reason, findings, origins, effects, room) for room in _ROOMS)
    sentence = next((said for said in sentences if len(said) < MAX_FIRST), "")
    return f"{sentence or f'This call was escalated: {reason.value}'}."


def _sentence(
    reason: Reason, findings: Sequence[Finding], origins: Sequence[Origin], effects: Sequence[Effect], room: int
) -> str:
    """Return the sentence without its full stop; each value in it has at most `room` characters."""
    last = f"This call was escalated: {reason.value}"
    if reason is Reason.UNNAMED_TARGET and effects:
        does = describe_effect(effects[0].kind, effects[0].target, room)
        last = f"This call {does}, after untrusted text was read, and your words do not name that letter by letter"
    return (
        _sentence_from_flow(findings, room)
        or next((found.excerpt for found in findings if found.rule in (FORBIDDEN, LOOKALIKE)), "")
        or _sentence_from_effects(findings, origins, room)
        or _sentence_from_origins(findings, origins, effects, room)
        or _sentence_from_rules(findings, room)
        or ("Every call is escalated in paranoid mode" if reason is Reason.PARANOID_MODE else "")
        or last
    )


def describe_effect(kind: str, target: str, room: int = _MAX_TARGET) -> str:
    """Return what an effect does as the end of the sentence "this call …"."""
    shown = printable(target)
    shown = shown if len(shown) <= room else f"{shown[: room - 1]}…"
    return KINDS[kind].does.replace("`{target}`", f"`{shown}`" if shown else "something that it does not name")


def _sentence_from_flow(findings: Sequence[Finding], room: int) -> str:
    held = next((found for found in findings if found.rule.startswith("flow:")), None)
    if held is None:
        return ""
    said = f"Your policy {quoted(held.rule.removeprefix('flow:'), room)} holds this"
    return f"{said}: {held.excerpt}" if len(said) + len(held.excerpt) < MAX_FIRST - 2 else said


def _sentence_from_effects(findings: Sequence[Finding], origins: Sequence[Origin], room: int) -> str:
    effects = (found for found in findings if found.rule.startswith(EFFECT))
    finding = next((found for found in effects if found.rule.removeprefix(EFFECT) in KINDS), None)
    if finding is None:
        return ""
    does = describe_effect(finding.rule.removeprefix(EFFECT), finding.excerpt, room)
    dictated = [found.excerpt for found in findings if found.rule == DICTATED]
    for origin in sorted(origins, key=lambda origin: origin.value not in dictated):
        if origin.value in dictated:
            return f"This call {does}; {name_of_source(origin, room)} has its command word for word"
        if origin.sink == "target" and origin.value == finding.excerpt:
            return f"This call {does}, which stands in {name_of_source(origin, room)} and not in your words"
    return f"This call {does}"


def _sentence_from_origins(
    findings: Sequence[Finding], origins: Sequence[Origin], effects: Sequence[Effect], room: int
) -> str:
    does = describe_effect(effects[0].kind, effects[0].target, room) if effects and effects[0].target else "acts"
    for origin in origins:
        if origin.order and not origin.known:
            value = quoted(origin.value, room)
            return f"This call {does}; {value} stands in or beside an order in {name_of_source(origin, room)}"
    for found in findings:
        if found.rule == "origin:tool-in-order":
            return f"An order in {printable(found.where, room)} says what this call does"
        if found.rule == "origin:unasked-recipient":
            return f"This call goes to {quoted(found.excerpt, room)}, which untrusted text gives in a sentence"
    return ""


def _sentence_from_rules(findings: Sequence[Finding], room: int) -> str:
    for found in findings:
        if not found.rule.startswith("origin:") and found.rule != CARRIED:
            what = f": {quoted(found.excerpt, room)}" if found.excerpt else ""
            return f"Rule {found.rule} matches in {printable(found.where, room)}{what}"
    return ""


def name_of_source(origin: Origin, room: int = _MAX_PLACE) -> str:
    """Return what a person calls the place of a text: a page, a file, the result of a tool."""
    kind, _, place = printable(origin.source).partition(":")
    place = place.removeprefix("https://").removeprefix("http://")
    room = min(room, _MAX_PLACE)
    place = place if len(place) <= room else f"{place[: room - 1]}…"
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
