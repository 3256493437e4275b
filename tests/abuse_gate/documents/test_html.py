from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockgate.abuse_gate.documents.extracted_text import HIDING_WAYS, ExtractedText
from lockgate.abuse_gate.documents.html import MAX_DEPTH, read_html


def read(text: str) -> ExtractedText:
    found = ExtractedText(10_000)
    read_html(text, found)
    return found


def test_inline_tags_do_not_cut_a_text_and_blocks_do() -> None:
    found = read("<p>ig<b>no</b>re</p><p>all</p>")
    assert found.visible == ["ignore", "all"]
    assert (found.hidden, found.complete) == ([], True)


@pytest.mark.parametrize(
    ("style", "way"),
    [
        ("display:none", "display_none"),
        ("visibility:hidden", "display_none"),
        ("opacity:0.04", "transparent"),
        ("color:#fff", "color"),
        ("color:rgb(239, 239, 239)", "color"),
        ("color:rgba(0,0,0,0)", "color"),
        ("font-size:1px", "tiny"),
        ("position:fixed;top:-500px", "screen_reader"),
        ("margin-left:-20em", "screen_reader"),
        ("transform:scale(0)", "screen_reader"),
        ("clip-path:inset(50%)", "screen_reader"),
        ("width:1px;overflow:hidden", "screen_reader"),
    ],
)
def test_the_way_a_style_hides_is_named(style: str, way: str) -> None:
    found = read(f'<p>seen</p><p style="{style}">unseen</p>')
    assert found.visible == ["seen"]
    assert found.hidden == [(way, "unseen")]


@pytest.mark.parametrize(
    "style",
    [
        "opacity:0.05",
        "color:rgb(238,238,238)",
        "color:#fff;background:#222",
        "color:#fff;background-image:url(a.png)",
        "color:unheard-of",
        "top:-500px",
        "position:fixed;top:-499px",
        "width:1px",
        "/* display:none */",
    ],
)
def test_a_style_just_outside_the_limits_hides_nothing(style: str) -> None:
    assert read(f'<p style="{style}">seen</p>').visible == ["seen"]


@pytest.mark.parametrize(
    ("page", "way"),
    [
        ("<!-- x -->", "comment"),
        ('<img alt="x">', "alt"),
        ('<meta name="a" content="x">', "metadata"),
        ('<input type="hidden" value="x">', "field"),
        ("<script>x</script>", "script"),
        ('<i data-a="x y">', "alt"),
    ],
)
def test_text_beside_the_page_says_where_it_stands(page: str, way: str) -> None:
    (found,) = read(page).hidden
    assert found[0] == way
    assert found[1].startswith("x")


def test_a_rule_counts_where_its_whole_selector_fits() -> None:
    sheet = "<style>p.a.b { display: none } #c { display: none }</style>"
    found = read(sheet + '<p class="a">one<p class="b a">two<p id="c">three')
    assert found.visible == ["one"]
    assert [text for how, text in found.hidden if how == "display_none"] == ["two", "three"]


def test_a_page_deeper_than_the_limit_is_not_complete() -> None:
    assert read("<div>" * (MAX_DEPTH - 1)).complete
    assert not read("<div>" * (MAX_DEPTH + 1)).complete


@settings(max_examples=75, deadline=None, derandomize=True)
@given(
    st.lists(
        st.sampled_from(
            [
                "<p>",
                "</p>",
                "<div style='display:none",
                "'>",
                "<b>",
                "<style>",
                "</style>",
                ".a{color:",
                "white}",
                "<!--",
                "-->",
                "<![",
                "&#x41;",
                "text ",
                "<a hidden",
                ">",
                "<script>",
                "</script>",
            ]
        ),
        max_size=25,
    )
)
def test_any_page_is_read(pieces: list[str]) -> None:
    found = ExtractedText(10_000)
    # What the parser itself gives up on is unread, as anything that raises in a worker.
    with suppress(AssertionError):
        read_html("".join(pieces), found)
    assert all(how in HIDING_WAYS for how, _ in found.hidden)
