"""Which stretches of a text are personal data: addresses, and the numbers of persons, accounts and records.

Numbers are checked (Luhn, mod 97, check letters) where their makers gave them a check: a verifier that sees no order
numbers, dates or hashes cannot judge anything. Every search is linear: it looks a bounded way around a cheap mark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import accumulate, zip_longest

from lockgate.core.sensitive import DIGIT, Found, places


def personal(text: str, low: str, ruleset: str, *, joined: bool = False) -> Iterator[Found]:
    """Everything personal in a text, overlaps included; `joined` when its line breaks were taken out."""
    yield from _emails(text, low)
    if DIGIT.search(text):
        yield from _ibans(text, joined=joined)
        yield from _cards(text)
        yield from _numbers(text, low)
    if ruleset in _RULESETS:
        yield from _extra(text, low, ruleset)


# --- addresses

_AT_DOMAIN = re.compile(r"@((?:[^\W_][\w-]{0,62}\.){1,8}(?:[^\W\d_]{2,24}|xn--[a-z0-9-]{2,59}))")
_LOCAL_BACKWARDS = re.compile(r"[\w.%+'’!#$&*/=?^`{|}~-]{1,64}")
_SPELLED_DOMAIN = re.compile(
    r"[\[({<] ?at ?[\])}>]\s{0,2}([\w-]{1,63}(?:\s{0,2}(?:\.|[\[({<] ?dot ?[\])}>])\s{0,2}[\w-]{1,63}){1,6})",
    re.IGNORECASE,
)
# In an address this `@` ends what `url-credentials` takes out, and the host behind it stays.
_USERINFO_BEFORE = re.compile(r"://(?:[^\s/?#@]{0,256}|[^\s/?#@:]{0,64}:(?![0-9]{1,5}/)[^\s@]{1,256})$")
_SPELLED_MARKS = [f"{bracket}{space}at" for bracket in "[({<" for space in ("", " ")]
_SHARED_ADDRESSES = frozenset(["git", "hg", "svn"])


def _emails(text: str, low: str) -> Iterator[Found]:
    at = text.find("@")
    while at >= 0:
        domain = _AT_DOMAIN.match(text, at)
        if domain and not _USERINFO_BEFORE.search(text[max(0, at - 330) : at]):
            local = _LOCAL_BACKWARDS.match(text[max(0, at - 64) : at][::-1])
            if local:
                name = local[0][::-1].lstrip(".%+'’!#$&*/=?^`{|}~-")
                if name and name.lower() not in _SHARED_ADDRESSES:
                    yield Found("email", at - len(name), domain.end())
        at = text.find("@", domain.end() if domain else at + 1)
    for mark in places(low, _SPELLED_MARKS):
        if domain := _SPELLED_DOMAIN.match(text, mark):
            before = text[max(0, mark - 66) : mark].rstrip(" ")
            if local := _LOCAL_BACKWARDS.match(before[::-1]):
                start = max(0, mark - 66) + len(before) - len(local[0])
                yield Found("email", start, domain.end())


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
_IBAN_DIGITS = {ord(ch): str(i) for i, ch in enumerate("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ")}


def _ibans(text: str, *, joined: bool) -> Iterator[Found]:
    # Where lines were joined, a word of the next or the last one may stand right beside it.
    at = 0
    while match := (_JOINED_IBAN if joined else _IBAN).search(text, at):
        at = match.start() + 2
        size = _IBAN_SIZES.get(match[1].upper(), 0)
        places = [i for i, ch in enumerate(match[0]) if ch.isalnum()][:size]
        if not size or len(places) < size:
            continue
        end = match.start() + places[-1] + 1
        code = "".join(match[0][i] for i in places).upper()
        if (joined or not _ALNUM.match(text, end)) and int((code[4:] + code[:4]).translate(_IBAN_DIGITS)) % 97 == 1:
            yield Found("iban", match.start(), end)
            at = end


_CARD = re.compile(r"(?<![0-9])[0-9](?:[ \t.\u2013\n-]?+[0-9]){11,}+")
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


def _cards(text: str) -> Iterator[Found]:
    """Card numbers, wherever in a row of digits and separators one begins and ends with a group of digits."""
    for row in _CARD.finditer(text):
        said = row[0]
        groups = [group.span() for group in _GROUP.finditer(said)]
        digits = "".join(said[start:end] for start, end in groups)
        # Sums up to each digit, for both ways of doubling every second one: any number in here is checked at once.
        values = [int(digit) for digit in digits]
        twice = [2 * value - 9 * (value > 4) for value in values]
        ways = (values[::2], twice[1::2]), (twice[::2], values[1::2])
        sums = [list(accumulate(_alternating(even, odd), initial=0)) for even, odd in ways]
        ends: dict[int, int] = {}
        before = 0
        for start, end in groups:
            before += end - start
            ends[before] = end
        first = done = 0
        for start, end in groups:
            if first >= done:
                for size in _card_sizes(digits, first):
                    last = first + size
                    check = sums[0] if last % 2 else sums[1]
                    if last in ends and (check[last] - check[first]) % 10 == 0:
                        spelled = said[start : ends[last]]
                        # Two lines are one number only when it is written in groups, as it stands on the card.
                        if "\n" not in spelled or _ON_THE_CARD.fullmatch(spelled):
                            yield Found("card", row.start() + start, row.start() + ends[last])
                            done = last
                            break
            first += end - start


def _alternating(even: list[int], odd: list[int]) -> Iterator[int]:
    for one, other in zip_longest(even, odd, fillvalue=0):
        yield one
        yield other


def _card_sizes(digits: str, first: int) -> tuple[int, ...]:
    if digits[first] not in "23456":
        return ()
    return next((sizes for start, sizes in _CARD_SIZES if start.match(digits, first)), ())


_ON_THE_CARD = re.compile(r"[0-9]{4}(?:[\s-]{1,2}[0-9]{4}){3}")
_DOUBLED = str.maketrans("0123456789", "0246813579")


def luhn(digits: str) -> bool:
    """The check of card numbers, and of some national numbers."""
    turned = digits[::-1]
    return sum(map(int, turned[::2])) % 10 == -sum(map(int, turned[1::2].translate(_DOUBLED))) % 10


def _mod97(digits: str) -> bool:
    return 97 - int(digits[:13]) % 97 == int(digits[13:15])


def _cpf(digits: str) -> bool:
    if len(set(digits)) == 1:
        return False
    for size in (9, 10):
        left = sum(int(digit) * weight for digit, weight in zip(digits, range(size + 1, 1, -1), strict=False)) * 10 % 11
        if left % 10 != int(digits[size]):
            return False
    return True


def _dni(number: str) -> bool:
    number = number.upper()
    digits = number[:-1].translate(str.maketrans("XYZ", "012"))
    return "TRWAGMYFPDXBNJZSQVHLCKE"[int(digits) % 23] == number[-1]


def _chinese_id(number: str) -> bool:
    weights = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
    return "10X98765432"[sum(int(d) * w for d, w in zip(number, weights, strict=False)) % 11] == number[17].upper()


def _always(_: str) -> bool:
    return True


def _ascii(source: str, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    """Letters of other scripts end a number: in Chinese or Japanese nothing else would."""
    return re.compile(source, re.ASCII | flags)


_EDGE, _OUT = r"(?<![A-Za-z0-9.-])(?<![0-9][.])", r"(?![A-Za-z0-9]|[.-][0-9])"
# A national number: how it is written, and its own check.
_NATIONAL: tuple[tuple[re.Pattern[str], Callable[[str], bool]], ...] = (
    (_ascii(rf"{_EDGE}(?!000|666)[0-8][0-9]{{2}}([- .])(?!00)[0-9]{{2}}\1(?!0000)[0-9]{{4}}{_OUT}"), _always),
    (_ascii(rf"{_EDGE}9[0-9]{{2}}([- ])[5-9][0-9]\1[0-9]{{4}}{_OUT}"), _always),
    (_ascii(rf"(?<![0-9] ){_EDGE}[1-79][0-9]{{2}}([- ])[0-9]{{3}}\1[0-9]{{3}}{_OUT}"), luhn),
    (_ascii(rf"{_EDGE}[0-9]{{3}}\.[0-9]{{3}}\.[0-9]{{3}}-[0-9]{{2}}{_OUT}"), _cpf),
    (
        _ascii(rf"{_EDGE}[12] ?[0-9]{{2}} ?(?:0[1-9]|1[0-2]) ?[0-9]{{2}} ?[0-9]{{3}} ?[0-9]{{3}} ?[0-9]{{2}}{_OUT}"),
        _mod97,
    ),
    (_ascii(rf"{_EDGE}(?:[0-9]{{8}}|[XYZxyz]-?[0-9]{{7}})-?[A-HJ-NP-TV-Za-hj-np-tv-z]{_OUT}"), _dni),
    (
        _ascii(rf"{_EDGE}[0-9]{{6}}(?:19|20)[0-9]{{2}}(?:0[1-9]|1[0-2])[0-3][0-9][0-9]{{3}}[0-9Xx]{_OUT}"),
        _chinese_id,
    ),
    (_ascii(rf"{_EDGE}[0-9]{{6}}[-+][0-9]{{4}}{_OUT}"), luhn),
    (
        _ascii(
            rf"{_EDGE}(?!BG|GB|KN|NK|NT|TN|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z](?: ?[0-9]{{2}}){{3}} ?[A-D]{_OUT}"
        ),
        _always,
    ),
    (
        _ascii(rf"{_EDGE}[A-Z]{{6}}[0-9]{{2}}[A-EHLMPRST][0-9]{{2}}[A-Z][0-9]{{3}}[A-Z]{_OUT}", re.IGNORECASE),
        _always,
    ),
    (_ascii(rf"{_EDGE}[A-Z]{{3}}[ABCFGHLJPT][A-Z][0-9]{{4}}[A-Z]{_OUT}"), _always),
    (_ascii(rf"{_EDGE}[STFGM][0-9]{{7}}[A-Z]{_OUT}"), _always),
)
_PHONES: tuple[tuple[re.Pattern[str], int], ...] = (
    (
        _ascii(
            r"(?<![A-Za-z0-9+])(?:\+|00(?=[1-9][0-9 ]))[ ]?[1-9](?:[ \t().\u2010-\u2013/-]{0,2}[0-9]){6,14}(?![0-9])"
        ),
        8,
    ),
    (
        _ascii(
            r"(?<![A-Za-z0-9.-])(?:1[ .-])?(?:\([2-9][0-9]{2}\) ?|[2-9][0-9]{2}[ .\u2010-\u2013-])[2-9][0-9]{2}"
            r"[ .\u2010-\u2013-][0-9]{4}(?![A-Za-z0-9-]|\.[0-9])"
        ),
        10,
    ),
    (
        _ascii(
            r"(?<![A-Za-z0-9.,:/-])(?<![0-9] )\(?0[1-9][0-9]{0,4}\)?(?:[ /\u2010-\u2013-]{1,2}[0-9]{2,8}){1,5}"
            r"(?![A-Za-z0-9]|[.,:/-][0-9])"
        ),
        9,
    ),
)
# Between a label and its number.
_TO_NUMBER = r"[ \t_-]{0,2}(?:number|nummer|num|no\.?|nr\.?|id|#)?[\"' \t]{0,3}(?:is|was|[:=#.])?[\"' \t#]{0,3}"
_NATIONAL_WORDS = (
    r"ssn|social[ -]security|itin|passport|national[ -](?:id|insurance)|nin|nhs|tax(?:payer)?[ -]?(?:id|file)|"
    r"steuer|tin|sin|aadhaar|pesel|bsn|personnummer|identity card|driver'?s? licen[cs]e|driving licen[cs]e"
)
_LABELLED: tuple[tuple[str, list[str], re.Pattern[str], int], ...] = (
    (
        "national-number",
        "ssn social itin passport national nin nhs tax steuer tin sin aadhaar pesel bsn personn identity driv".split(),
        re.compile(
            rf"(?<![a-z])(?:{_NATIONAL_WORDS})(?![a-z]){_TO_NUMBER}"
            r"((?=[A-Za-z.-]{0,6}[0-9])(?:[0-9]{2,6}(?:[ .-][0-9]{2,6}){1,6}|[A-Za-z0-9][A-Za-z0-9.-]{4,19}))",
            re.IGNORECASE,
        ),
        5,
    ),
    (
        "phone",
        "phone tel mobile cell fax whatsapp handy".split(),
        re.compile(
            r"(?:phone|tel(?:ephone|efon)?|mobile|cell|fax|whatsapp|handy)(?![a-z])"
            rf"{_TO_NUMBER}(\(?[0-9](?:[ ().\u2010-\u2013/-]{{0,2}}[0-9]){{5,14}})(?![0-9])",
            re.IGNORECASE,
        ),
        6,
    ),
)
_DATE_LIKE = re.compile(r"\(?[0-9]{1,2}([./ -])[0-9]{1,2}\1(?:[0-9]{2}|(?:19|20)[0-9]{2})(?![0-9])")


def _numbers(text: str, low: str) -> Iterator[Found]:
    for start, end in _digit_areas(text):
        for pattern, check in _NATIONAL:
            for match in pattern.finditer(text, start, end):
                if check(re.sub("[^0-9A-Za-z]", "", match[0])):
                    yield Found("national-number", *match.span())
        for pattern, least in _PHONES:
            for match in pattern.finditer(text, start, end):
                if least <= sum(map(str.isdigit, match[0])) <= 15 and not _DATE_LIKE.match(match[0]):
                    yield Found("phone", *match.span())
    for kind, words, pattern, least in _LABELLED:
        for place in places(low, words):
            hit = pattern.match(text, place)
            if hit and sum(map(str.isdigit, hit[1])) >= least:
                yield Found(kind, *hit.span(1))


def _digit_areas(text: str) -> Iterator[tuple[int, int]]:
    """Stretches with four digits or more close together, and some room on both sides for letters and signs."""
    areas: list[tuple[int, int, int]] = []
    for match in _GROUP.finditer(text):
        start, end = match.span()
        if areas and start - areas[-1][1] <= 4:
            areas[-1] = areas[-1][0], end, areas[-1][2] + end - start
        else:
            areas.append((start, end, end - start))
    done = 0
    for start, end, digits in areas:
        if digits >= 4:
            yield max(done, start - 8), min(len(text), end + 4)
            done = end


# --- what the rule sets for health and school records add

_DATE = (
    r"(?:[0-9]{1,4}[./ -][0-9]{1,2}[./ -][0-9]{1,4}|[0-9]{1,2}(?:st|nd|rd|th)?[ .-]{1,2}[A-Za-z]{3,9}[ .,-]{1,2}"
    r"[0-9]{2,4}|[A-Za-z]{3,9}\.? [0-9]{1,2}(?:st|nd|rd|th)?,? [0-9]{2,4})"
)
_TO_DATE = r"[\"' \t]{0,3}(?:is|was|on|[:=])?[\"' \t]{0,3}"
_RECORD = rf"{_TO_NUMBER}((?=[A-Za-z-]{{0,6}}[0-9])[A-Za-z0-9][A-Za-z0-9-]{{3,24}})"
_OCTET = "(?:25[0-5]|2[0-4][0-9]|1?[0-9]{1,2})"


def _extra_rule(kind: str, words: str, source: str) -> tuple[str, list[str], re.Pattern[str]]:
    return kind, words.split(), re.compile(source, re.IGNORECASE)


_BIRTH = _extra_rule(
    "birth-date",
    "dob d.o.b date birth born geburtsdatum",
    rf"(?<![a-z])(?:d\.?o\.?b\b\.?|date[ _-]?of[ _-]?birth|birth[ _-]?(?:date|day)|born|geburtsdatum)"
    rf"{_TO_DATE}({_DATE})",
)
_HEALTH = (
    _BIRTH,
    _extra_rule(
        "record-number",
        "mrn medical patient chart health member beneficiary subscriber policy insurance medicare medicaid account "
        "certificate licen device serial prescription rx npi dea vin specimen accession",
        r"(?<![a-z])(?:mrn|medical[ _-]record|patient|chart|health[ _-]?plan|member|beneficiary|subscriber|policy|"
        r"insurance|medicare|medicaid|account|certificate|licen[cs]e|device|serial|prescription|rx|npi|dea|vin|specimen|accession)"
        rf"{_RECORD}",
    ),
    _extra_rule(
        "personal-detail",
        "admi discharge died death deceased visit surgery diagnosed",
        r"(?:admi(?:tted|ssion)|discharged?|died|death|deceased|visit(?:ed)?|surgery|diagnosed)(?: date)?"
        rf"{_TO_DATE}({_DATE})",
    ),
    _extra_rule(
        "personal-detail", "age is", r"(?<![a-z])(?:aged?|is):? ((?:9[0-9]|1[01][0-9])(?= ?(?:years?|y/?o|[,.)])))"
    ),
)
_SCHOOL = (
    _BIRTH,
    _extra_rule(
        "record-number",
        "student pupil learner enrol matri registration campus sid sevis financial",
        r"(?<![a-z])(?:student|pupil|learner|enroll?ment|matriculation|matrikel|registration|campus|sid|sevis|"
        rf"financial aid){_RECORD}",
    ),
    _extra_rule(
        "personal-detail",
        "maiden place birthplace",
        r"(?:maiden name|place of birth|birthplace)[\"' \t]{0,3}(?:is|was|[:=])[\"' \t]{0,3}([^\n,;.\"']{2,48})",
    ),
    _extra_rule(
        "personal-detail",
        "gpa grade",
        r"(?:gpa|grade point average)[\"' \t]{0,3}(?:is|of|[:=])?[\"' \t]{0,3}([0-4]\.[0-9]{1,3})",
    ),
)
_RULESETS = {"hipaa": _HEALTH, "ferpa": _SCHOOL}
_IP_ADDRESSES = (
    re.compile(rf"(?<![\w.])(?:{_OCTET}\.){{3}}{_OCTET}(?![\w]|\.[0-9])"),
    re.compile(r"(?<![\w:])(?:[0-9a-f]{1,4}:){2,7}(?::?[0-9a-f]{1,4}|:)(?![\w:])", re.IGNORECASE),
)


def _extra(text: str, low: str, ruleset: str) -> Iterator[Found]:
    for kind, words, pattern in _RULESETS[ruleset]:
        for place in places(low, words):
            if match := pattern.match(text, place):
                yield Found(kind, *match.span(1))
    if ruleset == "hipaa":
        for pattern in _IP_ADDRESSES:
            for match in pattern.finditer(text):
                if match[0].count(":") != 2 or "::" in match[0]:
                    yield Found("ip-address", *match.span())
