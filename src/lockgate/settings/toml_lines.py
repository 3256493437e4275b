"""Line numbers in TOML texts, for error messages: `tomllib` forgets where it read a value."""

from __future__ import annotations

from collections.abc import Iterator

# tomllib takes time cubic in the parts of one dotted key: 32,000 parts, 64 KB, take 40 s. Our keys have five at most.
MAX_KEY_PARTS = 32
# A line number is a courtesy: for larger files an error names only the file and the key.
_MAX_LOCATED_CHARACTERS = 100_000

# TOML's tokens, as far as they show where a statement ends and which dots join the parts of a key. An unclosed
# quotation mark ends the reading: going on behind it would take quadratic time in a text full of such marks.
_STRING = r""""(?:\\.|[^"\\\n])*"|'[^'\n]*'"""
_PART = rf"(?:[A-Za-z0-9_-]+|{_STRING})"
_TOKEN = (
    r'"""(?:\\.|[^\\])*?"{3,5}|' + r"'''.*?'{3,5}|" + r'(?P<unclosed>"""|' + r"''')|"
    rf"(?P<overlong>{_PART}(?:[ \t]*\.[ \t]*{_PART}){{{MAX_KEY_PARTS},}})|{_STRING}|"
    r"""(?P<open>["'])|#[^\n]*|[A-Za-z0-9_-]+|[\[\]{}\n]|[^\[\]{}\n"'#A-Za-z0-9_-]+"""
)


def overlong_key_line(text: str) -> int:
    """Return the line of the first key with too many parts, or 0."""
    if not any(line.count(".") >= MAX_KEY_PARTS for line in text.splitlines()):
        return 0
    return next((line for line, _, overlong in statements(text) if overlong), 0)


def line_of_key(text: str, path: tuple[str, ...], item: int = 0) -> int:
    """Return the line where a valid TOML text first names this path, or where this item of its array is; else 0."""
    import tomllib

    if len(text) > _MAX_LOCATED_CHARACTERS:
        return 0
    table: tuple[str, ...] = ()
    for line, statement, _ in statements(text):
        names: object = tomllib.loads(statement)
        header = statement.lstrip().startswith("[")
        if header:
            table = ()
        rest = path[len(table) :]
        if path[: len(table)] == table and rest and _holds(names, rest):
            return line + _lines_before(statement, item)
        while header and isinstance(names, dict) and names:
            (name, names) = next(iter(names.items()))
            table = (*table, name)
            names = names[0] if isinstance(names, list) else names
    return 0


def statements(text: str) -> Iterator[tuple[int, str, bool]]:
    """Yield each statement's line and text, and whether it holds an overlong key; together the texts are the whole."""
    import re

    start = depth = 0
    line = 1
    overlong = False
    text = f"{text}\n"
    for match in re.finditer(_TOKEN, text, re.DOTALL):
        if match["unclosed"] or match["open"]:
            return
        overlong = overlong or bool(match["overlong"])
        part = match[0]
        depth += (part in ("[", "{")) - (part in ("]", "}"))
        if part == "\n" and (depth == 0 or overlong):
            yield line, text[start : match.end()], overlong
            line += text.count("\n", start, match.end())
            start = match.end()


def _lines_before(statement: str, item: int) -> int:
    """Return how many lines lie between a key and this item (from 1) of its array of strings; 0 if there is none."""
    import re

    depth = 0
    for match in re.finditer(_TOKEN, statement, re.DOTALL):
        token = match[0]
        depth += (token in ("[", "{")) - (token in ("]", "}"))
        if depth == 1 and token[0] in ('"', "'"):
            item -= 1
            if item == 0:
                return statement.count("\n", 0, match.start())
    return 0


def _holds(names: object, path: tuple[str, ...]) -> bool:
    for name in path:
        names = names[0] if isinstance(names, list) and names else names
        if not isinstance(names, dict) or name not in names:
            return False
        names = names[name]
    return True
