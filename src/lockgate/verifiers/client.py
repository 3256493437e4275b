"""The only caller of model APIs: one total deadline, bounded retries, a circuit breaker, and caps.

How one question is asked:

1. The provider turns it into a request, on the caller's thread. If its circuit is open, if `in_flight` questions are
   under way, or half of them for this tenant, there is no answer, at once.
2. It crosses to the client's own loop (`background_loop`), so that no caller's loop or thread owns a connection. The
   caller waits until the deadline and a moment longer.
3. The circuit gives a ticket, which is returned with the result, also when the caller is cancelled.
4. Connecting may take a share of the time left; after that, the provider may take all of it. A question that could not
   be delivered, lost its connection or got a 5xx is asked again, within the time left and the budget for retries. A 4xx
   is never retried; one that refuses the schema gets the question once without it. The Retry-After of a 429 opens the
   circuit.
5. The reply is read within caps (`http_post`), and the provider turns it into an answer.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import math
import os
import random
import re
import sys
import threading
import time
import weakref
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from lockgate.core.errors import InvalidConfig, quoted
from lockgate.core.questions import Answer, ModelText, NoAnswer, NoAnswerReason, ProviderBlock, Question, Rating
from lockgate.runtime.background_loop import BackgroundLoop, is_on_event_loop, opened_connections
from lockgate.runtime.circuit_breaker import CallResult, CircuitLimits, Circuits, Ticket
from lockgate.runtime.forks import on_fork
from lockgate.runtime.http_post import HttpReply, HttpRequest, open_transport, post, tls_context, why_from_error

if TYPE_CHECKING:
    import httpx2

# The longest time that a Retry-After can keep the circuit open.
MAX_HOLD_S = 300.0
# While a retry is possible, connecting may take this share of the time left: the retry needs the rest.
CONNECT_SHARE = 0.6
# A question with less than this share of the usual time that times out says nothing about the provider. Else a few
# texts that take long to read would open the circuit for all clients.
FAIR_SHARE = 0.5
# No retry with less time left than this, or than a sixth of a short deadline.
WORTH_A_RETRY_S = 0.25
JITTER_S = 0.05
# How long past the deadline a caller waits for its answer to cross back from the loop.
GRACE_S = 0.05
# Retries may add a tenth to the calls, so that a failing provider does not get twice the load; a few are always free.
RETRY_SHARE = 0.1
SPARE_RETRIES = 10.0
EXIT_WAIT_S = 1.0
# A timer on the loop ends every question around its deadline. If one is still there so much later, the loop is stuck in
# a provider's code, or another thread closed its files.
STUCK_S = 5.0
MAX_STUCK = 3
MAX_NO_SCHEMAS = 4096
# A reply that refuses the schema has one of these statuses, and names what carries the schema in a request.
_REFUSING_STATUSES = (400, 415, 422)
_SCHEMA_NAMES = re.compile(rb"schema|response.?format|output.?config|structured.?output|grammar", re.IGNORECASE)

_RETRIED = frozenset({NoAnswerReason.DEADLINE, NoAnswerReason.NETWORK, NoAnswerReason.SERVER_ERROR})
# These say nothing about the provider's health: the question was wrong, or was never sent.
_NEUTRAL = frozenset(map(NoAnswerReason, "internal busy circuit-open called-in-loop bad-payload no-key".split()))
# The provider answered, even if only with a refusal: it is up. A storm of 4xx from one client must not open the circuit
# for all.
_ANSWERED = frozenset(map(NoAnswerReason, "unauthorized client-error refused cut-short odd-answer".split()))

_log = logging.getLogger("lockgate.verifier")


class Provider(Protocol):
    """A model API as two pure functions, which the client calls from several threads.

    `answer` must not raise or take long, whatever bytes it is given: it runs on the loop that all questions share.
    """

    @property
    def name(self) -> str:
        """The provider's name, from a closed list: it is a metric label."""

    @property
    def model(self) -> str: ...

    def request(self, question: Question, key: str) -> HttpRequest: ...

    def answer(self, question: Question, reply: HttpReply) -> Answer: ...


class Outcome(NamedTuple):
    """An answer, the time it took, and how often the question was sent."""

    answer: Answer
    latency_ms: float
    attempts: int


class Client:
    """Asks any provider, from any thread or event loop, and always answers within `timeout_ms`, retries included.

    `ca_file` names the certificate authorities to trust instead of the public ones.

    Never raises, except the cancellation of an async caller. One client serves a whole process and survives a fork, a
    dead thread and a caller's closed loop. `transport`, `background`, `clock` and `chance` are for simulations.

    `ask` and `ask_async` take two options. `timeout_s` shortens the deadline by time already spent. `tenant` may take
    at most half of the places; the caller must have verified the name. Circuits belong to the key, not to the tenant:
    a provider knows us by the key, and several tenants may share one.
    """

    def __init__(
        self,
        *,
        timeout_ms: int = 1500,
        max_retries: int = 1,
        circuit_open_s: float = 60.0,
        in_flight: int = 64,
        failures: int = 5,
        ca_file: str = "",
        transport: Callable[[], httpx2.AsyncBaseTransport] | None = None,
        background: Callable[[Callable[[], Awaitable[None]], Callable[[], None]], BackgroundLoop] = BackgroundLoop,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        _check_whole_number("timeout_ms", timeout_ms, 1, 600_000)
        _check_whole_number("max_retries", max_retries, 0, 10)
        _check_whole_number("in_flight", in_flight, 1, 10_000)
        _check_whole_number("failures", failures, 1, 1_000_000)
        if type(circuit_open_s) not in (int, float) or not 0 < circuit_open_s <= 86_400:
            raise InvalidConfig(
                f"circuit_open_s must be more than 0 and at most 86400, not {quoted(circuit_open_s)}",
                hint="60 is the default",
            )
        # The total deadline for an answer.
        self.timeout_s = timeout_ms / 1000
        self._clock = clock
        self._dispatcher = _Dispatcher(
            timeout_s=self.timeout_s,
            max_retries=max_retries,
            in_flight=in_flight,
            limits=CircuitLimits(failures=failures, open_s=circuit_open_s, lease_s=self.timeout_s + 5.0),
            transport=transport or partial(open_transport, in_flight, ca_file),
            background=background,
            chance=chance,
        )
        if transport is None:
            tls_context(ca_file)  # now, before a caller waits, and so that a missing package is reported at the start
        self._finalizer = weakref.finalize(self, self._dispatcher.stop)
        self._finalizer.atexit = False  # _leave_all does it, and waits

    def ask(
        self, provider: Provider, question: Question, key: str, *, tenant: str = "", timeout_s: float | None = None
    ) -> Outcome:
        """Ask from a plain thread. On a running event loop return no answer at once: waiting would stop that loop."""
        began = self._clock()
        if is_on_event_loop():
            return self._outcome(NoAnswer(NoAnswerReason.CALLED_IN_LOOP), began)
        pending = self._submit(provider, question, key, tenant, began, timeout_s)
        if not isinstance(pending, _PendingQuestion):
            return self._outcome(pending, began)
        try:
            answer = pending.answer.result(self._wait_s(pending))
        except TimeoutError:
            answer = NoAnswer(NoAnswerReason.DEADLINE)
        finally:
            # After the deadline, or a Ctrl-C while waiting.
            self._abandon_unless_done(pending)
        return self._outcome(answer, began, pending.attempts)

    async def ask_async(
        self, provider: Provider, question: Question, key: str, *, tenant: str = "", timeout_s: float | None = None
    ) -> Outcome:
        """Ask from any event loop; cancelling the caller cancels the question."""
        began = self._clock()
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            _log.warning("a verifier was asked from an event loop that is not asyncio's")
            return self._outcome(NoAnswer(NoAnswerReason.INTERNAL), began)
        pending = self._submit(provider, question, key, tenant, began, timeout_s)
        if not isinstance(pending, _PendingQuestion):
            return self._outcome(pending, began)
        waiter: asyncio.Future[None] = loop.create_future()
        try:
            pending.answer.add_done_callback(partial(_wake, loop, waiter))
            await asyncio.wait((waiter,), timeout=self._wait_s(pending))
            answer = pending.answer.result() if pending.answer.done() else NoAnswer(NoAnswerReason.DEADLINE)
        finally:
            # After the deadline, or when the caller was cancelled.
            self._abandon_unless_done(pending)
        return self._outcome(answer, began, pending.attempts)

    def close(self) -> None:
        """Cancel all questions and end the thread. Later questions get no answer."""
        self._finalizer.detach()
        self._dispatcher.close(EXIT_WAIT_S)

    def _submit(
        self, provider: Provider, question: Question, key: str, tenant: str, began: float, timeout_s: float | None
    ) -> _PendingQuestion | NoAnswer:
        """Step 1: make the request and submit it, or return why not."""
        given_s = self.timeout_s if timeout_s is None else min(timeout_s, self.timeout_s)
        if not given_s > 0:  # NaN is no time either
            return NoAnswer(NoAnswerReason.DEADLINE)
        try:
            request = _make_request(provider, question, key)
            circuit = _hashed_id(provider.name, provider.model, request.url, key)
            plain = None
            if question.schema is not None:
                # The same question for a server that refuses schemas.
                without = question._replace(schema=None)
                plain = (without, _make_request(provider, without, key))
                if self._dispatcher.refuses_schemas(circuit):
                    (question, request), plain = plain, None
            tenant_id = _hashed_id(tenant) if tenant != "" else None
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - foreign code; its error may hold the key
            _log.warning("a provider could not make its request: %s", type(error).__name__)
            return NoAnswer(NoAnswerReason.INTERNAL)
        pending = _PendingQuestion(provider, question, request, circuit, tenant_id, began + given_s, plain)
        pending.had_fair_time = given_s >= self.timeout_s * FAIR_SHARE
        refused = self._dispatcher.accept(pending, began)
        return pending if refused is None else NoAnswer(refused)

    def _abandon_unless_done(self, pending: _PendingQuestion) -> None:
        if not pending.answer.done():
            self._dispatcher.abandon(pending)

    def _wait_s(self, pending: _PendingQuestion) -> float:
        return max(0.0, pending.deadline - self._clock()) + GRACE_S

    def _outcome(self, answer: Answer, began: float, attempts: int = 0) -> Outcome:
        return Outcome(answer, (self._clock() - began) * 1000, attempts)


class ProviderQuestion(NamedTuple):
    """A question to a provider, as a wait of a routine (`lockgate.runtime.routines`).

    Only the client sets a timeout: it alone can tell a slow provider from a caller that left.
    """

    client: Client
    provider: Provider
    question: Question
    key: str
    tenant: str
    timeout_s: float | None = None

    def __repr__(self) -> str:
        return "ProviderQuestion(…)"  # it holds the key

    def now(self) -> Answer:
        asked = self.client.ask(self.provider, self.question, self.key, tenant=self.tenant, timeout_s=self.timeout_s)
        return asked.answer

    async def later(self) -> Answer:
        asked = await self.client.ask_async(
            self.provider, self.question, self.key, tenant=self.tenant, timeout_s=self.timeout_s
        )
        return asked.answer


@dataclass(slots=True, eq=False, repr=False)
class _PendingQuestion:
    """One question under way, shared by its caller and the loop; the loop's side sets `answer` once."""

    provider: Provider
    question: Question
    request: HttpRequest
    circuit: bytes
    tenant_id: bytes | None
    deadline: float
    plain: tuple[Question, HttpRequest] | None = None
    had_fair_time: bool = True
    answer: Future[Answer] = field(default_factory=Future)
    attempts: int = 0
    abandoned: bool = False
    loop: _ClientLoop | None = None
    task: asyncio.Task[Answer] | None = None

    def deliver(self, answer: Answer) -> None:
        # A task may end while its loop is being abandoned: then the first answer stays.
        if not self.answer.done():
            self.answer.set_result(answer)


class _ClientLoop:
    """One background loop with its connections and questions: lost together, replaced together."""

    def __init__(self) -> None:
        self.background: BackgroundLoop | None = None
        self.transport: httpx2.AsyncBaseTransport | None = None
        # In the order of arrival.
        self.questions: dict[_PendingQuestion, None] = {}


class _Dispatcher:
    """What the loop's thread and the callers share.

    It holds no reference to its client, so that an unused client is collected and its thread ends.
    """

    def __init__(
        self,
        *,
        timeout_s: float,
        max_retries: int,
        in_flight: int,
        limits: CircuitLimits,
        transport: Callable[[], httpx2.AsyncBaseTransport],
        background: Callable[[Callable[[], Awaitable[None]], Callable[[], None]], BackgroundLoop],
        chance: Callable[[], float],
    ) -> None:
        self._max_retries = max_retries
        self._in_flight = in_flight
        self._worth_a_retry_s = min(WORTH_A_RETRY_S, timeout_s / 6)
        self._open_transport = transport
        self._open_background = background
        self._chance = chance
        self._spare_retries = SPARE_RETRIES
        self._closed = False
        self._loop: _ClientLoop | None = None
        self._stuck: list[BackgroundLoop] = []
        # Guards the circuits, the loop and its questions; never held while waiting. Reentrant, because a signal handler
        # or a `__del__` may ask or close while this thread holds it.
        self._lock = threading.RLock()
        self.circuits = Circuits(limits)
        # The circuits whose server answers only without a schema.
        self._no_schemas: set[bytes] = set()
        _dispatchers.add(self)
        on_fork(self.after_fork)

    # --- called by the callers

    def refuses_schemas(self, circuit: bytes) -> bool:
        """Return whether a server is known to answer only without a schema."""
        with self._lock:
            return circuit in self._no_schemas

    def accept(self, pending: _PendingQuestion, now: float) -> NoAnswerReason | None:
        """Step 2: accept a question, or return why not."""
        with self._lock:
            if self._closed:
                return NoAnswerReason.INTERNAL
            if self.circuits.is_refusing(pending.circuit, now):
                return NoAnswerReason.CIRCUIT_OPEN
            client_loop = self._loop
            if (
                client_loop is None
                or client_loop.background is None
                or not client_loop.background.alive
                or self._is_stuck(client_loop, now)
            ):
                client_loop = self._open_loop()
                if client_loop is None:
                    return NoAnswerReason.INTERNAL
            if len(client_loop.questions) >= self._in_flight or self._exceeds_tenant_share(
                client_loop, pending.tenant_id
            ):
                return NoAnswerReason.BUSY
            pending.loop = client_loop
            called = False
            try:
                client_loop.questions[pending] = None
                called = client_loop.background is not None and client_loop.background.call(
                    self._start, client_loop, pending
                )
            finally:
                if not called:  # also after a Ctrl-C right here: else the place is lost for good
                    client_loop.questions.pop(pending, None)
            return None if called else NoAnswerReason.INTERNAL

    def abandon(self, pending: _PendingQuestion) -> None:
        """Cancel the question of a caller that has left; its place is free when the task has ended."""
        pending.abandoned = True
        if pending.loop is not None and pending.loop.background is not None:
            pending.loop.background.call(_cancel, pending)

    def close(self, wait_s: float) -> None:
        """Stop for good, while other threads may still be asking."""
        with self._lock:
            self._closed = True
        self.stop(wait_s)

    def stop(self, wait_s: float = 0.0) -> None:
        """Stop for good. Takes no lock: the garbage collector may call this in the middle of anything."""
        self._closed = True
        client_loop = self._loop
        if client_loop is not None and client_loop.background is not None:
            client_loop.background.stop(wait_s)

    def after_fork(self) -> None:
        """Start again in a forked child, which has no loop thread; the circuits stay valid."""
        self._lock = threading.RLock()
        client_loop, self._loop = self._loop, None
        if client_loop is not None and client_loop.background is not None:
            client_loop.background.close_inherited_files()

    def _exceeds_tenant_share(self, client_loop: _ClientLoop, tenant_id: bytes | None) -> bool:
        """Return whether a tenant already has half of the places; callers without a tenant may use all."""
        half = (self._in_flight + 1) // 2
        return (
            tenant_id is not None
            and len(client_loop.questions) >= half
            and sum(pending.tenant_id == tenant_id for pending in client_loop.questions) >= half
        )

    def _is_stuck(self, client_loop: _ClientLoop, now: float) -> bool:
        """Return whether a loop is stuck and is given up; a few times only, as the next one may get stuck too."""
        oldest = next(iter(client_loop.questions), None)
        if oldest is None or client_loop.background is None or now < oldest.deadline + STUCK_S:
            return False
        self._stuck = [background for background in self._stuck if background.alive]
        if len(self._stuck) >= MAX_STUCK:
            return False
        self._stuck.append(client_loop.background)
        client_loop.background.stop()  # should it ever wake up
        _log.warning("the verifier's thread does not run any more and is replaced")
        return True

    def _open_loop(self) -> _ClientLoop | None:
        if sys.is_finalizing():
            return None
        client_loop = _ClientLoop()
        try:
            client_loop.background = self._open_background(
                partial(_close, client_loop), partial(self._fail_all, client_loop)
            )
        except Exception as error:  # noqa: BLE001 - an edge: `background` may be the application's own
            _log.warning("the verifier's thread could not be started: %s", type(error).__name__)
            return None
        self._loop = client_loop
        return client_loop

    # --- called on the loop, or by its thread when it ends

    def _start(self, client_loop: _ClientLoop, pending: _PendingQuestion) -> None:
        if client_loop.background is None or not client_loop.background.alive:
            return  # the loop is ending, and `_fail_all` will answer the caller
        pending.task = asyncio.get_running_loop().create_task(self._run(client_loop, pending))
        pending.task.add_done_callback(partial(self._finish, client_loop, pending))
        if pending.abandoned:
            pending.task.cancel()

    def _finish(self, client_loop: _ClientLoop, pending: _PendingQuestion, task: asyncio.Task[Answer]) -> None:
        with self._lock:
            client_loop.questions.pop(pending, None)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            _log.warning("asking a verifier failed: %s", type(error).__name__)
        pending.task = None
        pending.deliver(NoAnswer(NoAnswerReason.INTERNAL) if task.cancelled() or error is not None else task.result())

    def _fail_all(self, client_loop: _ClientLoop) -> None:
        """Answer all questions of a loop that is gone, so that no caller waits until its deadline."""
        with self._lock:
            if self._loop is client_loop:
                self._loop = None
            questions = tuple(client_loop.questions)
            client_loop.questions.clear()
        for pending in questions:
            pending.deliver(NoAnswer(NoAnswerReason.INTERNAL))

    async def _run(self, client_loop: _ClientLoop, pending: _PendingQuestion) -> Answer:
        """Step 3. Nothing may await between the ticket and the `try`: a cancellation there would lose the ticket."""
        loop = asyncio.get_running_loop()
        with self._lock:
            ticket = self.circuits.admit(pending.circuit, loop.time())
        if ticket is None:
            return NoAnswer(NoAnswerReason.CIRCUIT_OPEN)
        result, hold_s = CallResult.NEUTRAL, 0.0
        try:
            answer = await self._exchange(client_loop, pending, ticket)
            result, hold_s = _health_from_answer(answer, fair=pending.had_fair_time)
            return answer
        except asyncio.CancelledError:
            # A caller that waited until its deadline is a timeout; one that left earlier says nothing.
            if loop.time() >= pending.deadline:
                result, _ = _health_from_answer(NoAnswer(NoAnswerReason.DEADLINE), fair=pending.had_fair_time)
            raise
        finally:
            with self._lock:
                self.circuits.settle(pending.circuit, ticket, result, loop.time(), hold_s=hold_s)

    async def _exchange(self, client_loop: _ClientLoop, pending: _PendingQuestion, ticket: Ticket) -> Answer:
        """Step 4. A probe is not retried."""
        loop = asyncio.get_running_loop()
        tries = 1 if ticket.probe else 1 + self._max_retries
        self._spare_retries = min(SPARE_RETRIES, self._spare_retries + RETRY_SHARE)
        while True:
            tries -= 1
            left = pending.deadline - loop.time()
            if left <= 0:
                return NoAnswer(NoAnswerReason.DEADLINE)
            again = tries > 0 and self._spare_retries >= 1
            pending.attempts += 1
            answer = await self._try(client_loop, pending, left, left * CONNECT_SHARE if again else left)
            if pending.plain is not None and answer == NoAnswer(NoAnswerReason.CLIENT_ERROR):
                answer = await self._ask_without_schema(client_loop, pending, is_last=not again)
            if not again or not isinstance(answer, NoAnswer) or answer.why not in _RETRIED:
                return answer
            pause = self._chance() * JITTER_S
            if pending.deadline - loop.time() - pause < self._worth_a_retry_s:
                return answer
            await asyncio.sleep(pause)
            # Other questions may have used up the retries, or opened the circuit: then this would be a second probe.
            with self._lock:
                opened_since = self.circuits.get(pending.circuit).generation != ticket.generation
            if opened_since or self._spare_retries < 1:
                return answer
            self._spare_retries -= 1

    async def _ask_without_schema(
        self, client_loop: _ClientLoop, pending: _PendingQuestion, *, is_last: bool
    ) -> Answer:
        """Ask again: many servers of this format refuse a schema. One that then answers is remembered."""
        left = pending.deadline - asyncio.get_running_loop().time()
        if left <= 0:
            return NoAnswer(NoAnswerReason.DEADLINE)
        if pending.plain is not None:
            (pending.question, pending.request), pending.plain = pending.plain, None
        pending.attempts += 1
        answer = await self._try(client_loop, pending, left, left)
        if isinstance(answer, ModelText):
            with self._lock:
                if len(self._no_schemas) < MAX_NO_SCHEMAS:
                    self._no_schemas.add(pending.circuit)
        elif is_last and answer == NoAnswer(NoAnswerReason.NETWORK):
            # The server has answered once, and closed the connection behind it.
            return NoAnswer(NoAnswerReason.CLIENT_ERROR)
        return answer

    async def _try(
        self, client_loop: _ClientLoop, pending: _PendingQuestion, left_s: float, connect_s: float
    ) -> Answer:
        connections: list[asyncio.BaseTransport] = []
        opened_connections.set(connections)
        answered = False
        try:
            async with asyncio.timeout(connect_s) as limit:

                def connected() -> None:
                    if not limit.expired():
                        limit.reschedule(pending.deadline)

                if client_loop.transport is None:
                    client_loop.transport = self._open_transport()
                reply = await post(client_loop.transport, pending.request, left_s, connected)
            answered = True
        except TimeoutError:
            return NoAnswer(NoAnswerReason.DEADLINE)
        except Exception as error:  # noqa: BLE001 - the HTTP library's errors; the caller gets a reason instead
            return NoAnswer(why_from_error(error))
        finally:
            if not answered:
                for connection in connections:
                    cast(asyncio.WriteTransport, connection).abort()
        if isinstance(reply, NoAnswer):
            return reply
        if 400 <= reply.status < 500:
            is_schema_refused = reply.status in _REFUSING_STATUSES and _SCHEMA_NAMES.search(reply.body)
            pending.plain = pending.plain if is_schema_refused else None
        try:
            answer = pending.provider.answer(pending.question, reply)
        except BaseException as error:  # noqa: BLE001 - foreign code; SystemExit would end the shared loop
            _log.warning("a provider could not read its reply: %s", type(error).__name__)
            return NoAnswer(NoAnswerReason.INTERNAL)
        # Foreign code may return anything.
        known: tuple[type, ...] = (ModelText, Rating, ProviderBlock, NoAnswer)
        return answer if isinstance(answer, known) else NoAnswer(NoAnswerReason.INTERNAL)


def _make_request(provider: Provider, question: Question, key: str) -> HttpRequest:
    request = provider.request(question, key)
    if not isinstance(request, HttpRequest):
        raise TypeError
    return request


def _health_from_answer(answer: Answer, *, fair: bool) -> tuple[CallResult, float]:
    """Return what an answer says about its provider's health, and how long the provider asked us to wait."""
    if not isinstance(answer, NoAnswer) or answer.why in _ANSWERED:
        return CallResult.SUCCESS, 0.0
    if answer.why in _NEUTRAL or (answer.why is NoAnswerReason.DEADLINE and not fair):
        return CallResult.NEUTRAL, 0.0
    if answer.why is NoAnswerReason.RATE_LIMITED:
        asked = answer.retry_after_s
        if asked is not None and math.isfinite(asked) and asked > 0:
            return CallResult.FAILURE, min(asked, MAX_HOLD_S)
    return CallResult.FAILURE, 0.0


# Random per process, so that a key's hash cannot be compared with hashes from elsewhere.
_SALT = os.urandom(16)


def _hashed_id(*parts: str) -> bytes:
    """Return a hash that identifies a circuit or a tenant: of fixed size, and without its name or key."""
    digest = blake2b(digest_size=16, key=_SALT)
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
    return digest.digest()


def _cancel(pending: _PendingQuestion) -> None:
    if pending.task is not None:
        pending.task.cancel()


def _wake(loop: asyncio.AbstractEventLoop, waiter: asyncio.Future[None], _answer: Future[Answer]) -> None:
    with suppress(RuntimeError):  # the caller's loop was closed while it waited
        loop.call_soon_threadsafe(_set_waiter, waiter)


def _set_waiter(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


async def _close(client_loop: _ClientLoop) -> None:
    if client_loop.transport is not None:
        await client_loop.transport.aclose()


def _check_whole_number(name: str, value: object, least: int, most: int) -> None:
    if type(value) is not int or not least <= value <= most:
        raise InvalidConfig(
            f"{name} must be a whole number from {least} to {most}, not {quoted(value)}",
            hint="leave it out for the default",
        )


# All dispatchers: the exit must stop them before the interpreter takes itself apart under their threads.
_dispatchers: weakref.WeakSet[_Dispatcher] = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    dispatchers = tuple(_dispatchers)
    for dispatcher in dispatchers:
        dispatcher.close(0.0)  # all of them first, so that they end at the same time
    until = time.monotonic() + EXIT_WAIT_S
    for dispatcher in dispatchers:
        dispatcher.stop(max(0.01, until - time.monotonic()))
