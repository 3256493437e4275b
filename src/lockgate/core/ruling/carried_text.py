"""What agents carry from one session into another: text that they wrote from untrusted text.

A page that was read today is in the agent's notes tomorrow, and notes are believed. So what an agent writes is compared
with the untrusted text of its session, and what it has from there is remembered by hashes: of passages, word by word,
and of addresses and names. A later session knows such a text again, whatever file, ticket or store it comes from.

Reading something is not enough: a file counts only for what it shares with a text from outside. The files of the
project itself are no such text, unless one of them speaks to an agent.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from enum import IntEnum
from hashlib import sha256
from itertools import islice
from typing import NamedTuple
from zlib import adler32, crc32

from lockgate.core.errors import printable
from lockgate.core.ruling.arguments import Leaf
from lockgate.core.ruling.context import CarriedFrom, Context
from lockgate.core.ruling.effects.addresses import is_local_host
from lockgate.core.ruling.effects.project import is_shared_host, normalize_path
from lockgate.core.ruling.value_pieces import find_candidates, prepare_values
from lockgate.core.ruling.word_index import IndexedReading, ValuePlacesCache
from lockgate.core.ruling.work_budget import WorkBudget
from lockgate.core.text.imperatives import prepare, split_words
from lockgate.core.text.scanner import Scanner
from lockgate.core.vocabulary import Effect

# Effects that leave a text where an agent may read it again; the target of the first ones is a file.
_FILE_KINDS = frozenset(
    "changes-agent-file changes-pipeline edits-project installs-hook writes-outside writes-scratch "
    "writes-startup-file".split()
)
_KEEPING_KINDS = _FILE_KINDS | frozenset(
    "adds-dependency changes-own-note changes-record commits computes embeds-address embeds-remote-code "
    "instructs-agent publishes publishes-link runs-program schedules-job sends-data sends-message shares "
    "shows-remote-content unknown-act unreadable weakens-setting".split()
)
# So many words in a row are a passage. It is remembered in shingles of six words, each from a long word on, which is
# kept with it: a later text is hashed only at words that are kept, and most texts have none of them.
_RUN, _SHINGLE, _LONG_WORD = 7, 6, 7
# What is looked at and remembered of one text.
_MAX_TEXT, MAX_PRINTS_OF_ONE, _MAX_VALUES, _MAX_LOOKED_UP = 128 * 1024, 256, 256, 50_000
_SHORTEST_VALUE, _SHORTEST_ACCOUNT = 6, 12
# What each byte becomes when addresses and names are read: what stands in none of them is a space.
_VALUE_BYTES = bytes(byte if byte > 127 or chr(byte).isalnum() or chr(byte) in "@./_+~-" else 32 for byte in range(256))
_SECRET_PARTS = re.compile(r"[?#].*|(?<=://)[^/@\s]*@", re.DOTALL)


class PrintKind(IntEnum):
    """What a print is the hash of. In an order: a sentence of the untrusted text told its reader to do something."""

    PASSAGE = 0
    ADDRESS = 1
    ORDERED_ADDRESS = 2
    ORDERED_NAME = 3


class Print(NamedTuple):
    """What is remembered of one shingle or value: its hash, what it is, and the word by which it is looked for."""

    hash: int
    kind: PrintKind
    word: bytes


class DerivedText(NamedTuple):
    """What one call wrote from untrusted text: its prints, the worst source, and the file it was written to.

    `origin` tells that source from others of the same name, such as two results of one tool. `session` wrote it.
    """

    prints: tuple[Print, ...]
    source: str
    origin: str
    path: str = ""
    session: str = ""

    @property
    def digest(self) -> str:
        """A name for it: the same text written again is the same."""
        told = f"{self.origin}\0{self.path}\0{sorted(each.hash for each in self.prints)}"
        return sha256(told.encode("utf-8", "surrogatepass")).hexdigest()[:32]


class CarriedHit(NamedTuple):
    """A remembered text that shares prints with a block: when it was last seen, and which kinds of prints."""

    source: str
    origin: str
    path: str
    session: str
    at_s: float
    shared: Collection[PrintKind]


def origin_of(source: str, asked: str) -> str:
    """Return the name of a text's place: of its source and of what its call was given."""
    return sha256(f"{source}\0{asked}".encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _shingles(words: Sequence[bytes]) -> Iterator[Print]:
    for at in range(len(words) - _SHINGLE + 1):
        if len(words[at]) >= _LONG_WORD:
            yield Print(_hash_at(words, at), PrintKind.PASSAGE, words[at])


def _hash_at(words: Sequence[bytes], at: int) -> int:
    return _hash(b" ".join(words[at : at + _SHINGLE]))


def _hash(data: bytes) -> int:
    """Return a number that is the same on every machine, and that a database can hold.

    Not a cryptographic one, which takes five times as long: who makes two texts equal makes his own untrusted.
    """
    return crc32(data) << 31 ^ adler32(data)


def hashes_to_look_up(context: Context, content: str, words: frozenset[bytes]) -> list[int]:
    """Return the hashes of a text that may be remembered, in all its readings; `words` are those that are kept."""
    found: dict[int, None] = {}
    for index in context.analyse(content)[1]:
        shared = words.intersection(index.words)
        if not shared:
            continue
        listed = split_words(index.prepared)
        found.update((_hash_at(listed, at), None) for at, word in enumerate(listed) if word in shared)
        found.update((_hash(value), None) for value in _find_values(index.prepared))
        if len(found) > _MAX_LOOKED_UP:
            break
    return list(found)[:_MAX_LOOKED_UP]


def weigh_hits(hits: Iterable[CarriedHit], *, source: str, asked: str, session: str) -> CarriedFrom | None:
    """Return where a block's words come from, by what it shares with remembered texts; None where that tells nothing.

    A text that is read again where it was read first, or in the session that wrote it, is not carried. An address alone
    says little, since many texts name one. It says enough if an order named it, or if the file is the one written.
    """
    origin, places = origin_of(source, asked), [source.partition(":")[2], *asked.split()]
    found: list[CarriedFrom] = []
    for hit in hits:
        shared = hit.shared
        is_same_file = bool(hit.path) and any(_is_same_path(hit.path, place) for place in places)
        is_passage = PrintKind.PASSAGE in shared
        is_ordered = PrintKind.ORDERED_ADDRESS in shared or (is_same_file and PrintKind.ORDERED_NAME in shared)
        is_known = is_passage or is_ordered or PrintKind.ADDRESS in shared or PrintKind.ORDERED_NAME in shared
        if is_known and hit.origin != origin and hit.session != session:
            is_firm = is_passage or is_ordered or is_same_file
            found.append(CarriedFrom(hit.source, hit.at_s, is_firm=is_firm, is_ordered=is_ordered))
    return max(found, key=lambda each: (each.is_ordered, each.is_firm, each.at_s), default=None)


def _is_same_path(one: str, other: str) -> bool:
    short, long = sorted((one.strip("'\""), other.strip("'\"")), key=len)
    return bool(short) and f"/{long}".endswith(f"/{short.removeprefix('./').lstrip('/')}")


def find_derived(
    context: Context, leaves: Sequence[Leaf], effects: Sequence[Effect], scanner: Scanner
) -> DerivedText | None:
    """Return what a call that writes or tells something has from untrusted text; None for every other call."""
    kept = [found for found in effects if found.kind in _KEEPING_KINDS]
    if not kept or not context.readings or not (foreign := context.find_foreign()):
        return None
    path = next((found.target for found in kept if found.kind in _FILE_KINDS and found.target), "")
    # Who gets a message is not what was written in it: such an address would make every calendar suspicious.
    search = _DerivationSearch(context, foreign, {found.target.lower().encode("utf-8", "ignore") for found in effects})
    search.look_through("\n".join(leaf.text for leaf in leaves)[:_MAX_TEXT], scanner)
    return search.conclude(normalize_path(path)[:1000] if path else "")


def find_derived_note(context: Context, content: str, scanner: Scanner) -> DerivedText | None:
    """Return what an agent's own words have from untrusted text: its host may show them to a later session."""
    if not context.readings or not (foreign := context.find_foreign()):
        return None
    search = _DerivationSearch(context, foreign)
    search.look_through(content[:_MAX_TEXT], scanner)
    return search.conclude("")


class _DerivationSearch:
    """Looks for what one text shares with the untrusted texts of its session."""

    def __init__(self, context: Context, foreign: Sequence[IndexedReading], targets: Collection[bytes] = ()) -> None:
        self._context = context
        self._targets = targets
        self._foreign = foreign
        self._prints: dict[int, Print] = {}
        # By block, how much was found in it.
        self._weights: dict[str, int] = {}
        self._latest: IndexedReading = foreign[-1]
        self._budget = WorkBudget(0)

    def look_through(self, text: str, scanner: Scanner) -> None:
        """Compare a text, in all its readings."""
        self._budget = WorkBudget(4 * len(text))
        for part in scanner.scan(text).parts:
            prepared = prepare(part.data)
            words = split_words(prepared)
            self._look_for_values(prepared)
            self._look_for_passages(words)
            if self._budget.is_spent:
                # What was not compared may be from there.
                self._add(islice(_shingles(words), MAX_PRINTS_OF_ONE))
                self._weights.setdefault(self._latest.block, 0)

    def conclude(self, path: str) -> DerivedText | None:
        """Return what was found; the worst source is one that speaks to an agent, else the one with most of it."""
        if not self._prints:
            return None
        alarming = self._context.alarming_blocks()
        block = max(self._weights, key=lambda each: (each in alarming, self._weights[each]))
        source = self._context.blocks[self._context.positions[block]].source
        kept = sorted(self._prints.values(), key=lambda each: (each.kind is PrintKind.PASSAGE, each.hash))[
            :MAX_PRINTS_OF_ONE
        ]
        shown = printable(_SECRET_PARTS.sub("", source), 200)
        origin = origin_of(source, self._context.produced_by.get(block, ""))
        return DerivedText(tuple(kept[:MAX_PRINTS_OF_ONE]), shown, origin, path)

    def _note(self, reading: IndexedReading, weight: int) -> None:
        self._weights[reading.block] = self._weights.get(reading.block, 0) + weight
        self._latest = reading

    def _add(self, prints: Iterable[Print]) -> None:
        self._prints.update((each.hash, each) for each in prints)

    def _look_for_passages(self, words: Sequence[bytes]) -> None:
        known, at, last = self._context.untrusted_words, 0, len(words) - _RUN
        while at <= last and not self._budget.is_spent:
            run = words[at : at + _RUN]
            unknown = next((place for place in range(_RUN - 1, -1, -1) if run[place] not in known), -1)
            if unknown >= 0:
                at += unknown + 1
                continue
            at += 1
            reading = self._find_reading(run)
            if reading is not None:
                self._note(reading, 1)
                self._add(_shingles(run))

    def _find_reading(self, run: Sequence[bytes]) -> IndexedReading | None:
        """Return the untrusted text in which these words stand in a row, unless the user says them as well."""
        needle, longest = b" %b " % b" ".join(run), max(run, key=len)
        self._budget.take()
        for reading in (self._latest, *self._foreign):
            # The longest word first: most texts do not have it.
            if longest in reading.words and all(word in reading.words for word in run):
                text = reading.word_index.folded
                if self._budget.take_pass(len(text)) and needle in text:
                    return None if needle in self._context.trusted_text.folded else reading
        return None

    def _look_for_values(self, prepared: bytes) -> None:
        for value, is_address in islice(_find_values(prepared).items(), _MAX_VALUES):
            words = split_words(value)
            if not self._context.untrusted_words.issuperset(words) or self._is_no_news(value):
                continue
            holding = [
                reading
                for reading in self._foreign
                if all(word in reading.words for word in words)
                and self._budget.take_pass(len(reading.word_index.prepared))
                and value in reading.word_index.prepared
            ]
            if not holding:
                continue
            is_ordered = self._is_ordered(value, holding)
            if is_ordered:
                kind = PrintKind.ORDERED_ADDRESS if is_address else PrintKind.ORDERED_NAME
            elif is_address and not value.isalnum():
                kind = PrintKind.ADDRESS
            else:
                continue
            self._note(holding[0], _RUN if is_ordered else 1)
            self._add([Print(_hash(value), kind, max(words, key=len))])

    def _is_no_news(self, value: bytes) -> bool:
        """Return whether the user or the project names it, or it says nothing about who is reached."""
        name = value.decode("utf-8", "replace")
        host = name.rpartition("@")[2]
        project = self._context.project
        return (
            value in self._targets
            or is_local_host(host)
            or (host == name and is_shared_host(host))
            or project.has_host(host)
            or project.has_package(name)
            or self._context.trusted_text.contains_address(value, self._budget)
        )

    def _is_ordered(self, value: bytes, holding: Sequence[IndexedReading]) -> bool:
        leaf = Leaf("value", value.decode("utf-8", "replace"))
        candidates, _ = find_candidates(prepare_values("", [leaf]), self._context.untrusted_words)
        places = ValuePlacesCache()
        return any(
            is_inside
            for candidate in candidates
            if candidate.piece == value
            for held in places.find_places(candidate, holding, self._budget)
            for _, is_inside in held.find_orders(candidate, self._budget)
        )


def _find_values(prepared: bytes) -> dict[bytes, bool]:
    """Return the addresses and names of a text, each with whether it is a mailbox, the host of a URL or an account."""
    found: dict[bytes, bool] = {}
    for token in dict.fromkeys(prepared.translate(_VALUE_BYTES).split()):
        if len(token) < _SHORTEST_VALUE or token.isalpha():
            continue
        # Of `https://docs.kit.example/a` this is what stands behind the colon.
        is_url = token.startswith(b"//")
        value = token[2:].partition(b"/")[0].rpartition(b"@")[2] if is_url else token.strip(b"@./_+~-")
        is_account = value.isalnum() and len(value) >= _SHORTEST_ACCOUNT and not value.isalpha()
        is_address = is_url or b"@" in value or is_account
        if len(value) >= _SHORTEST_VALUE and (is_address or not value.isalnum()):
            found.setdefault(value, is_address)
    return found
