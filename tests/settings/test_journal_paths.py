"""Where a journal may lie."""

from __future__ import annotations

import pytest
from settings_place import Place

from lockgate.settings.config import (
    AuditSettings,
)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("journal.db", "must be the absolute path of a file, or postgresql://…, not `journal.db`"),
        ("~/journal.db", "must be the absolute path of a file, or postgresql://…, not `~/journal.db`"),
        ("/var/lib/", "must be the absolute path of a file, or postgresql://…, not `/var/lib/`"),
        ("/", "must be the absolute path of a file, or postgresql://…, not `/`"),
        ("/.", "must be the absolute path of a file, or postgresql://…, not `/.`"),
        ("/var/lib/..", "must be the absolute path of a file, or postgresql://…, not `/var/lib/..`"),
        ("/usr", "must be a file, and `/usr` is a folder"),
        *(
            (f"/var/lib/{name}", f"must not be a name that files beside a log have, as `{name}` is")
            for name in ("j.key", "j.db.key.2", "j.policy", "j.Witnessed", "j.db-wal", "j.db-shm", "x.new", "journal")
        ),
        ("mysql://h/d", "must be the absolute path of a file, or postgresql://…, not `mysql://h/d`"),
        ("postgresql://me:canary@h/d", "must not hold a password"),
        ("postgresql://me:@h/d", "must not hold a password"),
        ("postgresql://h/d?user=me&password=canary", "must not hold a password"),
        ("postgresql://h/d?sslPassword=canary", "must not hold a password"),
        ("postgres://[canary/d", "is no URL"),
    ],
)
def test_a_journal_lies_in_a_file_or_in_postgresql_without_its_password(place: Place, path: str, said: str) -> None:
    place.write(place.user, f'[security.audit]\nlog_path = "{path}"')
    refused = place.refusal()
    assert f":2: `security.audit.log_path`: {said}\nhint: " in refused
    assert "canary" not in refused


@pytest.mark.parametrize("path", ["", "/var/lib/lockgate/audit.db", "postgresql://me@h:5432/d?sslmode=verify-full"])
def test_places_for_a_journal(place: Place, path: str) -> None:
    place.write(place.user, f'[security.audit]\nlog_path = "{path}"')
    assert place.load().audit == AuditSettings(log_path=path)
