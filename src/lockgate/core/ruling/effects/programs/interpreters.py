"""Shells and interpreters: what they run from their arguments, a file, or their input; and the shell's own commands."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.code import read_code
from lockgate.core.ruling.effects.effect import Certainty
from lockgate.core.ruling.effects.paths import is_secret_variable
from lockgate.core.ruling.effects.programs.options import has_option, split_options
from lockgate.core.ruling.effects.streams import EMPTY, MARK, Invocation, Origin, Stream

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk

_NONE = Stream(Origin.NONE)
_SHELL_VALUED = frozenset(("-o", "+o", "-O", "--rcfile", "--init-file"))


def run_text(walk: Walk, stream: Stream, name: str, arguments: list[str], *, language: str = "") -> None:
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
        if piece.origin is Origin.DOWNLOAD:
            walk.add("runs-download", piece.target)
        elif piece.origin is Origin.DECODED:
            walk.add("runs-decoded")
    for found in read_code(walk.plain(text), walk.argument, walk.project):
        walk.add(found.kind, found.target, found.certainty)


def run_input(walk: Walk, stream: Stream, language: str) -> None:
    """Run what flows into an interpreter."""
    if stream.origin is Origin.TEXT:
        run_text(walk, stream, "", [], language=language)
    elif stream.origin is Origin.DOWNLOAD:
        walk.add("runs-download", stream.target)
    elif stream.origin is Origin.DECODED:
        walk.add("runs-decoded")
    elif stream.origin is Origin.FILE and stream.target:
        walk.run_path(stream.target)
    elif stream is not EMPTY:
        walk.add_unreadable()


def run_argument(walk: Walk, text: str, arguments: list[str], language: str) -> None:
    """Run a text given as an argument, unless it is a download or decoded."""
    for piece in walk.pieces_in(text):
        if piece.origin is Origin.DOWNLOAD:
            walk.add("runs-download", piece.target)
            return
        if piece.origin is Origin.DECODED:
            walk.add("runs-decoded")
            return
        if piece.origin is Origin.FILE and text.startswith(MARK) and piece.target:
            walk.run_path(piece.target)
            return
    if language == "shell":
        walk.read_text(text, arguments)
    else:
        run_code(walk, text)


def _shell(walk: Walk, call: Invocation) -> Stream:
    """`sh`, `bash` and their like: a text after `-c`, a file, or the input."""
    arguments = call.arguments
    index = 0
    while index < len(arguments) and arguments[index][:1] in ("-", "+"):
        argument = arguments[index]
        index += 1
        if argument in ("--version", "--help"):
            return _NONE
        if argument == "--":
            break
        if argument in _SHELL_VALUED:
            if argument in ("--rcfile", "--init-file") and index < len(arguments):
                walk.run_path(arguments[index])
            index += 1
        elif argument[:2] != "--" and "c" in argument:
            if index < len(arguments):
                run_argument(walk, arguments[index], arguments[index + 1 :], "shell")
            return _NONE
        elif argument == "-n":
            return _NONE
        elif argument[:2] != "--" and "s" in argument:
            run_input(walk, call.stdin, "shell")
            return _NONE
    if index >= len(arguments) or arguments[index] in ("-", "/dev/stdin", "/proc/self/fd/0", "/dev/fd/0"):
        run_input(walk, call.stdin, "shell")
    else:
        _run_file(walk, arguments[index], arguments[index + 1 :], "shell")
    return _NONE


def _run_file(walk: Walk, path: str, arguments: list[str], language: str) -> None:
    stream = walk.read_file(path)
    if stream.origin in (Origin.TEXT, Origin.DOWNLOAD, Origin.DECODED):
        if stream.origin is Origin.TEXT:
            run_text(walk, stream, path, arguments, language=language)
        else:
            run_input(walk, stream, language)
    elif MARK in path and path.startswith(MARK) and path.endswith(MARK) and path.count(MARK) == 2:
        walk.add_unreadable()
    else:
        walk.run_path(path, stream)


def _eval(walk: Walk, call: Invocation) -> Stream:
    text = " ".join(call.arguments)
    if _SETUP.fullmatch(walk.plain(text)) and not any(
        piece.origin in (Origin.DOWNLOAD, Origin.DECODED) for piece in walk.pieces_in(text)
    ):
        # `eval "$(ssh-agent -s)"`, `eval "$(pyenv init -)"`: the substitution was read already.
        pieces = walk.pieces_in(text)
        if pieces and pieces[0].origin is Origin.NONE:
            return EMPTY
    run_argument(walk, text, [], "shell")
    return _NONE


_SETUP = re.compile(r"\s*\$\(\)\s*")


def _source(walk: Walk, call: Invocation) -> Stream:
    """`source FILE` and `. FILE`: settings and activation scripts are ordinary, anything else is run."""
    path = call.arguments[0] if call.arguments else ""
    plain = walk.plain(path)
    if re.search(
        r"(?:^|/)(?:bin/activate(?:\.fish)?|\.env[\w.-]*|\.bashrc|\.profile|\.zshrc|\.bash_profile|[\w.-]*(?:env|vars)\.sh|nvm\.sh|etc/profile|\.cargo/env|conda\.sh)$",
        plain,
    ):
        if not walk.download_of(walk.full_path(path)):
            return EMPTY
    if path:
        _run_file(walk, path, call.arguments[1:], "shell")
    return EMPTY


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


def _interpreter(walk: Walk, call: Invocation) -> Stream:
    """An interpreter: text after its code option, `-m MODULE`, a file, or the input."""
    name = {
        "python3": "python",
        "python2": "python",
        "pypy3": "python",
        "pypy": "python",
        "py": "python",
        "nodejs": "node",
    }.get(call.name, call.name)
    if name == "ipython":
        name = "python"
    arguments = call.arguments
    flags = _CODE_FLAGS.get(name, ("-e",))
    valued = _VALUED.get(name, frozenset())
    index = 0
    in_place = False
    code: list[str] = []
    while index < len(arguments) and arguments[index][:1] == "-" and arguments[index] != "-":
        argument = arguments[index]
        index += 1
        joined = argument[:2] != "--" and len(argument) > 1 and "-" + argument[-1] in flags
        if argument in flags or joined:
            in_place = in_place or "i" in argument and name in ("perl", "ruby")
            if index < len(arguments):
                code.append(arguments[index])
            index += 1
        elif name == "python" and argument[:2] == "-c":
            code.append(argument[2:])
        elif name == "python" and (argument == "-m" or argument[-1] == "m" and argument[:2] != "--"):
            return _module(walk, call, arguments[index:])
        elif name == "php" and argument == "-S":
            walk.add("opens-port", arguments[index] if index < len(arguments) else "")
            return _NONE
        elif argument in valued:
            index += 1
        elif argument in ("--test", "--check", "-l", "--lint", "--version", "-V", "-v") and name in (
            "node",
            "php",
            "perl",
            "ruby",
            "python",
        ):
            if argument in ("--test", "--check"):
                walk.add("runs-project-task", call.name)
            return _NONE
        elif argument[:2] == "-i" and name in ("perl", "ruby"):
            in_place = True
        elif argument == "--":
            break
    if code:
        _run_codes(walk, call, code, arguments[index:], in_place=in_place)
        return _NONE
    if index >= len(arguments) or arguments[index] in ("-", "/dev/stdin"):
        if call.stdin is EMPTY:
            return _NONE
        run_input(walk, call.stdin, "code")
        return _NONE
    _run_file(walk, arguments[index], arguments[index + 1 :], "code")
    return _NONE


def _run_codes(walk: Walk, call: Invocation, code: list[str], files: list[str], *, in_place: bool) -> None:
    from lockgate.core.ruling.effects.paths import Access

    for text in code:
        run_argument(walk, text, [], "code")
    if call.stdin.origin is Origin.DOWNLOAD and any(re.search(r"\b(?:exec|eval)\b", text) for text in code):
        walk.add("runs-download", call.stdin.target)
    for path in files:
        if in_place:
            walk.access(path, Access.WRITE)
        elif call.name in ("perl", "ruby"):
            walk.print_file(path)


_MODULE_TASKS = frozenset(
    "pytest unittest doctest venv virtualenv ensurepip build mypy ruff black isort flake8 pylint coverage tox nox sphinx mkdocs "
    "compileall py_compile timeit cProfile pstats pdb trace tokenize ast dis json json.tool zipapp tabnanny cython nuitka "
    "pre_commit bandit pyright interrogate codespell_lib isort pyupgrade yapf autopep8 piptools nose2 behave robot locust "
    "django flask uvicorn gunicorn hypercorn celery alembic jupyter ipykernel notebook nbconvert streamlit gradio dvc "
    "cibuildwheel twine hatch hatchling poetry pdm setuptools wheel check_manifest mutmut hypothesis xdist semgrep towncrier "
    "commitizen bumpversion IPython sysconfig site platform calendar this antigravity zipfile tarfile gzip textwrap uuid "
    "random base64 quopri webbrowser turtle idlelib sqlite3 inspect pyclbr symtable faulthandler tracemalloc torch".split()
)


def _module(walk: Walk, call: Invocation, arguments: list[str]) -> Stream:
    """`python -m MODULE`."""
    module, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    if module in (
        "pip",
        "pipx",
        "uv",
        "twine",
        "poetry",
        "hatch",
        "pdm",
        "pipenv",
        "build",
        "awscli",
        "ansible",
        "conda",
    ):
        return walk.run_program([module, *rest], call.stdin)
    if module in ("http.server", "SimpleHTTPServer", "pyftpdlib", "smtpd", "aiosmtpd"):
        options = split_options(rest, frozenset(("-b", "--bind", "-d", "--directory")))
        bind = dict(options[0]).get("-b") or dict(options[0]).get("--bind") or ""
        if bind in ("127.0.0.1", "localhost", "::1"):
            walk.add("asks-local", bind)
        else:
            walk.add("opens-port", options[1][0] if options[1] else "8000")
        return _NONE
    if module == "json.tool" or module.startswith("json"):
        return call.stdin if call.stdin.origin is not Origin.TEXT else _NONE
    if module in ("base64", "quopri", "codecs") and has_option(rest, "-d"):
        return call.stdin if call.stdin.origin is Origin.DOWNLOAD else Stream(Origin.DECODED)
    if module in ("site", "sysconfig", "platform", "this", "calendar", "ast", "dis", "tokenize", "inspect"):
        return _NONE
    # Any other module is the project's own, or one that is installed already.
    walk.add("runs-project-task", f"-m {module}")
    return _NONE


def _windows_shell(walk: Walk, call: Invocation) -> Stream:
    del call
    walk.add_unreadable()
    return _NONE


def _cd(walk: Walk, call: Invocation) -> Stream:
    paths = [argument for argument in call.arguments if argument == "-" or argument[:1] != "-"]
    if call.name != "popd":
        walk.enter_folder(paths[0] if paths else "")
    return EMPTY


def _export(walk: Walk, call: Invocation) -> Stream:
    """`export`, `declare`, `local`, `readonly`: variables set; without arguments all of them are shown."""
    names = [argument for argument in call.arguments if argument[:1] != "-"]
    if not names:
        if call.name in ("set", "export", "declare", "typeset") and (call.name != "set" or not call.arguments):
            return Stream(Origin.ENVIRONMENT)
        return EMPTY
    if call.name == "set":
        return EMPTY
    for argument in names:
        name, equals, value = argument.partition("=")
        if equals:
            walk.variables[name] = value
            walk.assign(name, value)
    return EMPTY


def _alias(walk: Walk, call: Invocation) -> Stream:
    for argument in call.arguments:
        name, equals, value = argument.partition("=")
        if equals:
            walk.aliases[name] = value
    return EMPTY


def _trap(walk: Walk, call: Invocation) -> Stream:
    text = next((argument for argument in call.arguments if argument[:1] != "-"), "")
    if text and not re.fullmatch(r"[A-Z0-9]+", text):
        walk.read_text(text)
    return EMPTY


def _printenv(walk: Walk, call: Invocation) -> Stream:
    names = [argument for argument in call.arguments if argument[:1] != "-"]
    for name in names:
        if is_secret_variable(name):
            walk.add("reads-secret", name)
            return Stream(Origin.SECRET, target=name)
    return _NONE if names else Stream(Origin.ENVIRONMENT)


def _history(walk: Walk, call: Invocation) -> Stream:
    if has_option(call.arguments, "-c", "-d", "-w"):
        walk.add("disables-check", "history")
    return _NONE


def _pwd(walk: Walk, call: Invocation) -> Stream:
    del call
    return Stream(Origin.TEXT, walk.folder or ".")


def _which(walk: Walk, call: Invocation) -> Stream:
    del walk
    return Stream(Origin.TEXT, call.arguments[-1] if call.arguments else "")


def _unknown_runtime(walk: Walk, call: Invocation) -> Stream:
    walk.add("runs-program", call.name, Certainty.GUESS)
    return _NONE


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
    "which": _which,
}
