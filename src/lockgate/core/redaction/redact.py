"""What may leave the process: a text without its secrets, and the parts of it that fit.

1. Slices: a long text is read in overlapping parts, so that no single step keeps other threads waiting.
2. Readings: a slice as it is, with its codes decoded, with its characters folded, and with its wrapped lines joined.
3. Each reading is searched for secrets; the place of each is traced back to its place in the text.
4. Each secret is cut out of the text, and a placeholder names its kind.
5. The verifier does not see what is removed: if all of it together could be an order, the text is `unread`.
6. Only then is a long text cut, so that no border can leave half a secret behind.
"""

from __future__ import annotations

import html
import json
import re
import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import chain
from operator import itemgetter
from typing import NamedTuple

import hyperscan

from lockgate.core.redaction import personal_data, secrets
from lockgate.core.redaction.secrets import (
    DIGIT,
    KINDS,
    SHAPES,
    UNSEEN,
    SensitiveSpan,
    lowercase_same_length,
    replace_half_pairs,
)
from lockgate.core.text.readings import CONTROLS, LOOKALIKES, PLAIN_CHARACTERS, SLICE, is_wordlike
from lockgate.core.text.scanner import PatternDatabase, PatternSet, check_pattern

# `secrets` is for judges of calls: the addresses, phones and accounts that something is sent to stay.
RULESETS = ("default", "hipaa", "ferpa", "custom", "secrets")
# Percent inside percent inside JSON: no application decodes more often by accident.
MAX_DECODINGS = 3
MAX_CUSTOM_BYTES = 512


class Cut(NamedTuple):
    """`start:end` of the original was replaced by the `size` characters at `at` of the redacted text."""

    start: int
    end: int
    at: int
    size: int


class Redacted(NamedTuple):
    """A text that may leave; `removed` counts what was taken out by kind.

    `unread`: the removed parts could hold an order, so a verifier that reads only this text has not read everything.
    """

    text: str
    removed: tuple[tuple[str, int], ...]
    cuts: tuple[Cut, ...] = ()
    unread: bool = False

    def redacted_span(self, start: int, end: int) -> tuple[int, int]:
        """Return where a span of the original stands now; a span that touches a placeholder includes it."""
        first, last = self._redacted_offset(start, after=False), self._redacted_offset(end, after=True)
        return first, max(first, last)

    def _redacted_offset(self, at: int, *, after: bool) -> int:
        number = bisect_left(self.cuts, at, key=lambda cut: cut.start) - 1
        if number < 0:
            return at
        cut = self.cuts[number]
        if at < cut.end or (after and at == cut.end):
            return cut.at + cut.size if after else cut.at
        return cut.at + cut.size + at - cut.end


def redact(text: str, ruleset: str = "default", custom: Sequence[str] = ()) -> Redacted:
    """Return the text with a placeholder for every secret and every piece of personal data.

    `custom` are an organisation's own patterns, in the syntax of the rules; raise InvalidPattern for a bad one.
    """
    if ruleset not in RULESETS:
        raise ValueError("unknown rule set for redaction")
    removed = _find_removals(text, ruleset, tuple(custom))
    # 4. Cut out.
    pieces: list[str] = []
    cuts: list[Cut] = []
    done = size = 0
    for start, end, kind, _ in removed:
        placeholder = f"[redacted:{kind}]"
        pieces += text[done:start], placeholder
        size += start - done
        cuts.append(Cut(start, end, size, len(placeholder)))
        size += len(placeholder)
        done = end
    counted = tuple(sorted(Counter(removal.kind for removal in removed).items()))
    return Redacted("".join(pieces) + text[done:], counted, tuple(cuts), _may_hide_order(removed))


class _Removal(NamedTuple):
    """A stretch to remove, and its text in each reading in which it was found."""

    start: int
    end: int
    kind: str
    said: frozenset[str]


# --- 1. slices

# A secret that begins in the last _OVERLAP characters belongs to the next slice, which looks _BEFORE back.
_OVERLAP, _BEFORE = 8_192, 256
_RUN_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_"


def _find_removals(text: str, ruleset: str, custom: tuple[str, ...]) -> list[_Removal]:
    """Return the stretches to remove, in order, without overlaps."""
    removals: list[_Removal] = []
    start = seen = 0
    while True:
        end = min(start + SLICE, len(text))
        following = end - _OVERLAP if end < len(text) else end
        for hit in _removals_in_slice(text[start:end], ruleset, custom):
            first, last = hit.start + start, hit.end + start
            is_cut = last == end < len(text)
            # What begins before the slice was found whole by the one before, unless it is longer than the overlap.
            if (not start or first >= start + _BEFORE or last > seen) and (first < end - _OVERLAP or end == len(text)):
                last = _end_of_run(text, end) if is_cut else last
                following = max(following, last if is_cut else 0)
                removals.append(hit._replace(start=first, end=last))
        if end == len(text):
            return _merge_removals(removals)
        # Base64 decodes only from a multiple of four characters on.
        head = text[start : following - _BEFORE]
        start, seen = following - _BEFORE - (len(head) - len(head.rstrip(_RUN_CHARACTERS))) % 4, end


def _end_of_run(text: str, at: int) -> int:
    while (match := SHAPES["run on"].match(text, at)) and match.end() > at:
        at = match.end()
    return at


def _removals_in_slice(text: str, ruleset: str, custom: tuple[str, ...]) -> Iterator[_Removal]:
    left = MAX_HITS + len(text) // 32
    for view in _readings_of(text):
        # 3. The place in the reading, traced back to the text.
        for hit in chain(_find_secrets(view.text, ruleset, joined=view.joined), _find_custom(view.text, custom)):
            left -= 1
            if left < 0:
                # Nothing but secrets: finding the little text between them is not worth the time.
                yield _Removal(0, len(text), hit.kind, frozenset([text[:MAX_SAID]]))
                return
            start, end = view.starts[hit.start], view.ends[hit.end - 1]
            if view.joined and hit.kind == "token" and any(map(is_wordlike, text[start:end].split("\n"))):
                continue  # names in code, one below the other, not a key
            if start < end:
                said = hit.said or view.text[hit.start : hit.end]
                yield _Removal(start, end, hit.kind, frozenset([said[:MAX_SAID]]))


def _merge_removals(removals: list[_Removal]) -> list[_Removal]:
    """Return the removals with overlapping ones made one, of the most specific kind among them."""
    merged: list[_Removal] = []
    for each in sorted(removals, key=itemgetter(0, 1)):
        if merged and each.start < merged[-1].end:
            start, end, kind, said = merged[-1]
            kind = min(kind, each.kind, key=KINDS.index)
            merged[-1] = _Removal(start, max(end, each.end), kind, said | each.said)
        else:
            merged.append(each)
    return merged


def _find_secrets(text: str, ruleset: str, *, joined: bool = False, in_run: bool = False) -> Iterator[SensitiveSpan]:
    """Yield the secrets in a reading, or in a decoded run; a run encoded once more within that is not decoded."""
    low = lowercase_same_length(text)
    marks = _MARKS.find_in(low)
    yield from secrets.find_credentials(text, low, marks)
    yield from personal_data.find_personal_data(text, low, marks, ruleset, joined=joined)
    inside = None if in_run else partial(_find_secrets, ruleset=ruleset, in_run=True)
    yield from secrets.find_runs(text, marks, inside)


_MARKS = PatternSet(secrets.MARKS | personal_data.MARKS, secrets.ENGINE_SHAPES | personal_data.ENGINE_SHAPES)
# Compiles the set now; a process that redacts little never needs it.
make_ready = _MARKS.make_ready


# --- 5. what no verifier reads

# Four words are an order ("wipe the audit trail"), in one value or one word in each of four.
MAX_WORDS = 3
# Names and domains in addresses are words too, and a letter has a sender and several recipients.
MAX_NAMES = 7
# Keys of known providers are this long at most; anything longer could be encoded text.
MAX_UNREADABLE, MAX_UNREADABLE_KEY, MAX_UNREADABLE_IN_ALL = 128, 200, 512
MAX_REMOVALS = 32
MAX_SAID = 4096
MAX_HITS = 64
# The kinds of which no word is read, and those whose words are names of people, streets and hosts.
_ONLY_DIGITS, _NAMED = ("card", "phone", "ip-address", "date"), ("email", "name", "address", "url")


def _may_hide_order(removed: Sequence[_Removal]) -> bool:
    """Return whether all removed parts together could hold an order, and not only secrets."""
    if len(removed) > MAX_REMOVALS:
        return True
    words = unreadable = 0
    names: set[str] = set()
    for each in removed:
        if each.kind in _ONLY_DIGITS:
            continue
        if each.kind in _NAMED:
            names.update(*(SHAPES["word"].findall(unicodedata.normalize("NFKC", said).lower()) for said in each.said))
            continue
        texts = [text for said in each.said for text in _readable_parts(each.kind, said)]
        size = max(map(len, texts))
        if size > (MAX_UNREADABLE_KEY if each.kind == "api-key" else MAX_UNREADABLE):
            return True
        unreadable += size
        words += max(map(_count_words, texts))
    return words > MAX_WORDS or len(names) > MAX_NAMES or unreadable > MAX_UNREADABLE_IN_ALL


def _readable_parts(kind: str, said: str) -> Iterator[str]:
    """Yield the parts of a removed value; of a signed token, what its parts say beside the usual claims."""
    if kind != "jwt":
        # The provider's prefix of a key is no part of an order.
        yield SHAPES["maker of a key"].sub("", said) if kind == "api-key" else said
        return
    for part in said.split("."):
        plain = secrets.decode_run(part)
        yield SHAPES["usual claims"].sub("", plain)[:MAX_UNREADABLE] if plain else part


_DIGITS_AS_LETTERS = str.maketrans("013457@$", "oieastas")


def _count_words(said: str) -> int:
    """Return how many words a removed value may be made of; none if it looks random."""
    said = unicodedata.normalize("NFKC", SHAPES["line of a key"].sub("", said))
    count = max(len(SHAPES[name].findall(said)) for name in ("spaced word", "unspaced letters", "foreign word"))
    # Digits in place of letters: a hash has more digits than a word, and a short value may be anything.
    may_be_spelled = len(DIGIT.findall(said)) * 3 <= len(said) or len(said) <= 12
    for spelled in (said, said.translate(_DIGITS_AS_LETTERS)) if may_be_spelled else ():
        parts = SHAPES["hump"].findall(spelled)
        letters = sum(map(len, parts))
        words = [part for part in parts if len(part) > 1]
        long = sum(len(part) for part in words if len(part) > 2)
        # Most random letters change their case after one or two.
        has_words = long * 4 >= letters * 3 if letters > 20 else long * 3 >= letters * 2
        if letters <= 7 or (has_words and is_wordlike(" ".join(words))):
            # Words without spaces have six letters each, more or less.
            count = max(count, min(sum(max(1, (len(part) + 2) // 6) for part in words), max(letters // 3, 1)))
    return count


# --- 2. readings, and the way back from them


class _TracedReading:
    """Another reading of a text, with the place in the original of the start and the end of each of its characters."""

    __slots__ = ("ends", "joined", "starts", "text")

    def __init__(self, text: str, starts: Sequence[int], ends: Sequence[int]) -> None:
        self.text, self.starts, self.ends = text, starts, ends
        self.joined = False

    def edit(self, matches: Iterable[re.Match[str]], said: Callable[[re.Match[str]], str]) -> _TracedReading:
        """Return a reading with each match replaced by what it says; this reading if nothing changes."""
        pieces: list[str] = []
        starts: list[int] = []
        ends: list[int] = []
        done = 0
        for match in matches:
            plain = said(match)
            if plain == match[0]:
                continue
            start, end = match.span()
            pieces += self.text[done:start], plain
            starts += self.starts[done:start]
            ends += self.ends[done:start]
            if plain and (end - start) % len(plain) == 0:
                # In a run of codes of equal length each character stands for one of them, else for the whole match.
                step = (end - start) // len(plain)
                starts += self.starts[start:end:step]
                ends += self.ends[start + step - 1 : end : step]
            else:
                starts += [self.starts[start]] * len(plain)
                ends += [self.ends[end - 1]] * len(plain)
            done = end
        if not pieces:
            return self
        starts += self.starts[done:]
        ends += self.ends[done:]
        return _TracedReading("".join(pieces) + self.text[done:], starts, ends)


_BLANKS = {"n": "\n", "r": "\n", "t": "\t"}
# The shapes of codes, what one of them has in it, and how often a text is decoded.
_CODES = (("codes", ("%", "\\", "&"), MAX_DECODINGS), ("quoted-printable", ("=\n", "=\r\n", "=3D"), 1))


def _decode_code(match: re.Match[str]) -> str:
    code = match[0]
    if code[0] in "%=":
        return "" if code[-1] == "\n" else bytes.fromhex(code.replace(code[0], "")).decode("utf-8", "replace")
    if code[0] == "&":
        return html.unescape(code)
    if match.lastgroup:
        return "".join([chr(int(each, 16)) for each in code.split(code[:2])[1:]])
    body = code.lstrip("\\")
    if body[:1] in ("u", "U", "x") and len(body) > 1:
        number = int(body[1:].strip("{}"), 16)
        return chr(number) if number < 0x110000 else ""
    return _BLANKS.get(body, body)


def _join_lines(match: re.Match[str]) -> str:
    """Return what replaces a line break: nothing, or the break itself beside a plain word or before an assignment."""
    if match[1] is not None:
        return "\n"
    text, (start, end) = match.string, match.span()
    # Most often one character shows that there is no word.
    if text[end : end + 1].isalpha() and (after := SHAPES["word below"].match(text, end)) and _is_word(after[1]):
        return "\n"
    touching = text[start - 1 : start]
    if touching.isalpha() or touching in ",.;:!?)":
        before = SHAPES["word above, reversed"].match(text[max(0, start - 24) : start][::-1])
        if before and _is_word(before[1][::-1]):
            return "\n"
    return "\n" if SHAPES["statement"].match(text, end) else ""


def _is_word(letters: str) -> bool:
    # The end of a key can be letters only. Fewer than five are taken for a word: little of a key stays.
    return len(letters) < 5 or is_wordlike(letters)


def _readings_of(text: str) -> Iterator[_TracedReading]:
    """Yield the readings of a text, each only if it differs from those before it."""
    view = _TracedReading(text, range(len(text)), range(1, len(text) + 1))
    yield view
    for shape, signs, most in _CODES:
        for _ in range(most if any(sign in text for sign in signs) else 0):
            deeper = view.edit(SHAPES[shape].finditer(view.text), _decode_code)
            if deeper is view:
                break
            view = deeper
            yield view
    if (shown := _fold_characters(view)) is not view:
        view = shown
        yield view
    if "\n" in view.text or SHAPES["joined strings"].search(view.text):
        joined = view.edit(SHAPES["wrap"].finditer(view.text), _join_lines)
        if joined is not view:
            joined.joined = True
            yield joined


def _fold_characters(view: _TracedReading) -> _TracedReading:
    """Return a reading with plain letters and digits for lookalikes, and without invisible characters."""
    if view.text.isascii() and not any(ch in view.text for ch in CONTROLS):
        return view
    # Accents stay: without them every finding in French would count once more.
    odd = (ch for ch in set(view.text) if ch in LOOKALIKES or not "\u00c0" <= ch <= "\u017f")
    changed = "".join(re.escape(ch) for ch in odd if PLAIN_CHARACTERS[ord(ch)] != ch)
    # In runs, so that a text of nothing but these costs one step per run and not per character. A null, which is gone
    # as well, keeps the class from being empty.
    return view.edit(re.finditer(f"[\\0{changed}]+", view.text), lambda run: run[0].translate(PLAIN_CHARACTERS))


# --- custom patterns


@lru_cache(maxsize=64)
def _compile_custom(patterns: tuple[str, ...]) -> tuple[PatternDatabase, PatternDatabase]:
    """Return what finds where the patterns end in a text, and what finds them at its beginning."""
    for pattern in patterns:
        check_pattern(pattern)
    flags = [hyperscan.HS_FLAG_CASELESS | (0 if each.isascii() else hyperscan.HS_FLAG_UTF8) for each in patterns]
    ends, starts = (
        PatternDatabase({n: (shape.format(each), flags[n]) for n, each in enumerate(patterns)}, None)
        for shape in ("(?:{})", "^(?:{})")
    )
    return ends, starts


def _find_custom(text: str, patterns: tuple[str, ...]) -> Iterator[SensitiveSpan]:
    """Yield where an organisation's own patterns match, the longest match from each place on.

    The engine is linear but reports only ends, so each place before an end is tried as its start. A backtracking engine
    would report starts, but a bad pattern could make it run for ever.
    """
    if not patterns or not text:
        return
    anywhere, at_start = _compile_custom(patterns)
    # One byte for half a surrogate pair, so that byte offsets map to characters.
    data = text.encode("utf-8", "replace")
    ends = {end for _, end in anywhere.find_in(data)}
    # The bytes at which a character begins: the engine accepts nothing else.
    starts = range(len(data)) if len(data) == len(text) else [i for i, byte in enumerate(data) if byte & 0xC0 != 0x80]
    at = 0
    for end in sorted(ends):
        first = bisect_left(starts, max(at, end - MAX_CUSTOM_BYTES))
        for number in range(first, bisect_left(starts, end)):
            place = starts[number]
            if place < at:
                continue
            window = data[place : [*starts[number : number + MAX_CUSTOM_BYTES + 1], len(data)][-1]]
            if true := {place + size for _, size in at_start.find_in(window)} & ends:
                at = max(true)
                yield SensitiveSpan("custom", number, bisect_left(starts, at))
        if at < end:
            # Longer than the window: only its end is known.
            at = max(at, end - MAX_CUSTOM_BYTES)
            yield SensitiveSpan("custom", bisect_left(starts, at), bisect_left(starts, end))
            at = end


# --- 6. excerpts: a text as a judge sees it, cut around the findings, and measured as JSON writes it

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
