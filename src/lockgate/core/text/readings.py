"""Every other reading of a text: what a model may see in it that a rule reading its bytes does not.

1. Triggers: byte patterns that ride in the scanner's own pass. No trigger fired, no other reading.
2. Codes written in place (percent, HTML entities, escapes, quoted-printable) are decoded over the whole text.
3. Characters: what invisible ones hide is shown; then they are removed, and lookalikes and styled letters are folded to
   Latin. All of it works one character at a time: normalising whole strings is quadratic on alternating marks.
4. Runs of base64 or hexadecimal are decoded, and read again from step 2, to a bounded depth.
Every reading goes back to the rules. `encoded` marks readings of text that its author hid: entropy says nothing, what
the text decodes to does. An attacker may have written it to be slow, so every decoder is one pass.
"""

from __future__ import annotations

import binascii
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache
from itertools import islice
from re import Match, Pattern
from typing import NamedTuple

from lockgate.core.tables import read_sections, read_table

MAX_DEPTH = 3
# Output beyond this is not read, and `capped` says so.
SPARE_CHARACTERS, CHARACTERS_PER_CHARACTER = 32_768, 6
# Past this many readings, further runs become one reading together.
MAX_SEPARATE = 16
SHORTEST_RUN, SHORTEST_SHAPED_RUN = 50, 24
# The shortest line of a run on several lines, and the shortest last one.
_SHORTEST_LINE, _SHORTEST_LAST_LINE = 8, 4
# The most characters that one call into C may work on: other threads wait for the interpreter's lock meanwhile.
SLICE = 65_536
_MAX_MIXED_WORDS = 64

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


# --- the tables


def _read_characters(section: str, column: str) -> dict[str, str]:
    rows = read_table(__package__, "letters.tbl", section, (column, "code points"))
    return {chr(int(code, 16)): name for name, codes in rows for code in codes.split()}


LOOKALIKES = _read_characters("lookalikes", "letter")
CLOSEST_LOOKALIKES = "".join(_read_characters("closest", "script"))
_PAIRS = frozenset(
    first + second
    for first, seconds in read_table(__package__, "letters.tbl", "pairs", ("first letter", "second letters"))
    for second in seconds
)
# Sets of characters as they stand in a class of a pattern; a range only where nothing goes over the characters.
_SETS = {
    name: "".join("-".join(chr(int(code, 16)) for code in part.split("-")) for part in codes.split())
    for name, codes in read_table(__package__, "letters.tbl", "sets", ("name", "code points"))
}
INVISIBLE, CONTROLS = _SETS["invisible"], _SETS.pop("controls")
_PLAIN = {
    **dict.fromkeys(INVISIBLE + _SETS["bidi"], ""),
    **dict.fromkeys(_SETS["space"], " "),
    **dict.fromkeys("\u2028\u2029", "\n"),
}
_SHAPES = {row[0]: row[1] for row in read_table(__package__, "triggers.tbl", "shapes", ("shape", "pattern"))}


@cache
def compile_pattern(source: str) -> Pattern[str]:
    """Return a pattern, compiled at first use: compiling them all would be a tenth of the start-up time."""
    return re.compile(source)


@cache
def text_shape(name: str) -> Pattern[str]:
    """Return a pattern of the table."""
    return re.compile(re.sub(r"\{([a-z]+)\}", lambda part: _SETS[part[1]], _SHAPES[name]))


@cache
def bytes_shape(name: str) -> Pattern[bytes]:
    """Return a pattern of the table over bytes."""
    return re.compile(_SHAPES[name].encode())


def is_wordlike(text: str) -> bool:
    """Return whether the Latin letters of a text could be words; a sample decides."""
    words = re.findall("[a-z]{2,40}", text[:2000].lower())[:80]
    pairs = [word[i : i + 2] for word in words for i in range(len(word) - 1)]
    return len(pairs) >= 4 and 2 * sum(pair in _PAIRS for pair in pairs) >= len(pairs)


# --- 1. Triggers


def _triples(words: Iterable[str]) -> list[str]:
    return sorted({f" {word} "[i : i + 3] for word in words for i in range(len(word))})


_WORDS = read_sections(__package__, "common_words.txt")
_COMMON = _triples(_WORDS["commonest"])
_TRIPLES = _triples((*_WORDS["commonest"], *_WORDS["others"]))
_TRIPLES += ["://", "//w", "tp:", "s:/", "p:/", " | ", "| b", "/et", "tc/", " -r", ", a", ". T"]
_WRITTEN = {0: "|"} | {i: chr(i) if chr(i).isalnum() and i < 128 else f"\\x{i:02x}" for i in range(1, 256)}
_LATIN = "abcdefghijklmnopqrstuvwxyz"


def _alternation(literals: Iterable[bytes | str]) -> str:
    """Return an alternation of plain literals: each one more costs the engine hardly anything."""
    joined = b"\0".join(sorted({text.encode() if isinstance(text, str) else text for text in literals}))
    return f"(?:{joined.decode('latin-1').translate(_WRITTEN)})"


def _read_triggers(section: str) -> list[tuple[str, ...]]:
    return read_table(__package__, "triggers.tbl", section, ("trigger", "pattern"))


# Three letters of text are four of base64, where case matters.
_BASE64 = _alternation(
    binascii.b2a_base64(word.encode(), newline=False) for text in _TRIPLES for word in (text, text.title())
)
_MARKS = _alternation(map(chr, range(0x300, 0x370)))
_IN_ASCII = (
    ("base64", f"(?-i:{_BASE64})"),
    *(
        ("hex", _alternation(text.encode().hex(" ").replace(" ", sep) for text in texts for sep in separators))
        for texts, separators in ((_TRIPLES, ("",)), (_COMMON, (" ", ":", "-")), (_COMMON, (", 0x", ",0x", " 0x")))
    ),
    *_read_triggers("ascii"),
    # `t h e`: text written out letter by letter contains one of these before long.
    *(("spaced", _alternation(sep + sep.join(t) + sep for t in _COMMON if t.isalpha())) for sep in " .-_"),
)
_BEYOND_ASCII = (
    *_read_triggers("beyond ascii"),
    # A Latin letter before any Greek, Cyrillic, Armenian or phonetic one, or after one of the closest lookalikes.
    ("mixed", _alternation(a.encode() + bytes([lead]) for a in _LATIN for lead in (0xC9, 0xCA, *range(0xCD, 0xD7)))),
    ("mixed", _alternation(ch + a for ch in CLOSEST_LOOKALIKES for a in _LATIN)),
    ("marks", f"[a-z]{_MARKS}|{_MARKS}{{2}}"),
)
TRIGGERS = (*_IN_ASCII, *_BEYOND_ASCII)
# The numbers of the triggers that no text of ASCII alone can fire.
BEYOND_ASCII = range(len(_IN_ASCII), len(TRIGGERS))

# Bytes by their sort, so that plain searches find the places. The alphabets of base64 and hexadecimal are `x`.
_ALPHABET = frozenset(b"+/_-") | {byte for byte in range(128) if chr(byte).isalnum()}
_UNSEEN = frozenset((*range(9), *range(14, 27), *range(28, 32), 127))
_SORTS = bytes(120 if byte in _ALPHABET else 33 if byte in _UNSEEN else 32 for byte in range(256))


def triggers_from_shape(data: bytes) -> tuple[str, ...]:
    """Return the triggers that the shape of a text fires: a long run, or control characters within a word."""
    sorts = data.translate(_SORTS)
    fired = ("run",) if sorts.find(b"x" * SHORTEST_RUN) >= 0 else ()
    return (*fired, "invisible") if b"!" in sorts and bytes_shape("controls within").search(data) else fired


def triggers_from_text(text: str) -> frozenset[str]:
    """Return the character triggers that a decoded text might fire; no pass of the scanner has seen this text yet."""
    if text.isascii():
        return frozenset()
    used = "".join(set(_drop_ascii(text)))
    return frozenset(name for name, characters in _SETS.items() if compile_pattern(f"[{characters}]").search(used))


def _drop_ascii(text: str) -> str:
    # Dropping characters as bytes is faster than any search.
    return text.encode("utf-8", "surrogatepass").translate(None, bytes(range(128))).decode("utf-8", "surrogatepass")


# --- 2. Codes in place


class HiddenText(NamedTuple):
    """Text that its author hid: by which trick, what it says, and where it stands."""

    how: str
    text: str
    start: int
    end: int


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
        # The first code stands outside the group, so that the search can jump from one mark to the next.
        spelled = compile_pattern(f"{self.letter}(?:{self.letter}){{2,63}}")
        runs = list(islice(spelled.finditer(text), 64)) if self.is_left_in(text) else []
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
    return bytes.fromhex(re.sub(r"[%=\r\n]", "", match[0])).decode("utf-8", "replace")


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
# Possessive, so no way back is kept; bounded, so other threads get their turn within a long run.
_REPEATS = {"<H>": "[0-9A-Fa-f]", "<MORE>": "{0,9999}+", "<MANY>": "{1,9999}+"}


def _read_code(name: str, mark: str, pattern: str, letter: str) -> InlineCode:
    rows = read_table(__package__, "triggers.tbl", "common codes", ("code", "written", "text"))
    common = tuple((code, text.encode().decode("unicode_escape")) for of, code, text in rows if of == name)
    for part, meaning in _REPEATS.items():
        pattern, letter = pattern.replace(part, meaning), letter.replace(part, meaning)
    return InlineCode(name, mark, common, pattern, _TEXTS_OF[name], letter)


_CODE_COLUMNS = ("code", "mark", "pattern", "a letter of ASCII")
CODES = tuple(_read_code(*row) for row in read_table(__package__, "triggers.tbl", "codes", _CODE_COLUMNS))


# --- 3. Characters: a text without what disguises it


def remove_invisible(text: str, triggers: frozenset[str]) -> str:
    """Return the text without its invisible characters, and with plain spaces for the unusual ones."""
    if text.isascii() and "invisible" not in triggers:
        return text
    for ch in CONTROLS:
        if ch in text:
            text = text.replace(ch, "")
    beyond = _drop_ascii(text)
    for ch, plain in _PLAIN.items():
        if ch in beyond:
            text = text.replace(ch, plain)
    return text_shape("tags and selectors").sub("", text) if triggers & {"tags", "selectors"} else text


class _CharacterMap(dict[int, str]):
    """Map a character's code to text for `str.translate`; computed once per character."""

    def __init__(self, text_of: Callable[[str], str]) -> None:
        self._text_of = text_of

    def __missing__(self, code: int) -> str:
        if len(self) > 40_000:  # an attacker's text with every character there is must not fill the memory for good
            self.clear()
        self[code] = text = self._text_of(chr(code))
        return text


def plain_character(ch: str) -> str:
    """Return what a reader sees in one character: nothing, a space, or a Latin letter, sign or digit.

    A character that no ASCII text looks like stays as it is.
    """
    code = ord(ch)
    if ch in _PLAIN or ch in CONTROLS:
        return _PLAIN.get(ch, "")
    if ch.isascii():
        return ch
    if 0x1F150 <= code <= 0x1F189 or 0x1F1E6 <= code <= 0x1F1FF:  # negative circled, squared, and flag letters
        return chr(97 + (code - (0x1F1E6 if code >= 0x1F1E6 else 0x1F150 if code < 0x1F16A else 0x1F170)) % 26)
    if ch in LOOKALIKES:
        return LOOKALIKES[ch]
    # Marks, selectors, tags and halves of surrogate pairs are invisible, or drawn on the letter before.
    category = unicodedata.category(ch)
    if category in ("Mn", "Me", "Cf", "Cs"):
        return ""
    if category == "Nd":
        return str(unicodedata.decimal(ch))
    parts = unicodedata.normalize("NFKD", ch)
    plain = "".join([LOOKALIKES.get(part, part) for part in parts if not unicodedata.combining(part)])
    # Other characters stay as they are: taking Hangul apart, or writing eighteen letters for one, gains nothing.
    return plain if plain.isascii() and len(plain) <= 4 else ch


def _compatible(ch: str) -> str:
    if unicodedata.category(ch) in ("Cf", "Cs", "Co", "Cn"):
        return ""
    text = unicodedata.normalize("NFKC", ch)
    return text if len(text) <= 4 else ch  # eighteen letters for one would make a megabyte of a page


PLAIN_CHARACTERS = _CharacterMap(plain_character)
# Unicode's own compatible characters: letters keep accents and alphabet. What has no shape is gone, as is half a
# surrogate pair, which no tokenizer takes.
COMPATIBLE = _CharacterMap(_compatible)


def fold_to_latin(text: str, triggers: frozenset[str]) -> str:
    """Return the text with Latin letters for their lookalikes, and without combining marks.

    Where only the trigger `mixed` fired, words that mix alphabets are folded and all others stay: they are Russian.
    """
    if text.isascii():
        return text
    most = 0 if triggers & {"compat", "marks"} else _MAX_MIXED_WORDS + len(text) // 64
    spans = list(islice(_mixed_words(text), most))
    if len(spans) == most:
        # Between two slices other threads get the interpreter's lock.
        return "".join([text[at : at + SLICE].translate(PLAIN_CHARACTERS) for at in range(0, len(text), SLICE)])
    pieces: list[str] = []
    done = 0
    for start, end in spans:
        pieces += text[done:start], text[start:end].translate(PLAIN_CHARACTERS)
        done = end
    return "".join(pieces) + text[done:]


def _mixed_words(text: str) -> Iterator[Span]:
    """Yield the words in which a Latin letter touches one of another alphabet."""
    end = 0
    for match in text_shape("foreign letters").finditer(text):
        beside = text[max(0, match.start() - 1) : match.start()] + text[match.end() : match.end() + 1]
        if match.start() >= end and any(ch.isascii() and ch.isalpha() for ch in beside):
            start, end = _word_around(text, match.start(), match.end(), end)
            yield start, end


def _word_around(text: str, start: int, end: int, first: int = 0) -> Span:
    """Return the word around a place: at most 40 characters to each side, invisible characters included."""
    head = text_shape("end of a word").search(text[max(first, start - 40) : start])
    tail = text_shape("rest of a word").match(text, end)
    return start - (len(head[0]) if head else 0), tail.end() if tail else end


# --- 3. Characters: what is hidden


def find_hidden_text(text: str, triggers: frozenset[str]) -> Iterator[HiddenText]:
    """Yield what the characters of a text hide, for the triggers that fired; ordinary typography hides nothing."""
    for trigger, find in () if text.isascii() else _FINDERS.items():
        if trigger in triggers:
            yield from find(text)


def _find_tags(text: str) -> Iterator[HiddenText]:
    text = text_shape("flag").sub(lambda flag: " " * len(flag[0]), text)
    if runs := text_shape("tags").findall(text):
        start, end = text.index(runs[0]), text.rindex(runs[-1]) + len(runs[-1])
        # One run per letter is a message laid over other text; one run per line means several messages.
        for glue in ("",) if len(runs) == 1 else ("", " "):
            codes = glue.join(runs).encode("utf-32-le")[::4]
            yield HiddenText("tags", codes.translate(None, bytes(range(32))).decode("ascii", "replace"), start, end)


def _find_selectors(text: str) -> Iterator[HiddenText]:
    runs = text_shape("hiding selectors").findall(text)
    chosen = "".join(run for run in runs if run.strip("\ufe0e\ufe0f"))
    if len(chosen) >= 2:
        # One byte per selector, the code in general use. Whatever other selectors spell, they hide something.
        values = bytes(ord(ch) - 0xFE00 if ch < "\uff00" else ord(ch) - 0xE0100 + 16 for ch in chosen[:16_384])
        start, end = text.index(chosen[0]), text.rindex(chosen[-1]) + 1
        yield HiddenText("selectors", values.decode("utf-8", "replace"), start, end)


def _find_invisible(text: str) -> Iterator[HiddenText]:
    split = [match.span() for match in islice(text_shape("hyphenated letter").finditer(text), 64)]
    joined = []
    for match in islice(text_shape("split word").finditer(text), 256):
        kinds = match[0].replace("\u00ad", "")
        if kinds.strip("\u200c\u200d"):
            split += [match.span()] if text[match.start() - 1].islower() else []
        elif kinds:
            joined.append(match.span())
    # One joiner has an honest use inside a word, two have none.
    if places := sorted(split + (joined if len(joined) > 1 else [])):
        start, end = _word_around(text, places[0][0], places[-1][1])
        yield HiddenText("invisible", remove_invisible(text[start:end][:4096], frozenset()), start, end)
    for run in islice(text_shape("many invisible").finditer(text), 64):
        if len(set(run[0][:4096])) > 1:  # bits: what they spell does not matter
            yield HiddenText("invisible", "", run.start(), run.end())


def _find_reordered(text: str) -> Iterator[HiddenText]:
    for match in islice(text_shape("reordered").finditer(text), 16):
        if sum(ch.isascii() and ch.isalpha() for ch in match[1][:16]) >= 3:
            yield HiddenText("bidi", remove_invisible(match[1], frozenset())[::-1], match.start(), match.end())


def _find_lookalikes(text: str) -> Iterator[HiddenText]:
    words = islice(_mixed_words(text), _MAX_MIXED_WORDS)
    disguised = [(start, end) for start, end in words if _is_disguised_latin(text[start:end])]
    # In a text of another alphabet one or two such words are typing errors.
    is_foreign = len(text) > 80 and len(text.encode("ascii", "ignore")) * 4 < len(text) * 3
    if len(disguised) > (2 if is_foreign else 0):
        said = " ".join(text[start:end].translate(PLAIN_CHARACTERS) for start, end in disguised)
        yield HiddenText("lookalike", said, disguised[0][0], disguised[-1][1])


def _is_disguised_latin(word: str) -> bool:
    """Return whether a word mixes alphabets and reads as a Latin one."""
    latin = word.translate(PLAIN_CHARACTERS)
    return len(word) > 3 and latin.isascii() and latin.isalpha() and text_shape("mixed word").search(word) is not None


_FINDERS: dict[str, Callable[[str], Iterator[HiddenText]]] = {
    "tags": _find_tags,
    "selectors": _find_selectors,
    "invisible": _find_invisible,
    "bidi": _find_reordered,
    "mixed": _find_lookalikes,
}

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


_ALPHABET_MASK = _SORTS.replace(b"!", b" ")
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
        pieces, done = [flat[start:end]], end
        while gap := bytes_shape("joint").match(flat, done):
            after = _end_of_stretch(mask, gap.end())
            if after - gap.end() < _SHORTEST_LAST_LINE:
                break
            pieces.append(flat[gap.end() : after])
            done = after
        written, longest = b"".join(pieces), max(map(len, pieces))
        # Lines that are too short to be runs by themselves are one if there are enough of them. A ruled line decodes to
        # nothing, and every fourth text has one.
        if (longest >= shortest or len(written) >= SHORTEST_RUN) and written.strip(b"+-/_"):
            yield EncodedRun(start, done, written, longest)
    # Only a stretch of these characters can hold nine pairs; trying every place would double the cost.
    for start, stop in _find_stretches(flat.translate(_PAIRED), 26) if paired else ():
        for match in bytes_shape("hex pairs").finditer(flat, start, stop):
            digits = match[0].replace(b"0x", b"").translate(None, b" :,-")
            yield EncodedRun(*match.span(), digits, len(digits))


def _find_stretches(mask: bytes, shortest: int) -> Iterator[Span]:
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
    # The text in a run that something else is glued to, or that is a part of binary data.
    if glued and (match := bytes_shape("text in hex").search(written)):
        kind, data = "hex", binascii.unhexlify(match[0])
    elif glued and (match := bytes_shape("text in base64").search(plain)):
        kind, data = "base64", decode_base64(plain[match.start() % 4 :])
    else:
        return DecodedRun()
    printed = b"\n".join([data[at:end] for at, end in _find_stretches(data.translate(_PRINTED), 8)])
    return DecodedRun(kind, printed.decode("ascii"), len(printed) * 2 >= len(data))


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


# Which decoded texts count as hidden messages.
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
        if len(chain) == 4 or 2 <= len(chain) == len(words):
            said = " ".join(chain)
            if len(said) >= 12 and (not said.isascii() or is_wordlike(said)):
                return True
    return text_shape("speech").search(text) is not None


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
        self._add_hidden(find_hidden_text(plain, triggers), how + steps, place, plain)
        clean = remove_invisible(plain, triggers) if triggers & (_CLEANING | _FOLDING) else plain
        latin = fold_to_latin(clean, triggers) if triggers & _FOLDING else clean
        if clean != text:
            said = clean.replace("+", " ") if "percent" in steps else clean
            self._add(how + steps + (("cleaned",) if clean != plain else ()), said, place)
        if latin != clean:
            self._add((*how, *steps, "folded"), latin, place)
        if "spaced" in triggers:
            self._join_spaced_letters(latin, how + steps, place)
        if latin != plain:
            triggers |= {"run"}
        if triggers & {"run", "base64", "hex"}:
            self._read_runs(latin, triggers, how + steps, place, depth)

    def _add(self, how: tuple[str, ...], text: str, place: Span, *, encoded: bool = False) -> None:
        """Add a reading, as much of it as may still be written."""
        self.capped |= len(text) > self.left
        text = text[: self.left]
        self.left -= len(text)
        if text or encoded:
            self.items.append(Reading(">".join(how), text, *place, encoded))

    def _add_hidden(self, texts: Iterable[HiddenText], how: tuple[str, ...], place: Span, text: str) -> None:
        for hidden in texts:
            # Only of the original itself is it known where a part of it stands.
            inside = (hidden.start, hidden.end) if text is self.text else place
            self._add((*how, hidden.how), hidden.text, inside, encoded=True)

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
                    self._add_hidden(code.find_spelled_words(text), how + steps, place, text)
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
        self._add((*how, "spaced"), joined, place, encoded=encoded)

    def _read_runs(self, text: str, triggers: frozenset[str], how: tuple[str, ...], place: Span, depth: int) -> None:
        flat = text.encode("ascii", "replace")  # one byte per character: positions stay what they are
        shaped = bool(triggers & {"base64", "hex"})
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
            inside = (run.start, run.end) if text is self.text else place
            self._read_decoded(decoded.said, (*how, decoded.kind), inside, depth, ordinary=ordinary)
        for ordinary, texts in together.items():
            self._read_decoded("\n".join(texts), (*how, "runs"), place, depth, ordinary=ordinary)

    def _read_decoded(self, said: str, how: tuple[str, ...], place: Span, depth: int, *, ordinary: bool) -> None:
        """Add the text of a run, and its own readings."""
        if said:
            self._add(how, said, place, encoded=not ordinary and has_message(said))
            self.read(said, _NESTED | triggers_from_text(said), how, place, depth + 1)
