"""Approvals and grants as other programs read them, and grants in words."""

from __future__ import annotations

from collections.abc import Collection

from lockgate.core.ruling.approvals import Approval, arguments_from_canonical, describe_call
from lockgate.core.ruling.effects.effect import KINDS
from lockgate.core.ruling.grants import Grant, GrantOffer, GrantRule, GrantSpan, offers_from_pending, rule_to_dict
from lockgate.core.vocabulary import record_to_dict


def approval_to_dict(approval: Approval) -> dict[str, object]:
    """The keys that other programs read."""
    pending, answer = approval.pending, approval.answered
    shown = record_to_dict(pending.shown)
    replaces, files = shown.pop("replaces"), shown.pop("files")
    del shown["facts"]
    return {
        "id": pending.id,
        "state": approval.state.value,
        "session": pending.session,
        "tool": pending.tool,
        "arguments": arguments_from_canonical(pending.arguments),
        "would_do": describe_call(pending.bound),
        "digest": pending.digest,
        "policy": pending.policy_hash,
        "context": pending.bound.context,
        "files": files,
        "created_s": pending.created_s,
        "expires_s": pending.expires_s,
        "answered": answer and record_to_dict(answer),
        "ended_s": approval.ended_s or None,
        "why": approval.why,
        "replaces": replaces,
        "shown": shown,
        "offers": [offer_to_dict(offer) for offer in offers_from_pending(pending)],
        "barred": pending.shown.facts.barred,
    }


def offer_to_dict(offer: GrantOffer) -> dict[str, object]:
    return {"digest": offer.digest, "rule": rule_to_dict(offer.rule), "text": dict(describe_rule(offer.rule))}


def grant_to_dict(grant: Grant, in_force: Collection[str]) -> dict[str, object]:
    """Return the keys that other programs read; `in_force` are the hashes of the policies that sessions run under."""
    return {
        "id": grant.id,
        "digest": grant.digest,
        "made_by": grant.made_by,
        "made_at": grant.made_s,
        "expires_at": grant.rule.expires_s,
        "uses": grant.uses,
        "used_at": grant.used_s or None,
        "outdated": grant.rule.policy_hash not in in_force,
        "rule": rule_to_dict(grant.rule),
        "text": dict(describe_rule(grant.rule)),
    }


def describe_rule(rule: GrantRule) -> tuple[tuple[str, str], ...]:
    """Return a rule in words, by label. An attacker may have written parts: the caller shows odd characters."""
    does = [
        KINDS[kind].does.replace("{target}", target) if kind in KINDS else f"{kind} {target}"
        for kind, target in rule.effects
    ]
    where = {
        GrantSpan.SESSION: f"only session {rule.session}",
        GrantSpan.PROJECT: f"every session in {rule.project}",
        GrantSpan.ALWAYS: "every session in every project",
    }
    names = ", ".join(rule.names) or "none"
    exact = f"exactly the same {names}: {rule.arguments}"
    lines = {
        "tool": rule.tool,
        "like": rule.like,
        "does": "; ".join(does) or "nothing that Lockgate can tell",
        "with": exact if rule.arguments else f"values of {names} that fit the other lines; no other names",
        "runs": "; ".join(f"{path} {content}" for path, content in rule.files),
        "after": f"text of {', '.join(rule.sources)}" if rule.sources else "no untrusted text",
        "despite": ", ".join(rule.rules) or "no finding",
        "in": where[rule.span],
        "under": f"policy {rule.policy_hash}",
    }
    return tuple(line for line in lines.items() if line[0] != "runs" or rule.files)
