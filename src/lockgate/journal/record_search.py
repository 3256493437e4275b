"""Find records in a log: the newest requests, an incident, and what carries the same conversation or trace id.

No search reads a whole log. An incident's id tells its time, and the log is nearly in the order of time; joined records
are looked for in the neighbourhood only. An attacker who can write the log can write any record: one that does not
match the leaf beside it is marked as changed, and none of its fields are shown.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from lockgate.core.errors import InvalidRecord
from lockgate.core.requests.strikes import incident_time_ms
from lockgate.journal.exports import ExportRow
from lockgate.journal.merkle import leaf_hash
from lockgate.journal.record import parse_record, sha256_hex

if TYPE_CHECKING:
    from lockgate.journal.log import Shard, Snapshot

# Below and above every possible index.
START, END = -(2**63), 2**63 - 1
# How far around a place records are looked for, and how many records one page of requests reads at most.
NEAR, MAX_READ = 32_768, 32_768
MAX_JOINED = 50
_CHUNK = 1024
_ASSESS, _RULING = b'"kind":"assess"', b'"kind":"ruling"'
# In canonical bytes, neither can stand inside a text: there, quotes are escaped.
_TIME = re.compile(rb'"ts_ms":([0-9]{1,16}),"v":[12][,}]')
_SESSION = re.compile(rb'"session":"([^"\\]+)"')

Fields = Mapping[str, object]


class StoredRecord(NamedTuple):
    """One stored record: its place, its leaf, and its fields, or why they cannot be shown."""

    origin: str
    at: int
    leaf: bytes
    fields: Fields
    wrong: str = ""
    changed: bool = False


class RequestPage(NamedTuple):
    """Records of requests, the newest first, each with its position; `next` is where the next page begins."""

    requests: list[tuple[int, StoredRecord]]
    next: int | None


def read_rows(view: Snapshot, shard: Shard, start: int = START, stop: int = END) -> Iterator[ExportRow]:
    """Yield leaves and bodies together; a body without a leaf has an empty one, which the audit reports."""
    bodies = view.bodies(shard.number, start, stop)
    body = next(bodies, None)
    for at, leaf in view.leaves(shard.number, start, stop):
        while body is not None and body[0] < at:
            yield ExportRow(body[0], b"", body[1])
            body = next(bodies, None)
        if body is not None and body[0] == at:
            yield ExportRow(at, leaf, body[1])
            body = next(bodies, None)
        else:
            yield ExportRow(at, leaf, None)
    while body is not None:
        yield ExportRow(body[0], b"", body[1])
        body = next(bodies, None)


def record_from_row(shard: Shard, index: int, leaf: bytes, data: bytes) -> StoredRecord:
    changed = leaf_hash(data) != leaf
    try:
        fields = parse_record(data)
    except InvalidRecord as error:
        return StoredRecord(shard.origin, index, leaf, {}, error.message, changed)
    if changed:
        # The attacker who changed it wants its text to be read.
        return StoredRecord(shard.origin, index, leaf, {}, "its bytes do not hash to its leaf", changed)
    return StoredRecord(shard.origin, index, leaf, fields)


def end_of_bodies(view: Snapshot, shard: Shard, stop: int = END) -> int:
    """Return one more than the last index below `stop` with a body; the log's own claim of its size is not trusted."""
    low, high = 0, stop
    while low < high:
        middle = (low + high) // 2
        found = next(view.bodies(shard.number, middle, stop), None)
        if found is None:
            high = middle
        else:
            low = found[0] + 1
    return low


# Requests


def newest_requests(
    view: Snapshot, matches: Callable[[Fields], bool], *, limit: int, before: int | None = None
) -> RequestPage:
    """Return the newest matching requests before this position.

    A position counts the records of all shards, so it never changes. A page may be short, or empty, and not the last.
    """
    shards = view.shards()
    firsts = [0, *accumulate(shard.size for shard in shards)]
    stop = firsts[-1] if before is None else min(before, firsts[-1])
    last, found = max(0, stop - MAX_READ), []
    while stop > last:
        number = bisect_right(firsts, stop - 1) - 1
        shard, first = shards[number], firsts[number]
        start = max(first, last, stop - _CHUNK)
        for at, leaf, data in reversed(list(read_rows(view, shard, start - first, stop - first))):
            if data is None or _ASSESS not in data:
                continue
            stored = record_from_row(shard, at, leaf, data)
            if stored.wrong or matches(stored.fields):
                found.append((first + at, stored))
                if len(found) == limit:
                    return RequestPage(found, first + at or None)
        stop = start
    return RequestPage(found, stop or None)


def request_at(view: Snapshot, position: int) -> StoredRecord | None:
    """Return the request at this position; None if there is none."""
    page = newest_requests(view, lambda _: True, limit=1, before=position + 1)
    return next((stored for at, stored in page.requests if at == position), None)


def position_of(view: Snapshot, found: StoredRecord) -> int:
    """Return the position of a record."""
    before = 0
    for shard in view.shards():
        if shard.origin == found.origin:
            break
        before += shard.size
    return before + found.at


def record_at(view: Snapshot, origin: str, index: int) -> StoredRecord | None:
    """Return the record at an index of the shard of this name; None if there is none, or it was deleted."""
    for shard in view.shards():
        if shard.origin == origin:
            for at, leaf, data in read_rows(view, shard, index, index + 1):
                return None if data is None else record_from_row(shard, at, leaf, data)
    return None


def find_incident(view: Snapshot, incident: str) -> list[StoredRecord]:
    """Return the records of an incident, looked for around the time that its id tells."""
    named, ending = incident.encode("ascii"), f":{incident}"
    for shard in reversed(view.shards()):
        place = _first_since(view, shard, incident_time_ms(incident))
        rows = read_rows(view, shard, max(0, place - NEAR), place + NEAR)
        stored = [record_from_row(shard, at, leaf, data) for at, leaf, data in rows if data and named in data]
        found = [each for each in stored if each.wrong or str(each.fields.get("acted", "")).endswith(ending)]
        if found:
            return found
    return []


def _first_since(view: Snapshot, shard: Shard, ts_ms: int) -> int:
    """Return about the first index with a record of this time or later; clocks of several processes differ a little."""
    low, high = 0, end_of_bodies(view, shard)
    while low < high:
        middle = (low + high) // 2
        found = next(view.bodies(shard.number, middle, high), None)
        time = _TIME.search(found[1]) if found is not None else None
        if found is not None and time is not None and int(time[1]) < ts_ms:
            low = found[0] + 1
        else:
            high = middle
    return low


# Joined records


def shared_ids(one: Fields, other: Fields) -> list[str]:
    """Return which ids two records share: `conversation`, `trace`. The clients choose both, so this proves nothing."""
    ids, others = _join_ids(one), _join_ids(other)
    return [name for name in ids if ids[name] and ids[name] == others.get(name)]


def joined_records(view: Snapshot, found: StoredRecord) -> list[StoredRecord]:
    """Return the rulings that share an id with a request, or the requests that share one with a ruling.

    Only the nearest `MAX_JOINED` of the `NEAR` records before and after it are returned, oldest first.
    """
    kind = found.fields.get("kind")
    ids = _join_ids(found.fields)
    shard = next((each for each in view.shards() if each.origin == found.origin), None)
    if shard is None or kind not in ("assess", "ruling") or not any(ids.values()):
        return []
    rows = [
        row
        for row in read_rows(view, shard, max(0, found.at - NEAR), found.at + NEAR)
        if row.data is not None and _may_share(row.data, ids, of_ruling=kind == "assess")
    ]
    rows.sort(key=lambda row: abs(row.at - found.at))
    near = (record_from_row(shard, at, leaf, data or b"") for at, leaf, data in rows[:MAX_JOINED])
    return sorted((each for each in near if shared_ids(found.fields, each.fields)), key=lambda each: each.at)


def _join_ids(fields: Fields) -> dict[str, str]:
    session = fields.get("session")
    named = session_sha256(str(session)) if session else str(fields.get("conversation_sha256", ""))
    return {"conversation": named, "trace": str(fields.get("trace", ""))}


@lru_cache(4096)
def session_sha256(label: str) -> str:
    """Return the hash of a session's name from the label that records have for it."""
    return label.removeprefix("sha256:") if label.startswith("sha256:") else sha256_hex(label)


def _may_share(data: bytes, ids: Mapping[str, str], *, of_ruling: bool) -> bool:
    """Return whether a record may share an id, without parsing it: most do not."""
    if (_RULING if of_ruling else _ASSESS) not in data:
        return False
    if ids["trace"] and ids["trace"].encode("ascii") in data:
        return True
    if not ids["conversation"]:
        return False
    if not of_ruling:
        return ids["conversation"].encode("ascii") in data
    session = _SESSION.search(data)
    return session is not None and session_sha256(session[1].decode("utf-8", "replace")) == ids["conversation"]
