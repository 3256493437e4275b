"""Code that serves synchronous and asynchronous callers: a generator yields what it waits for, and two drivers wait.

A plain thread drives a routine with `run_routine`, an event loop with `run_routine_async`, so the two cannot disagree.
A worker pool drives several side by side, from `begin_routine` on.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple, Protocol, TypeVar, cast

T = TypeVar("T")


class Wait(Protocol):
    """Something that takes time: `now` waits for it in a plain thread, `later` on an event loop."""

    def now(self) -> Any: ...

    async def later(self) -> Any: ...


Routine = Generator[Wait, Any, T]


class ThreadWait(NamedTuple):
    """A function that blocks, as a wait; an event loop runs it in a thread."""

    work: Callable[[], Any]

    def now(self) -> Any:
        return self.work()

    async def later(self) -> Any:
        from asyncio import to_thread

        return await to_thread(self.work)


class SuspendedRoutine(NamedTuple):
    """A routine that has come to a wait, which it is resumed with."""

    routine: Routine[Any]
    wait: Wait

    def resume(self, value: Any, error: Exception | None) -> Any:
        """Go on with what the wait returned or raised; return the routine's result, or itself at its next wait."""
        try:
            wait = self.routine.send(value) if error is None else self.routine.throw(error)
        except StopIteration as done:
            return done.value
        return self._replace(wait=wait)


def begin_routine(routine: Routine[T]) -> T | SuspendedRoutine:
    """Run a routine up to its first wait; return its result where it waits for nothing."""
    try:
        return SuspendedRoutine(routine, next(routine))
    except StopIteration as done:
        return cast(T, done.value)


def run_routine(routine: Routine[T]) -> T:
    """Run a routine to its end in this thread. An error of a wait is raised inside the routine, at its `yield`."""
    resume: Callable[[Any], Wait] = routine.send
    value: Any = None
    try:
        while True:
            try:
                wait = resume(value)
            except StopIteration as done:
                return cast(T, done.value)
            try:
                resume, value = routine.send, wait.now()
            except Exception as error:  # noqa: BLE001  # the routine decides what its error means
                resume, value = routine.throw, error
    finally:
        routine.close()


async def run_routine_async(routine: Routine[T]) -> T:
    """Run a routine to its end on the caller's event loop. The caller's cancellation ends it, and is no error of it."""
    resume: Callable[[Any], Wait] = routine.send
    value: Any = None
    try:
        while True:
            try:
                wait = resume(value)
            except StopIteration as done:
                return cast(T, done.value)
            try:
                resume, value = routine.send, await wait.later()
            except Exception as error:  # noqa: BLE001  # as above; a cancellation is no Exception
                resume, value = routine.throw, error
    finally:
        routine.close()
