"""Structured data as the text that a model reads of it: its names as well as its values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from lockgate.core.tables import read_sections

_ENVELOPE, _KINDS, _MEDIA, _DATA = (
    frozenset(" ".join(words).split()) for words in read_sections(__package__, "structured_text.txt").values()
)
# Shorter data may be a word or a number that a model reads.
_BINARY = re.compile(r"data:(?!text/)[\w.+/-]*(?:;[\w=.+-]*)*,[A-Za-z0-9+/_=-]*|[A-Za-z0-9+/_=\r\n-]{64,}")


def text_of(value: object) -> str:
    """Return every text in a value, names included, in its order; the bytes of pictures and files are no text."""
    texts: list[str] = []
    names: set[object] = set()
    # A list of what is left, and no recursion: no level is too deep to be read.
    pending: list[tuple[object, bool]] = [(value, False)]
    while pending:
        item, media = pending.pop()
        if isinstance(item, str):
            texts.append(item)
        elif isinstance(item, Mapping):
            pending += reversed(list(_parts_of(item, names, media=media)))
        elif isinstance(item, list | tuple):
            pending += [(part, media) for part in reversed(item)]
        elif isinstance(item, bytes):
            texts.append(item.decode("utf-8", "replace"))
        elif item is not None and not isinstance(item, bool):
            texts.append(str(item))
    return "\n".join(filter(None, texts))


def _parts_of(item: Mapping[object, object], names: set[object], *, media: bool) -> Iterator[tuple[object, bool]]:
    """Yield the names of a mapping that may be data, each once, and its values, each with whether it is media."""
    kind = item.get("type")
    media = media or (isinstance(kind, str) and kind in _MEDIA)
    for name, content in item.items():
        # Once: a table has the same names in every row.
        if name not in _ENVELOPE and name not in names:
            names.add(name)
            yield str(name), False
        is_label = name == "type" and isinstance(content, str) and content in _KINDS
        is_binary = media and name in _DATA and isinstance(content, str) and _BINARY.fullmatch(content)
        if not is_label and not is_binary:
            yield content, media
