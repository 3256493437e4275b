from __future__ import annotations

import pytest

from lockgate.runtime.loopback import is_loopback


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.9.9.9", "::1", "[::1]"])
def test_this_machine_is_known_by_its_spelling(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["localhost.example.com", "0.0.0.0", "10.0.0.1", "[::]", "example.com", "", "127.1"])
def test_any_other_spelling_is_another_machine(host: str) -> None:
    assert not is_loopback(host)
