"""A day's work in one session: 300 turns with a scripted model, three of which give a task to a subagent.

`jaato usage` shows afterwards what it used, `jaato context day` what is in the model's context. The model's replies, token
counts and prices are invented; tools, sessions and subagents are real.
"""

import asyncio
import re
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from jaato import Agent
from jaato.abc.provider import Chunk, ModelRequest, Reply
from jaato.protocol.ids import new_id
from jaato.protocol.messages import Message, Part, Text, ToolCall, Usage
from jaato.protocol.specs import ModelInfo

TURNS = 300
SUBAGENTS = {60: "reviewer", 140: "tester", 220: "writer"}
FILES = ("orders.py", "stock.py", "prices.csv", "notes.md")
CONTEXT_TOKENS = 40_000
SUMMARY = (
    "The user asks about orders, stock and prices. The files were read and searched; nothing was changed."
)


class DayModel:
    """Replies by rule: a subagent reads a few files, the main agent reads, searches or delegates, then answers."""

    name = "scripted"

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """One reply."""
        call: ToolCall | None = None
        if request.purpose != "gc":
            subagent = re.search(r"You are the subagent (\w+)\.", request.system)
            call = self.task_call(request) if subagent else self.main_call(request)
        text = SUMMARY if request.purpose == "gc" else "Done; the details are in the files."
        parts: list[Part] = [call] if call is not None else [Text(text)]
        message = Message("assistant", parts)
        yield Reply(message, "stop" if call is None else "tool_calls", usage_of(request))

    def main_call(self, request: ModelRequest) -> ToolCall | None:
        """The next call of the main agent; None when it answers."""
        if request.messages[-1].role == "tool":
            return None
        asked = [
            message.text
            for message in request.messages
            if message.source == "user" and message.role == "user"
        ]
        turn = int(re.findall(r"number (\d+)", asked[-1])[0])
        if turn == 1:
            return make_call("get_tool_schemas", names=["delegate", "grep_content"])
        if turn in SUBAGENTS:
            return make_call("delegate", task="Check the files and say what is wrong.", name=SUBAGENTS[turn])
        if turn % 3 == 0:
            return make_call("grep_content", pattern=f"item {turn}", path=".")
        return make_call("readFile", path=FILES[turn % len(FILES)])

    def task_call(self, request: ModelRequest) -> ToolCall | None:
        """The next call of a subagent: each file once."""
        done = sum(message.role == "tool" for message in request.messages)
        return make_call("readFile", path=FILES[done]) if done < len(FILES) else None

    def model_info(self, model: str) -> ModelInfo:
        """Two invented models: the main agent's, and a cheaper one."""
        return ModelInfo(
            model, self.name, CONTEXT_TOKENS, price_input=2.0, price_cached_input=0.2, price_output=10.0
        )

    async def models(self) -> list[ModelInfo]:
        """The one it is used as."""
        return [self.model_info("demo-large")]

    async def aclose(self) -> None:
        """Nothing is open."""


def make_call(tool: str, /, **arguments: object) -> ToolCall:
    """A call of a tool."""
    return ToolCall(new_id("c"), tool, arguments)


def usage_of(request: ModelRequest) -> Usage:
    """Invented token counts: nine tenths of the conversation so far are read from the cache."""
    tokens = 1_500 + 40 * len(request.messages)
    return Usage(tokens, 60, cached_input_tokens=tokens * 9 // 10, reasoning_tokens=20)


async def main() -> None:
    """Work through the day."""
    with tempfile.TemporaryDirectory() as workspace:
        for name in FILES:
            lines = [f"{name}: item {number}, {number % 7} left" for number in range(40)]
            (Path(workspace) / name).write_text("\n".join(lines))
        async with Agent(
            provider=DayModel(), model="demo-large", workspace=workspace, name="day", read_only=True
        ) as agent:
            for turn in range(1, TURNS + 1):
                result = await agent.run(f"Next question, number {turn}.")
            print(f"{TURNS} turns, the last one: {result.text}")


if __name__ == "__main__":
    asyncio.run(main())
