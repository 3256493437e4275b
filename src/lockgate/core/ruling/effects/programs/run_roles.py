"""What programs run: commands in their operands and options, scripts, texts, and what flows into them."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import takewhile
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.activity import WRITES
from lockgate.core.ruling.effects.code import read_code
from lockgate.core.ruling.effects.effect import Certainty
from lockgate.core.ruling.effects.own_acts import HOME_VARIABLES
from lockgate.core.ruling.effects.own_paths import find_own
from lockgate.core.ruling.effects.paths import Access
from lockgate.core.ruling.effects.programs.loaded_files import language_of
from lockgate.core.ruling.effects.programs.options import has_option, host_of, plain_words, program_after
from lockgate.core.ruling.effects.programs.program_rows import FORMS, WORDS, find_row, is_task
from lockgate.core.ruling.effects.programs.roles import (
    Use,
    is_known,
    note_loose,
    note_package,
    note_sent,
    package_in,
    repository_address,
    role_if,
    without_alias,
)
from lockgate.core.ruling.effects.programs.variables import note_variable, run_command
from lockgate.core.ruling.effects.project import Place
from lockgate.core.ruling.effects.shell_syntax import (
    MARK,
    NO_OUTPUT,
    SETUP,
    STANDARD_INPUT,
    UNKNOWN_OUTPUT,
    Output,
    Source,
)

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk


def role_sh(use: Use, value: str) -> None:
    """A command of the shell."""
    command = value.removeprefix("exec=")
    if command and not FORMS["compresses"].match(command):
        run_command(use.walk, command)


def role_alias(use: Use, value: str) -> None:
    """Another name for a command."""
    name, equals, text = value.partition("=")
    if equals:
        use.walk.aliases[name] = text


def role_forget(use: Use, value: str) -> None:
    """A variable that is unset; the shell evaluates the index in its name."""
    use.walk.assigned.add(value)
    if "$(" in value:
        use.walk.add_unreadable()


def role_assigned(use: Use, value: str) -> None:
    """A setting of the machine, where it is set."""
    name, equals, setting = value.partition("=")
    if equals:
        note_variable(use.walk, name, setting)
    if equals or value[:1].isdigit():
        use.walk.add("changes-service", value)


def role_cd(use: Use, value: str) -> None:
    """The folder that the program works in."""
    use.folder = use.walk.folder if use.folder is None else use.folder
    use.walk.enter_folder(value)


def note_code(walk: Walk, text: str) -> None:
    """Note what source text does; what a file gets that it writes is somewhere in this text."""
    plain = walk.plain(text)
    for effect in read_code(plain, walk.argument, walk.project):
        walk.add(effect.kind, effect.target, effect.certainty)
        if effect.kind in WRITES and effect.target:
            walk.project.note_change(walk.full_path(effect.target), plain, is_whole=False)


# Programs that are started


def rest_program(use: Use, words: list[str]) -> Output:
    """A program that is started, behind variables that are set for it; a kind may stand behind the dot, or `again`."""
    words = _take_assignments(use.walk, words)
    if use.detail == "again":
        # Command words and arguments of the same program: `yarn workspace web add x`.
        words = [use.call.name, *words]
    elif use.detail:
        use.walk.add(use.detail, use.call.name)
    return use.walk.run_program(words, use.call.stdin) if words else use.output


def rest_tool_program(use: Use, words: list[str]) -> Output:
    """A program behind `--`, or behind words with `@`: tools that it gets, which the pattern behind the dot reads."""
    before, tools = use.call.arguments[: -len(words)] if words else [], list[str]()
    if "--" not in before:
        tools = words[: words.index("--")] if "--" in words else [*takewhile(lambda word: "@" in word, words)]
    for tool in tools:
        role_if(use, tool)
    use.detail = ""
    return rest_program(use, program_after(words[len(tools) :], frozenset()))


def _take_assignments(walk: Walk, words: list[str]) -> list[str]:
    """Note variables that are set before a program, and return what follows."""
    for at, word in enumerate(words):
        match = FORMS["assignment"].fullmatch(word)
        if match is None:
            return words[at:]
        note_variable(walk, match.group(1), match.group(2))
    return []


def rest_environment(use: Use, words: list[str]) -> Output:
    """A program that gets variables of its own; alone, all of them are shown."""
    is_clean = words[:1] == ["-"]
    if is_clean or "clean" in use.modes:
        use.walk.assigned |= HOME_VARIABLES
    if not use.wants("-S", "--split-string"):
        use.output = Output(Source.ENVIRONMENT)
    return rest_program(use, words[is_clean:])


def rest_root(use: Use, words: list[str]) -> Output:
    """A program with another user's rights; alone it is a shell."""
    words = _take_assignments(use.walk, words)
    if not words and has_option(use.call.arguments, "-k", "-K", "-v", "-l", "-V"):
        return UNKNOWN_OUTPUT
    return use.walk.run_as_root(words or ["sh"], use.call.stdin)


def rest_project_program(use: Use, words: list[str]) -> Output:
    """A program in the project's environment: `poetry run`, `hatch run docs:build`."""
    if "module" in use.values:
        words = ["python", "-m", use.value("module"), *words]
    elif words:
        words = [re.sub(r"^[\w.-]*:", "", words[0]) or "sh", *words[1:]]
        words = ["python", *words] if words[0].endswith(".py") else words
    return rest_program(use, words)


def rest_package_program(use: Use, words: list[str]) -> Output:
    """A package that is run by its name, fetched where it is not there."""
    walk = use.walk
    if not words:
        return UNKNOWN_OUTPUT
    plain = without_alias(walk.plain(words[0]))
    name = package_in(plain)
    is_named = use.wants("-p", "--package", "--from", "--spec")
    if repository_address(plain) and not is_named:
        note_package(walk, words[0])
    elif is_named or is_known(walk, name, use.detail) or name in walk.project.tasks or is_task(name):
        if name == "husky":
            walk.add("installs-hook", ".husky")
        walk.add("runs-project-task", name)
        note_loose(walk, name, "task", words[1:], ())
    else:
        walk.add("installs-package", name)
    return UNKNOWN_OUTPUT


def finish_installs(use: Use) -> Output:
    """Packages by their role; without any, those that the project lists."""
    if not use.operands:
        use.walk.add("installs-known-package")
    return UNKNOWN_OUTPUT


def rest_elsewhere(use: Use, words: list[str]) -> Output:
    """A command that runs on another machine, which is there to stay the same unless a kind stands behind the dot."""
    if words:
        use.walk.run_elsewhere(" ".join(words))
    if use.detail:
        use.walk.add(use.detail, use.call.name)
    return use.output


def rest_words(use: Use, words: list[str]) -> Output:
    """Words that are put together to a command of the shell."""
    run_command(use.walk, " ".join(words))
    return use.output


def rest_docker_program(use: Use, words: list[str]) -> Output:
    """What happens in a container stays there, but what it sends and fetches does not."""
    return use.walk.run_contained(words, use.call.stdin)[1] if words else UNKNOWN_OUTPUT


def rest_repeated(use: Use, words: list[str]) -> Output:
    """`xargs` and `parallel`: the program with what flows in as further arguments."""
    walk, stream, is_parallel = use.walk, use.call.stdin, use.call.name in ("parallel", "rush")
    replaced = "{}" if is_parallel else use.value("replaced")
    if is_parallel and ":::" in words:
        at = words.index(":::")
        stream, words = Output(Source.TEXT, " ".join(words[at + 1 :])), words[:at]
    if not words:
        return walk.run_program(["sh"], stream) if is_parallel else stream
    values = _arguments_from(walk, stream)
    if is_parallel and " " in words[0]:
        return walk.read_text(" ".join(words).replace("{}", " ".join(values)))
    if replaced and replaced in " ".join(words):
        for value in values:
            walk.run_program([word.replace(replaced, value) for word in words], NO_OUTPUT)
        return UNKNOWN_OUTPUT
    if words[1:] == ["-c"] and FORMS["shell"].fullmatch(words[0]):
        return walk.run_program(words[:1], stream if stream is not NO_OUTPUT else UNKNOWN_OUTPUT)
    return walk.run_program([*words, *values], NO_OUTPUT)


def _arguments_from(walk: Walk, stream: Output) -> list[str]:
    """Return the arguments that a stream is split into; a list of files stands for the path that it was made of."""
    if stream.source is Source.TEXT:
        return stream.text.split()[:64]
    if stream.source is Source.NONE and stream.target:
        return [stream.target]
    return [walk.mark(UNKNOWN_OUTPUT if stream.source is Source.FILE else stream)]


def finish_unknown(use: Use) -> Output:
    """Run what no row describes."""
    note_unknown(use.walk, use.call.name)
    return use.output


def note_unknown(walk: Walk, name: str, *, of_project: bool = False) -> None:
    """Note that a program runs of which no row says what it does."""
    if of_project or name in walk.project.programs or name in walk.project.tasks:
        walk.add("runs-project-task", name)
    else:
        walk.add("runs-program", name, Certainty.GUESS)


# Texts and scripts


def run_text(walk: Walk, text: str, arguments: list[str], language: str) -> None:
    """Run a text as a command line of the shell or as source text, unless it is a download or decoded."""
    for piece in walk.pieces_in(text) if MARK in text else ():
        if piece.source in (Source.DOWNLOAD, Source.DECODED):
            run_input(walk, piece, language)
            return
    if language == "shell":
        walk.read_text(text, arguments)
        return
    if MARK in text and FORMS["runs unknown"].search(text):
        walk.add_unreadable()
    note_code(walk, text)


def run_input(walk: Walk, stream: Output, language: str) -> None:
    """Run what flows into an interpreter."""
    if stream.source is Source.DOWNLOAD:
        walk.add("runs-download", stream.target)
    elif stream.source in (Source.TEXT, Source.DECODED):
        if stream.source is Source.DECODED:
            walk.add("runs-decoded")
        run_text(walk, stream.text, [], language)
    elif stream.source is Source.FILE and stream.target:
        walk.run_path(stream.target)
    elif stream is not NO_OUTPUT:
        walk.add_unreadable()


def run_file(walk: Walk, path: str, arguments: list[str], language: str = "") -> None:
    """Run a file in a language, or in that which its name or its first line says."""
    if path in STANDARD_INPUT:
        run_input(walk, walk.stdin, language)
        return
    stream = walk.read_file(path)
    walk.load(path)
    content = walk.content_of(path)
    if stream.source is Source.TEXT and (content is None or content.is_whole):
        language = language or language_of(path, stream.text) or "shell"
        run_text(walk, stream.text, [path, *arguments], language)
        if language == "code" and content is not None:
            walk.add("runs-project-task" if walk.place(path) is Place.INSIDE else "computes", walk.plain(path))
    elif stream.source in (Source.DOWNLOAD, Source.DECODED):
        run_input(walk, stream, language)
    elif re.fullmatch(rf"{MARK}[^{MARK}]+{MARK}", path):
        walk.add_unreadable()
    elif scheme := FORMS["no file"].match(path):
        # A package, or an address whose code runs at once.
        walk.add("runs-download", host_of(path) if "://" in path else scheme[0].lower())
    else:
        walk.run_path(path, stream)


def rest_script(use: Use, words: list[str]) -> Output:
    """A script in the language behind the dot, a text in its place, a module, a server, or the input."""
    walk, stdin, language, texts = use.walk, use.call.stdin, use.detail, use.values.get("text", [])
    if "module" in use.modes:
        return _run_module(use, words)
    if language == "shell" and "text" in use.modes:
        texts, words = words[:1], words[1:]
    if language == "shell" and walk.as_root and ("text" in use.modes or (not words and stdin is NO_OUTPUT)):
        walk.add("runs-as-root")
    if "text" in use.modes or texts:
        for text in texts:
            run_text(walk, text, words, language)
        _note_input(use, texts, words)
    elif words and words[0] != "-" and "input" not in use.modes:
        run_file(walk, words[0], words[1:], language)
    else:
        run_input(walk, stdin, language)
    return UNKNOWN_OUTPUT


def _note_input(use: Use, texts: list[str], files: list[str]) -> None:
    """Note what a text given to an interpreter does with the input, and with the files of a one-liner."""
    if use.call.stdin.source is Source.DOWNLOAD and any(re.search(r"\b(?:exec|eval)\b", text) for text in texts):
        use.walk.add("runs-download", use.call.stdin.target)
    for path in files if use.call.name in ("perl", "ruby") else ():
        if "in-place" in use.modes:
            use.walk.access(path, Access.WRITE)
        else:
            use.walk.print_file(path)


def _run_module(use: Use, words: list[str]) -> Output:
    """`python -m MODULE`: a program by its name, one with a row as `m:MODULE`, or the project's own or installed."""
    walk, module = use.walk, "".join(words[:1])
    if module in WORDS["modules that are programs"]:
        return walk.run_program(words, use.call.stdin)
    if find_row(f"m:{module}", [])[0]:
        return walk.run_program([f"m:{module}", *words[1:]], use.call.stdin)
    row, _ = find_row(module, words[1:])
    note_loose(walk, module, (row.loose if row else "") or "task", words[1:], ())
    walk.add("runs-project-task", f"-m {module}")
    return UNKNOWN_OUTPUT


# The shell's own commands


def finish_evaluates(use: Use) -> Output:
    """`eval`: a setup such as `"$(ssh-agent -s)"` was read already as a substitution."""
    text = " ".join(use.call.arguments)
    if not _is_setup(use.walk, text):
        run_text(use.walk, text, [], "shell")
    return NO_OUTPUT


def _is_setup(walk: Walk, text: str) -> bool:
    return walk.plain(text).strip() == "$()" and SETUP in walk.pieces_in(text)


def finish_loads_script(use: Use) -> Output:
    """`source FILE`: settings and activation scripts are ordinary, anything else is run."""
    walk, path = use.walk, "".join(use.call.arguments[:1])
    walk.load(path)
    is_new = walk.download_of(walk.full_path(path)) or walk.content_of(path) is not None
    is_settings = FORMS["settings file"].fullmatch(walk.plain(path)) and not is_new
    if path and not is_settings and not _is_setup(walk, path):
        run_file(walk, path, use.call.arguments[1:], "shell")
    return NO_OUTPUT


def finish_enters(use: Use) -> Output:
    """`cd`: the folder in which the rest of the line runs."""
    paths = [argument for argument in use.call.arguments if argument == "-" or argument[:1] != "-"]
    if use.call.name != "popd":
        use.walk.enter_folder("".join(paths[:1]))
    return NO_OUTPUT


def finish_exports(use: Use) -> Output:
    """`export`, `declare`, `local`, `set`: variables set; without arguments all of them are shown."""
    walk, names = use.walk, plain_words(use.call.arguments)
    if use.call.name == "set":
        return NO_OUTPUT if use.call.arguments else Output(Source.ENVIRONMENT)
    for name, equals, value in (argument.partition("=") for argument in names):
        if equals:
            walk.variables[name] = value
            note_variable(walk, name, value)
    return NO_OUTPUT if names or use.call.name in ("local", "readonly") else Output(Source.ENVIRONMENT)


def finish_names_program(use: Use) -> Output:
    """Where a program lies is not known here, but that it is Lockgate's or an agent's."""
    name = "".join(use.operands[-1:])
    path = f"/usr/local/bin/{name}"
    return Output(Source.TEXT, path if name and find_own(path, use.walk.project) else name)


# Roles that are one call: a file that is read and not shown, or sent; what runs on another machine; a file that is run;
# and source text in a file or as it is.
ROLES: dict[str, Callable[[Use, str], object]] = {
    "open": lambda use, value: use.walk.read_file(value),
    "attach": lambda use, value: note_sent(use.walk, use.walk.read_file(value)),
    "remote-command": lambda use, value: use.walk.run_elsewhere(value),
    "run": lambda use, value: use.walk.run_path(value),
    "module": lambda use, value: run_file(use.walk, value, [], "code"),
    "code": lambda use, value: note_code(use.walk, value),
}
FINISHES: dict[str, Callable[[Use], Output]] = {
    # All variables, where none is named.
    "prints-environment": lambda use: use.output if use.operands else Output(Source.ENVIRONMENT),
    "prints-folder": lambda use: Output(Source.TEXT, use.walk.folder or "."),
}
