"""The `lockgate` command: run one subcommand, and turn every failure into a message and an exit code."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Collection
from contextlib import suppress
from importlib import import_module

import lockgate
from lockgate.cli.exit_codes import Exit
from lockgate.cli.parser import Parser
from lockgate.cli.terminal import make_visible
from lockgate.core.errors import LockgateError, quoted

TYPE_CHECKING = False  # what `typing` has, without the time it takes to load at every start
if TYPE_CHECKING:
    from typing import Never

# Each command is a module of this folder, imported only when it runs: hosts start `lockgate` once per call.
COMMANDS = {
    "check": "rule on the calls of a recorded session",
    "scan": "search files and folders for text that gives orders to an agent",
    "assess": "ask the configured verifier about a request",
    "serve": "run the local service that agents ask before each call, and its web page",
    "service": "have the system start `lockgate serve`, or say whether it answers",
    "token": "print or replace the tokens of the service",
    "init": "put Lockgate in front of Claude Code, or of a client's MCP servers",
    "hook": "answer one event of Claude Code; its hooks call this",
    "mcp": "check the tool calls between an MCP client and a server",
    "replay": "rule on past sessions by today's policy",
    "tune": "propose grants and exceptions that spare questions, from what was held",
    "eval": "count caught attacks and disturbed ordinary calls on labelled traces",
    "reconcile": "compare what ran with what was ruled on",
    "gate": "guard an LLM API against abuse, as a proxy or for a gateway",
    "approvals": "show and answer the calls that wait for a person",
    "grants": "list and revoke the rules that people made with an approval",
    "trust": "vouch for a file that agents read, list what is vouched for, or take it back",
    "audit": "verify, show and prove the journal of rulings",
    "stats": "sum up rulings: tiers, time, cost, and the rules to tune",
    "explain": "tell the story of one ruling, or say what a tool call would do",
    "rules": "list the rules, or explain one",
    "policy": "say what the policy means, test a policy file, or show ready flow rules",
    "config": "show or validate the configuration",
    "judge": "describe the embedded judge and the exams taken, or examine a model",
    "doctor": "check the installation, and say what to fix",
    "help": "show a page of the documentation",
    "completion": "print a script that completes this command line in a shell",
    "demo": "play a session: ordinary calls, a poisoned page, a hijacked call",
}

_EXITS = """\
exit codes:
  0    every call may continue, the request is safe, nothing was found, the log is sound
  1    some call must not run as it is, the request is not known to be safe, something was found, the log is broken
  2    no command, input, configuration or options that cannot be understood, output that cannot be written
  3    a call was held for a person, and `lockgate reconcile --fail-on-held` asked about it
  70   a bug in lockgate
  130  interrupted
  141  the reader of the output went away
"""


def make_parsers(with_options: Collection[str] = tuple(COMMANDS)) -> dict[str, Parser]:
    """Return the parser of each command by its name, and the top parser under the empty name.

    Only commands in `with_options` are imported; the others are known by name and help line.
    """
    top = Parser(
        prog="lockgate",
        usage="lockgate COMMAND [options]",
        description="Rules on every tool call of an LLM agent by where its arguments came from.",
        epilog=_EXITS + "\n`lockgate` says what to do next; `lockgate COMMAND --help` explains one command.",
    )
    top.add_argument("--version", action="version", version=f"lockgate {lockgate.__version__}")
    commands = top.add_subparsers(
        title="commands", dest="command", metavar="COMMAND [...]", prog="lockgate", parser_class=Parser
    )
    named = {name: commands.add_parser(name, help=said) for name, said in COMMANDS.items()}
    found = {"": top}
    for name, parser in named.items():
        found[name] = parser
        if name in with_options:
            # A command of several gives back a parser for each of them.
            found |= import_module(f"lockgate.cli.{name}").describe(parser) or {}
    return found


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code; never raise."""
    unheard = sys.stdout is None
    _open_streams()
    for stream in (sys.stdout, sys.stderr):
        # A character that the terminal's encoding lacks is printed as its number, rather than ending the command.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        if unheard:
            raise LockgateError("standard output is closed", hint="send it to a file, or to /dev/null")
        if sys.stderr.isatty():
            _announce_compiling()
        code = _run_command(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
        return Exit.UNREAD
    except KeyboardInterrupt:
        return _print_last_line("lockgate: interrupted", Exit.INTERRUPTED)
    except LockgateError as error:
        hint = f"\nhint: {make_visible(error.hint)}" if error.hint else ""
        return _print_last_line(f"lockgate: error: {make_visible(error.message)}{hint}", Exit.INVALID)
    except OSError as error:
        name = f": {quoted(os.fsdecode(error.filename))}" if isinstance(error.filename, str | bytes) else ""
        said = (error.strerror or type(error).__name__).lower()
        return _print_last_line(f"lockgate: error: {make_visible(said + name)}", Exit.INVALID)
    except Exception as error:  # noqa: BLE001  # a traceback exits with 1, which means that a call was flagged
        return _print_last_line(_describe_bug(error), Exit.BROKEN)
    return code


class _ClosedInput(io.RawIOBase):
    """Stands in for a closed standard input: reading it raises an error for the user."""

    def readable(self) -> bool:
        return True

    def readinto(self, _: object) -> Never:
        raise LockgateError("standard input is closed", hint="name a file, or send something to standard input")


def _open_streams() -> None:
    """Replace each standard stream that was closed before the start, where Python has None."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            # Occupies the stream's own descriptor: otherwise the next file opened would get it, and our output.
            handle = os.open(os.devnull, os.O_RDWR)
            closed = io.TextIOWrapper(io.BufferedReader(_ClosedInput()))
            setattr(sys, name, closed if name == "stdin" else open(handle, "w"))  # noqa: SIM115


def _announce_compiling() -> None:
    """Have the person at the terminal told, once, that the first run compiles the rules and takes longer."""
    import logging

    from lockgate.runtime.rule_cache import COMPILING_LOG

    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("lockgate: %(message)s"))
    first = iter([True])
    handler.addFilter(lambda _: next(first, False))
    COMPILING_LOG.handlers, COMPILING_LOG.propagate = [handler], False
    COMPILING_LOG.setLevel(logging.INFO)


def _run_command(argv: list[str]) -> int:
    if argv and not argv[0].startswith("-") and argv[0] not in COMMANDS:
        from lockgate.core.errors import suggest_closest

        raise LockgateError(
            f"unknown command {quoted(argv[0])}",
            hint=suggest_closest(argv[0], COMMANDS) or f"use {', '.join(COMMANDS)}",
        )
    wanted = next((word for word in argv if word in COMMANDS), None)
    try:
        args, unknown = make_parsers([wanted] if wanted else [])[""].parse_known_args(argv)
    except SystemExit as end:
        # Only --help and --version exit this way.
        return end.code if isinstance(end.code, int) else Exit.CLEAR
    if unknown:
        # Some commands take a file by an option only, and say so.
        meant = "" if unknown[0].startswith("-") else getattr(args, "meant", "")
        hint = meant or f"lockgate {args.command or ''}".rstrip() + " --help lists the options"
        raise LockgateError(f"unexpected {quoted(unknown[0])}", hint=hint)
    if args.command is None:
        from lockgate.cli.next_steps import next_steps

        print(next_steps())
        # Not CLEAR: a script that lost its command must not read this as a pass.
        return Exit.INVALID
    return int(args.run(args))


def _print_last_line(line: str, code: Exit) -> int:
    """Flush standard output, then print the last line to standard error, and return the code."""
    try:
        sys.stdout.flush()
        print(line, file=sys.stderr, flush=True)
    except OSError:
        _discard_output()
    return code


def _describe_bug(error: Exception) -> str:
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = f" at {os.path.basename(place.tb_frame.f_code.co_filename)}:{place.tb_lineno}" if place is not None else ""
    said = f"internal error: {type(error).__name__}{where}: {str(error)[:200]}"
    return f"lockgate: error: {make_visible(said)}\nhint: this is a bug in lockgate; please report this line"


def _discard_output() -> None:
    # The interpreter flushes again at exit, and would report the broken pipe a second time.
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
