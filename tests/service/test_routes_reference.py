"""The page about the service says what the table of routes says."""

from __future__ import annotations

import re
from pathlib import Path

from lockgate.service import app, auth, gate_requests, handlers, openapi
from lockgate.service import http as exchange
from lockgate.service import journal_proofs as proofs
from lockgate.service import request_counts as counting
from lockgate.service.event_stream import HEARTBEAT_S, MAX_LISTENERS
from lockgate.service.openapi import MAX_BODY
from lockgate.service.routes import ROUTES
from lockgate.service.schemas import MAX_LIMIT
from lockgate.service.views import MOST_SHOWN

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "reference" / "service.md").read_text(encoding="utf-8")


def test_every_code_that_is_told_is_in_the_reference() -> None:
    told: set[str] = {code for code, _ in exchange._REFUSALS.values()}
    for module in (app, auth, exchange, gate_requests, handlers, openapi, proofs):
        source = Path(module.__file__ or "").read_text(encoding="utf-8")
        told |= set(re.findall(r'Problem\(\s*\d{3},\s*"([a-z0-9-]+)"', source))
    assert len(told) > 30
    assert [code for code in sorted(told) if f"`{code}`" not in PAGE] == []


def test_headers_metrics_and_limits_are_those_in_force() -> None:
    for name, _ in app.HEADERS:
        assert name.decode().lower() in PAGE.lower()
    assert all(f"`{name}`" in PAGE for name in counting.NAMES)
    assert all(f"`{name}`" in PAGE for name in auth.VARIABLES.values())
    most = {route.path: route.most for route in ROUTES if route.method == "POST"}
    assert f"{MAX_BODY >> 20} MiB, {most['/v1/sessions/{session}/blocks'] >> 20} MiB for" in PAGE
    assert f"{most['/hooks/claude-code'] >> 20} MiB for hooks" in PAGE
    assert f"pause for {exchange.IDLE_S:.0f} seconds and take {exchange.TOTAL_S:.0f}" in PAGE
    assert f"(1 to {MAX_LIMIT}, else 50)" in PAGE
    assert f"every {HEARTBEAT_S:.0f} seconds" in PAGE
    assert f"At most {MAX_LISTENERS} listen" in PAGE
    assert f"more than {MOST_SHOWN >> 10} KiB" in PAGE


def test_the_systemd_unit_leaves_time_to_end() -> None:
    from lockgate.cli.serve import GRACE_S
    from lockgate.cli.service_units import ServiceProcess, systemd_unit

    unit = systemd_unit(ServiceProcess(("lockgate", "serve"), {}, Path("/state"), "ana", 1000), Path("/config"))
    found = re.search(rb"TimeoutStopSec=(\d+)", unit.data)
    assert found is not None
    assert int(found[1]) > GRACE_S
