"""What whole commands do, where the effect in their row of `programs.tbl` is no kind: files, streams, git, services."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Collection
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from lockgate.core.ruling.effects.code import is_scratch_database, read_sql
from lockgate.core.ruling.effects.effect import KINDS, Certainty, Severity
from lockgate.core.ruling.effects.paths import Access, is_secret, is_secret_variable, read_access
from lockgate.core.ruling.effects.programs.options import EXECUTES, host_of, is_local, read_search
from lockgate.core.ruling.effects.programs.program_rows import FORMS, WORDS
from lockgate.core.ruling.effects.programs.roles import (
    NO_FILES,
    PATTERNS,
    SECRETS,
    Use,
    ask_host,
    is_computed,
    note_kind,
    note_setting,
    remote_target,
    role_if,
    role_write,
)
from lockgate.core.ruling.effects.project import Place
from lockgate.core.ruling.effects.shell_syntax import NO_OUTPUT, UNKNOWN_OUTPUT, Output, Source, decode_escapes
from lockgate.core.ruling.tool_risk import GROUPS, PLAIN_VERBS, SURE_VERBS, read_tool_name

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
        for kind in _kinds_of_request(method, plain, {"data": [*map(walk.plain, carried)]}):
            walk.add(kind, address, Certainty.LIKELY)
        if is_named:
            named.append((plain.split("?")[0].rstrip("/").rsplit("/", 1)[-1] or "index.html", stream))
    _save_files(use, [*named, *((out, stream) for out in outs)])
    is_printed = not named and all(out in ("-", "/dev/stdout") for out in outs) and "head" not in use.modes
    return stream if is_printed else NO_OUTPUT


def _save_files(use: Use, files: list[tuple[str, Output]]) -> None:
    into = use.value("into")
    for path, content in files:
        if path not in NO_FILES:
            use.walk.write_file(f"{into}/{path}" if into and path[:1] != "/" else path, content)


def _kinds_of_request(method: str, path: str, body: dict[str, Any]) -> Collection[str]:
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


# Folders times names times commands that one search may have.
MOST_SEARCHED = 256


def finish_finds(use: Use) -> Output:
    """What `find` and `fd` run, delete and write, for each name that they look for."""
    walk, arguments = use.walk, use.call.arguments
    starts = list(takewhile(lambda argument: argument[:1] not in ("-", "(", "!"), arguments)) or ["."]
    search = read_search(arguments)
    names = search.wanted if search.is_limited and search.wanted else ["found", *filter(is_secret, search.wanted)]
    if len(starts) * len(names) * (1 + sum(map(EXECUTES.__contains__, arguments))) > MOST_SEARCHED:
        walk.add_unreadable()
        return UNKNOWN_OUTPUT
    found = [_path_found(walk, start, name) for start in starts for name in names]
    rest = iter(arguments)
    for argument in rest:
        if argument in EXECUTES:
            inner = list(takewhile(lambda part: part not in (";", "+"), rest))
            for path in found if inner else ():
                walk.run_program([part.replace("{}", path) for part in inner], NO_OUTPUT)
        elif argument == "-delete":
            for path in found:
                walk.access("/" if starts[0] == "/" else path, Access.DELETE)
        elif argument in ("-fprint", "-fprintf", "-fls"):
            walk.access(next(rest, ""), Access.WRITE)
    secrets = (path for path in found if is_secret(walk.plain(path), walk.folder))
    return Output(Source.NONE, target=next(secrets, found[0]))


def _path_found(walk: Walk, start: str, name: str) -> str:
    """Return a path that stands for what a search finds; where that is all of a folder, the folder does."""
    is_folder = is_secret(walk.plain(start), walk.folder) or (name == "found" and start[:1] == "/")
    return start if is_folder else f"{start.rstrip('/')}/{name.lstrip('/')}"


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


def finish_echoes(use: Use) -> Output:
    """`echo` and `printf`: show their arguments. A text made of codes is decoded text."""
    walk, words = use.walk, use.call.arguments
    for secret in walk.secrets_in("".join(words)):
        walk.add("reads-secret", secret)
    is_format = use.call.name == "printf"
    if is_format and words[:1] == ["-v"] and len(words) > 2:
        walk.variables[words[1]] = " ".join(words[3:] or words[2:])
        return NO_OUTPUT
    flags = [] if is_format else list(takewhile(re.compile(r"-[neE]+").fullmatch, words))
    text = _format(words) if is_format else " ".join(words[len(flags) :]) + "\n"
    for piece in walk.pieces_in(text):
        if piece.source in (Source.DOWNLOAD, Source.DECODED, Source.SECRET):
            return piece
    if secrets := walk.secrets_in(text):
        return Output(Source.SECRET, target=secrets[0])
    if "\\" not in text or not (is_format or "e" in "".join(flags)):
        return Output(Source.TEXT, text)
    return Output(Source.DECODED) if FORMS["codes"].search(text) else Output(Source.TEXT, decode_escapes(text))


def _format(words: list[str]) -> str:
    """Return what `printf` makes of a format, which is used again until no value is left."""
    pattern, values = "".join(words[:1]), iter(words[1:])
    places = sum(place != "%%" for place in FORMS["place in format"].findall(pattern))
    pattern *= max(1, -(-(len(words) - 1) // (places or len(words))))
    return FORMS["place in format"].sub(lambda place: "%" if place[0] == "%%" else next(values, ""), pattern)


# Characters of a script of `sed` that are read.
MOST_SCRIPT = 4_000


def only_edits(script: str) -> bool:
    """Return whether a script of `sed` runs nothing and writes to no file besides its own."""
    at = 0
    while match := FORMS["sed command"].match(script[:MOST_SCRIPT], at):
        if match["end"] is not None:
            return len(script) <= MOST_SCRIPT
        if any(match.group("runs", "result", "file", "changed")):
            break
        at = match.end()
    return False


def finish_edits(use: Use) -> Output:
    """What a script of `sed` runs and writes, and the text that is left."""
    walk, stdin, paths, scripts = use.walk, use.call.stdin, use.operands, use.values.get("script", [])
    if not scripts and not use.wants("-f", "--file"):
        scripts, paths = paths[:1], paths[1:]
    # Several pieces are one script, of which each is a line.
    script, in_place = "\n".join(scripts), "in-place" in use.modes
    if not only_edits(script):
        walk.add_unreadable()
    for path in paths if in_place else ():
        walk.access(path, Access.WRITE)
    if in_place:
        return NO_OUTPUT
    if not paths and stdin.source is Source.TEXT:
        return Output(Source.DECODED if "s" in script else Source.NONE)
    # A file that is edited is no longer what lies on the disk.
    stream = max(map(walk.print_file, paths), key=lambda stream: stream.source, default=stdin)
    return UNKNOWN_OUTPUT if stream.source is Source.FILE else stream


# Git and its forges


def finish_sets(use: Use) -> Output:
    """Keep a setting of git; with nothing but a name, it is shown."""
    if "unset" not in use.modes and len(use.operands) > 1:
        note_setting(use.walk, *use.operands[:2])
    if "unset" in use.modes or len(use.operands) > 1:
        use.walk.add("commits")
    return UNKNOWN_OUTPUT


def finish_clones_into(use: Use) -> Output:
    """What is fetched into a folder from elsewhere is a download from then on."""
    walk, address = use.walk, use.walk.plain("".join(use.operands[:1]))
    folder = [*use.operands, *re.split("[/:]", address.removesuffix("/").removesuffix(".git"))[-1:]][:2][-1]
    if address:
        walk.access(folder, Access.WRITE)
    if ":" in address or use.call.name != "git":
        walk.downloads[walk.full_path(folder)] = remote_target(walk, address)
    return UNKNOWN_OUTPUT


def finish_pushes_refs(use: Use) -> Output:
    """Push to a remote, and delete or rewrite branches there."""
    walk, refs, deletes = use.walk, use.operands[1:], "deletes" in use.modes
    remote = remote_target(walk, use.operands[0]) if use.operands else "origin"
    deleted = [walk.plain(ref).removeprefix(":") for ref in refs if deletes or (ref[0] == ":" and len(ref) > 1)]
    branches = [ref.removeprefix("refs/heads/") for ref in deleted]
    if "forced" in use.modes or any(ref[0] == "+" for ref in refs) or not WORDS["trunks"].isdisjoint(branches):
        walk.add("rewrites-history", remote)
    # A goal that only names one of them wants no other deleted.
    for branch in [remote, *branches] if branches or deletes else ():
        walk.add("deletes-branch", branch)
    walk.add("pushes", remote)
    return UNKNOWN_OUTPUT


def finish_asks_forge(use: Use) -> Output:
    """Call a forge's interface by its path, `gh api`: what a request by this method and path does."""
    path, fields = use.first(), use.values.get("form", [])
    method = use.value("verb").upper() or ("POST" if fields else "GET")
    if method in ("GET", "HEAD") or (path == "graphql" and "mutation" not in "".join(fields)):
        return UNKNOWN_OUTPUT
    body = {name: value for name, _, value in (field.partition("=") for field in fields)}
    kinds = _kinds_of_request(method, f"/{path.lstrip('/')}", body)
    default = "deletes-record" if method == "DELETE" else "changes-record"
    if method != "DELETE" and any(pattern.search(path) for _, pattern in PATTERNS["forge-access"]):
        default = "grants-access"
    for kind in kinds or [default]:
        note_kind(use.walk, kind, path)
    return UNKNOWN_OUTPUT


# Services of this machine


def finish_schedules(use: Use) -> Output:
    """Jobs that the input lists, each of which runs later."""
    walk, text = use.walk, use.call.stdin.text
    jobs = FORMS["job"].findall(text) if use.call.name == "crontab" else [text]
    walk.read_text("\n".join(jobs))
    walk.add("schedules-job", walk.plain("; ".join(jobs)).strip()[:200] or use.call.name)
    return UNKNOWN_OUTPUT


# Clouds and clusters


def _show_secret(use: Use, target: str) -> Output:
    use.walk.add("reads-secret", target)
    return Output(Source.SECRET, target=use.walk.plain(target))


def finish_asks_cloud(use: Use) -> Output:
    """Ask a cloud by its service and the verb behind it, which are read as the name of a tool is."""
    words, line = use.operands, " ".join(use.operands)
    at = 1 if use.call.name == "aws" else _place_of_verb(words)
    name = read_tool_name("_".join([*words[at : at + 1], *words[:at]]).replace("-", "_"))
    target = words[at + 1] if at < len(words) - 1 else " ".join(words[:3])
    if name.kind == "reads-secret" or FORMS["secret nouns"].search(line):
        return _show_secret(use, target)
    if name.kind != "looks":
        note_settings(use.walk, use.call.arguments)
        usual = "grants-access" if FORMS["granting nouns"].match(line) else "changes-service"
        usual = "deletes-data" if name.verb in GROUPS["DELETE"] else usual
        use.walk.add(name.kind if KINDS[name.kind].severity is Severity.OPENS_A_DOOR else usual, target)
    return UNKNOWN_OUTPUT


def _place_of_verb(words: list[str]) -> int:
    """Return where the verb is that stands behind the services."""
    verbs = (at for at, word in enumerate(words) if at and word.partition("-")[0] in SURE_VERBS | PLAIN_VERBS)
    return next(verbs, len(words) - 1)


def finish_changes_running(use: Use) -> Output:
    """Change a running service, and the settings that the command hands to it."""
    note_settings(use.walk, use.call.arguments)
    use.walk.add("changes-service", use.last_word())
    return UNKNOWN_OUTPUT


def rest_container_program(use: Use, words: list[str]) -> Output:
    """Run a program in a container; looking around in one changes nothing, unless the container is new."""
    arguments = use.call.arguments
    note_settings(use.walk, arguments[: arguments.index("--")] if "--" in arguments else arguments)
    changes, printed = use.walk.run_contained(words, use.call.stdin) if words else (True, UNKNOWN_OUTPUT)
    if changes or use.detail == "new":
        use.walk.add("changes-service", use.first())
    return printed


def finish_asks_cluster(use: Use) -> Output:
    """Show objects of a cluster; secrets are shown by some formats."""
    is_whole = use.value("format").startswith(("yaml", "json", "go-template", "template"))
    asked = " ".join([use.value("raw"), *(use.operands[:2] if is_whole else ())])
    return _show_secret(use, [asked, *use.operands][-1]) if FORMS["secrets"].search(asked) else UNKNOWN_OUTPUT


# Settings that a command hands to a running service: those that switch a protection off or open it to all, and images.

MOST_SETTING = 2_000


def note_settings(walk: Walk, arguments: list[str]) -> None:
    """Note what the settings among these arguments weaken, and where the images that they name come from."""
    line = " ".join(walk.plain(argument)[:MOST_SETTING] for argument in arguments)
    for kind in ("weakens", "weakening flag", "opens to all"):
        for match in FORMS[kind].finditer(line):
            walk.add("disables-check", match.group().strip())


# Databases


def finish_queries(use: Use) -> Output:
    """Statements from options, operands, files and the input, for a server or for a database in a file."""
    # Only now the server is known, which may stand behind the file.
    walk, away, path = use.walk, use.value("away"), use.value("database")
    streams = [Output(Source.TEXT, statement) for statement in use.values.get("statement", [])]
    for name in use.values.get("statements", []):
        walk.load(name)
        content = walk.content_of(name)
        if content is not None and content.text is None:
            walk.note_unknown_content(name, content)
        streams.append(walk.read_file(name))
    if path:
        walk.print_file(path)
    for stream in (*streams, use.call.stdin):
        if stream.source is Source.DOWNLOAD:
            walk.add("runs-download", stream.target)
        elif stream.source is Source.FILE and path:
            walk.access(path, Access.WRITE)
        elif stream.source is Source.FILE:
            # A file of the project: a migration, a dump.
            walk.add("changes-record" if away else "runs-project-task", away or stream.target)
        elif FORMS["database reaches out"].search(stream.text):
            walk.add_unreadable()
        elif use.row.target == "documents":
            use.detail = "documents"
            role_if(use, stream.text)
        elif stream.text.lstrip()[:1] not in ("", ".", "\\"):
            _note_statements(walk, stream.text, path if path and walk.place(path) in _OURS else "")
    return UNKNOWN_OUTPUT


_OURS = (Place.INSIDE, Place.SCRATCH)


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
