"""Transcripts of `lockgate doctor`: what is looked at, what is said to do, and that no key is ever shown."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lockgate.cli.doctor import HARMLESS, Check, Heard, State, clock_check, endpoint_check
from lockgate.cli.reasons import TOLD
from lockgate.core.assessment import REASONS, Assessment
from lockgate.core.questions import Question, Reply, Why
from lockgate.testing import LoopbackProvider
from lockgate.verifiers.compatible import Compatible

Run = Callable[..., Any]
NAMES = ["installation", "configuration", "engine", "cache", "adapter", "extras", "key", "endpoint", "clock"]
KEY = "sk-canary-0123456789abcdefghijklmn"


@pytest.fixture(autouse=True)
def _no_verifier(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in tuple(os.environ):
        if name.startswith(("VERIFIER_", "OPENAI_", "ANTHROPIC_", "AZURE_")):
            monkeypatch.delenv(name)


@pytest.fixture
def compatible(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def point(url: str) -> None:
        monkeypatch.setenv("VERIFIER_ADAPTER", "compatible")
        monkeypatch.setenv("VERIFIER_MODEL", "loopback")
        monkeypatch.setenv("VERIFIER_BASE_URL", f"{url}/v1")
        monkeypatch.setenv("VERIFIER_API_KEY", KEY)
        monkeypatch.setenv("VERIFIER_MAX_RETRIES", "0")

    return point


def states(out: str) -> dict[str, str]:
    return {check["name"]: check["state"] for check in json.loads(out)["checks"]}


def test_a_good_installation_has_nothing_to_fix(run: Run) -> None:
    ended = run("doctor")
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert [line[6:].split()[0] for line in lines[:-1]] == NAMES
    assert "valid: the defaults" in lines[1]
    assert "each finds its example" in lines[2]
    assert lines[-1] == "nothing to fix"


def test_json_says_the_same(run: Run) -> None:
    ended = run("doctor", "--json")
    assert ended.code == 0
    assert json.loads(ended.out)["ok"] is True
    assert list(states(ended.out)) == NAMES
    assert states(ended.out)["endpoint"] == "skip"


def test_what_is_wrong_comes_with_what_to_do_and_the_rest_is_still_looked_at(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("lockgate.toml").write_text("[security]\nmoed = 'default'\n")
    monkeypatch.setenv("VERIFIER_ADAPTER", "openai")
    ended = run("doctor")
    assert (ended.code, ended.err) == (1, "")
    assert "fail  configuration" in ended.out
    assert "hint: did you mean `mode`?" in ended.out
    assert "fail  adapter        VERIFIER_ADAPTER `openai` needs a key" in ended.out
    assert "hint: set OPENAI_API_KEY, or OPENAI_API_KEY_FILE" in ended.out
    assert "ok    engine" in ended.out
    assert ended.out.endswith("to fix: configuration, adapter\n")


def test_a_misspelt_variable_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERIFIER_TIMEOUT", "3")
    ended = run("doctor", "--offline")
    assert ended.code == 0
    assert "warn  adapter        none: the built-in rules answer; nobody reads VERIFIER_TIMEOUT" in ended.out
    assert ended.out.endswith("nothing to fix, 1 to look at\n")


def test_an_endpoint_that_answers_is_well_and_gets_one_harmless_question(
    run: Run, compatible: Callable[[str], None]
) -> None:
    with LoopbackProvider() as provider:
        compatible(provider.url)
        ended = run("doctor")
        assert ended.code == 0
        assert f"ok    endpoint       {provider.url}/v1 answered in " in ended.out
        (asked,) = provider.requests
        assert HARMLESS in asked.body.decode()
    assert KEY not in ended.out + ended.err


def test_where_only_tenants_have_keys_one_of_theirs_is_used(
    run: Run, compatible: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with LoopbackProvider() as provider:
        compatible(provider.url)
        monkeypatch.delenv("VERIFIER_API_KEY")
        monkeypatch.setenv("VERIFIER_API_KEY__acme", KEY)
        ended = run("doctor")
        assert ended.code == 0
        assert "ok    key            none for everybody, 1 for tenants" in ended.out
        assert [each.headers["authorization"] for each in provider.requests] == [f"Bearer {KEY}"]
    assert KEY not in ended.out


def test_offline_asks_nobody(run: Run, compatible: Callable[[str], None]) -> None:
    with LoopbackProvider() as provider:
        compatible(provider.url)
        ended = run("doctor", "--offline", "--json")
        assert (provider.requests, provider.connections) == ([], 0)
    assert states(ended.out)["endpoint"] == "skip"
    assert ended.code == 0


@pytest.mark.parametrize(
    ("fault", "state", "why"),
    [
        ("status-401", "fail", "unauthorized"),
        ("status-404", "fail", "client-error"),
        ("status-500", "fail", "server-error"),
        ("refused", "fail", "network"),
        ("redirect-307", "fail", "redirect"),
        ("html", "fail", "malformed-reply"),
        ("says-prose", "fail", "odd-answer"),
        ("429", "warn", "rate-limited"),
    ],
)
def test_an_endpoint_that_fails_is_explained(
    run: Run, compatible: Callable[[str], None], fault: str, state: str, why: str
) -> None:
    with LoopbackProvider(fault=fault) as provider:
        compatible(provider.url)
        ended = run("doctor", "--json")
    (found,) = [check for check in json.loads(ended.out)["checks"] if check["name"] == "endpoint"]
    assert (found["state"], ended.code) == (state, 1 if state == "fail" else 0)
    assert f": {why}: {TOLD[why].said}" in found["said"]
    assert found["hint"] == TOLD[why].todo
    assert KEY not in ended.out + ended.err
    assert ended.err == ""


def test_a_model_that_objects_to_a_harmless_question_is_worth_a_warning(
    run: Run, compatible: Callable[[str], None]
) -> None:
    with LoopbackProvider(say="unsafe") as provider:
        compatible(provider.url)
        ended = run("doctor")
    assert ended.code == 0
    assert "and called a harmless question unsafe" in ended.out


def test_a_key_file_that_everybody_can_read_is_worth_a_warning(
    run: Run, monkeypatch: pytest.MonkeyPatch, compatible: Callable[[str], None]
) -> None:
    compatible("http://127.0.0.1:9")
    file = Path("key").resolve()
    file.write_text(KEY)
    monkeypatch.delenv("VERIFIER_API_KEY")
    monkeypatch.setenv("VERIFIER_API_KEY_FILE", str(file))
    file.chmod(0o644)
    ended = run("doctor", "--offline")
    assert f"warn  key            {file} can be read by anybody" in ended.out
    assert f"hint: chmod o-r {file}" in ended.out
    file.chmod(0o600)
    ended = run("doctor", "--offline")
    assert "ok    key            one for everybody, 1 in files, read at each question" in ended.out
    assert KEY not in ended.out
    file.unlink()
    ended = run("doctor", "--offline")
    assert ended.code == 1
    assert "cannot be read: no such file or directory" in ended.out


@pytest.mark.skipif(os.name != "posix", reason="needs file modes")
def test_a_cache_that_others_can_write_is_not_used_and_is_named(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "mine" / "lockgate"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "mine"))
    ended = run("doctor", "--offline")
    assert ended.code == 0
    assert f"warn  cache          {folder}: can be written by anybody" in ended.out
    assert f"hint: chmod go-w {folder}" in ended.out


def test_a_cache_that_cannot_be_made_is_named(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    ended = run("doctor", "--offline")
    assert "warn  cache" in ended.out
    assert "rules are compiled at every start" in ended.out


def test_a_missing_extra_is_named_with_the_command_that_brings_it(
    run: Run, monkeypatch: pytest.MonkeyPatch, compatible: Callable[[str], None]
) -> None:
    compatible("http://127.0.0.1:9")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    ended = run("doctor", "--offline")
    assert ended.code == 1
    assert "fail  extras         the adapter `compatible` needs httpx2" in ended.out
    assert "hint: pip install 'lockgate[providers]'" in ended.out


def test_a_check_that_breaks_has_found_something(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(settings: object) -> None:
        raise RuntimeError(KEY)

    monkeypatch.setattr("lockgate.assemble.gate_from_settings", broken)
    ended = run("doctor", "--offline")
    assert ended.code == 1
    assert "fail  engine         could not be checked: RuntimeError" in ended.out
    assert KEY not in ended.out


@pytest.mark.parametrize(
    ("now", "theirs", "state", "said"),
    [
        (1.7e9, None, State.OK, "2023-11-14 22:13 UTC"),
        (1.7e9, 1.7e9 + 59, State.OK, "2023-11-14 22:13 UTC, as the endpoint has it"),
        (1.7e9, 1.7e9 - 3600, State.WARN, "2023-11-14 22:13 UTC is 3,600 s ahead of the endpoint's"),
        (1.7e9, 1.7e9 + 3600, State.WARN, "2023-11-14 22:13 UTC is 3,600 s behind the endpoint's"),
        (0.0, None, State.FAIL, "1970-01-01 00:00 UTC is before lockgate was installed here"),
        (-1.0, None, State.FAIL, "1970-01-01 00:00 UTC is before lockgate was installed here"),
    ],
)
def test_the_clock_is_held_against_what_is_known(now: float, theirs: float | None, state: State, said: str) -> None:
    check = clock_check(now, 1.69e9, theirs)
    assert (check.state, check.said) == (state, said)
    assert bool(check.hint) == (state is not State.OK)


@pytest.mark.parametrize("date", ["", "yesterday", "Tue, 99 Nov 2026 99:99:99 GMT", "\x1b[2J", "x" * 10_000])
def test_a_date_that_is_none_is_no_news(date: str) -> None:
    from lockgate.cli.doctor import _clock

    assert _clock([date]).state is State.OK


def test_the_server_s_own_time_is_heard() -> None:
    dates: list[str] = []
    heard = Heard(Compatible("m", "http://127.0.0.1:9/v1"), dates)
    question = Question("", "hello", "hello")
    assert (heard.name, heard.model) == ("compatible", "m")
    assert heard.request(question, "").url == "http://127.0.0.1:9/v1/chat/completions"
    heard.answer(question, Reply(500, {"date": "Sun, 15 Nov 2026 06:00:00 GMT"}, b""))
    heard.answer(question, Reply(500, {}, b""))
    assert dates == ["Sun, 15 Nov 2026 06:00:00 GMT"]


def test_every_reason_is_told_in_words() -> None:
    assert set(TOLD) == set(REASONS)
    assert all(TOLD[why.value].said for why in Why)


@pytest.mark.parametrize("reason", REASONS)
def test_every_reason_makes_a_line(reason: str) -> None:
    check = endpoint_check(Assessment("unclear", "openai", reason, 12.0), "https://api.example")
    assert isinstance(check, Check)
    assert check.state is not State.OK
    assert check.said.startswith("https://api.example")
