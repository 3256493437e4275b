"""Statements of SQL to their effects, by verb, table and what stands in them; no parse, and linear work."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from itertools import islice

from lockgate.core.ruling.effects.effect import Certainty, Effect, Severity, effect
from lockgate.core.ruling.effects.paths import Access, read_access
from lockgate.core.ruling.effects.project import NO_PROJECT

MOST_STATEMENTS = 64
# Only the head of a statement is looked at: where the condition of a change comes later, it counts as absent.
MOST_HEAD = 4_000

_NOISE = re.compile(r"--[^\n]*|/\*(?:[^*]|\*(?!/))*(?:\*/|$)|'(?:[^']|'')*'")
# MySQL and MariaDB, from the version on that may follow, run what stands in such a comment; other databases do not.
_COMMENT_THAT_RUNS = re.compile(r"(?i)/\*m?!")
# In PostgreSQL a comment goes on behind the end of one that began in it.
_COMMENT_IN_COMMENT = re.compile(r"/\*(?:[^*/]|\*(?!/)|/(?!\*))*/\*")
# What may open a door behind a semicolon in a text or comment; databases differ in where these end: `\'`, `"'"`, `#`.
_HIDDEN = re.compile(
    r"(?i);(?:\s|/\*[^*;]{0,80}\*/){0,80}((?:drop|truncate|alter|grant|delete|copy|create)\b[^;]{0,400})"
)
_ENDS_DIFFER = re.compile(r"[\\\"`#$\[]|--|/\*")
_PART = r"(?:\"[^\"]{1,128}\"|`[^`]{1,128}`|\[[^\]]{1,128}\]|[`\"\[]?[\w$-]+)"
_NAME = rf"({_PART}(?:\s?\.\s?{_PART})*)"
_NEXT_NAME = re.compile(rf"(?i)[\s*]*,\s*(?:only\s+)?{_NAME}")
_QUOTES = re.compile(r"[`\"\[\]]|\s+(?=\.)|(?<=\.)\s+")
_ANY = r"(?is)\s*"
_SERVER_PROGRAM = re.compile(
    _ANY + r"(?:copy\b.*\b(?:from|to)\s+program\b|create\s.*\blanguage\s+'*(?:c|plpython\w*|plperlu|plsh)\b)"
)
_SERVER_CALL = re.compile(
    r"(?i)\b(?:xp_cmdshell|sp_oacreate|sys_exec|sys_eval|load_extension|lo_import|lo_export|dbms_scheduler)\b"
    r"|\binto\s+(?:out|dump)file\b"
)
_IF = r"(?:if\s+(?:not\s+)?exists\s+)?(?:only\s+)?"
_HEADS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(_ANY + pattern))
    for kind, pattern in (
        ("grants-access", rf"(?:grant\b.*\bto\s+|(?:create|alter)\s+(?:user|role|login)\s+{_IF})(?:{_NAME}|\S)"),
        ("changes-permissions", r"(?:set\s+password|alter\s+system|revoke|drop\s+(?:user|role|login))\b"),
        ("changes-permissions", r"create\s+(?:server|subscription|publication)\b"),
        ("disables-check", rf"alter\s+table\s+{_IF}{_NAME}.*\bdisable\s+(?:row\s+level\s+security|trigger)"),
        ("disables-check", r"drop\s+(?:policy|trigger)\b"),
        (
            "deletes-data",
            rf"drop\s+(?:database|schema|table|view|keyspace|collection|tablespace|extension)\s+{_IF}{_NAME}",
        ),
        ("deletes-data", rf"drop\s+materialized\s+view\s+{_IF}{_NAME}"),
        ("deletes-data", rf"truncate\s+(?:table\s+)?{_IF}{_NAME}"),
        ("deletes-data", rf"alter\s+table\s+{_IF}{_NAME}.*\bdrop\b"),
        ("deletes-record", rf"delete\s+from\s+{_IF}{_NAME}"),
        ("changes-record", rf"update\s+{_IF}{_NAME}"),
        ("changes-record", rf"(?:insert\s+(?:or\s+\w+\s+)?into|(?:replace|merge|upsert)\s+into|copy)\s+{_NAME}"),
        ("changes-record", rf"(?:create|alter|rename|comment|reindex|vacuum|analyze|cluster|refresh)\b\s*(?:{_NAME})?"),
        ("changes-record", rf"(?:do|call|exec|execute|prepare)\b\s*(?:{_NAME})?"),
    )
)
_SCRATCH_DATABASE = re.compile(
    r"(?i)(?:^|[-_/.])(?:test|tests|dev|local|tmp|temp|demo|example|sample)(?:$|[-_/.\d])|:memory:"
)
_REMOVAL = re.compile(rf"(?i)\b(?:drop\s+(?:table|database|schema)|truncate\s+table|delete\s+from)\s+{_IF}{_NAME}")
_WHERE = re.compile(r"(?i)\bwhere\b")
# `with … delete from t` and `explain analyze delete …` change data behind a harmless first word.
_CHANGE_INSIDE = re.compile(rf"(?i)\b(?:insert\s+into|update|delete\s+from|truncate|drop\s+table)\s+{_NAME}")
_READS = re.compile(_ANY + r"(?:select|show|describe|desc|pragma|values|table)\b")
_LOOKS = re.compile(
    _ANY
    + r"(?:with|explain|use|set|begin|start|commit|rollback|end|savepoint|release|fetch|declare|listen|discard|help)\b"
)
_SECRET = re.compile(
    r"(?i)\b(?:pg_shadow|pg_authid|mysql\.user|password_hash|sys\.sql_logins|pg_read_file|pg_read_binary_file|load_file)\b"
)


_CREDENTIAL_HINT = re.compile(
    r"(?i)secret|token|passw|passphrase|api_?key|private_?key|access_?key|credential|otp_?seed"
)
_CREDENTIAL = re.compile(
    r"(?i)(?!(?:prompt|completion|total|max|min|input|output|num|used|usage|avg|count|has|is|cached|reasoning|public|csrf)_)(?:\w+_)?"
    r"(?:secrets?|secret_?keys?|tokens?|passwords?|passwd|passphrases?|api_?keys?|private_?keys?|access_?keys?|credentials?"
    r"|otp_?seeds?)(?:_(?:hash|hashes|value|values|enc|encrypted|plain|plaintext|digest|text|data))?"
)
_TOKEN = re.compile(r"[A-Za-z_$][\w$]*|[().,*]")
_PLACES = {
    **dict.fromkeys(("select", "returning"), "shown"),
    **dict.fromkeys(("from", "join", "table", "copy"), "table"),
    **dict.fromkeys("where group order limit having on using set values".split(), ""),
}
_COUNTING = frozenset("count sum avg min max length char_length octet_length bool_or bool_and exists".split())


def _credential_shown(statement: str) -> str:
    """Return a column or table of credentials that a statement shows; what is only counted or compared is not shown."""
    place, shows, before = "", False, ""
    words = _without_counts(_TOKEN.findall(statement))
    for word, following in zip(words, [*words[1:], ""], strict=False):
        lower = word.lower()
        if lower in _PLACES and before != ".":
            place = _PLACES[lower]
            shows = (shows and lower != "select") or lower in ("table", "copy", "returning")
        elif word not in "().," and following != ".":
            shows = shows or place == "shown"
            compared = following.lower() == "is" or before == "as"
            if shows and place and not compared and _CREDENTIAL.fullmatch(word):
                return word
        before = lower
    return ""


def _without_counts(words: list[str]) -> list[str]:
    """Leave out the calls of functions that count; the least and the greatest credential are credentials."""
    kept: list[str] = []
    depth, function = 0, ""
    for index, word in enumerate(words):
        if depth:
            depth += (word == "(") - (word == ")")
            if function in ("min", "max") and _CREDENTIAL.fullmatch(word):
                kept.append(word)
        elif word.lower() in _COUNTING and words[index + 1 : index + 2] == ["("]:
            function = word.lower()
        elif word == "(" and function:
            depth = 1
        else:
            kept.append(word)
        if not depth and word == ")":
            function = ""
    return kept


# A file that a statement reads or writes, as the database's server or its client.
_FILE = re.compile(
    r"(?i)\b(?:copy\b[^;']{1,200}?\b(?=(?:to|from)\s+')|(?=infile\s+'|attach\s+(?:database\s+)?'))"
    r"(to|from|infile|attach(?:\s+database)?)\s+'([^'\n]{1,300})'"
)


def is_scratch_database(path: str) -> bool:
    """Return whether the file of a database is there to be tried things on, by its name."""
    return _SCRATCH_DATABASE.search(path) is not None


def read_sql(text: str, argument: str = "") -> list[Effect]:
    """Return what statements would do; one that is not known may change anything."""
    statements = [part for part in _NOISE.sub(_blank, text).split(";") if part.strip()]
    if _ENDS_DIFFER.search(text):
        statements += [part[1] for noise in _NOISE.findall(text) if ";" in noise for part in _HIDDEN.finditer(noise)]
    found: dict[tuple[str, str], Effect] = {}
    is_unclear = len(statements) > MOST_STATEMENTS or _has_unclear_comment(text)
    for statement in statements[:MOST_STATEMENTS]:
        for each in _read_statement(statement[:MOST_HEAD], argument):
            found.setdefault((each.kind, each.target), each)
            # Beyond the head a list of tables may go on.
            is_unclear = is_unclear or (each.severity is Severity.OPENS_A_DOOR and len(statement) > MOST_HEAD)
    found.update(((each.kind, each.target), each) for each in _read_files(text, argument))
    if is_unclear:
        found["", ""] = effect("unreadable", certainty=Certainty.GUESS, argument=argument)
    return list(found.values()) or [effect("looks", argument=argument)]


def _read_files(text: str, argument: str) -> Iterator[Effect]:
    """Yield what reading or writing the files that statements name does, where they are more than data."""
    for match in islice(_FILE.finditer(text), MOST_STATEMENTS):
        access = Access.READ if match.group(1).lower() in ("from", "infile") else Access.WRITE
        found = read_access(match.group(2), access, NO_PROJECT)
        if found.severity is Severity.OPENS_A_DOOR and found.kind != "writes-outside":
            yield found._replace(argument=argument)


def _has_unclear_comment(text: str) -> bool:
    inner = _COMMENT_IN_COMMENT.search(text)
    # What nothing closes is no comment in a comment: `like 'src/*' or path like 'docs/*'`.
    is_nested = inner is not None and "*/" in text[inner.end() :]
    return is_nested or _COMMENT_THAT_RUNS.search(text) is not None


def _blank(match: re.Match[str]) -> str:
    return "''" if match.group()[0] == "'" else " "


def _read_statement(statement: str, argument: str) -> list[Effect]:
    if _SERVER_CALL.search(statement) or _SERVER_PROGRAM.match(statement):
        # A program of the database server: whatever stands in the text that it is given.
        return [effect("unreadable", "database server", argument=argument)]
    if _SECRET.search(statement):
        return [effect("reads-secret", "database", argument=argument)]
    if _CREDENTIAL_HINT.search(statement) and (name := _credential_shown(statement)):
        return [effect("reads-secret", name, argument=argument)]
    if _READS.match(statement):
        return [effect("looks", argument=argument)]
    for kind, pattern in _HEADS:
        match = pattern.match(statement)
        if match is not None:
            if kind == "deletes-record" and not _WHERE.search(statement):
                kind = "deletes-data"
            names = _names_in_list(statement, match) or ["database"]
            return [effect(kind, name, argument=argument) for name in names]
    inside = _CHANGE_INSIDE.search(statement)
    if inside is not None:
        return [effect("changes-record", inside.group(1), argument=argument)]
    if _LOOKS.match(statement):
        return [effect("looks", argument=argument)]
    return [effect("changes-record", "database", certainty=Certainty.GUESS, argument=argument)]


def _names_in_list(statement: str, head: re.Match[str]) -> list[str]:
    """Return the name in the head of a statement and those behind its commas: `drop table a, b` drops two tables."""
    names: list[str] = []
    found: re.Match[str] | None = head
    while found is not None and found.lastindex:
        names.append(_QUOTES.sub("", found[found.lastindex]))
        found = _NEXT_NAME.match(statement, found.end(found.lastindex))
    return names


def without_removals(text: str, tables: Collection[str]) -> str:
    """Return a text without what empties or removes one of these tables, wherever it stands."""
    return _REMOVAL.sub(lambda match: "" if _QUOTES.sub("", match[1]) in tables else match[0], text)
