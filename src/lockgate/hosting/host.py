"""Sessions that outlive a process: any host that shares the store can answer for any session.

1. Look.   Before each ruling the host asks the store for what is new in the session, so that what was acknowledged
           anywhere is seen by the next check anywhere. One that is not in memory is built again from what was kept.
2. Rule.   The gate rules as for any session.
3. Keep.   The ruling is kept before it is returned. Where 1 or 3 fails a high-risk call pauses, as for the journal.

A session that nobody opened is one whose context is not known: every high-risk call in it needs a person.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from json import loads
from math import isfinite
from threading import Lock
from time import time
from typing import NamedTuple

from lockgate.core.errors import InvalidBlock, InvalidCall, LockgateError, SessionsUnavailable, printable, quoted
from lockgate.core.kept import (
    MAX_BLOCKS,
    MAX_CONTENT,
    MAX_META,
    MAX_PAGE,
    MAX_SIZE,
    RAN,
    Entry,
    Filter,
    Kept,
    Put,
    Row,
    SessionInfo,
    Sort,
    Stats,
    checked_name,
    encoded,
    kept_of,
    ruled,
    spelled,
    stats_of,
    to_json,
)
from lockgate.core.pipeline import unrecorded
from lockgate.core.supervision import FINISH, assessment_of, commitment_of
from lockgate.core.vocabulary import Action, Block, Decision, Finding, Kind, Lineage, Mode, Reason, ToolCall, Trust
from lockgate.gate import MAX_HISTORY, Gate, Session
from lockgate.hosting.live import NO_CALL, HostedRun, Live
from lockgate.hosting.store import SessionStore
from lockgate.steps import Step

# Sessions that are kept in memory, and the characters of all of them: those used longest ago go first.
MAX_LIVE = 512
MAX_LIVE_SIZE = 128 * 1024 * 1024
# How many sessions a subagent's can be inside of.
MAX_DEPTH = 8
_PRUNE_EVERY_S = 3_600.0
_PRUNED_AT_ONCE = 10
_MAX_UNSURE = 10_000
_MAX_LATER = 64


class Piece(NamedTuple):
    """A piece of context that a host gives back to a session, as for `Host.add`."""

    content: str
    source: str
    trust: str | Trust | None = None
    kind: str | Kind | None = None
    tainted_by: Sequence[str] = ()
    key: str = ""


class StepInfo(NamedTuple):
    """A supervised step as it stands."""

    session: str
    name: str
    goal: str
    supervision: str
    state: str
    commitment: dict[str, object] | None
    triggers: tuple[str, ...] = ()


class _Ruling(NamedTuple):
    """A ruling that is to be kept."""

    id: str
    host: str
    at: float
    key: str
    content: bytes
    tool: str
    arguments: Mapping[str, object]
    annotations: Mapping[str, object] | None
    decision: Decision
    context: int

    def entry(self) -> Entry:
        detail = spelled(self.tool, self.arguments, self.annotations, self.decision, self.context)
        columns = ruled(self.id, self.host, self.tool, self.decision)
        return Entry(Sort.RULING, self.at, self.key, self.content, detail, columns)


class Host:
    """Sessions in a store, ruled on by one gate. Safe for several threads; several hosts may share a store."""

    def __init__(
        self, gate: Gate, store: SessionStore, *, clock: Callable[[], float] = time, keep_days: float = 0
    ) -> None:
        self.gate = gate
        self.store = store
        self._clock = clock
        self._keep_days = keep_days
        self._pruned_at = 0.0
        self._live: OrderedDict[str, Live] = OrderedDict()
        # Sessions that somebody could not add to: whatever that was, the agent may have read it.
        self._unsure: OrderedDict[str, None] = OrderedDict()
        # Rulings that are in the journal and are still to be kept, by their sessions.
        self._later: dict[str, list[_Ruling]] = {}
        self._lock = Lock()

    # Sessions

    def open(
        self,
        session: str = "",
        *,
        goal: str = "",
        host: str = "api",
        mode: str | None = None,
        scope: str = "",
        parent: str = "",
        meta: Mapping[str, str] | None = None,
        known: bool = True,
    ) -> SessionInfo:
        """Make a session, or go on with the one of this id; without an id it gets one.

        A goal for a session that has one already is what its user says next. A subagent's session sees what its
        `parent` reads, and has its goal: what it was told to do is an agent's word. `known` False is for a session
        that began elsewhere.
        """
        id = checked_name(session, "a session's id") if session else f"s{os.urandom(8).hex()}"
        if not isinstance(goal, str):
            raise InvalidBlock(f"a goal must be text, not {type(goal).__name__}")
        if parent:
            checked_name(parent, "a parent's id")
            if parent == id:
                raise InvalidCall("a session cannot be inside itself")
        if mode is not None or scope:
            # Its errors, before anything is kept.
            self.gate.session(mode=mode, scope=scope, id=id, resumed=False)
        told = {str(name): str(value) for name, value in (meta or {}).items()}
        if len(to_json(told)) > MAX_META:
            raise InvalidCall(f"a session's meta must be at most {MAX_META:,} bytes of JSON")
        now = self._clock()
        self._prune_now_and_then(now)
        asked = SessionInfo(
            id=id,
            host=checked_name(host, "a host"),
            mode="" if mode is None else Mode(mode).value,
            scope=scope,
            parent=parent,
            meta=told,
            created_at=now,
            seen_at=now,
            context_known=known,
        )
        info = self.store.make(asked)
        live = self._current(id)
        tighter = bool(asked.mode or scope) and (asked.mode, scope) != (info.mode, info.scope)
        if tighter and (not info.mode or asked.mode == Mode.PARANOID):
            self._put(live, Entry(Sort.MODE, now, detail=to_json((asked.mode, scope))))
        if info.ended_at:
            self.store.end(id, 0.0)
        if goal.strip():
            self._set_goal(live, goal, inside=bool(info.parent))
        found = self.store.session(id)
        return info if found is None else found

    def _set_goal(self, live: Live, goal: str, *, inside: bool) -> None:
        if inside:
            if not any(block.source == "agent:goal" and block.content == goal for block in live.session.blocks):
                self.add(live.id, goal, source="agent:goal")
        elif live.session.goal != goal:
            self._put(live, Entry(Sort.GOAL, self._clock(), content=encoded(goal[:MAX_CONTENT])))
            self._current(live.id)

    def end(self, session: str) -> None:
        """The run is over; one that goes on all the same is not refused."""
        self.store.end(checked_name(session, "a session's id"), self._clock())
        with self._lock:
            self._live.pop(session, None)

    def session(self, id: str) -> SessionInfo | None:
        return self.store.session(id) if _is_name(id) else None

    def sessions(self, *, limit: int = 50, before: int | None = None, q: str = "") -> list[SessionInfo]:
        """The newest first; `before` is the `number` of the last one of the page before."""
        return self.store.sessions(limit=_page(limit), before=before, q=q)

    # Context

    def add(
        self,
        session: str,
        content: str,
        *,
        source: str,
        trust: str | Trust | None = None,
        kind: str | Kind | None = None,
        tainted_by: Sequence[str | Block] = (),
        key: str = "",
    ) -> Block:
        """Take a piece of context in; it is kept when this returns. The same `key` again is the block that is there.

        A text that is longer than the scanner reads is kept as far as that, and counts as one not read to its end.
        Where it cannot be kept the session's context counts as unknown here from then on.
        """
        checked_name(session, "a session's id")
        if key:
            checked_name(key, "a block's key")
        try:
            live = self._current(session)
            asked = Piece(content, source, trust, kind, [_id(each) for each in tainted_by], key)
            (put,) = self._add(live, [asked])
            live = self._current(session)
        except (InvalidBlock, InvalidCall):
            raise
        except BaseException:
            self._miss(session)
            raise
        place = live.session.block(f"b{put.n:04d}") or live.session.block("goal")
        if place is None:
            raise SessionsUnavailable("the block that was kept cannot be read")
        if live.waits and place.trust is Trust.UNTRUSTED and not source.startswith("agent"):
            live.waits = False
            live.session.void()
        return place

    def restore(self, session: str, blocks: Iterable[Piece]) -> SessionInfo:
        """Give a session back what it had read before: from here on its context is known.

        Pieces whose key is there already are not taken in again.
        """
        live = self._current(checked_name(session, "a session's id"))
        pieces = [Piece(*piece) for piece in blocks]
        for piece in pieces:
            if piece.key:
                checked_name(piece.key, "a block's key")
        if pieces:
            self._add(live, pieces)
        self._know(live, known=True)
        with self._lock:
            self._unsure.pop(session, None)
        self._current(session)
        found = self.store.session(session)
        if found is None:
            raise SessionsUnavailable("the session that was kept cannot be read")
        return found

    def _add(self, live: Live, pieces: Sequence[Piece]) -> list[Put]:
        entries = []
        for piece in pieces:
            made = live.session.made(
                piece.content, source=piece.source, trust=piece.trust, kind=piece.kind, tainted_by=piece.tainted_by
            )
            detail = (
                piece.source,
                None if piece.trust is None else made.trust.word if isinstance(piece.trust, Trust) else piece.trust,
                None if piece.kind is None else Kind(piece.kind).value,
                list(piece.tainted_by),
            )
            content = encoded(piece.content[:MAX_CONTENT])
            live.kept_blocks, live.kept_size = live.kept_blocks + 1, live.kept_size + len(content)
            if live.kept_blocks > MAX_BLOCKS or live.kept_size > MAX_SIZE:
                self._know(live, known=False)
                raise InvalidBlock(
                    f"session {quoted(live.id)} is full, and its context counts as unknown from here on",
                    hint="start a new session",
                )
            entries.append(Entry(Sort.BLOCK, self._clock(), piece.key, content, to_json(detail)))
        return self._put(live, *entries)

    def _know(self, live: Live, *, known: bool) -> None:
        self._put(live, Entry(Sort.MARK, self._clock(), detail="known" if known else "unknown"))

    def blocks(self, session: str) -> list[Block]:
        if not _is_name(session) or self.store.session(session) is None:
            return []
        return list(self._current(session).session.blocks)

    def lineage(self, session: str, block: str) -> Lineage:
        if not _is_name(session) or self.store.session(session) is None:
            return Lineage(block, cut="missing")
        return self._current(session).session.lineage(block)

    # Rulings

    def check(
        self,
        session: str,
        tool: str,
        arguments: Mapping[str, object],
        *,
        annotations: Mapping[str, object] | None = None,
        key: str = "",
        findings: Sequence[Finding] = (),
        later: bool = False,
    ) -> Kept:
        """Rule on one call before it runs: only CONTINUE lets it run. `key` is what the host calls it.

        `findings` is what the host knows against the call itself: with any, it is escalated. `later` lets what passed
        at Tier 1 and is in the journal be kept with whatever is next kept of this session, or by `flush`: its `seq`
        is 0 until then. Everything else is kept at once all the same.
        """
        live, why = self._looked(session, key)
        context = live.session.size
        decision = live.session.check(tool, arguments, annotations=annotations, findings=findings)
        return self._keep(live, tool, arguments, annotations, decision, context, key, why, later=later)

    async def check_async(
        self,
        session: str,
        tool: str,
        arguments: Mapping[str, object],
        *,
        annotations: Mapping[str, object] | None = None,
        key: str = "",
        findings: Sequence[Finding] = (),
    ) -> Kept:
        """The same for a caller on an event loop."""
        from asyncio import to_thread

        if self.gate.triage is None and self.gate.supervisor is None:
            # Nobody is waited for but disks: one thread does it all.
            return await to_thread(
                self.check, session, tool, arguments, annotations=annotations, key=key, findings=findings
            )
        live, why = await to_thread(self._looked, session, key)
        context = live.session.size
        decision = await live.session.check_async(tool, arguments, annotations=annotations, findings=findings)
        return await to_thread(self._keep, live, tool, arguments, annotations, decision, context, key, why)

    def _looked(self, session: str, key: str) -> tuple[Live, str]:
        """1. The session as it stands now; and why it does not, where the store cannot say."""
        checked_name(session, "a session's id")
        if key:
            checked_name(key, "a call's key")
        try:
            return self._current(session), ""
        except (InvalidCall, InvalidBlock):
            raise
        except Exception as error:  # noqa: BLE001  # whatever it is, the context may be another one
            with self._lock:
                live = self._live.get(session)
            if live is None:
                # Not kept in memory either: it would pass for the session later.
                alone = self.gate.session(id=session)
                alone.context_known = False
                live = Live(SessionInfo(session), alone, (0,))
            return live, _why(error)

    def _keep(
        self,
        live: Live,
        tool: str,
        arguments: Mapping[str, object],
        annotations: Mapping[str, object] | None,
        decision: Decision,
        context: int,
        key: str,
        why: str,
        *also: Entry,
        called: bool = True,
        later: bool = False,
    ) -> Kept:
        """3. The ruling once it is kept, with what else follows from it; or what follows from its not being so."""
        id, now = f"d{os.urandom(8).hex()}", self._clock()
        if not why:
            content = b"" if called else NO_CALL
            ruling = _Ruling(id, live.host, now, key, content, tool, arguments, annotations, decision, context)
            if later and _passed(decision) and self._wait(live, ruling):
                return Kept(id, 0, live.id, live.host, 0, now, key, tool, dict(arguments), None, decision, context)
            try:
                put = self._put_ruling(live, id, ruling.entry(), *also)
            except Exception as error:  # noqa: BLE001  # whatever it is, the ruling may not be kept
                why = _why(error)
            else:
                live.waits = live.waits or bool(decision.approval)
                told = None if annotations is None else dict(annotations)
                arguments = dict(arguments)
                return Kept(id, put.seq, live.id, live.host, put.n, now, key, tool, arguments, told, decision, context)
        held = unrecorded(decision, live.session.policy, why)
        if held.action is not decision.action:
            # The ruling is in the journal, and does not count: what is returned instead has to follow it there.
            with suppress(LockgateError):
                held = live.session.enter(ToolCall(tool, arguments), held)
        told = None if annotations is None else dict(annotations)
        return Kept(id, 0, live.id, live.host, 0, now, key, tool, dict(arguments), told, held, context)

    def _put_ruling(self, live: Live, id: str, *entries: Entry) -> Put:
        # Before it can be read by anybody: whoever catches up meanwhile must know that it is ours.
        live.mine.add(id)
        try:
            put, *more = self._put(live, *entries)
        except BaseException:
            live.mine.discard(id)
            # It may be there all the same, and is then read as everybody else's.
            live.outdated = True
            raise
        with live.lock:
            if not more and put.last <= live.cursor < put.seq:
                live.cursor = put.seq
                live.mine.discard(id)
        return put

    def _wait(self, live: Live, ruling: _Ruling) -> bool:
        """Whether there is room for a ruling that is kept later; nobody else knows of it until then."""
        with self._lock:
            waiting = self._later.setdefault(live.id, [])
            if len(waiting) >= _MAX_LATER:
                return False
            waiting.append(ruling)
            live.mine.add(ruling.id)
        return True

    def flush(self, session: str = "") -> None:
        """Keep what waits to be kept, of one session or of all."""
        with self._lock:
            waiting = [session] if session else list(self._later)
        for each in waiting:
            if each in self._later:
                self._put(self._current(each))

    def outcome(self, session: str, key: str, ran: str) -> bool:
        """Note what became of a call: `ran`, `failed` or `not-run`. False where no ruling has this key."""
        if ran not in RAN:
            raise InvalidCall(f"unknown outcome {quoted(ran)}", hint=f"use one of: {', '.join(RAN)}")
        checked_name(session, "a session's id")
        checked_name(key, "a call's key")
        self.flush(session)
        return self.store.outcome(session, key, ran)

    def decision(self, id: str) -> Kept | None:
        found = self.store.ruling(id) if _is_name(id) else None
        return None if found is None else _read(*found)

    def decisions(
        self,
        *,
        session: str = "",
        action: str = "",
        tier: int = 0,
        tool: str = "",
        rule: str = "",
        host: str = "",
        q: str = "",
        after: int = 0,
        before: int | None = None,
        limit: int = 50,
    ) -> list[Kept]:
        """The newest first, or with `after` those that follow that `seq`, oldest first."""
        asked = Filter(session, action, tier, tool, rule, host, q, after, before, _page(limit))
        return [_read(*found) for found in self.store.rulings(asked)]

    def stats(self, *, since: float, bucket_s: float) -> Stats:
        if not isfinite(since):
            raise InvalidCall("stats need a time in seconds")
        return stats_of(self.store.tallies(since), since=since, until=self._clock(), bucket_s=bucket_s)

    def prune(self, keep_days: float) -> int:
        """Forget sessions that were last heard of so many days ago; how many those were."""
        before, gone = self._clock() - keep_days * 86_400, 0
        # A few at a time: whoever rules meanwhile waits for each of these.
        while keep_days > 0 and (some := self.store.prune(before, _PRUNED_AT_ONCE)):
            gone += some
        return gone

    def close(self) -> None:
        with suppress(SessionsUnavailable):
            self.flush()
        with self._lock:
            self._live.clear()
        self.store.close()

    # Steps

    def step_begin(self, session: str, goal: str, *, supervision: str | None = None, parent: str = "") -> StepInfo:
        """A supervised unit of work, as `Session.step` begins one; inside another one if `parent` names that."""
        return self._step_entry(session, "begin", goal, supervision, parent)

    def step_commit(self, session: str, step: str, commitment: Mapping[str, object]) -> StepInfo:
        return self._step_entry(session, "commit", step, _plain(asdict(commitment_of(commitment))))

    def step_abandon(self, session: str, step: str) -> StepInfo:
        return self._step_entry(session, "abandon", step)

    def step(self, session: str, step: str) -> StepInfo | None:
        if not _is_name(session) or self.store.session(session) is None:
            return None
        live = self._current(session)
        return _told(live, live.steps[step]) if step in live.steps else None

    def step_check(
        self,
        session: str,
        step: str,
        tool: str,
        arguments: Mapping[str, object],
        *,
        annotations: Mapping[str, object] | None = None,
        key: str = "",
    ) -> Kept:
        """Rule on one call of a step before it runs."""
        live, why = self._looked(session, key)
        if why:
            raise SessionsUnavailable(f"the step cannot be read: {why}")
        running, context = live.step(step), live.session.size
        decision = running.check(tool, arguments, annotations=annotations)
        called = decision.reason is not Reason.RECONCILIATION
        kept = self._keep(live, tool, arguments, annotations, decision, context, key, why, called=called)
        self._catch_up(live)
        if kept.seq and kept.decision.action is Action.CONTINUE and running.finished:
            # Ended by another process while this one ruled: nobody has looked at this call there.
            held = unrecorded(kept.decision, live.session.policy, "the step was finished meanwhile")
            held = held._replace(action=Action.PAUSE, reason=Reason.RECONCILIATION)
            return self._keep(live, tool, arguments, annotations, held, context, key, why)
        return kept

    def step_finish(self, session: str, step: str, assessment: Mapping[str, object]) -> Kept:
        """Rule on the step: CONTINUE ends it, REORIENT leaves it open, PAUSE holds it. After a PAUSE, ask again."""
        live, why = self._looked(session, "")
        if why:
            raise SessionsUnavailable(f"the step cannot be read: {why}")
        running, context = live.step(step), live.session.size
        told = assessment_of(assessment)
        decision = running.finish(told)
        stands = Entry(Sort.STEP, self._clock(), detail=to_json(("state", step, running.state)))
        shown: dict[str, object] = {"step": step, "goal": running.goal, "assessment": _plain(asdict(told))}
        kept = self._keep(live, FINISH, shown, None, decision, context, "", "", stands, called=False)
        if not kept.seq:
            # It is not known to have ended: what was kept counts.
            live.outdated = True
        return kept

    def _step_entry(self, session: str, *detail: object) -> StepInfo:
        live = self._current(checked_name(session, "a session's id"))
        if detail[0] != "begin":
            live.step(str(detail[1]))
        (put,) = self._put(live, Entry(Sort.STEP, self._clock(), detail=to_json(detail)))
        live = self._current(session)
        done = live.begun.get(put.seq)
        if isinstance(done, Step):
            return _told(live, done)
        if done is None:
            raise SessionsUnavailable("the step that was kept cannot be read")
        raise done

    # In memory

    def _current(self, session: str) -> Live:
        """1. The session with all that is new in it; one that nobody opened is made as such."""
        while True:
            with self._lock:
                live = self._live.get(session)
                if live is not None:
                    self._live.move_to_end(session)
                unsure = session in self._unsure
            if live is None:
                live = self._built(session)
                with self._lock:
                    live = self._live.setdefault(session, live)
            else:
                self._catch_up(live)
            live.session.context_known = not live.unknown and not unsure
            if not live.outdated:
                if live.grown:
                    self._make_room(live)
                return live
            with self._lock:
                if self._live.get(session) is live:
                    del self._live[session]

    def _built(self, session: str) -> Live:
        now = self._clock()
        info = self.store.session(session)
        if info is None:
            info = self.store.make(SessionInfo(session, created_at=now, seen_at=now, context_known=False))
        chain, unknown, at = [info], {info.number} if not info.context_known else set(), info
        while at.parent and len(chain) <= MAX_DEPTH:
            above = self.store.session(at.parent)
            if above is None or above in chain:
                # What it has read through its parent is not known any more.
                unknown.add(0)
                break
            if not above.context_known:
                unknown.add(above.number)
            chain.append(above)
            at = above
        numbers = tuple(each.number for each in chain)
        rows = self.store.feed(numbers, 0, rulings_after=self.store.mark(info.number, MAX_HISTORY))
        first = _first_open_step(rows)
        if first:
            # It is held to every call since it began.
            rows = self.store.feed(numbers, 0, rulings_after=first)
        # What was changed meanwhile counts, and below it what stands nearest.
        modes = [tuple(loads(row.detail)) for row in rows if row.sort == Sort.MODE and row.session == info.number]
        stand = [*reversed(modes), *((each.mode, each.scope) for each in chain)]
        mode, scope = next((each for each in stand if any(each)), ("", ""))
        live = Live(info, self._opened(info, mode, scope), numbers)
        live.run = HostedRun(live.session, partial(self._catch_up, live))
        live.unknown = unknown
        with live.lock:
            live.catch_up([row for row in rows if row.sort != Sort.MODE])
            live.cursor = rows[-1].seq if rows else 0
        return live

    def _catch_up(self, live: Live) -> None:
        with live.lock:
            if not live.outdated:
                live.catch_up(self.store.feed(live.chain, live.cursor))

    def _opened(self, info: SessionInfo, mode: str, scope: str) -> Session:
        try:
            return self.gate.session(mode=mode or None, scope=scope, id=info.id, resumed=info.asked)
        except LockgateError:
            # The policy has changed, and has no room for it: then the strictest one.
            return self.gate.session(mode=Mode.PARANOID, id=info.id, resumed=info.asked)

    def _put(self, live: Live, *entries: Entry) -> list[Put]:
        with self._lock:
            waiting = self._later.pop(live.id, [])
        try:
            every = [*(each.entry() for each in waiting), *entries]
            puts = self.store.append(live.chain, every) if every else []
            if puts is None:
                # Forgotten meanwhile: it goes on as one whose context is not known.
                live.outdated = True
                live = self._current(live.id)
                puts = self.store.append(live.chain, every)
            if puts is None:
                raise SessionsUnavailable("the session is forgotten as soon as it is made")
        except BaseException:
            with self._lock:
                self._later[live.id] = [*waiting, *self._later.get(live.id, ())]
                if not self._later[live.id]:
                    del self._later[live.id]
            raise
        return puts[len(waiting) :]

    def _make_room(self, newest: Live) -> None:
        newest.grown = False
        with self._lock:
            size = sum(live.size for live in self._live.values())
            while len(self._live) > 1 and (len(self._live) > MAX_LIVE or size > MAX_LIVE_SIZE):
                oldest = next(iter(self._live))
                if oldest == newest.id:
                    break
                size -= self._live.pop(oldest).size

    def _miss(self, session: str) -> None:
        with self._lock:
            self._unsure[session] = None
            while len(self._unsure) > _MAX_UNSURE:
                self._unsure.popitem(last=False)

    def _prune_now_and_then(self, now: float) -> None:
        if self._keep_days <= 0 or now - self._pruned_at < _PRUNE_EVERY_S:
            return
        self._pruned_at = now
        # Somebody waits: who comes next goes on with it.
        with suppress(SessionsUnavailable):
            if self.store.prune(now - self._keep_days * 86_400, _PRUNED_AT_ONCE) == _PRUNED_AT_ONCE:
                self._pruned_at = now - _PRUNE_EVERY_S


def _first_open_step(rows: Iterable[Row]) -> int:
    """Where the first step began, unless all are over; 0 where there is none."""
    first = begun = over = 0
    for row in rows:
        if row.sort == Sort.STEP:
            what, *told = loads(row.detail)
            begun += what == "begin"
            over += what == "abandon" or told[-1] == "finished"
            first = first or row.seq
    return first if begun > over else 0


def _read(row: Row, session: str, host: str) -> Kept:
    try:
        return kept_of(row, session, host)
    except ValueError as error:
        raise SessionsUnavailable(f"ruling {quoted(row.id)} is damaged") from error


def _passed(decision: Decision) -> bool:
    return decision.tier == 1 and decision.action is Action.CONTINUE and decision.receipt is not None


def _told(live: Live, step: Step) -> StepInfo:
    promised = step.commitment
    return StepInfo(
        live.id,
        step.name,
        step.goal,
        step.supervision.value,
        step.state,
        None if promised is None else _plain(asdict(promised)),
        tuple(f"{trigger.cause.value}: {trigger.what}" for trigger in step.triggers),
    )


def _plain(fields: dict[str, object]) -> dict[str, object]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}


def _why(error: BaseException) -> str:
    if isinstance(error, LockgateError):
        return "; ".join(printable(part, 300) for part in (error.message, error.hint) if part)
    return f"the sessions failed: {type(error).__name__}"


def _id(block: str | Block) -> str:
    return block.id if isinstance(block, Block) else block


def _is_name(text: str) -> bool:
    try:
        checked_name(text, "an id")
    except InvalidCall:
        return False
    return True


def _page(limit: int) -> int:
    return max(1, min(int(limit), MAX_PAGE))
