"""The two baselines: Tier 1 as the seed document writes it, and its patterns with every tool we call high-risk.

Patterns and tool names are those of the document. It checks the arguments and every untrusted block again at each
call, in a backtracking engine; `re` is that engine here.
"""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from lockgate.core.ruling.tool_risk import tool_risk
from lockgate.core.vocabulary import Risk

PATTERNS: tuple[re.Pattern[str], ...] = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"ignore.*(previous|above|prior).*instruction",
        r"new (instruction|directive|task)",
        r"forget.*(previous|everything)",
        r"(execute|run|call).*\(",
        r"curl.*\|.*bash",
        r"(api[_-]?key|password|token|secret)",
    )
)
TOOLS = frozenset({"bash", "write", "web_fetch", "spawn_agent"})
# One pattern on one text: ordinary text takes milliseconds, a few kilobytes made for the purpose take minutes.
PATIENCE_S = 2.0


class TooSlow(Exception):
    """A pattern was still looking when its time was over."""


@contextmanager
def time_guard(seconds: float) -> Iterator[None]:
    """Raise TooSlow after so much CPU time; `re` looks for signals while it backtracks, and for nothing else."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(_number: int, _frame: object) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def matching(text: str) -> list[int]:
    """The numbers of all patterns found in a text."""
    return [number for number, pattern in enumerate(PATTERNS) if pattern.search(text)]


def suspicious(text: str) -> bool:
    """The seed's own question; a pattern that does not finish is counted as found, since the seed fails safe."""
    try:
        with time_guard(PATIENCE_S):
            return any(pattern.search(text) for pattern in PATTERNS)
    except TooSlow:
        return True


def listed(tool: str) -> bool:
    """High risk by the letter of the seed."""
    return tool in TOOLS


def risky(tool: str) -> bool:
    """High risk by Lockgate's own judgement of a name."""
    return tool_risk(tool) is Risk.HIGH


class Seed:
    """The seed's Tier 1 over one session at a time. Answers are remembered per text: this one is for counting."""

    def __init__(self, high_risk: Callable[[str], bool] = listed) -> None:
        self._high_risk = high_risk
        self._known: dict[str, bool] = {}
        self._blocks: list[str] = []

    def begin(self, goal: str) -> None:
        del goal  # the seed's Tier 1 never looks at it
        self._blocks = []

    def add(self, trust: str, source: str, content: str) -> None:
        del source
        if trust == "untrusted":
            self._blocks.append(content)

    def check(self, tool: str, arguments: Mapping[str, object]) -> bool:
        """Whether the call is escalated."""
        if not self._blocks or not self._high_risk(tool):
            return False
        return self._found(" ".join(texts_in(arguments))) or any(map(self._found, self._blocks))

    def _found(self, text: str) -> bool:
        if text not in self._known:
            self._known[text] = suspicious(text)
        return self._known[text]


def texts_in(value: object) -> Iterator[str]:
    """Every value inside a call's arguments as text."""
    pending = [value]
    while pending:
        value = pending.pop()
        if isinstance(value, Mapping):
            pending.extend(value.values())
        elif isinstance(value, list | tuple):
            pending.extend(value)
        elif value is not None:
            yield str(value)


def rescan_all(blocks: list[str], arguments: Mapping[str, object]) -> int:
    """What one call costs the seed when it names what it found: every pattern over every block so far."""
    found = sum(len(matching(block)) for block in blocks)
    return found + len(matching(" ".join(texts_in(arguments))))


def rescan_first(blocks: list[str], arguments: Mapping[str, object]) -> bool:
    """The same, stopping at the first hit: cheap exactly where it escalates."""
    return any(pattern.search(" ".join(texts_in(arguments))) for pattern in PATTERNS) or any(
        pattern.search(block) for block in blocks for pattern in PATTERNS
    )
