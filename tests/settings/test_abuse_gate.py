from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockgate.core.errors import InvalidConfig
from lockgate.core.requests.strikes import LadderSettings, Standing
from lockgate.settings.abuse_gate import VARIABLES, AbuseSettings, abuse_settings_from_env

SECRET = "s3cret-" * 6


def refusal(*, table: dict[str, object] | None = None, **environ: str) -> str:
    with pytest.raises(InvalidConfig) as caught:
        abuse_settings_from_env(environ, table=table)
    assert SECRET not in str(caught.value)
    return str(caught.value)


def test_nothing_said_is_the_defaults() -> None:
    assert abuse_settings_from_env({}) == AbuseSettings()
    assert abuse_settings_from_env({}).ladder == LadderSettings()


def test_every_variable_of_the_contract_counts() -> None:
    made = abuse_settings_from_env(
        {
            "ABUSE_GATE_ENABLED": "false",
            "ABUSE_STRIKE_WINDOW_SEC": "60.5",
            "ABUSE_TIER1_THRESHOLD": "2",
            "ABUSE_TIER1_MODE": "full_quarantine",
            "ABUSE_TIER1_COOLDOWN_SEC": "7",
            "ABUSE_TIER2_THRESHOLD": "9",
            "ABUSE_TIER2_MODE": "full_quarantine",
            "ABUSE_TIER2_COOLDOWN_SEC": "70",
        }
    )
    assert not made.enabled
    assert made.ladder == LadderSettings(
        window_s=60.5,
        tier1_threshold=2,
        tier1_mode=Standing.FULL_QUARANTINE,
        tier1_cooldown_s=7,
        tier2_threshold=9,
        tier2_mode=Standing.FULL_QUARANTINE,
        tier2_cooldown_s=70,
    )


def test_a_table_says_the_same_under_its_own_names_and_the_environment_goes_first() -> None:
    table: dict[str, object] = {
        "enabled": True,
        "strike_window_sec": 30,
        "tier1_threshold": 4,
        "tier2_cooldown_sec": 2_592_000.0,
        "on_unclear": "block",
        "trusted_proxies": ["10.0.0.0/8", "unix"],
    }
    made = abuse_settings_from_env({"ABUSE_TIER1_THRESHOLD": "5"}, table=table)
    assert (made.ladder.window_s, made.ladder.tier1_threshold) == (30, 5)
    assert made.ladder.tier2_cooldown_s == 2_592_000
    assert (made.on_unclear, made.trusted_proxies) == ("block", ("10.0.0.0/8", "unix"))


def test_every_variable_has_its_own_key_and_default() -> None:
    assert len({variable.name for variable in VARIABLES}) == len(VARIABLES)
    for variable in VARIABLES:
        if variable.default:
            assert abuse_settings_from_env({variable.variable: variable.default}) == AbuseSettings(), variable.variable
            assert abuse_settings_from_env({}, table={variable.name: variable.default}) == AbuseSettings(), (
                variable.variable
            )


@pytest.mark.parametrize("variable", [each for each in VARIABLES if each.most], ids=lambda each: each.variable)
def test_a_number_is_a_number_within_its_bounds(variable: object) -> None:
    name, least, most = variable.variable, variable.least, variable.most  # type: ignore[attr-defined]
    for odd in ("x", "-1", "nan", "inf", "1e3", "1_000", "٣", "0x10", str(int(most) + 1), "9" * 40):
        assert f"{name} must be a" in refusal(**{name: odd})
    if least >= 1:
        assert f"{name} must be a" in refusal(**{name: "0"})


@pytest.mark.parametrize("variable", [each for each in VARIABLES if each.words], ids=lambda each: each.variable)
def test_a_word_is_one_of_its_list(variable: object) -> None:
    name = variable.variable  # type: ignore[attr-defined]
    assert "must be one of" in refusal(**{name: "perhaps"})
    assert "must be one of" in refusal(**{name: "True" if name == "ABUSE_GATE_ENABLED" else "ALLOW"})


def test_a_misspelt_name_is_refused_and_the_right_one_named() -> None:
    assert "did you mean `ABUSE_TIER1_THRESHOLD`" in refusal(ABUSE_TIER1_TRESHOLD="1")
    assert "did you mean `tier1_threshold`" in refusal(table={"tier1_treshold": 1})


@pytest.mark.parametrize(
    "raw", [None, {}, [1], {"a": 1}, 10**5000, float("nan"), b"1"], ids=lambda raw: type(raw).__name__
)
def test_a_table_with_odd_values_is_refused(raw: object) -> None:
    assert "abuse_gate.tier1_threshold" in refusal(table={"tier1_threshold": raw})


def test_the_second_tier_is_not_before_nor_milder_than_the_first() -> None:
    assert "tier 2" in refusal(ABUSE_TIER1_THRESHOLD="6", ABUSE_TIER2_THRESHOLD="5")
    assert "tier 2" in refusal(ABUSE_TIER1_MODE="full_quarantine", ABUSE_TIER2_MODE="execute_locked")


@pytest.mark.parametrize("entry", ["0.0.0.0/0", "::/0"])
def test_no_proxy_list_covers_every_address(entry: str) -> None:
    assert "is every address" in refusal(ABUSE_TRUSTED_PROXIES=f"10.0.0.1,{entry}")


@pytest.mark.parametrize("entry", ["proxy.internal", "10.0.0.1/8", "*", "10.0.0.1\r\nX: y"])
def test_a_proxy_is_an_address(entry: str) -> None:
    assert "is not an address or a network" in refusal(ABUSE_TRUSTED_PROXIES=entry)


def test_what_outlives_the_process_needs_a_secret() -> None:
    assert "needs ABUSE_SECRET" in refusal(ABUSE_STORE="valkey://127.0.0.1:6379/0")
    assert "needs ABUSE_SECRET" in refusal(ABUSE_BANS_FILE="/var/lib/bans.db")
    made = abuse_settings_from_env({"ABUSE_STORE": "valkey://127.0.0.1:6379/0", "ABUSE_SECRET": SECRET})
    assert made.secret == SECRET.encode()
    assert SECRET not in repr(made)
    for store in ("unix:///run/valkey.sock", "rediss://cache.internal:6380", "valkey://[::1]:6379/3"):
        assert abuse_settings_from_env({"ABUSE_STORE": store, "ABUSE_SECRET": SECRET}).store == store
    assert "fewer than" in refusal(ABUSE_SECRET="short")


@pytest.mark.parametrize("blank", ["", " ", "\t\n", " " * 64], ids=repr)
@pytest.mark.parametrize("name", ["ABUSE_SECRET", "ABUSE_SECRET_FILE"])
def test_a_blank_secret_is_refused(name: str, blank: str) -> None:
    assert f"{name} is set and blank" in refusal(**{name: blank})


@pytest.mark.parametrize(
    "store", ["valkey://user:hunter2@host:6379", "http://host", "valkey://host/?x=1", "valkey://", "unix:/x", "redis"]
)
def test_a_store_is_a_plain_address_and_its_password_is_not_shown(store: str) -> None:
    said = refusal(ABUSE_STORE=store, ABUSE_SECRET=SECRET)
    assert "ABUSE_STORE must be" in said
    assert "hunter2" not in said


def test_a_secret_can_be_in_a_file_and_nowhere_in_a_table(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(SECRET + "\n", encoding="ascii")
    file.chmod(0o600)
    assert abuse_settings_from_env({"ABUSE_SECRET_FILE": str(file)}).secret == SECRET.encode()
    assert "are both set" in refusal(ABUSE_SECRET_FILE=str(file), ABUSE_SECRET=SECRET)
    assert "absolute path" in refusal(ABUSE_SECRET_FILE="secret")
    assert "cannot stand in a file of settings" in refusal(table={"secret": SECRET})
    if os.name == "posix":
        file.chmod(0o666)
        assert "can be written by any user" in refusal(ABUSE_SECRET_FILE=str(file))


def test_a_bans_file_is_absolute() -> None:
    assert "absolute path" in refusal(ABUSE_BANS_FILE="bans.db", ABUSE_SECRET=SECRET)


@given(st.dictionaries(st.sampled_from([each.variable for each in VARIABLES]), st.text(max_size=20), max_size=4))
def test_no_environment_gives_anything_but_settings_or_a_refusal(environ: dict[str, str]) -> None:
    environ = {name: value for name, value in environ.items() if "\0" not in value}
    try:
        made: AbuseSettings | InvalidConfig = abuse_settings_from_env(environ)
    except InvalidConfig as error:
        made = error
    assert isinstance(made, AbuseSettings) or "\n" not in made.message


# --- made in code


@pytest.mark.parametrize(
    "said",
    [
        {"on_unclear": "blocked"},
        {"on_unclear": None},
        {"on_unread": "refuse"},
        {"override_mode": "Clarify"},
        {"outside_strikes": "none"},
        {"websockets": "allow"},
        {"pii_ruleset": "zzz"},
        {"max_body_bytes": -1},
        {"max_body_bytes": 1e6},
        {"max_body_bytes": True},
        {"max_header_bytes": 1023},
        {"read_idle_s": 0},
        {"read_total_s": float("nan")},
        {"read_total_s": float("inf")},
        {"verdict_timeout_s": 0},
        {"verdict_timeout_s": 0.009},
        {"verdict_timeout_s": 5000},
        {"verdict_timeout_s": "5"},
        {"enabled": "false"},
        {"enabled": 0},
        {"ladder": {"tier1_threshold": 1}},
        {"trusted_proxies": "10.0.0.0/8"},
        {"trusted_proxies": ("0.0.0.0/0",)},
        {"trusted_proxies": ("proxy.internal",)},
        {"trusted_proxies": (7,)},
        {"store": "memcached://x"},
        {"store": "valkey://127.0.0.1:6379/0"},
        {"bans_file": "bans.db", "secret": b"k" * 32},
        {"bans_file": os.path.abspath("bans.db")},
        {"secret": b"short"},
        {"secret": b" " * 64},
        {"secret": "k" * 32},
    ],
    ids=repr,
)
def test_what_makes_no_sense_is_refused_in_code_too(said: dict[str, object]) -> None:
    with pytest.raises(InvalidConfig) as caught:
        AbuseSettings(**said)  # type: ignore[arg-type]
    assert str(next(iter(said))) in str(caught.value) or "ABUSE_SECRET" in str(caught.value)


def test_what_makes_sense_is_taken_as_it_is() -> None:
    made = AbuseSettings(trusted_proxies=["10.0.0.1", "unix"], read_idle_s=1, verdict_timeout_s=0.01)  # type: ignore[arg-type]
    assert made.trusted_proxies == ("10.0.0.1", "unix")
    assert AbuseSettings(store="valkey://127.0.0.1:6379/0", secret=b"k" * 32).store.startswith("valkey")
