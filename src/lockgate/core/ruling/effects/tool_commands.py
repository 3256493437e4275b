"""A tool that is named after a program, or a REST request -> the command line or the name that does the same.

`kubectl_delete`, `create_iam_user` and `docker` with its words in an argument are read through the same rows as
`kubectl delete …`: the words of the name are looked up among the command words of the program, in any order, and an
argument is the option of its name and, unless a row has that option, an operand too. A request is named by its method
and path.
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
from lockgate.core.ruling.effects.tool_arguments import METHODS, acts_by_argument, has_role, quote_word, roles_of
from lockgate.core.ruling.targets import is_local_host
from lockgate.core.ruling.tool_risk import (
    CACHED_NAMES,
    EFFECTS,
    GROUPS,
    MAX_NAME,
    NOUNS,
    SURE_VERBS,
    TABLE,
    VERBS,
    WORDS,
    read_tool_name,
    read_words,
    singular,
    split_server,
    tool_words,
)
from lockgate.core.tables import read_table

_MAX_WORDS, _MAX_ARGUMENTS, _MAX_VALUE = 12, 24, 500
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+(?:\d+(?:[a-z](?![a-z]))?)?|[A-Z]+\d*|\d+")
_PROGRAM = re.compile(r"[a-z][a-z0-9-]{1,30}")
_ADDRESS = re.compile(r"(?:[a-z][a-z0-9+.-]{0,20}://([^/?#\s]*))?(/[^\s]*)?$", re.IGNORECASE)
# A repository is the place of what is asked for, where more follows; an identifier is no word of it.
_REPOSITORY = re.compile(r"/(?:repos/[^/]+|projects)/[^/]+(?=/.)")
_SEGMENT = re.compile(r"[A-Za-z][A-Za-z._:-]{1,39}")
_SEPARATORS = str.maketrans(":.", "__")
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
_ROUTE_ROLES = frozenset(("states", "address", "method", "action"))
_FILLER = WORDS["command line"] | WORDS["no object"]
# Where an argument stands: command words, then what is acted on, then where to, then a line of its own.
_LAST, _LINE = 2, 3
_RANKS = ((0, "command word"), (0, "program"), (_LINE, "line"), (_LAST, "operand last"))


class ToolCommand(NamedTuple):
    """The command line that a tool stands for: whether a row has words of the tool's name, and whether it has all."""

    line: str
    is_known: bool
    is_whole: bool


class _Head(NamedTuple):
    """A program with command words, whether a row knows these, and the words that are left."""

    program: str
    words: tuple[str, ...]
    is_row: bool
    left: tuple[str, ...] = ()


def may_run(word: str) -> bool:
    """Return whether the first word of a list may be a program."""
    name = word.rpartition("/")[2]
    return _PROGRAM.fullmatch(name) is not None and name not in _EVERYDAY - WORDS["interpreter"]


def command_of(tool: str, arguments: Mapping[str, object]) -> ToolCommand | None:
    """Return the command line that a call of this tool may stand for; None for a tool that no program has named."""
    if len(tool) > MAX_NAME or read_tool_name(tool).common:
        return None
    if not _programs_in(tool) and not any(has_role(key, "program") for key in islice(arguments, _MAX_ARGUMENTS)):
        return None
    given = sorted(islice(_given(arguments), _MAX_ARGUMENTS), key=lambda pair: _rank(pair[0]))
    said = tuple(word for key, value in given if has_role(key, "command word") for word in _words(value)[:_MAX_WORDS])
    programs = [value for key, value in given if has_role(key, "program") and commands_of_program(value) is not None]
    head = _find_head("_".join((*programs[:1], tool)), said)
    return _command(head, given) if head is not None else None


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


@lru_cache(maxsize=CACHED_NAMES)
def _programs_in(tool: str) -> Sequence[tuple[str, list[str], bool]]:
    """Return the programs that a tool's name has, with its other words, and whether it surely is that program's."""
    server, own = split_server(tool)
    found = []
    for name in (own, f"{server}_{own}"):
        words = _words(name)[:_MAX_WORDS]
        for at, end in ((at, at + count) for at in range(len(words)) for count in (3, 2, 1)):
            first = "-".join(words[at:end])
            program = _COMMANDS.get(first, first if commands_of_program(first) is not None else "")
            if program and end <= len(words):
                found.append((program, [*words[:at], *words[end:]], not at and first not in _EVERYDAY))
    return found


@lru_cache(maxsize=CACHED_NAMES)
def _find_head(tool: str, said: tuple[str, ...]) -> _Head | None:
    """Return how a command line begins by the program that a tool's name has, at its beginning or anywhere."""
    heads = (_match(program, [*words, *said], is_sure=is_sure) for program, words, is_sure in _programs_in(tool))
    return next(filter(None, heads), None)


def _match(program: str, rest: Sequence[str], *, is_sure: bool) -> _Head | None:
    name, *service = program.split()
    plain = [word for word in rest if word not in _FILLER]
    if name in WORDS["verb first"] and not service and plain and plain[0] not in _EVERYDAY - NOUNS:
        service, rest = plain[:1], plain[1:]
    head = _match_row(name, service, rest, is_sure=is_sure)
    if head is not None:
        return head
    rest = [word for word in rest if word not in _FILLER]
    if service:
        is_command = len(rest) > 1 or not GROUPS["TAKES"].issuperset(rest)
        words = ("s3api" if service == ["s3"] else service[0], "-".join(rest))
        return _Head(name, words, False) if is_command else None
    # What no row knows is read as it stands.
    return _Head(name, tuple(rest), False) if is_sure else None


def _match_row(name: str, service: Sequence[str], rest: Sequence[str], *, is_sure: bool) -> _Head | None:
    parts, key = _fitting_key(name, (*service, *rest))
    if len(parts) <= len(service):
        return None
    left = tuple(word for word in rest if word not in _FILLER and _normal(word) not in parts)
    if "".join(_words(key)) == "".join((*service, *rest)) or not left:
        return _Head(name, tuple(key.split()), True)
    # `get_workflow_run` is no `workflow run`, and `redis_config_set` no `set`.
    is_other = not _LOOKS.isdisjoint(left) or (is_sure and rest[0] == left[0])
    return None if is_other else _Head(name, tuple(key.split()), True, left)


def _fitting_key(name: str, words: Sequence[str]) -> tuple[frozenset[str], str]:
    """Return the command words of a program that are among these, in any order or joined; empty where none are."""
    normal, joined = [*map(_normal, words)], "".join(words)
    keys = [(frozenset(map(_normal, _words(key))), key) for key in commands_of_program(name) or ()]
    fitting = [(parts, key) for parts, key in keys if parts.issubset(normal) or "".join(_words(key)) == joined]
    # Of two that fit, the one whose word comes first: `git_branch_delete` is no `git rm`.
    fitting.sort(key=lambda pair: min(map(normal.index, pair[0] & {*normal}), default=0))
    return max(fitting, key=lambda pair: len(pair[0]), default=(frozenset[str](), ""))


def _normal(word: str) -> str:
    word = singular(word)
    return _SAME_WORDS.get(word, word)


def _command(head: _Head, given: Sequence[tuple[str, str]]) -> ToolCommand:
    """Return the command with the arguments: options stand before operands, and a line of its own at the end."""
    row = find_row(head.program, list(head.words))[0]
    known = row.options if row is not None else {}
    switches = [f"--{word}" for word in head.left if f"--{word}" in known]
    options, operands = _place_arguments(head, given, known)
    # Behind so many operands a program starts what follows.
    most = None if row is None or row.rest_at < 0 else row.rest_at
    line = " ".join(value for key, value in given if _rank(key) == _LINE).strip().removeprefix(head.program + " ")
    # Where no command word is known, the line has them.
    ending = (*switches, *options, *operands[:most], line) if head.is_row else (line, *switches, *options, *operands)
    words = filter(None, (head.program, *head.words, *ending))
    return ToolCommand(" ".join(words), head.is_row, head.is_row and len(switches) == len(head.left))


def _place_arguments(
    head: _Head, given: Sequence[tuple[str, str]], known: Collection[str]
) -> tuple[list[str], list[str]]:
    """Return the options and the operands; an argument that says the command words again is none of these."""
    used = frozenset(map(_normal, (head.program, *head.words, *"-".join(head.words).split("-"))))
    # `--package` is an option of `cargo add` too, and what is added may be called so.
    installs = not WORDS["installs"].isdisjoint(head.words)
    is_cloud = head.program in WORDS["cloud"]
    options, operands = list[str](), list[str]()
    for key, value in given:
        rank, option, is_text = _rank(key), _option(key), _is_text(key, value)
        if rank == _LINE or (rank == 0 and used.issuperset(map(_normal, _words(value)))):
            continue
        is_option = not value or is_text or option in known
        if is_option or is_cloud:
            options.append(quote_word(f"{option}={value[:_MAX_VALUE]}") if value else option)
        is_package = installs and not is_text and has_role(key, "package")
        if not is_option or rank == _LAST or is_package:
            operands.append(quote_word(value))
    return options, operands


def _is_text(key: str, value: str) -> bool:
    return has_role(key, "prose") or len(value) > _MAX_VALUE or "\n" in value


def _option(key: str) -> str:
    return f"-{key}" if len(key) == 1 else "--" + "-".join(_words(key) or [key])


def _given(arguments: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield name and value of each argument, without a value for one that is switched on; a list has several."""
    for key, value in arguments.items():
        if isinstance(value, Mapping):
            if not has_role(key, "holds arguments"):
                yield key, "-"
            yield from _given(value)
        elif isinstance(value, list | tuple):
            for item in value:
                yield from _given({singular(key) if _rank(key) != _LINE else key: item})
        elif isinstance(value, str) and value:
            yield key, value
        elif isinstance(value, int | float) and value is not False:
            yield key, "" if value is True else str(value)[:_MAX_VALUE]


def _rank(key: str) -> int:
    return next((rank for rank, role in _RANKS if role in roles_of(key)), 1)


# REST requests


_VERBS = {"POST": "create", "PUT": "set", "PATCH": "update", "DELETE": "delete", "GET": "get"}


def rest_request(tool: str, leaves: Sequence[Leaf]) -> tuple[str, Leaf] | None:
    """Return a REST request as a tool's name, as `name_of_request` writes it, and its address."""
    stated = [leaf.text.upper() for leaf in leaves if leaf.text in METHODS or "method" in roles_of(leaf.argument)]
    # Of a tool by the name of the protocol the method may be a word of the name.
    stated += map(str.upper, words) if not WORDS["protocol"].isdisjoint(words := tool_words(tool)) else ()
    pairs = [(method, leaf) for method in stated if method in METHODS for leaf in _addresses(leaves)]
    # Method and path may be one text: `DELETE /repos/{owner}/{repo}`.
    routes = [(leaf, leaf.text.split(" ", 1)) for leaf in leaves if " /" in leaf.text[:8]]
    routes = [(leaf, parts) for leaf, parts in routes if not roles_of(leaf.argument).isdisjoint(_ROUTE_ROLES)]
    pairs += [(parts[0], Leaf(leaf.argument, parts[1])) for leaf, parts in routes if parts[0] in METHODS]
    named = [(name_of_request(method, leaf.text), leaf) for method, leaf in pairs[:_MAX_ARGUMENTS]]
    # Of several addresses the gravest counts: one may only be told.
    return max(filter(lambda pair: pair[0], named), key=lambda pair: _gravity(pair[0]), default=None)


def _gravity(request: str) -> int:
    return KINDS[read_tool_name(request).kind].severity


def _addresses(leaves: Sequence[Leaf]) -> list[Leaf]:
    """Return the addresses among the values; a host and a path in two arguments are one."""
    addresses = [leaf for leaf in leaves if "address" in roles_of(leaf.argument)]
    hosts = [text for leaf in addresses if "://" in (text := leaf.text.rstrip("/")) and text.count("/") == 2]
    paths = [leaf for leaf in addresses if hosts and leaf.text[:1] == "/"]
    return [Leaf(leaf.argument, hosts[0] + leaf.text) for leaf in paths] + addresses


def name_of_request(method: str, address: str) -> str:
    """Return a request as a tool's name: its method as the verb, its path as words; empty for one on this machine."""
    verb, match = _VERBS.get(method.upper(), ""), _ADDRESS.match(address)
    host, path = (match[1] or "", match[2] or "") if match else ("", "")
    machine, _, port = host.partition(":")
    # A program of the project listens here, or what rules over all containers of the machine.
    if not verb or not match or (is_local_host(machine) and port not in WORDS["administration port"]):
        return ""
    if action := _ACTION.search(path):
        return f"{host.partition('.')[0]}_{action[1]}"[:MAX_NAME]
    path, _, query = path.partition("?")
    # A query may name the thing: `?publicAccessBlock`.
    things = [part for part in query.split("&") if verb != "get" and _SEGMENT.fullmatch(part)]
    return "_".join([*_words_of_path(verb, path.rstrip("/")), *things])[:MAX_NAME].translate(_SEPARATORS)


def _words_of_path(verb: str, path: str) -> list[str]:
    segments = _REPOSITORY.sub("", path).replace("/pulls/", "/pull_request/").split("/")
    named = [segment for segment in segments if _SEGMENT.fullmatch(segment)]
    if verb == "get":
        # A page may be about a `secret-santa`, and where many are asked for these are only listed.
        return ["list" if path.endswith("s") else "get", *filter(str.isalpha, named)]
    # `POST …/stop` stops.
    return [*named[-1:], *named[:-1]] if SURE_VERBS.issuperset(named[-1:]) and named else [verb, *named]


def kinds_of_request(name: str, body: Mapping[str, object]) -> list[str]:
    """Return what a request by this name with this body does, where it is more than sending data."""
    if not name:
        return []
    request = read_tool_name(name)
    if name.startswith(("get_", "list_")):
        return [request.kind] if request.kind == "reads-secret" else []
    # A password is mostly used where it is sent, and not changed.
    stated = {act.kind for act in acts_by_argument(request, body)} - {"changes-login", *SPENDS}
    kinds = sorted({request.kind, *stated}, key=lambda kind: -KINDS[kind].severity)
    return [kind for kind in kinds if KINDS[kind].severity >= Severity.OPENS_A_DOOR or kind in SPENDS]
