"""The credentials in a text: keys, tokens, passwords, cookies, private keys."""

from __future__ import annotations

import binascii
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import accumulate

from lockgate.core.redaction.secret_table import (
    DIGIT,
    PLACEHOLDER,
    RULESETS,
    SHAPES,
    SecretRow,
    SensitiveSpan,
    find_by_rows,
    find_places,
    is_pronounceable,
    mark_limit,
    marks_of,
    read_lists,
    read_rows,
    read_secrets,
)
from lockgate.core.text.confusables import is_wordlike
from lockgate.core.text.decode import decode_base64


def find_credentials(text: str, low: str, marks: frozenset[str]) -> Iterator[SensitiveSpan]:
    """Yield every credential in a text, overlaps included; `low` is it in lower case, `marks` those of MARKS in it."""
    yield from find_by_rows(_ROWS, text, low, marks)
    yield from _find_labelled(text, low, marks)
    yield from _find_cookies(text, low, marks)


# --- keys of well-known shapes


def _row_of_keys(where: str, prefixes: str, rest: str) -> SecretRow:
    strict = where == "boundary"
    begins = re.compile("|".join(map(re.escape, prefixes.split())), re.IGNORECASE)
    key = re.compile(f"{'(?<![A-Za-z0-9])' * strict}(?:{begins.pattern}){rest}", re.IGNORECASE)

    def check(_: re.Match[str], value: str) -> bool:
        return _is_keylike(begins.sub("", value, 1), strict=strict)

    return SecretRow("api-key", RULESETS["all"], frozenset(prefixes.split()), False, None, key, check)


def _is_keylike(body: str, *, strict: bool) -> bool:
    if not DIGIT.search(body) and len(body) < 40:
        # Long random letters come without a digit now and then; words with hyphens always do.
        return not strict and len(set(body)) > 8 and not is_wordlike(body[:64])
    if strict:
        runs = re.findall("[A-Za-z0-9]{10,}", body)
        return any(not run.isdigit() and not run.isalpha() for run in runs)
    return len(set(body)) > 4


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
        else:
            yield from _generated_keys_in(match)
    # All decoded runs are searched together: a search has a high fixed cost.
    starts = [0, *accumulate(len(plain) + 2 for _, plain in opened)]
    done = -1
    for hit in inside("\n\n".join([plain for _, plain in opened])) if inside and opened else ():
        number = bisect_right(starts, hit.start) - 1
        if number != done:
            (start, end), plain = opened[number]
            yield SensitiveSpan(hit.kind, start, end, plain)
            done = number


def _generated_keys_in(match: re.Match[str]) -> Iterator[SensitiveSpan]:
    if _is_random(match[0]):
        yield SensitiveSpan("token", *match.span())
        return
    for piece in SHAPES["long word"].finditer(match[0]):
        if _is_random(piece[0]):
            yield SensitiveSpan("token", match.start() + piece.start(), match.start() + piece.end())


def decode_run(run: str) -> str:
    """Return the plain text that a run of base64 or hexadecimal decodes to; empty if it is none."""
    digits = SHAPES["hexadecimal"].fullmatch(run[: MAX_RUN_CHARACTERS * 2])
    body = run.rstrip("=")[:MAX_RUN_CHARACTERS].translate(_STANDARD)
    for data in (binascii.unhexlify(digits[1]) if digits else b"", decode_base64(body.encode())):
        plain = data.decode("utf-8", "replace")
        if plain and "\ufffd" not in plain and plain.translate(_LINE_SIGNS).isprintable():
            return plain
    return ""


_STANDARD = str.maketrans("-_", "+/")
_LINE_SIGNS = str.maketrans("", "", "\n\r\t")
_CLASSES = {
    ord(ch): "u" if ch.isupper() else "l" if ch.islower() else "d" for ch in map(chr, range(128)) if ch.isalnum()
}
_SIGNS = str.maketrans("", "", "+/_=-")


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
    if min(small, capital, digits) >= 2:
        changes = sum(map(classes.count, ("ul", "ud", "lu", "ld", "du", "dl")))
        if changes * 20 >= len(plain) * 7:
            return True
    # One case and digits, or hardly a digit: words in it decide. A date, a count or a repetition is no key.
    if (not digits and min(small, capital) < 4) or digits * 5 > len(plain) * 3 or len(set(plain[:256])) < 10:
        return False
    between = sum(map(classes.count, ("ud", "ld", "du", "dl")))
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

_LABELS: dict[str, list[str]] = {}
for _how, _, _label in read_secrets("labels"):
    _LABELS.setdefault(_how, []).append(_label)
_LABEL = re.compile("|".join(f"(?P<{how}>{'|'.join(labels)})" for how, labels in _LABELS.items()))
# The beginnings of the labels, which are searched for first.
_LABEL_MARKS = frozenset(mark for _, begins, _ in read_secrets("labels") for mark in begins.split())
_WORDS = read_lists("words")
_ORDINARY = frozenset(_WORDS["ordinary values"])


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
        if assigned:
            value = assigned.end()
            inner = _LABEL.match(low, value)
            if inner and not inner["code"] and SHAPES["assigned"].match(text, inner.end()):
                # `key=token=…`: the inner label's value is judged, as strictly as the outer label demands.
                at, inherited = value, value if strong else -1
                continue
        span = _value_behind(text, low, label, assigned, strong=strong)
        if span:
            at = max(at, span[1])
            yield SensitiveSpan("secret", *span)
        elif label["code"]:
            at = label.start() + 1


_Span = tuple[int, int] | None


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
    if gap := SHAPES["said after a label"].match(text, at):
        return _value_in_sentence(text, gap.end(), strong=strong)
    return None


_QUOTES = frozenset("\"'`“«")
_IN_SENTENCES = frozenset(_WORDS["sentence words"])


def _passphrase_at(text: str, at: int) -> _Span:
    """Return the span of several words without quotes that are no sentence: "correct horse battery staple"."""
    match = SHAPES["passphrase"].match(text, at)
    words = re.split("[ -]", match[0]) if match else []
    count = next((n for n, word in enumerate(words) if word in _IN_SENTENCES), len(words))
    # Nine words are an explanation, not a passphrase.
    return (at, at + len(" ".join(words[:count]))) if 4 <= count <= 8 else None


def _value_at(text: str, at: int, *, strong: bool, query: bool) -> _Span:
    """Return the span of the value that begins here, if it is a secret."""
    if SHAPES["quoted value"].match(text, at):
        return _quoted_value_at(text, at, strong=strong)
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
    if len(value) == 256 and (more := rest.match(text, end)):
        end = more.end()
    return start, end


_CLOSING = ".,;:!?)}]\\"


def _quoted_value_at(text: str, at: int, *, strong: bool) -> _Span:
    match = SHAPES["quoted value"].match(text, at)
    group = (match.lastindex or 1) if match else 0
    is_secret = match and _is_secret_value(match[group], strong=strong, quoted=True, alone=True)
    return match.span(group) if match and is_secret else None


def _is_placeholder(value: str) -> bool:
    """Return whether a value is one of our placeholders and nothing more; an imitation with a tail is not."""
    match = PLACEHOLDER.match(value)
    return match is not None and not value[match.end() :].strip(_CLOSING + "&")


def _value_in_sentence(text: str, at: int, *, strong: bool) -> _Span:
    """Return the span of a value given in a sentence: "the password for the VPN is …"."""
    if SHAPES["quoted value"].match(text, at):
        return _quoted_value_at(text, at, strong=strong)
    match = SHAPES["bare value"].match(text, at)
    value = match[0].rstrip(".,;:!?)}]") if match else ""
    if match and not _is_placeholder(match[0]) and (PLACEHOLDER.match(value) or _is_unusual(value, 5 if strong else 8)):
        return match.start(), match.start() + len(value)
    return None


def _is_secret_value(value: str, *, strong: bool, quoted: bool, alone: bool) -> bool:
    plain = value.strip()
    if len(plain) < 3 or plain.lower() in _ORDINARY or PLACEHOLDER.fullmatch(plain):
        return False
    if not quoted and SHAPES["code"].fullmatch(plain):
        return False
    words = plain.split()
    if strong:
        # More than eight words are an explanation; and removed text is unseen, so it has to be short.
        if quoted:
            return len(words) <= 8 and not re.fullmatch(r"[*•.xX#_-]+|\$\{?\w+\}?|<[^<>]*>|\{\{.*\}\}", plain)
        return alone or _is_unusual(plain, 4)
    return len(words) == 1 and (_is_unusual(plain, 8) or (len(plain) >= 8 and _is_scrambled(plain[:64])))


def _is_unusual(value: str, least: int) -> bool:
    """Return whether a value looks hard to guess: digits among letters, or signs and capitals inside."""
    if len(value) < least or (value.isdigit() and least > 5) or SHAPES["code"].fullmatch(value):
        return False
    if DIGIT.search(value):
        # A version, an amount, a date or a host is no secret; neither is a path.
        return not re.fullmatch(
            r"v?[0-9]+(?:[.,:/%-][0-9]+)*[%a-z]{0,3}|[\w.-]+\.[a-z]{2,4}(?:/.*)?|(?:\.{0,2}/).*", value
        )
    if len(value) >= 20:
        return not is_wordlike(value[:64])
    return bool(re.search(r"[A-Za-z][@$!%^&*+=~#?][^\s]", value)) and least <= 5


# --- headers

_COOKIE_ATTRIBUTES = frozenset("path expires domain max-age samesite priority version".split())
_COOKIE_MARK = "cookie"


def _find_cookies(text: str, low: str, marks: frozenset[str]) -> Iterator[SensitiveSpan]:
    for match in SHAPES["cookie"].finditer(text) if _COOKIE_MARK in marks and _COOKIE_MARK in low else ():
        for crumb in SHAPES["crumb"].finditer(match[1]):
            value = crumb[2].rstrip("\\)}]")
            if value and crumb[1].lower() not in _COOKIE_ATTRIBUTES and not _is_placeholder(crumb[2]):
                start = match.start(1) + crumb.start(2)
                yield SensitiveSpan("cookie", start, start + len(value))


def _is_guarded(_: re.Match[str], value: str) -> bool:
    return _is_unusual(value[:256], 8) or _is_scrambled(value[:64])


def _is_authorization(match: re.Match[str], value: str) -> bool:
    """Return whether the value behind `Authorization:` is a credential; after a scheme's name all but prose is one."""
    if _is_placeholder(value):
        return False
    if PLACEHOLDER.match(value) or _is_guarded(match, value):
        return True
    if match[1] is None or SHAPES["code"].fullmatch(value[:256]) or value.lower() in _ORDINARY:
        return False
    return not (is_wordlike(f"{value} {value}"[:512]) and SHAPES["words after it"].match(match.string, match.end()))


_ROWS = (
    *(_row_of_keys(*row) for *row, _ in read_secrets("keys")),
    *read_rows(
        "credentials",
        {
            "hard to guess": _is_guarded,
            "authorization": _is_authorization,
            "login": lambda _, value: ":" in decode_run(value),
        },
    ),
)
# Everything the searches above start from, in a text in lower case.
MARKS = marks_of(_ROWS) | _LABEL_MARKS | {_COOKIE_MARK}

# What the engine looks for before the slow search for runs.
_RUN_SHAPE = "a run"
ENGINE_SHAPES = {_RUN_SHAPE: "[a-z0-9+/_-]{15}"}
