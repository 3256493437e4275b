"""Configuration files to `Settings`: the keys, and how the files are put together.

1. The operator's files, weakest first: the system's, the user's, the named one (`--config`, else LOCKGATE_CONFIG).
   Each is refused when another user can write it: an agent that can write its own policy has none.
2. Key by key the stronger file wins; listed patterns and tools add up.
3. The project's files, ./lockgate.toml and [tool.lockgate] of ./pyproject.toml, come with the agent's repository. Both
   may tighten what 1 and 2 gave. A key that would loosen it, or that only the operator may set, is an error.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from time import thread_time
from typing import Any, cast

from lockgate.core.errors import InvalidConfig, quoted, suggest_closest
from lockgate.core.ruling.policy import (
    ESCALATE,
    MAX_ATTEMPTS,
    MAX_PATTERN_LENGTH,
    MAX_PATTERNS,
    MAX_WINDOW,
    PRESETS,
    Policy,
    change_policy,
    find_loosened,
    tighten,
)
from lockgate.core.text.rules import MAX_CHARACTERS
from lockgate.core.vocabulary import Mode, Trust
from lockgate.settings.files import (
    TomlFile,
    home_folder,
    is_same_file,
    printable_path,
    read_operator_text,
    read_toml_file,
    stamp_files,
    xdg_folder,
)
from lockgate.settings.journal_paths import check_database, check_log_path
from lockgate.settings.keys import KeyForm, Row, as_toml, toml_type, value_from_toml
from lockgate.settings.model_names import parse_aliases
from lockgate.settings.prices import parse_prices

SYSTEM_FILE = Path("/etc/lockgate/config.toml")


@dataclass(frozen=True, slots=True)
class SupervisionSettings:
    timeout_s: float = 30.0
    triage_timeout_s: float = 0.0
    budget_session: int = 200
    budget_day: int = 1_000
    budget_usd: float = 0.0
    human_timeout_s: float = 300.0
    approval_life_s: float = 86_400.0
    two_person: tuple[str, ...] = ()
    model_aliases: tuple[str, ...] = ()
    prices: tuple[str, ...] = ()
    host_endpoint: str = ""


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """The journal. `log_path` is a file or a PostgreSQL URL; if empty, a file in the user's state directory."""

    enabled: bool = True
    log_path: str = ""
    retention_days: int = 0
    strict: bool = False
    strict_seconds: float = 5.0
    witnesses: tuple[str, ...] = ()
    anchors: tuple[str, ...] = ()


class WhenDown(StrEnum):
    """What the command hook does with an event while the service is down and cannot be started."""

    BLOCK = "block"
    OBSERVE = "observe"


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The service. `database` is a PostgreSQL URL; if empty, sessions are in a file in the state directory."""

    host: str = "127.0.0.1"
    port: int = 7717
    allowed_hosts: tuple[str, ...] = ()
    database: str = ""
    page_url: str = ""
    keep_days: int = 30
    workers: int = 1
    when_down: WhenDown = WhenDown.BLOCK


# Behind the budget of a policy's patterns, the last guard of a start: what the engine may take to check a file's.
PATTERNS_CPU_S = 20.0

# The part of Settings that holds a field.
_PART_OF = {
    **dict.fromkeys(SupervisionSettings.__slots__, "supervision"),
    **dict.fromkeys(AuditSettings.__slots__, "audit"),
    **dict.fromkeys(ServerSettings.__slots__, "server"),
}
_DEFAULTS = {
    "policy": Policy(),
    "supervision": SupervisionSettings(),
    "audit": AuditSettings(),
    "server": ServerSettings(),
}


def _row(key: str, fills: str, form: KeyForm, doc: str, **more: Any) -> Row:
    default = getattr(_DEFAULTS[_PART_OF.get(fills, "policy")], fills)
    return Row(doc, form, key=key, fills=fills, default=default, **more)


# `scope` stands before `mode`, which needs it.
# fmt: off
KEYS = (
    _row("security.scope", "research_scope", KeyForm.TEXT,
         doc='What the research is about, in your words; `mode = "research"` needs it, and `default` has no use for '
             "it. The judges of Tier 2 and Tier 3 read it."),
    _row("security.mode", "mode", KeyForm.WORD, tightens="to `paranoid`", words={mode.value: mode for mode in Mode},
         doc="`default` escalates what Tier 1 flags; `paranoid` sends every action through all three tiers; "
             "`research` works inside a declared `scope`."),
    _row("security.enforce", "enforce", KeyForm.FLAG, tightens="to `true`",
         doc="`false` is [observe mode](../how-to/observe.md): rules, judges and journal run, nothing is stopped, and "
             "every ruling says what it would have been. Only calls that would change Lockgate itself are held."),
    _row("security.user_trust", "user_trust", KeyForm.WORD,
         tightens="to a lower trust (`trusted` > `vetted` > `untrusted`)",
         words={trust.word: trust for trust in sorted(Trust, reverse=True)},
         doc="How far the user's own messages are believed. Lower it when strangers type to the agent."),
    _row("security.verification.triage_model", "triage_model", KeyForm.TEXT,
         doc="Who judges in Tier 2: `embedded` (the [judge](../how-to/embedded.md) that runs in this process), or a "
             "fast, cheap model by a short name (`claude-haiku`, see [models](models.md)) or as `provider/model`, or "
             "the model of a coding agent, by `host:claude-code` or `host:codex` (`host:codex/MODEL`), or a program of "
             "yours, by `command:/PATH ARGUMENTS`, a server on this machine, by `local:PORT/MODEL`, `none`, or "
             "`auto`: the first that has passed its exam ([who judges?](../explanation/who-judges.md)). Empty: the "
             "embedded judge if it is installed, else no judge."),
    _row("security.verification.host_endpoint", "host_endpoint", KeyForm.TEXT,
         doc="Where a coding agent that judges reaches its model, if not at its vendor's: the address of a gateway. "
             "The agent's own settings and variables for that do not count here."),
    _row("security.verification.judge_preset", "judge_preset", KeyForm.WORD, tightens="to a more cautious one",
         words={preset: preset for preset in PRESETS},
         doc="How sure the embedded judge has to be before it clears a call: `cautious` lets the fewest attacks "
             "through, `quiet` asks the fewest questions. `lockgate judge report` prints what was measured for each."),
    _row("security.verification.escalate", "escalate", KeyForm.WORD, tightens="to `wide`",
         words={width: width for width in ESCALATE},
         doc="Which calls are asked about: `narrow`, where something was found; `wide`, after untrusted text every "
             "call that reaches out unless you name all that it is aimed at; `auto`, wide with a judge that has passed "
             "[its exam](../explanation/exam.md), else narrow."),
    _row("security.verification.triage_timeout_seconds", "triage_timeout_s", KeyForm.SECONDS, most=30,
         doc="How long the judge of Tier 2 may take. 0: 1.5 for a provider (`VERIFIER_TIMEOUT_MS`), 20 for a program."),
    _row("security.verification.triage_budget_session", "budget_session", KeyForm.COUNT, most=1_000_000,
         doc="How many questions one session may put to a judge that costs something. Past it every call that would be "
             "asked about pauses."),
    _row("security.verification.triage_budget_day", "budget_day", KeyForm.COUNT, most=1_000_000,
         doc="The same for all sessions of a day."),
    _row("security.verification.triage_budget_usd", "budget_usd", KeyForm.SECONDS, most=100_000,
         doc="What the questions of a day may cost in US dollars; 0 is no limit. A price that is not known counts as "
             "nothing."),
    _row("security.verification.model_aliases", "model_aliases", KeyForm.TEXTS,
         doc='Short names of your own for models, each written as `"NAME = provider/model"`.'),
    _row("security.verification.prices", "prices", KeyForm.TEXTS,
         doc="What your models cost where you know better, in US dollars per million tokens in and out: "
             '`"provider/model = 0.15 / 0.60"`.'),
    _row("security.verification.additional_patterns", "additional_patterns", KeyForm.TEXTS,
         tightens="by adding patterns",
         doc="Regular expressions to flag besides the built-in rules, matched in linear time and without regard "
             "to case: no look-around, no back-references. "
             f"At most {MAX_PATTERNS} of at most {MAX_PATTERN_LENGTH:,} characters, {MAX_CHARACTERS:,} together. What "
             "would take long to compile is refused: many repeats inside each other, many patterns without two fixed "
             "characters in a row."),
    _row("security.verification.additional_high_risk_tools", "additional_high_risk_tools", KeyForm.TEXTS,
         tightens="by adding tools", doc="Names of tools to treat as high-risk besides those that already are."),
    _row("security.verification.strict_patterns", "strict_patterns", KeyForm.FLAG, tightens="to `true`",
         doc="Whether every rule counts in every recent untrusted block. By default the broad ones (call syntax, "
             "credential words) count in a block only when the call is related to it, and in the arguments only when "
             "the call reaches beyond the project and the user has not used the words. With `true` they count in all "
             "values and names of arguments, for every call of a high-risk tool, also one that only looks; never in a "
             "session without untrusted text. What a call would do is held as by default."),
    _row("security.verification.recent_blocks", "recent_blocks", KeyForm.COUNT,
         tightens="to a larger window (0 is the largest)", most=MAX_WINDOW,
         doc="How many of the latest blocks count as recent context; 0 is everything since the session began."),
    _row("security.audit.enabled", "enabled", KeyForm.FLAG,
         doc="Whether every ruling enters the [journal](../how-to/audit.md) before it is returned. Without it "
             "nothing can be shown later."),
    _row("security.audit.log_path", "log_path", KeyForm.TEXT,
         doc="Where the journal is: the absolute path of a file, or `postgresql://…` without a password, which "
             "belongs into PGPASSWORD or PGPASSFILE. Empty: `journal.db` in the state directory "
             "(`~/.local/state/lockgate`). The key is a file beside it, ending in `.key`; that of a database is "
             "`postgres.key` in the state directory."),
    _row("security.audit.retention_days", "retention_days", KeyForm.COUNT, most=36_500,
         doc="After how many days records are deleted. Their hashes stay, so that every proof stays valid. 0 keeps "
             "all."),
    _row("security.audit.strict", "strict", KeyForm.FLAG, tightens="to `true`",
         doc="Whether a ruling waits until a witness has cosigned a head of the journal that covers it."),
    _row("security.audit.strict_seconds", "strict_seconds", KeyForm.SECONDS, least=0.1, most=60,
         doc="How long a strict ruling waits for a witness. No cosignature by then counts as no record."),
    _row("security.audit.witnesses", "witnesses", KeyForm.TEXTS,
         doc='Who cosigns the heads of the journal, each written as `"URL VKEY"`: where the witness listens, and its '
             "key."),
    _row("security.audit.anchors", "anchors", KeyForm.TEXTS,
         doc="Where the journal's heads are sent besides: `file:PATH`, `git:FOLDER`, `https://…`, `syslog:` or "
             "`syslog://HOST:PORT`."),
    _row("own.hosts", "own_hosts", KeyForm.TEXTS,
         doc="Your hosts, each by its whole name: what is yours counts as named by the project's own files."),
    _row("own.domains", "own_domains", KeyForm.TEXTS, doc="Your domains, each with all hosts below it."),
    _row("own.addresses", "own_addresses", KeyForm.TEXTS, doc="Your mailboxes, each whole: `ops@our.example`."),
    _row("own.registries", "own_registries", KeyForm.TEXTS,
         doc="Your registries of packages and images: a host, or a place on it such as `ghcr.io/our-team`."),
    _row("own.accounts", "own_accounts", KeyForm.TEXTS, doc="Your accounts: of a bank, a wallet, an id at a provider."),
    _row("supervision.model", "supervisor_model", KeyForm.TEXT,
         doc="The capable model of Tier 3, named like `triage_model`. Empty: none."),
    _row("supervision.timeout_seconds", "timeout_s", KeyForm.SECONDS, least=0.1, most=600,
         doc="How long the supervisor may take altogether. No answer by then is `unclear`."),
    _row("supervision.max_reorient_attempts", "max_reorient_attempts", KeyForm.COUNT, tightens="to a lower number",
         most=MAX_ATTEMPTS, doc="How often an agent may be asked to reconsider; after that it pauses."),
    _row("supervision.human_timeout_seconds", "human_timeout_s", KeyForm.SECONDS, least=1, most=604_800,
         doc="How long a program that can ask its user (an MCP client) is made to wait for the answer. No answer by "
             "then is a no to it; the question can still be answered elsewhere, for `approval_life_seconds`."),
    _row("supervision.approval_life_seconds", "approval_life_s", KeyForm.SECONDS, least=1, most=604_800,
         doc="How long a held call can be [answered](../how-to/approvals.md), and a yes be used: a day. No answer by "
             "then is a no. It is never less than `human_timeout_seconds`."),
    _row("supervision.two_person", "two_person", KeyForm.TEXTS,
         doc="Held calls that [two people](../how-to/approvals.md#two-people) have to approve: kinds of effects, as "
             "`lockgate explain` names them, or `severity-2` and `severity-3` for all of that severity."),
    _row("server.host", "host", KeyForm.TEXT,
         doc="The address on which [the service](../how-to/service.md) listens. Anything but this machine's own "
             "needs a token that you have set, and a proxy before it that encrypts."),
    _row("server.port", "port", KeyForm.COUNT, least=1, most=65_535, doc="The port on which the service listens."),
    _row("server.allowed_hosts", "allowed_hosts", KeyForm.TEXTS,
         doc="Other names under which the service may be asked, each as it stands in the address: "
             "`lockgate.example.com` or `lockgate.example.com:8443`. A request under any name that is not known is "
             "refused."),
    _row("server.database", "database", KeyForm.TEXT,
         doc="Where sessions and approvals are kept when several machines [share them](../how-to/teams.md): "
             "`postgresql://…` without a password, which belongs into PGPASSWORD or PGPASSFILE. Empty: files in the "
             "state directory (`~/.local/state/lockgate`)."),
    _row("server.page_url", "page_url", KeyForm.TEXT,
         doc="The address under which people reach the page, for the links in "
             "[notifications](../how-to/notifications.md): `https://lockgate.example.com`. Empty: where it listens."),
    _row("server.keep_days", "keep_days", KeyForm.COUNT, most=36_500,
         doc="After how many days without a word sessions are forgotten, with all that was read in them. One that "
             "goes on later has a context that is not known. 0 keeps all."),
    _row("server.workers", "workers", KeyForm.COUNT, least=1, most=64, doc="How many processes answer."),
    _row("server.when_down", "when_down", KeyForm.WORD, words={word.value: word for word in WhenDown},
         doc="What [Claude Code's hooks](../how-to/claude-code.md#when-the-service-fails) do while the service is down "
             "and cannot be started: `block` lets nothing run, `observe` lets everything run, with a loud mark, and "
             "treats what those sessions have read as unknown later. `observe` is for hooks in the command form. The "
             "hooks of other coding agents always block."),
)
# fmt: on


def _check_effects(names: tuple[str, ...]) -> None:
    # Imported here: only installations with such rows pay for it.
    from lockgate.core.ruling.effects.effect import KINDS

    known = (*KINDS, "severity-2", "severity-3")
    for name in names:
        if name not in known:
            raise InvalidConfig(f"{quoted(name)} is no kind of effect", hint=suggest_closest(name, known))


_ROW_AT = {tuple(row.key.split(".")): row for row in KEYS}
# The tables, and what each may hold, in the order of KEYS.
_INSIDE: dict[tuple[str, ...], dict[str, None]] = {}
for _path in _ROW_AT:
    for _depth in range(len(_path)):
        _INSIDE.setdefault(_path[:_depth], {})[_path[_depth]] = None

# Values with a grammar of their own.
_CHECKS: Mapping[str, Callable[..., object]] = {
    "model_aliases": parse_aliases,
    "prices": parse_prices,
    "log_path": check_log_path,
    "database": check_database,
    "two_person": _check_effects,
}

_ABUSE = "abuse_gate"
_NOTIFY = "notify"
# Tables of which a file may have several, and the field of the policy that they fill.
# A table beside the configuration of the machine or of the user; a named file may lie in a project.
_TABLE = "rows.tbl"
_ROWS = {"flow": "flows", "label": "labels"}
# Rows that `lockgate policy test` reads, and no ruling depends on.
_TESTS = "test"
_ONLY_OPERATOR = (
    "a repository must not choose how it is judged: set it in your own configuration, by default "
    "~/.config/lockgate/config.toml, or in a file of yours named with --config"
)


class SourceRole(StrEnum):
    EXPLICIT = "explicit"
    ENV = "env"
    PROJECT = "project"
    USER = "user"
    SYSTEM = "system"
    DEFAULT = "default"


_MISSING = {
    SourceRole.EXPLICIT: "--config names a file that must exist",
    SourceRole.ENV: "LOCKGATE_CONFIG names a file that must exist: correct the variable, or unset it",
}


@dataclass(frozen=True, slots=True)
class SettingsSource:
    """A place that settings came from: `keys` are those in force from it, `unused` says why a file was not read."""

    role: SourceRole
    file: Path | None
    keys: tuple[str, ...] = ()
    unused: str = ""


@dataclass(frozen=True, slots=True)
class Setting:
    """One key as `config show` prints it: the value as TOML, the origin a file (several for a list) or `default`."""

    key: str
    value: str
    origin: str


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything configured, checked. `Settings()` is the defaults and knows no file."""

    policy: Policy = field(default_factory=Policy)
    supervision: SupervisionSettings = field(default_factory=SupervisionSettings)
    # None if no home directory is known, as under a user id without an account: then nothing is stored.
    cache_dir: Path | None = None
    sources: tuple[SettingsSource, ...] = ()
    origins: Mapping[str, str] = field(default_factory=dict)
    # For what has to outlive the process.
    state_dir: Path | None = None
    audit: AuditSettings = field(default_factory=AuditSettings)
    # The table `[abuse_gate]` as it stands in the operator's files, unchecked: abuse_gate.py reads it.
    abuse_gate: Mapping[str, object] = field(default_factory=dict)
    server: ServerSettings = field(default_factory=ServerSettings)
    # The rows of `[[notify]]` of the operator's files, unchecked: service/notifications.py reads them.
    notify: tuple[Mapping[str, object], ...] = ()
    # What a reload needs: where the operator's files are or could be, what they looked like before they were read, and
    # the project's files as they were then.
    operator_files: tuple[Path, ...] = field(default=(), compare=False)
    stamps: tuple[tuple[int, ...] | None, ...] = field(default=(), compare=False)
    project_files: tuple[TomlFile, ...] = field(default=(), compare=False, repr=False)

    def value_of(self, row: Row) -> object:
        """Return the value in force for one key."""
        return getattr(getattr(self, _PART_OF.get(row.fills, "policy")), row.fills)

    def list_values(self) -> tuple[Setting, ...]:
        """Return all keys with their values and origins."""
        return tuple(
            Setting(row.key, as_toml(self.value_of(row)), self.origins.get(row.key, "default")) for row in KEYS
        )


def find_restart_keys(old: Settings, new: Settings) -> tuple[str, ...]:
    """Return what differs between these and needs a restart: a reload changes the policy and the supervision only."""
    parts = ("audit", "server")
    keys = [row.key for row in KEYS if _PART_OF.get(row.fills) in parts and old.value_of(row) != new.value_of(row)]
    return (*keys, *(name for name in (_ABUSE, _NOTIFY) if getattr(old, name) != getattr(new, name)))


def discover_settings(
    explicit: Path | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    check_pattern: Callable[[str], None] | None = None,
    project: tuple[TomlFile, ...] | None = None,
) -> Settings:
    """Return `load_settings` for this process's working directory and, unless another is given, its environment."""
    variables = os.environ if environ is None else environ
    return load_settings(
        explicit=explicit, cwd=Path.cwd(), environ=variables, check_pattern=check_pattern, project=project
    )


def load_settings(
    *,
    explicit: Path | None = None,
    cwd: Path,
    environ: Mapping[str, str],
    home: Path | None = None,
    system: Path = SYSTEM_FILE,
    check_pattern: Callable[[str], None] | None = None,
    project: tuple[TomlFile, ...] | None = None,
) -> Settings:
    """Read all files and put them together, or raise InvalidConfig that says what, where, and how to fix it.

    `check_pattern` raises InvalidPattern for what the scanner's engine cannot take. Without it, such a pattern is found
    only when the scanner compiles, by an error that knows no file. `project` are the project's files as they were read
    before: then they are not read again.
    """
    home = home or home_folder(environ)
    merge = _Merge(check_pattern)
    named, role = _named_file(explicit, cwd, environ)
    # 1. and 2. The operator's files, weakest first.
    config_dir = xdg_folder(environ, "XDG_CONFIG_HOME", home, ".config")
    user = config_dir / "config.toml" if config_dir is not None else None
    tables = tuple(path.with_name(_TABLE) if path is not None else None for path in (system, user))
    merge.note_operator_files(system, user, named, *tables)
    for path, its_role in ((system, SourceRole.SYSTEM), (user, SourceRole.USER)):
        if path is not None and not merge.is_read_elsewhere(path, its_role, named, role):
            merge.add_operator_file(path, its_role)
    if named is not None:
        merge.add_operator_file(named, role)
    for path, its_role in zip(tables, (SourceRole.SYSTEM, SourceRole.USER), strict=True):
        if path is not None:
            merge.add_operator_rows(path, its_role)
    if explicit is not None and environ.get("LOCKGATE_CONFIG"):
        unused = SettingsSource(SourceRole.ENV, Path(environ["LOCKGATE_CONFIG"]), unused="--config was given")
        merge.sources.append(unused)
    # 3. The project's files.
    base = merge.settings(None)
    for file in merge.read_project(cwd, named, role) if project is None else project:
        merge.add_project_file(file, base)
    cache_dir = xdg_folder(environ, "XDG_CACHE_HOME", home, ".cache")
    return merge.settings(cache_dir, xdg_folder(environ, "XDG_STATE_HOME", home, ".local/state"))


def _named_file(explicit: Path | None, cwd: Path, environ: Mapping[str, str]) -> tuple[Path | None, SourceRole]:
    if explicit is not None:
        return cwd / explicit, SourceRole.EXPLICIT
    variable = environ.get("LOCKGATE_CONFIG", "")
    # A relative path would make a file of the current repository the operator's own.
    if variable and not os.path.isabs(variable):
        raise InvalidConfig(
            f"LOCKGATE_CONFIG must be an absolute path, not {quoted(variable)}", hint="name the file from the root"
        )
    return (Path(variable) if variable else None), SourceRole.ENV


class _Merge:
    """The settings while they are put together, with the files that each value in force came from."""

    def __init__(self, check_pattern: Callable[[str], None] | None) -> None:
        self._parts: dict[str, Any] = dict(_DEFAULTS)
        self._abuse_gate: dict[str, object] = {}
        self._notify: list[Mapping[str, object]] = []
        self._origins: dict[str, tuple[Path, ...]] = {}
        self.sources: list[SettingsSource] = []
        self._operator_files: tuple[Path, ...] = ()
        self._stamps: tuple[tuple[int, ...] | None, ...] = ()
        self._project_files: list[TomlFile] = []
        self._check_pattern = check_pattern

    def note_operator_files(self, *paths: Path | None) -> None:
        """Note where the operator's files are or could be, before any of them is read."""
        self._operator_files = tuple(path for path in paths if path is not None)
        self._stamps = stamp_files(self._operator_files)

    def is_read_elsewhere(self, path: Path, role: SourceRole, named: Path | None, named_role: SourceRole) -> bool:
        """Return whether this file is the named one under another name: it is read once, as the operator's."""
        if not is_same_file(path, named):
            return False
        self.sources.append(SettingsSource(role, path, unused=f"read as the {named_role} file"))
        return True

    def read_project(self, cwd: Path, named: Path | None, named_role: SourceRole) -> Iterator[TomlFile]:
        """Yield the project's files, but not the named one."""
        for path in (cwd / "lockgate.toml", cwd / "pyproject.toml"):
            if not self.is_read_elsewhere(path, SourceRole.PROJECT, named, named_role):
                file = read_toml_file(path, from_project=True)
                if file is not None:
                    yield file

    def add_operator_file(self, path: Path, role: SourceRole) -> None:
        """Let this file win over the weaker ones read before."""
        file = read_toml_file(path, from_project=False)
        if file is None:
            if role in _MISSING:
                raise InvalidConfig(f"{printable_path(path)}: no such file", hint=_MISSING[role])
            return
        self.sources.append(SettingsSource(role, path))
        self._abuse_gate |= _abuse_gate_table(file)
        self._notify += _notify_rows(file)
        self._parts["policy"] = change_policy(self._parts["policy"], **_policy_rows(file))
        for row, value in self._checked_values(file):
            part = _PART_OF.get(row.fills, "policy")
            if part == "policy":
                with file.locate_errors(row):
                    self._parts[part] = change_policy(self._parts[part], **{row.fills: value})
            else:
                self._parts[part] = replace(self._parts[part], **{row.fills: value})
            self._note_origin(row, path)
        policy = self._parts["policy"]
        if policy.mode is Mode.DEFAULT and policy.research_scope:
            if path in self._origins["security.scope"]:
                raise file.error(
                    "security.scope",
                    " has no effect in mode `default`",
                    hint='add mode = "research", or remove the scope',
                )
            # This file took back the mode of a weaker one: the scope goes with it.
            self._parts["policy"] = change_policy(policy, research_scope="")
            del self._origins["security.scope"]

    def add_operator_rows(self, path: Path, role: SourceRole) -> None:
        """Add the operator's own rows of programs and tools, where there is such a table."""
        if (text := read_operator_text(path)) is None:
            return
        # Imported here: only installations with such rows pay for it.
        from lockgate.core.ruling.effects.operator_rows import parse_operator_rows

        self.sources.append(SettingsSource(role, path))
        rows = parse_operator_rows(text, printable_path(path))
        self._parts["policy"] = change_policy(self._parts["policy"], effect_rows=rows)

    def add_project_file(self, file: TomlFile, base: Settings) -> None:
        """Tighten the settings by this file; raise InvalidConfig where it would loosen `base`, the operator's."""
        self._project_files.append(file)
        self.sources.append(SettingsSource(SourceRole.PROJECT, file.path))
        for table, is_set in ((_ABUSE, _abuse_gate_table(file)), (_NOTIFY, _NOTIFY in file.tables)):
            if is_set:
                raise file.error(table, " cannot be set by a project file", hint=_ONLY_OPERATOR)
        # More rows only ever hold more.
        self._parts["policy"] = change_policy(self._parts["policy"], **_policy_rows(file))
        for row, value in self._checked_values(file):
            self._refuse_loosening(file, row, value, base)
            part = _PART_OF.get(row.fills, "policy")
            before = self._parts[part]
            with file.locate_errors(row):
                if part == "audit":
                    # Of the journal's keys a project may set only this flag.
                    self._parts[part] = replace(before, strict=before.strict or value is True)
                else:
                    self._parts[part] = tighten(before, **{row.fills: value})
            if self._parts[part] != before:
                self._note_origin(row, file.path)

    @staticmethod
    def _refuse_loosening(file: TomlFile, row: Row, value: object, base: Settings) -> None:
        if not row.tightens:
            raise file.error(row.key, " cannot be set by a project file", hint=_ONLY_OPERATOR)
        hint = f"a project file may change it only {row.tightens}; remove the line"
        if value is Mode.RESEARCH and not base.policy.research_scope:
            raise file.error(row.key, ": `research` needs a scope, which a project file cannot give", hint=hint)
        standing = base.value_of(row)
        with file.locate_errors(row):
            if row.fills in AuditSettings.__slots__:
                weaker = bool(standing) and not value
            else:
                weaker = bool(find_loosened(base.policy, **{row.fills: value}))
        if weaker:
            raise file.error(
                row.key,
                f" would loosen the policy: {as_toml(value)} is weaker than {as_toml(standing)} "
                f"({base.origins[row.key]})",
                hint=hint,
            )

    def settings(self, cache_dir: Path | None, state_dir: Path | None = None) -> Settings:
        """Return what the files read so far say."""
        default = tuple(row.key for row in KEYS if row.key not in self._origins)
        used = [
            source
            if source.unused
            else replace(source, keys=tuple(row.key for row in KEYS if source.file in self._origins.get(row.key, ())))
            for source in self.sources
        ]
        return Settings(
            cache_dir=cache_dir,
            state_dir=state_dir,
            sources=(*used, SettingsSource(SourceRole.DEFAULT, None, default)),
            origins={
                row.key: ", ".join(map(printable_path, self._origins.get(row.key, ()))) or "default" for row in KEYS
            },
            abuse_gate=self._abuse_gate,
            notify=tuple(self._notify),
            operator_files=self._operator_files,
            stamps=self._stamps,
            project_files=tuple(self._project_files),
            **self._parts,
        )

    def _checked_values(self, file: TomlFile) -> Iterator[tuple[Row, object]]:
        """Yield each key of the file with its value, checked by itself, in the order of KEYS."""
        elsewhere = (_ABUSE, _NOTIFY, _TESTS, *_ROWS)
        values = dict(_values(file, {name: raw for name, raw in file.tables.items() if name not in elsewhere}, ()))
        for row in KEYS:
            if row.key not in values:
                continue
            value = values[row.key]
            if row.fills == "additional_patterns" and self._check_pattern is not None:
                self._check_patterns(file, row, cast("tuple[str, ...]", value), self._check_pattern)
            if row.fills in _CHECKS:
                with file.locate_errors(row):
                    _CHECKS[row.fills](value)
            yield row, value

    @staticmethod
    def _check_patterns(file: TomlFile, row: Row, patterns: tuple[str, ...], check: Callable[[str], None]) -> None:
        with file.locate_errors(row):
            change_policy(Policy(), additional_patterns=patterns)
        places: dict[str, int] = {}
        for number, pattern in enumerate(patterns, 1):
            places.setdefault(pattern, number)
        began = thread_time()
        for pattern, number in places.items():
            with file.locate_errors(row, item=number):
                check(pattern)
                if thread_time() - began > PATTERNS_CPU_S:
                    raise InvalidConfig(
                        f"the patterns up to {quoted(pattern)} took the engine more than {PATTERNS_CPU_S:g} s",
                        hint="write fewer or simpler ones",
                    )

    def _note_origin(self, row: Row, path: Path) -> None:
        self._origins[row.key] = (*self._origins.get(row.key, ()), path) if row.form is KeyForm.TEXTS else (path,)


def _abuse_gate_table(file: TomlFile) -> dict[str, object]:
    """Return the abuse gate's table unchecked: its reader is loaded only where the gate runs."""
    table = file.tables.get(_ABUSE, {})
    if not isinstance(table, dict):
        raise file.error(_ABUSE, f" must be a table, not {toml_type(table)}")
    return table


def _notify_rows(file: TomlFile) -> list[Mapping[str, object]]:
    """Return the rows of `[[notify]]` unchecked: the service, which sends, reads them."""
    rows = file.tables.get(_NOTIFY, [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise file.error(_NOTIFY, " must be written as [[notify]]")
    return list(rows)


def _policy_rows(file: TomlFile) -> dict[str, tuple[str, ...]]:
    """Return the flows and labels of a file as the policy holds them."""
    found = {}
    for name, field_name in _ROWS.items():
        rows = file.tables.get(name, [])
        if not isinstance(rows, list):
            raise file.error(name, f" must be written as [[{name}]], not as {toml_type(rows)}")
        if rows:
            # Imported here: only installations with such rows pay for it.
            from lockgate.core.ruling.flow_rules import parse_flow, parse_label, row_to_text

            parse = parse_flow if name == "flow" else parse_label
            try:
                found[field_name] = tuple(row_to_text(row, parse) for row in rows)
            except InvalidConfig as error:
                raise file.error(name, f": {error.message}", hint=error.hint) from None
    return found


def _values(file: TomlFile, tables: Mapping[str, object], at: tuple[str, ...]) -> Iterator[tuple[str, object]]:
    for name, raw in tables.items():
        path = (*at, name)
        if path in _ROW_AT:
            try:
                yield _ROW_AT[path].key, value_from_toml(_ROW_AT[path], raw)
            except InvalidConfig as error:
                raise file.error(path, f" {error.message}", hint=error.hint) from None
        elif path not in _INSIDE:
            raise file.error(path, " is an unknown key", hint=_unknown_key_hint(file, name, at))
        elif not isinstance(raw, dict):
            raise file.error(path, f" must be a table, not {toml_type(raw)}")
        else:
            yield from _values(file, raw, path)


def _unknown_key_hint(file: TomlFile, name: str, at: tuple[str, ...]) -> str:
    here = tuple(_INSIDE[at])
    if not at and not file.root and name == "tool":
        return "[tool.lockgate] is for pyproject.toml: here write [security] and [supervision]"
    for row in KEYS:
        if row.name == name:
            return f"`{name}` belongs in [{'.'.join((*file.root, row.table))}]"
    return suggest_closest(name.lower(), here) or f"known here: {', '.join(here)}"
