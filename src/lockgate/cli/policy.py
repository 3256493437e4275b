"""`lockgate policy`: say what the policy in force means, test a policy file, and show the packs that come along."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lockgate import assemble
from lockgate.cli.exit_codes import Exit
from lockgate.cli.terminal import format_count, make_visible
from lockgate.core.errors import LockgateError
from lockgate.core.ruling.flow_rules import DENY, OUT, FlowRule, parse_flow, parse_label
from lockgate.gate.gate import Gate
from lockgate.settings.config import load_settings
from lockgate.settings.policy_packs import PolicyTest, list_packs, pack_path, read_tests

if TYPE_CHECKING:
    from lockgate.cli.parser import Parser
    from lockgate.core.ruling.policy import Policy
    from lockgate.core.vocabulary import Decision
    from lockgate.settings.config import Settings

_HELP = """\
Says what the policy in force means, tests a policy file by the rulings that it expects, and shows the packs of
flow rules that come with Lockgate.

example:
  $ lockgate policy explain
  $ lockgate policy packs
  $ lockgate policy pack mail-assistant >> ~/.config/lockgate/config.toml
  $ lockgate policy test lockgate.toml

A file is tested by its own [[test]] rows: what was read, the call, and the ruling that is expected. Only this file
counts, no judge is asked and nothing is recorded. `lockgate help flows` describes the rows.
Exit code 0: every ruling is as expected; 1: some ruling is not; 2: bad input.
"""


def describe(parser: Parser) -> None:
    parser.usage = "lockgate policy explain|test|packs|pack [FILE|NAME] [options]"
    parser.description = _HELP
    words = ("explain", "test", "packs", "pack")
    parser.add_argument("what", metavar="explain|test|packs|pack", choices=words, help="what to do")
    parser.add_argument("name", nargs="?", metavar="FILE|NAME", help="the file to test, or the pack to print")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--config", metavar="PATH", help="use this configuration file")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> Exit:
    if (args.name is None) is (args.what in ("test", "pack")):
        needs = {"test": "a FILE", "pack": "a NAME"}.get(args.what)
        raise LockgateError(
            f"`{args.what}` needs {needs}" if needs else f"`{args.what}` takes no name",
            hint="lockgate policy --help",
        )
    if args.what == "test":
        return _test(args)
    if args.what == "pack":
        print(pack_path(args.name).read_text(encoding="utf-8"), end="")
    elif args.what == "packs":
        packs = list_packs()
        shown = [f"{name:20}{said}" for name, said in packs.items()]
        print(json.dumps(packs, indent=2) if args.json else "\n".join(shown))
    else:
        policy = assemble.settings_from_environment(args.config).policy
        lines = explain_policy(policy)
        print(json.dumps({"policy": policy.hash, "says": lines}, indent=2) if args.json else "\n".join(lines))
    return Exit.CLEAR


def explain_policy(policy: Policy) -> list[str]:
    """Return what a policy means, in sentences."""
    lines = [f"Mode {policy.mode.value}."]
    if not policy.enforce:
        lines.append("Nothing is stopped: rulings are only recorded (observe mode).")
    if policy.research_scope:
        lines.append(f"Calls stay inside the scope: {make_visible(policy.research_scope)}")
    if policy.additional_patterns:
        lines.append(f"{format_count(len(policy.additional_patterns), 'pattern')} of your own are looked for.")
    if policy.additional_high_risk_tools:
        tools = ", ".join(policy.additional_high_risk_tools)
        lines.append(f"Always high-risk: {make_visible(tools)}.")
    lines += [f"What comes from {label.source} is {label.label}." for label in map(parse_label, policy.labels)]
    lines += [_flow_sentence(flow) for flow in map(parse_flow, policy.flows)]
    if not policy.flows:
        lines.append("No flow rules: `lockgate policy packs` has some to begin with.")
    return lines


def _flow_sentence(flow: FlowRule) -> str:
    what = f"anything once {flow.source} was read" if flow.key.startswith("after") else f"text from {flow.source}"
    what = f"a value of the kind {flow.source}" if flow.key == "value" else what
    to = "whatever reaches out" if flow.to == OUT else flow.to
    but = f" outside {', '.join(flow.outside)}" if flow.outside else ""
    then = "is denied" if flow.then == DENY else "waits for a person"
    return make_visible(f"{flow.name}: {what} to {to}{but} {then}.")


def _test(args: argparse.Namespace) -> Exit:
    path = Path(args.name).absolute()
    tests = read_tests(path)
    if not tests:
        raise LockgateError(f"{args.name} has no [[test]] rows", hint="`lockgate help flows` shows one")
    # Only this file: the user's own settings must not decide what it is tested against.
    nowhere = path.parent / ".no-other-settings"
    settings = load_settings(explicit=path, cwd=nowhere, environ={}, home=nowhere, system=nowhere / "system.toml")
    gate = Gate(settings.policy, scanner=assemble.scanner_from_settings(_with_cache(settings, args.config)))
    results = [(test, _rule(gate, test)) for test in tests]
    failed = [test for test, decision in results if not _is_expected(test, decision)]
    if args.json:
        rows = [
            {
                "name": test.name,
                "expected": test.expect.value,
                "ruled": decision.action.value,
                "ok": test not in failed,
                "why": decision.explanation,
            }
            for test, decision in results
        ]
        print(json.dumps({"policy": settings.policy.hash, "tests": rows}, indent=2))
    else:
        for test, decision in results:
            print(f"{'FAIL' if test in failed else 'ok':6}{make_visible(test.name)}: {decision.action.value}")
            if test in failed:
                wanted = test.expect.value + (f" by {test.finding}" if test.finding else "")
                why = decision.explanation or "nothing was found"
                print(f"      expected {make_visible(wanted)}; {make_visible(why)}")
        print(f"{len(tests) - len(failed)} of {format_count(len(tests), 'test')} as expected")
    return Exit.FLAGGED if failed else Exit.CLEAR


def _with_cache(settings: Settings, config: str | None) -> Settings:
    """Return the settings with the user's folder for compiled rules: compiling them takes seconds."""
    own = assemble.settings_from_environment(config)
    return replace(settings, cache_dir=own.cache_dir, state_dir=own.state_dir)


def _rule(gate: Gate, test: PolicyTest) -> Decision:
    session = gate.session(goal=test.goal)
    for source, text in test.read:
        session.add(text, source=source)
    return session.check(test.call, test.arguments)


def _is_expected(test: PolicyTest, decision: Decision) -> bool:
    named = not test.finding or any(found.rule == test.finding for found in decision.findings)
    return decision.would_be is test.expect and named
