"""Sensitive spans of a text, the rows of `secrets.tbl`, and the one search for what they describe.

Every search jumps from one cheap mark (a word, a number) to the next and looks a bounded way around it, so an attacker
cannot make the time more than linear.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from types import MappingProxyType
from typing import NamedTuple

from lockgate.core.tables import read_table
from lockgate.core.text.confusables import INVISIBLE, is_wordlike

# The most specific first: where two spans overlap, the earlier kind names the placeholder.
KINDS = (
    *"private-key api-key jwt token cookie url-credentials secret card iban national-number record-number".split(),
    *"birth-date personal-detail email phone ip-address date address url name media custom".split(),
)
PLACEHOLDER = re.compile(rf"\[redacted:(?:{'|'.join(KINDS)})\]")
DIGIT = re.compile("[0-9]")


class SensitiveSpan(NamedTuple):
    """A stretch of a text that must not leave the process; `said` is its decoded text where it is encoded."""

    kind: str
    start: int
    end: int
    said: str = ""


# Invisible characters that Python calls printable: joiners, fillers, variation selectors, the blank of braille.
UNSEEN = re.compile(f"[{INVISIBLE}\u2800\ufe00-\ufe0f\U000e0100-\U000e01ef]")
LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def replace_half_pairs(text: str) -> str:
    """Return the text with U+FFFD for every half of a surrogate pair, which cannot be sent as UTF-8."""
    return text if text.isascii() else LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


def lowercase_same_length(text: str) -> str:
    """Return the text in lower case with as many characters as before; only `İ` would become two."""
    return text.replace("\u0130", "i").lower()


def is_pronounceable(letters: str) -> bool:
    """Return whether letters could be words; of rows of sixteen random letters, one in a hundred could."""
    return is_wordlike(letters) and SHAPES["unspoken"].search(letters.lower()) is None


def mark_limit(text: str) -> int:
    """Return how many marks an ordinary text may have; looking at each of more would take too long."""
    return 64 + len(text) // 16


def find_places(low: str, words: Iterable[str]) -> list[int]:
    """Return where any of the words begins, in order; one plain search each is far faster than an alternation."""
    found = set()
    for word in words:
        at = low.find(word)
        while at >= 0:
            found.add(at)
            at = low.find(word, at + len(word))
    return sorted(found)


# --- the table

Check = Callable[[re.Match[str], str], bool]
TABLE = "secrets.tbl"
COLUMNS = {
    "parts": ("name", "pattern"),
    "shapes": ("shape", "pattern"),
    "keys": ("where", "prefixes", "the rest of the key", "whose"),
    "labels": ("how", "begins with", "label"),
    "words": ("list", "words"),
    "credentials": ("kind", "begins at", "before", "pattern", "check"),
    "people": ("kind", "removed by", "begins at", "before", "pattern", "check"),
    "accounts": ("characters", "countries"),
    "cards": ("begins with", "digits"),
    "around names": ("role", "words"),
    "behind names": ("roles", "pattern"),
}
# The rule sets that a row may name together.
RULESETS = {
    "all": frozenset({"default", "hipaa", "ferpa", "custom", "secrets"}),
    "default": frozenset({"default", "hipaa", "ferpa", "custom"}),
    "records": frozenset({"hipaa", "ferpa"}),
    "hipaa": frozenset({"hipaa"}),
    "ferpa": frozenset({"ferpa"}),
}


def read_secrets(section: str) -> list[tuple[str, ...]]:
    """Return the rows of a section of the table."""
    return read_table(__package__, TABLE, section, COLUMNS[section])


def read_lists(section: str, separator: str | None = None) -> dict[str, tuple[str, ...]]:
    """Return the words of a section by the name in the first column, which may come on several rows."""
    lists: dict[str, tuple[str, ...]] = {}
    for name, words in read_secrets(section):
        lists[name] = (*lists.get(name, ()), *words.split(separator))
    return lists


_PARTS = {row[0]: row[1] for row in read_secrets("parts")}
_PART = re.compile("<([A-Z][A-Z_0-9]+)>")


def pattern_from(source: str) -> str:
    """Return a pattern of the table with its parts filled in."""
    while _PART.search(source):
        source = _PART.sub(lambda match: _PARTS[match[1]], source)
    return source


# What the searches in code look for.
SHAPES = {name: re.compile(pattern_from(pattern)) for name, pattern in read_secrets("shapes")}


# --- checks of what a pattern matched


def _has_digits(least: int, _: re.Match[str], value: str) -> bool:
    return len(DIGIT.findall(value)) >= least


def _is_phone(least: int, _: re.Match[str], value: str) -> bool:
    return least <= len(DIGIT.findall(value)) <= 15 and not SHAPES["date-like"].match(value)


def _is_near_school(match: re.Match[str], _: str) -> bool:
    return SHAPES["school"].search(match.string, max(0, match.start() - 60), match.end() + 40) is not None


def _is_mailbox(match: re.Match[str], _: str) -> bool:
    before = match.string[max(0, match.start() - 330) : match.start()]
    return not (SHAPES["shared account"].search(before[-4:]) or SHAPES["user in an address"].search(before))


def is_luhn_valid(digits: str) -> bool:
    """Return whether digits pass the check of card numbers and of some national numbers."""
    turned = digits[::-1]
    return (sum(map(int, turned[::2])) + sum(map(int, turned[1::2].translate(_DOUBLED)))) % 10 == 0


_DOUBLED = str.maketrans("0123456789", "0246813579")


def _is_cpf(number: str) -> bool:
    sums = (sum(map(int.__mul__, map(int, number), range(size + 1, 1, -1))) * 10 % 11 % 10 for size in (9, 10))
    return len(set(number)) > 1 and list(sums) == list(map(int, number[9:11]))


def _is_dni(number: str) -> bool:
    digits = number[:-1].upper().translate(str.maketrans("XYZ", "012"))
    return "TRWAGMYFPDXBNJZSQVHLCKE"[int(digits) % 23] == number[-1].upper()


def _is_chinese(number: str) -> bool:
    weights = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
    return "10X98765432"[sum(map(int.__mul__, map(int, number[:17]), weights)) % 11] == number[17].upper()


def _of_number(is_valid: Callable[[str], bool]) -> Check:
    return lambda _, value: is_valid(re.sub("[^0-9A-Za-z]", "", value))


_CHECKS: dict[str, Check] = {
    "-": lambda *_: True,
    "signed": lambda _, value: "." in value and len(value) >= 24,
    "unredacted": lambda _, value: PLACEHOLDER.search(value) is None,
    "school": _is_near_school,
    "mailbox": _is_mailbox,
    "luhn": _of_number(is_luhn_valid),
    "mod97": _of_number(lambda digits: 97 - int(digits[:13]) % 97 == int(digits[13:15])),
    "cpf": _of_number(_is_cpf),
    "dni": _of_number(_is_dni),
    "chinese": _of_number(_is_chinese),
}


def check_from(name: str, more: Mapping[str, Check] = MappingProxyType({})) -> Check:
    """Return a check of the table, or one of `more`; `phone:8` and `digits:5` name the fewest digits."""
    kind, _, least = name.partition(":")
    if least:
        return partial({"phone": _is_phone, "digits": _has_digits}[kind], int(least))
    return more.get(name) or _CHECKS[name]


# --- the search


class SecretRow(NamedTuple):
    """A row as it is searched for: at its words, in the `whole` text that has one of them, or at numbers."""

    kind: str
    rulesets: frozenset[str]
    marks: frozenset[str]
    whole: bool
    before: re.Pattern[str] | None
    pattern: re.Pattern[str]
    check: Check


def read_rows(section: str, checks: Mapping[str, Check] = MappingProxyType({})) -> tuple[SecretRow, ...]:
    """Return the rows of `credentials`, which all rule sets remove, or of `people`."""
    rows = []
    for kind, *rulesets, at, before, pattern, check in read_secrets(section):
        words = frozenset(word for word in at.lstrip("~#").split(",") if word)
        flags = 0 if at == "#" else re.IGNORECASE
        behind = re.compile(rf"(?:{pattern_from(before)})\Z", flags) if before != "-" else None
        body = re.compile(pattern_from(pattern), flags)
        sets = RULESETS[rulesets[0] if rulesets else "all"]
        rows.append(SecretRow(kind, sets, words, at[0] == "~", behind, body, check_from(check, checks)))
    return tuple(rows)


def marks_of(rows: Iterable[SecretRow]) -> frozenset[str]:
    """Return the words at which any of the rows begins, in lower case."""
    return frozenset[str]().union(*(row.marks for row in rows))


# So much of the text before a pattern is searched for what has to stand there.
_MOST_BEFORE = 66


def find_by_rows(rows: Sequence[SecretRow], text: str, low: str, marks: frozenset[str]) -> Iterator[SensitiveSpan]:
    """Yield what the rows find, overlaps included; `marks` are their words that may be in the text."""
    numbered = []
    for row in rows:
        if row.whole:
            if not row.marks or any(mark in low for mark in row.marks & marks):
                yield from (span for match in row.pattern.finditer(text) for span in _spans_of(row, match))
        elif row.marks:
            done = 0
            for place in find_places(low, row.marks & marks):
                if place >= done and (match := row.pattern.match(text, place)):
                    done = match.end()
                    yield from _spans_of(row, match)
        else:
            numbered.append(row)
    yield from _find_at_numbers(numbered, text) if numbered else ()


@lru_cache(maxsize=16)
def _any_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern of which any of these is a match; each may repeat one separator, its group `s`."""
    return re.compile("|".join(re.sub(r"\(\?P([<=])s", rf"(?P\1s{n}", one) for n, one in enumerate(patterns)))


def _find_at_numbers(numbered: Sequence[SecretRow], text: str) -> Iterator[SensitiveSpan]:
    any_row = _any_of(tuple([row.pattern.pattern for row in numbered]))
    for number in SHAPES["number"].finditer(text):
        # Most numbers are a year or a count.
        for row in numbered if any_row.match(text, number.start()) else ():
            if match := row.pattern.match(text, number.start()):
                yield from _spans_of(row, match)


def _spans_of(row: SecretRow, match: re.Match[str]) -> Iterator[SensitiveSpan]:
    """Yield the group of a match, or all of it with what has to be before it, if that and the check hold."""
    group = match.lastindex or 0
    start, end = match.span(group)
    if row.before:
        before = row.before.search(match.string[max(0, match.start() - _MOST_BEFORE) : match.start()])
        if before is None:
            return
        start = start if group else match.start() - len(before[0])
    if row.check(match, match.string[start:end]):
        yield SensitiveSpan(row.kind, start, end)
