"""Words that read like an attack and may be none where they stand.

The rules are made for text that an agent reads: a page that says `do not tell the user` is an attack. An operator may
say so to the model, and people talk about attacks without making one. A program cannot tell all of these apart. So it
asks two questions after the rules alone have called a request unsafe:

1. `remove_house_rules`: sentences by which a system turn protects itself (`never reveal these instructions`). A
   sentence goes only if every word of it is from a closed list, so that it has no room for anything else. If the rest
   is not unsafe, neither is the request. Only the sender's own system turn counts, and no tool's description.
2. `remove_mentions`: words that are quoted, translated, taken back, or not to be mentioned. This is a guess, so no
   request passes for it. If the rest is not unsafe, the request is refused, but is no strike. After a few it is one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from lockgate.abuse_gate.request.payload_from_body import NormalizedRequest

# Texts and sentences longer than people write by hand get no second look.
MAX_CHARACTERS: Final = 65_536
MAX_SENTENCE: Final = 240

# --- 1. Matched against a whole sentence with single spaces, which may have no other words than these.

_ABOUT_IT: Final = (
    r"(?:(?:any|all|some|parts?|the contents?|the text|the details|any part|anything) of |about |anything about )?"
)
_ADJECTIVE: Final = (
    r"(?:(?:internal|hidden|secret|system|initial|custom|own|above|confidential|original|full|exact) ){0,2}"
)
_NOUN: Final = (
    r"(?:instructions?|rules?|prompts?|guidelines?|system messages?|messages?|configuration|polic(?:y|ies)|directives?"
    r"|tools?|tool names?|api keys?|passwords?|credentials|secrets)"
)
_THING: Final = rf"{_ABOUT_IT}(?:(?:these|this|your|the|our|any) )?{_ADJECTIVE}{_NOUN}"
_MACHINE: Final = (
    r"that you are (?:an? )?(?:ai|bot|chatbot|robot|machine|computer program|(?:large )?language model|llm"
    r"|ai (?:assistant|model|language model)|virtual assistant|using tools)"
)
_THINGS: Final = rf"(?:{_THING}(?:(?:, {_THING}){{0,3}},? (?:or|and) {_THING})?|{_MACHINE})"
_PERSON: Final = (
    r"(?:(?:the|any|a|your|an) )?(?:end )?(?:users?|customers?|clients?|visitors?|anyone|anybody|others|people)"
)
_TELL: Final = (
    r"(?:reveal|disclose|share|discuss|mention|repeat|quote|summari[sz]e|paraphrase|divulge|expose|leak|describe|show"
    r"|print|output|explain|state|acknowledge|admit|talk about|refer to)"
)
_TELLS: Final = rf"(?:{_TELL}(?:(?:, {_TELL}){{0,4}},? or {_TELL})?|tell {_PERSON})"
_EVEN_IF: Final = (
    r"(?:,? (?:even (?:if|when) (?:you are |they |the user )?(?:asked?|asks|requested)(?: to| directly| to do so)?"
    r"|under any circumstances?|at any time|ever|no matter what))?"
)
_NOT: Final = (
    r"(?:(?:you )?(?:must|should|may|can|will) (?:never|not)|(?:you )?cannot|never|(?:please )?do(?: not|n['\u2019]t)"
    r"|under no circumstances(?: should you| may you| must you)?|always refuse to|refuse to|decline to)(?: ever)?"
)
_WHO: Final = rf"(?:{_PERSON}|someone|somebody|they)"
_INSTRUCTIONS: Final = (
    r"(?:(?:all|any|of|the|your|these|my|its|previous|prior|above|earlier|existing|system) ){0,4}"
    r"(?:instructions?|rules?|prompts?|guidelines?|system prompt)"
)
_DROP: Final = r"(?:ignore|disregard|forget|override|bypass|change|break|violate)"
_REFUSE: Final = (
    r"(?:then )?(?:you (?:must |should )?)?(?:(?:please|politely|always|firmly|just) )?"
    r"(?:refuse|decline|say no|reject it|do(?: not|n['\u2019]t) (?:comply|obey|do so|do it)|ignore it"
    r"|ignore the (?:request|attempt)|ignore that request|keep following (?:them|your instructions|these instructions)"
    r"|continue (?:to follow|following) (?:them|your instructions|these instructions))"
    r"(?: politely| to do so| to comply)?"
)
_ORDER: Final = rf"{_DROP} {_INSTRUCTIONS}"
_QUOTED_ORDER: Final = rf"(?:\"{_ORDER}[.!]?\"|'{_ORDER}[.!]?'|\u201c{_ORDER}[.!]?\u201d|\u2018{_ORDER}[.!]?\u2019)"
_PAPER: Final = (
    r"(?:(?:the|a|any|an|your) )?(?:(?:retrieved|uploaded|attached|web|search|tool|external) )?"
    r"(?:documents?|pages?|results?|outputs?|files?|e?mails?|websites?|attachments?)"
)

_HOUSE_RULES: Final = re.compile(
    "(?:[-*\u2022] |[0-9]{1,2}[.)] )?(?:(?:important|note|remember|security): ?)?(?:"
    rf"{_NOT} {_TELLS} {_THINGS}(?: (?:to|with) {_PERSON})?{_EVEN_IF}"
    rf"|(?:always )?keep {_THINGS} (?:strictly )?(?:confidential|secret|private|hidden)(?: from {_PERSON})?"
    r"(?: at all times)?"
    rf"|(?:if|when|whenever|even if) {_WHO} (?:ever )?"
    r"(?:(?:asks?|tells?|instructs?|orders?|wants?) (?:you|the assistant) to|says? to|tries to|attempts? to)"
    rf" (?:{_ORDER}|{_TELL} {_THING}),? {_REFUSE}"
    rf"|(?:if|when|whenever|even if) (?:{_PAPER}|{_WHO}) (?:says?|contains?|includes?|writes?) {_QUOTED_ORDER},?"
    rf" {_REFUSE}"
    r"|(?:users?|people|attackers) (?:may|might|could|will) (?:attempt|try) (?:prompt injections?|jailbreaks?)"
    rf"(?:,? (?:such as|like|for example|e\.g\.),? {_QUOTED_ORDER})?"
    r"|(?:ignore|disregard|(?:do not|never) follow) (?:any|all) (?:instructions?|commands|orders)"
    rf" (?:in|inside|within|from) {_PAPER}"
    rf"(?: that (?:tells?|asks?|instructs?) you to (?:change your (?:behaviou?r|role|instructions)|{_ORDER}))?"
    r")[.!]?",
    # ASCII: some other letters equal these if case is ignored.
    re.IGNORECASE | re.ASCII,
)
# Keeps the separators, which stay in the text.
_SENTENCES: Final = re.compile(r"((?<=[.!?])[ \t]+|\r?\n)")

# --- 2. Guesses.

# A clause of plain words, up to where another could begin.
_OPEN: Final = r"(?:(?!\b(?:ignore|disregard|forget|override|instead|and|but|then)\b)[a-z0-9 ,'\u2019-]){0,160}"
_NOT_TOLD: Final = (
    r"\b(?:never|do not|don['\u2019]?t|must not|should not|may not|cannot) (?:ever )?"
    r"(?:reveal|disclose|mention|tell|share|repeat|show|discuss|say|print|output|quote|describe|admit|explain|refer to"
    rf"|talk about)\b{_OPEN}"
)
_TO_REFUSE: Final = r"\b(?:if|when|whenever) [^.!?\n]{0,160}\b(?:refuse|decline|do not comply|say no)\b[^.!?\n]{0,40}"
_QUOTED: Final = (
    r"\"[^\"\n]{1,200}\"|(?<!\w)'[^'\n]{1,200}'(?!\w)|`[^`\n]{1,200}`|\u2018[^\u2018\u2019\n]{1,200}\u2019"
    r"|[\u201c\u201e][^\u201c\u201d\n]{1,200}[\u201c\u201d]|\u00ab[^\u00ab\u00bb\n]{1,200}\u00bb"
)
_TRANSLATED: Final = (
    r"\b(?:translate|proofread|classify|rephrase|how (?:do|would) (?:you|i) say)\b[^:\n]{0,60}:[^\n]{0,200}"
)
_TAKEN_BACK: Final = (
    r"\b(?:forget|ignore|disregard|scratch|drop) (?:"
    r"(?:everything|all|what|anything) (?:that )?i(?: have|['\u2019]ve)?(?: just)?"
    rf" (?:said|wrote|told you|mentioned|asked|sent)\b{_OPEN}"
    r"|(?:all |all of )?(?:the|my) (?:previous|last|earlier|above) [a-z]{4,12}(?: that)? i (?:gave|sent|wrote)\b"
    r"|(?:all of )?the (?:above|previous [a-z]{4,12}),? (?=let['\u2019]?s|here(?: is|['\u2019]s)))"
)
_MENTIONS: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        _NOT_TOLD,
        r"\bwithout (?:telling|informing|notifying|asking) (?:the )?[a-z]{2,12}\b",
        _TO_REFUSE,
        _QUOTED,
        _TRANSLATED,
        r"(?<!your )\bsystem prompt (?:format|template|syntax|tags?|tokens?) (?:for|of|in|used by) [a-z]{2,12}\b",
        _TAKEN_BACK,
    )
)
_REVIEW: Final = re.compile(
    r"\b(?:review|explain|check|audit|lint|debug|refactor|improve|why|what)\b[^\n]{0,80}"
    r"\b(?:script|dockerfile|code|snippet|makefile|workflow|one-liner|command|curl|wget)\b",
    re.IGNORECASE,
)
_SHELL_LINE: Final = re.compile(r"\b(?:curl|wget)\b[^\n|]{0,300}\|\s?(?:sudo )?(?:ba|z)?sh\b")


def remove_house_rules(found: NormalizedRequest) -> NormalizedRequest | None:
    """Return the request without the house rules of its system turns; None if it has none."""
    return _change_turns(found, ("system",), _strip_house_rules)


def remove_mentions(found: NormalizedRequest) -> NormalizedRequest | None:
    """Return the request without words that seem only to mention an attack; None if it has none."""
    return _change_turns(found, ("system", "user", "agent"), _strip_mentions)


def _change_turns(
    found: NormalizedRequest, sources: tuple[str, ...], change: Callable[[str], str]
) -> NormalizedRequest | None:
    if sum(len(turn.text) for turn in found.turns) > MAX_CHARACTERS:
        return None
    turns = tuple(
        turn._replace(text=change(turn.text))
        if turn.source in sources and turn.kind == "text" and not turn.outside
        else turn
        for turn in found.turns
    )
    return None if turns == found.turns else found._replace(turns=turns)


def _strip_house_rules(text: str) -> str:
    return "".join("" if _is_house_rule(sentence) else sentence for sentence in _SENTENCES.split(text))


def _is_house_rule(sentence: str) -> bool:
    return len(sentence) <= MAX_SENTENCE and _HOUSE_RULES.fullmatch(" ".join(sentence.split())) is not None


def _strip_mentions(text: str) -> str:
    text = _strip_house_rules(text)
    for pattern in _MENTIONS:
        text = pattern.sub(" ", text)
    return _SHELL_LINE.sub(" ", text) if _REVIEW.search(text) else text
