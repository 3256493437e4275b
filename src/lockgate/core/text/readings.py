"""The other readings of a text: what a model may see in it that a rule reading its bytes does not.

1. Triggers: byte patterns that ride in the scanner's own pass. No trigger fired, no other reading.
2. Codes written in place (percent, HTML entities, escapes, quoted-printable) are decoded over the whole text.
3. Characters: invisible ones removed, lookalikes and styled letters folded to Latin.
4. Runs of base64 or hexadecimal are decoded, decompressed, and read again from step 2, to a bounded depth.
Every reading goes back to the rules. `encoded` marks readings of text that its author hid.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lockgate.core.tables import read_sections
from lockgate.core.text import encodings
from lockgate.core.text.confusables import (
    CLOSEST_LOOKALIKES,
    HiddenText,
    compile_bytes_pattern,
    compile_pattern,
    find_hidden_text,
    fold_to_latin,
    is_wordlike,
    remove_invisible,
    triggers_from_text,
)
from lockgate.core.text.encodings import CODES, COMPRESSED, JWT, DecodedRun, EncodedRun

MAX_DEPTH = 3
# Output beyond this is not read, and `capped` says so: a kilobyte of base64 can hold a megabyte of spaces.
SPARE_CHARACTERS, CHARACTERS_PER_CHARACTER = 32_768, 6
SHORTEST_RUN, SHORTEST_SHAPED_RUN = 50, 24
# Past these, further runs become one reading together, and signals, which only report, are left out.
MAX_SEPARATE, MAX_SIGNALS, MAX_ORDINARY_SIGNALS, MAX_PLACES = 16, 32, 8, 4


@dataclass(frozen=True, slots=True)
class Reading:
    """Another text that `start:end` of the original may be read as; `how` is the chain of steps, `base64>percent`.

    `encoded` is a reason to escalate by itself: readable text was hidden. It is False for ordinary carriers.
    """

    how: str
    text: str
    start: int
    end: int
    encoded: bool


@dataclass(frozen=True, slots=True)
class EncodedSegment:
    """The four signals of one encoded segment: entropy, character set, signature, length.

    `entropy` is in bits per character and `entropy_ratio` its share of what this character set and this length allow
    (50 characters cannot exceed log2 50, hexadecimal never 4). Neither decides anything; the decoded text does.
    """

    kind: str
    start: int
    end: int
    length: int
    charset: str
    entropy: float
    entropy_ratio: float
    signature: str
    ordinary: bool
    why: str


@dataclass(frozen=True, slots=True)
class TextReadings:
    """The other readings of a text; `capped` says that a limit left something unread, which is a finding too."""

    items: tuple[Reading, ...] = ()
    signals: tuple[EncodedSegment, ...] = ()
    capped: bool = False


# --- 1. triggers

_WORDS = read_sections(__package__, "common_words.txt")


def _triples(words: Iterable[str]) -> list[str]:
    return sorted({f" {word} "[i : i + 3] for word in words for i in range(len(word))})


_COMMON = _triples(_WORDS["commonest"])
_TRIPLES = [
    *_triples((*_WORDS["commonest"], *_WORDS["others"])),
    "://",
    "//w",
    "tp:",
    "s:/",
    "p:/",
    " | ",
    "| b",
    "/et",
    "tc/",
    " -r",
    ", a",
    ". T",
]
_WRITTEN = {0: "|"} | {i: chr(i) if chr(i).isalnum() and i < 128 else f"\\x{i:02x}" for i in range(1, 256)}


def _alternation(literals: Iterable[bytes]) -> str:
    """Return an alternation of plain literals: each one more costs the engine hardly anything."""
    joined = b"\0".join(sorted(set(literals))).decode("latin-1")
    return f"(?:{joined.translate(_WRITTEN)})"


def _hex_literal(text: str, separator: str) -> bytes:
    return separator.join(text.encode().hex(" ").split()).encode()


def _utf8_literals(chars: str) -> Iterator[bytes]:
    return (ch.encode() for ch in chars)


_LATIN = "abcdefghijklmnopqrstuvwxyz"
_MARKS = "".join(map(chr, range(0x300, 0x370)))
_CODED_LETTER = "(?:4[1-9a-f]|5[0-9a]|6[1-9a-f]|7[0-9a])"
_SELECTOR = r"(?:\xef\xb8[\x80-\x8f]|\xf3\xa0[\x84-\x87][\x80-\xbf])"

# Matched against UTF-8 bytes: caseless, dot matches all, one match each; a name may come more than once. Plain literals
# are nearly free in a pass that looks for literals anyway; an expression without one has its own automaton, which runs
# over every ordinary text there is.
_IN_ASCII: tuple[tuple[str, str], ...] = (
    # Three letters of text are four of base64, where case matters.
    (
        "base64",
        "(?-i:"
        + _alternation(binascii.b2a_base64(w.encode(), newline=False) for t in _TRIPLES for w in (t, t.title()))
        + ")",
    ),
    ("hex", _alternation(_hex_literal(t, "") for t in _TRIPLES)),
    ("hex", _alternation(_hex_literal(t, sep) for t in _COMMON for sep in " :-")),
    ("hex", _alternation(_hex_literal(t, sep) for t in _COMMON for sep in (", 0x", ",0x", " 0x"))),
    (
        "percent",
        rf"%{_CODED_LETTER}[%a-z]|[a-z.,]%(?:20|0[9ad]|c2%a0)[a-z]|%25[2-7][0-9a-f]|%[c-f][0-9a-f]%[89ab][0-9a-f]%",
    ),
    ("entity", rf"&#(?:x0*{_CODED_LETTER}|0*(?:6[5-9]|[78][0-9]|90|9[7-9]|1[01][0-9]|12[0-2]))[^0-9a-f]"),
    # Spaces and invisible characters that split a phrase, styled letters, and references escaped once more.
    ("entity", r"[a-z]&(?:nbsp|ensp|emsp|thinsp|newline|tab|#(?:32|160|x20|xa0|9|10));?[a-z]"),
    ("entity", r"[a-z]&(?:shy|zwnj|zwj|zerowidthspace|nobreak);|&#(?:x200[b-f]|820[3-7]|xe00|9175|9176)"),
    ("entity", r"&[a-z](?:fr|opf|scr);|&amp;#[x0-9]"),
    (
        "escape",
        rf"\\(?:u[0-9a-f]{{4}}|x{_CODED_LETTER}|u\{{[0-9a-f]|1[0-7]{{2}}\\1)|[a-z,]\\[nrt](?-i:[a-z]{{2}})|:\\/\\/",
    ),
    ("escape", r"\\0000[2-7][0-9a-f]"),
    ("quoted", r"[a-z]=\r?\n[a-z]|=[4-7][0-9a-f]=[4-7][0-9a-f]=[2-7][0-9a-f]"),
    # `t h e`: text written out letter by letter contains one of these before long.
    *(("spaced", _alternation((sep + sep.join(t) + sep).encode() for t in _COMMON if t.isalpha())) for sep in " .-_"),
)
_BEYOND_ASCII: tuple[tuple[str, str], ...] = (
    ("invisible", r"\xe2\x80\x8b|\xe2\x81[\xa0-\xa4\xaa-\xaf]|[\x01-\xff]\xef\xbb\xbf|\xc2\xad|\xe1\xa0\x8e|\xcd\x8f"),
    ("invisible", r"\xe1\x85[\x9f\xa0]|\xe3\x85\xa4|\xef\xbe\xa0|\xef\xbf[\xb9-\xbb]|(?:\xe2\x80[\x8c\x8d]){4}"),
    # Joiners and direction marks are honest in the scripts that need them, not beside Latin, Greek or Cyrillic.
    ("invisible", r"(?:[\x21-\x7f]|[\xc3-\xd3][\x80-\xbf])\xe2\x80[\x8c-\x8f]|\xe2\x80[\x8c-\x8f][a-z]"),
    ("space", r"[a-z.,](?:\xc2\xa0|\xe2\x80[\x80-\x8a\xa8\xa9\xaf]|\xe2\x81\x9f|\xe3\x80\x80)[a-z]"),
    ("tags", r"\xf3\xa0[\x80\x81]"),
    ("selectors", rf"{_SELECTOR}{{2}}|[a-z ]{_SELECTOR}"),
    ("bidi", r"\xe2\x80[\xaa-\xae]|\xe2\x81[\xa6-\xa9]"),
    # Fullwidth, mathematical, circled and squared letters; ligatures; small capitals; letterlike symbols.
    ("compat", r"(?:\xef\xbc[\xa1-\xba]|\xef\xbd[\x81-\x9a]){2}|(?:\xf0\x9d[\x90-\x9f][\x80-\xbf]){2}"),
    ("compat", r"(?:\xe2\x92[\xb6-\xbf]|\xe2\x93[\x80-\xa9]){2}|(?:\xf0\x9f[\x84-\x86][\x80-\xbf]){2}"),
    ("compat", r"(?:\xf0\x9f\x87[\xa6-\xbf]){6}|\xef\xac[\x80-\x86]|(?:\xe2\x84[\x80-\xbf]){2}"),
    ("compat", r"\xe1\xb4[\x80-\xbf]|\xe1\xb5[\x80-\xaa]|\xea\x9c[\xb0\xb1]"),
    # A Latin letter before any Greek, Cyrillic, Armenian or phonetic one, or after one of the closest lookalikes.
    ("mixed", _alternation(a.encode() + bytes([lead]) for a in _LATIN for lead in (0xC9, 0xCA, *range(0xCD, 0xD7)))),
    ("mixed", _alternation((ch + a).encode() for ch in CLOSEST_LOOKALIKES for a in _LATIN)),
    ("mixed", r"\xe1[\x8e\x8f][\x80-\xbf]|\xea\x93[\x90-\xbf]"),
    ("marks", rf"[a-z]{_alternation(_utf8_literals(_MARKS))}|{_alternation(_utf8_literals(_MARKS))}{{2}}"),
)
TRIGGERS = (*_IN_ASCII, *_BEYOND_ASCII)
# The numbers of the triggers that no text of ASCII alone can fire.
BEYOND_ASCII = range(len(_IN_ASCII), len(TRIGGERS))
# Two more triggers have no literal in them: they are read off a map of the text that gives each byte's sort.
_CONTROLS = (*range(9), *range(14, 27), *range(28, 32), 127)
_RUN, _CONTROL = b"x", b"!"
_SORTS = b"".join(
    _RUN if byte in b"+/_-" or bytes([byte]).isalnum() else _CONTROL if byte in _CONTROLS else b" "
    for byte in range(256)
)
_LONG_RUN = _RUN * SHORTEST_RUN
TRIGGER_NAMES = frozenset(name for name, _ in TRIGGERS) | {"run"}


def triggers_from_shape(data: bytes) -> tuple[str, ...]:
    """Return the triggers that the shape of a text fires: a long run, or control characters within a word."""
    sorts = data.translate(_SORTS)
    fired = ("run",) if sorts.find(_LONG_RUN) >= 0 else ()
    if _CONTROL[0] in sorts and compile_bytes_pattern(
        rb"[A-Za-z][\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]{1,8}[A-Za-z]"
    ).search(data):
        return (*fired, "invisible")
    return fired


# No pass of the scanner has seen a decoded text: every decoder that a quick look cannot rule out is tried.
_NESTED = frozenset({"run", "base64", "hex", "percent", "entity", "escape"})
_CLEANING = frozenset({"invisible", "space", "tags", "selectors", "bidi"})
_FOLDING = frozenset({"compat", "mixed", "marks"})


def find_readings(text: str, triggers: frozenset[str]) -> TextReadings:
    """Return every other reading of a text for the triggers that fired on it.

    Never raises, whatever the text; cost and output are linear in its length.
    """
    if not triggers or not text:
        return TextReadings()
    reader = _TextReader(text)
    reader.read(text, triggers, (), None, 0)
    return TextReadings(tuple(reader.items), tuple(reader.signals), reader.capped)


class _TextReader:
    """One text being read: what was found so far, and how many characters more may be written."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.left = SPARE_CHARACTERS + CHARACTERS_PER_CHARACTER * len(text)
        self.items: list[Reading] = []
        self.signals: list[EncodedSegment] = []
        self.capped = False
        self.places = MAX_PLACES

    def read(
        self, text: str, triggers: frozenset[str], how: tuple[str, ...], span: tuple[int, int] | None, depth: int
    ) -> bool:
        """Add the other readings of a text; return whether one of them was hidden."""
        before = len(self.items)
        plain, steps = self._decode_codes(text, triggers, how, span)
        if steps:
            triggers |= triggers_from_text(plain) | {"run"}
        for found in find_hidden_text(plain, triggers):
            self._add_hidden(found, how + steps, span, plain)
        clean = remove_invisible(plain, triggers) if triggers & _CLEANING or triggers & _FOLDING else plain
        latin = fold_to_latin(clean, triggers) if triggers & _FOLDING else clean
        start, end = span or (0, len(self.text))
        if clean != text:
            said = clean.replace("+", " ") if "percent" in steps else clean
            self._add_reading(how + steps + (("cleaned",) if clean != plain else ()), said, start, end)
        if latin != clean:
            self._add_reading((*how, *steps, "folded"), latin, start, end)
        if "spaced" in triggers:
            self._join_spaced_letters(latin, how + steps, start, end)
        if latin != plain:
            triggers |= {"run"}
        if triggers & {"run", "base64", "hex"}:
            self._read_runs(latin, triggers, how + steps, span, depth)
        return any(item.encoded for item in self.items[before:])

    def _take_budget(self, text: str) -> str:
        """Return as much of a text as may still be written."""
        if len(text) > self.left:
            self.capped = True
            text = text[: self.left]
        self.left -= len(text)
        return text

    def _add_reading(self, how: tuple[str, ...], text: str, start: int, end: int, *, encoded: bool = False) -> None:
        text = self._take_budget(text)
        if text or encoded:
            self.items.append(Reading(">".join(how), text, start, end, encoded))

    def _add_hidden(self, found: HiddenText, how: tuple[str, ...], span: tuple[int, int] | None, text: str) -> None:
        start, end = span or self._place_in_original(text, found.start, found.end)
        self._add_reading((*how, found.how), found.text, start, end, encoded=True)
        signature = "text" if found.text else "binary"
        self._add_signal(found.how, text[found.start : found.end], start, end, found.how, signature, "")

    def _place_in_original(self, text: str, start: int, end: int) -> tuple[int, int]:
        """Return where a piece of a text stands in the original; the whole original if that is not known."""
        if text is self.text:
            return start, end
        self.places -= 1
        at = self.text.find(text[start : min(end, start + 32)]) if self.places >= 0 else -1
        return (at, min(at + end - start, len(self.text))) if at >= 0 else (0, len(self.text))

    def _add_signal(
        self, kind: str, raw: str, start: int, end: int, charset: str, signature: str, ordinary: str
    ) -> None:
        if len(self.signals) < (MAX_ORDINARY_SIGNALS if ordinary else MAX_SIGNALS):
            bits, ratio = encodings.measure_entropy(raw, charset)
            why = ordinary or "the text as it stands does not show this to a reader"
            self.signals.append(
                EncodedSegment(kind, start, end, len(raw), charset, bits, ratio, signature, bool(ordinary), why)
            )

    # --- 2. codes in place

    def _decode_codes(
        self, text: str, triggers: frozenset[str], how: tuple[str, ...], span: tuple[int, int] | None
    ) -> tuple[str, tuple[str, ...]]:
        """Return the text with its codes decoded until none is left, and the kinds of codes there were."""
        steps: tuple[str, ...] = ()
        for again in range(MAX_DEPTH):
            before = text
            for code in CODES:
                # Later rounds have no triggers to go by, only the text that the earlier rounds decoded.
                asked = code.is_left_in(text) if again or steps else code.name in triggers and code.mark in text
                if asked:
                    for found in code.find_spelled_words(text):
                        self._add_hidden(found, how + steps, span, text)
                    after, whole = code.decode(text)
                    self.capped |= not whole
                    if after != text and code.name not in steps:
                        steps += (code.name,)
                    text = after
            if text == before or self.capped:
                return text, steps
        self.capped |= any(code.is_left_in(text) for code in CODES if code.name != "quoted")
        return text, steps

    # --- 3. letters written one by one

    def _join_spaced_letters(self, text: str, how: tuple[str, ...], start: int, end: int) -> None:
        letters = compile_pattern(r"(?<![A-Za-z])[A-Za-z](?:[ ._\-][A-Za-z]){2,200}(?![A-Za-z])")
        joined = letters.sub(lambda match: match[0][::2], text)
        if joined == text:
            return
        # Honest headings are written this way; a hidden message is longer.
        message = compile_pattern(r"(?<![A-Za-z])(?:[A-Za-z][ ._\-]{1,4}){30,2000}").search(text)
        encoded = message is not None and is_wordlike(letters.sub(lambda match: match[0][::2], message[0]))
        if message is not None and text is self.text:
            start, end = message.span()
        self._add_reading((*how, "spaced"), joined, start, end, encoded=encoded)

    # --- 4. runs

    def _read_runs(
        self, text: str, triggers: frozenset[str], how: tuple[str, ...], span: tuple[int, int] | None, depth: int
    ) -> None:
        flat = text.encode("ascii", "replace")  # one byte per character: positions stay what they are
        shaped = bool(triggers & {"base64", "hex"})
        # Past MAX_SEPARATE, texts are collected: those in ordinary carriers, and the others.
        together: tuple[list[str], list[str]] = ([], [])
        shortest = SHORTEST_SHAPED_RUN if shaped else SHORTEST_RUN
        for run in encodings.find_runs(flat, shortest, columns=shaped, separated="hex" in triggers):
            # A ruled line decodes to nothing, and every fourth text has one.
            if not flat[run.start : run.end].strip(b"+-/_"):
                continue
            found = encodings.decode_run(flat, run, shaped=shaped)
            if not found.said and found.data[:2] in COMPRESSED:
                found, whole = encodings.decompress(found, self.left)
                self.capped |= not whole
            if found.said and depth == MAX_DEPTH:
                self.capped = True
                return
            if found.said:
                carrier = encodings.find_carrier(flat, run, found)
                if len(self.items) < MAX_SEPARATE:
                    self._read_run(
                        text, run, found, carrier, how, span or self._place_in_original(text, run.start, run.end), depth
                    )
                else:
                    together[not carrier].append(self._take_budget(found.said))
            elif depth == 0 and not run.column and len(self.signals) < MAX_ORDINARY_SIGNALS:
                raw = flat[run.start : run.end]
                if why := encodings.explain_binary_run(raw, found.data):
                    place = self._place_in_original(text, run.start, run.end)
                    charset = encodings.charset_of(raw)
                    self._add_signal(found.kind, raw.decode(), *place, charset, encodings.signature_of(found), why)
        start, end = span or (0, len(self.text))
        for carried, texts in zip((True, False), together, strict=True):
            if texts:
                said = "\n".join(texts)
                reveals = not carried and encodings.has_message(said)
                self.items.append(Reading(">".join((*how, "runs")), said, start, end, reveals))
                self.read(said, _NESTED | triggers_from_text(said), (*how, "runs"), (start, end), depth + 1)

    def _read_run(
        self,
        text: str,
        run: EncodedRun,
        found: DecodedRun,
        carrier: str,
        how: tuple[str, ...],
        place: tuple[int, int],
        depth: int,
    ) -> None:
        reveals = not carrier and encodings.has_message(found.said)
        self._add_reading((*how, found.kind), found.said, *place, encoded=reveals)
        nested = self.read(found.said, _NESTED | triggers_from_text(found.said), (*how, found.kind), place, depth + 1)
        if depth == 0 and (run.end - run.start >= SHORTEST_RUN or reveals or nested):
            signature = "jwt" if carrier == JWT else encodings.signature_of(found)
            why = "" if reveals or nested else carrier or "decodes to data, not to text for a reader"
            raw = text[run.start : run.end]
            self._add_signal(
                found.kind, raw, *place, encodings.charset_of(raw.encode("ascii", "replace")), signature, why
            )
