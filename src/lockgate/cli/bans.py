"""`lockgate gate bans`: list locked and quarantined clients, and lift a ban before it ends.

Bans are stored under keyed hashes of the clients. The list shows these hashes; the gate's log has the same ones as
`client=`. With ABUSE_SECRET, a ban can also be found by the principal's name.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
from collections.abc import Awaitable
from hashlib import sha256
from time import time
from typing import TYPE_CHECKING, TypeVar

from lockgate import assemble
from lockgate.abuse_gate import defaults as wiring
from lockgate.abuse_gate.identity import Identity
from lockgate.cli.exit_codes import Exit
from lockgate.cli.terminal import format_count
from lockgate.core.errors import InvalidConfig, LockgateError, quoted
from lockgate.core.requests.incident_ids import is_incident_id
from lockgate.core.requests.strikes import LIFTED, SharedRecord
from lockgate.journal.recorder import record_assessment
from lockgate.settings.abuse_gate import abuse_settings_from_env

if TYPE_CHECKING:
    from lockgate.abuse_gate.stores.bans_sqlite import SqliteBans
    from lockgate.abuse_gate.stores.strikes_valkey import ValkeyStrikes
    from lockgate.settings.abuse_gate import AbuseSettings

T = TypeVar("T")
_HASH_PREFIX = re.compile("[0-9a-f]{12,32}")


def run(args: argparse.Namespace) -> Exit:
    if args.envoy or args.litellm or args.upstream is not None:
        raise LockgateError("`bans` serves no requests", hint="leave --upstream, --envoy and --litellm out")
    found = assemble.settings_from_environment(args.config)
    settings = abuse_settings_from_env(table=found.abuse_gate)
    if settings.store == "memory" and not settings.bans_file:
        raise InvalidConfig(
            "the gate keeps its bans in its own memory only, where this command cannot read them",
            hint="set ABUSE_BANS_FILE, or ABUSE_STORE; without them a restart of the gate lifts every ban",
        )
    kept = _BanStores(settings)
    if args.lift is None:
        return _print_bans(kept.list_bans())
    who = sys.stdin.readline().strip() if args.lift == "-" else args.lift
    banned = kept.list_bans()
    keys = _matching_keys(who, settings, banned)
    if not keys:
        print(f"lockgate: {quoted(who)} is not banned", file=sys.stderr)
        if banned:
            found_by = "a name is found only with the ABUSE_SECRET of the gate"
            print(
                f"hint: `lockgate gate bans` lists {format_count(len(banned), 'banned client')}; {found_by}",
                file=sys.stderr,
            )
        return Exit.FLAGGED
    journal = assemble.journal_from_settings(found)
    if journal is not None:
        # Recorded before it is done: a ban must never vanish without a record of who lifted it.
        digest = sha256(keys[0].encode("ascii")).hexdigest()
        who_asks = f"lockgate-gate-bans:uid-{os.getuid()}" if hasattr(os, "getuid") else "lockgate-gate-bans"
        record_assessment(journal, digest, "unclear", f"ban-lifted:{keys[0][:12]}", reason="person", by=who_asks)
    kept.lift(keys[0])
    print(f"lifted: {keys[0][:12]}; gates hear of it within a second or two")
    return Exit.CLEAR


class _BanStores:
    """The stores of bans that the settings name: a file, a shared store, or both."""

    def __init__(self, settings: AbuseSettings) -> None:
        self._store: ValkeyStrikes | None = wiring.shared_store_from_settings(settings)
        # The file must exist: a misspelt name would look like an empty list of bans.
        self._bans: SqliteBans | None = wiring.ban_file_from_settings(settings, make=False)

    def list_bans(self) -> dict[str, SharedRecord]:
        found = asyncio.run(_await_store(self._store, self._store.bans())) if self._store is not None else {}
        number, more = 0, self._bans is not None
        while more and self._bans is not None:
            page, number, more = self._bans.since(number, time())
            for subject, known in page:
                if known != LIFTED:
                    before = found.get(subject.key, SharedRecord())
                    locked_s = max(known.locked_s, before.locked_s)
                    found[subject.key] = SharedRecord((), locked_s, max(known.quarantined_s, before.quarantined_s))
        return found

    def lift(self, key: str) -> None:
        if self._store is not None:
            asyncio.run(_await_store(self._store, self._store.lift(key)))
        if self._bans is not None:
            self._bans.lift(key, time())


async def _await_store(store: ValkeyStrikes, asked: Awaitable[T]) -> T:
    try:
        return await asked
    except Exception as error:  # noqa: BLE001 - the store's client may raise anything; its text may hold the password
        why = f"the shared store does not answer: {type(error).__name__}"
        raise LockgateError(why, hint="ABUSE_STORE says where it is") from None
    finally:
        await store.close()


def _matching_keys(who: str, settings: AbuseSettings, banned: dict[str, SharedRecord]) -> list[str]:
    """Return the key of the banned client that was named by its hash or its principal."""
    if not who:
        raise LockgateError("--lift needs a client", hint="give a principal, or a hash that `lockgate gate bans` lists")
    if is_incident_id(who):
        raise LockgateError(
            "an incident says what was blocked, and not who was banned",
            hint=f"`lockgate audit show {who}` has the client as its subject: lift that",
        )
    named = Identity.from_settings(settings).subjects({"state": {"principal": who}})[0].key
    found = [named] if named in banned else []
    if _HASH_PREFIX.fullmatch(who):
        found += [key for key in banned if key.startswith(who)]
    if len(found) > 1:
        raise LockgateError(f"{quoted(who)} could be several", hint="type more of it")
    return found


def _print_bans(banned: dict[str, SharedRecord]) -> Exit:
    if not banned:
        print("no client is banned")
    for key, known in sorted(banned.items(), key=lambda each: -max(each[1][1:])):
        mode = "full_quarantine" if known.quarantined_s > 0 else "execute_locked"
        left_s = known.quarantined_s or known.locked_s
        print(f"{key[:12]}  {mode:<15}  {left_s / 60:5.1f} min left")
    return Exit.CLEAR
