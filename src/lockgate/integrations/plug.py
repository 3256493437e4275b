"""What every plug for an agent framework does; the framework's own module only translates.

1. The user's words.  Only what the caller of the framework gave it is the user's. A message under role "user" is not:
                      tools, summaries and subagents write such messages too.
2. Read.              What the next request to the model holds is added before the model reads it, by key, once. Not
                      when a tool returns: what is added voids the open question about a call beside it.
3. Rule.              A call is ruled on last, with the arguments that will run, against what the model had read.
4. Ask.               A PAUSE becomes the framework's own pause. The answer names its question, goes through the
                      approvals, and the call is ruled on again: the ruling lets it run, never the answer.

No method raises or returns nothing, because frameworks run the tool when a hook fails: what could not be read makes
every later call of the session suspect, and a call that could not be ruled on in time does not run.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import partial
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from itertools import count, takewhile
from threading import Lock, Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn, Protocol, TypeVar, get_args

from lockgate.core.errors import InvalidCall, InvalidConfig, LockgateError, printable, quoted
from lockgate.core.vocabulary import Action, Decision, Finding, Trust
from lockgate.runtime.failures import report_failure
from lockgate.runtime.forks import on_fork
from lockgate.sessions.session_entries import MAX_ID
from lockgate.sessions.spoken_reasons import denial_for_model, failure_for_model

if TYPE_CHECKING:
    from lockgate.gate.gate import Gate

K = TypeVar("K")
T = TypeVar("T")
OnPause = Literal["ask", "deny", "stop"]

_log = logging.getLogger("lockgate.plug")
# Sessions and lines that one plug remembers; the store has them all the same.
_MAX_REMEMBERED = 50_000
# Longer than judges may take, and shorter than hosts wait.
_DEADLINE_S = 50.0
_MAX_SOURCE = 1_000
# Copied into the threads and tasks that a call starts.
_running: ContextVar[str] = ContextVar("lockgate_running", default="")
# When the hook that runs here has to be over; 0 outside of `Plug.hook`.
_until: ContextVar[float] = ContextVar("lockgate_until", default=0.0)
# For a judge: the model of the agent whose call is being ruled on, and the event loop that waits for the ruling. And a
# mark that is not empty while a judge is asked here.
agent_here: ContextVar[tuple[object, Any]] = ContextVar("lockgate_agent", default=(None, None))
judging: ContextVar[list[bool] | None] = ContextVar("lockgate_judging", default=None)
_MAX_KEY = 100
# Fewer words in an argument are no order that an agent could be started with.
_MIN_ORDER_WORDS = 3


class HeldByLockgate(LockgateError):
    """Raised in place of a call that may not run: by `guard`, and by a plug that was made with `on_pause="stop"`.

    The message is for the model to read. `decision` is the ruling; None where the call could not be ruled on.
    """

    def __init__(self, message: str, decision: Decision | None = None) -> None:
        super().__init__(message)
        self.decision = decision


class Line(NamedTuple):
    """One text that the model is about to read. `key` stays the same when the same message is sent once more."""

    key: str
    text: str
    source: str
    trust: Trust | None = None


class PlugCall(NamedTuple):
    """One call, with the arguments that will run. `id` is the framework's, where it has one."""

    tool: str
    arguments: Mapping[str, object]
    id: str = ""
    annotations: Mapping[str, object] | None = None
    findings: tuple[Finding, ...] = ()


class HeldQuestion(NamedTuple):
    """A held call that a person can answer: `text` is what they are shown, `approval` and `digest` what they answer.

    `as_dict` is for frameworks that store their pauses as JSON.
    """

    session: str
    tool: str
    approval: str
    digest: str
    text: str

    def as_dict(self) -> dict[str, str]:
        return {"held_by": "lockgate", **self._asdict()}

    def yes(self, who: str) -> dict[str, object]:
        """Return the answer that lets this call run once; `who` is recorded."""
        return {"approval": self.approval, "digest": self.digest, "yes": True, "who": who}

    def no(self, who: str) -> dict[str, object]:
        """Return the answer that denies this call for the rest of the session."""
        return {"approval": self.approval, "digest": self.digest, "yes": False, "who": who}


class Verdict(NamedTuple):
    """What becomes of a call: it `runs`, or the model reads `text` in place of its result.

    `question` is there where the framework should ask a person, `stops` where it should end the run. `decision` is the
    ruling that holds the call; None where it runs, or could not be ruled on.
    """

    runs: bool
    text: str = ""
    question: HeldQuestion | None = None
    stops: bool = False
    decision: Decision | None = None

    def __bool__(self) -> NoReturn:
        raise TypeError("a verdict is neither true nor false\nhint: ask `verdict.runs`")


class PlugHost(Protocol):
    """What a plug needs of the host that rules: in this process, or in a running service."""

    def open(self, session: str, *, goal: str, host: str, parent: str, known: bool) -> object: ...

    def add(self, session: str, content: str, *, source: str, trust: Trust | None, key: str) -> object: ...

    def said(self, session: str, texts: Collection[str]) -> Collection[str]: ...

    def check(self, session: str, call: PlugCall) -> Decision: ...

    def question(self, session: str, tool: str, approval: str) -> HeldQuestion | None: ...

    def answer(self, answer: QuestionAnswer) -> bool: ...

    def outcome(self, session: str, key: str, ran: str) -> bool: ...

    def close(self) -> None: ...


class QuestionAnswer(NamedTuple):
    """A person's answer to one question."""

    approval: str
    digest: str
    yes: bool
    who: str


class Plug:
    """The core of a plug: one per agent or application, safe for several threads and event loops.

    Without `gate` or `host` the discovered configuration rules, and sessions are in memory; with `keep` they are in
    the user's state folder, so that a run can go on after a restart. With `url` a running service rules, and its page
    shows the calls. `on_pause` is what becomes of a held call: "ask"
    pauses the run as the framework does it, "deny" only tells the model, "stop" ends the run.
    """

    def __init__(
        self,
        name: str,
        *,
        gate: Gate | None = None,
        host: PlugHost | None = None,
        keep: bool = False,
        url: str = "",
        on_pause: OnPause = "ask",
        deadline_s: float = _DEADLINE_S,
    ) -> None:
        if on_pause not in get_args(OnPause):
            raise InvalidConfig(f"unknown on_pause {quoted(on_pause)}", hint="use ask, deny or stop")
        if (gate is not None) + (host is not None) + bool(url) > 1 or (url and keep):
            raise InvalidConfig("a plug has a `gate`, a `host` or a `url`, not two of them")
        if not 0 < deadline_s < float("inf"):
            raise InvalidConfig(f"deadline_s must be a number of seconds, not {deadline_s!r}", hint="50 is the default")
        self.name = name
        self.on_pause = on_pause
        self.deadline_s = deadline_s
        self.owns_gate = gate is None and host is None
        if url:
            from lockgate.integrations.plug_service import ServiceHost

            host = ServiceHost(url, deadline_s=deadline_s)
        elif host is None:
            from lockgate.integrations.plug_hosts import LocalHost

            host = LocalHost.made_of(gate, keep=keep)
        self._host = host
        # The judge that an agent asked for; where that is the agents' own model, this by session.
        self.judge: Any = None
        self._models: OrderedDict[str, object] = OrderedDict()
        self._lock = Lock()
        # Lines that are kept and texts that need not be, so that a long history costs one look-up a line.
        self._kept: OrderedDict[tuple[str, str], None] = OrderedDict()
        # Lines that the model may have read and that could not be kept, by session.
        self._lost: dict[str, set[str]] = {}
        self._opened: OrderedDict[str, None] = OrderedDict()
        # The lines of the prompts that each session's run began with, by agent.
        self._prompts: OrderedDict[str, dict[str, frozenset[str]]] = OrderedDict()
        # Sessions whose model has read untrusted text. Not among the lines, whose number would push the mark out.
        self._tainted: OrderedDict[str, None] = OrderedDict()
        # The texts of the calls that are running.
        self._orders: dict[int, frozenset[str]] = {}
        self._numbers = count()
        self._warned: set[str] = set()
        on_fork(self._start_anew)

    def _start_anew(self) -> None:
        # The host may have lost its sessions with the parent: what this process goes on with has an unknown context.
        self._lock = Lock()
        self._kept.clear()
        self._opened.clear()
        self._prompts.clear()
        self._orders.clear()

    @contextmanager
    def hook(self) -> Iterator[None]:
        """Give all that a framework's hook asks for in here one deadline together."""
        before = _until.set(_until.get() or monotonic() + self.deadline_s)
        try:
            yield
        finally:
            _until.reset(before)

    def note_model(self, session: str, model: Callable[[], object]) -> None:
        """Note the model of a session's agent, where it is to judge the agent's calls."""
        if getattr(self.judge, "model", None) == "host":
            with self._lock:
                self._remember(self._models, session, model(), 1_000)

    # 1. The user's words.

    def user_said(self, session: str, text: str, *, parent: str = "", known: bool = True) -> None:
        """Take in what the caller of the framework gave it. Inside a `parent`, `text` is an agent's order.

        `known` is False for a run whose earlier messages came from elsewhere. Call this at the start of every run.
        """
        if judging.get():
            return
        with self._lock:
            if session not in self._prompts or session not in self._tainted:
                self._remember(self._prompts, session, {})
            if self._lost.get(parent):
                # What stands behind the order of an agent may be what its caller's plug could not keep.
                self._lost.setdefault(session, set()).add("caller")
        name = _said_name(text)
        if self._is_kept(session, name):
            return
        if not parent and self._is_order(text):
            # An agent that a tool starts in a bare thread, where nothing says who called it.
            self.cannot_cover("whether the user began a run: its words are those of a call that is running", session)
            self.model_reads(session, [Line("order", text, "message:user")])
            return
        try:
            self._wait(partial(self._open, session, text, parent=parent, known=known))
        except Exception as error:  # noqa: BLE001  # an edge: the host must go on, and its calls are suspect
            self._note_lost(session, name, error)
            return
        self._note_kept(session, name)

    def said(self, session: str, texts: Iterable[str]) -> set[str]:
        """Return which of these are the user's own texts in this session, of the agent's caller, or its prompt."""
        asked = {text for text in texts if text.strip() and not self._is_kept(session, _read_name(text))}
        known = {text for text in asked if self._is_kept(session, _said_name(text))}
        if asked <= known:
            return known
        try:
            found = asked.intersection(self._wait(partial(self._host.said, _host_id(session), asked - known)))
        except Exception as error:  # noqa: BLE001  # an edge: then they are not known to be the user's
            report_failure(f"plug-{self.name}", error)
            return known
        for text in found:
            self._note_kept(session, _said_name(text))
        return known | found

    def was_said(self, session: str, text: str) -> bool:
        """Return whether this text is one of the user's own; ask `said` about several at once."""
        return bool(self.said(session, (text,)))

    def was_read(self, session: str, text: str) -> bool:
        """Return whether this text stood in a request of this process already, and was not the user's."""
        return self._is_kept(session, _read_name(text))

    def agent_wrote(self, session: str, text: str) -> None:
        """Note what the model itself wrote here: it is no news when it stands in the next request."""
        if text.strip() and not judging.get():
            self._note_kept(session, _own_name(text))

    def system_prompts(self, session: str, texts: Collection[str], agent: str = "") -> list[Line]:
        """Return what is read of an agent's system prompts: the application's own, and untrusted what came later.

        A prompt may change from run to run until the session reads untrusted text. What is new in it afterwards, line
        by line, may be a page, a tool's result or a memory of one.
        """
        with self._lock:
            began = self._prompts.get(session)
            own = frozenset() if began is None else began.setdefault(agent, frozenset(_text_lines(texts)))
        if began is None:
            # A run that goes on in another process.
            own = frozenset(_text_lines(self.said(session, texts)))
        lines = []
        for text in texts:
            new = [line for line in _text_lines([text]) if line not in own]
            trust = Trust.UNTRUSTED if new else Trust.VETTED
            lines.append(Line("system", "\n".join(new) or text, "system", trust))
        return lines

    def _is_order(self, text: str) -> bool:
        said = _plain(text)
        with self._lock:
            return any(each in said for texts in self._orders.values() for each in texts)

    def _open(self, session: str, goal: str, *, parent: str = "", known: bool = True) -> None:
        inside = _host_id(parent) if parent else ""
        self._host.open(_host_id(session), goal=goal, host=f"plug:{self.name}", parent=inside, known=known)
        with self._lock:
            self._remember(self._opened, session, None)

    # 2. Read.

    def model_reads(self, session: str, lines: Iterable[Line]) -> None:
        """Take in what the next request to the model holds; lines that are kept already cost a look-up."""
        if judging.get():
            return
        try:
            fresh = [(line, name) for line in lines if self._is_news(session, line, name := _line_name(line))]
        except Exception as error:  # noqa: BLE001  # an edge: lines come from a framework's objects
            self._note_lost(session, "lines", error)
            return
        if not fresh:
            return
        try:
            self._wait(partial(self._read_lines, session, fresh))
        except Exception as error:  # noqa: BLE001  # an edge: the model reads them all the same
            report_failure(f"plug-{self.name}", error)
            with self._lock:
                lost = {name for _, name in fresh if (session, name) not in self._kept}
                if lost:
                    self._lost.setdefault(session, set()).update(lost)

    def _is_news(self, session: str, line: Line, name: str) -> bool:
        if not line.text.strip() or self._is_kept(session, name):
            return False
        return not self._is_kept(session, _own_name(line.text))

    def _read_lines(self, session: str, lines: Iterable[tuple[Line, str]]) -> None:
        if session not in self._opened:
            # The run began before the plug saw it.
            self._open(session, "", known=False)
        failed: Exception | None = None
        for line, name in lines:
            source = line.source[:_MAX_SOURCE]
            if line.trust is None or line.trust is Trust.UNTRUSTED:
                # First: a line that cannot be kept is read all the same.
                with self._lock:
                    self._remember(self._tainted, session, None)
            try:
                self._host.add(_host_id(session), line.text, source=source, trust=line.trust, key=name)
            except Exception as error:  # noqa: BLE001  # an edge: the lines behind it are read all the same
                failed = error
                continue
            self._note_kept(session, name)
            self._note_kept(session, _read_name(line.text))
        if failed is not None:
            raise failed

    async def model_reads_async(self, session: str, lines: Iterable[Line]) -> None:
        """Do the same for a caller on an event loop."""
        from asyncio import to_thread

        await to_thread(self.model_reads, session, lines)

    # 3. Rule.

    def check(self, session: str, call: PlugCall) -> Verdict:
        """Rule on a call. Whatever fails, the answer is a verdict, and it is no yes."""
        try:
            return self._verdict(session, call, self._wait(self._ask(session, call)))
        except Exception as error:  # noqa: BLE001  # an edge: a call that could not be ruled on does not run
            return self._failure(session, error)

    async def check_async(self, session: str, call: PlugCall) -> Verdict:
        """Rule on a call for a caller on an event loop; its cancellation is no error."""
        from asyncio import get_running_loop, wait_for, wrap_future

        try:
            asked = self._start(self._ask(session, call, get_running_loop()))
            ruled = await wait_for(wrap_future(asked), self._left_s())
            return self._verdict(session, call, ruled)
        except Exception as error:  # noqa: BLE001  # as above
            return self._failure(session, error)

    def _ask(self, session: str, call: PlugCall, loop: Any = None) -> Callable[[], tuple[Decision, Any]]:
        if judging.get():
            raise InvalidCall("this model was asked to judge a call: it calls no tools meanwhile")
        if not isinstance(call.arguments, Mapping):
            raise InvalidCall("a call's arguments are not an object")
        lost = (Finding("plug:lost-text", "", 0, 0),) if self._lost.get(session) else ()
        asked = call._replace(id=call.id[:_MAX_KEY], findings=(*call.findings, *lost))
        agent = self._models.get(session), loop

        def ask() -> tuple[Decision, HeldQuestion | None]:
            agent_here.set(agent)
            if session not in self._opened:
                self._open(session, "", known=False)
            id = _host_id(session)
            decision = self._host.check(id, asked)
            wants_person = decision.action is Action.PAUSE and decision.approval and self.on_pause == "ask"
            return decision, self._host.question(id, call.tool, decision.approval) if wants_person else None

        return ask

    def _verdict(self, session: str, call: PlugCall, ruled: tuple[Decision, HeldQuestion | None]) -> Verdict:
        decision, question = ruled
        if decision.action is Action.CONTINUE:
            return Verdict(runs=True)
        _log.info("held: session=%s tool=%s reason=%s", printable(session), printable(call.tool), decision.reason.value)
        text = denial_for_model(decision)
        self.agent_wrote(session, text)
        return Verdict(False, text, question, decision.action is Action.PAUSE and self.on_pause == "stop", decision)

    def _failure(self, session: str, error: Exception) -> Verdict:
        report_failure(f"plug-{self.name}", error)
        text = failure_for_model(error)
        if isinstance(error, LockgateError) and text not in self._warned and len(self._warned) < _MAX_REMEMBERED:
            # The model is told why; so is the operator, once.
            self._warned.add(text)
            hint = f" (hint: {error.hint})" if error.hint else ""
            _log.warning("no call runs while this lasts: %s", printable(f"{error.message}{hint}", 300))
        self.agent_wrote(session, text)
        return Verdict(False, text, None, self.on_pause == "stop")

    @contextmanager
    def running(self, session: str, call: PlugCall | None = None) -> Iterator[None]:
        """While a call of this session runs: an agent that starts in here is inside of it.

        With the `call`, a run in another thread that begins with its words does not pass for the user's.
        """
        number, before = next(self._numbers), _running.set(session)
        with self._lock:
            self._orders[number] = _orders(call)
        try:
            yield
        finally:
            with self._lock:
                self._orders.pop(number, None)
            _running.reset(before)

    def enter(self, session: str) -> None:
        """Do as `running` for a hook before a call that runs in a context of its own, which ends with the call."""
        _running.set(session)

    @property
    def caller(self) -> str:
        """The session whose call is running here; empty outside of calls."""
        return _running.get()

    # 4. Ask.

    def answer(self, question: HeldQuestion | None, answer: object) -> bool:
        """Record a person's answer to this question; return whether it counted.

        Whatever is no plain answer to exactly this question counts for nothing. Rule again afterwards.
        """
        parsed = _parse_answer(answer)
        if question is None or parsed is None or (parsed.approval, parsed.digest) != question[2:4]:
            return False
        try:
            return self._wait(partial(self._host.answer, parsed)) is True
        except Exception as error:  # noqa: BLE001  # an edge: an answer that was not recorded does not count
            report_failure(f"plug-{self.name}", error)
            return False

    # What became of a call, and what cannot be seen.

    def ended(self, session: str, call_id: str, *, failed: bool = False) -> None:
        """Note that a call ran."""
        if not call_id:
            return
        try:
            what = "failed" if failed else "ran"
            # Without a thread, which takes longer than this: no ruling waits for it.
            self._host.outcome(_host_id(session), call_id[:_MAX_KEY], what)
        except Exception as error:  # noqa: BLE001  # an edge: the call has run, and no ruling depends on this note
            report_failure(f"plug-{self.name}", error)

    def cannot_cover(self, what: str, session: str = "") -> None:
        """Warn once of what this plug cannot see; with a session, its calls are suspect from here on."""
        if what not in self._warned and len(self._warned) < _MAX_REMEMBERED:
            self._warned.add(what)
            _log.warning("Lockgate cannot see %s", printable(what, 300))
        if session:
            with self._lock:
                self._lost.setdefault(session, set()).add(f"unseen {_digest(what)}")

    def close(self) -> None:
        """Close the sessions of this plug; calls that come later are denied."""
        self._host.close()

    # What is remembered.

    def _is_kept(self, session: str, name: str) -> bool:
        with self._lock:
            return (session, name) in self._kept

    def _note_kept(self, session: str, name: str) -> None:
        with self._lock:
            self._remember(self._kept, (session, name), None)
            lost = self._lost.get(session)
            if lost is not None:
                lost.discard(name)
                if not lost:
                    del self._lost[session]

    def _note_lost(self, session: str, name: str, error: Exception) -> None:
        report_failure(f"plug-{self.name}", error)
        with self._lock:
            self._lost.setdefault(session, set()).add(name)

    @staticmethod
    def _remember(where: OrderedDict[K, T], key: K, what: T, most: int = _MAX_REMEMBERED) -> None:
        where[key] = what
        where.move_to_end(key)
        while len(where) > most:
            where.popitem(last=False)

    def _left_s(self) -> float:
        until = _until.get()
        return max(0.0, min(self.deadline_s, until - monotonic())) if until else self.deadline_s

    def _wait(self, work: Callable[[], T]) -> T:
        return self._start(work).result(self._left_s())

    @staticmethod
    def _start(work: Callable[[], T]) -> Future[T]:
        """Start work that the caller waits for with a deadline.

        In a thread that does not keep the process alive: one that never ends must not.
        """
        result: Future[T] = Future()
        # From here on a caller that gives up cannot cancel it.
        result.set_running_or_notify_cancel()
        context = copy_context()

        def run() -> None:
            try:
                result.set_result(context.run(work))
            except Exception as error:  # noqa: BLE001  # an edge: the caller raises it
                result.set_exception(error)
            except BaseException as error:  # noqa: BLE001
                # The caller's process must not end because a judge wanted it to.
                result.set_exception(RuntimeError(type(error).__name__))

        Thread(target=run, daemon=True, name="lockgate-plug").start()
        return result


def _digest(*texts: str) -> str:
    return sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _host_id(session: str) -> str:
    """Return a session's id for the host, which takes no long ones: a framework's own can be of any length."""
    return session if len(session) <= MAX_ID else f"{session[:_MAX_KEY]}-{_digest(session)}"


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def _orders(call: PlugCall | None) -> frozenset[str]:
    """Return the texts of a call that an agent could be started with."""
    given = () if call is None else call.arguments.values()
    texts = (_plain(each) for each in given if isinstance(each, str))
    return frozenset(text for text in texts if text.count(" ") + 1 >= _MIN_ORDER_WORDS)


def _text_lines(texts: Iterable[str]) -> list[str]:
    return [line for text in texts for line in text.splitlines() if line.strip()]


def _said_name(text: str) -> str:
    return f"said {_digest(text)}"


def _read_name(text: str) -> str:
    return f"text {_digest(text)}"


def _own_name(text: str) -> str:
    """Return the mark of what the model or Lockgate itself wrote."""
    return f"own {_digest(text)}"


def _line_name(line: Line) -> str:
    """Return the key of a line: another text under the same key is another line."""
    return f"read {_digest(line.key, line.source, line.text)}"


def _parse_answer(answer: object) -> QuestionAnswer | None:
    if not isinstance(answer, Mapping) or answer.get("yes") not in (True, False):
        return None
    approval, digest, who = (answer.get(name) for name in ("approval", "digest", "who"))
    if not (isinstance(approval, str) and isinstance(digest, str) and isinstance(who, str) and who.strip()):
        return None
    return QuestionAnswer(approval, digest, answer["yes"] is True, who)


def shared_plug(name: str) -> Plug:
    """Return the plug of this process for a framework: agents inside each other's tools need the same one."""
    with _shared_lock:
        if name not in _shared:
            _shared[name] = Plug(name)
        return _shared[name]


_shared: dict[str, Plug] = {}
_shared_lock = Lock()


def trailing_input(messages: Sequence[Any], is_users: Callable[[Any], bool]) -> list[Any]:
    """Return what the caller has just said: the user's messages at the end, behind a history that came along."""
    return list(takewhile(is_users, reversed(messages)))[::-1]


def source_of_result(tool: str, arguments: Mapping[str, object]) -> str:
    """Return the source of a tool's result: the one web address that the call names, else the tool."""
    places = [value for value in arguments.values() if isinstance(value, str) and "://" in value[:20]]
    if len(places) == 1 and len(places[0].split()) == 1:
        return f"web:{places[0]}"[:_MAX_SOURCE]
    return f"tool:{tool or 'unknown'}"[:_MAX_SOURCE]


def require_framework(package: str, oldest: str) -> None:
    """Raise InvalidConfig where the installed framework is older than the oldest that its plug was tested with."""

    def numbers(text: str) -> tuple[int, ...]:
        return tuple(int(part) for part in text.split(".")[:2] if part.isdigit())

    try:
        found = version(package)
    except PackageNotFoundError:
        # Installed under another name, as a part of something else: its import has worked.
        return
    if numbers(found) < numbers(oldest):
        raise InvalidConfig(
            f"{package} {found} is older than {oldest}, the oldest that this plug was tested with",
            hint=f"pip install --upgrade {package}",
        )
