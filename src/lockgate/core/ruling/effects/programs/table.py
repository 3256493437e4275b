"""Which program a command starts, and what it does: a reader of its own, or a row of `programs.txt`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.effect import Certainty
from lockgate.core.ruling.effects.programs import (
    clouds,
    databases,
    file_tools,
    interpreters,
    network,
    packages,
    system,
    text_filters,
    version_control,
    wrappers,
)
from lockgate.core.ruling.effects.streams import EMPTY, Invocation, Origin, Stream
from lockgate.core.word_lists import read_sections

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk

Reader = Callable[["Walk", Invocation], Stream]

_READERS: dict[str, Reader] = {
    **file_tools.READERS,
    **text_filters.READERS,
    **interpreters.READERS,
    **wrappers.READERS,
    **network.READERS,
    **packages.READERS,
    **version_control.READERS,
    **clouds.READERS,
    **databases.READERS,
    **system.READERS,
}
_ROWS: dict[str, str] = {
    entry: section
    for section, lines in read_sections("lockgate.core.ruling.effects.programs", "programs.txt").items()
    for line in lines
    for entry in line.split(", ")
}
# Options before the command word that take a value: `kubectl -n web get pods`.
_VALUED = {
    "git": frozenset(("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env")),
    "kubectl": frozenset("-n --namespace --context --cluster --user --kubeconfig -s --server --as --token -v".split()),
    "helm": frozenset("-n --namespace --kube-context --kubeconfig".split()),
    "docker": frozenset(
        "--context -c -H --host --config -l --log-level -f --file -p --project-name --profile --env-file --project-directory".split()
    ),
    "gh": frozenset("-R --repo".split()),
    "npm": frozenset("--prefix -w --workspace -C".split()),
    "pnpm": frozenset("-C --dir --filter -F".split()),
    "yarn": frozenset("--cwd".split()),
    "systemctl": frozenset("-H --host -M -n -p -t -o".split()),
    "cargo": frozenset("--manifest-path --config -Z -C".split()),
    "uv": frozenset("--directory --project --python -p".split()),
    "poetry": frozenset("-C --directory -P --project".split()),
}
_ASKS_ABOUT = frozenset("--version -V --help -h version help -version --usage -?".split())
_SYSTEM_BIN = re.compile(r"/(?:usr/)?(?:local/)?s?bin/([^/]+)|/opt/(?:homebrew|local)/s?bin/([^/]+)")
_PROJECT_BIN = re.compile(
    r"(?:.*/)?(?:\.?v?env[^/]*|[^/]*venv[^/]*|\.tox/[^/]+|\.nox/[^/]+|virtualenvs?/[^/]+|conda[^/]*|envs/[^/]+)/(?:bin|Scripts)/([^/]+)"
    r"|(?:.*/)?(?:node_modules/\.bin|vendor/bin|\.cargo/bin)/([^/]+)"
)
_VERSIONED = re.compile(r"(python|pip|node|ruby|php|perl|lua|pypy|clang|gcc|java)-?\d[\d.]*t?")


def read_program(walk: Walk, call: Invocation) -> Stream:
    """Note what a program does with these arguments; return what it prints, as far as that is known."""
    name = call.name
    of_project = False
    if "/" in name:
        match = _SYSTEM_BIN.fullmatch(name) or _PROJECT_BIN.fullmatch(name)
        if match is None or walk.download_of(walk.full_path(name)):
            return _run_file(walk, call)
        of_project = match.re is _PROJECT_BIN
        name = match.group(1) or match.group(2)
    if name.endswith((".exe", ".cmd", ".bat")):
        name = name.rsplit(".", 1)[0].lower()
    reader = _READERS.get(name)
    if reader is None and name[-1:].isdigit() and (versioned := _VERSIONED.fullmatch(name)):
        name = versioned.group(1)
        reader = _READERS.get(name)
    if name != call.name:
        call = call._replace(name=name)
    if len(call.arguments) == 1 and call.arguments[0] in _ASKS_ABOUT and name not in _ACTS_ANYWAY:
        return Stream(Origin.NONE)
    if reader is not None:
        return reader(walk, call)
    return read_row(walk, call, of_project=of_project)


# Programs for which a single `-h` or `version` is no question.
_ACTS_ANYWAY = frozenset(
    "sh bash zsh dash ksh eval source . echo printf cat rm cd export alias shutdown reboot halt".split()
)


def read_row(walk: Walk, call: Invocation, *, of_project: bool = False) -> Stream:
    """Note what the row of a program says."""
    name = call.name
    row = _ROWS.get(name)
    words: list[str] = []
    if row is None or f"{name} *" in _ROWS or name in _VALUED:
        words = command_words(call)
        row, used = _find_row(name, words)
        words = words[used:]
    if row is None:
        if name in walk.project.programs or name in walk.project.tasks or of_project:
            walk.add("runs-project-task", name)
        else:
            walk.add("runs-program", name, Certainty.GUESS)
        return Stream(Origin.NONE)
    if row == "passes":
        return Stream(Origin.NONE)
    if row == "prints":
        return text_filters.print_files(walk, call)
    if row == "looks":
        return Stream(Origin.NONE)
    if row in ("runs-project-task", "commits"):
        walk.add(row, "" if row == "commits" else name)
        return Stream(Origin.NONE)
    walk.add(row, target_of(call, words))
    return Stream(Origin.NONE)


def target_of(call: Invocation, words: list[str]) -> str:
    """Return what a command is aimed at: its last argument that is no option, no option's value and no command word."""
    previous = ""
    found = ""
    for argument in call.arguments:
        if argument[:1] != "-" and previous[:1] != "-" and argument in words and "=" not in argument:
            found = argument
        previous = argument if "=" not in argument else ""
    return found or call.name


def _find_row(name: str, words: list[str]) -> tuple[str | None, int]:
    for count in (3, 2, 1):
        if len(words) >= count:
            row = _ROWS.get(" ".join([name, *words[:count]]))
            if row is not None:
                return row, count
    return _ROWS.get(f"{name} *") or _ROWS.get(name), 0


def has_row(name: str, words: list[str]) -> bool:
    """Return whether the table has a row of its own for these command words."""
    return _find_row(name, words)[1] > 0


def is_task(name: str) -> bool:
    """Return whether a program is one that projects are built and checked with."""
    return _ROWS.get(name) in ("runs-project-task", "prints", "passes")


def command_words(call: Invocation) -> list[str]:
    """Return the arguments that are no options; the first ones say what the program shall do."""
    valued = _VALUED.get(call.name, frozenset())
    words: list[str] = []
    skip = False
    for argument in call.arguments:
        if skip:
            skip = False
        elif argument[:1] != "-" or len(words) == 0 and f"{call.name} {argument}" in _ROWS:
            words.append(argument)
        elif argument in valued:
            skip = True
    return words


def _run_file(walk: Walk, call: Invocation) -> Stream:
    """Run a program that is named by its path."""
    stream = walk.read_file(call.name)
    if stream.origin is Origin.TEXT:
        interpreters.run_text(walk, stream, call.name, call.arguments)
        return EMPTY
    walk.run_path(call.name, stream)
    return Stream(Origin.NONE)
