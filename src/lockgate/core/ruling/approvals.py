"""A person's yes or no to one PAUSE, as values: what is bound, what a person is shown, and what follows from what.

1. Bound.   A yes is bound to session, tool, canonical arguments, policy, everything untrusted that was read and files
            that are run; a no to session, tool and arguments alone, so that reading one more page does not undo it.
2. Asked.   One call waits once: the same call, asked again while it waits, is the same question. From then on only a
            person clears the call, until one has, however often the question expires or is voided.
3. Answered. The first answer counts, while the question lives, and only for the digest that was shown. A no answers
            every open question about the same call. Where two people are needed, the first yes leaves it waiting.
4. Taken.   A yes is handed out once. A no stands for the rest of the session.
5. Ended.   What expired, was used or was voided stays so, even when the clock is set back.

The stores keep these values and apply these steps under their own locks; nothing here has a clock or a file.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import sha256
from typing import Any, NamedTuple

from lockgate.core.errors import InvalidCall, has_half_pair, quoted
from lockgate.core.vocabulary import Decision, Effect, Finding, Origin, record_from_dict, record_to_dict

# A person cannot approve what does not fit a screen. Python may be set to print no integer of more bits than these.
MAX_ARGUMENTS, MAX_DEPTH, MAX_VALUES, MAX_NAME, MAX_INTEGER_BITS = 1 << 18, 64, 100_000, 1_000, 2_048
# An agent must not be able to bury one question under others, nor to fill the disk with them. An agent is all sessions
# that one client opened for one account. Newcomers are sessions that have nothing waiting: these places are theirs.
MAX_WAITING_PER_SESSION, MAX_WAITING_PER_AGENT, MAX_WAITING, NEWCOMERS = 32, 50, 512, 128
# How long an ended question can still be looked up, and how many of them.
KEPT_S, MAX_KEPT = 7 * 86_400.0, 1_000
# That a person was asked about a call is remembered as long as its session: so many calls, since it was last active.
MAX_MARKS, MARKED_S = 1_000, 90 * 86_400.0
# Two processes' clocks may differ by this much; a question from further ahead means that the clock was set back.
SKEW_S = 2.0
MAX_WHO, MAX_REASON, MAX_WHY = 200, 1_000, 300

# The end of a supervised step is a call of this tool, and this argument names the step.
FINISH, STEP = "finish_step", "step"

_SCHEMA = "lockgate approval/1"
_ID = re.compile("[0-9a-z]{8,64}")
# What a person is shown: findings and origins, characters around an origin, and of each text; values of a call's line.
_MOST_GROUNDS, _AROUND, _MOST_TEXT, _MOST_EXPLANATION, _MOST_GOAL = 24, 160, 400, 4_000, 2_000
_MOST_NAMED, _MOST_NAMED_TEXT = 12, 80


class ApprovalState(StrEnum):
    """How it stands with a question. `unknown` is the answer about one that was never asked; no question has it."""

    WAITING = "waiting"
    GRANTED = "granted"
    DENIED = "denied"
    EXPIRED = "expired"
    USED = "used"
    VOIDED = "voided"
    UNKNOWN = "unknown"


OPEN_STATES = frozenset({ApprovalState.WAITING, ApprovalState.GRANTED})


class BoundCall(NamedTuple):
    """1. Exactly what a yes would allow: canonical JSON that may run, and files that it runs, each with its digest."""

    session: str
    tool: str
    arguments: str
    policy_hash: str
    context: str
    files: tuple[tuple[str, str], ...] = ()

    @property
    def digest(self) -> str:
        return hash_texts(_SCHEMA, *self[:5], *(text for pair in self.files for text in pair))

    @property
    def call_key(self) -> str:
        """What a no is about: this call of this session, in every context and under every policy.

        A step is denied by its name: what an agent says of the same step in other words is the same matter.
        """
        if self.tool == FINISH:
            with suppress(ValueError, AttributeError, RecursionError):
                if isinstance(name := json.loads(self.arguments).get(STEP), str) and name:
                    return hash_texts(_SCHEMA, "step", self.session, name)
        return hash_texts(_SCHEMA, "call", self.session, self.tool, self.arguments)


def hash_texts(*texts: str) -> str:
    """Return a digest over texts, each a JSON string, so that none can run into the next."""
    return f"sha256:{sha256(_to_json(texts).encode('ascii')).hexdigest()}"


def _to_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=True, sort_keys=True, separators=(",", ":"), allow_nan=False)


def describe_changes(approval: Approval, bound: BoundCall) -> str:
    """Return why a question is void, or which files differ between what a person was asked about and now."""
    names = sorted({path.rpartition("/")[2] for path, _ in set(approval.pending.bound.files) ^ set(bound.files)})
    listed = ", ".join(map(quoted, names[:3])) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return approval.why or (f"{listed} changed since a person was asked about this call" if names else "")


def bind_call(
    session: str, tool: str, arguments: Mapping[str, object], policy_hash: str, context_digest: str
) -> BoundCall:
    """The call as a person's answer will be bound to it, or InvalidCall for one that has no single JSON form."""
    named: dict[str, object] = {"session": session, "tool": tool, "policy": policy_hash, "context": context_digest}
    for name, text in named.items():
        if not isinstance(text, str) or not text or len(text) > MAX_NAME:
            raise InvalidCall(f"an approval's {name} must be text of 1 to {MAX_NAME:,} characters")
        plain_text(text, name)
    return BoundCall(str(session), str(tool), canonical_json(arguments), policy_hash, context_digest)


def canonical_json(arguments: Mapping[str, object]) -> str:
    """The one JSON text of these arguments: ASCII, keys sorted, every value by its own type and to its last bit.

    Nothing is normalised: `1`, `1.0`, `true` and `"1"` differ, and so do two spellings of one letter, since the tool
    would tell them apart.
    """
    if not isinstance(arguments, Mapping):
        raise InvalidCall(f"arguments must be an object, not {type(arguments).__name__}")
    text = _to_json(_plain_value(arguments, "arguments", 1, [MAX_VALUES]))
    if len(text) > MAX_ARGUMENTS:
        raise InvalidCall(f"arguments of more than {MAX_ARGUMENTS:,} bytes cannot be approved")
    return text


def arguments_from_canonical(text: str) -> dict[str, object]:
    """The arguments that a canonical text stands for: what a host should run once it may."""
    with suppress(ValueError, RecursionError, InvalidCall):
        value = json.loads(text)
        # Two keys of one name, NaN and whatever else parsers disagree about are in no canonical text.
        if isinstance(value, dict) and canonical_json(value) == text:
            return value
    raise InvalidCall("these arguments are not in their canonical form")


def _plain_value(value: object, path: str, depth: int, left: list[int]) -> object:
    """The value in Python's own types only, so that no subclass can say one thing here and another to the tool."""
    left[0] -= 1
    if left[0] < 0:
        raise InvalidCall(f"arguments of more than {MAX_VALUES:,} values cannot be approved")
    if isinstance(value, bool | None):
        return value
    if isinstance(value, str):
        left[0] -= len(value) >> 6
        return plain_text(value, path)
    if isinstance(value, int):
        if value.bit_length() > MAX_INTEGER_BITS:
            raise InvalidCall(f"argument {quoted(path)} is an integer of more than {MAX_INTEGER_BITS:,} bits")
        return int.__int__(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidCall(f"argument {quoted(path)} is {value!r}, which JSON cannot hold")
        return float.__float__(value)
    if depth > MAX_DEPTH:
        raise InvalidCall(f"arguments nested more than {MAX_DEPTH} levels deep cannot be approved")
    if isinstance(value, list | tuple):
        return [_plain_value(item, f"{path}[{at}]", depth + 1, left) for at, item in enumerate(value)]
    if not isinstance(value, Mapping):
        raise InvalidCall(f"argument {quoted(path)} is a {type(value).__name__}, which JSON cannot hold")
    members: dict[str, object] = {}
    for key, item in value.items():
        if not isinstance(key, str):
            raise InvalidCall(f"argument names must be text, not {type(key).__name__}")
        if (name := plain_text(key, path)) in members:
            raise InvalidCall(f"argument {quoted(name)} stands twice in {quoted(path)}")
        members[name] = _plain_value(item, f"{path}.{name[:40]}", depth + 1, left)
    return members


def plain_text(text: str, path: str) -> str:
    """The text as Python's own type, refused where no store could hold it."""
    if has_half_pair(plain := str.__str__(text)):
        raise InvalidCall(f"{quoted(path)} holds half of a surrogate pair, which is no character")
    return plain


class Passage(NamedTuple):
    """An argument's value with the text it came from: what stands before it, the span itself, what stands after."""

    origin: Origin
    before: str
    text: str
    after: str


class TierAnswer(NamedTuple):
    """What one tier said of the call, and who that was."""

    tier: int
    said: str
    by: str


class HeldFacts(NamedTuple):
    """The facts of a held call that a grant is made from, and that a later call is compared by (`grants.py`).

    `effects` are the kinds and targets of severity 2 and above, `sources` those of the untrusted text behind the call,
    `rules` what held it, `arguments` a hash over their values and the folder. `is_exact`: only the same arguments may
    be granted. `widest` is the widest span that may be granted; empty where none may, and `barred` says why.
    """

    effects: tuple[tuple[str, str], ...] = ()
    sources: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    arguments: str = ""
    is_exact: bool = True
    project: str = ""
    widest: str = ""
    barred: str = "this question was asked by a version of Lockgate that made no grants"


NO_FACTS = HeldFacts()


class ShownDetails(NamedTuple):
    """What a person is shown besides the call itself. `left_out` counts findings and origins that had no room.

    `replaces` is the id of an earlier question about the same call that ended without an answer. `people` is how many
    different persons have to say yes.
    """

    goal: str = ""
    reason: str = ""
    risk: str = ""
    explanation: str = ""
    findings: tuple[Finding, ...] = ()
    passages: tuple[Passage, ...] = ()
    left_out: int = 0
    tiers: tuple[TierAnswer, ...] = ()
    facts: HeldFacts = NO_FACTS
    replaces: str = ""
    people: int = 1
    files: tuple[tuple[str, str], ...] = ()


NO_DETAILS = ShownDetails()


def details_from_decision(
    decision: Decision,
    contents: Mapping[str, str],
    *,
    goal: str = "",
    facts: HeldFacts = NO_FACTS,
    replaces: str = "",
    people: int = 1,
) -> ShownDetails:
    """A ruling for a person's eyes, cut to a size that can be read; `contents` are the blocks' texts by their ids."""
    origins = sorted(decision.origins, key=lambda origin: (origin.known, not origin.order, not origin.sink))
    return ShownDetails(
        goal=_cut(goal, _MOST_GOAL),
        reason=decision.reason.value,
        risk=decision.risk.value,
        explanation=_cut(decision.explanation, _MOST_EXPLANATION),
        findings=tuple(map(_cut_texts, decision.findings[:_MOST_GROUNDS])),
        passages=tuple(_passage(origin, contents.get(origin.block, "")) for origin in origins[:_MOST_GROUNDS]),
        left_out=sum(max(0, len(grounds) - _MOST_GROUNDS) for grounds in (origins, decision.findings)),
        tiers=tuple(_cut_texts(TierAnswer(ran.tier, ran.said, ran.by)) for ran in decision.tiers[:_MOST_GROUNDS]),
        facts=facts,
        replaces=replaces,
        people=people,
    )


def needs_two_people(effects: Iterable[Effect], chosen: Collection[str]) -> bool:
    """Return whether one of the effects is chosen, by its kind or as `severity-2` or `severity-3`."""
    return any(effect.kind in chosen or f"severity-{effect.severity:d}" in chosen for effect in effects)


def _passage(origin: Origin, content: str) -> Passage:
    start = min(max(0, origin.start), len(content))
    end = min(max(start, origin.end), len(content))
    before = f"{'…' if start > _AROUND else ''}{content[max(0, start - _AROUND) : start]}"
    return Passage(_cut_texts(origin), before, _cut(content[start:end]), _cut(content[end:], _AROUND))


def _cut_texts(record: Any) -> Any:
    """Return a named tuple with each of its texts cut."""
    return record._make(_cut(item) if isinstance(item, str) else item for item in record)


def _cut(text: str, limit: int = _MOST_TEXT) -> str:
    return text if len(text) <= limit else f"{text[:limit]}…"


def describe_call(bound: BoundCall) -> str:
    """The call in one line: the values that say where it goes first, each by its name and the kind of place it is.

    It is made from what would run, not from what the agent says of it. Values are JSON as their author wrote them; the
    caller that shows the line has to make invisible characters visible.
    """
    # Imported here: a process that only asks or answers does not need the rules.
    from lockgate.core.ruling.arguments import sink_from_argument

    arguments = arguments_from_canonical(bound.arguments)
    if bound.tool == FINISH and isinstance(arguments.get(STEP), str):
        goal, calls = _value(arguments.get("goal", "")), _value(arguments.get("calls", 0))
        return f"step {_value(arguments[STEP])} would count as done: goal = {goal}, calls = {calls}"
    rows = [(sink_from_argument(name), name, value) for name, value in argument_values(arguments)]
    rows.sort(key=lambda row: not row[0])
    values = [
        f"{_cut(name, _MOST_NAMED_TEXT)}{f' ({sink})' if sink else ''} = {_value(value)}"
        for sink, name, value in rows[:_MOST_NAMED]
    ]
    values += [f"and {len(rows) - _MOST_NAMED:,} more"] if len(rows) > _MOST_NAMED else []
    return f"{_cut(bound.tool, _MOST_NAMED_TEXT)} with {', '.join(values) or 'no arguments'}"


def _value(value: object) -> str:
    return json.dumps(_cut(value, _MOST_NAMED_TEXT) if isinstance(value, str) else value, ensure_ascii=False)


def argument_values(arguments: dict[str, object]) -> Iterator[tuple[str, object]]:
    """Every value with its path, in the order they are written; an empty list or object is a value."""
    left: list[tuple[str, object]] = [("", arguments)]
    while left:
        path, value = left.pop()
        if isinstance(value, dict) and value:
            left += [(f"{path}.{name}" if path else name, item) for name, item in reversed(value.items())]
        elif isinstance(value, list) and value:
            left += [(f"{path}[{at}]", item) for at, item in reversed(list(enumerate(value)))]
        elif path:
            yield path, value


@dataclass(frozen=True, slots=True)
class PendingApproval:
    """One question to a person: a call that waits, until when, and what the person is shown.

    `id` is random, eight or more lowercase letters and digits: people shorten it, so it must not be guessable. The
    fields from `session` on are those of the bound call.
    """

    id: str
    bound: BoundCall
    created_s: float
    expires_s: float
    shown: ShownDetails = NO_DETAILS
    session: str = field(init=False, repr=False)
    tool: str = field(init=False, repr=False)
    arguments: str = field(init=False, repr=False)
    policy_hash: str = field(init=False, repr=False)
    digest: str = field(init=False)
    call_key: str = field(init=False)

    def __post_init__(self) -> None:
        if not is_approval_id(self.id):
            raise InvalidCall(f"an approval's id must be 8 to 64 lowercase letters and digits, not {quoted(self.id)}")
        if not (math.isfinite(self.created_s) and math.isfinite(self.expires_s) and self.created_s < self.expires_s):
            raise InvalidCall("an approval must expire after it was created")
        object.__setattr__(self, "shown", self.shown._replace(files=self.bound.files))
        for name in ("session", "tool", "arguments", "policy_hash", "digest", "call_key"):
            object.__setattr__(self, name, getattr(self.bound, name))


class ApprovalAnswer(NamedTuple):
    """Who said what, when, and why if they gave a reason. The name is a claim, not proved."""

    yes: bool
    who: str
    at_s: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Approval:
    """A question with what became of it; `why` says why it was voided."""

    pending: PendingApproval
    state: ApprovalState = ApprovalState.WAITING
    answered: ApprovalAnswer | None = None
    ended_s: float = 0.0
    why: str = ""


class GrantState(StrEnum):
    """What became of a grant, for the record."""

    MADE = "grant-made"
    REVOKED = "grant-revoked"


def name_of_grant(id: str) -> str:
    """Return what a grant's end is known by: it has the id of the question that made it, and outlives it."""
    return f"grant {id}"


class ApprovalChange(NamedTuple):
    """What became of a question or a grant, for the record: a store reports each change before it takes effect.

    `block` is the text that voided the question, if one did.
    """

    session: str
    id: str
    state: ApprovalState | GrantState
    digest: str
    who: str = ""
    block: str = ""


class VoidReason(NamedTuple):
    """Why a question is void, in words, and which block the agent has read since, where that is why."""

    text: str
    block: str = ""


NOT_SAID = VoidReason("")
POLICY_CHANGED = VoidReason("the policy has changed since")


def void_by_block(block: str, source: str) -> VoidReason:
    return VoidReason(_cut(f"the agent has read {block} from {source} since", MAX_WHY - 1), block)


def change_from_approval(approval: Approval) -> ApprovalChange:
    # Used, voided and expired are not a person's answer. `waiting` with a name is the first yes of two.
    answers = (ApprovalState.GRANTED, ApprovalState.DENIED, ApprovalState.WAITING)
    pending, answer = approval.pending, approval.answered
    who = answer.who if answer is not None and approval.state in answers else ""
    return ApprovalChange(pending.session, pending.id, approval.state, pending.digest, who)


# Raises where the record cannot be made: the change is then taken back.
RecordChanges = Callable[[Sequence[ApprovalChange]], None]


class ApprovalMark(NamedTuple):
    """What outlives a question: that a person was asked about a call, as `id`, and the no if that was the answer."""

    id: str
    no: ApprovalAnswer | None = None


class AnswerResult(NamedTuple):
    """What became of an answer: only `counted` ones do anything. `state` is how the question stands now."""

    counted: bool
    state: ApprovalState
    approval: Approval | None = None


class TakeResult(NamedTuple):
    """Whether a caller may run the call: once when `state` is `granted`, and not otherwise.

    After `expired` and `voided` only a person clears the call. `unknown`: no person was asked; `used`: one said yes,
    and the call has run. `differs` names what keeps a yes from fitting: `session`, `tool`, `arguments`, `policy`,
    `context` or `file content`. `why` says why the question was voided, or which files have changed.
    """

    state: ApprovalState
    id: str = ""
    answered: ApprovalAnswer | None = None
    differs: tuple[str, ...] = ()
    why: str = ""


def is_approval_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def parse_answer(yes: object, who: object, reason: object, now_s: object) -> ApprovalAnswer:
    """An answer as it is recorded. Everything but True is a no: nothing that merely counts as true may approve."""
    for name, text, most in (("who", who, MAX_WHO), ("reason", reason, MAX_REASON)):
        if not isinstance(text, str) or len(text) > most:
            raise InvalidCall(f"an answer's {name} must be text of at most {most:,} characters")
        plain_text(text, name)
    if not str(who).strip():
        raise InvalidCall("an answer needs a name", hint='say who answers, e.g. who="ana"')
    return ApprovalAnswer(yes is True, str(who), parse_time(now_s), str(reason))


def parse_time(now_s: object) -> float:
    if isinstance(now_s, bool) or not isinstance(now_s, int | float) or not math.isfinite(now_s):
        raise InvalidCall(f"a time must be seconds since 1970, not {quoted(now_s)}")
    return float(now_s)


def is_alive(pending: PendingApproval, now_s: float) -> bool:
    """Whether the question can still be answered, or its yes be used. A clock that was set back ends it."""
    return pending.created_s - SKEW_S <= now_s < pending.expires_s


def expire_if_due(approval: Approval, now_s: float) -> Approval:
    """5. The question as it stands at this time."""
    if approval.state in OPEN_STATES and not is_alive(approval.pending, now_s):
        return replace(approval, state=ApprovalState.EXPIRED, ended_s=now_s)
    return approval


def apply_answer(approval: Approval, digest: str, said: ApprovalAnswer, person: str = "") -> AnswerResult:
    """3. Apply an answer to a question that has been aged to now. The digest is that of what the person saw.

    `person` is who the answer is proved to come from; without a proof it is no yes of two people.
    """
    if approval.state is not ApprovalState.WAITING or digest != approval.pending.digest:
        return AnswerResult(False, approval.state, approval)
    if not said.yes:
        denied = replace(approval, state=ApprovalState.DENIED, answered=said, ended_s=said.at_s)
        return AnswerResult(True, denied.state, denied)
    if approval.pending.shown.people > 1:
        first = approval.answered
        if not person or (first is not None and first.who.casefold() == person.casefold()):
            return AnswerResult(False, approval.state, approval)
        if first is None:
            return AnswerResult(True, approval.state, replace(approval, answered=said._replace(who=person)))
        said = said._replace(who=f"{first.who} and {person}")
    granted = replace(approval, state=ApprovalState.GRANTED, answered=said, ended_s=0.0)
    return AnswerResult(True, granted.state, granted)


def deny_same_call(others: Iterable[Approval], said: ApprovalAnswer) -> list[Approval]:
    """3. What a no does to the open questions about the same call in another context or under another policy."""
    return [
        replace(each, state=ApprovalState.DENIED, answered=said, ended_s=said.at_s)
        if each.state is ApprovalState.WAITING
        # A person's yes stays on record as what it was.
        else void_approval(each, said.at_s, f"{said.who[:MAX_WHO]} has denied this call since")
        for each in others
        if each.state in OPEN_STATES
    ]


def void_approval(approval: Approval, now_s: float, why: str) -> Approval:
    """5. An open question as it is once something else has overtaken it."""
    return replace(approval, state=ApprovalState.VOIDED, ended_s=now_s, why=why[:MAX_WHY])


def find_replaced(pending: PendingApproval, asked: Iterable[Approval], now_s: float) -> list[Approval]:
    """5. What a new question does to the open one that it replaces, which is about an older context."""
    bound, again = pending.bound, f"and it was asked again as {pending.id}"
    return [
        void_approval(each, now_s, f"{describe_changes(each, bound) or 'the agent has read more since'}, {again}")
        for each in asked
        if each.state in OPEN_STATES
        and each.pending.id == pending.shown.replaces
        # Under another policy the other question may still be of use to the process that asked it.
        and each.pending.bound._replace(context=bound.context, files=bound.files) == bound
    ]


def has_room(waiting: int, in_session: int, marks: int) -> bool:
    """2. Return whether one more question fits: `waiting` are open in all, `in_session` and `marks` in this session."""
    most = MAX_WAITING - NEWCOMERS if in_session else MAX_WAITING
    return waiting < most and in_session < MAX_WAITING_PER_SESSION and marks < MAX_MARKS


def find_existing_id(pending: PendingApproval, mark: ApprovalMark | None, asked: Iterable[Approval]) -> str:
    """2. The id of the question that is there already: a no, or one about the very same call; else empty."""
    same = (each.pending.id for each in asked if each.state in OPEN_STATES and each.pending.bound == pending.bound)
    return mark.id if mark is not None and mark.no is not None else next(same, "")


def take_approval(
    bound: BoundCall, mark: ApprovalMark | None, asked: Sequence[Approval], near: Iterable[Approval], now_s: float
) -> tuple[TakeResult, Approval | None]:
    """4. Return whether a caller may run the call, and the question as it is from now on, if changed.

    `mark` and `asked` are what is known of this call, oldest first; `near` are open questions about others, which may
    be meant for this call and do not fit. All are aged to now. A yes that is taken takes the mark with it.
    """
    if mark is not None and mark.no is not None:
        # The question has the reason too, while it is kept.
        full = next((each.answered for each in asked if each.pending.id == mark.id), None)
        return TakeResult(ApprovalState.DENIED, mark.id, full or mark.no), None
    same = next((each for each in asked if each.state in OPEN_STATES and each.pending.bound == bound), None)
    if same is None:
        return _explain_refusal(bound, mark, asked, near), None
    used = replace(same, state=ApprovalState.USED, ended_s=now_s) if same.state is ApprovalState.GRANTED else None
    return TakeResult(same.state, same.pending.id, same.answered), used


def _explain_refusal(
    bound: BoundCall, mark: ApprovalMark | None, asked: Sequence[Approval], near: Iterable[Approval]
) -> TakeResult:
    """4. Return why no question about this call fits."""
    if mark is None and asked and asked[-1].state is ApprovalState.USED:
        last = asked[-1]
        return TakeResult(last.state, last.pending.id, last.answered, why=describe_changes(last, bound))
    if mark is None:
        return TakeResult(ApprovalState.UNKNOWN, differs=_closest_difference(bound, near))
    unused = [each for each in asked if each.state is not ApprovalState.USED]
    if not unused:
        return TakeResult(ApprovalState.EXPIRED, mark.id)
    last = next((each for each in unused if each.state is ApprovalState.GRANTED), unused[-1])
    differs = differing_fields(bound, last.pending.bound) if last.state is ApprovalState.GRANTED else ()
    state = ApprovalState.VOIDED if last.state in OPEN_STATES else last.state
    return TakeResult(state, last.pending.id, last.answered, differs, describe_changes(last, bound))


def _closest_difference(bound: BoundCall, near: Iterable[Approval]) -> tuple[str, ...]:
    granted = [each.pending.bound for each in near if each.state is ApprovalState.GRANTED]
    differences = [differing_fields(bound, other) for other in granted if other.tool == bound.tool]
    # Another session's yes to other arguments has nothing to do with this call.
    return min((names for names in differences if not {"session", "arguments"} <= set(names)), key=len, default=())


def differing_fields(bound: BoundCall, other: BoundCall) -> tuple[str, ...]:
    """What differs between two calls, by name."""
    names = ("session", "tool", "arguments", "policy", "context", "file content")
    return tuple(name for name, mine, yours in zip(names, bound, other, strict=True) if mine != yours)


def details_to_json(shown: ShownDetails) -> str:
    # ASCII, so that a store can hold half a surrogate pair in a text.
    return json.dumps(record_to_dict(shown), ensure_ascii=True, separators=(",", ":"))


def details_from_json(text: str) -> ShownDetails:
    """Return what was stored, or raise ValueError: a store's file may hold anything."""
    try:
        return record_from_dict(ShownDetails, json.loads(text))
    except (TypeError, ValueError, KeyError, RecursionError) as error:
        raise ValueError("not what a person was shown") from error
