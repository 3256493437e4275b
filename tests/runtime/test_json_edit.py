from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockgate.core.errors import LockgateError
from lockgate.runtime.json_edit import (
    find_member,
    insert_item,
    iterate_items,
    parse_json_object,
    remove_item,
    value_start,
)

INDENTED = '{\n    "a": 1,\n    "list": [\n        "x"\n    ]\n}\n'


def test_an_object_is_parsed_with_what_python_writes() -> None:
    assert parse_json_object(' {"a": [1.5, NaN], "b": {}}')["b"] == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('\ufeff{"a": 1}', "byte order mark"),
        ('{"a": 1, "a": 2}', "`a` is there twice"),
        ('{"a": 1,}', "not JSON: line 1"),
        ('{\n"a": 1 // one\n}', "not JSON: line 2"),
        ("[1]", "not a JSON object but list"),
        ("", "not JSON"),
    ],
)
def test_what_readers_may_read_differently_is_refused(text: str, said: str) -> None:
    with pytest.raises(LockgateError, match=said):
        parse_json_object(text)


def test_items_have_their_places_in_the_text() -> None:
    text = ' { "a" : 1 , "b":[ 2,3 ] }'
    first, second = iterate_items(text, value_start(text))
    assert (first.key, text[first.value : first.end]) == ("a", "1")
    assert (second.key, text[second.start : second.end]) == ("b", '"b":[ 2,3 ]')
    assert [text[each.value : each.end] for each in iterate_items(text, second.value)] == ["2", "3"]


def test_a_member_is_found_by_its_exact_name() -> None:
    found = find_member(INDENTED, 0, "list")
    assert found is not None
    assert INDENTED[found.value] == "["
    assert find_member(INDENTED, 0, "x") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", '{\n  "n": {\n    "k": 1\n  }\n}'),
        ('{"a": 1}', '{"a": 1, "n": {"k": 1}}'),
        ('{\n\t"a": 1\n}', '{\n\t"a": 1,\n\t"n": {\n\t\t"k": 1\n\t}\n}'),
        ('{\n    "a": 1 }\n', '{\n    "a": 1,\n    "n": {\n        "k": 1\n    } }\n'),
    ],
    ids=["empty", "one line", "tabs", "four spaces"],
)
def test_an_item_is_inserted_as_the_file_is_written(text: str, expected: str) -> None:
    assert insert_item(text, 0, {"k": 1}, "n") == expected


def test_an_element_is_inserted_into_an_array_without_a_key() -> None:
    found = find_member(INDENTED, 0, "list")
    assert found is not None
    assert insert_item(INDENTED, found.value, "ü").count('        "ü"\n') == 1


@pytest.mark.parametrize(("at", "left"), [(0, "[2, 3]"), (1, "[1, 3]"), (2, "[1, 2]")])
def test_the_item_of_that_number_is_removed(at: int, left: str) -> None:
    assert remove_item("[1, 2, 3]", 0, at) == left


def test_the_last_item_leaves_an_empty_object() -> None:
    assert remove_item('{\n  "a": 1\n}', 0, 0) == "{}"


SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
VALUES = st.recursive(SCALARS, lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=3), each))


@given(
    st.dictionaries(st.text(max_size=3), VALUES, min_size=1, max_size=4), st.sampled_from([None, 2, 4, "\t"]), VALUES
)
def test_inserting_and_removing_leaves_no_trace(
    there: dict[str, object], indent: int | str | None, value: object
) -> None:
    text = json.dumps(there, indent=indent) + "\n"
    longer = insert_item(text, 0, value, "a new key")
    assert json.loads(longer) == {**there, "a new key": value}
    assert remove_item(longer, 0, len(there)) == text
