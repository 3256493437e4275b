"""Sessions that lost a block are remembered until the store knows of it."""

from __future__ import annotations

import pytest

from lockgate.sessions import lost_blocks
from lockgate.sessions.lost_blocks import LostBlocks


def test_a_loss_is_forgotten_only_up_to_the_one_that_was_kept() -> None:
    lost = LostBlocks()
    assert (lost.latest("s"), lost.has_any(["s"]), lost.sessions()) == (0, False, [])
    lost.note("s")
    kept = lost.latest("s")
    lost.note("s")
    lost.forget("s", kept)
    assert lost.has_any(["t", "s"])
    lost.forget("s", lost.latest("s"))
    assert not lost.has_any(["s"])


def test_more_sessions_than_can_be_remembered_count_as_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lost_blocks, "_MAX_SESSIONS", 1)
    lost = LostBlocks()
    lost.note("s")
    assert not lost.has_any(["t"])
    lost.note("t")
    assert lost.has_any([])
