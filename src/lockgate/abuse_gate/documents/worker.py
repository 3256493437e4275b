"""The process that reads documents: `Inspector` starts it, and kills it when it takes too long.

It reads requests from its standard input and answers each on its standard output. Each document gets a process of its
own, a fork of this one, with limits on memory and processor time. It may open no file and start no process, and ends
with its document. Without fork, the Inspector ends the whole worker.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from importlib import import_module
from pkgutil import walk_packages
from typing import Any, BinaryIO

from lockgate.abuse_gate.documents.docx import read_docx
from lockgate.abuse_gate.documents.extracted_text import ExtractedText
from lockgate.abuse_gate.documents.html import read_html
from lockgate.abuse_gate.documents.pdf import read_pdf

_UNREAD = b'{"complete": false, "visible": [], "hidden": [], "stats": {}}'


def main() -> None:
    """Answer requests until standard input ends."""
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    _import_readers()
    while True:
        request = read_frame(stdin)
        if request is None:
            return
        head, _, data = request.partition(b"\n")
        limits = json.loads(head)
        answer = _answer_in_fork(limits, data) if hasattr(os, "fork") else _extract_answer(limits, data)
        write_frame(stdout, answer)


def _import_readers() -> None:
    """Import all modules that reading may need: afterwards the process can open no file."""
    for name in ("encodings", "pypdf", "zipfile", "html"):
        with suppress(ImportError):
            package = import_module(name)
            for module in walk_packages(getattr(package, "__path__", ()), f"{name}."):
                # Some are for other systems, some need libraries that are not installed.
                with suppress(ImportError):
                    import_module(module.name)


def _answer_in_fork(limits: dict[str, Any], data: bytes) -> bytes:
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        # The child must never return: it would answer in the parent's place.
        try:
            # Nor may a hostile parser write to the parent's pipes.
            for number in (readable, 0, 1):
                os.close(number)
            _confine(limits)
            answer = _extract_answer(limits, data)
            with os.fdopen(writable, "wb", closefd=False) as pipe:
                pipe.write(answer)
        finally:
            os._exit(0)
    os.close(writable)
    pieces = []
    left = int(limits["answer_bytes"])
    while left > 0 and (piece := os.read(readable, 65_536)):
        pieces.append(piece)
        left -= len(piece)
    os.close(readable)
    os.waitpid(child, 0)
    return b"".join(pieces) if pieces and left > 0 else _UNREAD


def _confine(limits: dict[str, Any]) -> None:
    import resource

    def at_most(what: int, number: int) -> None:
        _, hard = resource.getrlimit(what)
        if hard != resource.RLIM_INFINITY:
            number = min(number, hard)
        resource.setrlimit(what, (number, number))

    at_most(resource.RLIMIT_CORE, 0)
    at_most(resource.RLIMIT_FSIZE, 0)
    at_most(resource.RLIMIT_CPU, int(limits["cpu_s"]))
    at_most(resource.RLIMIT_AS, int(limits["memory_bytes"]))
    # Root ignores the limit on processes; without open files it cannot start one either.
    at_most(resource.RLIMIT_NOFILE, 0)
    at_most(resource.RLIMIT_NPROC, 0)


def _extract_answer(limits: dict[str, Any], data: bytes) -> bytes:
    found = ExtractedText(int(limits["characters"]))
    try:
        extract(limits["kind"], data, found, limits)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - the edge to the parsers: a hostile file may raise anything; keep what was read
        found.complete = False
    said = {"complete": found.complete, "visible": found.visible, "hidden": found.hidden, "stats": found.stats}
    return json.dumps(said).encode("ascii")


def extract(kind: str, data: bytes, found: ExtractedText, limits: dict[str, Any]) -> None:
    """Read all text of a document."""
    if kind == "pdf":
        read_pdf(data, found, int(limits["pages"]))
    elif kind == "docx":
        read_docx(data, found, int(limits["unpacked_bytes"]))
    else:
        read_html(data.decode("utf-8"), found)


def read_frame(stream: BinaryIO, most: int = 2**31) -> bytes | None:
    """Return the next message, or None at the end: eight bytes with its length, then its bytes."""
    head = stream.read(8)
    if len(head) < 8:
        return None
    size = int.from_bytes(head, "big")
    if size > most:
        return None
    body = stream.read(size)
    return body if len(body) == size else None


def write_frame(stream: BinaryIO, body: bytes) -> None:
    """Write a message as `read_frame` reads it."""
    stream.write(len(body).to_bytes(8, "big") + body)
    stream.flush()
