"""What Claude Code puts into its model's context without an event that holds the text: files, and its own transcript.

A file that is mentioned, a command, a skill and CLAUDE.md come with whatever folder the agent works in. Events only
name them, so they are read here. Everything is bounded, and nothing but a plain file is opened: a name may come out of
a text that an attacker wrote.

Each program that has the agent's token can name a file. Only what the account that asks can read itself is read for
it, and an event about instructions names a file that Claude Code takes for instructions, or one that such a file
includes. Of what is read, no word goes back over /hooks, but for the file's name.
"""

from __future__ import annotations

import os
import re
import stat
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from io import BytesIO
from itertools import islice
from threading import Lock
from typing import NamedTuple

from lockgate.claude_code.transcripts import Call, Entry, Prompt, Result, Text, UnreadableLine, parse_entries
from lockgate.runtime.accounts import Account, open_as
from lockgate.runtime.project_files import folders_upwards
from lockgate.sessions import Piece

# More than Claude Code reads of a file by itself.
MAX_FILE_BYTES = 2 * 1024 * 1024
MAX_MENTIONS = 32
# A transcript that is larger is not one to rebuild a context from while a call waits.
MAX_TRANSCRIPT_BYTES = 128 * 1024 * 1024
# What is new in a transcript since the last call; the rest waits for the next one.
MAX_NEWS_BYTES = 8 * 1024 * 1024
_MAX_FOLLOWED = 1024
# Byte for byte, and without waiting for a pipe's other end.
_OPEN_FLAGS = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)

# As Claude Code reads them: after a blank or at the start, up to a blank, or in quotes.
_MENTION = re.compile(r'(?:^|(?<=[\s(]))@(?:"([^"\n]{1,1000})"|([^\s"]{1,1000}))')
_LINES = re.compile(r"#L\d+(?:-L?\d+)?$")
_NAME = re.compile(r"[\w][\w.:-]{0,200}")
# What Claude Code takes for instructions wherever it finds it; its rules are all texts of a folder and those below it.
_INSTRUCTIONS = frozenset({"AGENTS.md", "CLAUDE.local.md", "CLAUDE.md"})
_RULES = "/.claude/rules/"
# In the place of a text that the model has read and that is not read here.
UNREAD = Piece("", "")
# Lines of a transcript that hold what entered the context by itself; all others come as events.
_HOST_LINE_MARKS = (b'"type":"attachment"', b'"isMeta":true', b"<bash-std", b"<local-command-std")


def config_folders(environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Where Claude Code keeps its own files, for the user this runs as."""
    named = environ.get("CLAUDE_CONFIG_DIR", "")
    usual = os.path.join(os.path.expanduser("~"), ".claude")
    return (os.path.realpath(named), os.path.realpath(usual)) if named else (os.path.realpath(usual),)


def instruction_piece(path: str, included_by: str, account: Account) -> Piece | None:
    """A file that the host says it has loaded as instructions; UNREAD where it is none that is read here."""
    if is_instruction_file(path) or (included_by and _includes(included_by, path, account)):
        return file_piece(path, account)
    return UNREAD


def is_instruction_file(path: str) -> bool:
    """Return whether Claude Code takes a file of this name for instructions."""
    plain = os.path.normpath(path).replace(os.sep, "/")
    rules = (_RULES, *(f"{folder}/rules/" for folder in config_folders()))
    return os.path.basename(path) in _INSTRUCTIONS or (plain.endswith(".md") and any(each in plain for each in rules))


def instruction_files(folder: str) -> Iterator[str]:
    """Yield where Claude Code would look for instructions when it works in this folder; a file need not be there."""
    for each in folders_upwards(folder):
        yield from (os.path.join(each, name) for name in sorted(_INSTRUCTIONS))
        rules = os.path.join(each, ".claude", "rules")
        with suppress(OSError):
            yield from (os.path.join(rules, name) for name in sorted(os.listdir(rules)) if name.endswith(".md"))


def _includes(parent: str, path: str, account: Account) -> bool:
    """Return whether a text names this file after an `@`, as an include does."""
    piece = file_piece(parent, account)
    named = _mentioned_paths(piece.content, os.path.dirname(parent)) if piece is not None else ()
    return any(os.path.normpath(each) == os.path.normpath(path) for each in named)


def file_piece(path: str, account: Account) -> Piece | None:
    """A file as a piece of context; None where there is nothing to be read, UNREAD where the account may not read it.

    Its key is its content, so that the same file loaded again says nothing new.
    """
    try:
        data = read_content(path, account)
    except PermissionError:
        return UNREAD
    if not data:
        return None
    text = data.decode("utf-8", "replace")
    key = sha256(f"{path}\0".encode("utf-8", "surrogateescape") + data).hexdigest()[:40]
    return Piece(text, f"file:{path}"[:1000], key=f"file:{key}")


def read_content(path: str, account: Account, most: int = MAX_FILE_BYTES) -> bytes:
    """Return the start of a file, and nothing for a pipe or a device; raise PermissionError as `open_as` does."""
    try:
        handle = open_as(account, path)
    except PermissionError:
        raise
    except (OSError, ValueError):
        return b""
    try:
        return os.read(handle, most) if stat.S_ISREG(os.fstat(handle).st_mode) else b""
    except OSError:
        return b""
    finally:
        os.close(handle)


def mentioned_pieces(prompt: str, cwd: str, account: Account) -> Iterator[Piece]:
    """The files that a prompt names with an `@`: their text goes to the model, and no event tells it."""
    for path in islice(_mentioned_paths(prompt, cwd), MAX_MENTIONS):
        piece = file_piece(path, account)
        # What our own account may not read, the host of the same account has not read either.
        if piece is not None and not (piece is UNREAD and account.is_own):
            yield piece


def _mentioned_paths(text: str, folder: str) -> Iterator[str]:
    seen: set[str] = set()
    for quoted_name, name in _MENTION.findall(text):
        path = _LINES.sub("", quoted_name or name)
        for spelled in (path, path.rstrip(".,;:!?)")):
            full = os.path.join(folder, os.path.expanduser(spelled))
            if full not in seen:
                seen.add(full)
                yield full


def command_pieces(name: str, cwd: str, account: Account) -> Iterator[Piece]:
    """The texts of a slash command or skill of this name: of the project, and of the user."""
    if not _NAME.fullmatch(name) or ".." in name:
        return
    inner = name.replace(":", "/")
    short = name.rpartition(":")[2]
    for folder in (*folders_upwards(cwd), *config_folders()):
        base = folder if folder in config_folders() else os.path.join(folder, ".claude")
        for path in (f"commands/{inner}.md", f"skills/{short}/SKILL.md"):
            piece = file_piece(os.path.join(base, path), account)
            # Most of these places do not exist, and for another account that cannot be told from one it may not read.
            if piece is not None and piece is not UNREAD:
                yield piece


# The transcript


class TranscriptOwner(NamedTuple):
    """Whose transcript: a session's, or that of an agent it has started."""

    session: str
    agent: str = ""


def transcript_path(named: object, whose: TranscriptOwner) -> str:
    """The transcript's file if it lies where Claude Code keeps it, under the session's own name; else nothing."""
    if not isinstance(named, str) or not named or "\0" in named:
        return ""
    path = os.path.realpath(named)
    below = any(path.startswith(os.path.join(folder, "projects") + os.sep) for folder in config_folders())
    if not below or os.path.basename(path) != f"{whose.session}.jsonl":
        return ""
    if not whose.agent:
        return path
    if not _NAME.fullmatch(whose.agent):
        return ""
    return os.path.join(path.removesuffix(".jsonl"), "subagents", f"agent-{whose.agent}.jsonl")


def is_written(path: str) -> bool:
    """Whether there is anything in this transcript yet."""
    return bool(path) and bool(_read_bounded(path, 0, 1))


def reaches_call(path: str, call: str) -> bool:
    """Whether this transcript is written as far as this call: by its end, where a call stands that is about to run."""
    try:
        size = os.stat(path).st_size
    except OSError:
        return False
    return bool(call) and call.encode("utf-8", "replace") in _read_bounded(
        path, max(0, size - MAX_NEWS_BYTES), MAX_NEWS_BYTES
    )


def rebuild_context(path: str, call: str) -> tuple[str, list[Piece]] | None:
    """The first prompt and all pieces of a context, from a transcript that reaches as far as this call.

    Its lines are in order, so one that holds the call holds everything before it. None where it does not (the host
    writes it a moment late), or where anything in it cannot be read: then the context is not known.
    """
    data = _read_bounded(path, 0, MAX_TRANSCRIPT_BYTES + 1)
    if not data or len(data) > MAX_TRANSCRIPT_BYTES:
        return None
    goal, pieces, reached = "", [], False
    for entry in parse_entries(BytesIO(data)):
        if isinstance(entry, UnreadableLine):
            return None
        if isinstance(entry, Call):
            reached = reached or entry.id == call
        elif isinstance(entry, Prompt) and not goal:
            goal = entry.text
        elif (piece := _piece_from_entry(entry)) is not None:
            pieces.append(piece)
    return (goal, pieces) if reached else None


def _piece_from_entry(entry: Entry) -> Piece | None:
    match entry:
        case Text(source="file:hook_stopped_continuation"):
            # What we have said ourselves when we stopped the agent; a file that is mentioned has its whole path.
            return None
        case Prompt(text):
            return Piece(text, "user", key=text_key("said", text))
        case Text(text, source):
            return Piece(text, source, key=text_key(source, text))
        case Result(id, tool, text, outcome) if text.strip() and outcome != "not-run":
            return Piece(text, f"tool:{tool}"[:1000], key=id if 0 < len(id) <= 200 and id.isprintable() else "")
    return None


def text_key(source: str, text: str) -> str:
    digest = sha256(f"{source}\0{text}".encode("utf-8", "replace")).hexdigest()
    return f"text:{digest[:40]}"


class TranscriptFollower:
    """What entered a context by itself since the last look, from the transcripts.

    The host writes them a moment late: this is the net below the events, not instead of them.
    """

    def __init__(self) -> None:
        self._read: OrderedDict[str, int] = OrderedDict()
        self._lock = Lock()

    def new_pieces(self, path: str) -> Sequence[Piece]:
        with self._lock:
            since = self._read.get(path, 0)
        try:
            # One that is shorter than it was is written anew: from its beginning.
            since = since if os.stat(path).st_size >= since else 0
        except OSError:
            return ()
        data = _read_bounded(path, since, MAX_NEWS_BYTES)
        whole = data[: data.rfind(b"\n") + 1]
        if not whole:
            # One line that is longer than everything we look at would stop us here for ever.
            self._remember_position(path, since + len(data) if len(data) >= MAX_NEWS_BYTES else since)
            return ()
        lines = [line for line in whole.split(b"\n") if any(mark in line for mark in _HOST_LINE_MARKS)]
        found = [
            piece
            for entry in parse_entries(BytesIO(b"\n".join(lines)))
            if isinstance(entry, Text) and (piece := _piece_from_entry(entry)) is not None
        ]
        self._remember_position(path, since + len(whole))
        return found

    def _remember_position(self, path: str, read: int) -> None:
        with self._lock:
            self._read[path] = read
            self._read.move_to_end(path)
            while len(self._read) > _MAX_FOLLOWED:
                self._read.popitem(last=False)


def _read_bounded(path: str, since: int, most: int) -> bytes:
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | _OPEN_FLAGS)
    except OSError:
        return b""
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or (hasattr(os, "geteuid") and status.st_uid != os.geteuid()):
            return b""
        os.lseek(handle, since, os.SEEK_SET)
        parts: list[bytes] = []
        while most > 0 and (part := os.read(handle, min(most, 1 << 24))):
            parts.append(part)
            most -= len(part)
        return b"".join(parts)
    except OSError:
        return b""
    finally:
        os.close(handle)
