"""Prices of model calls: by the library, by the provider's own word, or unknown."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaato.protocol.messages import Usage
from jaato.protocol.specs import ModelInfo
from jaato.tools.prices import add_prices, compute_price, explain_unknown_price, find_rates

SONNET = ModelInfo("claude-sonnet-4-5", "anthropic", priced_by="anthropic")
GPT = ModelInfo("gpt-5.2", "openai", priced_by="openai")


def test_cached_and_written_tokens_have_their_own_rates() -> None:
    """Of 1,000 input tokens 600 are read from the cache and 100 written to it; thinking is part of the output."""
    usage = Usage(1_000, 200, cached_input_tokens=600, cache_write_tokens=100, reasoning_tokens=150)
    expected = (300 * 3 + 600 * 0.3 + 100 * 3.75 + 200 * 15) / 1e6
    assert compute_price(usage, SONNET) == pytest.approx(expected)
    assert compute_price(Usage(1_000, 200, 600), GPT) == pytest.approx(
        (400 * 1.75 + 600 * 0.175 + 200 * 14) / 1e6
    )


def test_long_contexts_have_their_tier() -> None:
    """Above 200,000 input tokens Sonnet 4.5 costs twice as much."""
    assert compute_price(Usage(300_000, 0), SONNET) == pytest.approx(300_000 * 6 / 1e6)


def test_a_price_is_that_of_the_day_of_the_call() -> None:
    """OpenAI lowered the price of o3 in June 2025."""
    o3 = ModelInfo("o3", "openai", priced_by="openai")
    before, after = datetime(2025, 6, 1, tzinfo=UTC), datetime(2025, 7, 1, tzinfo=UTC)
    assert compute_price(Usage(1_000_000), o3, before) == pytest.approx(10.0)
    assert compute_price(Usage(1_000_000), o3, after) == pytest.approx(2.0)


def test_unknown_prices_stay_unknown() -> None:
    """A model the list does not have, one of another seller, and a call without a count of tokens."""
    assert (
        compute_price(Usage(10, 10), ModelInfo("claude-nine-9", "anthropic", priced_by="anthropic")) is None
    )
    assert compute_price(Usage(10, 10), ModelInfo("gpt-5.2", "openai")) is None
    assert compute_price(None, SONNET) is None
    assert find_rates(ModelInfo("x", "openai")) is None
    assert "the price of x at openai is not known" in explain_unknown_price(ModelInfo("x", "openai"))


def test_the_prices_of_a_listed_model() -> None:
    """`jaato models` shows them; those of a provider's own stay, unknown ones are left out."""
    info = add_prices(SONNET)
    assert (info.price_input, info.price_cached_input, info.price_output) == (3.0, 0.3, 15.0)
    own = ModelInfo("gpt-5.2", "openai", price_input=1.0, price_output=2.0, priced_by="openai")
    other = ModelInfo("gpt-5.2", "openai")
    assert (add_prices(own), add_prices(other)) == (own, other)


def test_impossible_usage_has_no_price() -> None:
    """More cached tokens than input: no price, and no error in the middle of a turn."""
    assert compute_price(Usage(10, 10, cached_input_tokens=50, cache_write_tokens=50), SONNET) is None


@given(st.integers(0, 10**7), st.integers(0, 10**6), st.floats(0, 1))
def test_a_provider_of_its_own_price_needs_no_library(tokens: int, output: int, part: float) -> None:
    """Local models cost nothing; a provider's own prices count before the list."""
    free = ModelInfo("m", "local", price_input=0.0, price_output=0.0)
    assert compute_price(Usage(tokens, output, int(tokens * part)), free) == 0
    own = ModelInfo("gpt-5.2", "openai", price_input=1.0, price_output=2.0, priced_by="openai")
    assert compute_price(Usage(tokens, output, int(tokens * part)), own) == pytest.approx(
        (tokens + 2 * output) / 1e6
    )


def test_the_library_is_imported_by_the_first_price_only() -> None:
    """Importing jaato, its agent and its providers does not import it."""
    code = (
        "import sys, jaato.cli, jaato.agent.session, jaato.providers.anthropic.models, jaato.tools.prices as p\n"
        "from jaato.providers.anthropic.models import describe\n"
        "info = describe('claude-opus-5')\n"
        "print('genai_prices' in sys.modules, p.find_rates(info), 'genai_prices' in sys.modules)"
    )
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert made.stdout == "False Rates(input=5.0, output=25.0) True\n"


def test_without_the_library_prices_are_unknown_and_the_reason_says_how_to_get_them() -> None:
    """The extra is named."""
    code = (
        "import sys; sys.modules['genai_prices'] = None\n"
        "from jaato.tools.prices import compute_price, explain_unknown_price\n"
        "from jaato.protocol.messages import Usage\n"
        "from jaato.providers.anthropic.models import describe\n"
        "info = describe('claude-opus-5')\n"
        "print(compute_price(Usage(1, 1), info), explain_unknown_price(info))"
    )
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert made.stdout == "None the price list is not installed (pip install 'jaato[prices]')\n"
