"""The contract's metrics as a collector sees them: the real OpenTelemetry SDK, in this process."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from lockgate.core.questions import NoAnswerReason
from lockgate.core.text.scanner import Scanner
from lockgate.runtime.metrics import ERRORS, OUTCOMES, PROVIDERS, Metrics
from lockgate.runtime.otel_metrics import OtelMetrics
from lockgate.verifiers.adapters import LocalRuleAdapter

CLOSED = {"provider": PROVIDERS, "outcome": OUTCOMES, "reason": ERRORS}


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> InMemoryMetricReader:
    reader = InMemoryMetricReader()
    provider = MeterProvider(metric_readers=[reader])
    monkeypatch.setattr("opentelemetry.metrics.get_meter", provider.get_meter)
    return reader


def points(reader: InMemoryMetricReader) -> dict[str, list[Any]]:
    data = reader.get_metrics_data()
    found = [each for resource in data.resource_metrics for scope in resource.scope_metrics for each in scope.metrics]
    return {metric.name: list(metric.data.data_points) for metric in found}


def test_a_collector_sees_all_three_series_with_their_labels(reader: InMemoryMetricReader, scanner: Scanner) -> None:
    adapter = LocalRuleAdapter(scanner=scanner, metrics=Metrics())
    assert adapter.assess({"prompt_text": "What is the weather?"}) == "safe"
    adapter.assess(7)  # type: ignore[arg-type]
    seen = points(reader)
    counted = {
        (point.attributes["provider"], point.attributes["outcome"]): point.value
        for point in seen["verifier.requests_total"]
    }
    assert counted == {("local", "safe"): 1, ("local", "unclear"): 1}
    (latency,) = seen["verifier.latency_ms"]
    assert (latency.count, dict(latency.attributes)) == (2, {"provider": "local"})
    (error,) = seen["verifier.errors_total"]
    assert dict(error.attributes) == {"provider": "local", "reason": NoAnswerReason.BAD_PAYLOAD.value}


def test_no_label_has_a_value_outside_its_closed_set(reader: InMemoryMetricReader) -> None:
    made = OtelMetrics()
    for number in range(50):
        made.count(f"provider-{number}", f"outcome-{number}", float("nan"), f"reason-{number}")
    seen = points(reader)
    assert sorted(seen) == ["verifier.errors_total", "verifier.latency_ms", "verifier.requests_total"]
    for series in seen.values():
        assert len(series) == 1
        assert all(value in CLOSED[name] for name, value in series[0].attributes.items())


def test_a_meter_that_raises_changes_no_verdict(monkeypatch: pytest.MonkeyPatch, scanner: Scanner) -> None:
    def broken(_: str) -> Any:
        raise RuntimeError("no meter today")

    monkeypatch.setattr("opentelemetry.metrics.get_meter", broken)
    assert LocalRuleAdapter(scanner=scanner, metrics=Metrics()).assess({"prompt_text": "Hello"}) == "safe"


def test_without_a_collector_nothing_is_counted_and_nothing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opentelemetry.metrics.get_meter", NoOpMeterProvider().get_meter)
    OtelMetrics().count("local", "safe", 1.0)
