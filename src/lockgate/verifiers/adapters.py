"""The public contract of adapters: asked about a request, an adapter answers `safe`, `unsafe` or `unclear`.

`assess` never raises and never blocks a running event loop. There are four ways to ask, and one routine behind them
(`lockgate.runtime.routines`): `_Adapter._assessment_steps` yields what has to wait, in a thread or on a loop.

1. Read.    Parse the payload, scan all its readings with the rules, and hash it; for a provider, redact it, shorten it
            and make the question. An invalid payload is unclear, `bad-payload`, and an error in Python's
            development mode. A local adapter ends here.
2. Key.     Fetch the tenant's key. Without one there is no answer, `no-key`.
3. Ask.     Ask the provider, through the client, within the time left.
4. Rule.    Weigh the rules' verdict and the answer: core/requests/combined_verdict.py has the table.
5. Report.  Metrics, a span, and a warning if there was no answer: names from closed lists, and a hash.

Reading and fetching keys have worker pools of their own, in which clients take turns. Reading has three, by the size of
the payload: a client that sends megabytes delays only others that do.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import wait
from contextlib import suppress
from enum import Enum
from functools import cache, partial
from hashlib import blake2b
from secrets import token_bytes, token_hex
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

from lockgate.core.errors import InvalidPayload
from lockgate.core.questions import Answer, NoAnswer, NoAnswerReason, Question, Verdict
from lockgate.core.redaction import redact as redaction
from lockgate.core.requests import request_signs
from lockgate.core.requests.combined_verdict import (
    NO_FINDINGS,
    REASONS,
    Assessment,
    RulesView,
    WeighedVerdict,
    build_assess_question,
    verdict_without_answer,
    view_payload,
    weigh_answer,
)
from lockgate.core.requests.payload import Payload, parse_payload, payload_digest
from lockgate.core.text.scanner import Scanner
from lockgate.runtime.background_loop import is_on_event_loop
from lockgate.runtime.failures import error_type
from lockgate.runtime.metrics import METRICS, OTHER, PROVIDERS, Metrics
from lockgate.runtime.otel_metrics import OtelMetrics
from lockgate.runtime.routines import Routine, run_routine, run_routine_async
from lockgate.runtime.rule_cache import RuleCache
from lockgate.runtime.tracing import NO_SPAN, AssessmentSpan, Tracing
from lockgate.runtime.worker_pool import Full, PoolJob, WorkerPool
from lockgate.verifiers.client import Client, Provider, ProviderQuestion
from lockgate.verifiers.key_source import KeySource, is_instant, is_usable_key, key_or_blank

if TYPE_CHECKING:
    from lockgate.verifiers.embedded_judge import EmbeddedJudge

__all__ = [
    "REASONS",
    "Assessment",
    "EmbeddedAdapter",
    "KeySource",
    "LocalRuleAdapter",
    "RemoteAdapter",
    "Verdict",
    "VerifierAdapter",
    "resolve_adapter_from_env",
]

LOG = logging.getLogger("lockgate.verifier")

# A payload of up to so many characters is read on the caller's own loop; a larger one would block it.
MAX_CHARACTERS_ON_LOOP = 4_000
# A payload of up to so many is an ordinary document, and does not wait behind larger ones.
MAX_CHARACTERS_ORDINARY = 64 * 1024
MAX_TENANT_CHARACTERS = 256
# How long a start waits for the embedded judge's model, which takes a second on a slow machine.
_LOAD_S = 10.0
_SECRET = token_bytes(32)
# The assessment if the rules find nothing: verdict, reason, no rules, no digest.
_SAFE: tuple[Verdict, str, tuple[str, ...], str] = ("safe", NO_FINDINGS, (), "")
# Consequences of a reported failure, or of the caller's own code: thousands a second are possible, so not warnings.
_NOT_NEWS = frozenset({NoAnswerReason.CIRCUIT_OPEN, NoAnswerReason.BUSY, NoAnswerReason.CALLED_IN_LOOP})

_Asked = Mapping[str, Any] | Payload


@runtime_checkable
class VerifierAdapter(Protocol):
    """The contract of an adapter: anything that gives a verdict on a request."""

    def assess(self, payload: Mapping[str, Any]) -> Verdict:
        """Return the verdict on a request in the normalized shape. Never raise: a failure is `unclear`."""
        ...


class _Driver(Enum):
    """Who waits for the steps: a plain thread, an event loop, or no one, in a thread that runs an event loop."""

    THREAD = "thread"
    LOOP = "loop"
    NO_ONE = "no one"


class _PayloadSize(Enum):
    SMALL = "small"
    ORDINARY = "ordinary"
    LARGE = "large"


class _Adapter:
    """What all adapters share: four ways to ask, one generator of steps."""

    # Whether reading a small payload is quick enough for the caller's loop.
    _quick = True

    def __init__(
        self, provider: str, scanner: Scanner | None, metrics: Metrics, timeout_s: float, most_waiting: int
    ) -> None:
        # A foreign provider must not create metric series, or write line ends into logs.
        self._name = provider if provider in PROVIDERS else OTHER
        self._scanner = scanner or _plain_scanner()
        self._metrics = metrics
        self._tracing = Tracing()
        self._otel = OtelMetrics()
        self._timeout_s = timeout_s
        self._clock: Callable[[], float] = monotonic
        # One thread each: reading is bound by the processor, so more threads would only slow the loop. Megabytes can
        # take longer than other clients can wait, so there are two threads for them, and no client gets both.
        self._reading = {
            size: WorkerPool(1, max_jobs=most_waiting) for size in (_PayloadSize.SMALL, _PayloadSize.ORDINARY)
        }
        self._reading[_PayloadSize.LARGE] = WorkerPool(2, max_jobs=most_waiting, per_client=1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name})"

    def assess(self, payload: Mapping[str, Any], *, tenant: str = "") -> Verdict:
        """Return the verdict. From a coroutine use `assess_async`: this one cannot wait there."""
        return self.examine(payload, tenant=tenant).verdict

    async def assess_async(self, payload: Mapping[str, Any], *, tenant: str = "") -> Verdict:
        """Return the verdict, from an event loop."""
        return (await self.examine_async(payload, tenant=tenant)).verdict

    def examine(self, payload: Mapping[str, Any], *, tenant: str = "") -> Assessment:
        """Return the verdict with its reason, the rules that matched, and the latency."""
        driver = _Driver.NO_ONE if is_on_event_loop() else _Driver.THREAD
        return run_routine(self._assessment_steps(payload, tenant, driver))

    async def examine_async(
        self, payload: Mapping[str, Any] | Payload, *, tenant: str = "", client: str = ""
    ) -> Assessment:
        """Return the same from an event loop; `client` takes the turn in the worker pool, instead of the tenant.

        A `Payload` was checked when it was made, and is not checked again.
        """
        return await run_routine_async(self._assessment_steps(payload, tenant, _Driver.LOOP, client))

    def make_ready(self) -> None:
        """Compile and load now what the first request would wait for; for a process that has time at its start."""
        request_signs.make_ready()
        self._scanner.make_ready_to_scan()

    def close(self) -> None:
        """Release what the adapter holds open: here nothing."""

    def _assessment_steps(self, payload: _Asked, tenant: str, driver: _Driver, client: str = "") -> Routine[Assessment]:
        seen = _AssessmentState(self._clock(), tenant, _client_name(client or tenant))
        span = self._tracing.start()
        try:
            try:
                weighed = yield from self._verdict_steps(payload, seen, driver)
            except InvalidPayload as error:
                if sys.flags.dev_mode:
                    # The developer has to see it: a misspelt key would otherwise look like an unclear request.
                    raise
                # Names of keys and kinds, never content.
                seen.error = "; ".join(filter(None, (error.message, error.hint)))
                weighed = verdict_without_answer(None, NoAnswerReason.BAD_PAYLOAD)
            except TimeoutError:
                weighed = verdict_without_answer(seen.view, NoAnswerReason.DEADLINE)
            except Full:
                weighed = verdict_without_answer(seen.view, NoAnswerReason.BUSY)
            except (KeyboardInterrupt, GeneratorExit):
                raise
            except BaseException as error:  # noqa: BLE001 - no error may reach the request path
                # Also a CancelledError from foreign code; a caller's own never gets here.
                seen.error = error_type(error)
                weighed = verdict_without_answer(seen.view, NoAnswerReason.INTERNAL)
            rules = seen.view.rules if seen.view is not None else ()
            latency_ms = (self._clock() - seen.began) * 1000
            read = seen.view is not None
            assessment = Assessment(weighed.verdict, self._name, weighed.reason, latency_ms, rules, seen.digest, read)
            # 5. Report.
            self._report(assessment, weighed.why, seen.error, span)
            return assessment
        finally:
            span.end()

    def _verdict_steps(self, payload: _Asked, seen: _AssessmentState, driver: _Driver) -> Routine[WeighedVerdict]:
        raise NotImplementedError

    def _read_steps(self, payload: _Asked, seen: _AssessmentState, driver: _Driver) -> Routine[RulesView | None]:
        """Step 1; return None for a payload that would block the caller's event loop."""
        size = _payload_size(payload)
        if driver is _Driver.NO_ONE and size is not _PayloadSize.SMALL:
            return None

        def work() -> RulesView:
            parsed = payload if type(payload) is Payload else parse_payload(cast("Mapping[str, Any]", payload))
            self._check_deadline(seen)
            # The rules first: their findings count even if time runs out afterwards.
            seen.view = view_payload(parsed, self._scanner)
            if driver is not _Driver.NO_ONE or self._quick:
                self._check_deadline(seen)
                self._prepare_question(parsed, seen.view, seen)
            return seen.view

        if size is _PayloadSize.SMALL and (driver is not _Driver.LOOP or self._quick):
            return work()
        found: RulesView = yield PoolJob(self._reading[size], work, self._seconds_left(seen), seen.client)
        return found

    def _seconds_left(self, seen: _AssessmentState) -> float:
        return self._timeout_s - (self._clock() - seen.began)

    def _check_deadline(self, seen: _AssessmentState) -> None:
        """Raise TimeoutError past the deadline: other payloads wait for this thread."""
        if self._seconds_left(seen) <= 0:
            raise TimeoutError

    def _prepare_question(self, payload: Payload, found: RulesView, seen: _AssessmentState) -> None:
        """Set the payload's digest, and the question if a provider is asked."""
        raise NotImplementedError

    def _report(self, assessment: Assessment, why: NoAnswerReason | None, error: str, span: AssessmentSpan) -> None:
        metrics = self._metrics
        metrics.requests.add(self._name, assessment.verdict)
        metrics.latency.observe(assessment.latency_ms / 1000, self._name)
        self._otel.count(self._name, assessment.verdict, assessment.latency_ms, why.value if why is not None else "")
        if span is not NO_SPAN:
            span.set_attributes(
                provider=self._name, verdict=assessment.verdict, reason=assessment.reason, digest=assessment.digest
            )
        if why is None:
            return
        metrics.errors.add(self._name, why)
        told = {
            "provider": self._name,
            "verdict": assessment.verdict,
            "reason": why.value,
            "latency_ms": round(assessment.latency_ms),
            "digest": assessment.digest or "-",
            "rules": ",".join(assessment.rules) or "-",
        }
        if error:
            told["error"] = error
        # A logging handler of the application that raises must not turn a verdict into an exception.
        with suppress(Exception):
            line = "no answer: " + " ".join(f"{name}={value}" for name, value in told.items())
            LOG.log(logging.DEBUG if why in _NOT_NEWS else logging.WARNING, line, extra={"lockgate": told})
            if why is NoAnswerReason.CALLED_IN_LOOP:
                _warn_about_loop_once()


class LocalRuleAdapter(_Adapter):
    """The rules alone: no network, no key, and always the same answer to the same request within the deadline."""

    def __init__(self, *, scanner: Scanner | None = None, metrics: Metrics = METRICS, timeout_ms: int = 1500) -> None:
        super().__init__("local", scanner, metrics, timeout_ms / 1000, most_waiting=1024)

    def _verdict_steps(self, payload: _Asked, seen: _AssessmentState, driver: _Driver) -> Routine[WeighedVerdict]:
        found = yield from self._read_steps(payload, seen, driver)
        return found.rules_only if found is not None else verdict_without_answer(None, NoAnswerReason.CALLED_IN_LOOP)

    def examine_small(self, payload: Payload) -> Assessment | None:
        """Fast path of `examine_async` for small texts; return None if it does not apply.

        The digest is empty if nothing was found.
        """
        if type(self) is not LocalRuleAdapter or len(payload.prompt_text) > MAX_CHARACTERS_ON_LOOP:
            return None
        began = self._clock()
        verdict, reason, rules, digest = _SAFE
        try:
            found = view_payload(payload, self._scanner)
            if found.verdict != "safe":
                verdict, reason, _ = found.rules_only
                rules = found.rules
                digest = _digest(payload)
        except Exception:  # noqa: BLE001 - `examine_async` will fail again, and report it
            return None
        latency_ms = (self._clock() - began) * 1000
        assessment = Assessment(verdict, self._name, reason, latency_ms, rules, digest)
        span = self._tracing.start()
        self._report(assessment, None, "", span)
        if span is not NO_SPAN:
            span.end()
        return assessment

    def _prepare_question(self, payload: Payload, found: RulesView, seen: _AssessmentState) -> None:  # noqa: ARG002
        # Redacting takes many times longer than the rules. A random key does as well: without it no one can guess a
        # text from its digest, and within this process the same request has the same digest.
        seen.digest = _digest(payload)


class RemoteAdapter(_Adapter):
    """A provider's model or rating endpoint, with the rules before and after it.

    The deadline is the client's, and starts when the adapter is asked. `timeout_ms` shortens it, for a client that
    serves several adapters.
    """

    # Redaction reads a text many times over: dozens of requests at once would slow the loop.
    _quick = False

    def __init__(
        self,
        provider: Provider,
        client: Client,
        keys: KeySource,
        *,
        scanner: Scanner | None = None,
        metrics: Metrics = METRICS,
        timeout_ms: int | None = None,
        excerpt_characters: int = 8000,
        custom_redactions: Sequence[str] = (),
        key_needed: bool = True,
        tenant_providers: Mapping[str, Provider] | None = None,
        nonce: Callable[[], str] = lambda: token_hex(16),
    ) -> None:
        timeout_s = client.timeout_s if timeout_ms is None else min(timeout_ms / 1000, client.timeout_s)
        super().__init__(provider.name, scanner, metrics, timeout_s, most_waiting=1024)
        self._provider = provider
        # Tenants with another endpoint or model than the others.
        self._tenant_providers = dict(tenant_providers or {})
        self._client = client
        self._keys = keys
        self._key_needed = key_needed
        self._excerpt_characters = excerpt_characters
        self._custom_redactions = tuple(custom_redactions)
        self._nonce = nonce
        # A hanging source never frees its threads. One that hangs for a single tenant takes at most half of them.
        self._fetching = WorkerPool(64, max_jobs=64, per_client=32)

    @property
    def tenants(self) -> frozenset[str]:
        """The tenants that have a key, an endpoint or a model of their own, as far as the settings name them."""
        return frozenset((*self._tenant_providers, *getattr(self._keys, "tenants", ())))

    @property
    def has_custom_redactions(self) -> bool:
        """Whether there are patterns of the operator's own for what must not leave."""
        return bool(self._custom_redactions)

    def make_ready(self) -> None:
        """The same, and what redacts a text before it leaves."""
        super().make_ready()
        redaction.make_ready()

    def close(self) -> None:
        """Close the connections for good; later requests get the rules' verdict at most."""
        self._client.close()

    def _verdict_steps(self, payload: _Asked, seen: _AssessmentState, driver: _Driver) -> Routine[WeighedVerdict]:
        # 1. Read.
        found = yield from self._read_steps(payload, seen, driver)
        if found is None or seen.asked is None:
            return verdict_without_answer(found, NoAnswerReason.CALLED_IN_LOOP)
        if found.verdict == "unsafe":
            # No model could clear it, and an attack need not leave the process.
            return found.rules_only
        # 2. Key.
        key = yield from self._key_steps(seen)
        if isinstance(key, NoAnswer):
            return verdict_without_answer(found, key.why)
        # 3. Ask.
        question, whole, nonce = seen.asked
        provider = self._tenant_providers.get(seen.tenant, self._provider)
        answer: Answer = yield ProviderQuestion(
            self._client, provider, question, key, seen.tenant, self._seconds_left(seen)
        )
        # 4. Rule.
        return weigh_answer(found, answer, nonce=nonce, whole=whole)

    def _prepare_question(self, payload: Payload, found: RulesView, seen: _AssessmentState) -> None:
        seen.digest = payload_digest(payload, self._custom_redactions)
        self._check_deadline(seen)
        nonce = self._nonce()
        # `encoded:base64>percent` in the alphabet of names in a question.
        rules = [rule.replace(">", "/") for rule in found.rules]
        question, whole = build_assess_question(
            payload, rules, found.spans, nonce, budget=self._excerpt_characters, custom=self._custom_redactions
        )
        # The client asked for custom redaction, and no patterns are set: nothing was redacted for it.
        unset = payload.policy_context.pii_ruleset == "custom" and not self._custom_redactions
        seen.asked = (question, whole and not unset, nonce)

    def _key_steps(self, seen: _AssessmentState) -> Routine[str | NoAnswer]:
        tenant = seen.tenant
        # The tenant's name comes with the request: it must not fill or corrupt our tables.
        if not _is_tenant(tenant):
            return NoAnswer(NoAnswerReason.NO_KEY)
        fetch = partial(key_or_blank, self._keys, tenant)
        if is_instant(self._keys):
            key = fetch()
        else:
            key = yield PoolJob(self._fetching, fetch, self._seconds_left(seen), tenant)
        return key if is_usable_key(key, needed=self._key_needed) else NoAnswer(NoAnswerReason.NO_KEY)


class EmbeddedAdapter(LocalRuleAdapter):
    """The embedded judge, with the rules before and after it: no network, no key.

    It rates a text as a whole, like a moderation endpoint: it can raise suspicion, and cannot clear what the rules are
    unsure of.
    """

    def __init__(
        self,
        judge: EmbeddedJudge,
        *,
        scanner: Scanner | None = None,
        metrics: Metrics = METRICS,
        timeout_ms: int = 1500,
    ) -> None:
        super().__init__(scanner=scanner, metrics=metrics, timeout_ms=timeout_ms)
        self._name = "embedded"
        self._judge = judge
        # Else the first request would wait for the model to load.
        self._loading = judge.load_in_background()

    def make_ready(self) -> None:
        """The same, and the model; a model that cannot be loaded is reported by the first question."""
        super().make_ready()
        wait([self._loading], timeout=_LOAD_S)

    def _verdict_steps(self, payload: _Asked, seen: _AssessmentState, driver: _Driver) -> Routine[WeighedVerdict]:
        found = yield from self._read_steps(payload, seen, driver)
        if found is None or driver is _Driver.NO_ONE:
            return verdict_without_answer(found, NoAnswerReason.CALLED_IN_LOOP)
        if found.verdict == "unsafe":
            # The judge could not clear it.
            return found.rules_only
        left_s = self._seconds_left(seen)
        work = partial(self._judge.rate_text, seen.text, until=monotonic() + left_s)
        answer, whole = yield PoolJob(self._judge.pool, work, left_s, seen.client)
        return weigh_answer(found, answer, nonce="", whole=whole)

    def _prepare_question(self, payload: Payload, found: RulesView, seen: _AssessmentState) -> None:
        super()._prepare_question(payload, found, seen)
        seen.text = payload.prompt_text


def resolve_adapter_from_env(
    environ: Mapping[str, str] | None = None, *, keys: KeySource | None = None
) -> LocalRuleAdapter | RemoteAdapter:
    """Return the adapter that VERIFIER_ADAPTER names (`none`: LocalRuleAdapter); raise InvalidConfig if it cannot work.

    With `keys`, keys come from that source, and the variables with keys are not read.
    """
    from lockgate.assemble import adapter_from_env

    return adapter_from_env(environ, keys=keys)


class _AssessmentState:
    """What the steps have found so far, in case a later one fails."""

    __slots__ = ("asked", "began", "client", "digest", "error", "tenant", "text", "view")

    def __init__(self, began: float, tenant: str, client: str) -> None:
        self.began, self.tenant, self.client = began, tenant, client
        self.view: RulesView | None = None
        self.asked: tuple[Question, bool, str] | None = None
        self.digest = ""
        self.error = ""
        self.text = ""


@cache
def _plain_scanner() -> Scanner:
    """Return a scanner that knows the readings of a text and no rules: the package's compiled copy, if it has one."""
    return Scanner((), RuleCache(None))


def _digest(payload: Payload) -> str:
    context = payload.policy_context
    modes = (context.pii_ruleset, context.block_mode, context.override_mode)
    names = (payload.modalities, modes, payload.ingress_flags, payload.sources)
    said = f"{names}\n{payload.prompt_text}".encode("utf-8", "surrogatepass")
    return blake2b(said, key=_SECRET, digest_size=32).hexdigest()


def _is_tenant(tenant: object) -> bool:
    return type(tenant) is str and len(tenant) <= MAX_TENANT_CHARACTERS and tenant.isprintable()


def _client_name(tenant: object) -> str:
    """Return the name that takes turns in a worker pool; empty for an invalid tenant's name."""
    return cast(str, tenant) if _is_tenant(tenant) else ""


def _payload_size(payload: object) -> _PayloadSize:
    """Return the size class of a plain JSON payload; any other object is large, as looking at it may take any time.

    This runs on the caller's loop, so parts count as much as characters.
    """
    if type(payload) is Payload:
        # Already parsed: only its text is unbounded.
        characters = len(payload.prompt_text)
        if characters <= MAX_CHARACTERS_ON_LOOP:
            return _PayloadSize.SMALL
        return _PayloadSize.ORDINARY if characters <= MAX_CHARACTERS_ORDINARY else _PayloadSize.LARGE
    parts = 1
    characters = 0
    pending: list[object] = [(payload,)]
    while pending:
        inside = cast("Collection[object]", pending.pop())
        parts += len(inside) + 1
        if parts > MAX_CHARACTERS_ON_LOOP:
            break
        if type(inside) is dict:
            pending.append(tuple(inside.values()))
        for value in inside:
            # By type and not isinstance: a subclass could run foreign code.
            kind = type(value)
            if kind is str:
                characters += len(cast(str, value))
            elif kind is dict or kind is list or kind is tuple:
                pending.append(value)
            elif not (value is None or kind is bool or kind is int or kind is float):
                return _PayloadSize.LARGE
    if parts > MAX_CHARACTERS_ON_LOOP or characters > MAX_CHARACTERS_ORDINARY:
        return _PayloadSize.LARGE
    return _PayloadSize.SMALL if parts + characters <= MAX_CHARACTERS_ON_LOOP else _PayloadSize.ORDINARY


_warned = False


def _warn_about_loop_once() -> None:
    global _warned
    if not _warned:
        _warned = True
        LOG.warning(
            "assess was called on a running event loop, where it cannot wait for an answer: "
            "use `await adapter.assess_async(payload)` there (said once)"
        )
