"""Addresses that look like another one: `brandt-imrnobilien.example` is not `brandt-immobilien.example`.

An attacker registers a name that people and models take for one that they know. Two hosts look alike if they have the
same skeleton: letters of other scripts folded, `rn` read as `m`, `0` as `o` and the like, without hyphens and dots, and
with each doubled letter single. The names of two mailboxes of one host, the hosts that one text names, and those of one
platform (`ours.github.io`) often differ by a hyphen or a letter: of these only signs that look the same count.

A text may hold very many addresses. One search finds the few that are worth comparing: those with the same coarse
signs, which are what is left of a name without all that may differ.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from lockgate.core.ruling.value_pieces import domain_of, is_open_to_all
from lockgate.core.ruling.work_budget import WorkBudget
from lockgate.core.text.confusables import fold_to_latin

# Shorter names look alike by chance.
_MIN_NAME = 5
_MIN_ADDRESS, _MAX_ADDRESS = 8, 320
_IN_ADDRESS = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789.-_+@")
_ADDRESS_BYTES = bytes(byte if byte > 127 or byte in _IN_ADDRESS else 32 for byte in range(256))
# One byte is found in others by its number in a fifth of the time that it takes as text.
_DOT, _LAST_DIGIT = b".9"
# The sign before a label is looked at last: a pattern that begins with letters is searched for in a tenth of the time.
_PUNYCODE = re.compile(rb"xn--(?<![\w-]xn--)([a-z0-9-]{1,59})")
_SAME_SIGNS = str.maketrans("015i", "olsl")
_SEPARATORS, _DOUBLED = str.maketrans("", "", ".- "), re.compile(r"(.)\1+")
# `m` is `rn` without its `r`, `d` is `cl` without its `c`, and `w` is a doubled `v`.
_COARSE, _UNTOLD = bytes.maketrans(b"015imdw", b"olslnlv"), b".- rc"
_ASCII = bytes(range(128))
_WITHOUT_HIGH_BIT = _ASCII * 2
_ANY_SCRIPT = frozenset({"compat"})
_BYTES_PER_STEP, _STEPS_PER_LABEL, _STEPS_PER_LOOK_UP, _STEPS_PER_NAME = 32, 32, 2, 8


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
    """The addresses of one text, ready to be asked which of them look like another one.

    `steps` is the work of reading them, which each check takes, whether or not an earlier one has read them.
    """

    __slots__ = ("_addresses", "_latest", "_signs", "steps")

    def __init__(self, prepared: bytes) -> None:
        self._addresses = _find_addresses(prepared) if _DOT in prepared else []
        # The coarse signs of all addresses, a line for each.
        self._signs = b""
        self._latest = (b"", b"", 0)
        encoded = sum([each.count(b"xn--") for each in self._addresses]) if b"xn--" in prepared else 0
        # No address is without a dot, and to see that a text has none is nearly no work.
        read = len(prepared) // _BYTES_PER_STEP if _DOT in prepared else 1
        self.steps = read + _STEPS_PER_LABEL * encoded

    def find_alike(self, asked: HostOrMailbox, budget: WorkBudget, *, is_owner_known: bool = False) -> bytes:
        """Return what looks like an address in this text, and is another one; of a known owner only a mailbox.

        Where the budget ends before all is compared, nothing is returned.
        """
        if not budget.take_once(self, self.steps) or not budget.take(_STEPS_PER_LOOK_UP) or not self._addresses:
            return b""
        if not self._signs:
            lines = _decode_labels(b"\n".join(self._addresses))
            # The slash keeps lines apart of which nothing is left.
            self._addresses, self._signs = lines.split(b"\n"), b"\n/%b\n" % _coarse_signs(lines.replace(b"\n", b"\n/"))
        found = self._find_mailbox(asked, budget, is_owner_known=is_owner_known) if asked.local else b""
        return found if found or is_owner_known else self._recall_host(asked, budget)

    def _find_mailbox(self, asked: HostOrMailbox, budget: WorkBudget, *, is_owner_known: bool) -> bytes:
        near = self._find_near(b"\n/" + _signs_of(asked.local + b"@"), budget, within=_signs_of(asked.owner))
        if not near or not budget.take(_STEPS_PER_NAME * len(near)):
            return b""
        found = [_split_address(each) for each in near]
        looks = _fold_signs([b"%b@%b" % (each.local, each.owner) for each in (asked, *found)])
        others = [each for each, look in zip(found, looks[1:], strict=True) if look == looks[0]]
        is_same_text = asked in others
        for other in others:
            is_wanted = other.host == asked.host or not is_owner_known
            if is_wanted and _is_other_mailbox(asked, other, is_same_text=is_same_text):
                return other.written
        return b""

    def _recall_host(self, asked: HostOrMailbox, budget: WorkBudget) -> bytes:
        """Return what `_find_host` does. The latest answer is remembered: a mail mostly goes to colleagues."""
        host, other, steps = self._latest
        if host == asked.host:
            # What is remembered costs the steps that it took: another process, which remembers nothing, rules the same.
            return other if budget.take_once((self, host), steps) else b""
        left, other = budget.left, self._find_host(asked, budget)
        if not budget.is_spent:
            self._latest = (asked.host, other, left - budget.left)
            budget.take_once((self, asked.host), 0)
        return other

    def _find_host(self, asked: HostOrMailbox, budget: WorkBudget) -> bytes:
        if len(asked.owner.replace(b"-", b"")) < _MIN_NAME:
            return b""
        near = self._find_near(_signs_of(asked.domain) + b"\n", budget)
        # A text may list all hosts of the same owner: one stands for them.
        own = b"." + asked.domain if near and not is_open_to_all(asked.domain) else b"\n"
        hosts = dict.fromkeys([each.rpartition(b"@")[2] for each in near])
        hosts = dict.fromkeys(asked.domain if host.endswith(own) and host != asked.host else host for host in hosts)
        if not hosts or not budget.take(_STEPS_PER_NAME * len(hosts)):
            return b""
        names = list(dict.fromkeys(name for host in hosts for name in (host, domain_of(host))))
        return _first_alike(asked.host, names) or _first_alike(asked.domain, names)

    def _find_near(self, edge: bytes, budget: WorkBudget, *, within: bytes = b"") -> list[bytes]:
        """Return the addresses whose lines have these signs at an edge, line break included, and others within."""
        near: list[bytes] = []
        line, counted, signs = -1, 0, self._signs
        budget.take_pass(len(signs))
        at = signs.find(edge)
        while at >= 0 and budget.take():
            last = at + len(edge) - 1
            line += signs.count(b"\n", counted, last)
            counted = last
            if signs.find(within, at, signs.find(b"\n", last)) >= 0:
                near.append(self._addresses[line])
            at = signs.find(edge, at + 1)
        return near


def addresses_from_target(target: str) -> list[HostOrMailbox]:
    """Return the addresses at which an effect is aimed: all of them, for a name may be written like an address.

    `user:ann@ours.example` is the mailbox of ann.
    """
    words = _find_addresses(target[:_MAX_ADDRESS].lower().encode("utf-8", "ignore"))
    return [_split_address(_decode_labels(word)) for word in words]


def _find_addresses(prepared: bytes) -> list[bytes]:
    """Return what may be an address in a text, each once; file names may be among them, and look like no host."""
    words = prepared.translate(_ADDRESS_BYTES).split()
    # No number ends with a letter, and every host does.
    found = [
        address
        for word in words
        if _DOT in word
        and _MIN_ADDRESS <= len(address := word.strip(b".-_+@")) <= _MAX_ADDRESS
        and address[-1] > _LAST_DIGIT
        and _DOT in address
    ]
    return list(dict.fromkeys(found))


def _split_address(written: bytes) -> HostOrMailbox:
    local, _, host = written.rpartition(b"@")
    return HostOrMailbox(local, host, domain_of(host))


def _decode_labels(lines: bytes) -> bytes:
    """Return addresses as people see them: `xn--mller-bau-q9a.example` has an umlaut."""
    return _PUNYCODE.sub(_decode_label, lines)


def _decode_label(label: re.Match[bytes]) -> bytes:
    try:
        return label[1].decode("punycode").encode()
    except UnicodeError:
        return label[0]


def _first_alike(asked: bytes, names: Sequence[bytes]) -> bytes:
    looks = _skeletons([asked, *names])
    others = [name for name, look in zip(names, looks[1:], strict=True) if look == looks[0]]
    is_same_text = asked in others
    return next((other for other in others if _is_other_host(asked, other, is_same_text=is_same_text)), b"")


def _is_other_host(host: bytes, other: bytes, *, is_same_text: bool) -> bool:
    """Return whether a host with the same skeleton is that of another owner, who may want to be taken for the first."""
    domain = domain_of(host)
    is_same_domain = domain_of(other) == domain
    if host == other or (is_same_domain and not is_open_to_all(domain)):
        return False
    return not (is_same_domain or is_same_text) or len(set(_fold_signs([host, other]))) == 1


def _is_other_mailbox(one: HostOrMailbox, other: HostOrMailbox, *, is_same_text: bool) -> bool:
    """Return whether a mailbox has the name of another one, with false letters or under another ending."""
    if one.host == other.host:
        return one.local != other.local and len(one.local) >= _MIN_NAME
    if one.local != other.local or one.domain == other.domain or is_open_to_all(one.domain):
        return False
    # Their owners look alike, else the second was not found. A person may give two endings of one name.
    return len(one.owner) >= _MIN_NAME and not (is_same_text and one.owner == other.owner)


# Many names are folded at once, a line for each: that takes a tenth of the time.


def _fold_signs(names: Sequence[bytes]) -> list[str]:
    """Return names with one sign for all that look the same."""
    return _join_signs(_fold(b"\n".join(names))).split("\n")


def _skeletons(hosts: Sequence[bytes]) -> list[str]:
    """Return hosts without what people overlook as well: hyphens, dots and doubled letters."""
    return _DOUBLED.sub(r"\1", _join_signs(_fold(b"\n".join(hosts)).translate(_SEPARATORS))).split("\n")


def _coarse_signs(lines: bytes) -> bytes:
    """Return names without all that may differ between two that look alike.

    Each letter has its sign, whatever stands beside it: what is a part of a name has its signs among those of the name.
    """
    signs = _fold(lines).encode("ascii", "replace").translate(_COARSE, _UNTOLD)
    # As one number, all bytes are compared at once: those that differ from the one before get their high bit, and stay.
    number, size = int.from_bytes(signs), len(signs)
    differing = (number ^ number >> 8) + int.from_bytes(b"\x7f" * size) & int.from_bytes(b"\x80" * size)
    return (number | differing).to_bytes(size).translate(_WITHOUT_HIGH_BIT, _ASCII)


_signs_of = lru_cache(maxsize=128)(_coarse_signs)


def _fold(lines: bytes) -> str:
    return fold_to_latin(lines.decode("utf-8", "replace"), _ANY_SCRIPT)


def _join_signs(text: str) -> str:
    return text.translate(_SAME_SIGNS).replace("rn", "m").replace("vv", "w").replace("cl", "d")
