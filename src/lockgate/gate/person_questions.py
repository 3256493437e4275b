"""Asks people about the held calls of one session, and finds what they have answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from os import urandom
from sys import modules
from threading import Thread
from time import time
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from lockgate.core.errors import InvalidCall, JournalUnavailable, LockgateError, printable, quoted
from lockgate.core.ruling.pipeline import EscalatedCall
from lockgate.core.ruling.policy import Policy, session_hashes
from lockgate.core.vocabulary import Action, Decision, Reason, Risk, ToolCall
from lockgate.gate.attempt import attempt_in_thread
from lockgate.runtime.failures import report_failure
from lockgate.runtime.routines import Routine

if TYPE_CHECKING:
    from lockgate.core.ruling.approvals import BoundCall, HeldFacts, PendingApproval, TakeResult, VoidReason
    from lockgate.core.ruling.grants import Grant

_CANNOT_COMPARE = "a person has said no in this session, and this call cannot be compared with what it was about"


class Approvals(Protocol):
    """Where a PAUSE waits for a person.

    When `ask` returns an id, the question is stored under it; an empty id means that there is no room for another.
    `take` hands a yes out once, to one caller, whatever the number of callers and processes. `void` ends what is still
    open, and keeps why. `denies` is whether a person has said no to anything in this session, for as long as it lasts.
    `use_grant` returns a grant that covers the call, unless a person has said no to this very call.
    """

    def ask(self, pending: PendingApproval) -> str: ...

    def take(self, bound: BoundCall, now_s: float) -> TakeResult: ...

    def void(self, session: str, now_s: float, why: VoidReason) -> int: ...

    def denies(self, session: str) -> bool: ...

    def use_grant(self, bound: BoundCall, facts: HeldFacts, now_s: float) -> Grant | None: ...


class SettledRuling(NamedTuple):
    """A ruling, and the person who approved it if one did."""

    decision: Decision
    approved_by: str = ""


class PersonAnswer(NamedTuple):
    """What follows from a person's answer to a call; `ask_again` where they have to be asked anew.

    `replaces` is the question that has ended without an answer that counts.
    """

    decision: Decision
    ask_again: bool = False
    approved_by: str = ""
    replaces: str = ""


class PersonQuestions:
    """The questions of one session to people. Without a store of approvals no person can be asked."""

    def __init__(
        self, approvals: Approvals | None, session: str, policy: Policy, life_s: float, *, resumed: bool
    ) -> None:
        self._approvals, self._session = approvals, session
        self._policy_hash, self._life_s = policy.hash, life_s
        # Whether a person was asked in this session, perhaps by an earlier process.
        self.were_asked = resumed and approvals is not None
        self._denied = False
        # Whether a question may be open; and the block, with its source, that has made it one about an older context.
        self._open = False
        self._stale: tuple[str, str] | None = None
        # Whether the sessions of this opener have too many open questions already.
        self.is_crowded: Callable[[], bool] = lambda: False

    @property
    def can_be_asked(self) -> bool:
        """Whether a PAUSE can be answered at all."""
        return self._approvals is not None

    def must_check_for_denial(self, ruling: Decision) -> bool:
        """Return whether a person may have denied this call, which is looked up before a Tier 1 ruling counts."""
        return self.were_asked and ruling.risk is Risk.HIGH

    def note_question(self) -> None:
        """Remember that another process has asked a person in this session."""
        self.were_asked = self.can_be_asked

    def mark_stale(self, block: str, source: str) -> None:
        """Remember that open questions are about the context before this block."""
        if self._open and self._stale is None:
            self._stale = (block, source)

    def void_stale(self) -> None:
        """End the questions about an older context, off the caller's event loop where there is one."""
        if self._stale is None:
            return
        loops = modules.get("asyncio")
        if loops is not None and loops._get_running_loop() is not None:
            Thread(target=self.void, daemon=True).start()
        else:
            self.void()

    def void(self, block: tuple[str, str] | None = None) -> None:
        """End all open questions, because of this block and its source, else because of the one that was marked.

        Where the store fails, the next call tries again; their digests differ anyway.
        """
        if self._approvals is not None:
            from lockgate.core.ruling.approvals import NOT_SAID, void_by_block

            block = block or self._stale
            why = NOT_SAID if block is None else void_by_block(*block)
            with suppress(LockgateError):
                self._approvals.void(self._session, time(), why)
                self._open, self._stale = False, None

    def bind(self, call: ToolCall, context_sha256: str, files: tuple[tuple[str, str], ...] = ()) -> BoundCall | None:
        """Return what an answer to this call is bound to; None where no person can be asked about it."""
        if self._approvals is None:
            return None
        from lockgate.core.ruling.approvals import bind_call

        try:
            bound = bind_call(self._session, call.tool, call.arguments, self._policy_hash, context_sha256)
        except InvalidCall:
            return None
        return bound._replace(files=files)

    def take(self, bound: BoundCall) -> Routine[object]:
        """Return what the store says of this call: a `TakeResult`, or the error."""
        assert self._approvals is not None  # noqa: S101
        return (yield attempt_in_thread(partial(self._approvals.take, bound, time())))

    def use_grant(self, bound: BoundCall, facts: HeldFacts, ask: EscalatedCall) -> Routine[SettledRuling | None]:
        """Return the ruling of a grant that covers this call; None where none does, or the store cannot say."""
        assert self._approvals is not None  # noqa: S101
        if not facts.widest:
            return None
        from lockgate.core.ruling.grants import Grant

        grant = yield attempt_in_thread(partial(self._approvals.use_grant, bound, facts, time()))
        if not isinstance(grant, Grant):
            return None
        reach = {"session": "this session", "project": "this project"}.get(grant.rule.span.value, "every project")
        why = f"{quoted(grant.made_by)} granted such calls in {reach}, as grant {grant.id}"
        ruled = Decision(Action.CONTINUE, 3, Reason.GRANTED, ask.risk, why, ask.findings, ask.origins, "", grant.id)
        return SettledRuling(ruled._replace(effects=ask.effects), grant.made_by)

    def end_stale(self) -> Routine[None]:
        """End the questions about an older context before an answer is looked for."""
        if self._stale is not None:
            yield attempt_in_thread(self.void)

    def ask(
        self,
        bound: BoundCall,
        decision: Decision,
        contents: Mapping[str, str],
        goal: str,
        facts: HeldFacts,
        replaces: str = "",
        people: int = 1,
    ) -> Routine[Decision]:
        """Put a PAUSE to a person; return the ruling with the id of the question, if it could be stored."""
        assert self._approvals is not None  # noqa: S101
        from lockgate.core.ruling.approvals import PendingApproval, details_from_decision

        self._open = self.were_asked = True
        now = time()
        details = details_from_decision(decision, contents, goal=goal, facts=facts, replaces=replaces, people=people)
        pending = PendingApproval(urandom(8).hex(), bound, now, now + self._life_s, details)
        crowded = yield attempt_in_thread(self.is_crowded)
        asked = "" if crowded is True else crowded
        if crowded is False:
            asked = yield attempt_in_thread(partial(self._approvals.ask, pending))
        if isinstance(asked, str) and asked:
            return decision._replace(approval=asked)
        why = "too many calls wait for a person already" if asked == "" else "the question to a person was not stored"
        return decision._replace(explanation=f"{decision.explanation}; {why}")

    def hold_if_denied(self, call: ToolCall, ruling: Decision, context_sha256: str) -> Routine[SettledRuling]:
        """Hold a call that Tier 1 lets pass if a person has said no to it in this session."""
        if not (yield from self.have_denied()):
            return SettledRuling(ruling)
        bound = self.bind(call, context_sha256)
        if bound is None:
            return SettledRuling(hold_uncomparable(ruling))
        from lockgate.core.ruling.approvals import ApprovalState, TakeResult

        answer = yield from self.take(bound)
        if isinstance(answer, TakeResult) and answer.state not in (ApprovalState.DENIED, ApprovalState.GRANTED):
            return SettledRuling(ruling)
        ask = EscalatedCall(call, ruling.risk, ruling.reason, ruling.findings, ruling.origins)
        person = person_answer(ask, answer)
        return SettledRuling(ruling) if person is None else SettledRuling(person.decision, person.approved_by)

    def have_denied(self) -> Routine[bool]:
        """Return whether a person has said no to anything here; the store is asked each time until one has."""
        assert self._approvals is not None  # noqa: S101
        if not self._denied:
            answer = yield attempt_in_thread(partial(self._approvals.denies, self._session))
            if not isinstance(answer, bool):
                # A store that cannot be read may hold a no.
                return True
            self._denied = answer
        return self._denied


def hold_uncomparable(ruling: Decision) -> Decision:
    """Return the PAUSE for a call that cannot be compared with what a person has denied."""
    return ruling._replace(action=Action.PAUSE, tier=3, reason=Reason.DENIED, explanation=_CANNOT_COMPARE)


def person_answer(ask: EscalatedCall, answer: object) -> PersonAnswer | None:
    """Return what follows from a person's answer; None where no person was asked, or the yes has been used."""
    from lockgate.core.ruling.approvals import ApprovalState, TakeResult

    def ruled(action: Action, reason: Reason, why: str, id: str = "") -> Decision:
        return Decision(action, 3, reason, ask.risk, why, ask.findings, ask.origins, approval=id)

    if not isinstance(answer, TakeResult):
        # The store may hold a no that cannot be read: no model may answer in its place.
        why = f": {printable(answer.message, 300)}" if isinstance(answer, JournalUnavailable) else ""
        return PersonAnswer(ruled(Action.PAUSE, ask.reason, f"the approvals cannot be read{why}, so this call pauses"))
    said = answer.answered
    who = quoted(said.who) if said is not None else "a person"
    match answer.state:
        case ApprovalState.GRANTED:
            yes = ruled(Action.CONTINUE, Reason.APPROVED, f"{who} approved this call", answer.id)
            return PersonAnswer(yes, approved_by=said.who if said is not None else "")
        case ApprovalState.DENIED:
            return PersonAnswer(ruled(Action.PAUSE, Reason.DENIED, f"{who} denied this call", answer.id))
        case ApprovalState.WAITING:
            whom = "a person" if said is None else f"a second person, after {who}"
            return PersonAnswer(ruled(Action.PAUSE, ask.reason, f"this call waits for {whom}", answer.id))
        case ApprovalState.EXPIRED:
            why = "no person answered in time, which counts as a no; a person is asked again"
            return PersonAnswer(ruled(Action.PAUSE, Reason.DENIED, why), ask_again=True, replaces=answer.id)
        case ApprovalState.VOIDED:
            other = " and ".join(answer.differs) or "context"
            ended = f" (approval {answer.id} is void: {printable(answer.why, 300)})" if answer.why else ""
            why = f"a person was asked about this call with another {other}, and is asked again{ended}"
            return PersonAnswer(ruled(Action.PAUSE, ask.reason, why), ask_again=True, replaces=answer.id)
    return None


def may_be_granted(answer: object) -> bool:
    """Return whether a grant may clear a call that a person was asked about: not where one has said yes or no to it."""
    from lockgate.core.ruling.approvals import ApprovalState, TakeResult

    settled = (ApprovalState.GRANTED, ApprovalState.DENIED)
    return isinstance(answer, TakeResult) and answer.state not in settled


def end_outdated_questions(approvals: Any, before: Policy, policy: Policy) -> None:
    """End the open questions that no call can use any more: an answer is bound to the policy it was asked under."""
    from lockgate.core.ruling.approvals import POLICY_CHANGED

    ended = session_hashes(before) - session_hashes(policy)
    if approvals is None or not ended:
        return
    try:
        waiting = approvals.waiting(time())
        for session in {each.session for each in waiting if each.policy_hash in ended}:
            approvals.void(session, time(), POLICY_CHANGED)
    except LockgateError as error:
        # They stay open, and an answer to one of them lets nothing run.
        report_failure("policy-reload", error)


def why_unusable(answer: object) -> str:
    """Return why a person's yes does not fit this call, where there is or was one."""
    from lockgate.core.ruling.approvals import ApprovalState, TakeResult

    if not isinstance(answer, TakeResult):
        return ""
    if answer.state is ApprovalState.USED:
        return answer.why or "a person approved this call once, and that has been used"
    if answer.differs:
        return f"a person approved a call with another {' and '.join(answer.differs)}"
    return ""
