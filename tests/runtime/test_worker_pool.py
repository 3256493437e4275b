from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from weakref import ref

import pytest

from lockgate.runtime import worker_pool as lanes
from lockgate.runtime.routines import ThreadWait, begin_routine
from lockgate.runtime.worker_pool import Full, WorkerPool, run_jobs


def quiet(done: Callable[[], bool]) -> bool:
    until = time.monotonic() + 5
    while not done() and time.monotonic() < until:
        time.sleep(0.005)
    return done()


def fail() -> None:
    raise KeyError("mine")


def test_work_gives_its_result_or_raises_its_error() -> None:
    lane = WorkerPool(1, max_jobs=4)
    assert lane.run(lambda: 7, 5) == 7
    with pytest.raises(KeyError, match="mine"):
        lane.run(fail, 5)
    assert lane.run(lambda: 8, 5) == 8


def test_an_error_keeps_nothing_alive_once_its_caller_has_dropped_it() -> None:
    class Text:
        pass

    kept: list[ref[Text]] = []

    def refuse() -> None:
        text = Text()
        kept.append(ref(text))
        raise KeyError

    async def ask() -> None:
        with suppress(KeyError):
            await pool.run_async(refuse)

    pool = WorkerPool(1, max_jobs=4)
    gc.disable()
    try:
        with suppress(KeyError):
            pool.run(refuse, 5)
        asyncio.run(ask())
        assert len(kept) == 2
        # The thread drops its own reference a moment later.
        assert quiet(lambda: not any(each() for each in kept))
    finally:
        gc.enable()


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_an_exit_in_a_thread_ends_no_other(error: type[BaseException]) -> None:
    def leave() -> None:
        raise error

    lane = WorkerPool(1, max_jobs=4)
    with pytest.raises(RuntimeError):
        lane.run(leave, 5)
    assert lane.run(lambda: "still here", 5) == "still here"


def started(before: set[threading.Thread]) -> int:
    """How many threads there are that were not there before: those of other tests may end meanwhile."""
    return len(set(threading.enumerate()) - before)


def test_no_more_threads_than_workers_and_no_more_work_than_fits() -> None:
    gate = threading.Event()
    before = set(threading.enumerate())
    lane = WorkerPool(3, max_jobs=10)
    futures = [lane.submit(lambda: gate.wait(10)) for _ in range(10)]
    with pytest.raises(Full):
        lane.submit(fail)
    assert quiet(lambda: started(before) == 3)
    gate.set()
    assert [future.result(5)() for future in futures] == [True] * 10
    assert lane.run(lambda: "room again", 5) == "room again"


def test_every_worker_is_hired_when_the_others_hang() -> None:
    gate = threading.Event()
    lane = WorkerPool(4, max_jobs=10)
    hanging = []
    for _ in range(3):
        hanging.append(lane.submit(lambda: gate.wait(10)))
        time.sleep(0.02)
    assert lane.run(lambda: "done", 5) == "done"
    gate.set()


def test_threads_without_work_end_and_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "IDLE_S", 0.05)
    before = set(threading.enumerate())
    lane = WorkerPool(2, max_jobs=10)
    for _ in range(3):
        assert lane.run(lambda: 1, 5) == 1
        assert quiet(lambda: started(before) == 0)


def test_work_arriving_as_threads_end_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "IDLE_S", 0.001)
    lane = WorkerPool(2, max_jobs=10)
    for number in range(200):
        assert lane.run(lambda number=number: number, 5) == number
        time.sleep(0.001)


def test_without_threads_to_be_had_work_fails_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    lane = WorkerPool(2, max_jobs=4)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        for _ in range(6):
            with pytest.raises(Full):
                lane.run(fail, 5)
    assert lane.run(lambda: "threads again", 5) == "threads again"


def test_what_was_given_up_before_it_began_is_not_done() -> None:
    gate = threading.Event()
    done: list[int] = []
    lane = WorkerPool(1, max_jobs=10)
    first = lane.submit(lambda: gate.wait(10))
    with pytest.raises(TimeoutError):
        lane.run(lambda: done.append(1), 0.01)
    gate.set()
    assert first.result(5)() is True
    assert lane.run(lambda: done.append(2), 5) is None
    assert done == [2]


# --- every client has a turn


def test_a_client_with_few_jobs_waits_behind_one_of_each_and_not_behind_a_crowd() -> None:
    gate = threading.Event()
    order: list[str] = []
    lane = WorkerPool(1, max_jobs=100)
    first = lane.submit(lambda: gate.wait(10), "crowd")
    crowd = [lane.submit(lambda n=n: order.append(f"crowd {n}"), "crowd") for n in range(50)]
    others = [lane.submit(lambda name=name: order.append(name), name) for name in ("one", "two")]
    gate.set()
    assert first.result(5)() is True
    for future in (*crowd, *others):
        future.result(5)()
    assert order[:4] == ["crowd 0", "one", "two", "crowd 1"]
    assert order[4:] == [f"crowd {n}" for n in range(2, 50)], "and each of them in the order in which it came"


def test_a_full_pool_has_room_for_a_client_with_few_jobs() -> None:
    gate = threading.Event()
    lane = WorkerPool(1, max_jobs=10)
    crowd = [lane.submit(lambda: gate.wait(10), "crowd") for _ in range(10)]
    assert quiet(lambda: crowd[0].running())
    with pytest.raises(Full):
        lane.submit(fail, "crowd")
    others = [lane.submit(lambda: "done", f"other {number}") for number in range(3)]
    # The last to come of the crowd go first, and are told at once.
    for future in crowd[-3:]:
        with pytest.raises(Full):
            future.result(5)()
    gate.set()
    assert [future.result(5)() for future in others] == ["done"] * 3
    assert [future.result(5)() for future in crowd[:-3]] == [True] * 7
    assert lane.run(lambda: "room again", 5, "crowd") == "room again"


def test_a_full_pool_of_equals_evicts_no_job() -> None:
    gate = threading.Event()
    lane = WorkerPool(1, max_jobs=5)
    waiting = [lane.submit(lambda: gate.wait(10), f"tenant {number}") for number in range(5)]
    with pytest.raises(Full):
        lane.submit(fail, "one more")
    gate.set()
    assert [future.result(5)() for future in waiting] == [True] * 5


def test_no_client_has_more_than_its_share_of_the_threads() -> None:
    gate = threading.Event()
    lane = WorkerPool(4, max_jobs=100, per_client=2)
    hanging = [lane.submit(lambda: gate.wait(10), "crowd") for _ in range(20)]
    assert lane.run(lambda: "done", 5, "other") == "done"
    assert sum(future.running() for future in hanging) == 2
    gate.set()
    assert [future.result(5)() for future in hanging] == [True] * 20


def test_those_who_leave_leave_their_places() -> None:
    gate = threading.Event()
    lane = WorkerPool(1, max_jobs=4)
    first = lane.submit(lambda: gate.wait(10))
    for _ in range(20):
        with pytest.raises(TimeoutError):
            lane.run(fail, 0.001)
    assert lane._under_way == 1
    gate.set()
    assert first.result(5)() is True


def test_crowds_that_come_and_go_leave_nothing_behind() -> None:
    lane = WorkerPool(2, max_jobs=8, per_client=1)
    count = threading.Lock()
    done = {"done": 0, "left": 0, "full": 0}

    def many(number: int) -> None:
        for turn in range(100):
            try:
                lane.run(lambda: time.sleep(0.0002), 0.001 if turn % 3 else 5, f"tenant {number % 5}")
                how = "done"
            except (TimeoutError, Full) as error:
                how = "full" if isinstance(error, Full) else "left"
            with count:
                done[how] += 1

    threads = [threading.Thread(target=many, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sum(done.values()) == 1200
    assert done["done"] > 100
    assert quiet(lambda: (lane._under_way, lane._waiting, +lane._running) == (0, {}, {}))


# --- after a fork


def all_four(lane: WorkerPool) -> bool:
    got: list[object] = []
    threads = [threading.Thread(target=lambda: got.append(lane.run(lambda: 1, 3))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)
    return got == [1] * 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_that_was_forked_begins_anew_for_all_its_threads() -> None:
    gate = threading.Event()
    lane = WorkerPool(1, max_jobs=4)
    waiting = [lane.submit(lambda: gate.wait(10)) for _ in range(4)]
    for _ in range(10):
        child = os.fork()
        if child == 0:
            signal.alarm(10)
            os._exit(0 if all_four(lane) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    gate.set()
    assert [future.result(5)() for future in waiting] == [True] * 4


def test_nothing_of_the_work_is_kept_by_an_idle_thread() -> None:
    import gc
    import weakref

    class Secret:
        pass

    secret = Secret()
    gone = weakref.ref(secret)
    lane = WorkerPool(1, max_jobs=4)
    lane.run(lambda secret=secret: secret, 5)
    del secret

    def collected() -> bool:
        gc.collect()
        return gone() is None

    assert quiet(collected)


def test_many_callers_lose_nothing() -> None:
    lane = WorkerPool(4, max_jobs=1000)
    got: list[object] = []
    threads = [
        threading.Thread(target=lambda: got.extend(lane.run(lambda: 1, 10) for _ in range(50))) for _ in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert got == [1] * 800


def test_a_thread_takes_one_job_of_each_client_at_once() -> None:
    gate, begun = threading.Event(), threading.Event()
    ran: list[str] = []
    lane = WorkerPool(1, max_jobs=20, at_once=4)
    held = lane.submit(lambda: (begun.set(), gate.wait(10)))
    assert begun.wait(5)
    names = ["a/1", "a/1", "a/1", "a/2", "b/1", "b/1"]
    futures = [lane.submit(partial(ran.append, name), name) for name in names]
    gate.set()
    for future in (held, *futures):
        future.result(5)
    # Of each session one, then those that had one already.
    assert sorted(ran[:3]) == ["a/1", "a/2", "b/1"]
    assert sorted(ran[3:5]) == ["a/1", "b/1"]
    assert ran[5] == "a/1"


def test_routines_of_one_batch_reach_their_wait_before_the_first_is_waited_for() -> None:
    said: list[str] = []

    def store(name: str) -> Iterator[ThreadWait]:
        said.append(f"{name} enqueued")
        heard = yield ThreadWait(partial(said.append, f"{name} waited"))
        said.append(f"{name} goes on")
        if name == "b":
            raise KeyError(name)
        return name, heard

    outcomes = run_jobs([partial(begin_routine, store(name)) for name in "abc"])  # type: ignore[arg-type]
    assert said == [f"{name} {what}" for what in ("enqueued", "waited", "goes on") for name in "abc"]
    assert [each.result for each in outcomes] == [("a", None), None, ("c", None)]
    with pytest.raises(KeyError, match="b"):
        outcomes[1]()


def test_a_wait_that_fails_is_raised_inside_its_routine_and_no_other() -> None:
    def store(work: Callable[[], object]) -> Iterator[ThreadWait]:
        try:
            return (yield ThreadWait(work))
        except KeyError:
            return "handled"

    outcomes = run_jobs([partial(begin_routine, store(work)) for work in (fail, lambda: 7)])  # type: ignore[arg-type]
    assert [each() for each in outcomes] == ["handled", 7]


def test_results_come_to_the_loop_that_waits_for_them() -> None:
    lane = WorkerPool(2, max_jobs=100, at_once=8)

    async def ask() -> list[object]:
        return await asyncio.gather(*(lane.run_async(lambda at=at: at, f"c{at}") for at in range(50)))  # type: ignore[misc]

    for _ in range(3):
        assert asyncio.run(asyncio.wait_for(ask(), 10)) == list(range(50))
    with pytest.raises(KeyError, match="mine"):
        asyncio.run(lane.run_async(fail))


def test_a_caller_on_a_loop_that_leaves_cancels_its_job() -> None:
    gate, ran = threading.Event(), threading.Event()
    lane = WorkerPool(1, max_jobs=2)
    lane.submit(lambda: gate.wait(10))

    async def leave() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(lane.run_async(ran.set), 0.05)

    asyncio.run(leave())
    # Its place is free again.
    last = lane.submit(lambda: "next")
    gate.set()
    assert last.result(5)() == "next"
    assert not ran.is_set()
