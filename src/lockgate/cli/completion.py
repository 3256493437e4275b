"""`lockgate completion`: a script that completes this command line in bash, zsh or fish.

The script holds fixed lists of our own words. It starts no program, and what was typed or what a file is called is only
ever compared with them: a file named `$(touch x)` is text.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockgate.cli.exit_codes import Exit

if TYPE_CHECKING:
    from lockgate.cli.parser import Parser

_HELP = """\
Prints a script that completes commands, options and their values. Load it where your shell starts:

example:
  $ lockgate completion bash > ~/.local/share/bash-completion/completions/lockgate
  $ lockgate completion zsh > ~/.zfunc/_lockgate
  $ lockgate completion fish > ~/.config/fish/completions/lockgate.fish

For zsh, the folder has to be in fpath before compinit runs: fpath+=~/.zfunc
The script is written for this version: make it again after an update. Exit code 0: printed.
"""


@dataclass(frozen=True, slots=True)
class CompletedCommand:
    """What can follow one command: its words and its options, each with what it says; and the values of options."""

    path: tuple[str, ...]
    words: dict[str, str]
    options: dict[str, str]
    # Of each option that takes a value: those it may have, none where any text or file will do.
    values: dict[str, tuple[str, ...]]


def describe(parser: Parser) -> None:
    parser.usage = "lockgate completion bash|zsh|fish"
    parser.description = _HELP
    parser.add_argument("shell", metavar="SHELL", choices=tuple(_SCRIPTS), help="bash, zsh or fish")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> Exit:
    print(_SCRIPTS[args.shell](list_commands()), end="")
    return Exit.CLEAR


def list_commands() -> list[CompletedCommand]:
    """Return what can follow `lockgate`, and each of its commands."""
    from lockgate.cli.main import COMMANDS, make_parsers

    parsers = make_parsers()
    found = [_complete_command(tuple(name.split()), parser) for name, parser in parsers.items()]
    return [
        CompletedCommand(each.path, COMMANDS, each.options, each.values) if not each.path else each for each in found
    ]


def _complete_command(path: tuple[str, ...], parser: argparse.ArgumentParser) -> CompletedCommand:
    words: dict[str, str] = {}
    options: dict[str, str] = {}
    values: dict[str, tuple[str, ...]] = {}
    for action in parser._actions:
        choices = tuple(map(str, action.choices or ()))
        if not action.option_strings:
            words |= dict.fromkeys(choices, "")
        for option in action.option_strings:
            options[option] = " ".join((action.help or "").replace("%%", "%").split())
            if action.nargs != 0:
                values[option] = choices
    return CompletedCommand(path, words, options, values)


def _bash(commands: list[CompletedCommand]) -> str:
    return "\n".join(
        [
            "# bash completion of lockgate, printed by `lockgate completion bash`",
            "_lockgate() {",
            '    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} at="" words=""',
            "    COMPREPLY=()",
            *_find_command(commands, "COMP_CWORD", "COMP_WORDS", 1),
            '    case "$at $prev" in',
            *(f"        {shlex.quote(key)}) words={_joined(these)} ;;" for key, these in _values(commands)),
            '        *) case "$at" in',
            *(f"            {_pattern(each)}) words={_joined([*each.words, *each.options])} ;;" for each in commands),
            "        esac ;;",
            "    esac",
            # The list is ours: what was typed is only its prefix. File names are left to readline, which quotes them.
            '    [[ -n $words ]] && COMPREPLY=($(compgen -W "$words" -- "$cur"))',
            "}",
            "complete -o default -F _lockgate lockgate",
            "",
        ]
    )


def _zsh(commands: list[CompletedCommand]) -> str:
    lines = [
        "#compdef lockgate",
        "# zsh completion of lockgate, printed by `lockgate completion zsh`",
        "_lockgate() {",
        '    local prev=${words[CURRENT-1]} at=""',
        "    local -a known",
        *_find_command(commands, "CURRENT-1", "words", 2),
        '    case "$at $prev" in',
        *(
            f"        {shlex.quote(key)}) compadd -- {' '.join(map(shlex.quote, these))}; return ;;"
            for key, these in _values(commands)
            if these
        ),
        *(f"        {shlex.quote(key)}) _files; return ;;" for key, these in _values(commands) if not these),
        "    esac",
        '    case "$at" in',
    ]
    for each in commands:
        known = " ".join(
            shlex.quote(f"{word}:{said}" if said else word) for word, said in {**each.words, **each.options}.items()
        )
        lines.append(f"        {_pattern(each)}) known=({known}) ;;")
    lines += ["    esac", "    _describe -t words word known || _files", "}", '_lockgate "$@"', ""]
    return "\n".join(lines)


def _find_command(commands: list[CompletedCommand], count: str, words: str, first: int) -> Iterator[str]:
    """Yield the lines that set `at` to the command that was typed, with its second word where it has one."""
    ones = "|".join(_pattern(each) for each in commands if len(each.path) == 1)
    twos = "|".join(_pattern(each) for each in commands if len(each.path) == 2)
    yield f"    local one=${{{words}[{first}]}} two=${{{words}[{first + 1}]}}"
    yield f'    (( {count} > 1 )) && case "$one" in {ones}) at=$one ;; esac'
    yield f'    (( {count} > 2 )) && case "$one $two" in {twos}) at="$one $two" ;; esac'


def _pattern(command: CompletedCommand) -> str:
    return shlex.quote(" ".join(command.path))


def _joined(words: Iterable[str]) -> str:
    return shlex.quote(" ".join(words))


def _values(commands: list[CompletedCommand]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for each in commands:
        for option, these in each.values.items():
            yield f"{' '.join(each.path)} {option}", these


def _fish(commands: list[CompletedCommand]) -> str:
    lines = ["# fish completion of lockgate, printed by `lockgate completion fish`"]
    for each in commands:
        seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in each.path)
        begin = f"complete -c lockgate -n {_fish_quote(seen or '__fish_use_subcommand')}"
        lines += [f"{begin} -f -a {word} -d {_fish_quote(said)}" for word, said in each.words.items()]
        for option, said in each.options.items():
            name = f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
            value = ""
            if option in each.values:
                these = each.values[option]
                value = f" -x -a {_fish_quote(' '.join(these))}" if these else " -r -F"
            lines.append(f"{begin} {name}{value} -d {_fish_quote(said)}")
    return "\n".join(lines) + "\n"


def _fish_quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


_SCRIPTS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
