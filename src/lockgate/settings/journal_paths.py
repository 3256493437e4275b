"""Where a journal may lie, and the names of the files beside it."""

from __future__ import annotations

import os
import re
from glob import escape
from pathlib import Path
from typing import NamedTuple

from lockgate.core.errors import InvalidConfig, JournalUnavailable, quoted
from lockgate.settings.files import read_regular

POSTGRES = ("postgresql://", "postgres://")

_NO_NAMES = ("", ".", "..")
_MAX_HELD = 1 << 16
# What lies beside a log: its keys, its notes, SQLite's own files, and all of these while they are being made.
_BESIDE_A_LOG = re.compile(r"(?:\.key(?:\.[0-9]+)?|\.policy|\.witnessed|\.new|-wal|-shm|-journal)$", re.IGNORECASE)


def check_database(url: str) -> None:
    """Raise InvalidConfig unless this is the URL of a PostgreSQL database, without a password, or empty."""
    if url and not url.startswith(POSTGRES):
        raise InvalidConfig(
            f"must be postgresql://… or empty, not {quoted(url)}", hint="postgresql://user@host/database"
        )
    check_log_path(url)


def check_log_path(path: str) -> None:
    """Raise InvalidConfig unless this is a file by its absolute path, a database by its URL, or empty."""
    if path.startswith(POSTGRES):
        _refuse_password(path)
    elif path:
        if "\0" in path or not os.path.isabs(path) or os.path.basename(path) in _NO_NAMES:
            raise InvalidConfig(
                f"must be the absolute path of a file, or postgresql://…, not {quoted(path)}",
                hint="e.g. /var/lib/lockgate/journal.db; its key lies beside it and ends in `.key`",
            )
        path_beside_log(Path(path), ".key")
        if os.path.isdir(path):
            raise InvalidConfig(f"must be a file, and {quoted(path)} is a folder", hint="add a name to it: journal.db")


def _refuse_password(url: str) -> None:
    from urllib.parse import parse_qs, urlsplit

    try:
        parts = urlsplit(url)
        named = parse_qs(parts.query, keep_blank_values=True)
        secret = parts.password is not None or any(name.lower().endswith("password") for name in named)
    except ValueError:
        raise InvalidConfig("is no URL", hint="postgresql://user@host/database") from None
    if secret:
        # The URL is not repeated: the message ends up on screens and in logs.
        raise InvalidConfig(
            "must not hold a password", hint="take it out, and set PGPASSWORD or name a file in PGPASSFILE"
        )


def path_beside_log(log: Path, ending: str) -> Path:
    """Return this log's file with this ending: a name that no other log's file has, and no log.

    It is the log's whole name with the ending behind it, except that `journal.db` has `journal.key` and so on.
    Therefore no log may be called `journal`.
    """
    if log.name in _NO_NAMES:
        raise InvalidConfig(f"{quoted(log)} is no name of a file", hint="e.g. /var/lib/lockgate/journal.db")
    if log.name == "journal" or _BESIDE_A_LOG.search(log.name):
        raise InvalidConfig(
            f"must not be a name that files beside a log have, as {quoted(log.name)} is",
            hint="end it in `.db`; the log's key and notes lie beside it under its name with `.key` and so on",
        )
    name = "journal" if log.name == "journal.db" else log.name
    return log.with_name(f"{name}{ending}")


def list_key_files(key: Path) -> list[Path]:
    """Return the existing files of a log's keys, oldest first; the rotated ones end in `.2`, `.3` and so on."""
    later = (path for path in key.parent.glob(f"{escape(key.name)}.*") if path.suffix[1:].isdecimal())
    first = [key] if os.path.lexists(key) else []
    return [*first, *sorted(later, key=lambda path: int(path.suffix[1:]))]


class JournalFiles(NamedTuple):
    """The journal's log, a file or the URL of a database, and the file of its first key.

    Later keys lie beside the first one; their names end in `.2`, `.3` and so on.
    """

    log: Path | str
    key: Path

    @property
    def witnessed(self) -> Path:
        """The file with the newest cosigned head: a log that does not contain this head was rolled back."""
        return self.key.with_suffix(".witnessed")

    @property
    def note(self) -> Path:
        """The file that notes which settings were recorded last."""
        return self.key.with_suffix(".policy")

    @property
    def new_key(self) -> Path:
        """The file of the first key until the log is begun with it."""
        return self.key.with_name(f"{self.key.name}.new")

    def key_files(self) -> list[Path]:
        """Return the existing key files, oldest first."""
        return list_key_files(self.key)

    def next_key(self) -> Path:
        """Return the file for the key of the next rotation."""
        last = self.key_files()[-1:]
        number = int(last[0].suffix[1:]) if last and last[0] != self.key else 1
        return self.key.with_name(f"{self.key.name}.{number + 1}")

    @property
    def shown_log(self) -> str:
        """The log for a message; the URL of a database may name users and machines."""
        return "the database" if isinstance(self.log, str) else quoted(self.log, 200)

    def witnessed_heads(self) -> list[bytes]:
        try:
            return [read_regular(self.witnessed, _MAX_HELD)[:_MAX_HELD]]
        except FileNotFoundError:
            return []
        except OSError as error:
            why = (error.strerror or type(error).__name__).lower()
            raise JournalUnavailable(f"the head in {quoted(self.witnessed, 200)} cannot be read: {why}") from error
