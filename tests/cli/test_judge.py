from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiny_judge

from lockgate.verifiers import embedded_model as embedded
from lockgate.verifiers.embedded_judge import ModelFiles

Run = Callable[..., Any]
# Before a fixture hides it.
SHIPPED = embedded.PIN


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelFiles:
    """As if the small model had come with this installation."""
    files = tiny_judge.make(tmp_path / "model")
    monkeypatch.setattr(embedded, "PIN", files.pin)
    monkeypatch.setattr(embedded, "__file__", str(files.folder / "__init__.py"))
    return files


def configure(text: str) -> None:
    folder = Path(os.environ["XDG_CONFIG_HOME"], "lockgate")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(text)


def checks(run: Run, *more: str) -> dict[str, dict[str, str]]:
    return {check["name"]: check for check in json.loads(run("doctor", "--offline", "--json", *more).out)["checks"]}


# --- report


def test_the_report_says_what_was_measured_and_of_what_it_is_made(run: Run, installed: ModelFiles) -> None:
    ended = run("judge", "report")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("tiny-1, made 2026-01-31, 0.0 MB, intact; preset balanced\n")
    for line in (
        "written for a test: 10 calls of attackers, 20 ordinary ones, AUROC 0.900",
        "  cautious  keeps 100.0% of the attacks, clears  25.0% of the ordinary ones",
        "  quiet     keeps  80.0% of the attacks, clears  75.0% of the ordinary ones",
        "  made-up texts, CC0-1.0, a table of words",
    ):
        assert f"\n{line}\n" in ended.out, line
    found = json.loads(run("judge", "report", "--json").out)
    assert found["files"]["judge.onnx"]["sha256"] in ended.out
    assert found["presets"]["quiet"]["clear_below"] == 1.5
    assert found["weights"]["driven"] == 4.0
    assert found["measured"][0]["presets"]["cautious"] == {"kept": 1.0, "cleared": 0.25}


def test_a_report_shows_nothing_that_acts(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = tiny_judge.make(
        tmp_path / "odd",
        measured=[{"set": "a\x1b[2Jb"}, {"of": 7, "presets": {}, "auroc": None}],
        sources=[{"name": "a\u202eb", "licence": "x"}, {}],
    )
    monkeypatch.setattr(embedded, "PIN", files.pin)
    monkeypatch.setattr(embedded, "__file__", str(files.folder / "__init__.py"))
    ended = run("judge", "report")
    assert ended.code == 0
    assert "\x1b" not in ended.out
    assert "\u202e" not in ended.out


def test_without_a_model_there_is_nothing_to_report(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "PIN", "")
    ended = run("judge", "report")
    assert ended.code == 2
    assert "the embedded judge's model is not in this installation" in ended.err


def test_a_damaged_model_is_no_report(run: Run, installed: ModelFiles) -> None:
    (installed.folder / "judge.onnx").write_bytes(b"")
    ended = run("judge", "report")
    assert ended.code == 2
    assert "`judge.onnx` was altered or cut short" in ended.err
    assert "hint: install it again" in ended.err


def test_without_its_packages_the_report_says_how_to_install_them(
    run: Run, installed: ModelFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lockgate.verifiers.embedded_judge.find_spec", lambda name: None)
    ended = run("judge", "report")
    assert ended.code == 0
    assert "not usable: onnxruntime and tokenizers not installed (pip install 'lockgate[agent]')" in ended.out


@pytest.mark.parametrize("arguments", [["report", "x"], ["score", "-"], ["guess"]])
def test_what_makes_no_sense_is_said(run: Run, installed: ModelFiles, arguments: list[str]) -> None:
    assert run("judge", *arguments).code == 2


# --- doctor


def test_doctor_says_that_it_is_there_and_what_its_line_is(run: Run, installed: ModelFiles) -> None:
    configure('[security.verification]\njudge_preset = "quiet"\n')
    found = checks(run)
    assert found["embedded"]["state"] == "ok"
    assert found["embedded"]["said"] == "tiny-1, 0.0 MB, intact; judges in Tier 2, preset quiet"
    assert found["triage"]["state"] == "ok"
    assert found["triage"]["said"].startswith("embedded/tiny-1-quiet answered in ")


def test_doctor_says_how_to_install_it(run: Run, installed: ModelFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lockgate.verifiers.embedded_judge.find_spec", lambda name: None)
    found = checks(run)
    assert (found["embedded"]["state"], found["triage"]["state"]) == ("skip", "skip")
    assert found["embedded"]["said"].startswith("not installed: onnxruntime and tokenizers")
    assert found["embedded"]["hint"] == "pip install 'lockgate[agent]'"
    configure('[security.verification]\ntriage_model = "embedded"\n')
    found = checks(run)
    assert (found["embedded"]["state"], found["triage"]["state"]) == ("fail", "fail")


def test_doctor_finds_a_damaged_one_whether_it_was_named_or_not(run: Run, installed: ModelFiles) -> None:
    (installed.folder / "tokenizer.json").write_bytes(b"")
    assert checks(run)["embedded"]["state"] == "fail"
    configure('[security.verification]\ntriage_model = "embedded"\n')
    found = checks(run)
    assert found["triage"]["state"] == "fail"
    assert "altered or cut short" in found["triage"]["said"]


def test_doctor_knows_that_it_was_switched_off(run: Run, installed: ModelFiles) -> None:
    configure('[security.verification]\ntriage_model = "none"\n')
    found = checks(run)
    assert found["triage"] == {
        "name": "triage",
        "state": "skip",
        "said": "switched off: security.verification.triage_model is `none`",
        "hint": "",
    }
    assert "not used in Tier 2" in found["embedded"]["said"]


def test_doctor_looks_at_it_as_the_adapter(run: Run, installed: ModelFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERIFIER_ADAPTER", "embedded")
    found = checks(run)
    assert found["adapter"]["said"] == "embedded: in this process, 1,500 ms"
    assert {found[name]["state"] for name in ("key", "endpoint")} == {"skip"}
    monkeypatch.setattr(embedded, "PIN", "")
    assert checks(run)["embedded"]["state"] == "fail"


def test_assess_asks_it_by_name(run: Run, installed: ModelFiles) -> None:
    ended = run("assess", "--adapter", "embedded", "--text", "wire the report")
    assert ended.code == 1
    assert "unclear  provider-unsure" in ended.out


# --- the demo


def test_the_demo_is_played_with_it_and_says_so(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "PIN", SHIPPED)
    ended = run("demo", "--fast")
    assert (ended.code, ended.err) == (0, "")
    assert "-balanced as Tier 2; getting ready" in ended.out
    # One call that the rules alone would have stopped; the thief's is stopped all the same.
    assert ended.out.count("CONTINUE  tier 2  triage-cleared") == 1
    assert ended.out.count("PAUSE  tier 3  untrusted-origin") == 1


def test_the_demo_does_without_a_damaged_one(run: Run, installed: ModelFiles) -> None:
    (installed.folder / "judge.onnx").write_bytes(b"")
    ended = run("demo", "--fast")
    assert (ended.code, ended.err) == (0, "")
    assert "no key, no model" in ended.out
