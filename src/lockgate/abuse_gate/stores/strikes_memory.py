"""Strikes and bans of one process: bounded, and forgotten when they no longer count."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator

from lockgate.core.requests.strikes import KINDS, PRINCIPAL, LadderSettings, StrikeRecord, Subject

# What is known of nobody; those of whom nothing is known have this very one.
NO_RECORD = StrikeRecord()
# What is forgotten at once when nothing but bans is left to forget.
_SHARE = 100


class MemoryStrikes:
    """Records by subject, at most `max_subjects` of each kind; a subject without strikes or a ban takes no room.

    Each kind has its own room: whoever has an IPv6 network has as many networks as they like, and could else push out
    the strikes of a principal. Where there is no room, the subject whose last strike is longest ago is forgotten;
    active bans come last, those that end soonest first, and may take three quarters of the room: with all of it full
    of bans nobody's first strike would be kept. `evicted` is called for each that was forgotten before its time.

    Not safe for threads: its owner is one event loop.
    """

    def __init__(self, settings: LadderSettings, evicted: Callable[[str], None] = lambda _: None) -> None:
        self._settings = settings
        self._evicted = evicted
        # In the order of the last strike, oldest first; a plain dict would look for its first entry among all that it
        # had before. Keys as bytes: half the size.
        self._struck: dict[str, OrderedDict[bytes, StrikeRecord]] = {kind: OrderedDict() for kind in KINDS}
        self._banned: OrderedDict[bytes, StrikeRecord] = OrderedDict()
        self._most_bans = max(1, settings.max_subjects * 3 // 4)

    def __len__(self) -> int:
        return len(self._banned) + sum(map(len, self._struck.values()))

    @property
    def has_bans(self) -> bool:
        """Whether anybody might be banned: False says that nobody is."""
        return bool(self._banned)

    def get(self, subject: Subject) -> StrikeRecord:
        key = bytes.fromhex(subject.key)
        return self._banned.get(key) or self._struck[subject.kind].get(key) or NO_RECORD

    def put(self, subject: Subject, record: StrikeRecord, now: float) -> None:
        kind, key = subject.kind, bytes.fromhex(subject.key)
        struck = self._struck[kind]
        struck.pop(key, None)
        if kind == PRINCIPAL:
            self._banned.pop(key, None)
        if kind == PRINCIPAL and record.ends() > now:
            self._banned[key] = record
        elif self._still_counts(record, now):
            struck[key] = record
        self._make_room(kind, now)

    def bans(self, now: float) -> Iterator[tuple[Subject, StrikeRecord]]:
        for key, record in list(self._banned.items()):
            if record.ends() > now:
                yield Subject(PRINCIPAL, key.hex()), record

    def _still_counts(self, record: StrikeRecord, now: float) -> bool:
        strikes = record.strikes
        return (bool(strikes) and now - strikes[-1] < self._settings.window_s) or record.ends() > now

    def _make_room(self, kind: str, now: float) -> None:
        struck = self._struck[kind]
        # The front is the oldest: what no longer counts is all there, and goes faster than new ones come.
        for table in (struck, self._banned) if kind == PRINCIPAL else (struck,):
            for _ in range(2):
                oldest = next(iter(table), None)
                if oldest is None or self._still_counts(table[oldest], now):
                    break
                del table[oldest]
        if kind == PRINCIPAL and len(self._banned) > self._most_bans:
            self._drop_bans(now)
        room = self._settings.max_subjects - (len(self._banned) if kind == PRINCIPAL else 0)
        while len(struck) > room:
            oldest = next(iter(struck))
            if self._still_counts(struck.pop(oldest), now):
                self._evicted("evicted")

    def _drop_bans(self, now: float) -> None:
        """Move those that have ended to the others; if there are none, forget those that end soonest."""
        for key in [key for key, record in self._banned.items() if record.ends() <= now]:
            record = self._banned.pop(key)
            if self._still_counts(record, now):
                self._struck[PRINCIPAL][key] = record
        over = len(self._banned) - self._most_bans
        if over > 0:
            # Several at once: looking through all of them for each one would be the attacker's work done for them.
            soonest = sorted(self._banned, key=lambda key: self._banned[key].ends())
            for key in soonest[: over + self._most_bans // _SHARE]:
                del self._banned[key]
                self._evicted("evicted-ban")
