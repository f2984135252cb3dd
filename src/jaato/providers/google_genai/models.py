"""What is known of Gemini models, and how each generation is asked to think."""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec
from msgspec import Struct

from jaato.protocol.specs import ModelInfo
from jaato.typed_decoding import decode_json

Effort = Literal["minimal", "low", "medium", "high"]
GENERATION = re.compile(r"gemini-(\d{1,2})(?:\.(\d{1,2}))?(?!\d)")
UNTHINKING = re.compile(r"image|tts|audio|live|embedding")
BUDGETS = {"minimal": 512, "low": 1_024, "medium": 8_192, "high": 24_576}


def generation(model: str) -> tuple[int, int] | None:
    """The generation in a Gemini model's name, as (2, 5); the newest for a name without one; else None."""
    if "gemini" not in model:
        return None
    found = GENERATION.search(model)
    return (int(found[1]), int(found[2] or 0)) if found else (99, 0)


def is_modern(model: str) -> bool:
    """Whether the model takes levels of thought, demands signatures back and takes images inside results."""
    return (generation(model) or (0, 0)) >= (3, 0)


def thinks(model: str) -> bool:
    """Whether a thinking configuration may be sent."""
    return (generation(model) or (0, 0)) >= (2, 5) and not UNTHINKING.search(model)


def thinking_config(model: str, effort: Effort | None) -> dict[str, Any] | None:
    """The `thinkingConfig` for an effort; None where the model takes none."""
    if not thinks(model):
        return None
    config: dict[str, Any] = {"includeThoughts": True}
    if effort is None:
        return config
    if is_modern(model):
        # only the Flash models know the lowest level
        level = "low" if effort == "minimal" and "flash" not in model else effort
        return config | {"thinkingLevel": level.upper()}
    return config | {"thinkingBudget": BUDGETS[effort]}


def describe(model: str) -> ModelInfo:
    """What is known of a model without a request; limits are those of every Gemini from 2.5 on."""
    known = generation(model)
    large = known is not None and known >= (2, 5) and not UNTHINKING.search(model)
    return ModelInfo(
        id=model,
        provider="google_genai",
        context_limit=1_048_576 if large else None,
        output_limit=65_536 if large else None,
        vision=known is not None,
        thinking=thinks(model),
        priced_by="google",
    )


class Listed(Struct, rename="camel"):
    name: str
    input_token_limit: int | None = None
    output_token_limit: int | None = None
    supported_generation_methods: list[str] | None = None
    thinking: bool | None = None


class Page(Struct, rename="camel"):
    models: list[Listed] = []
    next_page_token: str | None = None


def read_models(body: bytes) -> tuple[list[ModelInfo], str | None]:
    """The models on one page of `GET /v1beta/models` that can hold a conversation, and the next page's path.

    Raises msgspec's `DecodeError` for an answer of another shape.
    """
    page = decode_json(body, Page)
    models = []
    for listed in page.models:
        methods = listed.supported_generation_methods
        if methods is not None and "generateContent" not in methods:
            continue
        known = describe(listed.name.removeprefix("models/"))
        models.append(
            msgspec.structs.replace(
                known,
                context_limit=listed.input_token_limit or known.context_limit,
                output_limit=listed.output_token_limit or known.output_limit,
                thinking=known.thinking if listed.thinking is None else listed.thinking,
            )
        )
    token = page.next_page_token
    more = token and re.fullmatch(r"[\w.=+/:-]+", token)
    return models, f"/v1beta/models?pageSize=1000&pageToken={token}" if more else None
