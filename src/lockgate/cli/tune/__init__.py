"""`lockgate tune`: propose what would spare a person questions, with its effect, and apply what the person accepts."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from time import time
from typing import TYPE_CHECKING

from rich.text import Text

from lockgate import assemble
from lockgate.cli.approvals import print_behind_bar, read_answer, spell_out
from lockgate.cli.exit_codes import Exit
from lockgate.cli.replay import choose_files, choose_gate, make_gate
from lockgate.cli.terminal import format_count, make_console, make_visible
from lockgate.cli.times import parse_age
from lockgate.cli.tune.proposals import (
    LEAST_SAVED,
    Proposal,
    TuningReport,
    describe_proposal,
    find_proposals,
    proposal_to_dict,
    summarize,
)
from lockgate.cli.tune.replays import Recording, TrialReplay, file_recordings, stored_recordings
from lockgate.cli.user import user_name
from lockgate.core.errors import LockgateError, quoted
from lockgate.core.ruling.approvals import hash_texts
from lockgate.core.ruling.grants import Grant, rule_to_json
from lockgate.core.ruling.policy import change_policy
from lockgate.core.vocabulary import WOULD_BE, Action
from lockgate.gate.ledger_lines import LedgerEntry, parse_ledger_line
from lockgate.gate.trust_pins import pin_text
from lockgate.settings.config_edit import allow_target, operator_file, read_config, write_config

if TYPE_CHECKING:
    from rich.console import Console

    from lockgate.cli.parser import Parser
    from lockgate.settings.config import Settings

_HELP = """\
Looks at the calls that were held, or would have been in observe mode, and proposes grants, exceptions to flow rules
and instruction files to vouch for. Each proposal is measured by ruling on the same calls again. Nothing is proposed
that would let a call run which a person denied, or which a trace marks as an attack.

example:
  $ lockgate tune                                    what this installation's sessions would have needed
  $ lockgate tune ~/.claude/projects --since 30d     transcripts, before Lockgate is installed
  $ lockgate tune --apply                            shows each proposal, and asks
  $ lockgate tune --apply --only 5f3a9c204b1d --yes  applies what you have looked at before

PATH is a file or folder of transcripts or traces, labelled or not. Without one, the sessions that the service keeps.
`lockgate help tune` says more. Exit code 0: done, or nothing to propose; 1: --apply left something out; 2: bad input.
"""
_MOST_COUNTED = 8
_MOST_LINES = 200
_KINDS = {"grant": "a grant", "flow": "an exception to a flow rule", "trust": "a text to vouch for"}


def describe(parser: Parser) -> None:
    parser.usage = "lockgate tune [PATH ...] [options]"
    parser.description = _HELP
    parser.add_argument("paths", nargs="*", metavar="PATH", help="transcripts or traces, or folders of them")
    parser.add_argument("--since", metavar="AGE", help="only sessions of the last AGE: 90m, 12h, 7d or 4w")
    parser.add_argument(
        "--least", metavar="N", type=int, default=LEAST_SAVED, help=f"propose what saves N pauses; {LEAST_SAVED}"
    )
    parser.add_argument("--apply", action="store_true", help="ask about each proposal, and apply it")
    parser.add_argument("--only", metavar="ID", action="append", default=[], help="only this proposal; may be repeated")
    parser.add_argument("--yes", action="store_true", help="do not ask; needs --only")
    parser.add_argument("--who", metavar="NAME", help="who accepts; by default the user this runs as")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--config", metavar="PATH", help="use this configuration file")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> Exit:
    _refuse_unseen_changes(args)
    # What is read from a store is read while it is replayed.
    with ExitStack() as opened:
        return _run(args, opened)


def _run(args: argparse.Namespace, opened: ExitStack) -> Exit:
    settings = assemble.settings_from_environment(args.config)
    skipped: list[str] = []
    recordings = _find_recordings(args, settings, skipped, opened)
    counted = Counter[str]() if args.paths else _count_unkept(settings, {name for name, _ in recordings})
    report = propose(settings, recordings, config=args.config, least=args.least)
    unknown = set(args.only) - {each.id for each in report.proposals}
    if unknown:
        raise LockgateError(f"{quoted(min(unknown))} is not proposed any more", hint="lockgate tune lists what is")
    chosen = [each for each in report.proposals if not args.only or each.id in args.only]
    if args.yes:
        _refuse_unseen_texts(chosen)
    _print_report(args, report, counted, skipped)
    if not args.apply:
        return Exit.CLEAR
    accepted = [each for each in chosen if args.yes or _is_accepted(each)]
    _apply(settings, accepted, args)
    return Exit.CLEAR if len(accepted) == len(chosen) else Exit.FLAGGED


def _print_report(
    args: argparse.Namespace, report: TuningReport, counted: Counter[str], skipped: Sequence[str]
) -> None:
    if args.json:
        print(json.dumps(report_to_dict(report, counted, skipped), indent=2, ensure_ascii=True))
    else:
        draw_report(make_console(), report)
        _draw_unkept(counted)
        if report.proposals and not args.apply:
            print("nothing is changed: lockgate tune --apply asks about each")
    for each in skipped:
        print(f"lockgate: warning: left out {make_visible(each)}", file=sys.stderr)


def _refuse_unseen_changes(args: argparse.Namespace) -> None:
    if (args.yes or args.only) and not args.apply:
        raise LockgateError("--yes and --only have no effect without --apply")
    if args.yes and not args.only:
        raise LockgateError("--yes accepts only what you name", hint="look at the list, then say --only ID")
    if args.apply and not args.yes and (args.json or not sys.stdin.isatty()):
        raise LockgateError("no terminal to ask on", hint="look at the list, then say --only ID --yes")
    if args.least < 1:
        raise LockgateError("--least must be at least 1")


def _refuse_unseen_texts(chosen: Sequence[Proposal]) -> None:
    long = [each.id for each in chosen if len(each.content.splitlines()) > _MOST_LINES]
    if long:
        raise LockgateError(
            f"the text of {quoted(long[0])} is longer than what was shown of it",
            hint="lockgate tune --apply without --yes shows it whole before it asks",
        )


def _find_recordings(
    args: argparse.Namespace, settings: Settings, skipped: list[str], opened: ExitStack
) -> list[Recording]:
    age_s = parse_age(args.since)
    if args.paths:
        packed = [path for path in args.paths if path.endswith(".gz")]
        plain = [path for path in args.paths if path not in packed]
        files, left_out = choose_files(plain, age_s) if plain else ([], [])
        skipped += left_out
        return list(file_recordings([*packed, *files], skipped))
    store = assemble.sessions_from_settings(settings)
    opened.callback(store.close)
    denied = assemble.approvals_from_settings(settings).denials()
    found = list(stored_recordings(store, 0.0 if age_s is None else time() - age_s, denied))
    if not found:
        raise LockgateError(
            "no session is kept here, so there is nothing to replay",
            hint="name transcripts or traces: lockgate tune PATH; or work in observe mode for a while",
        )
    return found


def propose(
    settings: Settings, recordings: Sequence[Recording], *, config: str | None = None, least: int = LEAST_SAVED
) -> TuningReport:
    """Return the proposals for these recordings, by the policy, the grants and the trusted texts in force."""
    has_state = settings.state_dir is not None
    grants = assemble.approvals_from_settings(settings).grants(time()) if has_state else []
    vouched = assemble.trust_from_settings(settings) if has_state else None
    gate = make_gate(choose_gate(config, ask=False))
    replay = TrialReplay(recordings, gate, grants=grants, vouched=vouched)
    return find_proposals(replay, gate.policy, time(), least=least)


# --- what cannot be replayed


def _count_unkept(settings: Settings, kept: set[str]) -> Counter[str]:
    """Return the held calls of sessions whose texts are gone, by tool and rules, as the ledger has them."""
    ledger = assemble.ledger_from_settings(settings)
    counted: Counter[str] = Counter()
    for path in () if ledger is None else ledger.files():
        with open(path, "rb") as stream:
            for line in stream:
                entry = parse_ledger_line(line)
                if not isinstance(entry, LedgerEntry) or entry.session in kept:
                    continue
                would = any(rule.startswith(WOULD_BE) for rule in entry.rules)
                if entry.action != Action.CONTINUE.value or would:
                    rules = sorted({rule for rule in entry.rules if not rule.startswith(WOULD_BE)})
                    counted[f"{entry.tool}: {', '.join(rules) or entry.reason}"] += 1
    return counted


def _draw_unkept(counted: Counter[str]) -> None:
    if not counted:
        return
    calls = format_count(counted.total(), "held call")
    print(f"{calls} of sessions that are not kept: their texts are gone, so they are counted and not replayed")
    for what, count in counted.most_common(_MOST_COUNTED):
        print(f"  {count:>6,}  {make_visible(what)}")


# --- what is shown


def draw_report(screen: Console, report: TuningReport) -> None:
    """Print the proposals, what they would have saved, and why the other pauses stay."""
    screen.print(Text(summarize(report), "bold"), soft_wrap=True)
    for each in report.proposals:
        draw_proposal(screen, each)
    for why, count in report.left.items():
        screen.print(Text(f"  {count:>6,} stay: {make_visible(why)}", "dim"), soft_wrap=True)


def draw_proposal(screen: Console, proposal: Proposal) -> None:
    """Print one proposal whole."""
    saved = f"  {_KINDS[proposal.kind]}, saves {format_count(proposal.saves, 'pause')}"
    screen.print(Text.assemble(("+ ", "green"), (proposal.id, "bold"), saved), soft_wrap=True)
    for label, text in describe_proposal(proposal):
        print_behind_bar(screen, f"  {label}", [spell_out(text)])
    if lines := proposal.content.splitlines():
        rest = f"… and {len(lines) - _MOST_LINES} more lines, all of them shown before you are asked"
        more = [rest] if len(lines) > _MOST_LINES else []
        print_behind_bar(screen, "  reads", [*map(spell_out, lines[:_MOST_LINES]), *more])


def report_to_dict(report: TuningReport, counted: Counter[str], skipped: Sequence[str]) -> dict[str, object]:
    """Return the report as other programs read it."""
    named = ("calls", "pauses", "saved", "attacks", "released")
    return {
        "format": "lockgate-tune/1",
        **{name: getattr(report, name) for name in named},
        "summary": summarize(report),
        "proposals": [proposal_to_dict(each) for each in report.proposals],
        "left": dict(report.left),
        "not_replayed": dict(counted.most_common()),
        "skipped": list(skipped),
    }


# --- what is applied


def _is_accepted(proposal: Proposal) -> bool:
    screen = make_console()
    draw_proposal(screen, proposal)
    # A person vouches for what they have seen.
    lines = proposal.content.splitlines()
    for start in range(_MOST_LINES, len(lines), _MOST_LINES):
        if read_answer(f"Enter shows lines {start + 1} and on, n leaves it out: "):
            return False
        print_behind_bar(screen, "  reads", [spell_out(line) for line in lines[start : start + _MOST_LINES]])
    return read_answer("Accept it? [y/N] ") in ("y", "yes")


def _apply(settings: Settings, accepted: Sequence[Proposal], args: argparse.Namespace) -> None:
    who, now_s = user_name() if args.who is None else args.who, time()
    lines = [each for each in accepted if each.kind == "flow"]
    if lines:
        path = operator_file(settings, os.environ)
        text = read_config(path)
        for each in lines:
            text = allow_target(text, each.flow, each.target)
        write_config(path, text)
        settings = assemble.settings_from_environment(args.config)
        _say(args, f"changed {path}: grants from before are bound to the policy as it was, and end with it")
    journal = assemble.journal_from_settings(settings)
    texts = [pin_text(each.source, each.content, who=who, at_s=now_s, note="tune") for each in accepted if each.source]
    if texts:
        assemble.trust_from_settings(settings, journal).add(texts)
        _say(args, f"{format_count(len(texts), 'text')} vouched for: `lockgate trust --list`")
    # A grant is for the time in which calls are held.
    policy_hash = change_policy(settings.policy, enforce=True).hash
    rules = [each.rule._replace(policy_hash=policy_hash) for each in accepted if each.rule is not None]
    if rules:
        store = assemble.approvals_from_settings(settings, journal)
        for rule in rules:
            digest = hash_texts("lockgate grant/1", "tune", rule_to_json(rule))
            store.add_grant(Grant(os.urandom(8).hex(), rule, digest, who, now_s))
        _say(args, f"{format_count(len(rules), 'grant')} made, for the policy as it is now with `enforce = true`")


def _say(args: argparse.Namespace, line: str) -> None:
    print(make_visible(line), file=sys.stderr if args.json else sys.stdout)
