"""`api_names.txt` keeps to its format, and all of its sections are used."""

from __future__ import annotations

from pathlib import Path

import lockgate.abuse_gate.request
from lockgate.abuse_gate.request import name_words, tool_use
from lockgate.core.tables import read_sections

FOLDER = Path(lockgate.abuse_gate.request.__file__).parent
TEXT = (FOLDER / "api_names.txt").read_text(encoding="utf-8")
SECTIONS = read_sections("lockgate.abuse_gate.request", "api_names.txt")


def test_the_list_is_plain_lines_of_ascii() -> None:
    assert TEXT.isascii()
    assert TEXT.endswith("\n")
    assert all(line == line.strip() and line.isprintable() for line in TEXT.split("\n"))


def test_each_section_is_sorted_and_has_no_name_twice() -> None:
    for section, names in SECTIONS.items():
        assert names, section
        assert list(names) == sorted(set(names)), section
        assert all(" " not in name for name in names), section


def test_every_section_is_used() -> None:
    source = "".join(Path(module.__file__).read_text(encoding="utf-8") for module in (tool_use, name_words))
    # Names that no request of a locked client may have, and that are not read as words.
    only_names = {"around tools", "schema words"}
    assert all(f'_NAMES["{section}"]' in source for section in SECTIONS.keys() - only_names)
    assert all({name.lower() for name in SECTIONS[section]} <= name_words.KNOWN_NAMES for section in only_names)


def test_no_name_offers_tools() -> None:
    allowed = {*SECTIONS["values"], *SECTIONS["words"], *SECTIONS["settings"], *SECTIONS["labels"], *SECTIONS["free"]}
    assert allowed.isdisjoint({"tools", "functions", "mcp_servers", "plugins", "web_search_options", "connectors"})
