"""Rules on the calls of one session: the pure pipeline, driven with a clock, a lock, judges, people and the journal.

Steps 0 to 5 are Tier 1 and take microseconds (`lockgate.core.ruling.pipeline`). The others may wait:

6. Triage, 7. supervisor.  Escalated calls only. A person's earlier answer to the very same call comes first, then a
                           person's grant that covers the call.
8. No answer.              The policy rules. Then a PAUSE is put to a person where the gate has approvals.
9. Record.                 No ruling is returned before it is in the journal.

Steps 6 to 9 are one routine (`lockgate.runtime.routines`): `check` and `check_async` drive it, so they cannot disagree.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from hashlib import sha256
from logging import getLogger
from os import getpid, getppid
from os.path import realpath
from threading import Lock
from time import monotonic, perf_counter_ns
from typing import TYPE_CHECKING, NamedTuple, Protocol

from lockgate.core.errors import InvalidCall, printable
from lockgate.core.ruling import pipeline
from lockgate.core.ruling.arguments import Leaf
from lockgate.core.ruling.context import CarriedFrom, Context, PastCall
from lockgate.core.ruling.decide import Width, effective_width
from lockgate.core.ruling.effects.activity import WRITES, Change
from lockgate.core.ruling.effects.effects_of_call import changes_of, files_of
from lockgate.core.ruling.effects.project import NO_PROJECT, Project
from lockgate.core.ruling.opinions import Opinion, Silent, standing_of
from lockgate.core.ruling.pipeline import EscalatedCall, Stage
from lockgate.core.ruling.policy import Policy, is_always_enforced, observe
from lockgate.core.vocabulary import Action, Block, Decision, Kind, Lineage, Ran, Reason, ToolCall, Trust
from lockgate.gate.attempt import attempt_in_thread
from lockgate.gate.block_request import parse_block_request
from lockgate.gate.judge_questions import JudgeQuestions
from lockgate.gate.person_questions import (
    PersonQuestions,
    SettledRuling,
    hold_uncomparable,
    may_be_granted,
    person_answer,
    why_unusable,
)
from lockgate.runtime.accounts import Account, own_account
from lockgate.runtime.listeners import listening_pids
from lockgate.runtime.loopback import is_loopback
from lockgate.runtime.routines import Routine, run_routine, run_routine_async

if TYPE_CHECKING:
    from lockgate.core.judging.case import ContextSnapshot
    from lockgate.core.ruling.approvals import BoundCall, HeldFacts
    from lockgate.core.ruling.carried_text import CarriedHit, DerivedText
    from lockgate.gate.carried_memory import CarriedMemory
    from lockgate.gate.gate import Gate
    from lockgate.gate.supervised_step import CallWatcher
    from lockgate.journal.recorder import RulingSubject

# Calls of a session that the supervisor is told of; longer values are cut.
MAX_HISTORY = 256
_MAX_REMEMBERED = 400
_MAX_LEAVES = 64
_ADDRESS = re.compile(r"http(s?)://(\[[^\]]*\]|[^/:?#]*)(?::(\d+))?")
# In the place of what is known of a text, where it was not looked up yet.
NOT_LOOKED_UP = CarriedFrom("", 0.0, is_firm=False, is_ordered=False)
# How long all judges of one call may take together: below the limit that `init` writes for the hooks.
JUDGES_S = 35.0
# A judge that did not answer for one of these may be down. A time-out, a rate limit, garbage, a replaced program and a
# spent budget are no outage: an attacker could bring them about.
_OUTAGES = frozenset({"network", "tls", "unauthorized", "no-key", "logged-out", "circuit-open"})
# Reasons of a CONTINUE that a judge or a person has looked at.
_CLEARING_REASONS = frozenset({Reason.TRIAGE_CLEARED, Reason.SUPERVISOR, Reason.APPROVED, Reason.GRANTED})


def ruling_processes() -> frozenset[int]:
    """Return the process that rules, and its parent: that of several workers starts and ends them."""
    return frozenset((getpid(), getppid())) - {0, 1}


def protect(project: Project, gate: Gate) -> Project:
    """Return a project with where Lockgate itself is, and the judges on this machine: no call may touch them."""
    judges: dict[int, list[str]] = {}
    for judge in (gate.triage, gate.supervisor):
        address = _ADDRESS.match(str(getattr(judge, "endpoint", "")))
        if judge is not None and address and is_loopback(address[2]):
            judges.setdefault(int(address[3] or (443 if address[1] else 80)), []).append(judge.name)
    return replace(
        project,
        service_port=gate.service_port,
        service_pids=ruling_processes(),
        own_folders=gate.own_folders,
        judge_servers=judges,
        judge_pids=partial(listening_pids, judges),
    )


class Ledger(Protocol):
    """Where rulings are counted: tiers, time, money and rule ids, never content. Never raises."""

    def note(self, session: str, number: int, tool: str, decision: Decision) -> None: ...


class VouchedTexts(Protocol):
    """The texts that a person has vouched for. Never raises."""

    def trust_of(self, source: str, content: str) -> Trust | None: ...


class CarriedTexts(Protocol):
    """What agents wrote from untrusted text, in all sessions. A failure is a LockgateError."""

    def keep(self, derived: DerivedText) -> None: ...

    def words(self) -> set[bytes] | frozenset[bytes]: ...

    def find(self, hashes: Sequence[int]) -> Sequence[CarriedHit]: ...

    def close(self) -> None: ...


class CallStart(NamedTuple):
    """What Tier 1 says of a call, when it began to, and what the record of the ruling will describe."""

    leaves: list[Leaf]
    ruling: Decision | EscalatedCall
    subject: RulingSubject | None
    began_ns: int


class Ruler:
    """Rules on the calls of one session. `Session`, `Step` and `Host` hold one. Safe for several threads."""

    def __init__(self, gate: Gate, policy: Policy, goal: str, id: str, *, resumed: bool = False) -> None:
        self.gate, self.policy, self.goal, self.id = gate, policy, goal, id
        self._scanner = gate.scanner
        self._context = Context(self._scanner, user_trust=policy.user_trust, label_rows=policy.labels)
        self.project = NO_PROJECT
        # The account that the calls run as, if that is known, and its folder where the host names none.
        self.files_from: tuple[Account | None, str] = (None, "")
        self._lock = Lock()
        self._carried: CarriedMemory | None = None
        if gate.carried is not None:
            from lockgate.gate.carried_memory import CarriedMemory

            self._carried = CarriedMemory(gate.carried, id, self._context, self._scanner, self._lock)
        self._calls: deque[tuple[str, Sequence[Leaf], Decision]] = deque(maxlen=MAX_HISTORY)
        self._count = 0
        self._steps = 0
        self._watchers: tuple[CallWatcher, ...] = ()
        self._reorients = 0
        # Everything untrusted so far as one hash: an approval given before the latest of it is void.
        self._untrusted_hash = sha256()
        self.untrusted_sha256 = self._untrusted_hash.hexdigest()
        self.people = PersonQuestions(gate.approvals, id, policy, gate.approval_life_s, resumed=resumed)
        self._judges = JudgeQuestions(policy, gate.prices, gate.budget, id)
        self._records = None
        if gate.journal is not None:
            from lockgate.gate.ruling_records import RulingRecords

            self._records = RulingRecords(gate.journal, id, policy)
        if goal:
            self._context.add(goal, source="goal", id="goal")

    @property
    def width(self) -> Width:
        """How much is asked about now: a judge may pass its exam, or lose its standing, while a session runs."""
        judge = self.gate.triage
        return effective_width(self.policy.escalate, None if judge is None else standing_of(judge))

    # The context.

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Every block so far."""
        with self._lock:
            return tuple(self._context.blocks)

    @property
    def block_count(self) -> int:
        """How many blocks there are."""
        return len(self._context.blocks)

    def block(self, id: str) -> Block | None:
        """Return the block of this id; None where there is none."""
        with self._lock:
            place = self._context.positions.get(id)
            return None if place is None else self._context.blocks[place]

    def lineage(self, block: str | Block, *, depth: int = 16) -> Lineage:
        """Return what a block was derived from, as a tree."""
        with self._lock:
            return self._context.lineage(block.id if isinstance(block, Block) else block, depth=depth)

    def add(
        self,
        content: str,
        *,
        source: str,
        trust: str | Trust | None = None,
        kind: str | Kind | None = None,
        mutable: bool | None = None,
        tainted_by: Sequence[str | Block] = (),
        id: str | None = None,
        voids: bool = True,
        carried: CarriedFrom | None = NOT_LOOKED_UP,
    ) -> Block:
        """Add a piece of context, scanned once; return it with the trust it really has.

        Untrusted text voids the questions that are open with a person; with `voids` False the caller does that.
        `carried` is what `find_carried` says of the text, where the caller has asked already.
        """
        level, sort, parents = parse_block_request(content, source, trust, kind, mutable, tainted_by, id)
        if carried is NOT_LOOKED_UP:
            carried = self.find_carried(content, source)
        level = self.vouched_trust(content, source) if level is None else level
        with self._lock:
            block = self._context.add(
                content,
                source=source,
                trust=level,
                kind=sort,
                mutable=mutable,
                tainted_by=parents,
                id=id,
                carried=carried,
            )
            speaker = source.partition(":")[0]
            # An agent's own words say nothing that it had not read before.
            if block.trust is Trust.UNTRUSTED and speaker != "agent":
                self._untrusted_hash.update(f"{block.id}\0{block.digest}\n".encode("utf-8", "replace"))
                self.untrusted_sha256 = self._untrusted_hash.hexdigest()
                if voids:
                    self.people.mark_stale(block.id, source)
            elif speaker in ("user", "goal"):
                self._reorients = 0
        self.people.void_stale()
        return block

    def preview_block(
        self,
        content: str,
        *,
        source: str,
        trust: str | Trust | None = None,
        kind: str | Kind | None = None,
        tainted_by: Sequence[str | Block] = (),
    ) -> Block:
        """Return the block that `add` would add now, or raise its error; nothing changes."""
        level, sort, parents = parse_block_request(content, source, trust, kind, None, tainted_by, None)
        level = self.vouched_trust(content, source) if level is None else level
        with self._lock:
            return self._context.build_block(content, source=source, trust=level, kind=sort, tainted_by=parents)[0]

    def vouched_trust(self, content: str, source: str) -> Trust | None:
        """Return `vetted` for a text that a person has vouched for; None for any other."""
        return None if self.gate.vouched is None else self.gate.vouched.trust_of(source, content)

    def find_carried(self, content: str, source: str) -> CarriedFrom | None:
        """Return where a text comes from that an agent carried over from an earlier session; None for any other."""
        if self._carried is None or self.vouched_trust(content, source) is not None:
            return None
        return self._carried.find(content, source)

    @property
    def context_known(self) -> bool:
        """Whether everything that the agent has read is here; while it is not, every high-risk call is escalated."""
        return not self._context.has_unknown_history

    @context_known.setter
    def context_known(self, known: bool) -> None:
        self._context.has_unknown_history = not known

    @property
    def project(self) -> Project:
        """What is known of the project that the agent works in."""
        return self._context.project

    @project.setter
    def project(self, project: Project) -> None:
        self._context.project = replace(
            protect(project, self.gate), effect_rows=self.policy.effect_rows, show=self._show_file
        )

    # Earlier calls.

    @property
    def history(self) -> tuple[PastCall, ...]:
        """The latest calls with their rulings, oldest first."""
        with self._lock:
            return _past_calls(tuple(self._calls))

    def remember_ruling(
        self, tool: str, arguments: Mapping[str, object], decision: Decision, *, called: bool = True
    ) -> None:
        """Take over a ruling of another process, or of an earlier one. `called` is False for the end of a step."""
        leaves: list[Leaf] = []
        with suppress(InvalidCall):
            leaves = pipeline.flatten_arguments(arguments)[0]
        with self._lock:
            self._count += 1
            if decision.action is Action.REORIENT:
                self._reorients += 1
            if decision.approval:
                self.people.note_question()
        if called:
            self._add_to_history(tool, leaves, decision, self._changes_of(ToolCall(tool, arguments), decision))

    def void_approvals(self, block: Block) -> None:
        """End the questions that are open with a person: they were about the context before this block."""
        self.people.void((block.id, block.source))

    def watch_calls(self, watcher: CallWatcher) -> Callable[[], None]:
        """Tell the watcher of each checked call once it is ruled on, until the returned function is called."""
        with self._lock:
            self._watchers = (*self._watchers, watcher)

        def forget() -> None:
            with self._lock:
                self._watchers = tuple(each for each in self._watchers if each != watcher)

        return forget

    @property
    def can_reach_person(self) -> bool:
        """Whether a PAUSE can be answered at all."""
        return self.people.can_be_asked

    def next_step_name(self) -> str:
        """Return the name of the next supervised step of this session."""
        with self._lock:
            self._steps += 1
            return str(self._steps)

    # Rulings.

    def check(self, call: ToolCall) -> Decision:
        """Rule on one call before it runs: only CONTINUE lets it run."""
        began = perf_counter_ns()
        leaves, ruling, subject = self._begin(call)
        if isinstance(ruling, EscalatedCall) or self._must_wait(ruling, subject):
            with self._notify_watchers(call.tool, leaves):
                decision = run_routine(self._settle(call, ruling, subject, began))
            return self._end(call, leaves, decision)
        return self._end(call, leaves, self._settle_at_once(call.tool, ruling, subject, began))

    def check_at_once(self, call: ToolCall) -> Routine[Decision | CallStart]:
        """Rule on a call that Tier 1 settles; where a judge or a person is asked, return what `check_async` takes.

        A routine, which waits once the record of the ruling has its place in the journal.
        """
        began = perf_counter_ns()
        leaves, ruling, subject = self._begin(call)
        if isinstance(ruling, EscalatedCall) or self._must_wait(ruling, subject):
            return CallStart(leaves, ruling, subject, began)
        decision = _with_latency(ruling, began, self.width)
        if subject is not None and self._records is not None:
            decision = yield from self._records.recording(call.tool, subject, self._context.blocks, decision)
        return self._end(call, leaves, decision)

    async def check_async(self, call: ToolCall, start: CallStart | None = None) -> Decision:
        """Rule on one call for a caller on an event loop.

        Without a `start`, Tier 1 runs in place: it takes microseconds for all but a large call.
        """
        began = perf_counter_ns()
        leaves, ruling, subject, began = start or CallStart(*self._begin(call), began)
        if isinstance(ruling, EscalatedCall) or subject is not None or self.people.must_check_for_denial(ruling):
            with self._notify_watchers(call.tool, leaves):
                decision = await run_routine_async(self._settle(call, ruling, subject, began))
        else:
            decision = _with_latency(ruling, began, self.width)
        return self._end(call, leaves, decision)

    def rule_on(self, ask: EscalatedCall, *, judged: bool = True) -> Decision:
        """Run steps 6 to 9 for a question that did not begin as a call; `judged` False asks no model."""
        began = perf_counter_ns()
        routine = self._settle(ask.call, ask, self._describe_now(ask.call), began, judged=judged)
        return self._count_ruling(ask.call.tool, run_routine(routine))

    async def rule_on_async(self, ask: EscalatedCall, *, judged: bool = True) -> Decision:
        """Do the same for a caller on an event loop."""
        began = perf_counter_ns()
        routine = self._settle(ask.call, ask, self._describe_now(ask.call), began, judged=judged)
        return self._count_ruling(ask.call.tool, await run_routine_async(routine))

    def record_ruling(self, call: ToolCall, ruling: Decision) -> Decision:
        """Record a ruling that a step or a host made itself; return what holds."""
        return run_routine(self._record(call.tool, self._describe_now(call), observe(ruling, self.policy)))

    async def record_ruling_async(self, call: ToolCall, ruling: Decision) -> Decision:
        """Do the same for a caller on an event loop."""
        held = observe(ruling, self.policy)
        return await run_routine_async(self._record(call.tool, self._describe_now(call), held))

    def _must_wait(self, ruling: Decision, subject: RulingSubject | None) -> bool:
        """Return whether a person or a watcher has to be heard before a Tier 1 ruling counts."""
        return bool(subject and self._watchers) or self.people.must_check_for_denial(ruling)

    # Steps 1 to 5.

    def _add_carried_files(self, call: ToolCall, leaves: Sequence[Leaf]) -> None:
        """Add the files that a call runs and that an earlier session wrote from untrusted text, as if it read them."""
        files = {} if self._carried is None else self._carried.find_run(call, leaves)
        for path, carried in files.items():
            self.add(self._show_file(path) or path, source=f"file:{path}", carried=carried)

    def _show_file(self, path: str) -> str | None:
        """Return the text of a file as it is now; None where the host cannot show it, or it is no short text."""
        from lockgate.gate.call_files import read_text

        account = self.files_from[0]
        return read_text(path, own_account() if account is None and self.project.folder else account)

    def _begin(self, call: ToolCall) -> tuple[list[Leaf], Decision | EscalatedCall, RulingSubject | None]:
        arguments = call.arguments
        if not isinstance(call.tool, str):
            raise InvalidCall(f"a tool's name must be text, not {type(call.tool).__name__}")
        if not call.tool:
            raise InvalidCall("a call needs the name of its tool", hint="check(tool, arguments) before each call")
        if type(arguments) is not dict and not isinstance(arguments, Mapping):
            raise InvalidCall(
                f"arguments must be an object, not {type(arguments).__name__}",
                # Not parsed here: what is ruled on has to be the object that the tool is called with.
                hint="give what the tool is called with: json.loads(arguments)" if isinstance(arguments, str) else "",
            )
        taken = pipeline.flatten_arguments(arguments)
        self._add_carried_files(call, taken[0])
        ruling, subject = self._rule_at_tier1(call, taken)
        if isinstance(ruling, EscalatedCall) and not taken[1]:
            # Judges take seconds, in which the caller's object may change: what is ruled on is a copy.
            copied = call._replace(arguments=_copy_arguments(arguments))
            again = pipeline.flatten_arguments(copied.arguments)
            ruling = ruling._replace(call=copied)
            if self._records is not None and subject is not None:
                subject = self._records.describe_call(
                    copied.arguments, again[0], subject.blocks, subject.context_sha256
                )
            if again != taken:
                taken, (ruling, subject) = again, self._rule_at_tier1(copied, again)
        return taken[0], ruling, subject

    def _rule_at_tier1(
        self, call: ToolCall, taken: tuple[list[Leaf], bool]
    ) -> tuple[Decision | EscalatedCall, RulingSubject | None]:
        with self._lock:
            ruling = pipeline.begin(self._context, call, self.policy, self._scanner, flattened=taken, width=self.width)
            return ruling, self._describe(call.arguments, taken[0])

    def _settle_at_once(self, tool: str, ruling: Decision, subject: RulingSubject | None, began: int) -> Decision:
        decision = _with_latency(ruling, began, self.width)
        if subject is None or self._records is None:
            return decision
        return self._records.record(tool, subject, self._context.blocks, decision)

    # Steps 6 to 8.

    def _settle(
        self,
        call: ToolCall,
        ruling: Decision | EscalatedCall,
        subject: RulingSubject | None,
        began: int,
        *,
        judged: bool = True,
    ) -> Routine[Decision]:
        if isinstance(ruling, EscalatedCall):
            settled = yield from self._escalate(ruling, judged=judged)
        elif self.people.must_check_for_denial(ruling):
            settled = yield from self.people.hold_if_denied(call, ruling, self.untrusted_sha256)
        else:
            settled = SettledRuling(ruling)
        width = ruling.width if isinstance(ruling, EscalatedCall) else self.width
        decision = observe(_with_latency(settled.decision, began, width), self.policy)
        return (yield from self._record(call.tool, subject, decision, settled.approved_by))

    def _escalate(self, ask: EscalatedCall, *, judged: bool) -> Routine[SettledRuling]:
        people = self.people
        yield from people.end_stale()
        files = yield from self._files_of(ask.call)
        bound, unusable = people.bind(ask.call, self.untrusted_sha256, files), ""
        if bound is not None:
            answer = yield from people.take(bound)
            settled = yield from self._follow_person(ask, bound, answer)
            if settled is not None:
                return settled
            unusable = why_unusable(answer)
        elif people.were_asked and (yield from people.have_denied()):
            held = Decision(Action.PAUSE, 3, Reason.DENIED, ask.risk, "", ask.findings, ask.origins)
            return SettledRuling(hold_uncomparable(held))
        decision = yield from self._ask_judges(ask, judged=judged)
        if decision.action is Action.CONTINUE and bound is not None and people.were_asked:
            # A person may have said no while the judges thought.
            person = person_answer(ask, (yield from people.take(bound)))
            if person is not None and person.decision.action is not Action.CONTINUE:
                return SettledRuling(person.decision._replace(judged=decision.judged))
        if decision.action is Action.PAUSE and bound is not None and self._needs_person(decision):
            if unusable:
                decision = decision._replace(explanation=f"{decision.explanation}; {unusable}")
            decision = yield from self._ask_person(ask, decision)
        return SettledRuling(decision)

    def _follow_person(self, ask: EscalatedCall, bound: BoundCall, answer: object) -> Routine[SettledRuling | None]:
        """Return what a person's answer or grant says of this call; None where no person has said anything."""
        person = person_answer(ask, answer)
        if person is None or may_be_granted(answer):
            granted = yield from self.people.use_grant(bound, self._facts_of(ask, bound), ask)
            if granted is not None:
                return granted
        if person is None:
            return None
        if not person.ask_again:
            return SettledRuling(person.decision, person.approved_by)
        return SettledRuling((yield from self._ask_person(ask, person.decision, person.replaces)))

    def _needs_person(self, decision: Decision) -> bool:
        if self.policy.flows:
            from lockgate.core.ruling.flow_rules import is_denied

            if is_denied(decision.findings, self.policy.flows):
                return False
        return self.policy.enforce or is_always_enforced(decision)

    def _ask_judges(self, ask: EscalatedCall, *, judged: bool) -> Routine[Decision]:
        ran: list[Ran] = []
        ruling: Decision | EscalatedCall = ask
        # All tiers and retries share one deadline: a host's hook waits only so long, and then does what it likes.
        until = monotonic() + JUDGES_S
        while isinstance(ruling, EscalatedCall):
            judge = self.gate.supervisor if ruling.stage is Stage.SUPERVISOR else self.gate.triage
            opinion: Opinion | None = None
            is_down = False
            if judge is not None and judged:
                opinion, took = yield from self._judges.ask(judge, ruling, self._look_for_judge, self.goal, until)
                ran.append(took)
                is_silent = isinstance(opinion, Silent) and opinion.why in _OUTAGES
                if is_silent and ruling.stage is not Stage.SUPERVISOR and hasattr(judge, "probe"):
                    # Without a judged text, so that no text can make a judge seem to be down.
                    is_down = (yield attempt_in_thread(judge.probe)) is False
            count, standing = self._reorients, standing_of(judge)
            ruling = pipeline.resume(ruling, opinion, self.policy, reorients=count, judge=standing, is_down=is_down)
        return ruling._replace(judged=tuple(ran)) if ran else ruling

    def _ask_person(self, ask: EscalatedCall, decision: Decision, replaces: str = "") -> Routine[Decision]:
        # Bound anew: the context may have grown, and files may have changed, while the judges thought.
        files = yield from self._files_of(ask.call)
        bound = self.people.bind(ask.call, self.untrusted_sha256, files)
        if bound is None:
            return decision
        facts = self._facts_of(ask, bound)
        with self._lock:
            contents = {block.id: block.content for block in self._context.blocks}
        people = 2 if self._needs_two_people(ask) else 1
        return (yield from self.people.ask(bound, decision, contents, self.goal, facts, replaces, people))

    def _files_of(self, call: ToolCall) -> Routine[tuple[tuple[str, str], ...]]:
        """Return the files that a call runs or loads, as they are now."""
        if not self.people.can_be_asked:
            return ()
        from lockgate.gate.call_files import digest_files

        project, (account, folder) = self.project, self.files_from
        # A host that names the session's folder is on this machine.
        account = own_account() if account is None and project.folder else account
        folder = call.folder or project.folder or project.root or folder

        def read() -> object:
            with self._lock:
                named = files_of(call, project, self._context.activity)
            return digest_files(*named, folder, account)

        files = yield attempt_in_thread(read)
        return files if isinstance(files, tuple) else (("the files of this call", "cannot be read"),)

    def _needs_two_people(self, ask: EscalatedCall) -> bool:
        from lockgate.core.ruling.approvals import needs_two_people

        return needs_two_people(ask.effects, self.gate.two_person)

    def _facts_of(self, ask: EscalatedCall, bound: BoundCall) -> HeldFacts:
        """Return what a grant for this call would be made from, or is compared with."""
        from lockgate.core.ruling.grants import facts_from_ask, find_sources, find_unread

        with self._lock:
            sources, root = find_sources(ask, self._context), self._context.project.root
        # By its real path: a link must not make one project of two, nor two of one.
        facts = facts_from_ask(ask, bound.arguments, sources, realpath(root) if root else "")
        if self._needs_two_people(ask):
            # One person's rule must not stand in for the second person.
            return facts._replace(widest="", barred="two people have to approve such a call, each time")
        return facts._replace(widest="", barred=unread) if (unread := find_unread(bound.files)) else facts

    def _look_for_judge(self, ask: EscalatedCall) -> tuple[ContextSnapshot, Sequence[PastCall]]:
        from lockgate.core.judging.case import take_snapshot

        with self._lock:
            return take_snapshot(self._context), self._history_for_judge(ask)

    def _history_for_judge(self, ask: EscalatedCall) -> tuple[PastCall, ...]:
        """Return the earlier calls, without this very call where it was held: it would be a new question each time.

        The supervisor is told where it ran before.
        """
        again = (ask.call.tool, _argument_values(pipeline.flatten_arguments(ask.call.arguments)[0]))
        may_repeat = ask.stage is Stage.SUPERVISOR
        return tuple(
            past
            for past in _past_calls(tuple(self._calls))
            if past[:2] != again or (may_repeat and past.action == Action.CONTINUE.value)
        )

    # Step 9.

    def _describe(self, arguments: object, leaves: Iterable[Leaf]) -> RulingSubject | None:
        """Return what the record says of a call; the caller holds the lock."""
        if self._records is None:
            return None
        return self._records.describe_call(arguments, leaves, len(self._context.blocks), self.untrusted_sha256)

    def _describe_now(self, call: ToolCall) -> RulingSubject | None:
        if self._records is None:
            return None
        leaves: Iterable[Leaf] = ()
        with suppress(InvalidCall):
            leaves = pipeline.flatten_arguments(call.arguments)[0]
        with self._lock:
            return self._describe(call.arguments, leaves)

    def _record(
        self, tool: str, subject: RulingSubject | None, decision: Decision, approved_by: str = ""
    ) -> Routine[Decision]:
        records = self._records
        if subject is None or records is None:
            return decision
        blocks = self._context.blocks
        answer = yield attempt_in_thread(lambda: records.record(tool, subject, blocks, decision, approved_by))
        return answer if isinstance(answer, Decision) else records.hold_unrecorded(decision, answer)

    # After a ruling.

    @contextmanager
    def _notify_watchers(self, tool: str, leaves: Sequence[Leaf]) -> Iterator[None]:
        """Tell the watchers that a call waits for its ruling, and if it does not get one."""
        watchers = self._watchers
        for watcher in watchers:
            watcher.on_begun(tool, leaves)
        ruled = False
        try:
            yield
            ruled = True
        finally:
            if not ruled:
                for watcher in watchers:
                    watcher.on_failed(tool, leaves)

    def _end(self, call: ToolCall, leaves: list[Leaf], decision: Decision) -> Decision:
        tool = call.tool
        if decision.tier > 1 or self.gate.ledger is not None:
            self._count_ruling(tool, decision)
        changes = self._changes_of(call, decision)
        if self._carried is not None:
            self._carried.keep(call, leaves, decision, changes)
        self._add_to_history(tool, leaves, decision, changes)
        return decision

    def _add_to_history(
        self, tool: str, leaves: list[Leaf], decision: Decision, changes: Sequence[Change] = ()
    ) -> None:
        short = leaves
        for leaf in leaves:
            if len(leaf[1]) > _MAX_REMEMBERED:
                short = [Leaf(leaf.argument, leaf.text[:_MAX_REMEMBERED]) for leaf in leaves[:_MAX_LEAVES]]
                break
        # Appending to a deque is one step to every other thread.
        self._calls.append((tool, short, decision))
        if decision.action is Action.CONTINUE:
            with self._lock:
                self._context.remember_call(tool, short, decision.effects, changes)
        for watcher in self._watchers:
            watcher.on_ruled(tool, leaves, decision)

    def _changes_of(self, call: ToolCall, decision: Decision) -> Sequence[Change]:
        """Return what a call writes to files, where untrusted text was read."""
        if not self._context.readings or (
            decision.effects and WRITES.isdisjoint(effect.kind for effect in decision.effects)
        ):
            return ()
        with self._lock:
            return changes_of(call, self._context.project, self._context.activity)

    def _count_ruling(self, tool: str, decision: Decision) -> Decision:
        if decision.tier > 1:
            self._note_escalation(decision)
        if self.gate.ledger is not None:
            with self._lock:
                self._count += 1
                number = self._count
            # A broken ledger costs a count, not the ruling.
            attempt_in_thread(partial(self.gate.ledger.note, self.id, number, tool, decision)).now()
        return decision

    def _note_escalation(self, decision: Decision) -> None:
        if decision.action is Action.REORIENT:
            with self._lock:
                self._reorients += 1
        elif decision.would_be is Action.CONTINUE and decision.reason not in (
            *_CLEARING_REASONS,
            Reason.JOURNAL_UNAVAILABLE,
        ):
            # No judge and no person cleared the call, and the policy lets it run: the log says so.
            rules = ",".join(dict.fromkeys(printable(found.rule) for found in decision.findings)) or "none"
            getLogger("lockgate.gate").warning(
                "no judge answered, the policy continues: session=%s risk=%s reason=%s rules=%s",
                printable(self.id),
                decision.risk.value,
                decision.reason.value,
                rules,
            )


def _copy_arguments(value: object) -> dict[str, object]:
    """Return the arguments in objects of our own; `flatten_arguments` has refused what is too deep or too many."""

    def copy(item: object) -> object:
        if isinstance(item, str):
            return item
        if isinstance(item, Mapping):
            return {key: copy(inner) for key, inner in item.items()}
        return [copy(inner) for inner in item] if isinstance(item, list | tuple) else item

    copied = copy(value)
    return copied if isinstance(copied, dict) else {}


def _with_latency(ruling: Decision, began: int, width: Width) -> Decision:
    """Return the ruling with the time it took: the pure pipeline has no clock. Recording is not part of it."""
    return tuple.__new__(Decision, (*ruling[:-3], width._value_, (perf_counter_ns() - began) / 1000, None))


def _argument_values(leaves: Iterable[Leaf]) -> tuple[tuple[str, str], ...]:
    return tuple((leaf.argument, leaf.text[:_MAX_REMEMBERED]) for leaf in leaves)


def _past_calls(calls: Iterable[tuple[str, Sequence[Leaf], Decision]]) -> tuple[PastCall, ...]:
    return tuple(
        PastCall(tool, _argument_values(leaves), decision.action.value, decision.tier, decision.reason.value)
        for tool, leaves, decision in calls
    )
