"""The table of programs."""

from __future__ import annotations

from collections import Counter

import pytest
from command_effects import read_line

from lockgate.core.ruling.effects.effect import KINDS
from lockgate.core.tables import read_sections

SECTIONS = read_sections("lockgate.core.ruling.effects.programs", "programs.txt")
ENTRIES = [entry for lines in SECTIONS.values() for line in lines for entry in line.split(", ")]


def test_every_section_is_a_kind_or_says_what_happens_to_the_input() -> None:
    assert set(SECTIONS) <= {*KINDS, "harmless", "prints"}


def test_no_program_stands_in_two_places() -> None:
    assert not [entry for entry, count in Counter(ENTRIES).items() if count > 1]


@pytest.mark.parametrize(
    ("line", "effect"),
    [
        ("ldd /tmp/evil", ("runs-program", "/tmp/evil")),
        ("hash -p /tmp/evil git", ("runs-program", "/tmp/evil")),
        ("mapfile -C 'rm -rf /etc' -c 1 lines", ("deletes-outside", "/etc")),
        ("let 'a[$(id)]'", ("unreadable", "")),
        ("test -v 'a[$(id)]'", ("unreadable", "")),
        ("logger -n e.example -f notes.txt", ("sends-data", "e.example")),
        ("date -s 2020-01-01", ("changes-service", "2020-01-01")),
        ("hostname evil", ("changes-service", "evil")),
        ("hostnamectl hostname evil", ("changes-service", "evil")),
        ("timedatectl set-ntp false", ("changes-service", "false")),
        ("loginctl enable-linger ada", ("schedules-job", "ada")),
        ("loginctl kill-user ada", ("changes-service", "ada")),
        ("journalctl --vacuum-time=1s", ("changes-service", "journalctl")),
        ("dmesg -C", ("changes-service", "dmesg")),
        ("ss -K dst 192.0.2.9", ("changes-service", "192.0.2.9")),
        ("ip a a 192.0.2.9/24 dev eth0", ("changes-service", "192.0.2.9")),
        ("ip -b /tmp/x", ("runs-program", "/tmp/x")),
        ("ip netns exec n rm -rf /etc", ("deletes-outside", "/etc")),
        ("ifconfig eth0 192.0.2.9", ("changes-service", "192.0.2.9")),
        ("nvidia-smi -pl 100", ("changes-service", "100")),
        ("neofetch --config /tmp/x", ("runs-program", "/tmp/x")),
        ("nm --plugin /tmp/x.so a.o", ("runs-program", "/tmp/x.so")),
        ("ssh-add -s /tmp/x.so", ("runs-program", "/tmp/x.so")),
        ("cloc --extract-with='rm -rf /etc' x", ("deletes-outside", "/etc")),
        ("scc -o ~/.bashrc", ("writes-startup-file", "~/.bashrc")),
        ("pager .env", ("reads-secret", ".env")),
        ("editor -c ':!id'", ("unreadable", "")),
        ("man -C /tmp/x ls", ("runs-program", "/tmp/x")),
        ("npx sw_vers", ("installs-package", "sw_vers")),
        ("mvn deploy", ("publishes", "mvn")),
    ],
)
def test_a_program_that_mostly_looks_can_do_more(line: str, effect: tuple[str, str]) -> None:
    assert effect in read_line(line)


@pytest.mark.parametrize(
    "line",
    """date -Iseconds
date -d yesterday +%s
hostname -I
hostnamectl
hostnamectl status
timedatectl show
loginctl list-sessions
journalctl -u nginx -n 50 --no-pager
dmesg -T
ss -tlnp
ip a
ip -br addr show dev eth0
ip route get 192.0.2.9
ifconfig eth0
route -n
arp -a
nvidia-smi --query-gpu=name --format=csv
ldd /usr/bin/python3
read -r name
[ -v HOME ]
compgen -c
file -b logo.png
ssh-add -l""".splitlines(),
)
def test_a_question_to_the_machine_only_looks(line: str) -> None:
    assert read_line(line) == {("looks", "")}


def test_the_longest_row_that_fits_counts() -> None:
    assert read_line("npm audit") == {("looks", "")}
    assert read_line("npm audit fix") == {("runs-project-task", "npm")}
    assert read_line("kubectl -n web get pods") == {("looks", "")}
    assert read_line("kubectl -n web scale deploy/a") == {("changes-service", "deploy/a")}


def test_a_program_that_no_row_names_is_a_guess() -> None:
    assert read_line("frobnicate all") == {("runs-program", "frobnicate")}
