"""Sessions in tables: the statements that SQLite and PostgreSQL both understand.

A subclass says how a transaction begins and ends, and how an entry gets the next number.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache, partial
from hashlib import sha256
from json import loads
from typing import Any, Protocol

from lockgate.core.errors import SessionsUnavailable
from lockgate.sessions.session_entries import (
    BLOCKS,
    CLAIMED,
    EntryPlace,
    EntrySort,
    RulingFilter,
    RulingTally,
    SessionEntry,
    SessionInfo,
    SessionRow,
    decode_text,
    searchable_text,
    storable_text,
    to_json,
)

_FETCHED_AT_ONCE = 1_000
_MAX_GOAL = 2_000
_MAX_SCOPE = 100_000

# As SQLite has them; PostgreSQL calls three of the types by other names.
TABLES = """
CREATE TABLE sessions (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    host TEXT NOT NULL,
    goal TEXT NOT NULL,
    mode TEXT NOT NULL,
    scope TEXT NOT NULL,
    parent TEXT NOT NULL,
    meta TEXT NOT NULL,
    created_at REAL NOT NULL,
    seen_at REAL NOT NULL,
    ended_at REAL NOT NULL,
    context_known INTEGER NOT NULL,
    asked INTEGER NOT NULL,
    blocks INTEGER NOT NULL,
    decisions INTEGER NOT NULL,
    size BIGINT NOT NULL
);
CREATE TABLE entries (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    session BIGINT NOT NULL,
    n INTEGER NOT NULL,
    sort TEXT NOT NULL,
    at REAL NOT NULL,
    key TEXT NOT NULL,
    content BLOB NOT NULL,
    detail TEXT NOT NULL,
    id TEXT,
    host TEXT,
    tool TEXT,
    action TEXT,
    tier INTEGER,
    reason TEXT,
    rules TEXT,
    latency_us REAL,
    cost_usd REAL,
    approval TEXT,
    said TEXT,
    words TEXT,
    ran TEXT NOT NULL DEFAULT ''
);
CREATE TABLE forgotten (
    id TEXT PRIMARY KEY,
    at REAL NOT NULL
) WITHOUT ROWID;
CREATE INDEX entries_by_session ON entries (session, seq);
CREATE UNIQUE INDEX entries_by_key ON entries (session, sort, key) WHERE key != '' AND sort != 'ruling';
CREATE UNIQUE INDEX entries_by_id ON entries (id) WHERE id IS NOT NULL;
CREATE INDEX entries_by_call ON entries (session, key) WHERE key != '' AND sort = 'ruling';
CREATE INDEX entries_in_time ON entries (at) WHERE sort = 'ruling';
"""
_SESSION = (
    "id, host, goal, mode, scope, parent, meta, created_at, seen_at, ended_at, context_known, asked, blocks, "
    "decisions, size, number"
)
_ROW = "e.seq, e.session, e.n, e.sort, e.at, e.key, e.content, e.detail, coalesce(e.id, ''), e.ran"
_ENTRY = "session, n, sort, at, key, content, detail"
_RULED = "id, host, tool, action, tier, reason, rules, latency_us, cost_usd, approval, said, words, ran"
_NEWEST = "SELECT coalesce(max(seq), 0) FROM entries WHERE session = ?"
_STANDING = f"SELECT blocks, decisions, ({_NEWEST}) FROM sessions WHERE number = ?"  # noqa: S608


class Database(Protocol):
    """What a transaction gives: statements with a `?` for each value."""

    def execute(self, statement: str, values: Sequence[object] = (), /) -> Any: ...


class SqlSessions:
    """A `lockgate.sessions.SessionStore`, but for its connections."""

    # What says at which place a text stands in another.
    _find = "instr"

    def _write_transaction(self) -> AbstractContextManager[Database]:
        """One transaction, with every other writer kept out from the first read on."""
        raise NotImplementedError

    def _read_connection(self) -> AbstractContextManager[Database | None]:
        """For one statement; None while there are no tables yet."""
        raise NotImplementedError

    def _quick_read_connection(self) -> AbstractContextManager[Database | None]:
        """The same for a statement that reads little, and in the way of every ruling."""
        return self._read_connection()

    def _insert(self, db: Database, columns: str, values: Sequence[object]) -> int:
        """Insert an entry; return its number, which no other entry has had."""
        raise NotImplementedError

    def create(self, info: SessionInfo) -> SessionInfo:
        before = (
            info.id,
            info.host,
            storable_text(info.goal, _MAX_GOAL),
            info.mode,
            storable_text(info.scope, _MAX_SCOPE),
            info.parent,
            to_json(info.meta),
            info.created_at,
            info.seen_at,
            info.ended_at,
        )
        # Most are there already, and to read that keeps no writer out.
        there = self.session(info.id)
        if there is not None:
            return there
        columns, places = _SESSION.removesuffix(", number"), ", ".join("?" * (len(before) + 5))
        with self._write_transaction() as db:
            there = self._select_session(db, info.id)
            if there is not None:
                return there
            known = int(info.context_known and not self._is_forgotten(db, info.id))
            values = (*before, known, int(info.asked), 0, 0, 0)
            db.execute(f"INSERT INTO sessions ({columns}) VALUES ({places})", values)  # noqa: S608
            made = self._select_session(db, info.id)
            if made is None:
                raise SessionsUnavailable("the session store lost a row it just wrote")
            return made

    @staticmethod
    def _is_forgotten(db: Database, id: str) -> bool:
        return db.execute("SELECT 1 FROM forgotten WHERE id = ?", (_digest(id),)).fetchone() is not None

    def append(self, sessions: Sequence[int], entries: Sequence[SessionEntry]) -> list[EntryPlace] | None:
        with self._write_transaction() as db:
            return self._append(db, sessions, entries)

    def enqueue(
        self, sessions: Sequence[int], entries: Sequence[SessionEntry]
    ) -> Callable[[], list[EntryPlace] | None]:
        return partial(self.append, sessions, entries)

    def _append(
        self, db: Database, sessions: Sequence[int], entries: Sequence[SessionEntry]
    ) -> list[EntryPlace] | None:
        number = sessions[0]
        standing = db.execute(_STANDING, (number, number)).fetchone()
        if standing is None:
            return None
        blocks, decisions, last = standing
        for other in sessions[1:]:
            last = max(last, db.execute(_NEWEST, (other,)).fetchone()[0])
        puts: list[EntryPlace] = []
        size, asked = 0, 0
        for entry in entries:
            there, key = self._find_duplicate(db, number, entry)
            if there is not None:
                puts.append(EntryPlace(*there, last, again=True))
                continue
            blocks += entry.sort in BLOCKS
            decisions += entry.ruled is not None
            n = decisions if entry.ruled is not None else blocks if entry.sort in BLOCKS else 0
            values = (number, n, entry.sort.value, entry.at, key, entry.content, entry.detail)
            if entry.ruled is None:
                seq = self._insert(db, _ENTRY, values)
                _update_session(db, number, entry)
            else:
                seq = self._insert(db, f"{_ENTRY}, {_RULED}", (*values, *entry.ruled))
                asked = asked or int(bool(entry.ruled.approval))
            puts.append(EntryPlace(seq, n, last))
            last, size = seq, size + len(entry.content)
        at = max(entry.at for entry in entries)
        db.execute(
            "UPDATE sessions SET seen_at = CASE WHEN seen_at < ? THEN ? ELSE seen_at END, blocks = ?, "
            "decisions = ?, size = size + ?, asked = CASE WHEN ? = 1 THEN 1 ELSE asked END WHERE number = ?",
            (at, at, blocks, decisions, size, asked, number),
        )
        return puts

    @staticmethod
    def _find_duplicate(db: Database, number: int, entry: SessionEntry) -> tuple[tuple[int, int] | None, str]:
        """The same entry where it is there under its key already; else the key to keep it under.

        Hosts use keys twice, and an attacker who knows the next key could use it first. So an entry that says something
        else is kept all the same, under another key that the same text finds again.
        """
        if entry.ruled is not None or not entry.key:
            return None, entry.key
        statement = (
            "SELECT seq, n, content, detail FROM entries "
            "WHERE session = ? AND sort = ? AND key = ? AND key != '' AND sort != 'ruling'"
        )
        said = sha256(entry.detail.encode() + b"\0" + entry.content).hexdigest()
        for key in (entry.key, f"{entry.key[:100]} {said}"):
            found = db.execute(statement, (number, entry.sort.value, key)).fetchone()
            if found is None:
                return None, key
            if bytes(found[2]) == entry.content and found[3] == entry.detail:
                return (found[0], found[1]), key
        return None, ""

    def read_entries(self, sessions: Sequence[int], after: int, *, rulings_after: int = 0) -> list[SessionRow]:
        # From the beginning it may be much: then no writer waits for it.
        with self._quick_read_connection() if after else self._read_connection() as db:
            if db is None:
                return []
            if len(sessions) == 1 and not rulings_after:
                statement = f"SELECT {_ROW} FROM entries e WHERE session = ? AND seq > ? ORDER BY seq"  # noqa: S608
                return [SessionRow(*row) for row in db.execute(statement, (sessions[0], after))]
            places = ", ".join("?" * len(sessions))
            statement = (
                f"SELECT {_ROW} FROM entries e WHERE session IN ({places}) AND seq > ? "  # noqa: S608
                "AND (sort != 'ruling' OR (session = ? AND seq > ?)) ORDER BY seq"
            )
            return [SessionRow(*row) for row in db.execute(statement, (*sessions, after, sessions[0], rulings_after))]

    def ruling_cursor(self, session: int, count: int) -> int:
        statement = "SELECT seq FROM entries WHERE session = ? AND sort = 'ruling' ORDER BY seq DESC LIMIT 1 OFFSET ?"
        with self._read_connection() as db:
            found = None if db is None else db.execute(statement, (session, count)).fetchone()
            return int(found[0]) if found else 0

    def end(self, session: str, at: float) -> None:
        with self._write_transaction() as db:
            db.execute("UPDATE sessions SET ended_at = ? WHERE id = ?", (at, session))

    def session(self, id: str) -> SessionInfo | None:
        with self._read_connection() as db:
            return None if db is None else self._select_session(db, id)

    @staticmethod
    def _select_session(db: Database, id: str) -> SessionInfo | None:
        row = db.execute(f"SELECT {_SESSION} FROM sessions WHERE id = ?", (id,)).fetchone()  # noqa: S608
        return None if row is None else _info_from_row(row)

    def sessions(self, *, limit: int, before: int | None, q: str) -> list[SessionInfo]:
        where = ["1 = 1"]
        values: list[object] = []
        if before is not None:
            where.append("number < ?")
            values.append(_clamp(before))
        if q:
            where.append(f"{self._find}(lower(id || ' ' || goal || ' ' || host), ?) > 0")
            values.append(storable_text(q).lower())
        statement = f"SELECT {_SESSION} FROM sessions WHERE {' AND '.join(where)} ORDER BY number DESC LIMIT ?"  # noqa: S608
        with self._read_connection() as db:
            return [] if db is None else [_info_from_row(row) for row in db.execute(statement, (*values, limit))]

    def ruling(self, id: str) -> tuple[SessionRow, str, str] | None:
        found = self._select_rulings(["e.id = ?"], [storable_text(id)], "", 1)
        return found[0] if found else None

    def rulings(self, asked: RulingFilter) -> list[tuple[SessionRow, str, str]]:
        where: list[str] = []
        values: list[object] = []
        for name, value in (
            ("s.id", storable_text(asked.session)),
            ("e.action", storable_text(asked.action)),
            ("e.tier", asked.tier),
            ("e.tool", storable_text(asked.tool)),
            ("e.host", storable_text(asked.host)),
        ):
            if isinstance(value, str) and (inner := _wanted_part(value)):
                where.append(self._part_clause(name))
                values += [inner.lower(), inner]
            elif value:
                where.append(f"{name} = ?")
                values.append(_clamp(value) if isinstance(value, int) else value)
        if inner := _wanted_part(storable_text(asked.rule)):
            where.append(self._part_clause("e.rules"))
            values += [inner.lower(), inner]
        elif asked.rule:
            where.append(f"{self._find}(e.rules, ?) > 0")
            values.append(f" {storable_text(asked.rule)} ")
        if asked.q:
            where.append(f"{self._find}(e.words, ?) > 0")
            values.append(searchable_text(asked.q[:1_000]))
        if asked.after:
            where.append("e.seq > ?")
            values.append(_clamp(asked.after))
        if asked.before is not None:
            where.append("e.seq < ?")
            values.append(_clamp(asked.before))
        return self._select_rulings(where, values, "" if asked.after else "DESC", asked.limit)

    def _part_clause(self, name: str) -> str:
        # Also as it was written: SQLite knows no small letters beyond ASCII.
        return f"({self._find}(lower({name}), ?) > 0 OR {self._find}({name}, ?) > 0)"

    def count_pauses(self, sessions: Sequence[int]) -> dict[int, int]:
        if not sessions:
            return {}
        statement = (
            "SELECT session, count(*) FROM entries WHERE sort = 'ruling' AND action = 'PAUSE' "  # noqa: S608
            f"AND session IN ({', '.join('?' * len(sessions))}) GROUP BY session"
        )
        with self._read_connection() as db:
            return {} if db is None else dict(db.execute(statement, tuple(sessions)).fetchall())

    def _select_rulings(
        self, where: Sequence[str], values: Iterable[object], order: str, limit: int
    ) -> list[tuple[SessionRow, str, str]]:
        wanted = " AND ".join(("e.sort = 'ruling'", *where))
        statement = (
            f"SELECT {_ROW}, s.id, e.host FROM entries e JOIN sessions s ON s.number = e.session "  # noqa: S608
            f"WHERE {wanted} ORDER BY e.seq {order} LIMIT ?"
        )
        with self._read_connection() as db:
            found = [] if db is None else db.execute(statement, (*values, limit)).fetchall()
        return [(SessionRow(*row[:-2]), row[-2], row[-1]) for row in found]

    def set_outcome(self, session: str, key: str, ran: str) -> bool:
        with self._write_transaction() as db:
            changed = db.execute(
                "UPDATE entries SET ran = ? WHERE seq = (SELECT max(e.seq) FROM entries e JOIN sessions s "
                "ON s.number = e.session WHERE s.id = ? AND e.key = ? AND e.key != '' AND e.sort = 'ruling')",
                (ran, session, key),
            )
            return bool(changed.rowcount == 1)

    def tallies(self, since: float) -> Iterator[RulingTally]:
        after = 0
        statement = (
            "SELECT at, tier, action, reason, rules, latency_us, cost_usd, said, tool, host, seq FROM entries "
            "WHERE sort = 'ruling' AND at >= ? AND seq > ? ORDER BY seq LIMIT ?"
        )
        while True:
            with self._read_connection() as db:
                rows = [] if db is None else db.execute(statement, (since, after, _FETCHED_AT_ONCE)).fetchall()
            yield from (RulingTally(*row[:-1]) for row in rows)
            if len(rows) < _FETCHED_AT_ONCE:
                return
            after = rows[-1][-1]

    def last_seen_at(self) -> float:
        with self._read_connection() as db:
            found = None if db is None else db.execute("SELECT max(seen_at) FROM sessions").fetchone()
            return float(found[0] or 0.0) if found else 0.0

    def prune(self, before: float, most: int, spare: Collection[str] = ()) -> int:
        with self._write_transaction() as db:
            found = db.execute(
                "SELECT number, id FROM sessions WHERE seen_at < ? ORDER BY seen_at LIMIT ?",
                (before, most + len(spare)),
            ).fetchall()
            gone = [(number, id) for number, id in found if id not in spare][:most]
            for number, id in gone:
                db.execute("DELETE FROM entries WHERE session = ?", (number,))
                db.execute("DELETE FROM sessions WHERE number = ?", (number,))
                # A client that goes on with it must not pass for one that begins a session.
                db.execute("INSERT INTO forgotten VALUES (?, ?) ON CONFLICT (id) DO NOTHING", (_digest(id), before))
            return len(gone)


def _update_session(db: Database, number: int, entry: SessionEntry) -> None:
    """What an entry says of its session as a whole."""
    if entry.sort == EntrySort.GOAL:
        goal = storable_text(decode_text(entry.content), _MAX_GOAL)
        db.execute("UPDATE sessions SET goal = ? WHERE number = ? AND goal = ''", (goal, number))
    elif entry.sort == EntrySort.MARK:
        db.execute("UPDATE sessions SET context_known = ? WHERE number = ?", (int(entry.detail == "known"), number))
        if entry.detail == CLAIMED:
            db.execute("UPDATE sessions SET meta = '{}' WHERE number = ?", (number,))
    elif entry.sort == EntrySort.MODE:
        mode, scope = loads(entry.detail)
        db.execute(
            "UPDATE sessions SET mode = ?, scope = ? WHERE number = ?", (mode, storable_text(scope, _MAX_SCOPE), number)
        )


@lru_cache(1024)
def _digest(session: str) -> str:
    """What stands for the id of a forgotten session: the id itself may say what it was about."""
    return sha256(session.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _wanted_part(value: str) -> str:
    """Return what `*part*` asks for in any place of a name; empty where the value asks for one exact name.

    A name with such asterisks of its own has the part in it too, so that no name hides behind them.
    """
    return value[1:-1] if len(value) > 2 and value[0] == value[-1] == "*" else ""


def _clamp(number: int) -> int:
    """Return the number cut to what a column can hold: a client's cursor may be any integer."""
    return max(0, min(int(number), 2**62))


def _info_from_row(row: tuple[Any, ...]) -> SessionInfo:
    id, host, goal, mode, scope, parent, meta, created_at, seen_at, ended_at, known, asked, *counts = row
    try:
        told = loads(meta)
    except ValueError:
        # One that is damaged must not hide the others.
        told = {}
    return SessionInfo(
        id, host, goal, mode, scope, parent, told, created_at, seen_at, ended_at, bool(known), bool(asked), *counts
    )
