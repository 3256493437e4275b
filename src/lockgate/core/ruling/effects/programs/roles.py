"""What values of options and operands mean, by their roles in `programs.tbl`: files, hosts, packages, settings of git.

A role reads one value: it notes effects on the walk, or keeps what the end of the command needs.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.effect import Certainty
from lockgate.core.ruling.effects.paths import Access, read_access
from lockgate.core.ruling.effects.programs.options import METADATA_HOSTS, host_of, is_local
from lockgate.core.ruling.effects.programs.program_rows import ANYWHERE, FORMS, PACKAGE, TABLE, WORDS, ProgramRow
from lockgate.core.ruling.effects.programs.variables import is_foreign, run_command
from lockgate.core.ruling.effects.project import Place, package_name, site_of_url
from lockgate.core.ruling.effects.shell_syntax import MARK, NO_OUTPUT, UNKNOWN_OUTPUT, Invocation, Output, Source
from lockgate.core.tables import read_table, read_words

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.programs.options import Options
    from lockgate.core.ruling.effects.shell_walk import Walk


class Use:
    """One command line of a program, while the roles of its row read it."""

    # Of the role that is being read: what stands behind its dot (the `npm` of `pkg.npm`), and its option.
    detail = option = ""
    # Where the shell is, if the program works in another folder.
    folder: str | None = None
    output: Output = UNKNOWN_OUTPUT

    def __init__(
        self, walk: Walk, call: Invocation, row: ProgramRow, options: Options, operands: list[str], rest: list[str]
    ) -> None:
        self.walk, self.call, self.row = walk, call, row
        self.options, self.operands, self.rest = options, operands, rest
        # Options without a value, by their `?` roles, and the values of roles that only the end of the command reads.
        self.modes: set[str] = set()
        self.values: dict[str, list[str]] = {}

    def first(self) -> str:
        """Return the first operand, or the program's name."""
        return [*self.operands, *self.rest[:1], self.call.name][0]

    def last_word(self) -> str:
        """Return the last operand that is no setting, and no value of an option that the row does not list."""
        before = last = ""
        for argument in self.call.arguments:
            if argument[:1] != "-" and before[:1] != "-" and argument in self.operands and "=" not in argument:
                last = argument
            before = argument if "=" not in argument else ""
        return last or self.call.name

    def keep(self, role: str, value: str) -> None:
        """Keep a value for the end of the command."""
        self.values.setdefault(role, []).append(value)

    def value(self, role: str) -> str:
        """Return the last value of a role, or an empty text."""
        return self.values[role][-1] if role in self.values else ""

    def wants(self, *options: str) -> bool:
        """Return whether one of these options is given."""
        return any(option in options for option, _ in self.options)


NO_TARGET = WORDS["kinds without a target"]
# Streams that hold what must not leave the machine.
SECRETS = (Source.SECRET, Source.ENVIRONMENT)


def note_kind(walk: Walk, kind: str, target: str) -> None:
    """Note a kind of effect that a row names."""
    if kind == "discards-work" and target == ".":
        # An order to discard the whole tree names no path, but the program.
        target = "git"
    walk.add(kind, "" if kind in NO_TARGET else target, Certainty.GUESS if kind == "unreadable" else Certainty.SURE)


# Requests and hosts

# A token sent to the service that issued it is its ordinary use.
_TOKEN_HOMES = read_table(PACKAGE, TABLE, "tokens", ("variables", "host"))


def ask_host(walk: Walk, address: str, *, sends: bool, whole: str = "") -> Output:
    """Note a request to an address; `whole` is everything that is sent with it."""
    plain = walk.plain(address)
    if plain.startswith("file:"):
        return walk.print_file(re.sub(r"^file:(?://)?", "", plain))
    host = host_of(FORMS["unknown label"].sub("", plain))
    if host in METADATA_HOSTS:
        walk.add("reads-secret", host)
        return Output(Source.SECRET, target=host)
    if is_local(host):
        walk.add("asks-local", host)
        return UNKNOWN_OUTPUT
    for secret in walk.secrets_in(whole or address):
        # The project's word does not count here: its files may be an attacker's.
        homes = [f".{home}" for prefix, home in _TOKEN_HOMES if secret.upper().startswith(prefix)]
        if not f".{host}".endswith(tuple(homes)):
            walk.add("sends-secret", secret)
            sends = True
    # A value behind the host that is computed in this line carries data out.
    sends = sends or ("$(" in plain[1:] and is_computed(walk, address))
    walk.add("sends-data" if sends else "requests", host or plain)
    return Output(Source.DOWNLOAD, target=host or plain)


def is_computed(walk: Walk, value: str) -> bool:
    """Return whether a part of a value is what another command prints."""
    return any(piece.source is not Source.VARIABLE for piece in walk.pieces_in(value))


def note_sent(walk: Walk, stream: Output) -> None:
    """Note a secret that flows to another machine."""
    if stream.source in SECRETS:
        walk.add("sends-secret", stream.target or "environment")


def role_send(use: Use, value: str) -> None:
    """The content of a request; a file behind `@`, or the input for `@-`. With `file` the value is the file."""
    use.modes.add("sends")
    use.keep("carry", value)
    match = FORMS["sent file"].match(value)
    path = value if use.detail == "file" else match[1] if match else ""
    if path:
        stream = use.call.stdin if path in ("-", ".") else use.walk.read_file(path)
        if stream.source in SECRETS:
            use.keep("carry", use.walk.mark(Output(Source.SECRET, target=stream.target or "environment")))


def role_field(use: Use, value: str) -> None:
    """A method, an address, or a field that is sent, as HTTPie has them."""
    if use.call.stdin is not NO_OUTPUT:
        use.modes.add("sends")
    if value.isalpha() and (value.isupper() or value in WORDS["methods of requests"]):
        use.keep("method", value)
    elif "url" not in use.values or "://" in value[:8]:
        use.keep("url", "localhost" if value[:1] == ":" else value)
    else:
        role_send(use, value)


def role_to_host(use: Use, value: str) -> None:
    """An address on another machine, or a setting with one; what it is used for stands behind the dot."""
    plain = FORMS["setting with address"].sub("", use.walk.plain(value).strip(), count=1)
    host = host_of(plain)
    if host and not is_local(host) and not plain.startswith("unix:"):
        use.walk.add(use.detail, host)


def role_link(use: Use, value: str) -> None:
    """What may be an address: a chart that `helm` installs, a source of packages, a page that a browser opens."""
    if "://" in value:
        role_lookup(use, value)
        role_to_host(use, value)


def role_host(use: Use, value: str) -> None:
    """Another machine that is asked, or sent what streams in; with `sends` it takes and gives whatever streams."""
    host = host_of(use.walk.plain(value).rsplit("@", 1)[-1])
    sends = "scan" not in use.modes if use.detail == "sends" else use.call.stdin is not NO_OUTPUT
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
    if MARK in value and (use.walk.secrets_in(value) or is_computed(use.walk, value)):
        ask_host(use.walk, value, sends=True)


def role_server(use: Use, value: str) -> None:
    """The machine of a database, its address, or only its name; a socket or an unknown value is this machine."""
    plain = use.walk.plain(value)
    host = host_of(plain) if "://" in plain else plain if use.option else ""
    if plain.endswith(".js"):
        use.walk.run_path(value)
    elif host and not is_local(host) and host[0] not in "/$":
        use.keep("away", host)
        use.walk.add(use.detail or "requests", host)


# Files

# What a program is told to write to is no file.
NO_FILES = frozenset(("", "-", "/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "NUL"))


def role_read(use: Use, value: str) -> None:
    """A file that is shown; with `patch` only where an option shows what changed in it."""
    # Git has `REVISION:PATH`.
    path = value.rpartition(":")[2]
    if path and (use.detail != "patch" or use.wants("-p", "-u", "--patch", "-L", "-G", "-S")):
        stream = use.call.stdin if value == "-" else use.walk.print_file(path)
        use.output = max(use.output, stream, key=lambda output: output.source)


def role_write(use: Use, value: str) -> None:
    """A file that is written."""
    if value not in NO_FILES and "stdout" not in use.modes:
        use.walk.access(value, Access.WRITE)


def role_delete(use: Use, value: str) -> None:
    """A path that is removed; an unknown value could be a folder of any kind: `rm -rf $X`, `rm -rf $X/*`."""
    walk, pieces = use.walk, use.walk.pieces_in(value)
    is_open = pieces and pieces[0].source is Source.VARIABLE and not FORMS["scratch name"].search(pieces[0].target)
    if is_open and not re.match(r"[\w./-]{2,}", walk.plain(value)):
        walk.add_unreadable()
        return
    walk.access(value, Access.DELETE)
    if use.detail == "wipe" and walk.place(value) is not Place.SCRATCH:
        walk.add("deletes-data", value)


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


# Arguments of programs without a list of all their options


def note_loose(walk: Walk, name: str, role: str, arguments: list[str], listed: Collection[str]) -> None:
    """Note what is foreign among arguments: URLs, commands, and paths outside of the project; not `listed` options."""
    before = ""
    for argument in arguments:
        option, value = _option_and_value(before, argument)
        before = argument if argument[:1] == "-" and "=" not in argument else ""
        if not value or option in listed or (role != "look" and "/" not in argument and argument[:1] != "~"):
            continue
        if "://" in value and FORMS["url"].match(value):
            _note_url(walk, name, role, value)
        elif role != "label" or argument[:2] != "//" or _is_path(walk, option, argument):
            _note_foreign(walk, role, option, value)


def _option_and_value(before: str, argument: str) -> tuple[str, str]:
    if argument[:1] != "-":
        return before, argument
    match = FORMS["named value"].fullmatch(argument)
    return (match[1] or match[3], match[2] or match[4] or "") if match else ("", "")


def _is_path(walk: Walk, option: str, argument: str) -> bool:
    """Return whether what looks like targets in the project, `//web:all`, may be a path: it stands behind an option."""
    return option != "" and not (argument.endswith("...") and walk.place(argument) is Place.OUTSIDE)


def _note_foreign(walk: Walk, role: str, option: str, value: str) -> None:
    """Note a path or command that the project does not have, by the option that it is given to."""
    use = ANYWHERE.options.get(option, "") if option else ""
    if role == "look" and not use:
        return
    is_far = is_foreign(walk, value)
    if use == "sh" and role == "look" and (" " in value or is_far):
        run_command(walk, value)
    elif is_far and use == "out":
        walk.access(value, Access.WRITE)
    elif is_far and role != "look" and (option or role != "text"):
        walk.run_path(value)


def _note_url(walk: Walk, name: str, role: str, url: str) -> None:
    """Note an address among the arguments of a program: what runs code of the project would load it from there."""
    host = host_of(url)
    if host and not is_local(host) and not walk.project.has_url(url) and name not in WORDS["know their service"]:
        walk.add("runs-download" if role in ("task", "label") else "requests", host)


def role_foreign(use: Use, value: str) -> None:
    """A path or an address from which code is loaded, if it is not the project's."""
    if FORMS["url"].match(value):
        _note_url(use.walk, use.call.name, "task", value)
    elif is_foreign(use.walk, value) or use.walk.download_of(use.walk.full_path(value)):
        use.walk.run_path(value)


# Values that do more where they fit a pattern

PATTERNS: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
for _name, _effect, _pattern in read_table(PACKAGE, TABLE, "patterns", ("name", "effect", "pattern")):
    PATTERNS.setdefault(_name, []).append((_effect, re.compile(_pattern)))
# What is done with the text in the group of a pattern, and how many of these are read.
_ON_MATCH = {"sh": lambda use, text: run_command(use.walk, text), "write": role_write}
MOST_MATCHES = 16


def role_if(use: Use, value: str) -> None:
    """A value that does more where it fits the pattern behind the dot, or that holds a command or a path."""
    for kind, pattern in PATTERNS[use.detail]:
        take = _ON_MATCH.get(kind)
        for at, match in enumerate(pattern.finditer(value)):
            if kind[0] == "?":
                use.modes.add(kind[1:])
            elif at == MOST_MATCHES:
                use.walk.add_unreadable()
                break
            elif take is not None:
                take(use, match[1])
            else:
                # A mode is no target, the file behind it is; a verb is none, the whole command is.
                targets = {"changes-permissions": use.operands[-1:], "changes-service": use.operands}
                note_kind(use.walk, kind, match[1] if pattern.groups else " ".join(targets.get(kind, [value])))


# Packages as their managers spell them: which of them the project or any developer has, and which are foreign

# Test runners, linters, formatters, build front ends: tools of developers, not what a product is made of. A scope of
# npm stands for all packages in it: only its makers can publish there.
COMMON_TOOLS = frozenset(
    package_name(name) for line in read_words(PACKAGE, "common_tools.txt") for name in line.split()
)
PUBLIC_SOURCES = WORDS["public sources"]


def note_package(walk: Walk, word: str, registry: str = "") -> None:
    """Note the installation of one package, as a package manager spells it, from the manager's registry."""
    plain = without_alias(walk.plain(word))
    # Go names a package by its address, a system by a name or a file.
    has_address = "://" in plain if registry == "system" else registry != "go"
    if has_address and (address := repository_address(plain)):
        is_ours = walk.project.has_url(address)
        _note_installed(walk, "" if is_ours else site_of_url(address) or host_of(address), "uses-package-source")
    elif registry != "go" and FORMS["package path"].match(plain):
        _note_local(walk, plain, may_be_ours=registry != "system")
    elif name := plain.split("@")[0] if registry == "go" else package_in(plain):
        is_usual = FORMS["usual package"].match(f"{registry} {name}") is not None
        _note_installed(walk, "" if is_usual or is_known(walk, name, registry) else name, "installs-package")


def _note_local(walk: Walk, plain: str, *, may_be_ours: bool) -> None:
    path = re.sub(r"\[[\w,.\s-]*\]$", "", plain.removeprefix("file:").removeprefix("link:")) or "."
    host = walk.download_of(walk.full_path(path))
    is_ours = may_be_ours and walk.place(path) in (Place.INSIDE, Place.OUTSIDE)
    _note_installed(walk, host or ("" if is_ours else path), "runs-download" if host else "uses-package-source")


def _note_installed(walk: Walk, foreign: str, kind: str) -> None:
    """Note a package by the foreign name, path or host that it comes from, if it has one."""
    walk.add(kind if foreign else "installs-known-package", foreign)


def without_alias(word: str) -> str:
    """Return a package as its registry or its repository calls it."""
    return FORMS["registry"].sub("", FORMS["package alias"].sub("", word.strip(), count=1), count=1)


def repository_address(plain: str) -> str:
    """Return the URL of a package that is given as an address or as a repository; empty for any other."""
    match = FORMS["repository"].match(plain)
    if match is not None:
        address = match.group(1)
        return "https://" + address[4:].replace(":", "/", 1) if address.startswith("git@") else address
    if FORMS["forge"].match(plain):
        return "https://" + plain.replace(":", ".com/", 1)
    # npm's short form of a GitHub repository is `owner/name`.
    return f"https://github.com/{plain}" if re.fullmatch(r"[\w-]+/[\w.-]+(?:#\S*)?", plain) else ""


def is_known(walk: Walk, name: str, registry: str = "") -> bool:
    """Return whether a package is the project's own, or a tool that developers install everywhere.

    Of a name with a scope, only the makers of the scope can publish it.
    """
    scope, slash, _ = name.partition("/")
    called = name.rstrip("/").rpartition("/")[2] if registry == "go" else package_name(name)
    if walk.project.has_package(name, registry.replace("system", "")) or called in COMMON_TOOLS:
        return True
    used = (package.removeprefix("npm:").startswith(f"{scope}/") for package in walk.project.packages)
    return bool(slash) and scope[:1] == "@" and (scope in COMMON_TOOLS or any(used))


def package_in(word: str) -> str:
    """Return a package's name without version, extras and quotes."""
    if word.startswith("@"):
        return "@" + re.split(r"[@=<>~^\[; ]", word[1:], maxsplit=1)[0]
    return re.split(r"[@=<>~!^\[; :]", word.strip("'\""), maxsplit=1)[0]


def role_pkg(use: Use, value: str) -> None:
    """A package that is installed; the registry stands behind the dot."""
    for name in value.split(",") if use.option else [value]:
        note_package(use.walk, name, use.detail)


def role_src(use: Use, value: str) -> None:
    """A server that packages come from, unless it is a public index or the project names it."""
    address = FORMS["setting with address"].sub("", use.walk.plain(value), count=1)
    host = host_of(address) if re.search(r"[.:]", address) else ""
    if host and not (is_local(host) or host in PUBLIC_SOURCES or use.walk.project.has_host(host)):
        use.walk.add("uses-package-source", host)


def role_image(use: Use, value: str) -> None:
    """An image that is fetched and run: one with an owner or a host in its name is a package like any other."""
    name, project = re.sub(r"(?:@sha256:\w+|:[\w.-]+)$", "", use.walk.plain(value)), use.walk.project
    is_known = project.has_package(name, "image") or project.has_host(name.split("/")[0])
    if "/" not in name or name.startswith(("library/", "docker.io/library/")) or is_known:
        use.walk.add("runs-project-task", f"docker run {name}".strip())
    else:
        use.walk.add("installs-package", name)


# Git

_SETTINGS = [
    (re.compile(names, re.IGNORECASE), re.compile(values, re.DOTALL), kind)
    for names, values, kind in read_table(PACKAGE, TABLE, "git settings", ("name", "value", "effect"))
]


def remote_target(walk: Walk, remote: str) -> str:
    """Return what a remote stands for: its host when it is an address, otherwise its name."""
    plain = walk.plain(remote)
    match = re.match(r"(?:[\w.-]+@)?([\w-]+(?:\.[\w-]+)+):", plain)
    return host_of(plain) if "://" in plain else match.group(1).lower() if match else plain


def note_setting(walk: Walk, name: str, value: str) -> None:
    """Note a setting of git that runs a program, moves a remote or names an author."""
    plain = walk.plain(value)
    kind = next((kind for names, values, kind in _SETTINGS if names.fullmatch(name) and values.fullmatch(plain)), "-")
    if kind == "changes-remote":
        other = re.fullmatch(r"url\.(.+)\.(?:push)?insteadof", name, re.IGNORECASE)
        walk.add(kind, remote_target(walk, other.group(1) if other else plain))
    elif kind != "-":
        targets = {"disables-check": name, "installs-hook": f"{name}={plain}"}
        note_kind(walk, kind, targets.get(kind, plain))
    if kind == "installs-hook" and value[:1] == "!":
        walk.read_text(value[1:])


def role_git_setting(use: Use, value: str) -> None:
    """A setting of git for one command: `name=value`, or the variable that has the value."""
    name, _, text = value.partition("=")
    note_setting(use.walk, name, f"${text}" if use.option == "--config-env" else text)


def role_remote(use: Use, value: str) -> None:
    """The address of a repository, or the name of a remote; what happens with it stands behind the dot.

    One kind of address is a command.
    """
    if value.startswith(("ext::", "fd::")):
        use.walk.read_text(value.split("::", 1)[1])
    elif "@" in value or re.match(r"[\w.-]+:|.*://", use.walk.plain(value)):
        use.walk.add(use.detail, remote_target(use.walk, value))
