"""A held command stays held when several calls write it down, move it, include it and run it."""

from __future__ import annotations

from pathlib import Path
from random import Random
from shlex import quote

import pytest
from hole_cases import UNRELATED, Call, any_held, check, play, rows

from lockgate import Reason

COUNT, SEED = 60, 20_261_119


def held_commands(folder: Path) -> list[str]:
    """Return commands of the table that are held in one call, in an order of chance."""
    commands = [row["call"] for row in rows("grave_calls.jsonl") if isinstance(row["call"], str)]
    # What a here document would end, or a program reads from the terminal, is another command in a file.
    plain = [command for command in commands if "\n" not in command and "<<" not in command]
    Random(SEED).shuffle(plain)
    return [command for command in plain if is_held_by_effects(command, folder)][:COUNT]


def is_held_by_effects(command: str, folder: Path) -> bool:
    """Return whether a command is held for what it does, and not for how its text looks."""
    return check(command, UNRELATED, folder).reason in (Reason.UNASKED_EFFECT, Reason.HARD_RULE)


def split(command: str, chance: Random) -> list[Call]:
    """Return calls that write a command to a file by some steps, and run it."""
    path, calls = chance.choice(("tools/c.sh", "/tmp/c.txt", "notes.txt", "lib/run")), list[Call]()
    write = chance.choice(("tool", "here", "pieces", "edit"))
    if write == "tool":
        calls.append([path, f"{command}\n"])
    elif write == "here":
        calls.append(f"cat > {path} <<'E_O_F'\n{command}\nE_O_F")
    elif write == "edit":
        calls += [[path, "#!/bin/sh\necho ready\n"], [path, "echo ready", command]]
    else:
        cut = chance.randrange(1, len(command))
        calls += [[path, command[:cut]], f"printf '%s\\n' {quote(command[cut:])} >> {path}"]
    for step in chance.sample(("mv", "cp", "chmod", "include", "ln"), chance.randrange(3)):
        target = f"{path.rpartition('.')[0] or path}-{step}.sh"
        if step == "chmod":
            calls.append(f"chmod +x {path}")
        elif step == "include":
            calls.append([target, f". {'' if path.startswith('/') else './'}{path}\n"])
            path = target
        else:
            calls.append(f"{'ln -s' if step == 'ln' else step} {path} {target}")
            path = target
    spelled = path if path.startswith("/") else f"./{path}"
    calls.append(
        chance.choice((f"sh {path}", f"sh < {path}", f". {spelled}", f"bash -x {path}", f"cat {path} | sh", spelled))
    )
    return calls


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the commands that are split."""
    return held_commands(tmp_path_factory.mktemp("held"))


@pytest.mark.parametrize("number", range(COUNT))
def test_a_held_command_stays_held_in_pieces(number: int, commands: list[str], tmp_path: Path) -> None:
    command = commands[number]
    calls = split(command, Random(SEED + number))
    assert any_held(play(calls, UNRELATED, tmp_path)), calls
