"""One session in memory, made of the entries that the store has of it, in their order.

Two processes that have applied the same entries have the same context, history and steps: there is no other way in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from json import loads
from threading import Lock
from typing import TYPE_CHECKING

from lockgate.core.errors import InvalidBlock, InvalidCall, InvalidConfig, LockgateError, quoted
from lockgate.core.ruling.context import CarriedFrom
from lockgate.core.ruling.effects.project import NO_PROJECT
from lockgate.core.ruling.pipeline import EscalatedCall
from lockgate.core.ruling.policy import Policy
from lockgate.core.vocabulary import Decision, ToolCall, Trust
from lockgate.gate.ruler import Ruler
from lockgate.sessions.session_entries import (
    BLOCKS,
    EntrySort,
    SessionInfo,
    SessionRow,
    decode_text,
    project_from_json,
    ruling_from_row,
)

if TYPE_CHECKING:
    from lockgate.gate.supervised_step import CallWatcher, Step

# The content of a ruling that was not on a call of the agent: the end of a step.
NO_CALL = b"step"
MAX_STEPS = 1_000
# This key in a session's meta: the account whose hook opened the session. It is there from the start, or never.
OPENER_ACCOUNT = "account"
# This key in a session's meta: a client other than a plug opened the session.
OPENED_BY = "opened"
_MAX_STEP_RESULTS = 64


class LiveSession:
    """A session as far as it has been read. `lock` is held while it catches up; `cursor` is the last `seq` applied."""

    def __init__(self, info: SessionInfo, ruler: Ruler, chain: tuple[int, ...]) -> None:
        self.id = info.id
        self.host = info.host
        self.ruler = ruler
        # This session, and those it is inside of. The blocks of the second are `p.b0001` here, and so on.
        self.chain = chain
        self.parent_ids: tuple[str, ...] = ()
        # The accounts whose hooks opened these sessions.
        self.openers: tuple[str, ...] = ()
        self._depth = {number: depth for depth, number in enumerate(chain)}
        self.lock = Lock()
        self.cursor = 0
        self.size = 0
        # The sessions of the chain that have an unknown context; 0 where an entry cannot be read.
        self.unknown_context: set[int] = set()
        # Rulings made in this process that are still to be read back.
        self.own_rulings: set[str] = set()
        # Whether a person may have been asked since the last question was voided.
        self.approval_open = info.asked
        # When it was last asked for, by the steady clock.
        self.used = 0.0
        # Held by the thread that keeps that the context is unknown.
        self.settling = Lock()
        # Whether it has to be built anew.
        self.is_outdated = False
        # Whether it has become larger since the cache last made room.
        self.has_grown = True
        self.kept_blocks = info.blocks
        self.kept_size = info.size
        self.steps: dict[str, Step] = {}
        # By `seq`, the step that the latest entries about steps led to, or their error.
        self.step_results: dict[int, Step | LockgateError] = {}
        # What a step of this session runs in; the cache sets it.
        self.steps_session: HostedSession | None = None

    def apply(self, rows: Sequence[SessionRow]) -> None:
        """Apply entries in their order; the caller holds `lock`."""
        for row in rows:
            try:
                self._apply(row)
            except (ValueError, TypeError, KeyError, LockgateError):
                # A damaged entry: the agent may have read what it said.
                self.unknown_context.add(0)
            self.cursor = row.seq

    def _apply(self, row: SessionRow) -> None:
        if row.sort in BLOCKS:
            self._apply_block(row)
        elif row.sort == EntrySort.RULING:
            if row.id in self.own_rulings:
                self.own_rulings.discard(row.id)
                return
            kept = ruling_from_row(row, self.id, self.host)
            self.ruler.remember_ruling(kept.tool, kept.arguments, kept.decision, called=row.content != NO_CALL)
            self.approval_open = self.approval_open or bool(kept.decision.approval)
        elif row.sort == EntrySort.MARK:
            if row.detail != "known":
                self.unknown_context.add(row.session)
            else:
                self.unknown_context -= {row.session, *((0,) if row.session == self.chain[0] else ())}
        elif row.sort == EntrySort.MODE:
            # Another policy rules from here on.
            self.is_outdated = True
        elif row.sort == EntrySort.PROJECT:
            if self.ruler.project == NO_PROJECT:
                self.ruler.project = project_from_json(row.content)
        elif row.session == self.chain[0]:
            self._apply_step(row)

    def _apply_block(self, row: SessionRow) -> None:
        content = decode_text(row.content)
        self.size, self.has_grown = self.size + len(content), True
        prefix = "p." * self._depth[row.session]
        name = f"{prefix}b{row.n:04d}"
        if row.sort == EntrySort.GOAL:
            if self.ruler.goal:
                self.ruler.add(content, source="user", id=name, voids=False)
            else:
                self.ruler.goal = content
                self.ruler.add(content, source="goal", id="goal", voids=False)
            return
        source, trust, kind, parents, *carried = loads(row.detail)
        # Looked up by the process that stored the block, so that all others have the same context.
        carried_from = CarriedFrom(*carried[0]) if carried else None
        try:
            self.ruler.add(
                content,
                source=source,
                trust=trust,
                kind=kind,
                tainted_by=[each if each == "goal" else f"{prefix}{each}" for each in parents],
                id=name,
                voids=False,
                carried=carried_from,
            )
        except InvalidBlock:
            # Valid when it was kept, but not under the policy of today: then it has the lowest trust.
            self.ruler.add(content, source=source, trust=Trust.UNTRUSTED, id=name, voids=False, carried=carried_from)

    # Steps. An entry about a step has the same effect, an error included, wherever it is applied.

    def step(self, name: str) -> Step:
        """Return the step of this name; raise InvalidCall where there is none."""
        if name not in self.steps:
            raise InvalidCall(f"no step {quoted(name)} in this session", hint="begin one first")
        return self.steps[name]

    def _apply_step(self, row: SessionRow) -> None:
        what, *detail = loads(row.detail)
        result: Step | LockgateError
        try:
            if what == "begin":
                result = self._begin_step(*detail)
                self.steps[result.name] = result
            else:
                result = self.step(detail[0])
                if what == "commit":
                    result.commit(detail[1])
                elif what == "abandon":
                    result.abandon()
                else:
                    result.restore_state(detail[1])
        except (InvalidCall, InvalidConfig) as error:
            result = error
        self.step_results[row.seq] = result
        while len(self.step_results) > _MAX_STEP_RESULTS:
            del self.step_results[next(iter(self.step_results))]

    def _begin_step(self, goal: str, supervision: str | None, parent: str) -> Step:
        from lockgate.gate.supervised_step import Step

        if len(self.steps) >= MAX_STEPS:
            raise InvalidCall(f"a session has at most {MAX_STEPS:,} steps", hint="start a new session")
        if self.steps_session is None:
            raise InvalidCall("this session takes no steps")
        above = self.step(parent) if parent else None
        name = str(1 + sum("." not in each for each in self.steps))
        return Step(self.steps_session, goal, supervision=supervision, parent=above, name=name)


class HostedSession:
    """A hosted session as its steps see it: after each ruling on a step, it applies what other processes did."""

    def __init__(self, ruler: Ruler, catch_up: Callable[[], object]) -> None:
        self._ruler = ruler
        self._catch_up = catch_up

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        return self._ruler.policy

    @property
    def can_reach_person(self) -> bool:
        """Whether a PAUSE can be answered at all."""
        return self._ruler.can_reach_person

    def check(self, call: ToolCall) -> Decision:
        """Rule on one call; the caller catches up."""
        return self._ruler.check(call)

    async def check_async(self, call: ToolCall) -> Decision:
        """Do the same for a caller on an event loop."""
        return await self._ruler.check_async(call)

    def watch_calls(self, watcher: CallWatcher) -> Callable[[], None]:
        """Tell the watcher of each call until the returned function is called."""
        return self._ruler.watch_calls(watcher)

    def rule_on(self, ask: EscalatedCall, *, judged: bool = True) -> Decision:
        """Rule on a question that did not begin as a call, then catch up."""
        ruling = self._ruler.rule_on(ask, judged=judged)
        self._catch_up()
        return ruling

    async def rule_on_async(self, ask: EscalatedCall, *, judged: bool = True) -> Decision:
        """Do the same for a caller on an event loop."""
        from asyncio import to_thread

        ruling = await self._ruler.rule_on_async(ask, judged=judged)
        await to_thread(self._catch_up)
        return ruling

    def record_ruling(self, call: ToolCall, ruling: Decision) -> Decision:
        """Record a ruling that a step made itself, then catch up; return what holds."""
        recorded = self._ruler.record_ruling(call, ruling)
        self._catch_up()
        return recorded

    async def record_ruling_async(self, call: ToolCall, ruling: Decision) -> Decision:
        """Do the same for a caller on an event loop."""
        from asyncio import to_thread

        recorded = await self._ruler.record_ruling_async(call, ruling)
        await to_thread(self._catch_up)
        return recorded
