"""`lockgate doctor`: is everything here that Lockgate needs, and what to do about what is not."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from lockgate.cli.exits import Exit

if TYPE_CHECKING:
    from lockgate.adapters import Assessment
    from lockgate.cli.parser import Parser
    from lockgate.config import Settings
    from lockgate.core.questions import Answer, Question, Reply, Request
    from lockgate.verifier_settings import VerifierSettings
    from lockgate.verifiers.client import Provider

_HELP = """\
Looks at everything Lockgate needs here, and says what to do about what is wrong: the configuration,
the engine, the cache, the clock, the verifier's settings and key, and whether its endpoint answers.
Keys are never shown. The endpoint is asked one harmless question, or none with --offline.

example:
  $ lockgate doctor
  $ lockgate doctor --offline --json

Exit code 0: nothing failed (a warning is no failure); 1: something has to be fixed.
"""

# Nothing that any rule, filter or model has ever had a reason to mind.
HARMLESS = "Hello, at what time do you open tomorrow?"
MOST_SKEW_S = 60.0


class State(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"


class Check(NamedTuple):
    """One thing that was looked at, how it is, and what to do about it."""

    name: str
    state: State
    said: str
    hint: str = ""


def describe(parser: Parser) -> None:
    parser.usage = "lockgate doctor [options]"
    parser.description = _HELP
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--offline", action="store_true", help="do not ask the endpoint anything")
    parser.add_argument("--config", metavar="PATH", help="use this configuration file")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> Exit:
    found: list[Check] = []
    show = None if args.json else _lines()
    for check in checks(args.config, offline=args.offline):
        found.append(check)
        if show is not None:
            show(check)
    failed = [check.name for check in found if check.state is State.FAIL]
    if args.json:
        print(json.dumps({"ok": not failed, "checks": [check._asdict() for check in found]}, indent=2))
    else:
        warned = sum(check.state is State.WARN for check in found)
        print(_summary(failed, warned))
    return Exit.FLAGGED if failed else Exit.CLEAR


def checks(config: str | None = None, *, offline: bool = False) -> Iterator[Check]:
    """Every check in turn; none is left out because another failed, unless there is nothing left to look at."""
    from lockgate.config import Settings

    yield _installation()
    read: list[Settings] = []
    yield _settled("configuration", lambda: _configuration(config, read))
    settings = read[0] if read else Settings()
    yield _settled("engine", lambda: _engine(settings))
    if read:
        yield _settled("cache", lambda: _cache(settings))
    else:
        yield Check("cache", State.SKIP, "the configuration has to be fixed first")
    chosen: list[VerifierSettings] = []
    yield _settled("adapter", lambda: _adapter(chosen))
    yield _settled("extras", lambda: _extras(chosen[0].adapter if chosen else "none"))
    reported: list[str] = []
    if not chosen or chosen[0].adapter == "none":
        why = "the adapter `none` asks nobody" if chosen else "the adapter's settings have to be fixed first"
        yield Check("key", State.SKIP, why)
        yield Check("endpoint", State.SKIP, why)
    else:
        yield _settled("key", lambda: _key(chosen[0]))
        if offline:
            yield Check("endpoint", State.SKIP, "not asked: --offline")
        else:
            yield _settled("endpoint", lambda: _endpoint(chosen[0], settings, reported))
    yield _settled("clock", lambda: _clock(reported))


def _settled(name: str, look: Callable[[], Check]) -> Check:
    """What the check found; one that breaks has found something too."""
    from lockgate.core.errors import LockgateError

    try:
        return look()
    except LockgateError as error:
        return Check(name, State.FAIL, error.message, error.hint)
    except Exception as error:  # noqa: BLE001  # the other checks may say why
        # Not its text: it may hold what was being read.
        return Check(name, State.FAIL, f"could not be checked: {type(error).__name__}")


def _installation() -> Check:
    import platform

    import lockgate

    version = f"{platform.python_implementation()} {platform.python_version()}"
    return Check("installation", State.OK, f"lockgate {lockgate.__version__}, {version}, {platform.machine()}")


def _configuration(path: str | None, read: list[Settings]) -> Check:
    from lockgate import assemble

    settings = assemble.settings_from_environment(path)
    read.append(settings)
    files = [str(source.file) for source in settings.sources if source.file is not None and not source.unused]
    return Check("configuration", State.OK, f"valid, from {', '.join(files)}" if files else "valid: the defaults")


def _engine(settings: Settings) -> Check:
    """Each rule has to find its own example, through the very database that would be used."""
    import hyperscan

    from lockgate import assemble

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
            State.FAIL,
            f"hyperscan {version} misses the examples of {len(blind)} rules, {blind[0]} among them",
            "remove the cache folder; if that does not help, reinstall lockgate and report this line",
        )
    return Check("engine", State.OK, f"hyperscan {version}, {len(scanner.rules)} rules, each finds its example")


def _cache(settings: Settings) -> Check:
    """A cache that cannot be used costs seconds at every start, and is never a danger: at most a warning."""
    import os

    from lockgate.config import writable_by_others

    folder = settings.cache_dir
    if folder is None:
        return Check(
            "cache", State.WARN, "no home directory is known: rules are compiled at every start", "set XDG_CACHE_HOME"
        )
    try:
        status = os.stat(folder)
        kept = any(folder.glob("rules-*.bin"))
    except OSError as error:
        said = (error.strerror or type(error).__name__).lower()
        return Check(
            "cache",
            State.WARN,
            f"{folder}: {said}: rules are compiled at every start",
            "make it a folder that you can write, or set XDG_CACHE_HOME to one",
        )
    if os.name == "posix":
        why = writable_by_others(status.st_mode, status.st_uid, os.geteuid())
        if why:
            return Check(
                "cache",
                State.WARN,
                f"{folder}: {why}, so what is kept there is not used",
                f"chmod go-w {folder}" if "user" not in why else "set XDG_CACHE_HOME to a folder of your own",
            )
    if not kept:
        return Check(
            "cache",
            State.WARN,
            f"{folder}: nothing could be kept there: rules are compiled at every start",
            "free some space, or set XDG_CACHE_HOME to a folder that you can write",
        )
    return Check("cache", State.OK, str(folder))


def _clock(reported: list[str]) -> Check:
    import os
    import time
    from email.utils import parsedate_to_datetime

    import lockgate

    theirs = None
    if reported:
        try:
            theirs = parsedate_to_datetime(reported[0][:100]).timestamp()
        except (TypeError, ValueError, OverflowError):
            theirs = None  # somebody's header: no date, no comparison
    return clock_check(time.time(), os.stat(lockgate.__file__).st_mtime, theirs)


def clock_check(now: float, installed: float, theirs: float | None = None) -> Check:
    """A clock is wrong when it shows a time before these files existed, or another time than the endpoint's."""
    from datetime import UTC, datetime, timedelta

    shown = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=max(0.0, now))
    said, hint = f"{shown:%Y-%m-%d %H:%M} UTC", "set the clock, best by NTP: certificates and expiries depend on it"
    # A day of slack: archives carry times without a zone.
    if now < installed - 86_400:
        return Check("clock", State.FAIL, f"{said} is before lockgate was installed here", hint)
    if theirs is not None and abs(now - theirs) > MOST_SKEW_S:
        away, sense = round(abs(now - theirs)), "ahead of" if now > theirs else "behind"
        return Check("clock", State.WARN, f"{said} is {away:,} s {sense} the endpoint's", hint)
    return Check("clock", State.OK, said if theirs is None else f"{said}, as the endpoint has it")


def _adapter(chosen: list[VerifierSettings]) -> Check:
    import os

    from lockgate.verifier_settings import unknown_variables, verifier_settings

    settings = verifier_settings()
    chosen.append(settings)
    odd = unknown_variables(os.environ)
    said = "none: the built-in rules answer" if settings.adapter == "none" else _named(settings)
    if odd:
        return Check(
            "adapter",
            State.WARN,
            f"{said}; nobody reads {', '.join(odd)}",
            "correct the name, or unset it; docs/reference/verifiers.md lists them all",
        )
    return Check("adapter", State.OK, said)


def _named(settings: VerifierSettings) -> str:
    return f"{settings.adapter}: {settings.model} at {settings.endpoint}, {settings.timeout_ms:,} ms"


def _extras(adapter: str) -> Check:
    from importlib.util import find_spec

    there = {name: find_spec(name) is not None for name in ("httpx2", "opentelemetry")}
    listed = ", ".join(f"{name} {'is' if here else 'is not'} installed" for name, here in there.items())
    if adapter != "none" and not there["httpx2"]:
        return Check("extras", State.FAIL, f"the adapter `{adapter}` needs httpx2", "pip install 'lockgate[providers]'")
    return Check("extras", State.OK, listed)


def _key(settings: VerifierSettings) -> Check:
    from lockgate.verifier_settings import key_file_warning

    keys = settings.keys
    if not keys:
        return Check("key", State.OK, f"none, and {settings.adapter} does not need one")
    for file in keys.files():
        if why := key_file_warning(file):
            return Check("key", State.WARN, f"{file} {why}", f"chmod o-r {file}")
    said = ["one for everybody" if keys.key() else "none for everybody"]
    said += [f"{len(keys.tenants)} for tenants"] if keys.tenants else []
    said += [f"{len(keys.files())} in files, read at each question"] if keys.files() else []
    return Check("key", State.OK, ", ".join(said))


def _endpoint(verifier: VerifierSettings, settings: Settings, reported: list[str]) -> Check:
    """One question through the very adapter that requests would go through."""
    import logging

    from lockgate import assemble
    from lockgate.verifiers.client import Client, Outcome

    class Listening(Client):
        def ask(self, provider: Provider, question: Question, key: str, *, tenant: str = "") -> Outcome:
            return super().ask(Heard(provider, reported), question, key, tenant=tenant)

    # The line below says what the log would.
    logging.getLogger("lockgate").addHandler(logging.NullHandler())
    client = Listening(timeout_ms=verifier.timeout_ms, max_retries=verifier.max_retries)
    try:
        adapter = assemble.adapter_from_settings(verifier, assemble.scanner_from_settings(settings), client=client)
        # Where every tenant has a key of its own and nobody else has any, one of theirs has to do.
        common = verifier.keys.key() or not verifier.keys.tenants
        tenant = "" if common else verifier.keys.tenants[0]
        return endpoint_check(adapter.examine({"prompt_text": HARMLESS}, tenant=tenant), verifier.endpoint)
    finally:
        client.close()


class Heard:
    """A provider that also notes what time its server says it is."""

    def __init__(self, provider: Provider, dates: list[str]) -> None:
        self._provider = provider
        self._dates = dates

    @property
    def name(self) -> str:
        return self._provider.name

    @property
    def model(self) -> str:
        return self._provider.model

    def request(self, question: Question, key: str) -> Request:
        return self._provider.request(question, key)

    def answer(self, question: Question, reply: Reply) -> Answer:
        if "date" in reply.headers:
            self._dates.append(reply.headers["date"])
        return self._provider.answer(question, reply)


def endpoint_check(found: Assessment, endpoint: str) -> Check:
    from lockgate.cli.reasons import TOLD
    from lockgate.cli.terminal import duration

    took = duration(found.latency_ms * 1000)
    if found.reason == "provider" and found.verdict == "safe":
        return Check("endpoint", State.OK, f"{endpoint} answered in {took}")
    if found.reason.startswith("provider"):
        return Check(
            "endpoint",
            State.WARN,
            f"{endpoint} answered in {took}, and called a harmless question {found.verdict}",
            "verdicts of this model will be worth little: choose another one",
        )
    told = TOLD[found.reason]
    # Everything else is as it should be, and it passes by itself.
    state = State.WARN if found.reason == "rate-limited" else State.FAIL
    return Check("endpoint", state, f"{endpoint}: {found.reason}: {told.said} ({took})", told.todo)


_STYLES = {State.OK: "green", State.WARN: "bold yellow", State.FAIL: "bold red", State.SKIP: "dim"}


def _lines() -> Callable[[Check], None]:
    from rich.text import Text

    from lockgate.cli.terminal import console, visible

    screen = console()

    def show(check: Check) -> None:
        line = Text.assemble(
            (f"{check.state.value:<4}", _STYLES[check.state]), f"  {check.name:<13}  ", visible(check.said)
        )
        screen.print(line, soft_wrap=True)
        if check.hint:
            screen.print(Text.assemble((f"{'':<21}hint: ", "dim"), visible(check.hint)), soft_wrap=True)
        screen.file.flush()

    return show


def _summary(failed: list[str], warned: int) -> str:
    warnings = f", {warned} to look at" if warned else ""
    return f"to fix: {', '.join(failed)}{warnings}" if failed else f"nothing to fix{warnings}"
