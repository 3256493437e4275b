"""Cells of spreadsheets whose formula asks an address as soon as the sheet is opened, or leads its reader there."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from lockgate.core.ruling.arguments import Leaf
from lockgate.core.ruling.effects.address_shapes import find_hosts, is_local_host
from lockgate.core.ruling.effects.effect import Effect, effect

_BEFORE, _BEHIND = 200, 1000
_WORDS = ("IMPORT", "IMAGE", "WEBSERVICE", "HYPERLINK")
_REACHING = re.compile(r"(?i)(?<!\w)(?:IMPORT(?:DATA|XML|HTML|FEED|RANGE)|IMAGE|WEBSERVICE|HYPERLINK)[ ]{0,3}\(")
# A formula stands at the start of its cell: of the text, of a line, or behind what separates cells. A spreadsheet takes
# other signs for `=` as well, if the function follows at once.
_CELL_START = re.compile(r"(?m)(?:^|[\t,;|\"'\[])[ ]{0,4}=")
_OTHER_START = re.compile(r"(?m)(?:^|[\t,;|\"'\[])[ ]{0,4}[+@-][ ]?\Z")
_LONGEST_START = 7
# What joins texts puts the values of other cells into the address. A `&` inside a text joins nothing: `"Q&A"`.
_JOINS = re.compile(r"(?i)[\"')]\s*&|&\s*[\"'(]|\b(?:CONCAT|CONCATENATE|TEXTJOIN|JOIN|ENCODEURL|SUBSTITUTE)[ ]{0,3}\(")


def read_formulas(leaves: Sequence[Leaf]) -> Iterator[Effect]:
    """Yield an effect for each host that a formula in these values asks or leads to."""
    known = set()
    for leaf in leaves:
        for start, formula in _formulas(leaf.text):
            kind = "sends-data" if _JOINS.search(formula) else "shows-remote-content"
            for seen in find_hosts(formula):
                if (kind, seen.target) not in known and not is_local_host(seen.target):
                    known.add((kind, seen.target))
                    span = (start + seen.start, start + seen.end)
                    yield effect(kind, seen.target, argument=leaf.argument, span=span)


def _formulas(text: str) -> Iterator[tuple[int, str]]:
    """Yield the formulas of a text that have a function which reaches out, each with where it stands."""
    upper = text.upper()
    if not any(word in upper for word in _WORDS):
        return
    cells = [cell.start() for cell in _CELL_START.finditer(text)]
    read = 0
    for function in _REACHING.finditer(text):
        first, last = function.span()
        if first < read:
            continue
        least = max(text.rfind("\n", max(0, first - _BEFORE), first) + 1, first - _BEFORE)
        at = bisect_left(cells, least)
        start = cells[at] if at < len(cells) else first
        if start >= first:
            other = _OTHER_START.search(text, max(least, first - _LONGEST_START), first)
            start = other.start() if other is not None else first
        behind = text[last : last + _BEHIND].partition("\n")[0] if start < first else ""
        # A text in a formula stands in quotes; in `- image (https://ours.example)` none does.
        if '"' in behind:
            # An address that the next function has may go on behind the end of this piece.
            read = last + len(behind) // 2
            yield start, text[start:last] + behind
