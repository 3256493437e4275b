"""The border of a declared scope: which hosts, networks, URLs and paths it names, and which arguments go beyond them.

A scope is the operator's prose. What it names is read off without interpreting a sentence: a place that is written
plainly is inside, one with `!` before it is outside, and a text in which something else could mean "not there" is
refused, because a border that is guessed is none.

The arguments are read the other way round. Programs disagree about what an address means (`http://a\\@b`, `010.0.0.1`,
`ｅxample.com`), and whoever wants to slip through picks the spelling. So an address counts as inside only when
*everything* a common program could take it for is inside, and one that cannot be read is outside.
"""

from __future__ import annotations

import binascii
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple
from urllib.parse import unquote

from lockgate.core.errors import InvalidConfig, printable, quoted
from lockgate.core.ruling.arguments import Leaf, sink_from_argument
from lockgate.core.ruling.scope.domain_names import (
    COMMON_DOMAINS,
    FILE_ENDINGS,
    FILE_OR_DOMAIN_ENDINGS,
    TOP_LEVEL_DOMAINS,
)
from lockgate.core.ruling.tool_risk import canonical_tool, tool_words
from lockgate.core.text.confusables import INVISIBLE, gates_from_text, remove_invisible
from lockgate.core.vocabulary import Finding

OUTSIDE, UNREADABLE, UNREAD = "scope:outside", "scope:unreadable", "scope:unread"
MAX_TEXT = 100_000
MAX_FINDINGS = 20

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


class AddressRange(NamedTuple):
    """The addresses from the first to the last: one machine, a network, or a range as scanners write it."""

    first: Address
    last: Address


class ScopePlace(NamedTuple):
    """One place that a scope names. A port of 0 is any port, an empty path is all of them.

    A host that starts with `*.` stands for the names below it, not for the name itself.
    """

    host: str = ""
    network: Network | None = None
    port: int = 0
    path: str = ""

    def __str__(self) -> str:
        port = f":{self.port}" if self.port else ""
        return f"{self.host or self.network or ''}{port}{self.path}"


class SeenAddress(NamedTuple):
    """An address in an argument: all the machines it could mean (none: it cannot be read), and what it says of them."""

    machines: frozenset[str | AddressRange]
    port: int
    path: str
    written: str
    start: int


@dataclass(frozen=True, slots=True)
class Border:
    """What a scope names: the places inside, and those that are outside all the same.

    With `open` everything is inside that is not among the latter. `also` are the borders of further scopes: what is
    inside is inside of all of them.
    """

    inside: tuple[ScopePlace, ...] = ()
    excluded: tuple[ScopePlace, ...] = ()
    is_open: bool = False
    others: tuple[Border, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.inside or self.excluded or any(self.others))

    @property
    def guards_paths(self) -> bool:
        """A scope that names no path says nothing about files."""
        return any(_is_path(place) for place in (*self.inside, *self.excluded)) or any(
            each.guards_paths for each in self.others
        )

    def contains(self, seen: SeenAddress) -> bool:
        """Whether everything this address could mean is inside."""
        if not seen.machines or not all(each.contains(seen) for each in self.others):
            return False
        if not (self.inside or self.excluded):
            return bool(self.others)
        return all(
            (self.is_open or any(_covers(place, machine, seen) for place in self.inside))
            and not any(_touches(place, machine, seen) for place in self.excluded)
            for machine in seen.machines
        )

    def contains_path(self, written: str) -> bool:
        path = _resolve_path(written)
        inside = [place.path for place in self.inside if _is_path(place)]
        never = [place.path for place in self.excluded if _is_path(place)]
        return (
            path is not None
            and (not inside or any(_is_below(path, top) for top in inside))
            and not any(_is_below(path.lower(), top.lower()) for top in never)
            and all(each.contains_path(written) for each in self.others)
        )


def _is_path(place: ScopePlace) -> bool:
    return not place.host and place.network is None


def _covers(place: ScopePlace, machine: str | AddressRange, seen: SeenAddress) -> bool:
    if _is_path(place) or not _is_same_machine(place, machine) or place.port not in (0, seen.port):
        return False
    if not place.path:
        return True
    path = _resolve_path(_percent_decoded(seen.path)) if seen.path else None
    return path is not None and _is_below(path, place.path)


def _touches(place: ScopePlace, machine: str | AddressRange, seen: SeenAddress) -> bool:
    """Whether an address could be of an excluded place: when a port is not said it may be that one."""
    if _is_path(place) or (place.port and seen.port and place.port != seen.port):
        return False
    if isinstance(machine, AddressRange) and place.network is not None:
        first, last = place.network[0], place.network[-1]
        if first.version != machine.first.version or int(machine.last) < int(first) or int(machine.first) > int(last):
            return False
    elif not _is_same_machine(place, machine):
        return False
    if not place.path:
        return True
    path = _resolve_path(_percent_decoded(seen.path) or "/")
    return path is None or _is_below(path.lower(), place.path.lower())


def _percent_decoded(text: str) -> str:
    """A text without its percent signs, however often they were put on."""
    for _ in range(4):
        if "%" not in text:
            break
        text = unquote(text)
    return text


_LOOPBACK = (ip_address("127.0.0.1"), ip_address("::1"))


def _is_same_machine(place: ScopePlace, machine: str | AddressRange) -> bool:
    if isinstance(machine, AddressRange):
        if place.network is None:
            return place.host == "localhost" and machine.first == machine.last and machine.first in _LOOPBACK
        return machine.first in place.network and machine.last in place.network
    if place.network is not None:
        return machine == "localhost" and any(address in place.network for address in _LOOPBACK)
    if place.host.startswith("*."):
        return machine.endswith(place.host[1:]) and len(machine) > len(place.host) - 1
    return machine == place.host


def _is_below(path: str, top: str) -> bool:
    return path == top or path.startswith(top if top.endswith("/") else f"{top}/")


def _resolve_path(written: str) -> str | None:
    """An absolute path without its detours; None for one that cannot be known or climbs above its start."""
    if not written.isprintable() or re.search(r"[$`{}]", written):
        return None
    if re.match(r"[A-Za-z]:[\\/]", written):
        written = written[0].lower() + written[1:]
    written = written.replace("\\", "/")
    kept: list[str] = []
    for segment in written.split("/"):
        # Some servers read `..;` as `..` too.
        if segment.partition(";")[0] == "..":
            if len(kept) < 2:
                return None
            kept.pop()
        elif segment not in ("", ".") or not kept:
            kept.append(segment)
    return "/".join(kept) or "/"


# ---------------------------------------------------------------------------------------------------------------
# What a scope names

_NO_HOST = r"\s/\\?#\"'<>|`,;&()"
_SCOPE_URL = re.compile(r"(?i)(?<![^\s(\[,;\"'`<!])(!?)([a-z][a-z0-9+.-]{0,30})://([^\s<>\"'`]{1,500})")
_SCOPE_NETWORK = re.compile(
    r"(?i)(?<![\w.:/!*-])(!?)"
    r"(?:(\d{1,3}(?:\.\d{1,3}){3})|\[?((?=[0-9a-f:]*::|(?:[0-9a-f]+:){7})[0-9a-f:.]*[0-9a-f:])\]?)"
    r"(/\d{1,3})?(?::(\d{1,5}))?(?![\w/-]|\.\d)"
)
_SCOPE_HOST = re.compile(
    r"(?<![\w.@:/!*-])(!?)((?:\*\.)?(?:[\w-]{1,63}\.){0,10}[\w-]{2,63})(?::(\d{1,5}))?((?:/[^\s,;\"'`<>)]*)?)(?![\w@])"
)
_SCOPE_PATH = re.compile(r"(?<![^\s(\[,;\"'`<:!])(!?)(~?/[^\s,;\"'`<>()]{1,400}|[A-Za-z]:[\\/][^\s,;\"'`<>()]{0,400})")
_EXCLUDES = re.compile(
    r"(?i)\b(?:not|no|never|nor|neither|none|except(?:ing|ions?)?|exclud\w+|exclusions?|without|outside|avoid\w*|forbid\w*"
    r"|forbidden|prohibit\w*|banned|apart from|other than|out[- ]of[- ](?:scope|bounds)|off[- ]limits|cannot"
    r"|(?:do|does|is|are|must|should|ca|wo)n['\u2019]t)\b"
)
_EXCLUDED = re.compile(
    r"(?i)\b(?:(?:is|are|be|must|may|shall|should|can) not|(?:is|are|must)n['\u2019]t|not in scope"
    r"|out[- ]of[- ](?:scope|bounds)|off[- ]limits|excluded|forbidden|prohibited|banned|cannot)\b"
)
_NOTHING_ELSE = re.compile(r"(?i)\b(?:nothing else|nobody else|no other(?: \w+)?|no others)\b")
_HINT = (
    "name what is inside plainly, and write what is outside with a mark before it: `*.lab.example !mail.lab.example`"
)


# Between two scopes that hold together. It says so in words because a judge and a person read the whole of it, and
# whoever writes it into a scope of his own gets what it says.
ALSO = "and at the same time only within:"
_ALSO = re.compile(rf"\s*^[ \t]*{re.escape(ALSO)}[ \t]*$\s*", re.MULTILINE)


def split_scopes(scope: str) -> tuple[str, ...]:
    """The scopes that a text holds, each of which counts."""
    return tuple(dict.fromkeys(part for part in _ALSO.split(scope.strip()) if part))


def combine_scopes(one: str, other: str) -> str:
    """A scope inside of which is what is inside both; either may be empty."""
    return f"\n\n{ALSO}\n\n".join(dict.fromkeys((*split_scopes(one), *split_scopes(other))))


@lru_cache(maxsize=64)
def border_from_scope(scope: str) -> Border:
    """The places a scope names. Raises InvalidConfig where its words could put one of them outside.

    A scope without any place has no border, and only the judges can go by it.
    """
    first, *others = [edge for edge in map(_border_from_one_scope, split_scopes(scope)) if edge] or [Border()]
    return Border(first.inside, first.excluded, first.is_open, tuple(others))


def _border_from_one_scope(scope: str) -> Border:
    found = sorted(_find_places(scope))
    text = _NOTHING_ELSE.sub(lambda said: " " * len(said[0]), scope)
    plain = [(at, place) for at, never, place in found if not never]
    word = _EXCLUDES.search(text)
    if word and plain and plain[-1][0] > word.start():
        raise InvalidConfig(
            f"the scope says {quoted(word[0])} before it names {quoted(plain[-1][1])}: is that inside?", hint=_HINT
        )
    for at, place in plain:
        sentence = re.split(r"[;\n]|\.(?:\s|$)", text[at:], maxsplit=1)[0]
        if word := _EXCLUDED.search(sentence):
            raise InvalidConfig(
                f"the scope names {quoted(place)} and then says {quoted(word[0])}: is that inside?", hint=_HINT
            )
    return Border(
        tuple(dict.fromkeys(place for _, never, place in found if not never)),
        tuple(dict.fromkeys(place for _, never, place in found if never)),
    )


def border_from_prose(text: str) -> Border:
    """The same for words that bind nobody, such as an agent's own: every place in them, and no refusal."""
    found = sorted(_find_places(text[:MAX_TEXT]))
    return Border(tuple(place for _, never, place in found if not never))


def _find_places(scope: str) -> Iterator[tuple[int, bool, ScopePlace]]:
    taken: list[tuple[int, int]] = []

    def free(match: re.Match[str]) -> bool:
        if any(start < match.end() and match.start() < end for start, end in taken):
            return False
        taken.append(match.span())
        return True

    for match in _SCOPE_URL.finditer(scope):
        mark, _, rest = match.groups()
        rest = rest.rstrip(".,;:!)")
        authority = re.split(r"[/\\?#]", rest, maxsplit=1)[0]
        path = rest[len(authority) :]
        host, port = _host_and_port(authority)
        for machine in machines_from_host(host):
            top = _resolve_path(re.split("[?#]", path)[0]) if path else ""
            if free(match):
                yield (
                    match.start(),
                    bool(mark),
                    _place_from_machine(machine, port, "" if top in (None, "/") else top or ""),
                )
    for match in _SCOPE_NETWORK.finditer(scope):
        mark, quad, groups, prefix, port_text = match.groups()
        network = _network((quad or groups) + (prefix or ""))
        if network is not None and free(match):
            yield match.start(), bool(mark), ScopePlace(network=network, port=int(port_text or 0))
    for match in _SCOPE_PATH.finditer(scope):
        path_inside = _resolve_path(match[2].rstrip(".:!"))
        if path_inside and path_inside != "/" and free(match):
            yield match.start(), bool(match[1]), ScopePlace(path=path_inside)
    for match in _SCOPE_HOST.finditer(scope):
        mark, name, port_text, path = match.groups()
        wild, bare = name.startswith("*."), name.removeprefix("*.")
        if not (wild or _is_host_like(bare) or bare.lower() == "localhost"):
            continue
        for machine in machines_from_host(bare):
            if isinstance(machine, str) and free(match):
                top = _resolve_path(path.rstrip(".:!")) if path.strip("/.") else ""
                yield (
                    match.start(),
                    bool(mark),
                    ScopePlace(f"*.{machine}" if wild else machine, None, int(port_text or 0), top or ""),
                )


def _place_from_machine(machine: str | AddressRange, port: int, path: str) -> ScopePlace:
    if isinstance(machine, AddressRange):
        return ScopePlace(network=ip_network(machine.first), port=port, path=path)
    return ScopePlace(machine, None, port, path)


def _network(text: str) -> Network | None:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        return None


# ---------------------------------------------------------------------------------------------------------------
# What an address means

_DOTS = str.maketrans(dict.fromkeys("\u3002\uff0e\uff61", "."))
_LABEL = re.compile("[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMERIC = re.compile("[0-9]+|0x[0-9a-f]*")


@lru_cache(maxsize=1024)
def machines_from_host(written: str) -> frozenset[str | AddressRange]:
    """Every machine that a program could take a host as it is written for; empty when it is no host's name."""
    if not written or len(written) > 1000:
        return frozenset()
    if written.startswith("[") and written.endswith("]"):
        return _ipv6(written[1:-1])
    plain = _percent_decoded(written)
    # Programs that know international names drop invisible characters and fold the rest, the others do neither.
    lowered = unicodedata.normalize("NFC", plain).lower()
    mapped = "".join(ch for ch in unicodedata.normalize("NFKC", plain) if ch not in INVISIBLE)
    mapped = unicodedata.normalize("NFKC", mapped.casefold()).translate(_DOTS)
    meant: set[str | AddressRange] = set()
    for form in {lowered, mapped}:
        found = _machines_from_name(form.removesuffix("."))
        if not found:
            return frozenset()
        meant |= found
    return frozenset(meant)


def _machines_from_name(name: str) -> set[str | AddressRange]:
    labels = name.split(".")
    if _NUMERIC.fullmatch(labels[-1]):
        return _ipv4(labels)
    spelled: list[str] = []
    for label in labels:
        if not label or len(label) > 63:
            return set()
        ascii_label = label if label.isascii() else f"xn--{label.encode('punycode').decode('ascii')}"
        if not _LABEL.fullmatch(ascii_label):
            return set()
        spelled.append(ascii_label)
    return {".".join(spelled)} if len(name) <= 253 else set()


def _ipv4(labels: Sequence[str]) -> set[str | AddressRange]:
    """One to four numbers of any base, as `inet_aton` reads them; `010` is 8 to some programs and 10 to others."""
    if len(labels) > 4 or not all(_NUMERIC.fullmatch(label) and len(label) <= 12 for label in labels):
        return set()
    meant: set[str | AddressRange] = set()
    for octal in (True, False):
        numbers: list[int] = []
        for label in labels:
            if label.startswith("0x"):
                numbers.append(int(label[2:] or "0", 16))
            elif octal and label.startswith("0") and len(label) > 1:
                if not re.fullmatch("[0-7]+", label):
                    return set()
                numbers.append(int(label, 8))
            else:
                numbers.append(int(label))
        *front, last = numbers
        if any(number > 255 for number in front) or last >= 256 ** (5 - len(numbers)):
            return set()
        address = IPv4Address(sum(number << 8 * (3 - at) for at, number in enumerate(front)) + last)
        meant.add(AddressRange(address, address))
    return meant


def _ipv6(written: str) -> frozenset[str | AddressRange]:
    try:
        address: Address = IPv6Address(written.partition("%")[0])
    except ValueError:
        return frozenset()
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return frozenset({AddressRange(address, address)})


def _host_and_port(authority: str) -> tuple[str, int]:
    """The host and the port of an authority; a port that is no number makes the host unreadable."""
    host = authority.rpartition("@")[2]
    bracketed = re.fullmatch(r"(\[[^\]]*\])(?::([0-9]{0,5}))?", host)
    if bracketed:
        return bracketed[1], int(bracketed[2] or 0)
    name, colon, port = host.partition(":")
    if colon and not re.fullmatch("[0-9]{0,5}", port):
        return "", 0
    return name, int(port or 0)


# ---------------------------------------------------------------------------------------------------------------
# Which addresses an argument holds

_DEFAULT_PORTS = {"http": 80, "ws": 80, "https": 443, "wss": 443, "ftp": 21, "ssh": 22, "sftp": 22, "git": 9418}
# Browsers and curl take `http:/host`, `http:host` and `http:\\host` for the same thing.
_URL = re.compile(
    rf"(?i)([a-z][a-z0-9+.-]{{0,30}}):[/\\]{{2,}}([^{_NO_HOST}]*)|\b(https?|wss?|ftps?):[/\\]?([^{_NO_HOST}]+)"
)
_SCHEME = re.compile(r"(?i)[a-z][a-z0-9+.-]{0,30}:[/\\]|(?:https?|wss?|ftps?):")
_MAX_REST = 1000
_REST = re.compile(rf"[^\s\"'<>|`]{{0,{_MAX_REST}}}")
_RELATIVE = re.compile(rf"(?<![^\s\"'=(,<>\[|;&`])(?://|\\\\)([^{_NO_HOST}]+)")
_AFTER_AT = re.compile(rf"(?<=[^\s\"'(\[{{/])@([^{_NO_HOST}@]+)")
_DEVICE = re.compile(rf"/dev/(?:tcp|udp)/([^{_NO_HOST}]+)(?:/([0-9]{{1,5}}))?")
_OCTETS = r"(?:\d{1,4}(?:-\d{1,3})?|\*)"
_QUAD = re.compile(
    rf"(?:(?<![\w.])|(?<=\s-[A-Za-z]))(\d{{1,4}}(?:\.{_OCTETS}){{3}})(?:(/\d{{1,2}})(?![\w/])|-(\d{{1,3}}(?:\.\d{{1,3}}){{3}})|:(\d{{1,5}}))?(?![\w-]|\.\d)"
)
_BARE_IPV6 = re.compile(r"(?i)(?<![\w:.])(?<![\w)\]]\[)((?:[0-9a-f]{0,4}:){2,7}[0-9a-f.:]{0,15})(/\d{1,3})?(?![\w:])")
_NAME = re.compile(r"(?<![\w.@/\\$-])((?:[\w-]{1,63}\.){1,126}[^\W\d][\w-]{1,62})(\.?:(\d{1,5})\b)?(?![\w(@-])")
_ODD_WORD = re.compile(r"(?i)(?:0x[0-9a-f]+|\d+)(?:\.(?:0x[0-9a-f]+|\d+)){0,3}")
_NETWORK_PROGRAM = re.compile(
    r"(?i)(?<![\w.-])(?:curl|wget|ssh|scp|sftp|l?ftp|tftp|rsync|nc|ncat|netcat|socat|telnet|mosh|f?ping6?|hping3|mtr"
    r"|k?dig|drill|delv|host|nslookup|getent\s+a?hosts|resolvectl|nmap|masscan|zmap|traceroute6?|tracepath|whois|http"
    r"|https|xh|aria2c|axel|lynx|w3m|links|openssl|sqlmap|nikto|ffuf|gobuster|hydra|nuclei|wpscan|sslscan|testssl"
    r"|smbclient|snmpwalk|websocat|wscat|grpcurl|yt-dlp|swaks"
    r"|iwr|irm|invoke-webrequest|invoke-restmethod|start-bitstransfer|certutil|bitsadmin|test-netconnection"
    r"|git\s+(?:clone|fetch|pull|push|remote|ls-remote|submodule))(?:\.exe)?(?=\s)"
)
_SHELL_WORD = re.compile(r"(?:[^\s\"'\\]|\\.|\"(?:[^\"\\]|\\.)*\"|'[^']*'|[\"'\\])+")
_ENDS_COMMAND = re.compile(r"[;&|\n]")
_HOST_ARGUMENTS = frozenset(
    "url urls uri uris host hosts hostname hostnames domain domains endpoint webhook proxy href website".split()
)
# Arguments whose dotted values are hardly ever addresses. A tool's maker names its arguments, not whoever fills them.
_OTHER_ARGUMENTS = frozenset(
    """
    path paths file files filename filenames filepath dir directory folder glob pattern regex extension module modules
    package packages dependency import class classes function method symbol attribute property field fields column
    columns table tables schema database index key keys setting option flag variable var env metric metrics event
    events topic topics queue stack entity entities device sensor service resource resources permission permissions
    role roles scope scopes policy type kind format mime namespace branch tag ref commit label labels selector locator
    xpath css element version versions model license id ids uuid sku product item reference title subject headline
    user username users author assignee owner handle login password token secret currency amount price date time
    status state language locale timezone unit
    """.split()
)
_LISTED_ARGUMENTS = frozenset("name names args argv arguments params parameters".split())
_SHELL_ARGUMENTS = frozenset("command commands cmd shell args argv program".split())
_MAYBE_HOSTS = frozenset("ip ips addr address server target remote peer origin upstream site link destination".split())
_NO_AUTHORITY = re.compile(r"(?i)(?:about|data|javascript|blob|mailto|tel|urn|file|cid):")
_CONTENT = frozenset(
    "content contents body text note notes report summary markdown string file_text message description".split()
)
_WRITERS = frozenset("note notes draft memo report journal".split())
# In code these come after a dot for other reasons: `self.host`, `c.email`.
_ATTRIBUTES = frozenset(
    """
    live store pro link click space host press work zone world today network systems digital email services solutions
    company site online test local home internal top it at no is be us se in co to me
    """.split()
)


class HostLevel(IntEnum):
    """How likely a dotted name is to be a machine's where it stands, and so which of them count."""

    PROSE = 0  # in a sentence: the endings that are hardly ever anything else
    CODE = 1  # in code: the same, without what attributes are called; in quotes, every ending that is registered
    WORDS = 2  # words of a program that does not connect: as in code
    LISTED = 3  # where it may as well be a module or a key: every ending that is registered
    ANY = 4  # where nothing is known: whatever does not end like a file
    CONNECTS = 5  # where something connects: the endings that files have as well


def find_crossings(edge: Border, leaves: Sequence[Leaf], *, tool: str = "") -> list[Finding]:
    """What in a call's arguments lies beyond the border: one finding for each address or path, bounded in number.

    A tool that only writes may mention any address in what it writes: mentioning is not going there.
    """
    if not edge:
        return []
    writes = canonical_tool(tool) == "write" or not _WRITERS.isdisjoint(tool_words(tool)) if tool else False
    shell = bool(tool) and canonical_tool(tool) == "bash"
    found: dict[tuple[str, str, str], Finding] = {}
    left = MAX_TEXT
    for leaf in leaves:
        argument, text, how = leaf
        if writes and not _CONTENT.isdisjoint(_argument_words(argument)):
            continue
        if len(text) > left:
            found["", "", UNREAD] = Finding(UNREAD, argument, 0, len(text), how)
            text = text[:left]
        left -= len(text)
        command = shell or sink_from_argument(argument) == "command"
        for reading, read in _readings_of_text(argument, text):
            for rule, written, start in _crossings_in_text(
                edge, argument, read, command=command, marked=reading != "unquoted"
            ):
                # In another reading than the argument's own, offsets point nowhere: the whole value is meant.
                where = (start, start + len(written)) if reading == "exact" else (0, len(text))
                name = how if reading == "exact" else reading
                finding = Finding(rule, argument, *where, "raw" if name == "exact" else name, printable(written, 120))
                found.setdefault((argument, written, rule), finding)
                if len(found) >= MAX_FINDINGS:
                    return list(found.values())
        if ("", "", UNREAD) in found:
            break
    return list(found.values())


def _argument_words(argument: str) -> tuple[str, ...]:
    last = re.sub(r"\[\d+\]", "", argument).rpartition(".")[2]
    return (*tool_words(last), last.lower())


_QUOTES = re.compile(r"['\"]+")
_DECODES = re.compile(r"(?i)base64|b64|atob")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{8,}={0,2}")


def _readings_of_text(argument: str, text: str) -> Iterator[tuple[str, str]]:
    """The text as it stands, and as whatever gets it may read it."""
    yield "exact", text
    plain = text
    if not text.isascii():
        plain = remove_invisible(text, gates_from_text(text))
        # One character at a time: normalising a whole text is quadratic in its marks.
        plain = "".join(_fold_character(ch) if ch > "\x7f" else ch for ch in plain).translate(_DOTS)
        if plain != text:
            yield "folded", plain
    decoded = plain
    for _ in range(3):
        again = unquote(decoded) if "%" in decoded else decoded
        if again == decoded:
            break
        decoded = again
        yield "percent", decoded
    # A shell drops quotes and backslashes inside a word: `ev''il.com`.
    if re.search(r"[\\'\"^]", plain) and (
        sink_from_argument(argument) in ("command", "") or _NETWORK_PROGRAM.search(plain)
    ):
        yield "unquoted", _QUOTES.sub(_drop_inner_quotes, re.sub(r"[\\^]", "", plain))
    # Where something is told to decode it, a short text is code as well.
    if _DECODES.search(plain):
        found = [said for said in map(_decode_base64, _BASE64.findall(plain)) if said]
        if found:
            yield "base64", "\n".join(found)
    # Parsers of URLs drop tabs and line ends wherever they stand; a list of whole URLs is no such case.
    if re.search(r"[\t\r\n]", plain) and " " not in plain.strip():
        pieces = plain.split()
        if _SCHEME.match("".join(pieces)) and not all(map(_SCHEME.match, pieces)):
            yield "joined", "".join(pieces)


def _drop_inner_quotes(quotes: re.Match[str]) -> str:
    """Nothing for quotes inside of a word; those around it say where it ends."""
    text, (start, end) = quotes.string, quotes.span()
    inside = start > 0 and end < len(text) and all(ch.isalnum() or ch in "._-" for ch in (text[start - 1], text[end]))
    return "" if inside else quotes[0]


def _decode_base64(word: str) -> str:
    """What a word says in base64; empty when that is no text."""
    plain = word.rstrip("=").translate(_URL_SAFE)
    try:
        said = binascii.a2b_base64(plain + "=" * (-len(plain) % 4)).decode("utf-8")
    except ValueError:
        return ""
    return said if re.fullmatch(r"[\s\x20-\x7e]+", said) else ""


_URL_SAFE = str.maketrans("-_", "+/")


@lru_cache(maxsize=4096)
def _fold_character(ch: str) -> str:
    said = unicodedata.normalize("NFKC", ch)
    return said if len(said) <= 4 else ch


def _crossings_in_text(
    edge: Border, argument: str, text: str, *, command: bool, marked: bool
) -> Iterator[tuple[str, str, int]]:
    taken = bytearray(len(text))
    for seen in _find_addresses(argument, text, taken, command=command):
        if not edge.contains(seen):
            yield OUTSIDE, seen.written, seen.start
    # Without its quotes a text no longer says where its words end.
    if marked:
        yield from ((UNREADABLE, word, start) for word, start in _expansions(text))
    if edge.guards_paths:
        for written, start in _find_paths(argument, text, taken, command=command):
            if not edge.contains_path(written):
                yield OUTSIDE, written, start


def _find_addresses(argument: str, text: str, taken: bytearray, *, command: bool) -> Iterator[SeenAddress]:
    """Every address in the text, in any spelling.

    `taken` marks what an address occupies: the path of a URL is no file's, and its query no second command.
    """

    def take(start: int, end: int) -> None:
        taken[start:end] = b"\1" * (end - start)

    words = set(_argument_words(argument))
    named, maybe = not words.isdisjoint(_HOST_ARGUMENTS), not words.isdisjoint(_MAYBE_HOSTS)
    single = not re.search(r"\s", text.strip())
    fetches = _NETWORK_PROGRAM.search(text) is not None
    shell = command and (sink_from_argument(argument) != "command" or not words.isdisjoint(_SHELL_ARGUMENTS))
    levels = _HostLevels(text, words, shell=shell, command=command, fetches=fetches, named=named, single=single)
    authorities = bytearray(len(text))
    for match in _URL.finditer(text):
        scheme = (match[1] or match[3]).lower()
        authority, at = (match[2], match.start(2)) if match[1] else (match[4], match.start(4))
        end = _end_of_rest(text, match.end())
        take(match.start(), end)
        # What comes before the first slash: some programs take an `@` in it for the end of a user's name.
        slash = text.find("/", at, end)
        authorities[at : end if slash < 0 else slash] = b"\1" * ((end if slash < 0 else slash) - at)
        if not authority and (scheme == "file" or not text[match.end() : match.end() + 1].strip("\"') ")):
            continue
        port = _DEFAULT_PORTS.get(scheme, 0)
        # To some a third slash that leans the other way is a part of the name.
        plain = "" if "\\" in text[match.start() : at].partition("//")[2] else authority.rstrip(".:!")
        yield _address_from_authority(plain, text[match.end() : end], text[match.start() : end], match.start(), port)
    for match in _AFTER_AT.finditer(text):
        host = match[1].partition("]")[0] + "]" if match[1].startswith("[") else match[1].partition(":")[0].rstrip(".!")
        # `curl -F a=@b.txt` sends a file.
        sent = text[match.start() - 1] == "=" and host.rpartition(".")[2].lower() in (
            FILE_ENDINGS | FILE_OR_DOMAIN_ENDINGS
        )
        sure = authorities[match.start()] or (fetches and host[:1].isalpha() and not sent)
        if sure or host.startswith("[") or _is_host_like(host) or _QUAD.fullmatch(host):
            yield SeenAddress(machines_from_host(host), 0, "", match[0], match.start())
    if fetches:
        yield from _asked_servers(text)
    for match in _RELATIVE.finditer(text):
        authority = match[1].rstrip(".:!")
        host = _host_and_port(authority)[0]
        share = match[0].startswith("\\") and text[match.end() : match.end() + 1] == "\\" and len(host) > 1
        if not taken[match.start()] and (share or single or _is_host_like(host) or _QUAD.fullmatch(host)):
            end = _end_of_rest(text, match.end())
            take(match.start(), end)
            yield _address_from_authority(authority, text[match.end() : end], match[0], match.start())
    for match in _DEVICE.finditer(text):
        take(*match.span())
        yield _address_from_authority(f"{match[1]}:{match[2] or 0}", "", match[0], match.start())
    for match in _QUAD.finditer(text):
        if not taken[match.start()]:
            take(*match.span())
            yield _address_from_range(match)
    for match in _BARE_IPV6.finditer(text):
        written = match[1].rstrip(".")
        likely = re.search(r"\d", written) and ("::" in written or written.count(":") == 7)
        network = _network(written + (match[2] or "")) if likely and not taken[match.start()] else None
        if network is not None:
            take(*match.span())
            yield SeenAddress(
                _range_from_network(network) if match[2] else _ipv6(written), 0, "", match[0], match.start()
            )
    begins = len(text) - len(text.lstrip(" \t\r\n\"'<("))
    for match in _NAME.finditer(text):
        whole = single and match.start() == begins
        level = levels.at(match.start(), match.end(1), port=match[3] is not None)
        if text[max(0, match.start() - 1) : match.start()] == "%" and re.match("[0-9A-Fa-f]{2}", match[1]):
            continue  # the reading without percent signs has the whole of it
        if taken[match.start()] or not _is_host(match[1], text, match.start(), level=level, whole=whole):
            continue
        end = _end_of_rest(text, match.end()) if text.startswith("/", match.end()) else match.end()
        take(match.start(), end)
        authority = match[1] + (match[2] or "").lstrip(".")
        yield _address_from_authority(authority, text[match.end() : end], text[match.start() : end], match.start())
    if shell:
        yield from _option_hosts(text, taken)
    if fetches:
        yield from _odd_words(text)
        if command:
            yield from _bare_hosts(text, taken)
    elif named or maybe:
        yield from _hosts_in_whole_value(text, taken, strict=named)


def _end_of_rest(text: str, at: int) -> int:
    """Where what follows an authority ends."""
    match = _REST.match(text, at)
    return match.end() if match else at


def _address_from_authority(authority: str, rest: str, written: str, start: int, port: int = 0) -> SeenAddress:
    """An authority and what follows it.

    Some programs go on where others see its end: at a backslash (unless it is a quote's), or at a comma or semicolon
    with more of a name behind it.
    """
    host, own_port = _host_and_port(authority)
    if re.match(r"\\[^\"'\n]|[,;&()][^/?#]{0,300}(?:\.\w|[\[@])", rest):
        host = ""
    path = re.split("[?#]", rest, maxsplit=1)[0]
    if len(rest) >= _MAX_REST:
        path = "$"  # where the rest of it leads has not been read
    return SeenAddress(machines_from_host(host), own_port or port, path, written[:300], start)


def _address_from_range(match: re.Match[str]) -> SeenAddress:
    low, high = [], []
    for octet in match[1].split("."):
        first, _, last = ("0", "", "255") if octet == "*" else octet.partition("-")
        low.append(first)
        high.append(last or first)
    lows, highs = _ipv4(low), _ipv4(match[3].split(".") if match[3] else high)
    meant: set[str | AddressRange] = set()
    for one in lows:
        for other in highs:
            if isinstance(one, AddressRange) and isinstance(other, AddressRange) and int(one.first) <= int(other.last):
                meant.add(AddressRange(one.first, other.last))
    if match[2]:
        network = _network(f"{match[1]}{match[2]}")
        meant = set(_range_from_network(network)) if network is not None else set()
    return SeenAddress(frozenset(meant), int(match[4] or 0), "", match[0], match.start())


def _range_from_network(network: Network) -> frozenset[str | AddressRange]:
    return frozenset({AddressRange(network[0], network[-1])})


def _is_host_like(name: str) -> bool:
    name = name.removesuffix(".")
    last = name.rpartition(".")[2].lower()
    return (
        "." in name and len(last) > 1 and not last.isnumeric() and last not in FILE_ENDINGS and not last.startswith("_")
    )


def _is_host(name: str, text: str, start: int, *, level: HostLevel, whole: bool) -> bool:
    """Whether a dotted name is a machine's rather than a file's or a piece of code's."""
    if not _is_host_like(name):
        return False
    last = name.rpartition(".")[2].lower()
    if last in FILE_OR_DOMAIN_ENDINGS:
        before = text[max(0, start - 16) : start]
        local = re.search(r"(?:[<>]|-[oO]|--output|\b(?:bash|sh|python3?|perl|source|chmod \S+|rm|cat))[ =]*$", before)
        folder = level >= HostLevel.LISTED and text.startswith("/", start + len(name))
        return (level is HostLevel.CONNECTS and local is None) or folder
    if level >= HostLevel.ANY:
        return True
    if whole and len(last) == 2 and last.isascii():
        return True
    if level is HostLevel.LISTED or not last.isascii() or last.startswith("xn--"):
        # Nobody can register a name with an underscore.
        return _is_registered_ending(last) and "_" not in name.split(".")[-2]
    return last in COMMON_DOMAINS and not (level is not HostLevel.PROSE and last in _ATTRIBUTES)


def _is_registered_ending(ending: str) -> bool:
    return (ending if ending.isascii() else f"xn--{ending.encode('punycode').decode('ascii')}") in TOP_LEVEL_DOMAINS


# ---------------------------------------------------------------------------------------------------------------
# What a dotted name is where it stands

_LOCAL_PROGRAMS = frozenset(
    """
    git cat bat ls ll dir tree cp mv rm ln mkdir rmdir touch chmod chown stat file head tail less more wc sort uniq
    cut tr paste join comm diff cmp patch grep egrep fgrep rg ag find fd locate sed awk gawk jq yq xmllint tee echo
    printf test [ [[ cd pushd popd pwd export set unset alias source . which type man tar gzip gunzip zcat bzip2 xz
    zip unzip 7z sha256sum sha1sum md5sum cksum base64 xxd od hexdump strings sleep date cal kill pkill pgrep ps top
    free df du mount umount id whoami groups uname hostname nproc lscpu vim vi nano code emacs gcc g++ clang ld nm
    objdump gdb strace systemctl journalctl sysctl useradd usermod defaults gsettings chattr getfacl setfacl basename
    dirname realpath
    """.split()
)
# Programs that may connect, and whose dotted words are modules, keys and resources more often than machines.
_OTHER_PROGRAMS = frozenset(
    """
    python python2 python3 py ipython pytest tox nox coverage mypy ruff black isort pip pip3 pipx uv poetry conda
    mamba jupyter uvicorn gunicorn celery flask django-admin node nodejs deno bun npm npx yarn pnpm tsc eslint jest
    java javac kotlinc scala mvn gradle gradlew sbt ant cargo rustc rustup go ruby gem bundle rake rails perl cpan php
    composer artisan dotnet nuget msbuild make cmake ninja bazel meson r rscript julia ghc cabal stack mix elixir lua
    service kubectl oc helm kustomize k9s docker podman docker-compose nerdctl terraform tofu pulumi ansible
    ansible-playbook packer vagrant aws gcloud gsutil az doctl flyctl heroku gh glab hub brew apt apt-get dpkg rpm dnf
    yum apk pacman snap flatpak psql pg_dump pg_restore mysql mysqldump mariadb sqlite3 mongosh mongo mongodump
    redis-cli duckdb bq spark-submit airflow dbt new-object add-type import-module write-host select-object
    where-object crontab at logger lpadmin
    """.split()
)
# After these stands the name of a module, a script or a test.
_NAMES = {"python": ("-m",), "pytest": ("-k", "-m"), "go": ("-run", "-bench")}
_NAMES |= dict.fromkeys(("npm", "yarn", "pnpm", "bun"), ("run", "-t"))
_WRAPPERS = frozenset(
    "sudo doas env nohup time nice ionice stdbuf setsid exec command builtin then do else if while until ! { } timeout "
    "xargs watch parallel busybox".split()
)
_SHELLS = frozenset(
    "bash sh zsh dash ksh ash fish su eval watch xargs parallel ssh mosh script tmux screen at pwsh powershell "
    "cmd".split()
)
_DATABASES = frozenset(
    "psql pg_dump pg_restore pg_isready createdb dropdb mysql mysqldump mysqladmin mariadb redis-cli mongo mongosh "
    "mongodump ldapsearch ipmitool".split()
)
_HOST_OPTION = re.compile(
    r"(?i)(--(?:host|hostname|server|remote|endpoint|endpoint-url|proxy|registry|index-url|extra-index-url|connect|address"
    r"|domain|peer|upstream|resolver|nameserver|bootstrap-servers?|broker))(?:=(.+))?",
    re.DOTALL,
)
_SAYS_HOST = re.compile(
    r"(?i)(?:(?<!\S)-h\s{1,4}|--host(?:name)?[\s=]{1,4}|--server[\s=]{1,4}|\b(?:host|hostaddr|server|address)\s?[=:]\s?)"
    r"['\"]?\Z"
)
_ASKS_ELSEWHERE = re.compile(
    r"(?is)(?:[\w)\]]\[|\b(?:query_?selector(?:_?all)?|locator|closest|matches|getattr|import_module|getlogger)\().\Z"
)
_ATTACHED = re.compile(r"(?<!\S)(-[hHxX])((?:[\w-]{1,63}\.){1,126}[\w-]{1,63}(?::\d{1,5})?)(?![\w@-])")
_SHELL_TOKEN = re.compile(r"[;&|\n(`)]|(?:[^\s;&|()`\"'\\]|\\.|\"(?:[^\"\\]|\\.)*\"|'[^']*'|[\"'\\])+", re.DOTALL)
_QUOTED = re.compile(r"\\.|\"((?:[^\"\\]|\\.)*)\"|'([^']*)'", re.DOTALL)
_HERE = re.compile(r"<<-?\s*\\?['\"]?(\w+)")
_DEPTH = 3


class _HostLevels:
    """The levels of a text, looked up by position."""

    def __init__(
        self, text: str, words: set[str], *, shell: bool, command: bool, fetches: bool, named: bool, single: bool
    ) -> None:
        self._text = text
        self._starts: list[int] = []
        self._kinds: list[HostLevel] = []
        if named or (fetches and not shell):
            self._base = HostLevel.CONNECTS
        elif shell:
            self._base = HostLevel.CONNECTS if fetches else HostLevel.LISTED
            for start, level in _shell_levels(text, 0, fetches=fetches, depth=0):
                self._starts.append(start)
                self._kinds.append(level)
        elif single and words.isdisjoint(_OTHER_ARGUMENTS | _CONTENT) and not (command and re.search(r"[(=\[]", text)):
            self._base = HostLevel.LISTED if command or not words.isdisjoint(_LISTED_ARGUMENTS) else HostLevel.ANY
        else:
            self._base = HostLevel.CODE if command else HostLevel.PROSE

    def at(self, start: int, end: int, *, port: bool) -> HostLevel:
        found = bisect_right(self._starts, start) - 1
        level = self._kinds[found] if found >= 0 else self._base
        if level is HostLevel.CONNECTS:
            return level
        text = self._text
        before, after = text[max(0, start - 40) : start], text[end : end + 12]
        if _SAYS_HOST.search(before) and (level is not HostLevel.CODE or not before.endswith(("= ", ": ", "=", ":"))):
            return HostLevel.CONNECTS
        if level is HostLevel.ANY:
            return level
        if after[:1] == "=":
            return min(level, HostLevel.CODE)
        if level is HostLevel.CODE:
            quote = before[-1:]
            if quote and quote in "\"'`" and (after[:1] == quote or (after[:1] in ("/", ":", "?", ".") and after)):
                # `rows["a.b"]` asks for a column, `closest("a.b")` for a part of a page.
                if _ASKS_ELSEWHERE.search(before):
                    return level
                return HostLevel.ANY if port or re.match(r".\s{0,3},\s{0,3}\d", after, re.DOTALL) else HostLevel.LISTED
        elif port and level is HostLevel.LISTED:
            return HostLevel.ANY
        return level


def _shell_levels(text: str, base: int, *, fetches: bool, depth: int) -> Iterator[tuple[int, HostLevel]]:
    """Where in a command line a level begins, in order; it lasts until the next one."""
    outer = HostLevel.CONNECTS if fetches else HostLevel.LISTED
    program, previous, shells, wrapped = "", "", False, False
    at = 0
    lost: set[str] = set()
    while match := _SHELL_TOKEN.search(text, at):
        at, raw = match.end(), match[0]
        if raw in (";", "&", "|", "\n", "(", "`", ")"):
            # No shell goes on with a word after a bracket: that is code.
            program, previous, shells, wrapped = ")" if raw == ")" else "", "", False, False
            yield base + match.start(), outer
            continue
        plain = re.sub(r"[\"'\\]", "", raw[:200])
        name = re.split(r"[/\\]", plain)[-1].lower().removesuffix(".exe")
        shells = shells or name in _SHELLS
        level = outer
        if not program:
            if name in _WRAPPERS:
                wrapped = True
            elif wrapped and (plain[:1] in "-0123456789" or previous in ("-u", "-g", "-n", "-I", "-P", "-s")):
                pass
            elif not re.match(r"\w+=", plain) and raw[0] not in "\"'$<>":
                program, level = name, HostLevel.WORDS
        elif not fetches:
            stem = re.sub(r"[\d.]+\Z", "", program) or program
            if program == ")":
                level = HostLevel.CODE
            elif program in _LOCAL_PROGRAMS or previous in _NAMES.get(stem, ()):
                level = HostLevel.WORDS
            elif not (program in _OTHER_PROGRAMS or stem in _OTHER_PROGRAMS):
                level = HostLevel.ANY
        yield base + match.start(), level
        for quoted_text in _QUOTED.finditer(raw):
            inner = (quoted_text[1] or "") if quoted_text[2] is None else quoted_text[2]
            start = match.start() + quoted_text.start() + 1
            runs = shells or (quoted_text[2] is None and ("$(" in inner or "`" in inner))
            if runs and depth < _DEPTH:
                connects = fetches or _NETWORK_PROGRAM.search(inner) is not None
                yield from _shell_levels(inner, base + start, fetches=connects, depth=depth + 1)
                yield base + start + len(inner), level
            elif re.search(r"[\s(=\[]", inner) and not _NETWORK_PROGRAM.search(inner):
                yield base + start, HostLevel.CODE
                yield base + start + len(inner), level
        # The lines of a here-document are code, unless they are a shell's.
        if "<<" in raw and not shells and (here := _HERE.search(raw + text[at : at + 40].partition("\n")[0])):
            begins = text.find("\n", at)
            closes = text.find(f"\n{here[1]}", begins + 1) if begins >= 0 and here[1] not in lost else -1
            if closes < 0:
                lost.add(here[1])
            elif not _NETWORK_PROGRAM.search(text, begins, closes):
                yield base + begins, HostLevel.CODE
                yield base + closes, outer
                at = closes
        previous = plain


def _option_hosts(text: str, taken: bytearray) -> Iterator[SeenAddress]:
    """What stands where a program wants a machine's name, with or without a dot: `psql -h db`, `--proxy=db`."""
    for match in _ATTACHED.finditer(text):
        if not taken[match.start(2)] and _is_host_like(match[2].partition(":")[0]):
            yield _address_from_authority(match[2], "", match[0], match.start())
    program = previous = ""
    for match in _SHELL_TOKEN.finditer(text):
        raw = match[0]
        if raw in (";", "&", "|", "\n", "(", "`", ")"):
            program = previous = ""
            continue
        plain = re.sub(r"[\"'\\]", "", raw[:400])
        if not program and plain not in _WRAPPERS and not re.match(r"\w+=|-", plain):
            program = re.split(r"[/\\]", plain)[-1].lower()
        option = _HOST_OPTION.fullmatch(plain)
        short = program in _DATABASES and plain[:2] == "-h"
        value = (option[2] or "") if option else plain[2:] if short else ""
        if not value and (_HOST_OPTION.fullmatch(previous) or (program in _DATABASES and previous == "-h")):
            value = plain if plain[:1] != "-" else ""
        # A socket is a file, and what has a scheme or a dot is read with the rest.
        if value and value[:1] not in "/." and not taken[match.start()] and not taken[match.end() - 1]:
            if not (_SCHEME.match(value) or _NAME.search(value)):
                authority = re.split(r"[/\\?#,]", value, maxsplit=1)[0]
                yield _address_from_authority(authority, "", value, match.start())
        previous = plain if "=" not in plain else ""


def _asked_servers(text: str) -> Iterator[SeenAddress]:
    """`dig @server`; to a program that speaks HTTP the same sign names a file."""
    for start, command in _network_commands(text):
        if not re.match(r"(?i)(?:curl|wget|https?|xh|aria2c|git)\b", command):
            for match in re.finditer(rf"(?<=\s)@([^{_NO_HOST}@]+)", command):
                yield _address_from_authority(match[1].rstrip("."), "", match[0], start + match.start())


# Options that take a value which may look like an address. Of all others the next word may be one.
_VALUED = {
    "ping": "ciIlmMpQsStTwW",
    "nc": "iImMOpPqsTVwWxX",
    "ssh": "bcDEeFIiJLlmOopQRSWw",
    "curl": "mYyCrz",
    "wget": "tTwQO",
    "nmap": "pgmTS",
    "traceroute": "fgimpqswz",
    "rsync": "BM",
    "telnet": "lnbe",
}
_VALUED |= {"ping6": _VALUED["ping"], "fping": "BbcCHiIlmMOpqrStTxX", "ncat": _VALUED["nc"], "netcat": _VALUED["nc"]}
_VALUED |= {"scp": "cFiJloPSX", "sftp": "BbcDFiJloPRSsX", "mosh": "", "lftp": "ecpu", "ftp": "", "mtr": "cimsBQ"}
_VALUED_LONG = re.compile(
    r"--(?:max-time|connect-timeout|limit-rate|retry-delay|retry-max-time|speed-limit|speed-time|keepalive-time|max-filesize"
    r"|timeout|wait|interval|rate|min-rate|max-rate|scan-delay|host-timeout|count|size|ttl|delay|quota|bwlimit|max-size)"
)
_TAKES_ONE_HOST = frozenset("ssh mosh telnet ping ping6 fping nc ncat netcat ftp sftp lftp traceroute mtr".split())


def _takes_value(program: str, option: str) -> bool:
    """Whether the next word belongs to this option. Of letters behind one dash the last one may take it."""
    if option.startswith("--"):
        return _VALUED_LONG.fullmatch(option) is not None
    return len(option) > 1 and option[0] == "-" and option[-1] in _VALUED.get(program, "")


def _odd_words(text: str) -> Iterator[SeenAddress]:
    """Numbers that a program which connects takes for an address: `ping 127.1`, `nc 2130706433 80`."""
    for start, command in _network_commands(text):
        program = ""
        previous = ""
        for match in re.finditer(r"\S+", command):
            word = match[0].strip("'\"")
            dotted = program and _ODD_WORD.fullmatch(word) is not None and not _takes_value(program, previous)
            if dotted and ("." in word or len(word) > 7) and not _QUAD.fullmatch(word):
                yield SeenAddress(machines_from_host(word), 0, "", word, start + match.start())
            program = program or word.lower().removesuffix(".exe")
            previous = word


def _bare_hosts(text: str, taken: bytearray) -> Iterator[SeenAddress]:
    """Names without a dot where a program's machine stands: `ssh db`, `scp x db:`."""
    for start, command in _network_commands(text):
        program, previous = "", ""
        for match in _SHELL_WORD.finditer(command):
            word, at = match[0].strip("'\""), start + match.start()
            if not program:
                program = word.lower().removesuffix(".exe")
            elif program in ("scp", "rsync", "sftp") and (
                found := re.match(r"(?:[\w.-]+@)?([\w-]{2,63}):(?!//)", word)
            ):
                if not taken[at]:
                    yield SeenAddress(machines_from_host(found[1]), 0, "", word[:120], at)
            elif program in _TAKES_ONE_HOST and word[:1] not in ("-", "<", ">") and not _takes_value(program, previous):
                bare = word.rpartition("@")[2]
                if not taken[at] and re.fullmatch(r"[\w-]{1,63}", bare) and not bare.isdecimal():
                    yield SeenAddress(machines_from_host(bare), 0, "", word[:120], at)
                break
            previous = word


def _network_commands(text: str) -> Iterator[tuple[int, str]]:
    done = 0
    for match in _NETWORK_PROGRAM.finditer(text):
        if match.start() >= done:
            ends = _ENDS_COMMAND.search(text, match.end())
            done = ends.start() if ends else len(text)
            yield match.start(), text[match.start() : done]


def _expansions(text: str) -> Iterator[tuple[str, int]]:
    """Words of a command that connects which the shell fills in later, where nobody can say what they lead to."""
    for start, command in _network_commands(text):
        option = False
        for match in _SHELL_WORD.finditer(command):
            word = match[0].lstrip("\"'")
            filled = re.search(r"[$`]|%\w+%", word)
            if filled and (filled.start() == 0 or not (option or word[0] == "-" or "/" in _host_read(word, filled))):
                yield match[0][:120], start + match.start()
            option = word.startswith("-")


def _host_read(word: str, filled: re.Match[str]) -> str:
    """What stands before the part that is filled in, without the scheme: a slash in it ends the host."""
    return re.sub(r"^[\w+.-]+:[/\\]*", "", word[: filled.start()])


def _hosts_in_whole_value(text: str, taken: bytearray, *, strict: bool) -> Iterator[SeenAddress]:
    """The value of an argument that is named for a host: whatever stands there is one."""
    several = re.search(r"\s", text.strip()) is not None
    # A list of names, and not a sentence: with a dotted one among them the others are machines' too.
    listed = several and "." in text and re.fullmatch(r"[\w.:,;|\s-]*", text) is not None
    for match in re.finditer(r"[^\s,;|]+", text):
        word = match[0].strip("'\"<>")
        if not word or taken[match.start()] or taken[match.end() - 1]:
            continue
        odd = _ODD_WORD.fullmatch(word.partition(":")[0]) is not None and (strict or "." in word or len(word) > 7)
        lone = several and strict and listed and re.fullmatch(r"[\w-]{2,63}(?::\d{1,5})?", word) is not None
        if odd or lone or (strict and not several and word[0] not in "/#?." and not _NO_AUTHORITY.match(word)):
            authority = re.split(r"[/\\?#]", word, maxsplit=1)[0]
            yield _address_from_authority(authority, word[len(authority) :], word, match.start())


# ---------------------------------------------------------------------------------------------------------------
# Which paths an argument holds

_PATH = re.compile(
    r"(?<![^\s\"'=:(<>|;&,@`])(~[\w.-]*(?:/[^\s\"'<>|;&()`,]*)?|/[^\s\"'<>|;&()`,]+|[A-Za-z]:[\\/][^\s\"'<>|;&()`,]*|\.\.(?:[\\/][^\s\"'<>|;&()`,]*)?|[\w.-]{1,255}/[^\s\"'<>|;&()`,]*)"
)
_ABSOLUTE = re.compile(r"[~/\\]|[A-Za-z]:[\\/]")
_HARMLESS = re.compile(r"/dev/(?:null|zero|stdin|stdout|stderr|tty|fd/\d+|(?:tcp|udp)/.*)")
_PROGRAM = re.compile(r"/(?:usr/)?(?:local/)?s?bin/[\w.+-]+")


def _find_paths(argument: str, text: str, taken: bytearray, *, command: bool) -> Iterator[tuple[str, int]]:
    sink = sink_from_argument(argument)
    if command or _NETWORK_PROGRAM.search(text):
        for match in _PATH.finditer(text):
            path, start = match[1], match.start()
            first = text[max(0, start - 99) : start].rstrip()[-1:] in ("", ";", "&", "|", "(")
            runs = first and _PROGRAM.fullmatch(path)
            if not (taken[start] or runs or _HARMLESS.fullmatch(path)) and _may_lie_elsewhere(path):
                yield path, start
        return
    whole = text.strip()
    if whole.lower().startswith("file://"):
        yield whole[7:], 0
    elif sink == "path" or (sink == "" and not re.search(r"\s", whole)):
        if whole and not any(taken) and _may_lie_elsewhere(whole):
            yield whole, 0


def _may_lie_elsewhere(path: str) -> bool:
    return _ABSOLUTE.match(path) is not None or _leaves_its_folder(path)


def _leaves_its_folder(path: str) -> bool:
    """Whether a relative path climbs above where it starts; where that is nobody here knows."""
    depth = 0
    for segment in re.split(r"[\\/]", path):
        depth += -1 if segment == ".." else segment not in ("", ".")
        if depth < 0:
            return True
    return False
