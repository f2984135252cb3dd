"""Which models of Anthropic are known, by name and by its own list."""

from __future__ import annotations

import msgspec

from jaato.providers.anthropic.models import describe, generation, read_models
from jaato.tools.prices import Rates, find_rates


def test_models_are_known_by_name() -> None:
    """Dated, regional and spelt-out names of a model are that model; unknown ones have no prices."""
    assert generation("claude-opus-4-20250514") == (4, 0)
    assert generation("us.anthropic.claude-sonnet-4-5-20250929-v1:0") == (4, 5)
    assert generation("claude-3-7-sonnet-latest") == (3, 7)
    assert generation("gpt-5") is None
    assert find_rates(describe("claude-haiku-4-5-20251001")) == Rates(1.0, 5.0)
    assert find_rates(describe("claude-opus-5-5")) == Rates(4.0, 20.0)
    assert find_rates(describe("claude-opus-5@20260724")) == Rates(5.0, 25.0)
    assert find_rates(describe("claude-opus-4-9")) is None
    assert find_rates(describe("claude-opus-5-6")) is None


def test_the_list_of_models_is_read() -> None:
    """Limits and abilities come from the API where it says them, and pages follow each other."""
    listed = {
        "data": [
            {
                "id": "claude-new",
                "max_input_tokens": 10,
                "max_tokens": 5,
                "capabilities": {
                    "image_input": {"supported": True},
                    "thinking": {"supported": True, "types": {}},
                },
            },
            {"id": "claude-haiku-4-5"},
        ],
        "has_more": True,
        "last_id": "claude-haiku-4-5",
    }
    (new, old), path = read_models(msgspec.json.encode(listed))
    assert (new.context_limit, new.output_limit, new.vision, new.thinking) == (10, 5, True, True)
    assert old.context_limit == 200_000
    assert path == "/v1/models?limit=1000&after_id=claude-haiku-4-5"
