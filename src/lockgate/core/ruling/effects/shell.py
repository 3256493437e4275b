"""A shell command to its effects."""

from __future__ import annotations

from lockgate.core.ruling.effects.activity import Activity
from lockgate.core.ruling.effects.effect import Effect, effect
from lockgate.core.ruling.effects.project import Project


def read_command(text: str, argument: str, project: Project, activity: Activity) -> list[Effect]:
    """Return what a command line would do; one that cannot be read opens a door."""
    del project, activity
    return [effect("unreadable", text, argument=argument, span=(0, len(text)))]
