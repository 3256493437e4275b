"""`lockgate policy` as a person uses it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lockgate.cli.main import main
from lockgate.settings.policy_packs import list_packs, pack_path


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "LOCKGATE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", list_packs())
def test_every_pack_keeps_what_it_promises(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "test", str(pack_path(name))]) == 0, capsys.readouterr().out


def test_a_pack_in_the_configuration_is_explained(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "packs"]) == 0
    assert "mail-assistant" in capsys.readouterr().out
    assert main(["policy", "explain"]) == 0
    assert "No flow rules" in capsys.readouterr().out
    assert main(["policy", "pack", "mail-assistant"]) == 0
    (home / ".config" / "lockgate").mkdir(parents=True)
    (home / ".config" / "lockgate" / "config.toml").write_text(capsys.readouterr().out)
    assert main(["policy", "explain"]) == 0
    assert "no-text-chooses-a-recipient: text from *:* to recipient waits for a person." in capsys.readouterr().out
    assert main(["policy", "explain", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["policy"].startswith("sha256:")


def test_a_ruling_that_is_not_as_expected_is_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = home / "policy.toml"
    row = '[[test]]\nname = "held"\ncall = "send_email"\narguments = { to = "a@b.example" }\nexpect = "PAUSE"\n'
    file.write_text(row)
    assert main(["policy", "test", "policy.toml"]) == 1
    out = capsys.readouterr().out
    assert "FAIL  held: CONTINUE" in out
    assert "0 of 1 test as expected" in out
    all_held = '[[flow]]\nname = "all"\nafter = "*"\nto = "out"\n'
    file.write_text(all_held + row + 'finding = "flow:other"\ngoal = "x"\n')
    assert main(["policy", "test", "policy.toml", "--json"]) == 1
    (ruled,) = json.loads(capsys.readouterr().out)["tests"]
    assert (ruled["ruled"], ruled["ok"]) == ("PAUSE", False)


def test_the_users_own_settings_do_not_decide_a_test(home: Path) -> None:
    (home / ".config" / "lockgate").mkdir(parents=True)
    (home / ".config" / "lockgate" / "config.toml").write_text('[[flow]]\nname = "all"\nafter = "*"\nto = "out"\n')
    (home / "policy.toml").write_text('[[test]]\ngoal = "x"\ncall = "send_email"\nexpect = "CONTINUE"\n')
    assert main(["policy", "test", "policy.toml"]) == 0


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["test"], "needs a FILE"),
        (["pack"], "needs a NAME"),
        (["explain", "x"], "takes no name"),
        (["pack", "nothing"], "no pack is called"),
        (["test", "nowhere.toml"], "no such file"),
    ],
)
def test_a_mistake_is_named(argv: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", *argv]) == 2
    assert said in capsys.readouterr().err
