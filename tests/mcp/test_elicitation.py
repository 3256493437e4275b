"""A held call is asked about in the client, and only the person there can answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from mcp_rig import HIJACKED, MODERN, YES, Rig, asked

from lockgate.mcp import messages as wire


def hold(rig: Rig) -> Any:
    rig.initialize(elicitation={})
    rig.reads()
    rig.call("send_email", HIJACKED, id=5)
    return asked(rig)


def test_a_yes_lets_the_call_run_once_and_is_recorded(rig: Rig) -> None:
    question = hold(rig)
    assert "desk@clearance.example" in question["params"]["message"]
    rig.says({"jsonrpc": "2.0", "id": question["id"], "result": YES})
    assert [json.loads(line)["id"] for line in rig.server] == [5]
    assert rig.client == []
    (kept,) = rig.approvals.every(rig.clock())
    assert kept.state == "used"
    assert kept.answered is not None
    assert kept.answered.who == "tester, asked over MCP"
    rig.forget()
    # The same answer once more belongs to no question of ours, and the same call is asked about anew.
    rig.says({"jsonrpc": "2.0", "id": question["id"], "result": YES})
    assert rig.server == []
    rig.call("send_email", HIJACKED)
    asked(rig)


@pytest.mark.parametrize(
    "answer",
    [
        {"result": {"action": "decline"}},
        {"result": {"action": "cancel"}},
        {"result": {"action": "accept"}},
        {"result": {"action": "accept", "content": {"approve": False}}},
        {"result": {"action": "accept", "content": {"approve": "true"}}},
        {"result": {"action": "accept", "content": {"approve": 1}}},
        {"result": {"action": "accept", "content": [True]}},
        {"result": {"action": ["accept"], "content": {"approve": True}}},
        {"result": {"approve": True}},
        {"result": None},
        {"result": "accept"},
        {"error": {"code": -32601, "message": "no"}},
        {},
    ],
    ids=range(13),
)  # fmt: skip
def test_everything_but_a_plain_yes_denies(rig: Rig, answer: dict[str, object]) -> None:
    question = hold(rig)
    rig.says({"jsonrpc": "2.0", "id": question["id"], **answer})
    assert "a person was asked" in rig.denied()
    assert rig.told()["id"] == 5


def test_a_no_stands_for_the_session(rig: Rig) -> None:
    question = hold(rig)
    rig.says({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}})
    rig.forget()
    rig.call("send_email", HIJACKED)
    assert "denied this call" in rig.denied()


def test_the_server_cannot_answer_for_the_user(rig: Rig) -> None:
    question = hold(rig)
    rig.answers({"jsonrpc": "2.0", "id": question["id"], "result": YES})
    rig.answers({"jsonrpc": "2.0", "id": 5, "result": {"content": []}})
    assert rig.server == []
    assert rig.approvals.every(rig.clock())[0].answered is None


def test_an_answer_as_a_request_is_none(rig: Rig) -> None:
    question = hold(rig)
    rig.says({"jsonrpc": "2.0", "id": question["id"], "method": "ping", "result": YES})
    assert rig.server == []
    assert rig.approvals.every(rig.clock())[0].answered is None


def test_an_answer_in_a_batch_counts_and_goes_no_further(rig: Rig) -> None:
    question = hold(rig)
    ping = {"jsonrpc": "2.0", "id": 9, "method": "ping"}
    rig.says(wire.line_of([{"jsonrpc": "2.0", "id": question["id"], "result": YES}, ping]))
    assert [json.loads(line) for line in rig.server][1] == [ping]
    assert json.loads(rig.server[0])["id"] == 5


def test_what_is_read_meanwhile_voids_the_question(rig: Rig) -> None:
    question = hold(rig)
    rig.result(99, "by the way, more text")
    rig.forget()
    rig.says({"jsonrpc": "2.0", "id": question["id"], "result": YES})
    assert rig.denied()


def test_a_call_that_is_given_up_does_not_run(rig: Rig) -> None:
    question = hold(rig)
    rig.says({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}})
    assert rig.told()["params"]["requestId"] == question["id"]
    rig.forget()
    rig.says({"jsonrpc": "2.0", "id": question["id"], "result": YES})
    assert not any(b"send_email" in line for line in rig.server)


def test_a_question_without_an_answer_denies_in_the_end(rig: Rig) -> None:
    question = hold(rig)
    rig.point._questions.expire(question["id"])
    withdrawn, denial = (json.loads(line) for line in rig.client)
    assert withdrawn["method"] == "notifications/cancelled"
    assert "no person answered in time" in denial["result"]["content"][0]["text"]
    rig.says({"jsonrpc": "2.0", "id": question["id"], "result": YES})
    assert not any(b"send_email" in line for line in rig.server)


@pytest.mark.parametrize(
    "able", [None, True, {"url": {}}, {"form": True}, []], ids=["none", "true", "url", "form", "list"]
)
def test_a_client_that_cannot_ask_is_not_asked(rig: Rig, able: object) -> None:
    rig.initialize(elicitation=able)
    rig.reads()
    rig.call("send_email", HIJACKED)
    assert "waits for a person as approval" in rig.denied()


def test_what_cannot_be_shown_whole_is_not_asked_about(rig: Rig) -> None:
    rig.initialize(elicitation={})
    rig.reads()
    rig.call("send_email", {**HIJACKED, "body": "x" * 5_000})
    assert "waits for a person as approval" in rig.denied()


def test_what_would_not_be_seen_is_shown_by_its_number(rig: Rig) -> None:
    rig.initialize(elicitation={})
    rig.reads()
    rig.call("send_email", {**HIJACKED, "body": "a\u202eb\u200bc\x1b[2Jd\nLockgate: all is well"})
    message = asked(rig)["params"]["message"]
    assert "\\u{202e}" in message
    assert not {"\u202e", "\u200b", "\x1b"} & set(message)
    assert "\nLockgate: all is well" not in message


def test_only_so_many_calls_wait_in_dialogues(rig: Rig) -> None:
    rig.initialize(elicitation={})
    rig.reads()
    for number in range(40):
        rig.call("send_email", {**HIJACKED, "subject": str(number)})
    kinds = [json.loads(line).get("method", "denied") for line in rig.client]
    assert kinds.count("elicitation/create") <= 32
    assert "denied" in kinds
    rig.point.close()


def ask_modern(rig: Rig, **params: object) -> Any:
    rig.reads()
    rig.call("send_email", HIJACKED, id=5, _meta=MODERN, **params)
    result = rig.told()["result"]
    assert result["resultType"] == "input_required"
    assert rig.server == []
    rig.forget()
    return result


def again(
    rig: Rig, state: object, answer: object = YES, arguments: object = HIJACKED, tool: str = "send_email"
) -> None:
    rig.call(tool, arguments, _meta=MODERN, requestState=state, inputResponses={"lockgate": answer})


def test_a_modern_client_calls_again_with_the_answer(rig: Rig) -> None:
    result = ask_modern(rig)
    assert result["inputRequests"]["lockgate"]["method"] == "elicitation/create"
    again(rig, result["requestState"])
    (line,) = rig.server
    params = json.loads(line)["params"]
    assert params["arguments"] == HIJACKED
    assert "requestState" not in params
    assert "inputResponses" not in params
    assert rig.approvals.every(rig.clock())[0].state == "used"


def test_a_state_counts_once(rig: Rig) -> None:
    state = ask_modern(rig)["requestState"]
    again(rig, state)
    rig.forget()
    again(rig, state)
    assert "no open question" in rig.denied()


def change(at: int) -> Callable[[str], str]:
    return lambda state: state[:at] + ("0" if state[at] != "0" else "1") + state[at + 1 :]


@pytest.mark.parametrize(
    "changed",
    [
        change(12), change(-1), lambda state: state[:-1], lambda state: state + "0", lambda _: "lockgate1.",
        lambda _: "lockgate1.x.y",
    ],
    ids=["nonce", "mac", "short", "long", "empty", "made-up"],
)  # fmt: skip
def test_a_state_that_was_tampered_with_denies(rig: Rig, changed: Callable[[str], str]) -> None:
    again(rig, changed(ask_modern(rig)["requestState"]))
    assert "no open question" in rig.denied()
    assert rig.told()["result"]["resultType"] == "complete"


@pytest.mark.parametrize(
    ("arguments", "tool"),
    [({**HIJACKED, "to": "other@clearance.example"}, "send_email"), ({}, "send_email"), (HIJACKED, "send_mail")],
    ids=["other", "none", "tool"],
)
def test_a_state_belongs_to_one_call(rig: Rig, arguments: object, tool: str) -> None:
    state = ask_modern(rig)["requestState"]
    again(rig, state, arguments=arguments, tool=tool)
    assert "no open question" in rig.denied()
    rig.forget()
    # And is spent by the attempt.
    again(rig, state)
    assert rig.denied()


def test_a_state_expires(rig: Rig) -> None:
    state = ask_modern(rig)["requestState"]
    rig.clock.ahead_s = 301
    again(rig, state)
    assert "no person answered in time" in rig.denied()


def test_a_state_of_another_run_is_worth_nothing(rig: Rig) -> None:
    state = ask_modern(rig)["requestState"]
    rig.point = rig.checkpoint()
    again(rig, state)
    assert "no open question" in rig.denied()


@pytest.mark.parametrize("answer", [None, {"action": "cancel"}, {"action": "accept", "content": {}}], ids=range(3))
def test_a_modern_client_that_gives_no_yes_is_denied(rig: Rig, answer: object) -> None:
    again(rig, ask_modern(rig)["requestState"], answer)
    assert "a person was asked" in rig.denied()


def test_what_the_server_itself_had_asked_for_goes_with_the_call(rig: Rig) -> None:
    theirs = {"requestState": "the server's own", "inputResponses": {"name": {"action": "accept"}}}
    result = ask_modern(rig, **theirs)
    again(rig, result["requestState"])
    params = json.loads(rig.server[0])["params"]
    assert {name: params[name] for name in theirs} == theirs


def test_a_servers_own_state_is_not_ours(rig: Rig) -> None:
    rig.call("read_inbox", {}, _meta=MODERN, requestState="theirs", inputResponses={"lockgate": YES})
    assert json.loads(rig.server[0])["params"]["requestState"] == "theirs"
    rig.forget()
    rig.reads()
    again(rig, "theirs")
    assert rig.told()["result"]["resultType"] == "input_required"


def test_a_modern_client_that_cannot_ask_is_denied(rig: Rig) -> None:
    rig.reads()
    rig.call("send_email", HIJACKED, _meta={**MODERN, wire.CAPABILITIES: {}})
    assert rig.denied()
    assert rig.told()["result"]["resultType"] == "complete"
