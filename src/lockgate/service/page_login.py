"""How a browser logs in to the page: the address holds a code that works once, for a few minutes, not the token.

A browser keeps every address it has opened and shares it with the person's other machines, and any program of that
person can read it there. By then the code is spent. A code is a file of the state folder, named by its hash: the
process that removes the file has spent it, and only one process can. `auth.py` checks the token of each request.

The token stays in one tab. So that other tabs and bookmarks open too, the page asks for a reading key and keeps it in
the browser's storage for this address. A reading key is signed, not stored: the service answers it where a route only
reads, until its time is over or the token changes. It is no cookie: browsers send the cookies of `127.0.0.1` to every
port, so each program that serves a page on this machine, an agent's too, would get one.
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
    """The login codes in a folder. Without a folder, no code can be made."""

    def __init__(self, state_dir: Path | None, *, clock: Callable[[], float] = time) -> None:
        self._folder = None if state_dir is None else state_dir / FOLDER
        self._clock = clock

    def make(self) -> str:
        """Return a new code, or an empty one if there is no folder to keep it in."""
        if self._folder is None:
            return ""
        self._sweep(LIFETIME_S)
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
        self._sweep(-1.0)

    def _sweep(self, older_s: float) -> None:
        if self._folder is None:
            return
        with suppress(OSError):
            for path in self._folder.iterdir():
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
    text = given.decode("latin-1").removeprefix(_READING_PREFIX)
    return api.links.read(text, api.clock(), _READING) is not None


def _name(code: str) -> str:
    # By its hash: neither the time of the look-up nor a listing of the folder says anything about the code.
    return sha256(code.encode("utf-8", "surrogatepass")).hexdigest()
