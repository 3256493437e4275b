"""Searches in the journal: bounded, across shards, and never a changed record as if it were whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from audited_logs import BASE_MS, NAME, a_ruling, changed

from lockgate.core.requests.strikes import incident_id
from lockgate.journal import keys, record, record_search
from lockgate.journal.journal import Journal
from lockgate.journal.log import Shard
from lockgate.journal.merkle import leaf_hash
from lockgate.journal.stores.sqlite import SqliteLog

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
INCIDENT = incident_id(BASE_MS + 5 * 60_000 - 7, b"0123456789")


def a_request(seq: int, acted: str = "allow", *, at_ms: int | None = None, **more: object) -> bytes:
    return record.encode_record(
        record.assess_record(
            run="2" * 16,
            seq=seq,
            ts_ms=BASE_MS + seq * 60_000 if at_ms is None else at_ms,
            salt=bytes(16),
            payload_sha256=record.sha256_hex(f"{seq}"),
            verdict="safe" if acted == "allow" else "unsafe",
            reason="rules",
            by="rules",
            acted=acted,
            more=more,
        )
    )


class Written:
    """A log in a file, and how to write and read it."""

    def __init__(self, path: Path) -> None:
        self.path, self.signer = path, keys.create(path.with_suffix(".key"), NAME)

    def __call__(self, records: list[bytes], *, rotate: bool = False) -> None:
        with self.journal() as journal:
            journal.append(records, durable=True)
            if rotate:
                self.signer = keys.create(self.path.with_suffix(".2.key"), f"{NAME}.2")
                journal.rotate(self.signer, who="ana")

    def journal(self) -> Journal:
        return Journal(SqliteLog(self.path), self.signer, verify=keys.verify, clock=lambda: BASE_MS / 1000)


@pytest.fixture
def log(tmp_path: Path) -> Written:
    return Written(tmp_path / "journal.db")


def everything(_: Any) -> bool:
    return True


def test_requests_are_paged_from_the_newest_across_shards(log: Written) -> None:
    log([a_request(1), a_ruling(1), a_request(2)], rotate=True)
    log([a_ruling(2), a_request(3), a_request(4)])
    with log.journal() as journal, journal.store.reading() as view:
        before, seen = None, []
        for _ in range(9):
            page = record_search.newest_requests(view, everything, limit=1, before=before)
            seen += [(at, stored.fields["seq"]) for at, stored in page.requests]
            before = page.next
            if before is None:
                break
        assert [seq for _, seq in seen] == [4, 3, 2, 1]
        for at, seq in seen:
            found = record_search.request_at(view, at)
            assert found is not None
            assert found.fields["seq"] == seq
        assert record_search.request_at(view, 0) is None
        assert record_search.request_at(view, 10**9) is None
        unsafe = record_search.newest_requests(view, lambda fields: fields["verdict"] == "unsafe", limit=9)
        assert unsafe == ([], None)


def test_an_incident_is_found_by_its_time_in_any_shard(log: Written) -> None:
    log([a_request(1), a_request(5, f"unsafe:{INCIDENT}", subject="0123456789ab")], rotate=True)
    log([a_request(seq) for seq in range(6, 40)])
    with log.journal() as journal, journal.store.reading() as view:
        (found,) = record_search.find_incident(view, INCIDENT)
        assert (found.origin, found.at, found.fields["subject"]) == (NAME, 2, "0123456789ab")
        assert record_search.find_incident(view, incident_id(BASE_MS, bytes(10))) == []
        assert record_search.find_incident(view, "7" + "Z" * 25) == []


def test_a_changed_incident_is_said_to_be_changed(log: Written) -> None:
    log([a_request(5, f"unsafe:{INCIDENT}"), a_request(6)])
    changed(log.path, "UPDATE bodies SET body = CAST(replace(body, 'rules', 'model') AS BLOB) WHERE number = 1")
    with SqliteLog(log.path).reading() as view:
        (found,) = record_search.find_incident(view, INCIDENT)
        assert (found.changed, found.fields) == (True, {})
        assert record_search.newest_requests(view, everything, limit=9).requests[1][1].changed


class LongLog:
    """A log of a million requests, one every millisecond, that counts what is read of it."""

    size = 1_000_000

    def __init__(self) -> None:
        self.read = 0

    def shards(self) -> list[Shard]:
        return [Shard(1, "x+y+z", self.size.to_bytes(8, "big"), b"", 0)]

    def bodies(self, shard: int, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
        for index in range(max(0, start), min(self.size, stop)):
            self.read += 1
            yield index, self.body(index)

    def body(self, index: int) -> bytes:
        acted = f"unsafe:{incident_id(BASE_MS + index, bytes(10))}" if index == 700_000 else "allow"
        return a_request(index + 1, acted, at_ms=BASE_MS + index)

    def leaves(self, shard: int, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
        for index in range(max(0, start), min(self.size, stop)):
            yield index, leaf_hash(self.body(index))


def test_no_search_reads_a_whole_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_search, "NEAR", 300)
    monkeypatch.setattr(record_search, "MAX_READ", 300)
    view: Any = LongLog()
    (found,) = record_search.find_incident(view, incident_id(BASE_MS + 700_000, bytes(10)))
    assert found.at == 700_000
    assert view.read < 1_000
    view.read = 0
    page = record_search.newest_requests(view, lambda _: False, limit=5)
    assert page.next == view.size - 300
    view.read = 0
    fields = record.parse_record(a_request(1, trace=TRACE))
    stored = record_search.StoredRecord("x", 500_000, bytes(32), fields)
    assert record_search.joined_records(view, stored) == []
    assert view.read <= 600


def test_a_request_and_a_ruling_find_each_other_by_conversation_or_trace(log: Written) -> None:
    odd = "kim@example.com <b>"
    hashed = {"conversation_sha256": record.sha256_hex(odd)}
    log(
        [
            a_request(1, conversation_sha256=record.sha256_hex("session-1")),
            a_request(2, trace=TRACE),
            a_request(3, **hashed),
            a_request(4),
            a_ruling(5),
            a_ruling(6, session="other", trace=TRACE),
            a_ruling(7, session=odd),
            a_ruling(8, session="none"),
        ]
    )
    with log.journal() as journal, journal.store.reading() as view:
        shard = view.shards()[0]
        every = [
            record_search.record_from_row(shard, at, leaf_hash(data), data)
            for at, data in view.bodies(shard.number, 1, 9)
        ]
        joined = {each.at: [other.at for other in record_search.joined_records(view, each)] for each in every}
        assert joined == {1: [5], 2: [6], 3: [7], 4: [], 5: [1], 6: [2], 7: [3], 8: []}
        assert record_search.shared_ids(every[1].fields, every[5].fields) == ["trace"]
        assert record_search.shared_ids(every[0].fields, every[4].fields) == ["conversation"]


def test_a_flood_under_one_id_shows_the_nearest_only(log: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_search, "MAX_JOINED", 4)
    log([a_request(seq, trace=TRACE) for seq in range(1, 30)] + [a_ruling(30, trace=TRACE)])
    with log.journal() as journal, journal.store.reading() as view:
        shard = view.shards()[0]
        ((at, data),) = view.bodies(shard.number, 30, 31)
        ruling = record_search.record_from_row(shard, at, leaf_hash(data), data)
        assert [each.at for each in record_search.joined_records(view, ruling)] == [26, 27, 28, 29]
