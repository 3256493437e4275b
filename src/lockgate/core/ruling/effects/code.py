"""Source text that a call would run or write (Python, JavaScript, …) to its effects."""

from __future__ import annotations

from lockgate.core.ruling.effects.effect import Effect, effect
from lockgate.core.ruling.effects.project import Project


def read_code(text: str, argument: str, project: Project) -> list[Effect]:
    """Return what running this source text would do, by what it names: hosts, processes, secrets, paths outside."""
    del project
    return [effect("unknown-act", argument=argument, span=(0, len(text)))]
