"""Old sessions are forgotten, whatever the clock says."""

from __future__ import annotations

from collections.abc import Callable

from hosted_sessions import MAIL, Clocks, rules

from lockgate.core.vocabulary import Action
from lockgate.gate.gate import Gate
from lockgate.sessions import SessionStore


def test_a_session_that_was_forgotten_goes_on_as_one_that_is_not_known(
    gate: Gate, again: Callable[[], SessionStore]
) -> None:
    clocks = Clocks()
    host, later = clocks.host(gate, again()), clocks.host(gate, again())
    host.open("s", goal="Answer ana@example.com")
    assert host.check("s", "send_email", MAIL).decision.action is Action.CONTINUE
    assert later.prune(30) == 0
    clocks.passes(31)
    assert later.prune(30) == 1
    # Who ruled meanwhile cannot know what else was forgotten.
    assert host.check("s", "send_email", MAIL).decision.action is Action.PAUSE
    assert rules(host.check("s", "send_email", MAIL)) == {"cap:context-unknown"}
    assert host.add("s", "text", source="tool:x").id == "b0001"
    clocks.passes(31)
    assert clocks.host(gate, again()).prune(30) == 0
    assert later.prune(30) == 1
    # Nor is it one that begins, whichever client opens it.
    assert not later.open("s", goal="Answer ana@example.com").context_known
    assert rules(later.check("s", "send_email", MAIL)) == {"cap:context-unknown"}


def test_a_clock_that_was_set_forgets_nothing_that_is_in_use(gate: Gate, again: Callable[[], SessionStore]) -> None:
    clocks = Clocks()
    host = clocks.host(gate, again(), keep_days=30)
    host.open("old")
    clocks.passes(20)
    host.open("s", goal="x")
    clocks.now += 10 * 365 * 86_400
    assert host.prune(30) == 0
    assert clocks.host(gate, again()).prune(30) == 0
    host.open("t")
    assert {each.id for each in host.sessions()} == {"old", "s", "t"}
    # Heard of while the clock stood in another year, and used a moment ago.
    clocks.now -= 30 * 365 * 86_400
    host.open("then")
    clocks.now += 20 * 365 * 86_400
    host.check("then", "read_file", {"path": "/x"})
    with host.store._write_transaction() as db:  # type: ignore[attr-defined]
        db.execute("UPDATE sessions SET seen_at = 1 WHERE id IN ('then', 's')")
    clocks.passes(29)
    # Looked at, and nothing of it written.
    host.blocks("then")
    with host.store._write_transaction() as db:  # type: ignore[attr-defined]
        db.execute("UPDATE sessions SET seen_at = 1 WHERE id IN ('then', 's')")
    clocks.passes(2)
    host.prune(30)
    assert host.session("then") is not None
    assert host.session("s") is None


def test_old_sessions_are_forgotten_by_the_way(gate: Gate, again: Callable[[], SessionStore]) -> None:
    clocks = Clocks()
    host = clocks.host(gate, again(), keep_days=1)
    host.open("old", goal="x")
    clocks.passes(3)
    host.open("new", goal="x")
    assert [each.id for each in host.sessions()] == ["new"]
    assert host.prune(0) == 0
