"""`lockgate doctor --fleet`: whether the instances that share a database can work together, as far as one can see.

Nothing is written, and no instance is asked: the database knows its own tables, clock, connections and locks, and the
log the policies and heads of all instances.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

from lockgate import assemble
from lockgate.abuse_gate.defaults import shared_store_from_settings
from lockgate.cli.doctor import Check, CheckState, run_check
from lockgate.core.errors import LockgateError, printable
from lockgate.gate import approvals_postgres, carried_postgres
from lockgate.journal.keys import verify
from lockgate.journal.log import Snapshot, find_shard, newest_head
from lockgate.journal.record_search import record_from_row
from lockgate.journal.stores import postgres as log_postgres
from lockgate.journal.stores.postgres import PostgresLog
from lockgate.runtime.postgres import BUSY_S, error_name, open_connection, psycopg_error, version_table
from lockgate.sessions.stores import postgres as sessions_postgres
from lockgate.settings.abuse_gate import abuse_settings_from_env
from lockgate.settings.journal_paths import POSTGRES

if TYPE_CHECKING:
    from psycopg import Connection

    from lockgate.journal.log import Shard
    from lockgate.settings.config import Settings

_SESSIONS = {
    "sessions": (version_table("sessions"), sessions_postgres.STEPS[-1][0]),
    "approvals": (version_table("approvals"), approvals_postgres.STEPS[-1][0]),
    "carried texts": (version_table("carried texts"), carried_postgres.STEPS[-1][0]),
}
_LOG = {"log": (log_postgres.VERSION_TABLE, log_postgres.STEPS[-1][0])}
# Sessions and approvals end by the clocks of the instances.
MOST_SKEW_S = 2.0
# The server ends a transaction that idles for `BUSY_S`; a running process signs within a second.
_MOST_HELD_S = BUSY_S + 2.0
_MOST_UNSIGNED_S = 15.0
# How many of the newest records, and how old at most, say which policies are in force.
_RECORDS = 2_000
_RECENT_S = 600.0
_PROCESSES = """
SELECT application_name, count(*) FROM pg_catalog.pg_stat_activity
WHERE datname = current_database() AND application_name LIKE 'lockgate %' AND pid <> pg_backend_pid()
GROUP BY application_name ORDER BY application_name
"""
_OLDEST = """
SELECT application_name, extract(epoch FROM clock_timestamp() - xact_start)::float8 FROM pg_catalog.pg_stat_activity
WHERE datname = current_database() AND application_name LIKE 'lockgate %' AND pid <> pg_backend_pid()
    AND backend_xid IS NOT NULL ORDER BY xact_start LIMIT 1
"""


def fleet_checks(settings: Settings) -> Iterator[Check]:
    """Yield what the shared databases, the log and the shared strikes say."""
    sessions = settings.server.database
    log = settings.audit.log_path if settings.audit.log_path.startswith(POSTGRES) else ""
    if not sessions:
        said = "`server.database` is not set: this instance shares no session with another"
        yield Check("database", CheckState.FAIL, said, "`lockgate help teams` says how to set it")
    for place, areas in ((sessions, {**_SESSIONS, **(_LOG if log == sessions else {})}), (log, _LOG)):
        if place and not (areas is _LOG and place == sessions):
            yield from _database_checks("journal's database" if areas is _LOG else "database", place, areas)
    if log:
        yield from _log_checks(settings, log)
    elif settings.audit.enabled:
        said = "`security.audit.log_path` is a file: each instance has a log of its own"
        yield Check("log", CheckState.WARN, said, "name the database there too, for one log of all of them")
    yield run_check("strikes", lambda: _check_strikes(settings))


def _database_checks(name: str, place: str, areas: dict[str, tuple[str, int]]) -> Iterator[Check]:
    def refuse(why: str) -> LockgateError:
        return LockgateError(f"the {name} {why}")

    def look() -> Iterator[Check]:
        with closing(open_connection(place, f"the {name} needs", LockgateError, refuse)) as db:
            yield Check(name, CheckState.OK, f"PostgreSQL {db.info.server_version // 10_000} answers, and syncs")
            yield _check_tables(db, areas)
            yield _check_clock(db)
            yield _check_processes(db)
            yield _check_locks(db)

    try:
        yield from look()
    except LockgateError as error:
        yield Check(name, CheckState.FAIL, error.message, error.hint)
    except (psycopg_error(), OSError) as error:
        hint = "is it up, does `server.database` name it, and is PGPASSWORD or PGPASSFILE set?"
        yield Check(name, CheckState.FAIL, f"cannot be used: {error_name(error)}", hint)


def _check_tables(db: Connection[Any], areas: dict[str, tuple[str, int]]) -> Check:
    """Compare the versions of the tables with those that this program knows."""
    found: dict[str, int] = {}
    for area, (table, _) in areas.items():
        there = "SELECT FROM pg_catalog.pg_tables WHERE schemaname = current_schema() AND tablename = %s"
        if db.execute(there, (table,)).fetchone() is not None:
            row = db.execute(f"SELECT version FROM {table}".encode()).fetchone()  # noqa: S608
            found[area] = 0 if row is None else row[0]
    said = ", ".join(f"{area} {version}" for area, version in found.items()) or "none yet: the first use makes them"
    if any(version > areas[area][1] for area, version in found.items()):
        hint = "upgrade lockgate here; a running instance goes on for one version, no new one starts"
        return Check("tables", CheckState.FAIL, f"newer than this program: {said}", hint)
    if any(version < areas[area][1] for area, version in found.items()):
        hint = "the first instance of this version brings them forward"
        return Check("tables", CheckState.WARN, f"older than this program: {said}", hint)
    return Check("tables", CheckState.OK, said)


def _check_clock(db: Connection[Any]) -> Check:
    before_s = time.time()
    (theirs_s,) = db.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone() or (0.0,)
    return check_skew("clock", (before_s + time.time()) / 2 - theirs_s, "the database's")


def check_skew(name: str, ahead_s: float, whose: str) -> Check:
    """Return a warning if this machine's clock is so far from another's that answers could end at the wrong time."""
    said = f"this machine's is {abs(ahead_s):.1f} s {'ahead of' if ahead_s > 0 else 'behind'} {whose}"
    if abs(ahead_s) > MOST_SKEW_S:
        return Check(name, CheckState.WARN, said, "set the clocks by NTP: approvals and sessions end by them")
    return Check(name, CheckState.OK, said)


def _check_processes(db: Connection[Any]) -> Check:
    rows = db.execute(_PROCESSES).fetchall()
    names = ", ".join(printable(name.removeprefix("lockgate "), 80) for name, _ in rows[:20])
    if not rows:
        hint = "a `lockgate serve` connects with its start; a role sees only its own connections"
        return Check("processes", CheckState.WARN, "no other process of lockgate is connected", hint)
    said = f"{len(rows)} connected, {sum(count for _, count in rows)} connections: {names}"
    # `lockgate VERSION HOST:PID`, as `open_connection` says it.
    if len({name.split(" ")[1] for name, _ in rows}) > 1:
        hint = "a rolling upgrade? Instances go on for one version: `lockgate help teams`"
        return Check("processes", CheckState.WARN, f"several versions, {said}", hint)
    return Check("processes", CheckState.OK, said)


def _check_locks(db: Connection[Any]) -> Check:
    """Check that no writer holds the others up: there is no leader, only locks that last as long as a commit."""
    row = db.execute(_OLDEST).fetchone()
    if row is None or row[1] <= _MOST_HELD_S:
        return Check("locks", CheckState.OK, "no writer holds the others up")
    name = printable(row[0].removeprefix("lockgate "), 80)
    hint = "its instance stands still, or brings tables forward; the server ends a transaction that idles"
    return Check("locks", CheckState.WARN, f"{name} has been writing for {row[1]:.0f} s", hint)


def _log_checks(settings: Settings, place: str) -> Iterator[Check]:
    store = PostgresLog(place)
    try:
        with store.reading() as view:
            shard = find_shard(view, "")
            yield run_check("key", lambda: _check_key(settings, shard))
            yield run_check("heads", lambda: _check_heads(view, shard))
            yield run_check("policy", lambda: _check_policies(settings, view, shard))
    except LockgateError as error:
        yield Check("log", CheckState.FAIL, error.message, error.hint)
    finally:
        store.close()


def _check_key(settings: Settings, shard: Shard) -> Check:
    if assemble.has_journal_key(settings, shard.vkey):
        return Check("key", CheckState.OK, "this machine has the key that the log goes on under")
    hint = "copy it from another machine: `lockgate help audit`, Several hosts"
    return Check("key", CheckState.FAIL, "the log goes on under a key that this machine does not have", hint)


def _check_heads(view: Snapshot, shard: Shard) -> Check:
    _, head = newest_head(view, shard, verify)
    newest = view.newest(shard.number)
    age_s = 0.0 if newest is None else time.time() - newest.at_ms / 1000
    waiting = shard.size - head.size
    said = f"{head.size} records under the newest signed head, {waiting} more behind it"
    if waiting and age_s > _MOST_UNSIGNED_S:
        hint = "any instance with the key signs: is one running? `lockgate audit head --sign` signs by hand"
        return Check("heads", CheckState.FAIL, f"{said}, and none was signed for {age_s:.0f} s", hint)
    return Check("heads", CheckState.OK, said)


def _check_policies(settings: Settings, view: Snapshot, shard: Shard) -> Check:
    """Compare this machine's policy with those that the newest rulings were made under."""
    since_ms = (time.time() - _RECENT_S) * 1000
    leaves = dict(view.leaves(shard.number, max(0, shard.size - _RECORDS), shard.size))
    counts: dict[str, int] = {}
    for index, data in view.bodies(shard.number, max(0, shard.size - _RECORDS), shard.size):
        fields = record_from_row(shard, index, leaves.get(index, b""), data).fields
        if fields.get("kind") == "ruling" and float(str(fields.get("ts_ms", 0))) >= since_ms:
            policy = str(fields.get("policy_sha256", ""))
            counts[policy] = counts.get(policy, 0) + 1
    ours = settings.policy.hash.removeprefix("sha256:")
    if not counts:
        return Check("policy", CheckState.SKIP, f"no ruling in {_RECENT_S / 60:.0f} minutes; here it is {ours[:12]}")
    said = ", ".join(f"{policy[:12]} ({count})" for policy, count in sorted(counts.items(), key=lambda each: -each[1]))
    if len(counts) > 1 or ours not in counts:
        hint = "each instance rules by its own files: give all of them the same; after a change, wait ten minutes"
        return Check("policy", CheckState.WARN, f"rulings under {said}; here it is {ours[:12]}", hint)
    return Check("policy", CheckState.OK, f"all rulings of the last minutes under {said}, as here")


def _check_strikes(settings: Settings) -> Check:
    abuse = abuse_settings_from_env(table=settings.abuse_gate)
    store = shared_store_from_settings(abuse)
    if store is None:
        return Check("strikes", CheckState.SKIP, "counted by each process by itself: ABUSE_STORE is `memory`")

    async def ask() -> float:
        try:
            return await store.time_s()
        finally:
            await store.close()

    before_s = time.time()
    try:
        theirs_s = asyncio.run(ask())
    except Exception as error:  # noqa: BLE001 - the client may raise anything; its text may hold the password
        said = f"the shared store does not answer: {type(error).__name__}"
        return Check("strikes", CheckState.FAIL, said, "ABUSE_STORE says where it is")
    found = check_skew("strikes", (before_s + time.time()) / 2 - theirs_s, "the shared store's")
    return found._replace(said=f"the shared store answers; {found.said}")
