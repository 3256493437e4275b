from __future__ import annotations

import asyncio
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from lockgate.abuse_gate.identity import MAX_REMEMBERED, Identity, Unidentified
from lockgate.core.errors import InvalidConfig
from lockgate.core.requests.strikes import NETWORK, PRINCIPAL, Subject

SECRET = b"k" * 32
PROXIES = ("10.0.0.0/8", "fd00::/8")


def scope(host: str | None = "203.0.113.9", *forwarded: bytes, **more: Any) -> dict[str, Any]:
    headers = [(b"x-forwarded-for", value) for value in forwarded]
    return {"type": "http", "client": None if host is None else (host, 4711), "headers": headers, **more}


def network(identity: Identity, *about: Any) -> Subject:
    (subject,) = identity.subjects(scope(*about))
    assert subject.kind == NETWORK
    return subject


PLAIN = Identity(SECRET)
BEHIND = Identity(SECRET, trusted_proxies=PROXIES)


# --- clients without a user


PUBLIC = Identity(SECRET, locks_anonymous=True)
PUBLIC_BEHIND = Identity(SECRET, trusted_proxies=PROXIES, locks_anonymous=True)


@pytest.mark.parametrize("host", ["8.8.8.8", "2606:4700:4700::1111"])
def test_a_client_without_a_user_is_locked_by_its_network(host: str) -> None:
    locked, slowed = PUBLIC.subjects(scope(host))
    assert (locked.kind, slowed.kind) == (PRINCIPAL, NETWORK)
    assert locked.key != slowed.key
    assert PUBLIC.subjects(scope(host)) == (locked, slowed)
    assert PUBLIC.subjects(scope("1.1.1.1"))[0] != locked


@pytest.mark.parametrize(
    ("allowed", "trusted", "network", "locked"),
    [
        ("", ("10.0.0.1",), "8.8.8.8", True),
        ("10.0.0.1", ("10.0.0.1",), "8.8.8.8", False),
        ("10.0.0.1", (), "8.8.8.8", False),
        ("", (), "10.0.0.1", False),
        ("*", (), "1.1.1.1", False),
    ],
)
def test_uvicorn_may_write_the_address_before_the_gate_sees_it(
    allowed: str, trusted: tuple[str, ...], network: str, *, locked: bool
) -> None:
    """The table of docs/how-to/nginx.md."""
    seen: list[dict[str, Any]] = []

    async def app(scope: Any, _receive: Any, _send: Any) -> None:
        seen.append(scope)

    # nginx adds the client's address behind what the client itself has sent.
    request: Any = scope("10.0.0.1", b"1.1.1.1, 8.8.8.8")
    asyncio.run(ProxyHeadersMiddleware(app, allowed)(request, None, None))  # type: ignore[arg-type]
    identity = Identity(SECRET, trusted_proxies=trusted, locks_anonymous=True)
    assert identity.network_from_scope(seen[0]) == network
    assert (len(identity.subjects(seen[0])) == 2) is locked


def test_a_network_is_no_user_and_no_user_can_be_named_like_one() -> None:
    locked = PUBLIC.subjects(scope("8.8.8.8"))[0]
    assert not locked.is_authenticated
    assert PUBLIC.anonymous_subject("8.8.8.8") == locked
    assert PUBLIC.anonymous_subject("ann") is None
    for name in ("8.8.8.8", "\x008.8.8.8", "anonymous\x008.8.8.8"):
        named = PUBLIC.subjects({**scope("8.8.8.8"), "state": {"principal": name}})[0]
        assert named.is_authenticated
        assert named.key != locked.key


def test_all_addresses_of_an_ipv6_client_are_locked_as_one() -> None:
    assert PUBLIC.subjects(scope("2606:4700:4700::1")) == PUBLIC.subjects(scope("2606:4700:4700::2"))


@pytest.mark.parametrize(
    "host",
    [
        "10.0.0.1",
        "172.17.0.1",
        "192.168.1.9",
        "203.0.113.9",
        "fd00::1",
        "100.64.0.1",
        "127.0.0.1",
        "::1",
        None,
        "garbage",
    ],
)
def test_an_address_that_may_be_a_proxys_is_never_locked(host: str | None) -> None:
    assert [each.kind for each in PUBLIC.subjects(scope(host))] == [NETWORK]


@pytest.mark.parametrize("header", [b"X-Forwarded-For", b"forwarded", b"via", b"x-real-ip", b"cf-connecting-ip"])
def test_a_proxy_that_was_not_named_is_never_locked(header: bytes) -> None:
    about = {**scope("8.8.8.8"), "headers": [(header, b"192.0.2.1")]}
    assert [each.kind for each in PUBLIC.subjects(about)] == [NETWORK]


def test_without_its_headers_it_would_be_the_client_that_may_be_locked() -> None:
    about = {**scope("8.8.8.8"), "headers": [(b"via", b"1.1 x")]}
    assert PUBLIC.subject_without_headers(about) == PUBLIC.subjects(scope("8.8.8.8"))[0]
    assert PUBLIC.subject_without_headers(scope("10.0.0.1", b"8.8.8.8")) is None
    assert PUBLIC_BEHIND.subject_without_headers(scope("10.0.0.1")) is None
    assert Identity(SECRET).subject_without_headers(about) is None


def test_behind_a_named_proxy_the_client_is_locked_and_the_proxy_is_not() -> None:
    one, two = (PUBLIC_BEHIND.subjects(scope("10.0.0.1", client)) for client in (b"8.8.8.8", b"1.1.1.1"))
    assert [each.kind for each in one] == [PRINCIPAL, NETWORK]
    assert one[0] != two[0]
    assert [each.kind for each in PUBLIC_BEHIND.subjects(scope("10.0.0.1"))] == [NETWORK]
    assert [each.kind for each in PUBLIC_BEHIND.subjects(scope("10.0.0.1", b"garbage"))] == [NETWORK]


def test_a_user_at_a_locked_address_is_another_subject() -> None:
    state = {"state": {"principal": "8.8.8.8"}}
    assert PUBLIC.subjects(scope("8.8.8.8", **state))[0] != PUBLIC.subjects(scope("8.8.8.8"))[0]


# --- the network


def test_no_header_makes_a_client_another_one() -> None:
    """B2, B3: a new X-Forwarded-For or X-API-Key for each request made each one a new client."""
    headers: Iterable[tuple[bytes, bytes]] = [
        (b"x-forwarded-for", b"192.0.2.1"),
        (b"x-real-ip", b"192.0.2.1"),
        (b"forwarded", b"for=192.0.2.1"),
        (b"x-api-key", b"other"),
        (b"authorization", b"Bearer other"),
        (b"user-agent", b"other"),
        (b"cookie", b"session=other"),
        (b"cf-connecting-ip", b"192.0.2.1"),
        (b"true-client-ip", b"192.0.2.1"),
        (b"x-client-ip", b"192.0.2.1"),
    ]
    for identity in (PLAIN, BEHIND):
        expected = identity.subjects(scope())
        for header in headers:
            assert identity.subjects({**scope(), "headers": [header]}) == expected
        assert identity.subjects({**scope(), "headers": [*headers]}) == expected


def test_no_client_can_be_struck_in_the_name_of_another() -> None:
    """B4: five requests with the victim's address in a header had the victim locked out."""
    victim = network(BEHIND, "198.51.100.7")
    for host in ("203.0.113.9", "10.1.1.1"):
        # What the client wrote stands left of what the proxy added.
        assert network(BEHIND, host, b"198.51.100.7, 203.0.113.9") != victim
        assert network(BEHIND, host, b"198.51.100.7", b"203.0.113.9") != victim


def test_behind_a_proxy_it_is_the_last_hop_that_is_none_of_ours() -> None:
    client = network(PLAIN, "203.0.113.9")
    for forwarded in (
        [b"203.0.113.9"],
        [b"1.1.1.1, 203.0.113.9"],
        [b"1.1.1.1", b"203.0.113.9"],
        [b"1.1.1.1,203.0.113.9 , 10.9.9.9"],
        [b"203.0.113.9", b"10.9.9.9", b"10.8.8.8, fd00::3"],
        [b"203.0.113.9:55123"],
        [b"::ffff:203.0.113.9"],
        [b"[::ffff:203.0.113.9]:443, [fd00::7]:80"],
        [b"not an address, 203.0.113.9"],
    ):
        assert network(BEHIND, "10.1.1.1", *forwarded) == client
    assert network(BEHIND, "::ffff:10.1.1.1", b"203.0.113.9") == client


@pytest.mark.parametrize(
    "forwarded", [[], [b""], [b"unknown"], [b"203.0.113.9, garbage"], [b"1.2.3.4.5"], [b"\xff"], [b"x" * 70_000]]
)
def test_what_the_proxy_did_not_say_falls_back_to_the_proxy(forwarded: list[bytes]) -> None:
    assert network(BEHIND, "10.1.1.1", *forwarded) == network(PLAIN, "10.1.1.1")


def test_a_list_without_end_is_read_only_so_far() -> None:
    longest = b", ".join([b"203.0.113.9", *[b"10.0.0.1"] * 100_000])
    assert network(BEHIND, "10.1.1.1", longest) == network(PLAIN, "10.0.0.1")
    assert network(BEHIND, "10.1.1.1", b"203.0.113.9", *[b"10.0.0.1"] * 5000) == network(PLAIN, "10.0.0.1")


def test_an_ipv6_client_is_its_64() -> None:
    one = network(PLAIN, "2001:db8:1:2::1")
    assert network(PLAIN, "2001:db8:1:2:ffff:ffff:ffff:ffff") == one
    assert network(PLAIN, "2001:DB8:1:2:0:0:0:9%eth0") == one
    assert network(PLAIN, "2001:db8:1:3::1") != one


def test_an_ipv4_client_is_itself_however_it_is_written() -> None:
    one = network(PLAIN, "203.0.113.9")
    assert network(PLAIN, "::ffff:203.0.113.9") == one
    assert network(PLAIN, "::ffff:cb00:7109") == one
    assert network(PLAIN, "64:ff9b::203.0.113.9") == one
    assert network(PLAIN, "203.0.113.8") != one


def test_clients_without_an_address_are_one_network() -> None:
    unknown = network(PLAIN, None)
    assert unknown == network(PLAIN, "") == network(PLAIN, "testclient") == network(PLAIN, "/run/app.sock")
    assert unknown != network(PLAIN, "127.0.0.1")
    (subject,) = PLAIN.subjects({"type": "http"})
    assert subject == unknown


def test_behind_a_unix_socket_the_proxy_is_believed_only_if_that_was_said() -> None:
    unix = Identity(SECRET, trusted_proxies=["unix"])
    assert network(unix, None, b"203.0.113.9") == network(PLAIN, "203.0.113.9")
    assert network(PLAIN, None, b"203.0.113.9") == network(PLAIN, None)
    assert network(unix, "198.51.100.1", b"203.0.113.9") == network(PLAIN, "198.51.100.1")


@pytest.mark.parametrize("proxy", ["", "proxy.example", "10.0.0.1/8", "0.0.0.0/0", "::/0", "10.0.0.0/33", None])
def test_a_proxy_that_is_no_network_or_all_networks_does_not_start(proxy: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        Identity(SECRET, trusted_proxies=[proxy])
    assert refused.value.hint


@settings(deadline=None)
@given(
    st.binary(max_size=200), st.sampled_from(["10.0.0.1", "8.8.8.8", "fd00::1", "", "::1", "%", "[", ":", "1" * 500])
)
def test_whatever_is_in_the_header_there_is_a_network(forwarded: bytes, host: str) -> None:
    (subject,) = BEHIND.subjects(scope(host, forwarded))
    assert len(bytes.fromhex(subject.key)) == 16


# --- the principal


def signed_in(**user: Any) -> dict[str, Any]:
    return scope(user=SimpleNamespace(is_authenticated=True, **user))


def principal(identity: Identity, scope: dict[str, Any]) -> Subject | None:
    return next((each for each in identity.subjects(scope) if each.kind == PRINCIPAL), None)


def test_the_principal_is_whom_the_application_let_in() -> None:
    ann = principal(PLAIN, signed_in(identity="ann"))
    assert ann is not None
    assert ann == principal(PLAIN, signed_in(username="ann"))
    assert ann == principal(PLAIN, signed_in(display_name="ann"))
    assert ann == principal(PLAIN, scope(state={"principal": "ann"}))
    assert ann == principal(Identity(SECRET, lambda scope: "ann"), scope())
    assert ann != principal(PLAIN, signed_in(identity="bob"))
    for id in (7, UUID(int=7), 0):
        known = principal(PLAIN, signed_in(id=str(id)))
        assert known == principal(PLAIN, signed_in(id=id)) == principal(PLAIN, scope(state={"principal": id}))
        assert known == principal(Identity(SECRET, lambda scope, id=id: id), scope())  # type: ignore[misc]


def test_a_user_of_the_web_framework_without_an_identity_goes_by_the_name_it_shows() -> None:
    class User:
        is_authenticated = True
        display_name = "ann"

        @property
        def identity(self) -> str:
            raise NotImplementedError

    assert principal(PLAIN, scope(user=User())) == principal(PLAIN, signed_in(identity="ann"))


def test_the_network_is_counted_also_for_a_signed_in_user() -> None:
    ann, where = PLAIN.subjects(signed_in(identity="ann"))
    assert (ann.kind, where) == (PRINCIPAL, network(PLAIN))


@pytest.mark.parametrize(
    "anonymous",
    [
        {},
        {"user": None},
        {"user": SimpleNamespace(is_authenticated=False, identity="ann")},
        {"user": SimpleNamespace(identity="ann")},
        # A claim that was not checked is not one.
        {"user": SimpleNamespace(is_authenticated="yes", identity="ann")},
        {"user": SimpleNamespace(is_authenticated=lambda: True, identity="ann")},
        {"state": {}},
        {"state": {"principal": ""}},
        {"state": {"principal": None}},
    ],
)
def test_a_user_is_signed_in_only_if_that_is_certain(anonymous: dict[str, Any]) -> None:
    assert principal(PLAIN, scope(**anonymous)) is None


async def _later(scope: object) -> str:
    return "ann"


@pytest.mark.parametrize(
    ("callable", "about"),
    [
        (lambda scope: scope["user"].id, {}),
        (lambda scope: 1 / 0, {}),
        (lambda scope: True, {}),
        (lambda scope: b"ann", {}),
        (lambda scope: _later(scope), {}),
        (None, {"user": SimpleNamespace(is_authenticated=True)}),
        (None, {"user": SimpleNamespace(is_authenticated=True, identity="", display_name="")}),
        (None, {"state": {"principal": False}}),
        (None, {"state": {"principal": ["ann"]}}),
    ],
)
def test_code_that_fails_is_no_way_out_of_a_ban(callable: Any, about: dict[str, Any]) -> None:
    with pytest.raises(Unidentified) as refused:
        Identity(SECRET, callable).subjects(scope(**about))
    assert refused.value.hint


def test_an_error_says_nothing_of_what_was_in_the_scope() -> None:
    def broken(scope: Any) -> str:
        raise RuntimeError("token sk-live-123")

    with pytest.raises(Unidentified) as refused:
        Identity(SECRET, broken).subjects(scope())
    assert "sk-live" not in str(refused.value)


# --- the keys


def test_a_principal_called_like_an_address_is_not_that_network() -> None:
    """B6: an organisation and a session of the same name were one subject."""
    for name in ("203.0.113.9", "network\x00203.0.113.9", "unknown"):
        who, where = Identity(SECRET, lambda scope, name=name: name).subjects(scope())  # type: ignore[misc]
        assert who.key != where.key
        assert who.key not in {network(PLAIN).key, network(PLAIN, None).key}


def test_without_the_secret_a_key_says_nothing() -> None:
    """B22: with a public secret, all of IPv4 can be tried in half an hour."""
    assert network(PLAIN) == network(Identity(SECRET))
    assert network(PLAIN) != network(Identity(b"x" * 32))


@pytest.mark.parametrize("secret", [b"", b"guardrail-pepper", b"k" * 31])
def test_a_short_secret_does_not_start(secret: bytes) -> None:
    with pytest.raises(InvalidConfig):
        Identity(secret)


def test_any_text_can_be_a_principal() -> None:
    for name in ("\ud800", "a" * 1_000_000, "\x00", "Ünïcode"):
        assert principal(PLAIN, signed_in(identity=name)) is not None


# --- the cache


class EqualToAll(str):
    """A text that claims to be equal to every other."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return hash("alice")


def test_a_principal_that_claims_to_equal_another_is_not_that_one() -> None:
    names: list[str] = ["alice", EqualToAll("mallory"), "mallory"]
    identity = Identity(SECRET, lambda scope: names[scope["number"]])
    alice, claims, mallory = (identity.subjects({"number": at, "client": ("192.0.2.1", 1)})[0] for at in range(3))
    assert claims == mallory != alice


def test_what_is_remembered_is_bounded_and_right() -> None:
    identity = Identity(SECRET)

    def network_at(address: str) -> Subject:
        return identity.subjects({"client": (address, 1)})[0]

    first = network_at("192.0.2.1")
    assert network_at("::ffff:192.0.2.1") == first
    assert network_at("2001:db8::1") == network_at("2001:db8::ffff") != network_at("2001:db8:0:1::1")
    for number in range(MAX_REMEMBERED + 10):
        network_at(f"10.0.{number // 256}.{number % 256}")
    assert network_at("192.0.2.1") == first
    assert identity._remembered.cache_info().currsize <= MAX_REMEMBERED


def test_behind_a_proxy_on_a_unix_socket_an_empty_address_is_the_proxys() -> None:
    headers = [(b"x-forwarded-for", b"192.0.2.1")]
    behind = Identity(SECRET, trusted_proxies=["unix"]).subjects({"client": ("", 0), "headers": headers})
    assert behind == Identity(SECRET).subjects({"client": ("192.0.2.1", 1)})


def test_long_names_are_not_remembered() -> None:
    identity = Identity(SECRET, lambda _scope: "n" * 100_000)
    assert identity.subjects({"client": None})[0] == identity.subjects({"client": None})[0]
    assert identity._remembered.cache_info().currsize == 1  # the network
