"""Compiled rules come from the sealed cache, then from the package, and else they are compiled."""

from __future__ import annotations

import zlib
from pathlib import Path

import hyperscan
import pytest

from lockgate.core.text.scanner import PatternDatabase
from lockgate.runtime.rule_cache import COMPILING_LOG, RuleCache
from lockgate.runtime.sealed_cache import SealedCache


@pytest.fixture
def cache(tmp_path: Path) -> RuleCache:
    (tmp_path / "shipped").mkdir()
    return RuleCache(SealedCache(tmp_path / "cache", tmp_path / "state"), tmp_path / "shipped")


def test_the_users_own_copy_counts_before_the_shipped_one(cache: RuleCache) -> None:
    (cache.shipped / "a").write_bytes(zlib.compress(b"shipped"))
    assert cache.read("a") == b"shipped"
    cache.write("a", b"kept")
    assert cache.read("a") == b"kept"


def test_what_is_neither_kept_nor_shipped_is_compiled_and_that_is_logged(
    cache: RuleCache, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", COMPILING_LOG.name):
        cache.write("a", b"1")
        assert cache.read("a") == b"1"
        assert caplog.messages == []
        assert cache.read("b") is None
        assert RuleCache(None, cache.shipped).read("a") is None
    assert len(caplog.messages) == 2
    assert caplog.messages[0].startswith("compiling the rules")


def test_a_user_without_a_home_keeps_nothing(tmp_path: Path) -> None:
    RuleCache(None, tmp_path).write("a", b"1")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("shipped", ["cut", "not packed", "of other patterns"])
def test_a_shipped_copy_that_cannot_be_used_is_compiled_once_and_kept(cache: RuleCache, shipped: str) -> None:
    # As on a processor that the shipped copy was not made for.
    patterns = {0: ("evil", 0)}
    database = PatternDatabase(patterns, cache, [(0, b"evil"), (None, b"fine")])
    other = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    other.compile(expressions=[b"fine"], ids=[0], elements=1, flags=[0])
    content = bytes(hyperscan.dumpb(other))
    files = {"cut": zlib.compress(content)[:100], "not packed": content, "of other patterns": zlib.compress(content)}
    (cache.shipped / database.cache_name).write_bytes(files[shipped])
    assert database.find_in(b"so evil") == [(0, 7)]
    kept = cache.read(database.cache_name)
    assert kept is not None
    assert kept != content
    assert cache.kept is not None
    assert cache.kept.read(database.cache_name) == kept
