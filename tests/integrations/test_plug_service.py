"""A plug that asks a running service: its page shows the calls, and no other program can answer for it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from running_service import WAIT_S, RunningService

from lockgate.core.errors import InvalidConfig, LockgateError
from lockgate.core.vocabulary import Trust
from lockgate.integrations.plug import Line, Plug, PlugCall
from lockgate.integrations.plug_service import ServiceHost, _plain_id
from lockgate.testing.plug_suite import EVE, GOAL, POISON

ANA = PlugCall("send_email", {"to": "ana@example.com", "body": "the minutes"}, "c1")
SENDS = PlugCall("send_email", {"to": EVE, "body": "the contract"}, "c2")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    service = RunningService(tmp_path_factory.mktemp("home"))
    yield service
    service.end()


def test_the_page_shows_the_calls_and_answers_them(service: RunningService) -> None:
    plug = service.plug()
    plug.user_said("chat 7/é", GOAL)
    plug.model_reads("chat 7/é", plug.system_prompts("chat 7/é", ["You help people."]))
    plug.model_reads("chat 7/é", [Line("1", POISON, "tool:read_page")])
    held = plug.check("chat 7/é", SENDS)
    assert held.question is not None
    assert held.question.approval in held.question.text
    # An answer in the agent's process counts for nothing: only the page's does.
    assert not plug.answer(held.question, held.question.yes("ana"))
    assert not plug.check("chat 7/é", SENDS).runs
    waiting = service.ask("GET", f"/v1/approvals/{held.question.approval}")
    answer = {"answer": "approve", "digest": waiting["digest"]}
    service.ask("POST", f"/v1/approvals/{held.question.approval}", answer)
    assert plug.check("chat 7/é", SENDS).runs
    plug.ended("chat 7/é", SENDS.id)
    assert not plug.check("chat 7/é", SENDS).runs
    shown = service.ask("GET", f"/v1/sessions/{_plain_id('chat 7/é')}")
    assert shown["host"] == "framework-suite"
    blocks = service.ask("GET", f"/v1/sessions/{_plain_id('chat 7/é')}/blocks")["blocks"]
    assert {(each["source"], each["trust"]) for each in blocks} >= {
        ("system", Trust.VETTED.word),
        ("tool:read_page", Trust.UNTRUSTED.word),
    }


def test_a_run_that_began_elsewhere_and_one_with_a_lost_text_are_suspect(service: RunningService) -> None:
    plug = service.plug()
    plug.user_said("fine", "Email ana@example.com the minutes")
    assert plug.check("fine", ANA).runs
    plug.cannot_cover("a shell", "fine")
    assert not plug.check("fine", ANA._replace(id="c3")).runs
    plug.user_said("elsewhere", "Email ana@example.com the minutes", known=False)
    assert not plug.check("elsewhere", ANA).runs
    assert not plug.check("never-seen", ANA).runs
    plug.user_said("outer", GOAL)
    plug.model_reads("outer", [Line("1", POISON, "tool:read_page")])
    plug.user_said("outer/inner", f"Email the contract to {EVE}", parent="outer")
    assert not plug.check("outer/inner", SENDS).runs


def test_without_the_service_nothing_runs_and_the_log_says_why_once(caplog: pytest.LogCaptureFixture) -> None:
    def port_of(server: HTTPServer) -> int:
        return int(server.server_address[1])

    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as closed:
        port = port_of(closed)
    environment = {"LOCKGATE_AGENT_TOKEN": "a-token-of-the-agent"}
    plug = Plug("x", host=ServiceHost(f"http://127.0.0.1:{port}", deadline_s=5, environment=environment))
    plug.user_said("s", "Email ana@example.com the minutes")
    verdict = plug.check("s", ANA)
    assert not verdict.runs
    assert "does not answer" in verdict.text
    plug.check("s", ANA)
    told = [line for line in caplog.messages if line.startswith("no call runs while this lasts: ")]
    assert len(told) == 1
    assert "lockgate serve starts it" in told[0]


class Stranger(BaseHTTPRequestHandler):
    """A program that took the service's port, and says yes to everything."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        said = {"action": "CONTINUE", "tier": 1, "reason": "no-untrusted-content", "risk": "low"}
        body = json.dumps({**said, "findings": [], "origins": [], "correction": "", "approval": ""}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def test_a_stranger_on_its_port_lets_nothing_run() -> None:
    with HTTPServer(("127.0.0.1", 0), Stranger) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        environment = {"LOCKGATE_AGENT_TOKEN": "a-token-of-the-agent"}
        url = f"http://127.0.0.1:{server.server_address[1]}"
        plug = Plug("x", host=ServiceHost(url, deadline_s=5, environment=environment))
        plug.user_said("s", "Email ana@example.com the minutes")
        verdict = plug.check("s", ANA)
        server.shutdown()
        thread.join()
    assert not verdict.runs
    assert "does not prove that it is this service" in verdict.text


def test_a_service_that_is_late_lets_nothing_run() -> None:
    go_on = threading.Event()

    class Late(Stranger):
        def do_POST(self) -> None:
            go_on.wait(WAIT_S)

    with HTTPServer(("127.0.0.1", 0), Late) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        environment = {"LOCKGATE_AGENT_TOKEN": "a-token-of-the-agent"}
        url = f"http://127.0.0.1:{server.server_address[1]}"
        plug = Plug("x", host=ServiceHost(url, deadline_s=0.2, environment=environment), deadline_s=0.2)
        verdict = plug.check("s", ANA)
        go_on.set()
        server.shutdown()
        thread.join()
    assert not verdict.runs


def test_a_plug_has_one_host_and_a_whole_address() -> None:
    with pytest.raises(InvalidConfig):
        Plug("x", url="localhost")
    with pytest.raises(InvalidConfig):
        Plug("x", url="http://127.0.0.1:7717", keep=True)
    Plug("x", url="http://127.0.0.1:7717").close()
    with pytest.raises(LockgateError):
        ServiceHost("http://127.0.0.1:1", deadline_s=1, environment={"HOME": "/nowhere"}).outcome("s", "k", "ran")


SAID = {"action": "CONTINUE", "tier": 1, "reason": "no-untrusted-content", "risk": "low", "findings": [], "origins": []}
ODD = [
    b"",
    b"null",
    b"[]",
    b"true",
    b'"CONTINUE"',
    b'{"action": "CONTINUE"}',
    b"\xff\xfe",
    b"[" * 100_000,
    json.dumps({**SAID, "action": "continue", "correction": "", "approval": ""}).encode(),
    json.dumps({**SAID, "reason": "because", "correction": "", "approval": ""}).encode(),
    json.dumps({**SAID, "findings": {"a": 1}, "correction": "", "approval": ""}).encode(),
    json.dumps({**SAID, "tier": None, "correction": "", "approval": ""}).encode(),
]


@pytest.mark.parametrize("body", ODD, ids=lambda body: repr(body[:30]))
def test_an_odd_answer_lets_nothing_run(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lockgate.integrations.plug_service.ask_service", lambda *given: body)
    plug = Plug("x", host=ServiceHost("http://127.0.0.1:1", deadline_s=5, environment={}))
    plug.user_said("s", "Email ana@example.com the minutes")
    assert not plug.check("s", ANA).runs


class Hides:
    """Says nothing of its value in its text."""

    def __init__(self, value: str) -> None:
        self.value = value


@pytest.mark.parametrize(
    "arguments",
    [{"to": Hides(EVE)}, {"to": {"who": [Hides(EVE)]}}, {"to": EVE.encode()}, {"to": {EVE}}, {"to": {1: EVE}}],
    ids=["object", "inside", "bytes", "set", "name"],
)
def test_a_value_that_json_cannot_hold_is_not_ruled_on_as_its_text(
    arguments: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = json.dumps({**SAID, "correction": "", "approval": ""}).encode()
    monkeypatch.setattr("lockgate.integrations.plug_service.ask_service", lambda *given: said)
    plug = Plug("x", host=ServiceHost("http://127.0.0.1:1", deadline_s=5, environment={}))
    plug.user_said("s", "Email ana@example.com the minutes")
    assert plug.check("s", ANA).runs
    assert not plug.check("s", PlugCall("send_email", arguments, "c3")).runs
