"""A journal with records of every kind, and ways in which an attacker changes it."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from lockgate.core.vocabulary import Action, Decision, Finding, Ran, Reason, Risk
from lockgate.journal import keys, record
from lockgate.journal.journal import Journal
from lockgate.journal.stores.sqlite import SqliteLog

NAME = "lockgate/00c0ffee"


HOSTILE = "ana \x1b[2J\u202e\rCONTINUE"


BASE_MS = 1_800_000_000_000


DAY_S = 86_400


def a_ruling(seq: int, *, run: str = "1" * 16, deny: bool = False, **changes: Any) -> bytes:
    decision = Decision(Action.CONTINUE, 1, Reason.NO_RED_FLAGS, Risk.LOW)
    if deny:
        found = (Finding("order:send", "b0001", 0, 5),)
        judged = (Ran(2, "suspicious", "openai/small"), Ran(3, "PAUSE", "openai/large"))
        decision = Decision(
            Action.PAUSE, 3, Reason.SUPERVISOR, Risk.HIGH, findings=found, judged=judged, approval="3f9a1c20"
        )
    fields: dict[str, Any] = {
        "session": "session-1",
        "run": run,
        "seq": seq,
        "ts_ms": BASE_MS + seq * 60_000,
        "salt": os.urandom(16),
        "mode": "default",
        "tool": "send_email" if deny else "read_file",
        "args_sha256": record.sha256_hex(f"{seq}"),
        "blocks": [("b0001", "untrusted", record.sha256_hex("page"))],
        "decision": decision,
        "policy_hash": record.sha256_hex("policy"),
        "context_sha256": record.sha256_hex("context"),
    }
    return record.ruling_bytes(**(fields | changes))


def an_approval(seq: int, state: str, who: str = "") -> bytes:
    return record.encode_record(
        record.approval_record(
            session="session-1",
            run="1" * 16,
            seq=seq,
            ts_ms=BASE_MS + seq * 60_000,
            salt=os.urandom(16),
            id="3f9a1c20",
            state=state,
            digest="ab" * 32,
            who=who,
        )
    )


def filled() -> list[bytes]:
    """Ten records: rulings of one session, the fourth denied, and what a person said to that."""
    return [
        *(a_ruling(seq) for seq in (1, 2, 3)),
        a_ruling(4, deny=True),
        an_approval(5, "waiting"),
        an_approval(6, "granted", HOSTILE),
        a_ruling(7, decision=Decision(Action.CONTINUE, 1, Reason.APPROVED, Risk.HIGH), approved_by=HOSTILE),
        a_ruling(8, tool="rm -rf / \x1b[31m", session="ana@example.com"),
        a_ruling(9),
    ]


def changed(log: Path, *statements: str) -> None:
    """Change the log as an attacker who can write the file; the triggers do not stop one."""
    with closing(sqlite3.connect(log)) as db:
        triggers = db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            db.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            db.execute(statement)
        if "VIEW" not in " ".join(statements):
            for _, made in triggers:
                db.execute(made)
        db.commit()
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


CHANGED_BODY = "UPDATE bodies SET body = (SELECT body FROM bodies WHERE number = 3) WHERE number = 4"


class Unwilling:
    """A signer that will not sign heads."""

    def __init__(self, signer: keys.Ed25519Signer) -> None:
        self.key = signer.key
        self._signer = signer

    def sign(self, message: bytes) -> bytes:
        if message.startswith(NAME.encode()):
            raise OSError("no")
        return self._signer.sign(message)


def unsigned(log: Path) -> None:
    """One more record, by a process that was stopped before it could sign."""
    journal = Journal(SqliteLog(log), Unwilling(keys.load(log.with_suffix(".key"))), verify=keys.verify)
    journal.append([a_ruling(10)], durable=True)
    journal.close()
