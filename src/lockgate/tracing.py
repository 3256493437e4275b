"""OpenTelemetry spans, where its API package is installed; without it, or when it fails, there are none."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

NAME = "lockgate.verifier.assess"


class Tracing:
    """Makes spans. The package is imported here, when an adapter is made, and not on somebody's first request."""

    __slots__ = ("_tracer",)

    def __init__(self) -> None:
        self._tracer: Any = None
        # Whatever is wrong with an exporter of somebody's, no ruling may depend on it.
        with suppress(Exception):
            from opentelemetry.trace import get_tracer

            self._tracer = get_tracer("lockgate")

    def start(self) -> Span:
        if self._tracer is None:
            return _NONE
        span = Span()
        with suppress(Exception):
            span._span = self._tracer.start_span(NAME)
            if not span._span.is_recording():
                # The API without anybody who collects: what it is told goes nowhere.
                return _NONE
        return span


class Span:
    """One assessment on its way. It says who was asked and what came out, never about what."""

    __slots__ = ("_span",)

    def __init__(self) -> None:
        self._span: Any = None

    def tell(self, **attributes: str) -> None:
        if self._span is not None:
            with suppress(Exception):
                for name, value in attributes.items():
                    self._span.set_attribute(f"lockgate.{name}", value)

    def end(self) -> None:
        if self._span is not None:
            with suppress(Exception):
                self._span.end()


_NONE = Span()
