"""Every metric, its name given once, and its rendering as Prometheus text.

The contract's names and ours: `verifier.requests_total` is `lockgate_verifier_requests_total`,
`verifier.errors_total` is `lockgate_verifier_errors_total`, and `verifier.latency_ms` is
`lockgate_verifier_latency_seconds`: Prometheus has no dots in names, and counts time in seconds.

The abuse gate's metrics (`lockgate_gate_…`) stand apart, in `gate`: the contract has no names for them.

Labels have closed sets of values. A value outside its set is counted as `other`, so that no client can create series.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from threading import Lock
from typing import get_args

from lockgate.core.questions import NoAnswerReason, Verdict
from lockgate.runtime.forks import on_fork

OTHER = "other"
PROVIDERS = ("local", "openai", "anthropic", "azure", "compatible", "embedded", OTHER)
OUTCOMES: tuple[str, ...] = (*get_args(Verdict), OTHER)
ERRORS = (*(why.value for why in NoAnswerReason), OTHER)

# The abuse gate: outcomes of requests, reasons for refusals, parts that failed, events of the ladder.
GATE_OUTCOMES = (
    *("allowed", "unclear", "clarified", "denied", "locked", "quarantined", "slowed", "refused", "failed", "left"),
    OTHER,
)
GATE_REASONS = (
    *("unsafe", "clarify", "unclear", "tools-locked", "quarantined", "slowed", "websocket", "busy", "unavailable"),
    *("headers-too-large", "two-content-types", "encoded-body", "body-too-large", "body-too-slow", "not-http"),
    *("artifact-unread", "bad-credential", "unknown-tenant"),
    *("unreadable", "not-json", "duplicate-key", "too-deep", "bad-query", "bad-form", "bad-multipart"),
    *("bad-text", "too-many-values", "too-many-parts", "too-much-text", "bad-content-type", "unknown-charset"),
    OTHER,
)
GATE_PARTS = ("identity", "ladder", "parse", "artifacts", "verdict", "journal", OTHER)
LADDER_EVENTS = ("evicted", "evicted-ban", "store-error", "bans-error", "unshared", OTHER)

# From the time of the rules to well past the default deadline of 1.5 s, which is one of the bounds.
LATENCY_SECONDS = (0.0001, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 1.5, 2.5, 5.0, 10.0, 30.0, 120.0)

# One lock for all metrics: each is held for less than a microsecond.
_lock = Lock()


def _reset_lock() -> None:
    global _lock
    _lock = Lock()


on_fork(_reset_lock)


class Counter:
    """A number per combination of label values that only grows."""

    kind = "counter"

    def __init__(self, name: str, help: str, labels: Mapping[str, tuple[str, ...]]) -> None:
        self.name, self.help, self.labels = name, help, dict(labels)
        self._values: dict[tuple[str, ...], int] = {}

    def add(self, *values: str) -> None:
        try:
            with _lock:
                # The common case: an existing series has known values.
                self._values[values] += 1
        except (KeyError, TypeError):
            series = _series(self.labels, values)
            with _lock:
                self._values[series] = self._values.get(series, 0) + 1

    def value(self, *values: str) -> int:
        with _lock:
            return self._values.get(_series(self.labels, values), 0)

    def samples(self) -> Iterator[str]:
        with _lock:
            values = sorted(self._values.items())
        for series, value in values:
            yield f"{self.name}{_labels(self.labels, series)} {value}"


class Histogram:
    """How many of the values seen are at most each bound, per combination of label values."""

    kind = "histogram"

    def __init__(self, name: str, help: str, labels: Mapping[str, tuple[str, ...]], bounds: tuple[float, ...]) -> None:
        self.name, self.help, self.labels, self.bounds = name, help, dict(labels), bounds
        self._counts: dict[tuple[str, ...], list[int]] = {}
        self._sums: dict[tuple[str, ...], float] = {}

    def observe(self, value: float, *values: str) -> None:
        # NaN would spoil the sum for good, and a clock that went backwards gives no latency.
        seen = value if value >= 0 else 0.0
        place = bisect_left(self.bounds, seen)
        try:
            with _lock:
                self._sums[values] += seen
                self._counts[values][place] += 1
        except (KeyError, TypeError):
            series = _series(self.labels, values)
            with _lock:
                self._counts.setdefault(series, [0] * (len(self.bounds) + 1))[place] += 1
                self._sums[series] = self._sums.get(series, 0.0) + seen

    def count(self, *values: str) -> int:
        with _lock:
            return sum(self._counts.get(_series(self.labels, values), ()))

    def samples(self) -> Iterator[str]:
        with _lock:
            seen = sorted((series, list(counts), self._sums[series]) for series, counts in self._counts.items())
        for series, counts, total in seen:
            running = 0
            for bound, count in zip((*map(repr, self.bounds), "+Inf"), counts, strict=True):
                running += count
                yield f"{self.name}_bucket{_labels({**self.labels, 'le': ()}, (*series, bound))} {running}"
            yield f"{self.name}_sum{_labels(self.labels, series)} {total!r}"
            yield f"{self.name}_count{_labels(self.labels, series)} {running}"


class Metrics:
    """All counters. The process uses `METRICS`; tests make their own."""

    def __init__(self) -> None:
        self.requests = Counter(
            "lockgate_verifier_requests_total",
            "Requests assessed, by who was asked and what came out.",
            {"provider": PROVIDERS, "outcome": OUTCOMES},
        )
        self.latency = Histogram(
            "lockgate_verifier_latency_seconds",
            "How long an assessment took.",
            {"provider": PROVIDERS},
            LATENCY_SECONDS,
        )
        self.errors = Counter(
            "lockgate_verifier_errors_total",
            "Assessments without an answer, by reason.",
            {"provider": PROVIDERS, "reason": ERRORS},
        )
        self.gated = Counter(
            "lockgate_gate_requests_total",
            "Requests at the abuse gate, by what became of them.",
            {"outcome": GATE_OUTCOMES},
        )
        self.gate_seconds = Histogram(
            "lockgate_gate_seconds",
            "How long the gate took, reading the body included and the application not.",
            {"outcome": GATE_OUTCOMES},
            LATENCY_SECONDS,
        )
        self.gate_refusals = Counter(
            "lockgate_gate_refusals_total",
            "Requests that the gate did not pass on, by reason.",
            {"reason": GATE_REASONS},
        )
        self.gate_errors = Counter(
            "lockgate_gate_errors_total", "Parts of the gate that did not do their work.", {"part": GATE_PARTS}
        )
        self.ladder_events = Counter(
            "lockgate_gate_ladder_events_total",
            "What the ladder had to forget, or could not share with others.",
            {"event": LADDER_EVENTS},
        )

        self.gate_tenants = Counter(
            "lockgate_gate_tenant_requests_total",
            "Requests at a gate with tenants, by tenant and by what became of them.",
            # The operator's tenants come before it, see `list_tenants`.
            {"tenant": (OTHER,), "outcome": GATE_OUTCOMES},
        )

    def list_tenants(self, names: Iterable[str]) -> None:
        """Give these tenants, which the operator listed, a series each; all others are counted as `other`."""
        with _lock:
            known = self.gate_tenants.labels["tenant"]
            self.gate_tenants.labels["tenant"] = (*dict.fromkeys((*known[:-1], *names)), OTHER)

    @property
    def gate(self) -> tuple[Counter | Histogram, ...]:
        return (
            self.gated,
            self.gate_seconds,
            self.gate_refusals,
            self.gate_errors,
            self.ladder_events,
            self.gate_tenants,
        )

    @property
    def all(self) -> tuple[Counter | Histogram, ...]:
        return (self.requests, self.latency, self.errors)

    def render(self) -> str:
        """Return all metrics in Prometheus' text format 0.0.4."""
        lines: list[str] = []
        for metric in (*self.all, *self.gate):
            lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}", *metric.samples()]
        return "\n".join(lines) + "\n"


METRICS = Metrics()
NAMES = tuple(metric.name for metric in METRICS.all)


def _series(labels: Mapping[str, tuple[str, ...]], values: tuple[str, ...]) -> tuple[str, ...]:
    """Return the label values to count under: the closed set's own strings, or `other`."""
    return tuple(
        known[known.index(value)] if value in known else OTHER
        for known, value in zip(labels.values(), values, strict=True)
    )


def _labels(labels: Mapping[str, tuple[str, ...]], series: tuple[str, ...]) -> str:
    # Nothing to escape: every value is one of ours.
    return "{" + ",".join(f'{name}="{value}"' for name, value in zip(labels, series, strict=True)) + "}"
