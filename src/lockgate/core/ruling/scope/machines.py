"""Which machines a host as it is written can mean.

Programs disagree about what an address means (`http://a\\@b`, `010.0.0.1`, `ｅxample.com`), and an attacker picks the
spelling. So everything a common program could take it for is returned, and nothing where it cannot be read.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import NamedTuple
from urllib.parse import unquote

from lockgate.core.tables import read_patterns, read_table, read_words
from lockgate.core.text.readings import INVISIBLE

_ROWS = read_table(__package__, "names.tbl", "names", ("group", "words"))
WORDS = {
    group: frozenset(word for other, words in _ROWS if other == group for word in words.split()) for group, _ in _ROWS
}
PATTERNS = read_patterns(__package__, "names.tbl")
FILE_ENDINGS, FILE_OR_DOMAIN_ENDINGS = WORDS["files"], WORDS["files or domains"]
PRIVATE_DOMAINS = WORDS["private"]
COMMON_DOMAINS = PRIVATE_DOMAINS | WORDS["common"]
# The whole list of IANA. It decides only where a dotted name may well be something else, a module or a column.
TOP_LEVEL_DOMAINS = PRIVATE_DOMAINS | frozenset(read_words(__package__, "top_level_domains.txt"))

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# The characters that no host has in it, for use inside `[^…]`.
NO_HOST = r"\s/\\?#\"'<>|`,;&()"
# Dots of other scripts, which programs that know international names take for a dot.
DOTS = str.maketrans(dict.fromkeys("\u3002\uff0e\uff61", "."))

MAX_REST = 1000
_MAX_HOST = 1000
_MAX_WRITTEN = 300


class AddressRange(NamedTuple):
    """The addresses from the first to the last: one machine, a network, or a range as scanners write it."""

    first: Address
    last: Address


Machine = str | AddressRange


class SeenAddress(NamedTuple):
    """An address in an argument: all the machines it could mean (none: it cannot be read), and what it says of them."""

    machines: frozenset[Machine]
    port: int
    path: str
    written: str
    start: int


@lru_cache(maxsize=1024)
def machines_from_host(written: str) -> frozenset[Machine]:
    """Return every machine that a program could take a written host for; nothing when it is no host's name."""
    if not written or len(written) > _MAX_HOST:
        return frozenset()
    if written.startswith("[") and written.endswith("]"):
        try:
            address = IPv6Address(written[1:-1].partition("%")[0])
        except ValueError:
            return frozenset()
        machine = address.ipv4_mapped or address
        return frozenset({AddressRange(machine, machine)})
    plain = decode_percent(written)
    # Programs that know international names drop invisible characters and fold the rest, the others do neither.
    lowered = unicodedata.normalize("NFC", plain).lower()
    mapped = "".join(ch for ch in unicodedata.normalize("NFKC", plain) if ch not in INVISIBLE)
    mapped = unicodedata.normalize("NFKC", mapped.casefold()).translate(DOTS)
    machines = {_machine_from_name(form.removesuffix(".")) for form in (lowered, mapped)}
    return frozenset(machine for machine in machines if machine) if None not in machines else frozenset()


def decode_percent(text: str) -> str:
    """Return a text with its percent codes decoded, also those that were encoded several times."""
    for _ in range(4):
        if "%" not in text:
            break
        text = unquote(text)
    return text


def _machine_from_name(name: str) -> Machine | None:
    labels = name.split(".")
    if PATTERNS["numeric"].fullmatch(labels[-1]):
        address = _ipv4_from_labels(labels)
        return AddressRange(address, address) if address is not None else None
    written = [to_punycode(label) if len(label) <= 63 else "" for label in labels]
    return ".".join(written) if len(name) <= 253 and all(map(PATTERNS["label"].fullmatch, written)) else None


def to_punycode(label: str) -> str:
    """Return one label of a name in its ASCII form."""
    return label if label.isascii() else f"xn--{label.encode('punycode').decode('ascii')}"


def _ipv4_from_labels(labels: Sequence[str]) -> IPv4Address | None:
    """Read one to four numbers, as `inet_aton` does; `010` is 8 to some programs and 10 to others, so it is none."""
    if len(labels) > 4 or not all(map(PATTERNS["number"].fullmatch, labels)):
        return None
    *front, last = (int(label, 16 if label.startswith("0x") else 10) for label in labels)
    if any(number > 255 for number in front) or last >= 256 ** (4 - len(front)):
        return None
    return IPv4Address(sum(number << 8 * (3 - at) for at, number in enumerate(front)) + last)


def network_from_text(text: str) -> Network | None:
    """Return the network, or None for a text that is none."""
    try:
        return ip_network(text, strict=False)
    except ValueError:
        return None


def host_and_port(authority: str) -> tuple[str, int]:
    """Return the host and the port of an authority; a port that is no number makes the host unreadable."""
    host = authority.rpartition("@")[2]
    bracketed = re.fullmatch(r"(\[[^\]]*\])(?::([0-9]{0,5}))?", host)
    if bracketed:
        return bracketed[1], int(bracketed[2] or 0)
    name, colon, port = host.partition(":")
    if colon and not re.fullmatch("[0-9]{0,5}", port):
        return "", 0
    return name, int(port or 0)


def is_host_like(name: str) -> bool:
    """Return whether a dotted name could be a machine's: it does not end like a file or a number."""
    name = name.removesuffix(".")
    last = name.rpartition(".")[2].lower()
    return "." in name and len(last) > 1 and not last.isnumeric() and last not in FILE_ENDINGS and last[0] != "_"


def address_from_authority(authority: str, rest: str, written: str, start: int, port: int = 0) -> SeenAddress:
    """Return the address that an authority and the text behind it are.

    Some programs go on where others see its end: at a backslash (unless it is a quote's), or at a comma or semicolon
    with more of a name behind it.
    """
    host, own_port = host_and_port(authority)
    if re.match(r"\\[^\"'\n]|[?#]@|[,;&()][^/?#]{0,300}(?:\.\w|[\[@])", rest):
        host = ""
    path = re.split("[?#]", rest, maxsplit=1)[0]
    if len(rest) >= MAX_REST:
        path = "$"  # the rest of it was not read, so it may lead anywhere
    return SeenAddress(machines_from_host(host), own_port or port, path, written[:_MAX_WRITTEN], start)


def address_from_range(match: re.Match[str]) -> SeenAddress:
    """Return the addresses that a match of `quad` means: one, a network, or a range such as `10.0.0.1-20`."""
    octets = match[1].replace("*", "0-255").split(".")
    ends: Sequence[Address | None] = (
        _ipv4_from_labels([octet.partition("-")[0] for octet in octets]),
        _ipv4_from_labels(match[3].split(".") if match[3] else [octet.rpartition("-")[2] for octet in octets]),
    )
    if match[2]:
        network = network_from_text(f"{match[1]}{match[2]}")
        ends = (network[0], network[-1]) if network is not None else (None, None)
    first, last = ends
    machines: frozenset[Machine] = frozenset()
    if first is not None and last is not None and int(first) <= int(last):
        machines = frozenset({AddressRange(first, last)})
    return SeenAddress(machines, int(match[4] or 0), "", match[0], match.start())
