"""The files that have the system start the service: each is read back by a parser that is not ours."""

from __future__ import annotations

import plistlib
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from lockgate.cli.service_units import (
    MARK,
    TASK_SCHEMA,
    ServiceProcess,
    launchd_agent,
    refuse_odd_words,
    systemd_unit,
    windows_task,
)
from lockgate.core.errors import LockgateError

# Signs that mean something to systemd, to a shell, to XML, and to Windows.
ODD = '/opt/a b/100%/$HOME/"q"/&<x>/back\\slash/é'
PLAIN = ServiceProcess(
    (sys.executable, "-I", "/opt/lockgate/__main__.py", "serve"), {"HOME": "/home/ana"}, Path("/home/ana/s"), "ana", 501
)
STRANGE = PLAIN._replace(
    words=(sys.executable, "-I", f"{ODD}/__main__.py", "serve"), variables={"HOME": ODD}, state_dir=Path(ODD)
)


def systemd_value(text: str, key: str) -> str:
    (found,) = re.findall(rf"^{key}=(.*)$", text, re.MULTILINE)
    return str(found)


def systemd_words(value: str) -> list[str]:
    """Words as systemd reads them: quotes and backslashes as a shell does, then its own doubled signs."""
    return [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(value)]


def test_the_unit_says_what_runs_and_with_what() -> None:
    unit = systemd_unit(STRANGE, Path("/home/ana/.config"))
    text = unit.data.decode()
    assert unit.path == Path("/home/ana/.config/systemd/user/lockgate.service")
    assert text.startswith(f"# {MARK}\n")
    assert systemd_words(systemd_value(text, "ExecStart")) == list(STRANGE.words)
    assert systemd_words(systemd_value(text, "Environment")) == [f"HOME={ODD}"]
    unset = systemd_value(text, "UnsetEnvironment").split()
    assert {"LD_PRELOAD", "LOCKGATE_CONFIG", "LOCKGATE_TOKEN", "XDG_STATE_HOME", "XDG_CONFIG_HOME"} <= set(unset)
    assert "HOME" not in unset
    assert systemd_value(text, "WorkingDirectory") == "/"
    assert systemd_value(text, "UMask") == "0077"
    # A unit that names a user is for the system's manager, which would start it as that user.
    assert "User=" not in text
    assert all(command[:2] == ("systemctl", "--user") for command in (*unit.start, *unit.stop, *unit.forget))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
@pytest.mark.parametrize("process", [PLAIN, STRANGE._replace(words=(sys.executable, "-I", ODD, "serve"))])
def test_systemd_itself_finds_nothing_wrong(tmp_path: Path, process: ServiceProcess) -> None:
    path = tmp_path / "lockgate.service"
    path.write_bytes(systemd_unit(process, tmp_path).data)
    ended = subprocess.run(
        ["systemd-analyze", "verify", str(path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert [line for line in ended.stderr.splitlines() if "lockgate.service" in line] == []


@pytest.mark.parametrize("process", [PLAIN, STRANGE])
def test_the_agent_is_a_property_list(process: ServiceProcess) -> None:
    unit = launchd_agent(process, Path("/Users/ana"))
    said = plistlib.loads(unit.data)
    assert unit.path == Path("/Users/ana/Library/LaunchAgents/lockgate.plist")
    assert said["Label"] == unit.path.stem
    assert said["ProgramArguments"] == list(process.words)
    assert said["EnvironmentVariables"] == dict(process.variables)
    assert (said["RunAtLoad"], said["KeepAlive"]) == (True, {"SuccessfulExit": False})
    assert (said["WorkingDirectory"], said["Umask"]) == ("/", 0o077)
    assert "UserName" not in said
    assert MARK.encode() in unit.data
    assert unit.start == (("launchctl", "bootstrap", "gui/501", str(unit.path)),)


# Of the task schema: what each element that we write may hold.
TASK = {
    "Task": {"RegistrationInfo", "Triggers", "Principals", "Settings", "Actions"},
    "RegistrationInfo": {"Description"},
    "Triggers": {"LogonTrigger"},
    "LogonTrigger": {"Enabled", "UserId"},
    "Principals": {"Principal"},
    "Principal": {"UserId", "LogonType", "RunLevel"},
    "Settings": {
        "MultipleInstancesPolicy", "DisallowStartIfOnBatteries", "StopIfGoingOnBatteries", "ExecutionTimeLimit",
        "Hidden", "RestartOnFailure",
    },
    "RestartOnFailure": {"Interval", "Count"},
    "Actions": {"Exec"},
    "Exec": {"Command", "Arguments", "WorkingDirectory"},
}  # fmt: skip


@pytest.mark.parametrize("process", [PLAIN, STRANGE])
def test_the_task_has_the_elements_of_the_schema(process: ServiceProcess) -> None:
    unit = windows_task(process)
    assert unit.data.startswith(b"\xff\xfe")
    root = ElementTree.fromstring(unit.data)
    names = {}
    for element in root.iter():
        assert element.tag.startswith(f"{{{TASK_SCHEMA}}}")
        name = element.tag.partition("}")[2]
        held = {child.tag.partition("}")[2] for child in element}
        assert held == TASK.get(name, set())
        names[name] = element.text
    assert (names["LogonType"], names["RunLevel"]) == ("InteractiveToken", "LeastPrivilege")
    assert names["Command"] == process.words[0]
    assert names["Arguments"] == subprocess.list2cmdline(process.words[1:])
    assert MARK in str(names["Description"])
    assert root.attrib == {"version": "1.2"}


def test_a_line_end_cannot_write_a_second_line_into_a_unit() -> None:
    refuse_odd_words(STRANGE)
    for odd in (
        PLAIN._replace(variables={"HOME": "/home/ana\nExecStartPre=/bin/sh"}),
        PLAIN._replace(words=("/opt/a\x00b",)),
        PLAIN._replace(user="ana\u202e"),
    ):
        with pytest.raises(LockgateError, match="cannot stand in a unit"):
            refuse_odd_words(odd)
