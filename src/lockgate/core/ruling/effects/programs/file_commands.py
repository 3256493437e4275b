"""Programs that write, copy, move, pack and delete files."""

from __future__ import annotations

import re
from itertools import takewhile
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.paths import Access, is_secret, read_access
from lockgate.core.ruling.effects.program_io import MARK, NO_OUTPUT, UNKNOWN_OUTPUT, Invocation, Output, Source
from lockgate.core.ruling.effects.programs.options import split_options
from lockgate.core.ruling.effects.programs.search_names import EXECUTES, Search, read_search
from lockgate.core.ruling.effects.project import Place

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk


def _remove(walk: Walk, call: Invocation) -> Output:
    paths = split_options(call.arguments, _REMOVE_VALUED)[1]
    for path in paths:
        if MARK in path and not re.match(r"[\w./-]{2,}", walk.plain(path)) and _is_bare(walk, path):
            walk.add_unreadable()
        else:
            walk.access(path, Access.DELETE)
            if call.name in ("shred", "srm") and walk.place(path) is not Place.SCRATCH:
                walk.add("deletes-data", walk.plain(path))
    if not paths and call.stdin is not NO_OUTPUT and call.name != "rmdir":
        walk.add("edits-project", ".")
    return NO_OUTPUT


_REMOVE_VALUED = frozenset(("-n", "--iterations", "-s", "--size"))


def _is_bare(walk: Walk, path: str) -> bool:
    """Return whether an unknown value could be a folder of any kind: `rm -rf $X`, `rm -rf $X/*`."""
    pieces = walk.pieces_in(path)
    return (
        bool(pieces)
        and pieces[0].source is Source.VARIABLE
        and not re.search(r"(?i)tmp|temp|build|dist|cache|work|out", pieces[0].target)
    )


def _move(walk: Walk, call: Invocation) -> Output:
    """`cp`, `mv`, `ln`, `install`: sources are read (and removed by `mv`), the last path is written."""
    options, paths = split_options(call.arguments, _COPY_VALUED)
    values = dict(options)
    if call.name == "install" and values.keys() & {"-d", "--directory"}:
        return _make(walk, call)
    target = values.get("-t") or values.get("--target-directory") or ""
    if not target:
        paths, target = paths[:-1], paths[-1] if paths else ""
    for path in paths:
        _move_one(walk, call.name, path, target)
    return NO_OUTPUT


def _move_one(walk: Walk, program: str, path: str, target: str) -> None:
    stream = walk.read_file(path)
    if program == "mv":
        walk.access(path, Access.DELETE)
    if program == "ln" and walk.place(path) is Place.HOME:
        found = read_access(walk.plain(path), Access.WRITE, walk.project, folder=walk.folder)
        if found.kind != "writes-outside":
            # What is written through the link lands there.
            walk.add(found.kind, found.target)
    if stream.source is Source.SECRET and not _stays(walk, path, target):
        walk.add("reads-secret", stream.target)
    name = path.rstrip("/").rsplit("/", 1)[-1]
    written = f"{target}/{name}" if target.endswith("/") or target in (".", "..") else target
    if stream.source in (Source.DOWNLOAD, Source.TEXT):
        walk.write_file(written, stream)
        if stream.source is Source.DOWNLOAD:
            walk.downloads[f"{walk.full_path(target)}/{name}"] = stream.target
    else:
        walk.access(written, Access.WRITE)


def _stays(walk: Walk, path: str, target: str) -> bool:
    """Return whether a secret of the project is copied to another secret place of the project: `cp .env .env.local`."""
    inside = walk.place(path) == walk.place(target) == "inside"
    return inside and (is_secret(walk.plain(target), walk.folder) or target.endswith((".bak", ".orig", ".old")))


_COPY_VALUED = frozenset("-t --target-directory -S --suffix -m --mode -o --owner -g --group".split())


def _make(walk: Walk, call: Invocation) -> Output:
    """`mkdir`, `touch`, `truncate`: paths that are written."""
    options, paths = split_options(call.arguments, _COPY_VALUED if call.name == "install" else _MAKE_VALUED)
    is_plain_folder = call.name == "mkdir" and dict(options).keys() <= _PLAIN_FOLDER
    for path in paths:
        if is_plain_folder and _is_beside(walk, path):
            walk.add("makes-folder", walk.plain(path))
        else:
            walk.access(path, Access.WRITE)
    return NO_OUTPUT


# Any other option may begin like `--mode`, which lets others in.
_PLAIN_FOLDER = frozenset("-p --parents -v --verbose".split())
_MAKE_VALUED = frozenset("-m --mode -s --size -d --date -t -r --reference -o -g".split())


def _is_beside(walk: Walk, path: str) -> bool:
    """Return whether an empty folder at a path changes nothing: outside of the project, but no place of the system."""
    found = read_access(walk.plain(path), Access.WRITE, walk.project, folder=walk.folder)
    return found.kind == "writes-outside" and walk.place(path) in (Place.HOME, Place.OUTSIDE)


def _tee(walk: Walk, call: Invocation) -> Output:
    for path in split_options(call.arguments)[1]:
        if path not in ("/dev/null", "/dev/stderr", "/dev/stdout", "/dev/tty"):
            if MARK in path and any(piece.source is not Source.VARIABLE for piece in walk.pieces_in(path)):
                continue
            walk.write_file(path, call.stdin)
    return call.stdin


def _dd(walk: Walk, call: Invocation) -> Output:
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


def _chmod(walk: Walk, call: Invocation) -> Output:
    rest = split_options([argument for argument in call.arguments if not re.fullmatch(r"[-+=][rwxXst]+", argument)])[1]
    modes = [argument for argument in call.arguments if re.fullmatch(r"[-+=][rwxXst]+", argument)]
    if not modes:
        modes, rest = rest[:1], rest[1:]
    wide = any(_OPEN_MODE.match(part) for mode in modes for part in mode.split(",") if not re.fullmatch(r"\+w", part))
    for path in rest:
        place = walk.place(path)
        if wide or place not in ("inside", "scratch"):
            walk.add("changes-permissions", walk.plain(path))
        else:
            walk.access(path, Access.WRITE)
    return NO_OUTPUT


def _chown(walk: Walk, call: Invocation) -> Output:
    for path in split_options(call.arguments)[1][1:] or ["."]:
        walk.add("changes-permissions", walk.plain(path))
    return NO_OUTPUT


# Folders times names that one search may look for.
MOST_SEARCHED = 256


def _find(walk: Walk, call: Invocation) -> Output:
    """`find` and `fd`: what they run, delete and write."""
    arguments = call.arguments
    starts = list(takewhile(lambda argument: argument[:1] not in ("-", "(", "!"), arguments)) or ["."]
    search = read_search(arguments, _FIND_NAMES)
    if len(starts) * (len(search.wanted) + 1) > MOST_SEARCHED:
        walk.add_unreadable()
        return UNKNOWN_OUTPUT
    patterns = [_search_pattern(walk, start, search) for start in starts]
    found = patterns[0]
    skip = 0
    for index, argument in enumerate(arguments):
        if index < skip:
            continue
        if argument in EXECUTES:
            inner = list(takewhile(lambda part: part not in (";", "+"), arguments[index + 1 :]))
            skip = index + 1 + len(inner)
            for pattern in patterns if inner else ():
                walk.run_program([part.replace("{}", pattern) for part in inner], NO_OUTPUT)
        elif argument == "-delete":
            for start, pattern in zip(starts, patterns, strict=True):
                walk.access(start if start == "/" else pattern, Access.DELETE)
        elif argument in ("-fprint", "-fprintf", "-fls"):
            walk.access([*arguments, ""][index + 1], Access.WRITE)
    return Output(Source.NONE, target=found)


def _list(walk: Walk, call: Invocation) -> Output:
    """`ls`: the folder that is listed stands for what is found there."""
    del walk
    paths = [argument for argument in call.arguments if argument[:1] != "-"]
    return Output(Source.NONE, target=paths[0] if paths else "./found")


_FIND_NAMES = frozenset(("-name", "-iname", "-path"))


def _locate(walk: Walk, call: Invocation) -> Output:
    """`locate`: names anywhere on the machine that hold a text."""
    del walk, call
    return UNKNOWN_OUTPUT


def _search_pattern(walk: Walk, start: str, search: Search) -> str:
    """Return a path that stands for those that a search finds: its first folder, and the one pattern it looks for."""
    if is_secret(walk.plain(start), walk.folder):
        return start
    below = f"{start.rstrip('/')}/found"
    wanted = [f"{start.rstrip('/')}/{name.lstrip('/')}" for name in search.wanted]
    special = next((path for path in wanted if _is_special(walk, path, below)), "")
    if special or (search.is_limited and len(wanted) == 1):
        return special or wanted[0]
    deletes = read_access(walk.plain(below), Access.DELETE, walk.project, folder=walk.folder)
    is_elsewhere = start[:1] == "/" and deletes.kind == "deletes-outside"
    return start if start == "/" or is_elsewhere else below


def _is_special(walk: Walk, path: str, other: str) -> bool:
    """Return whether a path holds a secret, or writing it does more than writing another file of the folder."""
    if is_secret(walk.plain(path), walk.folder):
        return True
    written, usual = (
        read_access(walk.plain(each), Access.WRITE, walk.project, folder=walk.folder) for each in (path, other)
    )
    return written.kind != usual.kind and written.severity >= usual.severity


_TAR_VALUED = frozenset(
    "-f --file -C --directory -T --files-from -X --exclude-from --exclude --to-command --checkpoint-action "
    "-I --use-compress-program --transform --strip-components -g --rsh-command --one-top-level".split()
)


def _tar(walk: Walk, call: Invocation) -> Output:
    arguments = call.arguments
    if arguments and re.fullmatch(r"[A-Za-z]+", arguments[0]):
        arguments = ["-" + arguments[0], *arguments[1:]]
    options, paths = split_options(arguments, _TAR_VALUED)
    values = dict(options)
    for option in ("--to-command", "--checkpoint-action", "--use-compress-program", "-I", "--rsh-command"):
        command = values.get(option, "").removeprefix("exec=")
        if command and not _COMPRESSES.match(command):
            walk.read_text(command)
    archive = values.get("-f", values.get("--file", "-"))
    folder = values.get("-C", values.get("--directory", ""))
    if values.keys() & {"-x", "--extract", "--get"}:
        stream = call.stdin if archive == "-" else walk.read_file(archive)
        if values.keys() & {"-O", "--to-stdout"}:
            return Output(Source.DECODED) if stream.source in _PLAIN else stream
        unpack(walk, stream, folder)
        return NO_OUTPUT
    if values.keys() & {"-c", "--create", "-r", "-u", "--append", "--update"}:
        return _pack(walk, archive, folder, paths)
    return UNKNOWN_OUTPUT


_COMPRESSES = re.compile(r"(?:zstd|gzip|pigz|xz|bzip2|lz4|pixz|dot|echo|totals|bell)\b")


def unpack(walk: Walk, archive: Output, folder: str) -> None:
    """Write an archive's files to a folder; those of a download are downloads."""
    walk.access(folder or "./unpacked", Access.WRITE)
    if archive.source is Source.DOWNLOAD:
        walk.downloads[walk.full_path(folder or ".")] = archive.target


def _pack(walk: Walk, archive: str, folder: str, paths: list[str]) -> Output:
    secrets = [walk.plain(path) for path in paths if is_secret(walk.plain(path), folder or walk.folder)]
    for path in secrets:
        walk.add("reads-secret", path)
    if archive != "-":
        walk.access(archive, Access.WRITE)
    return Output(Source.SECRET, target=secrets[0]) if secrets else Output(Source.FILE, target=[*paths, "."][0])


def _zip(walk: Walk, call: Invocation) -> Output:
    """`zip` and `7z`: an archive written from files."""
    paths = split_options(call.arguments, frozenset(("-x", "-i", "-P")))[1]
    if call.name != "zip" and paths[:1] in (["e"], ["x"], ["p"]):
        return _unzip(walk, call._replace(arguments=[each for each in call.arguments if each != paths[0]]))
    for path in paths[1:]:
        walk.print_file(path)
    if paths:
        walk.access(paths[0], Access.WRITE)
    return NO_OUTPUT


def _unzip(walk: Walk, call: Invocation) -> Output:
    options, paths = split_options(call.arguments, frozenset(("-d", "-x", "-P")))
    stream = walk.read_file(paths[0]) if paths else call.stdin
    if any(option in ("-c", "-l", "-p", "-s", "-t", "-v") for option, _ in options):
        return Output(Source.DECODED) if stream.source in _PLAIN else stream
    unpack(walk, stream, dict(options).get("-d", ""))
    return NO_OUTPUT


# Streams of which unpacking makes another text.
_PLAIN = frozenset((Source.NONE, Source.TEXT, Source.FILE))


def _compress(walk: Walk, call: Invocation) -> Output:
    """`gzip` and its like: a file in place, or the input passed on."""
    options, paths = split_options(call.arguments)
    if not paths or any(option in ("-c", "--stdout", "--to-stdout") for option, _ in options):
        stream = walk.print_file(paths[0]) if paths else call.stdin
        return Output(Source.DECODED) if stream.source in _PLAIN else stream
    for path in paths:
        stream = walk.read_file(path)
        walk.access(path, Access.WRITE)
        if stream.source is Source.DOWNLOAD:
            walk.downloads[walk.full_path(path.rsplit(".", 1)[0])] = stream.target
    return NO_OUTPUT


def _patch(walk: Walk, call: Invocation) -> Output:
    paths = split_options(call.arguments, frozenset("-i --input -d --directory -o --output -p".split()))[1]
    if call.stdin.source is Source.DOWNLOAD:
        walk.add("embeds-remote-code", call.stdin.target)
    walk.access(paths[0] if paths else ".", Access.WRITE)
    return NO_OUTPUT


def _split(walk: Walk, call: Invocation) -> Output:
    paths = split_options(call.arguments, frozenset("-l -b -n -a -d --lines --bytes".split()))[1]
    if paths:
        walk.print_file(paths[0])
    walk.access(paths[1] if len(paths) > 1 else "xaa", Access.WRITE)
    return NO_OUTPUT


def _editor(walk: Walk, call: Invocation) -> Output:
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
    return NO_OUTPUT


READERS = {
    **dict.fromkeys(("rm", "rmdir", "unlink", "shred", "srm", "trash", "rimraf", "del"), _remove),
    **dict.fromkeys(("cp", "mv", "ln", "install", "gcp", "gmv"), _move),
    **dict.fromkeys(("mkdir", "touch", "truncate", "mkfifo", "fallocate"), _make),
    "tee": _tee,
    "dd": _dd,
    "chmod": _chmod,
    **dict.fromkeys(("chown", "chgrp", "chattr", "setcap", "xattr"), _chown),
    **dict.fromkeys(("find", "fd", "fdfind", "gfind"), _find),
    **dict.fromkeys(("locate", "plocate", "mlocate", "mdfind"), _locate),
    **dict.fromkeys(("ls", "exa", "eza", "lsd", "ll"), _list),
    **dict.fromkeys(("tar", "bsdtar", "gtar"), _tar),
    **dict.fromkeys(("zip", "7z", "7za", "rar"), _zip),
    **dict.fromkeys(("unzip", "bsdunzip"), _unzip),
    **dict.fromkeys("gzip gunzip bzip2 bunzip2 xz unxz zstd unzstd lz4 compress uncompress pigz".split(), _compress),
    "patch": _patch,
    **dict.fromkeys(("split", "csplit"), _split),
    **dict.fromkeys(
        ("vim", "vi", "nvim", "editor", "ex", "ed", "emacs", "nano", "pico", "view", "micro", "hx", "kak"), _editor
    ),
}
