"""What a session has done so far, as far as later effects depend on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lockgate.core.vocabulary import Effect

MAX_PATHS = 1024
_WRITES = frozenset(
    "edits-project writes-scratch writes-outside writes-startup-file installs-hook changes-pipeline"
    " changes-agent-file".split()
)


class Activity(NamedTuple):
    """The paths that earlier calls of a session downloaded or wrote, as the calls spelled them.

    `is_full` says that there were more than are kept: then any file may be one of them.
    """

    downloaded: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()
    is_full: bool = False

    def after(self, effects: Sequence[Effect]) -> Activity:
        """Return the activity with what these effects leave behind."""
        written = {found.target for found in effects if found.kind in _WRITES and found.target}
        fetched = {found.target for found in effects if found.kind == "downloads-file" and found.target}
        if written <= self.written and fetched <= self.downloaded:
            return self
        downloaded, all_written = self.downloaded | fetched, self.written | written
        if len(downloaded) > MAX_PATHS or len(all_written) > MAX_PATHS:
            return self._replace(is_full=True)
        return self._replace(downloaded=downloaded, written=all_written)


NO_ACTIVITY = Activity()
