"""Retention: which records are old enough to delete, and deleting their bodies.

A record's age is the time that the record itself states. A record may go only if all records before it are as old.
Leaves always stay, and so do the records that link shards and those that say what was deleted.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from itertools import islice

from lockgate.core.errors import InvalidRecord, LockgateError
from lockgate.journal.log import Shard, Snapshot, Store, append_leaf, log_damaged, newest_head
from lockgate.journal.merkle import Frontier, leaf_hash
from lockgate.journal.record import parse_record
from lockgate.journal.signed_notes import Verify

DAY_MS = 86_400_000
# Bodies are deleted in small transactions: no append waits until a year of records is gone.
_SWEPT_AT_ONCE = 512


def record_time_ms(log: Snapshot, shard: int, index: int) -> int:
    """Return the time that a record states; 0 if the record cannot be read."""
    _, body = next(log.bodies(shard, index, index + 1), (-1, b""))
    return _time_of_body_ms(body)


def _time_of_body_ms(body: bytes) -> int:
    try:
        found = parse_record(body)["ts_ms"]
    except LockgateError:
        return 0
    return found if isinstance(found, int) else 0


def find_old_records(log: Snapshot, old_ms: int, verify: Verify) -> dict[int, int]:
    """Return, by shard, the index below which all records are older than this; shards without any are left out."""
    found = {shard.number: _find_end_of_old_records(log, shard, old_ms, verify) for shard in log.shards()}
    return {number: before for number, before in found.items() if before}


def _find_end_of_old_records(log: Snapshot, shard: Shard, old_ms: int, verify: Verify) -> int:
    """Return the index below which all records are older than this; 0 if there is nothing to delete.

    Believe only records that hash to the newest signed head: an attacker who can write the store could otherwise give
    records an old time and have them deleted.
    """
    start = max(1, shard.pruned)
    if start >= shard.size or record_time_ms(log, shard.number, start) >= old_ms:
        return 0
    _, head = newest_head(log, shard, verify)
    frontier, before, old = Frontier(), start, True
    bodies = log.bodies(shard.number, start, head.size)
    for index, leaf in log.leaves(shard.number, 0, head.size):
        if index != frontier.size:
            break
        append_leaf(frontier, leaf)
        if old and index >= start:
            at, body = next(bodies, (-1, b""))
            if at != index or leaf_hash(body) != leaf:
                raise log_damaged(f"record {index} is missing, or not what was appended")
            old = _time_of_body_ms(body) < old_ms
            before += old
    if frontier.size != head.size or frontier.root() != head.root:
        raise log_damaged(f"the first {head.size} records are not those of the newest head")
    return before if before > start else 0


def has_overdue_records(log: Snapshot, overdue_ms: int) -> bool:
    """Return whether the first record that can be deleted, in any shard, is older than this."""
    first = ((each, max(1, each.pruned)) for each in log.shards())
    return any(record_time_ms(log, each.number, at) < overdue_ms for each, at in first if at < each.size)


def is_clock_plausible(log: Snapshot, now_ms: int, retention_days: int) -> bool:
    """Return whether the log agrees with the clock: it has a record that is a day to a month old, and none to come.

    A clock that jumped ahead would make all records old at once, so that record must be one that is kept. If records
    are kept for one day only, half a day is old enough. Records lie in the order they were stored, so a binary search
    finds the newest record of that age; if the clocks of several hosts differ, it finds one near it.
    """
    most_ms = min(31, retention_days) * DAY_MS
    least_ms = min(DAY_MS, most_ms // 2)
    shards = log.shards()
    if not shards or record_time_ms(log, shards[-1].number, shards[-1].size - 1) > now_ms + DAY_MS:
        return False
    for shard in reversed(shards):
        there = range(max(1, shard.pruned), shard.size)
        if at := bisect_right(
            there,
            now_ms - least_ms,
            key=lambda index, of=shard.number: record_time_ms(log, of, index),  # type: ignore[misc]
        ):
            return record_time_ms(log, shard.number, there[at - 1]) >= now_ms - most_ms
    return False


def sweep_bodies(store: Store, check_seals: Callable[[list[Shard]], None], is_closed: Callable[[], bool]) -> None:
    """Delete the bodies that retention released, in small transactions; a later call continues an interrupted one."""
    with store.reading() as log:
        shards = log.shards()
    check_seals(shards)
    pruned = {each.origin: each.pruned for each in shards}
    for shard in shards:
        # The first record of a shard, and the last one of a closed shard, link it to the others.
        start, stop = 1, min(shard.pruned, shard.size if shard is shards[-1] else shard.size - 1)
        while not is_closed():
            with store.reading() as log:
                bodies = list(islice(log.bodies(shard.number, start, stop), _SWEPT_AT_ONCE))
            if not bodies:
                break
            with store.writing(durable=False) as change:
                change.sweep(shard.number, [at for at, body in bodies if not _explains_deletion(body, pruned)])
            start = bodies[-1][0] + 1


def _explains_deletion(body: bytes, pruned: Mapping[str, int]) -> bool:
    """Return whether this is the newest prune record of a shard: it says why other records are gone."""
    # Canonical JSON escapes quotes within text, so only a prune record contains this: most records need no parsing.
    if b'"kind":"prune"' not in body:
        return False
    try:
        fields = parse_record(body)
    except InvalidRecord:
        return False
    before = fields["before"]
    return isinstance(before, int) and before >= pruned.get(str(fields["origin"]), 0)
