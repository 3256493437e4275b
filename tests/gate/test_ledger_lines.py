"""A ruling becomes a line without its content, and a line becomes what it counts or nothing."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockgate.core.vocabulary import Action, Decision, Finding, Origin, Ran, Reason, Risk, decision_to_dict
from lockgate.gate.ledger_lines import (
    MAX_NAME,
    MAX_PASSES,
    LedgerEntry,
    LedgerPasses,
    entry_from_decision,
    format_lines,
    parse_ledger_line,
    pass_from_decision,
)

PASS = Decision(Action.CONTINUE, 1, Reason.NO_RED_FLAGS, Risk.HIGH, latency_us=12.34)
ASKED = Decision(
    Action.PAUSE,
    3,
    Reason.SUPERVISOR,
    Risk.HIGH,
    "SECRET explanation",
    (Finding("seed:x", "SECRET", 1, 2, "raw", "SECRET"), Finding("seed:x", "b", 1, 2), Finding("origin:y", "c", 0, 0)),
    (Origin("to", "SECRET", "SECRET", "SECRET", 0, 1, order="SECRET"),),
    "SECRET",
    "SECRET",
    (
        Ran(2, "suspicious", "anthropic/a", 1000.0, 900, 7, 0.0001),
        Ran(3, "PAUSE", "openai/b", 2000.0, 1900, 70, None),
        Ran(3, "PAUSE", "openai/b", 1.0, 0, 0, 0.0, True),
    ),
    latency_us=3100.0,
)


def test_nothing_of_the_content_is_kept() -> None:
    line = format_lines([entry_from_decision(1.5, "s", 4, "send_email", ASKED)])
    assert "SECRET" not in line
    assert line.isascii()
    assert json.loads(line) == {
        "time": 1.5,
        "session": "s",
        "call": 4,
        "tool": "send_email",
        "action": "PAUSE",
        "tier": 3,
        "reason": "supervisor",
        "risk": "high",
        "rules": ["seed:x", "origin:y"],
        "tiers": [
            {
                "tier": ran.tier,
                "said": ran.said,
                "by": ran.by,
                "latency_us": ran.latency_us,
                "tokens_in": ran.tokens_in,
                "tokens_out": ran.tokens_out,
                "cost_usd": ran.cost_usd,
                "cached": ran.cached,
            }
            for ran in ASKED.judged
        ],
        "latency_us": 3100.0,
    }


def test_a_line_gives_back_what_was_written() -> None:
    entry = entry_from_decision(1.5, "s", 4, "send_email", ASKED)
    assert parse_ledger_line(format_lines([entry])) == entry


def test_passes_of_a_kind_share_a_line() -> None:
    low = PASS._replace(reason=Reason.LOW_RISK_TOOL, risk=Risk.LOW, latency_us=3.0)
    noted = [
        pass_from_decision(at, name, each)
        for at, name, each in [(1, "a", PASS), (2, "a", low), (3, "a", PASS), (4, "b", PASS)]
    ]
    assert None not in noted
    lines = format_lines([each for each in noted if each is not None]).splitlines()
    assert [parse_ledger_line(line) for line in lines] == [
        LedgerPasses(1.0, "a", "no-red-flags", "high", (12.3, 12.3)),
        LedgerPasses(2.0, "a", "low-risk-tool", "low", (3.0,)),
        LedgerPasses(4.0, "b", "no-red-flags", "high", (12.3,)),
    ]


@pytest.mark.parametrize(
    "change", [{"tier": 2}, {"judged": ASKED.judged}, {"findings": ASKED.findings}, {"action": Action.PAUSE}]
)
def test_only_a_plain_pass_is_counted_as_one(change: dict[str, object]) -> None:
    assert pass_from_decision(1.0, "s", PASS._replace(**change)) is None


def test_long_and_odd_names_are_cut_and_escaped() -> None:
    entry = entry_from_decision(1.0, "s" * 999, 1, "\ud800\n\u202e" + "t" * 999, ASKED)
    line = format_lines([entry])
    assert line.isascii()
    assert line.count("\n") == 1
    read = parse_ledger_line(line)
    assert isinstance(read, LedgerEntry)
    assert (len(read.session), len(read.tool)) == (MAX_NAME, MAX_NAME)


@pytest.mark.parametrize("decision", [PASS, ASKED])
def test_what_check_prints_is_read_as_well(decision: Decision) -> None:
    printed = {"trace": "t", "line": 3, "session": 2, "call": 1, "tool": "x", **decision_to_dict(decision)}
    read = parse_ledger_line(json.dumps(printed))
    assert isinstance(read, LedgerEntry)
    expected = entry_from_decision(0.0, "2", 1, "x", decision)
    assert read._replace(latency_us=0.0) == expected._replace(latency_us=0.0)
    assert read.latency_us == pytest.approx(expected.latency_us, abs=0.001)


GOOD = json.loads(format_lines([entry_from_decision(1.5, "s", 4, "send_email", ASKED)]))


@pytest.mark.parametrize(
    "change",
    [
        {"action": "RUN"},
        {"action": []},
        {"tier": 0},
        {"tier": 4},
        {"tier": True},
        {"tier": 2.0},
        {"reason": 1},
        {"risk": "some"},
        {"risk": []},
        {"latency_us": -1},
        {"latency_us": "1"},
        {"latency_us": 1e400},
        {"latency_us": float("nan")},
        {"time": "now"},
        {"session": []},
        {"session": -1},
        {"call": 1.5},
        {"tool": None},
        {"rules": "seed:x"},
        {"rules": [1]},
        {"rules": None, "findings": [1]},
        {"tiers": {}},
        {"tiers": [1]},
        {"tiers": [{"tier": 2}]},
        {"tiers": [{**GOOD["tiers"][0], "said": "maybe"}]},
        {"tiers": [{**GOOD["tiers"][0], "cost_usd": -1}]},
        {"tiers": [{**GOOD["tiers"][0], "cost_usd": float("inf")}]},
        {"tiers": [{**GOOD["tiers"][0], "tokens_in": 1.5}]},
        {"tiers": [{**GOOD["tiers"][0], "tokens_in": 10**16}]},
        {"tiers": [GOOD["tiers"][0]] * 9},
        {"latencies_us": [1.0]},
    ],
)
def test_what_is_no_ruling_is_none(change: dict[str, object]) -> None:
    assert parse_ledger_line(json.dumps({**GOOD, **change})) is None


@pytest.mark.parametrize(
    "line", ["", "null", "[]", "{}", "1", "{", "[" * 100_000, '"x"', b"\xff\xfe", '{"trace": "lockgate/1"}', "9" * 5000]
)
def test_odd_lines_are_none(line: str | bytes) -> None:
    assert parse_ledger_line(line) is None


@pytest.mark.parametrize("times", [[], [-1], ["1"], [None], [1.0] * (MAX_PASSES + 1), 1.0])
def test_odd_passes_are_none(times: object) -> None:
    line = {"action": "CONTINUE", "tier": 1, "reason": "low-risk-tool", "risk": "low", "latencies_us": times}
    assert parse_ledger_line(json.dumps(line)) is None


@given(st.binary(max_size=400))
def test_no_bytes_raise(data: bytes) -> None:
    parse_ledger_line(data)


def test_no_mutation_of_a_line_raises() -> None:
    rnd = random.Random(5)
    line = bytearray(format_lines([entry_from_decision(1.5, "s", 4, "send_email", ASKED)]).encode())
    for _ in range(5000):
        changed = bytearray(line)
        for _ in range(rnd.randint(1, 4)):
            changed[rnd.randrange(len(changed))] = rnd.choice(b'0129-eE.,:"[]{}ntx')
        read = parse_ledger_line(bytes(changed))
        assert read is None or read.time_s >= 0
