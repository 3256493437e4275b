"""Environment and the table `[abuse_gate]` to `AbuseSettings`: what the abuse gate lets in, and what follows.

Every setting has one name in two spellings: the variable `ABUSE_TIER1_THRESHOLD` is the key `tier1_threshold`. Where
both are given, the environment counts: it is what differs between two installations of the same configuration.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lockgate.core.errors import InvalidConfig, quoted, suggest_closest
from lockgate.core.requests.payload import PII_RULESETS
from lockgate.core.requests.strikes import BAN_MODES, MAX_SECONDS, MAX_THRESHOLD, LadderSettings
from lockgate.settings.key_files import read_key_file
from lockgate.settings.keys import Environment, KeyForm, Row
from lockgate.settings.tenants import TENANT_FIELDS, TenantPolicy, check_policies, policies_from_env, split_tenant

MIN_SECRET_CHARACTERS = 32
_LADDER = LadderSettings()
_MODES = {mode.value: mode for mode in BAN_MODES}
# Other headers say who the client is, or where its request ends.
_HEADER = re.compile(
    r"(?!(?:authorization|cookie|host|content-.*|x-forwarded-for|x-guardrail-.*)\Z)[a-z][a-z0-9-]{0,63}"
)
# The characters of a host, and nothing that would be a password, a query or a second host.
_STORE = re.compile(
    r"(?:valkey|valkeys|redis|rediss)://[A-Za-z0-9._:\[\]-]{1,255}(?:/[0-9]{1,4})?|unix:///[A-Za-z0-9._/-]{1,200}"
)


def _row(
    variable: str,
    fills: str,
    doc: str,
    default: str = "",
    words: Mapping[str, object] | tuple[str, ...] = (),
    **more: Any,
) -> Row:
    """Return a row; the key in the table is the variable's name without its prefix."""
    key = variable.removeprefix("ABUSE_").removeprefix("GATE_").lower()
    if words:
        more |= {"form": KeyForm.WORD, "words": words if isinstance(words, Mapping) else {each: each for each in words}}
    return Row(doc, key=f"abuse_gate.{key}", variable=variable, fills=fills, default=default, **more)


# fmt: off
VARIABLES = (
    _row("ABUSE_GATE_ENABLED", "enabled", default="true", words={"true": True, "false": False},
         doc="Whether the gate looks at anything at all."),
    _row("ABUSE_STRIKE_WINDOW_SEC", "ladder.window_s", default=f"{_LADDER.window_s:g}", least=1, most=MAX_SECONDS,
         form=KeyForm.SECONDS, doc="How long an unsafe request counts, in seconds."),
    _row("ABUSE_TIER1_THRESHOLD", "ladder.tier1_threshold", default=str(_LADDER.tier1_threshold), form=KeyForm.COUNT,
         least=1, most=MAX_THRESHOLD, doc="How many unsafe requests in the window lead to the first tier."),
    _row("ABUSE_TIER1_MODE", "ladder.tier1_mode", default=_LADDER.tier1_mode.value, words=_MODES,
         doc="What the first tier is: `execute_locked` refuses requests that offer or call tools, `full_quarantine` "
             "all."),
    _row("ABUSE_TIER1_COOLDOWN_SEC", "ladder.tier1_cooldown_s", default=f"{_LADDER.tier1_cooldown_s:g}", least=1,
         most=MAX_SECONDS, form=KeyForm.SECONDS, doc="How long the first tier lasts, in seconds."),
    _row("ABUSE_TIER2_THRESHOLD", "ladder.tier2_threshold", default=str(_LADDER.tier2_threshold), form=KeyForm.COUNT,
         least=1, most=MAX_THRESHOLD,
         doc="How many unsafe requests in the window lead to the second tier; not fewer than to the first."),
    _row("ABUSE_TIER2_MODE", "ladder.tier2_mode", default=_LADDER.tier2_mode.value, words=_MODES,
         doc="What the second tier is."),
    _row("ABUSE_TIER2_COOLDOWN_SEC", "ladder.tier2_cooldown_s", default=f"{_LADDER.tier2_cooldown_s:g}", least=1,
         most=MAX_SECONDS, form=KeyForm.SECONDS, doc="How long the second tier lasts, in seconds."),
    _row("ABUSE_NETWORK_THRESHOLD", "ladder.network_threshold", default=str(_LADDER.network_threshold),
         form=KeyForm.COUNT, least=1, most=MAX_THRESHOLD,
         doc="How many unsafe requests in the window from one network slow it down. A network is never locked out."),
    _row("ABUSE_MAX_SUBJECTS", "ladder.max_subjects", default=str(_LADDER.max_subjects), form=KeyForm.COUNT, least=100,
         most=10_000_000,
         doc="How many clients are remembered; past that the least recent is forgotten, those under a ban last."),
    _row("ABUSE_OVERRIDE_MODE", "override_mode", default="block", words=("block", "clarify"),
         doc="What becomes of an unsafe request of a client in good standing: `block` answers 403, `clarify` answers "
             "422 and asks for other words. Neither lets it through, and both count."),
    _row("ABUSE_OUTSIDE_STRIKES", "outside_strikes", default="network", words=("network", "principal"),
         doc="Whom an unsafe request counts against when only tools' results or documents in it are unsafe: "
             "`network` slows the network, so that no client is locked out by a page that its agent reads; "
             "`principal` counts it like any other, so that no client tries out attacks under a tool's name. It is "
             "blocked either way."),
    _row("ABUSE_ANONYMOUS", "anonymous", default="network", words=("network", "none"),
         doc="How a client without a user is locked out: `network` by its address (of IPv6 the first 64 bits), so that "
             "all who share the address are locked with it; `none` not at all. A network that may be a proxy's is "
             "never locked: a private address, or headers that proxies add, without `ABUSE_TRUSTED_PROXIES`."),
    _row("ABUSE_ON_UNCLEAR", "on_unclear", default="allow", words=("allow", "block"),
         doc="What becomes of a request that no verifier could judge: `allow` lets it through with the header "
             "`X-Guardrail-Decision: unclear`, `block` answers 403. It never counts against the client."),
    _row("ABUSE_ON_UNREAD", "on_unread", default="block", words=("block", "allow"),
         doc="What becomes of a request with an attachment that could not be read, or not all of it (an archive, a "
             "format that Lockgate does not know, one that takes too long, a PDF without the extra `documents`): "
             "`block` answers 422, `allow` has it be `unclear` at best. It never counts against the client."),
    _row("ABUSE_WEBSOCKETS", "websockets", default="refuse", words=("refuse", "unsafe_allow"),
         doc="What becomes of websockets, whose messages the gate does not read: `refuse`, or `unsafe_allow`, which "
             "looks only at who asks."),
    _row("ABUSE_PII_RULESET", "pii_ruleset", default="default", words=PII_RULESETS,
         doc="What is removed from a text before a provider gets it: the payload's `pii_ruleset`. `hipaa` and `ferpa` "
             "are for [health and school records](verifiers.md#rule-sets-for-records), `custom` needs patterns of your "
             "own in `VERIFIER_CUSTOM_REDACTIONS_FILE`."),
    _row("ABUSE_MAX_BODY_BYTES", "max_body_bytes", default="1048576", form=KeyForm.COUNT, least=1024, most=67_108_864,
         doc="How large a body may be, counted as it arrives. A larger one is answered with 413."),
    _row("ABUSE_MAX_HEADER_BYTES", "max_header_bytes", default="65536", form=KeyForm.COUNT, least=1024, most=1_048_576,
         doc="How much the path, the query and all headers may be together. More is answered with 431."),
    _row("ABUSE_READ_IDLE_SEC", "read_idle_s", default="5", least=0.1, most=600, form=KeyForm.SECONDS,
         doc="How long a client may send nothing while its body is read, in seconds. Then it gets 408."),
    _row("ABUSE_READ_TOTAL_SEC", "read_total_s", default="15", least=0.1, most=3600, form=KeyForm.SECONDS,
         doc="How long a body may take altogether, in seconds."),
    _row("ABUSE_VERDICT_TIMEOUT_MS", "verdict_timeout_s", default="5000", form=KeyForm.COUNT, least=10, most=120_000,
         doc="How long looking into attachments, and a `fetch_verdict` or an adapter of your own, may take, in "
             "milliseconds. Without an answer by then the request is `unclear`."),
    _row("ABUSE_TRUSTED_PROXIES", "trusted_proxies",
         doc="Addresses and networks of your own proxies, separated by commas, and `unix` for one that connects by a "
             "socket file. From them, and only from them, `X-Forwarded-For` is believed, read from its end."),
    _row("ABUSE_TENANTS", "tenants",
         doc="The names of your [tenants](#tenants), separated by commas. Each may have its own `ABUSE_PII_RULESET`, "
             "`ABUSE_ON_UNCLEAR` and `ABUSE_OVERRIDE_MODE`, as in `ABUSE_PII_RULESET__acme=hipaa`."),
    _row("ABUSE_TENANT_HEADER", "tenant_header",
         doc="The header in which your proxy names a request's tenant. It is believed from `ABUSE_TRUSTED_PROXIES` "
             "only, and these have to remove it from what clients send."),
    _row("ABUSE_UNLISTED_TENANTS", "unlisted_tenants", default="refuse", words=("refuse", "default"),
         doc="What becomes of a request whose tenant is not in `ABUSE_TENANTS`: `refuse` answers 403, `default` goes "
             "on with the settings that hold for requests without a tenant."),
    _row("ABUSE_STORE", "store", default="memory",
         doc="Where strikes are counted: `memory`, in each process by itself, or `valkey://HOST:6379/0` (also "
             "`valkeys`, `redis`, `rediss`, `unix:///PATH`) for several. A password comes from "
             "`ABUSE_STORE_PASSWORD`."),
    _row("ABUSE_STORE_PASSWORD", "store_password", secret=True, doc="The store's password."),
    _row("ABUSE_BANS_FILE", "bans_file",
         doc="A file that bans are also kept in, so that a restart lifts none. An absolute path. Empty: none."),
    _row("ABUSE_SECRET", "secret", secret=True,
         doc="What clients' names and addresses are hashed with, at least 32 characters. By default a new one at "
             "every start; a blank one is refused. A shared store and a file of bans need it: without it no client "
             "would be recognised."),
)
# fmt: on

_ROW_FOR = {row.fills: row for row in VARIABLES}
_KEYS = tuple(row.name for row in VARIABLES if not row.secret)


@dataclass(frozen=True, slots=True)
class AbuseSettings:
    """All settings of the gate, checked: InvalidConfig for what makes no sense, also when made in code.

    `AbuseSettings()` is the defaults, with everything in memory.
    """

    ladder: LadderSettings = field(default_factory=LadderSettings)
    enabled: bool = True
    override_mode: str = "block"
    outside_strikes: str = "network"
    anonymous: str = "network"
    on_unclear: str = "allow"
    on_unread: str = "block"
    websockets: str = "refuse"
    pii_ruleset: str = "default"
    max_body_bytes: int = 1 << 20
    max_header_bytes: int = 1 << 16
    read_idle_s: float = 5.0
    read_total_s: float = 15.0
    verdict_timeout_s: float = 5.0
    trusted_proxies: tuple[str, ...] = ()
    tenants: tuple[TenantPolicy, ...] = ()
    tenant_header: str = ""
    unlisted_tenants: str = "refuse"
    store: str = "memory"
    bans_file: str = ""
    secret: bytes = field(default=b"", repr=False)
    store_password: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.ladder, LadderSettings):
            raise InvalidConfig("ladder must be a LadderSettings", hint="from lockgate.core.requests.strikes")
        if type(self.enabled) is not bool:
            # The word `false` would be true.
            raise InvalidConfig("enabled must be True or False", hint="without quotes")
        for name in self.__slots__:
            if name != "enabled" and name in _ROW_FOR:
                _check_field(name, _ROW_FOR[name], getattr(self, name))
        object.__setattr__(self, "trusted_proxies", _networks(self.trusted_proxies, "trusted_proxies"))
        check_policies(self.tenants, {field: _ROW_FOR[field].words for field in TENANT_FIELDS})
        self._check_tenant_header()
        _check_store(self.store)
        _check_bans_file(self.bans_file)
        self._check_secrets()

    @property
    def has_tenants(self) -> bool:
        """Whether requests belong to tenants; otherwise none is looked for."""
        return bool(self.tenants) or self.unlisted_tenants != "refuse"

    def _check_tenant_header(self) -> None:
        if self.tenant_header == "":
            return
        if type(self.tenant_header) is not str or not _HEADER.fullmatch(self.tenant_header):
            raise InvalidConfig("ABUSE_TENANT_HEADER is no name of a header of its own", hint="for example x-tenant")
        if not self.trusted_proxies:
            raise InvalidConfig(
                "ABUSE_TENANT_HEADER needs ABUSE_TRUSTED_PROXIES: any client can send a header",
                hint="name the addresses of the proxy that sets it",
            )
        if not self.has_tenants:
            raise InvalidConfig(
                "ABUSE_TENANT_HEADER needs ABUSE_TENANTS: every request with a tenant would be refused",
                hint="list the tenants, or set ABUSE_UNLISTED_TENANTS=default",
            )

    def _check_secrets(self) -> None:
        if type(self.secret) is not bytes or type(self.store_password) is not str:
            raise InvalidConfig("secret must be bytes, and store_password text")
        if self.secret and len(self.secret.strip()) < MIN_SECRET_CHARACTERS:
            raise InvalidConfig(
                f"ABUSE_SECRET has fewer than {MIN_SECRET_CHARACTERS} characters",
                hint="make one: python3 -c 'import secrets; print(secrets.token_hex(32))'",
            )
        if not self.secret and (self.store != "memory" or self.bans_file):
            what = "ABUSE_BANS_FILE" if self.store == "memory" else "ABUSE_STORE"
            raise InvalidConfig(
                f"{what} needs ABUSE_SECRET: with a new one at every start no client would be recognised",
                hint="set ABUSE_SECRET, or ABUSE_SECRET_FILE to the path of a file that holds it, the same everywhere",
            )


def _check_field(name: str, row: Row, value: object) -> None:
    """Raise InvalidConfig unless a field that is a word or a number holds one that its row allows."""
    if row.form is KeyForm.WORD and (type(value) is not str or value not in row.words):
        raise InvalidConfig(f"{name} must be one of {', '.join(row.words)}, not {quoted(value)}")
    if row.most:
        unit = _unit(row)
        # By type: a bool is a number to Python.
        numbers = (int,) if row.form is KeyForm.COUNT and unit == 1 else (int, float)
        if type(value) not in numbers or not row.least <= value * unit <= row.most:  # type: ignore[operator]
            least, most = row.least / unit, row.most / unit
            raise InvalidConfig(f"{name} must be from {least:,g} to {most:,.12g}, not {quoted(value)}")


def _unit(row: Row) -> int:
    """Return how many of the row's units are one of its field's: fields are in seconds."""
    return 1000 if row.variable.endswith("_MS") else 1


def abuse_settings_from_env(
    environ: Mapping[str, str] | None = None, *, table: Mapping[str, object] | None = None
) -> AbuseSettings:
    """Return the settings of this environment and of a table `[abuse_gate]`; raise InvalidConfig saying what to set."""
    environment = Environment(os.environ if environ is None else environ, table)
    _refuse_unknown_keys(dict(table or {}))
    _refuse_unknown_variables(environment.variables)
    fields: dict[str, Any] = {}
    for row in VARIABLES:
        if row.form is not KeyForm.TEXT:
            value: Any = environment.value(row)
            fields[row.fills] = value / _unit(row) if _unit(row) != 1 else value
    ladder = {name.removeprefix("ladder."): fields.pop(name) for name in list(fields) if name.startswith("ladder.")}
    fields["ladder"] = LadderSettings(**ladder)
    text, where = environment.text(_ROW_FOR["trusted_proxies"])
    fields["trusted_proxies"] = _networks([entry.strip() for entry in text.split(",") if entry.strip()], where)
    fields["tenant_header"] = environment.text(_ROW_FOR["tenant_header"])[0].lower()
    fields["tenants"] = _tenants(environment, table)
    fields["store"], where = environment.text(_ROW_FOR["store"])
    _check_store(fields["store"], where)
    fields["bans_file"], where = environment.text(_ROW_FOR["bans_file"])
    _check_bans_file(fields["bans_file"], where)
    fields["secret"] = _secret(environment, "ABUSE_SECRET").encode("ascii")
    return AbuseSettings(store_password=_secret(environment, "ABUSE_STORE_PASSWORD"), **fields)


def _tenants(environment: Environment, table: Mapping[str, object] | None) -> tuple[TenantPolicy, ...]:
    text, _ = environment.text(_ROW_FOR["tenants"])
    names = list(dict.fromkeys(entry.strip() for entry in text.split(",") if entry.strip()))
    for each in (*environment.variables, *(table or {})):
        # Other names of this form were refused before.
        tenant = split_tenant(each)[1]
        if tenant and (each.startswith("ABUSE_") or each in (table or {})) and tenant not in names:
            raise InvalidConfig(
                f"{quoted(each, 120)}: no such tenant is listed",
                hint=suggest_closest(tenant, names) or "name it in ABUSE_TENANTS",
            )
    return policies_from_env(environment, names, {field: _ROW_FOR[field] for field in TENANT_FIELDS})


def _refuse_unknown_keys(table: Mapping[str, object]) -> None:
    for key in table:
        secret = next((row for row in VARIABLES if row.secret and row.name == key), None)
        if secret is not None:
            raise InvalidConfig(
                f"`abuse_gate.{key}` cannot stand in a file of settings",
                hint=f"set {secret.variable}, or {secret.variable}_FILE to the path of a file that holds it",
            )
        setting, tenant = split_tenant(str(key))
        if key not in _KEYS and not (tenant and setting in TENANT_FIELDS):
            raise InvalidConfig(
                f"{quoted(f'abuse_gate.{key}', 120)} is an unknown key",
                hint=suggest_closest(str(key), _KEYS) or f"known: {', '.join(_KEYS)}",
            )


def _refuse_unknown_variables(environ: Mapping[str, str]) -> None:
    """Raise InvalidConfig for a variable that only looks like ours: a misspelt threshold would leave the default."""
    known = {row.variable for row in VARIABLES} | {f"{row.variable}_FILE" for row in VARIABLES if row.secret}
    own = {_ROW_FOR[field].variable for field in TENANT_FIELDS}
    for name in environ:
        setting, tenant = split_tenant(name)
        if name.startswith("ABUSE_") and name not in known and not (tenant and setting in own):
            raise InvalidConfig(
                f"unknown variable {quoted(name)}",
                hint=suggest_closest(name, sorted(known)) or "every name that begins with ABUSE_ is the gate's",
            )


def _secret(environment: Environment, name: str) -> str:
    """Return a secret from its variable or its file; no message ever shows one."""
    text, file = environment.variable(name), environment.variable(f"{name}_FILE")
    for each, value in ((name, text), (f"{name}_FILE", file)):
        if name == "ABUSE_SECRET" and each in environment.variables and not value:
            # Its operator expects bans to hold; a new secret at every start would lift them all.
            raise InvalidConfig(f"{each} is set and blank", hint="unset it for a new secret at every start")
    if text and file:
        raise InvalidConfig(f"{name} and {name}_FILE are both set", hint="unset one of them")
    if file:
        if not os.path.isabs(file):
            raise InvalidConfig(f"{name}_FILE must be an absolute path", hint="name the file from the root")
        return read_key_file(Path(file))
    if text and not re.fullmatch(r"[!-~]{1,4096}", text):
        raise InvalidConfig(f"{name} must be one line of visible ASCII", hint="letters and digits will do")
    return text


def _networks(entries: object, where: str) -> tuple[str, ...]:
    """Return the proxies' addresses and networks without duplicates; raise InvalidConfig for one that is the world."""
    if not isinstance(entries, list | tuple) or not all(type(each) is str for each in entries):
        raise InvalidConfig(f"{where} must be a list of texts", hint="such as ('10.0.0.0/24',)")
    for entry in entries:
        try:
            network = None if entry == "unix" else ipaddress.ip_network(entry)
        except ValueError:
            raise InvalidConfig(
                f"{where}: {quoted(entry)} is not an address or a network", hint="write 10.0.0.7 or 10.0.0.0/24"
            ) from None
        if network is not None and network.prefixlen == 0:
            raise InvalidConfig(
                f"{where}: {quoted(entry)} is every address", hint="then any client could pose as any other"
            )
    return tuple(dict.fromkeys(entries))


def _check_store(store: object, where: str = "store") -> None:
    if type(store) is not str or (store != "memory" and not _STORE.fullmatch(store)):
        # The address is not shown: what stands before an @ in it is a password.
        raise InvalidConfig(
            f"{where} must be `memory` or an address like valkey://127.0.0.1:6379/0",
            hint="a password goes into ABUSE_STORE_PASSWORD, or a file named by ABUSE_STORE_PASSWORD_FILE",
        )


def _check_bans_file(path: object, where: str = "bans_file") -> None:
    if type(path) is not str or (path and not os.path.isabs(path)):
        raise InvalidConfig(f"{where} must be an absolute path", hint="name the file from the root")
