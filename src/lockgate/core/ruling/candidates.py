"""The pieces of a call's values that are looked for in untrusted text, folded as that is.

A value is looked for as a whole, and so are the addresses in it; of one address also its host and its domain. All of
it is folded: lower case, no punctuation, quoting or wrapping.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from lockgate.core.ruling.arguments import Leaf, argument_words, sink_from_argument
from lockgate.core.ruling.targets import BYTE_PATTERNS as _B
from lockgate.core.ruling.targets import PATTERNS as _P
from lockgate.core.ruling.targets import domain_of, host_from_value, is_shared
from lockgate.core.tables import read_sections
from lockgate.core.text.imperatives import WORD_BYTES, prepare

# A text longer than any address, name or command: nothing repeats it as a whole.
MAX_VALUE = 400
STOP_WORDS = frozenset(" ".join(read_sections(__package__, "common_values.txt")["stop words"]).encode().split())
_MAX_GROUPED = 48
HOST = re.compile(rb"(?:[a-z0-9-]{1,63}\.){1,8}[a-z]{2,24}")
_MAX_ADDRESSES = 64
_PLACES_ON_PAGE = frozenset({"selector", "xpath", "locator", "ref"})


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


def find_candidates(leaf: Leaf, untrusted_words: Collection[bytes]) -> list[Candidate]:
    """Return what to look for of a value, the whole of it first.

    A piece with a word that no untrusted text contains came from none of them, which rules most pieces out.
    """
    # A page has to name its own parts: where on it something is done tells nothing.
    if not _PLACES_ON_PAGE.isdisjoint(argument_words(leaf.argument)[-1:]):
        return []
    candidates: dict[bytes, Candidate] = {}
    for piece in dict.fromkeys(_pieces_of(leaf)):
        words = piece.translate(WORD_BYTES).split()
        unseen = [word for word in words if word not in untrusted_words]
        # In a script without spaces a value is a part of what looks like a word.
        if not unseen or not any(word.isascii() for word in unseen):
            candidate = _candidate_from_piece(leaf, piece, words)
        elif len(piece) < _MAX_GROUPED and _B["grouped"].search(piece):
            # A long number, which untrusted text may write with other gaps.
            compact = b"".join(words)
            candidate = Candidate(leaf, piece, words, compact, compact, is_grouped_number=True)
        else:
            continue
        if candidate is not None:
            candidates.setdefault(candidate.needle, candidate)
    return list(candidates.values())


def _pieces_of(leaf: Leaf) -> Iterator[bytes]:
    """Yield a value, and the addresses in it: of each all without its query, its host and its domain."""
    if len(leaf.text) <= MAX_VALUE:
        yield (whole := prepare(leaf.text.encode("utf-8", "ignore")))
        # What stands before the first comma of a list: `/tmp/stage,-x`.
        yield whole.partition(b",")[0]
        # `eve+x` is `eve`.
        yield re.sub(rb"\+[^@\s]{1,64}@", b"@", whole)
    # Most prose has none of these, and the pattern tries every letter of it.
    may_have_address = "/" in leaf.text or "@" in leaf.text or "www." in leaf.text.lower()
    for match in islice(_P["address in text"].finditer(leaf.text if may_have_address else ""), _MAX_ADDRESSES):
        yield prepare(match[0].rstrip(".:!?").encode("utf-8", "ignore"))
    # All colleagues share the domain of a mailbox.
    host = "" if "@" in leaf.text or len(leaf.text) > MAX_VALUE else host_from_value(leaf.text)
    if HOST.fullmatch(folded := host.encode("utf-8", "ignore")) and not is_shared(domain := domain_of(folded)):
        yield from (folded, domain)


def _candidate_from_piece(leaf: Leaf, piece: bytes, words: list[bytes]) -> Candidate | None:
    """Return a piece as a candidate, unless it is made of words that stand in every text."""
    if not words:
        return None
    needle = b" %b " % b" ".join(words)
    with_digit = [word for word in words if not word.isalpha() and _B["has digit"].search(word)]
    # The blanks are one more than the words.
    is_short = len(needle) < 12 and len(needle) - len(words) < 7
    is_number = bool(with_digit) and is_short and _B["number"].match(piece) is not None
    is_plain = (len(words) == 1 and _is_letters_only(piece, leaf.argument)) or _B["date"].match(piece) is not None
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
    is_spaced = _P["spaced word"].fullmatch(piece.decode("utf-8", "replace")) is not None
    return is_spaced and not sink_from_argument(argument)
