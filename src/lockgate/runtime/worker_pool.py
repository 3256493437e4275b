"""Threads of our own for jobs that would block a caller, with fair turns for all clients.

The interpreter waits for an executor's threads at exit. And a loop's default executor is shared: eighty blocked jobs
would delay everything else that uses it.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from threading import Condition, Thread
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, ref

from lockgate.runtime.forks import on_fork
from lockgate.runtime.routines import SuspendedRoutine

# How long a thread without a job stays.
IDLE_S = 5.0


class Full(Exception):
    """Too many jobs are waiting; `by_caller` says that most of them are those of the client whose job is refused."""

    def __init__(self, *args: object, by_caller: bool = False) -> None:
        super().__init__(*args)
        self.by_caller = by_caller


class JobResult(NamedTuple):
    """What a job returned or raised. Call it in the thread that waits, to get the result or the error there.

    A future's exception will not do: event loops turn some into a cancellation, and lose others.
    """

    result: object = None
    error: Exception | None = None

    def __call__(self) -> Any:
        try:
            if self.error is not None:
                raise self.error
            return self.result
        finally:
            # An error holds the frames that it passed. If one of them held the error, all that they hold, such as a
            # client's text, would be kept until the next garbage collection.
            del self


class _Job(NamedTuple):
    future: Future[JobResult]
    work: Callable[[], object]


_Group = dict[str, deque[_Job]]


class WorkerPool:
    """Up to `workers` daemon threads and up to `max_jobs` jobs for them; the threads end with the process.

    Clients take turns, one job at a time, and at most `per_client` jobs of a client run at once. When the pool is full,
    the client with the most waiting jobs loses one. So one client's jobs neither delay nor displace the others.
    A client may be two names, `a/b`: a gets a turn, and within it b. So inventing second names gains no turns.

    With `at_once` a thread takes several jobs, one of each client that waits, and runs them in turn. Jobs that return a
    routine (`begin_routine`) go on side by side: each reaches its wait before the thread waits for the first of them.
    So what they have enqueued by then is stored with one commit.

    Starting a thread can block a busy loop for milliseconds, so a caller starts one only if none is about to be free.
    Each new thread starts the next one if it is needed.
    """

    def __init__(self, workers: int, *, max_jobs: int, per_client: int | None = None, at_once: int = 1) -> None:
        self._workers, self._most, self._each = workers, max_jobs, per_client or workers * at_once
        self._at_once = at_once
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

    def submit(self, work: Callable[[], object], client: str = "") -> Future[JobResult]:
        """Submit a job; the future's result is a function that returns the job's result or raises its error.

        A job that is cancelled before it begins is not done, and frees its place.
        """
        future: Future[JobResult] = Future()
        name, _, subclient = client.partition("/")
        with self._change:
            pushed_out = self._evict_job(name, subclient)
            self._waiting.setdefault(name, {}).setdefault(subclient, deque()).append(_Job(future, work))
            self._under_way += 1
            starts_thread = self._reserve_thread()
            self._change.notify()
        if pushed_out is not None:
            _fail_job(pushed_out, by_caller=True)
        future.add_done_callback(partial(self._drop_cancelled, name, subclient))
        if starts_thread:
            self._start_thread()
        return future

    def run(self, work: Callable[[], object], timeout_s: float, client: str = "") -> object:
        """Run a job and return its result, for a plain thread; raise TimeoutError when it takes longer."""
        future = self.submit(work, client)
        try:
            return future.result(max(0.0, timeout_s))()
        finally:
            future.cancel()
            # As in JobResult.
            del future

    async def run_async(self, work: Callable[[], object], client: str = "") -> Any:
        """Run a job and return its result, for a caller on an event loop; a caller that leaves cancels its job."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[JobResult] = loop.create_future()
        future = self.submit(work, client)
        future.add_done_callback(partial(_mailbox_of(loop).post, waiter))
        try:
            return (await waiter)()
        finally:
            future.cancel()
            # As in JobResult.
            del future, waiter

    def _evict_job(self, name: str, subclient: str) -> Future[JobResult] | None:
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
            raise Full(by_caller=len(group.get(subclient, ())) > 1)
        # The newest job: the older ones are nearer to their turn, and to their deadline.
        future, _ = group[largest].pop()
        self._remove_if_empty(busiest, largest)
        self._under_way -= 1
        return future

    def _drop_cancelled(self, name: str, subclient: str, future: Future[JobResult]) -> None:
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
                while self._next_client() is None:
                    if not self._change.wait(IDLE_S) and self._next_client() is None:
                        self._threads -= 1
                        self._free -= 1
                        return
                taken = self._take_jobs()
                self._free -= 1
                starts_thread = self._reserve_thread()
            if starts_thread:
                self._start_thread()
            self._run_taken(taken)

    def _run_taken(self, taken: list[tuple[str, _Job]]) -> None:
        # A cancelled job is skipped; a running one cannot be stopped.
        wanted = [job for _, job in taken if job.future.set_running_or_notify_cancel()]
        outcomes = run_jobs([job.work for job in wanted])
        with self._change:
            self._free += 1
            self._under_way -= len(taken)
            self._running.subtract(client for client, _ in taken)
            self._running += Counter()
        while outcomes:
            wanted.pop(0).future.set_result(outcomes.pop(0))
        # As in JobResult: an error's traceback leads to this frame, too. And a thread without a job holds no text.
        taken.clear()

    def _take_jobs(self) -> list[tuple[str, _Job]]:
        """Take the next jobs, at most one of each client; the caller holds the lock and knows that there is one."""
        taken: list[tuple[str, _Job]] = []
        later: dict[str, _Group] = {}
        while len(taken) < self._at_once and (client := self._next_client()) is not None:
            group = self._waiting.pop(client)
            subclient, waiting = next(iter(group.items()))
            del group[subclient]
            taken.append((client, waiting.popleft()))
            self._running[client] += 1
            if waiting:
                later.setdefault(client, {})[subclient] = waiting
            if group:
                self._waiting[client] = group
        # At the end of the line, behind all other clients.
        for client, group in later.items():
            self._waiting.setdefault(client, {}).update(group)
        return taken


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
            return await self.pool.run_async(self.work, self.client)


class _LoopMailbox:
    """Brings results to the waiters of one event loop. Waking the loop costs a system call, so results share it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        # Held weakly: the mailbox is found by its loop, and must not keep it.
        self._loop = ref(loop)
        self._posted: deque[tuple[asyncio.Future[JobResult], Future[JobResult]]] = deque()
        self._is_woken = False

    def post(self, waiter: asyncio.Future[JobResult], done: Future[JobResult]) -> None:
        """Pass on the result of a job, in any thread."""
        loop = self._loop()
        self._posted.append((waiter, done))
        if not self._is_woken and loop is not None:
            self._is_woken = True
            # A loop that is closed has no waiters.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        # Before the first is taken: what is posted from here on wakes the loop again.
        self._is_woken = False
        while self._posted:
            waiter, done = self._posted.popleft()
            if not waiter.done() and not done.cancelled():
                waiter.set_result(done.result())


_mailboxes: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopMailbox] = WeakKeyDictionary()


def _mailbox_of(loop: asyncio.AbstractEventLoop) -> _LoopMailbox:
    found = _mailboxes.get(loop)
    if found is None:
        found = _mailboxes[loop] = _LoopMailbox(loop)
    return found


def _fail_job(future: Future[JobResult], *, by_caller: bool = False) -> None:
    if future.set_running_or_notify_cancel():
        future.set_result(JobResult(error=Full(by_caller=by_caller)))


def run_job(work: Callable[[], object]) -> JobResult:
    """Run a job and return its outcome."""
    try:
        return JobResult(work())
    except BaseException as error:  # noqa: BLE001 - a SystemExit of a job must end neither its caller nor the thread
        return JobResult(error=error if isinstance(error, Exception) else RuntimeError())


def run_jobs(works: Sequence[Callable[[], object]]) -> list[JobResult]:
    """Run jobs one after another; those that return a routine go on side by side, from wait to wait."""
    outcomes = [run_job(work) for work in works]
    while True:
        suspended = [(at, each.result) for at, each in enumerate(outcomes) if isinstance(each.result, SuspendedRoutine)]
        if not suspended:
            return outcomes
        heard = [(at, routine, run_job(routine.wait.now)) for at, routine in suspended]
        for at, routine, answer in heard:
            outcomes[at] = run_job(partial(routine.resume, answer.result, answer.error))
