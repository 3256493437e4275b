"""The trace that work belongs to: read strictly, from the request first, and never a reason to fail."""

from __future__ import annotations

import sys
from contextvars import copy_context
from types import SimpleNamespace

import pytest
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, use_span

from lockgate.runtime.tracing import REQUEST_TRACE, current_trace_id, parse_traceparent

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.mark.parametrize(
    ("text", "trace"),
    [
        (f"00-{TRACE}-{SPAN}-01", TRACE),
        (f"01-{TRACE}-{SPAN}-01-more", TRACE),
        (f"00-{TRACE}-{SPAN}-01-more", ""),
        (f"ff-{TRACE}-{SPAN}-01", ""),
        (f"00-{'0' * 32}-{SPAN}-01", ""),
        (f"00-{TRACE.upper()}-{SPAN}-01", ""),
        (f"00-{TRACE}-{SPAN}-01\n", ""),
        (f"00-{TRACE}-{SPAN}", ""),
        (f"01-{TRACE}-{SPAN}-01-{'x' * 9999}", ""),
        ("<script>alert(1)</script>", ""),
        ("", ""),
    ],
)
def test_a_traceparent_has_one_trace_or_none(text: str, trace: str) -> None:
    assert parse_traceparent(text) == trace


def test_the_request_s_trace_comes_before_the_span_s() -> None:
    span = NonRecordingSpan(SpanContext(int(TRACE, 16), int(SPAN, 16), is_remote=True, trace_flags=TraceFlags(1)))

    def run() -> None:
        assert current_trace_id() == ""
        with use_span(span):
            assert current_trace_id() == TRACE
            REQUEST_TRACE.set("1" * 32)
            assert current_trace_id() == "1" * 32

    copy_context().run(run)


def test_a_tracer_that_fails_or_lies_gives_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    for trace in (None, "x", -1, 0, 1 << 200):
        context = SimpleNamespace(trace_id=trace)
        odd = SimpleNamespace(get_current_span=lambda: SimpleNamespace(get_span_context=lambda: context))  # noqa: B023
        monkeypatch.setitem(sys.modules, "opentelemetry.trace", odd)  # type: ignore[arg-type]
        assert current_trace_id() == ""
