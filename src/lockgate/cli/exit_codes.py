"""How the command ends: one meaning per code, the same for every subcommand."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    CLEAR = 0  # every call may continue; the request is safe; nothing was found; the log is sound
    FLAGGED = 1  # some call must not run as it is; the request is not known to be safe; something was found or broken
    INVALID = 2  # input, configuration or options that cannot be understood, output not written: nothing follows
    HELD = 3  # `lockgate reconcile --fail-on-held`: a call was held for a person, and has not run
    BROKEN = 70  # a bug in lockgate
    INTERRUPTED = 130  # Ctrl-C, as shells count it
    UNREAD = 141  # the reader of the output closed the pipe: a ruling that was not read is not a pass
