"""The word lists of the core: text files beside the modules that use them, read once when such a module is imported.

This is the only module of the core that reads a file. It reads data of this package and nothing else, as importing a
module does. A list has one entry a line; lines that begin with `#` and empty lines are left out.
"""

from __future__ import annotations

import pkgutil


def read_words(package: str, name: str) -> tuple[str, ...]:
    """Return the entries of one list of a package, in the order of the file."""
    return tuple(_lines(package, name))


def read_sections(package: str, name: str) -> dict[str, tuple[str, ...]]:
    """Return the entries of a list by its sections, each of which begins with a line `[name]`."""
    sections: dict[str, list[str]] = {}
    entries: list[str] = []
    for line in _lines(package, name):
        if line[0] == "[" and line[-1] == "]":
            entries = sections[line[1:-1]] = []
        else:
            entries.append(line)
    return {section: tuple(words) for section, words in sections.items()}


def _lines(package: str, name: str) -> list[str]:
    data = pkgutil.get_data(package, name)
    if data is None:
        raise FileNotFoundError(f"the word list `{name}` of `{package}` cannot be read")
    return [line for line in data.decode("utf-8").splitlines() if line and line[0] != "#"]
