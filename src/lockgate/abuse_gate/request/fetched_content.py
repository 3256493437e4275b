"""Content that a request only points at: a stored file, or an address that the provider fetches.

The gate cannot read it, so such a request is unclear at best. `fetched_content.txt` has the names.
"""

from __future__ import annotations

import re
from typing import Final

from lockgate.core.tables import read_sections

STORED, FETCHED, CARRIED = "stored", "fetched", "carried"
# Each name in lower case, with and without its underscores, and its section.
_NAMES: Final = {
    spelling: section
    for section, names in read_sections(__package__, "fetched_content.txt").items()
    for name in names
    for spelling in (name, name.replace("_", ""))
}
REFERENCE_NAMES: Final = frozenset(_NAMES)
_ADDRESS: Final = re.compile(r"\s*+[a-z][a-z0-9+.-]{1,15}+://\S{1,8000}+\s*+", re.IGNORECASE)
# In an object under such a name, what identifies the content.
_PLACES: Final = frozenset(("id", "uri", "url", "href", "src", "key", "bucket"))


def points_elsewhere(name: str, value: object) -> bool:
    """Return whether the value under a name, which is in lower case, is the id or the address of other content."""
    section = _NAMES.get(name)
    return section is not None and _is_elsewhere(section, value)


def _is_elsewhere(section: str, value: object) -> bool:
    if isinstance(value, list):
        # The depth of a request's JSON is bounded.
        return any(_is_elsewhere(section, one) for one in value)
    if isinstance(value, dict):
        places = [value[name] for name in _PLACES.intersection(value)]
        return any(isinstance(one, str) and _is_place(section, one) for one in places)
    if isinstance(value, str):
        return _is_place(section, value)
    return section == STORED and value is not None and value is not False


def _is_place(section: str, text: str) -> bool:
    if section == STORED:
        return text != ""
    if section == FETCHED:
        return text != "" and text[:5].lower() != "data:"
    return _ADDRESS.fullmatch(text) is not None
