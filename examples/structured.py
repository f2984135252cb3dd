"""An answer in the program's own types."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from jaato import Agent


@dataclass
class Task:
    """One task of the list."""

    text: str
    urgency: Literal["normal", "urgent"]


def main() -> None:
    """Read the to-do list of the shop as objects."""
    agent = Agent(workspace=Path(__file__).parent / "shop", read_only=True)
    result = agent.run_sync("List the tasks in todo.txt.", output_type=list[Task])
    for task in result.data:
        print(f"{task.urgency:<8}{task.text}")


if __name__ == "__main__":
    main()
