"""What is kept, as it is shown: rulings in short and in full, sessions, and what a person is asked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from lockgate.core.errors import InvalidCall
from lockgate.core.ruling.approvals import BoundCall, canonical_json, describe_call
from lockgate.core.ruling.explanations import CatalogueEntry, entry_for
from lockgate.core.vocabulary import build_lineage, decision_to_dict, record_to_dict
from lockgate.gate.approval_views import approval_to_dict
from lockgate.gate.ledger_lines import entry_from_decision
from lockgate.service.agent_access import without_grounds
from lockgate.sessions.cost_report import judged_to_dict, summarize_costs
from lockgate.sessions.session_entries import count_name, rank_names

if TYPE_CHECKING:
    from lockgate.core.ruling.approvals import Approval
    from lockgate.core.vocabulary import Block
    from lockgate.sessions import SessionInfo, Stats, StepInfo, StoredRuling
    from lockgate.sessions.session_entries import NameCount

# Of a block that is longer only this much is shown, around what was marked in it.
MOST_SHOWN = 64 * 1024
_MOST_BLOCKS = 200
MOST_LINE = 240


def ruling_view(kept: StoredRuling, *, told: bool = True) -> dict[str, Any]:
    """Return a ruling as its caller gets it; `told` says whether the caller may see what it rests on."""
    where = {"id": kept.id, "seq": kept.seq, "session": kept.session, "number": kept.number, "at": kept.at}
    return {**decision_to_dict(kept.decision if told else without_grounds(kept.decision)), **where}


def summary_view(kept: StoredRuling) -> dict[str, Any]:
    whole = decision_to_dict(kept.decision)
    names = ("action", "tier", "reason", "risk", "explanation", "approval", "cost_usd", "latency_us", "receipt")
    return {
        "id": kept.id,
        "seq": kept.seq,
        "session": kept.session,
        "host": kept.host,
        "at": kept.at,
        "tool": kept.tool,
        **{name: whole[name] for name in names},
        "rules": list(dict.fromkeys(found.rule for found in kept.decision.findings)),
        "would_do": _call_line(kept),
        "ran": kept.ran,
        "context": kept.context,
        "damaged": kept.damaged,
    }


def _call_line(kept: StoredRuling) -> str:
    """The call in one line, cut; empty where its arguments have no single form."""
    try:
        line = describe_call(BoundCall(kept.session, kept.tool, canonical_json(kept.arguments), "", ""))
    except InvalidCall:
        return ""
    return line if len(line) <= MOST_LINE else f"{line[:MOST_LINE]}…"


def detail_view(kept: StoredRuling, blocks: Iterable[Block], goal: str, approval: Approval | None) -> dict[str, Any]:
    """A ruling with everything it was made from: of the context, what it names and what that was made from."""
    known = {block.id: block for block in blocks}
    parents = {name: block.tainted_by for name, block in known.items()}
    marked: dict[str, list[tuple[int, int]]] = {}
    for found in kept.decision.findings:
        if found.where in known:
            marked.setdefault(found.where, []).append((found.start, found.end))
    for origin in kept.decision.origins:
        if origin.block in known:
            marked.setdefault(origin.block, []).append((origin.start, origin.end))
    trees = {name: build_lineage(name, parents) for name in list(marked)[:_MOST_BLOCKS]}
    # Also what they were made from, so that every node of a tree can be opened.
    left = [parent for name in trees for parent in parents[name]]
    named = dict.fromkeys(trees)
    while left and len(named) < _MOST_BLOCKS:
        name = left.pop()
        if name in known and name not in named:
            named[name] = None
            left += parents[name]
    rules = dict.fromkeys(found.rule for found in kept.decision.findings)
    return {
        **summary_view(kept),
        "number": kept.number,
        "arguments": kept.arguments,
        "whole": kept.whole,
        "annotations": kept.annotations,
        "decision": decision_to_dict(kept.decision),
        "blocks": {name: _shown_block(known[name], marked.get(name, ())) for name in named},
        "lineage": {name: record_to_dict(tree) for name, tree in trees.items()},
        "goal": goal,
        "rules": {rule: rule_to_dict(entry_for(rule)) for rule in rules},
        "approval": None if approval is None else approval_view(approval),
    }


def _shown_block(block: Block, spans: Iterable[tuple[int, int]]) -> dict[str, Any]:
    first = min((start for start, _ in spans), default=0)
    offset = 0
    if len(block.content) > MOST_SHOWN:
        offset = max(0, min(first - MOST_SHOWN // 4, len(block.content) - MOST_SHOWN))
    return {
        "content": block.content[offset : offset + MOST_SHOWN],
        "offset": offset,
        "length": len(block.content),
        "trust": block.trust.word,
        "kind": block.kind.value,
        "source": block.source,
        "tainted_by": list(block.tainted_by),
    }


def rule_to_dict(entry: CatalogueEntry) -> dict[str, str]:
    return asdict(entry)


def approval_view(approval: Approval) -> dict[str, Any]:
    told = approval_to_dict(approval)
    for old, new in (("created_s", "asked_at"), ("expires_s", "expires_at"), ("ended_s", "ended_at")):
        told[new] = told.pop(old)
    return told


def session_view(info: SessionInfo, *, told: bool = True, pauses: int | None = None) -> dict[str, Any]:
    """Return a session; `told` says whether the caller may see its goal and its scope."""
    return {
        **({} if pauses is None else {"pauses": pauses}),
        **({"goal": info.goal, "scope": info.scope} if told else {}),
        "id": info.id,
        "host": info.host,
        "mode": info.mode,
        "parent": info.parent,
        "number": info.number,
        "opened_at": info.created_at,
        "seen_at": info.seen_at,
        "ended_at": info.ended_at or None,
        "blocks": info.blocks,
        "decisions": info.decisions,
        "context_known": info.context_known,
    }


def step_view(found: StepInfo) -> dict[str, Any]:
    return {
        "session": found.session,
        "step": found.name,
        "goal": found.goal,
        "supervision": found.supervision,
        "state": found.state,
        "commitment": found.commitment,
        "triggers": list(found.triggers),
    }


def count_sources(held: Iterable[StoredRuling]) -> tuple[NameCount, ...]:
    """Return which sources the values of these held calls came from; each counts once for a call."""
    names: dict[str, list[int]] = {}
    for kept in held:
        for source in {origin.source for origin in kept.decision.origins if not origin.known}:
            count_name(names, source, held=True)
    return rank_names(names)


def count_judges(judged: Iterable[StoredRuling]) -> list[dict[str, object]]:
    """Return what each judge said of these calls, with its price and times."""
    lines = (entry_from_decision(kept.at, kept.session, 0, kept.tool, kept.decision) for kept in judged)
    return [judged_to_dict(each) for each in summarize_costs(lines).judges if each.by]


def stats_view(found: Stats, sources: Iterable[NameCount] = (), judges: Iterable[Any] = ()) -> dict[str, Any]:
    return {
        "since": found.since,
        "until": found.until,
        "bucket_s": found.bucket_s,
        "calls": found.calls,
        "cost_usd": found.cost_usd,
        "buckets": [
            {
                "at": bucket.at,
                "tiers": list(bucket.tiers),
                "actions": dict(bucket.actions),
                "latency_us": {
                    str(tier): {"p50": half, "p99": most} for tier, (half, most) in bucket.latency_us.items()
                },
                "cost_usd": bucket.cost_usd,
            }
            for bucket in found.buckets
        ],
        "rules": [each._asdict() for each in found.rules],
        "tools": [each._asdict() for each in found.tools],
        "hosts": [each._asdict() for each in found.hosts],
        "sources": [each._asdict() for each in sources],
        "judges": list(judges),
    }
