"""The verdict on a request: what the rules say, what a verifier (a model) is asked and says, and which prevails.

The rules alone (`view_payload`): unsafe where the signs of an attack are sure (request_signs.py), a pattern of this
installation hits, or a source reports `inj:…`; unclear where the signs are only suspected, text is hidden or encoded, a
limit was reached, a source reports anything else or nothing on a modality, or a flag was raised at ingress; else safe.

The question (`build_assess_question`): nothing an attacker writes may look like Lockgate's own lines. Each line of the
request is one JSON string behind a nonce that is drawn afterwards. A reply counts only if it is the one object that was
asked for, with that nonce in it.

With a verifier (`weigh_answer`): `COMPOSITION` has the verdict for every pair. What the rules are sure of stays unsafe,
so no model is asked about it. What they merely suspect, it decides: unclear without an answer in the form that
was asked for; unsafe where it says so, or its own filter refused the text; safe unless it did not see everything
(`partly-read`). An endpoint that rates texts does not look for injections, and clears no suspicion (`rules-disagree`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Final, NamedTuple, NoReturn, cast

from lockgate.core.questions import (
    NONCE,
    Answer,
    ModelText,
    NoAnswer,
    NoAnswerReason,
    ProviderBlock,
    Question,
    Rating,
    Verdict,
    fence_value,
    match_reply,
    patterns_of_object,
    schema_of_object,
)
from lockgate.core.redaction.redact import cut_excerpts
from lockgate.core.redaction.secrets import replace_half_pairs
from lockgate.core.requests.payload import Payload, is_name
from lockgate.core.requests.request_signs import grade_scan
from lockgate.core.tables import read_table, read_texts
from lockgate.core.text.scanner import Scanner, character_span

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
COMPOSITION: Final = {
    ProviderSays(says): cast("tuple[Verdict, Verdict, Verdict]", tuple(verdicts))
    for says, *verdicts in read_table(__package__, "composition.tbl", "composition", ("a verifier says", *_COLUMNS))
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
    scan = scanner.scan(payload.prompt_text)
    grade = grade_scan(payload.prompt_text, scan, payload.breaks, payload.own)
    # `loud` rules make a request unsafe, `quiet` ones unclear.
    loud, quiet = (list(grade.rules), []) if grade.sure else ([], list(grade.rules))
    spans = list(grade.spans)
    for part in scan.parts:
        for hit in part.hits:
            if hit.rule.family == "custom":
                loud.append(hit.rule.id)
                spans.append(character_span(part, max(0, hit.end - _BEFORE), hit.end))
        if part.encoded:
            quiet.append(f"encoded:{part.how}")
            spans.append((part.start, part.end))
    quiet += [f"cap:{limit}" for limit in scan.capped]
    reports = {hit.lower().startswith("inj:") for source in payload.sources for hit in source.rule_hits}
    unread = not {*payload.modalities} <= {"text", *(source.type for source in payload.sources)}
    loud += ["ingress:injection"] if True in reports else []
    ingress = {"rule-hit": False in reports, "flag": payload.ingress_flags, "unread": unread}
    quiet += [f"ingress:{name}" for name, is_given in ingress.items() if is_given]
    verdict: Verdict = "unsafe" if loud else "unclear" if quiet else "safe"
    rules = tuple(dict.fromkeys((*loud, *quiet)))[:_MOST_RULES]
    return RulesView(verdict, rules, tuple(dict.fromkeys(spans))[:_MOST_SPANS], unread)


# --- the question

MAX_REPLY_CHARACTERS = 200
# Below `low` no category is in doubt; from `high` on one is as good as flagged. In between the answer is unclear.
LOW_SCORE, HIGH_SCORE = 0.2, 0.8
MAX_LISTED = 32

SCHEMA = schema_of_object(verdict={"type": "string", "enum": ["safe", "unsafe", "unclear"]})

_SYSTEM = read_texts(__package__, "assess_prompt.md")["system"]


def build_assess_question(
    payload: Payload,
    findings: Sequence[str],
    spans: Sequence[tuple[int, int]],
    nonce: str,
    *,
    budget: int = 8000,
    custom: Sequence[str] = (),
) -> tuple[Question, bool]:
    """Return the question whether a request is safe, and whether the verifier sees all of the text.

    `findings` are rule ids and `spans` where in the prompt they were found. The nonce must be fresh and unguessable.
    """
    if NONCE.fullmatch(nonce) is None or len(set(nonce)) < 6:
        raise ValueError("a nonce has 16 to 64 letters and digits, drawn at random")
    redacted = payload.redacted(custom)
    redacted = redacted._replace(text=replace_half_pairs(redacted.text))
    shown = cut_excerpts(redacted, spans, budget=budget)
    whole = shown.whole and not shown.unread
    facts = {
        "characters": len(redacted.text),
        # Of the redacted text: the hash of a text in which only a phone number is missing gives that number away.
        "sha256": hashlib.sha256(redacted.text.encode("utf-8")).hexdigest(),
        "complete": whole,
        "redacted": dict(redacted.removed),
        "modalities": payload.modalities,
        **payload.policy_context._asdict(),
        "ingress_flags": _safe_names(payload.ingress_flags),
        "findings": _safe_names(findings),
        "sources": [
            {"type": source.type, "rule_hits": _safe_names(source.rule_hits), "meta": dict(source.meta)}
            for source in payload.sources[:MAX_LISTED]
        ],
    }
    count = len(shown.pieces)
    lines = [
        f"Facts about the request, from our own checks: {fence_value(facts, nonce)}",
        f"The request, {count} part{'s' if count > 1 else ''} of it{', with gaps between them' if count > 1 else ''}:",
        *(f"{nonce} {fence_value(piece, nonce)}" for piece in shown.pieces),
        f"End of the request. Answer now with the object and the nonce {nonce}.",
    ]
    question = Question(
        system=_SYSTEM.format(nonce=nonce),
        user="\n".join(lines),
        text="\n\n".join(shown.pieces),
        schema=SCHEMA,
        max_tokens=64 + len(nonce),
    )
    return question, whole


def _safe_names(names: Iterable[str]) -> list[str]:
    """Return the names that can do no harm, and a bounded number of them."""
    return list(dict.fromkeys(filter(is_name, names)))[:MAX_LISTED]


# --- the answer


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


_REPLIES = patterns_of_object(verdict='"(?:safe|unsafe|unclear)"')


def parse_verdict(text: str, nonce: str) -> Verdict | None:
    """The verdict in a model's reply, or None for anything but exactly the object that was asked for."""
    reply = match_reply(_REPLIES, text, nonce, MAX_REPLY_CHARACTERS)
    return cast("Verdict", reply["verdict"].strip('"')) if reply else None


def verdict_from_scores(scored: Rating) -> Verdict:
    """A rating endpoint's opinion as a verdict: sure of harm, sure of none, or neither.

    Only its own flag and whole, sensible scores count: an empty list of categories clears no request.
    """
    if scored.flagged:
        return "unsafe"
    scores = [score for _, score in scored.scores]
    if not scores or not all(type(score) in (int, float) and 0 <= score <= 1 for score in scores):
        return "unclear"
    worst = max(scores)
    return "unsafe" if worst >= HIGH_SCORE else "unclear" if worst >= LOW_SCORE else "safe"
