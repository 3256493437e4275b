"""What a judge is: the verifier of Tier 2 or Tier 3, what it is asked and what it answers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, Protocol

from lockgate.core.ruling.opinions import Opinion
from lockgate.core.ruling.pipeline import Stage

if TYPE_CHECKING:
    from lockgate.core.judging.case import JudgeCase
    from lockgate.gate.judge_evidence import Evidence


class Inquiry(NamedTuple):
    """A question to a judge: the tier that asks, and the case. `evidence` is for a judge that has `reads_evidence`.

    `until` is when all judges of the call must have answered, by `time.monotonic`: a judge takes its own time or what
    is left, whichever is less.
    """

    stage: Stage
    case: JudgeCase
    evidence: Evidence | None = None
    until: float = math.inf


class Opined(NamedTuple):
    """A judge's opinion, the tokens it took, and the model id in its reply (empty where the route reports none)."""

    opinion: Opinion
    tokens_in: int = 0
    tokens_out: int = 0
    model: str = ""


class Judge(Protocol):
    """Tier 2 or Tier 3.

    A judge never raises, answers inside its own deadline, and gives an opinion only for a reply that is exactly what
    was asked for. A judge that breaks this counts as one that did not answer.
    """

    @property
    def name(self) -> str:
        """The model that is asked, as `provider/model`."""

    def opine(self, inquiry: Inquiry) -> Opined:
        """Answer the question in this thread."""

    async def opine_async(self, inquiry: Inquiry) -> Opined:
        """Answer the same question on an event loop."""
