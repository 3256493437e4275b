"""`lockgate grants`: list the rules that people made with an approval, revoke one, drop those that nothing uses."""

from __future__ import annotations

import argparse
from time import time
from typing import TYPE_CHECKING

from rich.text import Text

from lockgate import assemble
from lockgate.cli.approvals import draw_rule, format_moment, print_json
from lockgate.cli.exit_codes import Exit
from lockgate.cli.terminal import excerpt, format_count, make_console
from lockgate.cli.times import parse_since
from lockgate.cli.user import user_name
from lockgate.core.errors import LockgateError, quoted
from lockgate.core.ruling.grants import Grant
from lockgate.core.ruling.policy import session_hashes
from lockgate.gate.approval_views import grant_to_dict

if TYPE_CHECKING:
    from lockgate.cli.parser import Parser
    from lockgate.gate.approvals_sqlite import SqliteApprovals

_HELP = """\
Lists the rules that people made by answering a held call with `lockgate approvals approve --for`,
with how often each was used, and ends them.

example:
  $ lockgate grants
  $ lockgate grants revoke 3f9a1c20
  $ lockgate grants drop-unused --older-than 30d

An id may be shortened as long as only one id begins with it. Calls that run already are not stopped.
Exit code 0: done; 1: there was nothing to end; 2: bad input.
"""
_SHORT_ID = 4


def describe(parser: Parser) -> None:
    parser.usage = "lockgate grants [list|revoke|drop-unused] [ID] [options]"
    parser.description = _HELP
    words = ("list", "revoke", "drop-unused")
    parser.add_argument("what", nargs="?", metavar="|".join(words), choices=words, default="list", help="what to do")
    parser.add_argument("id", nargs="?", metavar="ID", help="which grant, as `list` names it")
    parser.add_argument(
        "--older-than", metavar="AGE", help="drop what was not used for so long, e.g. 12h, 30d or 4w; 30d without it"
    )
    parser.add_argument("--who", metavar="NAME", help="who ends it; by default the user this runs as")
    parser.add_argument("--json", action="store_true", help="print JSON, one object per grant")
    parser.add_argument("--config", metavar="PATH", help="use this configuration file")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> Exit:
    _refuse_idle_options(args)
    settings = assemble.settings_from_environment(args.config)
    # The store records the end of a grant in the journal in the same step.
    journal = None if args.what == "list" else assemble.journal_from_settings(settings)
    store: SqliteApprovals = assemble.approvals_from_settings(settings, journal)
    grants = store.grants(time())
    if args.what == "list":
        return _print_list(grants, session_hashes(settings.policy), as_json=args.json)
    if args.what == "revoke":
        ended = [_find_grant(grants, args.id)]
    else:
        before = parse_since(args.older_than or "30d", time())
        ended = [grant for grant in grants if max(grant.made_s, grant.used_s) < before]
    who = user_name() if args.who is None else args.who
    # Another process may have been faster.
    ended = [grant for grant in ended if store.revoke_grant(grant.id, who=who, now_s=time())]
    for grant in ended:
        if args.json:
            print_json(grant_to_dict(grant, session_hashes(settings.policy)))
        else:
            print(f"revoked {grant.id}: {excerpt(grant.rule.tool, 60)}, for {grant.rule.span.value}, {_uses(grant)}")
    if not ended and not args.json:
        print("nothing was revoked")
    return Exit.CLEAR if ended else Exit.FLAGGED


def _refuse_idle_options(args: argparse.Namespace) -> None:
    idle = [
        ("an ID", args.id is not None, ("revoke",)),
        ("--older-than", args.older_than is not None, ("drop-unused",)),
        ("--who", args.who is not None, ("revoke", "drop-unused")),
    ]
    for name, given, words in idle:
        if given and args.what not in words:
            raise LockgateError(f"{name} has no effect on `{args.what}`", hint=f"it belongs to {' and '.join(words)}")
    if args.what == "revoke" and not args.id:
        raise LockgateError("`revoke` needs an ID", hint="lockgate grants names them")


def _find_grant(grants: list[Grant], start: str) -> Grant:
    if len(start) < _SHORT_ID:
        raise LockgateError(f"{quoted(start)} is too short for an ID", hint=f"type at least {_SHORT_ID} characters")
    found = [grant for grant in grants if grant.id.startswith(start)]
    if len(found) > 1:
        raise LockgateError(
            f"{quoted(start)} could be {', '.join(quoted(grant.id) for grant in found[:3])}", hint="type more of it"
        )
    if not found:
        raise LockgateError(f"there is no grant {quoted(start)}", hint="lockgate grants names them")
    return found[0]


def _print_list(grants: list[Grant], in_force: frozenset[str], *, as_json: bool) -> Exit:
    if as_json:
        for grant in grants:
            print_json(grant_to_dict(grant, in_force))
        return Exit.CLEAR
    screen = make_console()
    if not grants:
        screen.print(Text("there are no grants: every held call is answered each time"))
    for grant in grants:
        made = f"  made by {excerpt(grant.made_by, 60)} at {format_moment(grant.made_s)}, {_uses(grant)}"
        screen.print(Text.assemble((grant.id, "bold"), made), soft_wrap=True)
        draw_rule(screen, grant.rule, grant.digest)
        if grant.rule.policy_hash not in in_force:
            said = "  outdated: the policy has changed since, so it covers only sessions that run under the old one"
            screen.print(Text(said, style="yellow"), soft_wrap=True)
    return Exit.CLEAR


def _uses(grant: Grant) -> str:
    if not grant.uses:
        return "never used"
    return f"used {format_count(grant.uses, 'time')}, last at {format_moment(grant.used_s)}"
