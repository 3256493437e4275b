"""The personal data in a text: addresses, and the numbers of persons, accounts and records.

Numbers with a check digit or letter (Luhn, mod 97) have to pass it: a verifier cannot judge a request from which order
numbers, dates and hashes were removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import accumulate

from lockgate.core.redaction.person_names import MARKS as NAME_MARKS
from lockgate.core.redaction.person_names import find_names
from lockgate.core.redaction.secret_table import (
    RULESETS,
    check_from,
    find_by_rows,
    is_luhn_valid,
    marks_of,
    pattern_from,
    read_rows,
    read_secrets,
    read_shape,
)
from lockgate.core.redaction.spans import DIGIT, SensitiveSpan, mark_limit


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
        if _CARD_SHAPE in marks:
            yield from _find_cards(text)
        yield from _find_numbers(text, ruleset)
    if ruleset in RULESETS["records"] and not joined:
        yield from find_names(text, low, marks)


_PEOPLE = read_rows("people")
_ROWS = {ruleset: tuple(row for row in _PEOPLE if ruleset in row.rulesets) for ruleset in RULESETS["all"]}
_JOINED_ROWS = {
    ruleset: tuple(row for row in rows if row.marks and not row.whole and row.kind != "url")
    for ruleset, rows in _ROWS.items()
}

# --- numbers with a check

_IBAN_SIZES = {country: int(size) for size, countries in read_secrets("accounts") for country in countries.split()}
_JOINED_IBAN = re.compile(r"(?=(([A-Za-z]{2})[ -]?[0-9]{2}(?:[ \t.-]{0,2}[A-Za-z0-9]){11,29}))")
_IBAN = re.compile(rf"(?<![A-Za-z0-9]){_JOINED_IBAN.pattern}")
_ALNUM = re.compile("[A-Za-z0-9]")
_IBAN_SIGNS = str.maketrans("", "", " \t.-")
_IBAN_DIGITS = {ord(ch): str(i) for i, ch in enumerate("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ")}


def _find_ibans(text: str, *, joined: bool) -> Iterator[SensitiveSpan]:
    # Where lines were joined, a word of a neighbouring line may stand right beside the number.
    done = 0
    for number, match in enumerate((_JOINED_IBAN if joined else _IBAN).finditer(text)):
        if number >= mark_limit(text) // 2:
            yield SensitiveSpan("iban", match.start(), len(text))
            return
        size = _IBAN_SIZES.get(match[2].upper(), 0)
        code = match[1].translate(_IBAN_SIGNS)[:size].upper()
        if match.start() < done or len(code) < max(size, 1):
            continue
        end = match.start() + [i for i, ch in enumerate(match[1]) if ch.isalnum()][size - 1] + 1
        is_valid = int((code[4:] + code[:4]).translate(_IBAN_DIGITS)) % 97 == 1
        if is_valid and (joined or not _ALNUM.match(text, end)):
            yield SensitiveSpan("iban", match.start(), end)
            done = end


_CARD = re.compile(r"(?<![0-9])[0-9](?:[ \t.\u2013\n-]?+[0-9]){11,}+")
_CARD_IN_GROUPS = read_shape("card in groups")
_GROUP = re.compile("[0-9]+")
_CARD_SIZES = [(re.compile(begins), tuple(map(int, sizes.split()))) for begins, sizes in read_secrets("cards")]
# By the first four digits.
_SIZES_OF: tuple[tuple[int, ...], ...] = tuple(
    next((sizes for start, sizes in _CARD_SIZES if start.match(f"{number:04d}")), ()) for number in range(10_000)
)


def _find_cards(text: str) -> Iterator[SensitiveSpan]:
    """Yield card numbers; each begins and ends with a whole group of a row of digits and separators."""
    for row in _CARD.finditer(text):
        said = row[0]
        if said.isdigit():
            # The commonest row is one number; rows of twenty digits or more are no cards.
            if len(said) < 20 and len(said) in _SIZES_OF[int(said[:4])] and is_luhn_valid(said):
                yield SensitiveSpan("card", *row.span())
            continue
        yield from _find_cards_in(said, row.start())
    for match in _CARD_IN_GROUPS.finditer(text):
        digits = "".join(_GROUP.findall(match[0]))
        if len(digits) in _SIZES_OF[int(digits[:4])] and is_luhn_valid(digits):
            yield SensitiveSpan("card", *match.span())


_MOST_SMALL_GROUPS = 64


def _find_cards_in(said: str, at: int) -> Iterator[SensitiveSpan]:
    groups = [group.span() for group in _GROUP.finditer(said)]
    if len(groups) > _MOST_SMALL_GROUPS and len(groups) * 3 > len(said):
        return  # a table of digits
    digits = "".join([said[start:end] for start, end in groups])
    sizes = accumulate(end - start for start, end in groups)
    ends = dict(zip(sizes, (end for _, end in groups), strict=True))
    first = done = 0
    for start, end in groups:
        for size in _SIZES_OF[int(digits[first : first + 4])] if first >= done else ():
            last = first + size
            spelled = said[start : ends.get(last, start)]
            # A number on two lines counts only in the groups that are on the card.
            if (
                spelled
                and is_luhn_valid(digits[first:last])
                and ("\n" not in spelled or _ON_THE_CARD.fullmatch(spelled))
            ):
                yield SensitiveSpan("card", at + start, at + ends[last])
                done = last
                break
        first += end - start


_ON_THE_CARD = re.compile(r"[0-9]{4}(?:[\s-]{1,2}[0-9]{4}){3}")

# --- numbers in the forms of countries


class _NumberForms:
    """Several ways to write a number, each with its own check; one search finds where any of them begins.

    A way may hold one group `s` for the separator that it repeats. Letters of other scripts end a number, since Chinese
    and Japanese have no spaces.
    """

    def __init__(self, kind: str, edge: str) -> None:
        rows = [(pattern_from(source), check) for of, _, source, check in read_secrets("numbers") if of == kind]
        self._ways = [(re.compile(edge + source, re.ASCII), check_from(check)) for source, check in rows]
        either = "|".join(re.sub(r"\(\?P([<=])s", rf"(?P\1s{n}", source) for n, (source, _) in enumerate(rows))
        self._any = re.compile(f"{edge}(?:{either})", re.ASCII)

    def find_spans(self, text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
        # In steps: one search of a megabyte of digits would keep every other thread waiting.
        for border in range(start + _STEP, end + _STEP, _STEP):
            while start < border and (found := self._any.search(text, start, min(end, border + _LONGEST))):
                start = found.start()
                if start >= border:
                    break
                for way, check in self._ways:
                    if (match := way.match(text, start, end)) and check(match, match[0]):
                        yield match.span()
                start += 1
            start = border


_STEP, _LONGEST = 8_192, 64
_NATIONAL = _NumberForms("national-number", r"(?<![A-Za-z0-9.-])(?<![0-9][.])")
_PHONES = _NumberForms("phone", "(?<![A-Za-z0-9])")
# The shortest numbers, from the first digit to the last; right behind letters four digits are enough.
_NATIONAL_LEAST, _PHONE_LEAST = 6, 8
# A stretch with four digits or more close together; its surroundings may hold letters and signs.
_DIGIT_AREA = re.compile("[0-9](?:[^0-9]{0,4}+[0-9]){3,}+")


def _find_numbers(text: str, ruleset: str) -> Iterator[SensitiveSpan]:
    for area in _DIGIT_AREA.finditer(text):
        first, last = area.span()
        start, end = max(0, first - 8), min(len(text), last + 4)
        # Most such areas are a year or a count.
        if last - first >= _NATIONAL_LEAST or text[first - 1 : first].isalpha():
            for span in _NATIONAL.find_spans(text, start, end):
                yield SensitiveSpan("national-number", *span)
        if ruleset != "secrets" and last - first >= _PHONE_LEAST:
            for span in _PHONES.find_spans(text, start, end):
                yield SensitiveSpan("phone", *span)


# Everything the searches above start from, in a text in lower case.
MARKS = marks_of(_PEOPLE) | NAME_MARKS

_IBAN_SHAPE, _CARD_SHAPE = "letters and digits of an account", "digits of a card"
# Shapes that the engine looks for before any slower search; a sign between digits has up to three bytes.
SHAPES = {
    _IBAN_SHAPE: "[a-z]{2}[ -]?[0-9]{2}(?:[ \\t.-]{0,2}[a-z0-9]){11}",
    _CARD_SHAPE: "[0-9](?:[^0-9]{0,5}[0-9]){11}",
}
