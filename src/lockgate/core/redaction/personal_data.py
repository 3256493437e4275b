"""The personal data in a text: addresses, the numbers of persons, accounts and records, and, in records, names.

Numbers with a check digit or letter (Luhn, mod 97) have to pass it: a verifier cannot judge a request from which order
numbers, dates and hashes were removed.

A name is found by its place (behind a label, a title, a greeting or the end of a letter), by a given name from a list,
by two capitals in the middle of a sentence, or by what is said of a person behind it; and then wherever a part of it is
repeated. A rare given name alone, or a name in lower case, stays: docs/reference/verifiers.md has the figures.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache

from lockgate.core.redaction.secrets import (
    DIGIT,
    RULESETS,
    SHAPES,
    SensitiveSpan,
    find_by_rows,
    find_places,
    is_luhn_valid,
    mark_limit,
    marks_of,
    read_lists,
    read_rows,
    read_secrets,
)
from lockgate.core.tables import read_sections


def find_personal_data(
    text: str, low: str, marks: frozenset[str], ruleset: str, *, joined: bool = False
) -> Iterator[SensitiveSpan]:
    """Yield the personal data in a text, overlaps included; `joined` if its line breaks were taken out.

    The rule set `secrets` finds only numbers that are as good as a key: addresses that a call sends to stay.
    """
    # Without its line breaks a name would run on into the next line.
    yield from find_by_rows((_JOINED_ROWS if joined else _ROWS)[ruleset], text, low, marks)
    if DIGIT.search(text):
        if ruleset != "secrets" and _IBAN_SHAPE in marks:
            yield from _find_ibans(text, joined=joined)
        # Digits on two lines are mostly two numbers.
        if _CARD_SHAPE in marks and not joined:
            yield from _find_cards(text)
    if ruleset in RULESETS["records"] and not joined:
        yield from find_names(text, low, marks)


_PEOPLE = read_rows("people")
_ROWS = {ruleset: tuple(row for row in _PEOPLE if ruleset in row.rulesets) for ruleset in RULESETS["all"]}
_JOINED_ROWS = {
    ruleset: tuple(row for row in rows if row.kind in ("email", "address") and row.marks)
    for ruleset, rows in _ROWS.items()
}

# --- numbers with a check

_IBAN_SIZES = {country: int(size) for size, countries in read_secrets("accounts") for country in countries.split()}


def _find_ibans(text: str, *, joined: bool) -> Iterator[SensitiveSpan]:
    # Where lines were joined, a word of a neighbouring line may stand right beside the number.
    done = 0
    for number, match in enumerate(SHAPES["joined account" if joined else "account"].finditer(text)):
        if number >= mark_limit(text) // 2:
            yield SensitiveSpan("iban", match.start(), len(text))
            return
        size = _IBAN_SIZES.get(match[2].upper(), 0)
        places = [at for at, ch in enumerate(match[1], match.start()) if ch.isalnum()][:size]
        if match.start() < done or not places or len(places) < size:
            continue
        end = places[-1] + 1
        code = "".join([str(int(text[at], 36)) for at in places[4:] + places[:4]])
        after = text[end : end + 1]
        if int(code) % 97 == 1 and (joined or not (after.isascii() and after.isalnum())):
            yield SensitiveSpan("iban", match.start(), end)
            done = end


_CARD_SIZES = [(re.compile(begins), tuple(map(int, sizes.split()))) for begins, sizes in read_secrets("cards")]


@cache
def _sizes_of(start: str) -> tuple[int, ...]:
    """Return how many digits the cards have that begin with these four."""
    return next((sizes for begins, sizes in _CARD_SIZES if begins.match(start)), ())


def _find_cards(text: str) -> Iterator[SensitiveSpan]:
    """Yield card numbers; each begins and ends with a whole group of a row of digits and separators."""
    done = 0
    for match in SHAPES["card"].finditer(text):
        digits = re.sub("[^0-9]", "", match[1])
        for size in _sizes_of(digits[:4]) if match.start() >= done else ():
            if size <= len(digits) and is_luhn_valid(digits[:size]):
                end = [at for at, ch in enumerate(match[1], match.start() + 1) if ch.isdigit()][size - 1]
                if not text[end : end + 1].isdigit():
                    yield SensitiveSpan("card", match.start(), end)
                    done = end
                    break
    for match in SHAPES["card in groups"].finditer(text):
        digits = re.sub("[^0-9]", "", match[0])
        if len(digits) in _sizes_of(digits[:4]) and is_luhn_valid(digits):
            yield SensitiveSpan("card", *match.span())


# --- the names of people, for the rule sets of health and school records

_LISTS = {
    section: frozenset(" ".join(lines).split())
    for section, lines in read_sections(__package__, "person_names.txt").items()
}
# Given names that are hardly ever anything else, and those that count only before a surname.
_ALSO_WORDS, _NOT_NAMES = _LISTS["also words"], _LISTS["not names"]
_GIVEN = _LISTS["given"] - _ALSO_WORDS
_MOST_PARTS = 5
_AROUND = read_lists("around names", ",")


def _read_anchor(roles: str, behind: str) -> tuple[frozenset[str], re.Pattern[str]]:
    """Return words, and the pattern of any of them with what stands between it and a name."""
    words = [word for role in roles.split() for word in _AROUND[role]]
    either = "|".join(sorted(map(re.escape, words), key=len, reverse=True))
    return frozenset(words), re.compile(rf"(?<![^\W_])(?:{either}){behind}", re.IGNORECASE)


_ANCHORS = [_read_anchor(*row) for row in read_secrets("behind names")]


def find_names(text: str, low: str, marks: frozenset[str]) -> Iterator[SensitiveSpan]:
    """Yield the names of people in a text, overlaps included; `marks` are those of MARKS that may be in it."""
    capitals = [
        match.span()
        for match in SHAPES["capitalised word"].finditer(text)
        if match[0][0].isupper() and not SHAPES["glued"].match(text[match.start() - 1 : match.start()])
    ]
    known: set[str] = set()
    for start, end in (*_names_behind_marks(text, low, marks), *_names_from_capitals(text, capitals)):
        yield SensitiveSpan("name", start, end)
        known.update(part for part in SHAPES["part of a name"].findall(text[start:end]) if _is_distinct(part))
    for start, end in capitals if known else ():
        # A name that was found is a name wherever it is repeated.
        if text[start:end].removesuffix("'s").removesuffix("’s") in known:
            yield SensitiveSpan("name", start, end)


def _names_behind_marks(text: str, low: str, marks: frozenset[str]) -> Iterator[tuple[int, int]]:
    for number, (words, pattern) in enumerate(_ANCHORS):
        any_case = number == 0
        for place in find_places(low, marks & words):
            if match := pattern.match(text, place):
                start = match.end()
                end = _name_end(text, start, any_case=any_case)
                # One word in lower case behind a label is a value in code.
                if end and (text[start:end] != low[start:end] or " " in text[start:end]):
                    yield start, end


def _names_from_capitals(text: str, capitals: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    done = 0
    for start, first_end in capitals:
        if start >= done and (end := _name_end(text, start)) and _is_name(text, start, first_end, end):
            yield start, end
            done = end


def _is_name(text: str, start: int, first_end: int, end: int) -> bool:
    """Return whether capitalised words begin with a known given name, or stand or are spoken of as a name is."""
    first = text[start:first_end]
    plain = _plain(first)
    several = end > first_end
    if first.isupper() and not (several and text[start:end].isupper()):
        return False  # an acronym, alone or before a word
    if plain in _GIVEN or not several:
        return plain in _GIVEN
    if plain in _ALSO_WORDS or SHAPES["said of a person"].match(text, end):
        return True
    # In the middle of a sentence only names have capitals, also those of places.
    before = SHAPES["word before a name"].search(text, max(0, start - 24), start)
    return before is not None and not SHAPES["number behind a name"].match(text, end)


def _name_end(text: str, at: int, *, any_case: bool = False) -> int:
    """Return where the name that begins here ends; 0 if none does."""
    end = 0
    begin = at
    for _ in range(_MOST_PARTS):
        part = SHAPES["part of a name"].match(text, at)
        if part is None:
            break
        plain = _plain(part[0].removesuffix("."))
        if plain not in _AROUND["particle"] and not (at == begin and plain in _AROUND["title"]):
            if plain in _NOT_NAMES or not (any_case or part[0][0].isupper()):
                break
            # An initial alone is no name.
            if len(plain) > 1 or at > begin:
                end = part.end()
        at = part.end()
        gap = SHAPES["gap in a name"].match(text, at) or (any_case and SHAPES["comma in a name"].match(text, at))
        if not gap:
            break
        at = gap.end()
    return end


def _plain(word: str) -> str:
    """Return a word in lower case, without accents and without the ending of a possessive."""
    word = word.lower().removesuffix("'s").removesuffix("’s")
    if word.isascii():
        return word
    return "".join(ch for ch in unicodedata.normalize("NFKD", word) if not unicodedata.combining(ch))


def _is_distinct(part: str) -> bool:
    """Return whether a part of a name means that name wherever it stands."""
    plain = _plain(part.removesuffix("."))
    return len(plain) > 2 and part[0].isupper() and plain not in _NOT_NAMES and plain not in _ALSO_WORDS


# Everything the searches above start from, in a text in lower case.
MARKS = marks_of(_PEOPLE).union(*(words for words, _ in _ANCHORS))

_IBAN_SHAPE, _CARD_SHAPE = "letters and digits of an account", "digits of a card"
# Shapes that the engine looks for before any slower search; a sign between digits has up to three bytes.
ENGINE_SHAPES = {
    _IBAN_SHAPE: "[a-z]{2}[ -]?[0-9]{2}(?:[ \\t.-]{0,2}[a-z0-9]){11}",
    _CARD_SHAPE: "[0-9](?:[^0-9]{0,5}[0-9]){11}",
}
