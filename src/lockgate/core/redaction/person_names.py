"""The names of people in a text, for the rule sets of health and school records.

A name is found by its place (behind a label, a title, a greeting or the end of a letter), by a given name from a list,
by two capitals in the middle of a sentence, or by what is said of a person behind it; and then wherever a part of it is
repeated. A rare given name alone, or a name in lower case, stays: docs/reference/verifiers.md has the figures.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from lockgate.core.redaction.secret_table import read_lists, read_secrets, read_shape
from lockgate.core.redaction.spans import SensitiveSpan, find_places
from lockgate.core.tables import read_sections

_SECTIONS = read_sections(__package__, "person_names.txt")
_LISTS = {section: frozenset(" ".join(lines).split()) for section, lines in _SECTIONS.items()}
# Given names that are hardly ever anything else, and those that count only before a surname.
_ALSO_WORDS = _LISTS["also words"]
_GIVEN = _LISTS["given"] - _ALSO_WORDS
_NOT_NAMES = _LISTS["not names"]

_MOST_PARTS = 5
# One part of a name, or an initial with its dot.
_PART = re.compile(r"[^\W\d_](?:[^\W\d_]|['’-](?=[^\W\d_])){1,39}|[^\W\d_]\.?(?![\w'’-])")
_BETWEEN = re.compile(r"[ \t]{1,3}(?:[\"'“(][^\W\d_]{2,20}[\"'”)][ \t])?|(?<=\.)(?=[^\W\d_])")
_COMMA = re.compile(r",[ \t]?(?=[^\W\d_])")
# A word that may begin with a capital; the searches check that it does.
_CAPITALISED = re.compile(
    r"[A-Z\u00c0-\u00de\u0100-\u024f\u0386-\u03ab\u0400-\u042f](?:[^\W\d_]|['’-](?=[^\W\d_])){1,39}(?![\w@/]|[.-]\w)"
)

_AROUND = read_lists("around names", ",")


def _read_anchor(roles: str, behind: str) -> tuple[frozenset[str], re.Pattern[str]]:
    """Return words, and the pattern of any of them with what stands between it and a name."""
    words = [word for role in roles.split() for word in _AROUND[role]]
    either = "|".join(sorted(map(re.escape, words), key=len, reverse=True))
    return frozenset(words), re.compile(rf"(?<![^\W_])(?:{either}){behind}", re.IGNORECASE)


_LABELS, *_ANCHORS = (_read_anchor(roles, behind) for roles, behind in read_secrets("behind names"))
# Everything the searches start from, in a text in lower case.
MARKS = _LABELS[0].union(*(words for words, _ in _ANCHORS))

_SAID_OF = read_shape("said of a person")


# Before a word, it makes the word a part of a longer one, of a path or of an address.
_GLUED = re.compile(r"[\w'’@/.-]")


def find_names(text: str, low: str, marks: frozenset[str]) -> Iterator[SensitiveSpan]:
    """Yield the names of people in a text, overlaps included; `marks` are those of MARKS that may be in it."""
    capitals = [
        match.span()
        for match in _CAPITALISED.finditer(text)
        if match[0][0].isupper() and not _GLUED.match(text[match.start() - 1 : match.start()])
    ]
    known: set[str] = set()
    for start, end in (*_names_behind_marks(text, low, marks), *_names_from_capitals(text, capitals)):
        yield SensitiveSpan("name", start, end)
        known.update(part for part in _PART.findall(text[start:end]) if _is_distinct(part))
    for start, end in capitals if known else ():
        # A name that was found is a name wherever it is repeated.
        if text[start:end].removesuffix("'s").removesuffix("’s") in known:
            yield SensitiveSpan("name", start, end)


def _names_behind_marks(text: str, low: str, marks: frozenset[str]) -> Iterator[tuple[int, int]]:
    for words, pattern in (_LABELS, *_ANCHORS):
        any_case = pattern is _LABELS[1]
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
    return plain in _ALSO_WORDS or _is_inside_sentence(text, start, end) or _SAID_OF.match(text, end) is not None


def _is_inside_sentence(text: str, start: int, end: int) -> bool:
    """Return whether capitals stand in the middle of a sentence, where only names have them, also those of places."""
    before = _WORD_BEFORE.search(text, max(0, start - 24), start)
    return before is not None and before[1].lower() not in ("the", "a", "an") and not _NUMBER_BEHIND.match(text, end)


_WORD_BEFORE = re.compile(r"(?<![^\W_])([a-z][a-z'’]*)[,;]? $")
_NUMBER_BEHIND = re.compile(r"(?:'s)? ?[0-9/+#]")


def _name_end(text: str, at: int, *, any_case: bool = False) -> int:
    """Return where the name that begins here ends; 0 if none does."""
    end = 0
    begin = at
    for _ in range(_MOST_PARTS):
        part = _PART.match(text, at)
        if part is None:
            break
        plain = _plain(part[0].removesuffix("."))
        if plain not in _AROUND["particle"] and not (at == begin and plain in _AROUND["title"]):
            if plain in _NOT_NAMES or not (any_case or part[0][0].isupper()):
                break
            # An initial alone is no name.
            if len(plain) > 1 or at > begin:
                end = part.end()
        gap = _BETWEEN.match(text, part.end()) or (any_case and _COMMA.match(text, part.end()))
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
