"""Every reason of an assessment has a meaning for people."""

from __future__ import annotations

from lockgate.cli.reasons import REASON_TEXTS
from lockgate.core.requests.combined_verdict import REASONS


def test_every_reason_is_explained_and_no_other() -> None:
    assert set(REASON_TEXTS) == set(REASONS)
    assert all(text.meaning for text in REASON_TEXTS.values())
