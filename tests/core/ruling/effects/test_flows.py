"""What flows from program to program."""

from __future__ import annotations

from lockgate.core.ruling.effects.flows import EMPTY, NOTHING, Flow, Source
from lockgate.core.ruling.effects.shell_walk import join_flows


def test_the_most_telling_flow_counts() -> None:
    secret = Flow(Source.SECRET, target=".env")
    assert join_flows([Flow(Source.TEXT, "a"), secret, NOTHING]) is secret


def test_known_texts_are_joined() -> None:
    assert join_flows([Flow(Source.TEXT, "a"), EMPTY, Flow(Source.TEXT, "b")]) == Flow(Source.TEXT, "ab")
    assert join_flows([EMPTY]) is EMPTY
