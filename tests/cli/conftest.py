"""A place where no configuration but the test's own exists, and the command as a function of its arguments."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from audited_logs import BASE_MS, NAME, filled
from rule_cache import keep_key

import lockgate
from lockgate import assemble
from lockgate.cli.main import main
from lockgate.core.ruling.policy import Policy
from lockgate.core.text.rules import RULES, Rule
from lockgate.core.text.scanner import Scanner
from lockgate.gate.gate import shared_scanner
from lockgate.journal import keys
from lockgate.journal.journal import Journal
from lockgate.journal.stores.sqlite import SqliteLog


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


class Stdin(io.TextIOWrapper):
    """Standard input that holds bytes; `at_terminal` pretends that a person sits there."""

    def __init__(self, raw: io.BufferedIOBase, *, at_terminal: bool = False) -> None:
        super().__init__(raw)  # type: ignore[arg-type]
        self._at_terminal = at_terminal

    def isatty(self) -> bool:
        return self._at_terminal


Run = Callable[..., Ended]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory in an empty home; what the developer's shell says about colour does not count."""
    # Processes of their own import what this one imports, from wherever they start.
    monkeypatch.setenv("PYTHONPATH", str(Path(lockgate.__file__).parents[1]))
    for name in ("LOCKGATE_CONFIG", "XDG_STATE_HOME", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setenv("TERM", "xterm-256color")
    keep_key(tmp_path / ".local" / "state")
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return work


@pytest.fixture(autouse=True)
def one_scanner(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process the built-in rules are compiled once; processes of their own go through the cache on disk."""
    cached = assemble.cached_scanner

    def shared(rules: tuple[Rule, ...], folder: Path | None) -> Scanner:
        return shared_scanner(Policy()) if rules in (RULES, ()) else cached(rules, folder)

    monkeypatch.setattr(assemble, "cached_scanner", shared)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    def run(*argv: str, stdin: bytes | io.BufferedIOBase = b"", at_terminal: bool = False) -> Ended:
        raw = io.BytesIO(stdin) if isinstance(stdin, bytes) else stdin
        monkeypatch.setattr(sys, "stdin", Stdin(raw, at_terminal=at_terminal))
        code = main(list(argv))
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return Ended(code, out, err)

    return run


@pytest.fixture
def spawn() -> Callable[..., subprocess.Popen[bytes]]:
    """The command as a process of its own, for what only a process has: signals, pipes, terminals."""

    def spawn(*argv: str, **streams: object) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-P", "-m", "lockgate", *argv]
        return subprocess.Popen(command, env=os.environ.copy(), **streams)  # type: ignore[call-overload,no-any-return]

    return spawn


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """This installation's journal, closed, with record 0 and nine more."""
    path = tmp_path / ".local" / "state" / "lockgate" / "journal.db"
    signer = keys.create(path.with_suffix(".key"), NAME)
    # The opening's time, like all others, is long before that of the rulings: the clock goes back nowhere.
    with Journal(SqliteLog(path), signer, verify=keys.verify, clock=lambda: BASE_MS / 1000) as journal:
        journal.append(filled()[:5], durable=False)
        journal.checkpoint()
        journal.append(filled()[5:], durable=True)
    return path


@pytest.fixture
def vkey(log: Path) -> str:
    return keys.load(log.with_suffix(".key")).key.vkey


@pytest.fixture
def head(log: Path, run: Run) -> str:
    assert run("audit", "head", "--out", "head.txt").code == 0
    return "head.txt"
