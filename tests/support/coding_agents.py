"""Codex, Gemini CLI, Copilot CLI and OpenCode themselves, from npm, each against a scripted model on this machine.

The versions are those that the pages in `docs/how-to` were written for. They are installed once, below `build/`;
`why_missing` says why one cannot be had.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple

from claude_machine import Machine

_BUILD = Path(__file__).parents[2] / "build" / "coding-agents"
_ARM = platform.machine() in ("aarch64", "arm64")
Step = tuple[str, Mapping[str, object]] | str


class Package(NamedTuple):
    """An npm package with its version, and the program in it."""

    name: str
    version: str
    program: str
    scripts: bool = True


PACKAGES = {
    "codex": Package("@openai/codex", "0.166.0", ".bin/codex"),
    "gemini": Package("@google/gemini-cli", "0.61.0", ".bin/gemini"),
    "copilot": Package("@github/copilot", "1.0.102", ".bin/copilot"),
    # Its own package does not install where one of its variants is missing; the variant alone is the program.
    "opencode": Package(
        f"opencode-linux-{'arm64' if _ARM else 'x64'}",
        "1.18.18",
        f"opencode-linux-{'arm64' if _ARM else 'x64'}/bin/opencode",
        scripts=False,
    ),
}
# The tool by which each runs a command, and what the command is called there.
SHELLS = {
    "codex": ("exec_command", "cmd"),
    "gemini": ("run_shell_command", "command"),
    "copilot": ("bash", "command"),
    "opencode": ("bash", "command"),
}


def program_of(agent: str) -> Path:
    """Return the program, installed if need be; the file that is not there where it cannot be."""
    package, folder = PACKAGES[agent], _BUILD / agent
    program = folder / "node_modules" / package.program
    if not program.exists() and shutil.which("npm"):
        folder.mkdir(parents=True, exist_ok=True)
        words = ["npm", "install", "--no-audit", "--no-fund", "--no-save", "--prefix", str(folder)]
        words += [] if package.scripts else ["--ignore-scripts"]
        with suppress(subprocess.TimeoutExpired):
            subprocess.run([*words, f"{package.name}@{package.version}"], capture_output=True, timeout=240, check=False)
    return program


@cache
def why_missing(agent: str) -> str:
    """Return why this program cannot be run here; empty if it can."""
    program = program_of(agent)
    if not program.exists():
        return f"npm does not bring {PACKAGES[agent].name}"
    try:
        ended = subprocess.run([str(program), "--version"], capture_output=True, text=True, timeout=120, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{agent} does not run here: {type(error).__name__}"
    return "" if ended.returncode == 0 else f"{agent} does not run here: {ended.stderr[:200]}"


class ScriptedModel:
    """The Responses API, the Gemini API and the Chat Completions API; each request with tools plays the next step."""

    def __init__(self, *script: Step) -> None:
        self.script = list(script)
        self.asked: list[dict[str, object]] = []
        self._played = 0
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                self._send(b'{"object": "list", "data": [{"id": "scripted", "object": "model"}], "models": []}')

            def do_POST(self) -> None:
                body = json.loads(self._body() or b"{}")
                with outer._lock:
                    outer.asked.append(body)
                if "/responses" in self.path:
                    self._send(_events(outer._openai(body)), "text/event-stream")
                elif "enerateContent" in self.path:
                    said = outer._gemini(body)
                    streamed = "stream" in self.path
                    self._send(_events([said]) if streamed else json.dumps(said).encode(), _kind(streamed))
                else:
                    said, streamed = outer._chat(body), bool(body.get("stream"))
                    chunks = _events(_chunks(said)) + b"data: [DONE]\n\n"
                    self._send(chunks if streamed else json.dumps(said).encode(), _kind(streamed))

            def _body(self) -> bytes:
                if self.headers.get("transfer-encoding") != "chunked":
                    return self.rfile.read(int(self.headers.get("content-length") or 0))
                body = b""
                while size := int(self.rfile.readline().split(b";")[0], 16):
                    body += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                return body

            def _send(self, body: bytes, kind: str = "application/json") -> None:
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def heard(self) -> str:
        """Everything the model was ever sent."""
        return json.dumps(self.asked, ensure_ascii=False)

    def _next(self, body: Mapping[str, object]) -> tuple[Step, int]:
        with self._lock:
            if not body.get("tools"):
                return "A title", 0
            self._played += 1
            return (self.script[self._played - 1] if self._played <= len(self.script) else "done"), self._played

    def _openai(self, body: Mapping[str, object]) -> list[dict[str, object]]:
        step, number = self._next(body)
        if isinstance(step, str):
            said = [{"type": "output_text", "text": step, "annotations": []}]
            item = {"type": "message", "id": f"m{number}", "role": "assistant", "status": "completed", "content": said}
        else:
            item = {
                "type": "function_call", "id": f"f{number}", "call_id": f"call_{number}", "name": step[0],
                "arguments": json.dumps(step[1]), "status": "completed",
            }  # fmt: skip
        used = {"input_tokens": 1, "input_tokens_details": None, "output_tokens": 1, "output_tokens_details": None}
        return [
            {"type": "response.created", "response": {"id": f"r{number}"}},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": {"id": f"r{number}", "usage": {**used, "total_tokens": 2}}},
        ]

    def _gemini(self, body: Mapping[str, object]) -> dict[str, object]:
        step, _ = self._next(body)
        part = {"text": step} if isinstance(step, str) else {"functionCall": {"name": step[0], "args": step[1]}}
        content = {"role": "model", "parts": [part]}
        used = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
        return {"candidates": [{"content": content, "finishReason": "STOP", "index": 0}], "usageMetadata": used}

    def _chat(self, body: Mapping[str, object]) -> dict[str, object]:
        step, number = self._next(body)
        message: dict[str, object] = {"role": "assistant", "content": step if isinstance(step, str) else None}
        if not isinstance(step, str):
            function = {"name": step[0], "arguments": json.dumps(step[1])}
            message["tool_calls"] = [{"index": 0, "id": f"call_{number}", "type": "function", "function": function}]
        end = "stop" if isinstance(step, str) else "tool_calls"
        used = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        choice = {"index": 0, "message": message, "finish_reason": end}
        return {"id": f"c{number}", "object": "chat.completion", "created": 1, "model": "scripted",
                "choices": [choice], "usage": used}  # fmt: skip


def _kind(streamed: bool) -> str:  # noqa: FBT001
    return "text/event-stream" if streamed else "application/json"


def _chunks(said: Mapping[str, object]) -> list[dict[str, object]]:
    (choice,) = said["choices"]  # type: ignore[misc,has-type]
    base = {**said, "object": "chat.completion.chunk", "usage": None}
    return [
        {**base, "choices": [{"index": 0, "delta": choice["message"], "finish_reason": None}]},
        {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}],
         "usage": said["usage"]},
    ]  # fmt: skip


def _events(events: Sequence[Mapping[str, object]]) -> bytes:
    return "".join(
        (f"event: {each['type']}\n" if "type" in each else "") + f"data: {json.dumps(each)}\n\n" for each in events
    ).encode()


def shell(agent: str, command: str) -> Step:
    """Return the call by which this agent runs a command."""
    tool, name = SHELLS[agent]
    return (tool, {name: command, **({"description": "as scripted"} if agent in ("copilot", "opencode") else {})})


def run_agent(
    machine: Machine, agent: str, prompt: str, *script: Step, trust_hooks: bool = True
) -> tuple[ScriptedModel, str]:
    """Run one prompt to its end, with every permission of the agent's own; return the model and what was printed."""
    model = ScriptedModel(*script)
    machine.models.append(model)  # type: ignore[arg-type]  # it closes as the others do
    program, home = str(program_of(agent)), machine.home
    variables = {"PATH": f"{machine.home / 'bin'}:{os.environ['PATH']}"}
    if agent == "codex":
        (home / ".codex").mkdir(exist_ok=True)
        (home / ".codex" / "config.toml").write_text(
            'model = "scripted"\nmodel_provider = "loop"\napproval_policy = "never"\n'
            'sandbox_mode = "danger-full-access"\n[model_providers.loop]\nname = "loop"\n'
            f'base_url = "{model.url}/v1"\nwire_api = "responses"\nrequires_openai_auth = false\n'
        )
        words = ["exec", "--skip-git-repo-check", *(["--dangerously-bypass-hook-trust"] if trust_hooks else []), prompt]
    elif agent == "gemini":
        _merge(home / ".gemini" / "settings.json", {
            "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
            "telemetry": {"enabled": False}, "privacy": {"usageStatisticsEnabled": False},
            "general": {"disableAutoUpdate": True},
        })  # fmt: skip
        variables |= {"GEMINI_API_KEY": "x", "GOOGLE_GEMINI_BASE_URL": model.url}
        words = ["--yolo", "-m", "gemini-2.5-flash", "-p", prompt]
    elif agent == "copilot":
        variables |= {"COPILOT_OFFLINE": "true", "COPILOT_PROVIDER_BASE_URL": f"{model.url}/v1",
                      "COPILOT_MODEL": "scripted"}  # fmt: skip
        words = ["--allow-all", "--no-auto-update", "-p", prompt]
    else:
        provider = {"npm": "@ai-sdk/openai-compatible", "name": "loop", "models": {"scripted": {"name": "scripted"}}}
        provider["options"] = {"baseURL": f"{model.url}/v1", "apiKey": "x"}  # type: ignore[assignment]
        _merge(home / ".config" / "opencode" / "opencode.json", {
            "autoupdate": False, "share": "disabled", "model": "loop/scripted", "small_model": "loop/scripted",
            "provider": {"loop": provider}, "permission": {"bash": "allow", "edit": "allow"},
        })  # fmt: skip
        _bring_packages(home / ".config" / "opencode")
        words = ["run", prompt]
    environment = {name: value for name, value in machine.env().items() if "CLAUDE" not in name and "ANTHR" not in name}
    ended = subprocess.run(
        [program, *words], env={**environment, **variables}, cwd=machine.work, capture_output=True, text=True,
        timeout=170, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    if agent == "opencode":
        _keep_packages(home / ".config" / "opencode")
    return model, ended.stdout + ended.stderr


# OpenCode installs packages for plugins, 63 MB, into the settings of every new home: once is enough.
_PLUGIN_PACKAGES = _BUILD / "opencode" / f"for-plugins-{PACKAGES['opencode'].version}"


def _bring_packages(settings: Path) -> None:
    if _PLUGIN_PACKAGES.exists() and not (settings / "node_modules").exists():
        shutil.copytree(_PLUGIN_PACKAGES, settings, dirs_exist_ok=True, symlinks=True)


def _keep_packages(settings: Path) -> None:
    if not _PLUGIN_PACKAGES.exists() and (settings / "node_modules" / "@opencode-ai").exists():
        # Whole or not at all: another run may look for it meanwhile.
        made = Path(mkdtemp(dir=_PLUGIN_PACKAGES.parent))
        for name in ("package.json", "package-lock.json"):
            shutil.copy(settings / name, made)
        shutil.copytree(settings / "node_modules", made / "node_modules", symlinks=True)
        made.rename(_PLUGIN_PACKAGES)


def _merge(path: Path, more: Mapping[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    said = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**said, **more}, indent=2))
