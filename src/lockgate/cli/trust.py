"""`lockgate trust`: vouch for a text that agents read, list what is vouched for, and take it back.

A text may be an attacker's, so it is printed behind a bar, with every character visible.
"""

from __future__ import annotations

import argparse
import difflib
import glob
import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, NamedTuple

from lockgate import assemble
from lockgate.claude_code.context_files import MAX_FILE_BYTES, config_folders, instruction_files
from lockgate.cli.exit_codes import Exit
from lockgate.cli.mcp_trust import PREFIX, ServerTools, read_tools
from lockgate.cli.terminal import format_count, make_visible
from lockgate.cli.user import user_name
from lockgate.core.errors import LockgateError, quoted
from lockgate.gate.trust_pins import TrustPin, digest_of, pin_text
from lockgate.settings.files import read_regular

if TYPE_CHECKING:
    from lockgate.cli.parser import Parser
    from lockgate.core.text.scanner import Scanner
    from lockgate.gate.trust_store import TrustStore

_HELP = """\
Vouches for a text that agents read: what it asks for then counts as if you had said it, but never for what opens a
door (running code from the network, secrets, rights, start-up files). The text is pinned by its content: when it
changes, it counts as untrusted again, and this command shows what has changed.

example:
  $ lockgate trust                          # what is vouched for, and which instruction files here are not
  $ lockgate trust CLAUDE.md --note "ours"
  $ lockgate trust 'docs/agents/*.md'
  $ lockgate trust https://handbook.example/agents --content page.txt
  $ lockgate trust mcp:files                # the list of a server's tools; what they answer stays untrusted
  $ lockgate trust --revoke CLAUDE.md

With --content, the text of an address is taken from a file: Lockgate fetches nothing. `lockgate help trust` says more.
Exit code 0: done; 1: not done, or --list has a text that changed; 2: bad input.
"""

_BAR = "│ "
_MOST_LINES = 60
_BLANKS = re.compile(" {20,}")
_STATES = {"same": "as vouched for", "changed": "CHANGED since", "gone": "not there any more", "address": ""}


class _Text(NamedTuple):
    """A text to vouch for, under the source that it has when an agent reads it."""

    source: str
    content: str


def describe(parser: Parser) -> None:
    parser.usage = "lockgate trust [FILE|GLOB|URL|mcp:SERVER ...] [options]"
    parser.description = _HELP
    parser.add_argument(
        "what", nargs="*", metavar="FILE|GLOB|URL|mcp:SERVER", help="which texts; without any, list them"
    )
    parser.add_argument("--as", dest="level", choices=("vetted",), default="vetted", help="how far: only `vetted`")
    parser.add_argument("--full", action="store_true", help="show long texts in full")
    parser.add_argument("--note", metavar="TEXT", default="", help="why, for the record")
    parser.add_argument("--content", metavar="FILE", help="the text of an address")
    parser.add_argument("--revoke", action="store_true", help="take it back")
    parser.add_argument("--list", action="store_true", help="list what is vouched for")
    parser.add_argument("--who", metavar="NAME", help="who vouches; by default the user this runs as")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--json", action="store_true", help="print the list as JSON")
    parser.add_argument("--config", metavar="PATH", help="use this configuration file")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> Exit:
    settings = assemble.settings_from_environment(args.config)
    if args.list or not args.what:
        if args.revoke or args.content:
            raise LockgateError("say which text", hint="lockgate trust --list names them")
        return _print_list(assemble.trust_from_settings(settings), settings.state_dir, as_json=args.json)
    # Recorded before it counts: with a journal, no text becomes trusted without a record of who vouched for it.
    store = assemble.trust_from_settings(settings, assemble.journal_from_settings(settings))
    if args.revoke:
        return _revoke(store, args.what, settings.state_dir)
    servers = [read_tools(settings.state_dir, name) for name in dict.fromkeys(args.what) if name.startswith(PREFIX)]
    texts = [_Text(each.source, each.text) for each in servers]
    texts += _texts([name for name in args.what if not name.startswith(PREFIX)], args.content)
    code = _vouch(store, texts, assemble.scanner_from_settings(settings), args)
    return _accept(servers) if code is Exit.CLEAR else code


def _accept(servers: Sequence[ServerTools]) -> Exit:
    """Accept the tools that were shown; one that has changed meanwhile is left out, and its calls wait."""
    changed = [name for server in servers for name in server.accept()]
    if changed:
        print(f"changed meanwhile, and not accepted: {', '.join(map(make_visible, changed))}")
    return Exit.FLAGGED if changed else Exit.CLEAR


def _vouch(store: TrustStore, texts: Sequence[_Text], scanner: Scanner, args: argparse.Namespace) -> Exit:
    pinned = {pin.source: pin for pin in store.pins()}
    new: list[TrustPin] = []
    for text in texts:
        before = pinned.get(text.source)
        if before is not None and before.digest == digest_of(text.content):
            print(f"{make_visible(text.source)}: vouched for already")
            continue
        if not _show(text, before, scanner, full=args.full) and not args.yes:
            raise LockgateError(
                f"{text.source} is too long to be shown whole", hint="look at all of it first: lockgate trust … --full"
            )
        if not args.yes and not _says_yes(f"Vouch for {make_visible(text.source)}?"):
            print("nothing was changed")
            return Exit.FLAGGED
        new.append(pin_text(text.source, text.content, who=args.who or user_name(), at_s=time(), note=args.note[:500]))
    if new:
        store.add(new)
        print(f"{format_count(len(new), 'text')} vouched for; a running service knows at once")
    return Exit.CLEAR


def _texts(names: Sequence[str], content: str | None) -> Iterator[_Text]:
    """Yield the texts that the names stand for; raise LockgateError for a name that stands for none."""
    if content is not None and (len(names) != 1 or "://" not in names[0]):
        raise LockgateError("--content is for one address", hint="lockgate trust https://… --content FILE")
    for name in names:
        if "://" in name:
            if content is None:
                raise LockgateError(
                    f"{quoted(name)} is an address, and Lockgate fetches nothing",
                    hint="save the text, look at it, and name it with --content FILE",
                )
            yield _Text(f"web:{name}", _read(Path(content)))
            continue
        paths = [name] if os.path.lexists(name) else sorted(glob.glob(name, recursive=True))
        files = [path for path in paths if not os.path.isdir(path)]
        if not files:
            raise LockgateError(f"no file is called {quoted(name)}", hint="name files, or a pattern in quotes")
        for path in files:
            yield _Text(f"file:{os.path.abspath(path)}", _read(Path(path)))


def _read(path: Path) -> str:
    data = read_regular(path, MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise LockgateError(f"{quoted(path)} is larger than {MAX_FILE_BYTES:,} bytes", hint="vouch for smaller files")
    return data.decode("utf-8", "replace")


def _show(text: _Text, before: TrustPin | None, scanner: Scanner, *, full: bool) -> bool:
    """Print the text, or what has changed in it, and what the rules find in it; return whether all of it was shown."""
    lines = text.content.splitlines()
    if before is not None and before.kept:
        print(f"{make_visible(text.source)} has changed since {_date(before.at_s)}:")
        lines = list(difflib.unified_diff(before.kept.splitlines(), lines, "vouched for", "now", lineterm="", n=2))
    else:
        again = f", and has changed since {_date(before.at_s)}" if before is not None else ""
        print(f"{make_visible(text.source)} is new{again}:")
    shown = lines if full else lines[:_MOST_LINES]
    for line in shown:
        # Blanks at its end, or in the middle, must not push words off the screen.
        print(_BAR + _BLANKS.sub(lambda run: f"[{len(run[0])} blanks]", make_visible(line)))
    if len(lines) > len(shown):
        print(f"… and {format_count(len(lines) - len(shown), 'line')} more: --full shows them")
    rules = dict.fromkeys(hit.rule.id for part in scanner.scan(text.content).parts for hit in part.hits)
    if rules:
        print(f"the rules find in it: {', '.join(list(rules)[:5])}")
    return len(shown) == len(lines)


def _says_yes(question: str) -> bool:
    if not sys.stdin.isatty():
        raise LockgateError("no terminal to ask on", hint="look at the text, then say --yes")
    print(f"{question} [y/N] ", end="", flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _revoke(store: TrustStore, names: Sequence[str], state_dir: Path | None) -> Exit:
    pins = store.pins()
    wanted: list[TrustPin] = []
    for name in names:
        path = os.path.abspath(name)
        found = [pin for pin in pins if pin.source in (name, f"web:{name}", f"file:{path}") or pin.id == name]
        if not found:
            raise LockgateError(f"{quoted(name)} is not vouched for", hint="lockgate trust --list names what is")
        wanted += found
    for pin in wanted:
        if pin.source.startswith(PREFIX):
            with suppress(LockgateError):
                # Where its tools are not known any more, nothing of them is accepted either.
                read_tools(state_dir, pin.source).withdraw()
    store.revoke(wanted)
    print(f"{format_count(len(wanted), 'text')} taken back; sessions that have read it go on with what they had")
    return Exit.CLEAR


def _print_list(store: TrustStore, state_dir: Path | None, *, as_json: bool) -> Exit:
    pins = store.pins()
    states = {pin.id: _state(pin, state_dir) for pin in pins}
    unknown = [path for path in _instructions_here() if f"file:{path}" not in {pin.source for pin in pins}]
    if as_json:
        rows = [{**pin._asdict(), "kept": bool(pin.kept), "id": pin.id, "state": states[pin.id]} for pin in pins]
        print(json.dumps({"trusted": rows, "not_vouched_for": unknown}, ensure_ascii=True, indent=2))
    else:
        if not pins:
            print("no text is vouched for")
        for pin in pins:
            said = "; ".join(part for part in (_STATES[states[pin.id]], make_visible(pin.note)) if part)
            print(f"{pin.id}  {make_visible(pin.source)}  {_date(pin.at_s)} by {make_visible(pin.who)}  {said}")
        for path in unknown:
            print(f"not vouched for: {make_visible(path)}")
        if unknown:
            print("an agent reads these as instructions; if they are yours: lockgate trust FILE")
    return Exit.FLAGGED if "changed" in states.values() else Exit.CLEAR


def _state(pin: TrustPin, state_dir: Path | None) -> str:
    kind, _, path = pin.source.partition(":")
    if kind not in ("file", "mcp"):
        return "address"
    try:
        now = _read(Path(path)) if kind == "file" else read_tools(state_dir, pin.source).text
        return "same" if digest_of(now) == pin.digest else "changed"
    except (OSError, LockgateError):
        return "gone"


def _instructions_here() -> list[str]:
    """Return the instruction files that an agent would load in this folder."""
    found = (*instruction_files(os.getcwd()), *(os.path.join(folder, "CLAUDE.md") for folder in config_folders()))
    return [path for path in dict.fromkeys(found) if os.path.isfile(path)]


def _date(at_s: float) -> str:
    return datetime.fromtimestamp(at_s).astimezone().strftime("%Y-%m-%d")
