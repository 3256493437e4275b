"""The abuse gate: a plain ASGI middleware in front of an LLM application.

What happens to a request, in this order:

1. Head.      More path, query and headers than allowed: 431. A body that others may read otherwise than we: 400, 415.
2. Standing.  Before any of the body is read. Quarantined: 429. Too much from its network: a moment's wait, or 429.
3. Body.      Counted and timed as it arrives: 413, 408. It is kept, and given to the application untouched.
4. Parse.     What cannot be read in one way only (two equal keys, a depth that nobody needs) is refused.
5. Lock.      Tools offered or called by a client that is execute-locked: 403. Banned since step 2: 429.
6. Verify.    Attachments are looked into, an agent's calls are traced to their origins, and `fetch_verdict` is asked.
              A verifier that is down makes a request unclear. Rules of our own that found no time to look: 503.
7. Act.       Safe: on to the application. Unsafe: a strike, a record, and 403 or 422. Unclear, and attachments that
              nobody could read: as the settings say.

Whatever is told, in headers, logs and metrics, is from closed lists, or an incident's id. Nothing here holds up the
loop: what is larger than a few kilobytes is read in a lane, and whoever is asked has a deadline.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, partial
from hmac import new as new_hmac
from inspect import iscoroutinefunction
from os import urandom
from time import perf_counter, time
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from lockgate.abuse_gate import defaults as wiring
from lockgate.abuse_gate.body_reader import BodyPool, HeldBody
from lockgate.abuse_gate.identity import (
    MAX_REMEMBERED,
    AmbiguousCredential,
    Identity,
    Principal,
    Unidentified,
    customer_key,
)
from lockgate.abuse_gate.ladder import GOOD_STANDING, ClientStanding, Ladder
from lockgate.abuse_gate.request.normalize import RefusedRequest, normalize
from lockgate.abuse_gate.request.tool_use import may_use_tools
from lockgate.abuse_gate.responses import (
    DECISIONS,
    MODES,
    App,
    Message,
    Receive,
    Scope,
    Send,
    Stop,
    guardrail_headers,
    mode_from_standing,
    replay_body,
    send_with_headers,
    strip_guardrail_headers,
)
from lockgate.abuse_gate.verdicts import (
    MAX_BYTES_ON_LOOP,
    FetchVerdict,
    ParsedRequest,
    Request,
    RequestJudge,
    run_in_pool,
)
from lockgate.core.errors import InvalidConfig, LockgateError
from lockgate.core.journal.record import label
from lockgate.core.questions import NoAnswerReason, Verdict
from lockgate.core.redaction import redact as redaction
from lockgate.core.requests.assessment import PARTLY_READ, RULES, Assessment
from lockgate.core.requests.incident_ids import incident_id
from lockgate.core.requests.strikes import NETWORK, Standing, Subject
from lockgate.gate.gate import Gate
from lockgate.journal.recorder import JournalWriter, record_assessment
from lockgate.runtime.metrics import METRICS, Metrics
from lockgate.runtime.worker_pool import WorkerPool
from lockgate.settings.abuse_gate import AbuseSettings
from lockgate.verifiers.adapters import LocalRuleAdapter, RemoteAdapter, VerifierAdapter

if TYPE_CHECKING:
    from lockgate.abuse_gate.documents.inspector import Inspector

__all__ = ["DECISIONS", "MODES", "AbuseGateMiddleware", "FetchVerdict", "Request"]

LOG = logging.getLogger("lockgate.abuse_gate")

# A standing that is older than this is asked for again, also of those who share it.
STALE_S = 0.25
_BUSY_REASONS = (NoAnswerReason.BUSY.value, NoAnswerReason.DEADLINE.value)
_DIGEST_KEY = urandom(32)
_NORMAL = Standing.NORMAL
# The headers of nearly every answer.
_ALLOW_HEADERS = guardrail_headers("allow", "")
# What names of headers about the content begin with.
_CONTENT_INITIALS = (b"c", b"C")


class _Sender(NamedTuple):
    """Who sent a request, and how they stand."""

    subjects: tuple[Subject, ...]
    judged: ClientStanding


class AbuseGateMiddleware:
    """`app.add_middleware(AbuseGateMiddleware)` is all: what is not given comes from the environment.

    It stands inside whatever authenticates, so that it knows who asks. `fetch_verdict` replaces the adapter: a
    coroutine function of a Request. With a `journal`, a verdict is in it before anything follows from it.
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
        fetch_verdict: FetchVerdict | None = None,
        journal: JournalWriter | None = None,
        gate: Gate | None = None,
        inspector: Inspector | None = None,
        metrics: Metrics = METRICS,
    ) -> None:
        if fetch_verdict is not None and not _is_coroutine_function(fetch_verdict):
            raise InvalidConfig(
                "fetch_verdict must be a coroutine function: another would hold up the whole server",
                hint="write `async def fetch_verdict(request)`, and wait in it with `await`",
            )
        if settings is None:
            settings, journal, gate = wiring.parts_from_environment(journal, gate)
        self._app, self._settings, self._metrics, self._journal = app, settings, metrics, journal
        self._adapter = adapter or (wiring.adapter_from_environment() if fetch_verdict is None else None)
        self._identity = wiring.checked_identity(settings, identity, principal)
        self._whom = lru_cache(MAX_REMEMBERED)(self._fair_share_key)
        self._ladder = ladder or wiring.ladder_from_settings(settings, metrics)
        # One of somebody's own may know more than ours, and is asked about everything.
        self._ours = type(self._ladder) is Ladder
        self._gate = gate or Gate()
        # The rules are compiled now, and the cues that calls are checked with: that takes seconds, which the first
        # request does not have.
        self._gate.scanner.find_cues(b"")
        if isinstance(self._adapter, RemoteAdapter):
            redaction.make_ready()
        self._inspector = inspector or wiring.inspector_from_settings(settings, self._gate)
        # Those of our own making are ours to close.
        self._closes = [part for part, given in ((self._ladder, ladder), (self._inspector, inspector)) if given is None]
        # Whoever has a class of their own with another `fetch_verdict` has that one asked.
        ours = fetch_verdict is None and type(self).fetch_verdict is AbuseGateMiddleware.fetch_verdict
        own = self._adapter if ours and isinstance(self._adapter, LocalRuleAdapter | RemoteAdapter) else None
        self._verdicts = RequestJudge(
            settings,
            self._gate,
            self._inspector,
            fetch=fetch_verdict or self.fetch_verdict,
            own=own,
            failed=self._report_failure,
        )
        self._bodies = BodyPool(
            max_bytes=settings.max_body_bytes, idle_s=settings.read_idle_s, total_s=settings.read_total_s
        )
        # Adapters and journals of somebody's own may block for as long as they like.
        self._asking, self._recording = WorkerPool(32, max_jobs=256), WorkerPool(8, max_jobs=1024)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._logged: dict[str, float] = {}
        if not settings.enabled:
            LOG.warning("the abuse gate is switched off: every request passes unseen")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not self._settings.enabled:
            await self._pass_other_scope(scope, receive, send)
            return
        # Here and not in a coroutine of its own: whatever the application waits for passes through each there is.
        began = perf_counter()
        body = HeldBody()
        try:
            try:
                decision, judged = await self._admit(scope, receive, body)
            except Stop as stop:
                self._count_outcome(stop.told.outcome, began)
                self._metrics.gate_refusals.add(stop.reason)
                for message in stop.messages(scope, unread=not body.whole):
                    await send(message)
                return
            if not body.whole:
                # The client has left in the middle of its body.
                self._count_outcome("left", began)
                return
            self._count_outcome("allowed" if decision == "allow" else "unclear", began)
            added = (
                _ALLOW_HEADERS
                if decision == "allow" and judged is GOOD_STANDING
                else guardrail_headers(decision, mode_from_standing(judged))
            )
            again = replay_body(body.data, receive, partial(self._bodies.release, body))
            body.data = b""
            await self._app(strip_guardrail_headers(scope), again, send_with_headers(send, added))
        finally:
            self._bodies.release(body)

    async def fetch_verdict(self, request: Request) -> Verdict | Assessment:
        """The adapter's verdict; one that has only `assess` is asked in a thread."""
        adapter = cast(Any, self._adapter)
        if isinstance(adapter, LocalRuleAdapter | RemoteAdapter):
            return await adapter.examine_async(request.payload, client=request.whom)
        work = partial(adapter.assess, request.payload)
        return cast(Verdict, await run_in_pool(self._asking, work, self._settings.verdict_timeout_s, request.whom))

    async def close(self) -> None:
        """Let go of what this gate has made for itself: where no lifespan reaches it, under `app.mount`, call it."""
        for part in self._closes:
            with suppress(Exception):
                await part.close()

    async def _pass_other_scope(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind == "lifespan":
            await self._app(scope, receive, self._close_on_shutdown(send))
        elif not self._settings.enabled:
            await self._app(scope, receive, send)
        elif kind == "websocket":
            await self._handle_websocket(scope, receive, send)
        else:
            raise LockgateError("the abuse gate knows http, websocket and lifespan only")

    async def _admit(self, scope: Scope, receive: Receive, body: HeldBody) -> tuple[str, ClientStanding]:
        """The decision for a request that may pass, `allow` or `unclear`; Stop for any other."""
        # 1. Head.
        content_type, length = self._read_head(scope)
        # 2. Standing.
        subjects = self._identify(scope)
        judged = self._known(subjects) or await self._check_standing(subjects)
        asked_at = perf_counter()
        try:
            # 3. Body.
            if length > self._settings.max_body_bytes:
                raise Stop("body-too-large")
            body.network = subjects[-1].key
            await self._bodies.read(receive, body)
            if not body.whole:
                return "", judged
            # 4. Parse.
            data = body.data
            work = partial(normalize, data, content_type, path=scope["path"], query=scope.get("query_string", b""))
            if len(data) <= MAX_BYTES_ON_LOOP:
                found = self._verdicts.done(work)
            else:
                found = await self._verdicts.run_bounded(work, len(data), self._whom(subjects))
            if isinstance(found, RefusedRequest):
                raise Stop(found.reason, status=found.status)
            # 5. Lock. Whoever holds back the end of a body until they are banned is banned.
            case = None
            # Nobody was waited for since they were judged, so nothing can have happened.
            at_ease = judged is GOOD_STANDING and self._ours and not body.waited and len(data) <= MAX_BYTES_ON_LOOP
            if not at_ease and self._may_have_changed(judged, asked_at):
                case = ParsedRequest(scope, content_type, data, found, self._whom(subjects))
                judged = await self._check_standing_again(subjects, judged, asked_at, case)
            # 6. Verify.
            at_once = self._verdicts.at_once(found)
            if at_ease and at_once is not None and at_once.verdict == "safe" and self._journal is None:
                # Nearly all, and there is nothing else to do.
                return "allow", judged
            whom = self._whom(subjects)
            case = case or ParsedRequest(scope, content_type, data, found, whom)
            ends = perf_counter() + self._settings.verdict_timeout_s
            complete = True
            if found.uploads:
                inspected, complete = await self._verdicts.inspect_uploads(found, whom, ends)
                case = case._replace(inspected=inspected)
            assessment = await self._verdicts.assess(case, ends, at_once)
            if not assessment.read:
                # Nobody's verifier is down: these are our own rules, and whoever keeps them busy must not get past.
                self._report_failure("verdict", TimeoutError())
                raise Stop("busy" if assessment.reason in _BUSY_REASONS else "unavailable")
            if not complete and assessment.verdict == "safe":
                assessment = assessment._replace(verdict="unclear", reason=PARTLY_READ)
            if assessment.verdict != "unsafe" and self._may_have_changed(judged, asked_at):
                judged = await self._check_standing_again(subjects, judged, asked_at, case)
            # 7. Act.
            if assessment.verdict == "safe" and complete and self._journal is None:
                return "allow", judged
            return await self._act_on(assessment, case, _Sender(subjects, judged), unread=not complete), judged
        except Stop as stop:
            stop.judged = stop.judged or judged
            raise

    def _fair_share_key(self, subjects: tuple[Subject, ...]) -> str:
        """Whose turn a request is in lanes: the principal's, where somebody has checked who that is.

        A key that nobody has checked may be made up, a new one for each request. There the network has a turn, and
        everybody in it theirs; and so have the networks of one customer.
        """
        if len(subjects) > 1 and self._identity.is_verified:
            return subjects[0].key
        network = subjects[-1].key
        crowd = customer_key(network)
        return f"{crowd}/{network.removeprefix(crowd)}{subjects[0].key if len(subjects) > 1 else ''}"

    # --- 1 to 3

    def _read_head(self, scope: Scope) -> tuple[str, int]:
        """The content type, and the length that the client announces; nobody relies on the latter."""
        size = len(scope["path"]) + len(scope.get("query_string", b""))
        content_type: bytes | None = None
        length = 0
        for name, value in scope["headers"]:
            size += len(name) + len(value) + 4
            if name[:1] not in _CONTENT_INITIALS:
                continue
            name = name.lower()
            if name == b"content-type":
                if content_type is not None and content_type != value:
                    # Frameworks differ on which of the two counts: one would be read by us, the other by them.
                    raise Stop("two-content-types")
                content_type = value
            elif name == b"content-encoding" and value.strip().lower() not in (b"", b"identity"):
                raise Stop("encoded-body")
            elif name == b"content-length" and value.isdigit():
                length = max(length, int(value[:20]))
        if size > self._settings.max_header_bytes:
            raise Stop("headers-too-large")
        return (content_type or b"").decode("latin-1"), length

    def _identify(self, scope: Scope) -> tuple[Subject, ...]:
        try:
            return tuple(self._identity.subjects(scope))
        except AmbiguousCredential:
            raise Stop("bad-credential") from None
        except Exception as error:  # noqa: BLE001 - the application's own code; nobody's request would carry no ban
            self._report_failure("identity", error)
            self._log_identity_error(error)
            raise Stop("unavailable") from None

    def _known(self, subjects: tuple[Subject, ...]) -> ClientStanding | None:
        try:
            return self._ladder.at_once(subjects) if self._ours else None
        except Exception:  # noqa: BLE001 - it fails there once more, where it is reported
            return None

    async def _check_standing(self, subjects: tuple[Subject, ...]) -> ClientStanding:
        try:
            judged = await self._ladder.standing(subjects)
            banned = judged.standing is Standing.FULL_QUARANTINE
            held = judged.delay_s > 0 or not self._ours
            slowed = held and not banned and not await self._ladder.hold(subjects, judged)
        except Exception as error:  # noqa: BLE001 - whoever is banned would pass if this were a good standing
            self._report_failure("ladder", error)
            raise Stop("unavailable") from None
        if banned:
            raise Stop("quarantined", judged=judged)
        if slowed:
            raise Stop("slowed", judged=judged)
        return judged

    def _may_have_changed(self, judged: ClientStanding, asked_at: float) -> bool:
        """Whether to ask how they stand by now: not of most, where nobody is banned and hardly any time has passed."""
        return (
            judged.standing is not _NORMAL
            or not self._ours
            or self._ladder.has_bans
            or perf_counter() - asked_at > STALE_S
        )

    async def _check_standing_again(
        self, subjects: tuple[Subject, ...], judged: ClientStanding, asked_at: float, case: ParsedRequest
    ) -> ClientStanding:
        """How they stand by now, if they may still come in: much can have happened since, on other connections."""
        try:
            if perf_counter() - asked_at > STALE_S:
                judged = await self._ladder.standing(subjects)
            else:
                judged = self._ladder.standing_from_memory(subjects, judged)
        except Exception as error:  # noqa: BLE001 - as above
            self._report_failure("ladder", error)
            raise Stop("unavailable") from None
        if judged.standing is Standing.FULL_QUARANTINE:
            raise Stop("quarantined", judged=judged)
        if judged.standing is Standing.EXECUTE_LOCKED and await self._uses_tools(case):
            raise Stop("tools-locked", judged=judged)
        return judged

    async def _uses_tools(self, case: ParsedRequest) -> bool:
        scope, data = case.scope, case.body
        work = partial(may_use_tools, data, case.content_type, scope["path"], scope.get("query_string", b""))
        return await self._verdicts.run_bounded(work, len(data), case.whom)

    # --- 7

    async def _act_on(self, assessment: Assessment, case: ParsedRequest, sender: _Sender, *, unread: bool) -> str:
        if assessment.verdict == "unsafe":
            # A client that leaves at this very moment must not take its strike along.
            task = asyncio.ensure_future(self._record_unsafe(assessment, case, sender))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            raise await asyncio.shield(task)
        safe = assessment.verdict == "safe"
        blocks = self._settings.on_unclear == "block"
        reason = "unclear" if blocks and not safe else ""
        if unread and self._settings.on_unread == "block":
            reason = "artifact-unread"
        incident = _new_incident_id() if reason else ""
        acted = f"{reason}:{incident}" if reason else "allow" if safe else "unclear"
        recorded = self._journal is None or await self._record_verdict(assessment, case, acted)
        if reason:
            raise Stop(reason, incident=incident if recorded else "")
        # A verdict that nobody can prove afterwards is worth no more than none.
        if safe and recorded:
            return "allow"
        if blocks:
            raise Stop("unclear")
        return "unclear"

    async def _record_unsafe(self, assessment: Assessment, case: ParsedRequest, sender: _Sender) -> Stop:
        """`record_unsafe` of the seed: the strike, the record, and what is answered. Never raises."""
        incident, subjects, judged = _new_incident_id(), sender.subjects, sender.judged
        if await self._verdicts.is_unsafe_only_outside(case):
            subjects = tuple(subject for subject in subjects if subject.kind == NETWORK)
        elif assessment.reason == RULES and await self._verdicts.is_only_mentioned(case):
            subjects = self._ladder.subjects_to_strike(subjects)
        try:
            judged = await self._ladder.record_unsafe(subjects) if subjects else judged
        except Exception as error:  # noqa: BLE001 - the request is not passed on, strike or no strike
            self._report_failure("ladder", error)
        gently = self._settings.override_mode == "clarify"
        normal = (Standing.NORMAL, Standing.SLOWED)
        clarify = gently and sender.judged.standing in normal and judged.standing in normal
        reason = "clarify" if clarify else "unsafe"
        recorded = await self._record_verdict(assessment, case, f"{reason}:{incident}")
        LOG.warning(
            "unsafe request: incident=%s client=%s reason=%s by=%s rules=%s mode=%s strikes=%d counted=%s",
            incident,
            # A keyed hash, by which `lockgate gate bans` knows them.
            sender.subjects[0].key[:12],
            label(assessment.reason),
            label(assessment.provider),
            ",".join(map(label, assessment.rules)) or "-",
            mode_from_standing(judged) or "-",
            judged.strikes,
            ",".join(subject.kind for subject in subjects) or "no",
        )
        # An id that the journal does not have would send people looking for it; the log above has it in any case.
        return Stop(reason, judged=judged, incident=incident if recorded else "")

    async def _record_verdict(self, assessment: Assessment, case: ParsedRequest, acted: str) -> bool:
        """Whether the journal has it, where there is one."""
        if self._journal is None:
            return True
        # Without its key nobody finds a short body by trying.
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
            # What lets a request pass outlives this process, and everything else a power cut too.
            durable=acted != "allow",
        )
        try:
            await run_in_pool(self._recording, work, self._settings.verdict_timeout_s, case.whom)
        except Exception as error:  # noqa: BLE001 - a journal that breaks its promise has not kept it
            self._report_failure("journal", error)
            return False
        return True

    # --- websocket, lifespan

    async def _handle_websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = perf_counter()
        try:
            self._read_head(scope)
            judged = await self._check_standing(self._identify(scope))
            # Nobody reads the messages, so nobody would see a tool in them.
            if judged.standing is Standing.EXECUTE_LOCKED:
                raise Stop("tools-locked", judged=judged)
            if self._settings.websockets != "unsafe_allow":
                raise Stop("websocket", judged=judged)
        except Stop as stop:
            self._count_outcome(stop.told.outcome, began)
            self._metrics.gate_refusals.add(stop.reason)
            if "websocket.http.response" in (scope.get("extensions") or {}):
                for message in stop.messages(scope, unread=False):
                    await send(message)
            else:
                await send({"type": "websocket.close", "code": 1008, "reason": ""})
            return
        self._count_outcome("unclear", began)
        await self._app(
            strip_guardrail_headers(scope),
            receive,
            send_with_headers(send, guardrail_headers("unclear", mode_from_standing(judged))),
        )

    def _close_on_shutdown(self, send: Send) -> Send:
        async def closing(message: Message) -> None:
            if message["type"].startswith("lifespan.shutdown."):
                await self.close()
            await send(message)

        return closing

    def _count_outcome(self, outcome: str, began: float) -> None:
        self._metrics.gated.add(outcome)
        self._metrics.gate_seconds.observe(perf_counter() - began, outcome)

    def _report_failure(self, part: str, error: Exception) -> None:
        """Somebody who should have answered did not. The type only: an error's words may quote what it was about."""
        self._metrics.gate_errors.add(part)
        # All are counted; of thousands in a second one is logged.
        now = perf_counter()
        if now - self._logged.get(part, -1.0) >= 1.0:
            self._logged[part] = now
            LOG.warning("%s failed: error=%s", part, label(type(error).__name__))

    def _log_identity_error(self, error: Exception) -> None:
        """Once, in words of ours: whoever wrote the code that says who asks has to know what is wrong with it."""
        if isinstance(error, Unidentified) and error.message not in self._logged and len(self._logged) < 64:
            self._logged[error.message] = 0.0
            LOG.error("%s; %s", error.message, error.hint)


def _new_incident_id() -> str:
    return incident_id(int(time() * 1000), urandom(10))


def _is_coroutine_function(function: Callable[..., object]) -> bool:
    return iscoroutinefunction(function) or iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004
