"""A witness cosigns one history of each log, whatever it is sent, and whenever it is killed."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path

import pytest
from merkle_levels import hash_levels

from lockgate.core.errors import InvalidNote, LockgateError
from lockgate.journal import keys
from lockgate.journal.merkle import consistency_proof, leaf_hash, root_of, verify_consistency
from lockgate.journal.signed_notes import (
    COSIGNATURE,
    MAX_PROOF,
    MAX_SIGNATURES,
    MAX_SUBMISSION,
    Checkpoint,
    Submission,
    cosign_note,
    file_name,
    parse_checkpoint,
    parse_checkpoints,
    parse_note,
    parse_submission,
    parse_vkey,
    sign_note,
    verify_signatures,
)
from lockgate.journal.witness import CosignatureRefused, Witness, WitnessServer

ORIGIN = "example.com/lockgate/2026a"
SIGNER = keys.signer_from_seed(ORIGIN, b"\x01" * 32)
NOW = 1_800_000_000


class Log:
    """A log as its key holder can make it: any leaves, any history."""

    def __init__(self, count: int, signer: keys.Ed25519Signer = SIGNER, *, fork_at: int = 1 << 30) -> None:
        self.leaves = [leaf_hash(b"%d %d" % (number, number >= fork_at)) for number in range(count)]
        self.signer = signer

    def head(self, size: int, *extensions: str) -> Checkpoint:
        return Checkpoint(self.signer.key.name, size, root_of(self.leaves[:size]), extensions)

    def note(self, size: int, *extensions: str) -> bytes:
        return sign_note(self.head(size, *extensions).text, self.signer.key, self.signer.sign).to_bytes()

    def asks(self, old: int, size: int) -> bytes:
        proof = consistency_proof(old, size, hash_levels(self.leaves)) if old <= size else []
        return Submission(old, tuple(proof), self.note(size)).to_bytes()


LOG = Log(40)
FORK = Log(40, fork_at=5)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "witness"


@pytest.fixture
def witness(folder: Path) -> Iterator[Witness]:
    with closing(Witness(folder, [SIGNER.key.vkey], clock=lambda: NOW)) as made:
        yield made


@contextmanager
def served(witness: Witness) -> Iterator[WitnessServer]:
    with WitnessServer(witness) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.fixture
def server(witness: Witness) -> Iterator[WitnessServer]:
    with served(witness) as made:
        yield made


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WitnessServer]:
    """One that never gets to cosign anything."""
    with (
        closing(Witness(tmp_path_factory.mktemp("witness") / "state", [SIGNER.key.vkey])) as made,
        served(made) as server,
    ):
        yield server


def refused(witness: Witness, body: bytes) -> CosignatureRefused:
    with pytest.raises(CosignatureRefused) as caught:
        witness.add_checkpoint(body)
    return caught.value


def known(witness: Witness) -> int:
    """The size of the newest head it has."""
    size = refused(witness, LOG.asks(39, 39)).size
    assert size is not None
    return size


def post(server: WitnessServer, body: bytes, path: str = "/add-checkpoint") -> tuple[int, str, bytes]:
    with closing(HTTPConnection(*server.server_address[:2], timeout=20)) as connection:  # type: ignore[misc]
        connection.request("POST", path, body)
        reply = connection.getresponse()
        return reply.status, reply.headers["content-type"], reply.read()


# What C2SP says, over HTTP


def test_a_head_that_continues_the_one_before_is_cosigned(server: WitnessServer) -> None:
    for old, size in ((0, 1), (1, 8), (8, 13), (13, 13), (13, 40)):
        status, _, line = post(server, LOG.asks(old, size))
        assert status == 200
        whole = parse_note(LOG.note(size) + line)
        assert verify_signatures(whole, [server.witness.key, SIGNER.key], keys.verify) == {
            server.witness.key: NOW,
            SIGNER.key: 0,
        }


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"old 0", 400),
        (b"old 00\n\n" + LOG.note(3), 400),
        (b"old -1\n\n" + LOG.note(3), 400),
        (b"old +1\n\n" + LOG.note(3), 400),
        (b"old  1\n\n" + LOG.note(3), 400),
        (b"old 9223372036854775808\n\n" + LOG.note(3), 400),
        (b"0\n\n" + LOG.note(3), 400),
        (b"old 0\r\n\r\n" + LOG.note(3), 400),
        (b"old 0\nnot a hash\n\n" + LOG.note(3), 400),
        (b"old 0\n\xff\n\n" + LOG.note(3), 400),
        (b"old 0\n\n" + LOG.note(3)[:-1], 400),
        (b"old 0\n\n" + sign_note("a\nb\n", SIGNER.key, SIGNER.sign).to_bytes(), 400),
        (Submission(0, (bytes(32),) * (MAX_PROOF + 1), LOG.note(3)).to_bytes(), 400),
        (LOG.asks(9, 8), 400),
        (Log(3, keys.signer_from_seed("example.com/stranger", b"\x02" * 32)).asks(0, 3), 404),
        (Log(3, keys.signer_from_seed(ORIGIN, b"\x02" * 32)).asks(0, 3), 403),
        (LOG.asks(0, 3).replace(b"\n3\n", b"\n4\n"), 403),
        (b"old 0\n\n" + cosign_note(parse_note(LOG.note(3)), SIGNER.key, SIGNER.sign, time_s=5).to_bytes(), 403),
        (Submission(0, (bytes(32),), LOG.note(3)).to_bytes(), 422),
    ],
)
def test_each_refusal_has_its_code_and_changes_nothing(refusing: WitnessServer, body: bytes, status: int) -> None:
    assert post(refusing, body)[0] == status
    assert known(refusing.witness) == 0


def test_no_changed_byte_gets_a_cosignature(witness: Witness) -> None:
    body = LOG.asks(0, 3)
    for at in range(len(body)):
        for change in (0x01, 0x20, 0x80):
            changed = body[:at] + bytes([body[at] ^ change]) + body[at + 1 :]
            assert refused(witness, changed).status in (400, 403, 404, 409)
        assert refused(witness, body[:at]).status in (400, 403)
    witness.add_checkpoint(body)


def test_a_log_that_is_behind_is_told_the_size(server: WitnessServer) -> None:
    post(server, LOG.asks(0, 20))
    for body in (LOG.asks(0, 21), LOG.asks(19, 21), LOG.asks(21, 21), LOG.asks(0, 19)):
        assert post(server, body) == (409, "text/x.tlog.size", b"20\n")
    assert post(server, LOG.asks(20, 21))[0] == 200


def test_a_wrong_proof_is_refused(server: WitnessServer) -> None:
    post(server, LOG.asks(0, 20))
    right = parse_submission(LOG.asks(20, 33))
    for hashes in ((), right.hashes[:-1], (*right.hashes, bytes(32)), right.hashes[::-1]):
        assert post(server, Submission(20, hashes, right.checkpoint).to_bytes())[0] == 422
    assert post(server, Submission(20, (bytes(32),), LOG.note(20)).to_bytes())[0] == 422
    assert post(server, right.to_bytes())[0] == 200


def test_a_forked_log_is_not_cosigned_though_its_key_signs_it(server: WitnessServer, folder: Path) -> None:
    post(server, LOG.asks(0, 20))
    assert post(server, FORK.asks(20, 33))[0] == 422
    assert post(server, FORK.asks(20, 20)) == (409, "text/x.tlog.size", b"20\n")
    # Two heads of one size are the proof that the key's holder lied: the witness has both.
    [evidence] = folder.glob("*.fork")
    assert evidence.read_bytes() == FORK.note(20)
    assert post(server, LOG.asks(20, 33))[0] == 200


def test_a_fork_is_said_once_however_often_it_is_sent(witness: Witness, caplog: pytest.LogCaptureFixture) -> None:
    witness.add_checkpoint(LOG.asks(0, 20))
    for _ in range(5):
        refused(witness, FORK.asks(20, 20))
    for _ in range(5):
        refused(witness, FORK.asks(20, 33))
    said = [each.message for each in caplog.records if each.levelname == "WARNING"]
    assert said == [
        f"the log {ORIGIN}: its key has signed two different trees of 20 records",
        f"the log {ORIGIN}: a head of 33 is not proved to continue the one of 20",
    ]


def test_a_rolled_back_log_is_not_cosigned(server: WitnessServer) -> None:
    post(server, LOG.asks(0, 20))
    for old in (0, 10, 15):
        assert post(server, FORK.asks(old, 15))[0] == 409
    assert post(server, FORK.asks(20, 15))[0] == 400


def test_an_empty_log_has_one_root(server: WitnessServer) -> None:
    lie = sign_note(Checkpoint(ORIGIN, 0, bytes(32)).text, SIGNER.key, SIGNER.sign).to_bytes()
    assert post(server, Submission(0, (), lie).to_bytes())[0] == 409
    assert post(server, LOG.asks(0, 0))[0] == 200
    assert post(server, LOG.asks(0, 3))[0] == 200


def test_a_replayed_request_gains_nothing(server: WitnessServer) -> None:
    first = LOG.asks(0, 10)
    assert post(server, first)[0] == 200
    assert post(server, first)[0] == 409
    assert post(server, LOG.asks(10, 20))[0] == 200
    assert post(server, LOG.asks(10, 10))[0] == 409


def test_strangers_lines_are_ignored_and_not_kept(server: WitnessServer, folder: Path) -> None:
    line = b"".join("— somebody AAAAAAAA\n".encode() for _ in range(MAX_SIGNATURES - 1))
    assert post(server, LOG.asks(0, 3) + line)[0] == 200
    [state] = folder.glob("*.checkpoint")
    assert [each.name for each in parse_note(state.read_bytes()).signatures] == [ORIGIN, server.witness.key.name]


def test_a_line_repeated_until_the_note_is_full_does_not_stop_the_witness(server: WitnessServer) -> None:
    head = LOG.asks(0, 3)
    line = head.rpartition(b"\n\n")[2]
    assert post(server, head + line * (MAX_SIGNATURES - 1))[0] == 200
    assert post(server, LOG.asks(3, 5))[0] == 200


def test_a_head_that_would_not_fit_with_our_line_is_not_cosigned(server: WitnessServer) -> None:
    note = LOG.note(3, "x" * 65_300)
    assert post(server, Submission(0, (), note).to_bytes())[0] == 500
    assert post(server, LOG.asks(0, 3))[0] == 200


# HTTP itself


def talk(server: WitnessServer, *pieces: bytes) -> bytes:
    """What comes back for these bytes, until the server closes."""
    with socket.create_connection(server.server_address[:2], timeout=20) as connection:
        for piece in pieces:
            connection.sendall(piece)
        received = b""
        while piece := connection.recv(65536):
            received += piece
        return received


def ended(connection: socket.socket) -> bool:
    """Whether the other side closes without a word; waits for it."""
    try:
        return connection.recv(100) == b""
    except ConnectionError:
        return True


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ("POST /add-checkpoint HTTP/1.1\r\n", b"411"),
        ("POST /add-checkpoint HTTP/1.1\r\ncontent-length: -1\r\n", b"411"),
        ("POST /add-checkpoint HTTP/1.1\r\ncontent-length: 1_0\r\n", b"411"),
        ("POST /add-checkpoint HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n", b"411"),
        ("POST /add-checkpoint HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n", b"411"),
        (f"POST /add-checkpoint HTTP/1.1\r\ncontent-length: {MAX_SUBMISSION + 1}\r\n", b"413"),
        ("POST /add-checkpoint HTTP/1.1\r\ncontent-length: 99999999999999999999\r\n", b"411"),
        ("POST /other HTTP/1.1\r\ncontent-length: 0\r\n", b"404"),
        ("GET /add-checkpoint HTTP/1.1\r\n", b"405"),
        ("BREW /<script> HTTP/1.1\r\n", b"501"),
        ("nonsense\r\n", b"400"),
        ("POST / HTTP/9.9\r\n", b"505"),
        ("POST /add-checkpoint HTTP/1.1\r\n" + "x: y\r\n" * 200, b"431"),
    ],
)
def test_what_is_no_request_is_answered_and_closed(refusing: WitnessServer, head: str, status: bytes) -> None:
    reply = talk(refusing, f"{head}\r\n".encode())
    assert status in reply.partition(b"\r\n")[0]
    assert b"script" not in reply
    assert post(refusing, LOG.asks(39, 39)) == (409, "text/x.tlog.size", b"0\n")


def test_a_connection_serves_several_requests(server: WitnessServer) -> None:
    with closing(HTTPConnection(*server.server_address[:2], timeout=20)) as connection:  # type: ignore[misc]
        for old, size in ((0, 3), (3, 5), (3, 6), (5, 6)):
            connection.request("POST", "/add-checkpoint", LOG.asks(old, size))
            reply = connection.getresponse()
            assert (reply.status == 200) == (size != 6 or old == 5)
            reply.read()


def test_a_slow_body_ends_with_its_time_and_holds_up_no_other(witness: Witness) -> None:
    with WitnessServer(witness, request_s=1.0, connections=2) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            body = LOG.asks(0, 3)
            head = f"POST /add-checkpoint HTTP/1.1\r\ncontent-length: {len(body)}\r\n\r\n".encode()
            with socket.create_connection(server.server_address[:2], timeout=20) as slow:
                slow.sendall(head + body[:10])
                assert post(server, body)[0] == 200
                # It drips on, which must not buy it time.
                closed = threading.Event()

                def drip() -> None:
                    while not closed.wait(0.1):
                        try:
                            slow.sendall(b"x")
                        except OSError:
                            return

                dripping = threading.Thread(target=drip)
                dripping.start()
                try:
                    assert ended(slow)
                finally:
                    closed.set()
                    dripping.join()
            assert post(server, LOG.asks(3, 5))[0] == 200
        finally:
            server.shutdown()
            thread.join()


def test_too_many_connections_are_closed_and_then_served_again(witness: Witness) -> None:
    with WitnessServer(witness, connections=2) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            held = [socket.create_connection(server.server_address[:2], timeout=20) for _ in range(2)]
            # Both are being served once they have had an answer.
            for each in held:
                each.sendall(b"POST /add-checkpoint HTTP/1.1\r\ncontent-length: 0\r\n\r\n")
                assert each.recv(1000).startswith(b"HTTP/1.1 400")
            with socket.create_connection(server.server_address[:2], timeout=20) as third:
                assert ended(third)
            for each in held:
                each.close()
            for _ in range(200):
                try:
                    assert post(server, LOG.asks(0, 3))[0] in (200, 409)
                    break
                except (ConnectionError, OSError):
                    threading.Event().wait(0.05)
            else:
                pytest.fail("it never served again")
        finally:
            server.shutdown()
            thread.join()


def test_a_port_that_is_taken_is_said(witness: Witness) -> None:
    with WitnessServer(witness) as server, pytest.raises(LockgateError, match="cannot listen"):
        WitnessServer(witness, port=int(server.server_address[1]))


# One history


def test_many_at_once_get_one_history(witness: Witness) -> None:
    """Of two forks, and of heads in any order: every cosigned pair is consistent."""
    bodies = [log.asks(old, size) for log in (LOG, FORK) for old in range(0, 40, 4) for size in range(old, 40, 4)]

    def ask(body: bytes) -> Checkpoint | None:
        try:
            witness.add_checkpoint(body)
        except CosignatureRefused:
            return None
        return parse_checkpoint(parse_note(parse_submission(body).checkpoint).text)

    with ThreadPoolExecutor(8) as pool:
        agreed = [head for head in pool.map(ask, bodies) if head is not None]
    assert len(agreed) > 1
    matching = [all(head == log.head(head.size) for head in agreed) for log in (LOG, FORK)]
    assert any(matching)


def test_it_remembers_after_a_restart(folder: Path, witness: Witness) -> None:
    witness.add_checkpoint(LOG.asks(0, 20))
    witness.close()
    with closing(Witness(folder, [SIGNER.key.vkey])) as again:
        assert again.key == witness.key
        assert refused(again, FORK.asks(0, 30)).size == 20
        assert refused(again, FORK.asks(20, 30)).status == 422
        again.add_checkpoint(LOG.asks(20, 30))


def test_two_processes_cannot_share_a_folder(folder: Path, witness: Witness) -> None:
    with pytest.raises(LockgateError, match="another witness uses the folder"):
        Witness(folder, [SIGNER.key.vkey])


def test_two_witnesses_are_two_opinions(tmp_path: Path) -> None:
    made = [Witness(tmp_path / name, [SIGNER.key.vkey]) for name in "ab"]
    note = LOG.note(20) + b"".join(each.add_checkpoint(LOG.asks(0, 20)) for each in made)
    assert len(verify_signatures(parse_note(note), [each.key for each in made], keys.verify)) == 2
    for each in made:
        each.close()


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL is POSIX's")
@pytest.mark.parametrize("where", ["os.fsync", "os.replace", "os.open", "os.close"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_killed_at_any_step_it_never_cosigns_two_histories(folder: Path, where: str, moment: str) -> None:
    """A child is killed around each call that touches the disk; the parent then tries to get the fork cosigned."""
    Witness(folder, [SIGNER.key.vkey]).close()
    code = f"""
import os, signal, sys
from pathlib import Path
from lockgate.journal.witness import Witness
body, vkey = sys.stdin.buffer.read().split(b"|||")
witness = Witness(Path(sys.argv[1]), [vkey.decode()])
real = {where}
def fake(*args, **rest):
    if {moment == "after"}:
        real(*args, **rest)
    os.kill(os.getpid(), signal.SIGKILL)
{where} = fake
sys.stdout.buffer.write(witness.add_checkpoint(body))
sys.stdout.flush()
"""
    run = subprocess.run(
        [sys.executable, "-c", code, str(folder)],
        input=LOG.asks(0, 20) + b"|||" + SIGNER.key.vkey.encode(),
        capture_output=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert run.returncode == -9
    assert run.stdout == b""
    with closing(Witness(folder, [SIGNER.key.vkey])) as again:
        # Either it knows nothing yet, or it knows this very head and cosigns it once more.
        size = known(again)
        assert size in (0, 20)
        again.add_checkpoint(LOG.asks(size, 20))
        assert refused(again, FORK.asks(20, 30)).status == 422


@pytest.mark.parametrize("call", ["fsync", "replace", "open"])
def test_what_is_not_on_the_disk_is_not_cosigned(witness: Witness, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(f"lockgate.journal.witness.os.{call}", full)
        with pytest.raises(OSError, match="No space"):
            witness.add_checkpoint(LOG.asks(0, 20))
    size = known(witness)
    assert size in (0, 20)
    witness.add_checkpoint(LOG.asks(size, 20))


def test_a_failed_disk_is_an_answer_without_a_word_of_it(
    server: WitnessServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise OSError(5, "Input/output error", "/secret/place")

    monkeypatch.setattr("lockgate.journal.witness.replace_file", broken)
    status, _, body = post(server, LOG.asks(0, 20))
    assert (status, body) == (500, b"the witness failed\n")


# Its folder


@pytest.mark.parametrize(
    "change",
    [
        lambda data: b"",
        lambda data: data[:-10],
        lambda data: data.replace(b"\n20\n", b"\n10\n"),
        lambda data: LOG.note(20),
        lambda data: LOG.note(5) + data.rpartition(b"\n\n")[2],
        lambda data: b"x" * 100_000,
    ],
)
def test_a_damaged_memory_is_no_fresh_start(folder: Path, witness: Witness, change: object) -> None:
    witness.add_checkpoint(LOG.asks(0, 20))
    [state] = folder.glob("*.checkpoint")
    state.write_bytes(change(state.read_bytes()))  # type: ignore[operator]
    with pytest.raises(LockgateError, match="cannot be used") as caught:
        witness.add_checkpoint(LOG.asks(0, 30))
    assert not isinstance(caught.value, CosignatureRefused)
    witness.close()
    with pytest.raises(LockgateError, match="cannot be used"):
        Witness(folder, [SIGNER.key.vkey])


def test_the_memory_of_another_log_is_not_this_ones(folder: Path, witness: Witness) -> None:
    other = keys.signer_from_seed("example.com/other", b"\x05" * 32)
    witness.add_checkpoint(LOG.asks(0, 20))
    (folder / file_name(other.key.name)).write_bytes((folder / file_name(ORIGIN)).read_bytes())
    witness.close()
    with pytest.raises(LockgateError, match="has not signed it"):
        Witness(folder, [other.key.vkey])


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
def test_only_its_owner_reads_its_files(folder: Path, witness: Witness) -> None:
    witness.add_checkpoint(LOG.asks(0, 20))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir()} == {0o600}
    witness.close()
    folder.chmod(0o777)
    with pytest.raises(LockgateError, match="written by others"):
        Witness(folder, [SIGNER.key.vkey])


def test_it_keeps_the_name_it_was_made_with(folder: Path) -> None:
    with closing(Witness(folder, [SIGNER.key.vkey], name="example.com/w1")) as made:
        assert (made.key.name, made.key.kind) == ("example.com/w1", COSIGNATURE)
        assert parse_vkey(made.key.vkey) == made.key
    with pytest.raises(LockgateError, match="is called"):
        Witness(folder, [SIGNER.key.vkey], name="example.com/w2")
    Witness(folder, [SIGNER.key.vkey]).close()


def test_it_refuses_to_start_half_built(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(LockgateError, match="needs at least one log"):
        Witness(folder, [])
    with pytest.raises(InvalidNote):
        Witness(folder, ["nonsense"])
    with pytest.raises(LockgateError, match="key of a witness"):
        Witness(folder, [keys.signer_from_seed("w", bytes(32), kind=COSIGNATURE).key.vkey])
    keys.create(tmp_path / "log" / "witness.key", ORIGIN)
    with pytest.raises(LockgateError, match="key of a log"):
        Witness(tmp_path / "log", [SIGNER.key.vkey])
    (tmp_path / "file").write_text("")
    with pytest.raises(LockgateError, match="cannot be used"):
        Witness(tmp_path / "file" / "folder", [SIGNER.key.vkey])


# As a process of its own


@pytest.mark.skipif(os.name != "posix", reason="SIGINT is sent as POSIX has it")
def test_it_serves_until_it_is_interrupted(folder: Path) -> None:
    code = """
import sys
from pathlib import Path
from lockgate.journal.witness import run_witness
run_witness(Path(sys.argv[1]), sys.argv[2:], port=0, ready=lambda url, vkey: print(url, vkey, flush=True))
"""
    with subprocess.Popen(
        [sys.executable, "-c", code, str(folder), SIGNER.key.vkey],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    ) as process:
        try:
            assert process.stdout is not None
            url, vkey = process.stdout.readline().split()
            with closing(HTTPConnection(url.removeprefix("http://"), timeout=20)) as connection:
                connection.request("POST", "/add-checkpoint", LOG.asks(0, 3))
                line = connection.getresponse().read()
            assert parse_vkey(vkey) in verify_signatures(
                parse_note(LOG.note(3) + line), [parse_vkey(vkey)], keys.verify
            )
            process.send_signal(2)
            assert process.wait(20) == 0
        finally:
            process.kill()


# Files of heads


def test_heads_come_back_from_the_file_they_were_appended_to() -> None:
    notes = [LOG.note(size) for size in (1, 2, 3)]
    assert parse_checkpoints(b"".join(note + b"\n" for note in notes)) == notes
    assert parse_checkpoints(b"\n".join(notes)) == notes
    assert parse_checkpoints(notes[0]) == notes[:1]
    assert parse_checkpoints(b"") == []


def test_a_head_that_was_cut_short_is_left_out() -> None:
    first, second, third = (LOG.note(size) for size in (1, 2, 3))
    for cut in range(1, len(second)):
        torn = first + b"\n" + second[:cut]
        assert parse_checkpoints(torn) == [first]
        assert parse_checkpoints(torn + b"\n(cut short)\n\n" + third + b"\n") == [first, third]


def test_names_of_files_are_harmless_and_differ() -> None:
    names = ["a/b", "a_b", "A/b", "../../etc", "..", "ü" * 200, "ü" * 201, "con", "a\\b", "lockgate/0f0f0f0f"]
    made = [file_name(name) for name in names]
    assert len({each.lower() for each in made}) == len(names)
    assert all(len(each) < 120 and not set(each) & set("/\\ :\0") and each.endswith(".checkpoint") for each in made)


def test_the_submission_reads_as_the_published_one() -> None:
    body = LOG.asks(20, 33)
    first, *_ = body.split(b"\n")
    assert first == b"old 20"
    asked = parse_submission(body)
    assert asked.to_bytes() == body
    assert verify_consistency(20, 33, LOG.head(20).root, LOG.head(33).root, asked.hashes)
