"""One generator, driven by a thread or by an event loop, with the same result."""

from __future__ import annotations

import asyncio

import pytest

from lockgate.runtime.routines import Routine, run_routine, run_routine_async


class Answer:
    """A wait that answers, or raises what it is given."""

    def __init__(self, value: object) -> None:
        self.value = value

    def now(self) -> object:
        if isinstance(self.value, BaseException):
            raise self.value
        return self.value

    async def later(self) -> object:
        await asyncio.sleep(0)
        return self.now()


def steps(*waits: Answer, ended: list[str]) -> Routine[list[object]]:
    got: list[object] = []
    try:
        for each in waits:
            try:
                got.append((yield each))
            except ValueError as error:
                got.append(str(error))
        return got
    finally:
        ended.append("ended")


def test_both_drivers_give_the_same_and_raise_errors_at_the_yield() -> None:
    for drive in (run_routine, lambda made: asyncio.run(run_routine_async(made))):
        ended: list[str] = []
        made = steps(Answer(1), Answer(ValueError("broken")), Answer(3), ended=ended)
        assert drive(made) == [1, "broken", 3]
        assert ended == ["ended"]


def test_an_error_that_the_routine_does_not_catch_reaches_the_caller() -> None:
    for drive in (run_routine, lambda made: asyncio.run(run_routine_async(made))):
        ended: list[str] = []
        with pytest.raises(KeyError):
            drive(steps(Answer(KeyError("x")), ended=ended))
        assert ended == ["ended"]


def test_a_cancelled_caller_ends_the_routine() -> None:
    ended: list[str] = []

    class Never(Answer):
        async def later(self) -> object:
            await asyncio.Event().wait()
            return None

    async def main() -> None:
        task = asyncio.create_task(run_routine_async(steps(Never(None), ended=ended)))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert ended == ["ended"]
