"""Sessions that something could not be added to, noted in a folder while their own store fails.

Or not yet: whoever lets an agent read something before it is added says so first, and takes the note away afterwards.
If it dies meanwhile the note stays, and is a doubt like any other.

One folder per session and one file per note, so that whoever has dealt with the notes it saw takes away those and no
other. Every process that shares the folder sees a note at once; looking costs one question to the system.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from lockgate.core.kept import EXPECTED

# Whoever may add blocks may name sessions: above this a note is refused, and whoever could not leave one remembers it.
_MAX_NOTES = 10_000


@lru_cache(1_000)
def _mark(session: str) -> str:
    return sha256(session.encode("utf-8", "surrogatepass")).hexdigest()[:32]


class Doubts:
    """Notes in this folder, which is made with the first; without a folder there are none."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = "" if folder is None else str(folder)

    def _of(self, session: str) -> str:
        return f"{self._folder}/{_mark(session)}"

    def note(self, session: str) -> None:
        """OSError where it cannot be left."""
        if not self._folder:
            raise OSError("no folder for notes")
        place = self._of(session)
        for left in reversed(range(8)):
            try:
                os.makedirs(place, mode=0o700, exist_ok=True)
                if max(len(os.listdir(self._folder)), len(os.listdir(place))) > _MAX_NOTES:
                    raise OSError("too many notes")
                os.close(os.open(f"{place}/{os.urandom(8).hex()}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            except FileNotFoundError:
                # The folder was taken away with the notes before.
                if not left:
                    raise
            else:
                return

    def expect(self, session: str) -> str:
        """Leave a note on what is about to be added, and its name; OSError where that cannot be done."""
        if not self._folder:
            raise OSError("no folder for notes")
        place, name = self._of(session), f"{EXPECTED}{os.urandom(8).hex()}"
        for left in reversed(range(8)):
            try:
                with suppress(FileExistsError):
                    os.mkdir(place, 0o700)
                os.close(os.open(f"{place}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            except FileNotFoundError:
                if not left:
                    raise
                os.makedirs(self._folder, mode=0o700, exist_ok=True)
            else:
                break
        return name

    def arrived(self, session: str, note: str) -> None:
        place = self._of(session)
        with suppress(FileNotFoundError):
            os.unlink(f"{place}/{note}")
        # The folder of folders stays: the next note is left a moment later.
        with suppress(OSError):
            os.rmdir(place)

    def of(self, session: str) -> list[str]:
        place, folder = self._of(session), self._folder
        # Nearly always there is nothing, and an exception would cost more than the rest; it is asked before every
        # ruling. Where it cannot be told whether there is, what follows says why.
        if not folder or not (
            os.access(place, os.F_OK) or (os.access(folder, os.F_OK) and not os.access(folder, os.X_OK))
        ):
            return []
        try:
            return os.listdir(place)
        except FileNotFoundError:
            return []

    def lift(self, session: str, notes: Sequence[str]) -> None:
        place = self._of(session)
        for each in notes:
            with suppress(FileNotFoundError):
                os.unlink(f"{place}/{each}")
        # Not empty: somebody has left another one meanwhile.
        with suppress(OSError):
            os.rmdir(place)
            os.rmdir(self._folder)
