"""The table of programs: its examples, and what it refuses."""

from __future__ import annotations

from collections import Counter

import pytest
from command_effects import read_line

from lockgate.core.ruling.effects.programs.program_rows import (
    NAME_COLUMNS,
    NAMES,
    PACKAGE,
    PROGRAM_COLUMNS,
    PROGRAMS,
    TABLE,
    find_row,
    make_row,
)
from lockgate.core.tables import Example, read_examples, read_table

EXAMPLES = [
    *read_examples(PACKAGE, TABLE, PROGRAMS, PROGRAM_COLUMNS),
    *read_examples(PACKAGE, TABLE, NAMES, NAME_COLUMNS),
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.text)
def test_a_row_reads_its_examples(example: Example) -> None:
    line, _, effect = example.text.rpartition(" => ")
    kind, _, target = effect.partition(" ")
    effects = read_line(line)
    if not example.hit:
        assert kind not in {kind for kind, _ in effects}
    elif target:
        assert (kind, target) in effects
    else:
        assert kind in {kind for kind, _ in effects}


def test_the_longest_command_words_count() -> None:
    row, used = find_row("pip", ["config", "set", "global.index-url", "https://x.example"])
    assert row is not None
    assert (row.operands, used) == (("skip", "src"), 2)


def test_a_word_that_no_row_has_is_unknown() -> None:
    row, used = find_row("uv", ["unheard-of"])
    assert row is not None
    assert (row.effect, used) == ("unknown", 0)
    assert read_line("cargo +/tmp/x build") == {("runs-program", "cargo")}
    assert find_row("unheard-of", []) == (None, 0)


def test_no_program_stands_in_two_places() -> None:
    names = [
        entry for _, _, programs in read_table(PACKAGE, TABLE, NAMES, NAME_COLUMNS) for entry in programs.split(", ")
    ]
    rows = [
        f"{name} {entry}".removesuffix(" -")
        for names, words, *_ in read_table(PACKAGE, TABLE, PROGRAMS, PROGRAM_COLUMNS)
        for name in names.split()
        for entry in words.split(",")
    ]
    assert [entry for entry, count in Counter([*names, *rows]).items() if count > 1] == []


@pytest.mark.parametrize(
    ("options", "effect"), [("write -o", "-"), ("write:", "-"), ("-", "Prints"), ("-", "prints(third)")]
)
def test_a_row_that_cannot_be_read_stops_the_start(options: str, effect: str) -> None:
    with pytest.raises(ValueError, match=r"programs\.tbl"):
        make_row("-", "read", options, effect)


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
