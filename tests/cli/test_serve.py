"""`lockgate serve` and `lockgate token` as far as they do not serve: what is refused, and what is printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from lockgate.cli.main import main
from lockgate.cli.serve import _is_loopback, _refuse_outside
from lockgate.core.errors import InvalidConfig


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


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.0.2.7", "example.com"])
def test_another_address_is_refused_without_a_token_or_a_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, address: str
) -> None:
    assert main(["serve", "--host", address]) == 2
    assert "no token was set" in capsys.readouterr().err
    monkeypatch.setenv("LOCKGATE_TOKEN", "t" * 24)
    assert main(["serve", "--host", address]) == 2
    assert "allowed_hosts" in capsys.readouterr().err
    assert not (tmp_path / "lockgate").exists()


def test_what_may_be_listened_on() -> None:
    assert [
        name for name in ("127.0.0.1", "127.8.8.8", "::1", "localhost", "0.0.0.0", "x") if not _is_loopback(name)
    ] == [
        "0.0.0.0",
        "x",
    ]
    _refuse_outside("0.0.0.0", ("lockgate.example.com",), True)
    _refuse_outside("10.0.0.5", ("10.0.0.5:7717",), True)
    _refuse_outside("fd00::1", ("[fd00::1]",), True)
    for address, allowed in (("10.0.0.5", ("10.0.0.6",)), ("10.0.0.5", ()), ("0.0.0.0", ())):
        with pytest.raises(InvalidConfig, match="allowed_hosts"):
            _refuse_outside(address, allowed, True)


def test_odd_options_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for options in (["--port", "70000"], ["--workers", "0"], ["--workers", "x"], ["--connections", "0"], ["now"]):
        assert main(["serve", *options]) == 2
    assert "lockgate: error" in capsys.readouterr().err
