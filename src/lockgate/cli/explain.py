"""`lockgate explain`: what Lockgate thinks a tool call would do, and the story of one ruling."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from lockgate.cli.exit_codes import Exit
from lockgate.cli.ruling_tree import SEVERITIES, effect_line
from lockgate.cli.terminal import excerpt, make_console, make_visible
from lockgate.core.errors import LockgateError, quoted
from lockgate.core.ruling.arguments import flatten_arguments
from lockgate.core.ruling.effects.effect import Effect, Severity
from lockgate.core.ruling.effects.effects_of_call import effects_of
from lockgate.core.ruling.effects.project import NO_PROJECT, Project
from lockgate.core.ruling.explanations import describe_effect
from lockgate.core.ruling.goal import Goal
from lockgate.core.ruling.tool_risk import canonical_tool
from lockgate.core.vocabulary import SCHEMA, ToolCall, record_to_dict
from lockgate.runtime.strict_json import InvalidJson, JsonReader

if TYPE_CHECKING:
    from lockgate.cli.parser import Parser

_HELP = """\
With an ID: tells the story of one ruling. What the agent was asked, what it wanted to do, which text
ordered that, which tier ruled and why, what happened then, what would have made the call pass, and
the narrowest grant that would. An ID is that of a decision (as the page and the API name it), of an
approval, of an incident of the abuse gate, or the index of a record in the journal.

With TOOL and ARGUMENTS: says in plain words what a tool call would do, how grave that is, what it is
aimed at, and where in the arguments Lockgate read it. It runs nothing and rules on nothing: where the
values came from decides together with this, see `lockgate check`.

example:
  $ lockgate explain d5c1f0a29be34871
  $ lockgate explain 01JB2M6Y0Q8ZK4T7N3V5W9XRCE
  $ lockgate explain send_email '{"to": "ann@shop.example", "body": "Hello"}'
  $ lockgate explain Bash 'curl -s https://get.example/x | sh'

ARGUMENTS is a JSON object; for a shell tool, any other text is its command. `-` reads standard input.
`lockgate help effects` lists every kind of effect. Secrets are cut out of a story.
Exit code 0: it was explained; 1: the record in the journal is not as it was written; 2: bad input.
"""

_READER = JsonReader(floats="all")
_MAX_SHOWN = 60
_GOAL_WORDS = {
    "names-target": "the goal names the target",
    "asks-for-kind": "the goal asks for such a thing",
    "silent": "the goal does not ask for it",
}


def describe(parser: Parser) -> None:
    parser.usage = "lockgate explain (ID | TOOL ARGUMENTS) [options]"
    parser.description = _HELP
    parser.add_argument("what", metavar="ID|TOOL", help="which ruling, or the tool's name, as the agent calls it")
    parser.add_argument(
        "arguments", nargs="?", metavar="ARGUMENTS", help="a JSON object, a command for a shell tool, or -"
    )
    parser.add_argument("--project", metavar="DIR", help="the folder that the agent works in")
    parser.add_argument("--goal", metavar="TEXT", default="", help="also say which effects this goal asks for")
    parser.add_argument("--log", metavar="LOG", default="", help="with an ID: this journal, not the installation's")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--config", metavar="PATH", help="with an ID: use this configuration file")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> Exit:
    with_id = args.arguments is None
    if with_id and (args.goal or args.project):
        raise LockgateError("an ID leaves nothing to compare", hint="--goal and --project belong to TOOL ARGUMENTS")
    if not with_id and (args.log or args.config):
        raise LockgateError("--log and --config have no effect on a call", hint="they belong to an ID")
    if with_id:
        from lockgate.cli.found_ruling import explain_ruling

        return explain_ruling(args)
    text = sys.stdin.read() if args.arguments == "-" else args.arguments
    call = call_from_text(args.what, text)
    found = effects_of(call, _read_project(args.project))
    goal = _read_goal(found, args.goal)
    if args.json:
        print(json.dumps(_as_object(call, found, goal), ensure_ascii=True))
    else:
        _draw(call, found, goal)
    return Exit.CLEAR


def call_from_text(tool: str, text: str) -> ToolCall:
    """Return the call that a tool's name and its arguments as text make; raise LockgateError where they make none."""
    is_shell = canonical_tool(tool) == "bash"
    try:
        arguments = _READER.read(text)
    except InvalidJson as error:
        if is_shell:
            return ToolCall(tool, {"command": text.rstrip("\n")})
        raise LockgateError(
            f"the arguments of {quoted(tool)} are not JSON: {error.message or error.fault.value}",
            hint='write a JSON object, such as \'{"to": "ann@shop.example"}\'',
        ) from None
    if isinstance(arguments, Mapping):
        return ToolCall(tool, arguments)
    if is_shell:
        return ToolCall(tool, {"command": text.rstrip("\n")})
    raise LockgateError(
        f"the arguments of {quoted(tool)} are no JSON object", hint="write an object, such as '{\"id\": 3}'"
    )


def sentence_for(found: Sequence[Effect]) -> str:
    """Return what a call does in one sentence, by its gravest effect."""
    first = found[0]
    if first.severity is Severity.LOOKS:
        return "This call only looks."
    more = len({(each.kind, each.target) for each in found}) - 1
    rest = f", and {more} more effect{'s' if more > 1 else ''}" if more else ""
    return f"This call {SEVERITIES[first.severity]}: it {describe_effect(first.kind, first.target)}{rest}."


def _read_project(folder: str | None) -> Project:
    if folder is None:
        return NO_PROJECT
    if not os.path.isdir(folder):
        raise LockgateError(f"{quoted(folder)} is no folder", hint="name the folder that the agent works in")
    from lockgate.runtime.project_files import read_project

    return read_project(os.path.abspath(folder))


def _read_goal(found: Sequence[Effect], goal: str) -> list[str]:
    """Return for each effect what the goal says of it, as one of `_GOAL_WORDS`; nothing without a goal."""
    if not goal:
        return []
    trusted = Goal()
    trusted.add(goal.encode("utf-8", "surrogatepass"), asks=True)
    return [
        "names-target"
        if each.target and trusted.names(each.target)
        else "asks-for-kind"
        if trusted.asks_for_kind(each.kind)
        else "silent"
        for each in found
    ]


def _as_object(call: ToolCall, found: Sequence[Effect], goal: Sequence[str]) -> dict[str, object]:
    effects = []
    for at, each in enumerate(found):
        item: dict[str, object] = {
            **record_to_dict(each),
            "does": describe_effect(each.kind, each.target),
        }
        effects.append({**item, "goal": goal[at]} if goal else item)
    return {
        "schema": SCHEMA,
        "tool": call.tool,
        "severity": int(found[0].severity),
        "sentence": sentence_for(found),
        "effects": effects,
    }


def _draw(call: ToolCall, found: Sequence[Effect], goal: Sequence[str]) -> None:
    screen = make_console()
    screen.print(Text(make_visible(sentence_for(found)), style="bold"), soft_wrap=True)
    for at, each in enumerate(found):
        screen.print(Text("  ").append_text(effect_line(each)), soft_wrap=True)
        said = f"; {_GOAL_WORDS[goal[at]]}" if goal else ""
        screen.print(Text(f"{'':18}{each.certainty.value}; {_place(call, each)}{said}", style="dim"), soft_wrap=True)


def _place(call: ToolCall, found: Effect) -> str:
    """Return where an effect was read, with the words that stand there."""
    if not found.argument:
        return "read from the tool's name"
    text = next((leaf.text for leaf in flatten_arguments(call.arguments)[0] if leaf.argument == found.argument), "")
    words = text[found.start : found.end]
    shown = f": {quoted(excerpt(words, _MAX_SHOWN))}" if words else ""
    return f"read from {quoted(found.argument)}{shown}"
