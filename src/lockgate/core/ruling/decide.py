"""Severity and provenance together: which effects of a call are a question, and whose word clears it.

`decide.tbl` decides; this module finds the facts that its rows ask for. Orders, and text that speaks to an agent, are
found by the other steps and count for the severities 2 and 3.

Narrow: a call is asked about where something was found. Wide: after untrusted text, every call of severity 2 or 3 is
asked about, unless the user or the project names all that it is aimed at; and from severity 1 a command that a text
dictates word for word. Wide needs a judge that has shown in an exam that it can tell: no other clears anything there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from operator import itemgetter
from typing import NamedTuple

from lockgate.core.errors import quoted
from lockgate.core.ruling.arguments import Leaf
from lockgate.core.ruling.context import Context
from lockgate.core.ruling.effects.effect import KINDS, SPENDS, Effect, Severity
from lockgate.core.ruling.effects.tool_arguments import ROLES, has_role, is_place
from lockgate.core.ruling.explanations import DICTATED, EFFECT, FORBIDDEN, LOOKALIKE, describe_effect
from lockgate.core.ruling.goal import names_of, names_other_protection
from lockgate.core.ruling.opinions import Authority, JudgeStanding
from lockgate.core.ruling.policy import Policy
from lockgate.core.ruling.provenance import GROUPS, STRENGTH, Lookup, Trace, is_form_field
from lockgate.core.ruling.targets import PATTERNS as _P
from lockgate.core.ruling.targets import find_alike, hosts_by_look
from lockgate.core.ruling.tool_risk import tool_words
from lockgate.core.tables import read_table
from lockgate.core.vocabulary import Finding, Origin

_COLUMNS = ("severity", "kinds", "named by", "asked", "narrow", "wide")
_ROWS = read_table(__package__, "decide.tbl", "decide", _COLUMNS)
_CLEARS = {
    Authority(judge): (other, grave)
    for judge, other, grave in read_table(__package__, "decide.tbl", "clears", ("judge", "other calls", "grave calls"))
}
_SEVERITIES = {Severity.WORKS_HERE: "here", Severity.REACHES_OUT: "out", Severity.OPENS_A_DOOR: "door"}
_MAX_ALIKE, _MOST_AIMS, _MAX_SHOWN, _STEPS_PER_MAILBOX = 44, 8, 120, 6


class Width(StrEnum):
    """Which calls are asked about."""

    NARROW = "narrow"
    WIDE = "wide"


def effective_width(escalate: str, judge: JudgeStanding | None) -> Width:
    """Return the width in force: `auto` is wide only with a judge that has passed, also if it was replaced since."""
    if escalate == "auto":
        escalate = "wide" if judge and (judge.has_passed or judge.authority is Authority.REPLACED) else "narrow"
    return Width(escalate)


def may_clear(authority: Authority, width: str, *, grave: bool, supervises: bool, agreed: bool) -> bool:
    """Return whether a judge's word clears a call without hard findings.

    `grave`: it has severity 3 or does what the goal forbids. `agreed`: Tier 2 found nothing suspicious either.
    """
    clears = _CLEARS.get(authority, ("no", "no"))[grave]
    is_free = {"yes": True, "narrow": width != Width.WIDE, "supervisor": supervises, "both": supervises and agreed}
    return is_free.get(clears, False)


class Checked(NamedTuple):
    """What is held against a call for its effects and values, and where those stand in untrusted text.

    `signals` are orders that name a value or the tool. `is_payee_told` says that a sentence of untrusted text gives
    the account for a payment, `capped` that the work ended before all was compared, and `asks` that an effect is asked
    about without a finding.
    """

    findings: tuple[Finding, ...] = ()
    signals: tuple[Finding, ...] = ()
    origins: tuple[Origin, ...] = ()
    is_payee_told: bool = False
    capped: bool = False
    asks: bool = False

    @property
    def has_origin(self) -> bool:
        """Whether something was found by where a value comes from."""
        return bool(self.signals) or any(finding.rule == LOOKALIKE for finding in self.findings)


class EffectCheck:
    """Looks who names what the effects of one call are aimed at; texts before the position `first` do not count."""

    def __init__(
        self,
        context: Context,
        tool: str,
        first: int = 0,
        delegated: frozenset[str] = frozenset(),
        leaves: Sequence[Leaf] = (),
        is_own: Callable[[str], bool] | None = None,
        *,
        only_requests: bool = False,
        only_effects: bool = False,
    ) -> None:
        self._context, self._tool, self._leaves, self._only_effects = context, tool, leaves, only_effects
        self._goal, self._project = context.goal, context.project
        self._is_own = is_own or Policy().is_own
        self._lookup = Lookup(context, tool, first, delegated, leaves, only_requests=only_requests)
        self._is_payee_told = False
        # Where untrusted text names the target of a finding.
        self._targets: list[Origin] = []

    def find(self, effects: Sequence[Effect], width: Width = Width.NARROW) -> Checked:
        """Return the findings of a call's effects, the gravest first, and of its other values."""
        findings: list[Finding] = []
        least = Severity.REACHES_OUT if width is Width.NARROW else Severity.WORKS_HERE
        effects = [effect for effect in effects if effect.severity >= least]
        reaching = [effect for effect in effects if effect.severity >= Severity.REACHES_OUT]
        # Text written into a file counts where the call does no more: in wide, for a judge.
        dictated = self._lookup.find_dictated(self._leaves, written=not reaching) if effects else None
        asks = has_unasked = False
        for effect in effects:
            named_by, origins = self._who_names(effect)
            slot = list(self._find_slot(effect, named_by))
            findings += slot
            verdict = self._decide(effect, named_by, width, is_dictated=dictated is not None, has_slot=bool(slot))
            asks = asks or verdict == "ask"
            if verdict == "finding":
                rule, shown = EFFECT + effect.kind, effect.target[:_MAX_SHOWN]
                if effect.kind in self._goal.forbidden_kinds:
                    does = describe_effect(effect.kind, effect.target)
                    rule, shown = FORBIDDEN, f"This call {does}, which the goal forbids"
                findings.append(Finding(rule, effect.argument, effect.start, effect.end, "raw", shown))
                self._targets += origins
            has_unasked = has_unasked or named_by != "letter"
        if dictated is not None and has_unasked and reaching:
            self._targets.append(dictated)
            at = dictated.argument, dictated.start, dictated.end, dictated.how, dictated.value
            self._lookup.signals[DICTATED, dictated.argument] = Finding(DICTATED, *at)
        findings += self._find_lookalikes(reaching)
        return Checked(
            tuple(findings),
            (*self._find_signals(reaching), *self._lookup.signals.values()),
            tuple(dict.fromkeys((*self._targets, *self._lookup.origins))),
            self._is_payee_told,
            self._lookup.budget.is_spent,
            asks,
        )

    def _find_signals(self, effects: Sequence[Effect]) -> list[Finding]:
        """Trace the call's other values, and return the orders that name its tool."""
        if self._only_effects or not effects:
            return []
        # Where a row says that its target makes a call what it is, its other values count where they are addresses.
        is_aimed = any(KINDS[effect.kind].by_target and effect.target for effect in effects)
        for leaf in self._leaves:
            if not self._lookup.has_traced(leaf.text) and not self._lookup.budget.is_spent:
                self._lookup.trace(leaf, addresses_only=is_aimed)
        return self._lookup.find_tool_orders(self._leaves)

    def _find_slot(self, effect: Effect, named_by: str) -> Iterator[Finding]:
        """Yield what the call has in a slot for which the user's words have another value."""
        pays, target = effect.kind == "pays", Leaf(effect.argument, effect.target)
        is_payee = pays and target.text.isalpha() and self._context.index.has_words(target.text)
        is_given = effect.kind in GROUPS["given by owners"] and named_by in ("order", "text", "record")
        slots = {"account": pays, "payee": is_payee, "mailbox": is_given, "phone": is_given}
        values = [(slot, target) for slot, counts in slots.items() if counts]
        values += [("amount", leaf) for leaf in self._leaves if pays and has_role(leaf.argument, "amount")]
        for slot, leaf in values:
            if value := self._goal.differs(slot, leaf.text):
                says = f"{quoted(leaf.text, 40)} is not {quoted(value, 40)}"
                yield Finding(f"slot:{slot}", leaf.argument, 0, len(leaf.text), "raw", says)

    def _decide(self, effect: Effect, named_by: str, width: Width, *, is_dictated: bool, has_slot: bool) -> str:
        """Return what the first row says that fits."""
        kinds = {
            "*": True,
            "forbidden": effect.kind in self._goal.forbidden_kinds,
            "dictated": is_dictated,
            "slot": has_slot,
            "spends": effect.kind in SPENDS,
            "other-protection": effect.kind == "disables-check"
            and names_other_protection(self._goal.wishes, f"{self._text_of_act(effect)} {effect.target}"),
            "by-target": KINDS[effect.kind].by_target,
            "form-field": is_form_field(effect),
        }
        asked = "yes" if self._goal.asks_for_kind(effect.kind) else "no"
        for severity, kind, names, row_asked, narrow, wide in _ROWS:
            is_of_kind = kinds[kind] if kind in kinds else effect.kind in GROUPS[kind]
            is_of_kind = is_of_kind and severity in ("*", _SEVERITIES[effect.severity])
            if is_of_kind and (names == "*" or named_by in names.split(",")) and row_asked in ("*", asked):
                return wide if width is Width.WIDE else narrow
        # The table is wrong; what it does not list is a finding.
        return "finding"

    def _who_names(self, effect: Effect) -> tuple[str, list[Origin]]:
        """Return who names an effect's target, and where untrusted text does."""
        if effect.severity < Severity.REACHES_OUT:
            return "nowhere", []
        is_door = effect.severity is Severity.OPENS_A_DOOR
        aims = self._find_aims(effect)
        if named_by := self._named_by_trusted(effect, aims, is_door=is_door):
            return named_by, []
        aims = [aim for aim in aims if not self._goal.names(aim, trusted_only=True)]
        names = [effect.target] if not is_door else [name for aim in aims for name in names_of(aim)]
        traces = [self._lookup.trace(Leaf(effect.argument, name), effect) for name in names if name]
        best = min(traces, key=lambda trace: STRENGTH.index(trace.named_by), default=Trace("nowhere"))
        self._is_payee_told = self._is_payee_told or (effect.kind == "pays" and best.is_told)
        if best.origin is None:
            return best.named_by, []
        led = None if is_door else self._lookup.find_search(effect, best.origin.block)
        return ("order", [led, best.origin]) if led is not None else (best.named_by, [best.origin])

    def _named_by_trusted(self, effect: Effect, aims: Sequence[str], *, is_door: bool) -> str:
        """Return how the user, a trusted text or the project names an effect's target; empty where none does."""
        if not is_door and self._is_named_by_letter(effect):
            return "letter"
        if not is_door and self._is_known_to_project(effect):
            return "project"
        # A text that is only vetted never asks for what opens a door.
        if effect.target and all(self._goal.names(aim, trusted_only=is_door) for aim in aims):
            return "letter" if self._is_named_by_letter(effect) else "user"
        is_owned = not is_door and effect.kind in GROUPS["owner"] and self._goal.names_owner_of(effect.target)
        return "user" if is_owned else ""

    def _is_named_by_letter(self, effect: Effect) -> bool:
        """Return whether the user names an effect's target letter by letter; a plain word has other meanings."""
        target = effect.target
        if not (_P["identity"].search(target) or (target and effect.kind in GROUPS["package"])):
            return False
        name = target.lower().encode("utf-8", "ignore")
        return self._goal.contains_address(name, self._lookup.budget, trusted_only=True)

    def _is_known_to_project(self, effect: Effect) -> bool:
        """Return whether the project's own files name a host or remote, or a target is the operator's own."""
        is_remote = effect.kind == "pushes" and effect.target in self._project.remotes
        return is_remote or self._project.has_host(effect.target) or self._is_own(effect.target)

    def _find_aims(self, effect: Effect) -> list[str]:
        """Return what an effect is aimed at: its target, whom a command lets in there, or the file to open."""
        aims: list[str] = []
        if effect.kind in GROUPS["person"] and "@" not in effect.target:
            aims = _P["slot mailbox"].findall(self._text_of_act(effect))
        elif effect.target.lower() in ROLES["open to all"]:
            aims = [leaf.text for leaf in self._leaves if is_place(leaf)]
        return [effect.target, *aims[:_MOST_AIMS]]

    def _text_of_act(self, effect: Effect) -> str:
        """Return what says what a call does: its command, or the words of its tool."""
        text = next((leaf.text for leaf in self._leaves if leaf.argument == effect.argument), "")
        return text[effect.start : effect.end] or " ".join(tool_words(self._tool))

    def _find_alike_in_texts(self, target: str) -> tuple[str, str]:
        """Return a mailbox's host in a text that differs from the target's by letters that look the same, and whose."""
        budget, own = self._lookup.budget, hosts_by_look(target.lower().encode("utf-8", "ignore"))
        for reading in self._context.index.readings if own else ():
            mailboxes = reading.text.prepared.count(b"@")
            if mailboxes and budget.take_once(reading.text, _STEPS_PER_MAILBOX * mailboxes):
                for look, names in own.items():
                    other = next((host for host in reading.text.mail_hosts.get(look, ()) if host not in names), "")
                    if other:
                        return other, reading.source
        return "", ""

    def _find_lookalikes(self, effects: Sequence[Effect]) -> Iterator[Finding]:
        """Yield the targets that look like another address of the session, or of the project."""
        # A plain request takes nothing along, unless the call also gives something.
        gives = any(effect.kind in GROUPS["gives"] for effect in effects)
        aimed = GROUPS["aimed"] | ({"requests"} if gives else set())
        goal, hosts = self._goal.written.decode("utf-8", "replace"), "\n".join(self._project.hosts)
        for effect in effects:
            target = effect.target
            if effect.kind in aimed and not self._goal.names(target) and not self._is_known_to_project(effect):
                texts = (("the goal", goal), ("the project", hosts))
                alike = ((find_alike(target[:_MAX_SHOWN], text), who) for who, text in texts)
                other, who = next(filter(itemgetter(0), alike), None) or self._find_alike_in_texts(target[:_MAX_SHOWN])
                # Of an owner whom the user names, only another mailbox of the same host.
                is_own = self._goal.names_owner_of(target) and other.rpartition("@")[2] != target.rpartition("@")[2]
                if other and not is_own:
                    shown = quoted(target, _MAX_ALIKE), quoted(other, _MAX_ALIKE)
                    says = f"{shown[0]} is not {shown[1]}, which {who} names, but looks like it"
                    yield Finding(LOOKALIKE, effect.argument, effect.start, effect.end, "raw", says)
