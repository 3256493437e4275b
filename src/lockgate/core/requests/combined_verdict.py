"""The verdict on a request: what the rules say, what a verifier (a model) says, and which of the two prevails.

The rules alone (`view_payload`): unsafe where the signs of an attack are sure (request_grade.py), a pattern of this
installation hits, or a source reports `inj:…`; unclear where the signs are only suspected, text is hidden or encoded, a
limit was reached, a source reports anything else or nothing on a modality, or a flag was raised at ingress; else safe.

With a verifier (`weigh_answer`): `COMPOSITION` has the verdict for every pair. What the rules are sure of stays unsafe,
so no model is asked about it. What they merely suspect, it decides: unclear without an answer in the form that
was asked for; unsafe where it says so, or its own filter refused the text; safe unless it did not see everything
(`partly-read`). An endpoint that rates texts does not look for injections, and clears no suspicion (`rules-disagree`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple, NoReturn

from lockgate.core.questions import Answer, ModelText, NoAnswer, NoAnswerReason, ProviderBlock, Rating, Verdict
from lockgate.core.requests.payload import Payload
from lockgate.core.requests.request_signs import grade_scan
from lockgate.core.requests.verifier_prompts import parse_verdict, verdict_from_scores
from lockgate.core.text.scanner import Scan, Scanner, character_span

# The verdict that the rules would give alone and the reason for it, in the order of the columns.
_COLUMNS: Final = ("safe", "unclear", "unsafe")
_ALONE: Final = ("no-findings", "rules-unsure", "rules")
NO_FINDINGS, RULES_UNSURE, RULES = _ALONE
_WITH_PROVIDER: Final = ("provider", "provider-unsure", "provider-filter", "rules-disagree", "partly-read")
PROVIDER, PROVIDER_UNSURE, PROVIDER_FILTER, RULES_DISAGREE, PARTLY_READ = _WITH_PROVIDER
# A closed list: reasons are printed, logged and traced.
REASONS: Final = (*_ALONE, *_WITH_PROVIDER, *(why.value for why in NoAnswerReason))

_MOST_RULES, _MOST_SPANS = 32, 64
# The engine reports where a hit ends. Patterns are a sentence long at most, and what stands before is context.
_BEFORE = 300


class ProviderSays(Enum):
    """What a verifier said about a request, or why it said nothing."""

    SAFE = "safe"
    SAFE_IN_PART = "safe, having seen a part"
    HARMLESS = "rated as harmless"
    UNSAFE = "unsafe"
    UNCLEAR = "unclear"
    NO_ANSWER = "no answer"
    CIRCUIT_OPEN = "circuit open"
    NOT_ASKED = "not asked"


# The verdict, where the rules find nothing, where they suspect, and where they are sure.
COMPOSITION: Final[Mapping[ProviderSays, tuple[Verdict, Verdict, Verdict]]] = {
    ProviderSays.SAFE: ("safe", "safe", "unsafe"),
    ProviderSays.SAFE_IN_PART: ("unclear", "unclear", "unsafe"),
    ProviderSays.HARMLESS: ("safe", "unclear", "unsafe"),
    ProviderSays.UNSAFE: ("unsafe", "unsafe", "unsafe"),
    ProviderSays.UNCLEAR: ("unclear", "unclear", "unsafe"),
    ProviderSays.NO_ANSWER: ("unclear", "unclear", "unsafe"),
    ProviderSays.CIRCUIT_OPEN: ("unclear", "unclear", "unsafe"),
    ProviderSays.NOT_ASKED: ("safe", "unclear", "unsafe"),
}


class RulesView(NamedTuple):
    """What the rules say: the verdict they would give alone, what they found, and where in `prompt_text`.

    `unread`: something came along that neither they nor a verifier look into. `rules` are Lockgate's own names, which
    may be logged.
    """

    verdict: Verdict
    rules: tuple[str, ...] = ()
    spans: tuple[tuple[int, int], ...] = ()
    unread: bool = False

    @property
    def rules_only(self) -> WeighedVerdict:
        """What follows from the rules alone."""
        column = _COLUMNS.index(self.verdict)
        return WeighedVerdict(COMPOSITION[ProviderSays.NOT_ASKED][column], _ALONE[column])


class WeighedVerdict(NamedTuple):
    """A verdict with its reason; `why` is set when a verifier should have answered and did not."""

    verdict: Verdict
    reason: str
    why: NoAnswerReason | None = None


class Assessment(NamedTuple):
    """A verdict with what may be logged about it: names from closed lists, a hash, a time.

    `read` is False where this process lacked the time or room even for the rules.
    """

    verdict: Verdict
    provider: str
    reason: str
    latency_ms: float
    rules: tuple[str, ...] = ()
    digest: str = ""
    read: bool = True

    def __bool__(self) -> NoReturn:
        raise TypeError('an assessment is neither true nor false\nhint: ask `assessment.verdict == "safe"`')


def view_payload(payload: Payload, scanner: Scanner) -> RulesView:
    """Return what the rules say about a payload."""
    return view_from_scan(payload, scanner.scan_or_none(payload.prompt_text))


def view_from_scan(payload: Payload, scan: Scan | None) -> RulesView:
    """Return the view on a payload from the scan of its text."""
    # 1. and 2., the text: `loud` rules make a request unsafe, `quiet` ones unclear.
    grade = grade_scan(payload.prompt_text, scan, payload.breaks, payload.own)
    loud, quiet = (list(grade.rules), []) if grade.sure else ([], list(grade.rules))
    spans = list(grade.spans)
    for part in () if scan is None else scan.parts:
        for hit in part.hits:
            if hit.rule.family == "custom":
                loud.append(hit.rule.id)
                spans.append(character_span(part, max(0, hit.end - _BEFORE), hit.end))
        if part.encoded:
            quiet.append(f"encoded:{part.how}")
            spans.append((part.start, part.end))
    quiet += [] if scan is None else [f"cap:{limit}" for limit in scan.capped]
    # 1. and 2., what came with it.
    unread = not {*payload.modalities} <= {"text", *(source.type for source in payload.sources)}
    _view_ingress(payload, loud, quiet)
    quiet += ["ingress:unread"] if unread else []
    # 3. Nothing.
    verdict: Verdict = "unsafe" if loud else "unclear" if quiet else "safe"
    rules = tuple(dict.fromkeys((*loud, *quiet)))[:_MOST_RULES]
    return RulesView(verdict, rules, tuple(dict.fromkeys(spans))[:_MOST_SPANS], unread)


def _view_ingress(payload: Payload, loud: list[str], quiet: list[str]) -> None:
    reports = {hit.lower().startswith("inj:") for source in payload.sources for hit in source.rule_hits}
    loud += ["ingress:injection"] if True in reports else []
    quiet += ["ingress:rule-hit"] if False in reports else []
    quiet += ["ingress:flag"] if payload.ingress_flags else []


def weigh_answer(view: RulesView, answer: Answer, *, nonce: str, whole: bool) -> WeighedVerdict:
    """Return the verdict that follows from the rules and an answer."""
    says, reason = _provider_says(answer, nonce=nonce, whole=whole and not view.unread)
    why = NoAnswerReason(reason) if says in (ProviderSays.NO_ANSWER, ProviderSays.CIRCUIT_OPEN) else None
    verdict = COMPOSITION[says][_COLUMNS.index(view.verdict)]
    if view.verdict == "unsafe":
        reason = RULES
    elif says is ProviderSays.HARMLESS and verdict == "unclear":
        reason = RULES_DISAGREE
    return WeighedVerdict(verdict, reason, why)


def verdict_without_answer(view: RulesView | None, why: NoAnswerReason) -> WeighedVerdict:
    """Step 4: no verifier answered or could be asked; `view` is None when not even the rules could look."""
    if view is None:
        return WeighedVerdict("unclear", why.value, why)
    return weigh_answer(view, NoAnswer(why), nonce="", whole=True)


def _provider_says(answer: Answer, *, nonce: str, whole: bool) -> tuple[ProviderSays, str]:
    """Return the row of the table for an answer, and the reason it gives where the rules are not sure."""
    if isinstance(answer, NoAnswer):
        says = ProviderSays.CIRCUIT_OPEN if answer.why is NoAnswerReason.CIRCUIT_OPEN else ProviderSays.NO_ANSWER
        return says, answer.why.value
    if isinstance(answer, ProviderBlock):
        return ProviderSays.UNSAFE, PROVIDER_FILTER
    opinion = parse_verdict(answer.text, nonce) if isinstance(answer, ModelText) else verdict_from_scores(answer)
    if opinion == "unsafe":
        return ProviderSays.UNSAFE, PROVIDER
    if opinion == "unclear":
        return ProviderSays.UNCLEAR, PROVIDER_UNSURE
    if opinion != "safe":
        return ProviderSays.NO_ANSWER, NoAnswerReason.ODD_ANSWER.value
    if not whole:
        return ProviderSays.SAFE_IN_PART, PARTLY_READ
    return (ProviderSays.HARMLESS if isinstance(answer, Rating) else ProviderSays.SAFE), PROVIDER
