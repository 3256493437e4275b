"""The border of a declared scope: which hosts, networks, URLs and paths it names.

A scope is the operator's prose. What it names is read off without interpreting a sentence: a place that is written
plainly is inside, one with `!` before it is outside, and a text in which something else could mean "not there" is
refused, because a border that is guessed is none.

An address in an argument counts as inside only when *everything* a common program could take it for is inside.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address, ip_network
from typing import NamedTuple

from lockgate.core.errors import InvalidConfig, quoted
from lockgate.core.ruling.scope.machines import PATTERNS as _P
from lockgate.core.ruling.scope.machines import (
    AddressRange,
    Machine,
    Network,
    SeenAddress,
    decode_percent,
    host_and_port,
    is_host_like,
    machines_from_host,
    network_from_text,
)

MAX_TEXT = 100_000


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

    @property
    def is_path(self) -> bool:
        """Whether the place is a path of files."""
        return not self.host and self.network is None


@dataclass(frozen=True, slots=True)
class Border:
    """What a scope names: the places inside, and those that are excluded all the same.

    With `is_open` everything is inside that is not excluded. `others` are the borders of further scopes: what is inside
    is inside all of them.
    """

    inside: tuple[ScopePlace, ...] = ()
    excluded: tuple[ScopePlace, ...] = ()
    is_open: bool = False
    others: tuple[Border, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.inside or self.excluded or any(self.others))

    @property
    def guards_paths(self) -> bool:
        """Whether the border says anything about files: a scope that names no path does not."""
        return any(place.is_path for place in (*self.inside, *self.excluded)) or any(
            border.guards_paths for border in self.others
        )

    def contains(self, seen: SeenAddress) -> bool:
        """Return whether everything this address could mean is inside."""
        if not seen.machines or not all(border.contains(seen) for border in self.others):
            return False
        if not (self.inside or self.excluded):
            return bool(self.others)
        return all(
            (self.is_open or any(_has(place, machine, seen, surely=True) for place in self.inside))
            and not any(_has(place, machine, seen, surely=False) for place in self.excluded)
            for machine in seen.machines
        )

    def contains_path(self, written: str) -> bool:
        """Return whether a path as it is written is inside."""
        path = _resolve_path(written)
        inside = [place.path for place in self.inside if place.is_path]
        excluded = [place.path for place in self.excluded if place.is_path]
        return (
            path is not None
            and (not inside or any(_is_below(path, top) for top in inside))
            and not any(_is_below(path.lower(), top.lower()) for top in excluded)
            and all(border.contains_path(written) for border in self.others)
        )


_LOOPBACK = (ip_address("127.0.0.1"), ip_address("::1"))


def _has(place: ScopePlace, machine: Machine, seen: SeenAddress, *, surely: bool) -> bool:
    """Return whether an address surely is in a place, or else could be: a port that is not said may be any."""
    is_port = place.port in (0, seen.port) or not (surely or seen.port)
    if place.is_path or not is_port or not _has_machine(place, machine, whole=surely):
        return False
    if not place.path:
        return True
    path = _resolve_path(decode_percent(seen.path) or ("$" if surely else "/"))
    if path is None:
        return not surely
    return _is_below(path, place.path) if surely else _is_below(path.lower(), place.path.lower())


def _has_machine(place: ScopePlace, machine: Machine, *, whole: bool) -> bool:
    """Return whether a place has a machine; of a range the whole, or a part."""
    if isinstance(machine, AddressRange):
        if place.network is None:
            return place.host == "localhost" and machine.first == machine.last and machine.first in _LOOPBACK
        inside, start = [end in place.network for end in machine], place.network[0]
        is_around = start.version == machine.first.version and int(machine.first) <= int(start) <= int(machine.last)
        return all(inside) if whole else is_around or any(inside)
    if place.network is not None:
        return machine == "localhost" and any(address in place.network for address in _LOOPBACK)
    if place.host.startswith("*."):
        return machine.endswith(place.host[1:]) and len(machine) > len(place.host) - 1
    return machine == place.host


def _is_below(path: str, top: str) -> bool:
    return path == top or path.startswith(top if top.endswith("/") else f"{top}/")


def _resolve_path(written: str) -> str | None:
    """Return an absolute path without its detours; None for one that cannot be known or climbs above its start."""
    if not written.isprintable() or re.search(r"[$`{}]", written):
        return None
    if re.match(r"[A-Za-z]:[\\/]", written):
        written = written[0].lower() + written[1:]
    written = written.replace("\\", "/")
    segments: list[str] = []
    for segment in written.split("/"):
        # Some servers read `..;` as `..` too.
        if segment.partition(";")[0] == "..":
            if len(segments) < 2:
                return None
            segments.pop()
        elif segment not in ("", ".") or not segments:
            segments.append(segment)
    return "/".join(segments) or "/"


# ---------------------------------------------------------------------------------------------------------------
# What a scope names

_HINT = (
    "name what is inside plainly, and write what is outside with a mark before it: `*.lab.example !mail.lab.example`"
)


# Between two scopes that hold together. It says so in words because a judge and a person read the whole text, and an
# operator who writes it into a scope gets what it says.
ALSO = "and at the same time only within:"
_ALSO = re.compile(rf"\s*^[ \t]*{re.escape(ALSO)}[ \t]*$\s*", re.MULTILINE)


def split_scopes(scope: str) -> tuple[str, ...]:
    """Return the scopes that a text holds, each of which counts."""
    return tuple(dict.fromkeys(part for part in _ALSO.split(scope.strip()) if part))


def combine_scopes(one: str, other: str) -> str:
    """Return a scope that contains only what both contain; either may be empty."""
    return f"\n\n{ALSO}\n\n".join(dict.fromkeys((*split_scopes(one), *split_scopes(other))))


@lru_cache(maxsize=64)
def border_from_scope(scope: str) -> Border:
    """Return the places a scope names. Raise InvalidConfig where its words could put one of them outside.

    A scope without any place has no border, and only the judges can go by it.
    """
    first, *others = [edge for edge in map(_border_from_one_scope, split_scopes(scope)) if edge] or [Border()]
    return Border(first.inside, first.excluded, first.is_open, tuple(others))


def _border_from_one_scope(scope: str) -> Border:
    places = sorted(_find_places(scope))
    text = _P["nothing else"].sub(lambda match: " " * len(match[0]), scope)
    plain = [(at, place) for at, is_excluded, place in places if not is_excluded]
    word = _P["excludes"].search(text)
    if word and plain and plain[-1][0] > word.start():
        raise InvalidConfig(
            f"the scope says {quoted(word[0])} before it names {quoted(plain[-1][1])}: is that inside?", hint=_HINT
        )
    for at, place in plain:
        sentence = re.split(r"[;\n]|\.(?:\s|$)", text[at:], maxsplit=1)[0]
        if word := _P["excluded"].search(sentence):
            raise InvalidConfig(
                f"the scope names {quoted(place)} and then says {quoted(word[0])}: is that inside?", hint=_HINT
            )
    return Border(
        tuple(dict.fromkeys(place for _, is_excluded, place in places if not is_excluded)),
        tuple(dict.fromkeys(place for _, is_excluded, place in places if is_excluded)),
    )


def border_from_prose(text: str) -> Border:
    """Return every place in words that bind no operator, such as an agent's own; nothing in them is refused."""
    places = sorted(_find_places(text[:MAX_TEXT]))
    return Border(tuple(place for _, is_excluded, place in places if not is_excluded))


def _find_places(scope: str) -> Iterator[tuple[int, bool, ScopePlace]]:
    """Yield the places in a text: where each stands, whether it is excluded, and the place."""
    for match in _P["place"].finditer(scope):
        if match["url"]:
            places = _url_places(match["url"].partition("://")[2].rstrip(".,;:!)"))
        elif match["quad"] or match["six"]:
            network = network_from_text((match["quad"] or match["six"]) + (match["prefix"] or ""))
            places = [ScopePlace(network=network, port=int(match["port"] or 0))] if network is not None else []
        elif match["path"]:
            path = _resolve_path(match["path"].rstrip(".:!"))
            places = [ScopePlace(path=path)] if path and path != "/" else []
        else:
            places = _host_places(match["host"], int(match["host_port"] or 0), match["below"].rstrip(".:!"))
        yield from ((match.start(), match[0].startswith("!"), place) for place in places)


def _url_places(rest: str) -> list[ScopePlace]:
    authority = re.split(r"[/\\?#]", rest, maxsplit=1)[0]
    path = _resolve_path(re.split("[?#]", rest[len(authority) :])[0]) if rest[len(authority) :] else None
    if not authority:  # `file:///srv`
        return [ScopePlace(path=path)] if path and path != "/" else []
    host, port = host_and_port(authority)
    below = "" if path is None or path == "/" else path
    return [
        ScopePlace(machine, None, port, below)
        if isinstance(machine, str)
        else ScopePlace(network=ip_network(machine.first), port=port, path=below)
        for machine in machines_from_host(host)
    ]


def _host_places(name: str, port: int, below: str) -> list[ScopePlace]:
    bare = name.removeprefix("*.")
    if bare == name and not is_host_like(bare) and bare.lower() != "localhost":
        return []
    path = (_resolve_path(below) if below.strip("/") else "") or ""
    names = [machine for machine in machines_from_host(bare) if isinstance(machine, str)]
    return [ScopePlace(machine if bare == name else f"*.{machine}", None, port, path) for machine in names]
