"""The specification's vectors are what the code does, and its instructions work."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from base64 import b64decode
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from lockgate.core.errors import InvalidNote, InvalidRecord
from lockgate.journal import keys
from lockgate.journal.exports import read_export
from lockgate.journal.log_audit import AuditedShard, FaultKind, audit
from lockgate.journal.merkle import leaf_hash, root_of, verify_consistency, verify_inclusion
from lockgate.journal.record import KINDS, OPTIONAL, parse_record
from lockgate.journal.signed_notes import (
    open_checkpoint,
    parse_note,
    parse_proof,
    parse_vkey,
    verify_proof,
    verify_signatures,
)

SPEC = Path(__file__).resolve().parents[2] / "spec"
TEXT = (SPEC / "journal.md").read_text(encoding="utf-8")


def vectors(name: str) -> Any:
    return json.loads((SPEC / "vectors" / f"{name}.json").read_text(encoding="utf-8"))


def data_of(vector: dict[str, str]) -> bytes:
    return vector["text"].encode() if "text" in vector else b64decode(vector["base64"])


RECORDS, TREE, NOTES, LOGS = (vectors(name) for name in ("records", "tree", "notes", "logs"))
KEY = parse_vkey(NOTES["log"]["vkey"])


def maker() -> ModuleType:
    found = importlib.util.spec_from_file_location("make_vectors", SPEC / "make.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_the_vectors_are_what_is_made() -> None:
    made = maker().made()
    assert {path.name: path.read_text(encoding="utf-8") for path in (SPEC / "vectors").iterdir()} == made


# Records


def test_every_kind_is_shown() -> None:
    assert {parse_record(data_of(each))["kind"] for each in RECORDS["valid"]} == KINDS.keys()


def test_valid_records() -> None:
    for each in RECORDS["valid"]:
        parse_record(data_of(each))
        assert leaf_hash(data_of(each)).hex() == each["leaf"], each["name"]


@pytest.mark.parametrize("vector", RECORDS["invalid"], ids=lambda each: each["name"])
def test_invalid_records(vector: dict[str, str]) -> None:
    assert data_of(vector) not in [data_of(each) for each in RECORDS["valid"]]
    with pytest.raises(InvalidRecord):
        parse_record(data_of(vector))


# Tree


LEAVES = [bytes.fromhex(each) for each in TREE["leaves"]]
ROOTS = [bytes.fromhex(each) for each in TREE["roots"]]


def proof_of(vector: dict[str, Any]) -> list[bytes]:
    return [bytes.fromhex(each) for each in vector["proof"]]


def included(each: dict[str, Any]) -> bool:
    leaf = LEAVES[each.get("leaf", each["index"])]
    return verify_inclusion(each["index"], each["size"], leaf, proof_of(each), ROOTS[each["size"]])


def consistent(each: dict[str, Any]) -> bool:
    return verify_consistency(each["old"], each["size"], ROOTS[each["old"]], ROOTS[each["size"]], proof_of(each))


def test_roots_and_proofs() -> None:
    assert [root_of(LEAVES[:size]) for size in range(len(ROOTS))] == ROOTS
    assert all(map(included, TREE["inclusion"]))
    assert all(map(consistent, TREE["consistency"]))


def test_bad_proofs() -> None:
    assert [each["name"] for each in TREE["bad_inclusion"] if included(each)] == []
    assert [each["name"] for each in TREE["bad_consistency"] if consistent(each)] == []


# Notes


def test_keys_heads_and_proofs() -> None:
    for who in ("log", "witness"):
        key = parse_vkey(NOTES[who]["vkey"])
        assert key.id.hex() == NOTES[who]["key_id"]
        assert keys.signer_from_seed(key.name, bytes.fromhex(NOTES[who]["seed"]), kind=key.kind).key == key
    head = open_checkpoint(data_of(NOTES["checkpoint"]), KEY, keys.verify)
    assert (head.origin, head.size, head.root.hex()) == tuple(
        NOTES["checkpoint"][name] for name in ("origin", "size", "root")
    )
    witness = parse_vkey(NOTES["witness"]["vkey"])
    seen = verify_signatures(parse_note(data_of(NOTES["cosigned"])), [KEY, witness], keys.verify)
    assert seen == {KEY: 0, witness: NOTES["cosigned"]["time_s"]}
    leaf = bytes.fromhex(NOTES["proof"]["leaf"])
    assert verify_proof(parse_proof(data_of(NOTES["proof"])), leaf, KEY, keys.verify) == head


@pytest.mark.parametrize("vector", NOTES["bad_checkpoints"], ids=lambda each: each["name"])
def test_bad_heads(vector: dict[str, str]) -> None:
    with pytest.raises(InvalidNote):
        open_checkpoint(data_of(vector), KEY, keys.verify)


@pytest.mark.parametrize("vector", NOTES["bad_proofs"], ids=lambda each: each["name"])
def test_bad_proofs_of_inclusion(vector: dict[str, str]) -> None:
    assert data_of(vector) != data_of(NOTES["proof"])
    with pytest.raises(InvalidNote):
        verify_proof(parse_proof(data_of(vector)), bytes.fromhex(NOTES["proof"]["leaf"]), KEY, keys.verify)


# Logs


@pytest.mark.parametrize("vector", LOGS, ids=lambda each: each["name"])
def test_whole_logs(vector: dict[str, Any]) -> None:
    checkpoint, rows = read_export(vector["export"].encode().splitlines(keepends=True))
    held = [vector["held"].encode()] if vector["held"] else []
    report = audit([AuditedShard(rows, [checkpoint])], KEY, keys.verify, held=held)
    assert report.sound is vector["sound"], report.faults
    assert vector["sound"] or vector["says"] in [fault.what for fault in report.faults], report.faults


# The text


def test_the_text_names_every_kind_with_its_fields_and_every_finding() -> None:
    head = {"v", "kind", "run", "seq", "ts_ms", "salt"}
    rows = dict(re.findall(r"^\| `(\w+)` \| (`.*) \|$", TEXT, re.MULTILINE))
    named = {kind: rows[kind].partition("[")[::2] for kind in KINDS}
    assert {kind: set(re.findall(r"`(\w+)`", always)) for kind, (always, _) in named.items()} == {
        kind: fields.keys() - head for kind, fields in KINDS.items()
    }
    assert {kind: set(re.findall(r"`(\w+)`", if_known)) for kind, (_, if_known) in named.items() if if_known} == {
        kind: set(fields) for kind, fields in OPTIONAL.items()
    }
    assert all(f"`{what.value}`" in TEXT for what in FaultKind)


def block(language: str) -> str:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)[0]


def by_hand(folder: Path, export: str) -> subprocess.CompletedProcess[str]:
    (folder / "export").write_bytes(export.encode())
    command = [sys.executable, "-I", "-c", block("python"), "export"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_a_log_is_verified_by_hand_as_the_text_says(tmp_path: Path) -> None:
    run = by_hand(tmp_path, LOGS[0]["export"])
    assert (run.returncode, run.stderr) == (0, "")
    openssl = shutil.which("openssl")
    if openssl is None or not subprocess.check_output([openssl, "version"], text=True).startswith("OpenSSL 3"):
        pytest.skip("the signature's half of it needs OpenSSL 3")
    environment = {"VKEY": KEY.vkey, "PATH": f"{Path(openssl).parent}:/usr/bin:/bin"}
    for head, status in ((None, 0), (b"another text\n", 1)):
        if head is not None:
            (tmp_path / "head.txt").write_bytes(head)
        done = subprocess.run(
            ["sh", "-c", block("sh")], cwd=tmp_path, env=environment, capture_output=True, check=False
        )
        assert done.returncode == status, done


@pytest.mark.parametrize(
    "name", ["the end cut off", "two records exchanged", "a verdict turned round", "a record twice"]
)
def test_by_hand_a_changed_log_fails_too(tmp_path: Path, name: str) -> None:
    run = by_hand(tmp_path, next(each["export"] for each in LOGS if each["name"] == name))
    assert run.returncode == 1
    assert "AssertionError" in run.stderr
