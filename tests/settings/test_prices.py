"""A cost comes from a dated table or from the operator, and is unknown otherwise."""

from __future__ import annotations

import re
from datetime import date
from itertools import pairwise

import pytest
from paths import ROOT

from lockgate.core.errors import InvalidConfig
from lockgate.settings.model_names import ALIASES, resolve_model
from lockgate.settings.prices import MAX_PRICES, PRICES, PRICES_DATE, cost_usd, find_price, parse_prices


def test_every_row_has_a_source_and_a_model_one_can_name() -> None:
    date.fromisoformat(PRICES_DATE)
    for row in PRICES:
        assert str(resolve_model(row.model)) == row.model
        assert row.source.startswith("https://")
        assert 0 < row.input_usd < row.output_usd < 1000
        for day in (row.since, row.until):
            assert not day or date.fromisoformat(day).isoformat() == day


def test_no_two_rows_hold_at_once_and_none_leaves_a_gap() -> None:
    for model in {row.model for row in PRICES}:
        rows = [row for row in PRICES if row.model == model]
        for length in (1, 99_999, 100_000, 100_001, 272_000, 272_001, 900_000):
            for day in ("2026-01-01", PRICES_DATE, "2026-12-31", "2027-01-01", "2030-01-01"):
                assert sum(row.applies_to(length, day) for row in rows) <= 1, (model, length, day)
        for before, after in pairwise(sorted(rows, key=lambda row: row.above)):
            assert before.up_to == after.above


@pytest.mark.parametrize("alias", ALIASES)
def test_every_alias_has_a_price_today(alias: str) -> None:
    assert find_price(str(ALIASES[alias])) is not None


def test_a_cost_is_what_the_tokens_cost() -> None:
    assert cost_usd("anthropic/claude-sonnet-5-5", 1_000_000, 0) == pytest.approx(2.0)
    assert cost_usd("anthropic/claude-sonnet-5-5", 1000, 100) == pytest.approx(0.003)
    assert cost_usd("anthropic/claude-sonnet-5-5", 1000, -5) == pytest.approx(0.002)


def test_a_long_prompt_has_its_own_price_or_none_that_is_known() -> None:
    assert cost_usd("anthropic/claude-haiku-5-5", 100_000, 0) == pytest.approx(0.01)
    assert cost_usd("anthropic/claude-haiku-5-5", 100_001, 0) == pytest.approx(0.0500005)
    assert cost_usd("openai/gpt-6-luna", 272_000, 1) is not None
    assert cost_usd("openai/gpt-6-luna", 272_001, 1) is None


def test_a_price_ends_on_its_day() -> None:
    flash = "compatible/gemini-3.8-flash"
    assert cost_usd(flash, 1_000_000, 0, on="2026-12-31") == pytest.approx(0.75)
    assert cost_usd(flash, 1_000_000, 0, on="2027-01-01") == pytest.approx(1.5)


@pytest.mark.parametrize(
    "model", ["", "openai/gpt-9", "azure/gpt-6-luna", "gpt-6-luna", "anthropic/claude-haiku-5-5-x"]
)
def test_an_unknown_cost_is_not_a_zero(model: str) -> None:
    assert cost_usd(model, 1000, 10) is None


def test_a_missing_count_is_an_unknown_cost() -> None:
    assert cost_usd("anthropic/claude-haiku-5-5", 0, 0) is None
    assert cost_usd("compatible/local", 0, 0, {"compatible/local": (0.0, 0.0)}) == 0.0
    assert cost_usd("embedded/judge", 0, 0) == 0.0


def test_a_price_of_one_s_own_goes_before_the_table() -> None:
    own = parse_prices(["azure/judge = 0.15 / 0.60", "openai/gpt-6-luna=1/2", "compatible/a = b = 0 / 0"])
    assert own == {"azure/judge": (0.15, 0.6), "openai/gpt-6-luna": (1.0, 2.0), "compatible/a = b": (0.0, 0.0)}
    assert cost_usd("azure/judge", 1_000_000, 1_000_000, own) == pytest.approx(0.75)
    assert cost_usd("openai/gpt-6-luna", 900_000, 0, own) == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["azure/judge"], "`azure/judge` is not a price"),
        (["azure/judge = 1"], "is not a price"),
        (["azure/judge = 1 / -1"], "is not a price"),
        (["azure/judge = nan / 1"], "is not a price"),
        (["azure/judge = 1e3 / 1"], "is not a price"),
        (["judge = 1 / 1"], "is not a price"),
        (["azure/judge = 100001 / 1"], "more than 100,000"),
        (["azure/" + "a=" * 50_000], "is not a price"),
        (["azure/judge = 1 / 1", "azure/judge=2/2"], "priced twice"),
        ([f"azure/{number} = 1 / 1" for number in range(MAX_PRICES + 1)], "more than 500 prices"),
    ],
)
def test_what_is_no_price_is_refused(lines: list[str], message: str) -> None:
    with pytest.raises(InvalidConfig, match=re.escape(message)):
        parse_prices(lines)


PAGE = (ROOT / "docs" / "reference" / "models.md").read_text(encoding="utf-8")


def test_the_page_lists_every_name_and_price_and_no_other() -> None:
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("| `")
    ]
    names = [(row[0], row[1], row[2]) for row in rows if len(row) == 3]
    assert names == [
        (f"`{name}`", f"`{on}`", f"`{on.endpoint}`" if on.endpoint else "-") for name, on in ALIASES.items()
    ]
    sources = dict(re.findall(r"^(\[\d+\]): (\S+)$", PAGE, flags=re.MULTILINE))
    prices = [(row[0], row[1], row[2], sources[row[4]]) for row in rows if len(row) == 5]
    assert prices == [(f"`{row.model}`", f"{row.input_usd:.2f}", f"{row.output_usd:.2f}", row.source) for row in PRICES]
    for row, listed in zip(PRICES, [row[3] for row in rows if len(row) == 5], strict=True):
        limits = [f"{row.above:,}" if row.above else "", f"{row.up_to:,}" if row.up_to else "", row.since, row.until]
        assert all(limit in listed for limit in limits)
        assert (listed == "always") is not any(limits)
    assert f"**{PRICES_DATE}**" in PAGE
