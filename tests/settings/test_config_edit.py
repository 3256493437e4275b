"""Changes to a configuration file touch what they name, and nothing else."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from lockgate.core.errors import InvalidConfig
from lockgate.settings.config import Settings, SettingsSource, SourceRole, load_settings
from lockgate.settings.config_edit import (
    add_pack,
    add_value,
    allow_target,
    installed_packs,
    operator_file,
    read_config,
    remove_pack,
    write_config,
)
from lockgate.settings.policy_packs import list_packs

OWN = '# mine\n[security]\nenforce = false  # for now\n\n[[flow]]\nname = "own"\nfrom = "web:*"\nto = "url"\n'


@pytest.mark.parametrize("before", ["", OWN, OWN.rstrip("\n")])
@pytest.mark.parametrize("name", list_packs())
def test_a_pack_goes_in_and_out_again(before: str, name: str) -> None:
    text = add_pack(before, name)
    assert installed_packs(text) == (name,)
    assert add_pack(text, name) == text
    assert len(tomllib.loads(text)["flow"]) > len(tomllib.loads(before).get("flow", []))
    assert "test" not in tomllib.loads(text)
    assert remove_pack(text, name).rstrip("\n") == before.rstrip("\n")
    assert remove_pack(before, name) == before


def test_two_packs_with_flows_of_one_name_are_not_mixed() -> None:
    with pytest.raises(InvalidConfig, match="already"):
        add_pack(add_pack("", "finance"), "mail-assistant")


def test_a_target_is_added_to_one_flow_alone() -> None:
    text = add_pack(OWN, "mail-assistant")
    once = allow_target(text, "own", "ana@our.example")
    twice = allow_target(once, "own", "docs.example")
    assert tomllib.loads(twice)["flow"][0]["outside"] == ["ana@our.example", "docs.example"]
    assert twice.replace('outside = ["ana@our.example", "docs.example"]\n', "") == text
    assert allow_target(twice, "own", "docs.example") == twice


@pytest.mark.parametrize(
    "text", ["", "[security]\nenforce = true\n", 'flow = [{ name = "own", from = "a:*", to = "url" }]\n']
)
def test_a_flow_that_is_not_written_as_a_table_is_left_to_the_person(text: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        allow_target(text, "own", "x.example")
    assert "by hand" in caught.value.hint


def test_the_file_keeps_its_rights_and_a_broken_text_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "config.toml"
    assert read_config(path) == ""
    write_config(path, OWN)
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o640)
    write_config(path, OWN + "\n")
    assert (read_config(path), path.stat().st_mode & 0o777) == (OWN + "\n", 0o640)
    with pytest.raises(tomllib.TOMLDecodeError):
        write_config(path, "= 3")


def test_changes_go_to_the_operators_own_file_and_never_to_a_projects(tmp_path: Path) -> None:
    named = tmp_path / "mine.toml"
    named.write_text("")
    project = tmp_path / "lockgate.toml"
    project.write_text("[security]\nenforce = true\n")
    around = {"cwd": tmp_path, "home": tmp_path, "system": tmp_path / "system.toml"}
    plain = load_settings(environ={"HOME": str(tmp_path)}, **around)  # type: ignore[arg-type]
    assert operator_file(plain, {"HOME": str(tmp_path)}) == tmp_path / ".config" / "lockgate" / "config.toml"
    explicit = load_settings(explicit=named, environ={"HOME": str(tmp_path)}, **around)  # type: ignore[arg-type]
    assert operator_file(explicit, {}) == named
    shared = Settings(sources=(SettingsSource(SourceRole.EXPLICIT, tmp_path / "pyproject.toml"),))
    with pytest.raises(InvalidConfig, match="project"):
        operator_file(shared, {})


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '[supervision]\nmodel = "auto"\n'),
        ("# mine", '# mine\n\n[supervision]\nmodel = "auto"\n'),
        ("[ supervision ] # ours\nx = 1", '[ supervision ] # ours\nmodel = "auto"\nx = 1'),
        ("[supervision]", '[supervision]\nmodel = "auto"'),
        ("[supervision]\n# last\n[server]\nport = 1\n", '[supervision]\nmodel = "auto"\n# last\n[server]\nport = 1\n'),
        (OWN, f'{OWN}\n[supervision]\nmodel = "auto"\n'),
    ],
)
def test_a_value_is_put_where_its_table_is(before: str, after: str) -> None:
    assert add_value(before, "supervision", "model", "auto") == after


@pytest.mark.parametrize(
    "text",
    [
        '[supervision]\nmodel = "claude-opus"\n',
        "supervision = {}\n",
        "supervision.timeout_seconds = 3\n",
        "supervision = 7\n",
        "[[supervision]]\nx = 1\n",
    ],
)
def test_a_value_that_does_not_fit_leaves_the_file_alone(text: str) -> None:
    with pytest.raises(InvalidConfig, match="cannot be put into the file"):
        add_value(text, "supervision", "model", "auto")
