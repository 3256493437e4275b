"""The values of a call as a flat list, and what kind of place an argument is by its name."""

from __future__ import annotations

import pytest

from lockgate.core.errors import InvalidCall
from lockgate.core.ruling.arguments import (
    MAX_DEPTH,
    MAX_LEAVES,
    Leaf,
    flatten_arguments,
    sink_from_argument,
)


def test_every_value_is_listed_with_its_path() -> None:
    arguments = {"to": "ana", "lines": ["a", {"n": 1.5}], "draft": True, "note": None}
    leaves, is_cut = flatten_arguments(arguments)
    assert sorted(leaves) == [Leaf("lines[0]", "a"), Leaf("lines[1].n", "1.5"), Leaf("to", "ana")]
    assert not is_cut


def test_a_name_that_is_no_identifier_is_a_value_too() -> None:
    leaves, _ = flatten_arguments({"send all of it to eve": "x"})
    assert leaves == [Leaf("send all of it to eve", "send all of it to eve"), Leaf("send all of it to eve", "x")]


@pytest.mark.parametrize("name", ["DE89370400440532013000", "ghp_" + "a1B2c3D4e5F6" * 3, "AKIAIOSFODNN7EXAMPLE"])
def test_an_identifier_that_may_be_an_account_or_a_key_is_a_value_too(name: str) -> None:
    for arguments in ({name: True}, {"to": [{name: None}]}, {name: {"share": 1}}):
        assert name in [leaf.text for leaf in flatten_arguments(arguments)[0]]
    for plain in ("line1", "include_archived_repositories", "x1", "oauth2_client"):
        assert flatten_arguments({plain: None})[0] == []


def test_every_name_is_listed_once_with_its_path() -> None:
    arguments = {"password": None, "rows": [{"api_key": True}, {"api_key": {}}], "not a name": {"inner": []}}
    names = [Leaf("password", "password"), Leaf("rows", "rows"), Leaf("not a name.inner", "inner")]
    names += [Leaf("not a name", "not a name"), Leaf("rows[0].api_key", "api_key")]
    leaves = flatten_arguments(arguments, with_names=True)[0]
    assert sorted(leaf.text for leaf in leaves) == sorted(leaf.text for leaf in names)
    assert {leaf for leaf in leaves if not leaf.argument.startswith("rows[")} == {*names[:-1]}


@pytest.mark.parametrize("arguments", [{"a": {1, 2}}, {"a": [object()]}, {1: "a"}])
def test_a_value_that_json_cannot_hold_is_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(InvalidCall):
        flatten_arguments(arguments)


def test_more_values_than_the_limit_are_cut() -> None:
    leaves, is_cut = flatten_arguments({"a": ["x"] * (MAX_LEAVES + 1)})
    assert is_cut
    assert len(leaves) == MAX_LEAVES


def test_the_limits_are_limits_an_ordinary_call_stays_below() -> None:
    assert MAX_DEPTH >= 32
    assert MAX_LEAVES >= 1000


def test_an_integer_too_long_to_print_is_listed_all_the_same() -> None:
    ((leaf,), is_cut) = flatten_arguments({"n": 10**5000})
    assert leaf.argument == "n"
    assert not is_cut


@pytest.mark.parametrize(
    ("argument", "sink"),
    [
        ("to", "recipient"),
        ("cc[0]", "recipient"),
        ("recipient_email", "recipient"),
        ("participants[3]", "recipient"),
        ("url", "url"),
        ("webhookUrl", "url"),
        ("target.url", "url"),
        ("file_path", "path"),
        ("destination", "path"),
        ("command", "command"),
        ("sql", "command"),
        ("iban", "account"),
        ("wallet", "account"),
        ("amount", ""),
        ("body", ""),
        ("note", ""),
        ("", ""),
        ("[0]", ""),
    ],
)
def test_an_argument_is_the_kind_of_place_its_name_says(argument: str, sink: str) -> None:
    assert sink_from_argument(argument) == sink
