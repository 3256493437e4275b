"""Claude Code's own records of its sessions, as what entered the context and which calls were made.

A transcript is written by another program, in a format that moves between its versions, from texts that an attacker may
have chosen. It is read for two ends: to rule again on what was done, and to rebuild the context of a session that this
installation was not there for. So nothing in it is an error: a line that cannot be read is counted, and a kind of entry
that is unknown here is taken for untrusted text.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import BinaryIO

from lockgate.sessions.structured_text import text_of

MAX_LINE_BYTES = 32 * 1024 * 1024
_MAX_FOLDERS = 32
_FIRST_LINES = 50
# What the host itself tells its model: names of tools, the date, its own prompt. Unlisted kinds may carry files,
# resources and whatever comes to exist later.
_HOSTS_OWN = frozenset(
    "environment model deferred_tools_delta date prompt_snapshot remote_session_change todo_reminder hook_cancelled "
    "hook_error_during_execution hook_non_blocking_error hook_blocking_error hook_stopped_continuation plan_mode "
    "plan_mode_exit".split()
)
# The skills that come with the host. The author of a folder or plugin describes the others.
_HOSTS_SKILLS = frozenset(
    "dataviz update-config keybindings-help code-review simplify fewer-permission-prompts loop claude-api run init "
    "workflow-authoring plugin-authoring security-review review pr-comments schedule verify batch debug".split()
)
# How the host hands its model what no person has typed: results of commands and agents in the background, messages of
# other agents. A user who asks about such a tag is still heard.
_MACHINE = re.compile(
    r"\s*<(?:(?:task-notification|(?:teammate|agent|own|tool|cross-session)-message|(?:bash|local-command)-std(?:out|err)"
    r"|local-command-caveat|system-reminder|channel|tick|artifact-room-event|webhook-payload|slack-messages|other-user"
    r"|coordinator-task|turn-ended|new-diagnostics|mcp-resource|persisted-output|repl-output|fork-boilerplate"
    r"|skill-watcher-idle-wake)[\s>/]|([a-z]+(?:-[a-z]+)+)[\s>])"
)
# What the host says behind an agent's description; only names, since the agent's author lists them.
_TOOLS = re.compile(r" \(Tools: (?:\*|All tools|(?:All tools except )?[\w*]+(?:, [\w*]+)*)\)$")
# Who starts a turn without a person having said anything.
_AUTOMATIC_ORIGINS = frozenset({"system", "loop_wakeup", "schedule_wakeup", "poll_event"})
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
class UnreadableLine:
    line: int


Entry = Prompt | Text | Call | Result | UnreadableLine


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


def transcript_from_path(path: str) -> Transcript:
    """Whose transcript this file is, by its place."""
    stem = os.path.splitext(os.path.basename(path))[0]
    folder = os.path.dirname(path)
    if stem == "events":
        # Copilot CLI has a folder for each session.
        return Transcript(path, os.path.basename(folder))
    if os.path.basename(folder) == "subagents" and stem.startswith("agent-"):
        return Transcript(path, os.path.basename(os.path.dirname(folder)), stem.removeprefix("agent-"))
    return Transcript(path, stem)


def working_folder(path: str) -> str:
    """The folder that the session of a transcript began in, as its first lines say; empty where they do not."""
    if not os.path.exists(path):
        return ""
    with open(path, "rb") as stream:
        for data in islice(iter(lambda: stream.readline(MAX_LINE_BYTES), b""), _FIRST_LINES):
            try:
                line = json.loads(data)
            except (ValueError, RecursionError):
                continue
            for place in _folder_places(line):
                cwd = place.get("cwd")
                if isinstance(cwd, str) and os.path.isabs(cwd):
                    return cwd
    return ""


def _folder_places(line: object) -> Iterator[Mapping[str, object]]:
    """Yield where a line may say the folder: Claude Code at its top, Codex in `payload`, Copilot in `data.context`."""
    while isinstance(line, dict):
        yield line
        line = line.get("payload") or line.get("data") or line.get("context")


def read_transcript(path: str) -> Iterator[Entry]:
    """The entries of one transcript, in its order; OSError where it cannot be opened."""
    with open(path, "rb") as stream:
        yield from parse_entries(stream)


def entries_before(entries: Iterable[Entry], began: float | None) -> Iterator[Entry]:
    """Yield what a session had read before it started an agent: without its calls, and results as plain texts."""
    for entry in entries:
        if isinstance(entry, UnreadableLine):
            yield entry
        elif isinstance(entry, Call) or (began is not None and entry.at is not None and entry.at > began):
            continue
        elif not isinstance(entry, Result):
            yield entry
        elif entry.outcome != "not-run":
            yield Text(entry.text, f"tool:{entry.tool or 'unknown'}", entry.at)


def parse_entries(
    stream: BinaryIO, read_line: Callable[[Mapping[str, object]], Iterator[Entry]] | None = None
) -> Iterator[Entry]:
    """The entries of a file of JSON lines; Claude Code's, unless `read_line` reads those of another host."""
    tools: dict[str, str] = {}
    folders: list[str] = []
    read_line = read_line or (lambda line: _parse_line(line, folders))
    number = 0
    while data := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(data) > MAX_LINE_BYTES:
            yield UnreadableLine(number)
            while data and not data.endswith(b"\n"):
                data = stream.readline(MAX_LINE_BYTES)
            continue
        if not data.strip():
            continue
        try:
            line = json.loads(data)
        except (ValueError, RecursionError):
            yield UnreadableLine(number)
            continue
        if not isinstance(line, dict):
            yield UnreadableLine(number)
            continue
        for entry in read_line(line):
            if isinstance(entry, Call):
                tools[entry.id] = entry.tool
            elif isinstance(entry, Result) and entry.id in tools:
                entry = Result(entry.id, tools[entry.id], entry.text, entry.outcome, entry.by_a_person, entry.at)
            yield entry


def _parse_line(line: Mapping[str, object], folders: list[str]) -> Iterator[Entry]:
    """What is in a line; `folders` is where else the host takes skills from, as far as lines before have said so."""
    at = parse_time(line.get("timestamp"))
    sort = line.get("type")
    if sort == "attachment":
        yield from _parse_attachment(line, at, folders)
        return
    message = line.get("message")
    if sort not in ("user", "assistant") or not isinstance(message, dict):
        return
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    words: list[str] = []
    for part in parts:
        if not isinstance(part, dict):
            words.append(text_of(part))
        elif part.get("type") == "tool_use" and sort == "assistant":
            arguments = part.get("input")
            yield Call(
                _text_or_empty(part.get("id")),
                _text_or_empty(part.get("name")),
                arguments if isinstance(arguments, dict) else {"input": arguments},
                at,
            )
        elif part.get("type") == "tool_result" and sort == "user":
            yield _parse_result(line, part, at)
        elif sort == "user":
            words.append(text_of(part))
    text = "\n".join(word for word in words if word)
    if sort == "user" and text:
        yield _parse_prompt(line, text, at)


def _parse_prompt(line: Mapping[str, object], text: str, at: float | None) -> Prompt | Text:
    if line.get("isCompactSummary") is True or line.get("isSidechain") is True:
        # A summary of its own, or what one agent tells another: as trusted as what it had read.
        return Text(text, "agent:claude-code", at)
    if line.get("isMeta") is True or line.get("promptSource") in _AUTOMATIC_ORIGINS or is_machine(text):
        return Text(text, "tool:claude-code", at)
    return Prompt(text, at)


def is_machine(text: str) -> bool:
    """Return whether the host wrote this text in the user's place."""
    found = _MACHINE.match(text)
    return found is not None and (found[1] is None or text.rstrip().endswith(f"</{found[1]}>"))


def _parse_attachment(line: Mapping[str, object], at: float | None, folders: list[str]) -> Iterator[Text]:
    attachment = line.get("attachment")
    if not isinstance(attachment, dict):
        return
    if attachment.get("type") in _HOSTS_OWN:
        snapshot = attachment.get("snapshot")
        more = snapshot.get("additionalWorkingDirectories") if isinstance(snapshot, dict) else None
        folders += [each for each in more if isinstance(each, str)] if isinstance(more, list) else []
        return
    match attachment.get("type"):
        case "agent_listing_delta":
            text = _listed_agents(attachment)
        case "skill_listing":
            text = _listed_skills(attachment, [_text_or_empty(line.get("cwd")), *folders])
        case "hook_success":
            # What other hooks have the model read; ours say nothing there.
            text = text_of(attachment.get("content"))
        case _:
            text = text_of([value for key, value in attachment.items() if key != "type"])
    if text:
        name = attachment.get("filename") or attachment.get("path") or attachment.get("type")
        yield Text(text, f"file:{_text_or_empty(name)}"[:1000], at)


def _listed_agents(attachment: Mapping[str, object]) -> str:
    """The agents that a listing describes, without those that come with the host."""
    names, lines, own = (attachment.get(key) for key in ("addedTypes", "addedLines", "builtInTypes"))
    if not isinstance(names, list) or not isinstance(lines, list) or len(names) != len(lines):
        return text_of(dict(attachment))
    hosts = own if isinstance(own, list) else []
    added = [text_of(line) for name, line in zip(names, lines, strict=True) if name not in hosts]
    return "\n".join(_TOOLS.sub("", line) for line in added)


def _listed_skills(attachment: Mapping[str, object], folders: Sequence[str]) -> str:
    """The skills that a listing describes, without those that come with the host.

    The host does not say which do. A name that it has itself is its own where no file of that name is in the folders it
    would take one from; and only where the list can be taken apart in one way: a description may hold a whole list.
    """
    content, names = attachment.get("content"), attachment.get("names")
    if not isinstance(content, str) or not isinstance(names, list) or attachment.get("isInitial") is not True:
        return text_of(dict(attachment))
    starts: list[tuple[int, str]] = []
    for name in names:
        places = [at.start() for at in re.finditer(rf"^- {re.escape(str(name))}(?::|$)", content, re.MULTILINE)]
        if len(places) != 1:
            return content
        starts.append((places[0], str(name)))
    if not starts or starts != sorted(starts) or starts[0][0] != 0:
        return content
    ends = [*(start for start, _ in starts[1:]), len(content)]
    return "".join(
        content[start:end]
        for (start, name), end in zip(starts, ends, strict=True)
        if name not in _HOSTS_SKILLS or _has_skill(folders, name)
    )


def _has_skill(folders: Sequence[str], name: str) -> bool:
    """Whether a file stands in for a skill of the host: in these folders or above them, or among the user's own."""
    home = os.path.join(os.path.expanduser("~"), ".claude")
    bases = {home, os.environ.get("CLAUDE_CONFIG_DIR") or home}
    for folder in folders:
        for _ in range(_MAX_FOLDERS):
            bases.add(os.path.join(folder, ".claude"))
            folder = os.path.dirname(folder)
    return not all(folders) or any(
        os.path.lexists(os.path.join(base, path))
        for base in bases
        for path in (f"skills/{name}", f"commands/{name}.md")
    )


def _parse_result(line: Mapping[str, object], part: Mapping[str, object], at: float | None) -> Result:
    text = text_of(part.get("content"))
    failed = part.get("is_error") is True
    ruled = line.get("permissionDecision")
    ruling = ruled if isinstance(ruled, dict) else {}
    denied = ruling.get("decision") == "reject" or "toolDenialKind" in line
    if not ruling:
        denied = denied or (failed and _DENIED.match(text) is not None)
    outcome = "not-run" if denied else "failed" if failed else "ran"
    # A denial that is not plainly the host's own rule was a person's answer only if the host says so.
    by_a_person = not denied and str(ruling.get("source", "")).startswith("user")
    return Result(_text_or_empty(part.get("tool_use_id")), "", text, outcome, by_a_person, at)


def _text_or_empty(value: object) -> str:
    return value if isinstance(value, str) else ""


def parse_time(value: object) -> float | None:
    """Return a time as seconds; None where it is not one."""
    if not isinstance(value, str):
        return None
    try:
        return datetime.fromisoformat(value).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
