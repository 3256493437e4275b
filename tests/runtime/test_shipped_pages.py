"""The pages that come with the package; how they are printed: tests/cli/test_help.py."""

from __future__ import annotations

import re

from lockgate.runtime.shipped_pages import find_page, list_pages, page_text


def test_a_page_is_found_by_its_name_and_by_its_folder_and_name() -> None:
    pages = list_pages()
    assert find_page("witness", pages) == find_page("how-to/witness", pages) == pages["witness"]
    assert find_page("reference/service", pages) != find_page("service", pages)


def test_no_path_is_made_from_a_topic() -> None:
    pages = list_pages()
    assert [find_page(topic, pages) for topic in ("../README", "/etc/passwd", "", "how-to", "witness.md")] == [None] * 5


def test_links_become_topics_and_pictures_become_words() -> None:
    pages = list_pages()
    text = page_text(pages["page"], pages)
    assert "`lockgate help approvals`" in text
    assert "(picture: " in text
    assert ".png" not in text
    left = {topic: re.findall(r"\]\([^)\s]*\.md[^)]*\)", page_text(path, pages)) for topic, path in pages.items()}
    assert {topic: links for topic, links in left.items() if links} == {}
