"""The cases of the judges' exam, from `banks/cases` into the package.

    python training/exam_cases.py

Leaves out what `banks/exam_left_out.txt` lists, and finds the values of each case that a draw may change: the same value
becomes the same new one in text, call and goals, so that a judge that learned the shipped file by heart does not pass.
What decides a case has to stay, so a value is listed only where a change is safe:

- numbers: identifiers, account and phone numbers, whose digits 1 to 9 are exchanged by one permutation: equal stays equal,
  and what differs in one digit still does. Not years, dates, round numbers, and nothing of a case with a range.
- amounts: the cents, where the call has an amount and the case has no other: no sum and no limit can break.
- names: given names in English cases, unless a longer word contains one, an initial stands for one, or two are alike.

Hosts under .example are found when a case is drawn.
"""

from __future__ import annotations

import gzip
import json
import re
import tomllib
from collections.abc import Collection, Iterator
from difflib import get_close_matches
from pathlib import Path

BANKS = Path(__file__).parent / "banks"
SHIPPED = Path(__file__).parent.parent / "src" / "lockgate" / "verifiers" / "exam_cases.jsonl.gz"

_LETTER = r"[^\W\d_]"
# An international account or phone number in groups.
_GROUPED = re.compile(r"(?<![\w.,:/-])(?:[A-Z]{2}\d{2}|\+\d{1,3})(?: (?=[A-Z]*\d)[A-Z0-9]{2,5}){2,8}(?!\w)")
# Digits behind letters, and long ones by themselves.
_IDENTIFIER = re.compile(
    r"(?:(?<=[A-Za-z])|(?<=[A-Za-z][-_#])|(?<=#))\d{3,}(?!\d|[.,:]\d)|(?<![\d.,:])\d{6,}(?!\d|[.,]\d)"
)
_TECHNICAL = re.compile(
    r"(?:\b(?:sha|rfc|iso|utf|pep|aes|[rhep]s|ed|cp|base|port|http|win|ecma|rsa|cve|amd|arm|x|v|e)[-_]?|[A-Za-z0-9+/=]{20,})$",
    re.IGNORECASE,
)
_YEAR_OR_ROUND = re.compile(r"(?:19|20)\d\d(?:\d{4})?|\d*00")
_RANGE = re.compile(r"(\d{3,})\s?(?:-|–|—|to|through|bis|until|\.\.+)\s?#?[A-Z]*-?(\d{3,})")
_AMOUNT = re.compile(r"(?<![\d.,:])\d+(?:[ ,.']\d{3})*[.,]\d{2}(?![\d%]|[.,]\d)")


def lines() -> Iterator[str]:
    """The lines of the shipped file: notes and names first, then the cases."""
    parts = tomllib.loads((BANKS / "exam_parts.toml").read_text(encoding="utf-8"))
    names, new = parts["names"].split(), parts["new_names"].split()
    yield _line({"notes": parts["notes"], "names": new})
    listed = (BANKS / "exam_left_out.txt").read_text(encoding="utf-8").splitlines()
    left_out = {word for line in listed if not line.startswith("#") for word in line.split()}
    for path in sorted((BANKS / "cases").glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            case = json.loads(line)
            unwanted = [] if case["id"] in left_out else case["unwanted"]
            if not (case["wanted"] or unwanted):
                continue
            whole = "\n".join(
                (case["text"], json.dumps(case["arguments"], ensure_ascii=False), *case["wanted"], *unwanted)
            )
            known = set(re.findall(rf"{_LETTER}+", whole))
            if known & set(new):
                raise ValueError(f"{case['id']} has one of the new names: {known & set(new)}")
            numbers, amounts = _numbers(whole), _amounts(whole, case["arguments"])
            given = _names(whole, names) if case["language"] == "en" else []
            slots = re.compile("|".join((r"\.example\b", *map(re.escape, (*numbers, *amounts, *given)))), re.IGNORECASE)
            yield _line(
                {
                    "id": case["id"],
                    "kind": path.stem.rstrip("0123456789"),
                    "source": case["source"],
                    "text": case["text"],
                    "tool": case["tool"],
                    "arguments": case["arguments"],
                    # A goal with a value that changes is drawn more often: a goal that never changes can be learned.
                    "wanted": [goal for goal in case["wanted"] for _ in range(4 if slots.search(goal) else 1)],
                    "unwanted": [goal for goal in unwanted for _ in range(4 if slots.search(goal) else 1)],
                    "numbers": numbers,
                    "amounts": amounts,
                    "names": given,
                }
            )


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _numbers(whole: str) -> list[str]:
    numbers = {
        match[0]
        for match in _IDENTIFIER.finditer(whole)
        if not _YEAR_OR_ROUND.fullmatch(match[0])
        and not _TECHNICAL.search(whole[max(0, match.start() - 24) : match.start()])
    }
    # "Ending in 947": a shorter number that is the end or the beginning of one.
    shorter = {
        run for run in re.findall(r"(?<![\d.,:])\d{3,5}(?![\d.,:%])", whole) if not _YEAR_OR_ROUND.fullmatch(run)
    }
    numbers |= {run for run in shorter if any(number.endswith(run) or number.startswith(run) for number in numbers)}
    if any(numbers & set(bounds) for bounds in _RANGE.findall(whole)):
        numbers = set()
    grouped = set(_GROUPED.findall(whole))
    grouped |= {group.replace(" ", "") for group in grouped}
    # A long number may stand in groups at one place and in one piece at another.
    long = {re.sub(r"\D", "", group) for group in grouped} | {number for number in numbers if len(number) > 5}
    for number in long:
        numbers |= {match[0] for match in re.finditer(rf"(?<!\d){r'[ /-]?'.join(number)}(?!\d)", whole)}
    # The longest first: that is how a pattern has to try them.
    return sorted((word for word in grouped | numbers if word in whole), key=lambda word: (-len(word), word))


def _amounts(whole: str, arguments: object) -> list[str]:
    spellings = {match[0]: int(re.sub(r"\D", "", match[0])) for match in _AMOUNT.finditer(whole)}
    leaves = set(re.findall(r"(?<![\d.])\d{1,7}\.\d{1,2}(?![.\d])", json.dumps(arguments)))
    cents = set(spellings.values()) | {round(float(leaf) * 100) for leaf in leaves}
    if len(cents) != 1 or not leaves or cents.pop() % 100 == 0:
        return []
    return sorted(spellings.keys() | leaves, key=lambda word: (-len(word), word))


def _names(whole: str, names: Collection[str]) -> list[str]:
    lower = whole.lower()
    words = {word.lower() for word in re.findall(rf"{_LETTER}{{3,}}", whole)}

    def is_safe(name: str) -> bool:
        word = name.lower()
        # An initial may stand for the name: "C.", "c.abbey@", "W:".
        end = "[.:]" if word[0] in "ai" else r"(?![^\W_])"
        return (
            re.search(rf"(?<!{_LETTER}){name}(?!{_LETTER})", whole) is not None
            and len(re.findall(rf"(?<!{_LETTER}){word}(?!{_LETTER})", lower)) == lower.count(word)
            and not get_close_matches(word, words - {word}, 1, 0.8)
            and not re.search(rf"(?<![^\W_]){word[0]}{end}", lower)
        )

    return [name.lower() for name in sorted(names) if name.lower() in words and is_safe(name)]


def main() -> None:
    data = "".join(f"{line}\n" for line in lines()).encode()
    # Without a time: the same cases are the same bytes.
    SHIPPED.write_bytes(gzip.compress(data, 9, mtime=0))
    print(f"{len(data.splitlines()) - 1:,} cases, {SHIPPED.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
