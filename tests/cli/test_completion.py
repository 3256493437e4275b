"""Completion scripts, tried in the real shells: they know our words, and run nothing that was typed."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lockgate.cli.completion import list_commands
from lockgate.cli.main import COMMANDS

Run = Callable[..., Any]
HOSTILE = ("$(touch pwned)", "`touch pwned`", "a;touch pwned", "--$(touch pwned)", "a b", "*", "$HOME")

# Completion runs inside an interactive shell: here it is called as bash and zsh call it.
BASH = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _lockgate; printf "%s\\n" "${COMPREPLY[@]}"'
ZSH = """
_describe() { print -rl -- "${(@P)4}"; (( ${#${(@P)4}} )) }; compadd() { shift; print -rl -- "$@" }
_files() { print -r -- FILES }
script=$1; shift; words=("$@"); CURRENT=$#; source "$script"
"""


def complete(run: Run, shell: str, *words: str) -> list[str]:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"needs {shell}")
    script = Path("completion.txt")
    if not script.exists():
        script.write_text(run("completion", shell).out, encoding="utf-8")
    line = ["lockgate", *words]
    if shell == "bash":
        command = [program, "--norc", "--noprofile", "-c", BASH, "bash", str(script), *line]
    elif shell == "zsh":
        command = [program, "-f", "-c", ZSH, "zsh", str(script), *line]
    else:
        typed = " ".join(["lockgate", *words])
        command = [program, "--no-config", "-c", 'source $argv[1]; complete -C "$argv[2]"', str(script), typed]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert ended.stderr == ""
    return [re.split(r"[:\t]", each)[0] for each in ended.stdout.splitlines() if each]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_commands_options_and_values_are_completed(run: Run, shell: str) -> None:
    assert set(complete(run, shell, "")) >= set(COMMANDS)
    assert {"scan"} <= {each for each in complete(run, shell, "sc") if each.startswith("sc")}
    assert {"--sarif", "--strict"} <= set(complete(run, shell, "scan", "--s"))
    assert "--mode" not in complete(run, shell, "scan", "--")
    assert {"claude-code", "mcp"} <= set(complete(run, shell, "init", ""))
    assert {"linux", "macos"} <= set(complete(run, shell, "service", "--system", ""))
    assert "--held" in complete(run, shell, "audit", "verify", "--h")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_value_that_may_be_anything_is_left_to_the_shell(run: Run, shell: str) -> None:
    found = complete(run, shell, "scan", "--config", "")
    assert not [each for each in found if each.startswith("-")]


@pytest.mark.parametrize("shell", ["bash", "zsh"])
@pytest.mark.parametrize("typed", HOSTILE)
def test_what_was_typed_and_what_files_are_called_never_runs(run: Run, shell: str, typed: str) -> None:
    Path(typed.replace("/", "_")).write_text("")
    for words in ((typed,), ("scan", typed), (typed, ""), ("scan", "--config", typed), ("audit", typed, "")):
        complete(run, shell, *words)
    assert not list(Path.cwd().glob("pwned"))


def test_fish_runs_nothing_that_a_file_is_called(run: Run) -> None:
    Path("$(touch pwned)").write_text("")
    complete(run, "fish", "scan", "'$(touch pwned)'")
    complete(run, "fish", "scan", "")
    assert not Path("pwned").exists()


def test_every_word_in_a_script_is_plain() -> None:
    """`compgen -W` expands its list: a word with a sign of the shell would be run at each completion."""
    for each in list_commands():
        words = [*each.words, *each.options, *(word for values in each.values.values() for word in values)]
        assert all(re.fullmatch(r"[\w.:/-]+", word) for word in (*each.path, *words))
        assert len(each.path) <= 2
