"""Addresses that look like another one: `brandt-imrnobilien.example` is not `brandt-immobilien.example`.

An attacker registers a name that people and models mistake for one they know. Two hosts look alike if they have the
same skeleton: letters of other scripts folded, `rn` read as `m`, `0` as `o` and the like, without hyphens and dots, and
with each doubled letter single. Hosts that one text names together, those of one platform (`ours.github.io`) and
mailboxes of one host often differ by a hyphen or a letter: of these only letters that look the same count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from lockgate.core.ruling.value_pieces import domain_of, is_open_to_all
from lockgate.core.ruling.work_budget import WorkBudget
from lockgate.core.text.confusables import fold_to_latin

# Shorter names look alike by chance.
_MIN_NAME = 5
_MIN_ADDRESS, _MAX_ADDRESS = 8, 320
_IN_ADDRESS = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789.-_+@")
_ADDRESS_BYTES = bytes(byte if byte > 127 or byte in _IN_ADDRESS else 32 for byte in range(256))
_LAST_DIGIT = ord("9")
_PUNYCODE = re.compile(rb"xn--(?<![\w-]xn--)([a-z0-9-]{1,59})")
_SAME_LETTERS = str.maketrans("015i", "olsl")
_OVERLOOKED, _DOUBLED = str.maketrans("", "", ".- "), re.compile(r"(.)\1+")
_ANY_SCRIPT = frozenset({"compat"})
_BYTES_PER_STEP, _STEPS_PER_NAME = 32, 8


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
    """The addresses of one text by what they look like; `steps` is the work of reading them."""

    __slots__ = ("_addresses", "_by_look", "steps")

    def __init__(self, prepared: bytes) -> None:
        self._addresses = _find_addresses(prepared) if b"." in prepared else []
        self._by_look: dict[str, dict[HostOrMailbox, None]] | None = None
        self.steps = 1 + len(prepared) // _BYTES_PER_STEP + _STEPS_PER_NAME * len(self._addresses)

    def find_alike(self, address: HostOrMailbox, budget: WorkBudget, *, is_owner_known: bool = False) -> bytes:
        """Return what looks like an address in this text, and is another one; of a known owner only a mailbox.

        Where the budget ends first, nothing is returned.
        """
        if not budget.take_once(self, self.steps) or not self._addresses:
            return b""
        if self._by_look is None:
            self._by_look = _index_by_look(self._addresses)
        alike = [other for look in _looks_of([address])[0] for other in self._by_look.get(look, ())]
        if not budget.take(1 + len(alike)):
            return b""
        is_same_text = any(other.host == address.host for other in alike)
        for other in alike:
            is_wanted = not is_owner_known or (other.local and other.host == address.host)
            if is_wanted and _is_another(address, other, is_same_text=is_same_text):
                return other.written
        return b""


def addresses_from_target(target: str) -> list[HostOrMailbox]:
    """Return the addresses at which an effect is aimed: all of them, for a name may be written like an address.

    `user:ann@ours.example` is the mailbox of ann.
    """
    return [_split_address(word) for word in _find_addresses(target[:_MAX_ADDRESS].lower().encode("utf-8", "ignore"))]


def _find_addresses(prepared: bytes) -> list[bytes]:
    """Return what may be an address in a text, each once; file names may be among them, and look like no host."""
    words = (word.strip(b".-_+@") for word in prepared.translate(_ADDRESS_BYTES).split() if b"." in word)
    # No number ends with a letter, and every host does.
    named = (word for word in words if _MIN_ADDRESS <= len(word) <= _MAX_ADDRESS and word[-1] > _LAST_DIGIT)
    return list(dict.fromkeys(word for word in named if b"." in word))


def _split_address(written: bytes) -> HostOrMailbox:
    """Return an address as people see it: `xn--mller-bau-q9a.example` has an umlaut."""
    local, _, host = _PUNYCODE.sub(_decode_label, written).rpartition(b"@")
    return HostOrMailbox(local, host, domain_of(host))


def _decode_label(label: re.Match[bytes]) -> bytes:
    try:
        return label[1].decode("punycode").encode()
    except UnicodeError:
        return label[0]


def _index_by_look(written: Iterable[bytes]) -> dict[str, dict[HostOrMailbox, None]]:
    addresses = [_split_address(word) for word in written]
    by_look: dict[str, dict[HostOrMailbox, None]] = {}
    for address, (mailbox, host, domain) in zip(addresses, _looks_of(addresses), strict=True):
        named = (mailbox, address), (host, HostOrMailbox(b"", address.host, address.domain))
        # One entry for all hosts of an owner: a text may list thousands.
        for look, name in (*named, (domain, HostOrMailbox(b"", address.domain, address.domain))):
            by_look.setdefault(look, {})[name] = None
    by_look.pop("", None)
    return by_look


def _looks_of(addresses: Iterable[HostOrMailbox]) -> list[tuple[str, str, str]]:
    """Return what addresses look like: a mailbox with its owner, the host and the domain; empty for short names."""
    looks = []
    for line in _fold(b"%b@%b\t%b\t%b" % (each.local, each.owner, each.host, each.domain) for each in addresses):
        mailbox, host, domain = line.split("\t")
        host, domain = (_DOUBLED.sub(r"\1", _join_letters(name.translate(_OVERLOOKED))) for name in (host, domain))
        is_short = len(mailbox.rpartition("@")[2].replace("-", "")) < _MIN_NAME
        mailbox = "" if mailbox.startswith("@") else _join_letters(mailbox)
        looks.append((mailbox, "", "") if is_short else (mailbox, host, domain))
    return looks


def _fold(names: Iterable[bytes]) -> list[str]:
    """Return names in Latin letters; many are folded in a tenth of the time of one by one."""
    folded = fold_to_latin(b"\n".join(names).decode("utf-8", "replace"), _ANY_SCRIPT)
    return folded.translate(_SAME_LETTERS).split("\n")


def _join_letters(text: str) -> str:
    return text.replace("rn", "m").replace("vv", "w").replace("cl", "d")


def _is_another(address: HostOrMailbox, other: HostOrMailbox, *, is_same_text: bool) -> bool:
    """Return whether an address with the same look belongs to another party, who may pose as the first."""
    if other.local:
        if address.host == other.host:
            return address.local != other.local and len(address.local) >= _MIN_NAME
        if address.local != other.local or address.domain == other.domain or is_open_to_all(address.domain):
            return False
        # A person may give two endings of one name.
        return len(address.owner) >= _MIN_NAME and not (is_same_text and address.owner == other.owner)
    is_same_domain = address.domain == other.domain
    if address.host == other.host or (is_same_domain and not is_open_to_all(address.domain)):
        return False
    return not (is_same_domain or is_same_text) or len(set(map(_join_letters, _fold([address.host, other.host])))) == 1
