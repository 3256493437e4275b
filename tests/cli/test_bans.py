"""`lockgate gate bans`: what is listed, who is lifted, and that every worker hears of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lockgate.abuse_gate.identity import Identity
from lockgate.abuse_gate.shared_strikes import Ladder
from lockgate.abuse_gate.stores.bans_sqlite import SqliteBans
from lockgate.core.requests.strikes import (
    LIFTED,
    NETWORK,
    PRINCIPAL,
    LadderSettings,
    SharedRecord,
    SharedStrikes,
    Standing,
    StrikeReport,
    Subject,
)
from lockgate.settings.abuse_gate import AbuseSettings

Run = Callable[..., Any]
SECRET = "0123456789abcdef" * 4
SETTINGS = LadderSettings()
HOME = Subject(NETWORK, "1" * 32)


def named(name: str, tenant: str = "") -> Subject:
    identity = Identity.from_settings(AbuseSettings(secret=SECRET.encode()))
    return identity.subjects({"state": {"principal": name}}, tenant)[0]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "state" / "bans.db"
    monkeypatch.setenv("ABUSE_BANS_FILE", str(place))
    monkeypatch.setenv("ABUSE_SECRET", SECRET)
    SqliteBans(place, SETTINGS)
    return place


def ban(file: Path, who: Subject) -> None:
    SqliteBans(file, SETTINGS).keep([(who, SharedRecord((), 0.0, 3000.0))], time.time())


def test_bans_are_listed_and_lifted_by_name_or_by_what_the_list_calls_them(run: Run, file: Path) -> None:
    assert run("gate", "bans").out == "no client is banned\n"
    alice, bob = named("alice"), named("bob")
    ban(file, alice)
    ban(file, bob)
    listed = run("gate", "bans")
    assert listed.code == 0
    assert f"{alice.key[:12]}  full_quarantine" in listed.out
    assert "alice" not in listed.out
    lifted = run("gate", "bans", "--lift", "alice")
    assert (lifted.code, lifted.out) == (0, f"lifted: {alice.key[:12]}; gates hear of it within a second or two\n")
    assert alice.key[:12] not in run("gate", "bans").out
    assert run("gate", "bans", "--lift", bob.key[:12]).code == 0
    assert run("gate", "bans").out == "no client is banned\n"
    again = run("gate", "bans", "--lift", "alice")
    assert (again.code, again.err) == (1, "lockgate: `alice` is not banned\n")


def test_a_tenant_s_client_is_lifted_by_both_names(run: Run, file: Path) -> None:
    ban(file, named("alice", "acme"))
    assert run("gate", "bans", "--lift", "alice").code == 1
    assert run("gate", "bans", "--lift", "alice", "--tenant", "globex").code == 1
    assert run("gate", "bans", "--lift", "alice", "--tenant", "acme").code == 0
    assert run("gate", "bans").out == "no client is banned\n"


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["gate", "bans", "--lift", "01M7F7J5VMTYRY88TXC9FMV8H3"], "an incident says what was blocked"),
        (["gate", "bans", "--lift", ""], "--lift needs a client"),
        (["gate", "bans", "--envoy"], "`bans` serves no requests"),
        (["gate", "--lift", "alice", "--envoy"], "--lift has no effect without `bans`"),
        (["gate", "--tenant", "acme", "--envoy"], "--tenant has no effect without `bans`"),
        (["gate"], "what to stand in front of is missing"),
    ],
    ids=["incident", "no client", "place", "alone", "tenant", "nothing"],
)
def test_what_cannot_be_done_is_said(run: Run, file: Path, argv: list[str], words: str) -> None:
    ended = run(*argv)
    assert ended.code == 2
    assert words in ended.err


def test_a_file_that_is_not_there_is_not_made(run: Run, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ban(file, named("alice"))
    monkeypatch.setenv("ABUSE_BANS_FILE", str(file.parent / "misspelt" / "bans.db"))
    ended = run("gate", "bans")
    assert (ended.code, ended.out) == (2, "")
    assert "is not there" in ended.err
    assert not (file.parent / "misspelt").exists()


def test_a_client_that_is_not_found_may_be_under_another_secret(
    run: Run, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ban(file, named("alice"))
    monkeypatch.setenv("ABUSE_SECRET", SECRET[::-1])
    ended = run("gate", "bans", "--lift", "alice")
    assert ended.code == 1
    assert "`alice` is not banned" in ended.err
    assert "lists 1 banned client;" in ended.err
    assert "ABUSE_SECRET" in ended.err


def test_a_ban_that_was_lifted_is_not_written_again_by_a_gate_that_missed_it(tmp_path: Path) -> None:
    file, who, now_s = SqliteBans(tmp_path / "bans.db", SETTINGS), Subject(PRINCIPAL, "c" * 32), time.time()
    file.keep([(who, SharedRecord((), 800.0, 3000.0))], now_s)
    assert file.lift(who.key, now_s + 1)
    file.keep([(who, SharedRecord((), 798.0, 2998.0))], now_s + 2)
    assert file.since(0, now_s + 2).bans == ((who, LIFTED),)
    # A new one is.
    cooldown_s = SETTINGS.tier2_cooldown_s
    file.keep([(who, SharedRecord((), 0.0, cooldown_s))], now_s + 3)
    ((_, known),) = file.since(0, now_s + 3).bans
    assert (known.locked_s, round(known.quarantined_s)) == (0.0, cooldown_s)


def test_bans_that_are_in_the_memory_of_the_gate_only_cannot_be_seen_from_outside(run: Run) -> None:
    ended = run("gate", "bans")
    assert ended.code == 2
    assert "ABUSE_BANS_FILE" in ended.err


def test_a_worker_that_knows_of_a_ban_hears_that_it_was_lifted_and_does_not_write_it_again(tmp_path: Path) -> None:
    class Clock:
        now = 1000.0

        def __call__(self) -> float:
            return self.now

    clock, file = Clock(), SqliteBans(tmp_path / "bans.db", SETTINGS)
    who = (Subject(PRINCIPAL, "a" * 32), HOME)

    async def run() -> None:
        ladder = Ladder(SETTINGS, bans=file, clock=clock)
        for _ in range(5):
            judged = await ladder.record_unsafe(who)
        assert judged.standing is Standing.FULL_QUARANTINE
        clock.now += 2
        assert (await ladder.standing(who)).standing is Standing.FULL_QUARANTINE
        assert file.lift("a" * 32, time.time())
        assert not file.lift("a" * 32, time.time())
        clock.now += 2
        for _ in range(100):
            # The file is read in a thread.
            judged = await ladder.standing(who)
            if judged.standing is not Standing.FULL_QUARANTINE:
                break
            await asyncio.sleep(0.05)
            clock.now += 2
        # Strikes of a network ban no client.
        assert judged.standing is Standing.SLOWED
        fresh = Ladder(SETTINGS, bans=SqliteBans(tmp_path / "bans.db", SETTINGS), clock=clock)
        assert (await fresh.standing(who)).standing is Standing.NORMAL
        # One strike is one strike again, and five are a ban as before.
        assert (await ladder.record_unsafe(who)).strikes == 1
        for _ in range(4):
            judged = await ladder.record_unsafe(who)
        assert judged.standing is Standing.FULL_QUARANTINE
        await ladder.close()
        await fresh.close()

    asyncio.run(run())
    assert [known != LIFTED for _, known in file.since(0, time.time()).bans] == [True]


def test_a_shared_store_is_asked_about_a_quarantine_once_in_a_while_and_can_say_that_it_was_lifted() -> None:
    class Store:
        asked = 0
        lifted = False

        async def exchange(self, told: Any) -> SharedStrikes:
            self.asked += 1
            heard: tuple[StrikeReport, ...] = tuple(told)
            return SharedStrikes((SharedRecord(),) * len(heard), ((who[0], LIFTED),) if self.lifted else ())

        async def close(self) -> None:
            return

    now = [1000.0]
    store, who = Store(), (Subject(PRINCIPAL, "a" * 32), HOME)

    async def run() -> None:
        ladder = Ladder(SETTINGS, store, clock=lambda: now[0])
        for _ in range(5):
            await ladder.record_unsafe(who)
        before = store.asked
        for _ in range(50):
            assert (await ladder.standing(who)).standing is Standing.FULL_QUARANTINE
        assert store.asked == before
        store.lifted = True
        now[0] += 2
        assert (await ladder.standing(who)).standing is not Standing.FULL_QUARANTINE
        assert store.asked == before + 1

    asyncio.run(run())
