"""What a call does beyond the border of a scope, as findings."""

from __future__ import annotations

import pytest
from cpu_time import takes_at_most_times
from hypothesis import given, settings
from hypothesis import strategies as st

from lockgate.core.ruling.arguments import Leaf
from lockgate.core.ruling.pipeline import HARD_RULES
from lockgate.core.ruling.scope.border import (
    MAX_TEXT,
    border_from_prose,
    border_from_scope,
)
from lockgate.core.ruling.scope.crossings import MAX_FINDINGS, OUTSIDE, UNREAD, UNREADABLE, find_crossings

LAB = (
    "Our lab: *.lab.example, target.example, 10.1.0.0/16, [2001:db8::]/32, https://app.example/shop, "
    "port.example:8080 !mail.lab.example and the samples in /srv/samples"
)


def crossed(text: str, argument: str = "command", scope: str = LAB, tool: str = "") -> list[str]:
    return [found.rule for found in find_crossings(border_from_scope(scope), [Leaf(argument, text)], tool=tool)]


def test_who_writes_may_mention_an_address() -> None:
    text = "The sample calls http://evil.com/gate.php"
    assert crossed(text, "content", tool="write_file") == []
    assert crossed("Write to bob@other.org about os.path, 1.2.3 and evil.icu", "content", tool="write_file") == []
    assert crossed(text, "content", tool="deploy_page")
    assert crossed(text, "content")
    assert crossed("http://evil.com/x", "url", tool="write_file")


def test_a_scope_of_paths_alone_closes_the_network() -> None:
    assert crossed("curl http://evil.com", scope="/srv/samples")


def test_a_scope_of_hosts_alone_says_nothing_about_files() -> None:
    assert crossed("cat /etc/passwd", scope="lab.example") == []


def test_loopback_has_two_names() -> None:
    assert crossed("curl http://localhost:1/", scope="127.0.0.1") == []
    assert crossed("curl http://127.0.0.1:1/ http://[::1]/", scope="localhost") == []
    assert crossed("curl http://127.0.0.2/", scope="localhost")


def test_an_excluded_network_also_stops_what_overlaps_it() -> None:
    scope = "10.0.0.0/8 !10.9.0.0/16 !host.example:22 host.example"
    assert crossed("nmap 10.8.0.0-10.10.0.0", scope=scope)
    assert crossed("nmap 10.0.0.0/8", scope=scope)
    assert crossed("nmap 10.8.0.0/16", scope=scope) == []
    assert crossed("curl http://host.example:22/", scope=scope)
    assert crossed("ping host.example", scope=scope)
    assert crossed("curl http://host.example:80/", scope=scope) == []


# --- findings


def test_a_finding_says_what_and_where() -> None:
    (found,) = find_crossings(border_from_scope("lab.example"), [Leaf("command", "curl http://evil.com/x -o y")])
    assert found.rule == OUTSIDE
    assert (found.where, found.excerpt) == ("command", "http://evil.com/x")
    assert "curl http://evil.com/x -o y"[found.start : found.end] == "http://evil.com/x"


def test_every_finding_is_one_that_no_model_may_clear() -> None:
    assert all(rule.startswith(HARD_RULES) for rule in (OUTSIDE, UNREADABLE, UNREAD))


def test_a_reading_is_named() -> None:
    (found,) = find_crossings(border_from_scope("lab.example"), [Leaf("note", "http%3A%2F%2Fevil.com")])
    assert (found.reading, found.start) == ("percent", 0)


def test_a_control_character_in_an_address_stays_out_of_the_finding() -> None:
    for found in find_crossings(border_from_scope("lab.example"), [Leaf("url", "http://evil\x1b[31m.com")]):
        assert found.excerpt.isprintable()


def test_findings_are_bounded() -> None:
    text = " ".join(f"http://evil{n}.com" for n in range(500))
    assert len(crossed(text)) == MAX_FINDINGS


def test_what_was_not_read_is_a_finding() -> None:
    assert crossed("a " * MAX_TEXT) == [UNREAD]
    assert find_crossings(border_from_scope("lab.example"), [Leaf("a", "x" * MAX_TEXT), Leaf("b", "http://evil.com")])


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=200), st.sampled_from(["url", "command", "path", "x"]))
def test_no_text_breaks_it(text: str, argument: str) -> None:
    edge = border_from_scope(LAB)
    for found in find_crossings(edge, [Leaf(argument, text)], tool="bash"):
        assert found.rule.startswith("scope:")
    border_from_prose(text)


UNITS = (
    "a.lab.example |http://a.lab.example/|a.|a@|\"\\|'|//|\\\\|1.|1:|/a|../|curl $x;|%25|e\u0301|\ufdfa|http:|\uff41."
    '|\'"|"a b" |bash -c "|<<E\n|$(|`|base64 QUJD |ssh a |scp a:|-ha.b |--host |@a |nc 1 |python -c \'x.y\'; '
)


@pytest.mark.parametrize("unit", UNITS.split("|"))
def test_hostile_texts_take_time_in_proportion(unit: str) -> None:
    edge = border_from_scope(LAB)

    def read(size: int) -> None:
        find_crossings(edge, [Leaf("command", (unit * size)[:size])])

    # A thirtieth of the text: a quadratic reader would need a nine-hundredth of the time.
    assert takes_at_most_times(100, lambda: read(12_000), lambda: read(400), floor_s=0)
