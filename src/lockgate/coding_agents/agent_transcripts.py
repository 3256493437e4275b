"""The records that Codex, Gemini CLI and Copilot CLI keep of their sessions, as the entries of Claude Code's.

    Codex        ~/.codex/sessions/YEAR/MONTH/DAY/rollout-….jsonl
    Gemini CLI   ~/.gemini/tmp/PROJECT/chats/session-….jsonl
    Copilot CLI  ~/.copilot/session-state/SESSION/events.jsonl

`opencode_database.py` reads OpenCode's. As in `claude_code/transcripts.py`, nothing in a file is an error. A text
under the role of the user that the host does not mark as the user's own is untrusted, and so is a subagent's task.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping

from lockgate.claude_code import transcripts
from lockgate.claude_code.transcripts import Call, Entry, Prompt, Result, Text, parse_time
from lockgate.sessions.structured_text import text_of

Line = Mapping[str, object]
Reader = Callable[[Line], Iterator[Entry]]

# How these hosts begin the result of a call that a hook did not let run.
_DENIED = re.compile(r"\s*(?:Command blocked by PreToolUse hook|Tool execution blocked|Denied by preToolUse hook)")
# What Codex writes under the role of the user, and says nothing new: the folder, the date, the shell.
_ENVIRONMENT = re.compile(r"\s*<environment_context>")


def read_any_transcript(path: str) -> Iterator[Entry]:
    """Yield the entries of a transcript of any of these hosts, Claude Code's too; OSError where it cannot be opened."""
    with open(path, "rb") as stream:
        try:
            first = json.loads(stream.readline(transcripts.MAX_LINE_BYTES))
        except (ValueError, RecursionError):
            first = None
        stream.seek(0)
        yield from transcripts.parse_entries(stream, _reader_for(first))


def _reader_for(first: object) -> Reader | None:
    if not isinstance(first, dict):
        return None
    if first.get("type") == "session_meta" and isinstance(first.get("payload"), dict):
        return _Codex().read
    if "sessionId" in first and "projectHash" in first:
        return _Gemini(is_subagent=first.get("kind") not in (None, "main")).read
    return _read_copilot if first.get("type") == "session.start" else None


def _part(line: Line, key: str) -> Line:
    value = line.get(key)
    return value if isinstance(value, dict) else {}


def _word(line: Line, key: str) -> str:
    value = line.get(key)
    return value if isinstance(value, str) else ""


def _result(id: str, said: object, at: float | None, *, failed: bool = False) -> Result:
    text = text_of(said)
    outcome = "not-run" if _DENIED.match(text) else "failed" if failed else "ran"
    return Result(id, "", text, outcome, False, at)


class _Codex:
    def __init__(self) -> None:
        self._is_subagent = False

    def read(self, line: Line) -> Iterator[Entry]:
        said, at = _part(line, "payload"), parse_time(line.get("timestamp"))
        if line.get("type") == "session_meta":
            self._is_subagent = said.get("thread_source") not in (None, "user")
        elif line.get("type") == "compacted":
            yield Text(text_of(said), "agent:codex", at)
        elif line.get("type") == "response_item":
            yield from self._read_item(said, at)

    def _read_item(self, said: Line, at: float | None) -> Iterator[Entry]:
        kind, id = _word(said, "type"), _word(said, "call_id")
        if kind == "message" and said.get("role") == "user":
            kinds = _part(said, "internal_chat_message_metadata_passthrough").get("content_item_kinds")
            for number, part in enumerate(_items(said.get("content"))):
                text = text_of(part)
                typed = isinstance(kinds, list) and kinds[number : number + 1] == ["user.text"]
                if typed and not self._is_subagent:
                    yield Prompt(text, at)
                elif text and not _ENVIRONMENT.match(text):
                    yield Text(text, "tool:codex", at)
        elif kind in ("function_call", "custom_tool_call"):
            yield _codex_call(said, at)
        elif kind in ("function_call_output", "custom_tool_call_output"):
            yield _result(id, said.get("output"), at)


def _codex_call(said: Line, at: float | None) -> Call:
    tool, given = _word(said, "name"), said.get("arguments", said.get("input"))
    try:
        arguments = json.loads(given) if isinstance(given, str) else given
    except (ValueError, RecursionError):
        arguments = given
    if not isinstance(arguments, dict):
        arguments = {"input": arguments}
    if tool == "exec_command":
        # As its hook names it.
        tool, arguments = "Bash", {"command": arguments.get("cmd")}
    return Call(_word(said, "call_id"), tool, arguments, at)


class _Gemini:
    """A message is written again as a whole once its calls have ended."""

    def __init__(self, *, is_subagent: bool) -> None:
        self._is_subagent = is_subagent
        self._seen: set[str] = set()

    def read(self, line: Line) -> Iterator[Entry]:
        for message in _items(_part(line, "$set").get("messages", line)):
            if isinstance(message, dict):
                yield from self._read_message(message)

    def _read_message(self, message: Line) -> Iterator[Entry]:
        at, id = parse_time(message.get("timestamp")), _word(message, "id")
        if message.get("type") == "user" and id not in self._seen:
            self._seen.add(id)
            yield from self._read_words(message, at)
        calls = [call for call in _items(message.get("toolCalls")) if isinstance(call, dict)]
        # Without an id, a call that is told twice counts twice: none is left out.
        new = [call for call in calls if not _word(call, "id") or _word(call, "id") not in self._seen]
        for call in new:
            self._seen.add(_word(call, "id"))
            yield Call(_word(call, "id"), _word(call, "name"), _part(call, "args"), at)
        for call in new:
            answers = [each for each in _items(call.get("result")) if isinstance(each, dict)]
            said = [_part(_part(each, "functionResponse"), "response") or each for each in answers]
            yield _result(_word(call, "id"), said, at, failed=call.get("status") != "success")

    def _read_words(self, message: Line, at: float | None) -> Iterator[Entry]:
        # Results stand here once more.
        text = text_of([part for part in _items(message.get("content")) if not _is_response(part)])
        if text and (self._is_subagent or text.startswith("<session_context>")):
            yield Text(text, "tool:gemini", at)
        elif text:
            yield Prompt(text, at)


def _items(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _is_response(part: object) -> bool:
    return isinstance(part, dict) and "functionResponse" in part


def _read_copilot(line: Line) -> Iterator[Entry]:
    said, at, id = _part(line, "data"), parse_time(line.get("timestamp")), _word(_part(line, "data"), "toolCallId")
    match line.get("type"):
        case "user.message":
            # What stands before and behind the user's words is the host's, or of files that were attached.
            by_agent = bool(said.get("parentToolCallId") or said.get("agentId") or line.get("agentId"))
            text = _word(said, "content")
            if text:
                yield Text(text, "tool:copilot", at) if by_agent else Prompt(text, at)
            attached = text_of(said.get("attachments"))
            if attached:
                yield Text(attached, "tool:copilot", at)
        case "tool.execution_start":
            yield Call(id, _word(said, "toolName"), _part(said, "arguments"), at)
        case "tool.execution_complete":
            yield _result(id, said.get("result") or said.get("error"), at, failed=said.get("success") is not True)
        case "session.compaction_complete":
            yield Text(text_of(said.get("summaryContent")), "agent:copilot", at)
