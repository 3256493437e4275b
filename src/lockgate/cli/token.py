"""`lockgate token`: the tokens of the service, printed or changed."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from lockgate.cli.exits import Exit

if TYPE_CHECKING:
    from lockgate.cli.parser import Parser

_HELP = """\
Prints the token that opens the service and its page, and nothing else; makes it if there is none yet.

example:
  $ lockgate token
  $ lockgate token --agent
  $ curl -H "Authorization: Bearer $(lockgate token)" http://127.0.0.1:7717/v1/decisions

There are two. A person's can do everything: keep it from agents, it answers approvals. An agent's (--agent) can open
sessions, add what was read, check calls and tell outcomes, and nothing else; plugs use that one.

--rotate makes a new one. A running service takes it within a second, and the old one is worth nothing from then on.
Where LOCKGATE_TOKEN or LOCKGATE_AGENT_TOKEN is set, that is the token, and no file is looked at.

Exit code 0: printed; 2: the file can be read by others, or cannot be made.
"""


def describe(parser: Parser) -> None:
    parser.usage = "lockgate token [--agent] [--rotate] [options]"
    parser.description = _HELP
    parser.add_argument("--agent", action="store_true", help="the token for plugs")
    parser.add_argument("--rotate", action="store_true", help="make a new one in its place")
    parser.add_argument("--config", metavar="PATH", help="use this configuration file")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> Exit:
    import os

    from lockgate import assemble
    from lockgate.core.errors import InvalidConfig, LockgateError
    from lockgate.server.auth import FILES, VARIABLES, checked, make
    from lockgate.server.exchange import Who

    who = Who.AGENT if args.agent else Who.PERSON
    given = os.environ.get(VARIABLES[who], "").strip()
    if given:
        if args.rotate:
            raise LockgateError(
                f"{VARIABLES[who]} is set, and is the token", hint="change it there, and start the service anew"
            )
        print(checked(given, VARIABLES[who]))
        return Exit.CLEAR
    settings = assemble.settings_from_environment(args.config)
    if settings.state_dir is None:
        raise InvalidConfig(
            "there is no folder to keep tokens in", hint=f"set HOME or XDG_STATE_HOME, or {VARIABLES[who]}"
        )
    print(make(settings.state_dir / FILES[who], who, instead=args.rotate))
    return Exit.CLEAR
