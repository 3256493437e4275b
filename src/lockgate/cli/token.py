"""`lockgate token`: the tokens of the service, printed or changed."""

from __future__ import annotations

import argparse
import os
from time import monotonic
from typing import TYPE_CHECKING

from lockgate import assemble
from lockgate.claude_code.hook_command import HookFailure, NotProved, ask_service
from lockgate.cli.exit_codes import Exit
from lockgate.cli.terminal import make_visible
from lockgate.core.errors import InvalidConfig, LockgateError, quoted
from lockgate.runtime.loopback import local_url
from lockgate.service.auth import FILES, VARIABLES, check_token, make_token, person_path
from lockgate.service.http import Caller
from lockgate.service.page_login import LoginCodes

if TYPE_CHECKING:
    from lockgate.cli.parser import Parser
    from lockgate.settings.config import Settings

_HELP = """\
Prints the token that opens the service and its page; makes one if there is none yet.

example:
  $ lockgate token
  $ lockgate token --agent
  $ lockgate token --url
  $ curl -H "Authorization: Bearer $(lockgate token)" http://127.0.0.1:7717/v1/decisions

There are two tokens. A person's token can do everything, approvals too: keep it from agents. An agent's token
(--agent), for plugs, can open sessions, add what was read, check calls and report outcomes in them. It cannot answer
approvals, list or browse.

--url prints an address that opens the page of the service on this machine, once and within 5 minutes: a browser keeps
every address, so the token is not in it. The service is looked for at LOCKGATE_URL, or where the configuration has it;
what listens there has to prove that it is the service, since a page of another program could use the code.

--person makes a token for one person, which can do the same as yours: an answer with it carries that name, whatever the
client says. Removing its file, people/NAME beside the others, takes it back.

--rotate makes a new token. A running service takes it within a second and refuses the old one from then on.
If LOCKGATE_TOKEN or LOCKGATE_AGENT_TOKEN is set, that is the token, and no file is read.

Exit code 0: printed; 2: the file can be read by others, or cannot be made; --url: the service does not answer.
"""
# A service that has just begun to listen compiles its rules first.
_ASK_S = 15.0


def describe(parser: Parser) -> None:
    parser.usage = "lockgate token [--agent | --person NAME | --url] [--rotate] [options]"
    parser.description = _HELP
    parser.add_argument("--agent", action="store_true", help="the token for plugs")
    parser.add_argument("--person", metavar="NAME", help="a token of this person's own, whose name then counts")
    parser.add_argument("--url", action="store_true", help="an address that opens the page, once")
    parser.add_argument("--rotate", action="store_true", help="make a new one in its place")
    parser.add_argument("--config", metavar="PATH", help="use this configuration file")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> Exit:
    if args.person:
        return _print_person_token(args)
    who = Caller.AGENT if args.agent else Caller.PERSON
    if args.url and args.agent:
        raise LockgateError("an agent's token does not open the page", hint="leave --agent out")
    given = os.environ.get(VARIABLES[who], "").strip()
    if given and not (args.url and not args.rotate):
        if args.rotate:
            raise LockgateError(
                f"{VARIABLES[who]} is set, and is the token", hint="change it there, and start the service anew"
            )
        print(check_token(given, VARIABLES[who]))
        return Exit.CLEAR
    settings = assemble.settings_from_environment(args.config)
    if settings.state_dir is None:
        raise InvalidConfig(
            "there is no folder to keep tokens in", hint=f"set HOME or XDG_STATE_HOME, or {VARIABLES[who]}"
        )
    codes = LoginCodes(settings.state_dir)
    if args.rotate and who is Caller.PERSON:
        # Outstanding codes would open the page with the new token.
        codes.forget()
    token = given or make_token(settings.state_dir / FILES[who], who, instead=args.rotate)
    print(make_visible(f"{_proved_url(settings)}/#code={codes.make()}") if args.url else token)
    return Exit.CLEAR


def _proved_url(settings: Settings) -> str:
    """Return where a browser on this machine reaches the service; raise where another program may get the code."""
    given = os.environ.get("LOCKGATE_URL", "").strip().rstrip("/")
    url = given or local_url(settings.server.host, settings.server.port)
    if url.startswith("https://"):
        # Its certificate is the browser's to check.
        return url
    try:
        ask_service(url, b"", os.environ, monotonic() + _ASK_S, "/healthz")
    except NotProved as error:
        raise LockgateError(str(error), hint="end that program; a service of an older version: start it anew") from None
    except (HookFailure, OSError) as error:
        why = str(error) if isinstance(error, HookFailure) else (error.strerror or type(error).__name__).lower()
        raise LockgateError(f"no service answers at {quoted(url, 200)}: {why}", hint="lockgate serve") from None
    return url


def _print_person_token(args: argparse.Namespace) -> Exit:
    folder = assemble.settings_from_environment(args.config).state_dir
    if args.url or args.agent:
        raise LockgateError("--person has a token of its own", hint="leave --agent and --url out")
    if folder is None:
        raise InvalidConfig("there is no folder to keep tokens in", hint="set HOME or XDG_STATE_HOME")
    print(make_token(person_path(folder, args.person), Caller.PERSON, instead=args.rotate))
    return Exit.CLEAR
