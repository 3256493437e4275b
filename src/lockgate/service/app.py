"""The service as an ASGI application.

What happens to a request; a later step runs only if the earlier ones passed:

1. Host.    The request names one of the service's own addresses.
2. Origin.  No browser header names a foreign page.
3. Token.   Everything under `/v1`, `/hooks` and `/metrics` needs a token, unknown paths too; but the login, and
            metrics that were declared open. A browser's reading key stands in for a token where nothing changes.
4. Route.   The path and the method are in the table, and the caller may use them.
5. Body.    Counted and timed as it arrives, JSON, and what the route's schema says.
6. Work.    Off the loop wherever a store is asked. Our own errors are answers; an unexpected error is 500.
7. Answer.  With headers that keep a browser from running, framing, guessing or keeping any of it.

A ruling is kept before it is answered, so a killed worker loses nothing that a client was told. Logs
hold a route, a status and an error's type; never a path as it came, a body or a token.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from hashlib import sha256
from inspect import iscoroutinefunction
from os.path import basename
from time import monotonic, perf_counter, time
from typing import TYPE_CHECKING, Any, Protocol

from lockgate.core.errors import (
    InvalidBlock,
    InvalidCall,
    InvalidConfig,
    InvalidPattern,
    InvalidPayload,
    JournalUnavailable,
    LockgateError,
    SessionsBusy,
)
from lockgate.runtime.asgi import Header, Receive, Scope, Send, json_bytes
from lockgate.runtime.tracing import REQUEST_TRACE, parse_traceparent
from lockgate.runtime.worker_pool import Full, WorkerPool
from lockgate.service import agent_access, journal_proofs
from lockgate.service.approval_links import ApprovalLinks
from lockgate.service.auth import HostCheck, SignedQuestion, Tokens, bearer_token
from lockgate.service.event_stream import EventStream
from lockgate.service.http import (
    JSON,
    Answer,
    BodyBudget,
    Caller,
    Problem,
    Request,
    Stream,
    busy_problem,
    client_address,
    read_object,
)
from lockgate.service.openapi import Route, RouteTable
from lockgate.service.page_login import LoginCodes, WrongCodes, is_reading_key
from lockgate.service.request_counts import RequestCounts
from lockgate.service.routes import ROUTES
from lockgate.service.schemas import HALVES, find_misfit
from lockgate.sessions.ruling_keeper import MAX_WAIT_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockgate.abuse_gate.ban_stores import BanStores
    from lockgate.core.ruling.approvals import AnswerResult, Approval, PendingApproval
    from lockgate.core.ruling.grants import Grant
    from lockgate.sessions import Host
    from lockgate.settings.policy_reload import PolicyReload
    from lockgate.verifiers.adapters import EmbeddedAdapter, LocalRuleAdapter, RemoteAdapter

LOG = logging.getLogger("lockgate.server")

CSP = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    b"require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS: tuple[Header, ...] = (
    (b"content-security-policy", CSP),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
)
PRUNE_INTERVAL_S = 3_600.0
_GUARDED = (b"/v1", b"/hooks", b"/metrics")
# The page calls this endpoint to get its token, so it cannot have one yet.
_LOGIN_PATH = b"/v1/exchange"
# Below this a body is read on the loop.
_SMALL = 1 << 14
# Problems that are over in a moment, or are not about what the body says: the client sends it again.
_RETRIED_CODES = frozenset({"busy", "body-too-slow", "not-yours", "too-many-requests"})
_INVALID = (InvalidBlock, InvalidCall, InvalidConfig, InvalidPattern, InvalidPayload)


class ApprovalDesk(Protocol):
    """The store of approvals, as far as people answer them."""

    def waiting(self, now_s: float) -> Sequence[PendingApproval]: ...

    def every(self, now_s: float) -> Sequence[Approval]: ...

    def get(self, id: str, now_s: float) -> Approval | None: ...

    def answer(
        self,
        id: str,
        *,
        digest: str,
        yes: bool,
        who: str,
        now_s: float,
        reason: str = "",
        span: str = "",
        person: str = "",
    ) -> AnswerResult: ...

    def grants(self, now_s: float) -> Sequence[Grant]: ...

    def revoke_grant(self, id: str, *, who: str, now_s: float) -> bool: ...


class Api:
    """The application. While `stopping` is true, open streams are closed and other requests finish."""

    def __init__(
        self,
        host: Host,
        tokens: Tokens,
        host_check: HostCheck,
        *,
        adapter: LocalRuleAdapter | RemoteAdapter | EmbeddedAdapter | None = None,
        ban_stores: Callable[[], BanStores | None] = lambda: None,
        default_name: str = "a person",
        account: str = "",
        links: ApprovalLinks | None = None,
        open_metrics: bool = False,
        keep_days: float = 0,
        counts: RequestCounts | None = None,
        codes: LoginCodes | None = None,
        reading: BodyBudget | None = None,
        reload: PolicyReload | None = None,
        stopping: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time,
        routes: Sequence[Route] = ROUTES,
    ) -> None:
        self.host, self.adapter, self.default_name, self.clock = host, adapter, default_name, clock
        # Watches the configuration; None where the settings were given by a program.
        self.reload = reload
        # The person that the shared token stands for: however many know it, they count as one.
        self._account = account
        self.links = links or ApprovalLinks(lambda: self.token, tokens.own_token)
        # Opened for each question: another process makes the file, and settings that cannot be used are shown as such.
        self.ban_stores = ban_stores
        self.counts = counts or RequestCounts()
        # Open metrics are a route without rights, not a caller with more of them.
        self.routes = tuple(
            replace(route, who=Caller.WITHOUT_TOKEN) if open_metrics and route.path == "/metrics" else route
            for route in routes
        )
        self._tokens, self._host_check, self._open_metrics = tokens, host_check, open_metrics
        self._body_budget = reading or BodyBudget()
        self.codes = codes or LoginCodes(None)
        self.wrong_codes = WrongCodes()
        self._keep_days = keep_days
        self._table = RouteTable(self.routes)
        # Stores wait for disk and locks, so more threads would only wait as well.
        self._store_pool = WorkerPool(16, max_jobs=2_048)
        # Large bodies one after another: the JSON parser blocks every other thread while it reads one.
        self._large_body_pool = WorkerPool(1, max_jobs=256)
        self.events = EventStream(self, stopping=stopping)

    @property
    def token(self) -> str:
        """Return the person's current token; raise a Problem where there is none."""
        try:
            return self._tokens.token(Caller.PERSON)
        except KeyError:
            raise Problem(503, "unavailable", "the token cannot be read now") from None

    @property
    def approval_desk(self) -> ApprovalDesk:
        """Return the store of approvals; raise a Problem where there is none."""
        approvals: Any = self.host.gate.approvals
        if approvals is None:
            raise Problem(503, "no-approvals", "nothing is kept for people to answer here")
        return approvals  # type: ignore[no-any-return]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        tasks: list[asyncio.Task[None]] = []
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                # Open the journal now, not at the first ruling; if that fails, rulings and /readyz say so.
                await self.run_heavy(partial(journal_proofs.journal_state, self.host.gate))
                tasks = [
                    asyncio.create_task(self.counts.write_regularly()),
                    asyncio.create_task(self._prune_regularly()),
                ]
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                for task in tasks:
                    task.cancel()
                self.counts.write()
                await self.events.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _prune_regularly(self) -> None:
        """Delete old sessions once an hour, where `keep_days` is set."""
        while self._keep_days > 0:
            await asyncio.sleep(PRUNE_INTERVAL_S)
            # After a store failure, try again in an hour.
            with suppress(LockgateError, Problem):
                await self.run_heavy(partial(self.host.prune, self._keep_days))

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = perf_counter()
        route: Route | None = None
        request: Request | None = None
        signed = self._tokens.signed_question(scope)
        unread = True
        answer: Answer | Stream
        try:
            # 1. Host and 2. Origin.
            self._host_check.check(scope)
            raw = scope.get("raw_path") or scope["path"].encode("utf-8")
            # 3. Token.
            who = self._identify_caller(scope, raw, signed)
            # 4. Route.
            route, params = self._table.find(scope["method"], raw)
            given = bearer_token(scope)
            self._refuse_unless_allowed(route, who, given)
            query = route.read_query(scope.get("query_string", b""))
            request = Request(params, query, who, address=client_address(scope))
            request.person, request.named = self._person_of(who, given)
            request.ends = (scope.get("client"), scope.get("server"))
            request.counts = lambda: self._still_counts(given, who)
            # 5. Body.
            if route.body is not None and not await self._read_request_body(route, request, scope, receive, signed):
                return
            unread = False
            # 6. Work.
            answer = await self._run_handler(route, request)
        except Problem as problem:
            answer = problem.answer
            self.counts.count_refusal(problem.code)
            if request is not None and route is not None and route.takes_in and problem.code not in _RETRIED_CODES:
                await self._mark_context_unknown(request)
            answer = _refusal_in_place(answer, route, request, signed)
        except Exception as error:  # noqa: BLE001 - the caller hears that there is no ruling
            # Not the error's message, which may quote the request.
            LOG.error("a request failed: route=%s error=%s", route.path if route else "", _place_of(error))
            answer = Problem(500, "internal", "this is a bug in lockgate: nothing follows from it").answer
            self.counts.count_refusal("internal")
            answer = _refusal_in_place(answer, route, request, signed)
            if request is not None and route is not None and route.takes_in:
                await self._mark_context_unknown(request)
        finally:
            if request is not None:
                self._body_budget.release(request.held)
        # 7. Answer.
        status = answer.status if isinstance(answer, Answer) else 200
        self.counts.count_answer(route, status, perf_counter() - began)
        if isinstance(answer, Stream):
            await self._send_stream(answer, receive, send)
        else:
            close = unread and scope["method"] not in ("GET", "HEAD")
            await _send(answer, send, signed, close=close)

    def _person_of(self, who: Caller, given: bytes | None) -> tuple[str, bool]:
        """Return the person that the token stands for, and whether it is that person's own."""
        if who is not Caller.PERSON or given is None:
            return "", False
        own = self._tokens.person_of(given)
        return own or self._account, bool(own)

    def _refuse_unless_allowed(self, route: Route, who: Caller, given: bytes | None) -> None:
        if who >= route.who:
            return
        if who is not Caller.WITHOUT_TOKEN:
            raise Problem(
                403,
                "needs-a-person",
                "an agent's token cannot do this",
                hint="`lockgate token` prints the one that can",
            )
        # `who` stays the least of all callers: a handler gives a reading key no rights but to be answered.
        if not (route.method == "GET" and route.path.startswith("/v1/") and is_reading_key(self, given)):
            raise Problem(
                403,
                "reading-only",
                "a reading key only reads",
                hint="`lockgate token` prints what can change something",
            )

    def _still_counts(self, given: bytes | None, who: Caller) -> bool:
        if who is Caller.WITHOUT_TOKEN:
            return is_reading_key(self, given)
        return given is not None and self._tokens.caller_of(given) is who

    def _identify_caller(self, scope: Scope, path: bytes, signed: SignedQuestion | None) -> Caller:
        if signed is not None:
            return Caller.AGENT
        given = bearer_token(scope)
        who = None if given is None else self._tokens.caller_of(given)
        if who is not None:
            return who
        if is_reading_key(self, given):
            return Caller.WITHOUT_TOKEN
        is_open = path == _LOGIN_PATH or (self._open_metrics and path == b"/metrics")
        if not is_open and any(path == each or path.startswith(each + b"/") for each in _GUARDED):
            raise Problem(
                401,
                "no-token",
                "this takes a token: Authorization: Bearer …",
                hint="`lockgate token` prints it",
                headers=((b"www-authenticate", b"Bearer"),),
            )
        return Caller.WITHOUT_TOKEN

    async def _read_request_body(
        self, route: Route, request: Request, scope: Scope, receive: Receive, signed: SignedQuestion | None
    ) -> bool:
        """Read the body into the request; return whether it arrived whole."""
        given: dict[str, str] = {}
        for name, value in scope["headers"]:
            # Handlers do not need the token.
            if name != b"authorization":
                given[name.decode("latin-1")] = value.decode("latin-1")
        if given.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
            raise Problem(415, "encoded-body", "a compressed body is not read")
        length = given.get("content-length", "")
        if length.isdigit() and int(length[:20]) > route.most:
            raise Problem(413, "body-too-large", f"the body has more than {route.most:,} bytes")
        data = await self._body_budget.read(receive, route.most)
        if data is None:
            return False
        request.held = len(data)
        if signed is not None and sha256(data).hexdigest() != signed.digest:
            raise Problem(401, "not-signed", "this body is not the one that was signed")
        # Any page can send a form but not JSON: require the content type even where the body would parse.
        kind = given.get("content-type", "").partition(";")[0].strip().lower()
        if kind != JSON and (data or kind):
            raise Problem(415, "not-json", f"the body must be {JSON}", hint=f"content-type: {JSON}")
        request.headers = given
        if route.raw:
            request.data = data
            return True
        read = partial(_read_body, route, data)
        request.body = read() if len(data) < _SMALL else await self._off_loop(read, self._large_body_pool)
        return True

    async def _mark_context_unknown(self, request: Request) -> None:
        """Mark the context unknown: the agent may have read the refused text, and an attacker may have wanted that."""
        session = request.params["session"]

        def doubt() -> None:
            # A store that fails does not say whose the session is: then it is marked.
            with suppress(LockgateError):
                agent_access.require_same_account(self.host, request, session)
            self.host.mark_context_unknown(session)

        # An invalid session id is never ruled on, and another account's session is not the caller's to mark.
        with suppress(InvalidCall, Problem):
            try:
                await self._off_loop(doubt)
            except Problem:
                # The pool is full: mark it here, blocking the loop, rather than lose the mark.
                doubt()

    async def _run_handler(self, route: Route, request: Request) -> Answer | Stream:
        # A ruling's record names the trace that its request belongs to.
        REQUEST_TRACE.set(parse_traceparent(request.headers.get("traceparent", "")))
        try:
            if iscoroutinefunction(route.run):
                return _answer_from_value(route, await route.run(self, request))
            # Agents take turns: one that asks a lot delays and displaces itself, and never a person on its machine.
            session = request.params.get("session") or request.body.get("id", "")
            client = f"{request.who.name} {request.address}/{session}"
            request.until_s = monotonic() + MAX_WAIT_S
            work = partial(copy_context().run, lambda: _answer_from_value(route, route.run(self, request)))
            async with asyncio.timeout(route.limit_s):
                done: Answer | Stream = await self._store_pool.run_async(work, client)
            return done
        except TimeoutError:
            raise busy_problem() from None
        except (Full, SessionsBusy) as error:
            raise busy_problem(by_caller=error.by_caller) from None
        except _INVALID as error:
            raise Problem(422, "invalid", error.message, hint=error.hint) from None
        except JournalUnavailable as error:
            raise Problem(503, "journal-unavailable", error.message, hint=error.hint) from None
        except LockgateError as error:
            LOG.error("a store failed: route=%s error=%s", route.path, type(error).__name__)
            raise Problem(503, "unavailable", error.message, hint=error.hint) from None

    async def _off_loop(self, work: Callable[[], Any], lane: WorkerPool | None = None) -> Any:
        try:
            return await (lane or self._store_pool).run_async(partial(copy_context().run, work))
        except Full:
            raise busy_problem() from None

    async def run_heavy(self, work: Callable[[], Any]) -> Any:
        """Run `work` in a thread and return its result."""
        return await self._off_loop(work)

    async def _send_stream(self, stream: Stream, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", stream.kind.encode("ascii")), (b"cache-control", b"no-store"), *HEADERS]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        left = asyncio.ensure_future(_wait_for_disconnect(receive))
        try:
            while True:
                part = asyncio.ensure_future(anext(stream.parts, b""))
                await asyncio.wait({part, left}, return_when=asyncio.FIRST_COMPLETED)
                if not part.done() or not part.result():
                    part.cancel()
                    await asyncio.wait({part})
                    break
                await send({"type": "http.response.body", "body": part.result(), "more_body": True})
            if not left.done():
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            left.cancel()
            await stream.parts.aclose()


def _refusal_in_place(
    answer: Answer, route: Route | None, request: Request | None, signed: SignedQuestion | None
) -> Answer:
    """Return what is said in place of an error to a client that would take the error for a yes."""
    if route is None or route.refusal is None or request is None or signed is not None or answer.status == 401:
        return answer
    return Answer(json_bytes(route.refusal(f"status {answer.status}")))


def _place_of(error: BaseException) -> str:
    """Return an error's type and where it was raised, without its message."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = f" at {basename(place.tb_frame.f_code.co_filename)}:{place.tb_lineno}" if place is not None else ""
    return f"{type(error).__name__}{where}"


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _read_body(route: Route, data: bytes) -> Mapping[str, Any]:
    schema = route.body or {}
    body = read_object(data, [name for name, each in schema.get("properties", {}).items() if HALVES in each])
    bad = find_misfit(body, schema)
    if bad:
        raise Problem(422, "bad-body", bad, hint="/docs shows what this takes")
    return body


def _answer_from_value(route: Route, value: object) -> Answer | Stream:
    if isinstance(value, Answer | Stream):
        return value
    return Answer(json_bytes(value), route.status)


async def _send(answer: Answer, send: Send, signed: SignedQuestion | None, *, close: bool) -> None:
    named = {name for name, _ in answer.headers}
    headers = [
        (b"content-type", answer.kind.encode("ascii")),
        (b"content-length", b"%d" % len(answer.body)),
        *HEADERS,
        *answer.headers,
        *([] if signed is None else [signed.proof_of(answer.status, answer.body)]),
        *([] if b"cache-control" in named else [(b"cache-control", b"no-store")]),
        # The unread rest of a request must not be taken for the next one.
        *([(b"connection", b"close")] if close else []),
    ]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body, "more_body": False})
