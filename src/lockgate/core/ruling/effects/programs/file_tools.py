"""Programs that write, copy, move, pack and delete files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.paths import Access, is_secret
from lockgate.core.ruling.effects.programs.options import split_options
from lockgate.core.ruling.effects.streams import EMPTY, MARK, Invocation, Origin, Stream

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk

_NONE = Stream(Origin.NONE)


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
    inside = walk.place(path) == walk.place(target) == "inside"
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
        place = walk.place(path)
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
    return Stream(Origin.NONE, target=_found(starts[0] if starts else ".", arguments))


def _list(walk: Walk, call: Invocation) -> Stream:
    """`ls`: the folder that is listed stands for what is found there."""
    del walk
    paths = [argument for argument in call.arguments if argument[:1] != "-"]
    return Stream(Origin.NONE, target=paths[0] if paths else "./found")


def _found(start: str, arguments: list[str]) -> str:
    """Return a path that stands for those that a search finds: its first folder and the pattern that it looks for."""
    if start == "/":
        return start
    for option in ("-name", "-iname", "-path"):
        if option in arguments[:-1]:
            return f"{start.rstrip('/')}/{arguments[arguments.index(option) + 1].lstrip('/')}"
    return f"{start.rstrip('/')}/found"


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
    **dict.fromkeys(("rm", "rmdir", "unlink", "shred", "srm", "trash", "rimraf", "del"), _remove),
    **dict.fromkeys(("cp", "mv", "ln", "install", "gcp", "gmv"), _move),
    **dict.fromkeys(("mkdir", "touch", "truncate", "mkfifo", "fallocate"), _make),
    "tee": _tee,
    "dd": _dd,
    "chmod": _chmod,
    **dict.fromkeys(("chown", "chgrp", "chattr", "setcap", "xattr"), _chown),
    **dict.fromkeys(("find", "fd", "fdfind", "gfind"), _find),
    **dict.fromkeys(("ls", "exa", "eza", "lsd", "ll"), _list),
    **dict.fromkeys(("tar", "bsdtar", "gtar"), _tar),
    **dict.fromkeys(("zip", "7z", "7za", "rar"), _zip),
    **dict.fromkeys(("unzip", "bsdunzip"), _unzip),
    **dict.fromkeys("gzip gunzip bzip2 bunzip2 xz unxz zstd unzstd lz4 compress uncompress pigz".split(), _compress),
    "patch": _patch,
    **dict.fromkeys(("split", "csplit"), _split),
    "openssl": _openssl,
    **dict.fromkeys(("vim", "vi", "nvim", "ex", "ed", "emacs", "nano", "pico", "view", "micro", "hx", "kak"), _editor),
}
