from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from settings_place import Place

from lockgate import Gate
from lockgate.core.errors import InvalidConfig, InvalidPattern
from lockgate.core.ruling.policy import ESCALATE, FIELDS, PRESETS, Policy
from lockgate.core.vocabulary import Action, Mode, Trust
from lockgate.settings import config
from lockgate.settings.config import (
    KEYS,
    AuditSettings,
    ServerSettings,
    Settings,
    SettingsSource,
    SourceRole,
    SupervisionSettings,
)
from lockgate.settings.keys import KeyForm, Row, as_toml

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "configuration.md"

# A value other than the default for every key, in an order of its own.
OTHER: dict[str, object] = {
    "security.mode": Mode.RESEARCH,
    "security.scope": 'our "own" lab,\nnot more',
    "security.enforce": False,
    "security.user_trust": Trust.VETTED,
    "security.verification.triage_model": "claude-haiku",
    "security.verification.host_endpoint": "https://gateway.example",
    "security.verification.judge_preset": "cautious",
    "security.verification.escalate": "wide",
    "security.verification.triage_timeout_seconds": 3.5,
    "security.verification.triage_budget_session": 50,
    "security.verification.triage_budget_day": 500,
    "security.verification.triage_budget_usd": 2.5,
    "security.verification.model_aliases": ("fast = openai/small",),
    "security.verification.prices": ("openai/small = 0.15 / 0.60",),
    "security.verification.additional_patterns": (r"custom-org-secret\b", 'quote"d', "café"),
    "security.verification.additional_high_risk_tools": ("custom_dangerous_tool",),
    "security.verification.strict_patterns": True,
    "security.verification.recent_blocks": 40,
    "own.hosts": ("build.our.example",),
    "own.domains": ("our.example",),
    "own.addresses": ("ops@our.example",),
    "own.registries": ("ghcr.io/our-team",),
    "own.accounts": ("123456789012",),
    "security.audit.enabled": False,
    "security.audit.log_path": "/var/lib/lockgate/journal.db",
    "security.audit.retention_days": 400,
    "security.audit.strict": True,
    "security.audit.strict_seconds": 2.0,
    "security.audit.witnesses": ("https://witness.example/ witness.example/w+00000000+AAAA",),
    "security.audit.anchors": ("syslog:",),
    "supervision.model": "large",
    "supervision.timeout_seconds": 2.5,
    "supervision.max_reorient_attempts": 1,
    "supervision.human_timeout_seconds": 60.0,
    "supervision.approval_life_seconds": 120.0,
    "supervision.two_person": ("sends-data", "severity-3"),
    "server.host": "::1",
    "server.port": 8080,
    "server.allowed_hosts": ("lockgate.example",),
    "server.database": "postgresql://lockgate@db.example/lockgate",
    "server.page_url": "https://lockgate.example",
    "server.keep_days": 7,
    "server.workers": 4,
    "server.when_down": "observe",
}


def toml(values: dict[str, object], prefix: str = "") -> str:
    return "".join(f"{prefix}{path} = {as_toml(value)}\n" for path, value in values.items())


def held(settings: Settings) -> dict[str, object]:
    return {key.key: settings.value_of(key) for key in KEYS}


# Finding the files.


def test_without_any_file_everything_is_the_default(place: Place) -> None:
    found = place.load()
    assert found.policy == Policy()
    assert found.supervision == SupervisionSettings()
    assert found.sources == (SettingsSource(SourceRole.DEFAULT, None, tuple(key.key for key in KEYS)),)
    assert set(found.origins.values()) == {"default"}
    assert found.cache_dir == place.home / ".cache" / "lockgate"


def test_each_place_is_found_and_named(place: Place) -> None:
    place.write(place.system, '[security]\nuser_trust = "vetted"\n[supervision]\nmodel = "system"')
    place.write(place.user, '[supervision]\nmodel = "user"\ntimeout_seconds = 5')
    place.write(place.named, "[supervision]\ntimeout_seconds = 6")
    place.write(place.project, "[security.verification]\nstrict_patterns = true")
    place.write(place.pyproject, "[tool.lockgate.supervision]\nmax_reorient_attempts = 2")
    found = place.load(LOCKGATE_CONFIG=str(place.named))
    assert [(source.role, source.file, source.keys) for source in found.sources[:-1]] == [
        (SourceRole.SYSTEM, place.system, ("security.user_trust",)),
        (SourceRole.USER, place.user, ("supervision.model",)),
        (SourceRole.ENV, place.named, ("supervision.timeout_seconds",)),
        (SourceRole.PROJECT, place.project, ("security.verification.strict_patterns",)),
        (SourceRole.PROJECT, place.pyproject, ("supervision.max_reorient_attempts",)),
    ]
    assert {path: file for path, file in found.origins.items() if file != "default"} == {
        "security.user_trust": str(place.system),
        "security.verification.strict_patterns": str(place.project),
        "supervision.model": str(place.user),
        "supervision.timeout_seconds": str(place.named),
        "supervision.max_reorient_attempts": str(place.pyproject),
    }
    assert found.policy.supervisor_model == "user"
    assert found.supervision.timeout_s == 6


def test_the_stronger_of_the_operators_files_wins_and_may_loosen(place: Place) -> None:
    place.write(place.system, '[security]\nmode = "paranoid"\nuser_trust = "untrusted"')
    place.write(place.user, '[security]\nuser_trust = "vetted"')
    assert place.load().policy == Policy(mode=Mode.PARANOID, user_trust=Trust.VETTED)
    place.write(place.named, '[security]\nmode = "default"\nuser_trust = "trusted"')
    assert place.load(explicit=place.named).policy == Policy()


def test_lists_add_up_over_all_files(place: Place) -> None:
    for path, word in ((place.system, "one"), (place.user, "two"), (place.named, "two"), (place.project, "three")):
        place.write(path, f'[security.verification]\nadditional_patterns = ["{word}"]')
    found = place.load(explicit=place.named)
    assert found.policy.additional_patterns == ("one", "three", "two")
    files = (place.system, place.user, place.named, place.project)
    assert found.origins["security.verification.additional_patterns"] == ", ".join(map(str, files))


def test_the_argument_replaces_the_variable(place: Place) -> None:
    other = place.write(place.root / "other.toml", "not even TOML")
    place.write(place.named, '[security]\nmode = "paranoid"')
    found = place.load(explicit=place.named, LOCKGATE_CONFIG=str(other))
    assert found.policy.mode is Mode.PARANOID
    assert SettingsSource(SourceRole.ENV, other, unused="--config was given") in found.sources


def test_an_argument_is_relative_to_the_working_directory(place: Place) -> None:
    place.write(place.cwd / "mine.toml", '[security]\nmode = "paranoid"')
    assert place.load(explicit=Path("mine.toml")).policy.mode is Mode.PARANOID


def test_a_relative_variable_would_let_any_repository_be_the_operator(place: Place) -> None:
    place.write(place.project, "")
    assert place.refusal(LOCKGATE_CONFIG="lockgate.toml") == (
        "LOCKGATE_CONFIG must be an absolute path, not `lockgate.toml`\nhint: name the file from the root"
    )


def test_an_empty_variable_is_no_variable(place: Place) -> None:
    assert place.load(LOCKGATE_CONFIG="").policy == Policy()


def test_a_named_file_must_exist(place: Place) -> None:
    assert place.refusal(explicit=place.named) == (
        "named.toml: no such file\nhint: --config names a file that must exist"
    )
    assert place.refusal(LOCKGATE_CONFIG=str(place.named)) == (
        "named.toml: no such file\n"
        "hint: LOCKGATE_CONFIG names a file that must exist: correct the variable, or unset it"
    )


def test_the_project_is_the_current_directory_only(place: Place) -> None:
    place.write(place.project, '[security]\nmode = "paranoid"')
    inner = place.cwd / "inner"
    inner.mkdir()
    found = config.load_settings(cwd=inner, environ={}, home=place.home, system=place.system)
    assert found.policy == Policy()


def test_a_project_file_that_the_operator_names_is_the_operators_word(place: Place) -> None:
    place.write(place.user, '[security]\nmode = "paranoid"')
    place.write(place.project, '[security]\nmode = "default"\n[supervision]\nmodel = "large"')
    found = place.load(explicit=Path("lockgate.toml"))
    assert found.policy == Policy(supervisor_model="large")
    assert SettingsSource(SourceRole.PROJECT, place.project, unused="read as the explicit file") in found.sources


def test_the_users_file_named_again_is_read_once(place: Place) -> None:
    place.write(place.user, '[security]\nmode = "paranoid"')
    found = place.load(LOCKGATE_CONFIG=str(place.user))
    assert found.origins["security.mode"] == str(place.user)
    assert [source.unused for source in found.sources if source.role is SourceRole.USER] == ["read as the env file"]


@pytest.mark.parametrize("value", ["", "relative/path", "./here"])
def test_an_empty_or_relative_xdg_path_is_ignored(place: Place, value: str) -> None:
    place.write(place.user, '[security]\nmode = "paranoid"')
    place.write(place.cwd / value / "lockgate" / "config.toml", '[security]\nmode = "default"')
    found = place.load(XDG_CONFIG_HOME=value, XDG_CACHE_HOME=value)
    assert found.policy.mode is Mode.PARANOID
    assert found.cache_dir == place.home / ".cache" / "lockgate"


def test_an_absolute_xdg_path_is_followed(place: Place) -> None:
    place.write(place.user, "nothing here is read")
    place.write(place.root / "xdg" / "lockgate" / "config.toml", '[security]\nmode = "paranoid"')
    found = place.load(XDG_CONFIG_HOME=str(place.root / "xdg"), XDG_CACHE_HOME=str(place.root / "cache"))
    assert found.policy.mode is Mode.PARANOID
    assert found.cache_dir == place.root / "cache" / "lockgate"


def test_home_comes_from_the_environment_when_it_is_not_given(place: Place) -> None:
    place.write(place.user, '[security]\nmode = "paranoid"')
    found = config.load_settings(cwd=place.cwd, environ={"HOME": str(place.home)}, system=place.system)
    assert found.policy.mode is Mode.PARANOID


def test_discover_reads_this_process(place: Place) -> None:
    place.write(place.project, '[security]\nmode = "paranoid"')
    code = "from lockgate.settings.config import discover_settings as d; print(d().policy.mode, d().cache_dir)"
    environ = {"PYTHONPATH": os.pathsep.join(sys.path), "HOME": str(place.home)}
    done = subprocess.run([sys.executable, "-c", code], cwd=place.cwd, env=environ, capture_output=True, text=True)
    assert done.stdout.strip() == f"paranoid {place.home / '.cache' / 'lockgate'}", done.stderr


# Values.


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.key)
def test_every_key_reaches_its_field(place: Place, key: Row) -> None:
    values = {key.key: OTHER[key.key]}
    if key.key in ("security.mode", "security.scope"):
        values = {path: OTHER[path] for path in ("security.mode", "security.scope")}
    place.write(place.user, toml(values))
    found = place.load()
    assert held(found) == {each.key: each.default for each in KEYS} | {
        path: tuple(sorted(value)) if isinstance(value, tuple) else value for path, value in values.items()
    }
    assert found.origins[key.key] == str(place.user)


def test_the_listing_of_all_keys_reads_back_as_the_same_settings(place: Place) -> None:
    place.write(place.user, toml(OTHER))
    first = place.load()
    assert first.policy != Policy()
    place.write(place.user, "".join(f"{each.key} = {each.value}\n" for each in first.list_values()))
    second = place.load()
    assert (second.policy, second.supervision) == (first.policy, first.supervision)
    assert second.list_values() == first.list_values()
    assert {each.origin for each in second.list_values()} == {str(place.user)}


def test_the_listing_of_the_defaults_is_valid_too(place: Place) -> None:
    place.write(place.user, "".join(f"{each.key} = {each.value}\n" for each in Settings().list_values()))
    assert place.load().policy == Policy()


def test_the_seeds_own_example_is_read(place: Place) -> None:
    place.write(
        place.user,
        """
[security.verification]
# Tier 2 model (fast/cheap)
triage_model = "claude-haiku"

# Tier 3 uses supervisor model from [supervision] config

# Patterns to flag (extend defaults)
additional_patterns = [
    "custom-org-secret-pattern",
]

# Tools considered high-risk (extend defaults)
additional_high_risk_tools = [
    "custom_dangerous_tool",
]
""",
    )
    assert place.load().policy == Policy(
        triage_model="claude-haiku",
        additional_patterns=("custom-org-secret-pattern",),
        additional_high_risk_tools=("custom_dangerous_tool",),
    )


def test_the_same_keys_under_tool_lockgate(place: Place) -> None:
    place.write(place.pyproject, f'[project]\nname = "x"\n[tool.other]\nx = 1\n{toml(OTHER, "lockgate.")}')
    text = place.pyproject.read_text().replace("[tool.other]\nx = 1\n", "[tool]\nother.x = 1\n")
    place.write(place.pyproject, text)
    assert held(place.load(explicit=place.pyproject)) == held(place_with(place, OTHER))


def place_with(place: Place, values: dict[str, object]) -> Settings:
    place.write(place.named, toml(values))
    place.pyproject.unlink()
    return place.load(explicit=place.named)


def test_a_scope_goes_with_the_mode_it_belonged_to(place: Place) -> None:
    place.write(place.user, '[security]\nmode = "research"\nscope = "our own lab"')
    place.write(place.named, '[security]\nmode = "default"')
    found = place.load(explicit=place.named)
    assert found.policy == Policy()
    assert found.origins["security.scope"] == "default"


def test_paranoid_research_keeps_its_scope(place: Place) -> None:
    place.write(place.user, '[security]\nmode = "research"\nscope = "our own lab"')
    place.write(place.project, '[security]\nmode = "paranoid"')
    assert place.load().policy == Policy(mode=Mode.PARANOID, research_scope="our own lab")


# Errors, as they are read.

ERRORS = {
    "unknown key": (
        '[security]\nmode = "default"\n\nmood = "paranoid"',
        "FILE:4: `security.mood` is an unknown key\nhint: did you mean `mode`?",
    ),
    "unknown key, nothing like it": (
        "[supervision]\ncolour = 1",
        (
            "FILE:2: `supervision.colour` is an unknown key\n"
            "hint: known here: model, timeout_seconds, max_reorient_attempts, human_timeout_seconds, "
            "approval_life_seconds, two_person"
        ),
    ),
    "unknown table": (
        "# ours\n[security]\n[security.walls]\nlog_path = 1",
        (
            "FILE:3: `security.walls` is an unknown key\n"
            "hint: known here: scope, mode, enforce, user_trust, verification, audit"
        ),
    ),
    "unknown table at the top": (
        "[security]\n[telemetry]\n",
        "FILE:2: `telemetry` is an unknown key\nhint: known here: security, own, supervision, server",
    ),
    "misspelt table": (
        "[secrity]\n",
        "FILE:1: `secrity` is an unknown key\nhint: did you mean `security`?",
    ),
    "a key in the wrong table": (
        '[security]\ntriage_model = "small"',
        "FILE:2: `security.triage_model` is an unknown key\nhint: `triage_model` belongs in [security.verification]",
    ),
    "the tables of a pyproject": (
        "[tool.lockgate.security]\n",
        (
            "FILE:1: `tool` is an unknown key\n"
            "hint: [tool.lockgate] is for pyproject.toml: here write [security] and [supervision]"
        ),
    ),
    "a dotted name is not a path": (
        '"security.mode" = "paranoid"',
        "FILE:1: `security.mode` is an unknown key\nhint: did you mean `security`?",
    ),
    "control characters in a key": (
        '[security]\n"a\\u001b[2J" = 1',
        (
            "FILE:2: `security.a�[2J` is an unknown key\n"
            "hint: known here: scope, mode, enforce, user_trust, verification, audit"
        ),
    ),
    "a key after a long value": (
        '[security.verification]\nadditional_patterns = [\n  "[", # ]\n  """\n]"\n""",\n]\nx.y = 1\n',
        (
            "FILE:8: `security.verification.x` is an unknown key\n"
            "hint: known here: triage_model, host_endpoint, judge_preset, escalate, triage_timeout_seconds, "
            "triage_budget_session, triage_budget_day, triage_budget_usd, model_aliases, prices, "
            "additional_patterns, additional_high_risk_tools, strict_patterns, recent_blocks"
        ),
    ),
    "a table that is a value": ("security = 3", "FILE:1: `security` must be a table, not an integer"),
    "an array of tables": ("[[security]]\nx = 1", "FILE:1: `security` must be a table, not an array"),
    "a value that is a table": (
        "[security.mode]\nx = 1",
        'FILE:1: `security.mode` must be one of "default", "paranoid", "research", not a table',
    ),
    "a word that is not in the list": (
        '[security]\nmode = "Paranoia"',
        (
            'FILE:2: `security.mode` must be one of "default", "paranoid", "research", not `Paranoia`\n'
            'hint: did you mean "paranoid"?'
        ),
    ),
    "a word unlike any other": (
        'security.user_trust = "root"',
        'FILE:1: `security.user_trust` must be one of "trusted", "vetted", "untrusted", not `root`',
    ),
    "a word that is a number": (
        "[security]\nuser_trust = 2",
        'FILE:2: `security.user_trust` must be one of "trusted", "vetted", "untrusted", not an integer',
    ),
    "a flag in quotes": (
        '[security.verification]\nstrict_patterns = "true"',
        (
            "FILE:2: `security.verification.strict_patterns` must be true or false, not `true`\n"
            "hint: write it without quotes"
        ),
    ),
    "a flag that is a number": (
        "[security.verification]\nstrict_patterns = 1",
        "FILE:2: `security.verification.strict_patterns` must be true or false, not an integer",
    ),
    "a text that is a number": (
        "[supervision]\nmodel = 5",
        "FILE:2: `supervision.model` must be a string, not an integer",
    ),
    "a text that is a date": (
        "[supervision]\nmodel = 2026-11-01",
        "FILE:2: `supervision.model` must be a string, not a date or time",
    ),
    "a list that is a text": (
        '[security.verification]\nadditional_patterns = "x"',
        (
            "FILE:2: `security.verification.additional_patterns` must be an array of strings, not `x`\n"
            'hint: write additional_patterns = ["…"]'
        ),
    ),
    "a list of something else": (
        '[security.verification]\nadditional_high_risk_tools = ["a", 2.0]',
        "FILE:2: `security.verification.additional_high_risk_tools` must be an array of strings, but item 2 is a float",
    ),
    "a number in quotes": (
        '[security.verification]\nrecent_blocks = "5"',
        (
            "FILE:2: `security.verification.recent_blocks` must be a whole number from 0 to 1,000,000, not `5`\n"
            "hint: write it without quotes"
        ),
    ),
    "a number that is a flag": (
        "[security.verification]\nrecent_blocks = true",
        "FILE:2: `security.verification.recent_blocks` must be a whole number from 0 to 1,000,000, not a boolean",
    ),
    "a number that is not whole": (
        "[supervision]\nmax_reorient_attempts = 2.0",
        "FILE:2: `supervision.max_reorient_attempts` must be a whole number from 0 to 100, not a float",
    ),
    "a number below its range": (
        "[security.verification]\nrecent_blocks = -1",
        "FILE:2: `security.verification.recent_blocks` must be a whole number from 0 to 1,000,000, not this number",
    ),
    "a number above anything printable": (
        f"[security.verification]\nrecent_blocks = 0x{'f' * 5000}",
        "FILE:2: `security.verification.recent_blocks` must be a whole number from 0 to 1,000,000, not this number",
    ),
    "no time at all": (
        "[supervision]\ntimeout_seconds = 0",
        "FILE:2: `supervision.timeout_seconds` must be a number of seconds from 0.1 to 600, not this number",
    ),
    "no number": (
        "[supervision]\nhuman_timeout_seconds = nan",
        "FILE:2: `supervision.human_timeout_seconds` must be a number of seconds from 1 to 604,800, not this number",
    ),
    "endless time": (
        "[supervision]\nhuman_timeout_seconds = inf",
        "FILE:2: `supervision.human_timeout_seconds` must be a number of seconds from 1 to 604,800, not this number",
    ),
    "research without a scope": (
        '[security]\nmode = "research"',
        (
            "FILE:2: `security.mode`: mode `research` needs a scope\n"
            'hint: say what the research is about, e.g. scope = "our own test lab"'
        ),
    ),
    "a scope without research": (
        '[security]\nscope = "our own lab"',
        'FILE:2: `security.scope` has no effect in mode `default`\nhint: add mode = "research", or remove the scope',
    ),
    "an empty pattern": (
        '[security.verification]\nadditional_patterns = [""]',
        "FILE:2: `security.verification.additional_patterns`: an empty pattern would match everything\nhint: remove it",
    ),
    "a pattern the engine cannot take": (
        '[security.verification]\n\nadditional_patterns = ["fine", "(?=no)"]',
        (
            "FILE:3: `security.verification.additional_patterns`: pattern `(?=no)` cannot be used: no look-around\n"
            "hint: write it another way"
        ),
    ),
    "a pattern on a line of its own": (
        "[security.verification]\nadditional_patterns = [\n  \"[']\", # '\n  '''a\nb''',\n  'fine', '(?=no)',\n]",
        (
            "FILE:6: `security.verification.additional_patterns`: pattern `(?=no)` cannot be used: no look-around\n"
            "hint: write it another way"
        ),
    ),
    "a pattern in a table on one line": (
        '[security]\nverification = { triage_model = "none", additional_patterns = ["fine",\n"(?=no)"] }',
        (
            "FILE:2: `security.verification.additional_patterns`: pattern `(?=no)` cannot be used: no look-around\n"
            "hint: write it another way"
        ),
    ),
    "an empty tool name": (
        '[security.verification]\nadditional_high_risk_tools = ["ok", ""]',
        (
            "FILE:2: `security.verification.additional_high_risk_tools`: an empty tool name in "
            "additional_high_risk_tools\nhint: remove it"
        ),
    ),
    "not TOML": (
        "[security]\nmode: paranoid\n",
        "FILE:2: not valid TOML: expected '=' after a key in a key/value pair",
    ),
    "TOML that ends too early": ('[security]\nmode = "paranoid', "FILE:2: not valid TOML: unterminated string"),
    "a value that is missing": ("[security]\n\nmode =", "FILE:3: not valid TOML: invalid value"),
    "the same key twice": (
        '[security]\nmode = "default"\nmode = "paranoid"\n',
        "FILE:3: not valid TOML: cannot overwrite a value",
    ),
    "brackets without end": (
        f"x = {'[' * 100_000}",
        "FILE: not valid TOML: nested too deeply, or a number too long",
    ),
    "digits without end": (
        f"x = {'9' * 5000}",
        "FILE: not valid TOML: nested too deeply, or a number too long",
    ),
    "a key of a thousand parts": (
        f'x = """\n{"." * 40}"""\na{".a" * 1000} = 1',
        "FILE:3: a key of more than 32 parts\nhint: no key of ours is so deep",
    ),
}


def no_look_around(pattern: str) -> None:
    if "(?=" in pattern:
        raise InvalidPattern(f"pattern `{pattern}` cannot be used: no look-around", hint="write it another way")


@pytest.mark.parametrize(("text", "said"), ERRORS.values(), ids=ERRORS.keys())
def test_an_error_says_what_and_where_and_how_to_fix_it(place: Place, text: str, said: str) -> None:
    place.write(place.named, text)
    assert place.refusal(explicit=place.named, check_pattern=no_look_around) == said.replace("FILE", "named.toml")


def test_the_same_error_in_a_project_file_and_in_a_pyproject(place: Place) -> None:
    place.write(place.project, "[security]\nmood = 1")
    assert place.refusal() == (
        f"{Path('repository/lockgate.toml')}:2: `security.mood` is an unknown key\nhint: did you mean `mode`?"
    )
    place.project.unlink()
    place.write(place.pyproject, '[project]\nname = "x"\n\n[tool.lockgate.security]\n\ntriage_model = "small"')
    assert place.refusal() == (
        f"{Path('repository/pyproject.toml')}:6: `tool.lockgate.security.triage_model` is an unknown key\n"
        "hint: `triage_model` belongs in [tool.lockgate.security.verification]"
    )
    place.write(place.pyproject, "[tool]\nlockgate = 1")
    assert place.refusal() == f"{Path('repository/pyproject.toml')}:2: `tool.lockgate` must be a table, not an integer"
    place.write(place.pyproject, "tool = 'lockgate'")
    assert place.refusal() == f"{Path('repository/pyproject.toml')}:1: `tool` must be a table, not a string"


# What a project file may do.

OPERATORS_HINT = (
    "hint: a repository must not choose how it is judged: set it in your own configuration, by default "
    "~/.config/lockgate/config.toml, or in a file of yours named with --config"
)


@pytest.mark.parametrize("key", [key for key in KEYS if not key.tightens], ids=lambda key: key.key)
@pytest.mark.parametrize("file", ["project", "pyproject"])
def test_a_repository_does_not_choose_how_it_is_judged(place: Place, key: Row, file: str) -> None:
    prefix = "tool.lockgate." if file == "pyproject" else ""
    place.write(getattr(place, file), toml({key.key: OTHER[key.key]}, prefix))
    name = Path("repository") / getattr(place, file).name
    assert place.refusal() == f"{name}:1: `{prefix}{key.key}` cannot be set by a project file\n{OPERATORS_HINT}"


def test_the_operators_own_keys_are_these() -> None:
    assert {key.key for key in KEYS if not key.tightens} == {
        *(f"own.{name}" for name in ("hosts", "domains", "addresses", "registries", "accounts")),
        "security.scope",
        "security.verification.triage_model",
        "security.verification.host_endpoint",
        "security.verification.triage_timeout_seconds",
        "security.verification.triage_budget_session",
        "security.verification.triage_budget_day",
        "security.verification.triage_budget_usd",
        "security.verification.model_aliases",
        "security.verification.prices",
        "security.audit.enabled",
        "security.audit.log_path",
        "security.audit.retention_days",
        "security.audit.strict_seconds",
        "security.audit.witnesses",
        "security.audit.anchors",
        "supervision.model",
        "supervision.timeout_seconds",
        "supervision.human_timeout_seconds",
        "supervision.approval_life_seconds",
        "supervision.two_person",
        "server.host",
        "server.port",
        "server.allowed_hosts",
        "server.database",
        "server.page_url",
        "server.keep_days",
        "server.workers",
        "server.when_down",
    }


LOOSER = [
    ("security.mode", '"paranoid"', '"default"', "to `paranoid`"),
    ("security.user_trust", '"vetted"', '"trusted"', "to a lower trust (`trusted` > `vetted` > `untrusted`)"),
    ("security.verification.judge_preset", '"cautious"', '"quiet"', "to a more cautious one"),
    ("security.verification.strict_patterns", "true", "false", "to `true`"),
    ("security.verification.recent_blocks", "0", "10", "to a larger window (0 is the largest)"),
    ("security.verification.recent_blocks", "20", "10", "to a larger window (0 is the largest)"),
    ("supervision.max_reorient_attempts", "2", "3", "to a lower number"),
    ("security.audit.strict", "true", "false", "to `true`"),
]


@pytest.mark.parametrize(("path", "strict", "loose", "only"), LOOSER)
@pytest.mark.parametrize("operator", ["system", "user", "named"])
def test_a_project_key_that_would_loosen_is_refused(
    place: Place, path: str, strict: str, loose: str, only: str, operator: str
) -> None:
    base = place.write(getattr(place, operator), f"{path} = {strict}")
    explicit = base if operator == "named" else None
    place.write(place.project, f"# a gift\n{path} = {loose}")
    assert place.refusal(explicit=explicit) == (
        f"{Path('repository/lockgate.toml')}:2: `{path}` would loosen the policy: {loose} is weaker than {strict} "
        f"({base.relative_to(place.root)})\nhint: a project file may change it only {only}; remove the line"
    )


@pytest.mark.parametrize(("path", "strict", "loose", "only"), LOOSER)
def test_a_project_key_that_tightens_counts(place: Place, path: str, strict: str, loose: str, only: str) -> None:
    place.write(place.named, f"{path} = {loose}")
    before = place.load(explicit=place.named)
    place.write(place.project, f"{path} = {strict}")
    after = place.load(explicit=place.named)
    assert (before.policy, before.audit) != (after.policy, after.audit)
    assert after.origins[path] == str(place.project)
    assert next(each.value for each in after.list_values() if each.key == path) == strict


def test_a_project_file_that_says_the_same_changes_nothing(place: Place) -> None:
    place.write(place.user, '[security]\nmode = "paranoid"')
    place.write(place.project, '[security]\nmode = "paranoid"')
    assert place.load().origins["security.mode"] == str(place.user)


def test_the_defaults_cannot_be_loosened_either(place: Place) -> None:
    place.write(place.project, "[security.verification]\nrecent_blocks = 5")
    assert place.refusal() == (
        f"{Path('repository/lockgate.toml')}:2: `security.verification.recent_blocks` would loosen the policy: 5 is "
        "weaker than 0 (default)\n"
        "hint: a project file may change it only to a larger window (0 is the largest); remove the line"
    )


def test_a_project_cannot_declare_research(place: Place) -> None:
    place.write(place.project, '[security]\nmode = "research"')
    assert place.refusal() == (
        f"{Path('repository/lockgate.toml')}:2: `security.mode`: `research` needs a scope, which a project file "
        "cannot give\nhint: a project file may change it only to `paranoid`; remove the line"
    )


def test_of_two_project_files_the_stricter_counts_for_each_key(place: Place) -> None:
    place.write(place.project, '[security]\nmode = "default"\nuser_trust = "untrusted"')
    place.write(place.pyproject, '[tool.lockgate.security]\nmode = "paranoid"\nuser_trust = "vetted"')
    found = place.load()
    assert found.policy == Policy(mode=Mode.PARANOID, user_trust=Trust.UNTRUSTED)
    assert found.origins["security.mode"] == str(place.pyproject)
    assert found.origins["security.user_trust"] == str(place.project)


def test_a_project_list_that_is_too_long_with_the_operators_is_refused_at_its_line(place: Place) -> None:
    for path, letter in ((place.user, "a"), (place.project, "b")):
        words = tuple(f"{letter}{number}" for number in range(300))
        place.write(path, toml({"security.verification.additional_patterns": words}))
    assert place.refusal() == (
        f"{Path('repository/lockgate.toml')}:1: `security.verification.additional_patterns`: 600 additional patterns, "
        "the limit is 500\nhint: join patterns that belong together with |"
    )


def test_patterns_of_a_repository_that_would_stall_the_start_are_refused_before_the_engine_sees_them(
    place: Place,
) -> None:
    seen: list[str] = []
    patterns = tuple(f"[a-m].{{0,{300 + number}}}[n-z]" for number in range(500))
    place.write(place.project, toml({"security.verification.additional_patterns": patterns}))
    with pytest.raises(InvalidConfig, match=r"lockgate\.toml:1: .* to compile, the limit is 5,000") as refused:
        place.load(check_pattern=seen.append)
    assert "the most expensive is `[a-m].{0,799}[n-z]` with " in refused.value.message
    assert seen == []


def test_patterns_that_take_the_engine_too_long_after_all_are_refused_by_name(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "PATTERNS_CPU_S", 0.0)
    place.write(place.project, '[security.verification]\nadditional_patterns = [\n  "nightjar",\n]')
    with pytest.raises(InvalidConfig, match=r"toml:3: .* the patterns up to `nightjar` took the engine more than 0 s"):
        place.load(check_pattern=lambda pattern: None)


def values_of(key: Row) -> st.SearchStrategy[object]:
    if key.form is KeyForm.WORD:
        return st.sampled_from(list(key.words.values()))
    if key.form is KeyForm.FLAG:
        return st.booleans()
    if key.table == "own":
        entry = "a@our.example" if key.fills == "own_addresses" else "our.example"
        return st.sampled_from([(), (entry,), (entry, f"{entry}.b")])
    if key.form is KeyForm.TEXTS:
        return st.lists(st.sampled_from(["alpha", "beta", "gamma"]), max_size=3).map(tuple)
    if key.form is KeyForm.TEXT:
        return st.sampled_from(["", "one", "two"])
    return st.integers(int(key.least) or 1, 5) if key.form is KeyForm.SECONDS else st.integers(0, 4)


files = st.fixed_dictionaries({}, optional={key.key: values_of(key) for key in KEYS})
project_files = st.fixed_dictionaries({}, optional={key.key: values_of(key) for key in KEYS if key.tightens})


def rank(name: str, value: object) -> object:
    """How strict a value of a field is: larger is stricter, sets by inclusion."""
    if name.startswith("additional_") or name in ("flows", "labels", "effect_rows"):
        assert isinstance(value, tuple)
        return frozenset(value)
    if name in ("research_scope", "triage_model", "supervisor_model") or name.startswith("own_"):
        return 0
    if name == "recent_blocks":
        return value or 10**9
    if name == "judge_preset":
        return -PRESETS.index(str(value))
    if name == "escalate":
        return ESCALATE.index(str(value))
    orders: list[tuple[object, ...]] = [
        (Mode.DEFAULT, Mode.RESEARCH, Mode.PARANOID),
        (Action.CONTINUE, Action.REORIENT, Action.PAUSE),
        (Trust.TRUSTED, Trust.VETTED, Trust.UNTRUSTED),
    ]
    for order in orders:
        if isinstance(value, Mode | Action | Trust) and type(value) is type(order[0]):
            return order.index(value)
    assert isinstance(value, int)
    return value if name in ("strict_patterns", "strict", "enforce") else -value


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(base=files, project=project_files, pyproject=project_files)
def test_no_project_file_weakens_any_base(
    place: Place, base: dict[str, object], project: dict[str, object], pyproject: dict[str, object]
) -> None:
    place.project.unlink(missing_ok=True)
    place.pyproject.unlink(missing_ok=True)
    place.write(place.named, toml(base))
    try:
        before = place.load(explicit=place.named)
    except InvalidConfig:
        return  # research without a scope, or a scope without research
    place.write(place.project, toml(project))
    place.write(place.pyproject, toml(pyproject, "tool.lockgate."))
    refused = ""
    after = before
    try:
        after = place.load(explicit=place.named)
    except InvalidConfig as error:
        refused = error.message
    if refused:
        assert str(place.project) in refused or str(place.pyproject) in refused
        assert any(f"{path}`" in refused for path in project | pyproject)
        return
    for name in FIELDS:
        assert rank(name, getattr(after.policy, name)) >= rank(name, getattr(before.policy, name)), name  # type: ignore[operator]
    for name in ("research_scope", "triage_model", "supervisor_model"):
        assert getattr(after.policy, name) == getattr(before.policy, name)
    assert after.supervision == before.supervision
    assert after.audit.strict >= before.audit.strict
    assert replace(after.audit, strict=before.audit.strict) == before.audit
    for path in project | pyproject:
        key = next(key for key in KEYS if key.key == path)
        for values in (project, pyproject):
            if path in values:
                wanted = rank(key.fills, values[path])
                assert rank(key.fills, after.value_of(key)) >= wanted  # type: ignore[operator]


# Finding lines, and what hostile files cost.


def hostile() -> Iterator[tuple[str, str]]:
    size = 200_000
    yield "one dotted key", "a" + ".a" * (size // 2) + " = 1"
    yield "a dotted header", "[" + "a." * (size // 2) + "a]"
    yield "quoted parts", "'a'" + ' . "a"' * (size // 6) + " = 1"
    yield "a dotted key in an inline table", "x = {" + "a." * (size // 2) + "a = 1}"
    yield "a dotted key after an open bracket", "x = [\n1,\n{" + "a." * (size // 2) + "a = 1}]"
    yield "a dotted key in brackets that nothing closes", "x = [{" + "a." * (size // 2) + "a = 1"
    yield "escaped quotes that nothing closes", "x." * 40 + '"' + '\\"' * (size // 2)
    yield "triple quotes that nothing closes", "x." * 40 + '"""' + '\\"""' * (size // 4)
    yield "many keys of just few enough parts", "".join(f"{'a.' * 30}b{n} = 1\n" for n in range(size // 70))
    yield "blanks between dots", "a" + " . a" * (size // 4) + " = 1"
    yield "one long name", "a" * size + "." * 40
    yield "nested inline tables", "a = " + "{a = " * (size // 5)
    yield "dots alone", "." * size
    yield "keys", "".join(f"k{n} = 1\n" for n in range(size // 10))
    yield "tables", "".join(f"[k{n}]\n" for n in range(size // 10))


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in hostile()])
def test_a_hostile_project_file_is_refused_in_no_time(place: Place, text: str) -> None:
    place.write(place.project, text)
    began = time.process_time()
    assert place.refusal().startswith(str(Path("repository/lockgate.toml")))
    assert time.process_time() - began < 5


@settings(deadline=None)
@given(st.binary(max_size=200) | st.text(alphabet="[]{}=.\"'\\\n#abc1, \t", max_size=60).map(str.encode))
def test_any_bytes_give_settings_or_an_error_of_ours(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    place = Place(tmp_path_factory.mktemp("any"))
    place.project.write_bytes(data)
    refused = f"{place.project}"
    try:
        assert place.load().policy == Policy()
    except InvalidConfig as error:
        refused = error.message
    assert refused.startswith(str(place.project))
    assert refused.isprintable()


# The declaration, the reference page, the cost of importing.


def test_every_key_fills_a_field_of_its_own() -> None:
    fields = [key.fills for key in KEYS]
    assert len(set(fields)) == len(fields)
    assert set(fields) <= {*FIELDS, *SupervisionSettings.__slots__, *AuditSettings.__slots__, *ServerSettings.__slots__}
    assert sorted(OTHER) == sorted(key.key for key in KEYS)
    assert [key.key for key in KEYS if OTHER[key.key] == key.default] == []


def test_what_no_file_may_set_is_only_in_the_library() -> None:
    assert sorted({*FIELDS} - {key.fills for key in KEYS} - {"flows", "labels", "effect_rows"}) == [
        "on_unclear_high",
        "on_unclear_low",
        "unsafe_continue_on_unclear",
        "unsafe_disable_phrase_rules",
    ]


def test_the_reference_page_has_every_key_and_no_other() -> None:
    page = PAGE.read_text(encoding="utf-8")
    headings = [line.removeprefix("#### ").strip("`") for line in page.splitlines() if line.startswith("#### ")]
    assert headings == [key.key for key in KEYS]
    assert "`[[flow]]`" in page
    assert "`[[label]]`" in page
    assert "`rows.tbl`" in page
    for name in sorted({*FIELDS} - {key.fills for key in KEYS} - {"flows", "labels", "effect_rows"}):
        assert f"| `{name}` |" in page


def test_the_examples_on_the_reference_page_are_valid(place: Place) -> None:
    page = PAGE.read_text(encoding="utf-8")
    examples = [part.partition("```")[0] for part in page.split("```toml\n")[1:]]
    assert len(examples) >= 2
    for example in examples:
        file = place.pyproject if "tool.lockgate" in example else place.project
        place.write(file, example)
        assert place.load().policy != Policy()
        file.unlink()


def test_importing_the_configuration_does_not_load_a_parser() -> None:
    code = (
        "import sys; before = set(sys.modules); import lockgate.settings.config;"
        "print(*sorted({'tomllib', 'difflib', 'json', 'argparse', 'hyperscan', 'rich'} & (set(sys.modules) - before)))"
    )
    environ = {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


# The journal.


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("/var/lib/lockgate/sessions.db", "must be postgresql://… or empty, not `/var/lib/lockgate/sessions.db`"),
        ("mysql://h/d", "must be postgresql://… or empty, not `mysql://h/d`"),
        ("postgresql://me:canary@h/d", "must not hold a password"),
    ],
)
def test_sessions_that_are_shared_are_in_postgresql(place: Place, url: str, said: str) -> None:
    place.write(place.user, f'[server]\ndatabase = "{url}"')
    refused = place.refusal()
    assert f":2: `server.database`: {said}\nhint: " in refused
    assert "canary" not in refused


def test_a_project_chooses_nothing_of_the_service(place: Place) -> None:
    for key in KEYS:
        if key.table == "server":
            place.write(place.project, toml({key.key: OTHER[key.key]}))
            assert f"`{key.key}` cannot be set by a project file" in place.refusal()


def test_the_abuse_gates_table_is_the_operators_and_goes_on_as_it_is(place: Place) -> None:
    place.write(place.system, "[abuse_gate]\nmode = 1\nother = [1]")
    place.write(place.user, '[abuse_gate]\nmode = "on"')
    assert place.load().abuse_gate == {"mode": "on", "other": [1]}
    place.write(place.project, "[security]\n[abuse_gate]\nmode = 1")
    assert "lockgate.toml:2: `abuse_gate` cannot be set by a project file\nhint: a repository" in place.refusal()
    place.project.unlink()
    place.write(place.user, "abuse_gate = 1")
    assert "config.toml:1: `abuse_gate` must be a table, not an integer" in place.refusal()


def test_settings_are_values() -> None:
    assert Settings() == replace(Settings())
    with pytest.raises(AttributeError):
        Settings().policy = Policy()  # type: ignore[misc]


# Flow rules and labels


FLOWS = """
[[flow]]
name = "web"
from = "web:*"
to = "recipient"

[[flow]]
name = "cards"
value = "card"
to = "out"
then = "deny"

[[label]]
source = "file:*/hr/*"
as = "personal"
"""


def test_rows_of_all_files_are_in_force_and_a_projects_only_add(place: Place) -> None:
    place.write(place.user, FLOWS)
    mine = place.load().policy
    assert (len(mine.flows), len(mine.labels)) == (2, 1)
    place.write(place.project, '[[flow]]\nname = "more"\nafter = "web:*"\nto = "pays"\n')
    both = place.load().policy
    assert set(mine.flows) < set(both.flows)
    assert len(both.flows) == 3
    assert both.labels == mine.labels
    assert both.hash != mine.hash


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[flow]\nname = "x"', "`flow` must be written as [[flow]]"),
        ('[[flow]]\nname = "x"\nto = "out"', "flow `x` must name one place that it comes from"),
        ('[[label]]\nsource = "web:*"', "a label needs `source`"),
    ],
)
def test_a_row_that_means_nothing_names_its_file(place: Place, text: str, said: str) -> None:
    place.write(place.named, text)
    refused = place.refusal(explicit=place.named)
    assert refused.startswith("named.toml:")
    assert said in refused


def test_only_the_operator_says_who_is_notified(place: Place) -> None:
    place.write(place.named, '[[notify]]\nkind = "desktop"\n')
    assert place.load(explicit=place.named).notify == ({"kind": "desktop"},)
    place.write(place.project, '[[notify]]\nkind = "desktop"\n')
    assert "`notify` cannot be set by a project file" in place.refusal()


ROWS = "[programs] program | command words | kind\ndeployctl | prod | publishes\n[tools] tool | kind\nbook | pays\n"


def test_the_operators_own_rows_are_part_of_the_policy(place: Place) -> None:
    before = place.load()
    table = place.user.with_name("rows.tbl")
    table.parent.mkdir(parents=True, exist_ok=True)
    table.write_text(ROWS, encoding="utf-8")
    settings = place.load()
    assert settings.policy.effect_rows == ("programs | deployctl | prod | publishes", "tools | book | pays")
    assert settings.policy.hash != before.policy.hash == Policy().hash
    assert table in settings.operator_files
    assert SettingsSource(SourceRole.USER, table) in settings.sources
    gate = Gate(settings.policy)
    for tool, arguments in (("Bash", {"command": "deployctl prod"}), ("book", {"text": "x"})):
        session = gate.session(goal="Look at the page")
        session.add("A page.", source="web:a.example")
        kinds = {effect.kind for effect in session.check(tool, arguments).effects}
        assert kinds & {"publishes", "pays"}


def test_a_project_has_no_rows_and_a_wrong_row_stops_the_start(place: Place) -> None:
    (place.cwd / "rows.tbl").write_text(ROWS, encoding="utf-8")
    (place.cwd / "own.toml").write_text("", encoding="utf-8")
    assert place.load(explicit=place.cwd / "own.toml").policy.effect_rows == ()
    table = place.user.with_name("rows.tbl")
    table.parent.mkdir(parents=True, exist_ok=True)
    table.write_text("[tools] tool | kind\nbook | spends\n", encoding="utf-8")
    with pytest.raises(InvalidConfig, match=r"line 2 of `.*rows\.tbl`: `spends` is no kind that a row may add"):
        place.load()


def test_an_entry_that_is_no_host_of_ones_own_names_its_line(place: Place) -> None:
    place.write(place.named, '[own]\nhosts = ["https://our.example/"]\n')
    with pytest.raises(InvalidConfig, match=r"toml:2: .*`https://our\.example/` is no entry of own_hosts"):
        place.load(explicit=place.named)
