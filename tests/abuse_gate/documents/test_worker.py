from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from documents import docx, html, line, pdf, run

from lockgate.abuse_gate.documents import worker
from lockgate.abuse_gate.documents.extracted_text import ExtractedText

LIMITS = {"pages": 10, "unpacked_bytes": 100_000, "cpu_s": 20, "memory_bytes": 2**30, "characters": 1000}


def test_a_message_is_read_as_it_was_written() -> None:
    pipe = io.BytesIO()
    for body in (b"", b"one", b"\x00" * 300):
        worker.write_frame(pipe, body)
    pipe.seek(0)
    assert [worker.read_frame(pipe) for _ in range(4)] == [b"", b"one", b"\x00" * 300, None]


@pytest.mark.parametrize(
    "sent", [b"\x00" * 7, (5).to_bytes(8, "big") + b"four", (11).to_bytes(8, "big") + b"x" * 11], ids=len
)
def test_a_cut_or_too_long_message_is_none(sent: bytes) -> None:
    assert worker.read_frame(io.BytesIO(sent), most=10) is None


@pytest.mark.parametrize(
    ("kind", "data"), [("pdf", pdf(line("Rain"))), ("docx", docx(run("Rain"))), ("html", html("Rain"))]
)
def test_each_kind_has_its_reader(kind: str, data: bytes) -> None:
    found = ExtractedText(1000)
    worker.extract(kind, data, found, LIMITS)
    assert found.visible[-1] == "Rain"
    assert found.complete


def test_what_was_read_before_a_parser_failed_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(kind: str, data: bytes, found: ExtractedText, limits: dict[str, Any]) -> None:
        found.show("the first page")
        raise RecursionError

    monkeypatch.setattr(worker, "extract", fail)
    said = json.loads(worker._extract_answer({**LIMITS, "kind": "html"}, b""))
    assert (said["visible"], said["complete"]) == (["the first page"], False)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="one process for each document")
def test_an_answer_that_is_too_long_is_unread() -> None:
    page = html("x" * 500)
    asked = {**LIMITS, "kind": "html"}
    assert json.loads(worker._answer_in_fork({**asked, "answer_bytes": 10_000}, page))["complete"]
    assert not json.loads(worker._answer_in_fork({**asked, "answer_bytes": 100}, page))["complete"]


CONFINED = """
import os, sys
sys.path.insert(0, {root!r})
from lockgate.abuse_gate.documents import worker
limits = dict(kind="html", cpu_s=5, memory_bytes=2**29, characters=1000, answer_bytes=10_000)
def hostile(kind, data, found, limits):
    for name, act in dict(
        read=lambda: open("/etc/hostname"),
        write=lambda: open({file!r}, "w"),
        fork=lambda: os.fork() or os._exit(0),
        say=lambda: os.write(1, b"forged"),
        run=lambda: __import__("subprocess").run(["true"]),
        connect=lambda: __import__("socket").socket(),
    ).items():
        try:
            act()
        except (OSError, ImportError):
            found.count("refused")
        else:
            found.show(name)
import socket, subprocess
worker.extract = hostile
sys.stdout.write(worker._answer_in_fork(limits, b"").decode())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits differ between systems")
def test_a_parser_that_was_taken_over_reaches_nothing(tmp_path: Path) -> None:
    root = str(Path(__file__).parents[3] / "src")
    program = CONFINED.format(root=root, file=str(tmp_path / "x"))
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, timeout=60, check=True)
    said = json.loads(done.stdout)
    # Root may have as many processes as it likes; a fork gains nothing.
    assert set(said["visible"]) <= ({"fork"} if os.getuid() == 0 else set())
    assert said["stats"]["refused"] >= 5
