"""Which machine a host as it is written means.

Programs disagree about what an address means (`http://a\\@b`, `010.0.0.1`, `ｅxample.com`), and an attacker picks the
spelling. So a host that two common programs could take for different machines is none that is known.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_network

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

# The characters that no host has in it, for use inside `[^…]`.
NO_HOST = r"\s/\\?#\"'<>|`,;&()"
# Dots of other scripts, which programs that know international names take for a dot.
DOTS = str.maketrans(dict.fromkeys("\u3002\uff0e\uff61", "."))

_MAX_HOST = 1000
_LOOPBACK = ip_network("127.0.0.1")

Network = IPv4Network | IPv6Network
Machine = str | Network


@lru_cache(maxsize=1024)
def machine_from_host(written: str) -> Machine | None:
    """Return the machine that every program takes a written host for; None where they may differ, or it is no host."""
    if len(written) > _MAX_HOST:
        return None
    # Programs that know international names drop invisible characters and fold the rest, the others do neither.
    name = unicodedata.normalize("NFC", written).lower().removesuffix(".")
    folded = unicodedata.normalize("NFKC", "".join(ch for ch in written if ch not in INVISIBLE)).casefold()
    if name != unicodedata.normalize("NFKC", folded).translate(DOTS).removesuffix("."):
        return None
    network = _LOOPBACK if name == "localhost" else network_from_text(re.sub(r"^\[(.*)\]$", r"\1", name))
    if network is not None or PATTERNS["numeric"].search(name):
        return network
    codes = [to_punycode(label) if len(label) <= 63 else "" for label in name.split(".")]
    return ".".join(codes) if len(name) <= 253 and all(map(PATTERNS["label"].fullmatch, codes)) else None


def to_punycode(label: str) -> str:
    """Return one label of a name in its ASCII form."""
    return label if label.isascii() else f"xn--{label.encode('punycode').decode('ascii')}"


def network_from_text(text: str) -> Network | None:
    """Return an address or a network, of `10.0.0.1-20` all that has the same beginning; None for another text.

    `010.0.0.1`, `127.1`, `0x7f000001` and the like are none: programs differ about them.
    """
    text = PATTERNS["scanned"].sub(r"\1.0/24", text)
    try:
        network = ip_network(text, strict=False) if PATTERNS["network text"].fullmatch(text) else None
    except ValueError:
        return None
    if network is None or isinstance(network, IPv4Network) or network.num_addresses > 1:
        return network
    address = network.network_address
    return _LOOPBACK if address.is_loopback else ip_network(address.ipv4_mapped or address)


def host_and_port(authority: str) -> tuple[str, int]:
    """Return the host and the port of an authority; a port that is no number makes the host unreadable."""
    match = re.fullmatch(r"(\[[^\]]*\]|[^:]*)(?::([0-9]{0,5}))?", authority.rpartition("@")[2])
    return (match[1], int(match[2] or 0)) if match else ("", 0)


def is_host_like(name: str) -> bool:
    """Return whether a dotted name could be a machine's: it does not end like a file or a number."""
    name = name.removesuffix(".")
    last = name.rpartition(".")[2].lower()
    return "." in name and len(last) > 1 and not last.isnumeric() and last not in FILE_ENDINGS and last[0] != "_"
