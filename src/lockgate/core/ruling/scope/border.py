"""The border of a declared scope: which hosts, networks, URLs and paths it names.

A scope is the operator's prose. What it names is read off without interpreting a sentence: a place that is written
plainly is inside, one with `!` before it is outside, and a text in which something else could mean "not there" is
refused, because a border that is guessed is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote

from lockgate.core.errors import InvalidConfig, quoted
from lockgate.core.ruling.effects.project import normalize_path
from lockgate.core.ruling.scope.machines import PATTERNS as _P
from lockgate.core.ruling.scope.machines import (
    Machine,
    Network,
    host_and_port,
    is_host_like,
    machine_from_host,
    network_from_text,
)

MAX_TEXT = 100_000
# In the place of a machine: a path of files.
FILES = "file:"


class SeenAddress(NamedTuple):
    """An address in an argument: its host, how and where it is written, and what it says of port and path."""

    host: str
    written: str
    start: int
    port: int = 0
    path: str = ""

    @property
    def machine(self) -> Machine | None:
        """The machine that every program takes it for."""
        return FILES if self.host == FILES else machine_from_host(self.host)


class ScopePlace(NamedTuple):
    """One place that a scope names. A port of 0 is any port, an empty path is all of them.

    A name that starts with `*.` stands for the names below it.
    """

    machine: Machine
    port: int = 0
    path: str = ""

    def __str__(self) -> str:
        port = f":{self.port}" if self.port else ""
        return f"{self.machine if self.machine != FILES else ''}{port}{self.path}"

    def has(self, seen: SeenAddress, *, surely: bool) -> bool:
        """Return whether an address surely is in this place, or else could be: a port that is not said may be any."""
        is_port = self.port in (0, seen.port) or not (surely or seen.port)
        if not is_port or not self._has_machine(seen.machine, surely=surely):
            return False
        path = resolve_path(decode_percent(seen.path) or ("$" if surely else "/")) if self.path else ""
        if path is None:
            return not surely
        path, top = (path, self.path) if surely else (path.lower(), self.path.lower())
        return path == top or path.startswith(f"{top}/")

    def _has_machine(self, other: Machine | None, *, surely: bool) -> bool:
        mine = self.machine
        if isinstance(mine, Network) and isinstance(other, Network):
            return mine.overlaps(other) and (not surely or other.prefixlen >= mine.prefixlen)
        return other == mine or (str(mine).startswith("*.") and str(other).endswith(str(mine)[1:]))


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
        return bool(self.inside or self.excluded)

    def contains(self, seen: SeenAddress) -> bool:
        """Return whether an address or a path is inside, whatever a common program could take it for."""
        # A scope that names no path says nothing about files.
        is_open = self.is_open or (seen.host == FILES and all(place.machine != FILES for place in self.inside))
        return (
            seen.machine is not None
            and (is_open or any(place.has(seen, surely=True) for place in self.inside))
            and not any(place.has(seen, surely=False) for place in self.excluded)
            and all(border.contains(seen) for border in self.others)
        )


def decode_percent(text: str) -> str:
    """Return a text with its percent codes decoded, also those that were encoded several times."""
    for _ in range(4 if "%" in text else 0):
        text = unquote(text)
    return text


def resolve_path(written: str) -> str | None:
    """Return a path without its detours; None for one that cannot be known. Some servers read `..;` as `..` too."""
    if not written.isprintable() or re.search(r"[$`{}]|\.\.;", written):
        return None
    return normalize_path(re.sub("^(?i:file)://(?=/)", "", written).replace("\\", "/"))


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
    return Border(first.inside, first.excluded, others=tuple(others))


def _border_from_one_scope(scope: str) -> Border:
    places = list(_find_places(scope))
    text = _P["nothing else"].sub(lambda match: " " * len(match[0]), scope)
    first = _P["excludes"].search(text)
    for at, is_excluded, place in places:
        sentence = re.split(r"[;\n]|\.(?:\s|$)", text[at:], maxsplit=1)[0]
        word = first if first and first.start() < at else _P["excluded"].search(sentence)
        if word and not is_excluded:
            raise InvalidConfig(
                f"the scope names {quoted(place)}, and says {quoted(word[0])}: is that inside?", hint=_HINT
            )
    inside = dict.fromkeys(place for _, is_excluded, place in places if not is_excluded)
    return Border(tuple(inside), tuple(dict.fromkeys(place for _, is_excluded, place in places if is_excluded)))


def border_from_prose(text: str) -> Border:
    """Return every place in words that bind no operator, such as an agent's own; nothing in them is refused."""
    return Border(tuple(place for _, is_excluded, place in _find_places(text[:MAX_TEXT]) if not is_excluded))


def _find_places(scope: str) -> Iterator[tuple[int, bool, ScopePlace]]:
    """Yield the places in a text: where each stands, whether it is excluded, and the place."""
    for match in _P["word"].finditer(scope):
        place = _place_from_word(match[2].rstrip(".,:!"))
        if place is not None:
            yield match.start(), match[1] != "", place


def _place_from_word(word: str) -> ScopePlace | None:
    """Return the place that a word of a scope is; None for one that is none, or a mailbox."""
    if _P["top of files"].match(word):
        path = resolve_path(word)
        return ScopePlace(FILES, 0, path) if path and path != "/" else None
    if (network := network_from_text(re.sub(r"^\[([^\]]*)\](?=/|$)", r"\1", word))) is not None:
        return ScopePlace(network)
    url = word.partition("://")[2]
    place, *_ = re.split("[?#]", url or word, maxsplit=1)
    authority, *_ = re.split(r"[/\\]", place, maxsplit=1)
    host, port = host_and_port(authority)
    machine = machine_from_host(host.removeprefix("*."))
    is_place = url or host.startswith("*.") or isinstance(machine, Network)
    if machine is None or not (is_place or (is_host_like(host) and "@" not in authority)):
        return None
    path = (resolve_path(place[len(authority) :]) or "").rstrip("/")
    return ScopePlace(f"*.{machine}" if host.startswith("*.") else machine, port, path)
