"""Hosts, and which of them are this machine."""

from __future__ import annotations

from lockgate.core.ruling.effects.programs.options import host_of, is_local


def test_a_host_is_found_in_every_form_of_an_address() -> None:
    assert host_of("https://ada:pw@X.example:8443/a?b#c") == "x.example"
    assert host_of("x.example/a") == "x.example"
    assert host_of("http://[::1]:80/") == "::1"


def test_this_machine_has_several_names() -> None:
    assert all(is_local(host) for host in ("localhost", "127.0.0.1", "127.1", "::1", "0.0.0.0", "api.localhost"))
    assert not any(is_local(host) for host in ("localhost.x.example", "10.0.0.1", "1270.0.0.1"))
