"""Options, words, hosts, and what a search looks for, among the arguments of a program."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Set
from itertools import pairwise, takewhile
from typing import NamedTuple

Options = list[tuple[str, str]]


def split_options(arguments: list[str], valued: Set[str] = frozenset()) -> tuple[Options, list[str]]:
    """Return the options with their values, and the other arguments; `valued` names the options that take a value."""
    return split_arguments(arguments, valued, valued)[:2]


def split_arguments(
    arguments: list[str],
    valued: Set[str],
    listed: Container[str],
    most: int = -1,
    dashed: Set[str] = frozenset(),
    used: int = 0,
    *,
    is_loose: bool = False,
) -> tuple[Options, list[str], list[str]]:
    """Return the options with their values, the other arguments, and what follows when there are `most` of these.

    Letters may be joined (`-xzf name`). Of the first `used` arguments those that are `dashed` are no options.
    """
    options: Options = []
    words: list[str] = []
    wants, ended = "", False
    for index, argument in enumerate(arguments):
        if wants:
            options.append((wants, argument))
            wants = ""
        elif argument[:1] != "-" or ended or argument == "-" or (len(words) < used and argument in dashed):
            if len(words) == most:
                return options, words, arguments[index:]
            if "=" in argument and (setting := argument[: argument.index("=") + 1]) in listed:
                # An option in the form of a setting: `if=FILE`.
                options.append((setting, argument[len(setting) :]))
            else:
                words.append(argument)
        elif argument == "--":
            ended = True
            options += [("--", "")] if argument in listed else []
        else:
            wants = _split_option(argument, valued, listed, options, is_loose=is_loose)
    if wants:
        options.append((wants, ""))
    return options, words, []


def _split_option(argument: str, valued: Set[str], listed: Container[str], options: Options, *, is_loose: bool) -> str:
    """Add an option with its value, or joined letters; return the one that takes the next argument, if any."""
    if argument in valued:
        return argument
    name, _, value = (argument, "", "") if len(argument) == 2 or argument in listed else argument.partition("=")
    if len(argument) == 2 or argument[1] == "-" or name in listed:
        options.append((name, value))
        return ""
    letters = [f"-{letter}" for letter in argument[1:]]
    if is_loose and letters[0] not in valued:
        # Without a list of all options, what follows the first letter may be its value: `-DCMAKE_C=x`.
        options += [(letter, "") for letter in letters if letter not in valued]
        return ""
    for index, letter in enumerate(letters, start=2):
        if letter in valued:
            if index == len(argument):
                return letter
            options.append((letter, argument[index:]))
            return ""
        options.append((letter, ""))
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


# Hosts

_URL_HOST = re.compile(r"(?:[a-zA-Z][a-zA-Z0-9+.-]*://)?(?:[^/@\s]*@)?(\[[0-9a-fA-F:]+\]|[^/:?#\s]+)")
_LOCAL = re.compile(
    r"localhost|[\w-]+\.localhost|127(?:\.\d+){0,3}|0\.0\.0\.0|::1|0|host\.docker\.internal", re.IGNORECASE
)
# Servers that hand a machine's own credentials to every program on it.
METADATA_HOSTS = frozenset("169.254.169.254 metadata.google.internal 169.254.170.2 metadata fd00:ec2::254".split())


def host_of(address: str) -> str:
    """Return the host of a URL, or of an address without a scheme, in lower case."""
    match = _URL_HOST.match(address)
    return match.group(1).lower().strip("[]") if match else ""


def is_local(host: str) -> bool:
    """Return whether a host is this machine."""
    return _LOCAL.fullmatch(host) is not None


# Searches with `find` and `fd`

EXECUTES = frozenset("-exec -execdir -ok -okdir -x --exec -X --exec-batch".split())
_NAMED_BY = frozenset("-name -iname -path -ipath -wholename -e --extension -g --glob".split())
_NOT, _OR = frozenset(("!", "-not")), frozenset(("-o", "-or", ","))
_ACTS = EXECUTES | frozenset("-print -print0 -printf -ls -delete -fprint -fprint0 -fprintf -fls".split())


class Search(NamedTuple):
    """Every pattern that a search looks for, and whether everything that it finds fits one of them."""

    wanted: list[str]
    is_limited: bool


def read_search(arguments: list[str]) -> Search:
    """Return what a search looks for, read without its brackets: each alternative needs a name before it acts.

    Behind `!` before a bracket any name may be wanted, and nothing is limited.
    """
    rest, words = iter(arguments), list[str]()
    for argument in rest:
        words.append(argument)
        if argument in EXECUTES:
            list(takewhile(lambda part: part not in (";", "+"), rest))
    words = _without_pruned(words)
    is_turned = any(first in _NOT and (second == "(" or second in _NOT) for first, second in pairwise(words))
    names: list[str] = []
    is_limited, has_name, acts = True, False, False
    for before, word, value in zip(["", *words], [*words, "-o"], [*words[1:], "", ""], strict=False):
        if word in _NAMED_BY and (is_turned or before not in _NOT):
            names.append(value)
            has_name |= not acts
        elif word in _OR:
            is_limited, has_name, acts = is_limited and has_name, False, False
        acts |= word in _ACTS
    return Search(names, is_limited and not is_turned)


def _without_pruned(words: list[str]) -> list[str]:
    """Return what stands behind the last `-prune -o`, where nothing but that is acted on."""
    ends = [at for at, pair in enumerate(pairwise(words)) if pair[0] == "-prune" and pair[1] in _OR]
    if not ends or "(" in words or not _ACTS.isdisjoint(words[: ends[-1]]) or _ACTS.isdisjoint(words):
        return words
    return words[ends[-1] + 2 :]
