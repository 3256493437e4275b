"""One session in memory, made of the entries that are kept of it, in their order.

Whoever has taken in the same entries has the same context, history and steps: nothing gets in by another way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from json import loads
from threading import Lock
from typing import TYPE_CHECKING

from lockgate.core.errors import InvalidBlock, InvalidCall, InvalidConfig, LockgateError, quoted
from lockgate.core.ruling.pipeline import Ask
from lockgate.core.ruling.policy import Policy
from lockgate.core.ruling.tool_call import ToolCall
from lockgate.core.sessions.session_entries import (
    BLOCKS,
    EntrySort,
    SessionInfo,
    SessionRow,
    decode_text,
    ruling_from_row,
)
from lockgate.core.vocabulary import Decision, Trust
from lockgate.gate.gate import Session

if TYPE_CHECKING:
    from lockgate.gate.supervised_step import CallWatcher, Step

# A ruling that was not on a call of the agent's, as the end of a step is.
NO_CALL = b"step"
MAX_STEPS = 1_000


class LiveSession:
    """A session as far as it has been read. `lock` is held while it catches up; `cursor` is the last `seq` taken in."""

    def __init__(self, info: SessionInfo, session: Session, chain: tuple[int, ...]) -> None:
        self.id = info.id
        self.host = info.host
        self.session = session
        # This session, and those it is inside of; the blocks of the second are `p.b0001` here, and so on.
        self.chain = chain
        # The ids of those.
        self.parent_ids: tuple[str, ...] = ()
        self._depth = {number: depth for depth, number in enumerate(chain)}
        self.lock = Lock()
        self.cursor = 0
        self.size = 0
        # The sessions of the chain whose context is not known; 0 where something kept cannot be read.
        self.unknown_context: set[int] = set()
        # Rulings made here that are still to be read.
        self.own_rulings: set[str] = set()
        # Whether a person may have been asked since the last question was voided.
        self.approval_open = info.asked
        # When it was last asked for, by the steady clock; held while somebody keeps that its context is not known.
        self.used = 0.0
        self.settling = Lock()
        # It has to be built anew.
        self.is_outdated = False
        # Whether it has become larger since anybody looked whether there is room.
        self.has_grown = True
        self.kept_blocks = info.blocks
        self.kept_size = info.size
        self.steps: dict[str, Step] = {}
        # What became of the latest entries about steps: the step, or why there is none.
        self.step_results: dict[int, Step | LockgateError] = {}
        # What a step of this session runs in; whoever hosts it makes sure that it catches up.
        self.run: HostedSession | None = None

    def catch_up(self, rows: Sequence[SessionRow]) -> None:
        for row in rows:
            try:
                self._apply(row)
            except (ValueError, TypeError, KeyError, LockgateError):
                # Not what was kept: whatever it was, the agent may have read it.
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
            self.session.remember_ruling(kept.tool, kept.arguments, kept.decision, called=row.content != NO_CALL)
            self.approval_open = self.approval_open or bool(kept.decision.approval)
        elif row.sort == EntrySort.MARK:
            if row.detail != "known":
                self.unknown_context.add(row.session)
            else:
                self.unknown_context -= {row.session, *((0,) if row.session == self.chain[0] else ())}
        elif row.sort == EntrySort.MODE:
            # Another policy rules from here on.
            self.is_outdated = True
        elif row.session == self.chain[0]:
            self._apply_step(row)

    def _apply_block(self, row: SessionRow) -> None:
        content = decode_text(row.content)
        self.size, self.has_grown = self.size + len(content), True
        above = "p." * self._depth[row.session]
        name = f"{above}b{row.n:04d}"
        if row.sort == EntrySort.GOAL:
            if self.session.goal:
                self.session.add(content, source="user", id=name, voids=False)
            else:
                self.session.goal = content
                self.session.add(content, source="goal", id="goal", voids=False)
            return
        source, trust, kind, parents = loads(row.detail)
        try:
            self.session.add(
                content,
                source=source,
                trust=trust,
                kind=kind,
                tainted_by=[each if each == "goal" else f"{above}{each}" for each in parents],
                id=name,
                voids=False,
            )
        except InvalidBlock:
            # Fit when it was kept, and not under this policy: then it is what is believed least.
            self.session.add(content, source=source, trust=Trust.UNTRUSTED, id=name, voids=False)

    # Steps. What an entry about one does, an error included, it does wherever it is taken in.

    def step(self, name: str) -> Step:
        if name not in self.steps:
            raise InvalidCall(f"no step {quoted(name)} in this session", hint="begin one first")
        return self.steps[name]

    def _apply_step(self, row: SessionRow) -> None:
        what, *told = loads(row.detail)
        done: Step | LockgateError
        try:
            if what == "begin":
                done = self._begin_step(*told)
                self.steps[done.name] = done
            else:
                done = self.step(told[0])
                if what == "commit":
                    done.commit(told[1])
                elif what == "abandon":
                    done.abandon()
                else:
                    done.restore_state(told[1])
        except (InvalidCall, InvalidConfig) as error:
            done = error
        self.step_results[row.seq] = done
        while len(self.step_results) > 64:
            del self.step_results[next(iter(self.step_results))]

    def _begin_step(self, goal: str, supervision: str | None, parent: str) -> Step:
        from lockgate.gate.supervised_step import Step

        if len(self.steps) >= MAX_STEPS:
            raise InvalidCall(f"a session has at most {MAX_STEPS:,} steps", hint="start a new session")
        if self.run is None:
            raise InvalidCall("this session takes no steps")
        above = self.step(parent) if parent else None
        name = str(1 + sum("." not in each for each in self.steps))
        return Step(self.run, goal, supervision=supervision, parent=above, name=name)


class HostedSession:
    """A session as its steps see it: after each ruling on a step it hears of what others did meanwhile."""

    def __init__(self, session: Session, catch_up: Callable[[], object]) -> None:
        self._session = session
        self._catch_up = catch_up

    @property
    def policy(self) -> Policy:
        return self._session.policy

    @property
    def can_reach_person(self) -> bool:
        return self._session.can_reach_person

    def check(
        self, tool: str, arguments: Mapping[str, object], *, annotations: Mapping[str, object] | None = None
    ) -> Decision:
        return self._session.check(tool, arguments, annotations=annotations)

    async def check_async(
        self, tool: str, arguments: Mapping[str, object], *, annotations: Mapping[str, object] | None = None
    ) -> Decision:
        return await self._session.check_async(tool, arguments, annotations=annotations)

    def watch_calls(self, watcher: CallWatcher) -> Callable[[], None]:
        return self._session.watch_calls(watcher)

    def rule_on(self, ask: Ask, *, judged: bool = True) -> Decision:
        ruling = self._session.rule_on(ask, judged=judged)
        self._catch_up()
        return ruling

    async def rule_on_async(self, ask: Ask, *, judged: bool = True) -> Decision:
        from asyncio import to_thread

        ruling = await self._session.rule_on_async(ask, judged=judged)
        await to_thread(self._catch_up)
        return ruling

    def record_ruling(self, call: ToolCall, ruling: Decision) -> Decision:
        entered = self._session.record_ruling(call, ruling)
        self._catch_up()
        return entered

    async def record_ruling_async(self, call: ToolCall, ruling: Decision) -> Decision:
        from asyncio import to_thread

        entered = await self._session.record_ruling_async(call, ruling)
        await to_thread(self._catch_up)
        return entered
