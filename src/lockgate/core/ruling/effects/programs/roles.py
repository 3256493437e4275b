"""What the operands and options of programs mean, by their roles in `programs.tbl`.

A role reads one value: it notes effects on the walk, or keeps what the end of the command needs. A role of the rest
reads all that follows.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lockgate.core.ruling.effects.effect import Certainty
from lockgate.core.ruling.effects.paths import Access, read_access
from lockgate.core.ruling.effects.program_io import MARK, NO_OUTPUT, UNKNOWN_OUTPUT, Invocation, Output, Source
from lockgate.core.ruling.effects.programs.program_rows import ANYWHERE, PACKAGE, TABLE, ProgramRow
from lockgate.core.ruling.effects.programs.url_hosts import METADATA_HOSTS, host_of, is_local
from lockgate.core.ruling.effects.project import Place
from lockgate.core.tables import read_table

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk

# What a program is told to write to is no file.
NO_FILES = frozenset(("", "-", "/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "NUL"))


@dataclass(slots=True)
class Use:
    """One command line of a program, while the roles of its row read it."""

    walk: Walk
    call: Invocation
    row: ProgramRow
    options: list[tuple[str, str]]
    operands: list[str]
    rest: list[str]
    # Of the role that is being read: what stands behind its dot (the `npm` of `pkg.npm`), and its option.
    detail: str = ""
    option: str = ""
    # Where the shell is, if the program works in another folder.
    folder: str | None = None
    # Options without a value, by their `?` roles, and the values of roles that only the end of the command reads.
    modes: set[str] = field(default_factory=set)
    values: dict[str, list[str]] = field(default_factory=dict)
    output: Output = UNKNOWN_OUTPUT

    def first(self) -> str:
        """Return the first operand, or the program's name."""
        return self.walk.plain([*self.operands, *self.rest[:1], self.call.name][0])

    def value(self, role: str) -> str:
        """Return the last value of a role, or an empty text."""
        return self.values.get(role, [""])[-1]

    def keep(self, role: str, value: str) -> None:
        """Keep a value for the end of the command."""
        self.values.setdefault(role, []).append(value)

    def wants(self, *options: str) -> bool:
        """Return whether one of these options is given."""
        return any(option in options for option, _ in self.options)


def named(functions: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the functions of a module whose names begin with a prefix, by the rest of the name as the table has it."""
    return {
        name.removeprefix(prefix).replace("_", "-"): function
        for name, function in functions.items()
        if name.startswith(prefix)
    }


# Kinds whose target says nothing.
NO_TARGET = frozenset("commits installs-known-package runs-as-root approves-change unreadable".split())


def note_kind(walk: Walk, kind: str, target: str) -> None:
    """Note a kind of effect that a row names."""
    certainty = Certainty.GUESS if kind == "unreadable" else Certainty.SURE
    if kind == "discards-work" and target == ".":
        # An order to discard the whole tree names no path, but the program.
        target = "git"
    walk.add(kind, "" if kind in NO_TARGET else walk.plain(target), certainty)


def last_word(arguments: list[str], words: list[str]) -> str:
    """Return the last of some words that is no setting, and no value of an option that the row does not list."""
    before = last = ""
    for argument in arguments:
        if argument[:1] != "-" and before[:1] != "-" and argument in words and "=" not in argument:
            last = argument
        before = argument if "=" not in argument else ""
    return last


PATTERNS = {
    name: (effect, re.compile(pattern))
    for name, effect, pattern in read_table(PACKAGE, TABLE, "patterns", ("name", "effect", "pattern"))
}


def role_if(use: Use, value: str) -> None:
    """A value that does more where it fits the pattern behind the dot."""
    kind, pattern = PATTERNS[use.detail]
    if pattern.search(value):
        # A mode is no target, the file behind it is.
        note_kind(use.walk, kind, use.operands[-1] if kind == "changes-permissions" else value)


# Requests and hosts

# A token sent to the service that issued it is its ordinary use.
_TOKEN_HOMES = read_table(PACKAGE, TABLE, "tokens", ("variables", "host"))


def ask_host(walk: Walk, address: str, *, sends: bool, whole: str = "") -> Output:
    """Note a request to an address; `whole` is everything that is sent with it."""
    plain = walk.plain(address)
    if plain.startswith("file:"):
        return walk.print_file(re.sub(r"^file:(?://)?", "", plain))
    host = host_of(plain) if plain[:2] != "$(" else plain
    if host in METADATA_HOSTS:
        walk.add("reads-secret", host)
        return Output(Source.SECRET, target=host)
    if is_local(host):
        walk.add("asks-local", host)
        return UNKNOWN_OUTPUT
    for secret in walk.secrets_in(whole or address):
        # The project's word does not count here: its files may be an attacker's.
        if not _is_home(secret.upper(), host):
            walk.add("sends-secret", secret)
            sends = True
    # A value behind the host that is computed in this line carries data out.
    if "$(" in plain[1:] and any(piece.source is not Source.VARIABLE for piece in walk.pieces_in(address)):
        sends = True
    walk.add("sends-data" if sends else "requests", host or plain)
    return Output(Source.DOWNLOAD, target=host or plain)


def _is_home(secret: str, host: str) -> bool:
    return any(secret.startswith(prefix) and f".{host}".endswith(f".{home}") for prefix, home in _TOKEN_HOMES)


def note_sent(walk: Walk, stream: Output) -> None:
    """Note a secret that flows to another machine."""
    if stream.source in (Source.SECRET, Source.ENVIRONMENT):
        walk.add("sends-secret", stream.target or "environment")


_SENT_FILE = re.compile(r"[\w.\[\]-]*=?[@<]([^;]+)")


def role_send(use: Use, value: str) -> None:
    """The content of a request; a file behind `@`, or the input for `@-`."""
    match = _SENT_FILE.match(value)
    role_upload(use, match.group(1) if match else "")
    use.keep("carry", value)


def role_upload(use: Use, value: str) -> None:
    """A file whose content is sent."""
    use.modes.add("sends")
    if value:
        stream = use.call.stdin if value in ("-", ".") else use.walk.read_file(value)
        if stream.source in (Source.SECRET, Source.ENVIRONMENT):
            use.keep("carry", use.walk.mark(Output(Source.SECRET, target=stream.target or "environment")))


def role_method(use: Use, value: str) -> None:
    use.keep("method", value)
    if value.upper() not in ("GET", "HEAD", "OPTIONS", ""):
        use.modes.add("sends")


_FIELD = re.compile(r"[\w\]]:?=[^=]|[\w]@")
_METHODS = frozenset("get head options post put patch delete".split())


def role_field(use: Use, value: str) -> None:
    """A method, an address, or a field that is sent, as HTTPie has them."""
    if use.call.stdin is not NO_OUTPUT:
        use.modes.add("sends")
    use.keep("carry", value)
    if value.isalpha() and (value.isupper() or value in _METHODS):
        role_method(use, value.upper())
    elif "url" not in use.values or "://" in value[:8]:
        use.keep("url", "localhost" if value[:1] == ":" else value)
    elif _FIELD.search(value):
        role_send(use, value)


# `NAME=` before an address, or the `HOST:PORT:` that is led there.
SETTING = re.compile(r"[\w.:@/-]+=(?=\w+://)|\w+=(?=[\w.-]+:\d)|[\w.*-]*:\d*:(?=[\w\[])")


def role_to_host(use: Use, value: str) -> None:
    """An address on another machine, or a setting with one; what it is used for stands behind the dot."""
    plain = SETTING.sub("", use.walk.plain(value).strip(), count=1)
    host = host_of(plain)
    if host and not is_local(host) and not plain.startswith("unix:"):
        use.walk.add(use.detail, host)


def role_link(use: Use, value: str) -> None:
    """What may be an address: a chart that `helm` installs, a source of packages."""
    if "://" in value:
        role_to_host(use, value)


def role_address(use: Use, value: str) -> None:
    """An address that a browser opens, or a file."""
    if "://" in value:
        ask_host(use.walk, value, sends=False)


def role_host(use: Use, value: str) -> None:
    """Another machine that is asked, or sent what streams in."""
    reach_host(use, value, sends=use.call.stdin is not NO_OUTPUT)


def role_peer(use: Use, value: str) -> None:
    """Another machine that takes and gives whatever streams."""
    reach_host(use, value, sends="scan" not in use.modes)


def reach_host(use: Use, address: str, *, sends: bool) -> None:
    """Note a connection to a machine, and what streams there."""
    host = host_of(use.walk.plain(address).rsplit("@", 1)[-1])
    note_sent(use.walk, use.call.stdin)
    if is_local(host):
        use.walk.add("asks-local", host)
        return
    use.output = Output(Source.DOWNLOAD, target=host)
    # A short number alone is the port of a program that listens; a long one is an address.
    if not (host.isdigit() and len(host) < 6):
        use.walk.add("sends-data" if sends else "requests", host)


def role_lookup(use: Use, value: str) -> None:
    """A name that is asked about; one that holds data of this machine carries it out."""
    walk = use.walk
    secrets = walk.secrets_in(value)
    if secrets or any(piece.source is not Source.VARIABLE for piece in walk.pieces_in(value)):
        for secret in secrets:
            walk.add("sends-secret", secret)
        name = re.sub(r"\$\(\)|\$\w+", "", walk.plain(value)).lstrip(".").split("/")[0]
        walk.add("sends-data", ".".join(name.split(".")[-3:]).lstrip(".") or "dns")


_RUNNING_SETTING = re.compile(r"(?i)(?:proxycommand|localcommand|knownhostscommand)[\s=]+")


def role_ssh_setting(use: Use, value: str) -> None:
    """A setting of `ssh`, some of which are commands."""
    if match := _RUNNING_SETTING.match(value):
        use.walk.read_text(value[match.end() :])


# Files


def role_read(use: Use, value: str) -> None:
    """A file that is shown."""
    stream = use.call.stdin if value == "-" else use.walk.print_file(value)
    use.output = stream if stream.source > use.output.source else use.output


def role_write(use: Use, value: str) -> None:
    if value not in NO_FILES:
        use.walk.access(value, Access.WRITE)


def role_device(use: Use, value: str) -> None:
    """A file that is written, or a disk that is overwritten."""
    is_disk = value.startswith("/dev/") and value not in NO_FILES
    if is_disk:
        use.walk.add("deletes-data", value)
    use.keep("out", "-" if is_disk else value)


_SCRATCH_NAME = re.compile(r"(?i)tmp|temp|build|dist|cache|work|out")


def role_delete(use: Use, value: str) -> None:
    """A path that is removed."""
    walk = use.walk
    pieces = walk.pieces_in(value)
    if pieces and not re.match(r"[\w./-]{2,}", walk.plain(value)) and pieces[0].source is Source.VARIABLE:
        # An unknown value could be a folder of any kind: `rm -rf $X`, `rm -rf $X/*`.
        if not _SCRATCH_NAME.search(pieces[0].target):
            walk.add_unreadable()
            return
    walk.access(value, Access.DELETE)
    if use.detail == "wipe" and walk.place(value) is not Place.SCRATCH:
        walk.add("deletes-data", walk.plain(value))


def role_folder(use: Use, value: str) -> None:
    """A folder that is made; an empty one beside the project changes nothing."""
    walk = use.walk
    access = read_access(walk.plain(value), Access.WRITE, walk.project, folder=walk.folder)
    # An option may begin like `--mode`, which lets others in.
    is_plain = all(option in ("-p", "--parents", "-v", "--verbose") for option, _ in use.options)
    if is_plain and access.kind == "writes-outside" and walk.place(value) in (Place.HOME, Place.OUTSIDE):
        walk.add("makes-folder", walk.plain(value))
    else:
        walk.access(value, Access.WRITE)


SHELL_NAME = re.compile(r"(?:/(?:usr/)?(?:local/)?bin/)?(?:ba|z|da|k|a|fi|c|tc)?sh")


def run_command(walk: Walk, value: str) -> None:
    """Read a value that a program runs as a command; a bare shell would run what the program gives it."""
    if SHELL_NAME.fullmatch(value.strip()):
        walk.add_unreadable()
    else:
        walk.read_text(value)


# Arguments of programs without a list of all their options

_NAMED_VALUE = re.compile(r"(-{1,2}[\w.-]+)=(.*)|(-[abcefghjkmnprstuvwxyzX])([/~].*)", re.DOTALL)
_URL = re.compile(r"(?:https?|ftp|git|git\+\w+|ssh)://", re.IGNORECASE)
# Programs whose addresses the service behind them knows already.
_OWN_SERVICE = frozenset("git gh glab".split())


def note_loose(walk: Walk, name: str, role: str, arguments: list[str], listed: Collection[str]) -> None:
    """Note what is foreign among arguments: URLs, commands, and paths outside of the project; not `listed` options."""
    before = ""
    for argument in arguments:
        option, value = before, argument
        before = argument if argument[:1] == "-" and "=" not in argument else ""
        if role != "look" and "/" not in argument and argument[:1] != "~":
            continue
        if argument[:1] == "-":
            match = _NAMED_VALUE.fullmatch(argument)
            option, value = [part for part in match.groups() if part is not None] if match else ("", "")
        if option in listed or (role == "label" and _is_label(walk, option, argument)):
            continue
        if _URL.match(value):
            _note_url(walk, name, role, value)
        else:
            _note_foreign(walk, role, option, value)


def _note_foreign(walk: Walk, role: str, option: str, value: str) -> None:
    """Note a path or command that the project does not have, by the option that it is given to."""
    use, foreign = ANYWHERE.options.get(option, ""), is_foreign(walk, value)
    if use == "sh" and role == "look" and (" " in value or foreign):
        run_command(walk, value)
    elif foreign and use == "out":
        walk.access(value, Access.WRITE)
    elif foreign and role != "look" and (option or role != "text"):
        walk.run_path(value)


def _note_url(walk: Walk, name: str, role: str, url: str) -> None:
    host = host_of(url)
    if host and not is_local(host) and not walk.project.has_url(url) and name not in _OWN_SERVICE:
        walk.add("runs-download" if role in ("task", "label") else "requests", host)


def _is_label(walk: Walk, option: str, argument: str) -> bool:
    """Return whether an argument names targets in the project, `//web:all`: behind an option it may be a path."""
    return argument[:2] == "//" and (not option or (argument.endswith("...") and walk.place(argument) is Place.OUTSIDE))


def is_foreign(walk: Walk, path: str) -> bool:
    """Return whether an attacker could have put code at a path: it is neither the project's nor the system's."""
    if path.startswith(("/dev/null", "/dev/std")) or MARK in path[:1] or any(letter in path for letter in " \n("):
        return False
    if path[:1] not in ("/", "~") and not (walk.project.root and ".." in path):
        return False
    full = walk.full_path(path)
    return walk.place(path) in (Place.SCRATCH, Place.HOME, Place.OUTSIDE) or bool(walk.download_of(full))


def role_foreign(use: Use, value: str) -> None:
    """A path or an address from which code is loaded, if it is not the project's."""
    if _URL.match(value):
        _note_url(use.walk, use.call.name, "task", value)
    elif is_foreign(use.walk, value) or use.walk.download_of(use.walk.full_path(value)):
        use.walk.run_path(value)


# Machines and containers


def role_bucket(use: Use, value: str) -> None:
    """A bucket, or an object in one; what happens to it stands behind the dot."""
    use.walk.add(use.detail, bucket_in(use.walk.plain(value)) or use.call.name)


def bucket_in(plain: str) -> str:
    """Return the bucket that a path of a cloud names."""
    match = re.match(r"(?:s3|gs|az)://([^/]*)", plain)
    return match.group(1) if match else ""


def role_image(use: Use, value: str) -> None:
    """An image that is fetched and run: one with an owner or a host in its name is a package like any other."""
    walk = use.walk
    name = re.sub(r"(?:@sha256:\w+|:[\w.-]+)$", "", walk.plain(value))
    is_known = walk.project.has_package(name, "image") or walk.project.has_host(name.split("/")[0])
    if "/" not in name or name.startswith(("library/", "docker.io/library/")) or is_known:
        walk.add("runs-project-task", f"docker run {name}".strip())
    else:
        walk.add("installs-package", name)


def role_mount(use: Use, value: str) -> None:
    """A folder of this machine that a container gets."""
    match = re.search(r"(?:source|src)=([^,]+)", value)
    plain = use.walk.plain(match.group(1) if match else value.split(":", 1)[0])
    if plain in ("/", "/home", "/Users") or "docker.sock" in plain or plain.startswith(("/etc", "/root", "/var/run")):
        use.walk.add("runs-as-root")
    elif plain.rstrip("/") in ("~", "~/.ssh", "~/.aws", "~/.kube") or re.fullmatch(r"/(?:home|Users)/[^/]+/?", plain):
        use.walk.add("reads-secret", plain)
