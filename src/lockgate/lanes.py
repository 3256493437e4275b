"""Work that would hold up a caller, in threads of our own.

An executor's threads would be waited for at exit, and loops share theirs: eighty calls that wait in it make everybody
else's wait too.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from queue import Empty, SimpleQueue
from threading import Lock, Thread

# How long a thread without work stays.
IDLE_S = 5.0


class Full(Exception):
    """Too much work is waiting."""


class Lane:
    """Up to so many daemon threads, and so much work for them; they are gone with the process, and left by a fork.

    Starting a thread can take a busy loop milliseconds, so a caller starts one only where none is about to be free;
    the next one is started by the last.
    """

    def __init__(self, workers: int, *, most: int) -> None:
        self._workers, self._most = workers, most
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = Lock()
        self._queue: SimpleQueue[tuple[Future[Callable[[], object]], Callable[[], object]]] = SimpleQueue()
        # All under the lock: threads there are, those of them that will take the next piece of work, work not done.
        self._threads = self._free = self._under_way = 0

    def start(self, work: Callable[[], object]) -> Future[Callable[[], object]]:
        """Begin the work; what comes is called to get its result, or to have it raise what it raised."""
        if self._pid != os.getpid():
            self._begin()  # after a fork: the threads are not here, and the lock may be held by one of them
        future: Future[Callable[[], object]] = Future()
        with self._lock:
            if self._under_way >= self._most:
                raise Full
            self._under_way += 1
            self._queue.put((future, work))
            hire = self._hires()
        if hire:
            self._hire()
        return future

    def wait(self, work: Callable[[], object], timeout_s: float) -> object:
        """The result of the work, for a plain thread; TimeoutError when it takes longer."""
        future = self.start(work)
        try:
            outcome = future.result(max(0.0, timeout_s))
        finally:
            future.cancel()
        return outcome()

    def _hires(self) -> bool:
        if self._free or self._threads >= self._workers:
            return False
        self._threads += 1
        self._free += 1
        return True

    def _hire(self) -> None:
        try:
            Thread(target=self._work, name="lockgate-work", daemon=True).start()
        except RuntimeError:
            # No more threads: the work waits for those there are, and where there are none it fails.
            with self._lock:
                self._threads -= 1
                self._free -= 1
                left = [] if self._threads else [self._queue.get() for _ in range(self._queue.qsize())]
                self._under_way -= len(left)
            for future, _ in left:
                if future.set_running_or_notify_cancel():
                    future.set_result(partial(_raise, Full()))

    def _work(self) -> None:
        while True:
            try:
                future, work = self._queue.get(timeout=IDLE_S)
            except Empty:
                with self._lock:
                    if self._queue.empty():
                        self._threads -= 1
                        self._free -= 1
                        return
                continue
            with self._lock:
                self._free -= 1
                hire = not self._queue.empty() and self._hires()
            if hire:
                self._hire()
            # Nobody does what nobody waits for any more; what has begun cannot be stopped.
            wanted = future.set_running_or_notify_cancel()
            outcome = _outcome(work) if wanted else _nothing
            with self._lock:
                self._free += 1
                self._under_way -= 1
            if wanted:
                future.set_result(outcome)
            # Not kept until the next piece of work comes: it holds somebody's text, or key.
            del future, work, outcome


def _outcome(work: Callable[[], object]) -> Callable[[], object]:
    try:
        return partial(_same, work())
    except Exception as error:  # noqa: BLE001 - raised again where somebody waits for it
        # Not as the future's exception: loops turn some into a cancellation, and lose others.
        return partial(_raise, error)
    except BaseException:  # noqa: BLE001 - a SystemExit in here must not end whoever waits, nor the thread
        return partial(_raise, RuntimeError())


def _same(value: object) -> object:
    return value


def _nothing() -> None:
    return None


def _raise(error: Exception) -> object:
    raise error
