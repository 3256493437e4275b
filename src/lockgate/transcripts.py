"""Claude Code's own records of its sessions, as what entered the context and which calls were made.

A transcript is written by another program, in a format that moves between its versions, from texts that an attacker may
have chosen. It is read for two ends: to rule again on what was done, and to rebuild the context of a session that this
installation was not there for. So nothing in it is an error: a line that cannot be read is counted, and a kind of entry
that nobody here knows is taken for untrusted text.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import BinaryIO

MAX_LINE_BYTES = 32 * 1024 * 1024
# Deep enough for every reply of a tool, shallow enough for whoever walks it.
_MAX_DEPTH = 64
# What the host itself tells its model: names of tools and agents, the date, its own prompt. Unlisted kinds may carry
# files, resources and whatever comes to exist later.
_HOSTS_OWN = frozenset(
    "environment model deferred_tools_delta agent_listing_delta skill_listing session_context date prompt_snapshot "
    "remote_session_change todo_reminder hook_success hook_cancelled hook_error_during_execution "
    "hook_non_blocking_error hook_blocking_error hook_stopped_continuation plan_mode plan_mode_exit".split()
)
# Who starts a turn without a person having said anything.
_NOBODY = frozenset({"system", "loop_wakeup", "schedule_wakeup", "poll_event"})
# How versions that did not yet say so in a key of its own began the result of a call that was not let run.
_DENIED = re.compile(r"\s*(?:PreToolUse:|The user doesn't want to |Permission to use |Claude requested permission)")


@dataclass(frozen=True, slots=True)
class Prompt:
    """The user's own words."""

    text: str
    at: float | None


@dataclass(frozen=True, slots=True)
class Text:
    """Something that entered the context by itself: a file that was mentioned, a summary, a report; with its source."""

    text: str
    source: str
    at: float | None


@dataclass(frozen=True, slots=True)
class Call:
    id: str
    tool: str
    arguments: Mapping[str, object]
    at: float | None


@dataclass(frozen=True, slots=True)
class Result:
    """What came back for a call. `outcome` is `ran`, `failed` or `not-run`; `by_a_person` whether one let it run."""

    id: str
    tool: str
    text: str
    outcome: str
    by_a_person: bool
    at: float | None


@dataclass(frozen=True, slots=True)
class Unreadable:
    line: int


Entry = Prompt | Text | Call | Result | Unreadable


@dataclass(frozen=True, slots=True)
class Transcript:
    """One file: a session, or an agent that it started (`agent`), which lies in a folder named after the session."""

    path: str
    session: str
    agent: str = ""

    @property
    def parent(self) -> str:
        """The session's own file, for an agent's."""
        folder = os.path.dirname(os.path.dirname(self.path))
        return f"{folder}.jsonl" if self.agent else ""


def named(path: str) -> Transcript:
    """Whose transcript this file is, by its place."""
    stem = os.path.splitext(os.path.basename(path))[0]
    folder = os.path.dirname(path)
    if os.path.basename(folder) == "subagents" and stem.startswith("agent-"):
        return Transcript(path, os.path.basename(os.path.dirname(folder)), stem.removeprefix("agent-"))
    return Transcript(path, stem)


def read(path: str) -> Iterator[Entry]:
    """The entries of one transcript, in its order; OSError where it cannot be opened."""
    with open(path, "rb") as stream:
        yield from entries(stream)


def entries(stream: BinaryIO) -> Iterator[Entry]:
    tools: dict[str, str] = {}
    number = 0
    while data := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(data) > MAX_LINE_BYTES:
            yield Unreadable(number)
            while data and not data.endswith(b"\n"):
                data = stream.readline(MAX_LINE_BYTES)
            continue
        if not data.strip():
            continue
        try:
            line = json.loads(data)
        except (ValueError, RecursionError):
            yield Unreadable(number)
            continue
        if not isinstance(line, dict):
            yield Unreadable(number)
            continue
        for entry in _entry(line):
            if isinstance(entry, Call):
                tools[entry.id] = entry.tool
            elif isinstance(entry, Result) and entry.id in tools:
                entry = Result(entry.id, tools[entry.id], entry.text, entry.outcome, entry.by_a_person, entry.at)
            yield entry


def _entry(line: Mapping[str, object]) -> Iterator[Entry]:
    at = _time(line.get("timestamp"))
    sort = line.get("type")
    if sort == "attachment":
        yield from _attached(line, at)
        return
    message = line.get("message")
    if sort not in ("user", "assistant") or not isinstance(message, dict):
        return
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    words: list[str] = []
    for part in parts:
        if not isinstance(part, dict):
            words.append(told(part))
        elif part.get("type") == "tool_use" and sort == "assistant":
            arguments = part.get("input")
            yield Call(
                _word(part.get("id")),
                _word(part.get("name")),
                arguments if isinstance(arguments, dict) else {"input": arguments},
                at,
            )
        elif part.get("type") == "tool_result" and sort == "user":
            yield _result(line, part, at)
        elif sort == "user":
            words.append(told(part))
    text = "\n".join(word for word in words if word)
    if sort == "user" and text:
        yield _said(line, text, at)


def _said(line: Mapping[str, object], text: str, at: float | None) -> Prompt | Text:
    if line.get("isCompactSummary") is True or line.get("isSidechain") is True:
        # A summary of its own, or what one agent tells another: as trusted as what it had read.
        return Text(text, "agent:claude-code", at)
    if line.get("isMeta") is True or line.get("promptSource") in _NOBODY:
        return Text(text, "tool:claude-code", at)
    return Prompt(text, at)


def _attached(line: Mapping[str, object], at: float | None) -> Iterator[Text]:
    attachment = line.get("attachment")
    if not isinstance(attachment, dict) or attachment.get("type") in _HOSTS_OWN:
        return
    text = told({key: value for key, value in attachment.items() if key != "type"})
    if text:
        name = attachment.get("filename") or attachment.get("path") or attachment.get("type")
        yield Text(text, f"file:{_word(name)}"[:1000], at)


def _result(line: Mapping[str, object], part: Mapping[str, object], at: float | None) -> Result:
    text = told(part.get("content"))
    failed = part.get("is_error") is True
    ruled = line.get("permissionDecision")
    ruling = ruled if isinstance(ruled, dict) else {}
    denied = ruling.get("decision") == "reject" or "toolDenialKind" in line
    if not ruling:
        denied = denied or (failed and _DENIED.match(text) is not None)
    outcome = "not-run" if denied else "failed" if failed else "ran"
    # Whatever is not plainly a rule of theirs was somebody's answer only if the host says so.
    by_a_person = not denied and str(ruling.get("source", "")).startswith("user")
    return Result(_word(part.get("tool_use_id")), "", text, outcome, by_a_person, at)


def told(value: object, depth: int = 0) -> str:
    """All text of a reply, in its order: what a model may have read of it. Pictures and the like are left out."""
    if isinstance(value, str):
        return value
    if depth > _MAX_DEPTH or value is None or isinstance(value, bool):
        return ""
    if isinstance(value, dict):
        if value.get("type") in ("image", "base64", "redacted_thinking"):
            return ""
        return "\n".join(said for key, item in value.items() if key != "type" and (said := told(item, depth + 1)))
    if isinstance(value, list):
        return "\n".join(said for item in value if (said := told(item, depth + 1)))
    return str(value)


def _word(value: object) -> str:
    return value if isinstance(value, str) else ""


def _time(value: object) -> float | None:
    if not isinstance(value, str):
        return None
    try:
        return datetime.fromisoformat(value).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
