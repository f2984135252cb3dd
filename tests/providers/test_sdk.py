"""The vendors' own clients against the same server: they ask in the same place and read the same answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import msgspec
from tests.providers.server import Received, Server, serve, stream

from jaato.abc.provider import ModelRequest, Reply
from jaato.protocol.messages import Message, Text, Thinking, ToolCall
from jaato.providers.profiles import make_provider

GOLDEN = Path(__file__).parent / "golden"
ASK = [Message("user", [Text("hi")])]


async def ours(name: str, server: Server, model: str) -> Reply:
    """Our reply from a server."""
    variables = {"anthropic": "ANTHROPIC", "google_genai": "GEMINI"}
    provider = make_provider(name, environ={f"{variables[name]}_API_KEY": "sk-1"}, base_url=server.url)
    try:
        chunks = [chunk async for chunk in provider.stream(ModelRequest(model, ASK))]
    finally:
        await provider.aclose()
    assert isinstance(chunks[-1], Reply)
    return chunks[-1]


def place(seen: Received) -> tuple[str, str]:
    """Where a request went; the clients follow another version of the same path."""
    return seen.method, seen.path.replace("/v1beta/", "/v1/")


def test_anthropics_client_reads_the_same() -> None:
    """Path, thoughts, text, calls and usage agree with those of the vendor's client."""
    golden = (GOLDEN / "anthropic_thinking_parallel.sse").read_bytes()

    async def main() -> tuple[Any, Reply, list[Received]]:
        import anthropic
        import httpx2

        async with serve(stream(golden), stream(golden)) as server:
            http = httpx2.AsyncClient(trust_env=False)
            async with anthropic.AsyncAnthropic(
                api_key="sk-1", base_url=server.url, http_client=http
            ) as client:
                asked: Any = {"model": "claude-opus-5-5", "max_tokens": 32_000}
                asked["messages"] = [{"role": "user", "content": "hi"}]
                async with client.messages.stream(**asked) as theirs:
                    final = await theirs.get_final_message()
            return final, await ours("anthropic", server, "claude-opus-5-5"), server.requests

    final, reply, (first, second) = anyio.run(main)
    assert place(first) == place(second)
    read: list[Any] = []
    for part in reply.message.parts:
        match part:
            case Thinking(opaque=opaque) if opaque is not None:
                read.append(msgspec.json.decode(opaque.data))
            case Text(text=text):
                read.append({"type": "text", "text": text})
            case ToolCall():
                fields = {"id": part.provider_id, "name": part.name, "input": part.arguments}
                read.append({"type": "tool_use", **fields})
    wanted = [block.model_dump(exclude_none=True) for block in final.content]
    for block in wanted:
        block.pop("caller", None)
    assert read == wanted
    usage = final.usage
    assert reply.usage is not None
    assert reply.usage.output_tokens == usage.output_tokens
    assert reply.usage.cached_input_tokens == usage.cache_read_input_tokens
    parts = (usage.input_tokens, usage.cache_read_input_tokens, usage.cache_creation_input_tokens)
    assert reply.usage.input_tokens == sum(parts)


def test_googles_client_reads_the_same() -> None:
    """Path, key, thoughts, text, calls and usage agree with those of the vendor's client."""
    golden = (GOLDEN / "gemini_thinking_parallel.sse").read_bytes()

    async def main() -> tuple[list[Any], Reply, list[Received]]:
        from google import genai
        from google.genai import types

        async with serve(stream(golden), stream(golden)) as server:
            options = types.HttpOptions(base_url=server.url, client_args={"trust_env": False})
            client = genai.Client(api_key="sk-1", http_options=options)
            theirs = await client.aio.models.generate_content_stream(model="gemini-3.1-pro", contents="hi")
            seen = [answer async for answer in theirs]
            await client.aio.aclose()
            client.close()
            return seen, await ours("google_genai", server, "gemini-3.1-pro"), server.requests

    seen, reply, (first, second) = anyio.run(main)
    assert place(first) == place(second)
    assert first.headers["x-goog-api-key"] == second.headers["x-goog-api-key"]
    parts = [part for answer in seen for part in answer.candidates[0].content.parts]
    assert "".join(part.text or "" for part in parts if not part.thought) == reply.message.text
    thoughts = "".join(part.text for part in reply.message.parts if isinstance(part, Thinking))
    assert "".join(part.text or "" for part in parts if part.thought) == thoughts
    theirs = [part.function_call for part in parts if part.function_call]
    mine = reply.message.function_calls
    assert [(call.name, call.args, call.id) for call in theirs] == [
        (call.name, call.arguments, call.provider_id) for call in mine
    ]
    usage = seen[-1].usage_metadata
    assert reply.usage is not None
    assert reply.usage.input_tokens == usage.prompt_token_count
    assert reply.usage.output_tokens == usage.candidates_token_count + usage.thoughts_token_count
    assert reply.usage.cached_input_tokens == usage.cached_content_token_count
