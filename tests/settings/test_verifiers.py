from __future__ import annotations

import os
import pickle
import ssl
from base64 import b64decode
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockgate.core.errors import InvalidConfig
from lockgate.settings.key_files import (
    MAX_KEY_CHARACTERS,
    VerifierKeys,
    is_key,
)
from lockgate.settings.model_names import ALIASES
from lockgate.settings.verifiers import (
    ADAPTERS,
    VARIABLES,
    TenantEndpoint,
    VerifierSettings,
    endpoint_allowed,
    settings_for_model,
    unknown_variables,
    verifier_settings_from_env,
)
from lockgate.testing.loopback import _CERTIFICATE

SECRET = "sk-canary-5d41402abc4b2a76b9719d911017c592"

posix_only = pytest.mark.skipif(os.name != "posix", reason="permissions are the file system's on this platform")

# What each adapter needs, and nothing more.
NEEDS: dict[str, dict[str, str]] = {
    "openai": {"OPENAI_API_KEY": SECRET},
    "anthropic": {"ANTHROPIC_API_KEY": SECRET, "ANTHROPIC_VERIFIER_MODEL": "claude-haiku"},
    "azure": {
        "AZURE_OPENAI_API_KEY": SECRET,
        "AZURE_OPENAI_ENDPOINT": "https://north.openai.azure.com",
        "AZURE_OPENAI_DEPLOYMENT": "verifier",
    },
    "compatible": {"VERIFIER_BASE_URL": "http://127.0.0.1:11434/v1", "VERIFIER_MODEL": "llama"},
}
KEY_OF = {
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "azure": "AZURE_OPENAI_API_KEY",
    "compatible": "VERIFIER_API_KEY",
}
ENDPOINT_OF = {
    "openai": "OPENAI_BASE_URL",
    "anthropic": "ANTHROPIC_BASE_URL",
    "azure": "AZURE_OPENAI_ENDPOINT",
    "compatible": "VERIFIER_BASE_URL",
}


def settings(adapter: str = "openai", **more: str) -> VerifierSettings:
    return verifier_settings_from_env({"VERIFIER_ADAPTER": adapter, **NEEDS.get(adapter, {}), **more})


def refusal(adapter: str = "openai", *, without: str = "", **more: str) -> str:
    environ = {"VERIFIER_ADAPTER": adapter, **NEEDS.get(adapter, {}), **more}
    environ.pop(without, None)
    with pytest.raises(InvalidConfig) as caught:
        verifier_settings_from_env(environ)
    said = str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert SECRET not in said
    assert "\nhint: " in said
    return said


# --- ordinary days


def test_an_empty_environment_asks_no_provider() -> None:
    assert verifier_settings_from_env({}) == VerifierSettings()


def test_blank_variables_are_as_good_as_none() -> None:
    blank = {variable.variable: blank for variable in VARIABLES for blank in [" \t\n"]}
    assert verifier_settings_from_env(blank) == VerifierSettings()
    assert verifier_settings_from_env(dict.fromkeys(blank, "")) == VerifierSettings()


def test_the_defaults_are_the_seed_s() -> None:
    made = settings()
    assert (made.timeout_ms, made.max_retries, made.circuit_open_s) == (1500, 1, 60.0)
    assert (made.model, made.endpoint) == ("omni-moderation-latest", "https://api.openai.com/v1")
    assert made.keys.key("") == SECRET
    assert made.key_needed


def test_the_defaults_are_the_providers_own() -> None:
    from lockgate.verifiers.providers import anthropic, azure, openai

    assert settings().endpoint == openai.BASE_URL
    assert settings("anthropic").endpoint == anthropic.BASE_URL
    assert settings("azure").api_version == azure.API_VERSION


def test_everything_can_be_set() -> None:
    made = settings(
        "azure",
        VERIFIER_TIMEOUT_MS=" 250 ",
        VERIFIER_MAX_RETRIES="0",
        VERIFIER_CIRCUIT_OPEN_SEC="2.5",
        VERIFIER_EXCERPT_CHARACTERS="400",
        VERIFIER_ALLOWED_ENDPOINTS="*.openai.azure.com, other.example ,",
        AZURE_OPENAI_API_VERSION="2025-04-01-preview",
    )
    assert (made.timeout_ms, made.max_retries, made.circuit_open_s, made.excerpt_characters) == (250, 0, 2.5, 400)
    assert made.allowed_endpoints == ("*.openai.azure.com", "other.example")
    assert (made.endpoint, made.model, made.api_version) == (
        "https://north.openai.azure.com",
        "verifier",
        "2025-04-01-preview",
    )


def test_a_compatible_endpoint_needs_no_key() -> None:
    made = settings("compatible")
    assert not made.key_needed
    assert made.keys.key("") == ""
    assert settings("compatible", VERIFIER_API_KEY=SECRET).keys.key("any") == SECRET


def test_keys_from_elsewhere_need_no_variable() -> None:
    made = verifier_settings_from_env(
        {"VERIFIER_ADAPTER": "openai", "OPENAI_API_KEY": "not a key\n\n"}, keys_elsewhere=True
    )
    assert made.key_needed
    assert not made.keys


# --- what is refused


@pytest.mark.parametrize(
    ("name", "values"),
    [
        (
            "VERIFIER_TIMEOUT_MS",
            ["0", "9", "-1", "1.5", "1e3", "1_500", "１５００", "nan", "120001", "9" * 400, "soon"],
        ),
        ("VERIFIER_MAX_RETRIES", ["-1", "6", "1.0", "one", "٣"]),
        ("VERIFIER_CIRCUIT_OPEN_SEC", ["0", "0.0", "-2", "inf", "nan", "86401", "1e2", "60s", "1."]),
        ("VERIFIER_EXCERPT_CHARACTERS", ["0", "199", "200001", "many"]),
    ],
)
def test_a_number_that_is_none_or_out_of_bounds_is_refused_for_every_adapter(name: str, values: list[str]) -> None:
    for value in values:
        for adapter in ("none", "openai"):
            assert refusal(adapter, **{name: value}).startswith(f"{name} must be a")


@pytest.mark.parametrize("name", ["OpenAI", "NONE", "gpt", "openai,azure", "none\x00", "\x1b[31mopenai", "a" * 5000])
def test_an_unknown_adapter_is_refused(name: str) -> None:
    said = refusal(name)
    assert said.startswith("unknown VERIFIER_ADAPTER")
    assert all(adapter in said for adapter in ADAPTERS)
    assert "\x1b" not in said
    assert len(said) < 300


@pytest.mark.parametrize(
    ("name", "meant"), [("OpenAI", "openai"), ("NONE", "none"), ("antropic", "anthropic"), ("compatable", "compatible")]
)
def test_an_adapter_that_is_nearly_one_is_guessed_at(name: str, meant: str) -> None:
    assert f"hint: did you mean `{meant}`? use one of: none, " in refusal(name)


@pytest.mark.parametrize("value", ['"openai"', "'openai'", '"openai', 'openai"', '""'])
def test_quotes_that_a_file_of_variables_has_kept_are_named(value: str) -> None:
    said = refusal(value)
    assert said.startswith("VERIFIER_ADAPTER has quotes around its value")
    assert "hint: remove them" in said
    assert "OPENAI_API_KEY has quotes" in refusal(OPENAI_API_KEY=f'"{SECRET}"')
    assert "OPENAI_BASE_URL has quotes" in refusal(OPENAI_BASE_URL="'https://api.openai.com/v1'")


def test_a_missing_model_is_asked_for_in_words() -> None:
    assert refusal("anthropic", without="ANTHROPIC_VERIFIER_MODEL") == (
        "VERIFIER_ADAPTER `anthropic` needs ANTHROPIC_VERIFIER_MODEL\n"
        "hint: set it: the model that verifies, by Anthropic's own name for it, or `haiku`; a small, fast one will do"
    )


def test_settings_for_a_judge_speak_of_its_model() -> None:
    with pytest.raises(InvalidConfig) as caught:
        settings_for_model("anthropic", "claude-x", environ={})
    assert str(caught.value) == (
        "the model `anthropic/claude-x` needs a key\n"
        "hint: set ANTHROPIC_API_KEY, or ANTHROPIC_API_KEY_FILE to the path of a file that holds it"
    )
    with pytest.raises(InvalidConfig, match="the model `compatible/m` needs VERIFIER_BASE_URL"):
        settings_for_model("compatible", "m", environ={})
    made = settings_for_model("compatible", "m", "https://models.example/v1", {"VERIFIER_ADAPTER": "openai"})
    assert (made.adapter, made.model, made.endpoint) == ("compatible", "m", "https://models.example/v1")


def test_embedded_needs_neither_a_key_nor_an_endpoint() -> None:
    made = verifier_settings_from_env({"VERIFIER_ADAPTER": "embedded", "VERIFIER_TIMEOUT_MS": "700"})
    assert (made.adapter, made.timeout_ms, made.key_needed, made.endpoint) == ("embedded", 700, False, "")
    assert not made.keys


@pytest.mark.parametrize("adapter", NEEDS)
def test_what_an_adapter_needs_is_asked_for_by_name(adapter: str) -> None:
    for name in NEEDS[adapter]:
        said = refusal(adapter, without=name)
        assert name in said
        assert said == refusal(adapter, **{name: "  "}), "blank is missing"


def test_another_adapter_s_broken_settings_do_not_matter() -> None:
    settings("openai", ANTHROPIC_API_KEY="two words", AZURE_OPENAI_ENDPOINT="what?", VERIFIER_API_KEY_FILE="nowhere")


@pytest.mark.parametrize("adapter", NEEDS)
@pytest.mark.parametrize(
    "address",
    [
        "api.example.com",
        "ftp://api.example.com",
        f"https://user:{SECRET}@api.example.com",
        f"https://api.example.com/?key={SECRET}",
        f"https://api.example.com/#{SECRET}",
        "https://api.example.com\\@evil.example",
        "https://evil.example\t.api.example.com",
        "https://api.example.com/a b",
        "https://api.example.com\r\nX-Evil: 1",
        "https://bücher.example",
        "https://api。example.com",
        "https://",
        "https:///v1",
        "https://[::1",
        "https://a..b",
        "//api.example.com",
        "file:///etc/passwd",
        "https://" + "a." * 2000 + "com",
    ],
)
def test_an_address_that_is_not_plain_is_refused_and_not_shown(adapter: str, address: str) -> None:
    said = refusal(adapter, **{ENDPOINT_OF[adapter]: address})
    assert said.startswith(f"{ENDPOINT_OF[adapter]} is not a plain address")
    assert "evil" not in said


# --- plain http


LISTED = [
    ("http://ollama:11434/v1", "http://ollama:11434"),
    ("http://ollama:11434/v1", "http://ollama"),
    ("http://OLLAMA:11434/v1", "eu.api.openai.com, HTTP://Ollama:11434"),
    ("http://10.0.0.7/v1", "http://10.0.0.7:80"),
    ("http://[fe80::1]:80/v1", "http://[fe80::1]"),
]


@pytest.mark.parametrize(("endpoint", "allowed"), LISTED)
def test_plain_http_to_a_host_that_is_listed_so_is_used(endpoint: str, allowed: str) -> None:
    made = settings("compatible", VERIFIER_BASE_URL=endpoint, VERIFIER_ALLOWED_ENDPOINTS=allowed)
    assert (made.endpoint, made.unsafe_http) == (endpoint, True)


NOT_LISTED = [
    ("http://ollama:11434/v1", ""),
    # A list that only says where data may go: a missing `s` must not send it in the open.
    ("http://ollama:11434/v1", "ollama:11434"),
    ("http://ollama:11434/v1", "ollama"),
    ("http://eu.api.openai.com/v1", "eu.api.openai.com"),
    ("http://north.openai.azure.com/v1", "*.openai.azure.com"),
    ("http://127.0.0.1.example/v1", ""),
    ("http://0.0.0.0:11434/v1", ""),
]


@pytest.mark.parametrize(("endpoint", "allowed"), NOT_LISTED)
def test_plain_http_to_any_other_host_is_refused(endpoint: str, allowed: str) -> None:
    said = refusal("compatible", VERIFIER_BASE_URL=endpoint, VERIFIER_ALLOWED_ENDPOINTS=allowed)
    assert said.startswith("VERIFIER_BASE_URL would send everything to `")
    listed = said.partition("VERIFIER_ALLOWED_ENDPOINTS=")[2]
    assert endpoint.startswith(f"{listed}/")
    made = settings("compatible", VERIFIER_BASE_URL=endpoint, VERIFIER_ALLOWED_ENDPOINTS=listed)
    assert made.unsafe_http, "the hint helps"


def test_plain_http_that_is_listed_allows_nothing_else() -> None:
    for endpoint in ("http://ollama:11435/v1", "http://ollama.example:11434/v1", "http://other:11434/v1"):
        said = refusal("compatible", VERIFIER_BASE_URL=endpoint, VERIFIER_ALLOWED_ENDPOINTS="http://ollama:11434")
        assert "is not among VERIFIER_ALLOWED_ENDPOINTS" in said
    said = refusal("compatible", VERIFIER_BASE_URL="https://ollama/v1", VERIFIER_ALLOWED_ENDPOINTS="http://ollama")
    assert "is not among" in said
    for entry in ("http://*.internal", "http://", "http://ollama/v1", "https://ollama", "http://http://ollama"):
        assert "is not a host" in refusal(VERIFIER_ALLOWED_ENDPOINTS=entry)


@pytest.mark.parametrize(
    "endpoint", ["http://localhost:1/v1", "http://127.0.0.1/v1", "http://[::1]:1/v1", "https://a/v1"]
)
def test_what_stays_here_or_is_encrypted_needs_no_list(endpoint: str) -> None:
    assert not settings("compatible", VERIFIER_BASE_URL=endpoint).unsafe_http


# --- files


def certificate() -> str:
    return ssl.DER_cert_to_PEM_cert(b64decode(_CERTIFICATE))


def test_an_authority_of_one_s_own_is_named_by_a_file(tmp_path: Path) -> None:
    file = key_file(tmp_path, f"# ours\n{certificate()}\n{certificate()}", "ca.pem")
    assert settings(VERIFIER_CA_FILE=str(file)).ca_file == str(file)
    assert settings().ca_file == ""


@pytest.mark.parametrize(
    "text", ["", "hello", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", "\0\xff", "é"]
)
def test_a_file_without_certificates_is_refused(tmp_path: Path, text: str) -> None:
    said = refusal(VERIFIER_CA_FILE=str(key_file(tmp_path, text, "ca.pem")))
    assert "holds no certificates that can be used" in said
    assert "must be an absolute path" in refusal(VERIFIER_CA_FILE="ca.pem")
    assert refusal(VERIFIER_CA_FILE=str(tmp_path / "gone")).startswith(
        f"certificate file {tmp_path / 'gone'}: cannot be"
    )


@posix_only
@pytest.mark.parametrize("name", ["VERIFIER_CA_FILE", "VERIFIER_CUSTOM_REDACTIONS_FILE"])
def test_a_file_that_others_can_write_decides_nothing(tmp_path: Path, name: str) -> None:
    file = key_file(tmp_path, certificate() if "CA" in name else "falcon")
    settings(**{name: str(file)})
    file.chmod(0o666)
    said = refusal(**{name: str(file)})
    assert "can be written by any user: a user who writes it" in said
    assert f"chmod go-w {file}" in said


def test_patterns_of_one_s_own_come_from_a_file(tmp_path: Path) -> None:
    file = key_file(tmp_path, "# cases\n\nCASE-[0-9]{6}\r\n  projekt falke  \n#x\nCASE-[0-9]{6}\nстрого секретно\n")
    made = settings(VERIFIER_CUSTOM_REDACTIONS_FILE=str(file))
    assert made.custom_redactions == ("CASE-[0-9]{6}", "projekt falke", "строго секретно")
    assert settings().custom_redactions == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("fine\n(unclosed\n", "VERIFIER_CUSTOM_REDACTIONS_FILE, line 2: pattern `(unclosed` cannot be used"),
        ("(?<=look)behind", "VERIFIER_CUSTOM_REDACTIONS_FILE, line 1: pattern"),
        ("a*", "VERIFIER_CUSTOM_REDACTIONS_FILE, line 1: pattern"),
        ("", "VERIFIER_CUSTOM_REDACTIONS_FILE: the file holds no pattern"),
        ("# only a remark\n \n", "VERIFIER_CUSTOM_REDACTIONS_FILE: the file holds no pattern"),
        ("\n".join(f"name{n}" for n in range(101)), "VERIFIER_CUSTOM_REDACTIONS_FILE: the file holds more than 100"),
        ("fine\n" + "a" + ".?" * 490 + "b", "VERIFIER_CUSTOM_REDACTIONS_FILE: the patterns cost"),
        (b"\xff\xfe", "VERIFIER_CUSTOM_REDACTIONS_FILE: the file is not UTF-8 text"),
    ],
)
def test_patterns_that_cannot_be_used_are_refused_at_the_start(tmp_path: Path, text: str | bytes, said: str) -> None:
    assert refusal(VERIFIER_CUSTOM_REDACTIONS_FILE=str(key_file(tmp_path, text))).startswith(said)


def test_a_file_of_patterns_has_a_size(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="larger than 65,536 bytes"):
        settings(VERIFIER_CUSTOM_REDACTIONS_FILE=str(key_file(tmp_path, "#" * 70_000)))


def test_files_of_other_adapters_are_not_looked_at() -> None:
    made = verifier_settings_from_env({"VERIFIER_CA_FILE": "/nowhere", "VERIFIER_CUSTOM_REDACTIONS_FILE": "/nowhere"})
    assert made == VerifierSettings()


# --- residency


@pytest.mark.parametrize(
    ("endpoint", "allowed"),
    [
        ("https://api.openai.com/v1", "api.openai.com"),
        ("https://API.OpenAI.com/v1", "api.openai.com"),
        ("https://eu.api.openai.com/v1", "*.api.openai.com"),
        ("https://north.openai.azure.com", "x.example,*.openai.azure.com"),
        ("https://host.example:8443/v1", "host.example"),
        ("https://host.example:8443/v1", "host.example:8443"),
        ("https://host.example/v1", "host.example:443"),
        ("http://127.0.0.1:11434/v1", "127.0.0.1"),
        ("http://[::1]:11434/v1", "[::1]"),
    ],
)
def test_an_allowed_endpoint_starts(endpoint: str, allowed: str) -> None:
    assert settings(OPENAI_BASE_URL=endpoint, VERIFIER_ALLOWED_ENDPOINTS=allowed).endpoint == endpoint


@pytest.mark.parametrize(
    ("endpoint", "allowed"),
    [
        ("https://api.openai.com/v1", "eu.api.openai.com"),
        ("https://evilopenai.azure.com", "*.openai.azure.com"),
        ("https://openai.azure.com", "*.openai.azure.com"),
        ("https://a.b.openai.azure.com", "*.openai.azure.com"),
        ("https://north.openai.azure.com.evil.example", "*.openai.azure.com"),
        ("https://host.example:8444/v1", "host.example:8443"),
        ("https://host.example:8443/v1", "host.example:443"),
        ("http://host.example/v1", "host.example:443"),
        ("https://xhost.example", "host.example"),
        ("https://[::1]", "*.[::1]"),
    ],
)
def test_an_endpoint_outside_the_list_is_refused(endpoint: str, allowed: str) -> None:
    said = refusal(OPENAI_BASE_URL=endpoint, VERIFIER_ALLOWED_ENDPOINTS=allowed)
    assert "is not among VERIFIER_ALLOWED_ENDPOINTS" in said


def test_the_list_holds_for_a_default_endpoint() -> None:
    assert "api.openai.com" in refusal(VERIFIER_ALLOWED_ENDPOINTS="eu.api.openai.com")


@pytest.mark.parametrize(
    "entry",
    ["*", "*.", "https://api.openai.com", "api.openai.com/v1", "a b", "*openai.com", "a.*.com", "", ",,", "é.com"],
)
def test_a_list_that_says_nothing_or_everything_is_refused(entry: str) -> None:
    said = refusal(VERIFIER_ALLOWED_ENDPOINTS=f"{entry}," if not entry.strip(",") else entry)
    assert said.startswith("VERIFIER_ALLOWED_ENDPOINTS")


@given(st.text(max_size=60))
def test_no_text_around_an_allowed_host_is_let_through(text: str) -> None:
    for address in (f"https://{text}", f"https://ok.example{text}", f"https://{text}ok.example/", text):
        if endpoint_allowed(address, ("ok.example",)):
            rest = address.lower().removeprefix("https://ok.example")
            assert rest == "" or rest[0] in ":/", address
            assert "@" not in rest


# --- keys


@pytest.mark.parametrize("adapter", NEEDS)
def test_a_key_is_in_no_repr_and_not_pickled(adapter: str, tmp_path: Path) -> None:
    made = settings(adapter, **{KEY_OF[adapter]: SECRET, f"{KEY_OF[adapter]}__acme": f"{SECRET}-acme"})
    for shown in (repr(made), str(made), repr(made.keys), f"{made.keys}", repr([made])):
        assert SECRET not in shown
        assert "acme" not in shown
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(made.keys, protocol)
    assert not hasattr(made.keys, "__dict__")


@pytest.mark.parametrize(
    "key",
    [
        f"Bearer {SECRET}",
        f"{SECRET}\r\nX-Evil: 1",
        f"{SECRET}\x00",
        f"{SECRET}é",
        f"{SECRET}\u2028k",
        f"{SECRET}\udcff",
        SECRET + "k" * MAX_KEY_CHARACTERS,
    ],
)
def test_a_key_that_no_header_can_carry_is_refused_and_not_shown(key: str) -> None:
    assert "does not hold a key" in refusal(OPENAI_API_KEY=key)
    assert not is_key(key)


def test_blanks_around_a_key_are_not_part_of_it() -> None:
    assert settings(OPENAI_API_KEY=f" {SECRET}\n").keys.key("") == SECRET


def test_a_tenant_has_its_own_key_or_the_default_one() -> None:
    keys = settings(OPENAI_API_KEY__acme="acme-key", OPENAI_API_KEY__b_2="b-key").keys
    assert (keys.key("acme"), keys.key("b_2"), keys.key("")) == ("acme-key", "b-key", SECRET)
    # The name has to be exactly that: what is folded could be two tenants.
    for other in ("ACME", "acme ", "FILE", "_acme", "../acme", "acme\n", "x" * 1000):
        assert keys.key(other) == SECRET
    assert keys.tenants == ("acme", "b_2")
    assert keys.instant


def test_tenants_alone_are_enough_and_strangers_have_no_key() -> None:
    keys = verifier_settings_from_env({"VERIFIER_ADAPTER": "openai", "OPENAI_API_KEY__acme": "acme-key"}).keys
    assert (keys.key("acme"), keys.key("stranger"), keys.key("")) == ("acme-key", "", "")


@pytest.mark.parametrize("name", ["OPENAI_API_KEY__", "OPENAI_API_KEY__a b", "OPENAI_API_KEY__-a", "OPENAI_API_KEY__é"])
def test_a_tenant_that_cannot_be_one_is_refused(name: str) -> None:
    assert "no tenant has this name" in refusal(**{name: SECRET})


def key_file(folder: Path, text: str | bytes = SECRET, name: str = "key") -> Path:
    file = folder / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    file.chmod(0o600)
    return file


def test_tenants_have_files_too(tmp_path: Path) -> None:
    file = key_file(tmp_path, "acme-key\n")
    keys = settings(OPENAI_API_KEY_FILE__acme=str(file)).keys
    assert (keys.key("acme"), keys.key("")) == ("acme-key", SECRET)
    assert keys.files() == (file,)
    assert str(file) not in repr(keys)


def test_a_key_given_twice_is_refused(tmp_path: Path) -> None:
    file = str(key_file(tmp_path))
    assert "are both set" in refusal(OPENAI_API_KEY_FILE=file)
    assert "are both set" in refusal(OPENAI_API_KEY__a="x", OPENAI_API_KEY_FILE__a=file)


# --- slips of the pen


def test_an_unknown_variable_is_named() -> None:
    environ = {"VERIFIER_TIMEOUT": "1", "VERIFIER_TIMEOUT_MS": "20", "VERIFIER_API_KEY_FILE": "x", "PATH": "y"}
    environ |= {"VERIFIER_API_KEY__acme": "k", "VERIFIER_API_KEY_FILE__acme": "f", "VERIFIER_\x1b[31m": "z"}
    assert unknown_variables(environ) == ("VERIFIER_TIMEOUT", "VERIFIER_\N{REPLACEMENT CHARACTER}[31m")


@pytest.mark.parametrize("variable", VARIABLES, ids=lambda variable: variable.variable)
def test_every_variable_says_what_it_is_for(variable: object) -> None:
    assert variable.doc.endswith(".")  # type: ignore[attr-defined]
    assert variable.adapters  # type: ignore[attr-defined]
    assert not (variable.secret and variable.default)  # type: ignore[attr-defined]


@given(st.dictionaries(st.sampled_from([variable.variable for variable in VARIABLES]), st.text(max_size=40)))
def test_any_environment_gives_settings_or_a_refusal(environ: dict[str, str]) -> None:
    said = "fine"
    try:
        verifier_settings_from_env({"VERIFIER_ADAPTER": "compatible", **environ})
    except InvalidConfig as error:
        said = error.message
    assert said
    assert said.isprintable()


def test_no_keys_are_falsy() -> None:
    assert not VerifierKeys()
    assert VerifierKeys("k")
    assert VerifierKeys(tenants={"a": "k"})


# --- tenants' endpoints

COMPATIBLE = {
    "VERIFIER_ADAPTER": "compatible",
    "VERIFIER_MODEL": "m",
    "VERIFIER_BASE_URL": "https://common.example/v1",
}


def test_a_tenant_has_its_own_endpoint_and_model() -> None:
    environ = {
        **COMPATIBLE,
        "VERIFIER_API_KEY": "common",
        "VERIFIER_API_KEY__acme": "own",
        "VERIFIER_BASE_URL__acme": "https://acme.example/v1",
        "VERIFIER_MODEL__globex": "other",
    }
    assert verifier_settings_from_env(environ).tenant_endpoints == (
        TenantEndpoint("acme", "https://acme.example/v1", "m", False),
        TenantEndpoint("globex", "https://common.example/v1", "other", False),
    )


def test_a_tenant_s_model_may_have_a_short_name_too() -> None:
    environ = {"VERIFIER_ADAPTER": "anthropic", "ANTHROPIC_API_KEY": "k", "ANTHROPIC_VERIFIER_MODEL": "Haiku"}
    made = verifier_settings_from_env({**environ, "ANTHROPIC_VERIFIER_MODEL__acme": "Claude Opus"})
    assert made.model == ALIASES["claude-haiku"].model
    assert [each.model for each in made.tenant_endpoints] == [ALIASES["claude-opus"].model]
    # Google's server has the model of that name, another one may have its own.
    environ = {
        **COMPATIBLE,
        "VERIFIER_MODEL": "Gemini Flash",
        "VERIFIER_BASE_URL__acme": ALIASES["gemini-flash"].endpoint,
    }
    made = verifier_settings_from_env({**environ, "VERIFIER_MODEL__acme": "Gemini Flash"})
    assert (made.model, made.tenant_endpoints[0].model) == ("Gemini Flash", ALIASES["gemini-flash"].model)


def test_the_common_key_never_goes_to_a_tenant_s_endpoint() -> None:
    environ = {**COMPATIBLE, "VERIFIER_API_KEY": "common", "VERIFIER_BASE_URL__acme": "https://acme.example/v1"}
    with pytest.raises(InvalidConfig, match="VERIFIER_BASE_URL__acme needs a key of its own"):
        verifier_settings_from_env(environ)
    # With a source of keys that source decides, and where there is no common key there is none to send.
    assert verifier_settings_from_env(environ, keys_elsewhere=True).tenant_endpoints
    assert verifier_settings_from_env({**environ, "VERIFIER_API_KEY": ""}).tenant_endpoints


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("VERIFIER_BASE_URL__acme", "https://user:pw@acme.example", "is not a plain address"),
        ("VERIFIER_BASE_URL__acme", "https://elsewhere.example/v1", "is not among VERIFIER_ALLOWED_ENDPOINTS"),
        ("VERIFIER_BASE_URL__acme", "http://common.example/v1", "over plain http"),
        ("VERIFIER_BASE_URL__a b", "https://common.example/v1", "no tenant has this name"),
    ],
)
def test_a_tenant_s_endpoint_is_checked_like_the_common_one(variable: str, value: str, message: str) -> None:
    environ = {**COMPATIBLE, "VERIFIER_ALLOWED_ENDPOINTS": "common.example", variable: value}
    with pytest.raises(InvalidConfig, match=message) as raised:
        verifier_settings_from_env(environ)
    assert "pw" not in str(raised.value)
