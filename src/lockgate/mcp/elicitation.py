"""Putting a held call to the client's own user, in both eras, and what their answer is worth.

A yes goes through the approvals, bound to the digest of what was shown, and then the call is ruled on again: the ruling
lets it run, never the answer. Everything that is not plainly a yes to exactly this call denies.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable, Mapping
from os import urandom
from threading import Timer
from typing import TYPE_CHECKING, NamedTuple, Protocol

from lockgate.core.errors import LockgateError, printable
from lockgate.core.ruling.approvals import ApprovalState, canonical_json, describe_call
from lockgate.mcp import messages as wire
from lockgate.mcp.messages import Era, Message

if TYPE_CHECKING:
    from lockgate.core.ruling.approvals import AnswerResult, Approval

# Calls that wait for a person at a time: an agent must not be able to bury its user under questions.
MAX_HELD = 32
# What nobody can read in a dialogue nobody can approve there.
MAX_SHOWN = 4_000
# What every state of ours begins with, so that those of others are left to them.
STATE = "lockgate1."


class ApprovalAnswers(Protocol):
    """The part of the approvals that takes a person's answer."""

    def get(self, id: str, now_s: float) -> Approval | None: ...

    def answer(self, id: str, *, digest: str, yes: bool, who: str, now_s: float, reason: str = "") -> AnswerResult: ...


class AnswerContext(Protocol):
    """Where answers go, and which session they belong to."""

    @property
    def session(self) -> str: ...

    @property
    def answers(self) -> ApprovalAnswers | None: ...


class McpCall(NamedTuple):
    """A `tools/call` as it arrived."""

    line: bytes
    message: Message
    id: object
    name: str
    arguments: dict[str, object]
    era: Era


class HeldCall(NamedTuple):
    """A call that waits for a person's answer, and what that answer is bound to."""

    call: McpCall
    approval: str
    digest: str
    expires_s: float
    timer: Timer | None = None


class ClientQuestions:
    """The questions that are open with one client. `approved` rules again on a call that somebody said yes to."""

    def __init__(
        self,
        server: str,
        standing: Callable[[], AnswerContext],
        *,
        send: Callable[[Message], None],
        approved: Callable[[McpCall], None],
        clock: Callable[[], float],
    ) -> None:
        self._server = server
        self._standing = standing
        self._send = send
        self._approved = approved
        self._clock = clock
        # Handshake era: by the id of our own request. Modern era: by what only we can have put into a state.
        self._held: dict[str, HeldCall] = {}
        self._states: dict[str, HeldCall] = {}
        self._secret = urandom(32)

    def ask(self, call: McpCall, approval: str) -> bool:
        """Put a held call to the client's user; False where nobody could be shown all of it."""
        answers = self._standing().answers
        waits = None if answers is None else answers.get(approval, self._clock())
        if waits is None or waits.state is not ApprovalState.WAITING:
            return False
        pending = waits.pending
        does, arguments = (
            _escape_invisible(describe_call(pending.bound)),
            _escape_invisible(json.dumps(call.arguments, ensure_ascii=False)),
        )
        if len(does) + len(arguments) > MAX_SHOWN:
            return False
        why = _escape_invisible(pending.shown.explanation or pending.shown.reason)[:1_200]
        text = (
            f"Lockgate holds a call of the server {_escape_invisible(self._server)}.\n"
            f"It would do: {does}\nArguments: {arguments}\nWhy it is held: {why}\n"
            f"Allow it once? If you did not ask for this, say no. (approval {approval})"
        )
        held = HeldCall(call, approval, pending.digest, pending.expires_s)
        if call.era.modern:
            return self._ask_modern(held, text)
        if len(self._held) >= MAX_HELD:
            return False
        own = f"lockgate-{urandom(16).hex()}"
        timer = Timer(max(0.0, pending.expires_s - self._clock()), self.expire, [own])
        timer.daemon = True
        self._held[own] = held._replace(timer=timer)
        timer.start()
        self._send(wire.question(own, text))
        return True

    def _ask_modern(self, held: HeldCall, text: str) -> bool:
        """Modern era: the client calls again, with the answer and with a state that only we can have made."""
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
            self._standing().session,
            call.name,
            canonical_json(call.arguments),
            held.approval,
            held.digest,
            held.expires_s,
        ]
        return hmac.new(self._secret, json.dumps(bound).encode("ascii"), "sha256").hexdigest()

    def redeem(self, call: McpCall, state: str, params: Mapping[str, object]) -> McpCall | Message:
        """A call that comes with the answer to our question: as its server gets it, or what is answered instead."""
        nonce, _, mac = state.removeprefix(STATE).partition(".")
        # Once, whether it fits or not.
        held = self._states.pop(nonce, None)
        if held is None or not hmac.compare_digest(mac.encode(), self._mac(nonce, held, call).encode()):
            why = "the answer that came with it belongs to no open question about this call"
            return wire.denial(call.id, f"Lockgate did not pass this call on: {why}.", modern=True)
        if self._clock() >= held.expires_s:
            return wire.denial(call.id, "Lockgate did not pass this call on: nobody answered in time.", modern=True)
        responses = params.get("inputResponses")
        yes = wire.approval_from(responses.get(wire.OUR_INPUT) if isinstance(responses, dict) else None)
        if not self._record_answer(held, call.era.client, yes=yes):
            return wire.denial(call.id, _not_approved_text(held, yes=yes), modern=True)
        # What the server itself had asked for before goes with the call, as the client first sent it.
        first = held.call.message.get("params")
        inner = {name: value for name, value in params.items() if name not in ("requestState", "inputResponses")}
        if isinstance(first, dict):
            inner |= {name: first[name] for name in ("requestState", "inputResponses") if name in first}
        message = {**call.message, "params": inner}
        return call._replace(line=wire.line_of(message), message=message)

    def _record_answer(self, held: HeldCall, client: str, *, yes: bool | None) -> bool:
        """Give a person's answer to the approvals; whether it was a yes. Only the next ruling says what follows."""
        answers = self._standing().answers
        if yes is None or answers is None:
            return False
        who = printable(f"{client or 'a client'}, asked over MCP", 200)
        answers.answer(held.approval, digest=held.digest, yes=yes, who=who, now_s=self._clock())
        return yes

    def is_our_question(self, message: Message) -> bool:
        id = message.get("id")
        return isinstance(id, str) and id in self._held

    def take_answer(self, message: Message) -> None:
        """Handshake era: the client's answer to a question of ours. It goes no further."""
        held = self._held.pop(str(message["id"]), None)
        if held is None:
            return
        if held.timer is not None:
            held.timer.cancel()
        try:
            yes = wire.approval_from(message.get("result"))
            if not self._record_answer(held, held.call.era.client, yes=yes):
                self._send(wire.denial(held.call.id, _not_approved_text(held, yes=yes), modern=False))
                return
        except Exception as error:  # noqa: BLE001  # a failure of ours is a denial
            self._send(wire.denial(held.call.id, failure_text(error), modern=False))
            return
        self._approved(held.call)

    def take_cancellation(self, message: Message) -> None:
        """A call that its client gives up is not passed on any more, whatever a person says."""
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
        held = self._held.pop(own, None)
        if held is not None:
            self._withdraw(own)
            text = "Lockgate did not pass this call on: nobody answered in time."
            self._send(wire.denial(held.call.id, text, modern=False))

    def close(self) -> None:
        for own in list(self._held):
            held = self._held.pop(own, None)
            if held is not None and held.timer is not None:
                held.timer.cancel()


def _not_approved_text(held: HeldCall, *, yes: bool | None) -> str:
    if yes is False:
        return "Lockgate did not pass this call on: a person was asked, and said no."
    return (
        "Lockgate did not pass this call on: a person was asked, and did not answer."
        f" It waits as approval {held.approval} (lockgate approvals show {held.approval})."
    )


def failure_text(error: Exception) -> str:
    return f"Lockgate did not pass this call on, since it could not rule on it: {error_text(error)}."


def error_text(error: Exception) -> str:
    return printable(error.message if isinstance(error, LockgateError) else type(error).__name__, 300)


def _escape_invisible(text: str) -> str:
    """Text of others for a dialogue: on one line, with a number for every character that would not be seen."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(ch if ch.isprintable() else f"\\u{{{ord(ch):x}}}" for ch in text)
