"""What came along with a request: documents are taken apart in processes of their own, and judged by the rules here.

A parser that a hostile file can stop, fill or crash does that to a process that serves one document. Whatever does not
come back whole and in time (dead, late, odd, too large) is `artifact:unread`: suspicious, never a pass.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Lock, Timer
from typing import Any, BinaryIO, Final, NamedTuple, cast
from weakref import finalize

import lockgate
from lockgate.abuse_gate.documents.extracted import BY_STRETCH, HIDING_WAYS
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
from lockgate.abuse_gate.request.normalize import UNREAD, InspectedUpload, Upload
from lockgate.core.requests.assessment import TOO_BROAD
from lockgate.core.ruling.policy import Policy
from lockgate.core.text.rules import Scope
from lockgate.core.text.scanner import Scanner
from lockgate.gate.gate import shared_scanner
from lockgate.runtime.worker_pool import Full, WorkerPool

# Families of rules that speak to an agent: in a text that is hidden any of them counts, however broad it is.
_AGENT_FAMILIES: Final = frozenset({"override", "authority", "concealment", "tool", "markup", "custom"})
_STATS: Final = frozenset("pages images entries lines_scanned image_only_pages attachments".split())
# Source code is full of words that a rule might find, and no reader is shown it; only what speaks to an agent counts.
_NOT_READ: Final = frozenset({"script"})
# Ways to read one page.
_MAX_PAGES: Final = 4
_META = re.compile(rb"charset\s{0,8}=\s{0,8}[\"']?([A-Za-z0-9_:.-]{2,39})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class InspectionLimits:
    """How much of an upload is read, and at what cost. Past any of these the rest counts as unread."""

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
    """Looks into uploads. Its processes start with the first document; `close` ends them, and so does our own end."""

    def __init__(self, limits: InspectionLimits | None = None, *, scanner: Scanner | None = None) -> None:
        self.limits = limits or InspectionLimits()
        self._scanner = scanner
        # Nobody's slow documents take all of the processes.
        self._lane = WorkerPool(
            self.limits.workers, max_jobs=self.limits.waiting, per_client=max(1, self.limits.workers - 1)
        )
        self._lock = Lock()
        self._idle: list[_DocumentWorker] = []
        self._busy: set[_DocumentWorker] = set()
        self._closed = Event()
        # Whoever forgets to close it leaves no process behind either.
        finalize(self, _end_workers, self._idle)

    async def inspect(self, uploads: Sequence[Upload], *, whom: str = "") -> list[InspectedUpload]:
        """One answer for each upload, in order; within `total_s`. Whoever they are from (`whom`) takes turns."""
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
                        with suppress(Exception):
                            found[number] = future.result()()
        finally:
            for future in waiting.values():
                future.cancel()
        return [
            one or _unread_upload(upload, upload.kind or "binary") for one, upload in zip(found, uploads, strict=True)
        ]

    def inspect_one(self, upload: Upload, kind: str) -> InspectedUpload:
        """One document, in this thread: it waits up to `timeout_s` for the process that reads it."""
        most = self.limits.characters
        if kind in ("text", "html"):
            texts, whole = _decode_upload(upload, kind)
        else:
            texts, whole = [], True
        if kind == "text":
            text = _chat_file_text(upload.name, texts) or "\n".join(texts)
            if len(text) > most:
                # Of its other readings only what speaks to an agent counts then, see below.
                text = texts[0]
            answer = _WorkerAnswer(
                (text[:most],), (), {}, whole and len(text) <= most and not text.startswith("{\\rtf")
            )
        elif kind in MEDIA:
            answer = _WorkerAnswer((), (), {}, complete=True)
        elif kind in ("archive", "binary"):
            answer = _WorkerAnswer((), (), {}, complete=False)
        elif kind == "html":
            # As each of those who read it otherwise sees it.
            pages = [self._ask_worker(kind, one.encode("utf-8", "ignore")) for one in texts[:_MAX_PAGES]]
            answer = _merge_answers(pages, whole=whole and len(texts) <= _MAX_PAGES)
        else:
            answer = self._ask_worker(kind, upload.data) or _WorkerAnswer((), (), {}, complete=False)
        if self._scanner is None:
            self._scanner = shared_scanner(Policy())
        bare = ""
        if kind in ("text", "html"):
            bare, all_of_it = _other_readings(upload.data, texts, most)
            if not all_of_it:
                answer = answer._replace(complete=False)
        else:
            # Somebody may look at its bytes and not at its format: what those say is said as well.
            bare, all_of_it = printable_words(upload.data[: self.limits.document_bytes], most)
            if not all_of_it and is_text(upload.data):
                answer = answer._replace(complete=False)
        return judge_document(upload, kind, answer, self._scanner, bare)

    async def close(self) -> None:
        with self._lock:
            self._closed.set()
            workers = [*self._idle, *self._busy]
            self._idle.clear()
        for worker in workers:
            worker.end()
        for worker in workers:
            await asyncio.to_thread(worker.wait)

    def _ask_worker(self, kind: str, data: bytes) -> _WorkerAnswer | None:
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
        # Nothing of ours goes along: no variables, where the keys are, and no open files.
        environ = {name: os.environ[name] for name in ("SYSTEMROOT",) if name in os.environ}
        self.ended = False
        self._owner = os.getpid()
        self._process = subprocess.Popen(  # noqa: S603 - our own program, nothing of the upload's on its line
            [sys.executable, "-I", "-c", program, root],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environ,
            start_new_session=True,
        )

    def ask(self, kind: str, data: bytes, limits: InspectionLimits) -> _WorkerAnswer | None:
        """Its answer, or None if there is none in time; then the process is of no more use."""
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
            # It may be about to end the process: then that is known before anybody else is given it.
            timer.join()
        return _parse_answer(answer, limits) if answer is not None else None

    def is_usable(self) -> bool:
        """Whether it is there, and ours: after a fork of ours it is the parent's to talk to."""
        return self._owner == os.getpid() and self._process.poll() is None

    def end(self) -> None:
        """At once, with what it started."""
        if self._owner != os.getpid():
            return
        self.ended = True
        with suppress(OSError):
            if hasattr(os, "killpg"):
                # Its number is not given to another process before `wait`.
                if self._process.returncode is None:
                    os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()

    def wait(self) -> None:
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


class _WorkerAnswer(NamedTuple):
    visible: tuple[str, ...]
    hidden: tuple[tuple[str, str], ...]
    stats: Mapping[str, int]
    complete: bool


def _parse_answer(frame: bytes, limits: InspectionLimits) -> _WorkerAnswer | None:
    """What the process says, if it is what it should say: a hostile file may have been the one to write it."""
    try:
        said = json.loads(frame)
        visible, hidden, stats, complete = said["visible"], said["hidden"], said["stats"], said["complete"]
        pairs = tuple((how, text) for how, text in hidden)
        texts = [*visible, *(text for _, text in pairs)]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    plain = (
        isinstance(visible, list)
        and isinstance(stats, dict)
        and type(complete) is bool
        and all(type(text) is str for text in texts)
        and all(type(how) is str and how in HIDING_WAYS for how, _ in pairs)
        and all(name in _STATS and type(count) is int and 0 <= count < 10**9 for name, count in stats.items())
        and sum(map(len, texts)) <= limits.characters
    )
    return _WorkerAnswer(tuple(visible), pairs, stats, complete) if plain else None


# --- what it means


def judge_document(
    upload: Upload, kind: str, answer: _WorkerAnswer, scanner: Scanner, bare: str = ""
) -> InspectedUpload:
    """What the rules say about a document; `bare`: its bytes, to those who take them for a text."""
    hits: list[str] = []
    complete = answer.complete
    texts = list(answer.visible)
    hidden: list[str] = []
    by_how: dict[str, list[str]] = {}
    for how, text in answer.hidden:
        by_how.setdefault(how, []).append(text)
    for how, pieces in by_how.items():
        joined = "\n".join(pieces)
        families, loud, read = _find_families(joined, scanner)
        complete = complete and read
        letters = max(map(_count_letters, pieces)) if how in BY_STRETCH else _count_letters(joined)
        sizeable = HIDING_WAYS[how] is not None and letters >= cast(int, HIDING_WAYS[how])
        # What nobody can see and speaks to an agent was put there for one.
        if loud or (families and HIDING_WAYS[how] is not None):
            hits += [f"{kind}:hidden", *(_injection_rule(family) for family in families)]
        elif sizeable or families:
            hits.append(f"{kind}:hidden")
        (hidden if families or HIDING_WAYS[how] is not None else texts if how not in _NOT_READ else []).append(joined)
    families, loud, read = _find_families("\n".join(answer.visible), scanner)
    complete = complete and read
    if bare:
        loud = list(dict.fromkeys([*loud, *_find_families(bare, scanner)[1]]))
        # What is no document after all is shown to a model as the text that it may be.
        if kind in ("pdf", "docx", "html") and not answer.visible and not answer.complete:
            texts.append(bare)
    if loud:
        hits += [_injection_rule(family) for family in loud]
    if (
        kind == "pdf"
        and complete
        and (not any(map(str.strip, answer.visible)) or any(map(_is_scattered, answer.visible)))
    ):
        # Drawn or scanned, or letters in no order: a model that looks at pages reads what no rule has seen.
        hits.append("pdf:no_text")
    if kind == "docx" and answer.stats.get("attachments"):
        # A file of another kind inside it, that nobody opened.
        hits.append("docx:embedded")
    if not complete:
        hits.append(UNREAD)
    if kind in MEDIA and not hits:
        return InspectedUpload(upload.name, kind, stats={"bytes": len(upload.data)})
    stats = {
        "bytes": len(upload.data),
        "characters": sum(map(len, answer.visible)),
        "hidden_characters": sum(map(len, hidden)),
        "spans_count": len(hidden),
        **answer.stats,
    }
    return InspectedUpload(upload.name, kind, tuple(texts), tuple(hidden), tuple(dict.fromkeys(hits)), stats, complete)


def _find_families(text: str, scanner: Scanner) -> tuple[list[str], list[str], bool]:
    """The families that hit a text and could speak to an agent, those that surely do, and whether all was read."""
    scan = scanner.scan(text)
    families: dict[str, None] = {}
    loud: dict[str, None] = {}
    for part in scan.parts:
        for hit in part.hits:
            rule = hit.rule
            if rule.id in TOO_BROAD or rule.scope is Scope.ARGUMENTS:
                continue
            if rule.scope is Scope.AGENT:
                loud[rule.family] = None
            if rule.scope is Scope.AGENT or rule.family in _AGENT_FAMILIES:
                families[rule.family] = None
    return list(families), list(loud), not scan.capped


def _injection_rule(family: str) -> str:
    return "inj:override_safety" if family == "override" else f"inj:{family}"


def _count_letters(text: str) -> int:
    return sum(map(str.isalnum, text))


def _is_scattered(page: str) -> bool:
    """Whether a page is written in letters that only their places on it make words of."""
    words = [len(word) for word in re.findall("[A-Za-z]+", page[:20_000])]
    return len(words) >= 20 and sum(words) < 2.6 * len(words)


def _merge_answers(pages: Sequence[_WorkerAnswer | None], *, whole: bool) -> _WorkerAnswer:
    read = [page for page in pages if page is not None]
    visible = dict.fromkeys(text for page in read for text in page.visible)
    hidden = dict.fromkeys(pair for page in read for pair in page.hidden)
    complete = whole and len(read) == len(pages) and all(page.complete for page in read)
    return _WorkerAnswer(tuple(visible), tuple(hidden), read[0].stats if read else {}, complete)


def _other_readings(data: bytes, texts: Sequence[str], most: int) -> tuple[str, bool]:
    """A text that is not UTF-8 in the older charsets that it may be in, and whether that is all of it."""
    found = dict.fromkeys(texts[1:])
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        for charset in OLDER_CHARSETS:
            with suppress(UnicodeError):
                found[data.decode(charset)] = None
    text = "\n".join(found)
    return text[: most * len(OLDER_CHARSETS)], len(text) <= most * len(OLDER_CHARSETS)


def _chat_file_text(name: str, texts: Sequence[str]) -> str:
    """What is said in a file of chats, a line each, as models are trained with; nothing for any other file.

    Its roles are what such a file is made of. In any other text they are turns that somebody forged.
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
    """A text in every way in which it may be read, and whether one of them is all of it."""
    parsed = parse_parameters(upload.content_type) if upload.content_type else None
    declared = known_charset(parsed[1].get("charset", "")) if parsed else ""
    texts, whole = possible_texts(upload.data, declared)
    within = _META.search(upload.data[:4096]) if kind == "html" else None
    if within is not None:
        # A page says itself what it is written in, and some believe it.
        charset = known_charset(within[1].decode("ascii"))
        if charset not in ("", "utf-8"):
            texts = list(dict.fromkeys((*texts, upload.data.decode(charset, "replace"))))
    if not whole:
        # As programs wrote it for long.
        for charset in OLDER_CHARSETS:
            with suppress(UnicodeError):
                return list(dict.fromkeys((upload.data.decode(charset), *texts))), True
    return texts, whole
