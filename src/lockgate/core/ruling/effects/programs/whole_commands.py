"""What whole commands do, where the effect in their row of `programs.tbl` is no kind."""

from __future__ import annotations

import re
from posixpath import splitext
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.effect import Certainty
from lockgate.core.ruling.effects.paths import Access, is_secret, read_access
from lockgate.core.ruling.effects.program_io import NO_OUTPUT, UNKNOWN_OUTPUT, Output, Source
from lockgate.core.ruling.effects.programs.options import has_option
from lockgate.core.ruling.effects.programs.roles import NO_FILES, Use, ask_host, role_folder, role_peer, role_write
from lockgate.core.ruling.effects.programs.url_hosts import host_of, is_local
from lockgate.core.ruling.effects.project import Place

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk


def finish_fetches(use: Use) -> Output:
    """What is downloaded is printed, or written where an option says."""
    return _request(use, use.values.get("out", []), is_named="named" in use.modes)


def finish_saves(use: Use) -> Output:
    """What is downloaded is written under the name that the address has."""
    outs = use.values.get("out", [])
    return _request(use, outs, is_named=not outs and "looks-up" not in use.modes)


def _request(use: Use, outs: list[str], *, is_named: bool) -> Output:
    walk, addresses = use.walk, use.values.get("url", [])
    whole = "".join([*addresses, *use.carried])
    sends = use.sends and not ("get" in use.modes and not walk.secrets_in(whole))
    into = use.value("into")
    stream = use.output
    for address in addresses:
        stream = ask_host(walk, address, sends=sends, whole=whole)
        if is_named:
            name = walk.plain(address).split("?")[0].rstrip("/").rsplit("/", 1)[-1] or "index.html"
            walk.write_file(f"{into}/{name}" if into else name, stream)
    for out in outs:
        if out not in NO_FILES:
            walk.write_file(f"{into}/{out}" if into and out[:1] != "/" else out, stream)
    is_printed = not is_named and all(out in ("-", "/dev/stdout") for out in outs) and "head" not in use.modes
    return stream if is_printed else NO_OUTPUT


def finish_connects(use: Use) -> Output:
    """An open pipe to another machine, or from one; with a program on it, a door."""
    walk, operands = use.walk, use.operands
    if "door" in use.values:
        walk.add("grants-access", use.first())
    if "listen" in use.modes:
        walk.add("opens-port", operands[-1] if operands else use.value("port"))
        return Output(Source.DOWNLOAD, target="network")
    for host in operands[:1]:
        role_peer(use, host)
    return use.output


def finish_joins(use: Use) -> Output:
    """Two ends of `socat`, each a host, a port or a program."""
    for end in use.operands:
        kind, _, rest = use.walk.plain(end).partition(":")
        kind = kind.upper()
        if kind in ("EXEC", "SYSTEM", "SHELL"):
            use.walk.add("grants-access", rest)
        elif "LISTEN" in kind or kind.endswith("-L"):
            use.walk.add("opens-port", rest.split(",")[0])
        elif kind.startswith(("TCP", "UDP", "OPENSSL", "SSL", "SOCKS", "PROXY")):
            role_peer(use, rest)
    return Output(Source.DOWNLOAD, target="network")


def finish_transfers(use: Use) -> Output:
    """Files to or from another machine, or between folders; the last path is the target."""
    walk, paths = use.walk, use.operands
    if not paths:
        return UNKNOWN_OUTPUT
    sources, target = (paths[:-1], paths[-1]) if len(paths) > 1 else ([], paths[0])
    host = _host_of_path(walk.plain(target))
    _note_own_copies(use, [source for source in sources if not _host_of_path(walk.plain(source))], target)
    fetched = ""
    for source in sources:
        other = _host_of_path(walk.plain(source))
        if other:
            fetched = other
            walk.add("asks-local" if is_local(other) else "requests", other)
        elif (stream := walk.read_file(source)).source is Source.SECRET:
            walk.add("sends-secret" if host else "reads-secret", stream.target)
    if host:
        walk.add("asks-local" if is_local(host) else "sends-data", host)
        return NO_OUTPUT
    walk.write_file(target, Output(Source.DOWNLOAD, target=fetched) if fetched else UNKNOWN_OUTPUT)
    if "delete" in use.modes:
        walk.access(target, Access.DELETE)
    return NO_OUTPUT


_REMOTE = re.compile(r"(?:[^@/\s]+@)?(\[[^\]]+\]|[\w.-]+):(?!\\)")


def _host_of_path(path: str) -> str:
    if "://" in path:
        return host_of(path)
    match = _REMOTE.match(path)
    return match.group(1).strip("[]").lower() if match and not re.match(r"[A-Za-z]:[\\/]", path) else ""


def finish_copies(use: Use) -> Output:
    """The last path is written, or the one that an option names."""
    paths, target = use.operands, use.value("into")
    if "folders" in use.modes:
        for path in paths:
            role_folder(use, path)
        return NO_OUTPUT
    if not target:
        paths, target = paths[:-1], "".join(paths[-1:])
    for path in paths:
        _copy_one(use, path, target)
    # A link to the only path is made in the working folder.
    _note_own_copies(use, paths or [target], target)
    return NO_OUTPUT


def _note_own_copies(use: Use, sources: list[str], target: str) -> None:
    """Note what a copy, with all that is below its sources, does to Lockgate's own files."""
    walk, target = use.walk, use.walk.plain(target)
    access = {"moves": Access.DELETE, "links": Access.WRITE}.get(use.row.effect, Access.READ)
    for source in map(walk.plain, sources):
        name = source.rstrip("/").rpartition("/")[2]
        # A slash behind a source of `rsync` stands for what is in the folder, and a target with the ending of the
        # source is a file.
        is_content = name in (".", "..", ".*", "") or source[-1:] == "/"
        is_file = splitext(target)[1] == splitext(name)[1] != ""
        walk.note_own(source, access, below=True)
        walk.note_own(target if is_content or is_file else f"{target.rstrip('/')}/{name}", Access.WRITE, below=True)
    if has_option(use.call.arguments, "-T", "--no-target-directory") or "delete" in use.modes:
        walk.note_own(target, Access.WRITE, below=True)


def _copy_one(use: Use, path: str, target: str) -> None:
    walk, effect = use.walk, use.row.effect
    stream = walk.read_file(path)
    if effect == "moves":
        walk.access(path, Access.DELETE)
    if effect == "links" and walk.place(path) is Place.HOME:
        access = read_access(walk.plain(path), Access.WRITE, walk.project, folder=walk.folder)
        if access.kind != "writes-outside":
            # What is written through the link lands there.
            walk.add(access.kind, access.target)
    if stream.source is Source.SECRET and not _stays_secret(walk, path, target):
        walk.add("reads-secret", stream.target)
    name = path.rstrip("/").rsplit("/", 1)[-1]
    written = f"{target}/{name}" if target.endswith("/") or target in (".", "..") else target
    if stream.source in (Source.DOWNLOAD, Source.TEXT):
        walk.write_file(written, stream)
        if stream.source is Source.DOWNLOAD:
            walk.downloads[f"{walk.full_path(target)}/{name}"] = stream.target
    else:
        walk.access(written, Access.WRITE)


def _stays_secret(walk: Walk, path: str, target: str) -> bool:
    """Return whether a secret of the project is copied to another secret place of the project: `cp .env .env.local`."""
    inside = walk.place(path) is walk.place(target) is Place.INSIDE
    return inside and (is_secret(walk.plain(target), walk.folder) or target.endswith((".bak", ".orig", ".old")))


def finish_prints(use: Use) -> Output:
    """The files that it was given, or its input, to where `out` says."""
    stream = use.output if use.output is not UNKNOWN_OUTPUT else use.walk.show(use.call.stdin)
    for path in use.values.get("out", []):
        if path not in NO_FILES:
            use.walk.write_file(path, stream)
    return NO_OUTPUT if "out" in use.values else stream


def finish_passes(use: Use) -> Output:
    """The input is written to files, and passed on."""
    walk, stream = use.walk, use.call.stdin
    for path in use.operands:
        is_computed = any(piece.source is not Source.VARIABLE for piece in walk.pieces_in(path))
        if path not in NO_FILES and not is_computed:
            walk.write_file(path, stream)
    return stream


def finish_lists(use: Use) -> Output:
    """The folder that is listed stands for what is found there."""
    return Output(Source.NONE, target=use.operands[0] if use.operands else "./found")


# Streams of which unpacking makes another text.
_PLAIN = frozenset((Source.NONE, Source.TEXT, Source.FILE))


def finish_unpacks(use: Use) -> Output:
    """The files of an archive are written; those of a download are downloads."""
    walk, archive = use.walk, use.value("archive") or [*use.operands, "-"][0]
    stream = use.call.stdin if archive == "-" else walk.read_file(archive)
    if "stdout" in use.modes:
        return Output(Source.DECODED) if stream.source in _PLAIN else stream
    folder = use.value("into")
    walk.access(folder or "./unpacked", Access.WRITE)
    if stream.source is Source.DOWNLOAD:
        walk.downloads[walk.full_path(folder or ".")] = stream.target
    return NO_OUTPUT


def finish_packs(use: Use) -> Output:
    """An archive is written from files; with `extract`, the other way round."""
    if "extract" in use.modes:
        return finish_unpacks(use)
    if "create" not in use.modes and "archive" in use.row.options.values():
        return UNKNOWN_OUTPUT
    walk, archive, folder = use.walk, use.value("archive"), use.value("into") or use.walk.folder
    paths = use.operands
    if not archive and "archive" not in use.row.options.values():
        archive, paths = [*paths, "-"][0], paths[1:]
    secrets = [walk.plain(path) for path in paths if is_secret(walk.plain(path), folder)]
    for path in paths:
        walk.read_file(path)
    for path in secrets:
        walk.add("reads-secret", path)
    role_write(use, archive or "-")
    return Output(Source.SECRET, target=secrets[0]) if secrets else Output(Source.FILE, target=[*paths, "."][0])


def finish_compresses(use: Use) -> Output:
    """Each file in place, or the input passed on."""
    walk, paths = use.walk, use.operands
    if not paths or "stdout" in use.modes:
        stream = walk.print_file(paths[0]) if paths else use.call.stdin
        return Output(Source.DECODED) if stream.source in _PLAIN else stream
    for path in paths:
        stream = walk.read_file(path)
        walk.access(path, Access.WRITE)
        if stream.source is Source.DOWNLOAD:
            walk.downloads[walk.full_path(path.rsplit(".", 1)[0])] = stream.target
    return NO_OUTPUT


def finish_patches(use: Use) -> Output:
    """A change that comes from the input or a file."""
    walk = use.walk
    if use.call.stdin.source is Source.DOWNLOAD:
        walk.add("embeds-remote-code", use.call.stdin.target)
    walk.access([*use.operands, "."][0], Access.WRITE)
    return NO_OUTPUT


def finish_decodes(use: Use) -> Output:
    """A file or the input, with `decode` turned into what it hides."""
    walk, source = use.walk, use.value("from")
    stream = walk.read_file(source) if source else use.call.stdin
    if stream.source is Source.SECRET and "public" not in use.modes:
        walk.add("reads-secret", stream.target)
    if stream.source in (Source.SECRET, Source.DOWNLOAD):
        return stream
    return Output(Source.DECODED) if "decode" in use.modes else use.output


def finish_installs(use: Use) -> Output:
    """Packages by their role; without any, those that the project lists."""
    if not use.operands:
        use.walk.add("installs-known-package")
    return UNKNOWN_OUTPUT


def finish_unknown(use: Use) -> Output:
    """Run what no row describes."""
    note_unknown(use.walk, use.call.name)
    return use.output


def note_unknown(walk: Walk, name: str, *, of_project: bool = False) -> None:
    """Note that a program runs of which no row says what it does."""
    if name in walk.project.programs or name in walk.project.tasks or of_project:
        walk.add("runs-project-task", name)
    else:
        walk.add("runs-program", name, Certainty.GUESS)


finish_moves = finish_links = finish_copies
