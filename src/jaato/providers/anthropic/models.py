"""What is known of Anthropic's models: context window, and how each generation is asked to think."""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec
from msgspec import Struct

from jaato.protocol.specs import ModelInfo
from jaato.typed_decoding import decode_json

Thought = Literal["none", "budget", "adaptive"]
FAMILY = re.compile(r"claude-(?:[a-z]+-)?(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)")

# Context and output limits from the vendor's model pages of November 2026; None where they give no single number.
KNOWN: dict[str, tuple[int | None, int | None]] = {
    "claude-fable-5-1": (1_000_000, 128_000),
    "claude-fable-5": (1_000_000, 128_000),
    "claude-opus-5-5": (1_000_000, 128_000),
    "claude-opus-5": (1_000_000, 128_000),
    "claude-sonnet-5-5": (1_000_000, 128_000),
    "claude-sonnet-5": (1_000_000, 128_000),
    "claude-haiku-5-5": (1_000_000, 128_000),
    "claude-opus-4-7": (1_000_000, None),
    "claude-haiku-4-5": (200_000, None),
}


def generation(model: str) -> tuple[int, int] | None:
    """The generation in a Claude model's name, as (4, 5); None for the models of others."""
    if "mythos" in model or "fable" in model:
        return (5, 0)
    found = FAMILY.search(model)
    return (int(found[1]), int(found[2] or 0)) if found else None


def thought(model: str) -> Thought:
    """How the model is asked to think: by a token budget, by effort alone, or not at all."""
    match generation(model):
        case None:
            return "budget"  # compatible servers took over the older form
        case known if known >= (4, 6):
            return "adaptive"
        case known if known >= (3, 7):
            return "budget"
    return "none"


def takes_temperature(model: str) -> bool:
    """Whether the model lets its sampling be set; from generation 4.7 on a request that does is refused."""
    known = generation(model)
    return known is None or known < (4, 7)


def supports_references(model: str) -> bool:
    """Whether the model can be referred to tools whose declaration is deferred."""
    return (generation(model) or (0, 0)) >= (4, 5)


def default_max_tokens(model: str) -> int:
    """The output limit sent when none is set: the API demands one, and it must not exceed the model's own."""
    known = generation(model)
    if known is not None and known < (3, 7):
        return 8_192 if known >= (3, 5) else 4_096
    return 32_000


def describe(model: str) -> ModelInfo:
    """What is known of a model without a request; its dated and regional names are the same model."""
    name = next((known for known in KNOWN if re.search(rf"{known}(?!-?\d{{1,2}}(?!\d))", model)), "")
    context, output = KNOWN.get(name, (None, None))
    return ModelInfo(
        id=model,
        provider="anthropic",
        context_limit=context,
        output_limit=output,
        vision=generation(model) is not None,
        thinking=generation(model) is not None and thought(model) != "none",
        priced_by="anthropic",
    )


class Support(Struct, frozen=True):
    supported: bool = False


class Capabilities(Struct):
    image_input: Support = Support()
    thinking: Support = Support()


class Listed(Struct):
    id: str
    max_input_tokens: int | None = None
    max_tokens: int | None = None
    capabilities: Capabilities | None = None


class Page(Struct):
    data: list[Listed]
    has_more: bool = False
    last_id: str | None = None


def read_models(body: bytes) -> tuple[list[ModelInfo], str | None]:
    """The models on a page of `GET /v1/models`, and the next page's path; raises msgspec's `DecodeError`."""
    page = decode_json(body, Page)
    models = []
    for listed in page.data:
        known = describe(listed.id)
        listed_fields: dict[str, Any] = {
            "context_limit": listed.max_input_tokens or known.context_limit,
            "output_limit": listed.max_tokens or known.output_limit,
        }
        if listed.capabilities is not None:
            listed_fields["vision"] = listed.capabilities.image_input.supported
            listed_fields["thinking"] = listed.capabilities.thinking.supported
        models.append(msgspec.structs.replace(known, **listed_fields))
    more = page.has_more and page.last_id and re.fullmatch(r"[\w.:@-]+", page.last_id)
    return models, f"/v1/models?limit=1000&after_id={page.last_id}" if more else None
