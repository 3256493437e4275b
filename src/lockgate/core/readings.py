"""The other readings of a text: what a model may see in it that a rule reading its bytes does not.

1. Gates: byte patterns that ride in the scanner's own pass. No gate fired, no other reading.
2. Codes written in place (percent, HTML entities, escapes, quoted-printable) are decoded over the whole text.
3. Characters: invisible ones removed, lookalikes and styled letters folded to Latin.
4. Runs of base64 or hexadecimal are decoded, decompressed, and read again from step 2, to a bounded depth.
Every reading goes back to the rules. `encoded` marks those in which somebody hid readable text.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from math import log2
from typing import NamedTuple

from lockgate.core.confusables import (
    CLOSEST,
    Hidden,
    bytes_pattern,
    cleaned,
    folded,
    gates_of,
    hidden,
    pattern,
    wordlike,
)

DEPTH = 3
# Output beyond this is not read, and says so: a kilobyte of base64 can hold a megabyte of compressed spaces.
SPARE_CHARACTERS, CHARACTERS_PER_CHARACTER = 32_768, 6
SHORTEST_RUN, SHORTEST_SHAPED_RUN = 50, 24
# Past these the readings are still made, but in one piece, and the signals, which are a report, are left out.
MOST_SEPARATE, MOST_SIGNALS, MOST_ORDINARY_SIGNALS, MOST_PLACES = 16, 32, 8, 4


@dataclass(frozen=True, slots=True)
class Reading:
    """Another text that `start:end` of the original may be read as; `how` is the chain of steps, `base64>percent`.

    `encoded` is a reason to escalate by itself: readable text was hidden. Ordinary carriers leave it False.
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
    (50 characters cannot exceed log2 50, hexadecimal never 4). Neither decides anything: what it decodes to does.
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
class Readings:
    """`capped` says that a limit was reached and something stayed unread, which is a finding too."""

    items: tuple[Reading, ...] = ()
    signals: tuple[EncodedSegment, ...] = ()
    capped: bool = False


# --- 1. gates

# Words whose pieces, encoded, give a short base64 or hexadecimal text away; the commonest first.
_WORDS = (
    "the and all you your are not this that with from have will must should tell any please for in of on is it to do send "
    "ion ing ent ess ter now new user don't system prompt message instruction instructions previous prior above ignore "
    "forget disregard override email password secret token key file files delete run execute command into as by be or at "
    "an follow following task context assistant model data account transfer money url http https com org curl bash sudo "
    "rm cat echo python sh write read call tool function code access information important before after when what which "
    "there their them then than can could would make only also other first reply answer question about without"
).split()


def _triples(words: list[str]) -> list[str]:
    return sorted({f" {word} "[i : i + 3] for word in words for i in range(len(word))})


_COMMON = _triples(_WORDS[:45])
_TRIPLES = [*_triples(_WORDS), "://", "//w", "tp:", "s:/", "p:/", " | ", "| b", "/et", "tc/", " -r", ", a", ". T"]
_WRITTEN = {0: "|"} | {i: chr(i) if chr(i).isalnum() and i < 128 else f"\\x{i:02x}" for i in range(1, 256)}


def _either(literals: Iterable[bytes]) -> str:
    """An alternation of plain literals, which the engine looks for at hardly any cost per literal."""
    joined = b"\0".join(sorted(set(literals))).decode("latin-1")
    return f"(?:{joined.translate(_WRITTEN)})"


def _hex(text: str, separator: str) -> bytes:
    return separator.join(text.encode().hex(" ").split()).encode()


def _utf8(chars: str) -> Iterator[bytes]:
    return (ch.encode() for ch in chars)


_LATIN = "abcdefghijklmnopqrstuvwxyz"
_MARKS = "".join(map(chr, range(0x300, 0x370)))
_CODED_LETTER = "(?:4[1-9a-f]|5[0-9a]|6[1-9a-f]|7[0-9a])"
_SELECTOR = r"(?:\xef\xb8[\x80-\x8f]|\xf3\xa0[\x84-\x87][\x80-\xbf])"

# Matched against UTF-8 bytes: caseless, dot matches all, one match each. Plain literals and single repeated classes are
# nearly free in a pass that looks for other literals anyway; a general expression doubles the cost of every ordinary text.
GATES: tuple[tuple[str, str], ...] = (
    ("run", rf"[a-z0-9+/_-]{{{SHORTEST_RUN}}}"),
    # Three letters of text at a time are four of base64, whose letter case matters.
    (
        "base64",
        f"(?-i:{_either(binascii.b2a_base64(w.encode(), newline=False) for t in _TRIPLES for w in (t, t.title()))})",
    ),
    ("hex", _either(_hex(t, "") for t in _TRIPLES)),
    ("hex", _either(_hex(t, sep) for t in _COMMON for sep in " :-")),
    ("hex", _either(_hex(t, sep) for t in _COMMON for sep in (", 0x", ",0x", " 0x"))),
    (
        "percent",
        rf"%{_CODED_LETTER}[%a-z]|[a-z.,]%(?:20|0[9ad]|c2%a0)[a-z]|%25[2-7][0-9a-f]|%[c-f][0-9a-f]%[89ab][0-9a-f]%",
    ),
    (
        "entity",
        rf"&#(?:x0*{_CODED_LETTER}|0*(?:6[5-9]|[78][0-9]|90|9[7-9]|1[01][0-9]|12[0-2]))[^0-9a-f]"
        r"|[a-z]&(?:nbsp|#32|#160|#x20|#xa0|#9|#10|newline|tab|shy|zwnj|zwj|zerowidthspace|nobreak|ensp|emsp|thinsp);?[a-z]"
        r"|&[a-z](?:fr|opf|scr);|&amp;#[x0-9]|&#(?:x200[b-f]|820[3-7]|xe00|9175|9176)",
    ),
    (
        "escape",
        rf"\\(?:u[0-9a-f]{{4}}|x{_CODED_LETTER}|u\{{[0-9a-f]|1[0-7]{{2}}\\1)|[a-z,]\\[nrt](?-i:[a-z]{{2}})|:\\/\\/",
    ),
    ("quoted", r"[a-z]=\r?\n[a-z]|=[4-7][0-9a-f]=[4-7][0-9a-f]=[2-7][0-9a-f]"),
    (
        "invisible",
        r"\xe2\x80\x8b|\xe2\x81[\xa0-\xa4\xaa-\xaf]|[\x01-\xff]\xef\xbb\xbf|\xc2\xad|\xe1\xa0\x8e|\xcd\x8f|\xe1\x85[\x9f\xa0]"
        r"|\xe3\x85\xa4|\xef\xbe\xa0|\xef\xbf[\xb9-\xbb]"
        # Joiners and direction marks belong to the scripts that need them; beside Latin, Greek or Cyrillic they do not.
        r"|(?:[\x21-\x7f]|[\xc3-\xd3][\x80-\xbf])\xe2\x80[\x8c-\x8f]|\xe2\x80[\x8c-\x8f][a-z]|(?:\xe2\x80[\x8c\x8d]){4}",
    ),
    ("space", r"[a-z.,](?:\xc2\xa0|\xe2\x80[\x80-\x8a\xa8\xa9\xaf]|\xe2\x81\x9f|\xe3\x80\x80)[a-z]"),
    ("tags", r"\xf3\xa0[\x80\x81]"),
    ("selectors", rf"{_SELECTOR}{{2}}|[a-z ]{_SELECTOR}"),
    ("bidi", r"\xe2\x80[\xaa-\xae]|\xe2\x81[\xa6-\xa9]"),
    (
        "compat",
        r"(?:\xef\xbc[\xa1-\xba]|\xef\xbd[\x81-\x9a]){2}|(?:\xf0\x9d[\x90-\x9f][\x80-\xbf]){2}|\xef\xac[\x80-\x86]"
        r"|(?:\xe2\x92[\xb6-\xbf]|\xe2\x93[\x80-\xa9]){2}|(?:\xf0\x9f[\x84-\x86][\x80-\xbf]){2}|(?:\xf0\x9f\x87[\xa6-\xbf]){6}"
        r"|\xe1\xb4[\x80-\xbf]|\xe1\xb5[\x80-\xaa]|(?:\xe2\x84[\x80-\xbf]){2}|\xea\x9c[\xb0\xb1]",
    ),
    # A Latin letter before any Greek, Cyrillic, Armenian or phonetic one, or after one of the closest lookalikes.
    ("mixed", _either(a.encode() + bytes([lead]) for a in _LATIN for lead in (0xC9, 0xCA, *range(0xCD, 0xD7)))),
    ("mixed", _either((ch + a).encode() for ch in CLOSEST for a in _LATIN)),
    ("mixed", r"\xe1[\x8e\x8f][\x80-\xbf]|\xea\x93[\x90-\xbf]"),
    ("marks", rf"[a-z]{_either(_utf8(_MARKS))}|{_either(_utf8(_MARKS))}{{2}}"),
    # `t h e`: text written out letter by letter contains one of these before long.
    *(("spaced", _either((sep + sep.join(t) + sep).encode() for t in _COMMON if t.isalpha())) for sep in " .-_"),
)
# A decoded text has been through no pass: everything that one look cannot rule out is tried.
_NESTED = frozenset({"run", "base64", "hex", "percent", "entity", "escape"})
_CLEANING = frozenset({"invisible", "space", "tags", "selectors", "bidi"})
_FOLDING = frozenset({"compat", "mixed", "marks"})


def readings(text: str, gates: frozenset[str]) -> Readings:
    """Every other reading of a text for the gates that fired on it.

    Never raises, whatever the text; cost and output are linear in its length.
    """
    if not gates or not text:
        return Readings()
    reader = _Reader(text)
    reader.read(text, gates, (), None, 0)
    return Readings(tuple(reader.items), tuple(reader.signals), reader.capped)


class _Reader:
    """One text being read: what was found so far and how much more may be written."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.left = SPARE_CHARACTERS + CHARACTERS_PER_CHARACTER * len(text)
        self.items: list[Reading] = []
        self.signals: list[EncodedSegment] = []
        self.capped = False
        self.places = MOST_PLACES

    def read(
        self, text: str, gates: frozenset[str], how: tuple[str, ...], span: tuple[int, int] | None, depth: int
    ) -> bool:
        """Add the readings of a text, itself excepted; whether one of them hides something."""
        before = len(self.items)
        plain, steps = self._codes(text, gates, how, span)
        if steps:
            gates |= gates_of(plain) | {"run"}
        for found in hidden(plain, gates):
            self._hide(found, how + steps, span, plain)
        clean = cleaned(plain, gates) if gates & _CLEANING or gates & _FOLDING else plain
        latin = folded(clean, gates) if gates & _FOLDING else clean
        start, end = span or (0, len(self.text))
        if clean != text:
            said = clean.replace("+", " ") if "percent" in steps else clean
            self._add(how + steps + (("cleaned",) if clean != plain else ()), said, start, end)
        if latin != clean:
            self._add((*how, *steps, "folded"), latin, start, end)
        if "spaced" in gates:
            self._spaced(latin, how + steps, start, end)
        if latin != plain:
            gates |= {"run"}
        if gates & {"run", "base64", "hex"}:
            self._runs(latin, gates, how + steps, span, depth)
        return any(item.encoded for item in self.items[before:])

    def _add(self, how: tuple[str, ...], text: str, start: int, end: int, *, encoded: bool = False) -> None:
        if len(text) > self.left:
            self.capped = True
            text = text[: self.left]
        self.left -= len(text)
        if text or encoded:
            self.items.append(Reading(">".join(how), text, start, end, encoded))

    def _hide(self, found: Hidden, how: tuple[str, ...], span: tuple[int, int] | None, text: str) -> None:
        start, end = span or self._place(text, found.start, found.end)
        self._add((*how, found.how), found.text, start, end, encoded=True)
        self._signal(found.how, text[found.start : found.end], start, end, found.how, "text", "")

    def _place(self, text: str, start: int, end: int) -> tuple[int, int]:
        """Where a piece of a text stands in the original; the whole of it when that is not known."""
        if text is self.text:
            return start, end
        self.places -= 1
        at = self.text.find(text[start : min(end, start + 32)]) if self.places >= 0 else -1
        return (at, min(at + end - start, len(self.text))) if at >= 0 else (0, len(self.text))

    def _signal(self, kind: str, raw: str, start: int, end: int, charset: str, signature: str, ordinary: str) -> None:
        if len(self.signals) < (MOST_ORDINARY_SIGNALS if ordinary else MOST_SIGNALS):
            entropy, ratio = _entropy(raw, charset)
            why = ordinary or "readable text was hidden"
            self.signals.append(
                EncodedSegment(kind, start, end, len(raw), charset, entropy, ratio, signature, bool(ordinary), why)
            )

    # --- 2. codes in place

    def _codes(
        self, text: str, gates: frozenset[str], how: tuple[str, ...], span: tuple[int, int] | None
    ) -> tuple[str, tuple[str, ...]]:
        """The text with its codes decoded until none is left, and which kinds there were."""
        steps: list[str] = []
        for round_number in range(DEPTH):
            before = text
            for gate, mark, decode, code in _CODES:
                # Later rounds have no gate to go by, only what the earlier ones brought to light.
                asked = gate in gates if round_number == 0 and not steps else pattern(code).search(text) is not None
                if asked and mark in text:
                    for found in _spelled(gate, mark, decode, code, text):
                        self._hide(found, how + tuple(steps), span, text)
                    after, whole = decode(text)
                    self.capped |= not whole
                    if after != text:
                        text = after
                        steps += [gate] if gate not in steps else []
            if text == before or self.capped:
                break
        else:
            self.capped |= any(pattern(code).search(text) is not None for _, _, _, code in _CODES[:3])
        return text, tuple(steps)

    # --- 3. letters written one by one

    def _spaced(self, text: str, how: tuple[str, ...], start: int, end: int) -> None:
        letters = pattern(r"(?<![A-Za-z])[A-Za-z](?:[ ._\-][A-Za-z]){2,200}(?![A-Za-z])")
        joined = letters.sub(lambda match: match[0][::2], text)
        if joined == text:
            return
        # A heading may be written this way; a message is longer.
        message = pattern(r"(?<![A-Za-z])(?:[A-Za-z][ ._\-]{1,4}){30,2000}").search(text)
        encoded = message is not None and wordlike(letters.sub(lambda match: match[0][::2], message[0]))
        if message is not None and text is self.text:
            start, end = message.span()
        self._add((*how, "spaced"), joined, start, end, encoded=encoded)

    # --- 4. runs

    def _runs(
        self, text: str, gates: frozenset[str], how: tuple[str, ...], span: tuple[int, int] | None, depth: int
    ) -> None:
        flat = text.encode("ascii", "replace")  # one byte per character: positions stay what they are
        shaped = bool(gates & {"base64", "hex"})
        # Too many for a reading each: those in ordinary carriers, and the others.
        together: tuple[list[str], list[str]] = ([], [])
        for run in _segments(flat, SHORTEST_SHAPED_RUN if shaped else SHORTEST_RUN, separated="hex" in gates):
            found = _decoded(flat, run, shaped=shaped)
            if not found.said and found.data[:2] in _COMPRESSED:
                found = self._unpacked(found)
            if found.said and depth == DEPTH:
                self.capped = True
                return
            if found.said:
                carrier = _carrier(flat, run, found)
                if len(self.items) < MOST_SEPARATE:
                    self._run(text, run, found, carrier, how, span or self._place(text, run.start, run.end), depth)
                else:
                    together[not carrier].append(found.said)
            elif depth == 0 and len(self.signals) < MOST_ORDINARY_SIGNALS:
                raw = flat[run.start : run.end]
                if why := _worth_reporting(raw, found.data):
                    place = span or self._place(text, run.start, run.end)
                    self._signal(found.kind, raw.decode("ascii"), *place, _charset(raw), _signature(found.data), why)
        start, end = span or (0, len(self.text))
        for carried, texts in zip((True, False), together, strict=True):
            if texts:
                said = "\n".join(texts)
                self._add((*how, "runs"), said, start, end, encoded=not carried and _reveals(said))
                self.read(said, _NESTED | gates_of(said), (*how, "runs"), (start, end), depth + 1)

    def _run(
        self,
        text: str,
        run: Run,
        found: Decoded,
        carrier: str,
        how: tuple[str, ...],
        place: tuple[int, int],
        depth: int,
    ) -> None:
        reveals = not carrier and _reveals(found.said)
        self._add((*how, found.kind), found.said, *place, encoded=reveals)
        nested = self.read(found.said, _NESTED | gates_of(found.said), (*how, found.kind), place, depth + 1)
        if depth == 0 and (run.end - run.start >= SHORTEST_RUN or reveals or nested):
            signature = "jwt" if carrier == "a signed token" else _signature(found.data)
            why = "" if reveals or nested else carrier or "decodes to data, not to text for a reader"
            raw = text[run.start : run.end]
            self._signal(found.kind, raw, *place, _charset(raw.encode("ascii", "replace")), signature, why)

    def _unpacked(self, found: Decoded) -> Decoded:
        """The text in compressed data, as far as the output budget goes."""
        import zlib

        stream = zlib.decompressobj(wbits=47)
        try:
            out = stream.decompress(found.data, max(self.left, 1))
        except zlib.error:
            return found
        self.capped |= bool(stream.unconsumed_tail)
        return Decoded(f"{found.kind}>{_COMPRESSED[found.data[:2]]}", found.data, _text_of(out), True)


class Run(NamedTuple):
    """Where a run stands; `broken` when it has line breaks or separators in it."""

    start: int
    end: int
    broken: bool


class Decoded(NamedTuple):
    """The bytes of a run and, if they are text, the text; `mostly` when most of the run is that text."""

    kind: str
    data: bytes
    said: str
    mostly: bool


_MASK = bytes(120 if chr(i).isalnum() or chr(i) in "+/-_" else 32 for i in range(128)) + b" " * 128
_PAIR_MASK = bytes(
    104 if chr(i) in "0123456789abcdefABCDEF" else 115 if chr(i) in " :,-" else 120 if chr(i) == "x" else 46
    for i in range(256)
)
_COMPRESSED = {b"\x1f\x8b": "gzip", b"\x78\x01": "zlib", b"\x78\x9c": "zlib", b"\x78\xda": "zlib"}
# Between two lines of one run: a line break, real or escaped, with quoting; or one string joined to another.
_LINE_BREAK = rb"[ \t]{0,4}(?:\r?\n|\\r|\\n){1,4}[ \t>\"']{0,16}|[\"'] ?[+.,]?\s{0,16}[\"']"
_HEX_PAIRS = rb"(?:(?:0x)?[0-9A-Fa-f]{2}[ :,-]{1,2}){8,2000}(?:0x)?[0-9A-Fa-f]{2}"


def _segments(flat: bytes, shortest: int, *, separated: bool) -> Iterator[Run]:
    """Where runs of the base64 or hexadecimal alphabets stand, lines of one run joined."""
    mask = flat.translate(_MASK)
    needle, line, line_break = b"x" * shortest, b"x" * 4, bytes_pattern(_LINE_BREAK)
    at = mask.find(needle)
    while at >= 0:
        end = single = _end(mask, at + shortest)
        width = size = end - at
        # All lines of one run have the same length, and only its last one may be shorter.
        while size == width and (gap := line_break.match(flat, end)) and mask.startswith(line, gap.end()):
            following = _end(mask, gap.end())
            size = following - gap.end()
            if size > width:
                break
            end = following
        yield Run(at, end, end != single)
        at = mask.find(needle, end)
    # Pairs of hexadecimal digits with something in between; the mask says cheaply that there are none.
    pairs = flat.translate(_PAIR_MASK) if separated else b""
    if b"hhshhshhshhs" in pairs or b"xhhsshxhhss" in pairs or b"xhhshxhhs" in pairs:
        for match in bytes_pattern(_HEX_PAIRS).finditer(flat):
            yield Run(*match.span(), True)


def _end(mask: bytes, at: int) -> int:
    end = mask.find(b" ", at)
    return len(mask) if end < 0 else end


# Every byte of ASCII text begins with a digit from 2 to 7, and three of them leave these letters in base64.
_HEX_SHAPE = rb"(?:[2-7][0-9A-Fa-f]|0[9AaDd]){9,20000}"
_BASE64_SHAPE = rb"[CI-Za-f][C-HS-Xi-nyz0-3gwQ][ABEFIJMNQRUVYZcdghklopstwx014589][A-Za-z0-9+/]" * 5
_CONTROLS = bytes(i for i in range(32) if i not in b"\t\n\r") + b"\x7f"


_HEX = rb"(?:0x)?([0-9A-Fa-f]+)"
_URLSAFE = bytes.maketrans(b"-_", b"+/")


def _decoded(flat: bytes, run: Run, *, shaped: bool) -> Decoded:
    raw = flat[run.start : run.end]
    if run.broken:
        raw = raw.replace(b"0x", b"") if raw.startswith(b"0x") else raw
        raw = raw.replace(b"\\n", b"").replace(b"\\r", b"").translate(None, b" \t\r\n\"'>.,:\\")
        raw = raw.replace(b"-", b"") if raw[2:3] == b"-" else raw
    digits = bytes_pattern(_HEX).fullmatch(raw)
    data = binascii.unhexlify(digits[1]) if digits and len(digits[1]) % 2 == 0 else b""
    if data and (said := _text_of(data)):
        return Decoded("hex", data, said, True)
    if raw.islower() or raw.isupper():
        # A path, a name or a sequence: base64 of so many bytes has letters of both cases.
        return Decoded("hex", data, "", True)
    plain = raw.translate(_URLSAFE)
    bits = _base64(plain)
    if said := _text_of(bits):
        return Decoded("base64", bits, said, True)
    if shaped and (match := bytes_pattern(_HEX_SHAPE).search(raw)):
        found = binascii.unhexlify(match[0])
        return Decoded("hex", found, _text_of(found), len(match[0]) * 2 >= len(raw))
    if shaped and (match := bytes_pattern(_BASE64_SHAPE).search(plain)):
        # Something else is glued to the front of the run, or the text is a piece of something binary.
        bits = _base64(plain[match.start() % 4 :])
        said = b"\n".join(bytes_pattern(rb"[\t\n\r -~]{8,}").findall(bits)).decode("ascii")
        return Decoded("base64", bits, said, len(said) * 2 >= len(bits))
    return Decoded("hex", data, "", True) if data else Decoded("base64", bits, "", True)


def _base64(run: bytes) -> bytes:
    run = run[: len(run) - 1] if len(run) % 4 == 1 else run
    try:
        return binascii.a2b_base64(run + b"==")
    except binascii.Error:
        return b""


def _text_of(data: bytes) -> str:
    """The bytes as text, or nothing when they are not: one control character in the beginning is enough to say so."""
    if len(data) < 8:
        return ""
    if b"\0" in data:
        for zeros, codec in ((data[1::2], "utf-16-le"), (data[::2], "utf-16-be")):
            if zeros.count(0) * 10 >= len(zeros) * 9:
                return data.decode(codec, "replace").rstrip("\0")
        data = data.rstrip(b"\0")
    head = data[:64]
    if len(head.translate(None, _CONTROLS)) < len(head):
        return ""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < 32 or error.start * 2 < len(data):
            return ""
        text = data[: error.start].decode("utf-8")  # something else is glued to the end
    return "" if pattern("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]").search(text) else text


def _charset(run: bytes) -> str:
    if not run.translate(None, b"0123456789abcdefABCDEFx :,-\r\n"):
        return "hex"
    return "base64url" if b"-" in run or b"_" in run else "base64"


def _worth_reporting(run: bytes, data: bytes) -> str:
    """Why a run that is not text is ordinary; nothing when it does not even look encoded."""
    if len(set(run[:256])) < 10:
        return ""
    if _charset(run) == "hex":
        sizes = {16: "md5", 20: "sha1", 28: "sha224", 32: "sha256", 48: "sha384", 64: "sha512"}
        return f"the length of a {sizes[len(data)]} digest" if len(data) in sizes else "decodes to binary data"
    letters = run.decode("ascii", "replace")
    if letters.islower() or letters.isupper() or not any(map(letters.__contains__, "0123456789")):
        return ""
    return "decodes to binary data"


_SIGNATURES = (
    (b"\x1f\x8b", "gzip"),
    (b"\x78\x9c", "zlib"),
    (b"\x78\xda", "zlib"),
    (b"\x78\x01", "zlib"),
    (b"\x89PNG", "png"),
    (b"\xff\xd8\xff", "jpeg"),
    (b"GIF8", "gif"),
    (b"RIFF", "riff"),
    (b"wOF2", "woff2"),
    (b"wOFF", "woff"),
    (b"OTTO", "font"),
    (b"\0\1\0\0", "font"),
    (b"%PDF", "pdf"),
    (b"\x7fELF", "elf"),
    (b"MZ", "pe"),
    (b"PK\3\4", "zip"),
    (b"\0asm", "wasm"),
    (b"\0\0\0\x0bssh-", "ssh"),
    (b"\0\0\0\x07ssh-", "ssh"),
    (b"\x30\x82", "der"),
    (b"-----BEGIN", "pem"),
    (b"<svg", "svg"),
    (b"<?xml", "xml"),
    (b"<", "markup"),
    (b"{", "json"),
    (b"[", "json"),
)


def _signature(data: bytes) -> str:
    for magic, name in _SIGNATURES:
        if data.startswith(magic):
            return name
    return "text" if _text_of(data[:1024]) else "binary"


def _entropy(raw: str, charset: str) -> tuple[float, float]:
    """Bits per character, and the share of what the length and the character set allow; from the first 1,024."""
    sample = raw[:1024]
    size = len(sample)
    if size < 2:
        return 0.0, 0.0
    shares = [sample.count(ch) / size for ch in set(sample)]
    entropy = -sum(share * log2(share) for share in shares)
    most = min(log2(size), {"hex": 4.0, "base64": 6.0, "base64url": 6.0}.get(charset, 8.0))
    return round(abs(entropy), 3), round(min(abs(entropy) / most, 1.0), 3)


# --- what counts as hidden


_COMMANDS = frozenset("curl wget bash zsh sudo chmod powershell ncat scp iex certutil".split())
# These are words too, so what follows must look like an argument.
_WORD_COMMANDS = frozenset("sh rm nc cat echo python python3 perl ruby node base64 ssh eval exec cmd dd".split())


def _reveals(text: str) -> bool:
    """Whether a reader would find something in a decoded text: a command, an address, sentences, and not data."""
    if text.startswith("-----BEGIN"):
        return False
    if text.lstrip()[:1] not in ("{", "[", "<"):
        if any(mark in text for mark in ("http://", "https://", "HTTP://", "HTTPS://", "mailto:")):
            return True
        if "@" in text and pattern(r"[\w.+\-]@[\w\-]{1,63}\.[A-Za-z]{2}").search(text):
            return True
    tokens = text.split()
    return _commands(tokens) or _sentences(tokens, text)


def _commands(tokens: list[str]) -> bool:
    if _COMMANDS.isdisjoint(tokens) and _WORD_COMMANDS.isdisjoint(tokens):
        return False
    return any(
        token in _COMMANDS or (token in _WORD_COMMANDS and argument[0] in "-/~.$<\"'(")
        for token, argument in pairwise(tokens)
    )


def _sentences(tokens: list[str], text: str) -> bool:
    chain: list[str] = []
    for token in tokens:
        word = token.strip(".,;:!?\"'()")
        if (word.isalpha() or word in ("don't", "I'm", "it's")) and len(word) <= 24:
            chain.append(word)
            if len(chain) >= 4 and _words(chain[-4:]):
                return True
        else:
            chain = []
    # A short message has fewer words, but then nothing else.
    if 2 <= len(tokens) == len(chain) and _words(chain):
        return True
    return not text.isascii() and bool(
        pattern("[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{6}").search(text)
    )


def _words(chain: list[str]) -> bool:
    said = " ".join(chain)
    return len(said) >= 12 and (wordlike(said) if said.isascii() else True)


def _carrier(flat: bytes, run: Run, found: Decoded) -> str:
    """Why readable data at this place is ordinary; nothing when it is not."""
    if not found.mostly:
        return "text inside binary data"
    before = flat[max(0, run.start - 512) : run.start]
    if flat.startswith(b"eyJ", run.start) and (flat.startswith(b".", run.end) or before.endswith(b".")):
        return "a signed token"
    head = found.said.lstrip()[:1]
    if before.endswith(b",") and (match := bytes_pattern(_DATA_URI).search(before[-120:])):
        # An image that decodes to text is no image.
        if match[1] in _TEXT_TYPES and head in tuple("{[<@.#/*(!;:"):
            return "a data URI"
    if b"://" in before and bytes_pattern(_ADDRESS).search(before) and len(found.said.split()) == 1:
        return "part of an address"
    return ""


_ADDRESS = rb"https?://[^\s\"'<>]{0,500}$"
_DATA_URI = rb"data:([a-z]{1,12}/[a-z0-9.+-]{1,40})[a-z0-9=;+-]{0,40},$"
_TEXT_TYPES = (b"image/svg+xml", b"application/json", b"text/css", b"text/javascript", b"application/javascript")


# --- codes in place


def _percent(text: str) -> tuple[str, bool]:
    raw = text.encode("utf-8", "surrogatepass").replace(b"\\", b"\\\\")
    # The interpreter's own decoder of `\xNN` does in one pass what a loop over the codes does in fifty times the time.
    if bytes_pattern(rb"%(?![0-9A-Fa-f]{2})").search(raw):
        raw = bytes_pattern(rb"%(?=[0-9A-Fa-f]{2})").sub(rb"\\x", raw)
    else:
        raw = raw.replace(b"%", b"\\x")
    return raw.decode("unicode_escape").encode("latin-1").decode("utf-8", "replace"), True


def _escapes(text: str) -> tuple[str, bool]:
    for twice in ("\\\\u", "\\\\x", "\\\\n") if "\\\\" in text else ():
        for _ in range(DEPTH):
            text = text.replace(twice, twice[1:])
    for short, plain in (("\\n", "\n"), ("\\r", "\r"), ("\\t", "\t"), ('\\"', '"'), ("\\/", "/")):
        text = text.replace(short, plain)
    whole = True
    if "\\u{" in text:
        most = _most_steps(text)
        braces = pattern(r"\\u\{0{0,4}([0-9A-Fa-f]{1,5}|10[0-9A-Fa-f]{4})\}")
        text, count = braces.subn(lambda match: chr(int(match[1], 16)), text, count=most)
        whole = count < most
    doubled = text.replace("\\", "\\\\")
    valid = pattern(r"\\\\(?=x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|[01][0-7]{2})")
    text = valid.sub(r"\\", doubled).encode("raw_unicode_escape").decode("unicode_escape")
    if pattern("[\ud800-\udfff]").search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text, whole


_COMMON_ENTITIES = (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&#39;", "'"), ("&nbsp;", "\u00a0"), ("&amp;", "&"))


def _entities(text: str) -> tuple[str, bool]:
    for name, plain in _COMMON_ENTITIES:
        text = text.replace(name, plain)
    head, *parts = text.split("&")
    known: dict[str, str] = {}
    most = _most_steps(text)
    out = [head]
    for part in parts:
        plain_part = known.get(part)
        if plain_part is None:
            plain_part = _entity(part) if len(known) < most else "&" + part
            known[part] = plain_part
        out.append(plain_part)
    return "".join(out), len(known) <= most


def _entity(part: str) -> str:
    """The text after one ampersand, its reference replaced."""
    match = pattern(r"#0{0,8}([0-9]{1,7});?|#[xX]0{0,8}([0-9A-Fa-f]{1,6});?|([A-Za-z][A-Za-z0-9]{1,31});").match(part)
    if match is None:
        return "&" + part
    if match[3]:
        from html.entities import html5

        said = html5.get(match[3] + ";", html5.get(match[3].lower() + ";", match[0]))
    else:
        code = int(match[1]) if match[1] else int(match[2], 16)
        said = chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else " "
    return said + part[match.end() :]


def _quoted(text: str) -> tuple[str, bool]:
    return binascii.a2b_qp(text.encode("utf-8", "surrogatepass")).decode("utf-8", "replace"), True


def _most_steps(text: str) -> int:
    """How often a decoder may do something that costs a microsecond: ordinary text stays far below."""
    return 512 + len(text) // 32


_Decode = Callable[[str], tuple[str, bool]]
# Gate, a character without which there is nothing to decode, the decoder, and a run of codes for plain ASCII: ordinary
# encoders never write a letter as a code, so such runs spell something that was not to be read.
_CODES: tuple[tuple[str, str, _Decode, str], ...] = (
    (
        "escape",
        "\\",
        _escapes,
        r"\\{1,3}(?:x[2-7][0-9A-Fa-f]|u00[2-7][0-9A-Fa-f]|u\{0{0,4}[2-7][0-9A-Fa-f]\}|1[0-7]{2}|0[4-7][0-7])",
    ),
    (
        "entity",
        "&",
        _entities,
        r"&(?:amp;){0,2}#(?:[xX]0{0,6}[2-7][0-9A-Fa-f]|0{0,6}(?:3[2-9]|[4-9][0-9]|1[01][0-9]|12[0-6]));?",
    ),
    ("percent", "%", _percent, r"%[2-7][0-9A-Fa-f]"),
    ("quoted", "=", _quoted, r"=[2-7][0-9A-F]"),
)


def _spelled(gate: str, mark: str, decode: _Decode, code: str, text: str) -> Iterator[Hidden]:
    """Words of which every letter is a code."""
    # The first code stands outside the group so that the search can jump from one mark to the next.
    runs = list(islice(pattern(f"{code}(?:{code}){{2,63}}").finditer(text), 64))
    if not runs:
        return
    start, end = runs[0].start(), runs[-1].end()
    words = [decode(run[0])[0] for run in runs]
    said = " ".join(words)
    codes = text.count(mark, start, end) - text.count(mark * 2, start, end)
    if (
        sum(map(str.isalpha, said)) >= 8
        and sum(map(len, words)) * 10 >= codes * 7
        and (wordlike(said) or len(runs) == 64)
    ):
        yield Hidden(gate, said, start, end)
