from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from canaries import ONLY_LABELLED, Maker
from hypothesis import given, settings
from hypothesis import strategies as st

from lockgate.core.errors import InvalidPayload
from lockgate.core.redaction.redact import redact
from lockgate.core.requests import payload as payload_module
from lockgate.core.requests.combined_verdict import build_assess_question
from lockgate.core.requests.payload import (
    MAX_FLAGS,
    MAX_META,
    MAX_PROMPT_CHARACTERS,
    MAX_RULE_HITS,
    MAX_SOURCES,
    Payload,
    PayloadSource,
    PolicyContext,
    parse_payload,
    payload_digest,
)

# As the contract writes it.
CONTRACT = {
    "prompt_text": "string (possibly redacted/summarized)",
    "modalities": ["text", "pdf", "docx", "image", "audio", "video"],
    "policy_context": {"pii_ruleset": "hipaa", "block_mode": "baseline", "override_mode": "clarify"},
    "ingress_flags": ["opaque_media_noninterpretable"],
    "debug": {
        "sources": [
            {"type": "pdf", "rule_hits": ["pdf:hidden"], "meta": {"spans_count": 2}},
            {"type": "docx", "rule_hits": ["inj:override_safety"], "meta": {"lines_scanned": 7}},
        ]
    },
}


def test_the_contract_s_own_example_is_understood_whole() -> None:
    assert parse_payload(CONTRACT) == Payload(
        "string (possibly redacted/summarized)",
        ("text", "pdf", "docx", "image", "audio", "video"),
        PolicyContext("hipaa", "baseline", "clarify"),
        ("opaque_media_noninterpretable",),
        (
            PayloadSource("pdf", ("pdf:hidden",), (("spans_count", 2),)),
            PayloadSource("docx", ("inj:override_safety",), (("lines_scanned", 7),)),
        ),
    )


def test_a_text_alone_is_a_payload_and_the_rest_has_defaults() -> None:
    assert parse_payload({"prompt_text": "hi"}) == Payload("hi")
    assert Payload("hi").modalities == ("text",)
    assert Payload("hi").policy_context == PolicyContext("default", "baseline", "clarify")
    assert parse_payload({"prompt_text": "", "modalities": ["image"], "debug": {"sources": []}}).modalities == (
        "image",
    )


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "must be an object, not null"),
        ([], "must be an object, not a list"),
        ("text", "must be an object"),
        ({}, "`prompt_text` is missing"),
        ({"prompt": "x"}, "unknown key `prompt`"),
        ({"prompt_text": "x", "tenant": "acme"}, "unknown key `tenant`"),
        ({"prompt_text": None}, "`prompt_text` must be a string, not null"),
        ({"prompt_text": ["x"]}, "`prompt_text` must be a string, not a list"),
        ({"prompt_text": b"x"}, "something JSON cannot hold"),
        ({"prompt_text": "x" * (MAX_PROMPT_CHARACTERS + 1)}, "1,048,577 characters"),
        ({"prompt_text": "x", "modalities": "text"}, "`modalities` must be a list"),
        ({"prompt_text": "x", "modalities": []}, "`modalities` is empty"),
        ({"prompt_text": "x", "modalities": ["exe"]}, "`modalities` holds something that is not one"),
        ({"prompt_text": "x", "modalities": [["text"]]}, "`modalities` holds something that is not one"),
        ({"prompt_text": "x", "modalities": ["text"] * 25}, "`modalities` has 25 entries"),
        ({"prompt_text": "x", "policy_context": []}, "`policy_context` must be an object"),
        ({"prompt_text": "x", "policy_context": {"pii": "x"}}, "unknown key `pii` in `policy_context`"),
        ({"prompt_text": "x", "policy_context": {"pii_ruleset": "gdpr"}}, "not a known rule set"),
        ({"prompt_text": "x", "policy_context": {"pii_ruleset": ["default"]}}, "not a known rule set"),
        ({"prompt_text": "x", "policy_context": {"block_mode": "a b"}}, "`policy_context.block_mode`"),
        ({"prompt_text": "x", "ingress_flags": "opaque"}, "`ingress_flags` must be a list"),
        ({"prompt_text": "x", "ingress_flags": ["two words"]}, "`ingress_flags` must be an identifier"),
        ({"prompt_text": "x", "ingress_flags": ["x\ny"]}, "`ingress_flags` must be an identifier"),
        ({"prompt_text": "x", "ingress_flags": ["x" * 65]}, "`ingress_flags` must be an identifier"),
        ({"prompt_text": "x", "ingress_flags": [7]}, "`ingress_flags` must be an identifier, not a number"),
        ({"prompt_text": "x", "ingress_flags": ["x"] * (MAX_FLAGS + 1)}, "more than 64"),
        ({"prompt_text": "x", "debug": 1}, "`debug` must be an object"),
        ({"prompt_text": "x", "debug": {"sources": {}}}, "`debug.sources` must be a list"),
        ({"prompt_text": "x", "debug": {"sources": [{}] * (MAX_SOURCES + 1)}}, "more than 64"),
        ({"prompt_text": "x", "debug": {"sources": [{}]}}, r"`debug.sources\[0\].type` is missing"),
        ({"prompt_text": "x", "debug": {"sources": [{"type": 1}]}}, r"`debug.sources\[0\].type`"),
        ({"prompt_text": "x", "debug": {"sources": [{"type": "pdf", "rule_hits": "x"}]}}, "rule_hits` must be a list"),
        (
            {"prompt_text": "x", "debug": {"sources": [{"type": "pdf", "rule_hits": ["r"] * (MAX_RULE_HITS + 1)}]}},
            "more than 64",
        ),
        (
            {
                "prompt_text": "x",
                "debug": {"sources": [{"type": "p", "meta": {str(i): i for i in range(MAX_META + 1)}}]},
            },
            "more than 32",
        ),
    ],
)
def test_what_is_not_understood_is_refused_by_name(value: Any, message: str) -> None:
    with pytest.raises(InvalidPayload, match=message):
        parse_payload(value)


def test_a_misspelt_key_gets_a_hint() -> None:
    with pytest.raises(InvalidPayload) as refused:
        parse_payload({"promt_text": "x"})
    assert refused.value.hint == "did you mean `prompt_text`?"


def test_statistics_are_kept_and_content_in_their_place_is_not() -> None:
    meta = {
        "pages": 3,
        "ratio": 0.5,
        "opaque": True,
        "codec": "h264",
        "author": "Jane Doe",
        "text": "the whole document",
        "bytes": [1, 2, 3],
        "nested": {"a": 1},
        "nan": float("nan"),
        "inf": float("inf"),
        "card": 4111111111111111,
        "ssn": "123-45-6789",
        "key": "sk-proj-abcDEF123456ghiJKL789mno",
        "two words": 1,
        "none": None,
    }
    payload = parse_payload({"prompt_text": "", "debug": {"sources": [{"type": "image", "meta": meta}], "trace": "x"}})
    assert payload.sources[0].meta == (("codec", "h264"), ("opaque", True), ("pages", 3), ("ratio", 0.5))


def test_a_name_that_is_a_secret_is_refused_and_not_repeated() -> None:
    for name in ("sk-proj-abcDEF123456ghiJKL789mno", "AKIAIOSFODNN7EXAMPLE", "123-45-6789", "4111111111111111"):
        for value in (
            {"prompt_text": "", "ingress_flags": ["fine", name]},
            {"prompt_text": "", "policy_context": {"block_mode": name}},
            {"prompt_text": "", "debug": {"sources": [{"type": "pdf", "rule_hits": [name]}]}},
            {"prompt_text": "", "debug": {"sources": [{"type": name}]}},
        ):
            with pytest.raises(InvalidPayload, match="looks like a secret") as refused:
                parse_payload(value)
            assert name not in str(refused.value)


def test_ordinary_names_of_rules_are_not_taken_for_secrets() -> None:
    from lockgate.core.text.rules import RULES

    names = [rule.id for rule in RULES]
    for at in range(0, len(names), MAX_FLAGS):
        flags = names[at : at + MAX_FLAGS]
        assert parse_payload({"prompt_text": "", "ingress_flags": flags}).ingress_flags == tuple(flags)


def test_no_error_and_no_repr_repeats_what_was_sent() -> None:
    for canary in Maker(21).canaries(200):
        secret, text = canary.secret, canary.text
        if canary.kind in ONLY_LABELLED:
            with pytest.raises(InvalidPayload) as refused:
                parse_payload({secret: 1, "prompt_text": ""})
            assert secret not in str(refused.value)
            continue
        assert secret not in repr(parse_payload({"prompt_text": text}))
        for value in (
            {secret: 1, "prompt_text": ""},
            {"prompt_text": [secret]},
            {"prompt_text": "", "modalities": [secret]},
            {"prompt_text": "", "ingress_flags": [secret]},
            {"prompt_text": "", "policy_context": {"pii_ruleset": secret}},
            {"prompt_text": "", "policy_context": {secret: 1}},
            {"prompt_text": "", "debug": {"sources": [{"type": secret}]}},
            {"prompt_text": "", "debug": secret},
        ):
            with pytest.raises(InvalidPayload) as refused:
                parse_payload(value)
            assert secret not in str(refused.value)
            assert secret not in repr(refused.value)


def test_the_digest_is_of_what_was_said_and_not_of_how() -> None:
    again = json.loads(json.dumps(CONTRACT, sort_keys=True))
    assert payload_digest(parse_payload(CONTRACT)) == payload_digest(parse_payload(again))
    assert len(payload_digest(Payload("x"))) == 64
    assert payload_digest(Payload("\ud800")) != payload_digest(Payload("\ufffd"))


def test_the_digest_gives_no_secret_away_to_a_reader_who_tries_them_all() -> None:
    digests = {payload_digest(Payload(f"my card PIN is {pin:04d}")) for pin in range(0, 10_000, 97)}
    assert len(digests) == 1
    assert payload_digest(Payload("write to a@b.example")) == payload_digest(Payload("write to c@d.example"))
    staff = [payload_digest(Payload(f"see EMP-{number}"), [r"EMP-[0-9]+"]) for number in (1, 2)]
    assert staff[0] == staff[1] != payload_digest(Payload("see EMP-1"))


def test_a_prompt_is_redacted_once_for_the_digest_and_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(payload_module, "redact", lambda *given: asked.append(given) or redact(*given))
    payload = Payload("my card PIN is 4821")
    digest = payload_digest(payload)
    question, _ = build_assess_question(payload, [], [], "0f8a3c5d7e9b1a2c4d6e8f0a1b3c5d7e")
    assert len(asked) == 1
    assert "[redacted:secret]" in question.text
    assert digest == payload_digest(payload)
    assert payload == Payload("my card PIN is 4821")


def test_any_other_content_has_another_digest() -> None:
    variants = [
        Payload("a"),
        Payload("b"),
        Payload("a", ("pdf",)),
        Payload("a", policy_context=PolicyContext("hipaa")),
        Payload("a", policy_context=PolicyContext(block_mode="strict")),
        Payload("a", policy_context=PolicyContext(override_mode="deny")),
        Payload("a", ingress_flags=("x",)),
        Payload("a", sources=(PayloadSource("pdf"),)),
        Payload("a", sources=(PayloadSource("pdf", ("x",)),)),
        Payload("a", sources=(PayloadSource("pdf", (), (("n", 1),)),)),
        Payload("a", sources=(PayloadSource("pdf", (), (("n", True),)),)),
        Payload("a", sources=(PayloadSource("pdf", (), (("n", "1"),)),)),
    ]
    assert len({payload_digest(payload) for payload in variants}) == len(variants)


@pytest.mark.parametrize("number", [10**400, -(10**400), float("inf"), float("nan"), 10**12 + 1], ids=range(5))
def test_a_number_that_is_no_count_is_left_out(number: object) -> None:
    meta = {"pages": 3, "n": number}
    parsed = parse_payload({"prompt_text": "", "debug": {"sources": [{"type": "pdf", "meta": meta}]}})
    assert parsed.sources[0].meta == (("pages", 3),)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(10**400) | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
_SHAPED = st.fixed_dictionaries(
    {},
    optional={
        "prompt_text": st.text(max_size=40) | _JSON,
        "modalities": st.lists(st.sampled_from(["text", "pdf", "x"]), max_size=3) | _JSON,
        "policy_context": st.dictionaries(st.sampled_from(["pii_ruleset", "block_mode"]), _JSON) | _JSON,
        "ingress_flags": st.lists(st.text("ab:_", max_size=5), max_size=3) | _JSON,
        "debug": st.fixed_dictionaries({"sources": st.lists(_JSON, max_size=3)}) | _JSON,
    },
)


@given(_SHAPED | _JSON)
@settings(max_examples=100, deadline=None)
def test_any_value_is_a_payload_or_an_invalid_payload(value: Any) -> None:
    try:
        payload = parse_payload(value)
    except InvalidPayload:
        pass
    else:
        assert isinstance(value, Mapping)
        assert payload.prompt_text == value["prompt_text"]
        hash(payload)
        payload_digest(payload)


def test_a_deep_value_is_refused_without_being_walked() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(InvalidPayload):
        parse_payload({"prompt_text": deep})
    assert parse_payload({"prompt_text": "", "debug": {"other": deep}}) == Payload("")
    assert parse_payload({"prompt_text": "", "debug": {"sources": [{"type": "pdf", "meta": {"a": deep}}]}}).sources
    while deep:  # taken apart here: freeing it in one go would exhaust the stack
        deep = deep.pop()  # type: ignore[assignment]


def test_a_name_that_claims_to_be_one_of_ours_is_looked_at() -> None:
    class Ours(str):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return hash("block")

    with pytest.raises(InvalidPayload):
        parse_payload({"prompt_text": "", "policy_context": {"block_mode": Ours("a name with spaces")}})
