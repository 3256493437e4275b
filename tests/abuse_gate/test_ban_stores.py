"""The bans that gates share, seen from outside of them: a file and a store together, and a store that fails."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from lockgate.abuse_gate import ban_stores
from lockgate.abuse_gate.ban_stores import BanStores, ban_state, ban_stores_from_settings
from lockgate.abuse_gate.stores.bans_sqlite import SqliteBans
from lockgate.core.errors import JournalUnavailable, LockgateError
from lockgate.core.requests.strikes import PRINCIPAL, LadderSettings, SharedRecord, Standing, Subject
from lockgate.journal.record import parse_record
from lockgate.journal.recorder import UnavailableJournal
from lockgate.settings.abuse_gate import AbuseSettings

ANN, BOB = "a" * 32, "b" * 32


class Store:
    """A shared store with a ban of each client; it can be told to fail."""

    def __init__(self) -> None:
        self.known = {ANN: SharedRecord((), 0.0, 100.0), BOB: SharedRecord((), 50.0, 0.0)}
        self.error: Exception | None = None
        self.closed = 0

    async def bans(self) -> dict[str, SharedRecord]:
        if self.error is not None:
            raise self.error
        return dict(self.known)

    async def lift(self, key: str) -> None:
        await self.bans()
        del self.known[key]

    async def close(self) -> None:
        self.closed += 1


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    made = Store()
    monkeypatch.setattr(ban_stores, "shared_store_from_settings", lambda _: made)
    return made


@pytest.fixture
def both(store: Store, tmp_path: Path) -> BanStores:
    settings = AbuseSettings(secret=b"x" * 32, bans_file=str(tmp_path / "state" / "bans.db"))
    file = SqliteBans(Path(settings.bans_file), LadderSettings())
    file.keep([(Subject(PRINCIPAL, ANN), SharedRecord((), 800.0, 0.0))], time.time())
    return BanStores(settings)


def test_a_gate_with_its_memory_alone_has_no_bans_to_see() -> None:
    assert ban_stores_from_settings(AbuseSettings()) is None


def test_the_longest_ban_of_any_store_counts_and_is_lifted_in_all(both: BanStores, store: Store) -> None:
    listed = both.list_bans()
    # By the clock on the wall, which goes on while a busy machine does other things.
    assert 700 < listed[ANN].locked_s <= 800
    assert listed[ANN].quarantined_s == 100.0
    assert [ban_state(listed[key])[0] for key in (ANN, BOB)] == [Standing.FULL_QUARANTINE, Standing.EXECUTE_LOCKED]
    both.lift(ANN, None, by="test")
    assert both.list_bans() == {BOB: SharedRecord((), 50.0, 0.0)}
    assert store.closed == 3


def test_a_lift_is_recorded_before_it_is_done(both: BanStores, store: Store) -> None:
    records: list[dict[str, Any]] = []

    class Journal:
        def enqueue(self, given: Any, *, durable: bool) -> Any:
            assert durable
            assert ANN in store.known
            records.extend(map(parse_record, given))
            raise JournalUnavailable("the disk is full")

    for journal in (Journal(), UnavailableJournal("no")):
        with pytest.raises(JournalUnavailable):
            both.lift(ANN, journal, by="ana")
        assert set(both.list_bans()) == {ANN, BOB}
    (record,) = records
    assert (record["acted"], record["subject"], record["by"]) == (f"ban-lifted:{ANN[:12]}", ANN[:12], "ana")
    assert ANN not in str(record)


def test_a_store_that_fails_is_an_error_without_its_text(both: BanStores, store: Store) -> None:
    store.error = OSError("redis://:hush-hush@host")
    with pytest.raises(LockgateError, match="the shared store does not answer: OSError") as raised:
        both.list_bans()
    assert "hush" not in f"{raised.value.message}{raised.value.hint}"
    with pytest.raises(LockgateError):
        both.lift(ANN, None, by="test")
    assert store.closed == 2
