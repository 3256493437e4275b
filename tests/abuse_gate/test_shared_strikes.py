from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Any

import pytest

from lockgate.abuse_gate import shared_strikes
from lockgate.abuse_gate.shared_strikes import ClientStanding, Ladder
from lockgate.abuse_gate.stores.bans_sqlite import SqliteBans
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

SETTINGS = LadderSettings()
ANN, BOB = Subject(PRINCIPAL, "a" * 32), Subject(PRINCIPAL, "b" * 32)
HOME, CAFE = Subject(NETWORK, "1" * 32), Subject(NETWORK, "2" * 32)


@pytest.fixture(autouse=True)
def no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine must not decide a test: only those about waiting wait for less."""
    for name in ("LOAD_S", "KEEP_S", "READ_S"):
        monkeypatch.setattr(shared_strikes, name, 20.0)


class Clock:
    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Together:
    """What several workers share, with the pure functions for its script: up, down, or forgetful."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.up = clock, True
        self.calls: list[list[StrikeReport]] = []
        self.closed = 0
        self.wipe()

    def wipe(self) -> None:
        self.records: dict[Subject, StrikeRecord] = {}
        self.ids: set[tuple[Subject, str]] = set()
        self.epoch = getattr(self, "epoch", 0) + 1

    def worker(self) -> Part:
        return Part(self)


class Part:
    def __init__(self, all: Together) -> None:
        self.all, self.epoch, self.known = all, all.epoch, 0

    async def exchange(self, told: Sequence[StrikeReport]) -> SharedStrikes | None:
        shared, now = self.all, self.all.clock()
        shared.calls.append(list(told))
        await asyncio.sleep(0)
        if not shared.up:
            return None
        for each in told:
            record = shared.records.get(each.subject, StrikeRecord())
            for id, age_s in each.strikes:
                if (each.subject, id) not in shared.ids:
                    shared.ids.add((each.subject, id))
                    record = add_strike(record, each.subject.kind, now - age_s, SETTINGS)
            known = SharedRecord((), each.locked_s, each.quarantined_s)
            shared.records[each.subject] = merge_shared(record, known, now, SETTINGS)
        forgot, self.epoch = self.epoch != shared.epoch, shared.epoch
        bans = [
            (subject, SharedRecord((), *remaining_s(record, now)))
            for subject, record in shared.records.items()
            if record.ends() > now
        ]
        return SharedStrikes(tuple(self._known(each.subject) for each in told), tuple(bans), forgot)

    def _known(self, subject: Subject) -> SharedRecord:
        record, now = self.all.records.get(subject, StrikeRecord()), self.all.clock()
        return SharedRecord(tuple(now - at for at in record.strikes), *remaining_s(record, now))

    async def close(self) -> None:
        self.all.closed += 1


def make(clock: Clock, store: Any = None, **more: Any) -> Ladder:
    return Ladder(more.pop("settings", SETTINGS), store, clock=clock, chance=lambda: 0.0, **more)


def run(work: Awaitable[ClientStanding]) -> ClientStanding:
    async def wait() -> ClientStanding:
        return await work

    return asyncio.run(wait())


def strike(ladder: Ladder, *subjects: Subject, times: int = 1) -> ClientStanding:
    for _ in range(times):
        judged = run(ladder.record_unsafe(subjects))
    return judged


# --- one process


def test_the_ladder_is_climbed_and_left_again() -> None:
    clock = Clock()
    ladder = make(clock)
    assert run(ladder.standing((ANN, HOME))) == ClientStanding(Standing.NORMAL, 0, 0, False)
    steps = [strike(ladder, ANN, HOME) for _ in range(5)]
    assert [step.standing for step in steps[:4]] == [*[Standing.NORMAL] * 2, *[Standing.EXECUTE_LOCKED] * 2]
    assert [step.strikes for step in steps] == [1, 2, 3, 4, 5]
    assert steps[4][:2] == (Standing.FULL_QUARANTINE, 3600)
    clock.now += 3599.5
    assert run(ladder.standing((ANN, HOME)))[:2] == (Standing.FULL_QUARANTINE, 1)
    clock.now += 0.5
    assert run(ladder.standing((ANN, HOME))) == ClientStanding(Standing.NORMAL, 0, 0, False)


def test_a_neighbour_is_never_locked_out() -> None:
    """B4: all clients behind the same address were quarantined with the attacker."""
    ladder = make(Clock())
    strike(ladder, ANN, CAFE, times=50)
    assert run(ladder.standing((ANN, HOME))).standing is Standing.FULL_QUARANTINE
    for neighbour in ((BOB, CAFE), (CAFE,)):
        judged = run(ladder.standing(neighbour))
        assert judged.standing is Standing.SLOWED
        assert 0 < judged.delay_s <= 2
        assert 1 <= judged.retry_after_s <= 3
    assert run(ladder.standing((BOB, HOME))).standing is Standing.NORMAL


def test_a_lock_and_a_slow_network_add_up() -> None:
    ladder = make(Clock())
    strike(ladder, CAFE, times=9)
    judged = strike(ladder, ANN, CAFE, times=3)
    assert (judged.standing, judged.delay_s, judged.strikes) == (Standing.EXECUTE_LOCKED, 2.0, 3)


def test_a_quarantine_follows_its_principal_to_every_network() -> None:
    ladder = make(Clock())
    strike(ladder, ANN, HOME, times=5)
    assert run(ladder.standing((ANN, CAFE))).standing is Standing.FULL_QUARANTINE
    assert run(ladder.standing((ANN,))).standing is Standing.FULL_QUARANTINE


def test_it_can_be_switched_off() -> None:
    ladder = make(Clock(), settings=LadderSettings(enabled=False))
    assert strike(ladder, ANN, times=50) == ClientStanding(Standing.NORMAL, 0, 0, False)
    assert run(ladder.standing((ANN,))) == ClientStanding(Standing.NORMAL, 0, 0, False)


def test_what_is_forgotten_for_want_of_room_is_counted() -> None:
    counted: Counter[str] = Counter()
    ladder = make(Clock(), settings=LadderSettings(max_subjects=5), count=lambda what: counted.update([what]))
    for number in range(10):
        strike(ladder, Subject(NETWORK, f"{number:032x}"))
    assert counted == {"evicted": 5}


# --- holding


def test_a_slowed_request_waits_and_a_crowd_of_them_is_turned_away() -> None:
    waited: list[float] = []
    released = asyncio.Event()

    async def sleep(seconds: float) -> None:
        waited.append(seconds)
        await released.wait()

    async def crowd() -> list[bool]:
        ladder = make(Clock(), sleep=sleep)
        for _ in range(9):
            await ladder.record_unsafe((CAFE,))
        judged = await ladder.standing((CAFE,))
        tasks = [asyncio.ensure_future(ladder.hold((CAFE,), judged)) for _ in range(100)]
        await asyncio.sleep(0)
        # Other networks can still wait, and clients that need not wait do not.
        other = asyncio.ensure_future(ladder.hold((HOME,), judged))
        assert await ladder.hold((CAFE,), await ladder.standing((HOME,)))
        for task in tasks[:10]:
            task.cancel()
        released.set()
        assert await other
        heard = await asyncio.gather(*tasks, return_exceptions=True)
        assert await ladder.hold((CAFE,), judged)
        assert not ladder._held
        return [each for each in heard if isinstance(each, bool)]

    heard = asyncio.run(crowd())
    assert (heard.count(True), heard.count(False)) == (shared_strikes.MAX_HELD_EACH - 10, 100 - 32)
    assert set(waited) == {2.0}


def test_a_signed_in_user_waits_and_is_never_turned_away() -> None:
    waited: list[float] = []

    async def run() -> None:
        released, full = asyncio.Event(), asyncio.Event()

        async def sleep(seconds: float) -> None:
            waited.append(seconds)
            if not full.is_set():
                await released.wait()

        ladder = make(Clock(), sleep=sleep)
        for _ in range(9):
            await ladder.record_unsafe((CAFE,))
        judged = await ladder.standing((CAFE,))
        crowd = [asyncio.ensure_future(ladder.hold((CAFE,), judged)) for _ in range(100)]
        await asyncio.sleep(0)
        full.set()
        assert not await ladder.hold((CAFE,), judged)
        for who in (ANN, BOB):
            standing = await ladder.standing((who, CAFE))
            assert all([await ladder.hold((who, CAFE), standing) for _ in range(40)])
        released.set()
        await asyncio.gather(*crowd)
        assert not ladder._held

    asyncio.run(run())
    assert waited == [2.0] * (shared_strikes.MAX_HELD_EACH + 80)


def test_what_was_learned_since_is_known_without_asking(clock: Clock, together: Together) -> None:
    ladder = make(clock, together)

    async def run() -> tuple[ClientStanding, ClientStanding]:
        before = await ladder.standing((ANN, HOME))
        for _ in range(5):
            await ladder.record_unsafe((ANN, HOME))
        asked = len(together.calls)
        after = ladder.standing_from_memory((ANN, HOME), before)
        assert len(together.calls) == asked
        return before, after

    before, after = asyncio.run(run())
    assert (before.standing, after.standing) == (Standing.NORMAL, Standing.FULL_QUARANTINE)
    off = make(clock, settings=LadderSettings(enabled=False))
    assert off.standing_from_memory((ANN,), before) is before


# --- several workers


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def together(clock: Clock) -> Together:
    return Together(clock)


def test_strikes_of_two_workers_add_up_and_a_ban_of_one_holds_in_the_other(clock: Clock, together: Together) -> None:
    one, two = make(clock, together.worker()), make(clock, together.worker())
    strike(one, ANN, HOME, times=2)
    assert strike(two, ANN, HOME).standing is Standing.EXECUTE_LOCKED
    assert run(one.standing((ANN, HOME))).standing is Standing.EXECUTE_LOCKED
    strike(one, ANN, HOME, times=2)
    assert run(two.standing((ANN, CAFE)))[:2] == (Standing.FULL_QUARANTINE, 3600)


def test_a_store_that_goes_down_lifts_nothing_and_counting_goes_on(clock: Clock, together: Together) -> None:
    one, two = make(clock, together.worker()), make(clock, together.worker())
    strike(one, ANN, times=5)
    strike(two, BOB, times=2)
    # The other worker has heard of the ban, although no request asked it about this subject.
    together.up = False
    assert run(two.standing((ANN,))).standing is Standing.FULL_QUARANTINE
    judged = strike(two, BOB)
    assert run(two.standing((ANN,))).degraded
    assert (judged.standing, judged.degraded, judged.strikes) == (Standing.EXECUTE_LOCKED, True, 3)


def test_a_strike_of_another_worker_that_was_heard_of_counts_while_the_store_is_down(
    clock: Clock, together: Together
) -> None:
    one, two = make(clock, together.worker()), make(clock, together.worker())
    strike(one, ANN, times=2)
    run(two.standing((ANN,)))
    together.up = False
    assert strike(two, ANN).standing is Standing.EXECUTE_LOCKED


def test_when_it_comes_back_it_is_told_what_happened(clock: Clock, together: Together) -> None:
    one, two = make(clock, together.worker()), make(clock, together.worker())
    together.up = False
    strike(one, ANN, times=5)
    strike(one, BOB, times=2)
    together.up = True
    clock.now += 1
    # By whatever request comes next, and each strike once.
    assert not run(one.standing((HOME,))).degraded
    run(one.standing((HOME,)))
    assert run(two.standing((ANN,))).standing is Standing.FULL_QUARANTINE
    assert run(two.standing((BOB,))).strikes == 2
    assert strike(two, BOB).standing is Standing.EXECUTE_LOCKED


def test_a_store_that_lost_everything_is_told_every_ban_again(clock: Clock, together: Together) -> None:
    one, two = make(clock, together.worker()), make(clock, together.worker())
    banned = [Subject(PRINCIPAL, f"{number:032x}") for number in range(100)]
    for each in banned:
        strike(one, each, times=3)
    together.wipe()
    for _ in range(6):
        run(one.standing((HOME,)))
    assert all(run(two.standing((each,))).standing is Standing.EXECUTE_LOCKED for each in banned)


def test_an_answer_that_was_lost_does_not_count_a_strike_twice(clock: Clock, together: Together) -> None:
    class Deaf(Part):
        deaf = True

        async def exchange(self, told: Sequence[StrikeReport]) -> SharedStrikes | None:
            heard = await super().exchange(told)
            return None if self.deaf else heard

    part = Deaf(together)
    ladder = make(clock, part)
    assert strike(ladder, ANN).degraded
    assert strike(ladder, ANN).degraded
    part.deaf = False
    judged = run(ladder.standing((ANN,)))
    assert (judged.strikes, judged.standing, judged.degraded) == (2, Standing.NORMAL, False)


@pytest.mark.parametrize("answer", [RuntimeError("odd"), SharedStrikes(()), SharedStrikes((SharedRecord(),) * 9)])
def test_a_store_that_answers_nonsense_is_one_that_is_down(clock: Clock, answer: object) -> None:
    class Odd:
        async def exchange(self, told: Sequence[StrikeReport]) -> SharedStrikes | None:
            if isinstance(answer, Exception):
                raise answer
            assert isinstance(answer, SharedStrikes)
            return answer

        async def close(self) -> None: ...

    counted: Counter[str] = Counter()
    ladder = make(clock, Odd(), count=lambda what: counted.update([what]))
    judged = strike(ladder, ANN, HOME, times=3)
    assert (judged.standing, judged.degraded) == (Standing.EXECUTE_LOCKED, True)
    assert counted == {"store-error": 3}


def test_a_request_that_is_cancelled_has_its_strike_counted_everywhere(clock: Clock, together: Together) -> None:
    class Hanging(Part):
        hangs = True

        async def exchange(self, told: Sequence[StrikeReport]) -> SharedStrikes | None:
            if self.hangs:
                await asyncio.Event().wait()
            return await super().exchange(told)

    part = Hanging(together)
    ladder, other = make(clock, part), make(clock, together.worker())

    async def cancelled() -> None:
        for _ in range(3):
            task = asyncio.ensure_future(ladder.record_unsafe((ANN,)))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait({task})

    asyncio.run(cancelled())
    part.hangs = False
    assert run(ladder.standing((HOME,))).standing is Standing.NORMAL
    judged = run(other.standing((ANN,)))
    assert (judged.standing, judged.strikes) == (Standing.EXECUTE_LOCKED, 3)


def test_a_strike_that_falls_while_another_is_being_told_is_told_too(clock: Clock, together: Together) -> None:
    class Slow(Part):
        asked = 0

        async def exchange(self, told: Sequence[StrikeReport]) -> SharedStrikes | None:
            self.asked += 1
            if self.asked == 2:
                return None
            if self.asked == 1:
                await released.wait()
            return await super().exchange(told)

    released = asyncio.Event()
    ladder, other = make(clock, Slow(together)), make(clock, together.worker())

    async def two() -> None:
        first = asyncio.ensure_future(ladder.record_unsafe((ANN,)))
        await asyncio.sleep(0)
        assert (await ladder.record_unsafe((ANN,))).degraded
        released.set()
        assert (await first).strikes == 2
        await ladder.standing((HOME,))

    asyncio.run(two())
    assert run(other.standing((ANN,))).strikes == 2


def test_news_waits_in_bounded_room(clock: Clock, together: Together, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_strikes, "MAX_UNSHARED", 50)
    counted: Counter[str] = Counter()
    settings = LadderSettings(max_subjects=80)
    ladder = make(clock, together.worker(), settings=settings, count=lambda what: counted.update([what]))
    together.up = False
    for number in range(200):
        strike(ladder, Subject(PRINCIPAL, f"{number:032x}"), times=3)
    assert len(ladder._unshared) == 50
    assert len(ladder._untold) == 80
    assert counted["unshared"] == 150
    assert max(map(len, together.calls)) <= 2 + 2 * shared_strikes.MAX_NEWS


def test_a_quarantined_client_costs_the_store_nothing(clock: Clock, together: Together) -> None:
    ladder = make(clock, together.worker())
    strike(ladder, ANN, times=5)
    asked = len(together.calls)
    for _ in range(50):
        assert run(ladder.standing((ANN, HOME))).standing is Standing.FULL_QUARANTINE
    assert len(together.calls) == asked
    clock.now += 3600
    assert run(ladder.standing((ANN, HOME))).standing is Standing.NORMAL
    assert len(together.calls) == asked + 1


def test_asking_again_and_again_makes_no_ban_longer(clock: Clock, together: Together) -> None:
    """Every message takes its time; a ban must not grow by that time with each request."""
    ladder = make(clock, together.worker())
    strike(ladder, ANN, times=5)
    for _ in range(100):
        clock.now += 35.999
        run(ladder.standing((ANN,)))
    clock.now += 0.2
    assert run(ladder.standing((ANN,))).standing is Standing.NORMAL


def test_at_the_end_it_tells_what_it_knows_and_lets_go(clock: Clock, together: Together) -> None:
    ladder = make(clock, together.worker())
    together.up = False
    strike(ladder, ANN, times=3)
    together.up = True

    asyncio.run(ladder.close())
    assert together.records[ANN].ends() > clock.now
    assert together.closed == 1


# --- the bans file


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "bans.db"


def test_a_restart_lifts_no_ban(clock: Clock, path: Path) -> None:
    wall = Clock(1_800_000_000)
    strike(make(clock, bans=SqliteBans(path, SETTINGS), wall=wall), ANN, HOME, times=5)
    wall.now += 600
    # Another process, with another monotonic clock.
    later = make(Clock(7.0), bans=SqliteBans(path, SETTINGS), wall=wall)
    assert run(later.standing((ANN, CAFE))) == ClientStanding(Standing.FULL_QUARANTINE, 3000, 0, False)
    assert run(later.standing((BOB, CAFE))).standing is Standing.NORMAL


def test_a_ban_of_another_worker_on_this_host_is_seen_within_a_second(clock: Clock, path: Path) -> None:
    wall = Clock(1_800_000_000)
    one, two = (make(clock, bans=SqliteBans(path, SETTINGS), wall=wall) for _ in range(2))
    run(two.standing((ANN,)))
    strike(one, ANN, times=3)
    clock.now += shared_strikes.POLL_S
    wall.now += shared_strikes.POLL_S
    assert run(two.standing((ANN,))).standing is Standing.EXECUTE_LOCKED


def test_a_ban_that_came_from_the_store_is_on_disk_too(clock: Clock, together: Together, path: Path) -> None:
    wall = Clock(1_800_000_000)
    strike(make(clock, together.worker()), ANN, times=5)
    here = make(clock, together.worker(), bans=SqliteBans(path, SETTINGS), wall=wall)
    run(here.standing((HOME,)))
    run(here.standing((HOME,)))
    together.up = False
    restarted = make(Clock(7.0), together.worker(), bans=SqliteBans(path, SETTINGS), wall=wall)
    assert run(restarted.standing((ANN,))).standing is Standing.FULL_QUARANTINE


def test_bans_on_disk_are_told_to_a_store_that_does_not_have_them(clock: Clock, together: Together, path: Path) -> None:
    wall = Clock(1_800_000_000)
    strike(make(clock, bans=SqliteBans(path, SETTINGS), wall=wall), ANN, times=5)
    run(make(clock, together.worker(), bans=SqliteBans(path, SETTINGS), wall=wall).standing((HOME,)))
    assert run(make(clock, together.worker()).standing((ANN,))).standing is Standing.FULL_QUARANTINE


class Disk:
    """A bans file that can fail or hang."""

    def __init__(self) -> None:
        self.kept: dict[Subject, SharedRecord] = {}
        self.fails = False
        self.hangs: threading.Event | None = None

    def _be(self) -> None:
        if self.hangs is not None:
            self.hangs.wait(30)
        if self.fails:
            raise OSError("no space left on device")

    def keep(self, bans: Sequence[tuple[Subject, SharedRecord]], now_s: float) -> None:
        self._be()
        self.kept.update(bans)

    def since(self, number: int, now_s: float) -> tuple[Sequence[tuple[Subject, SharedRecord]], int, bool]:
        self._be()
        return (), number, False


def test_a_full_disk_is_said_and_the_ban_is_written_when_there_is_room(clock: Clock) -> None:
    disk, counted = Disk(), Counter[str]()
    ladder = make(clock, bans=disk, count=lambda what: counted.update([what]))
    run(ladder.standing((ANN,)))
    disk.fails = True
    judged = strike(ladder, ANN, times=3)
    assert (judged.standing, judged.degraded) == (Standing.EXECUTE_LOCKED, True)
    # Not asked again by every request.
    for _ in range(50):
        assert run(ladder.standing((HOME,))).degraded
    assert counted["bans-error"] == 1
    disk.fails = False
    clock.now += shared_strikes.POLL_S
    assert not run(ladder.standing((HOME,))).degraded
    assert disk.kept[ANN].locked_s == 899


def test_a_disk_that_hangs_delays_no_request_for_long(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk()
    ladder = make(clock, bans=disk)
    run(ladder.standing((ANN,)))
    disk.hangs = threading.Event()
    try:
        monkeypatch.setattr(shared_strikes, "KEEP_S", 0.01)
        judged = strike(ladder, ANN, times=3)
        assert (judged.standing, judged.degraded) == (Standing.EXECUTE_LOCKED, True)
        clock.now += 25  # a request now does not wait at all
        monkeypatch.setattr(asyncio, "wait", None)
        assert run(ladder.standing((HOME,))).degraded
        # A thread that never comes back is given up, and what it was to write is not.
        monkeypatch.undo()
        clock.now += shared_strikes.LOST_S
        assert run(ladder.standing((HOME,))).degraded
        assert ANN in (*ladder._unkept, *ladder._writing)
    finally:
        disk.hangs.set()


def test_no_request_is_judged_before_the_bans_on_disk_are_known(clock: Clock) -> None:
    class Slow(Disk):
        def since(self, number: int, now_s: float) -> tuple[Sequence[tuple[Subject, SharedRecord]], int, bool]:
            super().since(number, now_s)
            # In pages: not one of them may be missing either.
            who = (ANN, BOB, *[Subject(PRINCIPAL, "c" * 32)] * 3)[number]
            return [(who, SharedRecord((), 900, 0))], number + 1, number < 3

    async def many() -> list[ClientStanding]:
        disk = Slow()
        disk.hangs = threading.Event()
        ladder = make(clock, bans=disk)
        asking = [asyncio.ensure_future(ladder.standing((BOB,))) for _ in range(20)]
        await asyncio.sleep(0.05)
        disk.hangs.set()
        return await asyncio.gather(*asking)

    assert {judged.standing for judged in asyncio.run(many())} == {Standing.EXECUTE_LOCKED}


def test_a_file_that_cannot_be_read_at_the_start_is_degraded_and_not_believed_empty(clock: Clock) -> None:
    disk = Disk()
    disk.fails = True
    ladder = make(clock, bans=disk)
    assert run(ladder.standing((ANN,))).degraded
    disk.fails = False
    assert run(ladder.standing((ANN,))).degraded
    clock.now += shared_strikes.POLL_S
    assert not run(ladder.standing((ANN,))).degraded
