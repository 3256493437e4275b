"""A wait that cannot fail: an error is a value, and counted; a caller's cancellation is neither."""

from __future__ import annotations

import asyncio

import pytest
from failure_counts import count_failures

from lockgate.gate.attempt import Attempt, attempt_in_thread


def test_a_result_is_returned_in_both_ways() -> None:
    attempt = attempt_in_thread(lambda: 7)
    assert (attempt.now(), asyncio.run(attempt.later())) == (7, 7)


def test_an_error_is_a_value_and_counted() -> None:
    error = LookupError("no")

    def fail() -> object:
        raise error

    before = count_failures("gate")
    attempt = attempt_in_thread(fail)
    assert (attempt.now(), asyncio.run(attempt.later())) == (error, error)
    assert count_failures("gate") == before + 2


def test_a_cancelled_caller_stays_cancelled() -> None:
    async def ask() -> object:
        waiting = asyncio.ensure_future(Attempt(lambda: None, lambda: asyncio.sleep(60)).later())
        await asyncio.sleep(0)
        waiting.cancel()
        return await waiting

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(ask())
