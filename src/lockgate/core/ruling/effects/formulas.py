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
_CELL_START = re.compile(r"(?:^|[\t,;|\"'\[])[ ]{0,4}(?:=|[+@-][ ]?$)")
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
        least = max(0, function.start() - _BEFORE)
        before = text[least : function.start()].rstrip()
        at = before.rfind("\n") + 1
        begin = _CELL_START.search(before[at:])
        if begin is None:
            continue
        # It may go on in the next line until its bracket ends.
        head, bracket, tail = text[function.end() : function.end() + _LONGEST].partition(")")
        behind = head + bracket + tail.partition("\n")[0]
        start = least + at + begin.start()
        if not begin[0].endswith("="):
            # A text in a formula stands in quotes; in `- image (https://ours.example)` none does.
            if '"' not in behind:
                continue
            # This may be code, where `"name"+image(…)` goes on for long.
            behind = behind[: max(len(head) + 1, _LONGEST // 2)] if bracket else behind
        is_cut = len(behind) == _LONGEST
        if is_cut and ("(" in head or not bracket):
            yield start, ""
        elif is_cut:
            # Behind its bracket are other cells.
            yield start, text[start : function.end()] + head
        else:
            read_to = function.end() + len(behind)
            yield start, text[start:read_to]
