"""Which program a name or a path starts."""

from __future__ import annotations

import pytest
from command_effects import read_line


@pytest.mark.parametrize("name", ["rm", "/bin/rm", "/usr/bin/rm", "\\rm", "'rm'", 'r""m', "$'rm'", "command rm"])
def test_a_program_is_known_in_every_spelling(name: str) -> None:
    assert ("deletes-outside", "/etc/x") in read_line(f"{name} /etc/x")


@pytest.mark.parametrize(
    "line",
    [
        "python3.12 -m pytest",
        "pip3.11 list",
        ".venv/bin/python -m pytest",
        "~/.venvs/shop/bin/python -m pytest",
        "node20 --version",
    ],
)
def test_a_version_and_a_folder_of_programs_do_not_hide_a_program(line: str) -> None:
    assert not {kind for kind, _ in read_line(line)} & {"runs-program", "unreadable"}


def test_a_path_is_run_as_a_file() -> None:
    assert read_line("./run.sh") == {("runs-project-task", "./run.sh")}
    assert read_line("/opt/x/run") == {("runs-program", "/opt/x/run")}
    assert read_line("/tmp/venv/bin/evil") == {("runs-program", "evil")}
    assert read_line("~/.virtualenvs/shop/bin/evil") == {("runs-program", "evil")}


def test_a_question_for_help_does_nothing() -> None:
    assert read_line("terraform --help") == {("looks", "")}


@pytest.mark.parametrize("line", ["npm -v", "yarn -v", "docker -v"])
def test_a_program_that_acts_by_command_words_shows_its_version(line: str) -> None:
    assert read_line(line) == {("looks", "")}


@pytest.mark.parametrize("line", ["unheard-of -v", "npm -v; unheard-of", "sudo unheard-of -v"])
def test_v_alone_may_mean_that_an_unknown_program_says_more(line: str) -> None:
    assert ("runs-program", "unheard-of") in read_line(line)
