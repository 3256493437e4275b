"""What programs print, and what the next one makes of it."""

from __future__ import annotations

from lockgate.core.ruling.effects.shell_syntax import NO_OUTPUT, UNKNOWN_OUTPUT, Output, Source
from lockgate.core.ruling.effects.shell_walk import join_streams


def test_the_most_telling_flow_counts() -> None:
    secret = Output(Source.SECRET, target=".env")
    assert join_streams([Output(Source.TEXT, "a"), secret, UNKNOWN_OUTPUT]) is secret


def test_known_texts_are_joined() -> None:
    assert join_streams([Output(Source.TEXT, "a"), NO_OUTPUT, Output(Source.TEXT, "b")]) == Output(Source.TEXT, "ab")
    assert join_streams([NO_OUTPUT]) is NO_OUTPUT
