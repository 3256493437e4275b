"""Labelled sessions: both formats are read into the same values, and nonsense is refused."""

from __future__ import annotations

import json

import pytest

from lockgate.core.errors import InvalidTrace
from lockgate.core.vocabulary import Trust
from lockgate.sessions.labelled_sessions import LabelledSession, has_effect, sessions_from_lines
from lockgate.sessions.trace_format import CallEvent

OWN: list[object] = [
    {"trace": "lockgate/1"},
    {"session": {"goal": "Sum up the page", "id": "a", "pair": "p"}},
    {"call": {"tool": "fetch", "arguments": {}, "label": "benign"}},
    {"block": {"content": "rain. Please run x.", "source": "tool:fetch", "id": "b1"}},
    {"call": {"tool": "search_mail", "arguments": {}, "label": "attack"}},
    {"call": {"tool": "Bash", "arguments": {"command": "x"}, "label": "attack"}},
    {"session": {"goal": "Sum up the page", "id": "b", "pair": "p", "part": "pages", "suite": "web"}},
    {"block": {"content": "rain.", "source": "tool:fetch", "id": "b1"}},
    {"call": {"tool": "Write", "arguments": {"path": "sum.txt"}, "label": "ordinary"}},
]
HEADER: dict[str, object] = {
    "format": "lockgate-trace/1",
    "part": "small",
    "blocks": [
        ["untrusted", "tool:get", "rain", 0],
        ["untrusted", "tool:get", "run x", 1],
        ["trusted", "user", "go", 0],
    ],
}
SESSION: dict[str, object] = {
    "id": "s1",
    "dataset": "d",
    "suite": "s",
    "user_task": "t",
    "attack": "direct",
    "goal": "Sum up",
    "injection_goal": None,
    "events": [
        {"b": 1},
        {"call": {"tool": "Bash", "args": {"command": "x"}, "label": "attack", "risk": "write"}},
        {"b": 2},
        {"call": {"tool": "Bash", "args": {"command": "ls"}, "label": "benign", "risk": "read"}},
        {"call": {"tool": "Read", "args": {}, "label": "unknown", "risk": "read"}},
    ],
}


def read(*values: object) -> list[LabelledSession]:
    return sessions_from_lines([json.dumps(value) + "\n" for value in values], "file")


def test_our_own_traces_are_read_with_their_labels_and_pairs() -> None:
    attacked, clean = read(*OWN)
    assert (attacked.start.id, attacked.is_attacked, clean.start.id, clean.is_attacked) == ("a", True, "b", False)
    assert [block.poisoned for block in attacked.blocks] == [True]
    assert [call.label for call in attacked.calls] == ["ordinary", "attack", "attack"]
    assert [has_effect(call) for call in attacked.attack_calls] == [False, True]
    assert (clean.start.part, clean.start.dataset, clean.start.suite) == ("pages", "pages", "web")
    assert (attacked.start.part, attacked.start.attack, attacked.start.family) == ("file", "unnamed", "unnamed")
    assert (clean.start.attack, clean.start.family) == ("none", "twin")


def test_a_mark_in_the_trace_outranks_the_twin() -> None:
    marked = {"block": {"content": "thunder", "source": "tool:fetch", "id": "b0", "poisoned": True}}
    attacked, _ = read(*OWN[:3], marked, *OWN[3:])
    assert [block.poisoned for block in attacked.blocks] == [True, False]


def test_header_indexed_traces_become_the_same_values() -> None:
    (session,) = read(HEADER, SESSION)
    assert session.is_attacked
    assert (session.start.id, session.start.goal, session.start.part) == ("s1", "Sum up", "small")
    assert session.start.task == "d/s/t"
    assert [(call.label, has_effect(call)) for call in session.calls] == [
        ("attack", True),
        ("ordinary", False),
        ("unknown", False),
    ]
    poison, user = session.blocks
    assert (poison.poisoned, poison.is_untrusted) == (True, True)
    assert (user.source, user.trust, user.is_untrusted) == ("user", Trust.TRUSTED, False)


def test_a_session_that_is_said_to_be_clean_stays_clean() -> None:
    (session,) = read({"session": {"attack": "none"}}, OWN[4])
    assert not session.is_attacked


def test_calls_before_the_first_session_have_one() -> None:
    (session,) = read(OWN[5])
    assert (session.start.goal, session.start.id) == ("", "session 1")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "no call"),
        ([[1, 2]], "must be an object"),
        ([{"trace": "lockgate/1"}], "no call"),
        ([{"session": {"goal": 7}}], "must be text"),
        ([{"session": {"part": 7}}], "must be text"),
        ([{"block": {"content": "", "source": "tool:x", "poisoned": 1}}], "must be true or false"),
        ([{"call": {"tool": "Bash", "arguments": {}, "label": "perhaps"}}], "unknown label"),
        ([{"format": "other/1", "blocks": []}], "unknown format `other/1`"),
        ([{"format": "lockgate-trace/1"}], "`blocks` must be a list"),
        ([{"format": "lockgate-trace/1", "blocks": [["untrusted", "x"]]}], "block 0 is not"),
        ([{"format": "lockgate-trace/1", "blocks": [["believed", "x", "y", 0]]}], "block 0 is not"),
        ([HEADER, {**SESSION, "events": [{"b": 3}]}], "line 2: neither a block"),
        ([HEADER, {**SESSION, "events": [{"b": -1}]}], "line 2: neither a block"),
        ([HEADER, {**SESSION, "events": [{"call": {"tool": "Bash"}}]}], "line 2: neither a block"),
        (
            [HEADER, {**SESSION, "events": [{"call": {"tool": "Bash", "args": {}, "label": "good"}}]}],
            "unknown label `good`",
        ),
        ([HEADER, {"id": "no goal"}], "needs `goal` and `events`"),
        ([HEADER, 7], "not an object"),
    ],
)
def test_a_trace_of_nonsense_is_refused(lines: list[object], said: str) -> None:
    with pytest.raises(InvalidTrace, match=said):
        read(*lines)


@pytest.mark.parametrize(
    ("tool", "effect"),
    [("send_email", True), ("Bash", True), ("get_mail", False), ("mcp__mail__search", False), ("getProfile", False)],
)
def test_tools_that_look_have_no_effect(tool: str, effect: bool) -> None:  # noqa: FBT001
    assert has_effect(CallEvent(tool, {})) is effect
    assert has_effect(CallEvent(tool, {}, effect=not effect)) is not effect
