from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from lockgate.core.errors import JournalUnavailable, JournalUncosigned
from lockgate.core.ruling.policy import Policy
from lockgate.core.vocabulary import Action, Decision, Reason, Receipt, Risk
from lockgate.gate.ruling_records import RulingRecords
from lockgate.journal.merkle import leaf_hash
from lockgate.journal.record import parse_record

PASS = Decision(Action.CONTINUE, 1, Reason.NO_RED_FLAGS, Risk.HIGH)
LOW_PASS = Decision(Action.CONTINUE, 1, Reason.LOW_RISK_TOOL, Risk.LOW)
HELD = Decision(Action.PAUSE, 3, Reason.SUPERVISOR, Risk.HIGH, "the judge said no")


class Journal:
    """Keeps what it is given, or raises."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.kept: list[bytes] = []
        self.durable: list[bool] = []

    def enqueue(self, records: Sequence[bytes], *, durable: bool) -> Callable[[], tuple[Receipt, ...]]:
        self.kept += records
        self.durable.append(durable)

        def wait() -> tuple[Receipt, ...]:
            if self.error is not None:
                error, self.error = self.error, None
                raise error
            return tuple(Receipt("log", at, leaf_hash(each)) for at, each in enumerate(records))

        return wait


def record(journal: Journal, decision: Decision) -> Decision:
    records = RulingRecords(journal, "s1", Policy())
    subject = records.describe_call({"to": "ana@example.com"}, [], 0, "0" * 64)
    return records.record("send_email", subject, (), decision)


def actions(journal: Journal) -> list[object]:
    return [parse_record(each)["action"] for each in journal.kept]


@pytest.mark.parametrize("decision", [PASS, LOW_PASS, HELD])
def test_a_ruling_on_record_comes_back_with_its_receipt_and_is_else_the_same(decision: Decision) -> None:
    recorded = record(Journal(), decision)
    assert recorded.receipt is not None
    assert recorded._replace(receipt=None) == decision


@pytest.mark.parametrize(
    ("decision", "durable"),
    [
        (PASS, False),
        (LOW_PASS, False),
        (HELD, True),
        (PASS._replace(tier=2), True),
        (PASS._replace(reason=Reason.APPROVED), True),
    ],
)
def test_only_a_pass_of_the_rules_may_be_lost_to_a_power_cut(decision: Decision, durable: bool) -> None:  # noqa: FBT001
    journal = Journal()
    record(journal, decision)
    assert journal.durable == [durable]


@pytest.mark.parametrize(
    "error", [JournalUnavailable("full", hint="make room"), OSError(28, "canary"), KeyError("canary")]
)
def test_a_high_risk_pass_that_is_not_on_record_pauses(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    held = record(Journal(error), PASS)
    assert (held.action, held.reason, held.receipt) == (Action.PAUSE, Reason.JOURNAL_UNAVAILABLE, None)
    assert "a ruling is not on record: session=s1" in caplog.text
    # What another program's error says may be a secret; what ours says is for the reader.
    assert "canary" not in held.explanation
    if isinstance(error, JournalUnavailable):
        assert "full; make room" in held.explanation


def test_a_ruling_that_was_held_stays_held_by_its_own_reason() -> None:
    held = record(Journal(JournalUnavailable("full")), HELD)
    assert (held.action, held.reason) == (Action.PAUSE, Reason.SUPERVISOR)
    assert held.explanation.startswith("the judge said no; this is not on record")


def test_a_pass_that_no_witness_cosigned_is_recorded_again_as_the_pause_that_it_became() -> None:
    journal = Journal(JournalUncosigned("no witness"))
    assert record(journal, PASS).action is Action.PAUSE
    assert actions(journal) == ["CONTINUE", "PAUSE"]


def test_a_pause_that_no_witness_cosigned_is_recorded_once() -> None:
    journal = Journal(JournalUncosigned("no witness"))
    assert record(journal, HELD).action is Action.PAUSE
    assert actions(journal) == ["PAUSE"]
