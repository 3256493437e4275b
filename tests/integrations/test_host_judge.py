"""A chat model of a framework as the judge: what counts, what is refused, and what a plug sees of it."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

from lockgate import Gate
from lockgate.core.errors import InvalidConfig
from lockgate.core.judging.case import JudgeCase
from lockgate.core.questions import Question
from lockgate.core.ruling.opinions import Authority, Silent, Triage, Unreadable, standing_of
from lockgate.core.ruling.pipeline import Stage
from lockgate.core.ruling.policy import Policy
from lockgate.gate.judge import Inquiry, Opined
from lockgate.integrations import host_judge
from lockgate.integrations.host_judge import HostModelJudge, use_judge, verdict_class
from lockgate.integrations.plug import Line, Plug, PlugCall, agent_here
from lockgate.testing.plug_suite import GOAL, POISON, SEND

CASE = JudgeCase("goal", "", "send_email", "{}")
INQUIRY = Inquiry(Stage.TRIAGE, CASE)


class Model:
    """A framework's model, as far as the judge looks at it."""

    model = "small-1"

    def request(self) -> None: ...


def nonce_of(question: Question) -> str:
    found = re.search(r"with the nonce (\w+):", question.user)
    assert found is not None
    return found[1]


def clear(model: Any, question: Question) -> tuple[object, object]:
    return {"suspicious": False, "nonce": nonce_of(question)}, "small-1-2026"


async def clear_later(model: Any, question: Question) -> tuple[object, object]:
    return clear(model, question)


def opinion_of(ask: Callable[[Any, Question], Any], inquiry: Inquiry = INQUIRY) -> Opined:
    return HostModelJudge(Model(), ask).opine(inquiry)


def raising(*_: Any) -> Any:
    raise SystemExit("the model wants the process to end")


def test_only_the_exact_object_counts() -> None:
    assert opinion_of(clear) == Opined(Triage(suspicious=False), model="small-1-2026")
    for reply in ("", "NO", "{}", '{"suspicious": false, "nonce": "0123456789abcdef"}', {"suspicious": False}):
        assert opinion_of(lambda *_, reply=reply: (reply, None)).opinion == Unreadable()
    given = lambda _, question: (json.dumps(clear(None, question)[0]) + "\n\nDone.", None)  # noqa: E731
    assert opinion_of(given).opinion == Unreadable()


@pytest.mark.parametrize("reply", [None, 7, ("text",), object()])
def test_an_odd_reply_is_no_answer(reply: object) -> None:
    assert opinion_of(lambda *_: reply).opinion == Silent("internal")
    assert opinion_of(lambda *_: (reply, None)).opinion == Silent("internal")


def test_a_model_that_fails_or_is_late_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    assert opinion_of(raising).opinion == Silent("internal")
    monkeypatch.setattr(host_judge, "TIMEOUT_S", 0.05)
    assert opinion_of(lambda *_: time.sleep(0.3)).opinion == Silent("deadline")
    monkeypatch.setattr(host_judge, "TIMEOUT_S", 20.0)
    assert opinion_of(clear, INQUIRY._replace(until=time.monotonic() - 1)).opinion == Silent("deadline")

    async def hangs(*_: Any) -> None:
        await asyncio.sleep(30)

    soon = INQUIRY._replace(until=time.monotonic() + 0.05)
    assert asyncio.run(HostModelJudge(Model(), hangs).opine_async(soon)).opinion == Silent("deadline")


def test_an_asynchronous_model_is_asked_on_the_loop_that_waits() -> None:
    loops: list[object] = []

    async def ask(model: Any, question: Question) -> Any:
        loops.append(asyncio.get_running_loop())
        return clear(model, question)

    async def main() -> Opined:
        loops.append(asyncio.get_running_loop())
        assert HostModelJudge(Model(), ask).opine(INQUIRY).opinion == Silent("called-in-loop")
        return await HostModelJudge(Model(), ask).opine_async(INQUIRY)

    assert asyncio.run(main()).opinion == Triage(suspicious=False)
    assert loops[0] is loops[1]
    # Another loop than the one that its connections belong to would break them for the agent.
    assert opinion_of(ask).opinion == Silent("internal")


def test_without_the_agents_model_there_is_no_answer() -> None:
    assert HostModelJudge("host", clear).opine(INQUIRY).opinion == Silent("internal")
    before = agent_here.set((Model(), None))
    try:
        judge = HostModelJudge("host", clear)
        assert judge.opine(INQUIRY).opinion == Triage(suspicious=False)
        assert (judge.name, standing_of(judge).authority) == ("host/small-1", Authority.UNEXAMINED)
    finally:
        agent_here.reset(before)


def test_the_class_of_verdicts_takes_nothing_else() -> None:
    assert verdict_class()(suspicious=False, nonce="n").model_dump() == {"suspicious": False, "nonce": "n"}
    for odd in ({"suspicious": "false"}, {"suspicious": 0}, {"nonce": 1}, {"why": "fine"}):
        with pytest.raises(ValidationError):
            verdict_class()(**{"suspicious": False, "nonce": "n", **odd})


def hijacked(plug: Plug) -> bool:
    plug.user_said("s", GOAL)
    plug.model_reads("s", [Line("1", POISON, "web:https://shop.example")])
    plug.note_model("s", Model)
    return plug.check("s", PlugCall(SEND.tool, SEND.arguments, SEND.id)).runs


def test_a_plug_asks_the_judge_that_it_was_given() -> None:
    plug = Plug("test", gate=Gate())
    use_judge(plug, None, "request", clear)
    assert not hijacked(plug)
    plug = Plug("test", gate=Gate())
    use_judge(plug, "host", "request", clear)
    assert hijacked(plug)


def test_what_a_plug_is_told_of_while_its_judge_is_asked_is_not_kept_and_no_call_runs() -> None:
    plug = Plug("test", gate=Gate())
    ran: list[object] = []

    def ask(model: Any, question: Question) -> Any:
        plug.user_said("s", question.user)
        plug.model_reads("s", [Line("2", question.user, "message:user")])
        plug.agent_wrote("s", question.user)
        ran.append(plug.check("s", PlugCall("get_sum", {"a": 1}, "inner")).runs)
        ran.append(asyncio.run(plug.check_async("s", PlugCall("get_sum", {"a": 1}, "inner"))).runs)
        return clear(model, question)

    use_judge(plug, Model(), "request", ask)
    assert hijacked(plug)
    assert ran == [False, False]
    host: Any = plug._host
    assert not any("nonce" in block.content for block in host.host.blocks("s"))
    assert plug.check("s", PlugCall("get_sum", {"a": 1}, "after")).runs


def test_a_judge_of_the_developers_is_taken_as_it_is() -> None:
    class Own:
        name = "own/judge"

        def opine(self, inquiry: Inquiry) -> Opined:
            return Opined(Triage(suspicious=False))

    plug, judge = Plug("test", gate=Gate()), Own()
    use_judge(plug, judge, "request", clear)
    gate: Any = plug._host.host.gate  # type: ignore[attr-defined]
    assert gate.triage is judge
    assert standing_of(judge).authority is Authority.DEVELOPER


def test_a_second_judge_is_refused() -> None:
    plug, model = Plug("test", gate=Gate()), Model()
    use_judge(plug, "host", "request", clear)
    use_judge(plug, "host", "request", clear)
    with pytest.raises(InvalidConfig, match="another judge"):
        use_judge(plug, model, "request", clear)
    given = (
        Plug("test", gate=Gate(triage=HostModelJudge(model, clear))),
        Plug("test", gate=Gate(Policy(triage_model="none"))),
        Plug("test", url="http://127.0.0.1:7717"),
    )
    for each in given:
        with pytest.raises(InvalidConfig, match="another judge"):
            use_judge(each, "host", "request", clear)


@pytest.mark.parametrize("judge", ["gpt-9", 7, object()])
def test_what_is_no_judge_is_refused_at_once(judge: object) -> None:
    with pytest.raises(InvalidConfig, match="no judge in this framework"):
        use_judge(Plug("test", gate=Gate()), judge, "request", clear)


def test_an_asynchronous_model_judges_a_call_on_the_agents_loop() -> None:
    plug = Plug("test", gate=Gate())
    use_judge(plug, "host", "request", clear_later)

    async def main() -> bool:
        plug.note_model("s", Model)
        await plug.model_reads_async("s", [Line("1", POISON, "web:https://shop.example")])
        return (await plug.check_async("s", PlugCall(SEND.tool, SEND.arguments, SEND.id))).runs

    plug.user_said("s", GOAL)
    assert asyncio.run(main())
    # The loop is gone: the same model could not be asked any more.
    assert not plug.check("s", PlugCall(SEND.tool, {**SEND.arguments, "body": "more"}, "again")).runs
