"""The checkpoint between an MCP client and one of its servers: every call is ruled on, everything read is noted.

It is handed the messages of both sides and two functions that send; which transport carries them is not its business.
What goes through goes through byte for byte. It changes three things only: a call that may not run is answered in its
server's place, a question to a person is put to the client in ours, and their answer stays here.

1. Read.     What the client sent is read strictly, and what cannot be read is not passed on.
2. Noted.    Before a call is ruled on, everything that its server (and every other plug of the session) has passed on
             is in the session: what is passed on is queued and marked first, and whoever comes first empties the queue.
3. Pinned.   A tool that is not what was pinned has a finding that only a person clears.
4. Ruled.    CONTINUE passes the call on. A failure of ours is a denial, like everything else that is not CONTINUE.
5. Asked.    A PAUSE is put to the client's user where the client can ask. Their answer goes through the approvals,
             bound to the call's digest, and the call is ruled on again: the ruling lets it run, never the answer.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from hashlib import sha256
from itertools import count
from os import urandom
from threading import Event, Lock, Thread
from time import time
from typing import TYPE_CHECKING, NamedTuple, Protocol
from weakref import ref

from lockgate.core.errors import InvalidBlock, InvalidCall, printable, quoted
from lockgate.core.vocabulary import Action, Finding, Reason
from lockgate.mcp import messages as wire
from lockgate.mcp.elicitation import STATE, ApprovalAnswers, ClientQuestions, McpCall, error_text, failure_text
from lockgate.mcp.messages import Era, Message
from lockgate.mcp.tool_pins import ToolPins, description_text, schema_text, unpinned_fields

if TYPE_CHECKING:
    from lockgate.core.vocabulary import Block, Decision
    from lockgate.sessions.store import Mark

_log = logging.getLogger("lockgate.mcp")

# Requests whose answer is awaited: a server that never gives one must not fill the memory.
_MAX_AWAITED = 4_096
# Below the scanner's own limit, with some of each part repeated in the next so that nothing is cut in two.
MAX_PART = 8 * 1024 * 1024
_OVERLAP = 4_096
# Up to so many bytes are passed on before they are noted: noting more takes longer than others should wait for.
_AT_ONCE = 64 * 1024
# And so many messages.
_MAX_QUEUED = 16
# How long what waits does so: longer than it takes to pass the answer of a quick server on.
_SOON_S = 0.004
_UNUSED_S = 10.0
# After how long what could not be noted is tried again.
_AGAIN_S = 1.0


class McpHost(Protocol):
    """What the checkpoint needs of a host: `lockgate.sessions.Host` is one."""

    def open(self, session: str = "", *, goal: str = "", host: str = "api") -> object: ...

    def add(self, session: str, content: str, *, source: str, trust: str | None = None, key: str = "") -> Block: ...

    def check_first(
        self,
        session: str,
        tool: str,
        arguments: Mapping[str, object],
        *,
        annotations: Mapping[str, object] | None = None,
        key: str = "",
        findings: Sequence[Finding] = (),
    ) -> tuple[Decision, Callable[[], object]]: ...

    def flush(self, session: str = "") -> None: ...

    def passing(self, session: str) -> Mark | None: ...

    def session(self, id: str) -> object: ...

    def outcome(self, session: str, key: str, ran: str) -> bool: ...


Send = Callable[[bytes, object], None]


class _Asked(NamedTuple):
    """What a request asked for; `ended` is the key of the call that its answer ends."""

    method: str
    about: str
    ended: str


class _Heard(NamedTuple):
    """A message of the server, and what it answers."""

    item: object
    asked: _Asked | None


class _Said(NamedTuple):
    source: str
    value: object


class _Listed(NamedTuple):
    tools: list[object]


class _Ended(NamedTuple):
    key: str
    ran: str


class McpParts(NamedTuple):
    """What a checkpoint rules with. It takes a moment to put together, in which messages other than calls can pass."""

    host: McpHost
    session: str
    pins: ToolPins
    answers: ApprovalAnswers | None


class McpCheckpoint:
    """Between one client and one server. `to_client` and `to_server` send one message each, from any thread."""

    def __init__(
        self,
        parts: Future[McpParts],
        *,
        server: str,
        to_client: Callable[[bytes], None],
        to_server: Send,
        clock: Callable[[], float] = time,
    ) -> None:
        self._coming = parts
        self._here: McpParts | None = None
        self._server = server
        self._to_client = to_client
        self._to_server = to_server
        # In the handshake era a client says once what it can do.
        self._era = Era()
        self._annotations: dict[str, Mapping[str, object]] = {}
        self._described: set[str] = set()
        # The first one stays until it is noted: whoever finds nothing here need not wait for whoever notes.
        self._queue: deque[_Heard | _Said | _Listed | _Ended] = deque()
        self._noting = Lock()
        # Says to others that something was passed on which is still queued; or that nothing can say so.
        self._mark: Mark | None = None
        self._unmarked = False
        # Whether something waits to be noted or kept, by a thread that begins with the first that does.
        self._waiting = Event()
        self._closed = Event()
        self._keeper: Thread | None = None
        # What was asked for under which id: where an answer came from, and which call it ends.
        self._awaited: OrderedDict[tuple[str, object], _Asked] = OrderedDict()
        self._awaiting = Lock()
        self._asking = ClientQuestions(
            server,
            lambda: self._parts,
            send=self._send_to_client,
            approved=partial(self._decide, ask=False),
            clock=clock,
        )
        self._calls = count(1)
        # What is left to do once a call is passed on.
        self._unfinished: deque[Callable[[], object]] = deque()
        self._finishing = Lock()
        self._run = urandom(6).hex()
        # What came before there was anywhere to note it.
        parts.add_done_callback(lambda _: self.idle() or None)

    @property
    def _parts(self) -> McpParts:
        if self._here is None:
            self._here = self._coming.result()
        return self._here

    # 1. Read.

    def from_client(self, line: bytes) -> None:
        """One message of the client: passed on, answered here, or held."""
        if not line.strip():
            return
        try:
            message = wire.read_strictly(line)
        except InvalidCall as error:
            self._send_to_client(
                wire.error_message(None, wire.PARSE_ERROR, f"not passed on by Lockgate: {error.message}")
            )
            return
        if isinstance(message, list):
            self._take_batch(line, message)
        elif isinstance(message, dict):
            self._take_message(line, message)
        else:
            self._send_to_client(
                wire.error_message(None, wire.INVALID_REQUEST, "not passed on by Lockgate: this is no message")
            )

    def _take_message(self, line: bytes, message: Message) -> None:
        if refusal := _refuse_ambiguous(message):
            self._send_to_client(refusal)
            return
        method = message.get("method")
        if method is None and self._asking.is_our_question(message):
            self._asking.take_answer(message)
        elif method == wire.CALL:
            self._take_call(line, message)
        else:
            if method == wire.INITIALIZE:
                self._era = wire.era_of(message) or Era()
            elif method == wire.CANCELLED:
                self._asking.take_cancellation(message)
            self._remember_request(message)
            self._to_server(line, message)

    def _take_batch(self, line: bytes, items: list[object]) -> None:
        """Several messages in one (2025-03-26): passed on whole, or, when one of them may not run, not at all."""
        rest = [item for item in items if not (isinstance(item, dict) and self._takes_answer(item))]
        refused: dict[int, Message] = {}
        keys: dict[int, str] = {}
        for at, item in enumerate(rest):
            answer = self._rule_in_batch(item)
            if isinstance(answer, str):
                keys[at] = answer
            else:
                refused[at] = answer
        if not refused:
            for at, item in enumerate(rest):
                if isinstance(item, dict):
                    if item.get("method") == wire.INITIALIZE:
                        self._era = wire.era_of(item) or Era()
                    self._remember_request(item, keys[at])
            if rest:
                self._to_server(line if len(rest) == len(items) else wire.line_of(rest), rest)
            self._finish()
            return
        self._finish()
        why = "not passed on by Lockgate: another call of the same batch may not run"
        for at, item in enumerate(rest):
            if at not in refused and isinstance(item, dict) and "method" in item and "id" in item:
                refused[at] = wire.error_message(item["id"], wire.FAILED, why)
        self._to_client(wire.line_of([refused[at] for at in sorted(refused)]))

    def _takes_answer(self, item: Message) -> bool:
        ours = self._asking.is_our_question(item) and "method" not in item
        if ours:
            self._asking.take_answer(item)
        return ours

    def _rule_in_batch(self, item: object) -> Message | str:
        """What is answered to a message of a batch that may not be passed on; else its key, if it is a call."""
        if not isinstance(item, dict):
            return wire.error_message(None, wire.INVALID_REQUEST, "not passed on by Lockgate: this is no message")
        refusal = _refuse_ambiguous(item)
        if refusal or item.get("method") != wire.CALL:
            return refusal or ""
        call = self._parse_call(b"", item)
        if not isinstance(call, McpCall):
            return call
        if call.message is not item:
            # An answer to a question of ours belongs to the modern era, which has no batches.
            return self._denial(call, "")
        decision = self._rule(call)
        return decision if isinstance(decision, str) else self._denial(call, decision)

    def _remember_request(self, message: Message, ended: str = "") -> None:
        """Remember what was asked for under an id, for whoever reads the answer."""
        key = wire.id_key(message.get("id"))
        method = message.get("method")
        if key is None or not isinstance(method, str):
            return
        params = message.get("params")
        about = None
        if isinstance(params, dict):
            about = params.get("name") or params.get("uri")
        with self._awaiting:
            self._awaited[key] = _Asked(method[:80], about[:200] if isinstance(about, str) else "", ended)
            if len(self._awaited) > _MAX_AWAITED:
                self._awaited.popitem(last=False)

    def _request_answered_by(self, id: object) -> _Asked | None:
        """What an answer of this id answers; once."""
        key = wire.id_key(id)
        if key is None:
            return None
        with self._awaiting:
            return self._awaited.pop(key, None)

    # 2. Noted.

    def from_server(self, line: bytes) -> None:
        """One message of the server: noted, and then passed on as it is."""
        if not line.strip():
            return
        try:
            message = wire.read_loosely(line)
        except InvalidCall as error:
            self._refuse_unreadable(line, error.message)
            return
        queued = False
        for item in message if isinstance(message, list) else (message,):
            if not isinstance(item, dict):
                self._queue.append(_Heard(item, None))
            elif not wire.is_notice(item):
                self._queue.append(
                    _Heard(
                        item, None if isinstance(item.get("method"), str) else self._request_answered_by(item.get("id"))
                    )
                )
            else:
                continue
            queued = True
        # The client's next call may come by another server's pump, which sees only what is kept: it waits for what is
        # marked until that is noted, which is done in a moment. What is long, or cannot be marked, is noted before it
        # is passed on. What cannot be noted yet stays queued, and no call is ruled on here before it is out.
        if queued and (not self._marked() or len(line) > _AT_ONCE or len(self._queue) > _MAX_QUEUED):
            self.idle()
        self._to_client(line)

    def _refuse_unreadable(self, line: bytes, why: str) -> None:
        _log.warning("a message of the server `%s` is not passed on: %s", printable(self._server), why)
        for id in wire.ids_answered_by(line):
            asked = self._request_answered_by(id)
            if asked is not None:
                self._send_to_client(
                    wire.error_message(id, wire.FAILED, f"the server's answer is not passed on by Lockgate: {why}")
                )
                if asked.ended:
                    self._queue.append(_Ended(asked.ended, "failed"))

    def idle(self) -> bool:
        """Note what was passed on, and keep what waits to be kept; whether that was done."""
        if not self._coming.done():
            return True
        try:
            self._note()
            self._parts.host.flush(self._parts.session)
        except Exception as error:  # noqa: BLE001  # it stays in the queue, and no call is ruled on before it is out
            _log.warning("what the server sent cannot be noted: %s", error_text(error))
            return False
        return True

    def _marked(self) -> bool:
        """Whether every other process of the session knows that something is passed on, and waits until it is noted."""
        try:
            if self._mark is None and not self._unmarked and self._coming.done():
                with self._noting:
                    if self._mark is None:
                        self._mark = self._parts.host.passing(self._parts.session)
                        self._unmarked = self._mark is None
            return self._mark is not None and self._mark.begin() and self._soon()
        except Exception as error:  # noqa: BLE001  # then it is noted first
            _log.warning("what the server sends cannot be marked: %s", error_text(error))
            return False

    def _soon(self) -> bool:
        """Have what waits noted and kept in a moment, whatever happens until then; False where nobody can."""
        if self._waiting.is_set():
            return True
        if self._keeper is None:
            keeper = Thread(target=_keep, args=(ref(self), self._waiting, self._closed), daemon=True)
            try:
                keeper.start()
            except RuntimeError:
                # No more threads.
                return False
            self._keeper = keeper
        self._waiting.set()
        return True

    def _taken_apart(self, item: object, asked: _Asked | None) -> list[_Said | _Listed | _Ended]:
        """What is to be noted of a message."""
        source = f"mcp:{self._server}"
        if not isinstance(item, dict):
            return [_Said(source, item)]
        method = item.get("method")
        if isinstance(method, str):
            source = f"{source}:{method[:80]}"
        elif asked is not None:
            source = f"{source}:{asked.about}" if asked.ended else f"{source}:{asked.method} {asked.about}".rstrip()
        said = {name: value for name, value in item.items() if name not in ("jsonrpc", "id", "method")}
        parts: list[_Said | _Listed | _Ended] = []
        if asked is not None and asked.ended:
            result = item.get("result")
            failed = "error" in item or not isinstance(result, dict) or result.get("isError") is True
            # First, so that it is kept with the ruling, which is kept with what comes next.
            parts.append(_Ended(asked.ended, "failed" if failed else "ran"))
        for name, value in said.items():
            # By its shape, not by the id it came under: whatever a client may take for a list of tools is one.
            if isinstance(value, dict) and isinstance(tools := value.get("tools"), list):
                parts.append(_Listed(tools))
                # Only where it was asked for is it nothing but one.
                if asked is not None and asked.method == wire.LIST:
                    said[name] = {**value, "tools": [unpinned_fields(tool) for tool in tools]}
        parts.append(_Said(source[:200], said))
        return parts

    def _note(self) -> None:
        """Empty the queue into the session; what cannot be noted stays, and raises."""
        # What is marked was queued before.
        mark = self._mark
        begun = 0 if mark is None else mark.begun
        # First, so that what becomes of them finds them.
        self._count_in()
        if self._queue:
            self._empty()
        if mark is not None:
            mark.kept(begun)

    def _empty(self) -> None:
        with self._noting:
            while self._queue:
                item = self._queue[0]
                if isinstance(item, _Heard):
                    first, *more = self._taken_apart(*item)
                    self._queue[0] = first
                    for at, part in enumerate(more, 1):
                        self._queue.insert(at, part)
                    continue
                try:
                    if isinstance(item, _Said):
                        self._add(item.source, wire.text_of(item.value))
                    elif isinstance(item, _Listed):
                        self._note_tools(item.tools)
                    else:
                        # Its ruling may have come after those that were counted in a moment ago.
                        self._count_in()
                        self._parts.host.outcome(self._parts.session, item.key, item.ran)
                except InvalidBlock:
                    info = self._parts.host.session(self._parts.session)
                    # A session that is full takes nothing more in: what it has read counts as unknown from then on.
                    if getattr(info, "context_known", True):
                        raise
                self._queue.popleft()

    def _add(self, source: str, text: str, *, key: str = "", trust: str | None = None) -> None:
        for start in range(0, len(text), MAX_PART - _OVERLAP):
            part = text[start : start + MAX_PART]
            if part.strip():
                named = f"{key}/{start}" if key and start else key
                self._parts.host.add(self._parts.session, part, source=source, trust=trust, key=named)
            if start + MAX_PART >= len(text):
                break

    # 3. Pinned.

    def _note_tools(self, listed: list[object]) -> None:
        seen = self._parts.pins.record_listing(listed)
        values = []
        for tool, changed, accepted in seen:
            said = tool.fields.get("annotations")
            # Also those that the tool no longer has; and those that are no object count against it.
            if said is not None:
                self._annotations[tool.name] = said if isinstance(said, dict) else {"title": said}
            if tool.digest in self._described:
                continue
            # Its server wrote it, and every model reads it: text from outside, unless a person has looked at it.
            trust = "vetted" if accepted and not changed else None
            source = f"mcp:{self._server}:description of {tool.name[:80]}"
            self._add(source, description_text(tool), key=f"mcp-tool:{self._server}:{tool.digest}", trust=trust)
            if trust is None:
                values.append(tool)
            self._described.add(tool.digest)
        if values:
            digest = sha256("".join(tool.digest for tool in values).encode()).hexdigest()
            self._add(f"mcp:{self._server}:schemas", schema_text(values), key=f"mcp-schemas:{self._server}:{digest}")

    def _findings(self, name: str) -> tuple[Finding, ...]:
        if self._parts.pins.unreadable:
            return (Finding("mcp:tools-unpinned", "tool", 0, 0, excerpt=self._parts.pins.unreadable[:200]),)
        return (
            (Finding("mcp:tool-changed", "tool", 0, 0, excerpt=name[:80]),)
            if self._parts.pins.has_changed(name)
            else ()
        )

    # 4. Ruled.

    def _take_call(self, line: bytes, message: Message) -> None:
        call = self._parse_call(line, message)
        if isinstance(call, McpCall):
            self._decide(call, ask=True)
        else:
            self._send_to_client(call)

    def _parse_call(self, line: bytes, message: Message) -> McpCall | Message:
        """The call, or what is answered to one that is none."""
        id, params = message["id"], message.get("params")
        era = wire.era_of(message) or self._era
        if not isinstance(params, dict) or not isinstance(params.get("name"), str) or not params["name"]:
            return wire.error_message(
                id, wire.INVALID_PARAMS, "not passed on by Lockgate: a call needs the name of a tool"
            )
        arguments = params.get("arguments")
        if arguments is not None and not isinstance(arguments, dict):
            why = "not passed on by Lockgate: a call's arguments are an object"
            return wire.error_message(id, wire.INVALID_PARAMS, why)
        call = McpCall(line, message, id, params["name"], arguments or {}, era)
        state = params.get("requestState")
        if not isinstance(state, str) or not state.startswith(STATE):
            return call
        try:
            return self._asking.redeem(call, state, params)
        except Exception as error:  # noqa: BLE001  # a failure of ours is a denial
            return wire.denial(id, failure_text(error), modern=era.modern)

    def _decide(self, call: McpCall, *, ask: bool) -> None:
        ruling = self._rule(call)
        if isinstance(ruling, str):
            self._remember_request(call.message, ruling)
            self._to_server(call.line, call.message)
            # The ruling waits to be kept, however long the server takes.
            self._finish()
            return
        if ask and isinstance(ruling, tuple) and ruling.action is Action.PAUSE and ruling.approval:
            try:
                asked = call.era.asks and self._asking.ask(call, ruling.approval)
            except Exception as error:  # noqa: BLE001  # whoever cannot be asked has not said yes
                _log.warning("a question could not be put to the client: %s", error_text(error))
                asked = False
            if asked:
                return
        self._send_to_client(self._denial(call, ruling))

    def _rule(self, call: McpCall) -> str | Decision | Exception:
        """The key of a call that may run; else the ruling that holds it, or why there is none."""
        try:
            self._note()
            key = f"{self._run}:{next(self._calls)}"
            # It is on record when this returns; the rest can wait until nobody does.
            decision, after = self._parts.host.check_first(
                self._parts.session,
                f"mcp__{self._server}__{call.name}",
                call.arguments,
                annotations=self._annotations.get(call.name),
                key=key,
                findings=self._findings(call.name),
            )
            if decision.action is not Action.CONTINUE:
                after()
                return decision
        except Exception as error:  # noqa: BLE001  # a failure of ours is a denial
            return error
        self._unfinished.append(after)
        return key

    def _finish(self) -> None:
        """Have what is left to do for rulings that were acted on done in a moment: the answer may be here before."""
        if not self._soon():
            self.idle()

    def _count_in(self) -> None:
        with self._finishing:
            while self._unfinished:
                try:
                    self._unfinished.popleft()()
                except Exception as error:  # noqa: BLE001  # the ruling is on record all the same
                    _log.warning("a ruling could not be kept: %s", error_text(error))

    def _denial(self, call: McpCall, ruling: str | Decision | Exception) -> Message:
        if isinstance(ruling, Exception):
            text = failure_text(ruling)
        elif isinstance(ruling, str):
            text = "Lockgate did not pass this call on."
        elif ruling.action is Action.REORIENT:
            text = f"Lockgate did not pass this call on, and asks you to reconsider: {ruling.correction}"
        else:
            text = f"Lockgate did not pass this call on: {ruling.explanation or ruling.reason.value}."
            if ruling.approval and ruling.reason is not Reason.DENIED:
                text += (
                    f" It waits for a person as approval {ruling.approval}: once they have said yes (lockgate approvals"
                    f" approve {ruling.approval}, or on the page of lockgate serve), the same call may be made once."
                )
        return wire.denial(call.id, text, modern=call.era.modern)

    def close(self) -> None:
        """Forget what waits; what has been queued is noted, if it can be."""
        self._asking.close()
        self._closed.set()
        self._waiting.set()
        self.idle()
        if self._mark is not None:
            self._mark.close()

    def _send_to_client(self, message: Message) -> None:
        self._to_client(wire.line_of(message))


def _keep(weak: ref[McpCheckpoint], waiting: Event, closed: Event) -> None:
    """In a thread of its own, until the checkpoint is closed or nobody uses it any more."""
    while True:
        found = waiting.wait(_UNUSED_S)
        # Whoever was just passed something is woken on the processor of whoever passed it on, and would have to wait
        # there until that one is done with what else it does.
        if found and closed.wait(_SOON_S):
            return
        point = weak()
        if point is None:
            return
        if found:
            # First: what comes from here on waits anew.
            waiting.clear()
            if not point.idle():
                del point
                # Others wait for it, whether anything more is passed on here or not.
                closed.wait(_AGAIN_S)
                waiting.set()
                continue
        del point


def _refuse_ambiguous(message: Message) -> Message | None:
    """What is answered to a message that different servers would read differently; None for the others."""
    id = message.get("id")
    known = id if wire.id_key(id) is not None else None
    method = message.get("method")
    why = ""
    if other := wire.misleading_name(message):
        why = f"{quoted(other)} may be taken for another name"
    elif "method" in message and not isinstance(method, str):
        why = "its method is no text"
    elif isinstance(method, str) and method != wire.CALL and method.strip().casefold() == wire.CALL:
        why = f"{quoted(method)} may be taken for {quoted(wire.CALL)}"
    elif method == wire.CALL and known is None:
        why = "a call needs an id that is text or a number"
    return wire.error_message(known, wire.INVALID_REQUEST, f"not passed on by Lockgate: {why}") if why else None
