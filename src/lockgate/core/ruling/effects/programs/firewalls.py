"""Firewalls and other guards of the machine: what keeps an address out adds protection, all else may take it away."""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import ip_network
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.program_io import UNKNOWN_OUTPUT, Invocation, Output
from lockgate.core.ruling.effects.programs.options import has_option, split_options

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk

# A wider network than this is a good part of the internet.
_WIDEST = 8
# The machine's own addresses and those of its neighbours: who keeps them out takes services apart.
_NEAR = [
    ip_network(text)
    for text in "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.168.0.0/16 "
    "::/8 fc00::/7 fe80::/10".split()
]
_LISTS = ("-L", "-S", "--list", "--list-all", "--state", "-sr")
_LOOKS = frozenset("status list show getenforce --status ping get banned version".split())
_IPTABLES_VALUED = frozenset(
    "-A --append -I --insert -s --source --src -j --jump -p --protocol --proto -m --match --dport --sport --dports "
    "--destination-port -i --in-interface -t --table --comment --reject-with --ctstate --state -w --wait".split()
)
_IPTABLES_ADDS, _IPTABLES_SOURCE = (
    frozenset({"-A", "--append", "-I", "--insert"}),
    frozenset("-s --source --src".split()),
)


def _is_far_address(text: str) -> bool:
    """Return whether a text is one address or network of the internet, and not a good part of it."""
    try:
        network = ip_network(text, strict=False)
    except ValueError:
        return False
    return network.prefixlen >= _WIDEST and not any(network.overlaps(near) for near in _NEAR)


def _denied_by_ufw(arguments: list[str]) -> str:
    """`ufw [insert N|prepend] deny|reject [in] from ADDRESS …`."""
    words = arguments[2:] if arguments[:1] == ["insert"] else arguments[arguments[:1] == ["prepend"] :]
    is_denied = words[:1] in (["deny"], ["reject"]) and not {"out", "allow"} & set(words)
    behind = words[words.index("from") + 1 :] if is_denied and "from" in words else []
    return behind[0] if behind else ""


def _denied_by_iptables(arguments: list[str]) -> str:
    """`iptables -A CHAIN -s ADDRESS … -j DROP`: with `!` it would keep out all others."""
    options, rest = split_options(arguments, _IPTABLES_VALUED)
    values = dict(options)
    chains = [value for name, value in options if name in _IPTABLES_ADDS]
    sources = [value for name, value in options if name in _IPTABLES_SOURCE]
    drops = (values.get("-j") or values.get("--jump")) in ("DROP", "REJECT")
    is_plain = {name for name, _ in options} <= _IPTABLES_VALUED and all(word.isdigit() for word in rest)
    is_incoming = len(chains) == 1 and "OUT" not in chains[0].upper()
    return sources[0] if drops and is_plain and is_incoming and len(sources) == 1 else ""


_NFT_RULE = re.compile(
    r"(?:add|insert) rule (?:(?:ip6?|inet) )?([\w-]+ [\w-]+) ip6? saddr ([\w.:/]+)(?: (?:tcp|udp) dport \d+)?"
    r"(?: counter| log)* (?:drop|reject)"
)


def _denied_by_nft(arguments: list[str]) -> str:
    """`nft add rule FAMILY TABLE CHAIN ip saddr ADDRESS … drop`, and no statement behind it."""
    rule = _NFT_RULE.fullmatch(" ".join(arguments))
    return rule.group(2) if rule and "out" not in rule.group(1).lower() else ""


_RICH_RULE = re.compile(
    r"--add-rich-rule=rule(?: family=\"?ipv[46]\"?)? source address=\"?([^\s\"]+)\"?(?: \w+ [\w=\"-]+)* "
    r"(?:drop|reject)"
)


def _denied_by_firewalld(arguments: list[str]) -> str:
    """`firewall-cmd --add-rich-rule='rule … source address=ADDRESS … drop'`."""
    rest = [argument for argument in arguments if argument != "--permanent" and not argument.startswith("--zone=")]
    rule = _RICH_RULE.fullmatch(rest[0]) if len(rest) == 1 else None
    return rule.group(1) if rule else ""


def _denied_by_fail2ban(arguments: list[str]) -> str:
    """`fail2ban-client set JAIL banip ADDRESS`."""
    return arguments[3] if len(arguments) == 4 and (arguments[0], arguments[2]) == ("set", "banip") else ""


_DENIED: dict[str, Callable[[list[str]], str]] = {
    "ufw": _denied_by_ufw,
    **dict.fromkeys(("iptables", "ip6tables"), _denied_by_iptables),
    "nft": _denied_by_nft,
    "firewall-cmd": _denied_by_firewalld,
    "fail2ban-client": _denied_by_fail2ban,
}


def _firewall(walk: Walk, call: Invocation) -> Output:
    if not call.arguments or has_option(call.arguments, *_LISTS) or call.arguments[0] in _LOOKS:
        return UNKNOWN_OUTPUT
    arguments = [walk.plain(argument) for argument in call.arguments]
    denied = _DENIED[call.name](arguments) if call.name in _DENIED else ""
    if _is_far_address(denied):
        walk.add("changes-service", denied)
    else:
        walk.add("disables-check", call.name)
    return UNKNOWN_OUTPUT


READERS = dict.fromkeys(
    "iptables ip6tables nft ufw firewall-cmd pfctl setenforce auditctl spctl csrutil tccutil semodule aa-teardown "
    "aa-disable aa-complain fail2ban-client".split(),
    _firewall,
)
