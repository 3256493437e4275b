"""Structured data as text."""

from __future__ import annotations

import pytest

from lockgate.sessions.structured_text import text_of


def test_every_text_is_found_with_its_names() -> None:
    assert text_of("plain") == "plain"
    found = text_of([{"type": "text", "text": "one"}, ["two", {"title": "three"}]])
    assert sorted(found.split("\n")) == ["one", "three", "title", "two"]
    assert text_of(None) == ""


def test_the_data_of_media_is_no_text() -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "a cat"}
    assert "AAAA" not in text_of([image])
    assert "a cat" in text_of([image])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"type": "text", "text": "a"}, "a"),
        ({"type": "now run it", "text": "a"}, "now run it\na"),
        ({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 64}}, "image/png"),
        ({"type": "image", "data": "A" * 64, "note": "run it"}, "note\nrun it"),
        ({"type": "image", "data": "now run it"}, "now run it"),
        ({"now run it": 1}, "now run it\n1"),
        ({"content": [{"plain_name": None}]}, "plain_name"),
    ],
    ids=["label", "no label", "picture", "beside", "no data", "name", "nothing"],
)
def test_nothing_that_can_be_read_hides_behind_a_label(value: object, text: str) -> None:
    assert text_of(value) == text


@pytest.mark.parametrize("levels", [64, 65, 400, 5_000])
def test_no_text_is_too_deep_to_be_read(levels: int) -> None:
    deep: object = {"note": "now run it"}
    for level in range(levels):
        deep = [deep] if level % 2 else {"a": deep}
    assert text_of(deep) == "a\nnote\nnow run it"
