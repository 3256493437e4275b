"""The pages say what the code does: generated ones are up to date, examples run, commands and names exist."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import lockgate
from lockgate import assemble
from lockgate.cli.explain import call_from_text
from lockgate.cli.main import COMMANDS, main, make_parsers
from lockgate.core.redaction.secrets import KINDS
from lockgate.core.requests import payload
from lockgate.core.ruling.effects.effect import KINDS as EFFECT_KINDS
from lockgate.core.ruling.effects.effects_of_call import effects_of
from lockgate.core.ruling.effects.project import Project
from lockgate.core.ruling.policy import Policy
from lockgate.core.vocabulary import Action, Decision, Finding, Origin, Reason
from lockgate.gate.gate import Gate, shared_scanner
from lockgate.runtime import http_post as post
from lockgate.runtime import tracing
from lockgate.runtime.metrics import METRICS, NAMES
from lockgate.sessions import trace_format as trace
from lockgate.settings.config import load_settings
from lockgate.settings.verifiers import ADAPTERS, MAX_PATTERNS, VARIABLES, verifier_settings_from_env
from lockgate.testing import LoopbackProvider
from lockgate.verifiers import client
from lockgate.verifiers.adapters import REASONS, RemoteAdapter

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
README = ROOT / "README.md"
TRACE = ROOT / "docs" / "reference" / "trace.md"
MEASURE = ROOT / "docs" / "how-to" / "measure.md"
VERIFIERS = ROOT / "docs" / "reference" / "verifiers.md"
LIBRARY = ROOT / "docs" / "reference" / "library.md"
TUTORIALS = sorted((ROOT / "docs" / "tutorial").glob("*.md"))
# The pages about frameworks have programs that run where the framework is installed (`tests/hosts/test_frameworks.py`).
# That of the page about bulk audits needs pyarrow: tests/bulk runs it.
FRAMEWORKS = {"bulk", "guard-tool", *(path.stem for path in (ROOT / "requirements" / "frameworks").glob("*.in"))}
HOW_TO = sorted(path for path in (ROOT / "docs" / "how-to").glob("*.md") if path.stem not in FRAMEWORKS)


def text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def blocks(page: Path, *languages: str) -> list[str]:
    """The fenced blocks of a page in one of these languages."""
    found = re.findall(r"^```(\w*)\n(.*?)^```", text(page), flags=re.MULTILINE | re.DOTALL)
    return [body for language, body in found if language in languages]


def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GENERATOR = generate()


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Examples run where there is nothing but them."""
    for name in ("LOCKGATE_CONFIG", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "VERIFIER_ADAPTER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", GENERATOR.PAGES)
def test_what_is_generated_is_up_to_date(name: str) -> None:
    assert text(GENERATOR.REFERENCE / name) == GENERATOR.PAGES[name](), "run `make docs`"


def test_the_example_of_a_trace_gives_what_its_page_shows(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assemble, "cached_scanner", lambda rules, folder: shared_scanner(Policy()))
    example, labelled = blocks(TRACE, "jsonl")
    (transcript,) = blocks(TRACE, "console")
    command, _, output = transcript.partition("\n")
    assert command == "$ lockgate check minutes.jsonl"
    Path("minutes.jsonl").write_text(example, encoding="utf-8")
    assert main(["check", "minutes.jsonl"]) == 1
    assert GENERATOR.without_timings(capsys.readouterr().out) == GENERATOR.without_timings(output)
    Path("labelled.jsonl").write_text(labelled, encoding="utf-8")
    assert main(["eval", "labelled.jsonl", "--min-caught", "100", "--max-after-poison", "0"]) == 0


def test_the_example_of_a_measurement_gives_what_its_page_shows(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assemble, "cached_scanner", lambda rules, folder: shared_scanner(Policy()))
    (example,), (transcript,) = blocks(MEASURE, "jsonl"), blocks(MEASURE, "console")
    command, _, output = transcript.partition("\n")
    assert command == "$ lockgate eval helpdesk.jsonl"
    Path("helpdesk.jsonl").write_text(example, encoding="utf-8")
    assert main(["eval", "helpdesk.jsonl"]) == 0
    assert capsys.readouterr().out == output


def test_every_key_of_a_trace_and_of_a_decision_is_described() -> None:
    described = set(re.findall(r"`(\w+)`", text(TRACE)))
    asked = {key for keys in trace.KEYS.values() for key in keys} | set(trace.KEYS) | {"trace"}
    printed = {name for sort in (Decision, Finding, Origin) for name in sort._fields}
    assert asked | printed | {"line", "session", "call", "tool"} <= described
    assert all(f"`{reason.value}`" in text(TRACE) for reason in Reason)


def test_the_limits_on_the_page_are_those_in_force() -> None:
    assert f"{trace.MAX_LINE_BYTES // 2**20} MiB" in text(TRACE)
    assert f"nested more than {trace.MAX_DEPTH} levels" in text(TRACE)
    assert f"names of more than {trace.MAX_NAME:,} characters" in text(TRACE)


def test_every_public_name_is_mentioned() -> None:
    prose = "\n".join(text(page) for page in PAGES if page.name != "CHANGELOG.md")
    names = [name for name in lockgate.__all__ if not name.startswith("_")]
    assert [name for name in names if not re.search(rf"\b{name}\b", prose)] == []


def test_every_public_name_and_member_has_a_docstring() -> None:
    """The reference of names is written from them."""
    silent = []
    for name in set(lockgate.__all__) - {"__version__", "ENCODED_CONTENT_WARNING", "Verdict"}:
        found = getattr(lockgate, name)
        own = vars(found).get("__doc__") if isinstance(found, type) else found.__doc__
        silent += [] if own and not own.startswith(f"{name}(") else [name]
        members = vars(found).items() if isinstance(found, type) else ()
        silent += [f"{name}.{key}" for key, value in members if GENERATOR._is_member(key, value) and not value.__doc__]
    assert silent == []


def test_the_python_in_the_readme_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assemble, "cached_scanner", lambda rules, folder: shared_scanner(Policy()))
    examples = blocks(README, "python", "py")
    assert examples
    for example in examples:
        exec(compile(example, "README.md", "exec"), {"__name__": "__main__"})


def test_the_readme_stays_short_and_shows_a_picture() -> None:
    assert text(README).count("\n") <= 150
    assert re.search(r"^!\[.+\]\(docs/pictures/[\w-]+\.png\)$", text(README), flags=re.MULTILINE)


def test_every_test_that_the_threats_name_exists() -> None:
    page = text(ROOT / "docs" / "explanation" / "threats.md")
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", page)
    assert len(named) >= 35
    missing = [(path, name) for path, name in named if f"def {name}(" not in text(ROOT / path)]
    assert missing == []
    # Every row either names its test or says what the party can do.
    rows = [line for line in page.splitlines() if line.startswith("| ") and not line.startswith("| tries ")]
    assert [row for row in rows if "::test_" not in row and "**can**" not in row] == []


def test_every_file_that_the_architecture_names_exists() -> None:
    page = text(ROOT / "docs" / "explanation" / "architecture.md")
    kept = {path.relative_to(ROOT).as_posix() for path in (ROOT / "src").rglob("*.*")}
    named = set(re.findall(r"`([a-z_/]+\.(?:py|txt|js))`", page))
    assert len(named) > 40
    assert [name for name in sorted(named) if not any(path.endswith(f"/{name}") for path in kept)] == []
    # A name in brackets behind a file is one that the file has.
    functions = re.findall(r"`([a-z_/]+\.py)` \(((?:`\w+`(?:, )?)+)\)", page)
    assert len(functions) >= 5
    for file, names in functions:
        (path,) = [path for path in kept if path.endswith(f"/{file}")]
        assert [name for name in re.findall(r"\w+", names) if name not in text(ROOT / path)] == [], file
    assert page.count("\n") <= 300


def test_every_lockgate_command_in_the_pages_exists() -> None:
    known = {name: parser.format_help() for name, parser in make_parsers().items()}
    asked = 0
    for page in PAGES:
        lines = "\n".join(blocks(page, "sh", "bash", "console", "shell")).splitlines()
        # Of a transcript only the typed lines are commands.
        typed = [line[2:] for line in lines if line.startswith("$ ")] or lines
        for line in typed:
            for command in re.findall(r"(?:^|[|;&] *)lockgate ([^|;&#<>\n]*)", line):
                words = shlex.split(command)
                name = words[0] if words and not words[0].startswith("-") else ""
                assert name in known, f"{page.name}: {line}"
                for option in [word.partition("=")[0] for word in words if word.startswith("--")]:
                    assert re.search(rf"(?<![\w-]){option}(?![\w-])", known[name]), f"{page.name}: {line}"
                asked += 1
    assert asked


def anchors(page: Path) -> set[str]:
    """The names of a page's headings, as GitHub and the site make them."""
    prose = re.sub(r"^```.*?^```", "", text(page), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", prose, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_to_a_heading_finds_it(page: Path) -> None:
    links = re.findall(r"\]\((?![a-z]+:)([^)#\s]*)#([^)\s]+)\)", text(page))
    assert [
        f"{to}#{name}" for to, name in links if name not in anchors((page.parent / to).resolve() if to else page)
    ] == []


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    named = re.findall(r"^ +- ([\w/-]+\.md)$", text(ROOT / "mkdocs.yml"), flags=re.MULTILINE)
    kept = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    assert sorted(name for name in named if not name.startswith("project/")) == sorted(kept)


def test_every_command_is_in_the_reference() -> None:
    page = text(ROOT / "docs" / "reference" / "cli.md")
    assert all(f"## lockgate {command}\n" in page for command in COMMANDS)


def test_every_rule_is_in_the_reference() -> None:
    from lockgate.core.ruling.explanations import ENTRIES

    page = text(ROOT / "docs" / "reference" / "rules.md")
    assert [entry.id for entry in ENTRIES if f"### {entry.id}\n" not in page] == []


EFFECT_EXAMPLES = [
    (kind, name, line) for kind, lines in GENERATOR.effect_examples().items() for name, line in lines.items()
]


def test_every_kind_of_effect_has_a_hit_and_a_miss() -> None:
    examples = GENERATOR.effect_examples()
    assert set(examples) == set(EFFECT_KINDS)
    assert all(set(lines) == {"hit", "miss"} for lines in examples.values())


@pytest.mark.parametrize(("kind", "name", "line"), EFFECT_EXAMPLES, ids=[f"{e[0]}-{e[1]}" for e in EFFECT_EXAMPLES])
def test_the_examples_of_effects_are_hits_and_misses(kind: str, name: str, line: str) -> None:
    project = Project(
        root="/srv/app",
        folder="/srv/app",
        home="/home/ann",
        packages=frozenset({"requests"}),
        tasks=frozenset({"test"}),
        remotes={"origin": "https://git.example/app.git"},
    )
    tool, _, arguments = line.partition(" ")
    found = effects_of(call_from_text(tool, arguments), project)
    assert (kind in [each.kind for each in found]) is (name == "hit"), found


def test_every_variable_metric_and_reason_is_in_the_reference() -> None:
    names = [row.variable for row in VARIABLES] + [f"{each.variable}_FILE" for each in VARIABLES if each.secret]
    labels = [value for metric in METRICS.all for values in metric.labels.values() for value in values]
    for word in (*names, *NAMES, *labels, *REASONS, *ADAPTERS, *KINDS, tracing.NAME):
        assert f"`{word}`" in text(VERIFIERS), word


def test_every_variable_in_the_pages_is_read() -> None:
    known = {row.variable for row in VARIABLES} | {f"{each.variable}_FILE" for each in VARIABLES if each.secret}
    for page in PAGES:
        named = re.findall(r"\b(?:VERIFIER|OPENAI|ANTHROPIC|AZURE_OPENAI)_[A-Z_]*[A-Z]\b", text(page))
        assert set(named) <= known, page.name


def test_the_figures_on_the_verifiers_page_are_those_in_force() -> None:
    page = " ".join(text(VERIFIERS).split())
    assert f"at most {payload.MAX_PROMPT_CHARACTERS:,} characters" in page
    assert f"`Retry-After`, at most {client.MAX_HOLD_S:.0f} s of it" in page
    assert f"Replies are read up to {post.MAX_REPLY // 1024} KiB" in page
    asked = signature(client.Client).parameters
    assert asked["failures"].default == 5
    assert "Five failures in a row open the circuit" in page
    assert f"At most {asked['in_flight'].default} questions are under way" in page
    assert client.RETRY_SHARE == 0.1
    assert "Retries may add a tenth to all questions" in page
    assert f"waits at most {client.GRACE_S * 1000:.0f} ms longer" in page
    assert f"those {client.GRACE_S * 1000:.0f} ms" in page
    assert f"Connecting may take {client.CONNECT_SHARE:.0%} of the time" in page.replace("60 %", "60%")
    assert client.FAIR_SHARE == 0.5
    assert "less than half of the time left when it was asked" in page
    assert f"pattern on each line, in the dialect of the [rules](rules.md), at most {MAX_PATTERNS}." in page


def test_the_faults_on_the_verifiers_page_become_what_it_says() -> None:
    section = text(VERIFIERS).partition("## Faults")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([^`]+)` \| .+? \| `([^`]+)` \|$", section, flags=re.MULTILINE)
    assert len(rows) >= 15
    for fault, reason in rows:
        with LoopbackProvider(fault=fault) as provider:
            environ = {
                "VERIFIER_ADAPTER": "compatible",
                "VERIFIER_MODEL": "m",
                "VERIFIER_BASE_URL": provider.url,
                # Only what never answers is waited for; the others get all the time a busy machine may need.
                "VERIFIER_TIMEOUT_MS": "400" if reason == "deadline" else "20000",
                "VERIFIER_MAX_RETRIES": "0",
            }
            adapter = assemble.adapter_from_settings(verifier_settings_from_env(environ), shared_scanner(Policy()))
            found = adapter.examine({"prompt_text": "hello"})
            assert isinstance(adapter, RemoteAdapter)
            adapter.close()
        assert (found.verdict, found.reason) == ("unclear", reason), fault


@pytest.mark.parametrize("page", [VERIFIERS, LIBRARY, *TUTORIALS, *HOW_TO], ids=lambda page: page.stem)
def test_the_python_on_the_pages_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(assemble, "cached_scanner", lambda rules, folder: shared_scanner(Policy()))
    for example in blocks(page, "python", "py"):
        exec(compile(example, page.name, "exec"), {"__name__": "__main__"})


def test_the_step_on_the_page_about_supervision_is_let_through() -> None:
    example = blocks(ROOT / "docs" / "reference" / "supervision.md", "python")[0]
    names: dict[str, Any] = {"session": Gate().session(goal="Answer Ann's mail")}
    exec(compile(example, "supervision.md", "exec"), names)
    assert (names["decision"].action, names["ruling"].action) == (Action.CONTINUE, Action.CONTINUE)


def test_the_payload_on_the_page_is_one() -> None:
    (example,) = blocks(VERIFIERS, "json")
    payload.parse_payload(json.loads(example))


def test_every_provider_has_a_page() -> None:
    assert {page.stem for page in HOW_TO} >= set(ADAPTERS) - {"none"}


def test_every_configuration_in_the_pages_is_one(tmp_path: Path) -> None:
    """Those of other programs, and the table in a pyproject.toml, are left out."""
    asked = 0
    for page in PAGES:
        for example in re.findall(r"^ *```toml\n(.*?)^ *```", text(page), flags=re.MULTILINE | re.DOTALL):
            if not any(word in example for word in ("mcp_servers", "[features]", "tool.lockgate")):
                file = tmp_path / "config.toml"
                file.write_text(example, encoding="utf-8")
                file.chmod(0o600)
                load_settings(explicit=file, cwd=tmp_path, environ={}, home=tmp_path, system=tmp_path / "none")
                asked += 1
    assert asked > 10


def test_json_examples_in_the_pages_are_json() -> None:
    for page in PAGES:
        for example in blocks(page, "json"):
            json.loads(example)
        for example in blocks(page, "jsonl"):
            for line in example.splitlines():
                trace.parse_line(line, 1)


PLUGS = "agent-framework claude-agent-sdk crewai google-adk langchain openai-agents pydantic-ai strands".split()


def test_the_page_names_the_cases_that_each_framework_leaves_out() -> None:
    page = (ROOT / "docs" / "how-to" / "frameworks.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| (\d+) [^|]+\| ([a-z, -]+) \|$", page, flags=re.MULTILINE)
    left_out = {name: {int(case) for case, names in listed if name in names.split(", ")} for name in PLUGS}
    tested = {}
    for name in PLUGS:
        text = (ROOT / "tests" / "integrations" / f"test_{name.replace('-', '_')}.py").read_text(encoding="utf-8")
        found = re.search(r"if each\.why_not\} == \{([\d, ]+)\}", text)
        tested[name] = {int(case) for case in found[1].split(",")} if found else set()
    assert left_out == tested
