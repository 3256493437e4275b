"""What is said of a request that was read: by the rules, by a verifier, or by somebody's own `fetch_verdict`.

Whatever is not a verdict (an error, no answer in time, an odd one) is unclear. Nothing here holds up the loop: what is
larger than a few kilobytes is worked on in a lane, and whoever is asked has a deadline.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast, get_args

from lockgate.abuse_gate.agent_calls import rules_hit_by_calls
from lockgate.abuse_gate.false_alarms import remove_house_rules, remove_mentions
from lockgate.abuse_gate.request.conversation import SEPARATOR
from lockgate.abuse_gate.request.normalize import InspectedUpload, NormalizedRequest, payload_from_request
from lockgate.abuse_gate.responses import Scope, Stop
from lockgate.core.journal.record import MAX_RULES
from lockgate.core.questions import NoAnswerReason, Verdict
from lockgate.core.requests.assessment import RULES, Assessment
from lockgate.core.requests.payload import Payload, PolicyContext
from lockgate.gate.gate import Gate
from lockgate.runtime.metrics import OTHER
from lockgate.runtime.worker_pool import Full, WorkerPool
from lockgate.settings.abuse_gate import AbuseSettings
from lockgate.verifiers.adapters import LocalRuleAdapter, RemoteAdapter

if TYPE_CHECKING:
    from lockgate.abuse_gate.documents.inspector import Inspector

# A body of up to so many bytes is parsed on the loop, in a fraction of a millisecond.
MAX_BYTES_ON_LOOP = 4096
# One of up to so many is an ordinary document, and does not wait behind the megabytes of others.
MAX_BYTES_ORDINARY = 64 * 1024
_VERDICTS: tuple[str, ...] = get_args(Verdict)
_DIGEST = re.compile("[0-9a-f]{64}")
_UNANSWERED = Assessment("unclear", OTHER, NoAnswerReason.INTERNAL.value, 0.0)

_KIND, _TEXT = attrgetter("kind"), attrgetter("text")

T = TypeVar("T")


class Request(NamedTuple):
    """What `fetch_verdict` is asked about; the payload is the seed's normalized shape.

    `whom` is who sent it, as the ladder knows them: a keyed hash, or two (`crowd/one`) where nobody has checked them.
    Whatever has places to give should share them out by it, so that one client's crowd takes nobody else's.
    """

    scope: Scope
    body: bytes
    payload: Mapping[str, Any]
    whom: str = ""


FetchVerdict = Callable[[Request], Awaitable[Verdict | Assessment]]


class ParsedRequest(NamedTuple):
    """A request that was read, with what is in its attachments."""

    scope: Scope
    content_type: str
    body: bytes
    found: NormalizedRequest
    whom: str
    inspected: Sequence[InspectedUpload] = ()


class RequestJudge:
    """`own` is an adapter of ours, which keeps its deadline; of anybody else's code nothing is known."""

    def __init__(
        self,
        settings: AbuseSettings,
        gate: Gate,
        inspector: Inspector,
        *,
        fetch: FetchVerdict,
        own: LocalRuleAdapter | RemoteAdapter | None,
        failed: Callable[[str, Exception], None],
    ) -> None:
        self._settings, self._gate, self._inspector = settings, gate, inspector
        self._fetch, self._own, self._failed = fetch, own, failed
        self._local = own if isinstance(own, LocalRuleAdapter) else None
        self._context = PolicyContext(settings.pii_ruleset, override_mode=settings.override_mode)
        # One thread each: reading keeps the processor busy, and more of them would only take turns with the loop.
        # Whoever sends megabytes keeps nobody waiting but others who do.
        self._reading, self._reading_large = WorkerPool(1, max_jobs=1024), WorkerPool(1, max_jobs=256)

    async def run_bounded(self, work: Callable[[], T], size: int, whom: str) -> T:
        """Work on so many bytes, in a lane unless they are few. What fails here is a body nobody has thought of."""
        if size <= MAX_BYTES_ON_LOOP:
            return self.done(work)
        try:
            lane = self._reading if size <= MAX_BYTES_ORDINARY else self._reading_large
            return cast(T, await run_in_pool(lane, work, self._settings.verdict_timeout_s, whom))
        except (Full, TimeoutError) as error:
            self._failed("parse", error)
            raise Stop("busy") from None
        except Exception as error:  # noqa: BLE001 - a body that breaks a parser is not passed on
            self._failed("parse", error)
            raise Stop("unreadable") from None

    def done(self, work: Callable[[], T]) -> T:
        """The same for few bytes, here and now."""
        try:
            return work()
        except Exception as error:  # noqa: BLE001 - as above
            self._failed("parse", error)
            raise Stop("unreadable") from None

    async def inspect_uploads(
        self, found: NormalizedRequest, whom: str, ends: float
    ) -> tuple[Sequence[InspectedUpload], bool]:
        """What is in the attachments, and whether all of it was read."""
        try:
            inspected = await wait_until(ends, self._inspector.inspect(found.uploads, whom=whom))
        except Exception as error:  # noqa: BLE001 - what could not be looked into is unread, whatever the reason
            self._failed("artifacts", error)
            return (), False
        return inspected, all(one.complete for one in inspected) and len(inspected) == len(found.uploads)

    async def assess(self, case: ParsedRequest, ends: float, said: Assessment | None = None) -> Assessment:
        """What is said of a request; where the rules alone call it unsafe, without what its system turn says of itself.

        Where there is no time for a second look, the first one counts. `said` is what `at_once` gave, where it did.
        """
        assessment = said or await self._ask_verifier(case, ends)
        if assessment.verdict == "unsafe" and assessment.reason == RULES:
            rest = await self._assess_rest(remove_house_rules, case, ends)
            if rest is not None:
                return assessment._replace(verdict=rest.verdict, reason=rest.reason)
        return assessment

    async def is_only_mentioned(self, case: ParsedRequest) -> bool:
        """Whether what the rules call unsafe is only talked about, as far as one can tell: refused, and no strike."""
        return await self._assess_rest(remove_mentions, case, self._deadline()) is not None

    async def _assess_rest(
        self, without: Callable[[NormalizedRequest], NormalizedRequest | None], case: ParsedRequest, ends: float
    ) -> Assessment | None:
        """What is said of the rest, if there is one and it was read and is not unsafe."""
        try:
            rest = await self.run_bounded(partial(without, case.found), len(case.body), case.whom)
            if rest is None:
                return None
            said = self.at_once(rest) or await self._ask_verifier(case._replace(found=rest), ends)
        except Stop:
            return None
        return said if said.read and said.verdict != "unsafe" else None

    def _deadline(self) -> float:
        return perf_counter() + self._settings.verdict_timeout_s

    async def is_unsafe_only_outside(self, case: ParsedRequest) -> bool:
        """Whether what is unsafe came from outside: from the answers to calls in it alone, not from the client's words.

        Such a request is not passed on either. But whoever writes a page that somebody's agent reads must not be able
        to have them locked out by it, so only the network is slowed. When in doubt it was the client. Where clients are
        less to be trusted than what they read, a setting has it count against them as well.
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
            said = await self.assess(case, self._deadline(), self.at_once(words))
        except Stop:
            return False
        if said.verdict != "unsafe":
            return said.read
        return said.reason == RULES and await self.is_only_mentioned(case)

    def at_once(self, found: NormalizedRequest) -> Assessment | None:
        """What the rules say, where it is they who are asked, about few words and nothing else; else None."""
        if self._local is None or found.uploads or found.flags or "call" in map(_KIND, found.turns):
            return None
        return self._local.examine_small(SEPARATOR.join(map(_TEXT, found.turns)), self._context)

    async def _ask_verifier(self, case: ParsedRequest, ends: float) -> Assessment:
        found = case.found
        calls = "call" in map(_KIND, found.turns)
        if self._own is not None and not (calls or found.uploads or found.flags):
            # Words and nothing else: no name in it is anybody's, so there is nothing to be checked about its shape.
            plain = Payload(SEPARATOR.join(map(_TEXT, found.turns)), policy_context=self._context)
            return await self._ask_adapter(self._own, plain, case.whom)
        work = partial(self._build_payload, found, case.inspected, calls)
        # Checking calls takes longer than their size says.
        size = len(case.body) + (MAX_BYTES_ON_LOOP if calls or case.inspected else 0)
        payload = await self.run_bounded(work, size, case.whom)
        if self._own is not None:
            return await self._ask_adapter(self._own, payload, case.whom)
        return await self._ask_fetch_verdict(Request(case.scope, case.body, payload, case.whom), ends)

    def _build_payload(
        self,
        found: NormalizedRequest,
        inspected: Sequence[InspectedUpload],
        calls: bool,  # noqa: FBT001
    ) -> Mapping[str, Any]:
        payload: Mapping[str, Any] = payload_from_request(found, inspected, context=self._context)
        hits = rules_hit_by_calls(found.turns, self._gate) if calls else ()
        if not hits:
            return payload
        sources = [*payload["debug"]["sources"], {"type": "agent", "rule_hits": list(hits)}]
        return {**payload, "debug": {"sources": sources}}

    async def _ask_adapter(
        self, adapter: LocalRuleAdapter | RemoteAdapter, payload: Mapping[str, Any] | Payload, whom: str
    ) -> Assessment:
        try:
            return await adapter.examine_async(payload, client=whom)
        except Exception as error:  # noqa: BLE001 - it promises not to raise; a promise is all that is
            self._failed("verdict", error)
            return _UNANSWERED._replace(read=False)

    async def _ask_fetch_verdict(self, request: Request, ends: float) -> Assessment:
        """What somebody's own code says; whatever is not a verdict is unclear."""
        try:
            said: object = await wait_until(ends, self._fetch(request))
        except Exception as error:  # noqa: BLE001 - somebody's own code may raise anything: no answer
            self._failed("verdict", error)
            return _UNANSWERED
        verdict: object = said.verdict if isinstance(said, Assessment) else said
        # By type: a subclass may claim to be equal to anything.
        if type(verdict) is not str or verdict not in _VERDICTS:
            self._failed("verdict", TypeError())
            return _UNANSWERED
        if isinstance(said, Assessment):
            return _sanitize_assessment(said)
        return Assessment(cast(Verdict, verdict), OTHER, "fetch-verdict", 0.0)


def _sanitize_assessment(said: Assessment) -> Assessment:
    """Somebody's own assessment, as it can be logged and recorded; its verdict stands, whatever else is odd in it."""
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


async def run_in_pool(lane: WorkerPool, work: Callable[[], object], timeout_s: float, whom: str = "") -> object:
    async with asyncio.timeout(timeout_s):
        outcome = await asyncio.wrap_future(lane.submit(work, whom))
    return outcome()


async def wait_until(ends: float, awaited: Awaitable[T]) -> T:
    """What comes of it, or TimeoutError; code that does not let itself be cancelled is left behind."""
    task = asyncio.ensure_future(awaited)
    try:
        done, _ = await asyncio.wait({task}, timeout=max(0.0, ends - perf_counter()))
    finally:
        task.cancel()
    if not done or task.cancelled():
        raise TimeoutError
    return task.result()
