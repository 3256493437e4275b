"""Network addresses, as far as their spelling alone decides something."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Return whether this host is this machine, by its spelling: a name that resolves to it today may not tomorrow."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def local_url(host: str, port: int) -> str:
    """Return where a program on this machine reaches a service that listens on this host."""
    name = "127.0.0.1" if host in ("0.0.0.0", "::") else host  # noqa: S104 - what others listen on
    return f"http://{f'[{name}]' if ':' in name else name}:{port}"
