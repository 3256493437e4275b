"""Lockgate's own commands as a shell runs them: an agent may run those that `lockgate_programs.txt` lists.

Arguments are expanded: a variable, a line that goes on, what `xargs` adds. Beside an own command, a word whose value is
not known may be any option.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import dropwhile
from typing import TYPE_CHECKING, NamedTuple

from lockgate.core.ruling.effects.lockgate_address import ASKS_SERVICE
from lockgate.core.ruling.effects.programs.options import plain_words, split_options
from lockgate.core.ruling.effects.protected_paths import find_own
from lockgate.core.tables import read_sections

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.program_io import Invocation
    from lockgate.core.ruling.effects.shell_walk import Walk

PROGRAMS = read_sections("lockgate.core.ruling.effects.programs", "lockgate_programs.txt")
_PYTHON = re.compile(r"(?:python|pypy|py)[\d.]*(?:\.exe)?")
_OWN_PROGRAM = re.compile(r"(?:.*[/\\])?lockgate(?:\.exe)?|.*[/\\]lockgate[/\\](?:__main__|hook)\.py", re.IGNORECASE)
# A word that may start us: also a module, behind `-m` or in one word with it.
_STARTED = re.compile(rf"{_OWN_PROGRAM.pattern}|(?:-[a-z]*m)?lockgate(?:\.[\w.]+)?", re.IGNORECASE)
QUIET = frozenset(" ".join(PROGRAMS["quiet"]).split())
# Programs that run another one of an environment, or that they fetch; all but the first by a word such as `run`.
_RUNNERS = frozenset("uvx uv pipx poetry pdm hatch pipenv rye conda mamba micromamba pixi mise asdf".split())
_RUNS = frozenset("run exec x".split())
_INSTALLERS = frozenset("pip pip3 pipx uv uvx conda mamba micromamba poetry pdm brew".split())
_PACKAGE = re.compile(r"lockgate(?:[\[=<>~!@ ].*)?", re.DOTALL)
# What is fetched may have a version: `pipx run lockgate==1.0 token`.
_FETCHED = re.compile(rf"{_STARTED.pattern}|(?:.*/)?{_PACKAGE.pattern}", re.IGNORECASE | re.DOTALL)
_INSTALLS = frozenset("install add sync develop reinstall".split())
# `--editable=./x`, `name @ file:///x`
_FROM_FILE = re.compile(r"^(?:--?\w[\w-]*=|[\w.\[\]-]+\s*@\s*)?(?:file:(?://)?)?")
_PATH = re.compile(r"[.~/$]|.*/|.*\.(?:whl|zip)$")
# Options that say where a package comes from.
_SOURCES = frozenset("--from --index-url -i --extra-index-url --index --default-index --find-links -f --spec".split())
_ANSWERING = frozenset(("approvals", "grants", "audit"))
# A word that may be an option: its beginning is not known, or it is an option of which a part is not known.
_UNKNOWN = re.compile(r"(?:\$\(\)|\$\w*|`|[*?\[{])(?!\w*/)|-\S*[$`*?\[{]")


class _Allowed(NamedTuple):
    first_words: frozenset[str]
    only_known: bool
    options: frozenset[str]
    valued: frozenset[str]

    def allows(self, words: list[str]) -> bool:
        options, plain = split_options(words, self.valued)
        if any(name not in self.options for name, _ in options) or (
            self.only_known and any(map(_UNKNOWN.match, words))
        ):
            return False
        return not plain or "*" in self.first_words or plain[0] in self.first_words


def _read_allowed(line: str) -> tuple[str, _Allowed]:
    named, _, options = line.partition(":")
    command, *words = named.removesuffix("!").split()
    valued = frozenset(option[:-1] for option in options.split() if option[-1] == "=")
    return command, _Allowed(
        frozenset(words) - {"-"}, named[-1] == "!", frozenset(options.replace("=", "").split()), valued
    )


_ALLOWED = dict(map(_read_allowed, PROGRAMS["commands"]))
OWN_COMMANDS = _ALLOWED.keys() | {"token", "hook"}


def note_own_commands(walk: Walk, call: Invocation) -> None:
    """Note a command of Lockgate that an agent may not run, and another package that takes Lockgate's place."""
    words = [walk.plain(word) for word in call.arguments]
    name = call.name.rpartition("/")[2].lower()
    if _changes_package(walk, words, call.name) or _installs_our_name(walk, words, name):
        walk.add("changes-own-guard", "lockgate")
    for behind in [words] if _OWN_PROGRAM.fullmatch(call.name) else _words_behind_ours(words, name):
        if _is_refused(behind):
            is_answer = not _ANSWERING.isdisjoint(map(str.lower, behind))
            walk.add(ASKS_SERVICE if is_answer else "changes-own-guard", "lockgate")


def _words_behind_ours(words: list[str], name: str) -> Iterator[list[str]]:
    """Yield the words behind each `lockgate` that another program may start; most only get that word as a name."""
    if (name in QUIET and name[-2:] != "sh") or words[:2] == ["-m", "pytest"]:
        return
    runs = name in _RUNNERS and (name == "uvx" or not _RUNS.isdisjoint(words))
    started = _FETCHED if runs else _STARTED
    for at in [at for at, word in enumerate(words[:-1]) if started.fullmatch(word)]:
        is_first = _PYTHON.fullmatch(name) and all(option[:1] == "-" for option in words[:at])
        if runs or is_first or words[at + 1].lower() in OWN_COMMANDS:
            yield words[at + 1 :]


def _is_refused(words: list[str]) -> bool:
    # All words of a function's caller (`"$@"`) come as one.
    words = [*words[0].split(), *words[1:]] if words else []
    while words and words[0][:1] == "-":
        words = words[2 if words[0] == "--config" else 1 :]
    # Behind `--`, or a word that may be one, `-h` is a value.
    if not words or next((word for word in words if not word.isalpha()), "") in ("--help", "-h"):
        return False
    row = _ALLOWED.get(words[0])
    rest = words[1 : words.index("--")] if words[0] == "mcp" and "--" in words else words[1:]
    return row is None or not row.allows(rest)


def _changes_package(walk: Walk, words: list[str], name: str) -> bool:
    """Return whether an installer takes our package away, puts another in its place, or works in our environment."""
    if "/" in name and not {"install", "uninstall"}.isdisjoint(words):
        if any(not found.is_above for found in find_own(walk.plain(name), walk.project, walk.folder)):
            return True
    if name not in _INSTALLERS or not any("lockgate" in word.lower() for word in words):
        return False
    if {"install", "add"} & {*words} and any(_is_elsewhere(word.lower()) for word in words):
        return True
    changes = {"inject", "runpip", "uninstall", "remove"} & {*words} or (
        "install" in words and any(word.partition("=")[0] in _SOURCES for word in words)
    )
    return bool(changes) and any(map(_PACKAGE.fullmatch, words))


def _is_elsewhere(word: str) -> bool:
    """Return whether a word is a file, a folder or an address: what is in it can call itself Lockgate."""
    if "lockgate" not in word or word.endswith((".txt", ".toml", ".lock")):
        return False
    return any(sign in word for sign in "/\\@") or word.endswith((".whl", ".zip", ".gz"))


def _installs_our_name(walk: Walk, words: list[str], name: str) -> bool:
    """Return whether a folder or file that is installed brings a Lockgate of its own; only a host can look into it."""
    brings = walk.project.brings_lockgate
    is_setup = _PYTHON.fullmatch(name) and any(word.endswith("setup.py") for word in words)
    if brings is None or not (name in _INSTALLERS or is_setup) or _INSTALLS.isdisjoint(words):
        return False
    words = list(dropwhile(lambda word: word not in _INSTALLS, words))[1:]
    # `uv sync`, `poetry install`, `python setup.py install`: the project itself.
    here = [] if plain_words(words) else ["."]
    named = [_FROM_FILE.sub("", word) for word in words]
    paths = here + [word for word in named if _PATH.match(word) and "://" not in word]
    return any(brings(walk.full_path(path)) for path in paths)
