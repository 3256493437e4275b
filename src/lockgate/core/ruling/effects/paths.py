"""What it means to read, write, delete or run a path: project files, secrets, and files that open a door."""

from __future__ import annotations

from enum import StrEnum

from lockgate.core.ruling.effects.effect import Effect, effect
from lockgate.core.ruling.effects.project import Project


class Access(StrEnum):
    """What is done with a path."""

    READ = "read"
    WRITE = "write"
    DELETE = "delete"
    RUN = "run"


def read_access(path: str, access: Access, project: Project, *, folder: str = "") -> Effect:
    """Return what this access to a path would do; the caller fills argument and span in."""
    del access, project, folder
    return effect("unknown-act", path)
