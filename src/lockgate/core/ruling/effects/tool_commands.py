"""A tool that is named after a program, or a REST request -> the command line or the name that does the same.

`kubectl_delete`, `create_iam_user` and `docker` with its words in an argument are read through the same rows as
`kubectl delete …`: the words of the name are looked up among the command words of the program, in any order, and an
argument is the option of its name and, unless a row has that option, an operand too. A request is named by its method
and path.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from lockgate.core.ruling.arguments import Leaf
from lockgate.core.ruling.effects.effect import KINDS, SPENDS, Severity
from lockgate.core.ruling.effects.programs.program_rows import commands_of_program, find_row
from lockgate.core.ruling.effects.tool_arguments import METHODS, ROLES, acts_by_argument, has_role, quote_word, roles_of
from lockgate.core.ruling.targets import is_local_host
from lockgate.core.ruling.tool_risk import (
    CACHED_NAMES,
    GROUPS,
    MAX_NAME,
    NOUNS,
    SURE_VERBS,
    VERBS,
    WORDS,
    read_tool_name,
    read_words,
    singular,
    split_server,
    tool_rows,
    tool_words,
)

_MAX_WORDS, _MAX_ARGUMENTS, _MAX_VALUE = 12, 24, 500
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+(?:\d+(?:[a-z](?![a-z]))?)?|[A-Z]+\d*|\d+")
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
    for words, command in tool_rows("commands", "words", "command")
    for word in words.split()
}
_SAME_WORDS = {
    word: short for short, words in read_words("same command words", "command word").items() for word in words
}
_FILLER = WORDS["command line"] | WORDS["no object"] | WORDS["anything"]
_STARTS = WORDS["runs"] | _FILLER
# Where an argument stands: command words, then what is acted on, then where to, then a line of its own.
_LAST, _LINE = 2, 3
_RANKS = ((0, "command word"), (0, "program"), (_LINE, "line"), (_LAST, "operand last"))


class ToolCommand(NamedTuple):
    """The command line that a tool stands for: whether a row has words of the tool's name, and whether it has all."""

    line: str
    is_known: bool
    is_whole: bool


def may_run(word: str) -> bool:
    """Return whether the first word of a list may be a program."""
    name = word.rpartition("/")[2]
    return commands_of_program(name) is not None and name not in _EVERYDAY - WORDS["interpreter"]


def command_of(tool: str, arguments: Mapping[str, object]) -> ToolCommand | None:
    """Return the command line that a call of this tool may stand for; None for a tool that no program has named."""
    if len(tool) > MAX_NAME or read_tool_name(tool).common:
        return None
    given = list(islice(_given(arguments), _MAX_ARGUMENTS))
    given.sort(key=lambda pair: (_rank(pair[0]), has_role(pair[0], "command arguments")))
    said = _all_words(value for key, value in given if key.lower() in ROLES["command word"])
    # `run_process` with a program runs that.
    is_run = not WORDS["runs"].isdisjoint((read_tool_name(tool).verb, *said))
    name = _name_with_program(tool, given, is_run=is_run)
    head = _find_head(name, ())
    if head is not None and is_run and (line := _own_line(head, tool, given)) is not None:
        return line
    head = _find_head(name, said, _all_words(value for key, value in given if has_role(key, "object")))
    return _command(head, given) if head is not None else None


def _own_line(head: ToolCommand, tool: str, given: Sequence[tuple[str, str]]) -> ToolCommand | None:
    """Return the line that the arguments make, where that begins with a command of the program.

    `gh` with the action `run` runs it, and so does the tool `run` of a server `gh` that gets nothing else.
    """
    lines, program = [value for key, value in given if _rank(key) == _LINE], head.line.partition(" ")[0]
    is_all = tool_words(tool) == ("run",) and len(lines) == len(given)
    if (head.is_known and not is_all) or not find_row(program, " ".join(lines).split())[1]:
        return None
    return _command(ToolCommand(program, False, False), given)._replace(is_known=True, is_whole=True)


def _name_with_program(tool: str, given: Sequence[tuple[str, str]], *, is_run: bool) -> str:
    """Return the program that an argument names, where the tool only runs it, or the tool's name behind it."""
    programs = [value for key, value in given if has_role(key, "program") and commands_of_program(value) is not None]
    return programs[0] if programs and is_run else "_".join((*programs[:1], tool))


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _all_words(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(word for value in values for word in _words(value)[:_MAX_WORDS])


def _programs_in(tool: str) -> Iterator[tuple[str, list[str], bool]]:
    """Yield the programs that a tool's name has, with its other words, and whether it surely is that program's."""
    server, own = split_server(tool)
    for name in (own, f"{server}_{own}"):
        words = _words(name)[:_MAX_WORDS]
        for at in range(len(words)):
            for count in (3, 2, 1):
                first = "-".join(words[at : at + count])
                program = _COMMANDS.get(first, first if commands_of_program(first) is not None else "")
                if program and at + count <= len(words):
                    # `run_gh` is `gh` with what it is given.
                    before, after = words[:at], words[at + count :]
                    if _STARTS.issuperset([*before, *after]) or _FILLER.issuperset(before):
                        before = []
                    yield program, [*before, *after], not before and first not in _EVERYDAY


@lru_cache(maxsize=CACHED_NAMES)
def _find_head(tool: str, said: tuple[str, ...], things: tuple[str, ...] = ()) -> ToolCommand | None:
    """Return how a command line begins by the program that a tool's name has, at its beginning or anywhere."""
    heads = (_head(program, [*said, *words], things, is_sure=is_sure) for program, words, is_sure in _programs_in(tool))
    return next(filter(None, heads), None)


def _head(program: str, rest: Sequence[str], things: Sequence[str], *, is_sure: bool) -> ToolCommand | None:
    """Return a program with those of its command words that are among the rest, in any order, or with the rest."""
    name, *service = program.split()
    normal = frozenset(map(_normal, (*service, *rest, *things)))
    rest = [word for word in rest if word not in _FILLER]
    fitting = [key for key in commands_of_program(name) or () if normal.issuperset(_key_words(key))]
    key = max(fitting, key=lambda key: len(_key_words(key)), default="")
    left = [word for word in rest if _normal(word) not in _key_words(key)]
    # `get_workflow_run` is no `workflow run`, and `redis_config_set` no `set`.
    is_other = not _LOOKS.isdisjoint(left) or (is_sure and left[:1] == rest[:1])
    if len(_key_words(key)) > len(service) and not (left and is_other):
        return ToolCommand(f"{name} {key}", True, not left)
    return _unknown_head(name, service, rest, is_sure=is_sure)


def _unknown_head(name: str, service: Sequence[str], rest: Sequence[str], *, is_sure: bool) -> ToolCommand | None:
    """Return the beginning of a command that no row knows: as the service would be told, or as it stands."""
    if service and (len(rest) > 1 or not GROUPS["TAKES"].issuperset(rest)):
        return ToolCommand(" ".join((name, "s3api" if service == ["s3"] else service[0], "-".join(rest))), False, False)
    return ToolCommand(" ".join((name, *rest)), False, False) if is_sure and not service else None


@lru_cache(maxsize=CACHED_NAMES)
def _key_words(key: str) -> frozenset[str]:
    return frozenset(map(_normal, _words(key)))


def _normal(word: str) -> str:
    word = singular(word)
    return _SAME_WORDS.get(word, word)


def _command(head: ToolCommand, given: Sequence[tuple[str, str]]) -> ToolCommand:
    """Return the command with the arguments: options stand before operands, and a line of its own at the end."""
    program, *words = head.line.split()
    row = find_row(program, words)[0]
    # An argument that says the command words again is none.
    used = frozenset(map(_normal, (program, *words, *"-".join(words).split("-"))))
    # `--package` is an option of `cargo add` too, and what is added may be called so.
    installs = not WORDS["installs"].isdisjoint(words)
    options, operands, lines = list[str](), list[str](), list[str]()
    for key, value in given:
        rank, is_text = _rank(key), _is_text(key, value)
        if rank == _LINE:
            lines.append(value)
        elif rank or not used.issuperset(map(_normal, _words(value))):
            is_option = not value or is_text or (row is not None and _option(key) in row.options)
            if is_option:
                options.append(_option(key, value))
            if not is_option or rank == _LAST or (installs and not is_text and has_role(key, "package")):
                operands.append(quote_word(value))
    line = " ".join(lines).strip().removeprefix(program + " ")
    # Where no command word is known, the line has them.
    ending = (*options, *operands, line) if head.is_known else (line, *options, *operands)
    return head._replace(line=" ".join(filter(None, (head.line, *ending))))


def _given(arguments: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield name and value of each argument, without a value for one that is switched on; a list has several."""
    for key, value in arguments.items():
        if isinstance(value, Mapping):
            if not has_role(key, "holds arguments"):
                yield key, "-"
            yield from _given(value)
        elif isinstance(value, list | tuple):
            is_line = _rank(key) == _LINE
            for item in value:
                is_word = is_line and len(value) > 1 and isinstance(item, str)
                yield from _given({key if is_line else singular(key): quote_word(item) if is_word else item})
        elif isinstance(value, str) and value:
            yield key, value
        elif value is True:
            yield key, ""
        elif isinstance(value, int | float) and value is not False:
            yield key, str(value)[:_MAX_VALUE]


def _rank(key: str) -> int:
    # `OperationType` is no operation.
    return next((rank for rank, role in _RANKS if has_role(key, role) and (rank or key.lower() in ROLES[role])), 1)


def _is_text(key: str, value: str) -> bool:
    return has_role(key, "prose") or len(value) > _MAX_VALUE or "\n" in value


def _option(key: str, value: str = "") -> str:
    option = f"-{key}" if len(key) == 1 else "--" + "-".join(_words(key) or [key])
    return quote_word(f"{option}={value[:_MAX_VALUE]}") if value else option


# REST requests


_VERBS = {"POST": "create", "PUT": "set", "PATCH": "update", "DELETE": "delete", "GET": "get"}


def rest_request(tool: str, leaves: Sequence[Leaf]) -> tuple[str, Leaf] | None:
    """Return a REST request as a tool's name, as `name_of_request` writes it, and its address."""
    stated = [leaf.text for leaf in leaves if "method" in roles_of(leaf.argument) or leaf.text in METHODS]
    # Of a tool by the name of the protocol the method may be a word of the name.
    words = tool_words(tool)
    stated += words if not WORDS["protocol"].isdisjoint(words) else ()
    method = next((text.upper() for text in stated if text.upper() in METHODS), "")
    if not method:
        return None
    addresses = (leaf for leaf in leaves if "address" in roles_of(leaf.argument) and _ADDRESS.match(leaf.text))
    address = next(addresses, None)
    if address is None:
        return None
    name = name_of_request(method, _with_operation(address.text, leaves))
    return (name, address) if name else None


def _with_operation(address: str, leaves: Sequence[Leaf]) -> str:
    """Return an address with what a header says is done there: `X-Amz-Target: CloudTrail_20131101.StopLogging`."""
    stated = [leaf.text for leaf in leaves if has_role(leaf.argument, "operation") and "." in leaf.text]
    return f"{address.rstrip('/')}/?Action={stated[0].rpartition('.')[2]}" if stated else address


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
    return "_".join(_words_of_path(verb, path))[:MAX_NAME].translate(_SEPARATORS)


def _words_of_path(verb: str, path: str) -> list[str]:
    """Return the words of a path behind the verb, or behind the last of them where that says what is done."""
    path, _, query = path.partition("?")
    # A query may name the thing: `?publicAccessBlock`.
    things = query.split("&") if verb != "get" else []
    segments = [*_REPOSITORY.sub("", path).replace("/pulls/", "/pull_request/").split("/"), *things]
    named = [segment for segment in segments if _SEGMENT.fullmatch(segment)]
    if verb == "get":
        # A page may be about a `secret-santa`, and where many are asked for these are only listed.
        return ["list" if path.rstrip("/").endswith("s") else "get", *filter(str.isalpha, named)]
    # `POST …/stop` stops.
    return [*named[-1:], *named[:-1]] if SURE_VERBS.issuperset(named[-1:]) and named else [verb, *named]


def kinds_of_request(name: str, body: Mapping[str, object]) -> list[str]:
    """Return what a request by this name with this body does, where it is more than sending data."""
    request = read_tool_name(name)
    if name.startswith(("get_", "list_")):
        return [request.kind] if request.kind == "reads-secret" else []
    # A password is mostly used where it is sent, and not changed.
    stated = {act.kind for act in acts_by_argument(request, body)} - {"changes-login", *SPENDS}
    kinds = sorted({request.kind, *stated}, key=lambda kind: -KINDS[kind].severity)
    return [kind for kind in kinds if KINDS[kind].severity >= Severity.OPENS_A_DOOR or kind in SPENDS]
