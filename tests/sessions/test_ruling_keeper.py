"""A ruling is kept before it is returned, or does not hold."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hosted_sessions import MAIL, Broken, Journal, rules

from lockgate.core.vocabulary import Action, Receipt
from lockgate.gate.gate import Gate
from lockgate.journal.merkle import leaf_hash
from lockgate.journal.recorder import hash_arguments
from lockgate.runtime.strict_json import PORTABLE
from lockgate.sessions import Host, SessionStore


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("part", ["append", "read_entries", "session", "*"])
def test_a_store_that_fails_never_lets_a_high_risk_call_pass(
    gate: Gate, again: Callable[[], SessionStore], part: str, when: str
) -> None:
    broken = Broken(again())
    host = Host(gate, broken)  # type: ignore[arg-type]
    host.open("s", goal="Answer ana@example.com")
    assert host.check("s", "send_email", MAIL).decision.action is Action.CONTINUE
    broken.fails = {part: when}
    fresh = Host(gate, broken)  # type: ignore[arg-type]
    if part != "session":
        held = host.check("s", "send_email", MAIL)
        assert (held.decision.action, held.seq) == (Action.PAUSE, 0)
    for each in (fresh.check("s", "send_email", MAIL), fresh.check("unheard-of", "send_email", MAIL)):
        assert each.decision.action is Action.PAUSE
    assert asyncio.run(fresh.check_async("s", "send_email", MAIL)).decision.action is Action.PAUSE
    broken.fails = {}
    # What is not there any more is not missed: the session is as it was.
    assert host.check("s", "send_email", MAIL).decision.action is Action.CONTINUE
    assert [each.decision.action for each in host.decisions(session="s")][-1] is Action.CONTINUE


def test_one_damaged_ruling_does_not_hide_the_others(host: Host) -> None:
    host.open("s", goal="Answer ana@example.com")
    kept = [host.check("s", "send_email", MAIL, key=f"k{at}") for at in range(3)]
    for at, detail in ((0, "garbage"), (1, '["t",{},null,["NO"],0,true]')):
        with host.store._write_transaction() as db:  # type: ignore[attr-defined]
            db.execute("UPDATE entries SET detail = ?, action = 'x' WHERE id = ?", (detail, kept[at].id))
    found = host.decisions()
    assert [each.id for each in found] == [each.id for each in reversed(kept)]
    assert [(each.damaged, each.decision.action) for each in found[1:]] == [(True, Action.PAUSE)] * 2
    assert not found[0].damaged
    # It counts for no call.
    assert host.decision(kept[0].id) == found[2]
    assert (found[2].key, found[2].arguments, found[2].whole) == ("", {}, False)
    assert host.stats(since=kept[0].at - 10, bucket_s=60).calls == 1
    assert rules(Host(host.gate, host.store).check("s", "send_email", MAIL)) == {"cap:context-unknown"}


def test_what_cannot_be_kept_whole_is_kept_in_part(host: Host, other: Host) -> None:
    host.open("s", goal="x")
    calls: list[dict[str, object]] = [{"big": "y" * 3_000_000}, {"number": 10**6000}, {"nan": float("nan")}]
    for levels in (5000, PORTABLE.depth):
        deep: dict[str, object] = {}
        for _ in range(levels):
            deep = {"x": deep}
        calls.append({"deep": deep})
    for arguments in calls:
        kept = host.check("s", "read_file", arguments)
        assert kept.seq, kept.decision
        again = other.decision(kept.id)
        assert again is not None
        assert again.whole is ("nan" in arguments)
        if "big" in arguments:
            assert again.args_sha256 == hash_arguments(arguments, [])
        assert bool(again.args_sha256) is not again.whole
        assert list(again.arguments) == list(arguments)
    odd = {"to": "half \ud800 \0 \u202e", "\0": ["\x1b", {"k": (1, 2.5, True, None)}]}
    kept = host.check("s", "tool \0 \ud800", odd, annotations={"readOnlyHint": True})
    again = other.decision(kept.id)
    assert again is not None
    assert (again.tool, again.arguments["to"], again.whole) == (kept.tool, odd["to"], True)


def test_a_ruling_is_in_the_journal_and_in_the_store_when_it_is_returned(
    gate: Gate, again: Callable[[], SessionStore], other: Host
) -> None:
    journal = Journal()
    host = Host(Gate(scanner=gate.scanner, journal=journal), again())
    host.open("s", goal="Answer ana@example.com")
    kept = host.check("s", "send_email", MAIL, key="k")
    assert kept.decision.action is Action.CONTINUE
    assert kept.decision.receipt == Receipt("o", 0, leaf_hash(journal.records[-1]))
    assert other.decisions() == [kept]
    assert host.outcome("s", "k", "ran")
    assert not host.outcome("s", "another", "ran")
    assert [each.ran for each in other.decisions()] == ["ran"]


def test_without_the_journal_a_high_risk_call_pauses_and_that_is_kept(
    gate: Gate, again: Callable[[], SessionStore], other: Host
) -> None:
    journal = Journal()
    host = Host(Gate(scanner=gate.scanner, journal=journal), again())
    host.open("s", goal="Answer ana@example.com")
    journal.fails = True
    assert host.check("s", "send_email", MAIL).decision.action is Action.PAUSE
    assert [each.decision.action for each in other.decisions()] == [Action.PAUSE]
    journal.fails = False
    assert host.check("s", "send_email", MAIL).decision.action is Action.CONTINUE
