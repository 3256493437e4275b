"""Supervised steps that go on in another process."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hosted_sessions import MAIL, Broken, rules

from lockgate.core.errors import (
    InvalidCall,
)
from lockgate.core.vocabulary import Action
from lockgate.gate.gate import Gate
from lockgate.sessions import Host, SessionStore

COMMITMENT = {"interpretation": "mail the summary", "in_scope": ["send_email to ana@example.com"]}


def test_a_step_goes_on_in_another_process(gate: Gate, again: Callable[[], SessionStore], host: Host) -> None:
    host.open("s", goal="Mail ana@example.com a summary")
    begun = host.steps.begin("s", "mail the summary")
    assert (begun.name, begun.state, begun.supervision) == ("1", "open", "supervised")
    with pytest.raises(InvalidCall, match="no commitment"):
        host.steps.check("s", "1", "send_email", MAIL)
    host.steps.commit("s", "1", COMMITMENT)
    with pytest.raises(InvalidCall, match="already"):
        Host(gate, again()).steps.commit("s", "1", COMMITMENT)
    assert host.steps.check("s", "1", "send_email", MAIL).decision.action is Action.CONTINUE
    other = Host(gate, again())
    inner = other.steps.begin("s", "inside", parent="1")
    assert inner.name == "1.1"
    with pytest.raises(InvalidCall, match="not finished"):
        host.steps.finish("s", "1", {"met": True})
    other.steps.abandon("s", "1.1")
    assert host.steps.get("s", "1.1").state == "abandoned"  # type: ignore[union-attr]
    assert host.steps.get("s", "9") is None
    with pytest.raises(InvalidCall, match="no step"):
        other.steps.finish("s", "9", {"met": True})


def test_a_step_is_held_to_calls_that_were_made_elsewhere(
    gate: Gate, again: Callable[[], SessionStore], host: Host
) -> None:
    host.open("s", goal="Mail ana@example.com a summary")
    host.steps.begin("s", "mail the summary")
    host.steps.commit("s", "1", COMMITMENT)
    host.steps.check("s", "1", "send_email", MAIL)
    # Around the step, and in another process.
    Host(gate, again()).check("s", "delete_file", {"path": "/etc/passwd"})
    fresh = Host(gate, again())
    for each in (host, fresh):
        held = each.steps.finish("s", "1", {"met": True})
        assert held.decision.action is Action.PAUSE
        assert "step:undeclared_call" in rules(held)
        assert each.steps.get("s", "1").state == "waiting for an answer"  # type: ignore[union-attr]
    assert fresh.steps.check("s", "1", "send_email", MAIL).decision.reason == "reconciliation"
    assert (
        host._cache.current("s").steps["1"]._seen.hexdigest() == fresh._cache.current("s").steps["1"]._seen.hexdigest()
    )


def test_a_step_that_fits_ends_everywhere(gate: Gate, again: Callable[[], SessionStore], host: Host) -> None:
    host.open("s", goal="Mail ana@example.com a summary")
    host.steps.begin("s", "mail the summary")
    host.steps.commit("s", "1", COMMITMENT)
    other = Host(gate, again())
    other.steps.check("s", "1", "send_email", MAIL)
    done = host.steps.finish("s", "1", {"met": True})
    assert (done.decision.action, done.tool) == (Action.CONTINUE, "finish_step")
    with pytest.raises(InvalidCall, match="finished"):
        other.steps.check("s", "1", "send_email", MAIL)
    assert Host(gate, again()).steps.get("s", "1").state == "finished"  # type: ignore[union-attr]
    assert host.steps.begin("s", "another").name == "2"


def test_a_step_whose_end_is_not_kept_has_not_ended(gate: Gate, again: Callable[[], SessionStore]) -> None:
    broken = Broken(again())
    host = Host(gate, broken)  # type: ignore[arg-type]
    host.open("s", goal="Mail ana@example.com a summary")
    host.steps.begin("s", "mail the summary", supervision="unsupervised")
    broken.fails = {"append": "before"}
    assert host.steps.finish("s", "1", {"met": True}).decision.action is Action.PAUSE
    broken.fails = {}
    assert host.steps.get("s", "1").state == "open"  # type: ignore[union-attr]
    assert host.steps.finish("s", "1", {"met": True}).decision.action is Action.CONTINUE
