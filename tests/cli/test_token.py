"""`lockgate token`: what it makes, prints and refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from proving import TOKEN, listening

from lockgate.cli.main import main


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOCKGATE_CONFIG", "LOCKGATE_TOKEN", "LOCKGATE_AGENT_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.chdir(tmp_path)


def test_tokens_are_made_printed_and_changed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    def printed(*options: str) -> str:
        assert main(["token", *options]) == 0
        out, err = capsys.readouterr()
        assert err == ""
        return out

    person, agent = printed(), printed("--agent")
    assert person.startswith("lgp_")
    assert agent.startswith("lga_")
    assert printed() == person
    assert printed("--rotate") != person
    assert printed("--agent") == agent
    assert (tmp_path / "lockgate" / "token").stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in (tmp_path / "lockgate").iterdir()) == ["agent-token", "token"]


def test_a_token_of_the_environment_is_the_token(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCKGATE_TOKEN", "t" * 24)
    assert main(["token"]) == 0
    assert capsys.readouterr().out == "t" * 24 + "\n"
    assert main(["token", "--rotate"]) == 2
    assert "LOCKGATE_TOKEN is set" in capsys.readouterr().err
    monkeypatch.setenv("LOCKGATE_TOKEN", "short")
    assert main(["token"]) == 2


def test_no_program_but_the_service_is_handed_a_login_code(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LOCKGATE_AGENT_TOKEN", TOKEN)
    with listening({"/healthz": b'{"status":"ok"}'}) as there:
        monkeypatch.setenv("LOCKGATE_URL", there.url)
        assert main(["token", "--url"]) == 0
        assert capsys.readouterr().out.startswith(f"{there.url}/#code=")
        there.token = ""
        assert main(["token", "--url"]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert f"another program listens on 127.0.0.1:{there.port}" in err
    # A program that takes the port later would get it.
    assert main(["token", "--url"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "no service answers" in err
    assert len(list((tmp_path / "lockgate" / "page-codes").iterdir())) == 1


def test_a_person_gets_a_token_of_their_own(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["token", "--person", "ana"]) == 0
    made = capsys.readouterr().out
    assert main(["token"]) == 0
    assert capsys.readouterr().out != made
    file = tmp_path / "lockgate" / "people" / "ana"
    assert (file.read_text(), file.stat().st_mode & 0o777) == (made, 0o600)
    assert main(["token", "--person", "ana", "--rotate"]) == 0
    assert capsys.readouterr().out != made
    for wrong in ("../token", "a b", ".", "x" * 65):
        assert main(["token", "--person", wrong]) == 2
    assert "is no name for a person" in capsys.readouterr().err
