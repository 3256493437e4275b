"""Options and other arguments of a program, told apart."""

from __future__ import annotations

from collections.abc import Iterable, Set


def split_options(arguments: Iterable[str], valued: Set[str] = frozenset()) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the options with their values, and the other arguments.

    `valued` names the options that take the next argument as value. Letters may be joined (`-xzf name`).
    """
    options: list[tuple[str, str]] = []
    rest: list[str] = []
    wants = ""
    ended = False
    for argument in arguments:
        if wants:
            options.append((wants, argument))
            wants = ""
        elif ended or len(argument) < 2 or argument[0] != "-":
            rest.append(argument)
        elif argument == "--":
            ended = True
        elif argument.startswith("--") or argument in valued:
            name, equals, value = argument.partition("=")
            if not equals and name in valued:
                wants = name
            else:
                options.append((name, value))
        else:
            wants = split_letters(argument, valued, options)
    if wants:
        options.append((wants, ""))
    return options, rest


def split_letters(argument: str, valued: Set[str], options: list[tuple[str, str]]) -> str:
    """Add joined letters; return the option that takes the next argument, if any."""
    for index, letter in enumerate(argument[1:], start=1):
        name = "-" + letter
        if name in valued:
            value = argument[index + 1 :]
            if not value:
                return name
            options.append((name, value))
            return ""
        options.append((name, ""))
    return ""


def has_option(arguments: Iterable[str], *names: str) -> bool:
    """Return whether one of these options is given, alone, with `=value`, or among joined letters."""
    letters = {name[1] for name in names if len(name) == 2}
    for argument in arguments:
        if argument[:1] != "-":
            continue
        if argument.partition("=")[0] in names:
            return True
        if letters and argument[:2] != "--" and not letters.isdisjoint(argument[1:]):
            return True
    return False


def plain_words(arguments: Iterable[str]) -> list[str]:
    """Return the arguments that are no options."""
    return [argument for argument in arguments if argument[:1] != "-"]


def long_values(arguments: list[str]) -> list[tuple[str, str]]:
    """Return the long options with their values, where any of them may take the next argument as its value."""
    pairs = []
    for index, argument in enumerate(arguments):
        if argument.startswith("--"):
            name, equals, value = argument.partition("=")
            following = arguments[index + 1] if index + 1 < len(arguments) else ""
            pairs.append((name, value if equals else "" if following.startswith("--") else following))
    return pairs


def program_after(arguments: list[str], valued: Set[str], skip: int = 0) -> list[str]:
    """Return what follows a wrapper's own options and first arguments: the program that it starts."""
    index = 0
    while index < len(arguments) and arguments[index][:1] == "-" and len(arguments[index]) > 1:
        argument = arguments[index]
        index += 1
        if argument == "--":
            break
        if argument in valued:
            index += 1
    return arguments[index + skip :]
