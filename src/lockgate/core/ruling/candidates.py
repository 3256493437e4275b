"""The pieces of a call's values that are looked for in untrusted text, folded as that is.

A value is looked for as a whole, and so are the addresses in it; of one address also its host and its domain. All of
it is folded: lower case, no punctuation, quoting or wrapping.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from lockgate.core.ruling.arguments import Leaf, argument_words, sink_from_argument
from lockgate.core.ruling.targets import BYTE_PATTERNS as _B
from lockgate.core.ruling.targets import PATTERNS as _P
from lockgate.core.ruling.targets import domain_of, host_from_value, is_shared
from lockgate.core.tables import read_sections
from lockgate.core.text.imperatives import prepare, split_words

# A text longer than any address, name or command: nothing repeats it as a whole.
MAX_VALUE = 400
STOP_WORDS = frozenset(" ".join(read_sections(__package__, "common_values.txt")["stop words"]).encode().split())
_MAX_ADDRESSES, _MAX_GROUPED = 64, 48
_PLACES_ON_PAGE = frozenset({"selector", "xpath", "locator", "ref"})


class Candidate(NamedTuple):
    """A piece of a leaf that is worth looking for.

    `needle` is all its words; with blanks around them, unless they may be a part of what looks like a word.
    `is_grouped_number` marks a long number, which people write with or without gaps: it is looked for without any.
    """

    leaf: Leaf
    piece: bytes
    words: Sequence[bytes]
    needle: bytes
    is_number: bool = False
    is_plain_word: bool = False
    is_grouped_number: bool = False

    @property
    def is_distinctive(self) -> bool:
        """Whether it is hardly in a text by chance."""
        return not self.is_number and not self.is_plain_word

    @property
    def is_address(self) -> bool:
        """Whether it is a mailbox or an address with its scheme."""
        return bool(_B["address start"].match(self.piece))

    def is_in(self, folded: bytes) -> bool:
        """Return whether a folded text holds the piece."""
        return self.needle in (folded.replace(b" ", b"") if self.is_grouped_number else folded)


def find_candidates(leaf: Leaf, known: set[bytes]) -> list[Candidate]:
    """Return what to look for of a value, the whole of it first; `known` are the words of the untrusted texts.

    A piece with a word that no untrusted text contains came from none of them, which rules most pieces out.
    """
    # A page has to name its own parts: where on it something is done tells nothing.
    if not _PLACES_ON_PAGE.isdisjoint(argument_words(leaf.argument)[-1:]):
        return []
    candidates: dict[bytes, Candidate] = {}
    for piece in dict.fromkeys(_pieces_of(leaf)):
        words = split_words(piece)
        # In a script without spaces a value is a part of what looks like a word.
        is_part = not piece.isascii() and _B["unspaced"].search(piece) is not None
        if known.issuperset([word for word in words if word.isascii() or not is_part]):
            candidate = _candidate_from_piece(leaf, piece, words, is_part=is_part)
        elif len(piece) < _MAX_GROUPED and _B["grouped"].search(piece):
            # A long number, which untrusted text may write with other gaps.
            candidate = Candidate(leaf, piece, words, b"".join(words), is_grouped_number=True)
        else:
            continue
        if candidate is not None:
            candidates.setdefault(candidate.needle, candidate)
    return list(candidates.values())


def _pieces_of(leaf: Leaf) -> Iterator[bytes]:
    """Yield a value, and the addresses in it: of each all without its query, its host and its domain."""
    text = leaf.text
    has_mailbox = "@" in text
    if len(text) <= MAX_VALUE:
        yield (whole := prepare(text.encode("utf-8", "ignore")))
        # What stands before the first comma of a list: `/tmp/stage,-x`.
        if b"," in whole:
            yield whole.partition(b",")[0]
        # `eve+x` is `eve`.
        if has_mailbox:
            yield re.sub(rb"\+[^@\s]{1,64}@", b"@", whole)
    # Most prose has none of these, and the pattern tries every letter of it.
    may_have_address = has_mailbox or "/" in text or "www." in text.lower()
    for match in islice(_P["address in text"].finditer(text if may_have_address else ""), _MAX_ADDRESSES):
        yield prepare(match[0].rstrip(".:!?").encode("utf-8", "ignore"))
    # All colleagues share the domain of a mailbox.
    if "." in text and not has_mailbox and len(text) <= MAX_VALUE:
        host = host_from_value(text).encode("utf-8", "ignore")
        if _B["host"].fullmatch(host) and not is_shared(domain := domain_of(host)):
            yield from (host, domain)


def _candidate_from_piece(leaf: Leaf, piece: bytes, words: list[bytes], *, is_part: bool) -> Candidate | None:
    """Return a piece as a candidate, unless it is made of words that stand in every text."""
    if not words:
        return None
    needle = b" ".join(words)
    is_short = len(needle) < 10 and len(needle) - len(words) < 5
    has_digit = any(not word.isalpha() and _B["has digit"].search(word) for word in words)
    is_number = is_short and has_digit and _B["number"].match(piece) is not None
    is_plain = (len(words) == 1 and _is_letters_only(leaf, piece)) or _B["date"].match(piece) is not None
    # A number counts at any length; a word needs some.
    if not is_number and (len(needle) < 3 or STOP_WORDS.issuperset(words)):
        return None
    return Candidate(leaf, piece, words, needle if is_part else b" %b " % needle, is_number, is_plain)


def _is_letters_only(leaf: Leaf, piece: bytes) -> bool:
    """Return whether a piece is one word of letters; beyond ASCII, in a script that puts blanks between words.

    There, one that says where the call goes stays telling: a plain word counts only beside the tool's English verb,
    which an order in such a language does not have.
    """
    if piece.isascii():
        return piece.isalpha()
    is_spaced = _P["spaced word"].fullmatch(piece.decode("utf-8", "replace")) is not None
    return is_spaced and not sink_from_argument(leaf.argument)
