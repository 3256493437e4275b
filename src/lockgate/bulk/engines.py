"""Run the same work on every piece: in this process, on all cores, or on Ray."""

from __future__ import annotations

import logging
import multiprocessing
import os
import pickle
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for_any
from threading import Lock, Thread
from typing import Any, Never, TypeVar

import lockgate
from lockgate.core.errors import LockgateError, printable, quoted

LOCAL, RAY = "local", "ray"
# Results that wait for this process, for each worker: enough that none is idle, few enough that memory stays flat.
_AHEAD = 2

Given = TypeVar("Given")
Result = TypeVar("Result")
# Called once in every worker; returns what is called for every piece. Both cross to other processes: module-level
# functions, or partials of them.
MakeWork = Callable[[], Callable[[Given], Result]]


def check_engine(text: str) -> str:
    """Return the engine's name, or raise: `local`, `ray` (started here), or `ray://HOST:PORT` (a cluster)."""
    if text not in (LOCAL, RAY) and not text.startswith("ray://"):
        raise LockgateError(f"unknown engine {quoted(text)}", hint="use local, ray, or ray://HOST:PORT")
    return text


def count_cores() -> int:
    # Not every system can say how many of its cores this process may use.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_pieces(
    pieces: Sequence[Given], make_work: MakeWork[Given, Result], *, engine: str = LOCAL, jobs: int | None = None
) -> Iterator[tuple[int, Result]]:
    """Yield the number of each piece with the result of its work, in the order in which they are done."""
    if engine != LOCAL:
        yield from _run_on_ray(engine, pieces, make_work, jobs)
    elif (jobs or count_cores()) == 1 or len(pieces) == 1:
        work = make_work()
        for number, piece in enumerate(pieces):
            yield number, work(piece)
    else:
        yield from _run_in_processes(pieces, make_work, jobs or count_cores())


# --- all cores


def _run_in_processes(
    pieces: Sequence[Given], make_work: MakeWork[Given, Result], jobs: int
) -> Iterator[tuple[int, Result]]:
    # Not forked: a lock or a thread of this process must not be copied half-way.
    context = multiprocessing.get_context("spawn")
    stopped, stop = context.Pipe(duplex=False)
    given = (make_work, stopped)
    pool = ProcessPoolExecutor(min(jobs, len(pieces)), context, initializer=_start_worker, initargs=given)
    waiting: dict[Future[Any], int] = {}
    left = iter(enumerate(pieces))
    try:
        while True:
            with _without_interrupts():
                while len(waiting) < jobs * (1 + _AHEAD) and (each := next(left, None)) is not None:
                    waiting[pool.submit(_work_in_worker, each[1])] = each[0]
            if not waiting:
                return
            done, _ = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                yield waiting.pop(future), future.result()
    except BrokenProcessPool:
        raise LockgateError(
            "one of the processes was killed", hint="try fewer --jobs; --out goes on where it was"
        ) from None
    finally:
        stop.close()
        pool.shutdown(wait=False, cancel_futures=True)
        stopped.close()


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Hold Ctrl-C back for a moment: in the middle of starting its processes the pool would wait for them for ever."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_worker: list[Callable[[Any], Any]] = []
# Free only while a piece is worked on: a process that ended while it hands a result over would block the others.
_handing_over = Lock()


def _start_worker(make_work: MakeWork[Any, Any], stopped: Connection) -> None:
    # Ctrl-C reaches all processes of a terminal; the parent reports what was done so far.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _handing_over.acquire()
    Thread(target=_end_with_parent, args=(stopped,), daemon=True).start()
    _worker.append(make_work())


def _end_with_parent(stopped: Connection) -> None:
    """End this process when the parent stops, in the middle of a piece, or is gone: killed, it cannot say so."""
    parent = multiprocessing.parent_process()
    gone = [] if parent is None else [parent.sentinel]
    if not {*gone} & {*wait_for_any([stopped, *gone])}:
        _handing_over.acquire()
    os._exit(1)


def _work_in_worker(piece: object) -> object:
    _handing_over.release()
    try:
        return _worker[0](piece)
    finally:
        _handing_over.acquire()


# --- Ray


class _RayWorker:
    """The actor that makes the work once and does it for piece after piece. Our errors are results, like others."""

    def __init__(self, version: str, make_work: bytes) -> None:
        try:
            if version != lockgate.__version__:
                raise LockgateError(
                    f"a worker has Lockgate {lockgate.__version__}, and this machine {version}",
                    hint="install the same version on every machine of the cluster",
                )
            self._work = pickle.loads(make_work)()  # noqa: S301 - made by this program, a moment ago
        except LockgateError as error:
            self._work = partial(_raise, error)

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[Any]]:
        numbers = [int(number) for number in batch["number"]]
        return {"number": numbers, "result": [pickle.dumps(self._result(piece)) for piece in batch["piece"]]}

    def _result(self, piece: bytes) -> object:
        try:
            return self._work(pickle.loads(piece))  # noqa: S301
        except LockgateError as error:
            return error


def _raise(error: LockgateError, _: object) -> Never:
    raise error


class _RayAudit:
    """Does the work on all pieces with Ray Data; runs in the cluster, since Ray Data cannot run outside of it."""

    def __init__(self, pieces: Sequence[bytes], worker: tuple[str, bytes], jobs: int | None) -> None:
        import ray.data

        logging.getLogger("ray.data").setLevel(logging.ERROR)
        ray.data.DataContext.get_current().enable_progress_bars = False
        workers = jobs or max(1, int(ray.cluster_resources().get("CPU", 1)))
        rows = [{"number": number, "piece": piece} for number, piece in enumerate(pieces)]
        audited = ray.data.from_items(rows, override_num_blocks=len(rows)).map_batches(
            _RayWorker,
            fn_constructor_args=worker,
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(size=min(workers, len(rows))),
        )
        self._rows = iter(audited.iter_rows())

    def next(self) -> tuple[int, bytes] | None:
        """Return the number and the result of the next piece that is done, or None."""
        row = next(self._rows, None)
        return None if row is None else (int(row["number"]), row["result"])


def _run_on_ray(
    engine: str, pieces: Sequence[Given], make_work: MakeWork[Given, Result], jobs: int | None
) -> Iterator[tuple[int, Result]]:
    # Before the import, and before a cluster starts: a tool that reads untrusted sessions sends nothing anywhere.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Ray's own messages about workers would go to standard output, which is the report's.
    os.environ["RAY_DEDUP_LOGS_SKIP_REGEX"] = "."
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    try:
        import ray
        from ray.exceptions import RayError
    except ImportError:
        raise LockgateError("the package ray is missing", hint="pip install 'lockgate[ray]'") from None
    worker = (lockgate.__version__, pickle.dumps(make_work))
    given = ([pickle.dumps(piece) for piece in pieces], worker, jobs)
    try:
        if not ray.is_initialized():
            _connect(engine, jobs)
        if engine == RAY:
            take = _RayAudit(*given).next
        else:
            remote = ray.remote(num_cpus=0)(_RayAudit).remote(*given)
            take = lambda: ray.get(remote.next.remote())  # noqa: E731
        while (done := take()) is not None:
            result = pickle.loads(done[1])  # noqa: S301 - made by our own workers
            if isinstance(result, LockgateError):
                raise result
            yield done[0], result
    except RayError as error:
        raise LockgateError(f"Ray failed: {printable(error, 300)}", hint="--out goes on where it was") from None


def _connect(engine: str, jobs: int | None) -> None:
    import ray
    from ray.exceptions import RayError

    quiet: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    try:
        if engine == RAY:
            # Not what RAY_ADDRESS names: this engine is here, and a cluster is named as one.
            ray.init("local", num_cpus=jobs, include_dashboard=False, **quiet)
        else:
            ray.init(engine, **quiet)
    except (RayError, ImportError, OSError, RuntimeError, ValueError) as error:
        what = "Ray cannot be started here" if engine == RAY else f"{quoted(engine, 200)} cannot be used"
        raise LockgateError(
            f"{what}: {printable(str(error) or type(error).__name__, 300)}",
            hint="`pip install 'lockgate[ray]'` brings what a cluster needs; is it running, with the same versions?",
        ) from None
