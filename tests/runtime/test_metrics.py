from __future__ import annotations

import math
import os
import threading

import pytest
from prometheus_client.parser import text_string_to_metric_families

from lockgate.core.questions import NoAnswerReason
from lockgate.runtime import metrics
from lockgate.runtime.metrics import (
    ERRORS,
    LATENCY_SECONDS,
    METRICS,
    NAMES,
    OTHER,
    PROVIDERS,
    Counter,
    Histogram,
    Metrics,
)


def samples(rendered: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Every sample as Prometheus' own parser reads it."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(rendered)
        for sample in family.samples
    }


def test_the_names_are_those_the_documentation_promises() -> None:
    assert NAMES == (
        "lockgate_verifier_requests_total",
        "lockgate_verifier_latency_seconds",
        "lockgate_verifier_errors_total",
    )
    assert {tuple(metric.labels) for metric in METRICS.all} == {
        ("provider", "outcome"),
        ("provider",),
        ("provider", "reason"),
    }


def test_prometheus_reads_what_is_rendered() -> None:
    made = Metrics()
    made.requests.add("openai", "safe")
    made.requests.add("openai", "safe")
    made.requests.add("local", "unsafe")
    made.errors.add("azure", NoAnswerReason.DEADLINE)
    made.latency.observe(0.3, "openai")
    made.latency.observe(99.0, "openai")
    made.latency.observe(0.00005, "openai")
    families = {family.name: family for family in text_string_to_metric_families(made.render())}
    assert {name: family.type for name, family in families.items()} == {
        "lockgate_verifier_requests": "counter",
        "lockgate_verifier_latency_seconds": "histogram",
        "lockgate_verifier_errors": "counter",
        "lockgate_gate_requests": "counter",
        "lockgate_gate_seconds": "histogram",
        "lockgate_gate_refusals": "counter",
        "lockgate_gate_errors": "counter",
        "lockgate_gate_ladder_events": "counter",
        "lockgate_gate_tenant_requests": "counter",
    }
    assert all(family.documentation for family in families.values())
    read = samples(made.render())
    asked = frozenset({("provider", "openai"), ("outcome", "safe")})
    assert read["lockgate_verifier_requests_total", asked] == 2
    failed = frozenset({("provider", "azure"), ("reason", "deadline")})
    assert read["lockgate_verifier_errors_total", failed] == 1
    buckets = [
        read["lockgate_verifier_latency_seconds_bucket", frozenset({("provider", "openai"), ("le", bound)})]
        for bound in (*map(str, LATENCY_SECONDS), "+Inf")
    ]
    assert buckets == sorted(buckets)
    assert (buckets[0], buckets[-1]) == (1, 3)
    one = frozenset({("provider", "openai")})
    assert read["lockgate_verifier_latency_seconds_count", one] == 3
    assert read["lockgate_verifier_latency_seconds_sum", one] == pytest.approx(99.30005)


def test_an_empty_registry_renders_and_parses() -> None:
    rendered = Metrics().render()
    assert rendered.endswith("\n")
    assert samples(rendered) == {}


def test_a_value_on_a_bound_counts_below_it() -> None:
    made = Histogram("h", "help", {}, (1.0, 2.0))
    made.observe(1.0)
    assert next(iter(made.samples())) == 'h_bucket{le="1.0"} 1'


class Everything(str):
    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = str.__hash__


HOSTILE = [
    "acme-tenant",
    "",
    'openai"} 1\nevil{a="',
    "OpenAI",
    "openai\n",
    "x" * 100_000,
    "\ud800",
    None,
    7,
    ["openai"],
]


def test_listed_tenants_have_a_series_and_others_none() -> None:
    made = Metrics()
    made.list_tenants(["acme"])
    made.list_tenants(["globex", "acme"])
    for tenant in ("acme", "globex", "initech", "", OTHER):
        made.gate_tenants.add(tenant, "allowed")
    assert made.gate_tenants.labels["tenant"] == ("acme", "globex", OTHER)
    assert [made.gate_tenants.value(each, "allowed") for each in ("acme", "globex", OTHER)] == [1, 1, 3]


@pytest.mark.parametrize("label", HOSTILE, ids=lambda label: repr(label)[:20])
def test_a_label_outside_its_set_is_other_and_makes_no_series(label: str) -> None:
    made = Metrics()
    made.requests.add(label, label)
    made.errors.add(label, label)
    made.latency.observe(0.1, label)
    assert made.requests.value(OTHER, OTHER) == 1
    assert made.errors.value(OTHER, OTHER) == 1
    assert made.latency.count(OTHER) == 1
    for metric in made.gate:
        size = len(metric.labels)
        metric.observe(0.1, label) if isinstance(metric, Histogram) else metric.add(*[label] * size)
        assert (metric.count if isinstance(metric, Histogram) else metric.value)(*[OTHER] * size) == 1
    assert "evil" not in made.render()
    samples(made.render())


def test_a_label_that_claims_to_be_equal_is_not_rendered() -> None:
    made = Metrics()
    made.requests.add(Everything("secret"), Everything("secret"))
    assert "secret" not in made.render()


def test_the_series_are_bounded_whatever_is_counted() -> None:
    made = Metrics()
    for number in range(5000):
        made.errors.add(f"tenant-{number}", f"reason-{number}")
        made.latency.observe(0.1, f"tenant-{number}")
    for provider in PROVIDERS:
        for reason in ERRORS:
            made.errors.add(provider, reason)
    assert len(list(made.errors.samples())) == len(PROVIDERS) * len(ERRORS)
    assert len(made.render()) < 40_000


def test_every_reason_for_no_answer_is_a_label() -> None:
    assert {why.value for why in NoAnswerReason} | {OTHER} == set(ERRORS)


@pytest.mark.parametrize("odd", [math.nan, -1.0, -math.inf])
def test_a_value_that_is_no_latency_does_not_spoil_the_sum(odd: float) -> None:
    made = Histogram("h", "help", {}, (1.0,))
    made.observe(odd)
    made.observe(0.5)
    assert list(made.samples()) == ['h_bucket{le="1.0"} 2', 'h_bucket{le="+Inf"} 2', "h_sum{} 0.5", "h_count{} 2"]


def test_endless_is_counted_past_every_bound() -> None:
    made = Histogram("h", "help", {}, (1.0,))
    made.observe(math.inf)
    assert list(made.samples())[:2] == ['h_bucket{le="1.0"} 0', 'h_bucket{le="+Inf"} 1']


def test_the_wrong_number_of_labels_is_an_error_at_once() -> None:
    with pytest.raises(ValueError, match="argument"):
        Counter("c", "help", {"provider": PROVIDERS}).add("openai", "safe")


def test_no_count_is_lost_between_threads() -> None:
    made = Metrics()

    def count() -> None:
        for _ in range(2000):
            made.requests.add("openai", "safe")
            made.latency.observe(0.01, "openai")

    threads = [threading.Thread(target=count) for _ in range(8)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        samples(made.render())
    assert made.requests.value("openai", "safe") == 16_000
    assert made.latency.count("openai") == 16_000


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_while_the_lock_is_held_leaves_the_child_counting() -> None:
    made = Metrics()
    with metrics._lock:
        child = os.fork()
        if child == 0:
            made.requests.add("openai", "safe")
            os._exit(0 if made.requests.value("openai", "safe") == 1 else 1)
    for _ in range(500):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        threading.Event().wait(0.01)
    else:
        os.kill(child, 9)
        os.waitpid(child, 0)
        pytest.fail("the child waits for a lock that no thread holds")
    assert os.waitstatus_to_exitcode(status) == 0
    assert made.requests.value("openai", "safe") == 0
