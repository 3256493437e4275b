"""Sessions that outlive a process: any host that shares the store can answer for any session.

Once a method has returned in one process, the next check in any process sees its effect. A session that was never
opened has an unknown context: every high-risk call in it needs a person.
"""

from __future__ import annotations

import os
from asyncio import timeout, to_thread
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from math import isfinite
from time import monotonic, time
from typing import NamedTuple

from lockgate.core.errors import InvalidBlock, InvalidCall, SessionsBusy, SessionsUnavailable, quoted
from lockgate.core.ruling.effects.project import NO_PROJECT, Project
from lockgate.core.vocabulary import Block, Finding, Kind, Lineage, ToolCall, Trust
from lockgate.gate.gate import Gate
from lockgate.gate.ruler import CallStart
from lockgate.runtime.project_files import read_project
from lockgate.runtime.routines import Routine, begin_routine
from lockgate.runtime.worker_pool import Full, WorkerPool
from lockgate.sessions.host_steps import HostSteps
from lockgate.sessions.live_session import OPENED_BY, LiveSession
from lockgate.sessions.readiness import Readiness, ReadinessCheck
from lockgate.sessions.ruling_keeper import MAX_WAIT_S, RulingKeeper, RulingStart, late_error
from lockgate.sessions.session_cache import MAX_DEPTH, SessionCache, is_valid_name, strictest
from lockgate.sessions.session_entries import (
    CLAIMED,
    MAX_BLOCKS,
    MAX_CONTENT,
    MAX_META,
    MAX_PAGE,
    MAX_SIZE,
    RAN,
    EntryPlace,
    EntrySort,
    RulingFilter,
    SessionEntry,
    SessionInfo,
    SessionRow,
    Stats,
    StoredRuling,
    check_name,
    damaged_ruling_from_row,
    encode_text,
    project_to_json,
    ruling_from_row,
    stats_from_tallies,
    to_json,
)
from lockgate.sessions.session_pruner import SessionPruner
from lockgate.sessions.store import SessionStore

# Lockgate's own plugs, by the first part of their host's name; `plug:…` are those for frameworks, in the agent's own
# process. The ids of their sessions come from the agent's host, so another client can guess them.
_PLUGS = frozenset({"claude-code", "codex", "copilot", "gemini", "mcp", "opencode", "plug"})


class Piece(NamedTuple):
    """One text for `Host.restore`. The fields are the arguments of `Host.add`."""

    content: str
    source: str
    trust: str | Trust | None = None
    kind: str | Kind | None = None
    tainted_by: Sequence[str] = ()
    key: str = ""


# What Tier 1 makes of a call: its ruling, or where the questions to judges and people begin.
_Settled = StoredRuling | tuple[RulingStart, CallStart]
# Calls with more text than this are ruled on one after another, the sessions in turn, and never delay a small call.
_LARGE = 4096


class Host:
    """Sessions in a store, ruled on by one gate; `steps` are their supervised steps.

    Several threads may use it, and several hosts may share a store. `steady` is a monotonic clock; `most_live` limits
    the sessions in memory.
    """

    def __init__(
        self,
        gate: Gate,
        store: SessionStore,
        *,
        clock: Callable[[], float] = time,
        steady: Callable[[], float] = monotonic,
        keep_days: float = 0,
        most_live: int = 0,
    ) -> None:
        self.store = store
        self._clock = clock
        self._steady = steady
        self._cache = SessionCache(gate, store, clock=clock, steady=steady, max_live=most_live)
        self._readiness = ReadinessCheck(store, gate.journal, steady)
        self._pruner = SessionPruner(store, self._cache, keep_days=keep_days, clock=clock, steady=steady)
        # One thread: while it compares a large call, small ones wait for a turn of a few milliseconds, not for its end.
        self._large_calls = WorkerPool(1, max_jobs=256)
        # More threads would only compete for the interpreter; the calls that one takes at once share its commits.
        self._small_calls = WorkerPool(2, max_jobs=2_048, at_once=32)
        self._rulings = RulingKeeper(self._cache, self._readiness, clock, steady)
        self.steps = HostSteps(self._cache, self._rulings, clock)

    @property
    def gate(self) -> Gate:
        """The gate that rules on the next call of every session."""
        return self._cache.gate

    def change_gate(self, gate: Gate) -> None:
        """Rule with another gate from now on. A call that is being ruled on ends under the gate that it began with."""
        self._cache.gate = gate

    # Sessions.

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
        folder: str = "",
    ) -> SessionInfo:
        """Create a session, or go on with the one of this id; without an id it gets one.

        If the session has a goal already, another one counts as the user's next message. A subagent's session shares
        the goal and the context of its `parent`; its own goal was written by an agent, and is kept as a block. Pass
        `known=False` for a session that began elsewhere: its context is unknown. `folder` is where the agent works:
        what its project's files name is read once, at the beginning, so that nothing the session itself writes counts.
        """
        asked = self._parse_session(session, goal, host, mode, scope, parent, meta, known)
        self._pruner.prune_hourly(asked.created_at)
        info = self.store.create(asked)
        live = self._cache.current(info.id, info)
        is_changed = bool(info.ended_at or folder or goal.strip()) or live.ruler.context_known != info.context_known
        if is_plug(host) and OPENED_BY in info.meta and OPENED_BY not in asked.meta:
            is_changed = True
            # Another client opened this session before the plug did: the context counts as unknown.
            self._cache.append(live, SessionEntry(EntrySort.MARK, asked.created_at, detail=CLAIMED))
        tighter = strictest((info.mode, info.scope), (asked.mode, scope))
        if tighter != (info.mode, info.scope):
            is_changed = True
            self._cache.append(live, SessionEntry(EntrySort.MODE, asked.created_at, detail=to_json(tighter)))
        if info.ended_at:
            self.store.end(info.id, 0.0)
        if folder:
            self._keep_project(info.id, folder, is_new=not info.decisions)
        if goal.strip():
            self._set_goal(live, goal, is_subagent=bool(info.parent))
        found = self.store.session(info.id) if is_changed else None
        return info if found is None else found

    def _parse_session(
        self,
        session: str,
        goal: str,
        host: str,
        mode: str | None,
        scope: str,
        parent: str,
        meta: Mapping[str, str] | None,
        known: bool,  # noqa: FBT001
    ) -> SessionInfo:
        """Return the session that `open` was asked for; raise InvalidCall or InvalidBlock before anything is stored."""
        id = check_name(session, "a session's id") if session else f"s{os.urandom(8).hex()}"
        if not isinstance(goal, str):
            raise InvalidBlock(f"a goal must be text, not {type(goal).__name__}")
        if parent:
            check_name(parent, "a parent's id")
            if parent == id:
                raise InvalidCall("a session cannot be inside itself")
            self._refuse_too_deep(parent)
        if mode is not None or scope:
            self.gate.ruler(mode=mode, scope=scope, id=id, resumed=False)
        texts = {str(name): str(value) for name, value in (meta or {}).items()}
        if len(to_json(texts)) > MAX_META:
            raise InvalidCall(f"a session's meta must be at most {MAX_META:,} bytes of JSON")
        now = self._clock()
        return SessionInfo(
            id=id,
            host=check_name(host, "a host"),
            mode="" if mode is None else str(mode),
            scope=scope,
            parent=parent,
            meta=texts,
            created_at=now,
            seen_at=now,
            context_known=known,
        )

    def _refuse_too_deep(self, parent: str) -> None:
        at, depth = parent, 1
        while above := self.store.session(at):
            if not above.parent:
                return
            at, depth = above.parent, depth + 1
            if depth > MAX_DEPTH:
                raise InvalidCall(
                    f"a session can be inside {MAX_DEPTH} others at most", hint="open it inside one further out"
                )

    def _keep_project(self, session: str, folder: str, *, is_new: bool) -> None:
        live = self._cache.current(session)
        if live.ruler.project != NO_PROJECT:
            return
        # The calls of a session that was not seen from its start may have changed the files already.
        project = read_project(folder, names=is_new and live.ruler.context_known)
        entry = SessionEntry(EntrySort.PROJECT, self._clock(), "project", project_to_json(project))
        self._cache.append(live, entry)
        self._cache.current(session)

    def _set_goal(self, live: LiveSession, goal: str, *, is_subagent: bool) -> None:
        if is_subagent:
            if not any(block.source == "agent:goal" and block.content == goal for block in live.ruler.blocks):
                self.add(live.id, goal, source="agent:goal")
        elif live.ruler.goal != goal and not _was_last_message(live, goal):
            content = encode_text(goal[:MAX_CONTENT])
            self._cache.append(live, SessionEntry(EntrySort.GOAL, self._clock(), content=content))
            self._cache.current(live.id)

    def end(self, session: str) -> None:
        """Note that a run is over. Calls that come later are still ruled on."""
        self.store.end(check_name(session, "a session's id"), self._clock())
        self._cache.forget(session)

    def session(self, id: str) -> SessionInfo | None:
        """Return the session of this id; None where there is none."""
        return self.store.session(id) if is_valid_name(id) else None

    def sessions(self, *, limit: int = 50, before: int | None = None, q: str = "") -> list[SessionInfo]:
        """Return sessions, the newest first; `before` is the `number` of the last one of the page before."""
        return self.store.sessions(limit=_bounded_page(limit), before=before, q=q)

    def pauses(self, sessions: Sequence[SessionInfo]) -> dict[int, int]:
        """Return how often each of these sessions was paused, by its `number`; one that never was is left out."""
        return self.store.count_pauses([info.number for info in sessions])

    # Context.

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
        """Add a text that the agent reads; it is stored when this returns. The same text and key are kept once.

        A text over the scanner's limit is cut there, and counts as not fully read. If the store fails, the session's
        context counts as unknown from then on, in every process.
        """
        check_name(session, "a session's id")
        if key:
            check_name(key, "a block's key")
        with self._note_loss(session):
            live = self._cache.current(session)
            parents = [each.id if isinstance(each, Block) else each for each in tainted_by]
            (place,) = self._append_blocks(live, [Piece(content, source, trust, kind, parents, key)])
            live = self._cache.current(session)
        block = live.ruler.block(f"b{place.n:04d}") or live.ruler.block("goal")
        if block is None:
            raise SessionsUnavailable("the session store lost a block it just wrote")
        is_news = not place.again and block.trust is Trust.UNTRUSTED and not source.startswith("agent")
        if live.approval_open and is_news:
            live.approval_open = False
            live.ruler.void_approvals(block)
        return block

    def restore(self, session: str, blocks: Iterable[Piece]) -> SessionInfo:
        """Add what the session had read before: from here on its context is known.

        A piece with a key that the session has already is not added again.
        """
        live = self._cache.current(check_name(session, "a session's id"))
        pieces = [Piece(*piece) for piece in blocks]
        for piece in pieces:
            if piece.key:
                check_name(piece.key, "a block's key")
        with self._note_loss(session):
            if pieces:
                self._append_blocks(live, pieces)
            self._cache.mark_known(live, known=True)
        self._cache.current(session)
        found = self.store.session(session)
        if found is None:
            raise SessionsUnavailable("the session store lost a session it just wrote")
        return found

    def mark_context_unknown(self, session: str) -> None:
        """Note that the agent may have read something that is not in its session.

        This does not raise if the store fails: the host remembers the note, and stores it when the store works again.
        """
        self._cache.note_lost_block(check_name(session, "a session's id"))
        self._cache.try_to_read("sessions", session)

    @contextmanager
    def _note_loss(self, session: str) -> Iterator[None]:
        """Note a lost block if the store fails: the agent may have read it all the same."""
        kept = False
        try:
            yield
            kept = True
        except (InvalidBlock, InvalidCall):
            kept = True
            raise
        finally:
            if not kept:
                self._cache.note_lost_block(session)

    def _append_blocks(self, live: LiveSession, pieces: Sequence[Piece]) -> list[EntryPlace]:
        entries = []
        for each in pieces:
            vouched = live.ruler.vouched_trust(each.content, each.source) if each.trust is None else None
            # Kept with the piece: the session stays as it was when a person takes it back.
            piece = each if vouched is None else each._replace(trust=vouched)
            carried = live.ruler.find_carried(piece.content, piece.source) if vouched is None else None
            if carried is not None:
                piece = piece._replace(trust=Trust.UNTRUSTED, kind=None)
            block = live.ruler.preview_block(
                piece.content, source=piece.source, trust=piece.trust, kind=piece.kind, tainted_by=piece.tainted_by
            )
            detail = (
                piece.source,
                block.trust.word if isinstance(piece.trust, Trust) else piece.trust,
                None if piece.kind is None else Kind(piece.kind).value,
                list(piece.tainted_by),
                *([carried] if carried is not None else []),
            )
            content = encode_text(piece.content[:MAX_CONTENT])
            live.kept_blocks, live.kept_size = live.kept_blocks + 1, live.kept_size + len(content)
            if live.kept_blocks > MAX_BLOCKS or live.kept_size > MAX_SIZE:
                self._cache.mark_known(live, known=False)
                raise InvalidBlock(
                    f"session {quoted(live.id)} is full, and its context counts as unknown from here on",
                    hint="start a new session",
                )
            entries.append(SessionEntry(EntrySort.BLOCK, self._clock(), piece.key, content, to_json(detail)))
        return self._cache.append(live, *entries)

    def blocks(self, session: str) -> list[Block]:
        """Return the blocks of a session; none where there is no such session."""
        live = self._cache.current_if_kept(session)
        return [] if live is None else list(live.ruler.blocks)

    def lineage(self, session: str, block: str) -> Lineage:
        """Return what a block was derived from, as a tree."""
        live = self._cache.current_if_kept(session)
        return Lineage(block, cut="missing") if live is None else live.ruler.lineage(block)

    def project(self, session: str) -> Project:
        """Return what is known of the project that a session's agent works in."""
        live = self._cache.current_if_kept(session)
        return NO_PROJECT if live is None else live.ruler.project

    # Rulings.

    def check(
        self,
        session: str,
        tool: str,
        arguments: Mapping[str, object],
        *,
        annotations: Mapping[str, object] | None = None,
        key: str = "",
        findings: Sequence[Finding] = (),
        folder: str = "",
    ) -> StoredRuling:
        """Rule on one call before it runs: only CONTINUE lets it run. `key` is the agent's host's id of the call.

        `folder` is where the agent works now, if it has changed since the session was opened. `findings` are the
        host's own reasons to suspect the call: any of them escalates it. When this returns, the ruling is in the
        journal and in the store.
        """
        return self._check(session, ToolCall(tool, arguments, annotations, findings, key, folder))

    def _check(self, session: str, call: ToolCall) -> StoredRuling:
        start = self._rulings.look(session, call.key)
        return self._rulings.keep(start, call, start.live.ruler.check(call))

    async def check_async(
        self,
        session: str,
        tool: str,
        arguments: Mapping[str, object],
        *,
        annotations: Mapping[str, object] | None = None,
        key: str = "",
        findings: Sequence[Finding] = (),
        folder: str = "",
        guard: Callable[[Sequence[str]], None] = lambda _openers: None,
        client: str = "",
    ) -> StoredRuling:
        """Rule on one call for a caller on an event loop; the ruling is the same.

        `guard` gets the accounts whose hooks opened the session and those it is inside of, and may raise. Clients take
        turns, and within a client its sessions; a call that waits too long, or is one too many, is SessionsBusy. It
        may be on record as let through then, and must not run.
        """
        call = ToolCall(tool, arguments, annotations, findings, key, folder)
        pool = self._large_calls if _has_more_text(arguments, _LARGE) else self._small_calls
        # The record of the ruling names the caller's trace.
        until_s = self._steady() + MAX_WAIT_S
        begin = partial(copy_context().run, begin_routine, self._check_at_once(session, call, guard, until_s))
        try:
            # A thread that waits for a database that stands still cannot be stopped, but its caller gets an answer.
            async with timeout(MAX_WAIT_S):
                settled: _Settled = await pool.run_async(begin, f"{client}/{session}")
        except TimeoutError:
            raise late_error() from None
        except Full as full:
            raise SessionsBusy(
                "too many calls are waiting", hint="ask again in a moment", by_caller=full.by_caller
            ) from None
        if isinstance(settled, StoredRuling):
            return settled
        start, begun = settled
        decision = await start.live.ruler.check_async(call, begun)
        try:
            async with timeout(MAX_WAIT_S):
                return await to_thread(self._rulings.keep, start, call, decision)
        except TimeoutError:
            raise late_error() from None

    def _check_at_once(
        self, session: str, call: ToolCall, guard: Callable[[Sequence[str]], None], until_s: float
    ) -> Routine[_Settled]:
        """Return the ruling if Tier 1 settles the call; else what `check_async` needs to ask the judges."""
        if self._steady() > until_s:
            # Its agent may have given up: a ruling now would only take the time of those who still wait.
            raise late_error()
        start = self._rulings.look(session, call.key, until_s)
        guard(start.live.openers)
        decision = yield from start.live.ruler.check_at_once(call)
        if isinstance(decision, CallStart):
            return start, decision
        return (yield from self._rulings.keeping(start, call, decision))

    def outcome(self, session: str, key: str, ran: str) -> bool:
        """Note what became of a call: `ran`, `failed` or `not-run`. Return False where no ruling has this key."""
        if ran not in RAN:
            raise InvalidCall(f"unknown outcome {quoted(ran)}", hint=f"use one of: {', '.join(RAN)}")
        return self.store.set_outcome(check_name(session, "a session's id"), check_name(key, "a call's key"), ran)

    def decision(self, id: str) -> StoredRuling | None:
        """Return the ruling of this id; None where there is none."""
        found = self.store.ruling(id) if is_valid_name(id) else None
        return None if found is None else ruling_or_damaged(*found)

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
    ) -> list[StoredRuling]:
        """Return rulings, the newest first; with `after` those that follow that `seq`, oldest first."""
        asked = RulingFilter(session, action, tier, tool, rule, host, q, after, before, _bounded_page(limit))
        return [ruling_or_damaged(*found) for found in self.store.rulings(asked)]

    def stats(self, *, since: float, bucket_s: float) -> Stats:
        """Return what became of the calls since that time, in buckets."""
        if not isfinite(since):
            raise InvalidCall("stats need a time in seconds")
        return stats_from_tallies(self.store.tallies(since), since=since, until=self._clock(), bucket_s=bucket_s)

    # Upkeep.

    def prune(self, keep_days: float) -> int:
        """Delete the sessions that were last seen so many days ago; return how many those were."""
        return self._pruner.prune(keep_days)

    def ready(self) -> Readiness:
        """Return whether a ruling could be kept now, by a test write. An answer is reused for a second."""
        return self._readiness.check()

    def close(self) -> None:
        """Close the stores and take all sessions out of memory."""
        self._cache.close()
        self.store.close()
        if self.gate.carried is not None:
            self.gate.carried.close()


def is_plug(host: str) -> bool:
    """Return whether a session of this host is opened by a plug of ours, and never over HTTP."""
    return host.partition(":")[0] in _PLUGS


def _has_more_text(value: object, most: int) -> bool:
    """Return whether a value of JSON has more characters than this; each item of a list or object counts as one."""
    pending, count = [value], 0
    while pending and count <= most:
        item = pending.pop()
        if isinstance(item, str):
            count += len(item)
        elif isinstance(item, Mapping):
            count += len(item)
            pending += [*item, *item.values()]
        elif isinstance(item, list | tuple):
            count += len(item)
            pending += item
    return count > most


def _was_last_message(live: LiveSession, goal: str) -> bool:
    """Return whether this goal is the user's latest message: then the host only repeats it."""
    blocks = live.ruler.blocks
    return bool(blocks) and blocks[-1].source == "user" and blocks[-1].content == goal[:MAX_CONTENT]


def ruling_or_damaged(row: SessionRow, session: str, host: str) -> StoredRuling:
    """Return the ruling in a row of the store; one that cannot be read is marked as damaged."""
    try:
        return ruling_from_row(row, session, host)
    except ValueError:
        # One damaged row must not hide the others.
        return damaged_ruling_from_row(row, session, host)


def _bounded_page(limit: int) -> int:
    return max(1, min(int(limit), MAX_PAGE))
