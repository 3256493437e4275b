"""An agent framework as small as one can be, to play the conformance suite of plugs with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lockgate.integrations.plug import Line, Plug, PlugCall, source_of_result
from lockgate.testing.plug_suite import Reply, RunOutcome


class ToyDriver:
    """A list of messages, and calls one after another."""

    modes = ("sync", "async")
    cannot: Mapping[int, str] = {
        8: "it edits nothing",
        13: "it has no such messages",
        14: "it has no agents inside agents",
        15: "it has no other parts",
        17: "it has no MCP",
        19: "it does not stream",
        22: "it can always pause",
        23: "it has no provider",
    }

    def __init__(self, plug: Plug, storage: dict[str, Any]) -> None:
        self.plug, self.storage = plug, storage

    def start(
        self, tools: Sequence[Callable[..., object]], replies: Sequence[Reply], goal: str, *, session: str, mode: str
    ) -> RunOutcome:
        run = self.storage.setdefault(session, {"lines": [], "told": []})
        run |= {"script": iter(replies), "tools": {each.__name__: each for each in tools}, "waiting": []}
        self.plug.user_said(session, goal)
        return self._go_on(session, mode)

    def resume(self, outcome: RunOutcome, answers: Sequence[Mapping[str, object] | bool], *, mode: str) -> RunOutcome:
        run = self.storage[outcome.state]
        for question, answer in zip(outcome.questions, answers, strict=True):
            self.plug.answer(question, answer)
        calls, run["waiting"] = run["waiting"], []
        for call in calls:
            self._call(outcome.state, call, mode, ask=False)
        return self._go_on(outcome.state, mode)

    def start_inside(self, *_: Any, **__: Any) -> RunOutcome:
        raise NotImplementedError

    start_forged = resume_edited = start_with_provider_result = start_inside
    start_changed = start_with_mcp = start_without_pause = start_inside

    def _go_on(self, session: str, mode: str) -> RunOutcome:
        run = self.storage[session]
        while not run["waiting"]:
            self.plug.model_reads(session, run["lines"])
            reply = next(run["script"], "done")
            if isinstance(reply, str):
                break
            for call in reply:
                self._call(session, call, mode, ask=True)
        questions = [call[1] for call in run["waiting"]]
        return RunOutcome(list(run["told"]), [each for each in questions if each], None, session)

    def _call(self, session: str, call: Any, mode: str, *, ask: bool) -> None:
        run = self.storage[session]
        scripted = call if ask else call[0]
        asked = PlugCall(scripted.tool, scripted.arguments, scripted.id)
        if mode == "async":
            verdict = asyncio.run(self.plug.check_async(session, asked))
        else:
            verdict = self.plug.check(session, asked)
        if ask and verdict.question is not None:
            run["waiting"].append((scripted, verdict.question))
            return
        text = verdict.text
        if verdict.runs:
            try:
                text = str(run["tools"][scripted.tool](**scripted.arguments))
            except Exception as error:  # noqa: BLE001
                text = f"{type(error).__name__}: {error}"
            self.plug.ended(session, scripted.id)
        run["told"].append(text)
        source = source_of_result(scripted.tool, scripted.arguments)
        run["lines"].append(Line(f"{len(run['lines'])}", text, source))
