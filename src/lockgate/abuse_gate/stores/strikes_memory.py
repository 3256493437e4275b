"""Strikes and bans of one process: bounded, and forgotten when they no longer count."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator

from lockgate.core.requests.strikes import KINDS, PRINCIPAL, LadderSettings, StrikeRecord, Subject

# The record of every subject that is not in the table: this very object.
NO_RECORD = StrikeRecord()
# The share of bans that is forgotten at once if only bans are left to forget: one in so many.
_SHARE = 100


class MemoryStrikes:
    """Records by subject, at most `max_subjects` of each kind; a subject without strikes or a ban takes no room.

    Each kind has its own room: an attacker with many IPv6 networks could push out the strikes of principals otherwise.
    If there is no room, the table forgets the subject with the oldest last strike. Active bans come last, those that
    end soonest first. They may take three quarters of the room, so that first strikes are still kept. It calls
    `evicted` for each subject that is forgotten early.

    Not safe for threads: its owner is one event loop.
    """

    def __init__(self, settings: LadderSettings, evicted: Callable[[str], None] = lambda _: None) -> None:
        self._settings = settings
        self._evicted = evicted
        # In the order of the last strike, oldest first; finding the first entry of a plain dict takes time in
        # proportion to its deleted ones. Keys as bytes: half the size.
        self._struck: dict[str, OrderedDict[bytes, StrikeRecord]] = {kind: OrderedDict() for kind in KINDS}
        self._banned: OrderedDict[bytes, StrikeRecord] = OrderedDict()
        self._most_bans = max(1, settings.max_subjects * 3 // 4)

    def __len__(self) -> int:
        return len(self._banned) + sum(map(len, self._struck.values()))

    @property
    def has_bans(self) -> bool:
        """Whether the table holds any ban."""
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
        # The oldest are in front. Two go for each new one, so expired records never pile up.
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
        """Move ended bans to the strikes; if there are still too many, forget those that end soonest."""
        for key in [key for key, record in self._banned.items() if record.ends() <= now]:
            record = self._banned.pop(key)
            if self._still_counts(record, now):
                self._struck[PRINCIPAL][key] = record
        over = len(self._banned) - self._most_bans
        if over > 0:
            # Several at once: sorting all of them for each one would do the attacker's work.
            soonest = sorted(self._banned, key=lambda key: self._banned[key].ends())
            for key in soonest[: over + self._most_bans // _SHARE]:
                del self._banned[key]
                self._evicted("evicted-ban")
