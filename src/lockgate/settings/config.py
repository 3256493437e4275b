"""TOML and environment -> Settings, once: the only reader of configuration files.

Environment variables are read here and, those about verifiers, in verifier_settings.py; nowhere else.

How the settings are found and put together:

1. The operator's files, weakest first: the system's, the user's, the named one (`--config`, else LOCKGATE_CONFIG).
   Each is refused when somebody else can write it: an agent that can write its own policy has none.
2. Key by key the stronger file wins; listed patterns and tools add up.
3. The project's files, ./lockgate.toml and [tool.lockgate] of ./pyproject.toml, come with whatever repository the
   agent is in. Both may tighten what 1 and 2 gave. A key that would loosen it, or that is the operator's, is an error.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from glob import escape
from pathlib import Path
from typing import cast

from lockgate.core.errors import InvalidConfig, InvalidPattern, quoted
from lockgate.core.judging.model_names import parse_aliases
from lockgate.core.judging.prices import parse_prices
from lockgate.core.ruling.policy import (
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
from lockgate.core.vocabulary import Mode, Trust

SYSTEM_FILE = Path("/etc/lockgate/config.toml")
MAX_FILE_BYTES = 1 << 20
# tomllib takes time cubic in the parts of one dotted key: 32,000 of them, 64 KB, are 40 s. Ours have five.
MAX_KEY_PARTS = 32
# Looking for a line is a courtesy: past this size an error names the file and the key only.
_MAX_LOCATED_CHARACTERS = 100_000


class KeyForm(StrEnum):
    """What a key holds, in the words its error messages and its documentation use."""

    WORD = "one of a few words"
    TEXT = "a string"
    TEXTS = "an array of strings"
    FLAG = "true or false"
    COUNT = "a whole number"
    SECONDS = "a number of seconds"


@dataclass(frozen=True, slots=True)
class SupervisionSettings:
    timeout_s: float = 30.0
    human_timeout_s: float = 300.0
    model_aliases: tuple[str, ...] = ()
    prices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """The journal. `log_path` is a file or a PostgreSQL URL; empty, and it is a file in the user's state directory."""

    enabled: bool = True
    log_path: str = ""
    retention_days: int = 0
    strict: bool = False
    strict_seconds: float = 5.0
    witnesses: tuple[str, ...] = ()
    anchors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The service. `database` is a PostgreSQL URL; empty, and its sessions are in a file in the state directory."""

    host: str = "127.0.0.1"
    port: int = 7717
    allowed_hosts: tuple[str, ...] = ()
    database: str = ""
    keep_days: int = 30
    workers: int = 1


POSTGRES = ("postgresql://", "postgres://")


@dataclass(frozen=True, slots=True)
class Key:
    """One key of the configuration, declared once: parsing, errors, `config show` and the reference come from it.

    `fills` is the field of Policy, Supervision, Audit or Server that takes the value and has its default. `tightens`
    says how a project file may change it; empty, and the key is the operator's alone.
    """

    path: str
    fills: str
    form: KeyForm
    doc: str
    tightens: str = ""
    words: Mapping[str, object] = field(default_factory=dict)
    least: float = 0
    most: float = 0

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]

    @property
    def table(self) -> str:
        return self.path.rpartition(".")[0]

    @property
    def default(self) -> object:
        return self.value(Settings())

    def value(self, settings: Settings) -> object:
        for part in (settings.supervision, settings.audit, settings.server):
            if self.fills in part.__slots__:
                return getattr(part, self.fills)
        return getattr(settings.policy, self.fills)

    @property
    def allowed(self) -> str:
        if self.form is KeyForm.WORD:
            return "one of " + ", ".join(f'"{word}"' for word in self.words)
        if self.form in (KeyForm.COUNT, KeyForm.SECONDS):
            return f"{self.form} from {self.least:,} to {self.most:,}"
        return self.form.value


# `scope` stands before `mode`, which needs it.
KEYS = (
    Key(
        "security.scope",
        "research_scope",
        KeyForm.TEXT,
        'What the research is about, in your words; `mode = "research"` needs it, and `default` has no use for it. '
        "The judges of Tier 2 and Tier 3 read it.",
    ),
    Key(
        "security.mode",
        "mode",
        KeyForm.WORD,
        "`default` escalates what Tier 1 flags; `paranoid` sends every action through all three tiers; "
        "`research` works inside a declared `scope`.",
        tightens="to `paranoid`",
        words={mode.value: mode for mode in Mode},
    ),
    Key(
        "security.user_trust",
        "user_trust",
        KeyForm.WORD,
        "How far the user's own messages are believed. Lower it when strangers type to the agent.",
        tightens="to a lower trust (`trusted` > `vetted` > `untrusted`)",
        words={trust.word: trust for trust in sorted(Trust, reverse=True)},
    ),
    Key(
        "security.verification.triage_model",
        "triage_model",
        KeyForm.TEXT,
        "Who judges in Tier 2: `embedded` (the [judge](../how-to/embedded.md) that runs in this process), or a fast, "
        "cheap model by a short name (`claude-haiku`, see [models](models.md)) or as `provider/model`, or `none`. "
        "Empty: the embedded judge where it is installed, else nobody.",
    ),
    Key(
        "security.verification.judge_preset",
        "judge_preset",
        KeyForm.WORD,
        "How sure the embedded judge has to be before it clears a call: `cautious` lets the fewest attacks through, "
        "`quiet` asks the fewest questions. `lockgate judge report` prints what was measured for each.",
        tightens="to a more cautious one",
        words={preset: preset for preset in PRESETS},
    ),
    Key(
        "security.verification.model_aliases",
        "model_aliases",
        KeyForm.TEXTS,
        'Short names of your own for models, each written as `"NAME = provider/model"`.',
    ),
    Key(
        "security.verification.prices",
        "prices",
        KeyForm.TEXTS,
        "What your models cost where you know better, in US dollars per million tokens in and out: "
        '`"provider/model = 0.15 / 0.60"`.',
    ),
    Key(
        "security.verification.additional_patterns",
        "additional_patterns",
        KeyForm.TEXTS,
        "Regular expressions to flag besides the built-in rules, matched in linear time and without regard to case: no "
        f"look-around, no back-references. At most {MAX_PATTERNS} of at most {MAX_PATTERN_LENGTH:,} characters.",
        tightens="by adding patterns",
    ),
    Key(
        "security.verification.additional_high_risk_tools",
        "additional_high_risk_tools",
        KeyForm.TEXTS,
        "Names of tools to treat as high-risk besides those that already are.",
        tightens="by adding tools",
    ),
    Key(
        "security.verification.strict_patterns",
        "strict_patterns",
        KeyForm.FLAG,
        "Whether every rule counts in every recent untrusted block. By default the broad ones (call syntax, credential "
        "words) count in the arguments, and in a block only when the call is related to it.",
        tightens="to `true`",
    ),
    Key(
        "security.verification.recent_blocks",
        "recent_blocks",
        KeyForm.COUNT,
        "How many of the latest blocks count as recent context; 0 is everything since the session began.",
        tightens="to a larger window (0 is the largest)",
        most=MAX_WINDOW,
    ),
    Key(
        "security.audit.enabled",
        "enabled",
        KeyForm.FLAG,
        "Whether every ruling enters the [journal](../how-to/audit.md) before it is returned. Without it nothing can "
        "be shown later.",
    ),
    Key(
        "security.audit.log_path",
        "log_path",
        KeyForm.TEXT,
        "Where the journal is: the absolute path of a file, or `postgresql://…` without a password, which belongs into "
        "PGPASSWORD or PGPASSFILE. Empty: `journal.db` in the state directory (`~/.local/state/lockgate`). The key is "
        "a file beside it, ending in `.key`; that of a database is `postgres.key` in the state directory.",
    ),
    Key(
        "security.audit.retention_days",
        "retention_days",
        KeyForm.COUNT,
        "After how many days records are deleted. Their hashes stay, so that every proof stays valid. 0 keeps all.",
        most=36_500,
    ),
    Key(
        "security.audit.strict",
        "strict",
        KeyForm.FLAG,
        "Whether a ruling waits until a witness has cosigned a head of the journal that covers it.",
        tightens="to `true`",
    ),
    Key(
        "security.audit.strict_seconds",
        "strict_seconds",
        KeyForm.SECONDS,
        "How long a strict ruling waits for a witness. No cosignature by then counts as no record.",
        least=0.1,
        most=60,
    ),
    Key(
        "security.audit.witnesses",
        "witnesses",
        KeyForm.TEXTS,
        'Who cosigns the heads of the journal, each written as `"URL VKEY"`: where the witness listens, and its key.',
    ),
    Key(
        "security.audit.anchors",
        "anchors",
        KeyForm.TEXTS,
        "Where the journal's heads are sent besides: `file:PATH`, `git:FOLDER`, `https://…`, `syslog:` or "
        "`syslog://HOST:PORT`.",
    ),
    Key(
        "supervision.model",
        "supervisor_model",
        KeyForm.TEXT,
        "The capable model of Tier 3, named like `triage_model`. Empty: none.",
    ),
    Key(
        "supervision.timeout_seconds",
        "timeout_s",
        KeyForm.SECONDS,
        "How long the supervisor may take altogether. No answer by then is `unclear`.",
        least=0.1,
        most=600,
    ),
    Key(
        "supervision.max_reorient_attempts",
        "max_reorient_attempts",
        KeyForm.COUNT,
        "How often an agent may be asked to reconsider; after that it pauses.",
        tightens="to a lower number",
        most=MAX_ATTEMPTS,
    ),
    Key(
        "supervision.human_timeout_seconds",
        "human_timeout_s",
        KeyForm.SECONDS,
        "How long a paused call waits for a person. No answer by then is a no.",
        least=1,
        most=604_800,
    ),
    Key(
        "server.host",
        "host",
        KeyForm.TEXT,
        "The address on which [the service](../how-to/service.md) listens. Anything but this machine's own needs a "
        "token that you have set, and a proxy before it that encrypts.",
    ),
    Key(
        "server.port",
        "port",
        KeyForm.COUNT,
        "The port on which the service listens.",
        least=1,
        most=65_535,
    ),
    Key(
        "server.allowed_hosts",
        "allowed_hosts",
        KeyForm.TEXTS,
        "Other names under which the service may be asked, each as it stands in the address: `lockgate.example.com` or "
        "`lockgate.example.com:8443`. A request under any name that is not known is refused.",
    ),
    Key(
        "server.database",
        "database",
        KeyForm.TEXT,
        "Where sessions and approvals are kept when several machines [share them](../how-to/teams.md): "
        "`postgresql://…` without a password, which belongs into PGPASSWORD or PGPASSFILE. Empty: files in the state "
        "directory (`~/.local/state/lockgate`).",
    ),
    Key(
        "server.keep_days",
        "keep_days",
        KeyForm.COUNT,
        "After how many days without a word sessions are forgotten, with all that was read in them. One that goes on "
        "later has a context that is not known. 0 keeps all.",
        most=36_500,
    ),
    Key(
        "server.workers",
        "workers",
        KeyForm.COUNT,
        "How many processes answer.",
        least=1,
        most=64,
    ),
)


_KEY_AT = {tuple(key.path.split(".")): key for key in KEYS}
# The tables, and what each may hold, in the order of KEYS.
_INSIDE: dict[tuple[str, ...], dict[str, None]] = {}
for _path in _KEY_AT:
    for _depth in range(len(_path)):
        _INSIDE.setdefault(_path[:_depth], {})[_path[_depth]] = None


class SourceRole(StrEnum):
    EXPLICIT = "explicit"
    ENV = "env"
    PROJECT = "project"
    USER = "user"
    SYSTEM = "system"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class SettingsSource:
    """A place settings came from: `keys` are those in force from it, `unused` says why a file was not read."""

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
    # None where no home directory is known, as under a user id that nobody registered: then nothing is kept.
    cache_dir: Path | None = None
    sources: tuple[SettingsSource, ...] = ()
    origins: Mapping[str, str] = field(default_factory=dict)
    # What has to outlive the process.
    state_dir: Path | None = None
    audit: AuditSettings = field(default_factory=AuditSettings)
    # The table `[abuse_gate]` as it stands in the operator's files, unchecked: abuse_settings.py reads it.
    abuse_gate: Mapping[str, object] = field(default_factory=dict)
    server: ServerSettings = field(default_factory=ServerSettings)

    def list_values(self) -> tuple[Setting, ...]:
        return tuple(Setting(key.path, as_toml(key.value(self)), self.origins.get(key.path, "default")) for key in KEYS)


def discover_settings(
    explicit: Path | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    check_pattern: Callable[[str], None] | None = None,
) -> Settings:
    """The settings for this process: `load` with its working directory and, unless another is given, environment."""
    said = os.environ if environ is None else environ
    return load_settings(explicit=explicit, cwd=Path.cwd(), environ=said, check_pattern=check_pattern)


def load_settings(
    *,
    explicit: Path | None = None,
    cwd: Path,
    environ: Mapping[str, str],
    home: Path | None = None,
    system: Path = SYSTEM_FILE,
    check_pattern: Callable[[str], None] | None = None,
) -> Settings:
    """Read every file there is and put them together, or raise InvalidConfig saying what, where, and how to fix it.

    `check_pattern` raises InvalidPattern for what the scanner's engine cannot take. Without it such a pattern is
    found only when the scanner compiles, by an error that knows no file.
    """
    home = home or _home(environ)
    build = _Build(check_pattern)
    named, role = _named(explicit, cwd, environ)
    # 1. and 2. The operator's files, weakest first.
    config_home = _xdg(environ, "XDG_CONFIG_HOME", home, ".config")
    user = config_home / "lockgate" / "config.toml" if config_home is not None else None
    for path, its_role in ((system, SourceRole.SYSTEM), (user, SourceRole.USER)):
        if path is not None and not build.passed_over(path, its_role, named, role):
            build.operator(path, its_role)
    if named is not None:
        build.operator(named, role)
    if explicit is not None and environ.get("LOCKGATE_CONFIG"):
        build.sources.append(
            SettingsSource(SourceRole.ENV, Path(environ["LOCKGATE_CONFIG"]), unused="--config was given")
        )
    # 3. The project's files.
    base = build.settings(None)
    for name in ("lockgate.toml", "pyproject.toml"):
        if not build.passed_over(cwd / name, SourceRole.PROJECT, named, role):
            build.project(cwd / name, base)
    cache_home = _xdg(environ, "XDG_CACHE_HOME", home, ".cache")
    state_home = _xdg(environ, "XDG_STATE_HOME", home, ".local/state")
    return build.settings(
        cache_home / "lockgate" if cache_home is not None else None,
        state_home / "lockgate" if state_home is not None else None,
    )


class _Build:
    """The settings while they are put together, with the files that each value in force came from."""

    def __init__(self, check_pattern: Callable[[str], None] | None) -> None:
        self._policy = Policy()
        self._supervision = SupervisionSettings()
        self._audit = AuditSettings()
        self._server = ServerSettings()
        self._abuse_gate: dict[str, object] = {}
        self._origins: dict[str, tuple[Path, ...]] = {}
        self.sources: list[SettingsSource] = []
        self._check_pattern = check_pattern

    def passed_over(self, path: Path, role: SourceRole, named: Path | None, named_role: SourceRole) -> bool:
        """Whether this file is the named one under another name: it is read once, as the operator's own word."""
        if not _same(path, named):
            return False
        self.sources.append(SettingsSource(role, path, unused=f"read as the {named_role} file"))
        return True

    def operator(self, path: Path, role: SourceRole) -> None:
        file = _read(path, role)
        if file is None:
            if role in _MISSING:
                raise InvalidConfig(f"{_shown(path)}: no such file", hint=_MISSING[role])
            return
        self.sources.append(SettingsSource(role, path))
        self._abuse_gate |= file.abuse_gate
        for key, value in self._checked(file):
            if key.fills in SupervisionSettings.__slots__:
                self._supervision = replace(self._supervision, **{key.fills: value})  # type: ignore[arg-type]
            elif key.fills in AuditSettings.__slots__:
                self._audit = replace(self._audit, **{key.fills: value})  # type: ignore[arg-type]
            elif key.fills in ServerSettings.__slots__:
                self._server = replace(self._server, **{key.fills: value})  # type: ignore[arg-type]
            else:
                with file.at(key):
                    self._policy = change_policy(self._policy, **{key.fills: value})
            self._note(key, path)
        if self._policy.mode is Mode.DEFAULT and self._policy.research_scope:
            if path in self._origins["security.scope"]:
                raise file.error(
                    "security.scope",
                    " has no effect in mode `default`",
                    hint='add mode = "research", or remove the scope',
                )
            # This file took back the mode of a weaker one: the scope goes with it.
            self._policy = change_policy(self._policy, research_scope="")
            del self._origins["security.scope"]

    def project(self, path: Path, base: Settings) -> None:
        file = _read(path, SourceRole.PROJECT)
        if file is None:
            return
        self.sources.append(SettingsSource(SourceRole.PROJECT, path))
        for key, value in self._checked(file):
            if not key.tightens:
                raise file.error(
                    key.path,
                    " cannot be set by a project file",
                    hint=_OPERATORS,
                )
            if value is Mode.RESEARCH and not base.policy.research_scope:
                raise file.error(
                    key.path,
                    ": `research` needs a scope, which a project file cannot give",
                    hint=f"a project file may change it only {key.tightens}; remove the line",
                )
            audited = key.fills in AuditSettings.__slots__
            standing = key.value(base)
            with file.at(key):
                # Of the journal's keys only a flag is left here.
                weaker = standing and not value if audited else find_loosened(base.policy, **{key.fills: value})
            if weaker:
                raise file.error(
                    key.path,
                    f" would loosen the policy: {as_toml(value)} is weaker than {as_toml(standing)} "
                    f"({base.origins[key.path]})",
                    hint=f"a project file may change it only {key.tightens}; remove the line",
                )
            before = self._policy, self._audit
            with file.at(key):
                if audited:
                    self._audit = replace(self._audit, strict=self._audit.strict or value is True)
                else:
                    self._policy = tighten(self._policy, **{key.fills: value})
            if (self._policy, self._audit) != before:
                self._note(key, path)

    def settings(self, cache_dir: Path | None, state_dir: Path | None = None) -> Settings:
        default = SettingsSource(
            SourceRole.DEFAULT, None, tuple(key.path for key in KEYS if key.path not in self._origins)
        )
        used = [
            source
            if source.unused
            else replace(source, keys=tuple(key.path for key in KEYS if source.file in self._origins.get(key.path, ())))
            for source in self.sources
        ]
        origins = {key.path: ", ".join(map(_shown, self._origins.get(key.path, ()))) or "default" for key in KEYS}
        return Settings(
            self._policy,
            self._supervision,
            cache_dir,
            (*used, default),
            origins,
            state_dir,
            self._audit,
            self._abuse_gate,
            self._server,
        )

    def _checked(self, file: _File) -> Iterator[tuple[Key, object]]:
        for key, value in file.values:
            if key.fills == "additional_patterns" and self._check_pattern is not None:
                with file.at(key):
                    change_policy(Policy(), additional_patterns=value)
                places: dict[str, int] = {}
                for number, pattern in enumerate(cast("tuple[str, ...]", value), 1):
                    places.setdefault(pattern, number)
                for pattern, number in places.items():
                    with file.at(key, item=number):
                        self._check_pattern(pattern)
            if key.fills in _PARSED:
                with file.at(key):
                    _PARSED[key.fills](value)
            yield key, value

    def _note(self, key: Key, path: Path) -> None:
        self._origins[key.path] = (*self._origins.get(key.path, ()), path) if key.form is KeyForm.TEXTS else (path,)


def _check_database(path: str) -> None:
    if path and not path.startswith(POSTGRES):
        raise InvalidConfig(
            f"must be postgresql://… or empty, not {quoted(path)}", hint="postgresql://user@host/database"
        )
    _check_log_path(path)


def _check_log_path(path: str) -> None:
    """A file by its whole path or a database by its URL; what is in it is not looked at here."""
    if path.startswith(POSTGRES):
        from urllib.parse import parse_qs, urlsplit

        try:
            parts = urlsplit(path)
            named = parse_qs(parts.query, keep_blank_values=True)
            secret = parts.password is not None or any(name.lower().endswith("password") for name in named)
        except ValueError:
            raise InvalidConfig("is no URL", hint="postgresql://user@host/database") from None
        if secret:
            # Not repeated: the message ends up on screens and in logs.
            raise InvalidConfig(
                "must not hold a password", hint="take it out, and set PGPASSWORD or name a file in PGPASSFILE"
            )
    elif path:
        name = os.path.basename(path)
        if "\0" in path or not os.path.isabs(path) or name in _NO_NAMES:
            raise InvalidConfig(
                f"must be the absolute path of a file, or postgresql://…, not {quoted(path)}",
                hint="e.g. /var/lib/lockgate/journal.db; its key lies beside it and ends in `.key`",
            )
        path_beside_log(Path(path), ".key")
        if os.path.isdir(path):
            raise InvalidConfig(f"must be a file, and {quoted(path)} is a folder", hint="add a name to it: journal.db")


# What lies beside a log: its keys, its notes, SQLite's own files, and all of these while they are being made.
_NO_NAMES = ("", ".", "..")
_BESIDE_A_LOG = re.compile(r"(?:\.key(?:\.[0-9]+)?|\.policy|\.witnessed|\.new|-wal|-shm|-journal)$", re.IGNORECASE)


def path_beside_log(log: Path, ending: str) -> Path:
    """The file of this log with this ending: of no other log, and never a log itself.

    That is its whole name with the ending behind it, except that `journal.db` has `journal.key` and so on; therefore no
    log may be called `journal`.
    """
    if log.name in _NO_NAMES:
        raise InvalidConfig(f"{quoted(log)} is no name of a file", hint="e.g. /var/lib/lockgate/journal.db")
    if log.name == "journal" or _BESIDE_A_LOG.search(log.name):
        raise InvalidConfig(
            f"must not be a name that files beside a log have, as {quoted(log.name)} is",
            hint="end it in `.db`; the log's key and notes lie beside it under its name with `.key` and so on",
        )
    name = "journal" if log.name == "journal.db" else log.name
    return log.with_name(f"{name}{ending}")


def list_key_files(key: Path) -> list[Path]:
    """The files of a log's keys that are there, oldest first; those it was rotated to have `.2`, `.3` and so on."""
    later = (path for path in key.parent.glob(f"{escape(key.name)}.*") if path.suffix[1:].isdecimal())
    first = [key] if os.path.lexists(key) else []
    return [*first, *sorted(later, key=lambda path: int(path.suffix[1:]))]


# Values that have a form of their own.
_PARSED: Mapping[str, Callable[..., object]] = {
    "model_aliases": parse_aliases,
    "prices": parse_prices,
    "log_path": _check_log_path,
    "database": _check_database,
}

_ABUSE = "abuse_gate"
_OPERATORS = (
    "a repository must not choose how it is judged: set it in your own configuration, by default "
    "~/.config/lockgate/config.toml, or in a file of yours named with --config"
)
_MISSING = {
    SourceRole.EXPLICIT: "--config names a file that must exist",
    SourceRole.ENV: "LOCKGATE_CONFIG names a file that must exist: correct the variable, or unset it",
}


@dataclass(frozen=True, slots=True)
class _File:
    """One file, read: its values checked one by one, its text kept to find lines in."""

    path: Path
    text: str
    # Where our tables are: () in a file of our own, ("tool", "lockgate") in a pyproject.toml.
    root: tuple[str, ...]
    values: tuple[tuple[Key, object], ...] = ()
    abuse_gate: Mapping[str, object] = field(default_factory=dict)

    def error(self, key: str | tuple[str, ...], message: str, *, hint: str = "", item: int = 0) -> InvalidConfig:
        """The message, which goes on after the key, at the line of that key, or of this item of its array."""
        path = self.root + (tuple(key.split(".")) if isinstance(key, str) else key)
        line, name = _line_of(self.text, path, item), quoted(".".join(path), 120)
        return InvalidConfig(f"{_shown(self.path)}{f':{line}' if line else ''}: {name}{message}", hint=hint)

    @contextmanager
    def at(self, key: Key, *, item: int = 0) -> Iterator[None]:
        """Put what the core says of a value at its line."""
        try:
            yield
        except (InvalidConfig, InvalidPattern) as error:
            raise self.error(key.path, f": {error.message}", hint=error.hint, item=item) from None


def _named(explicit: Path | None, cwd: Path, environ: Mapping[str, str]) -> tuple[Path | None, SourceRole]:
    if explicit is not None:
        return cwd / explicit, SourceRole.EXPLICIT
    variable = environ.get("LOCKGATE_CONFIG", "")
    # Relative, it would make a file of whatever repository one stands in the operator's own word.
    if variable and not os.path.isabs(variable):
        raise InvalidConfig(
            f"LOCKGATE_CONFIG must be an absolute path, not {quoted(variable)}", hint="name the file from the root"
        )
    return (Path(variable) if variable else None), SourceRole.ENV


def _home(environ: Mapping[str, str]) -> Path | None:
    for variable in ("HOME", "USERPROFILE"):
        if os.path.isabs(environ.get(variable, "")):
            return Path(environ[variable])
    try:
        from pwd import getpwuid

        return Path(getpwuid(os.getuid()).pw_dir)
    except (ImportError, KeyError):
        return None


def _xdg(environ: Mapping[str, str], variable: str, home: Path | None, default: str) -> Path | None:
    # The XDG specification: a relative path is invalid and must be ignored, an empty one means unset.
    if os.path.isabs(environ.get(variable, "")):
        return Path(environ[variable])
    return home / default if home is not None else None


def _same(a: Path, b: Path | None) -> bool:
    try:
        return b is not None and os.path.samefile(a, b)
    except OSError:
        return False


def _read(path: Path, role: SourceRole) -> _File | None:
    """The file with its values, or None where there is none; what cannot be read is an error, as it may be stricter."""
    data = _bytes(path, role)
    root = ("tool", "lockgate") if path.name == "pyproject.toml" else ()
    # Most projects have a pyproject.toml that is no business of ours, not even when an editor has just broken it.
    if data is None or (root and role is SourceRole.PROJECT and b"lockgate" not in data):
        return None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidConfig(f"{_shown(path)}:{line}: not UTF-8", hint="save the file as UTF-8") from None
    file = _File(path, text, root)
    tables = _tables(file, required=role is not SourceRole.PROJECT)
    if tables is None:
        return None
    # The abuse gate's table goes to its own reader as it is: nobody who only checks calls has to load that.
    gate = tables.pop(_ABUSE, {})
    if not isinstance(gate, dict):
        raise file.error(_ABUSE, f" must be a table, not {_toml_type(gate)}")
    if gate and role is SourceRole.PROJECT:
        raise file.error(_ABUSE, " cannot be set by a project file", hint=_OPERATORS)
    values = dict(_values(file, tables, ()))
    return replace(file, values=tuple((key, values[key.path]) for key in KEYS if key.path in values), abuse_gate=gate)


def _bytes(path: Path, role: SourceRole) -> bytes | None:
    where = _shown(path)
    try:
        # Without O_NONBLOCK a named pipe called lockgate.toml would hang us until somebody writes to it.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                what = "a directory" if stat.S_ISDIR(status.st_mode) else "not a regular file"
                raise InvalidConfig(f"{where}: is {what}", hint="give a TOML file; an empty one changes nothing")
            if role is not SourceRole.PROJECT and os.name != "nt":
                _refuse_writable(path, status)
            with os.fdopen(handle, "rb", closefd=False) as stream:
                data = stream.read(MAX_FILE_BYTES + 1)
        finally:
            os.close(handle)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise InvalidConfig(f"{where}: cannot be read: {(error.strerror or type(error).__name__).lower()}") from None
    if len(data) > MAX_FILE_BYTES:
        raise InvalidConfig(f"{where}: larger than {MAX_FILE_BYTES:,} bytes", hint="is it the right file?")
    return data


def _refuse_writable(path: Path, status: os.stat_result) -> None:
    folder = os.path.dirname(os.path.realpath(path))
    mode = os.stat(folder).st_mode
    why = writable_by_others(status.st_mode, status.st_uid, os.geteuid())
    hint = "use a copy of your own, or one of root's" if "user" in why else f"chmod go-w {_shown(path)}"
    if not why and mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        why, hint = "lies in a folder where anybody may replace it", f"chmod o-w {_shown(folder)}"
    if why:
        raise InvalidConfig(f"{_shown(path)}: {why}: whoever can write the policy can switch it off", hint=hint)


def writable_by_others(mode: int, owner: int, me: int) -> str:
    """How somebody other than root and me could write a file with this mode and owner, or nothing."""
    if owner not in (0, me):
        return "belongs to another user"
    if mode & stat.S_IWOTH:
        return "can be written by anybody"
    return "can be written by its group" if mode & stat.S_IWGRP else ""


def _tables(file: _File, *, required: bool) -> dict[str, object] | None:
    """The file's tables that are ours, or None where it has none."""
    import re
    import tomllib

    where = _shown(file.path)
    if line := _overlong_key(file.text):
        raise InvalidConfig(
            f"{where}:{line}: a key of more than {MAX_KEY_PARTS} parts", hint="no key of ours is so deep"
        )
    try:
        tables: dict[str, object] = tomllib.loads(file.text)
    except tomllib.TOMLDecodeError as error:
        said, _, place = str(error).rpartition(" (at ")
        number = re.match(r"line (\d+)", place)
        line = int(number[1]) if number else file.text.count("\n") + 1
        raise InvalidConfig(f"{where}:{line}: not valid TOML: {_shown(said[:1].lower() + said[1:])}") from None
    except (RecursionError, ValueError):
        # tomllib lets these through: too many brackets in one another, a number of more digits than Python reads.
        raise InvalidConfig(f"{where}: not valid TOML: nested too deeply, or a number too long") from None
    for depth, name in enumerate(file.root):
        if name not in tables:
            if required:
                raise InvalidConfig(f"{where}: has no [{'.'.join(file.root)}] table", hint="name another file")
            return None
        inner = tables[name]
        if not isinstance(inner, dict):
            raise replace(file, root=()).error(file.root[: depth + 1], f" must be a table, not {_toml_type(inner)}")
        tables = inner
    return tables


def _values(file: _File, tables: dict[str, object], at: tuple[str, ...]) -> Iterator[tuple[str, object]]:
    for name, raw in tables.items():
        path = (*at, name)
        if path in _KEY_AT:
            yield _KEY_AT[path].path, _value(file, _KEY_AT[path], raw)
        elif path not in _INSIDE:
            raise file.error(path, " is an unknown key", hint=_hint(file, name, at))
        elif not isinstance(raw, dict):
            raise file.error(path, f" must be a table, not {_toml_type(raw)}")
        else:
            yield from _values(file, raw, path)


def _hint(file: _File, name: str, at: tuple[str, ...]) -> str:
    """What somebody who wrote this name here may have meant."""
    from difflib import get_close_matches

    here = tuple(_INSIDE[at])
    if not at and not file.root and name == "tool":
        return "[tool.lockgate] is for pyproject.toml: here write [security] and [supervision]"
    for key in KEYS:
        if key.name == name:
            return f"`{name}` belongs in [{'.'.join((*file.root, key.table))}]"
    if close := get_close_matches(name[:100].lower(), here, n=1):
        return f"did you mean `{close[0]}`?"
    return f"known here: {', '.join(here)}"


def _value(file: _File, key: Key, raw: object) -> object:
    """The raw value as the core wants it, or an error that says what is allowed."""
    # True is an int to Python, and not a number to anybody who writes TOML.
    number = raw if isinstance(raw, int | float) and not isinstance(raw, bool) else None
    in_range = number is not None and key.least <= number <= key.most
    if key.form is KeyForm.WORD and isinstance(raw, str) and raw in key.words:
        return key.words[raw]
    if key.form is KeyForm.TEXT and isinstance(raw, str):
        return raw
    if key.form is KeyForm.FLAG and isinstance(raw, bool):
        return raw
    if key.form is KeyForm.COUNT and isinstance(number, int) and in_range:
        return number
    if key.form is KeyForm.SECONDS and number is not None and in_range:
        return float(number)
    if key.form is KeyForm.TEXTS and isinstance(raw, list):
        odd = [(place, item) for place, item in enumerate(raw, 1) if not isinstance(item, str)]
        if not odd:
            return tuple(raw)
        raise file.error(key.path, f" must be {key.allowed}, but item {odd[0][0]} is {_toml_type(odd[0][1])}")
    raise file.error(key.path, f" must be {key.allowed}, not {_said(key, raw)}", hint=_value_hint(key, raw))


def _said(key: Key, raw: object) -> str:
    # The number itself is not repeated: Python refuses to print those of some thousand digits.
    if (key.form is KeyForm.SECONDS and type(raw) in (int, float)) or (key.form is KeyForm.COUNT and type(raw) is int):
        return "this number"
    return quoted(raw) if isinstance(raw, str) else _toml_type(raw)


def _value_hint(key: Key, raw: object) -> str:
    from difflib import get_close_matches

    if not isinstance(raw, str):
        return ""
    if key.form is KeyForm.WORD:
        close = get_close_matches(raw[:100].lower(), tuple(key.words), n=1)
        return f'did you mean "{close[0]}"?' if close else ""
    return f'write {key.name} = ["…"]' if key.form is KeyForm.TEXTS else "write it without quotes"


def _toml_type(value: object) -> str:
    names = {bool: "a boolean", int: "an integer", float: "a float", str: "a string", list: "an array", dict: "a table"}
    return names.get(type(value), "a date or time")


def as_toml(value: object) -> str:
    """A value of a key as it would be written in the file; control characters come out escaped."""
    if isinstance(value, Trust):
        return as_toml(value.word)
    if isinstance(value, str):
        return f'"{"".join(map(_escaped, value))}"'
    if isinstance(value, tuple):
        return f"[{', '.join(map(as_toml, value))}]"
    return str(value).lower()


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    return character if character.isprintable() else f"\\U{ord(character):08X}"


def _shown(text: object) -> str:
    """A path, or a parser's words, for a message: what would move the cursor of whoever reads it is replaced."""
    return "".join(ch if ch.isprintable() else "\N{REPLACEMENT CHARACTER}" for ch in str(text))


# The tokens of TOML, as far as they say where a statement ends and which dots join the parts of a key. A quotation
# mark that nothing closes ends the reading: going on behind it would take time quadratic in a text of such marks.
_STRING = r""""(?:\\.|[^"\\\n])*"|'[^'\n]*'"""
_PART = rf"(?:[A-Za-z0-9_-]+|{_STRING})"
_TOKEN = (
    r'"""(?:\\.|[^\\])*?"{3,5}|' + r"'''.*?'{3,5}|" + r'(?P<unclosed>"""|' + r"''')|"
    rf"(?P<overlong>{_PART}(?:[ \t]*\.[ \t]*{_PART}){{{MAX_KEY_PARTS},}})|{_STRING}|"
    r"""(?P<open>["'])|#[^\n]*|[A-Za-z0-9_-]+|[\[\]{}\n]|[^\[\]{}\n"'#A-Za-z0-9_-]+"""
)


def _statements(text: str) -> Iterator[tuple[int, str, bool]]:
    """The line and the text of each statement, and whether it holds an overlong key."""
    import re

    start = depth = 0
    line = 1
    overlong = False
    text = f"{text}\n"
    for token in re.finditer(_TOKEN, text, re.DOTALL):
        if token["unclosed"] or token["open"]:
            return
        overlong = overlong or bool(token["overlong"])
        said = token[0]
        depth += (said in ("[", "{")) - (said in ("]", "}"))
        if said == "\n" and (depth == 0 or overlong):
            yield line, text[start : token.end()], overlong
            line += text.count("\n", start, token.end())
            start = token.end()


def _overlong_key(text: str) -> int:
    """The line of a key of too many parts, or 0."""
    if not any(line.count(".") >= MAX_KEY_PARTS for line in text.splitlines()):
        return 0
    return next((line for line, _, overlong in _statements(text) if overlong), 0)


def _line_of(text: str, path: tuple[str, ...], item: int = 0) -> int:
    """The line on which a valid TOML text first names this path, or has this item of its array; or 0."""
    import tomllib

    if len(text) > _MAX_LOCATED_CHARACTERS:
        return 0
    table: tuple[str, ...] = ()
    for line, statement, _ in _statements(text):
        names: object = tomllib.loads(statement)
        header = statement.lstrip().startswith("[")
        if header:
            table = ()
        rest = path[len(table) :]
        if path[: len(table)] == table and rest and _holds(names, rest):
            return line + _lines_before(statement, item)
        while header and isinstance(names, dict) and names:
            (name, names) = next(iter(names.items()))
            table = (*table, name)
            names = names[0] if isinstance(names, list) else names
    return 0


def _lines_before(statement: str, item: int) -> int:
    """The lines between a key and this item, counted from 1, of its array of strings; none where it is not found."""
    depth = 0
    for token in re.finditer(_TOKEN, statement, re.DOTALL):
        said = token[0]
        depth += (said in ("[", "{")) - (said in ("]", "}"))
        if depth == 1 and said[0] in ('"', "'"):
            item -= 1
            if item == 0:
                return statement.count("\n", 0, token.start())
    return 0


def _holds(names: object, path: tuple[str, ...]) -> bool:
    for name in path:
        names = names[0] if isinstance(names, list) and names else names
        if not isinstance(names, dict) or name not in names:
            return False
        names = names[name]
    return True


_BEGIN = "<!-- keys: written by `make docs` from src/lockgate/settings/config.py -->"
_END = "<!-- end of keys -->"


def reference_markdown(page: str) -> str:
    """The page of the configuration reference with its list of keys written again."""
    before, _, rest = page.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    lines: list[str] = []
    for table in dict.fromkeys(key.table for key in KEYS):
        lines += [f"### `[{table}]`", ""]
        for key in KEYS:
            if key.table == table:
                lines += [f"#### `{key.path}`", "", key.doc, ""]
                lines += [f"- Value: {key.allowed}", f"- Default: `{as_toml(key.default)}`"]
                lines += [
                    f"- Project files: {f'may change it {key.tightens}' if key.tightens else 'may not set it'}",
                    "",
                ]
    return f"{before}{_BEGIN}\n\n" + "\n".join(lines) + f"\n{_END}{after}"
