"""A fleet of a thousand services on paper: what waits, what is refused, what a judge's outage does, and what it costs.

    python bench/scale.py [--instances N] [--stores N] [--rate N] [--escalated SHARE] [--seed N] [--cpu-ms N]
                          [--store-per-s N]

One virtual half hour, second by second, with what was measured on one machine (`Measured`). Every instance has the
product's own circuit breaker, and every question to the judge is one event of it. What is drawn at random comes from
one seed, so the same numbers give the same tables.

How one second goes, for each instance that is up:

1. New checks arrive (Poisson), and those that were refused before come again.
2. What its cores can do is taken from its queue; what does not fit into the queue is refused at once (429), and three
   of four of those agents ask again after one to three seconds.
3. Every ruling is written to a PostgreSQL before it is answered: what the stores cannot write stays in the queue.
4. Some of the rulings need the judge. The breaker admits the question or not; the provider answers, is late, says 429,
   or hangs; without an answer the call is held for a person (`unclear`), never passed.

The phases: calm, a judge's outage of ten minutes, its return at a fraction of its strength, the loss of one zone and
its return, and a herd: for a minute nothing reaches the services, then every agent asks at once. Waits of less than a
second are not resolved: bench/service.py measures those.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from lockgate.runtime.circuit_breaker import CallResult, CircuitLimits, Circuits, Ticket
from lockgate.settings.prices import cost_usd
from tables import Row, Table, plain

ZONES = 3
# An agent asks every ten seconds.
AGENT_S = 10.0
JUDGE = "judge"
# Of four agents that are refused, three ask again; the fourth gives up.
ASKS_AGAIN = 0.75


class Measured(NamedTuple):
    """What one instance and its neighbours do, measured on one machine of two cores, 2026-11-17; see RESULTS.md."""

    cores: int = 2
    # In a fleet on one PostgreSQL; 2.0 ms with files of its own.
    check_cpu_s: float = 0.0065
    # A session whose context is in the database and not in memory.
    # Assumed: such a check also reads and scans its context again.
    cold_check_cpu_s: float = 0.010
    # Checks that may wait at one instance before it refuses.
    most_waiting: int = 2048
    # Checks that a PostgreSQL of two cores takes in a second: 2.9 ms of CPU for each, with two instances.
    store_per_s: int = 690
    # The client's own limits, its defaults.
    deadline_s: float = 1.5
    in_flight: int = 64
    # The judge: half of the answers within this, one in a hundred later than three times that.
    answer_s: float = 0.45
    answer_spread: float = 0.47


class Prices(NamedTuple):
    """What a million calls cost: assumed prompt sizes, list prices, and an assumed price of a core."""

    triage: tuple[str, int, int] = ("anthropic/claude-haiku-5-5", 1_500, 60)
    supervisor: tuple[str, int, int] = ("anthropic/claude-sonnet-5-5", 4_000, 250)
    core_hour_usd: float = 0.04


PRICES = Prices()


class Phase(NamedTuple):
    name: str
    begins: int
    ends: int


PHASES = (
    Phase("calm", 0, 300),
    Phase("judge is out", 300, 900),
    Phase("judge returns at 30 %", 900, 1_020),
    Phase("calm again", 1_020, 1_200),
    Phase("one zone is lost", 1_200, 1_500),
    Phase("the zone returns", 1_500, 1_560),
    Phase("nothing arrives", 1_560, 1_620),
    Phase("all ask at once", 1_620, 1_680),
    Phase("after the herd", 1_680, 1_800),
)


def phase_at(second: int) -> Phase:
    return next(phase for phase in PHASES if second < phase.ends)


@dataclass(slots=True)
class Tally:
    """What happened in one phase."""

    offered: int = 0
    answered: int = 0
    refused: int = 0
    lost: int = 0
    waits: Counter[int] = field(default_factory=Counter)
    most_queued: int = 0
    escalated: int = 0
    asked: int = 0
    unclear: Counter[str] = field(default_factory=Counter)
    probes: int = 0
    open_circuits: int = 0


@dataclass(slots=True)
class Judge:
    """The provider that all instances ask: its strength in questions per second, and when it hangs."""

    strength: float
    asked_this_second: int = 0

    def share_now(self, second: int) -> float:
        return 0.3 if phase_at(second).name == "judge returns at 30 %" else 1.0

    def answer(self, second: int, chance: random.Random, measured: Measured) -> tuple[float, CallResult, float]:
        """Seconds until the answer, what it shows, and how long the provider asks us to stay away."""
        if phase_at(second).name == "judge is out":
            return measured.deadline_s, CallResult.FAILURE, 0.0
        self.asked_this_second += 1
        if self.asked_this_second > self.strength * self.share_now(second):
            return 0.05, CallResult.FAILURE, 5.0
        takes = chance.lognormvariate(math.log(measured.answer_s), measured.answer_spread)
        if takes > measured.deadline_s:
            return measured.deadline_s, CallResult.FAILURE, 0.0
        return takes, CallResult.SUCCESS, 0.0


class Instance:
    """One service: its queue, its breaker, and the questions it has under way."""

    def __init__(self, zone: int, measured: Measured) -> None:
        self.zone = zone
        self.queue = 0
        self.cold = 0
        self.circuits = Circuits(CircuitLimits(lease_s=measured.deadline_s + 5))
        self._under_way: list[tuple[float, int, Ticket, CallResult, float]] = []
        self._number = 0

    def settle_until(self, now: float) -> None:
        while self._under_way and self._under_way[0][0] <= now:
            at, _, ticket, result, hold_s = heapq.heappop(self._under_way)
            self.circuits.settle(JUDGE, ticket, result, at, hold_s=hold_s)

    def ask(self, now: float, judge: Judge, chance: random.Random, measured: Measured, tally: Tally) -> None:
        """One escalated call: asked, or held for a person without having been asked."""
        self.settle_until(now)
        tally.escalated += 1
        if len(self._under_way) >= measured.in_flight:
            tally.unclear["too many under way"] += 1
            return
        ticket = self.circuits.admit(JUDGE, now)
        if ticket is None:
            tally.unclear["circuit open"] += 1
            return
        tally.asked += 1
        tally.probes += ticket.probe
        takes, result, hold_s = judge.answer(int(now), chance, measured)
        if result is CallResult.FAILURE:
            tally.unclear["429" if hold_s else "late"] += 1
        self._number += 1
        heapq.heappush(self._under_way, (now + takes, self._number, ticket, result, hold_s))

    def work(self, measured: Measured) -> int:
        """Take what the cores can do in one second from the queue."""
        budget = measured.cores * 1.0
        cold = min(self.cold, self.queue, int(budget / measured.cold_check_cpu_s))
        budget -= cold * measured.cold_check_cpu_s
        done = min(self.queue, cold + int(budget / measured.check_cpu_s))
        self.cold -= cold
        self.queue -= done
        return done


class Fleet:
    """All instances, stores and the judge over the virtual half hour."""

    def __init__(
        self, *, instances: int, stores: int, rate: float, escalated: float, seed: int, measured: Measured
    ) -> None:
        self.measured = measured
        self.stores = stores
        self.rate = rate
        self.escalated = escalated
        self._chance = random.Random(seed)
        self.instances = [Instance(number % ZONES, measured) for number in range(instances)]
        # The contract with the provider is for one and a half times what the fleet asks on a calm day.
        self._judge = Judge(max(5.0, 1.5 * rate * instances * escalated))
        self._again: Counter[int] = Counter()
        self.tallies = {phase.name: Tally() for phase in PHASES}
        self.closed_after_s: int | None = None

    def run(self, seconds: int = PHASES[-1].ends) -> None:
        for second in range(seconds):
            self._step(second)

    def still_waiting(self) -> int:
        return sum(instance.queue for instance in self.instances)

    def _step(self, second: int) -> None:
        phase = phase_at(second)
        tally = self.tallies[phase.name]
        self._judge.asked_this_second = 0
        up = [each for each in self.instances if phase.name != "one zone is lost" or each.zone]
        self._change_of_phase(phase, second, up, tally)
        arriving = self._arriving(phase, second)
        tally.offered += arriving
        for at, count in enumerate(_spread(arriving, len(up), self._chance)):
            self._offer(up[at], count, second, tally)
        left = self.stores * self.measured.store_per_s
        # Another one is first every second, so that full stores starve none of them.
        first = second % len(up)
        for instance in (*up[first:], *up[:first]):
            left -= self._serve(instance, second, left, tally)
        self._count_circuits(second, up, tally)

    def _change_of_phase(self, phase: Phase, second: int, up: list[Instance], tally: Tally) -> None:
        if second != phase.begins:
            return
        moved = round(self.rate * AGENT_S * len(self.instances) / ZONES)
        if phase.name == "one zone is lost":
            for instance in self.instances:
                if not instance.zone:
                    # What waited there gets no answer, which a host takes for a no; the agents ask elsewhere.
                    tally.lost += instance.queue
                    self._again[second + 1] += instance.queue
                    instance.queue = 0
        if phase.name in ("one zone is lost", "the zone returns"):
            for at, count in enumerate(_spread(moved, len(up), self._chance)):
                up[at].cold += count

    def _arriving(self, phase: Phase, second: int) -> int:
        if phase.name == "nothing arrives":
            return 0
        usual = _poisson(self.rate * len(self.instances), self._chance)
        herd = round(self.rate * AGENT_S * len(self.instances)) if second == 1_620 else 0
        return usual + herd + self._again.pop(second, 0)

    def _offer(self, instance: Instance, count: int, second: int, tally: Tally) -> None:
        room = self.measured.most_waiting - instance.queue
        taken = min(count, room)
        instance.queue += taken
        refused = count - taken
        tally.refused += refused
        for later, some in enumerate(_spread(round(refused * ASKS_AGAIN), 3, self._chance), start=1):
            self._again[second + later] += some

    def _serve(self, instance: Instance, second: int, left: int, tally: Tally) -> int:
        tally.most_queued = max(tally.most_queued, instance.queue)
        done = instance.work(self.measured)
        written = min(done, max(0, left))
        instance.queue += done - written
        tally.answered += written
        tally.waits[round(100 * instance.queue * self.measured.check_cpu_s / self.measured.cores)] += written
        asks = _poisson(written * self.escalated, self._chance)
        for moment in sorted(self._chance.random() for _ in range(asks)):
            instance.ask(second + moment, self._judge, self._chance, self.measured, tally)
        return written

    def _count_circuits(self, second: int, up: list[Instance], tally: Tally) -> None:
        refusing = sum(each.circuits.is_refusing(JUDGE, second + 1.0) for each in up)
        tally.open_circuits = max(tally.open_circuits, refusing)
        if second >= 900 and self.closed_after_s is None and not refusing:
            self.closed_after_s = second - 900


def _poisson(mean: float, chance: random.Random) -> int:
    """How many come in one second; for large means the normal distribution is as good."""
    if mean > 50:
        return max(0, round(chance.gauss(mean, math.sqrt(mean))))
    limit, product, count = math.exp(-mean), chance.random(), 0
    while product > limit:
        product *= chance.random()
        count += 1
    return count


def _spread(total: int, parts: int, chance: random.Random) -> Iterator[int]:
    """Hand `total` to `parts` as a load balancer would that does not look: each gets its share, and some noise."""
    left = total
    for remaining in range(parts, 0, -1):
        mean = left / remaining
        count = left if remaining == 1 else min(left, _poisson(mean, chance))
        left -= count
        yield count


def _quantile(waits: Counter[int], share: float) -> float:
    """The wait in seconds below which this share of the answers lies."""
    need, seen = share * waits.total(), 0
    for hundredths, count in sorted(waits.items()):
        seen += count
        if seen >= need:
            return hundredths / 100
    return 0.0


def phases_table(fleet: Fleet) -> Table:
    rows = []
    for name, tally in fleet.tallies.items():
        unclear = tally.unclear.total()
        cells = {
            "phase": name,
            "checks": f"{tally.offered:,}",
            "refused": _percent(tally.refused, tally.offered),
            "wait p50": f"{_quantile(tally.waits, 0.5):.2f} s",
            "wait p99": f"{_quantile(tally.waits, 0.99):.2f} s",
            "longest queue": f"{tally.most_queued:,}",
            "escalated": f"{tally.escalated:,}",
            "asked": f"{tally.asked:,}",
            "unclear": _percent(unclear, tally.escalated),
            "mostly": tally.unclear.most_common(1)[0][0] if unclear else "",
            "circuits open": f"{tally.open_circuits:,}",
            "probes": f"{tally.probes:,}",
        }
        rows.append(Row(cells))
    closed = "never" if fleet.closed_after_s is None else f"{fleet.closed_after_s} s after the judge returned"
    note = (
        "unclear: of the escalated calls, those that a person has to answer; circuits open: the most in any second; "
        f"the last circuit closed {closed}; {fleet.tallies['one zone is lost'].lost:,} checks were lost with the zone"
    )
    title = f"Scale 1. {len(fleet.instances):,} instances, {fleet.stores:,} PostgreSQL, {fleet.rate:g} checks/s each"
    return Table(title, tuple(rows[0].cells), rows, note)


def sizes_table(rate: float, escalated: float, measured: Measured) -> Table:
    """What is busy at which size with one store: the first part over 100 % is what breaks first."""
    rows = []
    for instances in (1, 3, 10, 30, 100, 300, 1_000):
        checks = rate * instances
        cells = {
            "instances": f"{instances:,}",
            "checks/s": f"{checks:,.0f}",
            "agents": f"{checks * AGENT_S:,.0f}",
            "cores": f"{100 * rate * measured.check_cpu_s / measured.cores:.0f} %",
            "one PostgreSQL": f"{100 * checks / measured.store_per_s:,.0f} %",
            "stores needed": f"{math.ceil(checks / (0.7 * measured.store_per_s)):,}",
            "judge, questions/s": f"{checks * escalated:,.0f}",
        }
        rows.append(Row(cells))
    return Table("Scale 2. How busy each part is", tuple(rows[0].cells), rows, "stores needed: at 70 % each")


def costs_table(escalated: float, measured: Measured, prices: Prices = PRICES) -> Table:
    rows = []
    cpu = 1_000_000 * measured.check_cpu_s / 3600 * prices.core_hour_usd
    rows.append(_cost_row("1, rules", 1.0, cpu))
    for tier, share, (model, tokens_in, tokens_out) in (
        ("2, triage", escalated, prices.triage),
        ("3, supervisor", escalated / 4, prices.supervisor),
    ):
        each = cost_usd(model, tokens_in, tokens_out)
        assert each is not None, f"no price for {model}"
        rows.append(_cost_row(f"{tier}, {model}", share, 1_000_000 * share * each))
    total = sum(row.numbers["usd"] for row in rows)
    everything = cost_usd(*prices.supervisor)
    assert everything is not None
    rows.append(_cost_row("all three", 1.0, total))
    rows.append(_cost_row("every call to the supervisor", 1.0, 1_000_000 * everything))
    note = (
        f"a core hour at {prices.core_hour_usd} USD; triage {prices.triage[1]:,} + {prices.triage[2]} tokens, "
        f"supervisor {prices.supervisor[1]:,} + {prices.supervisor[2]}; a quarter of what triage sees goes on to it"
    )
    return Table("Scale 3. What a million calls cost", ("tier", "calls", "USD"), rows, note)


def _cost_row(tier: str, share: float, usd: float) -> Row:
    return Row({"tier": tier, "calls": f"{100 * share:.3g} %", "USD": f"{usd:,.2f}"}, numbers={"usd": usd})


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2f} %" if whole else "-"


def main() -> None:
    measured = Measured()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instances", type=int, default=1_000)
    parser.add_argument("--stores", type=int, default=0, help="PostgreSQL servers (0: as many as 70 % busy ones take)")
    parser.add_argument("--rate", type=float, default=100.0, help="checks per second and instance (100)")
    parser.add_argument("--escalated", type=float, default=0.04, help="share of checks that need the judge (0.04)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cpu-ms", type=float, default=measured.check_cpu_s * 1000, help="CPU of one check")
    parser.add_argument("--store-per-s", type=int, default=measured.store_per_s, help="checks of one PostgreSQL")
    parser.add_argument("--json", action="store_true", help="the phases as JSON")
    options = parser.parse_args()
    measured = measured._replace(check_cpu_s=options.cpu_ms / 1000, store_per_s=options.store_per_s)
    stores = options.stores or math.ceil(options.rate * options.instances / (0.7 * measured.store_per_s))
    fleet = Fleet(
        instances=options.instances,
        stores=stores,
        rate=options.rate,
        escalated=options.escalated,
        seed=options.seed,
        measured=measured,
    )
    fleet.run()
    tables = (
        phases_table(fleet),
        sizes_table(options.rate, options.escalated, measured),
        costs_table(options.escalated, measured),
    )
    if options.json:
        print(json.dumps([dict(row.cells) for row in tables[0].rows], indent=1))
        return
    for table in tables:
        print("\n".join(plain(table)), end="\n\n")


if __name__ == "__main__":
    main()
