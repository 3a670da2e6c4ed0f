"""What tokens cost: a table that says when it was taken, and the arithmetic. An unknown price is None, never 0."""

from dataclasses import dataclass

from delegation.receipt import Usage
from delegation.request import Endpoint


@dataclass(frozen=True)
class Price:
    """Dollars per million tokens on the day `as_of`."""

    input: float
    output: float
    as_of: str


_TAKEN = "2026-08-21"
_TABLE = {
    "qwen3.5-9b": Price(0.10, 0.15, _TAKEN),
    "qwen3-coder-next": Price(0.12, 0.80, _TAKEN),
    "qwen3.8-27b": Price(0.45, 3.20, _TAKEN),
    "minimax-m2.5": Price(0.27, 1.08, _TAKEN),
    "deepseek-v4-flash": Price(0.07546, 0.15092, _TAKEN),
    "gpt-5.6-sol": Price(2.00, 10.00, _TAKEN),
}


def price_of(wire_model: str) -> Price | None:
    """The table's price of a model by its name on the wire, with or without a vendor's prefix."""
    return _TABLE.get(wire_model.lower().rsplit("/", 1)[-1])


def estimated_usd(endpoint: Endpoint, usage: Usage) -> float | None:
    """Dollars by the endpoint's prices, or None when a price or a count is not known.

    `input_tokens` includes the cached ones; these cost the cached price where there is one.
    """
    prices = (endpoint.input_usd_per_million, endpoint.output_usd_per_million)
    if None in prices or usage.input_tokens is None or usage.output_tokens is None:
        return None
    input_price, output_price = (price or 0.0 for price in prices)
    cached = min(usage.cached_tokens or 0, usage.input_tokens)
    cached_price = input_price if endpoint.cached_usd_per_million is None else endpoint.cached_usd_per_million
    fresh = (usage.input_tokens - cached) * input_price
    return (fresh + cached * cached_price + usage.output_tokens * output_price) / 1_000_000
