from __future__ import annotations

from typing import Any

import pytest

from lockgate import Gate
from lockgate.core.errors import InvalidBlock
from lockgate.core.vocabulary import Kind, Trust
from lockgate.gate.block_request import parse_block_request


def parse(**given: Any) -> tuple[Trust | None, Kind | None, list[str]]:
    asked = {
        "content": "x",
        "source": "web:a",
        "trust": None,
        "kind": None,
        "mutable": None,
        "tainted_by": (),
        "id": None,
    }
    return parse_block_request(**{**asked, **given})


def test_what_is_not_said_is_left_to_the_gate() -> None:
    assert parse() == (None, None, [])


@pytest.mark.parametrize("trust", ["untrusted", "UNTRUSTED", Trust.UNTRUSTED])
def test_trust_may_be_a_word(trust: str | Trust) -> None:
    assert parse(trust=trust)[0] is Trust.UNTRUSTED


@pytest.mark.parametrize("kind", ["data", Kind.DATA])
def test_a_kind_may_be_a_word(kind: str | Kind) -> None:
    assert parse(kind=kind)[1] is Kind.DATA


def test_parents_may_be_blocks_or_their_ids(gate: Gate) -> None:
    parent = gate.session(goal="Summarise the week").add("x", source="web:a")
    assert parse(tainted_by=[parent, "b2"])[2] == [parent.id, "b2"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"content": b"x"}, "content must be text, not bytes"),
        ({"content": None}, "content must be text, not NoneType"),
        ({"content": {"body": "hello"}}, r"not dict\nhint: give the text that the model reads, such as json\.dumps"),
        ({"source": ""}, "needs a source"),
        ({"source": 7}, "needs a source"),
        ({"id": 7}, "id must be text, not int"),
        ({"mutable": 1}, "mutable must be true or false, not int"),
        ({"tainted_by": "b1"}, "tainted_by must be a list"),
        ({"tainted_by": {"b1"}}, "tainted_by must be a list"),
        ({"trust": "root"}, "unknown trust `root`"),
        ({"trust": 1}, "unknown trust"),
        ({"kind": "DATA"}, "unknown kind `DATA`"),
        ({"kind": ""}, "unknown kind"),
    ],
)
def test_what_no_block_can_be_is_refused(given: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidBlock, match=said):
        parse(**given)
