"""One flow for two kinds of callers: a generator yields what it waits for, and two drivers wait for it.

A plain thread drives a flow with `run_flow`, an event loop with `run_flow_async`, so that the two can never disagree.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Protocol, TypeVar, cast

T = TypeVar("T")


class Wait(Protocol):
    """Something that takes time: `now` waits for it in a plain thread, `later` on an event loop."""

    def now(self) -> Any: ...

    async def later(self) -> Any: ...


Flow = Generator[Wait, Any, T]


def run_flow(flow: Flow[T]) -> T:
    """Run a flow to its end in this thread. An error of a wait is raised inside the flow, at its `yield`."""
    resume: Callable[[Any], Wait] = flow.send
    value: Any = None
    try:
        while True:
            try:
                wait = resume(value)
            except StopIteration as done:
                return cast(T, done.value)
            try:
                resume, value = flow.send, wait.now()
            except Exception as error:  # noqa: BLE001  # the flow decides what its error means
                resume, value = flow.throw, error
    finally:
        flow.close()


async def run_flow_async(flow: Flow[T]) -> T:
    """Run a flow to its end on the caller's event loop. The caller's cancellation ends it, and is no error of it."""
    resume: Callable[[Any], Wait] = flow.send
    value: Any = None
    try:
        while True:
            try:
                wait = resume(value)
            except StopIteration as done:
                return cast(T, done.value)
            try:
                resume, value = flow.send, await wait.later()
            except Exception as error:  # noqa: BLE001  # as above; a cancellation is no Exception
                resume, value = flow.throw, error
    finally:
        flow.close()
