"""The table of kinds."""

from __future__ import annotations

from lockgate.core.ruling.effects.effect import KINDS, Certainty, Effect, Severity, effect


def test_an_effect_has_the_severity_of_its_kind() -> None:
    assert effect("pushes", "origin") == Effect("pushes", Severity.REACHES_OUT, "origin", Certainty.SURE)


def test_every_kind_says_in_words_what_it_does() -> None:
    for name, kind in KINDS.items():
        assert name == name.lower()
        assert not kind.does.endswith("."), name
        assert kind.does.format(target="x"), name
