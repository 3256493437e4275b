"""Statements of SQL to their effects, by the patterns of `sql.tbl`; no parse, and linear work."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from itertools import islice

from lockgate.core.ruling.effects.effect import KINDS, Certainty, Effect, Severity, effect
from lockgate.core.ruling.effects.paths import Access, read_access
from lockgate.core.ruling.effects.project import NO_PROJECT
from lockgate.core.tables import read_patterns

MOST_STATEMENTS = 64
# Only the head of a statement is looked at: where the condition of a change comes later, it counts as absent.
MOST_HEAD = 4_000
_P = read_patterns(__package__, "sql.tbl")
_HEADS = tuple((kind, pattern) for kind, pattern in _P.items() if kind in KINDS)


def _credential_shown(statement: str) -> str:
    """Return a column or table of credentials that a statement shows; what is only counted or compared is not shown."""
    plain = _P["counting"].sub(" ", statement)
    columns = " ".join(_P["shown columns"].findall(plain))
    is_shown = _P["something"].search(columns) or _P["whole table"].search(plain)
    tables = " ".join(_P["tables"].findall(plain)) if is_shown else ""
    shown = _P["credential"].search(f"{columns}; {tables}")
    return shown[0] if shown else ""


def is_scratch_database(path: str) -> bool:
    """Return whether the file of a database is there to be tried things on, by its name."""
    return _P["scratch"].search(path) is not None


def read_sql(text: str, argument: str = "") -> list[Effect]:
    """Return what statements would do; one that is not known may change anything."""
    plain = _P["noise"].sub(r"\1\1 ", text)
    statements = [part for part in plain.split(";") if part.strip()]
    if _P["ends differ"].search(text):
        statements += [part[1] for noise in _P["noise"].finditer(text) for part in _P["hidden"].finditer(noise[0])]
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
    for match in islice(_P["file"].finditer(text), MOST_STATEMENTS):
        access = Access.READ if match.group(1).lower() in ("from", "infile") else Access.WRITE
        found = read_access(match.group(2), access, NO_PROJECT)
        if found.severity is Severity.OPENS_A_DOOR and found.kind != "writes-outside":
            yield found._replace(argument=argument)


def _has_unclear_comment(text: str) -> bool:
    inner = _P["comment in comment"].search(text)
    # What nothing closes is no comment in a comment: `like 'src/*' or path like 'docs/*'`.
    is_nested = inner is not None and "*/" in text[inner.end() :]
    return is_nested or _P["comment that runs"].search(text) is not None


def _read_statement(statement: str, argument: str) -> list[Effect]:
    if _P["server"].search(statement):
        return [effect("unreadable", "database server", argument=argument)]
    secret = _P["secret"].search(statement) and "database"
    if secret := secret or (_P["credential hint"].search(statement) and _credential_shown(statement)):
        return [effect("reads-secret", secret, argument=argument)]
    if _P["reads"].match(statement):
        return [effect("looks", argument=argument)]
    for kind, pattern in _HEADS:
        match = pattern.match(statement)
        if match is not None:
            if kind == "deletes-record" and not _P["where"].search(statement):
                kind = "deletes-data"
            names = _names_in_list(statement, match) or ["database"]
            return [effect(kind, name, argument=argument) for name in names]
    inside = _P["change inside"].search(statement)
    if inside is not None:
        return _read_statement(inside[1], argument)
    if _P["looks at"].match(statement):
        return [effect("looks", argument=argument)]
    return [effect("changes-record", "database", certainty=Certainty.GUESS, argument=argument)]


def _names_in_list(statement: str, head: re.Match[str]) -> list[str]:
    """Return the name in the head of a statement and those behind its commas: `drop table a, b` drops two tables."""
    names: list[str] = []
    found: re.Match[str] | None = head
    while found is not None and found.lastindex:
        names.append(_P["quotes"].sub("", found[found.lastindex]))
        found = _P["next name"].match(statement, found.end(found.lastindex))
    return names


def without_removals(text: str, tables: Collection[str]) -> str:
    """Return a text without what empties or removes one of these tables, wherever it stands."""
    return _P["removal"].sub(lambda match: "" if _P["quotes"].sub("", match[1]) in tables else match[0], text)
