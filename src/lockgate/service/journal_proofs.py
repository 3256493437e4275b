"""The journal as it is shown: its newest head, and proofs that a record is in it and that it only grew.

A ruling's proof is verified here in these steps, and handed out whole, so that the page does it over again by itself:

1. Record.    Its bytes hash to the leaf that the ruling's receipt names.
2. Ruling.    It says what was ruled: the session, the tool, the arguments, the action, the tier and the reason.
3. Inclusion. The proof leads from the leaf to the root of the newest head.
4. Head.      The log's own key has signed it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from lockgate.core.errors import (
    InvalidCall,
    InvalidNote,
    InvalidRecord,
    JournalDamaged,
    JournalUnavailable,
    LockgateError,
)
from lockgate.core.ruling.approvals import canonical_json
from lockgate.core.ruling.arguments import flatten_arguments
from lockgate.journal import keys
from lockgate.journal.journal import Journal
from lockgate.journal.log import find_shard, newest_head, prove_consistency, prove_inclusion
from lockgate.journal.merkle import leaf_hash
from lockgate.journal.record import label, parse_record, sha256_hex
from lockgate.journal.recorder import hash_arguments
from lockgate.journal.signed_notes import Proof, open_checkpoint, parse_note, parse_vkey, verify_proof
from lockgate.service.http import Problem

if TYPE_CHECKING:
    from lockgate.gate.gate import Gate
    from lockgate.journal.log import Snapshot
    from lockgate.sessions import StoredRuling


def log_of(gate: Gate) -> Journal:
    """The journal that a gate records in, opened if it is not yet; JournalUnavailable where that cannot be."""
    found: Any = gate.journal
    if found is None:
        raise Problem(404, "no-journal", "the journal is switched off", hint="`security.audit.enabled` says so")
    found = found.open_log() if callable(getattr(found, "open_log", None)) else found
    if not isinstance(found, Journal):
        # One that cannot be used says why when it is.
        found.enqueue([], durable=False)
        raise JournalUnavailable("the journal cannot be read here")
    return found


def journal_state(gate: Gate) -> dict[str, object]:
    """How it stands with the journal, as far as its newest head says: `lockgate audit verify` looks at all of it."""
    said: dict[str, object] = dict.fromkeys(("origin", "root", "checkpoint", "key", "said"), "")
    said |= {"state": "off", "size": 0, "witnesses": []}
    if gate.journal is None:
        return said
    try:
        with log_of(gate).store.reading() as log:
            shard = find_shard(log, "")
            note, head = newest_head(log, shard, keys.verify)
    except JournalDamaged as error:
        return {**said, "state": "damaged", "said": error.message}
    except LockgateError as error:
        return {**said, "state": "unavailable", "said": error.message}
    cosigned = sorted({each.name for each in parse_note(note).signatures} - {shard.origin})
    return {
        "state": "sound",
        "said": "",
        "origin": shard.origin,
        "size": head.size,
        "root": head.root.hex(),
        "checkpoint": note.decode("utf-8", "replace"),
        "key": shard.vkey,
        "witnesses": cosigned,
    }


def inclusion_proof(gate: Gate, index: int, origin: str) -> dict[str, object]:
    """Steps 1, 3 and 4 for any record."""
    journal = log_of(gate)
    with journal.store.reading() as log:
        found = _prove_in_log(log, index, origin)
    if found is None:
        # Heads are signed a moment after what they cover.
        journal.checkpoint()
        with journal.store.reading() as log:
            found = _prove_in_log(log, index, origin)
    if found is None:
        raise Problem(404, "no-such-record", "there is no such record in this log")
    return found


def _prove_in_log(log: Snapshot, index: int, origin: str) -> dict[str, object] | None:
    try:
        shard = find_shard(log, origin)
    except LockgateError as error:
        raise Problem(404, "no-such-log", error.message) from None
    note, head = newest_head(log, shard, keys.verify)
    if index >= head.size:
        return None
    proof = prove_inclusion(log, index, origin=shard.origin, verify=keys.verify)
    leaf = next((each for at, each in log.leaves(shard.number, index, index + 1) if at == index), b"")
    body = next((each for at, each in log.bodies(shard.number, index, index + 1) if at == index), None)
    checked: list[str] = []
    # 1. Record.
    good = _note_check(checked, "the record's bytes hash to its leaf", body is None or leaf_hash(body) == leaf)
    if body is None:
        checked[-1] = "the record's contents were deleted; its hash is still there"
    # 3. Inclusion and 4. Head.
    good &= _note_check(
        checked, "the proof leads from the record to the head's root", _is_proof_valid(proof, leaf, shard.vkey)
    )
    good &= _note_check(checked, "the log's key has signed the head", _is_signed(note, shard.vkey))
    return {
        "verified": good and body is not None,
        "checked": checked,
        "origin": shard.origin,
        "index": index,
        "size": head.size,
        "leaf_hash": leaf.hex(),
        "root": head.root.hex(),
        "proof": [each.hex() for each in proof.hashes],
        "checkpoint": note.decode("utf-8", "replace"),
        "key": shard.vkey,
        "record": "" if body is None else body.decode("utf-8", "replace"),
    }


def _note_check(checked: list[str], what: str, holds: bool) -> bool:  # noqa: FBT001 - said and returned
    checked.append(what if holds else f"NOT: {what}")
    return holds


def _is_proof_valid(proof: Proof, leaf: bytes, vkey: str) -> bool:
    try:
        verify_proof(proof, leaf, parse_vkey(vkey), keys.verify)
    except InvalidNote:
        return False
    return True


def _is_signed(note: bytes, vkey: str) -> bool:
    try:
        open_checkpoint(note, parse_vkey(vkey), keys.verify)
    except InvalidNote:
        return False
    return True


def decision_proof(gate: Gate, kept: StoredRuling) -> dict[str, object]:
    """All four steps for a ruling that was kept."""
    if kept.damaged:
        raise Problem(404, "no-receipt", "what was kept of this ruling cannot be read, so nothing can be compared")
    receipt = kept.decision.receipt
    if receipt is None:
        raise Problem(404, "no-receipt", "this ruling is not in the journal", hint="the journal was off or failed then")
    found = inclusion_proof(gate, receipt.index, receipt.origin)
    checked = list(found["checked"])  # type: ignore[call-overload]
    good = bool(found["verified"])
    good &= _note_check(
        checked, "the leaf is the one in the ruling's receipt", found["leaf_hash"] == receipt.leaf_hash.hex()
    )
    # 2. Ruling.
    try:
        fields = parse_record(str(found["record"]).encode("utf-8"))
    except InvalidRecord:
        fields = {}
    decision = kept.decision
    said = {
        "session": label(kept.session),
        "tool": label(kept.tool),
        "action": decision.action.value,
        "reason": decision.reason.value,
        "risk": decision.risk.value,
        "tier": decision.tier,
    }
    for name, value in said.items():
        good &= _note_check(checked, f"the record says the same {name}", fields.get(name) == value)
    # Of those that were too large their hash is kept, where they have one.
    hashed = hash_arguments(kept.arguments, flatten_arguments(kept.arguments)[0]) if kept.whole else kept.args_sha256
    text = ""
    if hashed:
        good &= _note_check(checked, "the record is of the same arguments", fields.get("args_sha256") == hashed)
    else:
        # Nothing speaks against it, and nothing for it.
        checked.append("the arguments cannot be compared: they were too large to be kept whole")
        good = False
    with suppress(InvalidCall):
        # Where the record hashes another form of them, this text would prove nothing.
        plain = canonical_json(kept.arguments)
        text = plain if sha256_hex(plain) == hashed else ""
    return {**found, "verified": good, "checked": checked, "arguments": text, "whole": kept.whole}


def consistency_proof(gate: Gate, old: int, origin: str) -> dict[str, object]:
    """That the newest head's log begins with its first `old` records as they were."""
    journal = log_of(gate)
    with journal.store.reading() as log:
        try:
            shard = find_shard(log, origin)
        except LockgateError as error:
            raise Problem(404, "no-such-log", error.message) from None
        note, head = newest_head(log, shard, keys.verify)
        if old > head.size:
            raise Problem(
                422, "bad-query", f"the newest head has {head.size:,} records", hint="from= is a smaller size"
            )
        hashes = prove_consistency(log, old, head.size, origin=shard.origin, verify=keys.verify)
    return {
        "from": old,
        "size": head.size,
        "origin": shard.origin,
        "root": head.root.hex(),
        "checkpoint": note.decode("utf-8", "replace"),
        "proof": [each.hex() for each in hashes],
    }
