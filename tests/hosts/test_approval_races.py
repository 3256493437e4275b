"""1,000 races about held calls on a real SQLite file and in a real PostgreSQL, through connections of their own.

`make test` leaves this directory out: the server takes nearly 100 MB.
"""

from __future__ import annotations

import os
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

import psycopg
from paths import TESTS

from lockgate.gate.approvals_postgres import PostgresApprovals
from lockgate.gate.approvals_sqlite import SqliteApprovals


def _module(path: Path) -> ModuleType:
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    spec.loader.exec_module(module)
    return module


CONTRACT = _module(TESTS / "gate" / "test_approvals_contract.py")
LOG = _module(Path(__file__).parent / "test_log_postgres.py")
server = LOG.server
ROUNDS = 1_000
# As many processes share it.
CONNECTIONS = 3


def test_no_race_on_a_file_runs_a_call_twice_or_loses_it() -> None:
    told = CONTRACT.Told()
    # In memory where the system has such a folder: the locks are the same, and 10,000 commits need not reach a disk.
    with TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        path = Path(folder) / "state" / "approvals.db"
        CONTRACT.race([SqliteApprovals(path, record=told) for _ in range(CONNECTIONS)], told, ROUNDS)


def test_no_race_in_postgres_runs_a_call_twice_or_loses_it(server: LOG.Server) -> None:  # type: ignore[name-defined]
    told = CONTRACT.Told()
    with psycopg.connect(server.uri, autocommit=True) as db:
        db.execute("CREATE SCHEMA races")
    place = f"{server.uri}&options=-csearch_path%3Draces%20-csynchronous_commit%3Doff"
    stores = [PostgresApprovals(place, record=told) for _ in range(CONNECTIONS)]
    try:
        CONTRACT.race(stores, told, ROUNDS)
    finally:
        for store in stores:
            store.close()
