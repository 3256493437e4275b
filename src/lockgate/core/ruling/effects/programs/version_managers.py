"""Managers of versions: `mise`, `nvm`, `pyenv`, `direnv`. Some of their commands install or run what they are given.

A command word that stands in no list here is unknown: it may be a task, a plug-in or a newer command.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.paths import Access
from lockgate.core.ruling.effects.program_io import UNKNOWN_OUTPUT, Invocation, Output
from lockgate.core.ruling.effects.programs.options import program_after, split_options
from lockgate.core.ruling.effects.programs.packages import note_package, note_source
from lockgate.core.ruling.effects.programs.program_table import command_words, read_row
from lockgate.core.ruling.effects.programs.whole_commands import note_unknown

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk

_ENVS = ("pyenv", "rbenv", "nodenv", "goenv", "jenv")
# Command words after which a program stands, and how many arguments stand between.
_RUNS = {
    "direnv": {"exec": 1},
    "nvm": {"exec": 1, "run": 1},
    **{name: {"exec": 0} for name in _ENVS},
    "asdf": {"exec": 0, "env": 1},
    "fnm": {"exec": 0},
    "mise": {"exec": 0, "x": 0, "en": 1},
    "rtx": {"exec": 0, "x": 0},
    "volta": {"run": 0},
    "perf": {"record": 0, "stat": 0, "trace": 0},
    "rustup": {"run": 1},
    "proto": {"run": 0},
    "sdk": {},
}
_RUNS_VALUED = frozenset("--using --node --npm --yarn --fnm-dir -C --cd -e -o -F -c --command".split())
_INSTALLS = frozenset(("install", "i", "add", "install-latest-npm", "reinstall-packages", "fetch"))
_USES = {"mise": ("use", "u", "upgrade", "up"), "rtx": ("use", "u"), "volta": ("pin",), "proto": ("pin", "use")}
_GROUPS = frozenset("plugin plugins p tasks task tool toolchain component target".split())
_PATHS = frozenset(("link", "trust", "allow", "permit", "grant", "reload"))
_TASKS = frozenset(("run", "r", "watch", "w"))
_WORKS_HERE = frozenset(
    "local global set default pin rehash reshim alias unalias uninstall remove rm prune unpin unset cache override "
    "update upgrade virtualenv sync".split()
)
# These show something, or set up nothing but the shell that they are called in.
_LOOKS = frozenset(
    "use shell activate deactivate unload "
    "ls list ls-remote list-remote list-all current which where whence version versions version-remote info root "
    "prefix home shims hooks commands completions completion init env hook-env latest help doctor outdated bin "
    "bin-paths virtualenvs status hook stdlib log deny revoke block disallow export show doc man search".split()
)
# What can only be the version of a language, or the language itself: these come from the manager's own source.
_VERSION = re.compile(
    r"(?i)v?\d[\w.+-]*|lts(?:[-/][\w*.]+)?|latest[\w.:-]*|stable|beta|nightly[\w-]*|node|system|default|iojs[\w.-]*"
    r"|(?:pypy|cpython|micropython|graalpy|stackless|jython|miniconda|anaconda|miniforge|mambaforge|jruby|truffleruby"
    r"|mruby|rbx|stable|zulu|temurin|corretto|openjdk|graalvm)[\w.+-]*|[\w]+-[\w]+-(?:linux|apple|pc|unknown)[\w-]*"
)
_LANGUAGES = frozenset(
    "node nodejs python ruby go golang java kotlin scala rust erlang elixir deno bun php perl julia zig dart flutter "
    "lua crystal dotnet swift gradle maven sbt groovy npm pnpm yarn clippy rustfmt rust-src rust-analyzer".split()
)
_REGISTRIES = {"npm": "npm", "pipx": "pypi", "pypi": "pypi", "cargo": "cargo", "gem": "gem", "go": "go"}
_REPOSITORIES = frozenset("ubi github gitlab aqua asdf vfox spm".split())


def _manager(walk: Walk, call: Invocation) -> Output:
    words = command_words(call)
    verb, rest = (words[0], call.arguments[call.arguments.index(words[0]) + 1 :]) if words else ("", [])
    _note_sources(walk, call)
    if verb in _RUNS[call.name]:
        return _run(walk, call, verb, rest)
    if call.name == "perf":
        return read_row(walk, call)
    group = ""
    if verb in _GROUPS and len(words) > 1:
        group, verb, rest = verb, words[1], rest[rest.index(words[1]) + 1 :]
    elif verb == "plugin-add":
        group, verb = "plugin", "add"
    _act(walk, call.name, verb, rest, group)
    return UNKNOWN_OUTPUT


def _act(walk: Walk, name: str, verb: str, rest: list[str], group: str) -> None:
    """Note what a manager does by itself."""
    if verb in _INSTALLS or verb in _USES.get(name, ()) or (verb == "env" and rest[:1] == ["install"]):
        _install(walk, name, rest if verb != "env" else [], group)
    elif verb in _PATHS:
        walk.run_path(rest[-1] if rest else ".envrc" if name == "direnv" else "mise.toml")
    elif verb in _TASKS and name in ("mise", "rtx"):
        _run_tasks(walk, rest)
    elif verb in _WORKS_HERE:
        walk.add("runs-project-task", name)
    elif verb and verb not in _LOOKS:
        note_unknown(walk, name)


def _note_sources(walk: Walk, call: Invocation) -> None:
    """Note servers that versions are fetched from: `--node-dist-mirror=URL`, `RUSTUP_DIST_SERVER=URL`."""
    values = [value for before, value in pairwise(["", *call.arguments]) if before[:2] == "--" or value[:1] == "-"]
    for value in [*values, *call.environment.values()]:
        if "://" in value:
            note_source(walk, value.rpartition("=")[2])


def _run(walk: Walk, call: Invocation, verb: str, rest: list[str]) -> Output:
    for option, value in split_options(rest, _RUNS_VALUED)[0]:
        if option in ("-c", "--command") and call.name != "perf":
            walk.read_text(value)
    for tool in rest[: rest.index("--")] if call.name in ("mise", "rtx") and "--" in rest else ():
        if tool[:1] != "-":
            _install_one(walk, call.name, tool)
    inner = _program(call.name, program_after(rest, _RUNS_VALUED), _RUNS[call.name][verb])
    if call.name == "direnv" or verb == "en":
        # These load the settings of a folder.
        walk.run_path(f"{rest[0] if rest else '.'}/{'.envrc' if call.name == 'direnv' else 'mise.toml'}")
    if call.name == "nvm" and verb == "run":
        inner = ["node", *inner]
    return walk.run_program(inner, call.stdin) if inner else UNKNOWN_OUTPUT


def _program(name: str, rest: list[str], skip: int) -> list[str]:
    """Return the program that a manager of versions starts."""
    if name in ("mise", "rtx", "fnm") and "--" in rest:
        return rest[rest.index("--") + 1 :]
    if name == "nvm" and not _VERSION.fullmatch([*rest, ""][0]):
        # The version may be left out.
        return rest
    return rest[skip:]


def _run_tasks(walk: Walk, rest: list[str]) -> None:
    options, names = split_options(rest, frozenset("-C --cd -j --jobs -s --shell -t --tool -o --output".split()))
    for option, value in options:
        if option in ("-C", "--cd"):
            walk.run_path(value)
        elif option in ("-t", "--tool"):
            _install_one(walk, "mise", value)
        elif option in ("-s", "--shell"):
            walk.read_text(value)
    walk.add("runs-project-task", walk.plain(names[0]) if names else "mise")


def _install(walk: Walk, name: str, rest: list[str], group: str) -> None:
    """Note what is installed: a version of a language, a package of a registry, or a plug-in from a repository."""
    options, words = split_options(rest, frozenset("-C --cd -j --jobs -E --env -p --path --profile -c -t".split()))
    for option, value in options:
        if option in ("-p", "--path") and value and name in ("mise", "rtx"):
            walk.access(value, Access.WRITE)
    if name in ("asdf", "sdk") and group == "" and len(words) > 1:
        # `asdf install ruby 3.3`, `sdk install java mine /opt/jdk`: what is installed, its version, and a folder.
        words = [words[0], *words[2:]]
    for word in words:
        _install_one(walk, name, word)
    if not words:
        walk.add("installs-known-package")


def _install_one(walk: Walk, manager: str, word: str) -> None:
    plain = walk.plain(word)
    prefix, colon, name = plain.partition(":")
    if colon and prefix in _REPOSITORIES and "/" in name:
        note_package(walk, name)
    elif colon and not name.startswith("//"):
        note_package(walk, name, _REGISTRIES.get(prefix, ""))
    elif "/" in plain and "://" not in plain and plain[:1] in "./~":
        walk.run_path(word)
    elif _VERSION.fullmatch(plain) or plain.partition("@")[0] in _LANGUAGES:
        walk.add("installs-known-package")
    else:
        note_package(walk, word, "npm" if manager == "volta" else "")


READERS = dict.fromkeys(_RUNS, _manager)
