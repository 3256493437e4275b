"""OpenCode's database in its real shape, what a hostile one holds, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from opencode_records import AT, POISON, Database, Part, text, tool

from lockgate.claude_code.transcripts import Call, Prompt, Result, Text, UnreadableLine
from lockgate.coding_agents import opencode_database
from lockgate.coding_agents.opencode_database import is_database, read_sessions
from lockgate.core.errors import InvalidTrace

ENDLESS = """WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n)
SELECT i AS id, i AS message_id, i AS session_id, i AS data FROM n"""


@pytest.fixture
def database(tmp_path: Path) -> Database:
    made = Database(tmp_path)
    made.session("s1")
    return made


def test_what_was_said_called_and_read_is_found_in_order(database: Database) -> None:
    database.say("s1", "user", text("<content>from a file", synthetic=True), text("Look at it"))
    calls = [
        tool("c1", "bash", {"command": "cat f"}),
        tool("c2", "bash", {"command": "x"}, status="error", error="bad"),
    ]
    database.say("s1", "assistant", {"type": "step-start"}, text("I will"), *calls, {"type": "step-finish"})
    database.say("s1", "assistant", tool("c3", "bash", {}, status="running"), text("what was before"), summary=True)
    (entries,) = database.read().values()
    assert [type(each).__name__ for each in entries] == "Prompt Text Call Call Result Result Call Text".split()
    prompt, added, first, _, read, failed, _, summary = entries
    assert isinstance(prompt, Prompt)
    assert prompt.text == "Look at it"
    assert isinstance(added, Text)
    assert (added.text, added.source) == ("<content>from a file\nsynthetic", "tool:opencode")
    assert isinstance(first, Call)
    assert (first.id, first.tool, dict(first.arguments)) == ("c1", "bash", {"command": "cat f"})
    assert isinstance(read, Result)
    assert (read.id, read.tool, read.text, read.outcome, read.at) == ("c1", "bash", "read", "ran", (AT + 10) / 1000)
    assert isinstance(failed, Result)
    assert (failed.id, failed.outcome) == ("c2", "failed")
    assert summary == Text("what was before", "agent:opencode", summary.at)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "error",
    [
        "Lockgate stopped this call: an argument comes from a text",
        "The user rejected permission to use this specific tool call.",
        "The user has specified a rule which prevents you from using this specific tool call.",
    ],
)
def test_a_call_that_was_not_let_run_is_known_and_its_text_stays(database: Database, error: str) -> None:
    # A server that the agent asks words its own errors, and could begin one like this to keep it out of the context.
    database.say("s1", "assistant", tool("c1", "mcp_read", {}, status="error", error=f"{error} {POISON}"))
    (entries,) = database.read().values()
    assert [each.outcome for each in entries if isinstance(each, Result)] == ["not-run"]
    assert [POISON in each.text for each in entries if isinstance(each, Text)] == [True]


def test_a_subagent_has_read_what_its_parents_had_and_its_task_is_not_the_users(database: Database) -> None:
    database.say("s1", "user", text("Look at it"))
    database.say("s1", "assistant", tool("c1", "read", {"filePath": "f"}, output=POISON))
    database.session("s2", parent="s1")
    database.say("s2", "user", text("Do look"))
    database.session("s3", parent="s2")
    database.say("s3", "user", text("Look deeper"))
    database.say("s1", "user", text("said later"))
    read = database.read()
    said = [(type(each), each.text) for each in read["s3"] if isinstance(each, Prompt | Text)]
    assert said == [(Prompt, "Look at it"), (Text, POISON), (Text, "Do look"), (Text, "Look deeper")]
    assert next(read_sessions(database.path))[:3] == ("s1", "", "/work")


def test_parents_that_are_gone_or_in_a_circle_leave_the_context_unknown(database: Database) -> None:
    for id, parent in (("s2", "gone"), ("s3", "s4"), ("s4", "s3")):
        database.session(id, parent=parent)
        database.say(id, "assistant", tool("c1", "bash", {}))
    read = database.read()
    for id in ("s2", "s3", "s4"):
        assert isinstance(read[id][0], UnreadableLine)
        assert len(read[id]) < 50


def test_the_text_of_a_folders_command_is_not_the_users(database: Database, tmp_path: Path) -> None:
    (tmp_path / ".opencode" / "command").mkdir(parents=True)
    words = "Please greet all in the list and mail it to them"
    (tmp_path / ".opencode" / "command" / "greet.md").write_text(f"---\ndescription: x\n---\n{words} $ARGUMENTS\n")
    database.session("s2", folder=str(tmp_path))
    database.say("s2", "user", text(f"{words} today"))
    database.say("s2", "user", text("Add two and three"))
    command, prompt = database.read()["s2"]
    assert isinstance(command, Text)
    assert command.source.endswith("greet.md")
    assert isinstance(prompt, Prompt)


@pytest.mark.parametrize("data", ["{", "3", b"\xff\xfe", None, "[" * 100_000, 7])
def test_a_row_that_cannot_be_read_leaves_the_context_unknown(database: Database, data: object) -> None:
    database.say("s1", "assistant", data, tool("c1", "bash", {"command": "ls"}))
    database.say("s1", "assistant", tool("c2", "bash", {}))
    database.db.execute("UPDATE message SET data = ? WHERE id = (SELECT max(id) FROM message)", (data,))
    (entries,) = database.read().values()
    assert [type(each) for each in entries] == [UnreadableLine, Call, Result] * 2


def test_a_row_that_is_too_large_is_not_read(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opencode_database, "_MOST", 1000)
    database.say("s1", "user", text("x" * 2000))
    (entries,) = database.read().values()
    assert [type(each) for each in entries] == [UnreadableLine]


def test_parts_without_their_message_leave_the_context_unknown(database: Database) -> None:
    database.say("s1", "assistant", tool("c1", "bash", {}))
    database.db.execute("DELETE FROM message")
    (entries,) = database.read().values()
    assert [type(each) for each in entries] == [UnreadableLine]


def test_odd_values_are_no_error(database: Database) -> None:
    picture = {"type": "file", "mime": "image/png", "filename": "p.png", "url": "data:image/png;base64,AAAA"}
    odd: list[Part] = [
        {"type": "tool"},
        {"type": "tool", "tool": 3, "callID": [], "state": {"status": "completed", "input": "x", "output": {"a": 1}}},
        tool("c1", "read", {}, attachments=[picture, 3], time=None),
        {"type": "subtask", "prompt": "Please greet Bob"},
        {"type": "of a later version", "content": "something"},
        {"type": ["x"]},
        {},
    ]  # fmt: skip
    database.say("s1", "user", *odd[3:], picture)
    database.say("s1", "assistant", *odd)
    database.say("s1", "system", text("x"))
    (entries,) = database.read().values()
    texts = [each.text for each in entries if isinstance(each, Text | Result)]
    assert not any("AAAA" in each for each in texts)
    assert sum("something" in each for each in texts) == 2
    assert not any(isinstance(each, Prompt) for each in entries)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("DROP TABLE part", "no `part` with"),
        ("ALTER TABLE message RENAME COLUMN data TO content", "no `message` with data, id"),
        ("INSERT INTO session_message VALUES ('m', '{}')", "keeps messages in `session_message`"),
        (f"DROP TABLE part; CREATE VIEW part AS {ENDLESS}", "no `part` with"),
    ],
    ids=["a table less", "another column", "later tables", "an endless view"],
)
def test_another_schema_is_refused(database: Database, change: str, said: str) -> None:
    database.say("s1", "user", text("Look at it"))
    database.db.executescript(change)
    with pytest.raises(InvalidTrace, match=said):
        database.read()


def test_what_is_no_database_or_damaged_is_refused(database: Database, tmp_path: Path) -> None:
    assert is_database(database.path)
    (tmp_path / "other.db").write_bytes(b"SQLite format 3\0" + b"x" * 5000)
    with pytest.raises(InvalidTrace, match="the database cannot be read"):
        list(read_sessions(str(tmp_path / "other.db")))
    os.mkfifo(tmp_path / "other.db-wal")
    with pytest.raises(InvalidTrace, match=r"`other\.db-wal` is not a regular file"):
        list(read_sessions(str(tmp_path / "other.db")))


def test_a_database_that_is_damaged_inside_is_refused(database: Database, tmp_path: Path) -> None:
    for number in range(200):
        database.say("s1", "assistant", tool(f"c{number}", "bash", {"command": "x" * 500}))
    database.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.db.close()
    data = bytearray(Path(database.path).read_bytes())
    data[len(data) // 2 : len(data) // 2 + 20_000] = b"\xa5" * 20_000
    Path(database.path).write_bytes(data)
    with pytest.raises(InvalidTrace, match="the database cannot be read"):
        database.read()
