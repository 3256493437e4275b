"""What the tests of the journal at work share."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest


@pytest.fixture
def no_thread_is_left() -> Iterator[None]:
    """Every journal that the test has closed has ended its thread."""
    before = set(threading.enumerate())
    yield
    left = [each for each in threading.enumerate() if each.name == "lockgate-journal" and each not in before]
    for each in left:
        # One that is on its way out may take a moment on a busy machine.
        each.join(10)
    assert [each.name for each in left if each.is_alive()] == []
