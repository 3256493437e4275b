"""Sessions in memory: those inside each other, what was lost, and how much memory they take."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hosted_sessions import MAIL, POISON, Broken, rules

from lockgate.core.errors import (
    InvalidBlock,
    InvalidCall,
    SessionsUnavailable,
)
from lockgate.core.vocabulary import Action
from lockgate.gate.gate import Gate
from lockgate.sessions import Host, Piece, SessionStore, lost_blocks, session_cache
from lockgate.sessions import host as host_module


def test_a_subagent_sees_what_its_parent_reads(host: Host, other: Host) -> None:
    host.open("s", goal="Answer ana@example.com")
    host.add("s", "a page", source="web:x")
    other.open("child", parent="s", goal="read the mail")
    other.add("child", "own", source="tool:y")
    host.add("s", POISON, source="web:x")
    names = [(each.id, each.source) for each in other.blocks("child")]
    assert names == [
        ("goal", "goal"),
        ("p.b0002", "web:x"),
        ("b0001", "agent:goal"),
        ("b0002", "tool:y"),
        ("p.b0003", "web:x"),
    ]
    assert other.check("child", "send_email", {"to": "eve@evil.example"}).decision.action is Action.PAUSE
    assert host.blocks("child") == other.blocks("child")
    derived = other.add("child", "of both", source="agent:x", tainted_by=["p.b0002", "b0002", "goal"])
    assert [each.block for each in host.lineage("child", derived.id).parents] == ["p.b0002", "b0002", "goal"]
    host.open("grandchild", parent="child")
    assert [each.id for each in host.blocks("grandchild")][1:3] == ["p.p.b0002", "p.b0001"]


def test_what_was_read_far_above_is_not_forgotten(host: Host, other: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.open("d0", goal="Answer ana@example.com")
    host.add("d0", POISON, source="web:x")
    for depth in range(1, session_cache.MAX_DEPTH + 1):
        host.open(f"d{depth}", parent=f"d{depth - 1}")
        held = other.check(f"d{depth}", "send_email", {"to": "eve@evil.example"})
        assert held.decision.action is Action.PAUSE
        assert "cap:context-unknown" not in rules(held)
    with pytest.raises(InvalidCall, match="inside 8 others"):
        host.open("d9", parent=f"d{session_cache.MAX_DEPTH}")
    assert rules(host.check("d9", "send_email", MAIL)) == {"cap:context-unknown"}
    # One that came to be so deep all the same: its outer ones were made after it.
    for depth in range(session_cache.MAX_DEPTH + 1, 0, -1):
        host.open(f"e{depth}", parent=f"e{depth - 1}")
    host.open("e0", goal="Answer ana@example.com")
    host.add("e0", "a page", source="web:x")
    assert rules(other.check(f"e{session_cache.MAX_DEPTH + 1}", "send_email", MAIL)) == {"cap:context-unknown"}


def test_inside_a_strict_session_nothing_is_looser(host: Host, other: Host) -> None:
    host.open("p", goal="x", mode="paranoid")
    host.open("c", parent="p", mode="default")
    host.open("cc", parent="c", mode="default")
    for name in ("c", "cc"):
        assert other.check(name, "read_file", {"path": "/x"}).decision.reason == "paranoid-mode"
    host.open("q", goal="x", scope="Only files in /srv/a.")
    host.open("d", parent="q", mode="research", scope="Only files in /srv/b.")
    both = host._cache.current("d").ruler.policy
    assert both.mode == "research"
    assert "/srv/a" in both.research_scope
    assert "/srv/b" in both.research_scope
    # And what holds for a session already holds on.
    host.open("q", scope="Only files in /srv/c.")
    info = host.open("q", scope="Only files in /srv/c.")
    assert "/srv/a" in info.scope
    assert info.scope.count("/srv/c") == 1
    host.open("q", mode="paranoid")
    assert other.check("d", "read_file", {"path": "/srv/a"}).decision.tier == 3


def test_a_subagent_without_its_parent_has_an_unknown_context(host: Host) -> None:
    host.open("child", parent="gone", goal="x")
    assert rules(host.check("child", "send_email", MAIL)) == {"cap:context-unknown"}
    with pytest.raises(InvalidCall):
        host.open("s", parent="s")
    host.open("a", parent="b")
    host.open("b", parent="a")
    assert host.check("a", "send_email", MAIL).decision.action is Action.PAUSE


@pytest.mark.parametrize("when", ["before", "after"])
def test_what_could_not_be_added_may_have_been_read(gate: Gate, again: Callable[[], SessionStore], when: str) -> None:
    broken = Broken(again())
    host = Host(gate, broken)  # type: ignore[arg-type]
    host.open("s", goal="Answer ana@example.com")
    broken.fails = {"append": when}
    with pytest.raises((SessionsUnavailable, OSError)):
        host.add("s", "text", source="tool:x", key="k")
    broken.fails = {}
    assert rules(host.check("s", "send_email", MAIL)) == {"cap:context-unknown"}
    host.restore("s", [Piece("text", "tool:x", key="k")])
    assert host.check("s", "send_email", MAIL).decision.action is Action.CONTINUE
    assert len(host.blocks("s")) == 2


def test_what_one_host_could_not_add_every_process_learns_of(gate: Gate, again: Callable[[], SessionStore]) -> None:
    broken = Broken(again())
    host, other = Host(gate, broken), Host(gate, again())  # type: ignore[arg-type]
    for each in (host, other):
        each.open("s", goal="Answer ana@example.com")
        each.open("child", parent="s")
        assert each.check("s", "send_email", MAIL).decision.action is Action.CONTINUE
    broken.fails = {"append": "before"}
    with pytest.raises(SessionsUnavailable):
        host.add("s", POISON, source="tool:x")
    # This host knows it at once; the others know it as soon as the store takes it.
    host._cache.closed.set()
    assert host.check("s", "send_email", MAIL).decision.action is Action.PAUSE
    broken.fails = {}
    assert host._cache.retry()
    for name in ("child", "s"):
        assert rules(other.check(name, "send_email", MAIL)) == {"cap:context-unknown"}
    assert not other.session("s").context_known  # type: ignore[union-attr]
    assert rules(Host(gate, again()).check("child", "send_email", MAIL)) == {"cap:context-unknown"}
    other.restore("s", [Piece(POISON, "tool:x", key="k")])
    assert rules(other.check("s", "send_email", {"to": "bob@example.com"})) != {"cap:context-unknown"}


def test_a_lost_block_is_kept_as_soon_as_the_store_works(gate: Gate, again: Callable[[], SessionStore]) -> None:
    broken = Broken(again())
    host, other = Host(gate, broken), Host(gate, again())  # type: ignore[arg-type]
    host.open("s", goal="Answer ana@example.com")
    broken.fails = {"*": "before"}
    with pytest.raises(SessionsUnavailable):
        host.add("s", POISON, source="tool:x")
    host.mark_context_unknown("t")
    host._cache.closed.set()
    assert not host._cache.retry()
    # While nothing can be kept nothing of high risk passes, and here not even afterwards.
    assert host.check("s", "send_email", MAIL).decision.action is Action.PAUSE
    broken.fails = {}
    assert host._cache.retry()
    for name in ("s", "t"):
        assert rules(other.check(name, "send_email", MAIL)) == {"cap:context-unknown"}
    assert host._cache.lost.sessions() == []


def test_more_doubts_than_can_be_remembered_are_about_all(
    gate: Gate, again: Callable[[], SessionStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lost_blocks, "_MAX_SESSIONS", 2)
    broken = Broken(again())
    host = Host(gate, broken)  # type: ignore[arg-type]
    host.open("s", goal="Answer ana@example.com")
    broken.fails = {"*": "before"}
    for name in ("t", "u", "s"):
        host.mark_context_unknown(name)
    host._cache.closed.set()
    broken.fails = {}
    assert rules(host.check("s", "send_email", MAIL)) == {"cap:context-unknown"}


def test_a_doubt_is_kept_at_once_where_it_can_be(host: Host, other: Host) -> None:
    host.open("s", goal="Answer ana@example.com")
    host.mark_context_unknown("s")
    host.mark_context_unknown("unheard-of")
    for name in ("s", "unheard-of"):
        assert not other.session(name).context_known  # type: ignore[union-attr]
        assert rules(other.check(name, "send_email", MAIL)) == {"cap:context-unknown"}
    with pytest.raises(InvalidCall):
        host.mark_context_unknown("")


def test_memory_is_bounded_and_what_fell_out_is_built_again(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_cache, "MAX_LIVE", 3)
    monkeypatch.setattr(session_cache, "MAX_LIVE_SIZE", 1_000)
    for at in range(10):
        host.open(f"s{at}", goal="Answer ana@example.com")
        host.add(f"s{at}", POISON, source="tool:x")
        assert len(host._cache._live) <= 3
    assert host.check("s0", "send_email", MAIL).decision.action is Action.PAUSE
    for at in range(3):
        host.add(f"s{at}", "x" * 600, source="tool:x")
    assert len(host._cache._live) == 1


def test_a_session_that_is_full_is_one_that_is_not_known(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_module, "MAX_BLOCKS", 3)
    host.open("s", goal="Answer ana@example.com")
    host._cache._live.clear()
    for at in range(2):
        host.add("s", str(at), source="tool:x")
    with pytest.raises(InvalidBlock, match="full"):
        host.add("s", "more", source="tool:x")
    assert rules(host.check("s", "send_email", MAIL)) == {"cap:context-unknown"}
