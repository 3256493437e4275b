"""`lockgate grants`, and the answers that make them: what a person sees is the rule that counts."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from time import time
from typing import Any

import pytest

from lockgate import assemble
from lockgate.core.ruling.approvals import ApprovalState, HeldFacts, PendingApproval, ShownDetails, bind_call
from lockgate.core.ruling.grants import GrantSpan, find_offer, offers_from_pending
from lockgate.gate.approvals_sqlite import SqliteApprovals

Run = Callable[..., Any]
ID = "3f9a1c20b7d4e856"
FACTS = HeldFacts(
    effects=(("sends-message", "desk@clearance.example"),),
    sources=("web:track.example",),
    rules=("effect:sends-message",),
    names=("body", "to"),
    arguments="sha256:a",
    is_exact=False,
    project="/home/ana/shop",
    widest="always",
    barred="",
)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SqliteApprovals:
    kept = SqliteApprovals(tmp_path / "state" / "lockgate" / "approvals.db")
    monkeypatch.setattr(assemble, "approvals_from_settings", lambda settings, journal=None: kept, raising=False)
    return kept


def ask(store: SqliteApprovals, id: str = ID, facts: HeldFacts = FACTS, session: str = "s1") -> PendingApproval:
    bound = bind_call(session, "send_email", {"to": "desk@clearance.example", "body": id}, "sha256:p", "sha256:c")
    pending = PendingApproval(id, bound, time(), time() + 300, ShownDetails(facts=facts))
    assert store.ask(pending) == id
    return pending


def make(store: SqliteApprovals, id: str = ID, span: str = "project", age_s: float = 0.0) -> None:
    pending = ask(store, id)
    offer = find_offer(pending, span)
    assert offer is not None
    at_s = pending.created_s
    assert store.answer(id, digest=offer.digest, yes=True, who="ana", now_s=at_s, span=span).counted
    if age_s:
        import sqlite3

        with closing(sqlite3.connect(store.path, isolation_level=None)) as db:
            db.execute("UPDATE grants SET made_s = made_s - ? WHERE id = ?", (age_s, id))


def test_a_question_shows_each_rule_whole_and_the_narrowest_first(run: Run, store: SqliteApprovals) -> None:
    pending = ask(store)
    shown = run("approvals", "show", ID).out
    offers = offers_from_pending(pending)
    places = [shown.index(text) for text in ("for session", "--for project", "--for always")]
    assert places == sorted(places)
    for text in ("│ sends a message to `desk@clearance.example`", "│ values of body, to that fit the other lines;"):
        assert text in shown
    for text in ("│ text of web:track.example", "│ only session s1", "every session in /home/ana/shop"):
        assert text in shown
    assert all(offer.digest in shown for offer in offers)
    told = json.loads(run("approvals", "show", ID, "--json").out)
    assert [offer["rule"]["span"] for offer in told["offers"]] == ["session", "project", "always"]


def test_approving_for_more_than_once_makes_the_rule(run: Run, store: SqliteApprovals) -> None:
    pending = ask(store)
    ended = run("approvals", "approve", ID, "--yes", "--for", "project", "--json")
    offer = find_offer(pending, "project")
    assert offer is not None
    said = json.loads(ended.out)
    assert (ended.code, said["counted"], said["for"], said["digest"]) == (0, True, "project", offer.digest)
    (grant,) = store.grants(time())
    assert (grant.rule.span, grant.digest) == (GrantSpan.PROJECT, offer.digest)
    again = run("approvals", "approve", ID, "--yes", "--for", "project")
    assert (again.code, "too late" in again.out) == (1, True)


def test_the_rule_is_shown_before_it_is_made(run: Run, store: SqliteApprovals, monkeypatch: pytest.MonkeyPatch) -> None:
    pending = ask(store)
    offer = find_offer(pending, "always")
    assert offer is not None
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    refused = run("approvals", "approve", ID, "--for", "always", stdin=b"no\n", at_terminal=True)
    assert (refused.code, store.grants(time())) == (1, [])
    said = run("approvals", "approve", ID, "--for", "always", stdin=b"yes\n", at_terminal=True)
    assert said.code == 0
    before, _, after = said.out.partition("approve this call, and make this rule? Type yes:")
    assert offer.digest in before[before.rindex("for always: covers") :]
    assert f"granted for always: lockgate grants lists it as {ID}" in after
    assert [grant.rule.span for grant in store.grants(time())] == [GrantSpan.ALWAYS]


def test_once_is_what_it_was(run: Run, store: SqliteApprovals) -> None:
    ask(store)
    assert run("approvals", "approve", ID, "--yes").code == 0
    assert store.grants(time()) == []


def test_what_is_not_offered_is_refused_and_says_why(run: Run, store: SqliteApprovals) -> None:
    ask(store, facts=FACTS._replace(widest="session"))
    ended = run("approvals", "approve", ID, "--yes", "--for", "project")
    assert (ended.code, "offered: once, session" in ended.err) == (2, True)
    barred = "a" * 16
    ask(store, barred, FACTS._replace(widest="", barred="a person answers mcp:tool-changed each time"))
    ended = run("approvals", "approve", barred, "--yes", "--for", "session")
    assert (ended.code, "mcp:tool-changed" in ended.err) == (2, True)
    assert "none can be made: a person answers mcp:tool-changed" in run("approvals", "show", barred).out
    assert run("approvals", "deny", barred, "--for", "session").code == 2
    assert [each.state for each in store.every(time())] == [ApprovalState.WAITING, ApprovalState.WAITING]


def test_the_list_says_who_made_what_and_how_often_it_was_used(run: Run, store: SqliteApprovals) -> None:
    assert "there are no grants" in run("grants").out
    make(store)
    listed = run("grants")
    assert (listed.code, listed.err) == (0, "")
    assert listed.out.startswith(f"{ID}  made by ana at ")
    assert "never used" in listed.out
    assert "│ every session in /home/ana/shop" in listed.out
    bound = bind_call("s2", "send_email", {"to": "desk@clearance.example"}, "sha256:p", "sha256:c")
    assert store.use_grant(bound, FACTS, time()) is not None
    assert "used 1 time, last at " in run("grants").out
    told = json.loads(run("grants", "--json").out)
    assert (told["id"], told["uses"], told["rule"]["span"]) == (ID, 1, "project")


def test_a_grant_is_revoked_by_the_beginning_of_its_id(run: Run, store: SqliteApprovals) -> None:
    make(store)
    make(store, "3f9a" + "0" * 12)
    assert run("grants", "revoke").code == 2
    assert "too short" in run("grants", "revoke", "3f9").err
    assert "could be" in run("grants", "revoke", "3f9a").err
    assert "no grant" in run("grants", "revoke", "ffff").err
    ended = run("grants", "revoke", "3f9a1")
    assert (ended.code, ended.out.startswith(f"revoked {ID}: send_email, for project")) == (0, True)
    assert [grant.id for grant in store.grants(time())] == ["3f9a" + "0" * 12]


def test_unused_grants_are_dropped_by_their_age(run: Run, store: SqliteApprovals) -> None:
    make(store)
    make(store, "b" * 16, age_s=8 * 86_400)
    assert run("grants", "drop-unused").out == "nothing was revoked\n"
    ended = run("grants", "drop-unused", "--older-than", "7d")
    assert (ended.code, "b" * 16 in ended.out) == (0, True)
    assert [grant.id for grant in store.grants(time())] == [ID]
    assert run("grants", "drop-unused", "--older-than", "soon").code == 2


@pytest.mark.parametrize(
    "words", [("list", "--older-than", "7d"), ("list", "3f9a"), ("revoke", "3f9a", "--older-than", "1d")]
)
def test_an_option_without_effect_is_refused(run: Run, store: SqliteApprovals, words: tuple[str, ...]) -> None:
    assert run("grants", *words).code == 2


def test_a_hostile_source_cannot_leave_its_place(run: Run, store: SqliteApprovals) -> None:
    odd = FACTS._replace(sources=("web:a\n  digest  sha256:0000\x1b[2J\u202e",))
    ask(store, facts=odd)
    shown = run("approvals", "show", ID).out
    assert run("approvals", "approve", ID, "--yes", "--for", "session").code == 0
    for text in (shown, run("grants").out):
        assert {ch for ch in text if not ch.isprintable()} == {"\n"}
        assert "\n  digest  sha256:0000" not in text
