"""What agents carry from one session into another: text that they wrote from untrusted text.

A page that was read today is in the agent's notes tomorrow, and notes are believed. So what an agent writes is compared
with the untrusted text of its session, and what it has from there is remembered by hashes: of passages, word by word,
and of addresses and names. A later session knows such a text again, whatever file, ticket or store it comes from.

Reading something is not enough: a file counts only for what it shares with a text from outside. The files of the
project itself are no such text, unless one of them speaks to an agent.

A file can also be remembered whole, by a mark: one that a command downloaded, and one of whose text not all was kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from enum import IntEnum
from hashlib import sha256
from heapq import nsmallest
from typing import NamedTuple
from zlib import adler32, crc32

from lockgate.core.errors import printable
from lockgate.core.ruling.arguments import Leaf
from lockgate.core.ruling.context import CarriedFrom, Context
from lockgate.core.ruling.effects.activity import WRITES, Change
from lockgate.core.ruling.effects.programs.loaded_files import LOADS, acts_when_run
from lockgate.core.ruling.effects.project import is_shared_host, normalize_path
from lockgate.core.ruling.index import STOP_WORDS, Candidate, IndexedReading, Places
from lockgate.core.ruling.provenance import GROUPS
from lockgate.core.ruling.targets import PATTERNS as _P
from lockgate.core.ruling.targets import is_local_host
from lockgate.core.ruling.work_budget import WorkBudget
from lockgate.core.text.imperatives import fold_words, prepare, split_words
from lockgate.core.text.scanner import Scanner
from lockgate.core.vocabulary import Effect, Severity

# So many words in a row are a passage. It is remembered in shingles of six words, each from a long word on, which is
# kept with it: a later text is hashed only at words that are kept, and most texts have none of them.
_RUN, _SHINGLE, _LONG_WORD = 7, 6, 7
# What is compared and remembered of one text. Of more prints those with the smallest hashes are kept: a sample of the
# whole text, which no filler at its head can push out.
MAX_PRINTS_OF_ONE, _MAX_VALUES, _MAX_LOOKED_UP, _MAX_PLACES = 256, 256, 50_000, 64
_SHORTEST_VALUE, _SHORTEST_ACCOUNT = 6, 12
# What each byte becomes when addresses and names are read: what stands in none of them is a space.
_VALUE_BYTES = bytes(byte if byte > 127 or chr(byte).isalnum() or chr(byte) in "@./_+~-" else 32 for byte in range(256))


class FingerprintKind(IntEnum):
    """What a print is the hash of. In an order: a sentence of the untrusted text told its reader to do something.

    FILE is the mark of a whole file or folder, by its name; ORDERED_FILE of one that has repeated an order.
    """

    PASSAGE = 0
    ADDRESS = 1
    ORDERED_ADDRESS = 2
    ORDERED_NAME = 3
    FILE = 4
    ORDERED_FILE = 5


_FILE_MARKS = frozenset({FingerprintKind.FILE, FingerprintKind.ORDERED_FILE})
ORDERED_KINDS = frozenset({FingerprintKind.ORDERED_ADDRESS, FingerprintKind.ORDERED_NAME, FingerprintKind.ORDERED_FILE})


class Fingerprint(NamedTuple):
    """What is remembered of one shingle or value: its hash, what it is, and the word by which it is looked for."""

    hash: int
    kind: FingerprintKind
    word: bytes


class DerivedText(NamedTuple):
    """What one call wrote from untrusted text: its prints, the worst source, and the file it was written to.

    `origin` tells that source from others of the same name, such as two results of one tool. `session` wrote it.
    """

    prints: tuple[Fingerprint, ...]
    source: str
    origin: str
    path: str = ""
    session: str = ""

    @property
    def is_mark(self) -> bool:
        """Whether it is a file that is untrusted whole, of whose text nothing is kept."""
        return not self.origin

    @property
    def digest(self) -> str:
        """A name for it: the same text written again is the same."""
        text = f"{self.origin}\0{self.path}\0{sorted(item.hash for item in self.prints)}"
        return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


class CarriedHit(NamedTuple):
    """A remembered text that shares prints with a block: when it was last seen, and which kinds of prints."""

    source: str
    origin: str
    path: str
    session: str
    at_s: float
    shared: AbstractSet[FingerprintKind]


def origin_of(source: str, asked: str) -> str:
    """Return the name of a text's place: of its source and of what its call was given."""
    return sha256(f"{source}\0{asked}".encode("utf-8", "surrogatepass")).hexdigest()[:16]


def mark_file(path: str, source: str, *, is_ordered: bool = False) -> DerivedText:
    """Return the mark of a file or folder that is untrusted whole.

    An empty path stands for every note of an agent, `/` for every file.
    """
    return DerivedText((_file_print(path, is_ordered=is_ordered),), source, "", path)


def mark_acting_files(context: Context, changes: Sequence[Change]) -> list[DerivedText]:
    """Return marks of the files that a call writes which do more than work here when they are run or loaded.

    It counts where untrusted text was read: a later session has not read it, and runs what it made of the file.
    """
    foreign = context.find_foreign() if changes else ()
    if not foreign:
        return []
    suspect = context.alarming_blocks()
    source = _show_source(next((reading.source for reading in foreign if reading.block in suspect), foreign[-1].source))
    activity, marks = context.activity.after((), changes), []
    for path in dict.fromkeys(change.path for change in changes):
        content = activity.find(path)
        if content is not None and acts_when_run(path, content, context.project):
            marks.append(mark_file(path, source))
    return marks


def _show_source(source: str) -> str:
    return printable(_P["secret parts"].sub("", source), 200)


def find_carried_files(hits: Iterable[CarriedHit]) -> dict[str, CarriedHit]:
    """Return the files that are marked each by itself, by their paths."""
    return {hit.path: hit for hit in hits if hit.path.strip("/") and not hit.shared.isdisjoint(_FILE_MARKS)}


def list_loaded(asked: str) -> list[str]:
    """Return the files that the programs in a command load without being told."""
    names = (word.rpartition("/")[2] for word in _P["words of call"].findall(asked)[:_MAX_PLACES])
    return [file for name in names for file in LOADS.get(name, ((),))[0]]


def _file_print(path: str, *, is_ordered: bool = False) -> Fingerprint:
    # No word of a text begins with this byte.
    name = b"\0" + path.lower().rpartition("/")[2].encode("utf-8", "replace")
    return Fingerprint(_hash(name), FingerprintKind.ORDERED_FILE if is_ordered else FingerprintKind.FILE, name)


def list_places(source: str, asked: str, folder: str = "") -> list[str]:
    """Return where a text may lie, by its source and what its call was given; an empty one for an agent's own words.

    `folder` is what relative paths start from.
    """
    speaker, _, place = source.partition(":")
    names = (name.replace("\\", "/") for name in (place, *_P["words of call"].findall(asked)[:_MAX_PLACES]))
    return [*(_full_path(name, folder) for name in names if name), *([""] if speaker == "agent" else [])]


def _full_path(path: str, folder: str) -> str:
    is_relative = bool(folder) and not path.startswith(("/", "~"))
    return normalize_path(f"{folder}/{path}" if is_relative else path)[:1000]


def _shingles(words: Sequence[bytes], kept: Container[bytes] | None = None) -> Iterator[Fingerprint]:
    """Yield the shingles of a text: those at its long words, or at those that are kept."""
    for start, word in enumerate(words if kept is not None else words[: 1 - _SHINGLE]):
        if word in kept if kept is not None else len(word) >= _LONG_WORD:
            yield Fingerprint(_hash(b" ".join(words[start : start + _SHINGLE])), FingerprintKind.PASSAGE, word)


def _hash(data: bytes) -> int:
    """Return a number that is the same on every machine, and that a database can hold.

    Not a cryptographic one, which takes five times as long: who makes two texts equal makes his own untrusted.
    """
    return crc32(data) << 31 ^ adler32(data)


def hashes_of_marks(places: Sequence[str], words: set[bytes] | frozenset[bytes]) -> list[int]:
    """Return the hashes of marks that may be on one of these places, or on a folder above it."""
    # Without a name: the mark on all notes, and the one on all files.
    names = {"", *(part for place in places for part in place.lower().split("/"))}
    return [mark.hash for mark in map(_file_print, sorted(names)) if mark.word in words]


def find_marked_source(hits: Iterable[CarriedHit], places: Sequence[str]) -> str:
    """Return where a marked file came from that lies at one of these places; nothing where none does."""
    marked = [hit for hit in hits if hit.path and not hit.shared.isdisjoint(_FILE_MARKS)]
    return next((hit.source for hit in marked if any(_lies_in(place, hit.path) for place in places)), "")


def hashes_to_look_up(
    context: Context, content: str, words: set[bytes] | frozenset[bytes], places: Sequence[str] = ()
) -> list[int]:
    """Return the hashes of a text that may be remembered, in all its readings, and of the files it may lie in.

    `words` are those that are kept. Of too many hashes the smallest are looked up, as the smallest are kept.
    """
    hashes = dict.fromkeys(hashes_of_marks(places, words))
    passages: set[int] = set()
    for index in context.analyse(content)[1]:
        if shared := words.intersection(index.words):
            passages.update(each.hash for each in _shingles(split_words(index.prepared), shared))
            hashes.update((_hash(value), None) for value in _find_values(index.prepared))
    return [*hashes, *sorted(passages)][:_MAX_LOOKED_UP]


def weigh_hits(
    hits: Iterable[CarriedHit], *, source: str, asked: str, session: str, folder: str = ""
) -> CarriedFrom | None:
    """Return where a block's words come from, by what it shares with remembered texts; None where that tells nothing.

    A text that is read again where it was read first, or in the session that wrote it, is not carried. An address alone
    says little, since many texts name one. It says enough if an order named it, or if the file is the one written.
    """
    origin, places = origin_of(source, asked), list_places(source, asked, folder)
    weighed = (_weigh(hit, places) for hit in hits if hit.origin != origin and hit.session != session)
    carried = filter(None, weighed)
    return max(carried, key=lambda text: (text.is_ordered, text.is_firm, text.at_s), default=None)


def _weigh(hit: CarriedHit, places: Sequence[str]) -> CarriedFrom | None:
    shared, is_there = hit.shared, any(_lies_in(place, hit.path) for place in places)
    is_same_file, is_marked = bool(hit.path) and is_there, is_there and not shared.isdisjoint(_FILE_MARKS)
    if not (is_marked or shared - _FILE_MARKS):
        return None
    kinds = {FingerprintKind.ORDERED_ADDRESS}
    kinds |= {FingerprintKind.ORDERED_NAME} if is_same_file else set()
    kinds |= {FingerprintKind.ORDERED_FILE} if is_marked else set()
    is_ordered = not shared.isdisjoint(kinds)
    is_firm = FingerprintKind.PASSAGE in shared or is_ordered or is_same_file or (is_marked and bool(hit.path))
    return CarriedFrom(hit.source, hit.at_s, is_firm=is_firm, is_ordered=is_ordered)


def _lies_in(place: str, path: str) -> bool:
    """Return whether a place is a marked file or lies below a marked folder."""
    if not place or not path:
        return place == path
    if path == "/":
        return True
    place, path = place.lower(), path.lower()
    if place.startswith("/") and path.startswith("/"):
        return f"{place}/".startswith(f"{path}/")
    # One of the two is relative to a folder that was not known.
    return f"/{path}/" in f"/{place}/" or f"{path}/".endswith(f"/{place}/")


def find_derived(
    context: Context,
    leaves: Sequence[Leaf],
    effects: Sequence[Effect],
    scanner: Scanner,
    *,
    folder: str = "",
    copied_from: str = "",
) -> list[DerivedText]:
    """Return what a call that writes or tells something has from untrusted text; nothing for every other call.

    A file that it downloads is untrusted whole, and what it writes if it names such a file, which then is from
    `copied_from`. `folder` is what relative paths start from.
    """
    text = "\n".join(leaf.text for leaf in leaves)
    written = _targets_of(effects, WRITES)
    saved = written if copied_from else []
    # What a filter has rewritten is called a download as well.
    if copied_from or "://" in text or any(effect.severity >= Severity.REACHES_OUT for effect in effects):
        saved = _targets_of(effects, {"downloads-file"}) + saved
    host = "".join(_targets_of(effects, {"requests"})[:1])
    source = copied_from or printable(f"web:{host}" if host else "download", 200)
    marks = [mark_file(_full_path(path, folder), source) for path in dict.fromkeys(saved)]
    if all(effect.kind not in WRITES | GROUPS["keeping"] for effect in effects):
        return marks
    # Who gets a message is not what was written in it: such an address would make every calendar suspicious.
    receivers = {effect.target.lower().encode("utf-8", "ignore") for effect in effects}
    derived = find_derived_note(context, text, scanner, receivers, _full_path(written[0], folder) if written else "")
    return marks if derived is None else [*marks, derived]


def _targets_of(effects: Sequence[Effect], kinds: AbstractSet[str]) -> list[str]:
    return [effect.target for effect in effects if effect.kind in kinds and effect.target]


def find_derived_note(
    context: Context, content: str, scanner: Scanner, targets: Collection[bytes] = (), path: str = ""
) -> DerivedText | None:
    """Return what an agent's own words have from untrusted text: its host may show them to a later session.

    `targets` are no news in them, and `path` is the file that they are written to.
    """
    if not context.readings or not (foreign := context.find_foreign()):
        return None
    search = _DerivationSearch(context, foreign, targets)
    search.look_through(content, scanner)
    return search.conclude(path)


class _DerivationSearch:
    """Looks for what one text shares with the untrusted texts of its session."""

    def __init__(self, context: Context, foreign: Sequence[IndexedReading], targets: Collection[bytes]) -> None:
        self._context, self._foreign, self._targets = context, foreign, targets
        self._blocks = {reading.block for reading in foreign}
        self._prints: dict[int, Fingerprint] = {}
        # By block, how much was found in it.
        self._weights: Counter[str] = Counter()
        self._latest, self._budget = foreign[-1], WorkBudget(0)
        # Whether something was not compared.
        self._is_cut = False

    def look_through(self, text: str, scanner: Scanner) -> None:
        """Compare a text, in all its readings."""
        self._budget = WorkBudget(4 * len(text))
        for part in scanner.scan(text).parts:
            prepared = prepare(part.data)
            words = split_words(prepared)
            self._look_for_values(prepared)
            self._look_for_passages(words)
            if self._budget.is_spent:
                self._is_cut = True
                # What was not compared may be from there.
                self._add(self._latest, 0, nsmallest(MAX_PRINTS_OF_ONE, _shingles(words)))

    def conclude(self, path: str) -> DerivedText | None:
        """Return what was found; the worst source is one that speaks to an agent, else the one with most of it."""
        if not self._prints:
            return None
        alarming = self._context.alarming_blocks()
        block = max(self._weights, key=lambda name: (name in alarming, self._weights[name]))
        source = self._context.blocks[self._context.positions[block]].source
        prints = sorted(self._prints.values(), key=lambda item: (item.kind is FingerprintKind.PASSAGE, item.hash))
        if path and (self._is_cut or len(prints) > MAX_PRINTS_OF_ONE):
            # A part of the file that is read alone may have none of those that are kept.
            is_ordered = self._is_cut or any(item.kind in ORDERED_KINDS for item in prints)
            prints.insert(0, _file_print(path, is_ordered=is_ordered))
        origin = origin_of(source, self._context.produced_by.get(block, ""))
        return DerivedText(tuple(prints[:MAX_PRINTS_OF_ONE]), _show_source(source), origin, path)

    def _add(self, reading: IndexedReading, weight: int, prints: Iterable[Fingerprint]) -> None:
        self._weights[reading.block] += weight
        self._latest = reading
        self._prints.update((item.hash, item) for item in prints)

    def _look_for_passages(self, words: Sequence[bytes]) -> None:
        known, at, last = self._context.index.words, 0, len(words) - _RUN
        while at <= last and not self._budget.is_spent:
            run = words[at : at + _RUN]
            # On behind the last word that no text has.
            unknown = max((place for place in range(_RUN) if run[place] not in known), default=-1)
            at += max(unknown, 0) + 1
            if unknown < 0 and (reading := self._find_reading(run)) is not None:
                self._add(reading, 1, _shingles(run))

    def _find_reading(self, run: Sequence[bytes]) -> IndexedReading | None:
        """Return the untrusted text in which these words stand in a row, unless the user says them as well."""
        needle, longest = b" %b " % b" ".join(run), max(run, key=len)
        self._budget.take()
        for reading in (self._latest, *self._foreign):
            # The longest word first: most texts do not have it.
            if longest in reading.text.words and all(map(reading.text.words.__contains__, run)):
                text = reading.text.folded
                if self._budget.take_pass(len(text)) and needle in text:
                    return None if needle in self._context.goal.folded else reading
        return None

    def _look_for_values(self, prepared: bytes) -> None:
        values = [
            (value, is_address)
            for value, is_address in _find_values(prepared).items()
            if self._context.index.words.issuperset(split_words(value)) and not self._is_no_news(value)
        ]
        # Mailboxes and hosts first, then accounts, then names: of those a text has the most.
        values.sort(key=lambda row: (not row[1], row[0].isalnum()))
        self._is_cut = self._is_cut or len(values) > _MAX_VALUES
        for value, is_address in values[:_MAX_VALUES]:
            places = self._find_places(value)
            is_ordered = any(held.is_ordered(self._budget) for held in places)
            if is_ordered or (places and is_address and not value.isalnum()):
                ordered = FingerprintKind.ORDERED_ADDRESS if is_address else FingerprintKind.ORDERED_NAME
                kind, weight = (ordered, _RUN) if is_ordered else (FingerprintKind.ADDRESS, 1)
                self._add(
                    places[0].reading, weight, [Fingerprint(_hash(value), kind, max(split_words(value), key=len))]
                )

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
            or self._context.goal.contains_address(value, self._budget)
            or STOP_WORDS.issuperset(split_words(value))
        )

    def _find_places(self, value: bytes) -> list[Places]:
        """Return where untrusted texts have this value."""
        leaf = Leaf("value", value.decode("utf-8", "replace"))
        held = self._context.index.find(Candidate(leaf, value, split_words(value), fold_words(value)), self._budget)
        return [each for each in held if each.reading.block in self._blocks and value in each.reading.text.prepared]


def _find_values(prepared: bytes) -> dict[bytes, bool]:
    """Return the addresses and names of a text, each with whether it is a mailbox, the host of a URL or an account."""
    values: dict[bytes, bool] = {}
    for token in dict.fromkeys(prepared.translate(_VALUE_BYTES).split()):
        if len(token) < _SHORTEST_VALUE or token.isalpha():
            continue
        # Of `https://docs.kit.example/a` this is what stands behind the colon.
        is_url = token.startswith(b"//")
        value = token[2:].partition(b"/")[0].rpartition(b"@")[2] if is_url else token.strip(b"@./_+~-")
        is_account = value.isalnum() and len(value) >= _SHORTEST_ACCOUNT and not value.isalpha()
        is_address = is_url or b"@" in value or is_account
        if len(value) >= _SHORTEST_VALUE and (is_address or not value.isalnum()):
            values.setdefault(value, is_address)
    return values
