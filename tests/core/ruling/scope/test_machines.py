"""Which machines a host as it is written can mean, and what the endings of names say."""

from __future__ import annotations

import re
from ipaddress import ip_address

import pytest

from lockgate import Action, Gate, Policy
from lockgate.core.ruling.arguments import Leaf
from lockgate.core.ruling.scope.border import border_from_scope
from lockgate.core.ruling.scope.crossings import OUTSIDE, find_crossings
from lockgate.core.ruling.scope.machines import (
    COMMON_DOMAINS,
    FILE_ENDINGS,
    FILE_OR_DOMAIN_ENDINGS,
    PRIVATE_DOMAINS,
    TOP_LEVEL_DOMAINS,
    AddressRange,
    host_and_port,
    is_host_like,
    machines_from_host,
)


def machine(written: str) -> AddressRange:
    return AddressRange(ip_address(written), ip_address(written))


@pytest.mark.parametrize(
    ("written", "machines"),
    [
        ("Lab.Example.", {"lab.example"}),
        ("b\u00fccher.example", {"xn--bcher-kva.example"}),
        ("%6cab.example", {"lab.example"}),
        ("\uff45xample.com", {"example.com", "xn--xample-hy68a.com"}),
        # 8.0.0.1 to some programs, 10.0.0.1 to others.
        ("010.0.0.1", set()),
        ("127.1", {machine("127.0.0.1")}),
        ("0x7f000001", {machine("127.0.0.1")}),
        ("2130706433", {machine("127.0.0.1")}),
        ("[::ffff:10.0.0.1]", {machine("10.0.0.1")}),
        ("[::1]", {machine("::1")}),
        ("256.0.0.1", set()),
        ("09.0.0.1", set()),
        ("a..b", set()),
        ("a b.example", set()),
        ("[::x]", set()),
        ("", set()),
        ("a" * 2000, set()),
    ],
)
def test_everything_a_program_could_take_a_host_for(written: str, machines: set[object]) -> None:
    assert machines_from_host(written) == machines


@pytest.mark.parametrize(
    ("authority", "expected"),
    [
        ("lab.example", ("lab.example", 0)),
        ("me:pw@lab.example:8080", ("lab.example", 8080)),
        ("[::1]:80", ("[::1]", 80)),
        ("lab.example:http", ("", 0)),
    ],
)
def test_an_authority_is_a_host_and_a_port(authority: str, expected: tuple[str, int]) -> None:
    assert host_and_port(authority) == expected


@pytest.mark.parametrize(
    ("name", "is_host"),
    [("lab.example", True), ("lab.example.", True), ("notes.txt", False), ("v1.2", False), ("lab", False)],
)
def test_a_dotted_name_is_a_host_unless_it_ends_like_a_file(name: str, *, is_host: bool) -> None:
    assert is_host_like(name) is is_host


# --- the endings of names

# The shortest and the longest that IANA lists, with a few in between: a cut list lacks most of these.
SPOT_CHECKS = ("com", "de", "travelersinsurance", "xn--vermgensberatung-pwb", "xn--p1ai", "xn--p1acf", "xn--3e0b707e")


def test_each_line_is_one_whole_domain() -> None:
    for ending in sorted(TOP_LEVEL_DOMAINS):
        assert re.fullmatch(r"[a-z]{2,63}|xn--[a-z0-9]+(?:-[a-z0-9]+)*", ending), ending
        if ending.startswith("xn--"):
            readable = ending[4:].encode().decode("punycode")
            assert not readable.isascii(), ending
            assert readable.encode("punycode").decode() == ending[4:]


def test_the_list_is_whole() -> None:
    assert TOP_LEVEL_DOMAINS.issuperset(SPOT_CHECKS)
    assert len(TOP_LEVEL_DOMAINS - PRIVATE_DOMAINS) > 1400
    assert sum(ending.startswith("xn--") for ending in TOP_LEVEL_DOMAINS) == 151


def test_common_domains_are_registered_and_files_are_not() -> None:
    assert COMMON_DOMAINS <= TOP_LEVEL_DOMAINS
    assert FILE_ENDINGS.isdisjoint(COMMON_DOMAINS)
    assert FILE_ENDINGS.isdisjoint(FILE_OR_DOMAIN_ENDINGS)


def spellings() -> list[str]:
    found = sorted(ending for ending in TOP_LEVEL_DOMAINS if ending.startswith("xn--"))
    readable = [ending[4:].encode().decode("punycode") for ending in found]
    # Signs that are no letters, such as vowel signs, end a name in prose: those spellings are not looked for.
    return [*found, *(ending for ending in readable if ending.isalnum())]


@pytest.mark.parametrize("ending", spellings())
def test_an_international_name_in_prose_is_outside(ending: str) -> None:
    edge = border_from_scope("hosts: example.com")
    found = find_crossings(edge, [Leaf("text", f"the page at evil.{ending} says so")])
    assert [each.rule for each in found] == [OUTSIDE]


@pytest.mark.parametrize("host", ["evil.рф", "evil.рус", "evil.한국"])
def test_a_call_that_names_a_host_outside_the_scope_pauses(host: str) -> None:
    gate = Gate(policy=Policy(mode="research", research_scope="hosts: example.com"))  # type: ignore[arg-type]
    decision = gate.session(goal="look at the lab").check("lookup", {"query": f"what does {host} say"})
    assert decision.action is Action.PAUSE
    assert any(found.rule == OUTSIDE for found in decision.findings)
