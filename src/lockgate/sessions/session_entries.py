"""The stored form of a session: its blocks, marks, steps and rulings as values.

A session is one list of entries. Entries are numbered over all sessions of a store, in the order of storing. Every
process that reads the list from its beginning arrives at the same context, history and steps.
"""

from __future__ import annotations

import json
import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from typing import NamedTuple

from lockgate.core.errors import InvalidCall, quoted
from lockgate.core.ruling.effects.project import Project
from lockgate.core.text.scanner import MAX_TEXT
from lockgate.core.vocabulary import (
    Action,
    Certainty,
    Decision,
    Effect,
    Finding,
    Origin,
    Ran,
    Reason,
    Receipt,
    Risk,
    Severity,
)
from lockgate.gate.ledger_lines import LedgerEntry as Counted
from lockgate.runtime.strict_json import PORTABLE, check_limits
from lockgate.sessions.cost_report import escalation_outcome, percentile

MAX_ID = 200
MAX_META = 4_000
# One character more than the scanner reads, so that the scanner recognises a text that was cut.
MAX_CONTENT = MAX_TEXT + 1
# The context of a session that takes in more than this counts as unknown.
MAX_BLOCKS = 50_000
MAX_SIZE = 512 * 1024 * 1024
# Arguments are stored whole up to this many bytes of JSON; of larger ones each value is shortened.
MAX_ARGUMENTS = 1 << 20
_MAX_VALUE = 2_000
_MAX_VALUES = 200
# How many characters of one ruling a search covers.
_MAX_WORDS = 20_000
MAX_PAGE = 500


class EntrySort(StrEnum):
    BLOCK = "block"
    GOAL = "goal"
    RULING = "ruling"
    # From here on the context is known, or unknown.
    MARK = "mark"
    MODE = "mode"
    # What the project's files named when the session began; the first one counts.
    PROJECT = "project"
    STEP = "step"


# The mark of a session that another client had opened before its owner came: its context is unknown.
CLAIMED = "unknown: claimed"

# Entries with a place in the context: they share one count, which gives their ids.
BLOCKS = frozenset({EntrySort.BLOCK, EntrySort.GOAL})


class SearchableRuling(NamedTuple):
    """The parts of a ruling that a search covers."""

    id: str
    host: str
    tool: str
    action: str
    tier: int
    reason: str
    rules: str
    latency_us: float
    cost_usd: float
    approval: str
    # The answers above Tier 1, as `tier:said`.
    said: str
    # The names and values in the call, in lower case, for full-text search.
    words: str
    # The outcome of the call, if it is known already.
    ran: str = ""


class SessionEntry(NamedTuple):
    """An entry to store. Except for rulings, a `key` is stored once; `detail` is ASCII JSON."""

    sort: EntrySort
    at: float
    key: str = ""
    content: bytes = b""
    detail: str = ""
    ruled: SearchableRuling | None = None


class SessionRow(NamedTuple):
    """An entry as it is stored: `session` is the session's number, `n` counts its blocks, rulings or other entries."""

    seq: int
    session: int
    n: int
    sort: str
    at: float
    key: str
    content: bytes
    detail: str
    id: str = ""
    ran: str = ""


class EntryPlace(NamedTuple):
    """Where an entry was stored; `last` is the newest earlier entry in the sessions that the caller named."""

    seq: int
    n: int
    last: int
    # Whether an entry with the same key existed already.
    again: bool = False


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """One session as it is stored. `number` increases with every session of a store."""

    id: str
    host: str = "api"
    goal: str = ""
    mode: str = ""
    scope: str = ""
    parent: str = ""
    meta: Mapping[str, str] = field(default_factory=dict)
    created_at: float = 0.0
    seen_at: float = 0.0
    ended_at: float = 0.0
    context_known: bool = True
    # Whether a person has been asked for an approval in this session.
    asked: bool = False
    blocks: int = 0
    decisions: int = 0
    size: int = 0
    number: int = 0


@dataclass(frozen=True, slots=True)
class StoredRuling:
    """One ruled call as it is stored. A `seq` of 0 means that it could not be stored.

    `context` is how many blocks of the session the ruling saw. `ran` is what the host reported afterwards: `ran`,
    `failed`, `not-run`, or empty. `whole` is False if the arguments were too large to store in full; `args_sha256` is
    then the hash of all of them, as in the journal. `damaged` is True if the stored row cannot be read.
    """

    id: str
    seq: int
    session: str
    host: str
    number: int
    at: float
    key: str
    tool: str
    arguments: dict[str, object]
    annotations: dict[str, object] | None
    decision: Decision
    context: int
    ran: str = ""
    whole: bool = True
    args_sha256: str = ""
    damaged: bool = False


RAN = ("ran", "failed", "not-run")


class RulingFilter(NamedTuple):
    """Which rulings to return: with `after` the oldest first, otherwise the newest first."""

    session: str = ""
    action: str = ""
    tier: int = 0
    tool: str = ""
    rule: str = ""
    host: str = ""
    q: str = ""
    after: int = 0
    before: int | None = None
    limit: int = 50


def check_name(text: object, what: str) -> str:
    """Return a session's id or an entry's key; raise InvalidCall unless it is short printable text."""
    if not isinstance(text, str) or not text or len(text) > MAX_ID or not text.isprintable():
        raise InvalidCall(f"{what} must be 1 to {MAX_ID} visible characters, not {quoted(text)}")
    if text in (".", ".."):
        # Browsers remove these segments from a URL before the request.
        raise InvalidCall(f"{what} must be more than dots, not {quoted(text)}")
    return text


def storable_text(text: str, most: int = MAX_ID) -> str:
    """Return a foreign text in a form that every store can hold, for searching."""
    return text[:most].replace("\0", "\N{SYMBOL FOR NULL}").encode("utf-8", "replace").decode()


def encode_text(text: str) -> bytes:
    """Return the text as bytes without loss; lone surrogates are kept."""
    return text.encode("utf-8", "surrogatepass")


def decode_text(data: bytes) -> str:
    """Return the text that `encode_text` encoded."""
    return bytes(data).decode("utf-8", "surrogatepass")


def _as_object(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError("not JSON")


to_json = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), default=_as_object).encode


def ruling_to_json(
    tool: str,
    arguments: Mapping[str, object],
    annotations: Mapping[str, object] | None,
    decision: Decision,
    context: int,
    hash_all: Callable[[], str] = str,
) -> str:
    """Return a ruling as JSON for a store. `hash_all` computes the hash of arguments that are too large to store."""
    receipt = decision.receipt
    at = None if receipt is None else (receipt.origin, receipt.index, receipt.leaf_hash.hex())
    ruling = (*decision[:-1], at)
    try:
        text = to_json((tool, arguments, annotations, ruling, context, True))
        if len(text) <= MAX_ARGUMENTS:
            check_limits(text, PORTABLE)
            return text
    except (TypeError, ValueError, RecursionError):
        pass
    left = [_MAX_VALUES]
    cut = _shorten(arguments, left, 0), _shorten(annotations, left, 0)
    return to_json((_shorten(tool, left, 0), *cut, ruling, context, False, hash_all()))


def _shorten(value: object, left: list[int], depth: int) -> object:
    left[0] -= 1
    if left[0] < 0 or depth > 8:
        return "…"
    if isinstance(value, str):
        return value if len(value) <= _MAX_VALUE else f"{value[:_MAX_VALUE]}…"
    if isinstance(value, Mapping):
        items = list(value.items())[: max(0, left[0])]
        return {str(key)[:_MAX_VALUE]: _shorten(item, left, depth + 1) for key, item in items}
    if isinstance(value, list | tuple):
        return [_shorten(item, left, depth + 1) for item in value[: max(0, left[0])]]
    if value is None or isinstance(value, bool | float):
        return value
    return value if isinstance(value, int) and value.bit_length() < 2_048 else "…"


def searchable_ruling(id: str, host: str, tool: str, decision: Decision, arguments: object = None) -> SearchableRuling:
    rules = " ".join(dict.fromkeys(found.rule.replace(" ", "_") for found in decision.findings))
    sources = dict.fromkeys(origin.source for origin in decision.origins)
    values = islice(_searchable_parts(arguments), _MAX_VALUES)
    return SearchableRuling(
        id,
        host,
        storable_text(tool),
        decision.action.value,
        decision.tier,
        decision.reason.value,
        storable_text(f" {rules} ", 4_000) if rules else "",
        decision.latency_us,
        decision.cost_usd,
        decision.approval,
        " ".join(f"{ran.tier}:{ran.said}" for ran in decision.judged),
        searchable_text(" ".join((tool, decision.reason.value, rules, decision.explanation, *sources, *values))),
    )


def searchable_text(text: str) -> str:
    """Return the case-folded form in which texts are stored for search and search words are compared."""
    if text.isascii() and "\0" not in text:
        return text[:_MAX_WORDS].lower()
    return storable_text(text, _MAX_WORDS).casefold()


def _searchable_parts(value: object, left: int = 8) -> Iterator[str]:
    """Yield the names and values that a search covers."""
    if isinstance(value, str):
        yield value[:_MAX_WORDS]
    elif isinstance(value, dict | Mapping):
        for name, inner in islice(value.items(), _MAX_VALUES):
            yield str(name)[:_MAX_VALUE]
            if type(inner) is str:
                yield inner[:_MAX_WORDS]
            elif left:
                yield from _searchable_parts(inner, left - 1)
    elif isinstance(value, list | tuple):
        for inner in value[:_MAX_VALUES]:
            if left:
                yield from _searchable_parts(inner, left - 1)
    elif isinstance(value, float) or (isinstance(value, int) and value.bit_length() < 2_048):
        yield str(value)


def decision_from_json(value: Sequence[object]) -> Decision:
    """Return the stored decision; raise ValueError for any other value, since a store's file may hold anything."""
    try:
        (
            action,
            tier,
            reason,
            risk,
            explanation,
            findings,
            origins,
            correction,
            approval,
            judged,
            *later,
            latency,
            at,
        ) = value
        receipt = None if at is None else Receipt(at[0], at[1], bytes.fromhex(at[2]))  # type: ignore[index]
        return Decision(
            Action(str(action)),
            int(tier),  # type: ignore[call-overload]
            Reason(str(reason)),
            Risk(str(risk)),
            str(explanation),
            tuple(Finding(*found) for found in findings),  # type: ignore[attr-defined]
            tuple(Origin(*origin) for origin in origins),  # type: ignore[attr-defined]
            str(correction),
            str(approval),
            tuple(Ran(*ran) for ran in judged),  # type: ignore[attr-defined]
            # A ruling from before there were effects has none, and one from before there were widths no width.
            tuple(_effect_from_json(*each) for each in (later[0] if later else ())),  # type: ignore[attr-defined]
            str(later[1]) if len(later) > 1 else "",
            float(latency),  # type: ignore[arg-type]
            receipt,
        )
    except (TypeError, IndexError, AttributeError) as error:
        raise ValueError("not a ruling") from error


def _effect_from_json(
    kind: str, severity: int, target: str, certainty: str, argument: str, start: int, end: int
) -> Effect:
    return Effect(str(kind), Severity(severity), str(target), Certainty(certainty), str(argument), int(start), int(end))


def ruling_from_row(row: SessionRow, session: str, host: str) -> StoredRuling:
    """Return the ruling in a row; raise ValueError if the row holds none."""
    try:
        tool, arguments, annotations, ruling, context, whole, *hashed = json.loads(row.detail)
    except (TypeError, RecursionError) as error:
        raise ValueError("not a ruling") from error
    if not isinstance(arguments, dict) or not isinstance(annotations, dict | None):
        raise ValueError("not a ruling")
    return StoredRuling(
        row.id,
        row.seq,
        session,
        host,
        row.n,
        row.at,
        row.key,
        str(tool),
        arguments,
        annotations,
        decision_from_json(ruling),
        int(context),
        row.ran,
        whole is True,
        str(hashed[0]) if hashed else "",
    )


_DAMAGED = Decision(Action.PAUSE, 1, Reason.JOURNAL_UNAVAILABLE, Risk.HIGH, "this ruling is damaged in the store")


def damaged_ruling_from_row(row: SessionRow, session: str, host: str) -> StoredRuling:
    """Return a placeholder for a row that cannot be read. It has no key, so that it counts for no call."""
    return StoredRuling(
        row.id, row.seq, session, host, row.n, row.at, "", "", {}, None, _DAMAGED, 0, whole=False, damaged=True
    )


def project_to_json(project: Project) -> bytes:
    """Return what is known of a project, for a store."""
    names = (project.packages, project.hosts, project.tasks, project.programs)
    places = (project.root, project.folder, project.home)
    return to_json((*places, dict(project.remotes), *map(sorted, names))).encode()


def project_from_json(data: bytes) -> Project:
    """Return the stored project; raise ValueError for any other value."""
    try:
        root, folder, home, remotes, *names = json.loads(data)
        packages, hosts, tasks, programs = (frozenset(map(str, each)) for each in names)
        urls = {str(name): str(url) for name, url in remotes.items()}
    except (TypeError, AttributeError, ValueError, RecursionError) as error:
        raise ValueError("not a project") from error
    return Project(str(root), str(folder), str(home), packages, hosts, urls, tasks, programs)


class RulingTally(NamedTuple):
    """The parts of one ruling that the statistics count."""

    at: float
    tier: int
    action: str
    reason: str
    rules: str
    latency_us: float
    cost_usd: float
    said: str = ""
    tool: str = ""
    host: str = ""


@dataclass(frozen=True, slots=True)
class StatsBucket:
    """The rulings of one time interval: how many each tier settled, their latency and cost."""

    at: float
    tiers: tuple[int, int, int]
    actions: Mapping[str, int]
    # By tier: the median and the 99th percentile. A tier that settled nothing is left out.
    latency_us: Mapping[int, tuple[float, float]]
    cost_usd: float


class RuleCount(NamedTuple):
    """A rule and the outcomes of the calls it escalated."""

    rule: str
    escalations: int
    cleared: int
    upheld: int
    undecided: int


class NameCount(NamedTuple):
    """A tool, a host or a source, and how many calls it had; `held` of them were not let through."""

    name: str
    calls: int
    held: int


@dataclass(frozen=True, slots=True)
class Stats:
    since: float
    until: float
    bucket_s: float
    buckets: tuple[StatsBucket, ...]
    rules: tuple[RuleCount, ...]
    calls: int
    cost_usd: float
    tools: tuple[NameCount, ...] = ()
    hosts: tuple[NameCount, ...] = ()


MAX_BUCKETS = 2_000
MAX_RANKED = 50
# A client chooses the names of tools: more different ones than these are not told apart.
_MAX_NAMES = 5_000
_ACTIONS = frozenset(action.value for action in Action)


def stats_from_tallies(tallies: Iterable[RulingTally], *, since: float, until: float, bucket_s: float) -> Stats:
    """Return the statistics over these rulings; an interval without rulings has a bucket too."""
    if not (math.isfinite(since) and math.isfinite(bucket_s)) or bucket_s <= 0:
        raise InvalidCall("stats need a time in seconds, and buckets of a length above 0")
    bucket_s = max(bucket_s, (until - since) / MAX_BUCKETS)
    found: dict[int, tuple[list[array[float]], Counter[str], list[float]]] = {}
    outcomes: dict[str, Counter[str]] = {}
    tools: dict[str, list[int]] = {}
    hosts: dict[str, list[int]] = {}
    calls, cost = 0, 0.0
    for each in tallies:
        if each.action not in _ACTIONS:
            # A damaged row counts nowhere.
            continue
        place = int((each.at - since) // bucket_s)
        times, actions, costs = found.setdefault(
            place, ([array("d"), array("d"), array("d")], Counter(dict.fromkeys(Action, 0)), [0.0])
        )
        times[min(max(each.tier, 1), 3) - 1].append(each.latency_us)
        actions[Action(each.action)] += 1
        costs[0] += each.cost_usd
        calls, cost = calls + 1, cost + each.cost_usd
        held = each.action != Action.CONTINUE.value
        count_name(tools, each.tool, held=held)
        count_name(hosts, each.host, held=held)
        if each.tier > 1 or each.said:
            outcome = _tally_outcome(each)
            for rule in each.rules.split():
                outcomes.setdefault(rule, Counter())[outcome] += 1
    buckets = tuple(
        _bucket_from_counts(since + place * bucket_s, *found.get(place, ([array("d")] * 3, Counter(), [0.0])))
        for place in range(max(0, math.ceil((until - since) / bucket_s)))
    )
    rules = [
        RuleCount(rule, outcome.total(), outcome["cleared"], outcome["upheld"], outcome["undecided"])
        for rule, outcome in outcomes.items()
    ]
    ranked = tuple(sorted(rules, key=lambda each: (-each.cleared, -each.escalations, each.rule)))
    return Stats(since, until, bucket_s, buckets, ranked, calls, cost, rank_names(tools), rank_names(hosts))


def count_name(names: dict[str, list[int]], name: str, *, held: bool) -> None:
    if name and (name in names or len(names) < _MAX_NAMES):
        counts = names.setdefault(name, [0, 0])
        counts[0] += 1
        counts[1] += held


def rank_names(names: Mapping[str, Sequence[int]]) -> tuple[NameCount, ...]:
    """Return the names with the most calls, those with the most held ones first."""
    counted = (NameCount(name, calls, held) for name, (calls, held) in names.items())
    return tuple(sorted(counted, key=lambda each: (-each.held, -each.calls, each.name))[:MAX_RANKED])


def _tally_outcome(each: RulingTally) -> str:
    ran = [part.partition(":") for part in each.said.split()]
    judged = tuple(Ran(int(tier), said) for tier, _, said in ran)
    outcome = escalation_outcome(Counted(each.at, "", 1, "", each.action, each.tier, each.reason, "", (), judged, 0.0))
    return outcome if outcome in ("upheld", "undecided") else "cleared"


def _bucket_from_counts(
    at: float, times: Sequence[array[float]], actions: Mapping[str, int], costs: list[float]
) -> StatsBucket:
    latency = {
        tier: (percentile(ordered, 50), percentile(ordered, 99))
        for tier, ordered in enumerate(map(sorted, times), 1)
        if ordered
    }
    counts = {action.value: actions.get(action, 0) for action in Action}
    return StatsBucket(at, (len(times[0]), len(times[1]), len(times[2])), counts, latency, costs[0])
