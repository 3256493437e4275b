"""A record has one spelling, exactly its fields, and no content."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import Any

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st
from tamperings import a_ruling

from lockgate.core.errors import InvalidRecord
from lockgate.core.requests.strikes import Standing
from lockgate.core.vocabulary import Action, Decision, Finding, Mode, Origin, Ran, Reason, Risk
from lockgate.journal import record
from lockgate.journal.record import (
    KINDS,
    MAX_BLOCKS,
    MAX_INTEGER,
    MAX_ORIGINS,
    MAX_RECORD,
    block_label,
    encode_record,
    label,
    parse_record,
    sha256_hex,
)

HEAD: dict[str, Any] = {"run": "0123456789abcdef", "seq": 1, "ts_ms": 1_700_000_000_000, "salt": bytes(16)}
HASH = sha256_hex("x")
EXAMPLES: dict[str, dict[str, object]] = {
    "ruling": a_ruling(1, 1, 5, deny=True, approved_by="ana"),
    "context": record.context_record(**HEAD, session="s", blocks=[("b0001", "untrusted", HASH)]),
    "approval": record.approval_record(
        **HEAD, session="s", id="0123456789", state="granted", digest=f"sha256:{HASH}", who="Zoë 🙂"
    ),
    "assess": record.assess_record(
        **HEAD, payload_sha256=HASH, verdict="unsafe", reason="rules", by="openai/m", acted="deny", rules=["a:b", "a:b"]
    ),
    "configuration": record.configuration_record(**HEAD, policy_hash=f"sha256:{HASH}", software="lockgate-0.1.0"),
    "gap": record.gap_record(**HEAD, first=2, last=4, reason="journal-unavailable"),
    "prune": record.prune_record(**HEAD, origin="example.com/a", before=10, retention_days=30),
    "rotation": record.rotation_record(**HEAD, next_vkey="example.com/b+00000000+AAAA", who="ana"),
    "opening": record.opening_record(**HEAD, origin="example.com/b", previous="a\n1\nAAAA\n\n— a AAAA\n"),
}


def test_every_kind_has_an_example() -> None:
    assert EXAMPLES.keys() == KINDS.keys()
    assert all(fields["kind"] == kind for kind, fields in EXAMPLES.items())


@pytest.mark.parametrize("kind", KINDS)
def test_a_record_comes_back_from_its_bytes(kind: str) -> None:
    data = encode_record(EXAMPLES[kind])
    assert parse_record(data) == EXAMPLES[kind]
    assert encode_record(parse_record(data)) == data
    assert b"\n" not in data


# RFC 8785


@pytest.mark.parametrize("kind", KINDS)
def test_the_bytes_are_those_of_rfc_8785(kind: str) -> None:
    assert encode_record(EXAMPLES[kind]) == rfc8785.dumps(EXAMPLES[kind])  # type: ignore[arg-type]


WHO = st.text(st.characters(codec="utf-8"), max_size=record.MAX_WHO)


@settings(max_examples=100, deadline=None)
@given(WHO, st.integers(1, MAX_INTEGER), st.integers(0, MAX_INTEGER), st.binary(min_size=16, max_size=16))
def test_the_bytes_are_those_of_rfc_8785_for_any_text_and_number(who: str, seq: int, ts_ms: int, salt: bytes) -> None:
    fields = EXAMPLES["approval"] | {"who": who, "seq": seq, "ts_ms": ts_ms, "salt": salt.hex()}
    data = encode_record(fields)
    assert data == rfc8785.dumps(fields)  # type: ignore[arg-type]
    assert parse_record(data) == fields


VALUES = st.recursive(
    st.text(st.characters(codec="utf-8"), max_size=20) | st.booleans() | st.integers(-MAX_INTEGER, MAX_INTEGER),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(codec="ascii"), max_size=6), inner, max_size=4)
    ),
    max_leaves=20,
)


@settings(max_examples=100, deadline=None)
@given(VALUES)
def test_pythons_encoder_is_rfc_8785_under_these_restrictions(value: Any) -> None:
    assert record._encode(value).encode() == rfc8785.dumps(value)


# One spelling


RULING = encode_record(EXAMPLES["ruling"])
SPELLINGS: dict[str, Callable[[bytes], bytes]] = {
    "a space": lambda data: data.replace(b":", b": ", 1),
    "a newline at the end": lambda data: data + b"\n",
    "an order of keys": lambda data: json.dumps(
        dict(reversed(json.loads(data).items())), separators=(",", ":")
    ).encode(),
    "a letter as an escape": lambda data: data.replace(b"PAUSE", b"\\u0050AUSE", 1),
    "an escaped slash": lambda data: data.replace(b"openai/", b"openai\\/", 1),
    "a number with a point": lambda data: data.replace(b'"seq":1', b'"seq":1.0'),
    "a number with an exponent": lambda data: data.replace(b'"seq":1', b'"seq":1e0'),
    "a number with a sign": lambda data: data.replace(b'"seq":1', b'"seq":-0'),
    "a key twice, equal": lambda data: data.replace(b'"seq":1', b'"seq":1,"seq":1'),
    "a key twice, first another": lambda data: data.replace(b'"seq":1', b'"seq":2,"seq":1'),
    "a mark of byte order": lambda data: b"\xef\xbb\xbf" + data,
    "UTF-16": lambda data: data.decode().encode("utf-16"),
    "two records": lambda data: data + data,
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_another_spelling_is_no_record(name: str) -> None:
    data = SPELLINGS[name](RULING)
    assert data != RULING
    with pytest.raises(InvalidRecord):
        parse_record(data)


def test_a_key_that_stands_twice_is_named() -> None:
    for data in (b'"seq":2,"seq":1', b'"seq":1,"seq":1'):
        with pytest.raises(InvalidRecord, match="the key `seq` stands twice"):
            parse_record(RULING.replace(b'"seq":1', data))


@pytest.mark.parametrize(
    "data",
    [b"", b"null", b"[]", b'"x"', b"1", b"{", b"NaN", b"{}", b"\xff", b"[" * 60_000, b'{"v":' * 10_000, b"9" * 5_000],
)
def test_rubbish_is_no_record(data: bytes) -> None:
    with pytest.raises(InvalidRecord):
        parse_record(data)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, len(RULING)), st.integers(0, 3), st.binary(max_size=3))
def test_whatever_is_taken_is_what_would_have_been_written(at: int, length: int, put: bytes) -> None:
    data = RULING[:at] + put + RULING[at + length :]
    try:
        fields = parse_record(data)
    except InvalidRecord:
        return
    assert encode_record(fields) == data


# Exactly its fields


@pytest.mark.parametrize("kind", KINDS)
def test_no_field_can_be_left_out_or_added(kind: str) -> None:
    fields = EXAMPLES[kind]
    for name in fields:
        with pytest.raises(InvalidRecord):
            encode_record({key: value for key, value in fields.items() if key != name})
    with pytest.raises(InvalidRecord, match="a field too many, `note`"):
        encode_record(fields | {"note": "x"})


WRONG: list[object] = [
    None,
    1.0,
    1.5,
    float("nan"),
    -1,
    MAX_INTEGER + 1,
    True,
    b"x",
    (),
    {},
    "\ud800",
    "\x00",
    object(),
]


@pytest.mark.parametrize("kind", KINDS)
def test_no_field_takes_what_it_may_not_hold(kind: str) -> None:
    for name, value in EXAMPLES[kind].items():
        for wrong in WRONG:
            if isinstance(wrong, str) and isinstance(value, str) and name in ("who", "approved_by"):
                continue
            if wrong == "\x00" and name in ("origin", "previous", "previous_vkey", "next_vkey"):
                continue
            with pytest.raises(InvalidRecord):
                encode_record(EXAMPLES[kind] | {name: wrong})


def ruling_fields(
    *,
    session: str,
    run: str,
    seq: int,
    ts_ms: int,
    salt: bytes,
    mode: str,
    tool: str,
    args_sha256: str,
    blocks: Iterable[tuple[str, str, str]],
    decision: Decision,
    policy_hash: str,
    context_sha256: str,
    approved_by: str = "",
    trace: str = "",
) -> dict[str, object]:
    """A ruling's fields, each on a line of its own: what the quick encoder has to write."""
    said = {ran.tier: ran for ran in decision.judged}
    return {
        **record._common_fields("ruling", run, seq, ts_ms, salt),
        "v": record.RULING_VERSION,
        "session": record.label(session),
        "mode": mode,
        "tool": record.label(tool),
        "args_sha256": args_sha256,
        "risk": decision.risk.value,
        "blocks": record._blocks(blocks),
        "context_sha256": context_sha256,
        "tier": decision.tier,
        "tier1_result": decision.tiers[0].said,
        "tier2_result": said[2].said if 2 in said else record.NOT_RUN,
        "tier2_by": record.label(said[2].by) if 2 in said else "",
        "tier2_exam": record._exam(said[2].exam) if 2 in said else "",
        "tier3_result": said[3].said if 3 in said else record.NOT_RUN,
        "tier3_by": record.label(said[3].by) if 3 in said else "",
        "tier3_exam": record._exam(said[3].exam) if 3 in said else "",
        "width": decision.width,
        "action": decision.action.value,
        "reason": decision.reason.value,
        "rules": list(dict.fromkeys(record.label(found.rule) for found in decision.findings))[: record.MAX_RULES],
        "origins": [*dict.fromkeys(record.block_label(origin.block) for origin in decision.origins)][:MAX_ORIGINS],
        "policy_sha256": policy_hash.removeprefix("sha256:"),
        "approval": record._approval_id(decision.approval) if decision.approval else "",
        "approved_by": approved_by,
        **({"trace": trace} if trace else {}),
    }


NAMES = st.sampled_from(["send_email", "", "sha256:x", 'a"b', "a b", "\ud800", "x" * 200]) | st.text(max_size=20)
DECISIONS = st.builds(
    Decision,
    st.sampled_from(Action),
    st.integers(1, 3),
    st.sampled_from(Reason),
    st.sampled_from(Risk),
    findings=st.lists(st.builds(Finding, NAMES, NAMES, st.just(0), st.just(0)), max_size=80).map(tuple),
    origins=st.lists(
        st.builds(Origin, NAMES, NAMES, NAMES | st.sampled_from(["goal", "b0001"]), NAMES, st.just(0), st.just(0)),
        max_size=80,
    ).map(tuple),
    approval=st.sampled_from(["", "3f9a1c20b7d4e856", "A 1", '"']),
    width=st.sampled_from(["", "narrow", "wide"]),
    judged=st.lists(
        st.builds(Ran, st.just(2), st.sampled_from(["clear", "suspicious", "unclear"]), NAMES)
        | st.builds(Ran, st.just(3), st.sampled_from([*(action.value for action in Action), "unclear"]), NAMES),
        max_size=4,
    ).map(tuple),
)


@settings(deadline=None)
@given(
    DECISIONS,
    NAMES,
    NAMES,
    WHO,
    st.lists(st.tuples(NAMES, st.sampled_from(["untrusted", "vetted", "trusted"]), st.just("cd" * 32)), max_size=5),
    st.integers(1, MAX_INTEGER),
    st.binary(min_size=16, max_size=16),
)
def test_the_short_way_to_a_ruling_writes_the_same_bytes(
    decision: Decision,
    session: str,
    tool: str,
    who: str,
    blocks: list[tuple[str, str, str]],
    seq: int,
    salt: bytes,
) -> None:
    fields: dict[str, Any] = {
        "session": session,
        "run": "0123456789abcdef",
        "seq": seq,
        "ts_ms": seq,
        "salt": salt,
        "mode": "default",
        "tool": tool,
        "args_sha256": "ab" * 32,
        "blocks": blocks,
        "decision": decision,
        "policy_hash": "sha256:" + "ef" * 32,
        "context_sha256": "01" * 32,
        "approved_by": who,
        "trace": salt.hex() if any(salt) else "",
    }
    data = record.ruling_bytes(**fields)
    assert data == encode_record(ruling_fields(**fields))
    assert parse_record(data)["seq"] == seq


def test_the_short_way_to_a_ruling_takes_no_more_than_the_long_one() -> None:
    decision = Decision(Action.PAUSE, 1, Reason.DENIED, Risk.HIGH)
    given: dict[str, Any] = {
        "session": "s",
        "run": "0" * 16,
        "seq": 1,
        "ts_ms": 1,
        "salt": bytes(16),
        "mode": "default",
        "tool": "t",
        "args_sha256": "ab" * 32,
        "policy_hash": "ef" * 32,
        "context_sha256": "01" * 32,
        "decision": decision,
    }
    for more in ({"blocks": [("x" * 9, "vetted", "cd" * 32)] * 600}, {"blocks": [], "approved_by": "x" * 201}):
        with pytest.raises(InvalidRecord):
            record.ruling_bytes(**given, **more)


def test_text_is_whole_characters() -> None:
    with pytest.raises(InvalidRecord, match="surrogate"):
        encode_record(EXAMPLES["prune"] | {"who": "\ud800"})


def test_a_word_of_ours_is_written_as_the_text_it_is() -> None:
    fields = EXAMPLES["ruling"] | {"mode": Mode.PARANOID, "action": Action.PAUSE}
    assert parse_record(encode_record(fields))["mode"] == "paranoid"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("action", "ALLOW"),
        ("action", "continue"),
        ("mode", "off"),
        ("tier", 0),
        ("tier", 4),
        ("tier", "1"),
        ("reason", "because"),
        ("tier1_result", "not-run"),
        ("args_sha256", HASH.upper()),
        ("args_sha256", HASH[:-1]),
        ("salt", "00" * 15),
        ("seq", 0),
        ("v", 1),
        ("v", 3),
        ("v", True),
        ("width", "broad"),
        ("tier2_exam", "passed, honestly"),
        ("kind", "verdict"),
        ("kind", "prune"),
        ("kind", ["ruling"]),
        ("rules", ["a rule with spaces"]),
        ("rules", ["a"] * 65),
        ("blocks", [{"id": "notes/ana.txt", "trust": "untrusted", "sha256": HASH}]),
        ("blocks", [{"id": "b0001", "trust": "maybe", "sha256": HASH}]),
        ("blocks", [{"id": "b0001", "trust": "untrusted"}]),
        ("blocks", [{"id": "b0001", "trust": "untrusted", "sha256": HASH, "content": "x"}]),
        ("blocks", [{"id": "b0001", "trust": "untrusted", "sha256": HASH}] * (MAX_BLOCKS + 1)),
        ("origins", ["ana@example.com"]),
        ("tool", "send email"),
        ("session", ""),
        ("tier", True),
        ("blocks", ""),
        ("blocks", False),
        ("rules", {}),
        ("rules", [["a"]]),
        ("action", ["PAUSE"]),
        ("approved_by", "x" * 201),
    ],
)
def test_a_ruling_holds_words_of_ours_and_hashes(field: str, value: object) -> None:
    with pytest.raises(InvalidRecord):
        encode_record(EXAMPLES["ruling"] | {field: value})


def test_a_full_record_fits() -> None:
    blocks = [(f"host-{number}", "untrusted", HASH) for number in range(MAX_BLOCKS)]
    findings = tuple(Finding(f"family:{'x' * 100}{number}", "b0001", 0, 1) for number in range(100))
    origins = tuple(Origin("to", "x", f"host-{number}", "tool:x", 0, 1) for number in range(100))
    decision = Decision(Action.PAUSE, 3, Reason.SUPERVISOR, Risk.HIGH, findings=findings, origins=origins)
    data = encode_record(a_ruling(1, 1, 5, blocks=blocks, decision=decision, approved_by="🙂" * 200))
    assert len(data) < MAX_RECORD


# What a ruling says


def test_the_tiers_are_named_as_they_spoke() -> None:
    fields = EXAMPLES["ruling"]
    assert (fields["tier1_result"], fields["tier2_result"], fields["tier3_result"]) == (
        "escalate",
        "suspicious",
        "PAUSE",
    )
    assert (fields["tier2_by"], fields["tier3_by"]) == ("openai/gpt-small", "openai/gpt-large")
    passed = a_ruling(1, 1, 5)
    assert (passed["tier1_result"], passed["tier2_result"], passed["tier3_result"]) == ("pass", "not-run", "not-run")


def test_every_way_a_tier_can_speak_has_a_record() -> None:
    for reason in Reason:
        for action in Action:
            for said in ("clear", "suspicious", "unclear"):
                for top in ("CONTINUE", "REORIENT", "PAUSE", "unclear"):
                    judged = (Ran(2, said, "a/b"), Ran(3, top, "a/b"))
                    encode_record(a_ruling(1, 1, 5, decision=Decision(action, 3, reason, Risk.LOW, judged=judged)))


# No content


SECRET = "call +49 30 1234 or ana@example.com"


def test_nothing_that_others_wrote_gets_into_a_record() -> None:
    decision = Decision(
        Action.REORIENT,
        3,
        Reason.SUPERVISOR,
        Risk.HIGH,
        explanation=SECRET,
        findings=(Finding(SECRET, SECRET, 0, 1, excerpt=SECRET),),
        origins=(Origin(SECRET, SECRET, SECRET, SECRET, 0, 1, order=SECRET, sink=SECRET),),
        correction=SECRET,
        judged=(Ran(2, "clear", SECRET), Ran(3, "REORIENT", SECRET)),
    )
    fields = a_ruling(
        1, 1, 5, session=SECRET, tool=SECRET, decision=decision, blocks=[(SECRET, "untrusted", sha256_hex(SECRET))]
    )
    data = encode_record(fields)
    assert not any(word in data for word in (b"1234", b"ana", b"+49"))
    assert fields["tool"] == f"sha256:{sha256(SECRET.encode()).hexdigest()}"


@pytest.mark.parametrize("name", ["bash", "mcp__github__create_issue", "openai/gpt-5.2:mini", "A-1.b"])
def test_a_name_that_looks_like_one_stays(name: str) -> None:
    assert label(name) == name


@pytest.mark.parametrize(
    "name", ["", " ", "a b", "ana@example.com", "-rf", "é", "x" * 129, "a\n", "\ud800", f"sha256:{HASH}"]
)
def test_any_other_name_is_hashed(name: str) -> None:
    assert label(name) == f"sha256:{sha256_hex(name)}"


@pytest.mark.parametrize("id", ["goal", "b0001", "b123456789"])
def test_our_own_blocks_keep_their_ids(id: str) -> None:
    assert block_label(id) == id


@pytest.mark.parametrize("id", ["inbox/ana", "b", "B0001", "goal2", "b0001\n", f"sha256:{HASH}"])
def test_a_hosts_ids_of_blocks_are_hashed(id: str) -> None:
    assert block_label(id) == f"sha256:{sha256_hex(id)}"


# Optional fields

MORE: dict[str, object] = {
    "subject": "0123456789ab",
    "standing": "slowed",
    "strikes": 0,
    "conversation_sha256": HASH,
    "trace": "4bf92f3577b34da6a3ce929d0e0e4736",
}


def an_assessment(more: dict[str, object]) -> dict[str, object]:
    return record.assess_record(
        **HEAD, payload_sha256=HASH, verdict="unsafe", reason="rules", by="", acted="unsafe:X", more=more
    )


def test_an_optional_field_is_there_only_with_a_value() -> None:
    assert KINDS["assess"].keys() | MORE.keys() == an_assessment(MORE).keys()
    assert KINDS["assess"].keys() == an_assessment({}).keys()
    for name, value in MORE.items():
        fields = an_assessment({name: value})
        assert parse_record(encode_record(fields)) == fields
        for other in ("", None, [], {}, "<b>", -1, True, "0" * 32, "normal\n"):
            # An application's own ladder gave it: the verdict counts without it.
            assert name not in an_assessment({name: other})
            with pytest.raises(InvalidRecord):
                encode_record(fields | {name: other})
        with pytest.raises(InvalidRecord, match="a field too many"):
            encode_record(EXAMPLES["approval"] | {name: value})


def test_the_standings_of_a_record_are_those_of_the_ladder() -> None:
    assert tuple(standing.value for standing in Standing) == record.STANDINGS
