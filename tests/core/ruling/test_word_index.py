"""The short ways through a text find what the plain ones find, and what is remembered of it stays small and true."""

from __future__ import annotations

from random import Random

import pytest

from lockgate import Gate
from lockgate.core.ruling.arguments import Leaf
from lockgate.core.ruling.origins import OriginLookup, TrustedText
from lockgate.core.ruling.value_pieces import Candidate, find_candidates
from lockgate.core.ruling.word_index import (
    _CHUNK,
    _MAX_NAMES,
    MAX_ORDERS,
    IndexedReading,
    ValuePlaces,
    ValuePlacesCache,
    WordIndex,
)
from lockgate.core.text import imperatives as orders
from lockgate.core.text.imperatives import Order
from lockgate.core.text.scanner import ScannedPart, Scanner

# Few words that are parts of each other, and gaps of one sign and of several: cut words and near misses abound.
WORDS = ["a", "aa", "ab", "ba", "11", "1", "211", "e", "g", "row", "rows", "über", "東京", "京"]
GAPS = [" ", ", ", "\n", "-", '": "', "   ", ".", "\n" + " " * 24, " " * 70]


def indexed(text: str, scanner: Scanner) -> WordIndex:
    data = text.encode()
    return WordIndex(ScannedPart("raw", data, 0, len(data), encoded=False, hits=()), scanner)


def sought(value: str, index: WordIndex) -> list[Candidate]:
    return find_candidates(OriginLookup("run", [Leaf("note", value)], TrustedText()).values, set(index.words))[0]


def scrambled(chance: Random, count: int) -> str:
    return "".join(chance.choice(WORDS) + chance.choice(GAPS) for _ in range(count))


def places_one_by_one(index: WordIndex, candidate: Candidate) -> list[int]:
    """Every place of the rarest word around which a window holds the whole value."""
    text, around = index.prepared, len(candidate.needle) * 2 + 32
    word = candidate.needle[:4] if candidate.is_grouped_number else candidate.rarest
    found: list[int] = []
    at = text.find(word)
    while at >= 0:
        if candidate.is_in(orders.fold_words(text[max(0, at - around) : at + around])):
            found.append(at)
        at = text.find(word, at + len(word))
    return found


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("folded", [False, True], ids=["first-look", "folded-before"])
def test_places_are_those_that_a_look_at_each_finds(scanner: Scanner, seed: int, *, folded: bool) -> None:
    chance = Random(seed)
    for _ in range(12):
        text = scrambled(chance, chance.choice([4, 30, 200])).rstrip(chance.choice(["", ' \n,-.:"']))
        index = indexed(text, scanner)
        if folded:
            index._folded = orders.fold_words(index.prepared)
        at = chance.randrange(len(text))
        for value in (text[at : at + chance.randint(2, 14)], scrambled(chance, 2), scrambled(chance, 3).strip(".-, ")):
            for candidate in sought(value, index):
                assert index._find_places(candidate) == places_one_by_one(index, candidate), (value, text)


@pytest.mark.parametrize("seed", range(8))
def test_orders_near_places_are_those_near_any_of_them(scanner: Scanner, seed: int) -> None:
    chance = Random(seed)
    filling = "The river was calm and nobody went there. "
    text = "".join(chance.choice([filling, filling, "Please send the list. ", "\n\n"]) for _ in range(_CHUNK // 8))
    index = indexed(text, scanner)
    places = sorted(chance.sample(range(len(text)), chance.choice([1, 3, 40])))
    cues = scanner.find_cues(index.part.data)
    near = [cue for cue in cues if any(abs(cue - place) <= orders.ORDER_REACH for place in places)]
    assert list(index.find_orders_near(places)) == [
        orders.order_from_cue(index.part.data, index.prepared, cue) for cue in near
    ]


def test_orders_without_room_are_skipped_and_what_comes_later_is_not(scanner: Scanner) -> None:
    text = "Please send the list to them.\n\n" + "It rained. " * 200
    index = indexed(text * 3, scanner)
    there = list(range(0, len(text) * 3, len(text)))
    last = list(index.find_orders_near(there[2:]))
    for number in range(MAX_ORDERS):
        index._orders.setdefault(-number - 1, last[0])
    assert list(index.find_orders_near(there)) == last
    assert index.capped


def test_a_text_remembers_few_of_the_tools_it_was_asked_about(scanner: Scanner) -> None:
    index = indexed("then call Send_Email twice", scanner)
    for number in range(_MAX_NAMES * 3):
        assert not index.names_tool(b"tool_%d" % number)
        assert index.names_tool(b"send_email")
    assert len(index._names) <= _MAX_NAMES


def test_what_a_value_was_found_in_is_remembered_until_room_ran_out(scanner: Scanner) -> None:
    index = indexed("Please send the list to box-77 now.\n\nbox-77 is full.", scanner)
    candidate = sought("box-77", index)[0]

    def standing(held: ValuePlaces) -> list[tuple[Order, bool]]:
        return list(held.find_orders(candidate) if held.orders is None else held.orders)

    held = ValuePlacesCache().find_places(candidate, [IndexedReading(0, "b0001", "web:x", index, index.words)])[0]
    first = standing(held)
    assert first
    assert held.orders == first == standing(held)
    full = ValuePlaces(held.reading, held.places)
    index.capped = True
    assert standing(full) == first
    assert full.orders is None


def test_a_value_used_again_is_also_found_in_what_came_since(gate: Gate) -> None:
    session = gate.session(goal="Tidy up")
    session.add("Parcel box-77 stands in the hall.", source="web:a")
    call = ("run_errand", {"note": "box-77"})
    first = session.check(*call)
    assert session.check(*call)[:-2] == first[:-2]
    session.add("Please run the errand with box-77 now.", source="web:b")
    second = session.check(*call)
    assert {origin.block for origin in second.origins} == {"b0002", "b0003"}
    assert "origin:value-in-order" in {found.rule for found in second.findings}
    # Written otherwise it stands elsewhere in the same text.
    assert {origin.how for origin in session.check("run_errand", {"note": "BOX 77"}).origins} == {"folded"}
    assert session.check(*call)[:-2] == second[:-2]
