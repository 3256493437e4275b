"""The page's files as text: nothing in them runs other people's text, leads elsewhere, or cannot be read."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import pytest

import lockgate
from lockgate.runtime.shipped_pages import list_pages

PAGE = Path(lockgate.__file__).parent / "service" / "page"
FILES = sorted(path for path in PAGE.iterdir() if path.is_file())
SCRIPTS = [path for path in FILES if path.suffix == ".js"]
STYLE = (PAGE / "style.css").read_text(encoding="utf-8")
INDEX = (PAGE / "index.html").read_text(encoding="utf-8")
# What would turn a text into markup or into code, in any spelling a reviewer might let pass.
FORBIDDEN = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|setTimeout\(\s*[\"'`]|srcdoc|"
    r"createContextualFragment|DOMParser|setHTML|javascript:|importScripts|new Worker|WebSocket|EventSource|"
    r"document\.cookie|postMessage|window\.open|\bon(?:click|error|load|focus)\s*=|dangerously",
    re.IGNORECASE,
)


def pages() -> list[object]:
    return [pytest.param(path, id=path.name) for path in FILES]


@pytest.mark.parametrize("path", pages())
def test_nothing_turns_text_into_markup_or_code(path: Path) -> None:
    assert not FORBIDDEN.findall(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", pages())
def test_nothing_leads_elsewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
    # In words to a person only, never in something that is fetched.
    text = text.replace("open the page as http://127.0.0.1 or through https", "")
    # A file that the page itself made; what a style fetches is meant below.
    text = text.replace("ObjectURL(", "")
    assert not re.findall(r"https?:|//[a-z0-9.-]+\.[a-z]{2,}/|\bwss?:|@import|url\(", text, flags=re.IGNORECASE)


def test_the_document_has_no_script_style_or_handler_of_its_own() -> None:
    assert not re.findall(r"<style|\sstyle=|\son[a-z]+=", INDEX)
    scripts = re.findall(r"<script([^>]*)>(.*?)</script>", INDEX, flags=re.DOTALL)
    assert scripts
    assert all('src="/static/' in given and not body for given, body in scripts)


def test_every_file_is_used_and_everything_used_is_there() -> None:
    named = set(re.findall(r'/static/([\w.-]+)"', INDEX))
    for path in SCRIPTS:
        named |= set(re.findall(r'from "\./([\w.-]+)"', path.read_text(encoding="utf-8")))
    assert named == {path.name for path in FILES} - {"index.html"}


def test_the_page_is_small_and_plain_text() -> None:
    assert sum(path.stat().st_size for path in FILES) < 191_800
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 500, path.name
        # A control in our own source could hide what it does; everything unusual is written as an escape.
        assert not re.findall("[\x00-\x08\x0b-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]", text), path.name


def test_every_topic_that_the_page_names_has_a_page() -> None:
    topics: set[str] = set()
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        topics |= set(re.findall(r"(?:#/help/|lockgate help )([a-z/-]+)[\"`]", text))
        # A file of the repository is not there for a person who installed the package.
        assert not re.findall(r"docs/[a-z-]+/|\w\.md\b", text), path.name
    assert len(topics) > 6
    assert topics <= set(list_pages())


def test_the_landmarks_and_live_regions_are_there() -> None:
    for piece in ('<html lang="en">', "<header", "<nav aria-label=", "<main", 'aria-live="polite"', 'role="alert"'):
        assert piece in INDEX
    assert 'name="viewport"' in INDEX


# --- contrast, as WCAG 2.2 computes it

PAIRS = dict(re.findall(r"--([\w-]+): light-dark\((#[0-9a-f]{6}, #[0-9a-f]{6})\)", STYLE))
TEXT = 4.5
SHAPE = 3.0
# Which colour stands on which: text first, then what has to be seen as a shape.
ON = [
    *((ink, ground, TEXT) for ink in ("ink", "soft", "accent") for ground in ("paper", "panel", "sunk")),
    *((ink, "accent-wash", TEXT) for ink in ("ink", "soft", "accent", "continue", "reorient", "pause")),
    *((ink, ground, TEXT) for ink in ("continue", "reorient", "pause") for ground in ("paper", "panel", "sunk")),
    *((ink, f"{ink}-wash", TEXT) for ink in ("continue", "reorient", "pause", "origin", "chip")),
    *(("ink", f"{ground}-wash", TEXT) for ground in ("continue", "finding", "origin")),
    *((ink, ground, TEXT) for ink in ("chip", "origin") for ground in ("panel", "sunk", "paper")),
    ("origin", "finding-wash", TEXT),
    ("chip", "finding-wash", TEXT),
    ("chip", "origin-wash", SHAPE),
    ("on-accent", "pause", TEXT),
    ("on-accent", "continue", TEXT),
    ("panel", "pause", TEXT),
    ("panel", "origin", TEXT),
    ("paper", "ink", TEXT),
    *((shape, ground, SHAPE) for shape in ("t1", "t2", "t3", "line-strong") for ground in ("panel", "sunk")),
    *((f"f-{word}", "panel", 2.9) for word in ("continue", "reorient", "pause")),
]


def luminance(colour: str) -> float:
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = ((c / 12.92) if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def ratio(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(("ink", "ground", "least"), [pytest.param(*each, id=f"{each[0]}-on-{each[1]}") for each in ON])
def test_everything_can_be_read(ink: str, ground: str, least: float, theme: int) -> None:
    colours = [PAIRS[name].split(", ")[theme] for name in (ink, ground)]
    assert ratio(*colours) >= least, f"{ratio(*colours):.2f}"


def test_the_ratio_is_the_one_of_the_standard() -> None:
    assert ratio("#000000", "#ffffff") == pytest.approx(21)
    assert ratio("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


# How an eye without one kind of cone sees a colour: Machado, Oliveira and Fernandes, 2009, severity 1.0, linear RGB.
BLIND = {
    "protan": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deutan": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritan": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}


def lab(colour: str, eye: str) -> tuple[float, float, float]:
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    light = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    red, green, blue = (min(1.0, max(0.0, sum(a * b for a, b in zip(row, light, strict=True)))) for row in BLIND[eye])
    x = (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.9505
    y = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    z = (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.089
    fx, fy, fz = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("eye", BLIND)
@pytest.mark.parametrize(
    "colours", [("t1", "t2", "t3"), ("f-continue", "f-reorient", "f-pause")], ids=["tiers", "actions"]
)
def test_what_lies_side_by_side_in_a_plot_is_told_apart_by_every_eye(
    colours: tuple[str, ...], eye: str, theme: int
) -> None:
    seen = [lab(PAIRS[name].split(", ")[theme], eye) for name in colours]
    apart = [sum((a - b) ** 2 for a, b in zip(one, other, strict=True)) ** 0.5 for one, other in combinations(seen, 2)]
    # Twenty is far beyond what can just be told apart, which is about two.
    assert min(apart) > 20, apart


def test_no_colour_is_written_beside_the_list() -> None:
    below = STYLE.split("* { box-sizing", 1)[1]
    assert not re.findall(r"#[0-9a-f]{3,8}\b", below)
