"""The journal's log in PostgreSQL, for many hosts: one locked row, and every commit synced.

Every append is durable here, even if the caller did not ask for it: an unsynced commit can be lost when the server is
killed, and the server is another process. The journal's group commit makes up for the cost.

If a connection breaks during a commit, it is unknown whether the commit happened. The next transaction finds out: it
waits for the lock that the lost one held, and then looks for its last leaf.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from threading import Lock, Semaphore
from typing import TYPE_CHECKING

from lockgate.core.errors import JournalDamaged, JournalUnavailable, LockgateError, quoted
from lockgate.journal.log import Head, LogRow, Shard
from lockgate.journal.merkle import HASH, Frontier, Tile
from lockgate.runtime.forks import on_fork
from lockgate.runtime.postgres import (
    BUSY_S,
    LOCK_NOT_AVAILABLE,
    begin_at_once,
    close_quietly,
    error_name,
    open_connection,
    psycopg_error,
    take_place,
)
from lockgate.runtime.schema_steps import SchemaSteps

if TYPE_CHECKING:
    from lockgate.runtime.limited_connection import LimitedConnection

# The server's class of errors for a row that breaks a rule of its table.
_INTEGRITY_VIOLATION = "23"
# The advisory lock for creating the tables: two concurrent CREATEs fail even with IF NOT EXISTS.
_MAKING = 0x6C6B676A
_MAX_READERS = 4
_FETCHED_AT_ONCE = 1024

_TABLES = f"""
CREATE TABLE lockgate_shards (
    number integer PRIMARY KEY,
    vkey text NOT NULL UNIQUE,
    edge bytea NOT NULL,
    signed_edge bytea NOT NULL,
    pruned bigint NOT NULL DEFAULT 0,
    seal bytea NOT NULL
);
CREATE TABLE lockgate_leaves (
    shard integer NOT NULL,
    number bigint NOT NULL,
    hash bytea NOT NULL CHECK (length(hash) = {HASH}),
    PRIMARY KEY (shard, number)
);
CREATE TABLE lockgate_tiles (
    shard integer NOT NULL,
    level integer NOT NULL,
    number bigint NOT NULL,
    hash bytea NOT NULL CHECK (length(hash) = {HASH}),
    PRIMARY KEY (shard, level, number)
);
CREATE TABLE lockgate_bodies (
    shard integer NOT NULL,
    number bigint NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (shard, number)
);
CREATE TABLE lockgate_heads (
    shard integer NOT NULL,
    size bigint NOT NULL,
    note bytea NOT NULL,
    at_ms bigint NOT NULL,
    PRIMARY KEY (shard, size)
);
CREATE FUNCTION lockgate_grows() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'a log only grows' USING ERRCODE = 'integrity_constraint_violation'; END $$;
CREATE TRIGGER shards_stay BEFORE DELETE OR TRUNCATE ON lockgate_shards EXECUTE FUNCTION lockgate_grows();
CREATE TRIGGER shards_grow BEFORE UPDATE ON lockgate_shards FOR EACH ROW
WHEN (NEW.number <> OLD.number OR NEW.vkey <> OLD.vkey OR NEW.pruned < OLD.pruned
    OR (NEW.edge <> OLD.edge AND substr(NEW.edge, 1, 8) <= substr(OLD.edge, 1, 8))
    OR (NEW.signed_edge <> OLD.signed_edge AND substr(NEW.signed_edge, 1, 8) <= substr(OLD.signed_edge, 1, 8)))
EXECUTE FUNCTION lockgate_grows();
CREATE TRIGGER leaves_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON lockgate_leaves EXECUTE FUNCTION lockgate_grows();
CREATE TRIGGER tiles_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON lockgate_tiles EXECUTE FUNCTION lockgate_grows();
CREATE TRIGGER heads_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON lockgate_heads EXECUTE FUNCTION lockgate_grows();
CREATE TRIGGER bodies_keep BEFORE UPDATE OR TRUNCATE ON lockgate_bodies EXECUTE FUNCTION lockgate_grows();
CREATE FUNCTION lockgate_pruned() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.number >= (SELECT pruned FROM lockgate_shards WHERE number = OLD.shard) THEN
        RAISE EXCEPTION 'a log only grows' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER bodies_stay BEFORE DELETE ON lockgate_bodies FOR EACH ROW EXECUTE FUNCTION lockgate_pruned();
"""  # noqa: S608
# Each version of the tables; see `runtime/schema_steps.py` for what a step may do.
STEPS = ((2, _TABLES),)
VERSION_TABLE = "lockgate_log"
_APPEND = """
WITH leaves AS (
    INSERT INTO lockgate_leaves SELECT %(shard)s, * FROM unnest(%(numbers)s::bigint[], %(leaves)s::bytea[])
), bodies AS (
    INSERT INTO lockgate_bodies SELECT %(shard)s, * FROM unnest(%(numbers)s::bigint[], %(bodies)s::bytea[])
), tiles AS (
    INSERT INTO lockgate_tiles
    SELECT %(shard)s, * FROM unnest(%(levels)s::integer[], %(places)s::bigint[], %(hashes)s::bytea[])
)
UPDATE lockgate_shards SET edge = %(edge)s, seal = %(seal)s WHERE number = %(shard)s
"""
_SHARD = "SELECT number, vkey, edge, signed_edge, pruned, seal FROM lockgate_shards"
_HEAD = "SELECT size, note, at_ms FROM lockgate_heads WHERE shard = %s"


class PostgresLogReader:
    """The log as one transaction sees it."""

    def __init__(self, db: LimitedConnection) -> None:
        self._db = db

    def shards(self) -> list[Shard]:
        return [Shard(*row) for row in self._db.execute(f"{_SHARD} ORDER BY number", binary=True)]

    def current(self) -> Shard | None:
        row = self._db.execute(f"{_SHARD} ORDER BY number DESC LIMIT 1", binary=True).fetchone()
        return None if row is None else Shard(*row)

    def leaves(self, shard: int, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
        return self._select_numbered("SELECT number, hash FROM lockgate_leaves WHERE shard = %s", (shard,), start, stop)

    def tiles(self, shard: int, level: int, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
        select = "SELECT number, hash FROM lockgate_tiles WHERE shard = %s AND level = %s"
        return self._select_numbered(select, (shard, level), start, stop)

    def bodies(self, shard: int, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
        return self._select_numbered("SELECT number, body FROM lockgate_bodies WHERE shard = %s", (shard,), start, stop)

    def _select_numbered(self, select: str, of: tuple[int, ...], start: int, stop: int) -> Iterator[tuple[int, bytes]]:
        """Yield the rows in pieces: a log may not fit into memory, and callers read two cursors side by side."""
        while start < stop:
            rows = self._db.execute(
                f"{select} AND number >= %s AND number < %s ORDER BY number LIMIT %s",
                (*of, start, stop, _FETCHED_AT_ONCE),
                binary=True,
            ).fetchall()
            yield from rows
            if len(rows) < _FETCHED_AT_ONCE:
                return
            start = rows[-1][0] + 1

    def newest(self, shard: int) -> Head | None:
        row = self._db.execute(f"{_HEAD} ORDER BY size DESC LIMIT 1", (shard,), binary=True).fetchone()
        return None if row is None else Head(*row)

    def heads(self, shard: int) -> Iterator[Head]:
        start = -1
        while True:
            rows = self._db.execute(
                f"{_HEAD} AND size > %s ORDER BY size LIMIT %s", (shard, start, _FETCHED_AT_ONCE), binary=True
            ).fetchall()
            yield from (Head(*row) for row in rows)
            if len(rows) < _FETCHED_AT_ONCE:
                return
            start = rows[-1][0]


class PostgresLogWriter(PostgresLogReader):
    # The last leaf that this transaction added: if the connection breaks, it tells whether the commit happened.
    last: tuple[int, int, bytes] | None = None

    def open_shard(self, vkey: str) -> Shard:
        newest = self.current()
        empty = Frontier().to_bytes()
        shard = Shard(newest.number + 1 if newest else 1, vkey, empty, empty, 0)
        self._db.execute("INSERT INTO lockgate_shards VALUES (%s, %s, %s, %s, %s, %s)", shard)
        return shard

    def append(self, shard: Shard, rows: Sequence[LogRow], edge: bytes, tiles: Sequence[Tile], seal: bytes) -> bool:
        newest = self.current()
        if newest is None or (newest.number, newest.edge) != (shard.number, shard.edge):
            return False
        size = int.from_bytes(edge[:8], "big")
        numbers = list(range(size - len(rows), size))
        places = list(zip(*tiles, strict=True)) or [(), (), ()]
        # One statement, so one round trip; why no pipeline, says `begin_at_once`.
        changed = self._db.execute(
            _APPEND,
            {
                "shard": shard.number,
                "numbers": numbers,
                "leaves": [row.leaf for row in rows],
                "bodies": [row.body for row in rows],
                "levels": list(places[0]),
                "places": list(places[1]),
                "hashes": list(places[2]),
                "edge": edge,
                "seal": seal,
            },
        )
        _require_one_row(changed.rowcount)
        self.last = (shard.number, size - 1, rows[-1].leaf)
        return True

    def sign(self, shard: int, head: Head, edge: bytes) -> None:
        self._db.execute("INSERT INTO lockgate_heads VALUES (%s, %s, %s, %s)", (shard, *head))
        _require_one_row(
            self._db.execute("UPDATE lockgate_shards SET signed_edge = %s WHERE number = %s", (edge, shard)).rowcount
        )

    def prune(self, shard: int, before: int, seal: bytes) -> None:
        statement = "UPDATE lockgate_shards SET pruned = greatest(pruned, %s), seal = %s WHERE number = %s"
        _require_one_row(self._db.execute(statement, (before, seal, shard)).rowcount)

    def sweep(self, shard: int, indexes: Sequence[int]) -> None:
        statement = "DELETE FROM lockgate_bodies WHERE shard = %s AND number = ANY(%s::bigint[])"
        self._db.execute(statement, (shard, list(indexes)))


def _require_one_row(rows: int) -> None:
    if rows != 1:
        raise JournalDamaged("the shard that was written to is gone, or closed")


class PostgresLog:
    """A log in the database that `conninfo` names; the first write creates its tables."""

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._schema = SchemaSteps(VERSION_TABLE, _MAKING, STEPS, self._refusal)
        # Whether this process has used the tables in a version that it knows.
        self._began = False
        self._reset_connections()
        on_fork(self._reset_after_fork)

    def _reset_after_fork(self) -> None:
        _abandoned.extend((self._db, *self._idle))
        self._reset_connections()

    def _reset_connections(self) -> None:
        # Held by the thread that writes.
        self._lock = Lock()
        self._places = Semaphore(_MAX_READERS)
        self._db: LimitedConnection | None = None
        self._idle: list[LimitedConnection] = []

    @contextmanager
    def reading(self) -> Iterator[PostgresLogReader]:
        with self._translate_errors(), take_place(self._places, BUSY_S, self._busy):
            db = self._begin_snapshot()
            with ExitStack() as unneeded:
                unneeded.callback(close_quietly, db)
                self._check_readable(self._schema.read_version(db))
                yield PostgresLogReader(db)
                db.execute("ROLLBACK")
                unneeded.pop_all()
                self._idle.append(db)

    @contextmanager
    def writing(self, *, durable: bool) -> Iterator[PostgresLogWriter]:  # noqa: ARG002  # everything is
        with self._lock, self._translate_errors():
            db = self._begin_locked()
            change = PostgresLogWriter(db)
            with ExitStack() as failed:
                failed.callback(self._roll_back, db)
                yield change
                failed.pop_all()
            self._commit(db, change)

    def tidy(self) -> None:
        pass

    def close(self) -> None:
        with self._lock:
            connections = [*self._idle, *([self._db] if self._db is not None else ())]
            self._idle, self._db = [], None
        for db in connections:
            close_quietly(db)

    def _begin_snapshot(self) -> LimitedConnection:
        """Return a connection with a snapshot transaction. Skip idle connections that the server has closed."""
        from psycopg import OperationalError

        statement = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
        while self._idle:
            with suppress(IndexError):
                db = self._idle.pop()
                try:
                    db.execute(statement)
                except OperationalError:
                    was_closed = db.broken
                    close_quietly(db)
                    if not was_closed:
                        # A server that stands still does so on the next connection, too.
                        raise
                else:
                    return db
        db = self._connect()
        db.execute(statement)
        return db

    def _begin_locked(self) -> LimitedConnection:
        """Begin a transaction that excludes other writers. Nothing was sent before it, so it may be retried."""
        from psycopg import OperationalError

        db = self._db
        if db is not None:
            try:
                self._begin(db)
            except OperationalError:
                if not db.broken:
                    raise
                # The server was restarted, or a proxy closed the idle connection.
                close_quietly(db)
            else:
                return db
        self._db = db = self._connect()
        with ExitStack() as failed:
            failed.callback(self._discard, db)
            if self._schema.read_version(db) < self._schema.known:
                self._schema.bring_forward(db)
            self._begin(db)
            failed.pop_all()
        return db

    def _begin(self, db: LimitedConnection) -> None:
        with ExitStack() as failed:
            failed.callback(self._roll_back, db)
            row = begin_at_once(db, f"SELECT version FROM {VERSION_TABLE} FOR UPDATE")  # noqa: S608
            failed.callback(self._discard, db)
            self._schema.check_again(row, running=self._began)
            self._began = True
            failed.pop_all()

    def _check_readable(self, version: int) -> None:
        """Raise unless the tables can be read as they are: an audit changes nothing."""
        if not version:
            raise self._refusal("holds no log")
        self._schema.check_version(version, running=self._began)
        if version < self._schema.known:
            why = f"has tables of an older lockgate: version {version}, and this one reads {self._schema.known}"
            raise self._refusal(why, hint="start `lockgate serve` of this version, which brings them forward")

    def _commit(self, db: LimitedConnection, change: PostgresLogWriter) -> None:
        try:
            db.execute("COMMIT")
        except psycopg_error() as error:
            self._discard(db)
            if change.last is None or not self._was_committed(*change.last):
                raise error

    def _was_committed(self, shard: int, number: int, leaf: bytes) -> bool:
        """Return whether the transaction that ended in this leaf was committed. A random salt makes the leaf unique."""
        db = self._begin_locked()
        try:
            return dict(PostgresLogReader(db).leaves(shard, number, number + 1)).get(number) == leaf
        finally:
            self._roll_back(db)

    def _roll_back(self, db: LimitedConnection) -> None:
        # A broken connection has nothing to roll back; the next transaction replaces it.
        if not db.broken:
            try:
                db.execute("ROLLBACK")
            except psycopg_error():
                self._discard(db)

    def _discard(self, db: LimitedConnection) -> None:
        close_quietly(db)
        self._db = None

    def _connect(self) -> LimitedConnection:
        return open_connection(self._conninfo, "a log in PostgreSQL needs", LockgateError, self._refusal)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Raise our own errors for the server's: its texts may contain a password or a name."""
        try:
            yield
        except LockgateError:
            raise
        except psycopg_error() as error:
            code = error.sqlstate or ""
            if code == LOCK_NOT_AVAILABLE:
                raise self._busy() from error
            if code.startswith(_INTEGRITY_VIOLATION):
                raise JournalDamaged(
                    f"the log does not take what comes next: {quoted(error.diag.message_primary or '')}"
                ) from error
            raise self._refusal(f"cannot be used: {error_name(error)}") from error

    def _busy(self) -> JournalUnavailable:
        return self._refusal(f"was busy for {BUSY_S} seconds", hint="try again")

    @staticmethod
    def _refusal(why: str, *, hint: str = "") -> JournalUnavailable:
        return JournalUnavailable(f"the log's database {why}", hint=hint)


# The parent's connections in a forked child: closing them would end them for the parent too.
_abandoned: list[object] = []
