"""What flows from program to program."""

from __future__ import annotations

from lockgate.core.ruling.effects.flows import NO_OUTPUT, UNKNOWN_OUTPUT, Output, Source
from lockgate.core.ruling.effects.shell_walk import join_flows


def test_the_most_telling_flow_counts() -> None:
    secret = Output(Source.SECRET, target=".env")
    assert join_flows([Output(Source.TEXT, "a"), secret, UNKNOWN_OUTPUT]) is secret


def test_known_texts_are_joined() -> None:
    assert join_flows([Output(Source.TEXT, "a"), NO_OUTPUT, Output(Source.TEXT, "b")]) == Output(Source.TEXT, "ab")
    assert join_flows([NO_OUTPUT]) is NO_OUTPUT
