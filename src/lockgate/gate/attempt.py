"""A wait of a ruling's routine that cannot fail: an error of a judge or a store is a value, and no answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from lockgate.runtime.failures import report_failure


class Attempt(NamedTuple):
    """Something that a ruling waits for, in both ways of waiting. It returns the result, or the error as a value."""

    run: Callable[[], object]
    run_async: Callable[[], Awaitable[object]]

    def now(self) -> object:
        try:
            return self.run()
        except Exception as error:  # noqa: BLE001  # an edge: a part that fails did not answer
            report_failure("gate", error)
            return error

    async def later(self) -> object:
        try:
            return await self.run_async()
        except Exception as error:  # noqa: BLE001  # as above; a caller's cancellation is no Exception
            report_failure("gate", error)
            return error


def attempt_in_thread(work: Callable[[], object]) -> Attempt:
    """Return an attempt that an event loop waits for in a thread: stores wait for disks and locks."""

    async def in_thread() -> object:
        from asyncio import to_thread

        return await to_thread(work)

    return Attempt(work, in_thread)
