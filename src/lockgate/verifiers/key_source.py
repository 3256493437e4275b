"""Sources of keys, and the one place where an adapter or a judge asks one."""

from __future__ import annotations

from threading import current_thread, main_thread
from typing import Protocol

from lockgate.runtime.failures import report_failure
from lockgate.settings.key_files import is_key


class KeySource(Protocol):
    """A source of keys: variables, files, a secret manager.

    It is asked at every request, in a thread and within the deadline, so it may block and should cache. A source with
    a true attribute `instant` promises to answer from memory, and is asked in place. If there is no key for a tenant,
    return an empty text or raise; the error is not shown.
    """

    def key(self, tenant: str) -> str:
        """Return the key of this tenant, blank where there is none."""


def is_instant(keys: KeySource) -> bool:
    """Return whether this source answers from memory."""
    return getattr(keys, "instant", False) is True


def key_or_blank(keys: KeySource, tenant: str) -> str:
    """Return the source's key, or a blank if it raises: no key is a blank, not even where an empty one will do."""
    try:
        return keys.key(tenant)
    except BaseException as error:
        # A Ctrl-C arrives in the main thread; in any other it is the source's own.
        if isinstance(error, KeyboardInterrupt) and current_thread() is main_thread():
            raise
        report_failure("key-source", error)
        return " "


def is_usable_key(key: object, *, needed: bool) -> bool:
    """Return whether a header can carry this key; without `needed`, an empty key will do too."""
    return is_key(key) or (key == "" and not needed)
