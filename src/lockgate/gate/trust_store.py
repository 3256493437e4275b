"""The texts that a person has vouched for, in a sealed file of the state folder.

The gate asks it about each text that enters a session. The file is read again when it has changed, so a running service
takes a new pin within a moment. A file that is damaged, or that this user's key did not seal, pins nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock

from lockgate.core.errors import LockgateError, quoted
from lockgate.core.vocabulary import Trust, default_trust
from lockgate.gate.trust_pins import MAX_PINS, TrustPin, digest_of, pins_from_json, pins_to_json
from lockgate.runtime.private_files import locked_file
from lockgate.runtime.sealed_cache import SealedCache

FILE = "trusted.json"


class TrustStore:
    """Pins in a file. Safe for several threads and processes."""

    def __init__(
        self,
        folder: Path,
        *,
        record: Callable[[TrustPin, bool], None] | None = None,
        ended: Callable[[str], bool] = lambda _: False,
    ) -> None:
        # Whether the record has the end of a pin: a file that was put back as it was has not.
        self._ended = ended
        self._path = folder / FILE
        self._sealed = SealedCache(folder, folder)
        self._record = record
        self._lock = Lock()
        self._stamp: tuple[int, int, int] | None = None
        self._digests: dict[str, frozenset[str]] = {}

    def trust_of(self, source: str, content: str) -> Trust | None:
        """Return `vetted` for an untrusted source with exactly a text that was pinned for it, else None."""
        digests = self._current().get(source)
        if digests is None or default_trust(source) is not Trust.UNTRUSTED:
            return None
        return Trust.VETTED if digest_of(content) in digests else None

    def pins(self) -> tuple[TrustPin, ...]:
        """Return all pins, oldest first; raise LockgateError where the file is there and does not count."""
        if not self._path.exists():
            return ()
        data = self._sealed.read(FILE)
        if data is None:
            raise LockgateError(
                f"{quoted(self._path)} is damaged, or was not sealed by this user: it pins nothing",
                hint="look at it, move it away, and pin again what you trust",
            )
        return pins_from_json(data)

    def add(self, pins: Sequence[TrustPin]) -> None:
        """Pin these texts; an older pin of the same source gives way."""
        named = {pin.source for pin in pins}
        self._replace(lambda old: [*(pin for pin in old if pin.source not in named), *pins], pins, made=True)

    def revoke(self, pins: Sequence[TrustPin]) -> None:
        """Take pins back."""
        gone = {pin.id for pin in pins}
        self._replace(lambda old: [pin for pin in old if pin.id not in gone], pins, made=False)

    def _replace(
        self, change: Callable[[tuple[TrustPin, ...]], list[TrustPin]], about: Sequence[TrustPin], *, made: bool
    ) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked_file(self._path.with_suffix(".lock")):
            old = self.pins()
            new = change(old)
            if len(new) > MAX_PINS:
                raise LockgateError(f"more than {MAX_PINS:,} trusted texts", hint="revoke some: lockgate trust --list")
            # On record first: no text may become trusted without a record of who vouched for it.
            if self._record is not None:
                kept = {pin.id for pin in new}
                for pin in about if made else ():
                    self._record(pin, True)
                for pin in old:
                    if pin.id not in kept:
                        self._record(pin, False)
            self._sealed.write(FILE, pins_to_json(new))
            if self.pins() != tuple(new):
                raise LockgateError(f"{quoted(self._path)} cannot be written")

    def _current(self) -> dict[str, frozenset[str]]:
        try:
            status = self._path.stat()
        except OSError:
            return {}
        stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
        with self._lock:
            if stamp != self._stamp:
                try:
                    found = self.pins()
                except LockgateError:
                    found = ()
                found = tuple(pin for pin in found if not self._ended(pin.id))
                self._digests = {pin.source: frozenset({pin.digest}) for pin in found}
                self._stamp = stamp
            return self._digests
