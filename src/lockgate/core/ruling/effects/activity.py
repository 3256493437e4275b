"""What a session has done so far, as far as later effects depend on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lockgate.core.vocabulary import Effect

_MAX_PATHS = 256
_WRITES = ("edits-project", "writes-scratch", "writes-outside", "writes-startup-file", "installs-hook")


class Activity(NamedTuple):
    """The paths that earlier calls of a session downloaded or wrote, as the calls spelled them."""

    downloaded: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()

    def after(self, effects: Sequence[Effect]) -> Activity:
        """Return the activity with what these effects leave behind."""
        written = {found.target for found in effects if found.kind in _WRITES and found.target}
        fetched = {found.target for found in effects if found.kind == "downloads-file" and found.target}
        if not written - self.written and not fetched - self.downloaded:
            return self
        return Activity(_with_paths(self.downloaded, fetched), _with_paths(self.written, written))


def _with_paths(known: frozenset[str], new: set[str]) -> frozenset[str]:
    # Past the limit the oldest are unknown to a set, so it begins anew: what is forgotten counts as not downloaded.
    return frozenset(new) if len(known) + len(new) > _MAX_PATHS else known | new


NO_ACTIVITY = Activity()
