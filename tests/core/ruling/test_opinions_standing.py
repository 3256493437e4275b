"""A judge's standing: what is not examined has none that clears."""

from lockgate.core.ruling.opinions import Authority, JudgeStanding, standing_of


class Plain:
    pass


class Examined:
    standing = JudgeStanding(Authority.PASSED, "e1", "2026-11-18")


def test_a_judge_without_a_standing_is_the_developers() -> None:
    assert standing_of(Plain()).authority is Authority.DEVELOPER
    assert not standing_of(Plain()).has_passed


def test_a_judge_brings_its_own_standing() -> None:
    assert standing_of(Examined()).has_passed
    assert not JudgeStanding(Authority.FAILED).has_passed
