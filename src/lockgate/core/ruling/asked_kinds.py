"""By which words a goal asks for a kind of effect: `effects/asked_by.txt`, read as patterns.

What the user forbids or only asks about is no wish: "don't delete anything", "who may write to that bucket?".
"""

from __future__ import annotations

import re
from functools import lru_cache

from lockgate.core.ruling.effects.effect import ASKED_BY
from lockgate.core.tables import read_table

# A goal is as long as its user likes; wishes stand in its first pages.
_MAX_WISHES = 20_000
_SENTENCE_END = re.compile(r"[.!?;\u061f]{1,8}(?=\s|$)|[\n\u3002\uff01\uff1f]")
# A question that wants to know something. "Can you rotate the key?" is no such question.
_ASKS_TO_KNOW = re.compile(
    r"""\W*(?:
      (?:and|so|but|hi|hey|hello|und|also|et|y|e)\W+)*(?:
      (?:what|which|who|whose|whom|why|how\s(?:many|much|long|often|far|old|come)|what's|whats|who's|(?:by|until|since)\swhen)\b
    | (?:was|wer|wen|wem|wessen|welche[rsmn]?|warum|wieso|weshalb|wie\sviele?)\b
    | (?:qué|cuál(?:es)?|quién(?:es)?|cuánt[oa]s?|por\squé)\b | (?:quel(?:le)?s?|qui|pourquoi|combien|c'est\squoi)\b
    | (?:qual|quais|quem|quant[oa]s|por\sque)\b | (?:quale|quali|chi|perché|quant[oi]|che\scosa|cosa)\b
    | (?:wat|welke?|waarom|hoeveel|wiens)\b | (?:vad|vilken|vilka|vem|varför|hur\smånga)\b
    | (?:jak(?:i|a|ie)|kto|dlaczego|ile)\b | (?:что|кто|какой|какие|почему|зачем|сколько)\b
    | (?:is|are|were|do|does|did|has|have|had|when|where|how|any|am|ist|sind|hat|haben|gibt|wann|wo|wie|kann|hay|es
      |est|est-ce|y|où|quand|comment|cuándo|dónde|cómo|quando|onde|dove|come|è|zijn|heeft|wanneer|waar|hoe)\b
      [^?\uff1f\u061f]{0,400}[?\uff1f\u061f]
    )""",
    re.VERBOSE,
)
# What stands behind these words is forbidden; "don't forget to …" and "not only …" forbid nothing, and who "has no
# access" shall perhaps get it.
_FORBIDDEN = re.compile(
    r"""(?<!\w)(?:
      (?:do\s?n.?t|do\snot|never|without|nothing|avoid|instead\sof|rather\sthan|(?<!has\s)(?<!have\s)no
        |(?<!n't\s)(?<!can\s)(?<!does\s)(?<!did\s)(?<!is\s)(?<!are\s)(?<!was\s)not
        |nicht|nichts|niemals|(?<!hat\s)(?<!haben\s)kein(?:e[nrms]?)?|statt|ohne
        |sans|ne|n'|sin|nunca|sem|não|nao|senza|non|zonder|geen|niet|niets
        |inte|utan|inga|ingen|nie|bez|не|без|nada|rien|niente)\b
      (?!\s+(?:forget|hesitate|only|longer|more|need|worry|nur|problem|tiene|tienen|tem|ha)\b)
      (?:\s+[\w'-]+){1,4}
    | \b[\w'-]{1,30}\s+(?:nothing|nichts|rien|nada|niente|niets)\b
    | (?:不要|请勿|别|勿|不许|不能).{1,4} | .{1,4}(?:なし|しない|せずに|しなくて|하지\s?마)
    )""",
    re.VERBOSE,
)
# What the user wants to know whether to do: "tell me which ones I should approve", "say if it can be deleted".
_WHETHER = re.compile(
    r"""(?<!\w)(?:(?:which|what|who|whom|whether|if)\b[^.,;:\n]{0,80}?\b(?:should|could|can|may|must|ought\sto)\b
      (?:\s+(?:i|we|one|you|be|get|safely|already|now))*|should\s+(?:i|we)|whether\s+to)\s+[\w'-]+""",
    re.VERBOSE,
)
# Acts that are forbidden altogether: "don't order", "do not send anything yet", "without buying it", "don't commit or
# push". "Don't push to main" and "don't delete anything else" forbid less, and what is only told of others forbids
# nothing: "the workers do not restart". In "read the mails do not send any" nothing is told, since no clause begins.
_FORBIDDEN_ALTOGETHER = re.compile(
    r"""(?:(?P<told>(?:\b(?:they|who|which|[a-z]{2,20}s\sthat)
          | (?:^|[.,;:!?()"\n\u2013\u2014-]\s{0,8}|\b(?:why|if|when|because|since|but)\s)
            (?:it|he|she|(?:the|my|our|your|their|his|her|its|these|those)\s[\w'-]{1,30}))\s(?:(?:still|often|also)\s)?)?
        (?<!\w)(?:do\s?n.?t|do\snot|never)
      | \b(?:must|may|should|shall)\s(?:not|never) | (?<!\w)without)\s+(?:(?:actually|ever|really)\s+)?
      (?:(?:plac(?:e|ing)|mak(?:e|ing)|hit|press|submit)\s+(?:an?\s|any\s)?)?
      (?P<acts>[a-z]{3,12}(?:(?:,\s[a-z]{3,12}){0,3},?\s(?:or|nor)\s[a-z]{3,12})?)
      (?:\s+(?:it|them|any|anything|that|this|yet|now|one|for\sme|out|ever|at\sall|e-?mails?|mails?|messages?
        |repl(?:y|ies)|orders?|payments?|money|files?|data|records?|changes|commits|posts?|packages?))*\s*
      (?=[.,;:!?)\n\u2013\u2014-]|$|\b(?:and|or|but|just|only|i|let)\b|\b(?:without|until|before|unless)\s(?:asking|my|i|we)\b)""",
    re.VERBOSE,
)
# The act itself, and so less than asks for it in `asked_by.txt`: who wants a reply drafted and not sent says "reply".
_ACTS = {
    "orders": "order buy purchase book reserve checkout booking reservation",
    "pays": "pay transfer order buy purchase payment",
    "sends-message": "send mail email",
    "publishes": "publish post tweet release",
    "pushes": "push",
    "shares": "share invite",
    "deletes-record": "delete remove erase",
    "deletes-data": "delete remove drop erase",
    "deletes-outside": "delete remove erase",
    "changes-service": "deploy restart",
    "installs-package": "install",
}
# These are no things as well. Of the others, "my mail" and "order 4711" ask for nothing.
_ONLY_VERBS = frozenset("send buy publish delete remove erase".split())
_BEFORE_BID = frozenset("please now just ok okay yes fine then you instead go do ahead may can could should".split())
# "Go ahead and order", "yes, place the order", "let's order", but not "Bob will place the order".
_BIDS = re.compile(
    r"(?m)^(?: (?:please|now|just|ok|okay|yes|fine|then|so|you|can|could|may|should))*"
    r" (?:(?:place|make)(?: the| an?)?|let s|let us)(?= )|(?<= ahead) (?:and|with)(?: the| an?)?(?= )"
)
# "Looks good, order them", but not "my cart, order history and mail".
_BID_AFTER_COMMA = re.compile(r", (?=\w+ (?:it|them|this|that|these|those|the|an?|one|all|both)\b)")
_BEFORE_NEXT_BID = frozenset("and to or".split())
_BEHIND_THING = frozenset("from of for in is was are has and or that to with at on by number".split())
_WORD = re.compile(r"[^\W_]+")


def wishes_in(text: str) -> str:
    """Return the words of a text in lower case, a line for each sentence, without what it forbids or only asks about.

    Nothing, where all that the text does is to ask questions.
    """
    lower = text[:_MAX_WISHES].lower().replace("\u2019", "'")
    sentences = _split_sentences(lower)
    if all(_ASKS_TO_KNOW.match(sentence) for sentence in sentences):
        return ""
    lines = (_WORD.findall(_WHETHER.sub(" ", _FORBIDDEN.sub(" ", sentence))) for sentence in sentences)
    return "".join(f" {' '.join(words)} \n" for words in lines if words)


def forbidden_after(text: str, before: frozenset[str] = frozenset()) -> frozenset[str]:
    """Return the kinds of effects that the user forbids altogether, once this text is said after others."""
    lower = text[:_MAX_WISHES].lower().replace("\u2019", "'")
    bans = (found["acts"] for found in _FORBIDDEN_ALTOGETHER.finditer(lower) if not found["told"])
    acts = {act for ban in bans for act in _WORD.findall(ban)}
    # Deleting, ordering, dropping; orders.
    stems = {act.removesuffix("ing") for act in acts}
    acts |= stems | {f"{stem}e" for stem in stems} | {stem[:-1] for stem in stems}
    # What is asked for in the same breath, or later, is not forbidden; in "don't order or buy from them" nothing is.
    rest = _FORBIDDEN_ALTOGETHER.sub(". ", lower).replace(". or ", ". not ")
    asked = _find_bidden(wishes_in(_BID_AFTER_COMMA.sub(". ", rest)))
    return frozenset(
        kind
        for kind, words in _ACTS.items()
        if asked.isdisjoint(words.split()) and (kind in before or not acts.isdisjoint(words.split()))
    )


def _find_bidden(wishes: str) -> set[str]:
    """Return the words of wishes that stand where an act does: "mail Bob", "and order it", not "read my mail"."""
    found: set[str] = set()
    for line in _BIDS.sub(" please", wishes).splitlines():
        words = line.split()
        for before, word, behind in zip(["", *words], words, [*words[1:], ""], strict=False):
            is_thing = behind in _BEHIND_THING or behind[:1].isdigit()
            is_bid = not before or before in _BEFORE_BID or (before in _BEFORE_NEXT_BID and behind)
            if word in _ONLY_VERBS or (is_bid and not is_thing):
                found.add(word)
    return found


def _split_sentences(text: str) -> list[str]:
    """Return the sentences of a text, each with the sign that ends it."""
    ends = [found.end() for found in _SENTENCE_END.finditer(text)] + [len(text)]
    starts = [0, *ends]
    return [part for start, end in zip(starts, ends, strict=False) if (part := text[start:end].strip())]


def is_asked_by(kind: str, wishes: str) -> bool:
    """Return whether wishes, as `wishes_in` gives them, have a phrase by which people ask for this kind."""
    return _pattern_of_phrases(ASKED_BY.get(kind, ())).search(wishes) is not None


def is_word_for_kind(kind: str, word: str) -> bool:
    """Return whether a word is one by which a goal asks for this kind."""
    return word.isalpha() and is_asked_by(kind, f" {word.lower()} ")


# What protects, by the phrases that speak of it.
_PROTECTIONS: dict[str, tuple[str, ...]] = {}
for _about, _phrases in read_table("lockgate.core.ruling.effects", "tools.tbl", "protections", ("about", "phrases")):
    _PROTECTIONS[_about] = (*_PROTECTIONS.get(_about, ()), *_phrases.split(", "))


def names_other_protection(wishes: str, act: str) -> bool:
    """Return whether wishes speak of something that protects, and an act of something else that does: alerts, logs."""
    wished, switched = (
        {name for name, phrases in _PROTECTIONS.items() if _pattern_of_phrases(phrases).search(text)}
        for text in (wishes, act)
    )
    # An alarm that is to be off may also be quiet for a while; a wish for quiet names no alarm.
    wished |= {"quiet"} if "alerts" in wished else set()
    return bool(wished) and bool(switched) and wished.isdisjoint(switched)


@lru_cache(maxsize=256)
def _pattern_of_phrases(phrases: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(_pattern_of_phrase, phrases)) or r"(?!)")


def _pattern_of_phrase(phrase: str) -> str:
    first, _, second = phrase.partition(" ")
    if not second:
        return _pattern_of_word(first)
    one, other = _pattern_of_word(first), _pattern_of_word(second)
    return rf"{one}(?:[^ \n]+ ){{0,4}}(?<= ){other[1:]}|{other}(?:[^ \n]+ ){{0,4}}(?<= ){one[1:]}"


def _pattern_of_word(word: str) -> str:
    """Return the pattern of a word with the blanks around it; without them in scripts that have none."""
    if word[0] > "\u2e80":
        return re.escape(word)
    parts = [
        re.escape(part[:-1]) + r"[^ \n]*"
        if part.endswith("*")
        else re.escape(part[:-1])
        if part.endswith("!")
        else re.escape(part[:-1]) + "(?:e|es|ed|ing)"
        if part.endswith("e")
        else re.escape(part) + "(?:s|es|ed|ing)?"
        for part in word.split("-")
    ]
    return f" {' '.join(parts)} "
