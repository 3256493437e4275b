"""What the rule sets for health (`hipaa`) and school records (`ferpa`) remove beyond `default`.

Names, street addresses and postcodes, dates, and the numbers of records, plans, accounts, devices and plates; of health
records also web pages and addresses of machines, of school records also grades and places of birth.

Every search is linear: it looks a bounded way around a cheap mark.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator

from lockgate.core.redaction.person_names import MARKS as NAME_MARKS
from lockgate.core.redaction.person_names import find_names
from lockgate.core.redaction.personal_data import TO_NUMBER, word_set
from lockgate.core.redaction.spans import DIGIT, SensitiveSpan, find_places

_Labelled = tuple[str, frozenset[str], re.Pattern[str]]


def find_record_details(
    text: str, low: str, marks: frozenset[str], ruleset: str, *, joined: bool = False
) -> Iterator[SensitiveSpan]:
    """Yield what only these rule sets remove, overlaps included; `joined` if the text's line breaks were taken out.

    `marks` are those of MARKS that may be in the text; it is searched for no other.
    """
    for kind, words, pattern in _LABELLED.get(ruleset, ()):
        for place in find_places(low, marks & words):
            if match := pattern.match(text, place):
                yield SensitiveSpan(kind, *match.span(1))
    # Without its line breaks a name would run on into the next line.
    if ruleset not in _LABELLED or joined:
        return
    yield from find_names(text, low, marks)
    yield from _find_at_digits(text)
    if ruleset == "hipaa":
        yield from _find_machines(text, low)
        yield from _find_ages(text, low)
    else:
        yield from _find_grades(text)


# --- numbers and dates behind a label

_DATE = (
    r"(?:[0-9]{1,4}[./ -][0-9]{1,2}[./ -][0-9]{1,4}|[0-9]{1,2}(?:st|nd|rd|th)?[ .-]{1,2}[A-Za-z]{3,9}[ .,-]{1,2}"
    r"[0-9]{2,4}|[A-Za-z]{3,9}\.? [0-9]{1,2}(?:st|nd|rd|th)?,? [0-9]{2,4})"
)
_TO_DATE = r"[\"' \t]{0,3}(?:is|was|on|[:=])?[\"' \t]{0,3}"
_RECORD = (
    rf"{TO_NUMBER}((?=[A-Za-z-]{{0,6}}[0-9])(?:[0-9]{{2,6}}(?: [0-9]{{2,6}}){{1,5}}(?![0-9A-Za-z])|"
    r"[A-Za-z0-9][A-Za-z0-9-]{3,24}))"
)


def _label_rule(kind: str, words: str, source: str) -> _Labelled:
    return kind, word_set(words), re.compile(source, re.IGNORECASE)


_BOTH = (
    _label_rule(
        "birth-date",
        "dob d.o.b date birth born geburtsdatum",
        rf"(?<![a-z])(?:d\.?o\.?b\b\.?|date[ _-]?of[ _-]?birth|birth[ _-]?(?:date|day)|born|geburtsdatum)"
        rf"{_TO_DATE}({_DATE})",
    ),
    _label_rule(
        "record-number",
        "plate",
        r"plate(?: number)?[^\n:.]{0,40}?(?:[:=]|is|was)[ \t]{1,2}"
        r"((?=[A-Za-z -]{0,8}[0-9])[A-Za-z0-9]{1,4}[ -]?[A-Za-z0-9]{2,6})(?![A-Za-z0-9])",
    ),
    _label_rule(
        "address",
        "zip postal postcode",
        r"(?:zip(?: ?code)?|postal ?code|postcode)[\"' \t]{0,3}(?:is|[:=#])?[\"' \t]{0,3}"
        r"((?=[A-Za-z]{0,2}[0-9])[A-Za-z0-9]{2,8}(?:[ -][A-Za-z0-9]{2,4})?)(?![A-Za-z0-9])",
    ),
    _label_rule(
        "address",
        "address lives resid",
        # Of a person: not an e-mail address or one of a machine.
        r"(?<!mail )(?<!ip )(?<!mac )(?<!web )(?<![a-z])(?:address[ \t]?[:=]|(?:lives?|living|resid(?:es|ing)) at)"
        r"[ \t]{0,3}(?=[^\n]{0,40}[0-9])((?:[^\n;@.]|\.(?! [A-Z]|\s?\Z)){4,80})",
    ),
)
_HEALTH = (
    *_BOTH,
    _label_rule(
        "record-number",
        "mrn medical patient chart health member beneficiary subscriber policy insurance medicare medicaid "
        "account acct certificate licen device serial prescription rx npi dea vin specimen accession claim "
        "encounter record s/n sn",
        r"(?<![a-z])(?:mrn|medical[ _-]record|patient|chart|health[ _-]?plan|member|beneficiary|subscriber|policy|"
        r"insurance|medicare|medicaid|acc(?:oun)?t\.?|certificate|licen[cs]e|device|serial|prescription|rx|npi|dea|vin|"
        # A record can be of sports, and `SN 1987A` is a star.
        r"specimen|accession|claim|encounter|record(?=[ _-]?(?:no\b|nr\b|num|id\b|#))|"
        rf"s/n|sn(?=\.? ?(?:no\b|[:=#]|[A-Za-z0-9-]{{6}}))){_RECORD}",
    ),
    _label_rule(
        "personal-detail",
        "admi discharge died death deceased visit surgery diagnosed",
        r"(?:admi(?:tted|ssion)|discharged?|died|death|deceased|visit(?:ed)?|surgery|diagnosed)(?: date)?"
        rf"{_TO_DATE}({_DATE})",
    ),
    _label_rule(
        "personal-detail", "age is", r"(?<![a-z])(?:aged?|is):? ((?:9[0-9]|1[01][0-9])(?= ?(?:years?|y/?o|[,.)])))"
    ),
)
_SCHOOL = (
    *_BOTH,
    _label_rule(
        "record-number",
        "student pupil learner enrol matri registration campus sid sevis financial",
        r"(?<![a-z])(?:student|pupil|learner|enroll?ment|matriculation|matrikel|registration|campus|sid|sevis|"
        rf"financial aid){_RECORD}",
    ),
    _label_rule(
        "personal-detail",
        "maiden place birthplace",
        r"(?:maiden name|place of birth|birthplace)[\"' \t]{0,3}(?:is|was|[:=])[\"' \t]{0,3}([^\n,;.\"']{2,48})",
    ),
    _label_rule(
        "personal-detail",
        "gpa grade",
        r"(?:gpa|grade point average)[\"' \t]{0,3}(?:is|of|[:=])?[\"' \t]{0,3}([0-4]\.[0-9]{1,3})",
    ),
)
_LABELLED = {"hipaa": _HEALTH, "ferpa": _SCHOOL}
# Everything the searches above start from, in a text in lower case.
MARKS = NAME_MARKS.union(*(words for rules in _LABELLED.values() for _, words, _ in rules))

# --- dates, street addresses and postcodes, by the digits in them

_DAY, _MONTH, _YEAR = "(?:3[01]|[12][0-9]|0?[1-9])", "(?:1[0-2]|0?[1-9])", "(?:19|20)[0-9]{2}"
# With a capital: `may 5` is no date.
_MONTH_NAME = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?|"
    r"Nov(?:ember)?|Dec(?:ember)?|JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC)(?![A-Za-z])\.?"
)
_BEHIND = "(?![0-9A-SU-Za-z/-]|[.,][0-9])"
_ORDINAL = "(?:st|nd|rd|th)?"
_DATE_FROM = re.compile(
    rf"(?:{_YEAR}(?P<s>[./-]){_MONTH}(?P=s){_DAY}|(?:{_DAY}[/-]{_MONTH}|{_MONTH}[/-]{_DAY})[/-](?:{_YEAR}|[0-9]{{2}})|"
    rf"{_DAY}\.{_MONTH}\.{_YEAR}|{_DAY}{_ORDINAL}[ -](?:of )?{_MONTH_NAME}(?:,?[ -]{_YEAR})?){_BEHIND}"
)
# The month stands before the digits.
_DATE_AFTER_MONTH = re.compile(rf"(?:{_DAY}{_ORDINAL}(?:,? {_YEAR})?|{_YEAR}){_BEHIND}")
_MONTH_BEFORE = re.compile(rf"(?<![\w.-]){_MONTH_NAME},? $")
_DAY_AND_MONTH = re.compile(rf"{_MONTH}/{_DAY}{_BEHIND}")
_BEFORE_A_DAY = re.compile(r"(?<!\w)(?:on|by|until|since|due) $")
_CAPITAL = r"[A-Z0-9À-ÖØ-Þ][\w'’.-]{0,24}"
_STREET = (
    "(?:street|st|avenue|ave|road|rd|lane|ln|drive|dr|boulevard|blvd|court|ct|place|pl|square|sq|terrace|way|parkway|"
    "pkwy|highway|hwy|circle|cir|trail|loop|row|alley|plaza|crescent|close|gardens|mews|walk|pike|crossing|run|path)"
)
# Ends of streets that are other words too: they need a number of two digits.
_RARE_STREET = (
    "(?:bend|bluff|bridge|brook|bypass|canyon|cove|creek|crest|estates?|fields?|forest|gateway|glen|green|grove|harbor|"
    "haven|heights|hills?|hollow|inlet|islands?|junction|keys?|knolls?|lakes?|landing|mall|manor|meadows?|mills?|park|"
    "pass|pines?|plains?|ridge|shores?|springs?|squares|station|summit|trace|track|turnpike|valley|view|village|vista)"
)
_STREET_FIRST = "rue|avenue|boulevard|place|chemin|all[ée]e|impasse|quai|via|piazza|calle|avenida|paseo"
_ARTICLE = "(?:de|du|des|la|le|del|della|d'|l')"
_UNIT = r"(?:,? (?:apt|apartment|suite|ste|unit|floor|room|flat|no)\.? ?[\w-]{1,6}|,? #[\w-]{1,6})?"
_STATE = (
    "(?:A[KLRZ]|C[AOT]|D[CE]|FL|GA|HI|I[ADLN]|K[SY]|LA|M[ADEINOST]|N[CDEHJMVY]|O[HKR]|P[AR]|RI|S[CD]|T[NX]|UT|V[AIT]|"
    "W[AIVY]|Alabama|Alaska|Arizona|Arkansas|California|Colorado|Connecticut|Delaware|Florida|Georgia|Hawaii|Idaho|"
    "Illinois|Indiana|Iowa|Kansas|Kentucky|Louisiana|Maine|Maryland|Massachusetts|Michigan|Minnesota|Mississippi|"
    "Missouri|Montana|Nebraska|Nevada|Ohio|Oklahoma|Oregon|Pennsylvania|Tennessee|Texas|Utah|Vermont|Virginia|"
    "Washington|Wisconsin|Wyoming|New (?:Hampshire|Jersey|Mexico|York)|(?:North|South) (?:Carolina|Dakota)|"
    "Rhode Island|West Virginia)"
)
_CITY = r"(?:[A-Z][\w'’.-]{1,20}(?: [A-Z][\w'’.-]{1,20}){0,2},? )"
_ADDRESS_FROM = tuple(
    re.compile(source)
    for source in (
        rf"[0-9]{{1,6}}[A-Za-z]?,? (?:{_CAPITAL} ){{1,4}}(?i:{_STREET})(?!\w)\.?(?i:{_UNIT})",
        rf"[0-9]{{2,6}} (?:{_CAPITAL} ){{1,3}}(?i:{_RARE_STREET})(?!\w)(?i:{_UNIT})",
        rf"[0-9]{{1,5}}(?: bis| ter)?,? (?i:{_STREET_FIRST}) (?:{_ARTICLE} ?){{0,2}}{_CAPITAL}(?: {_CAPITAL}){{0,2}}",
        rf"[0-9]{{5}}(?:-[0-9]{{4}})? {_CITY}{_STATE}(?!\w)",
        r"[0-9]{5}-[0-9]{4}(?![\w-])",
    )
)
# Postcodes of other countries are plain numbers: a street with a number, or a state, stands before them.
_WORD_OF_NAME = r"[^\W\d_a-z][\w'’.-]{1,24}"
_POSTCODE_AND_TOWN = re.compile(
    r"(?:[0-9]{5}|[0-9]{4} [A-Z]{2}|(?!19|20)[0-9]{4}|[0-9]{3} [0-9]{2}|[0-9]{2}-[0-9]{3}|[0-9]{4}-[0-9]{3})"
    rf" {_WORD_OF_NAME}(?: {_WORD_OF_NAME})?"
)
# What stands before the digits is a part of the address, and what may stand behind them.
_ADDRESS_BEFORE = (
    (re.compile(rf"(?<!\w)(?:{_CITY})?{_STATE},? $"), re.compile(r"[0-9]{5}(?:-[0-9]{4})?(?![\w-])")),
    (
        re.compile(r"(?<!\w)[A-ZÄÖÜ][\wäöüß-]{2,30}(?:stra(?:ß|ss)e|str\.|weg|gasse|platz|allee|ufer|damm) $"),
        re.compile(r"[0-9]{1,4}[a-z]?(?!\w)"),
    ),
    (re.compile(r"(?<!\w)p\.? ?o\.? ?box $", re.IGNORECASE), re.compile(r"[0-9]{1,7}(?!\w)")),
    # Postcodes of Britain and of Canada.
    (
        re.compile(r"(?<!\w)[A-Z]{1,2}$"),
        re.compile(r"[0-9][A-Z0-9]? [0-9][A-Z]{2}(?!\w)|[0-9][A-Z] [0-9][A-Z][0-9](?!\w)"),
    ),
    (
        re.compile(
            rf"(?<!\w)(?:[Uu]l\. |{_WORD_OF_NAME} (?:{_ARTICLE} )?){{1,4}}[0-9]{{1,3}}[A-Za-z]?(?:/[0-9]{{1,4}})?"
            r",?\s{1,2}(?:[A-Z]{1,2}-)?$"
        ),
        _POSTCODE_AND_TOWN,
    ),
    (
        re.compile(
            rf"(?<!\w)(?i:{_STREET_FIRST}) (?:{_ARTICLE} ?){{0,2}}{_CAPITAL}(?: {_CAPITAL}){{0,2}}"
            r",?\s{1,2}(?:[A-Z]{1,2}-)?$"
        ),
        _POSTCODE_AND_TOWN,
    ),
    (re.compile(rf"(?<!\w)(?:{_CITY})?(?:NSW|VIC|QLD|TAS|ACT),? $"), re.compile(r"[0-9]{4}(?!\w)")),
    (
        re.compile(rf"(?i:\b{_STREET})\.?,?\s{{1,2}}(?:{_WORD_OF_NAME},? ){{1,3}}(?:- ?)?$"),
        re.compile(r"[0-9]{6}(?!\w)|[0-9]{3} [0-9]{3}(?!\w)"),
    ),
)
_DIGITS = re.compile("[0-9]+")
_MOST_BEFORE = 64


def _find_at_digits(text: str) -> Iterator[SensitiveSpan]:
    """Yield dates and addresses; each is looked for around the first of its digits."""
    for digits in _DIGITS.finditer(text):
        at = digits.start()
        before = text[max(0, at - _MOST_BEFORE) : at]
        for month, pattern in ((_MONTH_BEFORE, _DATE_AFTER_MONTH), (_BEFORE_A_DAY, _DAY_AND_MONTH)):
            if (match := pattern.match(text, at)) and (named := month.search(before[-16:])):
                start = at - len(named[0]) if month is _MONTH_BEFORE else at
                yield SensitiveSpan("date", start, match.end())
        for prefix, pattern in _ADDRESS_BEFORE:
            if (match := pattern.match(text, at)) and (named := prefix.search(before)):
                yield SensitiveSpan("address", at - len(named[0]), match.end())
        if before and (before[-1].isalnum() or before[-1] in "_.,/-"):
            continue  # a part of a longer number, of a word or of a path
        if match := _DATE_FROM.match(text, at):
            yield SensitiveSpan("date", at, match.end())
        for pattern in _ADDRESS_FROM:
            if match := pattern.match(text, at):
                yield SensitiveSpan("address", at, match.end())


# --- web pages and machines

_OCTET = "(?:25[0-5]|2[0-4][0-9]|1?[0-9]{1,2})"
_IP_ADDRESSES = (
    re.compile(rf"(?<![\w.])(?:{_OCTET}\.){{3}}{_OCTET}(?![\w]|\.[0-9])"),
    re.compile(r"(?<![\w:])(?:[0-9a-f]{1,4}:){2,7}(?::?[0-9a-f]{1,4}|:)(?![\w:])", re.IGNORECASE),
)
_URL = re.compile(r"(?<!\w)(?:https?://|www\.)[^\s<>\"'`]{2,2000}", re.IGNORECASE)


def _find_machines(text: str, low: str) -> Iterator[SensitiveSpan]:
    for pattern in _IP_ADDRESSES if DIGIT.search(text) else ():
        for match in pattern.finditer(text):
            # Two colons are a time of the day.
            if match[0].count(":") != 2 or "::" in match[0]:
                yield SensitiveSpan("ip-address", *match.span())
    done = 0
    for place in find_places(low, ("http", "www.")):
        if place >= done and (page := _URL.match(text, place)):
            done = place + len(page[0].rstrip(".,;:!?)]"))
            yield SensitiveSpan("url", place, done)


# --- ages of 90 and more

_ONES = "(?:one|two|three|four|five|six|seven|eight|nine)"
_TEENS = "(?:ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen)"
_NINETY_IN_WORDS = rf"(?:ninety(?:[ -]{_ONES})?|(?:a |one )hundred(?:(?: and)? (?:{_ONES}|{_TEENS}))?)"
_NINETY = rf"(?:9[0-9]|1[01][0-9]|{_NINETY_IN_WORDS})"
# What cannot stand behind an age: a measure, or `and older`, which names a group.
_NO_AGE = r"(?![\w%°]|[.,][0-9]|-[0-9]| (?:and|or) (?:over|older|above|more)| ?(?:degrees|percent|minutes|days))"
_AGES = re.compile(
    rf"(?<![\w.,/-])({_NINETY})(?=[ -]?(?:years?|yrs?)[ -](?:old|of age)|[ -]?(?:y/o|yo)\b)"
    rf"|\bage[d:]? ({_NINETY_IN_WORDS}){_NO_AGE}|\b(?:age:|aged) ({_NINETY}){_NO_AGE}"
    rf"|\bturn(?:s|ed|ing)? ({_NINETY_IN_WORDS}){_NO_AGE}"
    r"|\b(?:his|her|their|my) (?:early |late |mid[ -]?)?(nineties|90'?s)\b|\b(nonagenarian|(?:super)?centenarian)s?\b",
    re.IGNORECASE,
)
_AGE_MARKS = ("year", "yr", "y/o", "yo", "age", "turn", "nineties", "90", "genarian", "centenarian")


def _find_ages(text: str, low: str) -> Iterator[SensitiveSpan]:
    for match in _AGES.finditer(text) if any(mark in low for mark in _AGE_MARKS) else ():
        yield SensitiveSpan("personal-detail", *match.span(match.lastindex or 0))


# --- grades

_GRADE = re.compile(
    r"(?:(?<=[:=] )|(?<=[ (]an )|(?<=[ (]a )|(?<=grade )|(?<=[ ]of )|(?<= was )|(?<= got ))([A-F][+-]?)(?![\w'’+-])|"
    r"(?<![\w.])([0-9]{1,3}(?:\.[0-9])? ?%)"
)
_GRADE_WORD = re.compile(
    r"\b(?:grades?|graded|marks?|scored?|gpa|quiz(?:zes)?|exams?|tests?|finals?|midterm|essay|project|homework|course|"
    r"class|got|received|earned|gave|math|maths|english|science|history|chemistry|physics|biology|algebra|geography|"
    r"french|spanish|german|art|music|reading|writing)\b",
    re.IGNORECASE,
)


def _find_grades(text: str) -> Iterator[SensitiveSpan]:
    """Yield letters and percentages near a word of school: whose they are, the text need not say in one place."""
    about = [match.start() for match in _GRADE_WORD.finditer(text)]
    for match in _GRADE.finditer(text) if about else ():
        number = bisect_left(about, match.start() - 60)
        if number < len(about) and about[number] < match.end() + 30:
            yield SensitiveSpan("personal-detail", *match.span())
