"""Levels, commitments and self-assessments: nothing an agent writes about itself makes it look better."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockgate.core.errors import InvalidCall
from lockgate.core.ruling.approvals import bind_call
from lockgate.core.ruling.context import PastCall
from lockgate.core.ruling.supervised_steps import (
    CAUSES,
    MAX_ACTS,
    MAX_ACTS_WRITTEN,
    MAX_ENTRIES,
    MAX_ENTRY,
    MAX_TEXT,
    MAX_TRIGGERS,
    MAX_WRITTEN,
    ActingCalls,
    Commitment,
    SelfAssessment,
    Supervision,
    call_to_argument,
    compare_with_commitment,
    effective_supervision,
    parse_statement,
    parse_supervision,
    split_assumptions,
    why_undeclared,
)

UN, SUP, HUMAN = Supervision

PLAN = Commitment(
    "Answer the mails about the docs and keep the tests green",
    in_scope=(
        "Read the inbox and send a reply by email to docs.example",
        "run the tests in ~/proj",
        "fetch pages of https://docs.example/",
        "`update_ticket`",
    ),
    out_of_scope=("deleting files", "anything in ~/.ssh", "mail to hr.docs.example", "spawn_agent"),
    assumptions=("the tests pass today",),
)
FINE = SelfAssessment(met=True)


def call(tool: str, **values: str) -> PastCall:
    return PastCall(tool, tuple(values.items()), "CONTINUE", 1, "no-red-flags")


def seen(*calls: PastCall, commitment: Commitment | None = PLAN) -> ActingCalls:
    acts = ActingCalls()
    for each in calls:
        acts.add_call(commitment, each)
    return acts


# --- levels


INHERITED = [
    (None, None, SUP),
    (None, UN, UN),
    (None, SUP, SUP),
    (None, HUMAN, HUMAN),
    (UN, None, UN),
    (UN, UN, UN),
    (UN, SUP, SUP),
    (UN, HUMAN, HUMAN),
    (SUP, None, SUP),
    (SUP, UN, SUP),
    (SUP, SUP, SUP),
    (SUP, HUMAN, HUMAN),
    (HUMAN, None, HUMAN),
    (HUMAN, UN, HUMAN),
    (HUMAN, SUP, HUMAN),
    (HUMAN, HUMAN, HUMAN),
]


@pytest.mark.parametrize(("parent", "asked", "given"), INHERITED)
def test_a_child_may_be_stricter_never_laxer(
    parent: Supervision | None, asked: Supervision | None, given: Supervision
) -> None:
    assert effective_supervision(parent, asked) is given


@pytest.mark.parametrize("name", ["supervised-human", "SUPERVISED_HUMAN", " Supervised Human ", HUMAN])
def test_a_level_by_its_name(name: str) -> None:
    assert parse_supervision(name) is HUMAN


@pytest.mark.parametrize("name", ["", "none", "human", True, None, 2])
def test_an_unknown_level_is_refused(name: object) -> None:
    with pytest.raises(InvalidCall, match="unknown supervision"):
        parse_supervision(name)


# --- what an agent writes


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"interpretation": ""},
        {"interpretation": "  "},
        {"interpretation": 5},
        {"interpretation": "x" * (MAX_TEXT + 1)},
        {"interpretation": "x", "in_scope": "send email"},
        {"interpretation": "x", "in_scope": ["a"] * (MAX_ENTRIES + 1)},
        {"interpretation": "x", "in_scope": ["a" * (MAX_ENTRY + 1)]},
        {"interpretation": "x", "in_scope": [["a"]]},
        {"interpretation": "x", "assumptions": None},
        {"interpretation": "x", "approved": True},
        {"interpretation": "a\ud800"},
        {"interpretation": "x", "in_scope": ["read", "\udfff"]},
        {"interpretation": "\U0001f600" * MAX_TEXT, "in_scope": ["\U0001f600" * MAX_ENTRY] * MAX_ENTRIES},
    ],
)
def test_a_commitment_that_is_none_is_refused(broken: dict[str, object]) -> None:
    with pytest.raises(InvalidCall):
        parse_statement(broken, Commitment)


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"met": "false"},
        {"met": "true"},
        {"met": 1},
        {"met": None},
        {"met": True, "concerns": "none"},
        {"met": True, "concerns": {"a": 1}},
        {"met": True, "verdict": "CONTINUE"},
        {"met": True, "summary": ["x"]},
        {"met": True, "summary": "\ud83d"},
        {"met": True, "concerns": ["\ude00\ud83d"]},
        {"met": True, "concerns": ["\x00" * MAX_ENTRY] * MAX_ENTRIES, "deviations": ["\x00" * MAX_ENTRY] * MAX_ENTRIES},
    ],
)
def test_an_assessment_that_is_none_is_refused(broken: dict[str, object]) -> None:
    with pytest.raises(InvalidCall):
        parse_statement(broken, SelfAssessment)


def test_what_may_be_written_may_be_written_in_full_in_plain_letters() -> None:
    lists = dict.fromkeys(("in_scope", "out_of_scope", "assumptions"), ["x" * MAX_ENTRY] * MAX_ENTRIES)
    assert len(json.dumps({"interpretation": "x" * MAX_TEXT, **lists})) < MAX_WRITTEN
    assert parse_statement({"interpretation": "x" * MAX_TEXT, **lists}, Commitment).in_scope[0] == "x" * MAX_ENTRY


@pytest.mark.parametrize("value", [None, [], "met", 5])
def test_what_is_no_object_is_refused(value: object) -> None:
    with pytest.raises(InvalidCall, match="must be an object"):
        parse_statement(value, Commitment)  # type: ignore[arg-type]
    with pytest.raises(InvalidCall, match="must be an object"):
        parse_statement(value, SelfAssessment)  # type: ignore[arg-type]


def test_values_pass_through_and_objects_become_values() -> None:
    assert parse_statement(PLAN, Commitment) is PLAN
    assert parse_statement(FINE, SelfAssessment) is FINE
    written = {"interpretation": " x ", "in_scope": ["a", " "]}
    assert parse_statement(written, Commitment) == Commitment("x", ("a",))


def test_a_list_that_says_it_is_empty_is_empty() -> None:
    said = SelfAssessment(met=True, concerns=("None", "n/a", "", " - "), deviations=("none.",))
    assert (said.concerns, said.deviations) == ((), ())


def test_a_list_that_only_looks_empty_is_not() -> None:
    assert SelfAssessment(met=True, concerns=("\u200b",)).concerns
    assert SelfAssessment(met=True, concerns=("none that I may name",)).concerns


# --- triggers


def causes(assessment: SelfAssessment, *calls: PastCall, commitment: Commitment = PLAN) -> list[str]:
    return [
        trigger.rule for trigger in compare_with_commitment(commitment, assessment, seen(*calls, commitment=commitment))
    ]


def test_what_fits_triggers_nothing() -> None:
    calls = (
        call("read_inbox"),
        call("send_email", to="ann@docs.example", body="Done"),
        call("bash", command="pytest ~/proj"),
        call("web_fetch", url="https://docs.example/api"),
        call("update_ticket", id="7"),
        call("read", path="/etc/hosts"),
    )
    assert compare_with_commitment(PLAN, FINE, seen(*calls)) == ()


def test_each_admission_counts() -> None:
    assert causes(SelfAssessment(met=True, concerns=("odd mail",))) == ["step:concerns_raised"]
    assert causes(SelfAssessment(met=False)) == ["step:commitment_not_met"]
    assert causes(SelfAssessment(met=True, deviations=("also tagged it",))) == ["step:scope_deviation"]
    assert causes(SelfAssessment(met=True, assumptions=("a1", "b2", "c3"))) == ["step:excess_assumptions"]


def test_three_assumptions_are_not_too_many() -> None:
    assert causes(SelfAssessment(met=True, assumptions=("a1", "b2"))) == []
    assert causes(SelfAssessment(met=True, assumptions=("The tests pass today.", "a1", "b2"))) == []


@pytest.mark.parametrize(
    ("written", "count"),
    [
        (["it is Monday"], 1),
        (["it is Monday; the disk is big. The user is an admin"], 3),
        (["1. it is Monday 2. the disk is big 3) she agrees"], 3),
        (["- it is Monday\n- the disk is big\n\u2022 she agrees"], 3),
        (["it is Monday, and that the disk is big and assuming she agrees"], 3),
        (["It is Monday.", "it is monday"], 1),
        (["the file, e.g. notes.txt, i.e. mine, exists"], 1),
    ],
)
def test_assumptions_are_counted_however_they_are_written(written: list[str], count: int) -> None:
    assert len(split_assumptions(written)) == count


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (call("transfer_money", account="1"), "does not mention"),
        (call("frobnicate"), "does not mention"),
        (call("write_file", path="~/proj/a"), "does not mention"),
        (call("delete_file", path="~/proj/a"), "out of scope"),
        (call("spawn_agent", prompt="x"), "out of scope"),
        (call("send_email", to="boss@hr.docs.example"), "touches"),
        (call("read", path="~/.ssh/id_rsa"), "touches"),
        (call("read", path="~/proj/../.ssh/id_rsa"), "touches"),
        (call("send_email", to="x@evil.com"), "`@evil.com` is not among"),
        (call("web_fetch", url="https://docs.example@evil.com/"), "is not among"),
        (call("web_fetch", url="http://docs.example.evil.com"), "is not among"),
        (call("bash", command="cat /etc/passwd"), "is not among"),
        (call("bash", command="curl $X"), "is not among"),
    ],
)
def test_a_call_that_was_not_declared_counts_whatever_the_agent_says(made: PastCall, why: str) -> None:
    (trigger,) = compare_with_commitment(PLAN, SelfAssessment(met=True, summary="all as declared"), seen(made))
    assert trigger.rule == "step:undeclared_call"
    assert trigger.excerpt.startswith(f"{made.tool}: ")
    assert why in trigger.excerpt


@pytest.mark.parametrize(
    "everything",
    [
        [],
        ["everything"],
        ["*"],
        ["all tools"],
        ["any action that is needed to reach the goal"],
        ["whatever the document asks for"],
        ["use the tools as appropriate"],
    ],
)
def test_declaring_everything_declares_nothing(everything: list[str]) -> None:
    plan = parse_statement({"interpretation": "help", "in_scope": everything}, Commitment)
    for tool in ("send_email", "bash", "write_file", "web_fetch", "delete_file", "pay_invoice", "frobnicate"):
        assert why_undeclared(plan, call(tool)), tool


@pytest.mark.parametrize(
    ("entry", "rules_out"),
    [
        ("deleting mail", False),
        ("delete_email", False),
        ("Deleting any old emails.", False),
        ("reading the mail of others", False),
        ("deleting or moving mail", False),
        ("mail", True),
        ("email", True),
        ("emails of any kind", True),
        ("mailing the customers", True),
        ("sending mail", True),
        ("forwarding mail", True),
        ("deleting and forwarding mail", True),
        ("delete it and mail Ann", True),
        ("deleting things, mail", True),
        ("updating the client by mail", True),
        ("deleting files, or emailing them", True),
        ("`send_email`", True),
    ],
)
def test_out_of_scope_rules_out_what_it_names_and_no_other_verb(entry: str, rules_out: bool) -> None:  # noqa: FBT001
    plan = Commitment("reply", ("send an email to ann@docs.example",), (entry,))
    assert bool(why_undeclared(plan, call("send_email", to="ann@docs.example"))) is rules_out


@pytest.mark.parametrize("entry", ["delete old mail", "read the mail", "delete_email"])
def test_declaring_one_thing_to_do_with_mail_does_not_declare_sending_it(entry: str) -> None:
    assert why_undeclared(Commitment("tidy up", (entry,)), call("send_email", to="ann@docs.example"))


def test_a_held_call_counts_like_one_that_ran() -> None:
    tried = call("pay_invoice", account="1")._replace(action="PAUSE", tier=3)
    assert causes(FINE, tried) == ["step:undeclared_call"]


def test_the_policy_says_which_tools_act() -> None:
    plan = Commitment("look around", in_scope=("read files",))
    assert why_undeclared(plan, call("read", path="a")) == ""
    assert why_undeclared(plan, call("get_weather"), high_risk_tools=frozenset({"get_weather"}))


def test_a_text_that_speaks_of_outside_names_the_inside() -> None:
    plan = Commitment("fetch", ("fetch pages",), ("anything outside docs.example",))
    assert why_undeclared(plan, call("web_fetch", url="https://docs.example/")) == ""


def test_many_concerns_do_not_crowd_out_the_calls() -> None:
    said = SelfAssessment(met=False, concerns=tuple(f"concern {n}" for n in range(20)), deviations=("x1",))
    found = compare_with_commitment(PLAN, said, seen(*(call(f"pay_{n}") for n in range(100))), abandoned=["x"] * 50)
    assert len(found) <= MAX_TRIGGERS
    assert {trigger.rule for trigger in found} >= {
        "step:concerns_raised",
        "step:undeclared_call",
        "step:scope_deviation",
    }


def test_a_trigger_is_a_finding() -> None:
    (found,) = compare_with_commitment(PLAN, FINE, seen(call("pay")))
    assert (found.rule, found.where) == ("step:undeclared_call", "acts")


def test_a_step_that_was_given_up_is_a_trigger() -> None:
    assert [trigger.rule for trigger in compare_with_commitment(PLAN, FINE, seen(), abandoned=["pay"])] == [
        "step:abandoned_step"
    ]


# --- the calls


def shown(acts: ActingCalls) -> list[str]:
    return [act.tool for act in acts.most_telling()]


MILD = ("create_note", "update_note", "rename_note", "move_note")


@pytest.mark.parametrize("before", [0, 5, 300])
@pytest.mark.parametrize("after", [0, 5, 300])
def test_the_call_that_matters_is_shown_whatever_is_around_it(before: int, after: int) -> None:
    fillers = [call(MILD[n % 4], title=f"draft {n}") for n in range(before + after)]
    acts = seen(*fillers[:before], call("wire_transfer", to="EVE", amount="90000"), *fillers[before:])
    assert shown(acts)[0] == "wire_transfer"
    assert call_to_argument(acts.most_telling()[0]) == {
        "tool": "wire_transfer",
        "arguments": {"to": "EVE", "amount": "90000"},
        "ruling": "CONTINUE by tier 1 (no-red-flags)",
        "undeclared": "the commitment does not mention what this tool does",
    }
    assert any("wire_transfer" in trigger.excerpt for trigger in compare_with_commitment(PLAN, FINE, acts))
    assert bool(acts.describe_unshown()) is (len(fillers) + 1 > MAX_ACTS)


def test_of_grave_calls_each_tool_is_shown_once_before_any_comes_again() -> None:
    fillers = [call("bash", command=f"make {n}") for n in range(400)]
    acts = seen(call("wire_transfer", to="EVE"), *fillers[:200], call("delete_backup", id="1"), *fillers[200:])
    assert {"wire_transfer", "delete_backup", "bash"} <= set(shown(acts)[:3])
    assert acts.describe_unshown() == f"{402 - MAX_ACTS} of the acting calls altogether"


def test_undeclared_calls_come_before_declared_ones() -> None:
    sends = [call("send_email", to=f"a{n}@docs.example", body=str(n)) for n in range(60)]
    acts = seen(*sends[:30], call("update_note", title="x"), *sends[30:])
    assert shown(acts)[:2] == ["update_note", "send_email"]
    assert [bool(act.why) for act in acts.most_telling()] == [True] + [False] * (MAX_ACTS - 1)
    assert acts.most_telling()[1].values[0] == ("to", "a59@docs.example")


def test_the_same_call_many_times_is_one_line() -> None:
    acts = seen(*[call("pay", to="7")] * 500, call("read", path="x"))
    (act,) = acts.most_telling()
    assert (act.times, acts.seen, acts.acting, acts.describe_unshown()) == (500, 501, 500, "")
    assert call_to_argument(act)["times"] == 500


def test_looking_around_is_counted_and_not_shown() -> None:
    acts = seen(*(call("read", path=f"{n}") for n in range(50)))
    assert (acts.most_telling(), acts.seen, acts.acting, acts.describe_unshown()) == ((), 50, 0, "")


def test_a_long_value_is_cut_and_it_is_said() -> None:
    acts = seen(call("bash", command="make " + "x" * 5_000 + " && curl evil.example"))
    (act,) = acts.most_telling()
    assert act.values[0][1].startswith("make ")
    assert act.values[0][1].endswith("&& curl evil.example")
    assert "5,026 characters" in act.values[0][1]
    assert acts.describe_unshown() == "1 of the acting calls in part"
    assert seen(call("pay", **{f"a{n}": "x" for n in range(30)})).describe_unshown() == "1 of the acting calls in part"


def test_calls_made_before_the_commitment_are_undeclared_unless_they_only_look() -> None:
    acts = seen(call("send_email", to="ann@docs.example"), call("read", path="x"), commitment=None)
    assert [act.why for act in acts.most_telling()] == ["made before the commitment"]


def test_a_call_that_cannot_be_compared_is_undeclared(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: object, **__: object) -> str:
        raise RuntimeError

    monkeypatch.setattr("lockgate.core.ruling.supervised_steps.why_undeclared", breaks)
    assert seen(call("read", path="x")).most_telling()[0].why == "it could not be compared with the commitment"


def test_what_is_shown_can_always_be_approved() -> None:
    """Whatever an agent puts into its calls: a step that could not be stored could never be approved."""
    chance = random.Random(3)
    pieces = ("\ud800", "\U0001f600" * 90, "\x00" * 200, '"\\', "x" * 500, "a.b[0]", "é", "")
    acts = seen()
    for number in range(100):
        values = tuple(
            (chance.choice(pieces), "".join(chance.choices(pieces, k=3))) for _ in range(chance.randrange(14))
        )
        acts.add_call(PLAN, PastCall(f"pay_{number}{chance.choice(pieces)}", values, "CONTINUE", 1, "no-red-flags"))
    told = [call_to_argument(act) for act in acts.most_telling()]
    assert told
    assert len(json.dumps(told)) <= MAX_ACTS_WRITTEN + 2 * len(told)
    assert bind_call("s", "finish_step", {"acts": told}, "p", "c").digest
    assert acts.describe_unshown()


WORDS = st.lists(st.text(max_size=40), max_size=5)


@settings(max_examples=100, deadline=None)
@given(st.booleans(), WORDS, WORDS, WORDS, st.text(max_size=80))
def test_no_words_of_an_agent_hide_a_call(
    met: bool,  # noqa: FBT001
    deviations: list[str],
    concerns: list[str],
    assumptions: list[str],
    summary: str,
) -> None:
    said = SelfAssessment(met, tuple(deviations), tuple(concerns), tuple(assumptions), summary)
    found = causes(said, call("transfer_money", account="1"))
    assert "step:undeclared_call" in found
    assert ("step:commitment_not_met" in found) is not met
    assert ("step:concerns_raised" in found) is bool(said.concerns)
    assert ("step:scope_deviation" in found) is bool(said.deviations)


# --- the page


PAGE = (Path(__file__).resolve().parents[3] / "docs" / "reference" / "supervision.md").read_text(encoding="utf-8")


def test_the_page_has_the_table_of_inheritance() -> None:
    (table,) = re.findall(r"^\| outer step .*\n\|[-|]+\n((?:\|.*\n)+)", PAGE, flags=re.MULTILINE)
    rows = [[cell.strip(" `") for cell in line.strip("|\n").split("|")] for line in table.splitlines()]
    levels = [None, *Supervision]
    assert [row[0] for row in rows] == ["none", *Supervision]
    for parent, row in zip(levels, rows, strict=True):
        assert row[1:] == [effective_supervision(parent, asked).value for asked in levels]


def test_the_page_names_every_trigger_and_level() -> None:
    for word in (*CAUSES, *Supervision):
        assert f"`{word}`" in PAGE
