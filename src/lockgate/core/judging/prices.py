"""What a judge's answer costs: list prices as data, each with where it was read. An unknown price stays unknown."""

from __future__ import annotations

import math
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
        return (
            self.above < tokens_in
            and (not self.up_to or tokens_in <= self.up_to)
            and (not self.since or self.since <= on)
            and (not self.until or on <= self.until)
        )


_COLUMNS = ("model", "input", "output", "source", "above", "up to", "since", "until")
PRICES = tuple(
    Price(
        model,
        float(usd_in),
        float(usd_out),
        source,
        above=int(above),
        up_to=int(up_to),
        since=since.strip("-"),
        until=until.strip("-"),
    )
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
    provider_model: str,
    tokens_in: int,
    tokens_out: int,
    overrides: Mapping[str, OwnPrice] = _NONE,
    *,
    on: str = PRICES_DATE,
) -> float | None:
    """Return what this many tokens cost on the day `on`, or None where the price is unknown: that is never a zero.

    A question always has tokens, so none reported is a missing count, unless the model costs nothing.
    """
    if provider_model.startswith("embedded/"):
        return 0.0
    row = find_price(provider_model, tokens_in, on=on)
    own = overrides.get(provider_model) or (row and (row.input_usd, row.output_usd))
    if own and not any(own):
        return 0.0
    if not own or tokens_in <= 0:
        return None
    return (tokens_in * own[0] + max(0, tokens_out) * own[1]) / 1_000_000


def cost_today(own_prices: Iterable[str], name: str, tokens_in: int, tokens_out: int) -> float | None:
    """Return what this many tokens cost now, with prices of the operator's own as lines."""
    return cost_usd(name, tokens_in, tokens_out, parse_prices(own_prices), on=datetime.now(UTC).date().isoformat())


def find_price(provider_model: str, tokens_in: int = 1, *, on: str = PRICES_DATE) -> Price | None:
    """Return the row of the table that holds for a prompt of this length on this day."""
    asked = max(1, tokens_in)
    return next((row for row in PRICES if row.model == provider_model and row.applies_to(asked, on)), None)


def parse_prices(lines: Iterable[str]) -> dict[str, OwnPrice]:
    """Return prices of one's own from lines like `azure/judge = 0.15 / 0.60`, each checked."""
    found: dict[str, OwnPrice] = {}
    for line in lines:
        parts = _LINE.fullmatch(line.strip()) if len(line) <= _MAX_LINE else None
        if parts is None:
            raise InvalidConfig(
                f"{quoted(line)} is not a price",
                hint='write it as "provider/model = INPUT / OUTPUT", in US dollars per million tokens',
            )
        model, own = parts["model"].strip(), (float(parts["input"]), float(parts["output"]))
        if model in found:
            raise InvalidConfig(f"{quoted(model)} is priced twice", hint="remove one of the prices")
        if not all(math.isfinite(each) and each <= MAX_USD for each in own):
            raise InvalidConfig(f"the price of {quoted(model)} is more than {MAX_USD:,.0f} US dollars")
        found[model] = own
    if len(found) > MAX_PRICES:
        raise InvalidConfig(f"more than {MAX_PRICES} prices")
    return found
