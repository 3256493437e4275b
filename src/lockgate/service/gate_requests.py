"""What the abuse gates judged, and whom they banned: read from the journal and the stores that the gates share.

The gates may run in other processes. The service shows what it can read, and says where it can read nothing. Every
route here is for people: an agent must neither learn what was found in a request nor lift a ban.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lockgate.abuse_gate.ban_stores import ban_state
from lockgate.core.errors import InvalidConfig, LockgateError
from lockgate.core.requests.strikes import is_incident_id
from lockgate.journal.record import sha256_hex
from lockgate.journal.record_search import (
    Fields,
    StoredRecord,
    find_incident,
    joined_records,
    newest_requests,
    position_of,
    record_at,
    request_at,
    shared_ids,
)
from lockgate.service.http import Problem, Request
from lockgate.service.journal_proofs import log_of

if TYPE_CHECKING:
    from lockgate.journal.log import Snapshot
    from lockgate.service.app import Api
    from lockgate.sessions import StoredRuling

LIFTED = "ban-lifted"
OUTCOMES = ("passed", "refused", "lifted")
_NO_BANS = (
    "this service knows no store of bans: ABUSE_STORE and ABUSE_BANS_FILE are not set for it, and a gate without them "
    "keeps its bans in its own memory"
)
_MAX_POSITION = 16


# Requests


def list_requests(api: Api, request: Request) -> object:
    asked = request.query
    with log_of(api.host.gate).store.reading() as log:
        page = newest_requests(
            log, lambda fields: _matches(fields, asked), limit=asked.get("limit", 50), before=asked.get("before")
        )
    return {"requests": [request_view(at, stored) for at, stored in page.requests], "next": page.next}


def one_request(api: Api, request: Request) -> object:
    """One request with the rulings that share an id with it."""
    name = request.params["request"]
    with log_of(api.host.gate).store.reading() as log:
        found = _find_request(log, name)
        if found is None:
            raise Problem(
                404,
                "no-such-request",
                "the journal has no record of this request",
                hint="an incident's id, or the position of a record, as /v1/requests has them",
            )
        joined = joined_records(log, found)
        view = request_view(position_of(log, found), found)
    return {**view, "joined": [_ruling_view(found, each) for each in joined]}


def requests_of_ruling(api: Api, kept: StoredRuling) -> object:
    """The requests that share an id with a ruling."""
    receipt = kept.decision.receipt
    if receipt is None:
        raise Problem(404, "no-receipt", "this ruling is not in the journal", hint="the journal was off or failed then")
    with log_of(api.host.gate).store.reading() as log:
        found = record_at(log, receipt.origin, receipt.index)
        joined = [] if found is None else joined_records(log, found)
        views = [request_view(position_of(log, each), each) for each in joined]
    return {"requests": views}


def request_view(position: int, stored: StoredRecord) -> dict[str, Any]:
    """A request's record as it is shown. Records hold hashes, numbers and names, and no text of a client."""
    fields = stored.fields
    action, _, named = str(fields.get("acted", "")).partition(":")
    incident = named if is_incident_id(named) else ""
    ts_ms, rules = fields.get("ts_ms"), fields.get("rules")
    return {
        "id": incident or str(position),
        "origin": stored.origin,
        "index": stored.at,
        "leaf_hash": stored.leaf.hex(),
        "at": ts_ms / 1000 if isinstance(ts_ms, int) else 0.0,
        "action": action,
        "incident": incident,
        "rules": rules if isinstance(rules, list) else [],
        "strikes": fields.get("strikes"),
        **{name: fields.get(name, "") for name in ("verdict", "reason", "by", *_NAMED)},
        "wrong": stored.wrong,
    }


_NAMED = ("subject", "standing", "trace", "conversation_sha256")


def _ruling_view(found: StoredRecord, ruling: StoredRecord) -> dict[str, Any]:
    fields = ruling.fields
    ts_ms = fields["ts_ms"]
    return {
        "origin": ruling.origin,
        "index": ruling.at,
        "at": ts_ms / 1000 if isinstance(ts_ms, int) else 0.0,
        **{name: fields[name] for name in ("session", "tool", "action", "tier", "reason")},
        "shared": shared_ids(found.fields, fields),
    }


def _find_request(log: Snapshot, name: str) -> StoredRecord | None:
    if is_incident_id(name):
        return next(iter(find_incident(log, name)), None)
    is_position = name.isascii() and name.isdigit() and len(name) <= _MAX_POSITION
    return request_at(log, int(name)) if is_position else None


def _matches(fields: Fields, asked: Mapping[str, Any]) -> bool:
    action, _, named = str(fields["acted"]).partition(":")
    outcome = "lifted" if action == LIFTED else "refused" if is_incident_id(named) else "passed"
    session = asked.get("session", "")
    return (
        asked.get("outcome", outcome) == outcome
        and asked.get("verdict", fields["verdict"]) == fields["verdict"]
        and str(fields.get("subject", "")).startswith(asked.get("subject", ""))
        and asked.get("trace", "") in ("", fields.get("trace"))
        and (not session or sha256_hex(session) == fields.get("conversation_sha256"))
    )


# Bans


def list_bans(api: Api, request: Request) -> object:
    """The clients that are locked or quarantined now, those with the most time left first."""
    said: dict[str, Any] = {"state": "none", "said": _NO_BANS, "total": 0, "bans": []}
    try:
        stores = api.ban_stores()
        banned = {} if stores is None else stores.list_bans()
    except LockgateError as error:
        return {**said, "state": "unavailable", "said": f"{error.message}. {error.hint}".removesuffix(". ")}
    if stores is None:
        return said
    start = request.query.get("offset", 0)
    shown = sorted(banned.items(), key=lambda each: -ban_state(each[1])[1])
    states = ((key, *ban_state(known)) for key, known in shown[start : start + request.query.get("limit", 50)])
    bans = [{"subject": key, "standing": str(standing), "left_s": round(left_s, 1)} for key, standing, left_s in states]
    return {"state": "read", "said": "", "total": len(banned), "bans": bans}


def lift_ban(api: Api, request: Request) -> object:
    """Lift a ban; the journal records it, and who lifted it, before it is done."""
    key = request.params["subject"]
    try:
        stores = api.ban_stores()
    except InvalidConfig as error:
        # The service's own settings are at fault, and not what was sent.
        raise Problem(503, "unavailable", error.message, hint=error.hint) from None
    if stores is None:
        raise Problem(404, "no-bans", _NO_BANS)
    if key not in stores.list_bans():
        raise Problem(404, "not-banned", "no client is banned under this hash", hint="/v1/bans lists those that are")
    who = "-".join((request.body.get("who", "").strip() or api.default_name).split())
    stores.lift(key, api.host.gate.journal, by=f"lockgate-serve:{who}")
    return {"subject": key, "lifted": True}
