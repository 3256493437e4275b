from __future__ import annotations

import tomllib

import pytest

from lockgate.settings.toml_lines import MAX_KEY_PARTS, line_of_key, overlong_key_line


@pytest.mark.parametrize(
    ("text", "path", "line"),
    [
        ("a = 1\nb = 2", "b", 2),
        ("[a]\nb = 1\n[c]\nb = 2", "c.b", 4),
        ("[a]\nb.c.d = 1", "a.b.c", 2),
        ("[a.b]\nc = 1", "a", 1),
        ("a = {b = {c = 1}}", "a.b.c", 1),
        ("\"a\" = 1\n'b' = 2", "b", 2),
        ("[ a . 'b' ] # [c]\n\n# c = 1\nc = 1", "a.b.c", 4),
        ("x = '''\nb = 1\n'''\nb = 2", "b", 4),
        ('x = """\nb = 1\\\n\\""""""\nb = 2', "b", 4),
        ('x = "\\"[" # "\nb = 2', "b", 2),
        ("x = [\n  [1, 2], # ]\n  {y = ']'},\n]\nb = 2", "b", 5),
        ("[[a]]\nb = 1\n[[a]]\nc = 1", "a.c", 4),
        ("a = 1\r\nb = 2\r\n", "b", 2),
        ("a = 1", "b", 0),
        ('\\u0061 = 1\n"\\u0062" = 1'.replace("\\u0061", "a"), "b", 2),
    ],
)
def test_the_line_of_a_key_is_found(text: str, path: str, line: int) -> None:
    tomllib.loads(text)
    assert line_of_key(text, tuple(path.split("."))) == line


def test_an_item_of_an_array_has_its_own_line() -> None:
    text = "a = [\n  'x', # 'no'\n  'y',\n]"
    assert [line_of_key(text, ("a",), item) for item in (0, 1, 2, 3)] == [1, 2, 3, 1]


def test_a_key_of_too_many_parts_is_found_before_it_is_parsed() -> None:
    long = ".".join("a" * (MAX_KEY_PARTS + 1))
    assert overlong_key_line(f"b = 1\n{long} = 1") == 2
    assert overlong_key_line(f"b = '{long}'") == 0
