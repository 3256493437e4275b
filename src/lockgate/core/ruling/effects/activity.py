"""What a session has done so far, as far as later effects depend on it."""

from __future__ import annotations

from typing import NamedTuple


class Activity(NamedTuple):
    """The paths that earlier calls of a session downloaded or wrote, as the calls spelled them."""

    downloaded: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()


NO_ACTIVITY = Activity()
