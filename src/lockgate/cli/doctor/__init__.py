"""`lockgate doctor`: check what Lockgate needs on this machine, and say how to fix it."""

from __future__ import annotations

import argparse
import importlib.util
import json
import logging
import os
import platform
import stat
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from threading import Thread
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

import lockgate
from lockgate import assemble
from lockgate.abuse_gate import defaults as wiring
from lockgate.claude_code.hook_command import HookFailure, ask_service
from lockgate.cli.exit_codes import Exit
from lockgate.cli.reasons import REASON_TEXTS
from lockgate.cli.terminal import format_duration, make_console, make_visible
from lockgate.coding_agents.hook_events import CODING_AGENTS
from lockgate.core.errors import LockgateError, quoted
from lockgate.core.judging.case import JudgeCase
from lockgate.core.ruling.decide import effective_width, may_clear
from lockgate.core.ruling.opinions import Authority, Ruling, Silent, Triage, standing_of
from lockgate.core.ruling.pipeline import Stage
from lockgate.core.vocabulary import Action
from lockgate.gate.judge import Inquiry
from lockgate.gate.judge_evidence import FACTS, Evidence
from lockgate.journal.keys import verify
from lockgate.journal.log import find_shard, newest_head
from lockgate.runtime.loopback import local_url
from lockgate.runtime.private_files import writable_by_others
from lockgate.runtime.rule_cache import RuleCache
from lockgate.settings.config import Settings
from lockgate.settings.key_files import is_key, key_file_warning
from lockgate.settings.model_names import AUTO, EMBEDDED, NO_JUDGE, is_program
from lockgate.settings.verifiers import unknown_variables, verifier_settings_from_env
from lockgate.verifiers import embedded_judge as embedded
from lockgate.verifiers.adapters import RemoteAdapter

if TYPE_CHECKING:
    from lockgate.cli.parser import Parser
    from lockgate.core.questions import Answer, Question
    from lockgate.core.ruling.opinions import Opinion
    from lockgate.runtime.http_post import HttpReply, HttpRequest
    from lockgate.settings.verifiers import VerifierSettings
    from lockgate.verifiers.adapters import Assessment, KeySource
    from lockgate.verifiers.client import Provider

_HELP = """\
Checks everything that Lockgate needs here, and says how to fix what is wrong: the configuration,
the engine, the cache, the state directory, the journal, the verifier's settings and key, the embedded
judge, documents, the judges in force and their exams, how much is asked about, the clock, and whether
the endpoints answer.
Keys are never shown. Each endpoint is asked one harmless question, or none with --offline.

example:
  $ lockgate doctor
  $ lockgate doctor --offline --json
  $ lockgate doctor --keys myservice.secrets:Vault
  $ lockgate doctor --claude-code

--agent NAME does the same for Codex, Gemini CLI, Copilot CLI or OpenCode.

--claude-code checks Claude Code instead: its version, its settings, whether the service answers, and
whether a hijacked call is really stopped.
--fleet checks what several instances share instead: PostgreSQL with its tables, clock, processes and locks,
the log's key, heads and policies, and Valkey. It asks no instance, and writes nothing.
--keys is for programs that give `resolve_adapter_from_env` a source of keys: it names that object, or
a class to make one of, and imports its module.
Exit code 0: nothing failed (a warning is no failure); 1: something has to be fixed.
"""

# A question that no rule, filter or model objects to.
HARMLESS = "Hello, at what time do you open tomorrow?"
_CASE = JudgeCase(goal=HARMLESS, tool="opening_hours", arguments='{"day": "tomorrow"}', risk="low")
MOST_SKEW_S = 60.0
MOST_KEY_S = 10.0
_ASK_S = 3.0


class CheckState(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"


class Check(NamedTuple):
    """One check: what was looked at, its state, and what to do about it."""

    name: str
    state: CheckState
    said: str
    hint: str = ""


def describe(parser: Parser) -> None:
    parser.usage = "lockgate doctor [options]"
    parser.description = _HELP
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--offline", action="store_true", help="do not ask the endpoints anything")
    parser.add_argument("--claude-code", action="store_true", help="check how Claude Code asks Lockgate")
    parser.add_argument(
        "--agent", metavar="NAME", choices=CODING_AGENTS, help=f"check one of {', '.join(CODING_AGENTS)}"
    )
    parser.add_argument("--fleet", action="store_true", help="check the databases that several instances share")
    parser.add_argument("--keys", metavar="MODULE:NAME", help="get the verifier's key from this source of keys")
    parser.add_argument("--tenant", metavar="NAME", default="", help="use this tenant's own key")
    parser.add_argument("--config", metavar="PATH", help="use this configuration file")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> Exit:
    found: list[Check] = []
    show = None if args.json else _line_printer()
    asked = checks(args.config, offline=args.offline, keys=args.keys, tenant=args.tenant)
    if args.claude_code:
        asked = _claude_code_checks(args.config)
    elif args.agent:
        from lockgate.cli.doctor.coding_agents import coding_agent_checks

        asked = coding_agent_checks(args.agent, os.environ)
    elif args.fleet:
        from lockgate.cli.doctor.fleet import fleet_checks

        asked = fleet_checks(assemble.settings_from_environment(args.config))
    for check in asked:
        found.append(check)
        if show is not None:
            show(check)
    failed = [check.name for check in found if check.state is CheckState.FAIL]
    if args.json:
        print(json.dumps({"ok": not failed, "checks": [check._asdict() for check in found]}, indent=2))
    else:
        warned = sum(check.state is CheckState.WARN for check in found)
        print(_summary(failed, warned))
    return Exit.FLAGGED if failed else Exit.CLEAR


def checks(
    config: str | None = None, *, offline: bool = False, keys: str | None = None, tenant: str = ""
) -> Iterator[Check]:
    """Yield every check in turn; one that needs a failed one is skipped with the reason."""
    yield _check_installation()
    read: list[Settings] = []
    yield run_check("configuration", lambda: _check_configuration(config, read))
    settings = read[0] if read else Settings()
    yield run_check("engine", lambda: _check_engine(settings))
    for name, look in {"cache": _check_cache, "state": _check_state, "journal": _check_journal}.items():
        if read:
            yield run_check(name, lambda look=look: look(settings))  # type: ignore[misc]
        else:
            yield Check(name, CheckState.SKIP, "the configuration has to be fixed first")
    yield run_check("policy", lambda: _check_policy(settings))
    chosen: list[VerifierSettings] = []
    yield run_check("adapter", lambda: _check_adapter(chosen, keys_elsewhere=keys is not None))
    adapter = chosen[0].adapter if chosen else "none"
    yield run_check("extras", lambda: _check_extras(adapter, settings))
    yield run_check("documents", lambda: _check_documents(settings))
    yield run_check("embedded", lambda: _check_embedded(adapter, settings))
    reported: list[str] = []
    if adapter in ("none", "embedded"):
        why = f"the adapter `{adapter}` asks no endpoint" if chosen else "the adapter's settings have to be fixed first"
        yield Check("key", CheckState.SKIP, why)
        yield Check("endpoint", CheckState.SKIP, why)
    else:
        verifier = chosen[0]
        source: list[KeySource] = []
        yield run_check(
            "key", lambda: _check_key(verifier) if keys is None else _check_custom_key(keys, tenant, verifier, source)
        )
        if offline:
            yield Check("endpoint", CheckState.SKIP, "not asked: --offline")
        elif keys is not None and not source:
            yield Check("endpoint", CheckState.SKIP, "the source of keys has to be fixed first")
        else:
            yield run_check("endpoint", lambda: _check_endpoint(verifier, settings, tenant, source, reported))
    yield from _check_judges(settings, reported, read=bool(read), offline=offline)
    if read:
        yield run_check("width", lambda: _check_width(settings))
    yield run_check("clock", lambda: _check_clock(reported))


def _claude_code_checks(config: str | None) -> Iterator[Check]:
    from lockgate.cli.doctor import claude_code as wiring

    yield _check_installation()
    yield from wiring.checks(assemble.settings_from_environment(config), Path.cwd(), os.environ)


def run_check(name: str, look: Callable[[], Check]) -> Check:
    """Return what the check found; a check that raises has failed."""
    try:
        return look()
    except LockgateError as error:
        return Check(name, CheckState.FAIL, error.message, error.hint)
    except Exception as error:  # noqa: BLE001  # the other checks still run
        # Not its text: it may hold what was being read.
        return Check(name, CheckState.FAIL, f"could not be checked: {type(error).__name__}")


def _check_installation() -> Check:
    version = f"{platform.python_implementation()} {platform.python_version()}"
    return Check("installation", CheckState.OK, f"lockgate {lockgate.__version__}, {version}, {platform.machine()}")


def _check_configuration(path: str | None, read: list[Settings]) -> Check:
    settings = assemble.settings_from_environment(path)
    read.append(settings)
    files = [str(source.file) for source in settings.sources if source.file is not None and not source.unused]
    return Check("configuration", CheckState.OK, f"valid, from {', '.join(files)}" if files else "valid: the defaults")


def _check_policy(settings: Settings) -> Check:
    """Check that the running service rules by the files as they are now."""
    url = local_url(settings.server.host, settings.server.port)
    try:
        said = json.loads(ask_service(url, b"", os.environ, time.monotonic() + _ASK_S, "/readyz"))
        standing = said.get("policy", "") if isinstance(said, dict) else ""
    except (HookFailure, OSError, ValueError):
        return Check("policy", CheckState.SKIP, f"no service of yours answers at {url}")
    if standing == "refused":
        hint = "its log and its page say why, as does `lockgate config validate`"
        said = "the running service could not take the changed configuration over: THE OLD POLICY IS IN FORCE"
        return Check("policy", CheckState.FAIL, said, hint)
    if standing == "needs-restart":
        return Check("policy", CheckState.WARN, "a changed setting needs a restart of the service", "restart it")
    return Check("policy", CheckState.OK, "the running service rules by the configuration files as they are now")


def _check_engine(settings: Settings) -> Check:
    """Check that each rule finds its own example in the compiled database that the gate uses."""
    import hyperscan

    scanner = assemble.scanner_from_settings(settings)
    blind = [
        rule.id
        for rule in scanner.rules
        if rule.hit and all(hit.rule.id != rule.id for part in scanner.scan(rule.hit).parts for hit in part.hits)
    ]
    version = getattr(hyperscan, "__version__", "of unknown version")
    if blind:
        return Check(
            "engine",
            CheckState.FAIL,
            f"hyperscan {version} misses the examples of {len(blind)} rules, {blind[0]} among them",
            "remove the cache folder; if that does not help, reinstall lockgate and report this line",
        )
    return Check("engine", CheckState.OK, f"hyperscan {version}, {len(scanner.rules)} patterns, each finds its example")


def _check_cache(settings: Settings) -> Check:
    """Check the cache of compiled rules; without it each start takes seconds longer, so it is at most a warning."""
    folder = settings.cache_dir
    if folder is None:
        return _check_shipped(settings, "no home directory is known", "set XDG_CACHE_HOME")
    try:
        status = os.stat(folder)
        kept = any(folder.glob("rules-*.bin"))
    except OSError as error:
        said = (error.strerror or type(error).__name__).lower()
        hint = "make it a folder that you can write, or set XDG_CACHE_HOME to one"
        return _check_shipped(settings, f"{folder}: {said}", hint)
    if os.name == "posix":
        why = writable_by_others(status.st_mode, status.st_uid, os.geteuid())
        if why:
            return Check(
                "cache",
                CheckState.WARN,
                f"{folder}: {why}, so what is kept there is not used",
                f"chmod go-w {folder}" if "belongs" not in why else "set XDG_CACHE_HOME to a folder of your own",
            )
    if not kept:
        hint = "free some space, or set XDG_CACHE_HOME and XDG_STATE_HOME to folders that you can write"
        return _check_shipped(settings, f"{folder}: nothing is kept there", hint)
    return Check("cache", CheckState.OK, str(folder))


def _check_shipped(settings: Settings, said: str, hint: str) -> Check:
    """Check whether the rules came compiled with the package, where no cache keeps them."""
    if assemble.scanner_from_settings(settings).can_be_read_from(RuleCache(None)):
        return Check("cache", CheckState.OK, "not needed: the rules came compiled with the package")
    return Check("cache", CheckState.WARN, f"{said}: rules are compiled at every start", hint)


def _check_state(settings: Settings) -> Check:
    """Check the folder of approvals and statistics: a user who can write it can approve calls."""
    folder = settings.state_dir
    lost = "no person can be asked, and rulings are not counted"
    if folder is None:
        return Check("state", CheckState.WARN, f"no home directory is known: {lost}", "set XDG_STATE_HOME")
    there = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    if not os.path.isdir(there) or not os.access(there, os.W_OK | os.X_OK):
        hint = "make it a folder that you can write, or set XDG_STATE_HOME to one"
        return Check("state", CheckState.WARN, f"{there}: cannot be written: {lost}", hint)
    if there != folder:
        return Check("state", CheckState.OK, f"{folder}, which is made when it is needed")
    kept = [folder / name for name in ("approvals.db", "ledger.jsonl", "ledger.jsonl.1")]
    for path in (folder, *kept):
        if problem := _privacy_problem(path, folder=path == folder):
            return problem
    if problem := _old_notes_problem(folder / "sessions-doubted"):
        return problem
    # The store checks its own file, and raises.
    waiting = assemble.approvals_from_settings(settings).waiting(time.time())
    count = f", {len(waiting)} call{'s' if len(waiting) != 1 else ''} waiting for a person" if waiting else ""
    return Check("state", CheckState.OK, f"{folder}{count}")


def _old_notes_problem(folder: Path) -> Check | None:
    """Name the folder of an earlier build; with notes in it, the session store refuses to work."""
    if not os.path.isdir(folder):
        return None
    if not os.listdir(folder):
        return Check("state", CheckState.WARN, f"{folder} is left from an earlier build, and empty", f"rmdir {folder}")
    said = f"{folder} holds notes of an earlier build about lost texts: no session can be opened"
    return Check("state", CheckState.FAIL, said, "end the agents of that time, then remove the folder")


def _check_journal(settings: Settings) -> Check:
    """Check the journal: without it high-risk calls pause."""
    audit = settings.audit
    # Wrong settings or a wrong place raise.
    if assemble.journal_from_settings(settings) is None:
        return Check(
            "journal", CheckState.WARN, "switched off: no ruling is recorded", "remove `security.audit.enabled`"
        )
    files = assemble.journal_files(settings)
    where = files.log if isinstance(files.log, str) else str(files.log)
    leaves = [
        f"{len(those)} {word}" for those, word in ((audit.witnesses, "witnesses"), (audit.anchors, "anchors")) if those
    ]
    told = f"heads go to {' and '.join(leaves)}" if leaves else "no head leaves this machine"
    # A key without its log, or with another log, is tampering.
    assemble.refuse_lost_log(files)
    old = f"{where}-waiting"
    if not isinstance(files.log, str) and os.path.isdir(old):
        said = f"{old} is left from an earlier build: it may hold rulings that were never stored, and it is not read"
        return Check("journal", CheckState.WARN, said, "look at it, then remove it")
    if not isinstance(files.log, str) and not os.path.lexists(files.log):
        return Check("journal", CheckState.OK, f"{where}, which is made with the first ruling; {told}")
    log = assemble.log_from_settings(settings)
    try:
        with log.store.reading() as view:
            shard = find_shard(view, "")
            head = newest_head(view, shard, verify)[1]
    finally:
        log.close()
    said = f"{where}: {head.size} records under the newest signed head; {told}"
    if shard.size > head.size:
        # A running process signs within a second, so this may be gone at the next check.
        hint = "if no process writes it now: lockgate audit head --sign"
        return Check("journal", CheckState.WARN, f"{said}; {shard.size - head.size} more are not signed yet", hint)
    return Check("journal", CheckState.OK, said)


def _privacy_problem(path: Path, *, folder: bool) -> Check | None:
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    if not (stat.S_ISDIR if folder else stat.S_ISREG)(status.st_mode):
        what = "folder" if folder else "file"
        return Check("state", CheckState.FAIL, f"{path} is not a {what}, and is not used", "move it away")
    if os.name != "posix":
        return None
    # The stores refuse files of any other user, root's too.
    if status.st_uid != os.geteuid():
        hint = "run this as the user whose agent asks"
        return Check("state", CheckState.FAIL, f"{path} belongs to another user, and is not used", hint)
    if why := writable_by_others(status.st_mode, 0, 0):
        hint = f"look at what is in it, then: chmod go-w {path}"
        return Check("state", CheckState.FAIL, f"{path} {why}, and is not used", hint)
    if not folder and status.st_mode & (stat.S_IRGRP | stat.S_IROTH):
        return Check("state", CheckState.WARN, f"{path} can be read by others", f"chmod go-r {path}")
    return None


def _check_clock(reported: list[str]) -> Check:
    theirs = None
    if reported:
        try:
            theirs = parsedate_to_datetime(reported[0][:100]).timestamp()
        except (TypeError, ValueError, OverflowError):
            theirs = None  # the endpoint sent no valid date
    return check_from_clocks(time.time(), os.stat(lockgate.__file__).st_mtime, theirs)


def check_from_clocks(now: float, installed: float, theirs: float | None = None) -> Check:
    """Return a failure if the clock is before the installation, and a warning if it differs from the endpoint's."""
    shown = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=max(0.0, now))
    said, hint = f"{shown:%Y-%m-%d %H:%M} UTC", "set the clock, best by NTP: certificates and expiries depend on it"
    # A day of slack: archives carry times without a zone.
    if now < installed - 86_400:
        return Check("clock", CheckState.FAIL, f"{said} is before lockgate was installed here", hint)
    if theirs is not None and abs(now - theirs) > MOST_SKEW_S:
        away, sense = round(abs(now - theirs)), "ahead of" if now > theirs else "behind"
        return Check("clock", CheckState.WARN, f"{said} is {away:,} s {sense} the endpoint's", hint)
    return Check("clock", CheckState.OK, said if theirs is None else f"{said}, as the endpoint has it")


def _check_adapter(chosen: list[VerifierSettings], *, keys_elsewhere: bool) -> Check:
    settings = verifier_settings_from_env(keys_elsewhere=keys_elsewhere)
    said = "none: the built-in rules answer"
    if settings.adapter == "embedded":
        said = f"embedded: in this process, {settings.timeout_ms:,} ms"
    elif settings.adapter != "none":
        assemble.provider_from_settings(settings)
        said = _adapter_summary(settings)
    chosen.append(settings)
    odd = unknown_variables(os.environ)
    if odd:
        return Check(
            "adapter",
            CheckState.WARN,
            f"{said}; no adapter reads {', '.join(odd)}",
            "correct the name, or unset it; `lockgate help verifiers` lists them all",
        )
    if settings.unsafe_http:
        hint = "only for a private network: use https anywhere else"
        return Check("adapter", CheckState.WARN, f"{said}, over plain http", hint)
    return Check("adapter", CheckState.OK, said)


def _adapter_summary(settings: VerifierSettings) -> str:
    own = f", {len(settings.custom_redactions)} patterns of your own" if settings.custom_redactions else ""
    return f"{settings.adapter}: {settings.model} at {settings.endpoint}, {settings.timeout_ms:,} ms{own}"


def _check_extras(adapter: str, settings: Settings) -> Check:
    there = {name: importlib.util.find_spec(name) is not None for name in ("httpx2", "opentelemetry")}
    listed = ", ".join(f"{name} {'is' if here else 'is not'} installed" for name, here in there.items())
    policy = settings.policy
    named = (policy.triage_model, policy.supervisor_model)
    judges = [name for name in named if name not in ("", NO_JUDGE, EMBEDDED, AUTO) and not is_program(name)]
    remote = adapter not in ("none", "embedded")
    needed_by = f"the adapter `{adapter}` needs" if remote else "the judges need" if judges else ""
    if needed_by and not there["httpx2"]:
        return Check("extras", CheckState.FAIL, f"{needed_by} httpx2", "pip install 'lockgate[providers]'")
    return Check("extras", CheckState.OK, listed)


def _check_documents(settings: Settings) -> Check:
    """Check that the abuse gate can read PDF files; warn only where the abuse gate is configured."""
    if wiring.can_read_pdf():
        return Check("documents", CheckState.OK, "the abuse gate reads PDF, DOCX, HTML and text files")
    used = bool(settings.abuse_gate) or any(name.startswith("ABUSE_") for name in os.environ)
    said = f"{wiring.PDF_READER} is not installed: the abuse gate cannot read PDF files"
    return Check("documents", CheckState.WARN if used else CheckState.SKIP, said, wiring.INSTALL_PDF_READER)


def _check_embedded(adapter: str, settings: Settings) -> Check:
    """Check that the embedded judge is installed and intact; it is optional unless the configuration names it."""
    named = "embedded" in (adapter, settings.policy.triage_model)
    absent = embedded.missing_packages()
    if absent and embedded.shipped_files().pin and not named:
        why = f"not installed: {' and '.join(absent)}"
        return Check(
            "embedded", CheckState.SKIP, f"{why}; it judges in Tier 2 without a network or a key", embedded.INSTALL
        )
    if not embedded.shipped_files().pin and not named:
        return Check("embedded", CheckState.SKIP, "this installation has no model")
    about = embedded.verify()
    size = sum(size for _, size in about.files.values()) / 1e6
    until = "judges in Tier 2 until a model has passed its exam"
    used = {"": "judges in Tier 2", EMBEDDED: "judges in Tier 2", AUTO: until}.get(
        settings.policy.triage_model, "not used in Tier 2"
    )
    return Check(
        "embedded",
        CheckState.OK,
        f"{about.name}, {size:.1f} MB, intact; {used}, preset {settings.policy.judge_preset}",
    )


def _check_key(settings: VerifierSettings) -> Check:
    keys = settings.keys
    if not keys:
        return Check("key", CheckState.OK, f"none, and {settings.adapter} does not need one")
    for file in keys.files():
        why, hint = key_file_warning(file)
        if why:
            return Check("key", CheckState.WARN, f"{file} {why}", hint)
    said = ["one for all tenants" if keys.key() else "none for all tenants"]
    said += [f"{len(keys.tenants)} for tenants"] if keys.tenants else []
    said += [f"{len(keys.files())} in files, read at each question"] if keys.files() else []
    return Check("key", CheckState.OK, ", ".join(said))


def _check_custom_key(spec: str, tenant: str, verifier: VerifierSettings, found: list[KeySource]) -> Check:
    """Check the key from a program's own key source, asked in a thread as the adapter does, since it may hang."""
    source = _load_key_source(spec)
    future: Future[object] = Future()

    def fetch() -> None:
        try:
            future.set_result(source.key(tenant))
        except BaseException as error:  # noqa: BLE001 - the key source is foreign code; its text may quote the key
            future.set_exception(RuntimeError(type(error).__name__))

    Thread(target=fetch, name="lockgate-key", daemon=True).start()
    whose = f"tenant {tenant!r}" if tenant else "all tenants"
    try:
        key = future.result(MOST_KEY_S)
    except TimeoutError:
        return Check(
            "key", CheckState.FAIL, f"the source of keys did not answer in {MOST_KEY_S:.0f} s", "ask it by hand"
        )
    except RuntimeError as error:
        return Check(
            "key", CheckState.FAIL, f"the source of keys raised {error}", f"call its `key({tenant!r})` by hand"
        )
    if not is_key(key) and (key != "" or verifier.key_needed):
        what = "no key" if key == "" else "something that is no key"
        hint = "it has to return one line of visible ASCII, or nothing where no key is needed"
        return Check("key", CheckState.FAIL, f"the source of keys gave {what} for {whose}", hint)
    found.append(source)
    return Check("key", CheckState.OK, f"from the source of keys, for {whose}")


def _load_key_source(spec: str) -> KeySource:
    """Import and return the object that `module:name` names, or an instance of the class."""
    module, colon, name = spec.partition(":")
    hint = "write it as module:name; the module has to be importable from here"
    if not (colon and all(part.isidentifier() for part in (*module.split("."), *name.split(".")))):
        raise LockgateError(f"--keys {quoted(spec)} names no source of keys", hint=hint)
    # Last on the path: a file in this folder must not replace an installed module.
    sys.path.append(os.getcwd())
    try:
        found: object = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        source = found() if isinstance(found, type) else found
    except Exception as error:  # noqa: BLE001 - the user's own module may raise anything
        raise LockgateError(f"--keys {quoted(spec)} cannot be loaded: {type(error).__name__}", hint=hint) from None
    finally:
        sys.path.remove(os.getcwd())
    if not callable(getattr(source, "key", None)):
        raise LockgateError(f"--keys {quoted(spec)} has no method `key(tenant)`", hint="`lockgate help keys` shows one")
    return source  # type: ignore[return-value]


def _check_endpoint(
    verifier: VerifierSettings, settings: Settings, tenant: str, source: list[KeySource], reported: list[str]
) -> Check:
    """Ask one harmless question through the adapter that requests use."""
    # The check's own line says what the log would say.
    logging.getLogger("lockgate").addHandler(logging.NullHandler())
    adapter = assemble.adapter_from_settings(
        verifier,
        assemble.request_scanner_from_settings(settings),
        keys=source[0] if source else None,
        wrap_provider=lambda provider: DateRecorder(provider, reported),
    )
    assert isinstance(adapter, RemoteAdapter)  # noqa: S101 - the caller has looked
    try:
        if not (tenant or source or verifier.keys.key()) and verifier.keys.tenants:
            # If only tenants have keys, ask with the first tenant's.
            tenant = verifier.keys.tenants[0]
        return check_from_assessment(adapter.examine({"prompt_text": HARMLESS}, tenant=tenant), verifier.endpoint)
    finally:
        adapter.close()


def _check_judges(settings: Settings, reported: list[str], *, read: bool, offline: bool) -> Iterator[Check]:
    policy = settings.policy
    for name, key, model, stage, timeout_s in (
        ("triage", assemble.TRIAGE_KEY, policy.triage_model, Stage.TRIAGE, None),
        (
            "supervisor",
            assemble.SUPERVISOR_KEY,
            policy.supervisor_model,
            Stage.SUPERVISOR,
            settings.supervision.timeout_s,
        ),
    ):
        if not read:
            yield Check(name, CheckState.SKIP, "the configuration has to be fixed first")
        elif model == NO_JUDGE:
            yield Check(name, CheckState.SKIP, f"switched off: {key} is `none`")
        elif stage is Stage.TRIAGE and (model == EMBEDDED or (not model and assemble.is_embedded_installed())):
            yield run_check(name, lambda: _check_embedded_judge(settings))
        elif not model:
            yield Check(name, CheckState.SKIP, f"no model: {key} is not set")
        elif model == AUTO or is_program(model):
            yield run_check(name, lambda at=stage: _check_in_force(settings, at, offline=offline))  # type: ignore[misc]
        else:
            judge = _ConfiguredJudge(name, model, stage, timeout_s)
            yield run_check(name, lambda judge=judge: _check_judge(judge, settings, reported, offline=offline))  # type: ignore[misc]


def _check_in_force(settings: Settings, stage: Stage, *, offline: bool) -> Check:
    """Say who judges by `auto`, or whether a program is there and logged in, without a question to a program."""
    name, judge = stage.value, assemble.judges_from_settings(settings)[stage is Stage.SUPERVISOR]
    if judge is None or standing_of(judge).authority is Authority.EMBEDDED:
        who = "none judges" if judge is None else "the embedded judge judges"
        hint = "`lockgate judge exam MODEL` lets one take it"
        return Check(name, CheckState.WARN, f"no model has passed its exam, so {who}", hint)
    held = standing_of(judge)
    who = f"{judge.name}, {held.authority}" + (f" on {held.examined_on}" if held.examined_on else "")
    if offline:
        return Check(name, CheckState.OK, f"{who}; not asked: --offline")
    if (probe := getattr(judge, "probe", None)) is None:
        began = perf_counter()
        return check_from_opinion(name, judge.opine(Inquiry(stage, _CASE)).opinion, who, perf_counter() - began)
    if probe():
        return Check(name, CheckState.OK, f"{who}; there and logged in, as far as it says")
    hint = "log in with the program's own command, and look at the network"
    return Check(name, CheckState.FAIL, f"{who}: not there, logged out or offline", hint)


def _check_width(settings: Settings) -> Check:
    """Say how much is asked about, and whether the exam of the judge lets it clear that."""
    try:
        judge = assemble.triage_from_settings(settings)
    except LockgateError:
        return Check("width", CheckState.SKIP, "the judge has to be fixed first")
    held = None if judge is None else standing_of(judge)
    width = effective_width(settings.policy.escalate, held)
    if judge is None or held is None:
        return Check("width", CheckState.SKIP, f"{width}: no judge in Tier 2")
    if held.has_passed or (held.authority is Authority.EMBEDDED and width == "narrow"):
        why = f"passed its exam on {held.examined_on}" if held.has_passed else "takes no exam"
        return Check("width", CheckState.OK, f"{width}: {judge.name} {why}")
    hint = "`lockgate judge exam` says whether it may clear calls, and how many are then asked about"
    clears = may_clear(held.authority, width, grave=False, supervises=False, agreed=False)
    may = "may clear calls of severity 2 all the same" if clears else "clears nothing"
    return Check("width", CheckState.WARN, f"{width}: {judge.name} has not passed an exam, and {may}", hint)


class _ConfiguredJudge(NamedTuple):
    """A judge that the configuration names."""

    name: str
    model: str
    stage: Stage
    timeout_s: float | None


def _check_judge(judge: _ConfiguredJudge, settings: Settings, reported: list[str], *, offline: bool) -> Check:
    """Ask the judge of the gate about one harmless call."""
    chosen = assemble.judge_settings(settings, judge.model)
    where = f"{chosen.adapter}/{chosen.model} at {chosen.endpoint}"
    if chosen.key_needed and not chosen.keys.key():
        return Check(
            judge.name, CheckState.FAIL, f"{where}: there is no key for all tenants", "judges use no tenant's key"
        )
    if offline:
        return Check(judge.name, CheckState.OK, f"{where}; not asked: --offline")
    logging.getLogger("lockgate").addHandler(logging.NullHandler())
    asked = assemble.judge_from_settings(
        settings, judge.model, judge.timeout_s, wrap_provider=lambda provider: DateRecorder(provider, reported)
    )
    began = perf_counter()
    opined = asked.opine(Inquiry(judge.stage, _CASE))
    return check_from_opinion(judge.name, opined.opinion, where, perf_counter() - began)


def _check_embedded_judge(settings: Settings) -> Check:
    """Ask the embedded judge about one harmless call, with --offline too: it needs no network."""
    logging.getLogger("lockgate").addHandler(logging.NullHandler())
    judge = assemble.embedded_from_settings(settings)
    judge.verify()
    facts = tuple(float(name == "arguments-in-goal") for name in FACTS)
    said = f"wanted: {HARMLESS} | the call only looks | opening_hours day=tomorrow"
    evidence = Evidence(said, ("We open at nine every day.",), facts)
    began = perf_counter()
    opined = judge.opine(Inquiry(Stage.TRIAGE, _CASE, evidence))
    return check_from_opinion("triage", opined.opinion, judge.name, perf_counter() - began)


def check_from_opinion(name: str, opinion: Opinion, where: str, took_s: float) -> Check:
    took = format_duration(took_s * 1e6)
    match opinion:
        case Triage(suspicious=False) | Ruling(action=Action.CONTINUE):
            return Check(name, CheckState.OK, f"{where} answered in {took}")
        case Triage() | Ruling():
            return Check(
                name,
                CheckState.WARN,
                f"{where} answered in {took}, and would not let a harmless call run",
                "this judge will hold up ordinary work: choose another model",
            )
        case Silent(why=why) if why in REASON_TEXTS:
            reason = str(why)
        case _:
            reason = "odd-answer"
    told = REASON_TEXTS[reason]
    state = CheckState.WARN if reason == "rate-limited" else CheckState.FAIL
    return Check(name, state, f"{where}: {reason}: {told.meaning} ({took})", told.advice)


class DateRecorder:
    """A provider that also notes the Date header of its server's replies."""

    def __init__(self, provider: Provider, dates: list[str]) -> None:
        self._provider = provider
        self._dates = dates

    @property
    def name(self) -> str:
        return self._provider.name

    @property
    def model(self) -> str:
        return self._provider.model

    def request(self, question: Question, key: str) -> HttpRequest:
        return self._provider.request(question, key)

    def answer(self, question: Question, reply: HttpReply) -> Answer:
        if "date" in reply.headers:
            self._dates.append(reply.headers["date"])
        return self._provider.answer(question, reply)


def check_from_assessment(found: Assessment, endpoint: str) -> Check:
    took = format_duration(found.latency_ms * 1000)
    if found.reason == "provider" and found.verdict == "safe":
        return Check("endpoint", CheckState.OK, f"{endpoint} answered in {took}")
    if found.reason.startswith("provider"):
        return Check(
            "endpoint",
            CheckState.WARN,
            f"{endpoint} answered in {took}, and called a harmless question {found.verdict}",
            "verdicts of this model will be worth little: choose another one",
        )
    told = REASON_TEXTS[found.reason]
    # A rate limit ends by itself, and everything else works.
    state = CheckState.WARN if found.reason == "rate-limited" else CheckState.FAIL
    return Check("endpoint", state, f"{endpoint}: {found.reason}: {told.meaning} ({took})", told.advice)


_STYLES = {CheckState.OK: "green", CheckState.WARN: "bold yellow", CheckState.FAIL: "bold red", CheckState.SKIP: "dim"}


def _line_printer() -> Callable[[Check], None]:
    screen = make_console()

    def show(check: Check) -> None:
        line = Text.assemble(
            (f"{check.state.value:<4}", _STYLES[check.state]), f"  {check.name:<13}  ", make_visible(check.said)
        )
        screen.print(line, soft_wrap=True)
        if check.hint:
            screen.print(Text.assemble((f"{'':<21}hint: ", "dim"), make_visible(check.hint)), soft_wrap=True)
        screen.file.flush()

    return show


def _summary(failed: list[str], warned: int) -> str:
    warnings = f", {warned} to look at" if warned else ""
    return f"to fix: {', '.join(failed)}{warnings}" if failed else f"nothing to fix{warnings}"
