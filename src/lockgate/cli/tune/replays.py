"""Recorded sessions to tune by, ruled on again and again: those of this installation, transcripts, and traces."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from lockgate.bulk.trace_rulings import add_block
from lockgate.claude_code.context_files import is_instruction_file
from lockgate.cli.eval.trace_files import load_sessions
from lockgate.cli.replay import ReplayReport, recorded_sessions, replay_transcript
from lockgate.cli.tune.proposals import CallKey, RecordedHold, TextKey, Trial, TrialResult, apply_lines
from lockgate.core.errors import InvalidCall, InvalidTrace
from lockgate.core.ruling.approvals import (
    NO_FACTS,
    ApprovalState,
    BoundCall,
    HeldFacts,
    PendingApproval,
    TakeResult,
    VoidReason,
    bind_call,
)
from lockgate.core.ruling.grants import Grant, find_covering
from lockgate.core.ruling.policy import change_policy
from lockgate.core.vocabulary import Action, Decision, Reason, ToolCall, Trust
from lockgate.gate.gate import Gate
from lockgate.gate.ruler import VouchedTexts
from lockgate.gate.trust_pins import digest_of
from lockgate.sessions.labelled_sessions import LabelledSession
from lockgate.sessions.session_entries import SessionInfo
from lockgate.sessions.session_replay import replay_session
from lockgate.sessions.store import SessionStore
from lockgate.sessions.trace_format import BlockEvent

_PAGE = 200


class RuledCall(NamedTuple):
    """One call with the ruling of a replay; it `counts` if a person was asked about it, or would have been."""

    key: CallKey
    tool: str
    arguments: Mapping[str, object]
    decision: Decision
    is_attack: bool = False
    counts: bool = True


# One session, which can be replayed through any gate; its name is the first half of its calls' keys.
Recording = tuple[str, Callable[[Gate], Iterator[RuledCall]]]


# --- where sessions come from


def stored_recordings(store: SessionStore, since_s: float, denied: Collection[str]) -> Iterator[Recording]:
    """Yield the sessions of an installation; `denied` are the approvals and calls to which a person said no."""
    before: int | None = None
    while page := store.sessions(limit=_PAGE, before=before, q=""):
        before = page[-1].number
        for info in page:
            if info.decisions and info.seen_at >= since_s:
                yield info.id, _stored_calls(store, info, denied)


def _stored_calls(
    store: SessionStore, info: SessionInfo, denied: Collection[str]
) -> Callable[[Gate], Iterator[RuledCall]]:
    def replay(gate: Gate) -> Iterator[RuledCall]:
        for kept, decision in replay_session(store, info, gate):
            was, key = kept.decision, (info.id, kept.number)
            asked = was.would_be is not Action.CONTINUE or was.reason is Reason.APPROVED
            said_no = was.reason is Reason.DENIED or (bool(was.approval) and was.approval in denied)
            said_no = said_no or _call_key(info.id, kept.tool, kept.arguments) in denied
            yield RuledCall(key, kept.tool, kept.arguments, decision, said_no, asked)

    return replay


def _call_key(session: str, tool: str, arguments: Mapping[str, object]) -> str:
    """Return what a no is about; empty for a call that no person can have been asked about."""
    try:
        return bind_call(session, tool, arguments, "any", "any").call_key
    except InvalidCall:
        return ""


def file_recordings(files: Sequence[str], skipped: list[str]) -> Iterator[Recording]:
    """Yield the sessions of transcripts and traces; a file that cannot be read is added to `skipped`."""
    for file in files:
        try:
            if is_trace_file(file):
                for number, session in enumerate(load_sessions(Path(file)), 1):
                    yield f"{file}#{number}", _trace_calls(f"{file}#{number}", session)
            else:
                # Whether it can be read at all is said here, and not in the middle of a replay.
                next(recorded_sessions(file), None)
                yield file, _transcript_calls(file)
        except (OSError, InvalidTrace) as error:
            skipped.append(f"{file}: {getattr(error, 'message', 'cannot be read')}")


def is_trace_file(file: str) -> bool:
    """Return whether a file is a trace, in either format and packed or not, by its name or its first bytes."""
    if file.endswith(".gz"):
        return True
    with open(file, "rb") as stream:
        start = stream.read(200).lstrip()
    return start.startswith((b'{"format"', b'{"trace"', b'{"session"', b'{"block"', b'{"call"'))


def _transcript_calls(file: str) -> Callable[[Gate], Iterator[RuledCall]]:
    def replay(gate: Gate) -> Iterator[RuledCall]:
        for number, ruled in enumerate(replay_transcript(file, (gate,), ReplayReport(("tune",))), 1):
            yield RuledCall((file, number), ruled.tool, ruled.arguments, ruled.decisions[0])

    return replay


def _trace_calls(name: str, session: LabelledSession) -> Callable[[Gate], Iterator[RuledCall]]:
    def replay(gate: Gate) -> Iterator[RuledCall]:
        start = session.start
        ruler = gate.ruler(goal=start.goal, mode=start.mode, scope=start.scope)
        for number, event in enumerate(session.events):
            if isinstance(event, BlockEvent):
                add_block(ruler, event)
            else:
                ruled = ruler.check(ToolCall(event.tool, event.arguments, event.annotations))
                is_attack, counts = event.label == "attack", event.label != "unknown"
                yield RuledCall((name, number), event.tool, event.arguments, ruled, is_attack, counts)

    return replay


# --- replaying


class TrialStores:
    """Stands in for a gate's stores in a replay: it holds what the trial says, and notes what a grant is made from."""

    def __init__(self, texts: Collection[TextKey], grants: Sequence[Grant], vouched: VouchedTexts | None) -> None:
        self._trial_texts = texts
        self._grants = grants
        self._vouched = vouched
        self.uses: Counter[str] = Counter()
        self.texts: dict[TextKey, str] = {}
        self.latest: tuple[BoundCall, HeldFacts] | None = None

    def ask(self, _pending: PendingApproval) -> str:
        return ""

    def take(self, _bound: BoundCall, _now_s: float) -> TakeResult:
        return TakeResult(ApprovalState.UNKNOWN)

    def void(self, _session: str, _now_s: float, _why: VoidReason) -> int:
        return 0

    def denies(self, _session: str) -> bool:
        return False

    def use_grant(self, bound: BoundCall, facts: HeldFacts, now_s: float) -> Grant | None:
        self.latest = bound, facts
        found = find_covering(self._grants, bound, facts, now_s)
        if found is not None:
            self.uses[found.id] += 1
        return found

    def trust_of(self, source: str, content: str) -> Trust | None:
        known = None if self._vouched is None else self._vouched.trust_of(source, content)
        kind, _, path = source.partition(":")
        if known is not None or kind != "file" or not is_instruction_file(path):
            return known
        text = (source, digest_of(content))
        self.texts[text] = content
        return Trust.VETTED if text in self._trial_texts else None


class TrialReplay:
    """Rules on the calls of recordings under a trial. After the first time, only sessions with a held call are read.

    Calls are ruled on as in observe mode: each ran, or did not, when it was recorded, and so it counts.
    """

    def __init__(
        self,
        recordings: Sequence[Recording],
        gate: Gate,
        *,
        grants: Sequence[Grant] = (),
        vouched: VouchedTexts | None = None,
    ) -> None:
        self._recordings = recordings
        self._gate = gate
        self._enforced = change_policy(gate.policy, enforce=True).hash
        self._policy = change_policy(gate.policy, enforce=False)
        self._grants = grants
        self._vouched = vouched
        self._held_in: set[str] | None = None
        self._calls = 0

    def __call__(self, trial: Trial) -> TrialResult:
        policy = apply_lines(self._policy, trial.lines)
        # Grants that are in force are bound to the policy that enforces, those of a trial to that of an earlier one.
        in_force = [each for each in self._grants if each.rule.policy_hash == self._enforced]
        grants = [
            each._replace(rule=each.rule._replace(policy_hash=policy.hash)) for each in (*trial.grants, *in_force)
        ]
        stores = TrialStores(trial.texts, grants, self._vouched)
        gate = Gate(
            policy,
            scanner=self._gate.scanner,
            triage=self._gate.triage,
            approvals=stores,
            vouched=stores,
            two_person=self._gate.two_person,
        )
        held: dict[CallKey, RecordedHold] = {}
        texts: dict[str, dict[TextKey, str]] = defaultdict(dict)
        for name, replay in self._recordings:
            if self._held_in is not None and name not in self._held_in:
                continue
            for call in replay(gate):
                self._calls += self._held_in is None
                texts[name] |= stores.texts
                if call.counts and call.decision.would_be is not Action.CONTINUE:
                    bound, facts = stores.latest or (None, NO_FACTS)
                    held[call.key] = RecordedHold(
                        call.key, call.tool, call.arguments, call.decision, call.is_attack, bound, facts
                    )
                stores.latest = None
            stores.texts = {}
        if self._held_in is None:
            self._held_in = {key[0] for key in held}
        return TrialResult(self._calls, held, texts, stores.uses)
