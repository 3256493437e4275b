"""Errors that an edge catches and turns into a safe answer: counted and logged, so that none is silent.

An edge is a place where foreign code or the outside world is called. Its one catch-all reports here what it caught.
Only the exception's type is kept: its message may quote a user's text or a key.
"""

from __future__ import annotations

import logging
from collections import Counter
from contextlib import suppress
from time import monotonic

# A failing store or provider can raise thousands of times a second: after the first line, one line a minute.
LOG_EVERY_S = 60.0
# Foreign code can raise types with any name: the tables must not grow without limit.
MAX_KINDS = 500
OTHER = "other"

_log = logging.getLogger("lockgate.failures")
# By edge and type. No lock: a lost count is cheaper than a lock held in a signal handler or over a fork.
_counts: Counter[tuple[str, str]] = Counter()
_logged: dict[tuple[str, str], tuple[float, int]] = {}


def report_failure(edge: str, error: BaseException) -> None:
    """Count the error by edge and type, and log the type at most once a minute. Never raise."""
    kind = (edge, error_type(error))
    if kind not in _counts and len(_counts) >= MAX_KINDS:
        kind = (edge, OTHER) if (edge, OTHER) in _counts else (OTHER, OTHER)
    _counts[kind] += 1
    now, count = monotonic(), _counts[kind]
    last_s, last_count = _logged.get(kind, (-LOG_EVERY_S, 0))
    if now - last_s < LOG_EVERY_S:
        return
    _logged[kind] = (now, count)
    # A logging handler of the application may raise; the caller is busy failing safely and must not notice.
    with suppress(Exception):
        _log.warning("failure: edge=%s error=%s count=%d", *kind, count - last_count)


def error_type(error: BaseException) -> str:
    """Return the name of the error's type if it is a plain identifier, else `other`; never the error's message."""
    name = type(error).__name__
    return name[:60] if name.isidentifier() and name.isascii() else OTHER
