"""What a Word document says: on the page, and in all the places of its archive that no page shows.

The XML is read piece by piece by expat, out of a decompressor that is stopped at a number of bytes: neither is ever
asked for a whole. A document type is refused, and with it every entity: no word processor writes one.
"""

from __future__ import annotations

import io
import re
import zipfile
from typing import Final, NamedTuple
from xml.parsers import expat

from lockgate.abuse_gate.documents.extracted import Extracted
from lockgate.abuse_gate.request.content_kinds import is_text, words_in

MAX_ENTRIES: Final = 4096
MAX_DEPTH: Final = 256
MAX_STYLES: Final = 5000
_CHUNK: Final = 65_536

# Pictures and fonts are passed over here, if they are none of the things that hold words.
_NO_WORDS: Final = re.compile(r"(?:\w+/)?(?:media|fonts)/[^/]+|docprops/thumbnail\.\w+", re.IGNORECASE)
# Objects of other programs, and a printer's settings.
_EMBEDDED: Final = re.compile(
    r"(?:\w+/)?(?:embeddings/[^/]+\.bin|printersettings/[^/]+\.bin|activex/[^/]+\.bin)", re.IGNORECASE
)
_PRINTER: Final = re.compile(r"printersettings/[^/]+\.bin", re.IGNORECASE)
_XML: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*+<|\xff\xfe<\x00|\xfe\xff\x00<|<\x00|\x00<")
_STYLES: Final = re.compile(rb"<(?:\w+:)?styles[\s>]")
# So many words in an attribute are no name of anything.
_MANY_WORDS: Final = re.compile(r"\b(?:[^\W\d_]{2,}+[^\w\s]{0,3}+\s++){3}[^\W\d_]{2}")
_FALSE: Final = ("0", "false", "off", "none")
# 914,400 to the inch: further out than any sheet is wide.
_FAR_EMU: Final = 20_000_000


class TooMuch(Exception):
    """A limit of ours was reached: what is left stays unread."""


class _Face(NamedTuple):
    """How a run of text is to look, as far as it can hide: None where nothing is said."""

    vanish: bool | None = None
    color: str | None = None
    half_points: int | None = None
    fill: str | None = None

    def over(self, under: _Face) -> _Face:
        said = {name: value for name, value in self._asdict().items() if value is not None}
        return under._replace(**said)


def read_docx(data: bytes, found: Extracted, most_bytes: int) -> None:
    left = [most_bytes]
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = archive.infolist()
        found.stats["entries"] = len(entries)
        if len(entries) > MAX_ENTRIES:
            raise TooMuch
        names = [entry.filename for entry in entries]
        # Two entries of one name: a word processor opens one, we the other.
        if len(set(names)) != len(names):
            found.complete = False
        heads = {entry.filename: _head(archive, entry) for entry in entries if not entry.is_dir()}
        styles: dict[str, _Face] = {}
        for name, head in heads.items():
            # By what is in it: which part is which is written in lists that we need not believe.
            if _XML.match(head) and _STYLES.search(head.replace(b"\x00", b"")):
                reader = _Styles()
                _part(archive, name, reader, left, found)
                styles |= reader.resolved()
        if not any(name.lower().startswith("word/document") for name in names):
            found.complete = False
        # Every part is read, whatever it is called.
        for name in sorted(heads, key=lambda name: name != "word/document.xml"):
            if _XML.match(heads[name]):
                aside = name.lower().startswith(("docprops/", "customxml/")) or name.lower().endswith(".rels")
                where = "comment" if "comments" in name.lower() else "metadata" if aside else ""
                reader_of_text = _Text(found, styles, where)
                _part(archive, name, reader_of_text, left, found)
                reader_of_text.end_run()
            elif _NO_WORDS.fullmatch(name) and not is_text(heads[name]):
                found.count("images", int("media/" in name.lower()))
            elif heads[name].startswith(b"PK\x03\x04"):
                _workbook(archive, name, left, found)
            elif _EMBEDDED.fullmatch(name) and not is_text(heads[name]):
                # An object of another program, or what a printer was told. Its words are what can be seen of it.
                found.count("attachments", int("printer" not in name.lower()))
                found.hide("metadata", _words(archive, name, left))
            elif heads[name]:
                # A document inside the document, a macro, anything: not opened. Its words are what can be seen of it.
                found.complete = False
                found.hide("metadata", words_in(heads[name], _CHUNK)[0])


def _workbook(outer: zipfile.ZipFile, name: str, left: list[int], found: Extracted) -> None:
    """An archive in the archive, as a chart has its numbers in one: its parts are read, but for archives in it."""
    inside = _bytes(outer, name, left)
    with zipfile.ZipFile(io.BytesIO(inside)) as archive:
        entries = [entry for entry in archive.infolist() if not entry.is_dir()]
        if len(entries) > MAX_ENTRIES or len({entry.filename for entry in entries}) != len(entries):
            raise TooMuch
        for entry in entries:
            head = _head(archive, entry)
            if _XML.match(head):
                reader = _Text(found, {}, "metadata")
                _part(archive, entry.filename, reader, left, found)
                reader.end_run()
            elif (
                not head or (_NO_WORDS.search(entry.filename) and not is_text(head)) or _PRINTER.search(entry.filename)
            ):
                found.hide("metadata", words_in(head, _CHUNK)[0])
            else:
                found.complete = False
                found.hide("metadata", words_in(head, _CHUNK)[0])


def _words(archive: zipfile.ZipFile, name: str, left: list[int]) -> str:
    return words_in(_bytes(archive, name, left), _CHUNK)[0]


def _bytes(archive: zipfile.ZipFile, name: str, left: list[int]) -> bytes:
    with archive.open(name) as stream:
        data = stream.read(left[0] + 1)
    left[0] -= len(data)
    if left[0] < 0:
        raise TooMuch
    return data


def _head(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    with archive.open(entry) as stream:
        return stream.read(4096)


def _part(archive: zipfile.ZipFile, name: str, reader: _Reader, left: list[int], found: Extracted) -> None:
    """One part; what is wrong in it does not keep the others from being read."""
    try:
        _parse(archive, name, reader, left)
    except expat.ExpatError:
        found.complete = False


class _Reader:
    def start(self, name: str, given: dict[str, str]) -> None:
        raise NotImplementedError

    def end(self, name: str) -> None:
        raise NotImplementedError

    def text(self, text: str) -> None:
        raise NotImplementedError


def _parse(archive: zipfile.ZipFile, name: str, reader: _Reader, left: list[int]) -> None:
    parser = expat.ParserCreate(namespace_separator=None)
    parser.buffer_text = True
    depth = 0

    def start(tag: str, given: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > MAX_DEPTH:
            raise TooMuch
        reader.start(_local(tag), {_local(key): value for key, value in given.items()})

    def end(tag: str) -> None:
        nonlocal depth
        depth -= 1
        reader.end(_local(tag))

    def refuse(*_: object) -> None:
        raise TooMuch

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = reader.text
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    with archive.open(name) as stream:
        while chunk := stream.read(_CHUNK):
            left[0] -= len(chunk)
            if left[0] < 0:
                raise TooMuch
            parser.Parse(chunk, False)
        parser.Parse(b"", True)


def _local(tag: str) -> str:
    return tag.rpartition(":")[2]


def _on(given: dict[str, str]) -> bool:
    return given.get("val", "true").lower() not in _FALSE


class _Styles(_Reader):
    """The faces that `styles.xml` gives to its styles."""

    def __init__(self) -> None:
        self._faces: dict[str, _Face] = {}
        self._based_on: dict[str, str] = {}
        self._style = ""

    def start(self, name: str, given: dict[str, str]) -> None:
        if name == "style":
            self._style = given.get("styleId", "")
            if len(self._faces) >= MAX_STYLES:
                raise TooMuch
            self._faces[self._style] = _Face()
        elif name == "basedOn" and self._style:
            self._based_on[self._style] = given.get("val", "")
        elif self._style:
            self._faces[self._style] = _faced(self._faces[self._style], name, given)

    def end(self, name: str) -> None:
        if name == "style":
            self._style = ""

    def text(self, text: str) -> None:
        pass

    def resolved(self) -> dict[str, _Face]:
        found = {}
        for style, face in self._faces.items():
            under, steps = self._based_on.get(style), 0
            # A style can be based on itself, by way of others.
            while under in self._faces and steps < 16:
                face = face.over(self._faces[under])
                under, steps = self._based_on.get(under), steps + 1
            found[style] = face
        return found


def _faced(face: _Face, name: str, given: dict[str, str]) -> _Face:
    if name in ("vanish", "specVanish"):
        return face._replace(vanish=_on(given))
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


# Whose faces lie over each other, from the sheet up.
_LEVELS: Final = ("tbl", "tc", "p", "r")


class _Text(_Reader):
    """The text of one part, run by run; `where` is set for parts that are not the page."""

    def __init__(self, found: Extracted, styles: dict[str, _Face], where: str) -> None:
        self._found = found
        self._styles = styles
        self._where = where
        # One face for each level that is open: a cell inside a cell is another one.
        self._faces: list[tuple[str, _Face]] = []
        self._tags: list[str] = []
        self._deleted = 0
        self._away: list[int] = []
        self._run: list[str] = []
        self._how = ""

    def start(self, name: str, given: dict[str, str]) -> None:
        self._tags.append(name)
        if name in _LEVELS:
            self._faces.append((name, _Face()))
        elif name in ("rStyle", "pStyle") and self._faces:
            level, face = self._faces[-1]
            self._faces[-1] = (level, face.over(self._styles.get(given.get("val", ""), _Face())))
        elif name in ("vanish", "specVanish", "color", "sz", "shd", "highlight") and self._faces:
            # What is said of a paragraph's mark (rPr inside pPr) is not said of its text.
            if not (name != "shd" and self._faces[-1][0] == "p"):
                level, face = self._faces[-1]
                self._faces[-1] = (level, _faced(face, name, given))
        elif name in ("del", "moveFrom"):
            self._deleted += 1
        elif name == "anchor":
            self._away.append(0)
        elif name == "docPr" or name == "cNvPr":
            for key in ("descr", "title"):
                if given.get(key):
                    self._found.hide("alt", given[key])
        elif name == "docVar" and given.get("val"):
            self._found.hide("metadata", given["val"])
        elif name == "sym":
            self.text(_symbol(given.get("char", "")))
        elif name in ("tab", "br", "cr"):
            self._run.append(" ")
        for key, value in given.items():
            if key not in ("descr", "title") and _MANY_WORDS.search(value):
                self._found.hide("field" if key == "instr" else "metadata", value)

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
            how = "off_page" if any(self._away) else self._hidden()
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

    def _hidden(self) -> str:
        face = _Face()
        for _, above in self._faces:
            face = above.over(face)
        if face.vanish:
            return "vanish"
        if face.half_points is not None and face.half_points <= 4:
            return "tiny"
        paper = face.fill if face.fill not in (None, "", "auto", "none") else "ffffff"
        if face.color and face.color != "auto" and _alike(face.color, paper or "ffffff"):
            return "color"
        return ""


def _symbol(code: str) -> str:
    """A letter by its number; those of fonts of symbols lie higher up by so much."""
    number = int(code, 16) if re.fullmatch("[0-9A-Fa-f]{1,5}", code) else 0
    number = number - 0xF000 if 0xF000 <= number <= 0xF0FF else number
    return chr(number) if 0x20 <= number < 0xD800 or 0xE000 <= number < 0x110000 else ""


def _alike(color: str, paper: str) -> bool:
    paper = {"white": "ffffff", "black": "000000"}.get(paper, paper)
    if not (re.fullmatch("[0-9a-f]{6}", color) and re.fullmatch("[0-9a-f]{6}", paper)):
        return False
    return all(abs(int(color[at : at + 2], 16) - int(paper[at : at + 2], 16)) <= 16 for at in (0, 2, 4))
