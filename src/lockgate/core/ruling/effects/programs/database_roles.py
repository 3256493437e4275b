"""Roles and whole commands of clients of databases: the statements that they are given, and the server."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.paths import Access
from lockgate.core.ruling.effects.program_io import NO_OUTPUT, UNKNOWN_OUTPUT, Output, Source
from lockgate.core.ruling.effects.programs.roles import Use
from lockgate.core.ruling.effects.programs.url_hosts import host_of, is_local
from lockgate.core.ruling.effects.sql import is_scratch_database, read_sql

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk


def role_server(use: Use, value: str) -> None:
    """The machine that the database is on; a socket or an unknown value is this one."""
    host = use.walk.plain(value)
    if host and not is_local(host) and host[0] not in "/$":
        use.values["away"] = [host]
        use.walk.add("requests", host)


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
    elif stream.text.lstrip().startswith("\\"):
        if "program" in stream.text.lower():
            walk.add_unreadable()
    else:
        _note_statements(walk, stream.text)


_OWN_RECORDS = ("changes-record", "deletes-record")


def _note_statements(walk: Walk, text: str, *, local_file: str = "") -> None:
    for entry in read_sql(walk.plain(text), walk.argument):
        is_trial = is_scratch_database(local_file)
        if local_file and (entry.kind in _OWN_RECORDS or (entry.kind == "deletes-data" and is_trial)):
            walk.add("edits-project", local_file)
        elif not (entry.kind == "reads-secret" and is_trial):
            walk.add(entry.kind, entry.target, entry.certainty)


_DOT_COMMAND = re.compile(r"\s*\.(\w+)\s*(\S*)")
_DOT_WRITES = frozenset("output once backup save clone".split())
_DOT_RUNS = frozenset("shell system read load".split())
# Functions of SQLite that reach the machine.
_REACHES_OUT = re.compile(r"(?i)\b(?:writefile|readfile|edit|fsdir|load_extension)\s*\(")


def finish_queries_file(use: Use) -> Output:
    """A database in a file: its statements, and commands that begin with a dot."""
    walk, stdin = use.walk, use.call.stdin
    path = walk.plain(use.operands[0]) if use.operands else ""
    texts = [*use.values.get("first", []), *use.operands[1:]]
    if stdin.source is Source.DOWNLOAD:
        walk.add("runs-download", stdin.target)
    elif stdin.source is Source.TEXT:
        texts.append(stdin.text)
    elif stdin.source is Source.FILE:
        walk.access(path, Access.WRITE)
    if path:
        walk.print_file(path)
    for text in texts:
        _read_file_statement(walk, text, path)
    return UNKNOWN_OUTPUT


def _read_file_statement(walk: Walk, text: str, path: str) -> None:
    command = _DOT_COMMAND.match(text)
    if command is None:
        if _REACHES_OUT.search(text):
            walk.add_unreadable()
        inside = path and walk.place(path) in ("inside", "scratch")
        _note_statements(walk, text, local_file=path if inside else "")
    elif command.group(1) in ("read", "load"):
        walk.run_path(command.group(2))
    elif command.group(1) in _DOT_RUNS:
        walk.read_text(text[command.start(2) :])
    elif command.group(1) in _DOT_WRITES and command.group(2):
        walk.access(command.group(2), Access.WRITE)


_DOCUMENT_KINDS = (
    ("grants-access", re.compile(r"\.(?:createUser|grantRoles\w*|createRole|updateUser|changeUserPassword)\s*\(")),
    ("deletes-data", re.compile(r"\.(?:drop\w*|deleteMany|remove)\s*\(")),
    ("changes-record", re.compile(r"\.(?:insert|update|replace|save|bulkWrite|findAnd|findOneAnd|create|delete)\w*\(")),
)
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


def finish_keeps(use: Use) -> Output:
    """A value that a store keeps, on this machine or another."""
    away = "away" in use.values
    use.walk.add("changes-record" if away else "asks-local", use.first() if away else "redis")
    return UNKNOWN_OUTPUT


def finish_dumps(use: Use) -> Output:  # noqa: ARG001 - all finishes have one signature
    """What a database holds, to where the output goes."""
    return Output(Source.FILE, target="database dump")


def finish_restores(use: Use) -> Output:
    """A dump that is read into a database."""
    away = use.value("away")
    use.walk.add("changes-record" if away else "runs-project-task", away or use.first())
    return NO_OUTPUT
