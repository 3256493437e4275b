"""Supervised steps as values: how much supervision, what the agent said it would do, what it says it did.

Both texts are the agent's, and an agent that has been hijacked writes whatever gets it through. So neither can clear
anything: a commitment is only ever compared *against* what was seen, an admission in the assessment counts and a
reassurance does not, and calls that were not declared count whatever the agent says of them. What follows from a
trigger is one more look, never one less: each call is judged as if there were no step.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from lockgate.core.context import Past
from lockgate.core.errors import InvalidCall, printable, quoted
from lockgate.core.origins import Leaf, Wishes
from lockgate.core.scope import OUTSIDE, Border, outside, places
from lockgate.core.tools import canonical_tool, tool_intent, tool_risk, tool_words
from lockgate.core.vocabulary import Finding, Risk

MAX_ASSUMPTIONS = 3
# A declaration that names everything declares nothing: these bound how much can be named.
MAX_ENTRIES = 20
MAX_ENTRY = 400
MAX_TEXT = 4_000
MAX_TRIGGERS = 20


class Supervision(StrEnum):
    """How much a step is looked at once the agent says it is done."""

    UNSUPERVISED = "unsupervised"
    SUPERVISED = "supervised"
    SUPERVISED_HUMAN = "supervised-human"


_STRICTNESS = {Supervision.UNSUPERVISED: 0, Supervision.SUPERVISED: 1, Supervision.SUPERVISED_HUMAN: 2}


def inherited(parent: Supervision | None, asked: Supervision | None) -> Supervision:
    """What is in force for a step: a child may be stricter than its parent, never laxer.

    A step about which nothing was said is supervised: UNSUPERVISED has to be asked for by name.
    """
    if asked is None:
        return Supervision.SUPERVISED if parent is None else parent
    return asked if parent is None else max(parent, asked, key=_STRICTNESS.__getitem__)


def supervision_of(value: object) -> Supervision:
    """A level by its name, in any case, with a hyphen, an underscore or a space."""
    if isinstance(value, Supervision):
        return value
    if isinstance(value, str):
        for level in Supervision:
            if re.sub("[_ ]", "-", value.strip().lower()) == level.value:
                return level
    raise InvalidCall(f"unknown supervision {quoted(value)}", hint=f"use one of: {', '.join(Supervision)}")


@dataclass(frozen=True, slots=True)
class Commitment:
    """What the agent understands the step to be, before its first call."""

    interpretation: str
    in_scope: tuple[str, ...] = ()
    out_of_scope: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "interpretation", _text(self.interpretation, "interpretation"))
        if not self.interpretation:
            raise InvalidCall("a commitment needs an interpretation", hint="say in a sentence what the step is to do")
        for name in ("in_scope", "out_of_scope", "assumptions"):
            put(self, name, _entries(getattr(self, name), name))


@dataclass(frozen=True, slots=True)
class SelfAssessment:
    """What the agent says it did, after its last call."""

    met: bool
    deviations: tuple[str, ...] = ()
    concerns: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    summary: str = ""

    def __post_init__(self) -> None:
        put = object.__setattr__
        # The text "false" is true to Python.
        if type(self.met) is not bool:
            raise InvalidCall(f"met must be true or false, not {type(self.met).__name__}")
        put(self, "summary", _text(self.summary, "summary"))
        for name in ("deviations", "concerns", "assumptions"):
            put(self, name, _entries(getattr(self, name), name))


def commitment_of(value: Commitment | Mapping[str, object]) -> Commitment:
    """A commitment as an agent wrote it, checked; what it wrote in other fields is refused, not dropped."""
    return value if isinstance(value, Commitment) else Commitment(**_known_keys(value, Commitment))  # type: ignore[arg-type]


def assessment_of(value: SelfAssessment | Mapping[str, object]) -> SelfAssessment:
    """A self-assessment as an agent wrote it, checked in the same way."""
    if isinstance(value, SelfAssessment):
        return value
    return SelfAssessment(**_known_keys(value, SelfAssessment))  # type: ignore[arg-type]


class Cause(StrEnum):
    """Why a step needs to be looked at."""

    CONCERNS_RAISED = "concerns_raised"
    COMMITMENT_NOT_MET = "commitment_not_met"
    SCOPE_DEVIATION = "scope_deviation"
    EXCESS_ASSUMPTIONS = "excess_assumptions"
    UNDECLARED_CALL = "undeclared_call"


class Trigger(NamedTuple):
    """One cause, with what set it off: the agent's own words, or the call that was seen."""

    cause: Cause
    what: str = ""


def reconcile(
    commitment: Commitment,
    assessment: SelfAssessment,
    calls: Sequence[Past],
    *,
    early: Sequence[Past] = (),
    high_risk_tools: frozenset[str] = frozenset(),
) -> tuple[Trigger, ...]:
    """What does not fit together, without asking anybody. Nothing that the agent writes removes a trigger.

    `calls` are all calls since the step began, those that were held included: a call that was tried tells as much.
    `early` are acting ones that were made before there was a commitment.
    """
    found = [Trigger(Cause.CONCERNS_RAISED, concern) for concern in assessment.concerns]
    if not assessment.met:
        found.append(Trigger(Cause.COMMITMENT_NOT_MET))
    found += [Trigger(Cause.SCOPE_DEVIATION, deviation) for deviation in assessment.deviations]
    assumed = distinct((*commitment.assumptions, *assessment.assumptions))
    if len(assumed) > MAX_ASSUMPTIONS:
        found.append(Trigger(Cause.EXCESS_ASSUMPTIONS, f"{len(assumed)} assumptions"))
    for call in early:
        found.append(Trigger(Cause.UNDECLARED_CALL, f"{printable(call.tool)}: made before the commitment"))
    for call in calls:
        why = undeclared(commitment, call, high_risk_tools=high_risk_tools)
        if why:
            found.append(Trigger(Cause.UNDECLARED_CALL, f"{printable(call.tool)}: {why}"))
    kept: dict[Trigger, None] = dict.fromkeys(found)
    # Twenty concerns must not crowd out the one call that was seen: each cause keeps its share.
    share = MAX_TRIGGERS // len(Cause)
    return tuple(trigger for cause in Cause for trigger in [each for each in kept if each.cause is cause][:share])


def distinct(assumptions: Iterable[str]) -> tuple[str, ...]:
    """The single assumptions in these texts, each once: five sentences in one entry are five assumptions."""
    pieces = (
        re.sub(r"^(?:[-*\u2022]|\(?\w{1,2}[.)])\s+", "", piece.strip()).strip(" .;,")
        for text in assumptions
        for piece in re.split(
            r"[\n;\u2022]|(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)\s+(?=\S{2})|,?\s+and\s+(?:that|assum\w+)\s+|\s(?=\(?\d[.)]\s)",
            text,
        )
    )
    return tuple({piece.casefold(): piece for piece in pieces if len(piece) > 1}.values())


def undeclared(commitment: Commitment, call: Past, *, high_risk_tools: frozenset[str] = frozenset()) -> str:
    """Why a call lies outside what the agent declared, or nothing.

    1. What the commitment calls out of scope is, by the tool's name, by what it does, or by a place it touches.
    2. Looking around needs no declaration.
    3. An acting tool has to be named in `in_scope`, or what it does has to be.
    4. Where `in_scope` names places, the call stays within them.
    """
    leaves = [Leaf(argument, text) for argument, text in call.values]
    # 1. Out of scope.
    for entry in commitment.out_of_scope:
        never = places(entry).inside
        if never and not _BEYOND.search(entry):
            # "mail to hr.example" rules out that place, not mail.
            crossed = outside(Border(never=never, open=True), leaves, tool=call.tool)
        elif _names(entry, call.tool, alone=True) or _implies(entry, call.tool):
            return f"the commitment puts it out of scope ({quoted(entry)})"
        else:
            continue
        if any(found.rule == OUTSIDE for found in crossed):
            return f"it touches what the commitment puts out of scope ({quoted(entry)})"
    # 2. Looking.
    if tool_risk(call.tool, additional=high_risk_tools) is Risk.LOW:
        return ""
    # 3. Acting.
    if not any(_declares(entry, call.tool) for entry in commitment.in_scope):
        return "the commitment does not mention what this tool does"
    # 4. Places.
    beyond = outside(_declared_places(commitment.in_scope), leaves, tool=call.tool)
    return f"{quoted(beyond[0].excerpt)} is not among the places of the commitment" if beyond else ""


# `nothing outside lab.example` names the place that is inside.
_BEYOND = re.compile(r"(?i)\b(?:outside|beyond|other than|except|apart from|else than|besides|not in|but)\b")


@lru_cache(maxsize=256)
def _declared_places(entries: tuple[str, ...]) -> Border:
    return Border(tuple(place for entry in entries for place in places(entry).inside))


def _declares(entry: str, tool: str) -> bool:
    """Whether an entry says what a tool does."""
    if _names(entry, tool):
        return True
    intent = tool_intent(tool)
    # What a shell is run for is in its command, so that a verb is all a declaration can be expected to name.
    if canonical_tool(tool) == "bash":
        return not intent.verbs.isdisjoint(_stems(entry))
    # Without an object a synonym says too little: who means to send a reply has not declared to pay.
    return bool(intent.objects) and _implies(entry, tool)


def _names(entry: str, tool: str, *, alone: bool = False) -> bool:
    """Whether an entry says the tool's name; with `alone`, a name of one word has to be all it says.

    Many tools are called by a plain verb, and `write` in "write to production" is not the tool.
    """
    words, said = tool_words(tool), tool_words(entry)
    if not words:
        return False
    if alone and len(words) == 1:
        return said == words
    return any(said[at : at + len(words)] == words for at in range(len(said) - len(words) + 1))


@lru_cache(maxsize=256)
def _wishes(entry: str) -> Wishes:
    wishes = Wishes()
    wishes.add(entry.encode("utf-8", "ignore"), asks=True)
    return wishes


def _implies(entry: str, tool: str) -> bool:
    return _wishes(entry).implies(tool)


def _stems(entry: str) -> set[str]:
    return {word.decode("utf-8", "ignore") for word in _wishes(entry).asked}


def findings_of(triggers: Sequence[Trigger]) -> tuple[Finding, ...]:
    """Triggers as findings, for the tier above and for whoever reads its ruling."""
    where = {Cause.UNDECLARED_CALL: "calls", Cause.EXCESS_ASSUMPTIONS: "assumptions"}
    return tuple(
        Finding(f"step:{trigger.cause.value}", where.get(trigger.cause, "self-assessment"), 0, 0, "raw", trigger.what)
        for trigger in triggers
    )


# What agents write into a list that they were asked for and have nothing to put in.
_NOTHING = frozenset(("none", "no", "n/a", "na", "nothing", "nil", "null", "-", "--", "none.", "n/a."))


def _entries(value: object, name: str) -> tuple[str, ...]:
    # A single text is a list of letters to Python.
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise InvalidCall(f"{name} must be a list of texts, not {type(value).__name__}")
    if len(value) > MAX_ENTRIES:
        raise InvalidCall(
            f"{name} has {len(value):,} entries, the limit is {MAX_ENTRIES}", hint="split the work into several steps"
        )
    kept: list[str] = []
    for entry in value:
        if not isinstance(entry, str):
            raise InvalidCall(f"{name} must hold texts, not {type(entry).__name__}")
        if len(entry) > MAX_ENTRY:
            raise InvalidCall(f"an entry of {name} has {len(entry):,} characters, the limit is {MAX_ENTRY}")
        plain = entry.strip()
        if plain and plain.lower() not in _NOTHING:
            kept.append(plain)
    return tuple(kept)


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise InvalidCall(f"{name} must be text, not {type(value).__name__}")
    if len(value) > MAX_TEXT:
        raise InvalidCall(f"{name} has {len(value):,} characters, the limit is {MAX_TEXT:,}")
    return value.strip()


def _known_keys(value: object, kind: type[Commitment] | type[SelfAssessment]) -> dict[str, object]:
    what = "a commitment" if kind is Commitment else "a self-assessment"
    names = [each.name for each in fields(kind)]
    if not isinstance(value, Mapping):
        raise InvalidCall(f"{what} must be an object, not {type(value).__name__}")
    for key in value:
        if key not in names:
            raise InvalidCall(f"{what} has no {quoted(key)}", hint=f"use {', '.join(names)}")
    if names[0] not in value:
        raise InvalidCall(f"{what} needs {quoted(names[0])}")
    return dict(value)
