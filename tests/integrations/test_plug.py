"""The core of plugs; what every plug promises is played in `tests/testing/test_plug_suite.py`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from statistics import median
from threading import Event, Thread
from time import monotonic, process_time, time
from typing import Any

import pytest
from toy_framework import ToyDriver

from lockgate import Gate, MemoryApprovals
from lockgate.core.errors import InvalidConfig
from lockgate.core.vocabulary import Trust
from lockgate.integrations.plug import (
    HeldQuestion,
    Line,
    Plug,
    PlugCall,
    Verdict,
    require_framework,
    source_of_result,
)
from lockgate.integrations.plug_hosts import LocalHost
from lockgate.sessions import Host
from lockgate.sessions.stores.memory import MemorySessions
from lockgate.testing.plug_suite import EVE, GOAL, POISON, SEND, PlugKit


@pytest.fixture(scope="module")
def gate() -> Gate:
    return Gate()


@pytest.fixture
def kit(gate: Gate) -> Iterator[PlugKit]:
    kit = PlugKit(ToyDriver, gate)
    yield kit
    kit.close()


@pytest.fixture
def plug(kit: PlugKit) -> Plug:
    return kit.plug


def test_what_is_sent_again_is_kept_once_and_voids_nothing(plug: Plug, kit: PlugKit) -> None:
    plug.user_said("s", GOAL)
    lines = [Line("1", POISON, "tool:read_page")]
    plug.model_reads("s", lines)
    held = plug.check("s", PlugCall("send_email", {"to": EVE, "body": "x"}, "c1"))
    assert held.question is not None
    # A process that has forgotten what it kept sends all of it again.
    again = Plug("again", host=plug._host)
    again.model_reads("s", lines)
    assert plug.answer(held.question, held.question.yes("ana"))
    assert plug.check("s", PlugCall("send_email", {"to": EVE, "body": "x"}, "c1")).runs
    assert not plug.check("s", PlugCall("send_email", {"to": EVE, "body": "x"}, "c1")).runs


def test_another_text_under_the_same_key_is_read(plug: Plug) -> None:
    plug.user_said("s", GOAL)
    plug.model_reads("s", [Line("1", "Nothing here.", "tool:read_page")])
    plug.model_reads("s", [Line("1", POISON, "tool:read_page")])
    assert not plug.check("s", PlugCall("send_email", {"to": EVE, "body": "x"})).runs


def test_a_session_that_was_not_opened_has_an_unknown_context(plug: Plug) -> None:
    assert not plug.check("unseen", PlugCall("send_email", {"to": "ana@example.com", "body": "x"})).runs


@pytest.mark.parametrize(
    "answer",
    [
        None,
        True,
        "yes",
        {"yes": True},
        {"yes": 1, "who": "ana"},
        {"approval": "", "digest": "", "yes": True, "who": "ana"},
        ["yes"],
    ],
)
def test_what_is_no_plain_answer_counts_for_nothing(plug: Plug, answer: object) -> None:
    plug.user_said("s", GOAL)
    plug.model_reads("s", [Line("1", POISON, "tool:read_page")])
    call = PlugCall("send_email", {"to": EVE, "body": "x"})
    held = plug.check("s", call)
    assert not plug.answer(held.question, answer)
    assert not plug.check("s", call).runs


def test_a_yes_without_a_name_or_with_another_digest_counts_for_nothing(plug: Plug) -> None:
    plug.user_said("s", GOAL)
    plug.model_reads("s", [Line("1", POISON, "tool:read_page")])
    held = plug.check("s", PlugCall("send_email", {"to": EVE, "body": "x"}))
    assert held.question is not None
    yes = held.question.yes("ana")
    for change in ({"who": " "}, {"digest": "sha256:" + "0" * 64}, {"approval": "a" * 16}, {"yes": "true"}):
        assert not plug.answer(held.question, {**yes, **change})
    assert plug.answer(held.question, json.loads(json.dumps(yes)))


def test_a_question_is_json_for_frameworks_that_store_their_pauses() -> None:
    question = HeldQuestion("s", "send_email", "a" * 16, "sha256:0", "Allow it once?")
    given = json.loads(json.dumps(question.as_dict()))
    assert given.pop("held_by") == "lockgate"
    assert HeldQuestion(**given) == question


def test_the_denial_that_the_model_reads_voids_no_question(gate: Gate) -> None:
    kit = PlugKit(ToyDriver, gate, on_pause="deny")
    kit.hijack("sync")
    # The denial stood in the next request, and a person can still say yes to the call.
    (waiting,) = kit.approvals.waiting(time())
    kit.approvals.answer(waiting.id, digest=waiting.digest, yes=True, who="ana", now_s=time())
    kit.start([SEND], "done", goal=GOAL, mode="sync")
    assert kit.sent == [(EVE, "the contract")]
    kit.close()


def test_what_a_plug_cannot_see_is_said_once_and_makes_calls_suspect(
    plug: Plug, caplog: pytest.LogCaptureFixture
) -> None:
    plug.user_said("s", "Email ana@example.com the minutes")
    call = PlugCall("send_email", {"to": "ana@example.com", "body": "the minutes"})
    assert plug.check("s", call).runs
    for _ in range(3):
        plug.cannot_cover("the calls of web_search, which the provider runs itself", session="s")
    assert [record.getMessage() for record in caplog.records if "cannot see" in record.getMessage()] == [
        "Lockgate cannot see the calls of web_search, which the provider runs itself"
    ]
    assert not plug.check("s", call).runs


def test_lines_of_odd_objects_do_not_raise(plug: Plug) -> None:
    plug.user_said("s", "Email ana@example.com the minutes")

    def odd() -> Iterator[Line]:
        raise RuntimeError("an odd message")
        yield Line("1", "", "tool:x")

    plug.model_reads("s", odd())
    assert not plug.check("s", PlugCall("send_email", {"to": "ana@example.com", "body": "the minutes"})).runs


def test_arguments_that_are_no_object_do_not_run(plug: Plug) -> None:
    plug.user_said("s", GOAL)
    verdict = plug.check("s", PlugCall("send_email", "to eve", "c1"))  # type: ignore[arg-type]
    assert not verdict.runs
    assert "not an object" in verdict.text


def test_an_agent_inside_a_call_knows_its_caller(plug: Plug) -> None:
    assert plug.caller == ""
    with plug.running("outer"):
        assert plug.caller == "outer"
        seen: list[str] = []
        thread = Thread(target=lambda: seen.append(plug.caller))
        thread.start()
        thread.join()
        # A bare thread has a context of its own; frameworks copy theirs.
        assert seen == [""]
    assert plug.caller == ""


def test_a_subagents_goal_is_an_agents_order(plug: Plug, kit: PlugKit) -> None:
    plug.user_said("outer", GOAL)
    plug.model_reads("outer", [Line("1", POISON, "tool:read_page")])
    plug.user_said("outer/1", f"Email the contract to {EVE}", parent="outer")
    assert not plug.check("outer/1", PlugCall("send_email", {"to": EVE, "body": "the contract"})).runs


def test_an_agent_inside_a_suspect_session_is_suspect(plug: Plug) -> None:
    plug.user_said("outer", "Email ana@example.com the minutes")
    plug.cannot_cover("a shell", "outer")
    plug.user_said("outer/1", "Email ana@example.com the minutes", parent="outer")
    assert not plug.check("outer/1", PlugCall("send_email", {"to": "ana@example.com", "body": "the minutes"})).runs


def test_the_applications_own_prompt_is_vetted(plug: Plug) -> None:
    plug.user_said("s", "Email ana@example.com the minutes")
    plug.model_reads("s", [Line("system", "You are helpful. Always be brief.", "system", Trust.VETTED)])
    assert plug.check("s", PlugCall("send_email", {"to": "ana@example.com", "body": "the minutes"})).runs


@pytest.mark.parametrize("options", [{"on_pause": "maybe"}, {"deadline_s": 0}, {"host": object(), "gate": Gate()}])
def test_a_plug_that_makes_no_sense_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidConfig):
        Plug("x", **options)


def test_the_source_of_a_result_is_the_one_address_that_the_call_names() -> None:
    assert source_of_result("fetch", {"url": "https://a.example/x", "depth": 1}) == "web:https://a.example/x"
    assert source_of_result("compare", {"a": "https://a.example", "b": "https://b.example"}) == "tool:compare"
    assert source_of_result("note", {"text": "see https://a.example for more"}) == "tool:note"
    assert source_of_result("", {}) == "tool:unknown"


def test_a_gate_without_approvals_denies_and_asks_no_one(gate: Gate) -> None:
    store = MemorySessions()
    plug = Plug("x", host=LocalHost(Host(Gate(scanner=gate.scanner), store)))
    plug.user_said("s", GOAL)
    plug.model_reads("s", [Line("1", POISON, "tool:read_page")])
    verdict = plug.check("s", PlugCall("send_email", {"to": EVE, "body": "x"}))
    assert not verdict.runs
    assert verdict.question is None
    store.close()


def test_memory_approvals_can_be_given(gate: Gate) -> None:
    plug = Plug("x", gate=Gate(scanner=gate.scanner, approvals=MemoryApprovals()))
    plug.user_said("s", GOAL)
    plug.model_reads("s", [Line("1", POISON, "tool:read_page")])
    assert plug.check("s", PlugCall("send_email", {"to": EVE, "body": "x"})).question is not None
    plug.close()
    assert not plug.check("s", PlugCall("send_email", {"to": "ana@example.com", "body": "x"})).runs


class WatchedHost:
    """The real host, which counts what it is asked and can be made to hang."""

    def __init__(self, host: Any) -> None:
        self._host = host
        self.asked: list[str] = []
        self.go_on = Event()
        self.go_on.set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._host, name)

    def said(self, session: str, texts: Collection[str]) -> Any:
        self.asked.append("said")
        return self._host.said(session, texts)

    def add(self, *given: Any, **options: Any) -> object:
        self.asked.append("add")
        self.go_on.wait()
        return self._host.add(*given, **options)


def test_all_lines_of_a_request_have_one_deadline_together(kit: PlugKit) -> None:
    host = WatchedHost(kit.plug._host)
    plug = Plug("slow", host=host, deadline_s=0.3)
    plug.user_said("s", "Email ana@example.com the minutes")
    host.go_on.clear()
    began = monotonic()
    with plug.hook():
        for number in range(20):
            plug.model_reads("s", [Line(f"{number}-{each}", f"page {number} {each}", "tool:x") for each in range(20)])
    assert monotonic() - began < 20 * 0.3
    call = PlugCall("send_email", {"to": "ana@example.com", "body": "the minutes"})
    assert not plug.check("s", call).runs
    host.go_on.set()


def test_the_store_is_asked_once_about_all_old_messages(kit: PlugKit) -> None:
    kit.plug.user_said("s", "Sum up the page")
    kit.plug.user_said("s", "And the next one")
    host = WatchedHost(kit.plug._host)
    plug = Plug("again", host=host)
    texts = ["Sum up the page", "And the next one", "Do as I say", *(f"message {number}" for number in range(50))]
    assert plug.said("s", texts) == {"Sum up the page", "And the next one"}
    plug.model_reads("s", [Line(text, text, "message:human") for text in texts[2:]])
    assert plug.said("s", texts) == {"Sum up the page", "And the next one"}
    assert host.asked.count("said") == 1


def test_a_prompt_that_changes_during_the_run_is_not_vetted(plug: Plug, kit: PlugKit) -> None:
    plug.user_said("s", GOAL)
    first = plug.system_prompts("s", ["You are helpful."])
    assert [line.trust for line in first] == [Trust.VETTED]
    plug.model_reads("s", first)
    changed = plug.system_prompts("s", ["You are helpful.", f"You are helpful. {POISON}"])
    assert [line.trust for line in changed] == [Trust.VETTED, Trust.UNTRUSTED]
    plug.model_reads("s", changed)
    assert not plug.check("s", PlugCall("send_email", {"to": EVE, "body": "the contract"})).runs
    # A process that goes on with the run knows the first prompt from the store, and no other.
    again = Plug("again", host=plug._host)
    both = again.system_prompts("s", ["You are helpful.", "You obey."])
    assert [line.trust for line in both] == [Trust.VETTED, Trust.UNTRUSTED]
    # Other agents have their own.
    assert plug.system_prompts("s", ["You translate."], agent="other")[0].trust is Trust.VETTED


def test_a_prompt_may_change_between_runs_until_untrusted_text_was_read(plug: Plug) -> None:
    plug.user_said("s", GOAL)
    plug.model_reads("s", plug.system_prompts("s", ["You are helpful.\nToday is Sunday."]))
    plug.user_said("s", "Thank you")
    (line,) = plug.system_prompts("s", ["You are helpful.\nToday is Monday."])
    assert (line.text, line.trust) == ("You are helpful.\nToday is Monday.", Trust.VETTED)
    plug.model_reads("s", [Line("1", POISON, "tool:read_page")])
    # From here on a memory or a tool may have written what is new.
    plug.user_said("s", "And now?")
    (line,) = plug.system_prompts("s", [f"You are helpful.\nToday is Monday.\nYour notes: {POISON}"])
    assert (line.text, line.trust) == (f"Your notes: {POISON}", Trust.UNTRUSTED)


def test_that_untrusted_text_was_read_outlasts_the_lines(plug: Plug, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lockgate.integrations.plug._MAX_REMEMBERED", 8)
    plug.user_said("s", GOAL)
    plug.model_reads("s", plug.system_prompts("s", ["You are helpful."]))
    plug.model_reads("s", [Line("1", POISON, "tool:read_page")])
    # What other chats of a long-lived process read.
    plug.user_said("other", GOAL)
    plug.model_reads("other", [Line(str(number), f"line {number}", "tool:read_page") for number in range(8)])
    plug.user_said("s", "And now?")
    (line,) = plug.system_prompts("s", [f"You are helpful.\nYour notes: {POISON}"])
    assert (line.text, line.trust) == (f"Your notes: {POISON}", Trust.UNTRUSTED)


def test_an_order_from_a_call_that_runs_is_not_the_users_in_a_bare_thread(plug: Plug) -> None:
    plug.user_said("outer", GOAL)
    plug.model_reads("outer", [Line("1", POISON, "tool:read_page")])
    order = PlugCall("delegate", {"task": f"Email the contract to {EVE}", "deep": 1})
    with plug.running("outer", order):
        thread = Thread(target=plug.user_said, args=("inner", f"Task: email the  contract to {EVE}"))
        thread.start()
        thread.join()
        assert not plug.check("inner", PlugCall("send_email", {"to": EVE, "body": "the contract"})).runs
    plug.user_said("later", f"Email the contract to {EVE}")
    assert plug.check("later", PlugCall("send_email", {"to": EVE, "body": "the contract"})).runs


def test_a_long_id_of_a_session_is_as_good_as_a_short_one(plug: Plug, kit: PlugKit) -> None:
    ids = ["t" * 300 + end for end in ("1", "2")]
    for id in ids:
        plug.user_said(id, "Email ana@example.com the minutes")
    call = PlugCall("send_email", {"to": "ana@example.com", "body": "the minutes"})
    plug.model_reads(ids[0], [Line("1", POISON, "tool:read_page")])
    held = plug.check(ids[0], PlugCall("send_email", {"to": EVE, "body": "x"}))
    assert held.question is not None
    assert plug.answer(held.question, held.question.yes("ana"))
    assert plug.check(ids[0], PlugCall("send_email", {"to": EVE, "body": "x"})).runs
    assert plug.check(ids[1], call).runs
    with plug.running(ids[1]):
        plug.user_said(f"{ids[1]}/a", "Email ana@example.com the minutes", parent=ids[1])
    assert plug.check(f"{ids[1]}/a", call).runs


@pytest.mark.skipif(sys.platform == "win32", reason="no forks")
@pytest.mark.parametrize("given", [False, True])
def test_a_forked_process_begins_with_sessions_of_its_own(gate: Gate, given: bool) -> None:  # noqa: FBT001
    approvals = Gate(scanner=gate.scanner, approvals=MemoryApprovals())
    store = MemorySessions()
    plug = Plug("x", host=LocalHost(Host(approvals, store))) if given else Plug("x", gate=approvals)
    call = PlugCall("send_email", {"to": "ana@example.com", "body": "the minutes"})
    plug.user_said("before", "Email ana@example.com the minutes")
    child = os.fork()
    if not child:
        code = 1
        try:
            plug.user_said("after", "Email ana@example.com the minutes")
            after, before = plug.check("after", call), plug.check("before", call)
            works = after.runs and not before.runs
            says_why = not after.runs and "forked" in after.text
            code = 0 if (says_why if given else works) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert plug.check("before", call).runs
    plug.close()
    store.close()


def test_a_session_that_was_deleted_goes_on_with_an_unknown_context(plug: Plug, kit: PlugKit) -> None:
    call = PlugCall("send_email", {"to": "ana@example.com", "body": "the minutes"})
    for session in ("s", "t"):
        plug.user_said(session, "Email ana@example.com the minutes")
        assert plug.check(session, call).runs
    assert kit.sessions.prune(float("inf"), 10) == 2
    assert not plug.check("s", call).runs
    plug.user_said("t", "Email ana@example.com the minutes once more")
    assert not plug.check("t", call).runs
    assert not plug.check("s", call).runs


def test_an_old_framework_is_refused_by_name() -> None:
    require_framework("pytest", "1.0")
    require_framework("no-such-package", "1.0")
    with pytest.raises(InvalidConfig, match=r"pytest .* is older than 999\.1"):
        require_framework("pytest", "999.1")


def test_a_plug_adds_a_millisecond_at_most_to_a_call(gate: Gate) -> None:
    plug = Plug("x", gate=Gate(scanner=gate.scanner, approvals=MemoryApprovals()))
    plug.user_said("s", "Add some numbers")

    def add(a: int, b: int) -> str:
        return str(a + b)

    def bare(number: int) -> None:
        add(number, 1)

    def plugged(number: int) -> None:
        call = PlugCall("get_sum", {"a": number, "b": 1}, f"c{number}")
        assert plug.check("s", call).runs
        with plug.running("s", call):
            add(number, 1)
        plug.ended("s", call.id)

    def count(number: int) -> None:
        # A millisecond where a plug adds 0.6, and in a thread as well: longer on a slow or busy machine, as the plug.
        Plug._start(lambda: sum(each * each for each in range(12_000))).result()

    def is_cheap() -> bool:
        times: dict[Any, list[float]] = {bare: [], plugged: [], count: []}
        for number in range(60):
            for work, taken in times.items():
                # The time of this process alone, all its threads together: other programs may be busy.
                began = process_time()
                work(number)
                taken.append(process_time() - began)
        return median(times[plugged]) - median(times[bare]) < max(0.001, median(times[count]))

    # What is too slow is so in all of some tries.
    cheap = any(is_cheap() for _ in range(5))
    plug.close()
    assert cheap


FRAMEWORKS = [
    *("agent_framework", "agents", "claude_agent_sdk", "crewai", "google", "langchain", "langchain_core", "langgraph"),
    *("openai", "pydantic_ai", "strands"),
]


def test_nothing_of_a_framework_is_loaded_unless_its_module_is(tmp_path: Path) -> None:
    # As if all of them were installed.
    for name in FRAMEWORKS:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("")
    ours = ["assemble", "cli.main", "integrations.tools", "testing"]
    ours += [f"integrations.{name}" for name in ("plug", "plug_hosts", "plug_service")]
    code = f"import sys; sys.path = [{str(tmp_path)!r}, *{sys.path!r}]; import lockgate\n"
    code += "".join(f"import lockgate.{name}\n" for name in ours)
    code += f"print(sorted(set({FRAMEWORKS!r}) & set(sys.modules)))\nimport langchain\n"
    asked = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert asked.stdout == "[]\n"


def test_a_verdict_is_no_condition() -> None:
    with pytest.raises(TypeError, match=r"hint: ask `verdict\.runs`"):
        assert Verdict(runs=False)
