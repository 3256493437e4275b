"""A tool that is no shell to its effects, by name, verb, argument names and annotations."""

from __future__ import annotations

from collections.abc import Sequence

from lockgate.core.ruling.arguments import Leaf
from lockgate.core.ruling.effects.activity import Activity
from lockgate.core.ruling.effects.effect import Effect, effect
from lockgate.core.ruling.effects.project import Project
from lockgate.core.ruling.tool_call import ToolCall


def read_tool(call: ToolCall, leaves: Sequence[Leaf], project: Project, activity: Activity) -> list[Effect]:
    """Return what a tool would do with these arguments; a tool that is not known may do anything."""
    del leaves, project, activity
    return [effect("unknown-act", call.tool)]
