"""Encoded text back to text: codes written in place, and runs of base64 or hexadecimal.

Decode first, then judge the result: entropy is only reported. An attacker may have written the text to be slow, so
every decoder is one pass in C, or counts its steps.
"""

from __future__ import annotations

import binascii
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from math import log2
from typing import NamedTuple

from lockgate.core.text.confusables import SLICE, HiddenText, compile_bytes_pattern, compile_pattern, is_wordlike

# --- codes in place


def _decode_percent(text: str) -> tuple[str, bool]:
    return _decode_byte_codes(text, b"%", rb"%(?=[0-9A-Fa-f]{2})"), True


def _decode_quoted_printable(text: str) -> tuple[str, bool]:
    # The standard's capital letters only: `url=data:` is no code.
    return _decode_byte_codes(text.replace("=\r\n", "").replace("=\n", ""), b"=", rb"=(?=[0-9A-F]{2})"), True


def _decode_byte_codes(text: str, mark: bytes, code: bytes) -> str:
    """Return a text with its codes for bytes replaced by what those bytes are in UTF-8."""
    raw = text.encode("utf-8", "surrogatepass").replace(b"\\", b"\\\\")
    # Written as `\xNN`, Python decodes them in one pass: fifty times faster than a loop over the codes.
    if compile_bytes_pattern(code.replace(b"(?=", b"(?!")).search(raw):
        raw = b"".join([compile_bytes_pattern(code).sub(rb"\\x", piece) for piece in _split_between_codes(raw, mark)])
    else:
        raw = raw.replace(mark, b"\\x")
    return raw.decode("unicode_escape").encode("latin-1").decode("utf-8", "replace")


def _split_between_codes(raw: bytes, mark: bytes) -> Iterator[bytes]:
    """Yield slices, between which other threads get their turn; none ends in the middle of a code of three bytes."""
    at = 0
    while at < len(raw):
        end = at + SLICE
        last = raw.rfind(mark, end - 2, end)
        end = last if last > at else end
        yield raw[at:end]
        at = end


def _decode_escapes(text: str) -> tuple[str, bool]:
    for twice in ("\\\\u", "\\\\x", "\\\\n", "\\\\U0") if "\\\\" in text else ():
        for _ in range(3):
            if twice not in text:
                break
            text = text.replace(twice, twice[1:])
    for short, plain in (("\\n", "\n"), ('\\"', '"'), ("\\r", "\r"), ("\\t", "\t"), ("\\/", "/")):
        if "\\" in text:
            text = text.replace(short, plain)
    whole = True
    if "\\u{" in text:
        most = _step_limit(text)
        braces = compile_pattern(r"\\u\{0{0,4}([0-9A-Fa-f]{1,5}|10[0-9A-Fa-f]{4})\}")
        text, count = braces.subn(lambda match: chr(int(match[1], 16)), text, count=most)
        whole = count < most
    # Every backslash becomes a literal one first; those of valid escapes are then restored.
    if "\\" in text:
        long = ""
        if "000" in text:
            # Of a style sheet's escapes only those of six digits: a shorter one may begin a name, as in `C:\\add`.
            text = compile_pattern(r"\\0000([2-7][0-9A-Fa-f]) ?").sub(r"\\x\1", text)
            long = "|U000[0-3][0-9A-Fa-f]{4}" if "\\U000" in text else ""
            # Tables of characters list invisible ones too, one by one; several in a row spell something.
            if long and compile_pattern(r"\\U000[Ee][0-9A-Fa-f]{4}(?:\\U000[Ee][0-9A-Fa-f]{4}){3}").search(text):
                long += "|U000[Ee][0-9A-Fa-f]{4}"
        valid = compile_pattern(rf"\\\\(?=x[0-9A-Fa-f]{{2}}|u[0-9A-Fa-f]{{4}}|[01][0-7]{{2}}{long})")
        text = valid.sub(r"\\", text.replace("\\", "\\\\")).encode("raw_unicode_escape").decode("unicode_escape")
    try:
        text.encode()
    except UnicodeEncodeError:
        # Halves of surrogate pairs: two that belong together become one character, the others are replaced.
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text, whole


_COMMON_ENTITIES = (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&#39;", "'"), ("&nbsp;", "\u00a0"), ("&amp;", "&"))
_ENTITY = r"#0{0,8}([0-9]{1,7});?|#[xX]0{0,8}([0-9A-Fa-f]{1,6});?|([A-Za-z][A-Za-z0-9]{1,31});"


def _decode_entities(text: str) -> tuple[str, bool]:
    for name, plain in _COMMON_ENTITIES:
        text = text.replace(name, plain)
    most = _step_limit(text)
    head, *parts = text.split("&")
    # The same reference often comes back with the same text behind it, above all in a text of references only.
    known: dict[str, str] = {}
    for part in parts:
        if part not in known:
            known[part] = _decode_entity(part) if len(known) < most else "&" + part
    return head + "".join([known[part] for part in parts]), len(known) <= most


def _decode_entity(part: str) -> str:
    """Return the text after one ampersand with its reference replaced."""
    match = compile_pattern(_ENTITY).match(part)
    if match is None:
        return "&" + part
    if match[3]:
        from html.entities import html5

        said = html5.get(match[3] + ";", html5.get(match[3].lower() + ";", match[0]))
    else:
        code = int(match[1]) if match[1] else int(match[2], 16)
        said = chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else " "
    return said + part[match.end() :]


def _step_limit(text: str) -> int:
    """Return how often a decoder may take a step that costs a microsecond; ordinary text stays far below."""
    return 512 + len(text) // 32


@dataclass(frozen=True, slots=True)
class InlineCode:
    """One way of writing characters as codes.

    `decode` returns the text and whether it got to the end; `mark` begins every code; `letter` is a code for plain
    ASCII. Ordinary encoders never write a letter as a code, so several in a row spell something that its author hid.
    """

    name: str
    mark: str
    decode: Callable[[str], tuple[str, bool]]
    letter: str

    def is_left_in(self, text: str) -> bool:
        """Return whether a code for a letter is in the text."""
        if self.mark not in text:
            return False
        return compile_pattern(self.letter.replace("{1,3}", "", 1)).search(text) is not None

    def find_spelled_words(self, text: str) -> Iterator[HiddenText]:
        """Yield the words in which every letter is a code."""
        if not self.is_left_in(text):
            return
        # The first code stands outside the group, so that the search can jump from one mark to the next.
        runs = list(islice(compile_pattern(f"{self.letter}(?:{self.letter}){{2,63}}").finditer(text), 64))
        if not runs:
            return
        start, end = runs[0].start(), runs[-1].end()
        words = [self.decode(run[0])[0] for run in runs]
        said = " ".join(words)
        # In binary data a third of the codes are letters by chance, and they spell nothing.
        codes = text.count(self.mark, start, end) - text.count(self.mark * 2, start, end)
        mostly = sum(map(len, words)) * 10 >= codes * 7
        if mostly and sum(map(str.isalpha, said)) >= 8 and (is_wordlike(said) or len(runs) == 64):
            yield HiddenText(self.name, said, start, end)


CODES = (
    InlineCode(
        "escape",
        "\\",
        _decode_escapes,
        r"\\{1,3}(?:x[2-7]H|u00[2-7]H|u\{0{0,4}[2-7]H\}|1[0-7]{2}|0[4-7][0-7]|U000000[2-7]H|0000[2-7]H ?)".replace(
            "H", "[0-9A-Fa-f]"
        ),
    ),
    InlineCode(
        "entity",
        "&",
        _decode_entities,
        r"&(?:amp;){0,2}#(?:[xX]0{0,6}[2-7][0-9A-Fa-f]|0{0,6}(?:3[2-9]|[4-9][0-9]|1[01][0-9]|12[0-6]));?",
    ),
    InlineCode("percent", "%", _decode_percent, r"%[2-7][0-9A-Fa-f]"),
    InlineCode("quoted", "=", _decode_quoted_printable, r"=[2-7][0-9A-F]"),
)


# --- runs


class EncodedRun(NamedTuple):
    """The place of a run; `broken` if line breaks or separators are in it, `column` if every line is short."""

    start: int
    end: int
    broken: bool
    column: bool = False


class DecodedRun(NamedTuple):
    """The bytes of a run and, if they are text, the text; `mostly` if most of the run is that text."""

    kind: str
    data: bytes
    said: str = ""
    mostly: bool = True


_MASK = bytes(120 if chr(i).isalnum() or chr(i) in "+/-_" else 32 for i in range(128)) + b" " * 128
_PAIR_MASK = bytes(104 if i in b"0123456789abcdefABCDEF" else 115 if i in b" :,-" else 120 for i in range(256))
_PAIR_WRITTEN = bytes(120 if i in b"0123456789abcdefABCDEFx :,-" else 32 for i in range(256))
_NINE_PAIRS = 26
# Between two strings that are one: nothing, or what joins them in one language or another.
_JOINED = rb"[\"'`]\s{0,16}(?:[+.,&|\\]{1,2}[ _]{0,2}\s{0,16})?b?[\"'`]"
# Between two lines of one run: a line break, real or escaped, with quoting; or one string joined to another.
_LINE_BREAK = rb"[ \t]{0,4}\\?(?:\r?\n|\\r|\\n){1,4}[ \t>\"']{0,16}|" + _JOINED
# The end of a line of a column and its next one, with nothing behind that. Shorter lines are words.
_IN_COLUMN = rb"[A-Za-z0-9+/_-]"
_TWO_LINES = rb"\n(?:(?<=L{8}\n)|(?<=L{8}\r\n))[\r\n \t>\"']{0,20}L{8,23}(?=\r?\n)".replace(b"L", _IN_COLUMN)
_SHORTEST_COLUMN = 50
_HEX_PAIRS = rb"(?:(?:0x)?[0-9A-Fa-f]{2}(?:[ :-]|, ?)){8,2000}(?:0x)?[0-9A-Fa-f]{2}"


def find_runs(flat: bytes, shortest: int, *, columns: bool, separated: bool) -> Iterator[EncodedRun]:
    """Yield the places of runs of the base64 or hexadecimal alphabets, the lines of one run joined.

    `columns` asks for runs on short lines as well, `separated` for pairs of hexadecimal digits with something between.
    """
    mask = flat.translate(_MASK)
    needle = b"x" * shortest
    at = mask.find(needle)
    while at >= 0:
        single = _end_of_stretch(mask, at + shortest)
        end, _ = _join_lines(flat, mask, at, single)
        yield EncodedRun(at, end, end != single)
        at = mask.find(needle, end)
    yield from _find_columns(flat, mask, shortest) if columns else ()
    # The mask tells at low cost that there is none.
    pairs = flat.translate(_PAIR_MASK) if separated else b""
    if b"hhshhshhshhs" in pairs or b"xhhsshxhhss" in pairs or b"xhhshxhhs" in pairs:
        # Only a stretch of these characters can hold nine pairs; trying every place would double the cost.
        for at, end in _find_stretches(flat.translate(_PAIR_WRITTEN), _NINE_PAIRS):
            for match in compile_bytes_pattern(_HEX_PAIRS).finditer(flat, at, end):
                yield EncodedRun(*match.span(), True)


def _join_lines(flat: bytes, mask: bytes, at: int, end: int) -> tuple[int, int]:
    """Return the end of the run with the first line `at:end`, and its length without what stands between its lines."""
    width = size = whole = end - at
    # All lines of one run have the same length, and only its last one may be shorter.
    while (
        size == width
        and (gap := compile_bytes_pattern(_LINE_BREAK).match(flat, end))
        and mask.startswith(b"xxxx", gap.end())
    ):
        following = _end_of_stretch(mask, gap.end())
        size = following - gap.end()
        if size > width:
            break
        end = following
        whole += size
    return end, whole


def _find_columns(flat: bytes, mask: bytes, shortest: int) -> Iterator[EncodedRun]:
    """Yield runs on lines that are too short to be a run by themselves."""
    match = compile_bytes_pattern(_TWO_LINES).search(flat)
    while match:
        end, after = match.start() - flat.startswith(b"\r", match.start() - 1), match.end()
        before = mask[max(0, end - shortest) : end]
        width = len(before) - len(before.rstrip(b"x"))
        if width < shortest:
            stop, whole = _join_lines(flat, mask, end - width, end)
            if whole >= _SHORTEST_COLUMN:
                yield EncodedRun(end - width, stop, True, True)
            # If all these lines together are too short, so are the last of them.
            after = max(stop, after)
        match = compile_bytes_pattern(_TWO_LINES).search(flat, after)


def _find_stretches(mask: bytes, shortest: int) -> Iterator[tuple[int, int]]:
    """Yield where a mask has at least so many marks in a row."""
    needle = b"x" * shortest
    at = mask.find(needle)
    while at >= 0:
        end = _end_of_stretch(mask, at + shortest)
        yield at, end
        at = mask.find(needle, end)


def _end_of_stretch(mask: bytes, at: int) -> int:
    end = mask.find(b" ", at)
    return len(mask) if end < 0 else end


_HEX = rb"(?:0x)?([0-9A-Fa-f]+)"
# Every byte of ASCII text begins with a digit from 2 to 7, and three of them leave these letters in base64.
_HEX_SHAPE = rb"(?:[2-7][0-9A-Fa-f]|0[9AaDd]){9,20000}"
_BASE64_SHAPE = rb"[CI-Za-f][C-HS-Xi-nyz0-3gwQ][ABEFIJMNQRUVYZcdghklopstwx014589][A-Za-z0-9+/]" * 5
_URLSAFE = bytes.maketrans(b"-_", b"+/")
_CONTROLS = bytes(i for i in range(32) if i not in b"\t\n\r") + b"\x7f"
_CONTROL_MASK = bytes(32 if i in _CONTROLS else 120 for i in range(256))
_PRINTED = bytes(120 if 32 <= i < 127 or i in b"\t\n\r" else 32 for i in range(256))
# What is no digit becomes one of which no pair is printed.
_DIGITS = bytes(i if i in b"0123456789abcdefABCDEF" else 102 for i in range(256))
_LONG = 32
_NINE_BYTES = b"h" * 18


def decode_run(flat: bytes, run: EncodedRun, *, shaped: bool) -> DecodedRun:
    """Return what a run decodes to; `shaped` if the text has a run with the shape of ASCII text."""
    raw = flat[run.start : run.end]
    if run.broken:
        raw = raw.replace(b"0x", b"") if raw.startswith(b"0x") else raw
        # The sign that joins two strings may itself belong to the alphabet: a plus sign.
        raw = compile_bytes_pattern(_JOINED).sub(b"", raw) if any(quote in raw for quote in (b'"', b"'", b"`")) else raw
        raw = raw.replace(b"\\n", b"").replace(b"\\r", b"").translate(None, b" \t\r\n\"'>.,:\\")
        raw = raw.replace(b"-", b"") if raw[2:3] == b"-" else raw
    digits = compile_bytes_pattern(_HEX).fullmatch(raw)
    data = binascii.unhexlify(digits[1]) if digits and len(digits[1]) % 2 == 0 else b""
    if said := text_from_bytes(data):
        return DecodedRun("hex", data, said)
    # One case only: a digest, a path, a name or a sequence. Base64 of so many bytes has letters of both cases.
    if not shaped and (raw.islower() or raw.isupper()):
        return (_decode_glued(raw, b"") if run.broken else None) or DecodedRun("hex", data)
    plain = raw.translate(_URLSAFE)
    bits = _decode_base64(plain)
    if said := text_from_bytes(bits):
        return DecodedRun("base64", bits, said)
    # Searching the mask first is ten times faster when there are too few digits.
    if (
        shaped
        and raw.translate(_PAIR_MASK).find(_NINE_BYTES) >= 0
        and (match := compile_bytes_pattern(_HEX_SHAPE).search(raw))
    ):
        found = binascii.unhexlify(match[0])
        return DecodedRun("hex", found, text_from_bytes(found), len(match[0]) * 2 >= len(raw))
    if shaped and (match := compile_bytes_pattern(_BASE64_SHAPE).search(plain)):
        # Other characters are glued to the front of the run, or the text is a part of binary data.
        bits = _decode_base64(plain[match.start() % 4 :])
        said = b"\n".join(compile_bytes_pattern(rb"[\t\n\r -~]{8,}").findall(bits)).decode("ascii")
        return DecodedRun("base64", bits, said, len(said) * 2 >= len(bits))
    glued = _decode_glued(raw, plain) if run.broken else None
    return glued or (DecodedRun("hex", data) if data else DecodedRun("base64", bits))


def _decode_glued(raw: bytes, plain: bytes) -> DecodedRun | None:
    """Return the text in a run that neighbouring lines joined by accident: a rule or a name above it, a word below.

    The text may be encoded once more and then has no shape. But so many printable bytes in a row never come by chance.
    """
    tries: list[tuple[str, bytes]] = []
    if raw.translate(_PAIR_MASK).find(b"h" * 2 * _LONG) >= 0:
        digits = raw.translate(_DIGITS)
        tries = [("hex", binascii.unhexlify(digits[at : len(raw) - (len(raw) - at) % 2])) for at in (0, 1)]
    for kind, data in tries + [("base64", _decode_base64(plain[at:])) for at in range(4)]:
        if said := b"\n".join([data[at:end] for at, end in _find_stretches(data.translate(_PRINTED), _LONG)]):
            return DecodedRun(kind, data, said.decode("ascii"), len(said) * 2 >= len(data))
    return None


def _decode_base64(run: bytes) -> bytes:
    try:
        return binascii.a2b_base64((run[:-1] if len(run) % 4 == 1 else run) + b"==")
    except binascii.Error:
        return b""


COMPRESSED = {b"\x1f\x8b": "gzip", b"\x78\x01": "zlib", b"\x78\x9c": "zlib", b"\x78\xda": "zlib"}


def decompress(found: DecodedRun, most: int) -> tuple[DecodedRun, bool]:
    """Return the text in compressed data, at most so many bytes of it, and whether that was all."""
    import zlib

    stream = zlib.decompressobj(wbits=47)
    try:
        out = stream.decompress(found.data, max(most, 1))
    except zlib.error:
        return found, True
    name = COMPRESSED[found.data[:2]]
    return DecodedRun(f"{found.kind}>{name}", found.data, text_from_bytes(out)), not stream.unconsumed_tail


def text_from_bytes(data: bytes) -> str:
    """Return the bytes as text; empty if they are not: one control character early on is enough to tell."""
    if len(data) < 8:
        return ""
    if b"\0" in data:
        for zeros, codec in ((data[1::2], "utf-16-le"), (data[::2], "utf-16-be")):
            if zeros.count(0) * 10 >= len(zeros) * 9:
                text = data.decode(codec, "replace").rstrip("\0")
                return "" if compile_pattern("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]").search(text) else text
        data = data.rstrip(b"\0")
    head = data[:64]
    if len(head.translate(None, _CONTROLS)) < len(head):
        return ""
    end = len(data)
    if len(data.translate(None, _CONTROLS)) < end:
        end = _end_of_stretch(data.translate(_CONTROL_MASK), 0)
    try:
        return data[:end].decode("utf-8") if end * 2 >= len(data) else ""
    except UnicodeDecodeError as error:
        # Other bytes are glued to the end.
        return data[: error.start].decode("utf-8") if error.start >= 32 and error.start * 2 >= len(data) else ""


# --- the four signals


def measure_entropy(raw: str, charset: str) -> tuple[float, float]:
    """Return the bits per character, and their share of the possible maximum; from the first 1,024 characters."""
    sample = raw[:1024]
    if len(sample) < 2:
        return 0.0, 0.0
    # The same as the sum of every share times its logarithm; most characters of a short run come once or twice.
    bits = abs(log2(len(sample)) - sum([n * log2(n) for n in Counter(sample).values() if n > 1]) / len(sample))
    most = min(log2(len(sample)), {"hex": 4.0, "base64": 6.0, "base64url": 6.0}.get(charset, 8.0))
    return round(bits, 3), round(min(bits / most, 1.0), 3)


def charset_of(raw: bytes) -> str:
    """Return which alphabet a run is written in."""
    if not raw.translate(None, b"0123456789abcdefABCDEFx :,-\r\n"):
        return "hex"
    return "base64url" if b"-" in raw or b"_" in raw else "base64"


_TEXT_SIGNATURES = (
    ("-----BEGIN", "pem"),
    ("<svg", "svg"),
    ("<?xml", "xml"),
    ("<", "markup"),
    ("{", "json"),
    ("[", "json"),
)
_SIGNATURES = (
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
)


def signature_of(found: DecodedRun) -> str:
    """Return the format of the decoded bytes, by how they begin."""
    if name := COMPRESSED.get(found.data[:2]):
        return name
    if found.said and found.mostly:
        return next((name for start, name in _TEXT_SIGNATURES if found.said.startswith(start)), "text")
    return next((name for start, name in _SIGNATURES if found.data.startswith(start)), "binary")


def explain_binary_run(raw: bytes, data: bytes) -> str:
    """Return why a run that holds no text is ordinary; empty if it does not even look encoded."""
    if len(set(raw[:256])) < 10:
        return ""
    if charset_of(raw) == "hex":
        sizes = {16: "md5", 20: "sha1", 28: "sha224", 32: "sha256", 48: "sha384", 64: "sha512"}
        return f"has the length of a {sizes[len(data)]} digest" if len(data) in sizes else "decodes to binary data"
    if raw.islower() or raw.isupper() or raw.translate(None, b"0123456789") == raw:
        return ""
    return "decodes to binary data"


# --- which texts count as hidden messages

_COMMANDS = frozenset("curl wget bash zsh sudo chmod powershell ncat scp iex certutil".split())
# These are words too, so what follows must look like an argument.
_WORD_COMMANDS = frozenset("sh rm nc cat echo python python3 perl ruby node base64 ssh eval exec cmd dd".split())


def has_message(text: str) -> bool:
    """Return whether a decoded text has a message: an address, a command or a sentence, not only data."""
    if text.startswith("-----BEGIN"):
        return False
    if text.lstrip()[:1] not in ("{", "[", "<"):
        if any(mark in text for mark in ("http://", "https://", "HTTP://", "HTTPS://", "mailto:")):
            return True
        if "@" in text and compile_pattern(r"[\w.+\-]@[\w\-]{1,63}\.[A-Za-z]{2}").search(text):
            return True
    return _has_speech(text)


def _has_speech(text: str) -> bool:
    tokens = text.split()
    return _has_command(tokens) or _has_sentence(tokens, text)


def _has_command(tokens: list[str]) -> bool:
    if _COMMANDS.isdisjoint(tokens) and _WORD_COMMANDS.isdisjoint(tokens):
        return False
    return any(
        token in _COMMANDS or (token in _WORD_COMMANDS and argument[0] in "-/~.$<\"'(")
        for token, argument in pairwise(tokens)
    )


def _has_sentence(tokens: list[str], text: str) -> bool:
    chain: list[str] = []
    for token in tokens:
        word = token.strip(".,;:!?\"'()")
        if (word.isalpha() or word in ("don't", "I'm", "it's")) and len(word) <= 24:
            chain.append(word)
            if len(chain) >= 4 and _are_words(chain[-4:]):
                return True
        else:
            chain = []
    # A short message may have fewer words, but then has nothing else.
    if 2 <= len(tokens) == len(chain) and _are_words(chain):
        return True
    unspaced = "[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{6}"
    return not text.isascii() and compile_pattern(unspaced).search(text) is not None


def _are_words(chain: list[str]) -> bool:
    said = " ".join(chain)
    return len(said) >= 12 and (not said.isascii() or is_wordlike(said))


_ADDRESS = rb"https?://[^\s\"'<>]{0,500}$"
_DATA_URI = rb"data:([a-z]{1,12}/[a-z0-9.+-]{1,40})[a-z0-9=;+-]{0,40},$"
_TEXT_TYPES = (b"image/svg+xml", b"application/json", b"text/css", b"text/javascript", b"application/javascript")
JWT = "a signed token"


def find_carrier(flat: bytes, run: EncodedRun, found: DecodedRun) -> str:
    """Return why readable text at this place is ordinary; empty if it is not."""
    if not found.mostly:
        return "text inside binary data"
    neighbour = flat[max(0, run.start - 1) : run.start]
    if flat.startswith(b"eyJ", run.start) and (flat.startswith(b".", run.end) or neighbour == b"."):
        return JWT
    if not neighbour or neighbour in b" \n\t\"'":
        return ""
    before = flat[max(0, run.start - 512) : run.start]
    if neighbour == b"," and (match := compile_bytes_pattern(_DATA_URI).search(before[-120:])):
        # Data that decodes to text is no image, and a drawing or a style sheet does not begin with a word.
        if match[1] in _TEXT_TYPES and found.said.lstrip()[:1] in tuple("{[<@.#/*(!;:"):
            return "a data URI"
    if b"://" in before and compile_bytes_pattern(_ADDRESS).search(before) and not _has_speech(found.said):
        return "part of an address"
    return ""
