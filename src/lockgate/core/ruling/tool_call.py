"""One tool call, as a host hands it to the gate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from lockgate.core.vocabulary import Finding


class ToolCall(NamedTuple):
    """A call that an agent wants to make, with what its host knows about it.

    `annotations` is what an MCP server says of its tool; it can only raise the risk. `findings` is what the host holds
    against the call: with any, the call counts as high-risk and is escalated. `key` is the host's own id of the call,
    under which it asks again and reports the outcome; empty where the host has none. `folder` is where a relative path
    in the call starts from; empty where the host does not know it.
    """

    tool: str
    arguments: Mapping[str, object]
    annotations: Mapping[str, object] | None = None
    findings: Sequence[Finding] = ()
    key: str = ""
    folder: str = ""
