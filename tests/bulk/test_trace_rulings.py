"""Rulings on the events of traces: numbered as they stand; a faulty event is named, and hides no other session."""

from __future__ import annotations

from recorded_traces import session_lines

from lockgate import Gate
from lockgate.bulk.trace_rulings import EventRuling, UnruledRest, parse_lines, rule_on_events
from lockgate.core.errors import InvalidTrace
from lockgate.sessions.trace_format import CallEvent, Event, parse_line


def events(*lines: str) -> list[tuple[int, Event | InvalidTrace]]:
    return [*parse_lines("\n".join(lines).encode().split(b"\n"))]


def described(ruled: EventRuling | UnruledRest) -> tuple[int, int, str]:
    """Return the line, the session, and the action or the fault."""
    if isinstance(ruled, UnruledRest):
        return ruled.line, ruled.session, ruled.error.message.partition(" at column")[0]
    return ruled.line, ruled.session, ruled.decisions[0].action.value


def test_calls_are_numbered_in_their_session_and_sessions_in_their_trace() -> None:
    rulings = [*rule_on_events([Gate()], events(*session_lines(7), *session_lines(1)), sessions=4)]
    assert [each.call for each in rulings if isinstance(each, EventRuling)] == [1, 2, 3, 1, 2, 3]
    assert [described(each)[1:] for each in rulings] == [
        *[(5, "CONTINUE")] * 2,
        (5, "PAUSE"),
        *[(6, "CONTINUE")] * 3,
    ]


def test_calls_before_any_session_are_a_session_of_their_own() -> None:
    (ruling,) = rule_on_events([Gate()], [(3, CallEvent("bash", {"command": "ls"}))])
    assert isinstance(ruling, EventRuling)
    assert (ruling.line, ruling.session, ruling.goal) == (3, 1, "")


def test_an_event_that_no_session_takes_is_named_by_its_line() -> None:
    wrong = parse_line('{"session": {"mode": "research"}}', 1)
    (rest,) = rule_on_events([Gate()], [(8, wrong), (9, CallEvent("bash", {"command": "ls"}))])
    assert isinstance(rest, UnruledRest)
    assert rest.error.message.startswith("line 8: mode `research` needs a scope")


def test_a_damaged_line_costs_the_rest_of_its_session_and_no_other() -> None:
    one, two = session_lines(7), session_lines(14)
    lines = [*one[:3], '{"call": damaged', *one[3:], "damaged too", *two]
    ruled = [described(each) for each in rule_on_events([Gate(), Gate()], events(*lines))]
    assert ruled == [
        (3, 1, "CONTINUE"),
        (4, 1, "line 4: not JSON: expecting value"),
        (10, 2, "CONTINUE"),
        (11, 2, "CONTINUE"),
        (12, 2, "PAUSE"),
    ]


def test_separators_that_json_allows_inside_a_text_end_no_line() -> None:
    line = '{"call": {"tool": "bash", "arguments": {"command": "echo a\u2028b"}}}'
    assert [number for number, _ in events(line, "", line, "")] == [1, 3]
