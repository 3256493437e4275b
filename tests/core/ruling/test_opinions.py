from __future__ import annotations

import pytest

from lockgate.core.ruling.opinions import Opinion, Ruling, Silent, Triage, Unreadable
from lockgate.core.vocabulary import Action


@pytest.mark.parametrize(
    ("opinion", "kind"),
    [
        (Triage(True), "triage"),
        (Ruling(Action.REORIENT, "ask first"), "ruling"),
        (Unreadable(), "unreadable"),
        (Silent("deadline"), "silent"),
    ],
)
def test_each_opinion_matches_its_own_kind_only(opinion: Opinion, kind: str) -> None:
    match opinion:
        case Triage(suspicious):
            assert (kind, suspicious) == ("triage", True)
        case Ruling(action, correction):
            assert (kind, action, correction) == ("ruling", Action.REORIENT, "ask first")
        case Unreadable():
            assert kind == "unreadable"
        case Silent(why):
            assert (kind, why) == ("silent", "deadline")


def test_no_reply_and_an_unreadable_one_clear_nothing() -> None:
    # Empty tuples: whether there was an opinion is asked by its kind, never by its truth.
    assert not isinstance(Unreadable(), Triage | Ruling)
    assert not isinstance(Silent(), Triage | Ruling)
    assert Silent().why == ""
