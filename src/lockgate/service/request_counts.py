"""What the service counts, and how the counts of several workers are told as one.

Each worker counts for itself. Where there are several, each writes its counts to a file of a folder that only they
know, and whichever is asked adds up what all of them have written: a scraper that meets another worker each time would
else see numbers that jump. What a worker counted stays when it ends.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from lockgate.core.vocabulary import Action, Decision
from lockgate.runtime.metrics import LATENCY_SECONDS, METRICS, OTHER, Counter, Histogram, Metrics
from lockgate.runtime.private_files import replace_file

if TYPE_CHECKING:
    from lockgate.service.openapi import Route

WRITE_INTERVAL_S = 1.0
STATUSES = tuple(f"{first}xx" for first in range(2, 6))
TIERS = ("1", "2", "3")
ACTIONS = tuple(action.value for action in Action)
NAMES = (
    "lockgate_http_requests_total",
    "lockgate_http_seconds",
    "lockgate_decisions_total",
    "lockgate_decision_seconds",
    "lockgate_http_refused_total",
)
# Why a request that was in order got no answer.
REFUSALS = ("busy", "too-many-requests", "unavailable", "journal-unavailable", "internal")


class RequestCounts:
    """`routes` are the labels that there can be: a path that a client made up is never one."""

    def __init__(self, routes: Iterable[str] = (), *, folder: Path | None = None, metrics: Metrics = METRICS) -> None:
        labels = (*dict.fromkeys(routes), OTHER)
        self._folder, self._metrics = folder, metrics
        self.requests = Counter(
            NAMES[0], "Requests to the service, by route and status.", {"route": labels, "status": STATUSES}
        )
        self.seconds = Histogram(NAMES[1], "How long a request took.", {"route": labels}, LATENCY_SECONDS)
        self.decisions = Counter(
            NAMES[2], "Rulings, by what came out and the highest tier they reached.", {"action": ACTIONS, "tier": TIERS}
        )
        self.decided = Histogram(NAMES[3], "How long a ruling took.", {"tier": TIERS}, LATENCY_SECONDS)
        self.refused = Counter(
            NAMES[4], "Requests that were in order and not answered, by reason.", {"reason": REFUSALS}
        )

    def count_answer(self, route: Route | None, status: int, seconds: float) -> None:
        label = OTHER if route is None else label_of(route)
        self.requests.add(label, f"{status // 100}xx")
        self.seconds.observe(seconds, label)

    def count_refusal(self, code: str) -> None:
        if code in REFUSALS:
            self.refused.add(code)

    def count_ruling(self, decision: Decision) -> None:
        self.decisions.add(decision.action.value, str(decision.tier))
        self.decided.observe(decision.latency_us / 1e6, str(decision.tier))

    def render(self) -> str:
        """This worker's counts in Prometheus' text format."""
        lines: list[str] = []
        for metric in (self.requests, self.seconds, self.refused, self.decisions, self.decided):
            lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}", *metric.samples()]
        return "\n".join(lines) + "\n" + self._metrics.render()

    def write(self) -> None:
        """Tell the other workers; what cannot be told now is told the next time."""
        if self._folder is None:
            return
        file = self._folder / f"{os.getpid()}.txt"
        with suppress(OSError):
            replace_file(file, self.render().encode("utf-8"), durable=False)

    async def write_regularly(self) -> None:
        """Tell the others every second, as long as there are any."""
        while self._folder is not None:
            await asyncio.sleep(WRITE_INTERVAL_S)
            self.write()

    def render_all(self) -> str:
        """The counts of all workers."""
        if self._folder is None:
            return self.render()
        self.write()
        texts = []
        for file in sorted(self._folder.glob("*.txt")):
            with suppress(OSError):
                texts.append(file.read_text(encoding="utf-8"))
        return sum_metrics(texts)


def label_of(route: Route) -> str:
    return f"{route.method} {route.path}"


def sum_metrics(texts: Iterable[str]) -> str:
    """Several texts of the same metrics as one, each number the sum; series stay with the metric they belong to."""
    heads: dict[str, list[str]] = {}
    series: dict[str, dict[str, float]] = {}
    for text in texts:
        name = ""
        for line in text.splitlines():
            if line.startswith("# HELP "):
                name = line.split(" ", 3)[2]
                heads[name] = [line]
            elif line.startswith("# TYPE "):
                heads[name] = [heads[name][0], line]
            elif line:
                which, _, value = line.rpartition(" ")
                held = series.setdefault(name, {})
                held[which] = held.get(which, 0.0) + float(value)
    lines: list[str] = []
    for name, head in heads.items():
        lines += [*head, *(f"{which} {value:.17g}" for which, value in series.get(name, {}).items())]
    return "\n".join(lines) + "\n"
