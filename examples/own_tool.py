"""A tool with typed parameters, progress while it runs, and a permission question the program answers."""

import asyncio
import csv
from pathlib import Path
from typing import Annotated

from jaato import Agent, Call, tool
from jaato.events import PermissionRequested

SHOP = Path(__file__).parent / "shop"


@tool(access="read")
def shortages(
    minimum: Annotated[int, "count below which an item is short"] = 5, *, call: Call
) -> dict[str, int]:
    """Find the items of the stock that are short, with their counts."""
    found = {}
    with (Path(call.workspace) / "stock.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            call.output(f"looking at {row['item']}\n")
            if int(row["count"]) < minimum:
                found[row["item"]] = int(row["count"])
    return found


def decide(question: PermissionRequested) -> str:
    """Let it look at anything, and write nothing: the examples stay as they are."""
    print(f"denied: {question.tool}")
    return "n"


async def main() -> None:
    """Ask one question about the shop."""
    async with Agent(tools=[shortages], workspace=SHOP, on_permission=decide) as agent:
        result = await agent.run("Which items are short? Note them in short.txt.")
        print(result.text)


if __name__ == "__main__":
    asyncio.run(main())
