"""Threads of our own for jobs that would block a caller, with fair turns for all clients.

The interpreter waits for an executor's threads at exit. And a loop's default executor is shared: eighty blocked jobs
would delay everything else that uses it.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from threading import Condition, Thread
from typing import NamedTuple

from lockgate.runtime.forks import on_fork

# How long a thread without a job stays.
IDLE_S = 5.0

Outcome = Callable[[], object]
_Group = dict[str, deque[tuple[Future[Outcome], Outcome]]]


class Full(Exception):
    """Too many jobs are waiting."""


class WorkerPool:
    """Up to `workers` daemon threads and up to `max_jobs` jobs for them; the threads end with the process.

    Clients take turns, one job at a time, and at most `per_client` jobs of a client run at once. When the pool is full,
    the client with the most waiting jobs loses one. So one client's jobs neither delay nor displace the others.
    A client may be two names, `a/b`: a gets a turn, and within it b. So inventing second names gains no turns.

    Starting a thread can block a busy loop for milliseconds, so a caller starts one only if none is about to be free.
    Each new thread starts the next one if it is needed.
    """

    def __init__(self, workers: int, *, max_jobs: int, per_client: int | None = None) -> None:
        self._workers, self._most, self._each = workers, max_jobs, per_client or workers
        self._reset()
        # In a forked child the threads are gone. Reset before any thread runs there: else the first two callers would
        # both reset, and one would wait for the other's job.
        on_fork(self._reset)

    def _reset(self) -> None:
        # Guards all below. Reentrant: the garbage collector may cancel a future while this thread holds it.
        self._change = Condition()
        # The client that has the next turn comes first; clients without jobs are not in here.
        self._waiting: dict[str, _Group] = {}
        self._running: Counter[str] = Counter()
        # Threads; those of them that will take the next job; jobs that are not done.
        self._threads = self._free = self._under_way = 0

    def submit(self, work: Callable[[], object], client: str = "") -> Future[Outcome]:
        """Submit a job; the future's result is a function that returns the job's result or raises its error.

        A job that is cancelled before it begins is not done, and frees its place.
        """
        future: Future[Outcome] = Future()
        name, _, subclient = client.partition("/")
        with self._change:
            pushed_out = self._evict_job(name, subclient)
            self._waiting.setdefault(name, {}).setdefault(subclient, deque()).append((future, work))
            self._under_way += 1
            starts_thread = self._reserve_thread()
            self._change.notify()
        if pushed_out is not None:
            _fail_job(pushed_out)
        future.add_done_callback(partial(self._drop_cancelled, name, subclient))
        if starts_thread:
            self._start_thread()
        return future

    def run(self, work: Callable[[], object], timeout_s: float, client: str = "") -> object:
        """Run a job and return its result, for a plain thread; raise TimeoutError when it takes longer."""
        future = self.submit(work, client)
        try:
            outcome = future.result(max(0.0, timeout_s))
        finally:
            future.cancel()
        return outcome()

    def _evict_job(self, name: str, subclient: str) -> Future[Outcome] | None:
        """Evict the newest job of the busiest client if the pool is full; raise `Full` if that client is the caller."""
        if self._under_way < self._most:
            return None
        sizes = {each: sum(map(len, group.values())) for each, group in self._waiting.items()}
        busiest = max(sizes, key=sizes.__getitem__, default=name)
        if sizes.get(busiest, 0) <= sizes.get(name, 0) + 1:
            busiest = name
        group = self._waiting.get(busiest, {})
        largest = max(group, key=lambda each: len(group[each]), default=subclient)
        if busiest == name and len(group.get(largest, ())) <= len(group.get(subclient, ())) + 1:
            raise Full
        # The newest job: the older ones are nearer to their turn, and to their deadline.
        future, _ = group[largest].pop()
        self._remove_if_empty(busiest, largest)
        self._under_way -= 1
        return future

    def _drop_cancelled(self, name: str, subclient: str, future: Future[Outcome]) -> None:
        """Free the place of a cancelled job, which would else be taken until a thread reaches it."""
        if not future.cancelled():
            return
        with self._change:
            waiting = self._waiting.get(name, {}).get(subclient, ())
            for place, (waiter, _) in enumerate(waiting):
                if waiter is future:
                    del self._waiting[name][subclient][place]
                    self._under_way -= 1
                    self._remove_if_empty(name, subclient)
                    break

    def _remove_if_empty(self, name: str, subclient: str) -> None:
        group = self._waiting[name]
        if not group[subclient]:
            del group[subclient]
        if not group:
            del self._waiting[name]

    def _next_client(self) -> str | None:
        """Return the client that has the next turn, or None."""
        return next((client for client in self._waiting if self._running[client] < self._each), None)

    def _reserve_thread(self) -> bool:
        if self._free or self._threads >= self._workers or self._next_client() is None:
            return False
        self._threads += 1
        self._free += 1
        return True

    def _start_thread(self) -> None:
        try:
            Thread(target=self._run_jobs, name="lockgate-work", daemon=True).start()
        except RuntimeError:
            # No more threads: jobs wait for the existing ones, and fail if there are none.
            with self._change:
                self._threads -= 1
                self._free -= 1
                groups = () if self._threads else self._waiting.values()
                left = [future for group in groups for waiting in group.values() for future, _ in waiting]
                if left:
                    self._waiting.clear()
                    self._under_way -= len(left)
            for future in left:
                _fail_job(future)

    def _run_jobs(self) -> None:
        while True:
            with self._change:
                while (client := self._next_client()) is None:
                    if not self._change.wait(IDLE_S) and self._next_client() is None:
                        self._threads -= 1
                        self._free -= 1
                        return
                group = self._waiting.pop(client)
                subclient, waiting = next(iter(group.items()))
                del group[subclient]
                future, work = waiting.popleft()
                # At the end of the line, behind all other clients.
                if waiting:
                    group[subclient] = waiting
                if group:
                    self._waiting[client] = group
                self._running[client] += 1
                self._free -= 1
                starts_thread = self._reserve_thread()
            if starts_thread:
                self._start_thread()
            # A cancelled job is skipped; a running one cannot be stopped.
            wanted = future.set_running_or_notify_cancel()
            outcome = run_job(work) if wanted else _nothing
            with self._change:
                self._free += 1
                self._under_way -= 1
                self._running[client] -= 1
                if not self._running[client]:
                    del self._running[client]
            if wanted:
                future.set_result(outcome)
            # Not kept until the next job comes: these hold a client's text, or a key.
            del future, work, outcome, waiting, group


class PoolJob(NamedTuple):
    """A job for a pool, as a wait of a routine (`lockgate.runtime.routines`); its caller waits at most `timeout_s`."""

    pool: WorkerPool
    work: Callable[[], object]
    timeout_s: float
    client: str = ""

    def now(self) -> object:
        return self.pool.run(self.work, self.timeout_s, self.client)

    async def later(self) -> object:
        async with asyncio.timeout(max(0.0, self.timeout_s)):
            outcome = await asyncio.wrap_future(self.pool.submit(self.work, self.client))
        return outcome()


def _fail_job(future: Future[Outcome]) -> None:
    if future.set_running_or_notify_cancel():
        future.set_result(partial(_raise, Full()))


def run_job(work: Callable[[], object]) -> Outcome:
    """Run a job; return a function that returns its result or raises its error, in the thread that waits for it.

    A future's exception will not do: event loops turn some into a cancellation, and lose others.
    """
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001 - a SystemExit of a job must end neither its caller nor the thread
        return partial(_raise, error if isinstance(error, Exception) else RuntimeError())
    return lambda: result


def _nothing() -> None:
    return None


def _raise(error: Exception) -> object:
    raise error
