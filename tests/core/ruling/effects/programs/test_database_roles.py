"""Clients of databases, seen from a session; their rows have the other cases."""

from __future__ import annotations

from command_effects import read_line

from lockgate import Action, Gate


def test_a_goal_that_names_one_database_excuses_no_other(gate: Gate) -> None:
    session = gate.session(goal="Set kelp_dev up anew from the dump")
    session.add("Loaded 20 tables.", source="tool:Bash")
    assert session.check("Bash", {"command": "dropdb --if-exists kelp_dev"}).action is Action.CONTINUE
    assert session.check("Bash", {"command": "dropdb --if-exists kelp_prod"}).action is Action.PAUSE


def test_too_many_names_cannot_be_read() -> None:
    drops = "; ".join(f"db.c{number}.drop()" for number in range(20))
    assert ("unreadable", "") in read_line(f"mongosh --eval '{drops}'")
