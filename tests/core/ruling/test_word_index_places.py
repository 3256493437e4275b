"""Where a value stands in a text, held against the plain definition of it: slow, and easy to believe."""

from __future__ import annotations

import random

import pytest

from lockgate.core.ruling import word_index
from lockgate.core.ruling.arguments import Leaf
from lockgate.core.ruling.value_pieces import Candidate, ComparedValue, find_candidates
from lockgate.core.ruling.word_index import IndexedReading, ValuePlacesCache, WordIndex
from lockgate.core.text import imperatives as orders
from lockgate.core.text.scanner import ScannedPart, Scanner

# Words that repeat, overlap, begin and end one another, digits in groups, and scripts without spaces.
WORDS = (
    ("aa", "a", "b", "ab"),
    ("test", "testest", "est", "foo", "foot"),
    ("1234", "5678", "12345678", "1", "b1"),
    ("哈", "哈哈", "请a", "a", "b"),
)
# Some gaps end just where the surroundings of a short value do.
GAPS = ((" ",), (" ", "  "), (" ", ". ", "\n"), ("", " "), *((" ", " " * size) for size in (36, 38, 40, 42, 90)))


def plainly(index: WordIndex, candidate: Candidate, most: int) -> tuple[list[int], bool]:
    """The places of the rarest word whose surroundings, folded, hold the candidate; and whether the whole text does."""
    text, sought = index.spaced, candidate.needle
    word, around = sought[:4] if candidate.is_grouped_number else candidate.rarest, len(sought) * 2 + 32
    places, at = [], text.find(word)
    while at >= 0 and len(places) < most:
        places.append(at)
        at = text.find(word, at + len(word))

    def held(window: bytes) -> bool:
        words = window.split()
        return sought in (b"".join(words) if candidate.is_grouped_number else b" %b " % b" ".join(words))

    return [at for at in places if held(text[max(0, at - around) : at + around])], held(text)


@pytest.mark.parametrize("most", [12, word_index.MAX_PLACES])
@pytest.mark.parametrize("few", [0, 8])
@pytest.mark.parametrize("words", WORDS, ids=["overlaps", "endings", "numbers", "unspaced"])
def test_a_value_is_found_where_its_surroundings_hold_it(
    words: tuple[str, ...], few: int, most: int, scanner: Scanner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(word_index, "_FEW_PLACES", few)
    monkeypatch.setattr(word_index, "MAX_PLACES", most)
    chance = random.Random(f"{words}{few}{most}")
    compared = held = 0
    for _ in range(60):
        gaps = chance.choice(GAPS)
        said = "".join(chance.choice(words) + chance.choice(gaps) for _ in range(chance.choice((3, 20, 80))))
        data = said.encode()
        index = WordIndex(ScannedPart("raw", data, 0, len(data), False, ()), scanner)
        entry, holders = IndexedReading(0, "b0001", "tool:read", index, index.words), ValuePlacesCache()
        for _ in range(8):
            at = chance.randrange(len(said))
            value = " ".join(said[at : at + chance.choice((4, 8, 20, 60))].split()).encode()
            listed = value.translate(orders.WORD_BYTES).split()
            compared_value = ComparedValue(Leaf("command", value.decode()), value, listed, 8)
            for candidate in find_candidates([compared_value], set(index.words))[0]:
                expected, whole = plainly(index, candidate, most)
                found = [place for one in holders.find_places(candidate, [entry]) for place in one.places]
                # Where the rarest word is rare, the text as a whole is not asked: it may seem to stand at a cut word.
                # With gaps too long to say where it stands, the start of the text is named.
                assert found in ((expected or [0] if whole else []), *([expected] if few else []))
                compared, held = compared + 1, held + bool(expected)
    assert compared > 100
    assert held > 50


def test_more_places_than_are_looked_at_are_remembered(scanner: Scanner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_index, "MAX_PLACES", 12)
    for count, capped in ((12, False), (13, True)):
        data = b"foo bar " * count
        index = WordIndex(ScannedPart("raw", data, 0, len(data), False, ()), scanner)
        leaf = Leaf("command", "foo bar")
        [candidate] = find_candidates([ComparedValue(leaf, b"foo bar", [b"foo", b"bar"], 0)], {b"foo", b"bar"})[0]
        assert index.find_value(candidate) == [8 * number for number in range(12)]
        assert index.capped is capped
