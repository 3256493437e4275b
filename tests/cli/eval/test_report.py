"""The report: a table whose columns line up, and lists that cannot act on the terminal."""

from __future__ import annotations

import json
import re

from lockgate.cli.eval.gates import GateChoice, Ruled
from lockgate.cli.eval.measurement import Measurement
from lockgate.cli.eval.report import case_lines, format_share, report_to_dict, rule_lines, spread_cases, table_lines
from lockgate.sessions.detection_counts import Share
from lockgate.sessions.labelled_sessions import LabelledSession
from lockgate.sessions.trace_format import BlockEvent, CallEvent, SessionStart
from lockgate.settings.config import Settings

BAD = CallEvent("send", {"to": "e\x1b[2Jve"}, None, "attack")
GOOD = CallEvent("write", {"path": "a"}, None, "ordinary")
ATTACKED = LabelledSession(SessionStart(id="a1", part="mail"), (BlockEvent("x", "tool:r", poisoned=True), BAD, GOOD))
CLEAN = LabelledSession(SessionStart(id="c1", part="files"), (GOOD, GOOD))


def measured(judge: str = "") -> Measurement:
    found = Measurement(GateChoice("lockgate", Settings(), judge=judge))
    found.add(ATTACKED, "mail", [Ruled(False, False, "passed: \x1b[1mquiet"), Ruled(True, True, "why", ("r:1", "r:2"))])
    found.add(CLEAN, "files", [Ruled(True, True, "why", ("r:1",)), Ruled(False, False)])
    return found


def test_the_table_has_a_row_for_each_group_gate_and_stage_and_for_all() -> None:
    head, rule, *rows = table_lines([measured("quiet")], "part")
    assert head.startswith("part   gate                      attacks caught   in time  attack calls  ordinary calls")
    assert rule.startswith("─────  ────────────────────────  ──────────────  ────────  ────────────")
    assert [len(row) for row in rows] == [len(head)] * 6
    mail = ["0.0% 0/1", "0.0% 0/1", "0.0% 0/1", "-", "-", "100.0% 1/1"]
    files = ["-", "-", "-", "50.0% 1/2", "100.0% 1/1", "-"]
    both = [one if two == "-" else two for one, two in zip(mail, files, strict=True)]
    quiet = "lockgate, embedded:quiet"
    assert [re.split(r"  +", row.strip()) for row in rows] == [
        ["mail", "lockgate", *mail],
        [quiet, *mail],
        ["files", "lockgate", *files],
        [quiet, *files],
        ["all", "lockgate", *both],
        [quiet, *both],
    ]


def test_each_call_is_listed_with_its_cause_and_shown_safely() -> None:
    assert [line.plain for line in (*case_lines(measured(), 1), *rule_lines(measured()))] == [
        "",
        "disturbed ordinary calls: 2",
        '  mail/a1 call 2  write(path="a")',
        "    why",
        "  and 1 more: --show all",
        "",
        "missed attack calls: 1",
        '  mail/a1 call 1  send(to="e\\x1b[2Jve")',
        "    passed: \\x1b[1mquiet",
        "\nrules that disturbed: r:1 2, r:2 1",
    ]
    assert [*case_lines(measured(), 0)] == []


def test_the_same_call_with_the_same_cause_is_listed_once() -> None:
    found = measured()
    found.add(CLEAN, "files", [Ruled(True, True, "why", ("r:1",)), Ruled(False, False)])
    lines = [line.plain for line in case_lines(found, None)]
    assert "disturbed ordinary calls: 3, 2 of them different" in lines
    assert '  files/c1 call 1 and 1 other  write(path="a")' in lines


def test_a_short_list_has_calls_of_every_part() -> None:
    found = measured()
    for number in range(3):
        found.add(ATTACKED, "mail", [Ruled(False, False), Ruled(True, True, f"why {number}")])
    chosen = [*found.disturbed.values()]
    assert [case.session.start.part for case in spread_cases(chosen, 3)] == ["mail", "files", "mail"]
    assert len(spread_cases(chosen, None)) == 5


def test_json_has_the_same_counts() -> None:
    value = json.loads(json.dumps(report_to_dict([measured()], "part", None, complete=True)))
    (gate,) = value["gates"]
    assert (value["complete"], gate["gate"], gate["judge"]) == (True, "lockgate", "")
    stage = gate["stages"]["tier 1"]
    assert stage["all"]["ordinary_calls"] == {"part": 1, "whole": 2, "percent": 50.0}
    assert stage["groups"]["mail"]["ordinary_calls"] == {"part": 0, "whole": 0, "percent": None}
    assert [case["session"] for case in gate["disturbed"]] == ["a1", "c1"]
    assert gate["missed"][0]["tier1"] == "pass"
    assert gate["rules"] == {"r:1": 2, "r:2": 1}


def test_a_share_is_a_percentage_and_its_counts() -> None:
    assert (format_share(Share()), format_share(Share(2, 3))) == ("-", "66.7% 2/3")
