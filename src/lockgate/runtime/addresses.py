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
