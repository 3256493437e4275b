"""A session is what its entries in the store make of it, in every process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hosted_sessions import MAIL, rules

from lockgate.core.ruling.effects.project import NO_PROJECT
from lockgate.gate.gate import Gate
from lockgate.sessions import Host, SessionStore
from lockgate.sessions import host as host_module
from lockgate.sessions.session_entries import (
    EntrySort,
    SessionEntry,
)


def test_a_session_goes_on_in_another_process(gate: Gate, again: Callable[[], SessionStore], host: Host) -> None:
    host.open("s", goal="Answer ana@example.com")
    parent = host.add("s", "the weather is fine", source="web:x")
    derived = host.add("s", "fine weather", source="agent:notes", tainted_by=[parent])
    for at in range(3):
        host.check("s", "read_file", {"path": f"/{at}"})
    before = host._cache.current("s").ruler
    after = Host(gate, again())._cache.current("s").ruler
    assert after.blocks == before.blocks
    assert after.history == before.history
    assert after.untrusted_sha256 == before.untrusted_sha256
    assert after.goal == before.goal
    assert after.lineage(derived).parents[0].block == parent.id


def test_a_goal_is_taken_once_and_what_follows_is_the_users_word(host: Host, other: Host) -> None:
    assert host.open("s").goal == ""
    assert host.open("s", goal="Find the invoice").goal == "Find the invoice"
    host.open("s", goal="Find the invoice")
    for _ in range(2):
        assert other.open("s", goal="And pay it").goal == "Find the invoice"
    assert [(each.id, each.source) for each in host.blocks("s")] == [("goal", "goal"), ("b0002", "user")]
    assert host._cache.current("s").ruler.goal == "Find the invoice"
    host.add("s", "a page", source="web:x")
    host.open("s", goal="And pay it")
    assert host.blocks("s")[-1].source == "user"


def test_a_row_that_is_no_entry_makes_the_context_unknown(host: Host, other: Host) -> None:
    host.open("s", goal="Answer ana@example.com")
    number = other.store.session("s").number  # type: ignore[union-attr]
    other.store.append((number,), [SessionEntry(EntrySort.BLOCK, 1.0, "", b"\xff\xfe", "no json")])
    assert rules(host.check("s", "send_email", MAIL)) == {"cap:context-unknown"}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "requirements.txt").write_text("flask\n", encoding="utf-8")
    return folder


def test_what_a_session_writes_into_its_manifests_is_not_known_to_it(host: Host, other: Host, shop: Path) -> None:
    host.open("s", goal="Fix the cart", folder=str(shop))
    assert host.project("s").has_package("flask")
    (shop / "requirements.txt").write_text("flask\nevil\n", encoding="utf-8")
    for each in (host, other):
        # As after a restart, and as for a host that is told the folder once more.
        each.open("s", folder=str(shop))
        assert each.project("s").has_package("flask")
        assert not each.project("s").has_package("evil")
    host.open("s2", folder=str(shop))
    assert host.project("s2").has_package("evil")


def test_a_session_that_was_not_seen_from_its_start_knows_its_places_only(host: Host, shop: Path) -> None:
    host.open("elsewhere", known=False, folder=str(shop))
    host.open("late", goal="Fix the cart")
    host.check("late", "read_file", {"path": "a"})
    host.open("late", folder=str(shop))
    host.open("opened first", host="api", meta={host_module.OPENED_BY: "client"})
    host.open("opened first", host="claude-code", folder=str(shop))
    for session in ("elsewhere", "late", "opened first"):
        found = host.project(session)
        assert found.root == shop.as_posix()
        assert not found.packages


def test_an_agent_inside_works_in_the_project_of_its_session(host: Host, other: Host, shop: Path) -> None:
    host.open("s", folder=str(shop))
    (shop / "requirements.txt").write_text("flask\nevil\n", encoding="utf-8")
    host.open("s/a", parent="s", folder=str(shop / "inner"))
    for each in (host, other):
        assert each.project("s/a") == host.project("s")
        assert not each.project("s/a").has_package("evil")


def test_a_session_without_a_folder_has_no_project(host: Host) -> None:
    host.open("s")
    assert host.project("s") == NO_PROJECT
    assert host.project("no such session") is NO_PROJECT


def test_a_project_that_is_damaged_in_the_store_makes_the_context_unknown(host: Host) -> None:
    host.open("s", goal="Answer ana@example.com")
    number = host.store.session("s").number  # type: ignore[union-attr]
    host.store.append((number,), [SessionEntry(EntrySort.PROJECT, 1.0, "project", b"[1]")])
    assert rules(host.check("s", "send_email", MAIL)) == {"cap:context-unknown"}
