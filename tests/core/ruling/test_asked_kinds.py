"""The words by which a goal asks for a kind of effect."""

from __future__ import annotations

from time import process_time

import pytest

from lockgate.core.ruling.asked_kinds import is_asked_by, is_word_for_kind, wishes_in
from lockgate.core.ruling.effects.effect import ASKED_BY, KINDS


def is_asked(kind: str, goal: str) -> bool:
    return is_asked_by(kind, wishes_in(goal))


def test_every_section_is_a_kind_and_every_phrase_has_at_most_two_words() -> None:
    assert set(ASKED_BY) <= set(KINDS)
    for phrases in ASKED_BY.values():
        assert len(set(phrases)) == len(phrases)
        assert all(len(phrase.split(" ")) <= 2 and phrase == phrase.lower() for phrase in phrases)


@pytest.mark.parametrize(
    ("goal", "is_near"),
    [
        ("delete the old merged branches", True),
        ("the branches that are merged: delete them", True),
        ("Delete the file. Then list the branches.", False),
        ("delete the note that says which of our many old branches", False),
    ],
)
def test_two_words_stand_near_each_other_in_one_sentence(goal: str, *, is_near: bool) -> None:
    assert is_asked("deletes-branch", goal) is is_near


def test_words_with_a_hyphen_stand_side_by_side() -> None:
    assert is_asked("changes-login", "our deploy key leaked")
    assert is_asked("changes-login", "our deploy-key leaked")
    assert not is_asked("changes-login", "deploy the page with the key")


@pytest.mark.parametrize(
    "goal",
    [
        "tidy up the namespace, don't delete anything",
        "Tidy up, but do not delete the volumes.",
        "leave it all, delete nothing",
        "tidy up without deleting data",
        "who deleted the volumes?",
        "Was the table dropped?",
        "what would happen if we dropped the table",
        "räum auf, nichts löschen",
        "clean up, no purging please",
    ],
)
def test_what_is_forbidden_or_only_asked_about_is_no_wish(goal: str) -> None:
    assert not is_asked("deletes-data", goal)


@pytest.mark.parametrize(
    "goal",
    [
        "don't forget to delete the old volumes",
        "can you delete the old volumes?",
        "which volumes are unused? delete them",
        "no rush, delete the old volumes",
        "The deploy did not work, drop the test database.",
    ],
)
def test_a_polite_or_troubled_wish_is_one(goal: str) -> None:
    assert is_asked("deletes-data", goal)


def test_to_rotate_a_key_lets_nobody_in_and_to_delete_branches_forces_nothing() -> None:
    assert not is_asked("grants-access", "rotate the payment key")
    assert not is_asked("rewrites-history", "delete the merged branches")
    assert not is_asked("deletes-branch", "force the push of my branch")


def test_a_word_is_one_for_a_kind_with_its_endings_only() -> None:
    assert is_word_for_kind("schedules-job", "crontab")
    assert not is_word_for_kind("schedules-job", "evil.timer")
    assert not is_word_for_kind("looks", "crontab")


@pytest.mark.parametrize("piece", ["a b ", "no ", "x", ".", "delete ", "\u3057", "what ", "' ", "-", "\n"])
def test_a_very_long_goal_is_cut_and_read_in_linear_time(piece: str) -> None:
    short, long = (_seconds_to_read(piece * count) for count in (2_500, 20_000))
    assert long < 40 * short + 0.05
    assert not is_asked("deletes-data", "a b " * 20_000 + "delete the volumes")


def _seconds_to_read(goal: str) -> float:
    start = process_time()
    for kind in ASKED_BY:
        is_asked(kind, goal)
    return process_time() - start
