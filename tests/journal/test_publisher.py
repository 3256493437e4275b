"""Heads reach witnesses and anchors by themselves; what does not arrive is said, and strict recording waits."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from lockgate.core.errors import InvalidConfig, JournalUnavailable, LockgateError
from lockgate.journal import keys
from lockgate.journal.journal import Journal
from lockgate.journal.publisher import (
    MAX_RETRY_S,
    WAITED_RETRY_S,
    CosignedHeadFile,
    Publisher,
    PublisherGroup,
    WitnessedJournal,
    parse_witness,
    start_publishing,
)
from lockgate.journal.signed_notes import (
    COSIGNATURE,
    Checkpoint,
    cosign_note,
    file_name,
    open_checkpoint,
    parse_checkpoint,
    parse_checkpoints,
    parse_note,
    parse_submission,
    sign_note,
    verify_signatures,
)
from lockgate.journal.stores.memory import MemoryLog
from lockgate.journal.witness import Witness, WitnessServer

ORIGIN = "example.com/log/1"
SIGNER = keys.signer_from_seed(ORIGIN, b"\x01" * 32)
OTHER = keys.signer_from_seed("example.com/w", b"\x07" * 32, kind=COSIGNATURE)
SOON_S = 20.0

Strictly = Callable[..., tuple[WitnessedJournal, Publisher]]


@contextmanager
def serving(witness: Witness, port: int = 0) -> Iterator[str]:
    """The witness's line for the configuration."""
    with WitnessServer(witness, port=port) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"{server.url} {witness.key.vkey}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def witness(tmp_path: Path) -> Iterator[Witness]:
    made = Witness(tmp_path / "witness", [SIGNER.key.vkey])
    yield made
    made.close()


@pytest.fixture
def journal() -> Iterator[Journal]:
    with Journal(MemoryLog(), SIGNER, verify=keys.verify) as made:
        yield made


@pytest.fixture
def strictly(journal: Journal) -> Iterator[Strictly]:
    """A strict journal over witnesses that are these sinks, and the first one's publisher."""
    made: list[PublisherGroup] = []
    used: list[Scripted] = []

    def make(*sinks: Scripted, strict_s: float = SOON_S) -> tuple[WitnessedJournal, Publisher]:
        publishers = [Publisher(each, every_s=1.0, checkpoint=journal.checkpoint) for each in sinks]
        made.append(PublisherGroup(journal, publishers, []))
        used.extend(sinks)
        return WitnessedJournal(journal, made[-1], strict_s=strict_s), publishers[0]

    yield make
    for sink in used:
        sink.open.set()
    for publishing in made:
        publishing.close()


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    return tmp_path / "journal.witnessed"


def until(true: Callable[[], object]) -> None:
    """Wait for what another thread does; fails only when it never does."""
    pause = threading.Event()
    for _ in range(int(SOON_S / 0.02)):
        if true():
            return
        pause.wait(0.02)
    pytest.fail("it did not happen")


def size_in(path: Path) -> int:
    return parse_checkpoint(parse_note(path.read_bytes()).text).size if path.exists() else 0


def note_of(size: int, signer: keys.Ed25519Signer = SIGNER) -> bytes:
    return sign_note(Checkpoint(signer.key.name, size, bytes(32)).text, signer.key, signer.sign).to_bytes()


class Scripted:
    """A sink that notes what it was given, and fails while it is told to."""

    name = "scripted"

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.fails: Exception | None = None
        self.entered = threading.Event()
        self.open = threading.Event()
        self.open.set()

    def send(self, head: Checkpoint, note: bytes) -> Checkpoint:
        assert parse_checkpoint(parse_note(note).text) == head
        self.entered.set()
        assert self.open.wait(SOON_S)
        if self.fails is not None:
            raise self.fails
        self.sizes.append(head.size)
        return head


# Witnesses


def test_heads_are_cosigned_by_themselves(journal: Journal, witness: Witness, kept: Path) -> None:
    with serving(witness) as line:
        publishing = start_publishing(journal, [line], witnessed=kept)
        for count in (1, 30):
            receipts = journal.append([b"record"] * count, durable=True)
            journal.checkpoint()
            until(lambda: size_in(kept) == receipts[-1].index + 1)  # noqa: B023
        assert publishing.problems == {}
        note = parse_note(kept.read_bytes())
        assert set(verify_signatures(note, [SIGNER.key, witness.key], keys.verify)) == {SIGNER.key, witness.key}
        assert open_checkpoint(kept.read_bytes(), SIGNER.key, keys.verify).size == 32
        publishing.close()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no FIFOs")
def test_a_pipe_in_the_place_of_the_cosigned_head_is_replaced_and_not_waited_for(kept: Path) -> None:
    os.mkfifo(kept)
    note = parse_note(note_of(3))
    thread = threading.Thread(target=CosignedHeadFile(kept).keep, args=(note, parse_checkpoint(note.text)), daemon=True)
    thread.start()
    thread.join(SOON_S)
    assert kept.is_file()
    assert size_in(kept) == 3


def test_two_witnesses_sign_the_same_head(journal: Journal, tmp_path: Path, kept: Path) -> None:
    pair = [Witness(tmp_path / name, [SIGNER.key.vkey]) for name in "ab"]
    with serving(pair[0]) as first, serving(pair[1]) as second:
        publishing = start_publishing(journal, [first, second], witnessed=kept)
        journal.append([b"record"], durable=True)
        journal.checkpoint()
        keys_of = {each.key for each in pair}
        until(
            lambda: (
                kept.exists() and set(verify_signatures(parse_note(kept.read_bytes()), keys_of, keys.verify)) == keys_of
            )
        )
        publishing.close()
    for each in pair:
        each.close()


def test_a_witness_that_was_away_gets_the_newest_head(journal: Journal, witness: Witness, kept: Path) -> None:
    with serving(witness) as line:
        port = int(line.partition(" ")[0].rpartition(":")[2])
    publishing = start_publishing(journal, [line], witnessed=kept)
    journal.append([b"record"] * 5, durable=True)
    journal.checkpoint()
    until(lambda: "refused" in publishing.witnesses[0].problem)
    assert list(publishing.problems) == [f"the witness {witness.key.name}"]
    journal.append([b"record"] * 5, durable=True)
    journal.checkpoint()
    with serving(witness, port):
        until(lambda: size_in(kept) == 11)
        until(lambda: publishing.problems == {})
    publishing.close()


def test_a_client_that_starts_again_is_told_where_the_witness_is(
    journal: Journal, witness: Witness, kept: Path
) -> None:
    with serving(witness) as line:
        for count in (7, 9):
            receipts = journal.append([b"record"] * count, durable=True)
            publishing = start_publishing(journal, [line], witnessed=kept)
            journal.checkpoint()
            until(lambda: size_in(kept) == receipts[-1].index + 1)  # noqa: B023
        publishing.close()


def test_the_closed_shard_and_the_next_are_both_cosigned(journal: Journal, tmp_path: Path, kept: Path) -> None:
    after = keys.signer_from_seed("example.com/log/2", b"\x02" * 32)
    witness = Witness(tmp_path / "witness", [SIGNER.key.vkey, after.key.vkey])
    with serving(witness) as line:
        publishing = start_publishing(journal, [line], witnessed=kept)
        journal.append([b"record"], durable=True)
        journal.rotate(after)
        journal.append([b"record"], durable=True)
        journal.checkpoint()
        states = [tmp_path / "witness" / file_name(each.key.name) for each in (SIGNER, after)]
        until(lambda: [size_in(each) for each in states] == [3, 2])
        publishing.close()
    witness.close()


def published(line: str, records: list[bytes], kept: Path) -> str:
    """The problem, once there is one, of a log with the same key and these records."""
    with Journal(MemoryLog(), SIGNER, verify=keys.verify) as journal:
        publishing = start_publishing(journal, [line], witnessed=kept)
        journal.append(records, durable=True)
        journal.checkpoint()
        until(lambda: publishing.witnesses[0].problem)
        problem = publishing.witnesses[0].problem
        publishing.close()
        return problem


def test_a_log_that_was_taken_back_or_rewritten_is_called_so(journal: Journal, witness: Witness, kept: Path) -> None:
    with serving(witness) as line:
        first = start_publishing(journal, [line], witnessed=kept)
        journal.append([b"record"] * 20, durable=True)
        journal.checkpoint()
        until(lambda: size_in(kept) == 21)
        before = kept.read_bytes()
        assert "taken back or replaced" in published(line, [b"record"] * 5, kept)
        assert "its history was changed" in published(line, [b"other"] * 30, kept)
        assert "another history" in published(line, [b"other"] * 20, kept)
        assert kept.read_bytes() == before
        first.close()


def test_a_witness_that_does_not_know_the_log_is_named(journal: Journal, tmp_path: Path, kept: Path) -> None:
    for name, seed, said in (("other.example", 1, "does not know this log"), (ORIGIN, 2, "another public key")):
        stranger = keys.signer_from_seed(name, bytes([seed]) * 32)
        witness = Witness(tmp_path / said, [stranger.key.vkey])
        with serving(witness) as line:
            assert said in published(line, [b"record"], kept)
        witness.close()
    assert not kept.exists()


Answer = Callable[[bytes], tuple[int, bytes]]


@contextmanager
def lying(answer: Answer) -> Iterator[str]:
    """A server that answers as it likes, under the key of OTHER."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            status, reply = answer(body)
            self.send_response(status)
            self.send_header("content-length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/some/path/ {OTHER.key.vkey}"
        finally:
            server.shutdown()
            thread.join()


def cosignature(note: bytes, signer: keys.Ed25519Signer = OTHER, *, time_s: int = 5) -> bytes:
    return cosign_note(parse_note(note), signer.key, signer.sign, time_s=time_s).signatures[-1].line.encode()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda body: (200, b""), "does not hold"),
        (lambda body: (200, b"ok\n"), "does not hold"),
        (lambda body: (200, cosignature(note_of(2))), "does not hold"),
        (lambda body: (200, cosignature(parse_submission(body).checkpoint)[:-9] + b"AAAAAAA=\n"), "does not hold"),
        (
            lambda body: (
                200,
                cosignature(parse_submission(body).checkpoint, keys.signer_from_seed("x", bytes(32), kind=4)),
            ),
            "does not hold",
        ),
        (lambda body: (200, b"\n" * 100_000), "longer than"),
        (lambda body: (302, b""), "it answered 302"),
        (lambda body: (500, b""), "it answered 500"),
        (lambda body: (409, b""), "without a size"),
        (lambda body: (409, b"-1\n"), "without a size"),
        (lambda body: (409, b"0\n"), "another history"),
        (lambda body: (409, b"1\n" if body.startswith(b"old 0\n") else b"0\n"), "all the time"),
        (lambda body: (409, b"9223372036854775807\n"), "taken back or replaced"),
    ],
)
def test_an_odd_witness_is_a_problem_and_never_a_cosignature(answer: Answer, said: str, kept: Path) -> None:
    with lying(answer) as line:
        assert said in published(line, [b"record"], kept)
    assert not kept.exists()


def test_lines_by_others_in_the_reply_are_not_kept(journal: Journal, kept: Path) -> None:
    def answer(body: bytes) -> tuple[int, bytes]:
        note = parse_submission(body).checkpoint
        return 200, cosignature(note, keys.signer_from_seed("x", bytes(32), kind=4)) + cosignature(note)

    with lying(answer) as line:
        publishing = start_publishing(journal, [line], witnessed=kept)
        journal.append([b"record"], durable=True)
        journal.checkpoint()
        until(kept.exists)
        publishing.close()
    assert [each.name for each in parse_note(kept.read_bytes()).signatures] == [ORIGIN, OTHER.key.name]


def test_the_kept_head_never_goes_back(journal: Journal, witness: Witness, kept: Path) -> None:
    newer = note_of(1000)
    kept.write_bytes(newer)
    with serving(witness) as line:
        publishing = start_publishing(journal, [line], witnessed=kept)
        arrived: list[Checkpoint] = []
        publishing.witnesses[0].on_sent = arrived.append
        journal.append([b"record"], durable=True)
        journal.checkpoint()
        until(lambda: arrived)
        publishing.close()
    assert kept.read_bytes() == newer


def test_a_damaged_kept_head_is_replaced(journal: Journal, witness: Witness, kept: Path) -> None:
    kept.write_bytes(b"nonsense")
    with serving(witness) as line:
        publishing = start_publishing(journal, [line], witnessed=kept)
        journal.append([b"record"], durable=True)
        journal.checkpoint()
        until(lambda: kept.read_bytes() != b"nonsense")
        publishing.close()
    assert size_in(kept) == 2


@pytest.mark.parametrize(
    "text",
    [
        "",
        "https://example.com/w",
        OTHER.key.vkey,
        f"http://example.com/w {OTHER.key.vkey}",
        f"https://user:secret@example.com/w {OTHER.key.vkey}",
        f"https://example.com/w#secret {OTHER.key.vkey}",
        f"https://example.com/w?secret {OTHER.key.vkey}",
        f"https://example.com:99999/w {OTHER.key.vkey}",
        f"http://127.0.0.1\\@secret/ {OTHER.key.vkey}",
        f"ftp://example.com/ {OTHER.key.vkey}",
        f"syslog://example.com {OTHER.key.vkey}",
        f"https://example.com/w {SIGNER.key.vkey}",
        f"https://example.com/w {OTHER.key.vkey[:-2]}",
        f"https://example.com/w {OTHER.key.vkey} more",
    ],
)
def test_what_is_no_witness_is_refused(text: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        parse_witness(text)
    assert "secret" not in str(caught.value)
    assert caught.value.hint


def test_a_witness_is_an_address_and_a_key() -> None:
    found = parse_witness(f"  https://Example.com/w/  {OTHER.key.vkey}\n")
    assert (found.address.name, found.address.path, found.key) == ("https://example.com:443", "/w", OTHER.key)
    assert parse_witness(f"http://[::1]:8766 {OTHER.key.vkey}").address.host == "[::1]"


# One place


def publisher(sink: Scripted, *, every_s: float = 0.0, ticks: Callable[[], float] = lambda: 0.0) -> Publisher:
    return Publisher(sink, every_s=every_s, checkpoint=lambda: note_of(100), ticks=ticks)


def test_only_the_newest_head_is_sent() -> None:
    sink = Scripted()
    sink.open.clear()
    made = publisher(sink)
    made.offer(note_of(1))
    assert sink.entered.wait(SOON_S)
    for size in (2, 9, 3):
        made.offer(note_of(size))
    sink.open.set()
    until(lambda: sink.sizes == [1, 9])
    made.offer(note_of(5))
    made.finish()
    made.join(SOON_S)
    assert sink.sizes == [1, 9]


def test_a_closed_shard_and_its_successor_both_go() -> None:
    sink = Scripted()
    sink.open.clear()
    made = publisher(sink)
    made.offer(note_of(1))
    assert sink.entered.wait(SOON_S)
    made.offer(note_of(7))
    made.offer(note_of(2, keys.signer_from_seed("example.com/log/2", bytes(32))))
    sink.open.set()
    until(lambda: sink.sizes == [1, 7, 2])


def test_how_long_a_place_is_left_alone() -> None:
    sink, now = Scripted(), [1000.0]
    made = publisher(sink, every_s=60.0, ticks=lambda: now[0])
    assert made._delay_until_next_s(now[0]) is None
    made._waiting[ORIGIN] = (Checkpoint(ORIGIN, 1, bytes(32)), note_of(1))
    assert made._delay_until_next_s(now[0]) == 0.0
    made._send_waiting()
    assert sink.sizes == [1]
    made._waiting[ORIGIN] = (Checkpoint(ORIGIN, 2, bytes(32)), note_of(2))
    assert made._delay_until_next_s(now[0]) == 60.0
    now[0] += 20
    assert made._delay_until_next_s(now[0]) == 40.0
    sink.fails = OSError(111, "Connection refused")
    delays = []
    for _ in range(9):
        made._send_waiting()
        delays.append(made._delay_until_next_s(now[0]))
    assert delays == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, MAX_RETRY_S, MAX_RETRY_S, MAX_RETRY_S]
    made._thread = threading.current_thread()  # no other thread takes turns here
    made.expect_head(5.0)
    assert made._delay_until_next_s(now[0]) == WAITED_RETRY_S
    now[0] += 6
    assert made._delay_until_next_s(now[0]) == MAX_RETRY_S - 6
    made._closing = True
    assert made._delay_until_next_s(now[0]) == 0.0


def test_a_problem_is_said_once_and_its_end_too(caplog: pytest.LogCaptureFixture) -> None:
    sink = Scripted()
    made = publisher(sink)
    sink.fails = LockgateError("it is broken", hint="mend it")
    made._waiting[ORIGIN] = (Checkpoint(ORIGIN, 1, bytes(32)), note_of(1))
    for _ in range(3):
        made._send_waiting()
    assert made.problem == "it is broken"
    sink.fails = ValueError("secret")
    made._send_waiting()
    assert made.problem == "ValueError"
    sink.fails = None
    made._send_waiting()
    assert (made.problem, sink.sizes) == ("", [1])
    assert [each.message for each in caplog.records if each.name == "lockgate.publishing"] == [
        "heads do not reach scripted: it is broken",
        "heads do not reach scripted: ValueError",
        "heads reach scripted again",
    ]


def test_a_slow_target_holds_up_no_other(journal: Journal) -> None:
    """The place does not answer at all; recording, signing and the other place go on."""
    slow, quick = Scripted(), Scripted()
    slow.open.clear()
    publishing = PublisherGroup(journal, [], [publisher(slow), publisher(quick)])
    for _ in range(3):
        journal.append([b"record"], durable=True)
        journal.checkpoint()
    until(lambda: quick.sizes and quick.sizes[-1] == 4)
    assert slow.sizes == []
    slow.open.set()
    publishing.close()
    assert slow.sizes[-1] == 4


def test_the_last_head_is_seen_off_at_the_end() -> None:
    journal, sink = Journal(MemoryLog(), SIGNER, verify=keys.verify), Scripted()
    publishing = PublisherGroup(journal, [], [publisher(sink, every_s=3600.0)])
    journal.append([b"record"], durable=True)
    journal.checkpoint()
    until(lambda: sink.sizes == [2])
    journal.append([b"record"], durable=True)
    publishing.close()
    assert sink.sizes == [2, 3]


def test_the_end_of_a_process_sees_its_last_head_off(tmp_path: Path) -> None:
    code = """
import sys
from lockgate.journal import keys
from lockgate.journal.journal import Journal
from lockgate.journal.publisher import start_publishing
from lockgate.journal.stores.memory import MemoryLog
journal = Journal(MemoryLog(), keys.signer_from_seed("example.com/log/1", bytes(32)), verify=keys.verify)
start_publishing(journal, anchors=["file:" + sys.argv[1]])
journal.append([b"record"], durable=True)
"""
    place = tmp_path / "heads"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code, str(place)], check=True, timeout=60, env=environment)
    [note] = parse_checkpoints(place.read_bytes())
    assert parse_checkpoint(parse_note(note).text).size == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_forked_child_publishes_its_own_heads(journal: Journal, tmp_path: Path) -> None:
    publishing = start_publishing(journal, anchors=[f"file:{tmp_path / 'heads'}"])
    journal.append([b"record"], durable=True)
    journal.checkpoint()
    until((tmp_path / "heads").exists)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            journal.append([b"record"], durable=True)
            publishing.close()
            status = 0 if publishing.problems == {} else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (tmp_path / "heads").read_bytes().count(b"\n3\n") == 1
    publishing.close()


# Strict


def test_a_record_counts_when_it_is_cosigned(journal: Journal, witness: Witness, kept: Path) -> None:
    with serving(witness) as line:
        publishing = start_publishing(journal, [line], witnessed=kept)
        strict = WitnessedJournal(journal, publishing, strict_s=SOON_S)
        for _ in range(5):
            [receipt] = strict.enqueue([b"record"], durable=False)()
            assert size_in(kept) > receipt.index
        publishing.close()


def test_those_who_wait_together_share_one_head(strictly: Strictly) -> None:
    sink = Scripted()
    strict, made = strictly(sink)
    sink.open.clear()
    with ThreadPoolExecutor(16) as pool:
        first = pool.submit(strict.enqueue([b"record"], durable=True))
        assert sink.entered.wait(SOON_S)
        rest = [pool.submit(strict.enqueue([b"record"], durable=True)) for _ in range(15)]
        # All of them are in the log and have asked.
        until(lambda: made._asked == 16)
        sink.open.set()
        receipts = [each.result()[0] for each in (first, *rest)]
    assert sorted(each.index for each in receipts) == list(range(1, 17))
    assert sink.sizes == [2, 17]


def test_without_a_cosignature_a_record_does_not_count_but_is_there(journal: Journal, strictly: Strictly) -> None:
    sink = Scripted()
    sink.fails = LockgateError("it is broken")
    strict, made = strictly(sink, strict_s=0.6)
    made.expect_head(SOON_S)
    until(lambda: made.problem)
    with pytest.raises(JournalUnavailable, match=r"no witness has cosigned record 1 .*scripted: it is broken"):
        strict.enqueue([b"record"], durable=True)()
    assert parse_checkpoint(parse_note(journal.newest()).text).size == 2
    # One that comes back in time is waited for, and covers what was left.
    strict._strict_s = SOON_S
    mend = threading.Timer(0.3, lambda: setattr(sink, "fails", None))
    mend.start()
    [receipt] = strict.enqueue([b"record"], durable=True)()
    mend.join()
    assert receipt.index == 2
    assert sink.sizes[-1] == 3


def test_one_witness_of_two_is_enough(strictly: Strictly) -> None:
    broken, good = Scripted(), Scripted()
    broken.fails = OSError(111, "Connection refused")
    strict, _ = strictly(broken, good)
    assert strict.enqueue([b"record"], durable=True)()[0].index == 1


def test_a_witness_that_hangs_holds_a_ruling_no_longer_than_configured(strictly: Strictly) -> None:
    sink = Scripted()
    sink.open.clear()
    strict, _ = strictly(sink, strict_s=0.3)
    with pytest.raises(JournalUnavailable, match=r"within 0\.3 seconds"):
        strict.enqueue([b"record"], durable=True)()


def test_a_head_of_another_log_covers_nothing(strictly: Strictly) -> None:
    class Elsewhere(Scripted):
        def send(self, head: Checkpoint, note: bytes) -> Checkpoint:
            return super().send(head, note)._replace(origin="example.com/other", size=10**6)

    strict, _ = strictly(Elsewhere(), strict_s=0.3)
    with pytest.raises(JournalUnavailable, match="no witness"):
        strict.enqueue([b"record"], durable=True)()


def test_a_journal_that_fails_says_so_before_a_caller_waits(journal: Journal, strictly: Strictly) -> None:
    strict, made = strictly(Scripted())
    journal.close()
    with pytest.raises(JournalUnavailable, match="closed"):
        strict.enqueue([b"record"], durable=True)()
    assert made._asked == 0


def test_strict_without_a_witness_does_not_start(journal: Journal) -> None:
    with pytest.raises(InvalidConfig, match="none is configured"):
        WitnessedJournal(journal, start_publishing(journal))
