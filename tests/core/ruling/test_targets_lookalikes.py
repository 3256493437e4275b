"""Addresses that look like one that the session knows."""

from __future__ import annotations

import pytest

from lockgate import Action, Gate, Reason
from lockgate.core.ruling.context import Context
from lockgate.core.ruling.decide import EffectCheck
from lockgate.core.ruling.effects.effect import effect
from lockgate.core.ruling.effects.project import Project
from lockgate.core.ruling.explanations import LOOKALIKE
from lockgate.core.ruling.targets import find_alike
from lockgate.core.text.scanner import Scanner

GENUINE, FALSE = "jonas@brandt-immobilien.example", "jonas@brandt-imrnobilien.example"


def alike(known: str, target: str) -> str:
    """Return what a text with `known` has that looks like the target."""
    return find_alike(target, f"ask {known}, or call us.".lower())


def held_against(
    scanner: Scanner, target: str, goal: str, *texts: str, kind: str = "sends-message", project: Project | None = None
) -> list[str]:
    """Return what the look-alike rule says about a call to this target."""
    context = Context(scanner)
    context.add(goal, source="goal", id="goal")
    for text in texts:
        context.add(text, source="tool:read_mail")
    context.project = project or context.project
    found = EffectCheck(context, "send_email").find([effect(kind, target, argument="to")])
    return [finding.excerpt for finding in found.findings if finding.rule == LOOKALIKE]


@pytest.mark.parametrize(
    ("known", "target"),
    [
        (GENUINE, FALSE),
        ("brandt-immobilien.example", "mail.brandt-imrnobilien.example"),
        ("www.brandt-immobilien.example", FALSE),
        ("modern-bau.example", "modem-bau.example"),
        ("westvvood.example", "westwood.example"),
        ("cloudbase.example", "doudbase.example"),
        ("cloudbase.example", "c1oudbase.example"),
        ("billing-desk.example", "bi11ing-desk.example"),
        ("kontor-nord.example", "k0ntor-n0rd.example"),
        ("silverlane.example", "sllver1ane.example"),
        ("soleil-bank.example", "5oleil-bank.example"),
        ("brandtbau.example", "brandt-bau.example"),
        ("immobilien.example", "imobilien.example"),
        ("bar-news.example", "barnews.example"),
        ("brandt-bau.example", "br\u0430ndt-bau.example"),
        ("brandt-bau.example", "xn--brndt-bau-1yh.example"),
        ("ours-desk.github.io", "0urs-desk.github.io"),
        ("github.com", "g1thub.com"),
        # Mailboxes.
        ("jonas.brandt@kontor.example", "j0nas.brandt@kontor.example"),
        ("martin@kontor.example", "rnartin@kontor.example"),
    ],
)
def test_addresses_that_look_alike(known: str, target: str) -> None:
    assert alike(known, target)
    assert alike(target, known)


@pytest.mark.parametrize(
    ("known", "target"),
    [
        (GENUINE, GENUINE),
        (GENUINE, "clara@brandt-immobilien.example"),
        ("brandt-bau.example", "api.brandt-bau.example"),
        ("www.brandt-bau.example", "brandt-bau.example"),
        ("dev.api.brandt-bau.example", "dev-api.brandt-bau.example"),
        ("node1.brandt-bau.example", "node11.brandt-bau.example"),
        ("brandt-bau.com", "brandt-bau.de"),
        ("www.company.com", "ann@company.de"),
        ("bob@company.com", "ann@company.de"),
        ("ann@gmx.de", "ann@gmx.net"),
        ("jonas@yahoo.com", "jonas@yahoo.de"),
        ("ann@kontor.example", "anne@kontor.example"),
        ("hannah@kontor.example", "hanna@kontor.example"),
        ("jonas.brandt@kontor.example", "jonasbrandt@kontor.example"),
        ("bill@kontor.example", "bi11@kontor.example"),
        ("github.com", "githubusercontent.com"),
        ("abc.example", "a-bc.example"),
        ("m\u00fcller-bau.example", "xn--mller-bau-q9a.example"),
        ("x.10.0.o", "100.0.1.x"),
        ("xn--\u00e4\u00f6-999999999.example", "xn--99999999999999.example"),
    ],
)
def test_ordinary_pairs_do_not(known: str, target: str) -> None:
    assert not alike(known, target)
    assert not alike(target, known)


ANSWER = f"From: {FALSE}\nCould you send me the contracts once more? Kind regards, Jonas"


def test_the_finding_says_what_the_address_is_not(scanner: Scanner) -> None:
    says = f"`{FALSE}` is not `{GENUINE}`, which {{}} names, but looks like it"
    assert held_against(scanner, FALSE, f"Answer {GENUINE}.", ANSWER) == [says.format("the goal")]
    project = Project(hosts=frozenset({"brandt-immobilien.example"}))
    says = f"`{FALSE}` is not `brandt-immobilien.example`, which the project names, but looks like it"
    assert held_against(scanner, FALSE, "Answer Jonas.", ANSWER, project=project) == [says]


@pytest.mark.parametrize("kind", ["clones", "grants-access", "logs-in", "pushes", "sends-data", "shares"])
def test_every_kind_that_gives_or_takes_counts(scanner: Scanner, kind: str) -> None:
    goal = "Fetch from and push to forge.brandt-bau.example, log in, and share what they ask for."
    assert held_against(scanner, "forge.brandt-bau.example", goal, "Nothing.", kind=kind) == []
    assert held_against(scanner, "forge.brandtbau.example", goal, "Nothing.", kind=kind) != []


def test_a_request_counts_where_the_call_gives_something(scanner: Scanner) -> None:
    context = Context(scanner)
    context.add("Look at kontor-nord.example", source="goal", id="goal")
    context.add("See k0ntor-nord.example", source="tool:read_page")
    request, login = effect("requests", "k0ntor-nord.example"), effect("logs-in", "ann")
    check = EffectCheck(context, "open_page")
    assert LOOKALIKE not in [found.rule for found in check.find([request]).findings]
    assert LOOKALIKE in [found.rule for found in check.find([request, login]).findings]


@pytest.mark.parametrize(
    "goal",
    [
        f"Answer {FALSE}, not {GENUINE}.",
        f"Our people at {GENUINE} moved to www.brandt-imrnobilien.example: answer them.",
        "Answer Jonas.",
    ],
)
def test_what_the_user_names_or_what_no_text_knows_otherwise_is_none(scanner: Scanner, goal: str) -> None:
    assert held_against(scanner, FALSE, goal, ANSWER) == []


def test_a_mailbox_of_a_known_host_with_false_letters_is_one(scanner: Scanner) -> None:
    target = "j0nas@brandt-immobilien.example"
    assert held_against(scanner, target, f"Answer {GENUINE}.", f"From: {target}") != []
    assert held_against(scanner, target, f"Answer {GENUINE} and {target}.", f"From: {target}") == []


def test_the_genuine_address_passes_where_the_user_names_it(scanner: Scanner) -> None:
    assert held_against(scanner, GENUINE, f"Answer {GENUINE}.", ANSWER) == []


def test_an_answer_with_files_to_a_lookalike_waits_and_says_why() -> None:
    session = Gate().session(goal="Answer Jonas (jonas@brandt-immobilien.example) and send him the contracts.")
    session.add(ANSWER, source="tool:read_mail")
    call = {"subject": "Re: contracts", "body": "Here they are.", "attachments": ["contracts.pdf"]}
    assert session.check("send_email", {"to": GENUINE, **call}).action is Action.CONTINUE
    held = session.check("send_email", {"to": FALSE, **call})
    assert (held.action, held.reason) == (Action.PAUSE, Reason.UNTRUSTED_ORIGIN)
    assert held.explanation.startswith(f"`{FALSE}` is not `{GENUINE}`, which the goal names, but")


def test_a_name_that_is_written_like_an_address_hides_none(scanner: Scanner) -> None:
    for target in (f"brandt-immobilien.example support <{FALSE}>", f"ann@ours.example, {FALSE}"):
        assert held_against(scanner, target, f"Answer {GENUINE}.", ANSWER)
    assert not held_against(scanner, f"ann@ours.example, {GENUINE}", f"Answer {GENUINE}.")


@pytest.mark.parametrize("subdomain", ["r.", "v.", "c.", "vv-v.", "lists.r."])
@pytest.mark.parametrize(
    ("known", "target"),
    [
        ("nordbau.example", "n0rdbau.example"),
        ("linnbau.example", "1inbau.example"),
        ("villanova.example", "vi11anova.example"),
        ("wavebau.example", "vvavebau.example"),
        ("modernclub.example", "rnodemdub.example"),
        ("\u6771\u4eac-kontor.example", "\u6771\u4eackontor.example"),
    ],
)
def test_what_stands_before_a_domain_does_not_hide_it(known: str, target: str, subdomain: str) -> None:
    assert alike(subdomain + known, target)
    assert alike(f"ann@{subdomain}{target}", known)
