"""What an attacker wrote is shown, and nothing else happens."""

from __future__ import annotations

import io
import unicodedata

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lockgate.cli.terminal import excerpt, format_count, format_duration, make_console, make_visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, nothing else", "plain text, nothing else"),
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("\x1b]8;;https://evil.example\x07link\x1b]8;;\x07", r"\x1b]8;;https://evil.example\x07link\x1b]8;;\x07"),
        ("over\rwritten", r"over\rwritten"),
        ("two\nlines\tand", r"two\nlines\tand"),
        ("a\x9b31m", r"a\x9b31m"),
        ("zero\u200bwidth", r"zero\u{200b}width"),
        ("\u202egpj.exe", r"\u{202e}gpj.exe"),
        ("\u2066isolated\u2069", r"\u{2066}isolated\u{2069}"),
        ("tag\U000e0041", r"tag\u{e0041}"),
        ("selector\ufe0f and \U000e0100", r"selector\u{fe0f} and \u{e0100}"),
        ("filler\u3164", r"filler\u{3164}"),
        ("half \ud800", r"half \u{d800}"),
        ("no\u00a0break", r"no\xa0break"),
        ("[red]markup[/red] :smile:", "[red]markup[/red] :smile:"),
        ("naïve 日本語 ещё 😀", "naïve 日本語 ещё 😀"),
    ],
)
def test_every_character_shows(text: str, shown: str) -> None:
    assert make_visible(text) == shown


def test_a_stack_of_marks_is_cut_down() -> None:
    shown = make_visible("e" + "\u0301" * 50)
    assert sum(unicodedata.combining(ch) > 0 for ch in shown) == 4
    assert shown.count(r"\u{301}") == 46


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(st.characters(exclude_categories=())))
def test_nothing_invisible_is_left(text: str) -> None:
    shown = make_visible(text)
    assert shown.isprintable()
    assert shown.encode("utf-8").decode("utf-8") == shown
    assert make_visible(shown) == shown


def test_an_excerpt_is_cut_before_it_grows() -> None:
    assert excerpt("a" * 10, 4) == "aaaa…"
    assert excerpt("\x1b" * 10, 2) == r"\x1b\x1b…"
    assert excerpt("abc", 3) == "abc"


def test_numbers_read_well() -> None:
    assert [format_duration(us) for us in (0.4, 9.96, 12.4, 999.4, 1500.0)] == [
        "0.4 µs",
        "10.0 µs",
        "12 µs",
        "999 µs",
        "1.5 ms",
    ]
    assert [format_count(number, "call") for number in (0, 1, 2000)] == ["0 calls", "1 call", "2,000 calls"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def drawn(stream: io.StringIO) -> str:
    from rich.text import Text

    make_console(stream).print(Text("ruled", style="bold red"))
    return stream.getvalue()


def test_colour_is_for_terminals() -> None:
    assert drawn(io.StringIO()) == "ruled\n"
    assert "\x1b[" in drawn(Terminal())


def test_no_color_means_no_escape_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert drawn(Terminal()) == "ruled\n"


def test_a_forced_colour_does_not_reach_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert drawn(io.StringIO()) == "ruled\n"


def test_markup_in_the_data_is_not_markup() -> None:
    stream = Terminal()
    make_console(stream).print("[red]not red[/red] :smile: https://evil.example 42")
    assert stream.getvalue() == "[red]not red[/red] :smile: https://evil.example 42\n"
