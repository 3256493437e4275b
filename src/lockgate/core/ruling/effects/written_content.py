"""What written text makes a project, or a reader's program, do: what it loads, connects to, depends on or unprotects.

Prose carries links as content: they do nothing. In code, settings and markup a line counts that loads or connects, and
only for hosts that the replaced text does not name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lockgate.core.ruling.effects.address_shapes import URL, find_hosts, host_from_value, is_local_host
from lockgate.core.ruling.effects.code import MOST_CHARACTERS, read_code
from lockgate.core.ruling.effects.effect import Effect, effect
from lockgate.core.ruling.effects.project import NO_PROJECT, Project
from lockgate.core.ruling.effects.written_manifests import read_written_manifest
from lockgate.core.ruling.effects.written_settings import read_written_settings

# A call has no more effects than this, so further hosts are not listed.
_MAX_HOSTS = 40
# How much is read before a URL, and how many are looked at so closely; all further ones count as loaded.
_CONTEXT = 120
_MAX_LOOKS = 60
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
# What stands before a URL on its line says what happens with it.
_LOADS = re.compile(
    r"(?i)<(?:script|link|iframe|img|embed|object|source|video|audio)\b|\bsrc\s*=|@import|\burl\(|\bimport\b|\bfrom\s+['\"]"
    r"|\brequire\(|importscripts|^\s*(?:from|add)\s|\bimage:|\buses:|\b(?:curl|wget|iwr|invoke-webrequest)\b"
    r"|\b(?:pip3?|uv|npm|pnpm|yarn|gem|cargo|go|apt|brew)\s+\w|git\+|index[-_]url|find[-_]links|\bregistry\b"
    r"|\bresolved\b|^\s*\"[@\w./-]+\":\s*\"(?:git|https?)|^\s*source\s+['\"]|\bgit\s+clone\b|\brepository\b|\brepo:"
    r"|\b(?:remote|include):"
)
_CONNECTS = re.compile(
    r"(?i)\b(?:post|put|patch|get|fetch|request|urlopen|axios|websocket|sendbeacon|xmlhttprequest|connect|open|send|ajax)"
    r"\b[^(\n]{0,40}\("
    r"|(?:url|uri|host|endpoint|server|domain|proxy|webhook|mirror|origin|upstream|address|base|api|dsn)"
    r"[\w.-]{0,30}[\"']?\s{0,4}[:=]"
)
_SETTING = re.compile(
    r"(?m)^[ \t]*(?:export[ \t]+|set[ \t]+|-[ \t]+)?[\"']?([\w.-]{1,80})[\"']?[ \t]*[:=][ \t]*"
    r"[\"']?([^\s\"',;#/]{3,255})"
)
_HOST_NAME = re.compile(
    r"(?i)host|url|uri|endpoint|server|domain|proxy|webhook|mirror|upstream|address|origin|registry"
)
_IMAGE = re.compile(
    r"(?mi)^[ \t]*(?:FROM[ \t]+(?:--\S+[ \t]+)?|(?:-[ \t]+)?image:[ \t]*[\"']?)([^\s\"'@:/]+\.[^\s\"'@:/]+)/"
)
# Whom a setting lets in: an account or role of a cloud, a key that may log in. In a URL, `user:` has a password.
_MEMBER = re.compile(
    r"\barn:aws[\w-]{0,8}:iam::\d{12}:(?:root|user/|role/)[\w/+=,.@-]{0,100}"
    r"|\b(?<!/)(?:user|group|serviceAccount):[\w.+-]{1,64}@[\w.-]{3,100}"
    r"|\bssh-(?:rsa|ed25519) AAAA[\w+/=]{20,800}"
)
_TAKES_MUCH = re.compile(r"environ\b|process\.env\b|\bENV\b|[~/]\.(?:ssh|aws|env|netrc|npmrc|kube|config)\b")
# The role that a program takes on lets no one in; the environment of a child process (`env=env`) stays here.
_OWN_ROLE = re.compile(r"(?i)(?<!trusted_)role(?:[_-]?arn|-to-assume)[\"']?\s{0,4}[:=]\s{0,4}[\"']?$")
_GIVEN = re.compile(r"\benv\s{0,4}=\s{0,4}(\w+)")
_COPIED = re.compile(r"([(,]\s{0,40})?\b(\w+)\s{0,4}=\s{0,4}(?:os\.environ\.copy\(|dict\(\s{0,4}os\.environ\b)")
_VARIABLE = re.compile(r"\$\{\w+:?[-=]([^{}]+)\}|[$#]?\{+[^{}]*\}*|\$\w+|%\w+%")
_SHOWN_URL = re.compile(r"(?i)(?:https?:)?//[^\s\"'<>()\\]{1,500}")
_SHOWS = re.compile(r"(?i)(?:src|data|background|poster|action|href|url\()\s*=?\s*[\"'(]?$")
_TAG = re.compile(
    r"(?i)<(?:img|script|iframe|link|embed|object|video|audio|source|image|input|body|table|td|div|form|style|svg)\b"
)
_PICTURE = re.compile(r"!\[[^\]]*\]\(\s*<?$")


def read_written_file(
    path: str, text: str, replaced: str, argument: str, project: Project = NO_PROJECT
) -> Iterator[Effect]:
    """Yield what this text makes of a file: packages and hosts that it brings in, and settings that protect less."""
    added = list(read_written_manifest(path, text, replaced, argument, project))
    yield from added
    sources = frozenset(each.target for each in added)
    if _is_code_like(path):
        yield from (each for each in _read_hosts(text, replaced, argument) if each.target not in sources)
        yield from read_written_settings(path, text, replaced, argument)
        yield from _read_members(text, replaced, argument)
        # One key in a request is how a service is asked; a thief takes the whole environment, or a file of keys.
        if _TAKES_MUCH.search(text):
            yield from (
                each
                for each in read_code(_without_child_environments(text[:MOST_CHARACTERS]), argument, project)
                if each.kind == "sends-secret" and (each.target == "environment" or "/" in each.target)
            )


def _without_child_environments(text: str) -> str:
    """Return a text without the copies of the environment that it gives to a process which it starts."""
    given = set(_GIVEN.findall(text))
    return _COPIED.sub(lambda copy: "" if copy[2] in given or (copy[1] and copy[2] == "env") else copy[0], text)


def _read_members(text: str, replaced: str, argument: str) -> Iterator[Effect]:
    """Yield an effect for each account, role or public key of a cloud that this text lets in."""
    known = set(_MEMBER.findall(replaced))
    most = len(known) + _MAX_HOSTS
    for match in _MEMBER.finditer(text):
        before = text[max(0, match.start() - _CONTEXT) : match.start()]
        if match[0] not in known and len(known) <= most and not _OWN_ROLE.search(before):
            known.add(match[0])
            yield effect("shares", match[0], argument=argument, span=match.span())


def _read_hosts(text: str, replaced: str, argument: str) -> Iterator[Effect]:
    known = {seen.target for seen in find_hosts(replaced)}
    count = 0
    for kind, named, start, end in _embedded_hosts(text):
        host = _without_variables(named) if _VARIABLE.search(named) else named
        if not host or host in known or is_local_host(host) or host in replaced:
            continue
        known.add(host)
        count += 1
        yield effect(kind, host, argument=argument, span=(start, end))
        if count > _MAX_HOSTS:
            return


def _without_variables(host: str) -> str:
    """Return the part of a host that is no variable: what a whole one in a variable is stands where that is set."""
    parts = (part.strip(".:") for part in _VARIABLE.sub(r" \1 ", host).split())
    return next((part for part in reversed(list(parts)) if "." in part), "")


def read_shown_text(text: str, argument: str) -> Iterator[Effect]:
    """Yield an effect for each host that a program would ask when it shows this text, as for a picture."""
    known = set()
    for count, match in enumerate(_SHOWN_URL.finditer(text)):
        if count < _MAX_LOOKS * 10 and not _is_shown(text[max(0, match.start() - 4 * _CONTEXT) : match.start()]):
            continue
        if match[0] in known:
            continue
        known.add(match[0])
        host = host_from_value(match[0])
        if host and host not in known and not is_local_host(host):
            known.add(host)
            yield effect("shows-remote-content", host, argument=argument, span=match.span())
            if len(known) > 2 * _MAX_HOSTS:
                return


def _is_shown(before: str) -> bool:
    """Return whether a URL behind this text is loaded when the text is shown, instead of being a link."""
    if before.endswith(("(", "<", " ")) and _PICTURE.search(before[max(0, before.rfind("![")) :]):
        return True
    tag = before[before.rfind("<") :] if "<" in before else ""
    if tag and ">" not in tag:
        return _TAG.match(tag) is not None and _SHOWS.search(tag[-30:]) is not None
    return before[-12:].lower().rstrip("\"' ").endswith("url(")


def _embedded_hosts(text: str) -> Iterator[tuple[str, str, int, int]]:
    done = set()
    looks = 0
    for match in URL.finditer(text):
        if match[1] in done:
            continue
        at = match.start(1)
        looks += 1
        line = text[max(text.rfind("\n", max(0, at - _CONTEXT), at) + 1, at - _CONTEXT) : at]
        loads = looks > _MAX_LOOKS or _LOADS.search(line) is not None
        if loads or _CONNECTS.search(line):
            if looks <= _MAX_LOOKS and _COMMENT.match(line):
                continue
            done.add(match[1])
            yield "embeds-remote-code" if loads else "embeds-address", host_from_value(match[0]), *match.span(1)
    for match in _IMAGE.finditer(text):
        yield "embeds-remote-code", match[1].lower(), *match.span(1)
    for match in _SETTING.finditer(text):
        if "." in match[2] and match[2] not in done and _HOST_NAME.search(match[1]):
            done.add(match[2])
            host = host_from_value(match[2])
            if host:
                yield "embeds-address", host, *match.span(2)


def _is_code_like(path: str) -> bool:
    if _PROSE.search(path) or _LOCK_FILE.search(path):
        return False
    return not _DATA.search(path) or _MANIFEST.search(path) is not None
