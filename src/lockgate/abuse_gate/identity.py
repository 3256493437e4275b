"""The sender of a request, as subjects that the sender cannot choose.

1. The principal: the user that the application's own authentication found, from the ASGI scope. Never a header: a
   client could send a new name with each request, or another user's name.
   A client without a user is its network here too, where that network is surely one client's: see `_is_one_client`.
2. The network: the connection's address. An IPv4 address by itself; of an IPv6 address its /64, since each client has
   2^64 addresses. X-Forwarded-For counts only if the connection comes from a configured proxy. It is read from the
   right, where that proxy wrote; the client wrote the values further left.

An IPv6 customer has many networks. Where something is shared out, all of a /48 have one share, see `customer_key`.

Both are kept as HMACs. A plain hash of an address is no secret: all of IPv4 can be hashed in half an hour.
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
from lockgate.core.requests.strikes import ANONYMOUS_KEY, NETWORK, PRINCIPAL, Subject
from lockgate.runtime.asgi import Scope
from lockgate.settings.abuse_gate import AbuseSettings

Name = str | int | UUID
Principal = Callable[[Scope], Name | None]
_Address = IPv4Address | IPv6Address

MIN_SECRET = 32
# In the list of proxies: a connection without an address, as over a unix socket, comes from the proxy.
UNIX = "unix"
# No deployment has so many proxies in a row; a client can make the list long.
MAX_HOPS = 32
_MAX_ADDRESS = 64
# How many addresses and names the caches hold.
MAX_REMEMBERED = 4096
_MAX_REMEMBERED_CHARACTERS = 256
_IPV6_SUFFIX = "/64"
# What proxies add to a request.
_PROXY_HEADERS = frozenset((b"x-forwarded-for", b"forwarded", b"via", b"x-real-ip", b"cf-connecting-ip"))
# How many letters of a network's key are the same for all networks of its customer.
_CUSTOMER_KEY_LETTERS = 16
# Behind a NAT64 translator, all IPv4 clients would share one /64 otherwise.
_TRANSLATED = IPv6Network("64:ff9b::/96")


class Unidentified(LockgateError):
    """The application's code failed to identify the sender. The request must not pass as unauthenticated."""


class AmbiguousCredential(Unidentified):
    """The client sent a credential that can be read in more than one way."""


# A client that is known by its network only: a kind of its own, so that no principal can be named like one.
_ANONYMOUS = "anonymous"


class Identity:
    """Finds the subjects of a request. Workers that count together need the same secret.

    Make one with `from_settings`, which applies all of the settings.
    """

    # Whether the application has verified the principal before the gate sees the request.
    is_verified = True

    def __init__(
        self,
        secret: bytes,
        principal: Principal | None = None,
        trusted_proxies: Sequence[str] = (),
        *,
        locks_anonymous: bool = False,
    ) -> None:
        if len(secret) < MIN_SECRET:
            raise InvalidConfig(
                f"the secret of the abuse gate must have at least {MIN_SECRET} bytes",
                hint="make one with: openssl rand -hex 32",
            )
        if iscoroutinefunction(principal):
            raise InvalidConfig(
                "the principal function must not be async: the gate does not await it",
                hint="authenticate in a middleware before the gate, and read the user from the scope here",
            )
        self._keyed = hmac.new(secret, digestmod=sha256)
        # Most requests come from a recent client.
        self._remembered = lru_cache(MAX_REMEMBERED)(self._hash_subject)
        self._principal = principal or principal_from_scope
        self._locks_anonymous = locks_anonymous
        self._trusted = frozenset(trusted_proxies)
        self._unix = UNIX in trusted_proxies
        self._proxies = tuple(_parse_proxy(each) for each in trusted_proxies if each != UNIX)

    @staticmethod
    def from_settings(settings: AbuseSettings, principal: Principal | None = None) -> Identity:
        """Return an Identity with the settings' secret and proxies; `principal` finds the user in the scope."""
        return Identity(
            settings.secret or urandom(MIN_SECRET),
            principal,
            settings.trusted_proxies,
            locks_anonymous=settings.anonymous == "network",
        )

    def matches_settings(self, settings: AbuseSettings) -> bool:
        """Return whether it has the secret of these settings, and trusts their proxies."""
        keyed = hmac.new(settings.secret, digestmod=sha256) if settings.secret else self._keyed
        same = hmac.compare_digest(keyed.digest(), self._keyed.digest())
        return same and self._trusted.issuperset(settings.trusted_proxies)

    def subjects(self, scope: Scope, tenant: str = "") -> tuple[Subject, ...]:
        """Return the principal, if a user is signed in, and the network; raise Unidentified if `principal` fails.

        A principal of one tenant is another one than the principal of the same name of another tenant.
        """
        try:
            name: object = self._principal(scope)
        except AmbiguousCredential:
            raise
        except Exception as error:
            raise Unidentified(
                f"the sender of a request could not be identified: {type(error).__name__}",
                hint="return None for a request without a signed-in user",
            ) from error
        if type(name) is not str and name is not None:
            name = name_text(name)
        place = self.network_from_scope(scope)
        network = self._subject_from_value(NETWORK, place)
        if not name and self._locks_anonymous and self._is_one_client(scope, place):
            return (self._subject_from_value(_ANONYMOUS, place, tenant), network)
        return (self._subject_from_value(PRINCIPAL, name, tenant), network) if name else (network,)

    def subject_without_headers(self, scope: Scope, tenant: str = "") -> Subject | None:
        """Return the anonymous client that a request would come from, had it no header by which proxies show.

        Until it is locked, nothing is counted against that one, for it may be a proxy's network. But who was locked
        without such a header stays locked with one: any client can write it.
        """
        place = self.network_from_scope(scope)
        if not self._locks_anonymous or not self._has_address_of_its_own(scope, place):
            return None
        return self._subject_from_value(_ANONYMOUS, place, tenant)

    def anonymous_subject(self, address: str, tenant: str = "") -> Subject | None:
        """Return the client without a user that has this address; None for what is no address."""
        parsed = parse_address(address)
        return None if parsed is None else self._subject_from_value(_ANONYMOUS, _network_text(parsed), tenant)

    def trusts(self, scope: Scope) -> bool:
        """Return whether the connection comes from a trusted proxy."""
        client = scope.get("client")
        return self.trusts_address(parse_address(client[0]) if client else None)

    def _subject_from_value(self, kind: str, value: str, tenant: str = "") -> Subject:
        # By type: a subclass of str may claim to be equal to another user's name.
        known = type(value) is str and len(value) <= _MAX_REMEMBERED_CHARACTERS
        return self._remembered(kind, value, tenant) if known else self._hash_subject(kind, value, tenant)

    def _hash_subject(self, kind: str, value: str, tenant: str = "") -> Subject:
        keyed = self._keyed.copy()
        # The zero byte keeps a principal that is named like an address apart from that network, and from a tenant's.
        where = f"tenant\0{tenant}\0{kind}" if tenant else kind
        keyed.update(where.encode() + b"\0" + value.encode("utf-8", "surrogatepass"))
        key = keyed.hexdigest()[:32]
        if kind == _ANONYMOUS:
            # It can be locked like a principal, and nothing else speaks for it: the key says so wherever it is kept.
            return Subject(PRINCIPAL, key[: -len(ANONYMOUS_KEY)] + ANONYMOUS_KEY)
        if kind == NETWORK and value.endswith(_IPV6_SUFFIX):
            key = customer_key(self._hash_subject(NETWORK, _ipv6_customer(value)).key) + key[:_CUSTOMER_KEY_LETTERS]
        return Subject(kind, key)

    def _is_one_client(self, scope: Scope, network: str) -> bool:
        """Return whether a network stands for one client; not where many clients may share it.

        Behind a proxy that the operator has not named, all clients have the proxy's address. Such a proxy shows by what
        it adds to the headers, or by an address of this machine or a private network.
        """
        if self.trusts(scope):
            return self._has_address_of_its_own(scope, network)
        shows_proxy = any(name.lower() in _PROXY_HEADERS for name, _ in scope.get("headers") or ())
        return not shows_proxy and self._has_address_of_its_own(scope, network)

    def _has_address_of_its_own(self, scope: Scope, network: str) -> bool:
        client = scope.get("client")
        peer = parse_address(client[0] if client else None)
        if self.trusts_address(peer):
            return network != _network_text(peer)
        return peer is not None and peer.is_global

    def network_from_scope(self, scope: Scope) -> str:
        """Return the network that a request comes from, as a text that all of its addresses share."""
        client = scope.get("client")
        nearest = client[0] if client else None
        if self.trusts_address(parse_address(nearest)):
            for hop in _forwarded_hops(scope.get("headers") or ()):
                address = parse_address(hop)
                if address is None:
                    # No proxy of ours wrote this; the values further left are worthless, too.
                    break
                nearest = hop
                if not self.trusts_address(address):
                    break
        return network_from_address(nearest)

    def trusts_address(self, address: _Address | None) -> bool:
        """Return whether a trusted proxy has this address; None stands for a socket file."""
        if address is None:
            return self._unix
        return any(address in proxy for proxy in self._proxies)


def customer_key(key: str) -> str:
    """Return the beginning of a network's key, which all networks of one customer share."""
    return key[:_CUSTOMER_KEY_LETTERS]


def customer_network(network: str) -> str:
    """Return the customer's whole network for a network of `network_from_scope`; an IPv4 one is its own."""
    return _ipv6_customer(network) if network.endswith(_IPV6_SUFFIX) else network


def _ipv6_customer(network: str) -> str:
    # Providers give a customer a /56 or a /48, with up to 2^16 networks.
    address = int(IPv6Address(network.removesuffix(_IPV6_SUFFIX)))
    return f"{IPv6Address(address >> 80 << 80)}/48"


def name_text(name: object) -> str:
    """Return a name as text: many applications identify users by numbers or UUIDs."""
    if isinstance(name, str):
        return str.__str__(name)
    if isinstance(name, Name) and not isinstance(name, bool):
        return str(name)
    if hasattr(name, "close"):
        name.close()  # a coroutine that is never awaited
    raise Unidentified(
        f"a principal must be text, a whole number, a UUID or None, not {quoted(type(name).__name__)}",
        hint="every request is refused until then: no object, no bytes, and nothing that has to be awaited",
    )


def principal_from_scope(scope: Scope) -> Name | None:
    """Return the user that the application's authentication has put into the scope.

    That is `scope["user"]`, as Starlette's AuthenticationMiddleware sets it, if it is authenticated, or
    `scope["state"]["principal"]`, for an application's own middleware.
    """
    user = scope.get("user")
    if user is not None and getattr(user, "is_authenticated", False) is True:
        for attribute in ("identity", "id", "username", "display_name"):
            try:
                name = getattr(user, attribute, None)
            except NotImplementedError:
                continue  # Starlette's own users have no identity unless the application adds one
            if isinstance(name, Name) and not isinstance(name, bool) and name != "":
                return str(name)
        # To treat a signed-in user as unauthenticated would be a way out of every ban.
        raise LookupError("an authenticated user without a name")
    state = scope.get("state")
    name = state.get("principal") if type(state) is dict or isinstance(state, Mapping) else None
    # Other values go to the caller, which checks them: zero is a user's number, and False is a mistake.
    return None if name == "" else name


def _parse_proxy(text: str) -> Any:
    try:
        network = ip_network(text)
    except (TypeError, ValueError):
        raise InvalidConfig(
            f"{quoted(text)} is not an address of a proxy",
            hint=f"give an address or a network without host bits, such as 10.0.0.0/8, or `{UNIX}`",
        ) from None
    if network.prefixlen == 0:
        raise InvalidConfig(
            f"{quoted(text)} would trust every client's X-Forwarded-For, so each client could pose as any other",
            hint="name the networks your proxies are in",
        )
    return network


def _forwarded_hops(headers: Iterable[tuple[bytes, bytes]]) -> Iterator[str]:
    """Yield the hops of X-Forwarded-For from the right; several such headers are one list, in their order."""
    left = MAX_HOPS
    for name, value in reversed([*headers]):
        if name.lower() == b"x-forwarded-for":
            for hop in reversed(value.decode("latin-1").rsplit(",", left)):
                if not left:
                    return
                left -= 1
                yield hop.strip(" \t")


def parse_address(text: object) -> _Address | None:
    """Return the address in a text, with or without a port; None if there is none."""
    return _parse_address(text) if type(text) is str and len(text) <= _MAX_ADDRESS else None


@lru_cache(MAX_REMEMBERED)
def _parse_address(text: str) -> _Address | None:
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


def network_from_address(text: object) -> str:
    """Return the network of an address, as `network_from_scope` does without proxies."""
    return _remembered_network(text) if type(text) is str and len(text) <= _MAX_ADDRESS else _network_text(None)


@lru_cache(MAX_REMEMBERED)
def _remembered_network(text: str) -> str:
    return _network_text(_parse_address(text))


def _network_text(address: _Address | None) -> str:
    # All clients without an address are one network, which can be slowed. Not to count them would free every attacker
    # who finds a way to have no address.
    if address is None:
        return "unknown"
    if isinstance(address, IPv4Address):
        return str(address)
    return f"{IPv6Address(int(address) >> 64 << 64)}{_IPV6_SUFFIX}"
