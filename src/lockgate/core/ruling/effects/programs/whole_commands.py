"""What whole commands do, where the effect in their row of `programs.tbl` is no kind."""

from __future__ import annotations

import re
from posixpath import splitext
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.effect import Certainty
from lockgate.core.ruling.effects.paths import Access, is_secret, read_access
from lockgate.core.ruling.effects.program_io import NO_OUTPUT, UNKNOWN_OUTPUT, Output, Source
from lockgate.core.ruling.effects.programs.options import has_option
from lockgate.core.ruling.effects.programs.program_rows import WORDS
from lockgate.core.ruling.effects.programs.roles import (
    NO_FILES,
    Use,
    ask_host,
    bucket_in,
    note_sent,
    role_folder,
    role_peer,
    role_write,
)
from lockgate.core.ruling.effects.programs.url_hosts import host_of, is_local
from lockgate.core.ruling.effects.project import Place

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk


def finish_fetches(use: Use) -> Output:
    """What is downloaded is printed, or written where an option says, or under the name that the address has."""
    walk, addresses, outs, into = use.walk, use.values.get("url", []), use.values.get("out", []), use.value("into")
    saves = use.row.target == "all" and not outs and "looks-up" not in use.modes
    is_named = saves or "named" in use.modes
    whole = "".join([*addresses, *use.values.get("carry", [])])
    sends = "sends" in use.modes and not ("get" in use.modes and not walk.secrets_in(whole))
    stream = use.output
    for address in addresses:
        stream = ask_host(walk, address, sends=sends, whole=whole)
        _note_request(use, address)
        if is_named:
            name = walk.plain(address).split("?")[0].rstrip("/").rsplit("/", 1)[-1] or "index.html"
            walk.write_file(f"{into}/{name}" if into else name, stream)
    for out in outs:
        if out not in NO_FILES:
            walk.write_file(f"{into}/{out}" if into and out[:1] != "/" else out, stream)
    is_printed = not is_named and all(out in ("-", "/dev/stdout") for out in outs) and "head" not in use.modes
    return stream if is_printed else NO_OUTPUT


def _note_request(use: Use, address: str) -> None:
    """Note what a request does by its method and path, as a tool does that gets both."""
    from lockgate.core.ruling.effects.tool_commands import kind_of_request, name_of_request  # it uses these rows

    kind = kind_of_request(name_of_request(use.value("method"), use.walk.plain(address)))
    if kind:
        use.walk.add(kind, address, Certainty.LIKELY)


def finish_connects(use: Use) -> Output:
    """An open pipe to another machine, or from one; with a program on it, a door."""
    if "door" in use.values:
        use.walk.add("grants-access", use.first())
    if "listen" in use.modes:
        use.walk.add("opens-port", [use.value("port"), *use.operands][-1])
        return Output(Source.DOWNLOAD, target="network")
    for host in use.operands[:1]:
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


_REMOTE = re.compile(r"(?![A-Za-z]:[\\/])(?:[^@/\s]+@)?(\[[^\]]+\]|[\w.-]+):(?!\\)")


def _host_of_path(path: str) -> str:
    match = _REMOTE.match(path)
    return host_of(path) if "://" in path else match.group(1).strip("[]").lower() if match else ""


def finish_copies_objects(use: Use) -> Output:
    """Copy objects to, from or between buckets."""
    walk, paths = use.walk, use.operands
    buckets = [bucket for path in paths if (bucket := bucket_in(walk.plain(path)))]
    if any("public-read" in argument for argument in use.call.arguments):
        walk.add("grants-access", [*buckets, use.call.name][0])
    if not paths or not bucket_in(walk.plain(paths[-1])):
        stream = Output(Source.DOWNLOAD, target="".join(buckets[:1]))
        walk.add("requests" if buckets else "changes-service", stream.target or use.call.name)
        if not paths or paths[-1] == "-":
            return stream
        walk.write_file(paths[-1], stream)
        return NO_OUTPUT
    for path in paths[:-1]:
        note_sent(walk, use.call.stdin if path == "-" else walk.read_file(path))
    walk.add("sends-data", buckets[-1])
    if "delete" in use.modes:
        walk.add("deletes-data", buckets[-1])
    return NO_OUTPUT


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


finish_moves = finish_links = finish_copies


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


def finish_decodes(use: Use) -> Output:
    """A file or the input, with `decode` turned into what it hides."""
    walk, source = use.walk, use.value("from")
    stream = walk.read_file(source) if source else use.call.stdin
    if stream.source is Source.SECRET and "public" not in use.modes:
        walk.add("reads-secret", stream.target)
    if stream.source in (Source.SECRET, Source.DOWNLOAD):
        return stream
    return Output(Source.DECODED) if "decode" in use.modes else use.output


def finish_opens_keys(use: Use) -> Output:
    """`gpg`: secret keys that are shown, and texts that are decrypted."""
    if any(option.startswith("--export-s") for option, _ in use.options):
        use.walk.add("reads-secret", "gpg key")
        return Output(Source.SECRET, target="gpg key")
    if "decode" in use.modes and use.operands and use.call.stdin is NO_OUTPUT:
        use.walk.add("reads-secret", use.walk.plain(use.operands[-1]))
    return finish_decodes(use)


def finish_makes_keys(use: Use) -> Output:
    """A new key is written, unless another is signed or read."""
    if "sign" not in use.values and not use.wants("-D"):
        use.walk.access(use.value("file") or "~/.ssh/id_ed25519", Access.WRITE)
    return UNKNOWN_OUTPUT


def finish_makes(use: Use) -> Output:
    """`make`: a task of the project, by its first target."""
    if "dry" not in use.modes:
        use.walk.add("runs-project-task", next((word for word in use.operands if "=" not in word), use.call.name))
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


def finish_runs_here(use: Use) -> Output:
    """Settings of the folder, where no other path is named."""
    if not use.operands:
        use.walk.run_path(".envrc" if use.call.name == "direnv" else "mise.toml")
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
