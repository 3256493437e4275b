"""Step 9: puts the rulings of one session on record, and holds a ruling that cannot be recorded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from logging import getLogger
from typing import TYPE_CHECKING

from lockgate.core.errors import JournalUnavailable, JournalUncosigned, printable
from lockgate.core.ruling.arguments import Leaf
from lockgate.core.ruling.pipeline import decide_unrecorded
from lockgate.core.ruling.policy import Policy
from lockgate.core.vocabulary import Action, Block, Decision, Reason
from lockgate.runtime.failures import report_failure
from lockgate.runtime.routines import Routine, run_routine

if TYPE_CHECKING:
    from lockgate.journal.recorder import JournalWriter, RulingSubject

# Tier 1's own CONTINUEs that are about a call, not about a step.
_CALL_PASSES = (Reason.NO_RED_FLAGS, Reason.NO_UNTRUSTED_CONTENT, Reason.LOW_RISK_TOOL)


class RulingRecords:
    """The records of one session's rulings in the journal."""

    def __init__(self, journal: JournalWriter, session: str, policy: Policy) -> None:
        from lockgate.journal.recorder import SessionRecorder

        self._recorder = SessionRecorder(journal, session)
        self._session = session
        self._policy = policy

    def describe_call(
        self, arguments: object, leaves: Iterable[Leaf], block_count: int, context_sha256: str
    ) -> RulingSubject:
        """Return what a record says of a call. Taken before the ruling, so that nothing of it can change."""
        return self._recorder.describe_call(arguments, leaves, block_count, context_sha256)

    def record(
        self, tool: str, subject: RulingSubject, blocks: Sequence[Block], decision: Decision, approved_by: str = ""
    ) -> Decision:
        """Record a ruling; return it with its receipt, or what holds in its place where it is not on record."""
        return run_routine(self.recording(tool, subject, blocks, decision, approved_by))

    def recording(
        self, tool: str, subject: RulingSubject, blocks: Sequence[Block], decision: Decision, approved_by: str = ""
    ) -> Routine[Decision]:
        """Do the same as a routine, which waits once the record has its place in the journal."""
        # A pass outlives this process. A ruling that a person may have to answer for outlives a power cut too.
        durable = not _is_tier1_pass(decision)
        try:
            receipt = yield from self._recorder.recording_ruling(
                subject,
                blocks,
                tool,
                decision,
                mode=self._policy.mode._value_,
                policy_hash=self._policy.hash,
                approved_by=approved_by,
                durable=durable,
            )
        except JournalUncosigned as error:
            return self._hold_uncosigned(tool, subject, blocks, decision, error)
        except Exception as error:  # noqa: BLE001  # an edge: the journal
            report_failure("journal", error)
            return self.hold_unrecorded(decision, error)
        return Decision._make((*decision[:-1], receipt))

    def _hold_uncosigned(
        self, tool: str, subject: RulingSubject, blocks: Sequence[Block], decision: Decision, error: JournalUncosigned
    ) -> Decision:
        """Record what holds in place of a ruling that is on record and that no witness has cosigned."""
        held = self.hold_unrecorded(decision, error)
        if held.action is not decision.action:
            with suppress(JournalUnavailable):
                run_routine(
                    self._recorder.recording_ruling(
                        subject,
                        blocks,
                        tool,
                        held,
                        mode=self._policy.mode._value_,
                        policy_hash=self._policy.hash,
                        witnessed=False,
                    )
                )
        return held

    def hold_unrecorded(self, decision: Decision, error: object) -> Decision:
        """Return what holds where a ruling is not on record: a high-risk call pauses."""
        why = "the journal failed"
        if isinstance(error, JournalUnavailable):
            why = "; ".join(printable(part, 300) for part in (error.message, error.hint) if part)
        held = decide_unrecorded(decision, self._policy, why)
        getLogger("lockgate.gate").error(
            "a ruling is not on record: session=%s risk=%s action=%s ruled=%s: %s",
            printable(self._session),
            held.risk.value,
            held.action.value,
            decision.action.value,
            why,
        )
        return held


def _is_tier1_pass(decision: Decision) -> bool:
    return decision.tier == 1 and decision.action is Action.CONTINUE and decision.reason in _CALL_PASSES
