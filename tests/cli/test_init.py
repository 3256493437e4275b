"""`lockgate init claude-code` and `lockgate doctor --claude-code`: a person's settings stay theirs."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hook_events import THEIRS

from lockgate import assemble
from lockgate.claude_code import settings_file as claude_code
from lockgate.claude_code.settings_file import EVENTS, HookForm
from lockgate.cli import init
from lockgate.cli.doctor import claude_code as wiring
from lockgate.core.errors import LockgateError
from lockgate.verifiers.local_servers import LocalServer

pytestmark = pytest.mark.usefixtures("no_claude")
Run = Callable[..., Any]

AUTO = '[security.verification]\ntriage_model = "auto"\n\n[supervision]\nmodel = "auto"\n'

# The command


def _user(home: Path) -> Path:
    return Path(os.environ["HOME"]) / ".claude" / "settings.json"


def test_without_a_terminal_and_yes_nothing_changes(run: Run, home: Path) -> None:
    ended = run("init", "claude-code")
    assert ended.code == 2
    assert "--yes" in ended.err
    assert not _user(home).exists()


def test_it_writes_the_users_settings_for_no_other_user_to_read(run: Run, home: Path) -> None:
    ended = run("init", "claude-code", "--yes")
    assert ended.code == 0, ended.err
    path = _user(home)
    said = json.loads(path.read_text())
    assert set(said["hooks"]) == set(EVENTS)
    assert {hook["type"] for groups in said["hooks"].values() for hook in groups[0]["hooks"]} == {"command"}
    assert "lga_" not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = run("init", "claude-code", "--yes")
    assert "nothing to do" in again.out
    assert run("init", "claude-code", "--remove", "--yes").code == 0
    assert path.read_text() == "{}\n"


def test_a_file_that_others_could_read_is_shut_once_a_token_is_in_it(run: Run, home: Path) -> None:
    path = _user(home)
    path.parent.mkdir()
    path.write_text(THEIRS)
    path.chmod(0o644)
    ended = run("init", "claude-code", "--http", "--yes")
    assert ended.code == 0
    assert "believes any program that has taken the service's port" in ended.out
    assert "Bearer lga_" in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    kept = path.with_name("settings.json.before-lockgate")
    assert kept.read_text() == THEIRS
    assert run("init", "claude-code", "--remove", "--yes").code == 0
    assert path.read_text() == THEIRS


def test_a_person_is_shown_the_change_without_the_token_and_may_say_no(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def answer(question: str) -> str:
        asked.append(question)
        return "n"

    monkeypatch.setattr("builtins.input", answer)
    ended = run("init", "claude-code", "--http", at_terminal=True)
    assert ended.code == 1
    assert "lines in, 0 out; everything else stays as it is\n" in ended.out
    assert '"PreToolUse"' not in ended.out
    assert ended.out.endswith(f"nothing was changed: {_user(home)} is as it was\n")
    answers = iter(["d", "n"])
    monkeypatch.setattr("builtins.input", lambda _: next(answers))
    ended = run("init", "claude-code", "--http", at_terminal=True)
    assert ended.code == 1
    assert '+    "PreToolUse": [' in ended.out
    assert "lga_" not in ended.out
    assert asked
    assert not _user(home).exists()
    monkeypatch.setattr("builtins.input", lambda _: "y")
    assert run("init", "claude-code", at_terminal=True).code == 0
    assert _user(home).exists()


def test_own_lines_are_shown_as_they_are_and_the_token_is_not(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = json.dumps(
        {"hooks": {event: [{"hooks": [{"type": "command", "command": "audit.sh --all"}]}] for event in EVENTS}},
        indent=2,
    )
    path = _user(home)
    path.parent.mkdir()
    for text in (theirs, json.dumps(json.loads(theirs))):
        path.write_text(text)
        for options in (["--http"], ["--remove"]):
            answers = iter(["d", "y", "", ""])
            monkeypatch.setattr("builtins.input", lambda _, answers=answers: next(answers))
            ended = run("init", "claude-code", *options, at_terminal=True)
            assert ended.code == 0
            assert "/hooks/claude-code" in ended.out
            assert "audit.sh --all" in ended.out or text == theirs
            assert "•" not in ended.out
            assert "lga_" not in ended.out
        assert path.read_text() == text


def test_what_was_kept_is_never_lost(run: Run, home: Path) -> None:
    path = _user(home)
    path.parent.mkdir()
    for text in (THEIRS, '{"model": "opus"}\n', THEIRS):
        path.write_text(text)
        assert run("init", "claude-code", "--command", "--yes").code == 0
    kept = [path.with_name(f"settings.json.before-lockgate{end}").read_text() for end in ("", "-1")]
    assert kept == [THEIRS, '{"model": "opus"}\n']
    assert not path.with_name("settings.json.before-lockgate-2").exists(), "it is there already"


@pytest.mark.parametrize("scope", ["user", "local"])
@pytest.mark.parametrize("then", ["--remove", "--command"])
def test_no_copy_holds_our_token(run: Run, home: Path, scope: str, then: str) -> None:
    """The file of a folder may be ignored by git; a copy beside it is not."""
    path = claude_code.settings_path(scope, cwd=Path.cwd(), environ=os.environ)
    path.parent.mkdir(parents=True, exist_ok=True)
    hook = {"type": "http", "url": "https://x", "headers": {"Authorization": "Bearer own"}}
    theirs = json.dumps({"hooks": {"Stop": [{"hooks": [hook]}]}}) + "\n"
    path.write_text(theirs)
    local = ["--local"] if scope == "local" else []
    assert run("init", "claude-code", "--http", "--yes", *local).code == 0
    assert "Bearer lga_" in path.read_text()
    assert run("init", "claude-code", then, "--yes", *local).code == 0
    copies = [each.read_text() for each in path.parent.glob("*.before-lockgate*")]
    assert len(copies) == 2
    assert theirs in copies
    assert not any("lga_" in each for each in copies)
    assert all("Bearer own" in each for each in copies)


def test_a_copy_that_is_a_link_is_not_written_through(run: Run, home: Path) -> None:
    path = _user(home)
    path.parent.mkdir()
    path.write_text(THEIRS)
    (home / "elsewhere").write_text("mine")
    path.with_name("settings.json.before-lockgate").symlink_to(home / "elsewhere")
    assert run("init", "claude-code", "--yes").code == 0
    assert (home / "elsewhere").read_text() == "mine"
    assert path.with_name("settings.json.before-lockgate-1").read_text() == THEIRS


@pytest.mark.parametrize("scope", ["user", "project", "local"])
def test_settings_that_switch_all_hooks_off_are_told(run: Run, home: Path, scope: str) -> None:
    path = claude_code.settings_path(scope, cwd=Path.cwd(), environ=os.environ)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('{"disableAllHooks": true}')
    ended = run("init", "claude-code", "--yes")
    assert ended.code == 0
    assert f"{os.path.realpath(path)} disables all hooks" in ended.out


@pytest.mark.parametrize(
    "name",
    "HTTP_PROXY no_proxy PYTHONPATH LD_PRELOAD NODE_OPTIONS LOCKGATE_URL CLAUDE_CODE_ENTRYPOINT".split(),
)
def test_variables_of_a_folder_that_lead_hooks_elsewhere_are_told(run: Run, home: Path, name: str) -> None:
    folder = Path.cwd() / ".claude"
    folder.mkdir()
    (folder / "settings.json").write_text(json.dumps({"env": {name: "x", "EDITOR": "vi"}}))
    (note,) = [line for line in run("init", "claude-code", "--yes").out.splitlines() if "can lead our hooks" in line]
    assert f"`{name}`" in note
    assert "EDITOR" not in note


def test_the_command_heeds_no_variable(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evil = home / "evil"
    evil.mkdir()
    (evil / "sitecustomize.py").write_text("import os; os._exit(0)")
    assert run("init", "claude-code", "--command", "--url", "http://127.0.0.1:9", "--no-start", "--yes").code == 0
    (group,) = json.loads(_user(home).read_text())["hooks"]["PreToolUse"]
    (hook,) = group["hooks"]
    ended = subprocess.run(
        [hook["command"], *hook["args"]],
        input=b'{"hook_event_name":"PreToolUse"}',
        env={"PYTHONPATH": str(evil), "HOME": str(home), "LOCKGATE_AGENT_TOKEN": "lga_" + "t" * 40},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 2, ended.stderr
    assert b"lockgate" in ended.stderr


def test_the_service_is_asked_where_it_is(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = home / "mine.toml"
    config.write_text("[server]\nport = 7801\n")
    asked: list[str] = []

    def answers(url: str) -> bool:
        asked.append(url)
        return False

    monkeypatch.setattr(wiring, "service_answers", answers)
    ended = run("init", "claude-code", "--http", "--yes", "--no-start", "--config", str(config))
    assert "http://127.0.0.1:7801/hooks/claude-code" in _user(home).read_text()
    assert "nothing answers at http://127.0.0.1:7801" in ended.out
    assert "--url" in ended.out
    assert run("init", "claude-code", "--yes", "--config", str(config), "--url", "http://localhost:7802").code == 0
    text = _user(home).read_text()
    assert '"http://localhost:7802"' in text
    assert "7801" not in text
    assert asked == ["http://127.0.0.1:7801", "http://localhost:7802"]


def test_own_hooks_start_the_service_with_the_folders_of_today(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setattr(wiring, "service_answers", lambda _: False)
    config = home / "mine.toml"
    config.write_text("")
    ended = run("init", "claude-code", "--yes", "--config", "mine.toml")
    assert "the first prompt starts the service" in ended.out
    hooks = json.loads(_user(home).read_text())["hooks"]
    for event in ("SessionStart", "UserPromptSubmit", "SessionEnd"):
        ((hook,),) = (group["hooks"] for group in hooks[event])
        at = hook["args"].index("--start")
        assert hook["args"][at + 1 :] == [
            f"HOME={os.environ['HOME']}",
            f"XDG_CONFIG_HOME={os.environ['XDG_CONFIG_HOME']}",
            f"XDG_CACHE_HOME={os.environ['XDG_CACHE_HOME']}",
            f"LOCKGATE_CONFIG={config}",
        ]
    # Time enough to start it, and to compile the rules.
    assert [hooks[event][0]["hooks"][0]["timeout"] for event in ("SessionStart", "UserPromptSubmit")] == [45, 45]
    assert "nothing to do" in run("init", "claude-code", "--yes", "--config", "mine.toml").out


@pytest.mark.parametrize("why", ["--no-start", "--project", "another machine", "LOCKGATE_TOKEN"])
def test_some_hooks_start_nothing(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    words = [why] if why.startswith("--") else []
    if why == "another machine":
        words = ["--url", "http://192.0.2.7:7717"]
    elif not words:
        # Such a service has its tokens from variables, which the hooks do not pass on.
        monkeypatch.setenv(why, "t" * 40)
    assert run("init", "claude-code", "--yes", *words).code == 0
    path = home / ".claude" / "settings.json" if why == "--project" else _user(home)
    assert "--start" not in path.read_text()


def test_observe_needs_hooks_in_the_command_form(run: Run, home: Path) -> None:
    config = home / "mine.toml"
    config.write_text('[server]\nwhen_down = "observe"\n')
    ended = run("init", "claude-code", "--http", "--yes", "--config", str(config))
    assert ended.code == 2
    assert "needs hooks in the command form" in ended.err
    assert not _user(home).exists()
    assert run("init", "claude-code", "--yes", "--config", str(config)).code == 0


def test_hooks_that_asked_over_http_become_commands_and_the_reason_is_told(run: Run, home: Path) -> None:
    assert run("init", "claude-code", "--http", "--yes").code == 0
    ended = run("init", "claude-code", "--yes")
    assert "these hooks asked over HTTP, where any program on the port is believed" in ended.out
    assert "lga_" not in _user(home).read_text()
    again = run("init", "claude-code", "--command", "--yes")
    assert "nothing to do" in again.out
    assert "over HTTP" not in again.out


@pytest.mark.parametrize("url", ["https://x:1", "127.0.0.1:7717", "http://a@127.0.0.1:1", "http://example.com:7717"])
def test_no_token_goes_to_an_odd_address(run: Run, home: Path, url: str) -> None:
    ended = run("init", "claude-code", "--http", "--yes", "--url", url)
    assert ended.code == 2
    assert "--url" in ended.err or "machine" in ended.err
    assert not _user(home).exists()


def test_what_is_committed_holds_no_token_and_no_path(run: Run, home: Path) -> None:
    ended = run("init", "claude-code", "--project", "--yes", "--json")
    said = json.loads(ended.out)
    text = Path(said["path"]).read_text()
    assert said["path"] == str(Path.cwd() / ".claude" / "settings.json")
    assert "lga_" not in text
    assert str(home) not in text
    assert '"command": "lockgate"' in text
    shared = run("init", "claude-code", "--project", "--http", "--yes")
    assert (shared.code, "a project's file is shared" in shared.err) == (2, True)


def test_the_local_file_is_another_one(run: Run) -> None:
    assert run("init", "claude-code", "--local", "--yes").code == 0
    assert (Path.cwd() / ".claude" / "settings.local.json").exists()
    assert run("init", "claude-code", "--local", "--project", "--yes").code == 2


def test_a_link_to_elsewhere_is_refused_and_one_at_home_gets_no_token(
    run: Run, home: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = _user(home)
    path.parent.mkdir()
    away = tmp_path_factory.mktemp("away") / "settings.json"
    away.write_text("{}")
    path.symlink_to(away)
    ended = run("init", "claude-code", "--yes")
    assert ended.code == 2
    assert "is a link to" in ended.err
    assert away.read_text() == "{}"
    path.unlink()
    dotfiles = Path(os.environ["HOME"]) / "dotfiles.json"
    dotfiles.write_text("{}")
    path.symlink_to(dotfiles)
    assert "leave --http out" in run("init", "claude-code", "--http", "--yes").err
    assert run("init", "claude-code", "--yes").code == 0
    assert path.is_symlink()
    assert "lga_" not in dotfiles.read_text()
    assert set(json.loads(dotfiles.read_text())["hooks"]) == set(EVENTS)


def test_broken_settings_are_an_error_with_their_place(run: Run, home: Path) -> None:
    path = _user(home)
    path.parent.mkdir()
    path.write_text('{\n  "a": 1,\n}\n')
    ended = run("init", "claude-code", "--yes")
    assert ended.code == 2
    assert "settings.json" in ended.err
    assert "line 3" in ended.err or "line 2" in ended.err
    assert path.read_text() == '{\n  "a": 1,\n}\n'


def test_a_change_made_meanwhile_is_not_lost(home: Path) -> None:
    path = home / "settings.json"
    path.write_text("{}")
    plan = claude_code.plan_change(path, HookForm("lockgate"), within=home)
    path.write_text('{"model": "opus"}')
    with pytest.raises(LockgateError, match="changed meanwhile"):
        claude_code.apply_change(plan)
    assert path.read_text() == '{"model": "opus"}'


def test_a_claude_code_that_runs_calls_whose_hook_has_failed_is_refused(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wiring, "installed_version", lambda: (2, 1, 294))
    ended = run("init", "claude-code", "--yes")
    assert ended.code == 2
    assert "claude update" in ended.err


@pytest.mark.parametrize(
    ("said", "version"),
    [("2.1.325 (Claude Code)\n", (2, 1, 325)), ("2.1", ()), ("", ()), ("error 2.1.3", ()), ("9" * 99 + ".1.1", ())],
    ids=["usual", "short", "nothing", "error", "long"],
)
def test_versions_are_read_strictly(said: str, version: tuple[int, ...]) -> None:
    assert claude_code.parse_version(said) == version


def test_a_pack_goes_into_the_operators_own_configuration_and_out_again(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = home.parent / "config" / "lockgate" / "config.toml"
    done = run("init", "claude-code", "--yes", "--pack", "coding")
    assert (done.code, "added the pack coding" in done.out) == (0, True)
    assert "secrets-stay: " in run("policy", "explain").out
    assert path.stat().st_mode & 0o777 == 0o600
    again = run("init", "claude-code", "--yes", "--pack", "coding")
    assert (again.code, "the pack is as it was" in again.out) == (0, True)
    left = run("init", "claude-code", "--yes", "--remove")
    assert (left.code, "--remove --pack coding takes it out" in left.out) == (0, True)
    gone = run("init", "claude-code", "--yes", "--remove", "--pack", "coding")
    assert (gone.code, path.read_text()) == (0, AUTO)
    wrong = run("init", "claude-code", "--yes", "--pack", "cooking")
    assert (wrong.code, "no pack is called `cooking`" in wrong.err) == (2, True)
    answers = iter(["y", "mail-assistant", "y"])
    monkeypatch.setattr("builtins.input", lambda _: next(answers))
    asked = run("init", "claude-code", at_terminal=True)
    assert (asked.code, "added the pack mail-assistant" in asked.out) == (0, True)


# Who judges


def _config(home: Path) -> Path:
    return home.parent / "config" / "lockgate" / "config.toml"


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No embedded judge, no key and no server of the developer's."""
    monkeypatch.setattr(assemble, "is_embedded_installed", lambda: False)
    monkeypatch.setattr(init, "find_local_servers", list)
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("alone")
def test_a_person_is_told_who_would_judge_before_a_model_may(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for reply in ("n", "y"):
        answers = iter(["y", reply, ""] if reply == "n" else [reply, ""])
        monkeypatch.setattr("builtins.input", lambda _, answers=answers: next(answers))
        ended = run("init", "claude-code", at_terminal=True)
        assert ended.code == 0, ended.err
        assert (
            "Claude Code's own small model can judge doubtful calls once it has passed an exam: Anthropic sees your"
            " goal, the call and excerpts of what the agent has read, secrets taken out, and a question costs about"
            " 1,500 tokens of your plan or key, at most 1,000 questions a day.\n"
        ) in ended.out
        if reply == "n":
            assert "no model was chosen as a judge" in ended.out
            assert not _config(home).exists()
    assert _config(home).read_text() == AUTO
    assert "until then no model judges, and only what the rules doubt is held back (narrow)" in ended.out
    assert "next: `lockgate judge exam host:claude-code`, about 1,000 questions of your plan or key" in ended.out


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(
    ("agent", "said"),
    [
        ("claude-code", "lockgate judge exam host:claude-code"),
        ("codex", "lockgate judge exam host:codex"),
        ("gemini", "lockgate judge exam MODEL"),
        ("copilot", "lockgate judge exam MODEL"),
        ("opencode", "lockgate judge exam MODEL"),
    ],
)
def test_without_a_terminal_auto_is_written_and_asks_no_model(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch, agent: str, said: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")
    server = LocalServer("Ollama", 11434, ("local:11434/qwen3:8b",))
    monkeypatch.setattr(init, "find_local_servers", lambda: [server])
    notes = json.loads(run("init", agent, "--yes", "--json").out)["notes"]
    assert _config(home).read_text() == AUTO
    told = "\n".join(notes)
    for part in (
        "a model judges once it has passed its exam, not before",
        f"next: `{said}`",
        "OPENAI_API_KEY is set: `lockgate judge exam gpt-luna` would use it, and cost money",
        "Ollama seems to answer on port 11434: `lockgate judge exam local:11434/qwen3:8b`",
    ):
        assert part in told
    assert "sk-canary" not in told
    settings = assemble.settings_from_environment()
    assert assemble.judges_from_settings(settings) == (None, None)
    again = json.loads(run("init", agent, "--json").out)
    assert (again["changed"], _config(home).read_text()) == (False, AUTO)


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(
    ("text", "said", "after"),
    [
        ('[security.verification]\ntriage_model = "none"\n', "`triage_model` is `none` in your configuration", None),
        (
            '[supervision]\nmodel = "claude-opus"\n',
            "once it has passed its exam",
            '[supervision]\nmodel = "claude-opus"\n',
        ),
        ('security.verification = { escalate = "wide" }\n', "no judge was chosen: `security.verification.triage", None),
    ],
)
def test_what_the_operator_has_chosen_stays(run: Run, home: Path, text: str, said: str, after: str | None) -> None:
    _config(home).parent.mkdir(parents=True)
    _config(home).write_text(text)
    ended = run("init", "claude-code", "--yes")
    assert (ended.code, said in ended.out) == (0, True), ended.out
    assert _config(home).read_text() == (text if after is None else after + "\n" + AUTO.partition("\n\n")[0] + "\n")
    assert _user(home).exists()
