"""The plug for the Claude Agent SDK: `query(prompt=…, options=LockgateHooks().guard(ClaudeAgentOptions(…)))`.

Claude Code runs a tool whose hook fails; every hook here is one that blocks then, and a Claude Code too old for that is
refused at the start. It has no pause that holds for calls beside each other either: with `ask`, the hook waits for a
person; without, the call is denied, and runs once when it is tried again after a yes in the approvals.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from asyncio import timeout, to_thread
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any

from lockgate.integrations.extras import naming_extra
from lockgate.integrations.host_judge import use_judge
from lockgate.integrations.plug import HeldQuestion, Line, Plug, PlugCall, Verdict, shared_plug, source_of_result
from lockgate.sessions.structured_text import text_of

with naming_extra("claude-agent-sdk", "claude_agent_sdk"):
    from claude_agent_sdk import ClaudeAgentOptions, HookMatcher, ResultMessage, query

# Shows a question to a person and returns `question.yes(who)` or `question.no(who)`; all else is no answer.
AskInTime = Callable[[HeldQuestion], Mapping[str, object] | Awaitable[Mapping[str, object] | None] | None]

# How Claude Code hands its model what no person has typed, by the event for the user's prompts.
_MACHINE = re.compile(r"\s*<(?:[a-z]+(?:-[a-z]+)+|channel|tick)[\s>/]")
_MAX_REMEMBERED = 10_000
# What a hook may take besides our own deadlines: they come first, with a reason for the model.
_HOOK_S = 60
# For a judge. Without `verbatim_prompts` Claude Code reads the files that a text names with `@`.
_CLOSED: Any = {"tools": [], "setting_sources": [], "strict_mcp_config": True, "verbatim_prompts": True}
_ALONE: Any = {**_CLOSED, "extra_args": {"no-session-persistence": None, "safe-mode": None}}


class LockgateHooks:
    """Rules on every tool call of the sessions that it guards, also of subagents and under `bypassPermissions`.

    Without a `plug` it shares one with the others of the process. `ask` may be a coroutine function; another one runs
    in a thread. After `wait_s` seconds without its answer the call does not run.
    """

    def __init__(
        self, plug: Plug | None = None, *, ask: AskInTime | None = None, wait_s: float = 3600, judge: Any = None
    ) -> None:
        self.plug = plug or shared_plug("claude-agent-sdk")
        use_judge(self.plug, judge, "cli_path", _ask)
        self._ask = ask
        self._wait_s = wait_s
        # The arguments of running calls as they were ruled on, how many calls of a session are being ruled on or wait
        # for a person, and what was read meanwhile: a text that is added voids the question about a call beside it.
        self._ruled: OrderedDict[str, Any] = OrderedDict()
        self._ruling: Counter[str] = Counter()
        self._later: dict[str, list[Line]] = {}

    def guard(self, options: ClaudeAgentOptions | None = None) -> ClaudeAgentOptions:
        """Return the options with our hooks beside those that they have."""
        options = options or ClaudeAgentOptions()
        self._warn_of(options)
        # What such a session read before was read elsewhere.
        is_old = options.resume or options.continue_conversation or options.fork_session
        hooks: dict[Any, list[HookMatcher]] = {name: list(each) for name, each in (options.hooks or {}).items()}
        made: dict[str, Any] = {
            "UserPromptSubmit": partial(self._on_prompt, known=not is_old),
            "SubagentStart": self._on_subagent,
            "PreToolUse": partial(self._before_call, options=options),
            "PostToolUse": self._after_call,
            "PostToolUseFailure": self._after_call,
        }
        for event, hook in made.items():
            seconds = _HOOK_S + self.plug.deadline_s * 3 + (self._wait_s if event == "PreToolUse" and self._ask else 0)
            ours = HookMatcher(hooks=[hook], timeout=seconds, on_failure="block")
            hooks.setdefault(event, []).append(ours)
        return dataclasses.replace(options, hooks=hooks)

    def _warn_of(self, options: ClaudeAgentOptions) -> None:
        if (options.hooks or {}).get("PreToolUse"):
            self.plug.cannot_cover("what another PreToolUse hook makes of a call: they run beside each other")
        if options.setting_sources != []:
            self.plug.cannot_cover("the instruction files, skills and hooks that setting_sources brings in")
        servers: Any = options.mcp_servers
        if not isinstance(servers, Mapping) or any(each.get("type") != "sdk" for each in servers.values()):
            self.plug.cannot_cover("what MCP servers say of their tools")

    # The user's words.

    async def _on_prompt(self, event: Any, tool_use_id: str | None, context: Any, *, known: bool) -> dict[str, Any]:  # noqa: ARG002
        session, prompt = event["session_id"], event["prompt"]
        if _MACHINE.match(prompt):
            # A report of an agent or a command in the background comes by this event too.
            await self.plug.model_reads_async(session, [Line("", prompt, "message:user")])
        else:
            await to_thread(self.plug.user_said, session, prompt, known=known)
        return {}

    async def _on_subagent(self, event: Any, tool_use_id: str | None, context: Any) -> dict[str, Any]:  # noqa: ARG002
        # Its order is its caller's, whose session holds all that stands behind it.
        await to_thread(self.plug.user_said, _session_of(event), "", parent=event["session_id"])
        return {}

    # Calls.

    async def _before_call(self, event: Any, tool_use_id: str | None, context: Any, **given: Any) -> dict[str, Any]:  # noqa: ARG002
        session, id = _session_of(event), str(event.get("tool_use_id") or tool_use_id or "")
        call = PlugCall(event["tool_name"], event["tool_input"], id)
        self.plug.note_model(session, lambda: given["options"])
        self._ruling[session] += 1
        try:
            verdict = await self.plug.check_async(session, call)
            if verdict.question is not None and self._ask is not None:
                await to_thread(self.plug.answer, verdict.question, await self._answer_to(verdict.question))
                verdict = await self.plug.check_async(session, call)
        finally:
            self._ruling[session] -= 1
        if not self._ruling[session]:
            await self.plug.model_reads_async(session, self._later.pop(session, ()))
        if not verdict.runs:
            return _denial(verdict)
        self._ruled[id] = event["tool_input"]
        while len(self._ruled) > _MAX_REMEMBERED:
            self._ruled.popitem(last=False)
        return {}

    async def _answer_to(self, question: HeldQuestion) -> object:
        assert self._ask is not None  # noqa: S101
        try:
            async with timeout(self._wait_s):
                if inspect.iscoroutinefunction(self._ask):
                    return await self._ask(question)
                return await to_thread(self._ask, question)
        except TimeoutError:
            return None

    async def _after_call(self, event: Any, tool_use_id: str | None, context: Any) -> dict[str, Any]:  # noqa: ARG002
        session, id = _session_of(event), str(event.get("tool_use_id") or tool_use_id or "")
        failed = event["hook_event_name"] == "PostToolUseFailure"
        given = event.get("error") if failed else event.get("tool_response")
        line = Line(id, text_of(given), source_of_result(event["tool_name"], event["tool_input"]))
        if self._ruling[session]:
            self._later.setdefault(session, []).append(line)
        else:
            await self.plug.model_reads_async(session, [line])
        if (ruled := self._ruled.pop(id, None)) is not None and ruled != event["tool_input"]:
            unseen = f"the arguments that {event['tool_name']} ran with: another hook changed them"
            self.plug.cannot_cover(unseen, session)
        await to_thread(self.plug.ended, session, id, failed=failed)
        return {}


async def _ask(options: ClaudeAgentOptions, question: Any) -> tuple[object, object]:
    form = {"type": "json_schema", "schema": question.schema} if question.schema else None
    own: Any = {"model": options.model, "cli_path": options.cli_path, "env": options.env, "output_format": form}
    with TemporaryDirectory() as empty:
        alone = ClaudeAgentOptions(system_prompt=question.system, cwd=empty, **_ALONE, **own)
        messages = [each async for each in query(prompt=question.user, options=alone)]
    (ended,) = (each for each in messages if isinstance(each, ResultMessage))
    return ended.structured_output or ended.result, "+".join(sorted(ended.model_usage or ()))


def _session_of(event: Mapping[str, Any]) -> str:
    """Return the session: a subagent's is inside its caller's."""
    agent = event.get("agent_id")
    return f"{event['session_id']}/{agent}" if agent else str(event["session_id"])


def _denial(verdict: Verdict) -> dict[str, Any]:
    said = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": verdict.text}
    ends = {"continue_": False, "stopReason": verdict.text} if verdict.stops else {}
    return {"hookSpecificOutput": said, **ends}
