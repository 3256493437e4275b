"""What patterns cost is counted before the engine sees them, and what would keep it busy for minutes is refused."""

from __future__ import annotations

from contextlib import suppress
from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockgate.core.errors import InvalidConfig, InvalidPattern
from lockgate.core.text.rules import MAX_CHARACTERS, MAX_COST, check_budget, pattern_cost
from lockgate.core.text.scanner import check_pattern

# Each took the engine from six seconds to more than a minute.
SLOW = {
    "optional steps": ("a" + ".?" * 490 + "b",),
    "optional steps beyond ascii": ("é" + "[^x]?" * 190 + "ü",),
    "a property, repeated": (r"é\pL{0,50}b",),
    "a long gap": ("foo.{0,30000}bar",),
    "alternatives without fixed characters": (
        "|".join(f"{chr(97 + number % 26)}.*{chr(97 + number * 7 % 26)}" for number in range(150)),
    ),
    "many patterns without fixed characters": tuple(
        f"[a-{chr(98 + number % 20)}][^{chr(97 + number % 26)}]{{2,9}}[{chr(99 + number % 20)}-z]{number % 7}"
        for number in range(80)
    ),
    "many short gaps": tuple(
        f"{chr(97 + number % 26)}.{{0,10}}{chr(97 + number * 7 % 26)}|{number % 10}x+" for number in range(200)
    ),
}

ORDINARY = (
    r"\bproject[- ]nightjar\b",
    r"AKIA[0-9A-Z]{16}",
    r"ghp_[A-Za-z0-9]{36,255}",
    r"\b[0-9]{3}-[0-9]{2}-[0-9]{4}\b",
    r"[0-9a-f]{64}",
    r"(?:ignore|disregard)\s+(?:all\s+)?(?:previous|prior)\s+(?:\w+\s+){0,5}instructions",
    r"-----BEGIN (?:RSA |EC )?PRIVATE KEY-----",
    r"internal\.example\.(?:com|net)/.{0,80}confidential",
    "vertraulich für müller",
    "機密文書",
)


@pytest.mark.parametrize("patterns", SLOW.values(), ids=SLOW)
def test_patterns_that_stall_the_engine_are_refused_unseen(patterns: tuple[str, ...]) -> None:
    began = thread_time()
    with pytest.raises(
        InvalidConfig, match=r"cost [0-9,]+ to compile, the limit is 5,000; the most expensive is `"
    ) as refused:
        check_budget(patterns)
    assert thread_time() - began < 1
    assert refused.value.hint
    assert max(patterns, key=pattern_cost)[:8] in refused.value.message


def test_ordinary_patterns_are_cheap() -> None:
    check_budget(ORDINARY)
    check_budget([f"secret-word-{number}\\b" for number in range(500)])
    check_budget([f"word{number}.*other{number}" for number in range(500)])


def test_a_long_list_is_refused_with_its_longest_pattern() -> None:
    patterns = [*(f"{number:0990}" for number in range(50)), "x" * 999]
    with pytest.raises(InvalidConfig, match=rf"characters, the limit is {MAX_CHARACTERS:,}; the longest is `xxx"):
        check_budget(patterns)


@pytest.mark.parametrize(
    ("pattern", "cost"),
    [
        ("word", 0),
        ("wo(?:rd|od)s", 1),
        ("(?i)word", 0),
        ("wor(?#a comment)d", 0),
        (r"\Aword\b", 0),
        ("aa+", 0),
        ("a{2}", 0),
        # One step without two fixed characters, and its link to itself.
        ("a", 15),
        ("a+", 15),
        # Two alternatives, one without fixed characters: the pattern has none.
        ("word|[ab]", 75 - 2),
        ("word(?:other)?", 0),
        ("x(?:word)?y", 90 - 6 + 6),
        ("(" * 201 + "a" + ")" * 201, MAX_COST + 1),
    ],
)
def test_a_cost_is_the_links_beyond_the_text(pattern: str, cost: int) -> None:
    assert abs(pattern_cost(pattern) - cost) <= 2


@pytest.mark.parametrize("outer", [1, 2, 5, 20])
@pytest.mark.parametrize("inner", [1, 3, 30])
def test_repeats_inside_each_other_multiply(outer: int, inner: int) -> None:
    cost = pattern_cost(f"word(?:[a-c]x{{0,{inner}}}){{0,{outer}}}y")
    assert cost >= (inner + 1) * outer - 4
    assert cost <= pattern_cost(f"word(?:[a-c]x{{0,{inner + 1}}}){{0,{outer + 1}}}y")


@given(st.text(alphabet=r"ab(|)[]{}?*+.\d09,:^-Qé#x", max_size=60))
def test_any_text_has_a_cost(pattern: str) -> None:
    assert pattern_cost(pattern) >= 0


@given(st.text(alphabet="ab(|)[]{}?*+.\\d129,:^-é", min_size=1, max_size=30))
def test_what_is_within_the_budget_compiles_soon(pattern: str) -> None:
    if pattern_cost(pattern) > MAX_COST:
        return
    began = thread_time()
    with suppress(InvalidPattern):
        check_pattern(pattern)
    assert thread_time() - began < 10


@pytest.mark.parametrize(
    "pattern",
    [r"\Q[\E(?:a?b?c?d?){0,250}\Q]\E", "(?x) #[\n(?:a?b?c?d?){0,250} #]\nzz", r"(?ix:a #[)", r"a\\\Qb", r"(?-x)ab"],
)
def test_what_hides_a_pattern_from_the_count_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidConfig, match="not taken"):
        check_budget([pattern])


def test_a_backslash_before_a_letter_is_no_quoting() -> None:
    check_budget([r"C:\\Queue", r"\\Exports", r"(?i)box"])
