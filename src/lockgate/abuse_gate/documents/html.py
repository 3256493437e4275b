"""The text of an HTML page, as people see it and as programs read its source.

Styles are read as far as they can hide text: of the element, of a `<style>` with simple selectors, inherited. If it is
uncertain (a gradient behind a text, a rule for print), the text counts as visible.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Final, NamedTuple

from lockgate.abuse_gate.documents.extracted_text import ExtractedText

MAX_DEPTH: Final = 512
MAX_RULES: Final = 5000

_VOID: Final = frozenset("area base br col embed hr img input link meta param source track wbr".split())
_INLINE: Final = frozenset(
    "a abbr b bdi bdo big cite code data del dfn em font i img ins kbd label mark q s samp small span strike strong sub"
    " sup time tt u var wbr".split()
)
# An opening tag closes an open one of these.
_CLOSES: Final = {
    "li": {"li"},
    "dt": {"dt", "dd"},
    "dd": {"dt", "dd"},
    "option": {"option"},
    "tr": {"tr", "td", "th"},
    "td": {"td", "th"},
    "th": {"td", "th"},
}
_WORDS: Final = re.compile(r"\b(?:[^\W\d_]{2,}+[^\w\s]{0,3}+\s++){3}[^\W\d_]{2}")
_SAID_IN: Final = ("alt", "title", "aria-label", "aria-description", "placeholder", "summary", "srcdoc", "label")


_Rgb = tuple[int, int, int]


class _TextLook(NamedTuple):
    """How text looks here; None is an unknown colour. `how` is the way in which the text is hidden."""

    color: tuple[int, int, int] | None = (0, 0, 0)
    paper: tuple[int, int, int] | None = (255, 255, 255)
    size_px: float = 16.0
    how: str = ""
    flows: bool = False  # inline, whatever its tag


def read_html(text: str, found: ExtractedText) -> None:
    """Read all text of an HTML page."""
    page = _PageParser(found)
    page.feed(text)
    page.close()
    page.end_run()


class _PageParser(HTMLParser):
    def __init__(self, found: ExtractedText) -> None:
        super().__init__(convert_charrefs=True)
        self._found = found
        self._open: list[tuple[str, _TextLook]] = [("", _TextLook())]
        self._by_key: dict[str, list[tuple[str, frozenset[str], str, dict[str, str]]]] = {}
        self._rule_count = 0
        self._run: list[str] = []
        self._run_how = ""

    # --- called by the parser

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag not in _INLINE and not self._look_of(tag, given).flows:
            self.end_run()
            self._close_for(tag)
        look = self._look_of(tag, given)
        self._read_attributes(tag, given)
        if tag in _VOID:
            return
        if len(self._open) > MAX_DEPTH:
            self._found.complete = False
            return
        self._open.append((tag, look))

    def _read_attributes(self, tag: str, given: dict[str, str]) -> None:
        for name, value in given.items():
            if name in _SAID_IN:
                self._found.hide("alt", value)
            elif name not in ("class", "style", "content", "value"):
                # Attributes for scripts can hold any text.
                if _WORDS.search(value) or (name.startswith("data-") and " " in value):
                    self._found.hide("alt", value)
        if tag == "meta":
            self._found.hide("metadata", given.get("content", ""))
        if tag == "input" and given.get("value"):
            if given.get("type") == "hidden":
                self._found.hide("field", given["value"])
            else:
                self.handle_data(given["value"])

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        # HTML ignores the slash of tags that are not void.
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        for at in range(len(self._open) - 1, 0, -1):
            if self._open[at][0] == tag:
                if tag not in _INLINE and not self._open[at][1].flows:
                    self.end_run()
                del self._open[at:]
                return
        if tag not in _INLINE:
            self.end_run()

    def handle_data(self, data: str) -> None:
        tag, look = self._open[-1]
        if tag == "style":
            self._read_style_sheet(data)
            # A style sheet can add text to the page.
            self._found.hide("script", data)
            return
        if tag == "script":
            self._found.hide("script", data)
            return
        if not data.strip():
            if self._run:
                self._run.append(" ")
            return
        how = look.how
        if not how:
            if look.size_px < 2:
                how = "tiny"
            elif look.color is not None and look.paper is not None and _are_similar_colors(look.color, look.paper):
                how = "color"
        if how != self._run_how:
            self.end_run()
            self._run_how = how
        self._run.append(data)

    def handle_comment(self, data: str) -> None:
        self._found.hide("comment", data)

    def handle_decl(self, decl: str) -> None:
        if len(decl) > 200:
            self._found.hide("comment", decl)

    def handle_pi(self, data: str) -> None:
        self._found.hide("comment", data)

    def unknown_decl(self, data: str) -> None:
        self._found.hide("comment", data)

    def end_run(self) -> None:
        text, how = "".join(self._run), self._run_how
        self._run, self._run_how = [], ""
        if how:
            self._found.hide(how, text)
        else:
            self._found.show(text)

    # --- how it looks

    def _close_for(self, tag: str) -> None:
        top = self._open[-1][0]
        if top == "p" or top in _CLOSES.get(tag, ()):
            self._open.pop()

    def _look_of(self, tag: str, given: dict[str, str]) -> _TextLook:
        look = self._open[-1][1]
        styles: dict[str, str] = {}
        for style in self._matching_styles(tag, given):
            styles.update(style)
        if tag == "font" and given.get("color"):
            styles["color"] = given["color"].lower()
        if given.get("bgcolor"):
            styles["background-color"] = given["bgcolor"].lower()
        styles.update(_parse_declarations(given.get("style", "")))
        how = look.how
        if not how and ("hidden" in given or tag in ("template", "noscript", "noframes")):
            how = "display_none"
        return _apply_style(look, styles, how)._replace(
            flows=styles.get("display", "").startswith(("inline", "contents"))
        )

    def _matching_styles(self, tag: str, given: dict[str, str]) -> list[dict[str, str]]:
        if not self._by_key:
            return []
        classes = frozenset(given.get("class", "").split()[:64])
        name = given.get("id", "")
        keys = [tag, *(f".{one}" for one in classes), f"#{name}"]
        return [
            style
            for key in keys
            for (on_tag, on_classes, on_id, style) in self._by_key.get(key, ())
            if (not on_tag or on_tag == tag) and on_classes <= classes and (not on_id or on_id == name)
        ]

    def _read_style_sheet(self, css: str) -> None:
        css = re.sub(r"/\*.*?\*/", " ", css, flags=re.DOTALL)
        # Rules inside `@media` hold for some readers only.
        depth, start, inside, selectors, at_rule = 0, 0, 0, "", False
        for brace in re.finditer(r"[{}]", css):
            if brace[0] == "{":
                if depth == 0:
                    selectors, inside = css[start : brace.start()], brace.end()
                    at_rule = selectors.strip().startswith("@")
                depth += 1
            elif depth:
                depth -= 1
                if depth == 0:
                    if not at_rule:
                        self._add_css_rule(selectors, css[inside : brace.start()])
                    start = brace.end()

    def _add_css_rule(self, selectors: str, body: str) -> None:
        style = _parse_declarations(body)
        if not style:
            return
        for selector in selectors.split(","):
            # Only the last element counts: we assume that the others match, which can hide too much, never too little.
            # A selector with a state (`:hover`) is not how the page looks at first.
            last = re.split(r"[\s>+~]+", selector.strip())[-1]
            compound = re.fullmatch(r"([\w-]*|\*)((?:[.#][\w-]+)*)", last)
            if compound is None:
                continue
            self._rule_count += 1
            if self._rule_count > MAX_RULES:
                self._found.complete = False
                return
            tag = compound[1].replace("*", "").lower()
            names = re.findall(r"[.#][\w-]+", compound[2])
            classes = frozenset(name[1:] for name in names if name[0] == ".")
            ids = [name[1:] for name in names if name[0] == "#"]
            key = f"#{ids[0]}" if ids else f".{min(classes)}" if classes else tag
            if key:
                self._by_key.setdefault(key, []).append((tag, classes, ids[0] if ids else "", style))


_LOOKED_AT: Final = frozenset(
    "display visibility opacity color background background-color background-image background-clip"
    " -webkit-background-clip font-size font position left top right bottom text-indent margin-left margin-top clip"
    " clip-path width height max-height max-width overflow transform".split()
)


def _parse_declarations(style: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for declaration in re.sub(r"/\*.*?\*/", "", style[:20_000], flags=re.DOTALL).split(";"):
        name, colon, value = declaration.partition(":")
        name = name.strip().lower()
        if colon and name in _LOOKED_AT:
            found[name] = value.lower().replace("!important", "").strip()
    return found


def _apply_style(look: _TextLook, style: dict[str, str], how: str) -> _TextLook:
    if not style:
        return look._replace(how=how)
    color, paper, size = look.color, look.paper, look.size_px
    paper = _paper_under(style, paper)
    if "color" in style:
        value = style["color"]
        if value == "transparent" or re.search(r"(?:rgba|hsla?)\([^)]*[,/]\s*0?\.?0+%?\s*\)", value):
            clipped = "text" in (style.get("background-clip", ""), style.get("-webkit-background-clip", ""))
            how = how or ("" if clipped else "color")
        elif value not in ("inherit", "currentcolor"):
            color = _parse_color(value)
    size = _parse_size(style.get("font-size", ""), size)
    if not how:
        how = _hiding_way(style)
    return _TextLook(color, paper, size, how)


def _paper_under(style: dict[str, str], inherited: _Rgb | None) -> _Rgb | None:
    """Return the colour behind a text; None for a picture."""
    if style.get("background-image", "none") != "none":
        return None
    given = style.get("background-color") or style.get("background", "")
    if given.split()[:1] in (["none"], ["transparent"], ["inherit"], ["initial"], []):
        return inherited
    return _parse_color(given)


def _hiding_way(style: dict[str, str]) -> str:
    if style.get("display") == "none" or style.get("visibility") in ("hidden", "collapse"):
        return "display_none"
    opacity = _parse_number(style.get("opacity", "1"))
    if opacity is not None and opacity < 0.05:
        return "transparent"
    return "screen_reader" if _is_moved_away(style) or _is_clipped(style) else ""


def _is_moved_away(style: dict[str, str]) -> bool:
    positioned = style.get("position") in ("absolute", "fixed", "relative")
    names = ("left", "top", "right", "bottom") if positioned else ()
    if any(_is_far_away(style.get(name, "")) for name in (*names, "text-indent", "margin-left", "margin-top")):
        return True
    transform = style.get("transform", "")
    return re.search(r"scale[xy3d]*\(\s*0*\.?0*\s*[,)]|-\d{4,}px", transform) is not None


def _is_clipped(style: dict[str, str]) -> bool:
    if re.search(r"rect\(\s*[01](?:px)?[\s,]+[01]", style.get("clip", "")):
        return True
    if re.search(r"inset\(\s*(?:50|100)%|circle\(\s*0", style.get("clip-path", "")):
        return True
    small = [_parse_number(style.get(name, "")) for name in ("width", "height", "max-height", "max-width")]
    return "hidden" in style.get("overflow", "") and any(value is not None and value <= 1 for value in small)


def _is_far_away(value: str) -> bool:
    number = _parse_number(value)
    if number is None or number >= 0:
        return False
    unit = value.lstrip("-+.0123456789")
    return number <= (-20 if unit in ("em", "rem") else -100 if unit in ("%", "vw", "vh") else -500)


def _parse_number(value: str) -> float | None:
    match = re.match(r"[+-]?\d{0,12}(?:\.\d{1,12})?", value)
    try:
        return float(match[0]) if match else None
    except ValueError:
        return None


def _parse_size(value: str, inherited: float) -> float:
    number = _parse_number(value)
    if number is None:
        return inherited
    unit = value.lstrip("+-.0123456789").strip()
    if unit in ("em", "%", "rem"):
        return number * {"em": inherited, "%": inherited / 100, "rem": 16.0}[unit]
    if unit not in ("px", "pt", ""):
        return inherited
    return number * (4 / 3 if unit == "pt" else 1)


_NAMES: Final = {
    "white": (255, 255, 255),
    "snow": (255, 250, 250),
    "ivory": (255, 255, 240),
    "whitesmoke": (245, 245, 245),
    "ghostwhite": (248, 248, 255),
    "floralwhite": (255, 250, 240),
    "azure": (240, 255, 255),
    "mintcream": (245, 255, 250),
    "seashell": (255, 245, 238),
    "aliceblue": (240, 248, 255),
    "honeydew": (240, 255, 240),
    "lightyellow": (255, 255, 224),
    "black": (0, 0, 0),
    "canvas": (255, 255, 255),
}


def _parse_color(value: str) -> tuple[int, int, int] | None:
    value = value.strip()
    first = value.split()[0] if value else ""
    if first in _NAMES:
        return _NAMES[first]
    if match := re.match(r"#?([0-9a-f]{6})(?:[0-9a-f]{2})?(?![0-9a-z])", value):
        return (int(match[1][:2], 16), int(match[1][2:4], 16), int(match[1][4:], 16))
    if match := re.match(r"#([0-9a-f]{3})[0-9a-f]?(?![0-9a-z])", value):
        return (int(match[1][0] * 2, 16), int(match[1][1] * 2, 16), int(match[1][2] * 2, 16))
    if match := re.match(r"rgba?\(\s*(\d{1,3})[\s,]+(\d{1,3})[\s,]+(\d{1,3})", value):
        return (int(match[1]), int(match[2]), int(match[3]))
    return None


def _are_similar_colors(color: tuple[int, int, int], paper: tuple[int, int, int]) -> bool:
    return all(abs(one - other) <= 16 for one, other in zip(color, paper, strict=True))
