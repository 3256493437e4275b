"""`lockgate judge`: describe the embedded judge, or score a text."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

from lockgate import assemble
from lockgate.cli.exit_codes import Exit
from lockgate.cli.terminal import format_count, format_duration, make_console, make_visible
from lockgate.core.errors import LockgateError
from lockgate.verifiers import embedded_judge as embedded
from lockgate.verifiers.embedded_judge import INSTALL, NAMES

if TYPE_CHECKING:
    from lockgate.cli.parser import Parser
    from lockgate.verifiers.embedded_judge import EmbeddedJudge, JudgeDescription

_HELP = """\
`report` shows the files of the embedded judge, and the measurements of each preset: the share of attack
calls it kept, and of ordinary calls it cleared.

`score` prints the judge's score for a text (a file, or - for standard input): does it carry a request that is
foreign to it? A score is no verdict: documents are full of requests to people. For what a client sends, ask
`lockgate assess`.

example:
  $ lockgate judge report
  $ lockgate judge score page.html

`lockgate help embedded` says how to install and choose it.
"""


def describe(parser: Parser) -> None:
    parser.usage = "lockgate judge report|score [FILE|-] [options]"
    parser.description = _HELP
    parser.add_argument("what", metavar="report|score", choices=("report", "score"), help="what to do")
    parser.add_argument("file", nargs="?", metavar="FILE", help="the text to score; - for standard input")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--config", metavar="PATH", help="use this configuration file")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> Exit:
    if (args.file is None) is (args.what == "score"):
        raise LockgateError(
            "score needs a text" if args.what == "score" else "report reads no file",
            hint="lockgate judge score FILE, or - for standard input",
        )
    about = embedded.describe()
    judge = assemble.embedded_from_settings(assemble.settings_from_environment(args.config))
    if args.what == "score":
        return _print_score(judge, about, _read_input(args.file), as_json=args.json)
    absent = embedded.missing_packages()
    if not absent:
        embedded.verify()
    if args.json:
        print(json.dumps(_as_json(about, judge.preset, absent), indent=2))
    else:
        _draw_report(about, judge.preset, absent)
    return Exit.CLEAR


def _read_input(name: str) -> str:
    data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    return data.decode("utf-8", "replace")


def _print_score(judge: EmbeddedJudge, about: JudgeDescription, text: str, *, as_json: bool) -> Exit:
    judge.verify()
    judge.read_text("")  # loaded before the clock starts
    began = perf_counter()
    found = judge.read_text(text)
    took_us = (perf_counter() - began) * 1e6
    line = about.presets[judge.preset]
    said = "unsafe" if found.foreign >= line.unsafe_from else "unclear" if found.foreign >= line.safe_below else "safe"
    if said == "safe" and not found.whole:
        said = "unclear"
    if as_json:
        print(json.dumps({**found._asdict(), "verdict": said, "preset": judge.preset, "latency_us": round(took_us)}))
    else:
        part = "" if found.whole else " of a longer text"
        print(f"{found.foreign:+.2f}  {said} at {judge.preset} ({line.safe_below:+.2f} / {line.unsafe_from:+.2f})")
        print(f"{format_count(found.windows, 'window')}{part} in {format_duration(took_us)}")
    return Exit.CLEAR if said == "safe" else Exit.FLAGGED


def _as_json(about: JudgeDescription, preset: str, absent: list[str]) -> dict[str, object]:
    return {
        "name": about.name,
        "made": about.made,
        "preset": preset,
        "missing_packages": absent,
        "files": {name: {"sha256": digest, "bytes": size} for name, (digest, size) in about.files.items()},
        "weights": dict(zip(_names(), about.weights, strict=True)) | {"bias": about.bias},
        "presets": {name: line._asdict() for name, line in about.presets.items()},
        "measured": list(about.measured),
        "sources": list(about.sources),
    }


def _names() -> tuple[str, ...]:
    return NAMES


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
