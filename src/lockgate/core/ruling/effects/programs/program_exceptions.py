"""Programs that no row of `programs.tbl` can describe: what they are given is a language of its own."""

from __future__ import annotations

import re
from itertools import takewhile
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.paths import Access, is_secret, read_access
from lockgate.core.ruling.effects.program_io import NO_OUTPUT, UNKNOWN_OUTPUT, Output, Source
from lockgate.core.ruling.effects.programs import packages
from lockgate.core.ruling.effects.programs.program_rows import PACKAGE, TABLE
from lockgate.core.ruling.effects.programs.roles import Use
from lockgate.core.ruling.effects.programs.search_names import EXECUTES, Search, read_search
from lockgate.core.ruling.effects.programs.url_hosts import host_of
from lockgate.core.tables import read_table

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk

# Folders times names that one search may look for.
MOST_SEARCHED = 256


def finish_finds(use: Use) -> Output:
    """What `find` and `fd` run, delete and write."""
    walk, arguments = use.walk, use.call.arguments
    starts = list(takewhile(lambda argument: argument[:1] not in ("-", "(", "!"), arguments)) or ["."]
    search = read_search(arguments)
    if len(starts) * (len(search.wanted) + 1) > MOST_SEARCHED:
        walk.add_unreadable()
        return UNKNOWN_OUTPUT
    patterns = [_search_pattern(walk, start, search) for start in starts]
    rest = iter(arguments)
    for argument in rest:
        if argument in EXECUTES:
            inner = list(takewhile(lambda part: part not in (";", "+"), rest))
            for pattern in patterns if inner else ():
                walk.run_program([part.replace("{}", pattern) for part in inner], NO_OUTPUT)
        elif argument == "-delete":
            for start, pattern in zip(starts, patterns, strict=True):
                walk.access(start if start == "/" else pattern, Access.DELETE)
        elif argument in ("-fprint", "-fprintf", "-fls"):
            walk.access(next(rest, ""), Access.WRITE)
    return Output(Source.NONE, target=patterns[0])


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
        read_access(walk.plain(name), Access.WRITE, walk.project, folder=walk.folder) for name in (path, other)
    )
    return written.kind != usual.kind and written.severity >= usual.severity


def role_module_address(use: Use, value: str) -> None:
    """What `deno` runs or loads: a file, a package, or an address whose code runs at once."""
    if value.startswith(("npm:", "jsr:")):
        packages.note_package(use.walk, value[4:], value[:3].replace("jsr", ""))
    elif scheme := re.match(r"(?:https?|file|data|blob):", value, re.IGNORECASE):
        use.walk.add("runs-download", host_of(value) if "://" in value else scheme[0])
    else:
        use.walk.run_program(["node", value], use.call.stdin)


# Git and its forges

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
        targets = {"commits": "", "disables-check": name, "installs-hook": f"{name}={plain}"}
        walk.add(kind, targets.get(kind, plain))
    if kind == "installs-hook" and value[:1] == "!":
        walk.read_text(value[1:])


def role_git_setting(use: Use, value: str) -> None:
    """A setting of git for one command: `name=value`, or the variable that has the value."""
    name, _, text = value.partition("=")
    note_setting(use.walk, name, f"${text}" if use.option == "--config-env" else text)


def finish_sets(use: Use) -> Output:
    """Keep a setting of git; with nothing but a name, it is shown."""
    if "unset" not in use.modes and len(use.operands) > 1:
        note_setting(use.walk, *use.operands[:2])
    if "unset" in use.modes or len(use.operands) > 1:
        use.walk.add("commits")
    return UNKNOWN_OUTPUT


def role_fetched(use: Use, value: str) -> None:
    """A repository that is fetched: an address, or the name of a remote."""
    if value.startswith(("ext::", "fd::")):
        use.walk.read_text(value.split("::", 1)[1])
    elif "://" in value or "@" in value or use.detail == "always":
        use.walk.add("clones", remote_target(use.walk, value))


def finish_clones_into(use: Use) -> Output:
    """Fetch a repository into a folder; what is there is a download from then on."""
    walk, is_forge = use.walk, use.call.name != "git"
    if not use.operands:
        return UNKNOWN_OUTPUT
    address = walk.plain(use.operands[0])
    if address.startswith(("ext::", "fd::")):
        role_fetched(use, address)
        return UNKNOWN_OUTPUT
    folder = [*use.operands, re.split("[/:]", re.sub(r"(?:\.git)?/?$", "", address))[-1]][1]
    if is_forge or "@" in address or re.match(r"[\w.-]+:|.*://", address):
        host = address if is_forge else remote_target(walk, address)
        walk.add("clones", host)
        walk.downloads[walk.full_path(folder)] = host
    walk.access(folder, Access.WRITE)
    return UNKNOWN_OUTPUT


def finish_sets_remote(use: Use) -> Output:
    """Point a remote at an address, unless the project has it there already."""
    walk, words = use.walk, use.operands
    if len(words) > 1 and walk.project.remotes.get(words[0]) != words[1]:
        walk.add("changes-remote", remote_target(walk, words[1]))
    else:
        walk.add("commits")
    return UNKNOWN_OUTPUT


# Branches that no one means by "the old branches".
_TRUNKS = frozenset({"main", "master", "trunk", "develop", "production"})


def finish_pushes_refs(use: Use) -> Output:
    """Push to a remote, and delete or rewrite branches there."""
    walk, refs = use.walk, use.operands[1:]
    remote = remote_target(walk, use.operands[0]) if use.operands else "origin"
    if "forced" in use.modes or any(ref.startswith("+") for ref in refs):
        walk.add("rewrites-history", remote)
    deletes = "deletes" in use.modes
    deleted = [ref.removeprefix(":") for ref in refs if deletes or (ref.startswith(":") and len(ref) > 1)]
    if deleted or deletes or "prunes" in use.modes:
        walk.add("deletes-branch", remote)
    # A goal that only names one of them wants no other deleted.
    for ref in deleted:
        branch = walk.plain(ref).removeprefix("refs/heads/")
        walk.add("deletes-branch", branch)
        if branch in _TRUNKS:
            walk.add("rewrites-history", remote)
    walk.add("pushes", remote)
    return UNKNOWN_OUTPUT


def role_author(use: Use, value: str) -> None:
    """In whose name something is recorded, or as of when."""
    if value:
        address = re.search(r"<([^<>]+)>", value)
        use.walk.add("signs-as", address.group(1) if address else value)


def role_revision(use: Use, value: str) -> None:
    """A revision, or `REVISION:PATH`, which shows a file."""
    _, _, path = value.partition(":")
    if path:
        use.output = use.walk.print_file(path)


def role_logged(use: Use, value: str) -> None:
    """A path whose changes are listed, or shown."""
    if use.wants("-p", "-u", "--patch", "-L", "-G", "-S"):
        use.walk.print_file(value)


# The path, and behind it the fields: a field that looks like such a path approves nothing.
_APPROVING_PATH = re.compile(
    r"\S*/(?:pulls|merge_requests)/[^/\s]+/(?:(?:merge|approve)(?: |$)|reviews .*event=APPROVE)"
)
_GRANTING_PATH = re.compile(r"collaborators|keys|invitations|protection|permissions|secrets|hooks|members|teams")


def finish_asks_forge(use: Use) -> Output:
    """Call a forge's interface by its path: `gh api`."""
    walk, path = use.walk, use.first() if use.operands else ""
    fields = use.values.get("form", [])
    method = use.value("verb").upper() or ("POST" if fields else "GET")
    if method in ("GET", "HEAD") or (path == "graphql" and "mutation" not in "".join(fields)):
        return UNKNOWN_OUTPUT
    if method == "DELETE":
        from lockgate.core.ruling.effects.tool_commands import kinds_of_request, name_of_request  # it uses these rows

        for kind in kinds_of_request(name_of_request(method, f"/{path.lstrip('/')}"), {}) or ["deletes-record"]:
            walk.add(kind, path)
    elif _APPROVING_PATH.match(" ".join([path, *fields])):
        walk.add("approves-change")
    else:
        walk.add("grants-access" if _GRANTING_PATH.search(path) else "changes-record", path)
    return UNKNOWN_OUTPUT
