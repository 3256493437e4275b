"""Rows of an operator's own table add effects to programs and tools, and a wrong one stops the start."""

from __future__ import annotations

import pytest

from lockgate.core.errors import InvalidConfig
from lockgate.core.ruling.effects.effects_of_call import effects_of
from lockgate.core.ruling.effects.operator_rows import parse_operator_rows
from lockgate.core.ruling.effects.project import Project
from lockgate.core.vocabulary import ToolCall

TABLE = """\
# Ours.
[programs] program | command words | kind
deployctl | prod,apply live | publishes
  + deployctl push prod
  - deployctl status
make* | - | deletes-data
[tools] tool | kind
*ledger_post* | pays
  + mcp__ledger_post_entry
"""
ROWS = parse_operator_rows(TABLE, "rows.tbl")


def kinds(tool: str, **arguments: object) -> set[str]:
    return {effect.kind for effect in effects_of(ToolCall(tool, arguments), Project(effect_rows=ROWS))}


def test_rows_are_texts_of_which_each_has_its_section() -> None:
    assert ROWS == (
        "programs | deployctl | prod,apply live | publishes",
        "programs | make* | - | deletes-data",
        "tools | *ledger_post* | pays",
    )
    assert parse_operator_rows("# nothing\n", "rows.tbl") == ()


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("deployctl push prod", "publishes"),
        ("cd x && sudo /opt/bin/deployctl --force prod", "publishes"),
        ("deployctl live apply", "publishes"),
        ("deployctl push $WHERE", "publishes"),
        ("bash -c 'deployctl prod'", "publishes"),
        ("makeall", "deletes-data"),
        ("make test", "deletes-data"),
    ],
)
def test_a_program_has_one_more_effect(command: str, kind: str) -> None:
    assert kind in kinds("Bash", command=command)
    before = {effect.kind for effect in effects_of(ToolCall("Bash", {"command": command}), Project())}
    # A row only adds.
    assert before - {"looks"} <= kinds("Bash", command=command)


def test_a_tool_has_one_more_effect() -> None:
    assert "pays" in kinds("mcp__Ledger_Post_entry", text="x")
    assert "pays" not in kinds("ledger_read", text="x")


def test_other_commands_have_none() -> None:
    assert "publishes" not in kinds("Bash", command="deployctl status")
    assert "publishes" not in kinds("Bash", command="echo deployctl prod")


@pytest.mark.parametrize(
    ("table", "error"),
    [
        ("deployctl | - | publishes", "line 1 of `rows.tbl`: a row before any section"),
        ("[paths] path | kind\n~/x | pays", "line 1 of `rows.tbl`: section `paths` is unknown"),
        ("[tools] tool | what\nx | pays", "line 1 of `rows.tbl`: the columns are tool | what"),
        ("[tools] tool | kind\n\nx | pays | y", "line 3 of `rows.tbl`: 3 columns instead of 2"),
        ("[tools] tool | kind\nx | pay", "line 2 of `rows.tbl`: `pay` is no kind"),
        ("[tools] tool | kind\nx | looks", "line 2 of `rows.tbl`: `looks` is no kind"),
        ("[tools] tool | kind\nx | changes-own-guard", "line 2 of `rows.tbl`: `changes-own-guard` is no kind"),
        ("[programs] program | command words | kind\nx |  | pays", "has an empty column"),
        (
            "[tools] tool | kind\nx | pays\n  | more",
            "line 2 of `rows.tbl`: `tools | x | pays | more` has an empty column",
        ),
        ("[tools] tool | kind\nx | pays\n  + y", "line 2 of `rows.tbl`: the row does not do what its example says: y"),
    ],
)
def test_a_wrong_row_stops_the_start(table: str, error: str) -> None:
    with pytest.raises(InvalidConfig) as raised:
        parse_operator_rows(table, "rows.tbl")
    assert error in raised.value.message
