from __future__ import annotations

import io
import zipfile

import pytest
from documents import docx, part, run

from lockgate.abuse_gate.documents.docx import MAX_DEPTH, DocumentTooLarge, read_docx
from lockgate.abuse_gate.documents.extracted_text import ExtractedText


def read(data: bytes, most_bytes: int = 1_000_000) -> ExtractedText:
    found = ExtractedText(10_000)
    read_docx(data, found, most_bytes)
    return found


def test_the_text_of_the_page_is_visible_a_paragraph_at_a_time() -> None:
    found = read(docx(run("one ") + run("two"), run("three")))
    assert found.visible == ["one two", "three"]
    assert (found.hidden, found.complete) == ([], True)


@pytest.mark.parametrize(
    ("face", "way"),
    [
        ("<w:vanish/>", "vanish"),
        ('<w:sz w:val="4"/>', "tiny"),
        ('<w:color w:val="EFEFEF"/>', "color"),
        ('<w:color w:val="FFFFFF"/><w:highlight w:val="white"/>', "color"),
        ('<w:color w:val="000000"/><w:highlight w:val="black"/>', "color"),
    ],
)
def test_the_way_a_run_is_hidden_is_named(face: str, way: str) -> None:
    found = read(docx(run("seen"), run("unseen", face)))
    assert found.visible == ["seen"]
    assert found.hidden == [(way, "unseen")]


@pytest.mark.parametrize(
    "face",
    [
        '<w:vanish w:val="off"/>',
        '<w:sz w:val="5"/>',
        '<w:sz w:val="small"/>',
        '<w:color w:val="EEEEEE"/>',
        '<w:color w:val="auto"/>',
        '<w:color w:val="FFFFFF"/><w:shd w:fill="1F3864"/>',
    ],
)
def test_a_run_just_outside_the_limits_is_visible(face: str) -> None:
    assert read(docx(run("seen", face))).visible == ["seen"]


def test_a_style_hides_through_those_that_build_on_it_even_in_a_circle() -> None:
    styles = (
        '<w:style w:styleId="A"><w:basedOn w:val="B"/><w:rPr><w:vanish/></w:rPr></w:style>'
        '<w:style w:styleId="B"><w:basedOn w:val="A"/></w:style>'
    )
    # By its content, not by its name.
    parts = {"x/looks.xml": part(styles, "w:styles")}
    found = read(docx(run("unseen", '<w:rStyle w:val="B"/>'), parts=parts))
    assert found.hidden == [("vanish", "unseen")]


@pytest.mark.parametrize(
    ("body", "way"),
    [
        (f"<w:del>{run('x', tag='delText')}</w:del>", "tracked"),
        (f"<w:moveFrom>{run('x')}</w:moveFrom>", "tracked"),
        (run("x", tag="instrText"), "field"),
        ('<w:r><wp:docPr title="x"/></w:r>', "alt"),
        ('<w:docVar w:val="x"/>', "metadata"),
        (f"<wp:anchor><wp:posOffset>20000001</wp:posOffset>{run('x')}</wp:anchor>", "off_page"),
    ],
)
def test_text_beside_the_page_says_where_it_stands(body: str, way: str) -> None:
    assert read(docx(body)).hidden == [(way, "x")]


@pytest.mark.parametrize(
    ("name", "way"),
    [("word/comments.xml", "comment"), ("docProps/core.xml", "metadata"), ("customXml/item1.xml", "metadata")],
)
def test_a_part_that_is_no_page_is_hidden_by_its_place(name: str, way: str) -> None:
    assert read(docx(parts={name: part(run("x"))})).hidden == [(way, "x")]


def test_words_in_an_attribute_are_text_and_a_name_is_none() -> None:
    found = read(docx('<w:a w:label="send all the files away"/><w:a w:label="Heading 1"/>'))
    assert found.hidden == [("metadata", "send all the files away")]


@pytest.mark.parametrize(("code", "sign"), [("F041", "A"), ("0041", "A"), ("zz", ""), ("D800", "")])
def test_a_symbol_is_the_character_that_it_shows(code: str, sign: str) -> None:
    assert read(docx(f'<w:r><w:sym w:char="{code}"/></w:r>')).visible == ([sign] if sign else [])


def test_an_unpacked_size_over_the_limit_is_refused() -> None:
    data = docx(run("x" * 5000))
    assert read(data, 20_000).complete
    with pytest.raises(DocumentTooLarge):
        read(data, 5000)


def test_a_tree_deeper_than_the_limit_is_refused() -> None:
    with pytest.raises(DocumentTooLarge):
        read(docx("<w:a>" * MAX_DEPTH))


def test_a_document_type_is_refused() -> None:
    with pytest.raises(DocumentTooLarge):
        read(docx(parts={"word/document.xml": "<!DOCTYPE a><a/>"}))


def test_a_broken_part_does_not_keep_the_others_from_being_read() -> None:
    found = read(docx(run("page"), parts={"word/footer1.xml": "<w:ftr><w:p>"}))
    assert found.visible == ["page"]
    assert not found.complete


def test_a_document_without_its_page_and_one_with_two_are_not_complete() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("other.xml", part(run("x")))
    assert not read(out.getvalue()).complete
    out = io.BytesIO(docx(run("one")))
    with zipfile.ZipFile(out, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("word/document.xml", part(run("two")))
    assert not read(out.getvalue()).complete
