"""A shell command to its effects."""

from __future__ import annotations

from lockgate.core.ruling.effects.activity import Activity
from lockgate.core.ruling.effects.effect import Certainty, Effect, effect
from lockgate.core.ruling.effects.own_paths import may_lead_to_own
from lockgate.core.ruling.effects.program_io import MARK
from lockgate.core.ruling.effects.programs.loaded_files import read_loaded_code
from lockgate.core.ruling.effects.project import Project
from lockgate.core.ruling.effects.shell_walk import Walk
from lockgate.core.ruling.effects.written import read_written_file

MOST_CHARACTERS = 64 * 1024


def read_command(text: str, argument: str, project: Project, activity: Activity) -> list[Effect]:
    """Return what a command line would do; one that cannot be read opens a door."""
    if len(text) > MOST_CHARACTERS:
        return [effect("unreadable", certainty=Certainty.GUESS, argument=argument, span=(0, len(text)))]
    walk = Walk(argument, project, activity, text)
    # Codes of letters can spell any path.
    walk.is_near_own = (
        project.follow is not None or activity.is_near_own or "\\" in text or may_lead_to_own(text, project)
    )
    walk.read_text(text.replace(MARK, ""))
    read_loaded_code(walk)
    found = walk.effects()
    walk.note_changes()
    for path, written in walk.written.items():
        found += read_written_file(path, written, "", argument, project)
    return found
