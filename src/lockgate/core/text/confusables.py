"""Characters that are not what they look like: which plain Latin text a reader, or a model, sees in them.

Everything here works one character at a time, so that the cost is linear whatever the text: normalising whole
strings is quadratic on alternating combining marks, and one U+FDFA becomes eighteen characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice, pairwise

# Lookalikes of a letter that Unicode's own compatibility mappings do not fold: Greek, Cyrillic, Armenian, Georgian,
# Cherokee, Lisu, small capitals, letters with a stroke. Written as escapes, since a reviewer cannot tell them apart.
_LOOKALIKES = {
    "a": "\u0251\u03b1\u0430\u1d00\u237a\u0391\u0410\u13aa\ua4ee",
    "b": "\u0184\u0253\u0299\u03b2\u044c\u13cf\u0392\u0412\u13f4\ua4d0",
    "c": "\u0188\u0441\u04ab\u1d04\u03f2\u03f9\u0421\u13df\ua4da",
    "d": "\u0111\u0257\u0501\u1d05\u13e7\u13a0\ua4d3",
    "e": "\u0259\u025b\u03b5\u0435\u0454\u04bd\u1d07\u212e\u0395\u0415\u13ac\ua4f0",
    "f": "\u0192\u03dc\u0584\u1e9d\ua4dd\ua730",
    "g": "\u018d\u0261\u0262\u0581\u050d\u050c\u13c0\ua4d6",
    "h": "\u0127\u029c\u045b\u04bb\u0570\u13c2\u0397\u041d\u13bb\ua4e7",
    "i": "\u0131\u0269\u026a\u03b9\u0456\u13a5\u0399\u0406\u04c0\ua4f2",
    "j": "\u0237\u03f3\u0458\u0575\u1d0a\u0408\u13ab\ua4d9",
    "k": "\u0138\u0199\u03ba\u043a\u049b\u1d0b\u039a\u041a\u13e6\ua4d7",
    "l": "\u0142\u01c0\u029f\u04cf\u056c\u13de\ua4e1",
    "m": "\u043c\u1d0d\u039c\u03fa\u041c\u13b7\ua4df",
    "n": "\u014b\u0272\u0274\u03b7\u043f\u0578\u057c\u039d\ua4e0",
    "o": "\u00f8\u03bf\u043e\u04e9\u0585\u10ff\u1d0f\u00d8\u039f\u041e\u0555\u13a4\ua4f3",
    "p": "\u01bf\u03c1\u0440\u1d18\u03a1\u0420\u13e2\ua4d1",
    "q": "\u03d9\u051b\u0563\u0566\ua7af",
    "r": "\u027e\u0280\u0433\u1d26\u13a1\u13d2\ua4e3",
    "s": "\u01bd\u0282\u0455\ua731\u0405\u054f\u13da\ua4e2",
    "t": "\u0167\u01ad\u03c4\u0442\u1d1b\u03a4\u0422\u13a2\ua4d4",
    "u": "\u028b\u03bc\u03c5\u057d\u1d1c\u054d\ua4f4",
    "v": "\u03bd\u0475\u1d20\u0474\u13d9\ua4e6",
    "w": "\u03c9\u0448\u0461\u051d\u0561\u1d21\u051c\u13b3\u13d4\ua4ea",
    "x": "\u03c7\u0445\u04b3\u03a7\u0425\ua4eb",
    "y": "\u0263\u028f\u03b3\u0443\u04af\u10e7\u03a5\u04ae\u0423\u13a9\ua4ec",
    "z": "\u01b6\u0290\u1d22\u0396\u13c3\ua4dc",
    "'": "\u02b9\u02bc\u2018\u2019\u201b\u2032",
    '"': "\u201c\u201d\u201e\u2033",
    "-": "\u2010\u2011\u2012\u2013\u2014\u2212",
    "/": "\u2044\u2215",
}
# Those that cannot be told from the letter in any typeface, of Cyrillic, Greek and Armenian.
CLOSEST_LOOKALIKES = (
    "\u0430\u0441\u0435\u043e\u0440\u0445\u0443\u0456\u0458\u0455\u04bb\u0501\u0410\u0412\u0421\u0415\u041d\u0406\u041a\u041c\u041e\u0420"
    "\u0405\u0422\u0425\u03b1\u03bd\u03bf\u03c1\u03b9\u03ba\u0391\u0392\u0395\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u0578\u0585\u057d\u0570"
)
LOOKALIKES = {ch: latin for latin, lookalikes in _LOOKALIKES.items() for ch in lookalikes}

# Drawn with no width at all: whatever stands on both sides of one reads as if it were not there.
INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180e\u200b\u200c\u200d\u200e\u200f"
    "\u2060\u2061\u2062\u2063\u2064\u206a\u206b\u206c\u206d\u206e\u206f\u3164\ufeff\uffa0\ufff9\ufffa\ufffb"
)
# Control characters are not drawn either; tabs and line ends are, and escape sequences colour ordinary logs. They are
# taken out, and are no sign of anything by themselves: decoded bytes are full of them.
CONTROLS = "".join(map(chr, (*range(0x09), *range(0x0E, 0x1B), *range(0x1C, 0x20), 0x7F)))
BIDI = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
# Spaces that the rules' own `\s`, which knows bytes and not characters, would walk past.
SPACES = "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"

_PLAIN = {
    **dict.fromkeys(INVISIBLE + BIDI, ""),
    **dict.fromkeys(SPACES, " "),
    **dict.fromkeys("\u2028\u2029", "\n"),
}
_ASCII = bytes(range(128))
_TAGS = "\U000e0000-\U000e007f"
_SELECTORS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
# The only sequences of tag characters in general use: the flags of England, Scotland and Wales.
_TAG_FLAGS = tuple(
    "\U0001f3f4" + "".join(chr(0xE0000 + ord(c)) for c in code) + "\U000e007f" for code in ("gbeng", "gbsct", "gbwls")
)

# Letter pairs of English and its neighbours in Latin script. Text has two thirds of its pairs here, random letters,
# alphabets, protein sequences and identifiers a third or less.
_PAIRS = frozenset(
    """
    th he in er an re on at en nd ti es or te of ed is it al ar st to nt ng se ha as ou io le ve co me de hi ri ro
    ic ne ea ra ce li ch ll be ma si om ur ca el ta la ns di fo ho pe ec pr no ct us ac ot il tr ly nc et ut ss so
    rs un lo wa ge ie wh ee wi em ad ol rt po we na ul ni ts mo ow pa im mi ai sh ir su id os iv ia am fi ci vi pl
    ig tu ev ld ry mp fe bl ab gh ty op wo sa ay ex ke fr oo av ag if ap gr od bo sp rd do uc bu ei ov by rm ep tt
    oc fa ef cu rn sc gi da yo cr cl du ga qu ue ff ba ey ls va um pp ua up lu go ru gn ub wr nf my
    """.split()
)


@dataclass(frozen=True, slots=True)
class HiddenText:
    """Text that its author hid: by which trick, what it says, and where it stands."""

    how: str
    text: str
    start: int
    end: int


@cache
def compile_pattern(source: str) -> re.Pattern[str]:
    """Return a pattern, compiled at first use: compiling them all would be a tenth of the start-up time."""
    return re.compile(source)


@cache
def compile_bytes_pattern(source: bytes) -> re.Pattern[bytes]:
    """Return a pattern over bytes, compiled at first use."""
    return re.compile(source)


def is_wordlike(text: str) -> bool:
    """Return whether the Latin letters of a text could be words; a sample decides."""
    words = re.findall("[a-z]{2,40}", text[:2000].lower())[:80]
    pairs = [word[i : i + 2] for word in words for i in range(len(word) - 1)]
    return len(pairs) >= 4 and 2 * sum(pair in _PAIRS for pair in pairs) >= len(pairs)


def _drop_ascii(text: str) -> str:
    """Return the characters of a text that are not ASCII; dropping the rest as bytes is faster than any search."""
    return text.encode("utf-8", "surrogatepass").translate(None, _ASCII).decode("utf-8", "surrogatepass")


def remove_invisible(text: str, triggers: frozenset[str]) -> str:
    """Return the text without its invisible characters, and with plain spaces for the unusual ones."""
    if text.isascii() and "invisible" not in triggers:
        return text
    for ch in CONTROLS:
        if ch in text:
            text = text.replace(ch, "")
    rest = _drop_ascii(text)
    for ch, plain in _PLAIN.items():
        if ch in rest:
            text = text.replace(ch, plain)
    if triggers & {"tags", "selectors"}:
        text = compile_pattern(f"[{_TAGS}{_SELECTORS}]+").sub("", text)
    return text


# The most characters that one call into C may work on: other threads wait for the interpreter's lock meanwhile.
SLICE = 65_536


class _FoldTable(dict[int, str]):
    """Map a character's code to the Latin text that a reader sees in it; computed once per character."""

    def __missing__(self, code: int) -> str:
        ch = chr(code)
        if 0x1F150 <= code <= 0x1F189 or 0x1F1E6 <= code <= 0x1F1FF:  # negative circled, squared, and flag letters
            plain = chr(97 + (code - (0x1F1E6 if code >= 0x1F1E6 else 0x1F150 if code < 0x1F16A else 0x1F170)) % 26)
        elif ch in LOOKALIKES:
            plain = LOOKALIKES[ch]
        elif unicodedata.decomposition(ch) or unicodedata.combining(ch):
            parts = unicodedata.normalize("NFKD", ch)
            plain = "".join(LOOKALIKES.get(part, part) for part in parts if not unicodedata.combining(part))
        else:
            plain = ch
        # Other characters stay as they are: taking Hangul apart, or writing eighteen letters for one, gains nothing.
        said = plain if plain.isascii() and len(plain) <= 4 else ch
        if len(self) > 40_000:  # an attacker's text with every character there is must not fill the memory for good
            self.clear()
        self[code] = said
        return said


_FOLD_TABLE = _FoldTable()


def fold_to_latin(text: str, triggers: frozenset[str]) -> str:
    """Return the text with Latin letters for their lookalikes, and without combining marks.

    Where only the trigger `mixed` fired, words that mix alphabets are folded and all others stay: they are Russian.
    """
    if text.isascii():
        return text
    if triggers & {"compat", "marks"}:
        flat = text.encode("ascii", "replace")
        if flat.count(b"?") > len(text) // 16:
            return _translate_slices(text)
        # Mostly ASCII: only the stretches in between are worth a lookup per character.
        return _translate_spans(text, [odd.span() for odd in re.finditer(rb"\?+", flat)])
    words, complete = _find_mixed_words(text)
    return _translate_spans(text, words) if complete else _translate_slices(text)


def _translate_slices(text: str) -> str:
    # In slices: between two of them other threads, such as an event loop, get the interpreter's lock.
    return "".join([text[at : at + SLICE].translate(_FOLD_TABLE) for at in range(0, len(text), SLICE)])


def _translate_spans(text: str, spans: list[tuple[int, int]]) -> str:
    pieces: list[str] = []
    done = 0
    for start, end in spans:
        pieces += text[done:start], text[start:end].translate(_FOLD_TABLE)
        done = end
    return "".join(pieces) + text[done:]


_STYLED = (
    "\uff21-\uff3a\uff41-\uff5a\u24b6-\u24e9\u1d00-\u1dbf\u0250-\u02b8\u2100-\u2149\ua730-\ua731\ua7af"
    "\u2071\u207f\u2090-\u209c\ufb00-\ufb06\U0001d400-\U0001d7ff\U0001f130-\U0001f189"
)
# Letters for which a word of mixed alphabets is looked at more closely.
_FOREIGN = "\u0370-\u03ff\u0400-\u052f\u0531-\u0587\u10d0-\u10ff\u13a0-\u13ff\ua4d0-\ua4ff"
_MARKS = "\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
_TRIGGER_PATTERNS = (
    ("invisible", f"[{INVISIBLE}]"),
    ("bidi", f"[{BIDI}]"),
    ("space", f"[{SPACES}]"),
    ("tags", f"[{_TAGS}]"),
    ("selectors", f"[{_SELECTORS}]"),
    ("compat", f"[{_STYLED}]"),
    ("marks", f"[{_MARKS}]"),
)
_UNUSUAL = f"[{INVISIBLE}{BIDI}{SPACES}{_TAGS}{_SELECTORS}{_STYLED}{_MARKS}]"


def triggers_from_text(text: str) -> frozenset[str]:
    """Return the character triggers that a decoded text might fire; no pass of the scanner has seen this text yet."""
    if text.isascii():
        return frozenset()
    rest = _drop_ascii(text)
    unusual = "".join(set(compile_pattern(_UNUSUAL).findall(rest)))
    triggers = {trigger for trigger, source in _TRIGGER_PATTERNS if compile_pattern(source).search(unusual)}
    if compile_pattern(f"[{_FOREIGN}]").search(rest):
        triggers.add("mixed")
    return frozenset(triggers)


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
    found = compile_pattern(f"[{_SELECTORS}]{{2,}}|(?<=[A-Za-z ])[{_SELECTORS}]").findall(text)
    chosen = "".join(run for run in found if run.strip("\ufe0e\ufe0f"))
    if len(chosen) < 2:
        return
    start, end = text.index(chosen[0]), text.rindex(chosen[-1]) + 1
    values = bytes(ord(ch) - 0xFE00 if ch < "\uff00" else ord(ch) - 0xE0100 + 16 for ch in chosen[:16_384])
    # Three codes are in use: one byte per selector, the same from the supplement only, and one selector per half byte.
    ways = [values, bytes(max(value - 16, 0) for value in values)]
    if max(values) < 16:
        ways.append(bytes(high << 4 | low for high, low in zip(values[::2], values[1::2], strict=False)))
    texts = [way.decode("utf-8", "replace") for way in ways]
    yield HiddenText("selectors", max(texts, key=lambda said: sum(map(str.isalnum, said)) / len(said)), start, end)


# Honest break opportunities stand before capitals and after signs; between two small letters a word was split.
_SPLIT_WORD = f"(?<=[A-Za-z])[{INVISIBLE}]{{1,64}}(?=[a-z])"
_JOINERS, _SOFT_HYPHEN = "\u200c\u200d", "\u00ad"


def _find_invisible(text: str) -> Iterator[HiddenText]:
    # Soft hyphens and joiners have honest uses inside words; one letter between two hyphens has none, nor two joiners.
    split, joined = [], []
    for match in islice(compile_pattern(_SPLIT_WORD).finditer(text), 256):
        kinds = match[0].replace(_SOFT_HYPHEN, "")
        if kinds.strip(_JOINERS):
            split += [match.span()] if text[match.start() - 1].islower() else []
        elif kinds:
            joined.append(match.span())
    split += [match.span() for match in islice(compile_pattern("(?<=[A-Za-z])\u00ad[A-Za-z]\u00ad").finditer(text), 64)]
    places = sorted(split + (joined if len(joined) > 1 else []))
    if places:
        start, end = _word_around(text, places[0][0])[0], _word_around(text, places[-1][1])[1]
        yield HiddenText("invisible", remove_invisible(text[start:end][:4096], frozenset()), start, end)
    for run in islice(compile_pattern(f"[{INVISIBLE}]{{16,}}").finditer(text), 64):
        if len(kinds_used := sorted(set(run[0][:4096]))) > 1:
            yield HiddenText("invisible", _decode_bits(run[0], kinds_used), run.start(), run.end())


def _decode_bits(run: str, kinds: list[str]) -> str:
    """Return the text that a run of two kinds of invisible characters spells as bits; empty if it spells none."""
    for zero, one in (kinds, kinds[::-1]) if len(kinds) == 2 else ():
        bits = run[:65_536].replace(zero, "0").replace(one, "1")
        whole = bits[: len(bits) // 8 * 8]
        if whole.isdecimal():
            said = int(whole, 2).to_bytes(len(whole) // 8, "big").decode("utf-8", "replace")
            if said.isprintable() and is_wordlike(said):
                return said
    return ""


def _find_reordered(text: str) -> Iterator[HiddenText]:
    # A right-to-left override or embedding around left-to-right text shows a reader another text than the model gets.
    # At the start of a line it is honest: a translation with some words left in English.
    odd = compile_pattern("(?:\u202e|(?<=[^\n])[\u202b\u2067])([^\u0590-\u08ff\u202c\u2069\ufb1d-\ufdff\n]{2,400})")
    for match in islice(odd.finditer(text), 16):
        if sum(ch.isascii() and ch.isalpha() for ch in match[1][:16]) >= 3:
            yield HiddenText("bidi", remove_invisible(match[1], frozenset())[::-1], match.start(), match.end())


# Phonetic letters are folded too, but prove nothing: dictionaries are full of them.
_IS_FOREIGN = f"[{_FOREIGN}\u0250-\u02af]"
# A foreign letter inside a word, or a Cyrillic or Armenian one in front. A Greek letter at an end is a symbol, a
# Cyrillic ending on a foreign name is grammar, and capitals get mixed by accident in acronyms and part numbers. A mu
# between m and n is the prefix of a unit: `mμnpf`.
_FOREIGN_INSIDE = f"(?![mn]\u03bc[mn])[a-z][{_FOREIGN}]+[a-z]|[{_FOREIGN}][a-z]+[{_FOREIGN}]|^[\u0400-\u0587][a-z]{{2}}"
_WORD_BEFORE, _WORD_AFTER = f"[\\w{INVISIBLE}]{{0,40}}\\Z", f"[\\w{INVISIBLE}]{{0,40}}"
_MAX_MIXED_WORDS, _MAX_TRIES = 64, 2048
_TOUCH = bytes(97 if chr(i).isalpha() else 63 if i == 63 else 32 for i in range(128)) + b" " * 128


def _word_around(text: str, at: int) -> tuple[int, int]:
    """Return the word around a place: at most 40 characters to each side, invisible characters included."""
    head = compile_pattern(_WORD_BEFORE).search(text[max(0, at - 40) : at])
    tail = compile_pattern(_WORD_AFTER).match(text, at)
    return at - (len(head[0]) if head else 0), tail.end() if tail else at


def _find_mixed_words(text: str) -> tuple[list[tuple[int, int]], bool]:
    """Return the words in which a Latin letter touches one of another alphabet, and whether those are all."""
    # One byte per character, so that plain searches find the places; accented letters are candidates too, in vain.
    flat = text.encode("ascii", "replace").translate(_TOUCH)
    words: list[tuple[int, int]] = []
    before, after = flat.find(b"a?"), flat.find(b"?a")
    for _ in range(_MAX_TRIES):
        if (before < 0 and after < 0) or len(words) == _MAX_MIXED_WORDS:
            break
        at = before + 1 if after < 0 or 0 <= before < after else after
        end = at + 1
        if compile_pattern(_IS_FOREIGN).match(text, at):
            start, end = _word_around(text, at)
            words.append((max(start, words[-1][1]) if words else start, end))
        before = flat.find(b"a?", end - 1) if 0 <= before < end else before
        after = flat.find(b"?a", end) if 0 <= after < end else after
    return words, before < 0 and after < 0


def _find_lookalikes(text: str) -> Iterator[HiddenText]:
    found = [(start, end) for start, end in _find_mixed_words(text)[0] if _is_disguised_latin(text[start:end])]
    # In a text of another alphabet one or two such words are typing errors.
    mostly_foreign = len(text) > 80 and text.encode("ascii", "replace").count(b"?") * 4 > len(text)
    if len(found) > (2 if mostly_foreign else 0):
        said = " ".join(text[start:end].translate(_FOLD_TABLE) for start, end in found)
        yield HiddenText("lookalike", said, found[0][0], found[-1][1])


def _is_disguised_latin(word: str) -> bool:
    """Return whether a word mixes alphabets and reads as a Latin one."""
    latin = word.translate(_FOLD_TABLE)
    return (
        len(word) > 3
        and latin.isascii()
        and latin.isalpha()
        and compile_pattern(_FOREIGN_INSIDE).search(word) is not None
    )


def _find_styled(text: str) -> Iterator[HiddenText]:
    found = [
        (match, match[0].translate(_FOLD_TABLE))
        for match in islice(compile_pattern(f"[{_STYLED}]{{2,64}}").finditer(text), 128)
    ]
    words = [(match.span(), word) for match, word in found if word.isascii() and word.isalpha()]
    # Honest text sets acronyms and symbols in such letters, but not two words side by side.
    phrase = any(
        after[0] - before[1] <= 3 and len(first) > 2 and len(second) > 2
        for (before, first), (after, second) in pairwise(words)
    )
    said = " ".join(word for _, word in words)
    if phrase and len(said) >= 10 and is_wordlike(said):
        yield HiddenText("styled", said, words[0][0][0], words[-1][0][1])


_FINDERS: dict[str, Callable[[str], Iterator[HiddenText]]] = {
    "tags": _find_tags,
    "selectors": _find_selectors,
    "invisible": _find_invisible,
    "bidi": _find_reordered,
    "mixed": _find_lookalikes,
    "compat": _find_styled,
}
