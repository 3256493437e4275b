"""What users see is what was frozen in tests/golden: a change of code must not change it unawares.

A difference is a mistake, or a change that belongs into the changelog. Then write the files again, and read the diff:

    LOCKGATE_WRITE_GOLDEN=1 pytest tests/repository/test_golden.py

Files that end in `.case` hold their own questions, so that a case is added there and not here. A case is a paragraph:
`% NAME=VALUE` sets a variable, `- PACKAGE` hides one, `+ FILE` makes a file, and then one question: `$ lockgate …`
runs the command, `>>> …` is Python with the public names, `@ WHO METHOD PATH` asks the service (or, as `gate`, an
application behind the abuse gate). Lines with `| ` are the content of what stands before them. The answer is written
below: `> ` is standard output or a body, `! ` standard error, a header or an exception, `= ` an exit code or a status.
"""

from __future__ import annotations

import asyncio
import http.client
import io
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rule_cache import keep_key

import lockgate
from lockgate.cli.main import main, make_parsers
from lockgate.runtime.http_post import tls_context

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
SOURCE = Path(lockgate.__file__).resolve().parent
AGAIN = "LOCKGATE_WRITE_GOLDEN=1 pytest tests/repository/test_golden.py"
OURS = ("LOCKGATE_", "VERIFIER_", "ABUSE_", "OPENAI_", "ANTHROPIC_", "AZURE_", "CLAUDE_", "PG")
WRITING = os.environ.get("LOCKGATE_WRITE_GOLDEN") == "1"
WAIT_S = 120

# What differs between two runs or two machines.
MASKS = (
    (r"\b[\d.]+ (?:µs|ms|s)\b", "N ms"),
    (r'("(?:latency_us|latency_ms|ts_ms|\w*_at|\w*_s)": ?)[\d.]+', r"\1N"),
    (r'("(?:at|number|seq|expires)": ?)\d{10,}(?:\.\d+)?', r"\1N"),
    (r'("(?:incident_id|leaf_hash|approval|id)": ?)"(?:[0-9A-Z]{26}|d?[0-9a-f]{16,64})"', r'\1"ID"'),
    # Keyed anew in every process, so that an attacker cannot try texts until one fits.
    (r'("digest": ?")[0-9a-f]{64}(?=",\s+"(?:latency_ms|read)")', r"\1ID"),
    (r"(payload  digest )[0-9a-f]{64}", r"\1ID"),
    # The digest of an offered rule binds its end, which is a time.
    (r'("digest": ?"sha256:)[0-9a-f]{64}(?=",[\s>]+"rule")', r"\1ID"),
    (r'("origin": ?)"lockgate/[0-9a-f]{8}"', r'\1"lockgate/ID"'),
    (r"x-guardrail-incident-id: \w+", "x-guardrail-incident-id: ID"),
)


class Place:
    """An empty home to ask in, as a newcomer has who just installed Lockgate."""

    def __init__(self, home: Path, cache: Path, patch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[str]) -> None:
        # A service that the developer runs on this machine must not show in what is frozen.
        patch.setattr("lockgate.cli.next_steps.service_answers", lambda _url: False)
        self.home, self.cache, self._capture = home, cache, capture
        self._patch = patch
        for name in os.environ:
            if name.startswith(OURS) or name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "LINES"):
                patch.delenv(name)
        for name, value in _variables(home, cache).items():
            patch.setenv(name, value)
        keep_key(home / "state")
        self.work = home / "work"
        self.work.mkdir()
        patch.chdir(self.work)

    def command(self, argv: list[str], stdin: str = "") -> list[str]:
        self._patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8"))
        code = main(argv)
        out, err = map(self.masked, self._capture.readouterr())
        return [*_marked("> ", out), *_marked("! ", err), f"= {code}"]

    def printed(self, words: list[str]) -> str:
        assert main([*words, "--help"]) == 0
        return "".join(f"{line.rstrip()}\n" for line in self._capture.readouterr().out.splitlines())

    def masked(self, text: str) -> str:
        for folder, name in ((self.work, "WORK"), (self.home, "HOME"), (self.cache, "CACHE")):
            text = text.replace(str(folder), name)
        for pattern, instead in MASKS:
            text = re.sub(pattern, instead, text)
        return text


def _variables(home: Path, cache: Path) -> dict[str, str]:
    folders = {f"XDG_{name}_HOME": str(home / name.lower()) for name in ("CONFIG", "STATE")}
    return {"HOME": str(home), "XDG_CACHE_HOME": str(cache), "COLUMNS": "100", "NO_COLOR": "1", **folders}


def _marked(mark: str, text: str) -> list[str]:
    return [f"{mark}{line}".rstrip() for line in text.splitlines()]


@pytest.fixture
def place(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Place:
    return Place(tmp_path, cache, monkeypatch, capsys)


# The service


class Service:
    """A `lockgate serve` of its own, asked over the wire."""

    def __init__(self, home: Path, cache: Path) -> None:
        keep_key(home / "state")
        config = home / "service.toml"
        config.write_text('[security.verification]\ntriage_model = "none"\n', encoding="utf-8")
        config.chmod(0o600)
        command = [sys.executable, "-P", "-m", "lockgate", "serve", "--port", "0", "--config", str(config)]
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCE.parent), **_variables(home, cache)}
        env |= {"LOCKGATE_TOKEN": "p" * 40, "LOCKGATE_AGENT_TOKEN": "a" * 40}
        self.process = subprocess.Popen(
            command, env=env, cwd=home, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self.process.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:(\d+)", self.process.stdout.readline())
        assert found, "lockgate serve did not start"
        self.port = int(found[1])

    def ask(self, who: str, method: str, path: str, body: str = "") -> tuple[int, dict[str, str], str]:
        headers = {"Authorization": f"Bearer {who[0] * 40}"} if who != "no-token" else {}
        if body:
            headers["Content-Type"] = "application/json"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        try:
            connection.request(method, path, body.encode() or None, headers)
            reply = connection.getresponse()
            return reply.status, dict(reply.getheaders()), reply.read().decode()
        finally:
            connection.close()

    def end(self) -> None:
        self.process.terminate()
        try:
            self.process.communicate(timeout=WAIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Iterator[Callable[[], Service]]:
    """The service, started when it is first asked for."""
    started: list[Service] = []

    def serving() -> Service:
        pytest.importorskip("uvicorn")
        if not started:
            started.append(Service(tmp_path_factory.mktemp("service"), cache))
        return started[0]

    yield serving
    for service in started:
        service.end()


async def _answered(method: str, path: str, body: str) -> tuple[int, dict[str, str], str]:
    """What a client gets from an application behind the abuse gate with its default settings."""
    sent: list[dict[str, Any]] = []
    got = [{"type": "http.request", "body": body.encode(), "more_body": False}]

    async def application(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
        await send({"type": "http.response.body", "body": b"the application's answer"})

    async def receive() -> dict[str, Any]:
        return got.pop() if got else {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body.encode()))],
        "client": ("192.0.2.7", 4711),
        "server": ("127.0.0.1", 80),
        "scheme": "http",
    }
    await lockgate.AbuseGateMiddleware(application)(scope, receive, send)
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], headers, b"".join(each.get("body", b"") for each in sent[1:]).decode()


# Cases


def _ask(place: Place, serving: Callable[[], Service], question: str, content: str) -> list[str]:
    if question.startswith("$ lockgate"):
        return place.command(shlex.split(question)[2:], content)
    if question.startswith(">>> "):
        try:
            found = eval(question[4:], {name: getattr(lockgate, name) for name in lockgate.__all__})
        except lockgate.LockgateError as error:
            hint = [f"hint: {error.hint}"] if error.hint else []
            return _marked("! ", place.masked("\n".join([f"{type(error).__name__}: {error.message}", *hint])))
        return _marked("> ", place.masked(repr(found)))
    who, method, path = question[2:].split()
    asked = asyncio.run(_answered(method, path, content)) if who == "gate" else None
    status, headers, body = asked or serving().ask(who, method, path, content)
    shown = {name.lower(): value for name, value in headers.items()}
    told = [f"{name}: {shown[name]}" for name in sorted(shown.keys() - {"date", "content-length", "etag", "server"})]
    if shown.get("content-type") == "application/json":
        body = json.dumps(json.loads(body), indent=1, ensure_ascii=False, sort_keys=True)
    return [*_marked("! ", place.masked("\n".join(told))), *_marked("> ", place.masked(body)), f"= {status}"]


def _case(place: Place, serving: Callable[[], Service], paragraph: str) -> str:
    """One paragraph with its answer as it is now."""
    asked = [
        line for line in paragraph.splitlines() if not line.startswith(("> ", "! ", "= ")) and line not in (">", "!")
    ]
    contents: dict[str, list[str]] = {}
    question = now = ""
    with pytest.MonkeyPatch.context() as patch:
        for line in asked:
            if line.startswith("% "):
                name, _, value = line[2:].partition("=")
                patch.setenv(name, value)
            elif line.startswith("- "):
                patch.setitem(sys.modules, line[2:], None)
                # It looks for its package once per process.
                tls_context.cache_clear()
            elif line.startswith("| ") or line == "|":
                contents[now].append(line[2:])
            elif not line.startswith("#"):
                now = line
                contents[now] = []
                question = now if line.startswith(("$ ", ">>> ", "@ ")) else question
        made = []
        for name, lines in contents.items():
            if name.startswith("+ "):
                made.append(place.work / name[2:])
                made[-1].write_text("\n".join(lines) + "\n", encoding="utf-8")
                made[-1].chmod(0o600)
        answer = _ask(place, serving, question, "\n".join(contents[question])) if question else []
        for path in made:
            path.unlink()
    return "\n".join([*asked, *answer])


def _cases(name: str) -> Callable[[Place, Callable[[], Service]], str]:
    def cases(place: Place, serving: Callable[[], Service]) -> str:
        paragraphs = (GOLDEN / name).read_text(encoding="utf-8").strip("\n").split("\n\n")
        return "\n\n".join(_case(place, serving, each) for each in paragraphs) + "\n"

    return cases


# Lists. What is imported inside these functions is all that a move of modules has to follow.


def _lines(items: Iterable[str]) -> str:
    return "".join(f"{item}\n" for item in sorted(set(items)))


def _literals(pattern: str, *, flags: int = 0) -> set[str]:
    """Whatever stands in quotes in the package and has this form, wherever it is; not what only tests are given."""
    texts = [path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py") if "testing" not in path.parts]
    return {found for text in texts for found in re.findall(rf"[\"']({pattern})[\"']", text, flags)}


def helps(place: Place, _: object) -> str:
    return "\n".join(f"$ lockgate {name} --help\n{place.printed(name.split())}" for name in make_parsers())


def openapi(_: Place, serving: Callable[[], Service]) -> str:
    document = json.loads(serving().ask("no-token", "GET", "/openapi.json")[2])
    document["info"]["version"] = "VERSION"
    return json.dumps(document, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def routes(_: Place, serving: Callable[[], Service]) -> str:
    paths = json.loads(serving().ask("no-token", "GET", "/openapi.json")[2])["paths"]
    return _lines(
        f"{path} {method.upper()} {'|'.join(name for each in does['security'] for name in each) or 'no-token'} "
        f"{' '.join(sorted(does['responses']))}"
        for path, methods in paths.items()
        for method, does in methods.items()
    )


def rules(place: Place, _: object) -> str:
    listed = "".join(line[2:] for line in place.command(["rules", "--json"]) if line.startswith("> "))
    return _lines(f"{each['id']} {each['family']} {each['scope']} {each['owasp']}" for each in json.loads(listed))


def words(_: Place, __: object) -> str:
    from typing import get_args

    from lockgate.core.requests.combined_verdict import REASONS
    from lockgate.core.ruling.supervised_steps import CAUSES

    enums = {name: getattr(lockgate, name) for name in "Action Kind Mode Reason Risk Supervision Trust".split()}
    found = [f"{name} {member.name} = {member.value}" for name, kind in enums.items() for member in kind]
    found += [f"Verdict {word}" for word in get_args(lockgate.Verdict)]
    found += [f"Assessment.reason {word}" for word in REASONS]
    # Ids of findings that no rule has.
    found += [f"finding {each}" for each in _literals("(?:cap|encoded|mcp|origin|scope|step):[a-z][a-z_-]*[a-z]")]
    found += [f"finding step:{cause}" for cause in CAUSES]
    found += [f"{kind} field {name}" for kind in ("Decision", "Finding", "Origin", "Ran") for name in _fields(kind)]
    return _lines(found)


def _fields(name: str) -> tuple[str, ...]:
    fields: tuple[str, ...] = getattr(lockgate, name)._fields
    return fields


def metrics(_: Place, __: object) -> str:
    from lockgate.runtime.metrics import Metrics
    from lockgate.service.request_counts import RequestCounts

    # Not those of this process: other tests list tenants there.
    made, counts = Metrics(), RequestCounts()
    all_of_them = (*made.all, *made.gate, counts.requests, counts.seconds, counts.decisions, counts.decided)
    found = [f"{each.name} {each.kind} {each.help}" for each in all_of_them]
    found += [
        f"{each.name}{{{label}}} {' '.join(values)}"
        for each in all_of_them
        for label, values in each.labels.items()
        # The routes are frozen by themselves.
        if label != "route"
    ]
    return _lines(found)


def config_keys(_: Place, __: object) -> str:
    from lockgate.settings.config import KEYS
    from lockgate.settings.keys import as_toml

    return _lines(
        f"{key.key} ({key.allowed}) = {as_toml(key.default)}; a project file may change it {key.tightens or 'never'}"
        for key in KEYS
    )


def variables(_: Place, __: object) -> str:
    from lockgate.settings import abuse_gate, verifiers

    found = []
    for each in (*verifiers.VARIABLES, *abuse_gate.VARIABLES):
        bounds = f" from {each.least:,} to {each.most:,}" if each.most else ""
        allowed = "|".join(each.words)
        secret = " secret" if each.secret else ""
        found.append(" ".join(f"{each.variable} = {each.default}{bounds} {allowed}{secret}".split()))
    known = {line.split()[0] for line in found}
    found += [f"{name} (read)" for name in _literals("(?:LOCKGATE|CLAUDE|XDG|PG|OTEL)_?[A-Z_]+[A-Z]") - known]
    return _lines(found)


def headers(_: Place, __: object) -> str:
    return _lines(name.lower() for name in _literals("x-[a-z-]+[a-z]", flags=re.IGNORECASE))


FROZEN: dict[str, Callable[[Place, Callable[[], Service]], str]] = {
    "help.txt": helps,
    "openapi.json": openapi,
    "routes.txt": routes,
    "rules.txt": rules,
    "words.txt": words,
    "metrics.txt": metrics,
    "config_keys.txt": config_keys,
    "variables.txt": variables,
    "headers.txt": headers,
    **{name: _cases(name) for name in ("command_line.case", "configuration.case", "service.case", "traces.case")},
}


@pytest.mark.parametrize("name", FROZEN)
def test_what_users_see_is_as_frozen(name: str, place: Place, serving: Callable[[], Service]) -> None:
    found, file = FROZEN[name](place, serving), GOLDEN / name
    if WRITING:
        file.write_text(found, encoding="utf-8")
    frozen = file.read_text(encoding="utf-8") if file.exists() else ""
    assert found.splitlines() == frozen.splitlines(), f"if this was meant, say so in the changelog and run {AGAIN}"


def test_every_golden_file_is_compared() -> None:
    assert {path.name for path in GOLDEN.iterdir()} == set(FROZEN)
