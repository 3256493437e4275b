"""What may leave the process: a text without its secrets, and the parts of it that fit.

1. Slices: a long text is read in overlapping parts, so that no single step keeps other threads waiting.
2. Readings: a slice as it is, with its codes decoded, with its characters folded, and with its wrapped lines joined.
3. Each reading is searched for secrets; the place of each is traced back to its place in the text.
4. Each secret is cut out of the text, and a placeholder names its kind.
5. The verifier does not see what is removed: if all of it together could be an order, the text is `unread`.
6. Only then is a long text cut (excerpts.py), so that no border can leave half a secret behind.
"""

from __future__ import annotations

import html
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import chain
from operator import itemgetter
from typing import NamedTuple

import hyperscan

from lockgate.core.redaction import credentials as _credentials
from lockgate.core.redaction import personal_data as _personal
from lockgate.core.redaction.credentials import decode_run, find_credentials, find_runs
from lockgate.core.redaction.personal_data import find_personal_data
from lockgate.core.redaction.secret_table import DIGIT, KINDS, SHAPES, SensitiveSpan, lowercase_same_length
from lockgate.core.text.confusables import CONTROLS, LOOKALIKES, PLAIN_CHARACTERS, is_wordlike
from lockgate.core.text.scanner import PatternDatabase, PatternSet, check_pattern

# `secrets` is for judges of calls: the addresses, phones and accounts that something is sent to stay.
RULESETS = ("default", "hipaa", "ferpa", "custom", "secrets")
SLICE = 65_536
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
            start, end = view.origin_of(hit.start, hit.end)
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
    yield from find_credentials(text, low, marks)
    yield from find_personal_data(text, low, marks, ruleset, joined=joined)
    yield from find_runs(text, marks, None if in_run else partial(_find_secrets, ruleset=ruleset, in_run=True))


def make_ready() -> None:
    """Compile the pattern set now; a process that redacts little never needs it."""
    _MARKS.make_ready()


_MARKS = PatternSet(_credentials.MARKS | _personal.MARKS, {**_credentials.ENGINE_SHAPES, **_personal.ENGINE_SHAPES})


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
_ONLY_DIGITS = frozenset({"card", "phone", "ip-address", "date"})
# Their words are names of people, streets and hosts.
_NAMED = frozenset({"email", "name", "address", "url"})


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
        plain = decode_run(part)
        yield SHAPES["usual claims"].sub("", plain)[:MAX_UNREADABLE] if plain else part


_DIGITS_AS_LETTERS = str.maketrans("013457@$", "oieastas")


def _count_words(said: str) -> int:
    """Return how many words a removed value may be made of; none if it looks random."""
    said = unicodedata.normalize("NFKC", SHAPES["line of a key"].sub("", said))
    count = max(len(SHAPES[name].findall(said)) for name in ("spaced word", "unspaced letters", "foreign word"))
    # Digits in place of letters: a hash has more digits than a word, and a short value may be anything.
    if len(DIGIT.findall(said)) * 3 <= len(said) or len(said) <= 12:
        count = max(count, _count_spelled(said), _count_spelled(said.translate(_DIGITS_AS_LETTERS)))
    return count


def _count_spelled(said: str) -> int:
    parts = SHAPES["hump"].findall(said)
    letters = sum(map(len, parts))
    words = [part for part in parts if len(part) > 1]
    if letters > 7:
        # Most random letters change their case after one or two.
        of_words, of_all = (3, 4) if letters > 20 else (2, 3)
        long = sum(len(part) for part in words if len(part) > 2)
        if long * of_all < letters * of_words or not is_wordlike(" ".join(words)):
            return 0
    # Words without spaces have six letters each, more or less.
    return min(sum(max(1, (len(part) + 2) // 6) for part in words), max(letters // 3, 1))


# --- 2. readings, and the way back from them


# `size` characters at `at` of a reading stand for `start:end` of its parent. Where that is a multiple of the size, each
# character stands for `step` of the parent's, as in a run of codes of equal length; otherwise `step` is 0.
_Edit = tuple[int, int, int, int, int]


class _TracedReading:
    """Another reading of a text that remembers where each of its characters came from."""

    __slots__ = ("_edits", "_parent", "joined", "text")

    def __init__(self, text: str, parent: _TracedReading | None = None) -> None:
        self.text = text
        self.joined = False
        self._parent = parent
        self._edits: list[_Edit] = []

    def origin_of(self, start: int, end: int) -> tuple[int, int]:
        """Return the span of the original text that this span was read from."""
        view: _TracedReading | None = self
        while view is not None:
            if view._edits:
                start, end = view._parent_offset(start, last=False), view._parent_offset(end - 1, last=True)
            view = view._parent
        return start, end

    def _parent_offset(self, place: int, *, last: bool) -> int:
        number = bisect_right(self._edits, place, key=itemgetter(0)) - 1
        if number < 0:
            return place + last
        at, size, start, end, step = self._edits[number]
        if place >= at + size:
            return end + place - at - size + last
        if step:
            return start + (place - at + last) * step
        return end if last else start

    def edit(self, matches: Iterable[re.Match[str]], said: Callable[[re.Match[str]], str]) -> _TracedReading:
        """Return a reading with each match replaced by what it says; this reading if nothing changes."""
        view = _TracedReading("", self)
        edits = view._edits
        pieces: list[str] = []
        done = size = 0
        for match in matches:
            plain = said(match)
            if plain == match[0]:
                continue
            start, end = match.span()
            pieces += self.text[done:start], plain
            size += start - done
            step, rest = divmod(end - start, len(plain) or 1)
            edits.append((size, len(plain), start, end, 0 if rest else step))
            size += len(plain)
            done = end
        if not pieces:
            return self
        view.text = "".join(pieces) + self.text[done:]
        return view


_BLANKS = {"n": "\n", "r": "\n", "t": "\t"}


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
    plain = _TracedReading(text)
    yield plain
    codes = plain
    if "%" in text or "\\" in text or "&" in text:
        for _ in range(MAX_DECODINGS):
            deeper = codes.edit(SHAPES["codes"].finditer(codes.text), _decode_code)
            if deeper is codes:
                break
            codes = deeper
            yield codes
    if "=\n" in text or "=\r\n" in text or "=3D" in text:
        soft = codes.edit(SHAPES["quoted-printable"].finditer(codes.text), _decode_code)
        if soft is not codes:
            yield soft
            codes = soft
    shown = _fold_characters(codes)
    if shown is not codes:
        yield shown
    if "\n" in shown.text or SHAPES["joined strings"].search(shown.text):
        joined = shown.edit(SHAPES["wrap"].finditer(shown.text), _join_lines)
        if joined is not shown:
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
    anywhere, at_start = (
        PatternDatabase({n: (shape.format(each), flags[n]) for n, each in enumerate(patterns)}, None)
        for shape in ("(?:{})", "^(?:{})")
    )
    return anywhere, at_start


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
