"""The documentation that comes with the package, page by page: what `lockgate help` prints and the page shows."""

from __future__ import annotations

import re
from pathlib import Path

# The first of two pages with the same name has it; the other one is asked for with its folder.
_FOLDERS = ("how-to", "tutorial", "reference", "explanation")
# A line may end inside of a link's words, and code in them may have brackets.
_LINK = re.compile(r"(?<!!)\[((?:`[^`\n]*`|[^\[\]`\n]|\n(?!\n))+)\]\(([^)#\s]*\.md)(?:#[^)\s]*)?\)")
_PICTURE = re.compile(r"!\[([^\]\n]*)\]\([^)\n]*\)")


def list_pages() -> dict[str, Path]:
    """Return every page by its topic, in the order of the list."""
    folder = _pages_folder()
    order = [*_FOLDERS, *sorted({path.parent.name for path in folder.glob("*/*.md")} - set(_FOLDERS))]
    found: dict[str, Path] = {}
    for name in order:
        for path in sorted((folder / name).glob("*.md")):
            found[path.stem if path.stem not in found else _name_with_folder(path)] = path
    return found


def find_page(topic: str, pages: dict[str, Path]) -> Path | None:
    """Return the page about this topic. It is chosen from the list: no path is ever made from what was typed."""
    return pages.get(topic) or next((path for path in pages.values() if _name_with_folder(path) == topic), None)


def page_text(path: Path, pages: dict[str, Path]) -> str:
    """Return a page as text; a link to another page says which topic that is."""
    topics = {page.resolve(): topic for topic, page in pages.items()}

    def name_topic(link: re.Match[str]) -> str:
        topic = topics.get((path.parent / link[2]).resolve())
        return f"{link[1]} (`lockgate help {topic}`)" if topic else link[1]

    return _LINK.sub(name_topic, _PICTURE.sub(r"(picture: \1)", path.read_text(encoding="utf-8")))


def _pages_folder() -> Path:
    package = Path(__file__).resolve().parents[1]
    # A wheel has a copy of the pages; a source tree has the pages themselves.
    return package.parents[1] / "docs" if package.parent.name == "src" else package / "docs"


def _name_with_folder(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"
