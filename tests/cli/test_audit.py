"""`lockgate audit`: what all of its subcommands share."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from audited_logs import NAME, changed

Run = Callable[..., Any]


def test_a_damaged_log_is_broken_for_every_command(run: Run, log: Path) -> None:
    changed(log, "UPDATE heads SET note = x'00' WHERE size = 10")
    for argv in (["head"], ["prove", "3"], ["export"]):
        ended = run("audit", *argv)
        assert (ended.code, ended.err[:18]) == (1, "lockgate: broken: "), (argv, ended)


def test_mistakes_are_named_and_mended(run: Run, log: Path, vkey: str, head: str) -> None:
    Path("folder").mkdir()
    Path("text").write_text("hello", encoding="utf-8")
    Path("empty").touch()
    for argv, message in (
        (["verify", "nowhere.db"], "there is no journal in `nowhere.db`"),
        (["verify", "folder"], "`folder` is a folder"),
        (["verify", "empty"], "`empty` is empty"),
        (["verify", "text"], "`text` is neither a log nor an export or archive of one"),
        (
            ["verify", str(log), str(log)],
            "one log, an archive and its log, or exports of one log",
        ),
        (["verify", "--key", "unknown+x+y"], "`unknown+x+y` is no verifier key"),
        (["verify", "--key", "nowhere"], "no such file or directory: `nowhere`"),
        (["verify", "--held", "nowhere"], "no such file or directory: `nowhere`"),
        (["verify", "--receipt", "7"], "`7` is no receipt"),
        (["verify", "--receipt", f"x:{'ab' * 32}"], "is no receipt"),
        (["verify", "--witness", vkey], f"`{NAME}` is the key of a log, and not of a witness"),
        (["verify", "postgresql://ana:secret@host/db"], "a password does not belong on a command line"),
        (["show", "--action", "PAUZE"], "unknown action `PAUZE`"),
        (["show", "--kind", "rulings"], "unknown kind `rulings`"),
        (["show", "--since", "yesterday"], "`yesterday` is no time"),
        (["show", "11"], f"there is no record 11 in `{NAME}`"),
        (["show", "1", "--tool", "x"], "an INDEX leaves nothing to filter or follow"),
        (["show", "1", "--shard", "unknown"], "the log has no shard `unknown`"),
        (["show", "--shard", NAME], "--shard has no effect without an INDEX"),
        (["show", "--json", "--format", "ocsf"], "--json and --format cannot both be had"),
        (["prove"], "an INDEX is needed"),
        (["prove", "10"], "record 10 is not under a signed head"),
        (["prove", "1", "--key", vkey], "--key has no effect without --check"),
        (["prove", "--check", head], "--check needs --record and --key"),
        (["head", "--out", head], "there is a file `head.txt` already"),
        (["prune"], "the configuration keeps records for ever"),
        (["prune", "--days", "0", "--yes"], "records must be kept for at least one day"),
        (["prune", "--days", "99999999999999999", "--yes"], "records cannot be older than 365,250 days"),
        (["prune", "--days", "3"], "no terminal to ask on"),
        (["keys", "rotate"], "no terminal to ask on"),
        (["keys", "--yes"], "--yes has no effect without rotate"),
        (["witness"], "the following arguments are required: --log"),
        (["witness", "--log", vkey, "--listen", "80"], "`80` is no address to listen on"),
        ([], "the following arguments are required: WHAT"),
    ):
        ended = run("audit", *argv)
        assert (ended.code, ended.out) == (2, ""), argv
        assert ended.err.startswith("lockgate: error: "), argv
        assert message in ended.err, (argv, ended.err)
        assert "secret" not in ended.err


def test_without_a_journal_it_says_how_one_comes_to_be(run: Run) -> None:
    for what in (
        ["verify"],
        ["show"],
        ["head"],
        ["export"],
        ["keys"],
        ["archive", "--out", "x"],
        ["prune", "--days", "9", "--yes"],
    ):
        ended = run("audit", *what)
        assert ended.code == 2
        assert "there is no journal in" in ended.err
        assert "hint: the first ruling of a gate" in ended.err


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="needs a user whom permissions stop")
def test_a_log_one_may_not_read_is_an_error(run: Run, log: Path) -> None:
    log.chmod(0)
    ended = run("audit", "verify")
    assert ended.code == 2
    assert "permission denied" in ended.err


def test_a_reader_that_goes_away_ends_it_quietly(log: Path, spawn: Callable[..., subprocess.Popen[bytes]]) -> None:
    for argv in (["show", "--json"], ["export"]):
        there, ours = os.pipe()
        os.close(there)
        process = spawn("audit", *argv, stdout=ours, stderr=subprocess.PIPE)
        os.close(ours)
        _, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (141, b""), argv


def test_help_of_each_teaches(run: Run) -> None:
    from lockgate.cli.main import make_parsers

    names = [name.split()[1] for name in make_parsers(["audit"]) if name.startswith("audit ")]
    assert names == ["verify", "show", "head", "prove", "export", "archive", "prune", "keys", "witness"]
    for name in names:
        ended = run("audit", name, "--help")
        assert (ended.code, ended.err) == (0, "")
        assert ended.out.startswith(f"usage: lockgate audit {name}")
        assert f"$ lockgate audit {name}" in ended.out
        # The page of all of them names it with what it takes.
        assert f"lockgate audit {name}" in run("audit", "--help").out


def test_the_installation_is_not_asked_where_the_log_is_named(run: Run, log: Path, vkey: str) -> None:
    """An auditor has no configuration of ours, or one that is broken."""
    config = Path(os.environ["XDG_CONFIG_HOME"]) / "lockgate"
    config.mkdir(parents=True)
    (config / "config.toml").write_text("nonsense = [", encoding="utf-8")
    assert run("audit", "verify").code == 2
    assert run("audit", "verify", str(log), "--key", vkey).code == 0
    assert run("audit", "show", "--log", str(log)).code == 0
