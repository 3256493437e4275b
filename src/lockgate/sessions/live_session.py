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
from lockgate.core.sessions.session_entries import BLOCKS, Row, SessionInfo, Sort, decoded, kept_of
from lockgate.core.vocabulary import Decision, ToolCall, Trust
from lockgate.gate.gate import Session

if TYPE_CHECKING:
    from lockgate.gate.supervised_step import Step, Watcher

# A ruling that was not on a call of the agent's, as the end of a step is.
NO_CALL = b"step"
MAX_STEPS = 1_000


class Live:
    """A session as far as it has been read. `lock` is held while it catches up; `cursor` is the last `seq` taken in."""

    def __init__(self, info: SessionInfo, session: Session, chain: tuple[int, ...]) -> None:
        self.id = info.id
        self.host = info.host
        self.session = session
        # This session, and those it is inside of; the blocks of the second are `p.b0001` here, and so on.
        self.chain = chain
        # The ids of those.
        self.above: tuple[str, ...] = ()
        self._depth = {number: depth for depth, number in enumerate(chain)}
        self.lock = Lock()
        self.cursor = 0
        # The store's stamp from before it was last read.
        self.stamp = b""
        self.size = 0
        # The sessions of the chain whose context is not known; 0 where something kept cannot be read.
        self.unknown: set[int] = set()
        # Rulings made here that are still to be read.
        self.mine: set[str] = set()
        # Whether a person may have been asked since the last question was voided.
        self.waits = info.asked
        # When it was last asked for, by the steady clock; held while somebody keeps that its context is not known.
        self.used = 0.0
        self.settling = Lock()
        # It has to be built anew.
        self.outdated = False
        # Whether it has become larger since anybody looked whether there is room.
        self.grown = True
        self.kept_blocks = info.blocks
        self.kept_size = info.size
        self.steps: dict[str, Step] = {}
        # What became of the latest entries about steps: the step, or why there is none.
        self.begun: dict[int, Step | LockgateError] = {}
        # What a step of this session runs in; whoever hosts it makes sure that it catches up.
        self.run: HostedRun | None = None

    def catch_up(self, rows: Sequence[Row]) -> None:
        for row in rows:
            try:
                self._take_in(row)
            except (ValueError, TypeError, KeyError, LockgateError):
                # Not what was kept: whatever it was, the agent may have read it.
                self.unknown.add(0)
            self.cursor = row.seq

    def _take_in(self, row: Row) -> None:
        if row.sort in BLOCKS:
            self._take_block(row)
        elif row.sort == Sort.RULING:
            if row.id in self.mine:
                self.mine.discard(row.id)
                return
            kept = kept_of(row, self.id, self.host)
            self.session.remember(kept.tool, kept.arguments, kept.decision, called=row.content != NO_CALL)
            self.waits = self.waits or bool(kept.decision.approval)
        elif row.sort == Sort.MARK:
            if row.detail != "known":
                self.unknown.add(row.session)
            else:
                self.unknown -= {row.session, *((0,) if row.session == self.chain[0] else ())}
        elif row.sort == Sort.MODE:
            # Another policy rules from here on.
            self.outdated = True
        elif row.session == self.chain[0]:
            self._take_step(row)

    def _take_block(self, row: Row) -> None:
        content = decoded(row.content)
        self.size, self.grown = self.size + len(content), True
        above = "p." * self._depth[row.session]
        name = f"{above}b{row.n:04d}"
        if row.sort == Sort.GOAL:
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

    def _take_step(self, row: Row) -> None:
        what, *told = loads(row.detail)
        done: Step | LockgateError
        try:
            if what == "begin":
                done = self._begin(*told)
                self.steps[done.name] = done
            else:
                done = self.step(told[0])
                if what == "commit":
                    done.commit(told[1])
                elif what == "abandon":
                    done.abandon()
                else:
                    done.stands(told[1])
        except (InvalidCall, InvalidConfig) as error:
            done = error
        self.begun[row.seq] = done
        while len(self.begun) > 64:
            del self.begun[next(iter(self.begun))]

    def _begin(self, goal: str, supervision: str | None, parent: str) -> Step:
        from lockgate.gate.supervised_step import Step

        if len(self.steps) >= MAX_STEPS:
            raise InvalidCall(f"a session has at most {MAX_STEPS:,} steps", hint="start a new session")
        if self.run is None:
            raise InvalidCall("this session takes no steps")
        above = self.step(parent) if parent else None
        name = str(1 + sum("." not in each for each in self.steps))
        return Step(self.run, goal, supervision=supervision, parent=above, name=name)


class HostedRun:
    """A session as its steps see it: after each ruling on a step it hears of what others did meanwhile."""

    def __init__(self, session: Session, catch_up: Callable[[], object]) -> None:
        self._session = session
        self._catch_up = catch_up

    @property
    def policy(self) -> Policy:
        return self._session.policy

    @property
    def reaches_a_person(self) -> bool:
        return self._session.reaches_a_person

    def check(
        self, tool: str, arguments: Mapping[str, object], *, annotations: Mapping[str, object] | None = None
    ) -> Decision:
        return self._session.check(tool, arguments, annotations=annotations)

    async def check_async(
        self, tool: str, arguments: Mapping[str, object], *, annotations: Mapping[str, object] | None = None
    ) -> Decision:
        return await self._session.check_async(tool, arguments, annotations=annotations)

    def watch(self, watcher: Watcher) -> Callable[[], None]:
        return self._session.watch(watcher)

    def rule(self, ask: Ask, *, judged: bool = True) -> Decision:
        ruling = self._session.rule(ask, judged=judged)
        self._catch_up()
        return ruling

    async def rule_async(self, ask: Ask, *, judged: bool = True) -> Decision:
        from asyncio import to_thread

        ruling = await self._session.rule_async(ask, judged=judged)
        await to_thread(self._catch_up)
        return ruling

    def enter(self, call: ToolCall, ruling: Decision) -> Decision:
        entered = self._session.enter(call, ruling)
        self._catch_up()
        return entered

    async def enter_async(self, call: ToolCall, ruling: Decision) -> Decision:
        from asyncio import to_thread

        entered = await self._session.enter_async(call, ruling)
        await to_thread(self._catch_up)
        return entered
