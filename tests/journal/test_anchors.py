"""Heads get to files, git, webhooks and syslog whole or not at all, and nothing of a secret is said on the way."""

from __future__ import annotations

import os
import re
import shutil
import socket
import ssl
import stat
import subprocess
import threading
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lockgate.core.errors import InvalidConfig, LockgateError
from lockgate.journal import anchors, keys
from lockgate.journal.anchors import (
    Address,
    FileAnchor,
    GitAnchor,
    Syslog,
    Webhook,
    parse_address,
    parse_anchor,
    post,
)
from lockgate.journal.signed_notes import Checkpoint, file_name, parse_checkpoints, sign_note
from lockgate.testing import loopback

ORIGIN = "example.com/log/1"
SIGNER = keys.signer_from_seed(ORIGIN, b"\x01" * 32)
git_only = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git here")
posix_only = pytest.mark.skipif(os.name != "posix", reason="modes, links and UNIX sockets are POSIX's")


def head(size: int) -> Checkpoint:
    return Checkpoint(ORIGIN, size, bytes([size]) * 32)


def note(size: int) -> bytes:
    return sign_note(head(size).text, SIGNER.key, SIGNER.sign).to_bytes()


def send(anchor: anchors.Anchor, *sizes: int) -> None:
    for size in sizes:
        anchor.send(head(size), note(size))


# Files


def test_a_file_has_every_head(tmp_path: Path) -> None:
    anchor = parse_anchor(f"file:{tmp_path / 'heads'}")
    send(anchor, 1, 2, 3)
    assert parse_checkpoints((tmp_path / "heads").read_bytes()) == [note(1), note(2), note(3)]


@posix_only
def test_only_its_owner_reads_the_file_and_a_link_is_not_followed(tmp_path: Path) -> None:
    anchor = FileAnchor(tmp_path / "heads")
    send(anchor, 1)
    assert stat.S_IMODE((tmp_path / "heads").stat().st_mode) == 0o600
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic"):
        send(FileAnchor(tmp_path / "link"), 1)
    assert not (tmp_path / "elsewhere").exists()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="seek"):
        send(FileAnchor(tmp_path / "pipe"), 1)


def test_a_head_that_was_cut_short_does_not_spoil_the_next(tmp_path: Path) -> None:
    place = tmp_path / "heads"
    for cut in (1, 10, len(note(2)) - 1, len(note(2))):
        place.write_bytes(note(1) + b"\n" + note(2)[:cut])
        send(FileAnchor(place), 3)
        found = parse_checkpoints(place.read_bytes())
        assert found[0] == note(1)
        assert found[-1] == note(3)


def test_a_full_disk_leaves_no_half_of_a_head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "heads"
    send(FileAnchor(place), 1)
    real = os.write
    monkeypatch.setattr(anchors.os, "write", lambda handle, data: real(handle, data[:20]))
    with pytest.raises(LockgateError, match="no room"):
        send(FileAnchor(place), 2)
    assert place.read_bytes() == note(1) + b"\n"


# git


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return folder


def git(tree: Path, *arguments: str) -> str:
    ran = subprocess.run(["git", "-C", str(tree), *arguments], check=True, capture_output=True, text=True)
    return ran.stdout


@git_only
def test_git_has_a_commit_for_every_head(tree: Path) -> None:
    anchor = parse_anchor(f"git:{tree}")
    send(anchor, 1, 2, 2, 3)
    name = file_name(ORIGIN)
    assert git(tree, "log", "--format=%an %s").splitlines() == [
        f"lockgate {ORIGIN} has {size} records" for size in (3, 2, 1)
    ]
    assert [git(tree, "show", f"HEAD~{back}:{name}").encode() for back in (0, 1, 2)] == [note(3), note(2), note(1)]
    assert git(tree, "status", "--porcelain") == ""


@git_only
def test_nothing_of_the_owners_work_is_committed_along(tree: Path) -> None:
    (tree / "draft").write_text("mine")
    git(tree, "add", "draft")
    send(GitAnchor(tree, "git"), 1)
    assert git(tree, "show", "--name-only", "--format=").split() == [file_name(ORIGIN)]
    assert git(tree, "status", "--porcelain").split() == ["A", "draft"]


@git_only
@posix_only
def test_no_program_of_the_repository_runs(tree: Path, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\nexit 1\n")
    trap.chmod(0o755)
    for hook in ("pre-commit", "commit-msg", "post-commit", "prepare-commit-msg", "reference-transaction"):
        shutil.copy(trap, tree / ".git" / "hooks" / hook)
    for setting in ("core.fsmonitor", "gpg.program", "core.editor", "core.pager"):
        git(tree, "config", setting, str(trap))
    git(tree, "config", "commit.gpgsign", "true")
    send(GitAnchor(tree, shutil.which("git") or ""), 1, 2)
    assert not (tmp_path / "sprung").exists()


@git_only
def test_a_repository_can_neither_run_anything_nor_change_what_is_kept(tree: Path, tmp_path: Path) -> None:
    """Filters, attributes, hooks, monitors, signers and transports: all that a repository can name."""
    ran = tmp_path / "ran"
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\necho $0 $@ >> {ran}\necho changed\n")
    trap.chmod(0o700)
    for hook in (
        *("pre-commit", "commit-msg", "prepare-commit-msg", "post-commit", "post-index-change"),
        *("reference-transaction", "update", "post-update", "post-rewrite", "pre-auto-gc", "fsmonitor-watchman"),
    ):
        shutil.copy(trap, tree / ".git" / "hooks" / hook)
    (tree / ".gitattributes").write_text("* filter=evil diff=evil merge=evil text eol=crlf ident\n")
    (tree / ".git" / "info").mkdir(exist_ok=True)
    (tree / ".git" / "info" / "attributes").write_text("* filter=evil working-tree-encoding=UTF-16\n")
    for setting in (
        *("filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "diff.evil.textconv", "diff.evil.command"),
        *("core.fsmonitor", "core.editor", "core.pager", "core.sshCommand", "core.gitProxy", "gpg.program"),
        *("gpg.ssh.program", "diff.external", "credential.helper", "core.askPass", "merge.evil.driver"),
    ):
        git(tree, "config", setting, str(trap))
    for setting, value in (
        ("filter.evil.required", "true"),
        ("core.attributesFile", str(tree / ".gitattributes")),
        ("core.hooksPath", str(tree / ".git" / "hooks")),
        ("commit.gpgSign", "true"),
        ("core.autocrlf", "true"),
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "evil"),
        ("remote.evil.url", f"ext::{trap}"),
        ("remote.evil.promisor", "true"),
        ("protocol.ext.allow", "always"),
    ):
        git(tree, "config", setting, value)
    send(GitAnchor(tree, shutil.which("git") or ""), 1, 2, 2)
    assert not ran.exists(), ran.read_text()
    name = file_name(ORIGIN)
    kept = subprocess.run(["git", "-C", str(tree), "cat-file", "blob", f"HEAD:{name}"], check=True, capture_output=True)
    assert kept.stdout == note(2) == (tree / name).read_bytes()
    assert len(git(tree, "rev-list", "HEAD").split()) == 2
    # And the trap does go off where git is used as people use it.
    subprocess.run(["git", "-C", str(tree), "add", "--force", "--all"], check=False, capture_output=True)
    assert ran.exists()


@git_only
def test_a_commit_at_the_same_moment_is_not_undone(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    send(GitAnchor(tree, "git"), 1)
    real = GitAnchor._run_git

    def between(self: GitAnchor, *arguments: str, **more: object) -> bytes:
        if arguments[0] == "commit-tree":
            who = ("-c", "user.name=x", "-c", "user.email=x")
            git(tree, *who, "commit", "-q", "--allow-empty", "-m", "theirs")
        return real(self, *arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(GitAnchor, "_run_git", between)
    with pytest.raises(LockgateError, match="git update-ref failed"):
        send(GitAnchor(tree, "git"), 2)
    monkeypatch.undo()
    send(GitAnchor(tree, "git"), 2)
    assert git(tree, "log", "--format=%s").splitlines()[:2] == [f"{ORIGIN} has 2 records", "theirs"]


@git_only
def test_the_callers_git_settings_do_not_lead_elsewhere(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when this runs inside a hook of another repository."""
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    send(GitAnchor(tree, "git"), 1)
    monkeypatch.undo()
    assert git(tree, "log", "--format=%s") == f"{ORIGIN} has 1 records\n"


@git_only
@posix_only
def test_a_link_in_the_tree_is_replaced_and_not_written_through(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (tree / file_name(ORIGIN)).symlink_to(tmp_path / "precious")
    send(GitAnchor(tree, "git"), 1)
    assert (tmp_path / "precious").read_text() == "precious"
    assert git(tree, "show", f"HEAD:{file_name(ORIGIN)}").encode() == note(1)


@git_only
def test_a_tree_that_is_busy_or_gone_is_said(tree: Path) -> None:
    (tree / ".git" / "index.lock").touch()
    with pytest.raises(LockgateError, match=r"git update-index failed: .*index\.lock"):
        send(GitAnchor(tree, "git"), 1)
    (tree / ".git" / "index.lock").unlink()
    shutil.rmtree(tree / ".git")
    with pytest.raises(LockgateError, match="git hash-object failed"):
        send(GitAnchor(tree, "git"), 1)


@git_only
def test_a_repository_above_is_not_taken_for_the_anchor(tree: Path) -> None:
    below = tree / "below"
    below.mkdir()
    with pytest.raises(InvalidConfig, match="no git working tree"):
        parse_anchor(f"git:{below}")
    with pytest.raises(LockgateError, match="git hash-object failed"):
        send(GitAnchor(below, "git"), 1)


# HTTP


@contextmanager
def answering(
    *pieces: bytes, drip: bool = False, tls: ssl.SSLContext | None = None
) -> Iterator[tuple[Address, list[bytes]]]:
    """A server for one connection that says these bytes, whatever it is asked; with `drip`, the last one for ever."""
    heard: list[bytes] = []
    done = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(20)

        def serve() -> None:
            try:
                connection, _ = listening.accept()
                with connection:
                    connection.settimeout(20)
                    if tls is not None:
                        connection = tls.wrap_socket(connection, server_side=True)
                    heard.append(connection.recv(1 << 16))
                    while not heard[-1].endswith(note(1)) and (more := connection.recv(1 << 16)):
                        heard[-1] += more
                    for piece in pieces:
                        connection.sendall(piece)
                    while drip and not done.wait(0.05):
                        connection.sendall(pieces[-1])
                    connection.close()
            except OSError:
                pass

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            scheme = "https" if tls else "http"
            yield parse_address(f"{scheme}://127.0.0.1:{listening.getsockname()[1]}/hook?token=secret", "it"), heard
        finally:
            done.set()
            thread.join()


OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


def test_a_webhook_gets_the_note() -> None:
    with answering(OK) as (address, heard):
        send(Webhook(address), 1)
    first, _, body = heard[0].partition(b"\r\n\r\n")
    assert first.startswith(b"POST /hook?token=secret HTTP/1.1\r\n")
    assert body == note(1)


@pytest.mark.parametrize("status", [b"199", b"301", b"308", b"400", b"401", b"500"])
def test_any_other_answer_is_a_failure_and_nothing_is_followed(status: bytes) -> None:
    reply = b"HTTP/1.1 " + status + b" X\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n"
    with answering(reply) as (address, _), pytest.raises(LockgateError):
        send(Webhook(address), 1)


@pytest.mark.parametrize(
    "pieces",
    [
        (),
        (b"nonsense\r\n\r\n",),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nshort",),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab",),
        (b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 500 + b"\r\n",),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 70_000),
    ],
)
def test_a_broken_answer_is_none(pieces: tuple[bytes, ...]) -> None:
    with answering(*pieces) as (address, _), pytest.raises((LockgateError, OSError)):
        send(Webhook(address), 1)


@pytest.mark.parametrize(
    "pieces",
    [
        (b"HTTP/1.1 200 OK\r\n", b"x: y\r\n"),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 60000\r\n\r\n", b"x"),
        (b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n", b"x"),
        (b"HTTP/1.1 100 Continue\r\n\r\n",),
    ],
)
def test_an_answer_that_drips_for_ever_ends_in_time(pieces: tuple[bytes, ...]) -> None:
    with answering(*pieces, drip=True) as (address, _), pytest.raises(LockgateError, match=r"no answer within|no HTTP"):
        post(address, note(1), deadline_s=0.3)


def test_a_silent_server_ends_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = parse_address(f"http://127.0.0.1:{listening.getsockname()[1]}/", "it")
        with pytest.raises(LockgateError, match=r"no answer within 0\.3 seconds"):
            post(address, b"", deadline_s=0.3)


def test_tls_is_checked() -> None:
    """No authority signed the test server's certificate: it is refused unless it is trusted on purpose."""
    theirs = loopback._tls_context()
    with answering(OK, tls=theirs) as (address, heard), pytest.raises(OSError, match="certificate"):
        send(Webhook(address), 1)
    assert heard == []
    trusting = ssl.create_default_context(cadata=ssl.DER_cert_to_PEM_cert(b64decode(loopback._CERTIFICATE)))
    with answering(OK, tls=theirs) as (address, heard):
        assert post(address, note(1), tls=trusting) == (200, b"ok")
    assert heard[0].endswith(note(1))


def test_a_secret_in_the_address_is_nowhere_shown() -> None:
    anchor = parse_anchor("https://example.com/secret?token=secret")
    assert anchor.name == "https://example.com:443"
    assert "secret" not in f"{anchor!r} {anchor}"


# syslog


def test_syslog_over_udp_is_as_rfc_5424_has_it() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(20)
        address = parse_address(f"syslog://127.0.0.1:{server.getsockname()[1]}", "it")
        Syslog(address, clock=lambda: 1_800_000_000).send(head(7), note(7))
        line = server.recv(1 << 16).decode()
    found = re.fullmatch(
        r"<110>1 2027-01-15T08:00:00Z [!-~]{1,255} lockgate [0-9]+ head - "
        r"head of example\.com/log/1: 7 records, root (\S+), note (\S+)",
        line,
    )
    assert found is not None
    assert found[1] == b64encode(head(7).root).decode()
    assert b64decode(found[2]) == note(7)


@posix_only
def test_syslog_on_this_machine_gets_a_line(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        place = os.path.relpath(tmp_path / "log")  # a socket's name is short
        server.bind(place)
        server.settimeout(20)
        Syslog(None, places=("nowhere", place)).send(head(7), note(7))
        assert server.recv(1 << 16).startswith(b"<110>lockgate[")
    with pytest.raises(LockgateError, match="no syslog listens"):
        Syslog(None, places=("nowhere", place)).send(head(7), note(7))


# The configuration's words


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("file:{}/heads", FileAnchor),
        (" https://example.com/hook ", Webhook),
        ("http://127.0.0.1:9/x", Webhook),
        ("http://localhost/x", Webhook),
        ("syslog:", Syslog),
        ("syslog://logs.example.com", Syslog),
    ],
)
def test_each_kind_of_anchor_is_known(tmp_path: Path, text: str, kind: type) -> None:
    assert isinstance(parse_anchor(text.format(tmp_path)), kind)


def test_a_syslog_server_listens_at_514() -> None:
    anchor = parse_anchor("syslog://logs.example.com")
    assert anchor.name == "syslog://logs.example.com:514"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "heads",
        "file:",
        "file:relative",
        "file:/nowhere/at/all",
        "git:",
        "git:relative",
        "git:/nowhere/at/all",
        "http://example.com/secret",
        "https://user:secret@example.com/",
        "https://example.com/ secret",
        "https://example.com/#secret",
        "https://exämple.com/secret",
        "https://example.com:0/secret",
        "https:secret",
        "syslog:secret",
        "syslog://example.com/secret",
        "syslog://user:secret@example.com",
        "ftp://example.com/secret",
    ],
)
def test_what_is_no_anchor_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        parse_anchor(text)
    assert caught.value.hint
    assert "secret" not in str(caught.value)


def test_without_git_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InvalidConfig, match="needs the program"):
        parse_anchor(f"git:{tmp_path}")
