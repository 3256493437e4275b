"""A judge's standing: what is not examined has none that clears."""

from lockgate.core.judging.standing import JudgeStanding, Standing, standing_of


class Plain:
    pass


class Examined:
    standing = JudgeStanding(Standing.PASSED, "e1", "2026-11-18")


def test_a_judge_without_a_standing_is_the_developers() -> None:
    assert standing_of(Plain()).standing is Standing.DEVELOPER
    assert not standing_of(Plain()).has_passed


def test_a_judge_brings_its_own_standing() -> None:
    assert standing_of(Examined()).has_passed
    assert not JudgeStanding(Standing.FAILED).has_passed
