"""Shells, interpreters, and the shell's own commands."""

from __future__ import annotations

import pytest
from command_effects import read_line


@pytest.mark.parametrize(
    ("line", "effect"),
    [
        ("bash -c 'rm -rf /etc'", ("deletes-outside", "/etc")),
        ("sh -ec 'rm -rf /etc'", ("deletes-outside", "/etc")),
        ("bash build.sh", ("runs-project-task", "build.sh")),
        ("python tools/x.py", ("runs-project-task", "tools/x.py")),
        ("python3 -c 'print(1)'", ("computes", "")),
        ("python3 -Ic 'import os; os.remove(\"/etc/x\")'", ("deletes-outside", "/etc/x")),
        ("python -m pytest -q", ("runs-project-task", "-m pytest")),
        ("python -m pip install evil", ("installs-package", "evil")),
        ("python -m http.server 80", ("opens-port", "80")),
        ("php -S 0.0.0.0:80", ("opens-port", "0.0.0.0:80")),
        ("php -S shop.example:80", ("opens-port", "shop.example:80")),
        ("php -S localhost:80 -t public /tmp/x.php", ("runs-program", "/tmp/x.php")),
        ("php -S localhost:80 -t /tmp/x", ("opens-port", "localhost:80")),
        ("php -S localhost:80 -t public -t /", ("opens-port", "localhost:80")),
        ("cd / && php -S localhost:80", ("opens-port", "localhost:80")),
        ("php -S localhost:80 -d auto_prepend_file=/tmp/x", ("opens-port", "localhost:80")),
        ("php -c /tmp/x -S localhost:80", ("opens-port", "localhost:80")),
        ("perl -pi -e 's/a/b/' x", ("edits-project", "x")),
        ('eval "$X"', ("unreadable", "")),
        (". ./setup.sh", ("runs-project-task", "./setup.sh")),
        ("pwsh -c x", ("unreadable", "")),
        ("cmd.exe /c x", ("unreadable", "")),
        ("alias ll='rm -rf /etc'; ll", ("deletes-outside", "/etc")),
        ("trap 'rm -rf /etc' EXIT", ("deletes-outside", "/etc")),
        ("printenv API_KEY", ("reads-secret", "API_KEY")),
        ("history -c", ("disables-check", "history")),
        ("python3 < x.py", ("runs-project-task", "x.py")),
    ],
)
def test_a_command_has_this_effect(line: str, effect: tuple[str, str]) -> None:
    assert effect in read_line(line)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("bash -n x.sh", "runs-project-task"),
        (". ./.env", "reads-secret"),
        ("source .venv/bin/activate", "runs-program"),
        ("python --version", "runs-project-task"),
        ("set -euo pipefail", "reads-secret"),
        ("printenv HOME", "reads-secret"),
        ("python -m http.server --bind 127.0.0.1", "opens-port"),
        ("php -S localhost:8000 -t public", "opens-port"),
        ("php -t public -S localhost:8000 router.php", "opens-port"),
        ('eval "$(pyenv init -)"', "unreadable"),
    ],
)
def test_a_similar_command_has_not(line: str, kind: str) -> None:
    assert kind not in {found for found, _ in read_line(line)}


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
