"""Seed 2's public contract: an adapter is asked about a request and answers `safe`, `unsafe` or `unclear`.

`assess` never raises and never blocks a running event loop. There are four ways to ask, and one body behind them:
`_Adapter._flow` yields what has to wait, and a driver of a few lines waits for it, in a thread or on a loop.

1. Read.    Parse the payload, let the rules look at it in all its readings, and hash it; for a provider redact it, cut
            it and put the question. A payload that is none: unclear, `bad-payload`. A local adapter is done here.
2. Key.     The tenant's, from the source of keys. None: no answer, `no-key`.
3. Ask.     The provider, through the client, in the time that is left.
4. Rule.    What the rules and the answer give together: core/assessment.py has the table.
5. Report.  Metrics, a span, and a warning when nobody answered: names from closed lists, and a hash.

Reading and keys have lanes of their own (`lanes`), in which everybody has a turn. Reading has three, by the size of the
payload: whoever sends megabytes keeps nobody waiting but others who do.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from functools import partial
from hashlib import blake2b
from secrets import token_bytes, token_hex
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, cast, runtime_checkable

from lockgate.core.errors import InvalidPayload
from lockgate.core.questions import Answer, NoAnswer, NoAnswerReason, Question, Verdict
from lockgate.core.requests.assessment import (
    NO_FINDINGS,
    REASONS,
    Assessment,
    RulesView,
    WeighedVerdict,
    verdict_without_answer,
    view_from_scan,
    view_payload,
    weigh_answer,
)
from lockgate.core.requests.payload import Payload, PolicyContext, parse_payload, payload_digest
from lockgate.core.requests.verifier_prompts import build_assess_question
from lockgate.core.ruling.policy import Policy
from lockgate.core.text.scanner import Scanner
from lockgate.gate.gate import shared_scanner
from lockgate.runtime.metrics import METRICS, OTHER, PROVIDERS, Metrics
from lockgate.runtime.tracing import NO_SPAN, AssessmentSpan, Tracing
from lockgate.runtime.worker_pool import Full, WorkerPool
from lockgate.settings.key_files import is_key
from lockgate.verifiers.client import Client, Provider

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

# A payload of up to so many characters is read on the caller's own loop; a larger one would hold it up.
MAX_CHARACTERS_ON_LOOP = 4_000
# One of up to so many is an ordinary document, and does not wait behind the megabytes of others.
MAX_CHARACTERS_ORDINARY = 64 * 1024
MAX_TENANT_CHARACTERS = 256
_SECRET = token_bytes(32)
# What is said where the rules have found nothing: the verdict, why, no rule, and no digest.
_SAFE: tuple[Verdict, str, tuple[str, ...], str] = ("safe", NO_FINDINGS, (), "")
# What comes along with words alone: nothing.
_WORDS = Payload("")
# Consequences of what has been reported already, or of the caller's own code: thousands a second are possible.
_NOT_NEWS = frozenset({NoAnswerReason.CIRCUIT_OPEN, NoAnswerReason.BUSY, NoAnswerReason.CALLED_IN_LOOP})

T = TypeVar("T")
_Asked = Mapping[str, Any] | Payload


@runtime_checkable
class VerifierAdapter(Protocol):
    def assess(self, payload: Mapping[str, Any]) -> Verdict:
        """The verdict on a request in the normalized shape. Never raises: what goes wrong is `unclear`."""
        ...


class KeySource(Protocol):
    """Where keys are kept: variables, files, a secret manager.

    Asked at every request, in a thread of its own and within the deadline, so it may block; what it does not
    remember it fetches each time. A source with an attribute `instant` that is true promises to answer from memory,
    and is asked in place. No key for this tenant: return an empty text or raise. What is raised is not shown.
    """

    def key(self, tenant: str) -> str: ...


class _Driver(Enum):
    """Who waits for a flow: a plain thread, an event loop, or nobody, for a thread that runs an event loop."""

    THREAD = "thread"
    LOOP = "loop"
    NOBODY = "nobody"


class _PayloadSize(Enum):
    SMALL = "small"
    ORDINARY = "ordinary"
    LARGE = "large"


class _Adapter:
    """What adapters share: four ways to ask, one flow."""

    # Whether reading a small payload takes so little that it is done on the caller's loop.
    _quick = True

    def __init__(
        self, provider: str, scanner: Scanner | None, metrics: Metrics, timeout_s: float, most_waiting: int
    ) -> None:
        # A provider of somebody's own must not make new metric series, or put line ends into logs.
        self._name = provider if provider in PROVIDERS else OTHER
        self._scanner = scanner or shared_scanner(Policy())
        self._metrics = metrics
        self._tracing = Tracing()
        self._timeout_s = timeout_s
        self._clock: Callable[[], float] = monotonic
        # One thread each: reading keeps the processor busy, and more of them would only take turns with each other
        # and with the loop. Megabytes can take longer than others have time to wait, so there are two for them, of
        # which nobody gets both.
        self._reading = {
            size: WorkerPool(1, max_jobs=most_waiting) for size in (_PayloadSize.SMALL, _PayloadSize.ORDINARY)
        }
        self._reading[_PayloadSize.LARGE] = WorkerPool(2, max_jobs=most_waiting, per_client=1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name})"

    def assess(self, payload: Mapping[str, Any], *, tenant: str = "") -> Verdict:
        """The verdict. From a coroutine use `assess_async`: this one cannot wait there, and then says less."""
        return self.examine(payload, tenant=tenant).verdict

    async def assess_async(self, payload: Mapping[str, Any], *, tenant: str = "") -> Verdict:
        return (await self.examine_async(payload, tenant=tenant)).verdict

    def examine(self, payload: Mapping[str, Any], *, tenant: str = "") -> Assessment:
        """The verdict with its reason, what was found, and how long it took."""
        flow = self._assessment_steps(payload, tenant, _Driver.NOBODY if _is_on_event_loop() else _Driver.THREAD)
        resume: Callable[[Any], _Step] = flow.send
        value: Any = None
        while True:
            try:
                step = resume(value)
            except StopIteration as done:
                return cast(Assessment, done.value)
            try:
                resume, value = flow.send, step.now()
            except Exception as error:  # noqa: BLE001 - it goes into the flow, which makes a verdict of it
                resume, value = flow.throw, error

    async def examine_async(
        self, payload: Mapping[str, Any] | Payload, *, tenant: str = "", client: str = ""
    ) -> Assessment:
        """The same; `whom` says whose turn reading it is, where that is not the tenant's.

        A Payload is what its maker has made sure of: nothing in it is checked again.
        """
        flow = self._assessment_steps(payload, tenant, _Driver.LOOP, client)
        resume: Callable[[Any], _Step] = flow.send
        value: Any = None
        try:
            while True:
                try:
                    step = resume(value)
                except StopIteration as done:
                    return cast(Assessment, done.value)
                try:
                    resume, value = flow.send, await step.later()
                except Exception as error:  # noqa: BLE001 - as above; a cancelled caller's CancelledError passes
                    resume, value = flow.throw, error
        finally:
            flow.close()

    def _assessment_steps(self, payload: _Asked, tenant: str, driver: _Driver, whom: str = "") -> _Flow[Assessment]:
        seen = _AssessmentState(self._clock(), tenant, _client_name(whom or tenant))
        span = self._tracing.start()
        try:
            try:
                weighed = yield from self._verdict_steps(payload, seen, driver)
            except InvalidPayload:
                weighed = verdict_without_answer(None, NoAnswerReason.BAD_PAYLOAD)
            except TimeoutError:
                weighed = verdict_without_answer(seen.view, NoAnswerReason.DEADLINE)
            except Full:
                weighed = verdict_without_answer(seen.view, NoAnswerReason.BUSY)
            except (KeyboardInterrupt, GeneratorExit):
                raise
            except BaseException as error:  # noqa: BLE001 - whatever it was, the request path must not see it
                # Also a CancelledError, which is somebody's code's here: a caller's own never enters the flow.
                seen.error = _type_name(error)
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

    def _verdict_steps(self, payload: _Asked, seen: _AssessmentState, driver: _Driver) -> _Flow[WeighedVerdict]:
        raise NotImplementedError

    def _read_steps(self, payload: _Asked, seen: _AssessmentState, driver: _Driver) -> _Flow[RulesView | None]:
        """Step 1; None for a payload that cannot be read without holding up somebody's loop."""
        size = _payload_size(payload)
        if driver is _Driver.NOBODY and size is not _PayloadSize.SMALL:
            return None

        def work() -> RulesView:
            parsed = payload if type(payload) is Payload else parse_payload(cast("Mapping[str, Any]", payload))
            self._check_deadline(seen)
            # The rules first: where time runs out afterwards, what they found still counts.
            seen.view = view_payload(parsed, self._scanner)
            if driver is not _Driver.NOBODY or self._quick:
                self._check_deadline(seen)
                self._prepare_question(parsed, seen.view, seen)
            return seen.view

        if size is _PayloadSize.SMALL and (driver is not _Driver.LOOP or self._quick):
            return work()
        found: RulesView = yield _PoolStep(work, self._reading[size], self._seconds_left(seen), seen.whom)
        return found

    def _seconds_left(self, seen: _AssessmentState) -> float:
        return self._timeout_s - (self._clock() - seen.began)

    def _check_deadline(self, seen: _AssessmentState) -> None:
        """What nobody waits for any more is not read to its end: others are waiting for the thread."""
        if self._seconds_left(seen) <= 0:
            raise TimeoutError

    def _prepare_question(self, payload: Payload, found: RulesView, seen: _AssessmentState) -> None:
        """What may be told about the payload, and the question, where one is asked."""
        raise NotImplementedError

    def _report(self, assessment: Assessment, why: NoAnswerReason | None, error: str, span: AssessmentSpan) -> None:
        metrics = self._metrics
        metrics.requests.add(self._name, assessment.verdict)
        metrics.latency.observe(assessment.latency_ms / 1000, self._name)
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
        # A handler of somebody's that raises must not turn a verdict into an exception.
        with suppress(Exception):
            line = "no answer: " + " ".join(f"{name}={value}" for name, value in told.items())
            LOG.log(logging.DEBUG if why in _NOT_NEWS else logging.WARNING, line, extra={"lockgate": told})
            if why is NoAnswerReason.CALLED_IN_LOOP:
                _warn_about_loop_once()


class LocalRuleAdapter(_Adapter):
    """The rules alone: no network, no key, the same answer to the same request every time it is given in time."""

    def __init__(self, *, scanner: Scanner | None = None, metrics: Metrics = METRICS, timeout_ms: int = 1500) -> None:
        super().__init__("local", scanner, metrics, timeout_ms / 1000, most_waiting=1024)

    def _verdict_steps(self, payload: _Asked, seen: _AssessmentState, driver: _Driver) -> _Flow[WeighedVerdict]:
        found = yield from self._read_steps(payload, seen, driver)
        return found.rules_only if found is not None else verdict_without_answer(None, NoAnswerReason.CALLED_IN_LOOP)

    def examine_small(self, text: str, context: PolicyContext) -> Assessment | None:
        """What `examine_async` says of a small text alone, without all that only those need who may have to wait.

        None where it is not small, or anything else is in the way: then that one is asked. No digest where nothing was
        found.
        """
        if type(self) is not LocalRuleAdapter or len(text) > MAX_CHARACTERS_ON_LOOP:
            return None
        began = self._clock()
        verdict, reason, rules, digest = _SAFE
        try:
            scan = self._scanner.scan_or_none(text)
            if scan is not None:
                found = view_from_scan(_WORDS, scan)
                verdict, reason, _ = found.rules_only
                rules = found.rules
                digest = "" if verdict == "safe" else _digest(Payload(text, policy_context=context))
        except Exception:  # noqa: BLE001 - it fails there once more, where it is reported
            return None
        latency_ms = (self._clock() - began) * 1000
        assessment = Assessment(verdict, self._name, reason, latency_ms, rules, digest)
        span = self._tracing.start()
        self._report(assessment, None, "", span)
        if span is not NO_SPAN:
            span.end()
        return assessment

    def _prepare_question(self, payload: Payload, found: RulesView, seen: _AssessmentState) -> None:  # noqa: ARG002
        # Redacting a text takes many times what the rules take. A key that nobody knows serves as well: without it
        # nobody finds the rest of a text by trying, and in this process the same request has the same digest.
        seen.digest = _digest(payload)


class RemoteAdapter(_Adapter):
    """A provider's model or rating endpoint, with the rules before and after it.

    The deadline is the client's, from the moment the adapter is asked. `timeout_ms` makes it shorter, where a client
    serves several adapters.
    """

    # Redaction reads a text many times over: dozens of requests at once would be felt on the loop.
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
        nonce: Callable[[], str] = lambda: token_hex(16),
    ) -> None:
        timeout_s = client.timeout_s if timeout_ms is None else min(timeout_ms / 1000, client.timeout_s)
        super().__init__(provider.name, scanner, metrics, timeout_s, most_waiting=1024)
        self._provider = provider
        self._client = client
        self._keys = keys
        self._key_needed = key_needed
        self._excerpt_characters = excerpt_characters
        self._custom_redactions = tuple(custom_redactions)
        self._nonce = nonce
        # A source that hangs does not let go of its threads. One that hangs for one tenant gets half of them.
        self._fetching = WorkerPool(64, max_jobs=64, per_client=32)

    def close(self) -> None:
        """Let go of the connections, for good: whoever asks afterwards gets the rules' word at most."""
        self._client.close()

    def _verdict_steps(self, payload: _Asked, seen: _AssessmentState, driver: _Driver) -> _Flow[WeighedVerdict]:
        # 1. Read.
        found = yield from self._read_steps(payload, seen, driver)
        if found is None or seen.asked is None:
            return verdict_without_answer(found, NoAnswerReason.CALLED_IN_LOOP)
        # 2. Key.
        key = yield from self._key_steps(seen)
        if isinstance(key, NoAnswer):
            return verdict_without_answer(found, key.why)
        # 3. Ask.
        question, whole, nonce = seen.asked
        answer: Answer = yield _ProviderStep(
            self._client, self._provider, question, key, seen.tenant, self._seconds_left(seen)
        )
        # 4. Rule.
        return weigh_answer(found, answer, nonce=nonce, whole=whole)

    def _prepare_question(self, payload: Payload, found: RulesView, seen: _AssessmentState) -> None:
        seen.digest = payload_digest(payload, self._custom_redactions)
        self._check_deadline(seen)
        nonce = self._nonce()
        # `encoded:base64>percent` in the alphabet that names have in a question.
        rules = [rule.replace(">", "/") for rule in found.rules]
        question, whole = build_assess_question(
            payload, rules, found.spans, nonce, budget=self._excerpt_characters, custom=self._custom_redactions
        )
        # Whoever asks for patterns of their own where none are set cannot have had them taken out.
        unset = payload.policy_context.pii_ruleset == "custom" and not self._custom_redactions
        seen.asked = (question, whole and not unset, nonce)

    def _key_steps(self, seen: _AssessmentState) -> _Flow[str | NoAnswer]:
        tenant = seen.tenant
        # The tenant's name comes with a request: it ends up in tables, and must not fill or confuse them.
        if not _is_tenant(tenant):
            return NoAnswer(NoAnswerReason.NO_KEY)
        # What a manager raises may quote the key, or the request for it: nothing of it is kept.
        if getattr(self._keys, "instant", False) is True:
            try:
                key = self._keys.key(tenant)
            except KeyboardInterrupt:
                raise
            except BaseException:  # noqa: BLE001 - a SystemExit of its own, or a cancellation of nobody's
                return NoAnswer(NoAnswerReason.NO_KEY)
        else:
            try:
                key = yield _PoolStep(lambda: self._keys.key(tenant), self._fetching, self._seconds_left(seen), tenant)
            except (TimeoutError, Full):
                raise
            except Exception:  # noqa: BLE001 - as above; the lane lets nothing else through
                return NoAnswer(NoAnswerReason.NO_KEY)
        if is_key(key) or (key == "" and not self._key_needed):
            return key
        return NoAnswer(NoAnswerReason.NO_KEY)


class EmbeddedAdapter(LocalRuleAdapter):
    """The embedded judge, with the rules before and after it: no network, no key.

    It rates a text as a whole, like an endpoint that does only that: it can raise suspicion, and it clears nothing that
    the rules are unsure of.
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
        # Whoever comes first would else wait for the model to load.
        judge.load_in_background()

    def _verdict_steps(self, payload: _Asked, seen: _AssessmentState, driver: _Driver) -> _Flow[WeighedVerdict]:
        found = yield from self._read_steps(payload, seen, driver)
        if found is None or driver is _Driver.NOBODY:
            return verdict_without_answer(found, NoAnswerReason.CALLED_IN_LOOP)
        if found.verdict == "unsafe":
            # Nobody could clear it any more.
            return found.rules_only
        left_s = self._seconds_left(seen)
        work = partial(self._judge.rate_text, seen.text, until=monotonic() + left_s)
        answer, whole = yield _PoolStep(work, self._judge.pool, left_s, seen.whom)
        return weigh_answer(found, answer, nonce="", whole=whole)

    def _prepare_question(self, payload: Payload, found: RulesView, seen: _AssessmentState) -> None:
        super()._prepare_question(payload, found, seen)
        seen.text = payload.prompt_text


def resolve_adapter_from_env(
    environ: Mapping[str, str] | None = None, *, keys: KeySource | None = None
) -> VerifierAdapter:
    """The adapter that VERIFIER_ADAPTER names, LocalRuleAdapter for `none`; InvalidConfig when it cannot work.

    With `keys`, keys come from there, and the variables that hold them are not read.
    """
    from lockgate.assemble import adapter_from_env

    return adapter_from_env(environ, keys=keys)


# --- what a flow waits for, and how


class _Step(Protocol):
    """Something that takes time: `now` waits for it in a plain thread, `later` on an event loop."""

    def now(self) -> Any: ...

    async def later(self) -> Any: ...


_Flow = Generator[_Step, Any, T]


class _PoolStep(NamedTuple):
    """Work that keeps the processor busy or that may block; nobody waits for it longer than `timeout_s`."""

    work: Callable[[], object]
    lane: WorkerPool
    timeout_s: float
    whom: str

    def now(self) -> object:
        return self.lane.run(self.work, self.timeout_s, self.whom)

    async def later(self) -> object:
        async with asyncio.timeout(max(0.0, self.timeout_s)):
            outcome = await asyncio.wrap_future(self.lane.submit(self.work, self.whom))
        return outcome()


class _ProviderStep(NamedTuple):
    client: Client
    provider: Provider
    question: Question
    key: str
    tenant: str
    timeout_s: float

    def __repr__(self) -> str:
        return "_Asking(…)"  # it holds the key

    # The client waits, and nobody else: it alone can tell a provider that was too slow from a caller who left.
    def now(self) -> Answer:
        asked = self.client.ask(self.provider, self.question, self.key, tenant=self.tenant, timeout_s=self.timeout_s)
        return asked.answer

    async def later(self) -> Answer:
        asked = await self.client.ask_async(
            self.provider, self.question, self.key, tenant=self.tenant, timeout_s=self.timeout_s
        )
        return asked.answer


class _AssessmentState:
    """What a flow knows so far, for the case that it fails."""

    __slots__ = ("asked", "began", "digest", "error", "tenant", "text", "view", "whom")

    def __init__(self, began: float, tenant: str, whom: str) -> None:
        self.began, self.tenant, self.whom = began, tenant, whom
        self.view: RulesView | None = None
        self.asked: tuple[Question, bool, str] | None = None
        self.digest = ""
        self.error = ""
        self.text = ""


def _digest(payload: Payload) -> str:
    context = payload.policy_context
    modes = (context.pii_ruleset, context.block_mode, context.override_mode)
    names = (payload.modalities, modes, payload.ingress_flags, payload.sources)
    said = f"{names}\n{payload.prompt_text}".encode("utf-8", "surrogatepass")
    return blake2b(said, key=_SECRET, digest_size=32).hexdigest()


def _is_on_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _is_tenant(tenant: object) -> bool:
    return type(tenant) is str and len(tenant) <= MAX_TENANT_CHARACTERS and tenant.isprintable()


def _client_name(tenant: object) -> str:
    """Whose turn it is in a lane; nobody's in particular for what cannot be a tenant's name."""
    return cast(str, tenant) if _is_tenant(tenant) else ""


def _payload_size(payload: object) -> _PayloadSize:
    """The size of a payload that is plain JSON of few parts; anything else may take any time to look at, and is large.

    It is looked at on the caller's loop, so its parts count as much as its characters.
    """
    if type(payload) is Payload:
        # One that was parsed: all but its text is bounded.
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
            # By type and not isinstance: a subclass brings methods of its own.
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


def _type_name(error: BaseException) -> str:
    """The name of an error's type, never its words: they may quote what it was about."""
    name = type(error).__name__
    return name[:60] if name.isidentifier() and name.isascii() else OTHER


_warned = False


def _warn_about_loop_once() -> None:
    global _warned
    if not _warned:
        _warned = True
        LOG.warning(
            "assess was called on a running event loop, where it cannot wait for an answer: "
            "use `await adapter.assess_async(payload)` there (said once)"
        )
