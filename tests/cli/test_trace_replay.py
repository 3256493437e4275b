"""Traces through a gate."""

from __future__ import annotations

from pathlib import Path

import pytest

from lockgate.cli.trace_replay import replay_traces
from lockgate.core.errors import InvalidTrace
from lockgate.gate.gate import Gate

CALL = '{"call": {"tool": "read_file", "arguments": {"path": "notes.txt"}}}\n'


def test_sessions_are_numbered_over_all_traces_and_calls_in_their_session(tmp_path: Path) -> None:
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    one.write_text(CALL + CALL)
    two.write_text(CALL + '{"session": {"goal": "again"}}\n' + CALL)
    found = [(each.session, each.call, each.goal) for each in replay_traces(Gate(), [str(one), str(two)])]
    assert found == [(1, 1, ""), (1, 2, ""), (2, 1, ""), (3, 1, "again")]


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "the trace is empty"), ('{"session": {}}\n', "no call in this trace"), (CALL + "{", "line 2")],
    ids=["empty", "no call", "broken"],
)
def test_a_trace_that_checks_nothing_is_no_pass(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(text)
    with pytest.raises(InvalidTrace, match=message):
        list(replay_traces(Gate(), [str(path)]))
