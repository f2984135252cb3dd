"""Prices of model calls in US dollars, as the library `genai-prices` has them; it is imported by the first call that needs it."""

from __future__ import annotations

import functools
import threading
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from jaato.log import logger
from jaato.protocol.messages import Usage
from jaato.protocol.specs import ModelInfo

LOG = logger("prices")
PER_MILLION = 1_000_000
INSTALL = "pip install 'jaato[prices]'"


class Rates(NamedTuple):
    """What a model costs now, in US dollars per million tokens; the lowest tier where long contexts cost more."""

    input: float
    output: float


def compute_price(usage: Usage | None, info: ModelInfo, at: datetime | None = None) -> float | None:
    """The price of one call in US dollars, at the time it was made; None when unknown."""
    if usage is None:
        return None
    if info.price_input is not None and info.price_output is not None:
        return compute_own_price(usage, info.price_input, info.price_output, info.price_cached_input)
    if info.priced_by is None or (library := load()) is None:
        return None
    return compute_library_price(library, usage, info, at or datetime.now(UTC))


def compute_own_price(
    usage: Usage, price_input: float, price_output: float, price_cached: float | None
) -> float:
    """The price by what the provider itself says of its model, per million tokens."""
    cached = price_cached if price_cached is not None else price_input
    micro = (
        (usage.input_tokens - usage.cached_input_tokens) * price_input
        + usage.cached_input_tokens * cached
        + usage.output_tokens * price_output
    )
    return micro / PER_MILLION


def compute_library_price(library: Any, usage: Usage, info: ModelInfo, at: datetime) -> float | None:
    """The price by the library; None for a model it does not have, or usage that cannot be."""
    tokens = library.Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cached_input_tokens,
        cache_write_tokens=usage.cache_write_tokens,
    )
    try:
        found = library.calc_price(
            tokens,
            model_ref=info.id.rpartition("/")[2],  # without a vendor in front
            provider_id=info.priced_by,
            genai_request_timestamp=at,
        )
    except (LookupError, ValueError):
        return None
    return float(found.total_price)


def find_rates(info: ModelInfo) -> Rates | None:
    """What a model costs; None when unknown."""
    per_input = compute_price(Usage(input_tokens=1), info)
    per_output = compute_price(Usage(output_tokens=1), info)
    if per_input is None or per_output is None:
        return None
    return Rates(round(per_input * PER_MILLION, 6), round(per_output * PER_MILLION, 6))


def add_prices(info: ModelInfo) -> ModelInfo:
    """What is known of a model, with its prices as far as the library has them."""
    rates = find_rates(info)
    if rates is None or info.price_input is not None:
        return info
    cached = compute_price(Usage(input_tokens=1, cached_input_tokens=1), info)
    return msgspec.structs.replace(
        info,
        price_input=rates.input,
        price_output=rates.output,
        price_cached_input=None if cached is None else round(cached * PER_MILLION, 6),
    )


def explain_unknown_price(info: ModelInfo) -> str:
    """Why a price is unknown, as the end of a sentence."""
    if info.priced_by is not None and load() is None:
        return f"the price list is not installed ({INSTALL})"
    return f"the price of {info.id} at {info.provider} is not known"


@functools.cache
def load() -> Any:
    """The library, imported by the first call: 0.1 s of CPU; None where it is not installed."""
    try:
        import genai_prices
    except ImportError:
        LOG.info("Prices are unknown: %s", INSTALL)
        return None
    try:
        genai_prices.calc_price(genai_prices.Usage(input_tokens=1), model_ref="gpt-4o", provider_id="openai")
    except (LookupError, ValueError):
        pass  # it reads its data at the first use
    return genai_prices


def preload(info: ModelInfo) -> None:
    """Import the library in a thread, while a model that has a price there is answering."""
    if info.priced_by is None or info.price_input is not None or load.cache_info().currsize:
        return
    try:
        threading.Thread(target=load, name="jaato-prices", daemon=True).start()
    except RuntimeError:
        pass  # no more threads: the first price imports it
