from __future__ import annotations

from mcp_rig import rig

__all__ = ["rig"]
