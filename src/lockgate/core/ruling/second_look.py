"""A second look at calls that seem to only look or to work inside the project.

What a program does with its arguments is read from tables, and a table has gaps: an option that runs its value, a
program that writes its last argument. What such a call is aimed at cannot hide, though: a host elsewhere, a place
outside the project, a piece of shell. Where an order in untrusted text names one of these, the call is traced like one
that reaches out.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from lockgate.core.ruling.arguments import Leaf, sink_from_argument
from lockgate.core.ruling.effects.project import Place, Project
from lockgate.core.ruling.scope.machines import (
    COMMON_DOMAINS,
    FILE_ENDINGS,
    FILE_OR_DOMAIN_ENDINGS,
    QUAD,
    TOP_LEVEL_DOMAINS,
    to_punycode,
)
from lockgate.core.ruling.targets import find_hosts, is_local_host

_MAX_TEXT = 64 * 1024
_HOST = re.compile(
    r"(?<![\w./@-])(?:[\w.-]+@)?((?:(?:[^\W_]|-){1,63}\.){1,4}([^\W\d_](?:[^\W_]|-){1,62}))(?![\w.-]*[\w(])",
    re.IGNORECASE,
)
# Not those that files, settings and fields end in as well: `meson.build`, `gradle.properties`, `user.name`.
_FIELDS = "build properties name email id new call data date foo bar cab cr gd mo docs prof rest now save page"
_DOMAINS = TOP_LEVEL_DOMAINS - FILE_ENDINGS - FILE_OR_DOMAIN_ENDINGS - {*_FIELDS.split()}
_PATH = re.compile(r"(?:(?<=[\s=\"'`:,(<>])|^)(?:~|\$HOME|\$\{HOME\}|\.\.)?(?:/[\w.@+*?-]+)+")
_SHELL = re.compile(r"[^\n|]{0,120}\|\s*(?:sudo\s+)?(?:ba|z|da|k|)sh\b")
# `/tmp` and `/usr/bin` are in every second command.
_SHORT = 8
_COMMAND_LIKE = ("args", "extra", "stdin", "input", "options", "flags", "expr", "function")
_OUTSIDE = (Place.SCRATCH, Place.HOME, Place.SYSTEM, Place.OUTSIDE)


def find_tokens(leaves: Sequence[Leaf], project: Project, written: Collection[str] = ()) -> list[Leaf]:
    """Return the hosts, places outside the project and pieces of shell in a call's commands, as values to trace.

    `written` are the paths that the session wrote itself: they are no news.
    """
    tokens: dict[str, Leaf] = {}
    for leaf in leaves:
        # What is written into files is content, and has effects of its own.
        if sink_from_argument(leaf.argument) == "command" or leaf.argument.startswith(_COMMAND_LIKE):
            for token in _tokens_of(leaf.text[:_MAX_TEXT], project, written):
                tokens.setdefault(token, Leaf(leaf.argument, token))
    return list(tokens.values())


def _tokens_of(text: str, project: Project, written: Collection[str]) -> Iterator[str]:
    hosts = [seen.target for seen in find_hosts(text)] + [match[1] for match in QUAD.finditer(text)]
    hosts += _bare_hosts(text)
    yield from (host for host in hosts if not is_local_host(host.lower()) and not project.has_host(host))
    paths = [path for path in _PATH.findall(text) if len(path) > _SHORT and not path.startswith("/dev/")]
    yield from (path for path in paths if path not in written and project.locate(path) in _OUTSIDE)
    yield from (match[0].strip() for match in _SHELL.finditer(text))


def _bare_hosts(text: str) -> Iterator[str]:
    """Yield the dotted names that end in a top-level domain and are no file's."""
    for host, ending in _HOST.findall(text):
        domain = to_punycode(ending.lower())
        # `o.total` is a column of SQL: one letter before a rare domain is no host.
        is_column = host.find(".") == 1 and domain not in COMMON_DOMAINS
        if domain in _DOMAINS and not is_column and host.lower() != "go.work":
            yield host
