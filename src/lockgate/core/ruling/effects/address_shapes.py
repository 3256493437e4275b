"""Values that are an address by their shape: hosts, e-mail addresses, phone numbers, accounts.

A telling shape counts whatever its argument is called: a tool's author may call the recipient `con`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from lockgate.core.ruling.scope.domain_names import TOP_LEVEL_DOMAINS
from lockgate.core.ruling.scope.machines import NO_HOST, host_and_port, is_host_like

# A short value can be one address, or a list of them; a longer one is prose.
MAX_SHORT = 320
URL = re.compile(rf"(?i)\b[a-z][a-z0-9+.-]{{0,30}}:[/\\]{{2,}}([^{NO_HOST}]+)")
_BARE_URL = re.compile(r"(?i)(?<![\w.@/:-])((?:[a-z0-9-]{1,63}\.){1,8}[a-z]{2,24})/[\w~%-]")
_EMAIL = re.compile(r"[^\s@<>\"(),;:]{1,64}@[^\s@<>\"(),;:/]{1,255}\.[^\s@<>\"(),;:/.]{2,63}")
_NAMED_EMAIL = re.compile(rf"[^<>@]{{0,100}}<(?:mailto:)?({_EMAIL.pattern})>|(?:mailto:)?({_EMAIL.pattern})")
_PHONE = re.compile(r"(?:tel:|sms:|whatsapp:)?(\+\d[\d ()./-]{6,20}\d|00\d[\d ()./-]{6,20}\d)")
_IBAN = re.compile(r"[A-Z]{2}\d{2}(?=(?:[A-Z]*\d){6})[A-Z0-9]{8,32}")
_WALLET = re.compile(r"0x[0-9a-fA-F]{40}|(?i:bc1|tb1|ltc1)[0-9a-zA-Z]{25,80}|[13][1-9A-HJ-NP-Za-km-z]{25,34}")
_CARD = re.compile(r"\d{4}(?:[ -]?\d{4}){2}[ -]?\d{1,7}")
# An account inside a text: an IBAN in groups, a wallet, the number of a card or an account.
_ACCOUNT = re.compile(
    rb"(?i)\b(?:[a-z]{2}\d\d(?: ?[a-z0-9]{4}){2,7}(?: ?[a-z0-9]{1,3})?|%b|\d{9,17})\b" % _WALLET.pattern.encode()
)
_ACCOUNT_KIND = re.compile(
    r"(?i)(?:wallet|iban|acct|account|card|bank|crypto|btc|bitcoin|eth|ethereum|usdt|xmr|monero|litecoin|lightning|upi|pix"
    r"|paypal|venmo|cashapp|mpesa|zelle|sepa|konto)[ ]{0,2}[:=](?!//)[ ]{0,2}(?=\S)"
)
_LOCAL = re.compile(
    r"(?i)(?:[\w-]+\.)*localhost\.?|127(?:\.\d{1,3}){3}|0\.0\.0\.0|\[?::1\]?|host\.docker\.internal|\[::\]"
)


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
    return _LOCAL.fullmatch(host) is not None


def find_hosts(text: str) -> Iterator[Seen]:
    """Yield the host of every URL in a text, each once."""
    found = set()
    for match in URL.finditer(text):
        host = host_and_port(match[1].rstrip(".:!"))[0].lower() or match[1].lower()
        if host not in found:
            found.add(host)
            yield Seen(Shape.HOST, host, match.start(1), match.end(1))


def find_bare_hosts(text: str) -> Iterator[Seen]:
    """Yield the host of every address that a text has without its scheme, as people write them, each once."""
    found = set()
    for match in _BARE_URL.finditer(text):
        host = match[1].lower()
        if host not in found and host.rpartition(".")[2] in TOP_LEVEL_DOMAINS:
            found.add(host)
            yield Seen(Shape.HOST, host, *match.span(1))


def host_from_value(text: str) -> str:
    """Return the host of a value that is one address, with or without its scheme; empty when it is none."""
    match = URL.match(text.strip())
    if match:
        return host_and_port(match[1].rstrip(".:!"))[0].lower() or match[1].lower()
    authority = re.split(r"[/?#\s]", text.strip().removeprefix("//"), maxsplit=1)[0]
    host = host_and_port(authority)[0].lower()
    return host if is_host_like(host) or is_local_host(host) or re.fullmatch(r"\d+(?:\.\d+){3}", host) else ""


def find_addresses_by_shape(text: str) -> list[Seen]:
    """Return the addresses of a short value that is one address or a list of them; none for a longer text or prose."""
    if len(text) > MAX_SHORT or not text:
        return []
    whole = _address_from_part(text, 0)
    if whole is not None:
        return [whole]
    if "," not in text and ";" not in text:
        return []
    parts = list(re.finditer(r"[^,;]+", text))
    seen = [_address_from_part(part[0], part.start()) for part in parts]
    return [each for each in seen if each is not None] if all(seen) else []


def find_mailboxes(text: str) -> list[Seen]:
    """Return the mailboxes of a short text, whatever else stands in it."""
    found = _EMAIL.finditer(text) if len(text) <= MAX_SHORT else ()
    return [Seen(Shape.EMAIL, match[0], match.start(), match.end()) for match in found]


def is_wallet(text: str) -> bool:
    """Return whether this is the address of a wallet, from which no bank gets money back."""
    return _WALLET.fullmatch(text.strip()) is not None


def text_behind_accounts(text: bytes) -> bytes:
    """Return what stands behind the last account in a text."""
    return _ACCOUNT.split(text)[-1]


def account_start(text: str) -> int:
    """Return where an account begins behind its kind, as in `wallet:0x5f…`; 0 for a text without one."""
    match = _ACCOUNT_KIND.match(text)
    return match.end() if match else 0


def _address_from_part(text: str, at: int) -> Seen | None:
    stripped = text.strip()
    start = at + text.find(stripped) + account_start(stripped)
    end = at + text.find(stripped) + len(stripped)
    stripped = stripped[account_start(stripped) :]
    email = _NAMED_EMAIL.fullmatch(stripped)
    if email:
        return Seen(Shape.EMAIL, email[1] or email[2], start, end)
    url = URL.match(stripped)
    if url and not re.search(r"\s", stripped):
        return Seen(Shape.HOST, host_from_value(stripped), start, end)
    phone = _PHONE.fullmatch(stripped)
    if phone:
        return Seen(Shape.PHONE, phone[1], start, end)
    compact = re.sub(r"[ -]", "", stripped)
    if _IBAN.fullmatch(compact) or _WALLET.fullmatch(stripped) or (len(compact) > 12 and _CARD.fullmatch(stripped)):
        return Seen(Shape.ACCOUNT, compact, start, end)
    return None
