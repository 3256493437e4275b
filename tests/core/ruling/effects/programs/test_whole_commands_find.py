"""Programs whose arguments are a language of their own."""

from __future__ import annotations

import pytest
from command_effects import read_line


@pytest.mark.parametrize(
    ("line", "effect"),
    [
        ("find . -name '*.pyc' -delete", ("edits-project", "./*.pyc")),
        ("find / -delete", ("deletes-outside", "/")),
        ("find . -exec rm -rf /etc ;", ("deletes-outside", "/etc")),
        ("find ~ -name id_rsa -exec cat {} +", ("reads-secret", "~/id_rsa")),
        ("find . -fprint ~/.bashrc", ("writes-startup-file", "~/.bashrc")),
    ],
)
def test_a_search_does_what_its_actions_do(line: str, effect: tuple[str, str]) -> None:
    assert effect in read_line(line)


def test_a_search_for_too_many_names_cannot_be_read() -> None:
    names = " -o ".join(f"-name f{number}" for number in range(300))
    assert ("unreadable", "") in read_line(f"find . {names} -delete")
