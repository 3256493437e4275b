"""`lockgate approvals`: show and answer the calls that wait for a person.

An attacker may have written any text of a call. Such text is printed behind a bar, with every character visible, and
never begins a line, so it cannot imitate Lockgate's own words at the left edge.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from functools import partial
from time import time
from typing import TYPE_CHECKING

from rich.text import Text

from lockgate import assemble
from lockgate.cli.approvals_watch import watch
from lockgate.cli.exit_codes import Exit
from lockgate.cli.terminal import excerpt, make_console, make_visible
from lockgate.cli.user import user_name
from lockgate.core.errors import JournalUnavailable, LockgateError, quoted
from lockgate.core.ruling.approvals import FINISH, OPEN_STATES, ApprovalState, arguments_from_canonical, describe_call
from lockgate.core.ruling.grants import GrantOffer, GrantRule, GrantSpan, find_offer, offers_from_pending
from lockgate.core.ruling.tool_risk import explain_risk
from lockgate.core.text.readings import LOOKALIKES, fold_to_latin
from lockgate.gate.approval_views import approval_to_dict, describe_rule

if TYPE_CHECKING:
    from rich.console import Console

    from lockgate.cli.parser import Parser
    from lockgate.core.ruling.approvals import AnswerResult, Approval, ApprovalAnswer, PendingApproval, ShownDetails
    from lockgate.gate.approvals_sqlite import SqliteApprovals

_HELP = """\
Lists the calls that wait for a person, shows where the values of one came from, and answers it.
A yes lets exactly that call run, once, in that session, until it expires. A no is final.
With --for, a yes also makes a rule for such calls in this session, this project or everywhere:
`show` prints each rule whole, the narrowest first. `lockgate grants` lists and revokes them.
`watch` shows each call as soon as it waits and asks about it, until Ctrl-C.

example:
  $ lockgate approvals list
  $ lockgate approvals show 3f9a1c20
  $ lockgate approvals approve 3f9a1c20
  $ lockgate approvals approve 3f9a1c20 --for session
  $ lockgate approvals deny 3f9a1c20 --reason "I did not ask for this"
  $ lockgate approvals watch

An id may be shortened as long as only one id begins with it. `approve` shows the call and asks on
the terminal. `lockgate help approvals` says more.
Exit code 0: done, the answer counts; 1: the answer does not count, or was not given; 2: bad input.
"""

_LABEL = 10
_BAR = "│ "
_SHORT_ID = 4
# Longer values are shown by their beginning and end, and cannot be approved until --full has shown them whole.
_MOST_CHARACTERS = 6_000
# A run of blanks this long is printed as its length: an attacker could push the rest of a value off the screen.
_BLANKS = re.compile(" {40,}")
_TOKEN = re.compile(r"[^\s\"'<>(),;]+")
_MOST_NOTES = 8


def describe(parser: Parser) -> None:
    parser.usage = "lockgate approvals list|show|approve|deny|watch [ID] [options]"
    parser.description = _HELP
    words = ("list", "show", "approve", "deny", "watch")
    parser.add_argument("what", metavar="list|show|approve|deny|watch", choices=words, help="what to do")
    parser.add_argument("id", nargs="?", metavar="ID", help="which call, as `list` names it")
    parser.add_argument("--all", action="store_true", help="also list calls that were answered or have expired")
    parser.add_argument("--ended", action="store_true", help="list only those: how they ended, by whom, and why")
    parser.add_argument("--full", action="store_true", help="show long values in full")
    parser.add_argument(
        "--for",
        dest="span",
        metavar="once|session|project|always",
        choices=("once", *(span.value for span in GrantSpan)),
        default="once",
        help="how far a yes reaches; once without it",
    )
    parser.add_argument("--who", metavar="NAME", help="who answers; by default the user this runs as")
    parser.add_argument("--reason", metavar="TEXT", default="", help="why, for the record")
    parser.add_argument("--yes", action="store_true", help="approve without asking; needs the whole ID")
    parser.add_argument("--json", action="store_true", help="print JSON, one object per call")
    parser.add_argument("--config", metavar="PATH", help="use this configuration file")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> Exit:
    _refuse_idle_options(args)
    settings = assemble.settings_from_environment(args.config)
    # The store records an answer in the journal in the same step; an answer that cannot be recorded does not count.
    journal = assemble.journal_from_settings(settings) if args.what in ("approve", "deny", "watch") else None
    store: SqliteApprovals = assemble.approvals_from_settings(settings, journal)
    if args.what == "list":
        return _print_list(store, args)
    if args.what == "watch":
        return watch(store, args, tell=partial(_tell_change, args), ask=partial(_ask_now, store, args))
    approval = _find_approval(store, args)
    if args.what == "show":
        if args.json:
            print_json(_as_json(approval))
        else:
            _draw(approval, full=args.full)
            _draw_successor(store, approval)
        return Exit.CLEAR
    return _answer_approval(store, approval, args)


def _refuse_idle_options(args: argparse.Namespace) -> None:
    """Refuse an option that has no effect on this subcommand: the user expects one."""
    idle = [
        ("an ID", args.id is not None, ("show", "approve", "deny")),
        ("--all", args.all, ("list",)),
        ("--ended", args.ended, ("list",)),
        ("--full", args.full, ("show", "approve", "watch")),
        ("--for", args.span != "once", ("approve",)),
        ("--who", args.who is not None, ("approve", "deny", "watch")),
        ("--reason", bool(args.reason), ("approve", "deny", "watch")),
        ("--yes", args.yes, ("approve",)),
    ]
    for name, given, words in idle:
        if given and args.what not in words:
            raise LockgateError(f"{name} has no effect on `{args.what}`", hint=f"it belongs to {' and '.join(words)}")
    if args.what not in ("list", "watch") and not args.id:
        raise LockgateError(f"`{args.what}` needs an ID", hint="lockgate approvals list names them")
    if args.what == "approve" and args.json and not args.yes:
        raise LockgateError("--json leaves no room to show the call", hint="leave it out, or say --yes")


def _find_approval(store: SqliteApprovals, args: argparse.Namespace) -> Approval:
    if len(args.id) < _SHORT_ID:
        raise LockgateError(f"{quoted(args.id)} is too short for an ID", hint=f"type at least {_SHORT_ID} characters")
    ids = store.find(args.id)
    if len(ids) > 1:
        raise LockgateError(f"{quoted(args.id)} could be {', '.join(map(quoted, ids))}", hint="type more of it")
    approval = store.get(ids[0], time()) if ids else None
    if approval is None:
        raise LockgateError(f"no call waits as {quoted(args.id)}", hint="lockgate approvals list names them")
    if args.yes and args.id != approval.pending.id:
        # No person looks at the call, and a shortened id may match another call by now.
        raise LockgateError("--yes needs the whole ID", hint=f"it is {approval.pending.id}, if that is the one")
    return approval


def _print_list(store: SqliteApprovals, args: argparse.Namespace) -> Exit:
    every = store.every(time())
    kept = [each for each in every if args.all or (each.state in OPEN_STATES) is not args.ended]
    if args.json:
        for each in kept:
            print_json(_as_json(each))
        return Exit.CLEAR
    screen = make_console()
    if not kept:
        screen.print(Text("nothing is kept" if args.all or args.ended else "no call waits for a person"))
        return Exit.CLEAR
    for each in kept:
        screen.print(Text.assemble((each.pending.id, "bold"), f"  {_state_text(each)}"), soft_wrap=True)
        call = f"{excerpt(each.pending.tool, 60)} {excerpt(each.pending.arguments, 400)}"
        print_behind_bar(screen, "", [_count_blanks(call)], most=2)
        if each.answered is not None:
            print_behind_bar(screen, "", [_answer_line(each.answered)], most=2)
        if each.why:
            print_behind_bar(screen, "", [spell_out(each.why)], most=2)
    screen.print(Text("\nlockgate approvals show ID shows one with where its values came from", style="dim"))
    return Exit.CLEAR


def _tell_change(args: argparse.Namespace, approval: Approval) -> None:
    if args.json:
        print_json(_as_json(approval))
        return
    call = f"{excerpt(approval.pending.tool, 60)} {excerpt(approval.pending.arguments, 200)}"
    print(f"{approval.pending.id}  {_state_text(approval)}", flush=True)
    print_behind_bar(make_console(), "", [_count_blanks(call)], most=2)


def _ask_now(store: SqliteApprovals, args: argparse.Namespace, approval: Approval) -> None:
    """Show a call that waits, and take a plain yes or no; all else leaves it waiting."""
    whole = _draw(approval, full=args.full)
    if not whole:
        print("the call is longer than what was shown: answer it with lockgate approvals approve ID --full")
        return
    said = read_answer("approve this call? Type yes or no, Enter leaves it waiting: ")
    if said in ("yes", "no"):
        chosen = argparse.Namespace(**{**vars(args), "what": "approve" if said == "yes" else "deny", "yes": True})
        _answer_approval(store, approval, chosen)
    print(flush=True)


def _answer_approval(store: SqliteApprovals, approval: Approval, args: argparse.Namespace) -> Exit:
    yes, pending = args.what == "approve", approval.pending
    who = user_name() if args.who is None else args.who
    offer = _chosen_offer(pending, args.span)
    digest, span = (pending.digest, "") if offer is None else (offer.digest, args.span)
    if yes and not args.yes and approval.state is ApprovalState.WAITING:
        _require_terminal(args)
        if not _show_and_confirm(approval, offer, full=args.full):
            return _print_and_exit("nothing was recorded: the call still waits", Exit.FLAGGED)
    try:
        heard = store.answer(
            pending.id,
            digest=digest,
            yes=yes,
            who=who,
            now_s=time(),
            reason=args.reason,
            span=span,
            # What --who says is no proof.
            person=user_name(),
        )
    except JournalUnavailable as error:
        raise LockgateError(
            f"the answer does not count, since it could not be recorded: {error.message}", hint=error.hint
        ) from error
    code = Exit.CLEAR if heard.counted else Exit.FLAGGED
    if args.json:
        value = {"id": pending.id, "digest": digest, "counted": heard.counted, "state": heard.state.value}
        print_json({**value, "who": who} | ({"for": span} if span else {}))
        return code
    made = f"\ngranted for {span}: lockgate grants lists it as {pending.id}" if span and heard.counted else ""
    return _print_and_exit(_outcome_text(heard, pending, who) + made, code)


def _show_and_confirm(approval: Approval, offer: GrantOffer | None, *, full: bool) -> bool:
    if not _draw(approval, full=full):
        raise LockgateError("the call is longer than what was shown", hint="add --full to see it whole, then answer")
    if offer is None:
        return _confirm("approve this call")
    draw_rule(make_console(), offer.rule, offer.digest)
    return _confirm("approve this call, and make this rule")


def _chosen_offer(pending: PendingApproval, span: str) -> GrantOffer | None:
    """Return the rule that this answer is to make; None for `once`."""
    offer = find_offer(pending, span)
    if offer is None and span != "once":
        offered = ", ".join(["once", *(each.rule.span.value for each in offers_from_pending(pending))])
        hint = pending.shown.facts.barred or f"offered: {offered}"
        raise LockgateError(f"this call cannot be granted for {span}", hint=hint)
    return offer


def _outcome_text(heard: AnswerResult, pending: PendingApproval, who: str) -> str:
    if heard.state is ApprovalState.WAITING and pending.shown.people > 1:
        if heard.counted:
            return f"the first yes of two: another person has to approve it too\nrecorded as {excerpt(user_name(), 60)}"
        return "your yes is counted already: another person has to approve it too, with a token or account of their own"
    if heard.counted:
        until = f", once, before {format_moment(pending.expires_s)}" if heard.state is ApprovalState.GRANTED else ""
        done = (
            "approved: this call may run" if heard.state is ApprovalState.GRANTED else "denied: this call will not run"
        )
        return f"{done}{until}\nrecorded as {excerpt(who, 60)}\n{pending.digest}"
    before = heard.approval.answered if heard.approval is not None else None
    if before is not None and heard.state is not ApprovalState.EXPIRED:
        word = "approved" if before.yes else "denied"
        used = ", and the call has run" if heard.state is ApprovalState.USED else ""
        return f"too late: {word} by {excerpt(before.who, 60)} at {format_moment(before.at_s)} already{used}"
    return {
        ApprovalState.EXPIRED: f"too late: this expired at {format_moment(pending.expires_s)}, which counts as a no",
        ApprovalState.VOIDED: f"too late: the question is void{_why_void(heard.approval)}; it may be asked again",
    }.get(heard.state, "the answer was not recorded: the question has changed or is gone")


def _why_void(approval: Approval | None) -> str:
    return f", for {excerpt(approval.why, 200)}" if approval is not None and approval.why else ""


def _require_terminal(args: argparse.Namespace) -> None:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise LockgateError(
            "no terminal to ask on",
            hint=f"look at it with lockgate approvals show {args.id}, then approve it with its whole ID and --yes",
        )


def _confirm(question: str) -> bool:
    return read_answer(f"{question}? Type yes: ") == "yes"


def read_answer(question: str) -> str:
    """Ask on the terminal; return the answer in lower case, empty if there is none."""
    with suppress(ImportError, OSError, ValueError):
        import termios

        # Drop what was typed before the question appeared: it is no answer to it.
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    print(question, end="", flush=True)
    try:
        return sys.stdin.readline().strip().lower()
    except UnicodeDecodeError:
        return ""


def _print_and_exit(text: str, code: Exit) -> Exit:
    print(text)
    return code


def _as_json(approval: Approval) -> dict[str, object]:
    return approval_to_dict(approval)


def print_json(value: dict[str, object]) -> None:
    # ASCII only: a bidirectional control in a JSON string would still act on the terminal that shows it.
    print(json.dumps(value, ensure_ascii=True), flush=True)


def _draw(approval: Approval, *, full: bool) -> bool:
    """Print the whole question; return whether every character of the call was printed."""
    screen = make_console()
    pending, shown = approval.pending, approval.pending.shown
    screen.print(Text.assemble(("approval  ", "dim"), (pending.id, "bold"), f"  {_state_text(approval)}"))
    if approval.why:
        print_behind_bar(screen, "void", [spell_out(approval.why)])
    if shown.replaces:
        screen.print(Text.assemble((f"{'instead':{_LABEL}}", "dim"), f"of {make_visible(shown.replaces)}"))
    print_behind_bar(screen, "session", [make_visible(pending.session)])
    if shown.goal:
        print_behind_bar(screen, "goal", [make_visible(shown.goal)])
    if shown.people > 1:
        screen.print(Text.assemble((f"{'people':{_LABEL}}", "dim"), "two different persons have to approve this"))
    print_behind_bar(screen, "tool", [make_visible(pending.tool)])
    arguments = arguments_from_canonical(pending.arguments)
    lines, left_out = _argument_lines(arguments, full=full)
    print_behind_bar(screen, "arguments", lines)
    if left_out:
        screen.print(Text(f"{'':{_LABEL}}{left_out:,} characters are not shown; --full shows them", style="bold red"))
    if pending.bound.files:
        files = [f"{path}  {said[:19] if said.startswith('sha256:') else said}" for path, said in pending.bound.files]
        print_behind_bar(screen, "runs", [make_visible(file) for file in files])
    for note in _lookalike_notes([pending.tool, *_all_texts(arguments)]):
        print_behind_bar(screen, "beware", [note])
    why = f"{shown.reason}, {shown.risk} risk" if shown.reason else "not said"
    screen.print(Text.assemble((f"{'why':{_LABEL}}", "dim"), make_visible(why)))
    if shown.explanation:
        print_behind_bar(screen, "", [make_visible(shown.explanation)])
    _draw_grounds(screen, shown)
    if approval.answered is not None:
        print_behind_bar(screen, "answered", [_answer_line(approval.answered)])
    _draw_meaning(screen, pending)
    screen.print(Text.assemble((f"{'digest':{_LABEL}}", "dim"), pending.digest), soft_wrap=True)
    if approval.state is ApprovalState.WAITING:
        _draw_offers(screen, pending)
    return not left_out


def _draw_successor(store: SqliteApprovals, approval: Approval) -> None:
    """Print which question has taken the place of one that has ended."""
    for each in store.every(time()):
        if each.pending.shown.replaces == approval.pending.id:
            print(f"{'now':{_LABEL}}{each.pending.id}  {_state_text(each)}")


def _draw_offers(screen: Console, pending: PendingApproval) -> None:
    """Print the rules that a yes may make, the narrowest first; they differ in where they hold and how long."""
    offers = offers_from_pending(pending)
    if not offers:
        why = pending.shown.facts.barred or "not said"
        screen.print(Text.assemble((f"{'grants':{_LABEL}}", "dim"), make_visible(f"none can be made: {why}")))
        return
    draw_rule(screen, offers[0].rule, offers[0].digest)
    for offer in offers[1:]:
        where = dict(describe_rule(offer.rule))["in"]
        print_behind_bar(screen, "", [spell_out(f"--for {offer.rule.span.value}: the same in {where}")])
        until = f"until {format_moment(offer.rule.expires_s)}, {offer.digest}"
        screen.print(Text(f"{'':{_LABEL}}{until}"), soft_wrap=True)


def draw_rule(screen: Console, rule: GrantRule, digest: str) -> None:
    """Print a rule whole: what it covers, where, until when."""
    heading = f"for {rule.span.value}: covers a call only if all of this fits"
    screen.print(Text.assemble((f"{'rule':{_LABEL}}", "dim"), heading))
    for label, text in describe_rule(rule):
        print_behind_bar(screen, f"  {label}", [spell_out(text)])
    screen.print(Text.assemble((f"{'  until':{_LABEL}}", "dim"), format_moment(rule.expires_s)))
    screen.print(Text.assemble((f"{'  digest':{_LABEL}}", "dim"), digest), soft_wrap=True)


def _draw_grounds(screen: Console, shown: ShownDetails) -> None:
    """Print what each tier said, where the values came from, and the findings."""
    if shown.tiers:
        print_behind_bar(
            screen, "tiers", [f"{said.tier}, {spell_out(said.by)}: {spell_out(said.said)}" for said in shown.tiers]
        )
    drawn: set[tuple[str, str, str]] = set()
    for passage in shown.passages:
        origin = passage.origin
        told = "also in the goal or a trusted block" if origin.known else "not in the goal"
        kind = f" ({make_visible(origin.sink)})" if origin.sink else ""
        read = f", read as {make_visible(origin.how)}" if origin.how not in ("exact", "folded") else ""
        text = f"{spell_out(passage.before)}»{spell_out(passage.text)}«{spell_out(passage.after)}"
        head = f'{make_visible(origin.argument)}{kind} = "{spell_out(origin.value)}"'
        place = f"from {make_visible(origin.block)}, {make_visible(origin.source)}{read}, {told}:"
        # A value may stand in several places of one argument, and come from one place.
        if (head, place, text) not in drawn:
            drawn.add((head, place, text))
            print_behind_bar(screen, "origin", [head, place, text])
    for found in shown.findings:
        excerpt = f': "{spell_out(found.excerpt)}"' if found.excerpt else ""
        print_behind_bar(screen, "finding", [f"{make_visible(found.rule)} in {make_visible(found.where)}{excerpt}"])
    if shown.left_out:
        screen.print(Text(f"{'':{_LABEL}}and {shown.left_out:,} more findings and origins"))


def _draw_meaning(screen: Console, pending: PendingApproval) -> None:
    """Print what the call would do, and what a yes and a no mean."""
    step = pending.tool == FINISH
    # The end of a step is no tool, so its name says nothing about what it could do.
    named = [] if step else [make_visible(f"by its name: {explain_risk(pending.tool)}")]
    print_behind_bar(screen, "would do", [spell_out(describe_call(pending.bound)), *named])
    what = "step" if step else "call"
    meaning = (
        f"A yes lets exactly this {what} {'end' if step else 'run'}, once, in this session, before "
        f"{format_moment(pending.expires_s)}. Another argument, another policy, a changed file that it runs or "
        f"anything untrusted that the agent reads meanwhile voids it. A no to this {what} stands for the rest "
        "of the session, whatever the agent reads next."
    )
    for at, line in enumerate(Text(meaning).wrap(screen, max(20, screen.width - _LABEL))):
        screen.print(Text.assemble((f"{'' if at else 'meaning':{_LABEL}}", "dim"), line))


def _answer_line(said: ApprovalAnswer) -> str:
    because = f": {make_visible(said.reason)}" if said.reason else ""
    return f"{'yes' if said.yes else 'no'} by {make_visible(said.who)} at {format_moment(said.at_s)}{because}"


def print_behind_bar(screen: Console, label: str, lines: list[str], *, most: int | None = None) -> None:
    """Print lines that an agent or attacker wrote, folded to the screen, each piece behind the bar."""
    width = max(10, screen.width - _LABEL - len(_BAR))
    drawn = 0
    for line in lines:
        pieces = list(Text(line).wrap(screen, width, overflow="fold")) or [Text("")]
        for piece in pieces:
            if most is not None and drawn == most:
                return
            screen.print(Text.assemble((f"{'' if drawn else label:{_LABEL}}{_BAR}", "dim"), piece), soft_wrap=True)
            drawn += 1


def _argument_lines(arguments: dict[str, object], *, full: bool) -> tuple[list[str], int]:
    """Return the arguments as indented JSON with every character visible, and how many characters were left out."""
    lines: list[str] = []
    left_out = 0
    for line in json.dumps(arguments, indent=2, ensure_ascii=False).split("\n"):
        if len(line) > _MOST_CHARACTERS and not full:
            half = _MOST_CHARACTERS // 2
            cut = len(line) - 2 * half
            left_out += cut
            lines += [*_break_lines(line[:half]), f"[{cut:,} characters are not shown]", *_break_lines(line[-half:])]
        else:
            lines += _break_lines(line)
    if not full and len(lines) > _MOST_LINES:
        half = _MOST_LINES // 2
        gone = lines[half:-half]
        left_out += sum(map(len, gone))
        lines = [*lines[:half], f"[{len(gone):,} lines are not shown]", *lines[-half:]]
    return lines, left_out


_MOST_LINES = 400
# A line break in a JSON string: a backslash and an n that no other backslash stands before.
_BREAK = re.compile(r"(?<!\\)(?:\\\\)*\\n")


def _break_lines(line: str) -> Iterator[str]:
    """Yield one line of JSON, broken after each visible `\\n` in it; later pieces are marked as continued.

    Without the mark an attacker could write what looks like the end of a value and another argument.
    """
    done = 0
    for found in _BREAK.finditer(line):
        yield ("↳ " if done else "") + _count_blanks(make_visible(line[done : found.end()]))
        done = found.end()
    if done < len(line) or not done:
        yield ("↳ " if done else "") + _count_blanks(make_visible(line[done:]))


def spell_out(text: str) -> str:
    return _count_blanks(make_visible(text))


def _count_blanks(text: str) -> str:
    return _BLANKS.sub(lambda run: f" [{len(run[0]):,} blanks] ", text)


def _all_texts(value: object) -> Iterator[str]:
    """Yield every text in the arguments, their names included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from _all_texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _all_texts(item)


def _lookalike_notes(texts: list[str]) -> list[str]:
    """Return a note for each word that looks Latin and is not: a person cannot see the difference."""
    notes: list[str] = []
    for text in texts:
        if text.isascii():
            continue
        for word in _TOKEN.findall(text):
            odd = sorted({ch for ch in word if ch in LOOKALIKES})
            latin = fold_to_latin(word, frozenset({"compat"}))
            if odd and latin.isascii():
                codes = ", ".join(f"U+{ord(ch):04X}" for ch in odd[:6])
                note = f'"{spell_out(word[:80])}" reads as "{latin[:80]}" and is not: it holds {codes}'
                if note not in notes:
                    notes.append(note)
            if len(notes) == _MOST_NOTES:
                return notes
    return notes


def _state_text(approval: Approval) -> str:
    if approval.state in OPEN_STATES:
        left = max(0.0, approval.pending.expires_s - time())
        return f"{approval.state.value}, {_format_remaining(left)} left"
    return f"{approval.state.value} at {format_moment(approval.ended_s)}"


def _format_remaining(seconds: float) -> str:
    whole = int(seconds)
    if whole < 120:
        return f"{whole} s"
    return f"{whole // 60} min" if whole < 7200 else f"{whole // 3600} h"


def format_moment(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M:%S %z")
    except (OverflowError, OSError, ValueError):
        return f"{seconds:.0f}"
