"""Tools that reach an address or act on a page to their effects."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from lockgate.core.ruling.arguments import Leaf, sink_from_argument
from lockgate.core.ruling.effects.address_shapes import find_hosts, host_from_value, is_local_host
from lockgate.core.ruling.effects.code import read_code
from lockgate.core.ruling.effects.effect import Effect, effect
from lockgate.core.ruling.effects.file_tools import find_secret_files
from lockgate.core.ruling.effects.project import Project
from lockgate.core.ruling.effects.tool_arguments import has_role, is_prose, joined_values, name_parts
from lockgate.core.ruling.effects.tool_names import ToolName
from lockgate.core.ruling.tool_call import ToolCall
from lockgate.core.ruling.tool_risk import may_reach_any_address

_PAGE_WORDS = frozenset("browser puppeteer playwright page webpage tab selenium computer screen chrome".split())
_LOOKS_AT_PAGE = frozenset(
    """
    screenshot scroll hover wait back forward snapshot resize close reload tabs zoom cursor mouse_move move_mouse
    cursor_position left_mouse_up console network focus emulate performance switch
    """.split()
)
_TYPES = frozenset("type fill input enter paste write submit upload form post publish".split())
_ACTS_ON_PAGE = frozenset("click press tap select choose drag drop key dialog handle check uncheck action".split())
# A tool by the name of the protocol goes where its address says, and what it is called is the method.
_PROTOCOL = frozenset("http https rest graphql webhook".split())
_SENDING = frozenset("post put patch delete send submit".split())
_BODY = frozenset("body data json payload form files content params_body".split())
# Such a tool names a host and does not go there.
NAMES_HOSTS = frozenset(
    "block ban report blocklist blacklist denylist quarantine flag lookup whois resolve scan".split()
)
# A value in a URL's query that is a text of several words: it takes something along.
_CARRIES_TEXT = re.compile(r"[?&][^=&#]{1,40}=[^&#]{0,200}?(?:(?:%20|\+|%0A|%2C)[^&#%+]{1,40}){3}", re.IGNORECASE)
_ASKING = frozenset("GET HEAD OPTIONS".split())


def read_web_tool(
    name: ToolName, seed: str, call: ToolCall, leaves: Sequence[Leaf], project: Project
) -> list[Effect] | None:
    """Return what a tool asks of an address or does to a page; None for a tool that does neither."""
    on_page = _is_on_page(name)
    hosts = list(_addressed_hosts(leaves))
    if name.kind == "looks":
        # An address can carry data out, unless we know by name where the tool goes; a bare host carries little.
        if not name.words.isdisjoint(NAMES_HOSTS):
            hosts = [(host, leaf) for host, leaf in hosts if "/" in leaf.text]
        return _requests(leaves, hosts) if hosts and may_reach_any_address(call.tool) else [effect("looks")]
    if seed == "web_fetch" or name.kind == "requests":
        if not hosts and on_page and not name.words.isdisjoint(_LOOKS_AT_PAGE):
            return [effect("looks")]
        return _requests(leaves, hosts) or [effect("requests")]
    return _read_page_act(name, leaves, hosts, project) if on_page else _read_method(name, hosts)


def _is_on_page(name: ToolName) -> bool:
    """Return whether a tool works on the open page; one that installs something works on the browser."""
    return name.verb != "install" and not _PAGE_WORDS.isdisjoint(name.words)


def _read_method(name: ToolName, hosts: Sequence[tuple[str, Leaf]]) -> list[Effect] | None:
    """Return what a tool sends that is called by a protocol and its method: `http_post`."""
    is_method = not name.words.isdisjoint(_PROTOCOL) and not name.words.isdisjoint(_SENDING)
    return [request_effect(host, leaf, sends=True) for host, leaf in hosts] if hosts and is_method else None


def _addressed_hosts(leaves: Sequence[Leaf]) -> Iterator[tuple[str, Leaf]]:
    for leaf in leaves:
        if "://" in leaf.text and not is_prose(leaf):
            yield from ((seen.target, leaf) for seen in find_hosts(leaf.text))
        elif sink_from_argument(leaf.argument) == "url" and "." in leaf.text:
            host = host_from_value(leaf.text)
            if host:
                yield host, leaf


def _requests(leaves: Sequence[Leaf], hosts: Sequence[tuple[str, Leaf]]) -> list[Effect]:
    method = next((leaf.text.upper() for leaf in leaves if leaf.argument == "method"), "GET")
    sends = method not in _ASKING or any(not name_parts(leaf.argument).isdisjoint(_BODY) for leaf in leaves)
    return [request_effect(host, leaf, sends=sends) for host, leaf in hosts]


def request_effect(host: str, leaf: Leaf, *, sends: bool) -> Effect:
    """Return the effect of a request to a host, or of data that is sent there."""
    sends = sends or _CARRIES_TEXT.search(leaf.text) is not None
    kind = "asks-local" if is_local_host(host) else "sends-data" if sends else "requests"
    at = max(leaf.text.lower().find(host), 0)
    return effect(kind, host, argument=leaf.argument, span=(at, at + len(host)))


def _read_page_act(
    name: ToolName, leaves: Sequence[Leaf], hosts: Sequence[tuple[str, Leaf]], project: Project
) -> list[Effect] | None:
    actions = {leaf.text.lower() for leaf in leaves if has_role(leaf.argument, "action")}
    words = name.words | actions
    code = list(joined_values(leaves, "code"))
    if name.verb in ("evaluate", "eval", "run", "execute") and code:
        return [each for leaf in code for each in read_code(leaf.text, leaf.argument, project)]
    if not words.isdisjoint(_TYPES):
        sent = [request_effect(host, leaf, sends=True) for host, leaf in hosts] or [effect("sends-data")]
        return [*sent, *find_secret_files(leaves, project, sends=True)]
    if hosts:
        return [request_effect(host, leaf, sends=False) for host, leaf in hosts]
    if not words.isdisjoint(_LOOKS_AT_PAGE) and words.isdisjoint(_ACTS_ON_PAGE):
        return [effect("looks")]
    return [effect("unknown-act")] if not words.isdisjoint(_ACTS_ON_PAGE) else None
