"""The files of `lockgate eval`: packed or plain, named or in a folder, and a tool list in two shapes."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

from lockgate.bulk import pieces
from lockgate.cli.eval import trace_files
from lockgate.core.errors import InvalidTrace, LockgateError

LINES = b'{"session": {"goal": "g"}}\n{"call": {"tool": "Bash", "arguments": {}, "label": "ordinary"}}\n'


def test_a_packed_file_and_a_plain_one_give_the_same(tmp_path: Path) -> None:
    plain, packed = tmp_path / "day.jsonl", tmp_path / "day.jsonl.gz"
    plain.write_bytes(LINES)
    packed.write_bytes(gzip.compress(LINES))
    assert trace_files.load_sessions(plain) == trace_files.load_sessions(packed)
    assert trace_files.load_sessions(packed)[0].start.part == "day"
    assert trace_files.list_files([str(tmp_path)]) == [plain, packed]
    assert trace_files.list_files([str(packed)]) == [packed]


def test_a_folder_without_traces_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LockgateError, match="no transcript or trace under"):
        trace_files.list_files([str(tmp_path)])
    with pytest.raises(LockgateError, match="no such file"):
        trace_files.list_files([str(tmp_path / "none.jsonl")])


@pytest.mark.parametrize("data", [b"", b"\xff\xfe\x00", b"{", b"\x1f\x8bnot gzip", b"[" * 100_000])
def test_bytes_that_are_no_trace_are_refused_with_the_name_of_the_file(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_bytes(data)
    with pytest.raises(InvalidTrace, match=r"bad\.jsonl"):
        trace_files.load_sessions(file)


def test_a_line_that_never_ends_is_not_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_files, "MAX_LINE_BYTES", 50)
    file = tmp_path / "long.jsonl"
    file.write_bytes(b"x" * 52 + b"\n")
    with pytest.raises(InvalidTrace, match="line 1: longer than 50 bytes"):
        trace_files.load_sessions(file)


def test_a_packed_file_that_unpacks_to_gigabytes_is_refused_in_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "MAX_UNPACKED_BYTES", 10_000)
    file = tmp_path / "bomb.jsonl.gz"
    for line in (
        b"\n",
        b'{"session": {"goal": "g"}}\n',
        b'{"block": {"source": "web:x", "content": "%s"}}\n' % (b"a" * 900),
    ):
        file.write_bytes(gzip.compress(LINES + line * 2_000))
        with pytest.raises(InvalidTrace, match=r"bomb\.jsonl\.gz.* unpacks to more than 10,000 bytes"):
            trace_files.load_sessions(file)


def test_a_pipe_is_never_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "a.jsonl"
    os.mkfifo(pipe)
    (tmp_path / "b.jsonl").write_bytes(LINES)
    with pytest.raises(LockgateError, match="not a regular file"):
        trace_files.list_files([str(tmp_path)])


def test_folders_below_and_globs_are_read_as_in_a_replay(tmp_path: Path) -> None:
    below = tmp_path / "may"
    below.mkdir()
    (below / "day.jsonl").write_bytes(LINES)
    (below / "notes.txt").write_bytes(b"mine")
    for named in (tmp_path, f"{tmp_path}/**/*.jsonl"):
        assert trace_files.list_files([str(named)]) == [below / "day.jsonl"]


def test_the_sessions_of_a_parquet_file_are_read(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    file = tmp_path / "day.parquet"
    parquet.write_table(pyarrow.table({"session": ["a", "b"], "trace": [LINES.decode()] * 2}), file)
    assert trace_files.list_files([str(tmp_path)]) == [file]
    found = [(each.start.part, each.start.id, len(each.calls)) for each in trace_files.load_sessions(file)]
    assert found == [("day", "a, session 1", 1), ("day", "b, session 1", 1)]
    parquet.write_table(pyarrow.table({"session": ["a", "b"], "trace": [LINES.decode(), "damaged"]}), file)
    with pytest.raises(InvalidTrace, match=r"day\.parquet`: `b`: line 1: not JSON"):
        trace_files.load_sessions(file)


def test_a_tool_list_names_what_is_not_only_read(tmp_path: Path) -> None:
    file = tmp_path / "tools.json"
    file.write_text(json.dumps({"shop": {"buy": "write", "look": "read", "post": "egress"}}))
    assert trace_files.load_high_risk_tools(str(file)) == {"shop": ("buy", "post")}
    file.write_text(json.dumps({"buy": "write", "look": "read"}))
    assert trace_files.load_high_risk_tools(str(file)) == {"": ("buy",)}
    assert trace_files.load_high_risk_tools(None) == {}


@pytest.mark.parametrize("text", ["{", "[]", '{"buy": "perhaps"}', '{"shop": {"buy": 1}}', '{"shop": [], "a": "read"}'])
def test_another_tool_list_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "tools.json"
    file.write_text(text)
    with pytest.raises(LockgateError):
        trace_files.load_high_risk_tools(str(file))
