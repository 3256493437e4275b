"""A gate that is given nothing: environment, configuration file, stores, journal."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from asgi import ATTACK, HARMLESS, Handler, Reply, chat, post

from lockgate import InvalidConfig, assemble
from lockgate.abuse_gate import defaults as wiring
from lockgate.abuse_gate.identity import Identity
from lockgate.abuse_gate.middleware import AbuseGateMiddleware
from lockgate.core.ruling.policy import Policy
from lockgate.core.text.rules import RULES, Rule
from lockgate.core.text.scanner import Scanner
from lockgate.gate.gate import shared_scanner
from lockgate.runtime.metrics import Metrics
from lockgate.settings.abuse_gate import AbuseSettings, abuse_settings_from_env

SECRET = "0123456789abcdef" * 4


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine on which nothing is configured."""
    for name, folder in (("HOME", ""), ("XDG_CONFIG_HOME", "c"), ("XDG_CACHE_HOME", "k"), ("XDG_STATE_HOME", "s")):
        monkeypatch.setenv(name, str(tmp_path / folder))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setattr(assemble, "cached_scanner", lambda rules, folder: shared_scanner(Policy()))
    return tmp_path


def configure(home: Path, text: str, *, name: str = "c/lockgate/config.toml") -> None:
    file = home / name
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    file.chmod(0o600)


def ask(app: Any, text: str, **about: Any) -> Reply:
    return asyncio.run(post(app, chat(text), **about))


def test_a_gate_that_is_given_nothing_works_and_keeps_a_journal(home: Path) -> None:
    handler = Handler()
    gate = AbuseGateMiddleware(handler)  # type: ignore[arg-type]
    assert (ask(gate, HARMLESS).status, ask(gate, ATTACK).status) == (200, 403)
    (log,) = (home / "s" / "lockgate").glob("journal.db")
    assert log.stat().st_size > 0
    assert b"system prompt" not in log.read_bytes()


def test_settings_in_code_leave_the_journal_and_the_policy_as_they_are_configured(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(home, "[security.verification]\nadditional_patterns = ['purple elephants']\n")
    built: list[int] = []

    def cached(rules: Sequence[Rule], _: object) -> Scanner:
        built.append(len(rules))
        return shared_scanner(Policy())

    monkeypatch.setattr(assemble, "cached_scanner", cached)
    gate = AbuseGateMiddleware(Handler(), settings=AbuseSettings(on_unclear="block"))  # type: ignore[arg-type]
    assert ask(gate, ATTACK).status == 403
    assert (home / "s" / "lockgate" / "journal.db").stat().st_size > 0
    assert gate._gate.policy.additional_patterns == ("purple elephants",)
    # The rules for agents with the pattern, and for requests the pattern alone.
    assert set(built) == {len(RULES) + 1, 1}


def test_without_authentication_a_client_is_locked_out_by_its_network(home: Path) -> None:
    gate = AbuseGateMiddleware(Handler())  # type: ignore[arg-type]
    statuses = [ask(gate, ATTACK, client=("8.8.8.8", 4711)).status for _ in range(8)]
    assert statuses == [403] * 5 + [429] * 3
    assert ask(gate, HARMLESS, client=("8.8.8.8", 4712)).status == 429
    assert ask(gate, HARMLESS, client=("1.1.1.1", 4711)).status == 200
    assert ask(gate, HARMLESS, client=("8.8.8.8", 4711), user="ann").status == 200


def test_a_gate_without_a_journal_is_one_that_was_asked_for(home: Path) -> None:
    gate = AbuseGateMiddleware(Handler(), settings=AbuseSettings(), journal=False)  # type: ignore[arg-type]
    assert ask(gate, ATTACK).status == 403
    assert not (home / "s" / "lockgate" / "journal.db").exists()


def test_the_table_of_the_operator_s_file_counts_and_the_environment_goes_first(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(home, "[abuse_gate]\ntier1_threshold = 1\noverride_mode = 'clarify'\n")
    gate = AbuseGateMiddleware(Handler())  # type: ignore[arg-type]
    assert ask(gate, ATTACK, user="eve").mode == "execute_locked"
    monkeypatch.setenv("ABUSE_TIER1_THRESHOLD", "4")
    gate = AbuseGateMiddleware(Handler())  # type: ignore[arg-type]
    assert (ask(gate, ATTACK, user="eve").status, ask(gate, ATTACK, user="eve").mode) == (422, "")


def test_a_repository_cannot_switch_the_gate_off(home: Path) -> None:
    configure(home, "[abuse_gate]\nenabled = false\n", name="work/lockgate.toml")
    with pytest.raises(InvalidConfig, match="abuse_gate"):
        AbuseGateMiddleware(Handler())  # type: ignore[arg-type]


@pytest.mark.parametrize("framework", ["plain", "starlette"])
def test_a_gate_with_a_setting_that_makes_no_sense_does_not_start(
    home: Path, monkeypatch: pytest.MonkeyPatch, framework: str
) -> None:
    from starlette.applications import Starlette

    monkeypatch.setenv("ABUSE_TIER1_TRESHOLD", "1")
    app = Starlette()
    app.add_middleware(AbuseGateMiddleware)  # type: ignore[arg-type]
    with pytest.raises(InvalidConfig, match="TRESHOLD"):
        ask(app, HARMLESS) if framework == "starlette" else AbuseGateMiddleware(Handler())  # type: ignore[arg-type]


def settings(**said: str) -> AbuseSettings:
    return abuse_settings_from_env({"ABUSE_SECRET": SECRET, **said})


def test_a_ban_outlives_the_process_where_a_file_keeps_it(home: Path) -> None:
    chosen = settings(
        ABUSE_BANS_FILE=str(home / "bans.db"), ABUSE_TIER1_THRESHOLD="1", ABUSE_TIER1_MODE="full_quarantine"
    )

    async def unsafe(_: Any) -> str:
        return "unsafe"

    def gate() -> AbuseGateMiddleware:
        return AbuseGateMiddleware(Handler(), settings=chosen, fetch_verdict=unsafe)  # type: ignore[arg-type]

    assert ask(gate(), "x", user="eve").mode == "full_quarantine"
    again = ask(gate(), "x", user="eve")
    assert (again.status, again.code) == (429, "quarantined")
    assert ask(gate(), "x", user="bob").status == 403
    assert b"eve" not in (home / "bans.db").read_bytes()


def test_a_shared_store_is_reached_with_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    class Store:
        def __init__(self, url: str, _: object) -> None:
            made.append(url)

    monkeypatch.setattr("lockgate.abuse_gate.stores.strikes_valkey.ValkeyStrikes", Store)
    wiring.ladder_from_settings(
        settings(ABUSE_STORE="valkeys://cache.internal:6380/2", ABUSE_STORE_PASSWORD="p@ss/w:rd"), Metrics()
    )
    wiring.ladder_from_settings(settings(ABUSE_STORE="valkey://127.0.0.1:6379/0"), Metrics())
    assert made == ["valkeys://:p%40ss%2Fw%3Ard@cache.internal:6380/2", "valkey://127.0.0.1:6379/0"]


def test_workers_with_one_secret_know_a_client_by_one_name() -> None:
    from asgi import scope

    first, second = (Identity.from_settings(settings()).subjects(scope(user="eve")) for _ in range(2))
    assert first == second
    assert Identity.from_settings(AbuseSettings()).subjects(scope(user="eve")) != first


def test_a_forwarded_address_counts_from_a_named_proxy_only() -> None:
    from asgi import scope

    def subject(client: str, forwarded: bytes) -> object:
        identity = Identity.from_settings(settings(ABUSE_TRUSTED_PROXIES="10.0.0.0/8"))
        return identity.subjects(scope(client=(client, 1), headers=[(b"x-forwarded-for", forwarded)]))[-1]

    plain = subject("198.51.100.7", b"")
    assert subject("10.0.0.1", b"1.2.3.4, 198.51.100.7") == plain
    assert subject("198.51.100.7", b"1.2.3.4") == plain
    assert subject("10.0.0.1", b"198.51.100.8") != plain
