"""Which sentences of a text give orders, and how far an order reaches.

Most ordinary documents contain imperative sentences, so an order means nothing by itself. It counts if this call's
values, or its tool's own verb and object, stand in it; `core/ruling/provenance.py` checks that.

Cues are a second, more expensive set of patterns of the scanner. They are looked for only in what a block shares with
a call, and the sentences around them are cut out.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from lockgate.core.tables import read_sections
from lockgate.core.text.readings import bytes_shape

_VERBS = read_sections(__package__, "imperatives.txt")
PLAIN_VERBS, NOUN_VERBS = _VERBS["plain verbs"], _VERBS["noun verbs"]
_CUES = read_sections(__package__, "order_cues.txt")
_PART = re.compile(r"\{([A-Za-z]+)\}")


def cue_patterns() -> tuple[tuple[str, bool], ...]:
    """Return the patterns that match up to an order's verb, each with whether it needs the engine's UTF-8 mode.

    A cue may be anywhere: it has no effect unless the call carries what is beside it.
    """
    parts = {name: "|".join(entries).replace(" ", r"\s{1,4}") for name, entries in _CUES.items()}
    parts |= {name: "|".join(_VERBS[name]) for name in ("openers", "modals")}
    for name, verbs in (("plain", PLAIN_VERBS), ("noun", NOUN_VERBS)):
        parts[name] = "|".join(verbs)
        parts[name.title()] = "|".join(f"{verb[0].upper()}(?i:{verb[1:]})" for verb in verbs)

    def expand(pattern: str) -> str:
        return _PART.sub(lambda part: expand(parts[part[1]]), pattern)

    sections = ("cues", "cues beyond ASCII")
    return tuple((expand(pattern), section != "cues") for section in sections for pattern in _CUES[section])


class Order(NamedTuple):
    """One sentence that gives orders: its span, its words, and the folded text of its neighbours within reach."""

    start: int
    end: int
    folded: bytes
    words: frozenset[bytes]
    reach: bytes
    points_away: bool


# Words that point outside their own sentence: the value stands before ("buy it") or after ("do the following").
_POINTERS = frozenset(
    b"it its this that these those them him her there here following below above same one such they".split()
)

# A sentence is at most this long on either side of its cue: a text without full stops must not become one long order,
# nor cost the time of one.
ORDER_REACH = 320
# An order reaches to the end of the second sentence behind it, and to the start of the second one before it.
_SENTENCES = 3
# What each byte becomes when words are read: letters and digits in lower case, all other ASCII a space.
WORD_BYTES = bytes(byte if byte > 127 or chr(byte).isalnum() else 32 for byte in range(256)).lower()


def prepare(data: bytes) -> bytes:
    """Return a text ready for reading words: in lower case, without coded signs, and as long as before."""
    if data.isascii():
        lower = data.lower()
    else:
        text = data.decode("utf-8", "replace")
        lower = text.lower().encode()
        if len(lower) != len(data):
            same = {ord(ch): ch.lower() for ch in set(text) if len(ch.lower().encode()) == len(ch.encode())}
            lower = text.translate(same).encode()
        if len(lower) != len(data):
            return data.lower()
        lower = bytes_shape("punctuation").sub(_blank, lower)
    # Looking for a byte by its number is ten times faster.
    if 92 in lower or 37 in lower or 38 in lower:
        lower = bytes_shape("coded sign").sub(_blank, lower)
    may_be_spelled = b"dot" in lower or b"at)" in lower or b"at]" in lower
    return bytes_shape("spelled sign").sub(_blank, lower) if may_be_spelled else lower


def _blank(match: re.Match[bytes]) -> bytes:
    return b" " * len(match[0])


def split_words(prepared: bytes) -> list[bytes]:
    """Return the words of a prepared text, without quoting, wrapping and punctuation."""
    return prepared.translate(WORD_BYTES).split()


def fold_words(prepared: bytes) -> bytes:
    """Return the same words with one space around each."""
    return b" " + b" ".join(split_words(prepared)) + b" "


def is_push_hint(data: bytes, cue: int) -> bool:
    """Return whether a cue is in a server's answer to a push."""
    hint = bytes_shape("push hint").match(data, data.rfind(b"\n", max(0, cue - 160), cue) + 1)
    return hint is not None and cue <= hint.end()


def order_from_cue(data: bytes, prepared: bytes, cue: int) -> Order:
    """Return the order around a cue: its sentence, and its neighbours within the same field."""
    low, high = max(0, cue - ORDER_REACH), min(len(data), cue + ORDER_REACH)
    starts = [low]
    for edge in bytes_shape("edge").finditer(data, low, cue):
        if edge[1] is None:
            starts.clear()
        starts.append(edge.end())
    ends: list[int] = []
    for edge in bytes_shape("edge").finditer(data, cue, high):
        if edge[1] is not None:
            ends.append(edge.end())
            if len(ends) == _SENTENCES:
                break
        elif not bytes_shape("goes on").search(data, max(low, edge.start() - 40), edge.start()):
            # A colon hands the order on to the field behind it: "do the following:", a blank line, then what to do.
            ends.append(edge.start())
            break
    else:
        ends.append(high)
    start, end = starts[-1], ends[0]
    sentence = split_words(prepared[start:end])
    own = frozenset(sentence)
    reach = fold_words(prepared[starts[-_SENTENCES:][0] : ends[-1]])
    return Order(start, end, b" " + b" ".join(sentence) + b" ", own, reach, not own.isdisjoint(_POINTERS))
