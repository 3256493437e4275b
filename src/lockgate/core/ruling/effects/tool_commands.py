"""A tool that is named after a program or a cloud's service -> the command line that does the same.

`kubectl_delete`, `create_iam_user` and `docker` with its words in an argument are read through the same rows as
`kubectl delete …`: the words of the name are looked up among the command words of the program, in any order, and an
argument is the option of its name and, unless a row has that option, an operand too. A REST request is named by its
method and path.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from lockgate.core.ruling.arguments import Leaf
from lockgate.core.ruling.effects.effect import KINDS, SPENDS, Severity
from lockgate.core.ruling.effects.programs.program_rows import commands_of_program, find_row
from lockgate.core.ruling.effects.tool_arguments import ROLES, acts_by_argument, has_role, name_parts, quote_word
from lockgate.core.ruling.targets import is_local_host
from lockgate.core.ruling.tool_risk import (
    CACHED_NAMES,
    EFFECTS,
    GROUPS,
    MAX_NAME,
    NOUNS,
    TABLE,
    VERBS,
    WORDS,
    has_common_name,
    read_tool_name,
    read_words,
    singular,
    split_server,
    tool_words,
)
from lockgate.core.tables import read_table

_MAX_WORDS = 12
_MAX_ARGUMENTS = 24
_MAX_VALUE = 500
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+(?:\d+(?:[a-z](?![a-z]))?)?|[A-Z]+\d*|\d+")
_PROGRAM = re.compile(r"[a-z][a-z0-9-]{1,30}")
_ADDRESS = re.compile(r"(?:[a-z][a-z0-9+.-]{0,20}://([^/?#\s]*))?(/[^\s]*)?$", re.IGNORECASE)
# An identifier is no word of what is asked for.
_SEGMENT = re.compile(r"[A-Za-z][A-Za-z._:-]{1,39}")
_ACTION = re.compile(r"[?&]Action=([A-Za-z]{3,60})")
_LOOKS = WORDS["looks"] | WORDS["looks vaguely"]
_EVERYDAY = VERBS | _LOOKS | NOUNS | WORDS["no program"]
# The program that a word stands for: `iam` is `aws iam`.
_COMMANDS = {
    word: command.replace("*", word)
    for words, command in read_table(EFFECTS, TABLE, "commands", ("words", "command"))
    for word in words.split()
}
_SAME_WORDS = {
    word: short for short, words in read_words("same command words", "command word").items() for word in words
}
_VERB_FIRST, _VERB_LAST = WORDS["verb first"], WORDS["verb last"]
_CLOUDS = _VERB_FIRST | _VERB_LAST


class ToolCommand(NamedTuple):
    """The command line of a tool, and what knows its command words: a row `whole` or in part, a `cloud`, or nothing.

    A `list` of words may be a command line, and takes nothing away from what the name says.
    """

    line: str
    known: str


class _Head(NamedTuple):
    """A program with command words, what knows these, and the words that are left."""

    program: str
    words: tuple[str, ...]
    known: str
    left: tuple[str, ...]


def commands_of(tool: str, arguments: Mapping[str, object]) -> list[ToolCommand]:
    """Return the command lines that a call of this tool may stand for; none for a tool that no program has named."""
    commands = list[ToolCommand]()
    if len(tool) <= MAX_NAME and not has_common_name(tool):
        given = sorted(islice(_given(arguments), _MAX_ARGUMENTS), key=lambda pair: _rank(pair[0]))
        said = tuple(word for key, value in given if _rank(key) == 0 for word in _words(value)[:_MAX_WORDS])
        commands += [_command(head, given) for head in _find_heads(tool, said)]
    # A list whose first word is a program may be what runs, whatever the tool is called; a list of packages is none.
    lists = [value for value in arguments.values() if isinstance(value, list | tuple) and len(value) > 1]
    lines = [" ".join(quote_word(str(word)[:_MAX_VALUE]) for word in value) for value in lists if _may_run(value[0])]
    return [*commands, *(ToolCommand(line, "list") for line in lines)]


def _may_run(word: object) -> bool:
    is_name = isinstance(word, str) and _PROGRAM.fullmatch(word) is not None
    return is_name and word not in _EVERYDAY - WORDS["interpreter"]


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


@lru_cache(maxsize=CACHED_NAMES)
def _find_heads(tool: str, said: tuple[str, ...]) -> tuple[_Head, ...]:
    """Return how a command line begins by the program that a tool's name has, at its beginning or anywhere."""
    server, own = split_server(tool)
    for name in (own, f"{server}_{own}"):
        words = _words(name)[:_MAX_WORDS]
        for at in range(len(words)):
            for count in (3, 2, 1):
                first = "-".join(words[at : at + count])
                program = _COMMANDS.get(first, first if commands_of_program(first) is not None else "")
                if program and at + count <= len(words):
                    rest = [*words[:at], *words[at + count :], *said]
                    heads = tuple(_match(program, rest, is_sure=not at and first not in _EVERYDAY))
                    if heads:
                        return heads
    return ()


_FILLER = WORDS["command line"] | WORDS["no object"]


def _match(program: str, rest: Sequence[str], *, is_sure: bool) -> Iterator[_Head]:
    name, service, rest = _split_service(program, rest)
    parts, key = _fitting_key(name, (*service, *rest))
    is_joined = "".join(_words(key)) == "".join((*service, *rest))
    rest = [word for word in rest if word not in _FILLER]
    if len(parts) > len(service):
        left = () if is_joined else tuple(word for word in rest if _normal(word) not in parts)
        yield _Head(name, tuple(key.split()), "row", left)
        if not left:
            return
    elif name in _VERB_LAST or service:
        yield from _match_cloud(name, service, rest, is_sure=is_sure)
        return
    # What no row knows may be read by its first word: `redis_config_set` is no `set`.
    if is_sure:
        yield _Head(name, (*service, *rest), "", tuple(rest))


def _split_service(program: str, rest: Sequence[str]) -> tuple[str, list[str], Sequence[str]]:
    name, *service = program.split()
    plain = [word for word in rest if word not in _FILLER]
    if name in _VERB_FIRST and not service and plain and plain[0] not in _EVERYDAY - NOUNS:
        return name, [plain[0]], plain[1:]
    return name, service, rest


def _fitting_key(name: str, words: Sequence[str]) -> tuple[frozenset[str], str]:
    """Return the command words of a program that are among these, in any order or joined; empty where none are."""
    normal, joined = [*map(_normal, words)], "".join(words)
    keys = [(_key_words(key), key) for key in commands_of_program(name) or ()]
    fitting = [(parts, key) for parts, key in keys if parts.issubset(normal) or "".join(_words(key)) == joined]
    # Of two that fit, the one whose word comes first: `git_branch_delete` is no `git rm`.
    fitting.sort(key=lambda pair: min(map(normal.index, pair[0] & {*normal}), default=0))
    return max(fitting, key=lambda pair: len(pair[0]), default=(frozenset[str](), ""))


def _match_cloud(name: str, service: Sequence[str], rest: list[str], *, is_sure: bool) -> Iterator[_Head]:
    """Yield a cloud's command, of which no row has the words: `iam attach-user-policy`, `role assignment create`."""
    if not rest and not service and is_sure:
        yield _Head(name, (), "", ())
    at = next((at for at, word in enumerate(rest) if word in VERBS | _LOOKS), 0 if is_sure and rest else -1)
    if at < 0 or (len(rest) == 1 and (not is_sure or rest[0] in GROUPS["TAKES"] - {"delete"})):
        return
    if name in _VERB_FIRST:
        words = ["s3api" if service == ["s3"] else "".join(service), "-".join([*rest[at:], *rest[:at]])]
    else:
        words = [*rest[:at], "-".join(rest[at:])] if at else [*rest[1:], rest[0]]
    yield _Head(name, tuple(words), "cloud", tuple(rest))


@lru_cache(maxsize=CACHED_NAMES)
def _key_words(key: str) -> frozenset[str]:
    return frozenset(map(_normal, _words(key)))


def _normal(word: str) -> str:
    word = singular(word)
    return _SAME_WORDS.get(word, word)


def _command(head: _Head, given: Sequence[tuple[str, str]]) -> ToolCommand:
    """Return the command with the arguments: options stand before operands, and a line of its own at the end."""
    row = find_row(head.program, list(head.words))[0]
    known = row.options if row is not None else {}
    switches = [f"--{word}" for word in head.left if f"--{word}" in known]
    is_whole = head.known == "row" and len(switches) == len(head.left)
    options, operands = _place_arguments(head, given, known)
    # Behind so many operands a program starts what follows.
    most = None if row is None or row.rest_at < 0 else row.rest_at
    line = " ".join(value for key, value in given if _rank(key) == _LINE).strip().removeprefix(head.program + " ")
    # Where no command word is known, the line has them.
    ending = (*switches, *options, *operands[:most], line) if head.known else (line, *switches, *options, *operands)
    words = (head.program, *head.words, *ending)
    return ToolCommand(" ".join(filter(None, words)), "whole" if is_whole else head.known)


def _place_arguments(
    head: _Head, given: Sequence[tuple[str, str]], known: Collection[str]
) -> tuple[list[str], list[str]]:
    """Return the options and the operands; an argument that says the command words again is none of these."""
    used = frozenset(map(_normal, (*head.words, *"-".join(head.words).split("-"))))
    # `--package` is an option of `cargo add` too, and what is added may be called so.
    installs = not WORDS["installs"].isdisjoint(head.words)
    options, operands = list[str](), list[str]()
    for key, value in given:
        rank, is_text = _rank(key), _is_text(key, value)
        if rank == _LINE or (rank == 0 and used.issuperset(map(_normal, _words(value)))):
            continue
        is_option = not value or is_text or _option(key) in known
        if is_option or head.program in _CLOUDS:
            options.append(quote_word(f"{_option(key)}={value[:_MAX_VALUE]}") if value else _option(key))
        if not is_option or rank == _LAST or (installs and not is_text and has_role(key, "package")):
            operands.append(quote_word(value))
    return options, operands


def _is_text(key: str, value: str) -> bool:
    return has_role(key, "prose") or len(value) > _MAX_VALUE or "\n" in value


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


_LAST, _LINE = 3, 4
_RANKS = ((0, "command word"), (_LINE, "line"), (1, "operand first"), (_LAST, "operand last"))


def _option(key: str) -> str:
    return f"-{key}" if len(key) == 1 else "--" + "-".join(_words(key) or [key])


def rest_request(tool: str, leaves: Sequence[Leaf]) -> tuple[str, Leaf] | None:
    """Return a REST request as a tool's name, as `name_of_request` writes it, and its address."""
    words = tool_words(tool)
    stated = [leaf.text for leaf in leaves if has_role(leaf.argument, "method") or leaf.text in _METHODS]
    # Of a tool by the name of the protocol the method may be a word of the name.
    stated += words if not WORDS["protocol"].isdisjoint(words) else ()
    method = next((text.upper() for text in stated if text.upper() in _METHODS), "")
    addresses = (leaf for leaf in leaves if has_role(leaf.argument, "address") and _ADDRESS.match(leaf.text))
    address = next(addresses, None)
    name = name_of_request(method, address.text) if address is not None else ""
    return (name, address) if name and address is not None else None


def name_of_request(method: str, address: str) -> str:
    """Return a request that changes something elsewhere as a tool's name: its method as the verb, its path as words."""
    verb, match = _VERBS.get(method.upper(), ""), _ADDRESS.match(address)
    host, path = (match[1] or "", match[2] or "") if match else ("", "")
    machine, _, port = host.partition(":")
    # A program of the project listens here, or what rules over all containers of the machine.
    if not verb or not match or (is_local_host(machine) and port not in WORDS["administration port"]):
        return ""
    if action := _ACTION.search(path):
        return f"{host.partition('.')[0]}_{action[1]}"[:MAX_NAME]
    segments = path.partition("?")[0].replace("/pulls/", "/pull_request/").split("/")
    named = [segment for segment in segments if _SEGMENT.fullmatch(segment)]
    return "_".join((verb, *named))[:MAX_NAME].replace(":", "_").replace(".", "_")


def kinds_of_request(name: str, body: Mapping[str, object]) -> list[str]:
    """Return what a request by this name with this body does, where it is more than sending data."""
    if not name:
        return []
    request = read_tool_name(name)
    # A password is mostly used where it is sent, and not changed.
    stated = {act.kind for act in acts_by_argument(request, body)} - {"changes-login", *SPENDS}
    kinds = sorted({request.kind, *stated}, key=lambda kind: -KINDS[kind].severity)
    return [kind for kind in kinds if KINDS[kind].severity >= Severity.OPENS_A_DOOR or kind in SPENDS]


_VERBS = {"POST": "create", "PUT": "set", "PATCH": "update", "DELETE": "delete"}
_METHODS = frozenset((*_VERBS, "GET", "HEAD", "OPTIONS"))
