"""What a tool call would do, as values: kinds of effects, how grave each is, and what it is aimed at.

Provenance says where the words of a call came from; an effect says what happens when the call runs. A ruling needs
both. Every kind is a row of `kinds.tbl`, from which the reference page and its tests are made.
"""

from __future__ import annotations

from typing import NamedTuple

from lockgate.core.tables import read_sections, read_table
from lockgate.core.vocabulary import Certainty as Certainty
from lockgate.core.vocabulary import Effect as Effect
from lockgate.core.vocabulary import Severity as Severity


class EffectKind(NamedTuple):
    """One kind of effect, as a row of `kinds.tbl` says it."""

    severity: Severity
    does: str
    by_target: bool = False


def effect(
    kind: str,
    target: str = "",
    *,
    certainty: Certainty = Certainty.SURE,
    argument: str = "",
    span: tuple[int, int] = (0, 0),
) -> Effect:
    """Return an effect with the severity of its kind."""
    return Effect(kind, KINDS[kind].severity, target, certainty, argument, *span)


# By kind, the phrases by which a goal asks for it; the file says how.
_PHRASES = read_sections(__package__, "asked_by.txt")
ASKED_BY = {kind: tuple(", ".join(lines).split(", ")) for kind, lines in _PHRASES.items()}
_SEVERITIES = dict(zip(("looks", "here", "out", "door"), Severity, strict=True))
KINDS = {
    kind: EffectKind(_SEVERITIES[severity], words, by_target == "target")
    for kind, severity, by_target, words in read_table(
        __package__, "kinds.tbl", "kinds", ("kind", "severity", "by target", "in words")
    )
}
# Kinds that spend the user's money: the goal has to ask for them, whatever they are aimed at.
SPENDS = frozenset({"pays", "approves-payment"})
