"""Programs that read, write, copy, move and delete files, and those that pass their input on."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.paths import Access, is_secret, is_secret_variable
from lockgate.core.ruling.effects.programs.options import has_option, split_options
from lockgate.core.ruling.effects.shell_syntax import decode_escapes
from lockgate.core.ruling.effects.streams import EMPTY, MARK, Invocation, Origin, Stream

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk

_NONE = Stream(Origin.NONE)
_SECRET_WORDS = re.compile(r"(?i)token|secret|passw|api.?key|credential|private|_key|auth|aws|^\.?[*+]?$")
# Programs of the table that take their first argument as a pattern or a script, not as a file.
_PATTERN_FIRST = frozenset(
    "grep egrep fgrep zgrep rg ag ack ugrep pcregrep ripgrep jq yq tr gron xq tomlq dasel mlr".split()
)
_DECODERS = frozenset("xxd base32 rev tr uudecode iconv openssl".split())


def print_files(walk: Walk, call: Invocation) -> Stream:
    """Show the files that are given, or pass the input on."""
    name, arguments = call.name, call.arguments
    if name in ("yq", "sort", "dos2unix") and has_option(arguments, "-i", "--in-place", "--inplace", "-o", "--output"):
        _write_last(walk, arguments)
    quiet = name in _PATTERN_FIRST and has_option(
        arguments, "-q", "--quiet", "-c", "--count", "-l", "--files-with-matches", "-L"
    )
    files = [argument for argument in arguments if argument[:1] != "-" or argument == "-"]
    if name in _PATTERN_FIRST and not has_option(arguments, "-e", "-f", "--regexp", "--file"):
        pattern, files = files[:1], files[1:]
        if call.stdin.origin is Origin.ENVIRONMENT and pattern and not files:
            if _SECRET_WORDS.search(pattern[0]) or has_option(arguments, "-v"):
                walk.add("reads-secret", "environment")
            return _NONE
    streams = []
    for path in files:
        if path == "-":
            streams.append(call.stdin)
        elif name in _PATTERN_FIRST and (quiet or not _shows_secret(walk, path, arguments)):
            streams.append(walk.read_file(path) if not quiet else _NONE)
        else:
            streams.append(walk.print_file(path))
    if not files:
        streams.append(call.stdin)
    stream = max(streams, key=lambda each: each.origin.value)
    if stream.origin is Origin.ENVIRONMENT and name not in ("head", "tail"):
        return stream
    if _decodes(name, arguments) and stream.origin is not Origin.DOWNLOAD:
        return Stream(Origin.DECODED)
    if stream.origin is Origin.TEXT and name in (
        "cat",
        "tac",
        "less",
        "more",
        "head",
        "tail",
        "nl",
        "sponge",
        "pv",
        "ts",
    ):
        return stream
    if stream.origin is Origin.TEXT and name != "cat":
        return Stream(Origin.DECODED) if name in _DECODERS else _NONE
    return stream


def _shows_secret(walk: Walk, path: str, arguments: list[str]) -> bool:
    """Return whether a search in a secret file shows more than a harmless setting: `grep FEATURE .env` does not."""
    pattern = next((argument for argument in arguments if argument[:1] != "-"), "")
    harmless = re.fullmatch(r"\^?[A-Z][A-Z0-9_]{2,}=?\$?", pattern) is not None and not is_secret_variable(
        pattern.strip("^=$")
    )
    return is_secret(walk.plain(path), walk.folder) and not harmless


def _decodes(name: str, arguments: list[str]) -> bool:
    if name in ("base64", "base32", "basenc"):
        return has_option(arguments, "-d", "-D", "--decode")
    return name == "xxd" and has_option(arguments, "-r", "-p") or name in ("rev", "uudecode")


def _write_last(walk: Walk, arguments: list[str]) -> None:
    options, rest = split_options(arguments, frozenset(("-o", "--output")))
    for option, value in options:
        if option in ("-o", "--output"):
            walk.access(value, Access.WRITE)
            return
    if rest:
        walk.access(rest[-1], Access.WRITE)


def _echo(walk: Walk, call: Invocation) -> Stream:
    """`echo` and `printf`: show their arguments."""
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
    return _shown(
        walk, decode_escapes(text) if escapes and "\\" in text else text + "\n", hidden=escapes and _hides(text)
    )


def _printf(walk: Walk, arguments: list[str]) -> Stream:
    if arguments[:1] == ["-v"]:
        walk.variables[arguments[1] if len(arguments) > 1 else "_"] = " ".join(arguments[3:] or arguments[2:])
        return EMPTY
    pattern, values = (arguments[0], arguments[1:]) if arguments else ("", [])
    hidden = _hides(pattern) or ("%b" in pattern and any(_hides(value) for value in values))
    remaining = list(values)

    def fill(match: re.Match[str]) -> str:
        if match.group() == "%%":
            return "%"
        return remaining.pop(0) if remaining else ""

    text = re.sub(r"%%|%[-+ 0#]*\d*(?:\.\d+)?[a-zA-Z]", fill, decode_escapes(pattern))
    while remaining and "%" in pattern:
        before = len(remaining)
        text += re.sub(r"%%|%[-+ 0#]*\d*(?:\.\d+)?[a-zA-Z]", fill, decode_escapes(pattern))
        if len(remaining) == before:
            break
    return _shown(walk, decode_escapes(text) if "%b" in pattern else text, hidden=hidden)


def _hides(text: str) -> bool:
    return re.search(r"\\(?:x[0-9a-fA-F]|u[0-9a-fA-F]|[0-7]{2})", text) is not None


def _shown(walk: Walk, text: str, *, hidden: bool) -> Stream:
    """Return what is printed. A text made of codes is decoded text; one with a download or secret in it is that."""
    pieces = walk.pieces_in(text)
    for piece in pieces:
        if piece.origin in (Origin.DOWNLOAD, Origin.DECODED, Origin.SECRET):
            return piece
    secrets = walk.secrets_in(text)
    if secrets:
        return Stream(Origin.SECRET, target=secrets[0])
    return Stream(Origin.DECODED) if hidden else Stream(Origin.TEXT, text)


def _remove(walk: Walk, call: Invocation) -> Stream:
    options, paths = split_options(call.arguments, _REMOVE_VALUED)
    del options
    for path in paths:
        if MARK in path and not re.match(r"[\w./-]{2,}", walk.plain(path)) and _is_bare(walk, path):
            walk.add_unreadable()
        else:
            walk.access(path, Access.DELETE)
    if not paths and call.stdin is not EMPTY and call.name != "rmdir":
        walk.add("edits-project", ".")
    return EMPTY


_REMOVE_VALUED = frozenset(("-n", "--iterations", "-s", "--size"))


def _is_bare(walk: Walk, path: str) -> bool:
    """Return whether an unknown value could be a folder of any kind: `rm -rf $X`, `rm -rf $X/*`."""
    pieces = walk.pieces_in(path)
    return (
        bool(pieces)
        and pieces[0].origin is Origin.VARIABLE
        and not re.search(r"(?i)tmp|temp|build|dist|cache|work|out", pieces[0].target)
    )


def _move(walk: Walk, call: Invocation) -> Stream:
    """`cp`, `mv`, `ln`, `install`: sources are read (and removed by `mv`), the last path is written."""
    options, paths = split_options(call.arguments, _COPY_VALUED)
    target = ""
    for option, value in options:
        if option in ("-t", "--target-directory"):
            target = value
    if call.name == "install" and any(option in ("-d", "--directory") for option, _ in options):
        return _make(walk, call)
    if not target:
        if len(paths) < 2:
            return EMPTY
        target, paths = paths[-1], paths[:-1]
    for path in paths:
        stream = walk.read_file(path)
        if call.name == "mv":
            walk.access(path, Access.DELETE)
        if stream.origin is Origin.SECRET and call.name != "ln" and not _stays(walk, path, target):
            walk.add("reads-secret", stream.target)
        full = walk.full_path(target)
        name = path.rstrip("/").rsplit("/", 1)[-1]
        written = target if not target.endswith("/") and target not in (".", "..") else target + "/" + name
        if stream.origin in (Origin.DOWNLOAD, Origin.TEXT):
            walk.write_file(written, stream)
            walk.downloads |= {f"{full}/{name}": stream.target} if stream.origin is Origin.DOWNLOAD else {}
        else:
            walk.access(written, Access.WRITE)
    return EMPTY


def _stays(walk: Walk, path: str, target: str) -> bool:
    """Return whether a secret of the project is copied to another secret place of the project: `cp .env .env.local`."""
    inside = (
        walk.project.locate(walk.plain(path), walk.folder)
        == walk.project.locate(walk.plain(target), walk.folder)
        == "inside"
    )
    return inside and (is_secret(walk.plain(target), walk.folder) or target.endswith((".bak", ".orig", ".old")))


_COPY_VALUED = frozenset("-t --target-directory -S --suffix -m --mode -o --owner -g --group".split())


def _make(walk: Walk, call: Invocation) -> Stream:
    """`mkdir`, `touch`, `truncate`: paths that are written."""
    for path in split_options(
        call.arguments, frozenset("-m --mode -s --size -d --date -t -r --reference -o -g".split())
    )[1]:
        walk.access(path, Access.WRITE)
    return EMPTY


def _tee(walk: Walk, call: Invocation) -> Stream:
    for path in split_options(call.arguments)[1]:
        if path not in ("/dev/null", "/dev/stderr", "/dev/stdout", "/dev/tty"):
            if MARK in path and any(piece.origin is not Origin.VARIABLE for piece in walk.pieces_in(path)):
                continue
            walk.write_file(path, call.stdin)
    return call.stdin


def _dd(walk: Walk, call: Invocation) -> Stream:
    stream = call.stdin
    for argument in call.arguments:
        name, _, value = argument.partition("=")
        if name == "if":
            stream = walk.print_file(value)
        elif name == "of":
            if value.startswith("/dev/") and value not in ("/dev/null", "/dev/stdout"):
                walk.add("deletes-data", value)
            else:
                walk.write_file(value, stream)
    return stream


_OPEN_MODE = re.compile(
    r"0?[0-7]?[0-7][0-7][2367]$|0?[2-7][0-7]{3}$|(?:[ugoa]*[ao][ugoa]*)?\+[rx]*w|[ugoa]*[+=][rwx]*s|[ugoa]*o[ugoa]*[+=][rx]*w|a[+=]\w*w"
)


def _chmod(walk: Walk, call: Invocation) -> Stream:
    options, rest = split_options(
        [argument for argument in call.arguments if not re.fullmatch(r"[-+=][rwxXst]+", argument)]
    )
    modes = [argument for argument in call.arguments if re.fullmatch(r"[-+=][rwxXst]+", argument)]
    recursive = any(option in ("-R", "--recursive") for option, _ in options)
    if not modes:
        modes, rest = rest[:1], rest[1:]
    wide = any(_OPEN_MODE.match(part) for mode in modes for part in mode.split(",") if not re.fullmatch(r"\+w", part))
    for path in rest:
        place = walk.project.locate(walk.plain(path), walk.folder)
        if wide or place not in ("inside", "scratch"):
            walk.add("changes-permissions", walk.plain(path))
        else:
            walk.access(path, Access.WRITE)
    del recursive
    return EMPTY


def _chown(walk: Walk, call: Invocation) -> Stream:
    for path in split_options(call.arguments)[1][1:] or ["."]:
        walk.add("changes-permissions", walk.plain(path))
    return EMPTY


_SED_RUNS = re.compile(
    r"(?:^|[;\n}])\s*(?:\d+|\$|/(?:[^/\\]|\\.)*/)?(?:,(?:\d+|\$|/(?:[^/\\]|\\.)*/))?\s*e(?:\s+\S|\s*$|;)|s(.)(?:(?!\1).|\\.)*\1(?:(?!\1).|\\.)*\1[gpiIm0-9]*e"
)
_SED_WRITES = re.compile(
    r"(?:^|[;\n}/])\s*(?:\d+|\$)?[wW]\s+(\S+)|s([/|#,])(?:(?!\2).|\\.)*\2(?:(?!\2).|\\.)*\2[gpiIm0-9]*w\s*(\S+)"
)


def _sed(walk: Walk, call: Invocation) -> Stream:
    options, rest = split_options(
        call.arguments, frozenset(("-e", "--expression", "-f", "--file", "-l", "--line-length"))
    )
    scripts = [value for option, value in options if option in ("-e", "--expression")]
    if not scripts and not any(option in ("-f", "--file") for option, _ in options):
        scripts, rest = rest[:1], rest[1:]
    for script in scripts:
        if len(script) < 4_000 and _SED_RUNS.search(script):
            walk.add_unreadable()
        for match in _SED_WRITES.finditer(script[:4_000]):
            walk.access(match.group(1) or match.group(3), Access.WRITE)
    in_place = any(option[:2] == "-i" or option == "--in-place" for option, _ in options)
    if in_place:
        for path in rest:
            walk.access(path, Access.WRITE)
        return EMPTY
    if rest:
        return max((walk.print_file(path) for path in rest), key=lambda stream: stream.origin.value)
    return (
        call.stdin
        if call.stdin.origin is not Origin.TEXT
        else Stream(Origin.DECODED if "s" in "".join(scripts) else Origin.NONE)
    )


_AWK_RUNS = re.compile(r"\bsystem\s*\(\s*(\"(?:[^\"\\]|\\.)*\")?|\|\s*getline|\|\s*\"|\"\s*\|\s*&?\s*getline|/inet/")
_AWK_WRITES = re.compile(r">>?\s*\"([^\"]+)\"")


def _awk(walk: Walk, call: Invocation) -> Stream:
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
        for written in _AWK_WRITES.finditer(script):
            if written.group(1) not in ("/dev/stderr", "/dev/stdout"):
                walk.access(written.group(1), Access.WRITE)
    streams = [walk.print_file(path) for path in rest if "=" not in path]
    if streams:
        return max(streams, key=lambda stream: stream.origin.value)
    if call.stdin.origin is Origin.ENVIRONMENT:
        walk.add("reads-secret", "environment")
    return call.stdin if call.stdin.origin is not Origin.TEXT else Stream(Origin.DECODED)


def _find(walk: Walk, call: Invocation) -> Stream:
    """`find` and `fd`: what they run, delete and write."""
    arguments = call.arguments
    starts: list[str] = []
    for argument in arguments:
        if argument[:1] in ("-", "(", "!"):
            break
        starts.append(argument)
    index = 0
    while index < len(arguments):
        argument = arguments[index]
        if argument in ("-exec", "-execdir", "-ok", "-okdir", "-x", "--exec", "-X", "--exec-batch"):
            end = index + 1
            while end < len(arguments) and arguments[end] not in (";", "+", "\\;"):
                end += 1
            inner = arguments[index + 1 : end]
            if inner:
                place = starts[0] if starts else "."
                walk.run_program([part.replace("{}", _found(place, arguments)) for part in inner], EMPTY)
            index = end
        elif argument == "-delete":
            for start in starts or ["."]:
                walk.access(_found(start, arguments), Access.DELETE)
        elif argument in ("-fprint", "-fprintf", "-fls") and index + 1 < len(arguments):
            walk.access(arguments[index + 1], Access.WRITE)
        index += 1
    return _NONE


def _found(start: str, arguments: list[str]) -> str:
    """Return a path that stands for those that a search finds: its first folder and the pattern that it looks for."""
    for option in ("-name", "-iname", "-path"):
        if option in arguments[:-1]:
            return f"{start.rstrip('/')}/{arguments[arguments.index(option) + 1].lstrip('/')}"
    return f"{start.rstrip('/')}/found" if start != "/" else "/"


_TAR_VALUED = frozenset(
    "-f --file -C --directory -T --files-from -X --exclude-from --exclude --to-command --checkpoint-action -I --use-compress-program --transform --strip-components -g --rsh-command --one-top-level".split()
)


def _tar(walk: Walk, call: Invocation) -> Stream:
    arguments = call.arguments
    if arguments and arguments[0][:1] != "-" and re.fullmatch(r"[A-Za-z]+", arguments[0]):
        arguments = ["-" + arguments[0], *arguments[1:]]
    options, rest = split_options(arguments, _TAR_VALUED)
    values = dict(options)
    for option in ("--to-command", "--checkpoint-action", "--use-compress-program", "-I", "--rsh-command"):
        command = values.get(option, "").removeprefix("exec=")
        if command and not re.fullmatch(r"(?:zstd|gzip|pigz|xz|bzip2|lz4|pixz|dot|echo|totals|bell)\b.*", command):
            walk.read_text(command)
    archive = values.get("-f", values.get("--file", ""))
    folder = values.get("-C", values.get("--directory", ""))
    letters = {option for option, _ in options}
    if letters & {"-x", "--extract", "--get"}:
        stream = walk.read_file(archive) if archive and archive != "-" else call.stdin
        walk.access(folder or ".", Access.WRITE) if folder else walk.add("edits-project", ".")
        if stream.origin is Origin.DOWNLOAD:
            walk.downloads[walk.full_path(folder or ".")] = stream.target
        return EMPTY
    if letters & {"-c", "--create", "-r", "-u", "--append", "--update"}:
        secrets = [path for path in rest if is_secret(walk.plain(path), folder or walk.folder)]
        for path in secrets:
            walk.add("reads-secret", walk.plain(path))
        if archive and archive != "-":
            walk.access(archive, Access.WRITE)
        return (
            Stream(Origin.SECRET, target=secrets[0])
            if secrets
            else Stream(Origin.FILE, target=rest[0] if rest else ".")
        )
    return _NONE


def _zip(walk: Walk, call: Invocation) -> Stream:
    """`zip` and `7z`: an archive written from files."""
    paths = split_options(call.arguments, frozenset(("-x", "-i", "-P")))[1]
    for path in paths[1:]:
        walk.print_file(path)
    if paths:
        walk.access(paths[0], Access.WRITE)
    return EMPTY


def _unzip(walk: Walk, call: Invocation) -> Stream:
    options, paths = split_options(call.arguments, frozenset(("-d", "-x", "-P")))
    if any(option in ("-l", "-p", "-t", "-v") for option, _ in options):
        return walk.read_file(paths[0]) if paths else _NONE
    folder = dict(options).get("-d", "")
    if folder:
        walk.access(folder, Access.WRITE)
    else:
        walk.add("edits-project", ".")
    stream = walk.read_file(paths[0]) if paths else call.stdin
    if stream.origin is Origin.DOWNLOAD:
        walk.downloads[walk.full_path(folder or ".")] = stream.target
    return EMPTY


def _compress(walk: Walk, call: Invocation) -> Stream:
    """`gzip` and its like: a file in place, or the input passed on."""
    options, paths = split_options(call.arguments)
    if not paths or any(option in ("-c", "--stdout", "--to-stdout") for option, _ in options):
        if paths:
            return walk.print_file(paths[0])
        return Stream(Origin.DECODED) if call.stdin.origin is Origin.TEXT else call.stdin
    for path in paths:
        stream = walk.read_file(path)
        walk.access(path, Access.WRITE)
        if stream.origin is Origin.DOWNLOAD:
            walk.downloads[walk.full_path(path.rsplit(".", 1)[0])] = stream.target
    return EMPTY


def _patch(walk: Walk, call: Invocation) -> Stream:
    options, paths = split_options(
        call.arguments, frozenset(("-i", "--input", "-d", "--directory", "-o", "--output", "-p"))
    )
    for _, value in options:
        del value
    if call.stdin.origin is Origin.DOWNLOAD:
        walk.add("embeds-remote-code", call.stdin.target)
    walk.access(paths[0] if paths else ".", Access.WRITE)
    return EMPTY


def _split(walk: Walk, call: Invocation) -> Stream:
    paths = split_options(call.arguments, frozenset("-l -b -n -a -d --lines --bytes".split()))[1]
    if paths:
        walk.print_file(paths[0])
    walk.access(paths[1] if len(paths) > 1 else "xaa", Access.WRITE)
    return EMPTY


def _openssl(walk: Walk, call: Invocation) -> Stream:
    """`openssl`: decoding, keys made and shown."""
    verb, arguments = (call.arguments[0], call.arguments[1:]) if call.arguments else ("", [])
    options, _ = split_options(
        arguments,
        frozenset(
            "-in -out -k -pass -K -iv -passin -passout -inkey -key -keyout -subj -days -newkey -config -connect".split()
        ),
    )
    values = dict(options)
    if "-connect" in values:
        from lockgate.core.ruling.effects.programs.network import ask_host

        return ask_host(walk, values["-connect"], sends=False)
    for option in ("-out", "-keyout"):
        if option in values:
            walk.access(values[option], Access.WRITE)
    source = walk.read_file(values["-in"]) if values.get("-in") else call.stdin
    if source.origin is Origin.SECRET and verb not in ("x509", "verify", "crl"):
        walk.add("reads-secret", source.target)
    if (
        verb in ("enc", "base64", "aes-256-cbc", "smime", "cms", "pkeyutl", "rsautl")
        and "-d" in arguments
        or "-decrypt" in arguments
    ):
        return source if source.origin is Origin.DOWNLOAD else Stream(Origin.DECODED)
    return source if source.origin in (Origin.SECRET, Origin.DOWNLOAD) else _NONE


def _tr(walk: Walk, call: Invocation) -> Stream:
    if call.stdin.origin is Origin.ENVIRONMENT:
        walk.add("reads-secret", "environment")
    deletes = call.arguments[:1] in (["-d"], ["-s"]) and len(call.arguments) == 2
    if call.stdin.origin is Origin.TEXT:
        return _NONE if deletes and call.arguments[1] in ("\\n", "\n", "\\r", " ", "\r") else Stream(Origin.DECODED)
    return call.stdin


def _editor(walk: Walk, call: Invocation) -> Stream:
    """Editors: commands given on the command line, and the files that are opened for writing."""
    options, paths = split_options(
        call.arguments, frozenset(("-c", "--cmd", "-S", "-s", "-u", "--eval", "-l", "--load"))
    )
    for option, value in options:
        if option in ("-c", "--cmd", "--eval") and re.search(
            r"!|system\(|shell-command|call-process|luado|pyx?do|py3", value
        ):
            walk.add_unreadable()
    for path in paths:
        if path.startswith("+"):
            if "!" in path or "system(" in path:
                walk.add_unreadable()
        else:
            walk.access(path, Access.WRITE)
    return EMPTY


READERS = {
    **dict.fromkeys(("echo", "printf", "print"), _echo),
    **dict.fromkeys(("rm", "rmdir", "unlink", "shred", "srm", "trash", "rimraf", "del"), _remove),
    **dict.fromkeys(("cp", "mv", "ln", "install", "gcp", "gmv"), _move),
    **dict.fromkeys(("mkdir", "touch", "truncate", "mkfifo", "fallocate"), _make),
    "tee": _tee,
    "dd": _dd,
    "chmod": _chmod,
    **dict.fromkeys(("chown", "chgrp", "chattr", "setcap", "xattr"), _chown),
    **dict.fromkeys(("sed", "gsed"), _sed),
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), _awk),
    **dict.fromkeys(("find", "fd", "fdfind", "gfind"), _find),
    **dict.fromkeys(("tar", "bsdtar", "gtar"), _tar),
    **dict.fromkeys(("zip", "7z", "7za", "rar"), _zip),
    **dict.fromkeys(("unzip", "bsdunzip"), _unzip),
    **dict.fromkeys("gzip gunzip bzip2 bunzip2 xz unxz zstd unzstd lz4 compress uncompress pigz".split(), _compress),
    "patch": _patch,
    **dict.fromkeys(("split", "csplit"), _split),
    "openssl": _openssl,
    "tr": _tr,
    **dict.fromkeys(("vim", "vi", "nvim", "ex", "ed", "emacs", "nano", "pico", "view", "micro", "hx", "kak"), _editor),
}
