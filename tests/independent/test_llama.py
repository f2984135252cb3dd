"""Three dialects before llama.cpp's server: it renders the same prompt from each, token for token."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.independent.clients import TOOL
from tests.independent.running import KEY
from tests.local.conftest import shallow_model as shallow_model
from tests.local.conftest import small_model as small_model

from jaato.abc.provider import ModelRequest, Reply
from jaato.protocol.messages import Message, Text, ToolCall, ToolResult
from jaato.protocol.specs import ModelSettings, ToolSpec
from jaato.providers.profiles import make_provider
from jaato.settings import environment

PROGRAM = Path(__file__).with_name("llama_server.py")
TALK = [
    Message("user", [Text("What do both say?")]),
    Message(
        "assistant",
        [
            Text("I look at both."),
            ToolCall("call_a", "look", {"path": "a", "deep": [1, None, {"x": "ß"}]}),
            ToolCall("call_b", "look", {"path": "b"}),
        ],
    ),
    Message(
        "tool",
        [
            ToolResult("call_a", "look", ok=True, content=[Text("alpha\n\nand more")]),
            ToolResult("call_b", "look", ok=True, content=[Text("beta")]),
        ],
    ),
    Message("assistant", [Text("Alpha and beta.")]),
    Message("user", [Text("Say it again.")]),
]
CALLS = [TALK[0], Message("assistant", TALK[1].parts[1:]), TALK[2]]
"""The same without what the model said: llama.cpp reads no spoken assistant message of responses in its short form."""

SHORT = ModelSettings(max_output_tokens=8, temperature=0)
TOOLS = (TOOL, ToolSpec("now", "The time.", {"type": "object", "properties": {}}))


@pytest.fixture(scope="module")
def url(shallow_model: Path) -> Iterator[str]:
    """Where llama.cpp listens, with the first layers of a small real model."""
    process = subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", sys.executable, "-P", str(PROGRAM), str(shallow_model), KEY],
        env={"PATH": environment()["PATH"]},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    with process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            os.killpg(process.pid, signal.SIGKILL)


async def ask(url: str, name: str, interface: Any, talk: list[Message]) -> Reply:
    """What the model replies to a conversation in one dialect."""
    base_url = url if name == "anthropic" else f"{url}/v1"
    provider = make_provider(name, environ={}, base_url=base_url, api_key=KEY, interface=interface)
    request = ModelRequest("m", talk, system="Be brief.", tools=TOOLS, settings=SHORT)
    try:
        (reply,) = [chunk async for chunk in provider.stream(request) if isinstance(chunk, Reply)]
    finally:
        await provider.aclose()
    return reply


@pytest.mark.parametrize(
    ("talk", "others"),
    [(TALK, [("anthropic", "auto")]), (CALLS, [("anthropic", "auto"), ("openai", "responses")])],
    ids=["spoken", "calls"],
)
def test_one_prompt_from_each_dialect(url: str, talk: list[Message], others: list[tuple[str, str]]) -> None:
    """Tools, calls, their ids and results reach the model alike: a dialect finds all of another's prompt cached."""

    async def main() -> tuple[Reply, list[Reply]]:
        first = await ask(url, "openai", "chat", talk)
        return first, [await ask(url, *other, talk) for other in others]

    chat, replies = anyio.run(main)
    assert chat.usage is not None
    assert chat.usage.input_tokens > 100
    for reply in replies:
        assert reply.usage is not None
        assert reply.usage.input_tokens == chat.usage.input_tokens
        assert reply.usage.cached_input_tokens == chat.usage.input_tokens - 1
        assert reply.message.text == chat.message.text != ""
