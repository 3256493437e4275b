"""The table of programs, `programs.txt`: what a program does by its name and its command words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.effect import Certainty
from lockgate.core.ruling.effects.program_io import UNKNOWN_OUTPUT, Invocation, Output
from lockgate.core.ruling.effects.programs.option_uses import note_foreign, note_looking
from lockgate.core.ruling.effects.programs.text_filters import print_files
from lockgate.core.tables import read_sections

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk

_ROWS: dict[str, str] = {
    entry: section
    for section, lines in read_sections("lockgate.core.ruling.effects.programs", "programs.txt").items()
    for line in lines
    for entry in line.split(", ")
}
# Programs that act by command words: with `-v` alone they show their version.
WITH_COMMANDS = frozenset(entry.partition(" ")[0] for entry in _ROWS if " " in entry)
# What a command changes that its arguments do not name.
_TARGETS = {"writes-startup-file": "the shell's start-up files"}
# Programs that show a file and take an address for one.
_VISITS = frozenset("exiftool ffprobe glow identify mdcat xmllint xsltproc".split())
# Options before the command word that take a value: `kubectl -n web get pods`.
_VALUED = {
    "git": frozenset(("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env")),
    "kubectl": frozenset("-n --namespace --context --cluster --user --kubeconfig -s --server --as --token -v".split()),
    "helm": frozenset("-n --namespace --kube-context --kubeconfig".split()),
    "docker": frozenset(
        "--context -c -H --host --config -l --log-level -f --file -p --project-name --profile --env-file "
        "--project-directory".split()
    ),
    "gh": frozenset("-R --repo".split()),
    "npm": frozenset("--prefix -w --workspace -C".split()),
    "pnpm": frozenset("-C --dir --filter -F".split()),
    "yarn": frozenset("--cwd".split()),
    "systemctl": frozenset("-H --host -M -n -p -t -o".split()),
    "cargo": frozenset("--manifest-path --config -Z -C".split()),
    "uv": frozenset("--directory --project --python -p".split()),
    "poetry": frozenset("-C --directory -P --project".split()),
    **dict.fromkeys(("mise", "rtx"), frozenset("-C --cd -E --env -P --profile -j --jobs --output".split())),
    "fnm": frozenset("--node-dist-mirror --fnm-dir --log-level --arch --version-file-strategy".split()),
    **dict.fromkeys(("hostnamectl", "timedatectl", "loginctl"), frozenset("-H --host -M --machine".split())),
}


def read_row(walk: Walk, call: Invocation, *, of_project: bool = False) -> Output:
    """Note what the row of a program says."""
    name = call.name
    words = command_words(call)
    row, used = _find_row(name, words)
    words = words[used:]
    if row is None:
        note_unknown(walk, name, of_project=of_project)
        return UNKNOWN_OUTPUT
    if row in ("harmless", "looks") or name in _VISITS:
        note_looking(walk, call)
    if row in ("harmless", "looks"):
        return UNKNOWN_OUTPUT
    if row == "prints":
        return print_files(walk, call)
    if row == "runs-project-task":
        note_foreign(walk, call)
    if row in ("runs-project-task", "commits"):
        walk.add(row, "" if row == "commits" else name)
        return UNKNOWN_OUTPUT
    walk.add(row, _TARGETS.get(row) or target_of(call, words))
    return UNKNOWN_OUTPUT


def note_unknown(walk: Walk, name: str, *, of_project: bool = False) -> None:
    """Note that a program runs of which no row says what it does."""
    if name in walk.project.programs or name in walk.project.tasks or of_project:
        walk.add("runs-project-task", name)
    else:
        walk.add("runs-program", name, Certainty.GUESS)


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
    every, alone = _ROWS.get(f"{name} *"), _ROWS.get(name)
    return (every or alone if words else alone or every), 0


def has_row(name: str, words: list[str]) -> bool:
    """Return whether the table has a row of its own for these command words."""
    return _find_row(name, words)[1] > 0


def is_listed(call: Invocation) -> bool:
    """Return whether the table says what this program does."""
    return _find_row(call.name, command_words(call))[0] is not None


def is_task(name: str) -> bool:
    """Return whether a program is one that projects are built and checked with."""
    return _ROWS.get(name) == "runs-project-task"


def command_words(call: Invocation) -> list[str]:
    """Return the arguments that are no options; the first ones say what the program shall do."""
    valued = _VALUED.get(call.name, frozenset())
    words: list[str] = []
    skip = False
    for argument in call.arguments:
        if skip:
            skip = False
        elif argument[:1] != "-" or (len(words) == 0 and f"{call.name} {argument}" in _ROWS):
            words.append(argument)
        elif argument in valued:
            skip = True
    return words
