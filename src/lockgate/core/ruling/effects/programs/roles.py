"""What the operands and options of programs mean, by their roles in `programs.tbl`, and what whole commands do.

A role reads one value: it notes effects on the walk, or keeps what the end of the command needs. A role of the rest
reads all that follows. A finish reads the whole command, where its effect is no kind.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from lockgate.core.ruling.effects.code import read_code
from lockgate.core.ruling.effects.effect import Certainty, Effect
from lockgate.core.ruling.effects.paths import Access, read_access
from lockgate.core.ruling.effects.program_io import MARK, NO_OUTPUT, UNKNOWN_OUTPUT, Invocation, Output, Source
from lockgate.core.ruling.effects.programs import packages
from lockgate.core.ruling.effects.programs.program_rows import (
    ANYWHERE,
    PACKAGE,
    PATTERN_COLUMNS,
    PATTERNS,
    TABLE,
    ProgramRow,
)
from lockgate.core.ruling.effects.programs.url_hosts import METADATA_HOSTS, host_of, is_address, is_local
from lockgate.core.ruling.effects.project import Place
from lockgate.core.tables import read_table

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk

# What a program is told to write to is no file.
NO_FILES = frozenset(("-", "/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "NUL"))


class Use:
    """One command line of a program, while the roles of its row read it."""

    __slots__ = (
        "call",
        "carried",
        "detail",
        "folder",
        "modes",
        "operands",
        "option",
        "options",
        "output",
        "rest",
        "row",
        "sends",
        "values",
        "walk",
    )

    def __init__(
        self,
        walk: Walk,
        call: Invocation,
        row: ProgramRow,
        options: list[tuple[str, str]],
        operands: list[str],
        rest: list[str],
    ) -> None:
        self.walk = walk
        self.call = call
        self.row = row
        self.options = options
        self.operands = operands
        self.rest = rest
        # Of the role that is being read: what stands behind its dot (the `npm` of `pkg.npm`), and its option.
        self.detail = ""
        self.option = ""
        # Where the shell is, if the program works in another folder.
        self.folder: str | None = None
        # Options without a value, by their `?` roles, and the values of roles that only the end of the command reads.
        self.modes: set[str] = set()
        self.values: dict[str, list[str]] = {}
        # Whether a request changes something, and all that is sent with it.
        self.sends = False
        self.carried: list[str] = []
        self.output = UNKNOWN_OUTPUT

    def first(self) -> str:
        """Return the first operand, or the program's name."""
        return self.walk.plain([*self.operands, *self.rest[:1], self.call.name][0])

    def value(self, role: str) -> str:
        """Return the last value of a role, or an empty text."""
        return self.values.get(role, [""])[-1]

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


def role_skip(use: Use, value: str) -> None:
    """Ignore the value."""


def last_word(arguments: list[str], words: list[str]) -> str:
    """Return the last of some words that is no setting, and no value of an option that the row does not list."""
    before = last = ""
    for argument in arguments:
        if argument[:1] != "-" and before[:1] != "-" and argument in words and "=" not in argument:
            last = argument
        before = argument if "=" not in argument else ""
    return last


# Requests and hosts

# A token sent to the service that issued it is its ordinary use.
_TOKEN_HOMES = (
    ("GITHUB", "github.com"),
    ("GH_", "github.com"),
    ("GITLAB", "gitlab.com"),
    ("NPM", "npmjs.org"),
    ("PYPI", "pypi.org"),
    ("OPENAI", "openai.com"),
    ("ANTHROPIC", "anthropic.com"),
    ("SLACK", "slack.com"),
    ("HF_", "huggingface.co"),
    ("DIGITALOCEAN", "digitalocean.com"),
    ("CLOUDFLARE", "cloudflare.com"),
    ("STRIPE", "stripe.com"),
)


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
        if not _is_home(secret, host):
            walk.add("sends-secret", secret)
            sends = True
    # A value behind the host that is computed in this line carries data out.
    if "$(" in plain[1:] and any(piece.source is not Source.VARIABLE for piece in walk.pieces_in(address)):
        sends = True
    walk.add("sends-data" if sends else "requests", host or plain)
    return Output(Source.DOWNLOAD, target=host or plain)


def _is_home(secret: str, host: str) -> bool:
    return any(
        secret.upper().startswith(prefix) and (host == home or host.endswith("." + home))
        for prefix, home in _TOKEN_HOMES
    )


def note_sent(walk: Walk, stream: Output) -> None:
    """Note a secret that flows to another machine."""
    if stream.source in (Source.SECRET, Source.ENVIRONMENT):
        walk.add("sends-secret", stream.target or "environment")


def role_carry(use: Use, value: str) -> None:
    """Sent along with a request."""
    use.carried.append(value)


_SENT_FILE = re.compile(r"[\w.\[\]-]*=?[@<]([^;]+)")


def role_send(use: Use, value: str) -> None:
    """The content of a request; a file behind `@`, or the input for `@-`."""
    match = _SENT_FILE.match(value)
    role_upload(use, match.group(1) if match else "")
    use.carried.append(value)


def role_upload(use: Use, value: str) -> None:
    """A file whose content is sent."""
    use.sends = True
    if value:
        stream = use.call.stdin if value in ("-", ".") else use.walk.read_file(value)
        if stream.source is Source.ENVIRONMENT:
            stream = Output(Source.SECRET, target="environment")
        if stream.source is Source.SECRET:
            use.carried.append(use.walk.mark(stream))


def role_method(use: Use, value: str) -> None:
    """Of a request; all but asking changes something."""
    use.sends = use.sends or value.upper() not in ("GET", "HEAD", "OPTIONS", "")


_FIELD = re.compile(r"[\w\]]:?=[^=]|[\w]@")


def role_field(use: Use, value: str) -> None:
    """A method, an address, or a field that is sent, as HTTPie has them."""
    plain = use.walk.plain(value)
    use.sends = use.sends or use.call.stdin is not NO_OUTPUT
    use.carried.append(value)
    if plain in ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"):
        role_method(use, plain)
    elif "url" not in use.values and (plain[:1] == ":" or is_address(plain)):
        use.values["url"] = ["localhost" if plain[:1] == ":" else value]
    elif _FIELD.search(value):
        role_send(use, value)


def role_proxy(use: Use, value: str) -> None:
    """A host that requests go through."""
    host = host_of(use.walk.plain(value).rpartition("=")[2].strip())
    if host and not is_local(host):
        use.walk.add("requests", host)


def role_socket(use: Use, value: str) -> None:
    """A socket of this machine; that of a container engine owns the machine."""
    if "docker" in value or "containerd" in value or "podman" in value:
        use.walk.add("runs-as-root")


def role_host(use: Use, value: str) -> None:
    """Another machine that is asked, or sent what streams in."""
    walk, stdin = use.walk, use.call.stdin
    host = walk.plain(value).rsplit("@", 1)[-1].removeprefix("ssh://").split(":")[0]
    walk.add("asks-local" if is_local(host) else "requests" if stdin is NO_OUTPUT else "sends-data", host)
    note_sent(walk, stdin)
    use.output = Output(Source.DOWNLOAD, target=host)


def role_peer(use: Use, value: str) -> None:
    """Another machine that takes and gives whatever streams."""
    walk = use.walk
    host = host_of(walk.plain(value))
    note_sent(walk, use.call.stdin)
    if is_local(host):
        walk.add("asks-local", host)
    else:
        walk.add("requests" if "scan" in use.modes else "sends-data", host)
        use.output = Output(Source.DOWNLOAD, target=host)


def role_lookup(use: Use, value: str) -> None:
    """A name that is asked about; one that holds data of this machine carries it out."""
    walk = use.walk
    secrets = walk.secrets_in(value)
    if secrets or any(piece.source is not Source.VARIABLE for piece in walk.pieces_in(value)):
        for secret in secrets:
            walk.add("sends-secret", secret)
        name = re.sub(r"\$\(\)|\$\w+", "", walk.plain(value)).lstrip(".").split("/")[0]
        walk.add("sends-data", ".".join(name.split(".")[-3:]).lstrip(".") or "dns")


def role_attach(use: Use, value: str) -> None:
    """A file that goes to another machine."""
    note_sent(use.walk, use.walk.read_file(value))


def role_remote_path(use: Use, value: str) -> None:
    """`NAME:PATH` on another machine, or a file that is copied there."""
    plain = use.walk.plain(value)
    if ":" in plain:
        use.walk.add("sends-data", plain.split(":")[0])
    else:
        role_attach(use, value)


_RUNNING_SETTING = re.compile(r"(?i)(?:proxycommand|localcommand|knownhostscommand)[\s=]+")


def role_ssh_setting(use: Use, value: str) -> None:
    """A setting of `ssh`, some of which are commands."""
    if _RUNNING_SETTING.match(value):
        use.walk.read_text(_RUNNING_SETTING.sub("", value, count=1))


# Files


def role_read(use: Use, value: str) -> None:
    """A file that is shown."""
    stream = use.call.stdin if value == "-" else use.walk.print_file(value)
    use.output = stream if stream.source > use.output.source else use.output


def role_open(use: Use, value: str) -> None:
    """A file that is read and not shown."""
    use.walk.read_file(value)


def role_write(use: Use, value: str) -> None:
    """A path that is written."""
    if value not in NO_FILES:
        use.walk.access(value, Access.WRITE)


def role_device(use: Use, value: str) -> None:
    """A file that is written, or a disk that is overwritten."""
    if value.startswith("/dev/") and value not in NO_FILES:
        use.walk.add("deletes-data", value)
        use.values.setdefault("out", ["-"])
    else:
        use.values.setdefault("out", []).append(value)


def role_delete(use: Use, value: str) -> None:
    """A path that is removed."""
    walk = use.walk
    if MARK in value and not re.match(r"[\w./-]{2,}", walk.plain(value)) and _is_bare(walk, value):
        walk.add_unreadable()
        return
    walk.access(value, Access.DELETE)
    if use.detail == "wipe" and walk.place(value) is not Place.SCRATCH:
        walk.add("deletes-data", walk.plain(value))


def _is_bare(walk: Walk, path: str) -> bool:
    """Return whether an unknown value could be a folder of any kind: `rm -rf $X`, `rm -rf $X/*`."""
    pieces = walk.pieces_in(path)
    return (
        bool(pieces)
        and pieces[0].source is Source.VARIABLE
        and not re.search(r"(?i)tmp|temp|build|dist|cache|work|out", pieces[0].target)
    )


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


_MODE = re.compile(r"[0-7]+|[ugoa]*[-+=][rwxXstugo]*(?:,[ugoa]*[-+=][rwxXstugo]*)*")
_OPEN_MODE = re.compile(
    r"0?[0-7]?[0-7][0-7][2367]$|0?[2-7][0-7]{3}$|[ugoa]*[ao][ugoa]*\+[rx]*w|[ugoa]*[+=][rwx]*s"
    r"|[ugoa]*o[ugoa]*[+=][rx]*w|a[+=]\w*w"
)


def role_mode(use: Use, value: str) -> None:
    """Who may use the files that follow."""
    if not _MODE.fullmatch(value):
        role_mode_path(use, value)
    elif any(_OPEN_MODE.match(part) for part in value.split(",")):
        use.modes.add("wide")


def role_mode_path(use: Use, value: str) -> None:
    """A file whose mode changes."""
    walk = use.walk
    if "wide" in use.modes or walk.place(value) not in (Place.INSIDE, Place.SCRATCH):
        walk.add("changes-permissions", walk.plain(value))
    else:
        walk.access(value, Access.WRITE)


_PATTERNS = {
    name: (effect, re.compile(pattern))
    for name, effect, pattern in read_table(PACKAGE, TABLE, PATTERNS, PATTERN_COLUMNS)
}


def role_if(use: Use, value: str) -> None:
    """A value that does more where it fits the pattern behind the dot; else that of an option may be a path to code."""
    kind, pattern = _PATTERNS[use.detail]
    if pattern.search(value):
        note_kind(use.walk, kind, value)
    elif use.option:
        role_foreign(use, value)


# Kinds whose target says nothing.
NO_TARGET = frozenset("commits installs-known-package runs-as-root approves-change unreadable".split())


def note_kind(walk: Walk, kind: str, target: str) -> None:
    """Note a kind of effect that a row names."""
    certainty = Certainty.GUESS if kind == "unreadable" else Certainty.SURE
    walk.add(kind, "" if kind in NO_TARGET else walk.plain(target), certainty)


# What a person would type into a pager, an editor, a debugger or a client of a database: a command of the shell behind
# a sign, and a file behind `w`. Some of them know the same as words.
_TYPED = re.compile(
    r"\s*[:\\]?(?:(?:[\w,.$%/]{0,40}?\s*!|\|)\s*(?P<runs>\S.*)|[\d,.$%]*w(?:rite|q)?!?\s+(?P<writes>\S.*))", re.DOTALL
)
_TYPED_WORDS = re.compile(
    r"\s*[:.\\]?(?:(?:(?:platform\s+)?shell|system|pipe)\b\s*(?P<runs>.*)"
    r"|(?:output|once|backup|save|clone)\s+(?P<writes>\S+)|(?:read|load|source)\s+(?P<loads>\S+)"
    r"|(?:python|py|pi|script|command\s+(?:script|source)|guile|gu|make|call|expr|print.*\bsystem)\b)",
    re.DOTALL,
)


def read_typed(walk: Walk, text: str, *, knows_words: bool = False) -> bool:
    """Return whether a text is typed for the shell, for a file or to load code, and note that."""
    match = _TYPED.match(text) or (_TYPED_WORDS.match(text) if knows_words else None)
    if match is None:
        return False
    parts = match.groupdict()
    if parts["writes"]:
        walk.access(parts["writes"], Access.WRITE)
    elif parts.get("loads"):
        walk.run_path(parts["loads"])
    else:
        run_command(walk, parts["runs"] or "sh")
    return True


def role_typed(use: Use, value: str) -> None:
    """What is typed into the program: an option's value, or an operand behind `+`."""
    if use.option or value[:1] == "+":
        read_typed(use.walk, value.lstrip("+"), knows_words=True)


_EDITOR_RUNS = re.compile(r"!|system\(|shell-command|call-process|luado|pyx?do|py3")


def role_edit(use: Use, value: str) -> None:
    """A file that is opened for writing, or a command behind `+`, or one of an option."""
    if not use.option and value[:1] != "+":
        use.walk.access(value, Access.WRITE)
    elif not read_typed(use.walk, value.lstrip("+")) and _EDITOR_RUNS.search(value):
        use.walk.add_unreadable()


def finish_types(use: Use) -> Output:
    """The input is what a person would type, line by line."""
    for line in use.call.stdin.text.splitlines():
        read_typed(use.walk, line)
    return use.output


# What runs

SHELL_NAME = re.compile(r"(?:/(?:usr/)?(?:local/)?bin/)?(?:ba|z|da|k|a|fi|c|tc)?sh")


def run_command(walk: Walk, value: str) -> None:
    """Read a value that a program runs as a command; a bare shell would run what the program gives it."""
    if SHELL_NAME.fullmatch(value.strip()):
        walk.add_unreadable()
    else:
        walk.read_text(value)


def role_sh(use: Use, value: str) -> None:
    """A command of the shell."""
    command = value.removeprefix("exec=")
    if command and not _COMPRESSES.match(command):
        run_command(use.walk, command)


# Programs that pack and unpack, and what `tar` itself does at a checkpoint.
_COMPRESSES = re.compile(r"(?:zstd|gzip|pigz|xz|bzip2|lz4|pixz|dot|echo|totals|bell)\b(?![^;&|]*[;&|])")


def role_run(use: Use, value: str) -> None:
    """A file that is run or loaded."""
    use.walk.run_path(value)


def note_effects(walk: Walk, effects: list[Effect]) -> None:
    """Note effects that another reader found."""
    for effect in effects:
        walk.add(effect.kind, effect.target, effect.certainty)


def role_code(use: Use, value: str) -> None:
    """Source text of a language."""
    walk = use.walk
    note_effects(walk, read_code(walk.plain(value), walk.argument, walk.project))


def role_cd(use: Use, value: str) -> None:
    """The folder that the program works in."""
    use.folder = use.walk.folder if use.folder is None else use.folder
    use.walk.enter_folder(value)


_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


def rest_program(use: Use, words: list[str]) -> Output:
    """A program that is started, behind variables that are set for it; a kind may stand behind the dot."""
    walk, words = use.walk, list(words)
    while words and _ASSIGNMENT.match(words[0]):
        name, _, value = words.pop(0).partition("=")
        walk.assign(name, value)
    if use.detail:
        walk.add(use.detail)
    return walk.run_program(words, use.call.stdin) if words else UNKNOWN_OUTPUT


def rest_again(use: Use, words: list[str]) -> Output:
    """Command words and arguments of the same program: `yarn workspace web add x`."""
    return rest_program(use, [use.call.name, *words])


def rest_project_program(use: Use, words: list[str]) -> Output:
    """A program in the project's environment: `poetry run`, `hatch run docs:build`."""
    if "module" in use.values:
        words = ["python", "-m", use.value("module"), *words]
    elif words:
        words = [re.sub(r"^[\w.-]*:", "", words[0]) or "sh", *words[1:]]
        words = ["python", *words] if words[0].endswith(".py") else words
    return rest_program(use, words)


def rest_package_program(use: Use, words: list[str]) -> Output:
    """A package that is run by its name, fetched where it is not there."""
    walk, registry = use.walk, use.detail
    if not words:
        return UNKNOWN_OUTPUT
    plain = walk.plain(words[0])
    name = packages.package_in(plain)
    is_named = use.wants("-p", "--package", "--from", "--spec")
    if packages.repository_address(plain) and not is_named:
        packages.note_package(walk, words[0])
    elif is_named or packages.is_known(walk, name, registry) or packages.is_task_name(walk, name):
        if name == "husky":
            walk.add("installs-hook", ".husky")
        walk.add("runs-project-task", name)
        note_loose(walk, name, "task", words[1:], ())
    else:
        walk.add("installs-package", name)
    return UNKNOWN_OUTPUT


def rest_elsewhere(use: Use, words: list[str]) -> Output:
    """A command that runs on another machine, which is there to stay the same unless a kind stands behind the dot."""
    if words:
        use.walk.run_elsewhere(" ".join(words))
    if use.detail:
        use.walk.add(use.detail, use.call.name)
    return use.output


def role_remote_command(use: Use, value: str) -> None:
    """A command that runs on another machine."""
    use.walk.run_elsewhere(value)


def rest_words(use: Use, words: list[str]) -> Output:
    """Read words that are put together to a command of the shell."""
    run_command(use.walk, " ".join(words))
    return use.output


# Packages


def role_pkg(use: Use, value: str) -> None:
    """A package that is installed; the registry stands behind the dot."""
    for name in value.split(",") if use.option else [value]:
        if use.detail == "go":
            packages.note_go_package(use.walk, name)
        elif use.detail == "system":
            packages.note_system_package(use.walk, use.walk.plain(name))
        else:
            packages.note_package(use.walk, name, use.detail)


def role_local(use: Use, value: str) -> None:
    """A package in a folder."""
    is_path = value.startswith((".", "/", "git+", "http", "~"))
    packages.note_package(use.walk, value if is_path else f"./{value}")


_SETTING_NAME = re.compile(r"[\w.:@/-]+=(?=\w+://)")


def role_src(use: Use, value: str) -> None:
    """A server that packages come from."""
    packages.note_source(use.walk, _SETTING_NAME.sub("", value, count=1))


# The channels of Conda that everybody uses.
_CHANNELS = frozenset("defaults main anaconda conda-forge bioconda pytorch nvidia nodefaults".split())


def role_channel(use: Use, value: str) -> None:
    """A name or an address that packages come from."""
    if "://" in value:
        role_src(use, value)
    elif value not in _CHANNELS:
        use.walk.add("uses-package-source", use.walk.plain(value))


def role_req(use: Use, value: str) -> None:
    """A list of packages."""
    host = use.walk.download_of(use.walk.full_path(value))
    if host:
        use.walk.add("runs-download", host)
    elif "://" in value:
        packages.note_source(use.walk, value)


def role_creator(use: Use, value: str) -> None:
    """`npm init NAME` runs the package `create-NAME`."""
    use.detail = "npm"
    rest_package_program(use, [f"create-{value}"])


def role_go_run(use: Use, value: str) -> None:
    """A package with a version is fetched, any other is the project's."""
    if "@" in value:
        packages.note_go_package(use.walk, value)
    else:
        role_foreign(use, value)


def role_unlisted(use: Use, value: str) -> None:
    """What the row does not expect, so that the command is not known."""
    use.walk.add("runs-program", f"{use.call.name} {value}", Certainty.GUESS)


# Arguments of programs that only look, or that run what the project has: without a list of their options


_NAMED_VALUE = re.compile(r"(-{1,2}[\w.-]+)=(.*)", re.DOTALL)
_JOINED_VALUE = re.compile(r"-[abcefghjkmnprstuvwxyzX]([/~].*)", re.DOTALL)
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
            option, value = _named_value(argument)
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
    """Return whether an argument names targets in the project: `//web:all`, `//web/...`.

    An option before it may take it for a path, where an attacker could have put a file: `--bazelrc //tmp/...`.
    """
    return argument[:2] == "//" and (not option or (argument.endswith("...") and walk.place(argument) is Place.OUTSIDE))


def _named_value(argument: str) -> tuple[str, str]:
    """Return an option and the value that is joined to it: `--config=/tmp/x`, `-c/tmp/x`."""
    named = _NAMED_VALUE.fullmatch(argument)
    if named is not None:
        return named.group(1), named.group(2)
    joined = _JOINED_VALUE.fullmatch(argument)
    return (argument[:2], joined.group(1)) if joined is not None else ("", "")


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
