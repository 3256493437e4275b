"""The stored form of sessions: rulings survive the way to a store and back, damaged rows are told, rulings counted."""

from __future__ import annotations

import json

import pytest

from lockgate.core.errors import InvalidCall
from lockgate.core.ruling.effects.project import NO_PROJECT, Project
from lockgate.core.vocabulary import (
    Action,
    Certainty,
    Decision,
    Effect,
    Finding,
    Origin,
    Ran,
    Reason,
    Receipt,
    Risk,
    Severity,
)
from lockgate.sessions.session_entries import (
    MAX_ARGUMENTS,
    MAX_ID,
    RulingTally,
    SessionRow,
    check_name,
    damaged_ruling_from_row,
    decode_text,
    encode_text,
    project_from_json,
    project_to_json,
    ruling_from_row,
    ruling_to_json,
    searchable_ruling,
    searchable_text,
    stats_from_tallies,
)

DECISION = Decision(
    Action.PAUSE,
    3,
    Reason.HARD_RULE,
    Risk.HIGH,
    "because",
    findings=(Finding("tool:test", "tool", 0, 1),),
    judged=(Ran(2, "suspicious", "judge"),),
    effects=(Effect("requests", Severity.REACHES_OUT, "a.example", Certainty.GUESS, "command", 2, 9),),
    receipt=Receipt("example.com/log", 7, b"\1" * 32),
)


def row(detail: str) -> SessionRow:
    return SessionRow(5, 1, 2, "ruling", 1.0, "key", b"", detail, "id1", "ran")


def test_a_ruling_comes_back_from_a_store_as_it_was() -> None:
    detail = ruling_to_json("send", {"to": "ann", "half": "\ud800"}, {"readOnly": True}, DECISION, 4)
    assert detail.isascii()
    found = ruling_from_row(row(detail), "s", "api")
    assert (found.tool, found.arguments, found.annotations) == (
        "send",
        {"to": "ann", "half": "\ud800"},
        {"readOnly": True},
    )
    assert (found.decision, found.context, found.whole, found.damaged) == (DECISION, 4, True, False)


def test_a_ruling_from_before_there_were_effects_has_none() -> None:
    tool, arguments, annotations, ruling, *rest = json.loads(ruling_to_json("send", {}, None, DECISION, 4))
    del ruling[10]
    found = ruling_from_row(row(json.dumps([tool, arguments, annotations, ruling, *rest])), "s", "api")
    assert found.decision == DECISION._replace(effects=())


def test_large_arguments_are_shortened_and_their_hash_is_stored() -> None:
    detail = ruling_to_json("send", {"body": "x" * MAX_ARGUMENTS, "n": 1}, None, DECISION, 4, lambda: "ab" * 32)
    found = ruling_from_row(row(detail), "s", "api")
    assert len(detail) < MAX_ARGUMENTS
    assert (found.whole, found.args_sha256, found.arguments["n"]) == (False, "ab" * 32, 1)


@pytest.mark.parametrize(
    "detail", ["", "[]", "null", json.dumps(["t", [], None, [], 0, True]), json.dumps(["t", {}, None, [1], 0, True])]
)
def test_a_row_that_holds_no_ruling_is_an_error_and_a_placeholder_pauses(detail: str) -> None:
    with pytest.raises(ValueError, match=r"not a ruling|Expecting value|values to unpack"):
        ruling_from_row(row(detail), "s", "api")
    found = damaged_ruling_from_row(row(detail), "s", "api")
    assert (found.damaged, found.key, found.decision.action) == (True, "", Action.PAUSE)


@pytest.mark.parametrize("name", ["", "a\nb", "x" * (MAX_ID + 1), ".", "..", None, 3])
def test_a_name_that_a_store_or_a_url_cannot_hold_is_refused(name: object) -> None:
    with pytest.raises(InvalidCall):
        check_name(name, "a session's id")
    assert check_name("s-1", "a session's id") == "s-1"


def test_texts_are_stored_without_loss_and_searched_without_case() -> None:
    assert decode_text(encode_text("a\ud800\0é")) == "a\ud800\0é"
    assert searchable_text("STRASSE") == searchable_text("strasse")
    assert searchable_text("Straße") == searchable_text("STRASSE")
    found = searchable_ruling("id1", "api", "send", DECISION, {"to": ["Ann", {"Cc": 5}]})
    assert (found.rules, found.said) == (" tool:test ", "2:suspicious")
    assert all(word in found.words for word in ("ann", "cc", "5", "because", "hard"))


def test_a_ruling_is_found_by_the_sources_of_its_values() -> None:
    origin = Origin("to", "eve@x.example", "b0001", "web:issues/418", 0, 13, "exact", "", "target")
    found = searchable_ruling("id1", "api", "send", DECISION._replace(origins=(origin,)))
    assert "web:issues/418" in found.words


def test_a_project_is_stored_without_loss() -> None:
    project = Project(
        "/w/shop",
        "/w/shop/src",
        "/home/ada",
        frozenset({"npm:left-pad", "pypi:flask"}),
        frozenset({"github.com/ada"}),
        {"origin": "https://github.com/ada/shop.git"},
        frozenset({"check"}),
        frozenset({"shop\ud800"}),
    )
    assert project_from_json(project_to_json(project)) == project
    assert project_from_json(project_to_json(NO_PROJECT)) == NO_PROJECT


@pytest.mark.parametrize(
    "data", [b"", b"[1]", b"{}", b"7", b'["","","",{},[],[],[]]', b'["","","",7,[],[],[],[]]', b"\xff"]
)
def test_what_is_no_project_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="not a project"):
        project_from_json(data)


def test_rulings_are_counted_by_interval_tier_and_rule() -> None:
    tallies = [
        RulingTally(0.0, 1, "CONTINUE", "no-finding", "", 10.0, 0.0),
        RulingTally(15.0, 3, "CONTINUE", "judged", " r1 ", 30.0, 0.5, "2:suspicious 3:CONTINUE"),
        RulingTally(16.0, 3, "PAUSE", "hard-rule", " r1 r2 ", 20.0, 0.25, "3:PAUSE"),
        RulingTally(16.0, 1, "damaged", "", "", 1.0, 9.0),
    ]
    found = stats_from_tallies(tallies, since=0.0, until=30.0, bucket_s=10.0)
    assert (found.calls, found.cost_usd, len(found.buckets)) == (3, 0.75, 3)
    assert [each.tiers for each in found.buckets] == [(1, 0, 0), (0, 0, 2), (0, 0, 0)]
    assert found.buckets[1].latency_us == {3: (20.0, 30.0)}
    assert [(each.rule, each.escalations, each.cleared, each.upheld) for each in found.rules] == [
        ("r1", 2, 1, 1),
        ("r2", 1, 0, 1),
    ]
    with pytest.raises(InvalidCall):
        stats_from_tallies([], since=0.0, until=1.0, bucket_s=0.0)
