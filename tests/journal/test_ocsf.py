"""Events for a SIEM are what OCSF 1.5.0 says a Detection Finding is: its required fields, its ids, its captions.

The facts are those of github.com/ocsf/ocsf-schema at 1.5.0, written down here by hand.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from lockgate.core.vocabulary import Action, Decision, Finding, Ran, Reason, Risk
from lockgate.journal import ocsf, record

REQUIRED = {"activity_id", "category_uid", "class_uid", "finding_info", "metadata", "severity_id", "time", "type_uid"}
ACTIVITY = {0: "Unknown", 1: "Create", 2: "Update", 3: "Close", 99: "Other"}
SEVERITY = {0: "Unknown", 1: "Informational", 2: "Low", 3: "Medium", 4: "High", 5: "Critical", 6: "Fatal", 99: "Other"}
STATUS = {0: "Unknown", 1: "New", 2: "In Progress", 3: "Suppressed", 4: "Resolved", 5: "Archived", 6: "Deleted"}
RISK = {0: "Info", 1: "Low", 2: "Medium", 3: "High", 4: "Critical", 99: "Other"}
ACTION = {0: "Unknown", 1: "Allowed", 2: "Denied", 3: "Observed", 4: "Modified", 99: "Other"}
DISPOSITION = {0: "Unknown", 1: "Allowed", 2: "Blocked", 8: "Approved", 15: "Detected", 17: "Logged", 99: "Other"}
ANALYTIC = {0: "Unknown", 1: "Rule", 2: "Behavioral", 3: "Statistical", 4: "Learning (ML/DL)", 99: "Other"}
# Which attributes the class and the profile `security_control` have; anything else would be refused as unknown.
KNOWN = REQUIRED | {
    *("activity_name", "category_name", "class_name", "type_name", "severity", "status", "status_id", "message"),
    *("unmapped", "is_alert", "resources", "risk_level", "risk_level_id"),
    *("action", "action_id", "disposition", "disposition_id", "policy"),
}
CONTROL = {"action", "action_id", "disposition", "disposition_id", "policy"}
IN_INFO = {"uid", "uid_alt", "title", "desc", "types", "created_time", "analytic", "related_analytics"}
IN_METADATA = {
    *("version", "product", "profiles", "log_name", "log_provider", "uid", "sequence", "event_code"),
    "correlation_uid",
}

HEAD: dict[str, Any] = {"run": "1" * 16, "seq": 3, "ts_ms": 1_800_000_000_123, "salt": b"s" * 16}


def ruled(decision: Decision, **changes: Any) -> dict[str, object]:
    fields: dict[str, Any] = {
        "session": "session-1",
        "mode": "default",
        "tool": "send_email",
        "args_sha256": "ab" * 32,
        "blocks": [],
        "decision": decision,
        "policy_hash": "cd" * 32,
        "context_sha256": "ef" * 32,
    }
    return record.parse_record(record.ruling_bytes(**HEAD, **(fields | changes)))


def decided(action: Action, risk: Risk, reason: Reason = Reason.SUPERVISOR, **more: Any) -> Decision:
    return Decision(action, 3, reason, risk, **more)


FOUND = {"findings": (Finding("order:send", "b1", 0, 1), Finding("seed:forget", "b1", 0, 1)), "approval": "3f9a1c20"}
JUDGED = {"judged": (Ran(2, "suspicious", "openai/small"), Ran(3, "PAUSE", "openai/large"))}
RECORDS: dict[str, dict[str, object]] = {
    **{
        f"{action.value} {risk.value}": ruled(decided(action, risk, **FOUND, **JUDGED))
        for action in Action
        for risk in Risk
    },
    "a pass": ruled(Decision(Action.CONTINUE, 1, Reason.NO_RED_FLAGS, Risk.LOW)),
    "approved": ruled(decided(Action.CONTINUE, Risk.HIGH, Reason.APPROVED, approval="3f9a1c20"), approved_by="ana"),
    **{
        state: record.approval_record(**HEAD, session="s", id="3f9a1c20", state=state, digest="ab" * 32, who="ana")
        for state in ("granted", "denied", "expired", "used", "voided")
    },
    **{
        verdict: record.assess_record(
            **HEAD, payload_sha256="ab" * 32, verdict=verdict, reason="timeout", by="", acted="held", rules=["a:b"]
        )
        for verdict in ("safe", "unsafe", "unclear")
    },
    "gap": record.gap_record(**HEAD, first=1, last=2, reason="journal-unavailable"),
}
OTHERS = {
    "waiting": record.approval_record(**HEAD, session="s", id="3f9a1c20", state="waiting", digest="ab" * 32),
    "context": record.context_record(**HEAD, session="s", blocks=[]),
    "configuration": record.configuration_record(**HEAD, policy_hash="ab" * 32, software="lockgate"),
    "prune": record.prune_record(**HEAD, origin="o", before=3, retention_days=3),
    "rotation": record.rotation_record(**HEAD, next_vkey="v"),
    "opening": record.opening_record(**HEAD, origin="o"),
}


def event(fields: dict[str, object]) -> dict[str, Any]:
    record.encode_record(fields)
    found = ocsf.finding_from_record(
        fields, origin="example.com/log", index=7, leaf_hash=b"\xab" * 32, software="1.2.3"
    )
    assert found is not None
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", RECORDS)
def test_an_event_is_what_the_schema_says(name: str) -> None:
    made = event(RECORDS[name])
    assert REQUIRED <= made.keys() <= KNOWN
    assert (made["category_uid"], made["class_uid"]) == (2, 2004)
    assert made["type_uid"] == 2004 * 100 + made["activity_id"]
    assert made["type_name"] == f"Detection Finding: {made['activity_name']}"
    captions = (
        ("activity_id", "activity_name", ACTIVITY),
        ("severity_id", "severity", SEVERITY),
        ("status_id", "status", STATUS),
        ("risk_level_id", "risk_level", RISK),
        ("action_id", "action", ACTION),
        ("disposition_id", "disposition", DISPOSITION),
    )
    for id, caption, known in captions:
        assert (id in made) == (caption in made)
        assert id not in made or known[made[id]] == made[caption]
    # Milliseconds since 1970, as a whole number.
    assert made["time"] == 1_800_000_000_123
    metadata, info = made["metadata"], made["finding_info"]
    assert metadata["version"] == "1.5.0"
    assert metadata["product"]["name"] == "Lockgate"
    assert metadata.keys() <= IN_METADATA
    # A profile's fields stand only in an event that says it has the profile.
    assert ("security_control" in metadata["profiles"]) == bool(CONTROL & made.keys()) == (made.keys() >= CONTROL)
    assert info["uid"]
    assert info.keys() <= IN_INFO
    for analytic in [info[each] for each in ("analytic",) if each in info] + info.get("related_analytics", []):
        assert ANALYTIC[analytic["type_id"]] == analytic["type"]
        assert analytic["name"]
    assert made["unmapped"]["record"] == json.loads(record.encode_record(RECORDS[name]))


@pytest.mark.parametrize("name", OTHERS)
def test_bookkeeping_is_no_finding(name: str) -> None:
    found = ocsf.finding_from_record(OTHERS[name], origin="o", index=1, leaf_hash=b"", software="")
    assert found is None
    assert set(record.KINDS) == set(ocsf.KINDS) | {str(each["kind"]) for each in OTHERS.values()}


def test_only_what_may_run_is_called_allowed() -> None:
    for name in RECORDS:
        if RECORDS[name]["kind"] != "ruling":
            continue
        made = event(RECORDS[name])
        allowed = RECORDS[name]["action"] == "CONTINUE"
        assert made["action_id"] == (1 if allowed else 2)
        assert made["disposition_id"] in ((1, 8) if allowed else (2,))
        assert made["is_alert"] is not allowed
        assert made["severity_id"] == 1 if allowed else made["severity_id"] >= 3


def test_a_question_and_what_became_of_it_are_one_finding() -> None:
    asked, answered, ran = (event(RECORDS[name]) for name in ("PAUSE high", "granted", "approved"))
    assert asked["finding_info"]["uid"] == answered["finding_info"]["uid"] == ran["finding_info"]["uid"] == "3f9a1c20"
    assert [each["activity_name"] for each in (asked, answered, ran)] == ["Create", "Update", "Update"]
    assert event(RECORDS["denied"])["activity_name"] == "Close"
    assert event(RECORDS["a pass"])["finding_info"]["uid"] == "example.com/log/7"
