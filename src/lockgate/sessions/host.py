"""Sessions that outlive a process: any host that shares the store can answer for any session.

1. Look.   Before each ruling the host asks the store for what is new in the session, so that what was acknowledged
           anywhere is seen by the next check anywhere. One that is not in memory is built again from what was kept.
2. Rule.   The gate rules as for any session.
3. Keep.   The ruling is kept before it is returned. Where 1 or 3 fails a high-risk call pauses, as for the journal.

A session that nobody opened is one whose context is not known: every high-risk call in it needs a person.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from math import inf, isfinite
from typing import NamedTuple

from lockgate.core.errors import (
    InvalidBlock,
    InvalidCall,
    LockgateError,
    SessionsUnavailable,
    quoted,
)
from lockgate.core.ruling.pipeline import decide_unrecorded, flatten_arguments
from lockgate.core.ruling.tool_call import ToolCall
from lockgate.core.sessions.session_entries import (
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
    ruling_from_row,
    ruling_to_json,
    searchable_ruling,
    stats_from_tallies,
    to_json,
)
from lockgate.core.vocabulary import Block, Decision, Finding, Kind, Lineage, Mode, Reason, Trust
from lockgate.journal.recorder import hash_arguments
from lockgate.sessions.live_session import NO_CALL, LiveSession
from lockgate.sessions.session_cache import MAX_DEPTH, strictest
from lockgate.sessions.upkeep import Upkeep, error_text

# Our own plugs, whose sessions have the names that their hosts give them; and what says in a session's meta that
# somebody without one of them opened it.
_PLUGS = frozenset({"claude-code", "mcp"})
OPENED_BY = "opened"


class Piece(NamedTuple):
    """A piece of context that a host gives back to a session, as for `Host.add`."""

    content: str
    source: str
    trust: str | Trust | None = None
    kind: str | Kind | None = None
    tainted_by: Sequence[str] = ()
    key: str = ""


class Hosting(Upkeep):
    """Sessions in a store; `lockgate.sessions.Host` has their steps besides."""

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
        id = check_name(session, "a session's id") if session else f"s{os.urandom(8).hex()}"
        if not isinstance(goal, str):
            raise InvalidBlock(f"a goal must be text, not {type(goal).__name__}")
        if parent:
            check_name(parent, "a parent's id")
            if parent == id:
                raise InvalidCall("a session cannot be inside itself")
            self._refuse_too_deep(parent)
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
            host=check_name(host, "a host"),
            mode="" if mode is None else Mode(mode).value,
            scope=scope,
            parent=parent,
            meta=told,
            created_at=now,
            seen_at=now,
            context_known=known,
        )
        info = self.store.create(asked)
        live = self._current(id)
        if host in _PLUGS and OPENED_BY in info.meta and OPENED_BY not in told:
            # Somebody was here before whose session it is: what they said there counts for nobody.
            self._put(live, SessionEntry(EntrySort.MARK, now, detail=CLAIMED))
        tighter = strictest((info.mode, info.scope), (asked.mode, scope))
        if tighter != (info.mode, info.scope):
            self._put(live, SessionEntry(EntrySort.MODE, now, detail=to_json(tighter)))
        if info.ended_at:
            self.store.end(id, 0.0)
        if goal.strip():
            self._set_goal(live, goal, inside=bool(info.parent))
        found = self.store.session(id)
        return info if found is None else found

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

    def _set_goal(self, live: LiveSession, goal: str, *, inside: bool) -> None:
        if inside:
            if not any(block.source == "agent:goal" and block.content == goal for block in live.session.blocks):
                self.add(live.id, goal, source="agent:goal")
        elif live.session.goal != goal and not _was_last_message(live, goal):
            self._put(live, SessionEntry(EntrySort.GOAL, self._clock(), content=encode_text(goal[:MAX_CONTENT])))
            self._current(live.id)

    def end(self, session: str) -> None:
        """The run is over; one that goes on all the same is not refused."""
        self.store.end(check_name(session, "a session's id"), self._clock())
        with self._lock:
            self._live.pop(session, None)

    def session(self, id: str) -> SessionInfo | None:
        return self.store.session(id) if is_valid_name(id) else None

    def sessions(self, *, limit: int = 50, before: int | None = None, q: str = "") -> list[SessionInfo]:
        """The newest first; `before` is the `number` of the last one of the page before."""
        return self.store.sessions(limit=_bounded_page(limit), before=before, q=q)

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
        """Take a piece of context in; it is kept when this returns. The same again, by its `key`, is kept once.

        A text that is longer than the scanner reads is kept as far as that, and counts as one not read to its end.
        Where it cannot be kept the session's context counts as unknown from then on, wherever it goes on.
        """
        check_name(session, "a session's id")
        if key:
            check_name(key, "a block's key")
        try:
            live = self._current(session)
            asked = Piece(content, source, trust, kind, [_block_id(each) for each in tainted_by], key)
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
        if live.approval_open and place.trust is Trust.UNTRUSTED and not source.startswith("agent"):
            live.approval_open = False
            live.session.void_approvals()
        return place

    def restore(self, session: str, blocks: Iterable[Piece]) -> SessionInfo:
        """Give a session back what it had read before: from here on its context is known.

        Pieces that are there already, by their keys, are not taken in again.
        """
        live = self._current(check_name(session, "a session's id"))
        pieces = [Piece(*piece) for piece in blocks]
        for piece in pieces:
            if piece.key:
                check_name(piece.key, "a block's key")
        try:
            if pieces:
                self._add(live, pieces)
            self._know(live, known=True)
        except (InvalidBlock, InvalidCall):
            raise
        except BaseException:
            self._miss(session)
            raise
        self._current(session)
        found = self.store.session(session)
        if found is None:
            raise SessionsUnavailable("the session that was kept cannot be read")
        return found

    def mark_context_unknown(self, session: str) -> None:
        """Something that the agent may have read was not taken in: its context counts as unknown from here on.

        A store that fails is no error: this host remembers it, and keeps it as soon as that can be.
        """
        self._miss(check_name(session, "a session's id"))
        with suppress(Exception):
            self._current(session)

    def _add(self, live: LiveSession, pieces: Sequence[Piece]) -> list[EntryPlace]:
        entries = []
        for piece in pieces:
            made = live.session.preview_block(
                piece.content, source=piece.source, trust=piece.trust, kind=piece.kind, tainted_by=piece.tainted_by
            )
            detail = (
                piece.source,
                None if piece.trust is None else made.trust.word if isinstance(piece.trust, Trust) else piece.trust,
                None if piece.kind is None else Kind(piece.kind).value,
                list(piece.tainted_by),
            )
            content = encode_text(piece.content[:MAX_CONTENT])
            live.kept_blocks, live.kept_size = live.kept_blocks + 1, live.kept_size + len(content)
            if live.kept_blocks > MAX_BLOCKS or live.kept_size > MAX_SIZE:
                self._know(live, known=False)
                raise InvalidBlock(
                    f"session {quoted(live.id)} is full, and its context counts as unknown from here on",
                    hint="start a new session",
                )
            entries.append(SessionEntry(EntrySort.BLOCK, self._clock(), piece.key, content, to_json(detail)))
        return self._put(live, *entries)

    def blocks(self, session: str) -> list[Block]:
        if not is_valid_name(session) or self.store.session(session) is None:
            return []
        return list(self._current(session).session.blocks)

    def lineage(self, session: str, block: str) -> Lineage:
        if not is_valid_name(session) or self.store.session(session) is None:
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
    ) -> StoredRuling:
        """Rule on one call before it runs: only CONTINUE lets it run. `key` is what the host calls it.

        `findings` is what the host knows against the call itself: with any, it is escalated. When this returns, the
        ruling is in the journal and in the store.
        """
        live, why = self._looked(session, key)
        context = live.session.block_count
        decision = live.session.check(tool, arguments, annotations=annotations, findings=findings)
        return self._keep(live, tool, arguments, annotations, decision, context, key, why)

    async def check_async(
        self,
        session: str,
        tool: str,
        arguments: Mapping[str, object],
        *,
        annotations: Mapping[str, object] | None = None,
        key: str = "",
        findings: Sequence[Finding] = (),
    ) -> StoredRuling:
        """The same for a caller on an event loop."""
        from asyncio import to_thread

        if self.gate.triage is None and self.gate.supervisor is None:
            # Nobody is waited for but disks: one thread does it all.
            return await to_thread(
                self.check, session, tool, arguments, annotations=annotations, key=key, findings=findings
            )
        passed = await to_thread(self._passed_at_once, session, tool, arguments, annotations, key, findings)
        if isinstance(passed, StoredRuling):
            return passed
        live, why = passed
        context = live.session.block_count
        decision = await live.session.check_async(tool, arguments, annotations=annotations, findings=findings)
        return await to_thread(self._keep, live, tool, arguments, annotations, decision, context, key, why)

    def _passed_at_once(
        self,
        session: str,
        tool: str,
        arguments: Mapping[str, object],
        annotations: Mapping[str, object] | None,
        key: str,
        findings: Sequence[Finding],
    ) -> StoredRuling | tuple[LiveSession, str]:
        """All three in one thread for what Tier 1 settles, which is nearly everything; else what there is of them."""
        live, why = self._looked(session, key)
        context = live.session.block_count
        decision = live.session.check_at_once(tool, arguments, annotations=annotations, findings=findings)
        if decision is None:
            return live, why
        return self._keep(live, tool, arguments, annotations, decision, context, key, why)

    def _looked(self, session: str, key: str) -> tuple[LiveSession, str]:
        """1. The session as it stands now; and why it does not, where the store cannot say."""
        check_name(session, "a session's id")
        if key:
            check_name(key, "a call's key")
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
                live = LiveSession(SessionInfo(session), alone, (0,))
            return live, error_text(error)

    def _keep(
        self,
        live: LiveSession,
        tool: str,
        arguments: Mapping[str, object],
        annotations: Mapping[str, object] | None,
        decision: Decision,
        context: int,
        key: str,
        why: str,
        *also: SessionEntry,
        called: bool = True,
    ) -> StoredRuling:
        """3. The ruling once it is kept, with what else follows from it; or what follows from its not being so."""
        id, now = f"d{os.urandom(8).hex()}", self._clock()
        if decision.reason is Reason.JOURNAL_UNAVAILABLE:
            self._unrecorded_at = self._steady()
        elif decision.receipt is not None:
            self._unrecorded_at = -inf
        if not why:
            entry = SessionEntry(
                EntrySort.RULING,
                now,
                key,
                b"" if called else NO_CALL,
                ruling_to_json(tool, arguments, annotations, decision, context, partial(_arguments_hash, arguments)),
                searchable_ruling(id, live.host, tool, decision, arguments),
            )
            try:
                put = self._put_ruling(live, id, entry, *also)
            except Exception as error:  # noqa: BLE001  # whatever it is, the ruling may not be kept
                why = error_text(error)
            else:
                live.approval_open = live.approval_open or bool(decision.approval)
                told = None if annotations is None else dict(annotations)
                arguments = dict(arguments)
                return StoredRuling(
                    id, put.seq, live.id, live.host, put.n, now, key, tool, arguments, told, decision, context
                )
        held = decide_unrecorded(decision, live.session.policy, why)
        if held.action is not decision.action:
            # The ruling is in the journal, and does not count: what is returned instead has to follow it there.
            with suppress(LockgateError):
                held = live.session.record_ruling(ToolCall(tool, arguments), held)
        told = None if annotations is None else dict(annotations)
        return StoredRuling(id, 0, live.id, live.host, 0, now, key, tool, dict(arguments), told, held, context)

    def _put_ruling(self, live: LiveSession, id: str, *entries: SessionEntry) -> EntryPlace:
        # Before it can be read by anybody: whoever catches up meanwhile must know that it is ours.
        live.own_rulings.add(id)
        try:
            put, *more = self._put(live, *entries, ruling=True)
        except BaseException:
            live.own_rulings.discard(id)
            # It may be there all the same, and is then read as everybody else's.
            live.is_outdated = True
            raise
        with live.lock:
            if not more and put.last <= live.cursor < put.seq:
                live.cursor = put.seq
                live.own_rulings.discard(id)
        return put

    def outcome(self, session: str, key: str, ran: str) -> bool:
        """Note what became of a call: `ran`, `failed` or `not-run`. False where no ruling has this key."""
        if ran not in RAN:
            raise InvalidCall(f"unknown outcome {quoted(ran)}", hint=f"use one of: {', '.join(RAN)}")
        check_name(session, "a session's id")
        check_name(key, "a call's key")
        return self.store.set_outcome(session, key, ran)

    def decision(self, id: str) -> StoredRuling | None:
        found = self.store.ruling(id) if is_valid_name(id) else None
        return None if found is None else _kept_from_row(*found)

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
        """The newest first, or with `after` those that follow that `seq`, oldest first."""
        asked = RulingFilter(session, action, tier, tool, rule, host, q, after, before, _bounded_page(limit))
        return [_kept_from_row(*found) for found in self.store.rulings(asked)]

    def stats(self, *, since: float, bucket_s: float) -> Stats:
        if not isfinite(since):
            raise InvalidCall("stats need a time in seconds")
        return stats_from_tallies(self.store.tallies(since), since=since, until=self._clock(), bucket_s=bucket_s)

    def close(self) -> None:
        self._closed.set()
        with self._lock:
            self._live.clear()
        self.store.close()


def _was_last_message(live: LiveSession, goal: str) -> bool:
    """Whether these were the user's words already, and nothing came after: then a host is asking once more."""
    blocks = live.session.blocks
    return bool(blocks) and blocks[-1].source == "user" and blocks[-1].content == goal[:MAX_CONTENT]


def _kept_from_row(row: SessionRow, session: str, host: str) -> StoredRuling:
    try:
        return ruling_from_row(row, session, host)
    except ValueError:
        # One that is damaged must not hide the others.
        return damaged_ruling_from_row(row, session, host)


def _arguments_hash(arguments: Mapping[str, object]) -> str:
    """As the journal has it; empty where nobody could say."""
    try:
        return hash_arguments(arguments, flatten_arguments(arguments)[0])
    except (LockgateError, TypeError, ValueError, RecursionError):
        return ""


def _block_id(block: str | Block) -> str:
    return block.id if isinstance(block, Block) else block


def is_valid_name(text: str) -> bool:
    try:
        check_name(text, "an id")
    except InvalidCall:
        return False
    return True


def _bounded_page(limit: int) -> int:
    return max(1, min(int(limit), MAX_PAGE))
