"""What a person vouches for with `lockgate trust mcp:SERVER`: the list of its tools, as the server describes them.

The list is pinned as one text, as any other that is vouched for. The single tools are accepted (`mcp/tool_pins.py`), so
that their descriptions count as `vetted`. What the tools answer stays untrusted: a server hands on what others wrote.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from lockgate.core.errors import InvalidConfig, LockgateError, quoted
from lockgate.mcp.tool_pins import ToolPin, ToolPins, pinned_servers

PREFIX = "mcp:"


class ServerTools(NamedTuple):
    """The tools of the servers of one name, each in the form that was listed last; there is one for each command."""

    source: str
    pins: tuple[ToolPins, ...]

    @property
    def text(self) -> str:
        """The list as a text: every name, description, schema and annotation."""
        tools = [json.dumps(each.latest.fields, indent=2, ensure_ascii=False) for each in self._listed()]
        return "\n".join(sorted(tools))

    def _listed(self) -> list[ToolPin]:
        return [each for pins in self.pins for each in pins.list_pins()]

    def accept(self) -> list[str]:
        """Accept the tools as they were read here; return the names of those that have changed meanwhile."""
        changed = []
        for pins in self.pins:
            shown = {each.tool.name: each.latest.digest for each in pins.list_pins()}
            changed += sorted(shown.keys() - set(pins.accept(shown)))
        return changed

    def withdraw(self) -> None:
        """Take the acceptance of all tools back: their descriptions count as untrusted in later sessions."""
        for pins in self.pins:
            pins.withdraw()


def read_tools(state_dir: Path | None, source: str) -> ServerTools:
    """Return the tools of a server by `mcp:NAME`; raise LockgateError where none was ever listed."""
    if state_dir is None:
        raise InvalidConfig("there is no folder to keep pins in", hint="set HOME or XDG_STATE_HOME")
    name = source.removeprefix(PREFIX)
    found = tuple(ToolPins(path, name) for path, known in pinned_servers(state_dir / "mcp") if name and known == name)
    for pins in found:
        if pins.unreadable:
            raise LockgateError(pins.unreadable, hint="look at it; lockgate mcp --repin --forget begins anew")
    if not any(pins.list_pins() for pins in found):
        raise LockgateError(
            f"no tools of a server {quoted(name)} are known",
            hint="a server's tools are known once an agent has listed them through `lockgate mcp`",
        )
    return ServerTools(source, found)
