"""Shells and interpreters: what they run from their arguments, a file, or their input; and the shell's own commands."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.code import read_code
from lockgate.core.ruling.effects.paths import Access, is_secret_variable
from lockgate.core.ruling.effects.program_io import (
    MARK,
    NO_OUTPUT,
    SETUP,
    STANDARD_INPUT,
    UNKNOWN_OUTPUT,
    Invocation,
    Output,
    Source,
)
from lockgate.core.ruling.effects.programs.options import has_option, split_options
from lockgate.core.ruling.effects.programs.program_rows import find_row
from lockgate.core.ruling.effects.programs.roles import LOOSE, note_loose
from lockgate.core.ruling.effects.project import Place
from lockgate.core.ruling.effects.protected_paths import find_own

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk

_SHELL_VALUED = frozenset(("-o", "+o", "-O", "--rcfile", "--init-file"))


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
    for found in read_code(walk.plain(text), walk.argument, walk.project):
        walk.add(found.kind, found.target, found.certainty)


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


def _shell(walk: Walk, call: Invocation) -> Output:
    """`sh`, `bash` and their like: a text after `-c`, a file, or the input."""
    arguments = call.arguments
    index = 0
    while index < len(arguments) and arguments[index][:1] in ("-", "+"):
        argument = arguments[index]
        following = arguments[index + 1 :]
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
        if walk.as_root and call.stdin is NO_OUTPUT:
            walk.add("runs-as-root")
        run_input(walk, call.stdin, "shell")
    else:
        _run_file(walk, arguments[index], arguments[index + 1 :], "shell")
    return UNKNOWN_OUTPUT


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


def _eval(walk: Walk, call: Invocation) -> Output:
    text = " ".join(call.arguments)
    if _is_setup(walk, text):
        # `eval "$(ssh-agent -s)"`, `eval "$(pyenv init -)"`: the substitution was read already.
        return NO_OUTPUT
    run_argument(walk, text, [], "shell")
    return UNKNOWN_OUTPUT


def _is_setup(walk: Walk, text: str) -> bool:
    return walk.plain(text).strip() == "$()" and any(piece is SETUP for piece in walk.pieces_in(text))


def _source(walk: Walk, call: Invocation) -> Output:
    """`source FILE` and `. FILE`: settings and activation scripts are ordinary, anything else is run."""
    path = call.arguments[0] if call.arguments else ""
    plain = walk.plain(path)
    walk.load(path)
    if re.search(
        r"(?:^|/)(?:bin/activate(?:\.fish)?|\.env[\w.-]*|\.bashrc|\.profile|\.zshrc|\.bash_profile|[\w.-]*(?:env|vars)\.sh|nvm\.sh|etc/profile|\.cargo/env|conda\.sh)$",
        plain,
    ):
        if not walk.download_of(walk.full_path(path)):
            return NO_OUTPUT
    if path and not _is_setup(walk, path):
        _run_file(walk, path, call.arguments[1:], "shell")
    return NO_OUTPUT


_CODE_FLAGS = {
    "python": ("-c",),
    "node": ("-e", "-p", "-pe", "--eval", "--print"),
    "perl": ("-e", "-E"),
    "ruby": ("-e",),
    "php": ("-r",),
    "lua": ("-e",),
    "Rscript": ("-e",),
    "osascript": ("-e",),
    "tclsh": (),
    "deno": (),
    "bun": ("-e", "--eval"),
    "groovy": ("-e",),
    "julia": ("-e", "--eval"),
    "swift": ("-e",),
    "elixir": ("-e",),
    "guile": ("-c",),
}
_VALUED = {
    "python": frozenset(("-W", "-X", "-Q", "--check-hash-based-pycs")),
    "node": frozenset(
        (
            "-r",
            "--require",
            "--import",
            "--loader",
            "--env-file",
            "--max-old-space-size",
            "--test-name-pattern",
            "--test-reporter",
            "-C",
        )
    ),
    "perl": frozenset(("-I", "-M", "-m", "-F")),
    "ruby": frozenset(("-I", "-r")),
    "php": frozenset(("-d", "-c", "-S", "-t")),
}


_NAMES = {
    "python3": "python",
    "python2": "python",
    "pypy3": "python",
    "pypy": "python",
    "py": "python",
    "ipython": "python",
    "nodejs": "node",
}
_OPTION = re.compile("-.")
_MODULE_OPTION = re.compile(r"-\w*m")
_CHECKS = frozenset("--test --check -l --lint --version -V -v".split())


def _interpreter(walk: Walk, call: Invocation) -> Output:
    """An interpreter: text after its code option, `-m MODULE`, a file, or the input."""
    name = _NAMES.get(call.name, call.name)
    arguments = call.arguments
    index = 0
    code: list[str] = []
    while index < len(arguments) and _OPTION.match(arguments[index]):
        argument, following = arguments[index], arguments[index + 1 :]
        if name == "python" and _MODULE_OPTION.fullmatch(argument):
            return _module(walk, call, following)
        if argument in _CHECKS or f"{name} {argument}" == "php -S":
            return _check(walk, call, argument, following)
        given = _code_in(name, argument, following)
        code += given
        index += 2 if (given and given == following[:1]) or argument in _VALUED.get(name, ()) else 1
    rest = arguments[index:]
    if code:
        _run_codes(walk, call._replace(name=name), code, rest)
    elif rest and rest[0] != "-":
        _run_file(walk, rest[0], rest[1:], "code")
    elif call.stdin is not NO_OUTPUT:
        run_input(walk, call.stdin, "code")
    return UNKNOWN_OUTPUT


def _code_in(name: str, argument: str, following: list[str]) -> list[str]:
    """Return the text that an option gives the interpreter to run, in the next argument or joined to the option."""
    flags = _CODE_FLAGS.get(name, ("-e",))
    if argument in flags or (argument[:2] != "--" and "-" + argument[-1] in flags):
        return following[:1]
    return [argument[2:]] if name == "python" and argument[:2] == "-c" else []


def _check(walk: Walk, call: Invocation, argument: str, following: list[str]) -> Output:
    """Options that run no script: a syntax check, the version, the runner of tests, a server."""
    if argument == "--test":
        walk.add("runs-project-task", call.name)
    elif argument == "-S":
        options, scripts = split_options(call.arguments, _VALUED["php"])
        # Settings can load code, and a folder elsewhere holds other things to run and to show.
        folders = [".", *(value for option, value in options if option == "-t")]
        is_plain = len(options) == len(folders) and all(walk.place(folder) is Place.INSIDE for folder in folders)
        address = [*following, ""][0]
        _note_server(walk, address.rpartition(":")[0] if is_plain else "", address)
        for script in scripts:
            _run_file(walk, script, [], "code")
    return UNKNOWN_OUTPUT


def _note_server(walk: Walk, host: str, target: str) -> None:
    """Note that a server starts: one on a loopback address answers this machine only."""
    if host in ("127.0.0.1", "localhost", "::1", "[::1]"):
        walk.add("asks-local", host)
    else:
        walk.add("opens-port", target)


def _run_codes(walk: Walk, call: Invocation, code: list[str], files: list[str]) -> None:
    for text in code:
        run_argument(walk, text, [], "code")
    if call.stdin.source is Source.DOWNLOAD and any(re.search(r"\b(?:exec|eval)\b", text) for text in code):
        walk.add("runs-download", call.stdin.target)
    if call.name in ("perl", "ruby"):
        # One-liners of these read the files that follow, and write them with `-i`.
        in_place = any(re.match(r"-\w*i", argument) for argument in call.arguments)
        for path in files:
            if in_place:
                walk.access(path, Access.WRITE)
            else:
                walk.print_file(path)


_OWN_PROGRAMS = frozenset("pip pipx uv twine poetry hatch pdm pipenv build awscli ansible conda".split())
_SERVERS = frozenset("http.server SimpleHTTPServer pyftpdlib smtpd aiosmtpd".split())
_LOOKING_MODULES = frozenset("site sysconfig platform this calendar ast dis tokenize inspect".split())


def _module(walk: Walk, call: Invocation, arguments: list[str]) -> Output:
    """`python -m MODULE`."""
    module, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    if module in _OWN_PROGRAMS:
        return walk.run_program([module, *rest], call.stdin)
    if module in _SERVERS:
        options = split_options(rest, frozenset(("-b", "--bind", "-d", "--directory")))
        bind = dict(options[0]).get("-b") or dict(options[0]).get("--bind") or ""
        _note_server(walk, bind, options[1][0] if options[1] else "8000")
        return UNKNOWN_OUTPUT
    if module == "json.tool" or module.startswith("json"):
        return call.stdin if call.stdin.source is not Source.TEXT else UNKNOWN_OUTPUT
    if module in ("base64", "quopri", "codecs") and has_option(rest, "-d"):
        return call.stdin if call.stdin.source is Source.DOWNLOAD else Output(Source.DECODED)
    if module in _LOOKING_MODULES:
        return UNKNOWN_OUTPUT
    # Any other module is the project's own, or one that is installed already.
    note_loose(walk, module, _role_of(module, rest), rest, ())
    walk.add("runs-project-task", f"-m {module}")
    return UNKNOWN_OUTPUT


def _role_of(module: str, arguments: list[str]) -> str:
    row, _ = find_row(module, arguments)
    return row.operands[0] if row is not None and row.operands[0] in LOOSE else "task"


def _windows_shell(walk: Walk, call: Invocation) -> Output:
    del call
    walk.add_unreadable()
    return UNKNOWN_OUTPUT


def _cd(walk: Walk, call: Invocation) -> Output:
    paths = [argument for argument in call.arguments if argument == "-" or argument[:1] != "-"]
    if call.name != "popd":
        walk.enter_folder(paths[0] if paths else "")
    return NO_OUTPUT


def _export(walk: Walk, call: Invocation) -> Output:
    """`export`, `declare`, `local`, `readonly`: variables set; without arguments all of them are shown."""
    names = [argument for argument in call.arguments if argument[:1] != "-"]
    if not names:
        if call.name in ("set", "export", "declare", "typeset") and (call.name != "set" or not call.arguments):
            return Output(Source.ENVIRONMENT)
        return NO_OUTPUT
    if call.name == "set":
        return NO_OUTPUT
    for argument in names:
        name, equals, value = argument.partition("=")
        if equals:
            walk.variables[name] = value
            walk.assign(name, value)
    return NO_OUTPUT


def _alias(walk: Walk, call: Invocation) -> Output:
    for argument in call.arguments:
        name, equals, value = argument.partition("=")
        if equals:
            walk.aliases[name] = value
    return NO_OUTPUT


def _trap(walk: Walk, call: Invocation) -> Output:
    text = next((argument for argument in call.arguments if argument[:1] != "-"), "")
    if text and not re.fullmatch(r"[A-Z0-9]+", text):
        walk.read_text(text)
    return NO_OUTPUT


def _printenv(walk: Walk, call: Invocation) -> Output:
    names = [argument for argument in call.arguments if argument[:1] != "-"]
    for name in names:
        if is_secret_variable(name):
            walk.add("reads-secret", name)
            return Output(Source.SECRET, target=name)
    return UNKNOWN_OUTPUT if names else Output(Source.ENVIRONMENT)


def _history(walk: Walk, call: Invocation) -> Output:
    if has_option(call.arguments, "-c", "-d", "-w"):
        walk.add("disables-check", "history")
    else:
        walk.add("reads-secret", "history")
    return UNKNOWN_OUTPUT


def _read(walk: Walk, call: Invocation) -> Output:
    """`read NAME`: a variable that holds what streams in; its use decides."""
    if call.stdin.source >= Source.DOWNLOAD:
        names = split_options(call.arguments, frozenset("-a -d -i -n -N -p -t -u".split()))[1]
        for name in names or ["REPLY"]:
            walk.variables[name] = walk.mark(call.stdin)
    return NO_OUTPUT


def _pwd(walk: Walk, call: Invocation) -> Output:
    del call
    return Output(Source.TEXT, walk.folder or ".")


def _which(walk: Walk, call: Invocation) -> Output:
    name = call.arguments[-1] if call.arguments else ""
    # Where our program or an agent's lies is not known here, but that it is one of them.
    path = f"/usr/local/bin/{name}"
    return Output(Source.TEXT, path if name and find_own(path, walk.project) else name)


def _path_of(walk: Walk, call: Invocation) -> Output:
    """`realpath`, `dirname`: what they print stands for the path that they were given."""
    path = walk.plain("".join(call.arguments[-1:]))
    path = path.rpartition("/")[0] if call.name == "dirname" else path
    return Output(Source.NONE, target=path) if path[:1] in ("/", "~") else UNKNOWN_OUTPUT


READERS = {
    **dict.fromkeys(("sh", "bash", "zsh", "dash", "ksh", "ash", "fish", "mksh", "rbash", "csh", "tcsh"), _shell),
    "eval": _eval,
    **dict.fromkeys(("source", "."), _source),
    **dict.fromkeys(
        (
            "python",
            "python3",
            "python2",
            "pypy",
            "pypy3",
            "py",
            "ipython",
            "node",
            "nodejs",
            "perl",
            "ruby",
            "php",
            "lua",
            "osascript",
            "tclsh",
            "expect",
            "groovy",
            "Rscript",
            "julia",
        ),
        _interpreter,
    ),
    **dict.fromkeys(
        (
            "powershell",
            "pwsh",
            "cmd",
            "wscript",
            "cscript",
            "mshta",
            "rundll32",
            "regsvr32",
            "certutil",
            "bitsadmin",
            "iex",
            "Invoke-Expression",
            "Invoke-WebRequest",
            "wmic",
        ),
        _windows_shell,
    ),
    **dict.fromkeys(("cd", "chdir", "pushd", "popd"), _cd),
    **dict.fromkeys(("export", "declare", "typeset", "local", "readonly", "set"), _export),
    "alias": _alias,
    "trap": _trap,
    "printenv": _printenv,
    "history": _history,
    "pwd": _pwd,
    "read": _read,
    "which": _which,
    **dict.fromkeys(("realpath", "readlink", "dirname"), _path_of),
}
