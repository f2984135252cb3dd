"""Encodes requests of the Anthropic Messages API: tools, thinking, prompt cache breakpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jaato.abc.provider import ModelRequest
from jaato.protocol.specs import ModelSettings, ToolSpec
from jaato.providers.anthropic.messages import AnthropicConversation, with_cache_breakpoint
from jaato.providers.anthropic.models import (
    default_max_tokens,
    supports_references,
    takes_temperature,
    thought,
)
from jaato.providers.anthropic.stream import DIALECT, MessagesDecoder
from jaato.providers.wire_encoding import encode_json, encode_once, original_names, wire_name

VERSION = "2023-06-01"
"""The API version that still takes a temperature, and the one that servers resembling Anthropic's know.

Nothing else we send is refused by the version that followed it, 2026-10-21.
"""
BUDGETS = {"low": 2_048, "medium": 8_192, "high": 24_576}
LEAST_BUDGET = 1_024
EFFORTS = {"minimal": "low", "low": "low", "medium": "medium", "high": "high"}
ANNOTATIONS = ("description", "title", "default")


class AnthropicDialect:
    """Uses `POST /v1/messages`.

    `deferred` declares tools that were activated in mid-conversation as deferred and refers to them from the
    activation's result, which keeps the cached prefix whole. Servers that only resemble Anthropic's do not
    know it, so there they are appended to the tool list. `cache` sets breakpoints for the prompt cache.
    """

    name = DIALECT
    provider = "anthropic"

    def __init__(self, *, cache: bool = True, deferred: bool = False) -> None:
        self._cache = cache
        self._deferred = deferred

    def path(self, request: ModelRequest) -> str:
        """The path of the streaming call."""
        return "/v1/messages"

    def headers(self, key: str | None) -> Mapping[str, str]:
        """The API version and the key."""
        return {"anthropic-version": VERSION} | ({"x-api-key": key} if key else {})

    def encode(self, request: ModelRequest) -> bytes:
        """The request body; tools, system prompt and past messages keep their bytes from call to call."""
        deferrable = {wire_name(tool.name) for tool in request.tools if tool.discoverability != "core"}
        transcript = self._get_transcript(request, deferrable)
        messages = transcript.messages(request.read_blob, deferrable, cache=self._cache)
        fields = settings_fields(request.model, request.settings, may_think=transcript.may_think)
        body = [b'{"model":%s,"stream":true' % encode_json(request.model)]
        body += [b',"%s":%s' % (name.encode(), encode_json(value)) for name, value in fields.items()]
        if request.tools:
            body.append(b',"tools":[%s]' % self._encode_tools(request, transcript))
        if request.system.strip():
            block = b'{"type":"text","text":%s}' % encode_json(request.system)
            body.append(b',"system":[%s]' % (with_cache_breakpoint(block) if self._cache else block))
        body.append(b',"messages":[%s]}' % messages)
        return b"".join(body)

    def decoder(self, request: ModelRequest) -> MessagesDecoder:
        """A reader for the answer to this request."""
        return MessagesDecoder(self.provider, request.model, original_names(request.tools))

    def _get_transcript(self, request: ModelRequest, deferrable: set[str]) -> AnthropicConversation:
        references = self._deferred and supports_references(request.model)
        kept = request.encoded.get(DIALECT)
        if (
            isinstance(kept, AnthropicConversation)
            and kept.references == references
            and kept.loaded <= deferrable
            and kept.follow(request.messages)
        ):
            return kept
        transcript = request.encoded[DIALECT] = AnthropicConversation(references=references)
        transcript.follow(request.messages)
        return transcript

    def _encode_tools(self, request: ModelRequest, transcript: AnthropicConversation) -> bytes:
        blocks = encode_once(request.encoded, (DIALECT, "tools"), request.tools, declaration)
        core = [tool.discoverability for tool in request.tools].count("core") if self._cache else 0
        encoded = []
        for tool, block in zip(request.tools, blocks, strict=True):
            if tool.discoverability == "core":
                core -= 1
                transcript.plain.add(wire_name(tool.name))
                encoded.append(with_cache_breakpoint(block) if core == 0 else block)
            elif wire_name(tool.name) in transcript.loaded:
                encoded.append(block[:-1] + b',"defer_loading":true}')
            else:
                transcript.plain.add(wire_name(tool.name))
                encoded.append(block)
        return b",".join(encoded)


def declaration(tool: ToolSpec) -> bytes:
    """A tool as the API wants it declared."""
    schema = {name: part for name, part in tool.parameters.items() if name not in ("oneOf", "anyOf", "allOf")}
    fields = {
        "name": wire_name(tool.name),
        "description": tool.description,
        "input_schema": schema | {"type": "object"},
    }
    return encode_json({name: value for name, value in fields.items() if value})


def settings_fields(model: str, settings: ModelSettings, *, may_think: bool) -> dict[str, Any]:
    """How to sample, in the form the model's generation takes; what it would refuse is left out."""
    max_tokens = settings.max_output_tokens or default_max_tokens(model)
    fields: dict[str, Any] = {"max_tokens": max_tokens}
    output: dict[str, Any] = {}
    effort, way = settings.effort, thought(model)
    if effort is not None and way == "adaptive":
        output["effort"] = EFFORTS[effort]
        if effort != "minimal":
            fields["thinking"] = {"type": "adaptive"} | (
                {} if takes_temperature(model) else {"display": "summarized"}
            )
    elif effort in BUDGETS and way == "budget" and may_think and max_tokens >= 2 * LEAST_BUDGET:
        budget = min(BUDGETS[effort], max_tokens - LEAST_BUDGET)
        fields["thinking"] = {"type": "enabled", "budget_tokens": budget}
    if settings.temperature is not None and takes_temperature(model) and "thinking" not in fields:
        fields["temperature"] = min(max(settings.temperature, 0.0), 1.0)
    if stop := [text for text in settings.stop or () if text.strip()]:
        fields["stop_sequences"] = stop
    if settings.response_schema is not None:
        output["format"] = {"type": "json_schema", "schema": strict_schema(settings.response_schema)}
    if output:
        fields["output_config"] = output
    return fields


KEPT = ("$ref", "type", "enum", "const", "required", *ANNOTATIONS)
FORMATS = ("date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid")


def strict_schema(schema: Any) -> dict[str, Any]:
    """The part of a JSON Schema that constrained output knows; objects are closed, other limits become words.

    The caller checks the answer against the whole schema.
    """
    if not isinstance(schema, dict):
        return {}
    strict: dict[str, Any] = {name: schema[name] for name in KEPT if name in schema}
    for name in ("$defs", "definitions", "properties"):
        if isinstance(schema.get(name), dict):
            strict[name] = {key: strict_schema(part) for key, part in schema[name].items()}
    for name, to in (("anyOf", "anyOf"), ("oneOf", "anyOf"), ("allOf", "allOf")):
        if isinstance(schema.get(name), list):
            strict[to] = [strict_schema(part) for part in schema[name]]
    if isinstance(schema.get("items"), dict):
        strict["items"] = strict_schema(schema["items"])
    if schema.get("type") == "object" or "properties" in schema:
        strict["additionalProperties"] = False
    if schema.get("format") in FORMATS:
        strict["format"] = schema["format"]
    if schema.get("minItems") in (0, 1):
        strict["minItems"] = schema["minItems"]
    known = (*strict, "$schema", "$id", "oneOf", "additionalProperties", "items")
    lost = {name: part for name, part in schema.items() if name not in known}
    if lost:
        words = encode_json(lost).decode()
        strict["description"] = f"{strict['description']} {words}" if strict.get("description") else words
    return strict
