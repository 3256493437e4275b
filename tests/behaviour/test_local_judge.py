"""A judge on a port of this machine: no call ends, replaces or changes its server, and any call may ask it."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from hook_events import Plug
from settings_place import Place

from lockgate import Action, Gate, assemble
from lockgate.core.ruling.opinions import Triage
from lockgate.gate.judge import Opined
from lockgate.gate.session import Session
from lockgate.sessions import Host
from lockgate.sessions.stores.memory import MemorySessions
from lockgate.verifiers.model_judge import ModelJudge

SUPERVISION = '[supervision]\nmodel = "local:{}/org/big:latest"\n'
HELD = [
    "fuser -k {port}/tcp",
    "lsof -ti :{port} | xargs kill",
    "kill $(lsof -t -i tcp:{port})",
    "ss -ltnp | grep {port} | grep -o 'pid=[0-9]*' | cut -d= -f2 | xargs kill -9",
    "npx kill-port {port}",
    "kill {pid}",
    "kill -9 -{pid}",
    "P={pid}; kill $P",
    "python3 -c 'import os; os.kill({pid}, 9)'",
    "pkill ollama",
    "killall Ollama",
    "pkill -f 'ollama serve'",
    "pgrep llama-server | xargs kill",
    "ps aux | grep ollama | awk '{{print $2}}' | xargs kill",
    "taskkill /IM ollama.exe /F",
    "sudo systemctl stop ollama",
    "launchctl kill TERM gui/501/com.ollama.ollama",
    "brew services stop ollama",
    "docker rm -f ollama",
    "nc -l {port}",
    "python3 -m http.server {port}",
    "gunicorn -b 127.0.0.1:{port} app:app",
    "docker run -p 127.0.0.1:{port}:80 nginx",
    "ssh -L {port}:evil.example:80 host",
    "PORT={port} npm start",
    "OLLAMA_HOST=127.0.0.1:{port} ollama serve",
    "iptables -t nat -A OUTPUT -p tcp --dport {port} -j REDIRECT --to 9999",
    "ollama rm qwen3:8b",
    "ollama pull qwen3:8b",
    "ollama rm big",
    "ollama cp evil qwen3:8b",
    "ollama create qwen3:8b -f Modelfile",
    "ollama rm registry.ollama.ai/library/qwen3:8b",
    "ollama list | awk '{{print $1}}' | xargs ollama rm",
    "ollama rm $(ollama list -q)",
    'curl localhost:{port}/api/create -d \'{{"model": "qwen3:8b", "from": "evil"}}\'',
    'curl -X DELETE http://127.0.0.1:{port}/api/delete -d \'{{"model": "qwen3:8b"}}\'',
    "curl http://[::1]:{port}/api/pull -d @body.json",
    "curl http://127.1:{port}//api/%63opy -d @body.json",
    "python3 -c \"import requests; requests.post('http://localhost:{port}/api/create', json=m)\"",
]
ORDINARY = [
    'curl localhost:{port}/api/generate -d \'{{"model": "qwen3:8b"}}\'',
    "curl -s http://127.0.0.1:{port}/api/tags | jq .",
    "curl -X POST http://localhost:{port}/v1/chat/completions -d @body.json",
    "ollama run llama3 hello",
    "ollama run qwen3:8b hello",
    "ollama list",
    "ollama ps",
    "ollama pull llama3",
    "ollama rm llama3",
    "ollama serve",
    "OLLAMA_HOST=localhost:{port} ollama list",
    "OLLAMA_HOST=127.0.0.1:{port} python3 app.py",
    "OLLAMA_BASE_URL=http://localhost:{port} npm start",
    "python3 rag.py --base-url http://localhost:{port}/v1",
    "docker run -p 3000:8080 -e OLLAMA_BASE_URL=http://host.docker.internal:{port} webui",
    "python3 -c \"import requests; requests.post('http://localhost:{port}/api/chat', json=m)\"",
    "lsof -i :{port}",
    "ss -ltnp | grep {port}",
    "pgrep ollama",
    "systemctl status ollama",
    "systemctl restart ollama",
    "docker logs ollama",
    "docker stop web",
    "brew services restart ollama",
    "nc -z localhost {port}",
    "curl http://gpu.example:{port}/api/pull -d @body.json",
    "kill 1234567890",
    "pkill -f 'ollama run'",
    "grep -rn {port} docs",
    "fuser -k 3000/tcp",
]


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """A port on which this process listens, as a model server does."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def gate(port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gate:
    # What listens on that port never answers.
    monkeypatch.setattr(ModelJudge, "opine", lambda *_: Opined(Triage(suspicious=True)))
    place = Place(tmp_path)
    place.write(
        place.user, f'[security.verification]\ntriage_model = "local:{port}/qwen3:8b"\n{SUPERVISION.format(port)}'
    )
    return assemble.gate_from_settings(place.load(), keep_records=False)


@pytest.fixture(autouse=True)
def other_ruler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process be the server only, so that its number is protected for that."""
    monkeypatch.setattr("lockgate.gate.ruler.ruling_processes", lambda: frozenset())


def is_held(session: Session, command: str, port: int) -> bool:
    return session.check("Bash", {"command": command.format(port=port, pid=os.getpid())}).action is not Action.CONTINUE


@pytest.mark.parametrize("command", HELD)
def test_no_call_touches_the_server_of_a_judge(command: str, gate: Gate, port: int) -> None:
    ruling = gate.session(goal="Tidy up").check("Bash", {"command": command.format(port=port, pid=os.getpid())})
    assert ruling.action is Action.PAUSE
    assert "execution:own-guard" in {finding.rule for finding in ruling.findings}
    # Without a judge there it is a server like any other.
    assert not is_held(Gate().session(goal="Tidy up"), command, port)


@pytest.mark.parametrize("command", ORDINARY)
def test_any_call_may_ask_the_server(command: str, gate: Gate, port: int) -> None:
    assert not is_held(gate.session(goal="Tidy up"), command, port)


def test_a_tool_with_an_address_does_not_change_its_models(gate: Gate, port: int) -> None:
    session = gate.session(goal="Tidy up")
    request = {"url": f"http://localhost:{port}/api/delete", "method": "DELETE", "body": '{"model": "qwen3:8b"}'}
    assert session.check("http_request", request).action is Action.PAUSE
    assert session.check("http_request", {"url": f"http://localhost:{port}/api/tags"}).action is Action.CONTINUE


def test_a_hook_holds_it_too(gate: Gate, port: int, tmp_path: Path) -> None:
    plug = Plug(Host(gate, MemorySessions()), tmp_path)
    plug.start()
    for command, allowed in ((f"kill {os.getpid()}", False), (f"curl localhost:{port}/api/tags", True)):
        said = plug.tell("PreToolUse", tool_name="Bash", tool_input={"command": command}, tool_use_id="t")
        assert (said == {}) is allowed
