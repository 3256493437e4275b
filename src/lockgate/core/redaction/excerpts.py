"""A text as a judge sees it: without its secrets, cut around the findings, and measured as JSON writes it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from lockgate.core.redaction.redact import Redacted, redact
from lockgate.core.redaction.secret_table import UNSEEN, replace_half_pairs

# What each line of a prompt takes beside its text: a nonce and a label.
LINE_OVERHEAD = 48
# At least so much is shown on both sides of a finding; of a longer finding, its two ends.
_LEAST_AROUND = 80
_LONG_FIND = 600
_MOST_PLACES = 256
# A secret that begins this far before a window, or ends this far behind it, is still found.
_MARGIN = 400
_MAX_QUOTE = 160


@lru_cache(maxsize=128)
def remove_secrets(text: str) -> Redacted:
    """Return the text without keys, tokens, passwords and private keys; cached, since a block is judged many times."""
    return redact(replace_half_pairs(text), "secrets")


def written_size(text: str) -> int:
    """Return how many characters a text takes as a JSON string in which nothing is invisible."""
    size = len(text) + text.count('"') + text.count("\\")
    if text.isascii() and text.isprintable():
        return size
    plain = text.replace("\n", "").replace("\t", "")
    size += len(text) - len(plain)
    size += sum(11 if ch > "\uffff" else 5 for ch in plain if not ch.isprintable())
    return size + sum(11 if ch > "\uffff" else 5 for ch in UNSEEN.findall(plain) if ch.isprintable())


def remove_secrets_from_value(name: str, text: str) -> Redacted:
    """Return an argument's value without secrets; under a name like `password` any value is one."""
    plain = text.isprintable() and '"' not in text and "\\" not in text
    label = name.rpartition(".")[2].replace('"', "")
    before, after = (f'{label}: "', '"') if plain else (f"{label}: ", "")
    clean = remove_secrets(f"{before}{text}{after}")
    if not clean.text.startswith(before) or not clean.text.endswith(after):
        return remove_secrets(text)
    return clean._replace(text=clean.text[len(before) : len(clean.text) - len(after)], cuts=())


def as_json(text: str) -> str:
    """Return the text as a JSON string."""
    return json.dumps(text, ensure_ascii=False)


def written_size_twice(text: str) -> int:
    """Return the size of a text that is written as JSON, and then once more as a string in a prompt."""
    return written_size(as_json(text))


def estimate_need(text: str, room: int, weigh: Callable[[str], int]) -> int:
    """Return about how much room the whole text takes; placeholders may be longer than the secrets they stand for."""
    return LINE_OVERHEAD + len(text) // 8 + (len(text) if len(text) > room else weigh(text))


def quote(text: str, limit: int = _MAX_QUOTE) -> str:
    """Return foreign words for a line of a prompt: as a JSON string, which shows where they end."""
    clean = remove_secrets(text[: limit + 1]).text
    if len(text) > limit:
        # The last word is cut in half, and could be half a secret that no pattern recognises any more.
        words = clean.rsplit(None, 1)
        clean = (words[0] if len(words) > 1 else clean[: limit // 2]) + " […]"
    return as_json(clean)


# --- cutting


class ShownParts(NamedTuple):
    """The pieces of a text that are shown; `whole` if they are all of it, `unread` if redaction may hide an order."""

    pieces: tuple[str, ...]
    whole: bool
    unread: bool = False

    @property
    def written_size(self) -> int:
        return sum(written_size(piece) + LINE_OVERHEAD for piece in self.pieces)


def cut_to_budget(
    text: str, places: Sequence[tuple[int, int]], budget: int, weigh: Callable[[str], int] = written_size
) -> ShownParts:
    """Return the text without secrets if it fits, else its head, its tail and the surroundings of the places.

    Earlier places are shown first.
    """
    if len(text) <= budget:
        clean = remove_secrets(text)
        if weigh(clean.text) + LINE_OVERHEAD <= budget:
            return ShownParts((clean.text,), True, clean.unread)
    size = min(budget, len(text))
    while size >= 2:
        windows = _choose_windows(len(text), places, size)
        heavy = sum(weigh(text[start:end]) + LINE_OVERHEAD for start, end in windows)
        if heavy <= budget:
            parts = _parts_in_windows(text, windows)
            heavy = sum(weigh(piece) + LINE_OVERHEAD for piece in parts.pieces)
            if heavy <= budget:
                return parts
        # Escaped characters, or placeholders longer than their secrets, take more room: show less, in proportion.
        size = min(size * budget // heavy, size - 1 - size // 16)
    return ShownParts((), False)


def cut_excerpts(redacted: Redacted, spans: Sequence[tuple[int, int]], *, budget: int = 8000) -> ShownParts:
    """Return the same of a text that is redacted already; `spans` are places in the original."""
    text = redacted.text
    if len(text) <= budget:
        return ShownParts((text,), True, redacted.unread)
    places = sorted({redacted.redacted_span(start, end) for start, end in spans})
    # An attacker's decoys in front must not use up the budget, so places are taken from both ends in turn.
    turns = [places[i // 2] if i % 2 == 0 else places[-1 - i // 2] for i in range(len(places))]
    windows = _choose_windows(len(text), turns, budget)
    return ShownParts(tuple(text[start:end] for start, end in windows), False, redacted.unread)


def _parts_in_windows(text: str, windows: Iterable[tuple[int, int]]) -> ShownParts:
    """Return what stands in the windows without secrets; they are looked for a little beyond the window."""
    pieces = []
    unread = False
    for start, end in windows:
        low = max(0, start - _MARGIN)
        clean = remove_secrets(text[low : end + _MARGIN])
        first, last = clean.redacted_span(start - low, end - low)
        pieces.append(clean.text[first:last])
        unread = unread or clean.unread
    return ShownParts(tuple(pieces), False, unread)


def _choose_windows(size: int, places: Sequence[tuple[int, int]], budget: int) -> list[tuple[int, int]]:
    """Return spans of at most `budget` characters together: both edges, and as much around each place as fits."""
    edge = max(1, min(400, budget // 8)) if places else budget // 2
    edges = [(0, min(edge, size)), (max(0, size - edge), size)]
    spans: dict[tuple[int, int], None] = {}
    for start, end in places[:_MOST_PLACES]:
        start, end = max(0, min(start, size)), max(0, min(end, size))
        if end - start > _LONG_FIND:
            spans[start, start + _LONG_FIND // 2] = spans[end - _LONG_FIND // 2, end] = None
        else:
            spans[start, max(start, end)] = None
    chosen = list(spans)

    def around(radius: int) -> list[tuple[int, int]]:
        return _merge_windows([*edges, *((max(0, start - radius), min(size, end + radius)) for start, end in chosen)])

    def fits(radius: int) -> bool:
        return sum(end - start for start, end in around(radius)) <= budget

    while chosen and not fits(_LEAST_AROUND):
        chosen = chosen[: len(chosen) * 3 // 4]
    if not chosen:
        return _merge_windows(edges)
    low, high = _LEAST_AROUND, max(budget, _LEAST_AROUND + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return around(low)


def _merge_windows(windows: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the windows in order, with those that touch made one."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(windows):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((start, end))
    return merged


def share_budget(needs: Sequence[int], worth: Sequence[int], budget: int) -> list[int]:
    """Return each one's share: all it needs if its part by worth allows that, else a part of the rest."""
    shares = [0] * len(needs)
    total = sum(worth)
    for i in sorted(range(len(needs)), key=lambda i: needs[i] / worth[i]):
        shares[i] = min(needs[i], budget * worth[i] // total)
        budget -= shares[i]
        total -= worth[i]
    return shares
