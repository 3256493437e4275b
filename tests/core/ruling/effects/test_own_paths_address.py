"""No spelling of this machine leads a tool to Lockgate's own service, and other servers of it stay within reach."""

from __future__ import annotations

import pytest

from lockgate.core.ruling.effects.effects_of_call import effects_of, own_effects_of
from lockgate.core.ruling.effects.own_paths import OWN_KINDS, find_own_service, is_this_machine
from lockgate.core.ruling.effects.project import NO_PROJECT, Project
from lockgate.core.ruling.policy import Policy
from lockgate.core.vocabulary import Action, ToolCall
from lockgate.gate.gate import Gate

PORT = 7717


def own(tool: str, arguments: dict[str, object], project: Project = NO_PROJECT) -> set[str]:
    call = ToolCall(tool, arguments)
    found = {each.kind for each in own_effects_of(call, project)}
    # The glance before it must not hide anything.
    assert bool(found) is bool({each.kind for each in effects_of(call, project)} & OWN_KINDS)
    return found


SPELLINGS = (
    "localhost",
    "LOCALHOST",
    "localhost.",
    "lockgate.localhost",
    "a.b.localhost",
    "localhost.localdomain",
    "127.0.0.1",
    "127.0.0.2",
    "127.1",
    "127.0.1",
    "0.0.0.0",
    "0",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "0177.0.0.1",
    "017700000001",
    "[::1]",
    "[::]",
    "[0:0:0:0:0:0:0:1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "%6cocalhost",
    "１２７.0.0.1",
    "127。0。0。1",
    "ⓛocalhost",
    "loc\talhost",
    "host.docker.internal",
)


@pytest.mark.parametrize("host", SPELLINGS)
@pytest.mark.parametrize("address", ["http://{}:7717/", "https://ana@{}:7717/#/approvals", "{}:07717", "//{}:7717?x"])
def test_every_spelling_of_this_machine_is_known(host: str, address: str) -> None:
    assert find_own_service(address.format(host), PORT)
    assert own("WebFetch", {"url": address.format(host), "prompt": "what waits there?"}) == {"asks-own-service"}


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("browser_navigate", {"url": "http://localhost:7717/"}),
        ("mcp__playwright__browser_navigate", {"url": "http://127.0.0.1:7717/#/approvals"}),
        ("mcp__playwright__browser_tabs", {"action": "new", "url": "http://127.0.0.1:7717/"}),
        ("mcp__playwright__browser_evaluate", {"function": "() => fetch('/v1/approvals/x', {method: 'POST'})"}),
        ("mcp__playwright__browser_run_code", {"code": "await page.request.post('/v1/exchange', {data})"}),
        ("puppeteer_evaluate", {"script": "location = 'http://' + 'x'; fetch('http://[::1]:7717/v1/grants')"}),
        ("execute_python", {"code": "import socket; socket.create_connection(('127.0.0.1', 7717))"}),
        ("http_request", {"method": "POST", "url": "http://127.0.0.1:7717/v1/sessions", "body": "{}"}),
        ("http_request", {"base_url": "http://localhost:7717", "path": "/v1/approvals"}),
        ("fetch", {"host": "127.0.0.1", "port": 7717, "path": "/"}),
        ("connect", {"port": "7717", "host": "localhost"}),
        ("open_url", {"link": "localhost:7717"}),
        ("frobnicate", {"target": "http://2130706433:7717"}),
        ("Bash", {"command": "curl -s http://127.0.0.1:7717/"}),
    ],
)
def test_tools_that_reach_the_service_are_known(tool: str, arguments: dict[str, object]) -> None:
    assert "asks-own-service" in own(tool, arguments)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("WebFetch", {"url": "http://localhost:3000/", "prompt": "x"}),
        ("WebFetch", {"url": "http://localhost:17717/", "prompt": "x"}),
        ("WebFetch", {"url": "http://localhost:77170/", "prompt": "x"}),
        ("WebFetch", {"url": "https://shop.example:7717/", "prompt": "x"}),
        ("WebFetch", {"url": "https://shop.example/docs", "prompt": "what listens on localhost:7717?"}),
        ("WebFetch", {"url": "http://127.0.0.1:7717/healthz", "prompt": "is it up?"}),
        ("WebFetch", {"url": "https://hr.example/v1/approvals/12", "prompt": "x"}),
        ("browser_navigate", {"url": "https://hr.example/v1/approvals"}),
        ("browser_navigate", {"url": "http://localhost:8000/v1/approvals"}),
        ("mcp__playwright__browser_evaluate", {"function": "() => fetch('/v1/approvalsx')"}),
        ("Grep", {"pattern": "localhost:7717", "path": "docs"}),
        ("search_code", {"query": "127.0.0.1:7717"}),
        ("Read", {"file_path": "notes/localhost:7717.md"}),
        ("Write", {"file_path": "README.md", "content": "Open http://127.0.0.1:7717/ in a browser."}),
        ("create_issue", {"title": "Page at localhost:7717 is slow", "body": "http://127.0.0.1:7717/ takes 3 s"}),
        ("Task", {"description": "look", "prompt": "Read how the page at http://localhost:7717 is built."}),
    ],
)
def test_other_addresses_and_mere_words_are_let_be(tool: str, arguments: dict[str, object]) -> None:
    assert own(tool, arguments) == set()


def test_the_port_is_the_services_own() -> None:
    moved = Project(service_port=9000)
    assert own("WebFetch", {"url": "http://localhost:9000/"}, moved) == {"asks-own-service"}
    assert own("WebFetch", {"url": "http://localhost:7717/"}, moved) == set()


def test_this_machine_is_told_from_others() -> None:
    assert all(map(is_this_machine, ("::1", "127.255.0.1")))
    assert not any(map(is_this_machine, ("localhost.shop.example", "128.0.0.1", "10.0.0.1", "", "notlocalhost")))
    assert find_own_service("a.example:7717 " * 100 + "--connect-to ::localhost", PORT)
    assert not find_own_service("a.example:7717 " * 100, PORT)


@pytest.mark.parametrize("policy", [Policy(), Policy(enforce=False)])
def test_such_a_call_is_held_before_anything_was_read_and_in_observe_mode(policy: Policy) -> None:
    gate = Gate(policy=policy)
    for tool, arguments in (
        ("WebFetch", {"url": "http://localhost.:7717/#/approvals", "prompt": "x"}),
        ("mcp__playwright__browser_navigate", {"url": "http://127.0.0.1:7717/"}),
        ("mcp__playwright__browser_evaluate", {"function": "() => fetch('/v1/exchange')"}),
        ("Bash", {"command": "tmux send-keys -t 0 lockgate Space approvals Space approve Space 3f9a Enter"}),
    ):
        ruling = gate.session(goal="Fix the failing test").check(tool, arguments)
        assert ruling.action is Action.PAUSE, tool
        assert any(found.rule.startswith("execution:own-") for found in ruling.findings)
