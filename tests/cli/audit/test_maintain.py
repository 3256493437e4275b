"""`lockgate audit prune` and `keys`: what changes the log, and what it needs for that."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from time import time
from typing import Any

import pytest
from audited_logs import DAY_S, HOSTILE, NAME, a_ruling

from lockgate import assemble
from lockgate.journal import keys
from lockgate.journal.journal import Journal
from lockgate.journal.stores.sqlite import SqliteLog

Run = Callable[..., Any]


def test_rotated_keys_are_followed_from_the_first(run: Run, log: Path, vkey: str, head: str) -> None:
    ended = run("audit", "keys", "rotate", "--yes", "--who", HOSTILE, "--json")
    assert (ended.code, ended.err) == (0, "")
    told = json.loads(ended.out)
    assert told["vkey"].startswith(f"{NAME}.2+")
    assert keys.load(Path(told["key_file"])).key.vkey == told["vkey"]
    Path("last.txt").write_text(told["last_head"], encoding="utf-8")
    listed = [json.loads(line) for line in run("audit", "keys", "--json").out.splitlines()]
    assert [(each["vkey"], each["records"], each["state"]) for each in listed] == [
        (vkey, 11, "closed"),
        (told["vkey"], 1, "open"),
    ]
    assert run("audit", "keys").out == f"{vkey}\n  11 signed records, closed\n{told['vkey']}\n  1 signed record, open\n"
    # The gate of this installation goes on under the new key.
    with assemble.log_from_settings(assemble.settings_from_environment()) as journal:
        (receipt,) = journal.append([a_ruling(10)], durable=True)
        journal.checkpoint()
    assert (receipt.origin, receipt.index) == (f"{NAME}.2", 1)
    ended = run("audit", "verify", "--key", vkey, "--held", head, "--held", "last.txt")
    assert ended.code == 0, ended.out
    assert f"has not rewritten or cut off {NAME}.2 from record 0 on" in " ".join(ended.out.split())
    receipts = ["--receipt", f"{NAME}.2:1:{receipt.leaf_hash.hex()}"]
    assert run("audit", "verify", "--key", vkey, "--held", "last.txt", *receipts).code == 0
    ended = run("audit", "verify", "--key", told["vkey"])
    assert (ended.code, "is a later key of this log" in ended.err) == (2, True)
    assert run("audit", "show", "1").out.startswith(f"{NAME}.2 1\n")
    assert run("audit", "show", "--shard", NAME, "1").out.startswith(f"{NAME} 1\n")
    # Every shard is a file of its own.
    ended = run("audit", "export")
    assert (ended.code, ended.out) == (2, "")
    assert run("audit", "export", "--out", "out").code == 0
    assert run("audit", "verify", "out/0001.export", "out/0002.export", "--key", vkey).code == 0
    assert run("audit", "verify", "out/0002.export", "out/0001.export", "--key", vkey).code == 1
    assert run("audit", "export", "--shard", NAME).out.startswith("lockgate journal export/1\n")
    assert {ch for ch in run("audit", "show").out if not ch.isprintable()} == {"\n"}


def test_a_rotation_that_fails_leaves_no_key_behind(run: Run, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> bytes:
        from lockgate.core.errors import JournalUnavailable

        raise JournalUnavailable("the disk is full")

    monkeypatch.setattr(Journal, "rotate", full)
    before = sorted(log.parent.iterdir())
    ended = run("audit", "keys", "rotate", "--yes")
    assert (ended.code, ended.err) == (2, "lockgate: error: the disk is full\n")
    assert [path for path in sorted(log.parent.iterdir()) if ".key" in path.name] == [
        path for path in before if ".key" in path.name
    ]


def test_pruning_deletes_contents_says_so_and_leaves_the_log_sound(run: Run, log: Path, vkey: str) -> None:
    now_s = time()
    log.unlink()
    signer = keys.load(log.with_suffix(".key"))
    with Journal(SqliteLog(log), signer, verify=keys.verify, clock=lambda: now_s - 4_000 * DAY_S) as journal:
        for days, seqs in ((4_000, range(1, 6)), (100, range(6, 10))):
            at_ms = int((now_s - days * DAY_S) * 1000)
            journal.append([a_ruling(seq, ts_ms=at_ms + seq) for seq in seqs], durable=False)
            journal.checkpoint()
    leaf = json.loads(run("audit", "show", "4", "--json").out)["leaf_hash"]
    assert run("audit", "head", "--out", "before.txt").code == 0
    ended = run("audit", "prune", "--days", "5000", "--yes")
    assert (ended.code, ended.out) == (0, "nothing is older than 5000 days\n")
    ended = run("audit", "prune", "--days", "3000", "--yes", "--who", "ana")
    assert ended.out == f"records below 6 of {NAME} were deleted; their hashes stay\n"
    assert run("audit", "show", "4").err.startswith("lockgate: error: record 4 was deleted\n")
    assert "records below 6 of lockgate/00c0ffee deleted by ana" in run("audit", "show", "--kind", "prune").out
    ended = run("audit", "verify", "--key", vkey, "--held", "before.txt", "--receipt", f"4:{leaf}")
    assert ended.code == 0, ended.out
    # Record 0 opens the shard, and stays.
    assert "11 records, all of them as they were signed; the contents of 5 were deleted, as they say" in ended.out
    assert json.loads(run("audit", "verify", "--json").out)["deleted"] == 5
    assert run("audit", "prove", "4").code == 0
    ended = run("audit", "prove", "4", "--out", "4.proof", "--record", "4.json")
    assert (ended.code, Path("4.proof").exists()) == (2, False)
    told = json.loads(run("audit", "prune", "--days", "30", "--yes", "--json").out)
    assert told == {"retention_days": 30, "deleted_below": {NAME: 10}}
    assert run("audit", "verify", "--key", vkey, "--held", "before.txt", "--receipt", f"4:{leaf}").code == 0
    assert len(run("audit", "show", "--kind", "prune", "--json").out.splitlines()) == 2


def test_it_needs_the_key_to_change_the_log(run: Run, log: Path) -> None:
    log.with_suffix(".key").unlink()
    for argv in (["prune", "--days", "3", "--yes"], ["keys", "rotate", "--yes"]):
        ended = run("audit", *argv)
        assert ended.code == 2
        assert "there is no key in" in ended.err
    assert not log.with_suffix(".key").exists()
