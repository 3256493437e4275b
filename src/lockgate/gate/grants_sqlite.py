"""Grants in the database of the approvals: the answer that makes one and the grant itself are one change.

The table is made by the first use of it, so that files of earlier versions are good as they are.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager

from lockgate.core.errors import InvalidCall, LockgateError
from lockgate.core.ruling.approvals import (
    ApprovalChange,
    BoundCall,
    GrantState,
    HeldFacts,
    is_approval_id,
    name_of_grant,
    parse_answer,
    parse_time,
)
from lockgate.core.ruling.grants import (
    MAX_GRANTS,
    Grant,
    change_from_grant,
    find_covering,
    rule_from_json,
    rule_to_json,
)

_TABLE = """
CREATE TABLE IF NOT EXISTS grants (
    id TEXT PRIMARY KEY,
    tool TEXT NOT NULL,
    rule TEXT NOT NULL,
    digest TEXT NOT NULL,
    expires_s DOUBLE PRECISION NOT NULL,
    made_by TEXT NOT NULL,
    made_s DOUBLE PRECISION NOT NULL,
    uses INTEGER NOT NULL,
    used_s DOUBLE PRECISION NOT NULL
)
"""
_COLUMNS = "id, rule, digest, made_by, made_s, uses, used_s"


class SqliteGrants:
    """The part of a store of approvals that keeps grants. A writer holds the store's lock from its first read on."""

    _ended: Callable[[str], bool]

    def grants(self, now_s: float) -> list[Grant]:
        """Return the grants that hold, oldest first."""
        now_s = parse_time(now_s)
        if not self._file_exists():
            return []
        with self._transaction(now_s) as (db, _):
            return _select_grants(db, now_s, "ORDER BY made_s, id")

    def use_grant(self, bound: BoundCall, facts: HeldFacts, now_s: float) -> Grant | None:
        """Return a grant that covers this call, counted as used; None where there is none, or a person denied it."""
        now_s = parse_time(now_s)
        if not self._file_exists():
            return None
        with self._transaction(now_s, bound.session) as (db, _):
            held = _select_grants(db, now_s, "AND tool = ? ORDER BY made_s, id", bound.tool)
            found = find_covering(held, bound, facts, now_s)
            while found is not None and self._ended(name_of_grant(found.id)):
                # Revoked, and back in a file that was put back.
                held = [grant for grant in held if grant.id != found.id]
                found = find_covering(held, bound, facts, now_s)
            if found is None or _is_denied(db, bound):
                return None
            used = found._replace(uses=found.uses + 1, used_s=now_s)
            db.execute("UPDATE grants SET uses = ?, used_s = ? WHERE id = ?", (used.uses, used.used_s, used.id))
            return used

    def add_grant(self, grant: Grant) -> None:
        """Keep a grant that a person made without a question; raise where there is no room."""
        said = parse_answer(True, grant.made_by, "", grant.made_s)
        if not is_approval_id(grant.id):
            raise InvalidCall("a grant needs an id like that of a question")
        self._create_file()
        with self._transaction(said.at_s) as (db, changed):
            insert_grant(db, grant)
            changed.append(change_from_grant(grant, GrantState.MADE, said.who))

    def revoke_grant(self, id: str, *, who: str, now_s: float) -> bool:
        """End a grant; return whether there was one. No call that is ruled on afterwards is covered by it."""
        said = parse_answer(False, who, "", now_s)
        if not is_approval_id(id) or not self._file_exists():
            return False
        with self._transaction(said.at_s) as (db, changed):
            found = _select_grants(db, said.at_s, "AND id = ?", id)
            changed += [change_from_grant(grant, GrantState.REVOKED, said.who) for grant in found]
            db.execute("DELETE FROM grants WHERE id = ?", (id,))
            return bool(found)

    def _transaction(
        self, now_s: float, session: str = ""
    ) -> AbstractContextManager[tuple[sqlite3.Connection, list[ApprovalChange]]]:
        raise NotImplementedError

    def _file_exists(self) -> bool:
        raise NotImplementedError

    def _create_file(self) -> None:
        raise NotImplementedError


def insert_grant(db: sqlite3.Connection, grant: Grant) -> None:
    """Keep a grant, in the caller's transaction; raise where there is no room."""
    if len(_select_grants(db, grant.made_s, "")) >= MAX_GRANTS:
        hint = "lockgate grants drop-unused, or answer for this call alone"
        raise LockgateError(f"there are {MAX_GRANTS} grants already", hint=hint)
    db.execute("DELETE FROM grants WHERE expires_s <= ?", (grant.made_s,))
    rule = grant.rule
    db.execute(
        "INSERT INTO grants (id, tool, rule, digest, expires_s, made_by, made_s, uses, used_s) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, 0, 0)",
        (
            grant.id,
            rule.tool,
            rule_to_json(rule),
            grant.digest,
            float(rule.expires_s),
            grant.made_by,
            grant.made_s,
        ),
    )


def _select_grants(db: sqlite3.Connection, now_s: float, where: str, *values: object) -> list[Grant]:
    db.execute(_TABLE)
    found = db.execute(f"SELECT {_COLUMNS} FROM grants WHERE expires_s > ? {where}", (now_s, *values))  # noqa: S608
    return [_grant_from_row(row) for row in found.fetchall()]


def _is_denied(db: sqlite3.Connection, bound: BoundCall) -> bool:
    found = db.execute(
        "SELECT 1 FROM marks WHERE session = ? AND matter = ? AND who IS NOT NULL", (bound.session, bound.call_key)
    )
    return found.fetchone() is not None


def _grant_from_row(row: tuple[object, ...]) -> Grant:
    """Return a row as it was written, or raise: what is listed must be what is compared."""
    try:
        id, rule, digest, made_by, made_s, uses, used_s = row
        if not all(isinstance(text, str) for text in (id, rule, digest, made_by)) or type(uses) is not int:
            raise TypeError("not text")
        return Grant(
            str(id), rule_from_json(str(rule)), str(digest), str(made_by), parse_time(made_s), uses, parse_time(used_s)
        )
    except (TypeError, ValueError, InvalidCall) as error:
        raise sqlite3.DatabaseError(f"a row that is no grant: {type(error).__name__}") from error
