"""Cutting traces: the pieces are the whole trace, in order, each begins with a session, and knows where it stood."""

from __future__ import annotations

import gzip
import os
import tracemalloc
from pathlib import Path

import pytest
from recorded_traces import session_lines, write_trace

from lockgate.bulk import pieces as pieces_module
from lockgate.bulk.pieces import (
    InputChanged,
    InputPiece,
    cut_trace,
    read_events,
    read_row_group,
    unpacked_lines,
    whole_file,
)
from lockgate.bulk.trace_rulings import rule_on_events
from lockgate.core.errors import InvalidTrace
from lockgate.gate.gate import Gate
from lockgate.sessions import trace_format
from lockgate.sessions.trace_format import SessionStart


def test_the_pieces_are_the_whole_trace(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.jsonl", range(25))
    pieces = [*cut_trace(str(trace), 10)]
    assert [piece.session for piece in pieces] == [0, 10, 20]
    assert [piece.line for piece in pieces] == [0, 50, 100]
    assert sum(piece.size for piece in pieces) == trace.stat().st_size
    (whole,) = cut_trace(str(trace), 100)
    assert [event for piece in pieces for event in read_events(piece)] == [*read_events(whole)]
    assert all(isinstance(next(read_events(piece))[1], SessionStart) for piece in pieces)


def test_a_changed_piece_has_another_name_and_the_others_keep_theirs(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.jsonl", range(20))
    before = [piece.name for piece in cut_trace(str(trace), 10)]
    # Of the same length, so that no offset moves.
    trace.write_text(trace.read_text().replace("mail 19", "file 19"))
    after = [piece.name for piece in cut_trace(str(trace), 10)]
    assert [a == b for a, b in zip(before, after, strict=True)] == [True, False]


def test_the_word_session_inside_a_text_cuts_nothing(tmp_path: Path) -> None:
    lines = [*session_lines(1), '{"block": {"content": "{\\"session\\": {}}", "source": "web:x"}}', *session_lines(2)]
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    first, second = cut_trace(str(tmp_path / "t.jsonl"), 1)
    assert len([*read_events(first)]) == 6
    assert len([*read_events(second)]) == 5


@pytest.mark.parametrize(
    "first",
    [
        [],
        session_lines(0)[1:],
        ["", '{"trace": "lockgate-trace/1"}', *session_lines(0)[1:]],
        ["\ufeff" + session_lines(0)[0]],
        ["nonsense", *session_lines(0)[1:]],
        ['{"session": {"goal": 1}}', *session_lines(0)[1:]],
        ['{"\\u0073ession": {}}', *session_lines(0)[1:]],
    ],
)
def test_sessions_have_the_same_number_in_a_piece_as_in_the_whole_trace(first: list[str], tmp_path: Path) -> None:
    trace = tmp_path / "t.jsonl"
    lines = [*first, *session_lines(1), '{"session": 1}', *session_lines(2), *session_lines(3)]
    trace.write_text("\n".join(lines))
    (whole,) = cut_trace(str(trace))
    pieces = [*cut_trace(str(trace), 1)]
    gates = [Gate()]

    def numbered(piece: InputPiece) -> list[tuple[int, int]]:
        rulings = rule_on_events(gates, read_events(piece), sessions=piece.session)
        return [(each.line, each.session) for each in rulings]

    assert len(pieces) >= 3
    assert [pair for piece in pieces for pair in numbered(piece)] == numbered(whole)


def test_a_packed_trace_is_one_piece(tmp_path: Path) -> None:
    plain = write_trace(tmp_path / "t.jsonl", range(3))
    packed = tmp_path / "p.jsonl.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    (piece,) = cut_trace(str(packed), 1)
    (whole,) = cut_trace(str(plain), 5)
    assert [*read_events(piece)] == [*read_events(whole)]


def test_a_bad_line_is_named_by_its_number_in_the_whole_file(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text("\n".join([*session_lines(1), *session_lines(2), "nonsense"]))
    *_, last = cut_trace(str(tmp_path / "t.jsonl"), 1)
    *_, (number, fault) = read_events(last)
    assert number == 11
    assert isinstance(fault, InvalidTrace)
    assert fault.message.startswith("line 11: ")


def test_a_line_that_is_too_long_is_refused_without_reading_it_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("lockgate.bulk.trace_rulings", trace_format.__name__):
        monkeypatch.setattr(f"{module}.MAX_LINE_BYTES", 300)
    trace = tmp_path / "t.jsonl"
    # What stands behind the limit is no line of its own, although it could be read as one.
    long = '{"block": "'.ljust(302, "x") + '{"session": {}}'
    trace.write_text("\n".join([*session_lines(1), long, *session_lines(2)]))
    (piece,) = cut_trace(str(trace))
    found = dict(read_events(piece))
    assert [*found] == [*range(1, 12)]
    assert str(found[6]).startswith("line 6: longer than 300 bytes")
    assert [piece.session for piece in cut_trace(str(trace), 1)] == [0, 1]


def test_a_whole_file_is_a_piece_with_the_digest_of_its_content(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    (tmp_path / "b").write_bytes(b"abc")
    a, b = whole_file(str(tmp_path / "a")), whole_file(str(tmp_path / "b"))
    assert (a.digest, a.size) == (b.digest, 3)
    assert a.name != b.name


def test_what_was_written_into_the_log_of_a_database_changes_its_digest(tmp_path: Path) -> None:
    (tmp_path / "o.db").write_bytes(b"SQLite format 3\0abc")
    before = whole_file(str(tmp_path / "o.db"))
    (tmp_path / "o.db-wal").write_bytes(b"de")
    after = whole_file(str(tmp_path / "o.db"))
    assert (before.size, after.size) == (19, 21)
    assert before.name != after.name


def test_only_a_regular_file_beside_a_database_counts_as_its_log(tmp_path: Path) -> None:
    for name, content in (("t.jsonl", b"abc"), ("o.db", b"SQLite format 3\0abc")):
        os.mkfifo(tmp_path / f"{name}-wal")
        (tmp_path / name).write_bytes(content)
        assert whole_file(str(tmp_path / name)).size == len(content)
        (tmp_path / f"{name}-wal").unlink()
        (tmp_path / f"{name}-wal").symlink_to("/dev/zero")
        assert whole_file(str(tmp_path / name)).size == len(content)


def test_a_trace_that_changed_since_it_was_cut_is_not_taken_for_it(tmp_path: Path) -> None:
    plain, packed = tmp_path / "t.jsonl", tmp_path / "t.jsonl.gz"
    write_trace(plain, range(20))
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    first, second = cut_trace(str(plain), 10)
    (whole,) = cut_trace(str(packed))
    # Of the same length, in the second half.
    plain.write_text(plain.read_text().replace("mail 19", "file 19"))
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert len([*read_events(first)]) == 50
    for piece in (second, whole):
        with pytest.raises(InputChanged):
            [*read_events(piece)]


def test_parquet_of_the_same_size_and_time_is_known_by_its_content(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    file, pieces = tmp_path / "t.parquet", []
    for trace in ("git status", "rm -rf ~/x"):
        parquet.write_table(pyarrow.table({"session": ["a"], "trace": [trace]}), file, compression="none")
        os.utime(file, (1e9, 1e9))
        pieces += cut_trace(str(file))
    assert pieces[0].size == pieces[1].size
    assert pieces[0].name != pieces[1].name
    assert [*read_row_group(pieces[1])] == [("a", b"rm -rf ~/x")]
    with pytest.raises(InputChanged):
        [*read_row_group(pieces[0])]


def test_a_damaged_row_group_leaves_the_others(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    file = tmp_path / "t.parquet"
    table = pyarrow.table({"session": ["a", "b"], "trace": ["x" * 100, "y" * 100]})
    parquet.write_table(table, file, row_group_size=1, compression="zstd")
    column = parquet.ParquetFile(file).metadata.row_group(0).column(1)
    data, start = bytearray(file.read_bytes()), column.dictionary_page_offset
    data[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    file.write_bytes(data)
    damaged, other = cut_trace(str(file))
    assert [*read_row_group(other)] == [("b", b"y" * 100)]
    with pytest.raises(InvalidTrace, match="no Parquet file, or a damaged one"):
        [*read_row_group(damaged)]


def test_parquet_is_cut_by_row_groups(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    traces = ["\n".join(session_lines(number)) for number in range(5)]
    table = pyarrow.table({"session": [f"s{at}" for at in range(5)], "trace": traces})
    parquet.write_table(table, tmp_path / "t.parquet", row_group_size=2)
    pieces = [*cut_trace(str(tmp_path / "t.parquet"))]
    assert [(piece.start, piece.session) for piece in pieces] == [(0, 0), (1, 2), (2, 4)]
    assert [trace.decode() for piece in pieces for _, trace in read_row_group(piece) if trace] == traces
    parquet.write_table(table.drop_columns("trace"), tmp_path / "u.parquet")
    with pytest.raises(InvalidTrace, match="no column `trace`"):
        [*read_row_group(InputPiece(str(tmp_path / "u.parquet"), "", 0, 0, 1))]


def test_a_packed_trace_that_ends_too_early_is_refused(tmp_path: Path) -> None:
    packed = gzip.compress("\n".join(session_lines(1)).encode())
    for number, data in enumerate((packed[:-20], packed[:40] + b"\0" * 40)):
        (tmp_path / f"{number}.jsonl.gz").write_bytes(data)
        *_, (_, fault) = read_events(whole_file(str(tmp_path / f"{number}.jsonl.gz")))
        assert isinstance(fault, InvalidTrace)


def test_what_is_no_parquet_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "t.parquet").write_text("no such thing")
    with pytest.raises(InvalidTrace, match="no Parquet file"):
        [*cut_trace(str(tmp_path / "t.parquet"))]


def test_a_packed_piece_that_unpacks_to_more_than_fits_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces_module, "MAX_UNPACKED_BYTES", 10_000)
    file = tmp_path / "bomb.jsonl.gz"
    for line in (b"\n", b"{}\n", b"a" * 9_000 + b"\n"):
        file.write_bytes(gzip.compress(line * 2_000))
        with file.open("rb") as raw, pytest.raises(InvalidTrace, match="unpacks to more than 10,000 bytes"):
            list(unpacked_lines(raw))


def test_a_long_trace_in_every_row_of_a_parquet_file_is_not_read_at_once(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rows, trace = 400, "x" * 160_000
    same = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * rows, pyarrow.int32()), pyarrow.array([trace]))
    table = pyarrow.table({"session": [f"s{at}" for at in range(rows)], "trace": same})
    parquet.write_table(table, tmp_path / "t.parquet")
    assert (tmp_path / "t.parquet").stat().st_size < 100_000
    (piece,) = cut_trace(str(tmp_path / "t.parquet"))
    tracemalloc.start()
    try:
        assert sum(1 for _ in read_row_group(piece)) == rows
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_a_parquet_file_that_expands_to_far_more_than_it_holds_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    monkeypatch.setattr(pieces_module, "_LEAST_HELD_BYTES", 1_000_000)
    # One text that is too long by itself, and one that every row names.
    for rows, length in ((1, 3_000_000), (40, 100_000)):
        same = pyarrow.DictionaryArray.from_arrays(
            pyarrow.array([0] * rows, pyarrow.int32()), pyarrow.array(["x" * length])
        )
        table = pyarrow.table({"session": ["s"] * rows, "trace": same})
        parquet.write_table(table, tmp_path / "t.parquet", compression="zstd")
        piece = InputPiece(str(tmp_path / "t.parquet"), "", 0, 0, 1)
        with pytest.raises(InvalidTrace, match="row group 1 expands to far more than its file holds"):
            [*read_row_group(piece)]
