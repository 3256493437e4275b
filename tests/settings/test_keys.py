"""The table of keys, and values as TOML."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockgate.core.errors import InvalidConfig
from lockgate.settings.keys import KeyForm, Row, as_toml, value_from_toml


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_text_survives_being_written_as_toml(text: str) -> None:
    written = as_toml(text)
    assert tomllib.loads(f"x = {written}") == {"x": text}
    assert written.isprintable()


COUNT = Row("how many", KeyForm.COUNT, key="a.b", least=1, most=9)
WORD = Row("which", KeyForm.WORD, key="a.c", words={"one": 1})
TEXTS = Row("some", KeyForm.TEXTS, key="a.d")


def test_a_row_knows_its_table_and_what_it_allows() -> None:
    assert (COUNT.table, COUNT.name, COUNT.allowed) == ("a", "b", "a whole number from 1 to 9")
    assert WORD.allowed == 'one of "one"'


def test_a_value_is_read_as_its_row_says() -> None:
    assert value_from_toml(COUNT, 9) == 9
    assert value_from_toml(WORD, "one") == 1
    assert value_from_toml(TEXTS, ["x", "y"]) == ("x", "y")


@pytest.mark.parametrize(
    ("row", "raw", "said"),
    [
        (COUNT, True, "must be a whole number from 1 to 9, not a boolean"),
        (COUNT, 10, "not this number"),
        (COUNT, "3", "write it without quotes"),
        (WORD, "oen", "did you mean"),
        (TEXTS, "x", 'write d = ["…"]'),
        (TEXTS, ["x", 1], "item 2 is an integer"),
    ],
)
def test_a_value_of_another_form_is_refused_in_words(row: Row, raw: object, said: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        value_from_toml(row, raw)
    assert said in str(caught.value)
