"""Changes to the operator's own configuration file: packs of flow rules, what a flow lets through, and single values.

The rest of the file stays as it is, to the byte. A change that would say anything else than was asked for is refused.
"""

from __future__ import annotations

import json
import os
import re
import stat
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from lockgate.core.errors import InvalidConfig, quoted
from lockgate.runtime.private_files import replace_file
from lockgate.settings.config import Settings, SourceRole
from lockgate.settings.files import home_folder, xdg_folder
from lockgate.settings.policy_packs import pack_rows
from lockgate.settings.toml_lines import statements

_NAMED = (SourceRole.EXPLICIT, SourceRole.ENV)
_START = "# lockgate pack {name}: `lockgate init --remove --pack {name}` takes it out"
_END = "# end of lockgate pack {name}"
_PACK = re.compile(r"^# lockgate pack ([\w-]+): [^\n]*\n.*?^# end of lockgate pack \1\n?", re.MULTILINE | re.DOTALL)


def operator_file(settings: Settings, environ: Mapping[str, str]) -> Path:
    """Return the file that the operator's changes go to: the one that was named, else the user's own."""
    named = [each.file for role in _NAMED for each in settings.sources if each.role is role and not each.unused]
    folder = xdg_folder(environ, "XDG_CONFIG_HOME", home_folder(environ), ".config")
    path = next((file for file in named if file is not None), None) or (folder and folder / "config.toml")
    if path is None:
        raise InvalidConfig("there is no folder for a configuration file", hint="set HOME or XDG_CONFIG_HOME")
    if path.name == "pyproject.toml":
        raise InvalidConfig(f"{quoted(path)} is a project's file", hint="name a file of your own with --config")
    return path


def read_config(path: Path) -> str:
    """Return the text of a configuration file; empty where there is none."""
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfig(f"{quoted(path)} cannot be read: {type(error).__name__}") from None


def write_config(path: Path, text: str) -> None:
    """Put the text in the file's place at once; its rights stay as they are."""
    tomllib.loads(text)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    place = Path(os.path.realpath(path))
    mode = stat.S_IMODE(place.stat().st_mode) if place.exists() else 0o600
    replace_file(place, text.encode(), exact_mode=mode)


def add_value(text: str, table: str, key: str, value: str) -> str:
    """Return the file with a value that it does not have; raise InvalidConfig where it cannot be put in."""
    parts = [part for _, part, _ in statements(text)]
    at = next((place for place, part in enumerate(parts) if _header(part) == f"[{table}]"), None)
    line = f"{key} = {json.dumps(value)}\n"
    if at is None:
        before = text if not text or text.endswith("\n") else f"{text}\n"
        changed = before + ("\n" if before else "") + f"[{table}]\n{line}"
    else:
        changed = "".join([*parts[: at + 1], line, *parts[at + 1 :]])[:-1]
    wanted = tomllib.loads(text)
    inner = wanted
    with suppress(AttributeError, tomllib.TOMLDecodeError):
        for name in table.split("."):
            inner = inner.setdefault(name, {})
        inner.setdefault(key, value)
        if inner[key] == value and tomllib.loads(changed) == wanted:
            return changed
    raise InvalidConfig(f"`{table}.{key}` cannot be put into the file", hint=f"write {line.strip()} there by hand")


def installed_packs(text: str) -> tuple[str, ...]:
    """Return the packs that a file has, as they were put in."""
    return tuple(found[1] for found in _PACK.finditer(text))


def add_pack(text: str, name: str) -> str:
    """Return the file with a pack at its end; unchanged where it has the pack."""
    rows = pack_rows(name)
    if name in installed_packs(text):
        return text
    taken = _flow_names(text) & _flow_names(rows)
    if taken:
        raise InvalidConfig(
            f"the file has a flow {quoted(min(taken))} already", hint="give yours another name, or leave the pack out"
        )
    before = text if not text or text.endswith("\n") else f"{text}\n"
    gap = "\n" if before else ""
    return f"{before}{gap}{_START.format(name=name)}\n{rows.strip()}\n{_END.format(name=name)}\n"


def remove_pack(text: str, name: str) -> str:
    """Return the file without a pack; unchanged where it has none of this name."""
    for found in _PACK.finditer(text):
        if found[1] == name:
            return f"{text[: found.start()].removesuffix(chr(10))}{text[found.end() :]}"
    return text


def _flow_names(text: str) -> set[str]:
    return {str(row.get("name")) for row in _flows(text)}


def _flows(text: str) -> list[dict[str, object]]:
    rows = tomllib.loads(text).get("flow", [])
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def allow_target(text: str, flow: str, target: str) -> str:
    """Return the file with one more target that a flow lets through; raise InvalidConfig where that cannot be done."""
    parts = [part for _, part, _ in statements(text)]
    wanted = _changed_rows(text, flow, target)
    at = _find_row(parts, flow)
    if at is not None and wanted is not None:
        said = f"outside = {json.dumps(wanted)}\n"
        places = [place for place in _rows_of(parts, at) if _names(parts[place]).keys() == {"outside"}]
        if places:
            # Comments above it belong to the statement.
            comments = parts[places[0]][: parts[places[0]].index("outside")]
            parts[places[0]] = comments + said
        else:
            parts.insert(next(place for place in _rows_of(parts, at) if "name" in _names(parts[place])) + 1, said)
        # The reader of statements has added a line's end.
        changed = "".join(parts)[:-1]
        if _flows(changed) == [
            {**row, "outside": wanted} if row.get("name") == flow else row for row in _flows(text)
        ] and _without_flows(changed) == _without_flows(text):
            return changed
    raise InvalidConfig(
        f"flow {quoted(flow)} is not a [[flow]] of this file that can be changed",
        hint=f"add {json.dumps(target)} to its `outside` by hand",
    )


def _changed_rows(text: str, flow: str, target: str) -> list[str] | None:
    rows = [row for row in _flows(text) if row.get("name") == flow]
    before = rows[0].get("outside", []) if len(rows) == 1 else None
    return list(dict.fromkeys([*map(str, before), target])) if isinstance(before, list) else None


def _without_flows(text: str) -> Mapping[str, object]:
    return {name: value for name, value in tomllib.loads(text).items() if name != "flow"}


def _names(statement: str) -> dict[str, object]:
    return tomllib.loads(statement)


def _rows_of(parts: list[str], header: int) -> list[int]:
    """Return the places of the statements below a header, up to the next one."""
    found = []
    for place in range(header + 1, len(parts)):
        if _header(parts[place]):
            break
        found.append(place)
    return found


def _find_row(parts: list[str], flow: str) -> int | None:
    headers = [place for place, part in enumerate(parts) if _header(part) == "[[flow]]"]
    return next(
        (place for place in headers if any(_names(parts[each]).get("name") == flow for each in _rows_of(parts, place))),
        None,
    )


def _header(statement: str) -> str:
    lines = [line.strip() for line in statement.splitlines() if line.strip() and not line.strip().startswith("#")]
    return re.sub(r"\s", "", lines[0].partition("#")[0]) if lines and lines[0].startswith("[") else ""
