from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from asking import Asking
from prometheus_client.parser import text_string_to_metric_families

from lockgate.core.vocabulary import Action, Decision, Reason, Risk
from lockgate.runtime.metrics import Metrics
from lockgate.runtime.worker_pool import Full
from lockgate.service.request_counts import RequestCounts, label_of, sum_metrics
from lockgate.service.routes import ROUTES


def test_metrics_count_routes_and_rulings(make: Callable[..., Asking]) -> None:
    ask = make(counts=RequestCounts(map(label_of, ROUTES), metrics=Metrics()))
    ask("POST", "/v1/sessions/new/checks", {"tool": "read", "arguments": {}})
    ask("GET", "/nowhere/at/all")
    reply = ask("GET", "/metrics")
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    samples = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(reply.body.decode())
        for sample in family.samples
    }
    asked = ("lockgate_http_requests_total", (("route", "POST /v1/sessions/{session}/checks"), ("status", "2xx")))
    assert samples[asked] == 1
    assert samples["lockgate_http_requests_total", (("route", "other"), ("status", "4xx"))] == 1
    assert samples["lockgate_decisions_total", (("action", "CONTINUE"), ("tier", "1"))] == 1
    assert "nowhere" not in reply.body.decode()


def test_refusals_are_counted_by_reason(make: Callable[..., Asking], monkeypatch: pytest.MonkeyPatch) -> None:
    ask = make(counts=RequestCounts(map(label_of, ROUTES), metrics=Metrics()))

    refusals = [Full(), Full(by_caller=True), Full(by_caller=True)]

    async def refuse(*_: object) -> None:
        raise refusals.pop(0)

    with monkeypatch.context() as patch:
        patch.setattr(ask.api._store_pool, "run_async", refuse)
        assert [ask("GET", "/v1/decisions").status for _ in range(3)] == [503, 429, 429]
    # The client's own mistakes are none.
    assert ask("POST", "/v1/sessions/new/checks", {"tool": 1}).status == 422
    counted = samples(ask("GET", "/metrics").body.decode())
    refused = {name: count for name, count in counted.items() if "refused" in name and count}
    assert refused == {
        "lockgate_http_refused_total['busy']": 1,
        "lockgate_http_refused_total['too-many-requests']": 2,
    }


PASS = Decision(Action.CONTINUE, 1, Reason.NO_RED_FLAGS, Risk.LOW, latency_us=5.0)


def samples(text: str) -> dict[str, float]:
    return {
        f"{sample.name}{sorted(sample.labels.values())}": sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_the_counts_of_several_workers_are_told_as_one(tmp_path: Path) -> None:
    counts = RequestCounts(["GET /a"], folder=tmp_path, metrics=Metrics())
    counts.count_ruling(PASS)
    (tmp_path / "1.txt").write_text(counts.render())
    counts.count_ruling(PASS)
    told = samples(counts.render_all())
    assert told["lockgate_decisions_total['1', 'CONTINUE']"] == 3
    # A worker tells what it has counted once, however often it is asked.
    assert samples(counts.render_all()) == told


def test_a_folder_that_is_gone_costs_the_others_counts_and_no_answer(tmp_path: Path) -> None:
    counts = RequestCounts(folder=tmp_path / "gone", metrics=Metrics())
    assert counts.render_all() == "\n"
    alone = RequestCounts(metrics=Metrics())
    alone.count_ruling(PASS)
    assert samples(alone.render_all())["lockgate_decisions_total['1', 'CONTINUE']"] == 1


def test_sums_keep_series_with_their_metric_and_add_numbers_exactly() -> None:
    one = '# HELP a first\n# TYPE a counter\na{x="1 2"} 1\n# HELP b second\n# TYPE b gauge\nb 0.1\n'
    other = '# HELP a first\n# TYPE a counter\na{x="1 2"} 2\na{x="3"} 5\n'
    assert sum_metrics([one, other]) == (
        '# HELP a first\n# TYPE a counter\na{x="1 2"} 3\na{x="3"} 5\n'
        "# HELP b second\n# TYPE b gauge\nb 0.10000000000000001\n"
    )
