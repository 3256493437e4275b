"""Settings that protect less once a text is written."""

from __future__ import annotations

import pytest

from lockgate.core.ruling.effects.written import read_written_settings


def weakened(path: str, text: str, replaced: str = "") -> list[str]:
    return [each.target for each in read_written_settings(path, text, replaced, "content")]


@pytest.mark.parametrize(
    ("path", "text", "name"),
    [
        ("main.tf", "  deletion_protection = false", "deletion_protection"),
        ("main.tf", "skip_final_snapshot = true", "skip_final_snapshot"),
        ("main.tf", "backup_retention_period = 0", "backup_retention_period"),
        ("main.tf", 'cidr_blocks = ["0.0.0.0/0"]', "0.0.0.0/0"),
        ("app.yaml", "ssl: off", "ssl"),
        ("app.yaml", "auth:\n  enabled: false", "auth"),
        ("app.yaml", "securityContext:\n  privileged: true", "privileged"),
        ("app.toml", "rate_limit = false", "rate_limit"),
        ("app.json5", '"audit": "disabled",', "audit"),
        ("ci/build.yml", "permissions: write-all", "permissions"),
        ("ssh.conf", "StrictHostKeyChecking=no", "StrictHostKeyChecking"),
        ("bin/release.sh", "git commit --no-verify -m x", "--no-verify"),
        ("client.py", "requests.get(url, verify=False)", "verify"),
        ("settings.py", "SESSION_COOKIE_SECURE = False", "SESSION_COOKIE_SECURE"),
        ("client.ts", "tls.connect({ rejectUnauthorized: false })", "rejectUnauthorized"),
    ],
)
def test_a_line_that_protects_less_names_its_setting(path: str, text: str, name: str) -> None:
    assert weakened(path, text) == [name]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("main.tf", "deletion_protection = true"),
        ("main.tf", "multi_az = false"),
        ("app.yaml", "# ssl: off"),
        ("app.yaml", "debug: false"),
        ("client.py", "encrypted = False"),
        ("client.py", "def get(url, verify=False):"),
        ("client.py", "def __init__(self, auth=None):"),
        ("run.sh", "pip install --disable-pip-version-check x"),
    ],
)
def test_other_lines_weaken_nothing(path: str, text: str) -> None:
    assert weakened(path, text) == []


def test_only_a_value_that_was_not_there_before_counts() -> None:
    assert weakened("a.yaml", "ssl: off\nport: 2", "ssl: off\nport: 1") == []
    assert weakened("a.yaml", "ssl: off", "ssl: on") == ["ssl"]


def test_many_settings_take_bounded_work() -> None:
    assert len(weakened("a.yaml", "\n".join(f"ssl_{at}: off" for at in range(50_000)))) <= 21
