"""Packages as their managers spell them: which of them the project or any developer has, and which are foreign."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.programs.program_rows import PACKAGE, WORDS
from lockgate.core.ruling.effects.programs.url_hosts import host_of, is_local
from lockgate.core.ruling.effects.project import Place, package_name, site_of_url
from lockgate.core.tables import read_words

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk

# Test runners, linters, formatters, build front ends: tools of developers, not what a product is made of. A scope of
# npm stands for all packages in it: only its makers can publish there.
COMMON_TOOLS = frozenset(
    package_name(name) for line in read_words(PACKAGE, "common_tools.txt") for name in line.split()
)
PUBLIC_SOURCES = WORDS["public sources"]
_REPOSITORY = re.compile(r"(?:(?:git|hg|svn)\+)?((?:https?|ssh|git|ftp)://\S+|git@\S+)")
# The name that a package gets here, before the one that it has: `react@npm:evil`, `x @ git+https://…`, `react@evil/x`.
_ALIAS = re.compile(r"@?[\w.-]+(?:/[\w.-]+)?(?:\[[\w,.\s-]*\])?\s*@\s*(?=(?:[a-z]+\+)?[a-z]+:|git@|[\w-]+/[\w.-]+)")
# Where a manager of versions has it from.
_REGISTRY = re.compile(r"(?:npm|pipx|pypi|cargo|gem|go|ubi|aqua|asdf|core|vfox):(?!//)")
_FORGE = re.compile(r"(github|gitlab|bitbucket|gist):")
_PATH = re.compile(r"[./~]|(?:file|link|workspace):|.*\.(?:whl|tar\.gz|tgz|zip)$", re.DOTALL)
_SYSTEM_PATH = re.compile(r"\.?/|.*\.(?:deb|rpm|apk)$", re.DOTALL)
_HEADERS = re.compile(r"[\w.+-]+-(?:dev|devel|doc|dbg|headers)")
_GO_PATH = re.compile(r"\.|golang\.org/x/|google\.golang\.org/|all$")


def note_source(walk: Walk, address: str) -> None:
    """Note that packages come from a given server, unless it is a public index or the project names it."""
    host = host_of(walk.plain(address)) if re.search(r"://|[.:]", address) else ""
    if host and not (is_local(host) or host in PUBLIC_SOURCES or walk.project.has_host(host)):
        walk.add("uses-package-source", host)


def note_package(walk: Walk, word: str, registry: str = "") -> None:
    """Note the installation of one package, as a package manager spells it, from the manager's registry."""
    plain = without_alias(walk.plain(word))
    if registry == "go":
        # Go names a package by its address.
        plain = plain.split("@")[0]
        is_common = _GO_PATH.match(plain) or plain.rstrip("/").rpartition("/")[2] in COMMON_TOOLS
        _note_named(walk, plain, is_known=bool(is_common) or is_known(walk, plain, registry))
    elif registry == "system":
        if "://" in plain:
            walk.add("uses-package-source", host_of(plain))
        elif _SYSTEM_PATH.match(plain):
            host = walk.download_of(walk.full_path(plain))
            walk.add("runs-download" if host else "uses-package-source", host or plain)
        else:
            is_header = _HEADERS.fullmatch(plain) is not None
            _note_named(walk, package_in(plain), is_known=is_header or is_known(walk, plain))
    elif address := repository_address(plain):
        if walk.project.has_url(address):
            walk.add("installs-known-package")
        else:
            walk.add("uses-package-source", site_of_url(address) or host_of(address))
    elif _PATH.match(plain):
        _note_local(walk, plain)
    elif name := package_in(plain):
        _note_named(walk, name, is_known=is_known(walk, name, registry))


def without_alias(word: str) -> str:
    """Return a package as its registry or its repository calls it."""
    return _REGISTRY.sub("", _ALIAS.sub("", word.strip(), count=1), count=1)


def _note_named(walk: Walk, name: str, *, is_known: bool) -> None:
    walk.add("installs-known-package" if is_known else "installs-package", "" if is_known else name)


def _note_local(walk: Walk, plain: str) -> None:
    path = re.sub(r"\[[\w,.\s-]*\]$", "", plain.removeprefix("file:").removeprefix("link:")) or "."
    host = walk.download_of(walk.full_path(path))
    if host:
        walk.add("runs-download", host)
    elif walk.place(path) in (Place.INSIDE, Place.OUTSIDE):
        walk.add("installs-known-package")
    else:
        walk.add("uses-package-source", path)


def repository_address(plain: str) -> str:
    """Return the URL of a package that is given as an address or as a repository; empty for any other."""
    match = _REPOSITORY.match(plain)
    if match is not None:
        address = match.group(1)
        return "https://" + address[4:].replace(":", "/", 1) if address.startswith("git@") else address
    if _FORGE.match(plain):
        return "https://" + plain.replace(":", ".com/", 1)
    # npm's short form of a GitHub repository is `owner/name`.
    return f"https://github.com/{plain}" if re.fullmatch(r"[\w-]+/[\w.-]+(?:#\S*)?", plain) else ""


def is_known(walk: Walk, name: str, registry: str = "") -> bool:
    """Return whether a package is the project's own, or a tool that developers install everywhere.

    Of a name with a scope, only the makers of the scope can publish it.
    """
    scope, slash, _ = name.partition("/")
    if walk.project.has_package(name, registry) or package_name(name) in COMMON_TOOLS:
        return True
    used = (package.removeprefix("npm:").startswith(f"{scope}/") for package in walk.project.packages)
    return bool(slash) and scope[:1] == "@" and (scope in COMMON_TOOLS or any(used))


def package_in(word: str) -> str:
    """Return a package's name without version, extras and quotes."""
    if word.startswith("@"):
        return "@" + re.split(r"[@=<>~^\[; ]", word[1:], maxsplit=1)[0]
    return re.split(r"[@=<>~!^\[; :]", word.strip("'\""), maxsplit=1)[0]
