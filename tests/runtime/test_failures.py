from __future__ import annotations

import logging

import pytest
from failure_counts import count_failures

from lockgate.runtime import failures
from lockgate.runtime.failures import error_type, report_failure


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "_counts", failures.Counter())
    monkeypatch.setattr(failures, "_logged", {})


def test_errors_are_counted_by_edge() -> None:
    report_failure("store", OSError("no space"))
    report_failure("store", ValueError("x"))
    report_failure("provider", OSError("down"))
    assert count_failures("store") == 2
    assert count_failures("provider") == 1
    assert count_failures("nowhere") == 0


def test_the_log_holds_the_type_and_never_the_message(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        report_failure("provider", ValueError("sk-secret"))
    (record,) = caplog.records
    assert record.getMessage() == "failure: edge=provider error=ValueError count=1"
    assert record.name == "lockgate.failures"
    assert "sk-secret" not in caplog.text


def test_a_storm_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(failures, "monotonic", lambda: now)
    for _ in range(50):
        report_failure("store", OSError())
    assert len(caplog.records) == 1
    now += failures.LOG_EVERY_S
    report_failure("store", OSError())
    assert [record.getMessage().rpartition("=")[2] for record in caplog.records] == ["1", "50"]
    assert count_failures("store") == 51


def test_a_type_with_an_odd_name_is_counted_as_other() -> None:
    odd = type("bad\nname", (Exception,), {})
    assert error_type(odd()) == "other"
    assert error_type(KeyError("x")) == "KeyError"


def test_foreign_types_cannot_fill_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "MAX_KINDS", 10)
    for number in range(100):
        report_failure("plugin", type(f"Error{number}", (Exception,), {})())
    assert len(failures._counts) <= 11
    assert sum(failures._counts.values()) == 100


def test_a_logging_handler_that_raises_is_not_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(failures._log, "warning", refuse)
    report_failure("store", OSError())
    assert count_failures("store") == 1
