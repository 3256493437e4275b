"""Clients of databases: the statements they are given, and dumps."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.paths import Access
from lockgate.core.ruling.effects.program_io import NO_OUTPUT, UNKNOWN_OUTPUT, Invocation, Output, Source
from lockgate.core.ruling.effects.programs.options import split_options
from lockgate.core.ruling.effects.programs.url_hosts import host_of, is_local
from lockgate.core.ruling.effects.sql import is_scratch_database, read_sql

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk

_VALUED = frozenset(
    "-c --command -e --execute -f --file -h --host -p --port -U --username -u --user -d --dbname -D "
    "--database -o --output -v --set -P --pset -F --eval -S --socket -a -n -x -t --uri".split()
)
_OWN_RECORDS = ("changes-record", "deletes-record")


def _note_statements(walk: Walk, text: str, *, local_file: str = "") -> None:
    for found in read_sql(walk.plain(text), walk.argument):
        kind = found.kind
        if local_file and (kind in _OWN_RECORDS or (kind == "deletes-data" and is_scratch_database(local_file))):
            walk.add("edits-project", local_file)
        elif not (kind == "reads-secret" and is_scratch_database(local_file)):
            walk.add(kind, found.target, found.certainty)


def _sql_client(walk: Walk, call: Invocation) -> Output:
    """`psql`, `mysql`: statements from an option, the input, or a file."""
    valued = _VALUED - {"-p"} if call.name in ("mysql", "mariadb") else _VALUED
    options, rest = split_options(call.arguments, valued)
    host = next((host_of(walk.plain(argument)) for argument in rest if "://" in argument), "")
    streams = [call.stdin]
    for option, value in options:
        if option in ("-c", "--command", "-e", "--execute"):
            streams.append(Output(Source.TEXT, value))
        elif option in ("-f", "--file"):
            walk.load(value)
            streams.append(walk.read_file(value))
        elif option in ("-h", "--host"):
            host = walk.plain(value)
        elif option in ("-o", "--output") and value:
            walk.access(value, Access.WRITE)
    away = host if host and not is_local(host) and host[0] not in "/$" else ""
    if away:
        walk.add("requests", away)
    for stream in streams:
        _run_statements(walk, stream, away)
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
    elif not stream.text.lstrip().startswith("\\") or "program" in stream.text.lower():
        _note_statements(walk, stream.text)


def _sqlite(walk: Walk, call: Invocation) -> Output:
    options, rest = split_options(call.arguments, frozenset("-cmd -separator -nullvalue -init -newline".split()))
    path = walk.plain(rest[0]) if rest else ""
    texts = [*rest[1:], *(value for option, value in options if option == "-cmd")]
    if call.stdin.source is Source.DOWNLOAD:
        walk.add("runs-download", call.stdin.target)
    elif call.stdin.source is Source.TEXT:
        texts.append(call.stdin.text)
    elif call.stdin.source is Source.FILE:
        walk.access(path, Access.WRITE)
    if path:
        walk.print_file(path)
    for text in texts:
        _sqlite_text(walk, text, path)
    return UNKNOWN_OUTPUT


_DOT_COMMAND = re.compile(r"\s*\.(\w+)\s*(\S*)")
_DOT_WRITES = frozenset("output once backup save clone".split())


def _sqlite_text(walk: Walk, text: str, path: str) -> None:
    command = _DOT_COMMAND.match(text)
    if command is None:
        inside = path and walk.place(path) in ("inside", "scratch")
        _note_statements(walk, text, local_file=path if inside else "")
    elif command.group(1) in ("shell", "system"):
        walk.read_text(text[command.start(2) :])
    elif command.group(1) in _DOT_WRITES and command.group(2):
        walk.access(command.group(2), Access.WRITE)


_MONGO: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("grants-access", re.compile(r"\.(?:createUser|grantRoles\w*|createRole|updateUser|changeUserPassword)\s*\(")),
    ("deletes-data", re.compile(r"\.(?:drop\w*|deleteMany|remove)\s*\(")),
    (
        "changes-record",
        re.compile(r"\.(?:insert|update|replace|save|bulkWrite|findAndModify|findOneAnd|create|delete)\w*\("),
    ),
)


# A database or a collection, however it is called up.
_MONGO_NAMES = re.compile(
    r"\.(?:getSiblingDB|getCollection|dropCollection)\s*\(\s*['\"]([^'\"]{1,128})|\bdb\[\s*['\"]([^'\"]{1,128})"
    r"|\bdb\.(\w{1,128})\s*\.(?=\w+\s*\()|\buse\s+(\w{1,128})"
)
_MOST_NAMES = 16


def _note_mongo_names(walk: Walk, kind: str, text: str, host: str) -> None:
    named = list(dict.fromkeys(next(filter(None, names)) for names in _MONGO_NAMES.findall(text)))
    # Another machine is a target as well: not all that is removed there is called by its name.
    targets = [*named[:_MOST_NAMES], *filter(None, [host])]
    for name in targets or ["database"]:
        walk.add(kind, name)
    if len(named) > _MOST_NAMES:
        walk.add_unreadable()


def _mongo(walk: Walk, call: Invocation) -> Output:
    options, rest = split_options(call.arguments, _MONGO_VALUED)
    address = next((walk.plain(argument) for argument in rest if "://" in argument), dict(options).get("--host", ""))
    host = host_of(address)
    host = "" if is_local(host) else host
    if host:
        walk.add("requests", host)
    text = call.stdin.text + "".join(value for option, value in options if option == "--eval")
    for kind, pattern in _MONGO:
        if pattern.search(text):
            _note_mongo_names(walk, kind, text, host)
            break
    for path in rest:
        if path.endswith(".js"):
            walk.run_path(path)
    return UNKNOWN_OUTPUT


_MONGO_VALUED = frozenset("--eval -u -p --host --port --username --password --file -f".split())
_REDIS_LOOKS = frozenset(
    "get mget keys scan ttl pttl type exists info ping hget hgetall hkeys hvals hlen lrange llen smembers "
    "scard sismember zrange zcard zscore dbsize memory object strlen dump randomkey time lastsave role "
    "client echo monitor xrange xlen xinfo pubsub command latency slowlog".split()
)


_REDIS_DOORS = frozenset("config acl slaveof replicaof module eval script debug function".split())
_REDIS_ASKS = frozenset("get list whoami users cat log exists load".split())


def _redis(walk: Walk, call: Invocation) -> Output:
    options, rest = split_options(call.arguments, frozenset("-h -p -a -n -u --user --pass -s".split()))
    values = dict(options)
    host = walk.plain(values.get("-h", "")) or host_of(walk.plain(values.get("-u", "")))
    away = bool(host) and not is_local(host)
    if away:
        walk.add("requests", host)
    verb, words = [*rest, ""][0].lower(), rest[1:]
    if verb in ("flushall", "flushdb", "shutdown", "swapdb"):
        walk.add("deletes-data", host or "redis")
    elif verb in _REDIS_DOORS:
        if not words or words[0].lower() not in _REDIS_ASKS:
            walk.add("grants-access", host or "redis")
    elif verb and verb not in _REDIS_LOOKS:
        walk.add("changes-record" if away else "asks-local", walk.plain([*words, host][0]) if away else "redis")
    return UNKNOWN_OUTPUT


def _dump(walk: Walk, call: Invocation) -> Output:
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
    return Output(Source.FILE, target="database dump")


def _restore(walk: Walk, call: Invocation) -> Output:
    options, rest = split_options(call.arguments, frozenset("-h --host -U -u -p -d --dbname --db --uri -F -j".split()))
    values = dict(options)
    host = walk.plain(values.get("-h") or values.get("--host") or "")
    name = walk.plain(values.get("-d") or values.get("--dbname") or values.get("--db") or (rest[0] if rest else ""))
    if host and not is_local(host):
        walk.add("changes-record", host)
    else:
        walk.add("runs-project-task", f"{call.name} {name}".strip())
    return NO_OUTPUT


_DROP_VALUED = frozenset("-h --host -p --port -U --username --maintenance-db".split())


def _drop(walk: Walk, call: Invocation) -> Output:
    """`dropdb`, `dropuser`: the database or user is what is no option."""
    options, rest = split_options(call.arguments, _DROP_VALUED)
    away = next((walk.plain(value) for option, value in options if option in ("-h", "--host")), "")
    if away and not is_local(away) and away[0] not in "/$":
        walk.add("requests", away)
    walk.add("deletes-data", walk.plain([*rest, call.name][0]))
    return NO_OUTPUT


READERS = {
    **dict.fromkeys(("dropdb", "dropuser"), _drop),
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
