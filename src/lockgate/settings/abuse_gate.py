"""Environment and the table `[abuse_gate]` -> AbuseSettings, once: what the abuse gate lets in, and what follows.

Every setting has one name in two spellings: the variable `ABUSE_TIER1_THRESHOLD` is the key `tier1_threshold`. Where
both are given the environment counts: it is what differs between two installations of the same configuration.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from lockgate.core.errors import InvalidConfig, printable, quoted, suggest_closest
from lockgate.core.requests.payload import PII_RULESETS
from lockgate.core.requests.strikes import BAN_MODES, MAX_SECONDS, MAX_THRESHOLD, LadderSettings, Standing
from lockgate.settings.verifiers import read_key_file

MIN_SECRET_CHARACTERS = 32
_LADDER = LadderSettings()
_MODES = tuple(mode.value for mode in BAN_MODES)
# The characters of a host, and nothing that would be a password, a query or a second host.
_STORE = re.compile(
    r"(?:valkey|valkeys|redis|rediss)://[A-Za-z0-9._:\[\]-]{1,255}(?:/[0-9]{1,4})?|unix:///[A-Za-z0-9._/-]{1,200}"
)


class Variable(NamedTuple):
    """One setting, declared once: parsing, errors and the reference come from it.

    A number has `least` and `most`, a word has `words`; what has neither is a text with a form of its own. A `secret`
    stands in no file of settings, and has a second form: NAME_FILE names a file that holds it.
    """

    name: str
    doc: str
    default: str = ""
    words: tuple[str, ...] = ()
    least: float = 0
    most: float = 0
    whole: bool = True
    secret: bool = False

    @property
    def key(self) -> str:
        """Its name in the table `[abuse_gate]`."""
        return self.name.removeprefix("ABUSE_").removeprefix("GATE_").lower()


VARIABLES = (
    Variable("ABUSE_GATE_ENABLED", "Whether the gate looks at anything at all.", "true", ("true", "false")),
    Variable(
        "ABUSE_STRIKE_WINDOW_SEC",
        "How long an unsafe request counts, in seconds.",
        f"{_LADDER.window_s:g}",
        least=1,
        most=MAX_SECONDS,
        whole=False,
    ),
    Variable(
        "ABUSE_TIER1_THRESHOLD",
        "How many unsafe requests in the window lead to the first tier.",
        str(_LADDER.tier1_threshold),
        least=1,
        most=MAX_THRESHOLD,
    ),
    Variable(
        "ABUSE_TIER1_MODE",
        "What the first tier is: `execute_locked` refuses requests that offer or call tools, `full_quarantine` all.",
        _LADDER.tier1_mode.value,
        _MODES,
    ),
    Variable(
        "ABUSE_TIER1_COOLDOWN_SEC",
        "How long the first tier lasts, in seconds.",
        f"{_LADDER.tier1_cooldown_s:g}",
        least=1,
        most=MAX_SECONDS,
        whole=False,
    ),
    Variable(
        "ABUSE_TIER2_THRESHOLD",
        "How many unsafe requests in the window lead to the second tier; not fewer than to the first.",
        str(_LADDER.tier2_threshold),
        least=1,
        most=MAX_THRESHOLD,
    ),
    Variable("ABUSE_TIER2_MODE", "What the second tier is.", _LADDER.tier2_mode.value, _MODES),
    Variable(
        "ABUSE_TIER2_COOLDOWN_SEC",
        "How long the second tier lasts, in seconds.",
        f"{_LADDER.tier2_cooldown_s:g}",
        least=1,
        most=MAX_SECONDS,
        whole=False,
    ),
    Variable(
        "ABUSE_NETWORK_THRESHOLD",
        "How many unsafe requests in the window from one network slow it down. A network is never locked out.",
        str(_LADDER.network_threshold),
        least=1,
        most=MAX_THRESHOLD,
    ),
    Variable(
        "ABUSE_MAX_SUBJECTS",
        "How many clients are remembered; past that the least recent is forgotten, those under a ban last.",
        str(_LADDER.max_subjects),
        least=100,
        most=10_000_000,
    ),
    Variable(
        "ABUSE_OVERRIDE_MODE",
        "What becomes of an unsafe request of a client in good standing: `block` answers 403, `clarify` answers 422 "
        "and asks for other words. Neither lets it through, and both count.",
        "block",
        ("block", "clarify"),
    ),
    Variable(
        "ABUSE_OUTSIDE_STRIKES",
        "Whom an unsafe request counts against when only tools' results or documents in it are unsafe: `network` slows "
        "the network, so that nobody is locked out by a page that their agent reads; `principal` counts it like any "
        "other, so that nobody tries out attacks under a tool's name. It is blocked either way.",
        "network",
        ("network", "principal"),
    ),
    Variable(
        "ABUSE_ON_UNCLEAR",
        "What becomes of a request that nobody could judge: `allow` lets it through with the header "
        "`X-Guardrail-Decision: unclear`, `block` answers 403. It never counts against the client.",
        "allow",
        ("allow", "block"),
    ),
    Variable(
        "ABUSE_ON_UNREAD",
        "What becomes of a request with an attachment that could not be read, or not all of it (an archive, a format "
        "that nobody here knows, one that takes too long, a PDF without the extra `documents`): `block` answers 422, "
        "`allow` has it be `unclear` at best. It never counts against the client.",
        "block",
        ("block", "allow"),
    ),
    Variable(
        "ABUSE_WEBSOCKETS",
        "What becomes of websockets, whose messages the gate does not read: `refuse`, or `unsafe_allow`, which looks "
        "only at who asks.",
        "refuse",
        ("refuse", "unsafe_allow"),
    ),
    Variable("ABUSE_PII_RULESET", "The payload's `pii_ruleset`.", "default", PII_RULESETS),
    Variable(
        "ABUSE_MAX_BODY_BYTES",
        "How large a body may be, counted as it arrives. A larger one is answered with 413.",
        "1048576",
        least=1024,
        most=67_108_864,
    ),
    Variable(
        "ABUSE_MAX_HEADER_BYTES",
        "How much the path, the query and all headers may be together. More is answered with 431.",
        "65536",
        least=1024,
        most=1_048_576,
    ),
    Variable(
        "ABUSE_READ_IDLE_SEC",
        "How long a client may send nothing while its body is read, in seconds. Then it gets 408.",
        "5",
        least=0.1,
        most=600,
        whole=False,
    ),
    Variable(
        "ABUSE_READ_TOTAL_SEC",
        "How long a body may take altogether, in seconds.",
        "15",
        least=0.1,
        most=3600,
        whole=False,
    ),
    Variable(
        "ABUSE_VERDICT_TIMEOUT_MS",
        "How long looking into attachments, and a `fetch_verdict` or an adapter of your own, may take, in "
        "milliseconds. Without an answer by then the request is `unclear`.",
        "5000",
        least=10,
        most=120_000,
    ),
    Variable(
        "ABUSE_TRUSTED_PROXIES",
        "Addresses and networks of your own proxies, separated by commas, and `unix` for one that connects by a socket "
        "file. From them, and only from them, `X-Forwarded-For` is believed, read from its end.",
    ),
    Variable(
        "ABUSE_STORE",
        "Where strikes are counted: `memory`, in each process by itself, or `valkey://HOST:6379/0` (also `valkeys`, "
        "`redis`, `rediss`, `unix:///PATH`) for several. A password comes from `ABUSE_STORE_PASSWORD`.",
        "memory",
    ),
    Variable("ABUSE_STORE_PASSWORD", "The store's password.", secret=True),
    Variable(
        "ABUSE_BANS_FILE",
        "A file that bans are also kept in, so that a restart lifts none. An absolute path. Empty: none.",
    ),
    Variable(
        "ABUSE_SECRET",
        "What clients' names and addresses are hashed with, at least 32 characters. By default a new one at every "
        "start. A shared store and a file of bans need it: without it nobody would be recognised.",
        secret=True,
    ),
)

_VARIABLE = {variable.name: variable for variable in VARIABLES}
_KEY = {variable.key: variable for variable in VARIABLES if not variable.secret}


@dataclass(frozen=True, slots=True)
class AbuseSettings:
    """All there is to say about the gate, checked: InvalidConfig for what makes no sense, whoever made it.

    `AbuseSettings()` is the defaults, with everything in memory.
    """

    ladder: LadderSettings = field(default_factory=LadderSettings)
    enabled: bool = True
    override_mode: str = "block"
    outside_strikes: str = "network"
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
    store: str = "memory"
    bans_file: str = ""
    secret: bytes = field(default=b"", repr=False)
    store_password: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.ladder, LadderSettings):
            raise InvalidConfig("ladder must be a LadderSettings", hint="from lockgate.core.requests.strikes")
        if type(self.enabled) is not bool:
            # The word `false` is true.
            raise InvalidConfig("enabled must be True or False", hint="without quotes")
        for name in _WORDS:
            value, words = getattr(self, name), _KEY[name].words
            if type(value) is not str or value not in words:
                raise InvalidConfig(f"{name} must be one of {', '.join(words)}, not {quoted(value)}")
        for name, (key, unit) in _NUMBERS.items():
            value, variable = getattr(self, name), _KEY[key]
            kinds = (int,) if unit == 1 and variable.whole else (int, float)
            # By type: a bool is a number to Python.
            if type(value) not in kinds or not variable.least <= value * unit <= variable.most:
                least, most = variable.least / unit, variable.most / unit
                raise InvalidConfig(f"{name} must be from {least:,g} to {most:,.12g}, not {quoted(value)}")
        object.__setattr__(self, "trusted_proxies", _networks(self.trusted_proxies, "trusted_proxies"))
        _refuse_odd_places(self.store, self.bans_file)
        if type(self.secret) is not bytes or type(self.store_password) is not str:
            raise InvalidConfig("secret must be bytes, and store_password text")
        if self.secret and len(self.secret) < MIN_SECRET_CHARACTERS:
            raise InvalidConfig(
                f"ABUSE_SECRET has fewer than {MIN_SECRET_CHARACTERS} characters",
                hint="make one: python3 -c 'import secrets; print(secrets.token_hex(32))'",
            )
        if not self.secret and (self.store != "memory" or self.bans_file):
            what = "ABUSE_BANS_FILE" if self.store == "memory" else "ABUSE_STORE"
            raise InvalidConfig(
                f"{what} needs ABUSE_SECRET: with a new one at every start nobody would be recognised",
                hint="set ABUSE_SECRET, or ABUSE_SECRET_FILE to the path of a file that holds it, the same everywhere",
            )


# The fields that are one of a few words, and those that are numbers: under which key, in how much smaller a unit.
_WORDS = ("override_mode", "outside_strikes", "on_unclear", "on_unread", "websockets", "pii_ruleset")
_NUMBERS = {
    "max_body_bytes": ("max_body_bytes", 1),
    "max_header_bytes": ("max_header_bytes", 1),
    "read_idle_s": ("read_idle_sec", 1),
    "read_total_s": ("read_total_sec", 1),
    "verdict_timeout_s": ("verdict_timeout_ms", 1000),
}


def abuse_settings_from_env(
    environ: Mapping[str, str] | None = None, *, table: Mapping[str, object] | None = None
) -> AbuseSettings:
    """The settings of this environment and of a table `[abuse_gate]`, or InvalidConfig saying what to set."""
    said = _Said(dict(os.environ if environ is None else environ), dict(table or {}))
    said.refuse_unknown()
    ladder = LadderSettings(
        window_s=said.number("ABUSE_STRIKE_WINDOW_SEC"),
        tier1_threshold=int(said.number("ABUSE_TIER1_THRESHOLD")),
        tier1_mode=Standing(said.word("ABUSE_TIER1_MODE")),
        tier1_cooldown_s=said.number("ABUSE_TIER1_COOLDOWN_SEC"),
        tier2_threshold=int(said.number("ABUSE_TIER2_THRESHOLD")),
        tier2_mode=Standing(said.word("ABUSE_TIER2_MODE")),
        tier2_cooldown_s=said.number("ABUSE_TIER2_COOLDOWN_SEC"),
        network_threshold=int(said.number("ABUSE_NETWORK_THRESHOLD")),
        max_subjects=int(said.number("ABUSE_MAX_SUBJECTS")),
    )
    return AbuseSettings(
        ladder=ladder,
        enabled=said.word("ABUSE_GATE_ENABLED") == "true",
        override_mode=said.word("ABUSE_OVERRIDE_MODE"),
        outside_strikes=said.word("ABUSE_OUTSIDE_STRIKES"),
        on_unclear=said.word("ABUSE_ON_UNCLEAR"),
        on_unread=said.word("ABUSE_ON_UNREAD"),
        websockets=said.word("ABUSE_WEBSOCKETS"),
        pii_ruleset=said.word("ABUSE_PII_RULESET"),
        max_body_bytes=int(said.number("ABUSE_MAX_BODY_BYTES")),
        max_header_bytes=int(said.number("ABUSE_MAX_HEADER_BYTES")),
        read_idle_s=said.number("ABUSE_READ_IDLE_SEC"),
        read_total_s=said.number("ABUSE_READ_TOTAL_SEC"),
        verdict_timeout_s=said.number("ABUSE_VERDICT_TIMEOUT_MS") / 1000,
        trusted_proxies=said.networks("ABUSE_TRUSTED_PROXIES"),
        store=said.store(),
        bans_file=said.path("ABUSE_BANS_FILE"),
        secret=said.secret("ABUSE_SECRET").encode("ascii"),
        store_password=said.secret("ABUSE_STORE_PASSWORD"),
    )


class _Said:
    """What was said, where; each message names the spelling that was used."""

    def __init__(self, environ: Mapping[str, str], table: Mapping[str, object]) -> None:
        self._environ, self._table = environ, table

    def refuse_unknown(self) -> None:
        for key in self._table:
            if key not in _KEY:
                secret = next((each for each in VARIABLES if each.secret and each.key == key), None)
                if secret is not None:
                    raise InvalidConfig(
                        f"`abuse_gate.{key}` cannot stand in a file of settings",
                        hint=f"set {secret.name}, or {secret.name}_FILE to the path of a file that holds it",
                    )
                raise InvalidConfig(
                    f"{quoted(f'abuse_gate.{key}', 120)} is an unknown key",
                    hint=suggest_closest(str(key), tuple(_KEY)) or f"known: {', '.join(_KEY)}",
                )
        known = {name for each in VARIABLES for name in (each.name, *((f"{each.name}_FILE",) if each.secret else ()))}
        for name in self._environ:
            # A threshold that is misspelt would leave the default standing, and nobody would know.
            if name.startswith("ABUSE_") and name not in known:
                raise InvalidConfig(
                    f"unknown variable {quoted(name)}",
                    hint=suggest_closest(name, tuple(sorted(known)))
                    or "every name that begins with ABUSE_ is the gate's",
                )

    def text(self, name: str) -> tuple[str, str]:
        """The value as text, and where it stands."""
        text = self._environ.get(name, "").strip()
        if text:
            return text, name
        variable = _VARIABLE[name]
        if variable.key not in self._table:
            return variable.default, name
        return _plain(variable, self._table[variable.key]), f"`abuse_gate.{variable.key}`"

    def word(self, name: str) -> str:
        text, where = self.text(name)
        words = _VARIABLE[name].words
        if text not in words:
            hint = suggest_closest(text.lower(), words) or f"unset it for the default, {_VARIABLE[name].default}"
            raise InvalidConfig(f"{where} must be one of {', '.join(words)}, not {quoted(text)}", hint=hint)
        return text

    def number(self, name: str) -> float:
        text, where = self.text(name)
        variable = _VARIABLE[name]
        # Not float() and int() alone: they take `1_500`, `nan`, `1e9` and digits of any script.
        form = r"[0-9]{1,9}" if variable.whole else r"[0-9]{1,9}(?:\.[0-9]{1,6})?"
        if not re.fullmatch(form, text) or not variable.least <= float(text) <= variable.most:
            kind = "a whole number" if variable.whole else "a number"
            raise InvalidConfig(
                f"{where} must be {kind} from {variable.least:,} to {variable.most:,}, not {quoted(text)}",
                hint=f"unset it for the default, {variable.default}",
            )
        return float(text)

    def networks(self, name: str) -> tuple[str, ...]:
        text, where = self.text(name)
        return _networks([entry.strip() for entry in text.split(",") if entry.strip()], where)

    def store(self) -> str:
        text, where = self.text("ABUSE_STORE")
        _refuse_odd_places(text, "", store_at=where)
        return text

    def path(self, name: str) -> str:
        text, where = self.text(name)
        _refuse_odd_places("memory", text, bans_at=where)
        return text

    def secret(self, name: str) -> str:
        """A secret from its variable or its file; no message ever shows one."""
        text, file = (self._environ.get(each, "").strip() for each in (name, f"{name}_FILE"))
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
    """Proxies that are each a network, and not everybody's."""
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
                f"{where}: {quoted(entry)} is everybody", hint="then any client could pose as any other"
            )
    return tuple(dict.fromkeys(entries))


def _refuse_odd_places(store: object, bans: object, *, store_at: str = "store", bans_at: str = "bans_file") -> None:
    if type(store) is not str or (store != "memory" and not _STORE.fullmatch(store)):
        # Not shown: what stands before an @ in an address is a password.
        raise InvalidConfig(
            f"{store_at} must be `memory` or an address like valkey://127.0.0.1:6379/0",
            hint="a password goes into ABUSE_STORE_PASSWORD, or a file named by ABUSE_STORE_PASSWORD_FILE",
        )
    if type(bans) is not str or (bans and not os.path.isabs(bans)):
        raise InvalidConfig(f"{bans_at} must be an absolute path", hint="name the file from the root")


def _plain(variable: Variable, raw: object) -> str:
    """A value of the table as the environment would say it; the shapes that cannot be said there are refused."""
    if isinstance(raw, bool):
        return str(raw).lower()
    if isinstance(raw, int | float):
        # Python refuses to print whole numbers of some thousand digits.
        return f"{raw:.6f}".rstrip("0").rstrip(".") if abs(raw) < 10**12 else "a number too large"
    if isinstance(raw, str):
        return raw.strip()
    if isinstance(raw, list) and all(isinstance(each, str) for each in raw):
        return ",".join(raw)
    raise InvalidConfig(
        f"`abuse_gate.{variable.key}` cannot be {printable(type(raw).__name__)}",
        hint=f"the default is {variable.default}" if variable.default else "leave it out",
    )
