"""The verdict on a request: what the rules say, what a verifier (a model) says, and which of the two prevails.

The rules alone (`view_payload`):

1. A rule about speaking to an agent hits `prompt_text` in any of its readings, or a source reports `inj:…`: unsafe.
2. Any other rule hits, text is hidden or encoded, a limit was reached, a source reports anything else, a flag was
   raised at ingress, or a modality came along that no source reports on: unclear. Two rules of the seed are too broad
   to count by themselves (words like `token`, calls like `f(x)`), and some count in the arguments of a call only.
3. Nothing: safe.

With a verifier (`weigh_answer`). It can raise suspicion, and clear what the rules are unsure of. It cannot clear what
they call unsafe:

4. No answer, or not the object that was asked for: unsafe if the rules say so, else unclear.
5. It says unsafe, or its own filter refused the text: unsafe.
6. It says unclear: unsafe if the rules say so, else unclear.
7. It says safe: safe, unless the rules say unsafe (`rules-disagree`) or it did not see everything (`partly-read`). An
   endpoint that rates texts was told of no flag, source or finding, so it cannot clear what the rules are unsure of.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from lockgate.core.questions import Answer, ModelText, NoAnswer, NoAnswerReason, ProviderBlock, Rating, Verdict
from lockgate.core.requests.payload import Payload
from lockgate.core.requests.verifier_prompts import parse_verdict, verdict_from_scores
from lockgate.core.text.rules import Scope
from lockgate.core.text.scanner import RuleHit, Scan, ScannedPart, Scanner, character_span

NO_FINDINGS: Final = "no-findings"
RULES: Final = "rules"
RULES_UNSURE: Final = "rules-unsure"
PROVIDER: Final = "provider"
PROVIDER_UNSURE: Final = "provider-unsure"
PROVIDER_FILTER: Final = "provider-filter"
RULES_DISAGREE: Final = "rules-disagree"
PARTLY_READ: Final = "partly-read"

# A closed list: reasons are printed, logged and traced.
REASONS: Final = (
    NO_FINDINGS,
    RULES,
    RULES_UNSURE,
    PROVIDER,
    PROVIDER_UNSURE,
    PROVIDER_FILTER,
    RULES_DISAGREE,
    PARTLY_READ,
    *(why.value for why in NoAnswerReason),
)

# By the letter of the seed these flag every other text: they count where a call is judged, not for a whole request.
TOO_BROAD: Final = frozenset({"seed:call-syntax", "seed:credential-word"})
_MOST_RULES, _MOST_SPANS = 32, 64
# The engine reports where a hit ends. Patterns are a sentence long at most, and what stands before is context.
_BEFORE = 300


_ALONE: Final[Mapping[str, str]] = {"safe": NO_FINDINGS, "unsafe": RULES, "unclear": RULES_UNSURE}


class RulesView(NamedTuple):
    """What the rules say: the verdict they would give alone, what they found, and where in `prompt_text`.

    `unread` says that something came along which was not looked into: no verifier sees it either. `rules` holds only
    Lockgate's own names, so that it can be logged for any request.
    """

    verdict: Verdict
    rules: tuple[str, ...] = ()
    spans: tuple[tuple[int, int], ...] = ()
    unread: bool = False

    @property
    def rules_only(self) -> WeighedVerdict:
        """What follows from the rules alone."""
        return WeighedVerdict(self.verdict, _ALONE[self.verdict])


class WeighedVerdict(NamedTuple):
    """A verdict with its reason; `why` is set when a verifier should have answered and did not."""

    verdict: Verdict
    reason: str
    why: NoAnswerReason | None = None


class Assessment(NamedTuple):
    """A verdict with what may be told about it: names from closed lists, a hash, a time.

    `read` is False where not even the rules could look: no verifier that is down does that, only a want of time or room
    in this process.
    """

    verdict: Verdict
    provider: str
    reason: str
    latency_ms: float
    rules: tuple[str, ...] = ()
    digest: str = ""
    read: bool = True


_NOTHING: Final = RulesView("safe")


def view_payload(payload: Payload, scanner: Scanner) -> RulesView:
    """Return what the rules say about a payload."""
    return view_from_scan(payload, scanner.scan_or_none(payload.prompt_text))


def view_from_scan(payload: Payload, scan: Scan | None) -> RulesView:
    """Return the view on a payload from the scan of its text; without findings a plain payload is safe."""
    # Rules that alone make a request unsafe, rules that make it unclear, and where in the text they hit.
    loud: list[str] = []
    quiet: list[str] = []
    spans: list[tuple[int, int]] = []
    # 1. and 2., the text.
    if scan is not None:
        _view_text(scan, loud, quiet, spans)
    if not loud and not quiet and payload.is_plain:
        return _NOTHING
    # 1. and 2., what came with it.
    unread = _view_sources(payload, loud, quiet)
    # 3. Nothing.
    verdict: Verdict = "unsafe" if loud else "unclear" if quiet else "safe"
    rules = tuple(dict.fromkeys((*loud, *quiet)))[:_MOST_RULES]
    return RulesView(verdict, rules, tuple(dict.fromkeys(spans))[:_MOST_SPANS], unread)


def _view_text(scan: Scan, loud: list[str], quiet: list[str], spans: list[tuple[int, int]]) -> None:
    for part, hit in _hits(scan):
        rule = hit.rule
        if rule.scope is Scope.ARGUMENTS or rule.id in TOO_BROAD:
            continue
        (loud if rule.scope is Scope.AGENT else quiet).append(rule.id)
        spans.append(_span(part, hit.end))
    for part in scan.parts:
        if part.encoded:
            quiet.append(f"encoded:{part.how}")
            spans.append((part.start, part.end))
    quiet += [f"cap:{limit}" for limit in scan.capped]


def _view_sources(payload: Payload, loud: list[str], quiet: list[str]) -> bool:
    """Add what earlier steps report; return whether a modality came along that none of them reports on."""
    hits = [hit.lower() for source in payload.sources for hit in source.rule_hits]
    if any(hit.startswith("inj:") for hit in hits):
        loud.append("ingress:injection")
    if not all(hit.startswith("inj:") for hit in hits):
        quiet.append("ingress:rule-hit")
    if payload.ingress_flags:
        quiet.append("ingress:flag")
    reported = {source.type for source in payload.sources}
    unread = any(modality not in reported for modality in payload.modalities if modality != "text")
    if unread:
        quiet.append("ingress:unread")
    return unread


def weigh_answer(view: RulesView, answer: Answer, *, nonce: str, whole: bool) -> WeighedVerdict:
    opinion: Verdict | None
    match answer:
        case NoAnswer():
            return verdict_without_answer(view, answer.why)
        case ProviderBlock():
            # 5. Its filter refused the text.
            return WeighedVerdict("unsafe", PROVIDER_FILTER)
        case ModelText():
            opinion = parse_verdict(answer.text, nonce)
        case Rating():
            opinion = verdict_from_scores(answer)
    if opinion == "unsafe":
        # 5. It says unsafe.
        return WeighedVerdict("unsafe", PROVIDER)
    if opinion == "unclear":
        # 6. It says unclear.
        return view.rules_only if view.verdict == "unsafe" else WeighedVerdict("unclear", PROVIDER_UNSURE)
    if opinion != "safe":
        return verdict_without_answer(view, NoAnswerReason.ODD_ANSWER)
    # 7. It says safe.
    if view.verdict == "unsafe" or (view.verdict == "unclear" and isinstance(answer, Rating)):
        return WeighedVerdict("unclear", RULES_DISAGREE)
    if not whole or view.unread:
        return WeighedVerdict("unclear", PARTLY_READ)
    return WeighedVerdict("safe", PROVIDER)


def verdict_without_answer(view: RulesView | None, why: NoAnswerReason) -> WeighedVerdict:
    """Step 4: no verifier answered or could be asked; `view` is None when not even the rules could look."""
    if view is not None and view.verdict == "unsafe":
        return WeighedVerdict("unsafe", RULES, why)
    return WeighedVerdict("unclear", why.value, why)


def _hits(scan: Scan) -> Iterator[tuple[ScannedPart, RuleHit]]:
    for part in scan.parts:
        for hit in part.hits:
            yield part, hit


def _span(part: ScannedPart, end: int) -> tuple[int, int]:
    return character_span(part, max(0, end - _BEFORE), end)
