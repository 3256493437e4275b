"""The verdict on a parsed request: from the built-in rules, a verifier, or the application's own `fetch_verdict`.

Every answer that is no verdict (an error, a timeout, an odd value) is unclear. Nothing here blocks the event loop: work
on more than a few kilobytes runs in a thread, and every call to a verifier has a deadline.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast, get_args

from lockgate.abuse_gate.agent_calls import rules_hit_by_calls, rules_hit_outside
from lockgate.abuse_gate.request.conversation import (
    CONTEXT,
    SEPARATOR,
    Turn,
    message_breaks,
    own_words,
)
from lockgate.abuse_gate.request.payload_from_body import InspectedUpload, NormalizedRequest, payload_from_request
from lockgate.abuse_gate.responses import Stop
from lockgate.abuse_gate.tenants import Tenants
from lockgate.core.questions import NoAnswerReason, Verdict
from lockgate.core.requests.combined_verdict import (
    PROVIDER,
    PROVIDER_FILTER,
    PROVIDER_UNSURE,
    RULES,
    RULES_UNSURE,
    Assessment,
)
from lockgate.core.requests.payload import MAX_RULE_HITS, Payload, PolicyContext, parse_payload
from lockgate.core.requests.request_signs import spare_guards
from lockgate.gate.gate import Gate
from lockgate.journal.record import MAX_RULES
from lockgate.runtime.asgi import Scope
from lockgate.runtime.metrics import OTHER
from lockgate.runtime.worker_pool import Full, WorkerPool
from lockgate.settings.abuse_gate import AbuseSettings
from lockgate.verifiers.adapters import LocalRuleAdapter, RemoteAdapter

if TYPE_CHECKING:
    from lockgate.abuse_gate.documents.inspector import Inspector

# A body of up to so many bytes is parsed on the event loop, in a fraction of a millisecond.
MAX_BYTES_ON_LOOP = 4096
# A body of up to so many bytes is an ordinary document, and does not wait behind bodies of megabytes.
MAX_BYTES_ORDINARY = 64 * 1024
_VERDICTS: tuple[str, ...] = get_args(Verdict)
_DIGEST = re.compile("[0-9a-f]{64}")
_UNANSWERED = Assessment("unclear", OTHER, NoAnswerReason.INTERNAL.value, 0.0)

_KIND, _TEXT, _OUTSIDE = attrgetter("kind"), attrgetter("text"), attrgetter("outside")

_UNSURE = {RULES: RULES_UNSURE, PROVIDER: PROVIDER_UNSURE, PROVIDER_FILTER: PROVIDER_UNSURE}

# What the operator's own prompt may be the ground of.
_UNSURE_BY_RULES = (RULES, RULES_UNSURE)
# The adapter whose rating stands beside the rules, and which costs nothing to ask again.
_EMBEDDED = "embedded"

# So many turns of a suspected chat are judged by themselves.
_MAX_ALONE = 32
_FAILED = object()

T = TypeVar("T")


class Request(NamedTuple):
    """The question to `fetch_verdict`; the payload has its normalized shape.

    `whom` is a keyed hash of the sender, or two (`customer/one`) if the sender is not verified. A verifier that limits
    concurrency should limit it by `whom`, so that one client cannot take the places of the others. `tenant` is empty
    for a request without one.
    """

    scope: Scope
    body: bytes
    payload: Mapping[str, Any]
    whom: str = ""
    tenant: str = ""


FetchVerdict = Callable[[Request], Awaitable[Verdict | Assessment]]


class ParsedRequest(NamedTuple):
    """A request that was parsed, with the texts of its attachments."""

    scope: Scope
    content_type: str
    body: bytes
    found: NormalizedRequest
    whom: str
    inspected: Sequence[InspectedUpload] = ()
    tenant: str = ""


class RequestJudge:
    """Judges parsed requests. `own` is a built-in adapter, which keeps its own deadline; other code gets one here."""

    def __init__(
        self,
        settings: AbuseSettings,
        gate: Gate,
        inspector: Inspector,
        *,
        tenants: Tenants,
        fetch: FetchVerdict,
        own: LocalRuleAdapter | RemoteAdapter | None,
        failed: Callable[[str, Exception], None],
    ) -> None:
        self._settings, self._gate, self._inspector = settings, gate, inspector
        self._fetch, self._own, self._failed = fetch, own, failed
        self._local = own if isinstance(own, LocalRuleAdapter) else None
        self._contexts = {
            name: PolicyContext(policy.pii_ruleset, override_mode=policy.override_mode)
            for name, policy in tenants.policies().items()
        }
        # One thread each: parsing uses the processor, and more threads would only compete with the event loop.
        # Bodies of megabytes have their own thread, so that they delay only each other.
        self._pool, self._large_pool = WorkerPool(1, max_jobs=1024), WorkerPool(1, max_jobs=256)

    async def run_bounded(self, work: Callable[[], T], size: int, whom: str) -> T:
        """Return the result of work on so many bytes, done in a thread unless they are few; raise Stop if it fails."""
        try:
            if size <= MAX_BYTES_ON_LOOP:
                return work()
            pool = self._pool if size <= MAX_BYTES_ORDINARY else self._large_pool
            return cast(T, await run_in_pool(pool, work, self._settings.verdict_timeout_s, whom))
        except (Full, TimeoutError) as error:
            self._failed("parse", error)
            raise Stop("busy") from None
        except Exception as error:  # noqa: BLE001 - the edge to the parsers: a body that breaks one is not passed on
            self._failed("parse", error)
            raise Stop("unreadable") from None

    async def inspect_uploads(
        self, found: NormalizedRequest, whom: str, ends: float
    ) -> tuple[Sequence[InspectedUpload], bool]:
        """Return the texts of the attachments, and whether all of them were read."""
        try:
            inspected = await wait_until(ends, self._inspector.inspect(found.uploads, whom=whom))
        except Exception as error:  # noqa: BLE001 - the edge to the inspector: what it could not read is unread
            self._failed("artifacts", error)
            return (), False
        return inspected, all(one.complete for one in inspected) and len(inspected) == len(found.uploads)

    async def assess(self, case: ParsedRequest, ends: float) -> Assessment:
        """Return the assessment of a request; it is unsafe only if it still is without the context of a chat.

        A chat has all that was said before in it, the model's own words and the operator's. If these could be unsafe,
        one answer about prompt injection would lock its reader out. But a client can make them up: so they are never
        safe where they look like an attack.
        """
        said = await self._assess_turns(case, ends)
        if said.verdict == "safe":
            return said
        if said.reason in _UNSURE_BY_RULES or said.provider == _EMBEDDED:
            # Only then: this reads the operator's prompt once more.
            spared = tuple(map(_spare_operator, case.found.turns))
            if spared != case.found.turns:
                case = case._replace(found=case.found._replace(turns=spared))
                said = await self._assess_turns(case, ends)
        turns = tuple(_without_context(case.found.turns))
        # The embedded judge alone suspects it: the rules found nothing.
        judged = (said.provider, said.reason, said.rules) == (_EMBEDDED, PROVIDER_UNSURE, ()) and any(map(_TEXT, turns))
        if (said.verdict != "unsafe" and not judged) or turns == case.found.turns:
            return said
        try:
            alone = await self._assess_turns(case._replace(found=case.found._replace(turns=turns)), ends)
            if judged:
                # It reads a chat as one text, in which a prompt and what others said can look like an attack together.
                return said if alone.verdict != "safe" or await self._suspects_one(case, turns, ends) else alone
        except Stop:
            return said
        if alone.verdict == "unsafe" or not alone.read:
            return said
        return said._replace(verdict="unclear", reason=_UNSURE.get(said.reason, said.reason))

    async def _suspects_one(self, case: ParsedRequest, looked_at: tuple[Turn, ...], ends: float) -> bool:
        """Return whether a turn of the context is suspected by itself: a client can make up all of it.

        The agent's own words are no part of that, but for those at the end, which the model is to go on from.
        """
        parts = [part for part in _parts_of(case.found.turns) if part and part != looked_at]
        for part in parts[:_MAX_ALONE]:
            words = case.found._replace(turns=part, uploads=(), flags=())
            said = await self._assess_turns(case._replace(found=words, inspected=()), ends)
            if said.verdict != "safe":
                return True
        return len(parts) > _MAX_ALONE

    async def _assess_turns(self, case: ParsedRequest, ends: float) -> Assessment:
        settled = self._rules_verdict(case)
        return await self._ask_verifier(case, ends) if settled is None else settled

    def _context(self, tenant: str) -> PolicyContext:
        return self._contexts.get(tenant) or self._contexts[""]

    async def is_unsafe_only_outside(self, case: ParsedRequest) -> bool:
        """Return whether only text from outside is unsafe: tool results and documents, not the client's own words.

        Such a request is not passed on either. But the author of a web page must not be able to lock out the users
        whose agents read it, so only the network counts. In doubt the client counts. A setting lets it count always.
        """
        found = case.found
        if self._settings.outside_strikes == "principal":
            return False
        own = tuple(turn for turn in found.turns if not turn.outside)
        files = [number for number, upload in enumerate(found.uploads) if not upload.outside]
        if len(own) == len(found.turns) and len(files) == len(found.uploads):
            return False
        words = found._replace(turns=own, uploads=tuple(found.uploads[number] for number in files), flags=())
        inspected = [case.inspected[number] for number in files] if len(case.inspected) == len(found.uploads) else ()
        case = case._replace(found=words, inspected=inspected)
        try:
            said = await self.assess(case, perf_counter() + self._settings.verdict_timeout_s)
        except Stop:
            return False
        return said.verdict != "unsafe" and said.read

    def _rules_verdict(self, case: ParsedRequest) -> Assessment | None:
        """Return the rules' verdict on a request of few words; None if other verifiers or other content are involved.

        Fast path: without it a small chat costs 15 % of the requests per second.
        """
        found = case.found
        if self._local is None or found.uploads or found.flags or _is_agents(found):
            return None
        return self._local.examine_small(self._plain_payload(case))

    def _plain_payload(self, case: ParsedRequest) -> Payload:
        """Return the payload of a request of words only: no name in it comes from the client, so it needs no check."""
        turns = case.found.turns
        text = SEPARATOR.join(map(_TEXT, turns))
        return Payload(text, ("text",), self._context(case.tenant), breaks=message_breaks(turns), own=own_words(turns))

    async def _ask_verifier(self, case: ParsedRequest, ends: float) -> Assessment:
        found = case.found
        calls = _is_agents(found)
        if self._own is not None and not (calls or found.uploads or found.flags):
            return await self._ask_adapter(self._own, self._plain_payload(case), case)
        build = partial(self._build_payload, case)
        # Checking calls takes longer than their size suggests.
        size = len(case.body) + (MAX_BYTES_ON_LOOP if calls or case.inspected else 0)
        if self._own is not None:
            placed = await self.run_bounded(lambda: _with_places(build(), found.turns), size, case.whom)
            return await self._ask_adapter(self._own, placed, case)
        payload = await self.run_bounded(build, size, case.whom)
        return await self._ask_fetch_verdict(Request(case.scope, case.body, payload, case.whom, case.tenant), ends)

    def _build_payload(self, case: ParsedRequest) -> Mapping[str, Any]:
        found = case.found
        context = self._context(case.tenant)
        payload: Mapping[str, Any] = payload_from_request(found, case.inspected, context=context)
        hits = rules_hit_outside(found.turns, self._gate.scanner)
        if "call" in map(_KIND, found.turns):
            hits = tuple(dict.fromkeys((*hits, *rules_hit_by_calls(found.turns, self._gate))))[:MAX_RULE_HITS]
        if not hits:
            return payload
        sources = [*payload["debug"]["sources"], {"type": "agent", "rule_hits": list(hits)}]
        return {**payload, "debug": {"sources": sources}}

    async def _ask_adapter(
        self, adapter: LocalRuleAdapter | RemoteAdapter, payload: Payload, case: ParsedRequest
    ) -> Assessment:
        said = await self._ask(lambda: adapter.examine_async(payload, tenant=case.tenant, client=case.whom))
        # It promises not to raise; if it does, not even the rules have looked.
        return said if isinstance(said, Assessment) else _UNANSWERED._replace(read=False)

    async def _ask_fetch_verdict(self, request: Request, ends: float) -> Assessment:
        """Return what the application's code says; every answer that is no verdict is unclear."""
        said = await self._ask(lambda: wait_until(ends, self._fetch(request)))
        if said is _FAILED:
            return _UNANSWERED
        verdict: object = said.verdict if isinstance(said, Assessment) else said
        # By type: a subclass of str may claim to be equal to any text.
        if type(verdict) is not str or verdict not in _VERDICTS:
            self._failed("verdict", TypeError())
            return _UNANSWERED
        if isinstance(said, Assessment):
            return _sanitize_assessment(said)
        return Assessment(cast(Verdict, verdict), OTHER, "fetch-verdict", 0.0)

    async def _ask(self, ask: Callable[[], Awaitable[object]]) -> object:
        """Return a verifier's answer, or `_FAILED` if it raises."""
        try:
            return await ask()
        except Exception as error:  # noqa: BLE001 - the edge to verifiers: an error is no answer
            self._failed("verdict", error)
            return _FAILED


def _is_agents(found: NormalizedRequest) -> bool:
    """Return whether a request has tool calls or texts from outside, which need more than the rules for requests."""
    return "call" in map(_KIND, found.turns) or True in map(_OUTSIDE, found.turns)


def _with_places(payload: Mapping[str, Any], turns: Sequence[Turn]) -> Payload:
    """Return a payload with the places of messages and of the client's own words."""
    return replace(parse_payload(payload), breaks=message_breaks(turns), own=own_words(turns))


def _spare_operator(turn: Turn) -> Turn:
    """Return the turn; the operator's prompt without what it forbids."""
    return turn._replace(text=spare_guards(turn.text)) if turn.kind == "text" and turn.source == "system" else turn


def _parts_of(found: Iterable[Turn]) -> Iterator[tuple[Turn, ...]]:
    """Yield the words that a client may have made up: its last messages together, and each turn by itself."""
    turns = [turn for turn in found if turn.kind == "text"]
    speakers = [turn.source for turn in turns]
    end = max((place for place, source in enumerate(speakers) if source == "user"), default=-1)
    answered = max((place for place, source in enumerate(speakers[:end]) if source == "agent"), default=-1)
    # What is said in several messages in a row can be one sentence.
    yield tuple(turn for turn in turns[answered + 1 : end + 1] if turn.source == "user")
    yield from ((turn,) for place, turn in enumerate(turns) if turn.source != "agent" or place > end)


def _without_context(turns: Iterable[Turn]) -> Iterator[Turn]:
    """Yield the turns without the words of others and of earlier messages; calls stay, to be traced, without words."""
    for turn in turns:
        if turn.kind == "call":
            yield turn._replace(text="")
        elif not turn.earlier and turn.source not in CONTEXT:
            yield turn


def _sanitize_assessment(said: Assessment) -> Assessment:
    """Return the application's own assessment with fields that are safe to log and record; its verdict stays."""
    listed: object = said.rules
    rules = tuple(rule for rule in listed if type(rule) is str) if isinstance(listed, tuple) else ()
    return Assessment(
        said.verdict,
        said.provider if type(said.provider) is str else OTHER,
        said.reason if type(said.reason) is str else "fetch-verdict",
        0.0,
        rules[:MAX_RULES],
        said.digest if type(said.digest) is str and _DIGEST.fullmatch(said.digest) else "",
    )


async def run_in_pool(pool: WorkerPool, work: Callable[[], object], timeout_s: float, whom: str = "") -> object:
    """Return the result of the work, done in the pool for this client; raise TimeoutError if it takes too long."""
    async with asyncio.timeout(timeout_s):
        return await pool.run_async(work, whom)


async def wait_until(ends: float, awaited: Awaitable[T]) -> T:
    """Return the result, or raise TimeoutError; code that ignores its cancellation is left running."""
    task = asyncio.ensure_future(awaited)
    try:
        done, _ = await asyncio.wait({task}, timeout=max(0.0, ends - perf_counter()))
    finally:
        task.cancel()
    if not done or task.cancelled():
        raise TimeoutError
    return task.result()
