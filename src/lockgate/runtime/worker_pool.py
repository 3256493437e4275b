"""Work that would hold up a caller, in threads of our own.

An executor's threads would be waited for at exit, and loops share theirs: eighty calls that wait in it make everybody
else's wait too.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from threading import Condition, Thread

from lockgate.runtime.forks import on_fork

# How long a thread without work stays.
IDLE_S = 5.0

_Outcome = Callable[[], object]
_Group = dict[str, deque[tuple[Future[_Outcome], _Outcome]]]


class Full(Exception):
    """Too much work is waiting."""


class WorkerPool:
    """Up to `workers` daemon threads, and up to `most` pieces of work for them; they are gone with the process.

    Everybody the work is done for has a turn, one piece at a time, and no more than `each` of anybody's are under way
    at once. Where there is no place left, whoever has the most waiting gives one up. So a crowd of one's own keeps
    nobody else waiting, and nobody else out. `whom` may be two names, `a/b`: a has a turn, and in it b has one. So
    whoever can make up names of the second kind has no more turns for it.

    Starting a thread can take a busy loop milliseconds, so a caller starts one only where none is about to be free;
    the next one is started by the last.
    """

    def __init__(self, workers: int, *, max_jobs: int, per_client: int | None = None) -> None:
        self._workers, self._most, self._each = workers, max_jobs, per_client or workers
        self._reset()
        # In a forked child the threads are gone. Reset before any thread runs there: else the first two callers would
        # both reset, and one would wait for the other's job.
        on_fork(self._reset)

    def _reset(self) -> None:
        # Guards all of this. Reentrant: the garbage collector may have somebody's future cancelled in the middle.
        self._change = Condition()
        # Whose turn it is comes first; nobody is in here without work.
        self._waiting: dict[str, _Group] = {}
        self._running: Counter[str] = Counter()
        # Threads there are, those of them that will take the next piece of work, work that is not done.
        self._threads = self._free = self._under_way = 0

    def submit(self, work: Callable[[], object], client: str = "") -> Future[_Outcome]:
        """Begin the work; what comes is called to get its result, or to have it raise what it raised.

        Cancelled before it has begun, it is not done, and takes no place any more.
        """
        future: Future[_Outcome] = Future()
        name, _, member = client.partition("/")
        with self._change:
            pushed_out = self._evict_job(name, member)
            self._waiting.setdefault(name, {}).setdefault(member, deque()).append((future, work))
            self._under_way += 1
            hire = self._reserve_thread()
            self._change.notify()
        if pushed_out is not None:
            _fail_job(pushed_out)
        future.add_done_callback(partial(self._drop_cancelled, name, member))
        if hire:
            self._start_thread()
        return future

    def run(self, work: Callable[[], object], timeout_s: float, client: str = "") -> object:
        """The result of the work, for a plain thread; TimeoutError when it takes longer."""
        future = self.submit(work, client)
        try:
            outcome = future.result(max(0.0, timeout_s))
        finally:
            future.cancel()
        return outcome()

    def _evict_job(self, name: str, member: str) -> Future[_Outcome] | None:
        """Whose work, if anybody's, is not going to be done, because this is; Full when that would not be fair."""
        if self._under_way < self._most:
            return None
        sizes = {each: sum(map(len, group.values())) for each, group in self._waiting.items()}
        crowd = max(sizes, key=sizes.__getitem__, default=name)
        if sizes.get(crowd, 0) <= sizes.get(name, 0) + 1:
            crowd = name
        group = self._waiting.get(crowd, {})
        largest = max(group, key=lambda each: len(group[each]), default=member)
        if crowd == name and len(group.get(largest, ())) <= len(group.get(member, ())) + 1:
            raise Full
        # The latest: those who have waited longest are nearest to their deadline, and to their turn.
        future, _ = group[largest].pop()
        self._remove_if_empty(crowd, largest)
        self._under_way -= 1
        return future

    def _drop_cancelled(self, name: str, member: str, future: Future[_Outcome]) -> None:
        """Whoever waited has left: with a long piece of work under way, the places would else be taken by nobody."""
        if not future.cancelled():
            return
        with self._change:
            waiting = self._waiting.get(name, {}).get(member, ())
            for place, (waiter, _) in enumerate(waiting):
                if waiter is future:
                    del self._waiting[name][member][place]
                    self._under_way -= 1
                    self._remove_if_empty(name, member)
                    break

    def _remove_if_empty(self, name: str, member: str) -> None:
        group = self._waiting[name]
        if not group[member]:
            del group[member]
        if not group:
            del self._waiting[name]

    def _next_client(self) -> str | None:
        """Whose turn it is."""
        return next((whom for whom in self._waiting if self._running[whom] < self._each), None)

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
            # No more threads: the work waits for those there are, and where there are none it fails.
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
                while (whom := self._next_client()) is None:
                    if not self._change.wait(IDLE_S) and self._next_client() is None:
                        self._threads -= 1
                        self._free -= 1
                        return
                group = self._waiting.pop(whom)
                member, waiting = next(iter(group.items()))
                del group[member]
                future, work = waiting.popleft()
                # At the end: all the others are first.
                if waiting:
                    group[member] = waiting
                if group:
                    self._waiting[whom] = group
                self._running[whom] += 1
                self._free -= 1
                hire = self._reserve_thread()
            if hire:
                self._start_thread()
            # Nobody does what nobody waits for any more; what has begun cannot be stopped.
            wanted = future.set_running_or_notify_cancel()
            outcome = _run_job(work) if wanted else _nothing
            with self._change:
                self._free += 1
                self._under_way -= 1
                self._running[whom] -= 1
                if not self._running[whom]:
                    del self._running[whom]
            if wanted:
                future.set_result(outcome)
            # Not kept until the next piece of work comes: it holds somebody's text, or key.
            del future, work, outcome, waiting, group


def _fail_job(future: Future[_Outcome]) -> None:
    if future.set_running_or_notify_cancel():
        future.set_result(partial(_raise, Full()))


def _run_job(work: Callable[[], object]) -> _Outcome:
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
