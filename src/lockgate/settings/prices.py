"""What a judge's answer costs: list prices as data, each with where it was read. An unknown price stays unknown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import NamedTuple

from lockgate.core.errors import InvalidConfig, quoted
from lockgate.core.tables import read_table

# The day on which the table was last compared with its sources.
PRICES_DATE = "2026-11-15"


class Price(NamedTuple):
    """One row of a price list: US dollars per million tokens read and written.

    It holds for prompts of more than `above` and at most `up_to` tokens (0: of any length), from `since` to `until`
    (days, empty: without end). A prompt or a day that no row of its model covers has no known price.
    """

    model: str
    input_usd: float
    output_usd: float
    source: str
    above: int = 0
    up_to: int = 0
    since: str = ""
    until: str = ""

    def applies_to(self, tokens_in: int, on: str) -> bool:
        is_of_length = self.above < tokens_in <= (self.up_to or tokens_in)
        return is_of_length and self.since <= on <= (self.until or on)


_COLUMNS = ("model", "input", "output", "source", "above", "up to", "since", "until")
PRICES = tuple(
    Price(model, float(usd_in), float(usd_out), source, int(above), int(up_to), since.strip("-"), until.strip("-"))
    for model, usd_in, usd_out, source, above, up_to, since, until in read_table(
        __package__, "models.tbl", "prices", _COLUMNS
    )
)
MAX_PRICES = 500
MAX_USD = 100_000.0
_MAX_LINE = 400
_NUMBER = r"[0-9]{1,6}(?:\.[0-9]{1,9})?"
_LINE = re.compile(rf"(?P<model>[a-z]+/[!-~](?:[ -~]*[!-~])?)\s*=\s*(?P<input>{_NUMBER})\s*/\s*(?P<output>{_NUMBER})")

# A price of one's own: US dollars per million tokens read and written.
OwnPrice = tuple[float, float]
_NONE: Mapping[str, OwnPrice] = MappingProxyType({})


def cost_usd(
    name: str, tokens_in: int, tokens_out: int, overrides: Mapping[str, OwnPrice] = _NONE, *, on: str = PRICES_DATE
) -> float | None:
    """Return what this many tokens cost on the day `on`, or None where the price is unknown: that is never a zero.

    A question always has tokens, so none reported is a missing count, unless the model costs nothing.
    """
    row = find_price(name, tokens_in, on=on)
    price = overrides.get(name) or (row and (row.input_usd, row.output_usd))
    if name.startswith("embedded/") or (price and not any(price)):
        return 0.0
    if not price or tokens_in <= 0:
        return None
    return (tokens_in * price[0] + max(0, tokens_out) * price[1]) / 1_000_000


def cost_today(own_prices: Iterable[str], name: str, tokens_in: int, tokens_out: int) -> float | None:
    """Return what this many tokens cost now, with prices of the operator's own as lines."""
    return cost_usd(name, tokens_in, tokens_out, parse_prices(own_prices), on=datetime.now(UTC).date().isoformat())


def find_price(provider_model: str, tokens_in: int = 1, *, on: str = PRICES_DATE) -> Price | None:
    """Return the row of the table that holds for a prompt of this length on this day."""
    rows = (row for row in PRICES if row.model == provider_model)
    return next((row for row in rows if row.applies_to(max(1, tokens_in), on)), None)


def parse_prices(lines: Iterable[str]) -> dict[str, OwnPrice]:
    """Return prices of one's own from lines like `azure/judge = 0.15 / 0.60`, each checked."""
    prices: dict[str, OwnPrice] = {}
    for line in lines:
        parts = _LINE.fullmatch(line.strip()) if len(line) <= _MAX_LINE else None
        if parts is None:
            hint = 'write it as "provider/model = INPUT / OUTPUT", in US dollars per million tokens'
            raise InvalidConfig(f"{quoted(line)} is not a price", hint=hint)
        model, price = parts["model"].strip(), (float(parts["input"]), float(parts["output"]))
        if model in prices:
            raise InvalidConfig(f"{quoted(model)} is priced twice", hint="remove one of the prices")
        if max(price) > MAX_USD:
            raise InvalidConfig(f"the price of {quoted(model)} is more than {MAX_USD:,.0f} US dollars")
        prices[model] = price
    if len(prices) > MAX_PRICES:
        raise InvalidConfig(f"more than {MAX_PRICES} prices")
    return prices
