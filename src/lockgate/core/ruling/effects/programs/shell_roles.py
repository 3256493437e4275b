"""Shells, interpreters and wrappers: what they run from their arguments, a file, or their input."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.code import read_code
from lockgate.core.ruling.effects.own_acts import HOME_VARIABLES
from lockgate.core.ruling.effects.own_paths import find_own
from lockgate.core.ruling.effects.paths import Access, is_secret_variable
from lockgate.core.ruling.effects.program_io import (
    MARK,
    NO_OUTPUT,
    SETUP,
    STANDARD_INPUT,
    UNKNOWN_OUTPUT,
    Output,
    Source,
)
from lockgate.core.ruling.effects.programs.options import has_option, program_after, split_options
from lockgate.core.ruling.effects.programs.program_rows import find_row
from lockgate.core.ruling.effects.programs.roles import Use, note_effects, note_loose
from lockgate.core.ruling.effects.project import Place

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")

# What runs a text


def run_text(walk: Walk, stream: Output, name: str, arguments: list[str], *, language: str = "") -> None:
    """Run a text that is known, as the language that the program's name or its first line says."""
    text = stream.text
    first = text[:80].split("\n", 1)[0]
    if not language:
        script = re.search(r"\.(py|js|mjs|cjs|ts|rb|pl|php|lua|R)$", name)
        language = "code" if script or re.match(r"#!.*(?:python|node|perl|ruby|php|lua|deno|bun)", first) else "shell"
    if language == "shell":
        walk.read_text(text, [name, *arguments])
    else:
        run_code(walk, text)


def run_code(walk: Walk, text: str) -> None:
    """Note what source text does."""
    for piece in walk.pieces_in(text):
        if piece.source is Source.DOWNLOAD:
            walk.add("runs-download", piece.target)
        elif piece.source is Source.DECODED:
            walk.add("runs-decoded")
    if MARK in text and _RUNS_UNKNOWN.search(text):
        walk.add_unreadable()
    note_effects(walk, read_code(walk.plain(text), walk.argument, walk.project))


# A statement that begins with what is not known, or a call that runs it.
_RUNS_UNKNOWN = re.compile(rf"(?:^|[;\n]|\b(?:exec|eval|system|Function)\s*\([^\n{MARK}]{{0,40}})\s*{MARK}")


def run_input(walk: Walk, stream: Output, language: str) -> None:
    """Run what flows into an interpreter."""
    if stream.source is Source.TEXT:
        run_text(walk, stream, "", [], language=language)
    elif stream.source is Source.DOWNLOAD:
        walk.add("runs-download", stream.target)
    elif stream.source is Source.DECODED:
        walk.add("runs-decoded")
        run_text(walk, stream, "", [], language=language)
    elif stream.source is Source.FILE and stream.target:
        walk.run_path(stream.target)
    elif stream is not NO_OUTPUT:
        walk.add_unreadable()


def run_argument(walk: Walk, text: str, arguments: list[str], language: str) -> None:
    """Run a text given as an argument, unless it is a download or decoded."""
    for piece in walk.pieces_in(text):
        if piece.source is Source.DOWNLOAD:
            walk.add("runs-download", piece.target)
            return
        if piece.source is Source.DECODED:
            run_input(walk, piece, language)
            return
    if language == "shell":
        walk.read_text(text, arguments)
    else:
        run_code(walk, text)


def _run_file(walk: Walk, path: str, arguments: list[str], language: str) -> None:
    if path in STANDARD_INPUT:
        run_input(walk, walk.stdin, language)
        return
    stream = walk.read_file(path)
    walk.load(path)
    if stream.source in (Source.TEXT, Source.DOWNLOAD, Source.DECODED):
        if stream.source is Source.TEXT:
            run_text(walk, stream, path, arguments, language=language)
        else:
            run_input(walk, stream, language)
    elif MARK in path and path.startswith(MARK) and path.endswith(MARK) and path.count(MARK) == 2:
        walk.add_unreadable()
    else:
        walk.run_path(path, stream)


_SHELL_VALUED = frozenset(("-o", "+o", "-O", "--rcfile", "--init-file"))


def finish_runs_shell(use: Use) -> Output:
    """`sh`, `bash` and their like: a text after `-c`, a file, or the input."""
    walk, arguments, stdin = use.walk, use.call.arguments, use.call.stdin
    index = 0
    while index < len(arguments) and arguments[index][:1] in ("-", "+"):
        argument, following = arguments[index], arguments[index + 1 :]
        if argument in ("--version", "--help", "-n"):
            return UNKNOWN_OUTPUT
        if argument in ("--rcfile", "--init-file"):
            walk.run_path([*following, ""][0])
        index += 2 if argument in _SHELL_VALUED else 1
        if argument[:2] == "--":
            continue
        if "c" in argument:
            if walk.as_root:
                walk.add("runs-as-root")
            run_argument(walk, [*following, ""][0], following[1:], "shell")
            return UNKNOWN_OUTPUT
        if "s" in argument and argument not in _SHELL_VALUED:
            index = len(arguments)
    if index >= len(arguments) or arguments[index] == "-":
        if walk.as_root and stdin is NO_OUTPUT:
            walk.add("runs-as-root")
        run_input(walk, stdin, "shell")
    else:
        _run_file(walk, arguments[index], arguments[index + 1 :], "shell")
    return UNKNOWN_OUTPUT


def finish_evaluates(use: Use) -> Output:
    """`eval`: a setup such as `"$(ssh-agent -s)"` was read already as a substitution."""
    text = " ".join(use.call.arguments)
    if not _is_setup(use.walk, text):
        run_argument(use.walk, text, [], "shell")
    return NO_OUTPUT


def _is_setup(walk: Walk, text: str) -> bool:
    return walk.plain(text).strip() == "$()" and any(piece is SETUP for piece in walk.pieces_in(text))


_SETTINGS_FILE = re.compile(
    r"(?:.*/)?(?:bin/activate(?:\.fish)?|\.env[\w.-]*|\.bashrc|\.profile|\.zshrc|\.bash_profile|[\w.-]*(?:env|vars)\.sh"
    r"|nvm\.sh|etc/profile|\.cargo/env|conda\.sh)"
)


def finish_loads_script(use: Use) -> Output:
    """`source FILE`: settings and activation scripts are ordinary, anything else is run."""
    walk, path = use.walk, "".join(use.call.arguments[:1])
    walk.load(path)
    is_settings = _SETTINGS_FILE.fullmatch(walk.plain(path)) and not walk.download_of(walk.full_path(path))
    if path and not is_settings and not _is_setup(walk, path):
        _run_file(walk, path, use.call.arguments[1:], "shell")
    return NO_OUTPUT


# Interpreters

_OPTION = re.compile("-.")
_MODULE_OPTION = re.compile(r"-\w*m")
_CHECKS = frozenset("--test --check -l --lint --version -V -v".split())


def finish_interprets(use: Use) -> Output:
    """An interpreter: text after its `code` option, a `module`, a `server`, a file, or the input."""
    arguments, roles = use.call.arguments, use.row.options
    flags = {option for option, role in roles.items() if role == "code"}
    index = 0
    code: list[str] = []
    while index < len(arguments) and _OPTION.match(arguments[index]):
        argument, following = arguments[index], arguments[index + 1 :]
        ended = _read_ending(use, argument, following)
        if ended is not None:
            return ended
        given = _code_in(flags, argument, following)
        code += given
        index += 2 if (given and given == following[:1]) or roles.get(argument) == "skip" else 1
    return _run_given(use, code, arguments[index:])


def _read_ending(use: Use, argument: str, following: list[str]) -> Output | None:
    """Read an option behind which no script of the interpreter stands: a module, a server, a check."""
    if use.row.options.get("-m") == "module" and _MODULE_OPTION.fullmatch(argument):
        return _run_module(use, following)
    if use.row.options.get(argument) == "server":
        return _serve(use, [*following, ""][0])
    if argument == "--test":
        use.walk.add("runs-project-task", use.call.name)
    return UNKNOWN_OUTPUT if argument in _CHECKS else None


def _run_given(use: Use, code: list[str], files: list[str]) -> Output:
    if code:
        _run_codes(use, code, files)
    elif files and files[0] != "-":
        _run_file(use.walk, files[0], files[1:], "code")
    elif use.call.stdin is not NO_OUTPUT:
        run_input(use.walk, use.call.stdin, "code")
    return UNKNOWN_OUTPUT


def _code_in(flags: set[str], argument: str, following: list[str]) -> list[str]:
    """Return the text that an option gives the interpreter to run, in the next argument or joined to the option."""
    if argument in flags or (argument[:2] != "--" and "-" + argument[-1] in flags):
        return following[:1]
    return [argument[2:]] if argument[:2] == "-c" and "-c" in flags else []


def _serve(use: Use, address: str) -> Output:
    """`php -S`: settings can load code, and a folder elsewhere holds other things to run and to show."""
    options, scripts = split_options(use.call.arguments, use.row.valued)
    folders = [".", *(value for option, value in options if option == "-t")]
    is_plain = len(options) == len(folders) and all(use.walk.place(folder) is Place.INSIDE for folder in folders)
    _note_server(use.walk, address.rpartition(":")[0] if is_plain else "", address)
    for script in scripts:
        _run_file(use.walk, script, [], "code")
    return UNKNOWN_OUTPUT


def _note_server(walk: Walk, host: str, target: str) -> None:
    """Note that a server starts: one on a loopback address answers this machine only."""
    is_here = host in ("127.0.0.1", "localhost", "::1", "[::1]")
    walk.add("asks-local" if is_here else "opens-port", host if is_here else target)


def _run_codes(use: Use, code: list[str], files: list[str]) -> None:
    walk, stdin = use.walk, use.call.stdin
    for text in code:
        run_argument(walk, text, [], "code")
    if stdin.source is Source.DOWNLOAD and any(re.search(r"\b(?:exec|eval)\b", text) for text in code):
        walk.add("runs-download", stdin.target)
    if use.call.name in ("perl", "ruby"):
        # One-liners of these read the files that follow, and write them with `-i`.
        in_place = any(re.match(r"-\w*i", argument) for argument in use.call.arguments)
        for path in files:
            if in_place:
                walk.access(path, Access.WRITE)
            else:
                walk.print_file(path)


_OWN_PROGRAMS = frozenset("pip pipx uv twine poetry hatch pdm pipenv build awscli ansible conda".split())
_SERVERS = frozenset("http.server SimpleHTTPServer pyftpdlib smtpd aiosmtpd".split())
_LOOKING_MODULES = frozenset("site sysconfig platform this calendar ast dis tokenize inspect".split())


def _run_module(use: Use, arguments: list[str]) -> Output:
    """`python -m MODULE`."""
    walk, stdin = use.walk, use.call.stdin
    module, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    if module in _OWN_PROGRAMS:
        return walk.run_program([module, *rest], stdin)
    if module in _SERVERS:
        options, ports = split_options(rest, frozenset(("-b", "--bind", "-d", "--directory")))
        bind = dict(options).get("-b") or dict(options).get("--bind") or ""
        _note_server(walk, bind, ports[0] if ports else "8000")
        return UNKNOWN_OUTPUT
    if module.startswith("json"):
        return stdin if stdin.source is not Source.TEXT else UNKNOWN_OUTPUT
    if module in ("base64", "quopri", "codecs") and has_option(rest, "-d"):
        return stdin if stdin.source is Source.DOWNLOAD else Output(Source.DECODED)
    if module in _LOOKING_MODULES:
        return UNKNOWN_OUTPUT
    # Any other module is the project's own, or one that is installed already.
    row, _ = find_row(module, rest)
    note_loose(walk, module, (row.loose if row else "") or "task", rest, ())
    walk.add("runs-project-task", f"-m {module}")
    return UNKNOWN_OUTPUT


# The shell's own commands


def finish_enters(use: Use) -> Output:
    """`cd`: the folder in which the rest of the line runs."""
    paths = [argument for argument in use.call.arguments if argument == "-" or argument[:1] != "-"]
    if use.call.name != "popd":
        use.walk.enter_folder(paths[0] if paths else "")
    return NO_OUTPUT


def finish_exports(use: Use) -> Output:
    """`export`, `declare`, `local`, `set`: variables set; without arguments all of them are shown."""
    walk, call = use.walk, use.call
    names = [argument for argument in call.arguments if argument[:1] != "-"]
    if not names and call.name in ("set", "export", "declare", "typeset"):
        return NO_OUTPUT if call.name == "set" and call.arguments else Output(Source.ENVIRONMENT)
    for argument in names if call.name != "set" else ():
        name, equals, value = argument.partition("=")
        if equals:
            walk.variables[name] = value
            walk.assign(name, value)
    return NO_OUTPUT


def role_alias(use: Use, value: str) -> None:
    """A name for a command."""
    name, equals, text = value.partition("=")
    if equals:
        use.walk.aliases[name] = text


def role_trap(use: Use, value: str) -> None:
    """A command for a signal, or the signal alone."""
    if value and not re.fullmatch(r"[A-Z0-9]+", value):
        use.walk.read_text(value)


def role_forget(use: Use, value: str) -> None:
    """A variable that is unset; the shell evaluates the index in its name."""
    use.walk.assigned.add(value)
    if "$(" in value:
        use.walk.add_unreadable()


def role_printed_variable(use: Use, value: str) -> None:
    """A variable that is shown."""
    if is_secret_variable(value):
        use.walk.add("reads-secret", value)
        use.output = Output(Source.SECRET, target=value)


def finish_prints_environment(use: Use) -> Output:
    """All variables, where none is named."""
    return use.output if use.operands else Output(Source.ENVIRONMENT)


def finish_shows_history(use: Use) -> Output:
    """What was typed before, which may hold secrets, or its end."""
    use.walk.add("disables-check" if "hides" in use.modes else "reads-secret", "history")
    return UNKNOWN_OUTPUT


def finish_reads_input(use: Use) -> Output:
    """`read NAME`: a variable that holds what streams in; its use decides."""
    if use.call.stdin.source >= Source.DOWNLOAD:
        for name in use.operands or ["REPLY"]:
            use.walk.variables[name] = use.walk.mark(use.call.stdin)
    return NO_OUTPUT


def finish_prints_folder(use: Use) -> Output:
    """The folder in which the line runs."""
    return Output(Source.TEXT, use.walk.folder or ".")


def finish_names_program(use: Use) -> Output:
    """Where a program lies is not known here, but that it is Lockgate's or an agent's."""
    name = "".join(use.operands[-1:])
    path = f"/usr/local/bin/{name}"
    return Output(Source.TEXT, path if name and find_own(path, use.walk.project) else name)


def finish_names_path(use: Use) -> Output:
    """`realpath`, `dirname`: what they print stands for the path that they were given."""
    path = use.walk.plain("".join(use.call.arguments[-1:]))
    path = path.rpartition("/")[0] if use.call.name == "dirname" else path
    return Output(Source.NONE, target=path) if path[:1] in ("/", "~") else UNKNOWN_OUTPUT


# Wrappers


def finish_sets_environment(use: Use) -> Output:
    """`env`: variables, and the program that gets them; alone it shows them."""
    walk, rest = use.walk, list(use.call.arguments)
    while rest:
        argument = rest[0]
        if argument in ("-u", "--unset", "-C", "--chdir"):
            walk.assigned.update(rest[1:2] if "u" in argument else ())
            del rest[:2]
        elif argument in ("-S", "--split-string"):
            return walk.read_text("".join(rest[1:2]))
        elif argument.startswith(("-S", "--split-string=")):
            return walk.read_text(argument.removeprefix("-S").removeprefix("--split-string="))
        elif _ASSIGNMENT.match(argument):
            name, _, value = rest.pop(0).partition("=")
            walk.assign(name, value)
        elif argument[:1] == "-":
            if argument in ("-", "--ignore-environment") or re.match(r"-[0v]*i", argument):
                walk.assigned |= HOME_VARIABLES
            walk.assigned.add(argument.removeprefix("--unset=").removeprefix("-u"))
            del rest[0]
        else:
            return walk.run_program(rest, use.call.stdin)
    return Output(Source.ENVIRONMENT)


def rest_root(use: Use, words: list[str]) -> Output:
    """A program with another user's rights; alone it is a shell."""
    walk, words = use.walk, list(words)
    while words and _ASSIGNMENT.match(words[0]):
        name, _, value = words.pop(0).partition("=")
        walk.assign(name, value)
    if not words and has_option(use.call.arguments, "-k", "-K", "-v", "-l", "-V"):
        return UNKNOWN_OUTPUT
    return walk.run_as_root(words or ["sh"], use.call.stdin)


_XARGS_VALUED = frozenset(
    "-n -I -P -L -d -E -s -a -i -j --max-args --max-procs --replace --delimiter --arg-file --max-lines --max-chars "
    "--jobs --colsep".split()
)
_SHELLS = frozenset("sh bash zsh dash".split())


def finish_repeats(use: Use) -> Output:
    """`xargs` and `parallel`: the program with what flows in as further arguments."""
    walk, stream, arguments = use.walk, use.call.stdin, use.call.arguments
    is_parallel = use.call.name in ("parallel", "rush")
    rest = program_after(arguments, _XARGS_VALUED)
    replaced = "{}" if is_parallel else dict(split_options(arguments, _XARGS_VALUED)[0]).get("-I", "")
    if is_parallel and ":::" in rest:
        index = rest.index(":::")
        stream, rest = Output(Source.TEXT, " ".join(rest[index + 1 :])), rest[:index]
    values = _arguments_from(walk, stream)
    if not rest:
        return walk.run_program(["sh"], stream) if is_parallel else stream
    if is_parallel and " " in rest[0]:
        return walk.read_text(" ".join(rest).replace("{}", " ".join(values)))
    if replaced and replaced in " ".join(rest):
        for value in values:
            walk.run_program([argument.replace(replaced, value) for argument in rest], NO_OUTPUT)
        return UNKNOWN_OUTPUT
    if rest[0] in _SHELLS and rest[1:] == ["-c"]:
        return walk.run_program(rest[:1], stream if stream is not NO_OUTPUT else UNKNOWN_OUTPUT)
    return walk.run_program([*rest, *values], NO_OUTPUT)


def _arguments_from(walk: Walk, stream: Output) -> list[str]:
    """Return the arguments that a stream is split into; a list of files stands for the path that it was made of."""
    if stream.source is Source.TEXT:
        return stream.text.split()[:64]
    if stream.source is Source.NONE and stream.target:
        return [stream.target]
    return [walk.mark(UNKNOWN_OUTPUT if stream.source is Source.FILE else stream)]


def role_command_text(use: Use, value: str) -> None:
    """An argument that is a command if it has blanks."""
    if " " in value.strip() and not re.match(r"[\w.:#{}-]*#\{", value):
        use.walk.read_text(value)


def role_make_word(use: Use, value: str) -> None:
    """A target, or a variable that may hold a command."""
    name, equals, text = value.partition("=")
    if equals and re.search(r"[;|&`]|\$\(", text):
        use.walk.read_text(text)
    elif equals and name == "SHELL":
        use.walk.run_path(text)


def finish_makes(use: Use) -> Output:
    """`make`: a task of the project, by its first target."""
    if "dry" not in use.modes:
        use.walk.add("runs-project-task", next((word for word in use.operands if "=" not in word), use.call.name))
    return UNKNOWN_OUTPUT


# Containers


def role_image(use: Use, value: str) -> None:
    """An image that is fetched and run: one with an owner or a host in its name is a package like any other."""
    walk = use.walk
    name = re.sub(r"(?:@sha256:\w+|:[\w.-]+)$", "", walk.plain(value))
    is_known = walk.project.has_package(name, "image") or walk.project.has_host(name.split("/")[0])
    if "/" not in name or name.startswith(("library/", "docker.io/library/")) or is_known:
        walk.add("runs-project-task", f"docker run {name}".strip())
    else:
        walk.add("installs-package", name)


def role_container_name(use: Use, value: str) -> None:
    """A container that runs already."""
    use.walk.add("runs-project-task", f"docker exec {value}")


def rest_docker_program(use: Use, words: list[str]) -> Output:
    """What happens in a container stays there, but what it sends and fetches does not."""
    return use.walk.run_contained(words, use.call.stdin) if words else UNKNOWN_OUTPUT


def role_mount(use: Use, value: str) -> None:
    """A folder of this machine that a container gets."""
    match = re.search(r"(?:source|src)=([^,]+)", value)
    plain = use.walk.plain(match.group(1) if match else value.split(":", 1)[0])
    if plain == "/" or "docker.sock" in plain or plain.startswith(("/etc", "/root", "/var/run")):
        use.walk.add("runs-as-root")
    elif plain.rstrip("/") in ("~", "~/.ssh", "~/.aws", "~/.kube"):
        use.walk.add("reads-secret", plain)


def role_open_machine(use: Use, value: str) -> None:
    """A part of this machine that a container gets: its processes, rights of the administrator."""
    if value == "host" or value.upper() in ("ALL", "SYS_ADMIN") or value.startswith("/dev/sd"):
        use.walk.add("runs-as-root")
