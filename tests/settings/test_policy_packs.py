"""The packs that come along, and the tests that a policy file may hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from lockgate.core.errors import InvalidConfig
from lockgate.core.vocabulary import Action
from lockgate.settings.config import load_settings
from lockgate.settings.policy_packs import list_packs, pack_path, read_tests


def test_every_pack_says_what_it_is_for_and_has_flows_and_tests(tmp_path: Path) -> None:
    assert set(list_packs()) == {"coding", "mail-assistant", "support", "finance", "read-only-research"}
    for name, said in list_packs().items():
        assert said.startswith("For ")
        policy = load_settings(explicit=pack_path(name), cwd=tmp_path, environ={}, home=tmp_path).policy
        assert policy.flows
        tests = read_tests(pack_path(name))
        # Both sides: something is held, and something ordinary goes on.
        assert {test.expect for test in tests} == {Action.PAUSE, Action.CONTINUE}, name
    with pytest.raises(InvalidConfig, match="no pack is called"):
        pack_path("../config")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("test = 3", "must be written as"),
        ('[[test]]\nexpect = "PAUSE"', "needs `call`"),
        ('[[test]]\ncall = "x"', "`expect` must be"),
        ('[[test]]\ncall = "x"\nexpect = "deny"', "`expect` must be"),
        ('[[test]]\ncall = "x"\nexpect = "PAUSE"\nread = [{ source = "web:x" }]', "needs a `source` and a `text`"),
        ('[[test]]\ncall = "x"\nexpect = "PAUSE"\nwhy = "y"', "unknown key"),
    ],
)
def test_a_test_that_means_nothing_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "policy.toml").write_text(text)
    with pytest.raises(InvalidConfig, match=said):
        read_tests(tmp_path / "policy.toml")
    with pytest.raises(InvalidConfig, match="no such file"):
        read_tests(tmp_path / "nowhere.toml")
