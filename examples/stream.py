"""Every event of a turn as it happens."""

import asyncio
from pathlib import Path

from jaato import Agent
from jaato.events import AgentOutput, ToolCallEnd, ToolCallStart, TurnCompleted


async def main() -> None:
    """Tell what an agent does while it does it."""
    async with Agent(workspace=Path(__file__).parent / "shop", read_only=True) as agent:
        async for event in agent.stream("What is the most urgent task in todo.txt?"):
            match event:
                case ToolCallStart():
                    print(f"-> {event.tool} {event.arguments}")
                case ToolCallEnd():
                    print(f"<- {'ok' if event.result.ok else event.result.error}")
                case AgentOutput(source="model"):
                    print(event.text, end="", flush=True)
                case TurnCompleted():
                    print(f"\n{event.reason}; replies: {event.model_calls}, calls: {event.tool_calls}")


if __name__ == "__main__":
    asyncio.run(main())
