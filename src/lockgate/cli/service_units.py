"""What has the system start `lockgate serve` at login: a systemd user unit, a launchd agent, or a Windows task.

Each is a file of this user's own, and starts the service as this user. All say the same: the interpreter and the
package by their absolute paths, isolated from variables of Python; not in a folder of a project; with the folders that
this user had when the file was made.
"""

from __future__ import annotations

import plistlib
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from lockgate.claude_code.service_start import LOG_NAME, START_VARIABLES
from lockgate.core.errors import LockgateError, quoted

NAME = "lockgate"
# A file without this line is not ours, and is neither replaced nor removed.
MARK = "Written by `lockgate service install`; `lockgate service uninstall` removes it."
TASK_SCHEMA = "http://schemas.microsoft.com/windows/2004/02/mit/task"
# Of the session's variables the service gets none of these: each could put other code or other settings into it.
_UNSET = ("LD_PRELOAD", "LD_LIBRARY_PATH", "LOCKGATE_TOKEN", "LOCKGATE_AGENT_TOKEN", *START_VARIABLES)

Command = tuple[str, ...]


class ServiceUnit(NamedTuple):
    """One file and the commands that make the system heed it, and forget it again."""

    path: Path
    data: bytes
    start: tuple[Command, ...]
    stop: tuple[Command, ...]
    # After the file is gone.
    forget: tuple[Command, ...] = ()


class ServiceProcess(NamedTuple):
    """What the system is to start: words, variables, and who the user is."""

    words: Sequence[str]
    variables: Mapping[str, str]
    state_dir: Path
    user: str
    user_id: int


def systemd_unit(process: ServiceProcess, config_home: Path) -> ServiceUnit:
    """Return the unit for systemd's manager of this user."""
    unset = " ".join(name for name in _UNSET if name not in process.variables)
    lines = [
        f"# {MARK}",
        "[Unit]",
        "Description=Lockgate, the checkpoint for agents",
        "",
        "[Service]",
        f"ExecStart={' '.join(_systemd_word(word, command=True) for word in process.words)}",
        *(f"Environment={_systemd_word(f'{name}={value}')}" for name, value in process.variables.items()),
        f"UnsetEnvironment={unset}",
        "WorkingDirectory=/",
        "UMask=0077",
        "NoNewPrivileges=yes",
        "Restart=on-failure",
        "RestartSec=2",
        "# Settings that cannot be used, or a port that is taken: another try would end the same way.",
        "RestartPreventExitStatus=2",
        "# A supervisor's answer may take its time.",
        "TimeoutStopSec=60",
        "",
        "[Install]",
        "WantedBy=default.target",
        "",
    ]
    control = ("systemctl", "--user")
    return ServiceUnit(
        config_home / "systemd" / "user" / f"{NAME}.service",
        "\n".join(lines).encode(),
        ((*control, "daemon-reload"), (*control, "enable", "--now", f"{NAME}.service")),
        ((*control, "disable", "--now", f"{NAME}.service"),),
        ((*control, "daemon-reload"),),
    )


def _systemd_word(word: str, *, command: bool = False) -> str:
    """Return one word as systemd reads it back: its own signs for variables and specifiers stand for themselves."""
    plain = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{plain.replace("$", "$$") if command else plain}"'


def launchd_agent(process: ServiceProcess, home: Path) -> ServiceUnit:
    """Return the agent for launchd's domain of this user."""
    log = str(process.state_dir / LOG_NAME)
    said = {
        "Label": NAME,
        "ProgramArguments": list(process.words),
        "EnvironmentVariables": dict(process.variables),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": 10,
        "WorkingDirectory": "/",
        "Umask": 0o077,
        "ProcessType": "Background",
        "StandardOutPath": log,
        "StandardErrorPath": log,
    }
    path = home / "Library" / "LaunchAgents" / f"{NAME}.plist"
    head, body = plistlib.dumps(said, sort_keys=False).split(b"\n", 1)
    domain = f"gui/{process.user_id}"
    return ServiceUnit(
        path,
        head + f"\n<!-- {MARK} -->\n".encode() + body,
        (("launchctl", "bootstrap", domain, str(path)),),
        (("launchctl", "bootout", f"{domain}/{NAME}"),),
    )


def windows_task(process: ServiceProcess) -> ServiceUnit:
    """Return the task for the Windows Task Scheduler: at this user's logon, with no more than this user's rights."""
    task = Element("Task", {"version": "1.2", "xmlns": TASK_SCHEMA})
    about = SubElement(task, "RegistrationInfo")
    _add_texts(about, {"Description": f"Lockgate, the checkpoint for agents. {MARK}"})
    _add_texts(SubElement(SubElement(task, "Triggers"), "LogonTrigger"), {"Enabled": "true", "UserId": process.user})
    _add_texts(
        SubElement(SubElement(task, "Principals"), "Principal", {"id": "Author"}),
        {"UserId": process.user, "LogonType": "InteractiveToken", "RunLevel": "LeastPrivilege"},
    )
    settings = SubElement(task, "Settings")
    _add_texts(
        settings,
        {
            "MultipleInstancesPolicy": "IgnoreNew",
            "DisallowStartIfOnBatteries": "false",
            "StopIfGoingOnBatteries": "false",
            # Without a limit: by default a task ends after three days.
            "ExecutionTimeLimit": "PT0S",
            "Hidden": "true",
        },
    )
    _add_texts(SubElement(settings, "RestartOnFailure"), {"Interval": "PT1M", "Count": "3"})
    program, *words = process.words
    _add_texts(
        SubElement(SubElement(task, "Actions", {"Context": "Author"}), "Exec"),
        {
            "Command": program,
            "Arguments": subprocess.list2cmdline(words),
            "WorkingDirectory": str(Path(program).parent),
        },
    )
    indent(task)
    path = process.state_dir / f"{NAME}-task.xml"
    # The scheduler's own files are UTF-16 with a mark of the byte order.
    data = b'<?xml version="1.0" encoding="UTF-16"?>\n' + tostring(task)
    return ServiceUnit(
        path,
        data.decode("ascii").encode("utf-16"),
        (("schtasks", "/Create", "/TN", NAME, "/XML", str(path), "/F"), ("schtasks", "/Run", "/TN", NAME)),
        (("schtasks", "/End", "/TN", NAME), ("schtasks", "/Delete", "/TN", NAME, "/F")),
    )


def _add_texts(parent: Element, texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        SubElement(parent, name).text = text


def refuse_odd_words(process: ServiceProcess) -> None:
    """Raise for a path with a line end or another control character in it: no form can hold it safely."""
    for word in (*process.words, *process.variables.values(), process.user, str(process.state_dir)):
        if not word.isprintable():
            raise LockgateError(
                f"{quoted(word, 120)} cannot stand in a unit", hint="use a path without such characters"
            )
