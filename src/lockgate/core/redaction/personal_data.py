"""The personal data in a text: addresses, and the numbers of persons, accounts and records.

Numbers with a check digit or letter (Luhn, mod 97) have to pass it: a verifier cannot judge a request from which order
numbers, dates and hashes were removed. Every search is linear: it looks a bounded way around a cheap mark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import accumulate

from lockgate.core.redaction.spans import DIGIT, SensitiveSpan, find_places, mark_limit


def find_personal_data(
    text: str, low: str, marks: frozenset[str], ruleset: str, *, joined: bool = False
) -> Iterator[SensitiveSpan]:
    """Yield the personal data in a text, overlaps included; `joined` if its line breaks were taken out.

    `marks` are those of MARKS that may be in the text; it is searched for no other. The rule set `secrets` finds only
    numbers that are as good as a key: addresses that a call sends something to stay.
    """
    places_to_send = ruleset != "secrets"
    if places_to_send:
        yield from _find_emails(text, low, marks)
    if DIGIT.search(text):
        if places_to_send and _IBAN_SHAPE in marks:
            yield from _find_ibans(text, joined=joined)
        if _CARD_SHAPE in marks:
            yield from _find_cards(text)
        yield from _find_numbers(text, low, marks, ruleset)


# --- addresses

_AT_DOMAIN = re.compile(r"@((?:[^\W_][\w-]{0,62}\.){1,8}(?:[^\W\d_]{2,24}|xn--[a-z0-9-]{2,59}))")
_LOCAL_BACKWARDS = re.compile(r"[\w.%+'’!#$&*/=?^`{|}~-]{1,64}")
_SPELLED_DOMAIN = re.compile(
    r"[\[({<] ?at ?[\])}>]\s{0,2}([\w-]{1,63}(?:\s{0,2}(?:\.|[\[({<] ?dot ?[\])}>])\s{0,2}[\w-]{1,63}){1,6})",
    re.IGNORECASE,
)
# In a URL this `@` ends the user name and password, which are `url-credentials`; the host behind it stays.
_USERINFO_BEFORE = re.compile(r"://(?:[^\s/?#@]{0,256}|[^\s/?#@:]{0,64}:(?![0-9]{1,5}/)[^\s@]{1,256})$")
_SPELLED_MARKS = frozenset(f"{bracket}{space}at" for bracket in "[({<" for space in ("", " "))
_SHARED_ADDRESSES = frozenset(["git", "hg", "svn"])


def _find_emails(text: str, low: str, marks: frozenset[str]) -> Iterator[SensitiveSpan]:
    at = text.find("@")
    while at >= 0:
        domain = _AT_DOMAIN.match(text, at)
        if domain and not _USERINFO_BEFORE.search(text[max(0, at - 330) : at]):
            local = _LOCAL_BACKWARDS.match(text[max(0, at - 64) : at][::-1])
            if local:
                name = local[0][::-1].lstrip(".%+'’!#$&*/=?^`{|}~-")
                if name and name.lower() not in _SHARED_ADDRESSES:
                    yield SensitiveSpan("email", at - len(name), domain.end())
        at = text.find("@", domain.end() if domain else at + 1)
    for mark in find_places(low, marks & _SPELLED_MARKS):
        if domain := _SPELLED_DOMAIN.match(text, mark):
            before = text[max(0, mark - 66) : mark].rstrip(" ")
            if local := _LOCAL_BACKWARDS.match(before[::-1]):
                start = max(0, mark - 66) + len(before) - len(local[0])
                yield SensitiveSpan("email", start, domain.end())


# --- numbers with a check

_IBAN_SIZES = {
    **dict.fromkeys("NO".split(), 15),
    **dict.fromkeys("BE".split(), 16),
    **dict.fromkeys("DK FI FO GL NL SD".split(), 18),
    **dict.fromkeys("MK SI".split(), 19),
    **dict.fromkeys("AT BA EE KZ LT LU XK MN".split(), 20),
    **dict.fromkeys("CH CR HR LI LV".split(), 21),
    **dict.fromkeys("BG BH DE GB GE IE ME RS VA".split(), 22),
    **dict.fromkeys("AE GI IL IQ OM SO TL".split(), 23),
    **dict.fromkeys("AD CZ ES MD PK RO SA SE SK TN VG".split(), 24),
    **dict.fromkeys("LY PT ST".split(), 25),
    **dict.fromkeys("IS TR".split(), 26),
    **dict.fromkeys("FR GR IT MC MR SM DJ BI".split(), 27),
    **dict.fromkeys("AL AZ BY CY DO GT HU LB PL SV NI".split(), 28),
    **dict.fromkeys("BR EG PS QA UA".split(), 29),
    **dict.fromkeys("JO KW MU YE".split(), 30),
    **dict.fromkeys("MT SC".split(), 31),
    **dict.fromkeys("LC".split(), 32),
    **dict.fromkeys("RU".split(), 33),
}
_JOINED_IBAN = re.compile(r"([A-Za-z]{2})[ -]?[0-9]{2}(?:[ \t.-]{0,2}[A-Za-z0-9]){11,29}")
_IBAN = re.compile(rf"(?<![A-Za-z0-9]){_JOINED_IBAN.pattern}")
_ALNUM = re.compile("[A-Za-z0-9]")
_IBAN_SIGNS = str.maketrans("", "", " \t.-")
_IBAN_DIGITS = {ord(ch): str(i) for i, ch in enumerate("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ")}


def _find_ibans(text: str, *, joined: bool) -> Iterator[SensitiveSpan]:
    # Where lines were joined, a word of a neighbouring line may stand right beside the number.
    at = 0
    left = mark_limit(text) // 2
    while match := (_JOINED_IBAN if joined else _IBAN).search(text, at):
        left -= 1
        if left < 0:
            yield SensitiveSpan("iban", match.start(), len(text))
            return
        at = match.start() + 2
        size = _IBAN_SIZES.get(match[1].upper(), 0)
        code = match[0].translate(_IBAN_SIGNS)[:size].upper() if size else ""
        if len(code) < size or not size or int((code[4:] + code[:4]).translate(_IBAN_DIGITS)) % 97 != 1:
            continue
        end = match.start() + [i for i, ch in enumerate(match[0]) if ch.isalnum()][size - 1] + 1
        if joined or not _ALNUM.match(text, end):
            yield SensitiveSpan("iban", match.start(), end)
            at = end


_CARD = re.compile(r"(?<![0-9])[0-9](?:[ \t.\u2013\n-]?+[0-9]){11,}+")
# The groups of digits that are on the card, with any separator that people put between them.
_CARD_IN_GROUPS = re.compile(
    r"(?<![0-9])[2-6][0-9]{3}(?:([ \t]{2,3}|[ \t]?[_/,;:|+~\u2010-\u2015-][ \t]?|\.[ \t])"
    r"(?:[0-9]{4}\1[0-9]{4}\1[0-9]{4}|[0-9]{6}\1[0-9]{4,5}))(?![0-9])"
)
_GROUP = re.compile("[0-9]+")
_CARD_SIZES: tuple[tuple[re.Pattern[str], tuple[int, ...]], ...] = (
    (re.compile("4"), (16, 19)),
    (re.compile("5[1-5]|2(?:22[1-9]|2[3-9]|[3-6]|7[01]|720)"), (16,)),
    (re.compile("3[47]"), (15,)),
    (re.compile("3(?:0[0-5]|[689])"), (14, 16)),
    (re.compile("35"), (16,)),
    (re.compile("6(?:011|4[4-9]|5|2)"), (16, 19)),
    (re.compile("5[0678]|6[0-9]"), (16, 19, 18)),
)
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
    spans = [group.span() for group in _GROUP.finditer(said)]
    if len(spans) > _MOST_SMALL_GROUPS and len(spans) * 3 > len(said):
        return  # a table of digits
    digits = "".join([said[start:end] for start, end in spans])
    # The sums up to each digit, for both ways of doubling every second one, check any number in the row at once.
    sums: list[list[int]] = []
    firsts = list(accumulate([end - start for start, end in spans], initial=0))
    ends = {last: end for last, (_, end) in zip(firsts[1:], spans, strict=True)}
    done = 0
    for first, (start, _) in zip(firsts, spans, strict=False):
        if first < done or digits[first] not in "23456" or len(digits) - first < 14:
            continue
        for size in _SIZES_OF[int(digits[first : first + 4])]:
            last = first + size
            if last not in ends:
                continue
            sums = sums or _luhn_sums(digits)
            check = sums[last % 2]
            if (check[last] - check[first]) % 10 == 0:
                spelled = said[start : ends[last]]
                # A number on two lines counts only in the groups that are on the card.
                if "\n" not in spelled or _ON_THE_CARD.fullmatch(spelled):
                    yield SensitiveSpan("card", at + start, at + ends[last])
                    done = last
                    break


def _luhn_sums(digits: str) -> list[list[int]]:
    """Return the running sums with every second digit doubled, from the first digit on and from the second on."""
    sums = []
    for doubled in (0, 1):
        values = list(digits)
        values[doubled::2] = digits[doubled::2].translate(_DOUBLED)
        sums.append(list(accumulate(map(int, values), initial=0)))
    return sums


_ON_THE_CARD = re.compile(r"[0-9]{4}(?:[\s-]{1,2}[0-9]{4}){3}")
_DOUBLED = str.maketrans("0123456789", "0246813579")


def is_luhn_valid(digits: str) -> bool:
    """Return whether digits pass the check of card numbers and of some national numbers."""
    turned = digits[::-1]
    return sum(map(int, turned[::2])) % 10 == -sum(map(int, turned[1::2].translate(_DOUBLED))) % 10


def _is_mod97_valid(digits: str) -> bool:
    return 97 - int(digits[:13]) % 97 == int(digits[13:15])


def _is_cpf(digits: str) -> bool:
    if len(set(digits)) == 1:
        return False
    for size in (9, 10):
        left = sum(int(digit) * weight for digit, weight in zip(digits, range(size + 1, 1, -1), strict=False)) * 10 % 11
        if left % 10 != int(digits[size]):
            return False
    return True


def _is_dni(number: str) -> bool:
    number = number.upper()
    digits = number[:-1].translate(str.maketrans("XYZ", "012"))
    return "TRWAGMYFPDXBNJZSQVHLCKE"[int(digits) % 23] == number[-1]


def _is_chinese_id(number: str) -> bool:
    weights = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
    return "10X98765432"[sum(int(d) * w for d, w in zip(number, weights, strict=False)) % 11] == number[17].upper()


def _always(_: str) -> bool:
    return True


class _NumberFormats:
    """Several ways to write a number, each with its own check; one search finds where any of them begins.

    A way may hold one group `s` for the separator that it repeats. Letters of other scripts end a number, since Chinese
    and Japanese have no spaces.
    """

    def __init__(self, edge: str, *ways: tuple[str, Callable[[str], bool]]) -> None:
        self._ways = [(re.compile(edge + source, re.ASCII), check) for source, check in ways]
        either = "|".join(
            source.replace("(?P<s>", f"(?P<s{n}>").replace("(?P=s)", f"(?P=s{n})") for n, (source, _) in enumerate(ways)
        )
        self._any = re.compile(f"{edge}(?:{either})", re.ASCII)

    def find_spans(self, text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
        # In steps: one search of a megabyte of digits would keep every other thread waiting.
        for border in range(start + _STEP, end + _STEP, _STEP):
            while start < border and (found := self._any.search(text, start, min(end, border + _LONGEST))):
                start = found.start()
                if start >= border:
                    break
                for way, check in self._ways:
                    if (match := way.match(text, start, end)) and check(match[0]):
                        yield match.span()
                start += 1
            start = border


_STEP, _LONGEST = 8_192, 64
_OUT = r"(?![A-Za-z0-9]|[.-][0-9])"


def _number(source: str, check: Callable[[str], bool]) -> tuple[str, Callable[[str], bool]]:
    return f"{source}{_OUT}", lambda said: check(re.sub("[^0-9A-Za-z]", "", said))


_NATIONAL = _NumberFormats(
    r"(?<![A-Za-z0-9.-])(?<![0-9][.])",
    _number(r"(?!000|666)[0-8][0-9]{2}(?P<s>[- .])(?!00)[0-9]{2}(?P=s)(?!0000)[0-9]{4}", _always),
    _number(r"9[0-9]{2}(?P<s>[- ])[5-9][0-9](?P=s)[0-9]{4}", _always),
    _number(r"(?<![0-9] )[1-79][0-9]{2}(?P<s>[- ])[0-9]{3}(?P=s)[0-9]{3}", is_luhn_valid),
    _number(r"[0-9]{3}\.[0-9]{3}\.[0-9]{3}-[0-9]{2}", _is_cpf),
    _number("[12] ?[0-9]{2} ?(?:0[1-9]|1[0-2]) ?[0-9]{2} ?[0-9]{3} ?[0-9]{3} ?[0-9]{2}", _is_mod97_valid),
    _number("(?:[0-9]{8}|[XYZxyz]-?[0-9]{7})-?[A-HJ-NP-TV-Za-hj-np-tv-z]", _is_dni),
    _number("[0-9]{6}(?:19|20)[0-9]{2}(?:0[1-9]|1[0-2])[0-3][0-9][0-9]{3}[0-9Xx]", _is_chinese_id),
    _number("[0-9]{6}[-+][0-9]{4}", is_luhn_valid),
    _number("(?!BG|GB|KN|NK|NT|TN|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z](?: ?[0-9]{2}){3} ?[A-D]", _always),
    _number("(?i:[A-Z]{6}[0-9]{2}[A-EHLMPRST][0-9]{2}[A-Z][0-9]{3}[A-Z])", _always),
    _number("[A-Z]{3}[ABCFGHLJPT][A-Z][0-9]{4}[A-Z]", _always),
    _number("[STFGM][0-9]{7}[A-Z]", _always),
)


def _phone(source: str, least: int) -> tuple[str, Callable[[str], bool]]:
    return source, lambda said: least <= len(DIGIT.findall(said)) <= 15 and not _DATE_LIKE.match(said)


_DATE_LIKE = re.compile(r"\(?[0-9]{1,2}([./ -])[0-9]{1,2}\1(?:[0-9]{2}|(?:19|20)[0-9]{2})(?![0-9])")
_PHONES = _NumberFormats(
    "(?<![A-Za-z0-9])",
    _phone(
        r"(?<!\+)(?:\+|00(?=[1-9][0-9 ]))[ ]?[1-9](?:[ \t().\u2010-\u2013/-]{0,2}[0-9]){6,14}(?![0-9])",
        8,
    ),
    _phone(
        r"(?<![.-])(?:1[ .-])?(?:\([2-9][0-9]{2}\) ?|[2-9][0-9]{2}[ .\u2010-\u2013-])[2-9][0-9]{2}"
        r"[ .\u2010-\u2013-][0-9]{4}(?![A-Za-z0-9-]|\.[0-9])",
        10,
    ),
    _phone(
        r"(?<![.,:/-])(?<![0-9] )\(?0[1-9][0-9]{0,4}\)?(?:[ /\u2010-\u2013-]{1,2}[0-9]{2,8}){1,5}"
        r"(?![A-Za-z0-9]|[.,:/-][0-9])",
        9,
    ),
)


def word_set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# Between a label and its number.
TO_NUMBER = r"[ \t_-]{0,2}(?:number|nummer|num|no\.?|nr\.?|id|#)?[\"' \t]{0,3}(?:is|was|[:=#.])?[\"' \t#]{0,3}"
_NATIONAL_WORDS = (
    r"ssn|social[ -]security|itin|passport|national[ -](?:id|insurance)|nin|nhs|tax(?:payer)?[ -]?(?:id|file)|"
    r"steuer|tin|sin|aadhaar|pesel|bsn|personnummer|identity card|driver'?s? licen[cs]e|driving licen[cs]e"
)
_LABELLED: tuple[tuple[str, frozenset[str], re.Pattern[str], int], ...] = (
    (
        "national-number",
        word_set(
            "ssn social itin passport national nin nhs tax steuer tin sin aadhaar pesel bsn personn identity driv"
        ),
        re.compile(
            rf"(?<![a-z])(?:{_NATIONAL_WORDS})(?![a-z]){TO_NUMBER}"
            r"((?=[A-Za-z.-]{0,6}[0-9])(?:[0-9]{2,6}(?:[ .-][0-9]{2,6}){1,6}|[A-Za-z0-9][A-Za-z0-9.-]{4,19}))",
            re.IGNORECASE,
        ),
        5,
    ),
    (
        "phone",
        word_set("phone tel mobile cell fax whatsapp handy"),
        re.compile(
            r"(?:phone|tel(?:ephone|efon)?|mobile|cell|fax|whatsapp|handy)(?![a-z])"
            rf"{TO_NUMBER}(\(?[0-9](?:[ ().\u2010-\u2013/-]{{0,2}}[0-9]){{5,14}})(?![0-9])",
            re.IGNORECASE,
        ),
        6,
    ),
    (
        "phone",
        word_set("call text ring dial reach"),
        re.compile(
            r"(?<![a-z])(?:(?:call|text|ring|dial)(?: (?:me|us|him|her|them))?|reach (?:me|us|him|her|them))"
            r"(?: (?:back|now|today))?(?: (?:on|at|under|via))?:? {1,2}"
            r"(\(?[0-9](?:[ ().\u2010-\u2013/-]{0,2}[0-9]){6,14})(?![0-9A-Za-z])",
            re.IGNORECASE,
        ),
        7,
    ),
    (
        "national-number",
        word_set("social"),
        # The word alone means many things; before nine digits it means only this.
        re.compile(
            r"(?<![a-z])social(?![a-z])(?:,| number| no\.?)?(?: is| was|:)?[ #]{1,2}([0-9]{9})(?![0-9])", re.IGNORECASE
        ),
        9,
    ),
)


def _find_numbers(text: str, low: str, marks: frozenset[str], ruleset: str) -> Iterator[SensitiveSpan]:
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
    for kind, words, pattern, least in _LABELLED:
        if ruleset == "secrets" and kind == "phone":
            continue
        for place in find_places(low, marks & words):
            hit = pattern.match(text, place)
            if hit and len(DIGIT.findall(hit[1])) >= least and not (kind == "phone" and _DATE_LIKE.match(hit[1])):
                yield SensitiveSpan(kind, *hit.span(1))


# The shortest numbers, from the first digit to the last; right behind letters four digits are enough.
_NATIONAL_LEAST, _PHONE_LEAST = 6, 8
# A stretch with four digits or more close together; its surroundings may hold letters and signs.
_DIGIT_AREA = re.compile("[0-9](?:[^0-9]{0,4}+[0-9]){3,}+")


# Everything the searches above start from, in a text in lower case.
MARKS = _SPELLED_MARKS.union(*(words for _, words, _, _ in _LABELLED))

_IBAN_SHAPE, _CARD_SHAPE = "letters and digits of an account", "digits of a card"
# Shapes that the engine looks for before any slower search; a sign between digits has up to three bytes.
SHAPES = {
    _IBAN_SHAPE: "[a-z]{2}[ -]?[0-9]{2}(?:[ \\t.-]{0,2}[a-z0-9]){11}",
    _CARD_SHAPE: "[0-9](?:[^0-9]{0,5}[0-9]){11}",
}
