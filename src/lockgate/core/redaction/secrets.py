"""What a text must not take out of the process: its credentials (keys, tokens, passwords, cookies, private keys).

The rows of `secrets.tbl`, and the one search for what they describe; the personal data of `personal_data.py` are found
by the same search. It jumps from one cheap mark (a word, a number) to the next and looks a bounded way around it, so an
attacker cannot make the time more than linear.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import accumulate
from typing import NamedTuple

from lockgate.core.tables import read_table
from lockgate.core.text.readings import INVISIBLE, decode_base64, is_wordlike
from lockgate.core.text.readings import decode_run as decode_bytes

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


def read_rows(section: str) -> tuple[SecretRow, ...]:
    """Return the rows of `credentials`, which all rule sets remove, or of `people`."""
    rows = []
    for kind, *rulesets, at, before, pattern, check in read_secrets(section):
        words = frozenset(word for word in at.lstrip("~#").split(",") if word)
        flags = 0 if at == "#" else re.IGNORECASE
        behind = re.compile(rf"(?:{pattern_from(before)})\Z", flags) if before != "-" else None
        body = re.compile(pattern_from(pattern), flags)
        sets = RULESETS[rulesets[0] if rulesets else "all"]
        rows.append(SecretRow(kind, sets, words, at[0] == "~", behind, body, check_from(check)))
    return tuple(rows)


def marks_of(rows: Iterable[SecretRow]) -> frozenset[str]:
    """Return the words at which any of the rows begins, in lower case."""
    return frozenset[str]().union(*(row.marks for row in rows))


# So much of the text before a pattern is searched for what has to stand there.
_MOST_BEFORE = 66


def find_by_rows(rows: Sequence[SecretRow], text: str, low: str, marks: frozenset[str]) -> Iterator[SensitiveSpan]:
    """Yield what the rows find, overlaps included; `marks` are their words that may be in the text."""
    for row in rows:
        if row.whole and (not row.marks or any(mark in low for mark in row.marks & marks)):
            for found in row.pattern.finditer(text):
                yield from _spans_of(row, found)
        elif not row.whole:
            done = 0
            for place in find_places(low, row.marks & marks):
                if place >= done and (match := row.pattern.match(text, place)):
                    done = match.end()
                    yield from _spans_of(row, match)
    if numbered := [row for row in rows if not row.whole and not row.marks]:
        yield from _find_at_numbers(numbered, text)


def _find_at_numbers(numbered: Sequence[SecretRow], text: str) -> Iterator[SensitiveSpan]:
    any_row = _any_of(tuple([row.pattern.pattern for row in numbered]))
    for number in SHAPES["number"].finditer(text):
        # Most numbers are a year or a count.
        for row in numbered if any_row.match(text, number.start()) else ():
            if match := row.pattern.match(text, number.start()):
                yield from _spans_of(row, match)


@lru_cache(maxsize=16)
def _any_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern of which any of these is a match; each may repeat one separator, its group `s`."""
    return re.compile("|".join(re.sub(r"\(\?P([<=])s", rf"(?P\1s{n}", one) for n, one in enumerate(patterns)))


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


# --- credentials


def find_credentials(text: str, low: str, marks: frozenset[str]) -> Iterator[SensitiveSpan]:
    """Yield every credential in a text, overlaps included; `low` is it in lower case, `marks` those of MARKS in it."""
    yield from find_by_rows(_ROWS, text, low, marks)
    yield from _find_labelled(text, low, marks)
    for match in SHAPES["cookie"].finditer(text) if _COOKIE_MARK in marks and _COOKIE_MARK in low else ():
        for crumb in SHAPES["crumb"].finditer(match[1]):
            value = crumb[2].rstrip("\\)}]")
            if value and crumb[1].lower() not in _WORDS["cookie attributes"] and not _is_placeholder(crumb[2]):
                start = match.start(1) + crumb.start(2)
                yield SensitiveSpan("cookie", start, start + len(value))


def _row_of_keys(where: str, prefixes: str, rest: str) -> SecretRow:
    """Return the row of keys of a well-known shape."""
    strict = where == "boundary"
    begins = re.compile("|".join(map(re.escape, prefixes.split())), re.IGNORECASE)
    key = re.compile(f"{'(?<![A-Za-z0-9])' * strict}(?:{begins.pattern}){rest}", re.IGNORECASE)

    def check(_: re.Match[str], value: str) -> bool:
        body = begins.sub("", value, 1)
        if not DIGIT.search(body) and len(body) < 40:
            # Long random letters come without a digit now and then; words with hyphens always do.
            return not strict and len(set(body)) > 8 and not is_wordlike(body[:64])
        if not strict:
            return len(set(body)) > 4
        return any(not run.isdigit() and not run.isalpha() for run in re.findall("[A-Za-z0-9]{10,}", body))

    return SecretRow("api-key", RULESETS["all"], frozenset(prefixes.split()), False, None, key, check)


# --- long runs: unknown keys, encoded secrets, bytes

MAX_RUN_CHARACTERS = 65_536


def find_runs(
    text: str, marks: frozenset[str], inside: Callable[[str], Iterator[SensitiveSpan]] | None
) -> Iterator[SensitiveSpan]:
    """Yield generated keys of no known shape, and what `inside` finds in a run that decodes to text.

    A run with other text stays: the verifier should see that it is there. Without `inside` no run is decoded.
    """
    opened: list[tuple[tuple[int, int], str]] = []
    for match in SHAPES["run"].finditer(text) if _RUN_SHAPE in marks else ():
        if inside and (plain := decode_run(match[0])):
            opened.append((match.span(), plain))
        elif _is_random(match[0]):
            yield SensitiveSpan("token", *match.span())
        else:
            words = SHAPES["long word"].finditer(text, *match.span())
            yield from (SensitiveSpan("token", *word.span()) for word in words if _is_random(word[0]))
    # All decoded runs are searched together: a search has a high fixed cost.
    starts = [0, *accumulate(len(plain) + 2 for _, plain in opened)]
    done = -1
    for hit in inside("\n\n".join([plain for _, plain in opened])) if inside and opened else ():
        number = bisect_right(starts, hit.start) - 1
        if number != done:
            (start, end), plain = opened[number]
            yield SensitiveSpan(hit.kind, start, end, plain)
            done = number


def decode_run(run: str) -> str:
    """Return the plain text that a run of base64 or hexadecimal decodes to; empty if it is none, or only begins so."""
    body = run[:MAX_RUN_CHARACTERS].rstrip("=").encode("ascii", "replace")
    kind, said, _ = decode_bytes(body)
    whole = decode_base64(body.replace(b"-", b"+").replace(b"_", b"/")) if kind == "base64" else b""
    return said if said.translate(_LINE_SIGNS).isprintable() and len(said.encode()) >= len(whole) else ""


_LINE_SIGNS = str.maketrans("", "", "\n\r\t")
_CLASSES = {
    ord(ch): "u" if ch.isupper() else "l" if ch.islower() else "d" for ch in map(chr, range(128)) if ch.isalnum()
}
_SIGNS = str.maketrans("", "", "+/_=-")
_DOUBLED = str.maketrans("0123456789", "0246813579")


def _is_random(run: str) -> bool:
    """Return whether a run looks generated: letters and digits mixed as people never write them, without words.

    Hashes and UUIDs are hexadecimal in one case; names in code and paths are made of words, and change case and class
    only between them.
    """
    plain = run[:MAX_RUN_CHARACTERS].translate(_SIGNS)
    if len(plain) < 20 or plain.isdigit() or SHAPES["hash"].fullmatch(plain):
        return False
    classes = plain.translate(_CLASSES)
    small, capital, digits = classes.count("l"), classes.count("u"), classes.count("d")
    between = sum(map(classes.count, ("ud", "ld", "du", "dl")))
    changes = between + classes.count("ul") + classes.count("lu")
    if min(small, capital, digits) >= 2 and changes * 20 >= len(plain) * 7:
        return True
    # One case and digits, or hardly a digit: words in it decide. A date, a count or a repetition is no key.
    if (not digits and min(small, capital) < 4) or digits * 5 > len(plain) * 3 or len(set(plain[:256])) < 10:
        return False
    # People do not change from letters to digits and back so often without a sign in between.
    return (between >= 6 and run.isalnum()) or _is_scrambled(run[:256], is_wordlike)


def _is_scrambled(value: str, reads: Callable[[str], bool] = is_pronounceable) -> bool:
    """Return whether eight letters or more are no words, taken apart at capitals, digits and signs."""
    parts = SHAPES["hump"].findall(value)
    letters = sum(map(len, parts))
    if letters < 8:
        return False
    words = [part for part in parts if len(part) >= 3]
    long = sum(map(len, words))
    if not (value.islower() or value.isupper()) and long * 9 < letters * 7:
        # In names one word in five is as short as `By` and `Id`.
        return True
    digits = DIGIT.search(value) is not None
    if long * 2 < letters or (digits and value.isalnum() and letters < len(parts) * 3):
        # Single letters between signs are a list, or a row of flags.
        return digits
    return not reads(" ".join(words))


# --- values after a label

_Span = tuple[int, int] | None
_LABELS: dict[str, list[str]] = {}
for _how, _, _label in read_secrets("labels"):
    _LABELS.setdefault(_how, []).append(_label)
_LABEL = re.compile("|".join(f"(?P<{how}>{'|'.join(labels)})" for how, labels in _LABELS.items()))
# The beginnings of the labels, which are searched for first.
_LABEL_MARKS = frozenset(mark for _, begins, _ in read_secrets("labels") for mark in begins.split())
_WORDS = {name: frozenset(words) for name, words in read_lists("words").items()}
_QUOTES = frozenset("\"'`“«")
_CLOSING = ".,;:!?)}]\\"


def _find_labelled(text: str, low: str, marks: frozenset[str]) -> Iterator[SensitiveSpan]:
    at, inherited = 0, -1
    for number, place in enumerate(find_places(low, marks & _LABEL_MARKS)):
        label = _LABEL.match(low, place) if place >= at else None
        if label is None:
            continue
        if number > mark_limit(text):
            # Nothing but labels: the rest cannot be judged in time, so it does not leave.
            yield SensitiveSpan("secret", place, len(text))
            return
        at = label.end()
        strong = label["strong"] is not None or place == inherited
        assigned = None if label["code"] else SHAPES["after a label"].match(text, at)
        inner = _LABEL.match(low, assigned.end()) if assigned else None
        if assigned and inner and not inner["code"] and SHAPES["assigned"].match(text, inner.end()):
            # `key=token=…`: the inner label's value is judged, as strictly as the outer label demands.
            at, inherited = assigned.end(), assigned.end() if strong else -1
        elif span := _value_behind(text, low, label, assigned, strong=strong):
            at = max(at, span[1])
            yield SensitiveSpan("secret", *span)
        elif label["code"]:
            at = label.start() + 1


def _value_behind(text: str, low: str, label: re.Match[str], assigned: re.Match[str] | None, *, strong: bool) -> _Span:
    """Return the span of the secret behind a label, by how it is given: assigned, as an option, in a sentence."""
    at = label.end()
    if label["code"]:
        return code.span(1) if (code := SHAPES["code after a label"].match(text, at)) else None
    if assigned:
        query = SHAPES["in a query"].search(low, max(0, label.start() - 64), label.start()) is not None
        span = _value_at(text, assigned.end(), strong=strong, query=query)
        return span or (_passphrase_at(text, assigned.end()) if strong else None)
    # `--api-token X`
    is_option = SHAPES["option"].search(low[max(0, label.start() - 32) : label.start()]) is not None
    if is_option and (gap := SHAPES["blank after a label"].match(text, at)):
        return _value_at(text, gap.end(), strong=strong, query=False)
    gap = SHAPES["said after a label"].match(text, at)
    return _value_in_sentence(text, gap.end(), strong=strong) if gap else None


def _value_in_sentence(text: str, at: int, *, strong: bool) -> _Span:
    """Return the span of a value given in a sentence: "the password for the VPN is …"."""
    if SHAPES["quoted value"].match(text, at):
        return _value_at(text, at, strong=strong, query=False)
    match = SHAPES["bare value"].match(text, at)
    value = match[0].rstrip(_CLOSING) if match else ""
    is_secret = PLACEHOLDER.match(value) or _is_unusual(value, 5 if strong else 8)
    return (at, at + len(value)) if match and is_secret and not _is_placeholder(match[0]) else None


def _passphrase_at(text: str, at: int) -> _Span:
    """Return the span of several words without quotes that are no sentence: "correct horse battery staple"."""
    match = SHAPES["passphrase"].match(text, at)
    words = re.split("[ -]", match[0]) if match else []
    count = next((n for n, word in enumerate(words) if word in _WORDS["sentence words"]), len(words))
    # Nine words are an explanation, not a passphrase.
    return (at, at + len(" ".join(words[:count]))) if 4 <= count <= 8 else None


def _value_at(text: str, at: int, *, strong: bool, query: bool) -> _Span:
    """Return the span of the value that begins here, if it is a secret."""
    if match := SHAPES["quoted value"].match(text, at):
        is_secret = _is_secret_value(match[match.lastindex or 1], strong=strong, quoted=True, alone=True)
        return match.span(match.lastindex or 1) if is_secret else None
    match = SHAPES["bare value"].match(text, at + (text[at : at + 1] in _QUOTES))
    if match is None:
        return None
    start, value = match.start(), match[0]
    cut = re.search("[&#]", value) if query else re.search(r"[,;](?=[\w\"']{1,32}[:=])", value)
    value = value[: cut.start()] if cut else value
    if PLACEHOLDER.match(value):
        return None if _is_placeholder(value) else (start, start + len(value))
    value = value.rstrip(_CLOSING)
    end = start + len(value)
    line = text[end : end + 80].split("\n", 1)[0]
    alone = not line.strip(" \t\r\"'`*|</>&" + _CLOSING) or line.lstrip().startswith(("#", "//", "</", "&"))
    if not _is_secret_value(value, strong=strong, quoted=False, alone=alone):
        return None
    rest = SHAPES["rest of a value in a query" if query else "rest of a value"]
    return start, more.end() if len(value) == 256 and (more := rest.match(text, end)) else end


def _is_placeholder(value: str) -> bool:
    """Return whether a value is one of our placeholders and nothing more; an imitation with a tail is not."""
    match = PLACEHOLDER.match(value)
    return match is not None and not value[match.end() :].strip(_CLOSING + "&")


def _is_secret_value(value: str, *, strong: bool, quoted: bool, alone: bool) -> bool:
    plain = value.strip()
    if len(plain) < 3 or plain.lower() in _WORDS["ordinary values"] or PLACEHOLDER.fullmatch(plain):
        return False
    if not quoted and SHAPES["code"].fullmatch(plain):
        return False
    words = plain.split()
    if not strong:
        return len(words) == 1 and (_is_unusual(plain, 8) or (len(plain) >= 8 and _is_scrambled(plain[:64])))
    # More than eight words are an explanation; and removed text is unseen, so it has to be short.
    return len(words) <= 8 and not SHAPES["stand-in"].fullmatch(plain) if quoted else alone or _is_unusual(plain, 4)


def _is_unusual(value: str, least: int) -> bool:
    """Return whether a value looks hard to guess: digits among letters, or signs and capitals inside."""
    if len(value) < least or (value.isdigit() and least > 5) or SHAPES["code"].fullmatch(value):
        return False
    if DIGIT.search(value):
        return not SHAPES["no secret"].fullmatch(value)
    if len(value) >= 20:
        return not is_wordlike(value[:64])
    return least <= 5 and SHAPES["sign inside"].search(value) is not None


# --- checks of what a pattern matched


def _is_guarded(_: re.Match[str], value: str) -> bool:
    return _is_unusual(value[:256], 8) or _is_scrambled(value[:64])


def _is_authorization(match: re.Match[str], value: str) -> bool:
    """Return whether the value behind `Authorization:` is a credential; after a scheme's name all but prose is one."""
    if _is_placeholder(value):
        return False
    if PLACEHOLDER.match(value) or _is_guarded(match, value):
        return True
    if match[1] is None or SHAPES["code"].fullmatch(value[:256]) or value.lower() in _WORDS["ordinary values"]:
        return False
    return not (is_wordlike(f"{value} {value}"[:512]) and SHAPES["words after it"].match(match.string, match.end()))


def _is_mailbox(match: re.Match[str], _: str) -> bool:
    before = match.string[max(0, match.start() - 330) : match.start()]
    return not (SHAPES["shared account"].search(before[-4:]) or SHAPES["user in an address"].search(before))


def is_luhn_valid(digits: str) -> bool:
    """Return whether digits pass the check of card numbers and of some national numbers."""
    turned = digits[::-1]
    return (sum(map(int, turned[::2])) + sum(map(int, turned[1::2].translate(_DOUBLED)))) % 10 == 0


def _weigh(number: str, weights: Iterable[int]) -> int:
    return sum(map(int.__mul__, map(int, number), weights))


def _is_cpf(number: str) -> bool:
    sums = (_weigh(number[:size], range(size + 1, 1, -1)) * 10 % 11 % 10 for size in (9, 10))
    return len(set(number)) > 1 and list(sums) == list(map(int, number[9:11]))


def _is_dni(number: str) -> bool:
    digits = number[:-1].upper().translate(str.maketrans("XYZ", "012"))
    return "TRWAGMYFPDXBNJZSQVHLCKE"[int(digits) % 23] == number[-1].upper()


def _is_chinese(number: str) -> bool:
    weights = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
    return "10X98765432"[_weigh(number[:17], weights) % 11] == number[17].upper()


def _of_number(is_valid: Callable[[str], bool]) -> Check:
    return lambda _, value: is_valid(re.sub("[^0-9A-Za-z]", "", value))


def _is_login(said: bytes) -> bool:
    plain = said.decode("utf-8", "replace").strip()
    if "\ufffd" in plain and len(said) >= 12:
        # Old clients write Latin letters in their own bytes; a word that happens to decode is short.
        plain = said.decode("latin-1").strip()
    return ":" in plain and plain.translate(_LINE_SIGNS).isprintable() and "\ufffd" not in plain


_CHECKS: dict[str, Check] = {
    "-": lambda *_: True,
    "hard to guess": _is_guarded,
    "authorization": _is_authorization,
    "login": lambda _, value: _is_login(decode_base64(value.encode())),
    "signed": lambda _, value: "." in value and len(value) >= 24,
    "unredacted": lambda _, value: PLACEHOLDER.search(value) is None,
    "school": lambda match, _: (
        SHAPES["school"].search(match.string, max(0, match.start() - 60), match.end() + 40) is not None
    ),
    "mailbox": _is_mailbox,
    "luhn": _of_number(is_luhn_valid),
    "mod97": _of_number(lambda digits: 97 - int(digits[:13]) % 97 == int(digits[13:15])),
    "cpf": _of_number(_is_cpf),
    "dni": _of_number(_is_dni),
    "chinese": _of_number(_is_chinese),
}


def check_from(name: str) -> Check:
    """Return a check of the table; `phone:8` and `digits:5` name the fewest digits."""
    kind, _, least = name.partition(":")
    return partial(_has_digits, kind, int(least)) if least else _CHECKS[name]


def _has_digits(kind: str, least: int, _: re.Match[str], value: str) -> bool:
    count = len(DIGIT.findall(value))
    return least <= count and not (kind == "phone" and (count > 15 or SHAPES["date-like"].match(value)))


_COOKIE_MARK = "cookie"
_ROWS = (*(_row_of_keys(*row) for *row, _ in read_secrets("keys")), *read_rows("credentials"))
# Everything the searches above start from, in a text in lower case.
MARKS = marks_of(_ROWS) | _LABEL_MARKS | {_COOKIE_MARK}

# What the engine looks for before the slow search for runs.
_RUN_SHAPE = "a run"
ENGINE_SHAPES = {_RUN_SHAPE: "[a-z0-9+/_-]{15}"}
