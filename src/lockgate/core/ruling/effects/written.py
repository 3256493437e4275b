"""What written text makes a project, or a reader's program, do: what it loads, connects to, depends on or unprotects.

Prose carries links as content: they do nothing. In code, settings and markup a line counts that loads or connects, and
only for hosts that the replaced text does not name. An edit gives a piece of a manifest, which no reader of whole files
takes: its lines are read one by one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from string import ascii_lowercase, ascii_uppercase

from lockgate.core.ruling.effects.address_shapes import URL, find_hosts, host_from_value, is_local_host
from lockgate.core.ruling.effects.code import MOST_CHARACTERS, read_code
from lockgate.core.ruling.effects.effect import Certainty, Effect, effect
from lockgate.core.ruling.effects.manifests import is_lock_file, is_manifest, may_name_images, read_manifest
from lockgate.core.ruling.effects.programs.packages import COMMON_TOOLS, PUBLIC_SOURCES
from lockgate.core.ruling.effects.project import NO_PROJECT, Project, package_name
from lockgate.core.ruling.effects.tool_arguments import weakens

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
_COMMENT_LINE = re.compile(r"\s*(?:#(?!!)|//|\*|--\s|<!--|;|%|rem\s)")
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
            if looks <= _MAX_LOOKS and _COMMENT_LINE.match(line):
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


# Manifests.

# So many packages of one text are told; more of them cannot be read.
MAX_PACKAGES = 256
_MAX_LINE = 400
# The signs of a text as `package_name` writes them, one for one.
_FOLDED = str.maketrans(ascii_uppercase + "_.", ascii_lowercase + "--")
_SETTINGS_OF_MANAGERS = frozenset(
    ".npmrc .yarnrc .yarnrc.yml pip.conf pip.ini .pypirc uv.toml .condarc bunfig.toml".split()
)
_JSON_LINE = re.compile(
    r"\s*\"((?:@[\w.-]{1,100}/)?[\w.-]{1,100}(?:/[\w.-]{1,100})?)\"\s*:\s*"
    r"\"(?:[~^<>=*v ]{0,3}\d|[*]|latest|next|npm:|git|github:|https?:|file:|workspace:)"
)
_TOML_LINE = re.compile(
    r"\s*[\"']?([A-Za-z0-9][\w.-]{0,100})[\"']?\s*=\s*(?:[\"'][~^<>=* ]{0,3}\d|[\"']\*"
    r"|\{[^}\n]{0,200}\b(?:version|git|path|features|workspace|registry|optional|url)\b)"
)
_REQUIREMENT = re.compile(
    r"[\"']([A-Za-z0-9][\w.-]{0,100})(?:\[[\w, .-]{0,100}\])?\s*(?:(?:[<>=!~]=?|===|@)\s*[^\"'\n]{1,200})[\"']"
    r"|^\s*[\"']([A-Za-z][\w.-]{1,100})[\"'],?\s*$"
)
_NO_PACKAGE = re.compile(
    r"(?i).*(?:version|edition)|name|python|requires-python|node|npm|pnpm|yarn|resolver|php|engines|ruby"
    r"|homepage|url|bugs|repository|documentation|funding"
)
_SOURCE = re.compile(
    r"(?i)index|find-links|trusted-host|registr|^\s*(?:-i|-f)\s|\bsource\b|\burl\s*=|repositor|maven\b|<url>|channel|proxy|=>"
)
# Where the project itself lives, in the manifests that say so.
_OWN_HOME = re.compile(r"\s*[\"']?repository[\"']?\s*[=:]\s*[\"'][^\"']*[\"'],?\s*$", re.IGNORECASE)
_TELL_THEIR_HOME = frozenset({"pyproject.toml", "Cargo.toml", "package.json"})
# A package that is taken from an address instead of a registry.
_DIRECT = re.compile(
    r"(?i)@\s*(?:git\+)?https?://|\bgit\+(?:https?|ssh)://|https?://\S{1,300}\.(?:whl|tgz|tar\.gz|zip)\b"
)
_BARE_HOST = re.compile(r"(?i)(?:--trusted-host|registry)[ =:]+[\"']?([\w.-]+\.[a-z]{2,})")


def read_written_manifest(
    path: str, text: str, replaced: str, argument: str, project: Project = NO_PROJECT
) -> Iterator[Effect]:
    """Yield an effect for each package and each source of packages that a manifest gets by this text."""
    folder, _, name = path.replace("\\", "/").rpartition("/")
    folder = folder.rpartition("/")[2]
    is_settings = name in _SETTINGS_OF_MANAGERS
    if may_name_images(name) and not is_settings:
        yield from _added_packages(name, folder, text, replaced, argument, project)
        return
    if not is_settings and (not is_manifest(name, folder) or is_lock_file(name)):
        return
    known_hosts = {seen.target for seen in find_hosts(replaced)}
    for host, at in _sources(name, text):
        if host not in known_hosts and host not in PUBLIC_SOURCES and not is_local_host(host):
            known_hosts.add(host)
            yield effect("uses-package-source", host, argument=argument, span=(at, at + len(host)))
    if not is_settings:
        yield from _added_packages(name, folder, text, replaced, argument, project)


def _added_packages(
    name: str, folder: str, text: str, replaced: str, argument: str, project: Project
) -> Iterator[Effect]:
    before = {each.partition(":")[2] for each in _packages(name, folder, replaced)}
    folded = text.translate(_FOLDED)
    count = 0
    for each in _packages(name, folder, text):
        registry, _, package = each.partition(":")
        if package in before or package in COMMON_TOOLS or project.has_package(package, registry):
            continue
        count += 1
        if count > MAX_PACKAGES:
            yield effect("unreadable", argument=argument, certainty=Certainty.GUESS)
            return
        at = folded.find(package)
        if at < 0:
            yield effect("adds-dependency", package, argument=argument)
        else:
            end = at + len(package)
            yield effect("adds-dependency", text[at:end], argument=argument, span=(at, end))


def _packages(name: str, folder: str, text: str) -> tuple[str, ...]:
    found = read_manifest(name, text, folder).packages
    if found or not text.strip():
        return tuple(dict.fromkeys(found))
    if name.endswith(".json"):
        return _names_from_lines("composer" if name == "composer.json" else "npm", text, (_JSON_LINE,))
    if name.endswith(".toml") or name in ("Pipfile", "setup.py", "setup.cfg"):
        if name == "Cargo.toml":
            return _names_from_lines("cargo", text, (_TOML_LINE,))
        return _names_from_lines("pypi", text, (_REQUIREMENT, _TOML_LINE))
    return ()


def _names_from_lines(registry: str, text: str, patterns: tuple[re.Pattern[str], ...]) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for line in text.splitlines():
        for pattern in patterns:
            for match in pattern.finditer(line[:_MAX_LINE]):
                name = match[match.lastindex or 1]
                if not _NO_PACKAGE.fullmatch(name):
                    names[f"{registry}:{package_name(name)}"] = None
    return tuple(names)


def _sources(name: str, text: str) -> Iterator[tuple[str, int]]:
    at = 0
    for line in text.splitlines(keepends=True):
        short = line[:_MAX_LINE]
        is_own_home = name in _TELL_THEIR_HOME and _OWN_HOME.match(short) is not None
        is_direct = _DIRECT.search(short) is not None
        if (is_direct or _SOURCE.search(short)) and not is_own_home and not short.lstrip().startswith(("#", "//")):
            for seen in find_hosts(short):
                if is_direct or _SOURCE.search(short[: seen.start]):
                    yield seen.target, at + seen.start
            for match in _BARE_HOST.finditer(short):
                yield host_from_value(match[1]), at + match.start(1)
        at += len(line)


# Settings.

_MAX_SETTINGS = 20
_MAX_VALUES = 2000
_NAME_SPACE = 90
_SOURCE_FILE = re.compile(
    r"(?i)\.(?:py|pyi|jsx?|tsx?|mjs|cjs|go|rs|java|kt|scala|rb|php|cs|cc?|cpp|hpp?|swift|dart|vue)$"
)
# The value is looked for first: few lines have one, and the name before it is bounded.
_VALUE = re.compile(
    r"(?:=>|[:=])[ \t]{0,20}[\"'\[]{0,2}"
    r"((?i:false|off|no|disabled?|never|true|on|yes|enabled?|public(?:-read(?:-write)?)?|write-all|allusers|allow_any)"
    r"|none|0)(?![\w.-])"
)
_NAME = re.compile(r"([\w.-]{2,64})[\"'\])]{0,2}[ \t]{0,20}$")
# Words that weaken wherever they stand.
_OPEN = re.compile(
    r"(?<![\w.:/-])(0\.0\.0\.0/0|::/0|--no-verify|--no-check-certificate|--insecure|--privileged"
    r"|--no-gpg-check|--allow-unauthenticated|--disable-(?:auth|tls|ssl|web-security|sandbox|audit)[\w-]{0,40})(?![\w/-])"
)
# The name of such a setting says nothing: what it is about stands in the line above.
_STATE_NAMES = frozenset("enabled enable active on".split())
_ABOVE = re.compile(r"([\w.-]{2,64})[\"']?[ \t]{0,4}[:=]?[ \t]{0,4}\{?[ \t]{0,4}\r?\n[ \t]*(?:-[ \t]*)?[\"']?$")


def read_written_settings(path: str, text: str, replaced: str, argument: str) -> Iterator[Effect]:
    """Yield an effect for each setting that protects less once this text stands where the replaced one stood."""
    before = set(_weak_settings(path, replaced)) if replaced else set()
    known = {(name, value) for name, value, _, _ in before}
    for name, value, start, end in _weak_settings(path, text):
        if (name, value) not in known:
            known.add((name, value))
            yield effect("weakens-setting", name, argument=argument, span=(start, end))
            if len(known) > _MAX_SETTINGS + len(before):
                return


def _weak_settings(path: str, text: str) -> Iterator[tuple[str, str, int, int]]:
    is_program = _SOURCE_FILE.search(path) is not None
    for count, match in enumerate(_VALUE.finditer(text)):
        if count > _MAX_VALUES:
            break
        begin = max(text.rfind("\n", 0, match.start()) + 1, match.start() - _NAME_SPACE)
        line = text[begin : match.start()]
        named = _NAME.search(line)
        if named is None or _COMMENT_LINE.match(line):
            continue
        name, value = named[1].strip(".-"), match[1].lower()
        if name.lower() in _STATE_NAMES and (
            above := _ABOVE.search(text, max(0, begin - _NAME_SPACE), begin + named.start(1))
        ):
            name = above[1]
        if is_program and not _is_setting_of_program(line, named[1], match[0]):
            continue
        if weakens(name, value):
            yield name, value, begin + named.start(1), match.end(1)
    for match in _OPEN.finditer(text):
        line = text[max(text.rfind("\n", 0, match.start()) + 1, match.start() - _NAME_SPACE) : match.start()]
        if not _COMMENT_LINE.match(line) and "egress" not in line:
            yield match[1], match[1], *match.span(1)


def _is_setting_of_program(line: str, name: str, value: str) -> bool:
    """Return whether a program sets an option here; its own variables (`encrypted = false`) are no settings."""
    if value.startswith("=") and not value.startswith("=>") and (line.endswith(" ") or value[1:2] == " "):
        return name.isupper() or "." in name
    return not re.match(r"\s*(?:async\s+)?(?:def|function|func|fn)\s", line)
