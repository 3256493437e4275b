"""The abuse gate: a plain ASGI middleware in front of an LLM application.

The steps of a request, in this order:

1. Head.      Path, query and headers over the limit: 431. A body that two readers could read differently: 400, 415.
2. Standing.  Before the body is read. A quarantined client: 429. A slowed network: a short delay, or 429.
3. Body.      Counted and timed as it arrives: 413, 408. The application gets it untouched.
4. Parse.     A body that can be read in two ways (two equal keys, too deep nesting) is refused.
5. Lock.      An execute-locked client that offers or calls tools: 403. A client banned since step 2: 429.
6. Verify.    Read attachments, trace an agent's calls to their origins, ask `fetch_verdict`. A verifier that is down
              makes the request unclear. Built-in rules that had no time: 503.
7. Act.       Safe: on to the application. Unsafe: a strike, a record, and 403 or 422. Unclear requests and unreadable
              attachments: as the settings say.

Headers, logs and metrics carry only values of closed lists, or an incident's id. Nothing here blocks the event loop:
bodies over a few kilobytes are parsed in a thread, and every call to a verifier has a deadline.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache, partial
from hmac import new as new_hmac
from inspect import iscoroutinefunction
from os import urandom
from time import perf_counter, time
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from lockgate.abuse_gate import defaults
from lockgate.abuse_gate.body_pool import BodyPool, HeldBody
from lockgate.abuse_gate.identity import (
    MAX_REMEMBERED,
    AmbiguousCredential,
    Identity,
    Principal,
    Unidentified,
    customer_key,
)
from lockgate.abuse_gate.request.joined_ids import ids_from_request
from lockgate.abuse_gate.request.payload_from_body import RefusedRequest, normalize
from lockgate.abuse_gate.request.tool_use import may_use_tools
from lockgate.abuse_gate.responses import (
    DECISIONS,
    MODES,
    Stop,
    guardrail_headers,
    mode_from_standing,
    replay_body,
    send_with_headers,
    strip_guardrail_headers,
)
from lockgate.abuse_gate.shared_strikes import ClientStanding, Ladder
from lockgate.abuse_gate.tenants import TenantOf, Tenants
from lockgate.abuse_gate.verdicts import FetchVerdict, ParsedRequest, Request, RequestJudge, run_in_pool
from lockgate.core.errors import InvalidConfig, LockgateError
from lockgate.core.questions import NoAnswerReason, Verdict
from lockgate.core.requests.combined_verdict import PARTLY_READ, Assessment
from lockgate.core.requests.strikes import BAN_MODES, NETWORK, Standing, Subject, incident_id
from lockgate.gate.gate import Gate
from lockgate.journal.record import SUBJECT, label
from lockgate.journal.recorder import JournalWriter, record_assessment
from lockgate.runtime.asgi import App, BodyLimits, Message, Receive, Scope, Send
from lockgate.runtime.failures import report_failure
from lockgate.runtime.metrics import METRICS, Metrics
from lockgate.runtime.worker_pool import WorkerPool
from lockgate.settings.abuse_gate import AbuseSettings
from lockgate.verifiers.adapters import LocalRuleAdapter, RemoteAdapter, VerifierAdapter

if TYPE_CHECKING:
    from lockgate.abuse_gate.documents.inspector import Inspector

__all__ = ["DECISIONS", "MODES", "AbuseGateMiddleware", "FetchVerdict", "Request"]

LOG = logging.getLogger("lockgate.abuse_gate")

# An older standing is asked for again: other workers may have banned the client meanwhile.
STALE_S = 0.25
_BUSY_REASONS = (NoAnswerReason.BUSY.value, NoAnswerReason.DEADLINE.value)
_DIGEST_KEY = urandom(32)
_MAX_EXPLAINED = 64

T = TypeVar("T")


class _Client:
    """The sender of one request: its subjects, and its latest known standing."""

    __slots__ = ("asked_at", "checked", "standing", "subjects")

    def __init__(self, subjects: tuple[Subject, ...], checked: tuple[Subject, ...], standing: ClientStanding) -> None:
        # Strikes count against the subjects; those that are checked may be more.
        self.subjects, self.checked, self.standing = subjects, checked, standing
        self.asked_at = perf_counter()


class AbuseGateMiddleware:
    """An ASGI middleware; parts that are not given come from the environment.

    It stands inside the application's authentication, so that it knows the user. `fetch_verdict`, a coroutine function
    of a Request, replaces the adapter. A verdict is recorded before the gate acts on it, unless `journal` is False.
    """

    def __init__(
        self,
        app: App,
        *,
        settings: AbuseSettings | None = None,
        adapter: VerifierAdapter | None = None,
        ladder: Ladder | None = None,
        identity: Identity | None = None,
        principal: Principal | None = None,
        tenant: TenantOf | None = None,
        fetch_verdict: FetchVerdict | None = None,
        journal: JournalWriter | Literal[False] | None = None,
        gate: Gate | None = None,
        inspector: Inspector | None = None,
        metrics: Metrics = METRICS,
    ) -> None:
        if fetch_verdict is not None and not _is_coroutine_function(fetch_verdict):
            raise InvalidConfig(
                "fetch_verdict must be a coroutine function: a plain one would block the whole server",
                hint="write `async def fetch_verdict(request)`, and wait in it with `await`",
            )
        settings, recorder, self._gate = defaults.configured_parts(settings, journal, gate)
        self._app, self._settings, self._metrics, self._journal = app, settings, metrics, recorder
        self._adapter = adapter or (defaults.adapter_from_environment() if fetch_verdict is None else None)
        self._identity = defaults.checked_identity(settings, identity, principal)
        self._tenants = Tenants(settings, tenant, lambda scope: self._identity.trusts(scope))
        metrics.list_tenants(each.name for each in settings.tenants)
        self._client_key = lru_cache(MAX_REMEMBERED)(self._fair_share_key)
        self._ladder = ladder or defaults.ladder_from_settings(settings, metrics)
        # A ladder of the application may use other sources than our own tables, so it is asked each time.
        self._has_custom_ladder = type(self._ladder) is not Ladder
        # Compile and load now what takes up to seconds, which the first request does not have.
        self._gate.scanner.make_ready()
        if isinstance(self._adapter, RemoteAdapter):
            self._tenants.refuse_unreachable(self._adapter.tenants)
            if not self._adapter.has_custom_redactions:
                self._tenants.refuse_missing_patterns()
        if isinstance(self._adapter, LocalRuleAdapter | RemoteAdapter):
            self._adapter.make_ready()
        self._inspector = inspector or defaults.inspector_from_settings(settings, self._gate)
        # The gate closes only the parts that it has made.
        self._to_close = [
            part for part, given in ((self._ladder, ladder), (self._inspector, inspector)) if given is None
        ]
        self._judge = RequestJudge(
            settings,
            self._gate,
            self._inspector,
            tenants=self._tenants,
            fetch=fetch_verdict or self.fetch_verdict,
            own=self._builtin_adapter(fetch_verdict),
            failed=self._report_failure,
        )
        self._bodies = BodyPool(BodyLimits(settings.max_body_bytes, settings.read_idle_s, settings.read_total_s))
        # An application's own adapter or journal may block for as long as it likes.
        self._adapter_pool, self._journal_pool = WorkerPool(32, max_jobs=256), WorkerPool(8, max_jobs=1024)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._explained: set[str] = set()
        if not settings.enabled:
            LOG.warning("the abuse gate is switched off: every request passes unseen")

    def _builtin_adapter(self, fetch_verdict: FetchVerdict | None) -> LocalRuleAdapter | RemoteAdapter | None:
        """Return the built-in adapter; None if `fetch_verdict`, a subclass or another adapter takes its place."""
        if fetch_verdict is not None or type(self).fetch_verdict is not AbuseGateMiddleware.fetch_verdict:
            return None
        return self._adapter if isinstance(self._adapter, LocalRuleAdapter | RemoteAdapter) else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check an HTTP request and pass it on or refuse it; refuse websockets unless the settings allow them."""
        if scope["type"] != "http" or not self._settings.enabled:
            await self._pass_other_scope(scope, receive, send)
            return
        began = perf_counter()
        body = HeldBody()
        try:
            try:
                decision, standing = await self._admit(scope, receive, body)
            except Stop as stop:
                await self._refuse(stop, scope, send, began, unread=not body.whole, tenant=body.tenant)
                return
            if not body.whole:
                # The client has left in the middle of its body.
                self._count_outcome("left", began, body.tenant)
                return
            self._count_outcome("allowed" if decision == "allow" else "unclear", began, body.tenant)
            headers = guardrail_headers(decision, mode_from_standing(standing))
            replay = replay_body(body.data, receive, partial(self._bodies.release, body))
            body.data = b""
            await self._app(strip_guardrail_headers(scope), replay, send_with_headers(send, headers))
        finally:
            self._bodies.release(body)

    async def fetch_verdict(self, request: Request) -> Verdict | Assessment:
        """Return the adapter's verdict. An adapter that has only `assess` is asked in a thread."""
        adapter = cast(Any, self._adapter)
        if isinstance(adapter, LocalRuleAdapter | RemoteAdapter):
            return await adapter.examine_async(request.payload, tenant=request.tenant, client=request.whom)
        work = partial(adapter.assess, request.payload)
        timeout_s = self._settings.verdict_timeout_s
        return cast(Verdict, await run_in_pool(self._adapter_pool, work, timeout_s, request.whom))

    async def close(self) -> None:
        """Close the parts that this gate has made. Call it where no lifespan reaches the gate, as under `app.mount`."""
        for part in self._to_close:
            try:
                await part.close()
            except Exception as error:  # noqa: BLE001 - the edge to a part that closes: the others must still close
                report_failure("abuse_gate.close", error)

    async def _pass_other_scope(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind == "lifespan":
            await self._app(scope, receive, self._close_on_shutdown(send))
        elif not self._settings.enabled:
            await self._app(scope, receive, send)
        elif kind == "websocket":
            await self._handle_websocket(scope, receive, send)
        else:
            raise LockgateError("the abuse gate handles http, websocket and lifespan only")

    async def _admit(self, scope: Scope, receive: Receive, body: HeldBody) -> tuple[str, ClientStanding]:
        """Take steps 1 to 7; return the decision, `allow` or `unclear`, or raise Stop."""
        # 1. Head.
        content_type, length = self._read_head(scope)
        # 2. Standing.
        body.tenant, subjects = self._identify(scope)
        checked = self._with_locked(scope, body.tenant, subjects)
        standing = await self._check_standing(checked)
        # Once it is locked, what such a client does with a proxy's header counts as well.
        client = _Client(checked if standing.standing in BAN_MODES else subjects, checked, standing)
        try:
            # 3. Body.
            if length > self._settings.max_body_bytes:
                raise Stop("body-too-large")
            body.network = subjects[-1].key
            await self._bodies.read(receive, body)
            if not body.whole:
                return "", client.standing
            # 4. Parse.
            case = await self._parse(scope, content_type, body, subjects)
            # 5. Lock. The client may have been banned while it was still sending its body.
            await self._check_standing_again(client, case)
            # 6. Verify.
            assessment, case, complete = await self._verify(case)
            if assessment.verdict != "unsafe":
                await self._check_standing_again(client, case)
            # 7. Act.
            return await self._act_on(assessment, case, client, unread=not complete), client.standing
        except Stop as stop:
            stop.judged = stop.judged or client.standing
            raise

    def _fair_share_key(self, subjects: tuple[Subject, ...]) -> str:
        """Return the key by which clients take turns: the principal's, if the application has verified it.

        A client could send a new made-up key with each request. So an unverified client takes turns within its network,
        and that network within its customer's networks.
        """
        if subjects[0].is_authenticated and self._identity.is_verified:
            return subjects[0].key
        network = subjects[-1].key
        customer = customer_key(network)
        return f"{customer}/{network.removeprefix(customer)}{subjects[0].key if len(subjects) > 1 else ''}"

    # --- 1. Head

    def _read_head(self, scope: Scope) -> tuple[str, int]:
        """Return the content type and the announced length, which only serves to refuse early."""
        size = len(scope["path"]) + len(scope.get("query_string", b""))
        content_type: bytes | None = None
        length = 0
        for name, value in scope["headers"]:
            size += len(name) + len(value) + 4
            name = name.lower()
            if name == b"content-type":
                if content_type is not None and content_type != value:
                    # Frameworks differ on which one counts: we would read one, and the application the other.
                    raise Stop("two-content-types")
                content_type = value
            elif name == b"content-encoding" and value.strip().lower() not in (b"", b"identity"):
                raise Stop("encoded-body")
            elif name == b"content-length" and value.isdigit():
                length = max(length, int(value[:20]))
        if size > self._settings.max_header_bytes:
            raise Stop("headers-too-large")
        return (content_type or b"").decode("latin-1"), length

    # --- 2. Standing

    def _identify(self, scope: Scope) -> tuple[str, tuple[Subject, ...]]:
        """Return the tenant's name, and the subjects; raise Stop if either cannot be told."""
        try:
            tenant = self._tenants.find(scope)
            subjects = self._identity.subjects(scope, tenant) if tenant else self._identity.subjects(scope)
            return tenant, tuple(subjects)
        except Stop:
            raise
        except AmbiguousCredential:
            raise Stop("bad-credential") from None
        except Exception as error:  # noqa: BLE001 - the edge to the application's code: no identity, no way past a ban
            self._report_failure("identity", error)
            self._log_identity_error(error)
            raise Stop("unavailable") from None

    def _with_locked(self, scope: Scope, tenant: str, subjects: tuple[Subject, ...]) -> tuple[Subject, ...]:
        """Return the subjects whose standing counts: with the one that a client of no name would be without headers."""
        if len(subjects) > 1:
            return subjects
        other = self._identity.subject_without_headers(scope, tenant)
        return subjects if other is None else (other, *subjects)

    async def _check_standing(self, subjects: tuple[Subject, ...]) -> ClientStanding:
        """Return the client's standing, after its delay if it is slowed; raise Stop if it is refused."""
        standing = await self._ask_ladder(self._ladder.standing, subjects)
        if standing.standing is Standing.FULL_QUARANTINE:
            raise Stop("quarantined", judged=standing)
        delayed = standing.delay_s > 0 or self._has_custom_ladder
        if delayed and not await self._ask_ladder(self._ladder.hold, subjects, standing):
            raise Stop("slowed", judged=standing)
        return standing

    async def _check_standing_again(self, client: _Client, case: ParsedRequest) -> None:
        """Update the client's standing; raise Stop if it was banned meanwhile, or is locked and may use tools."""
        stale = perf_counter() - client.asked_at > STALE_S
        normal = client.standing.standing is Standing.NORMAL
        if normal and not (stale or self._has_custom_ladder or self._ladder.has_bans):
            return
        client.standing = await self._ask_ladder(self._newer_standing, client, stale)
        if client.standing.standing is Standing.FULL_QUARANTINE:
            raise Stop("quarantined", judged=client.standing)
        if client.standing.standing is Standing.EXECUTE_LOCKED and await self._uses_tools(case):
            raise Stop("tools-locked", judged=client.standing)

    async def _newer_standing(self, client: _Client, stale: bool) -> ClientStanding:  # noqa: FBT001
        if stale:
            return await self._ladder.standing(client.checked)
        return self._ladder.standing_from_memory(client.checked, client.standing)

    async def _ask_ladder(self, ask: Callable[..., Awaitable[T]], *about: object) -> T:
        """Return the ladder's answer; raise Stop if the ladder fails: a banned client must not pass."""
        try:
            answer = await ask(*about)
            if not isinstance(answer, ClientStanding | bool):
                raise TypeError("a ladder answers with a standing, or whether the client waited")
            return answer
        except Exception as error:  # noqa: BLE001 - the edge to a ladder, which may be the application's own
            self._report_failure("ladder", error)
            raise Stop("unavailable") from None

    async def _uses_tools(self, case: ParsedRequest) -> bool:
        scope, data = case.scope, case.body
        work = partial(may_use_tools, data, case.content_type, scope["path"], scope.get("query_string", b""))
        return await self._judge.run_bounded(work, len(data), case.whom)

    # --- 4. Parse

    async def _parse(
        self, scope: Scope, content_type: str, body: HeldBody, subjects: tuple[Subject, ...]
    ) -> ParsedRequest:
        whom, data = self._client_key(subjects), body.data
        work = partial(normalize, data, content_type, path=scope["path"], query=scope.get("query_string", b""))
        found = await self._judge.run_bounded(work, len(data), whom)
        if isinstance(found, RefusedRequest):
            raise Stop(found.reason, status=found.status)
        return ParsedRequest(scope, content_type, data, found, whom, tenant=body.tenant)

    # --- 6. Verify

    async def _verify(self, case: ParsedRequest) -> tuple[Assessment, ParsedRequest, bool]:
        """Return the assessment, the request with its attachments, and whether all of them were read."""
        ends = perf_counter() + self._settings.verdict_timeout_s
        complete = True
        if case.found.uploads:
            inspected, complete = await self._judge.inspect_uploads(case.found, case.whom, ends)
            case = case._replace(inspected=inspected)
        assessment = await self._judge.assess(case, ends)
        if not assessment.read:
            # The built-in rules had no time. A client that overloads them must not get past them.
            self._report_failure("verdict", TimeoutError())
            raise Stop("busy" if assessment.reason in _BUSY_REASONS else "unavailable")
        if not complete and assessment.verdict == "safe":
            assessment = assessment._replace(verdict="unclear", reason=PARTLY_READ)
        return assessment, case, complete

    # --- 7. Act

    async def _act_on(self, assessment: Assessment, case: ParsedRequest, client: _Client, *, unread: bool) -> str:
        """Record the verdict; return `allow` or `unclear`, or raise Stop."""
        if assessment.verdict == "unsafe":
            # Shielded: a client that leaves at this moment must not escape its strike.
            task = asyncio.ensure_future(self._record_unsafe(assessment, case, client))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            raise await asyncio.shield(task)
        safe = assessment.verdict == "safe"
        blocks_unclear = self._tenants.policy(case.tenant).on_unclear == "block"
        reason = "unclear" if blocks_unclear and not safe else ""
        if unread and self._settings.on_unread == "block":
            reason = "artifact-unread"
        incident = _new_incident_id() if reason else ""
        acted = f"{reason}:{incident}" if reason else "allow" if safe else "unclear"
        sender = {} if acted == "allow" else _sender_fields(client.subjects, client.standing)
        recorded = await self._record_verdict(assessment, case, acted, sender)
        if reason:
            raise Stop(reason, incident=incident if recorded else "")
        # A verdict that is not in the journal counts as unclear.
        if safe and recorded:
            return "allow"
        if blocks_unclear:
            raise Stop("unclear")
        return "unclear"

    async def _record_unsafe(self, assessment: Assessment, case: ParsedRequest, client: _Client) -> Stop:
        """Count the strike, record the verdict, log it, and return the answer."""
        incident, before = _new_incident_id(), client.standing
        subjects, standing = await self._count_strike(case, client)
        free = (Standing.NORMAL, Standing.SLOWED)
        was_and_is_free = before.standing in free and standing.standing in free
        clarifies = self._tenants.policy(case.tenant).override_mode == "clarify"
        reason = "clarify" if clarifies and was_and_is_free else "unsafe"
        sender = _sender_fields(client.subjects, standing)
        recorded = await self._record_verdict(assessment, case, f"{reason}:{incident}", sender)
        LOG.warning(
            "unsafe request: incident=%s client=%s reason=%s by=%s rules=%s mode=%s strikes=%d counted=%s",
            incident,
            # The keyed hash that `lockgate gate bans` lists.
            sender["subject"],
            label(assessment.reason),
            label(assessment.provider),
            ",".join(map(label, assessment.rules)) or "-",
            mode_from_standing(standing) or "-",
            standing.strikes,
            ",".join(subject.kind for subject in subjects) or "no",
        )
        # An incident that is not in the journal is not named: an operator could not look it up. The log names it.
        return Stop(reason, judged=standing, incident=incident if recorded else "")

    async def _count_strike(self, case: ParsedRequest, client: _Client) -> tuple[tuple[Subject, ...], ClientStanding]:
        """Return the subjects that the strike counts against, and the standing after it."""
        subjects = client.subjects
        if await self._judge.is_unsafe_only_outside(case):
            subjects = tuple(subject for subject in subjects if subject.kind == NETWORK)
        if not subjects:
            return subjects, client.standing
        try:
            return subjects, await self._ask_ladder(self._ladder.record_unsafe, subjects)
        except Stop:
            # The request is refused in any case.
            return subjects, client.standing

    async def _record_verdict(
        self, assessment: Assessment, case: ParsedRequest, acted: str, sender: Mapping[str, object]
    ) -> bool:
        """Return whether the journal has the verdict; True where there is no journal.

        `sender` is what it says about the client: nothing about one whose request passed as safe.
        """
        if self._journal is None:
            return True
        # Keyed, so that a reader of the journal cannot find a short body by trying.
        digest = assessment.digest or new_hmac(_DIGEST_KEY, case.body, "sha256").hexdigest()
        work = partial(
            record_assessment,
            self._journal,
            digest,
            assessment.verdict,
            acted,
            reason=assessment.reason,
            by=assessment.provider,
            rules=assessment.rules,
            more={**ids_from_request(case.scope["headers"], case.found.conversation), **sender},
            # A record of a request that passed survives this process; every other one survives a power cut too.
            durable=acted != "allow",
        )
        try:
            await run_in_pool(self._journal_pool, work, self._settings.verdict_timeout_s, case.whom)
        except Exception as error:  # noqa: BLE001 - the edge to a journal: a record that failed is not recorded
            self._report_failure("journal", error)
            return False
        return True

    # --- websocket, lifespan

    async def _handle_websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = perf_counter()
        tenant = ""
        try:
            self._read_head(scope)
            tenant, subjects = self._identify(scope)
            standing = await self._check_standing(self._with_locked(scope, tenant, subjects))
            # The gate does not read the messages, so it would not see tools in them.
            if standing.standing is Standing.EXECUTE_LOCKED:
                raise Stop("tools-locked", judged=standing)
            if self._settings.websockets != "unsafe_allow":
                raise Stop("websocket", judged=standing)
        except Stop as stop:
            await self._refuse(stop, scope, send, began, unread=False, tenant=tenant)
            return
        self._count_outcome("unclear", began, tenant)
        headers = guardrail_headers("unclear", mode_from_standing(standing))
        await self._app(strip_guardrail_headers(scope), receive, send_with_headers(send, headers))

    def _close_on_shutdown(self, send: Send) -> Send:
        async def closing(message: Message) -> None:
            if message["type"].startswith("lifespan.shutdown."):
                await self.close()
            await send(message)

        return closing

    async def _refuse(self, stop: Stop, scope: Scope, send: Send, began: float, *, unread: bool, tenant: str) -> None:
        self._count_outcome(stop.told.outcome, began, tenant)
        self._metrics.gate_refusals.add(stop.reason)
        if scope["type"] == "websocket" and "websocket.http.response" not in (scope.get("extensions") or {}):
            await send({"type": "websocket.close", "code": 1008, "reason": ""})
            return
        for message in stop.messages(scope, unread=unread):
            await send(message)

    def _count_outcome(self, outcome: str, began: float, tenant: str) -> None:
        self._metrics.gated.add(outcome)
        if self._tenants.enabled:
            self._metrics.gate_tenants.add(tenant, outcome)
        self._metrics.gate_seconds.observe(perf_counter() - began, outcome)

    def _report_failure(self, part: str, error: Exception) -> None:
        self._metrics.gate_errors.add(part)
        report_failure(f"abuse_gate.{part}", error)

    def _log_identity_error(self, error: Exception) -> None:
        """Log once, in our own words, what is wrong with the application's `principal` function."""
        if isinstance(error, Unidentified) and error.message not in self._explained:
            if len(self._explained) < _MAX_EXPLAINED:
                self._explained.add(error.message)
                LOG.error("%s; %s", error.message, error.hint)


def _sender_fields(subjects: tuple[Subject, ...], standing: ClientStanding) -> dict[str, object]:
    """Return what a record says about a client: its keyed hash, as `lockgate gate bans` lists it, and its standing."""
    return {
        "subject": subjects[0].key[:SUBJECT],
        "standing": str(standing.standing),
        "strikes": standing.strikes,
    }


def _new_incident_id() -> str:
    return incident_id(int(time() * 1000), urandom(10))


def _is_coroutine_function(function: Callable[..., object]) -> bool:
    return iscoroutinefunction(function) or iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004
