"""Has a command that runs for long put changed configuration files into force in its host."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from lockgate import assemble
from lockgate.core.ruling.effects.own_paths import Access, own_access
from lockgate.core.ruling.effects.project import Project
from lockgate.core.text.scanner import check_pattern
from lockgate.gate.person_questions import end_outdated_questions
from lockgate.sessions import Host
from lockgate.settings.config import Settings, discover_settings
from lockgate.settings.files import home_folder
from lockgate.settings.policy_reload import PolicyReload
from lockgate.verifiers.exam_store import FILE as EXAMS


def watch_policy(
    host: Host,
    settings: Settings,
    path: str | None = None,
    *,
    prepare: Callable[[Settings, Settings], None] = lambda _, __: None,
) -> PolicyReload:
    """Return what puts changed settings into force in this host; the caller starts and closes it.

    `prepare` gets the settings in force and the new ones just before they are, and may refuse them as the start does.
    """
    load = partial(
        discover_settings,
        Path(path) if path is not None else None,
        environ=dict(os.environ),
        check_pattern=check_pattern,
        project=settings.project_files,
    )

    def apply(before: Settings, new: Settings) -> None:
        gate = assemble.changed_gate(host.gate, before, new)
        prepare(before, new)
        host.change_gate(gate)
        end_outdated_questions(gate.approvals, before.policy, new.policy)

    home = home_folder(os.environ)
    there = Project(home="" if home is None else str(home))
    return PolicyReload(
        settings,
        load,
        apply,
        is_guarded=lambda path: own_access(path, Access.WRITE, there) is not None,
        sealed=(settings.state_dir / EXAMS,) if settings.state_dir is not None else (),
    )
