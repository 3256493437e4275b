"""The operator's own prompt, in the place that an API has for it.

Such a prompt names the moves of attackers in order to forbid them, and gives the model a part to play. In a client's
words both are signs of an attack. In the operator's they are usual, so they are left out before the rest is graded.
Everything else in that place counts as before, because a client that writes the whole body can write it too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from lockgate.core.requests.request_grade import weighed_signs
from lockgate.core.requests.request_sign_search import SignHit
from lockgate.core.requests.request_signs import HINT

_REQUESTS: Final = (
    r"attempts?|requests?|asking|demands?|trying|aufforderung(?:en)?|versuche?|demandes?|tentatives?|peticion(?:es)?|intentos?"
    r"|pedidos?"
)
# A negation, or the mention of a request, with no more than a few words between it and the sign.
_FORBIDDEN: Final = re.compile(
    r"\b(?:never|not|n['\u2019]t|cannot|no circumstances|refuse to|avoid|niemals|nie|nicht|keine|jamais|nunca|no|mai)\b"
    r"(?: [\w\u2019'-]+,?){0,3} ?$"
    rf"|\b(?:{_REQUESTS})\b(?:,? (?:that|to|at|which|you|for|by|from|the|users?|de|d|zu|ask|tell)){{0,5}},? ?$"
    r"|\b(?:never|not|n['\u2019]t)\b[^.!?\n]{0,120}\beven (?:if|when)\b[^.!?\n]{0,60}$"
)
# The same inside the sign: other languages put it there.
_FORBIDDEN_INSIDE: Final = re.compile(rf"\b(?:never|niemals|nicht|jamais|pas|nunca|mai|{_REQUESTS})\b")
# `If the user asks you to …` or `messages that ask …`, which end in a refusal.
_ASKED: Final = re.compile(
    r"\b(?:if|when|whenever|any|si|wenn|falls)\b[^.!?\n]{0,80}\b(?:(?:ask|say|tell|tr(?:y|ies)|attempt|request|want|demande"
    r"|pide)\w*|(?:bittet|fragt|auffordert),?)[^.!?\n,;:]{0,30}$"
)
_REFUSED: Final = re.compile(
    r"^[^\n]{0,80}(?<!never )(?<!not )(?<!n't )(?<!without )\b(?:refus(?:e|ed)\b|declin|reject|say no\b"
    r"|(?:do not|don['\u2019]t|never) (?:comply|obey|believe|follow)|(?:cannot|can['\u2019]t) share"
    r"|lehne|ablehnen|rechaza)"
)
_BEFORE, _BEHIND = 200, 120


def spare_guards(text: str) -> str:
    """Return the operator's prompt without what it forbids, and without the part that it gives the model to play."""
    found = weighed_signs(text)
    if found is None:
        return text
    folded, hits = found
    guards = [hit for hit in hits if hit.sign.points > HINT and _is_guard(folded, hit)]
    counted = [hit for hit in hits if hit.sign.points > HINT and hit not in guards]
    return _cut(text, [hit for hit in guards if not any(_overlap(hit, other) for other in counted)])


def _is_guard(text: str, hit: SignHit) -> bool:
    # A prompt is about rules, tools and makers. The grade counts a sign half that is negated, quoted or talked about.
    if hit.sign.is_broad or hit.sign.family == "cast" or hit.points < hit.sign.points:
        return True
    if not hit.firm:
        return False
    before = re.split(r"[.!?\n]", text[max(0, hit.start - _BEFORE) : hit.start])[-1]
    behind = text[hit.end : hit.end + _BEHIND]
    if _FORBIDDEN.search(before) or _FORBIDDEN_INSIDE.search(text, hit.start, hit.end):
        return True
    return _ASKED.search(before) is not None and _REFUSED.search(behind) is not None


def _overlap(one: SignHit, other: SignHit) -> bool:
    return one.start < other.end and other.start < one.end


def _cut(text: str, hits: Iterable[SignHit]) -> str:
    pieces: list[str] = []
    at = 0
    for hit in sorted(hits, key=lambda hit: hit.start):
        pieces.append(text[at : hit.start])
        at = max(at, hit.end)
    return "".join((*pieces, text[at:]))
