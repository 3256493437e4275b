"""The text of XML as its parser gives it to an application: without the marks that may stand inside a word.

`previ<![CDATA[ous]]>` is one word to a parser, and so is a word with a comment or an element in it.
"""

from __future__ import annotations

import re
from typing import Final

# An unclosed mark goes on to the end: looking for its end from each of a million marks would be quadratic.
_MARKS: Final = r"(?s:<!\[CDATA\[(.*?)(?:\]\]>|\Z)|<!--.*?(?:-->|\Z)|<\?.*?(?:\?>|\Z))"
_MARK: Final = re.compile(_MARKS)
_MARK_OR_TAG: Final = re.compile(rf"{_MARKS}|</?[A-Za-z_:][^<>]*+>")
_ATTRIBUTE: Final = re.compile(r"""=\s*+(?:"([^"<]*+)"|'([^'<]*+)')""")
_EXTERNAL: Final = re.compile(r"<!DOCTYPE\s++[^\s>\[]++\s++(?:SYSTEM|PUBLIC)\s|http://www\.w3\.org/2001/XInclude")
_DOCUMENT: Final = re.compile(r"\s*+<\?xml\b")


def is_xml(text: str) -> bool:
    """Return whether a text declares itself an XML document."""
    return _DOCUMENT.match(text) is not None


def has_own_entities(text: str) -> bool:
    """Return whether a document defines entities: then only its parser knows what they stand for."""
    return "<!ENTITY" in text


def needs_other_files(text: str) -> bool:
    """Return whether a document's parser may fetch other files: an external DTD, or what XInclude names."""
    return _EXTERNAL.search(text) is not None


def attribute_texts(text: str) -> tuple[str, ...]:
    """Return the values of a document's attributes as one text, one word and the next apart, and glued together.

    An application may join the values that one text is cut into. Nothing for fewer than two values.
    """
    values = [one or other for one, other in _ATTRIBUTE.findall(_MARK.sub("", text)) if one or other]
    return (" ".join(values), "".join(values)) if len(values) > 1 else ()


def joined_text(text: str, *, document: bool) -> str:
    """Return a text without comments and the marks of CDATA, and of a document also without its tags.

    Empty if none of them stands inside a word, because then the text itself has all of its words.
    """
    if not document and "<!" not in text and "<?" not in text:
        return ""
    inside_a_word = ends_in_word = False
    last = 0

    def unmark(mark: re.Match[str]) -> str:
        nonlocal inside_a_word, ends_in_word, last
        for piece in (text[last : mark.start()], mark[1] or ""):
            if piece:
                inside_a_word = inside_a_word or (ends_in_word and piece[0].isalnum())
                ends_in_word = piece[-1].isalnum()
        last = mark.end()
        return mark[1] or ""

    joined = (_MARK_OR_TAG if document else _MARK).sub(unmark, text)
    return joined if inside_a_word or (ends_in_word and text[last : last + 1].isalnum()) else ""
