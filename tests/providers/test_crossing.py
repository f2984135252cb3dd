"""Any history can be said in every dialect, whatever it went through before."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.providers.histories import TOOLS, check_anthropic, check_gemini, check_openai, histories, read_blob

from jaato.abc.provider import ModelRequest
from jaato.protocol.messages import Message
from jaato.protocol.specs import ModelSettings
from jaato.providers.anthropic.dialect import AnthropicDialect
from jaato.providers.dialect import Dialect
from jaato.providers.google_genai.dialect import GeminiDialect
from jaato.providers.openai.chat import OpenAIChat
from jaato.providers.openai.responses import OpenAIResponses

QUICK = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
choices = st.builds(
    ModelSettings,
    temperature=st.sampled_from([None, 0.0, 1.7]),
    max_output_tokens=st.sampled_from([None, 64, 100_000]),
    effort=st.sampled_from([None, "minimal", "low", "medium", "high"]),
    stop=st.sampled_from([None, ["END", " ", ""]]),
    response_schema=st.sampled_from([None, {"type": "object", "properties": {"a": {"type": "integer"}}}]),
)
openai_choices = choices.map(lambda chosen: msgspec.structs.replace(chosen, stop=None))
OPENAI: list[OpenAIChat | OpenAIResponses] = [OpenAIChat(), OpenAIResponses()]
SPOKEN: list[tuple[Dialect, str]] = [
    (AnthropicDialect(), "claude-opus-4-5"),
    (AnthropicDialect(deferred=True), "claude-opus-5"),
    (GeminiDialect(), "gemini-3"),
    (GeminiDialect(), "gemini-2.5-pro"),
    (OpenAIChat(), "m"),
    (OpenAIResponses(), "m"),
]
claudes = st.sampled_from(["claude-opus-5-5", "claude-haiku-4-5-20251001", "claude-3-5-haiku", "some-model"])
geminis = st.sampled_from(["gemini-3.1-pro", "gemini-2.5-flash", "gemini-flash-latest", "gemini-2.0-flash"])


@pytest.mark.spec("C6", "Providers and types (S3)")
@QUICK
@given(histories, choices, claudes, st.booleans())
def test_any_history_is_an_anthropic_request(
    history: list[Message], sampling: ModelSettings, model: str, deferred: bool
) -> None:
    """Every history, however broken, becomes a request the vendor's types take, each call answered once."""
    request = ModelRequest(model, history, "Be brief.", TOOLS, sampling, read_blob=read_blob)
    check_anthropic(AnthropicDialect(deferred=deferred).encode(request))


@pytest.mark.spec("C6", "Providers and types (S3)")
@QUICK
@given(histories, choices, geminis)
def test_any_history_is_a_gemini_request(history: list[Message], sampling: ModelSettings, model: str) -> None:
    """Every history, however broken, becomes contents the vendor's types take, each call answered once."""
    request = ModelRequest(model, history, "Be brief.", TOOLS, sampling, read_blob=read_blob)
    check_gemini(GeminiDialect().encode(request))


@pytest.mark.spec("C6", "Providers and types (S3)")
@pytest.mark.parametrize("dialect", OPENAI, ids=["chat", "responses"])
@QUICK
@given(histories, openai_choices, st.sampled_from(["gpt-5.5", "gpt-4.1", "qwen3:8b"]))
def test_any_history_is_an_openai_request(
    dialect: OpenAIChat | OpenAIResponses, history: list[Message], sampling: ModelSettings, model: str
) -> None:
    """Every history, however broken, becomes messages the vendor's types take, each call answered once."""
    request = ModelRequest(model, history, "Be brief.", TOOLS, sampling, read_blob=read_blob)
    check_openai(dialect.name, dialect.encode(request))


@QUICK
@given(histories, st.integers(0, 7))
def test_a_growing_history_is_said_as_if_at_once(history: list[Message], cut: int) -> None:
    """A conversation encoded as it grew gives the same bytes as one encoded whole."""
    for dialect, model in SPOKEN[:1] + SPOKEN[2:]:
        grown = ModelRequest(model, history[:cut], "s", TOOLS, read_blob=read_blob)
        dialect.encode(grown)
        again = ModelRequest(model, history, "s", TOOLS, read_blob=read_blob, encoded=grown.encoded)
        assert dialect.encode(again) == dialect.encode(
            ModelRequest(model, history, "s", TOOLS, read_blob=read_blob)
        )


@QUICK
@given(histories, histories)
def test_a_rewritten_history_starts_anew(before: list[Message], after: list[Message]) -> None:
    """A compacted or edited conversation is said as it is now, whatever was kept of the old one."""
    for dialect, model in SPOKEN:
        old = ModelRequest(model, before, "s", TOOLS, read_blob=read_blob)
        dialect.encode(old)
        new = ModelRequest(model, after, "s", TOOLS, read_blob=read_blob, encoded=old.encoded)
        assert dialect.encode(new) == dialect.encode(
            ModelRequest(model, after, "s", TOOLS, read_blob=read_blob)
        )


@QUICK
@given(histories, st.integers(0, 7))
def test_a_tool_stays_declared_as_it_was(history: list[Message], cut: int) -> None:
    """With deferral a growing conversation stays valid, and no declaration ever changes."""
    dialect = AnthropicDialect(deferred=True)
    first = ModelRequest("claude-opus-5-5", history[:cut], "s", TOOLS, read_blob=read_blob)
    before = check_anthropic(dialect.encode(first))
    again = ModelRequest("claude-opus-5-5", history, "s", TOOLS, read_blob=read_blob, encoded=first.encoded)
    assert check_anthropic(dialect.encode(again))["tools"] == before["tools"]
