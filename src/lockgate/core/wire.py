"""The vocabulary as JSON-ready values: the one place that names the JSON keys other programs read."""

from __future__ import annotations

from lockgate.core.vocabulary import Block, Decision, Effect, Finding, Lineage, Origin, Ran, Receipt

# Moves when a key changes its meaning or goes away; a new key alone does not move it.
SCHEMA = "lockgate/1"


def decision_to_dict(decision: Decision) -> dict[str, object]:
    """Return a decision as a JSON object."""
    return {
        "action": decision.action.value,
        "tier": decision.tier,
        "reason": decision.reason.value,
        "risk": decision.risk.value,
        "explanation": decision.explanation,
        "findings": [finding_to_dict(finding) for finding in decision.findings],
        "origins": [origin_to_dict(origin) for origin in decision.origins],
        "effects": [effect_to_dict(effect) for effect in decision.effects],
        "correction": decision.correction,
        "approval": decision.approval,
        "width": decision.width,
        "tiers": [tier_to_dict(ran) for ran in decision.tiers],
        "cost_usd": round(decision.cost_usd, 9),
        "latency_us": round(decision.latency_us, 3),
        "receipt": None if decision.receipt is None else receipt_to_dict(decision.receipt),
    }


def receipt_to_dict(receipt: Receipt) -> dict[str, object]:
    """Return a receipt as a JSON object."""
    return {"origin": receipt.origin, "index": receipt.index, "leaf_hash": receipt.leaf_hash.hex()}


def tier_to_dict(ran: Ran) -> dict[str, object]:
    """Return one tier's part of a decision as a JSON object."""
    return {
        "tier": ran.tier,
        "said": ran.said,
        "by": ran.by,
        "latency_us": round(ran.latency_us, 3),
        "tokens_in": ran.tokens_in,
        "tokens_out": ran.tokens_out,
        "cost_usd": None if ran.cost_usd is None else round(ran.cost_usd, 9),
        "cached": ran.cached,
        "exam": ran.exam,
    }


def finding_to_dict(finding: Finding) -> dict[str, object]:
    """Return a finding as a JSON object."""
    return {
        "rule": finding.rule,
        "where": finding.where,
        "start": finding.start,
        "end": finding.end,
        "reading": finding.reading,
        "excerpt": finding.excerpt,
    }


def origin_to_dict(origin: Origin) -> dict[str, object]:
    """Return an origin as a JSON object."""
    return {
        "argument": origin.argument,
        "value": origin.value,
        "block": origin.block,
        "source": origin.source,
        "start": origin.start,
        "end": origin.end,
        "how": origin.how,
        "order": origin.order,
        "sink": origin.sink,
        "known": origin.known,
    }


def effect_to_dict(effect: Effect) -> dict[str, object]:
    """Return an effect as a JSON object."""
    return {
        "kind": effect.kind,
        "severity": int(effect.severity),
        "target": effect.target,
        "certainty": effect.certainty.value,
        "argument": effect.argument,
        "start": effect.start,
        "end": effect.end,
    }


def block_to_dict(block: Block) -> dict[str, object]:
    """Return a block as a JSON object."""
    return {
        "id": block.id,
        "content": block.content,
        "trust": block.trust.word,
        "kind": block.kind.value,
        "mutable": block.mutable,
        "source": block.source,
        "digest": block.digest,
        "tainted_by": list(block.tainted_by),
    }


def lineage_to_dict(lineage: Lineage) -> dict[str, object]:
    """Return a lineage as nested objects; `build_lineage` bounds its depth, so recursion is safe."""
    return {
        "block": lineage.block,
        "parents": [lineage_to_dict(parent) for parent in lineage.parents],
        "cut": lineage.cut,
    }
