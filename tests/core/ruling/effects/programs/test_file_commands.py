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


@pytest.mark.parametrize("line", ["mkdir -pv ~/.venvs", "mkdir ../notes", "cd && mkdir notes", "mkdir /home/ada/x"])
def test_an_empty_folder_beside_the_project_changes_nothing(line: str) -> None:
    assert {kind for kind, _ in read_line(line)} == {"makes-folder"}


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("mkdir --mod=777 ~/x", "writes-outside"),
        ("mkdir -p ~/.local/bin", "writes-startup-file"),
        ("mkdir ~/.ssh", "changes-login"),
        ("cd && mkdir .ssh", "changes-login"),
        ("mkdir -p ~/.claude/commands", "changes-agent-file"),
        ("mkdir /etc/x", "writes-outside"),
        ("mkdir -m 777 ~/x", "writes-outside"),
        ("mkdir --mode=777 ~/x", "writes-outside"),
        ("install -d ~/x", "writes-outside"),
        ("install -d -m 755 /etc/x", "writes-outside"),
        ("touch ~/x", "writes-outside"),
        ("mkdir ~/x && cp a ~/x/", "writes-outside"),
        ("mkdir ~/x && echo a > ~/x/b", "writes-outside"),
    ],
)
def test_a_folder_that_programs_look_into_and_a_file_in_a_new_one_still_count(line: str, kind: str) -> None:
    assert kind in {found for found, _ in read_line(line)}
