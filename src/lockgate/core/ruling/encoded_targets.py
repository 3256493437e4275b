"""The forms in which an encoded text would hold a target: an attacker may write an order so that only a model reads it.

Decoding every text in every code would cost each ordinary text. A call names its target in plain words, though: encoded
in each way, it is searched for in the text.
"""

from __future__ import annotations

import base64
import codecs
import re
from collections.abc import Callable
from functools import lru_cache

# A shorter target, once encoded, may stand anywhere by chance.
_MIN_TARGET, _MAX_TARGET = 8, 120
_MIN_FORM = 10


@lru_cache(maxsize=512)
def encoded_forms(target: str) -> tuple[tuple[str, bytes], ...]:
    """Return how a text would hold this target in each code, with the name of the code; nothing for a short one."""
    plain = target.encode("utf-8", "ignore")
    if not _MIN_TARGET <= len(plain) <= _MAX_TARGET:
        return ()
    forms = [
        ("reversed", plain[::-1]),
        ("rot13", codecs.encode(target, "rot13").encode("utf-8", "ignore")),
        ("decimal", b" ".join(b"%d" % byte for byte in plain)),
        ("binary", b" ".join(f"{byte:08b}".encode() for byte in plain)),
    ]
    forms += [("base32", form) for form in _aligned_forms(plain, base64.b32encode, 5, 8)]
    forms += [("base64", form) for form in _aligned_forms(plain, base64.b64encode, 3, 4)]
    forms += [("ascii85", form) for form in _aligned_forms(plain, base64.a85encode, 4, 5)]
    return tuple((name, form) for name, form in forms if len(form) >= _MIN_FORM and form != plain)


def find_encoded(target: str, text: bytes) -> tuple[str, int] | None:
    """Return the code in which a text holds this target, and where if that is known; breaks and case do not hide it."""
    forms = encoded_forms(target)
    if not forms:
        return None
    joined, lowered = _without_breaks(text)
    plain = target.lower().encode("utf-8", "ignore")
    for name, form in forms:
        # Codes of letters keep their case; the others are the same in both.
        if name in ("reversed", "rot13"):
            place = lowered.find(form.lower())
        elif name in ("decimal", "binary"):
            place = text.find(form)
        else:
            place = max(text.find(form), 0) if form in joined else -1
        if place >= 0:
            return name, place
    parts = re.split(rb"[@.]", plain)
    # To read all signs of all texts for each target takes seconds: few texts have every part of it.
    may_be = len(parts) > 1 and plain not in lowered and all(part in lowered for part in parts)
    return ("spelled out", 0) if may_be and plain in _written_out(text) else None


_SPOKEN_AT, _SPOKEN_DOT = re.compile(rb"\b(?:at|arroba|aet)\b"), re.compile(rb"\b(?:dot|punkt|punto|point)\b")
_BEFORE, _BEHIND = b" \t\r\n\v\f[({<", b" \t\r\n\v\f])}>"


@lru_cache(maxsize=4)
def _written_out(text: bytes) -> bytes:
    """Return a text in lower case with the signs that its author said in words: `clerk (at) drop dot example`."""
    for sign, spoken in ((b"@", _SPOKEN_AT), (b".", _SPOKEN_DOT)):
        text = sign.join(piece.lstrip(_BEHIND).rstrip(_BEFORE) for piece in spoken.split(text.lower()))
    return text


@lru_cache(maxsize=4)
def _without_breaks(text: bytes) -> tuple[bytes, bytes]:
    """Return a text without blanks, and in lower case; a call with many targets asks for the same few texts."""
    return text.translate(None, b" \t\n\r\v\f"), text.lower()


def _aligned_forms(plain: bytes, encode: Callable[[bytes], bytes], size: int, width: int) -> list[bytes]:
    """Return the part of the code that does not depend on the bytes around the target, for each way it may lie."""
    forms = []
    for shift in range(size):
        padded = bytes(shift) + plain
        whole = len(padded) // size * size
        first = -(-shift // size) * size
        forms.append(encode(padded[first:whole]).rstrip(b"="))
    return [form for form in forms if len(form) >= max(_MIN_FORM, width)]
