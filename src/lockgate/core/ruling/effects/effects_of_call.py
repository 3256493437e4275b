"""A tool call to its effects: the one door of this folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from lockgate.core.ruling.arguments import Leaf, flatten_arguments
from lockgate.core.ruling.effects.activity import NO_ACTIVITY, Activity, Change
from lockgate.core.ruling.effects.effect import Certainty, Effect, effect
from lockgate.core.ruling.effects.operator_rows import kinds_of_tool
from lockgate.core.ruling.effects.own_paths import may_lead_to_own
from lockgate.core.ruling.effects.project import NO_PROJECT, Project
from lockgate.core.ruling.effects.tool_arguments import is_content, leaf_name
from lockgate.core.ruling.effects.tools import read_own, read_tool
from lockgate.core.ruling.tool_call import ToolCall


def effects_of(
    call: ToolCall,
    project: Project = NO_PROJECT,
    activity: Activity = NO_ACTIVITY,
    *,
    leaves: Sequence[Leaf] | None = None,
) -> tuple[Effect, ...]:
    """Return what a call would do, the gravest effect first; never empty. What breaks a reader is unreadable.

    `leaves` are the call's flattened arguments, where the caller has them already.
    """
    leaves, project = _prepare(call, leaves, project)
    effects = _read_safely(lambda: read_tool(call, leaves, project, activity), "unreadable")
    effects += [effect(kind, call.tool) for kind in kinds_of_tool(project.effect_rows, call.tool)]
    return tuple(sorted(effects, key=lambda found: -found.severity))


def files_of(call: ToolCall, project: Project, activity: Activity) -> tuple[list[str], list[str]]:
    """Return the files that a call surely runs or loads, and the texts that it runs; nothing is looked up."""
    leaves, named = flatten_arguments(call.arguments)[0], list[str]()
    effects_of(call, replace(project, named=named), activity, leaves=leaves)
    # No shell reads what the agent says of its own command.
    run = [leaf.text for leaf in leaves if "" in named and leaf_name(leaf) not in ("content", "description")]
    return [path for path in named if path], run


def changes_of(call: ToolCall, project: Project, activity: Activity) -> list[Change]:
    """Return what a call writes to files."""
    changes = list[Change]()
    effects_of(call, replace(project, changes=changes), activity)
    return changes


def own_effects_of(
    call: ToolCall,
    project: Project = NO_PROJECT,
    activity: Activity = NO_ACTIVITY,
    *,
    leaves: Sequence[Leaf] | None = None,
) -> list[Effect]:
    """Return only what a call would do to Lockgate's own files; nothing for most calls, after a glance at its words."""
    leaves, project = _prepare(call, leaves, project)
    # What a file is to hold is long, and leads nowhere.
    acting = [leaf for leaf in leaves if not is_content(leaf) or leaf_name(leaf) in ("patch", "diff")]
    is_near = project.follow is not None or activity.is_near_own
    if not is_near and not may_lead_to_own("\n".join([leaf.text for leaf in acting]), project):
        return []
    return _read_safely(lambda: read_own(call, acting, project, activity), "changes-own-state")


def _prepare(call: ToolCall, leaves: Sequence[Leaf] | None, project: Project) -> tuple[Sequence[Leaf], Project]:
    """Return the flattened arguments, and the project as seen from the folder of the call."""
    leaves = flatten_arguments(call.arguments)[0] if leaves is None else leaves
    return leaves, project.at(call.folder) if call.folder else project


def _read_safely(read: Callable[[], list[Effect]], kind_if_broken: str) -> list[Effect]:
    """Return what a reader finds; one effect of this kind where it breaks: the arguments may be written to do that."""
    try:
        return read()
    except Exception:  # noqa: BLE001  # whatever a stranger's text makes our readers raise is a finding, not a pass
        return [effect(kind_if_broken, certainty=Certainty.GUESS)]
