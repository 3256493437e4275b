"""What a person has vouched for: one text of one source, known by the hash of its content.

A pin makes such a text `vetted`. A text that has changed by one letter is another text, and the person is asked anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import sha256
from typing import NamedTuple

from lockgate.core.errors import LockgateError

# What of a text is kept to show how it has changed since.
MAX_KEPT = 64 * 1024
MAX_PINS = 1_000
_VERSION = 1


class TrustPin(NamedTuple):
    """One text that a person has vouched for. `kept` is the text itself, empty where it is too long to be kept."""

    source: str
    digest: str
    who: str
    at_s: float
    note: str = ""
    kept: str = ""

    @property
    def id(self) -> str:
        """A name for this pin, short enough to type; the same text of the same source has the same one."""
        return sha256(f"{self.source}\0{self.digest}".encode("utf-8", "surrogatepass")).hexdigest()[:12]


def digest_of(content: str) -> str:
    """Return the hash of a text; how its lines end, and blank lines after the last, make no difference."""
    plain = content.replace("\r\n", "\n").rstrip("\n")
    return sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()


def pin_text(source: str, content: str, *, who: str, at_s: float, note: str = "") -> TrustPin:
    """Return the pin of a text."""
    return TrustPin(source, digest_of(content), who, at_s, note, content if len(content) <= MAX_KEPT else "")


def pins_to_json(pins: Iterable[TrustPin]) -> bytes:
    """Return pins as they are stored."""
    rows = [pin._asdict() for pin in pins]
    return json.dumps({"version": _VERSION, "pins": rows}, ensure_ascii=True, indent=1).encode("ascii")


def pins_from_json(data: bytes) -> tuple[TrustPin, ...]:
    """Return stored pins; raise LockgateError for anything else, since half a list could hide a removed pin."""
    try:
        found = json.loads(data)
    except ValueError:
        found = None
    rows = found.get("pins") if isinstance(found, dict) and found.get("version") == _VERSION else None
    if not isinstance(rows, list):
        raise LockgateError("this is no list of trusted texts that this version knows")
    return tuple(_pin_from_row(row) for row in rows)


def _pin_from_row(row: object) -> TrustPin:
    if not isinstance(row, dict) or row.keys() != set(TrustPin._fields):
        raise LockgateError("a row of the trusted texts has other fields than it should")
    at_s = row["at_s"]
    texts = [row[name] for name in TrustPin._fields if name != "at_s"]
    if not all(isinstance(text, str) for text in texts) or not isinstance(at_s, int | float):
        raise LockgateError("a row of the trusted texts has a value of the wrong type")
    return TrustPin(row["source"], row["digest"], row["who"], float(at_s), row["note"], row["kept"])
