"""Judges with a standing, which say the same each time, and a gate that asks them."""

from __future__ import annotations

from lockgate import Action, Gate, Policy
from lockgate.core.ruling.opinions import Authority, JudgeStanding, Opinion, Ruling, Triage
from lockgate.core.ruling.pipeline import Stage
from lockgate.core.vocabulary import Decision
from lockgate.gate.judge import Inquiry, Opined

CALM = "Minutes of Tuesday: the roof is dry, the cat is fat."
MAIL = ("send_email", {"to": "ana@ours.example", "subject": "Roof", "body": "It is dry."})
CRON = ("bash", {"command": "echo '0 7 * * * /srv/report.sh' | crontab -"})
SAFE, SUSPICIOUS = Triage(False), Triage(True)
RUNS = Ruling(Action.CONTINUE)


class Judge:
    """Says the same each time, with a standing of its own; `up` is what its probe finds."""

    name = "scripted/judge"

    def __init__(self, opinion: Opinion, standing: Authority, *, up: bool = True) -> None:
        self._opinion = opinion
        self._up = up
        self.standing = JudgeStanding(standing, "0123456789abcdef", "2026-11-18")
        self.asked: list[Stage] = []
        self.probed = 0

    def opine(self, inquiry: Inquiry) -> Opined:
        self.asked.append(inquiry.stage)
        return Opined(self._opinion)

    async def opine_async(self, inquiry: Inquiry) -> Opined:
        return self.opine(inquiry)

    def probe(self) -> bool:
        self.probed += 1
        return self._up


def check(
    call: tuple[str, dict[str, object]],
    *,
    triage: Judge | None = None,
    supervisor: Judge | None = None,
    escalate: str = "wide",
    goal: str = "Tell the team how the roof is.",
    text: str = CALM,
) -> Decision:
    gate = Gate(Policy(escalate=escalate), triage=triage, supervisor=supervisor)
    session = gate.session(goal=goal)
    session.add(text, source="tool:read_file")
    return session.check(*call)
