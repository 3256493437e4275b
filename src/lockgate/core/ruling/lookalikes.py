"""Addresses that look like another one: `brandt-imrnobilien.example` is not `brandt-immobilien.example`.

An attacker registers a name that people and models take for one that they know. Two hosts look alike if they have the
same skeleton: letters of other scripts folded, `rn` read as `m`, `0` as `o` and the like, without hyphens and dots, and
with each doubled letter single. The names of two mailboxes of one host, the hosts that one text names, and those of one
platform (`ours.github.io`) often differ by a hyphen or a letter: of these only signs that look the same count.

The addresses of a text are found once, when a call first asks for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import compress
from operator import ne
from typing import NamedTuple

from lockgate.core.ruling.value_pieces import domain_of, is_open_to_all
from lockgate.core.text.confusables import fold_to_latin

# Shorter names look alike by chance.
_MIN_NAME = 5
_MIN_ADDRESS, _MAX_ADDRESS = 8, 320
# So many addresses of one skeleton are remembered of a text.
_MAX_ALIKE = 64
_IN_ADDRESS = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789.-_+@")
_ADDRESS_BYTES = bytes(byte if byte > 127 or byte in _IN_ADDRESS else 32 for byte in range(256))
_LAST_DIGIT = ord("9")
_PUNYCODE = re.compile(rb"(?<![\w-])xn--([a-z0-9-]{1,59})")
_SAME_SIGNS = str.maketrans("015i", "olsl")
_SEPARATORS = str.maketrans("", "", ".-")
_ANY_SCRIPT = frozenset({"compat"})
_BYTES_PER_STEP, _STEPS_PER_ADDRESS, _STEPS_PER_LABEL = 16, 6, 32


class HostOrMailbox(NamedTuple):
    """A host, or a mailbox with the name before its `@`; `domain` is what its owner has registered."""

    local: bytes
    host: bytes
    domain: bytes

    @property
    def written(self) -> bytes:
        """The address as a text has it."""
        return b"%b@%b" % (self.local, self.host) if self.local else self.host

    @property
    def owner(self) -> bytes:
        """The domain without its ending."""
        return self.domain.partition(b".")[0]


class AddressIndex:
    """The addresses of one text by what they look like; `steps` is the work of sorting them.

    Only those that share the owner's name with a question are sorted, and all at once where these are many.
    """

    __slots__ = ("_by_look", "_skeleton", "_words", "steps")

    def __init__(self, prepared: bytes) -> None:
        self._words = _find_addresses(prepared)
        self._by_look: dict[str, list[bytes]] = {}
        self._skeleton: str | None = None
        decoded = _STEPS_PER_LABEL * sum([word.count(b"xn--") for word in self._words])
        self.steps = len(prepared) // _BYTES_PER_STEP + _STEPS_PER_ADDRESS * len(self._words) + decoded

    def find_alike(self, address: HostOrMailbox, *, is_owner_known: bool = False) -> bytes:
        """Return what looks like an address in this text, and is another one; of a known owner only a mailbox."""
        by_look = self._sort_near(address)
        for look, name in _looks_of(address):
            others = by_look.get(look, [])
            for other in others:
                is_mailbox = b"@" in name
                if is_owner_known and not (is_mailbox and other.endswith(b"@" + address.host)):
                    continue
                is_alike = _is_other_mailbox if is_mailbox else _is_other_host
                if is_alike(name, other, is_same_text=name in others):
                    return other
        return b""

    def _sort_near(self, address: HostOrMailbox) -> dict[str, list[bytes]]:
        """Return by look at least the addresses in whose skeleton that of the owner's name stands."""
        if not self._by_look and len(self._words) <= _MAX_ALIKE:
            self._by_look = _sort_by_look(self._words)
        if self._by_look or not self._words:
            return self._by_look
        if self._skeleton is None:
            self._skeleton = _skeleton_of(_PUNYCODE.sub(_decode_label, b"\n".join(self._words)))
        # Two signs at either end may join with those beside them.
        piece = _skeleton_of(address.owner)[2:-2]
        near: list[bytes] = []
        line = last = 0
        at = self._skeleton.find(piece)
        while at >= 0 and len(near) <= _MAX_ALIKE:
            line += self._skeleton.count("\n", last, at)
            near.append(self._words[line])
            last, end = at, self._skeleton.find("\n", at)
            at = self._skeleton.find(piece, end) if end >= 0 else -1
        if len(near) > _MAX_ALIKE:
            self._by_look = _sort_by_look(self._words)
        return self._by_look or _sort_by_look(near)


def _sort_by_look(words: Sequence[bytes]) -> dict[str, list[bytes]]:
    by_look: dict[str, list[bytes]] = {}
    for look, name in _list_looks([_address_from_word(word) for word in words]):
        named = by_look.setdefault(look, [])
        if len(named) < _MAX_ALIKE:
            named.append(name)
    return by_look


def addresses_from_target(target: str) -> list[HostOrMailbox]:
    """Return the addresses at which an effect is aimed: all of them, for a name may be written like an address.

    `user:ann@ours.example` is the mailbox of ann.
    """
    words = _find_addresses(target[:_MAX_ADDRESS].lower().encode("utf-8", "ignore"))
    return [_address_from_word(word) for word in words]


def _find_addresses(prepared: bytes) -> list[bytes]:
    """Return what may be an address in a text, each once; file names may be among them, and look like no host."""
    words = prepared.translate(_ADDRESS_BYTES).split()
    found = dict.fromkeys([word.strip(b".-_+@") for word in words if b"." in word and len(word) >= _MIN_ADDRESS])
    # No number ends with a letter, and every host does.
    kept = (word for word in found if _MIN_ADDRESS <= len(word) <= _MAX_ADDRESS and word[-1] > _LAST_DIGIT)
    return [word for word in kept if b"." in word]


def _address_from_word(word: bytes) -> HostOrMailbox:
    local, _, host = (_PUNYCODE.sub(_decode_label, word) if b"xn--" in word else word).rpartition(b"@")
    return HostOrMailbox(local, host, domain_of(host))


def _decode_label(label: re.Match[bytes]) -> bytes:
    try:
        return label[1].decode("punycode").encode()
    except UnicodeError:
        return label[0]


def _is_other_host(host: bytes, other: bytes, *, is_same_text: bool) -> bool:
    """Return whether a host with the same skeleton is that of another owner, who may want to be taken for the first."""
    domain = domain_of(host)
    is_same_domain = domain_of(other) == domain
    is_short = len(domain.partition(b".")[0].replace(b"-", b"")) < _MIN_NAME
    if host == other or is_short or (is_same_domain and not is_open_to_all(domain)):
        return False
    return not (is_same_domain or is_same_text) or len(set(_fold_signs([host, other]))) == 1


def _is_other_mailbox(mailbox: bytes, written: bytes, *, is_same_text: bool) -> bool:
    """Return whether a mailbox has the name of another one, with false letters or under another ending."""
    one, other = _address_from_word(mailbox), _address_from_word(written)
    if one.host == other.host:
        return one.local != other.local and len(one.local) >= _MIN_NAME
    if one.local != other.local or one.domain == other.domain or is_open_to_all(one.domain):
        return False
    # Their owners look alike, else the second was not found. A person may give two endings of one name.
    return len(one.owner) >= _MIN_NAME and not (is_same_text and one.owner == other.owner)


@lru_cache(maxsize=64)
def _looks_of(address: HostOrMailbox) -> tuple[tuple[str, bytes], ...]:
    return tuple(_list_looks([address]))


def _list_looks(addresses: Sequence[HostOrMailbox]) -> Iterator[tuple[str, bytes]]:
    """Yield each mailbox, host and domain after what it looks like; for a mailbox, whatever its ending."""
    mailboxes = [found for found in addresses if found.local]
    looks = _fold_signs([b"%b@%b" % (found.local, found.owner) for found in mailboxes])
    yield from zip(looks, [found.written for found in mailboxes], strict=True)
    hosts = list(dict.fromkeys(name for found in addresses for name in (found.host, found.domain)))
    yield from zip(_skeletons(hosts), hosts, strict=True)


# Many names are folded at once, a line for each: that takes a tenth of the time.


def _fold_signs(names: Sequence[bytes]) -> list[str]:
    """Return names with one sign for all that look the same."""
    return _join_signs(_fold(b"\n".join(names))).split("\n") if names else []


def _skeletons(hosts: Sequence[bytes]) -> list[str]:
    return _skeleton_of(b"\n".join(hosts)).split("\n") if hosts else []


def _skeleton_of(lines: bytes) -> str:
    # The blank keeps lines apart of which nothing is left. This takes a third of the time of a pattern.
    text = _join_signs(_fold(lines).translate(_SEPARATORS)).replace("\n", "\n ")
    return "".join(compress(text, map(ne, text, text[1:] + "\n"))).replace("\n ", "\n")


def _fold(lines: bytes) -> str:
    return fold_to_latin(lines.decode("utf-8", "replace"), _ANY_SCRIPT)


def _join_signs(text: str) -> str:
    return text.translate(_SAME_SIGNS).replace("rn", "m").replace("vv", "w").replace("cl", "d")
