"""Reads uploads: each document in a process of its own, and judges its texts by the rules here.

A hostile file can hang, fill or crash its parser; that hits only the process that reads this one document. A document
that does not come back whole and in time is `artifact:unread`: suspicious, never a pass.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Lock, Timer
from typing import Any, BinaryIO, Final, cast
from weakref import finalize

import lockgate
from lockgate.abuse_gate.documents.document_judge import DocumentText, judge_document
from lockgate.abuse_gate.documents.extracted_text import HIDING_WAYS
from lockgate.abuse_gate.documents.worker import read_frame, write_frame
from lockgate.abuse_gate.request.content_kinds import (
    MEDIA,
    OLDER_CHARSETS,
    detect_kind,
    is_text,
    known_charset,
    possible_texts,
    printable_words,
)
from lockgate.abuse_gate.request.conversation import ConversationReader
from lockgate.abuse_gate.request.json_body import UnreadableRequest, read_json
from lockgate.abuse_gate.request.multipart import parse_parameters
from lockgate.abuse_gate.request.payload_from_body import UNREAD, InspectedUpload, Upload
from lockgate.abuse_gate.request.xml_text import joined_text
from lockgate.core.ruling.policy import Policy
from lockgate.core.text.scanner import Scanner
from lockgate.gate.gate import shared_scanner
from lockgate.runtime.failures import report_failure
from lockgate.runtime.worker_pool import Full, WorkerPool

_STATS: Final = frozenset("pages images entries lines_scanned image_only_pages attachments".split())
# How many charset readings of one page are read.
_MAX_PAGES: Final = 4
_META = re.compile(rb"charset\s{0,8}=\s{0,8}[\"']?([A-Za-z0-9_:.-]{2,39})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class InspectionLimits:
    """How much of an upload is read, and at what cost. Past a limit, the rest counts as unread."""

    document_bytes: int = 16 * 1024 * 1024
    pages: int = 200
    unpacked_bytes: int = 32 * 1024 * 1024
    characters: int = 400_000
    timeout_s: float = 10.0
    total_s: float = 15.0
    cpu_s: int = 10
    memory_bytes: int = 512 * 1024 * 1024
    workers: int = 2
    waiting: int = 64


class Inspector:
    """Reads uploads. Its processes start with the first document; `close` ends them, and so does the end of ours."""

    def __init__(self, limits: InspectionLimits | None = None, *, scanner: Scanner | None = None) -> None:
        self.limits = limits or InspectionLimits()
        self._scanner = scanner
        # One client's slow documents never take all of the processes.
        self._lane = WorkerPool(
            self.limits.workers, max_jobs=self.limits.waiting, per_client=max(1, self.limits.workers - 1)
        )
        self._lock = Lock()
        self._idle: list[_DocumentWorker] = []
        self._busy: set[_DocumentWorker] = set()
        self._closed = Event()
        # An inspector that is not closed leaves no process behind either.
        finalize(self, _end_workers, self._idle)

    async def inspect(self, uploads: Sequence[Upload], *, whom: str = "") -> list[InspectedUpload]:
        """Return one result for each upload, in order, within `total_s`. Clients (`whom`) take turns."""
        found: list[InspectedUpload | None] = [None] * len(uploads)
        waiting: dict[int, asyncio.Future[Any]] = {}
        for number, upload in enumerate(uploads):
            kind = upload.kind or detect_kind(upload.data, upload.content_type, upload.name)
            if len(upload.data) > self.limits.document_bytes and kind not in MEDIA:
                found[number] = _unread_upload(upload, kind)
            else:
                with suppress(Full):
                    started = self._lane.submit(lambda upload=upload, kind=kind: self.inspect_one(upload, kind), whom)  # type: ignore[misc]
                    waiting[number] = asyncio.wrap_future(started)
        try:
            if waiting:
                done, _ = await asyncio.wait(waiting.values(), timeout=self.limits.total_s)
                for number, future in waiting.items():
                    if future in done:
                        found[number] = _result_of(future)
        finally:
            for future in waiting.values():
                future.cancel()
        return [
            one or _unread_upload(upload, upload.kind or "binary") for one, upload in zip(found, uploads, strict=True)
        ]

    def inspect_one(self, upload: Upload, kind: str) -> InspectedUpload:
        """Read one document in this thread, waiting up to `timeout_s` for the process that reads it."""
        if self._scanner is None:
            self._scanner = shared_scanner(Policy())
        most = self.limits.characters
        if kind in ("text", "html"):
            texts, whole = _decode_upload(upload, kind)
            answer = (
                self._read_pages(texts, whole=whole) if kind == "html" else self._read_text(upload, texts, whole=whole)
            )
            bare, complete = _other_readings(upload.data, texts, most)
        else:
            answer = self._read_binary(upload.data, kind)
            # An application may read the bytes and ignore the format: their words count as well.
            bare, complete = printable_words(upload.data[: self.limits.document_bytes], most)
            complete = complete or not is_text(upload.data)
        answer = answer._replace(complete=answer.complete and complete)
        return judge_document(upload, kind, answer, self._scanner, bare)

    def _read_text(self, upload: Upload, texts: Sequence[str], *, whole: bool) -> DocumentText:
        most = self.limits.characters
        text = _chat_file_text(upload.name, texts) or "\n".join(texts)
        if len(text) > most:
            # Then only the first reading is shown; the rules still see the others, see `_other_readings`.
            text = texts[0]
        return DocumentText((text[:most],), (), {}, whole and len(text) <= most and not text.startswith("{\\rtf"))

    def _read_pages(self, texts: Sequence[str], *, whole: bool) -> DocumentText:
        """Read an HTML page in each charset that an application may read it in."""
        pages = [self._ask_worker("html", one.encode("utf-8", "ignore")) for one in texts[:_MAX_PAGES]]
        return _merge_answers(pages, whole=whole and len(texts) <= _MAX_PAGES)

    def _read_binary(self, data: bytes, kind: str) -> DocumentText:
        answer = None if kind in (*MEDIA, "archive", "binary") else self._ask_worker(kind, data)
        # Media are not read, and are `unclear` for that; see the flags of a request.
        return answer or DocumentText((), (), {}, kind in MEDIA)

    async def close(self) -> None:
        """End all processes."""
        with self._lock:
            self._closed.set()
            workers = [*self._idle, *self._busy]
            self._idle.clear()
        for worker in workers:
            worker.end()
        for worker in workers:
            await asyncio.to_thread(worker.wait)

    def _ask_worker(self, kind: str, data: bytes) -> DocumentText | None:
        try:
            worker = self._take_worker()
        except OSError:
            return None
        if worker is None:
            return None
        answer = worker.ask(kind, data, self.limits)
        with self._lock:
            self._busy.discard(worker)
            keep = answer is not None and worker.reusable and not worker.ended and not self._closed.is_set()
            if keep:
                self._idle.append(worker)
        if not keep:
            worker.end()
            worker.wait()
        return answer

    def _take_worker(self) -> _DocumentWorker | None:
        with self._lock:
            if self._closed.is_set():
                return None
            while self._idle:
                worker = self._idle.pop()
                if worker.is_usable():
                    self._busy.add(worker)
                    return worker
                worker.wait()
        worker = _DocumentWorker()
        with self._lock:
            if not self._closed.is_set():
                self._busy.add(worker)
                return worker
        _end_workers([worker])
        return None


# --- the process


class _DocumentWorker:
    """One process that reads documents, for one thread at a time."""

    reusable = hasattr(os, "fork")

    def __init__(self) -> None:
        root = str(Path(lockgate.__file__).parents[1])
        program = (
            "import sys; sys.path.insert(0, sys.argv[1]); from lockgate.abuse_gate.documents.worker import main; main()"
        )
        # The process gets no environment, where the keys are, and no open files.
        environ = {name: os.environ[name] for name in ("SYSTEMROOT",) if name in os.environ}
        self.ended = False
        self._owner = os.getpid()
        self._process = subprocess.Popen(  # noqa: S603 - our own program; nothing of the upload is in its arguments
            [sys.executable, "-I", "-c", program, root],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environ,
            start_new_session=True,
        )

    def ask(self, kind: str, data: bytes, limits: InspectionLimits) -> DocumentText | None:
        """Return the process's answer; None if there is none in time, and then the process must not be used again."""
        # JSON writes a character in up to twelve bytes.
        most = limits.characters * 12 + 1_000_000
        head = {
            "kind": kind,
            "pages": limits.pages,
            "unpacked_bytes": limits.unpacked_bytes,
            "characters": limits.characters,
            "cpu_s": limits.cpu_s,
            "memory_bytes": limits.memory_bytes,
            "answer_bytes": most,
        }
        timer = Timer(limits.timeout_s, self.end)
        timer.daemon = True
        timer.start()
        try:
            write_frame(cast(BinaryIO, self._process.stdin), json.dumps(head).encode("ascii") + b"\n" + data)
            answer = read_frame(cast(BinaryIO, self._process.stdout), most)
        except (OSError, ValueError):
            return None
        finally:
            timer.cancel()
            # The timer may be about to end the process: wait, so that no other thread gets an ended one.
            timer.join()
        return _parse_answer(answer, limits) if answer is not None else None

    def is_usable(self) -> bool:
        """Return whether the process runs and belongs to us; after a fork it belongs to the parent."""
        return self._owner == os.getpid() and self._process.poll() is None

    def end(self) -> None:
        """Kill the process and all that it started."""
        if self._owner != os.getpid():
            return
        self.ended = True
        with suppress(OSError):
            if hasattr(os, "killpg"):
                # The system does not reuse its number before `wait`.
                if self._process.returncode is None:
                    os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()

    def wait(self) -> None:
        """Wait for the end of the process, and close its pipes."""
        if self._owner == os.getpid():
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=5)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()


def _end_workers(workers: list[_DocumentWorker]) -> None:
    for worker in workers:
        worker.end()
        worker.wait()


def _parse_answer(frame: bytes, limits: InspectionLimits) -> DocumentText | None:
    """Return the process's answer; None if it has the wrong shape, because a hostile file may have written it."""
    try:
        said = json.loads(frame)
        visible, hidden, stats, complete = said["visible"], said["hidden"], said["stats"], said["complete"]
        pairs = tuple((how, text) for how, text in hidden)
        texts = [*visible, *(text for _, text in pairs)]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    shaped = isinstance(visible, list) and isinstance(stats, dict) and type(complete) is bool
    if not shaped or not all(type(text) is str for text in texts) or sum(map(len, texts)) > limits.characters:
        return None
    if not all(type(how) is str and how in HIDING_WAYS for how, _ in pairs) or not all(map(_is_stat, stats.items())):
        return None
    return DocumentText(tuple(visible), pairs, stats, complete)


def _is_stat(stat: tuple[object, object]) -> bool:
    name, count = stat
    return name in _STATS and type(count) is int and 0 <= count < 10**9


def _result_of(future: asyncio.Future[Any]) -> InspectedUpload | None:
    try:
        return cast(InspectedUpload, future.result()())
    except Exception as error:  # noqa: BLE001 - the edge to the readers: a document that breaks one is unread
        report_failure("abuse_gate.documents", error)
        return None


def _merge_answers(pages: Sequence[DocumentText | None], *, whole: bool) -> DocumentText:
    read = [page for page in pages if page is not None]
    visible = dict.fromkeys(text for page in read for text in page.visible)
    hidden = dict.fromkeys(pair for page in read for pair in page.hidden)
    complete = whole and len(read) == len(pages) and all(page.complete for page in read)
    return DocumentText(tuple(visible), tuple(hidden), read[0].stats if read else {}, complete)


def _other_readings(data: bytes, texts: Sequence[str], most: int) -> tuple[str, bool]:
    """Return a text as a parser of XML joins it, and if it is not UTF-8 in the older charsets that fit; and whether
    that is all of it.
    """
    # A page or a drawing may be read by a parser of XML.
    joined = [joined_text(text, document=text.lstrip()[:1] == "<") for text in texts if "<" in text]
    found = dict.fromkeys([*texts[1:], *joined])
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        for charset in OLDER_CHARSETS:
            with suppress(UnicodeError):
                found[data.decode(charset)] = None
    text = "\n".join(found)
    return text[: most * len(OLDER_CHARSETS)], len(text) <= most * len(OLDER_CHARSETS)


def _chat_file_text(name: str, texts: Sequence[str]) -> str:
    """Return the texts of a training file with one chat a line; an empty text for any other file.

    Such a file has roles by its nature. In any other text they are forged turns.
    """
    if not name.lower().endswith(".jsonl") or len(texts) != 1:
        return ""
    reading = ConversationReader()
    try:
        for line in texts[0].splitlines():
            value = read_json(line) if line.strip() else {"messages": []}
            if not isinstance(value, dict) or not isinstance(value.get("messages"), list):
                return ""
            reading.add_json(value)
    except UnreadableRequest:
        return ""
    if reading.uploads:
        return ""
    return "\n".join(turn.text for turn in reading.turns)


def _unread_upload(upload: Upload, kind: str) -> InspectedUpload:
    return InspectedUpload(upload.name, kind, rule_hits=(UNREAD,), stats={"bytes": len(upload.data)}, complete=False)


def _decode_upload(upload: Upload, kind: str) -> tuple[list[str], bool]:
    """Return a text in every way it may be read, and whether one of them is all of it."""
    parsed = parse_parameters(upload.content_type) if upload.content_type else None
    declared = known_charset(parsed[1].get("charset", "")) if parsed else ""
    texts, whole = possible_texts(upload.data, declared)
    within = _META.search(upload.data[:4096]) if kind == "html" else None
    if within is not None:
        # A page names its own charset, and some readers believe it.
        charset = known_charset(within[1].decode("ascii"))
        if charset not in ("", "utf-8"):
            texts = list(dict.fromkeys((*texts, upload.data.decode(charset, "replace"))))
    if not whole:
        # As older programs wrote it.
        for charset in OLDER_CHARSETS:
            with suppress(UnicodeError):
                return list(dict.fromkeys((upload.data.decode(charset), *texts))), True
    return texts, whole
