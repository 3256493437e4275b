from __future__ import annotations

import tracemalloc
from random import Random

import pytest

from lockgate.runtime.circuit_breaker import (
    MAX_CIRCUITS,
    CallResult,
    Circuit,
    CircuitLimits,
    Circuits,
    Ticket,
    admit,
    is_refusing,
    settle,
)

LIMITS = CircuitLimits(failures=5, open_s=60.0, lease_s=5.0)
SUCCESS, FAILURE, NEUTRAL = CallResult.SUCCESS, CallResult.FAILURE, CallResult.NEUTRAL


def fail(circuit: Circuit, times: int, now: float = 0.0) -> Circuit:
    for _ in range(times):
        circuit, ticket = admit(circuit, now, LIMITS)
        assert ticket is not None
        circuit = settle(circuit, ticket, FAILURE, now, LIMITS)
    return circuit


def opened(now: float = 0.0) -> Circuit:
    return fail(Circuit(), 5, now)


def probing(now: float = 60.0) -> tuple[Circuit, Ticket]:
    circuit, ticket = admit(opened(now - 60), now, LIMITS)
    assert ticket is not None
    return circuit, ticket


# --- closed


def test_five_failures_in_a_row_open_it() -> None:
    four = fail(Circuit(), 4)
    assert not is_refusing(four, 0)
    assert is_refusing(fail(four, 1), 0)


def test_a_success_starts_the_count_again() -> None:
    circuit, ticket = admit(fail(Circuit(), 4), 0, LIMITS)
    assert ticket is not None
    circuit = settle(circuit, ticket, SUCCESS, 0, LIMITS)
    assert not is_refusing(fail(circuit, 4), 0)


def test_cancelled_calls_neither_open_it_nor_start_the_count_again() -> None:
    circuit = fail(Circuit(), 4)
    for _ in range(100):
        circuit, ticket = admit(circuit, 0, LIMITS)
        assert ticket is not None
        circuit = settle(circuit, ticket, NEUTRAL, 0, LIMITS)
    assert not is_refusing(circuit, 0)
    assert is_refusing(fail(circuit, 1), 0)


def test_a_provider_that_names_a_time_is_left_alone_until_then() -> None:
    circuit, ticket = admit(Circuit(), 0, LIMITS)
    assert ticket is not None
    circuit = settle(circuit, ticket, FAILURE, 0, LIMITS, hold_s=7)
    assert is_refusing(circuit, 6.9)
    assert not is_refusing(circuit, 7)


# --- open


def test_an_open_circuit_turns_everybody_away_for_its_time() -> None:
    assert admit(opened(), 59.9, LIMITS) == (opened(), None)
    assert not is_refusing(opened(), 60)


@pytest.mark.parametrize("result", list(CallResult))
@pytest.mark.parametrize("hold_s", [0.0, 1_000.0])
def test_a_call_that_began_before_it_opened_is_old_news(result: CallResult, hold_s: float) -> None:
    closed, slow = admit(Circuit(), 0, LIMITS)
    assert slow is not None
    for circuit in (fail(closed, 5), probing()[0]):
        assert settle(circuit, slow, result, 1, LIMITS, hold_s=hold_s) == circuit


# --- half open


def test_of_many_who_ask_one_gets_the_probe() -> None:
    circuit = opened()
    tickets = []
    for _ in range(50):
        circuit, ticket = admit(circuit, 60, LIMITS)
        tickets.append(ticket)
    assert [ticket for ticket in tickets if ticket is not None] == [Ticket(2, probe=True)]


def test_a_probe_that_succeeds_closes_it() -> None:
    circuit, ticket = probing()
    circuit = settle(circuit, ticket, SUCCESS, 61, LIMITS)
    assert not is_refusing(circuit, 61)
    assert not is_refusing(fail(circuit, 4), 61)


def test_a_probe_that_fails_opens_it_for_another_while() -> None:
    circuit, ticket = probing()
    circuit = settle(circuit, ticket, FAILURE, 61, LIMITS)
    assert is_refusing(circuit, 120.9)
    assert not is_refusing(circuit, 121)


def test_a_cancelled_probe_leaves_the_probe_to_the_next() -> None:
    circuit, ticket = probing()
    circuit = settle(circuit, ticket, NEUTRAL, 61, LIMITS)
    circuit, second = admit(circuit, 61, LIMITS)
    assert second is not None
    assert second.probe


def test_a_lost_probe_is_free_again_when_its_lease_ends() -> None:
    circuit, lost = probing(60)
    assert is_refusing(circuit, 64.9)
    circuit, second = admit(circuit, 65, LIMITS)
    assert second is not None
    assert second.probe
    # The lost one turns up after all: it must not speak for the second.
    for result in CallResult:
        assert settle(circuit, lost, result, 66, LIMITS) == circuit


def test_a_ticket_counts_once() -> None:
    circuit, ticket = probing()
    again = settle(circuit, ticket, FAILURE, 61, LIMITS)
    assert settle(again, ticket, SUCCESS, 62, LIMITS) == again


# --- never stuck, never two probes, whatever happens


@pytest.mark.parametrize("part", range(4))
def test_any_history_keeps_one_probe_and_never_locks_a_caller_out_for_good(part: int) -> None:
    for number in range(500):
        _play_history(Random(f"{part} {number}"))


def _play_history(chance: Random) -> None:
    circuit, now = Circuit(), 0.0
    out: list[tuple[Ticket, float]] = []
    for _ in range(chance.randint(1, 60)):
        now += chance.choice([0.0, 0.25, 1.0, 4.75, 5.0, 30.0, 60.0])
        # Leases are longer than calls: a holder that is out for that long is gone.
        out = [(ticket, since) for ticket, since in out if now - since < LIMITS.lease_s]
        if out and chance.random() < 0.5:
            ticket, _ = out.pop(chance.randrange(len(out)))
            hold_s = chance.choice([0.0, 0.0, 10.0])
            circuit = settle(circuit, ticket, chance.choice(list(CallResult)), now, LIMITS, hold_s=hold_s)
        else:
            circuit, given_out = admit(circuit, now, LIMITS)
            if given_out is not None:
                out.append((given_out, now))
        assert sum(ticket.probe and ticket.generation == circuit.generation for ticket, _ in out) <= 1
        assert sum(ticket.probe for ticket, _ in out) <= 1
        assert circuit.failures < LIMITS.failures
    assert not is_refusing(circuit, now + LIMITS.open_s + LIMITS.lease_s)


# --- many of them


def test_circuits_are_apart() -> None:
    circuits = Circuits(LIMITS)
    for _ in range(5):
        ticket = circuits.admit("a", 0)
        assert ticket is not None
        circuits.settle("a", ticket, FAILURE, 0)
    assert circuits.is_refusing("a", 0)
    assert circuits.admit("a", 0) is None
    assert not circuits.is_refusing("b", 0)


def test_tenants_whose_calls_go_well_take_no_room() -> None:
    circuits = Circuits(LIMITS)
    for number in range(3 * MAX_CIRCUITS):
        ticket = circuits.admit(number, 0)
        assert ticket is not None
        circuits.settle(number, ticket, SUCCESS, 0)
    assert len(circuits) == 0


def test_invented_tenants_take_bounded_room() -> None:
    circuits = Circuits(LIMITS)
    try:
        for number in range(3 * MAX_CIRCUITS):
            if number == int(1.5 * MAX_CIRCUITS):  # tracing is slow, and nothing older than this is kept
                tracemalloc.start()
            ticket = circuits.admit(number, 0)
            assert ticket is not None
            circuits.settle(number, ticket, FAILURE, 0)
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(circuits) == MAX_CIRCUITS
    assert size < 8_000_000


def test_the_least_recently_used_circuit_is_forgotten_first() -> None:
    circuits = Circuits(LIMITS, most=2)
    for key in ("a", "b", "a", "c"):
        ticket = circuits.admit(key, 0)
        assert ticket is not None
        circuits.settle(key, ticket, FAILURE, 0)
    assert [circuits.get(key).failures for key in "abc"] == [2, 0, 1]


def test_a_circuit_that_turns_callers_away_is_in_use() -> None:
    circuits = Circuits(LIMITS._replace(failures=1), most=2)
    for key in ("a", "b"):
        ticket = circuits.admit(key, 0)
        assert ticket is not None
        circuits.settle(key, ticket, FAILURE, 0)
    assert circuits.is_refusing("a", 1)
    circuits.settle("c", Ticket(0), FAILURE, 1)
    assert circuits.is_refusing("a", 1)
    assert not circuits.is_refusing("b", 1)


def test_a_ticket_of_a_forgotten_circuit_does_no_harm() -> None:
    circuits = Circuits(LIMITS._replace(failures=1), most=1)
    first = circuits.admit("a", 0)
    assert first is not None
    circuits.settle("a", first, FAILURE, 0)
    probe = circuits.admit("a", 60)
    assert probe is not None
    circuits.settle("b", Ticket(0), FAILURE, 60)
    circuits.settle("a", probe, FAILURE, 61)
    assert circuits.get("a") == Circuit()
