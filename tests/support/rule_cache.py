"""Compiled rules for processes that tests start: they find them in the cache, sealed with a key they have."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from lockgate import assemble
from lockgate.core.text.rules import RULES
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
    kept.write(assemble.rule_cache_name(RULES), scanner.dump())
    kept.write(assemble.rule_cache_name(()), plain_scanner().dump())


@cache
def plain_scanner() -> Scanner:
    """Return what requests are read with: no rules for agents."""
    return Scanner(())
