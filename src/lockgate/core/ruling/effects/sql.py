"""Statements of SQL to their effects, by verb, table and what stands in them; no parse, and linear work."""

from __future__ import annotations

import re

from lockgate.core.ruling.effects.effect import Certainty, Effect, effect

MOST_STATEMENTS = 64

_NOISE = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'", re.DOTALL)
_WORD = r"[`\"\[]?([\w.$-]+)[`\"\]]?"
_STATEMENTS: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(
            r"(?is)\bcopy\b.*\b(?:from|to)\s+program\b|\bxp_cmdshell\b|\bsp_oacreate\b|\blo_(?:import|export)\s*\(|\bload_extension\s*\(|\bsys_(?:exec|eval)\s*\(|\binto\s+(?:out|dump)file\b|\bcreate\s+(?:or\s+replace\s+)?function\b.*\blanguage\s+'?(?:c|plpython\w*|plperlu|plsh)\b|\bdbms_scheduler\b|\bexecute\s+external\b"
        ),
        "unreadable",
    ),
    (
        re.compile(
            rf"(?is)^\s*(?:grant\b.*\bto\s+|(?:create|alter)\s+(?:user|role|login)\s+(?:if\s+not\s+exists\s+)?)(?:{_WORD}|\S)"
        ),
        "grants-access",
    ),
    (
        re.compile(
            r"(?is)^\s*(?:set\s+password|alter\s+system|revoke\b|create\s+server|create\s+subscription|create\s+publication|drop\s+(?:user|role|login))"
        ),
        "changes-permissions",
    ),
    (
        re.compile(
            rf"(?is)^\s*(?:alter\s+table\s+(?:if\s+exists\s+)?(?:only\s+)?{_WORD}\s+disable\s+(?:row\s+level\s+security|trigger))|^\s*drop\s+(?:policy|trigger)\b"
        ),
        "disables-check",
    ),
    (
        re.compile(
            rf"(?is)^\s*drop\s+(?:database|schema|table|view|materialized\s+view|keyspace|collection|tablespace|extension|column)\s+(?:if\s+exists\s+)?{_WORD}"
        ),
        "deletes-data",
    ),
    (re.compile(rf"(?is)^\s*truncate\s+(?:table\s+)?(?:only\s+)?{_WORD}"), "deletes-data"),
    (re.compile(rf"(?is)^\s*delete\s+from\s+(?:only\s+)?{_WORD}(?!.*\bwhere\b)"), "deletes-data"),
    (re.compile(rf"(?is)^\s*delete\s+from\s+(?:only\s+)?{_WORD}"), "deletes-record"),
    (
        re.compile(rf"(?is)\balter\s+table\s+(?:if\s+exists\s+)?(?:only\s+)?{_WORD}.*\bdrop\s+(?:column|constraint)\b"),
        "deletes-data",
    ),
    (re.compile(rf"(?is)^\s*update\s+(?:only\s+)?{_WORD}"), "changes-record"),
    (
        re.compile(
            rf"(?is)^\s*(?:insert\s+(?:or\s+\w+\s+)?into|replace\s+into|merge\s+into|upsert\s+into|copy)\s+{_WORD}"
        ),
        "changes-record",
    ),
    (
        re.compile(
            rf"(?is)^\s*(?:create|alter|rename|comment\s+on|reindex|vacuum|analyze|cluster|refresh)\b(?:\s+(?:or\s+replace|unique|temp|temporary|table|index|view|materialized|database|schema|sequence|type|extension|function|trigger|if|not|exists|concurrently))*\s*{_WORD}?"
        ),
        "changes-record",
    ),
    (re.compile(r"(?is)^\s*(?:do\b|call\b|exec(?:ute)?\b|prepare\b)"), "changes-record"),
)
# `with … delete from t` and `explain analyze delete …` change data behind a harmless first word.
_CHANGE_INSIDE = re.compile(rf"(?is)\b(?:insert\s+into|update|delete\s+from|truncate|drop\s+table)\s+{_WORD}")
_LOOKS = re.compile(
    r"(?is)^\s*(?:select|with|show|describe|desc|explain|pragma|values|table|use|set|begin|start|commit|rollback|end|savepoint|release|fetch|declare|listen|discard|help)\b"
)
_SECRET_TABLE = re.compile(
    r"(?i)\bpg_(?:shadow|authid)\b|\bmysql\.user\b|\bpassword_hash\b|\bsys\.sql_logins\b|\bpg_read_file\s*\(|\bload_file\s*\("
)


def read_sql(text: str, argument: str = "") -> list[Effect]:
    """Return what statements would do; one that is not known may change anything."""
    statements = [part for part in _NOISE.sub(_blank, text).split(";") if part.strip()]
    found: dict[tuple[str, str], Effect] = {}
    for statement in statements[:MOST_STATEMENTS]:
        each = _read_statement(statement, argument)
        found.setdefault((each.kind, each.target), each)
    if len(statements) > MOST_STATEMENTS:
        found["", ""] = effect("unreadable", certainty=Certainty.GUESS, argument=argument)
    return list(found.values()) or [effect("looks", argument=argument)]


def _blank(match: re.Match[str]) -> str:
    # The program of `copy … from program '…'` and a path stay visible as a word of their own.
    return "''" if match.group().startswith("'") else " "


def _read_statement(statement: str, argument: str) -> Effect:
    if _SECRET_TABLE.search(statement):
        return effect("reads-secret", "database", argument=argument)
    for pattern, kind in _STATEMENTS:
        match = pattern.search(statement)
        if match is not None:
            target = next((group for group in match.groups() if group), "") if match.groups() else ""
            return effect(kind, target or "database", argument=argument)
    if _LOOKS.match(statement):
        inside = _CHANGE_INSIDE.search(statement)
        if inside is not None and not re.match(r"(?is)^\s*(?:select|show|describe|desc)\b", statement):
            return effect("changes-record", inside.group(1), argument=argument)
        return effect("looks", argument=argument)
    return effect("changes-record", "database", certainty=Certainty.GUESS, argument=argument)
