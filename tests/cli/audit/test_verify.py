"""`lockgate audit verify`: what was done to a log, and what a sound one does not prove."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from audited_logs import NAME, a_ruling, changed, unsigned

from lockgate.journal import keys
from lockgate.journal.journal import Journal
from lockgate.journal.log import Shard
from lockgate.journal.merkle import leaf_hash
from lockgate.journal.signed_notes import COSIGNATURE, cosign_note, parse_note
from lockgate.journal.signing import Seal
from lockgate.journal.stores.sqlite import SqliteLog

Run = Callable[..., Any]


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


@pytest.mark.skipif(os.name != "posix", reason="files have no such modes there")
@pytest.mark.parametrize(("mode", "code"), [(0o666, 1), (0o660, 1), (0o602, 1), (0o600, 0), (0o644, 0)])
def test_a_log_that_others_may_write_to_is_not_sound(run: Run, log: Path, mode: int, code: int) -> None:
    log.chmod(mode)
    assert run("audit", "verify").code == code
    faults = json.loads(run("audit", "verify", "--json").out)["faults"]
    assert [each["what"] for each in faults] == ["writable"] * code


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
        from lockgate.journal.merkle import Frontier

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
    from lockgate.journal.merkle import Frontier

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
from lockgate.journal import record
import os
path = Path({str(log)!r})
signer = keys.load(path.with_suffix(".key"))
print("ready", flush=True)
for seq in range(100_000):
    with Journal(SqliteLog(path), signer, verify=keys.verify) as journal:
        head = dict(run=os.urandom(8).hex(), seq=1, ts_ms=1_900_000_000_000, salt=os.urandom(16))
        fields = record.assess_record(
            **head, payload_sha256="ab" * 32, verdict="safe", reason="rules", by="", acted="allow", rules=[]
        )
        journal.append([record.encode_record(fields)], durable=True)
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as writer:
        try:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"ready\n"
            for _ in range(3):
                ended = run("audit", "verify")
                assert (ended.code, ended.err) == (0, ""), ended.out
            assert writer.poll() is None
        finally:
            writer.kill()


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


def test_verifying_loads_no_gate_and_no_network() -> None:
    code = "import sys; from lockgate.cli.main import main; main(['audit', 'verify', 'nowhere']);print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert loaded.isdisjoint({"hyperscan", "httpx2", "asyncio", "lockgate.gate.gate", "lockgate.assemble"})


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no FIFOs")
def test_a_pipe_beside_the_log_is_a_fault_that_no_verification_waits_for(log: Path, tmp_path: Path) -> None:
    names = ("journal.witnessed", "journal.db-wal", "journal.db-shm", "journal.db-journal")
    logs = {(name, linked): tmp_path / f"{name}-{linked}" / log.name for name in names for linked in (False, True)}
    for (name, linked), copy in logs.items():
        shutil.copytree(log.parent, copy.parent)
        place = copy.with_name(name)
        pipe = copy.with_name("pipe") if linked else place
        os.mkfifo(pipe)
        if linked:
            place.symlink_to(pipe)
    # One process for all: only a process can be ended while SQLite waits for a pipe.
    verify_all = "[print(main(['audit', 'verify', log])) for log in sys.argv[1:]]"
    code = f"import sys; from lockgate.cli.main import main; {verify_all}"
    command = [sys.executable, "-c", code, *map(str, logs.values())]
    done = subprocess.run(command, capture_output=True, check=True, text=True, timeout=60)
    told = re.split(r"^1$", done.stdout, flags=re.MULTILINE)
    assert len(told) == len(logs) + 1
    for (name, _), out in zip(logs, told, strict=False):
        assert "not a regular file" in out.replace("\n           ", " ")
        assert name in out.replace("\n           ", "")


@pytest.fixture
def older(log: Path) -> str:
    """A head that was kept when the log had six records."""
    with closing(sqlite3.connect(log)) as db:
        (note,) = db.execute("SELECT note FROM heads WHERE size = 6").fetchone()
    Path("older.txt").write_bytes(note)
    return "older.txt"


def test_after_a_kept_head_only_what_came_since_is_verified(run: Run, log: Path, vkey: str, older: str) -> None:
    ended = run("audit", "verify", "--after", older, "--key", vkey)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("sound      4 records after the first 6, all of them as they were signed\n")
    told = " ".join(ended.out.split())
    assert "that the first 6 records are still there and unchanged: they were not read" in told
    assert f"has not rewritten or cut off {NAME} from record 6 on" in told
    told_json = json.loads(run("audit", "verify", "--after", older, "--json").out)
    assert (told_json["sound"], told_json["records"], told_json["skipped"]) == (True, 4, 6)
    # With the newest head nothing is left to read.
    assert run("audit", "head", "--out", "head.txt").code == 0
    assert run("audit", "verify", "--after", "head.txt").out.startswith("sound      0 records after the first 10")
    # What was changed before the head is found by a whole verification alone.
    changed(log, "UPDATE bodies SET body = (SELECT body FROM bodies WHERE number = 2) WHERE number = 3")
    assert run("audit", "verify", "--after", older).code == 0
    assert run("audit", "verify").code == 1


@pytest.mark.parametrize(
    ("statements", "told"),
    [
        (
            ["UPDATE bodies SET body = (SELECT body FROM bodies WHERE number = 8) WHERE number = 7"],
            "record 7 was changed",
        ),
        (
            ["DELETE FROM bodies WHERE number = 7"],
            "record 7 of `lockgate/00c0ffee` deleted, and no signed prune record",
        ),
        (["DELETE FROM bodies WHERE number = 7", "DELETE FROM leaves WHERE number = 7"], "record 7 missing"),
        (["DELETE FROM bodies WHERE number > 7", "DELETE FROM leaves WHERE number > 7"], "records 8–9 missing"),
        (["UPDATE leaves SET hash = zeroblob(32) WHERE number = 3"], "are not those of the held head"),
        (["DELETE FROM leaves WHERE number = 3"], "are not those of the held head"),
        (["UPDATE heads SET note = x'00' WHERE size = 10"], "a stored head cannot be trusted"),
        (["UPDATE shards SET pruned = 8"], "lets the records of `lockgate/00c0ffee` below 8 be deleted"),
        (["CREATE TABLE more (x)"], "more"),
    ],
)
def test_after_a_kept_head_a_change_is_found(run: Run, log: Path, older: str, statements: list[str], told: str) -> None:
    changed(log, *statements)
    ended = run("audit", "verify", "--after", older)
    assert (ended.code, ended.err) == (1, ""), ended
    assert told in " ".join(ended.out.split())


def test_after_a_kept_head_another_history_is_found(run: Run, log: Path, older: str) -> None:
    # The holder of the key writes the whole log anew, with one record changed.
    log.unlink()
    signer = keys.load(log.with_suffix(".key"))
    with Journal(SqliteLog(log), signer, verify=keys.verify) as journal:
        journal.append([a_ruling(seq) for seq in range(1, 12)], durable=True)
    ended = run("audit", "verify", "--after", older)
    assert (ended.code, "the first 6 records are not those of the held head" in ended.out) == (1, True)
    log.unlink()
    with Journal(SqliteLog(log), signer, verify=keys.verify) as journal:
        journal.append([a_ruling(1)], durable=True)
    ended = run("audit", "verify", "--after", older)
    assert (ended.code, "records 2-5 are missing: the held head says 6" in ended.out) == (1, True)


def test_after_a_kept_head_the_log_goes_on_under_a_new_key(run: Run, log: Path, vkey: str, older: str) -> None:
    assert run("audit", "keys", "rotate", "--yes").code == 0
    assert run("audit", "verify", "--after", older, "--key", vkey).out.startswith(
        "sound      6 records after the first"
    )
    assert run("audit", "head", "--out", "new.txt").code == 0
    ended = run("audit", "verify", "--after", "new.txt", "--key", vkey)
    assert (ended.code, "give the key of that head's shard" in ended.err) == (2, True)
    assert run("audit", "verify", "--after", "new.txt").code == 0


def test_after_goes_with_nothing_that_it_would_not_compare(run: Run, log: Path, head: str) -> None:
    assert run("audit", "export", "--out", "out").code == 0
    Path("empty.txt").touch()
    for argv, told in (
        (["--after", head, "--held", head], "--after cannot be combined with --held or --receipt"),
        (["--after", head, "--receipt", f"1:{'ab' * 32}"], "--after cannot be combined with --held or --receipt"),
        (["out/0001.export", "--after", head], "--after is for a log alone"),
        (["--after", "empty.txt"], "`empty.txt` holds no head"),
    ):
        ended = run("audit", "verify", *argv)
        assert (ended.code, told in ended.err) == (2, True), ended
    witness = keys.signer_from_seed("witness.example", b"w" * 32, kind=COSIGNATURE)
    ended = run("audit", "verify", "--after", head, "--witness", witness.key.vkey)
    assert (ended.code, "no held head was cosigned by the witness" in ended.out) == (1, True)
