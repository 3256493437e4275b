"""`lockgate init`: put Lockgate in front of Claude Code or of a client's MCP servers, or remove it again."""

from __future__ import annotations

import argparse
import difflib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from lockgate import assemble
from lockgate.claude_code import hook_command as hook
from lockgate.claude_code import settings_file as claude_code
from lockgate.claude_code.hook_command import DEFAULT_URL, LOOPBACK, HookFailure, is_proxied, parse_url
from lockgate.claude_code.service_start import START_VARIABLES
from lockgate.claude_code.settings_file import LEAST_VERSION, HookForm
from lockgate.cli.doctor import claude_code as claude_code_checks
from lockgate.cli.exit_codes import Exit
from lockgate.cli.terminal import format_count, make_console, make_visible
from lockgate.coding_agents.hook_events import CODING_AGENTS
from lockgate.coding_agents.hook_settings import apply_agent_change, hooks_path, plan_agent_change
from lockgate.core.errors import LockgateError, quoted
from lockgate.core.ruling.opinions import standing_of
from lockgate.gate.judge_budget import DAY_QUESTIONS
from lockgate.mcp import client_config as mcp_config
from lockgate.runtime import json_edit as json_text
from lockgate.service.auth import FILES, VARIABLES, check_token, make_token
from lockgate.service.http import Caller
from lockgate.settings.config import WhenDown
from lockgate.settings.config_edit import (
    add_pack,
    add_value,
    installed_packs,
    operator_file,
    read_config,
    remove_pack,
    write_config,
)
from lockgate.settings.model_names import AUTO, HOST
from lockgate.settings.policy_packs import list_packs, pack_path
from lockgate.verifiers.local_servers import find_local_servers

if TYPE_CHECKING:
    from lockgate.cli.parser import Parser
    from lockgate.settings.config import Settings

_HELP = """\
Writes Lockgate into the settings of an agent or a client. Sums the change up, shows its lines on request, asks,
keeps everything else byte for byte, and keeps a copy of the old file. Running it again changes nothing; --remove
takes Lockgate out.

example:
  $ lockgate init claude-code
  $ lockgate init claude-code --project
  $ lockgate init claude-code --remove
  $ lockgate init codex
  $ lockgate init mcp .mcp.json
  $ lockgate init mcp claude_desktop_config.json --server github

claude-code writes hooks into settings.json: --user (the default) for all of your sessions, --project for every
user of this folder, --local for you in this folder. The hooks run a command, which asks the service, believes only an
answer that proves to be the service's, and needs no token in the file. With --http Claude Code asks by itself, with the
agent's token in the file: no process is started for each call, and a program that has taken the service's port is
believed. The service is at the address under [server], or at --url.

Hooks in your own files start the service when it is not running, as you and with your folders of today; --no-start
leaves that to you. `lockgate service install` has the system start it.

Then it asks whether a model may judge what the rules doubt, and writes `triage_model = "auto"` into your own
configuration: the first model that has passed `lockgate judge exam` judges, and until then none is asked.
`lockgate help who-judges` says who sees what.

--pack NAME adds a pack of flow rules to your own configuration (`lockgate policy packs` lists them), and with --remove
takes it out again. In a terminal you are asked which one you want.

codex, gemini, copilot and opencode write the same command as hooks into your own settings of that coding agent. What
it runs although a hook failed differs: `lockgate help coding-agents` says how.

mcp puts `lockgate mcp` in front of each server that a client's configuration names.

`lockgate help tutorial/claude-code` goes through it.
Exit code 0: done, or nothing to do; 1: you said no; 2: a file that cannot be changed.
"""


def describe(parser: Parser) -> None:
    parser.usage = "lockgate init claude-code|codex|gemini|copilot|opencode|mcp [CONFIG.json] [options]"
    parser.description = _HELP
    names = ["claude-code", *CODING_AGENTS, "mcp"]
    parser.add_argument("what", metavar="WHAT", choices=names, help=f"what to protect: {', '.join(names)}")
    parser.add_argument("file", metavar="CONFIG.json", nargs="?", help="mcp: the client's configuration")
    scopes = parser.add_mutually_exclusive_group()
    for scope, said in (
        ("user", "claude-code: all of your sessions (the default)"),
        ("project", "claude-code: this folder, for every user: commit the file"),
        ("local", "claude-code: this folder, for you"),
    ):
        scopes.add_argument(f"--{scope}", dest="scope", action="store_const", const=scope, help=said)
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument("--command", action="store_true", help="claude-code: a command asks the service (the default)")
    forms.add_argument(
        "--http", action="store_true", help="claude-code: Claude Code asks, and cannot check that it is the service"
    )
    parser.add_argument("--url", metavar="URL", default="", help="where the service is, if not as configured")
    parser.add_argument("--no-start", action="store_true", help="the hooks do not start the service")
    parser.add_argument("--server", metavar="NAME", action="append", help="mcp: only this server; may be repeated")
    parser.add_argument("--pack", metavar="NAME", help="add these flow rules to your own configuration")
    parser.add_argument("--remove", action="store_true", help="take out what was put in; a pack only with --pack")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--json", action="store_true", help="print one JSON object; needs --yes to change anything")
    parser.add_argument("--config", metavar="PATH", help="use this configuration file")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> Exit:
    if args.pack is not None:
        pack_path(args.pack)
    if args.what == "mcp":
        return _with_pack(args, _init_mcp(args))
    if args.file or args.server:
        raise LockgateError("CONFIG.json and --server are for mcp", hint=f"lockgate init {args.what}")
    init = _init_claude_code if args.what == "claude-code" else _init_coding_agent
    return _with_pack(args, init(args))


def _with_pack(args: argparse.Namespace, done: Exit) -> Exit:
    # A user who just said no is not asked about packs as well.
    return max(done, _change_pack(args)) if done is Exit.CLEAR or args.pack is not None else done


def _init_coding_agent(args: argparse.Namespace) -> Exit:
    """Put our hooks into the user's settings of Codex, Gemini CLI, Copilot CLI or OpenCode, or take them out."""
    if args.scope not in (None, "user") or args.http:
        raise LockgateError(
            f"--project, --local and --http are for claude-code: the hooks of {args.what} stand in your own settings"
        )
    if args.remove and args.url:
        raise LockgateError("--url has no effect with --remove")
    command = None if args.remove else _agent_command(args)
    change = plan_agent_change(args.what, command, hooks_path(args.what))
    if not _confirm_change(args, str(change.path), change.diff, empty=change.is_empty):
        return Exit.FLAGGED
    kept = None if change.is_empty else apply_agent_change(change)
    notes = [] if args.remove else [_AGENT_NOTES[args.what], f"`lockgate help {args.what}` says what it cannot see"]
    notes += _choose_judge(args)
    _report_change(args, change.path, kept, notes, is_empty=change.is_empty)
    return Exit.CLEAR


def _agent_command(args: argparse.Namespace) -> list[str]:
    settings = assemble.settings_from_environment(args.config)
    url = _check_url(args.url, command=True) or _default_url(settings, "user")
    start = () if args.no_start else _start_words(url, args.config)
    return [*_hook_program(), args.what, "--url", url, *(["--start", *start] if start else [])]


def _report_change(
    args: argparse.Namespace, path: Path, kept: Path | None, notes: Sequence[str], *, is_empty: bool
) -> None:
    if args.json:
        said = {"path": str(path), "changed": not is_empty, "kept": None if kept is None else str(kept)}
        print(json.dumps({**said, "notes": notes}, indent=2))
        return
    if is_empty:
        print(f"nothing to do: {path} {'has no Lockgate hook' if args.remove else 'is as it should be'}")
    else:
        print(f"changed {path}" + (f"; as it was: {kept}" if kept else ""))
    for note in notes:
        print(note)


_AGENT_NOTES = {
    "codex": "now trust the hooks by hand: start codex, type /hooks, and look for `lockgate`. UNTIL THEN CODEX RUNS "
    "NONE OF THEM, and says nothing",
    "gemini": "start gemini anew: it reads its settings when it starts",
    "copilot": "start copilot anew: it reads its hooks when it starts",
    "opencode": "start opencode anew: it loads its plugins when it starts",
}


# The coding agents whose own model can judge, and who then sees the case.
_OWN_MODELS = {"claude-code": ("Claude Code's own small model", "Anthropic"), "codex": ("Codex's own model", "OpenAI")}
# A key that the environment may hold, with a model of its provider that is quick and cheap.
_KEYS = {"ANTHROPIC_API_KEY": "claude-haiku", "OPENAI_API_KEY": "gpt-luna"}
_SUPERVISOR = ("supervision", "model")


def _choose_judge(args: argparse.Namespace) -> list[str]:
    """Have `auto` choose the judge, which asks no model before an exam; return what to say and the next command."""
    try:
        return [] if args.remove else list(_judge_notes(args))
    except (LockgateError, OSError) as error:
        # The hooks stand already, and their report is still to come.
        return [f"no judge was chosen: {error}"]


def _judge_notes(args: argparse.Namespace) -> Iterator[str]:
    settings = assemble.settings_from_environment(args.config)
    named = settings.policy.triage_model
    judge = assemble.triage_from_settings(settings) if named in ("", AUTO) else None
    if named not in ("", AUTO):
        yield f"`triage_model` is {quoted(named)} in your configuration, and stays so"
    elif judge is not None and standing_of(judge).has_passed:
        yield f"{make_visible(judge.name)} judges: it has passed its exam"
    elif named or _agrees_to_judge(args):
        if not named:
            path = operator_file(settings, os.environ)
            text = add_value(read_config(path), "security.verification", "triage_model", AUTO)
            write_config(path, text if settings.policy.supervisor_model else add_value(text, *_SUPERVISOR, AUTO))
            yield f'wrote `triage_model = "{AUTO}"` to {path}: a model judges once it has passed its exam, not before'
        who = "no model judges" if judge is None else "the embedded judge judges"
        yield f"until then {who}, and only what the rules doubt is held back (narrow): it waits for you unless cleared"
        yield from _exam_notes(args.what)
    else:
        yield "no model was chosen as a judge; `lockgate help who-judges` says how to choose one later"


def _agrees_to_judge(args: argparse.Namespace) -> bool:
    if args.yes or args.json or not sys.stdin.isatty():
        return bool(args.yes)
    model, seen_by = _OWN_MODELS.get(args.what, ("A model that you name", "its provider"))
    print(
        f"{model} can judge doubtful calls once it has passed an exam: {seen_by} sees your goal, the call and excerpts"
        " of what the agent has read, secrets taken out, and a question costs about 1,500 tokens of your plan or key,"
        f" at most {DAY_QUESTIONS:,} questions a day."
    )
    try:
        return input("May it? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _exam_notes(agent: str) -> Iterator[str]:
    """Yield the commands that let a model take the exam: the agent's own first, then what else is here."""
    own = f"{HOST}:{agent}`, about 1,000 questions of your plan or key" if agent in _OWN_MODELS else "MODEL`"
    yield f"next: `lockgate judge exam {own}; `lockgate help who-judges` lists who can judge"
    for key in filter(os.environ.get, _KEYS):
        yield f"{key} is set: `lockgate judge exam {_KEYS[key]}` would use it, and cost money"
    for server in find_local_servers():
        yield f"{server}: `lockgate judge exam {make_visible(server.judges[0])}` would send nothing elsewhere"


def _change_pack(args: argparse.Namespace) -> Exit:
    """Put a pack of flow rules into the operator's configuration, or take it out; in a terminal, ask which."""
    path = operator_file(assemble.settings_from_environment(args.config), os.environ)
    before = read_config(path)
    installed = installed_packs(before)
    name = args.pack if args.pack is not None else _ask_for_pack(args, installed)
    if not name:
        if args.remove and installed and not args.json:
            print(f"{path} keeps the pack {installed[0]}: --remove --pack {installed[0]} takes it out")
        return Exit.CLEAR
    after = remove_pack(before, name) if args.remove else add_pack(before, name)
    diff = "".join(difflib.unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True), n=1))
    if not _confirm_change(args, str(path), diff, empty=after == before):
        return Exit.FLAGGED
    if after != before:
        write_config(path, after)
    if not args.json:
        said = (
            f"{'removed' if args.remove else 'added'} the pack {name}" if after != before else "the pack is as it was"
        )
        print(f"{said}: {path}; `lockgate policy explain` says what is in force")
    return Exit.CLEAR


def _ask_for_pack(args: argparse.Namespace, installed: Sequence[str]) -> str:
    if args.remove or args.yes or args.json or installed or not sys.stdin.isatty():
        return ""
    packs = list_packs()
    print("Packs of flow rules say which text may reach which place:")
    for name, said in packs.items():
        print(f"  {name:20}{said}")
    try:
        answer = input("Add one of them to your configuration? Its name, or Enter for none: ").strip()
    except EOFError:
        return ""
    if answer and answer not in packs:
        print(
            f"no pack is called {quoted(answer)}: none is added; `lockgate init {args.what} --pack NAME` does it later"
        )
    return answer if answer in packs else ""


def _init_claude_code(args: argparse.Namespace) -> Exit:
    scope, cwd = args.scope or "user", Path.cwd()
    path = claude_code.settings_path(scope, cwd=cwd, environ=os.environ)
    home = Path(os.path.expanduser("~"))
    within = cwd if scope != "user" else path.parent if not path.is_relative_to(home) else home
    form = None
    if not args.remove:
        _refuse_old_claude_code()
        form = _hook_form(scope, assemble.settings_from_environment(args.config), args)
    elif args.url:
        raise LockgateError("--url has no effect with --remove")
    plan = claude_code.plan_change(path, form, within=within)
    if not _confirm_change(args, str(plan.path), plan.diff, empty=plan.is_empty):
        return Exit.FLAGGED
    kept = None if plan.is_empty else claude_code.apply_change(plan)
    notes = [] if form is None else [*_conflict_notes(cwd), *_next_step_notes(scope, form, had_http=plan.had_http)]
    notes += _choose_judge(args)
    _report_change(args, plan.path, kept, notes, is_empty=plan.is_empty)
    return Exit.CLEAR


def _hook_form(scope: str, settings: Settings, args: argparse.Namespace) -> HookForm:
    if args.http and scope == "project":
        raise LockgateError("--http needs the agent's token in the file, and a project's file is shared")
    if args.http and settings.server.when_down is WhenDown.OBSERVE:
        # Only a command can let an event pass with a mark.
        raise LockgateError('`server.when_down = "observe"` needs hooks in the command form', hint="leave --http out")
    url = _check_url(args.url, command=not args.http) or _default_url(settings, scope)
    if scope == "project":
        # Other machines have another path, service and token.
        return HookForm("lockgate", url)
    token = ""
    if args.http:
        given = os.environ.get(VARIABLES[Caller.AGENT], "").strip()
        if not given and settings.state_dir is None:
            raise LockgateError("there is no folder to keep tokens in", hint="set HOME or XDG_STATE_HOME")
        folder = settings.state_dir or Path()
        token = (
            check_token(given, VARIABLES[Caller.AGENT])
            if given
            else make_token(folder / FILES[Caller.AGENT], Caller.AGENT)
        )
    program, *words = _hook_program()
    start = () if args.no_start or words == ["hook"] else _start_words(url, args.config)
    return HookForm(program, url, token, tuple(words), start)


def _start_words(url: str, config: str | None) -> tuple[str, ...]:
    """Return the variables of a service that the hooks start; none where it cannot be this user's own."""
    if os.name != "posix" or parse_url(url)[0] not in LOOPBACK or any(map(os.environ.get, VARIABLES.values())):
        return ()
    found = {name: os.environ.get(name, "") for name in START_VARIABLES}
    found |= {"HOME": os.path.expanduser("~"), **({"LOCKGATE_CONFIG": os.path.abspath(config)} if config else {})}
    return tuple(f"{name}={value}" for name, value in found.items() if os.path.isabs(value))


def _default_url(settings: Settings, scope: str) -> str:
    host = settings.server.host
    # A shared file cannot name a port of one machine.
    return (
        DEFAULT_URL if scope == "project" else f"http://{f'[{host}]' if ':' in host else host}:{settings.server.port}"
    )


def _check_url(url: str, *, command: bool) -> str:
    """Return the address from --url; raise if it is no address, or would carry a token without encryption."""
    if not url:
        return ""
    try:
        host, _ = parse_url(url)
    except HookFailure as error:
        raise LockgateError(f"{quoted(url)}: {error}", hint="for example --url http://127.0.0.1:7717") from None
    if not command and host not in LOOPBACK:
        raise LockgateError(
            f"{quoted(url)} is not on this machine, and would get the token without encryption",
            hint="give the address of a tunnel on this machine",
        )
    return url.rstrip("/")


def _hook_program() -> list[str]:
    """Return the hook's command line: isolated, so that no variable or program of the same name replaces it."""
    if sys.executable and Path(hook.__file__).is_file():
        return [sys.executable, "-I", "-S", str(Path(hook.__file__).absolute())]
    return ["lockgate", "hook"]


def _conflict_notes(cwd: Path) -> list[str]:
    """Return what in Claude Code's settings would disable or redirect our hooks."""
    notes = []
    places = [claude_code.settings_path(scope, cwd=cwd, environ=os.environ) for scope in ("user", "project", "local")]
    for number, path in enumerate(dict.fromkeys(map(os.path.realpath, places))):
        try:
            settings = json_text.parse_json_object(claude_code.read_settings(Path(path)) or "{}")
        except (OSError, LockgateError):
            notes.append(f"{path} cannot be read: look whether it switches hooks off")
            continue
        if settings.get("disableAllHooks") not in (None, False):
            notes.append(f"{path} disables all hooks, ours too: take `disableAllHooks` out of it")
        # The user set their own variables; those of a folder came with the folder.
        if number and (names := claude_code.steering_settings(settings)):
            said = ", ".join(quoted(name) for name in names[:8])
            notes.append(
                f"{path} sets {said}, which can lead our hooks elsewhere: take them out unless you put them in"
            )
    return notes


def _refuse_old_claude_code() -> None:
    found = claude_code_checks.installed_version()
    if found and found < LEAST_VERSION:
        raise LockgateError(
            f"Claude Code {'.'.join(map(str, found))} runs a call whose hook has failed",
            hint=f"update it to {'.'.join(map(str, LEAST_VERSION))} or newer: claude update",
        )


def _next_step_notes(scope: str, form: HookForm, *, had_http: bool) -> list[str]:
    notes = []
    if form.token:
        notes.append(
            "over HTTP Claude Code believes any program that has taken the service's port: without --http a command"
            " asks in its place, and checks"
        )
    elif had_http:
        notes.append("these hooks asked over HTTP, where any program on the port is believed; now a command asks")
    answers = claude_code_checks.service_answers(form.url)
    if form.start and not answers:
        notes.append(f"nothing answers at {form.url} yet: the first prompt starts the service, and it stays")
    elif not answers:
        notes.append(
            f"nothing answers at {form.url}, and without the service Claude Code runs no tool: start it with"
            " `lockgate serve`; one that listens elsewhere needs `port` under [server] in config.toml, or --url here"
        )
        notes.append("`lockgate service install` has it start with your session")
    if form.token and is_proxied(os.environ, form.url):
        notes.append(
            "HTTP_PROXY is set, and Claude Code would ask through it: set NO_PROXY=127.0.0.1, or leave --http out"
        )
    if scope == "project":
        notes.append("every user of this folder needs `lockgate` on their PATH and `lockgate serve` running")
    notes.append(
        "a folder's own settings can still switch hooks off: `lockgate help claude-code` says how to prevent it"
    )
    notes.append("`lockgate doctor --claude-code` sends a harmless and a hostile call through it")
    return notes


def _init_mcp(args: argparse.Namespace) -> Exit:
    if args.scope or args.command or args.http or args.url:
        raise LockgateError("--user, --project, --local, --command, --http and --url are for claude-code")
    if not args.file:
        raise LockgateError("no configuration given", hint="lockgate init mcp CONFIG.json, e.g. .mcp.json")
    plan = mcp_config.plan_change(Path(args.file), servers=args.server or (), remove=args.remove)
    if not _confirm_change(args, str(plan.path), plan.diff, empty=plan.empty):
        return Exit.FLAGGED
    if not plan.empty:
        mcp_config.apply_plan(plan)
    if args.json:
        said = {"path": str(plan.path), "changed": not plan.empty}
        print(json.dumps({**said, "changes": list(plan.changes), "skipped": list(plan.skipped)}, indent=2))
        return Exit.CLEAR
    for line in (*plan.changes, *plan.skipped):
        print(line)
    print(f"nothing to do in {plan.path}" if plan.empty else f"changed {plan.path}")
    return Exit.CLEAR


def _confirm_change(args: argparse.Namespace, path: str, diff: str, *, empty: bool) -> bool:
    """Sum the change up, show it on request, and return whether the user agrees."""
    if empty or args.yes:
        return True
    if args.json or not sys.stdin.isatty():
        raise LockgateError(f"no terminal to ask whether {quoted(path, 200)} may be changed", hint="add --yes")
    lines = [line[:1] for line in diff.splitlines()[2:]]
    added, removed = lines.count("+"), lines.count("-")
    print(f"{make_visible(path)}: {format_count(added, 'line')} in, {removed:,} out; everything else stays as it is")
    try:
        while (answer := input("Change it? [y/N, d shows the lines] ").strip().lower()) in ("d", "diff"):
            _show_diff(path, diff)
    except EOFError:
        answer = ""
    if answer in ("y", "yes"):
        return True
    print(f"nothing was changed: {make_visible(path)} is as it was")
    return False


def _show_diff(path: str, diff: str) -> None:
    screen = make_console()
    screen.print(Text(make_visible(path), "bold"), soft_wrap=True)
    for line in diff.splitlines()[2:]:
        style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
        screen.print(Text(make_visible(line), style), soft_wrap=True)
    screen.file.flush()
