"""The gates that `lockgate eval` can measure, each as one value that another process can build a gate from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple, Protocol

from lockgate import assemble
from lockgate.bulk.trace_rulings import add_block
from lockgate.core.ruling.policy import PRESETS, change_policy
from lockgate.core.ruling.tool_risk import tool_risk
from lockgate.core.text.rules import SEED_RULES
from lockgate.core.text.scanner import Scanner
from lockgate.core.vocabulary import Action, Decision, Origin, Reason, Risk
from lockgate.gate.gate import Gate
from lockgate.gate.session import Session
from lockgate.sessions.labelled_sessions import LabelledSession
from lockgate.sessions.trace_format import BlockEvent, CallEvent, SessionStart
from lockgate.settings.config import Settings

# The four high-risk tools of the baseline.
SEED_TOOLS = frozenset({"bash", "write", "web_fetch", "spawn_agent"})


class Ruled(NamedTuple):
    """One ruling: whether Tier 1 escalated the call, whether it ended other than in CONTINUE, and why."""

    escalated: bool
    stopped: bool
    why: str = ""
    rules: tuple[str, ...] = ()


class GateUnderTest(Protocol):
    """A gate that sees a session as an agent's host would show it: no label, no mark, nothing of what comes later."""

    def begin(self, start: SessionStart) -> None: ...

    def add(self, block: BlockEvent) -> None: ...

    def check(self, call: CallEvent) -> Ruled: ...


def replay_session(session: LabelledSession, gate: GateUnderTest) -> list[Ruled]:
    """Return the gate's ruling on each call of a session."""
    gate.begin(session.start)
    ruled: list[Ruled] = []
    for event in session.events:
        if isinstance(event, BlockEvent):
            gate.add(event)
        else:
            ruled.append(gate.check(event))
    return ruled


# --- Lockgate


class LockgateGate:
    """Lockgate itself; `high_risk` adds the tools of a dataset to the policy's own."""

    def __init__(self, gate: Gate, high_risk: Mapping[str, tuple[str, ...]] | None = None) -> None:
        self._gate = gate
        self._high_risk = high_risk or {}
        self._by_dataset: dict[str, Gate] = {}
        self._session: Session = gate.session()

    def begin(self, start: SessionStart) -> None:
        self._session = self._gate_for(start.dataset).session(goal=start.goal, mode=start.mode, scope=start.scope)

    def add(self, block: BlockEvent) -> None:
        add_block(self._session, block)

    def check(self, call: CallEvent) -> Ruled:
        decision = self._session.check(call.tool, call.arguments, annotations=call.annotations)
        rules = tuple(dict.fromkeys(found.rule for found in decision.findings))
        stopped = decision.action is not Action.CONTINUE
        return Ruled(decision.escalated, stopped, explain_ruling(decision), rules)

    def _gate_for(self, dataset: str) -> Gate:
        tools = self._high_risk.get(dataset, self._high_risk.get("", ()))
        if not tools:
            return self._gate
        if dataset not in self._by_dataset:
            policy = change_policy(self._gate.policy, additional_high_risk_tools=tools)
            made = Gate(policy, scanner=self._gate.scanner, triage=self._gate.triage, supervisor=self._gate.supervisor)
            self._by_dataset[dataset] = made
        return self._by_dataset[dataset]


def explain_ruling(decision: Decision) -> str:
    """Say why a call was escalated and perhaps cleared, or why Tier 1 let it pass and what it saw."""
    if decision.escalated:
        return ("cleared: " if decision.action is Action.CONTINUE else "") + decision.explanation
    match decision.reason:
        case Reason.NO_UNTRUSTED_CONTENT:
            return "passed: the session had read nothing untrusted"
        case Reason.LOW_RISK_TOOL:
            return "passed: the tool counts as low-risk"
    new = [origin for origin in decision.origins if not origin.known]
    if not new:
        return "passed: no rule hit, and no value of the call stands in untrusted text"
    return f"passed: no rule hit; {_describe_origin(new[0])}, and no order there names it"


def _describe_origin(origin: Origin) -> str:
    value = " ".join(origin.value.split())
    cut = value if len(value) <= 60 else f"{value[:59]}…"
    return f"`{origin.argument}` = `{cut}` comes from {origin.block} ({origin.source})"


# --- the baseline


@cache
def _seed_scanner() -> Scanner:
    # Compiling takes a second, however few the rules are.
    return Scanner(SEED_RULES)


class SeedGate:
    """A baseline to compare with: six patterns over the arguments and every untrusted block.

    With `listed_tools` only its four names of high-risk tools count, else every tool that Lockgate calls high-risk.
    """

    def __init__(self, *, listed_tools: bool) -> None:
        self._listed_tools = listed_tools
        self._scanner = _seed_scanner()
        self._known: dict[str, tuple[str, ...]] = {}
        self._blocks: list[str] = []

    def begin(self, start: SessionStart) -> None:
        del start  # the baseline never looks at the goal
        self._blocks = []

    def add(self, block: BlockEvent) -> None:
        if block.is_untrusted:
            self._blocks.append(block.content)

    def check(self, call: CallEvent) -> Ruled:
        is_risky = call.tool in SEED_TOOLS if self._listed_tools else tool_risk(call.tool) is Risk.HIGH
        if not self._blocks or not is_risky:
            return Ruled(False, False, "passed: " + ("low-risk tool" if self._blocks else "nothing untrusted was read"))
        texts = (" ".join(texts_in(call.arguments)), *self._blocks)
        rules = tuple(dict.fromkeys(rule for text in texts for rule in self._rules_in(text)))
        return Ruled(bool(rules), bool(rules), f"found {', '.join(rules)}" if rules else "passed: no pattern", rules)

    def _rules_in(self, text: str) -> tuple[str, ...]:
        if text not in self._known:
            first = self._scanner.scan(text).parts[0]
            self._known[text] = tuple(hit.rule.id for hit in first.hits)
        return self._known[text]


def texts_in(value: object) -> Iterator[str]:
    """Yield every value inside a call's arguments as text."""
    pending = [value]
    while pending:
        value = pending.pop()
        if isinstance(value, Mapping):
            pending.extend(value.values())
        elif isinstance(value, list | tuple):
            pending.extend(value)
        elif value is not None:
            yield str(value)


# --- which gates are measured


@dataclass(frozen=True, slots=True)
class GateChoice:
    """Which gate to measure; `kind` is one of `GATES`.

    `judge` is empty, `configured` for the judges that the settings name, or a preset of the embedded judge.
    """

    name: str
    settings: Settings
    kind: str = "lockgate"
    judge: str = ""
    high_risk: Mapping[str, tuple[str, ...]] | None = None

    @property
    def judge_name(self) -> str:
        return f"embedded:{self.judge}" if self.judge in PRESETS else self.judge


GATES = ("lockgate", "seed", "seed-risk")


def build_gate(choice: GateChoice) -> GateUnderTest:
    """Return the gate; it keeps no record of what it rules."""
    if choice.kind != "lockgate":
        return SeedGate(listed_tools=choice.kind == "seed")
    settings = choice.settings
    if choice.judge == "configured":
        return LockgateGate(assemble.gate_from_settings(settings, keep_records=False), choice.high_risk)
    scanner = assemble.scanner_from_settings(settings)
    if not choice.judge:
        return LockgateGate(Gate(settings.policy, scanner=scanner), choice.high_risk)
    policy = replace(settings.policy, judge_preset=choice.judge)
    judge = assemble.embedded_from_settings(replace(settings, policy=policy), patient=True)
    return LockgateGate(Gate(policy, scanner=scanner, triage=judge), choice.high_risk)
