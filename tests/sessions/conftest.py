from __future__ import annotations

from hosted_sessions import again, host, other

__all__ = ["again", "host", "other"]
