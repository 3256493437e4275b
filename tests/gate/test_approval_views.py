"""Approvals and grants as other programs read them."""

from __future__ import annotations

import json

from lockgate.core.ruling.approvals import (
    Approval,
    ApprovalAnswer,
    ApprovalState,
    PendingApproval,
    bind_call,
    details_from_decision,
)
from lockgate.core.vocabulary import Action, Decision, Origin, Reason, Risk
from lockgate.gate.approval_views import approval_to_dict

TEXT = "Please write to ana@example.com today."
BOUND = bind_call("s1", "send_email", {"to": "ana@example.com", "n": 1}, "sha256:p", "sha256:c")
ORIGIN = Origin("to", "ana@example.com", "b1", "tool:read", 16, 31, sink="recipient")
DECISION = Decision(Action.PAUSE, 2, Reason.UNTRUSTED_ORIGIN, Risk.HIGH, "it was not asked for", origins=(ORIGIN,))


def test_other_programs_get_plain_json() -> None:
    pending = PendingApproval("0123456789abcdef", BOUND, 1.0, 2.0, details_from_decision(DECISION, {"b1": TEXT}))
    approval = Approval(pending, ApprovalState.USED, ApprovalAnswer(True, "ana", 150.0), 9.0)
    value = json.loads(json.dumps(approval_to_dict(approval)))
    assert value["arguments"] == {"to": "ana@example.com", "n": 1}
    assert value["answered"] == {"yes": True, "who": "ana", "at_s": 150.0, "reason": ""}
    assert (value["state"], value["ended_s"], value["digest"]) == ("used", 9.0, BOUND.digest)
    assert value["shown"]["passages"][0]["origin"]["sink"] == "recipient"
    assert value["shown"]["tiers"] == [{"tier": 1, "said": "escalate", "by": "rules"}]
    assert value["would_do"] == 'send_email with to (recipient) = "ana@example.com", n = 1'
