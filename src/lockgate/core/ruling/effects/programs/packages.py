"""Packages as their managers spell them: which of them the project or any developer has, and which are foreign."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.programs.options import host_of
from lockgate.core.ruling.effects.programs.program_rows import FORMS, PACKAGE, WORDS
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


def note_package(walk: Walk, word: str, registry: str = "") -> None:
    """Note the installation of one package, as a package manager spells it, from the manager's registry."""
    plain = without_alias(walk.plain(word))
    # Go names a package by its address, a system by a name or a file.
    has_address = "://" in plain if registry == "system" else registry != "go"
    if has_address and (address := repository_address(plain)):
        is_ours = walk.project.has_url(address)
        _note_installed(walk, "" if is_ours else site_of_url(address) or host_of(address), "uses-package-source")
    elif registry != "go" and FORMS["package path"].match(plain):
        _note_local(walk, plain, may_be_ours=registry != "system")
    elif name := plain.split("@")[0] if registry == "go" else package_in(plain):
        is_usual = FORMS["usual package"].match(f"{registry} {name}") is not None
        _note_installed(walk, "" if is_usual or is_known(walk, name, registry) else name, "installs-package")


def _note_local(walk: Walk, plain: str, *, may_be_ours: bool) -> None:
    path = re.sub(r"\[[\w,.\s-]*\]$", "", plain.removeprefix("file:").removeprefix("link:")) or "."
    host = walk.download_of(walk.full_path(path))
    is_ours = may_be_ours and walk.place(path) in (Place.INSIDE, Place.OUTSIDE)
    _note_installed(walk, host or ("" if is_ours else path), "runs-download" if host else "uses-package-source")


def _note_installed(walk: Walk, foreign: str, kind: str) -> None:
    """Note a package by the foreign name, path or host that it comes from, if it has one."""
    walk.add(kind if foreign else "installs-known-package", foreign)


def without_alias(word: str) -> str:
    """Return a package as its registry or its repository calls it."""
    return FORMS["registry"].sub("", FORMS["package alias"].sub("", word.strip(), count=1), count=1)


def repository_address(plain: str) -> str:
    """Return the URL of a package that is given as an address or as a repository; empty for any other."""
    match = FORMS["repository"].match(plain)
    if match is not None:
        address = match.group(1)
        return "https://" + address[4:].replace(":", "/", 1) if address.startswith("git@") else address
    if FORMS["forge"].match(plain):
        return "https://" + plain.replace(":", ".com/", 1)
    # npm's short form of a GitHub repository is `owner/name`.
    return f"https://github.com/{plain}" if re.fullmatch(r"[\w-]+/[\w.-]+(?:#\S*)?", plain) else ""


def is_known(walk: Walk, name: str, registry: str = "") -> bool:
    """Return whether a package is the project's own, or a tool that developers install everywhere.

    Of a name with a scope, only the makers of the scope can publish it.
    """
    scope, slash, _ = name.partition("/")
    called = name.rstrip("/").rpartition("/")[2] if registry == "go" else package_name(name)
    if walk.project.has_package(name, registry.replace("system", "")) or called in COMMON_TOOLS:
        return True
    used = (package.removeprefix("npm:").startswith(f"{scope}/") for package in walk.project.packages)
    return bool(slash) and scope[:1] == "@" and (scope in COMMON_TOOLS or any(used))


def package_in(word: str) -> str:
    """Return a package's name without version, extras and quotes."""
    if word.startswith("@"):
        return "@" + re.split(r"[@=<>~^\[; ]", word[1:], maxsplit=1)[0]
    return re.split(r"[@=<>~!^\[; :]", word.strip("'\""), maxsplit=1)[0]
