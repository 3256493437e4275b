"""What is taken out of a document: what a reader sees, what is kept from one, and how it is kept from one.

Some ways to hide a text serve nobody who reads: the colour of the paper, a size no eye resolves. Others are how
documents are made: menus that open, comments, alternative texts, deleted words. The first count by their size. The
second count when they say something a rule finds; a few of them also when they are longer than such texts are.
"""

from __future__ import annotations

from typing import Final

# How a text is hidden -> how many letters of it are no accident, if any number is.
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
    """Collects, up to a number of characters; past it `complete` is False."""

    def __init__(self, most_characters: int) -> None:
        self.visible: list[str] = []
        self.hidden: list[tuple[str, str]] = []
        self.stats: dict[str, int] = {}
        self.complete = True
        self._left = most_characters

    def show(self, text: str) -> None:
        if kept := self._cut_to_room(text):
            self.visible.append(kept)

    def hide(self, how: str, text: str) -> None:
        if kept := self._cut_to_room(text):
            self.hidden.append((how, kept))

    def count(self, name: str, number: int = 1) -> None:
        self.stats[name] = self.stats.get(name, 0) + number

    @property
    def is_full(self) -> bool:
        return self._left <= 0

    def _cut_to_room(self, text: str) -> str:
        text = text.strip()
        if len(text) > self._left:
            self.complete = False
            text = text[: self._left]
        self._left -= len(text)
        return text
