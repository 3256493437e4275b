"""Finding and reading the files that settings come from.

A file that decides how calls are judged, or that holds a key, is refused when another user can write or replace it: an
agent that can write its own policy has none.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from lockgate.core.errors import InvalidConfig, InvalidPattern, quoted
from lockgate.runtime.private_files import writable_by_others
from lockgate.settings.keys import Row, toml_type
from lockgate.settings.toml_lines import MAX_KEY_PARTS, line_of_key, overlong_key_line

MAX_FILE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class TomlFile:
    """One file with its tables; its text is kept to find the lines of errors."""

    path: Path
    text: str
    # Where our tables are: () in a file of our own, ("tool", "lockgate") in a pyproject.toml.
    root: tuple[str, ...]
    tables: Mapping[str, object]

    def error(self, key: str | tuple[str, ...], message: str, *, hint: str = "", item: int = 0) -> InvalidConfig:
        """Return an error at the line of this key, or of this item of its array; the message goes on after the key."""
        path = self.root + (tuple(key.split(".")) if isinstance(key, str) else key)
        line, name = line_of_key(self.text, path, item), quoted(".".join(path), 120)
        return InvalidConfig(f"{printable_path(self.path)}{f':{line}' if line else ''}: {name}{message}", hint=hint)

    @contextmanager
    def locate_errors(self, row: Row, *, item: int = 0) -> Iterator[None]:
        """Raise what the core says about a value again, at the value's line."""
        try:
            yield
        except (InvalidConfig, InvalidPattern) as error:
            raise self.error(row.key, f": {error.message}", hint=error.hint, item=item) from None


def read_toml_file(path: Path, *, from_project: bool) -> TomlFile | None:
    """Return the file with its tables, or None if there is none; raise InvalidConfig for one that cannot be read.

    A file that cannot be read is an error because it may be stricter than the others. A project's file may belong to
    any user: it can only tighten the settings.
    """
    data = _read_bytes(path, from_project=from_project)
    root = ("tool", "lockgate") if path.name == "pyproject.toml" else ()
    # Most projects have a pyproject.toml without a word about us; it must not matter if an editor has just broken it.
    if data is None or (root and from_project and b"lockgate" not in data):
        return None
    text = _decode(path, data)
    return _with_our_tables(TomlFile(path, text, root, _parse_toml(path, text)), required=not from_project)


def read_operator_text(path: Path) -> str | None:
    """Return the text of an operator's file that is no TOML, or None if there is none."""
    data = _read_bytes(path, from_project=False)
    return None if data is None else _decode(path, data)


def _decode(path: Path, data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidConfig(f"{printable_path(path)}:{line}: not UTF-8", hint="save the file as UTF-8") from None


def _read_bytes(path: Path, *, from_project: bool) -> bytes | None:
    where = printable_path(path)

    def check(status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise InvalidConfig(
                f"{where}: is {irregular(status)}", hint="give a TOML file; an empty one changes nothing"
            )
        if not from_project and os.name != "nt":
            _refuse_writable(path, status)

    try:
        data = read_checked(path, MAX_FILE_BYTES, check)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise InvalidConfig(f"{where}: cannot be read: {(error.strerror or type(error).__name__).lower()}") from None
    if len(data) > MAX_FILE_BYTES:
        raise InvalidConfig(f"{where}: larger than {MAX_FILE_BYTES:,} bytes", hint="is it the right file?")
    return data


def _refuse_writable(path: Path, status: os.stat_result) -> None:
    why = writable_by_others(status.st_mode, status.st_uid, os.geteuid())
    hint = "use a copy of your own, or one of root's" if "belongs" in why else f"chmod go-w {printable_path(path)}"
    if not why and (why := replaceable_in_folder(path)):
        hint = f"chmod o-w {printable_path(os.path.dirname(os.path.realpath(path)))}"
    if why:
        raise InvalidConfig(
            f"{printable_path(path)}: {why}: a user who can write the policy can switch it off", hint=hint
        )


def _parse_toml(path: Path, text: str) -> dict[str, object]:
    import tomllib

    where = printable_path(path)
    if line := overlong_key_line(text):
        raise InvalidConfig(
            f"{where}:{line}: a key of more than {MAX_KEY_PARTS} parts", hint="no key of ours is so deep"
        )
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        said, _, place = str(error).rpartition(" (at ")
        number = re.match(r"line (\d+)", place)
        line = int(number[1]) if number else text.count("\n") + 1
        raise InvalidConfig(f"{where}:{line}: not valid TOML: {printable_path(said[:1].lower() + said[1:])}") from None
    except (RecursionError, ValueError):
        # tomllib lets these through: too many nested brackets, a number of more digits than Python reads.
        raise InvalidConfig(f"{where}: not valid TOML: nested too deeply, or a number too long") from None


def _with_our_tables(file: TomlFile, *, required: bool) -> TomlFile | None:
    """Return the file with only the tables that are ours, or None if it has none."""
    tables = file.tables
    for depth, name in enumerate(file.root):
        if name not in tables:
            if required:
                raise InvalidConfig(
                    f"{printable_path(file.path)}: has no [{'.'.join(file.root)}] table", hint="name another file"
                )
            return None
        inner = tables[name]
        if not isinstance(inner, dict):
            raise replace(file, root=()).error(file.root[: depth + 1], f" must be a table, not {toml_type(inner)}")
        tables = inner
    return replace(file, tables=tables)


def stamp_files(paths: Iterable[Path]) -> tuple[tuple[int, ...] | None, ...]:
    """Return what changes when the content or the rights of one of these files do; None for one that is not there."""
    return tuple(_stamp(path) for path in paths)


def _stamp(path: Path) -> tuple[int, ...] | None:
    with suppress(OSError, ValueError):
        found = os.stat(path)
        times = (found.st_mtime_ns, found.st_ctime_ns)
        return (found.st_dev, found.st_ino, found.st_size, *times, found.st_mode, found.st_uid)
    return None


# --- any file that security rests on


def read_checked(path: Path, max_bytes: int, check: Callable[[os.stat_result], None]) -> bytes:
    """Return up to one byte more than `max_bytes` of a file, after `check` accepted the status of the open file."""
    # Without O_NONBLOCK a named pipe in the file's place would hang us until another process writes to it.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        check(os.fstat(handle))
        with os.fdopen(handle, "rb", closefd=False) as stream:
            return stream.read(max_bytes + 1)
    finally:
        os.close(handle)


def read_regular(path: Path, max_bytes: int) -> bytes:
    """Return up to one byte more than `max_bytes` of a regular file; raise OSError for anything else in its place."""

    def refuse_irregular(status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, irregular(status), str(path))

    return read_checked(path, max_bytes, refuse_irregular)


def irregular(status: os.stat_result) -> str:
    """Return what something is that is not a regular file."""
    return "a directory" if stat.S_ISDIR(status.st_mode) else "not a regular file"


def replaceable_in_folder(path: Path) -> str:
    """Return why any user could replace this file, judging by its folder; empty if none could."""
    mode = os.stat(os.path.dirname(os.path.realpath(path))).st_mode
    return "lies in a folder where any user may replace it" if mode & stat.S_IWOTH and not mode & stat.S_ISVTX else ""


def printable_path(text: object) -> str:
    """Return a path, or a parser's message, for an error: without characters that would move a terminal's cursor."""
    return "".join(ch if ch.isprintable() else "\N{REPLACEMENT CHARACTER}" for ch in str(text))


# --- places


def home_folder(environ: Mapping[str, str]) -> Path | None:
    """Return the user's home folder; None under a user id that is not registered and without HOME."""
    for variable in ("HOME", "USERPROFILE"):
        if os.path.isabs(environ.get(variable, "")):
            return Path(environ[variable])
    try:
        from pwd import getpwuid

        return Path(getpwuid(os.getuid()).pw_dir)
    except (ImportError, KeyError):
        return None


def xdg_folder(environ: Mapping[str, str], variable: str, home: Path | None, default: str) -> Path | None:
    """Return our folder below one of the XDG base directories, or None if there is no home."""
    # The XDG specification: a relative path is invalid and must be ignored, an empty one means unset.
    if os.path.isabs(environ.get(variable, "")):
        return Path(environ[variable]) / "lockgate"
    return home / default / "lockgate" if home is not None else None


def is_same_file(a: Path, b: Path | None) -> bool:
    """Return whether both names lead to one existing file."""
    try:
        return b is not None and os.path.samefile(a, b)
    except OSError:
        return False
