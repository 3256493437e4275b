"""Environment to `VerifierSettings`: which verifier is asked, where it stands, and where its keys are kept.

The order in which settings are refused:

1. A number that is none, or out of its bounds, whichever adapter is chosen.
2. An unknown adapter.
3. A missing model, endpoint or deployment that the chosen adapter needs.
4. An endpoint that is not a plain address, that VERIFIER_ALLOWED_ENDPOINTS does not allow, or that would get everything
   over plain http.
5. Certificates or patterns that cannot be read or used.
6. A key that is missing, given twice, unreadable, or not a key. No message ever shows one.
7. A tenant's own endpoint, for the reasons of 4, or without a key of its own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

from lockgate.core.errors import InvalidConfig, LockgateError, printable, quoted, suggest_closest
from lockgate.runtime.loopback import is_loopback
from lockgate.settings.key_files import GuardedFile, VerifierKeys, is_key, read_key_file
from lockgate.settings.keys import Environment, KeyForm, Row
from lockgate.settings.model_names import name_at_provider
from lockgate.settings.tenants import is_tenant_name

MAX_PATTERNS = 100
_MAX_ADDRESS = 2048

_REMOTE = ("openai", "anthropic", "azure", "compatible")
ADAPTERS = ("none", *_REMOTE, "embedded")

# The authorities of a common browser take a quarter of this.
_CERTIFICATES = GuardedFile("certificate file", "a user who writes it can pose as the endpoint", 1024 * 1024)
_PATTERNS = GuardedFile("pattern file", "a user who writes it decides what leaves the process", 64 * 1024)


def _row(name: str, doc: str, default: str = "", adapters: tuple[str, ...] = _REMOTE, **more: Any) -> Row:
    return Row(doc, variable=name, default=default, adapters=adapters, **more)


# fmt: off
VARIABLES = (
    _row("VERIFIER_ADAPTER", default="none", adapters=ADAPTERS,
         doc="Who is asked: `none` (the built-in rules alone), `embedded` (the judge that runs in this process, see "
             "[how to use it](../how-to/embedded.md)), `openai`, `anthropic`, `azure` or `compatible` (any endpoint "
             "that speaks OpenAI's chat completions)."),
    _row("VERIFIER_TIMEOUT_MS", default="1500", adapters=ADAPTERS, form=KeyForm.COUNT, least=10, most=120_000,
         doc="How long an answer may take altogether, retries included, in milliseconds. No answer by then is "
             "`unclear`."),
    _row("VERIFIER_MAX_RETRIES", default="1", form=KeyForm.COUNT, most=5,
         doc="How often a question is asked again: only if it could not be delivered, its connection was lost, or "
             "the reply is a 5xx, and only while time is left."),
    _row("VERIFIER_CIRCUIT_OPEN_SEC", default="60", form=KeyForm.SECONDS, least=0.1, most=86_400,
         doc="How long the provider is not asked after five failures in a row, in seconds."),
    _row("VERIFIER_EXCERPT_CHARACTERS", default="8000", form=KeyForm.COUNT, least=200, most=200_000,
         doc="How many characters of the redacted text a question may hold. A longer text is sent as excerpts, and "
             "then `safe` no longer counts."),
    _row("VERIFIER_ALLOWED_ENDPOINTS",
         doc="The hosts that may be asked, separated by commas: `eu.api.openai.com`, `*.openai.azure.com` (one label "
             "for the star), `gateway.internal:8443`. With any other endpoint Lockgate refuses to start. "
             "`http://ollama:11434` also allows plain http to that host, for a network that only you use. Empty: no "
             "restriction."),
    _row("VERIFIER_CA_FILE",
         doc="A file of certificates in PEM form, for endpoints that an authority of your own vouches for. Those in "
             "it are trusted, and no others. An absolute path."),
    _row("VERIFIER_CUSTOM_REDACTIONS_FILE",
         doc="A file with patterns of your own for what must not leave the process, one on each line; a line that "
             "begins with `#` is a remark. They count in every request, whatever its `pii_ruleset`. An absolute "
             "path."),
    _row("OPENAI_API_KEY", adapters=("openai",), needed=True, secret=True, doc="OpenAI's key."),
    _row("OPENAI_VERIFIER_MODEL", default="omni-moderation-latest", adapters=("openai",), needed=True,
         doc="The model: the moderation endpoint for `omni-moderation-*` and `text-moderation-*`, chat with a JSON "
             "schema for any other."),
    _row("OPENAI_BASE_URL", default="https://api.openai.com/v1", adapters=("openai",), needed=True,
         doc="Where OpenAI's API is."),
    _row("ANTHROPIC_API_KEY", adapters=("anthropic",), needed=True, secret=True, doc="Anthropic's key."),
    _row("ANTHROPIC_VERIFIER_MODEL", adapters=("anthropic",), needed=True,
         doc="The model that verifies, by Anthropic's own name for it, or `haiku`; a small, fast one will do."),
    _row("ANTHROPIC_BASE_URL", default="https://api.anthropic.com", adapters=("anthropic",), needed=True,
         doc="Where Anthropic's API is."),
    _row("AZURE_OPENAI_API_KEY", adapters=("azure",), needed=True, secret=True, doc="The key of the Azure resource."),
    _row("AZURE_OPENAI_ENDPOINT", adapters=("azure",), needed=True,
         doc="The Azure resource, as in `https://NAME.openai.azure.com`; its region is where the data stays."),
    _row("AZURE_OPENAI_DEPLOYMENT", adapters=("azure",), needed=True,
         doc="The deployment that verifies, by its name in Azure."),
    _row("AZURE_OPENAI_API_VERSION", default="2024-10-21", adapters=("azure",), needed=True,
         doc="The version of Azure's API."),
    _row("VERIFIER_BASE_URL", adapters=("compatible",), needed=True,
         doc="Where the compatible endpoint is, as in `http://127.0.0.1:11434/v1`."),
    _row("VERIFIER_MODEL", adapters=("compatible",), needed=True,
         doc="The model that verifies, as the compatible endpoint calls it."),
    _row("VERIFIER_API_KEY", adapters=("compatible",), secret=True,
         doc="The compatible endpoint's key; many local servers need none."),
)
# fmt: on

_ROW = {row.variable: row for row in VARIABLES}
# For each adapter the variables that name its key, its model and its endpoint.
_PARTS = {
    "openai": ("OPENAI_API_KEY", "OPENAI_VERIFIER_MODEL", "OPENAI_BASE_URL"),
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_VERIFIER_MODEL", "ANTHROPIC_BASE_URL"),
    "azure": ("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_DEPLOYMENT", "AZURE_OPENAI_ENDPOINT"),
    "compatible": ("VERIFIER_API_KEY", "VERIFIER_MODEL", "VERIFIER_BASE_URL"),
}

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_HOST = rf"{_LABEL}(?:\.{_LABEL}){{0,31}}|\[[0-9a-f:.]{{2,45}}\]"
# Narrower than the standards on purpose: an address that two parsers could read in two ways would let one of them pass
# the allow-list and the other open the connection.
_ADDRESS = re.compile(
    rf"(?P<scheme>https?)://(?P<host>{_HOST})(?::(?P<port>[0-9]{{1,5}}))?(?:/[a-z0-9._~:-]+)*/?", re.I | re.A
)
_ALLOWED = re.compile(rf"(?:\*\.|http://)?(?:{_HOST})(?::[0-9]{{1,5}})?", re.A)


class TenantEndpoint(NamedTuple):
    """Where one tenant's requests are judged, and by which model."""

    tenant: str
    endpoint: str
    model: str
    unsafe_http: bool


@dataclass(frozen=True, slots=True)
class VerifierSettings:
    """Everything the environment says about the verifier, checked. `VerifierSettings()` asks no provider."""

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
    # Tenants that have another endpoint or model.
    tenant_endpoints: tuple[TenantEndpoint, ...] = ()


def verifier_settings_from_env(
    environ: Mapping[str, str] | None = None, *, keys_elsewhere: bool = False
) -> VerifierSettings:
    """Return the settings of this environment (by default the process's), or raise InvalidConfig saying what to set.

    With `keys_elsewhere` the caller has its own source of keys, and no variable with a key is read.
    """
    return _settings(_environment(environ), "", keys_elsewhere=keys_elsewhere)


def settings_for_model(
    provider: str, model: str, endpoint: str = "", environ: Mapping[str, str] | None = None
) -> VerifierSettings:
    """Return the settings of this environment for another provider and model than it chose for `assess`.

    `endpoint` is where the model's name says it stands; the environment's own goes before it, unless the name says
    this machine: then no key is sent either, since any program can listen there.
    """
    environment = _environment(environ)
    _, model_name, endpoint_name = _PARTS[provider]
    environment.variables.update({"VERIFIER_ADAPTER": provider, model_name: model})
    is_local = is_loopback(urlsplit(endpoint).hostname or "")
    if is_local or (endpoint and not environment.variables.get(endpoint_name, "").strip()):
        environment.variables[endpoint_name] = endpoint
    return _settings(environment, f"the model {quoted(f'{provider}/{model}')}", keys_elsewhere=is_local)


def unknown_variables(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return variables that look like the verifier's and are not: most are misspelt and would change nothing."""
    known = {row.variable for row in VARIABLES} | {f"{row.variable}_FILE" for row in VARIABLES if row.secret}
    return tuple(
        sorted(
            printable(name)
            for name in environ
            if name.startswith("VERIFIER_") and name not in known and name.partition("__")[0] not in known
        )
    )


def endpoint_allowed(endpoint: str, allowed: tuple[str, ...]) -> bool:
    """Return whether the list allows this address; `*` stands for one whole label, as in a certificate."""
    match = _ADDRESS.fullmatch(endpoint)
    if match is None:
        return False
    host = match["host"].lower()
    parent = host.partition(".")[2]
    names = {host, f"*.{parent}"} if parent and not host.startswith("[") else {host}
    if match["scheme"].lower() == "http":
        names.add(f"http://{host}")
    return any(entry in allowed for name in names for entry in (name, f"{name}:{_port(match)}"))


def _environment(environ: Mapping[str, str] | None) -> Environment:
    return Environment(os.environ if environ is None else environ, refuse_quotes=True)


def _settings(environment: Environment, who: str, *, keys_elsewhere: bool) -> VerifierSettings:
    """Return the checked settings; `who` needs them, in words (empty: the adapter that the environment names)."""
    # 1. Numbers, and the allow-list.
    found: dict[str, Any] = {
        "timeout_ms": environment.value(_ROW["VERIFIER_TIMEOUT_MS"]),
        "max_retries": environment.value(_ROW["VERIFIER_MAX_RETRIES"]),
        "circuit_open_s": environment.value(_ROW["VERIFIER_CIRCUIT_OPEN_SEC"]),
        "excerpt_characters": environment.value(_ROW["VERIFIER_EXCERPT_CHARACTERS"]),
        "allowed_endpoints": _allowed_endpoints(environment),
    }
    # 2. The adapter.
    found["adapter"] = adapter = _adapter(environment)
    who = who or f"VERIFIER_ADAPTER `{adapter}`"
    if adapter not in _REMOTE:
        return VerifierSettings(**found)
    # 3. and 4. What it needs.
    key_name, model_name, endpoint_name = _PARTS[adapter]
    model = _require_value(environment, model_name, who)
    found["endpoint"] = _endpoint(environment, endpoint_name, found["allowed_endpoints"], who)
    found["model"] = name_at_provider(adapter, model, found["endpoint"])
    found["unsafe_http"] = _is_unsafe_http(found["endpoint"], endpoint_name, found["allowed_endpoints"])
    if adapter == "azure":
        found["api_version"] = _require_value(environment, "AZURE_OPENAI_API_VERSION", who)
    # 5. Its files.
    found["ca_file"] = _certificate_file(environment)
    found["custom_redactions"] = _redaction_patterns(environment)
    # 6. Its keys.
    found["key_needed"] = _ROW[key_name].needed
    if not keys_elsewhere:
        found["keys"] = _keys(environment, key_name, who)
    # 7. Its tenants' endpoints.
    found["tenant_endpoints"] = tuple(_tenant_endpoints(environment, found, keys_elsewhere=keys_elsewhere))
    return VerifierSettings(**found)


def _tenant_endpoints(
    environment: Environment, found: Mapping[str, Any], *, keys_elsewhere: bool
) -> Iterator[TenantEndpoint]:
    """Yield each tenant's own endpoint and model; what it has not of its own is the common one."""
    key_name, model_name, endpoint_name = _PARTS[found["adapter"]]
    tenants = {
        variable.partition("__")[2]: None
        for variable in sorted(environment.variables)
        if variable.startswith((f"{model_name}__", f"{endpoint_name}__")) and environment.variable(variable)
    }
    for tenant in tenants:
        if not is_tenant_name(tenant):
            raise InvalidConfig(
                f"{endpoint_name}__{printable(tenant, 120)}: no tenant has this name",
                hint="use letters, digits, dot, dash, underscore",
            )
        own_name = f"{endpoint_name}__{tenant}"
        own = environment.variable(own_name)
        endpoint, unsafe_http = found["endpoint"], found["unsafe_http"]
        if own:
            endpoint = _checked_endpoint(own, own_name, found["allowed_endpoints"])
            unsafe_http = _is_unsafe_http(endpoint, own_name, found["allowed_endpoints"])
            if not keys_elsewhere and found["keys"].key() and tenant not in found["keys"].tenants:
                # The common key would be sent to a server that perhaps belongs to the tenant.
                raise InvalidConfig(
                    f"{own_name} needs a key of its own",
                    hint=f"set {key_name}__{tenant}, or {key_name}_FILE__{tenant}: the common key does not go there",
                )
        model = environment.variable(f"{model_name}__{tenant}") or found["model"]
        yield TenantEndpoint(tenant, endpoint, name_at_provider(found["adapter"], model, endpoint), unsafe_http)


def _port(match: re.Match[str]) -> int:
    return int(match["port"] or ("443" if match["scheme"].lower() == "https" else "80"))


def _certificate_file(environment: Environment) -> str:
    text = _file_name(environment, "VERIFIER_CA_FILE")
    if not text:
        return ""
    data = _CERTIFICATES.read(Path(text))
    # Loading the TLS engine takes a while, and no other setting needs it.
    import ssl

    try:
        if len(data) > _CERTIFICATES.max_bytes:
            raise ValueError
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=data.decode("ascii"))
    except (ValueError, ssl.SSLError):
        raise InvalidConfig(
            f"VERIFIER_CA_FILE: {printable(text, 200)} holds no certificates that can be used",
            hint="name a file in PEM form, with the certificate of the authority: -----BEGIN CERTIFICATE-----",
        ) from None
    return text


def _redaction_patterns(environment: Environment) -> tuple[str, ...]:
    name = "VERIFIER_CUSTOM_REDACTIONS_FILE"
    text = _file_name(environment, name)
    if not text:
        return ()
    data = _PATTERNS.read(Path(text))
    try:
        lines = data.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise InvalidConfig(f"{name}: the file is not UTF-8 text", hint="write one pattern on each line") from None
    if len(data) > _PATTERNS.max_bytes:
        raise InvalidConfig(f"{name}: the file is larger than {_PATTERNS.max_bytes:,} bytes")
    # Only installations with patterns of their own load the engine for this.
    from lockgate.core.text.rules import check_budget
    from lockgate.core.text.scanner import check_pattern

    found: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        pattern = line.strip()
        if pattern and not pattern.startswith("#"):
            found.setdefault(pattern, number)
    if not 0 < len(found) <= MAX_PATTERNS:
        said_of = f"more than {MAX_PATTERNS} patterns" if found else "no pattern"
        raise InvalidConfig(f"{name}: the file holds {said_of}", hint="write one pattern on each line, or unset it")
    try:
        check_budget(tuple(found))
    except LockgateError as error:
        raise InvalidConfig(f"{name}: {error.message}", hint=error.hint) from None
    for pattern, number in found.items():
        try:
            check_pattern(pattern)
        except LockgateError as error:
            raise InvalidConfig(f"{name}, line {number}: {error.message}", hint=error.hint) from None
    _try_patterns(name, tuple(found))
    return tuple(found)


def _try_patterns(name: str, patterns: tuple[str, ...]) -> None:
    # Imported here: only an adapter with patterns needs the pattern engine.
    import hyperscan

    from lockgate.core.redaction.redact import redact

    try:
        redact("a", custom=patterns)
    except hyperscan.error as error:  # each pattern alone was fine
        raise InvalidConfig(
            f"{name}: the patterns cannot be used together: {type(error).__name__}", hint="write fewer or shorter ones"
        ) from None


def _file_name(environment: Environment, name: str) -> str:
    text = environment.variable(name)
    if text and not os.path.isabs(text):
        raise InvalidConfig(f"{name} must be an absolute path", hint="name the file from the root")
    return text


def _adapter(environment: Environment) -> str:
    adapter = environment.variable("VERIFIER_ADAPTER") or "none"
    if adapter not in ADAPTERS:
        hint = f"{suggest_closest(adapter.lower(), ADAPTERS)} use one of: {', '.join(ADAPTERS)}".strip()
        raise InvalidConfig(f"unknown VERIFIER_ADAPTER {quoted(adapter)}", hint=hint)
    return adapter


def _require_value(environment: Environment, name: str, who: str) -> str:
    text, _ = environment.text(_ROW[name])
    if not text:
        doc = _ROW[name].doc.rstrip(".")
        raise InvalidConfig(f"{who} needs {name}", hint=f"set it: {doc[0].lower()}{doc[1:]}")
    return text


def _endpoint(environment: Environment, name: str, allowed: tuple[str, ...], who: str) -> str:
    return _checked_endpoint(_require_value(environment, name, who), name, allowed)


def _checked_endpoint(text: str, name: str, allowed: tuple[str, ...]) -> str:
    match = _ADDRESS.fullmatch(text) if len(text) <= _MAX_ADDRESS else None
    if match is None:
        # The address is not shown: what stands before an @ in it is a password.
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


def _is_unsafe_http(endpoint: str, name: str, allowed: tuple[str, ...]) -> bool:
    """Return whether this is plain http to another machine that the list names with its scheme.

    A host without a scheme does not do: a missing `s` in the endpoint must not send everything in the open.
    """
    match = cast("re.Match[str]", _ADDRESS.fullmatch(endpoint))
    host = match["host"].lower()
    if match["scheme"].lower() == "https" or is_loopback(host):
        return False
    port = f":{match['port']}" if match["port"] else ""
    if not {f"http://{host}", f"http://{host}:{_port(match)}"} & set(allowed):
        raise InvalidConfig(
            f"{name} would send everything to {quoted(host, 120)} over plain http, for others to read",
            hint=f"use https, or, if only you use that network, set VERIFIER_ALLOWED_ENDPOINTS=http://{host}{port}",
        )
    return True


def _allowed_endpoints(environment: Environment) -> tuple[str, ...]:
    text = environment.variable("VERIFIER_ALLOWED_ENDPOINTS")
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


def _keys(environment: Environment, name: str, who: str) -> VerifierKeys:
    found = dict(_find_keys(environment, name))
    keys = VerifierKeys(found.pop(None, ""), cast("dict[str, str | Path]", found))
    if not keys and _ROW[name].needed:
        raise InvalidConfig(
            f"{who} needs a key",
            hint=f"set {name}, or {name}_FILE to the path of a file that holds it",
        )
    for file in keys.files():
        read_key_file(file)
    return keys


def _find_keys(environment: Environment, name: str) -> Iterator[tuple[str | None, str | Path]]:
    """Yield each key as its tenant (None: the default key) and the key or its file."""
    names = [
        each
        for each in environment.variables
        if each in (name, f"{name}_FILE") or each.startswith((f"{name}__", f"{name}_FILE__"))
    ]
    seen: dict[str | None, str] = {}
    for variable in sorted(names):
        value = environment.variable(variable)
        if not value:
            continue
        kind, has_tenant, tenant = variable.partition("__")
        owner = tenant if has_tenant else None
        shown = printable(variable, 120)
        if owner is not None and not is_tenant_name(owner):
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
