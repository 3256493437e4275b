"""What many rows of `programs.tbl` name as their effect: files copied, fetched, packed, shown, searched; statements."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Collection
from posixpath import splitext
from typing import TYPE_CHECKING, Any

from lockgate.core.ruling.effects.code import is_scratch_database, read_sql
from lockgate.core.ruling.effects.effect import Certainty
from lockgate.core.ruling.effects.paths import Access, is_secret, is_secret_variable, read_access
from lockgate.core.ruling.effects.programs.options import host_of, is_local
from lockgate.core.ruling.effects.programs.program_rows import FORMS
from lockgate.core.ruling.effects.programs.roles import (
    NO_FILES,
    SECRETS,
    Use,
    ask_host,
    is_computed,
    role_if,
    role_write,
)
from lockgate.core.ruling.effects.project import Place
from lockgate.core.ruling.effects.shell_syntax import NO_OUTPUT, UNKNOWN_OUTPUT, Output, Source

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk


# Requests, and files to and from other machines


def finish_fetches(use: Use) -> Output:
    """What is downloaded is printed, or written where an option says, or under the name that the address has."""
    walk, addresses, outs = use.walk, use.values.get("url", []), use.values.get("out", [])
    is_named = "named" in use.modes or (use.row.target == "all" and not outs and "looks-up" not in use.modes)
    carried, method = use.values.get("carry", []), use.value("method")
    whole = "".join([*addresses, *carried])
    sends = "sends" in use.modes or method.upper() not in ("", "GET", "HEAD", "OPTIONS")
    sends = sends and ("get" not in use.modes or bool(walk.secrets_in(whole)))
    stream, named = use.output, list[tuple[str, Output]]()
    for address in addresses:
        stream = ask_host(walk, address, sends=sends, whole=whole)
        plain = walk.plain(address)
        _note_request(use, address, carried)
        if is_named:
            named.append((plain.split("?")[0].rstrip("/").rsplit("/", 1)[-1] or "index.html", stream))
    _save_files(use, [*named, *((out, stream) for out in outs)])
    is_printed = not named and all(out in ("-", "/dev/stdout") for out in outs) and "head" not in use.modes
    return stream if is_printed else NO_OUTPUT


def _note_request(use: Use, address: str, carried: list[str]) -> None:
    data = {"data": [*map(use.walk.plain, carried)]}
    for kind in kinds_of_request_to(use.value("method"), use.walk.plain(address), data):
        use.walk.add(kind, address, Certainty.LIKELY)


def _save_files(use: Use, files: list[tuple[str, Output]]) -> None:
    into = use.value("into")
    for path, content in files:
        if path not in NO_FILES:
            use.walk.write_file(f"{into}/{path}" if into and path[:1] != "/" else path, content)


def kinds_of_request_to(method: str, path: str, body: dict[str, Any]) -> Collection[str]:
    """Return what a request does by its method and path, as a tool does that gets both."""
    from lockgate.core.ruling.effects.tool_commands import kinds_of_request, name_of_request  # it uses these rows

    name = name_of_request(method, path)
    return kinds_of_request(name, body) if name else ()


def _machine_of(path: str) -> str:
    """Return the host or the bucket of a path that is not on this machine."""
    match = FORMS["remote"].match(path)
    return host_of(path) if "://" in path else match.group(1).strip("[]").lower() if match else ""


def finish_transfers(use: Use) -> Output:
    """Files to or from another machine or a bucket, or between folders; the last path is the target."""
    walk, sources, target = use.walk, use.operands[:-1], "".join(use.operands[-1:])
    if not target:
        return UNKNOWN_OUTPUT
    place = _machine_of(walk.plain(target))
    _note_own_copies(use, [source for source in sources if not _machine_of(walk.plain(source))], target)
    stream = UNKNOWN_OUTPUT
    for source in sources:
        stream = _take_source(use, source, place) or stream
    if place:
        walk.add("asks-local" if is_local(place) else "sends-data", place)
        if "delete" in use.modes and FORMS["bucket"].match(walk.plain(target)):
            walk.add("deletes-data", place)
    elif target != "-":
        walk.write_file(target, stream)
        if "delete" in use.modes:
            walk.access(target, Access.DELETE)
    return stream if target == "-" else NO_OUTPUT


def _take_source(use: Use, source: str, place: str) -> Output | None:
    """Note what is sent to a place, or to this machine where it is empty; return what comes from another one."""
    walk = use.walk
    if other := _machine_of(walk.plain(source)):
        walk.add("asks-local" if is_local(other) else "requests", other)
        return Output(Source.DOWNLOAD, target=other)
    stream = use.call.stdin if source == "-" else walk.read_file(source)
    if stream.source in SECRETS:
        walk.add("sends-secret" if place else "reads-secret", stream.target or "environment")
    return None


# Files


def finish_copies(use: Use) -> Output:
    """The last path is written, or the one that an option names."""
    paths, target = use.operands, use.value("into")
    if not target:
        paths, target = paths[:-1], "".join(paths[-1:])
    for path in paths:
        _copy_one(use, path, target)
    if not paths and use.row.effect == "copies":
        # `install -d FOLDER`.
        use.walk.access(target, Access.WRITE)
    # A link to the only path is made in the working folder.
    _note_own_copies(use, paths or [target], target)
    return NO_OUTPUT


finish_moves = finish_links = finish_copies


def _copy_one(use: Use, path: str, target: str) -> None:
    walk, effect, stream = use.walk, use.row.effect, use.walk.read_file(path)
    # What stays in the project is not lost, and a secret of the project may have a copy there.
    stays = walk.place(path) is walk.place(target) is Place.INSIDE
    if effect == "moves":
        walk.access(path, Access.WRITE if stays else Access.DELETE)
    if effect == "links" and walk.place(path) is Place.HOME:
        access = read_access(walk.plain(path), Access.WRITE, walk.project, folder=walk.folder)
        if access.kind != "writes-outside":
            # What is written through the link lands there.
            walk.add(access.kind, access.target)
    is_copy = stays and (is_secret(walk.plain(target), walk.folder) or target.endswith((".bak", ".orig", ".old")))
    if stream.source is Source.SECRET and not is_copy:
        walk.add("reads-secret", stream.target)
    is_known = walk.content_of(path) is not None
    walk.copy_content(path, target, is_link=effect == "links")
    _write_copy(walk, path, target, UNKNOWN_OUTPUT if is_known and stream.source is Source.TEXT else stream)


def _write_copy(walk: Walk, path: str, target: str, stream: Output) -> None:
    name = path.rstrip("/").rsplit("/", 1)[-1]
    written = f"{target}/{name}" if target.endswith("/") or target in (".", "..") else target
    if stream.source in (Source.DOWNLOAD, Source.TEXT):
        walk.write_file(written, stream)
        if stream.source is Source.DOWNLOAD:
            walk.downloads[f"{walk.full_path(target)}/{name}"] = stream.target
    else:
        walk.access(written, Access.WRITE)


def _note_own_copies(use: Use, sources: list[str], target: str) -> None:
    """Note what a copy, with all that is below its sources, does to Lockgate's own files."""
    walk, target = use.walk, use.walk.plain(target).rstrip("/")
    access = {"moves": Access.DELETE, "links": Access.WRITE}.get(use.row.effect, Access.READ)
    for source in map(walk.plain, sources):
        name = source.rstrip("/").rpartition("/")[2]
        # A slash behind a source of `rsync` stands for what is in the folder.
        is_content = source[-1:] == "/" or name in (".", "..", ".*", "") or bool(use.modes & {"whole", "delete"})
        walk.note_own(source, access, below=True)
        walk.note_own(target or "/", Access.WRITE, below=is_content)
        # A target with the ending of its source is a file.
        if not is_content and not splitext(target)[1] == splitext(name)[1] != "":
            walk.note_own(f"{target}/{name}", Access.WRITE, below=True)


def finish_passes(use: Use) -> Output:
    """The input is written to files, and passed on."""
    walk, stream = use.walk, use.call.stdin
    for path in use.operands:
        if path not in NO_FILES and not is_computed(walk, path):
            walk.write_file(path, stream)
    return stream


def finish_lists(use: Use) -> Output:
    """The path that is given stands for what is printed, or the folder that it is in."""
    path = use.walk.plain([*use.operands, "./found"][0])
    return Output(Source.NONE, target=f"{path}/.." if use.row.target == "part" else path)


def finish_packs(use: Use) -> Output:
    """An archive is written from files; with `extract`, the other way round."""
    names_archive = "archive" in use.row.options.values()
    if "extract" in use.modes:
        return finish_unpacks(use)
    if "create" not in use.modes and names_archive:
        return UNKNOWN_OUTPUT
    archives, paths = ([use.value("archive")], use.operands) if names_archive else (use.operands[:1], use.operands[1:])
    role_write(use, "".join(archives))
    folder = use.value("into") or use.walk.folder
    secrets = [path for path in map(use.walk.plain, paths) if is_secret(path, folder)]
    for path in secrets:
        use.walk.add("reads-secret", path)
    return Output(Source.SECRET, target=secrets[0]) if secrets else Output(Source.FILE, target=[*paths, "."][0])


def finish_unpacks(use: Use) -> Output:
    """The files of an archive are written; those of a download are downloads."""
    walk, archive, folder = use.walk, use.value("archive") or [*use.operands, "-"][0], use.value("into")
    stream = use.call.stdin if archive == "-" else walk.read_file(archive)
    if "stdout" in use.modes:
        return stream if stream.source in _TELLING else Output(Source.DECODED)
    walk.access(folder or "./unpacked", Access.WRITE)
    if stream.source is Source.DOWNLOAD:
        walk.downloads[walk.full_path(folder or ".")] = stream.target
    return NO_OUTPUT


# Texts

# Streams that stay what they are, whatever a filter does to them.
_TELLING = (Source.DOWNLOAD, Source.SECRET, Source.ENVIRONMENT)


def finish_shows(use: Use) -> Output:
    """The files that are given, or the input, to where `out` says: all of it, a part, or changed."""
    stream = _print_files(use, use.operands) if use.output is UNKNOWN_OUTPUT else use.output
    stream = _filter_stream(use, stream)
    _save_files(use, [(path, stream) for path in use.values.get("out", [])])
    return NO_OUTPUT if "out" in use.values else stream


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


def finish_searches(use: Use) -> Output:
    """Files, or the input, of which the lines that fit a pattern are shown."""
    walk, stdin, files, pattern = use.walk, use.call.stdin, use.operands, use.value("pattern")
    if not pattern and not use.wants("-e", "-f", "--file", "--from-file", "--source"):
        pattern, files = "".join(files[:1]), files[1:]
    if "quiet" in use.modes:
        return UNKNOWN_OUTPUT
    if "in-place" in use.modes and files:
        walk.access(files[-1], Access.WRITE)
    name = pattern.strip("^=$")
    is_setting = re.fullmatch(r"[A-Z][A-Z0-9_]{2,}", name) is not None and not is_secret_variable(name)
    if files:
        is_hidden = is_setting and "inverted" not in use.modes
        return UNKNOWN_OUTPUT if is_hidden else _filter_stream(use, _print_files(use, files))
    if stdin.source is not Source.ENVIRONMENT:
        return _filter_stream(use, stdin if is_setting else walk.show(stdin))
    if FORMS["secret words"].search(pattern) or "inverted" in use.modes:
        walk.add("reads-secret", "environment")
    return UNKNOWN_OUTPUT


# Databases


def finish_queries(use: Use) -> Output:
    """Statements from options, operands, files and the input, for a server or for a database in a file."""
    # Only now the server is known, which may stand behind the file.
    walk, away, path = use.walk, use.value("away"), use.value("database")
    if path:
        walk.print_file(path)
    for stream in (*_list_statements(use), use.call.stdin):
        if stream.source is Source.DOWNLOAD:
            walk.add("runs-download", stream.target)
        elif stream.source is not Source.FILE:
            _read_statements(use, stream.text, path)
        elif path:
            walk.access(path, Access.WRITE)
        else:
            # A file of the project: a migration, a dump.
            walk.add("changes-record" if away else "runs-project-task", away or stream.target)
    return UNKNOWN_OUTPUT


def _list_statements(use: Use) -> list[Output]:
    walk = use.walk
    streams = [Output(Source.TEXT, statement) for statement in use.values.get("statement", [])]
    for name in use.values.get("statements", []):
        walk.load(name)
        content = walk.content_of(name)
        if content is not None and content.text is None:
            walk.note_unknown_content(name, content)
        streams.append(walk.read_file(name))
    return streams


def _read_statements(use: Use, text: str, path: str) -> None:
    walk = use.walk
    if use.row.target == "documents":
        use.detail = "documents"
        role_if(use, text)
    elif escape := FORMS["shell escape"].search(text):
        walk.read_text(text[escape.end() :])
    elif FORMS["database reaches out"].search(text):
        walk.add_unreadable()
    elif statements := FORMS["command of client"].sub(";", text).strip("; \n"):
        _note_statements(walk, statements, path if walk.place(path) in (Place.INSIDE, Place.SCRATCH) else "")


def _note_statements(walk: Walk, text: str, local_file: str) -> None:
    is_trial = is_scratch_database(local_file)
    ours = {"changes-record": "edits-project", "deletes-record": "edits-project" if is_trial else "discards-work"}
    if is_trial:
        ours["deletes-data"] = "edits-project"
    for entry in read_sql(walk.plain(text), walk.argument):
        if local_file and entry.kind in ours:
            walk.add(ours[entry.kind], local_file)
        elif not (entry.kind == "reads-secret" and is_trial):
            walk.add(entry.kind, entry.target, entry.certainty)
