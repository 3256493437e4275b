"""Clients of databases: the statements they are given, and dumps."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.paths import Access
from lockgate.core.ruling.effects.programs.addresses import host_of, is_local
from lockgate.core.ruling.effects.programs.options import split_options
from lockgate.core.ruling.effects.sql import read_sql
from lockgate.core.ruling.effects.streams import EMPTY, Invocation, Origin, Stream

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk

_NONE = Stream(Origin.NONE)
_VALUED = frozenset(
    "-c --command -e --execute -f --file -h --host -p --port -U --username -u --user -d --dbname -D --database -o --output -v --set -P --pset -F --eval -S --socket -a -n -x -t --uri".split()
)
_SCRATCH_DATABASE = re.compile(
    r"(?i)(?:^|[-_/.])(?:test|tests|dev|local|tmp|temp|demo|example|sample)(?:$|[-_/.\d])|:memory:"
)


def _note_statements(walk: Walk, text: str, *, local_file: str = "") -> None:
    for found in read_sql(walk.plain(text), walk.argument):
        kind = found.kind
        if kind in ("changes-record", "deletes-record") and local_file:
            walk.add("edits-project", local_file)
        elif kind == "deletes-data" and local_file and _SCRATCH_DATABASE.search(local_file):
            walk.add("edits-project", local_file)
        else:
            walk.add(kind, found.target, found.certainty)


def _sql_client(walk: Walk, call: Invocation) -> Stream:
    """`psql`, `mysql`: statements from an option, the input, or a file."""
    valued = _VALUED - ({"-p"} if call.name in ("mysql", "mariadb") else frozenset())
    options, rest = split_options(call.arguments, valued)
    host = ""
    texts: list[str] = []
    files: list[str] = []
    for option, value in options:
        if option in ("-c", "--command", "-e", "--execute"):
            texts.append(value)
        elif option in ("-f", "--file"):
            files.append(value)
        elif option in ("-h", "--host"):
            host = walk.plain(value)
        elif option in ("-o", "--output") and value:
            walk.access(value, Access.WRITE)
    for argument in rest:
        if "://" in argument:
            host = host_of(walk.plain(argument))
    if call.stdin.origin is Origin.TEXT:
        texts.append(call.stdin.text)
    elif call.stdin.origin is Origin.FILE:
        files.append(call.stdin.target)
    elif call.stdin.origin is Origin.DOWNLOAD:
        walk.add("runs-download", call.stdin.target)
    away = host and not is_local(host) and not host.startswith(("/", "$"))
    if away:
        walk.add("requests", host)
    for text in texts:
        if text.strip().startswith("\\") and not re.match(r"\s*\\!|.*\\copy.*program", text, re.IGNORECASE | re.DOTALL):
            continue
        if re.search(r"\\!|^\s*system\s", text):
            walk.read_text(re.sub(r"^.*?(?:\\!|system)\s*", "", text, flags=re.DOTALL))
            continue
        _note_statements(walk, text)
    for path in files:
        stream = walk.read_file(path)
        if stream.origin is Origin.DOWNLOAD:
            walk.add("runs-download", stream.target)
        elif stream.origin is Origin.TEXT:
            _note_statements(walk, stream.text)
        else:
            # The statements are the project's own (a migration, a dump).
            walk.add("changes-record" if away else "runs-project-task", host if away else walk.plain(path))
    return _NONE


def _sqlite(walk: Walk, call: Invocation) -> Stream:
    options, rest = split_options(call.arguments, frozenset("-cmd -separator -nullvalue -init -newline".split()))
    path = walk.plain(rest[0]) if rest else ""
    texts = [*rest[1:], *(value for option, value in options if option == "-cmd")]
    if call.stdin.origin is Origin.TEXT:
        texts.append(call.stdin.text)
    elif call.stdin.origin is Origin.DOWNLOAD:
        walk.add("runs-download", call.stdin.target)
    inside = path and walk.place(path) in ("inside", "scratch")
    walk.print_file(path) if path else None
    for text in texts:
        if re.match(r"\s*\.(?:shell|system)\b", text):
            walk.read_text(re.sub(r"^\s*\.\w+\s*", "", text))
        elif match := re.match(r"\s*\.(?:output|once|backup|save|dump|clone|import|read)\s+(\S+)", text):
            if text.lstrip().startswith((".output", ".once", ".backup", ".save", ".clone")):
                walk.access(match.group(1), Access.WRITE)
        elif not text.lstrip().startswith("."):
            _note_statements(walk, text, local_file=path if inside else "")
    if call.stdin.origin is Origin.FILE and path:
        walk.access(path, Access.WRITE)
    return _NONE


_MONGO_CHANGES = re.compile(
    r"\.(?:insert|update|replace|save|bulkWrite|findAndModify|findOneAndUpdate|createIndex)\w*\("
)
_MONGO_DELETES = re.compile(r"\.(?:drop\w*|deleteMany|remove)\s*\(")
_MONGO_GRANTS = re.compile(r"\.(?:createUser|grantRoles\w*|createRole|updateUser|changeUserPassword)\s*\(")


def _mongo(walk: Walk, call: Invocation) -> Stream:
    options, rest = split_options(
        call.arguments, frozenset("--eval -u -p --host --port --username --password --file -f".split())
    )
    host = next(
        (host_of(walk.plain(argument)) for argument in rest if "://" in argument), dict(options).get("--host", "")
    )
    if host and not is_local(host):
        walk.add("requests", host)
    text = "".join(value for option, value in options if option == "--eval") + (
        call.stdin.text if call.stdin.origin is Origin.TEXT else ""
    )
    if _MONGO_GRANTS.search(text):
        walk.add("grants-access", host or "database")
    elif _MONGO_DELETES.search(text):
        walk.add("deletes-data", host or "database")
    elif _MONGO_CHANGES.search(text):
        walk.add("changes-record", host or "database")
    for path in rest:
        if path.endswith(".js"):
            walk.run_path(path)
    return _NONE


_REDIS_LOOKS = frozenset(
    "get mget keys scan ttl pttl type exists info ping hget hgetall hkeys hvals hlen lrange llen smembers scard sismember zrange zcard zscore dbsize memory object strlen dump randomkey time lastsave role client echo monitor xrange xlen xinfo pubsub command latency slowlog".split()
)


def _redis(walk: Walk, call: Invocation) -> Stream:
    options, rest = split_options(call.arguments, frozenset("-h -p -a -n -u --user --pass -s".split()))
    host = walk.plain(dict(options).get("-h", "")) or host_of(walk.plain(dict(options).get("-u", "")))
    if host and not is_local(host):
        walk.add("requests", host)
    verb = rest[0].lower() if rest else ""
    if not verb or verb in _REDIS_LOOKS:
        return _NONE
    if verb in ("flushall", "flushdb", "shutdown", "swapdb"):
        walk.add("deletes-data", host or "redis")
    elif verb in ("config", "acl", "slaveof", "replicaof", "module", "eval", "script", "debug", "function"):
        if rest[1:2] and rest[1].lower() in ("get", "list", "whoami", "users", "cat", "log", "exists", "load"):
            return _NONE
        walk.add("grants-access", host or "redis")
    elif not host or is_local(host):
        walk.add("asks-local", "redis")
    else:
        walk.add("changes-record", walk.plain(rest[1]) if len(rest) > 1 else host)
    return _NONE


def _dump(walk: Walk, call: Invocation) -> Stream:
    """`pg_dump`, `mysqldump`: data read from a database, written where the output goes."""
    options, rest = split_options(
        call.arguments,
        frozenset("-f --file -o --out -h --host -U -u -p -d --dbname --db --uri -F --archive -t -n".split()),
    )
    for option, value in options:
        if option in ("-f", "--file", "-o", "--out") and value:
            walk.access(value, Access.WRITE)
        elif option in ("-h", "--host", "--uri") and value:
            host = host_of(walk.plain(value))
            walk.add("asks-local" if is_local(host) else "requests", host)
    del rest
    return Stream(Origin.FILE, target="database dump")


def _restore(walk: Walk, call: Invocation) -> Stream:
    options, rest = split_options(call.arguments, frozenset("-h --host -U -u -p -d --dbname --db --uri -F -j".split()))
    values = dict(options)
    host = walk.plain(values.get("-h") or values.get("--host") or "")
    name = walk.plain(values.get("-d") or values.get("--dbname") or values.get("--db") or (rest[0] if rest else ""))
    if host and not is_local(host):
        walk.add("changes-record", host)
    else:
        walk.add("runs-project-task", f"{call.name} {name}".strip())
    return EMPTY


READERS = {
    **dict.fromkeys(
        (
            "psql",
            "mysql",
            "mariadb",
            "pgcli",
            "mycli",
            "sqlcmd",
            "clickhouse-client",
            "cockroach",
            "usql",
            "snowsql",
            "bq",
            "duckdb",
        ),
        _sql_client,
    ),
    **dict.fromkeys(("sqlite3", "sqlite", "litecli", "sqlite-utils"), _sqlite),
    **dict.fromkeys(("mongosh", "mongo"), _mongo),
    **dict.fromkeys(("redis-cli", "valkey-cli"), _redis),
    **dict.fromkeys(("pg_dump", "pg_dumpall", "mysqldump", "mongodump", "mongoexport"), _dump),
    **dict.fromkeys(("pg_restore", "mongorestore", "mongoimport"), _restore),
}
