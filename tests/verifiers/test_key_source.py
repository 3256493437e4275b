from __future__ import annotations

import pytest
from failure_counts import count_failures

from lockgate.verifiers.key_source import is_instant, is_usable_key, key_or_blank


class Source:
    instant: object = False

    def __init__(self, said: str | BaseException) -> None:
        self.said = said

    def key(self, tenant: str) -> str:
        if isinstance(self.said, BaseException):
            raise self.said
        return f"{self.said}{tenant}"


def test_the_key_of_the_tenant_is_returned() -> None:
    assert key_or_blank(Source("sk-"), "a") == "sk-a"


@pytest.mark.parametrize("error", [KeyError("sk-secret"), SystemExit(1), TimeoutError()])
def test_a_source_that_raises_gives_a_blank_and_is_counted(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    before = count_failures("key-source")
    assert not is_usable_key(key_or_blank(Source(error), ""), needed=False)
    assert count_failures("key-source") == before + 1
    assert "sk-secret" not in caplog.text


def test_ctrl_c_in_the_main_thread_passes() -> None:
    with pytest.raises(KeyboardInterrupt):
        key_or_blank(Source(KeyboardInterrupt()), "")


@pytest.mark.parametrize(
    ("key", "needed", "usable"),
    [
        ("sk-1", True, True),
        ("", True, False),
        ("", False, True),
        (" ", False, False),
        ("a\nb", False, False),
        (7, False, False),
    ],
)
def test_only_a_key_that_a_header_can_carry_is_usable(key: object, *, needed: bool, usable: bool) -> None:
    assert is_usable_key(key, needed=needed) is usable


@pytest.mark.parametrize(("instant", "is_it"), [(True, True), (False, False), (1, False), ("yes", False)])
def test_only_true_is_instant(instant: object, *, is_it: bool) -> None:
    source = Source("")
    source.instant = instant
    assert is_instant(source) is is_it
