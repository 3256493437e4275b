"""Transcripts of `lockgate config`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lockgate.settings.config import KEYS

Run = Callable[..., Any]


def test_the_defaults_are_shown_with_where_files_would_be(run: Run) -> None:
    ended = run("config", "show")
    assert (ended.code, ended.err) == (0, "")
    for key in KEYS:
        assert f"{key.key} = " in ended.out
    assert "no file found, so these are the defaults; looked for: /etc/lockgate/config.toml" in ended.out


def test_each_value_says_where_it_came_from(run: Run) -> None:
    Path("lockgate.toml").write_text('[security]\nmode = "paranoid"\n')
    out = run("config", "show").out
    (line,) = [line for line in out.splitlines() if line.startswith("security.mode ")]
    assert line.startswith('security.mode = "paranoid" ')
    assert line.endswith("lockgate.toml")
    assert "project file" in out


def test_json_says_the_same(run: Run) -> None:
    Path("mine.toml").write_text("[security.verification]\nstrict_patterns = true\n")
    shown = json.loads(run("config", "show", "--json", "--config", "mine.toml").out)
    (setting,) = [each for each in shown["settings"] if each["key"] == "security.verification.strict_patterns"]
    assert setting["value"] == "true"
    assert setting["origin"].endswith("mine.toml")
    assert shown["policy"].startswith("sha256:")
    assert [each["role"] for each in shown["files"] if each["file"]] == ["explicit"]


def test_a_good_configuration_is_valid(run: Run) -> None:
    Path("mine.toml").write_text('[security]\nuser_trust = "vetted"\n')
    ended = run("config", "validate", "--config", "mine.toml")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("ok: the configuration is valid\nexplicit file ")
    assert json.loads(run("config", "validate", "--json").out)["valid"] is True


def test_a_bad_configuration_is_named_with_file_and_key(run: Run) -> None:
    cases = {
        "[security]\nmoed = 'default'\n": "moed",
        "[security]\nmode = 3\n": "mode",
        "[security\n": "",
        "[security.verification]\nadditional_patterns = ['(?<=a)b']\n": "additional_patterns",
    }
    for text, key in cases.items():
        Path("mine.toml").write_text(text)
        for what in ("show", "validate"):
            ended = run("config", what, "--config", "mine.toml")
            assert (ended.code, ended.out) == (2, "")
            assert ended.err.startswith("lockgate: error: ")
            assert "mine.toml" in ended.err
            assert key in ended.err


def test_a_file_that_is_not_there_is_an_error(run: Run) -> None:
    ended = run("config", "validate", "--config", "nowhere.toml")
    assert ended.code == 2
    assert "nowhere.toml" in ended.err


def test_a_project_file_cannot_loosen(run: Run) -> None:
    Path("mine.toml").write_text('[security]\nmode = "paranoid"\n')
    Path("lockgate.toml").write_text('[security]\nmode = "default"\n')
    ended = run("config", "validate", "--config", "mine.toml")
    assert ended.code == 2
    assert "loosen" in ended.err
