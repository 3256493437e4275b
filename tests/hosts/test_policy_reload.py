"""The policy is reloaded 100 times while many threads ask: every record's policy is one of the whole ones.

The number of checks is what this machine manages meanwhile. `make test` leaves this directory out.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from types import ModuleType
from typing import Any

import pytest
from paths import TESTS

from lockgate import assemble
from lockgate.cli.policy_watch import watch_policy
from lockgate.core.ruling.policy import Policy
from lockgate.core.vocabulary import Risk
from lockgate.journal.log import find_shard
from lockgate.sessions import Host
from lockgate.sessions.stores.memory import MemorySessions

RELOADS = 100
THREADS = 12
LEAST_CHECKS = 500
PAUSE_S = 0.05
# Each half of a file is valid by itself, and looser than the whole: the tools that it lists further down are missing.
TOOLS = ("view_wall", "view_door")
BAD = ["[security\n", "[security]\nmood = 1\n", '[[flow]]\nfrom = "x"\n']


def load_module(path: Path) -> ModuleType:
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SERVED = load_module(TESTS / "service" / "test_app_served.py")


def policy_text(number: int) -> str:
    """A file in which the same number stands at the beginning and at the end, and in whose middle a tool is listed."""
    tool = TOOLS[number % 2]
    filler = "".join(f"# {number} {line} {'x' * 60}\n" for line in range(40))
    return (
        f"[security.verification]\nrecent_blocks = {number + 1}\n{filler}"
        f'additional_high_risk_tools = ["{tool}"]\n{filler}[supervision]\nmax_reorient_attempts = {number % 5}\n'
    )


@pytest.fixture
def home() -> Iterator[Path]:
    """In memory where the system has such a folder: the disk would only make the checks fewer."""
    with TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        # The folder itself lies where any user may make one.
        (Path(folder) / "home").mkdir(mode=0o700)
        yield Path(folder) / "home"


def test_no_ruling_is_made_under_a_half_read_policy(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "LOCKGATE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    (home / "work").mkdir()
    monkeypatch.chdir(home / "work")
    file = home / ".config" / "lockgate" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(policy_text(0))
    settings = assemble.settings_from_environment()
    # Sessions in memory: then a check costs its ruling and its record, and as many as possible meet each reload.
    host = Host(assemble.gate_from_settings(settings), MemorySessions())
    watch = watch_policy(host, settings)
    whole = {settings.policy.hash: TOOLS[0]}
    over = Event()

    def ask(thread: int) -> list[tuple[str, str, Risk]]:
        """Check calls until the reloads are over; return which call got which risk, by the record's place."""
        ruled: list[tuple[str, str, Risk]] = []
        while not over.is_set() or len(ruled) * THREADS < LEAST_CHECKS:
            # Two threads share each session; short ones, because a reload builds those in use anew.
            session, tool = f"s{thread // 2}-{len(ruled) // 50}", TOOLS[len(ruled) % 2]
            if len(ruled) % 50 == 0:
                host.open(session, goal="paint the house")
            kept = host.check(session, tool, {"path": f"{thread}-{len(ruled)}"}).decision
            assert kept.receipt is not None
            ruled.append((str(kept.receipt.index), tool, kept.risk))
        return ruled

    with ThreadPoolExecutor(THREADS) as pool:
        asking = [pool.submit(ask, thread) for thread in range(THREADS)]
        for number in range(1, RELOADS + 1):
            text = policy_text(number)
            if number % 10 == 0:
                # A bad file in between changes nothing.
                before = host.gate
                file.write_text(BAD[number // 10 % len(BAD)])
                watch.reload()
                assert host.gate is before
                assert watch.state.word == "refused"
            if number % 3 == 0:
                # Written in place, in pieces, while the thread looks.
                with file.open("w") as out:
                    for start in range(0, len(text), 700):
                        out.write(text[start : start + 700])
                        out.flush()
                        os.fsync(out.fileno())
                        watch.look()
            else:
                new = file.with_suffix(".new")
                new.write_text(text)
                new.replace(file)
            while not watch.reload():
                pass
            assert watch.state.word == "current", watch.state.error
            whole[host.gate.policy.hash] = TOOLS[number % 2]
            # Some calls under each, and no more time than that.
            over.wait(PAUSE_S)
        over.set()
        ruled = [each for future in asking for each in future.result()]

    assert len(whole) == RELOADS + 1
    journal: Any = host.gate.journal
    with journal.open_log().store.reading() as log:
        shard = find_shard(log, "")
        records = {index: json.loads(body) for index, body in log.bodies(shard.number, 0, 1 << 40)}
    policies: Counter[str] = Counter()
    for index, tool, risk in ruled:
        policy = f"sha256:{records[int(index)]['policy_sha256']}"
        policies[policy] += 1
        # The ruling itself is what that whole policy says: it lists exactly one of the two tools.
        assert (risk is Risk.HIGH) == (whole[policy] == tool), (index, tool, risk)
    assert len(ruled) >= LEAST_CHECKS
    assert len(policies) > RELOADS // 10, f"{len(ruled):,} checks under {len(policies)} of {len(whole)} policies"
    host.close()
    assemble.close_journals()


def test_every_worker_takes_a_changed_policy_on_sighup_and_keeps_it_under_a_bad_one(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    file = tmp_path / "config" / "lockgate" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text("")
    service = SERVED.Service(tmp_path, "--workers", "2")
    request.addfinalizer(lambda: service.process.poll() is None and service.end())

    def standing() -> set[tuple[str, str]]:
        """Each connection is taken by one of the workers."""
        found = set()
        for _ in range(6):
            client = service.client()
            said = service.ask(client, "GET", "/v1/policy")
            client.close()
            found.add((said["policy"], said["state"]))
        return found

    def wait_for(state: tuple[str, str]) -> None:
        deadline = time.monotonic() + SERVED.WAIT_S
        while standing() != {state}:
            assert time.monotonic() < deadline, standing()
            time.sleep(0.05)

    old, new = Policy(), Policy(recent_blocks=5)
    wait_for((old.hash, "current"))
    file.write_text("[security.verification]\nrecent_blocks = 5\n")
    service.process.send_signal(signal.SIGHUP)
    wait_for((new.hash, "current"))
    file.write_text("[security\n")
    service.process.send_signal(signal.SIGHUP)
    wait_for((new.hash, "refused"))
    code, said = service.end()
    assert code == 0
    assert "POLICY NOT RELOADED" in said
    assert f"policy={new.hash}" in said
