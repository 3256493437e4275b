"""OpenTelemetry spans, where its API package is installed; without it, or when it fails, there are none.

Also the id of the trace that a request or a call belongs to. The client chooses it, so it joins records as a hint only.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from time import monotonic
from typing import Any

NAME = "lockgate.verifier.assess"
# How often to look for a span collector while none is installed.
ASK_AGAIN_S = 1.0
# W3C Trace Context: version, trace, span, flags, and in later versions perhaps more.
_TRACEPARENT = re.compile(r"(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")
_MAX_TRACEPARENT = 256
_TRACE_ID = re.compile("(?!0{32})[0-9a-f]{32}")
# The trace of the HTTP request that this task or thread works for.
REQUEST_TRACE: ContextVar[str] = ContextVar("lockgate_request_trace", default="")


def parse_traceparent(text: str) -> str:
    """Return the trace id of a `traceparent` header, 32 hexadecimal digits; empty if it has none."""
    found = _TRACEPARENT.fullmatch(text) if len(text) <= _MAX_TRACEPARENT else None
    if found is None or (found[1] == "00" and found[3]) or not _TRACE_ID.fullmatch(found[2]):
        return ""
    return found[2]


def current_trace_id() -> str:
    """Return the trace of the current HTTP request, else of OpenTelemetry's current span; empty if there is none."""
    if given := REQUEST_TRACE.get():
        return given
    # Not imported for this: a program that traces has imported it.
    api = sys.modules.get("opentelemetry.trace")
    if api is not None:
        # A broken tracer must not change a ruling.
        with suppress(Exception):
            trace = f"{api.get_current_span().get_span_context().trace_id:032x}"
            return trace if _TRACE_ID.fullmatch(trace) else ""
    return ""


class Tracing:
    """Makes spans. Imports the package when an adapter is made, so that no request has to wait for the import."""

    __slots__ = ("_asks_at", "_is_nobodys", "_tracer")

    def __init__(self) -> None:
        self._tracer: Any = None
        self._is_nobodys: Callable[[], bool] = bool
        self._asks_at = 0.0
        # A broken exporter in the application must not change a verdict.
        with suppress(Exception):
            from opentelemetry.trace import ProxyTracer, ProxyTracerProvider, get_tracer, get_tracer_provider

            self._tracer = get_tracer("lockgate")
            if type(self._tracer) is ProxyTracer:
                self._is_nobodys = lambda: type(get_tracer_provider()) is ProxyTracerProvider

    def start(self) -> AssessmentSpan:
        # Without a collector, spans only cost time. A collector that is installed later is found within a second.
        if self._tracer is None or monotonic() < self._asks_at:
            return NO_SPAN
        span = AssessmentSpan()
        with suppress(Exception):
            if self._is_nobodys():
                self._asks_at = monotonic() + ASK_AGAIN_S
                return NO_SPAN
            span._span = self._tracer.start_span(NAME)
            if not span._span.is_recording():
                return NO_SPAN
        return span


class AssessmentSpan:
    """The span of one assessment. It holds the provider and the verdict, never the assessed text."""

    __slots__ = ("_span",)

    def __init__(self) -> None:
        self._span: Any = None

    def set_attributes(self, **attributes: str) -> None:
        if self._span is not None:
            with suppress(Exception):
                for name, value in attributes.items():
                    self._span.set_attribute(f"lockgate.{name}", value)

    def end(self) -> None:
        if self._span is not None:
            with suppress(Exception):
                self._span.end()


NO_SPAN = AssessmentSpan()
