"""`lockgate gate bans`: list locked and quarantined clients, and lift a ban before it ends.

Bans are stored under keyed hashes of the clients. The list shows these hashes; the gate's log has the same ones as
`client=`. With ABUSE_SECRET, a ban can also be found by the principal's name.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from typing import TYPE_CHECKING

from lockgate import assemble
from lockgate.abuse_gate.ban_stores import ban_state, ban_stores_from_settings
from lockgate.abuse_gate.identity import Identity
from lockgate.cli.exit_codes import Exit
from lockgate.cli.terminal import format_count
from lockgate.core.errors import InvalidConfig, LockgateError, quoted
from lockgate.core.requests.strikes import is_incident_id
from lockgate.settings.abuse_gate import abuse_settings_from_env

if TYPE_CHECKING:
    from lockgate.core.requests.strikes import SharedRecord
    from lockgate.settings.abuse_gate import AbuseSettings

_HASH_PREFIX = re.compile("[0-9a-f]{12,32}")


def run(args: argparse.Namespace) -> Exit:
    if args.envoy or args.litellm or args.upstream is not None:
        raise LockgateError("`bans` serves no requests", hint="leave --upstream, --envoy and --litellm out")
    found = assemble.settings_from_environment(args.config)
    settings = abuse_settings_from_env(table=found.abuse_gate)
    kept = ban_stores_from_settings(settings)
    if kept is None:
        raise InvalidConfig(
            "the gate keeps its bans in its own memory only, where this command cannot read them",
            hint="set ABUSE_BANS_FILE, or ABUSE_STORE; without them a restart of the gate lifts every ban",
        )
    if args.lift is None:
        return _print_bans(kept.list_bans())
    who = sys.stdin.readline().strip() if args.lift == "-" else args.lift
    banned = kept.list_bans()
    keys = _matching_keys(who, args.tenant, settings, banned)
    if not keys:
        print(f"lockgate: {quoted(who)} is not banned", file=sys.stderr)
        if banned:
            found_by = "a name is found only with the ABUSE_SECRET of the gate"
            print(
                f"hint: `lockgate gate bans` lists {format_count(len(banned), 'banned client')}; {found_by}",
                file=sys.stderr,
            )
        return Exit.FLAGGED
    who_asks = f"lockgate-gate-bans:uid-{os.getuid()}" if hasattr(os, "getuid") else "lockgate-gate-bans"
    kept.lift(keys[0], assemble.journal_from_settings(found), by=who_asks)
    print(f"lifted: {keys[0][:12]}; gates hear of it within a second or two")
    return Exit.CLEAR


def _matching_keys(who: str, tenant: str, settings: AbuseSettings, banned: dict[str, SharedRecord]) -> list[str]:
    """Return the key of the banned client that was named by its hash, its principal or its address."""
    if not who:
        raise LockgateError("--lift needs a client", hint="give a principal, or a hash that `lockgate gate bans` lists")
    if is_incident_id(who):
        raise LockgateError(
            "an incident says what was blocked, and not who was banned",
            hint=f"`lockgate audit show {who}` has the client as its subject: lift that",
        )
    identity = Identity.from_settings(settings)
    by_address = identity.anonymous_subject(who, tenant)
    named = {identity.subjects({"state": {"principal": who}}, tenant)[0], by_address} - {None}
    found = [subject.key for subject in named if subject is not None and subject.key in banned]
    if _HASH_PREFIX.fullmatch(who):
        found += [key for key in banned if key.startswith(who)]
    if len(found) > 1:
        raise LockgateError(f"{quoted(who)} could be several", hint="type more of it")
    return found


def _print_bans(banned: dict[str, SharedRecord]) -> Exit:
    if not banned:
        print("no client is banned")
    for key, known in sorted(banned.items(), key=lambda each: -max(each[1][1:])):
        mode, left_s = ban_state(known)
        print(f"{key[:12]}  {mode:<15}  {left_s / 60:5.1f} min left")
    return Exit.CLEAR
