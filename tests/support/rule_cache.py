"""Compiled rules for processes that tests start: they find them in the cache, sealed with a key they have."""

from __future__ import annotations

import time
from functools import cache
from hashlib import sha256
from pathlib import Path

import hyperscan

from lockgate.core.text import scanner as scanner_module
from lockgate.core.text.scanner import Scanner
from lockgate.runtime.sealed_cache import KEY_NAME, SealedCache

_KEY = b"known to every test, 32 bytes it"


def keep_key(state_home: Path) -> Path:
    """Put the key of all tests into a folder for XDG_STATE_HOME; return Lockgate's folder in it."""
    folder = state_home / "lockgate"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = folder / KEY_NAME
    key.touch(mode=0o600)
    key.write_bytes(_KEY)
    return folder


def keep_rules(scanner: Scanner, cache_home: Path, state_home: Path) -> None:
    """Keep compiled rules in a folder for XDG_CACHE_HOME; every process with the key of all tests can load them."""
    kept = SealedCache(cache_home / "lockgate", keep_key(state_home))
    keep_databases(scanner, kept)
    keep_databases(plain_scanner(), kept)


def keep_databases(scanner: Scanner, kept: SealedCache) -> None:
    for database in (scanner._main, scanner._beyond, scanner._cues, scanner._own):
        kept.write(database.cache_name, bytes(hyperscan.dumpb(database.make_ready())))


@cache
def plain_scanner() -> Scanner:
    """Return what requests are read with: no rules for agents."""
    return Scanner(())


# Smaller sets are compiled in no time; the rules have one of four that takes seconds.
_MANY = 4
_KEEP_S = 14 * 24 * 3600


def share_compiled_patterns(kept: SealedCache) -> None:
    """Compile each large set of patterns once for all test processes, whichever scanner needs it."""
    compile_patterns = scanner_module._compile

    def compile_once(listed: scanner_module.NumberedPatterns) -> hyperscan.Database:
        if len(listed) < _MANY:
            return compile_patterns(listed)
        name = "patterns-" + sha256(repr((hyperscan.__version__, sorted(listed.items()))).encode()).hexdigest()
        if (data := kept.read(name)) is not None:
            return hyperscan.loadb(data, hyperscan.HS_MODE_BLOCK)
        database = compile_patterns(listed)
        kept.write(name, bytes(hyperscan.dumpb(database)))
        return database

    scanner_module._compile = compile_once


def drop_old_patterns(folder: Path) -> None:
    """Remove what older rules were compiled to."""
    for file in folder.glob("*-*"):
        if time.time() - file.stat().st_mtime > _KEEP_S:
            file.unlink(missing_ok=True)
