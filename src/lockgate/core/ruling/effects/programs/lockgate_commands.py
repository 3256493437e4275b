"""Lockgate's own commands as a shell runs them: those that loosen it, answer for a person, or hand out its tokens.

The rules in `core/text/rules/execution.py` know these commands as text. Here the arguments are expanded: a variable, a
line that goes on, what `xargs` adds. A word whose value is not known may be any option.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.lockgate_address import ASKS_SERVICE
from lockgate.core.ruling.effects.protected_paths import find_own

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.program_io import Invocation
    from lockgate.core.ruling.effects.shell_walk import Walk

_PYTHON = re.compile(r"(?:python|pypy|py)[\d.]*(?:\.exe)?")
# Programs that run another one of an environment, or that they fetch.
_RUNNERS = frozenset("uvx uv pipx poetry pdm hatch pipenv rye conda mamba micromamba pixi mise asdf".split())
_INSTALLERS = frozenset("pip pip3 pipx uv uvx conda mamba micromamba poetry pdm brew".split())
_PACKAGE = re.compile(r"lockgate(?:[\[=<>~!@ ].*)?", re.DOTALL)
_INSTALLS = frozenset("install add sync develop reinstall".split())
# `--editable=./x`, `name @ file:///x`
_FROM_FILE = re.compile(r"^(?:--?\w[\w-]*=|[\w.\[\]-]+\s*@\s*)?(?:file:(?://)?)?")
_PATH = re.compile(r"[.~/$]|.*/|.*\.(?:whl|zip)$")
# Options that say where a package comes from.
_SOURCES = frozenset("--from --index-url -i --extra-index-url --index --default-index --find-links -f --spec".split())
_HELP = frozenset(("--help", "-h"))
# Of these commands, the options that may be given. Words that are no options are free for `init` only.
_ALLOWED: Mapping[str, frozenset[str]] = {
    "init": frozenset("--user --project --yes --json --server".split()),
    "trust": frozenset(("--json", "--list")),
}
# Of these, what may not be said.
_REFUSED = {
    "approvals": frozenset("approve deny watch".split()),
    "grants": frozenset("revoke drop-unused".split()),
    "service": frozenset("install uninstall".split()),
    "mcp": frozenset("--repin --forget --goal --session".split()),
    "tune": frozenset(("--apply",)),
    "gate": frozenset(("--lift",)),
    "audit": frozenset("prune rotate".split()),
}
_ANSWERING = frozenset(("approvals", "grants", "audit"))
# A word that may be an option: its beginning is not known, or it is an option of which a part is not known.
_UNKNOWN = re.compile(r"(?:\$\(\)|\$\w*|`|[*?\[{])(?!\w*/)|-\S*[$`*?\[{]")


def note_own_commands(walk: Walk, call: Invocation) -> None:
    """Note a command of Lockgate that an agent may not run, and another package that takes Lockgate's place."""
    words = [walk.plain(word) for word in call.arguments]
    if (
        _replaces_package(words, call.name)
        or _is_own_installer(walk, words, call.name)
        or _installs_our_name(walk, words, call.name)
    ):
        walk.add("changes-own-guard", "lockgate")
    words = _own_words(walk, call)
    if words and not _HELP.intersection(words) and _is_refused(words):
        answers = not _ANSWERING.isdisjoint(words)
        walk.add(ASKS_SERVICE if answers else "changes-own-guard", "lockgate")


def _replaces_package(words: list[str], name: str) -> bool:
    """Return whether an installer takes our package away, puts another in its place, or adds one to our environment."""
    if name not in _INSTALLERS or not any("lockgate" in word.lower() for word in words):
        return False
    if {"install", "add"} & {*words} and any(_is_elsewhere(word.lower()) for word in words):
        return True
    if not any(_PACKAGE.fullmatch(word) for word in words):
        return False
    if {"inject", "runpip", "uninstall", "remove"} & {*words}:
        return True
    return "install" in words and any(word.partition("=")[0] in _SOURCES for word in words)


def _is_own_installer(walk: Walk, words: list[str], name: str) -> bool:
    """Return whether the installer of the environment that Lockgate runs from changes what is in it."""
    if "/" not in name or {"install", "uninstall"}.isdisjoint(words):
        return False
    return any(not found.is_above for found in find_own(walk.plain(name), walk.project, walk.folder))


def _installs_our_name(walk: Walk, words: list[str], name: str) -> bool:
    """Return whether a folder or file that is installed brings a Lockgate of its own; only a host can look into it."""
    brings = walk.project.brings_lockgate
    base = name.rpartition("/")[2]
    is_setup = _PYTHON.fullmatch(base) and any(word.endswith("setup.py") for word in words)
    if brings is None or not (base in _INSTALLERS or is_setup) or _INSTALLS.isdisjoint(words):
        return False
    verb = next(at for at, word in enumerate(words) if word in _INSTALLS)
    return any(brings(walk.full_path(path)) for path in _installed_paths(words[verb + 1 :]))


def _installed_paths(words: list[str]) -> list[str]:
    named = [_FROM_FILE.sub("", word) for word in words]
    # `uv sync`, `poetry install`, `python setup.py install`: the project itself.
    here = [] if any(word[:1] != "-" for word in words) else ["."]
    return here + [word for word in named if _PATH.match(word) and "://" not in word]


def _is_elsewhere(word: str) -> bool:
    """Return whether a word is a file, a folder or an address: what is in it can call itself Lockgate."""
    if "lockgate" not in word or word.endswith((".txt", ".toml", ".lock")):
        return False
    return any(sign in word for sign in "/\\@") or word.endswith((".whl", ".zip", ".gz"))


def _own_words(walk: Walk, call: Invocation) -> list[str]:
    """Return the words behind `lockgate`, also as a module of Python; none for another program."""
    words = [walk.plain(word) for word in call.arguments]
    if re.fullmatch(r"(?:.*[/\\])?lockgate(?:\.exe)?", call.name, re.IGNORECASE):
        return words
    name = call.name.rpartition("/")[2].lower()
    if _PYTHON.fullmatch(name) and "-m" in words[:-1]:
        at = words.index("-m") + 1
        if words[at].partition(".")[0] == "lockgate":
            return words[at + 1 :]
    if name in _RUNNERS:
        at = next((at for at, word in enumerate(words) if word.rpartition("/")[2].startswith("lockgate")), len(words))
        return words[at + 1 :]
    return []


def _is_refused(words: list[str]) -> bool:
    # All words of a function's caller (`"$@"`) come as one.
    words = [*words[0].split(), *words[1:]]
    while words and words[0].startswith("-"):
        words = words[2 if words[0] == "--config" else 1 :]
    if not words:
        return False
    command, rest = words[0], words[1:]
    if command == "mcp" and "--" in rest:
        rest = rest[: rest.index("--")]
    if command in _REFUSED:
        said = {word.partition("=")[0] for word in rest}
        first = next((word for word in rest if not word.startswith("-")), "")
        return bool(_REFUSED[command] & said) or _UNKNOWN.match(first) is not None
    if command in _ALLOWED:
        return any(_is_too_much(word, _ALLOWED[command], free=command == "init") for word in rest)
    return command in ("token", "hook") or _UNKNOWN.match(command) is not None


def _is_too_much(word: str, allowed: frozenset[str], *, free: bool) -> bool:
    if word.startswith("-"):
        return word.partition("=")[0] not in allowed
    return not free or _UNKNOWN.match(word) is not None
