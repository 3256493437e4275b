"""Characters that are not what they look like: which plain Latin text a reader, or a model, sees in them.

All of it works one character at a time, so the cost is linear: normalising whole strings is quadratic on alternating
combining marks, and one U+FDFA becomes eighteen characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from typing import NamedTuple

from lockgate.core.tables import read_table


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
_TAGS, _SELECTORS, _FOREIGN = (_SETS[name] for name in ("tags", "selectors", "mixed"))
_PLAIN = {
    **dict.fromkeys(INVISIBLE + _SETS["bidi"], ""),
    **dict.fromkeys(_SETS["space"], " "),
    **dict.fromkeys("\u2028\u2029", "\n"),
}
_ASCII = bytes(range(128))
# The only sequences of tag characters in general use: the flags of England, Scotland and Wales.
_TAG_FLAGS = tuple(
    "\U0001f3f4" + "".join(chr(0xE0000 + ord(c)) for c in code) + "\U000e007f" for code in ("gbeng", "gbsct", "gbwls")
)
# The most characters that one call into C may work on: other threads wait for the interpreter's lock meanwhile.
SLICE = 65_536


class HiddenText(NamedTuple):
    """Text that its author hid: by which trick, what it says, and where it stands."""

    how: str
    text: str
    start: int
    end: int


@cache
def compile_pattern(source: str) -> re.Pattern[str]:
    """Return a pattern, compiled at first use: compiling them all would be a tenth of the start-up time."""
    return re.compile(source)


_SHAPES = {row[0]: row[1] for row in read_table(__package__, "triggers.tbl", "shapes", ("shape", "pattern"))}


def text_shape(name: str) -> re.Pattern[str]:
    """Return a pattern of the table."""
    return compile_pattern(_SHAPES[name])


@cache
def bytes_shape(name: str) -> re.Pattern[bytes]:
    """Return a pattern of the table over bytes, compiled at first use."""
    return re.compile(_SHAPES[name].encode())


def is_wordlike(text: str) -> bool:
    """Return whether the Latin letters of a text could be words; a sample decides."""
    words = re.findall("[a-z]{2,40}", text[:2000].lower())[:80]
    pairs = [word[i : i + 2] for word in words for i in range(len(word) - 1)]
    return len(pairs) >= 4 and 2 * sum(pair in _PAIRS for pair in pairs) >= len(pairs)


def _drop_ascii(text: str) -> str:
    """Return the characters of a text that are not ASCII; dropping the rest as bytes is faster than any search."""
    return text.encode("utf-8", "surrogatepass").translate(None, _ASCII).decode("utf-8", "surrogatepass")


def triggers_from_text(text: str) -> frozenset[str]:
    """Return the character triggers that a decoded text might fire; no pass of the scanner has seen this text yet."""
    if text.isascii():
        return frozenset()
    used = "".join(set(_drop_ascii(text)))
    return frozenset(name for name, characters in _SETS.items() if compile_pattern(f"[{characters}]").search(used))


# --- A text without what disguises it


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
    if triggers & {"tags", "selectors"}:
        text = compile_pattern(f"[{_TAGS}{_SELECTORS}]+").sub("", text)
    return text


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


PLAIN_CHARACTERS = _CharacterMap(plain_character)


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


_MAX_MIXED_WORDS = 64


def _mixed_words(text: str) -> Iterator[tuple[int, int]]:
    """Yield the words in which a Latin letter touches one of another alphabet."""
    end = 0
    # Phonetic letters are folded too, but prove nothing: dictionaries are full of them.
    for match in compile_pattern(f"[{_FOREIGN}\u0250-\u02af]+").finditer(text):
        beside = text[max(0, match.start() - 1) : match.start()] + text[match.end() : match.end() + 1]
        if match.start() >= end and any(ch.isascii() and ch.isalpha() for ch in beside):
            start, end = _word_around(text, match.start(), match.end(), end)
            yield start, end


def _word_around(text: str, start: int, end: int, first: int = 0) -> tuple[int, int]:
    """Return the word around a place: at most 40 characters to each side, invisible characters included."""
    head = compile_pattern(rf"[\w{INVISIBLE}]*\Z").search(text[max(first, start - 40) : start])
    tail = compile_pattern(rf"[\w{INVISIBLE}]{{0,40}}").match(text, end)
    return start - (len(head[0]) if head else 0), tail.end() if tail else end


def _compatible(ch: str) -> str:
    if unicodedata.category(ch) in ("Cf", "Cs", "Co", "Cn"):
        return ""
    text = unicodedata.normalize("NFKC", ch)
    return text if len(text) <= 4 else ch  # eighteen letters for one would make a megabyte of a page


# Unicode's own compatible characters: letters keep accents and alphabet. What has no shape is gone, as is half a
# surrogate pair, which no tokenizer takes.
COMPATIBLE = _CharacterMap(_compatible)


# --- What is hidden


def find_hidden_text(text: str, triggers: frozenset[str]) -> Iterator[HiddenText]:
    """Yield what the characters of a text hide, for the triggers that fired; ordinary typography hides nothing."""
    if not text.isascii():
        for trigger, find in _FINDERS.items():
            if trigger in triggers:
                yield from find(text)


def _find_tags(text: str) -> Iterator[HiddenText]:
    for flag in _TAG_FLAGS:
        text = text.replace(flag, " " * len(flag))
    runs = compile_pattern(f"[{_TAGS}]+").findall(text)
    if runs:
        start, end = text.index(runs[0]), text.rindex(runs[-1]) + len(runs[-1])
        # One run per letter is a message laid over other text; one run per line means several messages.
        for glue in ("",) if len(runs) == 1 else ("", " "):
            codes = glue.join(runs).encode("utf-32-le")[::4]
            yield HiddenText("tags", codes.translate(None, bytes(range(32))).decode("ascii", "replace"), start, end)


def _find_selectors(text: str) -> Iterator[HiddenText]:
    runs = compile_pattern(f"[{_SELECTORS}]{{2,}}|(?<=[A-Za-z ])[{_SELECTORS}]").findall(text)
    chosen = "".join(run for run in runs if run.strip("\ufe0e\ufe0f"))
    if len(chosen) < 2:
        return
    start, end = text.index(chosen[0]), text.rindex(chosen[-1]) + 1
    # One byte per selector, the code in general use. Whatever other selectors spell, they hide something.
    values = bytes(ord(ch) - 0xFE00 if ch < "\uff00" else ord(ch) - 0xE0100 + 16 for ch in chosen[:16_384])
    yield HiddenText("selectors", values.decode("utf-8", "replace"), start, end)


# Honest break opportunities stand before capitals and after signs; between two small letters a word was split.
_SPLIT_WORD = f"(?<=[A-Za-z])[{INVISIBLE}]{{1,64}}(?=[a-z])"
_JOINERS, _SOFT_HYPHEN = "\u200c\u200d", "\u00ad"


def _find_invisible(text: str) -> Iterator[HiddenText]:
    # Soft hyphens and joiners have honest uses inside words; one letter between two hyphens has none, nor two joiners.
    split = [match.span() for match in islice(compile_pattern("(?<=[A-Za-z])\u00ad[A-Za-z]\u00ad").finditer(text), 64)]
    joined = []
    for match in islice(compile_pattern(_SPLIT_WORD).finditer(text), 256):
        kinds = match[0].replace(_SOFT_HYPHEN, "")
        if kinds.strip(_JOINERS):
            split += [match.span()] if text[match.start() - 1].islower() else []
        elif kinds:
            joined.append(match.span())
    if places := sorted(split + (joined if len(joined) > 1 else [])):
        start, end = _word_around(text, places[0][0], places[-1][1])
        yield HiddenText("invisible", remove_invisible(text[start:end][:4096], frozenset()), start, end)
    for run in islice(compile_pattern(f"[{INVISIBLE}]{{16,}}").finditer(text), 64):
        if len(set(run[0][:4096])) > 1:  # bits: what they spell does not matter
            yield HiddenText("invisible", "", run.start(), run.end())


def _find_reordered(text: str) -> Iterator[HiddenText]:
    # A right-to-left override or embedding around left-to-right text shows a reader another text than the model gets.
    # At the start of a line it is honest: a translation with some words left in English.
    odd = compile_pattern("(?:\u202e|(?<=[^\n])[\u202b\u2067])([^\u0590-\u08ff\u202c\u2069\ufb1d-\ufdff\n]{2,400})")
    for match in islice(odd.finditer(text), 16):
        if sum(ch.isascii() and ch.isalpha() for ch in match[1][:16]) >= 3:
            yield HiddenText("bidi", remove_invisible(match[1], frozenset())[::-1], match.start(), match.end())


# A foreign letter inside a word, or a Cyrillic or Armenian one in front. A Greek letter at an end is a symbol, a
# Cyrillic ending on a foreign name is grammar, and capitals get mixed by accident in acronyms and part numbers. A mu
# between m and n is the prefix of a unit: `mμnpf`.
_FOREIGN_INSIDE = f"(?![mn]\u03bc[mn])[a-z][{_FOREIGN}]+[a-z]|[{_FOREIGN}][a-z]+[{_FOREIGN}]|^[\u0400-\u0587][a-z]{{2}}"


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
    is_mixed = compile_pattern(_FOREIGN_INSIDE).search(word) is not None
    return is_mixed and len(word) > 3 and latin.isascii() and latin.isalpha()


_FINDERS: dict[str, Callable[[str], Iterator[HiddenText]]] = {
    "tags": _find_tags,
    "selectors": _find_selectors,
    "invisible": _find_invisible,
    "bidi": _find_reordered,
    "mixed": _find_lookalikes,
}
