"""Whole commands of services: the machine's own, clouds and clusters by their verbs, databases by their statements."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.paths import Access
from lockgate.core.ruling.effects.program_io import UNKNOWN_OUTPUT, Output, Source
from lockgate.core.ruling.effects.programs.options import host_of
from lockgate.core.ruling.effects.programs.program_rows import FORMS, PACKAGE, TABLE
from lockgate.core.ruling.effects.programs.roles import PATTERNS, Use, last_word
from lockgate.core.ruling.effects.project import Place
from lockgate.core.ruling.effects.sql import is_scratch_database, read_sql
from lockgate.core.tables import read_table

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk


def finish_controls(use: Use) -> Output:
    """`service NAME VERB` is `systemctl VERB NAME`."""
    name, verb = [*use.operands, "", "status"][:2] if len(use.operands) != 1 else [use.operands[0], "status"]
    return use.walk.run_program(["systemctl", verb or "status", name], use.call.stdin)


def finish_schedules(use: Use) -> Output:
    """Jobs that the input lists, each of which runs later."""
    walk, text = use.walk, use.call.stdin.text
    jobs = FORMS["job"].findall(text) if use.call.name == "crontab" else [text] if text else []
    walk.read_text("\n".join(jobs))
    for job in jobs[:8] or [use.call.name]:
        walk.add("schedules-job", walk.plain(job).strip()[:200])
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
    words = use.operands
    if FORMS["secret nouns"].search(" ".join(words)):
        return _show_secret(use, words[-1])
    at = _place_of_verb(words, use.call.name)
    target = words[at + 1] if 0 <= at < len(words) - 1 else " ".join(words[:3])
    verbs = words[at : at + 1] if at >= 0 else words
    looks = _has("looks", verbs)
    if not looks:
        note_settings(use.walk, use.call.arguments)
    if _has("reads-secret", verbs):
        return _show_secret(use, target)
    is_granting = FORMS["granting nouns"].match(" ".join(words))
    kind = "" if looks else "grants-access" if is_granting else "changes-service"
    if kind := next((kind for kind in _KINDS if _has(kind, verbs)), kind):
        use.walk.add(kind, target)
    return UNKNOWN_OUTPUT


def _place_of_verb(words: list[str], program: str) -> int:
    """Return where the verb is: the second word of AWS, and of the others one of those behind the first; or -1."""
    are_verbs = [any(pattern.fullmatch(word.lower()) for pattern in _VERBS.values()) for word in words[1:]]
    return 1 if program == "aws" else 1 + are_verbs.index(True) if True in are_verbs else -1


def finish_changes_running(use: Use) -> Output:
    """Change a running service, the settings that the command hands to it, and the images that containers run."""
    if use.row.target == "all":
        for name, _, image in (use.walk.plain(word).partition("=") for word in use.operands):
            if name and image:
                note_image_source(use.walk, image)
    else:
        note_settings(use.walk, use.call.arguments)
    use.walk.add("changes-service", last_word(use.call.arguments, use.operands) or use.call.name)
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
    for argument, following in zip(arguments, [*arguments[1:], ""], strict=True):
        plain = walk.plain(argument)[:MOST_SETTING]
        if plain in ("--image", "--registry", "--backup-retention-period"):
            plain += f"={walk.plain(following)}"
        for kind in ("weakens", "weakening flag", "opens to all"):
            for match in FORMS[kind].finditer(plain):
                walk.add("disables-check", match.group())
        for match in FORMS["image"].finditer(plain):
            note_image_source(walk, match.group(1))


def note_image_source(walk: Walk, image: str) -> None:
    """Note that a service runs an image: its host, or its owner and name where there is no host."""
    first, slash, _ = image.partition("/")
    if "." in first and not re.fullmatch(r"v?\d[\w.-]*", first):
        if not walk.project.has_host(host := host_of(image.removeprefix("docker://"))):
            walk.add("changes-service", host)
    elif slash:
        walk.add("changes-service", re.sub(r"(?:@sha256:\w+|:[\w.-]+)$", "", image))


# Databases


def finish_queries(use: Use) -> Output:
    """Statements from options, from files and from the input."""
    streams = [Output(Source.TEXT, statement) for statement in use.values.get("statement", [])]
    for path in use.values.get("statements", []):
        use.walk.load(path)
        content = use.walk.content_of(path)
        if content is not None and content.text is None:
            use.walk.note_unknown_content(path, content)
        streams.append(use.walk.read_file(path))
    # Only now the server is known, which may stand behind the file.
    for stream in (*streams, use.call.stdin):
        _run_statements(use.walk, stream, use.value("away"))
    return UNKNOWN_OUTPUT


def _run_statements(walk: Walk, stream: Output, away: str) -> None:
    """Read statements: known text, or a file of the project (a migration, a dump)."""
    if stream.source is Source.DOWNLOAD:
        walk.add("runs-download", stream.target)
    elif stream.source is Source.FILE:
        walk.add("changes-record" if away else "runs-project-task", away or stream.target)
    elif stream.source is not Source.TEXT:
        return
    elif escape := FORMS["shell escape"].search(stream.text):
        walk.read_text(stream.text[escape.end() :])
    elif not stream.text.lstrip().startswith("\\"):
        _note_statements(walk, stream.text)
    elif "program" in stream.text.lower():
        walk.add_unreadable()


def _note_statements(walk: Walk, text: str, local_file: str = "") -> None:
    is_trial = is_scratch_database(local_file)
    ours = {"changes-record": "edits-project", "deletes-record": "edits-project" if is_trial else "discards-work"}
    if is_trial:
        ours["deletes-data"] = "edits-project"
    for entry in read_sql(walk.plain(text), walk.argument):
        if local_file and entry.kind in ours:
            walk.add(ours[entry.kind], local_file)
        elif not (entry.kind == "reads-secret" and is_trial):
            walk.add(entry.kind, entry.target, entry.certainty)


def finish_queries_file(use: Use) -> Output:
    """A database in a file: its statements, and commands that begin with a dot."""
    walk, stdin = use.walk, use.call.stdin
    path = walk.plain("".join(use.operands[:1]))
    if stdin.source is Source.FILE:
        walk.access(path, Access.WRITE)
    if path:
        walk.print_file(path)
    is_ours = path and walk.place(path) in (Place.INSIDE, Place.SCRATCH)
    for text in [*use.values.get("first", []), *use.operands[1:], *filter(None, [stdin.text])]:
        if FORMS["database reaches out"].search(text):
            walk.add_unreadable()
        elif text.lstrip()[:1] != ".":
            _note_statements(walk, text, path if is_ours else "")
    return UNKNOWN_OUTPUT


def finish_queries_documents(use: Use) -> Output:
    """Calls on collections: the gravest kind, with all names as targets, and the server if it is another machine."""
    text = use.call.stdin.text + "".join(use.values.get("text", []))
    # The gravest kind is the first.
    kind = next((kind for kind, pattern in PATTERNS["documents"] if pattern.search(text)), "")
    names = [next(filter(None, groups)) for groups in FORMS["document name"].findall(text)]
    if kind and len(set(names)) > 16:
        use.walk.add_unreadable()
    for name in [*names[:16], *use.values.get("away", [])] or ["database"]:
        if kind:
            use.walk.add(kind, name)
    return UNKNOWN_OUTPUT
