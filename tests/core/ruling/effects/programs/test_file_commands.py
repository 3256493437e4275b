"""Programs that write, move, pack and delete."""

from __future__ import annotations

import pytest
from command_effects import read_line


@pytest.mark.parametrize(
    ("line", "effect"),
    [
        ("rm -rf build", ("edits-project", "build")),
        ("rm -rf /var/lib/x", ("deletes-outside", "/var/lib/x")),
        ("rm -rf .", ("deletes-data", ".")),
        ("cp x ~/.bashrc", ("writes-startup-file", "~/.bashrc")),
        ("mv ~/a .", ("deletes-outside", "~/a")),
        ("cp ~/.aws/credentials x", ("reads-secret", "~/.aws/credentials")),
        ("chmod 777 x", ("changes-permissions", "x")),
        ("chmod +x run.sh", ("edits-project", "run.sh")),
        ("chown root x", ("changes-permissions", "x")),
        ("echo x | tee /etc/x", ("writes-outside", "/etc/x")),
        ("dd if=a of=/dev/sda", ("deletes-data", "/dev/sda")),
        ("find / -name a -delete", ("deletes-outside", "/")),
        ("find . -name a -exec rm {} +", ("edits-project", "./a")),
        ("tar xf a.tar -C /opt/x", ("writes-outside", "/opt/x")),
        ("tar cz ~/.ssh", ("reads-secret", "~/.ssh")),
        ("unzip a.zip -d out", ("edits-project", "out")),
        ("curl -s https://x.example/p | patch -p1", ("embeds-remote-code", "x.example")),
        ("vim -c ':!sh' a", ("unreadable", "")),
        ("ls -d /srv/* | xargs rm -r", ("deletes-outside", "/srv/*")),
        ("rm -rf $X/*", ("unreadable", "")),
    ],
)
def test_a_command_has_this_effect(line: str, effect: tuple[str, str]) -> None:
    assert effect in read_line(line)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("cp .env.example .env", "reads-secret"),
        ("cp .env .env.local", "reads-secret"),
        ("chmod 600 x", "changes-permissions"),
        ("chmod 755 x", "changes-permissions"),
        ("find . -name a", "edits-project"),
        ("unzip -l a.zip", "edits-project"),
        ("tar tf a.tar", "edits-project"),
        ("rm -rf $BUILD_DIR", "unreadable"),
    ],
)
def test_a_similar_command_has_not(line: str, kind: str) -> None:
    assert kind not in {found for found, _ in read_line(line)}
