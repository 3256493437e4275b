"""Rule 2: addresses that lead to Lockgate's service, or to a judge's server, in any spelling of this machine.

The page and the API of the service answer for a person: an agent that opens them could answer its own question there.
Only the routes that say whether the service runs are left out. A judge's server may be asked, but not changed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from ipaddress import IPv6Address
from urllib.parse import unquote

ASKS_SERVICE = "asks-own-service"
_NAMES = frozenset(
    "localhost localhost.localdomain localhost4 localhost6 ip6-localhost ip6-loopback host.docker.internal "
    "host.containers.internal".split()
)
# What stands before a port and after it; a program may take the two as words of their own.
_HOST = r"\[[0-9a-f:.%\w]*\]|(?:[0-9a-f]{0,4}:){2,7}[0-9a-f.]*|[^\s/\\?#\"'<>|`,;&()=@:\[\]]+"
_BEFORE = re.compile(rf"(?:^|[^\w.-])({_HOST})[\s:/,'\"]{{1,4}}(?:-{{0,2}}p(?:ort)?[\s:='\"]{{1,4}})?$", re.IGNORECASE)
_BEHIND = re.compile(rf"[\s:,'\"]{{1,4}}(?:-{{0,2}}host(?:name)?[\s:='\"]{{1,4}})?({_HOST})", re.IGNORECASE)
_HEALTH = re.compile(r"/(?:healthz|readyz)(?=[\s\"'`;|&)]|$)")
# Browsers leave the first three out wherever they stand in an address, and take the others for dots.
_PLAIN = str.maketrans("。．｡", "...", "\t\r\n")
_ROUTE = re.compile(r"(?<![\w.:\]-])/(?:v1/(?:approvals|bans|exchange|grants)|hooks/[a-z-]+|links/(?:show|answer))\b")
# The routes of Ollama, LM Studio, llama.cpp and vLLM that replace, load or remove a model.
_MODEL_ROUTE = re.compile(
    r"/+api/+(?:create|delete|pull|copy|v\d/+models/+(?:un)?load)\b|/models/+(?:un)?load\b|/v1/+(?:un)?load_lora|/lora-adapters"
)
_REACH = 300
_MOST_PORTS = 64


def find_own_service(text: str, port: int) -> str:
    """Return the host and port in a text that lead to the service; empty if none do."""
    return _find_address(text, port) or (_find_address(_as_browsers_read(text), port) if not text.isprintable() else "")


def _as_browsers_read(text: str) -> str:
    return unicodedata.normalize("NFKC", unquote(unquote(text))).translate(_PLAIN)


def _find_address(text: str, port: int) -> str:
    plain = text if text.isascii() and "%" not in text else _as_browsers_read(text)
    places = re.finditer(rf"(?<!\d)0{{0,8}}{port}(?!\d)", plain) if str(port) in plain else ()
    for number, at in enumerate(places):
        if number > _MOST_PORTS:
            return at[0]
        before = _BEFORE.search(plain[max(0, at.start() - _REACH) : at.start()])
        behind = _BEHIND.match(plain[at.end() : at.end() + _REACH])
        for match in (before, behind) if not _HEALTH.match(plain, at.end()) else ():
            if match is not None and is_this_machine(match[1]):
                return f"{match[1]}:{port}"
    return ""


def find_model_change(text: str, ports: Iterable[int]) -> str:
    """Return the host and port of a judge's server where a text also names a route that changes its models."""
    found = (find_own_service(text, port) for port in ports if _MODEL_ROUTE.search(unquote(text)))
    return next(filter(None, found), "")


def may_name_service(text: str, port: int) -> bool:
    """Return after a quick look whether a text can name the service or one of its routes."""
    if str(port) in text or "/v1/" in text or "/hooks/" in text or "/links/" in text:
        return True
    return not (text.isascii() and text.isprintable()) and str(port) in _as_browsers_read(text)


def is_this_machine(host: str) -> bool:
    """Return whether a program could take a written host for the machine that it runs on."""
    bare = host.strip("[]").rstrip(".").lower()
    if bare in _NAMES or bare.endswith(".localhost"):
        return True
    try:
        if ":" in bare:
            # Without brackets, as some programs take it; or the last of several fields.
            address = IPv6Address(bare.partition("%")[0])
            mapped = str(address.ipv4_mapped or bare.rpartition(":")[2])
            return address.is_loopback or address.is_unspecified or is_this_machine(mapped)
        numbers = [int(part, 16 if part[:2] == "0x" else 8 if part[:1] == "0" else 10) for part in bare[:64].split(".")]
    except ValueError:
        return ":" in bare and is_this_machine(bare.rpartition(":")[2])
    first = numbers[0] if len(numbers) > 1 else numbers[0] % 2**32 >> 24
    return first == 127 or not any(numbers)


def names_own_route(text: str) -> str:
    """Return the route of the service that a text names without a host; empty if it names none."""
    found = _ROUTE.search(text)
    return found[0] if found else ""
