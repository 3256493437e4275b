"""Packages as their managers spell them: which of them the project or any developer has, and which are foreign."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.programs.program_rows import is_task
from lockgate.core.ruling.effects.programs.url_hosts import host_of, is_local
from lockgate.core.ruling.effects.project import package_name
from lockgate.core.tables import read_words

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk

# Test runners, linters, formatters, build front ends: tools of developers, not what a product is made of. A scope of
# npm stands for all packages in it: only its makers can publish there.
COMMON_TOOLS = frozenset(
    package_name(name)
    for line in read_words("lockgate.core.ruling.effects.programs", "common_tools.txt")
    for name in line.split()
)
PUBLIC_SOURCES = frozenset(
    "pypi.org files.pythonhosted.org registry.npmjs.org registry.yarnpkg.com registry.yarnpkg.com. "
    "crates.io index.crates.io rubygems.org "
    "proxy.golang.org repo.maven.apache.org repo1.maven.org api.nuget.org download.pytorch.org "
    "conda.anaconda.org pypi.python.org npm.pkg.github.com".split()
)


def note_source(walk: Walk, address: str) -> None:
    """Note that packages come from a given server, unless it is a public index or the project names it."""
    host = host_of(walk.plain(address)) if "://" in address or "." in address or ":" in address else ""
    if not host:
        return
    if is_local(host) or host in PUBLIC_SOURCES or walk.project.has_host(host):
        return
    walk.add("uses-package-source", host)


_REPOSITORY = re.compile(r"(?:[\w.-]+\s*@\s*)?(?:(?:git|hg|svn)\+)?((?:https?|ssh|git|ftp)://\S+|git@\S+)")
_FORGE = re.compile(r"(github|gitlab|bitbucket|gist):")


def note_package(walk: Walk, word: str, registry: str = "") -> None:
    """Note the installation of one package, as a package manager spells it, from the manager's registry."""
    plain = walk.plain(word).strip()
    address = repository_address(plain)
    if address:
        if walk.project.has_url(address):
            walk.add("installs-known-package")
        else:
            walk.add("uses-package-source", host_of(address))
    elif plain.startswith((".", "/", "~", "file:", "link:", "workspace:")) or plain.endswith(_ARCHIVES):
        _note_local(walk, plain)
    elif (name := package_in(plain)) and is_known(walk, name, registry):
        walk.add("installs-known-package")
    elif name:
        walk.add("installs-package", name)


_ARCHIVES = (".whl", ".tar.gz", ".tgz", ".zip")


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
    """Return whether a package is the project's own, or a tool that developers install everywhere."""
    return walk.project.has_package(name, registry) or package_name(name) in COMMON_TOOLS or _is_companion(walk, name)


def _is_companion(walk: Walk, name: str) -> bool:
    """Return whether only known makers can publish this name: those of a common tool, or of a package that is used."""
    scope, slash, _ = name.partition("/")
    if not slash or scope[:1] != "@":
        return False
    return scope in COMMON_TOOLS or any(
        package.removeprefix("npm:").startswith(f"{scope}/") for package in walk.project.packages
    )


def package_in(word: str) -> str:
    """Return a package's name without version, extras and quotes."""
    if word.startswith("@"):
        return "@" + re.split(r"[@=<>~^\[; ]", word[1:], maxsplit=1)[0]
    return re.split(r"[@=<>~!^\[; :]", word.strip("'\""), maxsplit=1)[0]


def _note_local(walk: Walk, plain: str) -> None:
    path = re.sub(r"\[[\w,.\s-]*\]$", "", plain.removeprefix("file:").removeprefix("link:")) or "."
    host = walk.download_of(walk.full_path(path))
    if host:
        walk.add("runs-download", host)
    elif walk.place(path) in ("inside", "outside"):
        walk.add("installs-known-package")
    else:
        walk.add("uses-package-source", path)


def note_go_package(walk: Walk, argument: str) -> None:
    """Note a package of Go, which is named by its address."""
    path = argument.split("@")[0]
    common = path.startswith((".", "golang.org/x/", "google.golang.org/")) or path == "all"
    if common or is_known(walk, path, "go") or path.rstrip("/").rsplit("/", 1)[-1] in COMMON_TOOLS:
        walk.add("installs-known-package")
    else:
        walk.add("installs-package", path)


_HEADERS = re.compile(r"[\w.+-]+-(?:dev|devel|doc|dbg|headers)")


def note_system_package(walk: Walk, plain: str) -> None:
    """Note a package that goes into the machine."""
    if "://" in plain:
        walk.add("uses-package-source", host_of(plain))
    elif plain.startswith(("./", "/")) or plain.endswith((".deb", ".rpm", ".apk")):
        host = walk.download_of(walk.full_path(plain))
        walk.add("runs-download" if host else "uses-package-source", host or plain)
    elif is_known(walk, plain) or _HEADERS.fullmatch(plain):
        walk.add("installs-known-package")
    else:
        walk.add("installs-package", package_in(plain))


def is_task_name(walk: Walk, name: str) -> bool:
    """Return whether a name is that of a task of the project, or of a program that projects are checked with."""
    return name in walk.project.tasks or is_task(name)
