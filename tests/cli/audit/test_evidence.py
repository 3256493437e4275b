"""`lockgate audit head`, `prove` and `export`: what an outsider gets."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from audited_logs import CHANGED_BODY, NAME, changed

from lockgate.journal import keys, record
from lockgate.journal.signed_notes import COSIGNATURE, cosign_note, parse_note

Run = Callable[..., Any]


def test_a_proof_is_not_handed_out_with_bytes_that_it_does_not_fit(run: Run, log: Path) -> None:
    changed(
        log,
        "UPDATE bodies SET number = 99 WHERE number = 4",
        "UPDATE bodies SET number = 4 WHERE number = 5",
        "UPDATE bodies SET number = 5 WHERE number = 99",
    )
    ended = run("audit", "prove", "5", "--out", "5.proof", "--record", "5.json")
    assert ended.code == 1
    assert "record 5 was changed: its bytes do not hash to its leaf" in ended.err
    assert not Path("5.json").exists()
    assert not Path("5.proof").exists()
    # The hash is still the one that was signed.
    assert run("audit", "prove", "5", "--out", "5.proof").code == 0


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        (CHANGED_BODY, "record 4 was changed: its bytes do not hash to its leaf"),
        ("DELETE FROM leaves WHERE number = 4", "record 4 was changed"),
        ("DELETE FROM leaves WHERE number = 9", "record 9 was changed"),
        ("UPDATE leaves SET number = 20 WHERE number = 9", "record 9 was changed"),
    ],
)
def test_a_changed_log_is_not_exported(run: Run, log: Path, statement: str, told: str) -> None:
    changed(log, statement)
    for argv in ([], ["--out", "out"]):
        ended = run("audit", "export", *argv)
        assert (ended.code, ended.out) == (1, "")
        assert told in ended.err
        assert not Path("out").exists()


def test_a_log_with_records_cut_out_is_not_exported(run: Run, log: Path) -> None:
    for numbers, told in (("> 7", "record 8 is missing: the head says 10"), ("= 5", "record 5 is missing")):
        changed(log, *(f"DELETE FROM {table} WHERE number {numbers}" for table in ("leaves", "bodies")))
        ended = run("audit", "export")
        assert (ended.code, ended.out, told in ended.err) == (1, "", True), ended


def test_a_proof_holds_for_its_record_and_for_no_other(run: Run, log: Path, vkey: str) -> None:
    for index in (0, 4, 9):
        argv = ["--out", f"{index}.proof", "--record", f"{index}.json"]
        assert run("audit", "prove", str(index), *argv).code == 0
        ended = run("audit", "prove", "--check", f"{index}.proof", "--record", f"{index}.json", "--key", vkey)
        assert (ended.code, ended.out) == (0, f"proved: this is record {index} of 10 in {NAME}\n")
    assert record.parse_record(Path("4.json").read_bytes())["action"] == "PAUSE"
    check = ["audit", "prove", "--check", "4.proof", "--key", vkey]
    assert run(*check, "--record", "9.json").code == 1
    Path("4.json").write_bytes(Path("4.json").read_bytes().replace(b"PAUSE", b"CONTINUE"))
    ended = run(*check, "--record", "4.json")
    assert ended.code == 1
    assert ended.out.startswith("not proved: the proof does not lead from the record to the root")
    other = keys.signer_from_seed(NAME, b"x" * 32).key.vkey
    assert run("audit", "prove", "--check", "9.proof", "--record", "9.json", "--key", other).code == 1
    assert run("audit", "prove", "--check", "9.json", "--record", "9.json", "--key", vkey).code == 1


def test_a_proof_needs_the_witness_that_is_asked_for(run: Run, log: Path, vkey: str) -> None:
    witness = keys.signer_from_seed("witness.example", b"w" * 32, kind=COSIGNATURE)
    assert run("audit", "prove", "4", "--out", "4.proof", "--record", "4.json").code == 0
    check = ["audit", "prove", "--record", "4.json", "--key", vkey, "--witness", witness.key.vkey, "--check"]
    ended = run(*check, "4.proof")
    assert ended.code == 1
    assert "the witness `witness.example` has not cosigned it" in ended.out
    top, gap, note = Path("4.proof").read_bytes().partition(b"\n\n")
    seen = cosign_note(parse_note(note), witness.key, witness.sign, time_s=1).to_bytes()
    Path("seen.proof").write_bytes(top + gap + seen)
    assert run(*check, "seen.proof").code == 0


def test_exports_are_verified_like_the_log(run: Run, log: Path, vkey: str, head: str) -> None:
    ended = run("audit", "export", "--out", "out")
    assert ended.code == 0
    assert ended.out == f"{os.path.join('out', '0001.export')}: 10 records of {NAME}\nkey: {vkey}\n"
    verify = ["audit", "verify", "out/0001.export", "--held", head]
    assert run(*verify, "--key", vkey).code == 0
    ended = run(*verify)
    assert (ended.code, ended.err.splitlines()[0]) == (2, "lockgate: error: the public key is needed")
    data = Path("out/0001.export").read_bytes()
    Path("cut.export").write_bytes(b"".join(data.splitlines(keepends=True)[:-3]))
    ended = run("audit", "verify", "cut.export", "--key", vkey)
    assert ended.code == 1
    assert "records 7–9 missing: the checkpoint says 10, the log has 7" in ended.out
    assert run("audit", "verify", "-", "--key", vkey, stdin=data).code == 0
    assert run("audit", "verify", "-", "--key", vkey, stdin=data[:-1]).code == 1
    Path("long.export").write_bytes(data[:-1] + b"x" * 200_000)
    assert run("audit", "verify", "long.export", "--key", vkey).code == 1
    # Private to this user, and never over another file.
    assert os.name != "posix" or Path("out/0001.export").stat().st_mode & 0o077 == 0
    assert run("audit", "export", "--out", "out").code == 2
    assert Path("out/0001.export").read_bytes() == data
