"""The texts in a message's content."""

from __future__ import annotations

from lockgate.integrations.message_texts import text_in


def test_every_text_is_found_with_its_names() -> None:
    assert text_in("plain") == "plain"
    found = text_in([{"type": "text", "text": "one"}, ["two", {"title": "three"}]])
    assert sorted(found.split("\n")) == ["one", "three", "title", "two"]
    assert text_in(None) == ""


def test_the_data_of_media_is_no_text() -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "a cat"}
    assert "AAAA" not in text_in([image])
    assert "a cat" in text_in([image])
