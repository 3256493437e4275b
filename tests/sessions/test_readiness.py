"""Whether a ruling could be kept now."""

from __future__ import annotations

from collections.abc import Callable

from hosted_sessions import Broken, Clocks, Journal

from lockgate.core.errors import (
    JournalUnavailable,
    LockgateError,
)
from lockgate.gate.gate import Gate
from lockgate.sessions import Host, SessionStore
from lockgate.sessions.readiness import error_text


def test_whether_it_is_ready_is_found_out_by_writing(gate: Gate, again: Callable[[], SessionStore]) -> None:
    class Fails(Journal):
        why: LockgateError | None = None

        def enqueue(self, records, *, durable):  # type: ignore[no-untyped-def]
            if self.why is not None:
                raise self.why
            return super().enqueue(records, durable=durable)  # type: ignore[no-untyped-call]

    clocks, journal, broken = Clocks(), Fails(), Broken(again())
    host = clocks.host(Gate(scanner=gate.scanner, journal=journal), broken)  # type: ignore[arg-type]
    assert host.ready() == (True, True, "")
    broken.fails = {"test_write": "before"}
    assert host.ready().sessions
    clocks.ticks += 2
    assert host.ready() == (False, True, "on purpose")
    broken.fails = {}
    journal.why = JournalUnavailable("no room")
    clocks.ticks += 2
    assert host.ready() == (True, False, "no room")
    # Found out by a ruling, it stands for a while.
    assert host.check("s", "read_file", {"path": "/x"}).decision.reason == "journal-unavailable"
    journal.why = None
    clocks.ticks += 2
    assert not host.ready().journal
    clocks.ticks += 60
    assert host.ready().journal
    # Or until another ruling is recorded.
    journal.why = JournalUnavailable("no room")
    host.check("s", "read_file", {"path": "/x"})
    journal.why = None
    host.check("s", "read_file", {"path": "/x"})
    clocks.ticks += 2
    assert host.ready() == (True, True, "")
    assert Host(gate, again()).ready() == (True, True, "")


def test_only_an_error_of_ours_is_quoted() -> None:
    assert error_text(JournalUnavailable("no room", hint="make some")) == "no room; make some"
    assert error_text(OSError("canary")) == "the session store failed: OSError"
