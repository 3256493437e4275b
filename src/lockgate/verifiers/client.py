"""The only caller of model APIs: one deadline over everything, bounded retries, a circuit breaker, and caps.

How one question is asked:

1. The provider turns it into a request, on the caller's thread. Its circuit must not be open, and fewer than
   `in_flight` questions may be under way, fewer than half of them a named tenant's: otherwise there is no answer, at
   once.
2. It crosses to the client's own loop (`background`), so that no caller's loop or thread owns a connection. The caller
   waits until the deadline and a moment longer, whatever happens over there.
3. The circuit gives a ticket, which is handed back with what the call showed, also when the caller is cancelled.
4. A try has all the time that is left once its question is on the way: whoever is asked may take as long as we have.
   Getting connected has a share of it only. A try that could not connect, lost its connection or got a 5xx is made
   again while there is time for it and in the budget for retries. A 429 never is: its Retry-After opens the circuit.
5. The reply is read within caps (`post`), and the provider turns it into an answer.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import math
import os
import random
import sys
import threading
import time
import weakref
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from lockgate.core.errors import InvalidConfig, quoted
from lockgate.core.questions import (
    Answer,
    HttpReply,
    HttpRequest,
    ModelText,
    NoAnswer,
    NoAnswerReason,
    ProviderBlock,
    Question,
    Rating,
)
from lockgate.core.requests.circuit_breaker import CallResult, CircuitLimits, Circuits, Ticket
from lockgate.runtime.background_loop import BackgroundLoop, opened_connections
from lockgate.runtime.forks import on_fork
from lockgate.runtime.http_post import open_transport, post, tls_context, why_from_error

if TYPE_CHECKING:
    import httpx2

# The longest a server can make us stay away with a Retry-After.
MAX_HOLD_S = 300.0
# A try that may be made again has to be connected within so much of the time left: the next one must have a chance.
CONNECT_SHARE = 0.6
# A question that was given less than this share of the usual time and ran out of it says nothing about the provider.
# Else a few texts that take long to read would turn it off for everybody.
FAIR_SHARE = 0.5
# No retry with less time than this left, or than a sixth of a short deadline.
WORTH_A_RETRY_S = 0.25
JITTER_S = 0.05
# How long past the deadline a caller waits for its answer to cross back, or to find out that it never will.
GRACE_S = 0.05
# Retries may add a tenth to the calls, so that a failing provider is not sent twice the load; a few are always allowed.
RETRY_SHARE = 0.1
SPARE_RETRIES = 10.0
EXIT_WAIT_S = 1.0
# Every errand ends around its deadline, because a timer on the loop sees to it. One that is still there so long after
# has a loop that does not run any more: stuck in somebody's provider, or its files were closed under it.
STUCK_S = 5.0
MAX_STUCK = 3

_RETRIED = frozenset({NoAnswerReason.DEADLINE, NoAnswerReason.NETWORK, NoAnswerReason.SERVER_ERROR})
# Nothing here is about the provider's health: the question was ours to ask better, or was never asked.
_NEUTRAL = frozenset(
    {
        NoAnswerReason.INTERNAL,
        NoAnswerReason.BUSY,
        NoAnswerReason.CIRCUIT_OPEN,
        NoAnswerReason.CALLED_IN_LOOP,
        NoAnswerReason.BAD_PAYLOAD,
        NoAnswerReason.NO_KEY,
    }
)
# The provider understood and answered, even if only to say no: it is up. A 4xx storm of one caller must not turn
# the verifier off for everybody.
_ANSWERED = frozenset(
    {
        NoAnswerReason.UNAUTHORIZED,
        NoAnswerReason.CLIENT_ERROR,
        NoAnswerReason.REFUSED,
        NoAnswerReason.CUT_SHORT,
        NoAnswerReason.ODD_ANSWER,
    }
)

_log = logging.getLogger("lockgate.verifier")


class Provider(Protocol):
    """A model API as two pure functions, which the client calls from several threads.

    `answer` must not raise or take long, whatever bytes it is given: it runs on the loop that all questions share.
    """

    @property
    def name(self) -> str:
        """One of a closed list: it is a metric label."""

    @property
    def model(self) -> str: ...

    def request(self, question: Question, key: str) -> HttpRequest: ...

    def answer(self, question: Question, reply: HttpReply) -> Answer: ...


class Outcome(NamedTuple):
    """What came of a question: `attempts` is how often it was sent."""

    answer: Answer
    latency_ms: float
    attempts: int


class Client:
    """Asks any provider, from any thread or event loop, and always answers: within `timeout_ms`, all retries included.

    `ca_file` names the authorities to trust, where they are not the public ones.

    Never raises, except the cancellation of an async caller. One client serves a whole process; a fork, a dead
    thread or a closed loop of a caller leaves it working. `transport`, `background`, `clock` and `chance` are for
    simulations.

    `ask` and `ask_async` take two things more. `timeout_s`: there is less time than usual, because some of it has
    gone. `tenant`: whom it is for, who may take no more than half the places while others have none; a name, and not
    what a request says about itself. Circuits do not depend on it: they belong to the key, which is what a provider
    knows us by, and which many tenants may share.
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
        self._timeout_s = timeout_ms / 1000
        self._clock = clock
        self._desk = _Dispatcher(
            timeout_s=self._timeout_s,
            max_retries=max_retries,
            in_flight=in_flight,
            limits=CircuitLimits(failures=failures, open_s=circuit_open_s, lease_s=self._timeout_s + 5.0),
            transport=transport or partial(open_transport, in_flight, ca_file),
            background=background,
            chance=chance,
        )
        if transport is None:
            tls_context(ca_file)  # now, while nobody is waiting, and so that a missing package is known at the start
        self._finalizer = weakref.finalize(self, self._desk.stop)
        self._finalizer.atexit = False  # _leave_all does it, and waits

    @property
    def timeout_s(self) -> float:
        """How long an answer may take."""
        return self._timeout_s

    def ask(
        self, provider: Provider, question: Question, key: str, *, tenant: str = "", timeout_s: float | None = None
    ) -> Outcome:
        """For a plain thread. On a running event loop there is no answer, at once: waiting would stop that loop."""
        began = self._clock()
        if _is_on_event_loop():
            return self._outcome(NoAnswer(NoAnswerReason.CALLED_IN_LOOP), began)
        errand = self._submit(provider, question, key, tenant, began, timeout_s)
        if not isinstance(errand, _PendingQuestion):
            return self._outcome(errand, began)
        try:
            answer = errand.answer.result(self._wait_s(errand))
        except TimeoutError:
            self._desk.abandon(errand)
            answer = NoAnswer(NoAnswerReason.DEADLINE)
        except BaseException:  # Ctrl-C while waiting
            self._desk.abandon(errand)
            raise
        return self._outcome(answer, began, errand.attempts)

    async def ask_async(
        self, provider: Provider, question: Question, key: str, *, tenant: str = "", timeout_s: float | None = None
    ) -> Outcome:
        """For any number of event loops; a cancelled caller's question is taken back."""
        began = self._clock()
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            _log.warning("a verifier was asked from an event loop that is not asyncio's")
            return self._outcome(NoAnswer(NoAnswerReason.INTERNAL), began)
        errand = self._submit(provider, question, key, tenant, began, timeout_s)
        if not isinstance(errand, _PendingQuestion):
            return self._outcome(errand, began)
        waiter: asyncio.Future[None] = loop.create_future()
        try:
            errand.answer.add_done_callback(partial(_wake, loop, waiter))
            await asyncio.wait((waiter,), timeout=self._wait_s(errand))
        except BaseException:
            self._desk.abandon(errand)
            raise
        if errand.answer.done():
            return self._outcome(errand.answer.result(), began, errand.attempts)
        self._desk.abandon(errand)
        return self._outcome(NoAnswer(NoAnswerReason.DEADLINE), began, errand.attempts)

    def close(self) -> None:
        """Take back what is under way and end the thread. Whoever asks afterwards gets no answer."""
        self._finalizer.detach()
        self._desk.close(EXIT_WAIT_S)

    def _submit(
        self, provider: Provider, question: Question, key: str, tenant: str, began: float, timeout_s: float | None
    ) -> _PendingQuestion | NoAnswer:
        """Step 1."""
        given_s = self._timeout_s if timeout_s is None else min(timeout_s, self._timeout_s)
        if not given_s > 0:  # NaN is no time either
            return NoAnswer(NoAnswerReason.DEADLINE)
        try:
            request = provider.request(question, key)
            if not isinstance(request, HttpRequest):
                raise TypeError
            circuit = _hashed_id(provider.name, provider.model, request.url, key)
            whom = _hashed_id(tenant) if tenant != "" else None
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - somebody's provider; what it raises may hold the key
            _log.warning("a provider could not make its request: %s", type(error).__name__)
            return NoAnswer(NoAnswerReason.INTERNAL)
        errand = _PendingQuestion(provider, question, request, circuit, whom, began + given_s)
        errand.had_fair_time = given_s >= self._timeout_s * FAIR_SHARE
        refused = self._desk.accept(errand, began)
        return errand if refused is None else NoAnswer(refused)

    def _wait_s(self, errand: _PendingQuestion) -> float:
        return max(0.0, errand.deadline - self._clock()) + GRACE_S

    def _outcome(self, answer: Answer, began: float, attempts: int = 0) -> Outcome:
        return Outcome(answer, (self._clock() - began) * 1000, attempts)


class _PendingQuestion:
    """One question under way. The caller and the loop both hold it; `answer` is set once, by the loop's side."""

    __slots__ = (
        "abandoned",
        "answer",
        "attempts",
        "circuit",
        "deadline",
        "had_fair_time",
        "loop",
        "provider",
        "question",
        "request",
        "task",
        "tenant_id",
    )

    def __init__(
        self,
        provider: Provider,
        question: Question,
        request: HttpRequest,
        circuit: bytes,
        whom: bytes | None,
        deadline: float,
    ) -> None:
        self.provider = provider
        self.question = question
        self.request = request
        self.circuit = circuit
        self.tenant_id = whom
        self.deadline = deadline
        self.had_fair_time = True
        self.answer: Future[Answer] = Future()
        self.attempts = 0
        self.abandoned = False
        self.loop: _ClientLoop | None = None
        self.task: asyncio.Task[Answer] | None = None

    def deliver(self, answer: Answer) -> None:
        # Twice is possible: a task that ends while its loop is being given up.
        if not self.answer.done():
            self.answer.set_result(answer)


class _ClientLoop:
    """One background loop, its connections, and the errands that are on it: lost together, replaced together."""

    def __init__(self) -> None:
        self.background: BackgroundLoop | None = None
        self.transport: httpx2.AsyncBaseTransport | None = None
        # In the order in which they came.
        self.errands: dict[_PendingQuestion, None] = {}


class _Dispatcher:
    """What the loop's thread and the callers share. It holds no reference to its client, so that a client nobody
    uses any more is collected, and its thread ends."""

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
        self._left = False
        self._line: _ClientLoop | None = None
        self._deaf: list[BackgroundLoop] = []
        # Guards the circuits, the line and its errands; held for a few instructions at a time, never while waiting.
        # Reentrant, because a signal handler or somebody's `__del__` may ask or close in the middle of them.
        self._lock = threading.RLock()
        self.circuits = Circuits(limits)
        _dispatchers.add(self)
        on_fork(self.after_fork)

    # --- called by the callers

    def accept(self, errand: _PendingQuestion, now: float) -> NoAnswerReason | None:
        """Step 2: accept an errand, or say why not."""
        with self._lock:
            if self._left:
                return NoAnswerReason.INTERNAL
            if self.circuits.is_refusing(errand.circuit, now):
                return NoAnswerReason.CIRCUIT_OPEN
            line = self._line
            if line is None or line.background is None or not line.background.alive or self._is_stuck(line, now):
                line = self._open_loop()
                if line is None:
                    return NoAnswerReason.INTERNAL
            if len(line.errands) >= self._in_flight or self._exceeds_tenant_share(line, errand.tenant_id):
                return NoAnswerReason.BUSY
            errand.loop = line
            called = False
            try:
                line.errands[errand] = None
                called = line.background is not None and line.background.call(self._start, line, errand)
            finally:
                if not called:  # also after a Ctrl-C just here: a place that nobody frees is lost for good
                    line.errands.pop(errand, None)
            return None if called else NoAnswerReason.INTERNAL

    def abandon(self, errand: _PendingQuestion) -> None:
        """The caller is gone: whatever is under way for it ends. Its place is free when it has."""
        errand.abandoned = True
        if errand.loop is not None and errand.loop.background is not None:
            errand.loop.background.call(_cancel, errand)

    def close(self, wait_s: float) -> None:
        """Stop for good, while others may still be asking."""
        with self._lock:
            self._left = True
        self.stop(wait_s)

    def stop(self, wait_s: float = 0.0) -> None:
        """Stop for good. Takes no lock: the garbage collector may call this in the middle of anything."""
        self._left = True
        line = self._line
        if line is not None and line.background is not None:
            line.background.stop(wait_s)

    def after_fork(self) -> None:
        """In the child: the thread is not here, and whoever held the lock is not either. What the circuits know
        about the providers is as true as before."""
        self._lock = threading.RLock()
        line, self._line = self._line, None
        if line is not None and line.background is not None:
            line.background.close_inherited_files()

    def _exceeds_tenant_share(self, line: _ClientLoop, whom: bytes | None) -> bool:
        """Whether a tenant has its half of the places. Whoever has no name has no others to leave them to."""
        half = (self._in_flight + 1) // 2
        return (
            whom is not None
            and len(line.errands) >= half
            and sum(errand.tenant_id == whom for errand in line.errands) >= half
        )

    def _is_stuck(self, line: _ClientLoop, now: float) -> bool:
        """Whether to give a line up, its thread and all. Not many times: what got stuck here gets stuck there too."""
        oldest = next(iter(line.errands), None)
        if oldest is None or line.background is None or now < oldest.deadline + STUCK_S:
            return False
        self._deaf = [background for background in self._deaf if background.alive]
        if len(self._deaf) >= MAX_STUCK:
            return False
        self._deaf.append(line.background)
        line.background.stop()  # should it ever wake up
        _log.warning("the verifier's thread does not run any more and is replaced")
        return True

    def _open_loop(self) -> _ClientLoop | None:
        if sys.is_finalizing():
            return None
        line = _ClientLoop()
        try:
            line.background = self._open_background(partial(_close, line), partial(self._fail_all, line))
        except Exception as error:  # noqa: BLE001 - no more files, no more threads, no more memory
            _log.warning("the verifier's thread could not be started: %s", type(error).__name__)
            return None
        self._line = line
        return line

    # --- called on the loop, or by its thread when it ends

    def _start(self, line: _ClientLoop, errand: _PendingQuestion) -> None:
        if line.background is None or not line.background.alive:
            return  # the loop is ending, and `_lost` will tell the caller
        errand.task = asyncio.get_running_loop().create_task(self._run(line, errand))
        errand.task.add_done_callback(partial(self._finish, line, errand))
        if errand.abandoned:
            errand.task.cancel()

    def _finish(self, line: _ClientLoop, errand: _PendingQuestion, task: asyncio.Task[Answer]) -> None:
        with self._lock:
            line.errands.pop(errand, None)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            _log.warning("asking a verifier failed: %s", type(error).__name__)
        errand.task = None
        errand.deliver(NoAnswer(NoAnswerReason.INTERNAL) if task.cancelled() or error is not None else task.result())

    def _fail_all(self, line: _ClientLoop) -> None:
        """The loop is gone. Whoever still waits for it must not wait until the deadline."""
        with self._lock:
            if self._line is line:
                self._line = None
            errands = tuple(line.errands)
            line.errands.clear()
        for errand in errands:
            errand.deliver(NoAnswer(NoAnswerReason.INTERNAL))

    async def _run(self, line: _ClientLoop, errand: _PendingQuestion) -> Answer:
        """Step 3. Between the ticket and the `try` nothing may await: a cancellation there would lose the ticket."""
        loop = asyncio.get_running_loop()
        with self._lock:
            ticket = self.circuits.admit(errand.circuit, loop.time())
        if ticket is None:
            return NoAnswer(NoAnswerReason.CIRCUIT_OPEN)
        result, hold_s = CallResult.NEUTRAL, 0.0
        try:
            answer = await self._exchange(line, errand, ticket)
            result, hold_s = _health_from_answer(answer, fair=errand.had_fair_time)
            return answer
        except asyncio.CancelledError:
            # A caller who had waited its time is a timeout; one who left earlier says nothing about the provider.
            if loop.time() >= errand.deadline:
                result, _ = _health_from_answer(NoAnswer(NoAnswerReason.DEADLINE), fair=errand.had_fair_time)
            raise
        finally:
            with self._lock:
                self.circuits.settle(errand.circuit, ticket, result, loop.time(), hold_s=hold_s)

    async def _exchange(self, line: _ClientLoop, errand: _PendingQuestion, ticket: Ticket) -> Answer:
        """Step 4. A probe is one try."""
        loop = asyncio.get_running_loop()
        tries = 1 if ticket.probe else 1 + self._max_retries
        self._spare_retries = min(SPARE_RETRIES, self._spare_retries + RETRY_SHARE)
        while True:
            tries -= 1
            left = errand.deadline - loop.time()
            if left <= 0:
                return NoAnswer(NoAnswerReason.DEADLINE)
            again = tries > 0 and self._spare_retries >= 1
            errand.attempts += 1
            answer = await self._try(line, errand, left, left * CONNECT_SHARE if again else left)
            if not again or not isinstance(answer, NoAnswer) or answer.why not in _RETRIED:
                return answer
            pause = self._chance() * JITTER_S
            if errand.deadline - loop.time() - pause < self._worth_a_retry_s:
                return answer
            await asyncio.sleep(pause)
            # Others may have used up the retries meanwhile, or opened the circuit: then this would be one more probe.
            with self._lock:
                opened_since = self.circuits.get(errand.circuit).generation != ticket.generation
            if opened_since or self._spare_retries < 1:
                return answer
            self._spare_retries -= 1

    async def _try(self, line: _ClientLoop, errand: _PendingQuestion, left_s: float, connect_s: float) -> Answer:
        connections: list[asyncio.BaseTransport] = []
        opened_connections.set(connections)
        answered = False
        try:
            async with asyncio.timeout(connect_s) as limit:

                def connected() -> None:
                    if not limit.expired():
                        limit.reschedule(errand.deadline)

                if line.transport is None:
                    line.transport = self._open_transport()
                reply = await post(line.transport, errand.request, left_s, connected)
            answered = True
        except TimeoutError:
            return NoAnswer(NoAnswerReason.DEADLINE)
        except Exception as error:  # noqa: BLE001 - never through to the caller, who gets the reason instead
            return NoAnswer(why_from_error(error))
        finally:
            if not answered:
                for connection in connections:
                    cast(asyncio.WriteTransport, connection).abort()
        if isinstance(reply, NoAnswer):
            return reply
        try:
            answer = errand.provider.answer(errand.question, reply)
        except BaseException as error:  # noqa: BLE001 - SystemExit would end the loop that everybody uses
            _log.warning("a provider could not read its reply: %s", type(error).__name__)
            return NoAnswer(NoAnswerReason.INTERNAL)
        # Somebody's provider, whatever its types say.
        known: tuple[type, ...] = (ModelText, Rating, ProviderBlock, NoAnswer)
        return answer if isinstance(answer, known) else NoAnswer(NoAnswerReason.INTERNAL)


def _health_from_answer(answer: Answer, *, fair: bool) -> tuple[CallResult, float]:
    """What an answer says about its provider's health, and how long it asked us to stay away."""
    if not isinstance(answer, NoAnswer) or answer.why in _ANSWERED:
        return CallResult.SUCCESS, 0.0
    if answer.why in _NEUTRAL or (answer.why is NoAnswerReason.DEADLINE and not fair):
        return CallResult.NEUTRAL, 0.0
    if answer.why is NoAnswerReason.RATE_LIMITED:
        asked = answer.retry_after_s
        if asked is not None and math.isfinite(asked) and asked > 0:
            return CallResult.FAILURE, min(asked, MAX_HOLD_S)
    return CallResult.FAILURE, 0.0


# Of this process alone, so that what is kept of a key here cannot be compared with anything elsewhere.
_SALT = os.urandom(16)


def _hashed_id(*parts: str) -> bytes:
    """Something to tell circuits and tenants apart by: of one size, however long their names, and not their names."""
    digest = blake2b(digest_size=16, key=_SALT)
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
    return digest.digest()


def _cancel(errand: _PendingQuestion) -> None:
    if errand.task is not None:
        errand.task.cancel()


def _wake(loop: asyncio.AbstractEventLoop, waiter: asyncio.Future[None], _answer: Future[Answer]) -> None:
    with suppress(RuntimeError):  # that loop has been closed, with its caller still waiting
        loop.call_soon_threadsafe(_set_waiter, waiter)


def _set_waiter(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


async def _close(line: _ClientLoop) -> None:
    if line.transport is not None:
        await line.transport.aclose()


def _is_on_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


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
    desks = tuple(_dispatchers)
    for desk in desks:
        desk.close(0.0)  # all of them first, so that they end at the same time
    until = time.monotonic() + EXIT_WAIT_S
    for desk in desks:
        desk.stop(max(0.01, until - time.monotonic()))
