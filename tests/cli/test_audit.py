"""`lockgate audit` on real logs: what a person and a program see, what was done to a log, and what is not shown."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from time import time
from typing import Any

import pytest

from lockgate import assemble
from lockgate.cli.audit import show as showing
from lockgate.core.journal import record
from lockgate.core.journal.merkle import leaf_hash
from lockgate.core.journal.signed_notes import COSIGNATURE, cosign_note, parse_note
from lockgate.core.vocabulary import Action, Decision, Finding, Ran, Reason, Risk
from lockgate.journal import keys
from lockgate.journal.journal import Journal
from lockgate.journal.log import Shard
from lockgate.journal.signing import Seal
from lockgate.journal.stores.sqlite import SqliteLog

Run = Callable[..., Any]
NAME = "lockgate/00c0ffee"
HOSTILE = "ana \x1b[2J\u202e\rCONTINUE"
BASE_MS = 1_800_000_000_000
DAY_S = 86_400


def a_ruling(seq: int, *, run: str = "1" * 16, deny: bool = False, **changes: Any) -> bytes:
    decision = Decision(Action.CONTINUE, 1, Reason.NO_RED_FLAGS, Risk.LOW)
    if deny:
        found = (Finding("order:send", "b0001", 0, 5),)
        judged = (Ran(2, "suspicious", "openai/small"), Ran(3, "PAUSE", "openai/large"))
        decision = Decision(
            Action.PAUSE, 3, Reason.SUPERVISOR, Risk.HIGH, findings=found, judged=judged, approval="3f9a1c20"
        )
    fields: dict[str, Any] = {
        "session": "session-1",
        "run": run,
        "seq": seq,
        "ts_ms": BASE_MS + seq * 60_000,
        "salt": os.urandom(16),
        "mode": "default",
        "tool": "send_email" if deny else "read_file",
        "args_sha256": record.sha256_hex(f"{seq}"),
        "blocks": [("b0001", "untrusted", record.sha256_hex("page"))],
        "decision": decision,
        "policy_hash": record.sha256_hex("policy"),
        "context_sha256": record.sha256_hex("context"),
    }
    return record.encode_record(record.ruling_record(**(fields | changes)))


def an_approval(seq: int, state: str, who: str = "") -> bytes:
    return record.encode_record(
        record.approval_record(
            session="session-1",
            run="1" * 16,
            seq=seq,
            ts_ms=BASE_MS + seq * 60_000,
            salt=os.urandom(16),
            id="3f9a1c20",
            state=state,
            digest="ab" * 32,
            who=who,
        )
    )


def filled() -> list[bytes]:
    """Ten records: rulings of one session, the fourth denied, and what a person said to that."""
    return [
        *(a_ruling(seq) for seq in (1, 2, 3)),
        a_ruling(4, deny=True),
        an_approval(5, "waiting"),
        an_approval(6, "granted", HOSTILE),
        a_ruling(7, decision=Decision(Action.CONTINUE, 1, Reason.APPROVED, Risk.HIGH), approved_by=HOSTILE),
        a_ruling(8, tool="rm -rf / \x1b[31m", session="ana@example.com"),
        a_ruling(9),
    ]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """This installation's journal, closed, with record 0 and nine more."""
    path = tmp_path / ".local" / "state" / "lockgate" / "journal.db"
    signer = keys.create(path.with_suffix(".key"), NAME)
    # The opening's time, like all others, is long before that of the rulings: the clock goes back nowhere.
    with Journal(SqliteLog(path), signer, verify=keys.verify, clock=lambda: BASE_MS / 1000) as journal:
        journal.append(filled()[:5], durable=False)
        journal.checkpoint()
        journal.append(filled()[5:], durable=True)
    return path


@pytest.fixture
def vkey(log: Path) -> str:
    return keys.load(log.with_suffix(".key")).key.vkey


@pytest.fixture
def head(log: Path, run: Run) -> str:
    assert run("audit", "head", "--out", "head.txt").code == 0
    return "head.txt"


def changed(log: Path, *statements: str) -> None:
    """Change the log as an attacker who can write the file; the triggers do not stop one."""
    with closing(sqlite3.connect(log)) as db:
        triggers = db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            db.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            db.execute(statement)
        if "VIEW" not in " ".join(statements):
            for _, made in triggers:
                db.execute(made)
        db.commit()
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


# verify


def test_a_sound_log_is_told_with_what_that_does_not_show(run: Run, log: Path, vkey: str) -> None:
    ended = run("audit", "verify")
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[0] == "sound      10 records, all of them as they were signed"
    assert lines[1].startswith(f"head       {NAME}, 10 records, root ")
    assert lines[2] == f"key        {vkey}"
    assert lines[3] == "kinds      2 approval, 1 opening, 7 ruling"
    assert lines[4].startswith("not shown  that the key is the right one: it was read from beside the log")
    assert "use --held or --witness" in ended.out


def test_with_the_key_and_the_newest_head_from_elsewhere_nothing_is_left_open(
    run: Run, log: Path, vkey: str, head: str
) -> None:
    for given in (vkey, "key.txt"):
        Path("key.txt").write_text(f"{vkey}\n", encoding="utf-8")
        ended = run("audit", "verify", "--key", given, "--held", head)
        assert ended.code == 0
        assert "not shown" not in ended.out
    told = json.loads(run("audit", "verify", "--key", vkey, "--held", head, "--json").out)
    assert (told["sound"], told["not_shown"], told["faults"], told["key_from"]) == (True, [], [], "given")
    assert told["heads"][0]["size"] == told["records"] == 10


def test_an_older_head_says_from_where_on_nothing_is_shown(run: Run, log: Path, vkey: str) -> None:
    with closing(sqlite3.connect(log)) as db:
        (note,) = db.execute("SELECT note FROM heads WHERE size = 6").fetchone()
    Path("older.txt").write_bytes(note)
    ended = run("audit", "verify", "--key", vkey, "--held", "older.txt")
    assert ended.code == 0
    assert f"has not rewritten or cut off {NAME} from record 6 on" in " ".join(ended.out.split())


def test_a_cut_log_is_told_as_what_was_done_to_it(run: Run, log: Path) -> None:
    changed(log, "DELETE FROM leaves WHERE number >= 7", "DELETE FROM bodies WHERE number >= 7")
    ended = run("audit", "verify")
    assert ended.code == 1
    assert ended.out.startswith("broken     ")
    assert "records 7–9 missing: the checkpoint says 10, the log has 7  (missing, step 2)" in ended.out
    told = json.loads(run("audit", "verify", "--json").out)
    assert told["sound"] is False
    assert [(each["what"], each["first"], each["last"]) for each in told["faults"]] == [("missing", 7, 9)]


TAMPERED = {
    "a verdict is flipped": (
        ["UPDATE bodies SET body = CAST(replace(CAST(body AS TEXT), 'PAUSE', 'CONTINUE') AS BLOB) WHERE number = 4"],
        "record 4 was changed: its bytes do not hash to its leaf",
    ),
    "a body becomes a text": (
        ["UPDATE bodies SET body = CAST(body AS TEXT) || ' ' WHERE number = 4"],
        "record 4 was changed",
    ),
    "a record is deleted, as retention would": (
        ["DELETE FROM bodies WHERE number = 4"],
        "deleted, and no signed prune record",
    ),
    "a leaf is deleted": (["DELETE FROM leaves WHERE number = 4"], "record 4 was changed"),
    "both are": (
        ["DELETE FROM leaves WHERE number = 4", "DELETE FROM bodies WHERE number = 4"],
        "record 4 missing: record 5 follows on 3",
    ),
    "all heads are deleted": (["DELETE FROM heads"], "has no signed head"),
    "the newest head is deleted": (["DELETE FROM heads WHERE size = 10"], "the log was rolled back"),
    "the tree it says it is": (["UPDATE shards SET edge = zeroblob(8)"], "the log says 0 records"),
    "a record too many": (
        [
            "INSERT INTO bodies SELECT shard, 10, body FROM bodies WHERE number = 9",
            "INSERT INTO leaves SELECT shard, 10, hash FROM leaves WHERE number = 9",
        ],
        "record 10 holds number 9 of run 1111111111111111 a second time",
    ),
    "a body that no leaf is for": (
        ["INSERT INTO bodies SELECT shard, 10, body FROM bodies WHERE number = 9"],
        "record 10 was changed",
    ),
    "a row before the first": (["INSERT INTO bodies VALUES (1, -5, x'00')"], "record -5 stands a second time"),
    "a body as large as the disk": (["UPDATE bodies SET body = zeroblob(5000000) WHERE number = 4"], "ended early"),
    "a table that is a view": (
        ["ALTER TABLE bodies RENAME TO other", "CREATE VIEW bodies AS SELECT * FROM other"],
        "has lost a table",
    ),
    "no shard at all": (["DELETE FROM shards"], "there is no log"),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_whatever_is_done_to_the_file_is_broken_and_never_a_bug(run: Run, log: Path, head: str, name: str) -> None:
    statements, told = TAMPERED[name]
    changed(log, *statements)
    ended = run("audit", "verify", "--held", head)
    assert ended.code == 1, ended.out
    assert told in " ".join(ended.out.split())
    # Looking never ends in a bug either.
    assert run("audit", "show").code in (0, 1, 2)


@pytest.mark.parametrize("at", [0.2, 0.5, 0.8])
def test_a_file_that_was_overwritten_in_places_is_broken_or_refused(run: Run, log: Path, head: str, at: float) -> None:
    data = bytearray(log.read_bytes())
    place = int(len(data) * at) // 4096 * 4096
    data[place : place + 4096] = bytes(range(256)) * 16
    log.write_bytes(bytes(data))
    ended = run("audit", "verify", "--held", head)
    # A page of an index or of nothing may leave the log as it was.
    assert ended.code in (0, 1, 2)
    assert (ended.code == 0) == ended.out.startswith("sound")


def test_a_rolled_back_log_is_found_by_what_was_kept(run: Run, log: Path, vkey: str, head: str) -> None:
    (index, leaf) = (9, json.loads(run("audit", "show", "9", "--json").out)["leaf_hash"])
    changed(
        log,
        "DELETE FROM leaves WHERE number >= 6",
        "DELETE FROM bodies WHERE number >= 6",
        "DELETE FROM heads WHERE size = 10",
        "UPDATE shards SET edge = signed_edge",
    )
    # The edge alone proves little: an attacker who rolls a log back makes it fit.
    with closing(sqlite3.connect(log)) as db:
        from lockgate.core.journal.merkle import Frontier

        frontier = Frontier()
        for (hash_,) in db.execute("SELECT hash FROM leaves ORDER BY number"):
            frontier.append(hash_)
        edge = frontier.to_bytes()
    seal = Seal(keys.load(log.with_suffix(".key")), keys.verify).seal_shard(Shard(1, vkey, edge, edge, 0))
    changed(log, f"UPDATE shards SET edge = x'{edge.hex()}', signed_edge = x'{edge.hex()}', seal = x'{seal.hex()}'")
    assert run("audit", "verify").code == 0
    ended = run("audit", "verify", "--held", head)
    assert ended.code == 1
    assert "the log was rolled back, records 6–9 missing: a held head says 10, the log has 6" in ended.out
    for receipt in (f"{index}:{leaf}", f"{NAME}:{index}:{leaf}"):
        ended = run("audit", "verify", "--receipt", receipt)
        assert ended.code == 1
        assert "a receipt is for record 9, the log has 6" in ended.out


def test_a_receipt_that_fits_is_enough_up_to_its_record(run: Run, log: Path, vkey: str) -> None:
    leaf = json.loads(run("audit", "show", "9", "--json").out)["leaf_hash"]
    ended = run("audit", "verify", "--key", vkey, "--receipt", f"9:{leaf}")
    assert (ended.code, "not shown" in ended.out) == (0, False)
    assert run("audit", "verify", "--receipt", f"8:{leaf}").code == 1
    assert run("audit", "verify", "--receipt", f"elsewhere:9:{leaf}").code == 1


def unsigned(log: Path) -> None:
    """One more record, by a process that was stopped before it could sign."""
    journal = Journal(SqliteLog(log), Unwilling(keys.load(log.with_suffix(".key"))), verify=keys.verify)
    journal.append([a_ruling(10)], durable=True)
    journal.close()


def test_what_a_killed_process_left_unsigned_is_a_note_and_can_be_signed(run: Run, log: Path) -> None:
    unsigned(log)
    ended = run("audit", "verify")
    said = " ".join(ended.out.split())
    assert ended.code == 0, said
    assert said.startswith("sound 11 records, all but the last 1 as they were signed")
    assert "note record 10" in said
    assert "`lockgate audit head --sign`" in said
    assert run("audit", "head").out.splitlines()[1] == "10"
    assert run("audit", "head", "--sign").out.splitlines()[1] == "11"
    ended = run("audit", "verify")
    assert (ended.code, "note" in ended.out) == (0, False)
    assert ended.out.startswith("sound      11 records, all of them as they were signed")


def test_what_an_attacker_without_the_key_put_at_the_end_is_a_fault_where_the_key_is(
    run: Run, log: Path, tmp_path: Path
) -> None:
    from lockgate.core.journal.merkle import Frontier

    unsigned(log)
    with closing(sqlite3.connect(log)) as db:
        frontier = Frontier()
        for (hash_,) in db.execute("SELECT hash FROM leaves ORDER BY number"):
            frontier.append(hash_)
        body = a_ruling(11, tool="granted_by_no_person")
        frontier.append(leaf_hash(body))
        db.execute("INSERT INTO bodies VALUES (1, 11, ?)", (body,))
        db.execute("INSERT INTO leaves VALUES (1, 11, ?)", (leaf_hash(body),))
        db.execute("UPDATE shards SET edge = ?", (frontier.to_bytes(),))
        db.commit()
    ended = run("audit", "verify")
    assert ended.code == 1
    assert "was written without its key (unsigned, step 2)" in " ".join(ended.out.split())
    assert run("audit", "head", "--sign").code == 1


class Unwilling:
    """A signer that will not sign heads."""

    def __init__(self, signer: keys.Ed25519Signer) -> None:
        self.key = signer.key
        self._signer = signer

    def sign(self, message: bytes) -> bytes:
        if message.startswith(NAME.encode()):
            raise OSError("no")
        return self._signer.sign(message)


def test_a_witness_must_have_cosigned_what_is_held(run: Run, log: Path, vkey: str, head: str) -> None:
    witness = keys.signer_from_seed("witness.example", b"w" * 32, kind=COSIGNATURE)
    other = keys.signer_from_seed("other.example", b"o" * 32, kind=COSIGNATURE)
    ended = run("audit", "verify", "--held", head, "--witness", witness.key.vkey)
    assert ended.code == 1
    assert "no held head was cosigned by the witness `witness.example`" in ended.out
    note = cosign_note(parse_note(Path(head).read_bytes()), witness.key, witness.sign, time_s=1_800_000_600)
    Path("seen.txt").write_bytes(note.to_bytes())
    ended = run("audit", "verify", "--key", vkey, "--held", "seen.txt", "--witness", witness.key.vkey)
    assert ended.code == 0
    assert f"witness    witness.example cosigned 10 records of {NAME} at " in ended.out
    assert run("audit", "verify", "--held", "seen.txt", "--witness", other.key.vkey).code == 1
    # Beside the log it counts only by the witness's own line.
    log.with_suffix(".witnessed").write_bytes(note.to_bytes())
    ended = run("audit", "verify", "--key", vkey, "--witness", witness.key.vkey)
    assert ended.code == 0
    assert "not shown  that nothing was cut off since the witness cosigned" in ended.out
    forged = cosign_note(parse_note(Path(head).read_bytes()), witness.key, other.sign, time_s=1_800_000_600)
    log.with_suffix(".witnessed").write_bytes(forged.to_bytes())
    ended = run("audit", "verify", "--witness", witness.key.vkey)
    assert ended.code == 1
    assert "does not hold" in ended.out


def test_every_head_that_an_anchor_has_appended_counts(run: Run, log: Path, head: str) -> None:
    with closing(sqlite3.connect(log)) as db:
        notes = [note for (note,) in db.execute("SELECT note FROM heads ORDER BY size")]
    whole = b"\n".join(notes)
    for data, code in ((whole, 0), (whole + notes[0][:40], 0), (b"", 1), (b"rubbish", 1), (b"x\n\n" + whole, 1)):
        Path("anchor.txt").write_bytes(data)
        assert run("audit", "verify", "--held", "anchor.txt").code == code, data[:20]


def test_the_wrong_key_is_told(run: Run, log: Path) -> None:
    other = keys.signer_from_seed(NAME, b"x" * 32).key.vkey
    ended = run("audit", "verify", "--key", other)
    assert ended.code == 1
    assert "not signed by the key" in ended.out


def test_a_log_is_verified_where_it_can_only_be_read(run: Run, log: Path, tmp_path: Path) -> None:
    before = {path: path.stat() for path in log.parent.iterdir()}
    assert run("audit", "verify", str(log)).code == 0
    assert run("audit", "show").code == 0
    # Nothing was made, and nothing touched.
    assert {path: path.stat().st_mtime_ns for path in log.parent.iterdir()} == {
        path: status.st_mtime_ns for path, status in before.items()
    }


def test_a_log_in_use_and_one_that_was_not_closed_are_read_whole(run: Run, log: Path, tmp_path: Path) -> None:
    signer = keys.load(log.with_suffix(".key"))
    with Journal(SqliteLog(log), signer, verify=keys.verify) as journal:
        journal.append([a_ruling(10)], durable=True)
        journal.checkpoint()
        assert json.loads(run("audit", "verify", "--json").out)["records"] == 11
        copies = tmp_path / "copies"
        copies.mkdir()
        for ending in ("", "-wal"):
            (copies / f"journal.db{ending}").write_bytes(Path(f"{log}{ending}").read_bytes())
    # What was written ahead is a part of it.
    assert json.loads(run("audit", "verify", str(copies / "journal.db"), "--json").out)["records"] == 11


# What is no log any more


def emptied(log: Path) -> None:
    log.write_bytes(b"")


def overwritten(log: Path) -> None:
    log.write_bytes(b"X" + log.read_bytes()[1:])


def made_anothers(log: Path) -> None:
    with closing(sqlite3.connect(log)) as db:
        db.execute("PRAGMA application_id = 7")
        db.commit()


def removed(log: Path) -> None:
    log.unlink()


@pytest.mark.parametrize("mischief", [emptied, overwritten, made_anothers, removed])
def test_a_log_that_is_none_any_more_is_broken_and_not_a_typing_mistake(
    run: Run, log: Path, head: str, tmp_path: Path, mischief: Callable[[Path], None]
) -> None:
    mischief(log)
    for argv in (["verify"], ["verify", str(log)], ["verify", "--held", head]):
        ended = run("audit", *argv)
        assert ended.code == 1, (argv, ended)
        assert "the log is gone, or something else is in its place" in " ".join(ended.out.split())
        told = json.loads(run("audit", *argv, "--json").out)
        assert (told["sound"], told["faults"][0]["what"]) == (False, "missing")
    for argv in (["head"], ["prove", "3"], ["show"], ["export"], ["keys"]):
        ended = run("audit", *argv)
        assert (ended.code, ended.out) == (1, ""), (argv, ended)
        assert ended.err.startswith("lockgate: broken: ")
    # Without a key beside it, it is just a wrong file.
    if log.exists():
        copy = tmp_path / "copy.db"
        copy.write_bytes(log.read_bytes())
        assert run("audit", "verify", str(copy)).code == 2
        assert run("audit", "verify", str(copy), "--held", head).code == 1


def test_a_damaged_log_is_broken_for_every_command(run: Run, log: Path) -> None:
    changed(log, "UPDATE heads SET note = x'00' WHERE size = 10")
    for argv in (["head"], ["prove", "3"], ["export"]):
        ended = run("audit", *argv)
        assert (ended.code, ended.err[:18]) == (1, "lockgate: broken: "), (argv, ended)


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


def test_the_cosigned_head_beside_the_log_is_held_against_it(run: Run, log: Path, vkey: str, head: str) -> None:
    witness = keys.signer_from_seed("witness.example", b"w" * 32, kind=COSIGNATURE)
    note = cosign_note(parse_note(Path(head).read_bytes()), witness.key, witness.sign, time_s=1_800_000_600)
    log.with_suffix(".witnessed").write_bytes(note.to_bytes())
    ended = run("audit", "verify", "--key", vkey)
    assert ended.code == 0
    assert f"beside     a cosigned head of 10 records of {NAME}, held against the log; --witness" in ended.out
    # Beside the log it shows what is missing, and never that nothing is.
    assert "not shown  that the holder of the key has not written another history" in ended.out
    changed(
        log,
        "DELETE FROM leaves WHERE number >= 6",
        "DELETE FROM bodies WHERE number >= 6",
        "DELETE FROM heads WHERE size = 10",
    )
    ended = run("audit", "verify")
    assert ended.code == 1
    assert "the log was rolled back, records 6–9 missing" in ended.out
    log.with_suffix(".witnessed").write_bytes(b"rubbish")
    ended = run("audit", "verify")
    assert (ended.code, "holds no head" in " ".join(ended.out.split())) == (1, True)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_not_waited_for(run: Run, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for argv in (["verify", str(tmp_path / "pipe")], ["show", "--log", str(tmp_path / "pipe")]):
        ended = run("audit", *argv)
        assert (ended.code, "is no file" in ended.err) == (2, True)


def test_a_log_without_a_shard_is_empty(run: Run, tmp_path: Path) -> None:
    """Killed between making the file and opening it."""
    path = tmp_path / ".local" / "state" / "lockgate" / "journal.db"
    keys.create(path.with_suffix(".key"), NAME)
    with closing(SqliteLog(path)) as store, store.writing(durable=True):
        pass
    for argv in (["head"], ["export"]):
        ended = run("audit", *argv)
        assert (ended.code, "the log is empty" in ended.err) == (2, True), ended
    # An emptied log beside its key is tampering.
    ended = run("audit", "keys", "rotate", "--yes")
    assert (ended.code, "the journal that it signed is gone" in ended.err) == (2, True), ended


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_log_that_short_processes_write_is_sound_all_the_while(run: Run, log: Path) -> None:
    """A process for each call, which moves what it wrote into the file when it ends: what hooks do."""
    many = [a_ruling(seq, run="2" * 16) for seq in range(1, 4001)]
    with Journal(SqliteLog(log), keys.load(log.with_suffix(".key")), verify=keys.verify) as journal:
        for at in range(0, len(many), 1000):
            journal.append(many[at : at + 1000], durable=False)
    script = f"""
import sys
sys.path[:0] = {[str(Path(__file__).parent), *sys.path]!r}
from pathlib import Path
from lockgate.journal import keys
from lockgate.journal.journal import Journal
from lockgate.journal.stores.sqlite import SqliteLog
from lockgate.core.journal import record
import os
path = Path({str(log)!r})
signer = keys.load(path.with_suffix(".key"))
print("ready", flush=True)
for seq in range(100_000):
    with Journal(SqliteLog(path), signer, verify=keys.verify) as journal:
        head = dict(run=os.urandom(8).hex(), seq=1, ts_ms=1_900_000_000_000, salt=os.urandom(16))
        fields = record.assess(
            **head, payload_sha256="ab" * 32, verdict="safe", reason="rules", by="", acted="allow", rules=[]
        )
        journal.append([record.encode(fields)] * 1, durable=True)
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as writer:
        try:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"ready\n"
            for _ in range(3):
                ended = run("audit", "verify")
                assert (ended.code, ended.err) == (0, ""), ended.out
        finally:
            writer.kill()


# Bad input


def test_mistakes_are_named_and_mended(run: Run, log: Path, vkey: str, head: str) -> None:
    Path("folder").mkdir()
    Path("text").write_text("hello", encoding="utf-8")
    Path("empty").touch()
    for argv, message in (
        (["verify", "nowhere.db"], "there is no journal in `nowhere.db`"),
        (["verify", "folder"], "`folder` is a folder"),
        (["verify", "empty"], "`empty` is empty"),
        (["verify", "text"], "`text` is neither a log nor an export of one"),
        (["verify", str(log), str(log)], "one log, or exports of one, are verified at a time"),
        (["verify", "--key", "unknown+x+y"], "`unknown+x+y` is no verifier key"),
        (["verify", "--key", "nowhere"], "no such file or directory: `nowhere`"),
        (["verify", "--held", "nowhere"], "no such file or directory: `nowhere`"),
        (["verify", "--receipt", "7"], "`7` is no receipt"),
        (["verify", "--receipt", f"x:{'ab' * 32}"], "is no receipt"),
        (["verify", "--witness", vkey], f"`{NAME}` is the key of a log, and not of a witness"),
        (["verify", "postgresql://ana:secret@host/db"], "a password does not belong on a command line"),
        (["show", "--action", "PAUZE"], "unknown action `PAUZE`"),
        (["show", "--kind", "rulings"], "unknown kind `rulings`"),
        (["show", "--since", "yesterday"], "`yesterday` is no time"),
        (["show", "11"], f"there is no record 11 in `{NAME}`"),
        (["show", "1", "--tool", "x"], "an INDEX leaves nothing to filter or follow"),
        (["show", "1", "--shard", "unknown"], "the log has no shard `unknown`"),
        (["show", "--shard", NAME], "--shard has no effect without an INDEX"),
        (["show", "--json", "--format", "ocsf"], "--json and --format cannot both be had"),
        (["prove"], "an INDEX is needed"),
        (["prove", "10"], "record 10 is not under a signed head"),
        (["prove", "1", "--key", vkey], "--key has no effect without --check"),
        (["prove", "--check", head], "--check needs --record and --key"),
        (["head", "--out", head], "there is a file `head.txt` already"),
        (["prune"], "the configuration keeps records for ever"),
        (["prune", "--days", "0", "--yes"], "records must be kept for at least one day"),
        (["prune", "--days", "99999999999999999", "--yes"], "records cannot be older than 365,250 days"),
        (["prune", "--days", "3"], "no terminal to ask on"),
        (["keys", "rotate"], "no terminal to ask on"),
        (["keys", "--yes"], "--yes has no effect without rotate"),
        (["witness"], "the following arguments are required: --log"),
        (["witness", "--log", vkey, "--listen", "80"], "`80` is no address to listen on"),
        ([], "the following arguments are required: WHAT"),
    ):
        ended = run("audit", *argv)
        assert (ended.code, ended.out) == (2, ""), argv
        assert ended.err.startswith("lockgate: error: "), argv
        assert message in ended.err, (argv, ended.err)
        assert "secret" not in ended.err


def test_without_a_journal_it_says_how_one_comes_to_be(run: Run) -> None:
    for what in (["verify"], ["show"], ["head"], ["export"], ["keys"], ["prune", "--days", "9", "--yes"]):
        ended = run("audit", *what)
        assert ended.code == 2
        assert "there is no journal in" in ended.err
        assert "hint: the first ruling of a gate" in ended.err


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="needs a user whom permissions stop")
def test_a_log_one_may_not_read_is_an_error(run: Run, log: Path) -> None:
    log.chmod(0)
    ended = run("audit", "verify")
    assert ended.code == 2
    assert "permission denied" in ended.err


# show


def test_records_are_shown_oldest_first_and_cannot_act(run: Run, log: Path) -> None:
    ended = run("audit", "show")
    assert (ended.code, ended.err) == (0, "")
    assert {ch for ch in ended.out if not ch.isprintable()} == {"\n"}
    lines = ended.out.splitlines()
    assert lines[0] == NAME
    assert [int(line.split()[0]) for line in lines[1:]] == list(range(10))
    assert re.search(r"\bPAUSE +send_email  supervisor, tier 3, high risk: order:send  session-1$", lines[5])
    assert r"3f9a1c20 granted by ana \x1b[2J\u{202e}\rCONTINUE" in lines[7]
    # Neither a name that is none, nor an address.
    assert "example.com" not in ended.out
    assert "rm -rf" not in ended.out


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        (["--action", "PAUSE"], [4]),
        (["--action", "pause"], [4]),
        (["--reason", "approved"], [7]),
        (["--rule", "order:send"], [4]),
        (["--tool", "send_email"], [4]),
        (["--tool", "rm -rf / \x1b[31m"], [8]),
        (["--session", "ana@example.com"], [8]),
        (["--session", "sha256:" + record.sha256_hex("ana@example.com")], [8]),
        (["--kind", "approval"], [5, 6]),
        (["--kind", "opening"], [0]),
        (["--limit", "3"], [7, 8, 9]),
        (["--limit", "0"], list(range(10))),
        (["--kind", "ruling", "--limit", "2"], [8, 9]),
        (["--since", "2027-01-15T08:06+00:00"], [6, 7, 8, 9]),
        (["--until", "2027-01-15T08:02+00:00"], [0, 1]),
        (["--session", "unknown"], []),
    ],
)
def test_filters_show_what_fits_and_nothing_else(run: Run, log: Path, argv: list[str], shown: list[int]) -> None:
    ended = run("audit", "show", "--json", *argv)
    found = [json.loads(line) for line in ended.out.splitlines()]
    assert [each["index"] for each in found] == shown
    assert {each["shard"] for each in found} <= {NAME}
    drawn = run("audit", "show", *argv).out
    assert [int(line.split()[0]) for line in drawn.splitlines()[1:]] == shown
    assert shown or drawn == "no such record\n"


def test_as_json_a_record_is_what_was_signed(run: Run, log: Path) -> None:
    for line in run("audit", "show", "--json").out.splitlines():
        assert line.isascii()
        value = json.loads(line)
        assert leaf_hash(record.encode_record(value["record"])).hex() == value["leaf_hash"]


def test_one_record_is_shown_with_all_that_it_holds(run: Run, log: Path) -> None:
    ended = run("audit", "show", "4", "7")
    assert ended.code == 0
    for field in record.KINDS["ruling"]:
        assert f"\n  {'time' if field == 'ts_ms' else field} " in ended.out
    assert r"approved_by     ana \x1b[2J\u{202e}\rCONTINUE" in ended.out
    assert "b0001 untrusted " in ended.out


def test_only_the_end_of_a_long_log_is_read(log: Path) -> None:
    class Counting:
        """A log of a million records, of which it counts those it hands out; a forger's stands far behind."""

        read = 0

        def shards(self) -> list[Any]:
            from lockgate.journal.log import Shard

            return [Shard(1, "x+y+z", b"\xff" * 8, b"", 0)]

        def bodies(self, shard: int, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
            for index in (*range(max(0, start), min(1_000_000, stop)), 2**60):
                if start <= index < stop:
                    self.read += 1
                    yield index, b"{}"

        def leaves(self, shard: int, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
            return ((at, leaf_hash(body)) for at, body in self.bodies(shard, start, stop))

    view = Counting()
    found = showing.newest_records(view, showing.RecordFilter(), 5)  # type: ignore[arg-type]
    assert [each.at for each in found] == [999_996, 999_997, 999_998, 999_999, 2**60]
    assert view.read < 6_000


CHANGED_BODY = "UPDATE bodies SET body = (SELECT body FROM bodies WHERE number = 3) WHERE number = 4"


def test_a_changed_record_is_never_shown_as_if_it_were_whole(run: Run, log: Path) -> None:
    leaf = json.loads(run("audit", "show", "4", "--json").out)["leaf_hash"]
    events = run("audit", "show", "--format", "ocsf").out.splitlines()
    changed(log, CHANGED_BODY)
    for argv in ([], ["--action", "PAUSE"], ["--json"], ["4"], ["4", "--json"], ["--format", "ocsf"]):
        ended = run("audit", "show", *argv)
        assert ended.code == 1, argv
        assert ended.err == "lockgate: warning: 1 record changed since recording; see lockgate audit verify\n"
        if "--json" in argv:
            (told,) = [each for each in map(json.loads, ended.out.splitlines()) if each["index"] == 4]
            wrong = "its bytes do not hash to its leaf"
            assert told == {"shard": NAME, "index": 4, "leaf_hash": leaf, "changed": True, "wrong": wrong}
        elif "ocsf" in argv:
            assert ended.out.splitlines() == [each for each in events if leaf not in each] != events
        else:
            assert "was changed: its bytes do not hash to its leaf" in ended.out


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


def test_what_cannot_be_read_is_shown_whatever_was_asked_for(run: Run, log: Path) -> None:
    leaf = leaf_hash(b"\x1b[2J").hex()
    changed(
        log,
        "UPDATE bodies SET body = x'1b5b324a' WHERE number = 4",
        f"UPDATE leaves SET hash = x'{leaf}' WHERE number = 4",
    )
    for argv in ([], ["--action", "PAUSE"], ["--json"], ["4"], ["--format", "ocsf"]):
        ended = run("audit", "show", *argv)
        assert ended.code == 1
        assert ended.err == "lockgate: warning: 1 record cannot be read; see lockgate audit verify\n"
        assert "\x1b" not in ended.out
        assert argv == ["--format", "ocsf"] or "one JSON object" in ended.out


def test_following_goes_on_with_what_is_recorded_next(run: Run, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    signer = keys.load(log.with_suffix(".key"))
    naps: list[float] = []

    def meanwhile(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 3:
            raise KeyboardInterrupt
        with Journal(SqliteLog(log), signer, verify=keys.verify) as journal:
            journal.append([a_ruling(9 + len(naps), deny=True), a_ruling(20 + len(naps))], durable=True)

    monkeypatch.setattr(showing, "sleep", meanwhile)
    ended = run("audit", "show", "--follow", "--action", "PAUSE")
    assert (ended.code, ended.err) == (130, "lockgate: interrupted\n")
    assert [int(line.split()[0]) for line in ended.out.splitlines()[1:]] == [4, 10, 12]


# head, prove, export


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


# prune and keys


def test_rotated_keys_are_followed_from_the_first(run: Run, log: Path, vkey: str, head: str) -> None:
    ended = run("audit", "keys", "rotate", "--yes", "--who", HOSTILE, "--json")
    assert (ended.code, ended.err) == (0, "")
    told = json.loads(ended.out)
    assert told["vkey"].startswith(f"{NAME}.2+")
    assert keys.load(Path(told["key_file"])).key.vkey == told["vkey"]
    Path("last.txt").write_text(told["last_head"], encoding="utf-8")
    listed = [json.loads(line) for line in run("audit", "keys", "--json").out.splitlines()]
    assert [(each["vkey"], each["records"], each["state"]) for each in listed] == [
        (vkey, 11, "closed"),
        (told["vkey"], 1, "open"),
    ]
    assert run("audit", "keys").out == f"{vkey}\n  11 signed records, closed\n{told['vkey']}\n  1 signed record, open\n"
    # The gate of this installation goes on under the new key.
    with assemble.log_from_settings(assemble.settings_from_environment()) as journal:
        (receipt,) = journal.append([a_ruling(10)], durable=True)
        journal.checkpoint()
    assert (receipt.origin, receipt.index) == (f"{NAME}.2", 1)
    ended = run("audit", "verify", "--key", vkey, "--held", head, "--held", "last.txt")
    assert ended.code == 0, ended.out
    assert f"has not rewritten or cut off {NAME}.2 from record 0 on" in " ".join(ended.out.split())
    receipts = ["--receipt", f"{NAME}.2:1:{receipt.leaf_hash.hex()}"]
    assert run("audit", "verify", "--key", vkey, "--held", "last.txt", *receipts).code == 0
    ended = run("audit", "verify", "--key", told["vkey"])
    assert (ended.code, "is a later key of this log" in ended.err) == (2, True)
    assert run("audit", "show", "1").out.startswith(f"{NAME}.2 1\n")
    assert run("audit", "show", "--shard", NAME, "1").out.startswith(f"{NAME} 1\n")
    # Every shard is a file of its own.
    ended = run("audit", "export")
    assert (ended.code, ended.out) == (2, "")
    assert run("audit", "export", "--out", "out").code == 0
    assert run("audit", "verify", "out/0001.export", "out/0002.export", "--key", vkey).code == 0
    assert run("audit", "verify", "out/0002.export", "out/0001.export", "--key", vkey).code == 1
    assert run("audit", "export", "--shard", NAME).out.startswith("lockgate journal export/1\n")
    assert {ch for ch in run("audit", "show").out if not ch.isprintable()} == {"\n"}


def test_a_rotation_that_fails_leaves_no_key_behind(run: Run, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> bytes:
        from lockgate.core.errors import JournalUnavailable

        raise JournalUnavailable("the disk is full")

    monkeypatch.setattr(Journal, "rotate", full)
    before = sorted(log.parent.iterdir())
    ended = run("audit", "keys", "rotate", "--yes")
    assert (ended.code, ended.err) == (2, "lockgate: error: the disk is full\n")
    assert [path for path in sorted(log.parent.iterdir()) if ".key" in path.name] == [
        path for path in before if ".key" in path.name
    ]


def test_pruning_deletes_contents_says_so_and_leaves_the_log_sound(run: Run, log: Path, vkey: str) -> None:
    now_s = time()
    log.unlink()
    signer = keys.load(log.with_suffix(".key"))
    with Journal(SqliteLog(log), signer, verify=keys.verify, clock=lambda: now_s - 4_000 * DAY_S) as journal:
        for days, seqs in ((4_000, range(1, 6)), (100, range(6, 10))):
            at_ms = int((now_s - days * DAY_S) * 1000)
            journal.append([a_ruling(seq, ts_ms=at_ms + seq) for seq in seqs], durable=False)
            journal.checkpoint()
    leaf = json.loads(run("audit", "show", "4", "--json").out)["leaf_hash"]
    assert run("audit", "head", "--out", "before.txt").code == 0
    ended = run("audit", "prune", "--days", "5000", "--yes")
    assert (ended.code, ended.out) == (0, "nothing is older than 5000 days\n")
    ended = run("audit", "prune", "--days", "3000", "--yes", "--who", "ana")
    assert ended.out == f"records below 6 of {NAME} were deleted; their hashes stay\n"
    assert run("audit", "show", "4").err.startswith("lockgate: error: record 4 was deleted\n")
    assert "records below 6 of lockgate/00c0ffee deleted by ana" in run("audit", "show", "--kind", "prune").out
    ended = run("audit", "verify", "--key", vkey, "--held", "before.txt", "--receipt", f"4:{leaf}")
    assert ended.code == 0, ended.out
    # Record 0 opens the shard, and stays.
    assert "11 records, all of them as they were signed; the contents of 5 were deleted, as they say" in ended.out
    assert json.loads(run("audit", "verify", "--json").out)["deleted"] == 5
    assert run("audit", "prove", "4").code == 0
    ended = run("audit", "prove", "4", "--out", "4.proof", "--record", "4.json")
    assert (ended.code, Path("4.proof").exists()) == (2, False)
    told = json.loads(run("audit", "prune", "--days", "30", "--yes", "--json").out)
    assert told == {"retention_days": 30, "deleted_below": {NAME: 10}}
    assert run("audit", "verify", "--key", vkey, "--held", "before.txt", "--receipt", f"4:{leaf}").code == 0
    assert len(run("audit", "show", "--kind", "prune", "--json").out.splitlines()) == 2


def test_it_needs_the_key_to_change_the_log(run: Run, log: Path) -> None:
    log.with_suffix(".key").unlink()
    for argv in (["prune", "--days", "3", "--yes"], ["keys", "rotate", "--yes"]):
        ended = run("audit", *argv)
        assert ended.code == 2
        assert "there is no key in" in ended.err
    assert not log.with_suffix(".key").exists()


# On a terminal, and as a process


def test_a_person_sees_colour_and_progress_and_nothing_that_acts(
    log: Path, spawn: Callable[..., subprocess.Popen[bytes]]
) -> None:
    pty = pytest.importorskip("pty", reason="needs pseudo-terminals")
    for argv, stream in ((["verify"], "stderr"), (["show"], "stdout")):
        ours, theirs = pty.openpty()
        streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, stream: theirs}
        process = spawn("audit", *argv, **streams)
        os.close(theirs)
        seen = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:
                break
            if not piece:
                break
            seen += piece
        os.close(ours)
        assert process.wait(timeout=60) == 0
        text = seen.decode()
        if stream == "stderr":
            assert "verifying" in text
        else:
            plain = re.sub(r"\x1b\[[\d;]*m", "", text)
            assert plain != text
            assert "\x1b" not in plain


def test_a_reader_that_goes_away_ends_it_quietly(log: Path, spawn: Callable[..., subprocess.Popen[bytes]]) -> None:
    for argv in (["show", "--json"], ["export"]):
        there, ours = os.pipe()
        os.close(there)
        process = spawn("audit", *argv, stdout=ours, stderr=subprocess.PIPE)
        os.close(ours)
        _, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (141, b""), argv


def test_help_of_each_teaches(run: Run) -> None:
    from lockgate.cli.main import make_parsers

    names = [name.split()[1] for name in make_parsers(["audit"]) if name.startswith("audit ")]
    assert names == ["verify", "show", "head", "prove", "export", "prune", "keys", "witness"]
    for name in names:
        ended = run("audit", name, "--help")
        assert (ended.code, ended.err) == (0, "")
        assert ended.out.startswith(f"usage: lockgate audit {name}")
        assert f"$ lockgate audit {name}" in ended.out
        # The page of all of them names it with what it takes.
        assert f"lockgate audit {name}" in run("audit", "--help").out


def test_the_installation_is_not_asked_where_the_log_is_named(run: Run, log: Path, vkey: str) -> None:
    """An auditor has no configuration of ours, or one that is broken."""
    config = Path(os.environ["XDG_CONFIG_HOME"]) / "lockgate"
    config.mkdir(parents=True)
    (config / "config.toml").write_text("nonsense = [", encoding="utf-8")
    assert run("audit", "verify").code == 2
    assert run("audit", "verify", str(log), "--key", vkey).code == 0
    assert run("audit", "show", "--log", str(log)).code == 0


def test_verifying_loads_no_gate_and_no_network() -> None:
    code = "import sys; from lockgate.cli.main import main; main(['audit', 'verify', 'nowhere']);print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert loaded.isdisjoint({"hyperscan", "httpx2", "asyncio", "lockgate.gate.gate", "lockgate.assemble"})
