"""Programs that show text or pass it on: `cat`, `grep`, `sed`, `awk`, `echo`."""

from __future__ import annotations

import re
from base64 import b64decode
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.paths import Access, is_secret_variable, read_access
from lockgate.core.ruling.effects.program_io import NO_OUTPUT, UNKNOWN_OUTPUT, Invocation, Output, Source
from lockgate.core.ruling.effects.programs.options import has_option, split_options
from lockgate.core.ruling.effects.programs.roles import Use, note_loose
from lockgate.core.ruling.effects.programs.sed_script import read_sed_script
from lockgate.core.ruling.effects.shell_syntax import decode_escapes

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk

_SECRET_WORDS = re.compile(r"(?i)token|secret|passw|api.?key|credential|private|_key|auth|aws|^\.?[*+]?$")
_SEARCHES = frozenset("grep egrep fgrep zgrep rg ag ack ugrep pcregrep ripgrep".split())
# Programs that take their first argument as a pattern or a script, not as a file.
_PATTERN_FIRST = _SEARCHES | frozenset("jq yq gron xq tomlq dasel mlr".split())
# Programs that show a text as it is, or lines of it; any other may have changed it.
_WHOLE = frozenset("cat tac less more head tail nl sponge pv ts bat batcat".split())
# Those of them that show all of it.
_ALL = frozenset("cat less more sponge pv bat batcat".split())


def finish_visits(use: Use) -> Output:
    """Files that are shown, of programs that take an address for one."""
    note_loose(use.walk, use.call.name, "look", use.call.arguments, ())
    return finish_shows(use)


def finish_shows(use: Use) -> Output:
    """The files that are given, or the input."""
    walk, call = use.walk, use.call
    name, arguments = call.name, call.arguments
    if not arguments:
        return _filter_stream(name, arguments, walk.show(call.stdin))
    options, files = split_options(arguments, use.row.valued)
    if name in ("dos2unix", "unix2dos") or (options and name in ("yq", "sort", "xmllint")):
        _note_writes(walk, name, options, files)
    if name in _PATTERN_FIRST:
        return _search(walk, call, options, files)
    streams = [call.stdin if path == "-" else walk.print_file(path) for path in files] or [walk.show(call.stdin)]
    stream = streams[0] if len(streams) == 1 else max(streams, key=lambda each: each.source)
    if stream.source is Source.FILE and len(streams) > 1:
        return UNKNOWN_OUTPUT
    return _filter_stream(name, arguments, stream)


def _filter_stream(name: str, arguments: list[str], stream: Output) -> Output:
    """Return what comes out of a program that this stream goes into."""
    origin = stream.source
    if origin in (Source.DOWNLOAD, Source.SECRET, Source.ENVIRONMENT):
        return stream
    if _decodes(name, arguments):
        return Output(Source.DECODED, _decode_base64(stream.text) if name == "base64" else "")
    if origin is Source.FILE and name not in _ALL:
        return UNKNOWN_OUTPUT
    return stream if name in _WHOLE or origin in (Source.DECODED, Source.NONE) else UNKNOWN_OUTPUT


def _search(walk: Walk, call: Invocation, options: list[tuple[str, str]], files: list[str]) -> Output:
    """Search in files or in the input: what is shown are the lines that fit a pattern."""
    names = {option for option, _ in options}
    pattern = dict(options).get("-e") or dict(options).get("--regexp") or ""
    if call.name not in _SEARCHES or (not pattern and "-f" not in names):
        pattern, files = [*files, ""][0], files[1:]
    if call.name in _SEARCHES and names & _SHOWS_NOTHING:
        return UNKNOWN_OUTPUT
    if not files:
        return _search_input(walk, call, pattern, names)
    shown = [path for path in files if not _is_setting(pattern) or "-v" in names]
    streams = [walk.print_file(path) for path in shown] or [UNKNOWN_OUTPUT]
    return _filter_stream(call.name, call.arguments, max(streams, key=lambda each: each.source))


def _search_input(walk: Walk, call: Invocation, pattern: str, names: set[str]) -> Output:
    """`env | grep FEATURE` shows settings; `env | grep -i token` and `env | grep -v x` show secrets."""
    if call.stdin.source is not Source.ENVIRONMENT:
        if not _is_setting(pattern):
            walk.show(call.stdin)
        return _filter_stream(call.name, call.arguments, call.stdin)
    if _SECRET_WORDS.search(pattern) or "-v" in names:
        walk.add("reads-secret", "environment")
    return UNKNOWN_OUTPUT


_SHOWS_NOTHING = frozenset("-q --quiet --silent -c --count -l --files-with-matches -L --files-without-match".split())


def _is_setting(pattern: str) -> bool:
    """Return whether a pattern is the name of a setting that holds no secret, as in `grep FEATURE .env`."""
    name = pattern.strip("^=$")
    return re.fullmatch(r"[A-Z][A-Z0-9_]{2,}", name) is not None and not is_secret_variable(name)


def _decodes(name: str, arguments: list[str]) -> bool:
    if name in ("base64", "base32", "basenc"):
        return has_option(arguments, "-d", "-D", "--decode")
    return name in _DECODERS or (name == "xxd" and has_option(arguments, "-r"))


def _decode_base64(text: str) -> str:
    try:
        return b64decode(text.encode()).decode("utf-8", "replace")
    except ValueError:
        return ""


_DECODERS = frozenset("rev uudecode zcat gzcat bzcat xzcat lzcat zstdcat lz4cat".split())


def _note_writes(walk: Walk, name: str, options: list[tuple[str, str]], files: list[str]) -> None:
    for option, value in options:
        if option in ("-o", "--output") and name != "yq":
            walk.access(value, Access.WRITE)
        elif option in ("-i", "--inplace", "--in-place") and name == "yq" and files:
            walk.access(files[-1], Access.WRITE)
    if name in ("dos2unix", "unix2dos"):
        for path in files:
            walk.access(path, Access.WRITE)


def finish_echoes(use: Use) -> Output:
    """`echo` and `printf`: show their arguments."""
    walk, call = use.walk, use.call
    arguments = call.arguments
    for secret in {secret for argument in arguments for secret in walk.secrets_in(argument)}:
        walk.add("reads-secret", secret)
    if call.name == "printf":
        return _printf(walk, [argument for argument in arguments if argument != "--"])
    escapes = False
    while arguments and re.fullmatch(r"-[neE]+", arguments[0]):
        escapes = escapes or "e" in arguments[0]
        arguments = arguments[1:]
    text = " ".join(arguments)
    return _output_from_text(
        walk, decode_escapes(text) if escapes and "\\" in text else text + "\n", hidden=escapes and _hides(text)
    )


def _printf(walk: Walk, arguments: list[str]) -> Output:
    if arguments[:1] == ["-v"]:
        walk.variables[arguments[1] if len(arguments) > 1 else "_"] = " ".join(arguments[3:] or arguments[2:])
        return NO_OUTPUT
    pattern, values = (arguments[0], arguments[1:]) if arguments else ("", [])
    hidden = _hides(pattern) or ("%b" in pattern and any(_hides(value) for value in values))
    remaining = values[::-1]

    def fill(match: re.Match[str]) -> str:
        if match.group() == "%%":
            return "%"
        return remaining.pop() if remaining else ""

    text = re.sub(r"%%|%[-+ 0#]*\d*(?:\.\d+)?[a-zA-Z]", fill, decode_escapes(pattern))
    while remaining and "%" in pattern:
        before = len(remaining)
        text += re.sub(r"%%|%[-+ 0#]*\d*(?:\.\d+)?[a-zA-Z]", fill, decode_escapes(pattern))
        if len(remaining) == before:
            break
    return _output_from_text(walk, decode_escapes(text) if "%b" in pattern else text, hidden=hidden)


def _hides(text: str) -> bool:
    return re.search(r"\\(?:x[0-9a-fA-F]|u[0-9a-fA-F]|[0-7]{2})", text) is not None


def _output_from_text(walk: Walk, text: str, *, hidden: bool) -> Output:
    """Return what is printed. A text made of codes is decoded text; one with a download or secret in it is that."""
    pieces = walk.pieces_in(text)
    for piece in pieces:
        if piece.source in (Source.DOWNLOAD, Source.DECODED, Source.SECRET):
            return piece
    secrets = walk.secrets_in(text)
    if secrets:
        return Output(Source.SECRET, target=secrets[0])
    return Output(Source.DECODED) if hidden else Output(Source.TEXT, text)


def finish_edits(use: Use) -> Output:
    """What a script of `sed` runs and writes, and the text that is left."""
    walk, call = use.walk, use.call
    options, paths = split_options(call.arguments, _SED_VALUED)
    scripts = [value for option, value in options if option in ("-e", "--expression")]
    names = {option for option, _ in options}
    if not scripts and not names & {"-f", "--file"}:
        scripts, paths = paths[:1], paths[1:]
    # Several pieces are one script, of which each is a line.
    if scripts:
        _note_script(walk, "\n".join(scripts))
    if "-i" in names or "--in-place" in names:
        for path in paths:
            _edit_in_place(walk, path, scripts)
        return NO_OUTPUT
    if paths:
        return _edit_stream(max((walk.print_file(path) for path in paths), key=lambda stream: stream.source))
    if call.stdin.source is Source.TEXT:
        return Output(Source.DECODED if "s" in "".join(scripts) else Source.NONE)
    return _edit_stream(call.stdin)


def _edit_stream(stream: Output) -> Output:
    """Return what is left of a stream after a script: a file is no longer what lies on the disk."""
    return UNKNOWN_OUTPUT if stream.source is Source.FILE else stream


_REPLACES = re.compile(r"\bs([/|#,!@%])((?:\\.|(?!\1)[^\\]){0,400})\1((?:\\.|(?!\1)[^\\]){0,400})\1")
_HOST = re.compile(r"(?<![\w.@-])(?:[\w-]+\.)+[a-zA-Z]{2,}(?![\w-])")


def _edit_in_place(walk: Walk, path: str, scripts: list[str]) -> None:
    """Note what a script writes to a file: one that names a package source is told by the new host, where it shows."""
    found = read_access(walk.plain(path), Access.WRITE, walk.project, folder=walk.folder)
    hosts: list[str] = []
    if found.kind == "uses-package-source":
        replaced = [match.group(3) for script in scripts for match in _REPLACES.finditer(script)]
        hosts = [host.lower() for text in replaced for host in _HOST.findall(text.replace("\\", ""))]
    for host in hosts:
        if walk.project.has_host(host):
            walk.add("edits-project", walk.plain(path))
        else:
            walk.add("uses-package-source", host)
    if not hosts:
        walk.access(path, Access.WRITE)


MOST_SCRIPT = 4_000
_SED_VALUED = frozenset(("-e", "--expression", "-f", "--file", "-l", "--line-length"))


def _note_script(walk: Walk, script: str) -> None:
    """Note what a script of `sed` runs and writes."""
    found = read_sed_script(script[: MOST_SCRIPT + 1])
    if len(script) > MOST_SCRIPT or found.runs:
        walk.add_unreadable()
        return
    for path in sorted(found.writes - {"", "/dev/stdout", "/dev/stderr"}):
        walk.access(path, Access.WRITE)


_AWK_RUNS = re.compile(r"\bsystem\s*\(\s*(\"(?:[^\"\\]|\\.)*\")?|\|\s*getline|\|\s*\"|\"\s*\|\s*&?\s*getline|/inet/")
_AWK_SHOWS = re.compile(r"\bin\s+ENVIRON\b")
_AWK_WRITES = re.compile(r">>?\s*\"([^\"]+)\"")


def finish_scans(use: Use) -> Output:
    """What a script of `awk` runs and writes, and the text that is left."""
    walk, call = use.walk, use.call
    options, rest = split_options(
        call.arguments, frozenset(("-F", "-v", "-f", "--file", "--assign", "--field-separator"))
    )
    if not any(option in ("-f", "--file") for option, _ in options):
        script, rest = (rest[0] if rest else ""), rest[1:]
        match = _AWK_RUNS.search(script)
        if match is not None:
            if match.group(1):
                walk.read_text(decode_escapes(match.group(1)[1:-1]))
            else:
                walk.add_unreadable()
        if _AWK_SHOWS.search(script):
            walk.add("reads-secret", "environment")
        for path in dict.fromkeys(_AWK_WRITES.findall(script)):
            if path not in ("/dev/stderr", "/dev/stdout"):
                walk.access(path, Access.WRITE)
    streams = [walk.print_file(path) for path in rest if "=" not in path]
    if streams:
        return _edit_stream(max(streams, key=lambda stream: stream.source))
    if call.stdin.source is Source.ENVIRONMENT:
        walk.add("reads-secret", "environment")
    return _edit_stream(call.stdin) if call.stdin.source is not Source.TEXT else Output(Source.DECODED)


def finish_translates(use: Use) -> Output:
    """Letters of the input are others, or left out."""
    walk, call = use.walk, use.call
    if call.stdin.source is Source.ENVIRONMENT:
        walk.add("reads-secret", "environment")
    deletes = call.arguments[:1] in (["-d"], ["-s"]) and len(call.arguments) == 2
    if call.stdin.source is Source.TEXT:
        return (
            UNKNOWN_OUTPUT
            if deletes and call.arguments[1] in ("\\n", "\n", "\\r", " ", "\r")
            else Output(Source.DECODED)
        )
    return call.stdin
