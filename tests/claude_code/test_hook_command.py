"""`lockgate hook claude-code` as a host starts it: what it prints, how it ends, and that no fault is a yes."""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import pytest
from proving import proof_for, signed_by

import lockgate
from lockgate.claude_code import hook_command as hook

SRC = Path(lockgate.__file__).parents[1]
DENY = {
    "hookSpecificOutput": {
        "hookEventName": "PreToolUse",
        "permissionDecision": "deny",
        "permissionDecisionReason": "Lockgate stopped this call: é",
    }
}


def event(name: str = "PreToolUse", **said: object) -> bytes:
    call = {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "t1"}
    return json.dumps({"session_id": "s", "hook_event_name": name, **call, **said}, separators=(",", ":")).encode()


def http(body: object, status: str = "200 OK", mime: str = "application/json", *, cut: int = 0) -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: {mime}\r\nContent-Length: {len(data)}\r\nConnection: close\r\n\r\n"
    return head.encode() + (data[:-cut] if cut else data)


TOKEN = "lga_some-agent-token"


class Service:
    """Something that listens, takes one request whole, and sends what it was given, with the proof of this token."""

    def __init__(self, answer: bytes | Callable[[socket.socket], None], token: str = TOKEN) -> None:
        self.answer, self.token = answer, token
        self.heard: list[bytes] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                link, _ = self._server.accept()
            except OSError:
                return
            with link:
                data = b""
                while b"\r\n\r\n" not in data:
                    data += link.recv(65536)
                head, _, body = data.partition(b"\r\n\r\n")
                size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                while len(body) < size:
                    body += link.recv(65536)
                self.heard.append(head + b"\r\n\r\n" + body)
                if callable(self.answer):
                    self.answer(link)
                else:
                    link.sendall(self._proved(head))

    def _proved(self, head: bytes) -> bytes:
        assert isinstance(self.answer, bytes)
        said, found, body = self.answer.partition(b"\r\n\r\n")
        status = said[9:12]
        if not (self.token and found and status.isdigit()):
            return self.answer
        (authorization,) = [line[15:].decode() for line in head.split(b"\r\n") if line.startswith(b"Authorization: ")]
        proof = proof_for(authorization, self.token, int(status), body)
        return said + f"\r\nLockgate-Proof: {proof}".encode() + found + body

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join(10)


@pytest.fixture
def service() -> Iterator[Callable[..., Service]]:
    made: list[Service] = []

    def make(answer: bytes | Callable[[socket.socket], None], token: str = TOKEN) -> Service:
        made.append(Service(answer, token))
        return made[-1]

    yield make
    for each in made:
        each.close()


def run(
    url: str,
    body: bytes,
    *,
    token: str = TOKEN,
    words: tuple[str, ...] = ("claude-code",),
    **more: str,
) -> subprocess.CompletedProcess[bytes]:
    told = {"PATH": os.environ.get("PATH", ""), "LOCKGATE_URL": url, "LOCKGATE_AGENT_TOKEN": token, **more}
    return subprocess.run(
        [sys.executable, "-I", str(SRC / "lockgate" / "claude_code" / "hook_command.py"), *words],
        input=body, capture_output=True, timeout=60, env={name: value for name, value in told.items() if value},
    )  # fmt: skip


def test_nothing_against_it_is_no_output_at_all(service: Callable[..., Service]) -> None:
    there = service(http({}))
    own = {"CLAUDE_CODE_ENTRYPOINT": "cli", "CLAUDE_CODE_SESSION_ATTENDED": "1", "LOCKGATE_JUDGE": "0f" * 16}
    ended = run(there.url, event(), **own)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")
    (heard,) = there.heard
    head, _, body = heard.partition(b"\r\n\r\n")
    assert body == event()
    assert head.startswith(b"POST /hooks/claude-code HTTP/1.1\r\n")
    assert TOKEN.encode() not in head
    assert signed_by(TOKEN, head, body)
    assert b"X-Lockgate-Entrypoint: cli" in head
    assert b"X-Lockgate-Attended: 1" in head
    assert b"X-Lockgate-Judge: " + b"0f" * 16 in head


@pytest.mark.parametrize("token", ["", "a b", "x\ny", "é"])
def test_what_is_no_token_of_a_judge_is_not_passed_on(service: Callable[..., Service], token: str) -> None:
    there = service(http({}))
    assert run(there.url, event(), LOCKGATE_JUDGE=token).returncode == 0
    assert b"Lockgate-Judge" not in there.heard[0]


@pytest.mark.parametrize("status", ["429 Too Many Requests", "503 Service Unavailable"])
@pytest.mark.parametrize("said", [{"error": {"code": "busy", "message": "too much is under way", "hint": ""}}, {}])
def test_a_service_that_is_overloaded_lets_nothing_run(
    service: Callable[..., Service], status: str, said: object
) -> None:
    ended = run(service(http(said, status)).url, event())
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert status[:3].encode() in ended.stderr


FOREIGN = b"another program listens on 127.0.0.1:"


@pytest.mark.parametrize("said", [{}, {"continue": True}, DENY], ids=["pass", "go on", "deny"])
@pytest.mark.parametrize("token", ["", "lga_another-token"], ids=["no proof", "the proof of another token"])
def test_a_program_that_took_the_port_is_not_believed_and_gets_no_token(
    service: Callable[..., Service], said: object, token: str
) -> None:
    there = service(http(said), token)
    ended = run(there.url, event())
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert FOREIGN in ended.stderr
    assert len(ended.stderr.splitlines()) == 2
    assert TOKEN.encode() not in there.heard[0]


def test_a_proof_counts_for_one_question_and_one_answer(service: Callable[..., Service]) -> None:
    deny = service(http(DENY))
    assert run(deny.url, event()).returncode == 2
    kept = deny.heard[0].partition(b"\r\n\r\n")[0]
    (old,) = [line[15:].decode() for line in kept.split(b"\r\n") if line.startswith(b"Authorization: ")]

    def replay(body: bytes, proved: bytes, status: int = 200) -> bytes:
        head, _, said = http(body).partition(b"\r\n\r\n")
        return head + f"\r\nLockgate-Proof: {proof_for(old, TOKEN, status, proved)}\r\n\r\n".encode() + said

    # What the service once said to another question, or says to this one with another body or status.
    assert FOREIGN in run(service(replay(b"{}", b"{}"), "").url, event()).stderr

    proved: list[tuple[int, bytes]] = [(200, json.dumps(DENY).encode()), (401, b"{}"), (200, b"{}")]

    def changed(link: socket.socket) -> None:
        head = there.heard[-1].partition(b"\r\n\r\n")[0]
        (fresh,) = [line[15:].decode() for line in head.split(b"\r\n") if line.startswith(b"Authorization: ")]
        answer, _, body = http({}).partition(b"\r\n\r\n")
        proof = proof_for(fresh, TOKEN, *proved.pop(0))
        link.sendall(answer + f"\r\nLockgate-Proof: {proof}\r\n\r\n".encode() + body)

    there = service(changed)
    ended = [run(there.url, event()) for _ in range(3)]
    assert [each.returncode for each in ended] == [2, 2, 0]
    assert all(FOREIGN in each.stderr for each in ended[:2])


@pytest.mark.parametrize("observe", [False, True])
def test_with_start_a_port_that_is_taken_counts_as_a_service_that_is_down(
    service: Callable[..., Service], tmp_path: Path, *, observe: bool
) -> None:
    tmp_path.chmod(0o700)
    state = tmp_path / ".local" / "state" / "lockgate"
    state.mkdir(parents=True)
    state.chmod(0o700)
    (state / "agent-token").write_text(TOKEN)
    if observe:
        (tmp_path / ".config" / "lockgate").mkdir(parents=True)
        (tmp_path / ".config" / "lockgate" / "config.toml").write_text('[server]\nwhen_down = "observe"\n')
    there = service(http({}), "")
    ended = run("", event(), words=("claude-code", "--url", there.url, "--start", f"HOME={tmp_path}"))
    assert FOREIGN in ended.stderr
    assert ended.returncode == (0 if observe else 2)
    assert (state / "unwatched.jsonl").exists() is observe
    # None was started: it could not listen there.
    assert not (state / "service.pid").exists()


@pytest.mark.parametrize("streams", [">&-", "2>&-", ">&- 2>&-", "<&-", "<&- >&- 2>&-"])
def test_a_stream_that_is_closed_is_not_a_yes(service: Callable[..., Service], streams: str) -> None:
    # Anything but 0 and 2 is to the host an error that stops nothing.
    told = {"PATH": os.environ.get("PATH", ""), "LOCKGATE_URL": service(http({})).url}
    told["LOCKGATE_AGENT_TOKEN"] = "lga_some-agent-token"
    script = f'exec "$0" -I "$1" claude-code {streams}'
    ended = subprocess.run(
        ["sh", "-c", script, sys.executable, str(SRC / "lockgate" / "claude_code" / "hook_command.py")],
        input=event(), capture_output=True, timeout=60, env=told,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout) == (2, b"")


def test_a_no_is_exit_code_2_and_the_reason_on_stderr(service: Callable[..., Service]) -> None:
    ended = run(service(http(DENY)).url, event())
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert ended.stderr.decode() == "Lockgate stopped this call: é\n"


@pytest.mark.parametrize(
    "said",
    [
        {**DENY, "continue": False, "stopReason": "stopped"},
        {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "ask"}},
        {"continue": False, "stopReason": "stopped"},
        {"decision": "block", "reason": "no"},
    ],
    ids=["deny and stop", "ask", "stop", "block"],
)
def test_anything_else_is_one_json_object(service: Callable[..., Service], said: object) -> None:
    ended = run(service(http(said)).url, event())
    assert ended.returncode == 0
    assert json.loads(ended.stdout) == said
    assert ended.stdout.startswith(b"{")


def test_how_a_run_ended_is_said_on_stderr_and_is_a_failure(service: Callable[..., Service]) -> None:
    # Claude Code prints the last words of a SessionEnd hook only if the hook has failed.
    ended = run(service(http({"systemMessage": "Lockgate stopped this run"})).url, event("SessionEnd"))
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, b"", b"Lockgate stopped this run\n")


def test_a_word_to_the_person_at_a_prompt_blocks_nothing(service: Callable[..., Service]) -> None:
    said = {"systemMessage": "Lockgate: `CLAUDE.md` gives this agent instructions"}
    ended = run(service(http(said)).url, event("UserPromptSubmit"))
    assert ended.returncode == 0
    assert json.loads(ended.stdout) == said


FAULTS: dict[str, bytes] = {
    "garbage": b"\x00\x01 what is this\r\n\r\n{}",
    "nothing": b"",
    "half a head": b"HTTP/1.1 200 OK\r\nContent-Le",
    "half a body": http(DENY, cut=3),
    "an empty object cut short": http(b"{}", cut=1),
    "no length": b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{}",
    "html": http(b"<html>{}</html>", mime="text/html"),
    "an empty object as html": http(b"{}", mime="text/html"),
    "not json": http(b"{not json"),
    "a list": http([]),
    "null": http(b"null"),
    "a number": http(b"0"),
    "deep": http(b"[" * 100_000 + b"]" * 100_000),
    "401": http({}, "401 Unauthorized"),
    "403 with an empty object": http({}, "403 Forbidden"),
    "500": http({}, "500 Internal Server Error"),
    "301": http({}, "301 Moved Permanently"),
    "204": http(b"", "204 No Content"),
    "allow": http({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}}),
    "an unknown word": http({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "maybe"}}),
    "too large": http(b" " * (hook.MAX_ANSWER_BYTES + 10)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_no_fault_of_the_service_lets_a_call_run(service: Callable[..., Service], fault: str) -> None:
    ended = run(service(FAULTS[fault]).url, event())
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert ended.stderr.startswith(b"lockgate: ")
    assert b"Traceback" not in ended.stderr


def test_a_service_that_is_down_lets_no_call_run() -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    ended = run(f"http://127.0.0.1:{port}", event())
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert b"lockgate serve" in ended.stderr


def test_a_service_that_drips_is_cut_off_by_the_deadline(service: Callable[..., Service]) -> None:
    stop = threading.Event()

    def drip(link: socket.socket) -> None:
        # A byte now and then outlives every limit on a single wait.
        while not stop.wait(0.05):
            try:
                link.sendall(b"H")
            except OSError:
                return

    there = service(drip)
    code = (
        f"import sys; sys.path.insert(0, {str(SRC)!r})\n"
        "from lockgate.claude_code import hook_command as hook\n"
        "hook.DEADLINE_S = 1.0\nsys.exit(hook.main(['claude-code']))"
    )
    try:
        ended = subprocess.run(
            [sys.executable, "-I", "-c", code], input=event(), capture_output=True, timeout=60,
            env={"LOCKGATE_URL": there.url, "LOCKGATE_AGENT_TOKEN": "lga_some-agent-token"},
        )  # fmt: skip
    finally:
        stop.set()
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert b"in time" in ended.stderr


def test_no_alarm_is_left_when_the_hook_has_answered() -> None:
    code = (
        f"import signal, sys; sys.path.insert(0, {str(SRC)!r})\n"
        "from lockgate.claude_code import hook_command as hook\n"
        "code = hook.main(['claude-code'])\n"
        "sys.exit(code if signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0) else 9)"
    )
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    ended = subprocess.run(
        [sys.executable, "-I", "-c", code], input=event(), capture_output=True, timeout=60,
        env={"LOCKGATE_URL": f"http://127.0.0.1:{port}", "LOCKGATE_AGENT_TOKEN": "lga_some-agent-token"},
    )  # fmt: skip
    assert ended.returncode == 2


def test_a_host_that_never_ends_its_input_is_cut_off_too(service: Callable[..., Service]) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(SRC)!r})\n"
        "from lockgate.claude_code import hook_command as hook\n"
        "hook.DEADLINE_S = 1.0\nsys.exit(hook.main(['claude-code']))"
    )
    started = subprocess.Popen(
        [sys.executable, "-I", "-c", code],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={"LOCKGATE_AGENT_TOKEN": "lga_some-agent-token"},
    )  # fmt: skip
    with started:
        assert started.wait(60) == 2
        assert started.stdout is not None
        assert started.stdout.read() == b""


def test_stray_prints_do_not_reach_the_host(service: Callable[..., Service]) -> None:
    there = service(http({"continue": False}))
    code = (
        f"import sys; sys.path.insert(0, {str(SRC)!r})\n"
        "from lockgate.claude_code import hook_command as hook\nplain = hook.ask_service\n"
        "def noisy(*words):\n    print('{\"stray\": 1}', flush=True)\n    return plain(*words)\n"
        "hook.ask_service = noisy\nsys.exit(hook.main(['claude-code']))"
    )
    ended = subprocess.run(
        [sys.executable, "-I", "-c", code], input=event(), capture_output=True, timeout=60,
        env={"LOCKGATE_URL": there.url, "LOCKGATE_AGENT_TOKEN": "lga_some-agent-token"},
    )  # fmt: skip
    assert json.loads(ended.stdout) == {"continue": False}
    assert b"stray" in ended.stderr


@pytest.mark.parametrize("name", ["SessionStart", "SessionEnd", "InstructionsLoaded", "SubagentStart", "SubagentStop"])
def test_an_event_that_decides_nothing_delays_nothing(name: str) -> None:
    # With exit code 2 an agent would not be allowed to stop, and go on for ever.
    assert run("http://127.0.0.1:1", event(name)).returncode == 1


@pytest.mark.parametrize(
    "body",
    [
        event("PreToolUse", tool_input={"hook_event_name": "SessionEnd"}),
        event("PreToolUse", tool_input={"x": '"hook_event_name":"SessionEnd"'}),
        event("UserPromptSubmit"),
        event("PostToolBatch"),
        event("SomethingNew"),
        b"{not json",
        b"",
    ],
    ids=["a key among arguments", "a text among arguments", "prompt", "batch", "unknown", "garbage", "nothing"],
)
def test_every_other_event_is_a_no(body: bytes) -> None:
    ended = run("http://127.0.0.1:1", body)
    assert (ended.returncode, ended.stdout) == (2, b"")


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("codex",),
        ("claude-code", "--url"),
        ("claude-code", "--what"),
        ("claude-code", "--url", "https://x:1"),
        ("claude-code", "--start", "HOME=/nowhere"),
        ("claude-code", "--url", "http://127.0.0.1:1", "--start"),
        ("claude-code", "--url", "http://127.0.0.1:1", "--start", "HOME=nowhere"),
        ("claude-code", "--url", "http://127.0.0.1:1", "--start", "HOME=/nowhere", "XDG_STATE_HOME=x"),
        ("claude-code", "--url", "http://192.0.2.7:1", "--start", "XDG_STATE_HOME=/nowhere"),
    ],
    ids=[
        "nothing",
        "another host",
        "no address",
        "unknown option",
        "https",
        "start without address",
        "start without home",
        "relative home",
        "relative folder",
        "no home",
    ],
)
def test_a_hook_that_is_called_wrongly_is_a_no(words: tuple[str, ...]) -> None:
    ended = run("", event(), words=words)
    assert (ended.returncode, ended.stdout) == (2, b"")


@pytest.mark.parametrize("url", ["http://evil.example:80", "http://127.0.0.1.evil.example:80", "http://a@127.0.0.1:80"])
def test_a_variable_cannot_send_events_to_another_machine(url: str) -> None:
    """A project's settings can set variables for its hooks."""
    ended = run(url, event())
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert b"address" in ended.stderr or b"not on this machine" in ended.stderr


def test_the_token_comes_from_its_file(service: Callable[..., Service], tmp_path: Path) -> None:
    there = service(http({}), "lga_from-a-file")
    state = tmp_path / "state"
    assert run(there.url, event(), token="", XDG_STATE_HOME=str(state)).returncode == 2
    (state / "lockgate").mkdir(parents=True)
    (state / "lockgate" / "agent-token").write_text("lga_from-a-file\n")
    assert run(there.url, event(), token="", XDG_STATE_HOME=str(state)).returncode == 0
    assert signed_by("lga_from-a-file", *there.heard[0].split(b"\r\n\r\n"))
    (state / "lockgate" / "agent-token").write_text("lga_two lines\r\nX-Evil: 1\n")
    assert run(there.url, event(), token="", XDG_STATE_HOME=str(state)).returncode == 2


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this platform")
def test_a_pipe_in_the_tokens_place_is_not_waited_for(service: Callable[..., Service], tmp_path: Path) -> None:
    there = service(http({}))
    (tmp_path / "lockgate").mkdir()
    os.mkfifo(tmp_path / "lockgate" / "agent-token", 0o600)
    ended = run(there.url, event(), token="", XDG_STATE_HOME=str(tmp_path))
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert b"token cannot be read" in ended.stderr


def test_with_start_neither_token_nor_folder_comes_from_the_environment(
    service: Callable[..., Service], tmp_path: Path
) -> None:
    there, theirs = service(http({}), "lga_this-is-mine"), tmp_path / "theirs"
    for folder, token in ((tmp_path / "mine", "lga_this-is-mine"), (theirs, "lga_this-is-theirs")):
        (folder / ".local" / "state" / "lockgate").mkdir(parents=True)
        (folder / ".local" / "state" / "lockgate" / "agent-token").write_text(token)
    words = ("claude-code", "--url", there.url, "--start", f"HOME={tmp_path / 'mine'}")
    hostile = {"HOME": str(theirs), "XDG_STATE_HOME": str(theirs / ".local" / "state")}
    ended = run("http://127.0.0.1:1", event(), words=words, CLAUDE_CODE_ENTRYPOINT="cli", **hostile)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert signed_by("lga_this-is-mine", *there.heard[0].split(b"\r\n\r\n"))
    assert b"X-Lockgate-Entrypoint: cli" in there.heard[0]


@pytest.mark.parametrize(("name", "code"), [("PreToolUse", 2), ("SessionStart", 1)])
def test_a_service_that_cannot_be_started_is_a_no_that_says_why(tmp_path: Path, name: str, code: int) -> None:
    (tmp_path / ".config" / "lockgate").mkdir(parents=True)
    (tmp_path / ".config" / "lockgate" / "config.toml").write_text("odd = 1\n")
    words = ("claude-code", "--url", "http://127.0.0.1:1", "--start", f"HOME={tmp_path}")
    ended = run("", event(name), words=words)
    assert (ended.returncode, ended.stdout) == (code, b"")
    assert b"the service cannot be started" in ended.stderr
    assert b"`odd` is an unknown key" in ended.stderr


def test_an_event_that_passes_unwatched_is_marked_for_all_to_see(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    (tmp_path / ".config" / "lockgate").mkdir(parents=True)
    (tmp_path / ".config" / "lockgate" / "config.toml").write_text('[server]\nwhen_down = "observe"\n')
    # No service starts with a folder in the place of its token.
    (tmp_path / ".local" / "state" / "lockgate" / "token").mkdir(parents=True)
    (tmp_path / ".local" / "state" / "lockgate").chmod(0o700)
    words = ("claude-code", "--url", "http://127.0.0.1:1", "--start", f"HOME={tmp_path}")
    ended = run("", event(), words=words)
    assert ended.returncode == 0
    said = json.loads(ended.stdout)
    assert list(said) == ["systemMessage"]
    assert said["systemMessage"].startswith("LOCKGATE IS DOWN, AND THIS WAS NOT LOOKED AT")
    assert b"LOCKGATE IS DOWN" in ended.stderr
    ended = run("", event("SessionEnd"), words=words)
    assert (ended.returncode, ended.stdout) == (0, b"")
    assert b"LOCKGATE IS DOWN" in ended.stderr
    # Sessions of other coding agents cannot be rebuilt afterwards: nothing of theirs passes.
    for host in hook.PLAIN_HOSTS:
        ended = run("", event(), words=(host, *words[1:]))
        assert (ended.returncode, ended.stdout) == (2, b"")
        assert b"the service cannot be started" in ended.stderr


def test_a_large_event_is_sent_whole(service: Callable[..., Service]) -> None:
    there = service(http({}))
    body = event(tool_input={"content": "x" * 5_000_000})
    assert run(there.url, body).returncode == 0
    assert there.heard[0].endswith(body)


def test_it_costs_at_most_two_and_a_half_interpreters(service: Callable[..., Service]) -> None:
    """CPU time of the command as it is installed, beside a bare interpreter in the same run."""
    there = service(http({}))
    script = "import sys; from lockgate.cli.start import main; sys.exit(main())"
    told = {
        **os.environ,
        "LOCKGATE_URL": there.url,
        "LOCKGATE_AGENT_TOKEN": "lga_some-agent-token",
        "PYTHONPATH": str(SRC),
    }
    forms = {"bare": ["-c", "pass"], "hook": ["-c", script, "hook", "claude-code"]}
    spent: dict[str, list[float]] = {name: [] for name in forms}
    for _ in range(9):
        for name, words in forms.items():
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            ended = subprocess.run([sys.executable, *words], input=event(), capture_output=True, timeout=60, env=told)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")
            spent[name].append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert median(spent["hook"]) <= 2.5 * median(spent["bare"])


def test_it_loads_next_to_nothing() -> None:
    code = (
        "import sys; sys.argv[1:] = ['hook', 'claude-code']\n"
        "from lockgate.cli.start import main\nmain()\n"
        "print(*sorted(sys.modules), file=sys.stderr)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], input=event(), capture_output=True, timeout=60, text=False,
        env={"PYTHONPATH": str(SRC), "LOCKGATE_URL": "http://127.0.0.1:1", "LOCKGATE_AGENT_TOKEN": "lga_" + "x" * 20},
    )  # fmt: skip
    loaded = set(ended.stderr.decode().splitlines()[-1].split())
    assert not loaded & {"json", "re", "argparse", "socket", "ssl", "asyncio", "typing", "enum", "http", "urllib.parse"}
    assert not loaded & {"hashlib", "hmac", "_hashlib"}


@pytest.mark.parametrize(
    ("variables", "let"),
    [
        ({}, True),
        ({"HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "localhost"}, False),
        ({"http_proxy": "http://127.0.0.1:9"}, False),
        ({"HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": "localhost,127.0.0.1"}, True),
        ({"HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1", "no_proxy": "x"}, False),
    ],
    ids=["none", "https", "http", "spared", "one spelling"],
)
def test_a_prompt_waits_while_a_proxy_would_answer_the_host(
    service: Callable[..., Service], variables: dict[str, str], let: object
) -> None:
    there = service(http({}))
    words = ("claude-code", "--url", there.url, "--http")
    ended = run(there.url, event("UserPromptSubmit"), words=words, **variables)
    assert (ended.returncode == 0) is let
    assert bool(there.heard) is let
    if not let:
        assert ended.returncode == 2
        assert b"PROXY" in ended.stderr
    # The command itself goes straight to the service, whatever is set.
    assert run(there.url, event(), words=words[:3], **variables).returncode == 0


def test_the_address_in_the_settings_is_not_the_environments_to_change(service: Callable[..., Service]) -> None:
    ours, theirs = service(http({})), service(http({}))
    assert run(theirs.url, event(), words=("claude-code", "--url", ours.url)).returncode == 0
    assert len(ours.heard) == 1
    assert theirs.heard == []
