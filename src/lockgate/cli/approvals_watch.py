"""`lockgate approvals watch`: show each call as soon as it waits, and answer it at once.

In a terminal each new call is shown whole and asked about; Enter leaves it waiting. Elsewhere, and with --json, each
change is one line: a call that waits, and later how it ended.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from time import sleep, time
from typing import TYPE_CHECKING

from lockgate.cli.exit_codes import Exit
from lockgate.core.ruling.approvals import OPEN_STATES, ApprovalState

if TYPE_CHECKING:
    from lockgate.core.ruling.approvals import Approval
    from lockgate.gate.approvals_sqlite import SqliteApprovals

# How often the store is looked at: a person notices no less, and the disk no more.
_EVERY_S = 1.0


def watch(
    store: SqliteApprovals,
    args: argparse.Namespace,
    *,
    tell: Callable[[Approval], None],
    ask: Callable[[Approval], None],
    wait: Callable[[float], None] = sleep,
) -> Exit:
    """Tell of every change until Ctrl-C, and in a terminal ask about each call that waits."""
    asks = not args.json and sys.stdin.isatty() and sys.stdout.isatty()
    if not args.json:
        print("waiting for calls that need a person; Ctrl-C ends this", flush=True)
    for approval in changes(store, wait):
        if asks and approval.state is ApprovalState.WAITING:
            ask(approval)
        else:
            tell(approval)
    return Exit.CLEAR


def changes(store: SqliteApprovals, wait: Callable[[float], None]) -> Iterator[Approval]:
    """Yield each question when it is first seen open, and again when it has ended or was answered."""
    seen: dict[str, ApprovalState] = {}
    first = True
    while True:
        kept = store.every(time())
        for each in kept:
            id = each.pending.id
            # What had ended before this began is history: `list --ended` shows it.
            if seen.get(id) is not each.state and not (first and each.state not in OPEN_STATES):
                yield each
            seen[id] = each.state
        seen = {each.pending.id: seen[each.pending.id] for each in kept}
        first = False
        wait(_EVERY_S)
