"""`lockgate audit archive`, and what `verify` and `prune` make of it: every change to an archive is found.

Its fixtures are its own: it also runs in the environment of Ray, which has pyarrow and no conftest.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import time
from typing import Any, NamedTuple

import pytest
from audited_logs import BASE_MS, DAY_S, NAME, a_ruling, changed, filled

from lockgate.cli.audit import archive as archive_command
from lockgate.cli.audit import verify as verify_command
from lockgate.cli.main import main
from lockgate.journal import archive, keys, log_audit
from lockgate.journal.journal import Journal
from lockgate.journal.merkle import leaf_hash
from lockgate.journal.signed_notes import sign_note
from lockgate.journal.stores.read_only import LogFile
from lockgate.journal.stores.sqlite import SqliteLog

pyarrow: Any = pytest.importorskip("pyarrow")
parquet: Any = pytest.importorskip("pyarrow.parquet")

Row = dict[str, Any]


class Ended(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Ended]


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOCKGATE_CONFIG", "XDG_STATE_HOME", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "work").mkdir(exist_ok=True)
    monkeypatch.chdir(tmp_path / "work")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*argv: str) -> Ended:
        code = main(list(argv))
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return Ended(code, out, err)

    return run


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """This installation's journal, closed, with record 0 and nine more."""
    path = tmp_path / ".local" / "state" / "lockgate" / "journal.db"
    signer = keys.create(path.with_suffix(".key"), NAME)
    with Journal(SqliteLog(path), signer, verify=keys.verify, clock=lambda: BASE_MS / 1000) as journal:
        journal.append(filled(), durable=True)
    return path


@pytest.fixture
def vkey(log: Path) -> str:
    return keys.load(log.with_suffix(".key")).key.vkey


@pytest.fixture
def head(log: Path, run: Run) -> str:
    assert run("audit", "head", "--out", "head.txt").code == 0
    return "head.txt"


@pytest.fixture
def aged(log: Path) -> Path:
    """The installation's journal with records of three ages: 0 opens it, 1-5 are old, 6-9 middle-aged, 10-12 new."""
    now_s = time()
    log.unlink()
    signer = keys.load(log.with_suffix(".key"))
    with Journal(SqliteLog(log), signer, verify=keys.verify, clock=lambda: now_s - 4_000 * DAY_S) as journal:
        for days, seqs in ((4_000, range(1, 6)), (100, range(6, 10)), (1, range(10, 13))):
            at_ms = int((now_s - days * DAY_S) * 1000)
            journal.append([a_ruling(seq, ts_ms=at_ms + seq) for seq in seqs], durable=False)
            journal.checkpoint()
    return log


def files(folder: str = "archive") -> list[str]:
    return [str(path) for path in sorted(Path(folder).glob("*.parquet"))]


def rewritten(path: str, change: Callable[[list[Row]], Sequence[Row]], **metadata: bytes) -> None:
    """Change the rows of an archive's file as an attacker who can write it, who hashes everything again."""
    table = parquet.read_table(path)
    about = {**table.schema.metadata, **{f"lockgate.{name}".encode(): value for name, value in metadata.items()}}
    rows = change(table.to_pylist())
    schema = table.schema.with_metadata(about)
    parquet.write_table(pyarrow.Table.from_pylist(rows, schema), path, use_dictionary=False)


def at(rows: list[Row], number: int, /, **changes: Any) -> list[Row]:
    return [row | changes if row["index"] == number else row for row in rows]


def renumbered(rows: Sequence[Row]) -> list[Row]:
    return [row | {"index": number} for number, row in enumerate(rows)]


def flipped(row: Row) -> bytes:
    return bytes(row["record"]).replace(b"PAUSE", b"CONTINUE").replace(b'"risk":"high"', b'"risk":"low"')


def test_an_archive_is_verified_from_its_files_alone(run: Run, log: Path, vkey: str, head: str) -> None:
    ended = run("audit", "archive", "--out", "archive")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == f"{files()[0]}\nverified:\n  the first 10 records of {NAME}\n"
    log.unlink()
    ended = run("audit", "verify", *files(), "--key", vkey, "--held", head)
    assert ended.code == 0, ended.out
    assert "sound      10 records, all of them as they were signed" in ended.out
    assert "not shown" not in ended.out
    assert "the log itself named it" in " ".join(run("audit", "verify", *files()).out.split())


CHANGES: dict[str, tuple[Callable[[list[Row]], Sequence[Row]], str]] = {
    "a record is changed": (
        lambda rows: at(rows, 4, record=flipped(rows[4])),
        "record 4 was changed: its bytes do not hash to its leaf",
    ),
    "a record is changed, and its leaf": (
        lambda rows: at(rows, 4, record=flipped(rows[4]), leaf=leaf_hash(flipped(rows[4]))),
        "the records do not hash to the root of the signed head of 10",
    ),
    "a record is missing": (lambda rows: [row for row in rows if row["index"] != 4], "record 4 missing"),
    "a record is missing, and the rest moved up": (
        lambda rows: renumbered(rows[:4] + rows[5:]),
        "missing: the checkpoint says 10, the log has 9",
    ),
    "the first records are missing": (lambda rows: rows[3:], "records 0–2 missing"),
    "the last records are missing": (lambda rows: rows[:8], "records 8–9 missing: the checkpoint says 10"),
    "a record's bytes are taken out": (
        lambda rows: at(rows, 4, record=None),
        "record 4 of `lockgate/00c0ffee` deleted, and no signed prune record says so",
    ),
    "a record's leaf is taken out": (lambda rows: at(rows, 4, leaf=None), "record 4 was changed"),
    "an index is taken out": (lambda rows: at(rows, 4, index=None), "record 4 missing"),
    "a record is added at the end": (
        lambda rows: [*rows, rows[9] | {"index": 10}],
        "record 10 not covered by the signed head of 10: put in behind it",
    ),
    "a record is added in the middle": (
        lambda rows: renumbered([*rows[:5], rows[4], *rows[5:]]),
        "the records do not hash to the root of the signed head of 10",
    ),
    "a record stands twice": (lambda rows: [*rows[:5], rows[4], *rows[5:]], "record 4 stands a second time"),
    "two rows are exchanged": (
        lambda rows: [*rows[:4], rows[5], rows[4], *rows[6:]],
        "record 4 stands a second time, or behind record 5",
    ),
    "two records are exchanged": (
        lambda rows: at(at(rows, 4, record=rows[5]["record"]), 5, record=rows[4]["record"]),
        "record 4 holds the bytes of record 5: they were exchanged",
    ),
    "two records are exchanged with their leaves": (
        lambda rows: renumbered([*rows[:4], rows[5], rows[4], *rows[6:]]),
        "the records do not hash to the root of the signed head of 10",
    ),
    "all is gone": (lambda rows: [], "missing: the checkpoint says 10, the log has 0"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_every_change_to_an_archive_is_found(run: Run, log: Path, vkey: str, name: str) -> None:
    change, told = CHANGES[name]
    assert run("audit", "archive", "--out", "archive").code == 0
    rewritten(files()[0], change)
    ended = run("audit", "verify", *files(), "--key", vkey)
    assert (ended.code, ended.err) == (1, ""), ended
    assert told in " ".join(ended.out.split())
    # With the log beside it as well, and no record is deleted for such an archive.
    ended = run("audit", "verify", str(log), *files(), "--key", vkey)
    assert ended.code == 1
    assert "in the archive: " in ended.out
    ended = run("audit", "archive", "--out", "archive")
    assert ended.code == 1
    assert "lockgate: broken: the archive is not sound" in ended.err


def test_a_head_under_another_key_proves_nothing(run: Run, log: Path, vkey: str) -> None:
    assert run("audit", "archive", "--out", "archive").code == 0
    table = parquet.read_table(files()[0])
    forger = keys.signer_from_seed(NAME, b"f" * 32)
    text, _, _ = table.schema.metadata[b"lockgate.head"].partition(b"\n\n")
    note = sign_note(f"{text.decode()}\n", forger.key, forger.sign).to_bytes()
    rewritten(files()[0], lambda rows: rows, head=note, vkey=forger.key.vkey.encode())
    ended = run("audit", "verify", *files(), "--key", vkey)
    assert (ended.code, "cannot be trusted" in ended.out) == (1, True)
    assert run("audit", "archive", "--out", "archive").code == 1


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (lambda data: data[:-20], "cannot be read"),
        (lambda data: data[: len(data) // 2], "cannot be read"),
        (lambda data: data[:300] + bytes([data[300] ^ 1]) + data[301:], ""),
        (lambda data: b"PAR1" + bytes(100), "cannot be read"),
    ],
    ids=["end", "half", "bit", "nothing"],
)
def test_a_damaged_file_is_broken_and_no_traceback(
    run: Run, log: Path, vkey: str, data: Callable[[bytes], bytes], told: str
) -> None:
    assert run("audit", "archive", "--out", "archive").code == 0
    path = Path(files()[0])
    path.write_bytes(data(path.read_bytes()))
    ended = run("audit", "verify", str(path), "--key", vkey)
    assert (ended.code, ended.err) == (1, "")
    assert told in ended.out


@pytest.mark.parametrize(
    ("size", "packed"),
    [
        (60_000, {"use_dictionary": ["record"]}),
        (60_000, {"use_dictionary": False, "column_encoding": {"record": "DELTA_BYTE_ARRAY"}}),
        (3_000_000, {"use_dictionary": False}),
    ],
    ids=["one value for many rows", "values that begin alike", "large records"],
)
def test_a_file_that_unpacks_to_more_than_its_records_is_refused_unread(
    run: Run, log: Path, vkey: str, size: int, packed: Row
) -> None:
    assert run("audit", "archive", "--out", "archive").code == 0
    table = parquet.read_table(files()[0])
    rows = [row | {"record": b"x" * size} for row in table.to_pylist()]
    parquet.write_table(pyarrow.Table.from_pylist(rows, table.schema), files()[0], compression="zstd", **packed)
    ended = run("audit", "verify", *files(), "--key", vkey)
    assert ended.code == 1
    assert "unpacks to more than its records can hold" in " ".join(ended.out.split())


def test_a_parquet_file_of_something_else_is_no_archive(run: Run, log: Path, vkey: str) -> None:
    parquet.write_table(pyarrow.table({"session": ["a"]}), "other.parquet")
    ended = run("audit", "verify", "other.parquet", "--key", vkey)
    assert (ended.code, "holds no signed head" in ended.out) == (1, True)
    assert run("audit", "archive", "--out", "archive").code == 0
    table = parquet.read_table(files()[0])
    parquet.write_table(table.append_column("more", pyarrow.array([0] * 10)), files()[0])
    ended = run("audit", "verify", *files(), "--key", vkey)
    assert (ended.code, "has other columns than an archive" in " ".join(ended.out.split())) == (1, True)
    assert run("audit", "show", "--log", files()[0]).code == 2


def test_it_grows_by_new_files_and_a_missing_one_is_found(run: Run, aged: Path, vkey: str) -> None:
    for days, count in ((3_000, 6), (30, 10)):
        told = json.loads(run("audit", "archive", "--out", "archive", "--days", str(days), "--json").out)
        assert (len(told["new"]), told["archived"]) == (1, {NAME: count})
    assert run("audit", "archive", "--out", "archive", "--days", "30").out.startswith("nothing new to archive; verif")
    assert run("audit", "archive", "--out", "archive").code == 0
    first, second, third = files()
    ended = run("audit", "verify", third, first, second, "--key", vkey)
    assert ended.code == 0, ended.out
    assert "13 records" in ended.out
    for some, told in (
        ([first, third], "records 6–9 missing: record 10 follows on 5"),
        ([second, third], "records 0–5 missing"),
        ([first, second, second, third], "stands a second time"),
    ):
        ended = run("audit", "verify", *some, "--key", vkey)
        assert (ended.code, told in ended.out) == (1, True), ended.out
    # Without its last file it is the archive of before: only a head that was kept shows the difference.
    assert run("audit", "verify", first, second, "--key", vkey).code == 0
    assert run("audit", "head", "--out", "head.txt").code == 0
    ended = run("audit", "verify", first, second, "--key", vkey, "--held", "head.txt")
    assert (ended.code, "the log was rolled back, records 10–12 missing" in ended.out) == (1, True)


def test_pruning_keeps_what_is_not_archived_and_the_two_together_are_whole(run: Run, aged: Path, vkey: str) -> None:
    leaf = json.loads(run("audit", "show", "4", "--json").out)["leaf_hash"]
    assert run("audit", "prove", "4", "--out", "4.proof").code == 0
    ended = run("audit", "prune", "--days", "3000", "--archive", "archive", "--yes")
    assert (ended.code, ended.out) == (0, f"records below 6 of {NAME} were deleted; their hashes stay\n")
    assert run("audit", "show", "4").code == 2
    ended = run("audit", "verify", str(aged), *files(), "--key", vkey, "--receipt", f"4:{leaf}")
    assert ended.code == 0, ended.out
    assert "the contents of 5 were deleted, as they say" in ended.out
    assert "note       the archive holds 6 records of this log" in ended.out
    # The proof of a deleted record holds for the bytes in the archive.
    Path("4.json").write_bytes(parquet.read_table(files()[0]).to_pylist()[4]["record"])
    assert run("audit", "prove", "--check", "4.proof", "--record", "4.json", "--key", vkey).code == 0
    # What is deleted without the archive is missed in it.
    assert run("audit", "prune", "--days", "30", "--yes").code == 0
    ended = run("audit", "verify", str(aged), *files(), "--key", vkey)
    assert ended.code == 1
    assert f"records 6–9 of `{NAME}` deleted, and in no archive given here" in " ".join(ended.out.split())


def test_an_archive_of_another_log_does_not_join(run: Run, aged: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "journal.db"
    signer = keys.create(other.with_suffix(".key"), NAME)
    with Journal(SqliteLog(other), signer, verify=keys.verify) as journal:
        journal.append([a_ruling(1)], durable=True)
    assert run("audit", "archive", "--out", "archive", "--log", str(other)).code == 0
    assert run("audit", "verify", str(aged), *files()).code == 1
    ended = run("audit", "prune", "--days", "30", "--archive", "archive", "--yes")
    assert (ended.code, "the archive is not sound" in ended.err) == (1, True)
    assert run("audit", "show", "4").code == 0
    assert run("audit", "verify", files()[0], "--key", signer.key.vkey).code == 0


def test_a_file_of_another_archive_is_never_replaced(run: Run, aged: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "journal.db"
    signer = keys.create(other.with_suffix(".key"), "example.com/other")
    with Journal(SqliteLog(other), signer, verify=keys.verify) as journal:
        journal.append([a_ruling(1)], durable=True)
    assert run("audit", "archive", "--out", "archive", "--log", str(other)).code == 0
    before = Path(files()[0]).read_bytes()
    for argv in (["archive", "--out", "archive"], ["prune", "--days", "30", "--archive", "archive", "--yes"]):
        ended = run("audit", *argv)
        assert (ended.code, "there is a file" in ended.err) == (2, True)
    assert Path(files()[0]).read_bytes() == before
    assert run("audit", "show", "4").code == 0


def test_nothing_is_deleted_unless_the_archive_was_written_and_verified(
    run: Run, aged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> Path:
        raise OSError(28, "no space left on device")

    def spoiled(view: Any, due: Any, folder: Path) -> Path:
        path = archive.write_piece(view, due, folder)
        rewritten(str(path), lambda rows: at(rows, 4, record=rows[5]["record"]))
        return path

    for write, code in ((fails, 2), (spoiled, 1)):
        monkeypatch.setattr(archive_command, "write_piece", write)
        assert run("audit", "prune", "--days", "30", "--archive", "archive", "--yes").code == code
        assert files() == []
        assert json.loads(run("audit", "verify", "--json").out)["deleted"] == 0


def test_a_changed_log_is_not_archived(run: Run, aged: Path) -> None:
    changed(aged, "UPDATE bodies SET body = (SELECT body FROM bodies WHERE number = 3) WHERE number = 4")
    ended = run("audit", "archive", "--out", "archive")
    assert ended.code == 1
    assert "record 4 was changed: its bytes do not hash to its leaf" in ended.err
    assert files() == []


def test_records_deleted_before_they_were_archived_are_archived_only_if_the_user_accepts_it(
    run: Run, aged: Path, vkey: str
) -> None:
    assert run("audit", "prune", "--days", "3000", "--yes").code == 0
    for argv in (["archive", "--out", "archive"], ["prune", "--days", "30", "--archive", "archive", "--yes"]):
        ended = run("audit", *argv)
        assert (ended.code, files()) == (1, [])
        assert f"the contents of records 1–5 of `{NAME}` are not in the archive" in ended.err
        assert "--accept-deleted" in ended.err
    assert run("audit", "show", "7").code == 0
    # The prune record is the newest of all: without it the archive could not say why records are gone.
    accepting = ["archive", "--out", "archive", "--days", "30", "--accept-deleted", "--json"]
    assert json.loads(run("audit", *accepting).out)["archived"] == {NAME: 14}
    # What neither of the two has stays a fault.
    for names in (files(), [str(aged), *files()]):
        ended = run("audit", "verify", *names, "--key", vkey)
        assert ended.code == 1
        assert "contents of records 1–5" in " ".join(ended.out.split())
    assert run("audit", "prune", "--days", "30", "--archive", "archive", "--yes").code == 1
    assert run("audit", "prune", "--days", "30", "--archive", "archive", "--accept-deleted", "--yes").code == 0
    assert run("audit", "show", "7").code == 2


def test_archived_contents_that_the_log_has_deleted_cannot_be_taken_out_unseen(run: Run, aged: Path, vkey: str) -> None:
    assert run("audit", "prune", "--days", "3000", "--archive", "archive", "--yes").code == 0
    # With the prune record in it, the archive says itself that records were deleted.
    assert run("audit", "archive", "--out", "archive").code == 0
    assert run("audit", "verify", str(aged), *files(), "--key", vkey).code == 0
    rewritten(files()[0], lambda rows: [row | ({"record": None} if 1 <= row["index"] <= 3 else {}) for row in rows])
    for names in (files(), [str(aged), *files()]):
        ended = run("audit", "verify", *names, "--key", vkey)
        assert ended.code == 1
        assert f"the contents of records 1–3 of `{NAME}` are not in the archive" in " ".join(ended.out.split())
    assert run("audit", "archive", "--out", "archive").code == 1
    assert run("audit", "prune", "--days", "30", "--archive", "archive", "--yes").code == 1
    assert run("audit", "show", "7").code == 0


@pytest.mark.parametrize("kept", [0, 1])
def test_a_lost_file_is_not_made_anew_without_its_contents(run: Run, aged: Path, vkey: str, kept: int) -> None:
    if kept:
        assert run("audit", "archive", "--out", "archive", "--days", "3000").code == 0
    assert run("audit", "prune", "--days", "30", "--archive", "archive", "--yes").code == 0
    lost = Path(files()[-1])
    content = lost.read_bytes()
    lost.unlink()
    for argv in (["archive", "--out", "archive"], ["prune", "--days", "30", "--archive", "archive", "--yes"]):
        ended = run("audit", *argv)
        assert (ended.code, len(files())) == (1, kept)
        assert "bring lost files back" in ended.err
    lost.write_bytes(content)
    assert run("audit", "archive", "--out", "archive").code == 0
    assert run("audit", "verify", str(aged), *files(), "--key", vkey).code == 0


def test_files_are_audited_while_no_snapshot_of_the_log_is_open(
    run: Run, aged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL ends a snapshot that waits for 5 seconds, and a large archive takes minutes."""
    opened: list[str] = []
    seen: list[list[str]] = []

    for store in (SqliteLog, LogFile):
        real = store.reading

        @contextmanager
        def reading(self: Any, real: Any = real) -> Iterator[Any]:
            opened.append("open")
            try:
                with real(self) as view:
                    yield view
            finally:
                opened.pop()

        monkeypatch.setattr(store, "reading", reading)

    def audit(*args: Any, **named: Any) -> Any:
        if named.get("part"):
            seen.append([*opened])
        else:
            assert opened
        return log_audit.audit(*args, **named)

    monkeypatch.setattr(archive_command, "audit", audit)
    monkeypatch.setattr(verify_command, "audit", audit)
    assert run("audit", "archive", "--out", "archive").code == 0
    assert run("audit", "verify", str(aged), *files()).code == 0
    assert seen == [[], []]


def test_rotated_keys_are_archived_shard_by_shard(run: Run, aged: Path, vkey: str) -> None:
    assert run("audit", "keys", "rotate", "--yes").code == 0
    assert run("audit", "archive", "--out", "archive").code == 0
    assert [Path(name).name for name in files()] == ["0001-000000000000.parquet", "0002-000000000000.parquet"]
    assert run("audit", "verify", *files(), "--key", vkey).code == 0
    assert run("audit", "verify", str(aged), *files(), "--key", vkey).code == 0
    ended = run("audit", "verify", files()[0], "--key", vkey)
    assert ended.code == 0
    assert f"the log goes on as `{NAME}.2`, of which nothing is here" in ended.out
    assert run("audit", "verify", files()[1], "--key", vkey).code == 1


def test_without_pyarrow_it_says_what_to_install(run: Run, aged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("audit", "archive", "--out", "archive").code == 0
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for argv in (
        ["archive", "--out", "archive"],
        ["verify", *files()],
        ["prune", "--days", "30", "--archive", "archive", "--yes"],
    ):
        ended = run("audit", *argv)
        assert (ended.code, ended.out) == (2, ""), ended
        assert ended.err.endswith("need the package pyarrow\nhint: pip install pyarrow\n")
    assert json.loads(run("audit", "verify", "--json").out)["deleted"] == 0
