"""Every rule is tested by its own hit and miss; the rest says what the table as a whole promises."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from lockgate.core.text.rules import FAMILIES, RULES, RULES_BY_ID, RULESET_VERSION, Rule, Scope

Scan = Callable[[str], set[str]]

each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)


@each_rule
def test_a_rule_matches_its_hit(rule: Rule, scan: Scan) -> None:
    assert rule.id in scan(rule.hit)


@each_rule
def test_a_rule_does_not_match_its_miss(rule: Rule, scan: Scan) -> None:
    assert rule.id not in scan(rule.miss)


@each_rule
def test_a_rule_explains_itself(rule: Rule) -> None:
    texts = (rule.what, rule.why, rule.hit, rule.miss)
    assert all(text.strip() for text in texts)
    assert len(set(texts)) == len(texts)
    assert not rule.what.endswith(".")
    assert not rule.why.endswith(".")


@each_rule
def test_a_rule_has_a_well_formed_id_and_reference(rule: Rule) -> None:
    assert re.fullmatch(r"[a-z]+:[a-z0-9]+(?:-[a-z0-9]+)*", rule.id)
    assert rule.id.partition(":")[0] in {rule.family, "seed"}
    assert rule.family in FAMILIES
    # The LLM list was renumbered in 2026: a bare number would point at another risk.
    assert re.fullmatch(r"(?:LLM(?:0[1-9]|10):2026, )+(?:ASI(?:0[1-9]|10)(?:, |$))+", rule.owasp)


@each_rule
def test_no_gap_runs_on_for_ever(rule: Rule) -> None:
    anything = r"(?:\[\\s\\S\]|\[\\S\\s\]|\[\\w\\W\]|\[\\W\\w\]|\[\\d\\D\])"
    assert not re.search(anything + r"(?:[*+]|\{\d+,\})", rule.pattern)
    if rule.dotall:
        assert not re.search(r"(?<!\\)\.(?:[*+]|\{\d+,\})", rule.pattern)


@each_rule
def test_a_byte_pattern_treats_letters_as_wholes(rule: Rule) -> None:
    # Without the engine's Unicode mode a sign after a letter of two bytes would repeat its second byte only, and a
    # class would hold its bytes.
    if not rule.utf8:
        assert not re.search(r"[^\x00-\x7f](?:[?*+]|\{\d)", rule.pattern)
        assert all(group.isascii() for group in re.findall(r"(?<!\\)\[[^\]]*\]", rule.pattern))


def test_ids_are_unique() -> None:
    assert len(RULES_BY_ID) == len(RULES)
    assert all(RULES_BY_ID[rule.id] is rule for rule in RULES)


def test_no_two_rules_share_a_pattern_or_a_description() -> None:
    assert len({rule.pattern for rule in RULES}) == len(RULES)
    assert len({rule.what for rule in RULES}) == len(RULES)


def test_the_table_cannot_be_changed_from_outside() -> None:
    with pytest.raises(TypeError):
        RULES_BY_ID["override:ignore-instructions"] = RULES[0]  # type: ignore[index]


def test_the_rule_set_has_a_version_of_its_own() -> None:
    assert RULESET_VERSION.isdecimal()


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_has_rules_of_its_own(family: str) -> None:
    assert [rule for rule in RULES if rule.id.startswith(f"{family}:")]


def test_commands_and_keys_alone_never_stop_an_unrelated_call() -> None:
    shapes = [rule for rule in RULES if rule.family in {"execution", "credential"} and not rule.id.startswith("seed:")]
    assert shapes
    assert all(rule.scope is not Scope.AGENT for rule in shapes)


def test_wordings_are_told_apart_from_shapes() -> None:
    assert all(rule.phrase for rule in RULES if rule.family in {"override", "authority"})
    assert not any(rule.phrase for rule in RULES if rule.family in {"execution", "markup"})
    assert not RULES_BY_ID["tool:call-as-json"].phrase


@pytest.mark.parametrize(
    "text",
    [
        "Install the package, then run the tests with `make test`. If a test fails, ignore the previous warning.",
        "def ignore(previous: list[str], *, all_rules: bool = False) -> None:\n    # instructions follow\n    return",
        "The scheduler runs each task in turn. When the task is cancelled, the loop calls its callbacks.",
        "Dear assistant professor, please find the report attached. Do not forget to sign it before Friday.",
        "ssh <user>@<host>\n<user>:<password>\n<system-name>",
        "The system prompts for a password. The user must not be root. Do not share your password with others.",
        "Use the editor to open the file, then call the function with two arguments and check the result.",
        "The language model was trained on public text; its assistant mode is described in chapter four.",
        "You are now ready to begin. From now on you will see the prompt in green.",
        "Please ignore my last e-mail, I sent it by mistake. The meeting is at noon, before the tour.",
        "Forward the message to accounting once it is signed, and keep a copy in the shared folder.",
        "# Instructions\n\n1. Clone the repository.\n2. Follow the instructions in the README.",
        "Your order has been cancelled and the amount will be returned to your account.",
        "If you are a developer, you can enable verbose logging without restarting the service.",
    ],
)
def test_ordinary_text_does_not_speak_to_an_agent(text: str, scan: Scan) -> None:
    assert not {name for name in scan(text) if RULES_BY_ID[name].scope is Scope.AGENT}
