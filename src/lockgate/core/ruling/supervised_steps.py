"""Supervised steps as values: how much supervision, what the agent said it would do, what it says it did.

Both texts are the agent's, and a hijacked agent writes what gets it through. So neither can clear anything: a
commitment is only compared *against* what was seen, an admission counts and a reassurance does not. What follows from a
trigger is one more look, never one less: each call is judged as if there were no step.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from functools import lru_cache
from hashlib import sha256
from itertools import accumulate
from typing import Any, NamedTuple, TypeVar, cast

from lockgate.core.errors import InvalidCall, printable, quoted
from lockgate.core.redaction.secrets import LONE_SURROGATE
from lockgate.core.ruling.approvals import FINISH as FINISH
from lockgate.core.ruling.approvals import plain_text
from lockgate.core.ruling.arguments import Leaf
from lockgate.core.ruling.context import PastCall
from lockgate.core.ruling.goal import Goal
from lockgate.core.ruling.scope.border import Border, border_from_prose
from lockgate.core.ruling.scope.crossings import OUTSIDE, find_crossings
from lockgate.core.ruling.tool_risk import PLAIN_VERBS, WORDS, canonical_tool, tool_intent, tool_risk, tool_words
from lockgate.core.tables import read_patterns
from lockgate.core.vocabulary import Finding, Risk

# A finding that no model may clear; `pipeline.HARD_RULES` names it too.
NEEDS_A_PERSON = "step:needs-a-person"
# Acting calls that are not shown, or not whole: the case is incomplete then.
UNSHOWN = "step:unshown_calls"

MAX_ASSUMPTIONS = 3
# A declaration that names everything declares nothing: these bound how much can be named. All of it is stored as ASCII
# JSON, where an emoji takes twelve bytes.
MAX_ENTRIES, MAX_ENTRY, MAX_TEXT, MAX_WRITTEN = 20, 400, 4_000, 60_000
# The agent's own words must not crowd out the calls that were seen.
MAX_WORDS, MAX_CALLS, MAX_TRIGGERS = 4, 12, 24
# Calls that are shown one by one, and how much of each. Twice as many and more are kept until then.
MAX_ACTS, MAX_ACTS_WRITTEN = 20, 40_000
_MAX_KEPT, _MAX_VALUES, _MAX_NAME, _MAX_TOOL, _MAX_VALUE = 128, 10, 40, 120, 240


class Supervision(StrEnum):
    """How much a step is looked at once the agent says it is done, the laxest first."""

    UNSUPERVISED = "unsupervised"
    SUPERVISED = "supervised"
    SUPERVISED_HUMAN = "supervised-human"


def effective_supervision(parent: Supervision | None, asked: Supervision | None) -> Supervision:
    """What is in force for a step: a child may be stricter than its parent, never laxer.

    A step about which nothing was said is supervised: UNSUPERVISED has to be asked for by name.
    """
    if asked is None:
        return Supervision.SUPERVISED if parent is None else parent
    return asked if parent is None else max(parent, asked, key=list(Supervision).index)


def parse_supervision(value: object) -> Supervision:
    """A level by its name, in any case, with a hyphen, an underscore or a space."""
    name = re.sub("[_ ]", "-", value.strip().lower()) if isinstance(value, str) else ""
    if name not in [*Supervision]:
        raise InvalidCall(f"unknown supervision {quoted(value)}", hint=f"use one of: {', '.join(Supervision)}")
    return Supervision(name)


@dataclass(frozen=True, slots=True)
class Commitment:
    """What the agent understands the step to be, before its first call."""

    interpretation: str
    in_scope: tuple[str, ...] = ()
    out_of_scope: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_fields(self)
        if not self.interpretation:
            raise InvalidCall("a commitment needs an interpretation", hint="say in a sentence what the step is to do")


@dataclass(frozen=True, slots=True)
class SelfAssessment:
    """What the agent says it did, after its last call."""

    met: bool
    deviations: tuple[str, ...] = ()
    concerns: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    summary: str = ""

    def __post_init__(self) -> None:
        _check_fields(self)


# What agents write into a list that they were asked for and have nothing to put in.
_NOTHING = frozenset(("none", "no", "n/a", "na", "nothing", "nil", "null", "-", "--", "none.", "n/a."))
_Statement = TypeVar("_Statement", Commitment, SelfAssessment)
_P = read_patterns(__package__, "supervised_steps.tbl")
_STATEMENTS: dict[type, str] = {Commitment: "a commitment", SelfAssessment: "a self-assessment"}
_SPLIT = "split the work into several steps"


def _check_fields(statement: Commitment | SelfAssessment) -> None:
    for field in fields(statement):
        value = _check_field(getattr(statement, field.name), field.name, str(field.type))
        object.__setattr__(statement, field.name, value)
    size = len(json.dumps(asdict(statement)))
    if size > MAX_WRITTEN:
        what = _STATEMENTS[type(statement)]
        raise InvalidCall(f"{what} takes {size:,} bytes as JSON, the limit is {MAX_WRITTEN:,}", hint=_SPLIT)


def _check_field(value: object, name: str, kind: str, most: int = MAX_TEXT) -> object:
    """Return a field of a statement, or an entry of one: the text "false" is true to Python, and a text is a list."""
    if kind == "bool" and type(value) is bool:
        return value
    if kind == "str" and isinstance(value, str):
        if len(value) > most:
            raise InvalidCall(f"{name} has {len(value):,} characters, the limit is {most:,}")
        return plain_text(value, name).strip()
    if kind == "tuple[str, ...]" and isinstance(value, Sequence) and not isinstance(value, str):
        if len(value) > MAX_ENTRIES:
            raise InvalidCall(f"{name} has {len(value):,} entries, the limit is {MAX_ENTRIES}", hint=_SPLIT)
        entries = [str(_check_field(entry, f"an entry of {name}", "str", MAX_ENTRY)) for entry in value]
        return tuple(entry for entry in entries if entry and entry.lower() not in _NOTHING)
    wanted = {"bool": "true or false", "str": "text"}.get(kind, "a list of texts")
    raise InvalidCall(f"{name} must be {wanted}, not {type(value).__name__}")


def parse_statement(value: _Statement | Mapping[str, object], kind: type[_Statement]) -> _Statement:
    """A statement as an agent wrote it, checked; what it wrote in other fields is refused, not dropped."""
    if isinstance(value, kind):
        return value
    what, names = _STATEMENTS[kind], [field.name for field in fields(kind)]
    if not isinstance(value, Mapping):
        raise InvalidCall(f"{what} must be an object, not {type(value).__name__}")
    for key in value:
        if key not in names:
            raise InvalidCall(f"{what} has no {quoted(key)}", hint=f"use {', '.join(names)}")
    if names[0] not in value:
        raise InvalidCall(f"{what} needs {quoted(names[0])}")
    return kind(**cast("dict[str, Any]", value))


# Why a step needs to be looked at.
CAUSES = tuple(
    "concerns_raised commitment_not_met scope_deviation excess_assumptions undeclared_call abandoned_step".split()
)


def compare_with_commitment(
    commitment: Commitment | None, assessment: SelfAssessment, acts: ActingCalls, *, abandoned: Sequence[str] = ()
) -> tuple[Finding, ...]:
    """Return what does not fit together, without asking a judge. Nothing that the agent writes removes a finding.

    `acts` has heard of all calls since the step began, those that were held included: a call that was tried tells as
    much. `abandoned` are the goals of inner steps that no judge looked at.
    """
    assumed = split_assumptions((*(commitment.assumptions if commitment else ()), *assessment.assumptions))
    causes: tuple[tuple[str, Sequence[str], int], ...] = (
        ("assessment", assessment.concerns, MAX_WORDS),
        ("assessment", [] if assessment.met else [""], 1),
        ("assessment", assessment.deviations, MAX_WORDS),
        ("commitment", [f"{len(assumed)} assumptions"] if len(assumed) > MAX_ASSUMPTIONS else [], 1),
        ("acts", [f"{printable(act.tool)}: {act.why}" for act in acts.most_telling() if act.why], MAX_CALLS),
        ("abandoned", abandoned, MAX_WORDS),
    )
    return tuple(
        Finding(f"step:{cause}", where, 0, 0, "raw", text)
        for cause, (where, texts, most) in zip(CAUSES, causes, strict=True)
        for text in [*dict.fromkeys(texts)][:most]
    )[:MAX_TRIGGERS]


# --- the calls


class ActingCall(NamedTuple):
    """A call that does something, with its values cut. `why` says why it was not declared; empty when it was.

    `number` is when it was last made, `times` how often.
    """

    number: int
    tool: str
    values: tuple[tuple[str, str], ...]
    ruling: str
    why: str
    is_complete: bool
    times: int = 1


class ActingCalls:
    """The acting calls of one step: all of them counted, the gravest and the latest kept.

    `compared` False takes them in without asking whether they were declared. Not safe for several threads: the step
    that owns it holds a lock.
    """

    def __init__(self, *, high_risk_tools: frozenset[str] = frozenset(), compared: bool = True) -> None:
        self._high_risk_tools, self._compared = high_risk_tools, compared
        self._kept: dict[bytes, ActingCall] = {}
        self.seen = self.acting = 0

    def add_call(self, commitment: Commitment | None, call: PastCall) -> None:
        """Take in a call that was ruled on, under what the agent had committed to by then."""
        self.seen += 1
        risk = tool_risk(call.tool, additional=self._high_risk_tools)
        try:
            why = why_undeclared(commitment, call, high_risk_tools=self._high_risk_tools) if self._compared else ""
        except Exception:  # noqa: BLE001  # what could not be compared has not been found to fit
            why = "it could not be compared with the commitment"
        if not why and risk is Risk.LOW:
            return
        self.acting += 1
        # The same call made a hundred times is one line, and pushes nothing out.
        key = sha256(repr((call.tool, call.values, call.action, why)).encode("utf-8", "backslashreplace")).digest()
        if (before := self._kept.pop(key, None)) is not None:
            self._kept[key] = before._replace(number=self.seen, times=before.times + 1)
            return
        values = tuple((_cut(name, _MAX_NAME), _cut(text, _MAX_VALUE)) for name, text in call.values[:_MAX_VALUES])
        is_complete = values == call.values and len(call.tool) <= _MAX_TOOL
        ruling = f"{call.action} by tier {call.tier} ({call.reason})" if call.tier else call.action
        self._kept[key] = ActingCall(self.seen, _cut(call.tool, _MAX_TOOL), values, ruling, why, is_complete)
        if len(self._kept) > _MAX_KEPT:
            # What is not among these now cannot be later: calls that follow only come before it.
            first = set(self._rank_acts()[: _MAX_KEPT // 2])
            self._kept = {key: act for key, act in self._kept.items() if act in first}

    def most_telling(self) -> tuple[ActingCall, ...]:
        """The calls to show, the most telling first, as many as a person can read and a store can hold."""
        ranked = self._rank_acts()[:MAX_ACTS]
        sizes = accumulate(len(json.dumps(call_to_argument(act))) for act in ranked)
        return tuple(act for act, size in zip(ranked, sizes, strict=True) if size <= MAX_ACTS_WRITTEN)

    def describe_unshown(self) -> str:
        """What of the acting calls `most_telling` leaves out, in words; empty when it has all."""
        shown = self.most_telling()
        missing = self.acting - sum(act.times for act in shown)
        counts = ((missing, "altogether"), (sum(not act.is_complete for act in shown), "in part"))
        return ", ".join(f"{count:,} of the acting calls {how}" for count, how in counts if count)

    def _rank_acts(self) -> list[ActingCall]:
        """Undeclared before declared, grave before mild, each tool once before any comes again, and the latest first.

        An agent chooses how many calls it makes, and must not be able to bury one under the others.
        """
        count: Counter[tuple[bool, str]] = Counter()
        rank: dict[ActingCall, tuple[bool, bool, int]] = {}
        for act in sorted(self._kept.values(), key=lambda act: -act.number):
            count[not act.why, act.tool] += 1
            rank[act] = (not act.why, not _is_grave(act.tool), count[not act.why, act.tool])
        return sorted(rank, key=rank.__getitem__)


def call_to_argument(act: ActingCall) -> dict[str, object]:
    """An acting call as judges and people are shown it."""
    values: dict[str, object] = {}
    for name, text in act.values:
        # A name that is none is a value too, and stands before its own.
        values[name if name not in values else f"{name} ({len(values)})"] = text
    argument: dict[str, object] = {"tool": act.tool, "arguments": values, "ruling": act.ruling}
    return argument | ({"undeclared": act.why} if act.why else {}) | ({"times": act.times} if act.times > 1 else {})


@lru_cache(maxsize=1024)
def _is_grave(tool: str) -> bool:
    # Of a name without a verb nothing is known.
    is_known = canonical_tool(tool) not in ("bash", "web_fetch", "spawn_agent") and bool(tool_intent(tool).verbs)
    return not is_known or not WORDS["grave"].isdisjoint(tool_words(tool))


def _cut(text: str, most: int) -> str:
    """The head and the tail of a text that is too long, with how long it was, and no half of a character."""
    if len(text) > most:
        half = most // 2
        text = f"{text[:half]} [… {len(text):,} characters …] {text[-half:]}"
    return LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


def split_assumptions(assumptions: Iterable[str]) -> tuple[str, ...]:
    """The single assumptions in these texts, each once: five sentences in one entry are five assumptions."""
    pieces = (
        _P["bullet"].sub("", piece.strip()).strip(" .;,")
        for text in assumptions
        for piece in _P["end of an assumption"].split(text)
    )
    return tuple({piece.casefold(): piece for piece in pieces if len(piece) > 1}.values())


def why_undeclared(
    commitment: Commitment | None, call: PastCall, *, high_risk_tools: frozenset[str] = frozenset()
) -> str:
    """Why a call lies outside what the agent declared, or nothing.

    1. What the commitment calls out of scope is, by the tool's name, by what it does, or by a place it touches.
    2. Looking around needs no declaration.
    3. An acting tool has to be named in `in_scope`, or what it does has to be.
    4. Where `in_scope` names places, the call stays within them.
    """
    leaves = [Leaf(argument, text) for argument, text in call.values]
    only_looks = tool_risk(call.tool, additional=high_risk_tools) is Risk.LOW
    if commitment is None:
        return "" if only_looks else "made before the commitment"
    # 1. Out of scope, or 2. looking.
    excluded = next(filter(None, (_why_excluded(entry, call.tool, leaves) for entry in commitment.out_of_scope)), "")
    if excluded or only_looks:
        return excluded
    # 3. Acting.
    if not any(_declares_tool(entry, call.tool) for entry in commitment.in_scope):
        return "the commitment does not mention what this tool does"
    # 4. Places.
    declared = Border(tuple(place for entry in commitment.in_scope for place in _border_from_entry(entry).inside))
    beyond = find_crossings(declared, leaves, tool=call.tool)
    return f"{quoted(beyond[0].excerpt)} is not among the places of the commitment" if beyond else ""


def _why_excluded(entry: str, tool: str, leaves: list[Leaf]) -> str:
    """Return why an entry of `out_of_scope` rules a call out, or nothing."""
    never = _border_from_entry(entry).inside
    if never and not _P["beyond"].search(entry):
        # "mail to hr.example" rules out that place, not mail.
        crossed = find_crossings(Border(excluded=never, is_open=True), leaves, tool=tool)
        is_touched = any(finding.rule == OUTSIDE for finding in crossed)
        return f"it touches what the commitment puts out of scope ({quoted(entry)})" if is_touched else ""
    # Many tools are called by a plain verb, and `write` in "write to production" is not the tool.
    words = tool_words(tool)
    is_named = _mentions(entry, words) and (len(words) > 1 or tool_words(entry) == words)
    return f"the commitment puts it out of scope ({quoted(entry)})" if is_named or _names_action(entry, tool) else ""


_border_from_entry = lru_cache(maxsize=256)(border_from_prose)


def _declares_tool(entry: str, tool: str) -> bool:
    """Whether an entry says what a tool does, or its name."""
    if _mentions(entry, tool_words(tool)):
        return True
    intent = tool_intent(tool)
    if canonical_tool(tool) == "bash":
        # What a shell is run for is in its command, so that a verb is all a declaration can be expected to name.
        return not intent.verbs.isdisjoint(_stems(entry))
    # Without an object a synonym says too little: who means to send a reply has not declared to pay.
    return bool(intent.objects) and _names_action(entry, tool)


def _mentions(entry: str, words: Sequence[str]) -> bool:
    return bool(words) and f" {' '.join(words)} " in f" {' '.join(tool_words(entry))} "


@lru_cache(maxsize=1024)
def _names_action(entry: str, tool: str) -> bool:
    """Whether an entry names what a tool does, verb and object.

    Some words can be both: `mail` is the object behind another verb. "Deleting mail" says nothing about sending any.
    """
    verbs, objects = tool_intent(tool)
    both = verbs & objects
    stems = [_stems(part) for part in _P["end of a part"].split(entry)]
    says = any(part & (verbs - both) or (part & both and part.isdisjoint(PLAIN_VERBS)) for part in stems)
    return says and _wishes(entry).asks_for_tool(tool)


@lru_cache(maxsize=256)
def _wishes(entry: str) -> Goal:
    wishes = Goal()
    wishes.add(entry.encode("utf-8", "ignore"), asks=True)
    return wishes


def _stems(text: str) -> set[str]:
    return {word.decode("utf-8", "ignore") for word in _wishes(text).asked}
