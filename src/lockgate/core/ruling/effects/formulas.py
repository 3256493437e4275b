"""Cells of spreadsheets whose formula asks an address as soon as the sheet is opened, or leads its reader there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import count

from lockgate.core.ruling.arguments import Leaf
from lockgate.core.ruling.effects.address_shapes import find_hosts, is_local_host
from lockgate.core.ruling.effects.effect import Certainty, Effect, effect

# So many functions of one call are read, and formulas up to this length; what is more or longer cannot be read.
_MAX_FUNCTIONS, _LONGEST = 1000, 2000
_BEFORE = 200
_WORDS = ("IMPORT", "IMAGE", "WEBSERVICE", "HYPERLINK")
_REACHING = re.compile(r"(?i)(?<!\w)(?:IMPORT(?:DATA|XML|HTML|FEED|RANGE)|IMAGE|WEBSERVICE|HYPERLINK)[ ]{0,3}\(")
# A formula stands at the start of its cell: of the text, of a line, or behind what separates cells. A spreadsheet takes
# other signs for `=` as well, if the function follows at once.
_CELL_START = re.compile(r"(?m)(?:^|[\t,;|\"'\[])[ ]{0,4}(?:=|[+@-][ ]?\Z)")
# What joins texts puts the values of other cells into the address. A `&` inside a text joins nothing: `"Q&A"`.
_JOINS = re.compile(r"(?i)[\"')]\s*&|&\s*[\"'(]|\b(?:CONCAT|CONCATENATE|TEXTJOIN|JOIN|ENCODEURL|SUBSTITUTE)[ ]{0,3}\(")


def read_formulas(leaves: Sequence[Leaf]) -> Iterator[Effect]:
    """Yield an effect for each host that a formula in these values asks or leads to."""
    known = set()
    numbers = count()
    for leaf in leaves:
        for start, formula in _formulas(leaf.text, numbers):
            if not formula:
                yield effect("unreadable", argument=leaf.argument, certainty=Certainty.GUESS)
                break
            kind = "sends-data" if _JOINS.search(formula) else "shows-remote-content"
            for seen in find_hosts(formula):
                if (kind, seen.target) not in known and not is_local_host(seen.target):
                    known.add((kind, seen.target))
                    span = (start + seen.start, start + seen.end)
                    yield effect(kind, seen.target, argument=leaf.argument, span=span)


def _formulas(text: str, numbers: Iterator[int]) -> Iterator[tuple[int, str]]:
    """Yield each formula with a function that reaches out, and where it starts; no text for one that cannot be read."""
    upper = text.upper()
    if not any(word in upper for word in _WORDS):
        return
    read_to = 0
    for function in _REACHING.finditer(text):
        if next(numbers) >= _MAX_FUNCTIONS:
            yield function.start(), ""
            return
        if text.find(")", function.end(), read_to) >= 0:
            # It ends in what was read with the one before it.
            continue
        begin = _cell_start(text, function.start())
        # It may go on in the next line until its bracket ends.
        head, bracket, tail = text[function.end() : function.end() + _LONGEST].partition(")")
        behind = head + bracket + tail.partition("\n")[0]
        # A text in a formula stands in quotes; in `- image (https://ours.example)` none does.
        if begin is None or not (begin[0].endswith("=") or '"' in behind):
            continue
        if bracket and not (begin[0].endswith("=") and "(" in head):
            # Behind its bracket are other cells, or more code.
            behind = behind[: _LONGEST - 1]
        start, read_to = begin.start(), function.end() + len(behind)
        yield start, text[start:read_to] if len(behind) < _LONGEST else ""


def _cell_start(text: str, function: int) -> re.Match[str] | None:
    while text[function - 1 : function].isspace():
        function -= 1
    least = max(0, function - _BEFORE)
    least = max(least, text.rfind("\n", least, function) + 1)
    return _CELL_START.search(text, least, function)
