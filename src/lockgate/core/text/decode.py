"""Every other reading of a text: what a model may see in it that a rule reading its bytes does not.

1. Triggers: byte patterns that ride in the scanner's own pass. No trigger fired, no other reading.
2. Codes written in place (percent, HTML entities, escapes, quoted-printable) are decoded over the whole text.
3. Characters: invisible ones removed, lookalikes and styled letters folded to Latin.
4. Runs of base64 or hexadecimal are decoded, and read again from step 2, to a bounded depth.
Every reading goes back to the rules. `encoded` marks readings of text that its author hid: entropy says nothing, what
the text decodes to does. An attacker may have written it to be slow, so every decoder is one pass.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import islice
from re import Match
from typing import NamedTuple

from lockgate.core.tables import read_sections, read_table
from lockgate.core.text.confusables import (
    CLOSEST_LOOKALIKES,
    HiddenText,
    bytes_shape,
    compile_pattern,
    find_hidden_text,
    fold_to_latin,
    is_wordlike,
    remove_invisible,
    text_shape,
    triggers_from_text,
)

MAX_DEPTH = 3
# Output beyond this is not read, and `capped` says so.
SPARE_CHARACTERS, CHARACTERS_PER_CHARACTER = 32_768, 6
SHORTEST_RUN, SHORTEST_SHAPED_RUN = 50, 24
# The shortest line of a run on several lines, and the shortest last one.
_SHORTEST_LINE, _SHORTEST_LAST_LINE = 8, 4
# Past this many readings, further runs become one reading together.
MAX_SEPARATE = 16


Span = tuple[int, int]


class Reading(NamedTuple):
    """Another text that `start:end` of the original may be read as; `how` is the chain of steps, `base64>percent`.

    `encoded`: readable text was hidden, a reason to escalate by itself. It is False for ordinary carriers.
    """

    how: str
    text: str
    start: int
    end: int
    encoded: bool


class TextReadings(NamedTuple):
    """The other readings of a text; `capped` says that a limit left something unread, which is a finding too."""

    items: tuple[Reading, ...] = ()
    capped: bool = False


# --- 1. Triggers


def _triples(words: Iterable[str]) -> list[str]:
    return sorted({f" {word} "[i : i + 3] for word in words for i in range(len(word))})


_WORDS = read_sections(__package__, "common_words.txt")
_COMMON = _triples(_WORDS["commonest"])
_TRIPLES = _triples((*_WORDS["commonest"], *_WORDS["others"]))
_TRIPLES += ["://", "//w", "tp:", "s:/", "p:/", " | ", "| b", "/et", "tc/", " -r", ", a", ". T"]
_WRITTEN = {0: "|"} | {i: chr(i) if chr(i).isalnum() and i < 128 else f"\\x{i:02x}" for i in range(1, 256)}
_LATIN = "abcdefghijklmnopqrstuvwxyz"
_MARKS = [chr(code).encode() for code in range(0x300, 0x370)]


def _alternation(literals: Iterable[bytes]) -> str:
    """Return an alternation of plain literals: each one more costs the engine hardly anything."""
    joined = b"\0".join(sorted(set(literals))).decode("latin-1")
    return f"(?:{joined.translate(_WRITTEN)})"


def _hex_literal(text: str, separator: str) -> bytes:
    return separator.join(text.encode().hex(" ").split()).encode()


def _read_triggers(section: str) -> list[tuple[str, ...]]:
    return read_table(__package__, "triggers.tbl", section, ("trigger", "pattern"))


_IN_ASCII = (
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
    *_read_triggers("ascii"),
    # `t h e`: text written out letter by letter contains one of these before long.
    *(("spaced", _alternation((sep + sep.join(t) + sep).encode() for t in _COMMON if t.isalpha())) for sep in " .-_"),
)
_BEYOND_ASCII = (
    *_read_triggers("beyond ascii"),
    # A Latin letter before any Greek, Cyrillic, Armenian or phonetic one, or after one of the closest lookalikes.
    ("mixed", _alternation(a.encode() + bytes([lead]) for a in _LATIN for lead in (0xC9, 0xCA, *range(0xCD, 0xD7)))),
    ("mixed", _alternation((ch + a).encode() for ch in CLOSEST_LOOKALIKES for a in _LATIN)),
    ("marks", rf"[a-z]{_alternation(_MARKS)}|{_alternation(_MARKS)}{{2}}"),
)
TRIGGERS = (*_IN_ASCII, *_BEYOND_ASCII)
# The numbers of the triggers that no text of ASCII alone can fire.
BEYOND_ASCII = range(len(_IN_ASCII), len(TRIGGERS))
TRIGGER_NAMES = frozenset(name for name, _ in TRIGGERS) | {"run"}

# Bytes by their sort, so that plain searches find the places. The alphabets of base64 and hexadecimal are `x`.
_ALPHABET = frozenset(b"+/_-") | {byte for byte in range(128) if chr(byte).isalnum()}
_UNSEEN = frozenset((*range(9), *range(14, 27), *range(28, 32), 127))
_ALPHABET_MASK = bytes(120 if byte in _ALPHABET else 32 for byte in range(256))
_SORTS = bytes(120 if byte in _ALPHABET else 33 if byte in _UNSEEN else 32 for byte in range(256))


def triggers_from_shape(data: bytes) -> tuple[str, ...]:
    """Return the triggers that the shape of a text fires: a long run, or control characters within a word."""
    sorts = data.translate(_SORTS)
    fired = ("run",) if sorts.find(b"x" * SHORTEST_RUN) >= 0 else ()
    return (*fired, "invisible") if b"!" in sorts and bytes_shape("controls within").search(data) else fired


# --- 2. Codes in place


class InlineCode(NamedTuple):
    """One way of writing characters as codes, as the table has it; `text_of` returns what a run of codes says."""

    name: str
    mark: str
    common: tuple[tuple[str, str], ...]
    pattern: str
    text_of: Callable[[Match[str]], str]
    letter: str

    def decode(self, text: str) -> str:
        """Return a text with its codes replaced by what they say."""
        for written, plain in self.common if self.mark in text else ():
            text = text.replace(written, plain)
        return compile_pattern(self.pattern).sub(self.text_of, text) if self.mark in text else text

    def is_left_in(self, text: str) -> bool:
        """Return whether a code for a letter is in the text."""
        return self.mark in text and compile_pattern(self.letter.replace("{1,3}", "", 1)).search(text) is not None

    def find_spelled_words(self, text: str) -> Iterator[HiddenText]:
        """Yield the words in which every letter is a code."""
        if not self.is_left_in(text):
            return
        # The first code stands outside the group, so that the search can jump from one mark to the next.
        runs = list(islice(compile_pattern(f"{self.letter}(?:{self.letter}){{2,63}}").finditer(text), 64))
        if not runs:
            return
        start, end = runs[0].start(), runs[-1].end()
        words = [self.decode(run[0]) for run in runs]
        said = " ".join(words)
        # In binary data a third of the codes are letters by chance, and they spell nothing.
        codes = text.count(self.mark, start, end) - text.count(self.mark * 2, start, end)
        mostly = sum(map(len, words)) * 10 >= codes * 7
        if mostly and sum(map(str.isalpha, said)) >= 8 and (is_wordlike(said) or len(runs) == 64):
            yield HiddenText(self.name, said, start, end)


def _text_of_bytes(match: Match[str]) -> str:
    return bytes.fromhex(match[0].translate(_CODE_SIGNS)).decode("utf-8", "replace")


_CODE_SIGNS = str.maketrans("", "", "%=\r\n")


def _text_of_escape(match: Match[str]) -> str:
    if match.lastgroup == "u":
        return bytes.fromhex(match[0].replace("\\u", "")).decode("utf-16-be", "replace")
    base = 8 if match.lastgroup == "octal" else 16
    return "".join([_character(int(code.strip("xuU{} "), base)) for code in match[0].split("\\")[1:]])


def _character(code: int) -> str:
    return chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else " "


@lru_cache(maxsize=4096)
def _text_of_entity(written: str) -> str:
    from html.entities import html5

    name = written.rstrip(";")
    if name[0] == "#":
        return _character(int(name[2:], 16) if name[1] in "xX" else int(name[1:]))
    return html5.get(f"{name};", html5.get(f"{name.lower()};", f"&{written}"))


_TEXTS_OF = {
    "escape": _text_of_escape,
    "entity": lambda match: "".join(map(_text_of_entity, match[0].split("&")[1:])),
    "percent": _text_of_bytes,
    "quoted": _text_of_bytes,
}


def _read_code(name: str, mark: str, pattern: str, letter: str) -> InlineCode:
    common = ((code, text.encode().decode("unicode_escape")) for of, code, text in _COMMON_CODES if of == name)
    # Possessive, so no way back is kept; bounded, so other threads get their turn within a long run.
    pattern, letter = (
        source.replace("<H>", "[0-9A-Fa-f]").replace("<MORE>", "{0,9999}+").replace("<MANY>", "{1,9999}+")
        for source in (pattern, letter)
    )
    return InlineCode(name, mark, tuple(common), pattern, _TEXTS_OF[name], letter)


_COMMON_CODES = read_table(__package__, "triggers.tbl", "common codes", ("code", "written", "text"))
CODES = tuple(
    _read_code(*row)
    for row in read_table(__package__, "triggers.tbl", "codes", ("code", "mark", "pattern", "a letter of ASCII"))
)


# --- 4. Runs of base64 and hexadecimal


class EncodedRun(NamedTuple):
    """A run, what is written there without the line breaks and quotes in between, and how long its longest piece is."""

    start: int
    end: int
    written: bytes
    longest: int


class DecodedRun(NamedTuple):
    """The text in a run, if its bytes are text; `mostly` if most of the run is that text."""

    kind: str = ""
    said: str = ""
    mostly: bool = True


_PAIRED = bytes(120 if i in b"0123456789abcdefABCDEFx :,-" else 32 for i in range(256))
_URLSAFE = bytes.maketrans(b"-_", b"+/")
_CONTROLS = bytes(i for i in range(32) if i not in b"\t\n\r") + b"\x7f"
_PRINTED = bytes(120 if 32 <= i < 127 or i in b"\t\n\r" else 32 for i in range(256))


def find_runs(flat: bytes, *, shaped: bool, paired: bool = False) -> Iterator[EncodedRun]:
    """Yield the runs of the base64 or hexadecimal alphabets, their lines joined.

    `shaped` asks for short runs and short lines as well, `paired` for pairs of digits with something between.
    """
    mask = flat.translate(_ALPHABET_MASK)
    shortest = SHORTEST_SHAPED_RUN if shaped else SHORTEST_RUN
    done = 0
    for start, end in _find_stretches(mask, _SHORTEST_LINE if shaped else SHORTEST_RUN):
        if start < done:
            continue
        run = _join_pieces(flat, mask, start, end)
        done = run.end
        # Lines that are too short to be runs by themselves are one if there are enough of them. A ruled line decodes to
        # nothing, and every fourth text has one.
        if (run.longest >= shortest or len(run.written) >= SHORTEST_RUN) and run.written.strip(b"+-/_"):
            yield run
    # Only a stretch of these characters can hold nine pairs; trying every place would double the cost.
    for start, stop in _find_stretches(flat.translate(_PAIRED), 26) if paired else ():
        for match in bytes_shape("hex pairs").finditer(flat, start, stop):
            digits = match[0].replace(b"0x", b"").translate(None, b" :,-")
            yield EncodedRun(*match.span(), digits, len(digits))


def _join_pieces(flat: bytes, mask: bytes, start: int, end: int) -> EncodedRun:
    """Return the run that begins with one piece, with all the pieces that are joined to it."""
    pieces = [flat[start:end]]
    while gap := bytes_shape("joint").match(flat, end):
        after = _end_of_stretch(mask, gap.end())
        if after - gap.end() < _SHORTEST_LAST_LINE:
            break
        pieces.append(flat[gap.end() : after])
        end = after
    return EncodedRun(start, end, b"".join(pieces), max(map(len, pieces)))


def _find_stretches(mask: bytes, shortest: int) -> Iterator[tuple[int, int]]:
    """Yield where a mask has at least so many marks in a row."""
    needle = b"x" * shortest
    at = mask.find(needle)
    while at >= 0:
        end = _end_of_stretch(mask, at)
        yield at, end
        at = mask.find(needle, end)


def _end_of_stretch(mask: bytes, at: int) -> int:
    end = mask.find(b" ", at)
    return len(mask) if end < 0 else end


def decode_run(written: bytes, *, glued: bool = False) -> DecodedRun:
    """Return what a run says; `glued` if other letters may stand at its ends."""
    digits = bytes_shape("hex digits").fullmatch(written)
    data = binascii.unhexlify(digits[1]) if digits and len(digits[1]) % 2 == 0 else b""
    # Base64 of so many bytes has letters of both cases: what has one only is a digest, a path or a name.
    plain = b"" if written.islower() or written.isupper() else written.translate(_URLSAFE)
    if said := text_from_bytes(data):
        return DecodedRun("hex", said)
    if said := text_from_bytes(decode_base64(plain)):
        return DecodedRun("base64", said)
    return _decode_glued(written, plain) if glued else DecodedRun()


def _decode_glued(written: bytes, plain: bytes) -> DecodedRun:
    """Return the text in a run that something else is glued to, or that is a part of binary data."""
    if match := bytes_shape("text in hex").search(written):
        kind, data = "hex", binascii.unhexlify(match[0])
    elif match := bytes_shape("text in base64").search(plain):
        kind, data = "base64", decode_base64(plain[match.start() % 4 :])
    else:
        return DecodedRun()
    said = b"\n".join([data[at:end] for at, end in _find_stretches(data.translate(_PRINTED), 8)])
    return DecodedRun(kind, said.decode("ascii"), len(said) * 2 >= len(data))


def decode_base64(run: bytes) -> bytes:
    """Return the bytes of a run of base64; none if it is no such run."""
    try:
        return binascii.a2b_base64((run[:-1] if len(run) % 4 == 1 else run) + b"==")
    except binascii.Error:
        return b""


def text_from_bytes(data: bytes) -> str:
    """Return the bytes as text; empty if they are not: one control character early on is enough to tell."""
    if len(data) < 8:
        return ""
    if b"\0" in data:
        for zeros, codec in ((data[1::2], "utf-16-le"), (data[::2], "utf-16-be")):
            if zeros.count(0) * 10 >= len(zeros) * 9:
                text = data.decode(codec, "replace").rstrip("\0")
                return "" if text_shape("control").search(text) else text
        data = data.rstrip(b"\0")
    if len(data[:64].translate(None, _CONTROLS)) < len(data[:64]):
        return ""
    control = bytes_shape("control").search(data)
    end = control.start() if control else len(data)
    try:
        return data[:end].decode("utf-8") if end * 2 >= len(data) else ""
    except UnicodeDecodeError as error:
        # Other bytes are glued to the end.
        return data[: error.start].decode("utf-8") if error.start >= 32 and error.start * 2 >= len(data) else ""


# --- which decoded texts count as hidden messages

_TEXT_TYPES = (b"image/svg+xml", b"application/json", b"text/css", b"text/javascript", b"application/javascript")


def has_message(text: str) -> bool:
    """Return whether a decoded text has a message: an address, a command or a sentence, not only data."""
    if text.startswith("-----BEGIN"):
        return False
    is_data = text.lstrip()[:1] in ("{", "[", "<")
    return (not is_data and text_shape("link").search(text) is not None) or _has_speech(text)


def _has_speech(text: str) -> bool:
    """Return whether a text has a command with its argument, four words in a row, or nothing but two words or more."""
    words = [token.strip(".,;:!?\"'()") for token in text.split()]
    chain: list[str] = []
    for word in words:
        is_word = len(word) <= 24 and (word.isalpha() or word in ("don't", "I'm", "it's"))
        chain = [*chain[-3:], word] if is_word else []
        if (len(chain) == 4 or 2 <= len(chain) == len(words)) and _are_words(chain):
            return True
    return text_shape("speech").search(text) is not None


def _are_words(chain: list[str]) -> bool:
    said = " ".join(chain)
    return len(said) >= 12 and (not said.isascii() or is_wordlike(said))


def _is_ordinary_carrier(flat: bytes, run: EncodedRun, decoded: DecodedRun) -> bool:
    """Return whether readable text at this place is ordinary: in binary data, a token, a data URI or an address."""
    neighbour = flat[max(0, run.start - 1) : run.start]
    is_token = flat.startswith(b"eyJ", run.start) and (flat.startswith(b".", run.end) or neighbour == b".")
    if is_token or not decoded.mostly:
        return True
    if not neighbour or neighbour in b" \n\t\"'":
        return False
    before = flat[max(0, run.start - 512) : run.start]
    if neighbour == b"," and (match := bytes_shape("data uri").search(before[-120:])):
        # Data that decodes to text is no image, and a drawing or a style sheet does not begin with a word.
        if match[1] in _TEXT_TYPES and decoded.said.lstrip()[:1] in tuple("{[<@.#/*(!;:"):
            return True
    is_address = b"://" in before and bytes_shape("address").search(before) is not None
    return is_address and not _has_speech(decoded.said)


# --- All steps

# No pass of the scanner has seen a decoded text: every decoder that a quick look cannot rule out is tried.
_NESTED = frozenset({"run", "base64", "hex", "percent", "entity", "escape"})
_CLEANING = frozenset({"invisible", "space", "tags", "selectors", "bidi"})
_FOLDING = frozenset({"compat", "mixed", "marks"})


def find_readings(text: str, triggers: frozenset[str]) -> TextReadings:
    """Return every other reading of a text for its triggers; never raises, and cost and output are linear."""
    if not triggers or not text:
        return TextReadings()
    reader = _Decoder(text)
    reader.read(text, triggers, (), (0, len(text)))
    return TextReadings(tuple(reader.items), reader.capped)


class _Decoder:
    """One text being read: its readings so far, and how many characters more may be written."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.left = SPARE_CHARACTERS + CHARACTERS_PER_CHARACTER * len(text)
        self.items: list[Reading] = []
        self.capped = False

    def read(self, text: str, triggers: frozenset[str], how: tuple[str, ...], place: Span, depth: int = 0) -> None:
        """Add the other readings of a text, which stands at this place of the original."""
        plain, steps = self._decode_codes(text, triggers, how, place)
        if steps:
            triggers |= triggers_from_text(plain) | {"run"}
        for hidden in find_hidden_text(plain, triggers):
            self._add_hidden(hidden, how + steps, place, plain)
        clean = remove_invisible(plain, triggers) if triggers & (_CLEANING | _FOLDING) else plain
        latin = fold_to_latin(clean, triggers) if triggers & _FOLDING else clean
        if clean != text:
            said = clean.replace("+", " ") if "percent" in steps else clean
            self._add_reading(how + steps + (("cleaned",) if clean != plain else ()), said, place)
        if latin != clean:
            self._add_reading((*how, *steps, "folded"), latin, place)
        if "spaced" in triggers:
            self._join_spaced_letters(latin, how + steps, place)
        if latin != plain:
            triggers |= {"run"}
        if triggers & {"run", "base64", "hex"}:
            self._read_runs(latin, triggers, how + steps, place, depth)

    def _take_budget(self, text: str) -> str:
        """Return as much of a text as may still be written."""
        self.capped |= len(text) > self.left
        text = text[: self.left]
        self.left -= len(text)
        return text

    def _add_reading(self, how: tuple[str, ...], text: str, place: Span, *, encoded: bool = False) -> None:
        text = self._take_budget(text)
        if text or encoded:
            self.items.append(Reading(">".join(how), text, *place, encoded))

    def _add_hidden(self, hidden: HiddenText, how: tuple[str, ...], place: Span, text: str) -> None:
        # Only of the original itself is it known where a part of it stands.
        place = (hidden.start, hidden.end) if text is self.text else place
        self._add_reading((*how, hidden.how), hidden.text, place, encoded=True)

    def _decode_codes(
        self, text: str, triggers: frozenset[str], how: tuple[str, ...], place: Span
    ) -> tuple[str, tuple[str, ...]]:
        """Return the text with its codes decoded until none is left, and the kinds of codes there were."""
        steps: tuple[str, ...] = ()
        for again in range(MAX_DEPTH):
            before = text
            for code in CODES:
                # Later rounds have no triggers to go by, only the text that the earlier rounds decoded.
                if code.is_left_in(text) if again or steps else code.name in triggers and code.mark in text:
                    for hidden in code.find_spelled_words(text):
                        self._add_hidden(hidden, how + steps, place, text)
                    decoded = code.decode(text)
                    if decoded != text and code.name not in steps:
                        steps += (code.name,)
                    text = decoded
            if text == before:
                return text, steps
        self.capped |= any(code.is_left_in(text) for code in CODES if code.name != "quoted")
        return text, steps

    def _join_spaced_letters(self, text: str, how: tuple[str, ...], place: Span) -> None:
        letters = text_shape("spaced letters")
        joined = letters.sub(lambda match: match[0][::2], text)
        if joined == text:
            return
        # Honest headings are written this way; a hidden message is longer.
        message = text_shape("spaced message").search(text)
        encoded = message is not None and is_wordlike(letters.sub(lambda match: match[0][::2], message[0]))
        place = message.span() if message is not None and text is self.text else place
        self._add_reading((*how, "spaced"), joined, place, encoded=encoded)

    def _read_runs(self, text: str, triggers: frozenset[str], how: tuple[str, ...], place: Span, depth: int) -> None:
        flat = text.encode("ascii", "replace")  # one byte per character: positions stay what they are
        shaped = bool(triggers & {"base64", "hex"})
        # Past MAX_SEPARATE, texts are collected: those in ordinary carriers, and the others.
        together: dict[bool, list[str]] = {True: [], False: []}
        for run in find_runs(flat, shaped=shaped, paired="hex" in triggers):
            decoded = decode_run(run.written, glued=shaped or run.longest < len(run.written))
            if not decoded.said:
                continue
            if depth == MAX_DEPTH:
                self.capped = True
                return
            ordinary = _is_ordinary_carrier(flat, run, decoded)
            if len(self.items) >= MAX_SEPARATE:
                together[ordinary].append(decoded.said)
                continue
            run_place = (run.start, run.end) if text is self.text else place
            self._read_decoded(decoded.said, (*how, decoded.kind), run_place, depth, ordinary=ordinary)
        for ordinary, texts in together.items():
            if texts:
                self._read_decoded("\n".join(texts), (*how, "runs"), place, depth, ordinary=ordinary)

    def _read_decoded(self, said: str, how: tuple[str, ...], place: Span, depth: int, *, ordinary: bool) -> None:
        """Add the text of a run, and its own readings."""
        self._add_reading(how, said, place, encoded=not ordinary and has_message(said))
        self.read(said, _NESTED | triggers_from_text(said), how, place, depth + 1)
