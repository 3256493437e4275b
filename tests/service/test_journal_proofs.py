"""Proofs that a ruling is in the journal as it was made."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from asking import Asking, fits

from lockgate.journal.merkle import verify_inclusion
from lockgate.service import journal_proofs as proofs
from lockgate.sessions import Host


def test_a_ruling_s_proof_can_be_verified_by_every_caller(ask: Asking, hijacked: dict[str, Any]) -> None:
    proof = fits("GET /v1/decisions/{decision}/proof", ask("GET", f"/v1/decisions/{hijacked['id']}/proof"))
    assert proof["verified"] is True
    assert not [line for line in proof["checked"] if line.startswith("NOT")]
    leaf = sha256(b"\0" + proof["record"].encode()).digest()
    assert leaf.hex() == proof["leaf_hash"] == hijacked["receipt"]["leaf_hash"]
    hashes = [bytes.fromhex(each) for each in proof["proof"]]
    assert verify_inclusion(proof["index"], proof["size"], leaf, hashes, bytes.fromhex(proof["root"]))
    assert sha256(proof["arguments"].encode()).hexdigest() in proof["record"]


def test_a_ruling_that_was_changed_in_the_store_is_not_verified(
    ask: Asking, hijacked: dict[str, Any], tmp_path: Path
) -> None:
    import sqlite3

    with sqlite3.connect(tmp_path / "state" / "sessions.db") as db:
        db.execute("UPDATE entries SET detail = replace(detail, 'evil.example', 'good.example') WHERE id IS NOT NULL")
    db.close()
    proof = ask("GET", f"/v1/decisions/{hijacked['id']}/proof").json
    assert proof["verified"] is False
    assert "NOT: the record is of the same arguments" in proof["checked"]


def test_the_journal_s_head_and_proofs_are_handed_out(ask: Asking, hijacked: dict[str, Any]) -> None:
    ask("GET", f"/v1/decisions/{hijacked['id']}/proof")
    head = fits("GET /v1/journal", ask("GET", "/v1/journal"))
    assert head["state"] == "sound"
    assert head["checkpoint"].startswith(f"{head['origin']}\n{head['size']}\n")
    proof = fits("GET /v1/journal/proof", ask("GET", "/v1/journal/proof?index=0"))
    assert proof["verified"] is True
    grown = fits("GET /v1/journal/consistency", ask("GET", "/v1/journal/consistency?from=1"))
    assert grown["from"] == 1
    assert grown["size"] >= head["size"]


def test_arguments_that_were_kept_in_part_are_told_and_compared_by_their_hash(ask: Asking, house: Host) -> None:
    # More than is kept, in a body that is taken: a character of two bytes stands for six of the store's.
    body = {"tool": "write_file", "arguments": {"path": "a", "content": "é" * 400_000}}
    data = json.dumps(body, ensure_ascii=False).encode()
    ruled = ask("POST", "/v1/sessions/s1/checks", data=data).json
    one = fits("GET /v1/decisions/{decision}", ask("GET", f"/v1/decisions/{ruled['id']}"))
    assert one["whole"] is False
    assert len(one["arguments"]["content"]) < 400_000
    proof = fits("GET /v1/decisions/{decision}/proof", ask("GET", f"/v1/decisions/{ruled['id']}/proof"))
    assert proof["verified"], proof["checked"]
    assert (proof["whole"], proof["arguments"]) == (False, "")
    kept = house.decision(ruled["id"])
    assert kept is not None
    for hashed, said in (("", "cannot be compared"), ("0" * 64, "NOT: the record is of the same arguments")):
        found = proofs.decision_proof(house.gate, replace(kept, args_sha256=hashed))
        assert not found["verified"]
        assert said in str(found["checked"])
        assert ("NOT" in str(found["checked"])) == bool(hashed)
    small = ask("POST", "/v1/sessions/s1/checks", {"tool": "read", "arguments": {"a": 1}}).json
    assert ask("GET", f"/v1/decisions/{small['id']}").json["whole"] is True
    proof = ask("GET", f"/v1/decisions/{small['id']}/proof").json
    assert (proof["verified"], proof["whole"], proof["arguments"]) == (True, True, '{"a":1}')
