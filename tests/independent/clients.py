"""The same two requests through the vendors' own clients and through ours: ask, then give back what the calls gave."""

from __future__ import annotations

import json
from typing import Any, NamedTuple, cast

from tests.independent.running import KEY, Dialect

from jaato.abc.provider import ModelRequest, Reply
from jaato.protocol.messages import Message, Part, Text, ToolResult
from jaato.protocol.specs import ToolSpec
from jaato.providers.profiles import make_provider

QUESTION = "What do both say?"
PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
}
TOOL = ToolSpec("look", "Look into a file.", PARAMETERS)
ANSWERS = ("alpha", "beta")


class Reading(NamedTuple):
    """What a client read of a reply."""

    text: str
    calls: list[tuple[str | None, str, dict[str, Any]]]
    tokens: tuple[int, int]
    finish: str


async def ours(dialect: Dialect, url: str) -> Reading:
    """Our provider."""
    provider = make_provider(
        dialect.provider,
        environ={},
        base_url=f"{url}/v1" if dialect.provider == "openai" else url,
        api_key=KEY,
        interface="responses" if dialect.name == "responses" else "auto",
    )

    async def ask(messages: list[Message]) -> Reply:
        request = ModelRequest(dialect.model, messages, tools=[TOOL])
        (reply,) = [chunk async for chunk in provider.stream(request) if isinstance(chunk, Reply)]
        return reply

    try:
        messages = [Message("user", [Text(QUESTION)])]
        reply = await ask(messages)
        calls = reply.message.function_calls
        results: list[Part] = [
            ToolResult(call.call_id, call.name, ok=True, content=[Text(answer)])
            for call, answer in zip(calls, ANSWERS, strict=True)
        ]
        await ask([*messages, reply.message, Message("tool", results)])
    finally:
        await provider.aclose()
    assert reply.usage is not None
    return Reading(
        reply.message.text,
        [(call.provider_id, call.name, call.arguments) for call in calls],
        (reply.usage.input_tokens, reply.usage.output_tokens),
        reply.finish_reason,
    )


async def theirs(dialect: Dialect, url: str) -> Reading:
    """The vendor's client."""
    match dialect.name:
        case "chat":
            return await chat(dialect.model, url)
        case "responses":
            return await responses(dialect.model, url)
        case "anthropic":
            return await anthropic(dialect.model, url)
    return await gemini(dialect.model, url)


async def chat(model: str, url: str) -> Reading:
    """OpenAI's client, chat completions."""
    import httpx2
    import openai

    tool = {"name": TOOL.name, "description": TOOL.description, "parameters": PARAMETERS}
    fixed: Any = {"model": model, "tools": [{"type": "function", "function": tool}]}
    http = httpx2.AsyncClient(trust_env=False)
    async with openai.AsyncOpenAI(api_key=KEY, base_url=f"{url}/v1", http_client=http) as client:
        messages: list[Any] = [{"role": "user", "content": QUESTION}]
        asked = client.chat.completions.stream(
            messages=messages, stream_options={"include_usage": True}, **fixed
        )
        async with asked as stream:
            final = await stream.get_final_completion()
        (choice,) = final.choices
        calls = choice.message.tool_calls or []
        messages.append(choice.message.model_dump(exclude_none=True))
        for call, answer in zip(calls, ANSWERS, strict=True):
            messages.append({"role": "tool", "tool_call_id": call.id, "content": answer})
        await client.chat.completions.create(messages=messages, **fixed)
    assert final.usage is not None
    return Reading(
        choice.message.content or "",
        [(call.id, call.function.name, json.loads(call.function.arguments)) for call in calls],
        (final.usage.prompt_tokens, final.usage.completion_tokens),
        choice.finish_reason,
    )


async def responses(model: str, url: str) -> Reading:
    """OpenAI's client, responses."""
    import httpx2
    import openai

    tool = {"type": "function", "name": TOOL.name, "description": TOOL.description, "parameters": PARAMETERS}
    fixed: Any = {"model": model, "tools": [tool], "store": False}
    http = httpx2.AsyncClient(trust_env=False)
    async with openai.AsyncOpenAI(api_key=KEY, base_url=f"{url}/v1", http_client=http) as client:
        items: list[Any] = [{"role": "user", "content": QUESTION}]
        async with client.responses.stream(input=items, **fixed) as stream:
            final = await stream.get_final_response()
        calls = [item for item in final.output if item.type == "function_call"]
        items.extend(
            item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in final.output
        )
        for call, answer in zip(calls, ANSWERS, strict=True):
            items.append({"type": "function_call_output", "call_id": call.call_id, "output": answer})
        await client.responses.create(input=items, **fixed)
    assert final.usage is not None
    return Reading(
        final.output_text,
        [(call.call_id, call.name, json.loads(call.arguments)) for call in calls],
        (final.usage.input_tokens, final.usage.output_tokens),
        str(final.status),
    )


async def anthropic(model: str, url: str) -> Reading:
    """Anthropic's client."""
    import anthropic
    import httpx2

    tool = {"name": TOOL.name, "description": TOOL.description, "input_schema": PARAMETERS}
    fixed: Any = {"model": model, "max_tokens": 8_000, "tools": [tool]}
    http = httpx2.AsyncClient(trust_env=False)
    async with anthropic.AsyncAnthropic(api_key=KEY, base_url=url, http_client=http) as client:
        messages: list[Any] = [{"role": "user", "content": QUESTION}]
        async with client.messages.stream(messages=messages, **fixed) as stream:
            final = await stream.get_final_message()
        calls = [block for block in final.content if block.type == "tool_use"]
        results = [
            {"type": "tool_result", "tool_use_id": call.id, "content": answer}
            for call, answer in zip(calls, ANSWERS, strict=True)
        ]
        messages.append({"role": "assistant", "content": final.content})
        messages.append({"role": "user", "content": results})
        await client.messages.create(messages=messages, **fixed)
    return Reading(
        "".join(block.text for block in final.content if block.type == "text"),
        [(call.id, call.name, cast("dict[str, Any]", call.input)) for call in calls],
        (final.usage.input_tokens, final.usage.output_tokens),
        str(final.stop_reason),
    )


async def gemini(model: str, url: str) -> Reading:
    """Google's client."""
    from google import genai
    from google.genai import types

    options = types.HttpOptions(base_url=url, api_version="v1beta", client_args={"trust_env": False})
    client = genai.Client(api_key=KEY, http_options=options)
    declared = types.FunctionDeclaration(
        name=TOOL.name, description=TOOL.description, parameters_json_schema=PARAMETERS
    )
    config = types.GenerateContentConfig(tools=[types.Tool(function_declarations=[declared])])
    contents: list[Any] = [types.Content(role="user", parts=[types.Part(text=QUESTION)])]
    asked = await client.aio.models.generate_content_stream(model=model, contents=contents, config=config)
    seen: list[Any] = [answer async for answer in asked]
    parts = [part for answer in seen for part in answer.candidates[0].content.parts]
    calls = [part.function_call for part in parts if part.function_call]
    contents.append(types.Content(role="model", parts=parts))
    results = [
        types.Part(
            function_response=types.FunctionResponse(id=call.id, name=call.name, response={"output": answer})
        )
        for call, answer in zip(calls, ANSWERS, strict=True)
    ]
    contents.append(types.Content(role="user", parts=results))
    await client.aio.models.generate_content(model=model, contents=contents, config=config)
    await client.aio.aclose()
    client.close()
    usage = seen[-1].usage_metadata
    return Reading(
        "".join(part.text or "" for part in parts),
        [(call.id, call.name, call.args) for call in calls],
        (usage.prompt_token_count, usage.candidates_token_count),
        seen[-1].candidates[0].finish_reason.value,
    )
