"""The examples that stand below the rows of a table, for the tests that run them."""

from __future__ import annotations

from collections.abc import Sequence

from lockgate.core.tables import Example, read_rows


def read_examples(package: str, name: str, section: str, columns: Sequence[str]) -> list[Example]:
    return [example for row in read_rows(package, name, section, columns) for example in row.examples]
