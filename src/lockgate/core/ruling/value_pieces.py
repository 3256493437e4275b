"""Which pieces of a call's values are worth looking for in untrusted text.

A value is looked for as a whole, and in the pieces that an attacker could have named: the parts of a command line, the
host and the domain of an address, a long number. All of it is folded: lower case, no punctuation, quoting or wrapping.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from posixpath import normpath
from typing import NamedTuple

from lockgate.core.ruling.arguments import Leaf, argument_words, sink_from_argument
from lockgate.core.ruling.scope.machines import TOP_LEVEL_DOMAINS
from lockgate.core.ruling.targets import domain_of, is_shared
from lockgate.core.tables import read_sections
from lockgate.core.text.imperatives import WORD_BYTES, prepare

# Pieces of a call that are looked up at most; a call with more has a finding for it.
MAX_PIECES = 1024
MAX_LINE = 160
_MAX_VALUE = 400
STOP_WORDS = frozenset(" ".join(read_sections(__package__, "common_values.txt")["stop words"]).encode().split())
_CHUNKS = bytes(32 if chr(byte) in "\t\n\v\f\r \"'<>()[]{},;|`&" else byte for byte in range(256))
_SEGMENT_ENDS = re.compile(rb"&&|[;|\n]")
_NUMBER = re.compile(rb"[\d.,:/ $%+-]*\Z")
_DATE = re.compile(rb"\d{4}-\d\d(?:-\d\d)?(?:[ t]\d\d:\d\d(?::\d\d)?)?z?\Z|\d\d?:\d\d\Z|\d{1,4}[a-z]{1,2}\Z")
_ADDRESS = re.compile(rb"[^\s@]{1,64}@[^\s@.]{1,63}\.|[a-z][a-z0-9+.-]{1,12}://|www\.")
_MAX_GROUPED = 48
_GROUPED = re.compile(rb"(?:[0-9][ .-]?){8}")
_HAS_DIGIT = re.compile(rb"[0-9]")
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
_PLACES_ON_PAGE = frozenset({"selector", "xpath", "locator", "ref"})


class ComparedValue(NamedTuple):
    """A leaf as it is compared: its prepared text, and its words as far as they count."""

    leaf: Leaf
    data: bytes
    words: list[bytes]


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
    is_number: bool = False
    is_plain_word: bool = False
    is_grouped_number: bool = False

    @property
    def key(self) -> bytes:
        """What tells a candidate from others that are looked for."""
        return self.needle + b"#" if self.is_grouped_number else self.needle

    @property
    def is_distinctive(self) -> bool:
        """Whether it is hardly in a text by chance."""
        return not self.is_number and not self.is_plain_word

    @property
    def is_address(self) -> bool:
        """Whether it is a mailbox or an address with its scheme."""
        return bool(_ADDRESS.match(self.piece))

    def is_in(self, folded: bytes) -> bool:
        """Return whether a folded text holds the piece."""
        return self.needle in (folded.replace(b" ", b"") if self.is_grouped_number else folded)


@lru_cache(maxsize=4096)
def _last_word(argument: str) -> str:
    return "".join(argument_words(argument)[-1:])


def prepare_values(leaves: Sequence[Leaf]) -> list[ComparedValue]:
    """Return the values of a call as they are compared with untrusted text."""
    values: list[ComparedValue] = []
    for leaf in leaves:
        # A page has to name its own parts: where on it something is done tells nothing.
        if _last_word(leaf.argument) not in _PLACES_ON_PAGE:
            data = prepare(leaf.text.encode("utf-8", "ignore"))
            # Of a text longer than any value only the first line's words are asked for.
            first = data if len(data) <= _MAX_VALUE else data[:MAX_LINE]
            values.append(ComparedValue(leaf, data, first.translate(WORD_BYTES).split()))
    return values


def find_candidates(
    values: Sequence[ComparedValue], untrusted_words: Collection[bytes]
) -> tuple[list[Candidate], bool]:
    """Return what to look for in a call's values, each piece once, and whether there was too much of it.

    A piece with a word that no untrusted text contains came from none of them, which rules most pieces out.
    """
    found: dict[tuple[str, bytes], Candidate] = {}
    for value in values:
        for piece in _split_value(value):
            words = piece.translate(WORD_BYTES).split()
            unseen = [word for word in words if word not in untrusted_words]
            # In a script without spaces a value is a part of what looks like a word.
            if not unseen or not any(word.isascii() for word in unseen):
                candidate = _add_candidate(value.leaf, piece, words)
            elif len(piece) < _MAX_GROUPED and _GROUPED.search(piece):
                # A long number, which untrusted text may write with other gaps.
                compact = b"".join(words)
                candidate = Candidate(value.leaf, piece, words, compact, compact, is_grouped_number=True)
            else:
                continue
            if candidate is not None:
                found.setdefault((value.leaf.argument, candidate.key), candidate)
            if len(found) > MAX_PIECES:
                return list(found.values())[:MAX_PIECES], True
    return list(found.values()), False


def _add_candidate(leaf: Leaf, piece: bytes, words: list[bytes]) -> Candidate | None:
    """Return a piece as a candidate, unless it is made of words that stand in every text."""
    if not words:
        return None
    needle = b" %b " % b" ".join(words)
    with_digit = [word for word in words if not word.isalpha() and _HAS_DIGIT.search(word)]
    # The blanks are one more than the words.
    is_number = bool(with_digit) and len(needle) < 12 and len(needle) - len(words) < 7 and bool(_NUMBER.match(piece))
    is_plain = (len(words) == 1 and _is_letters_only(piece, leaf.argument)) or _DATE.match(piece) is not None
    # A number counts at any length; a word needs some.
    if not is_number and (len(needle) < 5 or STOP_WORDS.issuperset(words)):
        return None
    rarest = (with_digit or [max(words, key=len)])[0]
    return Candidate(leaf, piece, words, rarest, needle if rarest.isascii() else needle.strip(), is_number, is_plain)


def _is_letters_only(piece: bytes, argument: str) -> bool:
    """Return whether a piece is one word of letters; beyond ASCII, in a script that puts blanks between words.

    There, one that says where the call goes stays telling: a plain word counts only beside the tool's English verb,
    which an order in such a language does not have.
    """
    if piece.isascii():
        return piece.isalpha()
    return not sink_from_argument(argument) and _SPACED_WORD.fullmatch(piece.decode("utf-8", "replace")) is not None


def _split_value(value: ComparedValue) -> Iterator[bytes]:
    """Yield a value, and the pieces of it worth looking for besides: a command's parts, and all but plain words."""
    leaf, data, words = value
    if len(data) <= _MAX_VALUE:
        yield data
    if data.isalnum():
        return
    is_command = sink_from_argument(leaf.argument) == "command"
    if is_command:
        yield from (segment for segment in _SEGMENT_ENDS.split(data) if 0 < len(segment) <= _MAX_VALUE)
    # Numbers and dates in what a person is told are content, and no target.
    is_message = len(words) > _FEW_WORDS and _last_word(leaf.argument) in _MESSAGE_WORDS
    is_prose = not is_command and (is_message or len(data) > MAX_LINE)
    if is_prose and not _is_address_chunk(data):
        return
    for chunk in data.translate(_CHUNKS).split():
        # In a long text only addresses tell: code and prose share names with everything they were read from.
        if len(chunk) > 3 and (not is_prose or _is_address_chunk(chunk)):
            # What is carried out can be as long as it likes; where it goes stands at the front.
            yield from _split_chunk(chunk[:_MAX_VALUE].strip(b".:!?*_~-#$"), is_command=is_command)


def _split_chunk(chunk: bytes, *, is_command: bool) -> Iterator[bytes]:
    """Yield a chunk that is no plain word, and the parts of it that stay when data is put into it."""
    if chunk.isalpha():
        return
    yield chunk
    if b"/" in chunk and b"/." in chunk:
        yield normpath(chunk)
    if not (b"." in chunk or b":" in chunk or b"=" in chunk):
        return
    _, scheme, rest = chunk.partition(b"://")
    rest = rest if scheme else chunk.removeprefix(b"//")
    path, _, query = rest.partition(b"?")
    if b":" in path and not scheme and b"/" not in path:
        yield path.rpartition(b":")[2]
    values = query.replace(b"&", b"=").split(b"=")
    yield from (value for value in values if len(value) > 3 and not value.isalpha())
    yield from () if query else path.split(b"=", 1)[1:]
    yield from _split_address(chunk, rest, path, is_command=is_command)


def _is_address_chunk(chunk: bytes) -> bool:
    if b"@" in chunk or b"://" in chunk or b"www." in chunk:
        return True
    endings = _BARE_ADDRESS.findall(chunk) if b"/" in chunk else ()
    return any(ending.decode() in TOP_LEVEL_DOMAINS for ending in endings)


def _split_address(chunk: bytes, rest: bytes, path: bytes, *, is_command: bool) -> Iterator[bytes]:
    """Yield the host of an address, its domain, and all of it without its query and without its scheme."""
    host = path.partition(b"/")[0]
    if b"." not in host:
        # `file:///etc/hosts` is what others write without its head.
        yield from () if host else (path,)
        return
    user, at, place = host.rpartition(b"@")
    if at and host == chunk and not is_command:
        # A mailbox: all colleagues share its domain, but `eve+x` is `eve`.
        yield from (user.partition(b"+")[0] + at + place,) if b"+" in user else ()
        return
    # Whichever user logs in there, it is the same place: `me@host:/tmp`, `https://notes@host/`.
    host = place.partition(b":")[0]
    if HOST.fullmatch(host):
        yield from () if is_shared(domain_of(host)) else (host, domain_of(host))
        yield from (rest, path)
