"""A client of the server in twenty lines: what the agent says as it comes, and an answer to what it asks."""

import asyncio
from pathlib import Path

from jaato.client import connect
from jaato.events import AgentOutput, PermissionRequested, TurnCompleted


async def main() -> None:
    async with connect(name="my program") as client:
        session = await client.create(Path.cwd(), name="tea")
        with session.events() as events:
            await session.send("Write a note about the tea.")
            async for event in events:
                match event:
                    case AgentOutput(source="model"):
                        print(event.text, end="", flush=True)
                    case PermissionRequested():
                        await session.allow(event.question_id, "c", comment="not today")
                    case TurnCompleted():
                        break
        print(f"\n{session.state.turns} turn, {len(session.state.entries)} entries")


asyncio.run(main())
