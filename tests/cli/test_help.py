"""`lockgate help`: the pages that come with the package."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lockgate.runtime.shipped_pages import list_pages

Run = Callable[..., Any]
ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "lockgate"


def test_without_a_topic_every_page_is_listed_with_its_title(run: Run) -> None:
    ended = run("help")
    assert ended.code == 0
    listed = {line.split()[0]: line for line in ended.out.splitlines() if line.startswith("  ")}
    assert set(listed) == set(list_pages())
    assert len(listed) == len(list((ROOT / "docs").glob("*/*.md")))
    assert listed["costs"].endswith("How to see what judging costs, and spend less")


@pytest.mark.parametrize("topic", ["trace", "reference/trace", "docs/reference/trace.md", "reference/trace.md"])
def test_a_page_is_shown_and_its_links_are_topics(run: Run, topic: str) -> None:
    ended = run("help", topic)
    assert ended.code == 0
    assert ended.out.startswith("# ")
    assert "`lockgate help" in run("help", "service").out
    assert ".md)" not in run("help", "service").out


def test_two_pages_of_one_name_are_both_reached(run: Run) -> None:
    assert run("help", "service").out != run("help", "reference/service").out
    assert run("help", "how-to/service").out == run("help", "service").out.removesuffix(
        "\nlockgate service --help lists the options of the command\n"
    )


def test_a_command_without_a_page_has_its_options_shown(run: Run) -> None:
    assert run("help", "scan").out == run("scan", "--help").out


@pytest.mark.parametrize("topic", ["../../etc/passwd", "/etc/passwd", "how-to/../../README", "", "."])
def test_no_path_is_made_from_a_topic(run: Run, topic: str) -> None:
    ended = run("help", topic)
    assert (ended.code, ended.out) == (2, "")
    assert "no page about" in ended.err


def test_a_mistyped_topic_is_mended(run: Run) -> None:
    assert "did you mean `costs`?" in run("help", "cost").err
    # A word of a page's title leads to the page.
    assert "hint: see `lockgate help coding-agents`" in run("help", "Codex").err
    assert "hint: see `lockgate help langchain`" in run("help", "langgraph").err
    assert "hint: lockgate help lists the pages" in run("help", "zzzz").err


def test_every_topic_that_a_message_names_exists() -> None:
    """And no message names a file of the repository, which an installed Lockgate does not have."""
    named = set()
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        named |= set(re.findall(r"`lockgate help ([a-z/-]+)`", text))
        code = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
        if path.parts[-3:] not in (("core", "redaction", "personal_data.py"), ("lockgate", "core", "vocabulary.py")):
            assert not re.search(r"docs/(?:how-to|reference|tutorial|explanation)/", code), path
    assert len(named) > 15
    assert named <= set(list_pages())


def test_a_wheel_carries_every_folder_of_pages() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    carried = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    folders = {path.parent.name for path in (ROOT / "docs").glob("*/*.md")}
    assert carried == {f"docs/{name}": f"lockgate/docs/{name}" for name in sorted(folders)}
