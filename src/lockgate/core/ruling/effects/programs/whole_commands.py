"""Programs that only Python can say: searches, scripts of `sed`, pushes, clouds, clusters, the jobs of a crontab."""

from __future__ import annotations

import re
from itertools import takewhile
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.paths import Access, is_secret
from lockgate.core.ruling.effects.programs.options import EXECUTES, read_search
from lockgate.core.ruling.effects.programs.program_rows import FORMS, PACKAGE, TABLE, WORDS
from lockgate.core.ruling.effects.programs.roles import (
    NO_FILES,
    PATTERNS,
    Use,
    note_kind,
    note_setting,
    remote_target,
)
from lockgate.core.ruling.effects.programs.shared_effects import kinds_of_request_to
from lockgate.core.ruling.effects.shell_syntax import NO_OUTPUT, UNKNOWN_OUTPUT, Output, Source, decode_escapes
from lockgate.core.tables import read_table

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk


# Folders times names times words that one search may have.
MOST_SEARCHED = 10_000


def finish_finds(use: Use) -> Output:
    """What `find` and `fd` run, delete and write, for each name that they look for."""
    walk, arguments = use.walk, use.call.arguments
    starts = list(takewhile(lambda argument: argument[:1] not in ("-", "(", "!"), arguments)) or ["."]
    search = read_search(arguments)
    wanted = [*dict.fromkeys(filter(None, search.wanted))]
    names = wanted if search.is_limited and wanted else ["found", *filter(is_secret, wanted)]
    if len(starts) * len(names) > 1 and len(starts) * len(names) * len(arguments) > MOST_SEARCHED:
        walk.add_unreadable()
        return UNKNOWN_OUTPUT
    found = [_path_found(walk, start, name) for start in starts for name in names]
    _act_on_found(walk, arguments, found, deleted=["/"] if "/" in starts else found)
    secrets = (path for path in found if is_secret(walk.plain(path), walk.folder))
    return Output(Source.NONE, target=next(secrets, found[0]))


def _act_on_found(walk: Walk, arguments: list[str], found: list[str], *, deleted: list[str]) -> None:
    rest = iter(arguments)
    for argument in rest:
        if argument in EXECUTES:
            inner = list(takewhile(lambda part: part not in (";", "+"), rest))
            for path in found if inner else ():
                walk.run_program([part.replace("{}", path) for part in inner], NO_OUTPUT)
        elif argument == "-delete":
            for path in deleted:
                walk.access(path, Access.DELETE)
        elif argument in ("-fprint", "-fprintf", "-fls"):
            walk.access(next(rest, ""), Access.WRITE)


def _path_found(walk: Walk, start: str, name: str) -> str:
    """Return a path that stands for what a search finds; where that is all of a folder, the folder does."""
    is_folder = is_secret(walk.plain(start), walk.folder) or (name == "found" and start[:1] == "/")
    return start if is_folder else f"{start.rstrip('/')}/{name.lstrip('/')}"


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


def files_of_sed(script: str) -> frozenset[str] | None:
    """Return the files that a script writes to besides its own; nothing for one that runs a command."""
    at, writes = 0, set[str]()
    while match := FORMS["sed command"].match(script, at):
        if match["end"] is not None:
            return frozenset(writes)
        if match["runs"] or match["result"]:
            break
        writes.update(path.strip() for path in match.group("file", "changed") if path is not None)
        at = match.end()
    return None


def finish_edits(use: Use) -> Output:
    """What a script of `sed` runs and writes, and the text that is left."""
    walk, stdin, paths, scripts = use.walk, use.call.stdin, use.operands, use.values.get("script", [])
    if not scripts and not use.wants("-f", "--file"):
        scripts, paths = paths[:1], paths[1:]
    # Several pieces are one script, of which each is a line.
    script = "\n".join(scripts)
    written = files_of_sed(script) if len(script) <= MOST_SCRIPT else None
    if written is None:
        walk.add_unreadable()
    in_place = "in-place" in use.modes
    for path in (*sorted((written or frozenset()) - NO_FILES), *(paths if in_place else ())):
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
    kinds = kinds_of_request_to(method, f"/{path.lstrip('/')}", body)
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


VERBS, VERB_COLUMNS = "verbs", ("effect", "pattern")
_VERBS = {effect: re.compile(pattern) for effect, pattern in read_table(PACKAGE, TABLE, VERBS, VERB_COLUMNS)}
# In this order: the gravest reading of a verb counts.
_KINDS = ("disables-check", "grants-access", "makes-key", "deletes-data")


def _has(effect: str, words: list[str]) -> bool:
    return any(_VERBS[effect].fullmatch(word.lower()) for word in words)


def _show_secret(use: Use, target: str) -> Output:
    use.walk.add("reads-secret", target)
    return Output(Source.SECRET, target=use.walk.plain(target))


def finish_asks_cloud(use: Use) -> Output:
    """Ask a cloud by its service and the verb behind it; what changes its users and roles grants access."""
    words, line = use.operands, " ".join(use.operands)
    if FORMS["secret nouns"].search(line):
        return _show_secret(use, words[-1])
    at = _place_of_verb(words, use.call.name)
    target = words[at + 1] if 0 <= at < len(words) - 1 else " ".join(words[:3])
    verbs = words[at : at + 1] if at >= 0 else words
    looks = _has("looks", verbs)
    if not looks:
        note_settings(use.walk, use.call.arguments)
    if _has("reads-secret", verbs):
        return _show_secret(use, target)
    kind = "" if looks else "grants-access" if FORMS["granting nouns"].match(line) else "changes-service"
    if kind := next((kind for kind in _KINDS if _has(kind, verbs)), kind):
        use.walk.add(kind, target)
    return UNKNOWN_OUTPUT


def _place_of_verb(words: list[str], program: str) -> int:
    """Return where the verb is: the second word of AWS, and of the others one of those behind the first; or -1."""
    are_verbs = [any(pattern.fullmatch(word.lower()) for pattern in _VERBS.values()) for word in words[1:]]
    return 1 if program == "aws" else 1 + are_verbs.index(True) if True in are_verbs else -1


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


def note_settings(walk: Walk, arguments: list[str]) -> None:
    """Note what the settings among these arguments weaken, and where the images that they name come from."""
    for argument, following in zip(arguments, [*arguments[1:], ""], strict=True):
        plain = walk.plain(argument)[:2_000]
        if plain in ("--image", "--registry", "--backup-retention-period"):
            plain += f"={walk.plain(following)}"
        for kind in ("weakens", "weakening flag", "opens to all"):
            for match in FORMS[kind].finditer(plain):
                walk.add("disables-check", match.group())
