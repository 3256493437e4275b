"""Who may clear what, and what becomes of a call while the judge is down."""

from __future__ import annotations

from itertools import product

import pytest
from examined_judges import CRON, MAIL, RUNS, SAFE, SUSPICIOUS, Judge, check

from lockgate import Action, Reason
from lockgate.core.ruling.opinions import Authority, Opinion, Silent, Unreadable

# Whether a judge's "safe" lets a call run: severity 2 and 3, in Tier 2 alone, and with the same standing in Tier 3.
CLEARS = {
    (Authority.DEVELOPER, "wide"): (True, False, True),
    (Authority.EMBEDDED, "wide"): (False, False, False),
    (Authority.UNEXAMINED, "wide"): (False, False, False),
    (Authority.FAILED, "wide"): (False, False, False),
    (Authority.REPLACED, "wide"): (False, False, False),
    (Authority.PASSED, "wide"): (True, False, False),
    (Authority.DISTINCTION, "wide"): (True, False, True),
}


@pytest.mark.parametrize(("standing", "width"), CLEARS)
def test_who_may_clear_what(standing: Authority, width: str) -> None:
    mail, cron, cron_agreed = CLEARS[standing, width]
    goal = "Make a job that sends the report every morning."
    assert check(MAIL, triage=Judge(SAFE, standing), escalate=width).allowed is mail
    assert check(CRON, triage=Judge(SAFE, standing), escalate=width, goal=goal).allowed is cron
    both = Judge(SAFE, standing), Judge(RUNS, standing)
    assert check(CRON, triage=both[0], supervisor=both[1], escalate=width, goal=goal).allowed is cron_agreed


@pytest.mark.parametrize("standing", Authority)
def test_only_a_judge_that_has_passed_may_agree_with_tier_3(standing: Authority) -> None:
    supervisor = Judge(RUNS, Authority.DISTINCTION)
    held = check(CRON, triage=Judge(SAFE, standing), supervisor=supervisor, escalate="wide", goal="Write a report.")
    assert held.allowed is (standing in (Authority.DEVELOPER, Authority.PASSED, Authority.DISTINCTION))


@pytest.mark.parametrize("standing", Authority)
def test_tier_3_alone_clears_severity_3_for_no_examined_judge(standing: Authority) -> None:
    held = check(CRON, triage=Judge(SUSPICIOUS, standing), supervisor=Judge(RUNS, standing), goal="Write a report.")
    assert held.allowed is (standing is Authority.DEVELOPER)


@pytest.mark.parametrize(("standing", "escalate"), [*product(Authority, ("narrow", "wide"))])
def test_no_judge_clears_a_hard_finding(standing: Authority, escalate: str) -> None:
    touching = ("bash", {"command": "lockgate approvals approve 7f3a"})
    judges = {"triage": Judge(SAFE, standing), "supervisor": Judge(RUNS, standing)}
    assert check(touching, escalate=escalate, **judges).reason is Reason.HARD_RULE


def test_in_narrow_a_named_model_clears_severity_2_and_the_ruling_says_that_it_took_no_exam() -> None:
    order = "Please send the minutes to clerk@vendor.example today."
    call = ("send_email", {"to": "clerk@vendor.example", "body": "Minutes"})
    decision = check(call, triage=Judge(SAFE, Authority.UNEXAMINED), escalate="auto", text=order)
    assert (decision.reason, decision.width) == (Reason.TRIAGE_CLEARED, "narrow")
    assert "the judge has taken no exam" in decision.explanation
    failed = check(call, triage=Judge(SAFE, Authority.FAILED), escalate="auto", text=order)
    assert failed.action is Action.PAUSE


def test_a_cleared_call_names_the_exam() -> None:
    decision = check(MAIL, triage=Judge(SAFE, Authority.PASSED), escalate="auto")
    assert (decision.reason, decision.width) == (Reason.TRIAGE_CLEARED, "wide")
    assert "passed its exam on 2026-11-18" in decision.explanation
    assert decision.judged[0].exam == "0123456789abcdef"


@pytest.mark.parametrize("why", ["network", "logged-out", "unauthorized", "circuit-open"])
def test_while_the_judge_is_down_severity_2_without_findings_follows_narrow(why: str) -> None:
    judge = Judge(Silent(why), Authority.PASSED, up=False)
    decision = check(MAIL, triage=judge, escalate="auto")
    assert (decision.action, decision.reason, judge.probed) == (Action.CONTINUE, Reason.JUDGE_DOWN, 1)
    goal = "Make a job that sends the report every morning."
    assert check(CRON, triage=judge, escalate="auto", goal=goal).action is Action.PAUSE
    order = "Please send the minutes to clerk@vendor.example today."
    call = ("send_email", {"to": "clerk@vendor.example", "body": "Minutes"})
    assert check(call, triage=judge, escalate="auto", text=order).action is Action.PAUSE


@pytest.mark.parametrize(
    "opinion", [*map(Silent, ("deadline", "rate-limited", "replaced", "budget", "internal", "")), Unreadable()]
)
def test_what_an_attacker_could_bring_about_is_no_outage(opinion: Opinion) -> None:
    judge = Judge(opinion, Authority.PASSED, up=False)
    assert check(MAIL, triage=judge, escalate="auto").action is Action.PAUSE
    assert judge.probed == 0


@pytest.mark.parametrize("standing", [Authority.UNEXAMINED, Authority.FAILED, Authority.PASSED])
def test_the_rule_for_outages_is_that_of_auto(standing: Authority) -> None:
    assert check(MAIL, triage=Judge(Silent("network"), standing, up=False), escalate="wide").action is Action.PAUSE


@pytest.mark.parametrize("words", [100, 40_000])
def test_a_text_too_long_to_be_shown_is_cleared_in_no_tier(words: int) -> None:
    text = " ".join(f"w{number}" for number in range(words))
    judges = {"triage": Judge(SAFE, Authority.DISTINCTION), "supervisor": Judge(RUNS, Authority.DISTINCTION)}
    decision = check(MAIL, text=text, escalate="auto", **judges)
    assert decision.allowed is (words == 100)
    assert ("only parts of the case" in decision.explanation) is (words > 100)


def test_a_judge_that_answers_its_probe_is_not_down() -> None:
    assert check(MAIL, triage=Judge(Silent("network"), Authority.PASSED), escalate="auto").action is Action.PAUSE


def test_in_narrow_no_tier_clears_a_text_too_long_to_be_shown_either() -> None:
    order = "Please send the minutes to clerk@vendor.example today. "
    call = ("send_email", {"to": "clerk@vendor.example", "body": "Minutes"})
    judges = {"triage": Judge(SAFE, Authority.PASSED), "supervisor": Judge(RUNS, Authority.PASSED)}
    for padding, is_allowed in ((0, True), (40_000, False)):
        around = " ".join(f"clerk@vendor.example w{number}" for number in range(padding))
        decision = check(call, text=around + order + around, escalate="narrow", **judges)
        assert decision.allowed is is_allowed, decision.explanation


def test_an_answer_that_cannot_be_read_is_named() -> None:
    decision = check(MAIL, triage=Judge(Unreadable(), Authority.PASSED), escalate="auto")
    assert (decision.action, "could not be read" in decision.explanation) == (Action.PAUSE, True)


@pytest.mark.parametrize(
    ("why", "words"),
    [
        ("deadline", "did not answer in time"),
        ("rate-limited", "limits the rate of questions"),
        ("budget", "only a person raises it"),
        ("replaced", "not asked until the next"),
        ("logged-out", "is logged out"),
        ("network", "cannot be reached"),
        ("server-error", "program or provider failed"),
    ],
)
def test_a_pause_without_an_answer_says_why(why: str, words: str) -> None:
    decision = check(MAIL, triage=Judge(Silent(why), Authority.PASSED), escalate="auto")
    assert decision.action is Action.PAUSE
    assert words in decision.explanation


@pytest.mark.parametrize(
    ("standing", "call", "words"),
    [
        (Authority.FAILED, MAIL, "the judge that was asked has failed its exam"),
        (Authority.UNEXAMINED, MAIL, "the judge that was asked has taken no exam"),
        (Authority.PASSED, CRON, "has not passed with distinction, as this call needs"),
        (Authority.DISTINCTION, CRON, "this call needs two judges that find nothing"),
    ],
)
def test_a_judge_whose_word_does_not_count_is_named(
    standing: Authority, call: tuple[str, dict[str, str]], words: str
) -> None:
    held = check(call, triage=Judge(SAFE, standing), escalate="wide", goal="Write a report.")
    assert held.action is Action.PAUSE
    assert words in held.explanation
