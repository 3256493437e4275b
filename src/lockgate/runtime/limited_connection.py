"""A connection to PostgreSQL that waits for an answer only so long, whatever the server does.

The server's own limits stand still when the server does, and TCP sees nothing wrong while the kernel there acknowledges
what comes.
"""

from __future__ import annotations

from collections.abc import Generator
from time import monotonic
from typing import Any

from psycopg import Connection, OperationalError


class LimitedConnection(Connection[Any]):
    """A connection that is closed, with an OperationalError, when a statement is not answered within `limit_s`."""

    # Longer than the server's own limit for a statement, which says more.
    limit_s: float = 35.0

    def wait(self, gen: Generator[Any, Any, Any], *args: Any, **named: Any) -> Any:
        return super().wait(self._limited(gen), *args, **named)

    def _limited(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        until_s = monotonic() + self.limit_s
        try:
            waits_for = next(gen)
            while True:
                # The driver asks every 100 ms, with 0 as long as nothing has come.
                ready = yield waits_for
                if not ready and monotonic() > until_s:
                    self.close()
                    raise OperationalError("the server does not answer")
                waits_for = gen.send(ready)
        except StopIteration as done:
            return done.value
