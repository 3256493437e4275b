"""OpenTelemetry spans, where its API package is installed; without it, or when it fails, there are none."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any

NAME = "lockgate.verifier.assess"
# How often to look for a span collector while none is installed.
ASK_AGAIN_S = 1.0


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
