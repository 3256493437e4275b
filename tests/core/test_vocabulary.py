from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from itertools import product

import pytest
from cpu_time import takes_less
from hypothesis import given
from hypothesis import strategies as st

from lockgate.core.errors import InvalidBlock
from lockgate.core.vocabulary import (
    DEFAULT_TRUST,
    ENCODED_CONTENT_WARNING,
    Action,
    Block,
    Decision,
    Kind,
    Lineage,
    Reason,
    Risk,
    Trust,
    build_lineage,
    default_trust,
)


def block(trust: Trust, *, mutable: bool = True, kind: Kind = Kind.DATA, id: str = "b1") -> Block:
    return Block(id, "text", trust, kind, mutable, "tool:x", "digest")


ALL_BLOCKS = [
    block(trust, mutable=mutable, kind=kind)
    for trust, mutable, kind in product(Trust, (True, False), Kind)
    if trust is not Trust.UNTRUSTED or (mutable and kind is Kind.DATA)
]
PAIRS = list(product(ALL_BLOCKS, ALL_BLOCKS))


# --- trust


def test_trust_is_ordered_and_has_its_words() -> None:
    assert [trust.word for trust in sorted(Trust)] == ["untrusted", "vetted", "trusted"]


def test_a_mixture_is_worth_its_lowest_part() -> None:
    for one, other in product(Trust, Trust):
        assert min(one, other) in (one, other)
        assert (min(one, other) is Trust.UNTRUSTED) == (Trust.UNTRUSTED in (one, other))


@pytest.mark.parametrize(
    ("source", "trust"),
    [
        ("system", Trust.TRUSTED),
        ("system:prompt", Trust.TRUSTED),
        ("goal", Trust.TRUSTED),
        ("user", Trust.TRUSTED),
        ("user:alice", Trust.TRUSTED),
        ("supervisor", Trust.TRUSTED),
        ("agent:scratchpad", Trust.TRUSTED),
        ("tool:read_inbox", Trust.UNTRUSTED),
        ("file:/etc/hosts", Trust.UNTRUSTED),
        ("web:https://system.example/", Trust.UNTRUSTED),
        ("mcp:system", Trust.UNTRUSTED),
    ],
)
def test_each_kind_of_source_has_its_trust(source: str, trust: Trust) -> None:
    assert default_trust(source) is trust


def test_every_listed_kind_of_source_is_in_the_table_above() -> None:
    assert set(DEFAULT_TRUST) == {"system", "goal", "user", "supervisor", "agent", "tool", "file", "web", "mcp"}


@pytest.mark.parametrize(
    "source",
    [
        "",
        ":",
        ":system",
        "email",
        "System",
        "USER",
        " user",
        "user ",
        "goal\n",
        "systemd:unit",
        "user-agent:curl",
        "supervisor/1",
        "tool:system",
        "gоal",  # the second letter is Cyrillic
        "ｕser",
        "user\u200b:alice",
    ],
)
def test_a_source_we_do_not_know_is_untrusted(source: str) -> None:
    assert default_trust(source) is Trust.UNTRUSTED


@given(st.text().filter(lambda text: text.partition(":")[0] not in DEFAULT_TRUST))
def test_any_other_source_is_untrusted_even_when_users_are_trusted(source: str) -> None:
    assert default_trust(source, user_trust=Trust.TRUSTED) is Trust.UNTRUSTED


@pytest.mark.parametrize("user_trust", Trust)
def test_the_users_trust_is_a_setting_and_no_other_trust_changes_with_it(user_trust: Trust) -> None:
    assert default_trust("user:alice", user_trust=user_trust) is user_trust
    for source, trust in DEFAULT_TRUST.items():
        if source != "user":
            assert default_trust(source, user_trust=user_trust) is trust


# --- blocks


def test_an_untrusted_block_cannot_be_an_instruction() -> None:
    with pytest.raises(InvalidBlock, match="cannot be an instruction") as caught:
        block(Trust.UNTRUSTED, kind=Kind.INSTRUCTION)
    assert 'kind="data"' in caught.value.hint


def test_an_untrusted_block_cannot_be_immutable() -> None:
    with pytest.raises(InvalidBlock, match="cannot be immutable") as caught:
        block(Trust.UNTRUSTED, mutable=False)
    assert "mutable" in caught.value.hint


@pytest.mark.parametrize("trust", [Trust.VETTED, Trust.TRUSTED])
@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("mutable", [True, False])
def test_anything_else_may_be_of_any_kind(trust: Trust, kind: Kind, *, mutable: bool) -> None:
    made = block(trust, kind=kind, mutable=mutable)
    assert (made.trust, made.kind, made.mutable) == (trust, kind, mutable)


def test_the_trust_of_a_block_cannot_be_raised_afterwards() -> None:
    made = block(Trust.UNTRUSTED)
    with pytest.raises(FrozenInstanceError):
        made.trust = Trust.TRUSTED  # type: ignore[misc]
    with pytest.raises(InvalidBlock):
        replace(made, kind=Kind.INSTRUCTION)


def test_the_errors_of_a_block_show_its_id_and_nothing_a_terminal_would_obey() -> None:
    with pytest.raises(InvalidBlock) as caught:
        block(Trust.UNTRUSTED, kind=Kind.INSTRUCTION, id="b\x1b[2J1")
    assert "`b\ufffd[2J1`" in str(caught.value)


@pytest.mark.parametrize(("one", "other"), [(one, other) for one, other in PAIRS if one.trust < other.trust])
def test_lower_trust_never_overrides(one: Block, other: Block) -> None:
    assert not one.may_override(other)


@pytest.mark.parametrize(("one", "other"), [(one, other) for one, other in PAIRS if not other.mutable])
def test_the_immutable_is_never_overridden(one: Block, other: Block) -> None:
    assert not one.may_override(other)


@pytest.mark.parametrize(
    ("one", "other"), [(one, other) for one, other in PAIRS if other.mutable and one.trust >= other.trust]
)
def test_what_is_mutable_and_not_more_trusted_may_be_overridden(one: Block, other: Block) -> None:
    assert one.may_override(other)


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_which_of_two_blocks_arrived_first_does_not_matter(one: Block, other: Block) -> None:
    first = replace(one, id="b0001").may_override(replace(other, id="b0002"))
    last = replace(one, id="b0002").may_override(replace(other, id="b0001"))
    assert first == last == one.may_override(other)


def test_only_tier_one_rulings_count_as_not_escalated() -> None:
    rulings = [Decision(Action.CONTINUE, tier, Reason.NO_RED_FLAGS, Risk.HIGH) for tier in (1, 2, 3)]
    assert [ruling.escalated for ruling in rulings] == [False, True, True]


def test_the_warning_for_system_prompts_names_the_encodings_and_forbids_following_them() -> None:
    for word in ("base64", "hexadecimal", "percent", "invisible", "untrusted", "never follow"):
        assert word in ENCODED_CONTENT_WARNING
    assert ENCODED_CONTENT_WARNING.isprintable()


# --- lineage


def size(tree: Lineage) -> int:
    return 1 + sum(map(size, tree.parents))


def height(tree: Lineage) -> int:
    return 1 + max(map(height, tree.parents), default=-1)


def test_lineage_is_the_tree_of_parents() -> None:
    parents = {"c": ["a", "b"], "b": ["a"], "a": []}
    assert build_lineage("c", parents) == Lineage("c", (Lineage("a"), Lineage("b", (Lineage("a"),))))


def test_a_parent_that_leads_nowhere_is_shown_as_missing() -> None:
    assert build_lineage("b", {"b": ["gone"]}) == Lineage("b", (Lineage("gone", cut="missing"),))
    assert build_lineage("gone", {}) == Lineage("gone", cut="missing")


def test_a_block_that_made_itself_is_cut_at_the_second_sight() -> None:
    assert build_lineage("a", {"a": ["a"]}) == Lineage("a", (Lineage("a", cut="cycle"),))


def test_a_circle_is_cut_where_it_closes() -> None:
    tree = build_lineage("a", {"a": ["b"], "b": ["c"], "c": ["a"]})
    assert tree == Lineage("a", (Lineage("b", (Lineage("c", (Lineage("a", cut="cycle"),)),)),))


@pytest.mark.parametrize("depth", [0, 1, 5, 16])
def test_a_long_chain_is_cut_at_the_depth_asked_for(depth: int) -> None:
    chain = {str(n): [str(n - 1)] if n else [] for n in range(5000)}
    tree = build_lineage("4999", chain, depth=depth)
    assert height(tree) == depth
    for _ in range(depth):
        (tree,) = tree.parents
    assert tree == Lineage(str(4999 - depth), cut="depth")


def test_a_chain_that_ends_at_the_depth_limit_is_not_cut() -> None:
    tree = build_lineage("2", {"2": ["1"], "1": ["0"], "0": []}, depth=2)
    assert tree == Lineage("2", (Lineage("1", (Lineage("0"),)),))


@pytest.mark.parametrize("width", [2, 3, 40])
def test_diamonds_upon_diamonds_do_not_unfold_without_end(width: int) -> None:
    levels = {f"{n}.{i}": [f"{n - 1}.{j}" for j in range(width)] if n else [] for n in range(30) for i in range(width)}
    assert size(build_lineage("29.0", levels)) <= 4096 + 16 * width
    assert takes_less(1, lambda: build_lineage("29.0", levels))


@given(
    st.dictionaries(st.integers(0, 12).map(str), st.lists(st.integers(0, 14).map(str), max_size=4)),
    st.integers(0, 12).map(str),
    st.integers(0, 8),
)
def test_any_graph_gives_a_bounded_tree_without_repetition_on_a_branch(
    parents: dict[str, list[str]], start: str, depth: int
) -> None:
    def walk(tree: Lineage, path: tuple[str, ...]) -> None:
        assert len(path) <= depth
        assert (tree.cut == "cycle") == (tree.block in path)
        if tree.cut:
            assert tree.parents == ()
        else:
            assert [parent.block for parent in tree.parents] == parents[tree.block]
        for parent in tree.parents:
            walk(parent, (*path, tree.block))

    tree = build_lineage(start, parents, depth=depth)
    assert tree.block == start
    walk(tree, ())


@pytest.mark.parametrize("action", Action)
def test_a_decision_is_no_condition(action: Action) -> None:
    """A tuple is true: `if session.check(…)` would run every call that was held."""
    decision = Decision(action, 1, Reason.NO_RED_FLAGS, Risk.LOW)
    with pytest.raises(TypeError, match=r"hint: ask `decision\.allowed`"):
        assert decision
    assert decision.allowed is (action is Action.CONTINUE)
