from __future__ import annotations

from lockgate.abuse_gate.documents.extracted_text import BY_STRETCH, HIDING_WAYS, ExtractedText


def test_shown_and_hidden_texts_are_kept_apart_and_stripped() -> None:
    found = ExtractedText(100)
    found.show("  On the page.\n")
    found.hide("color", "\twhite on white ")
    assert found.visible == ["On the page."]
    assert found.hidden == [("color", "white on white")]
    assert found.complete


def test_white_space_alone_is_no_text() -> None:
    found = ExtractedText(100)
    found.show(" \n ")
    found.hide("comment", "")
    assert (found.visible, found.hidden, found.complete) == ([], [], True)


def test_all_texts_share_one_limit_and_a_cut_one_is_not_complete() -> None:
    found = ExtractedText(10)
    found.show("12345")
    found.hide("tiny", "67890")
    assert found.complete
    assert found.is_full
    found.show("more")
    assert not found.complete
    assert (found.visible, found.hidden) == (["12345"], [("tiny", "67890")])


def test_the_start_of_a_text_that_does_not_fit_is_kept() -> None:
    found = ExtractedText(4)
    found.hide("vanish", "ignore all")
    assert found.hidden == [("vanish", "igno")]
    assert not found.complete


def test_a_count_adds_up() -> None:
    found = ExtractedText(1)
    found.count("images")
    found.count("images", 2)
    found.count("pages", 0)
    assert found.stats == {"images": 3, "pages": 0}


def test_ways_that_count_by_stretch_have_a_size_to_count_from() -> None:
    assert all(HIDING_WAYS[way] is not None for way in BY_STRETCH)
