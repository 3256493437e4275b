"""`lockgate judge`: describe the embedded judge and all exams, or let a model take the judges' exam."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from random import SystemRandom
from secrets import token_hex
from time import strftime, time
from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

from lockgate import assemble
from lockgate.cli.approvals import read_answer
from lockgate.cli.eval import show_progress
from lockgate.cli.exit_codes import Exit
from lockgate.cli.terminal import make_console, make_visible
from lockgate.cli.user import user_name
from lockgate.core.errors import LockgateError
from lockgate.core.judging.exam import LOOKS, MOST_QUESTIONS, ExamResult, Sitting, Tally
from lockgate.core.judging.judge_messages import question_sha256
from lockgate.core.ruling.opinions import Authority
from lockgate.settings.model_names import AUTO, EMBEDDED, NO_JUDGE
from lockgate.settings.prices import cost_usd, parse_prices
from lockgate.verifiers import embedded_judge as embedded
from lockgate.verifiers.command_judge import CommandJudge
from lockgate.verifiers.embedded_judge import INSTALL, NAMES
from lockgate.verifiers.exam_run import load_bank, take_exam
from lockgate.verifiers.exam_store import ExamStore, result_as_json
from lockgate.verifiers.local_servers import find_local_servers

if TYPE_CHECKING:
    from lockgate.cli.parser import Parser
    from lockgate.verifiers.embedded_judge import JudgeDescription

_HELP = """\
`report` shows the files of the embedded judge, and the measurements of each preset: the share of attack
calls it kept, and of ordinary calls it cleared. Then it lists the exams that models took, and what each may clear.

`exam` puts up to 1,020 questions to a model (by default the one of `triage_model`) and says whether it may clear
calls. Only a person at a terminal can start it; it says first what it costs.

example:
  $ lockgate judge report
  $ lockgate judge exam claude-haiku

`lockgate help embedded` says how to install and choose it, `lockgate help exam` how the exam works.
"""

# Measured over the bank, with some room.
_TOKENS_IN, _TOKENS_OUT = 1_500, 50
_MAY_CLEAR = {
    Authority.UNEXAMINED: "not examined",
    Authority.FAILED: "may clear nothing",
    Authority.REPLACED: "is not asked",
    Authority.PASSED: "may clear calls of severity 2",
    Authority.DISTINCTION: "may clear calls of severity 2, and of severity 3 when Tier 3 agrees",
}


def describe(parser: Parser) -> None:
    parser.usage = "lockgate judge report|exam [MODEL] [options]"
    parser.description = _HELP
    parser.add_argument("what", metavar="report|exam", choices=("report", "exam"), help="what to do")
    parser.add_argument("model", nargs="?", metavar="MODEL", help="the model to examine")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--config", metavar="PATH", help="use this configuration file")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> Exit:
    if args.what == "exam":
        return _take_exam(args)
    if args.model is not None:
        raise LockgateError("report takes no model", hint="lockgate judge exam MODEL")
    settings = assemble.settings_from_environment(args.config)
    exams = assemble.exams_from_settings(settings) if settings.state_dir is not None else None
    if not args.json:
        if exams is not None:
            _print_exams(exams)
        for server in find_local_servers():
            names = ", ".join(server.judges)
            print(make_visible(f"{server}, not trusted, and not asked before an exam: {names}"))
    about, preset, absent = embedded.describe(), settings.policy.judge_preset, embedded.missing_packages()
    if not absent:
        embedded.verify()
    if args.json:
        results = [result_as_json(result) for result in exams.results()] if exams is not None else []
        print(json.dumps({**_as_json(about, preset, absent), "exams": results}, indent=2))
    else:
        _draw_report(about, preset, absent)
    return Exit.CLEAR


def _take_exam(args: argparse.Namespace) -> Exit:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise LockgateError("only a person at a terminal can start an exam", hint="type the command yourself")
    settings = assemble.settings_from_environment(args.config)
    name = args.model or settings.policy.triage_model
    if name in ("", AUTO, NO_JUDGE, EMBEDDED):
        raise LockgateError("no model to examine", hint="lockgate judge exam MODEL; the embedded judge takes no exam")
    judge = assemble.named_judge(settings, name)
    exams = assemble.exams_from_settings(settings, who=user_name())
    if not exams.tries_left(judge.identity, time()):
        raise LockgateError(f"{judge.name} took two exams within a day", hint="try again tomorrow")
    prices = parse_prices(settings.supervision.prices)
    cost = cost_usd(judge.name, _TOKENS_IN, _TOKENS_OUT, prices, on=strftime("%Y-%m-%d"))
    price = "at a price that is not known here" if cost is None else f"for at most ${cost * MOST_QUESTIONS:.2f}"
    tokens = _TOKENS_IN * MOST_QUESTIONS / 1e6
    print(f"{judge.name} gets up to {MOST_QUESTIONS:,} questions, about {tokens:.1f} million tokens, {price}.")
    if read_answer("Type yes to start: ") != "yes":
        print("nothing was asked")
        return Exit.FLAGGED
    if not judge.probe():
        raise LockgateError(f"{judge.name} cannot be reached, or is logged out", hint="nothing was asked; try again")
    if isinstance(judge, CommandJudge):
        # A program that changed is not asked until a person confirms it: this is how.
        judge.confirm_program()
    sitting = Sitting(load_bank(), assemble.scanner_from_settings(settings), SystemRandom())
    begun = sitting.result(judge.identity, time())._replace(name=name, id=token_hex(8))
    exams.begin(begun)
    try:
        with show_progress(MOST_QUESTIONS, "questions") as advance:
            take_exam(judge, sitting, advance)
    except KeyboardInterrupt:
        counts = sitting.asked > MOST_QUESTIONS // 2
        if counts:
            exams.add(sitting.result(judge.identity, time())._replace(name=name), begun)
        else:
            exams.forget(begun)
        print(f"given up after {sitting.asked} questions, without a result; {'it counts' if counts else 'not counted'}")
        return Exit.INTERRUPTED
    result = sitting.result(judge.identity, time())._replace(name=name)
    exams.add(result, begun)
    if args.json:
        print(json.dumps(result_as_json(result), indent=2))
    else:
        _print_result(result)
    return Exit.FLAGGED if result.standing is Authority.FAILED else Exit.CLEAR


def _print_result(result: ExamResult) -> None:
    for stage, tally in ((stage, Tally(**fields)) for stage, fields in result.questions.items()):
        kept, cleared = tally.bounds(LOOKS[-1][2])
        print(f"{stage}: kept {tally.kept} of {tally.unwanted} unwanted calls (at least {kept:.1%}),", end=" ")
        print(f"cleared {tally.cleared} of {tally.wanted} wanted ones (at least {cleared:.1%});", end=" ")
        print(f"kept {tally.resisted} of {tally.addressed} that speak to the judge; {tally.unread} unreadable")
    for kind, tally in ((kind, Tally(**fields)) for kind, fields in result.kinds.items()):
        print(f"  {kind:<10} kept {tally.kept:>3}/{tally.unwanted:<3}  cleared {tally.cleared:>3}/{tally.wanted:<3}")
    print(f"{result.standing.value} {result.why}".strip() + f": {_MAY_CLEAR[result.standing]}")


def _print_exams(exams: ExamStore) -> None:
    for identity in dict.fromkeys(result.identity for result in exams.results()):
        held = exams.standing(identity, question_sha256(), time())
        said = f"{held.authority.value} {held.examined_on}: {_MAY_CLEAR[held.authority]} {held.why}".strip()
        print(make_visible(f"exam of {identity.route}/{identity.model} {identity.endpoint}: {said}"))


def _as_json(about: JudgeDescription, preset: str, absent: list[str]) -> dict[str, object]:
    return {
        "name": about.name,
        "made": about.made,
        "preset": preset,
        "missing_packages": absent,
        "files": {name: {"sha256": digest, "bytes": size} for name, (digest, size) in about.files.items()},
        "weights": dict(zip(NAMES, about.weights, strict=True)) | {"bias": about.bias},
        "presets": {name: line._asdict() for name, line in about.presets.items()},
        "measured": list(about.measured),
        "sources": list(about.sources),
    }


class MeasuredRow(NamedTuple):
    """One data set of the measurements, with the shares that each preset kept and cleared."""

    name: str
    size: str
    auroc: str
    presets: Mapping[str, tuple[str, str]]


def measured_rows(about: JudgeDescription) -> Iterator[MeasuredRow]:
    for each in about.measured:
        of = {"calls": "calls", "texts": "texts"}.get(str(each.get("of")), "ones")
        found = each.get("auroc")
        shares = {
            name: (f"{preset['kept']:.1%}", f"{preset['cleared']:.1%}")
            for name, preset in dict(each.get("presets", {})).items()
            if name in about.presets and {"kept", "cleared"} <= set(preset)
        }
        size = f"{each.get('attacks', 0):,} {of} of attackers, {each.get('ordinary', 0):,} ordinary ones"
        yield MeasuredRow(str(each.get("set", "")), size, f"{found:.3f}" if isinstance(found, float) else "-", shares)


def _draw_report(about: JudgeDescription, preset: str, absent: list[str]) -> None:
    screen = make_console()

    def say(line: str, style: str = "") -> None:
        screen.print(Text(make_visible(line), style=style), soft_wrap=True)

    size = sum(size for _, size in about.files.values()) / 1e6
    state = f"not usable: {' and '.join(absent)} not installed ({INSTALL})" if absent else "intact"
    say(f"{about.name}, made {about.made}, {size:.1f} MB, {state}; preset {preset}")
    for name, (digest, _) in about.files.items():
        say(f"  {name}  sha256:{digest}", "dim")
    for row in measured_rows(about):
        say("")
        say(f"{row.name}: {row.size}, AUROC {row.auroc}")
        for name, (kept, cleared) in row.presets.items():
            say(f"  {name:<9} keeps {kept:>6} of the attacks, clears {cleared:>6} of the ordinary ones")
    if about.sources:
        say("")
        say("taught with")
    for source in about.sources:
        said = ", ".join(str(source[part]) for part in ("name", "licence", "what") if source.get(part))
        say(f"  {said}", "dim")
