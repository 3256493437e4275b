"""Whatever is sent to `lockgate check`: an error with the line, exit code 2, and no traceback."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lockgate.bulk.trace_rulings import lines_in, parse_lines
from lockgate.sessions.trace_format import MAX_LINE_BYTES

Run = Callable[..., Any]

CALL = b'{"call": {"tool": "read_file", "arguments": {}}}'
BAD = {
    "empty": (b"", "standard input: the trace is empty"),
    "only empty lines": (b"\n\r\n  \n", "standard input: the trace is empty"),
    "no call": (b'{"session": {}}\n{"block": {"content": "x", "source": "web"}}\n', "no call in this trace"),
    "invalid JSON": (b'{"call": }\n', "line 1: not JSON"),
    "wrong type": (b'{"call": {"tool": 1, "arguments": {}}}\n', "line 1: `call.tool` must be text, not a number"),
    "NaN": (b'{"call": {"tool": "t", "arguments": {"a": NaN}}}', "line 1: `NaN` is not a JSON number"),
    "half a surrogate pair": (b'{"block": {"content": "\\ud800", "source": "w"}}', "half of a surrogate pair"),
    "half a pair as bytes": (b'{"block": {"content": "\xed\xa0\x80", "source": "w"}}', "is not UTF-8 text"),
    "ten thousand deep": (b"[" * 10_000 + b"]" * 10_000, "line 1: nested more than 100 levels deep"),
    "binary": (bytes(range(256)) * 20, "line 1: not JSON"),
    "an image": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "line 1: byte 1 (0x89) is not UTF-8 text"),
    "compressed": (gzip.compress(CALL), "is not UTF-8 text"),
    "UTF-16": (CALL.decode().encode("utf-16"), "is not UTF-8 text"),
    "zeros": (bytes(1000), "line 1: not JSON"),
    "a block used twice": (
        b'{"block": {"id": "a", "content": "x", "source": "web"}}\n' * 2,
        "line 2: block `a` is already in this session",
    ),
    "a parent that is not there": (
        b'{"block": {"content": "x", "source": "web", "tainted_by": ["zz"]}}\n',
        "line 1: block is tainted by `zz`",
    ),
    "an untrusted instruction": (
        b'{"block": {"content": "x", "source": "web", "kind": "instruction"}}\n',
        "line 1: untrusted block",
    ),
    "research without a scope": (b'{"session": {"mode": "research"}}\n', "line 1: mode `research` needs a scope"),
    "a TOML file": (b'[security]\nmode = "default"\n', "line 1: not JSON"),
    "a whole JSON document": (b'[\n  {"call": {}}\n]\n', "line 1: not JSON"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("form", [["--json"], []], ids=["json", "tree"])
def test_bad_input_is_an_error_with_its_place(run: Run, name: str, form: list[str]) -> None:
    data, said = BAD[name]
    ended = run("check", *form, "-", stdin=data)
    assert ended.code == 2
    assert ended.out == ""
    first, *rest = ended.err.splitlines()
    assert first.startswith("lockgate: error: ")
    assert said in first
    assert all(line.startswith("hint: ") for line in rest)
    assert len(rest) <= 1


@pytest.mark.parametrize(
    "data",
    [
        CALL,
        CALL + b"\n",
        CALL + b"\r\n",
        b"\xef\xbb\xbf" + CALL + b"\r\n",
        b"\n\n" + CALL + b"\n\n",
        CALL + b"\r\n" + CALL,
    ],
    ids=["no newline", "newline", "Windows line end", "byte order mark", "empty lines", "two lines"],
)
def test_harmless_differences_are_accepted(run: Run, data: bytes) -> None:
    assert run("check", stdin=data).code == 0


def test_a_line_of_100_mb_is_refused(run: Run) -> None:
    with open("huge.jsonl", "wb") as file:
        file.write(b'{"session": {}}\n{"block": {"source": "web", "content": "')
        file.truncate(100 * 1024 * 1024)
    ended = run("check", "huge.jsonl")
    assert ended.code == 2
    assert f"huge.jsonl: line 2: longer than {MAX_LINE_BYTES:,} bytes" in ended.err


class Counting(io.RawIOBase):
    """An endless line that counts how much of it was read."""

    def __init__(self) -> None:
        self.read_bytes = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        buffer[:] = b"x" * len(buffer)
        self.read_bytes += len(buffer)
        return len(buffer)


def test_of_a_line_without_end_no_more_is_read_than_shows_it() -> None:
    endless = Counting()
    _, fault = next(parse_lines(lines_in(io.BufferedReader(endless))))
    assert "longer than" in str(fault)
    assert endless.read_bytes < MAX_LINE_BYTES + 1024 * 1024


def test_a_missing_file_is_named(run: Run) -> None:
    ended = run("check", "nowhere.jsonl")
    assert ended.code == 2
    assert ended.err == "lockgate: error: no such file or directory: `nowhere.jsonl`\n"


def test_a_folder_is_not_a_trace(run: Run) -> None:
    ended = run("check", ".")
    assert ended.code == 2
    assert ended.err == "lockgate: error: is a directory: `.`\n"


def test_a_hostile_file_name_stays_harmless(run: Run) -> None:
    name = "a\x1b[2Jb\u202ec.jsonl"
    Path(name).write_bytes(b"oops")
    ended = run("check", name)
    assert ended.code == 2
    assert r"a\x1b[2Jb\u{202e}c.jsonl: line 1: not JSON" in ended.err
    assert "\x1b" not in ended.err
