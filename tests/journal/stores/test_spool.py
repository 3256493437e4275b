"""Records that wait beside the log: stored once, whoever comes, and by nobody without the log's key."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from time import monotonic, sleep
from typing import Any

import pytest
from log_checks import acknowledged, find_signer, record, signer, stored, whole
from paths import SUPPORT

from lockgate.cli.main import main
from lockgate.core.errors import JournalUnavailable
from lockgate.core.journal.merkle import leaf_hash
from lockgate.journal import journal, keys
from lockgate.journal.journal import Journal
from lockgate.journal.log import Transaction, waited
from lockgate.journal.stores import spool
from lockgate.journal.stores.memory import MemoryLog
from lockgate.journal.stores.sqlite import SqliteLog

pytestmark = pytest.mark.skipif(os.name != "posix", reason="nothing waits without POSIX's locks")

# Promises as many records as it is told to, prints them, and is gone.
GONE = """
import os, sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from log_checks import record, signer
from lockgate.journal import keys
from lockgate.journal.journal import Journal
from lockgate.journal.stores.sqlite import SqliteLog
log = Journal(SqliteLog(Path(sys.argv[1])), signer(), verify=keys.verify)
log.append([record()], durable=True)
for _ in range(int(sys.argv[3])):
    body = record()
    assert log.promise([body]) is not None
    print(body.hex(), flush=True)
os.kill(os.getpid(), 9)
"""


class Fragile(SqliteLog):
    """A log that can be told to fail: before it stores anything, or after it has."""

    fails = fails_after = False

    @contextmanager
    def writing(self, *, durable: bool) -> Iterator[Transaction]:  # type: ignore[override]
        if self.fails:
            raise JournalUnavailable("on purpose")
        with super().writing(durable=durable) as log:
            yield log
        if self.fails_after:
            raise JournalUnavailable("on purpose, but stored")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "log.db"


@pytest.fixture
def log(path: Path) -> Iterator[Journal]:
    with opened(path) as log:
        # What nobody has written to yet takes no promise.
        assert log.promise([record()]) is None
        log.append([record()], durable=True)
        yield log


def opened(path: Path, **more: Any) -> Journal:
    return Journal(Fragile(path), signer(), verify=keys.verify, **more)


def fragile(log: Journal) -> Fragile:
    assert isinstance(log.store, Fragile)
    return log.store


def files(path: Path) -> list[Path]:
    folder = path.with_name("log.db-waiting")
    return sorted(folder.iterdir()) if folder.exists() else []


def promised(log: Journal, *bodies: bytes) -> Callable[[], Any]:
    wait = log.promise(bodies)
    assert wait is not None
    return wait


def left(path: Path, count: int) -> list[bytes]:
    """What a process had promised that was killed then."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", GONE, str(path), str(SUPPORT), str(count)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == -9, done.stderr
    return [bytes.fromhex(line) for line in done.stdout.split()]


def test_what_is_promised_waits_in_a_file_until_it_is_stored(log: Journal, path: Path) -> None:
    bodies = [record() for _ in range(3)]
    first, second = promised(log, bodies[0]), promised(log, *bodies[1:])
    (file,) = files(path)
    assert [each.bodies for each in waited(file.read_bytes())] == [bodies[:1], bodies[1:]]
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert stored(log.store)[1:] == []
    receipts = second()
    assert [each.leaf_hash for each in (*first(), *receipts)] == [leaf_hash(body) for body in bodies]
    assert stored(log.store)[1:] == bodies
    assert list(waited(file.read_bytes())) == []
    log.close()
    assert files(path) == []
    whole(SqliteLog(path), acknowledged(*first(), *receipts))


def test_an_append_stores_what_was_promised_before_it(log: Journal) -> None:
    bodies = [record(), record()]
    wait = promised(log, bodies[0])
    log.append(bodies[1:], durable=False)
    assert stored(log.store)[1:] == bodies
    assert wait()[0].index == 2


def test_what_was_promised_is_stored_when_the_journal_is_closed(log: Journal, path: Path) -> None:
    body = record()
    promised(log, body)
    log.close()
    assert stored(SqliteLog(path))[-1] == body
    assert files(path) == []


def test_what_a_killed_process_promised_is_stored_by_the_next(path: Path) -> None:
    bodies = left(path, 5)
    assert len(files(path)) == 1
    with opened(path) as log:
        log.checkpoint()
        assert stored(log.store)[1:] == bodies
        assert files(path) == []
    with opened(path) as log:
        log.append([record()], durable=True)
        assert stored(log.store)[1:-1] == bodies
    whole(SqliteLog(path))


def test_somebody_who_has_the_log_open_stores_it_before_they_sign(
    log: Journal, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "CHECKPOINT_S", 0.01)
    bodies = left(path, 2)
    log.append([record()], durable=True)
    until = monotonic() + 30
    while files(path) and monotonic() < until:
        sleep(0.01)
    assert stored(log.store)[-2:] == bodies


def test_what_was_stored_already_is_not_stored_again(log: Journal, path: Path) -> None:
    """As where a process was killed after it had stored, and before it had emptied the file; or by somebody's copy."""
    wait = promised(log, record(), record())
    (file,) = files(path)
    copy = file.with_name("copy.waiting")
    shutil.copy(file, copy)
    wait()
    before = stored(log.store)
    log.rotate(signer("example.com/log/2"))
    log.close()
    with opened(path, find_signer=find_signer) as again:
        again.append([record()], durable=True)
    assert files(path) == []
    assert len(whole_leaves(path)) == len(set(whole_leaves(path)))
    assert len(before) == 3


def whole_leaves(path: Path) -> list[bytes]:
    store = SqliteLog(path)
    with store.reading() as log:
        return [leaf for shard in log.shards() for _, leaf in log.leaves(shard.number, 0, shard.size)]


def test_a_living_process_is_left_alone(log: Journal, path: Path) -> None:
    body = record()
    wait = promised(log, body)
    with opened(path) as other:
        other.append([record()], durable=True)
        other.checkpoint()
    assert len(files(path)) == 1
    wait()
    assert stored(log.store).count(body) == 1


@pytest.mark.parametrize("does", ["flips", "forges", "garbage"])
def test_what_was_not_written_with_the_key_is_set_aside(path: Path, does: str) -> None:
    bodies = left(path, 2)
    (file,) = files(path)
    data = bytearray(file.read_bytes().rstrip(b"\0"))
    if does == "flips":
        # In the second: the first is as good as before.
        data[-3] ^= 1
    elif does == "forges":
        data += data[: len(data) // 2].replace(bodies[0], record())
    else:
        data += b"garbage" * 20
    file.write_bytes(data)
    with opened(path) as log:
        log.append([record()], durable=True)
        log.checkpoint()
        assert stored(log.store)[1:-1] == {"flips": bodies[:1], "forges": bodies, "garbage": bodies}[does]
        assert [each.suffix for each in files(path)] == [".unreadable"]
        assert (files(path)[0]).read_bytes() == data
    whole(SqliteLog(path))


def test_an_auditor_is_told_what_waits_and_what_was_set_aside(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    left(path, 1)

    def told() -> str:
        assert main(["audit", "verify", str(path), "--key", signer().key.vkey]) == 0
        return " ".join(capsys.readouterr().out.split())

    assert "records wait in 1 file beside the log" in told()
    with opened(path) as log:
        log.checkpoint()
    assert "wait" not in told()
    left(path, 1)
    (file,) = files(path)
    file.write_bytes(b"garbage" * 20)
    with opened(path) as log:
        log.checkpoint()
    assert f"were set aside: {file.stem}.unreadable" in told()


def test_of_a_damaged_file_all_is_stored_that_stands_before_the_damage(path: Path) -> None:
    """As a power cut may leave one; or somebody, who could as well have removed it."""
    bodies = left(path, 3)
    (file,) = files(path)
    data = file.read_bytes()
    whole_size = len(data.rstrip(b"\0"))
    one = whole_size // 3
    frames = [data[at : at + one] for at in (0, one, 2 * one)]
    length = data[:4] + b"\xff" + data[5:whole_size]
    cases = {
        "cut": (data[: one + 1], bodies[:1]),
        "nothing": (b"", []),
        "a byte": (data[:1], []),
        "in its middle": (data[: one + 50], bodies[:1]),
        "zeros": (data[: 2 * one] + bytes(one), bodies[:2]),
        "length": (length, []),
        "swapped": (frames[0] + frames[2] + frames[1], bodies[:1]),
        "one left out": (frames[0] + frames[2], bodies[:1]),
        "the first left out": (frames[1] + frames[2], []),
        "twice": (frames[0] + frames[0], bodies[:1]),
    }
    for name, (changed, kept) in cases.items():
        folder = path.parent.with_name(name)
        shutil.copytree(path.parent, folder)
        copy = folder / "log.db-waiting" / file.name
        copy.write_bytes(changed)
        with opened(folder / "log.db") as log:
            log.append([record()], durable=True)
            log.checkpoint()
            assert stored(log.store)[1:-1] == kept, name
            # Told until somebody has looked, unless nothing shows that there was more.
            unread = name not in ("nothing", "zeros")
            assert bool(log.problem) is unread, name
        assert [each.suffix for each in files(folder / "log.db")] == ([".unreadable"] if unread else []), name


def test_one_that_cannot_be_opened_is_told_and_keeps_nobody_from_the_others(path: Path) -> None:
    bodies = left(path, 1)
    (file,) = files(path)
    (file.parent / "0.waiting").symlink_to(file)
    with opened(path) as log:
        log.append([record()], durable=True)
        log.checkpoint()
        assert stored(log.store)[1:-1] == bodies
        assert "0.waiting" in log.problem


def test_after_a_rotation_elsewhere_nothing_is_promised_under_the_old_shard(path: Path) -> None:
    with opened(path, find_signer=find_signer) as log:
        log.append([record()], durable=True)
        promised(log, record())()
        with opened(path, find_signer=find_signer) as other:
            other.rotate(signer("example.com/log/2"))
        log.checkpoint()
        assert log.promise([record()]) is None
        log.append([record()], durable=True)
        promised(log, record())
        assert log.store.spool is not None
        # As if it had been killed.
        log.store.spool.close(remove=False)
        with opened(path, find_signer=find_signer) as other:
            other.checkpoint()
            assert [each.suffix for each in files(path)] == []
        log._waiting.clear()


def test_a_journal_that_is_closed_while_it_stores_lets_go_of_nothing_before(path: Path) -> None:
    log = opened(path)
    log.append([record()], durable=True)
    wait = promised(log, body := record())
    began, go_on = Event(), Event()
    real = Fragile.writing

    @contextmanager
    def slow(self: Fragile, *, durable: bool) -> Iterator[Transaction]:
        if self is log.store:
            began.set()
            assert go_on.wait(30)
        with real(self, durable=durable) as change:
            yield change

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Fragile, "writing", slow)
        storing = Thread(target=wait)
        storing.start()
        assert began.wait(30)
        closing = Thread(target=log.close)
        closing.start()
        sleep(0.05)
        with opened(path) as other:
            other.append([record()], durable=True)
            other.checkpoint()
        go_on.set()
        storing.join(30)
        closing.join(30)
    assert whole_leaves(path).count(leaf_hash(body)) == 1
    assert files(path) == []


def test_what_waited_under_a_key_that_is_not_here_any_more_is_set_aside(log: Journal, path: Path) -> None:
    left(path, 1)
    log.rotate(signer("example.com/log/2"))
    log.close()
    second = Journal(SqliteLog(path), signer("example.com/log/2"), verify=keys.verify)
    with second:
        second.checkpoint()
        assert [each.suffix for each in files(path)] == [".unreadable"]
    whole(SqliteLog(path))


def test_odd_things_in_the_folder_are_no_reason_to_stop(log: Journal, path: Path) -> None:
    promised(log, record())()
    folder = path.with_name("log.db-waiting")
    (folder / "a.waiting").mkdir()
    os.mkfifo(folder / "b.waiting")
    (folder / "c.waiting").symlink_to("/dev/zero")
    (folder / "note").write_text("not mine")
    log.close()
    with opened(path) as again:
        again.append([record()], durable=True)
        again.checkpoint()
    assert (folder / "note").read_text() == "not mine"


# What cannot be stored


def test_a_promise_that_cannot_be_kept_yet_can_be_kept_later(log: Journal, path: Path) -> None:
    body = record()
    wait = promised(log, body)
    fragile(log).fails = True
    for _ in range(2):
        with pytest.raises(JournalUnavailable, match="on purpose"):
            wait()
    assert log.promise([record()]) is None
    assert len(list(waited(files(path)[0].read_bytes()))) == 1
    fragile(log).fails = False
    assert wait()[0].leaf_hash == leaf_hash(body)
    assert wait() == wait()
    assert stored(log.store)[1:] == [body]
    assert list(waited(files(path)[0].read_bytes())) == []
    # The next one is appended in the straight way, and then there is room for promises again.
    assert log.promise([record()]) is None
    log.append([record()], durable=False)
    promised(log, record())


def test_whoever_appends_next_keeps_it(log: Journal) -> None:
    body, after = record(), record()
    wait = promised(log, body)
    fragile(log).fails = True
    with pytest.raises(JournalUnavailable):
        wait()
    fragile(log).fails = False
    log.append([after], durable=False)
    assert stored(log.store)[1:] == [body, after]
    assert wait()[0].leaf_hash == leaf_hash(body)


def test_one_that_was_stored_though_the_log_failed_is_not_stored_again(log: Journal, path: Path) -> None:
    bodies = [record(), record()]
    wait = promised(log, *bodies)
    fragile(log).fails_after = True
    with pytest.raises(JournalUnavailable):
        wait()
    fragile(log).fails_after = False
    receipts = wait()
    assert stored(log.store)[1:] == bodies
    log.close()
    whole(SqliteLog(path), acknowledged(*receipts))
    assert files(path) == []


def test_one_that_could_not_be_kept_to_the_end_is_left_for_the_next(log: Journal, path: Path) -> None:
    body = record()
    promised(log, body)
    fragile(log).fails = True
    log.close()
    assert len(files(path)) == 1
    with opened(path) as again:
        again.append([record()], durable=True)
        assert body in stored(again.store)
    assert files(path) == []


def test_several_threads_with_a_log_that_fails_now_and_then_lose_nothing_and_store_nothing_twice(
    log: Journal, path: Path
) -> None:
    kept: list[bytes] = []

    def work(number: int) -> None:
        for at in range(40):
            body = record()
            fragile(log).fails = at % 7 == number % 7
            fragile(log).fails_after = at % 11 == number
            wait = log.promise([body])
            if wait is None:
                try:
                    log.append([record()], durable=False)
                except JournalUnavailable:
                    fragile(log).fails = fragile(log).fails_after = False
                continue
            kept.append(leaf_hash(body))
            if at % 2:
                try:
                    wait()
                except JournalUnavailable:
                    continue

    threads = [Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    fragile(log).fails = fragile(log).fails_after = False
    log.close()
    leaves = whole_leaves(path)
    assert kept
    assert all(leaves.count(leaf) == 1 for leaf in kept)
    assert files(path) == []


@pytest.mark.parametrize("fault", ["short", "full", "nowhere"])
def test_where_there_is_no_room_nothing_is_promised(
    log: Journal, path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setattr(spool, "_UNFIT", 1)
    real = os.write

    def write(fd: int, data: bytes) -> int:
        if fault == "full":
            raise OSError(errno.ENOSPC, "no space left on device")
        return real(fd, data[: len(data) // 2])

    if fault == "nowhere":
        path.with_name("log.db-waiting").write_text("in the way")
    else:
        monkeypatch.setattr(os, "write", write)
    assert log.promise([record()]) is None
    monkeypatch.setattr(os, "write", real)
    # For a while it is not tried again.
    assert log.promise([record()]) is None
    if fault != "nowhere":
        assert files(path) == []
        promised(log, record())


def test_what_was_stored_does_not_show_through_what_waits_now(log: Journal, path: Path) -> None:
    for wait in [promised(log, *(record() for _ in range(size))) for size in (3, 1, 2)]:
        wait()
    for size in (1, 2):
        bodies = [record() for _ in range(size)]
        promised(log, *bodies)
        assert [each.bodies for each in waited(files(path)[0].read_bytes())][-1] == bodies
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal, "_MAX_PROMISED", 10_000)
        count = 0
        while log.promise([record()]) is not None:
            count += 1
    data = files(path)[0].read_bytes()
    assert len(data) == spool._ROOM
    assert len(list(waited(data))) == count + 2
    log.append([record()], durable=False)
    assert list(waited(files(path)[0].read_bytes())) == []
    assert len(whole_leaves(path)) == len(set(whole_leaves(path))) == 2 + 6 + 3 + count + 1


def test_a_file_that_was_taken_away_takes_no_promise(log: Journal, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "_SEE_EVERY_S", 0.0)
    body = record()
    wait = promised(log, body)
    shutil.rmtree(path.with_name("log.db-waiting"))
    assert log.promise([record()]) is None
    # What waits from here on does so in another file, whose first it is.
    late = promised(log, record())
    assert log.store.spool is not None
    assert files(path)[0].read_bytes()[:4] == b"lkgw"
    (copy := path.with_name("log.db-waiting") / "copy.waiting").write_bytes(files(path)[0].read_bytes())
    wait()
    late()
    with opened(path) as other:
        other.checkpoint()
        assert not other.problem
    assert not copy.exists()
    assert stored(log.store)[1] == body


def test_only_so_many_wait_and_none_that_is_large(log: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "_MAX_PROMISED", 2)
    waits = [promised(log, record()), promised(log, record())]
    assert log.promise([record()]) is None
    waits[0]()
    promised(log, record())
    monkeypatch.setattr(journal, "_MAX_PROMISED_BYTES", 100)
    assert log.promise([record()]) is None
    assert log.promise([]) is None
    assert log.promise([b""]) is None


def test_a_log_that_is_closed_damaged_or_unsigned_takes_no_promise(log: Journal) -> None:
    log._unsigned_since = log._ticks() - journal.MAX_UNSIGNED_S - 1
    assert log.promise([record()]) is None
    log._unsigned_since = None
    promised(log, record())
    log.close()
    assert log.promise([record()]) is None


def test_a_log_without_a_place_for_it_takes_none() -> None:
    with Journal(MemoryLog(), signer(), verify=keys.verify) as log:
        log.append([record()], durable=True)
        assert log.promise([record()]) is None


def test_where_there_are_no_locks_nothing_is_promised(
    log: Journal, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool, "_LOCKS", False)
    assert log.promise([record()]) is None
    assert files(path) == []


def test_a_child_of_a_fork_neither_stores_nor_holds_what_its_parent_promised(log: Journal, path: Path) -> None:
    body = record()
    promised(log, body)
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        try:
            log.append([record()], durable=False)
            os.write(ready[1], b"x")
            # It lives on, and must not hold the file all the same.
            os.read(go[0], 1)
        finally:
            os._exit(0)
    os.read(ready[0], 1)
    assert body not in stored(log.store)
    assert log.store.spool is not None
    log.store.spool.close(remove=False)
    with opened(path) as other:
        other.checkpoint()
        assert stored(other.store).count(body) == 1
    os.write(go[1], b"x")
    os.waitpid(child, 0)
    for pipe in (*ready, *go):
        os.close(pipe)
