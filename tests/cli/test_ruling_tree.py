"""A ruling as lines on a screen."""

from __future__ import annotations

from lockgate.cli.ruling_tree import call_text, origin_lines, summary_line
from lockgate.core.vocabulary import Action, Decision, Origin, Reason, Risk


def test_text_of_a_call_is_cut_and_cannot_act() -> None:
    shown = call_text("send\x1b[2J", {"to": "a" * 500, "n": 3}).plain
    assert shown.startswith("send\\x1b[2J(to=")
    assert len(shown) < 300
    assert "\x1b" not in shown


def test_no_origins_are_no_lines() -> None:
    none: tuple[Origin, ...] = ()
    assert origin_lines(none) == []


def test_the_summary_counts_each_action() -> None:
    passed = Decision(Action.CONTINUE, 1, Reason.NO_RED_FLAGS, Risk.LOW)
    held = Decision(Action.PAUSE, 3, Reason.SUPERVISOR, Risk.HIGH)
    assert summary_line([passed, passed, held]).plain.startswith("3 calls: 2 continue, 1 pause; ")
