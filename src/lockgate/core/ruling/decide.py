"""Severity and provenance together: which effects of a call are a question, and whose word clears it.

`decide.tbl` decides; this module finds the facts that its rows ask for. Orders, and text that speaks to an agent, are
found by the other steps and count for the severities 2 and 3.

Narrow: a call is asked about where something was found. Wide: after untrusted text, every call of severity 2 or 3 is
asked about, unless the user or the project names all that it is aimed at; and from severity 1 a command that a text
dictates word for word. Wide needs a judge that has shown in an exam that it can tell: no other clears anything there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

from lockgate.core.errors import quoted
from lockgate.core.ruling.arguments import Leaf, sink_from_argument
from lockgate.core.ruling.context import Context
from lockgate.core.ruling.effects.effect import KINDS, SPENDS, Effect, Severity
from lockgate.core.ruling.effects.tool_arguments import ROLES, has_role, is_place
from lockgate.core.ruling.explanations import EFFECT, FORBIDDEN, LOOKALIKE, describe_effect
from lockgate.core.ruling.goal import hands_over, is_word_for_kind, names_of, names_other_protection
from lockgate.core.ruling.index import Places
from lockgate.core.ruling.policy import Policy
from lockgate.core.ruling.provenance import (
    compared_size,
    is_in_record,
    is_in_sentence,
    is_meant,
    origin_from_places,
    sentence_of,
)
from lockgate.core.ruling.standing import Authority, JudgeStanding
from lockgate.core.ruling.targets import HostOrMailbox, addresses_from_target, book_of, find_alike
from lockgate.core.ruling.tool_risk import tool_words
from lockgate.core.ruling.value_pieces import STOP_WORDS, Candidate, find_candidates, prepare_values
from lockgate.core.ruling.work_budget import WorkBudget
from lockgate.core.tables import read_table
from lockgate.core.text.imperatives import prepare, split_words
from lockgate.core.vocabulary import Finding, Origin

_COLUMNS = ("severity", "kinds", "named by", "asked", "narrow", "wide")
_ROWS = read_table(__package__, "decide.tbl", "decide", _COLUMNS)
_CLEARS = {
    Authority(judge): (other, grave)
    for judge, other, grave in read_table(__package__, "decide.tbl", "clears", ("judge", "other calls", "grave calls"))
}
_SEVERITIES = {Severity.REACHES_OUT: "out", Severity.OPENS_A_DOOR: "door"}
_GROUPS = {
    name: frozenset(kinds.split())
    for name, kinds in read_table(__package__, "decide.tbl", "groups", ("group", "kinds"))
}
_PERSON_KINDS, _PACKAGE_KINDS = _GROUPS["person"], _GROUPS["package"]
_MAX_ALIKE, _MOST_LOOKED_UP = 44, 4
_OFF = re.compile(rb"\b(?:false|off|disabl|skip|bypass|without|none|relax|turn|switch|insecure|unverified|0)")
_INSTALLING = re.compile(rb"\b(?:install|add|package|module|librar|depend|require|pip|npm|yarn|gem|cargo|crate|import)")
# A host, a mailbox or a path is compared as it is written, not word by word. With six digits it may be an account; a
# package has no such sign, and is told by its effect.
_ADDRESSED, _IDENTITY = re.compile(r"[./@]"), re.compile(r"[./@~]|\d{6}")
_MAILBOX = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}")
_MOST_AIMS = 8
_HOST_WORDS = re.compile(rb"[^\W_]{5,}")
_NEAR, _MAX_SHOWN, _SHORTEST_DICTATED = 80, 120, 8


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


class EffectFindings(NamedTuple):
    """What is held against a call for its effects, and where the targets stand in untrusted text.

    `meant` are targets that untrusted text names and that the goal means all the same. `is_payee_told` says that a
    sentence of such a text gives the account for a payment, `capped` that the work ended before all was compared, and
    `asks` the widths in which an effect without a finding is asked about.
    """

    findings: tuple[Finding, ...] = ()
    origins: tuple[Origin, ...] = ()
    meant: frozenset[str] = frozenset()
    is_payee_told: bool = False
    capped: bool = False
    asks: frozenset[Width] = frozenset()


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
    ) -> None:
        self._is_own = is_own or Policy().is_own
        self._context, self._tool, self._first, self._leaves = context, tool, first, leaves
        self._goal, self._project, self._delegated = context.goal, context.project, delegated
        self._budget = WorkBudget(0)
        # Targets of which every mention in untrusted text is one that the goal means.
        self._expected: set[str] = set()
        self._is_payee_told = False

    def find(self, effects: Sequence[Effect]) -> EffectFindings:
        """Return the findings of a call's effects, the gravest first."""
        findings: list[Finding] = []
        origins: list[Origin] = []
        asks: set[Width] = set()
        targets = [Leaf(effect.argument, effect.target) for effect in effects]
        size = compared_size(prepare_values(targets), self._context.readings)
        self._budget = WorkBudget(size)
        for effect in effects:
            if effect.severity < Severity.REACHES_OUT:
                break
            named_by, where = self._who_names(effect)
            verdicts = self._decide(effect, named_by)
            asks |= {width for width, verdict in verdicts.items() if verdict == "ask"}
            if verdicts[Width.NARROW] == "finding":
                findings.append(_finding_from_effect(effect, is_forbidden=effect.kind in self._goal.forbidden_kinds))
                origins += where
        # A long address book must leave steps for the other comparisons.
        book_budget = WorkBudget(size + len(self._goal.written))
        findings += self._find_lookalikes(effects, book_budget)
        capped = self._budget.is_spent or book_budget.is_spent
        meant = frozenset(self._expected)
        return EffectFindings(tuple(findings), tuple(origins), meant, self._is_payee_told, capped, frozenset(asks))

    def _decide(self, effect: Effect, named_by: str) -> dict[Width, str]:
        """Return what the first row says that fits, by width."""
        kinds = {
            "*": True,
            "other-protection": effect.kind == "disables-check"
            and names_other_protection(self._goal.wishes, f"{self._text_of_act(effect)} {effect.target}"),
            "forbidden": effect.kind in self._goal.forbidden_kinds,
            "spends": effect.kind in SPENDS,
            "by-target": KINDS[effect.kind].by_target,
        }
        asked = "yes" if self._goal.asks_for_kind(effect.kind) else "no"
        for severity, kind, names, row_asked, narrow, wide in _ROWS:
            is_of_kind = severity in ("*", _SEVERITIES[effect.severity]) and kinds[kind]
            if is_of_kind and (names == "*" or named_by in names.split(",")) and row_asked in ("*", asked):
                return {Width.NARROW: narrow, Width.WIDE: wide}
        # The table is wrong; what it does not list is a finding.
        return dict.fromkeys(Width, "finding")

    def _who_names(self, effect: Effect) -> tuple[str, list[Origin]]:
        """Return who names an effect's target, and where untrusted text does."""
        if effect.severity is Severity.OPENS_A_DOOR:
            origin = self._origin_of_target(effect)
            return self._who_names_door(effect), [] if origin is None else [origin]
        if self._is_named_by_letter(effect):
            return "letter", []
        if self._is_known_to_project(effect):
            return "project", []
        origin = self._origin_of_target(effect)
        if origin is None:
            return ("text" if self._is_spelled_out(effect) else "nowhere"), []
        led = self._origin_of_search(effect, origin.block)
        if led is not None:
            return "order", [led, origin]
        return ("order" if self._was_ordered(origin.block) else "text"), [origin]

    def _who_names_door(self, effect: Effect) -> str:
        aims = self._find_aims(effect)
        # A text that is only vetted never asks for what opens a door.
        if effect.target and all(self._goal.names(aim, trusted_only=True) for aim in aims):
            return "letter" if self._is_named_by_letter(effect) else "user"
        return "text" if self._is_chosen_by_text(effect, aims) else "nowhere"

    def _is_named_by_letter(self, effect: Effect) -> bool:
        """Return whether the user names an effect's target letter by letter; a plain word has other meanings."""
        target = effect.target
        if not (_IDENTITY.search(target) or (target and effect.kind in _PACKAGE_KINDS)):
            return False
        budget = WorkBudget(len(self._goal.trusted_only))
        return self._goal.contains_address(target.lower().encode("utf-8", "ignore"), budget, trusted_only=True)

    def _is_known_to_project(self, effect: Effect) -> bool:
        """Return whether the project's own files name an effect's target, or it is the operator's own.

        A package is none of its packages by now: the reading of a command, which knows the registry, has looked.
        """
        is_remote = effect.kind == "pushes" and effect.target in self._project.remotes
        return is_remote or self._project.has_host(effect.target) or self._is_own(effect.target)

    def _was_ordered(self, block: str) -> bool:
        """Return whether an order in an earlier session named what this block names: then it is no plain record."""
        carried = self._context.carried.get(block)
        return carried is not None and carried.is_firm and carried.is_ordered

    # --- where untrusted text names a target

    def _origin_of_target(self, effect: Effect) -> Origin | None:
        """Return where untrusted text names a target that neither the user nor the project names."""
        candidates = self._find_candidates(effect, [effect.target])
        if not effect.target or self._is_no_news(effect, candidates):
            return None
        mentions: set[bool] = set()
        for candidate in candidates:
            if candidate.is_number and len(candidate.piece) < 6:
                continue
            for held in self._context.index.find(candidate, self._budget, self._first):
                if held.reading.block in self._delegated:
                    continue
                if not self._was_ordered(held.reading.block) and self._is_expected(effect, candidate, held):
                    mentions.add(True)
                elif self._is_telling(effect, candidate, held):
                    is_told = effect.kind == "pays" and is_in_sentence(candidate, held, self._budget)
                    self._is_payee_told = self._is_payee_told or is_told
                    return origin_from_places(candidate, held, effect.target, self._budget)
                else:
                    mentions.add(False)
        if mentions == {True}:
            self._expected.add(effect.target)
        return None

    def _find_candidates(self, effect: Effect, texts: Sequence[str]) -> list[Candidate]:
        """Return what of these texts, in the place of the target, is worth looking for."""
        leaves = [Leaf(effect.argument, text) for text in texts]
        return find_candidates(prepare_values(leaves), self._context.index.words)[0]

    def _is_no_news(self, effect: Effect, candidates: Sequence[Candidate]) -> bool:
        """Return whether the project or the user names the target."""
        goal, target = self._goal, effect.target
        if self._is_known_to_project(effect) or goal.names(target):
            return True
        if effect.kind in _GROUPS["owner"] and goal.names_owner_of(target):
            return True
        is_word = not _ADDRESSED.search(target)
        return is_word and any(goal.contains_value(candidate, self._budget) for candidate in candidates)

    def _is_expected(self, effect: Effect, candidate: Candidate, held: Places) -> bool:
        """Return whether the goal means this person or account, or a record gives it: agents copy from those all day.

        Money needs more: the goal has to name whose account it is. No command is a form.
        """
        goal, kind = self._goal, effect.kind
        if kind == "pays":
            is_other = self._is_other_payee(effect)
            return not is_other and is_meant(goal, candidate, held, self._budget, in_records_only=True)
        is_field = kind == "sends-data" and "@" in effect.target and sink_from_argument(effect.argument) != "command"
        if kind not in _PERSON_KINDS and not is_field:
            return False
        if is_meant(goal, candidate, held, self._budget):
            return True
        # A record gives an address to write to; that its owner is to have a file is for the user to say.
        if kind == "shares" and not goal.asks_for_kind(kind):
            return False
        # "Fill in the address of the record above": beside an order a record is a part of it.
        if is_field and next(held.reading.text.find_cues_near(held.spans), None) is not None:
            return False
        return is_in_record(candidate, held, self._budget)

    def _is_telling(self, effect: Effect, candidate: Candidate, held: Places) -> bool:
        """Return whether a place in a text is evidence that the target was taken from it."""
        text = held.reading.text.prepared
        if candidate.is_plain_word and (effect.kind in _PACKAGE_KINDS or effect.kind == "weakens-setting"):
            pattern, behind = (_INSTALLING, 0) if effect.kind in _PACKAGE_KINDS else (_OFF, _NEAR)
            return any(pattern.search(text[max(0, at - _NEAR) : at + behind]) for at, _ in held.spans[:64])
        if effect.target[:1] in ("#", "@") and effect.target.lower().encode("utf-8", "ignore") not in text:
            return False
        return candidate.is_distinctive or effect.kind in _PACKAGE_KINDS or self._is_other_payee(effect)

    def _is_other_payee(self, effect: Effect) -> bool:
        """Return whether money goes to a plain name, and the goal names others: who owes Baz pays no Eve."""
        is_name = effect.kind == "pays" and effect.target.isalpha() and has_role(effect.argument, "recipient")
        names = self._goal.proper_names
        words = split_words(prepare(effect.target.encode("utf-8", "ignore")))
        return is_name and bool(names) and names.isdisjoint(words)

    def _is_chosen_by_text(self, effect: Effect, aims: Sequence[str]) -> bool:
        """Return whether an order or a sentence in untrusted text names the target, and the user does not.

        Entries of lists and records are there to be chosen from. `crontab` is what every order about a job says: the
        name of the very thing that the goal asks for tells nothing.
        """
        handed = self._context.find_delegated()
        for candidate in self._find_candidates(effect, [name for aim in aims for name in names_of(aim)]):
            words = split_words(candidate.piece)
            is_said = not candidate.is_address and self._goal.says_all(words)
            if is_said or is_word_for_kind(effect.kind, candidate.leaf.text):
                continue
            may_be_told = candidate.is_distinctive and effect.kind not in _GROUPS["file"]
            for held in self._context.index.find(candidate, self._budget, self._first):
                is_free = held.reading.block not in handed
                if held.is_ordered(candidate, self._budget) or (
                    may_be_told and is_free and is_in_sentence(candidate, held, self._budget)
                ):
                    return True
        return False

    def _find_aims(self, effect: Effect) -> list[str]:
        """Return what an effect is aimed at: its target, whom a command lets in there, or the file to open."""
        aims: list[str] = []
        if effect.kind in _PERSON_KINDS and "@" not in effect.target:
            aims = _MAILBOX.findall(self._text_of_act(effect))
        elif effect.target.lower() in ROLES["open to all"]:
            aims = [leaf.text for leaf in self._leaves if is_place(leaf)]
        return [effect.target, *aims[:_MOST_AIMS]]

    def _text_of_act(self, effect: Effect) -> str:
        """Return what says what a call does: its command, or the words of its tool."""
        text = next((leaf.text for leaf in self._leaves if leaf.argument == effect.argument), "")
        return text[effect.start : effect.end] or " ".join(tool_words(self._tool))

    def _origin_of_search(self, effect: Effect, block: str) -> Origin | None:
        """Return the order in an earlier text that named what the agent looked for when it got this one.

        "Please buy a pencil set as well": the order names no article number, and the list that the agent then asks for
        gives it. Where the user hands the decision to a text, an order in one is what the user wants.
        """
        if effect.kind not in _GROUPS["looked up"] or hands_over(self._goal.asked_text):
            return None
        for sought in self._context.looked_for.get(block, ()):
            listed = split_words(prepare(sought.encode("utf-8", "ignore")))
            words = {word for word in listed if len(word) > 3 and word not in self._goal.known} - STOP_WORDS
            if not 0 < len(words) <= _MOST_LOOKED_UP:
                continue
            origins = [origin for word in sorted(words) for origin in self._orders_with(effect, word, block)]
            # A text may be there in several readings: each word counts once.
            blocks = Counter(held for held, _ in {(origin.block, origin.value) for origin in origins})
            if (led := next((origin for origin in origins if blocks[origin.block] == len(words)), None)) is not None:
                return led
        return None

    def _orders_with(self, effect: Effect, word: bytes, block: str) -> Iterator[Origin]:
        """Yield the places before a block, one per text, where a word stands in or beside an order."""
        text, positions = word.decode("utf-8", "ignore"), self._context.positions
        for candidate in self._find_candidates(effect, [text])[:1]:
            for held in self._context.index.find(candidate, self._budget, self._first):
                reading = held.reading
                if reading.block in self._delegated or reading.position >= positions[block]:
                    continue
                order = next((order for order, _ in held.find_orders(candidate, self._budget)), None)
                if order is not None:
                    origin = origin_from_places(candidate, held, text, self._budget)
                    yield origin._replace(order=sentence_of(reading, order))

    def _is_spelled_out(self, effect: Effect) -> bool:
        """Return whether a mailbox stands in no text, and untrusted text has its name: "payroll, at, brightledger"."""
        host = effect.target.rpartition("@")[2].lower().encode("utf-8", "ignore")
        is_mailbox = effect.kind in _PERSON_KINDS and "@" in effect.target[1:] and b"." in host
        # Before the last dot: every text may have the ending.
        names = [name for name in _HOST_WORDS.findall(host.rpartition(b".")[0]) if name not in self._goal.known]
        if not is_mailbox or self._context.index.words.isdisjoint(names) or self._is_no_news(effect, ()):
            return False
        texts = [self._goal.written, *(reading.text.prepared for reading in self._context.readings)]
        # What could not be searched to the end may have it: the end of the work is a finding of its own.
        return not any(not self._budget.take_pass(len(text)) or host in text for text in texts)

    # --- addresses that look like known ones

    def _find_lookalikes(self, effects: Sequence[Effect], budget: WorkBudget) -> Iterator[Finding]:
        """Yield the targets that look like an address which the session knows."""
        # A plain request takes nothing along, unless the call also gives something.
        gives = any(effect.kind in _GROUPS["gives"] for effect in effects)
        aimed = _GROUPS["aimed"] | ({"requests"} if gives else set())
        for effect in effects:
            if effect.kind not in aimed or self._goal.names(effect.target):
                continue
            for address in addresses_from_target(effect.target):
                if says := self._compare_address(address, budget):
                    yield Finding(LOOKALIKE, effect.argument, effect.start, effect.end, "raw", says)
                    break

    def _compare_address(self, address: HostOrMailbox, budget: WorkBudget) -> str:
        """Return which known address one looks like without being it, in words; empty where there is none."""
        goal, written = self._goal, address.written.decode("utf-8", "replace")
        host = address.host.decode("utf-8", "replace")
        if goal.names(written):
            return ""
        hosts = "\n".join(sorted(self._project.hosts)).encode("utf-8", "ignore")
        books = (
            ("trusted text", book_of(goal.written)),
            ("the project", book_of(hosts)),
            ("", self._context.index.addresses),
        )
        is_known = self._project.has_host(host) or goal.names_owner_of(written)
        other, names = find_alike(address, books, budget, is_known=is_known)
        if not other:
            return ""
        shown = quoted(written if "@" in other else host, _MAX_ALIKE)
        names = "the goal" if other in goal.asked_text.lower() else names
        return f"{shown} is not {quoted(other, _MAX_ALIKE)}, which {names} names, but looks like it"


def _finding_from_effect(effect: Effect, *, is_forbidden: bool) -> Finding:
    rule, shown = EFFECT + effect.kind, effect.target[:_MAX_SHOWN]
    if is_forbidden:
        rule, shown = FORBIDDEN, f"This call {describe_effect(effect.kind, effect.target)}, which the goal forbids"
    return Finding(rule, effect.argument, effect.start, effect.end, "raw", shown)


def is_configured_remote(effect: Effect) -> bool:
    """Return whether a push goes to a remote by its name: a name that no one configured leads nowhere."""
    return effect.kind == "pushes" and not _ADDRESSED.search(effect.target)


def is_dictated(command: str, context: Context, first: int = 0) -> bool:
    """Return whether a whole command stands word for word in untrusted text, and not in the user's words."""
    line = prepare(command.strip().encode("utf-8", "ignore"))
    if len(line) < _SHORTEST_DICTATED or line in context.goal.trusted_only:
        return False
    return any(line in reading.text.prepared for reading in context.readings if reading.position >= first)
