"""The texts in a message's content, whichever form a provider or a framework gives it."""

from __future__ import annotations

from collections.abc import Iterator

# What a block of another kind than text holds as data and not as text.
_MEDIA = frozenset(
    {"image", "image_url", "input_image", "audio", "input_audio", "video", "file", "document", "input_file"}
)
_DATA = frozenset({"base64", "data", "file_data", "url", "image_url"})


def text_in(content: object) -> str:
    """Return every text in a content, names included; the data of images and files is no text."""
    return content if isinstance(content, str) else "\n".join(_texts(content))


def _texts(value: object) -> Iterator[str]:
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            is_media = item.get("type") in _MEDIA
            for name, each in item.items():
                if (is_media and name in _DATA) or (name == "type" and str(each).isidentifier()):
                    continue
                pending += [str(name), each] if name not in ("type", "id", "index", "text") else [each]
        elif isinstance(item, list | tuple):
            pending += reversed(item)
