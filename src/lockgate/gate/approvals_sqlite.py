"""Approvals in a file that several processes share: the agent's host asks, a person's command answers.

Nothing stays open between two calls, so a fork, a thread or a replaced file is no special case. A process that can
write the file can approve, so the file is used only if its owner alone can write it and its folder.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path

from lockgate.core.errors import InvalidCall, quoted
from lockgate.core.ruling.approvals import (
    KEPT_S,
    MARKED_S,
    MAX_KEPT,
    MAX_WHY,
    NOT_SAID,
    SKEW_S,
    AnswerResult,
    Approval,
    ApprovalAnswer,
    ApprovalChange,
    ApprovalMark,
    ApprovalState,
    BoundCall,
    GrantState,
    PendingApproval,
    RecordChanges,
    TakeResult,
    VoidReason,
    change_from_approval,
    deny_same_call,
    details_from_json,
    details_to_json,
    expire_if_due,
    find_existing_id,
    find_replaced,
    has_room,
    is_approval_id,
    parse_answer,
    parse_time,
    take_approval,
)
from lockgate.core.ruling.grants import apply_answer_with_span, change_from_grant
from lockgate.gate.grants_sqlite import SqliteGrants, insert_grant
from lockgate.gate.notices_sqlite import SqliteNotices
from lockgate.runtime.private_files import PrivateFileKind
from lockgate.runtime.sqlite_file import DatabaseKind, SqliteFile

_DAY_S = 86_400.0

# PostgreSQL has the same ones, under other names for some types.
TABLES = """
CREATE TABLE approvals (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    session TEXT NOT NULL,
    tool TEXT NOT NULL,
    arguments TEXT NOT NULL,
    policy_hash TEXT NOT NULL,
    context TEXT NOT NULL,
    digest TEXT NOT NULL,
    matter TEXT NOT NULL,
    created_s REAL NOT NULL,
    expires_s REAL NOT NULL,
    shown TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('waiting', 'granted', 'denied', 'expired', 'used', 'voided')),
    who TEXT,
    said_s REAL,
    reason TEXT,
    ended_s REAL NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX one_open_question ON approvals (session, digest) WHERE state IN ('waiting', 'granted');
CREATE INDEX by_matter ON approvals (matter);
CREATE INDEX by_state ON approvals (state, session);
CREATE TABLE marks (
    session TEXT NOT NULL,
    matter TEXT NOT NULL,
    id TEXT NOT NULL,
    who TEXT,
    said_s REAL,
    seen_s REAL NOT NULL,
    PRIMARY KEY (session, matter),
    CHECK ((who IS NULL) = (said_s IS NULL))
) WITHOUT ROWID;
"""
START_OVER = "move the file away to begin anew: what waited in it is asked again, and so is what was denied"
# "lkga" identifies our files, to us and to tools that show it.
_KIND = DatabaseKind(
    private=PrivateFileKind("the approvals store", "approve anything in it", "store"),
    title="the approvals store {}",
    noun="a store of approvals",
    application_id=0x6C6B6761,
    version=2,
    tables=TABLES,
    # A yes must be spent for good before its call runs, and a deleted call must be gone.
    pragmas=(("synchronous", "FULL"), ("secure_delete", "ON"), ("trusted_schema", "OFF")),
    busy_s=5.0,
    start_over=START_OVER,
)
_COLUMNS = (
    "id, session, tool, arguments, policy_hash, context, digest, matter, created_s, expires_s, shown, state, who, "
    "said_s, reason, ended_s"
)
_OPEN = "state IN ('waiting', 'granted')"


def is_not_ended(_: str) -> bool:
    return False


class SqliteApprovals(SqliteGrants, SqliteNotices):
    """Questions to a person in one file. The file and its folder are made when the first question is asked.

    `record` is told of every change once it is written and before it is committed; where it raises, the change is taken
    back. So nothing takes effect without its record; what is recorded and then cannot be committed has no effect.
    `ended` says whether the record has the end of an answer or a grant: a file that was put back as it was has not.
    """

    # How long a mark is kept after its session was last heard of.
    _marked_s = MARKED_S

    def __init__(
        self, path: Path, *, record: RecordChanges | None = None, ended: Callable[[str], bool] = is_not_ended
    ) -> None:
        self.path, self._ended = path, ended
        self._file = SqliteFile(path, _KIND)
        self._record = record

    def ask(self, pending: PendingApproval) -> str:
        """Keep the question; return the id under which the call waits, an earlier one if it waits already.

        Return an empty id when too many are open: the call then pauses, and no person is asked.
        """
        self._create_file()
        with self._transaction(pending.created_s, pending.session) as (db, changed):
            mark = self._read_mark(db, pending.bound)
            asked = {each.pending.id: each for each in self._approvals_on_matter(db, pending.call_key)}
            known = find_existing_id(pending, mark, asked.values())
            if not known:
                if db.execute("SELECT 1 FROM approvals WHERE id = ?", (pending.id,)).fetchone():
                    raise InvalidCall(f"approval {quoted(pending.id)} is already there")
                counts = db.execute(
                    f"SELECT count(*), coalesce(sum(CASE WHEN session = :session THEN 1 ELSE 0 END), 0), "  # noqa: S608
                    f"(SELECT count(*) FROM marks WHERE session = :session AND matter != :matter) "
                    f"FROM approvals WHERE {_OPEN}",
                    {"session": pending.session, "matter": pending.call_key},
                )
                if not has_room(*counts.fetchone()):
                    return ""
                for old in find_replaced(pending, asked.values(), pending.created_s):
                    self._update(db, old, asked[old.pending.id].state)
                    changed.append(change_from_approval(old))
                places = ", ".join("?" * len(_COLUMNS.split(",")))
                db.execute(
                    f"INSERT INTO approvals ({_COLUMNS}) VALUES ({places})",  # noqa: S608
                    _row_from_approval(Approval(pending)),
                )
                changed.append(change_from_approval(Approval(pending)))
            if mark is None or mark.no is None:
                self._write_mark(db, pending, ApprovalMark(known or pending.id), pending.created_s)
            return known or pending.id

    def answer(
        self,
        id: str,
        *,
        digest: str,
        yes: bool,
        who: str,
        now_s: float,
        reason: str = "",
        span: str = "",
        person: str = "",
    ) -> AnswerResult:
        """Record a person's answer if it is the first, in time, and about the call of this digest.

        With a `span` the yes also makes the grant of that span, and the digest is that of its offer. `person` is who
        it is proved to come from: where two people are needed, only that name counts.
        """
        said = parse_answer(yes, who, reason, now_s)
        if not is_approval_id(id) or not self._file_exists():
            return AnswerResult(False, ApprovalState.UNKNOWN)
        with self._transaction(said.at_s) as (db, changed):
            found = self._select(db, "WHERE id = ?", id)
            if not found:
                return AnswerResult(False, ApprovalState.UNKNOWN)
            heard, grant = apply_answer_with_span(found[0], digest, said, span, person)
            if heard.counted and heard.approval is not None:
                self._update(db, heard.approval, ApprovalState.WAITING)
                changed.append(change_from_approval(heard.approval))
                if grant is not None:
                    insert_grant(db, grant)
                    changed.append(change_from_grant(grant, GrantState.MADE, said.who))
                if heard.state is ApprovalState.DENIED:
                    pending = heard.approval.pending
                    self._write_mark(db, pending, ApprovalMark(id, said), said.at_s)
                    others = {each.pending.id: each for each in self._approvals_on_matter(db, pending.call_key)}
                    for other in deny_same_call(others.values(), said):
                        self._update(db, other, others[other.pending.id].state)
                        changed.append(change_from_approval(other))
            return heard

    def take(self, bound: BoundCall, now_s: float) -> TakeResult:
        """Return what is answered to this call; a yes is handed out once, and is spent before that."""
        now_s = parse_time(now_s)
        if not self._file_exists():
            return TakeResult(ApprovalState.UNKNOWN)
        with self._transaction(now_s, bound.session) as (db, changed):
            asked = self._approvals_on_matter(db, bound.call_key)
            for spent in [each for each in asked if each.state is ApprovalState.GRANTED]:
                if self._ended(spent.pending.id):
                    gone = replace(spent, state=ApprovalState.VOIDED, ended_s=now_s)
                    self._update(db, gone, ApprovalState.GRANTED)
                    asked = self._approvals_on_matter(db, bound.call_key)
            near = [] if asked else self._similar_grants(db, bound)
            said, used = take_approval(bound, self._read_mark(db, bound), asked, near, now_s)
            if used is not None:
                self._update(db, used, said.state)
                changed.append(change_from_approval(used))
                db.execute("DELETE FROM marks WHERE session = ? AND matter = ?", (bound.session, bound.call_key))
            return said

    def denies(self, session: str) -> bool:
        """Return whether a person has said no to anything in this session."""
        if not _is_text(session) or not self._file_exists():
            return False
        with self._connection() as db:
            found = db.execute("SELECT 1 FROM marks WHERE session = ? AND who IS NOT NULL LIMIT 1", (session,))
            return found.fetchone() is not None

    def denials(self) -> set[str]:
        """Return the ids of all questions that a person said no to, and the calls they were about, while known."""
        if not self._file_exists():
            return set()
        with self._connection() as db:
            return {text for row in db.execute("SELECT id, matter FROM marks WHERE who IS NOT NULL") for text in row}

    def void(self, session: str, now_s: float, why: VoidReason = NOT_SAID) -> int:
        """End every open question of a session, answered or not; return how many there were."""
        now_s = parse_time(now_s)
        if not _is_text(session) or not self._file_exists():
            return 0
        with self._transaction(now_s) as (db, changed):
            ending = _pending_changes(db, ApprovalState.VOIDED, f"session = :session AND {_OPEN}", {"session": session})
            changed += [each._replace(block=why.block) for each in ending]
            ended = db.execute(
                f"UPDATE approvals SET state = 'voided', reason = ?, ended_s = ? "  # noqa: S608
                f"WHERE session = ? AND {_OPEN}",
                (why.text.encode("utf-8", "replace").decode()[:MAX_WHY], now_s, session),
            )
            return ended.rowcount

    def waiting(self, now_s: float) -> list[PendingApproval]:
        """Return the questions that wait for an answer, oldest first."""
        return [
            each.pending
            for each in self._read_approvals(now_s, "WHERE state = 'waiting'")
            if each.state is ApprovalState.WAITING
        ]

    def every(self, now_s: float) -> list[Approval]:
        """Return everything that is still kept, oldest first."""
        return self._read_approvals(now_s, "")

    def get(self, id: str, now_s: float) -> Approval | None:
        """Return the question of this id as it stands now; None where there is none."""
        found = self._read_approvals(now_s, "WHERE id = ?", id) if is_approval_id(id) else []
        return found[0] if found else None

    def find(self, start: str) -> list[str]:
        """Return at most three ids that begin so; a complete id matches only itself."""
        # What is no text to SQLite begins no id; and an id has only letters and digits.
        if not start.isascii() or not self._file_exists():
            return []
        with self._connection() as db:
            if db.execute("SELECT 1 FROM approvals WHERE id = ?", (start,)).fetchone():
                return [start]
            # Not LIKE: a `%` that the operator typed would match every id.
            found = db.execute(
                "SELECT id FROM approvals WHERE substr(id, 1, ?) = ? ORDER BY number LIMIT 3", (len(start), start)
            )
            return [str(id) for (id,) in found]

    def _read_approvals(self, now_s: float, where: str, *values: object) -> list[Approval]:
        now_s = parse_time(now_s)
        if not self._file_exists():
            return []
        with self._connection() as db:
            return [expire_if_due(each, now_s) for each in self._select(db, where, *values)]

    @staticmethod
    def _select(db: sqlite3.Connection, where: str, *values: object) -> list[Approval]:
        found = db.execute(f"SELECT {_COLUMNS} FROM approvals {where} ORDER BY number", values)  # noqa: S608
        return [_approval_from_row(row) for row in found]

    def _approvals_on_matter(self, db: sqlite3.Connection, matter: str) -> list[Approval]:
        return self._select(db, "WHERE matter = ?", matter)

    @staticmethod
    def _read_mark(db: sqlite3.Connection, bound: BoundCall) -> ApprovalMark | None:
        found = db.execute(
            "SELECT id, who, said_s FROM marks WHERE session = ? AND matter = ?", (bound.session, bound.call_key)
        ).fetchone()
        return None if found is None else _mark_from_row(*found)

    @staticmethod
    def _write_mark(db: sqlite3.Connection, pending: PendingApproval, mark: ApprovalMark, now_s: float) -> None:
        # Not the reason: it may say what the call was about, and that is not kept so long.
        db.execute(
            "INSERT INTO marks (session, matter, id, who, said_s, seen_s) VALUES (?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (session, matter) DO UPDATE SET id = excluded.id, who = excluded.who, "
            "said_s = excluded.said_s, seen_s = excluded.seen_s",
            (pending.session, pending.call_key, mark.id, mark.no and mark.no.who, mark.no and mark.no.at_s, now_s),
        )

    def _similar_grants(self, db: sqlite3.Connection, bound: BoundCall) -> list[Approval]:
        where = "WHERE state = 'granted' AND tool = ? AND (session = ? OR arguments = ?)"
        return self._select(db, where, bound.tool, bound.session, bound.arguments)

    @staticmethod
    def _update(db: sqlite3.Connection, approval: Approval, was: ApprovalState) -> None:
        said = approval.answered
        done = db.execute(
            "UPDATE approvals SET state = ?, who = ?, said_s = ?, reason = ?, ended_s = ? WHERE id = ? AND state = ?",
            (
                approval.state.value,
                said and said.who,
                said and said.at_s,
                _reason_column(approval),
                approval.ended_s,
                approval.pending.id,
                was.value,
            ),
        )
        if done.rowcount != 1:
            # Cannot happen while the lock is held. If it ever does, the caller must not act on what was read.
            raise sqlite3.DatabaseError("a question changed while it was locked")

    @contextmanager
    def _transaction(
        self, now_s: float, session: str = ""
    ) -> Iterator[tuple[sqlite3.Connection, list[ApprovalChange]]]:
        """Make one change, whole or not at all, with every other writer kept out from the first read on.

        `session` is the one that was heard of, if any: what a person said to it is not forgotten. What is put into the
        list is recorded before it holds.
        """
        # After an error the connection is closed without a COMMIT, which rolls back.
        with self._connection() as db:
            db.execute("BEGIN IMMEDIATE")
            changed = expire_old(db, now_s, session, self._marked_s)
            yield db, changed
            if changed and self._record is not None:
                self._record(changed)
            db.execute("COMMIT")

    # The other stores have other ones.

    def _connection(self) -> AbstractContextManager[sqlite3.Connection]:
        return self._file.connection()

    def _file_exists(self) -> bool:
        return self._file.exists()

    def _create_file(self) -> None:
        self._file.create()


def _pending_changes(
    db: sqlite3.Connection, state: ApprovalState, where: str, values: dict[str, object]
) -> list[ApprovalChange]:
    """What an UPDATE of these rows will have changed. Their other columns are not looked at: they may be damaged."""
    found = db.execute(f"SELECT session, id, digest FROM approvals WHERE {where}", values)  # noqa: S608
    return [ApprovalChange(str(session), str(id), state, str(digest)) for session, id, digest in found]


def expire_old(db: sqlite3.Connection, now_s: float, session: str, marked_s: float = MARKED_S) -> list[ApprovalChange]:
    """What has expired is so for good; what ended long ago is forgotten, and later that it was asked."""
    over = f"{_OPEN} AND NOT (created_s - :skew <= :now AND :now < expires_s)"
    at: dict[str, object] = {"now": now_s, "skew": SKEW_S}
    expired = _pending_changes(db, ApprovalState.EXPIRED, over, at)
    db.execute(f"UPDATE approvals SET state = 'expired', ended_s = :now WHERE {over}", at)  # noqa: S608
    db.execute(f"DELETE FROM approvals WHERE NOT {_OPEN} AND ended_s < ?", (now_s - KEPT_S,))  # noqa: S608
    db.execute(
        # The marks remember each no and each question: an agent cannot undo one by asking a thousand other things.
        f"DELETE FROM approvals WHERE NOT {_OPEN} AND number <= "  # noqa: S608
        f"(SELECT number FROM approvals WHERE NOT {_OPEN} ORDER BY number DESC LIMIT 1 OFFSET ?)",
        (MAX_KEPT,),
    )
    # A day is near enough, and most calls then write nothing here.
    db.execute("UPDATE marks SET seen_s = ? WHERE session = ? AND seen_s < ?", (now_s, session, now_s - _DAY_S))
    db.execute("DELETE FROM marks WHERE seen_s < ?", (now_s - marked_s,))
    return expired


def _row_from_approval(approval: Approval) -> tuple[object, ...]:
    pending, said = approval.pending, approval.answered
    return (
        pending.id,
        *pending.bound[:5],
        pending.digest,
        pending.call_key,
        pending.created_s,
        pending.expires_s,
        details_to_json(pending.shown),
        approval.state.value,
        said and said.who,
        said and said.at_s,
        _reason_column(approval),
        approval.ended_s,
    )


def _reason_column(approval: Approval) -> str | None:
    """Return why the question was voided, else why the person answered so: a voided yes has no other use."""
    if approval.state is ApprovalState.VOIDED:
        return approval.why
    return None if approval.answered is None else approval.answered.reason


def _approval_from_row(row: tuple[object, ...]) -> Approval:
    """A row as it was written, or an error: what is shown to a person must be what the digest was made from."""
    try:
        id, session, tool, arguments, policy_hash, context, digest, matter, created_s, expires_s, shown, *rest = row
        state, who, said_s, reason, ended_s = rest
        for text in (id, session, tool, arguments, policy_hash, context, digest, matter, shown):
            if not isinstance(text, str):
                raise TypeError("not text")
        details = details_from_json(shown)  # type: ignore[arg-type]
        bound = BoundCall(session, tool, arguments, policy_hash, context, details.files)  # type: ignore[arg-type]
        pending = PendingApproval(id, bound, created_s, expires_s, details)  # type: ignore[arg-type]
        why, reason = (reason or "", "") if state == "voided" else ("", reason)
        if not isinstance(why, str):
            raise TypeError("not text")
        said = None if who is None else ApprovalAnswer(state != "denied", who, parse_time(said_s), reason)  # type: ignore[arg-type]
        changed = pending.digest != digest or pending.call_key != matter
        if changed or (state in ("granted", "denied", "used") and said is None):
            raise ValueError("a row that was changed")
        return Approval(pending, ApprovalState(str(state)), said, parse_time(ended_s), why)
    except (TypeError, ValueError, InvalidCall) as error:
        raise sqlite3.DatabaseError(f"a row that is no question: {type(error).__name__}") from error


def _is_text(session: str) -> bool:
    """Whether SQLite can hold it; no question has a session that it cannot."""
    try:
        session.encode()
    except UnicodeEncodeError:
        return False
    return True


def _mark_from_row(id: object, who: object, said_s: object) -> ApprovalMark:
    if not isinstance(id, str) or not isinstance(who, str | None):
        raise sqlite3.DatabaseError("a row that is no mark")
    return ApprovalMark(id, None if who is None else ApprovalAnswer(False, who, parse_time(said_s)))
