"""Writes spec/vectors: what another implementation of the journal can test itself with. Run it after a change of bytes.

Everything in them follows from this file: the keys are made of repeated bytes, and no clock or random number is used.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from lockgate.core.vocabulary import Action, Decision, Finding, Origin, Ran, Reason, Risk
from lockgate.journal import keys, record
from lockgate.journal.exports import ExportRow, export_lines
from lockgate.journal.merkle import HashOf, consistency_proof, inclusion_proof, leaf_hash, node_hash, root_of
from lockgate.journal.signed_notes import COSIGNATURE, Checkpoint, Proof, cosign_note, parse_note, sign_note

FOLDER = Path(__file__).parent / "vectors"
ORIGIN = "example.com/lockgate/2026a"
LOG = keys.signer_from_seed(ORIGIN, b"\x01" * 32)
WITNESS = keys.signer_from_seed("example.com/witness", b"\x02" * 32, kind=COSIGNATURE)
STRANGER = keys.signer_from_seed(ORIGIN, b"\x03" * 32)
SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 11)


def hash_levels(leaves: list[bytes]) -> HashOf:
    """Return `hash_of` for a list of leaves' hashes; all levels are computed at once."""
    levels = [leaves]
    while len(levels[-1]) > 1:
        below = levels[-1]
        levels.append([node_hash(below[at], below[at + 1]) for at in range(0, len(below) - 1, 2)])
    return lambda level, index: levels[level][index]


def head_of(number: int, run: int = 1) -> dict[str, object]:
    salt = sha256(bytes([run, number])).digest()[: record.SALT]
    return {"run": f"{run:016x}", "seq": number, "ts_ms": 1_790_000_000_000 + number, "salt": salt}


def ruling(number: int, decision: Decision, **changes: object) -> dict[str, object]:
    fields: dict[str, object] = {
        **head_of(number),
        "session": "5f1c0de2a4b60718",
        "mode": "default",
        "tool": "read_file",
        "args_sha256": record.sha256_hex(f'{{"path":"notes-{number}.txt"}}'),
        "blocks": [],
        "decision": decision,
        "policy_hash": f"sha256:{record.sha256_hex('policy')}",
        "context_sha256": record.sha256_hex("context"),
    }
    return record.parse_record(record.ruling_bytes(**(fields | changes)))  # type: ignore[arg-type]


PASS = Decision(Action.CONTINUE, 1, Reason.NO_RED_FLAGS, Risk.HIGH)
PAUSE = Decision(
    Action.PAUSE,
    3,
    Reason.SUPERVISOR,
    Risk.HIGH,
    findings=(Finding("order:send", "b0001", 0, 4),),
    origins=(Origin("to", "", "b0001", "tool:read_inbox", 0, 4),),
    approval="k3v9x2m7q1",
    judged=(Ran(2, "suspicious", "openai/small"), Ran(3, "PAUSE", "anthropic/large")),
    width="narrow",
)
CLEARED = Decision(
    Action.CONTINUE,
    2,
    Reason.TRIAGE_CLEARED,
    Risk.HIGH,
    judged=(Ran(2, "clear", "anthropic/small", exam="00112233445566778899aabbccddeeff"),),
    width="wide",
)
BLOCK = ("b0001", "untrusted", record.sha256_hex("a page"))
EXAMPLES: dict[str, dict[str, object]] = {
    "opening": record.opening_record(**head_of(1, 9), origin=ORIGIN),  # type: ignore[arg-type]
    "configuration": record.configuration_record(
        **head_of(2, 9),  # type: ignore[arg-type]
        policy_hash=record.sha256_hex("policy"),
        software="lockgate-0.1.0",
    ),
    "ruling, passed": ruling(1, PASS, blocks=[BLOCK]),
    "ruling, paused": ruling(2, PAUSE, tool="send_email"),
    "ruling, names hashed": ruling(3, PASS, tool="send an e-mail", session="ana@example.com"),
    "context": record.context_record(**head_of(4), session="5f1c0de2a4b60718", blocks=[("inbox/17", *BLOCK[1:])]),  # type: ignore[arg-type]
    "approval": record.approval_record(
        **head_of(5),  # type: ignore[arg-type]
        session="5f1c0de2a4b60718",
        id="k3v9x2m7q1",
        state="granted",
        digest=record.sha256_hex("call"),
        who="Zoë “Z” \N{SLIGHTLY SMILING FACE}\n",
    ),
    "assess": record.assess_record(
        **head_of(6),  # type: ignore[arg-type]
        payload_sha256=record.sha256_hex("payload"),
        verdict="unsafe",
        reason="rules",
        by="",
        acted="deny",
        rules=["seed:ignore-instructions"],
    ),
    "gap": record.gap_record(**head_of(9), first=7, last=8, reason="journal-unavailable"),  # type: ignore[arg-type]
    "prune": record.prune_record(**head_of(3, 9), origin=ORIGIN, before=2, retention_days=30, who="ana"),  # type: ignore[arg-type]
    "ruling, after the gap": ruling(10, PASS),
    # No part of the log below: it would have to go on in another.
    "rotation": record.rotation_record(**head_of(4, 9), next_vkey=STRANGER.key.vkey, who="ana"),  # type: ignore[arg-type]
}
# Also no part of the log: records with all optional fields.
JOINED: dict[str, dict[str, object]] = {
    "assess, an incident": record.assess_record(
        **head_of(11),  # type: ignore[arg-type]
        payload_sha256=record.sha256_hex("payload"),
        verdict="unsafe",
        reason="rules",
        by="rules",
        acted="unsafe:01M7F7J5VMTYRY88TXC9FMV8H3",
        more={
            "subject": "0123456789ab",
            "standing": "execute_locked",
            "strikes": 3,
            "conversation_sha256": record.sha256_hex("5f1c0de2a4b60718"),
            "trace": "4bf92f3577b34da6a3ce929d0e0e4736",
        },
    ),
    "ruling, of the same trace": ruling(12, PASS, trace="4bf92f3577b34da6a3ce929d0e0e4736"),
    "ruling, cleared by an examined judge": ruling(13, CLEARED, tool="send_email"),
    "ruling, of version 1": {
        name: value
        for name, value in (ruling(14, PAUSE) | {"v": 1}).items()
        if name not in ("width", "tier2_exam", "tier3_exam")
    },
}
*BODIES, ROTATION = (record.encode_record(fields) for fields in EXAMPLES.values())
LEAVES = [leaf_hash(data) for data in BODIES]
PAUSED = BODIES[3]


def text_of(data: bytes) -> dict[str, str]:
    """As text where it is text, else in base64."""
    try:
        return {"text": data.decode("utf-8")}
    except UnicodeDecodeError:
        return {"base64": b64(data)}


def b64(data: bytes) -> str:
    return b64encode(data).decode("ascii")


def note(size: int, signer: keys.Ed25519Signer = LOG, origin: str = ORIGIN) -> bytes:
    return sign_note(Checkpoint(origin, size, root_of(LEAVES[:size])).text, signer.key, signer.sign).to_bytes()


def records() -> object:
    wrong = {
        "a key twice, the first one a lie": PAUSED.replace(b'{"action"', b'{"action":"CONTINUE","action"'),
        "a key twice, both alike": PAUSED.replace(b'{"action"', b'{"action":"PAUSE","action"'),
        "a space": PAUSED.replace(b'":', b'": ', 1),
        "keys in another order": json.dumps(
            dict(reversed(json.loads(PAUSED).items())), separators=(",", ":"), ensure_ascii=False
        ).encode(),
        "a letter escaped without need": PAUSED.replace(b"PAUSE", b"\\u0050AUSE", 1),
        "a whole number written as a fraction": PAUSED.replace(b'"tier":3', b'"tier":3.0'),
        "null": PAUSED.replace(b'"approved_by":""', b'"approved_by":null'),
        "a number of 2^53": PAUSED.replace(b'"ts_ms":1790000000002', b'"ts_ms":9007199254740992'),
        "a field too many": PAUSED.replace(b'"tool"', b'"title":"","tool"'),
        "a field of another kind": PAUSED.replace(b'"tool"', b'"strikes":3,"tool"'),
        "an optional field without a value": PAUSED.replace(b'"ts_ms"', b'"trace":"","ts_ms"'),
        "a trace of zeros": PAUSED.replace(b'"ts_ms"', b'"trace":"' + b"0" * 32 + b'","ts_ms"'),
        "a field missing": PAUSED.replace(b'"tool":"send_email",', b""),
        "a kind nobody knows": PAUSED.replace(b'"kind":"ruling"', b'"kind":"ruled"'),
        "another version": PAUSED.replace(b'"v":2', b'"v":3'),
        "version 1 with fields of version 2": PAUSED.replace(b'"v":2', b'"v":1'),
        "a width nobody knows": PAUSED.replace(b'"width":"narrow"', b'"width":"broad"'),
        "an action nobody knows": PAUSED.replace(b'"action":"PAUSE"', b'"action":"ALLOW"'),
        "content where a hash belongs": PAUSED.replace(record.sha256_hex("context").encode(), b"the page said"),
        "half a surrogate pair": PAUSED.replace(b'"approved_by":""', b'"approved_by":"\\ud800"'),
        "bytes that are no UTF-8": PAUSED.replace(b"send_email", b"send\xffemail"),
        "a newline at the end": PAUSED + b"\n",
        "nothing": b"",
    }
    return {
        "valid": [
            {"name": name, **text_of(data), "leaf": leaf_hash(data).hex()}
            for name, fields in (EXAMPLES | JOINED).items()
            for data in [record.encode_record(fields)]
        ],
        "invalid": [{"name": name, **text_of(data)} for name, data in wrong.items()],
    }


def tree() -> object:
    hash_of = hash_levels(LEAVES)
    inclusion = [
        {"index": at, "size": size, "proof": [each.hex() for each in inclusion_proof(at, size, hash_of)]}
        for size in SIZES
        for at in range(size)
    ]
    consistency = [
        {"old": old, "size": size, "proof": [each.hex() for each in consistency_proof(old, size, hash_of)]}
        for size in SIZES
        for old in range(size + 1)
    ]
    path = [each.hex() for each in inclusion_proof(4, 7, hash_of)]
    steps = [each.hex() for each in consistency_proof(3, 7, hash_of)]
    stray = leaf_hash(b"stray").hex()
    bent: dict[str, Callable[[list[str]], list[str]]] = {
        "one hash changed": lambda proof: [stray, *proof[1:]],
        "one hash too many": lambda proof: [*proof, stray],
        "one hash too few": lambda proof: proof[:-1],
        "two hashes exchanged": lambda proof: [proof[1], proof[0], *proof[2:]],
        "no hashes": lambda _: [],
    }
    return {
        "leaves": [leaf.hex() for leaf in LEAVES],
        "roots": [root_of(LEAVES[:size]).hex() for size in range(len(LEAVES) + 1)],
        "inclusion": inclusion,
        "consistency": consistency,
        "bad_inclusion": [
            *({"name": name, "index": 4, "size": 7, "proof": made(path)} for name, made in bent.items()),
            {"name": "another index", "index": 5, "size": 7, "leaf": 4, "proof": path},
            {"name": "an index beyond the tree", "index": 7, "size": 7, "leaf": 4, "proof": path},
        ],
        "bad_consistency": [
            *({"name": name, "old": 3, "size": 7, "proof": made(steps)} for name, made in bent.items()),
            {"name": "a larger tree before a smaller one", "old": 7, "size": 3, "proof": steps},
            {"name": "hashes where none are needed", "old": 7, "size": 7, "proof": steps},
        ],
    }


def notes() -> object:
    good = note(11)
    both = cosign_note(parse_note(good), WITNESS.key, WITNESS.sign, time_s=1_790_000_060).to_bytes()
    wrong = {
        "signed by another key of the same name": note(11, STRANGER),
        "the head of another log": note(11, LOG, "example.com/lockgate/other"),
        "the size changed": good.replace(b"\n11\n", b"\n10\n"),
        "a size with a zero before it": _signed(good.replace(b"\n11\n", b"\n011\n")),
        "no root": _signed(good.replace(root_line(good), b"")),
        "a root of 31 bytes": _signed(good.replace(root_line(good), b64(bytes(31)).encode() + b"\n")),
        "the signature cut": good[:-6] + b"\n",
        "the signature over another text": note(10).replace(b"\n10\n", b"\n11\n"),
        "no signature": good[: good.index("— ".encode())],
        "no empty line": good.replace(b"\n\n", b"\n"),
        "lines that end in CR LF": good.replace(b"\n", b"\r\n"),
        "a hyphen instead of the dash": good.replace("—".encode(), b"-"),
        "base64 with other spare bits": _spare(good),
        "a second line of the same key that does not hold": good + good[good.index("— ".encode()) : -8] + b"AAAAAA=\n",
    }
    proof = Proof(3, tuple(inclusion_proof(3, 11, hash_levels(LEAVES))), good)
    made = proof.to_bytes()
    bad_proofs = {
        "another index": made.replace(b"index 3\n", b"index 2\n"),
        "an index beyond the tree": made.replace(b"index 3\n", b"index 11\n"),
        "an index with a zero before it": made.replace(b"index 3\n", b"index 03\n"),
        "one hash too few": made.replace(b64(proof.hashes[0]).encode() + b"\n", b""),
        "one hash changed": made.replace(b64(proof.hashes[0]).encode(), b64(LEAVES[0]).encode()),
        "another version": made.replace(b"@v1", b"@v2"),
        "a head by another key": Proof(3, proof.hashes, note(11, STRANGER)).to_bytes(),
        "a head of another size": Proof(3, proof.hashes, note(8)).to_bytes(),
    }
    return {
        "log": {"seed": (b"\x01" * 32).hex(), "key_id": LOG.key.id.hex(), "vkey": LOG.key.vkey},
        "witness": {"seed": (b"\x02" * 32).hex(), "key_id": WITNESS.key.id.hex(), "vkey": WITNESS.key.vkey},
        "checkpoint": {"text": good.decode(), "origin": ORIGIN, "size": 11, "root": root_of(LEAVES).hex()},
        "cosigned": {"text": both.decode(), "time_s": 1_790_000_060},
        "bad_checkpoints": [{"name": name, **text_of(data)} for name, data in wrong.items()],
        "proof": {"text": made.decode(), "leaf": LEAVES[3].hex()},
        "bad_proofs": [{"name": name, **text_of(data)} for name, data in bad_proofs.items()],
    }


def root_line(data: bytes) -> bytes:
    return data.split(b"\n")[2] + b"\n"


def _signed(data: bytes) -> bytes:
    text = data.decode().partition("\n\n")[0] + "\n"
    return sign_note(text, LOG.key, LOG.sign).to_bytes()


def _spare(data: bytes) -> bytes:
    """The last letter before `=` carries two bits that decode to nothing."""
    letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    at = data.rindex(b"=") - 1
    while data[at : at + 1] == b"=":
        at -= 1
    return data[:at] + bytes([letters[letters.index(data[at]) ^ 1]]) + data[at + 1 :]


def export(bodies: list[bytes | None], checkpoint: bytes, leaves: list[bytes] | None = None) -> bytes:
    known = leaves or [leaf_hash(body or b"") for body in bodies]
    rows = [ExportRow(at, known[at], body) for at, body in enumerate(bodies)]
    return b"".join(export_lines(checkpoint, rows))


def signed_over(bodies: list[bytes], signer: keys.Ed25519Signer = LOG) -> bytes:
    leaves = [leaf_hash(body) for body in bodies]
    return sign_note(Checkpoint(ORIGIN, len(leaves), root_of(leaves)).text, signer.key, signer.sign).to_bytes()


def logs() -> object:
    """Whole exports: `says` is among what the audit finds; `held` is a head that was kept elsewhere."""
    whole: list[bytes | None] = [*BODIES]
    allowed = PAUSED.replace(b'"action":"PAUSE"', b'"action":"CONTINUE"')
    forged = [*BODIES[:3], allowed, *BODIES[4:]]
    newest = note(11)
    deleted: list[bytes | None] = [None, None, *BODIES[2:]]
    more = record.encode_record(ruling(11, PASS))
    closed = [*BODIES, ROTATION]
    cases: list[tuple[str, bytes, bytes, str]] = [
        ("as it was written", export(whole, newest), b"", ""),
        ("as it was written, the head held", export(whole, newest), newest, ""),
        ("as it was written, an older head held", export(whole, newest), note(5), ""),
        ("two records deleted, as the prune record says", export(deleted, newest, LEAVES), newest, ""),
        (
            "three records deleted, the prune record says two",
            export([None] * 3 + whole[3:], newest, LEAVES),
            b"",
            "deleted",
        ),
        ("the end cut off", export(whole[:8], newest), b"", "missing"),
        ("one record taken out", export([*whole[:3], *whole[4:]], newest), b"", "missing"),
        ("two records exchanged", export([*whole[:3], whole[4], whole[3], *whole[5:]], newest), b"", "rewritten"),
        ("a record twice", export([*whole[:4], *whole[3:]], newest), b"", "repeated"),
        ("a verdict turned round", export([*whole[:3], allowed, *whole[4:]], newest), b"", "rewritten"),
        ("a record put in at the end", export([*whole, more], newest), b"", "unsigned"),
        ("the last line without its newline", export(whole, newest)[:-1], b"", "not-a-record"),
        (
            "a number that never came",
            export([*BODIES[:2], BODIES[3]], signed_over([*BODIES[:2], BODIES[3]])),
            b"",
            "hole",
        ),
        ("signed by a stranger", export([*forged], signed_over(forged, STRANGER)), b"", "bad-head"),
        ("rewritten by the holder of the key, no head held", export([*forged], signed_over(forged)), b"", ""),
        ("rewritten by the holder of the key", export([*forged], signed_over(forged)), newest, "rewritten"),
        ("rolled back to an older head", export(whole[:8], note(8)), newest, "rolled-back"),
        ("something behind the rotation", export([*closed, more], signed_over([*closed, more])), b"", "shard"),
        ("the shard that the rotation leads to is missing", export([*closed], signed_over(closed)), b"", "shard"),
    ]
    return [
        {"name": name, "export": data.decode(), "held": held.decode(), "sound": not says, "says": says}
        for name, data, held, says in cases
    ]


def made() -> dict[str, str]:
    """Every file by its name."""
    parts = {"records": records(), "tree": tree(), "notes": notes(), "logs": logs()}
    return {f"{name}.json": json.dumps(value, indent=1, ensure_ascii=False) + "\n" for name, value in parts.items()}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in made().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
