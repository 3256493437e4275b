"""Firewalls and other guards of the machine: what keeps an address out adds protection, all else may take it away."""

from __future__ import annotations

import re
from ipaddress import ip_network
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.program_io import UNKNOWN_OUTPUT, Invocation, Output
from lockgate.core.ruling.effects.programs.options import has_option

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk

# A wider network than this is a good part of the internet.
_WIDEST = 16
# The machine's own addresses and those of its neighbours: who keeps them out takes services apart.
_NEAR = [
    ip_network(text)
    for text in "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.168.0.0/16 "
    "::/8 fc00::/7 fe80::/10".split()
]
_LISTS = ("-L", "-S", "--list", "--list-all", "--state", "-sr")
_LIST_BY_OPTION = frozenset("iptables ip6tables firewall-cmd pfctl ufw".split())
# `nft` takes more than one statement.
_ASKS = re.compile(r"(?:\S+ (?:status|list|show|getenforce|--status)|fail2ban-client (?:get|banned|ping))(?: [^;\n]*)?")
_ADDRESS = r"([\da-f.:/]+)"
_MATCHES = r"(?: -p \w+| -i \w+| --dport \d+| -m (?:tcp|udp|comment)| --comment [\w ]{1,80})*"
_IPTABLES = (
    rf"(?:-w )?(?:-A|-I|--append|--insert)[ =](?!\S*out)[\w-]+(?: \d+)?{_MATCHES} (?:-s|--source)[ =]{_ADDRESS}"
    rf"{_MATCHES} (?:-j|--jump)[ =](?:drop|reject(?: --reject-with [\w-]+)?)"
)
# The whole of a rule that keeps one address from coming in, by the firewall's program.
_KEEPS_OUT = {
    name: re.compile(pattern, re.IGNORECASE)
    for name, pattern in {
        "ufw": rf"(?:insert \d+ |prepend )?(?:deny|reject)(?: in| proto \w+)* from {_ADDRESS}"
        r"(?: to any| port \d+| proto \w+)*(?: comment [\w ]{1,80})?",
        "iptables": _IPTABLES,
        "ip6tables": _IPTABLES,
        "nft": rf"(?:add|insert) rule (?:(?:ip6?|inet) )?[\w-]+ (?!\S*out)[\w-]+ ip6? saddr {_ADDRESS}"
        r"(?: (?:tcp|udp) dport \d+)?(?: counter| log)* (?:drop|reject)",
        "firewall-cmd": r"(?:--permanent |--zone=[\w-]+ )*--add-rich-rule=rule(?: family=\"?ipv[46]\"?)? "
        rf"source address=\"?{_ADDRESS}\"? (?:drop|reject)(?: --permanent)?",
        "fail2ban-client": rf"set [\w-]+ banip {_ADDRESS}",
    }.items()
}


def _is_far_address(text: str) -> bool:
    """Return whether a text is one address or network of the internet, and not a good part of it."""
    try:
        network = ip_network(text, strict=False)
    except ValueError:
        return False
    return network.prefixlen >= _WIDEST and not any(network.overlaps(near) for near in _NEAR)


def _firewall(walk: Walk, call: Invocation) -> Output:
    line = " ".join(walk.plain(argument) for argument in call.arguments)
    lists = call.name in _LIST_BY_OPTION and has_option(call.arguments, *_LISTS)
    if not line or lists or _ASKS.fullmatch(f"{call.name} {line}"):
        return UNKNOWN_OUTPUT
    rule = _KEEPS_OUT[call.name].fullmatch(line) if call.name in _KEEPS_OUT else None
    if rule is not None and _is_far_address(rule.group(1)):
        walk.add("changes-service", rule.group(1))
    else:
        walk.add("disables-check", call.name)
    return UNKNOWN_OUTPUT


READERS = dict.fromkeys(
    "iptables ip6tables nft ufw firewall-cmd pfctl setenforce auditctl spctl csrutil tccutil semodule aa-teardown "
    "aa-disable aa-complain fail2ban-client".split(),
    _firewall,
)
