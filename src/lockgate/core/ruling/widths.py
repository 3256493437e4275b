"""How much is asked about, and who may clear it.

Narrow: a call is asked about where something was found. Wide: after untrusted text, every call of severity 2 or 3 is
asked about, unless the user or the project names all that it is aimed at; and from severity 1 a command that a text
dictates word for word. Wide needs a judge that has shown in an exam that it can tell: no other clears anything there.

| judge | severity 2 | severity 3 |
|---|---|---|
| embedded, or named and not examined | narrow only | never |
| examined and failed, replaced since, or its exam is void | never | never |
| passed | yes | never |
| passed with distinction | yes | when Tier 2 and Tier 3 agree |
| a `Judge` object of the developer's | yes | Tier 3 only |

No judge clears a hard finding.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from lockgate.core.ruling.arguments import Leaf, sink_from_argument
from lockgate.core.ruling.effects.effect import Effect, Severity
from lockgate.core.ruling.standing import Authority, JudgeStanding
from lockgate.core.ruling.work_budget import WorkBudget
from lockgate.core.text.imperatives import prepare

if TYPE_CHECKING:
    from lockgate.core.ruling.context import Context
    from lockgate.core.ruling.word_index import IndexedReading

# A host, a mailbox, a path or an account; a package has no such sign, and is told by its effect.
_IDENTITY = re.compile(r"[./@~]|\d{6}")
_PACKAGES = frozenset({"installs-package", "adds-dependency"})
_SHORTEST_DICTATED = 8


class Width(StrEnum):
    """Which calls are asked about."""

    NARROW = "narrow"
    WIDE = "wide"


def effective_width(escalate: str, judge: JudgeStanding | None) -> Width:
    """Return the width in force: `auto` is wide only with a judge that has passed, also if it was replaced since."""
    if escalate == "auto":
        escalate = "wide" if judge and (judge.has_passed or judge.authority is Authority.REPLACED) else "narrow"
    return Width(escalate)


def must_ask_widely(
    context: Context, effects: Sequence[Effect], leaves: Iterable[Leaf], readings: Sequence[IndexedReading]
) -> bool:
    """Return whether a call in which nothing was found is asked about all the same."""
    if not effects or effects[0].severity < Severity.WORKS_HERE:
        return False
    reaching = [effect for effect in effects if effect.severity >= Severity.REACHES_OUT]
    if any(not _is_named(effect, context) for effect in reaching):
        return True
    commands = [leaf.text for leaf in leaves if sink_from_argument(leaf.argument) == "command"]
    return any(_is_dictated(command, context, readings) for command in commands)


def _is_named(effect: Effect, context: Context) -> bool:
    """Return whether the user or the project names what an effect is aimed at, letter by letter."""
    target = effect.target
    if not (_IDENTITY.search(target) or (target and effect.kind in _PACKAGES)):
        return False
    if context.project.has_host(target) or (effect.kind == "pushes" and target in context.project.remotes):
        return True
    trusted = context.trusted_text
    budget = WorkBudget(len(trusted.trusted_only))
    return trusted.contains_address(target.lower().encode("utf-8", "ignore"), budget, trusted_only=True)


def _is_dictated(command: str, context: Context, readings: Sequence[IndexedReading]) -> bool:
    """Return whether a whole command stands word for word in untrusted text, and not in the user's words."""
    line = prepare(command.strip().encode("utf-8", "ignore"))
    if len(line) < _SHORTEST_DICTATED or line in context.trusted_text.trusted_only:
        return False
    return any(line in reading.word_index.prepared for reading in readings)


def may_clear(authority: Authority, width: str, *, grave: bool, supervises: bool, agreed: bool) -> bool:
    """Return whether a judge's word clears a call without hard findings.

    `grave`: it has severity 3 or does what the goal forbids. `agreed`: Tier 2 found nothing suspicious either.
    """
    match authority:
        case Authority.DEVELOPER:
            return supervises or not grave
        case Authority.DISTINCTION:
            return not grave or (supervises and agreed)
        case Authority.PASSED:
            return not grave
        case Authority.EMBEDDED | Authority.UNEXAMINED:
            return not grave and width != Width.WIDE
    return False
