"""Settings to a gate: the only importer of concrete parts, and the owner of the compiled rules on disk."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import hyperscan

from lockgate.config import Settings, discover
from lockgate.core.rules import RULES, Rule
from lockgate.core.scanner import Scanner, check_pattern, cue_expressions, custom_rules, expressions
from lockgate.gate import Gate

_MAGIC = b"lockgate rules 1\n"
_MAX_CACHED = 64 * 1024 * 1024


def settings_from_environment(path: str | None = None) -> Settings:
    """The configuration in force here and now, every file and variable read once."""
    return discover(Path(path) if path is not None else None, check_pattern=check_pattern)


def gate_from_config(path: str | None = None) -> Gate:
    return gate_from_settings(settings_from_environment(path))


def gate_from_settings(settings: Settings) -> Gate:
    rules = (*RULES, *custom_rules(settings.policy.additional_patterns))
    return Gate(settings.policy, scanner=cached_scanner(rules, settings.cache_dir))


def cached_scanner(rules: tuple[Rule, ...], folder: Path | None) -> Scanner:
    """The rules compiled, from the cache where one of ours is there and intact; a cache that fails costs only time.

    Loading takes a fraction of a millisecond and compiling takes seconds, so a command that hosts start for
    every call needs this. Whoever can write the file decides what the rules match: it is read only when it and
    its folder belong to us and nobody else can write them, and only when its digest is right.
    """
    if folder is None:
        return Scanner(rules)
    file = folder / f"rules-{_key(rules)}.bin"
    compiled = _read(file)
    if compiled is not None:
        try:
            return Scanner(rules, compiled=compiled)
        except hyperscan.HyperscanError:
            pass  # made on another processor or damaged in a way its digest does not show: make it anew
    scanner = Scanner(rules)
    _write(file, scanner.dump())
    return scanner


def _key(rules: tuple[Rule, ...]) -> str:
    parts = [
        str(getattr(hyperscan, "__version__", "")),
        *(f"{flags}:{pattern}" for pattern, flags in expressions(rules) + cue_expressions()),
    ]
    return sha256(repr(parts).encode("utf-8", "backslashreplace")).hexdigest()[:32]


def _read(file: Path) -> bytes | None:
    try:
        if not _private(os.lstat(file.parent), folder=True):
            return None
        number = os.open(file, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        with os.fdopen(number, "rb") as opened:
            if not _private(os.fstat(number), folder=False):
                return None
            data = opened.read(_MAX_CACHED)
    except (OSError, ValueError):
        return None
    head = len(_MAGIC) + 32
    body = data[head:]
    return body if data[:head] == _MAGIC + sha256(body).digest() else None


def _write(file: Path, compiled: bytes) -> None:
    temporary = file.with_name(f"{file.name}.{os.getpid()}.new")
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        number = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(number, "wb") as opened:
            opened.write(_MAGIC + sha256(compiled).digest() + compiled)
        os.replace(temporary, file)
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            temporary.unlink(missing_ok=True)


def _private(status: os.stat_result, *, folder: bool) -> bool:
    if folder != stat.S_ISDIR(status.st_mode):
        return False
    if os.name != "posix":
        return True
    return status.st_uid == os.getuid() and not status.st_mode & 0o022
