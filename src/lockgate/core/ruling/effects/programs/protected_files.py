"""What a program does to Lockgate's own files, by its arguments: `protected_paths.py` says which paths those are.

Most programs work on the paths they are given, and their readers say how. Here stand the programs that reach everything
below a folder, and those that change a file in a way no reader knows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from lockgate.core.ruling.effects.program_io import MARK, Invocation
from lockgate.core.ruling.effects.programs.lockgate_processes import RUNNERS, note_own_processes
from lockgate.core.ruling.effects.programs.lockgate_service import note_own_service
from lockgate.core.ruling.effects.programs.options import (
    has_option,
    long_values,
    plain_words,
    program_after,
    split_options,
)
from lockgate.core.ruling.effects.programs.search_names import EXECUTES, read_search
from lockgate.core.ruling.effects.protected_paths import Access, find_own, may_find_own

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk


class Reach(NamedTuple):
    """One path that a program works on, and whether it reaches everything below it."""

    path: str
    access: Access
    below: bool = True


_SEPARATORS = re.compile(r"[=@:,]")


def note_own_files(walk: Walk, call: Invocation, *, is_known: bool) -> None:
    """Note what a program does to Lockgate's own files; `is_known` is whether a reader or a row says what it does."""
    if not walk.is_near_own:
        return
    for path in _paths_in(walk, call.arguments):
        if any(found == ("secrets", False) for found in find_own(path, walk.project, walk.folder)):
            walk.note_own(path, Access.READ)
        elif not is_known or (call.name in RUNNERS and not has_option(call.arguments, "--check", "--list-different")):
            walk.note_own(path, Access.WRITE)
    reaches = _REACHES.get(call.name)
    arguments = call.arguments
    if call.name == "git" and (tree := call.environment.get("GIT_WORK_TREE") or walk.variables.get("GIT_WORK_TREE")):
        arguments = [f"--work-tree={tree}", *arguments]
    for reach in reaches(arguments) if reaches is not None else ():
        walk.note_own(reach.path, reach.access, below=reach.below)
    _note_searched(walk, call)
    note_own_processes(walk, call)
    note_own_service(walk, call)


def _paths_in(walk: Walk, arguments: Iterable[str]) -> Iterator[str]:
    """Yield every piece of the arguments that may be a path: `-C/x`, `--file=/x`, `@/x`, `/x:/y`."""
    for argument in arguments:
        plain = walk.plain(argument)
        yield plain
        if "/" in plain or "~" in plain or "$" in plain:
            yield from _SEPARATORS.split(plain)[1:]
            if re.match(r"-\w[^=]", plain):
                yield plain[2:]


def _note_searched(walk: Walk, call: Invocation) -> None:
    """Note a program that gets the names which a search below a home found: through a pipe or a substitution."""
    if not (walk.searched or walk.searched_settings):
        return
    taken = [piece.target for argument in call.arguments if MARK in argument for piece in walk.pieces_in(argument)]
    if call.name in _ONLY_NAMES:
        return
    for target in [*taken, call.stdin.target] if call.name in _TAKES_NAMES else taken:
        if target in walk.searched:
            walk.add("reads-own-token", target)
        elif target in walk.searched_settings and not _CHANGES_FOUND.isdisjoint([call.name, *call.arguments]):
            walk.add("changes-own-guard", target)


_TAKES_NAMES = frozenset("xargs gxargs parallel rush read mapfile readarray cpio pax tar bsdtar rsync zip".split())
_ONLY_NAMES = frozenset("echo printf ls stat test [ [[ wc head tail sort uniq basename dirname realpath".split())


# What each program reaches

_RECURSES = ("-r", "-R", "-a", "--recursive", "--archive")


def _deleted(arguments: list[str]) -> Iterator[Reach]:
    for path in split_options(arguments)[1]:
        yield Reach(path, Access.DELETE)


def _into(target: str, source: str) -> str:
    """Return the path that is written when a source is copied to a folder; all of the folder for its content."""
    name = source.rstrip("/").rpartition("/")[2]
    return target if name in (".", "..", "*", ".*", "") else f"{target.rstrip('/') or '/'}/{name}"


_COPY_VALUED = frozenset("-t --target-directory -S --suffix -m --mode -o --owner -g --group".split())


def _sources_and_target(arguments: list[str], valued: frozenset[str]) -> tuple[list[str], str]:
    options, paths = split_options(arguments, valued)
    values = dict(options)
    target = values.get("-t") or values.get("--target-directory") or ""
    return (paths, target) if target else (paths[:-1], paths[-1] if paths else "")


def _moved(arguments: list[str]) -> Iterator[Reach]:
    sources, target = _sources_and_target(arguments, _COPY_VALUED)
    for source in sources:
        yield Reach(source, Access.DELETE)
        yield Reach(_into(target, source), Access.WRITE)
    if has_option(arguments, "-T", "--no-target-directory"):
        yield Reach(target, Access.WRITE)


def _copied(arguments: list[str]) -> Iterator[Reach]:
    sources, target = _sources_and_target(arguments, _COPY_VALUED)
    if not has_option(arguments, *_RECURSES):
        # The target may be a folder; a file is read and written as any program's arguments are.
        for source in sources:
            yield Reach(_into(target, source), Access.WRITE, below=False)
        return
    for source in sources:
        yield Reach(source, Access.READ)
        yield Reach(_into(target, source), Access.WRITE)
    if has_option(arguments, "-T", "--no-target-directory"):
        yield Reach(target, Access.WRITE)


_RSYNC_VALUED = frozenset(
    "-e --rsh --exclude --include --exclude-from --files-from -f --filter --port --rsync-path -o -i -P -p "
    "--log-file --temp-dir -T --link-dest --backup-dir --chmod --chown".split()
) - {"-p", "-P", "-o"}


def _synchronised(arguments: list[str]) -> Iterator[Reach]:
    """`rsync` and `scp`: a slash behind a source stands for what is in it."""
    sources, target = _sources_and_target(arguments, _RSYNC_VALUED)
    for source in sources:
        if not re.match(r"[\w.@-]+:", source):
            yield Reach(source, Access.READ)
        path = source.partition(":")[2] if re.match(r"[\w.@-]+:", source) else source
        yield Reach(target if path.endswith("/") or not path else _into(target, path), Access.WRITE)
    if any(argument.startswith("--delete") for argument in arguments):
        yield Reach(target, Access.DELETE)


def _linked(arguments: list[str]) -> Iterator[Reach]:
    """What is linked can be changed under its other name."""
    sources, target = _sources_and_target(arguments, _COPY_VALUED)
    for path in sources or [target]:
        yield Reach(path, Access.WRITE)


_TAR_VALUED = frozenset(
    "-f --file -C --directory -T --files-from -X --exclude --exclude-from -I --transform -g".split()
)


def _archived(arguments: list[str]) -> Iterator[Reach]:
    if arguments and re.fullmatch(r"[A-Za-z]+", arguments[0]):
        arguments = ["-" + arguments[0], *arguments[1:]]
    options, paths = split_options(arguments, _TAR_VALUED)
    values = dict(options)
    folder = values.get("-C") or values.get("--directory") or "."
    if values.keys() & {"-x", "--extract", "--get"}:
        # With `-P` an archive says itself which path it writes.
        yield Reach("/" if values.keys() & {"-P", "--absolute-names"} else folder, Access.WRITE)
    elif values.keys() & {"-c", "--create", "-r", "-u", "--append", "--update"}:
        for path in paths:
            yield Reach(path if folder == "." or path[:1] in ("/", "~", "$") else f"{folder}/{path}", Access.READ)


def _unzipped(arguments: list[str]) -> Iterator[Reach]:
    options, _ = split_options(arguments, frozenset(("-d", "-x", "-P")))
    values = dict(options)
    if not values.keys() & {"-l", "-p", "-t", "-v", "-Z"}:
        yield Reach(values.get("-d") or ".", Access.WRITE)


def _zipped(arguments: list[str]) -> Iterator[Reach]:
    verb, folder = arguments[0] if arguments else "", ""
    for argument in arguments:
        if argument.startswith("-o") and len(argument) > 2:
            folder = argument[2:]
    if verb in ("x", "e"):
        yield Reach(folder or ".", Access.WRITE)
    else:
        # The first one is the archive, unless that is standard output.
        for path in plain_words(arguments):
            yield Reach(path, Access.READ)


def _cpio(arguments: list[str]) -> Iterator[Reach]:
    options, paths = split_options(arguments, frozenset("-D --directory -F -I -O -E -H".split()))
    values = dict(options)
    if not values.keys() & {"-o", "--create", "-t", "--list"}:
        yield Reach(values.get("-D") or values.get("--directory") or ".", Access.WRITE)
        for path in paths:
            yield Reach(path, Access.WRITE)


def _chmod(arguments: list[str]) -> Iterator[Reach]:
    """A folder that its owner may not enter hides all that is below it."""
    below = has_option(arguments, "-R", "--recursive") or any(map(_LOCKS.fullmatch, arguments))
    for path in plain_words(arguments):
        yield Reach(path, Access.WRITE, below)


_LOCKS = re.compile(r"0?0?[0246][0-7]{2}|0|[ugoa]*[ua][go]*-[rwst]*x[rwst]*|-[rwst]*x[rwst]*|[ugoa]*[ua][go]*=[rwst]*")


def _owned(arguments: list[str]) -> Iterator[Reach]:
    for path in plain_words(arguments):
        yield Reach(path, Access.WRITE)


def _written(arguments: list[str]) -> Iterator[Reach]:
    for path in plain_words(arguments):
        yield Reach(path, Access.WRITE, below=False)


def _everything(arguments: list[str]) -> Iterator[Reach]:
    for path in plain_words(arguments):
        yield Reach(path, Access.WRITE)
    for argument in arguments:
        yield Reach(argument.partition("=")[2] or argument[2:], Access.WRITE)


_SEARCH_VALUED = frozenset(
    "-A -B -C -m -e -f -g -t -T -d --include --exclude --exclude-dir --glob --iglob --type --context --after-context "
    "--before-context --max-count --regexp --file -j --max-depth --directories".split()
)


def _grepped(arguments: list[str]) -> Iterator[Reach]:
    options, words = split_options(arguments, _SEARCH_VALUED)
    names = {name for name, _ in options}
    goes_down = names & {"-r", "-R", "--recursive", "--dereference-recursive"} or ("-d", "recurse") in options
    if goes_down or ("--directories", "recurse") in options:
        yield from _searched(options, words, names)


def _ripgrepped(arguments: list[str]) -> Iterator[Reach]:
    """`rg` and its like leave hidden folders out, unless they are told not to."""
    options, words = split_options(arguments, _SEARCH_VALUED)
    names = {name for name, _ in options}
    if names & {"--hidden", "-.", "-u", "--unrestricted", "--search-all"} and "--files" not in names:
        yield from _searched(options, words, names)
    else:
        # A hidden folder that is named is searched.
        for path in words[1:]:
            if re.search(r"(?:^|/)\.\w", path):
                yield Reach(path, Access.READ)


def _searched(options: list[tuple[str, str]], words: list[str], names: set[str]) -> Iterator[Reach]:
    wanted = [value for name, value in options if name in ("--include", "-g", "--glob", "--iglob") and value[:1] != "!"]
    typed = names & {"-t", "--type"}
    if (wanted and not any(map(may_find_own, wanted))) or typed:
        return
    files = words if names & {"-e", "-f", "--regexp", "--file"} else words[1:]
    for path in files or ["."]:
        yield Reach(path, Access.READ)


def _compared(arguments: list[str]) -> Iterator[Reach]:
    for path in plain_words(arguments) if has_option(arguments, "-r", "--recursive") else ():
        yield Reach(path, Access.READ)


def _found(arguments: list[str]) -> Iterator[Reach]:
    executed = [arguments[at + 1 : at + 2] for at, argument in enumerate(arguments) if argument in EXECUTES]
    changes = "-delete" in arguments or any(program[0] in _CHANGES_FOUND for program in executed if program)
    if (executed or changes) and _finds_own(arguments, settings=changes):
        for start in search_starts(arguments):
            yield Reach(start, Access.DELETE if changes else Access.READ)


_CHANGES_FOUND = frozenset("rm mv sed chmod chown truncate shred unlink tee sh bash perl python python3".split())


def search_starts(arguments: list[str]) -> list[str]:
    """Return the folders in which `find` or `fd` looks."""
    words = list(takewhile(lambda argument: argument[:1] not in ("-", "(", "!"), arguments))
    if not words:
        words = [argument for argument in arguments if re.match(r"[/~.]|\$", argument)]
    return words or ["."]


def _finds_own(arguments: list[str], *, settings: bool = False) -> bool:
    search = read_search(arguments)
    return not search.is_limited or any(may_find_own(name, settings=settings) for name in search.wanted)


def note_search(walk: Walk, arguments: list[str], found: str) -> bool:
    """Remember a search that can find files of Lockgate, whose names another program may get; return whether it can."""
    sections = {
        each.section
        for start in search_starts(arguments)
        for each in find_own(walk.plain(start), walk.project, walk.folder)
    }
    if "secrets" in sections and _finds_own(arguments):
        walk.searched.add(found)
    if "settings" in sections and _finds_own(arguments, settings=True):
        walk.searched_settings.add(found)
    return found in walk.searched or found in walk.searched_settings


_GIT_WRITES = frozenset(
    "checkout restore reset clean pull merge rebase stash apply am switch rm mv read-tree checkout-index "
    "cherry-pick".split()
)


# These make or fill a folder that is named last.
_GIT_PLACES = frozenset("clone worktree submodule subtree".split())
_GIT_VALUED = frozenset("-C -c --work-tree --git-dir --namespace --exec-path".split())


# These print or keep what the files of a work tree hold; which files those are, the index says, and `--no-index` all.
_GIT_SHOWS = frozenset("archive commit diff diff-files diff-index difftool grep stash status".split())
_GIT_TREES = ("--work-tree", "--git-dir")


def _git(arguments: list[str]) -> Iterator[Reach]:
    verb, rest = [*program_after(arguments, _GIT_VALUED), ""][0], program_after(arguments, _GIT_VALUED)[1:]
    options = split_options(arguments[: len(arguments) - len(rest)], _GIT_VALUED)[0]
    tree = _git_tree(options)
    if verb in _GIT_SHOWS:
        yield from _git_shown(verb, rest, tree, options)
    if verb in _GIT_WRITES or verb == "add":
        access = Access.WRITE if verb != "add" else Access.READ
        yield Reach(tree, access)
        for path in plain_words(rest[rest.index("--") + 1 :] if "--" in rest else rest):
            yield Reach(_below(tree, path), access)
    elif verb in _GIT_PLACES:
        # The address as well: without a folder its last name is the folder.
        yield from _owned([*plain_words(rest), *(value for _, value in long_values(rest))])
    elif verb == "config":
        options = split_options(rest, frozenset(("-f", "--file")))[0]
        yield from _owned([value for option, value in options if option in ("-f", "--file")])


def _git_tree(options: list[tuple[str, str]]) -> str:
    """Return the folder whose files git works on."""
    tree = "."
    for option, value in options:
        setting, _, named = value.partition("=")
        if option in ("-C", "--work-tree"):
            tree = _below(tree, value)
        elif option == "-c" and setting.lower() == "core.worktree":
            tree = _below(tree, named)
    return tree


def _git_shown(verb: str, rest: list[str], tree: str, options: list[tuple[str, str]]) -> Iterator[Reach]:
    """Yield what is printed: all below a tree that git is led to; else what is tracked in a repository there."""
    if any(option in _GIT_TREES for option, _ in options):
        if verb != "status" or has_option(rest, "-v", "--verbose"):
            yield Reach(tree, Access.READ)
    elif verb in ("diff", "difftool") and "--no-index" in rest:
        yield from (Reach(_below(tree, path), Access.READ) for path in plain_words(rest))
    elif verb == "grep":
        # `-c grep.fallbackToNoIndex=true`
        settings = [value.lower()[:5] for _, value in options]
        if "grep." in settings or has_option(rest, "--no-index", "--untracked"):
            named = plain_words(rest)[0 if has_option(rest, "-e", "-f") else 1 :]
            yield from (Reach(_below(tree, path), Access.READ) for path in named or ["."])
        else:
            yield Reach(f"{tree}/*/*", Access.READ, below=False)


def _below(folder: str, path: str) -> str:
    return path if folder == "." or path[:1] in ("/", "~", "$") else f"{folder}/{path}"


def _mounted(arguments: list[str]) -> Iterator[Reach]:
    """Folders that a container gets: what runs there can do anything with them."""
    options, _ = split_options(arguments, frozenset(("-v", "--volume", "--mount", "-e", "-w", "-p", "-u", "--name")))
    for option, value in options:
        if option in ("-v", "--volume"):
            yield Reach(value.partition(":")[0], Access.WRITE)
        elif option == "--mount":
            source = re.search(r"(?:source|src)=([^,]+)", value)
            if source is not None:
                yield Reach(source[1], Access.WRITE)


def _interpreted(arguments: list[str]) -> Iterator[Reach]:
    """A script may do anything with a file it is given; some modules of Python work on a whole folder."""
    module = arguments[arguments.index("-m") + 1 :] if "-m" in arguments[:3] else []
    if module[:1] and module[0] in ("zipfile", "tarfile"):
        words = plain_words(module[1:])
        if has_option(module, "-e", "-x", "--extract"):
            yield Reach([*words[1:], "."][0], Access.WRITE)
        else:
            yield from (Reach(path, Access.READ) for path in words)
    elif module[:1] and module[0] in ("venv", "virtualenv"):
        yield from _owned(module[1:])
    elif "http.server" in arguments[:3]:
        options, _ = split_options(arguments, frozenset("-m -d --directory -b --bind".split()))
        values = dict(options)
        yield Reach(values.get("-d") or values.get("--directory") or ".", Access.READ)
    elif arguments and arguments[0][:1] != "-":
        for path in plain_words(arguments[1:]):
            yield Reach(path, Access.WRITE, below=False)


def _served(arguments: list[str]) -> Iterator[Reach]:
    for path in plain_words(arguments) or ["."]:
        yield Reach(path, Access.READ)


def _awk(arguments: list[str]) -> Iterator[Reach]:
    return _written(arguments) if "inplace" in arguments else iter(())


_REACHES: dict[str, Callable[[list[str]], Iterator[Reach]]] = {
    **dict.fromkeys("rm unlink shred srm trash rimraf del".split(), _deleted),
    **dict.fromkeys(("mv", "gmv"), _moved),
    **dict.fromkeys(("cp", "gcp", "install"), _copied),
    **dict.fromkeys(("rsync", "scp"), _synchronised),
    "ln": _linked,
    **dict.fromkeys(("tar", "bsdtar", "gtar"), _archived),
    **dict.fromkeys(("unzip", "bsdunzip", "unar"), _unzipped),
    **dict.fromkeys("zip 7z 7za 7zz rar unrar".split(), _zipped),
    "cpio": _cpio,
    "chmod": _chmod,
    **dict.fromkeys("chown chgrp chattr setfacl xattr chflags".split(), _owned),
    **dict.fromkeys("sponge touch crudini".split(), _written),
    **dict.fromkeys(
        "stow restic borg rclone duplicity rdiff-backup unison sshfs bindfs mount pax ditto patch".split(), _everything
    ),
    **dict.fromkeys("grep egrep fgrep rgrep zgrep ggrep pcregrep pcre2grep".split(), _grepped),
    **dict.fromkeys("rg ripgrep ag ack ugrep ug".split(), _ripgrepped),
    **dict.fromkeys(("diff", "colordiff"), _compared),
    **dict.fromkeys(("find", "fd", "fdfind", "gfind"), _found),
    "git": _git,
    **dict.fromkeys(("docker", "podman", "nerdctl"), _mounted),
    **dict.fromkeys("python python3 node ruby perl php bash sh zsh deno bun".split(), _interpreted),
    **dict.fromkeys(("serve", "http-server", "webfsd", "darkhttpd"), _served),
    **dict.fromkeys(("awk", "gawk"), _awk),
    "virtualenv": _owned,
}
