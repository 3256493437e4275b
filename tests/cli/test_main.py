"""The command line itself: help, versions, mistakes."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lockgate.cli.exit_codes import Exit
from lockgate.cli.main import COMMANDS, main
from lockgate.runtime.rule_cache import COMPILING_LOG

Run = Callable[..., Any]
ROOT = Path(__file__).resolve().parents[2]


def test_the_version_is_that_of_the_project(run: Run) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    ended = run("--version")
    assert (ended.code, ended.out) == (0, f"lockgate {version}\n")


def test_help_names_every_command_and_every_exit_code(run: Run) -> None:
    ended = run("--help")
    assert ended.code == 0
    for command in COMMANDS:
        assert f"\n    {command} " in ended.out
    for code in Exit:
        assert f"\n  {code.value} " in ended.out


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_teaches(run: Run, command: str) -> None:
    ended = run(command, "--help")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith(f"usage: lockgate {command}")
    assert f"$ lockgate {command}" in ended.out


EVERY = (
    "check, scan, assess, serve, service, token, init, hook, mcp, replay, tune, eval, reconcile, gate, approvals, "
    "grants, trust, audit, stats, explain, rules, policy, config, judge, doctor, help, completion, demo"
)


@pytest.mark.parametrize(
    ("argv", "message", "hint"),
    [
        (["chekc"], "unknown command `chekc`", "did you mean `check`?"),
        (["frobnicate"], "unknown command `frobnicate`", f"use {EVERY}"),
        (["check", "--jsn"], "unexpected `--jsn`", "lockgate check --help lists the options"),
        (["check", "--js"], "unexpected `--js`", "lockgate check --help lists the options"),
        (["config", "validate", "my.toml"], "unexpected `my.toml`", "name a file as --config FILE"),
        (["config", "show", "--cfg"], "unexpected `--cfg`", "lockgate config --help lists the options"),
        (["--frob"], "unexpected `--frob`", "lockgate --help lists the options"),
        (["check", "--mode", "strict"], "unknown mode `strict`", "use default, paranoid, research"),
        (["check", "--mode", "paranoic"], "unknown mode `paranoic`", "did you mean `paranoid`?"),
        (["demo", "\x1b[31m"], "unexpected `\ufffd[31m`", "lockgate demo --help lists the options"),
        (["rules", "seed:forgt"], "unknown rule `seed:forgt`", "did you mean `seed:forget`?"),
        (["rules", "zzz"], "unknown rule `zzz`", "lockgate rules lists them all"),
        (["rules", "--family", "overide"], "unknown family `overide`", "did you mean `override`?"),
        (["scan", "nowhere"], "cannot read `nowhere`: no such file or directory", None),
    ],
)
def test_a_mistake_is_named_and_mended(run: Run, argv: list[str], message: str, hint: str | None) -> None:
    ended = run(*argv)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == f"lockgate: error: {message}\n" + (f"hint: {hint}\n" if hint else "")


@pytest.mark.parametrize(
    "argv",
    [["scan"], ["scan", "--json", "--sarif", "."], ["scan", "--max-bytes", "0", "."], ["config"], ["config", "edit"]],
    ids=" ".join,
)
def test_what_argparse_refuses_looks_like_every_other_error(run: Run, argv: list[str]) -> None:
    ended = run(*argv)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("lockgate: error: ")
    assert ended.err.endswith(f"\nhint: lockgate {argv[0]} --help lists the options\n")


def test_a_bug_of_ours_is_neither_a_pass_nor_a_traceback(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(path: str | None) -> None:
        raise RuntimeError("\x1b[31mboom")

    monkeypatch.setattr("lockgate.assemble.settings_from_environment", broken)
    ended = run("config", "show")
    assert (ended.code, ended.out) == (70, "")
    assert ended.err.startswith("lockgate: error: internal error: RuntimeError at test_main.py:")
    assert r"\x1b[31mboom" in ended.err


def test_a_person_at_a_terminal_is_told_once_that_the_rules_are_compiled(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("handlers", "propagate", "level"):
        monkeypatch.setattr(COMPILING_LOG, name, getattr(COMPILING_LOG, name))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    main(["--version"])
    for _ in range(2):
        COMPILING_LOG.info("compiling the rules")
    assert capsys.readouterr().err == "lockgate: compiling the rules\n"
