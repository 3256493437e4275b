"""OpenTelemetry metrics under the contract's own names, where its API package is installed; without it there are none.

The Prometheus text of `metrics.py` counts the same. Labels have the same closed sets of values.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from lockgate.runtime.metrics import ERRORS, OTHER, OUTCOMES, PROVIDERS

REQUESTS, LATENCY, ERROR_COUNT = "verifier.requests_total", "verifier.latency_ms", "verifier.errors_total"


class OtelMetrics:
    """Counts assessments with the application's meter provider, also one that is installed later."""

    __slots__ = ("_errors", "_latency", "_requests")

    def __init__(self) -> None:
        self._requests: Any = None
        self._latency: Any = None
        self._errors: Any = None
        # A broken exporter in the application must not change a verdict.
        with suppress(Exception):
            from opentelemetry.metrics import get_meter

            meter = get_meter("lockgate")
            requests = meter.create_counter(
                REQUESTS, description="Requests assessed, by who was asked and what came out."
            )
            self._latency = meter.create_histogram(LATENCY, unit="ms", description="How long an assessment took.")
            self._errors = meter.create_counter(ERROR_COUNT, description="Assessments without an answer, by reason.")
            # Last: with it, all of them are there.
            self._requests = requests

    def count(self, provider: str, outcome: str, latency_ms: float, reason: str = "") -> None:
        """Count one assessment; `reason` says why there was no answer."""
        if self._requests is None:
            return
        with suppress(Exception):
            asked = {"provider": provider if provider in PROVIDERS else OTHER}
            self._requests.add(1, {**asked, "outcome": outcome if outcome in OUTCOMES else OTHER})
            self._latency.record(latency_ms if latency_ms >= 0 else 0.0, asked)
            if reason:
                self._errors.add(1, {**asked, "reason": reason if reason in ERRORS else OTHER})
