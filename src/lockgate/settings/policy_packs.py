"""Flow rules that Lockgate brings along, one file for each kind of agent, and the expected rulings in a policy file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from lockgate.core.errors import InvalidConfig, quoted
from lockgate.core.vocabulary import Action
from lockgate.settings.files import read_toml_file

TEST = "test"
_FOLDER = Path(__file__).with_name("packs")
_KEYS = frozenset({"name", "goal", "read", "call", "arguments", "expect", "finding"})


class PolicyTest(NamedTuple):
    """One `[[test]]` of a policy file: what was read, the call, and the ruling that is expected."""

    name: str
    goal: str
    read: tuple[tuple[str, str], ...]
    call: str
    arguments: dict[str, object]
    expect: Action
    finding: str


def list_packs() -> dict[str, str]:
    """Return the packs by name, each with the sentence that says what it is for."""
    return {path.stem: _summary(path) for path in sorted(_FOLDER.glob("*.toml"))}


def pack_path(name: str) -> Path:
    """Return the file of a pack; raise InvalidConfig for a name that no pack has."""
    if name not in list_packs():
        raise InvalidConfig(f"no pack is called {quoted(name)}", hint=f"there are: {', '.join(list_packs())}")
    return _FOLDER / f"{name}.toml"


def pack_rows(name: str) -> str:
    """Return the rows of a pack as a configuration file takes them, without the tests, which follow them."""
    return pack_path(name).read_text(encoding="utf-8").partition("[[test]]")[0]


def _summary(path: Path) -> str:
    return path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


def read_tests(path: Path) -> tuple[PolicyTest, ...]:
    """Return the tests in a policy file; raise InvalidConfig that says which one is wrong."""
    file = read_toml_file(path, from_project=False)
    if file is None:
        raise InvalidConfig(f"{path}: no such file", hint="name a file with [[flow]] and [[test]] rows")
    rows = file.tables.get(TEST, [])
    if not isinstance(rows, list):
        raise file.error(TEST, " must be written as [[test]]")
    try:
        return tuple(_parse_test(row, number) for number, row in enumerate(rows, 1))
    except InvalidConfig as error:
        raise file.error(TEST, f": {error.message}", hint=error.hint) from None


def _parse_test(row: object, number: int) -> PolicyTest:
    if not isinstance(row, Mapping):
        raise InvalidConfig(f"test {number} is no table")
    name = str(row.get("name", f"test {number}"))
    unknown = sorted(set(row) - _KEYS)
    if unknown:
        raise InvalidConfig(f"test {quoted(name)}: unknown key {quoted(unknown[0])}", hint=f"known: {sorted(_KEYS)}")
    call, arguments, expect = row.get("call"), row.get("arguments", {}), row.get("expect")
    if not isinstance(call, str) or not isinstance(arguments, dict):
        raise InvalidConfig(f"test {quoted(name)} needs `call`, the name of a tool, and `arguments`, a table")
    if expect not in {action.value for action in Action}:
        raise InvalidConfig(f"test {quoted(name)}: `expect` must be CONTINUE, REORIENT or PAUSE")
    return PolicyTest(
        name,
        str(row.get("goal", "")),
        tuple(_parse_block(each, name) for each in row.get("read", [])),
        call,
        arguments,
        Action(str(expect)),
        str(row.get("finding", "")),
    )


def _parse_block(row: object, name: str) -> tuple[str, str]:
    if not isinstance(row, Mapping) or not all(isinstance(row.get(key), str) for key in ("source", "text")):
        raise InvalidConfig(f"test {quoted(name)}: each of `read` needs a `source` and a `text`")
    return row["source"], row["text"]
