"""What Codex, Gemini CLI, Copilot CLI and OpenCode are told about their events: nothing, or why a call may not run.

    START    a session that begins here is known, any other is not; instruction files come with the folder: untrusted
    PROMPT   the goal and what the user says next, unless an agent wrote it; the files that it mentions
    CALL     the check
    RESULT   what came back: untrusted
    END      the end

The answer is `{}` or `{"deny": SENTENCE}`. None of these hosts can be trusted to wait for a person when a hook asks it
to, so a PAUSE is a no there: a person answers on the page or with `lockgate approvals`, and the same call then runs
once. What cannot be understood or kept is denied as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from time import monotonic

from lockgate.claude_code import call_targets, context_files
from lockgate.claude_code.context_files import UNREAD
from lockgate.claude_code.events import RefusedEvent, add_pieces, failure_sentence, how_to_answer, open_session
from lockgate.coding_agents.hook_events import AgentEvent, EventKind, parse_agent_event
from lockgate.coding_agents.instruction_files import commands_of_prompt, instruction_pieces, pieces_on_the_way
from lockgate.core.errors import LockgateError, printable
from lockgate.core.vocabulary import Action, Decision
from lockgate.runtime.accounts import Account
from lockgate.sessions import Host, Piece
from lockgate.sessions.spoken_reasons import reason_for_model
from lockgate.verifiers.command_judge import JUDGE_DENIAL, is_running_judge

# Tools that read one file or page, and how they call it.
_PLACES = ("file_path", "filePath", "absolute_path", "path")
_READERS = frozenset({"read", "read_file", "view", "read_many_files"})

# Copilot CLI starts the hooks of a session's start and of its first prompt at once: the start may come second.
_START_COMES_WITH_PROMPT = frozenset({"copilot"})
_WAIT_FOR_START_S = 5.0

Denial = dict[str, object]


async def answer_agent_event(
    host: Host, agent: str, body: bytes, headers: Mapping[str, str], account: Account
) -> Denial:
    """Return what a coding agent is told about one of its events; never raise. `account` is the one that sent it."""
    try:
        event = parse_agent_event(agent, body)
    except RefusedEvent as refused:
        if refused.session and not is_running_judge(headers.get("x-lockgate-judge", "")):
            # Some hosts let their model read what the hook has refused.
            await asyncio.to_thread(_note_unread_event, host, agent, refused.session, account)
        return {"deny": f"Lockgate cannot read this event ({refused}), so nothing is let through."}
    if is_running_judge(headers.get("x-lockgate-judge", "")):
        return {"deny": JUDGE_DENIAL} if event.kind is EventKind.CALL else {}
    try:
        if event.kind is EventKind.PROMPT and agent in _START_COMES_WITH_PROMPT:
            await _wait_for_start(host, event.session)
        await asyncio.to_thread(_enter_session, host, agent, event, account)
        if event.kind is EventKind.CALL:
            return await _check_call(host, event, headers, account)
        await asyncio.to_thread(_HANDLERS.get(event.kind, _on_other), host, agent, event, account)
    except Exception as error:  # noqa: BLE001  # whatever it is, the host must not take it for a yes
        return {"deny": f"{failure_sentence(error)} `lockgate doctor` says more."}
    return {}


def _note_unread_event(host: Host, agent: str, session: str, account: Account) -> None:
    with suppress(LockgateError):
        _enter_session(host, agent, AgentEvent(EventKind.OTHER, session), account)
        host.mark_context_unknown(session)


async def _wait_for_start(host: Host, session: str) -> None:
    """Wait until the session is there: one that its prompt opened counts as unknown, and every call in it pauses."""
    deadline = monotonic() + _WAIT_FOR_START_S
    while await asyncio.to_thread(host.session, session) is None and monotonic() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(0.05)


def _enter_session(host: Host, agent: str, event: AgentEvent, account: Account) -> None:
    """Open the session of an event where there is none; raise InvalidCall where it is not the sender's own."""
    wanted = [(event.parent, "", False)] if event.parent else []
    for id, parent, begins in (*wanted, (event.session, event.parent, event.begins)):
        pieces = [] if parent else instruction_pieces(agent, event.folder, account)
        open_session(host, agent, id, account, event.folder, parent=parent, known=begins, pieces=pieces)


async def _check_call(host: Host, event: AgentEvent, headers: Mapping[str, str], account: Account) -> Denial:
    arguments = event.arguments or {}
    found = await asyncio.to_thread(
        call_targets.find_protected_targets, host, event.tool, arguments, event.folder, headers, account
    )
    kept = await host.check_async(
        event.session, event.tool, arguments, key=event.call, findings=found, folder=event.folder
    )
    return denial_from_decision(kept.decision, headers)


def denial_from_decision(decision: Decision, headers: Mapping[str, str]) -> Denial:
    """Return why a call may not run, in our own words; empty where it may."""
    if decision.action is Action.CONTINUE:
        return {}
    why = f"Lockgate stopped this call: {reason_for_model(decision)}."
    if decision.action is Action.REORIENT:
        said = printable(decision.correction, 600) or "go on with what the user asked for"
        return {"deny": f"{why} Instead: {said}"}
    return {"deny": f"{why} {how_to_answer(decision, headers)}"}


def _on_prompt(host: Host, agent: str, event: AgentEvent, account: Account) -> None:
    if not event.text.strip():
        return
    commands = commands_of_prompt(agent, event.text, event.folder, account)
    command = next((each for each in commands if not _is_vouched(host, each)), None)
    if event.by_agent or command is not None:
        source = f"tool:{agent}" if command is None or command is UNREAD else command.source
        add_pieces(host, event.session, [Piece(event.text, source)])
        return
    host.open(event.session, goal=event.text, host=agent, known=False)
    # The folder may be another one by now, or its files may have changed.
    add_pieces(host, event.session, instruction_pieces(agent, event.folder, account))
    add_pieces(host, event.session, context_files.mentioned_pieces(event.text, event.folder, account))


def _is_vouched(host: Host, piece: Piece) -> bool:
    vouched = host.gate.vouched
    return vouched is not None and vouched.trust_of(piece.source, piece.content) is not None


def _on_result(host: Host, agent: str, event: AgentEvent, account: Account) -> None:
    pieces = [Piece(event.text, source_of(event), key=event.call)] if event.text.strip() else []
    for place in _places_in(event):
        pieces += pieces_on_the_way(agent, place, event.folder, account)
    # What a subagent has read, it may report to the agent that started it without an event.
    for session in filter(None, (event.session, event.parent)):
        add_pieces(host, session, pieces)
    if event.call:
        host.outcome(event.session, event.call, "failed" if event.failed else "ran")


def source_of(event: AgentEvent) -> str:
    """Return the source of what a tool gave back: a file or a page where the call names one."""
    arguments = event.arguments or {}
    if isinstance(url := arguments.get("url"), str) and url:
        return f"web:{url}"[:1000]
    places = _places_in(event) if event.tool in _READERS else []
    return f"file:{places[0]}"[:1000] if places else f"tool:{event.tool or 'unknown'}"[:1000]


def _places_in(event: AgentEvent) -> list[str]:
    arguments = event.arguments or {}
    return [str(arguments[name]) for name in _PLACES if isinstance(arguments.get(name), str)]


def _on_end(host: Host, _: str, event: AgentEvent, __: Account) -> None:
    host.end(event.session)


def _on_other(*_: object) -> None:
    pass


_HANDLERS: Mapping[EventKind, Callable[[Host, str, AgentEvent, Account], None]] = {
    EventKind.PROMPT: _on_prompt,
    EventKind.RESULT: _on_result,
    EventKind.END: _on_end,
}
