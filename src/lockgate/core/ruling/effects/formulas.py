"""Cells of spreadsheets whose formula asks an address as soon as the sheet is opened, or leads its reader there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from lockgate.core.ruling.arguments import Leaf
from lockgate.core.ruling.effects.address_shapes import find_hosts, is_local_host
from lockgate.core.ruling.effects.effect import Certainty, Effect, effect

# So many formulas of one text are read; more of them cannot be.
_MAX_FORMULAS = 500
_BEFORE, _BEHIND = 200, 1000
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
    for leaf in leaves:
        for count, (start, formula) in enumerate(_formulas(leaf.text)):
            if count == _MAX_FORMULAS:
                yield effect("unreadable", argument=leaf.argument, certainty=Certainty.GUESS)
                break
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
    for function in _REACHING.finditer(text):
        least = max(0, function.start() - _BEFORE)
        at = max(text.rfind("\n", least, function.start()) + 1, least)
        begin = _CELL_START.search(text[at : function.start()])
        behind = text[function.end() : function.end() + _BEHIND].partition("\n")[0]
        # A text in a formula stands in quotes; in `- image (https://ours.example)` none does.
        if begin is not None and '"' in behind:
            start = at + begin.start()
            yield start, text[start : function.end()] + behind
