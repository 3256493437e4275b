"""`git`, `gh` and their like: what leaves the machine, what rewrites history, and settings that run programs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.paths import Access
from lockgate.core.ruling.effects.program_io import UNKNOWN_OUTPUT, Invocation, Output, Source
from lockgate.core.ruling.effects.programs.option_uses import is_foreign
from lockgate.core.ruling.effects.programs.options import has_option, split_options
from lockgate.core.ruling.effects.programs.program_table import command_words, read_row
from lockgate.core.ruling.effects.programs.roles import note_sent
from lockgate.core.ruling.effects.programs.url_hosts import host_of

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk

# Settings whose value is a program that git starts by itself.
_RUNNING_SETTING = re.compile(
    r"(?i)core\.(?:sshcommand|hookspath|fsmonitor|editor|pager|gitproxy|askpass|attributesfile|worktree)|alias\..*|.*\.(?:textconv|command|cmd|smudge|clean|process|driver|helper|program|path)"
    r"|url\..*\.(?:insteadof|pushinsteadof)|include(?:if\..*)?\.path|credential\.helper|gpg(?:\..*)?\.program|protocol\..*allow|sequence\.editor|uploadpack\..*hook|remote\..*\.(?:url|pushurl|uploadpack|receivepack|proxy)|http\..*proxy|http\.sslverify|init\.templatedir|submodule\..*\.(?:url|update)|commit\.template"
)

# Branches that no one means by "the old branches".
_TRUNKS = frozenset({"main", "master", "trunk", "develop", "production"})


def remote_target(walk: Walk, remote: str) -> str:
    """Return what a remote stands for: its host when it is an address, otherwise its name."""
    plain = walk.plain(remote)
    if "://" in plain:
        return host_of(plain)
    match = re.match(r"(?:[\w.-]+@)?([\w-]+(?:\.[\w-]+)+):", plain)
    return match.group(1).lower() if match else plain


def _git(walk: Walk, call: Invocation) -> Output:
    folder = walk.folder
    verb, rest = _git_verb(walk, call.arguments)
    _note_patch(walk, verb, call.stdin)
    if "--ext-diff" in rest:
        walk.add("runs-program", "diff.external")
    reader = _GIT.get(verb)
    result = reader(walk, rest) if reader is not None else None
    if result is None and verb:
        if any(argument in ("--dry-run", "--help") for argument in rest):
            result = UNKNOWN_OUTPUT
        else:
            result = read_row(walk, call._replace(arguments=[verb, *rest]))
    walk.folder = folder
    return result or UNKNOWN_OUTPUT


def _git_verb(walk: Walk, arguments: list[str]) -> tuple[str, list[str]]:
    """Note what git's own options do; return its command word and what follows."""
    index = 0
    while index < len(arguments) and arguments[index][:1] == "-":
        option = arguments[index]
        value = arguments[index + 1] if index + 1 < len(arguments) else ""
        if option == "-c":
            note_setting(walk, *_setting(value))
            index += 2
        elif option == "-C":
            walk.enter_folder(value)
            index += 2
        elif option == "--config-env" or option.startswith("--config-env="):
            given = option.partition("=")[2] or value
            note_setting(walk, given.partition("=")[0], "$" + given.partition("=")[2])
            index += 1 if "=" in option else 2
        elif option in ("--git-dir", "--work-tree", "--namespace", "--exec-path"):
            index += 2
        else:
            if option.startswith("--exec-path="):
                walk.add("installs-hook", option.split("=", 1)[1])
            index += 1
    return (arguments[index], arguments[index + 1 :]) if index < len(arguments) else ("", [])


def _note_patch(walk: Walk, verb: str, stdin: Output) -> None:
    if verb in ("apply", "am") and stdin.source is Source.DOWNLOAD:
        walk.add("embeds-remote-code", stdin.target)


_IDENTITY = frozenset("user.name user.email author.name author.email committer.name committer.email".split())


def _setting(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value


# Values of such settings that are ordinary: an editor by name, a helper that git brings along, an alias of git's own.
_ORDINARY_SETTINGS: tuple[tuple[re.Pattern[str], re.Pattern[str]], ...] = (
    (re.compile(r"core\.(?:editor|pager)|sequence\.editor"), re.compile(r"(?!.*/tmp)[\w./-]+(?: --?[\w=-]+)*")),
    (
        re.compile(r"credential\.helper"),
        re.compile(r"(?:(?:store|cache|osxkeychain|manager|manager-core|libsecret|wincred|gh)(?: --?[\w=]+.*)?)?"),
    ),
    (re.compile(r"alias\..*"), re.compile(r"[^!].*", re.DOTALL)),
    (re.compile(r"core\.(?:fsmonitor|worktree)|commit\.template"), re.compile(r"true|false|")),
)


def note_setting(walk: Walk, name: str, value: str) -> None:
    """Note a setting of git that runs a program or moves a remote."""
    plain, lower = walk.plain(value), name.lower()
    if lower in _IDENTITY and plain:
        walk.add("signs-as", plain)
        return
    if not _RUNNING_SETTING.fullmatch(name):
        return
    if lower == "http.sslverify":
        if plain.lower() in ("false", "0", "no"):
            walk.add("disables-check", "http.sslVerify")
    elif "insteadof" in lower or lower.endswith((".url", ".pushurl")):
        found = re.search(r"url\.(.+)\.(?:push)?insteadof", name, re.IGNORECASE)
        walk.add("changes-remote", remote_target(walk, found.group(1) if found else plain))
    elif any(names.fullmatch(lower) and values.fullmatch(plain) for names, values in _ORDINARY_SETTINGS):
        walk.add("commits")
    elif lower == "core.hookspath" and plain in ("/dev/null", ""):
        walk.add("disables-check", "hooks")
    else:
        walk.add("installs-hook", f"{name}={plain}")
        if value[:1] == "!":
            walk.read_text(value[1:])


def _git_config(walk: Walk, arguments: list[str]) -> Output | None:
    options, rest = split_options(arguments, frozenset("-f --file --blob --type --default --value".split()))
    names = {option for option, _ in options}
    if names & {"--get", "--get-all", "--get-regexp", "--list", "-l", "--get-urlmatch", "--show-origin", "--name-only"}:
        return UNKNOWN_OUTPUT
    if rest[:1] in (["get"], ["list"]):
        return UNKNOWN_OUTPUT
    if rest[:1] in (["set"], ["unset"], ["edit"], ["rename-section"], ["remove-section"]):
        rest = rest[1:]
    if names & {"--unset", "--unset-all", "--remove-section"}:
        walk.add("commits")
        return UNKNOWN_OUTPUT
    if len(rest) == 1:
        return UNKNOWN_OUTPUT
    if len(rest) >= 2:
        note_setting(walk, rest[0], rest[1])
    walk.add("commits")
    return UNKNOWN_OUTPUT


def _git_push(walk: Walk, arguments: list[str]) -> Output | None:
    options, rest = split_options(arguments, frozenset("-o --push-option --receive-pack --exec --repo".split()))
    names = {option for option, _ in options}
    if names & {"-n", "--dry-run"}:
        return UNKNOWN_OUTPUT
    for option, value in options:
        if option in ("--receive-pack", "--exec"):
            walk.read_text(value)
    remote = remote_target(walk, rest[0]) if rest else "origin"
    forced = names & {"-f", "--force", "--mirror", "--force-with-lease", "--force-if-includes"} or any(
        ref.startswith("+") for ref in rest[1:]
    )
    if forced:
        walk.add("rewrites-history", remote)
    _note_deleted(walk, remote, names, rest[1:])
    walk.add("pushes", remote)
    return UNKNOWN_OUTPUT


def _note_deleted(walk: Walk, remote: str, options: set[str], refs: list[str]) -> None:
    """Note the remote and each branch that a push deletes: a goal that only names one of them wants no deletion."""
    is_deletion = not options.isdisjoint({"-d", "--delete"})
    deleted = [ref.removeprefix(":") for ref in refs if is_deletion or (ref.startswith(":") and len(ref) > 1)]
    if deleted or is_deletion or "--prune" in options:
        walk.add("deletes-branch", remote)
    for ref in deleted:
        branch = walk.plain(ref).removeprefix("refs/heads/")
        walk.add("deletes-branch", branch)
        if branch in _TRUNKS:
            walk.add("rewrites-history", remote)


def _git_clone(walk: Walk, arguments: list[str]) -> Output | None:
    valued = frozenset(
        "-b --branch --depth -o --origin -u --upload-pack --reference --template -c --config "
        "--separate-git-dir -j --jobs --filter --shallow-since --recurse-submodules".split()
    ) - {"--recurse-submodules"}
    options, rest = split_options(arguments, valued)
    for option, value in options:
        if option in ("-c", "--config"):
            note_setting(walk, *_setting(value))
        elif option in ("-u", "--upload-pack"):
            walk.read_text(value)
        elif option == "--template":
            walk.add("installs-hook", value)
    if not rest:
        return UNKNOWN_OUTPUT
    address = walk.plain(rest[0])
    if re.match(r"ext::|fd::", address):
        walk.read_text(address.split("::", 1)[1])
        return UNKNOWN_OUTPUT
    folder = rest[1] if len(rest) > 1 else re.sub(r"(?:\.git)?/?$", "", address).rsplit("/", 1)[-1].rsplit(":", 1)[-1]
    if "://" not in address and "@" not in address and not re.match(r"[\w.-]+:", address):
        walk.access(folder, Access.WRITE)
        return UNKNOWN_OUTPUT
    host = remote_target(walk, rest[0])
    walk.add("clones", host)
    walk.access(folder, Access.WRITE)
    walk.downloads[walk.full_path(folder)] = host
    return UNKNOWN_OUTPUT


def _git_remote(walk: Walk, arguments: list[str]) -> Output | None:
    rest = [argument for argument in arguments if argument[:1] != "-"]
    verb = rest[0] if rest else ""
    if verb in ("add", "set-url") and len(rest) >= 3:
        target = remote_target(walk, rest[2])
        if walk.project.remotes.get(rest[1]) == rest[2]:
            walk.add("commits")
        else:
            walk.add("changes-remote", target)
        return UNKNOWN_OUTPUT
    if verb in ("remove", "rm", "rename", "prune", "set-head", "set-branches"):
        walk.add("commits")
    return UNKNOWN_OUTPUT


def _git_fetch(walk: Walk, arguments: list[str]) -> Output | None:
    options, rest = split_options(
        arguments,
        frozenset(
            "--upload-pack --depth -j --jobs --deepen --shallow-since --refmap -o --rebase -s --strategy -X".split()
        ),
    )
    for option, value in options:
        if option == "--upload-pack":
            walk.read_text(value)
    if rest and ("://" in rest[0] or "@" in rest[0]):
        walk.add("clones", remote_target(walk, rest[0]))
    elif rest and rest[0].startswith("ext::"):
        walk.read_text(rest[0][5:])
    return None


def _git_branch(walk: Walk, arguments: list[str]) -> Output | None:
    if (
        not arguments
        or all(argument in _LISTING for argument in arguments)
        or has_option(
            arguments,
            "--list",
            "-l",
            "--contains",
            "--merged",
            "--no-merged",
            "--show-current",
            "--format",
            "--points-at",
        )
    ):
        return UNKNOWN_OUTPUT
    walk.add("commits")
    return UNKNOWN_OUTPUT


_LISTING = frozenset(
    "-a -r -v -vv -av -rv -avv --all --remotes --verbose -q --no-color --sort --show-current --color".split()
)


def _git_tag(walk: Walk, arguments: list[str]) -> Output | None:
    if not arguments or has_option(
        arguments, "-l", "--list", "--contains", "--sort", "-n", "--points-at", "-v", "--verify", "--merged"
    ):
        return UNKNOWN_OUTPUT
    walk.add("commits")
    return UNKNOWN_OUTPUT


def _git_rewrite(walk: Walk, arguments: list[str]) -> Output | None:
    for index, argument in enumerate(arguments[:-1]):
        if argument in (
            "--tree-filter",
            "--index-filter",
            "--msg-filter",
            "--env-filter",
            "--commit-filter",
            "--parent-filter",
            "--tag-name-filter",
        ):
            walk.read_text(arguments[index + 1])
    walk.add("rewrites-history", "local history")
    return UNKNOWN_OUTPUT


def _git_submodule(walk: Walk, arguments: list[str]) -> Output | None:
    rest = [argument for argument in arguments if argument[:1] != "-"]
    if rest[:1] == ["add"] and len(rest) > 1:
        walk.add("clones", remote_target(walk, rest[1]))
        return UNKNOWN_OUTPUT
    if rest[:1] == ["set-url"] and len(rest) > 2:
        walk.add("changes-remote", remote_target(walk, rest[2]))
        return UNKNOWN_OUTPUT
    if rest[:1] == ["foreach"] and len(rest) > 1:
        walk.read_text(" ".join(arguments[arguments.index("foreach") + 1 :]))
    return None


def _git_running(walk: Walk, arguments: list[str]) -> Output | None:
    """Verbs with a program among their options: `rebase --exec`, `bisect run`, `difftool -x`."""
    for index, argument in enumerate(arguments):
        following = arguments[index + 1] if index + 1 < len(arguments) else ""
        if argument in ("-x", "--exec", "--extcmd") and following:
            walk.read_text(following)
        elif argument.startswith(("--exec=", "--extcmd=", "--upload-pack=", "--open-files-in-pager=")):
            walk.read_text(argument.split("=", 1)[1])
        elif argument == "run" and index == 0 and following:
            walk.run_program(arguments[1:], UNKNOWN_OUTPUT)
            break
    return None


def _git_commit(walk: Walk, arguments: list[str]) -> Output | None:
    for option, value in split_options(arguments, _COMMIT_VALUED)[0]:
        if option in ("--author", "--date") and value:
            address = re.search(r"<([^<>]+)>", value)
            walk.add("signs-as", address.group(1) if address else value)
    walk.add("commits")
    return UNKNOWN_OUTPUT


_COMMIT_VALUED = frozenset(
    "-m --message -F --file -C -c --reuse-message --reedit-message --author --date -t --template --fixup --squash "
    "--trailer --cleanup".split()
)


def _git_show(walk: Walk, arguments: list[str]) -> Output | None:
    """`git show REV:PATH` prints a file."""
    for argument in arguments:
        _, colon, path = argument.partition(":")
        if colon and path:
            return walk.print_file(path)
    return None


def _git_archive(walk: Walk, arguments: list[str]) -> Output | None:
    options, _ = split_options(arguments, frozenset("-o --output --remote --exec --prefix --format".split()))
    for option, value in options:
        if option in ("-o", "--output"):
            walk.access(value, Access.WRITE)
        elif option == "--remote":
            walk.add("clones", remote_target(walk, value))
        elif option == "--exec":
            walk.read_text(value)
    return Output(Source.FILE, target=".")


def _git_send(walk: Walk, arguments: list[str]) -> Output | None:
    walk.add("sends-message", walk.plain(arguments[-1]) if arguments else "")
    return UNKNOWN_OUTPUT


def _git_daemon(walk: Walk, arguments: list[str]) -> Output | None:
    del arguments
    walk.add("opens-port", "9418")
    return UNKNOWN_OUTPUT


def _git_credential(walk: Walk, arguments: list[str]) -> Output | None:
    del arguments
    walk.add("reads-secret", "git credential")
    return UNKNOWN_OUTPUT


def _git_paths(walk: Walk, arguments: list[str]) -> Output | None:
    """Verbs that show or record the content of the files they name."""
    if not has_option(arguments, "--stat", "--name-only", "--name-status", "--quiet", "--shortstat"):
        for argument in arguments:
            if argument[:1] != "-":
                walk.print_file(argument)
    return None


def _git_log(walk: Walk, arguments: list[str]) -> Output | None:
    return _git_paths(walk, arguments) if has_option(arguments, "-p", "-u", "--patch", "-L", "-G", "-S") else None


def _git_apply(walk: Walk, arguments: list[str]) -> Output | None:
    """`git apply` and `git am`: a patch from elsewhere is code from elsewhere."""
    if not has_option(arguments, "--check", "--stat", "--numstat", "--summary"):
        for argument in arguments:
            if argument[:1] != "-" and is_foreign(walk, argument):
                walk.run_path(argument)
    return None


_GIT: dict[str, Callable[[Walk, list[str]], Output | None]] = {
    "config": _git_config,
    "push": _git_push,
    "add": _git_paths,
    "stage": _git_paths,
    "diff": _git_paths,
    "log": _git_log,
    "apply": _git_apply,
    "am": _git_apply,
    "clone": _git_clone,
    "remote": _git_remote,
    "fetch": _git_fetch,
    "pull": _git_fetch,
    "branch": _git_branch,
    "tag": _git_tag,
    "filter-branch": _git_rewrite,
    "filter-repo": _git_rewrite,
    "submodule": _git_submodule,
    "rebase": _git_running,
    "bisect": _git_running,
    "difftool": _git_running,
    "grep": _git_running,
    "ls-remote": _git_fetch,
    "commit": _git_commit,
    "show": _git_show,
    "archive": _git_archive,
    "send-email": _git_send,
    "daemon": _git_daemon,
    "credential": _git_credential,
}


_APPROVES = (["pr", "merge"], ["mr", "merge"], ["mr", "accept"], ["mr", "approve"])
# The path, and behind it the fields: a field that looks like such a path approves nothing.
_APPROVING_PATH = re.compile(
    r"\S*/(?:pulls|merge_requests)/[^/\s]+/(?:(?:merge|approve)(?: |$)|reviews .*event=APPROVE)"
)
_PUBLISHES_FILES = (["gist", "create"], ["release", "create"], ["release", "upload"], ["snippet", "create"])


def _gh(walk: Walk, call: Invocation) -> Output:
    words = command_words(call)
    verbs = words[:2]
    named = walk.plain([*words, "", "", ""][2])
    if verbs[:1] == ["api"]:
        return _gh_api(walk, call)
    if verbs == ["repo", "clone"]:
        walk.add("clones", named)
        walk.downloads[walk.full_path([*words, ""][3] or named.rsplit("/", 1)[-1])] = named
    elif verbs in (["pr", "checkout"], ["repo", "set-default"]):
        walk.add("commits")
    elif verbs in (["extension", "install"], ["extension", "exec"]):
        walk.add("installs-package", named)
    elif verbs in _APPROVES or (verbs == ["pr", "review"] and has_option(call.arguments, "--approve", "-a")):
        walk.add("approves-change")
        if "--admin" in call.arguments:
            walk.add("disables-check", "branch protection")
    elif verbs[:1] == ["auth"] and verbs[1:] in (["login"], ["logout"], ["refresh"], ["setup-git"]):
        walk.add("changes-login", call.name)
    else:
        if verbs in _PUBLISHES_FILES:
            for stream in [call.stdin, *(walk.read_file(path) for path in words[2:])]:
                note_sent(walk, stream)
        return read_row(walk, call)
    return UNKNOWN_OUTPUT


def _gh_api(walk: Walk, call: Invocation) -> Output:
    options, rest = split_options(
        call.arguments,
        frozenset(
            "-X --method -f -F --field --raw-field -H --header --input -q --jq -t --template --hostname "
            "--cache -p --preview".split()
        ),
    )
    values = dict(options)
    method = (values.get("-X") or values.get("--method") or "").upper()
    path = walk.plain(rest[1]) if len(rest) > 1 else ""
    sends = method in ("POST", "PUT", "PATCH", "DELETE") or (
        not method and any(option in ("-f", "-F", "--field", "--raw-field", "--input") for option in values)
    )
    if path == "graphql":
        sends = "mutation" in "".join(value for _, value in options)
    if not sends:
        return UNKNOWN_OUTPUT
    if method == "DELETE":
        walk.add("deletes-record", path)
    elif _APPROVING_PATH.match(" ".join([path, *(value for _, value in options)])):
        walk.add("approves-change")
    elif re.search(r"collaborators|keys|invitations|protection|permissions|secrets|hooks|members|teams", path):
        walk.add("grants-access", path)
    else:
        walk.add("changes-record", path)
    return UNKNOWN_OUTPUT


READERS = {"git": _git, "gh": _gh, "glab": _gh}
