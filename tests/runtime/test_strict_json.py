"""The strict JSON reader: what it refuses, which option allows it, and that it reads everything else as Python does."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockgate.runtime.strict_json import InvalidJson, JsonFault, JsonLimits, JsonReader

STRICT = JsonReader()
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def fault_of(reader: JsonReader, text: str) -> InvalidJson:
    with pytest.raises(InvalidJson) as refused:
        reader.read(text)
    return refused.value


@given(VALUES)
def test_every_value_that_python_writes_is_read_back(value: Any) -> None:
    assert STRICT.read(json.dumps(value)) == value


@pytest.mark.parametrize("around", ["", " ", "\n\t \r"], ids=ascii)
def test_blanks_around_a_value_are_no_part_of_it(around: str) -> None:
    assert STRICT.read(f"{around}[1]{around}") == [1]


@pytest.mark.parametrize("text", ["", "{", "[1,]", "{'a': 1}", "[1] [2]", "\x0b[1]", "\ufeff[1]", '["\t"]', "nul"])
def test_what_is_not_json_is_refused_with_its_place(text: str) -> None:
    refused = fault_of(STRICT, text)
    assert refused.fault is JsonFault.NOT_JSON
    assert refused.message
    assert refused.line == 1
    assert refused.column > 0


@pytest.mark.parametrize(
    ("text", "fault", "value"),
    [
        ('{"a": 1, "b": 2, "a": 3}', JsonFault.DUPLICATE_KEY, "a"),
        ('[{"b": {"a": 1, "\\u0061": 2}}]', JsonFault.DUPLICATE_KEY, "a"),
        ("[NaN]", JsonFault.BAD_CONSTANT, "NaN"),
        ("-Infinity", JsonFault.BAD_CONSTANT, "-Infinity"),
        ("[1e999]", JsonFault.BAD_NUMBER, "1e999"),
        ("9" * 5_000, JsonFault.BAD_NUMBER, ""),
        ("[" * 100_000, JsonFault.TOO_DEEP, ""),
        ("[" * 501 + "]" * 501, JsonFault.TOO_DEEP, ""),
    ],
)
def test_what_parsers_disagree_about_is_refused(text: str, fault: JsonFault, value: str) -> None:
    refused = fault_of(STRICT, text)
    assert (refused.fault, refused.value) == (fault, value)
    assert str(refused) == fault.value


def test_each_option_allows_what_it_names_and_nothing_else() -> None:
    assert JsonReader(allow_duplicate_keys=True).read('{"a": 1, "a": 2}') == {"a": 2}
    assert JsonReader(allow_constants=True).read("Infinity") == float("inf")
    assert JsonReader(allow_control_characters=True).read('"\t"') == "\t"
    assert JsonReader(floats="all").read("1e999") == float("inf")
    assert fault_of(JsonReader(allow_constants=True), "1e999").fault is JsonFault.BAD_NUMBER
    assert fault_of(JsonReader(floats="all"), "NaN").fault is JsonFault.BAD_CONSTANT


def test_a_reader_without_floats_refuses_all_of_them() -> None:
    reader = JsonReader(floats="none")
    assert reader.read("[1]") == [1]
    assert fault_of(reader, "[1.0]").value == "1.0"
    assert fault_of(reader, "[1e0]").fault is JsonFault.BAD_NUMBER


def test_integers_have_at_most_so_many_digits() -> None:
    reader = JsonReader(max_digits=3)
    assert reader.read("[999, -99]") == [999, -99]
    refused = fault_of(reader, "[1000]")
    assert (refused.fault, refused.value) == (JsonFault.BAD_NUMBER, "1000")


def test_depth_is_counted_before_anything_is_parsed() -> None:
    reader = JsonReader(limits=JsonLimits(depth=3))
    assert reader.read("[[[1]]]") == [[[1]]]
    assert fault_of(reader, "[[[[1]]]]").fault is JsonFault.TOO_DEEP
    # The text ends within the parser's first value, but its depth is refused first.
    assert fault_of(reader, "[[[[").fault is JsonFault.TOO_DEEP


def test_brackets_within_strings_are_no_depth() -> None:
    reader = JsonReader(limits=JsonLimits(depth=1))
    assert reader.read(r'["[[[[ \" {{{{", "]"]') == ['[[[[ " {{{{', "]"]
    assert fault_of(reader, '["' + "[" * 50).fault is JsonFault.NOT_JSON


def test_containers_and_values_are_limited() -> None:
    reader = JsonReader(limits=JsonLimits(depth=2, containers=4, values=6))
    assert reader.read("[[],[],[]]") == [[], [], []]
    assert fault_of(reader, "[[],[],[],[]]").fault is JsonFault.TOO_MANY_VALUES
    assert reader.read("[1,2,3,4,5,6,7]") == [1, 2, 3, 4, 5, 6, 7]
    assert fault_of(reader, "[1,2,3,4,5,6,7,8]").fault is JsonFault.TOO_MANY_VALUES
