"""What a call does to Lockgate: four rules, with their rows in `own.tbl`.

1. Our paths are not changed, and our secrets not read, by any program or tool.
2. The port of the service, or of a judge on this machine, is neither spoken to nor taken.
3. Of our own commands an agent runs those that the table lists.
4. Our processes are not ended, stopped or looked into, and no agent is started without its hooks.

A program that ends processes chooses them by number, pattern, port, or a list that another program printed and a filter
narrowed: it is held where that choice can include the service. A number that is not known is taken for another process.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import dropwhile, takewhile
from typing import TYPE_CHECKING, NamedTuple

from lockgate.core.ruling.arguments import Leaf
from lockgate.core.ruling.effects.effect import Effect, effect
from lockgate.core.ruling.effects.own_paths import (
    AGENT_PROGRAMS,
    ASKS_SERVICE,
    OWN_KINDS,
    OWN_WORDS,
    Access,
    find_model_change,
    find_own,
    find_own_service,
    may_find_own,
    own_access,
    words_lead_to_own,
)
from lockgate.core.ruling.effects.programs.options import (
    has_option,
    plain_words,
    program_after,
    read_search,
    split_options,
)
from lockgate.core.ruling.effects.project import Project
from lockgate.core.ruling.effects.shell_syntax import MARK, UNKNOWN_OUTPUT, Invocation, Output, Source
from lockgate.core.ruling.effects.tool_arguments import is_place, leaf_name, names_place
from lockgate.core.ruling.tool_risk import ToolName
from lockgate.core.tables import read_patterns, read_table

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk


class _Act(NamedTuple):
    """A row: what a program does to `what` where a pattern finds something in its arguments, each on its own line."""

    given: re.Pattern[str]
    what: str
    act: str
    here: str


_P = read_patterns(__package__, "own.tbl")
_ACTS: dict[str, list[_Act]] = defaultdict(list)
for _programs, _given, *_row in read_table(
    __package__, "own.tbl", "acts", ("programs", "given", "what", "act", "here")
):
    for _name in _programs.split():
        # A name may stand for a list of programs.
        for _program in OWN_WORDS.get(_name, (_name,)):
            _ACTS[_program].append(_Act(re.compile("" if _given == "-" else f"(?ms){_given}"), *_row))
_MOST_FOUND = 256


def note_own_acts(walk: Walk, call: Invocation, name: str, *, is_known: bool) -> None:
    """Note what a program of this plain name does to Lockgate; `is_known` is whether a row reads it."""
    if not walk.is_near_own or (walk.project.follow is None and not _may_reach_own(walk, call)):
        return
    words = [walk.plain(word) for word in call.arguments]
    _note_commands(walk, call.name, words)
    call = call._replace(name=name)
    writes = not is_known or (name in OWN_WORDS["runners"] and not has_option(words, "--check"))
    listed = [walk.plain(call.stdin.target)] if name in OWN_WORDS["takes names"] else []
    for path in (*_pieces(words), *listed):
        walk.note_own(path, Access.WRITE if writes else Access.READ)
    _note_acts(walk, call, words)
    if name not in OWN_WORDS["quiet"]:
        _note_ports(walk, call, words)
    program = name.rpartition("/")[2].removesuffix(".exe")
    if moved := _ends_ours(walk, call) or _moved_by(walk, program, words):
        walk.add("changes-own-guard", moved)


def _may_reach_own(walk: Walk, call: Invocation) -> bool:
    """Return whether one program of a line that is near our files may reach them itself, by its expanded words."""
    folder, known = walk.folder or walk.project.folder, walk.variables
    words = [folder, call.name, *call.arguments, *call.environment.values(), call.stdin.target]
    words += (known.get("PORT", ""), known.get("GIT_WORK_TREE", ""))
    words += () if call.name in OWN_WORDS["quiet"] else (call.stdin.text,)
    return words_lead_to_own(" ".join(words), walk.project)


def _base_name(program: str) -> str:
    """Return a program's name without its folder, its ending and its version."""
    name = program.rpartition("/")[2].lower().removesuffix(".exe")
    return name if name in _ACTS else name.rstrip(".0123456789")


def _note_acts(walk: Walk, call: Invocation, words: list[str]) -> None:
    """Note what a program does by its rows: an access to paths, or a kind of its own."""
    name = _base_name(call.name)
    if tree := {**walk.variables, **call.environment}.get("GIT_WORK_TREE"):
        words = [f"--work-tree={tree}", *words]
    line = "\n".join([*words, *([_PROCESSES] if call.stdin.target == _PROCESSES else [])])
    acts = [*_ACTS.get(name, ()), *_ACTS.get("-".join([name, *plain_words(words)[:1]]), ())]
    for given, what, act, here in acts:
        if not given.search(line):
            continue
        if act in OWN_KINDS:
            if what == "-" or _is_judge(walk.project, what, name, words):
                walk.add(act, f"{name} {' '.join(words)}"[:100])
            continue
        is_here = here != "-" and not has_option(words, *here.split())
        reached = given.findall(line) if what == "given" else _reached(what, name, words)
        for path in (*reached, *["."] * is_here):
            walk.note_own(path, Access(act.split()[0]), below="one" not in act)


def _is_judge(project: Project, what: str, program: str, words: list[str]) -> bool:
    """Return whether a judge is what a row says: this program, a server on this machine, or a model that is named."""
    if what == "judge":
        return any(program in re.split(r"[/\\]", path.lower()) for path in project.own_folders)
    models = {_last_name(judge) for names in project.judge_servers.values() for judge in names}
    named = plain_words(words)[1:] if what == "model" else []
    # A name that is not known may be any model, and a command without one means all.
    return bool(models) and (not named or any("$" in word or _last_name(word) in models for word in named))


def _last_name(model: str) -> str:
    return model.lower().rpartition("/")[2].removesuffix(":latest")


# 1. Paths


def _pieces(words: Iterable[str]) -> Iterator[str]:
    """Yield every piece of the arguments that may be a path: `-C/x`, `--file=/x`, `@/x`, `/x:/y`."""
    for word in words:
        yield from dict.fromkeys((word, *_P["separator"].split(word)))
        if re.match(r"-\w[^=]", word):
            yield word[2:]


def _reached(kind: str, name: str, words: list[str]) -> Iterable[str]:
    """Return the paths that a program works on by a row."""
    if kind == "names":
        return _names_printed(name, words)
    if kind == "searched":
        # Where it looks into no file that may be ours, a search prints nothing of ours.
        options, paths = split_options(words, OWN_WORDS["search values"])
        globs = [value for option, value in options if option in OWN_WORDS["globs"] and value[:1] != "!"]
        is_other = (globs and not any(map(may_find_own, globs))) or has_option(words, "--files", "-t", "--type")
        has_pattern = not has_option(words, "-e", "-f", "--regexp", "--file")
        return [] if is_other else paths[has_pattern:] or ["."]
    if kind == "words behind":
        return plain_words(words[1:]) if plain_words(words[:1]) else []
    return {"words": plain_words(words), "pieces": _pieces(words)}.get(kind, [kind])


def _names_printed(name: str, words: list[str]) -> list[str]:
    """Return the files that a search finds by their names, as `folder/**/name`."""
    if name in OWN_WORDS["locators"]:
        return [f"/**/*{word}*" for word in plain_words(words)]
    if name in OWN_WORDS["grep"]:
        lists = has_option(words, "-l", "-L", "--files-with-matches", "--files-without-match")
        return [f"{path}/**/*" for path in plain_words(words)[1:] or ["."]] if lists else []
    if name not in OWN_WORDS["finders"]:
        return []
    starts = list(takewhile(lambda word: word[:1] not in ("-", "(", "!"), words))
    starts = starts or list(filter(re.compile(r"[/~.$]").match, words)) or ["."]
    search = read_search(words)
    names = search.wanted if search.is_limited else [*search.wanted, "*"]
    return [f"{start.rstrip('/')}/**/{name}" for start in starts for name in names][:_MOST_FOUND]


# 1. and 2. for tools that are no shell: what the places among their arguments lead to, whatever the tool is called


def read_own_arguments(name: ToolName, seed: str, leaves: Sequence[Leaf], project: Project) -> Iterator[Effect]:
    """Yield what a tool does to Lockgate's own files and service by the places that it is given."""
    places = list(filter(is_place, leaves))
    if seed == "grep" and not any(map(names_place, places)):
        places.append(Leaf("", "."))
    access, below = _access_of(name, seed, leaves) if places else (Access.READ, False)
    for leaf in places:
        if (own := own_access(leaf.text, access, project, below=below)) is not None:
            yield own._replace(argument=leaf.argument, start=0, end=len(leaf.text)) if leaf.argument else own
    if seed not in OWN_WORDS["file tools"]:
        yield from _asks_service(name, leaves, project)


def _access_of(name: ToolName, seed: str, leaves: Sequence[Leaf]) -> tuple[Access, bool]:
    """Return what a tool does with a place, and whether it reaches everything below it."""
    if name.verb in OWN_WORDS["takes away"]:
        return Access.DELETE, True
    if name.verb in OWN_WORDS["takes along"]:
        return Access.WRITE, True
    if seed not in ("read", "glob", "grep", "web_fetch") and name.kind != "looks":
        return Access.WRITE, False
    filters = " ".join(leaf.text for leaf in leaves if leaf_name(leaf) in OWN_WORDS["filters"])
    globs = list(filter(None, _P["between filters"].split(filters)))
    searches = seed == "grep" or any(_P["token"].search(leaf.text) for leaf in leaves)
    # `!` takes out what it names.
    return Access.READ, searches and (not globs or any(glob[:1] == "!" or may_find_own(glob) for glob in globs))


def _asks_service(name: ToolName, leaves: Sequence[Leaf], project: Project) -> Iterator[Effect]:
    """Yield what a tool does to the service: a value is an address, or one word, or code or text of a page."""
    is_page = not OWN_WORDS["page tools"].isdisjoint(name.words)
    reads_all = is_page or not OWN_WORDS["code tools"].isdisjoint(name.words)
    all_texts = "\n".join(leaf.text[:300] for leaf in leaves)
    for leaf in leaves:
        title, is_word = leaf_name(leaf), not re.search(r"\s", leaf.text.strip())
        if title in OWN_WORDS["searched for"] or not (reads_all or is_word or title.endswith(("url", "uri"))):
            continue
        # A host and a port may be arguments of their own.
        text = f"{leaf.text}\n{all_texts}" if title.endswith("port") else leaf.text
        route = _P["route"].search(leaf.text) if is_page else None
        address = find_own_service(text, project.service_port) or (route[0] if route else "")
        changed = find_model_change(leaf.text, project.judge_servers)
        for kind, target in ((ASKS_SERVICE, address), ("changes-own-guard", changed)):
            if target:
                yield effect(kind, target, argument=leaf.argument, span=(0, len(leaf.text)))


# 2. The port as a program's words say it


def _note_ports(walk: Walk, call: Invocation, words: list[str]) -> None:
    """Note a program that speaks to the service, changes a judge, or takes a port of ours."""
    # An interpreter may get its program through its input.
    text = " ".join([*words, "\n", call.stdin.text])
    if address := find_own_service(text, walk.project.service_port):
        walk.add(ASKS_SERVICE, address)
    if changed := find_model_change(text, walk.project.judge_servers):
        walk.add("changes-own-guard", changed)
    # Any program can listen on a port, except those that are known to ask.
    if call.name in OWN_WORDS["clients"] and not ("nc" in call.name and has_option(words, "-l", "--listen")):
        return
    variables = [f"{variable}={walk.plain(value)}" for variable, value in call.environment.items()]
    line = " ".join([*words, *variables, walk.plain(walk.variables.get("PORT", ""))])
    for port in walk.project.own_ports:
        listens, binds = _P["listens"].search(line), _P["binds"].search(line)
        ports = re.findall(_P["own port"].pattern.replace("PORT", str(port)), line) if str(port) in line else ()
        if any((listens or not name) and (binds or not host) for name, host in ports):
            walk.add("changes-own-guard", str(port))


# 3. Our own commands

_ALLOWED = {
    command: (frozenset(first.split()), frozenset(options.split()))
    for command, first, options in read_table(__package__, "own.tbl", "commands", ("command", "first words", "options"))
}
OWN_COMMANDS = _ALLOWED.keys() | {"token", "hook"}


def _note_commands(walk: Walk, program: str, words: list[str]) -> None:
    """Note a command of Lockgate that an agent may not run, and a package that comes into its environment."""
    name = _base_name(program)
    if name in OWN_WORDS["installers"] and _changes_package(walk, words, program):
        walk.add("changes-own-guard", "lockgate")
    for behind in [words] if _P["own program"].fullmatch(program) else _words_behind_ours(words, name):
        if _is_refused(behind):
            is_answer = not {"approvals", "grants", "audit"}.isdisjoint(map(str.lower, behind))
            walk.add(ASKS_SERVICE if is_answer else "changes-own-guard", "lockgate")


def _words_behind_ours(words: list[str], name: str) -> Iterator[list[str]]:
    """Yield the words behind each `lockgate` that another program may start; most only get that word as a name."""
    if (name in OWN_WORDS["quiet"] and name[-2:] != "sh") or words[:2] == ["-m", "pytest"]:
        return
    is_installer = name in OWN_WORDS["installers"]
    runs = name == "uvx" or (is_installer and not {"run", "exec", "x"}.isdisjoint(words))
    for at, word in enumerate(words[:-1]):
        if "lockgate" in word.lower() and _P["started"].fullmatch(word):
            is_first = name[:2] == "py" and not plain_words(words[:at])
            if runs or is_first or words[at + 1].lower() in OWN_COMMANDS:
                yield words[at + 1 :]


def _is_refused(words: list[str]) -> bool:
    # All words of a function's caller (`"$@"`) come as one.
    words = program_after(" ".join(words[:1]).split() + words[1:], {"--config"})
    # Behind `--`, or a word that may be one, `-h` is a value.
    if not words or next((word for word in words if not word.isalpha()), "") in ("--help", "-h"):
        return False
    first_words, allowed = _ALLOWED.get(words[0], (frozenset(), frozenset()))
    rest = words[1 : words.index("--") if {"--"} & first_words & {*words} else None]
    options, plain = split_options(rest, {option[:-1] for option in allowed if option[-1] == "="})
    return (
        words[0] not in _ALLOWED
        or ("!" in first_words and any(map(_P["unknown option"].match, rest)))
        or any(allowed.isdisjoint((option, f"{option}=")) for option, _ in options)
        or not ("*" in first_words or first_words.issuperset(plain[:1]))
    )


def _changes_package(walk: Walk, words: list[str], program: str) -> bool:
    """Return whether an installer works in our environment, or brings a project that is a Lockgate."""
    named = list(dropwhile(lambda word: word not in OWN_WORDS["install verbs"], words))
    if not named or not all(is_above for _, is_above in find_own(program, walk.project, walk.folder) if "/" in program):
        return bool(named)
    # `uv sync`, `poetry install`, `python setup.py install`: the project itself.
    paths = [path for word in named[1:] if _P["path"].match(path := _P["from file"].sub("", word))]
    paths += ["."] * (not plain_words(named[1:]))
    brings = walk.project.brings_lockgate or (lambda _: False)
    return any(brings(walk.full_path(path)) for path in paths)


# 4. Our own processes

_CHOICE_COLUMNS = ("programs", "values", "ports", "names", "shows all")
_CHOOSERS = {
    name: choice
    for names, *choice in read_table(__package__, "own.tbl", "choosers", _CHOICE_COLUMNS)
    for name in names.split()
}
# Variables by which a program finds its home and its settings.
HOME_VARIABLES = frozenset(("HOME", "USERPROFILE", *(agent.variable for agent in AGENT_PROGRAMS.values())))
_LINES = read_table(__package__, "own.tbl", "lines", ("list", "holds", "line"))
# The output of a program that lists processes, as long as no filter has taken the service out of it. It begins with a
# digit: `/proc/1-every-process/environ` is a path like that of any number.
_PROCESSES = "1-every-process"
_FOLLOWED = frozenset(_CHOOSERS).union(*(OWN_WORDS[name] for name in ("locators", "finders", "grep", "fills a name")))
_ENDS = re.compile(rf"\b(?:{'|'.join(OWN_WORDS['killers'] | OWN_WORDS['attachers'])})\b")


_NUMBER = re.compile(r"(?<![\w.%/])\d{3,10}(?!\d)")


def note_own_number(walk: Walk, text: str) -> None:
    """Note a line that has the service's number and ends processes: a shell knows many ways to hand a number on."""
    # A number of one or two digits is also a signal, seconds or a line.
    numbers = _NUMBER.findall(text) if walk.is_near_own else ()
    if numbers and _ENDS.search(text) and not walk.project.own_pids().isdisjoint(map(int, numbers)):
        walk.add("changes-own-guard", "lockgate")


def _moved_by(walk: Walk, program: str, words: list[str]) -> str:
    """Return what gives a coding agent or a Lockgate that is started another home, without our hooks and tokens."""
    starts_own = any("lockgate" in word for word in (program, *words[:3]))
    if starts_own and {"init", "serve", "hook", "mcp"} & {*words[:8]}:
        return min(filter(_P["steers"].fullmatch, walk.assigned), default="")
    for agent in AGENT_PROGRAMS.values():
        if agent.is_started_by(program, words):
            moved = min(HOME_VARIABLES & walk.assigned, default="sudo" if walk.as_root else "")
            return moved or agent.hooks_left_out(words, walk.assigned)
    return ""


def _ends_ours(walk: Walk, call: Invocation) -> str:
    """Return the command that ends processes or connections which it chooses itself, where these may be ours."""
    is_killer = call.name in OWN_WORDS["killers"] - {"kill"}
    ends = is_killer or (call.name in ("fuser", "ss") and has_option(call.arguments, "-k", "-K", "--kill"))
    return walk.plain(" ".join([call.name, *call.arguments]))[:100] if ends and _selects_ours(walk, call) else ""


def _service_lines(walk: Walk, shown: str = "names processes") -> str:
    """Return our processes as these lists show them, in small letters; Python goes by its name without a version."""
    pid = min(walk.project.service_pids, default=4312)
    lines = [line for name, holds, line in _LINES if name in shown and (holds == "-" or walk.project.judge_servers)]
    return "\n".join(line.format(port=port, pid=pid) for line in lines for port in walk.project.own_ports).lower()


def _selects_ours(walk: Walk, call: Invocation) -> bool:
    """Return whether a program that lists, finds or ends processes may mean ours."""
    valued, takes_ports, named_by, shows_all = _CHOOSERS.get(call.name, _CHOOSERS["pkill"])
    options, words = split_options(call.arguments, frozenset(valued.split()))
    given, values = {option for option, _ in options}, dict(options)
    text = walk.plain(" ".join([*words, *values.values()])) if takes_ports == "ports" else ""
    # A port that is not known is another one.
    if ports := _P["ports"].findall(text):
        return any(
            int(low[:6]) <= port <= int((high or low)[:6]) for low, high in ports for port in walk.project.own_ports
        )
    names = words if named_by == "words" else [values[named_by]] if named_by in values else []
    if names:
        shown = _service_lines(walk, "names processes" if given & {"-f", "--full"} else "names")
        is_turned = bool(given & {"-v", "--inverse"})
        return is_turned or not all(_is_foreign(_P["not the last name"].sub("", name), shown) for name in names)
    given |= {"words"} if words or "$" in text else set()
    return ("!" in shows_all) is given.isdisjoint(shows_all.split())


def _is_foreign(pattern: str, text: str) -> bool:
    """Return whether each choice of a pattern has a piece that our lines have not; of an unknown one, True."""
    known = "".join(pattern.split(MARK)[::2]).lower()
    if MARK in pattern and len(known.strip("*. ")) <= 1:
        return True
    known = _P["version"].sub("", known.replace("\\|", "|").replace("\\.", "."))
    pieces = [choice.split("\n") for choice in _P["signs"].sub("\n", known).split("|")]
    return not _P["odd"].search(known) and all(
        any(not re.search(re.escape(piece).replace(r"\.", "."), text) for piece in choice) for choice in pieces
    )


def follow_processes(walk: Walk, call: Invocation, output: Output) -> Output:
    """Return a program's output, marked where it is a list of processes that may hold the service."""
    if not walk.is_near_own:
        return output
    if call.name not in _FOLLOWED and call.stdin.target != _PROCESSES and "/proc" not in " ".join(call.arguments):
        return output
    if listed := _ours_printed(walk, call):
        return Output(Source.NONE, target=listed)
    if call.name in OWN_WORDS["fills a name"] and call.stdin.target:
        for name in split_options(call.arguments)[1]:
            walk.variables[name] = walk.mark(call.stdin)
    if call.stdin.target != _PROCESSES:
        return output
    pattern = _kept_lines(call)
    if pattern and _is_foreign(pattern, _service_lines(walk)):
        return UNKNOWN_OUTPUT if output.target == _PROCESSES else output
    return call.stdin if output.source in (Source.EMPTY, Source.NONE) else output


def _ours_printed(walk: Walk, call: Invocation) -> str:
    """Return a path of ours that a search prints, or the mark of a list of processes that may hold the service."""
    for path in map(walk.plain, _names_printed(call.name, call.arguments)):
        if not all(is_above for _, is_above in find_own(path, walk.project, walk.folder)):
            return path
    lists = call.name in _CHOOSERS and call.name not in OWN_WORDS["killers"] and _selects_ours(walk, call)
    return _PROCESSES if lists or any(_P["proc"].fullmatch(walk.plain(word)) for word in call.arguments) else ""


def _kept_lines(call: Invocation) -> str:
    """Return the pattern of the lines that a filter keeps; empty where it may keep any."""
    line = " ".join(call.arguments)
    if call.name in ("awk", "gawk", "mawk"):
        pattern = re.search(r"/((?:[^/\\]|\\.)+)/", line)
        return pattern[1] if pattern and "!" not in line else ""
    is_open = has_option(call.arguments, "-v", "--invert-match", "-f", "--file") or MARK in line
    if is_open or call.name not in OWN_WORDS["grep"]:
        return ""
    options, words = split_options(call.arguments, OWN_WORDS["search values"])
    return "|".join([value for name, value in options if name in ("-e", "--regexp")] or words[:1])
