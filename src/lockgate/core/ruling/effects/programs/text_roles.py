"""Programs that show text or pass it on: `cat`, `grep`, `sed`, `awk`, `echo`."""

from __future__ import annotations

import re
from base64 import b64decode
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.paths import Access, is_secret_variable, read_access
from lockgate.core.ruling.effects.program_io import NO_OUTPUT, UNKNOWN_OUTPUT, Output, Source
from lockgate.core.ruling.effects.programs.roles import NO_FILES, Use
from lockgate.core.ruling.effects.programs.sed_script import read_sed_script
from lockgate.core.ruling.effects.shell_syntax import decode_escapes

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk

# Streams that stay what they are, whatever a filter does to them.
_TELLING = (Source.DOWNLOAD, Source.SECRET, Source.ENVIRONMENT)


def finish_shows(use: Use) -> Output:
    """The files that are given, or the input: all of it, a part, or changed."""
    return _filter_stream(use, _print_files(use, use.operands))


def _print_files(use: Use, files: list[str]) -> Output:
    walk, stdin = use.walk, use.call.stdin
    streams = [stdin if path == "-" else walk.print_file(path) for path in files] or [walk.show(stdin)]
    stream = max(streams, key=lambda stream: stream.source)
    return UNKNOWN_OUTPUT if stream.source is Source.FILE and len(streams) > 1 else stream


def _filter_stream(use: Use, stream: Output) -> Output:
    """Return what comes out of a program that this stream goes into, by the brackets of its row's effect."""
    how = use.row.target
    if stream.source in _TELLING:
        return stream
    if how == "decoded" or "decode" in use.modes:
        return Output(Source.DECODED, _decode_base64(stream.text) if use.call.name == "base64" else "")
    if stream.source is Source.FILE and how != "all":
        return UNKNOWN_OUTPUT
    return stream if how or stream.source in (Source.DECODED, Source.NONE) else UNKNOWN_OUTPUT


def _decode_base64(text: str) -> str:
    try:
        return b64decode(text.encode()).decode("utf-8", "replace")
    except ValueError:
        return ""


_SECRET_WORDS = re.compile(r"(?i)token|secret|passw|api.?key|credential|private|_key|auth|aws|^\.?[*+]?$")


def finish_searches(use: Use) -> Output:
    """Files, or the input, of which the lines that fit a pattern are shown."""
    walk, call, files, pattern = use.walk, use.call, use.operands, use.value("pattern")
    if not pattern and not use.wants("-f", "--file", "--from-file"):
        pattern, files = "".join(files[:1]), files[1:]
    if "quiet" in use.modes:
        return UNKNOWN_OUTPUT
    if "in-place" in use.modes and files:
        walk.access(files[-1], Access.WRITE)
    if files:
        is_shown = not _is_setting(pattern) or "inverted" in use.modes
        return _filter_stream(use, _print_files(use, files) if is_shown else UNKNOWN_OUTPUT)
    if call.stdin.source is not Source.ENVIRONMENT:
        return _filter_stream(use, call.stdin if _is_setting(pattern) else walk.show(call.stdin))
    # `env | grep FEATURE` shows settings; `env | grep -i token` and `env | grep -v x` show secrets.
    if _SECRET_WORDS.search(pattern) or "inverted" in use.modes:
        walk.add("reads-secret", "environment")
    return UNKNOWN_OUTPUT


def _is_setting(pattern: str) -> bool:
    """Return whether a pattern is the name of a setting that holds no secret, as in `grep FEATURE .env`."""
    name = pattern.strip("^=$")
    return re.fullmatch(r"[A-Z][A-Z0-9_]{2,}", name) is not None and not is_secret_variable(name)


def finish_echoes(use: Use) -> Output:
    """`echo` and `printf`: show their arguments."""
    walk, arguments = use.walk, use.call.arguments
    for secret in {secret for argument in arguments for secret in walk.secrets_in(argument)}:
        walk.add("reads-secret", secret)
    if use.call.name == "printf":
        return _format(walk, [argument for argument in arguments if argument != "--"])
    escapes = False
    while arguments and re.fullmatch(r"-[neE]+", arguments[0]):
        escapes = escapes or "e" in arguments[0]
        arguments = arguments[1:]
    text = " ".join(arguments)
    return _output_from_text(
        walk, decode_escapes(text) if escapes and "\\" in text else text + "\n", hidden=escapes and _hides(text)
    )


_PLACE = re.compile(r"%%|%[-+ 0#]*\d*(?:\.\d+)?[a-zA-Z]")


def _format(walk: Walk, arguments: list[str]) -> Output:
    """Read `printf`, whose format is used again until no value is left."""
    if arguments[:1] == ["-v"]:
        walk.variables["".join(arguments[1:2]) or "_"] = " ".join(arguments[3:] or arguments[2:])
        return NO_OUTPUT
    pattern, values = "".join(arguments[:1]), arguments[1:]
    hidden = _hides(pattern) or ("%b" in pattern and any(map(_hides, values)))
    pattern, remaining, text = decode_escapes(pattern), values[::-1], ""

    def fill(match: re.Match[str]) -> str:
        return "%" if match.group() == "%%" else remaining.pop() if remaining else ""

    before = -1
    while before < 0 or before > len(remaining) > 0:
        before = len(remaining)
        text += _PLACE.sub(fill, pattern)
    return _output_from_text(walk, decode_escapes(text) if "%b" in pattern else text, hidden=hidden)


def _hides(text: str) -> bool:
    return re.search(r"\\(?:x[0-9a-fA-F]|u[0-9a-fA-F]|[0-7]{2})", text) is not None


def _output_from_text(walk: Walk, text: str, *, hidden: bool) -> Output:
    """Return what is printed. A text made of codes is decoded text; one with a download or secret in it is that."""
    for piece in walk.pieces_in(text):
        if piece.source in (Source.DOWNLOAD, Source.DECODED, Source.SECRET):
            return piece
    if secrets := walk.secrets_in(text):
        return Output(Source.SECRET, target=secrets[0])
    return Output(Source.DECODED) if hidden else Output(Source.TEXT, text)


# Characters of a script of `sed` that are read.
MOST_SCRIPT = 4_000


def finish_edits(use: Use) -> Output:
    """What a script of `sed` runs and writes, and the text that is left."""
    walk, call, paths, scripts = use.walk, use.call, use.operands, use.values.get("script", [])
    if not scripts and not use.wants("-f", "--file"):
        scripts, paths = paths[:1], paths[1:]
    # Several pieces are one script, of which each is a line.
    script = "\n".join(scripts)
    effect = read_sed_script(script[:MOST_SCRIPT])
    if len(script) > MOST_SCRIPT or effect.runs:
        walk.add_unreadable()
    for path in sorted(effect.writes - NO_FILES):
        walk.access(path, Access.WRITE)
    if "in-place" in use.modes:
        for path in paths:
            _edit_in_place(walk, path, script)
        return NO_OUTPUT
    if not paths and call.stdin.source is Source.TEXT:
        return Output(Source.DECODED if "s" in script else Source.NONE)
    return _edit_stream(walk, paths, call.stdin)


def _edit_stream(walk: Walk, paths: list[str], stdin: Output) -> Output:
    """Return what is left of files or the input after a script: a file is no longer what lies on the disk."""
    stream = max(map(walk.print_file, paths), key=lambda stream: stream.source, default=stdin)
    return UNKNOWN_OUTPUT if stream.source is Source.FILE else stream


_REPLACES = re.compile(r"\bs([/|#,!@%])((?:\\.|(?!\1)[^\\]){0,400})\1((?:\\.|(?!\1)[^\\]){0,400})\1")
_HOST = re.compile(r"(?<![\w.@-])(?:[\w-]+\.)+[a-zA-Z]{2,}(?![\w-])")


def _edit_in_place(walk: Walk, path: str, script: str) -> None:
    """Note what a script writes to a file: one that names a package source is told by the new host, where it shows."""
    hosts: list[str] = []
    plain = walk.plain(path)
    if read_access(plain, Access.WRITE, walk.project, folder=walk.folder).kind == "uses-package-source":
        replaced = "\n".join(match.group(3) for match in _REPLACES.finditer(script)).replace("\\", "")
        hosts = [host.lower() for host in _HOST.findall(replaced)]
    for host in hosts:
        is_known = walk.project.has_host(host)
        walk.add("edits-project" if is_known else "uses-package-source", plain if is_known else host)
    if not hosts:
        walk.access(path, Access.WRITE)


_AWK_RUNS = re.compile(r"\bsystem\s*\(\s*(\"(?:[^\"\\]|\\.)*\")?|\|\s*getline|\|\s*\"|\"\s*\|\s*&?\s*getline|/inet/")
_AWK_SHOWS = re.compile(r"\bin\s+ENVIRON\b")
_AWK_WRITES = re.compile(r">>?\s*\"([^\"]+)\"")


def finish_scans(use: Use) -> Output:
    """What a script of `awk` runs and writes, and the text that is left."""
    walk, stdin, paths, scripts = use.walk, use.call.stdin, use.operands, use.values.get("script", [])
    if not scripts and not use.wants("-f", "--file", "-E", "--exec"):
        scripts, paths = paths[:1], paths[1:]
    script = "\n".join(scripts)
    if match := _AWK_RUNS.search(script):
        if match.group(1):
            walk.read_text(decode_escapes(match.group(1)[1:-1]))
        else:
            walk.add_unreadable()
    for path in sorted({*_AWK_WRITES.findall(script)} - NO_FILES):
        walk.access(path, Access.WRITE)
    files = [path for path in paths if "=" not in path]
    if _AWK_SHOWS.search(script) or (not files and stdin.source is Source.ENVIRONMENT):
        walk.add("reads-secret", "environment")
    return Output(Source.DECODED) if not files and stdin.source is Source.TEXT else _edit_stream(walk, files, stdin)


def finish_translates(use: Use) -> Output:
    """Letters of the input are others, or left out."""
    stdin, arguments = use.call.stdin, use.call.arguments
    if stdin.source is Source.ENVIRONMENT:
        use.walk.add("reads-secret", "environment")
    if stdin.source is not Source.TEXT:
        return stdin
    is_plain = arguments[:1] in (["-d"], ["-s"]) and arguments[1:] in (["\\n"], ["\n"], ["\\r"], [" "], ["\r"])
    return UNKNOWN_OUTPUT if is_plain else Output(Source.DECODED)
