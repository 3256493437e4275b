"""The text of a PDF: what its pages show, what they only contain, and texts beside the pages.

pypdf turns a page into operators, and operators into text. In between we track what the operators do to the pen
(colour, size, place, ink) and to the paper. Each page is read once for visible text, and once for each way in which
text on it is hidden.
"""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from lockgate.abuse_gate.documents.extracted_text import ExtractedText

MAX_PAINTED: Final = 4000
# A point is a 72nd of an inch.
_TINY_POINTS: Final = 1.5
# Columns and notes take fewer steps to the left in a line, or up the page.
_BACKWARDS: Final = 4

_Matrix = tuple[float, float, float, float, float, float]
_Color = tuple[float, float, float]
_SAME: Final[_Matrix] = (1, 0, 0, 1, 0, 0)
_WHITE: Final[_Color] = (1, 1, 1)


def read_pdf(data: bytes, found: ExtractedText, most_pages: int) -> None:
    """Read all text of a PDF, of at most so many pages."""
    from pypdf import PdfReader

    skipped = _SkipDetector()
    logger = logging.getLogger("pypdf")
    logger.addHandler(skipped)
    logger.propagate = False
    try:
        reader = PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            found.complete = False
            return
        pages = len(reader.pages)
        found.stats["pages"] = pages
        if pages > most_pages:
            found.complete = False
        for page in reader.pages[: min(pages, most_pages)]:
            _read_page(page, found)
            if found.is_full:
                found.complete = False
                break
        _read_off_page_texts(reader, found)
    finally:
        logger.removeHandler(skipped)
    if skipped.any:
        found.complete = False


class _SkipDetector(logging.Handler):
    """Notices that pypdf has skipped something, which it only logs."""

    any = False

    def emit(self, record: logging.LogRecord) -> None:
        if re.search("impossible|exceed|skip|cycl|limit|too (?:many|deep)", str(record.msg), re.IGNORECASE):
            self.any = True


def _read_page(page: Any, found: ExtractedText) -> None:
    canvas = _PageCanvas(page)
    visible = _extract_text(page, canvas, lambda how: how is None)
    ways = {how for how in canvas.hows if how is not None}
    found.count("images", canvas.images)
    for text in canvas.instead:
        found.hide("alt", text)
    if canvas.overfull:
        found.complete = False
    # A scanned page: a picture, and the recognised text drawn without ink. That text is what people read.
    if ways == {"invisible"} and canvas.pictured and None not in canvas.hows:
        found.show(_extract_text(page, _PageCanvas(page), lambda _how: True))
        return
    found.show(visible)
    if canvas.backwards >= _BACKWARDS:
        # Drawn in another order than people read: read it once more by the places on the page.
        found.show(str(page.extract_text(extraction_mode="layout")))
    for how in sorted(ways):
        found.hide(how, _extract_text(page, _PageCanvas(page, canvas.covered), lambda its, how=how: its == how))  # type: ignore[misc]
    if canvas.covered:
        found.hide("covered", _extract_text(page, _PageCanvas(page, canvas.covered), lambda its: its == "covered"))
    if canvas.images and not canvas.hows:
        found.count("image_only_pages")


def _extract_text(page: Any, canvas: _PageCanvas, wanted: Callable[[str | None], bool]) -> str:
    canvas.wanted = wanted
    return str(page.extract_text(visitor_operand_before=canvas.before, visitor_operand_after=canvas.after))


def _read_off_page_texts(reader: Any, found: ExtractedText) -> None:
    """Read the texts of the file that are on none of its pages."""
    for key, value in dict(reader.metadata or {}).items():
        if isinstance(value, str) and not str(key).endswith("Date"):
            found.hide("metadata", value)
    root = reader.trailer["/Root"]
    metadata = root.get("/Metadata")
    if metadata is not None:
        text = metadata.get_object().get_data()[:200_000].decode("utf-8", "replace")
        found.hide("metadata", re.sub(r"<[^>]{0,4000}>", " ", text))
    for page in reader.pages[: found.stats["pages"]][:500]:
        for one in page.get("/Annots") or ():
            annotation = one.get_object()
            for key in ("/Contents", "/TU", "/V"):
                value = annotation.get(key)
                if isinstance(value, str):
                    found.hide("annotation", value)
    names = root.get("/Names")
    if names is not None and "/EmbeddedFiles" in names.get_object():
        found.count("attachments")


class _Box(NamedTuple):
    left: float
    bottom: float
    right: float
    top: float
    color: _Color | None = None  # None: a picture, or a pattern

    def holds(self, x: float, y: float, margin: float = 0.0) -> bool:
        return self.left - margin <= x <= self.right + margin and self.bottom - margin <= y <= self.top + margin


class _Pen(NamedTuple):
    """The graphics state that `q` saves and `Q` restores."""

    ctm: _Matrix = _SAME
    color: _Color | None = (0, 0, 0)
    alpha: float = 1.0
    mode: int = 0
    size: float = 0.0
    rise: float = 0.0
    leading: float = 0.0
    width: float = 100.0  # of its letters, in percent
    clip: _Box | None = None


class _PageCanvas:
    """Tracks one page; `hows` has one entry for each drawn text: how it is hidden, or None if it is visible."""

    def __init__(self, page: Any, covered: frozenset[int] = frozenset()) -> None:
        left, bottom, right, top = (float(side) for side in page.mediabox)
        self._sheet = _Box(min(left, right), min(bottom, top), max(left, right), max(bottom, top), _WHITE)
        self.hows: list[str | None] = []
        self.images = 0
        self.instead: list[str] = []  # texts that are copied and read aloud in place of drawn ones
        self.backwards = 0  # steps against the reading direction
        self._last: tuple[float, float] | None = None
        self.overfull = False  # more was painted than MAX_PAINTED
        self.pictured = False  # one picture covers at least half of it
        self.wanted: Callable[[str | None], bool] = lambda _how: True
        self._known_covered = covered
        self._over: set[int] = set()
        self._seen: list[tuple[int, float, float]] = []
        self._painted: list[_Box] = []
        self._pen = _Pen()
        self._saved: list[_Pen] = []
        self._inside: list[tuple[_Pen, list[_Pen], Any]] = []
        self._resources: Any = page.get("/Resources")
        self._line: _Matrix = _SAME
        self._text: _Matrix = _SAME
        self._path: list[tuple[float, float]] = []
        self._clipping = False
        self._taken: Any = None

    @property
    def covered(self) -> frozenset[int]:
        """The numbers of texts that were painted over afterwards."""
        return frozenset(self._over)

    # --- called by pypdf

    def before(self, operator: bytes, operands: Any, _cm: Any, _tm: Any) -> None:
        self._taken = None
        if operator in (b"Tj", b"TJ", b"'", b'"'):
            self._draw_text(operator, operands)
            return
        if operator == b"Do":
            self._draw_object(operands)
            return
        if operator == b"INLINE IMAGE":
            self._draw_picture()
            return
        name = operator.decode("latin-1").replace("*", "_star")
        act = getattr(self, f"_op_{name}", None)
        if act is not None:
            try:
                act(operands)
            except (TypeError, ValueError, IndexError, KeyError, AttributeError):
                # Invalid operands: viewers ignore them, and so do we.
                return

    def after(self, operator: bytes, operands: Any, _cm: Any, _tm: Any) -> None:
        if operator == b"Do" and self._inside:
            self._pen, self._saved, self._resources = self._inside.pop()
        if self._taken is not None:
            at, self._taken, kept = self._taken[0], None, self._taken[1]
            operands[at] = kept

    # --- text

    def _draw_text(self, operator: bytes, operands: Any) -> None:
        if operator in (b"'", b'"'):
            self._op_T_star([])
        number = len(self.hows)
        at = 2 if operator == b'"' else 0
        shift = 0.0
        if operator == b"TJ" and operands:
            for one in operands[0]:
                if isinstance(one, str | bytes):
                    break
                shift -= float(one) / 1000 * self._pen.size
        how = self._hiding_way(number, shift)
        self.hows.append(how)
        if not self.wanted(how) and len(operands) > at:
            from pypdf.generic import ArrayObject, TextStringObject

            self._taken = (at, operands[at])
            operands[at] = ArrayObject() if operator == b"TJ" else TextStringObject("")

    def _hiding_way(self, number: int, shift: float) -> str | None:
        if number in self._known_covered:
            return "covered"
        pen = self._pen
        x, y = _transform(_multiply(self._text, pen.ctm), shift, pen.rise)
        across = _multiply(self._text, pen.ctm)
        size = pen.size * max(abs(across[2]) + abs(across[3]), 0.0)
        if pen.mode in (3, 7):
            return "invisible"
        if pen.alpha < 0.05:
            return "invisible"
        if abs(size) < _TINY_POINTS or abs(pen.width) < 5:
            return "tiny"
        # Clipped text counts as off the page, with a margin of one letter's height.
        if not self._sheet.holds(x, y, size) or (pen.clip is not None and not pen.clip.holds(x, y, size)):
            return "off_page"
        # The middle of a letter, not its baseline: a bar behind a text ends below it.
        middle = _transform(across, shift + pen.size * 0.2, pen.rise + pen.size * 0.3)
        if pen.mode in (0, 2, 4, 6) and pen.color is not None:
            paper = self._color_under(*middle)
            # Text with an outline also has the outline's colour, and counts as visible.
            if pen.mode in (0, 4) and paper is not None and _are_similar_colors(pen.color, paper):
                return "color"
        self._seen.append((number, *middle))
        if self._last is not None:
            left, up = self._last[0] - middle[0], middle[1] - self._last[1]
            self.backwards += (abs(up) < size / 2 and left > size / 4) or up > size / 2
        self._last = middle
        return None

    def _color_under(self, x: float, y: float) -> _Color | None:
        for box in reversed(self._painted):
            if box.holds(x, y):
                return box.color
        return _WHITE

    # --- paper

    def _paint(self, box: _Box) -> None:
        if len(self._painted) >= MAX_PAINTED:
            self.overfull = True
            return
        self._painted.append(box)
        if box.color is None or self._pen.alpha < 0.9:
            return
        left = []
        for number, x, y in self._seen:
            if box.holds(x, y):
                self._over.add(number)
            else:
                left.append((number, x, y))
        self._seen = left

    def _draw_picture(self) -> None:
        self.images += 1
        corners = [_transform(self._pen.ctm, x, y) for x in (0, 1) for y in (0, 1)]
        box = _bounding_box(corners, None)
        if _area(box) >= _area(self._sheet) / 2:
            self.pictured = True
        self._paint(box)

    def _draw_object(self, operands: Any) -> None:
        self._inside.append((self._pen, self._saved, self._resources))
        self._saved = []
        try:
            one = self._resources.get_object()["/XObject"].get_object()[operands[0]].get_object()
            if one.get("/Subtype") == "/Image":
                self._draw_picture()
                return
            matrix = one.get("/Matrix")
            if matrix is not None:
                self._op_cm(matrix)
            if "/Resources" in one:
                self._resources = one["/Resources"]
        except (TypeError, ValueError, IndexError, KeyError, AttributeError):
            return

    def _fill(self, _operands: Any) -> None:
        if len(self._path) >= 2:
            self._paint(_bounding_box(self._path, self._pen.color))
        self._op_n([])

    _op_f = _op_F = _op_f_star = _op_B = _op_B_star = _op_b = _op_b_star = _fill

    def _op_n(self, _operands: Any) -> None:
        if self._clipping and len(self._path) >= 2:
            box, under = _bounding_box(self._path, None), self._pen.clip or self._sheet
            self._pen = self._pen._replace(
                clip=_Box(
                    max(box.left, under.left),
                    max(box.bottom, under.bottom),
                    min(box.right, under.right),
                    min(box.top, under.top),
                )
            )
        self._path, self._clipping = [], False

    _op_S = _op_s = _op_n

    def _op_W(self, _operands: Any) -> None:
        self._clipping = True

    _op_W_star = _op_W

    def _op_sh(self, _operands: Any) -> None:
        sheet = self._sheet
        self._paint(sheet._replace(color=None))

    def _op_re(self, operands: Any) -> None:
        x, y, width, height = (float(one) for one in operands[:4])
        corners = ((x, y), (x + width, y), (x, y + height), (x + width, y + height))
        self._path += [_transform(self._pen.ctm, *corner) for corner in corners]

    def _op_m(self, operands: Any) -> None:
        self._path.append(_transform(self._pen.ctm, float(operands[-2]), float(operands[-1])))

    _op_l = _op_c = _op_v = _op_y = _op_m

    # --- the pen

    def _op_q(self, _operands: Any) -> None:
        if len(self._saved) < 512:
            self._saved.append(self._pen)

    def _op_Q(self, _operands: Any) -> None:
        if self._saved:
            self._pen = self._saved.pop()

    def _op_cm(self, operands: Any) -> None:
        self._pen = self._pen._replace(ctm=_multiply(_matrix(operands), self._pen.ctm))

    def _op_g(self, operands: Any) -> None:
        self._pen = self._pen._replace(color=(float(operands[0]),) * 3)

    def _op_rg(self, operands: Any) -> None:
        red, green, blue = (float(one) for one in operands[:3])
        self._pen = self._pen._replace(color=(red, green, blue))

    def _op_k(self, operands: Any) -> None:
        cyan, magenta, yellow, black = (float(one) for one in operands[:4])
        left = 1 - min(1.0, black)
        self._pen = self._pen._replace(color=((1 - cyan) * left, (1 - magenta) * left, (1 - yellow) * left))

    def _op_cs(self, _operands: Any) -> None:
        self._pen = self._pen._replace(color=(0, 0, 0))

    def _op_sc(self, operands: Any) -> None:
        # In any colour space: one, three and four numbers are nearly always grey, RGB and CMYK.
        act = {1: self._op_g, 3: self._op_rg, 4: self._op_k}.get(len(operands))
        if act is None or not all(isinstance(one, int | float) for one in operands):
            self._pen = self._pen._replace(color=None)
        else:
            act(operands)

    _op_scn = _op_sc

    def _op_gs(self, operands: Any) -> None:
        state = self._resources.get_object()["/ExtGState"].get_object()[operands[0]].get_object()
        if "/ca" in state:
            self._pen = self._pen._replace(alpha=float(state["/ca"]))
        if "/Font" in state:
            self._pen = self._pen._replace(size=float(state["/Font"][1]))

    def _op_BDC(self, operands: Any) -> None:
        given = operands[1]
        if isinstance(given, str):
            given = self._resources.get_object()["/Properties"].get_object()[given]
        given = given.get_object()
        self.instead += [str(given[key]) for key in ("/ActualText", "/Alt", "/E") if key in given]

    _op_DP = _op_BDC

    def _op_BT(self, _operands: Any) -> None:
        self._line = self._text = _SAME

    def _op_Tf(self, operands: Any) -> None:
        self._pen = self._pen._replace(size=float(operands[1]))

    def _op_Tr(self, operands: Any) -> None:
        self._pen = self._pen._replace(mode=int(operands[0]))

    def _op_Ts(self, operands: Any) -> None:
        self._pen = self._pen._replace(rise=float(operands[0]))

    def _op_Tz(self, operands: Any) -> None:
        self._pen = self._pen._replace(width=float(operands[0]))

    def _op_TL(self, operands: Any) -> None:
        self._pen = self._pen._replace(leading=float(operands[0]))

    def _op_Tm(self, operands: Any) -> None:
        self._line = self._text = _matrix(operands)

    def _op_Td(self, operands: Any) -> None:
        self._line = self._text = _multiply((1, 0, 0, 1, float(operands[0]), float(operands[1])), self._line)

    def _op_TD(self, operands: Any) -> None:
        self._pen = self._pen._replace(leading=-float(operands[1]))
        self._op_Td(operands)

    def _op_T_star(self, _operands: Any) -> None:
        self._op_Td((0, -self._pen.leading))


def _matrix(operands: Any) -> _Matrix:
    a, b, c, d, e, f = (float(one) for one in operands[:6])
    return a, b, c, d, e, f


def _multiply(one: _Matrix, other: _Matrix) -> _Matrix:
    a, b, c, d, e, f = one
    g, h, i, j, k, m = other
    return a * g + b * i, a * h + b * j, c * g + d * i, c * h + d * j, e * g + f * i + k, e * h + f * j + m


def _transform(matrix: _Matrix, x: float, y: float) -> tuple[float, float]:
    a, b, c, d, e, f = matrix
    return a * x + c * y + e, b * x + d * y + f


def _bounding_box(points: list[tuple[float, float]], color: _Color | None) -> _Box:
    across, up = [x for x, _ in points], [y for _, y in points]
    return _Box(min(across), min(up), max(across), max(up), color)


def _area(box: _Box) -> float:
    return (box.right - box.left) * (box.top - box.bottom)


def _are_similar_colors(color: _Color, paper: _Color) -> bool:
    return all(abs(one - other) <= 0.06 for one, other in zip(color, paper, strict=True))
