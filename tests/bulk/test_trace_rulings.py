"""Rulings on the events of traces: numbered as they stand, and a faulty event is named by its line."""

from __future__ import annotations

import pytest
from recorded_traces import session_lines

from lockgate import Gate
from lockgate.bulk.trace_rulings import parse_trace, rule_on_events
from lockgate.core.errors import InvalidTrace
from lockgate.core.sessions.trace_format import CallEvent, Event, parse_line


def events(*numbers: int) -> list[tuple[int, Event]]:
    return [*parse_trace("\n".join(line for number in numbers for line in session_lines(number)))]


def test_calls_are_numbered_in_their_session_and_sessions_in_their_trace() -> None:
    rulings = [*rule_on_events(Gate(), events(7, 1), sessions=4)]
    assert [(ruling.session, ruling.call) for ruling in rulings] == [(5, 1), (5, 2), (5, 3), (6, 1), (6, 2), (6, 3)]
    assert [ruling.decision.action.value for ruling in rulings] == ["CONTINUE"] * 2 + ["PAUSE"] + ["CONTINUE"] * 3


def test_calls_before_any_session_are_a_session_of_their_own() -> None:
    (ruling,) = rule_on_events(Gate(), [(3, CallEvent("bash", {"command": "ls"}))])
    assert (ruling.line, ruling.session, ruling.goal) == (3, 1, "")


def test_an_event_that_no_session_takes_is_named_by_its_line() -> None:
    wrong = parse_line('{"session": {"mode": "research"}}', 1)
    with pytest.raises(InvalidTrace, match=r"^line 8: mode `research` needs a scope"):
        [*rule_on_events(Gate(), [(8, wrong)])]


def test_separators_that_json_allows_inside_a_text_end_no_line() -> None:
    line = '{"call": {"tool": "bash", "arguments": {"command": "echo a\u2028b"}}}'
    assert [number for number, _ in parse_trace(f"{line}\n\n{line}\n")] == [1, 3]
