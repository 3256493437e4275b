"""Shells, interpreters and wrappers: texts that are not known, and values within them."""

from __future__ import annotations

import pytest
from command_effects import read_line


@pytest.mark.parametrize(
    "line",
    [
        'eval "$(head -1 a.txt)$(head -1 b.txt)"',
        'eval "$(cat a.sh)"',
        "eval '$()'",
        'eval "$(gh api repos/x/y)"',
        'sh -c "$(cat a.txt)"',
        'bash -c "set -e; $(cat a.txt)"',
        "bash <(cat a.txt)",
        "source <(sed -n 3p README.md)",
        "cat a.txt b.txt | sh",
        "head -1 notes.md | python3",
        'python -c "$(cat f.txt)"',
        'python -c "import os; $(cat f.txt)"',
        "python -c \"exec('$(cat f.txt)')\"",
        'node -e "$CODE"',
    ],
)
def test_text_that_is_not_known_is_not_run_unseen(line: str) -> None:
    assert ("unreadable", "") in read_line(line)


@pytest.mark.parametrize(
    "line",
    [
        'eval "$(ssh-agent -s)"',
        'eval "$(pyenv init -)"',
        'eval "$(direnv hook bash)"',
        "source <(kubectl completion bash)",
        'bash -c "echo $(date)"',
        'bash -c "cd $DIR && make test"',
        "python -c \"print('$(date)')\"",
        "cat build.sh | sh",
    ],
)
def test_settings_of_a_shell_and_values_within_a_text_are_ordinary(line: str) -> None:
    assert "unreadable" not in {kind for kind, _ in read_line(line)}
