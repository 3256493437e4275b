"""Power cuts and full disks: what was acknowledged is there afterwards, and the log is sound.

These are short runs; `make soak` goes on for as long as one likes.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from log_checks import acknowledged, find_signer, record, signer, whole
from paths import SUPPORT

from lockgate.core.errors import JournalUnavailable
from lockgate.journal import keys
from lockgate.journal.journal import Journal
from lockgate.journal.stores.sqlite import SqliteLog

HERE = SUPPORT
ENVIRON = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"}

posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and signals")


def run(*command: str, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, env=ENVIRON, timeout=timeout_s, check=False
    )
    assert done.returncode == 0, done.stderr
    return done


@posix
def test_two_hundred_writers_killed_at_random_lose_nothing(tmp_path: Path) -> None:
    place = str(tmp_path / "state" / "log.db")
    report = json.loads(run(str(HERE / "log_storm.py"), "sqlite", place, "--kills", "200").stdout)
    assert report["kills"] >= 200
    assert report["acknowledged"] > 500
    assert report["heads"] > 10
    assert report["lost"] == 0
    # A writer that is told "no" by a log in good order would be a pause for nothing.
    assert report["refused"] == {}


def test_faulty_system_calls_lose_nothing(tmp_path: Path) -> None:
    sys.path.insert(0, str(HERE))
    from log_faults import everything, unavailable

    why = unavailable()
    if why:
        pytest.skip(why)
    report = everything(tmp_path, every=11)
    assert report["lost"] == 0
    assert isinstance(report["faults"], dict)
    assert min(report["faults"].values()) >= 5


# A kill never shows a sync that was left out, for the system still has what was written: so they are counted.

_SYNCS = """
import os, sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from log_checks import record, signer
from lockgate.journal import journal
from lockgate.journal import keys
from lockgate.journal.journal import Journal
from lockgate.journal.stores.sqlite import SqliteLog
journal.CHECKPOINT_S, journal.CHECKPOINT_RECORDS = 3600.0, 1 << 60
log = Journal(SqliteLog(Path(sys.argv[1])), signer(), verify=keys.verify)
log.append([record()], durable=True)
for durable in (True, False, True):
    os.write(2, f"durable {durable}\\n".encode())
    for _ in range(5):
        log.append([record()], durable=durable)
os.write(2, b"head\\n")
log.append([record()], durable=False)
log.checkpoint()
os.write(2, b"end\\n")
"""


def test_each_durable_append_and_each_head_is_synced_once_and_no_other(tmp_path: Path) -> None:
    from log_faults import unavailable

    why = unavailable()
    if why:
        pytest.skip(why)
    trace = tmp_path / "trace"
    tracer = ["strace", "-f", "-qq", "-o", str(trace), "-e", "trace=fdatasync,fsync,write"]
    command = [*tracer, sys.executable, "-c", _SYNCS, str(tmp_path / "state" / "log.db"), str(HERE)]
    subprocess.run(command, capture_output=True, env=ENVIRON, timeout=60, check=True)
    parts = re.split(r'write\(2, "(?:durable|head|end)', trace.read_text())
    assert [len(re.findall(r"\bf(?:data)?sync\(", part)) for part in parts[1:-1]] == [5, 0, 5, 1]


@pytest.mark.parametrize(("durable", "level"), [(True, 2), (False, 1)])
def test_the_file_is_told_how_much_to_sync(tmp_path: Path, *, durable: bool, level: int) -> None:
    """The same where nothing can be traced: 2 is FULL, 1 is NORMAL."""
    store = SqliteLog(tmp_path / "state" / "log.db")
    for before in (True, False):
        with store.writing(durable=before):
            pass
        with store.writing(durable=durable) as log:
            assert log._db.execute("PRAGMA synchronous").fetchone() == (level,)
    store.close()


# Killed between the commit and the answer, in a child that holds the lock, and before the first head.

_STOPS = """
import os, signal, sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from log_checks import find_signer, record, signer
from lockgate.journal import keys
from lockgate.journal.journal import Journal
from lockgate.journal.stores.sqlite import SqliteLog
store = SqliteLog(Path(sys.argv[1]))
log = Journal(store, signer(), verify=keys.verify, find_signer=find_signer)
log.append([record()], durable=False)
with store.writing(durable=True) as change:
    change.open_shard("never")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@posix
def test_a_writer_killed_with_the_lock_in_its_hand_leaves_nothing_behind(tmp_path: Path) -> None:
    place = tmp_path / "state" / "log.db"
    done = subprocess.run([sys.executable, "-c", _STOPS, str(place), str(HERE)], env=ENVIRON, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    with Journal(SqliteLog(place), signer(), verify=keys.verify) as log:
        (receipt,) = log.append([record()], durable=True)
        assert receipt.index == 2
        log.checkpoint()
        assert whole(log.store, acknowledged(receipt)) == 3


_FORKS = """
import os, sys, threading, time
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from log_checks import record, signer
from lockgate.journal import keys
from lockgate.journal.journal import Journal
from lockgate.journal.stores.sqlite import SqliteLog
log = Journal(SqliteLog(Path(sys.argv[1])), signer(), verify=keys.verify)
log.append([record()], durable=False)
assert log._thread is not None
# Another thread is in the middle of it.
def others():
    log._writing.acquire()
    with log.store.writing(durable=False):
        inside.set()
        time.sleep(0.2)
inside = threading.Event()
threading.Thread(target=others).start()
inside.wait()
closed, tell = os.pipe()
child = os.fork()
if child:
    log._writing.release()
for _ in range(20):
    for each in log.append([record()], durable=False):
        os.write(1, f"{each.origin} {each.index} {each.leaf_hash.hex()}\\n".encode())
if child:
    # The child goes on, however early its parent is done.
    log.close()
    os.write(tell, b"x")
    assert os.waitpid(child, 0)[1] == 0
else:
    os.read(closed, 1)
    for each in log.append([record()], durable=True):
        os.write(1, f"{each.origin} {each.index} {each.leaf_hash.hex()}\\n".encode())
"""


@posix
def test_a_fork_goes_on_with_the_journal_of_its_parent(tmp_path: Path) -> None:
    place = tmp_path / "state" / "log.db"
    told = [
        line.split(" ")
        for line in run("-W", "ignore::DeprecationWarning", "-c", _FORKS, str(place), str(HERE)).stdout.splitlines()
    ]
    found = {(origin, int(index)): bytes.fromhex(leaf) for origin, index, leaf in told}
    assert len(found) == 41
    store = SqliteLog(place)
    assert whole(store, found) == 43
    with store.reading() as log:
        head = log.newest(1)
    assert head is not None
    assert head.size == 43


_FILLS = """
import os, resource, signal, sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from log_checks import find_signer, record, signer
from lockgate.journal import keys
from lockgate.core.errors import JournalDamaged, JournalUnavailable
from lockgate.journal.journal import Journal
from lockgate.journal.stores.sqlite import SqliteLog
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
log = Journal(SqliteLog(Path(sys.argv[1])), signer(), verify=keys.verify, find_signer=find_signer)

def say(receipts):
    for each in receipts:
        print(each.origin, each.index, each.leaf_hash.hex(), flush=True)

say(log.append([record()], durable=True))
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
refused = 0
for at in range(2_000):
    try:
        say(log.append([record()], durable=at % 2 == 0))
    except JournalUnavailable as error:
        assert not isinstance(error, JournalDamaged), error
        refused += 1
        if refused > 20:
            break
assert refused > 20, refused
# There is room again: it goes on by itself.
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
say(log.append([record()], durable=True))
log.close()
"""


@posix
def test_a_full_disk_refuses_and_then_goes_on(tmp_path: Path) -> None:
    place = tmp_path / "state" / "log.db"
    done = run("-c", _FILLS, str(place), str(HERE))
    told = [line.split(" ") for line in done.stdout.splitlines()]
    found = {(origin, int(index)): bytes.fromhex(leaf) for origin, index, leaf in told}
    with Journal(SqliteLog(place), signer(), verify=keys.verify, find_signer=find_signer) as log:
        log.append([record()], durable=True)
        log.checkpoint()
        assert whole(log.store, found) >= len(found) + 2


@posix
def test_a_full_disk_from_the_start_makes_no_log(tmp_path: Path) -> None:
    code = _FILLS.partition("say(log")[0] + (
        "resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, resource.RLIM_INFINITY))\n"
        "try:\n    log.append([record()], durable=True)\n"
        "except JournalUnavailable as error:\n    assert not isinstance(error, JournalDamaged), error\n"
        "else:\n    sys.exit(4)\n"
    )
    place = tmp_path / "state" / "log.db"
    run("-c", code, str(place), str(HERE))
    assert list(place.parent.iterdir()) == []
    with Journal(SqliteLog(place), signer(), verify=keys.verify) as log:
        log.append([record()], durable=True)
        assert whole(log.store) == 2


def test_an_error_of_the_disk_is_not_forgotten(tmp_path: Path) -> None:
    """After a failed sync the next one may succeed for nothing: first everything is put elsewhere."""
    store = SqliteLog(tmp_path / "state" / "log.db")
    with Journal(store, signer(), verify=keys.verify) as log:
        log.append([record()], durable=True)
        failed = sqlite3.OperationalError("disk i/o error")
        failed.sqlite_errorname = "SQLITE_IOERR_FSYNC"
        with pytest.raises(JournalUnavailable, match="disk i/o error"), store.writing(durable=True):
            raise failed
        assert store._suspect
        with SqliteLog(store.path).reading() as reader:
            assert reader.current() is not None
            (receipt,) = log.append([record()], durable=True)
        assert not store._suspect
        assert store.path.read_bytes().count(b'"kind":"configuration"') >= 1
        assert whole(store, acknowledged(receipt)) == 3


_OPENS = """
import sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from log_checks import find_signer, record, signer
from lockgate.journal import keys
from lockgate.journal.journal import Journal
from lockgate.journal.stores.sqlite import SqliteLog
log = Journal(SqliteLog(Path(sys.argv[1])), signer(), verify=keys.verify, find_signer=find_signer)
print("ready", flush=True)
sys.stdin.readline()
for at in range(10):
    for each in log.append([record()], durable=at == 0):
        print(each.origin, each.index, each.leaf_hash.hex(), flush=True)
"""


def test_processes_that_begin_together_make_one_log(tmp_path: Path) -> None:
    place = tmp_path / "state" / "log.db"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _OPENS, str(place), str(HERE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=ENVIRON,
        )
        for _ in range(6)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    said = [process.communicate(timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * 6
    told = [line.split(" ") for each in said for line in each.splitlines()]
    found = {(origin, int(index)): bytes.fromhex(leaf) for origin, index, leaf in told}
    assert len(found) == 60
    store = SqliteLog(place)
    assert whole(store, found) == 61
    with store.reading() as log:
        head = log.newest(1)
    # The last process to close the log has signed for all.
    assert head is not None
    assert head.size == 61
    assert [file.name for file in place.parent.iterdir()] == ["log.db"]
