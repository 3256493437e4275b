"""Puts a changed policy into force while a program runs: read whole, checked whole, then swapped in one step.

1. Look.    Compare the operator's files with those in force, once a second. A changed file must have rested for one
            look: an editor that writes in place leaves a shorter file for a moment, which may be a looser policy.
2. Read.    Read all files as the start does. A file that cannot be used, is gone, or changes meanwhile changes nothing;
            nor does one where an agent's change would not be held (`effects/own_paths.py`): that takes a restart.
3. Freeze.  The project's files count as they were at the start: an agent can write them. What only a start can change
            (addresses, stores, the journal, notifications) stays as it is, and is named.
4. Swap.    The caller builds what it needs, then replaces one reference.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from logging import getLogger
from pathlib import Path
from threading import Event, Lock, Thread
from time import time
from typing import NamedTuple

from lockgate.core.errors import InvalidConfig, LockgateError, printable
from lockgate.runtime.failures import report_failure
from lockgate.settings.config import Settings, SourceRole, find_restart_keys
from lockgate.settings.files import printable_path, stamp_files

LOOK_S = 1.0
_LOG = getLogger("lockgate.policy")
_MAX_SAID = 400


class ReloadState(NamedTuple):
    """The policy in force and since when; `error` is why the newest files are not, where they are not.

    `needs_restart` names what has changed in the files and waits for a restart.
    """

    policy_hash: str
    since_s: float
    error: str = ""
    needs_restart: tuple[str, ...] = ()

    @property
    def word(self) -> str:
        """`current`, `refused` or `needs-restart`."""
        return "refused" if self.error else "needs-restart" if self.needs_restart else "current"


class PolicyReload:
    """Watches the operator's files from a thread of its own, once started.

    `load` reads the settings anew, with the project's files as they were at the start. `apply` gets the settings in
    force and those to put into force, and raises LockgateError, with nothing changed, where it cannot. `is_guarded` is
    whether an agent's change of the file at this path would be held. `sealed` are other files that `apply` depends on:
    what an agent writes there does not count, so they need no guard.
    """

    def __init__(
        self,
        settings: Settings,
        load: Callable[[], Settings],
        apply: Callable[[Settings, Settings], None],
        *,
        is_guarded: Callable[[str], bool],
        sealed: tuple[Path, ...] = (),
        clock: Callable[[], float] = time,
    ) -> None:
        self._settings, self._load, self._apply, self._clock = settings, load, apply, clock
        self._is_guarded, self._sealed, self._taken_sealed = is_guarded, sealed, stamp_files(sealed)
        self.state = ReloadState(settings.policy.hash, clock())
        # As they were before the start read them: what was written since is found by the next looks.
        self._started = self._taken = self._seen = settings.stamps
        self._lock = Lock()
        self._asked, self._ended = Event(), Event()

    def start(self) -> None:
        Thread(target=self._look_regularly, name="policy-reload", daemon=True).start()

    def close(self) -> None:
        self._ended.set()
        self._asked.set()

    def ask(self) -> None:
        """Have the files read now, by the thread; a signal handler may call this."""
        self._asked.set()

    def _look_regularly(self) -> None:
        while not self._ended.is_set():
            asked = self._asked.wait(LOOK_S)
            self._asked.clear()
            if self._ended.is_set():
                return
            if asked:
                self.reload()
            else:
                self.look()

    def look(self) -> bool:
        """1. Reload where a file has changed and rests; return whether the files were read."""
        stamps = stamp_files(self._settings.operator_files)
        rests, self._seen = stamps == self._seen, stamps
        has_changed = stamps != self._taken or stamp_files(self._sealed) != self._taken_sealed
        return rests and has_changed and self.reload()

    def reload(self) -> bool:
        """2 to 4. Read the files now; return whether what they say was taken or refused, and not left for later."""
        with self._lock:
            tried, sealed = stamp_files(self._settings.operator_files), stamp_files(self._sealed)
            error = ""
            try:
                found = self._load()
                if stamp_files(found.operator_files) != tried:
                    # It is being written: the next look waits until it rests.
                    return False
                self._refuse_lost_files(found)
                self._refuse_unguarded_files(tried)
                settings = replace(
                    self._settings,
                    policy=found.policy,
                    supervision=found.supervision,
                    sources=found.sources,
                    origins=found.origins,
                )
                is_same = (settings.policy, settings.supervision) == (self._settings.policy, self._settings.supervision)
                if not is_same or sealed != self._taken_sealed:
                    self._apply(self._settings, settings)
                self._note_taken(settings, find_restart_keys(self._settings, found))
            except LockgateError as refused:
                error = "; ".join(printable(part, _MAX_SAID) for part in (refused.message, refused.hint) if part)
            except (OSError, ValueError, RuntimeError, TypeError, KeyError, MemoryError) as failed:
                report_failure("policy-reload", failed)
                error = f"it could not be put into force: {type(failed).__name__}"
            if error:
                self.state = self.state._replace(error=error)
                _LOG.error("POLICY NOT RELOADED, the old one stays: policy=%s why=%s", self.state.policy_hash, error)
            self._taken, self._taken_sealed = tried, sealed
            return True

    def _note_taken(self, settings: Settings, restart: tuple[str, ...]) -> None:
        was = self.state
        if settings.policy.hash != was.policy_hash:
            _LOG.warning("policy reloaded: policy=%s before=%s", settings.policy.hash, was.policy_hash)
        elif was.error:
            _LOG.warning("the configuration can be used again: policy=%s", was.policy_hash)
        if restart and restart != was.needs_restart:
            _LOG.warning("a changed setting needs a restart: %s", ", ".join(restart))
        self._settings = settings
        self.state = ReloadState(settings.policy.hash, self._clock(), "", restart)

    def _refuse_lost_files(self, found: Settings) -> None:
        """Refuse to go on without a file that is in force: without it the policy may be looser."""
        there = {source.file for source in found.sources}
        for source in self._settings.sources:
            operators = source.role not in (SourceRole.PROJECT, SourceRole.DEFAULT) and not source.unused
            if operators and source.file not in there:
                raise InvalidConfig(
                    f"{printable_path(source.file)}: is gone", hint="bring it back; a restart goes on without it"
                )

    def _refuse_unguarded_files(self, stamps: tuple[tuple[int, ...] | None, ...]) -> None:
        """Refuse a changed file that an agent could have changed without being held, by its name or where it leads."""
        files = zip(self._settings.operator_files, self._started, stamps, strict=True)
        for path in (path for path, started, now in files if now != started):
            if not all(map(self._is_guarded, (str(path), os.path.realpath(path)))):
                raise InvalidConfig(
                    f"{printable_path(path)}: has changed in a place that agents can write, so it needs a restart",
                    hint="call it lockgate.toml, or keep it in ~/.config/lockgate: agents' changes are held there",
                )
