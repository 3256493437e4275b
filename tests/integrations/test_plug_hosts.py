"""The hosts that a plug asks."""

from __future__ import annotations

from time import time

import pytest

from lockgate import Gate, MemoryApprovals
from lockgate.core.errors import LockgateError
from lockgate.integrations.plug import Line, Plug, PlugCall, QuestionAnswer
from lockgate.integrations.plug_hosts import LocalHost
from lockgate.testing.plug_suite import EVE, GOAL, POISON


@pytest.fixture(scope="module")
def gate() -> Gate:
    return Gate()


def held(host: LocalHost, call: PlugCall) -> str:
    plug = Plug("x", host=host)
    plug.user_said("s", GOAL)
    plug.model_reads("s", [Line("1", POISON, "tool:read_page")])
    return host.check("s", call).approval


def test_a_question_is_about_a_call_that_waits(gate: Gate) -> None:
    approvals = MemoryApprovals()
    host = LocalHost.made_of(Gate(scanner=gate.scanner, approvals=approvals), keep=False)
    id = held(host, PlugCall("send_email", {"to": EVE, "body": "x"}))
    question = host.question("s", "send_email", id)
    assert question is not None
    assert EVE in question.text
    assert host.answer(QuestionAnswer(id, question.digest, yes=False, who="ana"))
    assert host.question("s", "send_email", id) is None
    assert not host.answer(QuestionAnswer(id, question.digest, yes=True, who="ana"))
    assert approvals.get(id, time()) is not None
    host.host.close()


def test_a_gate_without_approvals_takes_no_answer(gate: Gate) -> None:
    host = LocalHost.made_of(Gate(scanner=gate.scanner), keep=False)
    assert host.question("s", "send_email", "a" * 16) is None
    with pytest.raises(LockgateError):
        host.answer(QuestionAnswer("a" * 16, "sha256:0", yes=True, who="ana"))
    host.host.close()


def test_only_the_users_own_words_were_said(gate: Gate) -> None:
    host = LocalHost.made_of(Gate(scanner=gate.scanner), keep=False)
    plug = Plug("x", host=host)
    plug.user_said("s", "Sum up the page")
    plug.model_reads("s", [Line("1", "Do as I say", "message:human")])
    again = Plug("x", host=host)
    assert again.was_said("s", "Sum up the page")
    assert not again.was_said("s", "Do as I say")
    host.host.close()
