"""Addresses that lead to Lockgate's own service: any spelling of this machine with the service's port.

The page and the API of the service answer for a person. An agent that opens them, with a program of its own or in its
user's browser, could answer its own question there. Only the routes that say whether the service runs are left out.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from ipaddress import IPv4Address

from lockgate.core.ruling.arguments import Leaf
from lockgate.core.ruling.effects.effect import Effect, effect
from lockgate.core.ruling.effects.project import Project
from lockgate.core.ruling.effects.tool_arguments import leaf_name
from lockgate.core.ruling.effects.tool_names import ToolName
from lockgate.core.ruling.scope.machines import DOTS, decode_percent, ipv6_machines, machines_from_host

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
# Browsers leave these out wherever they stand in an address.
_LEFT_OUT = str.maketrans("", "", "\t\r\n")
_ROUTE = re.compile(r"(?<![\w.:\]-])/(?:v1/(?:approvals|bans|exchange|grants)|hooks/[a-z-]+|links/(?:show|answer))\b")
# The routes of Ollama, LM Studio, llama.cpp and vLLM that replace, load or remove a model.
_MODEL_ROUTE = re.compile(
    r"/+api/+(?:create|delete|pull|copy|v\d/+models/+(?:un)?load)\b|/models/+(?:un)?load\b|/v1/+(?:un)?load_lora|/lora-adapters"
)
_OCTAL = re.compile(r"0[0-7]{9,11}")
_REACH = 300
_MOST_PORTS = 64
_PAGES = frozenset("browser puppeteer playwright page webpage tab selenium chrome devtools".split())
_CODE = frozenset("python javascript js node jupyter repl code interpreter evaluate eval snippet script".split())
# Tools that work on files or run a shell, which is read by itself; and values that are only searched for.
_OTHER_SEEDS = frozenset("read write glob grep bash".split())
_SEARCHED = frozenset("query pattern q regex search prompt".split())
_BLANK = re.compile(r"\s")


def find_own_service(text: str, port: int) -> str:
    """Return the host and port in a text that lead to the service; empty if none do."""
    forms = (text,) if text.isprintable() else (text, text.translate(_LEFT_OUT))
    for form in forms:
        if found := _find_plainly(form, port):
            return found
    return ""


def find_model_change(text: str, ports: Iterable[int]) -> str:
    """Return the host and port of a judge's server where a text also names a route that changes its models."""
    found = (find_own_service(text, port) for port in ports if _MODEL_ROUTE.search(decode_percent(text)))
    return next(filter(None, found), "")


def may_name_service(text: str, port: int) -> bool:
    """Return after a quick look whether a text can name the service or one of its routes."""
    if str(port) in text or "/v1/" in text or "/hooks/" in text or "/links/" in text:
        return True
    if text.isascii() and "\t" not in text and "\n" not in text and "\r" not in text:
        return False
    return str(port) in unicodedata.normalize("NFKC", text.translate(_LEFT_OUT))


def is_this_machine(host: str) -> bool:
    """Return whether a program could take a written host for the machine that it runs on."""
    if _OCTAL.fullmatch(host):
        return IPv4Address(int(host, 8) % 2**32).is_loopback
    if host.count(":") > 1 and host[:1] != "[":
        # Without brackets, as some programs take it; or the last of several fields.
        machines = ipv6_machines(host) | machines_from_host(host.rpartition(":")[2])
    else:
        machines = machines_from_host(host)
    for machine in machines:
        if isinstance(machine, str):
            if machine in _NAMES or machine.endswith(".localhost"):
                return True
        elif machine.first.is_loopback or machine.first.is_unspecified:
            return True
    return False


def read_service_arguments(name: ToolName, seed: str, leaves: Sequence[Leaf], project: Project) -> Iterator[Effect]:
    """Yield an effect for each value by which a tool reaches the service: an address, a route, a host and a port."""
    if seed in _OTHER_SEEDS:
        return
    port = project.service_port
    is_page = not _PAGES.isdisjoint(name.words)
    reads_all = is_page or not _CODE.isdisjoint(name.words)
    places = [leaf for leaf in leaves if _may_be_address(leaf, reads_all=reads_all)]
    for leaf in places:
        found = find_own_service(leaf.text, port) or (names_own_route(leaf.text) if is_page else "")
        if not found and leaf_name(leaf).endswith("port") and leaf.text.strip().lstrip("0") == str(port):
            found = next((other.text for other in places if is_this_machine(other.text.strip()[:_REACH])), "")
        if found:
            yield effect(ASKS_SERVICE, found, argument=leaf.argument, span=(0, len(leaf.text)))
        if changed := find_model_change(leaf.text, project.judge_servers):
            yield effect("changes-own-guard", changed, argument=leaf.argument, span=(0, len(leaf.text)))


def _may_be_address(leaf: Leaf, *, reads_all: bool) -> bool:
    """Return whether a tool may go where a value says: it is one word, is called an address, or is code or a page's."""
    name = leaf_name(leaf)
    if name in _SEARCHED:
        return False
    return reads_all or name.endswith(("url", "uri")) or _BLANK.search(leaf.text.strip()) is None


def names_own_route(text: str) -> str:
    """Return the route of the service that a text names without a host; empty if it names none."""
    found = _ROUTE.search(text)
    return found[0] if found else ""


def _find_plainly(text: str, port: int) -> str:
    plain = text
    if "%" in text or not text.isascii():
        plain = unicodedata.normalize("NFKC", decode_percent(text)).translate(DOTS)
    if str(port) not in plain:
        return ""
    for number, at in enumerate(re.finditer(rf"(?<!\d)0{{0,8}}{port}(?!\d)", plain)):
        if number > _MOST_PORTS:
            return at[0]
        if _HEALTH.match(plain, at.end()):
            continue
        around = (
            _BEFORE.search(plain[max(0, at.start() - _REACH) : at.start()]),
            _BEHIND.match(plain[at.end() : at.end() + _REACH]),
        )
        for match in around:
            if match is not None and is_this_machine(match[1]):
                return f"{match[1]}:{port}"
    return ""
