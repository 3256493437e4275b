"""One audited event as bytes: canonical JSON under a schema that leaves exactly one spelling.

The form is RFC 8785, restricted to ASCII keys, text, booleans, whole numbers below 2^53, lists and objects. Under this
restriction Python's encoder with sorted keys writes exactly that form; a test compares the two.

Records contain no content. Text from a host, an agent or an untrusted source appears only as its SHA-256, and a name
appears as itself only if it looks like a name (`label`). Every record has 16 random bytes of salt: a leaf's hash
outlives its record and is published in proofs, and must not help an attacker to guess what the record said.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import TypedDict

from lockgate.core.errors import InvalidRecord, quoted
from lockgate.core.vocabulary import Action, Decision, Mode, Reason, Risk, Trust
from lockgate.journal.signed_notes import MAX_NOTE
from lockgate.runtime.strict_json import InvalidJson, JsonFault, JsonReader

VERSION = 1
# Rulings say how much was asked about, and which exams stand behind the judges; those of version 1 do not.
RULING_VERSION = 2
# The limit of C2SP's tiles; our records have a few hundred bytes.
MAX_RECORD = 1 << 16
MAX_INTEGER = (1 << 53) - 1
# One record can list this many within its size. Further blocks go into `context` records before it.
MAX_BLOCKS = 256
MAX_RULES = 64
MAX_ORIGINS = 64
MAX_WHO = 200
MAX_LABEL = 128
SALT = 16
NOT_RUN = "not-run"


Fields = Mapping[str, object]


class RecordNumber(TypedDict):
    """The fields with which every record begins."""

    run: str
    seq: int
    ts_ms: int
    salt: bytes


# The bytes


def encode_record(fields: Fields) -> bytes:
    """Return the canonical bytes of these fields; raise InvalidRecord if they do not fit the schema."""
    _check_schema(fields)
    return _canonical_bytes(fields)


def parse_record(data: bytes) -> dict[str, object]:
    """Return the fields of a record; raise InvalidRecord for any bytes that `encode_record` would not have written."""
    if len(data) > MAX_RECORD:
        raise InvalidRecord(f"a record of more than {MAX_RECORD:,} bytes is refused")
    try:
        fields = _READER.read(text := data.decode("utf-8"))
    except UnicodeDecodeError:
        raise InvalidRecord("a record must be UTF-8") from None
    except InvalidJson:
        raise InvalidRecord("a record must be one JSON object, without fractions and `null`") from None
    if type(fields) is not dict:
        raise InvalidRecord("a record must be one JSON object")
    _check_schema(fields)
    if _canonical_bytes(fields) != data:
        # With a key twice, readers that take the first value and readers that take the last would see two records.
        twice = _find_duplicate_key(text)
        raise InvalidRecord(
            f"the key {quoted(twice)} stands twice"
            if twice
            else "not in canonical form: other bytes for the same fields"
        )
    return fields


def sha256_hex(data: bytes | str) -> str:
    """Return the SHA-256 as records write it: 64 hexadecimal digits."""
    return sha256(data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data).hexdigest()


def label(text: str) -> str:
    """Return a foreign name as a record may show it: the name itself if it looks like one, else its hash.

    A tool's name comes from a model that an attacker may control; a session's name comes from a host and may be an
    address. A name spelled like a hash is hashed again, so that it cannot pass for the hash of another name.
    """
    return _short_label(text) if len(text) <= MAX_LABEL else f"sha256:{sha256_hex(text)}"


@lru_cache(256)
def _short_label(text: str) -> str:
    return text if _LABEL.fullmatch(text) and not text.startswith("sha256:") else f"sha256:{sha256_hex(text)}"


def block_label(id: str) -> str:
    """Return our own block ids unchanged and hash all others: a host's id may be a path, a subject or an address."""
    return id if _BLOCK.fullmatch(id) else f"sha256:{sha256_hex(id)}"


def _approval_id(id: str) -> str:
    """Return ids made by our stores unchanged and hash all others: a foreign store's id may be any text."""
    return id if _APPROVAL_ID.fullmatch(id) else sha256_hex(id)


def _exam(id: str) -> str:
    """Return the ids of our own exams unchanged and hash all others: a caller's judge may say anything."""
    return id if not id or _EXAM_ID.fullmatch(id) else sha256_hex(id)


_encode = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False).encode


def _canonical_bytes(fields: Fields) -> bytes:
    try:
        data = _encode(fields).encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidRecord("a record cannot hold half of a surrogate pair") from None
    if len(data) > MAX_RECORD:
        raise InvalidRecord(f"a record of more than {MAX_RECORD:,} bytes is refused")
    return data


# Duplicate keys are looked for only in a record that is not canonical: this reader is the faster one by far.
_READER = JsonReader(floats="none", allow_duplicate_keys=True)
_STRICT_READER = JsonReader()


def _find_duplicate_key(text: str) -> str:
    """Return the key that stands twice in one object of a JSON text; empty if none does."""
    try:
        _STRICT_READER.read(text)
    except InvalidJson as error:
        return error.value if error.fault is JsonFault.DUPLICATE_KEY else ""
    return ""


# The builders: each lists every field of its kind


def ruling_bytes(
    *,
    session: str,
    run: str,
    seq: int,
    ts_ms: int,
    salt: bytes,
    mode: str,
    tool: str,
    args_sha256: str,
    blocks: Sequence[tuple[str, str, str]],
    decision: Decision,
    policy_hash: str,
    context_sha256: str,
    approved_by: str = "",
    trace: str = "",
) -> bytes:
    """Return the record of a ruling: the call, what was known, and the decision; the others here return fields.

    `blocks` are (id, trust, content hash) of the blocks that entered the context since this run's last record; listing
    all of them each time would multiply a session's size by its calls. `context_sha256` binds the whole context.

    Written out for speed, since every call waits for it: every name is a label, every hash and number is our own and
    every word is an enum's, so nothing needs escaping or checking. A test compares it with a plain encoder.
    """
    two = three = NOT_RUN
    by_two = by_three = exam_two = exam_three = rules = origins = listed = ""
    for ran in decision.judged:
        if ran.tier == 2:
            two, by_two, exam_two = ran.said, label(ran.by), _exam(ran.exam)
        elif ran.tier == 3:
            three, by_three, exam_three = ran.said, label(ran.by), _exam(ran.exam)
    if decision.findings:
        rules = _quote_all({label(found.rule): None for found in decision.findings}, MAX_RULES)
    if decision.origins:
        origins = _quote_all({block_label(origin.block): None for origin in decision.origins}, MAX_ORIGINS)
    if blocks:
        listed = ",".join(
            [f'{{"id":"{block_label(id)}","sha256":"{digest}","trust":"{trust}"}}' for id, trust, digest in blocks]
        )
    first = "escalate" if decision.judged or decision.tier > 1 else "pass"
    approval = _approval_id(decision.approval) if decision.approval else ""
    who = _encode(approved_by)
    traced = f'"trace":"{trace}",' * bool(trace)
    data = (
        f'{{"action":"{decision.action._value_}","approval":"{approval}","approved_by":{who},'
        f'"args_sha256":"{args_sha256}","blocks":[{listed}],"context_sha256":"{context_sha256}","kind":"ruling",'
        f'"mode":"{mode}","origins":[{origins}],"policy_sha256":"{policy_hash.removeprefix("sha256:")}",'
        f'"reason":"{decision.reason._value_}","risk":"{decision.risk._value_}","rules":[{rules}],"run":"{run}",'
        f'"salt":"{salt.hex()}","seq":{seq},"session":"{label(session)}","tier":{decision.tier},'
        f'"tier1_result":"{first}","tier2_by":"{by_two}","tier2_exam":"{exam_two}","tier2_result":"{two}",'
        f'"tier3_by":"{by_three}","tier3_exam":"{exam_three}","tier3_result":"{three}","tool":"{label(tool)}",{traced}'
        f'"ts_ms":{ts_ms},"v":{RULING_VERSION},"width":"{decision.width}"}}'
    ).encode()
    if len(data) > MAX_RECORD or len(approved_by) > MAX_WHO:
        raise InvalidRecord(f"a ruling's record of {len(data):,} bytes, or with so long a name, is refused")
    return data


def _quote_all(names: Iterable[str], most: int) -> str:
    return ",".join([f'"{name}"' for name in list(names)[:most]])


def context_record(
    *, session: str, run: str, seq: int, ts_ms: int, salt: bytes, blocks: Iterable[tuple[str, str, str]]
) -> dict[str, object]:
    """Return the record of blocks for which the next ruling's record has no room."""
    return {**_common_fields("context", run, seq, ts_ms, salt), "session": label(session), "blocks": _blocks(blocks)}


def approval_record(
    *,
    session: str,
    run: str,
    seq: int,
    ts_ms: int,
    salt: bytes,
    id: str,
    state: str,
    digest: str,
    who: str = "",
    block: str = "",
) -> dict[str, object]:
    """Return the record of a question's outcome.

    `digest` binds the exact call; `who` is the person who answered, `block` the text that voided the question.
    """
    voided_by = {"block": block_label(block)} if block else {}
    return {
        **_common_fields("approval", run, seq, ts_ms, salt),
        "session": label(session),
        "approval": _approval_id(id),
        "state": state,
        "call_sha256": digest.removeprefix("sha256:"),
        "who": who,
        **voided_by,
    }


def assess_record(
    *,
    run: str,
    seq: int,
    ts_ms: int,
    salt: bytes,
    payload_sha256: str,
    verdict: str,
    reason: str,
    by: str,
    acted: str,
    rules: Iterable[str] = (),
    more: Fields | None = None,
) -> dict[str, object]:
    """Return the record of a verdict on a request and of what was done because of it.

    `more` has values for `OPTIONAL["assess"]`. Those that do not fit are left out: a verdict counts without them.
    """
    return {
        **{name: value for name, value in (more or {}).items() if _does_fit(OPTIONAL["assess"][name], value)},
        **_common_fields("assess", run, seq, ts_ms, salt),
        "payload_sha256": payload_sha256,
        "verdict": verdict,
        "reason": label(reason),
        "by": label(by) if by else "",
        "acted": label(acted),
        "rules": list(dict.fromkeys(label(rule) for rule in rules))[:MAX_RULES],
    }


def configuration_record(
    *,
    run: str,
    seq: int,
    ts_ms: int,
    salt: bytes,
    policy_hash: str,
    settings_hash: str = "",
    previous: str = "",
    software: str,
) -> dict[str, object]:
    """Return the record of the policy in force from here on and the program's version; `previous` may be empty.

    `settings_hash` covers all settings that affect rulings, including the policy.
    """
    return {
        **_common_fields("configuration", run, seq, ts_ms, salt),
        "policy_sha256": policy_hash.removeprefix("sha256:"),
        "previous_sha256": previous.removeprefix("sha256:"),
        "settings_sha256": settings_hash.removeprefix("sha256:"),
        "software": label(software),
    }


def gap_record(*, run: str, seq: int, ts_ms: int, salt: bytes, first: int, last: int, reason: str) -> dict[str, object]:
    """Return the record that names numbers of this run which may be missing, and why."""
    return {**_common_fields("gap", run, seq, ts_ms, salt), "first": first, "last": last, "reason": label(reason)}


def prune_record(
    *, run: str, seq: int, ts_ms: int, salt: bytes, origin: str, before: int, retention_days: int, who: str = ""
) -> dict[str, object]:
    """Return the record that a shard's records below `before` were deleted; their leaves stay, and all proofs hold.

    `origin` names the shard: a closed shard cannot take this record itself.
    """
    return {
        **_common_fields("prune", run, seq, ts_ms, salt),
        "origin": origin,
        "before": before,
        "retention_days": retention_days,
        "who": who,
    }


def rotation_record(*, run: str, seq: int, ts_ms: int, salt: bytes, next_vkey: str, who: str = "") -> dict[str, object]:
    """Return the last record of a shard: the log continues under this key."""
    return {**_common_fields("rotation", run, seq, ts_ms, salt), "next_vkey": next_vkey, "who": who}


def opening_record(
    *, run: str, seq: int, ts_ms: int, salt: bytes, origin: str, previous_vkey: str = "", previous: str = ""
) -> dict[str, object]:
    """Return the first record of a shard: its name and, except in the first shard, the signed head it continues."""
    return {
        **_common_fields("opening", run, seq, ts_ms, salt),
        "origin": origin,
        "previous_vkey": previous_vkey,
        "previous": previous,
    }


def _common_fields(kind: str, run: str, seq: int, ts_ms: int, salt: bytes) -> dict[str, object]:
    """Return the fields that all kinds share. `seq` counts within `run`, which is random per session and process."""
    return {"v": VERSION, "kind": kind, "run": run, "seq": seq, "ts_ms": ts_ms, "salt": salt.hex()}


def _blocks(blocks: Iterable[tuple[str, str, str]]) -> list[object]:
    return [{"id": block_label(id), "trust": trust, "sha256": digest} for id, trust, digest in blocks]


# The schema: which values each field may have


_LABEL = re.compile(f"[A-Za-z0-9_][A-Za-z0-9_.:/-]{{0,{MAX_LABEL - 1}}}")
_BLOCK = re.compile(r"goal|b[0-9]{1,9}")
_SHA256 = "[0-9a-f]{64}"
_APPROVAL = "[0-9a-z]{8,64}"
_APPROVAL_ID = re.compile(_APPROVAL)
_EXAM_ID = re.compile("[0-9a-f]{16,64}")

# Returns a truthy value if the field fits. TypeError, for a value of a wrong type, counts as a no: most checks are
# methods of C types, so that checking twenty fields costs little on every call.
Fits = Callable[[object], object]


def _integer(value: object) -> bool:
    # The exact type: `True` is an integer too, but has another JSON form.
    return type(value) is int and 0 <= value <= MAX_INTEGER


def _number(*numbers: int) -> Fits:
    return lambda value: type(value) is int and value in numbers


def _word(*words: str) -> Fits:
    return frozenset(words).__contains__


def _like(pattern: str) -> Fits:
    return re.compile(pattern).fullmatch  # type: ignore[return-value]


def _text(most: int) -> Fits:
    return lambda value: isinstance(value, str) and len(value) <= most


def _list_of(fits: Fits, most: int) -> Fits:
    return lambda value: type(value) is list and (not value or (len(value) <= most and all(map(fits, value))))


def _is_block(value: object) -> bool:
    return (
        type(value) is dict and value.keys() == _IN_BLOCK.keys() and all(_IN_BLOCK[name](value[name]) for name in value)
    )


_BLOCK_NAME = _like(f"{_BLOCK.pattern}|sha256:{_SHA256}")
_IN_BLOCK: Mapping[str, Fits] = {
    "id": _BLOCK_NAME,
    "trust": _word(*(trust.word for trust in Trust)),
    "sha256": _like(_SHA256),
}
_NAME = _like(_LABEL.pattern)
_NAME_OR_NONE = _like(f"(?:{_LABEL.pattern})?")
_EXAM_OR_NONE = _like(f"(?:{_EXAM_ID.pattern})?")
_NAMES = _list_of(_NAME, MAX_RULES)
_HASH = _like(_SHA256)
_HEAD: Mapping[str, Fits] = {
    "v": _number(VERSION),
    "kind": _NAME,
    "run": _like("[0-9a-f]{16}"),
    "seq": lambda value: _integer(value) and value != 0,
    "ts_ms": _integer,
    "salt": _like(f"[0-9a-f]{{{2 * SALT}}}"),
}

KINDS: Mapping[str, Mapping[str, Fits]] = {
    kind: {**_HEAD, **fields}
    for kind, fields in {
        "ruling": {
            "v": _number(RULING_VERSION),
            "session": _NAME,
            "mode": _word(*(mode.value for mode in Mode)),
            "tool": _NAME,
            "args_sha256": _HASH,
            "risk": _word(*(risk.value for risk in Risk)),
            "blocks": _list_of(_is_block, MAX_BLOCKS),
            "context_sha256": _HASH,
            "tier": _number(1, 2, 3),
            "tier1_result": _word("pass", "escalate"),
            "tier2_result": _word("clear", "suspicious", "unclear", NOT_RUN),
            "tier2_by": _NAME_OR_NONE,
            "tier2_exam": _EXAM_OR_NONE,
            "tier3_result": _word(*(action.value for action in Action), "unclear", NOT_RUN),
            "tier3_by": _NAME_OR_NONE,
            "tier3_exam": _EXAM_OR_NONE,
            "width": _word("", "narrow", "wide"),
            "action": _word(*(action.value for action in Action)),
            "reason": _word(*(reason.value for reason in Reason)),
            "rules": _NAMES,
            "origins": _list_of(_BLOCK_NAME, MAX_ORIGINS),
            "policy_sha256": _HASH,
            "approval": _like(f"(?:{_APPROVAL})?"),
            "approved_by": _text(MAX_WHO),
        },
        "context": {"session": _NAME, "blocks": _list_of(_is_block, MAX_BLOCKS)},
        "approval": {
            "session": _NAME,
            "approval": _like(_APPROVAL),
            "state": _word("waiting", "granted", "denied", "expired", "used", "voided", "grant-made", "grant-revoked"),
            "call_sha256": _HASH,
            "who": _text(MAX_WHO),
        },
        "assess": {
            "payload_sha256": _HASH,
            "verdict": _word("safe", "unsafe", "unclear"),
            "reason": _NAME,
            "by": _NAME_OR_NONE,
            "acted": _NAME,
            "rules": _NAMES,
        },
        "configuration": {
            "policy_sha256": _HASH,
            "previous_sha256": _like(f"(?:{_SHA256})?"),
            "settings_sha256": _like(f"(?:{_SHA256})?"),
            "software": _NAME,
        },
        "gap": {"first": _integer, "last": _integer, "reason": _NAME},
        "prune": {"origin": _text(255), "before": _integer, "retention_days": _integer, "who": _text(MAX_WHO)},
        "rotation": {"next_vkey": _text(512), "who": _text(MAX_WHO)},
        "opening": {"origin": _text(255), "previous_vkey": _text(512), "previous": _text(MAX_NOTE // 2)},
    }.items()
}

_OLDER_RULING: Mapping[str, Fits] = {
    name: fits for name, fits in KINDS["ruling"].items() if name not in ("tier2_exam", "tier3_exam", "width")
} | {"v": _number(VERSION)}
_TRACE = _like("(?!0{32})[0-9a-f]{32}")
SUBJECT = 12
STANDINGS = ("normal", "slowed", "execute_locked", "full_quarantine")
# Fields that a record has only if their value is known; none of them may be empty.
OPTIONAL: Mapping[str, Mapping[str, Fits]] = {
    "ruling": {"trace": _TRACE},
    "approval": {"block": _BLOCK_NAME},
    "assess": {
        "conversation_sha256": _HASH,
        "standing": _word(*STANDINGS),
        "strikes": _integer,
        "subject": _like(f"[0-9a-f]{{{SUBJECT}}}"),
        "trace": _TRACE,
    },
}


def _check_schema(fields: Fields) -> None:
    """Raise InvalidRecord unless the fields are those of the kind: other fields could hide content."""
    kind, version = fields.get("kind"), fields.get("v")
    schema = KINDS.get(kind) if type(kind) is str else None
    if kind == "ruling" and version == VERSION:
        schema = _OLDER_RULING
    if schema is None or not _does_fit(schema["v"], version):
        raise InvalidRecord(
            f"a record of kind {quoted(kind)}, version {quoted(fields.get('v'))}, is not known here",
            hint="a newer Lockgate may have written it",
        )
    optional = OPTIONAL.get(str(kind))
    if optional and fields.keys() > schema.keys():
        schema = {**schema, **{name: fits for name, fits in optional.items() if name in fields}}
    if fields.keys() != schema.keys():
        missing, extra = schema.keys() - fields.keys(), fields.keys() - schema.keys()
        said = f"lacks {quoted(min(missing))}" if missing else f"has a field too many, {quoted(min(map(str, extra)))}"
        raise InvalidRecord(f"a record of kind {quoted(kind)} {said}")
    for name, fits in schema.items():
        if not _does_fit(fits, fields[name]):
            raise InvalidRecord(f"the field {quoted(name)} of a record of kind {quoted(kind)} has an invalid value")


def _does_fit(fits: Fits, value: object) -> bool:
    try:
        return bool(fits(value))
    except TypeError:
        return False
