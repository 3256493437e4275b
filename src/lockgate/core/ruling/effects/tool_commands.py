"""A tool that is named after a program or a cloud's service -> the command lines that do the same.

`kubectl_delete`, `iam_attach_user_policy` and `docker` with its words in an argument are read through the same rows as
`kubectl delete …`: the words of the name are command words, the arguments options or operands. A name does not say
which, so several spellings are read, and the gravest that a program has a row for counts. A REST request is named by
its method and path.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import dropwhile, islice

from lockgate.core.ruling.arguments import Leaf, argument_words
from lockgate.core.ruling.effects.activity import NO_ACTIVITY
from lockgate.core.ruling.effects.project import NO_PROJECT
from lockgate.core.ruling.effects.shell import read_command
from lockgate.core.ruling.effects.tool_arguments import ROLES, has_role, name_parts, quote_word
from lockgate.core.ruling.effects.tool_names import singular
from lockgate.core.ruling.targets import is_local_host
from lockgate.core.ruling.tool_risk import (
    CACHED_NAMES,
    EFFECTS,
    MAX_NAME,
    NOUNS,
    TABLE,
    VERBS,
    WORDS,
    has_common_name,
    split_server,
    tool_words,
)
from lockgate.core.tables import read_table

_MAX_WORDS = 7
_MAX_ARGUMENTS = 24
_MAX_VALUE = 500
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+(?:\d+(?:[a-z](?![a-z]))?)?|[A-Z]+\d*|\d+")
_PROGRAM = re.compile(r"[a-z][a-z0-9-]{1,30}")
_CAMEL = re.compile(r"(?:[A-Z][a-z0-9]+){2,8}")
_ADDRESS = re.compile(r"(?:[a-z][a-z0-9+.-]{0,20}://([^/?#\s]*))?(/[^\s]*)?$", re.IGNORECASE)
# An identifier is no word of what is asked for.
_SEGMENT = re.compile(r"[A-Za-z][A-Za-z._:-]{1,39}")
_ACTION = re.compile(r"[?&]Action=([A-Za-z]{3,60})")
_EVERYDAY = VERBS | WORDS["looks"] | WORDS["looks vaguely"] | NOUNS | WORDS["no program"]
# The program that a first word stands for, by the words before the tool's own: `iam` is `aws iam`.
_COMMANDS = {
    word: command.replace("*", word)
    for words, command in read_table(EFFECTS, TABLE, "commands", ("words", "command"))
    for word in words.split()
}


def commands_of(tool: str, arguments: Mapping[str, object]) -> list[str]:
    """Return the command lines that a call of this tool may stand for; none for a tool that no program has named."""
    # A list whose first word is a program may be what runs, whatever the tool is called.
    lists = [value for value in arguments.values() if isinstance(value, list | tuple) and len(value) > 1]
    lines = [" ".join(quote_word(str(word)[:_MAX_VALUE]) for word in value) for value in lists if _may_run(value[0])]
    for head in _heads(tool) if len(tool) <= MAX_NAME else ():
        # What runs elsewhere may have to stand behind a `--`: `kubectl exec web -- cat x`.
        parts = _read_kinds(f"{head} x -- true") == {"looks"} != _read_kinds(f"{head} x")
        endings = dict.fromkeys(_endings(head, arguments, "-- " if parts else ""))
        lines += [" ".join(filter(None, (head, ending))) for ending in endings]
    return lines


def guessed_kinds(tool: str) -> frozenset[str]:
    """Return what the program that a tool is named after may do by any command, where no row knows this one."""
    heads = _heads(tool) if len(tool) <= MAX_NAME else ()
    return _unknown_kinds(heads[0]) if heads and not is_known_command(tool) else frozenset()


def is_known_command(tool: str) -> bool:
    """Return whether the name of a tool is a program with command words that a row knows."""
    heads = _heads(tool) if len(tool) <= MAX_NAME else ()
    return bool(heads) and _read_kinds(heads[0]) != _unknown_kinds(heads[0])


def _may_run(word: object) -> bool:
    return (
        isinstance(word, str) and _PROGRAM.fullmatch(word) is not None and word not in _EVERYDAY - WORDS["interpreter"]
    )


@lru_cache(maxsize=CACHED_NAMES)
def _heads(tool: str) -> tuple[str, ...]:
    """Return how the command line begins: with a program and the command words that a row knows, and with options."""
    server, own = split_server(tool)
    for name in () if has_common_name(tool) else (own, f"{server}_{own}"):
        words = [word.lower() for word in _WORD.findall(name)]
        words = words[1:] if words[:1] in (["run"], ["execute"], ["call"]) else words
        for count in (3, 2, 1):
            first = "-".join(words[:count])
            # A tool may say that it is a command line: `aws_cli`, `run_gh_command`.
            rest = list(dropwhile(WORDS["command line"].__contains__, words[count : count + _MAX_WORDS]))
            program = _program(first, rest)
            heads = (
                tuple(_known_spellings(program, rest, is_everyday=first in _EVERYDAY))
                if program and len(words) >= count
                else ()
            )
            if heads:
                return heads
    return ()


def _program(first: str, rest: Sequence[str]) -> str:
    """Return the program that the first words of a name stand for; a service may have one for commands of one word."""
    programs = _COMMANDS.get(first, first).split(", ")
    return programs[0] if len(rest) < 2 else programs[-1]


def _known_spellings(program: str, words: list[str], *, is_everyday: bool) -> Iterator[str]:
    unknown = _unknown_kinds(program)
    # `iam_revoke` is no command of a cloud, and `find_files` none of a shell: there a row has to know the words.
    if is_everyday or (" " in program and len(words) < 2 and "s3" not in program):
        unknown = _read_kinds(f"{program} zzz")
        if not words or _read_kinds(" ".join([program, *words])) == unknown:
            return
    known = next((line for line in _spellings(program, words) if _read_kinds(line) != unknown), "")
    if not known and unknown == {"runs-program"}:
        return
    yield known or " ".join([program, *words])
    # `git_push_force` has its option in its name.
    for at in range(len(words)):
        options = [program, *words[:at], *(f"--{word}" for word in words[at:])]
        if _read_kinds(" ".join(options)) not in (unknown, _read_kinds(" ".join(options[: at + 1]))):
            yield " ".join(options)


def _unknown_kinds(line: str) -> frozenset[str]:
    """Return the kinds of a program's command of which no row knows anything."""
    return _read_kinds(f"{line.partition(' ')[0]} zzz")


@lru_cache(maxsize=CACHED_NAMES)
def _read_kinds(line: str) -> frozenset[str]:
    return frozenset(each.kind for each in read_command(line, "", NO_PROJECT, NO_ACTIVITY))


def _spellings(program: str, words: list[str]) -> Iterator[str]:
    """Yield the words as a program's command words: each by itself, or some of them joined by hyphens."""
    joined = [" ".join([program, *words[:at], "-".join(words[at:])]) for at in range(len(words))]
    # The services of a cloud have one command: `aws iam attach-user-policy`.
    yield from joined[:1] if " " in program else ()
    yield " ".join([program, *words])
    yield from joined
    for at in range(1, len(words) - 2):
        yield " ".join([program, *words[:at], "-".join(words[at : at + 2]), *words[at + 2 :]])


def _endings(head: str, arguments: Mapping[str, object], separator: str) -> Iterator[str]:
    """Yield how the arguments may stand behind the command words: as operands, options, or each as its name says."""
    given = sorted(islice(_given(arguments), _MAX_ARGUMENTS), key=lambda pair: _rank(pair[0]))
    words = [word for key, value in given if _rank(key) == 0 for word in _command_words(value)]
    line = " ".join(value for key, value in given if _rank(key) == _LINE)
    line = line.strip().removeprefix(head.partition(" ")[0] + " ")
    line = separator + line if line else ""
    others = [(key, value) for key, value in given if 0 < _rank(key) < _LINE or not value]
    for is_operand in (_may_be_operand, bool, _never)[: 2 if separator else 3]:
        spelled = [_spell(key, value, is_operand=is_operand(key)) for key, value in others]
        # Options stand before operands.
        yield " ".join([*words, *sorted(spelled, key=lambda word: not word.lstrip("'").startswith("-")), line])


def _spell(key: str, value: str, *, is_operand: bool) -> str:
    if value == "":
        return _option(key)
    short = value if len(value) <= _MAX_VALUE and "\n" not in value else "-"
    return quote_word(short) if is_operand and short != "-" else quote_word(f"{_option(key)}={short}")


def _given(arguments: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield name and value of each argument, without a value for one that is switched on; a list has several."""
    for key, value in arguments.items():
        if isinstance(value, Mapping):
            if name_parts(key).isdisjoint(ROLES["holds arguments"]):
                yield key, "-"
            yield from _given(value)
        elif isinstance(value, list | tuple):
            for item in value:
                yield from _given({singular(key) if _rank(key) != _LINE else key: item})
        elif isinstance(value, bool) or value is None:
            if value:
                yield key, ""
        elif isinstance(value, int | float):
            yield key, str(value)[:_MAX_VALUE]
        elif isinstance(value, str) and value:
            yield key, value


def _rank(key: str) -> int:
    """Return where an argument stands: command words, then what is acted on, then where to, then a line of its own."""
    parts = name_parts(key)
    return next((rank for rank, role in _RANKS if not parts.isdisjoint(ROLES[role])), 2)


_LINE = 4
_RANKS = ((0, "command word"), (_LINE, "line"), (1, "operand first"), (3, "operand last"))


def _command_words(value: str) -> list[str]:
    # `AttachUserPolicy` is `attach-user-policy`.
    words = _WORD.findall(value) if _CAMEL.fullmatch(value) else []
    return ["-".join(words).lower()] if words else [quote_word(word) for word in value.split()[:_MAX_WORDS]]


def _option(key: str) -> str:
    words = [word.lower() for word in _WORD.findall(key)] or [key]
    return f"-{key}" if len(key) == 1 else "--" + "-".join(words)


def _may_be_operand(key: str) -> bool:
    words = argument_words(key)
    return (
        words[-1:] != () and words[-1] in ROLES["operand"] and len(words) <= 1 + (words[-1] in ("name", "path", "type"))
    )


def _never(key: str) -> bool:
    return not key


def rest_name(tool: str, leaves: Sequence[Leaf]) -> tuple[str, Leaf] | None:
    """Return a REST request as a tool's name, with its method as the verb and its path as words, and its address."""
    verb = _VERBS.get(_method(tool, leaves), "")
    for address in leaves if verb else ():
        match = _ADDRESS.match(address.text) if has_role(address.argument, "address") else None
        if match is not None:
            host, path = match[1] or "", match[2] or ""
            return None if is_local_host(host.partition(":")[0]) else (_name_of(verb, host, path), address)
    return None


def _name_of(verb: str, host: str, path: str) -> str:
    action = _ACTION.search(path)
    if action:
        return f"{host.partition('.')[0]}_{action[1]}"[:MAX_NAME]
    segments = path.partition("?")[0].replace("/pulls/", "/pull_request/").split("/")
    named = [segment for segment in segments if _SEGMENT.fullmatch(segment)]
    return "_".join((verb, *named))[:MAX_NAME].replace(":", "_").replace(".", "_")


def _method(tool: str, leaves: Sequence[Leaf]) -> str:
    words = frozenset(tool_words(tool))
    named = () if WORDS["protocol"].isdisjoint(words) else [word.upper() for word in words if word.upper() in _VERBS]
    return next((leaf.text.upper() for leaf in leaves if _is_method(leaf)), next(iter(named), ""))


def _is_method(leaf: Leaf) -> bool:
    return leaf.text in _METHODS or (has_role(leaf.argument, "method") and leaf.text.upper() in _METHODS)


_VERBS = {"POST": "create", "PUT": "set", "PATCH": "update", "DELETE": "delete"}
_METHODS = frozenset((*_VERBS, "GET", "HEAD", "OPTIONS"))
