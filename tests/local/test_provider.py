"""The embedded provider with a small real model: what it says is always valid, streamed, counted and
stoppable."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import anyio
import jsonschema_rs
import pytest

from jaato.abc.provider import CallDelta, Chunk, ModelRequest, Provider, Reply, TextDelta
from jaato.errors import ContextOverflow, MalformedReply, ServerFault
from jaato.protocol.messages import Message, Text, Thinking, ToolCall, ToolResult
from jaato.protocol.specs import ModelSettings, ToolSpec
from jaato.providers.local.grammar import MAX_STEP_CHARS
from jaato.providers.local.provider import LocalProvider

SHORT = {"type": "string", "maxLength": 12}
TOOLS = (
    ToolSpec(
        "paint",
        "Paint a wall.",
        {
            "type": "object",
            "properties": {
                "colour": {"enum": ["red", "green"]},
                "coats": {"type": "integer", "minimum": 1, "maximum": 3},
                "notes": {"type": "array", "items": SHORT, "maxItems": 2},
            },
            "required": ["colour"],
        },
    ),
    ToolSpec(
        "place",
        "Place a thing.",
        {
            "type": "object",
            "properties": {"at": {"$ref": "#/$defs/Point"}, "what": {"anyOf": [SHORT, {"type": "null"}]}},
            "required": ["at", "what"],
            "$defs": {
                "Point": {
                    "type": "object",
                    "properties": {"x": {"type": "integer"}, "y": {"type": "number"}},
                    "required": ["x", "y"],
                    "additionalProperties": False,
                }
            },
        },
    ),
    ToolSpec("wait", "Wait.", {"type": "object", "properties": {}}),
)


EXAMPLES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("Paint it red.", "paint", {"colour": "red"}),
    ("Place the cup at 1, 2.", "place", {"at": {"x": 1, "y": 2.5}, "what": "cup"}),
    ("Wait.", "wait", {}),
)


def after_examples(text: str, **settings: Any) -> ModelRequest:
    """A request with one user message after a conversation that has shown how each tool is called."""
    said: list[Message] = []
    for asked_for, name, arguments in EXAMPLES:
        said.append(Message("user", [Text(asked_for)]))
        said.append(Message("assistant", [ToolCall("c", name, arguments)]))
        said.append(Message("tool", [ToolResult("c", name, True, [Text("done")])]))
        said.append(Message("assistant", [Text("Done.")]))
    return ModelRequest("m", [*said, Message("user", [Text(text)])], "", TOOLS, ModelSettings(**settings))


def asked(text: str, tools: tuple[ToolSpec, ...] = (), **settings: Any) -> ModelRequest:
    """A request with one user message."""
    return ModelRequest("m", [Message("user", [Text(text)])], "", tools, ModelSettings(**settings))


async def chunks_of(provider: LocalProvider, request: ModelRequest) -> list[Chunk]:
    """Everything one turn brings."""
    return [chunk async for chunk in provider.stream(request)]


def reply_of(chunks: list[Chunk]) -> Reply:
    """The reply at the end."""
    last = chunks[-1]
    assert isinstance(last, Reply)
    return last


def test_it_is_a_provider(provider: LocalProvider) -> None:
    """It fulfils the provider interface and tells the context limit that is really set up."""
    assert isinstance(provider, Provider)
    info = provider.model_info("any")
    assert (info.provider, info.context_limit) == ("local", 2048)
    assert anyio.run(provider.models) == [info]


@pytest.mark.slow
def test_every_turn_is_a_valid_call_or_an_answer(provider: LocalProvider) -> None:
    """However the model is sampled, a turn is a call of a declared tool with arguments of its schema, or
    text."""

    async def main() -> None:
        seen: set[str] = set()
        for text in ("Paint it green.", "Place the chair at 4, 5.", "Wait again."):
            request = after_examples(text, temperature=1.2, max_output_tokens=80)
            reply = reply_of(await chunks_of(provider, request))
            if reply.finish_reason == "length":
                continue
            for part in reply.message.parts:
                match part:
                    case ToolCall(name=name, arguments=arguments):
                        seen.add(name)
                        spec = next(tool for tool in TOOLS if tool.name == name)
                        closed = {**spec.parameters, "additionalProperties": False}
                        assert jsonschema_rs.is_valid(closed, arguments)
                        assert reply.finish_reason == "tool_calls"
                    case Thinking(text=text):
                        assert len(text) <= MAX_STEP_CHARS
                    case _:
                        assert isinstance(part, Text)
                        assert reply.finish_reason == "stop"
        assert seen

    anyio.run(main)


def test_a_call_is_shown_while_it_is_written(provider: LocalProvider) -> None:
    """A call's arguments come in pieces that make up the arguments of the reply's call."""

    async def main() -> None:
        for text in ("Paint it green.", "Paint it red.", "Paint all of it green.") * 4:
            request = after_examples(text, max_output_tokens=80, temperature=1.0)
            chunks = await chunks_of(provider, request)
            calls = reply_of(chunks).message.function_calls
            if calls and calls[0].malformed is None and calls[0].name == "paint":
                pieces = [chunk for chunk in chunks if isinstance(chunk, CallDelta)]
                assert {piece.name for piece in pieces} == {"paint"}
                assert json.loads("".join(piece.arguments for piece in pieces)) == calls[0].arguments
                return
        raise AssertionError("no call in twelve tries")

    anyio.run(main)


def test_an_answer_is_streamed_as_it_is_written(provider: LocalProvider) -> None:
    """The deltas are the answer's own text, without the JSON around it, and together the message."""

    async def main() -> None:
        chunks = await chunks_of(provider, asked("Write two sentences about the sea.", max_output_tokens=25))
        deltas = [chunk.text for chunk in chunks if isinstance(chunk, TextDelta)]
        reply = reply_of(chunks)
        assert len(deltas) > 3
        assert "".join(deltas) == reply.message.text
        assert sum(isinstance(chunk, Reply) for chunk in chunks) == 1
        assert reply.usage is not None
        assert reply.usage.input_tokens > 10
        assert 3 < reply.usage.output_tokens <= 25

    anyio.run(main)


def test_an_answer_of_a_type(provider: LocalProvider) -> None:
    """With a response schema the answer is JSON of that schema."""
    schema = {
        "type": "object",
        "properties": {"sum": {"type": "integer", "maximum": 99, "minimum": 0}, "sure": {"type": "boolean"}},
        "required": ["sum", "sure"],
    }

    async def main() -> None:
        reply = reply_of(await chunks_of(provider, asked("2 + 3?", response_schema=schema)))
        assert jsonschema_rs.is_valid(schema, json.loads(reply.message.text))

    anyio.run(main)


def test_a_cut_answer_says_so(provider: LocalProvider) -> None:
    """An answer that reaches the token limit keeps what was said and ends with `length`."""

    async def main() -> None:
        reply = reply_of(await chunks_of(provider, asked("Tell a long story.", max_output_tokens=20)))
        assert reply.finish_reason == "length"
        assert reply.message.text
        assert reply.usage is not None
        assert reply.usage.output_tokens == 20

    anyio.run(main)


def test_cancelling_stops_the_generation(provider: LocalProvider) -> None:
    """A cancelled turn ends the generation itself, and the engine takes the next turn."""
    long = ToolSpec(
        "write",
        "Write.",
        {
            "type": "object",
            "properties": {"text": {"type": "string", "minLength": 5000}},
            "required": ["text"],
        },
    )
    schema = {"type": "string", "minLength": 5000}  # neither a call nor an answer can end early

    async def main() -> None:
        request = asked("Write very much.", (long,), response_schema=schema)
        heard = 0
        with anyio.CancelScope() as scope:
            async for _chunk in provider.stream(asked("Tell me a very long story.")):
                heard += 1
                if heard == 3:
                    scope.cancel()
        assert heard == 3
        with anyio.move_on_after(0.5):
            async for _chunk in provider.stream(request):
                pass
        with anyio.fail_after(60):
            while provider.busy:
                await anyio.sleep(0.02)
        assert reply_of(await chunks_of(provider, asked("Hi", max_output_tokens=10))).usage is not None

    anyio.run(main)


def test_a_turn_that_waits_can_be_cancelled(provider: LocalProvider) -> None:
    """Turns run one after the other; one that is cancelled while it waits never starts, the others are
    unharmed."""

    async def main() -> None:
        replies: list[Reply] = []

        async def one(text: str) -> None:
            replies.append(reply_of(await chunks_of(provider, asked(text, max_output_tokens=12))))

        async with anyio.create_task_group() as group:
            group.start_soon(one, "First?")
            with anyio.move_on_after(0.05):
                await one("Never?")
            group.start_soon(one, "Third?")
        assert len(replies) == 2

    anyio.run(main)


def test_providers_of_a_model_have_it_in_memory_once(provider: LocalProvider, small_model: Path) -> None:
    """Two providers, as for two sessions, use one engine; one that is closed stops its own turns and refuses others."""
    other = LocalProvider(small_model, context_tokens=2048, threads=1)

    async def main() -> None:
        replies: list[Reply] = []

        async def one(by: LocalProvider, most: int) -> None:
            replies.append(reply_of(await chunks_of(by, asked("Tell a story.", max_output_tokens=most))))

        async def stopped() -> None:
            with pytest.raises(MalformedReply, match="middle of its turn"):
                await one(other, 2000)

        await one(provider, 3)
        await one(other, 3)
        assert [thread.name for thread in threading.enumerate()].count("jaato-local-model") == 1
        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(stopped)
                while not other.busy:
                    await anyio.sleep(0.001)
                group.start_soon(one, provider, 12)
                await other.aclose()
        assert [other.busy, provider.busy] == [False, False]
        assert len(replies) == 3
        with pytest.raises(ServerFault, match="closed"):
            await one(other, 3)
        await other.aclose()
        await one(provider, 3)

    anyio.run(main)


def test_overflow_is_told_before_anything_is_read(provider: LocalProvider) -> None:
    """A conversation longer than the window raises `ContextOverflow` with both numbers; the next turn
    works."""

    async def main() -> None:
        with pytest.raises(ContextOverflow, match="2048"):
            await chunks_of(provider, asked("word " * 5000))
        with pytest.raises(ContextOverflow):
            await chunks_of(provider, asked("word " * 1850))
        reply_of(await chunks_of(provider, asked("Hi", max_output_tokens=5)))

    anyio.run(main)


def test_the_conversation_so_far_is_not_read_again(provider: LocalProvider) -> None:
    """The second turn of a conversation finds the first one in the engine's memory."""

    async def main() -> None:
        first = asked("Name a colour.", TOOLS, max_output_tokens=40)
        reply = reply_of(await chunks_of(provider, first))
        messages = [*first.messages, reply.message, Message("user", [Text("Another one.")])]
        second = ModelRequest(
            "m", messages, "", TOOLS, ModelSettings(max_output_tokens=5), encoded=first.encoded
        )
        usage = reply_of(await chunks_of(provider, second)).usage
        before = reply.usage
        assert usage is not None
        assert before is not None
        assert usage.cached_input_tokens >= before.input_tokens - 5

    anyio.run(main)
