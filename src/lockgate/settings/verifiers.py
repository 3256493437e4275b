"""Environment -> VerifierSettings, once: which verifier is asked, where it stands, and where its keys are kept.

The order in which a setting is refused:

1. A number that is none, or out of its bounds, whichever adapter is chosen.
2. An adapter nobody knows.
3. A model, endpoint or deployment that the chosen adapter needs and nobody named.
4. An endpoint that is not a plain address, that VERIFIER_ALLOWED_ENDPOINTS does not allow, or that everything would go
   to over plain http.
5. Certificates or patterns that cannot be read or used.
6. A key that is missing, given twice, unreadable, or not a key. No message ever shows one.
"""

from __future__ import annotations

import ipaddress
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from lockgate.core.errors import InvalidConfig, LockgateError, printable, quoted
from lockgate.settings.config import writable_by_others

MAX_KEY_CHARACTERS = 4096
MAX_PATTERNS = 100
_MAX_FILE_BYTES = 8192
_MAX_PATTERNS_BYTES = 64 * 1024
# All the authorities of a common browser take a quarter of this.
_MAX_CERTIFICATES_BYTES = 1024 * 1024
_MAX_ADDRESS = 2048

_REMOTE = ("openai", "anthropic", "azure", "compatible")
ADAPTERS = ("none", *_REMOTE, "embedded")


class Variable(NamedTuple):
    """One environment variable, declared once: parsing, errors and the reference come from it.

    `adapters` are those that read it; `needed`, they do not start without it. `least` and `most` bound a number. A
    `secret` has two more forms: NAME_FILE names a file that holds it, NAME__tenant is one tenant's own.
    """

    name: str
    doc: str
    default: str = ""
    adapters: tuple[str, ...] = _REMOTE
    needed: bool = False
    secret: bool = False
    least: float = 0
    most: float = 0


VARIABLES = (
    Variable(
        "VERIFIER_ADAPTER",
        "Who is asked: `none` (the built-in rules alone), `embedded` (the judge that runs in this process, see "
        "[how to use it](../how-to/embedded.md)), `openai`, `anthropic`, `azure` or `compatible` (any endpoint that "
        "speaks OpenAI's chat completions).",
        "none",
        ADAPTERS,
    ),
    Variable(
        "VERIFIER_TIMEOUT_MS",
        "How long an answer may take altogether, retries included, in milliseconds. No answer by then is `unclear`.",
        "1500",
        ADAPTERS,
        least=10,
        most=120_000,
    ),
    Variable(
        "VERIFIER_MAX_RETRIES",
        "How often a question is asked again: only if it could not be delivered, its connection was lost, or the reply "
        "is a 5xx, and only while time is left.",
        "1",
        most=5,
    ),
    Variable(
        "VERIFIER_CIRCUIT_OPEN_SEC",
        "How long nobody is asked after five failures in a row, in seconds.",
        "60",
        least=0.1,
        most=86_400,
    ),
    Variable(
        "VERIFIER_EXCERPT_CHARACTERS",
        "How many characters of the redacted text a question may hold. A longer text is sent as excerpts, and then "
        "`safe` no longer counts.",
        "8000",
        least=200,
        most=200_000,
    ),
    Variable(
        "VERIFIER_ALLOWED_ENDPOINTS",
        "The hosts that may be asked, separated by commas: `eu.api.openai.com`, `*.openai.azure.com` (one label for "
        "the star), `gateway.internal:8443`. With any other endpoint Lockgate refuses to start. `http://ollama:11434` "
        "also allows plain http to that host, for a network that nobody else is on. Empty: no restriction.",
    ),
    Variable(
        "VERIFIER_CA_FILE",
        "A file of certificates in PEM form, for endpoints that an authority of your own vouches for. Those in it are "
        "trusted, and no others. An absolute path.",
    ),
    Variable(
        "VERIFIER_CUSTOM_REDACTIONS_FILE",
        "A file with patterns of your own for what must not leave the process, one on each line; a line that begins "
        "with `#` is a remark. They count in every request, whatever its `pii_ruleset`. An absolute path.",
    ),
    Variable("OPENAI_API_KEY", "OpenAI's key.", adapters=("openai",), needed=True, secret=True),
    Variable(
        "OPENAI_VERIFIER_MODEL",
        "The model: the moderation endpoint for `omni-moderation-*` and `text-moderation-*`, chat with a JSON schema "
        "for any other.",
        "omni-moderation-latest",
        ("openai",),
        needed=True,
    ),
    Variable("OPENAI_BASE_URL", "Where OpenAI's API is.", "https://api.openai.com/v1", ("openai",), needed=True),
    Variable("ANTHROPIC_API_KEY", "Anthropic's key.", adapters=("anthropic",), needed=True, secret=True),
    Variable(
        "ANTHROPIC_VERIFIER_MODEL",
        "The model that verifies, by Anthropic's own name for it; a small, fast one will do.",
        adapters=("anthropic",),
        needed=True,
    ),
    Variable(
        "ANTHROPIC_BASE_URL", "Where Anthropic's API is.", "https://api.anthropic.com", ("anthropic",), needed=True
    ),
    Variable("AZURE_OPENAI_API_KEY", "The key of the Azure resource.", adapters=("azure",), needed=True, secret=True),
    Variable(
        "AZURE_OPENAI_ENDPOINT",
        "The Azure resource, as in `https://NAME.openai.azure.com`; its region is where the data stays.",
        adapters=("azure",),
        needed=True,
    ),
    Variable(
        "AZURE_OPENAI_DEPLOYMENT",
        "The deployment that verifies, by its name in Azure.",
        adapters=("azure",),
        needed=True,
    ),
    Variable("AZURE_OPENAI_API_VERSION", "The version of Azure's API.", "2024-10-21", ("azure",), needed=True),
    Variable(
        "VERIFIER_BASE_URL",
        "Where the compatible endpoint is, as in `http://127.0.0.1:11434/v1`.",
        adapters=("compatible",),
        needed=True,
    ),
    Variable(
        "VERIFIER_MODEL",
        "The model that verifies, as the compatible endpoint calls it.",
        adapters=("compatible",),
        needed=True,
    ),
    Variable(
        "VERIFIER_API_KEY",
        "The compatible endpoint's key; many local servers need none.",
        adapters=("compatible",),
        secret=True,
    ),
)

_VARIABLE = {variable.name: variable for variable in VARIABLES}
# For each adapter the variables that name its key, its model and its endpoint.
_PARTS = {
    "openai": ("OPENAI_API_KEY", "OPENAI_VERIFIER_MODEL", "OPENAI_BASE_URL"),
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_VERIFIER_MODEL", "ANTHROPIC_BASE_URL"),
    "azure": ("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_DEPLOYMENT", "AZURE_OPENAI_ENDPOINT"),
    "compatible": ("VERIFIER_API_KEY", "VERIFIER_MODEL", "VERIFIER_BASE_URL"),
}

_TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_HOST = rf"{_LABEL}(?:\.{_LABEL}){{0,31}}|\[[0-9a-f:.]{{2,45}}\]"
# Narrower than the standards on purpose: an address that two parsers could read in two ways would let one of them pass
# the allow-list and the other open the connection.
_ADDRESS = re.compile(
    rf"(?P<scheme>https?)://(?P<host>{_HOST})(?::(?P<port>[0-9]{{1,5}}))?(?:/[a-z0-9._~:-]+)*/?", re.I | re.A
)
_ALLOWED = re.compile(rf"(?:\*\.|http://)?(?:{_HOST})(?::[0-9]{{1,5}})?", re.A)


class VerifierKeys:
    """The keys of one adapter, from variables and files, for everybody and for single tenants.

    A file is read at each question: a key that was rotated counts at once, and one that was taken away is gone.
    """

    __slots__ = ("_default", "_tenants", "instant")

    def __init__(self, default: str | Path = "", tenants: Mapping[str, str | Path] | None = None) -> None:
        self._default = default
        self._tenants = dict(tenants or {})
        # Whether `key` answers from memory: then it needs no thread of its own on an event loop.
        self.instant = not any(isinstance(kept, Path) for kept in (default, *self._tenants.values()))

    def key(self, tenant: str = "") -> str:
        """The tenant's own key, else everybody's, else nothing; InvalidConfig for a file that cannot be used."""
        kept = self._tenants.get(tenant, self._default)
        return read_key_file(kept) if isinstance(kept, Path) else kept

    @property
    def tenants(self) -> tuple[str, ...]:
        return tuple(sorted(self._tenants))

    def files(self) -> tuple[Path, ...]:
        return tuple(kept for kept in (self._default, *self._tenants.values()) if isinstance(kept, Path))

    def __bool__(self) -> bool:
        return bool(self._default) or bool(self._tenants)

    def __repr__(self) -> str:
        default = "a file" if isinstance(self._default, Path) else "a variable" if self._default else "none"
        return f"Keys(default from {default}, {len(self._tenants)} for tenants)"

    def __reduce__(self) -> str:
        # A pickled adapter would write the keys wherever it is kept.
        raise TypeError("keys cannot be pickled")


@dataclass(frozen=True, slots=True)
class VerifierSettings:
    """Everything the environment says about the verifier, checked. `VerifierSettings()` asks nobody."""

    adapter: str = "none"
    timeout_ms: int = 1500
    max_retries: int = 1
    circuit_open_s: float = 60.0
    excerpt_characters: int = 8000
    allowed_endpoints: tuple[str, ...] = ()
    # Azure calls its model a deployment.
    model: str = ""
    endpoint: str = ""
    api_version: str = ""
    keys: VerifierKeys = field(default_factory=VerifierKeys, compare=False)
    key_needed: bool = False
    # The list allows plain http to this endpoint, which is not on this machine.
    unsafe_http: bool = False
    ca_file: str = ""
    custom_redactions: tuple[str, ...] = ()


def verifier_settings_from_env(
    environ: Mapping[str, str] | None = None, *, keys_elsewhere: bool = False
) -> VerifierSettings:
    """The settings of this environment (by default the process's), or InvalidConfig saying what to set.

    With `keys_elsewhere` the keys come from a source of the caller's, and no variable with a key is read.
    """
    said = dict(os.environ if environ is None else environ)
    return _settings(said, "", keys_elsewhere=keys_elsewhere)


def _settings(said: Mapping[str, str], who: str, *, keys_elsewhere: bool) -> VerifierSettings:
    """`who` needs the settings, in words; empty for the adapter that the environment names."""
    # 1. Numbers.
    timeout_ms = int(_number(said, "VERIFIER_TIMEOUT_MS", whole=True))
    max_retries = int(_number(said, "VERIFIER_MAX_RETRIES", whole=True))
    circuit_open_s = _number(said, "VERIFIER_CIRCUIT_OPEN_SEC", whole=False)
    excerpt_characters = int(_number(said, "VERIFIER_EXCERPT_CHARACTERS", whole=True))
    allowed = _allowed(said)
    # 2. The adapter.
    adapter = _adapter(said)
    who = who or f"VERIFIER_ADAPTER `{adapter}`"
    # 3. and 4. What it needs.
    model = endpoint = api_version = ca_file = ""
    keys, key_needed, unsafe_http = VerifierKeys(), False, False
    patterns: tuple[str, ...] = ()
    if adapter in _REMOTE:
        key_name, model_name, endpoint_name = _PARTS[adapter]
        model = _named(said, model_name, who)
        endpoint = _endpoint(said, endpoint_name, allowed, who)
        unsafe_http = _unsafe_http(endpoint, endpoint_name, allowed)
        if adapter == "azure":
            api_version = _named(said, "AZURE_OPENAI_API_VERSION", who)
        # 5. Its files.
        ca_file = _certificates(said)
        patterns = _patterns(said)
        # 6. Its keys.
        key_needed = _VARIABLE[key_name].needed
        if not keys_elsewhere:
            keys = _keys(said, key_name, who)
    return VerifierSettings(
        adapter=adapter,
        timeout_ms=timeout_ms,
        max_retries=max_retries,
        circuit_open_s=circuit_open_s,
        excerpt_characters=excerpt_characters,
        allowed_endpoints=allowed,
        model=model,
        endpoint=endpoint,
        api_version=api_version,
        keys=keys,
        key_needed=key_needed,
        unsafe_http=unsafe_http,
        ca_file=ca_file,
        custom_redactions=patterns,
    )


def settings_for_model(
    provider: str, model: str, endpoint: str = "", environ: Mapping[str, str] | None = None
) -> VerifierSettings:
    """The settings of this environment for another provider and model than it chose for `assess`.

    `endpoint` is where the model's name says it stands; the environment's own goes before it.
    """
    said = dict(os.environ if environ is None else environ)
    _, model_name, endpoint_name = _PARTS[provider]
    said |= {"VERIFIER_ADAPTER": provider, model_name: model}
    if endpoint and not said.get(endpoint_name, "").strip():
        said[endpoint_name] = endpoint
    return _settings(said, f"the model {quoted(f'{provider}/{model}')}", keys_elsewhere=False)


def unknown_variables(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Variables that look like the verifier's and are not: most are slips of the pen, which change nothing silently."""
    known = {variable.name for variable in VARIABLES} | {f"{v.name}_FILE" for v in VARIABLES if v.secret}
    return tuple(
        sorted(
            printable(name)
            for name in environ
            if name.startswith("VERIFIER_") and name not in known and name.partition("__")[0] not in known
        )
    )


def is_key(key: object) -> bool:
    """Whether this can stand in a header: visible ASCII only, so that no key can end its line and begin another."""
    return isinstance(key, str) and len(key) <= MAX_KEY_CHARACTERS and re.fullmatch(r"[!-~]+", key) is not None


def endpoint_allowed(endpoint: str, allowed: tuple[str, ...]) -> bool:
    """Whether the list allows this address; `*` stands for one whole label, as in a certificate."""
    match = _ADDRESS.fullmatch(endpoint)
    if match is None:
        return False
    host = match["host"].lower()
    parent = host.partition(".")[2]
    names = {host, f"*.{parent}"} if parent and not host.startswith("[") else {host}
    if match["scheme"].lower() == "http":
        names.add(f"http://{host}")
    return any(entry in allowed for name in names for entry in (name, f"{name}:{_port(match)}"))


def is_loopback(host: str) -> bool:
    """By its spelling alone: a name that merely resolves to this machine today may not tomorrow."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _port(match: re.Match[str]) -> int:
    return int(match["port"] or ("443" if match["scheme"].lower() == "https" else "80"))


class _Kind(NamedTuple):
    """A file that somebody's security rests on: what it is, what whoever writes it could do, and its largest size."""

    name: str
    danger: str
    most_bytes: int


_KEY = _Kind("key file", "whoever gives the key can read everything that is asked with it", _MAX_FILE_BYTES)
_CERTIFICATES = _Kind("certificate file", "whoever writes it can pose as the endpoint", _MAX_CERTIFICATES_BYTES)
_PATTERNS = _Kind("pattern file", "whoever writes it decides what leaves the process", _MAX_PATTERNS_BYTES)


def read_key_file(path: Path) -> str:
    """The key in a file, as Docker and Kubernetes mount them; InvalidConfig, without what is inside, if it is none."""
    where = printable(path, 200)
    data = _read(path, _KEY)
    try:
        key = data.decode("utf-8-sig").strip()
    except UnicodeDecodeError:
        key = "\0"
    if not key:
        raise InvalidConfig(f"key file {where}: is empty", hint="put the key into it, and nothing else")
    if _in_quotes(key):
        raise InvalidConfig(f"key file {where}: has quotes around the key", hint="remove them")
    if len(data) > _MAX_FILE_BYTES or not is_key(key):
        raise InvalidConfig(
            f"key file {where}: does not hold a key", hint="put the key into it, and nothing else: one line of ASCII"
        )
    return key


def key_file_warning(path: Path) -> tuple[str, str]:
    """What is not forbidden about a key file, as Docker makes them so, but worth saying, and what to do; else blanks.

    Nothing can be done about a file that is mounted for reading only, and nobody here can change it.
    """
    try:
        status = os.stat(path)
        if os.name == "nt" or _read_only(path):
            return "", ""
    except (OSError, ValueError):
        return "", ""
    where = printable(path, 200)
    if status.st_uid not in (0, os.geteuid()):
        return (
            "belongs to another user, who can replace the key",
            f"chown it to user {os.geteuid()}, or mount it as :ro",
        )
    if status.st_mode & stat.S_IROTH:
        return "can be read by anybody on this machine", f"chmod o-r {where}"
    return "", ""


def _read(path: Path, kind: _Kind) -> bytes:
    """What is in the file, up to one byte more than it may have; InvalidConfig if others can write it."""
    where = f"{kind.name} {printable(path, 200)}"
    try:
        # Without O_NONBLOCK a pipe put in the file's place would hang us until somebody writes to it.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        try:
            _refuse_file(path, where, os.fstat(handle), kind)
            with os.fdopen(handle, "rb", closefd=False) as stream:
                return stream.read(kind.most_bytes + 1)
        finally:
            os.close(handle)
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or type(error).__name__
        hint = "is it there, is it mounted, and is this its right name?"
        if isinstance(error, PermissionError):
            hint = "let the user read it that lockgate runs as"
        raise InvalidConfig(f"{where}: cannot be read: {said.lower()}", hint=hint) from None


def _refuse_file(path: Path, where: str, status: os.stat_result, kind: _Kind) -> None:
    if not stat.S_ISREG(status.st_mode):
        what = "a directory" if stat.S_ISDIR(status.st_mode) else "not a regular file"
        raise InvalidConfig(f"{where}: is {what}", hint="name the file itself")
    # Of a file that is mounted for reading only, the mode and the owner are another system's affair.
    if os.name == "nt" or _read_only(path):
        return
    # Whoever it belongs to: Docker mounts the files of the host's users, for whatever user the container has.
    why = writable_by_others(status.st_mode, 0, 0)
    hint = f"let only its owner write it: chmod go-w {printable(path, 200)}"
    folder = os.stat(os.path.dirname(os.path.realpath(path))).st_mode
    if not why and folder & stat.S_IWOTH and not folder & stat.S_ISVTX:
        why, hint = (
            "lies in a folder where anybody may replace it",
            "put it into a folder that only its owner can write",
        )
    if why:
        raise InvalidConfig(f"{where}: {why}: {kind.danger}", hint=hint)


def _read_only(path: Path) -> bool:
    return hasattr(os, "statvfs") and bool(os.statvfs(path).f_flag & os.ST_RDONLY)


def _certificates(said: Mapping[str, str]) -> str:
    text = _file_name(said, "VERIFIER_CA_FILE")
    if not text:
        return ""
    data = _read(Path(text), _CERTIFICATES)
    # The engine of TLS itself takes a while to load, and nobody else in here needs it.
    import ssl

    try:
        if len(data) > _MAX_CERTIFICATES_BYTES:
            raise ValueError
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=data.decode("ascii"))
    except (ValueError, ssl.SSLError):
        raise InvalidConfig(
            f"VERIFIER_CA_FILE: {printable(text, 200)} holds no certificates that can be used",
            hint="name a file in PEM form, with the certificate of the authority: -----BEGIN CERTIFICATE-----",
        ) from None
    return text


def _patterns(said: Mapping[str, str]) -> tuple[str, ...]:
    name = "VERIFIER_CUSTOM_REDACTIONS_FILE"
    text = _file_name(said, name)
    if not text:
        return ()
    data = _read(Path(text), _PATTERNS)
    try:
        lines = data.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise InvalidConfig(f"{name}: the file is not UTF-8 text", hint="write one pattern on each line") from None
    if len(data) > _MAX_PATTERNS_BYTES:
        raise InvalidConfig(f"{name}: the file is larger than {_MAX_PATTERNS_BYTES:,} bytes")
    # Only installations with patterns of their own load the engine for this.
    from lockgate.core.redaction.redact import redact
    from lockgate.core.text.scanner import check_pattern

    found: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        pattern = line.strip()
        if not pattern or pattern.startswith("#"):
            continue
        try:
            check_pattern(pattern)
        except LockgateError as error:
            raise InvalidConfig(f"{name}, line {number}: {error.message}", hint=error.hint) from None
        found.setdefault(pattern, number)
    if not 0 < len(found) <= MAX_PATTERNS:
        said_of = f"more than {MAX_PATTERNS} patterns" if found else "no pattern"
        raise InvalidConfig(f"{name}: the file holds {said_of}", hint="write one pattern on each line, or unset it")
    try:
        redact("a", custom=tuple(found))
    except Exception as error:  # noqa: BLE001 - the engine's; each of them alone was fine
        raise InvalidConfig(
            f"{name}: the patterns cannot be used together: {type(error).__name__}", hint="write fewer or shorter ones"
        ) from None
    return tuple(found)


def _file_name(said: Mapping[str, str], name: str) -> str:
    text = _text(said, name)
    if text and not os.path.isabs(text):
        raise InvalidConfig(f"{name} must be an absolute path", hint="name the file from the root")
    return text


def _text(said: Mapping[str, str], name: str) -> str:
    """A variable's value; one that is empty or blank, as compose files leave them, is one that is not set."""
    text = said.get(name, "").strip()
    if _in_quotes(text):
        # Not shown: it may be a key.
        raise InvalidConfig(
            f"{printable(name, 120)} has quotes around its value",
            hint="remove them: a shell takes them away, a file of variables does not",
        )
    return text


def _in_quotes(text: str) -> bool:
    return text.startswith(("'", '"')) or text.endswith(("'", '"'))


def _number(said: Mapping[str, str], name: str, *, whole: bool) -> float:
    variable = _VARIABLE[name]
    text = _text(said, name) or variable.default
    # Not float() and int() alone: they take `1_500`, `nan`, `1e9` and digits of any script.
    if not re.fullmatch(r"[0-9]{1,9}" if whole else r"[0-9]{1,9}(?:\.[0-9]{1,6})?", text) or not (
        variable.least <= float(text) <= variable.most
    ):
        kind = "a whole number" if whole else "a number"
        raise InvalidConfig(
            f"{name} must be {kind} from {variable.least:,} to {variable.most:,}, not {quoted(text)}",
            hint=f"unset it for the default, {variable.default}",
        )
    return float(text)


def _adapter(said: Mapping[str, str]) -> str:
    adapter = _text(said, "VERIFIER_ADAPTER") or "none"
    if adapter not in ADAPTERS:
        from lockgate.core.errors import suggest_closest

        hint = f"{suggest_closest(adapter.lower(), ADAPTERS)} use one of: {', '.join(ADAPTERS)}".strip()
        raise InvalidConfig(f"unknown VERIFIER_ADAPTER {quoted(adapter)}", hint=hint)
    return adapter


def _named(said: Mapping[str, str], name: str, who: str) -> str:
    text = _text(said, name) or _VARIABLE[name].default
    if not text:
        doc = _VARIABLE[name].doc.rstrip(".")
        raise InvalidConfig(f"{who} needs {name}", hint=f"set it: {doc[0].lower()}{doc[1:]}")
    return text


def _endpoint(said: Mapping[str, str], name: str, allowed: tuple[str, ...], who: str) -> str:
    text = _named(said, name, who)
    match = _ADDRESS.fullmatch(text) if len(text) <= _MAX_ADDRESS else None
    if match is None:
        # Not shown: what stands before an @ in an address is a password.
        raise InvalidConfig(
            f"{name} is not a plain address",
            hint="write https://host/path, without user, query or fragment; international names as xn--",
        )
    if allowed and not endpoint_allowed(text, allowed):
        raise InvalidConfig(
            f"{name}: {quoted(match['host'], 120)} is not among VERIFIER_ALLOWED_ENDPOINTS",
            hint="data must not leave for anywhere else: correct the endpoint, or add its host to the list",
        )
    return text


def _unsafe_http(endpoint: str, name: str, allowed: tuple[str, ...]) -> bool:
    """Whether this is plain http to another machine, and the list says so too.

    With its scheme: a list that only says where the data may go must not let a slip of the pen send it in the open.
    """
    match = _ADDRESS.fullmatch(endpoint)
    if match is None or match["scheme"].lower() == "https" or is_loopback(match["host"].lower()):
        return False
    host = match["host"].lower()
    port = f":{match['port']}" if match["port"] else ""
    if not {f"http://{host}", f"http://{host}:{_port(match)}"} & set(allowed):
        raise InvalidConfig(
            f"{name} would send everything to {quoted(host, 120)} over plain http, for others to read",
            hint=f"use https, or, if nobody else is on that network, set VERIFIER_ALLOWED_ENDPOINTS=http://{host}{port}",
        )
    return True


def _allowed(said: Mapping[str, str]) -> tuple[str, ...]:
    text = _text(said, "VERIFIER_ALLOWED_ENDPOINTS")
    if not text:
        return ()
    entries = tuple(dict.fromkeys(entry.strip().lower() for entry in text.split(",") if entry.strip()))
    for entry in entries:
        if not _ALLOWED.fullmatch(entry):
            raise InvalidConfig(
                f"VERIFIER_ALLOWED_ENDPOINTS: {quoted(entry)} is not a host",
                hint="list hosts without https:// and paths, as in eu.api.openai.com, *.openai.azure.com; "
                "http://host also allows plain http",
            )
    if not entries:
        raise InvalidConfig("VERIFIER_ALLOWED_ENDPOINTS names no host", hint="list hosts, or unset it")
    return entries


def _keys(said: Mapping[str, str], name: str, who: str) -> VerifierKeys:
    default: str | Path = ""
    tenants: dict[str, str | Path] = {}
    for tenant, kept in _found_keys(said, name):
        if tenant is None:
            default = kept
        else:
            tenants[tenant] = kept
    keys = VerifierKeys(default, tenants)
    if not keys and _VARIABLE[name].needed:
        raise InvalidConfig(
            f"{who} needs a key",
            hint=f"set {name}, or {name}_FILE to the path of a file that holds it",
        )
    for file in keys.files():
        read_key_file(file)
    return keys


def _found_keys(said: Mapping[str, str], name: str) -> Iterator[tuple[str | None, str | Path]]:
    """Each key as (tenant, None for everybody's; the key or its file)."""
    names = [
        each for each in said if each in (name, f"{name}_FILE") or each.startswith((f"{name}__", f"{name}_FILE__"))
    ]
    seen: dict[str | None, str] = {}
    for variable in sorted(names):
        value = _text(said, variable)
        if not value:
            continue
        kind, has_tenant, tenant = variable.partition("__")
        owner = tenant if has_tenant else None
        shown = printable(variable, 120)
        if owner is not None and not _TENANT.fullmatch(owner):
            raise InvalidConfig(f"{shown}: no tenant has this name", hint="use letters, digits, dot, dash, underscore")
        if owner in seen:
            raise InvalidConfig(f"{printable(seen[owner], 120)} and {shown} are both set", hint="unset one of them")
        seen[owner] = variable
        if kind.endswith("_FILE"):
            if not os.path.isabs(value):
                raise InvalidConfig(f"{shown} must be an absolute path", hint="name the file from the root")
            yield owner, Path(value)
        elif is_key(value):
            yield owner, value
        else:
            raise InvalidConfig(
                f"{shown} does not hold a key", hint="give the key alone, without `Bearer`: one line of visible ASCII"
            )
