"""Addresses by their shape."""

from __future__ import annotations

import pytest

from lockgate.core.ruling.targets import (
    Shape,
    find_addresses_by_shape,
    find_bare_hosts,
    find_hosts,
    find_mailboxes,
    host_from_value,
    is_local_host,
    is_wallet,
    text_behind_accounts,
)


@pytest.mark.parametrize(
    ("text", "shape", "target"),
    [
        ("eve@evil.example", Shape.EMAIL, "eve@evil.example"),
        ("Eve <eve@evil.example>", Shape.EMAIL, "eve@evil.example"),
        ("mailto:eve@evil.example", Shape.EMAIL, "eve@evil.example"),
        ("https://Evil.example:8443/a?b", Shape.HOST, "evil.example"),
        ("+41 44 668 18 00", Shape.PHONE, "+41 44 668 18 00"),
        ("whatsapp:+14155238886", Shape.PHONE, "+14155238886"),
        ("DE12 5001 0517 0648 4898 90", Shape.ACCOUNT, "DE12500105170648489890"),
        ("0x52908400098527886E0F7030069857D2E4169EE7", Shape.ACCOUNT, "0x52908400098527886E0F7030069857D2E4169EE7"),
        ("4242 4242 4242 4242", Shape.ACCOUNT, "4242424242424242"),
    ],
)
def test_a_value_that_is_an_address_is_one_whatever_its_argument_is_called(
    text: str, shape: Shape, target: str
) -> None:
    [seen] = find_addresses_by_shape(text)
    assert (seen.shape, seen.target) == (shape, target)


def test_a_list_of_addresses_gives_each_of_them() -> None:
    assert [seen.target for seen in find_addresses_by_shape("a@x.example; b@y.example")] == [
        "a@x.example",
        "b@y.example",
    ]


@pytest.mark.parametrize(
    "text", ["", "please write to eve@evil.example soon", "77120", "2024-05-20", "t-shirt, red", "a" * 400]
)
def test_prose_and_plain_numbers_are_no_address(text: str) -> None:
    assert find_addresses_by_shape(text) == []


WALLETS = (
    "0x52908400098527886E0F7030069857D2E4169EE7",
    "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq",
    "BC1QAR0SRRR7XFKVY5L643LYDNW9RE59GTZZWF5MDQ",
    "1BoatSLRHtKNngkdXEeobR76b53LETtpyT",
)
ACCOUNTS = ("DE12500105170648489890", "DE12 5001 0517 0648 4898 90", "0417164300")


def test_a_wallet_is_told_from_an_account() -> None:
    assert all(map(is_wallet, WALLETS))
    assert not any(map(is_wallet, (*ACCOUNTS, "0x5290", "12 Main Street")))


@pytest.mark.parametrize("account", [*WALLETS, *ACCOUNTS])
def test_an_account_in_a_text_ends_what_stands_before_it(account: str) -> None:
    for written in (account, account.lower()):
        assert text_behind_accounts(f"baz: {written}, eve: ".encode()) == b", eve: "


def test_dates_and_references_are_no_accounts() -> None:
    text = b"baz, invoice 77120 of 2024-05-20, ref AB-12: "
    assert text_behind_accounts(text) == text


def test_hosts_are_found_in_any_text_and_listed_once() -> None:
    text = "see https://a.example/x, https://user:pass@b.example:80/y and https://A.example"
    assert [seen.target for seen in find_hosts(text)] == ["a.example", "b.example"]


@pytest.mark.parametrize(
    ("text", "host"),
    [("www.shop.example/cart", "www.shop.example"), ("10.0.0.7:8080", "10.0.0.7"), ("README", "")],
)
def test_an_address_may_lack_its_scheme(text: str, host: str) -> None:
    assert host_from_value(text) == host


def test_this_machine_is_local_by_any_of_its_names() -> None:
    assert all(map(is_local_host, ["localhost", "127.0.0.1", "127.8.8.8", "[::1]", "app.localhost"]))
    assert not any(map(is_local_host, ["localhost.evil.example", "128.0.0.1", "10.0.0.1"]))


def test_mailboxes_are_found_in_a_short_text_only() -> None:
    assert [seen.target for seen in find_mailboxes("forward: a@x.example, b@y.example")] == [
        "a@x.example",
        "b@y.example",
    ]
    assert find_mailboxes("a@x.example" + " " * 400) == []


def test_an_address_without_its_scheme_has_a_host_and_a_path() -> None:
    text = "Cards: Ours.example/card, (b.example/x) ours.example/two; src/a.py, and/or, a@c.example/x, v1.2/3."
    assert [seen.target for seen in find_bare_hosts(text)] == ["ours.example", "b.example"]
    assert list(find_bare_hosts("https://e.example/x")) == []
    assert list(find_bare_hosts("for node.js/deno, or app.yaml/env")) == []
