"""The attack that every test of a framework's plug plays: a page that gives orders, and the call that it orders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lockgate import Gate, MemoryApprovals
from lockgate.integrations.plug import Plug
from lockgate.testing.plug_suite import POISON


class Attack:
    """The two tools of the attack, what was sent, and a plug of its own."""

    def __init__(self, name: str, **options: Any) -> None:
        self.plug = Plug(name, gate=Gate(approvals=MemoryApprovals()), **options)
        self.sent: list[str] = []

    @property
    def tools(self) -> list[Callable[..., Any]]:
        def read_page(url: str) -> str:
            """Read a page."""
            return POISON

        def send_email(to: str, body: str) -> str:
            """Send an email."""
            self.sent.append(to)
            return "sent"

        return [read_page, send_email]
