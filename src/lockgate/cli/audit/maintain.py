"""`lockgate audit prune` and `keys`, which change the journal and need its key, and `witness`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lockgate import assemble
from lockgate.cli.audit.archive import archived_log
from lockgate.cli.audit.open_log import POSTGRES, log_from_args, open_log, refuse_password
from lockgate.cli.exit_codes import Exit
from lockgate.cli.terminal import format_count, make_visible
from lockgate.cli.user import user_name
from lockgate.core.errors import LockgateError, quoted
from lockgate.journal import keys as key_files
from lockgate.journal.witness import PORT, run_witness

if TYPE_CHECKING:
    from lockgate.journal.journal import Journal
    from lockgate.settings.journal_paths import JournalFiles


# A thousand years: more does not fit into a datetime.
_MOST_DAYS = 365_250


def prune(args: argparse.Namespace) -> Exit:
    days = _retention_days(args)
    _confirm(args, f"delete the contents of all records older than {days} days?")
    with open_journal(args) as (files, journal), ExitStack() as stack:
        archived: Mapping[str, int] | None = None
        if args.archive:
            # Held until the records are deleted: no other process may change the archive that they are deleted for.
            writing = archived_log(
                open_log(str(files.log)), Path(args.archive), days, accept_deleted=args.accept_deleted
            )
            archived = stack.enter_context(writing).ends
        gone = journal.prune(retention_days=days, who=_actor_name(args), archived=archived)
    if args.json:
        print(json.dumps({"retention_days": days, "deleted_below": gone}, ensure_ascii=True))
    elif not gone:
        print(f"nothing is older than {days} days")
    for origin, before in gone.items() if not args.json else ():
        print(make_visible(f"records below {before:,} of {origin} were deleted; their hashes stay"))
    return Exit.CLEAR


def _retention_days(args: argparse.Namespace) -> int:
    days = args.days
    if days is None:
        days = assemble.settings_from_environment(args.config).audit.retention_days
        if not days:
            raise LockgateError("the configuration keeps records for ever", hint="give an age with --days")
    if days < 1:
        raise LockgateError("records must be kept for at least one day")
    if days > _MOST_DAYS:
        raise LockgateError(
            f"records cannot be older than {_MOST_DAYS:,} days", hint="say a smaller number with --days"
        )
    return int(days)


def keys(args: argparse.Namespace) -> Exit:
    if args.rotate:
        return _rotate_key(args)
    for name in ("yes", "who"):
        if getattr(args, name):
            raise LockgateError(f"--{name} has no effect without rotate")
    with log_from_args(args).reading() as view:
        shards = view.shards()
        sizes = {shard.number: newest.size if (newest := view.newest(shard.number)) else 0 for shard in shards}
    for number, shard in enumerate(shards, 1):
        state = "open" if number == len(shards) else "closed"
        if args.json:
            value = {"origin": shard.origin, "vkey": shard.vkey, "records": sizes[shard.number], "state": state}
            print(json.dumps(value, ensure_ascii=True))
        else:
            print(make_visible(shard.vkey))
            print(f"  {format_count(sizes[shard.number], 'signed record')}, {state}")
    return Exit.CLEAR


def _rotate_key(args: argparse.Namespace) -> Exit:
    _confirm(args, "close this shard of the log and go on under a new key?")
    with open_journal(args) as (files, journal):
        path = files.next_key()
        with journal.store.reading() as view:
            names = [shard.origin for shard in view.shards()]
        if not names:
            raise LockgateError("the log is empty", hint="there is no key to go on from before the first ruling")
        number = len(names) + 1
        while (name := f"{names[0]}.{number}") in names:
            number += 1
        # The key is on disk before it signs anything: a crash must not lose it.
        signer = key_files.create(path, name)
        try:
            last = journal.rotate(signer, who=_actor_name(args))
        except BaseException:
            with journal.store.reading() as view:
                used = any(shard.vkey == signer.key.vkey for shard in view.shards())
            if not used:
                path.unlink(missing_ok=True)
            raise
    if args.json:
        value = {"vkey": signer.key.vkey, "key_file": str(path), "last_head": last.decode()}
        print(json.dumps(value, ensure_ascii=True))
        return Exit.CLEAR
    print(make_visible(f"the log goes on under {signer.key.vkey}"))
    print(make_visible(f"its key is in {path}"))
    print("the last head of the closed shard, worth keeping elsewhere:\n")
    for each in last.decode().splitlines():
        print(f"  {make_visible(each)}".rstrip())
    return Exit.CLEAR


@contextmanager
def open_journal(args: argparse.Namespace) -> Iterator[tuple[JournalFiles, Journal]]:
    """Open an existing journal for writing; raise rather than begin a new log or make a new key."""
    settings = assemble.settings_from_environment(args.config)
    if args.log:
        refuse_password(args.log)
    path = args.log if not args.log or args.log.startswith(POSTGRES) else os.path.abspath(args.log)
    # Only --days decides what is deleted here: the configuration may belong to another log.
    audit = replace(settings.audit, log_path=path or settings.audit.log_path, retention_days=0)
    settings = replace(settings, audit=audit)
    files = assemble.journal_files(settings)
    with open_log(str(files.log)).reading():
        pass
    if not files.key_files():
        raise LockgateError(
            f"there is no key in {quoted(files.key, 200)}", hint="run this where, and as the user who, writes the log"
        )
    with assemble.log_from_settings(settings) as journal:
        yield files, journal


def _actor_name(args: argparse.Namespace) -> str:
    return user_name() if args.who is None else str(args.who)[:200]


def _confirm(args: argparse.Namespace, question: str) -> None:
    if args.yes:
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or args.json:
        raise LockgateError("no terminal to ask on", hint="say --yes")
    print(f"{question} Type yes: ", end="", flush=True)
    if sys.stdin.readline().strip().lower() != "yes":
        raise LockgateError("nothing was done: the answer was not yes")


def witness(args: argparse.Namespace) -> Exit:
    folder = Path(args.state) if args.state else None
    if folder is None:
        state = assemble.settings_from_environment(args.config).state_dir
        if state is None:
            raise LockgateError("there is no folder for the witness", hint="name one with --state")
        folder = state / "witness"
    host, port = _parse_listen_address(args.listen, PORT)

    def ready(url: str, vkey: str) -> None:
        print(make_visible(f"listening on {url}"))
        print(make_visible(f"key: {vkey}"), flush=True)

    run_witness(folder, args.logs, name=args.name, host=host, port=port, ready=ready)
    return Exit.CLEAR


def _parse_listen_address(text: str, port: int) -> tuple[str, int]:
    if not text:
        return "127.0.0.1", port
    host, _, number = text.rpartition(":")
    if not host or not number.isascii() or not number.isdigit() or int(number[:6]) > 65_535:
        raise LockgateError(f"{quoted(text)} is no address to listen on", hint="write HOST:PORT, e.g. 127.0.0.1:8766")
    return host.strip("[]"), int(number)
