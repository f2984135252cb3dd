"""What is known of OpenAI's models, and readers of model lists of OpenAI, GitHub Models and Ollama."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from jaato.lazy_pattern import lazy_pattern, matches_glob
from jaato.protocol.specs import ModelInfo
from jaato.providers.errors import positive
from jaato.typed_decoding import decode_json


class Known(NamedTuple):
    """Limits in tokens, as published; None where not known."""

    pattern: str
    context: int | None = None
    output: int | None = None
    vision: bool = True
    thinking: bool = True


MODELS: tuple[Known, ...] = (
    Known("gpt-6.2-astra*", 1_050_000, 128_000),
    Known("gpt-6-astra*", 1_050_000, 128_000),
    Known("gpt-6.2-sol*", 1_050_000, 128_000),
    Known("gpt-6.1-sol*", 1_050_000, 128_000),
    Known("gpt-6-sol*", 1_050_000, 128_000),
    Known("gpt-6-luna*", 1_050_000, 128_000),
    Known("gpt-6*"),
    Known("gpt-5.6-sol*", 1_050_000, 128_000),
    Known("gpt-5.6-luna*", 1_050_000, 128_000),
    Known("gpt-5.6-terra*", 1_050_000, 128_000),
    Known("gpt-5.6", 1_050_000, 128_000),
    Known("gpt-5.5-pro*"),
    Known("gpt-5.5*", 1_050_000, 128_000),
    Known("gpt-5.4-*"),
    Known("gpt-5.4", 1_050_000, 128_000),
    Known("gpt-5*-chat*", 128_000, 16_384, thinking=False),
    Known("gpt-5.2-pro*", 400_000, 128_000),
    Known("gpt-5.2*", 400_000, 128_000),
    Known("gpt-5.1*", 400_000, 128_000),
    Known("gpt-5-mini*", 400_000, 128_000),
    Known("gpt-5-nano*", 400_000, 128_000),
    Known("gpt-5-pro*"),
    Known("gpt-5", 400_000, 128_000),
    Known("gpt-5-2*", 400_000, 128_000),
    Known("gpt-5-codex*", 400_000, 128_000),
    Known("gpt-4.1-mini*", 1_047_576, 32_768, thinking=False),
    Known("gpt-4.1-nano*", 1_047_576, 32_768, thinking=False),
    Known("gpt-4.1*", 1_047_576, 32_768, thinking=False),
    Known("gpt-4o-mini*", 128_000, 16_384, thinking=False),
    Known("gpt-4o*", 128_000, 16_384, thinking=False),
    Known("o3-mini*", 200_000, 100_000, vision=False),
    Known("o3-pro*"),
    Known("o3*", 200_000, 100_000),
    Known("o4-mini*", 200_000, 100_000),
)
"""The first match counts."""

NO_CHAT = (
    "*embedding*",
    "*tts*",
    "whisper*",
    "dall-e*",
    "*-image*",
    "*realtime*",
    "*transcribe*",
    "*moderation*",
    "sora*",
)
"""Models in a list that cannot hold a conversation."""


def describe(provider: str, model: str, *, priced: bool) -> ModelInfo:
    """What is known of a model by its name, a vendor in front ignored; `priced` where OpenAI's own prices hold."""
    name = model.rpartition("/")[2]
    known = next((known for known in MODELS if matches_glob(name, known.pattern)), None)
    if known is None:
        return ModelInfo(model, provider, priced_by="openai" if priced else None)
    return ModelInfo(
        id=model,
        provider=provider,
        context_limit=known.context,
        output_limit=known.output,
        vision=known.vision,
        thinking=known.thinking,
        priced_by="openai" if priced else None,
    )


def effort_word(model: str, effort: str) -> str:
    """The word for an effort: only the first models of the fifth generation know `minimal`."""
    if effort == "minimal" and not matches_glob(model.rpartition("/")[2] + "-", "gpt-5-*"):
        return "low"
    return effort


class Row(msgspec.Struct):
    """One model in the list of a compatible server; some say how much fits: OpenRouter, vLLM, Groq, LM Studio, llama.cpp."""

    id: str
    context_length: Any = None
    max_model_len: Any = None
    context_window: Any = None
    max_context_length: Any = None
    meta: Any = None

    @property
    def limit(self) -> int | None:
        """The limit of the context, the first of the fields that is one."""
        meta = self.meta if isinstance(self.meta, dict) else {}
        limits = (
            self.context_length,
            self.max_model_len,
            self.context_window,
            self.max_context_length,
            meta.get("n_ctx"),
            meta.get("n_ctx_train"),
        )
        return next((tokens for tokens in limits if positive(tokens)), None)


class Rows(msgspec.Struct):
    data: list[Row]


class Limits(msgspec.Struct):
    max_input_tokens: int | None = None
    max_output_tokens: int | None = None


class CatalogRow(msgspec.Struct):
    """One model in the catalogue of GitHub Models."""

    id: str
    limits: Limits | None = None
    supported_input_modalities: list[str] | None = None
    supported_output_modalities: list[str] | None = None


class Tag(msgspec.Struct):
    name: str


class Tags(msgspec.Struct):
    models: list[Tag] | None = None


Page = tuple[list[ModelInfo], str | None]


def read_models(about: Callable[[str], ModelInfo]) -> Callable[[bytes], Page]:
    """A reader of `GET /models`."""

    def read(body: bytes) -> Page:
        found = []
        for row in decode_json(body, Rows).data:
            if any(matches_glob(row.id, pattern) for pattern in NO_CHAT):
                continue
            info = about(row.id)
            if info.context_limit is None and row.limit is not None:
                info = msgspec.structs.replace(info, context_limit=row.limit)
            found.append(info)
        return found, None

    return read


def read_catalog(about: Callable[[str], ModelInfo]) -> Callable[[bytes], Page]:
    """A reader of the catalogue of GitHub Models."""

    def read(body: bytes) -> Page:
        found = []
        for row in decode_json(body, list[CatalogRow]):
            if row.supported_output_modalities is not None and "text" not in row.supported_output_modalities:
                continue
            limits = row.limits or Limits()
            info = msgspec.structs.replace(
                about(row.id),
                context_limit=limits.max_input_tokens,
                output_limit=limits.max_output_tokens,
                vision="image" in (row.supported_input_modalities or ()),
            )
            found.append(info)
        return found, None

    return read


def read_tags(about: Callable[[str], ModelInfo]) -> Callable[[bytes], Page]:
    """A reader of the models an Ollama has fetched."""

    def read(body: bytes) -> Page:
        return [about(tag.name) for tag in decode_json(body, Tags).models or []], None

    return read


NUM_CTX = lazy_pattern(r"^\s*num_ctx\s+(\d+)", re.MULTILINE)


class ModelDetails(msgspec.Struct):
    """What an Ollama says of one model: its own parameters, and what it was trained for."""

    parameters: str = ""
    model_info: dict[str, Any] = {}


def read_details(body: bytes) -> int | None:
    """The limit in an answer of `POST /api/show`: the `num_ctx` the model is run with, else what it was trained for."""
    details = decode_json(body, ModelDetails)
    if found := NUM_CTX.search(details.parameters):
        return int(found[1]) or None
    limits = (tokens for name, tokens in details.model_info.items() if name.endswith(".context_length"))
    return next((tokens for tokens in limits if positive(tokens)), None)
