"""A chat model of the agent's own framework as the judge of Tier 2: `judge="host"`, or a model object.

It is asked outside of the agent's loop: without tools, and where the framework lets one choose, without callbacks,
hooks and tracing. A plug that is told of the question all the same records nothing and denies every call.
"""

from __future__ import annotations

import json
import logging
from asyncio import get_running_loop, run_coroutine_threadsafe, to_thread, wait_for
from collections.abc import Callable
from contextvars import copy_context
from functools import cache, partial
from inspect import iscoroutinefunction
from secrets import token_hex
from time import monotonic
from typing import Any, NamedTuple

from lockgate.core.errors import InvalidConfig, printable
from lockgate.core.judging.judge_messages import build_question, parse_opinion
from lockgate.core.questions import NoAnswerReason, Question
from lockgate.core.ruling.opinions import Authority, JudgeStanding, Silent
from lockgate.gate.judge import Inquiry, Opined
from lockgate.integrations.plug import Plug, agent_here, judging
from lockgate.runtime.background_loop import is_on_event_loop
from lockgate.settings.model_names import AUTO

HOST, TIMEOUT_S = "host", 20.0
_log = logging.getLogger("lockgate.verifier")
# Returns what a model answers (text, or an object of the schema) and the reply's model id. A coroutine function runs on
# the agent's own event loop, which the model's connections belong to; any other one in a thread.
Ask = Callable[[Any, Question], Any]


class HostModelJudge(NamedTuple):
    """Asks `model`, or with "host" that of the agent whose call is ruled on. It has taken no exam."""

    model: Any
    ask: Ask
    standing: JudgeStanding = JudgeStanding(Authority.UNEXAMINED)

    @property
    def name(self) -> str:
        model = self._model_here()
        known = getattr(model, "model_name", "") or getattr(model, "model", "") or type(model).__name__
        return f"{HOST}/{printable(str(known), 100)}"

    def opine(self, inquiry: Inquiry) -> Opined:
        """Return the model's opinion of the case. From a coroutine use `opine_async`: this one cannot wait there."""
        if is_on_event_loop():
            return Opined(Silent(NoAnswerReason.CALLED_IN_LOOP))
        nonce, left_s = token_hex(16), min(TIMEOUT_S, inquiry.until - monotonic())
        try:
            reply, model = self._reply(build_question(inquiry.stage, inquiry.case, nonce), left_s)
            if not isinstance(reply, str):
                reply = json.dumps(reply if isinstance(reply, dict) else reply.model_dump())
            opinion = parse_opinion(inquiry.stage, reply, nonce, inquiry.case)
            return Opined(opinion, model=model if isinstance(model, str) else "")
        except Exception as error:  # noqa: BLE001  # the edge to a foreign model: there is no opinion
            # The type only: the message may quote the case.
            _log.warning("no opinion: judge=%s error=%s", self.name, type(error).__name__)
            late = isinstance(error, TimeoutError)
            return Opined(Silent(NoAnswerReason.DEADLINE if late else NoAnswerReason.INTERNAL))

    async def opine_async(self, inquiry: Inquiry) -> Opined:
        """Return the model's opinion of the case, from an event loop."""
        agent_here.set((self._model_here(), get_running_loop()))
        return await to_thread(self.opine, inquiry)

    def _model_here(self) -> object:
        return agent_here.get()[0] if self.model is HOST else self.model

    def _reply(self, question: Question, timeout_s: float) -> Any:
        model, loop, is_async = self._model_here(), agent_here.get()[1], iscoroutinefunction(self.ask)
        if model is None or (is_async and loop is None):
            raise LookupError("the agent's model or its event loop is not known here")
        if timeout_s <= 0:
            raise TimeoutError
        # In a context of its own. Emptied at the end: what a framework has started meanwhile has a copy of it.
        context, mark = copy_context(), [True]
        context.run(judging.set, mark)
        if is_async:
            asked = context.run(run_coroutine_threadsafe, wait_for(self.ask(model, question), timeout_s), loop)
        else:
            asked = context.run(Plug._start, partial(self.ask, model, question))
        asked.add_done_callback(lambda _: mark.clear())
        return asked.result(timeout_s)


@cache
def verdict_class() -> Any:
    """Return the schema of Tier 2's answer as a class of Pydantic's, which takes exactly this and nothing else."""
    from pydantic import StrictBool, StrictStr, create_model

    return create_model("Verdict", __config__={"extra": "forbid"}, suspicious=(StrictBool, ...), nonce=(StrictStr, ...))


def use_judge(plug: Plug, judge: Any, method: str, ask: Ask) -> None:
    """Let `judge` rule in Tier 2: "host", a model, which has this `method`, or a `Judge`, which is taken as it is."""
    if not hasattr(judge, "opine") and judge is not None:
        if judge != HOST and not hasattr(judge, method):
            hint = 'pass "host", a chat model object of the framework, or a `Judge`'
            raise InvalidConfig(f"a {type(judge).__name__} is no judge in this framework", hint=hint)
        judge = HostModelJudge(HOST if isinstance(judge, str) else judge, ask)
    if judge is None or plug.judge == judge:
        return
    gate: Any = getattr(getattr(plug._host, "host", None), "gate", None)
    is_free = gate and gate.policy.triage_model in ("", AUTO) and (plug.owns_gate or gate.triage is None)
    if not is_free or plug.judge is not None:
        hint = "give `judge` once to agents that share a plug, with no `url`, `triage_model` or `Gate(triage=…)`"
        raise InvalidConfig("this plug has another judge already", hint=hint)
    plug.judge = gate.triage = judge
