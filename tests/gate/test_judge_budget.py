"""The budget for questions: past it nothing is asked, and nothing that would have been asked about passes."""

from __future__ import annotations

from pathlib import Path

from lockgate import Action, Gate, Policy
from lockgate.core.ruling.opinions import Triage
from lockgate.gate.judge import Inquiry, Opined
from lockgate.gate.judge_budget import JudgeBudget


class Judge:
    name = "scripted/judge"

    def __init__(self) -> None:
        self.asked = 0

    def opine(self, inquiry: Inquiry) -> Opined:
        self.asked += 1
        return Opined(Triage(False), 1_000, 10)

    async def opine_async(self, inquiry: Inquiry) -> Opined:
        return self.opine(inquiry)


def ask_often(gate: Gate, session: str, times: int, first: int = 0) -> list[Action]:
    agent = gate.session(goal="Write to all customers.", id=session)
    agent.add("A list of customers.", source="tool:read_file")
    numbers = range(first, first + times)
    return [agent.check("send_email", {"to": f"ana{number}@ours.example"}).action for number in numbers]


def budget(path: Path, **limits: float) -> JudgeBudget:
    return JudgeBudget(path / "budget.db", **limits)  # type: ignore[arg-type]


def test_past_a_sessions_budget_every_call_pauses_and_nothing_is_asked(tmp_path: Path) -> None:
    judge = Judge()
    gate = Gate(Policy(escalate="wide"), triage=judge, budget=budget(tmp_path, per_session=3))
    assert ask_often(gate, "a", 5) == [Action.CONTINUE] * 3 + [Action.PAUSE] * 2
    assert (ask_often(gate, "b", 1, 9), judge.asked) == ([Action.CONTINUE], 4)


def test_a_restart_gives_no_new_budget(tmp_path: Path) -> None:
    for expected in (Action.CONTINUE, Action.PAUSE):
        gate = Gate(Policy(escalate="wide"), triage=Judge(), budget=budget(tmp_path, per_session=1))
        assert ask_often(gate, "a", 1) == [expected]


def test_a_day_has_a_budget_and_the_next_day_another(tmp_path: Path) -> None:
    days = ["2026-11-18"]
    limits = JudgeBudget(tmp_path / "budget.db", per_day=2, today=lambda: days[0])
    assert [limits.take(name) for name in ("a", "b", "c")] == [True, True, False]
    days[0] = "2026-11-19"
    assert limits.take("c")


def test_a_days_price_is_a_limit_once_it_is_set(tmp_path: Path) -> None:
    prices = {"budget": budget(tmp_path, usd_per_day=0.02), "prices": lambda *_: 0.01}
    gate = Gate(Policy(escalate="wide"), triage=Judge(), **prices)  # type: ignore[arg-type]
    assert ask_often(gate, "a", 3) == [Action.CONTINUE, Action.CONTINUE, Action.PAUSE]


def test_a_budget_that_cannot_be_counted_is_spent(tmp_path: Path) -> None:
    (tmp_path / "budget.db").write_text("no database at all, but long enough to be taken for one" * 40)
    judge = Judge()
    gate = Gate(Policy(escalate="wide"), triage=judge, budget=budget(tmp_path))
    assert (ask_often(gate, "a", 1), judge.asked) == ([Action.PAUSE], 0)


def test_an_answer_holds_for_the_very_same_arguments_only() -> None:
    judge = Judge()
    agent = Gate(Policy(escalate="wide"), triage=judge).session(goal="Deploy it.")
    agent.add("A page.", source="web:docs.example")
    for password in ("hunter2-A8fj29dkQ", "hunter2-A8fj29dkQ", "correct-9fkS02jdLq"):
        agent.check("deploy_service", {"name": "shop", "password": password})
    assert judge.asked == 2
