"""`lockgate gate`: the abuse gate as a server, in front of an upstream or beside a gateway that asks it."""

from __future__ import annotations

import argparse
import logging
import os
import re
import sys
from contextlib import ExitStack
from importlib.util import find_spec
from os import urandom
from pathlib import Path
from typing import TYPE_CHECKING

from lockgate import assemble
from lockgate.abuse_gate.identity import parse_address
from lockgate.abuse_gate.middleware import AbuseGateMiddleware
from lockgate.abuse_gate.proxy.gateway_callouts import (
    ExtAuthz,
    HeaderIdentity,
    LiteLLMGuardrail,
    LiteLLMIdentity,
    allow_all,
)
from lockgate.abuse_gate.proxy.metrics_server import serve_metrics
from lockgate.abuse_gate.proxy.server import make_server, with_health_check
from lockgate.cli import bans
from lockgate.cli.exit_codes import Exit
from lockgate.cli.listening import listening_error, open_listening_socket, socket_place, until_terminated
from lockgate.cli.parser import parse_count, parse_port, parse_whole_number
from lockgate.cli.terminal import make_visible
from lockgate.core.errors import InvalidConfig, LockgateError, quoted
from lockgate.gate.gate import Gate
from lockgate.settings.abuse_gate import abuse_settings_from_env
from lockgate.settings.key_files import read_key_file
from lockgate.settings.verifiers import verifier_settings_from_env

if TYPE_CHECKING:
    from lockgate.abuse_gate.identity import Identity
    from lockgate.abuse_gate.proxy.reverse_proxy import Upstream
    from lockgate.cli.parser import Parser
    from lockgate.runtime.asgi import App
    from lockgate.settings.abuse_gate import AbuseSettings
    from lockgate.settings.config import Settings

_HELP = """\
Runs the abuse gate as a reverse proxy in front of an LLM API; requests and answers are streamed.
Or answers a gateway that asks about its requests: Envoy (ext_authz over HTTP) or LiteLLM (generic
guardrail API).

example:
  $ lockgate gate --upstream https://api.example.com
  $ lockgate gate --upstream http://127.0.0.1:8000 --port 9000 --key-header authorization
  $ ABUSE_TRUSTED_PROXIES=127.0.0.1 lockgate gate --envoy --user-header x-user
  $ LOCKGATE_GATE_TOKEN_FILE=/run/secrets/token lockgate gate --litellm
  $ lockgate gate bans
  $ lockgate gate bans --lift alice

Without --key-header and --user-header, clients are told apart by their network only, and all clients of
one network are locked together. ABUSE_ANONYMOUS=none only slows them.
`lockgate help proxy`, `lockgate help envoy` and `lockgate help litellm` say more; `lockgate help abuse-gate`
lists the settings.
GET /healthz answers 204. Ends with Ctrl-C. `bans` lists the locked and quarantined clients of the
ban file and the shared store that the settings name; --lift takes a principal, a hash from that list, or
`-` to read either from standard input. Exit code 1: there is no such ban; 2: bad options or settings.
"""

TOKEN = "LOCKGATE_GATE_TOKEN"  # noqa: S105 - the name of a variable


def describe(parser: Parser) -> None:
    parser.usage = "lockgate gate (--upstream URL | --envoy | --litellm | bans) [options]"
    parser.description = _HELP
    parser.add_argument("what", nargs="?", choices=("bans",), metavar="bans", help="list banned clients, or lift a ban")
    parser.add_argument("--lift", metavar="WHO", help="with `bans`: lift the ban of this client")
    parser.add_argument("--tenant", metavar="NAME", default="", help="with --lift: the tenant of this client")
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--upstream", metavar="URL", help="forward requests to this server only")
    place.add_argument("--envoy", action="store_true", help="answer Envoy, which is in ABUSE_TRUSTED_PROXIES")
    place.add_argument("--litellm", action="store_true", help=f"answer LiteLLM, which knows {TOKEN}")
    parser.add_argument("--host", metavar="ADDRESS", default="127.0.0.1", help="listen here (127.0.0.1)")
    parser.add_argument("--port", metavar="N", type=parse_port, default=8080, help="and on this port (8080); 0 is any")
    parser.add_argument("--key-header", metavar="NAME", default="", help="each client's API key header")
    parser.add_argument("--user-header", metavar="NAME", default="", help="the header in which a proxy names the user")
    parser.add_argument(
        "--idle-timeout",
        metavar="SECONDS",
        type=_parse_seconds,
        default=120.0,
        help="how long the upstream may be silent",
    )
    parser.add_argument(
        "--total-timeout",
        metavar="SECONDS",
        type=_parse_seconds,
        default=900.0,
        help="how long an answer may take in all",
    )
    parser.add_argument("--ca-file", metavar="PATH", default="", help="trust these authorities, and no others")
    parser.add_argument("--forward-client", action="store_true", help="tell the upstream the client's address")
    parser.add_argument(
        "--connections", metavar="N", type=parse_count, default=1000, help="how many may be open (1000)"
    )
    parser.add_argument(
        "--connections-each", metavar="N", type=parse_count, help="how many of them from one network (a quarter)"
    )
    parser.add_argument(
        "--metrics",
        metavar="HOST:PORT",
        type=_parse_place,
        help="answer GET /metrics there, apart from the clients, e.g. 127.0.0.1:9464",
    )
    parser.add_argument("--config", metavar="PATH", help="use this configuration file")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> Exit:
    if args.what == "bans":
        return bans.run(args)
    for package in ("httpx2", "uvicorn"):
        if find_spec(package) is None:
            raise InvalidConfig(f"`lockgate gate` needs the package `{package}`", hint="pip install 'lockgate[api]'")
    app, settings, told, identity = _make_app(args)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(message)s", stream=sys.stderr)
    # Twice the gate's limit, so that the gate itself refuses a head that is too large.
    _serve_app(app, args, told, identity, head_bytes=2 * settings.max_header_bytes)
    return Exit.CLEAR


def _make_app(args: argparse.Namespace) -> tuple[App, AbuseSettings, str, Identity]:
    """Return the application, its settings, the text for its first line, and the identity that knows its proxies."""
    _refuse_idle_options(args)
    upstream = _read_upstream(args) if args.upstream is not None else None
    token = _read_token() if args.litellm else ""
    found = assemble.settings_from_environment(args.config)
    settings = abuse_settings_from_env(table=found.abuse_gate)
    if args.envoy and not settings.trusted_proxies:
        raise InvalidConfig(
            "--envoy needs ABUSE_TRUSTED_PROXIES: only a trusted proxy may say who the clients are",
            hint="name Envoy's address as it is seen from here, for example 127.0.0.1",
        )
    secret = settings.secret or urandom(32)
    if args.litellm:
        keys = LiteLLMIdentity(secret, trusted_proxies=settings.trusted_proxies)
        # LiteLLM repeats most of the request in its description, and escapes it.
        max_bytes = 4 * settings.max_body_bytes + (1 << 16)
        gate = _make_middleware(allow_all, settings, keys, found)
        return (
            LiteLLMGuardrail(
                gate,
                token,
                max_bytes=max_bytes,
                read_s=settings.read_total_s,
                teams_are_tenants=settings.has_tenants,
            ),
            settings,
            "for LiteLLM",
            keys,
        )
    identity = HeaderIdentity(
        secret,
        settings.trusted_proxies,
        user_header=_parse_header_name(args.user_header),
        key_header=_parse_header_name(args.key_header),
        locks_anonymous=settings.anonymous == "network",
    )
    if upstream is None:
        return (
            ExtAuthz(_make_middleware(allow_all, settings, identity, found), identity),
            settings,
            "for Envoy",
            identity,
        )
    from lockgate.abuse_gate.proxy.reverse_proxy import ReverseProxy

    proxy = ReverseProxy(
        upstream,
        idle_s=args.idle_timeout,
        total_s=args.total_timeout,
        ca_file=args.ca_file,
        trusts=identity.trusts if args.forward_client else None,
    )
    return (
        _make_middleware(proxy, settings, identity, found),
        settings,
        f"for {upstream.origin}{upstream.base}",
        identity,
    )


def _make_middleware(app: App, settings: AbuseSettings, identity: Identity, found: Settings) -> AbuseGateMiddleware:
    asked_with = assemble.request_scanner_from_settings(found)
    return AbuseGateMiddleware(
        app,
        settings=settings,
        adapter=assemble.adapter_from_settings(verifier_settings_from_env(), asked_with),
        identity=identity,
        journal=assemble.journal_from_settings(found) or False,
        gate=Gate(found.policy, scanner=assemble.scanner_from_settings(found)),
    )


def _serve_app(app: App, args: argparse.Namespace, told: str, identity: Identity, *, head_bytes: int) -> None:
    try:
        listening = open_listening_socket(args.host, args.port)
    except (OSError, UnicodeError) as error:
        raise listening_error(error, args.host, args.port) from None
    host, port = socket_place(listening)
    serving = make_server(
        with_health_check(app),
        connections=args.connections,
        # LiteLLM is one client that carries every user's requests.
        each=args.connections_each or (args.connections if args.litellm else None),
        trusts=lambda address: identity.trusts_address(parse_address(address)),
        head_bytes=head_bytes,
        ready=lambda: print(make_visible(f"lockgate gate: http://{host}:{port} {told}"), flush=True),
    )
    with listening, ExitStack() as stack:
        if args.metrics is not None:
            try:
                metrics_port = stack.enter_context(serve_metrics(*args.metrics))
            except (OSError, UnicodeError) as error:
                raise listening_error(error, *args.metrics) from None
            print(make_visible(f"lockgate gate: metrics on port {metrics_port}"), flush=True)
        stack.enter_context(until_terminated())
        serving.run(sockets=[listening])


def _read_upstream(args: argparse.Namespace) -> Upstream:
    from lockgate.abuse_gate.proxy.reverse_proxy import parse_upstream

    upstream = parse_upstream(args.upstream)
    if upstream.is_in_clear:
        print(f"lockgate: warning: keys and prompts go to {upstream.host} in clear", file=sys.stderr)
    return upstream


def _refuse_idle_options(args: argparse.Namespace) -> None:
    """Refuse an option that has no effect here: the user expects one."""
    if args.lift is not None or args.tenant:
        option = "--lift" if args.lift is not None else "--tenant"
        raise LockgateError(f"{option} has no effect without `bans`", hint="lockgate gate bans --lift WHO")
    if not (args.envoy or args.litellm or args.upstream is not None):
        raise LockgateError(
            "what to stand in front of is missing: --upstream, --envoy or --litellm",
            hint="lockgate gate --help lists the options",
        )
    place = "--envoy" if args.envoy else "--litellm"
    given = {"--ca-file": args.ca_file, "--forward-client": args.forward_client}
    if args.litellm:
        given |= {"--key-header": args.key_header, "--user-header": args.user_header}
    for option, value in given.items():
        if value and args.upstream is None:
            raise LockgateError(f"{option} has no effect with {place}", hint="leave it out")


def _read_token() -> str:
    token, file = (os.environ.get(name, "").strip() for name in (TOKEN, f"{TOKEN}_FILE"))
    if token and file:
        raise InvalidConfig(f"{TOKEN} and {TOKEN}_FILE are both set", hint="unset one of them")
    token = read_key_file(Path(file)) if file else token
    if not token:
        raise InvalidConfig(
            f"--litellm needs {TOKEN}, or {TOKEN}_FILE with the path of a file that holds it",
            hint="make one: python3 -c 'import secrets; print(secrets.token_urlsafe(32))'",
        )
    return token


def _parse_header_name(text: str) -> str:
    if text and not re.fullmatch(r"[A-Za-z][A-Za-z0-9-]{0,63}", text):
        raise LockgateError(f"{quoted(text)} is no name of a header", hint="for example x-user")
    return text


def _parse_place(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not host:
        raise LockgateError(f"{quoted(text)} is no address to listen on", hint="write HOST:PORT, e.g. 127.0.0.1:9464")
    return host.strip("[]"), parse_port(port)


def _parse_seconds(text: str) -> float:
    return float(parse_whole_number(text, 1, 86_400))
