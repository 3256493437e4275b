"""XML is also read as its parser joins it."""

from __future__ import annotations

from time import process_time

import pytest

from lockgate.abuse_gate.request.xml_text import (
    attribute_texts,
    has_own_entities,
    is_xml,
    joined_text,
    needs_other_files,
)


@pytest.mark.parametrize(
    ("text", "joined"),
    [
        ("previ<![CDATA[ous]]> one", "previous one"),
        ("previ<![CDATA[]]>ous", "previous"),
        ("previ<!-- a > b -->ous", "previous"),
        ("previ<?x y?>ous", "previous"),
        ("a<![CDATA[<!--]]>previ<![CDATA[ous]]>", "a<!--previous"),
        ("a <b>c</b> d", ""),
        ("<t><![CDATA[A title]]></t>", ""),
        ("previ<b></b>ous", ""),
        ("if a<b and c", ""),
    ],
)
def test_marks_inside_a_word_are_left_out(text: str, joined: str) -> None:
    assert joined_text(text, document=False) == joined


def test_tags_of_a_document_are_left_out_too() -> None:
    assert joined_text("<a>previ<b x='1'></b>ous</a>", document=True) == "previous"
    assert joined_text("<a>previous</a>", document=True) == ""


def test_a_document_says_what_it_is() -> None:
    assert is_xml(' <?xml version="1.0"?><a/>')
    assert not is_xml("<a/>")
    assert has_own_entities('<!DOCTYPE a [<!ENTITY x "y">]>')


def test_the_values_of_attributes_are_joined() -> None:
    cut = "<?xml version='1.0'?><a v=\"igno\" w='re all'/><!-- x='y' --><b v=''/>"
    assert attribute_texts(cut) == ("igno re all", "ignore all")
    assert attribute_texts('<a v="one value"/>') == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('<!DOCTYPE a SYSTEM "a.dtd"><a/>', True),
        ('<!DOCTYPE a\n PUBLIC "-//X" "https://x.example/a.dtd" []><a/>', True),
        ('<a xmlns:xi="http://www.w3.org/2001/XInclude"/>', True),
        ("<!DOCTYPE a><a>SYSTEM PUBLIC</a>", False),
    ],
)
def test_a_document_may_need_other_files(text: str, *, expected: bool) -> None:
    assert needs_other_files(text) is expected


@pytest.mark.parametrize("mark", ['="', "='a", "=\"'", "<!DOCTYPE ", "<!DOCTYPE a "])
def test_a_megabyte_of_attributes_takes_linear_time(mark: str) -> None:
    text = mark * (1_000_000 // len(mark))
    start = process_time()
    attribute_texts(text)
    needs_other_files(text)
    assert process_time() - start < 5


@pytest.mark.parametrize("mark", ["<!--", "<![CDATA[", "<?", "<a", "<", "a<b/>", "<![CDATA[a]]>", "]]>"])
def test_a_megabyte_of_marks_takes_linear_time(mark: str) -> None:
    text = mark * (1_000_000 // len(mark))
    start = process_time()
    joined_text(text, document=True)
    assert process_time() - start < 5
