"""`lockgate service`: have the system start `lockgate serve` at login, say whether it answers, or undo that."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

import lockgate
from lockgate import assemble
from lockgate.claude_code.hook_command import HookFailure, NotProved, ask_service
from lockgate.claude_code.service_start import START_VARIABLES, service_command
from lockgate.cli.exit_codes import Exit
from lockgate.cli.service_units import (
    MARK,
    ServiceProcess,
    ServiceUnit,
    launchd_agent,
    refuse_odd_words,
    systemd_unit,
    windows_task,
)
from lockgate.cli.terminal import make_visible
from lockgate.cli.user import user_name
from lockgate.core.errors import InvalidConfig, LockgateError, quoted
from lockgate.runtime.loopback import local_url
from lockgate.runtime.private_files import replace_file

if TYPE_CHECKING:
    from lockgate.cli.parser import Parser
    from lockgate.settings.config import Settings

_HELP = """\
Has the system start `lockgate serve` when you log in, and again when it fails: by a systemd user unit (Linux),
a launchd agent (macOS) or a scheduled task (Windows). It runs as you, never as another user.

example:
  $ lockgate service install --dry-run
  $ lockgate service install
  $ lockgate service status --json
  $ lockgate service uninstall

install shows the file that it writes and the commands that it runs, and asks. The file names this interpreter
and this installation by their absolute paths, so run it again after you have moved or reinstalled Lockgate.
The service then has the folders that you have now (HOME, XDG_*, LOCKGATE_CONFIG or --config), and no variables of a
project. --system writes the file of another system, with --dry-run only.

status asks the address under [server] whether a service answers there, and of which version. uninstall stops the
service and removes the file. A file of that name that Lockgate has not written is left alone.

Without it, the hooks of coding agents start the service when they need it: `lockgate help service` compares the two.
Exit code 0: done, nothing to do, or (status) it answers; 1: you said no, the system refused, or (status) it does
not answer; 2: bad input, or a file that is not ours.
"""
_SYSTEMS = {"linux": "linux", "darwin": "macos", "win32": "windows"}
_ASK_S = 3.0
_COMMAND_S = 90.0


def describe(parser: Parser) -> None:
    actions = ("install", "status", "uninstall")
    parser.usage = "lockgate service install|status|uninstall [options]"
    parser.description = _HELP
    parser.add_argument("action", metavar="|".join(actions), choices=actions, help="what to do")
    parser.add_argument("--dry-run", action="store_true", help="show the file and the commands, and change nothing")
    parser.add_argument("--system", choices=[*_SYSTEMS.values()], help="with --dry-run: for this system")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--json", action="store_true", help="print one JSON object; needs --yes to change anything")
    parser.add_argument("--config", metavar="PATH", help="use this configuration file, and let the service use it")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> Exit:
    settings = assemble.settings_from_environment(args.config)
    if args.system and not args.dry_run:
        raise LockgateError("--system is for --dry-run", hint="on that system, leave it out")
    if args.action == "status":
        return _show_status(settings, args)
    unit = _make_unit(settings, args)
    is_there = _is_ours(unit)
    if args.action == "uninstall" and not is_there:
        _say(args, f"nothing to do: there is no {unit.path}", changed=False)
        return Exit.CLEAR
    if args.dry_run:
        _show_plan(args, unit)
        return Exit.CLEAR
    _refuse_other_user(unit.path)
    if not _confirm(args, unit):
        return Exit.FLAGGED
    if args.action == "uninstall":
        return _uninstall(args, unit)
    if settings.state_dir is not None:
        settings.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    return _install(args, unit)


# The file


def _make_unit(settings: Settings, args: argparse.Namespace) -> ServiceUnit:
    if settings.state_dir is None:
        raise InvalidConfig("there is no folder for the service's state", hint="set HOME or XDG_STATE_HOME")
    home = os.path.expanduser("~")
    found = {name: os.environ.get(name, "") for name in START_VARIABLES} | {"HOME": home}
    if args.config:
        found["LOCKGATE_CONFIG"] = os.path.abspath(args.config)
    variables = {name: value for name, value in found.items() if os.path.isabs(value)}
    system = args.system or _SYSTEMS.get(sys.platform, "")
    # A Windows task has no variables of its own.
    words = ("--config", variables["LOCKGATE_CONFIG"]) if system == "windows" and "LOCKGATE_CONFIG" in variables else ()
    user_id = os.getuid() if hasattr(os, "getuid") else 0
    process = ServiceProcess(service_command(*words), variables, settings.state_dir, user_name(), user_id)
    refuse_odd_words(process)
    if system == "linux":
        return systemd_unit(process, Path(variables.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")))
    if system == "macos":
        return launchd_agent(process, Path(home))
    if system == "windows":
        return windows_task(process)
    raise LockgateError("this system's way to start services is not known", hint="have it run `lockgate serve`")


def _is_ours(unit: ServiceUnit) -> bool:
    """Return whether the unit's file is there; raise for one that another program wrote."""
    try:
        data = b"" if unit.path.is_symlink() else unit.path.read_bytes()
    except FileNotFoundError:
        return False
    if MARK.encode() in data or MARK.encode("utf-16-le") in data:
        return True
    raise LockgateError(f"{quoted(unit.path, 200)} is not Lockgate's", hint="move it away, then run this again")


def _refuse_other_user(path: Path) -> None:
    """Raise where the service would be set up for another user than the one who runs this."""
    if os.name != "posix":
        return
    if os.geteuid() != os.getuid() or os.environ.get("SUDO_UID", str(os.getuid())) != str(os.getuid()):
        raise LockgateError("this runs with another user's rights", hint="run it as yourself, without sudo")
    there = next(each for each in path.parents if each.exists())
    if there.stat().st_uid != os.geteuid():
        raise LockgateError(f"{quoted(there, 200)} belongs to another user", hint="run it as that user; is HOME yours?")


# Doing it


def _confirm(args: argparse.Namespace, unit: ServiceUnit) -> bool:
    if args.yes:
        return True
    if args.json or not sys.stdin.isatty():
        raise LockgateError(f"no terminal to ask whether to {args.action} {quoted(unit.path, 200)}", hint="add --yes")
    _show_plan(args, unit)
    try:
        return input("Do it? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _show_plan(args: argparse.Namespace, unit: ServiceUnit) -> None:
    commands = [*unit.start] if args.action == "install" else [*unit.stop, *unit.forget]
    text = unit.data.decode("utf-16" if unit.data.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8")
    if args.json:
        said = {"path": str(unit.path), "text": text, "commands": commands, "changed": False}
        print(json.dumps(said, indent=2))
        return
    print(f"{'write' if args.action == 'install' else 'remove'} {make_visible(str(unit.path))}")
    if args.action == "install":
        print("\n".join(f"    {make_visible(line.expandtabs(4))}" for line in text.splitlines()))
    for command in commands:
        print(f"run   {make_visible(subprocess.list2cmdline(command))}")


def _install(args: argparse.Namespace, unit: ServiceUnit) -> Exit:
    unit.path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(unit.path, unit.data, exact_mode=0o600)
    for command in unit.start:
        if why := _run_command(command):
            _say(args, f"wrote {unit.path}, and the system did not take it: {why}", changed=True, failed=True)
            return Exit.FLAGGED
    _say(
        args, f"wrote {unit.path}: the service starts when you log in; `lockgate service status` asks it", changed=True
    )
    return Exit.CLEAR


def _uninstall(args: argparse.Namespace, unit: ServiceUnit) -> Exit:
    failed = [why for command in unit.stop if (why := _run_command(command))]
    unit.path.unlink(missing_ok=True)
    failed += [why for command in unit.forget if (why := _run_command(command))]
    refused = f", and the system said: {failed[0]}" if failed else ""
    _say(args, f"removed {unit.path}{refused}", changed=True, failed=bool(failed))
    return Exit.FLAGGED if failed else Exit.CLEAR


def _run_command(command: tuple[str, ...]) -> str:
    """Run one command of the system; return why it failed, or an empty text."""
    program = shutil.which(command[0])
    if program is None:
        return f"there is no {command[0]} here"
    try:
        ended = subprocess.run(  # noqa: S603  # the fixed words of service_units.py
            [program, *command[1:]], capture_output=True, text=True, timeout=_COMMAND_S, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        return f"{command[0]}: {type(error).__name__}"
    said = (ended.stderr or ended.stdout).strip().splitlines()
    return "" if ended.returncode == 0 else make_visible(said[-1] if said else f"{command[0]} ended with an error")


def _say(args: argparse.Namespace, text: str, *, changed: bool, failed: bool = False) -> None:
    if args.json:
        print(json.dumps({"ok": not failed, "changed": changed, "said": text}, indent=2))
    else:
        print(make_visible(text), file=sys.stderr if failed else sys.stdout)


# How it stands


class ServiceState(NamedTuple):
    """What `lockgate service status` says. `version` is empty where none is known.

    `foreign`: a program answers there that does not prove that it is this service.
    """

    answers: bool
    url: str
    port: int
    version: str
    installed: str
    current: bool
    foreign: bool


def _show_status(settings: Settings, args: argparse.Namespace) -> Exit:
    url = local_url(settings.server.host, settings.server.port)
    foreign = False
    try:
        answers = _ask(url, "/healthz") == {"status": "ok"}
    except NotProved:
        answers, foreign = False, True
    about = _ask(url, "/openapi.json").get("info") if answers else None
    version = str(about.get("version", "")) if isinstance(about, dict) else ""
    installed, current = "", False
    with suppress(LockgateError, OSError):
        unit = _make_unit(settings, args)
        if _is_ours(unit):
            installed, current = str(unit.path), unit.path.read_bytes() == unit.data
    state = ServiceState(answers, url, settings.server.port, version, installed, current, foreign)
    if args.json:
        print(json.dumps(state._asdict(), indent=2))
    else:
        _print_status(state)
    return Exit.CLEAR if answers else Exit.FLAGGED


def _print_status(state: ServiceState) -> None:
    if state.answers:
        newer = "" if state.version == lockgate.__version__ else f"; this is {lockgate.__version__}: restart it"
        print(make_visible(f"answers at {state.url}, version {state.version or 'unknown'}{newer}"))
    elif state.foreign:
        print(make_visible(f"another program listens at {state.url}, or a service with another agent token"))
    else:
        print(make_visible(f"nothing of Lockgate answers at {state.url}"))
    if not state.installed:
        print("not installed: the hooks of coding agents start it when they need it; lockgate service install")
    else:
        stale = "" if state.current else "; it is not what this installation writes: lockgate service install"
        print(make_visible(f"installed: {state.installed}{stale}"))


def _ask(url: str, path: str) -> dict[str, object]:
    """Return the JSON object at this path, or an empty one; raise NotProved where another program answers."""
    try:
        said = json.loads(ask_service(url, b"", os.environ, monotonic() + _ASK_S, path))
    except NotProved:
        raise
    except (OSError, HookFailure, ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}
