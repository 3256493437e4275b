"""The checkpoint between an MCP client and one MCP server: it rules on every call and keeps every text the agent reads.

A transport hands it the messages of both sides and two functions that send. Messages pass byte for byte, with three
exceptions: the checkpoint itself answers a call that may not run, it asks the client's user about a held call, and
that user's answer does not reach the server.

From the client:
1. Read.   Parse the message strictly, and refuse what two parsers could read differently.
2. Pin.    A tool that differs from its pin carries a finding that only a person clears.
3. Rule.   A call of a tool, and every other request whose parameters a model may choose. The ruling is in the journal
           and in the session store before the call is forwarded. Everything but CONTINUE denies the call, and so does
           every error.
4. Ask.    A PAUSE goes to the client's user where the client can ask. The answer goes through the approvals, bound to
           the call's digest, and step 3 runs again: the ruling lets the call run, never the answer.

From the server:
5. Keep.   The session store has every text of a message before the client gets the message. What cannot be kept is
           not passed on; the client gets an error in its place.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from hashlib import sha256
from itertools import count
from os import urandom
from threading import Lock
from time import time
from typing import TYPE_CHECKING, NamedTuple, Protocol

from lockgate.core.errors import InvalidBlock, InvalidCall, printable, quoted
from lockgate.core.vocabulary import Action, Finding, Reason
from lockgate.mcp import messages as wire
from lockgate.mcp.elicitation import STATE, ApprovalAnswers, ClientQuestions, McpCall, error_text, failure_text
from lockgate.mcp.messages import ClientProtocol, Message
from lockgate.mcp.tool_pins import ToolPins, appearance_of, description_text, schema_text, unpinned_fields
from lockgate.runtime.failures import report_failure

if TYPE_CHECKING:
    from lockgate.core.vocabulary import Block, Decision
    from lockgate.sessions.session_entries import StoredRuling

_log = logging.getLogger("lockgate.mcp")

# Requests that wait for an answer: a server that never answers must not fill the memory.
_MAX_AWAITED = 4_096
# Below the scanner's own limit. Parts overlap, so that no sentence is cut in two.
MAX_PART = 8 * 1024 * 1024
_OVERLAP = 4_096


class McpHost(Protocol):
    """The part of `lockgate.sessions.Host` that the checkpoint uses."""

    def open(self, session: str = "", *, goal: str = "", host: str = "api") -> object: ...

    def add(self, session: str, content: str, *, source: str, trust: str | None = None, key: str = "") -> Block: ...

    def check(
        self,
        session: str,
        tool: str,
        arguments: Mapping[str, object],
        *,
        annotations: Mapping[str, object] | None = None,
        key: str = "",
        findings: Sequence[Finding] = (),
    ) -> StoredRuling: ...

    def session(self, id: str) -> object: ...

    def outcome(self, session: str, key: str, ran: str) -> bool: ...


Send = Callable[[bytes, object], None]


class AwaitedRequest(NamedTuple):
    """A request that waits for its answer; `call_key` is the key of its ruling where it is a tool call."""

    method: str
    about: str
    call_key: str


class ServerMessage(NamedTuple):
    """A message of the server, and the request that it answers."""

    item: object
    request: AwaitedRequest | None


class CallRuling(NamedTuple):
    """The ruling on a call: `key` names it if the call may run; else `denial` is the client's answer.

    `approval` is the id of the approval that a held call waits for.
    """

    call: McpCall
    key: str = ""
    denial: Message | None = None
    approval: str = ""


class McpParts(NamedTuple):
    """What a checkpoint needs: the host that rules, the session, the tool pins, and the way to give answers.

    A client waits for its user for `wait_s` at most.
    """

    host: McpHost
    session: str
    pins: ToolPins
    answers: ApprovalAnswers | None
    wait_s: float = 300.0


class McpCheckpoint:
    """The checkpoint between one client and one server. `to_client` and `to_server` send one message each.

    Any thread may call its methods. `parts` may come later than the first messages: calls and the server's messages
    wait for it, all else passes.
    """

    def __init__(
        self,
        parts: Future[McpParts],
        *,
        server: str,
        to_client: Callable[[bytes], None],
        to_server: Send,
        clock: Callable[[], float] = time,
    ) -> None:
        self._future_parts = parts
        self._server = server
        self._to_client = to_client
        self._to_server = to_server
        # Clients of the older protocol say once, in `initialize`, what they can do.
        self._protocol = ClientProtocol()
        # By how a tool's name looks: a lenient server runs a tool by another spelling of its name.
        self._annotations: dict[str, Mapping[str, object]] = {}
        self._kept_descriptions: set[str] = set()
        # Held while a message of the server is kept: over HTTP several threads bring them.
        self._server_lock = Lock()
        self._awaited: OrderedDict[tuple[str, object], AwaitedRequest] = OrderedDict()
        # The ids of the server's own requests: the client's answers pass unruled, so they pass only where asked for.
        self._asked: OrderedDict[tuple[str, object], None] = OrderedDict()
        self._awaited_lock = Lock()
        self._questions = ClientQuestions(
            server,
            lambda: self._parts,
            send=self._send_to_client,
            approved=partial(self._decide, ask=False),
            clock=clock,
            wait_s=lambda: self._parts.wait_s,
        )
        # Answers of the server to requests that the client did not make, or that were held.
        self.unasked_answers = 0
        self._call_numbers = count(1)
        self._run_id = urandom(6).hex()

    @property
    def _parts(self) -> McpParts:
        return self._future_parts.result()

    # 1. Read.

    def from_client(self, line: bytes) -> None:
        """Forward, answer or hold one message of the client."""
        if not line.strip():
            return
        try:
            message = wire.read_strictly(line)
        except InvalidCall as error:
            why = f"not passed on by Lockgate: {error.message}"
            self._send_to_client(wire.error_message(None, wire.PARSE_ERROR, why))
            return
        if isinstance(message, list):
            self._handle_batch(line, message)
        elif isinstance(message, dict):
            self._handle_message(line, message)
        else:
            self._send_to_client(_NO_MESSAGE)

    def _handle_message(self, line: bytes, message: Message) -> None:
        if refusal := _refuse_ambiguous(message):
            self._send_to_client(refusal)
            return
        method = message.get("method")
        if method is None and self._questions.is_our_question(message):
            self._questions.take_answer(message)
        elif method is None and not self._was_asked(message):
            _log.warning("an answer of the client is not passed on: the server asked no such question")
        elif method is not None and not wire.is_unruled(message):
            call = self._parse_call(line, message)
            if isinstance(call, McpCall):
                self._decide(call, ask=True)
            else:
                self._send_to_client(call)
        else:
            if method == wire.INITIALIZE:
                self._protocol = wire.client_protocol_of(message) or ClientProtocol()
            elif method == wire.CANCELLED:
                self._questions.take_cancellation(message)
            self._remember_request(message)
            self._to_server(line, message)

    def _handle_batch(self, line: bytes, items: list[object]) -> None:
        """Forward a batch (protocol version 2025-03-26) whole, or refuse all of it if one of its calls may not run."""
        rest = [item for item in items if not (isinstance(item, dict) and self._consume_answer(item))]
        ruled = [self._rule_in_batch(item) for item in rest]
        refused = {at: answer for at, answer in enumerate(ruled) if not isinstance(answer, str)}
        if not refused:
            for item, key in zip(rest, ruled, strict=True):
                if isinstance(item, dict) and isinstance(key, str):
                    if item.get("method") == wire.INITIALIZE:
                        self._protocol = wire.client_protocol_of(item) or ClientProtocol()
                    self._remember_request(item, key)
            if rest:
                self._to_server(line if len(rest) == len(items) else wire.line_of(rest), rest)
            return
        why = "not passed on by Lockgate: another call of the same batch may not run"
        for at, item in enumerate(rest):
            if at not in refused and isinstance(item, dict) and "method" in item and "id" in item:
                refused[at] = wire.error_message(item["id"], wire.FAILED, why)
        self._to_client(wire.line_of([refused[at] for at in sorted(refused)]))

    def _consume_answer(self, item: Message) -> bool:
        """Take the user's answer to our own question; return False if this message is no such answer."""
        ours = self._questions.is_our_question(item) and "method" not in item
        if ours:
            self._questions.take_answer(item)
        return ours

    def _rule_in_batch(self, item: object) -> Message | str:
        """Return the error for a refused message of a batch; else its ruling's key, which is empty if it is no call."""
        if not isinstance(item, dict):
            return _NO_MESSAGE
        if refusal := _refuse_ambiguous(item):
            return refusal
        if "method" not in item:
            return "" if self._was_asked(item) else _NO_MESSAGE
        if wire.is_unruled(item):
            return ""
        call = self._parse_call(b"", item)
        if not isinstance(call, McpCall):
            return call
        if _question_state(call):
            # An answer to our question belongs to the modern protocol, which has no batches.
            return call.denial("Lockgate did not pass this call on.")
        ruling = self._rule(call)
        return ruling.key if ruling.denial is None else ruling.denial

    def _remember_request(self, message: Message, call_key: str = "") -> None:
        """Remember a request by its id: the source of the server's answer is named after it."""
        id_key = wire.id_key(message.get("id"))
        method = message.get("method")
        if id_key is None or not isinstance(method, str):
            return
        params = message.get("params")
        about = params.get("name") or params.get("uri") if isinstance(params, dict) else None
        with self._awaited_lock:
            self._awaited[id_key] = AwaitedRequest(method[:80], about[:200] if isinstance(about, str) else "", call_key)
            if len(self._awaited) > _MAX_AWAITED:
                self._awaited.popitem(last=False)

    def _request_answered_by(self, id: object) -> AwaitedRequest | None:
        """Return the request that an answer of this id answers, and forget it."""
        id_key = wire.id_key(id)
        if id_key is None:
            return None
        with self._awaited_lock:
            return self._awaited.pop(id_key, None)

    def _was_asked(self, answer: Message) -> bool:
        """Return whether this answers a request of the server, and forget that request: it is answered once."""
        id_key = wire.id_key(answer.get("id"))
        with self._awaited_lock:
            return id_key is not None and self._asked.pop(id_key, False) is None

    # 2. Pin.

    def _findings_from_pins(self, name: str) -> tuple[Finding, ...]:
        pins = self._parts.pins
        if pins.unreadable:
            return (Finding("mcp:tools-unpinned", "tool", 0, 0, excerpt=pins.unreadable[:200]),)
        return (Finding("mcp:tool-changed", "tool", 0, 0, excerpt=name[:80]),) if pins.has_changed(name) else ()

    # 3. Rule.

    def _parse_call(self, line: bytes, message: Message) -> McpCall | Message:
        """Return the call, or the error that the client gets for a malformed one."""
        id, params, method = message.get("id"), message.get("params"), str(message["method"])
        protocol = wire.client_protocol_of(message) or self._protocol
        if method != wire.CALL:
            given = params if isinstance(params, dict) else {} if params is None else {"params": params}
            said = {name: value for name, value in given.items() if name != "_meta"}
            return McpCall(line, message, id, method, said, protocol)
        if not isinstance(params, dict) or not isinstance(params.get("name"), str) or not params["name"]:
            why = "not passed on by Lockgate: a call needs the name of a tool"
            return wire.error_message(id, wire.INVALID_PARAMS, why)
        arguments = wire.ruled_arguments(params)
        if arguments is None:
            why = "not passed on by Lockgate: a call's arguments are an object, and repeat no parameter"
            return wire.error_message(id, wire.INVALID_PARAMS, why)
        return McpCall(line, message, id, params["name"], arguments, protocol)

    def _decide(self, call: McpCall, *, ask: bool) -> None:
        """Forward the call if it may run. Else ask the client's user, if that is possible, or send the denial."""
        ruling = self._rule(call)
        if ruling.denial is None:
            self._remember_request(ruling.call.message, ruling.key)
            self._to_server(ruling.call.line, ruling.call.message)
        elif "id" not in call.message:
            _log.warning("the notification `%s` is not passed on: it was held", printable(call.name))
        elif not (
            ask and call.is_of_tool and ruling.approval and self._questions.try_ask(ruling.call, ruling.approval)
        ):
            self._send_to_client(ruling.denial)

    def _rule(self, call: McpCall) -> CallRuling:
        """Rule on a call. When this returns, the ruling is in the journal and in the session store."""
        key = f"{self._run_id}:{next(self._call_numbers)}"
        try:
            state = _question_state(call)
            answered = self._questions.redeem(call, state) if state else call
            if not isinstance(answered, McpCall):
                return CallRuling(call, denial=answered)
            call, parts = answered, self._parts
            kept = parts.host.check(
                parts.session,
                f"mcp__{self._server}__{call.name}",
                call.arguments,
                annotations=self._annotations.get(appearance_of(call.name)) if call.is_of_tool else None,
                key=key,
                findings=self._findings_from_pins(call.name) if call.is_of_tool else (),
            )
        except Exception as error:  # noqa: BLE001  # an edge: a call that could not be ruled on is denied
            report_failure("mcp-ruling", error)
            return CallRuling(call, denial=call.denial(failure_text(error)))
        decision = kept.decision
        if decision.action is Action.CONTINUE:
            return CallRuling(call, key)
        denial = call.denial(_denial_text(decision))
        return CallRuling(call, denial=denial, approval=decision.approval if decision.action is Action.PAUSE else "")

    # 5. Keep.

    def from_server(self, line: bytes) -> None:
        """Keep one message of the server in the session, then pass it on unchanged."""
        if not line.strip():
            return
        try:
            message = wire.read_loosely(line)
        except InvalidCall as error:
            answers: list[object] = [{"id": id} for id in wire.ids_answered_by(line)]
            self._withhold([self._server_message(each) for each in answers], error.message)
            return
        items = message if isinstance(message, list) else [message]
        texts = [self._server_message(item) for item in items if not (isinstance(item, dict) and wire.is_notice(item))]
        try:
            for each in texts:
                self._keep(each)
        except Exception as error:  # noqa: BLE001  # an edge: the client must not get what could not be kept
            report_failure("mcp-keeping", error)
            self._withhold(texts, error_text(error))
            return
        if any(map(_is_unasked, texts)):
            line = self._without_unasked(message, texts)
        if line:
            self._to_client(line)
        for item, request in texts:
            if request is not None:
                # Afterwards, so that the client does not wait for a note that no ruling depends on.
                self._note_outcome(request, _outcome_of(item))

    def _without_unasked(self, message: object, texts: Sequence[ServerMessage]) -> bytes:
        """Return what is left of the server's line without answers that the client did not ask for; log these."""
        unasked = [each.item for each in texts if _is_unasked(each)]
        self.unasked_answers += len(unasked)
        why = "an answer of the server `%s` is not passed on: the client asked no such question (%d so far)"
        _log.warning(why, printable(self._server), self.unasked_answers)
        rest = [item for item in message if item not in unasked] if isinstance(message, list) else []
        return wire.line_of(rest) if rest else b""

    def _server_message(self, item: object) -> ServerMessage:
        """Pair a message of the server with the request that it answers."""
        if not isinstance(item, dict):
            return ServerMessage(item, None)
        if not isinstance(item.get("method"), str):
            return ServerMessage(item, self._request_answered_by(item.get("id")))
        if (id_key := wire.id_key(item.get("id"))) is not None:
            with self._awaited_lock:
                self._asked[id_key] = None
                if len(self._asked) > _MAX_AWAITED:
                    self._asked.popitem(last=False)
        return ServerMessage(item, None)

    def _withhold(self, messages: Sequence[ServerMessage], why: str) -> None:
        """Tell both sides that a message of the server is not passed on, so that neither waits for ever."""
        _log.warning("a message of the server `%s` is not passed on: %s", printable(self._server), why)
        for item, request in messages:
            id = item.get("id") if isinstance(item, dict) else None
            if request is not None:
                text = f"the server's answer is not passed on by Lockgate: {why}"
                self._send_to_client(wire.error_message(id, wire.FAILED, text))
                self._note_outcome(request, "failed")
            elif isinstance(item, dict) and "method" in item and wire.id_key(id) is not None:
                answer = wire.error_message(id, wire.FAILED, f"not passed on by Lockgate: {why}")
                self._to_server(wire.line_of(answer), answer)

    def _note_outcome(self, request: AwaitedRequest, ran: str) -> None:
        """Note what became of the call that a message answers; other requests have no outcome."""
        try:
            if request.call_key:
                self._parts.host.outcome(self._parts.session, request.call_key, ran)
        except Exception as error:  # noqa: BLE001  # an edge: the client has its answer already
            report_failure("mcp-outcome", error)

    def _keep(self, message: ServerMessage) -> None:
        """Keep every text of a message and its tool lists."""
        item, request = message
        source = f"mcp:{self._server}"
        with self._server_lock:
            if not isinstance(item, dict):
                self._add(source, wire.text_of(item))
                return
            method = item.get("method")
            if isinstance(method, str):
                source = f"{source}:{method[:80]}"
            elif request is not None and request.method == wire.CALL:
                source = f"{source}:{request.about}"
            elif request is not None:
                source = f"{source}:{request.method} {request.about}".rstrip()
            said = {name: value for name, value in item.items() if name not in ("jsonrpc", "id", "method")}
            for name, value in said.items():
                # Whatever request it answers: a client may read any value of this shape as a list of tools.
                if isinstance(value, dict) and isinstance(tools := value.get("tools"), list):
                    self._keep_tools(tools)
                    if request is not None and request.method == wire.LIST:
                        # The pinned fields were kept just now, by `_keep_tools`.
                        said[name] = {**value, "tools": [unpinned_fields(tool) for tool in tools]}
            self._add(source[:200], wire.text_of(said))

    def _add(self, source: str, text: str, *, key: str = "", trust: str | None = None) -> None:
        """Add a text to the session, in overlapping parts if it is longer than the scanner reads."""
        host, session = self._parts.host, self._parts.session
        for start in range(0, len(text), MAX_PART - _OVERLAP):
            part = text[start : start + MAX_PART]
            if part.strip():
                try:
                    host.add(session, part, source=source, trust=trust, key=f"{key}/{start}" if key and start else key)
                except InvalidBlock:
                    # A full session takes no more blocks. Its context counts as unknown, so high-risk calls pause.
                    if getattr(host.session(session), "context_known", True):
                        raise
            if start + MAX_PART >= len(text):
                break

    def _keep_tools(self, listed: list[object]) -> None:
        """Record the listed tools' pins and annotations, and add every new description to the session."""
        described = []
        for tool, changed, accepted in self._parts.pins.record_listing(listed):
            annotations = tool.fields.get("annotations")
            # A tool that drops its annotations keeps the old ones. Annotations of a wrong type raise the risk.
            if annotations is not None:
                look = appearance_of(tool.name)
                self._annotations[look] = annotations if isinstance(annotations, dict) else {"title": annotations}
            if tool.digest in self._kept_descriptions:
                continue
            # The server wrote the description and every model reads it: it is untrusted until a person accepts it.
            trust = "vetted" if accepted and not changed else None
            source = f"mcp:{self._server}:description of {tool.name[:80]}"
            self._add(source, description_text(tool), key=f"mcp-tool:{self._server}:{tool.digest}", trust=trust)
            if trust is None:
                described.append(tool)
            self._kept_descriptions.add(tool.digest)
        if described:
            digest = sha256("".join(tool.digest for tool in described).encode()).hexdigest()
            key = f"mcp-schemas:{self._server}:{digest}"
            self._add(f"mcp:{self._server}:schemas", schema_text(described), key=key)

    def close(self) -> None:
        """Forget the questions that are open with the client."""
        self._questions.close()

    def _send_to_client(self, message: Message) -> None:
        self._to_client(wire.line_of(message))


def _is_unasked(message: ServerMessage) -> bool:
    """Return whether the server answers a request that does not wait for an answer; one without an id answers none."""
    item, request = message
    if not isinstance(item, dict) or isinstance(item.get("method"), str):
        return False
    return request is None and wire.id_key(item.get("id")) is not None


_NO_MESSAGE = wire.error_message(None, wire.INVALID_REQUEST, "not passed on by Lockgate: this is no message")


def _question_state(call: McpCall) -> str:
    """Return the state that comes with an answer to our question; empty for all other calls."""
    params = call.message.get("params")
    state = params.get("requestState") if isinstance(params, dict) and call.is_of_tool else None
    return state if isinstance(state, str) and state.startswith(STATE) else ""


def _outcome_of(answer: object) -> str:
    result = answer.get("result") if isinstance(answer, dict) and "error" not in answer else None
    return "ran" if isinstance(result, dict) and result.get("isError") is not True else "failed"


def _denial_text(decision: Decision) -> str:
    if decision.action is Action.REORIENT:
        return f"Lockgate did not pass this call on, and asks you to reconsider: {decision.correction}"
    text = f"Lockgate did not pass this call on: {decision.explanation or decision.reason.value}."
    if decision.approval and decision.reason is not Reason.DENIED:
        text += (
            f" It waits for a person as approval {decision.approval}: once they have said yes (lockgate approvals"
            f" approve {decision.approval}, or on the page of lockgate serve), the same call may be made once."
        )
    return text


def _refuse_ambiguous(message: Message) -> Message | None:
    """Return the error for a message that servers could read differently than we do; None for all others."""
    id = message.get("id")
    known = id if wire.id_key(id) is not None else None
    why = ""
    if other := wire.misleading_name(message):
        why = f"{quoted(other)} is no name that belongs there, or looks like another"
    elif message.get("jsonrpc", "2.0") != "2.0":
        why = "it is not of JSON-RPC 2.0"
    elif "method" in message:
        method = message["method"]
        why = _misread_method(method)
        if not why and known is None and ("id" in message or method == wire.CALL):
            why = "a request needs an id that is text or a number"
    return wire.error_message(known, wire.INVALID_REQUEST, f"not passed on by Lockgate: {why}") if why else None


def _misread_method(method: object) -> str:
    """Return how servers could read a method differently than we do; empty if they cannot."""
    if not isinstance(method, str):
        return "its method is no text"
    if len(method) > wire.MAX_METHOD:
        return "its method is longer than any method is"
    real = wire.imitated_method(method)
    return f"{quoted(method)} may be taken for {quoted(real)}" if real else ""
