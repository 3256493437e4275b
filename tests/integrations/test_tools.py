"""`guard_tool`: plain functions that ask before they run."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import inspect
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from datetime import date
from functools import partial
from pathlib import Path
from runpy import run_path
from time import time
from typing import Any, NamedTuple, Never, get_type_hints
from weakref import ref

import pytest

import lockgate
from lockgate import Action, Gate, Inquiry, MemoryApprovals, Mode, Opined, Policy, Ruling, Session
from lockgate.core.errors import InvalidCall, LockgateError
from lockgate.integrations.plug import HeldByLockgate, HeldQuestion, Plug
from lockgate.integrations.tools import guard_tool
from lockgate.testing.plug_suite import EVE, GOAL, POISON


@pytest.fixture(scope="module")
def rules() -> Gate:
    return Gate()


@pytest.fixture
def mails(rules: Gate) -> Iterator[Callable[..., Mail]]:
    made: list[Mail] = []

    def mail(**options: Any) -> Mail:
        made.append(Mail(rules, **options))
        return made[-1]

    yield mail
    for each in made:
        each.plug.close()


class Mail:
    """Two tools, and what they did."""

    def __init__(self, rules: Gate, **options: Any) -> None:
        self.sent: list[str] = []
        gate = Gate(scanner=rules.scanner, approvals=MemoryApprovals())
        self.plug = Plug("tools", gate=gate, **options)
        self.plug.user_said("s", GOAL)

    def read_page(self, url: str) -> str:
        """Read a page."""
        return f"{POISON} ({url})"

    def send_email(self, to: str, body: str = "the contract") -> str:
        """Send an email."""
        self.sent.append(to)
        return "sent"

    async def read_page_async(self, url: str) -> str:
        return self.read_page(url)

    async def send_email_async(self, to: str, body: str = "the contract") -> str:
        return self.send_email(to, body)

    def guarded(self, tool: Any, **options: Any) -> Any:
        name = tool.__name__.removesuffix("_async")
        return guard_tool(tool, session="s", plug=self.plug, name=name, **options)

    def hijack(self, **options: Any) -> Any:
        self.guarded(self.read_page)("https://shop.example/news")
        return self.guarded(self.send_email, **options)(EVE)

    async def hijack_async(self, **options: Any) -> Any:
        await self.guarded(self.read_page_async)("https://shop.example/news")
        return await self.guarded(self.send_email_async, **options)(to=EVE)


def play(mail: Mail, mode: str, **options: Any) -> Any:
    return mail.hijack(**options) if mode == "sync" else asyncio.run(mail.hijack_async(**options))


MODES = pytest.mark.parametrize("mode", ["sync", "async"])


@MODES
def test_a_hijacked_call_does_not_run_and_the_model_reads_why(mails: Callable[..., Mail], mode: str) -> None:
    mail = mails()
    said = play(mail, mode)
    assert mail.sent == []
    assert said.startswith("Lockgate stopped this call")
    assert "ignore all" not in said.lower()


@MODES
def test_a_yes_in_place_lets_it_run_once(mails: Callable[..., Mail], mode: str) -> None:
    mail, asked = mails(), []

    def ask(question: HeldQuestion) -> dict[str, object]:
        asked.append(question.text)
        return question.yes("ana")

    assert play(mail, mode, ask=ask) == "sent"
    assert mail.sent == [EVE]
    assert EVE in asked[0]


@MODES
@pytest.mark.parametrize("answer", [None, True, "yes", {"yes": True, "who": "ana"}])
def test_all_else_is_no_answer(mails: Callable[..., Mail], mode: str, answer: Any) -> None:
    mail = mails()
    play(mail, mode, ask=lambda question: answer)
    assert mail.sent == []


def test_an_ordinary_call_returns_what_the_tool_returns(mails: Callable[..., Mail]) -> None:
    mail = mails()
    mail.plug.user_said("t", "Send ana@example.com the minutes")
    send = guard_tool(mail.send_email, session=lambda: "t", plug=mail.plug)
    assert send("ana@example.com", "the minutes") == "sent"
    assert mail.sent == ["ana@example.com"]


def test_a_wrapper_looks_like_the_tool(mails: Callable[..., Mail]) -> None:
    mail = mails()
    send = guard_tool(mail.send_email, session="s", plug=mail.plug)
    assert (send.__name__, send.__doc__) == ("send_email", "Send an email.")
    assert inspect.signature(send) == inspect.signature(mail.send_email, eval_str=True)
    assert inspect.iscoroutinefunction(mail.guarded(mail.send_email_async))


@MODES
def test_an_error_is_read_and_raised(mails: Callable[..., Mail], mode: str) -> None:
    mail = mails()

    def open_file(path: str) -> str:
        raise ValueError(f"{path}: {POISON}")

    async def open_file_async(path: str) -> str:
        return open_file(path)

    def call() -> object:
        guarded = mail.guarded(open_file if mode == "sync" else open_file_async)
        result = guarded("notes.txt")
        return asyncio.run(result) if mode == "async" else result

    with pytest.raises(ValueError, match="notes"):
        call()
    mail.guarded(mail.send_email)(EVE)
    assert mail.sent == []


def test_a_plug_that_stops_raises(mails: Callable[..., Mail]) -> None:
    mail = mails(on_pause="stop")
    with pytest.raises(HeldByLockgate):
        mail.hijack()


def test_a_generator_is_refused() -> None:
    def pieces(path: str) -> Iterator[str]:
        yield path

    with pytest.raises(InvalidCall):
        guard_tool(pieces, session="s", plug=Plug("x", host=object()))  # type: ignore[arg-type]


def test_wrong_arguments_are_the_callers_mistake(mails: Callable[..., Mail]) -> None:
    mail = mails()
    with pytest.raises(TypeError):
        mail.guarded(mail.send_email)()


def test_no_way_leads_from_the_wrapper_to_the_tool(mails: Callable[..., Mail]) -> None:
    mail = mails()
    send = mail.guarded(mail.send_email)
    # Frameworks unwrap functions, and send their source to other machines.
    assert inspect.unwrap(send) is send
    assert "sent.append" not in inspect.getsource(send)
    assert get_type_hints(send) == {"to": str, "body": str, "return": str}


class Callables:
    """Tools that are asynchronous without being declared so."""

    async def __call__(self, url: str) -> str:
        return POISON

    def read_page(self, url: str) -> Any:
        return self(url)


@pytest.mark.parametrize("tool", [Callables(), Callables().read_page, partial(Callables().__call__)])
def test_what_an_awaitable_brings_is_read(mails: Callable[..., Mail], tool: Any) -> None:
    mail = mails()
    read = guard_tool(tool, session="s", plug=mail.plug, name="read_page")

    async def run() -> str:
        return str(await read("https://shop.example/news"))

    assert asyncio.run(run()) == POISON
    mail.guarded(mail.send_email)(EVE)
    assert mail.sent == []


class Page:
    """A result whose text for people leaves its content out."""

    def __init__(self, body: object) -> None:
        self.body = body


RESULTS = [Page(POISON), Page([Page(POISON)]), {"page": {"body": POISON.encode()}}, [*["x"] * 20_000, POISON]]


@pytest.mark.parametrize("result", RESULTS, ids=["object", "nested", "bytes", "long"])
def test_all_that_a_model_could_read_of_a_result_is_read(mails: Callable[..., Mail], result: object) -> None:
    mail = mails()
    guard_tool(lambda url: result, session="s", plug=mail.plug, name="read_page")("https://shop.example/news")
    mail.guarded(mail.send_email)(EVE)
    assert mail.sent == []


class OddPage:
    """A result that has no text."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize("result", [OddPage(), iter([POISON])], ids=["odd", "pieces"])
def test_a_result_that_cannot_be_read_makes_calls_suspect(mails: Callable[..., Mail], result: object) -> None:
    mail = mails()
    mail.plug.user_said("s", "Send ana@example.com the minutes")
    read = guard_tool(lambda url: result, session="s", plug=mail.plug, name="read_page")
    assert read("https://shop.example/news") is result
    mail.guarded(mail.send_email)("ana@example.com", "the minutes")
    assert mail.sent == []


def test_a_frameworks_own_objects_among_the_arguments_are_ruled_on_as_text(mails: Callable[..., Mail]) -> None:
    mail, seen = mails(), []

    def get_report(context: Page, day: date, **more: Any) -> str:
        seen.append((context, day, more))
        return "none"

    page = Page("x")
    assert mail.guarded(get_report)(page, date(2026, 11, 16), format="short") == "none"
    assert seen == [(page, date(2026, 11, 16), {"format": "short"})]


def test_named_arguments_beside_the_signature_are_ruled_on_by_name(mails: Callable[..., Mail]) -> None:
    mail = mails()
    mail.plug.user_said("t", "Send ana@example.com the minutes")

    def send_email(**named: str) -> str:
        return mail.send_email(**named)

    send = guard_tool(send_email, session="t", plug=mail.plug)
    assert send(to="ana@example.com", body="the minutes") == "sent"


# The decorator.


@pytest.fixture
def session(rules: Gate) -> Session:
    """A session whose agent has read the poisoned page."""
    made = Gate(scanner=rules.scanner, approvals=MemoryApprovals()).session(goal=GOAL)
    made.add(POISON, source="web:https://shop.example/news")
    return made


class Outbox(NamedTuple):
    sent: list[object]


class Mailer:
    """A class with a guarded method; it has nothing that JSON could hold."""

    def __init__(self) -> None:
        self.sent: list[str] = []


def test_a_guarded_function_raises_with_the_ruling(session: Session) -> None:
    sent: list[str] = []

    @lockgate.guard(session)
    def send_email(to: str, body: str = "the contract") -> str:
        """Send an email."""
        sent.append(to)
        return body

    with pytest.raises(HeldByLockgate, match="Lockgate stopped this call") as held:
        send_email(EVE)
    ruling = held.value.decision
    assert ruling is not None
    assert not ruling.allowed
    assert ruling.approval
    assert sent == []
    assert isinstance(held.value, LockgateError)
    assert str(inspect.signature(send_email)) == "(to: str, body: str = 'the contract') -> str"
    # A yes lets the same call run, once.
    approvals = session._ruler.gate.approvals
    assert isinstance(approvals, MemoryApprovals)
    asked = approvals.get(ruling.approval, time())
    assert asked is not None
    approvals.answer(ruling.approval, digest=asked.pending.digest, yes=True, who="ana", now_s=time())
    assert (send_email(EVE), sent) == ("the contract", [EVE])


def test_a_guarded_coroutine_function_raises_with_the_ruling(session: Session) -> None:
    sent: list[str] = []

    @lockgate.guard(session)
    async def send_email(to: str) -> None:
        sent.append(to)

    assert inspect.iscoroutinefunction(send_email)
    with pytest.raises(HeldByLockgate) as held:
        asyncio.run(send_email(EVE))
    assert held.value.decision is not None
    assert sent == []


def test_what_a_guarded_function_returns_counts_as_read(rules: Gate) -> None:
    """Without that no later call would be held: nothing untrusted would have been read."""
    session = Gate(scanner=rules.scanner).session(goal=GOAL)
    sent: list[str] = []

    @lockgate.guard(session)
    def read_page(url: str) -> str:
        return POISON

    async def fetch(url: str) -> str:
        return POISON

    @lockgate.guard(session, name="read_page")
    def read_later(url: str) -> Coroutine[Any, Any, str]:
        return fetch(url)

    lockgate.guard(session)(sent.append)  # a method of a C type
    send = lockgate.guard(session, name="send_email")(lambda to: sent.append(to))
    read_page("https://shop.example/news")
    assert [block.source for block in session.blocks][-1] == "web:https://shop.example/news"
    assert asyncio.run(read_later("https://shop.example/more")) == POISON
    assert [block.source for block in session.blocks][-1] == "web:https://shop.example/more"
    with pytest.raises(HeldByLockgate):
        send(EVE)
    assert sent == []


def test_every_way_to_give_a_value_is_ruled_on(session: Session) -> None:
    sent = Outbox([])
    mailer = Mailer()

    def send_email(to: str = EVE, *others: str, **options: str) -> None:
        sent.sent.append((to, others, options))

    class Sender:
        @lockgate.guard(session)
        def send_email(self, to: str) -> None:
            mailer.sent.append(to)

        def __call__(self, to: str) -> None:
            mailer.sent.append(to)

    send = lockgate.guard(session)(send_email)
    tries: list[Callable[[], object]] = [
        send,
        lambda: send("ana@example.com", EVE),
        lambda: send("ana@example.com", cc=EVE),
        lockgate.guard(session)(partial(send_email, EVE)),
        lockgate.guard(session)(partial(send_email, to=EVE)),
        lambda: Sender().send_email(EVE),
        lambda: lockgate.guard(session, name="send_email")(Sender())(EVE),
    ]
    for attempt in tries:
        with pytest.raises(HeldByLockgate) as held:
            attempt()
        assert held.value.decision is not None, held.value
    assert (sent.sent, mailer.sent) == ([], [])


def test_what_changes_after_the_ruling_does_not_run(session: Session) -> None:
    """A judge takes seconds, and the caller still holds the list."""
    ran: list[list[str]] = []
    names = ["ana"]

    class Slow:
        name = "slow"

        def opine(self, inquiry: Inquiry) -> Opined:
            names.append(EVE)
            return Opined(Ruling(Action.CONTINUE))

        async def opine_async(self, inquiry: Inquiry) -> Opined:
            return self.opine(inquiry)

    gate = Gate(policy=Policy(mode=Mode.PARANOID), scanner=session._ruler.gate.scanner, supervisor=Slow())
    slow = gate.session(goal="Note ana")

    @lockgate.guard(slow)
    def note(names: list[str]) -> None:
        ran.append(names)

    note(names)
    assert (ran, names) == ([["ana"]], ["ana", EVE])


def test_what_cannot_be_ruled_on_does_not_run(session: Session) -> None:
    """Two names with the same text would be one in the ruling, and two in the tool."""
    ran: list[object] = []
    with pytest.raises(HeldByLockgate, match="argument names must be text") as held:
        lockgate.guard(session, name="note")(ran.append)({1: EVE, "1": "ana@example.com"})
    assert held.value.decision is None
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(RecursionError):
        lockgate.guard(session, name="note")(ran.append)(loop)
    assert ran == []


def test_a_path_is_ruled_on_as_text_and_stays_a_path(rules: Gate) -> None:
    read: list[Path] = []
    session = Gate(scanner=rules.scanner).session()
    lockgate.guard(session, name="read_file")(lambda path: read.append(path))(Path("notes.txt"))
    assert read == [Path("notes.txt")]
    assert [call.values for call in session.history] == [(("path", "notes.txt"),)]


def test_a_failing_gate_runs_nothing(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> Never:
        raise RuntimeError("broken")

    ran: list[str] = []
    monkeypatch.setattr(type(session._ruler), "check", fail)
    with pytest.raises(HeldByLockgate, match="could not rule on it"):
        lockgate.guard(session, name="note")(ran.append)("x")
    assert ran == []


def test_a_result_that_is_lost_makes_every_guarded_call_suspect(rules: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    session = Gate(scanner=rules.scanner).session(goal=GOAL)
    with monkeypatch.context() as broken:
        broken.setattr(type(session._ruler), "add", lambda *_, **__: 1 / 0)
        assert lockgate.guard(session, name="read_page")(lambda url: POISON)("https://a.example") == POISON
    with pytest.raises(HeldByLockgate, match="plug:lost-text"):
        lockgate.guard(session, name="send_email")(lambda to: None)("ana@example.com")


def test_a_session_is_kept_by_its_functions_alone(rules: Gate) -> None:
    session = Gate(scanner=rules.scanner).session(goal=GOAL)
    gone = ref(session)
    look = lockgate.guard(session, name="look")(lambda: "fine")
    del session
    assert look() == "fine"
    del look
    gc.collect()
    assert gone() is None


def test_what_cannot_be_guarded_is_refused(session: Session) -> None:
    async def pieces() -> AsyncIterator[str]:
        yield "a"

    class Pieces:
        def __call__(self) -> Iterator[str]:
            yield "a"

    for odd in (pieces, Pieces(), partial(pieces), classmethod(lambda cls: None)):
        with pytest.raises(InvalidCall):
            lockgate.guard(session)(odd)  # type: ignore[arg-type]
    with pytest.raises(InvalidCall, match="guard needs a session, not function"):
        lockgate.guard(pieces)  # type: ignore[arg-type]


def test_the_example_holds_the_hijacked_call(capsys: pytest.CaptureFixture[str]) -> None:
    run_path(str(Path(__file__).parents[2] / "examples" / "guarded_agent.py"), run_name="__main__")
    assert capsys.readouterr().out.splitlines()[-1] == "held: suspicious-pattern"


def _plain_record(to: str) -> object:
    return dataclasses.make_dataclass("Address", [("to", str, dataclasses.field(repr=False))])(to)


def _slotted_record(to: str) -> object:
    return dataclasses.make_dataclass("Address", [("to", str, dataclasses.field(repr=False))], slots=True)(to)


def _pydantic_record(to: str) -> object:
    pydantic = pytest.importorskip("pydantic")
    return pydantic.create_model("Address", to=(str, pydantic.Field(repr=False)))(to=to)


class _Holder:
    def __init__(self, to: str) -> None:
        self.to = to


class _SlottedHolder:
    __slots__ = "to"

    def __init__(self, to: str) -> None:
        self.to = to


@pytest.mark.parametrize(
    "make",
    [
        _plain_record,
        _slotted_record,
        _pydantic_record,
        _Holder,
        _SlottedHolder,
        lambda to: frozenset([_Holder(to)]),
        lambda to: deque([_Holder(to)]),
    ],
)
def test_a_field_that_a_records_text_leaves_out_is_ruled_on(make: Callable[[str], object]) -> None:
    session = Gate().session(goal=GOAL)
    session.add(POISON, source="web:page")

    @lockgate.guard(session, name="send_email")
    def send(address: object) -> str:
        return "sent"

    for given in (make(EVE), [make(EVE)], {"a": make(EVE)}):
        with pytest.raises(HeldByLockgate) as held:
            send(given)
        assert any(origin.value == EVE for origin in held.value.decision.origins)


def test_a_record_that_holds_itself_is_ruled_on() -> None:
    record: Any = dataclasses.make_dataclass("Node", [("next", object)])(None)
    record.next = record
    ran = lockgate.guard(Gate().session(goal=GOAL), name="read_notes")(lambda node: "read")(record)
    assert ran == "read"


class _Secret:
    """Pydantic's `SecretStr`, as far as a caller sees it."""

    def __init__(self, text: str) -> None:
        self._text = text

    def get_secret_value(self) -> str:
        return self._text

    def __str__(self) -> str:
        return "**********"


@pytest.mark.parametrize(
    "make", [_Secret, lambda to: iter([to]), lambda to: (each for each in [to]), lambda to: {to: 1}.items().__iter__()]
)
def test_an_object_whose_text_hides_its_value_is_refused_and_the_tool_does_not_run(
    make: Callable[[str], object],
) -> None:
    ran: list[object] = []
    send = lockgate.guard(Gate().session(goal=GOAL), name="send_email")(ran.append)
    for given in (make(EVE), [make(EVE)], {"a": make(EVE)}):
        with pytest.raises(InvalidCall, match="rule") as refused:
            send(given)
        assert refused.value.hint
        assert EVE not in refused.value.message
    assert ran == []


def test_a_frameworks_context_is_not_searched_for_its_keys() -> None:
    context = _Holder("lgp_secret")
    context.client = object()  # type: ignore[attr-defined]
    session = Gate().session(goal=GOAL)
    assert lockgate.guard(session, name="read_notes")(lambda context: "read")(context) == "read"
    assert "lgp_secret" not in str(session.history)
