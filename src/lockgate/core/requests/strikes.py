"""Strikes, bans and incident ids: how unsafe requests are counted, and when a client loses its tools or all access.

1. Every unsafe request is a strike against its principal and against the network it came from.
2. A principal with `tier1_threshold` strikes in the window is in `tier1_mode` for `tier1_cooldown_s`, and likewise for
   tier 2. A strike during a cooldown begins it again; when it ends, strikes still in the window count on.
3. A network with `network_threshold` of them is slowed, more with each. It is never locked out: others share it.

Records are merged by the later end of each ban, so no repeated or late report lifts one. The clock is the caller's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import reduce
from math import ceil, inf
from typing import Any, NamedTuple

from lockgate.core.errors import InvalidConfig, quoted

PRINCIPAL = "principal"
NETWORK = "network"
KINDS = (PRINCIPAL, NETWORK)
# How the key of a client ends that no authentication names.
ANONYMOUS_KEY = "00000000"

NEVER = -inf
# How long a request from a slowed network waits: at the threshold, one strike past it, and so on to the last.
DELAYS_S = (0.25, 0.5, 1.0, 2.0)
# A subject's strikes are kept one by one: a threshold is also what a subject may take of memory.
MAX_THRESHOLD = 100
MAX_SECONDS = 30 * 86_400.0
# How much later than necessary a client may be asked to come back: all at once would be the next flood.
JITTER = 0.1
_MOST = {
    **dict.fromkeys(("tier1_threshold", "tier2_threshold", "network_threshold"), MAX_THRESHOLD),
    "max_subjects": 10_000_000,
    **dict.fromkeys(("window_s", "tier1_cooldown_s", "tier2_cooldown_s"), MAX_SECONDS),
}


class Standing(StrEnum):
    """How a client stands; the values are header values. From the mildest to the hardest."""

    NORMAL = "normal"
    SLOWED = "slowed"
    EXECUTE_LOCKED = "execute_locked"
    FULL_QUARANTINE = "full_quarantine"


BAN_MODES = (Standing.EXECUTE_LOCKED, Standing.FULL_QUARANTINE)


class Subject(NamedTuple):
    """Whom strikes are counted against: a kind, and 32 hexadecimal digits that only the secret's owner can make."""

    kind: str
    key: str

    @property
    def is_authenticated(self) -> bool:
        """Whether the application names this client; its network alone is no name."""
        return self.kind == PRINCIPAL and not self.key.endswith(ANONYMOUS_KEY)


@dataclass(frozen=True, slots=True)
class LadderSettings:
    """When strikes have which consequence. `max_subjects` are remembered of each kind."""

    enabled: bool = True
    window_s: float = 600.0
    tier1_threshold: int = 3
    tier1_mode: Standing = Standing.EXECUTE_LOCKED
    tier1_cooldown_s: float = 900.0
    tier2_threshold: int = 5
    tier2_mode: Standing = Standing.FULL_QUARANTINE
    tier2_cooldown_s: float = 3600.0
    network_threshold: int = 5
    max_subjects: int = 100_000

    def __post_init__(self) -> None:
        for name, most in _MOST.items():
            value = getattr(self, name)
            kind: Any = int | float if name.endswith("_s") else int
            if isinstance(value, bool) or not isinstance(value, kind) or not 1 <= value <= most:
                whole = "a whole number" if kind is int else "seconds"
                raise InvalidConfig(f"{name} must be {whole} between 1 and {most:,.0f}, not {quoted(value)}")
        for name in ("tier1_mode", "tier2_mode"):
            if (mode := getattr(self, name)) not in BAN_MODES:
                hint = f"one of these: {', '.join(mode.value for mode in BAN_MODES)}"
                raise InvalidConfig(f"{name} cannot be {quoted(mode)}", hint=hint)
            object.__setattr__(self, name, Standing(mode))
        is_milder = BAN_MODES.index(self.tier2_mode) < BAN_MODES.index(self.tier1_mode)
        if is_milder or self.tier2_threshold < self.tier1_threshold:
            hint = "give tier 2 the higher threshold and mode"
            raise InvalidConfig("tier 2 must not come before tier 1, nor be milder", hint=hint)

    @property
    def kept_strikes(self) -> int:
        """How many strikes of a subject can make a difference; older ones are forgotten."""
        return max(self.tier2_threshold, self.network_threshold + len(DELAYS_S) - 1)

    @property
    def tiers(self) -> tuple[tuple[int, Standing, float], ...]:
        """Of each tier the threshold, the mode, and the cooldown in seconds."""
        return (
            (self.tier1_threshold, self.tier1_mode, self.tier1_cooldown_s),
            (self.tier2_threshold, self.tier2_mode, self.tier2_cooldown_s),
        )

    def cooldown_s(self, mode: Standing) -> float:
        """The longest that a ban of this mode can last: what claims to last longer is a clock that was put back."""
        return max((cooldown_s for _, tier_mode, cooldown_s in self.tiers if tier_mode is mode), default=0.0)


class StrikeRecord(NamedTuple):
    """What is known of one subject: when its strikes fell, oldest first, and when its bans end."""

    strikes: tuple[float, ...] = ()
    locked_until: float = NEVER
    quarantined_until: float = NEVER

    def ends(self) -> float:
        return max(self.locked_until, self.quarantined_until)


class SharedRecord(NamedTuple):
    """A record without a clock, to be told to others who have another: how old, and how long still."""

    strikes: tuple[float, ...] = ()
    locked_s: float = 0.0
    quarantined_s: float = 0.0


# A person has lifted the subject's bans: the other workers forget everything they knew of it.
LIFTED = SharedRecord((), -1.0, -1.0)


class StrikeReport(NamedTuple):
    """What one worker tells the others about a subject: strikes by id and age, which count once, and its bans."""

    subject: Subject
    strikes: tuple[tuple[str, float], ...] = ()
    locked_s: float = 0.0
    quarantined_s: float = 0.0


class SharedStrikes(NamedTuple):
    """What the others know of each subject asked about, in that order, and bans since the last time.

    `has_forgotten`: they have lost what they knew, and need every ban again.
    """

    known: tuple[SharedRecord, ...]
    bans: tuple[tuple[Subject, SharedRecord], ...] = ()
    has_forgotten: bool = False


def add_strike(record: StrikeRecord, kind: str, now: float, settings: LadderSettings) -> StrikeRecord:
    """The record with one more strike."""
    strikes = (*recent_strikes(record, now, settings), now)[-settings.kept_strikes :]
    ends = {Standing.EXECUTE_LOCKED: record.locked_until, Standing.FULL_QUARANTINE: record.quarantined_until}
    for threshold, mode, cooldown_s in settings.tiers if kind == PRINCIPAL else ():
        if len(strikes) >= threshold:
            ends[mode] = max(ends[mode], now + cooldown_s)
    return StrikeRecord(strikes, *ends.values())


def recent_strikes(record: StrikeRecord, now: float, settings: LadderSettings) -> tuple[float, ...]:
    """The strikes that still count."""
    # A tuple made of a generator keeps room for more; these are stored for each subject.
    return tuple([at for at in record.strikes if now - at < settings.window_s])


def merge_shared(record: StrikeRecord, known: SharedRecord, now: float, settings: LadderSettings) -> StrikeRecord:
    """Return the record with what other workers know of the same subject. The side that knows more strikes is right."""
    strikes = recent_strikes(record, now, settings)
    theirs = tuple(sorted(now - max(0.0, age) for age in known.strikes if age < settings.window_s))
    if len(theirs) >= len(strikes):
        strikes = theirs[-settings.kept_strikes :]
    return StrikeRecord(
        strikes,
        max(record.locked_until, _end(known.locked_s, Standing.EXECUTE_LOCKED, now, settings)),
        max(record.quarantined_until, _end(known.quarantined_s, Standing.FULL_QUARANTINE, now, settings)),
    )


def remaining_s(record: StrikeRecord, now: float) -> tuple[float, float]:
    """How long the subject is still locked, and quarantined."""
    return max(0.0, record.locked_until - now), max(0.0, record.quarantined_until - now)


def standing_from_record(
    record: StrikeRecord, kind: str, now: float, settings: LadderSettings
) -> tuple[Standing, float]:
    """How the subject stands, and for how many seconds: until the ban ends, or for each request of a slowed network."""
    if kind == PRINCIPAL:
        hardest_first = reversed(list(zip(BAN_MODES, remaining_s(record, now), strict=True)))
        return next((ban for ban in hardest_first if ban[1] > 0), (Standing.NORMAL, 0.0))
    past = len(recent_strikes(record, now, settings)) - settings.network_threshold
    return (Standing.SLOWED, DELAYS_S[min(past, len(DELAYS_S) - 1)]) if past >= 0 else (Standing.NORMAL, 0.0)


def retry_after_s(left: float, chance: float) -> int:
    """Whole seconds for a Retry-After header: never none, never too few; `chance` in [0, 1) spreads who comes back."""
    # Sums of a clock and a cooldown are a little off at the end; that is no second more.
    seconds = max(1, ceil(round(left, 6)))
    return seconds + int(seconds * JITTER * chance)


def _end(left: float, mode: Standing, now: float, settings: LadderSettings) -> float:
    # Not `min(left, cooldown)` alone: a NaN would become the cooldown, or an end that is never reached.
    return now + min(left, settings.cooldown_s(mode)) if left > 0 else NEVER


# --- incident ids
#
# The id that an unsafe request is answered with (the ULID form): 26 characters that sort by time, 48 bits of
# milliseconds and 80 random ones. A client that has seen one cannot guess another.

RANDOM = 10
# Crockford's: no I, L, O or U, which are misread. 26 characters hold 130 bits; the first holds three of them.
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_ID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}", re.ASCII)


def incident_id(now_ms: int, randomness: bytes) -> str:
    """The id made at this time with these 10 random bytes. A clock beyond the form's range is cut to its ends."""
    if len(randomness) != RANDOM:
        raise ValueError(f"an incident id needs {RANDOM} random bytes")
    number = min(max(now_ms, 0), (1 << 48) - 1) << 80 | int.from_bytes(randomness, "big")
    return "".join(_ALPHABET[number >> shift & 31] for shift in range(125, -1, -5))


def is_incident_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def incident_time_ms(id: str) -> int:
    """The time in an id, in milliseconds since 1970."""
    return reduce(lambda number, letter: number << 5 | _ALPHABET.index(letter), id[:10], 0)
