"""`lockgate mcp`: check the tool calls between an MCP client and one of its servers."""

from __future__ import annotations

import argparse
import os
import re
import sys
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from lockgate.cli.exit_codes import Exit
from lockgate.core.errors import InvalidConfig, LockgateError, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from lockgate.cli.parser import Parser
    from lockgate.mcp.checkpoint import McpCheckpoint, McpParts
    from lockgate.mcp.tool_pins import ToolPin, ToolPins
    from lockgate.sessions.session_entries import SessionInfo

_HELP = """\
Runs an MCP server (or connects to one by its URL) and forwards everything between it and the
client, byte for byte. Each tools/call is ruled on first; results, resources, prompts and descriptions
are recorded as untrusted text. A call that may not run is answered with the reason.

example:
  $ lockgate mcp -- npx -y @modelcontextprotocol/server-filesystem ~/notes
  $ lockgate mcp --name tracker --url https://mcp.example.com/mcp --header 'Authorization: Bearer $TRACKER_TOKEN'
  $ lockgate mcp --repin
  $ lockgate init mcp ~/.cursor/mcp.json

In --header, $NAME is read from the environment, so that no secret shows in the process list. Servers
that one client starts share a session unless --session names another: text from one server counts
when another is called. --repin shows the tools that changed since they were pinned, and asks whether
to accept them. `lockgate help mcp` says more.
Ends when the client or the server does. Exit code: the server's; 2: it could not be started.
"""

_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def describe(parser: Parser) -> None:
    parser.usage = "lockgate mcp [options] (-- COMMAND... | --url URL | --repin)"
    parser.description = _HELP
    parser.add_argument("--name", metavar="NAME", default="", help="what the server is called; by default its command")
    parser.add_argument("--session", metavar="ID", default="", help="the session that its calls belong to")
    parser.add_argument("--goal", metavar="TEXT", default="", help="what the user wants; MCP itself does not tell")
    parser.add_argument("--url", metavar="URL", default="", help="a server that speaks streamable HTTP")
    parser.add_argument(
        "--header", metavar="'K: V'", action="append", default=[], help="send this with every request to --url"
    )
    parser.add_argument("--ca-file", metavar="PATH", default="", help="with --url: trust these authorities only")
    parser.add_argument("--repin", action="store_true", help="show and accept tools that have changed")
    parser.add_argument("--forget", action="store_true", help="with --repin: pin the tools of the next listing")
    parser.add_argument("--yes", action="store_true", help="with --repin: accept without asking")
    parser.add_argument("--config", metavar="PATH", help="use this configuration file")
    # The rest belongs to the server: its options, and a second `--` too.
    parser.add_argument("server", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="the server's command")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    if args.server[:1] == ["--"]:
        args.server = args.server[1:]
    if args.repin:
        return _repin(args)
    if bool(args.url) == bool(args.server):
        why = "two servers were given" if args.url else "`lockgate mcp` needs a server: a command after `--`, or --url"
        raise LockgateError(why, hint="lockgate mcp -- npx -y @modelcontextprotocol/server-everything")
    for name, given in (("--forget", args.forget), ("--yes", args.yes)):
        if given:
            raise LockgateError(f"{name} has no effect without --repin")
    if not args.url and (args.header or args.ca_file):
        raise LockgateError("--header and --ca-file have no effect without --url")
    return _run_http(args) if args.url else _run_stdio(args)


def _run_stdio(args: argparse.Namespace) -> int:
    from lockgate.mcp import stdio as mcp_stdio

    # The server starts first, and loads while we do.
    child = mcp_stdio.start_server(args.server)
    mcp_stdio.forward_signals(child)
    assert child.stdin is not None  # noqa: S101
    to_client, to_server = mcp_stdio.MessagePipe(_claim_stdout()), mcp_stdio.MessagePipe(os.dup(child.stdin.fileno()))
    child.stdin.close()
    # A thread that forwards a message must not wait for one that records another.
    sys.setswitchinterval(0.0005)
    parts = _load_parts_in_thread(args, args.server, or_else=child.kill)
    point = _checkpoint(args, parts, to_client=to_client, to_server=to_server)
    code = mcp_stdio.pump_messages(
        child,
        0,
        to_server=to_server,
        to_client=to_client,
        from_client=point.from_client,
        from_server=point.from_server,
    )
    _raise_if_broken(parts)
    point.close()
    return mcp_stdio.exit_like(code)


def _run_http(args: argparse.Namespace) -> int:
    from importlib.util import find_spec

    if find_spec("httpx2") is None:
        raise InvalidConfig("`lockgate mcp --url` needs the package `httpx2`", hint="pip install 'lockgate[agent]'")
    from lockgate.mcp import http as mcp_http
    from lockgate.mcp import stdio as mcp_stdio

    headers = [_parse_header(text, os.environ) for text in args.header]
    url = _check_url(args.url, secret=bool(headers))
    to_client = mcp_stdio.MessagePipe(_claim_stdout())

    remote = mcp_http.HttpServer(url, headers, lambda line: point.from_server(line), ca_file=args.ca_file)
    parts = _load_parts_in_thread(args, [url], or_else=to_client.close)
    point = _checkpoint(args, parts, to_client=to_client, to_server=remote.send)
    try:
        with suppress(OSError, mcp_stdio.MessageTooLong):
            for line in mcp_stdio.read_lines(0):
                point.from_client(line)
                if to_client.broken:
                    break
        # A client that closes its input at once may still read the answers.
        remote.wait(0 if to_client.broken else mcp_stdio.GRACE_S)
        _raise_if_broken(parts)
        point.close()
    finally:
        remote.close()
    return Exit.CLEAR


def _load_parts_in_thread(
    args: argparse.Namespace, reached_by: Sequence[str], *, or_else: Callable[[], None]
) -> Future[McpParts]:
    """Build the gate's parts in a thread while the server starts; a failure ends the command."""
    import gc
    from concurrent.futures import Future
    from threading import Thread

    parts: Future[McpParts] = Future()

    def make() -> None:
        try:
            made = _make_parts(args, reached_by)
            # The compiled rules live as long as the process: freezing them keeps garbage collection out of calls.
            gc.freeze()
            parts.set_result(made)
        except BaseException as error:  # noqa: BLE001  # raised again where the command ends
            parts.set_exception(error)
            or_else()

    Thread(target=make, daemon=True).start()
    return parts


def _make_parts(args: argparse.Namespace, reached_by: Sequence[str]) -> McpParts:
    from lockgate import assemble
    from lockgate.cli.policy_watch import watch_policy
    from lockgate.mcp.checkpoint import McpParts
    from lockgate.mcp.stdio import client_session
    from lockgate.mcp.tool_pins import ToolPins, server_file, server_name

    settings = assemble.settings_from_environment(args.config)
    host = assemble.host_from_settings(settings)
    name = server_name(args.name, reached_by)
    # Many clients start their servers in the folder that the agent works in; the others start them in no project.
    cwd = ""
    with suppress(OSError):
        cwd = os.getcwd()
    wanted = args.session or client_session()
    with ExitStack() as failed:
        failed.callback(host.close)
        _refuse_another_goal(host.store.session(wanted), args.goal)
        failed.pop_all()
    session = host.open(wanted, goal=args.goal, host="mcp", folder=cwd).id
    folder = settings.state_dir
    pins = ToolPins(None if folder is None else server_file(folder / "mcp", name, reached_by), name)
    watch_policy(host, settings, args.config).start()
    # The store behind the gate's approvals takes answers as well.
    return McpParts(host, session, pins, host.gate.approvals, host.gate.human_timeout_s)  # type: ignore[arg-type]


def _refuse_another_goal(known: SessionInfo | None, goal: str) -> None:
    """Refuse a goal for a session that is under way: an agent could start this command, and speak as its user."""
    if goal and known is not None and (known.host != "mcp" or known.goal != goal):
        raise InvalidConfig(
            f"the session {quoted(known.id)} has begun, and --goal would change what its user asked for",
            hint="leave --goal out, or begin another session",
        )


def _raise_if_broken(parts: Future[McpParts]) -> None:
    error = parts.exception() if parts.done() else None
    if error is not None:
        raise error


def _checkpoint(
    args: argparse.Namespace,
    parts: Future[McpParts],
    *,
    to_client: Callable[[bytes], None],
    to_server: Callable[[bytes, object], None],
) -> McpCheckpoint:
    import logging

    from lockgate.mcp.checkpoint import McpCheckpoint
    from lockgate.mcp.tool_pins import server_name

    logging.basicConfig(level=logging.WARNING, format="lockgate: %(message)s", stream=sys.stderr)
    name = server_name(args.name, [args.url] if args.url else args.server)
    return McpCheckpoint(parts, server=name, to_client=to_client, to_server=to_server)


def _claim_stdout() -> int:
    """Return a handle of standard output for MCP messages; send all other prints to standard error."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    return kept


def _check_url(text: str, *, secret: bool) -> str:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(text)
        host = parts.hostname
    except ValueError:
        parts, host = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not host:
        raise InvalidConfig(
            f"{quoted(text)} is no http or https address", hint="for example https://mcp.example.com/mcp"
        )
    if parts.username or parts.password:
        raise InvalidConfig("an address with a password in it is not taken", hint="use --header 'Authorization: $NAME'")
    if secret and parts.scheme == "http" and host not in ("localhost", "127.0.0.1", "::1"):
        raise InvalidConfig("headers are not sent to another machine without encryption", hint="use https")
    return text


def _parse_header(text: str, environ: os._Environ[str]) -> tuple[str, str]:
    name, found, value = text.partition(":")
    name = name.strip()
    if not found or not _HEADER.fullmatch(name):
        raise InvalidConfig(f"{quoted(name)} is no header", hint="--header 'Authorization: Bearer $TOKEN'")

    def filled(match: re.Match[str]) -> str:
        variable = match[1] or match[2]
        if variable not in environ:
            raise InvalidConfig(f"--header {quoted(name)} names {quoted(variable)}, which is not set")
        return environ[variable]

    value = _VARIABLE.sub(filled, value.strip())
    if not value.isprintable() or not value.isascii():
        raise InvalidConfig(f"the value of --header {quoted(name)} has characters that no header can have")
    return name, value


def _repin(args: argparse.Namespace) -> Exit:
    """Show the changed tools of one server or all, and accept them if the user agrees."""
    from lockgate import assemble
    from lockgate.mcp import tool_pins as mcp_pins

    if args.url or args.server or args.header or args.session or args.goal:
        raise LockgateError("--repin takes --name, --forget and --yes only", hint="lockgate mcp --repin --name NAME")
    settings = assemble.settings_from_environment(args.config)
    if settings.state_dir is None:
        raise InvalidConfig("there is no folder to keep pins in", hint="set HOME or XDG_STATE_HOME")
    found = [
        each for each in mcp_pins.pinned_servers(settings.state_dir / "mcp") if not args.name or each[1] == args.name
    ]
    if args.name and not found:
        raise LockgateError(f"nothing is pinned of a server {quoted(args.name)}", hint="lockgate mcp --repin shows all")
    codes = [_repin_server(mcp_pins.ToolPins(path, name), name or path.name, args) for path, name in found]
    if not any(code is not None for code in codes):
        print("no tool has changed since it was pinned")
    return max((code for code in codes if code is not None), default=Exit.CLEAR)


def _repin_server(pins: ToolPins, name: str, args: argparse.Namespace) -> Exit | None:
    """Forget or accept the pins of one server; return None where nothing waits."""
    if args.forget:
        if _confirm(f"forget what is pinned of {name}", yes=args.yes):
            pins.forget()
            print("forgotten")
        return Exit.CLEAR
    waiting = pins.waiting()
    if pins.unreadable:
        raise LockgateError(pins.unreadable, hint="look at it; lockgate mcp --repin --forget begins anew")
    return _accept_changes(pins, name, waiting, yes=args.yes) if waiting else None


def _accept_changes(pins: ToolPins, name: str, waiting: Sequence[ToolPin], *, yes: bool) -> Exit:
    import json
    from difflib import unified_diff
    from itertools import pairwise

    from lockgate.cli.terminal import make_visible

    shown: dict[str, str] = {}
    for pin in waiting:
        shown[pin.tool.name] = pin.latest.digest
        for before, after in pairwise((pin.tool, *pin.waiting)):
            new = before.digest == after.digest
            said = "is new, and its name can be taken for another" if new else "has changed"
            print(f"{make_visible(name)}: {make_visible(pin.tool.name)} {said}")
            was, now = (json.dumps(tool.fields, indent=2, ensure_ascii=False).split("\n") for tool in (before, after))
            # Text that the server wrote is printed behind a bar, with every character visible.
            for line in list(unified_diff([] if new else was, now, lineterm="", n=1))[2:]:
                print(f"  │ {make_visible(line)}")
        if len(pin.waiting) > 1:
            print("  only the last of these forms would be accepted")
    if not _confirm("accept these, and count their descriptions as read by a person", yes=yes):
        print("nothing was changed: their calls go on waiting for a person")
        return Exit.FLAGGED
    accepted = pins.accept(shown)
    print(f"accepted: {', '.join(map(make_visible, accepted)) or 'none, they have changed again'}")
    return Exit.CLEAR if len(accepted) == len(shown) else Exit.FLAGGED


def _confirm(question: str, *, yes: bool) -> bool:
    if yes:
        return True
    if not sys.stdin.isatty():
        raise LockgateError("no terminal to ask on", hint="say --yes once you have looked")
    print(f"{question}? type yes: ", end="", flush=True)
    return sys.stdin.readline().strip() == "yes"
