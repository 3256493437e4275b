"""Hosts in URLs, and which of them are this machine."""

from __future__ import annotations

import re

_URL_HOST = re.compile(r"(?:[a-zA-Z][a-zA-Z0-9+.-]*://)?(?:[^/@\s]*@)?(\[[0-9a-fA-F:]+\]|[^/:?#\s]+)")
_LOCAL = re.compile(
    r"localhost|[\w-]+\.localhost|127(?:\.\d+){0,3}|0\.0\.0\.0|::1|0|host\.docker\.internal", re.IGNORECASE
)
_LOOKS_LIKE_HOST = re.compile(
    r"(?:[\w-]+\.)+[a-zA-Z]{2,}(?::\d+)?(?:[/?#]|$)|\d+\.\d+\.\d+\.\d+|localhost\b|[\w.-]+:\d+"
)
# Servers that hand a machine's own credentials to every program on it.
METADATA_HOSTS = frozenset(
    {"169.254.169.254", "metadata.google.internal", "169.254.170.2", "metadata", "fd00:ec2::254"}
)


def host_of(address: str) -> str:
    """Return the host of a URL, or of an address without a scheme, in lower case."""
    match = _URL_HOST.match(address)
    return match.group(1).lower().strip("[]") if match else ""


def is_local(host: str) -> bool:
    """Return whether a host is this machine."""
    return _LOCAL.fullmatch(host) is not None


def is_address(text: str) -> bool:
    """Return whether a text is a URL or begins with a host."""
    return "://" in text or _LOOKS_LIKE_HOST.match(text) is not None
