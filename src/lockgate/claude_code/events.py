"""Claude Code's events, and what each is answered.

    SessionStart                             a session that begins here is known; one that goes on from elsewhere is not
    UserPromptSubmit, UserPromptExpansion    the goal and what the user says next; the files that this brings in
    InstructionsLoaded                       CLAUDE.md and its like, which come with the folder: untrusted
    PreToolUse                               the check
    PostToolUse, PostToolUseFailure          what came back: untrusted; and that the call ran
    PostToolBatch                            the same once more, before the model reads it: a failure stops the turn
    SubagentStart, SubagentStop              an agent inside the session; its report is untrusted to its parent
    SessionEnd                               the end; an unattended run that was stopped is told so once more

CONTINUE is answered with `{}` and never with `allow`, which would skip the user's own rules. REORIENT denies with the
correction. PAUSE asks where a person sits, and elsewhere denies and stops the agent. What cannot be understood or kept
is denied, or stops the agent: a host that hears nothing from us runs the call.

Every answer is in our own words, because a model reads the reasons.

An event is about a session that a hook of the same account opened, and about no other: all that have the agent's token
can send one, and it speaks for the user. A session of another program or account is left as it is, and the agent that
claims it is stopped.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from threading import Lock
from time import time
from weakref import WeakKeyDictionary

from lockgate.claude_code import call_targets, context_files
from lockgate.claude_code.context_files import TranscriptFollower, TranscriptOwner, is_written
from lockgate.claude_code.transcripts import is_machine
from lockgate.core.errors import InvalidBlock, InvalidCall, LockgateError, printable, quoted
from lockgate.core.ruling.approvals import VoidReason, needs_two_people
from lockgate.core.ruling.arguments import flatten_arguments
from lockgate.core.vocabulary import Action, Decision
from lockgate.runtime.accounts import Account, may_read, own_account
from lockgate.sessions import Host, Piece, SessionInfo, StoredRuling
from lockgate.sessions.held_calls import AnswerStore, held_calls
from lockgate.sessions.live_session import OPENED_BY, OPENER_ACCOUNT
from lockgate.sessions.session_entries import MAX_PAGE
from lockgate.sessions.spoken_reasons import reason_for_model
from lockgate.sessions.structured_text import text_of
from lockgate.verifiers.command_judge import JUDGE_DENIAL, is_running_judge

HOST = "claude-code"
MAX_BODY_BYTES = 32 * 1024 * 1024
MAX_DEPTH = 64
# How long to wait for a transcript that is still being written when a context has to be rebuilt from it.
_WAIT_S, _WAITS = 0.05, 12
_MAX_REMEMBERED = 10_000

Answer = dict[str, object]

# Tools by which the model schedules a later prompt to itself.
_SCHEDULERS = ("ScheduleWakeup", "CronCreate", "RemoteTrigger", "SendMessage")
# So many such calls are compared with a prompt.
_MAX_SCHEDULED = 20_000
# These tools return what the model wrote itself, plus a confirmation.
_OWN_WORDS = frozenset({"Write", "Edit", "MultiEdit", "NotebookEdit", "TodoWrite", "ExitPlanMode", "EnterPlanMode"})
_AGENTS = frozenset({"Agent", "Task"})
_PLAIN_HOST = re.compile(r"(?:[a-z0-9.-]{1,200}|\[[0-9a-f:]{2,40}\])(?::[0-9]{1,5})?")


class RefusedEvent(Exception):
    """An event that cannot be understood, with the reason; `session` is empty where it could not be read."""

    def __init__(self, why: str, session: str = "") -> None:
        super().__init__(why)
        self.session = session


@dataclass(frozen=True, slots=True)
class HookEvent:
    """One strictly parsed event: who sent it, the fields that every event has, and the others as they came."""

    account: Account
    name: str
    session: str
    agent: str
    said: Mapping[str, object]

    @property
    def session_or_agent(self) -> str:
        """The session of this event; a subagent has its own, inside the session of the agent that started it."""
        return f"{self.session}/{self.agent}" if self.agent else self.session

    def text(self, key: str) -> str:
        value = self.said.get(key)
        return value if isinstance(value, str) else ""

    @property
    def folder(self) -> str:
        """The folder that the agent works in, if the account that sent this can read it."""
        return _readable_folder(self.account, self.text("cwd"))

    @property
    def transcript(self) -> str:
        # The transcripts that can be read here are those of our own account.
        if not self.account.is_own:
            return ""
        return context_files.transcript_path(
            self.said.get("transcript_path"), TranscriptOwner(self.session, self.agent)
        )


class _RecentIds:
    """A bounded set of recent ids; the oldest drop out."""

    def __init__(self) -> None:
        self._ids: OrderedDict[str, object] = OrderedDict()
        self._lock = Lock()

    def note(self, id: str) -> None:
        with self._lock:
            self._ids[id] = None
            while len(self._ids) > _MAX_REMEMBERED:
                self._ids.popitem(last=False)

    def forget(self, id: str) -> bool:
        """Remove an id and return whether it was there."""
        with self._lock:
            return self._ids.pop(id, self) is None

    def __contains__(self, id: str) -> bool:
        with self._lock:
            return id in self._ids


class _HookMemory:
    """What the hooks of one host remember while its process lives."""

    def __init__(self) -> None:
        self.transcripts = TranscriptFollower()
        self.kept_results = _RecentIds()
        self.asked_calls = _RecentIds()
        self.prompted_sessions = _RecentIds()
        # Instruction files that no person has vouched for: by session those to name, and what was named before.
        self.unvouched: dict[str, list[str]] = {}
        self.named_files = _RecentIds()


_memories: WeakKeyDictionary[Host, _HookMemory] = WeakKeyDictionary()
_memories_lock = Lock()


def _memory_of(host: Host) -> _HookMemory:
    with _memories_lock:
        return _memories.setdefault(host, _HookMemory())


async def answer_event(host: Host, body: bytes, headers: Mapping[str, str], account: Account) -> Answer:
    """Return what Claude Code is told about one of its events; never raise. `account` is the one that sent it."""
    try:
        event = parse_event(body, account)
    except RefusedEvent as refused:
        if refused.session and not is_running_judge(headers.get("x-lockgate-judge", "")):
            await asyncio.to_thread(_note_unread_event, host, HookEvent(account, "", refused.session, "", {}))
        # A call is denied; for other events the agent is stopped, since its model may have read an unscanned text.
        return stop_agent(f"Lockgate cannot read this event ({refused}), so nothing is let through.")
    if is_running_judge(headers.get("x-lockgate-judge", "")):
        return _deny(JUDGE_DENIAL) if event.name == "PreToolUse" else {}
    try:
        if event.name in EVENTS:
            await asyncio.to_thread(_enter_session, host, event)
        if event.name == "PreToolUse":
            return await _check_call(host, event, headers)
        if event.name in _EVENT_HANDLERS:
            answer = await asyncio.to_thread(_EVENT_HANDLERS[event.name], host, event)
            # At a terminal the person was asked about each call.
            return {} if event.name == "SessionEnd" and _is_attended(headers) else answer
        if "tool_name" in event.said or "tool_input" in event.said:
            # A later version may ask about a call under another name.
            return stop_agent(
                f"Lockgate does not know the event {quoted(event.name, 60)}, so its call is not let through."
            )
    except Exception as error:  # noqa: BLE001  # whatever it is, the host must not take it for a yes
        return _answer_failure(event.name, error)
    return {}


def parse_event(body: bytes, account: Account) -> HookEvent:
    """Return the event in this body; raise RefusedEvent where there is none."""
    said = parse_body(body)
    name, session, agent = said.get("hook_event_name"), said.get("session_id"), said.get("agent_id", "")
    for id in (session, agent or "-"):
        if not isinstance(id, str) or not 0 < len(id) <= 90 or not id.isprintable() or "/" in id:
            raise RefusedEvent("it does not say whose it is")
    if is_deeper(said, MAX_DEPTH):
        raise RefusedEvent("it is nested too deep", str(session))
    if not isinstance(name, str) or not name:
        raise RefusedEvent("it has no name", str(session))
    return HookEvent(account, name, str(session), str(agent or ""), said)


def parse_body(body: bytes) -> dict[str, object]:
    """Return the object that the body of a hook's event holds; raise RefusedEvent where there is none."""
    if len(body) > MAX_BODY_BYTES:
        raise RefusedEvent("it is too large")
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        raise RefusedEvent("it is not JSON") from None
    if not isinstance(said, dict):
        raise RefusedEvent("it is not an object")
    return said


def is_deeper(value: object, most: int) -> bool:
    """Return whether a value of JSON has more than this many levels."""
    level = [value]
    for _ in range(most):
        level = [
            item
            for each in level
            if isinstance(each, dict | list)
            for item in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return False
    return True


# Sessions


def _enter_session(host: Host, event: HookEvent) -> None:
    """Open the session of an event where there is none; raise InvalidCall where it is not the sender's own."""
    wanted = [(event.session, "", event.name == "SessionStart" and event.text("source") in ("startup", "clear"))]
    if event.agent:
        # SubagentStart wakes an earlier subagent too, and what that one had read is not known here.
        begins = event.name == "SubagentStart" and not is_written(event.transcript)
        wanted.append((event.session_or_agent, event.session, begins))
    for id, parent, known in wanted:
        open_session(host, HOST, id, event.account, event.text("cwd"), parent=parent, known=known)


def open_session(
    host: Host,
    agent: str,
    id: str,
    account: Account,
    cwd: str,
    *,
    parent: str,
    known: bool,
    pieces: Iterable[Piece] = (),
) -> None:
    """Open a session with these pieces where there is none; raise InvalidCall where it is not the sender's own."""
    try:
        info = host.session(id)
        if info is None:
            meta = {OPENER_ACCOUNT: str(account.uid), "cwd": printable(cwd, 500)}
            folder = "" if parent else _readable_folder(account, cwd)
            info = host.open(id, host=agent, parent=parent, known=known, meta=meta, folder=folder)
            add_pieces(host, id, pieces)
    except LockgateError:
        # What the event tells is lost, and the agent may have read it.
        host.mark_context_unknown(id)
        raise
    if not is_own_session(info, account, agent):
        raise InvalidCall("another program or account opened a session of this id: start a new one")


def _readable_folder(account: Account, cwd: str) -> str:
    return cwd if account.is_own or may_read(account, cwd) else ""


def is_own_session(info: SessionInfo, account: Account, host: str = HOST) -> bool:
    """Return whether a hook of this account opened a session; one that a person opened for us is our own account's."""
    opener = info.meta.get(OPENER_ACCOUNT, str(own_account().uid))
    return info.host == host and OPENED_BY not in info.meta and opener == str(account.uid)


def _note_unread_event(host: Host, event: HookEvent) -> None:
    try:
        _enter_session(host, event)
    except LockgateError:
        return
    host.mark_context_unknown(event.session)


# PreToolUse


async def _check_call(host: Host, event: HookEvent, headers: Mapping[str, str]) -> Answer:
    tool, arguments, call = event.text("tool_name"), event.said.get("tool_input"), event.text("tool_use_id")
    if not tool or not isinstance(arguments, dict):
        return _deny("Lockgate cannot read this call: it is not a name and an object, so it is not let through.")
    path = event.transcript
    if path and _memory_of(host).prompted_sessions.forget(event.session_or_agent):
        # Claude Code writes attachments shortly after the prompt, but not always before the first call.
        for tried in range(_WAITS):
            if await asyncio.to_thread(context_files.reaches_call, path, call) or (
                tried >= _WAITS // 2 and not is_written(path)
            ):
                break
            await asyncio.sleep(_WAIT_S)
    known = await asyncio.to_thread(_catch_up, host, event, path)
    for _ in range(0 if known or not path or not call else _WAITS):
        if await asyncio.to_thread(_rebuild_session, host, event, path, call):
            break
        await asyncio.sleep(_WAIT_S)
    found = await asyncio.to_thread(
        call_targets.find_protected_targets, host, tool, arguments, event.text("cwd"), headers, event.account
    )
    kept = await host.check_async(
        event.session_or_agent, tool, arguments, key=call, findings=found, folder=event.text("cwd")
    )
    if call and kept.decision.approval:
        _memory_of(host).asked_calls.note(f"{event.session_or_agent} {call}")
    two_people = await asyncio.to_thread(_needs_two_people, host, kept.decision)
    return answer_from_ruling(kept, headers, two_people=two_people)


def _needs_two_people(host: Host, decision: Decision) -> bool:
    """Return whether the one person at the terminal may not let this call run alone."""
    store: object = host.gate.approvals
    chosen = host.gate.two_person
    if not chosen or decision.action is not Action.PAUSE:
        return False
    if not decision.approval or not isinstance(store, AnswerStore):
        return needs_two_people(decision.effects, chosen)
    try:
        found = store.get(decision.approval, time())
    except LockgateError:
        return True
    return found is None or found.pending.shown.people > 1


def _catch_up(host: Host, event: HookEvent, path: str) -> bool:
    """Add transcript entries that no event reported; return whether the context is known."""
    info = host.session(event.session_or_agent)
    if path:
        add_pieces(host, event.session_or_agent, _memory_of(host).transcripts.new_pieces(path))
    return info is not None and info.context_known


def _rebuild_session(host: Host, event: HookEvent, path: str, call: str) -> bool:
    found = context_files.rebuild_context(path, call)
    if found is None:
        return False
    goal, pieces = found
    if goal and not event.agent:
        host.open(event.session, goal=goal, host=HOST, known=False)
    host.restore(event.session_or_agent, pieces)
    return True


def answer_from_ruling(kept: StoredRuling, headers: Mapping[str, str], *, two_people: bool = False) -> Answer:
    """Return a ruling in the form that Claude Code expects."""
    decision = kept.decision
    if decision.action is Action.CONTINUE:
        return {}
    if decision.action is Action.REORIENT:
        said = printable(decision.correction, 600) or "go on with what the user asked for"
        return _deny(f"Lockgate did not let this call run: {reason_for_model(decision)}. Instead: {said}")
    why = f"Lockgate stopped this call: {reason_for_model(decision)}."
    if two_people and _is_attended(headers):
        return _deny(f"{why} Two people have to approve it. {how_to_answer(decision, headers)}")
    if _is_attended(headers):
        return _permission_answer("ask", f"{why} {how_to_answer(decision, headers)} Yes here lets it run this once.")
    stopped = f"{why} No person is here to ask, so the agent stops. {how_to_answer(decision, headers)}"
    return stop_agent(stopped)


def how_to_answer(decision: Decision, headers: Mapping[str, str]) -> str:
    """Return how a person can answer."""
    place = headers.get("host", "")
    page = f"on the page http://{place}/ or " if _PLAIN_HOST.fullmatch(place) else ""
    if not decision.approval:
        return "`lockgate stats` and the page say more."
    return (
        f"It waits as {decision.approval}: a person can look at it and answer {page}"
        f"with `lockgate approvals show {decision.approval}`; once approved, the same call runs once."
    )


def _is_attended(headers: Mapping[str, str]) -> bool:
    """Return whether a person sits at the terminal: only where the host says so plainly."""
    return headers.get("x-lockgate-entrypoint", "") == "cli" and headers.get("x-lockgate-attended", "1") == "1"


def _permission_answer(decision: str, reason: str) -> Answer:
    inner = {"hookEventName": "PreToolUse", "permissionDecision": decision, "permissionDecisionReason": reason}
    return {"hookSpecificOutput": inner}


def _deny(reason: str) -> Answer:
    return _permission_answer("deny", reason)


def stop_agent(reason: str) -> Answer:
    return {"continue": False, "stopReason": reason, **_deny(reason)}


def _answer_failure(event: str, error: Exception) -> Answer:
    """Return the answer to an event whose handling failed, without the error's text: it may hold foreign content."""
    said = f"{failure_sentence(error)} `lockgate doctor --claude-code` says more."
    if event in ("UserPromptSubmit", "UserPromptExpansion"):
        return {"decision": "block", "reason": said}
    if event in ("PostToolUse", "PostToolUseFailure", "PostToolBatch"):
        # The model is about to read a text that Lockgate has not scanned.
        return {"continue": False, "stopReason": said}
    return _deny(said) if event == "PreToolUse" else {}


def failure_sentence(error: Exception) -> str:
    """Return that an event could not be kept, and why, without the text of an error that is not ours."""
    what = printable(error.message, 200) if isinstance(error, LockgateError) else type(error).__name__
    return f"Lockgate could not keep this event ({what})."


# All other events


def _on_session_start(host: Host, event: HookEvent) -> Answer:
    # One that had ended goes on.
    host.open(event.session, host=HOST, folder=event.folder)
    return {}


def _on_prompt(host: Host, event: HookEvent) -> Answer:
    prompt = event.text("prompt")
    if not prompt.strip():
        return {}
    if event.agent or is_machine(prompt) or _is_scheduled(host, prompt, event.account):
        add_pieces(host, event.session_or_agent, [Piece(prompt, f"tool:{HOST}")])
        return {}
    _memory_of(host).prompted_sessions.note(event.session)
    host.open(event.session, goal=prompt, host=HOST, known=False, folder=event.folder)
    add_pieces(host, event.session, context_files.mentioned_pieces(prompt, event.text("cwd"), event.account))
    return _ask_to_vouch(host, event.session)


def _is_scheduled(host: Host, prompt: str, account: Account) -> bool:
    """Return whether an agent of this account scheduled this prompt itself; such a prompt is untrusted."""
    said = " ".join(prompt.split())
    for count, kept in enumerate(_scheduling_calls(host, account)):
        texts = (" ".join(leaf.text.split()) for leaf in flatten_arguments(kept.arguments)[0])
        # The host may wrap the text. Very short texts match by accident, so they do not count.
        if any(text == said or (len(text) >= 16 and " " in text and text in said) for text in texts):
            return True
        if count >= _MAX_SCHEDULED:
            # Those that are left could hold it.
            return True
    return False


def _scheduling_calls(host: Host, account: Account) -> Iterator[StoredRuling]:
    own: dict[str, bool] = {}
    for tool in _SCHEDULERS:
        before: int | None = None
        while page := host.decisions(tool=tool, host=HOST, before=before, limit=MAX_PAGE):
            before = page[-1].seq
            for kept in page:
                if kept.session not in own:
                    info = host.session(kept.session)
                    own[kept.session] = info is not None and is_own_session(info, account)
                if own[kept.session]:
                    yield kept


def _on_expanded_command(host: Host, event: HookEvent) -> Answer:
    _add_command(host, event, event.text("command_name"))
    return {}


def _add_command(host: Host, event: HookEvent, name: str) -> None:
    pieces = context_files.command_pieces(name, event.text("cwd"), event.account)
    add_pieces(host, event.session_or_agent, pieces)


def _on_instructions(host: Host, event: HookEvent) -> Answer:
    included_by = event.text("parent_file_path") if event.text("load_reason") == "include" else ""
    piece = context_files.instruction_piece(event.text("file_path"), included_by, event.account)
    add_pieces(host, event.session_or_agent, [piece] if piece is not None else [])
    if piece is not None and piece is not context_files.UNREAD:
        _note_unvouched(host, event.session, piece)
    return {}


def _note_unvouched(host: Host, session: str, piece: Piece) -> None:
    """Remember an instruction file that no person has vouched for, until the next prompt names it once."""
    vouched, memory = host.gate.vouched, _memory_of(host)
    if vouched is None or piece.key in memory.named_files or vouched.trust_of(piece.source, piece.content):
        return
    memory.named_files.note(piece.key)
    if len(memory.unvouched) < _MAX_REMEMBERED:
        memory.unvouched.setdefault(session, []).append(piece.source.removeprefix("file:"))


def _ask_to_vouch(host: Host, session: str) -> Answer:
    """Return the line that the person is shown once for instruction files that are new or have changed."""
    files = [quoted(path, 200) for path in _memory_of(host).unvouched.pop(session, [])]
    if not files:
        return {}
    named = ", ".join(files[:3]) + (f" and {len(files) - 3} more" if len(files) > 3 else "")
    return {
        "systemMessage": f"Lockgate: {named} gives this agent instructions, and counts as untrusted. "
        "If you know it, `lockgate trust FILE` shows it and vouches for it until it changes."
    }


def _on_tool_result(host: Host, event: HookEvent) -> Answer:
    call = event.text("tool_use_id")
    failed = event.name == "PostToolUseFailure"
    response = event.said.get("error") if failed else event.said.get("tool_response")
    _keep_result(host, event, event.text("tool_name"), event.said.get("tool_input"), response, call)
    if call:
        host.outcome(event.session_or_agent, call, "failed" if failed else "ran")
        # A person has let it run here: the same question must not be answered once more on the page.
        if host.gate.approvals is not None and f"{event.session_or_agent} {call}" in _memory_of(host).asked_calls:
            why = VoidReason("the call has run: a person let it, in Claude Code itself")
            host.gate.approvals.void(event.session_or_agent, time(), why)
    return {}


def _keep_result(host: Host, event: HookEvent, tool: str, arguments: object, response: object, call: str) -> None:
    given = arguments if isinstance(arguments, dict) else {}
    text, source = _response_text(tool, response), source_of_result(tool, given)
    add_pieces(host, event.session_or_agent, [Piece(text, source, key=call)] if text.strip() else [])
    if tool == "Skill":
        _add_command(host, event, str(given.get("skill", "")))
    if call:
        _memory_of(host).kept_results.note(f"{event.session_or_agent} {call}")


def _response_text(tool: str, response: object) -> str:
    """Return the part of a tool's reply that the model did not write itself."""
    if isinstance(response, dict):
        if tool in _OWN_WORDS:
            return ""
        if tool in _AGENTS:
            # A background agent has reported nothing yet; the rest is its own task.
            return text_of(response.get("content"))
        file = response.get("file")
        if tool == "Read" and isinstance(file, dict) and isinstance(file.get("content"), str):
            # Without path and line numbers: findings are offsets into the file's content.
            return str(file["content"])
    return text_of(response)


def source_of_result(tool: str, arguments: Mapping[str, object]) -> str:
    """Return the source of what a tool gave back: a file or a page where the call names one."""
    place = arguments.get({"Read": "file_path", "NotebookRead": "notebook_path", "WebFetch": "url"}.get(tool, ""))
    if isinstance(place, str) and place:
        return f"{'web' if tool == 'WebFetch' else 'file'}:{place}"[:1000]
    return f"tool:{tool or 'unknown'}"[:1000]


def _on_batch_results(host: Host, event: HookEvent) -> Answer:
    """Keep results that no event of their own reported, before the model reads them."""
    calls = event.said.get("tool_calls")
    for each in calls if isinstance(calls, list) else []:
        call, tool = each.get("tool_use_id"), each.get("tool_name")
        if not isinstance(call, str) or not isinstance(tool, str):
            raise InvalidBlock("a result without its call")
        if f"{event.session_or_agent} {call}" in _memory_of(host).kept_results or tool in _OWN_WORDS | _AGENTS:
            continue
        if not _was_held(host, event.session_or_agent, call):
            _keep_result(host, event, tool, each.get("tool_input"), each.get("tool_response"), call)
    return {}


def _was_held(host: Host, session: str, call: str) -> bool:
    """Return whether a call was held: then its result is our own answer, which contains no outside text."""
    rulings = host.decisions(session=session, limit=200)
    return any(kept.key == call and kept.decision.action is not Action.CONTINUE for kept in rulings)


def _on_agent_start(host: Host, event: HookEvent) -> Answer:
    if not event.agent:
        return {}
    # The event does not carry the subagent's task; the call that started it was ruled on with that text.
    tasks = [
        str(kept.arguments.get("prompt", ""))
        for tool in _AGENTS
        for kept in host.decisions(session=event.session, tool=tool, action=Action.CONTINUE.value, limit=8)
        if not kept.ran and kept.arguments.get("subagent_type", event.text("agent_type")) == event.text("agent_type")
    ]
    _memory_of(host).prompted_sessions.note(event.session_or_agent)
    host.open(event.session_or_agent, host=HOST, parent=event.session)
    for task in dict.fromkeys(tasks):
        host.open(event.session_or_agent, goal=task, host=HOST, parent=event.session)
    return {}


def _on_agent_stop(host: Host, event: HookEvent) -> Answer:
    report = event.text("last_assistant_message")
    if event.agent and report.strip():
        add_pieces(host, event.session, [Piece(report, "tool:Agent", key=context_files.text_key(event.agent, report))])
    if event.agent:
        host.end(event.session_or_agent)
    return {}


def _on_session_end(host: Host, event: HookEvent) -> Answer:
    host.end(event.session)
    info = host.session(event.session)
    since_s = 0.0 if info is None else info.created_at
    held = list(held_calls(host, host.gate.approvals, now_s=time(), session=event.session, since_s=since_s))
    if not held:
        return {}
    named = event.session if event.session.replace("-", "").isalnum() else "ID"
    count = "1 call is" if len(held) == 1 else f"{len(held)} calls are"
    # Claude Code ends such a run with code 0 and an empty line; the hook's command prints this where a script sees it.
    return {
        "systemMessage": f"Lockgate stopped this run: {count} held for a person, so the task may not be done. "
        f"`lockgate approvals` shows them; `lockgate reconcile --fail-on-held --session {named}` fails a script."
    }


def add_pieces(host: Host, session: str, pieces: Iterable[Piece]) -> None:
    """Add what an agent may have read, until the session is full; what could not be read makes its context unknown."""
    for piece in pieces:
        if piece is context_files.UNREAD:
            host.mark_context_unknown(session)
            continue
        try:
            host.add(session, piece.content, source=piece.source, key=piece.key)
        except InvalidBlock:
            # The session is full, and its context counts as unknown from here on.
            return


_EVENT_HANDLERS: Mapping[str, Callable[[Host, HookEvent], Answer]] = {
    "SessionStart": _on_session_start,
    "UserPromptSubmit": _on_prompt,
    "UserPromptExpansion": _on_expanded_command,
    "InstructionsLoaded": _on_instructions,
    "PostToolUse": _on_tool_result,
    "PostToolUseFailure": _on_tool_result,
    "PostToolBatch": _on_batch_results,
    "SubagentStart": _on_agent_start,
    "SubagentStop": _on_agent_stop,
    "SessionEnd": _on_session_end,
}
EVENTS = ("PreToolUse", *_EVENT_HANDLERS)
