"""The simulated fleet: no check is lost or doubled, the breaker spares a judge that is out, full stores refuse."""

from __future__ import annotations

import pytest

# The bench is a folder of scripts, not a package.
import scale


def ran(*, instances: int = 6, stores: int = 1, rate: float = 20.0, seed: int = 1, seconds: int = 1_800) -> scale.Fleet:
    fleet = scale.Fleet(
        instances=instances, stores=stores, rate=rate, escalated=0.05, seed=seed, measured=scale.Measured()
    )
    fleet.run(seconds)
    return fleet


@pytest.fixture(scope="module")
def fleet() -> scale.Fleet:
    return ran()


def test_every_check_is_answered_refused_lost_with_its_zone_or_still_waits(fleet: scale.Fleet) -> None:
    tallies = fleet.tallies.values()
    offered = sum(tally.offered for tally in tallies)
    ended = sum(tally.answered + tally.refused + tally.lost for tally in tallies)
    assert offered == ended + fleet.still_waiting()
    assert offered > 100_000


def test_every_escalated_call_is_asked_about_or_held(fleet: scale.Fleet) -> None:
    for tally in fleet.tallies.values():
        not_asked = tally.unclear["circuit open"] + tally.unclear["too many under way"]
        assert tally.escalated == tally.asked + not_asked


def test_a_judge_that_is_out_is_asked_by_probes_alone_and_every_circuit_closes_again(fleet: scale.Fleet) -> None:
    out = fleet.tallies["judge is out"]
    assert out.unclear.total() == out.escalated
    assert out.open_circuits == 6
    # Five failures and those under way open a circuit; after that, at most one probe a minute for each.
    assert out.probes <= 6 * 10
    assert out.asked < out.escalated / 10
    assert fleet.closed_after_s is not None
    assert fleet.tallies["calm again"].unclear.total() < fleet.tallies["calm again"].escalated / 4


def test_a_lost_zone_moves_its_agents_to_the_others(fleet: scale.Fleet) -> None:
    lost, calm = fleet.tallies["one zone is lost"], fleet.tallies["calm"]
    assert lost.answered == pytest.approx(calm.answered, rel=0.05)
    assert lost.most_queued > calm.most_queued


def test_stores_that_are_too_few_refuse_and_never_answer_more_than_they_wrote() -> None:
    fleet = ran(instances=60, rate=80.0, seconds=60)
    calm = fleet.tallies["calm"]
    assert calm.answered <= 60 * scale.Measured().store_per_s
    assert calm.refused > 0


def test_the_same_seed_gives_the_same_figures() -> None:
    short = ran(seconds=400)
    assert scale.phases_table(ran(seconds=400)).rows == scale.phases_table(short).rows
    assert scale.phases_table(ran(seed=2, seconds=400)).rows != scale.phases_table(short).rows


def test_the_tiers_cost_less_than_a_supervisor_for_every_call() -> None:
    *tiers, total, everything = (row.numbers["usd"] for row in scale.costs_table(0.04, scale.Measured()).rows)
    assert total == pytest.approx(sum(tiers))
    assert total < everything / 20
