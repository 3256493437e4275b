"""What a host tells the gate about a call, besides the tool and its arguments, can only make the ruling stricter."""

from __future__ import annotations

from lockgate.core.ruling.context import Context
from lockgate.core.ruling.pipeline import EscalatedCall, begin
from lockgate.core.ruling.policy import Policy
from lockgate.core.text.scanner import Scanner
from lockgate.core.vocabulary import Decision, Finding, Reason, Risk, ToolCall

CHANGED = Finding("mcp:tool-changed", "arguments", 0, 0)


def test_a_call_needs_only_a_tool_and_arguments() -> None:
    assert ToolCall("list_files", {"path": "."}) == ToolCall("list_files", {"path": "."}, None, (), "")


def test_annotations_raise_the_risk(scanner: Scanner) -> None:
    context = Context(scanner)
    plain = begin(context, ToolCall("list_files", {"path": "."}), Policy(), scanner)
    destructive = begin(context, ToolCall("list_files", {"path": "."}, {"destructiveHint": True}), Policy(), scanner)
    assert (plain.risk, destructive.risk) == (Risk.LOW, Risk.HIGH)


def test_a_finding_of_the_host_escalates_a_call_that_would_pass(scanner: Scanner) -> None:
    context = Context(scanner)
    passed = begin(context, ToolCall("list_files", {"path": "."}), Policy(), scanner)
    held = begin(context, ToolCall("list_files", {"path": "."}, findings=(CHANGED,)), Policy(), scanner)
    assert isinstance(passed, Decision)
    assert passed.reason is Reason.NO_UNTRUSTED_CONTENT
    assert isinstance(held, EscalatedCall)
    assert held.hard_findings == (CHANGED,)
