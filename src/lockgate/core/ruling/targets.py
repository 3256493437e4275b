"""Hosts, mailboxes, phone numbers and accounts: which values are one by their shape, whose they are, and what they
look like.

A telling shape counts whatever its argument is called: a tool's author may call the recipient `con`.

An attacker registers a name that people and models take for one they know. Two hosts look alike if they have the same
skeleton: letters of other scripts folded, `rn` read as `m`, `0` as `o` and the like, without hyphens and dots, and with
each doubled letter single.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from lockgate.core.ruling.scope.machines import (
    FILE_OR_DOMAIN_ENDINGS,
    NO_HOST,
    TOP_LEVEL_DOMAINS,
    host_and_port,
    is_host_like,
)
from lockgate.core.tables import read_byte_patterns, read_patterns, read_sections
from lockgate.core.text.readings import fold_to_latin

# A short value can be one address, or a list of them; a longer one is prose.
MAX_SHORT = 320
PATTERNS = _P = read_patterns(__package__, "values.tbl")
BYTE_PATTERNS = _B = read_byte_patterns(__package__, "values.tbl")
URL = re.compile(rf"(?i)\b[a-z][a-z0-9+.-]{{0,30}}:[/\\]{{2,}}([^{NO_HOST}]+)")


class Shape(StrEnum):
    """What kind of address a value is."""

    HOST = "host"
    EMAIL = "email"
    PHONE = "phone"
    ACCOUNT = "account"
    NAME = "name"


class Seen(NamedTuple):
    """An address in a value, as an attacker's text would name it, and where it stands."""

    shape: Shape
    target: str
    start: int
    end: int


def is_local_host(host: str) -> bool:
    """Return whether a host is this machine itself."""
    return _P["local"].fullmatch(host) is not None


def find_hosts(text: str) -> Iterator[Seen]:
    """Yield the host of every URL in a text, each once."""
    return _first_of_each((_host_of_url(match), match) for match in URL.finditer(text))


def find_bare_hosts(text: str) -> Iterator[Seen]:
    """Yield the host of every address that a text has without its scheme, as people write them, each once."""
    named = ((match[1].lower(), match) for match in _P["bare url"].finditer(text))
    return _first_of_each((host, match) for host, match in named if host.rpartition(".")[2] in TOP_LEVEL_DOMAINS)


def find_host_words(text: str) -> Iterator[str]:
    """Yield the hosts that a command line gives as a word, or as a value or mailbox at the end of one."""
    for match in _P["host word"].finditer(text):
        last = match[1].rpartition(".")[2].lower()
        if last.isdigit() or (last in TOP_LEVEL_DOMAINS and last not in FILE_OR_DOMAIN_ENDINGS):
            yield match[1].lower()


def _first_of_each(named: Iterable[tuple[str, re.Match[str]]]) -> Iterator[Seen]:
    first: dict[str, re.Match[str]] = {}
    for host, match in named:
        first.setdefault(host, match)
    yield from (Seen(Shape.HOST, host, *match.span(1)) for host, match in first.items())


def _host_of_url(match: re.Match[str]) -> str:
    return host_and_port(match[1].rstrip(".:!"))[0].lower() or match[1].lower()


def host_from_value(text: str) -> str:
    """Return the host of a value that is one address, with or without its scheme; empty when it is none."""
    text = text.strip()
    if match := URL.match(text):
        return _host_of_url(match)
    host = host_and_port(re.split(r"[/?#\s]", text.removeprefix("//"), maxsplit=1)[0])[0].lower()
    return host if is_host_like(host) or is_local_host(host) or re.fullmatch(r"\d+(?:\.\d+){3}", host) else ""


def find_addresses_by_shape(text: str) -> list[Seen]:
    """Return the addresses of a short value that is one address or a list of them; none for a longer text or prose."""
    if len(text) > MAX_SHORT or not text:
        return []
    seen = [_address_from_part(text, 0)]
    if seen == [None]:
        seen = [_address_from_part(part[0], part.start()) for part in re.finditer(r"[^,;]+", text)]
    return [each for each in seen if each is not None] if all(seen) else []


def _address_from_part(text: str, at: int) -> Seen | None:
    whole = text.strip()
    value = whole[account_start(whole) :]
    compact = re.sub(r"[ -]", "", value)
    if email := _P["named email"].fullmatch(value):
        shape, target = Shape.EMAIL, email[1] or email[2]
    elif URL.match(value) and not re.search(r"\s", value):
        shape, target = Shape.HOST, host_from_value(value)
    elif phone := _P["phone"].fullmatch(value):
        shape, target = Shape.PHONE, phone[1]
    elif (len(compact) > 12 and _P["card"].fullmatch(value)) or _P["iban"].fullmatch(compact) or is_wallet(value):
        shape, target = Shape.ACCOUNT, compact
    else:
        return None
    end = at + text.find(whole) + len(whole)
    return Seen(shape, target, end - len(value), end)


def find_mailboxes(text: str) -> list[Seen]:
    """Return the mailboxes of a short text, whatever else stands in it."""
    found = _P["email"].finditer(text) if len(text) <= MAX_SHORT else ()
    return [Seen(Shape.EMAIL, match[0], match.start(), match.end()) for match in found]


def is_wallet(text: str) -> bool:
    """Return whether this is the address of a wallet, from which no bank gets money back."""
    return _P["wallet"].fullmatch(text.strip()) is not None


def text_behind_accounts(text: bytes) -> bytes:
    """Return what stands behind the last account in a text."""
    return _B["account"].split(text)[-1]


def account_start(text: str) -> int:
    """Return where an account begins behind its kind, as in `wallet:0x5f…`; 0 for a text without one."""
    match = _P["account kind"].match(text)
    return match.end() if match else 0


# ---------------------------------------------------------------------------------------------------------------
# Whose an address is, and what it looks like

_SHARED, _TENANTS, _PROVIDERS = (
    frozenset(" ".join(read_sections(__package__, "common_values.txt")[name]).encode().split())
    for name in ("shared domains", "tenant domains", "providers")
)
# Shorter names look alike by chance.
_MIN_NAME = 5
_ALIKE_IN_MAILBOXES, _SAME_LETTERS = str.maketrans("015", "ols"), str.maketrans("015i", "olsl", ".- ")
_ANY_SCRIPT = frozenset({"compat"})


def is_shared(domain: bytes) -> bool:
    """Return whether a domain says nothing alone: anyone can have a page there, or documents use it as an example."""
    return domain in _SHARED


def is_open_to_all(domain: bytes) -> bool:
    """Return whether anyone can have a mailbox, a host or a page there: its other users are other parties."""
    return domain in _SHARED or domain in _TENANTS or domain.partition(b".")[0] in _PROVIDERS


def domain_of(host: bytes) -> bytes:
    """Return the part of a host that one owner registers; where a short label stands before the last, three labels."""
    labels = host.split(b".")
    return b".".join(labels[-3:] if len(labels) > 2 and len(labels[-2]) < 4 else labels[-2:])


def find_alike(target: str, known: str) -> str:
    """Return the address in a known text that a target looks like without being it; empty where there is none.

    Two mailboxes of one host look alike letter by letter only, for colleagues have similar names.
    """
    addresses = _addresses_by_look(known)
    for name in _addresses_in(target.lower()):
        owner = _owner_of(name)
        whole, *looks = _looks_of(name)
        if len(name.rpartition("@")[0]) >= _MIN_NAME and addresses.get(whole, name) != name:
            return addresses[whole]
        other = next((addresses[look] for look in looks if look in addresses), name)
        if len(owner.partition(".")[0]) >= _MIN_NAME and _owner_of(other) != owner:
            return other
    return ""


def hosts_by_look(text: bytes) -> dict[str, list[str]]:
    """Return the hosts of the mailboxes in a text in lower case, by what they look like letter by letter."""
    hosts: dict[str, list[str]] = {}
    for host in dict.fromkeys(_B["host of mailbox"].findall(text)):
        name = host.decode("utf-8", "replace")
        hosts.setdefault(_join_letters(name), []).append(name)
    return hosts


@lru_cache(maxsize=64)
def _addresses_by_look(known: str) -> dict[str, str]:
    addresses: dict[str, str] = {}
    for name in _addresses_in(known):
        for look in _looks_of(name):
            addresses.setdefault(look, name)
    return addresses


def _addresses_in(text: str) -> list[str]:
    """Return the mailboxes and hosts of a text in lower case, international names as people see them."""
    addresses = _B["address"].finditer(text.encode("utf-8", "ignore"))
    written = (_B["punycode"].sub(_decode_label, match[0]) for match in addresses)
    return [name.decode("utf-8", "replace") for name in dict.fromkeys(written)]


def _decode_label(label: re.Match[bytes]) -> bytes:
    try:
        return label[1].decode("punycode").encode("utf-8", "ignore")
    except UnicodeError:
        return label[0]


def _owner_of(name: str) -> str:
    """Return the part of a host that has one owner; on a platform that is a label more than its domain."""
    host = name.rpartition("@")[2]
    domain = domain_of(host.encode()).decode()
    before = host.removesuffix(domain).removesuffix(".").rpartition(".")[2]
    return f"{before}.{domain}" if before and is_open_to_all(domain.encode()) else domain


def _looks_of(name: str) -> tuple[str, ...]:
    """Return what a mailbox or host looks like letter by letter, and what the name of its owner and its host do."""
    names = (_join_letters(each.translate(_SAME_LETTERS)) for each in (_owner_of(name), name.rpartition("@")[2]))
    return _join_letters(name), *(_P["doubled"].sub(r"\1", each) for each in names)


def _join_letters(name: str) -> str:
    folded = fold_to_latin(name, _ANY_SCRIPT) if not name.isascii() else name
    return folded.translate(_ALIKE_IN_MAILBOXES).replace("rn", "m").replace("vv", "w").replace("cl", "d")
