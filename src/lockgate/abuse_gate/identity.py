"""Who sent a request, as subjects that cannot be chosen by whoever sends it.

1. The principal: whom the application's own authentication found, as it stands in the ASGI scope. Never a header:
   what a client writes down as its key or name is a new one for each request, or somebody else's.
2. The network: the connection's address, an IPv4 one by itself, an IPv6 one as its /64, of which anybody has 2^64.
   X-Forwarded-For counts only where the connection comes from a configured proxy, and is read from the right, where
   that proxy wrote: what stands further left was sent by the client.

Of IPv6 a customer has many networks. Where something is shared out, all of a /48 have one share, see `wide`.

Both are kept as HMACs. A plain hash of an address is no secret: all of IPv4 is hashed in half an hour.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from inspect import iscoroutinefunction
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from os import urandom
from typing import Any
from uuid import UUID

from lockgate.core.errors import InvalidConfig, LockgateError, quoted
from lockgate.core.requests.strikes import NETWORK, PRINCIPAL, Subject
from lockgate.runtime.asgi import Scope
from lockgate.settings.abuse_gate import AbuseSettings

Name = str | int | UUID
Principal = Callable[[Scope], Name | None]
_Address = IPv4Address | IPv6Address

MIN_SECRET = 32
# In the list of proxies: a connection without an address, which is a unix socket, is the proxy's.
UNIX = "unix"
# Nobody has so many proxies in a row; the list is the client's to make long.
MAX_HOPS = 32
_MAX_ADDRESS = 64
# Addresses and names whose work is not done again.
MAX_REMEMBERED = 4096
_MAX_REMEMBERED_CHARACTERS = 256
_IPV6_SUFFIX = "/64"
# Letters of a network's key that are its customer's.
_CUSTOMER_KEY_LETTERS = 16
# Where a translator stands before the server, every IPv4 client would else be in one and the same /64.
_TRANSLATED = IPv6Network("64:ff9b::/96")


class Unidentified(LockgateError):
    """The application's own code could not say who a request is from. It must not pass as nobody's."""


class AmbiguousCredential(Unidentified):
    """What a request says about who sent it could be taken for more than one thing. It is the client's fault."""


class Identity:
    """Requests to subjects. The secret is the same for all workers that are to count together.

    `from_settings` is the way to make one: it leaves nothing out that the settings say.
    """

    # Whether somebody has made sure of who a principal is before the gate is asked.
    is_verified = True

    def __init__(self, secret: bytes, principal: Principal | None = None, trusted_proxies: Sequence[str] = ()) -> None:
        if len(secret) < MIN_SECRET:
            raise InvalidConfig(
                f"the secret of the abuse gate must have at least {MIN_SECRET} bytes",
                hint="make one with: openssl rand -hex 32",
            )
        if iscoroutinefunction(principal):
            raise InvalidConfig(
                "the function that says who asks must not be async: there is nobody to wait for it",
                hint="find out in a middleware before the gate, and look it up in the scope here",
            )
        self._keyed = hmac.new(secret, digestmod=sha256)
        # Most requests are from somebody who was here a moment ago.
        self._remembered = lru_cache(MAX_REMEMBERED)(self._hash_subject)
        self._principal = principal or principal_from_scope
        self._trusted = frozenset(trusted_proxies)
        self._unix = UNIX in trusted_proxies
        self._proxies = tuple(_parse_proxy(each) for each in trusted_proxies if each != UNIX)
        self._trusts_nobody = not trusted_proxies

    @staticmethod
    def from_settings(settings: AbuseSettings, principal: Principal | None = None) -> Identity:
        """With the secret and the proxies of the settings; `principal` says who asks, by the scope."""
        return Identity(settings.secret or urandom(MIN_SECRET), principal, settings.trusted_proxies)

    def matches_settings(self, settings: AbuseSettings) -> bool:
        """Whether it has the secret that these settings name, and trusts the proxies that they name."""
        keyed = hmac.new(settings.secret, digestmod=sha256) if settings.secret else self._keyed
        same = hmac.compare_digest(keyed.digest(), self._keyed.digest())
        return same and self._trusted.issuperset(settings.trusted_proxies)

    def subjects(self, scope: Scope) -> tuple[Subject, ...]:
        """The principal, if somebody is signed in, and the network. Unidentified when the application's code fails."""
        try:
            name: object = self._principal(scope)
        except AmbiguousCredential:
            raise
        except Exception as error:
            raise Unidentified(
                f"who a request is from could not be found out: {type(error).__name__}",
                hint="return None for a request that nobody is signed in to",
            ) from error
        if type(name) is not str and name is not None:
            name = _principal_text(name)
        network = self._subject_from_value(NETWORK, self.network_from_scope(scope))
        return (self._subject_from_value(PRINCIPAL, name), network) if name else (network,)

    def _subject_from_value(self, kind: str, value: str) -> Subject:
        # By type: a subclass may claim to be equal to anybody.
        known = type(value) is str and len(value) <= _MAX_REMEMBERED_CHARACTERS
        return self._remembered(kind, value) if known else self._hash_subject(kind, value)

    def _hash_subject(self, kind: str, value: str) -> Subject:
        keyed = self._keyed.copy()
        # The kind has no zero byte in it, so that a principal called like an address is not that network.
        keyed.update(kind.encode() + b"\0" + value.encode("utf-8", "surrogatepass"))
        key = keyed.hexdigest()[:32]
        if kind == NETWORK and value.endswith(_IPV6_SUFFIX):
            key = customer_key(self._hash_subject(NETWORK, _ipv6_customer(value)).key) + key[:_CUSTOMER_KEY_LETTERS]
        return Subject(kind, key)

    def network_from_scope(self, scope: Scope) -> str:
        """The network that a request comes from, as a text that is the same for all of it."""
        client = scope.get("client")
        given = client[0] if client else None
        if self._trusts_nobody and type(given) is str and len(given) <= _MAX_ADDRESS:
            # As below, where nobody is trusted.
            return network_from_address(given)
        peer = parse_address(given)
        nearest = peer
        if self.trusts_address(peer):
            for hop in _forwarded_hops(scope.get("headers") or ()):
                address = parse_address(hop)
                if address is None:
                    # Not from a proxy that knows what it does; what stands left of it is worth nothing either.
                    break
                nearest = address
                if not self.trusts_address(address):
                    break
        return _network_text(nearest)

    def trusts_address(self, address: _Address | None) -> bool:
        """Whether a proxy of ours has this address; None is a socket file."""
        if address is None:
            return self._unix
        return any(address in proxy for proxy in self._proxies)


def customer_key(key: str) -> str:
    """What a network's key begins with: the same for all networks that one customer has."""
    return key[:_CUSTOMER_KEY_LETTERS]


def customer_network(network: str) -> str:
    """The network that a network of `network_of` is a part of, where one customer has many."""
    return _ipv6_customer(network) if network.endswith(_IPV6_SUFFIX) else network


def _ipv6_customer(network: str) -> str:
    # Providers give a customer a /56 or a /48, of which each is free to make 2^16 networks.
    address = int(IPv6Address(network.removesuffix(_IPV6_SUFFIX)))
    return f"{IPv6Address(address >> 80 << 80)}/48"


def _principal_text(name: object) -> str:
    """A name as text: numbers and UUIDs are what most applications know their users by."""
    if isinstance(name, str):
        return str.__str__(name)
    if isinstance(name, Name) and not isinstance(name, bool):
        return str(name)
    if hasattr(name, "close"):
        name.close()  # a coroutine that nobody will wait for
    raise Unidentified(
        f"a principal must be text, a whole number, a UUID or None, not {quoted(type(name).__name__)}",
        hint="every request is refused until then: no object, no bytes, and nothing that has to be awaited",
    )


def principal_from_scope(scope: Scope) -> Name | None:
    """Whom the application's authentication has put into the scope, by the two customs there are.

    `scope["user"]` of Starlette's AuthenticationMiddleware and its like, if it is authenticated; and
    `scope["state"]["principal"]`, for a middleware of one's own.
    """
    user = scope.get("user")
    if user is not None and getattr(user, "is_authenticated", False) is True:
        for attribute in ("identity", "id", "username", "display_name"):
            try:
                name = getattr(user, attribute, None)
            except NotImplementedError:
                continue  # Starlette's own users have no identity until somebody gives them one
            if isinstance(name, Name) and not isinstance(name, bool) and name != "":
                return str(name)
        # Nobody, although somebody is signed in, would be a way out of every ban.
        raise LookupError("an authenticated user without a name")
    state = scope.get("state")
    name = state.get("principal") if type(state) is dict or isinstance(state, Mapping) else None
    # Whatever else it is, whoever asked says so: zero is a user's number, and False is a mistake.
    return None if name == "" else name


def _parse_proxy(text: str) -> Any:
    try:
        network = ip_network(text)
    except (TypeError, ValueError):
        raise InvalidConfig(
            f"{quoted(text)} is no trusted proxy",
            hint=f"give an address or a network without host bits, such as 10.0.0.0/8, or `{UNIX}`",
        ) from None
    if network.prefixlen == 0:
        raise InvalidConfig(
            f"{quoted(text)} would trust everybody's X-Forwarded-For, and so let everybody be anybody",
            hint="name the networks your proxies are in",
        )
    return network


def _forwarded_hops(headers: Iterable[tuple[bytes, bytes]]) -> Iterator[str]:
    """The hops of X-Forwarded-For from the right; several headers of the name are one list, in their order."""
    left = MAX_HOPS
    for name, value in reversed([*headers]):
        if name.lower() == b"x-forwarded-for":
            for hop in reversed(value.decode("latin-1").rsplit(",", left)):
                if not left:
                    return
                left -= 1
                yield hop.strip(" \t")


def parse_address(text: object) -> _Address | None:
    """An address, with a port or without, or None."""
    if not isinstance(text, str) or len(text) > _MAX_ADDRESS:
        return None
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _TRANSLATED:
            return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


@lru_cache(MAX_REMEMBERED)
def network_from_address(text: str) -> str:
    return _network_text(parse_address(text))


def _network_text(address: _Address | None) -> str:
    # Without an address all are one network. That can slow them, and no more; to count nobody would be to let whoever
    # finds a way to have no address do as they like.
    if address is None:
        return "unknown"
    if isinstance(address, IPv4Address):
        return str(address)
    return f"{IPv6Address(int(address) >> 64 << 64)}{_IPV6_SUFFIX}"
