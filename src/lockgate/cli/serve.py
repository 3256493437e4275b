"""`lockgate serve`: the HTTP service, its page, and its workers."""

from __future__ import annotations

import argparse
import gc
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from errno import EADDRINUSE
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from select import select
from tempfile import TemporaryDirectory
from threading import Thread, Timer
from typing import TYPE_CHECKING, NamedTuple

from lockgate import assemble
from lockgate.abuse_gate.ban_stores import ban_stores_from_settings
from lockgate.abuse_gate.proxy.server import make_server
from lockgate.claude_code.hook_command import HookFailure, ask_service
from lockgate.claude_code.service_start import UNWATCHED_NAME, take_unwatched
from lockgate.cli.exit_codes import Exit
from lockgate.cli.listening import (
    Terminated,
    listening_error,
    open_listening_socket,
    raise_terminated,
    socket_place,
    until_terminated,
)
from lockgate.cli.parser import parse_count, parse_port, parse_whole_number
from lockgate.cli.policy_watch import watch_policy
from lockgate.cli.terminal import make_visible
from lockgate.cli.user import user_name
from lockgate.core.errors import InvalidConfig, LockgateError, quoted
from lockgate.gate.gate import Gate
from lockgate.runtime.loopback import is_loopback, local_url
from lockgate.service.app import Api
from lockgate.service.auth import Tokens, has_person_token, host_check_for_port
from lockgate.service.http import busy_problem
from lockgate.service.notifications import Notifier, NotifyTarget, parse_targets
from lockgate.service.page_login import LoginCodes
from lockgate.service.request_counts import RequestCounts, label_of
from lockgate.service.routes import ROUTES
from lockgate.sessions import Host
from lockgate.sessions.session_cache import is_valid_name
from lockgate.settings.abuse_gate import abuse_settings_from_env
from lockgate.settings.verifiers import verifier_settings_from_env

if TYPE_CHECKING:
    from types import FrameType

    from uvicorn import Server

    from lockgate.cli.parser import Parser
    from lockgate.service.auth import HostCheck
    from lockgate.settings.config import Settings
    from lockgate.verifiers.adapters import EmbeddedAdapter, LocalRuleAdapter, RemoteAdapter

    Adapter = LocalRuleAdapter | RemoteAdapter | EmbeddedAdapter
    _Handler = Callable[[int, FrameType | None], object] | int | None

_HELP = """\
Runs the service that agents on this machine ask before each tool call, and the web page on which a person
sees the rulings and answers the calls that wait.

example:
  $ lockgate serve
  $ lockgate serve --port 9000 --workers 4
  $ lockgate serve --print-url

It listens on 127.0.0.1, port 7717, where only programs of this machine can reach it. Two tokens let them in;
both are made at the first start, in files that only you can read: `lockgate token` prints yours, which can do
everything, and `lockgate token --agent` the one for plugs, which cannot answer approvals, list or browse.

Another address (--host) is refused unless you have set a token yourself, or one was made before, and
`server.allowed_hosts` of the configuration names what clients call this machine.

Sessions, rulings and the journal outlive it. On SIGTERM or Ctrl-C it finishes the requests under way, signs
the journal and ends. A worker that dies is replaced, and nothing that it acknowledged is lost.

A changed configuration file is put into force within seconds, whole or not at all: the next call of every
session is ruled on by it. SIGHUP has it read at once. What needs a restart is said.

environment:
  LOCKGATE_TOKEN, LOCKGATE_AGENT_TOKEN   use these tokens, and no files

GET /docs on the service lists its routes; `lockgate help reference/service` explains them, `lockgate help service` how
to run it. Exit code 0: ended by SIGTERM; 130: by Ctrl-C; 2: options or settings that cannot be used; 70: workers that
keep dying.
"""

# A request under way may wait for a supervisor's answer.
GRACE_S = 45
_HEAD_BYTES = 1 << 16
# A worker that dies sooner than this is restarted with a growing delay, and after so many deaths not at all.
_YOUNG_S = 5.0
_MOST_YOUNG = 5
# After this time without a death, the count of deaths begins anew.
_CALM_S = 60.0
# A start that takes longer says why.
_SLOW_S = 2.0
_ASK_S = 3.0
# New objects before the garbage collector looks at them; Python's 700 are one ruling or two.
_COLLECTED_AFTER = 50_000
_HELD_SIGNALS = {signal.SIGTERM, signal.SIGINT, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])}


def describe(parser: Parser) -> None:
    parser.usage = "lockgate serve [options]"
    parser.description = _HELP
    parser.add_argument("--host", metavar="ADDRESS", help="listen here (`server.host`: 127.0.0.1)")
    parser.add_argument("--port", metavar="N", type=parse_port, help="and on this port (`server.port`: 7717); 0 is any")
    parser.add_argument(
        "--workers", metavar="N", type=_parse_workers, help="processes that serve (`server.workers`: 1)"
    )
    parser.add_argument("--print-url", action="store_true", help="print an address that opens the page, once")
    parser.add_argument("--open-metrics", action="store_true", help="/metrics needs no token; on loopback only")
    parser.add_argument(
        "--connections", metavar="N", type=parse_count, default=1000, help="open at once, per worker (1000)"
    )
    parser.add_argument(
        "--connections-each",
        metavar="N",
        type=parse_count,
        help="how many of them from one network, a load balancer's too (a quarter; on loopback all)",
    )
    parser.add_argument("--config", metavar="PATH", help="use this configuration file")
    parser.set_defaults(run=run)


class _ServePlan(NamedTuple):
    """Everything that is decided before the first worker starts."""

    settings: Settings
    tokens: Tokens
    codes: LoginCodes
    host_check: HostCheck
    listening: socket.socket
    url: str
    workers: int
    connections: int
    connections_each: int | None
    open_metrics: bool
    # As the files say it: the settings have the port that is really listened on.
    as_read: Settings
    config: str | None = None
    targets: tuple[NotifyTarget, ...] = ()


def run(args: argparse.Namespace) -> Exit:
    # By default it would end a service that is getting ready; a file that changes meanwhile is noticed by the watch.
    before = _on_hangup(_nothing)
    try:
        return _serve(_make_plan(args), prints_url=args.print_url)
    finally:
        if before is not None:
            signal.signal(signal.SIGHUP, before)


def _serve(plan: _ServePlan, *, prints_url: bool) -> Exit:
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(message)s", stream=sys.stderr)
    with plan.listening:
        _take_unwatched(plan.settings)
        slow = Timer(_SLOW_S, _say_slow)
        slow.daemon = True
        announce = _make_announcer(plan, slow, opens=prints_url or sys.stdout.isatty())
        try:
            if plan.workers == 1:
                slow.start()
                return _serve_until_signal(plan, None, announce, warns=True)
            # The timer's thread starts after the forks: a child would inherit it half-alive.
            return _supervise_workers(plan, announce, slow)
        finally:
            slow.cancel()


def _take_unwatched(settings: Settings) -> None:
    """Take the context of sessions for unknown of which events passed while the service was down."""
    if settings.state_dir is None or not os.path.lexists(settings.state_dir / UNWATCHED_NAME):
        return
    now_s = time.time()
    host = Host(Gate(settings.policy), assemble.sessions_from_settings(settings), clock=lambda: now_s)

    def mark(name: str, at: float) -> None:
        nonlocal now_s
        now_s = at
        session = name.partition("/")[0]
        if is_valid_name(session) and host.session(session) is None:
            # As old as its first call, so that `lockgate reconcile` finds those that ran without a ruling.
            host.open(session, host="claude-code", known=False)
        for id in (name, session):
            if (info := host.session(id)) is not None and info.context_known:
                host.mark_context_unknown(id)
                if (after := host.session(id)) is None or after.context_known:
                    raise LockgateError(f"cannot note in the session store that {quoted(id)} went unwatched")

    try:
        count = take_unwatched(settings.state_dir, mark)
    finally:
        host.close()
    said = (
        f"lockgate: warning: {count} session(s) went unwatched while this was down; lockgate reconcile lists the calls"
    )
    print(said, file=sys.stderr, flush=True)


def _say_slow() -> None:
    print("lockgate serve: getting ready; the first time, its rules are compiled", file=sys.stderr, flush=True)


def _make_plan(args: argparse.Namespace) -> _ServePlan:
    if find_spec("uvicorn") is None:
        raise InvalidConfig("`lockgate serve` needs the package `uvicorn`", hint="pip install 'lockgate[agent]'")
    settings = assemble.settings_from_environment(args.config)
    # Reports bad settings once, before any worker does.
    verifier_settings_from_env()
    server = settings.server
    address = server.host if args.host is None else args.host
    port = server.port if args.port is None else args.port
    workers = server.workers if args.workers is None else args.workers
    if workers > 1 and not hasattr(os, "fork"):
        raise LockgateError("several workers need a system with fork", hint="leave --workers out")
    if not is_loopback(address):
        _refuse_outside(address, server.allowed_hosts, has_person_token(settings.state_dir, os.environ))
        if args.open_metrics:
            raise LockgateError("--open-metrics is for loopback only", hint="give the scraper a token")
    tokens = Tokens(settings.state_dir, os.environ)
    listening = _listen(address, port)
    name, port = socket_place(listening)
    # Loopback has more addresses than 127.0.0.1, ::1 and localhost.
    names = (*server.allowed_hosts, *([f"{name}:{port}"] if is_loopback(name) else []))
    return _ServePlan(
        settings=replace(settings, server=replace(server, port=port)),
        tokens=tokens,
        codes=LoginCodes(settings.state_dir),
        host_check=host_check_for_port(port, names),
        listening=listening,
        url=f"http://{name}:{port}",
        workers=workers,
        connections=args.connections,
        connections_each=args.connections_each,
        open_metrics=args.open_metrics,
        as_read=settings,
        config=args.config,
        targets=parse_targets(settings.notify),
    )


def _listen(address: str, port: int) -> socket.socket:
    try:
        return open_listening_socket(address, port)
    except (OSError, UnicodeError) as error:
        if isinstance(error, OSError) and error.errno == EADDRINUSE and _is_lockgate_service(address, port):
            raise LockgateError(
                f"a lockgate serve runs on {quoted(address)} port {port} already",
                hint="use that one (`lockgate token --url` opens its page), or --port for another",
            ) from None
        raise listening_error(error, address, port) from None


def _is_lockgate_service(address: str, port: int) -> bool:
    """Return whether the program on this port proves that it is a `lockgate serve` of this account."""
    try:
        ask_service(local_url(address, port), b"", os.environ, time.monotonic() + _ASK_S, "/healthz")
    except (HookFailure, OSError):
        return False
    return True


def _refuse_outside(address: str, allowed: tuple[str, ...], token_set: bool) -> None:  # noqa: FBT001 - a fact, not a choice
    if not token_set:
        raise InvalidConfig(
            f"listening on {quoted(address)} lets other machines in, and no token was set",
            hint="set LOCKGATE_TOKEN, or make one with `lockgate token`, and give it to those who may ask",
        )
    names = {name.strip().lower().rpartition(":")[0] or name.strip().lower() for name in allowed} | {*allowed}
    try:
        every = ip_address(address).is_unspecified
    except ValueError:
        every = False
    if not allowed or not (every or {address.lower(), f"[{address.lower()}]"} & names):
        raise InvalidConfig(
            f"listening on {quoted(address)} needs `server.allowed_hosts` to name it, as clients do",
            hint=f'allowed_hosts = ["{"lockgate.example.com" if every else address}"] in the table [server]',
        )


def _make_announcer(plan: _ServePlan, slow: Timer, *, opens: bool) -> Callable[[], None]:
    def announce() -> None:
        slow.cancel()
        several = f", {plan.workers} workers" if plan.workers > 1 else ""
        print(make_visible(f"lockgate serve: {plan.url}{several}"))
        code = ""
        if opens:
            # Without a stored code, the page asks for the token.
            with suppress(LockgateError, OSError):
                code = plan.codes.make()
        if code:
            print(make_visible(f"the page, once and within 5 minutes: {plan.url}/#code={code}"))
        else:
            print("the page: `lockgate token --url` prints an address that opens it")
        sys.stdout.flush()

    return announce


def _serve_until_signal(
    plan: _ServePlan, counts_folder: Path | None, ready: Callable[[], None], *, warns: bool
) -> Exit:
    """Serve until a signal arrives, finish the requests under way and sign the journal; one worker of all `warns`."""
    adapter = _make_adapter(plan.settings)
    host = assemble.host_from_settings(plan.settings)
    can = host.ready()
    if warns and not (can.sessions and can.journal):
        # It serves all the same: calls that cannot be recorded do not run, and /readyz says so.
        warning = f"lockgate: warning: {can.why}; until that is mended, high-risk calls wait"
        print(make_visible(warning), file=sys.stderr, flush=True)
    api = Api(
        host,
        plan.tokens,
        plan.host_check,
        adapter=adapter,
        ban_stores=lambda: ban_stores_from_settings(abuse_settings_from_env(table=plan.settings.abuse_gate)),
        codes=plan.codes,
        default_name=f"{user_name()} over http",
        account=user_name(),
        open_metrics=plan.open_metrics,
        keep_days=plan.settings.server.keep_days,
        counts=RequestCounts(map(label_of, ROUTES), folder=counts_folder),
        reload=watch_policy(
            host, plan.as_read, plan.config, prepare=lambda before, new: _change_adapter(api, before, new)
        ),
        stopping=lambda: serving.should_exit,
    )
    serving = _make_server(plan, api, ready)
    notifier = None
    if plan.targets and host.gate.approvals is not None:
        page_url = plan.settings.server.page_url or plan.url
        notifier = Notifier(host.gate.approvals, plan.targets, api.links, page_url)  # type: ignore[arg-type]
        notifier.start()

    assert api.reload is not None  # noqa: S101
    api.reload.start()
    before = _on_hangup(api.reload.ask)

    def close() -> None:
        if before is not None:
            signal.signal(signal.SIGHUP, before)
        if api.reload is not None:
            api.reload.close()
        if notifier is not None:
            notifier.close()
        host.close()
        assemble.close_journals()

    with until_terminated(close), _rare_garbage_collection():
        serving.run(sockets=[plan.listening])
    return Exit.CLEAR


@contextmanager
def _rare_garbage_collection() -> Iterator[None]:
    """Collect garbage rarely, and never look at what was there before, which is mostly compiled rules.

    The collector took a tenth of a check's CPU, and found nothing: only closed connections leave it something.
    """
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_COLLECTED_AFTER, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def _make_adapter(settings: Settings) -> Adapter:
    adapter = assemble.adapter_from_settings(
        verifier_settings_from_env(),
        assemble.request_scanner_from_settings(settings),
        preset=settings.policy.judge_preset,
    )
    adapter.make_ready()
    return adapter


def _change_adapter(api: Api, before: Settings, new: Settings) -> None:
    """Make the adapter for requests anew where it depends on what has changed."""
    one, other = before.policy, new.policy
    if (one.additional_patterns, one.judge_preset) != (other.additional_patterns, other.judge_preset):
        api.adapter = _make_adapter(new)


def _on_hangup(work: Callable[[], None]) -> _Handler:
    """Do this on SIGHUP; return the handler before. In a terminal it stays what it is: the terminal was closed."""
    if not hasattr(signal, "SIGHUP") or (sys.stdin is not None and sys.stdin.isatty()):
        return None
    return signal.signal(signal.SIGHUP, lambda *_: work())


def _make_server(plan: _ServePlan, api: Api, ready: Callable[[], None]) -> Server:
    serving = make_server(
        api,
        connections=plan.connections,
        # All agents of this machine share one network: none of them gets a smaller share.
        each=plan.connections_each or (plan.connections if is_loopback(plan.listening.getsockname()[0]) else None),
        head_bytes=_HEAD_BYTES,
        ready=ready,
        too_many=busy_problem().answer.body,
    )
    # One more than our own limit: uvicorn's own refusal would not be JSON.
    serving.config.limit_concurrency = plan.connections + 1
    serving.config.timeout_graceful_shutdown = GRACE_S
    return serving


def _supervise_workers(plan: _ServePlan, announce: Callable[[], None], slow: Timer) -> Exit:
    """Run several worker processes on one socket, and replace those that die; no waiting connection is lost."""
    alive_read, alive_write = os.pipe()
    workers: dict[int, _WorkerProcess] = {}
    before = signal.signal(signal.SIGTERM, raise_terminated)

    def tell_workers() -> None:
        for worker in list(workers.values()):
            os.kill(worker.pid, signal.SIGHUP)

    hangup = _on_hangup(tell_workers)
    with TemporaryDirectory(prefix="lockgate-") as folder:
        try:
            for _ in range(plan.workers):
                _start_worker(plan, Path(folder), workers, (alive_read, alive_write), warns=not workers)
            slow.start()
            return _watch_workers(plan, Path(folder), workers, (alive_read, alive_write), announce)
        except (Terminated, KeyboardInterrupt):
            return Exit.CLEAR
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            for worker in workers.values():
                os.kill(worker.pid, signal.SIGTERM)
            for worker in workers.values():
                os.waitpid(worker.pid, 0)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.signal(signal.SIGTERM, before)
            if hangup is not None:
                signal.signal(signal.SIGHUP, hangup)


class _WorkerProcess(NamedTuple):
    pid: int
    started_s: float


def _start_worker(
    plan: _ServePlan, folder: Path, workers: dict[int, _WorkerProcess], alive: tuple[int, int], *, warns: bool = False
) -> None:
    """Start one more worker with a pipe: a byte means that it is ready, the end of the pipe that it has died."""
    told_read, told_write = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    # Until the child has its own handlers, a signal would run the parent's in it.
    signal.pthread_sigmask(signal.SIG_BLOCK, _HELD_SIGNALS)
    pid = os.fork()
    if pid:
        os.close(told_write)
        workers[told_read] = _WorkerProcess(pid, time.monotonic())
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HELD_SIGNALS)
        return
    code: int = Exit.BROKEN
    try:
        for number in (told_read, alive[1], *workers):
            os.close(number)

        def follow() -> None:
            # The read ends when the parent does, even if the parent was killed.
            os.read(alive[0], 1)
            os.kill(os.getpid(), signal.SIGTERM)

        # Ctrl-C reaches every process of the terminal; only the parent acts on it, and stops the workers.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        # The parent's handler is not the worker's: until it has its own, it reads the files when it looks.
        _on_hangup(_nothing)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HELD_SIGNALS)
        Thread(target=follow, daemon=True).start()

        def ready() -> None:
            os.write(told_write, b"1")

        code = _exit_code_of(lambda: _serve_until_signal(plan, folder, ready, warns=warns))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _exit_code_of(work: Callable[[], Exit]) -> int:
    """Run a worker and return its exit code; print its error as `main` does for a command."""
    try:
        return work()
    except LockgateError as error:
        hint = f"\nhint: {make_visible(error.hint)}" if error.hint else ""
        print(f"lockgate: error: {make_visible(error.message)}{hint}", file=sys.stderr)
        return Exit.INVALID
    except Exception as error:  # noqa: BLE001 - as `main` does
        print(f"lockgate: error: a worker failed: {type(error).__name__}", file=sys.stderr)
        return Exit.BROKEN


def _watch_workers(
    plan: _ServePlan,
    folder: Path,
    workers: dict[int, _WorkerProcess],
    alive: tuple[int, int],
    announce: Callable[[], None],
) -> Exit:
    log = logging.getLogger("lockgate.serve")
    starting = set(workers)
    young, last_s = 0, time.monotonic()
    while True:
        for pipe in select(list(workers), [], [])[0]:
            if os.read(pipe, 1):
                starting.discard(pipe)
                if not starting and announce is not None:
                    announce()
                    announce = _nothing
                continue
            os.close(pipe)
            worker = workers.pop(pipe)
            code = os.waitstatus_to_exitcode(os.waitpid(worker.pid, 0)[1])
            if pipe in starting and code > 0:
                # It cannot start, and has printed why; the others cannot either.
                return Exit(code) if code in set(Exit) else Exit.BROKEN
            starting.discard(pipe)
            log.warning("a worker ended and is replaced: pid=%d code=%d", worker.pid, code)
            now_s = time.monotonic()
            if now_s - last_s > _CALM_S:
                young = 0
            last_s = now_s
            if now_s - worker.started_s < _YOUNG_S:
                young += 1
                if young > _MOST_YOUNG:
                    log.error("workers keep dying: giving up")
                    return Exit.BROKEN
                time.sleep(min(4.0, 0.25 * 2**young))
            _start_worker(plan, folder, workers, alive)


def _nothing() -> None:
    return


def _parse_workers(text: str) -> int:
    return parse_whole_number(text, 1, 64)
