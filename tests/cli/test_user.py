"""The name that answers are recorded under."""

from __future__ import annotations

import os
import pwd

import pytest

from lockgate.cli.user import user_name


def test_variables_cannot_name_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("USER", "LOGNAME", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "mallory")
    assert user_name() == pwd.getpwuid(os.getuid()).pw_name
