from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from lockgate import lanes
from lockgate.lanes import Full, Lane


def quiet(done: Callable[[], bool]) -> bool:
    until = time.monotonic() + 5
    while not done() and time.monotonic() < until:
        time.sleep(0.005)
    return done()


def fail() -> None:
    raise KeyError("mine")


def test_work_gives_its_result_or_raises_its_error() -> None:
    lane = Lane(1, most=4)
    assert lane.wait(lambda: 7, 5) == 7
    with pytest.raises(KeyError, match="mine"):
        lane.wait(fail, 5)
    assert lane.wait(lambda: 8, 5) == 8


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_an_exit_in_a_thread_ends_nobody_else(error: type[BaseException]) -> None:
    def leave() -> None:
        raise error

    lane = Lane(1, most=4)
    with pytest.raises(RuntimeError):
        lane.wait(leave, 5)
    assert lane.wait(lambda: "still here", 5) == "still here"


def test_no_more_threads_than_workers_and_no_more_work_than_fits() -> None:
    gate = threading.Event()
    before = threading.active_count()
    lane = Lane(3, most=10)
    futures = [lane.start(lambda: gate.wait(10)) for _ in range(10)]
    with pytest.raises(Full):
        lane.start(fail)
    assert quiet(lambda: threading.active_count() == before + 3)
    gate.set()
    assert [future.result(5)() for future in futures] == [True] * 10
    assert lane.wait(lambda: "room again", 5) == "room again"


def test_every_worker_is_hired_when_the_others_hang() -> None:
    gate = threading.Event()
    lane = Lane(4, most=10)
    hanging = []
    for _ in range(3):
        hanging.append(lane.start(lambda: gate.wait(10)))
        time.sleep(0.02)
    assert lane.wait(lambda: "done", 5) == "done"
    gate.set()


def test_threads_without_work_end_and_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "IDLE_S", 0.05)
    before = threading.active_count()
    lane = Lane(2, most=10)
    for _ in range(3):
        assert lane.wait(lambda: 1, 5) == 1
        assert quiet(lambda: threading.active_count() == before)


def test_work_arriving_as_threads_end_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "IDLE_S", 0.001)
    lane = Lane(2, most=10)
    for number in range(200):
        assert lane.wait(lambda number=number: number, 5) == number
        time.sleep(0.001)


def test_without_threads_to_be_had_work_fails_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    lane = Lane(2, most=4)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        for _ in range(6):
            with pytest.raises(Full):
                lane.wait(fail, 5)
    assert lane.wait(lambda: "threads again", 5) == "threads again"


def test_what_was_given_up_before_it_began_is_not_done() -> None:
    gate = threading.Event()
    done: list[int] = []
    lane = Lane(1, most=10)
    first = lane.start(lambda: gate.wait(10))
    with pytest.raises(TimeoutError):
        lane.wait(lambda: done.append(1), 0.01)
    gate.set()
    assert first.result(5)() is True
    assert lane.wait(lambda: done.append(2), 5) is None
    assert done == [2]


def test_nothing_of_the_work_is_kept_by_an_idle_thread() -> None:
    import gc
    import weakref

    class Secret:
        pass

    secret = Secret()
    gone = weakref.ref(secret)
    lane = Lane(1, most=4)
    lane.wait(lambda secret=secret: secret, 5)
    del secret

    def collected() -> bool:
        gc.collect()
        return gone() is None

    assert quiet(collected)


def test_many_callers_lose_nothing() -> None:
    lane = Lane(4, most=1000)
    got: list[object] = []
    threads = [
        threading.Thread(target=lambda: got.extend(lane.wait(lambda: 1, 10) for _ in range(50))) for _ in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert got == [1] * 800
