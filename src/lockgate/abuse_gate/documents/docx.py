"""The text of a Word document: on the page, and in all parts of its archive that no page shows.

expat reads the XML in pieces, out of a decompressor that stops at a number of bytes; neither ever holds a whole part. A
document type is refused, and with it every entity: no word processor writes one.
"""

from __future__ import annotations

import io
import re
import zipfile
from typing import Final, NamedTuple
from xml.parsers import expat

from lockgate.abuse_gate.documents.extracted_text import ExtractedText
from lockgate.abuse_gate.request.content_kinds import is_text, printable_words

MAX_ENTRIES: Final = 4096
MAX_DEPTH: Final = 256
MAX_STYLES: Final = 5000
_CHUNK: Final = 65_536

# Pictures and fonts, which hold no words.
_NO_WORDS: Final = re.compile(r"(?:\w+/)?(?:media|fonts)/[^/]+|docprops/thumbnail\.\w+", re.IGNORECASE)
# Objects of other programs, and settings of a printer.
_EMBEDDED: Final = re.compile(
    r"(?:\w+/)?(?:embeddings/[^/]+\.bin|printersettings/[^/]+\.bin|activex/[^/]+\.bin)", re.IGNORECASE
)
_PRINTER: Final = re.compile(r"printersettings/[^/]+\.bin", re.IGNORECASE)
_XML: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*+<|\xff\xfe<\x00|\xfe\xff\x00<|<\x00|\x00<")
_STYLES: Final = re.compile(rb"<(?:\w+:)?styles[\s>]")
# So many words in an attribute are no name.
_MANY_WORDS: Final = re.compile(r"\b(?:[^\W\d_]{2,}+[^\w\s]{0,3}+\s++){3}[^\W\d_]{2}")
_FALSE: Final = ("0", "false", "off", "none")
# 914,400 are an inch: further out than any sheet is wide.
_FAR_EMU: Final = 20_000_000


class DocumentTooLarge(Exception):
    """The document is over a limit; the rest stays unread."""


class _TextFormat(NamedTuple):
    """The format of a run of text, as far as it can hide the text; None where the document does not say."""

    vanish: bool | None = None
    color: str | None = None
    half_points: int | None = None
    fill: str | None = None

    def over(self, under: _TextFormat) -> _TextFormat:
        said = {name: value for name, value in self._asdict().items() if value is not None}
        return under._replace(**said)


def read_docx(data: bytes, found: ExtractedText, most_bytes: int) -> None:
    """Read all text of a Word document, unpacking at most so many bytes."""
    left = [most_bytes]
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = archive.infolist()
        found.stats["entries"] = len(entries)
        if len(entries) > MAX_ENTRIES:
            raise DocumentTooLarge
        names = [entry.filename for entry in entries]
        # Two entries of one name: a word processor may open the other one.
        if len(set(names)) != len(names):
            found.complete = False
        heads = {entry.filename: _read_start(archive, entry) for entry in entries if not entry.is_dir()}
        styles = _read_styles(archive, heads, left, found)
        if not any(name.lower().startswith("word/document") for name in names):
            found.complete = False
        # Every part is read, whatever its name.
        for name in sorted(heads, key=lambda name: name != "word/document.xml"):
            if _XML.match(heads[name]):
                reader = _TextReader(found, styles, _place_of(name.lower()))
                _read_part(archive, name, reader, left, found)
                reader.end_run()
            else:
                _read_other_part(archive, name, heads[name], left, found)


def _read_styles(
    archive: zipfile.ZipFile, heads: dict[str, bytes], left: list[int], found: ExtractedText
) -> dict[str, _TextFormat]:
    styles: dict[str, _TextFormat] = {}
    for name, head in heads.items():
        # By its content: the archive's own list of parts may lie.
        if _XML.match(head) and _STYLES.search(head.replace(b"\x00", b"")):
            reader = _StyleReader()
            _read_part(archive, name, reader, left, found)
            styles |= reader.resolve_styles()
    return styles


def _place_of(name: str) -> str:
    """Return where the text of a part stands; an empty text for the page."""
    if "comments" in name:
        return "comment"
    return "metadata" if name.startswith(("docprops/", "customxml/")) or name.endswith(".rels") else ""


def _read_other_part(archive: zipfile.ZipFile, name: str, head: bytes, left: list[int], found: ExtractedText) -> None:
    """Read a part that is no XML."""
    if _NO_WORDS.fullmatch(name) and not is_text(head):
        found.count("images", int("media/" in name.lower()))
    elif head.startswith(b"PK\x03\x04"):
        _read_nested_archive(archive, name, left, found)
    elif _EMBEDDED.fullmatch(name) and not is_text(head):
        # An object of another program, or a printer's settings: only its words are read.
        found.count("attachments", int("printer" not in name.lower()))
        found.hide("metadata", _read_words(archive, name, left))
    elif head:
        # An embedded document or a macro is not opened: only its words are read.
        found.complete = False
        found.hide("metadata", printable_words(head, _CHUNK)[0])


def _read_nested_archive(outer: zipfile.ZipFile, name: str, left: list[int], found: ExtractedText) -> None:
    """Read the parts of an archive inside the archive, such as a chart's workbook, but no archive inside that."""
    inside = _read_bytes(outer, name, left)
    with zipfile.ZipFile(io.BytesIO(inside)) as archive:
        entries = [entry for entry in archive.infolist() if not entry.is_dir()]
        if len(entries) > MAX_ENTRIES or len({entry.filename for entry in entries}) != len(entries):
            raise DocumentTooLarge
        for entry in entries:
            head = _read_start(archive, entry)
            if _XML.match(head):
                reader = _TextReader(found, {}, "metadata")
                _read_part(archive, entry.filename, reader, left, found)
                reader.end_run()
            elif (
                not head or (_NO_WORDS.search(entry.filename) and not is_text(head)) or _PRINTER.search(entry.filename)
            ):
                found.hide("metadata", printable_words(head, _CHUNK)[0])
            else:
                found.complete = False
                found.hide("metadata", printable_words(head, _CHUNK)[0])


def _read_words(archive: zipfile.ZipFile, name: str, left: list[int]) -> str:
    return printable_words(_read_bytes(archive, name, left), _CHUNK)[0]


def _read_bytes(archive: zipfile.ZipFile, name: str, left: list[int]) -> bytes:
    with archive.open(name) as stream:
        data = stream.read(left[0] + 1)
    left[0] -= len(data)
    if left[0] < 0:
        raise DocumentTooLarge
    return data


def _read_start(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    with archive.open(entry) as stream:
        return stream.read(4096)


def _read_part(archive: zipfile.ZipFile, name: str, reader: _XmlReader, left: list[int], found: ExtractedText) -> None:
    """Read one part; an error in it does not keep the others from being read."""
    try:
        _parse_xml(archive, name, reader, left)
    except expat.ExpatError:
        found.complete = False


class _XmlReader:
    def start(self, name: str, given: dict[str, str]) -> None:
        raise NotImplementedError

    def end(self, name: str) -> None:
        raise NotImplementedError

    def text(self, text: str) -> None:
        raise NotImplementedError


def _parse_xml(archive: zipfile.ZipFile, name: str, reader: _XmlReader, left: list[int]) -> None:
    parser = expat.ParserCreate(namespace_separator=None)
    parser.buffer_text = True
    depth = 0

    def start(tag: str, given: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > MAX_DEPTH:
            raise DocumentTooLarge
        reader.start(_local_name(tag), {_local_name(key): value for key, value in given.items()})

    def end(tag: str) -> None:
        nonlocal depth
        depth -= 1
        reader.end(_local_name(tag))

    def refuse(*_: object) -> None:
        raise DocumentTooLarge

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = reader.text
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    with archive.open(name) as stream:
        while chunk := stream.read(_CHUNK):
            left[0] -= len(chunk)
            if left[0] < 0:
                raise DocumentTooLarge
            parser.Parse(chunk, False)
        parser.Parse(b"", True)


def _local_name(tag: str) -> str:
    return tag.rpartition(":")[2]


class _StyleReader(_XmlReader):
    """Reads the formats of the styles in `styles.xml`."""

    def __init__(self) -> None:
        self._faces: dict[str, _TextFormat] = {}
        self._based_on: dict[str, str] = {}
        self._style = ""

    def start(self, name: str, given: dict[str, str]) -> None:
        if name == "style":
            self._style = given.get("styleId", "")
            if len(self._faces) >= MAX_STYLES:
                raise DocumentTooLarge
            self._faces[self._style] = _TextFormat()
        elif name == "basedOn" and self._style:
            self._based_on[self._style] = given.get("val", "")
        elif self._style:
            self._faces[self._style] = _apply_format(self._faces[self._style], name, given)

    def end(self, name: str) -> None:
        if name == "style":
            self._style = ""

    def text(self, text: str) -> None:
        pass

    def resolve_styles(self) -> dict[str, _TextFormat]:
        found = {}
        for style, face in self._faces.items():
            under, steps = self._based_on.get(style), 0
            # Styles can be based on each other in a circle.
            while under in self._faces and steps < 16:
                face = face.over(self._faces[under])
                under, steps = self._based_on.get(under), steps + 1
            found[style] = face
        return found


def _apply_format(face: _TextFormat, name: str, given: dict[str, str]) -> _TextFormat:
    if name in ("vanish", "specVanish"):
        return face._replace(vanish=given.get("val", "true").lower() not in _FALSE)
    if name == "color":
        return face._replace(color=given.get("val", "").lower())
    if name == "sz":
        value = given.get("val", "")
        return face._replace(half_points=int(value)) if re.fullmatch(r"\d{1,5}", value) else face
    if name == "shd":
        return face._replace(fill=given.get("fill", "").lower())
    if name == "highlight":
        return face._replace(fill=given.get("val", "").lower())
    return face


# Elements with a format of their own, from the outermost.
_LEVELS: Final = ("tbl", "tc", "p", "r")
_STYLE_TAGS: Final = ("rStyle", "pStyle")
_FORMAT_TAGS: Final = ("vanish", "specVanish", "color", "sz", "shd", "highlight")


class _TextReader(_XmlReader):
    """Reads the text of one part, run by run; `where` is set for parts that are not the page."""

    def __init__(self, found: ExtractedText, styles: dict[str, _TextFormat], where: str) -> None:
        self._found = found
        self._styles = styles
        self._where = where
        # One format for each open level: a cell inside a cell has its own.
        self._faces: list[tuple[str, _TextFormat]] = []
        self._tags: list[str] = []
        self._deleted = 0
        self._away: list[int] = []
        self._run: list[str] = []
        self._how = ""

    def start(self, name: str, given: dict[str, str]) -> None:
        self._tags.append(name)
        if name in _LEVELS:
            self._faces.append((name, _TextFormat()))
        elif self._faces and name in (*_STYLE_TAGS, *_FORMAT_TAGS):
            self._change_format(name, given)
        elif name in ("del", "moveFrom"):
            self._deleted += 1
        elif name == "anchor":
            self._away.append(0)
        elif name in ("docPr", "cNvPr"):
            for key in ("descr", "title"):
                self._found.hide("alt", given.get(key, ""))
        elif name == "docVar":
            self._found.hide("metadata", given.get("val", ""))
        elif name == "sym":
            self.text(_symbol_character(given.get("char", "")))
        elif name in ("tab", "br", "cr"):
            self._run.append(" ")
        for key, value in given.items():
            if key not in ("descr", "title") and _MANY_WORDS.search(value):
                self._found.hide("field" if key == "instr" else "metadata", value)

    def _change_format(self, name: str, given: dict[str, str]) -> None:
        level, face = self._faces[-1]
        if name in _STYLE_TAGS:
            self._faces[-1] = (level, face.over(self._styles.get(given.get("val", ""), _TextFormat())))
        elif name == "shd" or level != "p":
            # The format of a paragraph's mark (rPr inside pPr) does not apply to its text.
            self._faces[-1] = (level, _apply_format(face, name, given))

    def end(self, name: str) -> None:
        if self._tags:
            self._tags.pop()
        if name in _LEVELS and self._faces:
            self._faces.pop()
            if name in ("p", "tc"):
                self.end_run()
        elif name in ("del", "moveFrom"):
            self._deleted -= 1
        elif name == "anchor" and self._away:
            self._away.pop()

    def text(self, text: str) -> None:
        tag = self._tags[-1] if self._tags else ""
        if tag == "posOffset":
            if self._away and re.fullmatch(r"-?\d{1,12}", text) and abs(int(text)) > _FAR_EMU:
                self._away[-1] = 1
            return
        if self._where:
            how = self._where
        elif self._deleted or tag == "delText":
            how = "tracked"
        elif tag in ("instrText", "delInstrText"):
            how = "field"
        elif tag in ("t", "sym"):
            how = "off_page" if any(self._away) else self._hiding_way()
        elif text.strip():
            how = "metadata"
        else:
            return
        if how != self._how:
            self.end_run()
            self._how = how
        self._run.append(text)

    def end_run(self) -> None:
        text, how = "".join(self._run), self._how
        self._run, self._how = [], ""
        if how:
            self._found.hide(how, text)
        else:
            self._found.show(text)
        if text.strip():
            self._found.count("lines_scanned")

    def _hiding_way(self) -> str:
        face = _TextFormat()
        for _, above in self._faces:
            face = above.over(face)
        if face.vanish:
            return "vanish"
        if face.half_points is not None and face.half_points <= 4:
            return "tiny"
        paper = face.fill if face.fill not in (None, "", "auto", "none") else "ffffff"
        if face.color and face.color != "auto" and _are_similar_colors(face.color, paper or "ffffff"):
            return "color"
        return ""


def _symbol_character(code: str) -> str:
    """Return a character by its number; symbol fonts have theirs 0xF000 higher."""
    number = int(code, 16) if re.fullmatch("[0-9A-Fa-f]{1,5}", code) else 0
    number = number - 0xF000 if 0xF000 <= number <= 0xF0FF else number
    return chr(number) if 0x20 <= number < 0xD800 or 0xE000 <= number < 0x110000 else ""


def _are_similar_colors(color: str, paper: str) -> bool:
    paper = {"white": "ffffff", "black": "000000"}.get(paper, paper)
    if not (re.fullmatch("[0-9a-f]{6}", color) and re.fullmatch("[0-9a-f]{6}", paper)):
        return False
    return all(abs(int(color[at : at + 2], 16) - int(paper[at : at + 2], 16)) <= 16 for at in (0, 2, 4))
