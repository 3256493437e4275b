"""What is said of a held call: to the model, without a word of what it has read, and to the person who is asked."""

from __future__ import annotations

import re

from lockgate.core.errors import LockgateError, printable
from lockgate.core.ruling.approvals import PendingApproval, describe_call
from lockgate.core.vocabulary import Action, Decision, Reason

# A longer call cannot be read in a dialogue, so it cannot be approved there.
MAX_SHOWN = 4_000
# Without blanks, because a model reads these names and a name could be a sentence.
PLAIN_NAME = re.compile(r"[\w./\\:@+~()\[\]-]{1,120}")


def reason_for_model(decision: Decision) -> str:
    """Return the rule and the source of its text: our own rule names, and a source only if it has no blanks."""
    rules = dict.fromkeys([*(finding.rule for finding in decision.findings), decision.reason.value])
    shown = ", ".join([rule for rule in rules if PLAIN_NAME.fullmatch(rule)][:3])
    origin = next((origin for origin in decision.origins if not origin.known), None)
    if origin is None:
        return f"it looks as if text that the agent has read is behind it ({shown})"
    source = f"`{_short_source(origin.source)}`" if PLAIN_NAME.fullmatch(origin.source) else "a source with an odd name"
    part = f"`{origin.argument}`" if PLAIN_NAME.fullmatch(origin.argument) else "an argument"
    return f"{part} comes from {source}, not from the user ({shown})"


def _short_source(source: str) -> str:
    """Return a page's address without its path, which its author can write a sentence into."""
    kind, _, place = source.partition(":")
    if "://" not in place:
        return source
    scheme, _, rest = place.partition("://")
    return f"{kind}:{scheme}://{rest.partition('/')[0].partition('?')[0].partition('#')[0]}"


def denial_for_model(decision: Decision) -> str:
    """Return the sentences that a model reads in place of the result of a call that did not run."""
    if decision.action is Action.REORIENT:
        instead = printable(decision.correction, 600) or "go on with what the user asked for"
        return f"Lockgate did not let this call run: {reason_for_model(decision)}. Instead: {instead}"
    if decision.reason is Reason.DENIED:
        return "Lockgate did not let this call run: a person was asked about it, and has not allowed it."
    text = f"Lockgate stopped this call: {reason_for_model(decision)}."
    if not decision.approval:
        return text
    return (
        f"{text} It waits for a person as {decision.approval} (lockgate approvals show {decision.approval}); "
        "once approved, the same call runs once."
    )


def failure_for_model(error: BaseException) -> str:
    """Return what a model is told of a call that could not be ruled on; a foreign error's text may hold anything."""
    what = printable(error.message, 300) if isinstance(error, LockgateError) else type(error).__name__
    return f"Lockgate did not let this call run, since it could not rule on it: {what}."


def question_for_person(pending: PendingApproval, holder: str) -> str:
    """Return the question about a held call; empty if it is too long to be read in a dialogue.

    `holder` completes "Lockgate holds a call of …".
    """
    does = escape_invisible(describe_call(pending.bound))
    arguments = escape_invisible(pending.bound.arguments)
    if len(does) + len(arguments) > MAX_SHOWN:
        return ""
    why = escape_invisible(pending.shown.explanation or pending.shown.reason)[:1_200]
    return (
        f"Lockgate holds a call of {escape_invisible(holder)}.\n"
        f"It would do: {does}\nArguments: {arguments}\nWhy it is held: {why}\n"
        f"Allow it once? If you did not ask for this, say no. (approval {pending.id})"
    )


def escape_invisible(text: str) -> str:
    """Return text for a dialogue: on one line, with the code point in place of each character that does not show."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(ch if ch.isprintable() else f"\\u{{{ord(ch):x}}}" for ch in text)
