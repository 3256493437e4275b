"""`lockgate hook`: parser and help only; the work is in `claude_code/hook_command.py`, which starts faster."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from lockgate.claude_code.hook_command import PLAIN_HOSTS, main

if TYPE_CHECKING:
    from lockgate.cli.parser import Parser

_HELP = """\
Answers one event of a coding agent, read from standard input, by asking the service: the hook that `lockgate init`
writes for Claude Code, Codex, Gemini CLI, Copilot CLI and OpenCode. You do not call it yourself, except to try it:

example:
  $ cat event.json
  {"hook_event_name": "PreToolUse", "session_id": "try", "tool_use_id": "1",
   "tool_name": "Bash", "tool_input": {"command": "ls"}}
  $ lockgate hook claude-code < event.json; echo $?

It prints nothing where the call may run as far as Lockgate is concerned. A no is exit code 2 with the reason on
stderr; Claude Code is also told a question to the user, or a no that ends the agent's turn, by one JSON object on
standard output. If the service does not answer, answers anything else, or takes too long, the call is not let through.

The service is looked for at LOCKGATE_URL (on this machine only) or http://127.0.0.1:7717; --url names another
place. The token is LOCKGATE_AGENT_TOKEN, or what `lockgate token --agent` prints.

With --start, a service that is not running is started, once however many hooks ask for it, and outlives the hook. It
gets the variables that stand after --start and no others, since a project can set variables for its hooks; for the
same reason the hook then takes neither address nor token from its environment. While the service cannot be started,
`server.when_down` of your own configuration says what happens to an event of Claude Code; of others none passes.

Exit code 0: nothing against it, or the answer is on standard output; 2: no; 1: an event that decides nothing could
not be told.
"""


def describe(parser: Parser) -> None:
    parser.usage = "lockgate hook HOST [--url URL [--http] [--start HOME=FOLDER ...]]"
    parser.description = _HELP
    names = ["claude-code", *PLAIN_HOSTS]
    parser.add_argument("host", metavar="HOST", choices=names, help=f"whose event it is: {', '.join(names)}")
    parser.add_argument("--url", metavar="URL", help="where the service is")
    parser.add_argument("--http", action="store_true", help="fail if a proxy is between Claude Code and the service")
    parser.add_argument(
        "--start", metavar="NAME=VALUE", nargs="+", help="start the service if needed, with these variables"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    where = [*(["--url", args.url] if args.url else []), *(["--http"] if args.http else [])]
    return main([args.host, *where, *(["--start", *args.start] if args.start else [])])
