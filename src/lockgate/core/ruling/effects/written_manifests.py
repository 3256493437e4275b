"""What written text adds to a project's manifest: packages and images it depends on, and servers they come from.

An edit gives a piece of a manifest, which no reader of whole files takes: its lines are read one by one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from string import ascii_lowercase, ascii_uppercase

from lockgate.core.ruling.effects.address_shapes import find_hosts, host_from_value, is_local_host
from lockgate.core.ruling.effects.effect import Certainty, Effect, effect
from lockgate.core.ruling.effects.manifests import is_lock_file, is_manifest, may_name_images, read_manifest
from lockgate.core.ruling.effects.programs.packages import COMMON_TOOLS, PUBLIC_SOURCES
from lockgate.core.ruling.effects.project import NO_PROJECT, Project, package_name

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
