"""The circuit breaker as values: who may call a provider that has been failing, and when.

1. Closed: every caller may call. `failures` in a row open it, and any success starts the count again.
2. Open: no caller may, until `open_s` have passed, or as long as a rate limit asked for.
3. Half open: one caller may, and holds the probe. Its success closes the circuit, its failure opens it again, and
   when it is cancelled the next caller gets the probe.

A probe is a lease: if its holder's thread dies, the probe is free again when the lease ends. A ticket names its
generation: the result of a call that began before the last change of state changes nothing.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

# A client with a failing circuit per tenant must not grow with the names that callers invent.
MAX_CIRCUITS = 10_000


class CallResult(Enum):
    """What a call showed about the provider: it works, it does not, or (cancelled, never sent) nothing at all."""

    SUCCESS = "success"
    FAILURE = "failure"
    NEUTRAL = "neutral"


class CircuitLimits(NamedTuple):
    """When a circuit opens, for how long, and how long a probe may be out: longer than any call can take."""

    failures: int = 5
    open_s: float = 60.0
    lease_s: float = 5.0


class Ticket(NamedTuple):
    """The right to make one call, to be handed back with its result."""

    generation: int
    probe: bool = False


@dataclass(frozen=True, slots=True)
class Circuit:
    """Closed when `open_until` is None; half open when that moment has passed; times are the caller's clock."""

    failures: int = 0
    generation: int = 0
    open_until: float | None = None
    probe_until: float | None = None


def is_refusing(circuit: Circuit, now: float) -> bool:
    """Whether a call would be turned away now."""
    return any(end is not None and now < end for end in (circuit.open_until, circuit.probe_until))


def admit(circuit: Circuit, now: float, limits: CircuitLimits) -> tuple[Circuit, Ticket | None]:
    """Ask to make a call: the circuit as it is from now on, and a ticket, or None to be turned away."""
    if circuit.open_until is None:
        return circuit, Ticket(circuit.generation)
    if is_refusing(circuit, now):
        return circuit, None
    # A new generation for every probe: a probe that lost its lease cannot speak for the next one.
    generation = circuit.generation + 1
    return replace(circuit, generation=generation, probe_until=now + limits.lease_s), Ticket(generation, probe=True)


def settle(
    circuit: Circuit, ticket: Ticket, result: CallResult, now: float, limits: CircuitLimits, *, hold_s: float = 0.0
) -> Circuit:
    """Hand a ticket back. With `hold_s` the provider itself has named a time to stay away, and the circuit opens."""
    if ticket.generation != circuit.generation:
        return circuit
    failures, next_generation = circuit.failures + 1, circuit.generation + 1
    if hold_s > 0 or (result is CallResult.FAILURE and (ticket.probe or failures >= limits.failures)):
        return Circuit(generation=next_generation, open_until=now + (hold_s if hold_s > 0 else limits.open_s))
    if ticket.probe:
        # A cancelled probe showed nothing: the circuit stays open, and the next caller gets the probe.
        return Circuit(
            generation=next_generation, open_until=None if result is CallResult.SUCCESS else circuit.open_until
        )
    if result is CallResult.NEUTRAL:
        return circuit
    return Circuit(failures=failures if result is CallResult.FAILURE else 0, generation=circuit.generation)


_FRESH = Circuit()


class Circuits:
    """The circuits of one client, by key: at most `most`, the least recently used forgotten first. The owner locks.

    A circuit that is as good as new takes no room. Forgetting an open one costs a few calls until it opens again.
    """

    def __init__(self, limits: CircuitLimits, most: int = MAX_CIRCUITS) -> None:
        self.limits = limits
        self._most = most
        self._kept: dict[Hashable, Circuit] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Hashable) -> Circuit:
        return self._kept.get(key, _FRESH)

    def is_refusing(self, key: Hashable, now: float) -> bool:
        refuses = is_refusing(circuit := self.get(key), now)
        if refuses:
            self._keep(key, circuit)  # turning callers away is use: others' failures must not push it out
        return refuses

    def admit(self, key: Hashable, now: float) -> Ticket | None:
        circuit, ticket = admit(self.get(key), now, self.limits)
        self._keep(key, circuit)
        return ticket

    def settle(self, key: Hashable, ticket: Ticket, result: CallResult, now: float, *, hold_s: float = 0.0) -> None:
        # A circuit forgotten meanwhile is a fresh one, of generation 0: only a ticket of a closed circuit that never
        # opened can still count against it, and that is what it would have counted against.
        self._keep(key, settle(self.get(key), ticket, result, now, self.limits, hold_s=hold_s))

    def _keep(self, key: Hashable, circuit: Circuit) -> None:
        self._kept.pop(key, None)
        if circuit != _FRESH:
            self._kept[key] = circuit  # at the end: a dict remembers in which order it was filled
            if len(self._kept) > self._most:
                del self._kept[next(iter(self._kept))]
