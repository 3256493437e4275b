"""Which pieces of a call's values are worth looking for in untrusted text.

A value is looked for as a whole, and in the pieces that an attacker could have named: the parts of a command line, the
host and the domain of an address, a long number. All of it is folded: lower case, no punctuation, quoting or wrapping.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from posixpath import normpath
from typing import NamedTuple

from lockgate.core.ruling.arguments import Leaf, argument_words, sink_from_argument
from lockgate.core.ruling.scope.domain_names import TOP_LEVEL_DOMAINS
from lockgate.core.tables import read_sections
from lockgate.core.text.imperatives import WORD_BYTES, prepare

# Pieces of a call that are looked up at most; a call with more has a finding for it.
MAX_PIECES = 1024
MAX_LINE = 160
_MAX_VALUE = 400
# One byte is found in others by its number in a tenth of the time that it takes as text.
_AND, _AT, _COLON, _DOT, _EQUALS, _MARK, _NEWLINE, _PIPE, _SEMICOLON = b"&@:.=?\n|;"
_SLASH, _BACKSLASH, _QUOTE, _QUOTES = b"/\\'\""
_QUOTED_WITHIN = re.compile(rb"[a-z0-9@./:_-](?:[\"']+|\\)[a-z0-9@./:_-]")

_WORDS = {
    section: frozenset(" ".join(lines).encode().split())
    for section, lines in read_sections(__package__, "common_values.txt").items()
}
STOP_WORDS, SHARED_DOMAINS = _WORDS["stop words"], _WORDS["shared domains"]
_TENANT_DOMAINS, _PROVIDERS = _WORDS["tenant domains"], _WORDS["providers"]
_CHUNKS = bytes(32 if chr(byte) in "\t\n\v\f\r \"'<>()[]{},;|`&" else byte for byte in range(256))
_SEGMENTS = bytes(10 if chr(byte) in ";|" else byte for byte in range(256))
_NUMBER = re.compile(rb"[\d.,:/ $%+-]*\Z")
_DATE = re.compile(rb"\d{4}-\d\d(?:-\d\d)?(?:[ t]\d\d:\d\d(?::\d\d)?)?z?\Z|\d\d?:\d\d\Z|\d{1,4}[a-z]{1,2}\Z")
_ADDRESS = re.compile(rb"[^\s@]{1,64}@[^\s@.]{1,63}\.|[a-z][a-z0-9+.-]{1,12}://|www\.")
_LONG_NUMBER = 8
_MAX_GROUPED = 48
_GROUPED = re.compile(rb"(?:[0-9][ .-]?){8}")
_DIGIT = b"0"
_DIGITS = bytes(48 if 48 <= byte <= 57 else 32 for byte in range(256))
_HAS_DIGIT = re.compile(rb".*[0-9]").match
# Letters of Latin, Greek, Cyrillic, Hebrew and Arabic script.
_SPACED_WORD = re.compile(r"[a-z\u00df-\u06ff]+")
HOST = re.compile(rb"(?:[a-z0-9-]{1,63}\.){1,8}[a-z]{2,24}")
# An address that people write without its scheme, `ours.example/card`, unlike `node.js/deno`.
_BARE_ADDRESS = re.compile(rb"(?<![\w.@/-])(?:[a-z0-9-]{1,63}\.){1,8}([a-z]{2,24})/[\w~%-]")


_MESSAGE_WORDS = frozenset(
    "body text content message comment note notes description title subject summary reason memo caption".split()
)
# More words than a name has.
_FEW_WORDS = 4
_PLACES_ON_PAGE = (("selector",), ("xpath",), ("locator",), ("ref",))


class ComparedValue(NamedTuple):
    """A leaf as it is compared: its prepared text, its words as far as they count, how many digits it may have."""

    leaf: Leaf
    data: bytes
    words: list[bytes]
    digits: int


class Candidate(NamedTuple):
    """A piece of a leaf that is worth looking for.

    `rarest` is the word of it that is looked for first, `needle` all its words with blanks around them.
    `is_grouped_number` marks a long number, which people write with or without gaps: it is looked for without any.
    """

    leaf: Leaf
    piece: bytes
    words: Sequence[bytes]
    rarest: bytes
    needle: bytes
    is_number: bool
    is_plain_word: bool
    is_grouped_number: bool = False

    @property
    def argument(self) -> str:
        return self.leaf.argument

    @property
    def is_distinctive(self) -> bool:
        return not self.is_number and not self.is_plain_word

    @property
    def is_address(self) -> bool:
        return bool(_ADDRESS.match(self.piece))

    def is_in(self, folded: bytes) -> bool:
        """Return whether a folded text holds the piece."""
        return self.needle in (folded.replace(b" ", b"") if self.is_grouped_number else folded)


@lru_cache(maxsize=4096)
def _is_message(argument: str) -> bool:
    """Return whether an argument holds what a person is told: numbers and dates in it are content, no target."""
    return not _MESSAGE_WORDS.isdisjoint(argument_words(argument)[-1:])


@lru_cache(maxsize=4096)
def _is_place_on_page(argument: str) -> bool:
    """Return whether an argument only says where on a page something is done: a page has to name its own parts."""
    return argument_words(argument)[-1:] in _PLACES_ON_PAGE


def prepare_values(leaves: Sequence[Leaf]) -> list[ComparedValue]:
    """Return the values of a call as they are compared with untrusted text."""
    values: list[ComparedValue] = []
    for leaf in leaves:
        argument, text, _ = leaf
        if _is_place_on_page(argument):
            continue
        if text.isascii() and "\\" not in text and "%" not in text and "&" not in text:
            data = text.lower().encode()
        else:
            data = prepare(text.encode("utf-8", "ignore"))
        if len(data) <= _MAX_VALUE:
            words, digits = data.translate(WORD_BYTES).split(), data.translate(_DIGITS).count(_DIGIT)
        else:
            # Of a text longer than any value only the first line's words are asked for.
            words, digits = data[:MAX_LINE].translate(WORD_BYTES).split(), _LONG_NUMBER
        # As `ComparedValue(…)`, without the detour by its keywords: every call comes here.
        values.append(tuple.__new__(ComparedValue, (leaf, data, words, digits)))
    return values


def find_candidates(values: Iterable[ComparedValue], untrusted_words: set[bytes]) -> tuple[list[Candidate], bool]:
    """Return what to look for in a call's values, each piece once, and whether there was too much of it.

    A piece with a word that no untrusted text contains came from none of them, which rules most pieces out.
    """
    found: dict[tuple[str, bytes], Candidate] = {}
    for value in values:
        leaf, data, listed, digits = value
        pieces: list[bytes] = []
        if len(data) <= _MAX_VALUE:
            if untrusted_words.issuperset(listed):
                _add_candidate(found, leaf, data, listed, digits)
            elif not data.isascii():
                pieces.append(data)
        if not data.isalnum():
            is_command = sink_from_argument(leaf.argument) == "command"
            is_message = not is_command and len(listed) > _FEW_WORDS and _is_message(leaf.argument)
            pieces += _split_value(data, untrusted_words, is_command=is_command, is_message=is_message)
        if pieces:
            _add_pieces(found, value, pieces, untrusted_words)
        if digits >= _LONG_NUMBER and len(found) <= MAX_PIECES:
            _add_grouped_numbers(found, leaf, (data, *pieces), untrusted_words)
        if len(found) > MAX_PIECES:
            return list(found.values())[:MAX_PIECES], True
    return list(found.values()), False


def _add_pieces(
    found: dict[tuple[str, bytes], Candidate], value: ComparedValue, pieces: list[bytes], untrusted_words: set[bytes]
) -> None:
    is_spaced = value.data.isascii()
    for piece in pieces:
        if len(found) > MAX_PIECES:
            return
        words = piece.translate(WORD_BYTES).split()
        if untrusted_words.issuperset(words) or (not is_spaced and _is_unspaced_script(words, untrusted_words)):
            _add_candidate(found, value.leaf, piece, words, value.digits)


def _is_unspaced_script(words: Sequence[bytes], untrusted_words: set[bytes]) -> bool:
    """Return whether all words that were not seen are of scripts that write without spaces."""
    return all(not word.isascii() or word in untrusted_words for word in words)


def _add_grouped_numbers(
    found: dict[tuple[str, bytes], Candidate], leaf: Leaf, pieces: Iterable[bytes], untrusted_words: set[bytes]
) -> None:
    """Add long numbers that untrusted text may write with other gaps."""
    for piece in pieces:
        if len(piece) >= _MAX_GROUPED or not _GROUPED.search(piece):
            continue
        words = piece.translate(WORD_BYTES).split()
        if not untrusted_words.issuperset(words):
            compact = b"".join(words)
            candidate = Candidate(
                leaf, piece, words, compact, compact, is_number=False, is_plain_word=False, is_grouped_number=True
            )
            found.setdefault((leaf.argument, compact), candidate)


def _add_candidate(
    found: dict[tuple[str, bytes], Candidate], leaf: Leaf, piece: bytes, words: list[bytes], digits: int
) -> None:
    """Add a piece, unless it is made of words that stand in every text."""
    count = len(words)
    if not count:
        return
    needle = b" %b " % (words[0] if count == 1 else b" ".join(words))
    rarest, is_number, is_plain = b"", False, count == 1 and _is_letters_only(piece, leaf.argument)
    if digits:
        # The blanks are one more than the words.
        is_number = len(needle) < 12 and len(needle) - count < 7 and _NUMBER.match(piece) is not None
        is_plain = is_plain or (piece[:1].isdigit() and _DATE.match(piece) is not None)
        rarest = _first_word_with_digit(words)
    # A number counts at any length; a word needs some.
    if not is_number and (len(needle) < 5 or STOP_WORDS.issuperset(words)):
        return
    rarest = rarest or (words[0] if count == 1 else max(words, key=len))
    needle = needle if rarest.isascii() else needle.strip()
    if (leaf.argument, needle) not in found:
        # As `Candidate(…)`, without the detour by its keywords: a long value has hundreds.
        parts = (leaf, piece, words, rarest, needle, is_number, is_plain, False)
        found[leaf.argument, needle] = tuple.__new__(Candidate, parts)


def _is_letters_only(piece: bytes, argument: str) -> bool:
    """Return whether a piece is one word of letters; beyond ASCII, in a script that puts blanks between words.

    There, one that says where the call goes stays telling: a plain word counts only beside the tool's English verb,
    which an order in such a language does not have.
    """
    if piece.isascii():
        return piece.isalpha()
    return not sink_from_argument(argument) and _SPACED_WORD.fullmatch(piece.decode("utf-8", "replace")) is not None


def _first_word_with_digit(words: list[bytes]) -> bytes:
    for word in words:
        if not word.isalpha() and _HAS_DIGIT(word):
            return word
    return b""


def _split_value(
    data: bytes, untrusted_words: set[bytes], *, is_command: bool, is_message: bool = False
) -> list[bytes]:
    """Return the pieces of a value worth looking for besides all of it: a command's parts, and all but plain words."""
    pieces = _command_segments(data) if is_command else []
    is_prose = is_message or (len(data) > MAX_LINE and not is_command)
    if is_prose and not _is_address_chunk(data):
        return pieces
    chunks = data.translate(_CHUNKS).split()
    if is_command and _has_quotes_within_word(data):
        # A shell drops quotes inside a word: `'eve'@"host".example` is one address.
        chunks += data.translate(None, b"'\"\\").translate(_CHUNKS).split()
    for chunk in chunks:
        if chunk.isalpha() or len(chunk) < 4:
            continue
        # In a long text only addresses tell: code and prose share names with everything they were read from.
        if is_prose and not _is_address_chunk(chunk):
            continue
        # What is carried out can be as long as it likes; where it goes stands at the front.
        chunk = chunk[:_MAX_VALUE].strip(b".:!?*_~-#$")
        if not chunk.isalpha():
            if chunk != data:
                pieces.append(chunk)
            if _SLASH in chunk and b"/." in chunk:
                pieces.append(normpath(chunk))
            if _DOT in chunk or _COLON in chunk or _EQUALS in chunk:
                _split_address(chunk, pieces, untrusted_words, is_command=is_command)
    return pieces


def _command_segments(data: bytes) -> list[bytes]:
    """Return the single commands of a command line that has several."""
    if _PIPE in data or _SEMICOLON in data or _NEWLINE in data or (_AND in data and b"&&" in data):
        segments = data.replace(b"&&", b"\n").translate(_SEGMENTS).split(b"\n")
        return [segment for segment in segments if segment and len(segment) <= _MAX_VALUE]
    return []


def _has_quotes_within_word(data: bytes) -> bool:
    has_quotes = _QUOTE in data or _QUOTES in data or _BACKSLASH in data
    return has_quotes and _QUOTED_WITHIN.search(data) is not None


def _is_address_chunk(chunk: bytes) -> bool:
    if _AT in chunk or chunk.find(b"://") >= 0 or chunk.find(b"www.") >= 0:
        return True
    found = _BARE_ADDRESS.findall(chunk) if _SLASH in chunk else ()
    return any(ending.decode() in TOP_LEVEL_DOMAINS for ending in found)


def _split_address(chunk: bytes, pieces: list[bytes], untrusted_words: set[bytes], *, is_command: bool) -> None:
    """Add the parts of an address that stay when data is put into it: its host, its domain, the values in its query."""
    rest, path = _strip_scheme_and_query(chunk, pieces)
    host = path.partition(b"/")[0]
    if _DOT not in host:
        if not host:
            # `file:///etc/hosts` is what others write without its head.
            pieces.append(path)
        return
    user, at, place = host.rpartition(b"@")
    if at and host == chunk and not is_command:
        # A mailbox: all colleagues share its domain, but `eve+x` is `eve`.
        if b"+" in user:
            pieces.append(user.partition(b"+")[0] + at + place)
        return
    # Whichever user logs in there, it is the same place: `me@host:/tmp`, `https://notes@host/`.
    host = place.partition(b":")[0]
    if not HOST.fullmatch(host):
        return
    domain = domain_of(host)
    # What stands nowhere as a domain stands nowhere as an address of it.
    if not untrusted_words.issuperset(domain.translate(WORD_BYTES).split()):
        return
    if domain not in SHARED_DOMAINS:
        pieces += [host, domain]
    pieces += [rest, path]


def is_open_to_all(domain: bytes) -> bool:
    """Return whether anyone can have a mailbox, a host or a page there: its other users are other parties."""
    return domain in SHARED_DOMAINS or domain in _TENANT_DOMAINS or domain.partition(b".")[0] in _PROVIDERS


def domain_of(host: bytes) -> bytes:
    """Return the part of a host that one owner registers; where a short label stands before the last, three labels."""
    labels = host.split(b".")
    return b".".join(labels[-3:] if len(labels) > 2 and len(labels[-2]) < 4 else labels[-2:])


def _strip_scheme_and_query(chunk: bytes, pieces: list[bytes]) -> tuple[bytes, bytes]:
    """Return an address without its scheme, and without its query; add the values of its query to the pieces."""
    if not (_COLON in chunk or _EQUALS in chunk or _MARK in chunk or chunk.startswith(b"//")):
        return chunk, chunk
    _, scheme_mark, rest = chunk.partition(b"://")
    rest = rest if scheme_mark else chunk.removeprefix(b"//")
    path, _, query = rest.partition(b"?")
    if _COLON in path and not scheme_mark and b"/" not in path:
        pieces.append(path.rpartition(b":")[2])
    if query:
        values = query.replace(b"&", b"=").split(b"=")
        pieces += [value for value in values if len(value) > 3 and not value.isalpha()]
    elif _EQUALS in path:
        pieces.append(path.partition(b"=")[2])
    return rest, path
