"""What whole commands do, where the effect in their row of `programs.tbl` is no kind."""

from __future__ import annotations

import re
from base64 import b64decode
from posixpath import splitext
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.effect import Certainty
from lockgate.core.ruling.effects.paths import Access, is_secret, is_secret_variable, read_access
from lockgate.core.ruling.effects.program_io import NO_OUTPUT, UNKNOWN_OUTPUT, Output, Source
from lockgate.core.ruling.effects.programs.options import has_option
from lockgate.core.ruling.effects.programs.program_rows import WORDS
from lockgate.core.ruling.effects.programs.roles import (
    NO_FILES,
    Use,
    ask_host,
    bucket_in,
    role_folder,
    role_write,
)
from lockgate.core.ruling.effects.programs.sed_script import files_of_sed
from lockgate.core.ruling.effects.programs.url_hosts import host_of, is_local
from lockgate.core.ruling.effects.project import Place
from lockgate.core.ruling.effects.shell_syntax import decode_escapes

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk


def finish_fetches(use: Use) -> Output:
    """What is downloaded is printed, or written where an option says, or under the name that the address has."""
    walk, addresses, outs = use.walk, use.values.get("url", []), use.values.get("out", [])
    is_named = "named" in use.modes or (use.row.target == "all" and not outs and "looks-up" not in use.modes)
    whole = "".join([*addresses, *use.values.get("carry", [])])
    sends = "sends" in use.modes and ("get" not in use.modes or bool(walk.secrets_in(whole)))
    stream, named = use.output, dict[str, Output]()
    for address in addresses:
        stream = ask_host(walk, address, sends=sends, whole=whole)
        _note_request(use, address)
        if is_named:
            named[_file_name(walk.plain(address))] = stream
    _save_files(use, [*named.items(), *((out, stream) for out in outs)])
    is_printed = not named and all(out in ("-", "/dev/stdout") for out in outs) and "head" not in use.modes
    return stream if is_printed else NO_OUTPUT


def _note_request(use: Use, address: str) -> None:
    """Note what a request does by its method and path, as a tool does that gets both."""
    from lockgate.core.ruling.effects.tool_commands import kinds_of_request, name_of_request  # it uses these rows

    name = name_of_request(use.value("method"), use.walk.plain(address))
    for kind in kinds_of_request(name, {"data": [*map(use.walk.plain, use.values.get("carry", []))]}):
        use.walk.add(kind, address, Certainty.LIKELY)


def _save_files(use: Use, files: list[tuple[str, Output]]) -> None:
    into = use.value("into")
    for path, content in files:
        if path not in NO_FILES:
            use.walk.write_file(f"{into}/{path}" if into and path[:1] != "/" else path, content)


def _file_name(address: str) -> str:
    return address.split("?")[0].rstrip("/").rsplit("/", 1)[-1] or "index.html"


def finish_transfers(use: Use) -> Output:
    """Files to or from another machine or a bucket, or between folders; the last path is the target."""
    walk, paths = use.walk, use.operands
    if not paths:
        return UNKNOWN_OUTPUT
    sources, target = (paths[:-1], paths[-1]) if len(paths) > 1 else ([], paths[0])
    place = _machine_of(walk.plain(target))
    _note_own_copies(use, [source for source in sources if not _machine_of(walk.plain(source))], target)
    stream = _take_sources(use, sources, place)
    if place:
        walk.add("asks-local" if is_local(place) else "sends-data", place)
        if "delete" in use.modes and bucket_in(walk.plain(target)):
            walk.add("deletes-data", place)
        return NO_OUTPUT
    if target == "-":
        return stream
    walk.write_file(target, stream)
    if "delete" in use.modes:
        walk.access(target, Access.DELETE)
    return NO_OUTPUT


def _take_sources(use: Use, sources: list[str], place: str) -> Output:
    """Note what is sent to a place, or to this machine where it is empty; return what comes from another one."""
    walk, fetched = use.walk, UNKNOWN_OUTPUT
    for source in sources:
        if other := _machine_of(walk.plain(source)):
            fetched = Output(Source.DOWNLOAD, target=other)
            walk.add("asks-local" if is_local(other) else "requests", other)
            continue
        stream = use.call.stdin if source == "-" else walk.read_file(source)
        if stream.source in (Source.SECRET, Source.ENVIRONMENT):
            walk.add("sends-secret" if place else "reads-secret", stream.target or "environment")
    return fetched


_REMOTE = re.compile(r"(?![A-Za-z]:[\\/])(?:[^@/\s]+@)?(\[[^\]]+\]|[\w.-]+):(?!\\)")


def _machine_of(path: str) -> str:
    """Return the host or the bucket of a path that is not on this machine."""
    match = _REMOTE.match(path)
    return bucket_in(path) or (host_of(path) if "://" in path else match.group(1).strip("[]").lower() if match else "")


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
        # What stays in the project is not lost.
        stays = walk.place(path) is walk.place(target) is Place.INSIDE
        walk.access(path, Access.WRITE if stays else Access.DELETE)
    if effect == "links" and walk.place(path) is Place.HOME:
        access = read_access(walk.plain(path), Access.WRITE, walk.project, folder=walk.folder)
        if access.kind != "writes-outside":
            # What is written through the link lands there.
            walk.add(access.kind, access.target)
    if stream.source is Source.SECRET and not _stays_secret(walk, path, target):
        walk.add("reads-secret", stream.target)
    name = path.rstrip("/").rsplit("/", 1)[-1]
    written = f"{target}/{name}" if target.endswith("/") or target in (".", "..") else target
    is_known = walk.content_of(path) is not None
    walk.copy_content(path, target, is_link=effect == "links")
    if stream.source is Source.DOWNLOAD or (stream.source is Source.TEXT and not is_known):
        walk.write_file(written, stream)
        if stream.source is Source.DOWNLOAD:
            walk.downloads[f"{walk.full_path(target)}/{name}"] = stream.target
    else:
        walk.access(written, Access.WRITE)


finish_moves = finish_links = finish_copies


def _stays_secret(walk: Walk, path: str, target: str) -> bool:
    """Return whether a secret of the project is copied to another secret place of the project: `cp .env .env.local`."""
    inside = walk.place(path) is walk.place(target) is Place.INSIDE
    return inside and (is_secret(walk.plain(target), walk.folder) or target.endswith((".bak", ".orig", ".old")))


def finish_prints(use: Use) -> Output:
    """The files that it was given, or its input, to where `out` says."""
    stream = use.output if use.output is not UNKNOWN_OUTPUT else use.walk.show(use.call.stdin)
    stream = _filter_stream(use, stream)
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
    return Output(Source.NONE, target=[*use.operands, "./found"][0])


def _unpacked(stream: Output) -> Output:
    """Return what unpacking makes of a stream."""
    is_plain = stream.source in (Source.NONE, Source.TEXT, Source.FILE)
    return Output(Source.DECODED) if is_plain else stream


def finish_unpacks(use: Use) -> Output:
    """The files of an archive are written; those of a download are downloads."""
    walk, archive, folder = use.walk, use.value("archive") or [*use.operands, "-"][0], use.value("into")
    stream = use.call.stdin if archive == "-" else walk.read_file(archive)
    if "stdout" in use.modes:
        return _unpacked(stream)
    walk.access(folder or "./unpacked", Access.WRITE)
    if stream.source is Source.DOWNLOAD:
        walk.downloads[walk.full_path(folder or ".")] = stream.target
    return NO_OUTPUT


def finish_packs(use: Use) -> Output:
    """An archive is written from files; with `extract`, the other way round."""
    names_archive = "archive" in use.row.options.values()
    if "extract" in use.modes:
        return finish_unpacks(use)
    if "create" not in use.modes and names_archive:
        return UNKNOWN_OUTPUT
    walk, archive, folder = use.walk, use.value("archive"), use.value("into") or use.walk.folder
    paths = use.operands
    if not archive and not names_archive:
        archive, paths = [*paths, "-"][0], paths[1:]
    for path in paths:
        walk.read_file(path)
    secrets = [path for path in map(walk.plain, paths) if is_secret(path, folder)]
    for path in secrets:
        walk.add("reads-secret", path)
    role_write(use, archive)
    return Output(Source.SECRET, target=secrets[0]) if secrets else Output(Source.FILE, target=[*paths, "."][0])


def finish_compresses(use: Use) -> Output:
    """Each file in place, or the input passed on."""
    walk, paths = use.walk, use.operands
    if not paths or "stdout" in use.modes:
        return _unpacked(walk.print_file(paths[0]) if paths else use.call.stdin)
    for path in paths:
        stream = walk.read_file(path)
        walk.access(path, Access.WRITE)
        if stream.source is Source.DOWNLOAD:
            walk.downloads[walk.full_path(path.rsplit(".", 1)[0])] = stream.target
    return NO_OUTPUT


def finish_applies(use: Use) -> Output:
    """A change that comes from the input or a file; one from elsewhere is code from elsewhere."""
    if use.call.stdin.source is Source.DOWNLOAD:
        use.walk.add("embeds-remote-code", use.call.stdin.target)
    if use.call.name == "git":
        use.walk.add("commits")
    else:
        use.walk.access([*use.operands, "."][0], Access.WRITE)
    return UNKNOWN_OUTPUT


def finish_makes_keys(use: Use) -> Output:
    """A new key is written, unless another is signed or read."""
    if "sign" not in use.values and not use.wants("-D"):
        use.walk.access(use.value("file") or "~/.ssh/id_ed25519", Access.WRITE)
    return UNKNOWN_OUTPUT


def finish_installs(use: Use) -> Output:
    """Packages by their role; without any, those that the project lists."""
    if not use.operands:
        use.walk.add("installs-known-package")
    return UNKNOWN_OUTPUT


def finish_controls(use: Use) -> Output:
    """`service NAME VERB` is `systemctl VERB NAME`."""
    name, verb = [*use.operands, "", "status"][:2] if len(use.operands) != 1 else [use.operands[0], "status"]
    return use.walk.run_program(["systemctl", verb or "status", name], use.call.stdin)


_MOST_JOBS, _MOST_OF_JOB = 8, 200
# What stands behind the five fields of a time, or behind its name, in a line of a crontab.
_JOB = re.compile(r"(?m)^[ \t]*(?:@\w+|(?:[\d*/,A-Za-z-]+[ \t]+){4}[\d*/,A-Za-z-]+)[ \t]+(.+)$")


def finish_schedules(use: Use) -> Output:
    """Jobs that the input lists, each of which runs later."""
    walk, stream, jobs = use.walk, use.call.stdin, list[str]()
    if stream.source is Source.DOWNLOAD:
        walk.add("runs-download", stream.target)
    elif stream.source is Source.TEXT:
        jobs = _JOB.findall(stream.text) if use.call.name == "crontab" else [stream.text]
        walk.read_text("\n".join(jobs))
    for job in jobs[:_MOST_JOBS] or [use.call.name]:
        walk.add("schedules-job", walk.plain(job).strip()[:_MOST_OF_JOB] or use.call.name)
    return UNKNOWN_OUTPUT


_IP_ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+")


def finish_routes(use: Use) -> Output:
    """`ip OBJECT VERB`: the beginning of a verb stands for it, and all but questions change the network."""
    verb = "".join(use.operands[1:2])
    if not any(look.startswith(verb) for look in WORDS["verbs of ip that look"]):
        address = ["ip", *filter(_IP_ADDRESS.match, use.operands)][-1]
        use.walk.add("changes-service", address.partition("/")[0])
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


# Texts

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
    pattern, remaining = decode_escapes(pattern), values[::-1]

    def fill(match: re.Match[str]) -> str:
        return "%" if match.group() == "%%" else remaining.pop() if remaining else ""

    places = sum(place != "%%" for place in _PLACE.findall(pattern))
    text = _PLACE.sub(fill, pattern * max(1, -(-len(values) // (places or len(values) or 1))))
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
    written = files_of_sed(script) if len(script) <= MOST_SCRIPT else None
    if written is None:
        walk.add_unreadable()
    for path in sorted((written or frozenset()) - NO_FILES):
        walk.access(path, Access.WRITE)
    if "in-place" in use.modes:
        for path in paths:
            walk.access(path, Access.WRITE)
        return NO_OUTPUT
    if not paths and call.stdin.source is Source.TEXT:
        return Output(Source.DECODED if "s" in script else Source.NONE)
    return _edit_stream(walk, paths, call.stdin)


def _edit_stream(walk: Walk, paths: list[str], stdin: Output) -> Output:
    """Return what is left of files or the input after a script: a file is no longer what lies on the disk."""
    stream = max(map(walk.print_file, paths), key=lambda stream: stream.source, default=stdin)
    return UNKNOWN_OUTPUT if stream.source is Source.FILE else stream


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
