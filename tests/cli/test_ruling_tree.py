"""A ruling as lines on a screen."""

from __future__ import annotations

from rich.tree import Tree

from lockgate.cli.ruling_tree import add_decision, call_text, origin_lines, summary_line
from lockgate.core.ruling.effects.effect import effect
from lockgate.core.vocabulary import Action, Decision, Origin, Reason, Risk


def test_text_of_a_call_is_cut_and_cannot_act() -> None:
    shown = call_text("send\x1b[2J", {"to": "a" * 500, "n": 3}).plain
    assert shown.startswith("send\\x1b[2J(to=")
    assert len(shown) < 300
    assert "\x1b" not in shown


def test_no_origins_are_no_lines() -> None:
    none: tuple[Origin, ...] = ()
    assert origin_lines(none) == []


def test_one_place_of_a_value_is_one_line() -> None:
    ordered = Origin("to", "x@evil.example", "b1", "web:a", 5, 19, "exact", "send it to x@evil.example", "recipient")
    same = ordered._replace(order="", sink="target")
    elsewhere = same._replace(start=40, end=54)
    assert len(origin_lines([same, ordered])) == 2
    assert len(origin_lines([elsewhere, ordered])) == 3


def test_a_tree_has_a_line_for_each_effect_that_reaches_out_or_opens_a_door() -> None:
    effects = (
        effect("reads-secret", ".env\x1b[2J"),
        effect("sends-data", "x.example"),
        effect("edits-project", "a.py"),
    )
    root = Tree("call")
    add_decision(root, Decision(Action.PAUSE, 3, Reason.UNASKED_EFFECT, Risk.HIGH, effects=effects))
    text = "\n".join(str(line.label) for branch in root.children for line in branch.children)
    assert "3 opens a door  reads-secret: reads the secret `.env" in text
    assert "2 reaches out   sends-data: sends data to `x.example`" in text
    assert "a.py" not in text
    assert "\x1b" not in text


def test_the_summary_counts_each_action() -> None:
    passed = Decision(Action.CONTINUE, 1, Reason.NO_RED_FLAGS, Risk.LOW)
    held = Decision(Action.PAUSE, 3, Reason.SUPERVISOR, Risk.HIGH)
    assert summary_line([passed, passed, held]).plain.startswith("3 calls: 2 continue, 1 pause; ")
