"""The table of verdicts in docs/reference/verifiers.md is the one in the code."""

from __future__ import annotations

import re
from pathlib import Path

from lockgate.core.requests.combined_verdict import COMPOSITION

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "verifiers.md"


def test_the_documented_composition_is_the_one_in_the_code() -> None:
    table = PAGE.read_text(encoding="utf-8").split("<!-- composition:")[1].split("\n\n")[1]
    rows = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    assert rows == [[says.value, *verdicts] for says, verdicts in COMPOSITION.items()]
    assert len(re.findall(r"`unsafe`", table)) == len(COMPOSITION) + 2
