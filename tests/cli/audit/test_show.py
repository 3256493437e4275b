"""`lockgate audit show`: records for people and for programs, none of which can act on a terminal."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from audited_logs import BASE_MS, CHANGED_BODY, NAME, a_ruling, changed

from lockgate.cli.audit import show as showing
from lockgate.core.requests.strikes import incident_id
from lockgate.journal import keys, record
from lockgate.journal.journal import Journal
from lockgate.journal.log import Shard
from lockgate.journal.merkle import leaf_hash
from lockgate.journal.stores.sqlite import SqliteLog

Run = Callable[..., Any]


def test_records_are_shown_oldest_first_and_cannot_act(run: Run, log: Path) -> None:
    ended = run("audit", "show")
    assert (ended.code, ended.err) == (0, "")
    assert {ch for ch in ended.out if not ch.isprintable()} == {"\n"}
    lines = ended.out.splitlines()
    assert lines[0] == NAME
    assert [int(line.split()[0]) for line in lines[1:]] == list(range(10))
    assert re.search(r"\bPAUSE +send_email  supervisor, tier 3, high risk: order:send  session-1$", lines[5])
    assert r"3f9a1c20 granted by ana \x1b[2J\u{202e}\rCONTINUE" in lines[7]
    # Neither a name that is none, nor an address.
    assert "example.com" not in ended.out
    assert "rm -rf" not in ended.out


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        (["--action", "PAUSE"], [4]),
        (["--action", "pause"], [4]),
        (["--reason", "approved"], [7]),
        (["--rule", "order:send"], [4]),
        (["--tool", "send_email"], [4]),
        (["--tool", "rm -rf / \x1b[31m"], [8]),
        (["--session", "ana@example.com"], [8]),
        (["--session", "sha256:" + record.sha256_hex("ana@example.com")], [8]),
        (["--kind", "approval"], [5, 6]),
        (["--kind", "opening"], [0]),
        (["--limit", "3"], [7, 8, 9]),
        (["--limit", "0"], list(range(10))),
        (["--kind", "ruling", "--limit", "2"], [8, 9]),
        (["--since", "2027-01-15T08:06+00:00"], [6, 7, 8, 9]),
        (["--until", "2027-01-15T08:02+00:00"], [0, 1]),
        (["--session", "unknown"], []),
    ],
)
def test_filters_show_what_fits_and_nothing_else(run: Run, log: Path, argv: list[str], shown: list[int]) -> None:
    ended = run("audit", "show", "--json", *argv)
    found = [json.loads(line) for line in ended.out.splitlines()]
    assert [each["index"] for each in found] == shown
    assert {each["shard"] for each in found} <= {NAME}
    drawn = run("audit", "show", *argv).out
    assert [int(line.split()[0]) for line in drawn.splitlines()[1:]] == shown
    assert shown or drawn == "no such record\n"


def test_as_json_a_record_is_what_was_signed(run: Run, log: Path) -> None:
    for line in run("audit", "show", "--json").out.splitlines():
        assert line.isascii()
        value = json.loads(line)
        assert leaf_hash(record.encode_record(value["record"])).hex() == value["leaf_hash"]


def test_one_record_is_shown_with_all_that_it_holds(run: Run, log: Path) -> None:
    ended = run("audit", "show", "4", "7")
    assert ended.code == 0
    for field in record.KINDS["ruling"]:
        assert f"\n  {'time' if field == 'ts_ms' else field} " in ended.out
    assert r"approved_by     ana \x1b[2J\u{202e}\rCONTINUE" in ended.out
    assert "b0001 untrusted " in ended.out


def test_only_the_end_of_a_long_log_is_read(log: Path) -> None:
    class Counting:
        """A log of a million records, of which it counts those it hands out; a forger's stands far behind."""

        read = 0

        def shards(self) -> list[Any]:

            return [Shard(1, "x+y+z", b"\xff" * 8, b"", 0)]

        def bodies(self, shard: int, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
            for index in (*range(max(0, start), min(1_000_000, stop)), 2**60):
                if start <= index < stop:
                    self.read += 1
                    yield index, b"{}"

        def leaves(self, shard: int, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
            return ((at, leaf_hash(body)) for at, body in self.bodies(shard, start, stop))

    view = Counting()
    found = showing.newest_records(view, showing.RecordFilter(), 5)  # type: ignore[arg-type]
    assert [each.at for each in found] == [999_996, 999_997, 999_998, 999_999, 2**60]
    assert view.read < 6_000


def test_a_changed_record_is_never_shown_as_if_it_were_whole(run: Run, log: Path) -> None:
    leaf = json.loads(run("audit", "show", "4", "--json").out)["leaf_hash"]
    events = run("audit", "show", "--format", "ocsf").out.splitlines()
    changed(log, CHANGED_BODY)
    for argv in ([], ["--action", "PAUSE"], ["--json"], ["4"], ["4", "--json"], ["--format", "ocsf"]):
        ended = run("audit", "show", *argv)
        assert ended.code == 1, argv
        assert ended.err == "lockgate: warning: 1 record changed since recording; see lockgate audit verify\n"
        if "--json" in argv:
            (told,) = [each for each in map(json.loads, ended.out.splitlines()) if each["index"] == 4]
            wrong = "its bytes do not hash to its leaf"
            assert told == {"shard": NAME, "index": 4, "leaf_hash": leaf, "changed": True, "wrong": wrong}
        elif "ocsf" in argv:
            assert ended.out.splitlines() == [each for each in events if leaf not in each] != events
        else:
            assert "was changed: its bytes do not hash to its leaf" in ended.out


def test_what_cannot_be_read_is_shown_whatever_was_asked_for(run: Run, log: Path) -> None:
    leaf = leaf_hash(b"\x1b[2J").hex()
    changed(
        log,
        "UPDATE bodies SET body = x'1b5b324a' WHERE number = 4",
        f"UPDATE leaves SET hash = x'{leaf}' WHERE number = 4",
    )
    for argv in ([], ["--action", "PAUSE"], ["--json"], ["4"], ["--format", "ocsf"]):
        ended = run("audit", "show", *argv)
        assert ended.code == 1
        assert ended.err == "lockgate: warning: 1 record cannot be read; see lockgate audit verify\n"
        assert "\x1b" not in ended.out
        assert argv == ["--format", "ocsf"] or "one JSON object" in ended.out


def test_following_goes_on_with_what_is_recorded_next(run: Run, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    signer = keys.load(log.with_suffix(".key"))
    naps: list[float] = []

    def meanwhile(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 3:
            raise KeyboardInterrupt
        with Journal(SqliteLog(log), signer, verify=keys.verify) as journal:
            journal.append([a_ruling(9 + len(naps), deny=True), a_ruling(20 + len(naps))], durable=True)

    monkeypatch.setattr(showing, "sleep", meanwhile)
    ended = run("audit", "show", "--follow", "--action", "PAUSE")
    assert (ended.code, ended.err) == (130, "lockgate: interrupted\n")
    assert [int(line.split()[0]) for line in ended.out.splitlines()[1:]] == [4, 10, 12]


INCIDENT = incident_id(BASE_MS + 10 * 60_000 - 1, b"0123456789")
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.fixture
def attacked(log: Path) -> Path:
    """The log with an incident, record 10, that shares an id with each of the rulings 8 and 11."""
    fields = record.assess_record(
        run="2" * 16,
        seq=1,
        ts_ms=BASE_MS + 10 * 60_000,
        salt=bytes(16),
        payload_sha256="ab" * 32,
        verdict="unsafe",
        reason="rules",
        by="rules",
        acted=f"unsafe:{INCIDENT}",
        rules=["request:override"],
        more={
            "subject": "0123456789ab",
            "standing": "execute_locked",
            "strikes": 3,
            "conversation_sha256": record.sha256_hex("ana@example.com"),
            "trace": TRACE,
        },
    )
    signer = keys.load(log.with_suffix(".key"))
    with Journal(SqliteLog(log), signer, verify=keys.verify, clock=lambda: BASE_MS / 1000) as journal:
        traced = a_ruling(1, run="3" * 16, session="other", trace=TRACE)
        journal.append([record.encode_record(fields), traced], durable=True)
    return log


def test_an_incident_is_shown_by_its_id_with_what_shares_an_id_with_it(run: Run, attacked: Path) -> None:
    for typed in (INCIDENT, INCIDENT.lower()):
        ended = run("audit", "show", typed)
        assert (ended.code, ended.err) == (0, "")
        assert ended.out.startswith(f"{NAME} 10\n")
        for name, value in (
            ("proof", f"lockgate audit prove 10 --shard {NAME}"),
            ("time", "2027-01-15 08:10:00 (1800000600000)"),
            ("verdict", "unsafe"),
            ("reason", "rules"),
            ("rules", "request:override"),
            ("acted", f"unsafe:{INCIDENT}"),
            ("subject", "0123456789ab"),
            ("standing", "execute_locked"),
            ("strikes", "3"),
        ):
            assert f"\n  {name:<15} {value}\n" in ended.out
        assert "clients choose these ids: a hint, no proof" in ended.out
        assert [line.split()[0] for line in ended.out.splitlines()[-2:]] == ["8", "11"]
        assert [line.split()[-1] for line in ended.out.splitlines()[-2:]] == ["(conversation)", "(trace)"]
    found = json.loads(run("audit", "show", INCIDENT, "--json").out)
    assert found["record"]["subject"] == "0123456789ab"
    assert found["joined"] == [
        {"shard": NAME, "index": 8, "by": ["conversation"]},
        {"shard": NAME, "index": 11, "by": ["trace"]},
    ]
    assert json.loads(run("audit", "show", "8", "--json").out)["joined"] == [
        {"shard": NAME, "index": 10, "by": ["conversation"]}
    ]
    assert f"unsafe:{INCIDENT}" in run("audit", "show", "11").out
    assert "joined" not in json.loads(run("audit", "show", "4", "--json").out)


def test_an_incident_that_is_not_there_says_when_it_was_and_where_to_look(run: Run, attacked: Path) -> None:
    other = incident_id(BASE_MS, bytes(10))
    ended = run("audit", "show", other)
    assert (ended.code, ended.out) == (2, "")
    assert f"there is no record of incident `{other}`, which was made on 2027-01-15 08:00:00" in ended.err
    assert "hint: another log may have it (--log)" in ended.err
    for wrong in ("abc", INCIDENT[:-1], INCIDENT + "0", "I" * 26, "\x1b[31m" + INCIDENT):
        ended = run("audit", "show", wrong)
        assert (ended.code, ended.out) == (2, "")
        assert "is neither a record's number nor the 26 letters and digits of an incident" in ended.err
        assert "\x1b" not in ended.err


def test_a_changed_incident_is_not_shown(run: Run, attacked: Path) -> None:
    changed(
        attacked,
        "UPDATE bodies SET body = CAST(replace(body, '0123456789ab', 'ba9876543210') AS BLOB) WHERE number = 10",
    )
    ended = run("audit", "show", INCIDENT)
    assert (ended.code, "ba9876543210" in ended.out, "was changed" in ended.out) == (1, False, True)
