"""Which processes of this account listen on a port, as far as the system says."""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress
from glob import iglob

_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_LISTENING = "0A"


def listening_pids(ports: Collection[int]) -> frozenset[int]:
    """Return the processes that listen on one of these ports: those of Linux by their sockets, others by `lsof`."""
    pids: set[int] = set()
    if not ports:
        return frozenset()
    if not os.path.exists(_TABLES[0]):
        from subprocess import SubprocessError, run

        words = ["lsof", "-nPt", "-sTCP:LISTEN", *(f"-iTCP:{port}" for port in ports)]
        with suppress(OSError, SubprocessError, ValueError):
            pids.update(map(int, run(words, capture_output=True, timeout=2, check=False).stdout.split()))  # noqa: S603
        return frozenset(pids)
    sockets: set[str] = set()
    for path in _TABLES:
        with suppress(OSError), open(path, encoding="ascii") as table:
            rows = [line.split() for line in table][1:]
            own = [row for row in rows if row[3] == _LISTENING and int(row[1].rpartition(":")[2], 16) in ports]
            sockets.update(f"socket:[{row[9]}]" for row in own)
    for handle in iglob("/proc/[1-9]*/fd/*") if sockets else ():
        with suppress(OSError):
            if os.readlink(handle) in sockets:
                pids.add(int(handle.split("/")[2]))
    return frozenset(pids)
