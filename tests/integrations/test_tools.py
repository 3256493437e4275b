"""`guard_tool`: plain functions that ask before they run."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lockgate import Gate, MemoryApprovals
from lockgate.core.errors import InvalidCall
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
    assert inspect.signature(send) == inspect.signature(mail.send_email)
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
