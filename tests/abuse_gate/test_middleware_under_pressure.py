"""Clients that try to wear the gate out: crowds, bodies held back, unreadable files, principals that are no names."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Iterator
from itertools import islice
from typing import Any
from uuid import UUID

import pytest
from asgi import ATTACK, HARMLESS, SECRET, Clock, Handler, Reply, call, chat, gated, post, scope

from lockgate import Gate, InvalidConfig
from lockgate.abuse_gate import body_pool
from lockgate.abuse_gate import defaults as wiring
from lockgate.abuse_gate import middleware as abuse_gate
from lockgate.abuse_gate.identity import Identity
from lockgate.abuse_gate.middleware import AbuseGateMiddleware, Request
from lockgate.abuse_gate.request.payload_from_body import InspectedUpload
from lockgate.abuse_gate.shared_strikes import Ladder
from lockgate.core.questions import Answer, NoAnswer, NoAnswerReason
from lockgate.core.requests.strikes import PRINCIPAL, SharedRecord, SharedStrikes
from lockgate.core.text.scanner import Scanner
from lockgate.runtime.metrics import Metrics
from lockgate.settings.abuse_gate import AbuseSettings
from lockgate.verifiers import adapters
from lockgate.verifiers.adapters import LocalRuleAdapter, RemoteAdapter
from lockgate.verifiers.client import Client, Outcome
from lockgate.verifiers.providers.openai import OpenAI

TOOLS = {"tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]}
# Past the size of what is read on the loop, and of an ordinary document.
LARGE = "x y " * 20_000
FORM = {"headers": [(b"content-type", b"multipart/form-data; boundary=x")]}


def upload(file: str, data: bytes, **fields: str) -> bytes:
    plain = b'--x\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n'
    parts = [plain % (name.encode(), value.encode()) for name, value in fields.items()]
    head = b'--x\r\nContent-Disposition: form-data; name="f"; filename="%s"\r\n\r\n' % file.encode()
    return b"".join([*parts, head, data, b"\r\n--x--\r\n"])


# --- our own rules under load


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Rules that do not come to an end over a text with `stuck` in it, until the event is set."""
    release = threading.Event()
    real = adapters.view_payload

    def view(payload: Any, scanner: Any) -> Any:
        if "stuck" in payload.prompt_text:
            release.wait(60)
        return real(payload, scanner)

    monkeypatch.setattr(adapters, "view_payload", view)
    yield release
    release.set()


def test_one_client_s_crowd_of_large_bodies_does_not_delay_other_clients(stuck: threading.Event) -> None:
    handler = Handler()
    gate = gated(handler, adapter=LocalRuleAdapter(metrics=Metrics(), timeout_ms=20_000))

    async def run() -> list[Reply]:
        crowd = [asyncio.ensure_future(post(gate, chat("stuck " + LARGE), user="eve")) for _ in range(24)]
        await asyncio.sleep(0.3)
        found = [await post(gate, chat(text + LARGE), user="bob") for text in (ATTACK, HARMLESS)]
        assert not any(each.done() for each in crowd)
        stuck.set()
        await asyncio.gather(*crowd)
        return found

    attack, harmless = asyncio.run(run())
    assert (attack.status, attack.code) == (403, "unsafe")
    assert (harmless.status, harmless.decision) == (200, "allow")


def test_an_attack_behind_a_crowd_of_one_s_own_is_not_passed_unread(stuck: threading.Event) -> None:
    handler, metrics = Handler(), Metrics()
    gate = gated(handler, metrics=metrics, adapter=LocalRuleAdapter(metrics=Metrics(), timeout_ms=600))

    async def run() -> list[Reply]:
        crowd = [asyncio.ensure_future(post(gate, chat("stuck " + LARGE))) for _ in range(12)]
        await asyncio.sleep(0.1)
        return await asyncio.gather(*(post(gate, chat(ATTACK + LARGE)) for _ in range(3)), *crowd)

    replies = asyncio.run(run())
    assert {(each.status, each.code, each.decision) for each in replies} == {(503, "busy", "deny")}
    assert {each.headers["retry-after"] for each in replies} == {"1"}
    assert handler.bodies == []
    assert metrics.gate_refusals.value("busy") == metrics.gated.value("failed") == 15
    assert metrics.gate_errors.value("verdict") == 15


def test_rules_of_our_own_that_break_are_no_verifier_that_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Any:
        raise AttributeError

    monkeypatch.setattr(Scanner, "scan", broken)
    handler = Handler()
    for text in (ATTACK, ATTACK + LARGE):
        reply = asyncio.run(post(gated(handler), chat(text)))
        assert (reply.status, reply.code) == (503, "unavailable")
    monkeypatch.setattr(LocalRuleAdapter, "examine_async", broken)
    assert asyncio.run(post(gated(handler), chat(ATTACK))).status == 503
    assert handler.bodies == []


class Down(Client):
    """A provider that cannot be reached."""

    timeout_s = 20.0

    def __init__(self, answer: Answer) -> None:
        self.answer = answer

    async def ask_async(self, *_: object, **__: object) -> Outcome:
        return Outcome(self.answer, 1.0, 1)


class Keys:
    instant = True

    def key(self, tenant: str) -> str:
        # No key is looked up under a client's name.
        return "" if tenant else "key"


def remote(timeout_ms: int = 20_000) -> RemoteAdapter:
    client = Down(NoAnswer(NoAnswerReason.NETWORK))
    return RemoteAdapter(OpenAI("m", "https://x.example"), client, Keys(), metrics=Metrics(), timeout_ms=timeout_ms)


def test_a_remote_verifier_that_is_down_makes_a_request_unclear_and_no_more() -> None:
    for policy, expected in (("allow", (200, "unclear")), ("block", (403, "deny"))):
        gate = gated(Handler(), adapter=remote(), settings=AbuseSettings(on_unclear=policy))
        for text in (HARMLESS, HARMLESS + LARGE):
            reply = asyncio.run(post(gate, chat(text), user="ann"))
            assert (reply.status, reply.decision) == expected


def test_a_remote_verifier_s_rules_are_our_own(stuck: threading.Event) -> None:
    handler = Handler()
    gate = gated(handler, adapter=remote(timeout_ms=600))

    async def run() -> Reply:
        crowd = [asyncio.ensure_future(post(gate, chat("stuck " + LARGE))) for _ in range(12)]
        await asyncio.sleep(0.1)
        found = await post(gate, chat(ATTACK + LARGE))
        await asyncio.gather(*crowd)
        return found

    assert asyncio.run(run()).status == 503
    assert handler.bodies == []


def test_a_verifier_is_told_who_sent_the_request() -> None:
    asked: list[Request] = []

    async def fetch(request: Request) -> str:
        asked.append(request)
        return "safe"

    gate = gated(Handler(), fetch=fetch)

    async def run() -> None:
        for user in ("ann", "ann", "bob", ""):
            await post(gate, chat(HARMLESS), user=user)

    asyncio.run(run())
    ann, again, bob, anonymous = (request.whom for request in asked)
    assert ann == again
    assert len({ann, bob, anonymous}) == 3
    assert all(len(bytes.fromhex(each.replace("/", ""))) == 16 for each in (ann, bob, anonymous))


# --- neighbours


def test_a_neighbour_s_crowd_does_not_lock_out_signed_in_users() -> None:
    waited: list[float] = []

    async def run() -> None:
        release, full = asyncio.Event(), asyncio.Event()

        async def sleep(seconds: float) -> None:
            waited.append(seconds)
            if not full.is_set():
                await release.wait()

        gate = gated(Handler(), ladder=Ladder(AbuseSettings().ladder, clock=Clock(), sleep=sleep))
        for _ in range(8):
            await gate._ladder.record_unsafe(gate._identity.subjects(scope()))
        crowd = [asyncio.ensure_future(post(gate, chat(HARMLESS))) for _ in range(80)]
        refused = [await each for each in islice(asyncio.as_completed(crowd), 48)]
        assert {(each.status, each.code) for each in refused} == {(429, "slowed")}
        # All places are taken. These requests come from an innocent user at the same address.
        full.set()
        innocent = await asyncio.gather(*(post(gate, chat(HARMLESS), user="alice") for _ in range(40)))
        assert {(each.status, each.decision) for each in innocent} == {(200, "allow")}
        release.set()
        await asyncio.gather(*crowd)

    asyncio.run(run())
    # They have waited their moment, as all clients there.
    assert waited == [2.0] * (32 + 40)


# --- standing, again


def slow_body(body: bytes) -> tuple[Any, asyncio.Event]:
    """A client that sends the beginning, and the rest when it is told to."""
    go, sent = asyncio.Event(), [0]

    async def receive() -> dict[str, Any]:
        sent[0] += 1
        if sent[0] == 1:
            return {"type": "http.request", "body": body[:5], "more_body": True}
        await go.wait()
        return {"type": "http.request", "body": body[5:], "more_body": False}

    return receive, go


@pytest.mark.parametrize(("strikes", "status", "code"), [(3, 403, "tools-locked"), (6, 429, "quarantined")])
@pytest.mark.parametrize("stale", [0.0, 1000.0])
def test_a_client_banned_while_its_body_arrives_is_refused(
    strikes: int, status: int, code: str, stale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(abuse_gate, "STALE_S", stale)
    handler = Handler()
    gate = gated(handler)
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def run() -> None:
        receive, go = slow_body(chat(HARMLESS, **TOOLS))
        early = asyncio.ensure_future(gate(scope(user="eve"), receive, send))
        await asyncio.sleep(0)
        for _ in range(strikes):
            await post(gate, chat(ATTACK), user="eve")
        go.set()
        await early

    asyncio.run(run())
    assert (sent[0]["status"], json.loads(sent[1]["body"])["error"]["code"]) == (status, code)
    assert handler.bodies == []


def test_a_client_banned_while_its_request_is_judged_is_refused() -> None:
    handler = Handler()

    async def run() -> Reply:
        judging, go = asyncio.Event(), asyncio.Event()

        async def fetch(request: Request) -> str:
            if b"slow" in request.body:
                judging.set()
                await go.wait()
                return "safe"
            return "unsafe"

        gate = gated(handler, fetch=fetch, settings=AbuseSettings(verdict_timeout_s=60))
        early = asyncio.ensure_future(post(gate, chat("slow"), user="eve"))
        await judging.wait()
        for _ in range(5):
            await post(gate, chat(ATTACK), user="eve")
        go.set()
        return await early

    reply = asyncio.run(run())
    assert (reply.status, reply.code, reply.mode) == (429, "quarantined", "full_quarantine")
    assert handler.bodies == []


def test_a_ban_of_another_worker_s_is_heard_of_when_a_body_takes_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store knows of it, and this process does not."""
    monkeypatch.setattr(abuse_gate, "STALE_S", 0.0)
    banned = [False]

    class Store:
        async def exchange(self, told: Any) -> SharedStrikes:
            left_s = 100.0 if banned[0] else 0.0
            return SharedStrikes(
                tuple(SharedRecord((), 0, left_s if one.subject.kind == PRINCIPAL else 0) for one in told)
            )

        async def close(self) -> None:
            return

    handler = Handler()
    gate = gated(handler, ladder=Ladder(AbuseSettings().ladder, Store(), clock=Clock()))
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def run() -> None:
        receive, go = slow_body(chat(HARMLESS))
        early = asyncio.ensure_future(gate(scope(user="eve"), receive, send))
        for _ in range(5):
            await asyncio.sleep(0)
        banned[0] = True
        go.set()
        await early

    asyncio.run(run())
    assert sent[0]["status"] == 429
    assert handler.bodies == []


# --- memory


def test_a_body_is_let_go_when_the_application_has_it() -> None:
    held: list[int] = []
    gone: list[bool] = []

    class Data(bytes):
        """One that can be watched."""

        def __del__(self) -> None:
            gone.append(True)

    async def app(_: Any, receive: Any, send: Any) -> None:
        held.append(gate._bodies.held)
        message = await receive()
        assert len(message["body"]) > 1000
        del message
        held.append(gate._bodies.held)
        assert gone, "the body is still held while the answer is sent"
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    gate = gated(app)

    async def run() -> None:
        pending = [Data(chat(HARMLESS + " word" * 500))]

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": pending.pop(), "more_body": False}

        async def send(_: Any) -> None:
            return

        await gate(scope(), receive, send)

    asyncio.run(run())
    assert held[0] > 1000
    assert held[1] == gate._bodies.held == 0


def test_many_open_streams_keep_no_other_client_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_pool, "MAX_HELD_BYTES", 10_000)

    async def run() -> None:
        done = asyncio.Event()

        async def app(_: Any, receive: Any, send: Any) -> None:
            await receive()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await done.wait()
            await send({"type": "http.response.body", "body": b""})

        gate = gated(app)
        body = chat(HARMLESS + " word" * 500)
        streams = [asyncio.ensure_future(post(gate, body)) for _ in range(3)]
        for _ in range(30):
            await asyncio.sleep(0)
            streams += [asyncio.ensure_future(post(gate, body))]
        await asyncio.sleep(0)
        done.set()
        assert {each.status for each in await asyncio.gather(*streams)} == {200}

    asyncio.run(run())


# --- attachments that could not be read


class Poor:
    """An inspector that reads nothing."""

    async def inspect(self, uploads: Any, *, whom: str) -> list[InspectedUpload]:
        return [
            InspectedUpload(each.name, "archive", rule_hits=("artifact:unread",), complete=False) for each in uploads
        ]

    async def close(self) -> None:
        return


async def safe(_: Request) -> str:
    return "safe"


def test_an_unreadable_attachment_is_not_passed_on_unless_the_settings_allow_it() -> None:
    handler, metrics = Handler(), Metrics()
    body = upload("a.zip", b"PK\x05\x06" + b"\0" * 18)
    for fetch in (None, safe):
        reply = asyncio.run(post(gated(handler, fetch=fetch, inspector=Poor(), metrics=metrics), body, **FORM))
        assert (reply.status, reply.code, reply.decision) == (422, "artifact-unread", "deny")
    assert handler.bodies == []
    assert metrics.gate_refusals.value("artifact-unread") == 2
    allowing = gated(handler, inspector=Poor(), settings=AbuseSettings(on_unread="allow"))
    assert asyncio.run(post(allowing, body, **FORM)).decision == "unclear"
    blocking = gated(handler, inspector=Poor(), settings=AbuseSettings(on_unread="allow", on_unclear="block"))
    assert asyncio.run(post(blocking, body, **FORM)).code == "unclear"


def test_words_that_are_unsafe_are_a_strike_whatever_came_along_with_them() -> None:
    gate = gated(Handler(), inspector=Poor())
    body = upload("a.zip", b"PK\x05\x06" + b"\0" * 18, prompt=ATTACK)

    async def run() -> list[Reply]:
        return [await post(gate, body, user="eve", **FORM) for _ in range(3)]

    replies = asyncio.run(run())
    assert {(each.status, each.code) for each in replies} == {(403, "unsafe")}
    assert replies[-1].mode == "execute_locked"


def test_an_unread_attachment_is_no_strike() -> None:
    gate = gated(Handler(), inspector=Poor())

    async def run() -> Reply:
        for _ in range(12):
            await post(gate, upload("a.zip", b"PK\x05\x06" + b"\0" * 18), user="ann", **FORM)
        return await post(gate, chat(HARMLESS, **TOOLS), user="ann")

    reply = asyncio.run(run())
    assert (reply.status, reply.mode) == (200, "")


def test_a_gate_that_cannot_read_pdf_files_says_so_at_the_start(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def start(**said: Any) -> str:
        caplog.clear()
        gated(Handler(), inspector=None, settings=AbuseSettings(**said))
        return caplog.text

    assert "PDF" not in start()
    monkeypatch.setattr(wiring, "PDF_READER", "no_such_package")
    assert "PDF files cannot be read here" in start()
    assert "pip install 'lockgate[api]'" in caplog.text
    assert "refused" in caplog.text
    assert "passed on unread" in start(on_unread="allow")
    assert "PDF" not in start(enabled=False)


# --- incidents


class Kept:
    """A journal in a list, that can be told to fail."""

    def __init__(self, error: Exception | None = None) -> None:
        self.acted: list[str] = []
        self.error = error

    def enqueue(self, records: Any, *, durable: bool) -> Any:
        from lockgate.core.vocabulary import Receipt
        from lockgate.journal.merkle import leaf_hash

        if self.error is not None:
            raise self.error
        found = [json.loads(each) for each in records]
        self.acted += [each["acted"] for each in found if each["kind"] == "assess"]
        return lambda: tuple(Receipt("test/1", number, leaf_hash(each)) for number, each in enumerate(records))


async def unclear(_: Request) -> str:
    return "unclear"


def incidents(journal: Kept) -> list[tuple[str, Reply]]:
    """Each way of being blocked, with what the journal says of it."""
    zipped = upload("a.zip", b"PK\x05\x06" + b"\0" * 18)
    ways: list[tuple[AbuseGateMiddleware, bytes, dict[str, Any]]] = [
        (gated(Handler(), journal=journal), chat(ATTACK), {}),
        (gated(Handler(), journal=journal, settings=AbuseSettings(override_mode="clarify")), chat(ATTACK), {}),
        (gated(Handler(), journal=journal, fetch=unclear, settings=AbuseSettings(on_unclear="block")), chat("x"), {}),
        (gated(Handler(), journal=journal, inspector=Poor()), zipped, FORM),
    ]
    found: list[tuple[str, Reply]] = []
    for gate, body, about in ways:
        reply = asyncio.run(post(gate, body, **about))
        found.append((journal.acted[-1] if journal.acted else "", reply))
    return found


def test_the_incident_that_is_told_is_the_one_in_the_journal_in_every_mode() -> None:
    found = incidents(Kept())
    assert [reply.code for _, reply in found] == ["unsafe", "clarify", "unclear", "artifact-unread"]
    for acted, reply in found:
        assert reply.incident
        assert acted == f"{reply.code}:{reply.incident}"
        assert json.loads(reply.body)["error"]["incident_id"] == reply.incident


def test_no_incident_is_told_that_the_journal_does_not_have() -> None:
    for _, reply in incidents(Kept(OSError())):
        assert reply.status in (403, 422)
        assert reply.incident == ""
        assert "incident_id" not in json.loads(reply.body)["error"]
    strict = gated(Handler(), journal=Kept(OSError()), settings=AbuseSettings(on_unclear="block"))
    reply = asyncio.run(post(strict, chat(HARMLESS)))
    assert (reply.status, reply.code, reply.incident) == (403, "unclear", "")


# --- who asks


@pytest.mark.parametrize("name", [42, UUID(int=7), 0])
def test_a_number_is_a_principal(name: Any) -> None:
    gate = gated(Handler())

    async def run() -> list[Reply]:
        asked = {**scope(), "state": {"principal": name}}
        return [await call(gate, asked, [{"type": "http.request", "body": chat(ATTACK)}]) for _ in range(3)]

    assert [each.mode for each in asyncio.run(run())] == ["", "", "execute_locked"]


def test_a_name_that_is_none_is_explained_once(caplog: pytest.LogCaptureFixture) -> None:
    handler = Handler()
    gate = gated(handler, identity=Identity(SECRET, lambda _: object()))  # type: ignore[arg-type, return-value]
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            reply = asyncio.run(post(gate, chat(HARMLESS)))
            assert (reply.status, reply.code) == (503, "unavailable")
    explained = [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR]
    (line,) = explained
    assert "a principal must be text, a whole number, a UUID or None" in line
    assert "object" in line
    assert handler.bodies == []


def whole(**said: Any) -> AbuseSettings:
    return AbuseSettings(secret=b"k" * 32, trusted_proxies=("10.0.0.1",), **said)


def forwarded(client: bytes) -> Any:
    return scope(client=("10.0.0.1", 1), headers=[(b"x-forwarded-for", client), (b"x-user", b"ann")])


def by_header(scope: Any) -> str | None:
    return dict(scope["headers"]).get(b"x-user", b"").decode() or None


def test_a_principal_of_one_s_own_leaves_the_secret_and_the_proxies_as_they_are_set() -> None:
    def gate() -> AbuseGateMiddleware:
        return AbuseGateMiddleware(
            Handler(),  # type: ignore[arg-type]
            settings=whole(),
            principal=by_header,
            fetch_verdict=safe,
            inspector=Poor(),  # type: ignore[arg-type]
            metrics=Metrics(),
            journal=False,
            gate=Gate(),
        )

    one, two = (gate()._identity.subjects(forwarded(b"203.0.113.9")) for _ in range(2))
    assert one == two == Identity.from_settings(whole(), by_header).subjects(forwarded(b"203.0.113.9"))
    assert [each.kind for each in one] == ["principal", "network"]
    other = gate()._identity.subjects(forwarded(b"203.0.113.10"))
    assert other[0] == one[0]
    assert other[1] != one[1]


@pytest.mark.parametrize(
    "identity", [Identity(b"k" * 32), Identity(b"x" * 32, trusted_proxies=["10.0.0.1"]), Identity(SECRET, by_header)]
)
def test_an_identity_that_forgets_what_is_set_does_not_start(identity: Identity) -> None:
    with pytest.raises(InvalidConfig, match="ABUSE_SECRET") as refused:
        gated(Handler(), settings=whole(), identity=identity)
    assert "from_settings" in refused.value.hint
    gated(Handler(), settings=whole(), identity=Identity(b"k" * 32, by_header, ["10.0.0.1", "10.0.0.2"]))


def test_an_identity_and_a_principal_are_one_too_many() -> None:
    with pytest.raises(InvalidConfig, match="both"):
        gated(Handler(), principal=by_header)


def test_a_principal_that_would_have_to_be_awaited_does_not_start() -> None:
    async def later(_: Any) -> str:
        return "ann"

    with pytest.raises(InvalidConfig, match="async"):
        Identity(SECRET, later)  # type: ignore[arg-type]
