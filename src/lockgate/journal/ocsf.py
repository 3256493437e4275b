"""Records for a SIEM: the Open Cybersecurity Schema Framework, version 1.5.0, class 2004 (Detection Finding).

A ruling and a verdict on a request each create a finding. So does a gap: an operator should learn that the journal
could not be written. The outcome of a question to a person updates or closes the finding of the ruling that asked:
both carry the question's id. A question that still waits is covered by that ruling. The other kinds of record are the
journal's bookkeeping and no findings.

`type_uid` is `class_uid` * 100 + `activity_id`; the ids and their captions are the schema's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

VERSION = "1.5.0"
CATEGORY, CLASS = 2, 2004
KINDS = ("ruling", "approval", "assess", "gap")

ACTIVITIES = {1: "Create", 2: "Update", 3: "Close"}
SEVERITIES = {1: "Informational", 2: "Low", 3: "Medium", 4: "High"}
STATUSES = {1: "New", 2: "In Progress", 4: "Resolved"}
RISKS = {1: "Low", 3: "High"}
# Of the profile `security_control`.
ACTIONS = {1: "Allowed", 2: "Denied"}
DISPOSITIONS = {1: "Allowed", 2: "Blocked", 8: "Approved"}
RULE, LEARNING = (1, "Rule"), (4, "Learning (ML/DL)")

Fields = Mapping[str, object]


def finding_from_record(
    fields: Fields, *, origin: str, index: int, leaf_hash: bytes, software: str
) -> dict[str, object] | None:
    """Return the event for one record of the journal, or None for a record that is no finding."""
    kind = fields["kind"]
    if kind not in KINDS or fields.get("state") == "waiting":
        return None
    make = {"ruling": _ruling, "approval": _approval, "assess": _assess, "gap": _gap}[str(kind)]
    event = make(fields, f"{origin}/{index}")
    ts_ms = fields["ts_ms"]
    info = event["finding_info"]
    if not isinstance(info, dict):
        raise TypeError("a finding without its information")
    info["created_time"] = ts_ms
    activity = event["activity_id"]
    control = "action_id" in event
    return {
        **event,
        "category_uid": CATEGORY,
        "category_name": "Findings",
        "class_uid": CLASS,
        "class_name": "Detection Finding",
        "type_uid": CLASS * 100 + _id(activity),
        "type_name": f"Detection Finding: {ACTIVITIES[_id(activity)]}",
        "activity_name": ACTIVITIES[_id(activity)],
        "severity": SEVERITIES[_id(event["severity_id"])],
        "status": STATUSES[_id(event["status_id"])],
        "time": ts_ms,
        "metadata": {
            "version": VERSION,
            "product": {"name": "Lockgate", "vendor_name": "Lockgate", "version": software},
            "profiles": ["security_control"] if control else [],
            "log_name": origin,
            "log_provider": "lockgate",
            # `lockgate audit prove` and a receipt identify the record by this hash.
            "uid": leaf_hash.hex(),
            "sequence": index,
            "event_code": str(fields.get("reason") or fields.get("state") or kind),
            **({"correlation_uid": fields["session"]} if "session" in fields else {}),
        },
        # The whole record as it was signed: hashes and names only.
        "unmapped": {"record": dict(fields)},
    }


def _ruling(fields: Fields, uid: str) -> dict[str, object]:
    action, risk = str(fields["action"]), str(fields["risk"])
    allowed = action == "CONTINUE"
    approved = allowed and fields["reason"] in ("approved", "granted")
    severity = 1 if allowed else 4 if action == "PAUSE" and risk == "high" else 3
    permitted = 1 if allowed else 2
    disposition = 8 if approved else permitted
    risk_level = 3 if risk == "high" else 1
    said = f"{action}: {fields['tool']} in session {fields['session']}, {fields['reason']}"
    rules = _texts(fields["rules"])
    by = str(fields["tier3_by"] or fields["tier2_by"])
    return {
        # A call that runs because a person approved it updates the finding of the ruling that asked.
        "activity_id": 2 if approved else 1,
        "severity_id": severity,
        "status_id": 4 if allowed else 1,
        "is_alert": not allowed,
        "message": said,
        "action_id": permitted,
        "action": ACTIONS[permitted],
        "disposition_id": disposition,
        "disposition": DISPOSITIONS[disposition],
        "risk_level_id": risk_level,
        "risk_level": RISKS[risk_level],
        "policy": {"name": f"lockgate {fields['mode']}", "uid": str(fields["policy_sha256"])},
        "resources": [{"name": str(fields["tool"]), "type": "tool"}],
        "finding_info": {
            "uid": str(fields["approval"]) or uid,
            "title": f"tool call ruled {action}",
            "desc": said,
            "types": [str(fields["reason"])],
            **_analytics(rules, by, str(fields["reason"])),
        },
    }


def _approval(fields: Fields, uid: str) -> dict[str, object]:
    state, who = str(fields["state"]), str(fields["who"])
    ended = state in ("denied", "expired", "used", "voided", "grant-revoked")
    said = f"approval {state}" + (f" by {who}" if who else "")
    return {
        "activity_id": 3 if ended else 2,
        "severity_id": 1,
        "status_id": 4 if ended else 2,
        "message": said,
        "finding_info": {
            "uid": str(fields["approval"]),
            "uid_alt": uid,
            "title": said,
            "types": [f"approval-{state}"],
        },
    }


def _assess(fields: Fields, uid: str) -> dict[str, object]:
    verdict = str(fields["verdict"])
    said = f"request judged {verdict}, {fields['reason']}: {fields['acted']}"
    return {
        "activity_id": 1,
        "severity_id": {"safe": 1, "unclear": 3}.get(verdict, 4),
        "status_id": 4 if verdict == "safe" else 1,
        "is_alert": verdict != "safe",
        "message": said,
        "finding_info": {
            "uid": uid,
            "title": f"request judged {verdict}",
            "desc": said,
            "types": [str(fields["reason"])],
            **_analytics(_texts(fields["rules"]), str(fields["by"]), str(fields["reason"])),
        },
    }


def _gap(fields: Fields, uid: str) -> dict[str, object]:
    said = f"events {fields['first']} to {fields['last']} of run {fields['run']} could not be recorded"
    return {
        "activity_id": 1,
        "severity_id": 4,
        "status_id": 1,
        "is_alert": True,
        "message": said,
        "finding_info": {"uid": uid, "title": "the journal could not be written", "desc": said, "types": ["gap"]},
    }


def _analytics(rules: Sequence[str], by: str, reason: str) -> dict[str, object]:
    """Return what led to the ruling: the rules that fired, else the model that was asked, else the reason."""
    found = [_analytic(rule, *RULE) for rule in rules]
    found += [_analytic(by, *LEARNING)] if by else []
    first, *others = found or [_analytic(reason, *RULE)]
    return {"analytic": first, **({"related_analytics": others} if others else {})}


def _analytic(name: str, type_id: int, caption: str) -> dict[str, object]:
    return {"name": name, "uid": name, "type_id": type_id, "type": caption}


def _texts(value: object) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else []


def _id(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError("an id that is no number")
    return value
