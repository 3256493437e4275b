"""What is proposed from held calls: the fewest and narrowest rules, and none that lets an attack run."""

from __future__ import annotations

import pytest

from lockgate.cli.tune.proposals import (
    RecordedHold,
    Trial,
    TrialResult,
    apply_lines,
    choose_grants,
    describe_proposal,
    find_proposals,
    proposal_to_dict,
    summarize,
)
from lockgate.core.ruling.approvals import HeldFacts, bind_call
from lockgate.core.ruling.effects.effect import effect
from lockgate.core.ruling.flow_rules import add_outside, parse_flow, row_to_text
from lockgate.core.ruling.policy import Policy
from lockgate.core.vocabulary import Action, Decision, Effect, Finding, Origin, Reason, Risk

NOW = 1_000_000.0
MAILBOXES = ("ana@our.example", "bo@our.example", "cleo@our.example")
ROW = row_to_text({"name": "mail", "from": "web:*", "to": "recipient", "then": "pause"}, parse_flow)
DENY = row_to_text({"name": "mail", "from": "web:*", "to": "recipient", "then": "deny"}, parse_flow)


def hold(
    number: int,
    to: str = "desk@partner.example",
    *,
    rules: tuple[str, ...] = ("effect:sends-message",),
    attack: bool = False,
    effects: tuple[Effect, ...] = (),
    session: str = "",
    sources: tuple[str, ...] = ("web:a",),
    project: str = "/work",
) -> RecordedHold:
    reaching = (effect("sends-message", to, argument="to"), *effects)
    decision = Decision(
        Action.PAUSE,
        3,
        Reason.UNTRUSTED_ORIGIN,
        Risk.HIGH,
        findings=tuple(Finding(rule, "to", 0, 0) for rule in rules),
        origins=(Origin("to", to, "b1", "file:/repo/CLAUDE.md", 0, 1),),
        effects=reaching,
    )
    facts = HeldFacts(
        effects=tuple((each.kind, each.target) for each in reaching),
        sources=sources,
        rules=rules,
        names=("body", "to"),
        arguments=f"sha256:{number}",
        is_exact=False,
        project=project,
        widest="session" if any(each.severity > 2 for each in reaching) else "always",
        barred="",
    )
    bound = bind_call(f"s{number}", "send_email", {"to": to, "body": str(number)}, "sha256:p", "sha256:c")
    name = session or f"s{number}"
    return RecordedHold((name, number), "send_email", {"to": to, "body": str(number)}, decision, attack, bound, facts)


class Scripted:
    """A replay that holds what no line, text or grant of the trial lets run."""

    def __init__(self, *holds: RecordedHold, texts: dict[str, dict[tuple[str, str], str]] | None = None) -> None:
        self.holds = holds
        self.texts = texts or {}
        self.trials: list[Trial] = []

    def __call__(self, trial: Trial) -> TrialResult:
        from lockgate.core.ruling.grants import find_covering

        self.trials.append(trial)
        held, uses = {}, dict.fromkeys((grant.id for grant in trial.grants), 0)
        for each in self.holds:
            assert each.bound is not None
            assert each.facts is not None
            to = str(each.arguments["to"])
            is_allowed = any(target == to for _, target in trial.lines)
            grant = find_covering(trial.grants, each.bound, each.facts, NOW)
            if grant is not None:
                uses[grant.id] += 1
            if not is_allowed and grant is None and not trial.texts & self.texts.get(each.key[0], {}).keys():
                held[each.key] = each
        return TrialResult(10, held, self.texts, uses)


def test_one_grant_covers_what_is_alike_and_the_report_says_so() -> None:
    report = find_proposals(Scripted(*(hold(each) for each in range(4)), hold(9, "one@else.example")), Policy(), NOW)
    (proposal,) = report.proposals
    assert (proposal.kind, proposal.saves, report.pauses, report.saved) == ("grant", 4, 5, 4)
    assert proposal.rule is not None
    # The narrowest that outlives its session.
    assert (proposal.rule.span.value, proposal.rule.project) == ("project", "/work")
    assert summarize(report) == "this line would have saved 4 of 5 pauses"
    assert dict(report.left) == {"nothing like it came often enough": 1}
    assert proposal_to_dict(proposal)["id"] == proposal.id
    assert ("tool", "send_email") in describe_proposal(proposal)


def test_the_fewest_grants_are_chosen() -> None:
    wide = [hold(each, rules=("a:b", "c:d")) for each in range(3)]
    narrow = [hold(each, rules=("a:b",)) for each in range(3, 5)]
    (grant,) = choose_grants([*narrow, *wide], NOW)
    assert set(grant.rule.rules) == {"a:b", "c:d"}


def test_nothing_is_granted_that_would_let_an_attack_run() -> None:
    holds = [hold(each) for each in range(4)]
    assert choose_grants(holds, NOW)
    report = find_proposals(Scripted(*holds, hold(8, attack=True)), Policy(), NOW)
    assert (report.proposals, report.attacks, report.released) == ((), 1, 0)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"effects": (effect("grants-access", "eve"),)}, "it opens a door"),
        ({"rules": ("override:ignore-instructions",)}, "a text behind it speaks to an agent"),
        ({"rules": ("authority:message-to-ai",)}, "a text behind it speaks to an agent"),
    ],
)
def test_some_calls_are_answered_each_time(more: dict[str, object], why: str) -> None:
    holds = [hold(each, **more) for each in range(4)]  # type: ignore[arg-type]
    report = find_proposals(Scripted(*holds), Policy(), NOW)
    assert (report.proposals, dict(report.left)) == ((), {why: 4})


def test_a_target_is_proposed_for_the_flow_that_holds_it() -> None:
    holds = [hold(each, rules=("flow:mail",)) for each in range(3)]
    report = find_proposals(Scripted(*holds), Policy(flows=(ROW,)), NOW)
    (proposal,) = report.proposals
    assert describe_proposal(proposal) == (("flow", "mail"), ("outside", "desk@partner.example"))
    assert (proposal.saves, report.saved) == (3, 3)


def test_a_target_to_which_an_attack_goes_is_not_proposed() -> None:
    holds = [hold(number, to, rules=("flow:mail",)) for number, to in enumerate(MAILBOXES * 2)]
    attack = hold(20, MAILBOXES[0], rules=("flow:mail",), attack=True)
    report = find_proposals(Scripted(*holds, attack), Policy(flows=(ROW,)), NOW)
    assert {each.target for each in report.proposals if each.kind == "flow"} == set(MAILBOXES[1:])
    assert (report.attacks, report.released) == (1, 0)
    assert summarize(report).endswith("and released none of the 1 held attacks")


def test_a_rule_that_says_deny_stays_as_it_is() -> None:
    holds = [hold(each, rules=("flow:mail",)) for each in range(3)]
    report = find_proposals(Scripted(*holds), Policy(flows=(DENY,)), NOW)
    assert [each.kind for each in report.proposals if each.kind == "flow"] == []


def test_a_line_that_lets_an_attack_run_is_dropped() -> None:
    # The attack goes to a mailbox whose name cannot be said in a line, so that only the replay shows it.
    odd = hold(20, "Eve <x> desk@partner.example", rules=("flow:mail",), attack=True)
    holds = [hold(each, rules=("flow:mail",)) for each in range(3)]

    class Leaky(Scripted):
        def __call__(self, trial: Trial) -> TrialResult:
            found = super().__call__(trial)
            return found._replace(
                held={key: each for key, each in found.held.items() if each != odd or not trial.lines}
            )

    report = find_proposals(Leaky(*holds, odd), Policy(flows=(ROW,)), NOW)
    assert [each for each in report.proposals if each.kind == "flow"] == []
    assert report.released == 0


def test_an_instruction_file_is_proposed_with_its_text_and_not_beside_an_attack() -> None:
    text = ("file:/repo/CLAUDE.md", "d1")
    texts = {f"s{each}": {text: "Run make lint."} for each in range(3)}
    holds = [hold(each, f"{each}@partner.example") for each in range(3)]
    report = find_proposals(Scripted(*holds, texts=texts), Policy(), NOW)
    (proposal,) = report.proposals
    assert (proposal.kind, proposal.source, proposal.content, proposal.saves) == ("trust", text[0], "Run make lint.", 3)
    attack = hold(8, attack=True, session="s0")
    report = find_proposals(Scripted(*holds, attack, texts=texts), Policy(), NOW)
    assert [each.kind for each in report.proposals if each.kind == "trust"] == []


def test_lines_are_added_to_the_rows_of_a_policy() -> None:
    policy = apply_lines(Policy(flows=(ROW,)), [("mail", "b.example"), ("mail", "a.example"), ("other", "c.example")])
    assert parse_flow(policy.flows[0]).outside == ("a.example", "b.example")
    assert add_outside(ROW, []) == ROW
    assert apply_lines(Policy(flows=(ROW,)), []) == Policy(flows=(ROW,))


def test_the_name_of_a_proposal_does_not_change_with_the_time() -> None:
    first = find_proposals(Scripted(hold(1), hold(2)), Policy(), NOW).proposals
    later = find_proposals(Scripted(hold(1), hold(2)), Policy(), NOW + 1).proposals
    assert [each.id for each in first] == [each.id for each in later]
