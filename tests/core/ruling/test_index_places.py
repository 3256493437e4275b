"""Where a value stands in a text, held against the plain definition of it: slow, and easy to believe."""

from __future__ import annotations

import random
import re

import pytest

from lockgate.core.ruling import index as index_module
from lockgate.core.ruling.arguments import Leaf
from lockgate.core.ruling.index import Candidate, TextIndex, find_candidates
from lockgate.core.ruling.work_budget import WorkBudget
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


def plainly(index: TextIndex, candidate: Candidate) -> list[int]:
    """Where the words of a candidate follow each other: for each such place, where it begins."""
    found = [(match[0], match.start()) for match in re.finditer(rb"[^ ]+", index.prepared.translate(orders.WORD_BYTES))]
    words, starts = [word for word, _ in found], [start for _, start in found]
    wanted = list(candidate.words)
    if candidate.needle.startswith(b" "):
        return [starts[at] for at in range(len(words)) if words[at : at + len(wanted)] == wanted]
    # A part of a text without its gaps, or with one blank for each: where each of its letters stands.
    gap = b"" if candidate.is_grouped_number else b" "
    places = [start + at for word, start in found for at in range(len(word) + len(gap))]
    first, rest = (b"".join(wanted), b"") if candidate.is_grouped_number else (wanted[0], gap.join([b"", *wanted[1:]]))
    pattern = rb"%b(?=%b)" % (re.escape(first), re.escape(rest))
    return [places[match.start()] for match in re.finditer(pattern, gap.join(words))]


@pytest.mark.parametrize("words", WORDS, ids=["overlaps", "endings", "numbers", "unspaced"])
def test_a_value_is_found_where_its_words_follow_each_other(words: tuple[str, ...], scanner: Scanner) -> None:
    chance = random.Random(f"{words}")
    compared = held = 0
    for _ in range(60):
        gaps = chance.choice(GAPS)
        said = "".join(chance.choice(words) + chance.choice(gaps) for _ in range(chance.choice((3, 20, 80))))
        data = said.encode()
        index = TextIndex(ScannedPart("raw", data, 0, len(data), False, ()), scanner)
        for _ in range(8):
            at = chance.randrange(len(said))
            value = " ".join(said[at : at + chance.choice((4, 8, 20, 60))].split()).encode()
            for candidate in find_candidates(Leaf("command", value.decode()), set(index.words)):
                spans = index.find(candidate, WorkBudget(1 << 30))
                assert [start for start, _ in spans] == plainly(index, candidate)
                for start, end in spans:
                    if not candidate.is_grouped_number:
                        assert data[start:end].translate(orders.WORD_BYTES).split() == list(candidate.words)
                compared, held = compared + 1, held + bool(spans)
    assert compared > 100
    assert held > 50


def test_more_places_than_are_looked_at_end_the_budget(scanner: Scanner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "MAX_PLACES", 12)
    for count, is_spent in ((12, False), (13, True)):
        data = b"foo bar " * count
        index = TextIndex(ScannedPart("raw", data, 0, len(data), False, ()), scanner)
        leaf = Leaf("command", "foo bar")
        [candidate] = find_candidates(leaf, {b"foo", b"bar"})
        budget = WorkBudget(1 << 20)
        assert index.find(candidate, budget) == [(8 * number, 8 * number + 7) for number in range(12)]
        assert budget.is_spent is is_spent
