"""What written text makes a project, or a reader's program, do: hosts that it loads code from or connects to.

Prose carries links as content: they do nothing. In code, settings and markup a line counts that loads or connects, and
only for hosts that the replaced text does not name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lockgate.core.ruling.effects.addresses import Shape, find_hosts, host_from_value, is_local_host
from lockgate.core.ruling.effects.effect import Effect, effect

_PROSE = re.compile(
    r"(?i)\.(?:md|mdx|markdown|rst|txt|text|csv|tsv|log|adoc|org|tex|bib|po|pot|ipynb|lock|sum|snap|svg)$"
)
_LOCK_FILE = re.compile(
    r"(?i)(?:^|/)(?:package-lock\.json|pnpm-lock\.yaml|yarn\.lock|license|copying|changelog|readme|notice)$"
)
_DATA = re.compile(r"(?i)\.(?:json|jsonl|ndjson|xml|yar|yara|rules|sarif)$")
_MANIFEST = re.compile(
    r"(?i)(?:^|/)(?:package|composer|bower|deno|import_map|\.?mcp|settings|pom)[\w.-]*\.(?:json|xml)$|config"
)
_COMMENT = re.compile(r"\s*(?:#(?!!)|//|\*|--\s|<!--|;|%|rem\s)")
_LOADS = re.compile(
    r"(?i)<(?:script|link|iframe|img|embed|object|source|video|audio)\b|\bsrc\s*=|@import|\burl\(|\bimport\b|\bfrom\s+['\"]"
    r"|\brequire\(|importscripts|^\s*(?:from|add)\s|\bimage:|\buses:|\b(?:curl|wget|iwr|invoke-webrequest)\b"
    r"|\b(?:pip3?|uv|npm|pnpm|yarn|gem|cargo|go|apt|brew)\s+\w*|git\+|index[-_]url|find[-_]links|\bregistry\b|\bresolved\b"
    r"|^\s*\"[@\w./-]+\":\s*\"(?:git|https?)[:+]|^\s*source\s+['\"]|\bgit\s+clone\b|\brepository\b|\brepo:|\b(?:remote|include):"
)
_CONNECTS = re.compile(
    r"(?i)\b(?:post|put|patch|get|fetch|request|urlopen|axios|websocket|sendbeacon|xmlhttprequest|connect|open|send|ajax)\b.{0,40}\("
    r"|[\w.-]*(?:url|uri|host|hosts|hostname|endpoint|server|domain|proxy|webhook|mirror|origin|upstream|address|base|api|dsn)"
    r"[\w.-]*[\"']?\s*[:=]"
)
_SETTING = re.compile(r"^\s*(?:export\s+|set\s+|-\s+)?[\"']?([\w.-]*)[\"']?\s*[:=]\s*[\"']?([^\s\"',;#]+)")
_HOST_NAME = re.compile(
    r"(?i)host|url|uri|endpoint|server|domain|proxy|webhook|mirror|upstream|address|origin|registry"
)
_IMAGE = re.compile(r"(?i)^\s*(?:FROM\s+(?:--\S+\s+)?|(?:-\s+)?image:\s*[\"']?)([^\s\"'@:/]+\.[^\s\"'@:/]+)/")
_REMOTE_CONTENT = re.compile(
    r"(?i)(?:<(?:img|script|iframe|link|embed|object|video|audio|source|image|input|body|table|td|div|form)\b[^>]{0,500}?"
    r"(?:src|href|data|background|action|poster|url\()\s*=?\s*[\"'(]?|!\[[^\]]{0,300}\]\(\s*<?|^\[[^\]]{1,100}\]:\s*|url\(\s*[\"']?)"
    r"((?:https?:)?//[^\s\"'<>)]{1,500})"
)


def read_written_file(path: str, text: str, replaced: str, argument: str) -> Iterator[Effect]:
    """Yield an effect for each host that a file would load code from or connect to once this text is in it."""
    if not _is_code_like(path):
        return
    known = {seen.target for seen in find_hosts(replaced)}
    at = 0
    for line in text.splitlines(keepends=True):
        start, at = at, at + len(line)
        if len(line) > 5_000 or _COMMENT.match(line):
            continue
        for kind, host, begin, end in _hosts_of_line(line):
            if host not in known and host not in replaced and not is_local_host(host):
                known.add(host)
                yield effect(kind, host, argument=argument, span=(start + begin, start + end))


def read_shown_text(text: str, argument: str) -> Iterator[Effect]:
    """Yield an effect for each host that a program would ask when it shows this text, as for a picture."""
    known = set()
    for match in _REMOTE_CONTENT.finditer(text):
        host = host_from_value(match[1])
        if host and host not in known and not is_local_host(host):
            known.add(host)
            yield effect("shows-remote-content", host, argument=argument, span=match.span(1))


def _is_code_like(path: str) -> bool:
    if _PROSE.search(path) or _LOCK_FILE.search(path):
        return False
    return not _DATA.search(path) or _MANIFEST.search(path) is not None


def _hosts_of_line(line: str) -> Iterator[tuple[str, str, int, int]]:
    loads = _LOADS.search(line) is not None
    image = _IMAGE.match(line)
    if image:
        yield "embeds-remote-code", image[1].lower(), *image.span(1)
    if loads or _CONNECTS.search(line):
        for seen in find_hosts(line):
            if seen.shape is Shape.HOST:
                yield "embeds-remote-code" if loads else "embeds-address", seen.target, seen.start, seen.end
    setting = _SETTING.match(line)
    if setting and "://" not in setting[2] and _HOST_NAME.search(setting[1]):
        host = host_from_value(setting[2])
        if host:
            yield "embeds-address", host, *setting.span(2)
