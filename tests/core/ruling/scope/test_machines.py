"""Which machines a host as it is written can mean."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from lockgate.core.ruling.scope.machines import AddressRange, host_and_port, is_host_like, machines_from_host


def machine(written: str) -> AddressRange:
    return AddressRange(ip_address(written), ip_address(written))


@pytest.mark.parametrize(
    ("written", "machines"),
    [
        ("Lab.Example.", {"lab.example"}),
        ("b\u00fccher.example", {"xn--bcher-kva.example"}),
        ("%6cab.example", {"lab.example"}),
        ("\uff45xample.com", {"example.com", "xn--xample-hy68a.com"}),
        ("010.0.0.1", {machine("8.0.0.1"), machine("10.0.0.1")}),
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
