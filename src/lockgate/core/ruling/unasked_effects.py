"""Severity and provenance together: which effects of a call the user did not ask for.

| severity | no untrusted text has the target | untrusted text names the target | the user or the project names it |
|---|---|---|---|
| 0 looks | pass | pass | pass |
| 1 works here | pass | pass | pass |
| 2 reaches out | pass | a finding, where the kind says `by_target`; else only with an order | pass |
| 3 opens a door | a finding, unless the goal asks for this kind | the same, and always if not in a list only | pass |

Orders, and text that speaks to an agent, are found by the other steps and count for the severities 2 and 3.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from lockgate.core.errors import quoted
from lockgate.core.ruling.arguments import Leaf, sink_from_argument
from lockgate.core.ruling.asked_kinds import is_word_for_kind, names_other_protection
from lockgate.core.ruling.context import Context
from lockgate.core.ruling.delegation import hands_over
from lockgate.core.ruling.effects.effect import KINDS, SPENDS, Effect, Severity
from lockgate.core.ruling.effects.project import Project
from lockgate.core.ruling.effects.tool_arguments import ROLES, has_role, is_place
from lockgate.core.ruling.explanations import EFFECT, FORBIDDEN, LOOKALIKE, describe_effect
from lockgate.core.ruling.lookalikes import AddressIndex, HostOrMailbox, addresses_from_target
from lockgate.core.ruling.meant_by_goal import MeantByGoal
from lockgate.core.ruling.origins import TrustedText, compared_size
from lockgate.core.ruling.tool_risk import tool_words
from lockgate.core.ruling.value_pieces import STOP_WORDS, Candidate, find_candidates, prepare_values
from lockgate.core.ruling.word_index import IndexedReading, ValuePlaces
from lockgate.core.ruling.work_budget import WorkBudget
from lockgate.core.text.imperatives import prepare, split_words
from lockgate.core.vocabulary import Finding, Origin

_PACKAGE_KINDS = frozenset({"installs-package", "adds-dependency"})
_PERSON_KINDS = frozenset({"sends-message", "shares", "grants-access"})
# For these it is enough that the user names whose host or mailbox the target is; data, code and money need more.
_OWNER_KINDS = frozenset({"embeds-address", "sends-message"})
_MEANT_KINDS = _PERSON_KINDS | {"pays"}
# Whatever else names such a file, it is what the goal's own word for the kind means: "CI" is `.github/workflows`.
_FILE_KINDS = frozenset({"changes-agent-file", "changes-pipeline", "installs-hook", "writes-startup-file"})
# What goes to the owner of the target, or comes from him: an address that only looks like a known one is a finding. A
# plain request takes nothing along, unless the call also does one of `_GIVES`.
_AIMED_KINDS = _PERSON_KINDS | frozenset(
    "adds-dependency changes-remote clones embeds-remote-code installs-package logs-in makes-key pushes routes-to "
    "runs-download sends-data uses-package-source".split()
)
_GIVES = frozenset({"logs-in", "sends-data", "sends-secret"})
_MAX_ALIKE = 44
# What is told by a number that a list gives: the text that names the thing is another one.
_LOOKED_UP_KINDS = frozenset({"changes-record", "deletes-record", "orders", "publishes"})
_MOST_LOOKED_UP = 4
_OFF = re.compile(rb"\b(?:false|off|disabl|skip|bypass|without|none|relax|turn|switch|insecure|unverified|0)")
_INSTALLING = re.compile(rb"\b(?:install|add|package|module|librar|depend|require|pip|npm|yarn|gem|cargo|crate|import)")
# A host, a mailbox or a path: compared as it is written, not word by word.
_ADDRESSED = re.compile(r"[./@]")
_WORDS = re.compile(r"[^\W_]+")
_MAILBOX = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}")
_MOST_AIMS = 8
_ENDING = re.compile(rb"(?<=\w)\.[a-z0-9]{1,5}\Z")
_HOST_WORDS = re.compile(rb"[^\W_]{5,}")
_NEAR = 80
_MAX_SHOWN = 120
_MAX_SENTENCE = 300


class EffectFindings(NamedTuple):
    """What is held against a call for its effects, and where the targets stand in untrusted text.

    `meant` are targets that untrusted text names and that the goal means all the same. `is_payee_told` says that a
    sentence of such a text gives the account for a payment, and `capped` that the work ended before all was compared.
    """

    findings: tuple[Finding, ...] = ()
    origins: tuple[Origin, ...] = ()
    meant: frozenset[str] = frozenset()
    is_payee_told: bool = False
    capped: bool = False


class UnaskedEffects:
    """Looks for the effects of one call that the user did not ask for."""

    __slots__ = (
        "_address_budget",
        "_budget",
        "_context",
        "_delegated",
        "_expected",
        "_is_payee_told",
        "_leaves",
        "_meant",
        "_readings",
        "_tool",
        "_trusted",
    )

    def __init__(
        self,
        context: Context,
        tool: str,
        readings: Sequence[IndexedReading],
        delegated: frozenset[str] = frozenset(),
        leaves: Sequence[Leaf] = (),
    ) -> None:
        self._context = context
        self._leaves = leaves
        self._tool = tool
        self._readings = readings
        self._trusted = context.trusted_text
        self._delegated = delegated
        self._budget = self._address_budget = WorkBudget(0)
        self._meant = MeantByGoal(context.trusted_text, self._budget)
        # Targets of which every mention in untrusted text is one that the goal means.
        self._expected: set[str] = set()
        self._is_payee_told = False

    def find(self, effects: Sequence[Effect]) -> EffectFindings:
        """Return the findings of a call's effects, the gravest first."""
        findings: list[Finding] = []
        origins: list[Origin] = []
        self._expected = set()
        targets = [Leaf(effect.argument, effect.target) for effect in effects]
        size = compared_size(prepare_values(targets), self._readings)
        # A long address book must leave steps for the other comparisons.
        self._budget, self._address_budget = WorkBudget(size), WorkBudget(size + len(self._trusted.written))
        self._meant = MeantByGoal(self._trusted, self._budget)
        for effect in effects:
            if effect.severity < Severity.REACHES_OUT:
                break
            origin = self._origin_of_target(effect) if effect.target else None
            if effect.severity is Severity.OPENS_A_DOOR:
                is_unasked = not self._is_asked_for(effect)
            else:
                led = self._origin_of_search(effect, origin.block) if origin is not None else None
                origins += [led] if led is not None else []
                is_unasked = led is not None or self._reaches_unasked(effect, origin)
            is_forbidden = effect.kind in self._trusted.forbidden_kinds
            if is_unasked or is_forbidden:
                findings.append(_finding_from_effect(effect, is_forbidden=is_forbidden))
                if origin is not None:
                    origins.append(origin)
        findings += self._find_lookalikes(effects)
        meant = frozenset(self._expected)
        return EffectFindings(tuple(findings), tuple(origins), meant, self._is_payee_told, self._budget.is_spent)

    def _reaches_unasked(self, effect: Effect, origin: Origin | None) -> bool:
        is_named = origin is not None and (KINDS[effect.kind].by_target or self._was_ordered(origin.block))
        return is_named or self._is_unasked_payment(effect) or self._is_spelled_out(effect)

    def _find_lookalikes(self, effects: Sequence[Effect]) -> Iterator[Finding]:
        """Yield the targets that look like an address which the session knows."""
        gives = any(effect.kind in _GIVES for effect in effects)
        for effect in effects:
            is_aimed = effect.kind in _AIMED_KINDS or (gives and effect.kind == "requests")
            if not is_aimed or is_named_by_user(effect.target, self._trusted):
                continue
            says = next(filter(None, map(self._compare_address, addresses_from_target(effect.target))), "")
            if says:
                yield Finding(LOOKALIKE, effect.argument, effect.start, effect.end, "raw", says)

    def _compare_address(self, address: HostOrMailbox) -> str:
        """Return which known address one looks like without being it, in words; empty where there is none."""
        trusted, project = self._trusted, self._context.project
        written, host = address.written.decode("utf-8", "replace"), address.host.decode("utf-8", "replace")
        if is_named_by_user(written, trusted):
            return ""
        is_owner_known = project.has_host(host) or trusted.names_owner_of(written)
        for names, index in self._known_addresses():
            found = index.find_alike(address, self._address_budget, is_owner_known=is_owner_known)
            if self._address_budget.is_spent:
                self._budget.exhaust()
                return ""
            if found:
                other = found.decode("utf-8", "replace")
                shown = quoted(written if "@" in other else host, _MAX_ALIKE)
                names = "the goal" if other in trusted.asked_text.lower() else names
                return f"{shown} is not {quoted(other, _MAX_ALIKE)}, which {names} names, but looks like it"
        return ""

    def _known_addresses(self) -> Iterator[tuple[str, AddressIndex]]:
        """Yield the addresses that trusted texts, the project and untrusted texts have, each with who names them."""
        yield "trusted text", self._trusted.addresses
        yield "the project", _addresses_of_project(self._context.project.hosts)
        for reading in self._readings:
            # In a reading with folded letters stand names that no one wrote.
            if reading.word_index.part.how == "raw":
                yield reading.block, reading.word_index.addresses

    def _was_ordered(self, block: str) -> bool:
        """Return whether an order in an earlier session named what this block names: then it is no plain record."""
        carried = self._context.carried.get(block)
        return carried is not None and carried.is_firm and carried.is_ordered

    def _origin_of_search(self, effect: Effect, block: str) -> Origin | None:
        """Return the order in an earlier text that named what the agent looked for when it got this one.

        "Please buy a pencil set as well": the order names no article number, and the list that the agent then asks for
        gives it. Where the user hands the decision to a text, an order in one is what the user wants.
        """
        if effect.kind not in _LOOKED_UP_KINDS or hands_over(self._trusted.asked_text):
            return None
        sought = self._context.looked_for.get(block, ())
        return next((origin for text in sought if (origin := self._order_for(effect, text, block)) is not None), None)

    def _order_for(self, effect: Effect, sought: str, block: str) -> Origin | None:
        """Return an order in a text before a block that has all telling words of what the agent looked for."""
        known = self._trusted.known
        listed = split_words(prepare(sought.encode("utf-8", "ignore")))
        words = {word for word in listed if len(word) > 3 and word not in known} - STOP_WORDS
        if not words or len(words) > _MOST_LOOKED_UP:
            return None
        found = [origin for word in sorted(words) for origin in self._orders_with(effect, word, block)]
        # A text may be there in several readings: each word counts once.
        blocks = Counter(held for held, _ in {(origin.block, origin.value) for origin in found})
        return next((origin for origin in found if blocks[origin.block] == len(words)), None)

    def _orders_with(self, effect: Effect, word: bytes, block: str) -> Iterator[Origin]:
        """Yield the places before a block, one per text, where a word stands in or beside an order."""
        text = word.decode("utf-8", "ignore")
        positions = self._context.positions
        for candidate in self._find_candidates(effect, [text])[:1]:
            for held in self._context.value_places.find_places(candidate, self._readings, self._budget):
                if held.reading.block in self._delegated or positions[held.reading.block] >= positions[block]:
                    continue
                order = next((order for order, _ in held.find_orders(candidate, self._budget)), None)
                if order is not None:
                    data = held.reading.word_index.part.data[order.start : order.end]
                    origin = _origin_from_place(effect, candidate, held, self._budget)
                    sentence = data.decode("utf-8", "replace").strip()[:_MAX_SENTENCE]
                    yield origin._replace(value=text, order=sentence)

    def _is_spelled_out(self, effect: Effect) -> bool:
        """Return whether a mailbox stands in no text, and untrusted text has its name: "payroll, at, brightledger"."""
        host = effect.target.rpartition("@")[2].lower().encode("utf-8", "ignore")
        is_mailbox = effect.kind in _PERSON_KINDS and "@" in effect.target[1:] and b"." in host
        # Before the last dot: every text may have the ending.
        names = [name for name in _HOST_WORDS.findall(host.rpartition(b".")[0]) if name not in self._trusted.known]
        if not is_mailbox or self._context.untrusted_words.isdisjoint(names) or self._is_no_news(effect, ()):
            return False
        texts = [self._trusted.written, *(reading.word_index.prepared for reading in self._context.readings)]
        # What could not be searched to the end may have it: the end of the work is a finding of its own.
        return not any(not self._budget.take_pass(len(text)) or host in text for text in texts)

    def _is_unasked_payment(self, effect: Effect) -> bool:
        """Return whether a call spends the user's money without a word of the user about spending any."""
        return effect.kind in SPENDS and not self._trusted.asks_for_kind(effect.kind)

    def _is_asked_for(self, effect: Effect) -> bool:
        """Return whether the user names this target or asks for this kind of thing."""
        # A text that is only vetted never asks for what opens a door.
        aims = self._find_aims(effect)
        if effect.target and all(is_named_by_user(aim, self._trusted, trusted_only=True) for aim in aims):
            return True
        if effect.kind == "disables-check" and self._switches_off_another(effect):
            return False
        return self._trusted.asks_for_kind(effect.kind) and not self._is_chosen_by_text(effect)

    def _switches_off_another(self, effect: Effect) -> bool:
        """Return whether the goal speaks of another protection: after "mute the alert", the audit log stays on."""
        words = _WORDS.findall(f"{self._text_of_act(effect)} {effect.target}".lower())
        return names_other_protection(self._trusted.wishes, f" {' '.join(words)} ")

    def _is_chosen_by_text(self, effect: Effect) -> bool:
        """Return whether an order or a sentence in untrusted text names the target, and the user does not.

        Entries of lists and records are there to be chosen from. `crontab` is what every order about a job says: the
        name of the very thing that the goal asks for tells nothing.
        """
        handed = self._context.find_delegated(self._tool)
        names = [name for aim in self._find_aims(effect) for name in _names_of(aim)]
        for candidate in self._find_candidates(effect, names):
            # Few say the ending of a file's name.
            words = split_words(_ENDING.sub(b"", candidate.piece))
            is_said = not candidate.is_address and self._trusted.says_all(words)
            if is_said or is_word_for_kind(effect.kind, candidate.leaf.text):
                continue
            may_be_told = candidate.is_distinctive and effect.kind not in _FILE_KINDS
            for held in self._context.value_places.find_places(candidate, self._readings, self._budget):
                if any(is_inside for _, is_inside in held.find_orders(candidate, self._budget)):
                    return True
                is_free = held.reading.block not in handed
                if may_be_told and is_free and self._meant.is_in_sentence(candidate, held):
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

    def _find_candidates(self, effect: Effect, texts: Sequence[str]) -> list[Candidate]:
        """Return what of these texts, in the place of the target, is worth looking for."""
        leaves = [Leaf(effect.argument, text) for text in texts]
        return find_candidates(prepare_values(leaves), self._context.untrusted_words)[0]

    def _text_of_act(self, effect: Effect) -> str:
        """Return what says what a call does: its command, or the words of its tool."""
        text = next((leaf.text for leaf in self._leaves if leaf.argument == effect.argument), "")
        return text[effect.start : effect.end] or " ".join(tool_words(self._tool))

    def _origin_of_target(self, effect: Effect) -> Origin | None:
        """Return where untrusted text names a target that neither the user nor the project names."""
        candidates = self._find_candidates(effect, [effect.target])
        if self._is_no_news(effect, candidates):
            return None
        mentions: set[bool] = set()
        for candidate in candidates:
            if candidate.is_number and len(candidate.piece) < 6:
                continue
            for held in self._context.value_places.find_places(candidate, self._readings, self._budget):
                if held.reading.block in self._delegated:
                    continue
                is_excused = _may_be_meant(effect) and not self._was_ordered(held.reading.block)
                if is_excused and self._is_expected(effect, candidate, held):
                    mentions.add(True)
                elif self._is_telling(effect, candidate, held):
                    is_told = effect.kind == "pays" and self._meant.is_in_sentence(candidate, held)
                    self._is_payee_told = self._is_payee_told or is_told
                    return _origin_from_place(effect, candidate, held, self._budget)
                else:
                    mentions.add(False)
        if mentions == {True}:
            self._expected.add(effect.target)
        return None

    def _is_no_news(self, effect: Effect, candidates: Sequence[Candidate]) -> bool:
        """Return whether the project or the user names the target."""
        if is_known_to_project(effect, self._context.project) or is_named_by_user(effect.target, self._trusted):
            return True
        if effect.kind in _OWNER_KINDS and self._trusted.names_owner_of(effect.target):
            return True
        is_word = not _ADDRESSED.search(effect.target)
        return is_word and any(self._trusted.contains_value(candidate, self._budget) for candidate in candidates)

    def _is_expected(self, effect: Effect, candidate: Candidate, held: ValuePlaces) -> bool:
        """Return whether the goal means this person or account, or a record gives it: agents copy from those all day.

        Money needs more: the goal has to name whose account it is.
        """
        if effect.kind == "pays":
            return not self._is_other_payee(effect) and self._meant.is_meant(candidate, held, in_records_only=True)
        if self._meant.is_meant(candidate, held):
            return True
        # A record gives an address to write to; that its owner is to have a file is for the user to say.
        if effect.kind == "shares" and not self._trusted.asks_for_kind(effect.kind):
            return False
        # "Fill in the address of the record above": beside an order a record is a part of it.
        if effect.kind == "sends-data" and next(held.reading.word_index.find_cues_near(held.places), None) is not None:
            return False
        return self._meant.is_in_record(candidate, held)

    def _is_telling(self, effect: Effect, candidate: Candidate, held: ValuePlaces) -> bool:
        """Return whether a place in a text is evidence that the target was taken from it."""
        if effect.kind in _PACKAGE_KINDS and candidate.is_plain_word:
            text = held.reading.word_index.prepared
            return any(_INSTALLING.search(text[max(0, at - _NEAR) : at]) for at in held.places[:64])
        if effect.kind == "weakens-setting" and candidate.is_plain_word:
            text = held.reading.word_index.prepared
            return any(_OFF.search(text[max(0, at - _NEAR) : at + _NEAR]) for at in held.places[:64])
        if (
            effect.target[:1] in ("#", "@")
            and effect.target.lower().encode("utf-8", "ignore") not in held.reading.word_index.prepared
        ):
            return False
        return candidate.is_distinctive or effect.kind in _PACKAGE_KINDS or self._is_other_payee(effect)

    def _is_other_payee(self, effect: Effect) -> bool:
        """Return whether money goes to a plain name, and the goal names others: who owes Baz pays no Eve."""
        is_name = effect.kind == "pays" and effect.target.isalpha() and has_role(effect.argument, "recipient")
        return is_name and self._meant.names_another(effect.target)


@lru_cache(maxsize=8)
def _addresses_of_project(hosts: frozenset[str]) -> AddressIndex:
    return AddressIndex("\n".join(sorted(hosts)).encode("utf-8", "ignore"))


def _may_be_meant(effect: Effect) -> bool:
    """Return whether a target can be a person or an account that the goal means; no command is a form."""
    is_field = effect.kind == "sends-data" and "@" in effect.target
    return effect.kind in _MEANT_KINDS or (is_field and sink_from_argument(effect.argument) != "command")


def _finding_from_effect(effect: Effect, *, is_forbidden: bool) -> Finding:
    rule, shown = EFFECT + effect.kind, effect.target[:_MAX_SHOWN]
    if is_forbidden:
        rule, shown = FORBIDDEN, f"This call {describe_effect(effect.kind, effect.target)}, which the goal forbids"
    return Finding(rule, effect.argument, effect.start, effect.end, "raw", shown)


def _origin_from_place(effect: Effect, candidate: Candidate, held: ValuePlaces, budget: WorkBudget) -> Origin:
    exact = candidate.leaf.text.encode("utf-8", "ignore")
    start, end, is_written = held.find_span(candidate, exact, None, budget)
    how = held.reading.word_index.part.how
    how = ("exact" if is_written else "folded") if how == "raw" else how
    shown = effect.target[:_MAX_SHOWN]
    return Origin(effect.argument, shown, held.reading.block, held.reading.source, start, end, how, "", "target")


def is_known_to_project(effect: Effect, project: Project) -> bool:
    """Return whether the project's own files name an effect's target.

    A package is none of its packages by now: the reading of a command, which knows the registry, has looked already.
    """
    if effect.kind == "pushes":
        return effect.target in project.remotes or project.has_host(effect.target)
    return project.has_host(effect.target)


def is_configured_remote(effect: Effect) -> bool:
    """Return whether a push goes to a remote by its name: a name that no one configured leads nowhere."""
    return effect.kind == "pushes" and not _ADDRESSED.search(effect.target)


def _names_of(target: str) -> list[str]:
    """Return a target, and the name at the end of a path unless it is a plain word. A command is no path."""
    last = target.rstrip("/").rpartition("/")[2]
    return [target] if last.isalpha() or " " in target else [target, last]


def is_named_by_user(target: str, trusted: TrustedText, *, trusted_only: bool = False) -> bool:
    """Return whether the user writes this target, or the file name at the end of a path, as a word of its own.

    With `trusted_only`, a text that is only vetted does not count.
    A plain word is no file name: a goal about a `config` parser does not mean `~/.kube/config`.
    """
    budget = WorkBudget(len(trusted.written))
    names = _names_of(target)
    # `user:ana@ours.example` is what the user calls ana@ours.example.
    kind, _, bare = target.partition(":")
    names += [bare] if kind.isalpha() and "@" in bare else []
    return any(
        len(name) > 3
        and trusted.contains_address(name.lower().encode("utf-8", "ignore"), budget, trusted_only=trusted_only)
        for name in names
    )
