"""Many words and shapes looked for in one pass over a text: a search for each takes forty times as long."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from threading import Lock, local
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import hyperscan

# For a shorter text nothing is compiled: hundreds of searches in it take hardly longer than one pass.
SHORT_TEXT = 512
# Compiling takes as long as all searches in this many characters: a program that looks at one text never compiles.
COMPILE_AFTER = 200_000


class PatternSet:
    """Words and named shapes to look for; compiled once enough text has been seen; safe to share between threads.

    Words match letter for letter. Shapes are patterns in the engine's syntax over bytes of UTF-8. A shape matches every
    text that has the thing it is named after, and few others.
    """

    def __init__(self, words: Iterable[str], shapes: Mapping[str, str]) -> None:
        patterns = {**{word: re.escape(word) for word in words}, **shapes}
        self.all_names = frozenset(patterns)
        self._names, self._patterns = [*patterns], [*patterns.values()]
        self._database: hyperscan.Database | None = None
        # Characters that were searched without the engine; threads may lose an update, it need not be exact.
        self._characters_seen = 0
        self._compiling = Lock()
        self._threads = local()

    def find_in(self, text: str) -> frozenset[str]:
        """Return the words and the names of the shapes that are in a text; or all of them, when it was not searched."""
        if self._database is None:
            if len(text) < SHORT_TEXT:
                return self.all_names
            self._characters_seen += len(text)
            if self._characters_seen < COMPILE_AFTER:
                return self.all_names
        found: list[int] = []
        database = self._compiled()
        # Two scans on one scratch fail in the engine, so every thread has its own.
        scratch = self._threads.__dict__.get("scratch")
        if scratch is None:
            scratch = self._threads.__dict__["scratch"] = _new_scratch(database)
        # Half a surrogate pair has no UTF-8; its bytes here match no word.
        database.scan(
            text.encode("utf-8", "surrogatepass"), match_event_handler=_collect, context=found, scratch=scratch
        )
        return frozenset([self._names[number] for number in found])

    def make_ready(self) -> None:
        """Compile now, for a process that will see many texts and has time at its start."""
        self._compiled()

    def _compiled(self) -> hyperscan.Database:
        if self._database is None:
            with self._compiling:
                if self._database is None:
                    import hyperscan

                    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
                    database.compile(
                        expressions=[pattern.encode() for pattern in self._patterns],
                        ids=list(range(len(self._patterns))),
                        elements=len(self._patterns),
                        flags=[hyperscan.HS_FLAG_SINGLEMATCH | hyperscan.HS_FLAG_DOTALL] * len(self._patterns),
                    )
                    self._database = database
        return self._database


def _new_scratch(database: hyperscan.Database) -> hyperscan.Scratch:
    import hyperscan

    return hyperscan.Scratch(database)


def _collect(number: int, _start: int, _end: int, _flags: int, found: Any) -> None:
    found.append(number)
