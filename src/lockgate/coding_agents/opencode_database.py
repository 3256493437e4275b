"""OpenCode's own record of its sessions, a SQLite database, as the entries of Claude Code's. It is only read.

    ~/.local/share/opencode/opencode.db     opencode-CHANNEL.db for its other channels
        session     id, parent_id of the session that started a subagent, directory, time_created
        message     who speaks, as JSON
        part        one text, one call with its result, or one file of a message, as JSON

A database without these tables, or with messages in the tables that later versions have for them, is refused: it must
not look like one without calls. What stands in a row is no error, as in `claude_code/transcripts.py`. As the plugin
does, only what the user typed is the user's: not the files that the host added, nor the text of a folder's command.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import stat
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from lockgate.claude_code import transcripts
from lockgate.claude_code.transcripts import Call, Entry, Prompt, Result, Text, UnreadableLine
from lockgate.coding_agents.instruction_files import commands_of_prompt
from lockgate.core.errors import InvalidTrace
from lockgate.runtime.accounts import own_account
from lockgate.sessions.structured_text import text_of

DATABASES = ("opencode*.db",)
_BEGINNING = b"SQLite format 3\0"
_COLUMNS = {
    "session": {"id", "parent_id", "directory", "time_created"},
    "message": {"id", "session_id", "time_created", "data"},
    "part": {"id", "message_id", "session_id", "data"},
}
# Where a later version may keep messages; in 1.18 these are there, and empty.
_LATER_TABLES = {
    "session_message": "SELECT EXISTS (SELECT 1 FROM session_message)",
    "session_input": "SELECT EXISTS (SELECT 1 FROM session_input)",
}
_MOST = transcripts.MAX_LINE_BYTES
_MESSAGES = """SELECT id, time_created, CASE WHEN length(data) <= ? THEN data END FROM message
WHERE session_id = ? ORDER BY time_created, id"""
_PARTS = "SELECT CASE WHEN length(data) <= ? THEN data END FROM part WHERE message_id = ? ORDER BY id"
_LOST_PARTS = "SELECT count(*) FROM part WHERE session_id = ? AND message_id NOT IN (SELECT id FROM message)"
_MOST_PARENTS = 20
# How OpenCode words the result of a call that our plugin, a rule of the user's or the user did not let run.
_DENIED = re.compile(r"\s*(?:Lockgate\b|The user (?:rejected permission|has specified a rule))")
# Parts in which the model speaks, or the host counts.
_SILENT = ("text", "reasoning", "step-start", "step-finish", "snapshot", "patch", "retry", "agent")

Part = Mapping[str, object]


class RecordedSession(NamedTuple):
    """One session that a coding agent has on record; `agent` is set for a subagent's."""

    session: str
    agent: str
    folder: str
    entries: Iterator[Entry]


def is_database(path: str) -> bool:
    """Return whether a file is a SQLite database, by its first bytes; OSError where it cannot be opened."""
    with open(path, "rb") as stream:
        return stream.read(len(_BEGINNING)) == _BEGINNING


def read_sessions(path: str) -> Iterator[RecordedSession]:
    """Yield the sessions of an OpenCode database, oldest first; raise InvalidTrace where it is none, or damaged.

    The entries of a session have to be taken before the next session is.
    """
    with _refuse_damaged(), closing(_open(path)) as db:
        _check_tables(db)
        rows = db.execute("SELECT id, parent_id, directory, time_created FROM session ORDER BY time_created, id")
        for id, parent, folder, created in rows.fetchall():
            place = folder if isinstance(folder, str) and os.path.isabs(folder) else ""
            # A subagent's calls are counted under its own id, inside the session that started it.
            session, agent = (str(id), "") if parent is None else (str(parent), str(id))
            yield RecordedSession(session, agent, place, _read_entries(db, id, parent, _seconds(created), place))


@contextmanager
def _refuse_damaged() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise InvalidTrace(f"the database cannot be read: {error}") from None


def _open(path: str) -> sqlite3.Connection:
    for beside in (f"{path}-wal", f"{path}-shm"):
        # SQLite would wait for a writer to a named pipe.
        if os.path.exists(beside) and not stat.S_ISREG(os.stat(beside).st_mode):
            raise InvalidTrace(f"the database cannot be read: `{os.path.basename(beside)}` is not a regular file")
    db = sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
    db.text_factory = lambda data: data.decode("utf-8", "replace")
    try:
        for name, value in (("trusted_schema", "OFF"), ("query_only", "ON"), ("cell_size_check", "ON")):
            db.execute(f"PRAGMA {name} = {value}")
        # One state of the database for all that is read, while OpenCode may go on writing.
        db.execute("BEGIN")
    except sqlite3.Error:
        db.close()
        raise
    return db


def _check_tables(db: sqlite3.Connection) -> None:
    listed = db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'table'")
    # A view or a virtual table of that name could yield rows for ever.
    tables = {name for name, made in listed if str(made).upper().startswith("CREATE TABLE")}
    for table, wanted in _COLUMNS.items():
        found = {row[0] for row in db.execute("SELECT name FROM pragma_table_info(?)", (table,))} & wanted
        if table not in tables or found != wanted:
            raise InvalidTrace(
                f"no OpenCode database, or one of a version that is not known here: no `{table}` with "
                f"{', '.join(sorted(wanted))}",
                hint="tested with OpenCode 1.18.18",
            )
    for table, holds_any in _LATER_TABLES.items():
        if table in tables and db.execute(holds_any).fetchone()[0]:
            raise InvalidTrace(
                f"this OpenCode keeps messages in `{table}`, which is not known here",
                hint="tested with OpenCode 1.18.18",
            )


def _read_entries(
    db: sqlite3.Connection, id: object, parent: object, began: float | None, folder: str
) -> Iterator[Entry]:
    with _refuse_damaged():
        yield from _read_parents(db, parent, began, folder)
        yield from _read_session(db, id, folder, is_subagent=parent is not None)


def _read_parents(db: sqlite3.Connection, parent: object, began: float | None, folder: str) -> Iterator[Entry]:
    """Yield what the sessions above a subagent had read before it began: its task may come from any of it."""
    chain: list[tuple[object, float | None, bool]] = []
    while parent is not None:
        row = db.execute("SELECT parent_id, time_created FROM session WHERE id = ?", (parent,)).fetchone()
        if row is None or len(chain) == _MOST_PARENTS:
            # A session that was deleted, or a circle.
            yield UnreadableLine(0)
            break
        chain.append((parent, began, row[0] is not None))
        parent, began = row[0], _seconds(row[1])
    for id, until, is_subagent in reversed(chain):
        entries = _read_session(db, id, folder, is_subagent=is_subagent)
        yield from transcripts.entries_before(entries, until)


def _read_session(db: sqlite3.Connection, id: object, folder: str, *, is_subagent: bool) -> Iterator[Entry]:
    """Yield the entries of one session, message by message: no more of it is in memory."""
    for number, (message, created, said) in enumerate(db.execute(_MESSAGES, (_MOST, id)), 1):
        about, at = _parse(said), _seconds(created)
        parts = [_parse(data) for (data,) in db.execute(_PARTS, (_MOST, message))]
        if about is None or None in parts:
            yield UnreadableLine(number)
        known = [part for part in parts if part is not None]
        if about is not None and about.get("role") == "user":
            yield from _read_user(known, at, folder, is_subagent=is_subagent)
        else:
            yield from _read_answer(known, at, is_summary=about is not None and about.get("summary") is True)
    if db.execute(_LOST_PARTS, (id,)).fetchone()[0]:
        yield UnreadableLine(0)


def _read_answer(parts: list[Part], at: float | None, *, is_summary: bool) -> Iterator[Entry]:
    # The model wrote all calls of a step before it read the result of one.
    results: list[Entry] = []
    for part in parts:
        if part.get("type") == "tool":
            call, *more = _read_call(part, at)
            yield call
            results += more
            continue
        if part.get("type") == "step-start":
            yield from results
            results = []
        if is_summary and part.get("type") == "text":
            yield Text(text_of(part.get("text")), "agent:opencode", at)
        elif part.get("type") not in _SILENT:
            yield from _text(part, at)
    yield from results


def _read_user(parts: list[Part], at: float | None, folder: str, *, is_subagent: bool) -> Iterator[Entry]:
    typed = [part for part in parts if part.get("type") == "text" and part.get("synthetic") in (None, False)]
    if words := "\n".join(text for part in typed if (text := text_of(part.get("text")))):
        command = next(iter(commands_of_prompt("opencode", words, folder, own_account())), None)
        if is_subagent:
            yield Text(words, "agent:opencode", at)
        elif command is not None:
            yield Text(words, command.source or "tool:opencode", at)
        else:
            yield Prompt(words, at)
    for part in parts:
        if part not in typed and part.get("type") != "agent":
            yield from _text(part, at)


def _read_call(part: Part, at: float | None) -> Iterator[Entry]:
    id, tool = (value if isinstance(value := part.get(key), str) else "" for key in ("callID", "tool"))
    state = part.get("state")
    done = state if isinstance(state, dict) else {}
    arguments, times = done.get("input"), done.get("time")
    times = times if isinstance(times, dict) else {}
    yield Call(id, tool, arguments if isinstance(arguments, dict) else {"input": arguments}, at)
    ended = _seconds(times.get("end")) or at
    if done.get("status") == "completed":
        text = text_of([done.get("output"), done.get("attachments")])
        yield Result(id, tool, text, "ran", False, ended)
    elif done.get("status") == "error":
        text = text_of(done.get("error"))
        denied = _DENIED.match(text) is not None
        yield Result(id, tool, text, "not-run" if denied else "failed", False, ended)
        if denied:
            # The error of a tool that ran can begin with these words too, so that they count as read.
            yield Text(text, f"tool:{tool}"[:1000], ended)


def _text(part: Part, at: float | None) -> Iterator[Entry]:
    if text := text_of(part):
        yield Text(text, "tool:opencode", at)


def _parse(data: object) -> Part | None:
    try:
        value = json.loads(data) if isinstance(data, str) else None
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _seconds(milliseconds: object) -> float | None:
    return milliseconds / 1000 if isinstance(milliseconds, int | float) else None
