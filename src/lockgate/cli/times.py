"""Points in time and ages, as they are typed in options and shown on a screen."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from lockgate.core.errors import LockgateError, quoted

_UNITS_S = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def parse_since(text: str, now_s: float) -> float:
    """Return the Unix time of a local date or time, or of an age such as `7d`; raise if the text is neither."""
    ago = re.fullmatch(r"([0-9]{1,6})([mhdw])", text)
    if ago is not None:
        return max(0.0, now_s - int(ago[1]) * _UNITS_S[ago[2]])
    try:
        return max(0.0, datetime.fromisoformat(text).timestamp())
    except (ValueError, OverflowError, OSError):
        raise LockgateError(
            f"{quoted(text)} is no time",
            hint="write 2026-11-01, 2026-11-01T09:30, or 30m, 12h, 7d, 4w for that long ago",
        ) from None


def parse_age(text: str | None) -> float | None:
    """Return an age such as `7d` in seconds; None for no text."""
    if text is None:
        return None
    number, unit = text[:-1], text[-1:]
    if unit not in _UNITS_S or not number.isdecimal() or len(number) > 6:
        raise LockgateError(f"--since takes an age, not {quoted(text)}", hint="for example 90m, 12h, 7d or 4w")
    return int(number) * _UNITS_S[unit]


def format_time(ts_ms: object) -> str:
    """Return a time in milliseconds as local date and time; a forged record may hold any value."""
    try:
        at = datetime.fromtimestamp(int(str(ts_ms)) / 1000, UTC).astimezone()
    except (ValueError, OverflowError, OSError):
        return "an odd time        "
    return at.strftime("%Y-%m-%d %H:%M:%S")
