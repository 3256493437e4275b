"""How a browser logs in to the page: the address holds a code that works once, for a few minutes, not the token.

A browser keeps every address it has opened and shares it with the person's other machines, and any program of that
person can read it there. By then the code is spent. A code is a file of the state folder, named by its hash: the
process that removes the file has spent it, and only one process can. `auth.py` checks the token of each request.

The token stays in one tab. So that other tabs and bookmarks open too, the page asks for a reading key and keeps it in
the browser's storage for this address. A reading key is signed, not stored: the service answers it where a route only
reads, until its time is over, the token changes, or the person signs out. It is no cookie: browsers send the cookies of
`127.0.0.1` to every port, so each program that serves a page on this machine, an agent's too, would get one.
"""

from __future__ import annotations

import os
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from secrets import token_urlsafe
from threading import Lock
from time import monotonic, time
from typing import TYPE_CHECKING

from lockgate.service.approval_links import LinkClaim
from lockgate.service.auth import TOKEN_FILE_KIND

if TYPE_CHECKING:
    from lockgate.service.app import Api

FOLDER = "page-codes"
ENDED_FOLDER = "ended-reading-keys"
LIFETIME_S = 300.0
MAX_CODE = 100
# A program that takes our port while we are down can read the key of a browser that comes by: it must not last.
READING_S = 7 * 86_400.0
_READING_PREFIX = "lgr_"
_READING = "reading key"
# Wrong codes of one address in a minute, and the addresses that are remembered.
MAX_WRONG = 30
_MAX_ADDRESSES = 1_024


class LoginCodes:
    """The login codes in a folder, and the reading keys that were ended. Without a folder, no code can be made."""

    def __init__(self, state_dir: Path | None, *, clock: Callable[[], float] = time) -> None:
        self._folder = None if state_dir is None else state_dir / FOLDER
        # Files, since the other workers of the service have to know them too, and the next service.
        self._ended_folder = None if state_dir is None else state_dir / ENDED_FOLDER
        self._ended: set[str] = set()
        self._clock = clock

    def make(self) -> str:
        """Return a new code, or an empty one if there is no folder to keep it in."""
        if self._folder is None:
            return ""
        self._sweep(self._folder, LIFETIME_S)
        code = token_urlsafe(32)
        with TOKEN_FILE_KIND.create_whole(self._folder / _name(code)) as new:
            # The file's own time is the file system's, which may be another machine's.
            new.write_text(f"{self._clock():.3f}\n", encoding="ascii")
        return code

    def spend(self, code: str) -> bool:
        """Return whether this code was valid, and make it invalid."""
        if self._folder is None or not 0 < len(code) <= MAX_CODE:
            return False
        path = self._folder / _name(code)
        try:
            TOKEN_FILE_KIND.check(self._folder, folder=True)
            TOKEN_FILE_KIND.check(path)
            made_s = float(path.read_text(encoding="ascii"))
            # Only one process can do this: the others get an OSError.
            os.unlink(path)
        except (OSError, ValueError, TOKEN_FILE_KIND.error):
            return False
        return 0 <= self._clock() - made_s <= LIFETIME_S

    def forget(self) -> None:
        """Make all codes invalid."""
        self._sweep(self._folder, -1.0)

    def end_key(self, key: str) -> None:
        """Make a reading key invalid, for as long as it could count; raise OSError where that cannot be kept."""
        self._ended.add(_name(key))
        if self._ended_folder is not None:
            self._sweep(self._ended_folder, READING_S)
            with suppress(FileExistsError), TOKEN_FILE_KIND.create_whole(self._ended_folder / _name(key)) as new:
                new.write_text(f"{self._clock():.3f}\n", encoding="ascii")

    def has_ended(self, key: str) -> bool:
        """Return whether a reading key was ended, here or by another worker."""
        name = _name(key)
        return name in self._ended or (self._ended_folder is not None and os.path.lexists(self._ended_folder / name))

    def _sweep(self, folder: Path | None, older_s: float) -> None:
        if folder is None:
            return
        with suppress(OSError):
            for path in folder.iterdir():
                with suppress(OSError, ValueError):
                    if older_s < 0 or self._clock() - float(path.read_text(encoding="ascii")) > older_s:
                        path.unlink()


class WrongCodes:
    """Counts the wrong codes of each client address in a minute.

    Only wrong codes count, and a right one is taken at any time: an agent on the person's machine has the person's
    address, so a limit on tries would let it lock the person out. Guessing a code is hopeless without any limit.
    """

    def __init__(self, *, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._times: OrderedDict[str, deque[float]] = OrderedDict()

    def count(self, address: str) -> bool:
        """Count one wrong code; return False if the address had too many and has to wait."""
        now_s = self._clock()
        with self._lock:
            times = self._times.setdefault(address, deque(maxlen=MAX_WRONG))
            self._times.move_to_end(address)
            if len(self._times) > _MAX_ADDRESSES:
                self._times.popitem(last=False)
            if len(times) == MAX_WRONG and now_s - times[0] < 60.0:
                return False
            times.append(now_s)
            return True


def make_reading_key(api: Api, person: str) -> tuple[str, float]:
    """Return a key that reads and changes nothing, and until when; the end of this person's token ends it too."""
    until_s = api.clock() + READING_S
    return _READING_PREFIX + api.links.make(LinkClaim("", "page", person, until_s), _READING), until_s


def is_reading_key(api: Api, given: bytes | None) -> bool:
    """Return whether this is a key that `make_reading_key` made, and still valid."""
    if given is None or not given.startswith(_READING_PREFIX.encode("ascii")):
        return False
    key = given.decode("latin-1")
    claim = api.links.read(key.removeprefix(_READING_PREFIX), api.clock(), _READING)
    return claim is not None and not api.codes.has_ended(key)


def _name(code: str) -> str:
    # By its hash: neither the time of the look-up nor a listing of the folder says anything about the code.
    return sha256(code.encode("utf-8", "surrogatepass")).hexdigest()
