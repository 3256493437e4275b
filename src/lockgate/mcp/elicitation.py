"""Questions to the client's own user about held calls, in both forms of the protocol.

A yes goes through the approvals, bound to the digest of what the user was shown, and then the call is ruled on again:
the ruling lets it run, never the answer. Everything that is not plainly a yes to exactly this call denies.
"""

from __future__ import annotations

import hmac
import json
import logging
from collections.abc import Callable
from os import urandom
from threading import Timer
from typing import TYPE_CHECKING, NamedTuple, Protocol

from lockgate.core.errors import LockgateError, printable
from lockgate.core.ruling.approvals import ApprovalState, canonical_json
from lockgate.mcp import messages as wire
from lockgate.mcp.messages import ClientProtocol, Message
from lockgate.runtime.failures import report_failure
from lockgate.sessions.spoken_reasons import question_for_person

if TYPE_CHECKING:
    from lockgate.core.ruling.approvals import AnswerResult, Approval

_log = logging.getLogger("lockgate.mcp")

# An agent must not be able to bury its user under questions.
MAX_HELD = 32
# Every state of ours begins with this; the states of servers are left alone.
STATE = "lockgate1."


class ApprovalAnswers(Protocol):
    """The part of the approvals that takes a person's answer."""

    def get(self, id: str, now_s: float) -> Approval | None: ...

    def answer(self, id: str, *, digest: str, yes: bool, who: str, now_s: float, reason: str = "") -> AnswerResult: ...


class AnswerContext(Protocol):
    """The approvals that answers go to, and the session they belong to."""

    @property
    def session(self) -> str: ...

    @property
    def answers(self) -> ApprovalAnswers | None: ...


class McpCall(NamedTuple):
    """A message that is ruled on, as it arrived: a `tools/call`, or another method, which then is the call's name."""

    line: bytes
    message: Message
    id: object
    name: str
    arguments: dict[str, object]
    protocol: ClientProtocol

    @property
    def is_of_tool(self) -> bool:
        return self.message.get("method") == wire.CALL

    def denial(self, text: str) -> Message:
        """Return the client's answer to a call that is not passed on; a model reads the results of tools only."""
        if self.is_of_tool:
            return wire.denial(self.id, text, modern=self.protocol.modern)
        return wire.error_message(self.id, wire.FAILED, text)


class HeldCall(NamedTuple):
    """A call that waits for a person's answer, and what that answer is bound to."""

    call: McpCall
    approval: str
    digest: str
    expires_s: float
    timer: Timer | None = None


class ClientQuestions:
    """The questions that are open with one client. `approved` rules again on a call that a person said yes to."""

    def __init__(
        self,
        server: str,
        context: Callable[[], AnswerContext],
        *,
        send: Callable[[Message], None],
        approved: Callable[[McpCall], None],
        clock: Callable[[], float],
        wait_s: Callable[[], float],
    ) -> None:
        self._server = server
        self._context = context
        self._send = send
        self._approved = approved
        self._clock = clock
        self._wait_s = wait_s
        # In the handshake protocol by the id of our own request, in the modern one by a nonce in a state that we sign.
        self._held: dict[str, HeldCall] = {}
        self._states: dict[str, HeldCall] = {}
        self._secret = urandom(32)

    def try_ask(self, call: McpCall, approval: str) -> bool:
        """Ask the client's user about a held call; return False where that is not possible, so the call is denied."""
        try:
            return call.protocol.asks and self._ask(call, approval)
        except Exception as error:  # noqa: BLE001  # an edge: a user who could not be asked has not said yes
            report_failure("mcp-question", error)
            _log.warning("a question could not be put to the client: %s", error_text(error))
            return False

    def _ask(self, call: McpCall, approval: str) -> bool:
        answers = self._context().answers
        waits = None if answers is None else answers.get(approval, self._clock())
        if waits is None or waits.state is not ApprovalState.WAITING:
            return False
        pending = waits.pending
        text = question_for_person(pending, f"the server {self._server}")
        if not text:
            return False
        # The client does not wait as long as the question can be answered elsewhere.
        held = HeldCall(call, approval, pending.digest, min(pending.expires_s, self._clock() + self._wait_s()))
        return self._ask_modern(held, text) if call.protocol.modern else self._ask_handshake(held, text)

    def _ask_handshake(self, held: HeldCall, text: str) -> bool:
        if len(self._held) >= MAX_HELD:
            return False
        own = f"lockgate-{urandom(16).hex()}"
        timer = Timer(max(0.0, held.expires_s - self._clock()), self.expire, [own])
        timer.daemon = True
        self._held[own] = held._replace(timer=timer)
        timer.start()
        self._send(wire.question(own, text))
        return True

    def _ask_modern(self, held: HeldCall, text: str) -> bool:
        """Ask by a result: the client calls again, with the answer and with a state that only we can have signed."""
        now = self._clock()
        for old in [nonce for nonce, each in list(self._states.items()) if each.expires_s <= now]:
            self._states.pop(old, None)
        if len(self._states) >= MAX_HELD:
            return False
        nonce = urandom(16).hex()
        self._states[nonce] = held
        self._send(wire.input_required(held.call.id, text, f"{STATE}{nonce}.{self._mac(nonce, held, held.call)}"))
        return True

    def _mac(self, nonce: str, held: HeldCall, call: McpCall) -> str:
        bound = [
            nonce,
            self._context().session,
            call.name,
            canonical_json(call.arguments),
            held.approval,
            held.digest,
            held.expires_s,
        ]
        return hmac.new(self._secret, json.dumps(bound).encode("ascii"), "sha256").hexdigest()

    def redeem(self, call: McpCall, state: str) -> McpCall | Message:
        """Take a call that comes with the answer to our question.

        Return the call as its server gets it, or the denial for the client. A state counts once.
        """
        nonce, _, mac = state.removeprefix(STATE).partition(".")
        held = self._states.pop(nonce, None)
        if held is None or not hmac.compare_digest(mac.encode(), self._mac(nonce, held, call).encode()):
            why = "the answer that came with it belongs to no open question about this call"
            return wire.denial(call.id, f"Lockgate did not pass this call on: {why}.", modern=True)
        if self._clock() >= held.expires_s:
            return wire.denial(call.id, _timed_out_text(held), modern=True)
        params = call.message["params"]
        assert isinstance(params, dict)  # noqa: S101
        responses = params.get("inputResponses")
        yes = wire.approval_from(responses.get(wire.OUR_INPUT) if isinstance(responses, dict) else None)
        if not self._record_answer(held, call.protocol.client, yes=yes):
            return wire.denial(call.id, _not_approved_text(held, yes=yes), modern=True)
        # The server may have asked for input before: its own state goes with the call, as the client first sent it.
        first = held.call.message.get("params")
        inner = {name: value for name, value in params.items() if name not in ("requestState", "inputResponses")}
        if isinstance(first, dict):
            inner |= {name: first[name] for name in ("requestState", "inputResponses") if name in first}
        message = {**call.message, "params": inner}
        return call._replace(line=wire.line_of(message), message=message)

    def _record_answer(self, held: HeldCall, client: str, *, yes: bool | None) -> bool:
        """Give a person's answer to the approvals; return whether it was a yes."""
        answers = self._context().answers
        if yes is None or answers is None:
            return False
        who = printable(f"{client or 'a client'}, asked over MCP", 200)
        answers.answer(held.approval, digest=held.digest, yes=yes, who=who, now_s=self._clock())
        return yes

    def is_our_question(self, message: Message) -> bool:
        """Return whether the message has the id of a question of ours."""
        id = message.get("id")
        return isinstance(id, str) and id in self._held

    def take_answer(self, message: Message) -> None:
        """Handshake protocol: take the client's answer to our question. It does not reach the server."""
        held = self._held.pop(str(message["id"]), None)
        if held is None:
            return
        if held.timer is not None:
            held.timer.cancel()
        try:
            yes = wire.approval_from(message.get("result"))
            denial = (
                ""
                if self._record_answer(held, held.call.protocol.client, yes=yes)
                else _not_approved_text(held, yes=yes)
            )
        except Exception as error:  # noqa: BLE001  # an edge: an answer that could not be recorded denies
            report_failure("mcp-answer", error)
            denial = failure_text(error)
        if denial:
            self._send(wire.denial(held.call.id, denial, modern=False))
        else:
            self._approved(held.call)

    def take_cancellation(self, message: Message) -> None:
        """Drop the question about a call that its client cancels: the call cannot run any more."""
        params = message.get("params")
        key = wire.id_key(params.get("requestId")) if isinstance(params, dict) else None
        for own, held in list(self._held.items()):
            if key is not None and wire.id_key(held.call.id) == key and self._held.pop(own, None) is not None:
                if held.timer is not None:
                    held.timer.cancel()
                self._withdraw(own)

    def _withdraw(self, own: str) -> None:
        params = {"requestId": own, "reason": "the call is not waiting any more"}
        self._send({"jsonrpc": "2.0", "method": wire.CANCELLED, "params": params})

    def expire(self, own: str) -> None:
        """Deny a call that no person answered in time."""
        held = self._held.pop(own, None)
        if held is not None:
            self._withdraw(own)
            self._send(wire.denial(held.call.id, _timed_out_text(held), modern=False))

    def close(self) -> None:
        """Forget every open question; the client is told nothing more."""
        for own in list(self._held):
            held = self._held.pop(own, None)
            if held is not None and held.timer is not None:
                held.timer.cancel()


def _timed_out_text(held: HeldCall) -> str:
    return f"Lockgate did not pass this call on: no person answered in time. {_waits_text(held)}"


def _not_approved_text(held: HeldCall, *, yes: bool | None) -> str:
    if yes is False:
        return "Lockgate did not pass this call on: a person was asked, and said no."
    return f"Lockgate did not pass this call on: a person was asked, and did not answer. {_waits_text(held)}"


def _waits_text(held: HeldCall) -> str:
    return f"It waits as approval {held.approval} (lockgate approvals show {held.approval})."


def failure_text(error: Exception) -> str:
    """Return what the client is told of a call that could not be ruled on."""
    return f"Lockgate did not pass this call on, since it could not rule on it: {error_text(error)}."


def error_text(error: Exception) -> str:
    """Return an error's message where it is ours; else its type, since a foreign message may hold anything."""
    return printable(error.message if isinstance(error, LockgateError) else type(error).__name__, 300)
