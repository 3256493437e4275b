from __future__ import annotations

import dataclasses
import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockgate.core.errors import InvalidConfig
from lockgate.core.ruling.policy import (
    FIELDS,
    MAX_PATTERN_LENGTH,
    PRESETS,
    Policy,
    change_policy,
    combine_strictest,
    find_loosened,
    tighten,
)
from lockgate.core.ruling.scope.border import border_from_scope, split_scopes
from lockgate.core.text.rules import MAX_CHARACTERS
from lockgate.core.vocabulary import Action, Mode, Risk, Trust

_ACTIONS = (Action.CONTINUE, Action.REORIENT, Action.PAUSE)
_MODES = (Mode.DEFAULT, Mode.RESEARCH, Mode.PARANOID)

patterns = st.lists(st.sampled_from(["alpha", "beta", "gamma+", "é\n", "a,'b"]), max_size=4).map(tuple)
tools = st.lists(st.sampled_from(["deploy", "Deploy", "sendEmail", "mcp__x__y"]), max_size=4).map(tuple)
policies = st.builds(
    Policy,
    mode=st.sampled_from(Mode),
    research_scope=st.sampled_from(["our own lab", "the staging site"]),
    user_trust=st.sampled_from(Trust),
    additional_patterns=patterns,
    additional_high_risk_tools=tools,
    strict_patterns=st.booleans(),
    recent_blocks=st.sampled_from([0, 1, 2, 50]),
    on_unclear_low=st.sampled_from(Action),
    on_unclear_high=st.sampled_from([Action.REORIENT, Action.PAUSE]),
    max_reorient_attempts=st.integers(0, 5),
    triage_model=st.sampled_from(["", "small"]),
    supervisor_model=st.sampled_from(["", "large"]),
    judge_preset=st.sampled_from(PRESETS),
    unsafe_continue_on_unclear=st.booleans(),
    unsafe_disable_phrase_rules=st.booleans(),
)


def weaker_fields(one: Policy, other: Policy) -> list[str]:
    """The fields in which `one` is weaker than `other`, in words of its own: none, when it is at least as strict."""
    weaker = {
        "mode": _MODES.index(one.mode) < _MODES.index(other.mode),
        "user_trust": one.user_trust > other.user_trust,
        "additional_patterns": not set(one.additional_patterns) >= set(other.additional_patterns),
        "additional_high_risk_tools": not one.high_risk_tools >= other.high_risk_tools,
        "strict_patterns": other.strict_patterns and not one.strict_patterns,
        "recent_blocks": one.recent_blocks != 0
        and (other.recent_blocks == 0 or one.recent_blocks < other.recent_blocks),
        "on_unclear_low": _ACTIONS.index(one.on_unclear_low) < _ACTIONS.index(other.on_unclear_low),
        "on_unclear_high": _ACTIONS.index(one.on_unclear_high) < _ACTIONS.index(other.on_unclear_high),
        "max_reorient_attempts": one.max_reorient_attempts > other.max_reorient_attempts,
        "judge_preset": PRESETS.index(one.judge_preset) > PRESETS.index(other.judge_preset),
        "unsafe_continue_on_unclear": one.unsafe_continue_on_unclear and not other.unsafe_continue_on_unclear,
        "unsafe_disable_phrase_rules": one.unsafe_disable_phrase_rules and not other.unsafe_disable_phrase_rules,
    }
    return [name for name, is_weaker in weaker.items() if is_weaker]


@settings(deadline=None)
@given(policies, policies)
def test_the_stricter_of_two_is_at_least_as_strict_as_both(a: Policy, b: Policy) -> None:
    merged = combine_strictest(a, b)
    assert weaker_fields(merged, a) == []
    assert weaker_fields(merged, b) == []
    for risk in Risk:
        merged_rank = _ACTIONS.index(merged.on_unclear(risk))
        assert merged_rank >= max(_ACTIONS.index(a.on_unclear(risk)), _ACTIONS.index(b.on_unclear(risk)))


@settings(deadline=None)
@given(policies, policies)
def test_merging_takes_no_more_than_it_is_given(a: Policy, b: Policy) -> None:
    merged = combine_strictest(a, b)
    for name in FIELDS:
        if name == "research_scope":
            assert split_scopes(merged.research_scope) == tuple(dict.fromkeys((a.research_scope, b.research_scope)))
        elif not name.startswith("additional_"):
            assert getattr(merged, name) in (getattr(a, name), getattr(b, name)), name
    assert set(merged.additional_patterns) == {*a.additional_patterns, *b.additional_patterns}
    assert merged.high_risk_tools == a.high_risk_tools | b.high_risk_tools


@settings(deadline=None)
@given(policies, policies)
def test_the_order_of_merging_matters_only_for_words_without_an_order(a: Policy, b: Policy) -> None:
    one, other = combine_strictest(a, b), combine_strictest(b, a)
    differ = {name for name in FIELDS if getattr(one, name) != getattr(other, name)}
    assert differ <= {"research_scope", "triage_model", "supervisor_model"}
    assert combine_strictest(a, a) == a


@settings(deadline=None)
@given(policies, policies)
def test_a_policy_is_tightened_only_where_asked(base: Policy, other: Policy) -> None:
    for name in FIELDS:
        asked = {name: getattr(other, name)}
        result = tighten(base, **asked)
        assert weaker_fields(result, base) == []
        assert all(getattr(result, each) == getattr(base, each) for each in FIELDS if each != name)
        assert set(split_scopes(result.research_scope)) >= set(split_scopes(base.research_scope))


@settings(deadline=None)
@given(policies, policies)
def test_what_would_loosen_is_named(base: Policy, other: Policy) -> None:
    for name in FIELDS:
        named = find_loosened(base, **{name: getattr(other, name)})
        if name in ("triage_model", "supervisor_model", "research_scope"):
            assert named == ((name,) if getattr(base, name) not in ("", getattr(other, name)) else ())
        elif name.startswith("additional_"):
            assert named == ()
        else:
            weaker = weaker_fields(dataclasses.replace(base, **{name: getattr(other, name)}), base)
            assert named == tuple(weaker)


def test_every_field_is_merged_and_ordered() -> None:
    weakest = Policy(
        user_trust=Trust.TRUSTED,
        recent_blocks=1,
        on_unclear_high=Action.REORIENT,
        max_reorient_attempts=9,
        judge_preset="quiet",
        escalate="narrow",
        enforce=False,
        own_hosts=("build.our.example",),
        own_domains=("our.example",),
        own_addresses=("ops@our.example",),
        own_registries=("ghcr.io/our-team",),
        own_accounts=("de89370400440532013000",),
        unsafe_continue_on_unclear=True,
        unsafe_disable_phrase_rules=True,
    )
    strictest = Policy(
        mode=Mode.PARANOID,
        research_scope="our own lab",
        user_trust=Trust.UNTRUSTED,
        additional_patterns=("x",),
        additional_high_risk_tools=("y",),
        strict_patterns=True,
        flows=('{"name": "x", "to": "out", "value": "card"}',),
        labels=('{"as": "x", "source": "web:*"}',),
        effect_rows=("tools | x | pays",),
        on_unclear_low=Action.PAUSE,
        max_reorient_attempts=0,
        triage_model="small",
        supervisor_model="large",
        judge_preset="cautious",
        escalate="wide",
    )
    assert [name for name in FIELDS if getattr(weakest, name) == getattr(strictest, name)] == []
    assert combine_strictest(weakest, strictest) == strictest == combine_strictest(strictest, weakest)


def test_a_narrower_scope_holds_besides_the_operators() -> None:
    base = Policy(mode=Mode.RESEARCH, research_scope="*.example.com")
    narrow = tighten(base, research_scope="lab.example.com", mode=Mode.RESEARCH)
    assert split_scopes(narrow.research_scope) == ("*.example.com", "lab.example.com")
    assert [str(each.inside[0]) for each in border_from_scope(narrow.research_scope).others] == ["lab.example.com"]
    assert narrow.hash not in (base.hash, Policy(mode=Mode.RESEARCH, research_scope="lab.example.com").hash)
    assert tighten(narrow, research_scope="lab.example.com") == narrow == tighten(narrow, research_scope="")
    assert find_loosened(base, research_scope="lab.example.com") == ("research_scope",)
    assert find_loosened(base, research_scope=narrow.research_scope) == ()


def test_scopes_that_are_too_long_together_are_refused() -> None:
    base = Policy(research_scope="a" * 3000)
    with pytest.raises(InvalidConfig, match="research_scope has"):
        tighten(base, research_scope="b" * 3000)


def test_a_default_can_be_the_strictest_value_there_is() -> None:
    base = Policy(recent_blocks=10, unsafe_disable_phrase_rules=True)
    assert combine_strictest(base, Policy(mode=Mode.PARANOID)).recent_blocks == 0
    assert tighten(base, mode=Mode.PARANOID) == dataclasses.replace(base, mode=Mode.PARANOID)


def test_patterns_and_tools_are_added_whatever_is_asked() -> None:
    base = Policy(additional_patterns=("a",), additional_high_risk_tools=("t",))
    assert change_policy(base, additional_patterns=("b",)).additional_patterns == ("a", "b")
    assert change_policy(base, additional_high_risk_tools=()) == base


@settings(deadline=None)
@given(policies, policies)
def test_equal_policies_have_equal_hashes_and_others_do_not(a: Policy, b: Policy) -> None:
    assert (a == b) == (a.hash == b.hash)
    assert dataclasses.replace(a).hash == a.hash
    assert a.hash.startswith("sha256:")
    assert len(a.hash) == 71


@pytest.mark.parametrize(
    "change",
    [
        {"mode": Mode.PARANOID},
        {"research_scope": "our own lab"},
        {"user_trust": Trust.VETTED},
        {"additional_patterns": ("x",)},
        {"additional_high_risk_tools": ("x",)},
        {"strict_patterns": True},
        {"recent_blocks": 1},
        {"on_unclear_low": Action.PAUSE},
        {"on_unclear_high": Action.REORIENT},
        {"max_reorient_attempts": 4},
        {"triage_model": "m"},
        {"supervisor_model": "m"},
        {"judge_preset": "quiet"},
        {"enforce": False},
        {"flows": ('{"name": "x", "to": "out", "value": "card"}',)},
        {"labels": ('{"as": "x", "source": "web:*"}',)},
        {"effect_rows": ("tools | x | pays",)},
        {"own_hosts": ("build.our.example",)},
        {"own_domains": ("our.example",)},
        {"own_addresses": ("ops@our.example",)},
        {"own_registries": ("registry.our.example",)},
        {"own_accounts": ("123456789012",)},
        {"unsafe_continue_on_unclear": True},
        {"unsafe_disable_phrase_rules": True},
    ],
    ids=lambda change: next(iter(change)),
)
def test_any_change_changes_the_hash(change: dict[str, object]) -> None:
    assert Policy(**change).hash != Policy().hash  # type: ignore[arg-type]


def test_the_hash_test_above_knows_every_field() -> None:
    (mark,) = [each for each in test_any_change_changes_the_hash.pytestmark if each.name == "parametrize"]  # type: ignore[attr-defined]
    # The width in force is recorded with each ruling instead.
    assert sorted(next(iter(change)) for change in mark.args[1]) == sorted({*FIELDS} - {"escalate"})


@settings(deadline=None)
@given(st.lists(st.text(min_size=1), max_size=3), st.lists(st.text(min_size=1), max_size=3))
def test_no_two_lists_of_patterns_share_a_hash(a: list[str], b: list[str]) -> None:
    try:
        one, other = Policy(additional_patterns=tuple(a)), Policy(additional_patterns=tuple(b))
    except InvalidConfig:
        return
    assert (set(a) == set(b)) == (one.hash == other.hash)


def test_the_hash_is_the_same_in_another_process() -> None:
    code = (
        "from lockgate.core.ruling.policy import Policy;"
        "print(Policy(additional_patterns=('é', 'b'), additional_high_risk_tools=('y', 'x', 'z')).hash)"
    )
    here = Policy(additional_patterns=("b", "é"), additional_high_risk_tools=("z", "y", "x")).hash
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=_path()).stdout
    assert there.strip() == here


def _path() -> dict[str, str]:
    return {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": "7"}


def test_the_default_policy_keeps_its_hash() -> None:
    # Approvals are bound to it and records carry it: a new field or a new default is a change users must hear of.
    assert Policy().hash == "sha256:2f40b5200cf465dbb325d53e0554d87f7ef8bd9d8302affb6d23ccb31b533f8e"


def test_lists_are_sorted_and_said_once() -> None:
    policy = Policy(additional_patterns=("b", "a", "b"), additional_high_risk_tools=(" sendEmail ", "deploy", "deploy"))
    assert policy.additional_patterns == ("a", "b")
    assert policy.additional_high_risk_tools == ("deploy", "sendEmail")
    assert policy.high_risk_tools == frozenset({"deploy", "sendEmail"})


def test_a_word_becomes_the_member_that_is_compared_by_identity() -> None:
    policy = Policy(mode="paranoid", user_trust="vetted", on_unclear_low="PAUSE")  # type: ignore[arg-type]
    assert policy.mode is Mode.PARANOID
    assert policy.user_trust is Trust.VETTED
    assert policy.on_unclear_low is Action.PAUSE


def test_a_call_that_no_judge_settled_pauses_when_the_risk_is_high() -> None:
    assert Policy().on_unclear(Risk.HIGH) is Action.PAUSE
    assert Policy().on_unclear(Risk.LOW) is Action.CONTINUE
    assert Policy(on_unclear_high=Action.REORIENT).on_unclear(Risk.HIGH) is Action.REORIENT
    assert Policy(on_unclear_low=Action.PAUSE).on_unclear(Risk.LOW) is Action.PAUSE
    assert Policy(unsafe_continue_on_unclear=True).on_unclear(Risk.HIGH) is Action.CONTINUE


def test_only_fields_named_unsafe_can_be_weaker_than_their_default_for_high_risk() -> None:
    assert [name for name in FIELDS if name.startswith("unsafe_") and getattr(Policy(), name)] == []
    with pytest.raises(InvalidConfig) as caught:
        Policy(on_unclear_high=Action.CONTINUE, unsafe_continue_on_unclear=True)
    assert str(caught.value) == (
        "a high-risk call cannot continue without an answer\n"
        "hint: use PAUSE or REORIENT; to fail open all the same, set unsafe_continue_on_unclear"
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"mode": Mode.RESEARCH, "research_scope": " \n"},
            'mode `research` needs a scope\nhint: say what the research is about, e.g. scope = "our own test lab"',
        ),
        ({"mode": "strict"}, "unknown mode `strict`\nhint: use one of: default, paranoid, research"),
        ({"user_trust": 1}, "unknown user_trust `1`\nhint: use one of: untrusted, vetted, trusted"),
        ({"on_unclear_low": "ALLOW"}, "unknown on_unclear_low `ALLOW`\nhint: use one of: CONTINUE, REORIENT, PAUSE"),
        ({"recent_blocks": -1}, "recent_blocks must be a whole number from 0 to 1,000,000"),
        ({"recent_blocks": True}, "recent_blocks must be a whole number from 0 to 1,000,000"),
        ({"max_reorient_attempts": 1.5}, "max_reorient_attempts must be a whole number from 0 to 100"),
        ({"strict_patterns": 1}, "strict_patterns must be true or false"),
        ({"unsafe_continue_on_unclear": "no"}, "unsafe_continue_on_unclear must be true or false"),
        ({"additional_patterns": ("",)}, "an empty pattern would match everything\nhint: remove it"),
        ({"additional_patterns": (" \t",)}, "an empty pattern would match everything\nhint: remove it"),
        ({"additional_patterns": "abc"}, "additional_patterns must be a list of texts"),
        ({"additional_patterns": (b"abc",)}, "additional_patterns must hold texts, not bytes"),
        (
            {"additional_patterns": ("a" * (MAX_PATTERN_LENGTH + 1),)},
            f"pattern `{'a' * 60}…` has 1,001 characters, the limit is 1,000\nhint: split it into several patterns",
        ),
        (
            {"additional_patterns": tuple(f"p{number}" for number in range(501))},
            "501 additional patterns, the limit is 500\nhint: join patterns that belong together with |",
        ),
        (
            {"additional_patterns": ("secret\0word",)},
            "pattern `secret�word` holds a NUL character\nhint: write it as \\x00",
        ),
        (
            {"additional_patterns": ("a\ud800",)},
            "pattern `a�` holds half a surrogate pair, which is no character",
        ),
        (
            {"additional_high_risk_tools": ("deploy", " ")},
            "an empty tool name in additional_high_risk_tools\nhint: remove it",
        ),
        ({"additional_high_risk_tools": 3}, "additional_high_risk_tools must be a list of texts"),
        ({"triage_model": None}, "triage_model must be text, not NoneType"),
        ({"triage_model": "a\x1b[2J"}, "triage_model `a�[2J` has characters that no model's name has"),
        ({"supervisor_model": "m" * 201}, "supervisor_model has 201 characters, the limit is 200"),
        ({"research_scope": "s" * 4001}, "research_scope has 4,001 characters, the limit is 4,000"),
    ],
)
def test_a_policy_that_must_not_start(change: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        Policy(**change)  # type: ignore[arg-type]
    assert str(caught.value) == said


def test_the_largest_policy_is_still_a_policy() -> None:
    patterns = tuple(f"{number:04}".ljust(MAX_CHARACTERS // 500, "a") for number in range(500))
    assert len(Policy(additional_patterns=patterns).additional_patterns) == 500
    with pytest.raises(InvalidConfig, match="50,001 characters"):
        Policy(additional_patterns=(*patterns[1:], patterns[0] + "a"))


# --- what is the operator's own

OWN = Policy(
    own_hosts=("Build.Partner.example", "10.0.0.7"),
    own_domains=("our.example",),
    own_addresses=("ops@partner.example",),
    own_registries=("ghcr.io/our-team", "registry.partner.example"),
    own_accounts=("DE89 3704 0044 0532 0130 00", "123456789012"),
)


@pytest.mark.parametrize(
    "target",
    [
        "our.example",
        "API.our.example.",
        "api.our.example:8443",
        "https://api.our.example/v1?x=1",
        "build.partner.example",
        "10.0.0.7",
        "Ops@partner.example",
        "registry.partner.example/app:1",
        "ghcr.io/our-team/app",
        "DE89370400440532013000",
        "123456789012",
    ],
)
def test_what_the_operator_names_is_their_own(target: str) -> None:
    assert OWN.is_own(target)


@pytest.mark.parametrize(
    "target",
    [
        "",
        "notour.example",
        "our.example.evil.example",
        "partner.example",
        "x.build.partner.example",
        "ana@our.example",
        "ops@partner.example, eve@evil.example",
        "git@our.example:a/b",
        "https://our.example@evil.example/",
        "evil.example\\.our.example",
        "evil.example/.our.example",
        "evil.example#.our.example",
        "ghcr.io/our-team-2/app",
        "ghcr.io",
        "DE89370400440532013001",
        "\u043eur.example",
    ],
)
def test_what_only_looks_like_the_operators_own_is_not(target: str) -> None:
    assert not OWN.is_own(target)


@pytest.mark.parametrize(
    ("name", "entry", "hint"),
    [
        ("own_hosts", "https://our.example/", "build.our.example"),
        ("own_hosts", "*.our.example", "build.our.example"),
        ("own_domains", "example", "our.example"),
        ("own_domains", "github.io", "name your own hosts there"),
        ("own_addresses", "our.example", "ops@our.example"),
        ("own_registries", "https://ghcr.io", "registry.our.example"),
        ("own_accounts", "x", "DE89"),
        ("own_hosts", "", "build.our.example"),
    ],
)
def test_an_entry_that_names_nothing_of_ones_own_is_refused(name: str, entry: str, hint: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        Policy(**{name: (entry,)})  # type: ignore[arg-type]
    assert hint in refused.value.hint
