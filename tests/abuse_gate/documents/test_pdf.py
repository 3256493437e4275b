from __future__ import annotations

import logging

import pytest
from documents import line, pdf

from lockgate.abuse_gate.documents.extracted_text import ExtractedText
from lockgate.abuse_gate.documents.pdf import MAX_PAINTED, read_pdf


def read(data: bytes, most_pages: int = 10, most_characters: int = 10_000) -> ExtractedText:
    found = ExtractedText(most_characters)
    read_pdf(data, found, most_pages)
    return found


def test_the_text_of_a_page_is_visible() -> None:
    found = read(pdf(line("Rain")))
    assert found.visible == ["Rain"]
    assert (found.hidden, found.stats["pages"], found.complete) == ([], 1, True)


@pytest.mark.parametrize(
    ("drawn", "way"),
    [
        (line("unseen", before="3 Tr"), "invisible"),
        (line("unseen", before="7 Tr"), "invisible"),
        (line("unseen", size=1.4), "tiny"),
        (line("unseen", before="4 Tz"), "tiny"),
        (line("unseen", x=700), "off_page"),
        (line("unseen", before="0 0 10 10 re W n"), "off_page"),
        (line("unseen", before="0.99 g"), "color"),
    ],
)
def test_the_way_a_text_is_hidden_is_named(drawn: str, way: str) -> None:
    found = read(pdf(line("seen", y=400) + drawn))
    assert found.visible == ["seen"]
    assert found.hidden == [(way, "unseen")]


def test_a_text_that_is_painted_over_afterwards_is_covered() -> None:
    found = read(pdf(line("seen", y=400) + line("unseen", y=600) + "1 g 0 590 612 40 re f"))
    assert found.hidden == [("covered", "unseen")]


@pytest.mark.parametrize(
    "drawn",
    [
        line("seen", size=1.6),
        line("seen", x=610),
        line("seen", before="0.9 g"),
        line("seen", before="1 g 2 Tr"),
        line("seen", before="(no number) g (x) Tr"),
    ],
)
def test_a_text_just_outside_the_limits_is_visible(drawn: str) -> None:
    found = read(pdf(drawn))
    assert (found.visible, found.hidden) == (["seen"], [])


def test_the_colour_comes_back_with_the_state() -> None:
    found = read(pdf("1 g q 0 g " + line("seen").replace("q 0 g", "") + line("unseen", y=600, before="")))
    assert found.hidden == [("color", "unseen")]


def test_pages_past_the_limit_stay_unread_and_are_counted() -> None:
    found = read(pdf(line("one"), line("two"), line("three")), most_pages=2)
    assert found.visible == ["one", "two"]
    assert found.stats["pages"] == 3
    assert not found.complete


def test_no_page_is_read_once_the_room_is_used_up() -> None:
    found = read(pdf(line("one"), line("two")), most_characters=3)
    assert found.visible == ["one"]
    assert not found.complete


def test_texts_of_the_file_are_metadata_and_notes_are_annotations() -> None:
    found = read(pdf(line("seen"), info={"Subject": "about rain", "ModDate": "D:20260101"}, annotation="a note"))
    assert found.hidden == [("metadata", "about rain"), ("annotation", "a note")]


def test_a_page_with_only_a_picture_is_counted() -> None:
    found = read(pdf("q 612 0 0 792 0 0 cm /I1 Do Q", image=True))
    assert (found.stats["images"], found.stats["image_only_pages"]) == (1, 1)


def test_more_paint_than_is_tracked_leaves_the_file_incomplete() -> None:
    assert not read(pdf(line("seen") + "0 g 1 1 1 1 re f " * (MAX_PAINTED + 1))).complete


def test_the_library_keeps_no_handler_of_ours() -> None:
    before = list(logging.getLogger("pypdf").handlers)
    read(pdf(line("Rain")))
    assert logging.getLogger("pypdf").handlers == before
