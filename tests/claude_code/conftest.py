from __future__ import annotations

from hook_events import config, host, plug

__all__ = ["config", "host", "plug"]
