"""The text of a document: what a reader sees, what is hidden from one, and how it is hidden.

Some ways to hide a text serve no reader: the colour of the paper, a size no eye resolves. Others are how documents are
made: menus that open, comments, alternative texts, deleted words. The first count by their size. The second count if a
rule hits them; a few of them also if they are longer than such texts usually are.
"""

from __future__ import annotations

from typing import Final

# How a text is hidden -> from how many letters on that is no accident; None: never by its size.
HIDING_WAYS: Final[dict[str, int | None]] = {
    "color": 40,  # like the paper it stands on
    "tiny": 40,
    "invisible": 40,  # drawn without ink
    "off_page": 40,
    "covered": 40,
    "vanish": 40,  # marked as hidden in a word processor
    "transparent": 300,  # also what fades in
    "screen_reader": 300,  # clipped or moved away: also for those who listen to a page
    "display_none": None,
    "comment": None,
    "metadata": None,
    "alt": None,
    "tracked": None,  # deleted, and still there
    "field": None,
    "annotation": None,
    "script": None,
}
# Of these the longest stretch counts, not the sum: a menu has many short ones.
BY_STRETCH: Final = frozenset({"transparent", "screen_reader"})


class ExtractedText:
    """Collects texts up to a number of characters; past it `complete` is False."""

    def __init__(self, most_characters: int) -> None:
        self.visible: list[str] = []
        self.hidden: list[tuple[str, str]] = []
        self.stats: dict[str, int] = {}
        self.complete = True
        self._left = most_characters

    def show(self, text: str) -> None:
        """Add a text that a reader sees."""
        if kept := self._cut_to_room(text):
            self.visible.append(kept)

    def hide(self, how: str, text: str) -> None:
        """Add a text that is hidden in this way."""
        if kept := self._cut_to_room(text):
            self.hidden.append((how, kept))

    def count(self, name: str, number: int = 1) -> None:
        """Add a number to one of the statistics."""
        self.stats[name] = self.stats.get(name, 0) + number

    @property
    def is_full(self) -> bool:
        """Whether there is no room for more text."""
        return self._left <= 0

    def _cut_to_room(self, text: str) -> str:
        text = text.strip()
        if len(text) > self._left:
            self.complete = False
            text = text[: self._left]
        self._left -= len(text)
        return text
