"""What a program does to Lockgate's own files, by its arguments: `protected_paths.py` says which paths those are.

Most programs work on the paths they are given, and their readers say how. Here stand the programs that reach everything
below a folder, and those that change a file in a way no reader knows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from posixpath import splitext
from typing import TYPE_CHECKING, NamedTuple

from lockgate.core.ruling.effects.program_io import MARK, Invocation
from lockgate.core.ruling.effects.programs.lockgate_processes import RUNNERS, note_own_processes
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

_Reader = Callable[[list[str]], Iterable[Reach]]


def _on_words(access: Access, *only: str, below: bool = True, here: bool = False) -> _Reader:
    """Return the reader of a program that works on its words, where `only` is empty or one of these options is given.

    With `here` a program without words works on the folder that it is in.
    """

    def read(arguments: list[str]) -> list[Reach]:
        words = plain_words(arguments) or (["."] if here else [])
        return [Reach(path, access, below) for path in words if not only or has_option(arguments, *only)]

    return read


def _everything(arguments: list[str]) -> Iterator[Reach]:
    for argument in arguments:
        value = argument.partition("=")[2] or argument[2:]
        yield Reach(value if argument[:1] == "-" else argument, Access.WRITE)


_TARGETS = frozenset(("-t", "--target-directory"))
_COPY_VALUED = _TARGETS | frozenset("-S --suffix -m --mode -o --owner -g --group".split())
_RSYNC_VALUED = frozenset(
    "-e --rsh --exclude --include --exclude-from --files-from -f --filter --port --rsync-path -i --log-file --temp-dir "
    "-T --link-dest --backup-dir --chmod --chown".split()
)
_OVER_TARGET = ("-T", "--no-target-directory", "--delete", "--delete-after", "--delete-before", "--delete-excluded")
_REMOTE = re.compile(r"[\w.@-]+:")


def _copies(access: Access, valued: frozenset[str] = _COPY_VALUED) -> _Reader:
    """Return the reader of a program that puts its first words into the last one."""

    def read(arguments: list[str]) -> Iterator[Reach]:
        options, paths = split_options(arguments, valued)
        target = next((value for name, value in options if name in _TARGETS), "") or (paths.pop() if paths else "")
        for source in paths:
            path = _REMOTE.sub("", source, count=1)
            if path == source:
                yield Reach(source, access)
            name = path.rstrip("/").rpartition("/")[2]
            # A slash behind a source of `rsync` stands for what is in the folder.
            is_content = name in (".", "..", ".*", "") or (valued is _RSYNC_VALUED and path[-1:] == "/")
            # A target with the ending of the source is a file, and no folder that gets one.
            is_file = splitext(target)[1] == splitext(name)[1] != ""
            yield Reach(target if is_content or is_file else f"{target.rstrip('/') or '/'}/{name}", Access.WRITE)
        if has_option(arguments, *_OVER_TARGET[valued is _RSYNC_VALUED :]):
            yield Reach(target, Access.WRITE)

    return read


def _linked(arguments: list[str]) -> Iterator[Reach]:
    """What is linked can be changed under its other name."""
    paths = split_options(arguments, _COPY_VALUED)[1]
    yield from (Reach(path, Access.WRITE) for path in paths[:-1] or paths)


_TAR_VALUED = frozenset("-f --file -T --files-from -X --exclude --exclude-from -I --transform -g".split())


def _packs(folder_options: str, unpacking: str = "", looking: str = "") -> _Reader:
    """Return the reader of a packer; it unpacks with one of the options `unpacking`, or without any of `looking`."""
    into, unpacks, looks = (frozenset(options.split()) for options in (folder_options, unpacking, looking))

    def read(arguments: list[str]) -> Iterator[Reach]:
        if re.fullmatch(r"[A-Za-z]+", "".join(arguments[:1])):
            arguments = ["-" + arguments[0], *arguments[1:]]
        options, paths = split_options(arguments, into | _TAR_VALUED if "-C" in into else into)
        names = {name for name, _ in options}
        folder = next((value for name, value in options if name in into), ".")
        if names & unpacks if unpacks else names.isdisjoint(looks):
            # With `-P` an archive says itself which path it writes.
            yield Reach("/" if names & {"-P", "--absolute-names"} else folder, Access.WRITE)
        else:
            yield from (Reach(_below(folder, path), Access.READ) for path in paths)

    return read


# A folder that its owner may not enter hides all that is below it.
_LOCKS = re.compile(r"0?0?[0246][0-7]{2}|0|[ugoa]*[ua][go]*-[rwst]*x[rwst]*|-[rwst]*x[rwst]*|[ugoa]*[ua][go]*=[rwst]*")


def _chmod(arguments: list[str]) -> Iterator[Reach]:
    below = has_option(arguments, "-R", "--recursive") or any(map(_LOCKS.fullmatch, arguments))
    yield from (Reach(path, Access.WRITE, below) for path in plain_words(arguments))


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
_GIT_SHOWS = frozenset("archive commit diff diff-files diff-index difftool grep stash".split())


def _git(arguments: list[str]) -> Iterator[Reach]:
    verb, *rest = program_after(arguments, _GIT_VALUED) or [""]
    options = split_options(arguments[: len(arguments) - len(rest)], _GIT_VALUED)[0]
    tree = _git_tree(options)
    yield from _git_shown(verb, rest, tree, options)
    if verb in _GIT_WRITES or verb == "add":
        access = Access.WRITE if verb != "add" else Access.READ
        words = plain_words(rest[rest.index("--") + 1 :] if "--" in rest else rest)
        yield from (Reach(_below(tree, path), access) for path in (".", *words))
    elif verb in _GIT_PLACES:
        # The address as well: without a folder its last name is the folder.
        places = [*plain_words(rest), *(value for _, value in long_values(rest))]
        yield from (Reach(path, Access.WRITE) for path in places)
    elif verb == "config":
        files = split_options(rest, frozenset(("-f", "--file")))[0]
        yield from (Reach(value, Access.WRITE) for option, value in files if option in ("-f", "--file"))


def _git_shown(verb: str, rest: list[str], tree: str, options: list[tuple[str, str]]) -> Iterator[Reach]:
    """Yield what is printed: all below a tree that git is led to; else what is tracked in a repository there."""
    if any(option in ("--work-tree", "--git-dir") for option, _ in options):
        if verb in _GIT_SHOWS or (verb == "status" and has_option(rest, "-v", "--verbose")):
            yield Reach(tree, Access.READ)
    elif verb in ("diff", "difftool", "grep"):
        # `-c grep.fallbackToNoIndex=true`
        if has_option(rest, "--no-index", "--untracked") or any(value.lower()[:5] == "grep." for _, value in options):
            has_pattern = verb == "grep" and not has_option(rest, "-e", "-f")
            yield from (Reach(_below(tree, path), Access.READ) for path in plain_words(rest)[has_pattern:] or ["."])
        elif verb == "grep":
            yield Reach(f"{tree}/*/*", Access.READ, below=False)


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


def _below(folder: str, path: str) -> str:
    return path if folder == "." or path[:1] in ("/", "~", "$") else f"{folder}/{path}"


def _mounted(arguments: list[str]) -> Iterator[Reach]:
    """Folders that a container gets: what runs there can do anything with them."""
    for option, value in split_options(arguments, frozenset(("-v", "--volume", "--mount")))[0]:
        source = re.search(r"(?:source|src)=([^,]+)", value) if option == "--mount" else None
        if source or option in ("-v", "--volume"):
            yield Reach(source[1] if source else value.partition(":")[0], Access.WRITE)


def _interpreted(arguments: list[str]) -> Iterator[Reach]:
    """A script may do anything with a file it is given; some modules of Python work on a whole folder."""
    module, *rest = arguments[arguments.index("-m") + 1 :] or [""] if "-m" in arguments[:3] else [""]
    words = plain_words(rest)
    if module in ("zipfile", "tarfile") and has_option(rest, "-e", "-x", "--extract"):
        yield Reach([*words[1:], "."][0], Access.WRITE)
    elif module in ("zipfile", "tarfile"):
        yield from (Reach(path, Access.READ) for path in words)
    elif module in ("venv", "virtualenv"):
        yield from (Reach(path, Access.WRITE) for path in words)
    elif module == "http.server":
        values = dict(split_options(rest, frozenset(("-d", "--directory")))[0])
        yield Reach(values.get("-d") or values.get("--directory") or ".", Access.READ)
    elif arguments and arguments[0][:1] != "-":
        yield from (Reach(path, Access.WRITE, below=False) for path in plain_words(arguments[1:]))


_REACHES: dict[str, _Reader] = {
    program: reader
    for programs, reader in (
        ("rm unlink shred srm trash rimraf del", _on_words(Access.DELETE)),
        ("chown chgrp chattr setfacl xattr chflags virtualenv", _on_words(Access.WRITE)),
        ("sponge touch crudini", _on_words(Access.WRITE, below=False)),
        ("awk gawk", _on_words(Access.WRITE, "-i", below=False)),
        ("diff colordiff", _on_words(Access.READ, "-r", "--recursive")),
        ("serve http-server webfsd darkhttpd", _on_words(Access.READ, here=True)),
        ("stow restic borg rclone duplicity rdiff-backup unison sshfs bindfs mount pax ditto patch", _everything),
        ("mv gmv", _copies(Access.DELETE)),
        ("cp gcp install", _copies(Access.READ)),
        ("rsync scp", _copies(Access.READ, _RSYNC_VALUED)),
        ("ln", _linked),
        ("tar bsdtar gtar", _packs("-C --directory", unpacking="-x --extract --get")),
        ("zip 7z 7za 7zz rar unrar", _packs("-o", unpacking="-x -e")),
        ("unzip bsdunzip unar", _packs("-d", looking="-l -p -t -v -Z")),
        ("cpio", _packs("-D --directory", looking="-o --create -t --list")),
        ("chmod", _chmod),
        ("grep egrep fgrep rgrep zgrep ggrep pcregrep pcre2grep", _grepped),
        ("rg ripgrep ag ack ugrep ug", _ripgrepped),
        ("find fd fdfind gfind", _found),
        ("git", _git),
        ("docker podman nerdctl", _mounted),
        ("python python3 node ruby perl php bash sh zsh deno bun", _interpreted),
    )
    for program in programs.split()
}
