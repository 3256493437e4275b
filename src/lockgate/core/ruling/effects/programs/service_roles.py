"""Whole commands of services: clouds and clusters by their verbs, clients of databases by their statements."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.paths import Access
from lockgate.core.ruling.effects.program_io import UNKNOWN_OUTPUT, Output, Source
from lockgate.core.ruling.effects.programs.options import long_values, plain_words
from lockgate.core.ruling.effects.programs.program_rows import PACKAGE, TABLE, WORDS
from lockgate.core.ruling.effects.programs.roles import PATTERNS, Use, last_word
from lockgate.core.ruling.effects.programs.url_hosts import host_of, is_local
from lockgate.core.ruling.effects.project import Place
from lockgate.core.ruling.effects.sql import is_scratch_database, read_sql
from lockgate.core.tables import read_table

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk

VERBS, VERB_COLUMNS = "verbs", ("effect", "pattern")
_VERBS = {effect: re.compile(pattern) for effect, pattern in read_table(PACKAGE, TABLE, VERBS, VERB_COLUMNS)}
# In this order: the gravest reading of a verb counts.
_KINDS = ("disables-check", "grants-access", "makes-key", "deletes-data")


def _has(effect: str, words: list[str]) -> bool:
    return any(_VERBS[effect].fullmatch(word.lower()) for word in words)


def _show_secret(use: Use, target: str) -> Output:
    use.walk.add("reads-secret", target)
    return Output(Source.SECRET, target=target)


def _note_verbs(use: Use, words: list[str], target: str) -> Output:
    """Note what the words of a cloud's command do, and the settings that it changes; the gravest word counts."""
    looks = _has("looks", words)
    if not looks:
        note_settings(use.walk, use.call.arguments)
    if _has("reads-secret", words):
        return _show_secret(use, target)
    kind = next((kind for kind in _KINDS if _has(kind, words)), "" if looks else "changes-service")
    if kind:
        use.walk.add(kind, target)
    return UNKNOWN_OUTPUT


_NAMING = re.compile(r"name|id|bucket|user|role|group|arn|cluster|table|queue|function|stack|key")


def finish_asks_aws(use: Use) -> Output:
    """Ask a service of AWS by its verb; what changes its users and roles grants access."""
    walk, arguments = use.walk, use.call.arguments
    service, verb = [*use.operands, "", ""][:2]
    pairs = [(name, walk.plain(value)) for name, value in long_values(arguments)]
    target = next((value for name, value in pairs if _NAMING.search(name)), f"{service} {verb}")
    if service != "iam":
        return _note_verbs(use, [verb], target)
    if not _has("looks", [verb]) and not verb.startswith(("get", "list", "generate", "simulate")):
        kinds = (kind for kind in ("deletes-data", "makes-key") if _has(kind, [verb]))
        walk.add(next(kinds, "grants-access"), target)
    return UNKNOWN_OUTPUT


_GRANTING_NOUNS = (["role", "assignment"], ["ad", "user"], ["ad", "sp"], ["ad", "app"])
_SECRET_NOUNS = re.compile(
    r"\b(?:secrets versions access|keyvault secret (?:show|download)|keys list|connection-string|print-access)"
)


def finish_asks_cloud(use: Use) -> Output:
    """Ask a cloud whose commands are nouns first, and the verb behind them."""
    walk, words = use.walk, plain_words(use.call.arguments)
    if _SECRET_NOUNS.search(" ".join(words)):
        return _show_secret(use, walk.plain(words[-1]))
    at = next((at for at, word in enumerate(words) if at and any(_has(effect, [word]) for effect in _VERBS)), -1)
    target = walk.plain(words[at + 1]) if 0 <= at < len(words) - 1 else " ".join(words[:3])
    if words[:2] not in _GRANTING_NOUNS and words[:1] != ["iam"]:
        return _note_verbs(use, words[at : at + 1] if at >= 0 else words, target)
    if not _has("looks", words[1:]):
        kind = "makes-key" if {"keys", "create"} <= set(words) else "grants-access"
        walk.add(kind, target)
    return UNKNOWN_OUTPUT


def finish_changes_running(use: Use) -> Output:
    """Change a running service, the settings that the command hands to it, and the images that containers run."""
    if use.call.stdin.source is Source.DOWNLOAD:
        use.walk.add("runs-download", use.call.stdin.target)
    if use.row.target == "all":
        for name, _, image in (use.walk.plain(word).partition("=") for word in use.operands):
            if name and image:
                note_image_source(use.walk, image)
    else:
        note_settings(use.walk, use.call.arguments)
    use.walk.add("changes-service", use.walk.plain(last_word(use.call.arguments, use.operands) or use.call.name))
    return UNKNOWN_OUTPUT


def rest_container_program(use: Use, words: list[str]) -> Output:
    """Run a program in a container; looking around in one changes nothing, unless the container is new."""
    arguments = use.call.arguments
    note_settings(use.walk, arguments[: arguments.index("--")] if "--" in arguments else arguments)
    changes, printed = use.walk.run_contained(words, use.call.stdin) if words else (True, UNKNOWN_OUTPUT)
    if changes or use.detail == "new":
        use.walk.add("changes-service", use.first())
    return printed


_SECRETS = re.compile(r"(?:^|[\s,/])secrets?(?:/|$|,|\s)")


def finish_asks_cluster(use: Use) -> Output:
    """Show objects of a cluster; secrets are shown by some formats."""
    is_whole = use.value("format").startswith(("yaml", "json", "go-template", "template"))
    asked = " ".join([use.value("raw"), *(use.operands[:2] if is_whole else ())])
    if not _SECRETS.search(asked):
        return UNKNOWN_OUTPUT
    return _show_secret(use, use.walk.plain([asked, *use.operands][-1]))


# Settings that a command hands to a running service: those that switch a protection off, and images from elsewhere. The
# section `settings` of `programs.tbl` says which names these settings have, with `_` between the parts of a name.

MOST_SETTING = 2_000
_NAMES = {kind: re.compile(names) for kind, names in read_table(PACKAGE, TABLE, "settings", ("setting", "pattern"))}
_VALUES = {kind: WORDS[f"values {kind}"] for kind in ("off", "on", "zero")}
_PAIR = re.compile(r"(?<![\w.-])(-{0,2}[A-Za-z][\w.-]*)[\"']?\s*[=:]\s*[\"']?(?=([\w./:@-]*))")
_BORDERS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[.-]")
# Options whose value stands behind them.
_VALUED = ("--image", "--registry", "--backup-retention-period")


def note_settings(walk: Walk, arguments: list[str]) -> None:
    """Note what the settings among these arguments weaken, and where the images that they name come from."""
    for argument, following in zip(arguments, [*arguments[1:], ""], strict=True):
        plain = walk.plain(argument)[:MOST_SETTING]
        if _NAMES["flag"].fullmatch(plain):
            walk.add("disables-check", plain.partition("=")[0])
            continue
        setting = f"{plain}={walk.plain(following)}" if plain in _VALUED else plain.removeprefix("--")
        for name, value in _PAIR.findall(setting):
            _note_setting(walk, name, value)
        if "=" in setting or ":" in setting or setting.replace("-", "").isalpha():
            for match in _NAMES["open"].finditer(setting):
                walk.add("disables-check", match.group())


def _note_setting(walk: Walk, name: str, value: str) -> None:
    parts = _BORDERS.sub("_", name).strip("_").lower()
    if any(value.lower() in values and _NAMES[kind].search(parts) for kind, values in _VALUES.items()):
        walk.add("disables-check", name)
    if _NAMES["image"].search(parts):
        note_image_source(walk, value)


def note_image_source(walk: Walk, image: str) -> None:
    """Note that a service runs an image: its host, or its owner and name where there is no host."""
    first, slash, _ = image.partition("/")
    if "." in first and not re.fullmatch(r"v?\d[\w.-]*", first):
        if not walk.project.has_host(host := host_of(image.removeprefix("docker://"))):
            walk.add("changes-service", host)
    elif slash:
        walk.add("changes-service", re.sub(r"(?:@sha256:\w+|:[\w.-]+)$", "", image))


# Databases


def role_server(use: Use, value: str) -> None:
    """The machine that the database is on, and what is done there; a socket or an unknown value is this one."""
    host = use.walk.plain(value)
    if host and not is_local(host) and host[0] not in "/$":
        use.values["away"] = [host]
        use.walk.add(use.detail or "requests", host)


def role_server_address(use: Use, value: str) -> None:
    """The name of a database, or its address."""
    plain = use.walk.plain(value)
    if "://" in plain:
        role_server(use, host_of(plain))
    elif plain.endswith(".js"):
        use.walk.run_path(value)


def finish_queries(use: Use) -> Output:
    """Statements from options, from files and from the input."""
    for path in use.values.get("statements", []):
        # Only now the server is known, which may stand behind the file.
        use.walk.load(path)
        content = use.walk.content_of(path)
        if content is not None and content.text is None:
            use.walk.note_unknown_content(path, content)
        _run_statements(use.walk, use.walk.read_file(path), use.value("away"))
    for statement in use.values.get("statement", []):
        _run_statements(use.walk, Output(Source.TEXT, statement), "")
    _run_statements(use.walk, use.call.stdin, use.value("away"))
    return UNKNOWN_OUTPUT


_SHELL_ESCAPE = re.compile(r"\\!|^\s*system\s")


def _run_statements(walk: Walk, stream: Output, away: str) -> None:
    """Read statements: known text, or a file of the project (a migration, a dump)."""
    if stream.source is Source.DOWNLOAD:
        walk.add("runs-download", stream.target)
    elif stream.source is Source.FILE:
        walk.add("changes-record" if away else "runs-project-task", away or walk.plain(stream.target))
    elif stream.source is not Source.TEXT:
        return
    elif escape := _SHELL_ESCAPE.search(stream.text):
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


# Functions of SQLite that reach the machine, and commands of its shell that run something or name a path elsewhere.
_REACHES_OUT = re.compile(
    r"(?i)\b(?:writefile|readfile|edit|fsdir|load_extension)\s*\("
    r"|^\s*\.(?:shell|system|load|(?:output|once|excel|backup|save|clone|read|import|log)\s+[\"']?[|/~.])"
)


def finish_queries_file(use: Use) -> Output:
    """A database in a file: its statements, and commands that begin with a dot."""
    walk, stdin = use.walk, use.call.stdin
    path = walk.plain("".join(use.operands[:1]))
    if stdin.source is Source.DOWNLOAD:
        walk.add("runs-download", stdin.target)
    elif stdin.source is Source.FILE:
        walk.access(path, Access.WRITE)
    if path:
        walk.print_file(path)
    is_ours = path and walk.place(path) in (Place.INSIDE, Place.SCRATCH)
    for text in [*use.values.get("first", []), *use.operands[1:], *filter(None, [stdin.text])]:
        if _REACHES_OUT.search(text):
            walk.add_unreadable()
        elif text.lstrip()[:1] != ".":
            _note_statements(walk, text, path if is_ours else "")
    return UNKNOWN_OUTPUT


# In this order: the gravest kind counts.
_DOCUMENT_KINDS = [PATTERNS[f"documents-{act}"] for act in ("grant", "drop", "change")]
# A database or a collection, however it is called up.
_DOCUMENT_NAMES = re.compile(
    r"\.(?:getSiblingDB|getCollection|dropCollection)\s*\(\s*['\"]([^'\"]{1,128})|\bdb\[\s*['\"]([^'\"]{1,128})"
    r"|\bdb\.(\w{1,128})\s*\.(?=\w+\s*\()|\buse\s+(\w{1,128})"
)

_MOST_NAMES = 16


def finish_queries_documents(use: Use) -> Output:
    """Calls on collections: the gravest kind, with all names as targets, and the server if it is another machine."""
    walk, text = use.walk, use.call.stdin.text + "".join(use.values.get("text", []))
    kind = next((kind for kind, pattern in _DOCUMENT_KINDS if pattern.search(text)), "")
    names = list(dict.fromkeys(next(filter(None, groups)) for groups in _DOCUMENT_NAMES.findall(text)))
    if kind and len(names) > _MOST_NAMES:
        walk.add_unreadable()
    for name in [*names[:_MOST_NAMES], *use.values.get("away", [])] or ["database"]:
        if kind:
            walk.add(kind, name)
    return UNKNOWN_OUTPUT
