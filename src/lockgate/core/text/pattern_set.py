"""Which of many words and shapes are in a text, all in one pass: a search for each takes forty times as long."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from threading import Lock, local
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import hyperscan

# In a text of fewer characters hundreds of searches take hardly longer than one pass.
SHORT_TEXT = 512
# To get the engine ready takes as long as to search for everything in so many characters: a program that looks at one
# text never does.
COMPILE_AFTER = 200_000


class PatternSet:
    """What to look for, known to the engine once there were texts enough; safe to share between threads.

    Words are meant letter for letter. Shapes have names, and are patterns of the engine's over bytes of UTF-8: each is
    in every text that has what it stands for, and in few others.
    """

    def __init__(self, words: Iterable[str], shapes: Mapping[str, str]) -> None:
        patterns = {**{word: re.escape(word) for word in words}, **shapes}
        self.all_names = frozenset(patterns)
        self._names, self._patterns = [*patterns], [*patterns.values()]
        self._database: hyperscan.Database | None = None
        # Characters that were searched for everything; it need not be exact.
        self._characters_seen = 0
        self._compiling = Lock()
        self._threads = local()

    def find_in(self, text: str) -> frozenset[str]:
        """The words that are in a text, and the names of the shapes; or all, which may be in it."""
        if len(text) < SHORT_TEXT:
            return self.all_names
        if self._database is None:
            self._characters_seen += len(text)
            if self._characters_seen < COMPILE_AFTER:
                return self.all_names
        found: list[int] = []
        database = self._compiled()
        # Two scans on one scratch fail in the engine, so every thread has its own.
        scratch = self._threads.__dict__.get("scratch")
        if scratch is None:
            scratch = self._threads.__dict__["scratch"] = _new_scratch(database)
        # Halves of pairs are no UTF-8, and nothing else either: no word can be found in one.
        database.scan(
            text.encode("utf-8", "surrogatepass"), match_event_handler=_collect, context=found, scratch=scratch
        )
        return frozenset([self._names[number] for number in found])

    def make_ready(self) -> None:
        """For a process that will see many texts, and has time now."""
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
