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
_MAX_TARGET = 48
_MAX_ORIGINS, _MAX_DETAILS = 3, 4


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
    """Return why a call was escalated in one sentence of at most `MAX_FIRST` characters."""
    sentence = (
        _sentence_from_flow(findings)
        or next((found.excerpt for found in findings if found.rule in (FORBIDDEN, LOOKALIKE)), "")
        or _sentence_from_effects(findings, origins)
        or _sentence_from_origins(findings, origins, effects)
        or _sentence_from_rules(findings)
        or ("Every call is escalated in paranoid mode" if reason is Reason.PARANOID_MODE else "")
        or _sentence_for_unnamed(reason, effects)
        or f"This call was escalated: {reason.value}"
    )
    return f"{sentence[: MAX_FIRST - 2]}…" if len(sentence) >= MAX_FIRST else f"{sentence}."


def describe_effect(kind: str, target: str) -> str:
    """Return what an effect does as the end of the sentence "this call …"."""
    shown = printable(target)
    shown = shown if len(shown) <= _MAX_TARGET else f"{shown[: _MAX_TARGET - 1]}…"
    return KINDS[kind].does.replace("`{target}`", f"`{shown}`" if shown else "something that it does not name")


def _sentence_from_flow(findings: Sequence[Finding]) -> str:
    held = next((found for found in findings if found.rule.startswith("flow:")), None)
    return "" if held is None else f"Your policy `{held.rule.removeprefix('flow:')}` holds this: {held.excerpt}"


def _sentence_from_effects(findings: Sequence[Finding], origins: Sequence[Origin]) -> str:
    effects = (found for found in findings if found.rule.startswith(EFFECT))
    finding = next((found for found in effects if found.rule.removeprefix(EFFECT) in KINDS), None)
    if finding is None:
        return ""
    does = describe_effect(finding.rule.removeprefix(EFFECT), finding.excerpt)
    for origin in origins:
        if origin.sink == "target" and origin.value == finding.excerpt:
            return f"This call {does}, which only {_block(origin)} names; the goal does not ask for it"
    return f"This call {does}; the goal does not ask for that, and the agent has read untrusted text"


def _sentence_from_origins(findings: Sequence[Finding], origins: Sequence[Origin], effects: Sequence[Effect]) -> str:
    does = describe_effect(effects[0].kind, effects[0].target) if effects and effects[0].target else "acts"
    for origin in origins:
        if origin.order and not origin.known:
            value = quoted(origin.value, _MAX_TARGET)
            if any(each.kind == "unknown-act" and each.target == origin.value for each in effects):
                # The call itself seems harmless.
                return f"This call uses {value}, which an order in {_block(origin)} names, and the goal does not"
            return f"This call {does}; {value} comes from an order in {_block(origin)}, not from the goal"
    for found in findings:
        if found.rule == "origin:tool-in-order":
            return f"{printable(found.where)} orders what this call does, and the goal does not"
        if found.rule == "origin:unasked-recipient":
            return f"This call goes to {quoted(found.excerpt, _MAX_TARGET)}, which only untrusted text names"
    return ""


def _sentence_from_rules(findings: Sequence[Finding]) -> str:
    for found in findings:
        if not found.rule.startswith("origin:") and found.rule != CARRIED:
            what = f": {quoted(found.excerpt, 60)}" if found.excerpt else ""
            return f"Rule {found.rule} matches in {printable(found.where)}{what}"
    return ""


def _sentence_for_unnamed(reason: Reason, effects: Sequence[Effect]) -> str:
    if reason is not Reason.UNNAMED_TARGET or not effects:
        return ""
    does = describe_effect(effects[0].kind, effects[0].target)
    return f"This call {does}, after untrusted text was read, and the user does not name that letter by letter"


def _block(origin: Origin) -> str:
    source = printable(origin.source)
    return f"{printable(origin.block)} ({source[:32]})"


def _details(findings: Sequence[Finding], origins: Sequence[Origin]) -> list[str]:
    """Return the strongest reasons for the escalation: first the origins, then the rules."""
    unasked = {finding.where for finding in findings if finding.rule == "origin:unasked-recipient"}
    telling = [origin for origin in origins if not origin.known and (origin.order or origin.argument in unasked)]
    sentences = [_origin_sentence(origin) for origin in telling[:_MAX_ORIGINS]]
    sentences += filter(None, map(_finding_sentence, findings))
    return list(dict.fromkeys(sentences[:_MAX_DETAILS]))


def _finding_sentence(found: Finding) -> str:
    """Return a finding in words; empty for a signal that the origins tell already."""
    if found.rule == "origin:tool-in-order":
        where = printable(found.where)
        return f"{where} orders what this tool does, and the goal does not: {quoted(found.excerpt, 120)}"
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
    where = f"{printable(origin.block)} ({printable(origin.source)})"
    how = f"in a sentence that gives orders ({quoted(origin.order, 120)}), and" if origin.order else "and"
    return f"{quoted(origin.argument)} = {quoted(origin.value)} comes from {where}, {how} not from the goal"
