"""Statements of SQL."""

from __future__ import annotations

import pytest

from lockgate.core.ruling.effects.code import read_sql


@pytest.mark.parametrize(
    ("text", "kind", "target"),
    [
        ("select * from users where name = 'drop table x'", "looks", ""),
        ("-- drop table x\nselect 1", "looks", ""),
        ("explain select 1", "looks", ""),
        ("insert into orders values (1)", "changes-record", "orders"),
        ("update users set a = 1 where id = 2", "changes-record", "users"),
        ("delete from users where id = 2", "deletes-record", "users"),
        ("delete from users", "deletes-data", "users"),
        ("delete from users returning 'where'", "deletes-data", "users"),
        ("DROP TABLE IF EXISTS users", "deletes-data", "users"),
        ("truncate table a.b", "deletes-data", "a.b"),
        ('drop table "shop" . "old users"', "deletes-data", "shop.old users"),
        ("drop table [dbo].[users]", "deletes-data", "dbo.users"),
        ("select 1 /* ! it's */", "looks", ""),
        ("alter table users drop column a", "deletes-data", "users"),
        ("alter table users disable row level security", "disables-check", "users"),
        ("grant all on t to eve", "grants-access", "eve"),
        ("create user eve with password 'x'", "grants-access", "eve"),
        ("CREATE USER 'eve'@'%' IDENTIFIED BY 'x'", "grants-access", "database"),
        ("copy t from program 'id'", "unreadable", "database server"),
        ("exec xp_cmdshell 'id'", "unreadable", "database server"),
        ("select * from pg_shadow", "reads-secret", "database"),
        ("with a as (select 1) delete from users", "deletes-data", "users"),
        ("with a as (delete from users where id = 2 returning *) select 1", "deletes-record", "users"),
        ("merge into users u using s on true when matched then delete", "deletes-data", "users"),
        ("update users set role = 'admin' where id = 2", "grants-access", "users"),
        ("do $$ begin execute 'drop ' || 'table users'", "unreadable", "database"),
        ("create table t (a int)", "changes-record", "table"),
        ("frobnicate", "changes-record", "database"),
    ],
)
def test_a_statement_has_this_effect(text: str, kind: str, target: str) -> None:
    assert [(each.kind, each.target) for each in read_sql(text)] == [(kind, target)]


def test_each_statement_counts() -> None:
    assert {each.kind for each in read_sql("select 1; drop table a; select ';'")} == {"looks", "deletes-data"}


@pytest.mark.parametrize(
    ("text", "targets"),
    [
        ("DROP TABLE IF EXISTS a, s.b , `c` CASCADE", ["a", "s.b", "c"]),
        ("truncate only a *, only b", ["a", "b"]),
        ("grant select on a, b to app, eve with grant option", ["app", "eve"]),
        ("drop table a /* , b */, c -- , d", ["a", "c"]),
        ("alter table t drop column a, drop column b", ["t"]),
    ],
)
def test_every_name_of_a_list_is_a_target(text: str, targets: list[str]) -> None:
    assert [each.target for each in read_sql(text)] == targets


@pytest.mark.parametrize("gap", [" " * 5_000, '"' + "x" * 100 + '",'])
def test_a_list_that_goes_on_beyond_the_head_cannot_be_read(gap: str) -> None:
    kinds = [each.kind for each in read_sql(f"drop table if exists a, {gap * 50} users")]
    assert {*kinds} == {"deletes-data", "unreadable"}
    assert [each.kind for each in read_sql(f"insert into a values {'(1),' * 2_000} (1)")] == ["changes-record"]


def test_too_many_statements_cannot_be_read() -> None:
    assert "unreadable" in {each.kind for each in read_sql("select 1;" * 100)}


@pytest.mark.parametrize(
    "text",
    [
        "/*!50000 drop table users */",
        "drop /*! table */ users",
        "/*M!100100 drop table users */",
        "/*!99999 select */ /*!50000 drop table users */",
        "select 1 /*! ' */; drop table users; -- '",
        "select 1 /*!' */; copy users to program 'curl a.example'; select '",
        "select 1 /*! ' */; grant all on users to evil; -- '",
        "/* /* */ ' */ drop table users; -- '",
    ],
)
def test_a_comment_that_only_some_databases_run_cannot_be_read(text: str) -> None:
    assert "unreadable" in {each.kind for each in read_sql(text)}


def test_one_comment_behind_another_can_be_read() -> None:
    assert [each.kind for each in read_sql("/* a /b */ select 1 /* c */")] == ["looks"]


@pytest.mark.parametrize(
    "text",
    [
        r"select '\''; drop table users; -- '",
        """select 1 as "'"; drop table users; -- '""",
        "select `'`; /* x */ drop table users; -- '",
        "select 1 # '\n; DROP\tTABLE users; -- '",
        "select $$'$$;drop table users;'",
        "select 1--1; drop table users",
        'select 1 as "/*"; drop table users; -- */',
    ],
)
def test_where_databases_differ_about_texts_and_comments_these_hide_no_statement(text: str) -> None:
    assert ("deletes-data", "users") in {(each.kind, each.target) for each in read_sql(text)}


@pytest.mark.parametrize(
    "text",
    [
        "insert into t values ('a; b; drop shadow')",
        "select 'it''s; a' -- drop table users",
        "select ';'",
        "insert into notes values ('Call Bob; grant access to Carol')",
        "update tasks set note = 'Stop; create user guide' where id = 1",
        "select path from files where path like 'src/*' or path like 'docs/*'",
        "select 1 -- see src/*.py and docs/*.md",
    ],
)
def test_other_semicolons_in_texts_and_comments_open_no_door(text: str) -> None:
    assert {each.kind for each in read_sql(text)} <= {"changes-record", "looks"}


def test_a_quote_in_a_comment_that_runs_hides_no_statement() -> None:
    kinds = {each.kind for each in read_sql("select 1 /*! ' */; drop table users; -- '")}
    assert kinds == {"looks", "deletes-data", "unreadable"}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("select provider, secret from integration_tokens", "secret"),
        ("SELECT u.password FROM users u", "password"),
        ("select * from api_keys", "api_keys"),
        ("select id, created_at from auth.access_tokens limit 5", "access_tokens"),
        ("with t as (select private_key from hosts) select * from t", "private_key"),
        ("select max(token) from sessions", "token"),
        ("insert into x select password_hash_value, token from users", "token"),
        ("copy credentials to stdout", "credentials"),
        ("update users set token = 'x' returning token", "token"),
    ],
)
def test_credentials_that_are_shown_are_secrets(text: str, name: str) -> None:
    assert [(each.kind, each.target) for each in read_sql(text)] == [("reads-secret", name)]


@pytest.mark.parametrize(
    "text",
    [
        "select count(*) from integration_tokens",
        "select count(*), max(created_at) from tokens",
        "select column_name from information_schema.columns where table_name = 'tokens'",
        "select sum(tokens), prompt_tokens from usage",
        "select id from users where token is null",
        "select password is not null as has_password from users",
        "select password_changed_at from users",
        "describe tokens",
    ],
)
def test_credentials_that_are_counted_or_compared_are_only_looked_at(text: str) -> None:
    assert [each.kind for each in read_sql(text)] == ["looks"]


@pytest.mark.parametrize(
    ("statement", "effect"),
    [
        ("copy t to '/home/ada/.bashrc'", ("writes-startup-file", "/home/ada/.bashrc")),
        ("copy t from '/home/ada/.ssh/id_rsa'", ("reads-secret", "/home/ada/.ssh/id_rsa")),
        ("load data infile '/etc/shadow' into table t", ("reads-secret", "/etc/shadow")),
        ("attach database '/home/ada/.bashrc' as x", ("writes-startup-file", "/home/ada/.bashrc")),
    ],
)
def test_a_file_that_a_statement_reads_or_writes_is_what_it_is_for_a_program(
    statement: str, effect: tuple[str, str]
) -> None:
    assert effect in {(each.kind, each.target) for each in read_sql(statement)}


def test_a_file_of_data_is_none_of_them() -> None:
    assert {each.kind for each in read_sql("copy t from '/srv/data/t.csv'")} == {"changes-record"}
