"""Patterns for phrases: what may stand between two words, and what may not."""

from __future__ import annotations

import re

import pytest

from lockgate.core.text.rules.phrases import AI_READER, ASSISTANT, any_of, phrase


def matches(pattern: str, text: str) -> bool:
    """As the engine does: over bytes, where only ASCII letters have two cases."""
    return re.search(pattern.encode(), text.encode(), re.IGNORECASE) is not None


@pytest.mark.parametrize("text", ["drop the task", "drop  the\n# task", "drop **the** `task`", "drop all of the task"])
def test_a_number_stands_for_up_to_so_many_other_words(text: str) -> None:
    assert matches(phrase("drop", 3, "task"), text)


@pytest.mark.parametrize("text", ["drop one two three four task", "drop(the) task", "drop = task", "eavesdrop task"])
def test_more_words_and_the_signs_of_code_end_a_phrase(text: str) -> None:
    assert not matches(phrase("drop", 3, "task"), text)


def test_a_space_in_an_alternative_is_any_run_of_signs() -> None:
    assert matches(phrase("the user|your owner"), "the-*user*")
    assert not matches(phrase("the user|your owner"), "theuser")


@pytest.mark.parametrize("text", ["tu être", "TU ÊTRE", "Tu Être", "tu etre"])
def test_accented_letters_are_found_capitalised_and_without_accents(text: str) -> None:
    assert matches(phrase("tu être"), text)


def test_scripts_without_ascii_letters_have_white_space_between_words() -> None:
    assert matches(phrase("забудь", 1, "инструкции", ascii_words=False), "забудь все инструкции")
    assert not matches(phrase("забудь", 1, "инструкции", ascii_words=False), "забудь-инструкции")


def test_any_of_several_patterns_is_enough() -> None:
    assert matches(any_of(phrase("one"), phrase("two")), "number two")


def test_the_names_of_an_ai_leave_out_ordinary_words() -> None:
    assert matches(AI_READER, "dear language model")
    assert not matches(AI_READER, "the agent of the model")
    assert matches(ASSISTANT, "dear assistant")
