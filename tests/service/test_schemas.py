"""What a schema takes and how it refuses; a refusal names keys and never a value."""

from __future__ import annotations

import pytest

from lockgate.service.schemas import (
    COMPONENTS,
    HALVES,
    Schema,
    anything,
    array,
    find_misfit,
    maybe,
    number,
    record,
    ref,
    text,
    whole,
    word,
)

BOX = record("a box", {"name": text("its name", least=1, most=5)}, {"size": whole("in cm", least=1, most=9)})


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        ("abcde", text("x", most=5)),
        ("two\nlines", text("x", line=False)),
        (3, whole("x")),
        (3.0, number("x")),
        (-1e9, number("x")),
        (None, maybe(whole("x"))),
        (None, maybe(ref("Session"))),
        ([1, 2], array("x", whole("x"), most=2)),
        ({"anything": [None]}, anything("x")),
        ({"name": "a"}, BOX),
        ({"name": "a", "size": 9}, BOX),
        ("\ud800", {**text("x"), HALVES: True}),
    ],
)
def test_what_fits(value: object, schema: Schema) -> None:
    assert find_misfit(value, schema) == ""


@pytest.mark.parametrize(
    ("value", "schema", "said"),
    [
        (1, text("x"), "the body must be text"),
        ("abcdef", text("x", most=5), "the body has more than 5 characters"),
        ("", text("x", least=1), "the body must not be empty"),
        ("a\n", text("x"), "the body must be one line, without control characters"),
        ("\ud800", text("x"), "the body holds half of a surrogate pair, which is no character"),
        ("red", word("x", "green", "blue"), "the body must be one of green, blue"),
        (True, whole("x"), "the body must be an integer"),
        (1.0, whole("x"), "the body must be an integer"),
        (10, whole("x", least=1, most=9), "the body must be from 1 to 9"),
        (-1, number("x", least=0), "the body must be 0 or more"),
        ("x", maybe(whole("x")), "the body must be an integer or null"),
        ([1, 2, 3], array("x", whole("x"), most=2), "the body has more than 2 entries"),
        ([1, "secret"], array("x", whole("x")), "the body[1] must be an integer"),
        ([], anything("x"), "the body must be an object"),
        ({}, BOX, "`name` is missing"),
        ({"name": "a", "size": 0}, BOX, "`size` must be from 1 to 9"),
        ({"name": "a", "naem": "secret"}, BOX, "there is no key `naem` in the body; did you mean `name`?"),
    ],
)
def test_what_does_not_fit_is_said_by_its_place(value: object, schema: Schema, said: str) -> None:
    assert find_misfit(value, schema) == said


def test_a_misfit_inside_is_said_with_the_keys_around_it() -> None:
    said = find_misfit({"box": {"name": ""}}, record("x", {"box": BOX}))
    assert said.replace("`", "") == "box.name must not be empty"


def test_every_name_that_a_component_refers_to_is_there() -> None:
    def names(schema: object) -> set[str]:
        if isinstance(schema, dict):
            own = {schema["$ref"].rpartition("/")[2]} if isinstance(schema.get("$ref"), str) else set()
            return own.union(*map(names, schema.values()))
        return set().union(*map(names, schema)) if isinstance(schema, list) else set()

    assert names(dict(COMPONENTS)) <= set(COMPONENTS)


def test_a_key_inside_another_is_quoted_once() -> None:
    inner = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
    outer = {"type": "object", "properties": {"calls": {"type": "array", "items": inner}}}
    assert find_misfit({"calls": [{}]}, outer) == "`calls[0].to` is missing"
    assert find_misfit({"calls": [{"to": 3}]}, outer) == "`calls[0].to` must be text"
