"""The gate and its sessions: the pure pipeline, driven with a clock, a lock and the judges.

A ruling is written once, as a generator that yields whatever has to be waited for (`_rule`); `check` and
`check_async` drive it in a few lines each, so that the two can never disagree.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import sha256
from os import urandom
from sys import modules
from threading import Lock, Thread
from time import monotonic, perf_counter_ns, time
from typing import TYPE_CHECKING, NamedTuple, Protocol

from lockgate.core.errors import (
    InvalidBlock,
    InvalidCall,
    InvalidConfig,
    JournalUnavailable,
    JournalUncosigned,
    LockgateError,
    printable,
    quoted,
)
from lockgate.core.questions import NoAnswerReason
from lockgate.core.ruling import pipeline
from lockgate.core.ruling.arguments import Leaf
from lockgate.core.ruling.context import Context, PastCall
from lockgate.core.ruling.opinions import Opinion, Ruling, Silent, Triage, Unreadable
from lockgate.core.ruling.pipeline import Ask, Stage
from lockgate.core.ruling.policy import Policy, tighten
from lockgate.core.ruling.tool_call import ToolCall
from lockgate.core.text.rules import RULES
from lockgate.core.text.scanner import Scanner, check_pattern, rules_from_patterns
from lockgate.core.vocabulary import (
    Action,
    Block,
    Decision,
    Finding,
    Kind,
    Lineage,
    Mode,
    Ran,
    Reason,
    Risk,
    Trust,
)
from lockgate.runtime.forks import on_fork

if TYPE_CHECKING:
    from lockgate.core.judging.case import ContextSnapshot, JudgeCase
    from lockgate.core.judging.evidence import Evidence
    from lockgate.core.ruling.approvals import BoundCall, PendingApproval, TakeResult
    from lockgate.gate.supervised_step import CallWatcher, Step
    from lockgate.journal.recorder import JournalWriter, RulingSubject

# Calls of a session that the supervisor is told of; longer values are cut.
MAX_HISTORY = 256
_MAX_REMEMBERED = 400
_MAX_LEAVES = 64
# Of Tier 1's own CONTINUEs those of a call, not of a step.
_CALL_PASSES = (Reason.NO_RED_FLAGS, Reason.NO_UNTRUSTED_CONTENT, Reason.LOW_RISK_TOOL)
# Who lets an escalated call run by having looked at it.
_CLEARING_REASONS = frozenset({Reason.TRIAGE_CLEARED, Reason.SUPERVISOR, Reason.APPROVED})
# The same question is not paid for twice while its answer is this young.
ANSWER_LIFE_S = 300.0
_MAX_ANSWERS = 256


class Inquiry(NamedTuple):
    """What a judge is asked: by whom of the tiers, and about what; `evidence` for one that has `reads_evidence`."""

    stage: Stage
    case: JudgeCase
    evidence: Evidence | None = None


class Opined(NamedTuple):
    """What a judge said, and what that took."""

    opinion: Opinion
    tokens_in: int = 0
    tokens_out: int = 0


_CANNOT_COMPARE = "a person has said no in this session, and this call cannot be compared with what it was about"
_NO_ANSWER = Opined(Silent(NoAnswerReason.INTERNAL))


class Judge(Protocol):
    """Tier 2 or Tier 3.

    Never raises, answers inside its own deadline, and gives an opinion only for a reply that is exactly what was
    asked for. A judge that breaks this counts as one that did not answer.
    """

    @property
    def name(self) -> str:
        """Who is asked, as `provider/model`."""

    def opine(self, inquiry: Inquiry) -> Opined: ...

    async def opine_async(self, inquiry: Inquiry) -> Opined: ...


class Approvals(Protocol):
    """Where a PAUSE waits for a person.

    When `ask` returns an id, the question is stored under it; an empty id is no room for another. `take` hands a
    yes out once, to one caller, whatever the number of callers and processes. `void` ends what is still open.
    `denies` is whether a person has said no to anything in this session; that stands as long as the session does.
    """

    def ask(self, pending: PendingApproval) -> str: ...

    def take(self, bound: BoundCall, now_s: float) -> TakeResult: ...

    def void(self, session: str, now_s: float) -> int: ...

    def denies(self, session: str) -> bool: ...


class Ledger(Protocol):
    """Where rulings are counted: tiers, time, money and rule ids, never content. Never raises."""

    def note(self, session: str, number: int, tool: str, decision: Decision) -> None: ...


_scanners: dict[tuple[str, ...], Scanner] = {}
_scanner_lock = Lock()


def _reset_lock() -> None:
    global _scanner_lock
    _scanner_lock = Lock()


on_fork(_reset_lock)


def shared_scanner(policy: Policy) -> Scanner:
    """The compiled rules for a policy, once per process: compiling takes seconds."""
    key = policy.additional_patterns
    with _scanner_lock:
        if key not in _scanners:
            if len(_scanners) >= 8:
                _scanners.clear()
            _scanners[key] = Scanner((*RULES, *rules_from_patterns(key)))
        return _scanners[key]


class Gate:
    """Rules on tool calls. `Gate()` uses the defaults, keeps everything in memory and touches no file.

    Without judges an escalated call gets what the policy says of calls that nobody could judge: PAUSE when the
    tool is high-risk. `prices` turns a judge's name and tokens into US dollars, or None where it does not know. With
    a `journal` no ruling is returned before it is recorded there.
    """

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        scanner: Scanner | None = None,
        triage: Judge | None = None,
        supervisor: Judge | None = None,
        approvals: Approvals | None = None,
        ledger: Ledger | None = None,
        journal: JournalWriter | None = None,
        prices: Callable[[str, int, int], float | None] | None = None,
        human_timeout_s: float = 300.0,
    ) -> None:
        self.policy = policy or Policy()
        self.triage = triage
        self.supervisor = supervisor
        self.approvals = approvals
        self.ledger = ledger
        self.journal = journal
        self.prices = prices
        if not 0 < human_timeout_s < float("inf"):
            raise InvalidConfig(
                f"human_timeout_s must be a number of seconds, not {human_timeout_s!r}", hint="300 is five minutes"
            )
        self.human_timeout_s = human_timeout_s
        self._scanner = scanner
        if scanner is None:
            # Said here and not by the first session; the rules themselves are compiled only there.
            for pattern in self.policy.additional_patterns:
                check_pattern(pattern)

    @classmethod
    def from_config(cls, path: str | None = None) -> Gate:
        """A gate with the discovered configuration: its judges, its stores, and its rules compiled and cached."""
        from lockgate.assemble import gate_from_config

        return gate_from_config(path)

    @property
    def scanner(self) -> Scanner:
        if self._scanner is None:
            self._scanner = shared_scanner(self.policy)
        return self._scanner

    def session(
        self,
        *,
        goal: str = "",
        mode: str | Mode | None = None,
        scope: str = "",
        id: str | None = None,
        resumed: bool | None = None,
    ) -> Session:
        """One agent run. A mode given here can make the policy stricter, never looser.

        An approval is bound to the session's `id`: a host that starts anew gives the same id to go on. `resumed` is
        whether a person may have been asked in it already, by another process; by default, where an id is given.
        """
        if not isinstance(goal, str):
            raise InvalidBlock(f"a goal must be text, not {type(goal).__name__}")
        if id is not None and not str(id):
            raise InvalidBlock("a session's id must not be empty")
        policy = self.policy
        if mode is not None or scope:
            asked: dict[str, object] = {"research_scope": scope} if scope else {}
            policy = tighten(policy, mode=policy.mode if mode is None else _parse_mode(mode), **asked)
        again = id is not None if resumed is None else resumed
        return Session(self, policy, goal, str(id) if id else urandom(8).hex(), resumed=again)


class SettledRuling(NamedTuple):
    """A ruling, and who approved it where a person did."""

    decision: Decision
    who: str = ""


class _Work(NamedTuple):
    """Something a ruling waits for, in both ways of waiting."""

    run: Callable[[], object]
    run_async: Callable[[], Awaitable[object]]


class Session:
    """One agent run: add what enters its context, check each call before it runs. Safe for several threads."""

    def __init__(self, gate: Gate, policy: Policy, goal: str, id: str, *, resumed: bool = False) -> None:
        self.gate = gate
        self.policy = policy
        self.goal = goal
        self.id = id
        self._scanner = gate.scanner
        self._context = Context(self._scanner, user_trust=policy.user_trust)
        self._lock = Lock()
        self._calls: deque[tuple[str, Sequence[Leaf], Decision]] = deque(maxlen=MAX_HISTORY)
        self._count = 0
        self._steps = 0
        self._watchers: tuple[CallWatcher, ...] = ()
        self._reorients = 0
        self._approval_open = self._approvals_stale = False
        # Whether a person has been asked here, perhaps by an earlier process, and whether they have said no.
        self._person_asked = resumed and gate.approvals is not None
        self._person_denied = False
        # Everything untrusted so far as one hash: an approval given before the latest of it is void.
        self._untrusted_hash = sha256()
        self._untrusted_sha256 = self._untrusted_hash.hexdigest()
        self._asking: dict[str, Future[Opined]] = {}
        self._answers: OrderedDict[str, tuple[float, Opined]] = OrderedDict()
        self._recorder = None
        if gate.journal is not None:
            from lockgate.journal.recorder import SessionRecorder

            self._recorder = SessionRecorder(gate.journal, id)
        if goal:
            self._context.add(goal, source="goal", id="goal")

    @property
    def blocks(self) -> tuple[Block, ...]:
        with self._lock:
            return tuple(self._context.blocks)

    @property
    def block_count(self) -> int:
        """How many blocks there are."""
        return len(self._context.blocks)

    def block(self, id: str) -> Block | None:
        with self._lock:
            place = self._context.positions.get(id)
            return None if place is None else self._context.blocks[place]

    @property
    def history(self) -> tuple[PastCall, ...]:
        """The latest calls with their rulings, oldest first."""
        with self._lock:
            return _past_calls(tuple(self._calls))

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
    ) -> Block:
        """Take a piece of context in, scanned once and for all; returns it with the trust it really has.

        What is open with a person is voided by it; `voids` False leaves that to whoever took the block in first.
        """
        level, sort, parents = _parse_block_request(content, source, trust, kind, mutable, tainted_by, id)
        with self._lock:
            block = self._context.add(
                content, source=source, trust=level, kind=sort, mutable=mutable, tainted_by=parents, id=id
            )
            # An agent's own words say nothing that it had not read before.
            if block.trust is Trust.UNTRUSTED and source.partition(":")[0] != "agent":
                self._untrusted_hash.update(f"{block.id}\0{block.digest}\n".encode("utf-8", "replace"))
                self._untrusted_sha256 = self._untrusted_hash.hexdigest()
                self._approvals_stale = self._approvals_stale or (voids and self._approval_open)
            elif source.partition(":")[0] in ("user", "goal"):
                self._reorients = 0
        if self._approvals_stale:
            self.void_approvals()
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
        """The block that `add` would take in now, or its error; nothing changes."""
        level, sort, parents = _parse_block_request(content, source, trust, kind, None, tainted_by, None)
        with self._lock:
            return self._context.build_block(content, source=source, trust=level, kind=sort, tainted_by=parents)[0]

    @property
    def context_known(self) -> bool:
        """Whether all that the agent has read is here; while it is not, every high-risk call is escalated."""
        return not self._context.has_unknown_history

    @context_known.setter
    def context_known(self, known: bool) -> None:
        self._context.has_unknown_history = not known

    def remember_ruling(
        self, tool: str, arguments: Mapping[str, object], decision: Decision, *, called: bool = True
    ) -> None:
        """Take in what was ruled on elsewhere: by another process, or before this one began.

        `called` False is for what was no call, as the end of a step.
        """
        leaves: list[Leaf] = []
        with suppress(InvalidCall):
            leaves = pipeline.flatten_arguments(arguments)[0]
        with self._lock:
            self._count += 1
            if decision.action is Action.REORIENT:
                self._reorients += 1
            if decision.approval and self.gate.approvals is not None:
                self._person_asked = True
        if called:
            self._add_to_history(tool, leaves, decision)

    def void_approvals(self) -> None:
        """End the questions that were about another context; their digest says so too, should this fail."""
        approvals = self.gate.approvals
        if approvals is None:
            return

        def end() -> None:
            with suppress(LockgateError):
                approvals.void(self.id, time())
                self._approval_open = self._approvals_stale = False

        # A store waits for its disk and its locks: not on a caller's loop. What fails is tried again at the next call.
        loops = modules.get("asyncio")
        if loops is not None and loops._get_running_loop() is not None:
            Thread(target=end, daemon=True).start()
        else:
            end()

    def check(
        self,
        tool: str,
        arguments: Mapping[str, object],
        *,
        annotations: Mapping[str, object] | None = None,
        findings: Sequence[Finding] = (),
    ) -> Decision:
        """Rule on one call before it runs: only CONTINUE lets it run.

        `findings` is what the host itself knows against the call: with any, it is escalated, whatever the tool.
        """
        began = perf_counter_ns()
        leaves, ruling, seen = self._begin(tool, arguments, annotations, findings)
        if isinstance(ruling, Ask) or self._must_wait(ruling, seen):
            work = self._settle(ToolCall(tool, arguments), ruling, seen, began)
            if not self._watchers:
                return self._end(tool, leaves, _run_ruling(work))
            with self._notify_watchers(tool, leaves):
                decision = _run_ruling(work)
            return self._end(tool, leaves, decision)
        return self._end(tool, leaves, self._at_once(tool, ruling, seen, began))

    def check_at_once(
        self,
        tool: str,
        arguments: Mapping[str, object],
        *,
        annotations: Mapping[str, object] | None = None,
        findings: Sequence[Finding] = (),
    ) -> Decision | None:
        """The same where Tier 1 and the journal settle it; None where anybody else is asked, and nothing was done."""
        began = perf_counter_ns()
        leaves, ruling, seen = self._begin(tool, arguments, annotations, findings)
        if isinstance(ruling, Ask) or self._must_wait(ruling, seen):
            return None
        return self._end(tool, leaves, self._at_once(tool, ruling, seen, began))

    def _must_wait(self, ruling: Decision, seen: RulingSubject | None) -> bool:
        """Whether somebody has to be heard, or told, before what Tier 1 says counts."""
        return bool(seen and self._watchers) or (self._person_asked and ruling.risk is Risk.HIGH)

    def _at_once(self, tool: str, ruling: Decision, seen: RulingSubject | None, began: int) -> Decision:
        decision = _with_latency(ruling, began)
        return decision if seen is None else self._write_record(tool, seen, decision)

    async def check_async(
        self,
        tool: str,
        arguments: Mapping[str, object],
        *,
        annotations: Mapping[str, object] | None = None,
        findings: Sequence[Finding] = (),
    ) -> Decision:
        """The same ruling for a caller on an event loop; Tier 1 takes microseconds, so it runs in place."""
        began = perf_counter_ns()
        leaves, ruling, seen = self._begin(tool, arguments, annotations, findings)
        if isinstance(ruling, Ask) or seen is not None or (self._person_asked and ruling.risk is Risk.HIGH):
            with self._notify_watchers(tool, leaves):
                decision = await _run_ruling_async(self._settle(ToolCall(tool, arguments), ruling, seen, began))
        else:
            decision = _with_latency(ruling, began)
        return self._end(tool, leaves, decision)

    def _settle(
        self, call: ToolCall, ruling: Decision | Ask, seen: RulingSubject | None, began: int, *, judged: bool = True
    ) -> Generator[_Work, object, Decision]:
        """Whatever a ruling has to wait for: a person, the judges, and last the journal."""
        ruled = (
            SettledRuling(ruling)
            if isinstance(ruling, Decision)
            else (yield from self._rule_escalated(ruling, judged=judged))
        )
        if isinstance(ruling, Decision) and self._person_asked and ruling.risk is Risk.HIGH:
            ruled = yield from self._check_denials(call, ruling)
        return (yield from self._record(call.tool, seen, _with_latency(ruled.decision, began), ruled.who))

    # 9. Record.

    def _record_subject(self, arguments: object, leaves: Iterable[Leaf]) -> RulingSubject | None:
        """What a ruling is about, as far as its record says: taken before anything of it can change. Under the lock."""
        if self._recorder is None:
            return None
        return self._recorder.describe_call(arguments, leaves, len(self._context.blocks), self._untrusted_sha256)

    def _record(
        self, tool: str, seen: RulingSubject | None, decision: Decision, who: str = ""
    ) -> Generator[_Work, object, Decision]:
        if seen is None:
            return decision
        answer = yield self._store_work(partial(self._write_record, tool, seen, decision, who))
        return answer if isinstance(answer, Decision) else self._hold_unrecorded(decision, answer)

    def _write_record(self, tool: str, seen: RulingSubject, decision: Decision, who: str = "") -> Decision:
        """The ruling once it is in the journal, with its receipt; or what follows from its not being there."""
        assert self._recorder is not None  # noqa: S101
        try:
            receipt = self._recorder.record_ruling(
                seen,
                self._context.blocks,
                tool,
                decision,
                mode=self.policy.mode._value_,
                policy_hash=self.policy.hash,
                approved_by=who,
                # A pass outlives this process, and everything that somebody may have to answer for a power cut too.
                durable=not _is_tier1_pass(decision),
            )
        except JournalUncosigned as error:
            return self._hold_uncosigned(tool, seen, decision, error)
        except Exception as error:  # noqa: BLE001  # whatever it is, the ruling is not on record
            return self._hold_unrecorded(decision, error)
        return Decision._make((*decision[:-1], receipt))

    def _hold_uncosigned(
        self, tool: str, seen: RulingSubject, decision: Decision, error: JournalUncosigned
    ) -> Decision:
        """It is on record, and does not count: what is returned instead has to be on record after it."""
        assert self._recorder is not None  # noqa: S101
        held = self._hold_unrecorded(decision, error)
        if held.action is not decision.action:
            with suppress(JournalUnavailable):
                self._recorder.record_ruling(
                    seen,
                    self._context.blocks,
                    tool,
                    held,
                    mode=self.policy.mode._value_,
                    policy_hash=self.policy.hash,
                    witnessed=False,
                )
        return held

    def _hold_unrecorded(self, decision: Decision, answer: object) -> Decision:
        why = "the journal failed"
        if isinstance(answer, JournalUnavailable):
            why = "; ".join(printable(part, 300) for part in (answer.message, answer.hint) if part)
        held = pipeline.decide_unrecorded(decision, self.policy, why)
        from logging import getLogger

        getLogger("lockgate.gate").error(
            "a ruling is not on record: session=%s risk=%s action=%s ruled=%s: %s",
            printable(self.id),
            held.risk.value,
            held.action.value,
            decision.action.value,
            why,
        )
        return held

    def record_ruling(self, call: ToolCall, ruling: Decision) -> Decision:
        """Record a ruling that was made elsewhere, as a step makes some; what comes back is what holds."""
        return _run_ruling(self._record(call.tool, self._current_record_subject(call), ruling))

    async def record_ruling_async(self, call: ToolCall, ruling: Decision) -> Decision:
        return await _run_ruling_async(self._record(call.tool, self._current_record_subject(call), ruling))

    def _current_record_subject(self, call: ToolCall) -> RulingSubject | None:
        if self._recorder is None:
            return None
        leaves: Iterable[Leaf] = ()
        with suppress(InvalidCall):
            leaves = pipeline.flatten_arguments(call.arguments)[0]
        with self._lock:
            return self._record_subject(call.arguments, leaves)

    @contextmanager
    def _notify_watchers(self, tool: str, leaves: Sequence[Leaf]) -> Iterator[None]:
        """While a call waits for its ruling, whoever watches knows that it is under way."""
        watchers = self._watchers
        for watcher in watchers:
            watcher.on_begun(tool, leaves)
        try:
            yield
        except BaseException:
            for watcher in watchers:
                watcher.on_failed(tool, leaves)
            raise

    def step(self, goal: str, *, supervision: str | None = None, parent: Step | None = None) -> Step:
        """A supervised unit of work: the agent commits, acts through checked calls, and is held to what was seen."""
        from lockgate.gate.supervised_step import Step

        with self._lock:
            self._steps += 1
            name = str(self._steps)
        return Step(self, goal, supervision=supervision, parent=parent, name=name)

    @property
    def can_reach_person(self) -> bool:
        return self.gate.approvals is not None

    def watch_calls(self, watcher: CallWatcher) -> Callable[[], None]:
        """Tell the watcher of each checked call once it is ruled on, until the returned function is called."""
        with self._lock:
            self._watchers = (*self._watchers, watcher)

        def forget() -> None:
            with self._lock:
                self._watchers = tuple(each for each in self._watchers if each != watcher)

        return forget

    def rule_on(self, ask: Ask, *, judged: bool = True) -> Decision:
        """Steps 6 to 8, approvals included, for what did not begin as a call; `judged` False asks no model."""
        began = perf_counter_ns()
        work = self._settle(ask.call, ask, self._current_record_subject(ask.call), began, judged=judged)
        return self._count_ruling(ask.call.tool, _run_ruling(work))

    async def rule_on_async(self, ask: Ask, *, judged: bool = True) -> Decision:
        began = perf_counter_ns()
        work = self._settle(ask.call, ask, self._current_record_subject(ask.call), began, judged=judged)
        return self._count_ruling(ask.call.tool, await _run_ruling_async(work))

    def lineage(self, block: str | Block, *, depth: int = 16) -> Lineage:
        """What a block was derived from, as a tree."""
        with self._lock:
            return self._context.lineage(block.id if isinstance(block, Block) else block, depth=depth)

    def _begin(
        self,
        tool: str,
        arguments: Mapping[str, object],
        annotations: Mapping[str, object] | None,
        findings: Sequence[Finding] = (),
    ) -> tuple[list[Leaf], Decision | Ask, RulingSubject | None]:
        if not isinstance(tool, str):
            raise InvalidCall(f"a tool's name must be text, not {type(tool).__name__}")
        if not tool:
            raise InvalidCall("a call needs the name of its tool", hint="check(tool, arguments) before each call")
        if type(arguments) is not dict and not isinstance(arguments, Mapping):
            raise InvalidCall(f"arguments must be an object, not {type(arguments).__name__}")
        taken = pipeline.flatten_arguments(arguments)
        ruling, seen = self._rule_at_tier1(tool, arguments, annotations, taken, findings)
        if isinstance(ruling, Ask) and not taken[1]:
            # Judges take seconds, in which the caller's object may change: what is ruled on is a copy.
            copy = _copy_arguments(arguments)
            again = pipeline.flatten_arguments(copy)
            ruling = Ask(ruling.call._replace(arguments=copy), *ruling[1:])
            if self._recorder is not None and seen is not None:
                seen = self._recorder.describe_call(copy, again[0], seen.blocks, seen.context_sha256)
            if again != taken:
                taken, (ruling, seen) = again, self._rule_at_tier1(tool, copy, annotations, again, findings)
        return taken[0], ruling, seen

    def _rule_at_tier1(
        self,
        tool: str,
        arguments: Mapping[str, object],
        annotations: Mapping[str, object] | None,
        taken: tuple[list[Leaf], bool],
        findings: Sequence[Finding],
    ) -> tuple[Decision | Ask, RulingSubject | None]:
        with self._lock:
            call = ToolCall(tool, arguments, annotations, findings)
            ruling = pipeline.begin(self._context, call, self.policy, self._scanner, flattened=taken)
            return ruling, self._record_subject(arguments, taken[0])

    def _end(self, tool: str, leaves: list[Leaf], decision: Decision) -> Decision:
        if decision.tier > 1 or self.gate.ledger is not None:
            self._count_ruling(tool, decision)
        self._add_to_history(tool, leaves, decision)
        return decision

    def _add_to_history(self, tool: str, leaves: list[Leaf], decision: Decision) -> None:
        told = leaves
        for leaf in leaves:
            if len(leaf[1]) > _MAX_REMEMBERED:
                told = [Leaf(leaf.argument, leaf.text[:_MAX_REMEMBERED]) for leaf in leaves[:_MAX_LEAVES]]
                break
        # Appending to a deque is one step to every other thread.
        self._calls.append((tool, told, decision))
        for watcher in self._watchers:
            watcher.on_ruled(tool, leaves, decision)

    def _count_ruling(self, tool: str, decision: Decision) -> Decision:
        if decision.tier > 1:
            self._log_ruling(decision)
        if self.gate.ledger is not None:
            with self._lock:
                self._count += 1
                number = self._count
            # A ledger that breaks its promise costs a count, not the ruling.
            with suppress(Exception):
                self.gate.ledger.note(self.id, number, tool, decision)
        return decision

    def _log_ruling(self, decision: Decision) -> None:
        if decision.action is Action.REORIENT:
            with self._lock:
                self._reorients += 1
        elif decision.action is Action.CONTINUE and decision.reason not in (
            *_CLEARING_REASONS,
            Reason.JOURNAL_UNAVAILABLE,
        ):
            # Nobody cleared it, and it runs all the same: the policy says so, and the log says that it did.
            from logging import getLogger

            rules = ",".join(dict.fromkeys(printable(found.rule) for found in decision.findings)) or "none"
            getLogger("lockgate.gate").warning(
                "no judge answered, the policy continues: session=%s risk=%s reason=%s rules=%s",
                printable(self.id),
                decision.risk.value,
                decision.reason.value,
                rules,
            )

    def _rule_escalated(self, ask: Ask, *, judged: bool = True) -> Generator[_Work, object, SettledRuling]:
        """Steps 6 to 8 for an escalated call; a person who was asked about this very call comes before any model."""
        if self._approvals_stale:
            yield self._store_work(self.void_approvals)
        bound, unfit = self._bind_call(ask.call), ""
        if bound is not None:
            answer = yield self._store_work(partial(self._approvals.take, bound, time()))
            person = _person_answer(ask, answer)
            if person is not None:
                again = (yield from self._ask_person(bound, person.decision)) if person.again else person.decision
                return SettledRuling(again, person.who)
            unfit = _why_unusable(answer)
        elif self._person_asked and (yield from self._has_denial()):
            return SettledRuling(
                Decision(Action.PAUSE, 3, Reason.DENIED, ask.risk, _CANNOT_COMPARE, ask.findings, ask.origins)
            )
        ran: list[Ran] = []
        ruling: Decision | Ask = ask
        while isinstance(ruling, Ask):
            judge = self.gate.supervisor if ruling.stage is Stage.SUPERVISOR else self.gate.triage
            opinion: Opinion | None = None
            if judge is not None and judged:
                opinion, took = yield from self._ask_judge(judge, ruling)
                ran.append(took)
            ruling = pipeline.resume(ruling, opinion, self.policy, reorients=self._reorients)
        decision = ruling._replace(judged=tuple(ran)) if ran else ruling
        if decision.action is Action.CONTINUE and bound is not None and self._person_asked:
            # A person may have said no while the judges thought.
            person = _person_answer(ask, (yield self._store_work(partial(self._approvals.take, bound, time()))))
            if person is not None and person.decision.action is not Action.CONTINUE:
                return SettledRuling(person.decision._replace(judged=tuple(ran)))
        if decision.action is Action.PAUSE and bound is not None:
            if unfit:
                decision = decision._replace(explanation=f"{decision.explanation}; {unfit}")
            # Anew: the context may have grown while the judges thought.
            bound = self._bind_call(ask.call)
            if bound is not None:
                decision = yield from self._ask_person(bound, decision)
        return SettledRuling(decision)

    @property
    def _approvals(self) -> Approvals:
        assert self.gate.approvals is not None  # noqa: S101
        return self.gate.approvals

    def _check_denials(self, call: ToolCall, ruling: Decision) -> Generator[_Work, object, SettledRuling]:
        """A call that the rules let pass, in a session in which a person has been asked: a no to it stands."""
        if not (yield from self._has_denial()):
            return SettledRuling(ruling)
        bound = self._bind_call(call)
        if bound is None:
            held = ruling._replace(action=Action.PAUSE, tier=3, reason=Reason.DENIED, explanation=_CANNOT_COMPARE)
            return SettledRuling(held)
        from lockgate.core.ruling.approvals import ApprovalState, TakeResult

        answer = yield self._store_work(partial(self._approvals.take, bound, time()))
        if isinstance(answer, TakeResult) and answer.state not in (ApprovalState.DENIED, ApprovalState.GRANTED):
            return SettledRuling(ruling)
        person = _person_answer(Ask(call, ruling.risk, ruling.reason, ruling.findings, ruling.origins), answer)
        return SettledRuling(ruling) if person is None else SettledRuling(person.decision, person.who)

    def _has_denial(self) -> Generator[_Work, object, bool]:
        """Whether a person has said no to anything here; the store is asked each time until one has."""
        if not self._person_denied:
            answer = yield self._store_work(partial(self._approvals.denies, self.id))
            if not isinstance(answer, bool):
                # A store that cannot say may hold one.
                return True
            self._person_denied = answer
        return self._person_denied

    def _bind_call(self, call: ToolCall) -> BoundCall | None:
        """The call as a person's answer would be bound to it; None where nobody can be asked about it."""
        if self.gate.approvals is None:
            return None
        from lockgate.core.ruling.approvals import bind_call

        try:
            return bind_call(self.id, call.tool, call.arguments, self.policy.hash, self._untrusted_sha256)
        except InvalidCall:
            return None

    def _ask_person(self, bound: BoundCall, decision: Decision) -> Generator[_Work, object, Decision]:
        """Put a PAUSE to a person: the ruling with the id of the question, if it could be stored."""
        from lockgate.core.ruling.approvals import PendingApproval, details_from_decision

        with self._lock:
            contents = {block.id: block.content for block in self._context.blocks}
            self._approval_open = self._person_asked = True
        now = time()
        shown = details_from_decision(decision, contents, goal=self.goal)
        pending = PendingApproval(urandom(8).hex(), bound, now, now + self.gate.human_timeout_s, shown)
        asked = yield self._store_work(partial(self._approvals.ask, pending))
        if isinstance(asked, str) and asked:
            return decision._replace(approval=asked)
        why = "too many calls wait for a person already" if asked == "" else "the question to a person was not stored"
        return decision._replace(explanation=f"{decision.explanation}; {why}")

    @staticmethod
    def _store_work(work: Callable[[], object]) -> _Work:
        async def elsewhere() -> object:
            # A store waits for its disk and its locks: not on the caller's loop.
            from asyncio import to_thread

            return await to_thread(work)

        return _Work(work, elsewhere)

    def _ask_judge(self, judge: Judge, ask: Ask) -> Generator[_Work, object, tuple[Opinion, Ran]]:
        """One judge's opinion, from the answers of the last minutes where the very same was asked before."""
        from lockgate.core.judging.case import take_snapshot

        top = ask.stage is Stage.SUPERVISOR
        # Putting the question together is part of what asking costs.
        began = perf_counter_ns()
        with self._lock:
            seen, history = take_snapshot(self._context), self._history_for_supervisor(ask) if top else ()
        # Outside the lock, and off a caller's loop: large texts take a while to clean and to cut.
        reads = getattr(judge, "reads_evidence", False) is True
        inquiry = yield self._store_work(
            partial(_build_inquiry, ask, seen, self.policy, goal=self.goal, history=history, reads=reads)
        )
        if not isinstance(inquiry, Inquiry):
            return _NO_ANSWER.opinion, Ran(3 if top else 2, "unclear", judge.name, (perf_counter_ns() - began) / 1000)
        key = sha256(repr((judge.name, self.policy.hash, inquiry)).encode("utf-8", "backslashreplace")).hexdigest()
        opined = self._cached_answer(key)
        cached = opined is not None
        if opined is None:
            with self._lock:
                asked = self._asking.get(key)
                mine = asked is None
                if asked is None:
                    asked = self._asking[key] = Future()
            if mine:
                opined = yield from self._put_question(judge, inquiry, key, asked)
            else:
                # Somebody is asking the very same: one answer serves both.
                answer = yield _Work(asked.result, partial(_wait_for_answer, asked))
                opined, cached = answer if isinstance(answer, Opined) else _NO_ANSWER, True
        if inquiry.case.truncated and isinstance(opined.opinion, Triage):
            # Who saw only parts of it clears nobody, whoever they are.
            opined = opined._replace(opinion=Triage(suspicious=True))
        tokens_in, tokens_out = (0, 0) if cached else (opined.tokens_in, opined.tokens_out)
        cost = 0.0 if cached else self._price_of(judge.name, tokens_in, tokens_out)
        ran = Ran(
            3 if top else 2,
            _word_for_opinion(opined.opinion),
            judge.name,
            (perf_counter_ns() - began) / 1000,
            tokens_in,
            tokens_out,
            cost,
            cached,
        )
        return opined.opinion, ran

    def _put_question(
        self, judge: Judge, inquiry: Inquiry, key: str, asked: Future[Opined]
    ) -> Generator[_Work, object, Opined]:
        opined = _NO_ANSWER
        try:
            answer = yield _Work(partial(judge.opine, inquiry), partial(judge.opine_async, inquiry))
            opined = _validate_answer(answer)
            self._cache_answer(key, opined)
            return opined
        finally:
            # Also when the caller went away: whoever waits for the same answer must not wait for ever.
            with self._lock:
                self._asking.pop(key, None)
            asked.set_result(opined)

    def _price_of(self, name: str, tokens_in: int, tokens_out: int) -> float | None:
        if self.gate.prices is None:
            return None
        try:
            return self.gate.prices(name, tokens_in, tokens_out)
        except Exception:  # noqa: BLE001  # a price that cannot be had is not known
            return None

    def _history_for_supervisor(self, ask: Ask) -> tuple[PastCall, ...]:
        """What the supervisor is told of earlier calls.

        The same call, held and asked again, is no news and no new question; one that ran before is both.
        """
        again = (ask.call.tool, _argument_values(pipeline.flatten_arguments(ask.call.arguments)[0]))
        return tuple(
            past
            for past in _past_calls(tuple(self._calls))
            if past[:2] != again or past.action == Action.CONTINUE.value
        )

    def _cached_answer(self, key: str) -> Opined | None:
        with self._lock:
            until, opined = self._answers.get(key, (0.0, None))
            return opined if monotonic() < until else None

    def _cache_answer(self, key: str, opined: Opined) -> None:
        # What a judge could not say it may say the next time.
        if isinstance(opined.opinion, Triage | Ruling):
            with self._lock:
                self._answers[key] = (monotonic() + ANSWER_LIFE_S, opined)
                self._answers.move_to_end(key)
                while len(self._answers) > _MAX_ANSWERS:
                    self._answers.popitem(last=False)


def _build_inquiry(
    ask: Ask, seen: ContextSnapshot, policy: Policy, *, goal: str, history: Sequence[PastCall], reads: bool
) -> Inquiry:
    from lockgate.core.judging.case import build_case

    evidence = None
    if reads:
        from lockgate.core.judging.evidence import collect_evidence

        evidence = collect_evidence(ask, seen, goal)
    return Inquiry(ask.stage, build_case(ask, seen, policy, goal=goal, history=history), evidence)


def _validate_answer(answer: object) -> Opined:
    """What a judge said, if it is of the promised shape in every part; else it did not answer."""
    if not isinstance(answer, Opined):
        return _NO_ANSWER
    opinion, tokens_in, tokens_out = answer
    if type(tokens_in) is not int or type(tokens_out) is not int:
        return _NO_ANSWER
    said: object = opinion  # whatever the judge's author says it is
    match said:
        case Triage(suspicious=bool()) | Ruling(action=Action(), correction=str()) | Unreadable() | Silent(why=str()):
            return answer
    return _NO_ANSWER


async def _wait_for_answer(asked: Future[Opined]) -> Opined:
    from asyncio import shield, wrap_future

    # One caller who goes away must not take the answer with it.
    return await shield(wrap_future(asked))


def _copy_arguments(value: object) -> dict[str, object]:
    """Arguments in objects of our own; `leaves_of` has seen them all, so nothing here is too deep or too many."""

    def copy(item: object) -> object:
        if isinstance(item, str):
            return item
        if isinstance(item, Mapping):
            return {key: copy(inner) for key, inner in item.items()}
        return [copy(inner) for inner in item] if isinstance(item, list | tuple) else item

    held = copy(value)
    return held if isinstance(held, dict) else {}


class PersonAnswer(NamedTuple):
    """What follows from a person's part in a call; `again` when they have to be asked about it anew.

    `who` is whose yes it is.
    """

    decision: Decision
    again: bool = False
    who: str = ""


def _person_answer(ask: Ask, answer: object) -> PersonAnswer | None:
    """What a person has said of this call; None when nobody has been asked about it, or their yes has been used."""
    from lockgate.core.ruling.approvals import ApprovalState, TakeResult

    def ruled(action: Action, reason: Reason, why: str, id: str = "") -> Decision:
        return Decision(action, 3, reason, ask.risk, why, ask.findings, ask.origins, approval=id)

    if not isinstance(answer, TakeResult):
        # A no may stand there that cannot be read: no model may speak in its place.
        why = f": {printable(answer.message, 300)}" if isinstance(answer, JournalUnavailable) else ""
        return PersonAnswer(ruled(Action.PAUSE, ask.reason, f"the approvals cannot be read{why}, so this call pauses"))
    who = quoted(answer.answered.who) if answer.answered is not None else "a person"
    match answer.state:
        case ApprovalState.GRANTED:
            said = answer.answered.who if answer.answered is not None else ""
            yes = ruled(Action.CONTINUE, Reason.APPROVED, f"{who} approved this call", answer.id)
            return PersonAnswer(yes, who=said)
        case ApprovalState.DENIED:
            return PersonAnswer(ruled(Action.PAUSE, Reason.DENIED, f"{who} denied this call", answer.id))
        case ApprovalState.WAITING:
            return PersonAnswer(ruled(Action.PAUSE, ask.reason, "this call waits for a person", answer.id))
        case ApprovalState.EXPIRED:
            why = "nobody answered in time, which is a no; a person is asked again"
            return PersonAnswer(ruled(Action.PAUSE, Reason.DENIED, why), again=True)
        case ApprovalState.VOIDED:
            other = " and ".join(answer.differs) or "context"
            why = f"a person was asked about this call with another {other}, and is asked again"
            return PersonAnswer(ruled(Action.PAUSE, ask.reason, why), again=True)
    return None


def _why_unusable(answer: object) -> str:
    """NoAnswerReason a person's yes does not fit this call, where there is or was one."""
    from lockgate.core.ruling.approvals import ApprovalState, TakeResult

    if not isinstance(answer, TakeResult):
        return ""
    if answer.state is ApprovalState.USED:
        return "a person approved this call once, and that has been used"
    if answer.differs:
        return f"a person approved a call with another {' and '.join(answer.differs)}"
    return ""


def _is_tier1_pass(decision: Decision) -> bool:
    return decision.tier == 1 and decision.action is Action.CONTINUE and decision.reason in _CALL_PASSES


def _with_latency(ruling: Decision, began: int) -> Decision:
    """The ruling with the time it took: the pure pipeline has no clock. Recording it is not part of ruling."""
    return tuple.__new__(Decision, (*ruling[:-2], (perf_counter_ns() - began) / 1000, None))


def _run_ruling(ruling: Generator[_Work, object, Decision]) -> Decision:
    try:
        work = next(ruling)
        while True:
            try:
                got = work.run()
            except Exception as error:  # noqa: BLE001  # a part that fails is a part that did not answer
                got = error
            work = ruling.send(got)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    finally:
        ruling.close()


async def _run_ruling_async(ruling: Generator[_Work, object, Decision]) -> Decision:
    try:
        work = next(ruling)
        while True:
            try:
                got = await work.run_async()
            except Exception as error:  # noqa: BLE001  # as above; a caller's cancellation is no Exception
                got = error
            work = ruling.send(got)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    finally:
        ruling.close()


def _word_for_opinion(opinion: Opinion) -> str:
    if isinstance(opinion, Triage):
        return "suspicious" if opinion.suspicious else "clear"
    return opinion.action.value if isinstance(opinion, Ruling) else "unclear"


def _argument_values(leaves: Iterable[Leaf]) -> tuple[tuple[str, str], ...]:
    return tuple((leaf.argument, leaf.text[:_MAX_REMEMBERED]) for leaf in leaves)


def _past_calls(calls: Iterable[tuple[str, Sequence[Leaf], Decision]]) -> tuple[PastCall, ...]:
    return tuple(
        PastCall(tool, _argument_values(leaves), decision.action.value, decision.tier, decision.reason.value)
        for tool, leaves, decision in calls
    )


def _parse_block_request(
    content: object,
    source: object,
    trust: str | Trust | None,
    kind: str | Kind | None,
    mutable: object,
    tainted_by: Sequence[str | Block],
    id: object,
) -> tuple[Trust | None, Kind | None, list[str]]:
    """What a block was asked to be, in our own words; InvalidBlock for what none can be."""
    if not isinstance(content, str):
        raise InvalidBlock(f"content must be text, not {type(content).__name__}", hint="decode bytes first")
    if not source or not isinstance(source, str):
        raise InvalidBlock("a block needs a source", hint='say where it came from, e.g. source="tool:read_inbox"')
    if id is not None and not isinstance(id, str):
        raise InvalidBlock(f"a block's id must be text, not {type(id).__name__}")
    if mutable is not None and not isinstance(mutable, bool):
        raise InvalidBlock(f"mutable must be true or false, not {type(mutable).__name__}")
    if isinstance(tainted_by, str) or not isinstance(tainted_by, Sequence):
        raise InvalidBlock("tainted_by must be a list of block ids", hint="tainted_by=[block] or [block.id]")
    level = _parse_trust(trust)
    sort = None if kind is None else _parse_kind(kind)
    return level, sort, [parent.id if isinstance(parent, Block) else parent for parent in tainted_by]


def _parse_trust(value: str | Trust | None) -> Trust | None:
    if value is None or isinstance(value, Trust):
        return value
    try:
        return Trust[value.upper()]
    except (KeyError, AttributeError):
        raise InvalidBlock(f"unknown trust {quoted(value)}", hint="use trusted, vetted or untrusted") from None


def _parse_kind(value: str | Kind) -> Kind:
    try:
        return Kind(value)
    except ValueError:
        raise InvalidBlock(f"unknown kind {quoted(value)}", hint="use instruction or data") from None


def _parse_mode(value: str | Mode) -> Mode:
    try:
        return Mode(value)
    except ValueError:
        raise InvalidCall(f"unknown mode {quoted(value)}", hint="use default, paranoid or research") from None
