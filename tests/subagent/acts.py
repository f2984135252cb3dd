"""Small things many tests of subagents use: tools, traps, and what came of calls."""

from __future__ import annotations

from typing import Any

import anyio
from tests.kit import results

from jaato.abc.provider import ModelRequest
from jaato.agent.session import Session
from jaato.providers.scripted import Step
from jaato.tools.tool import tool


def value(live: Any, number: int = -1) -> Any:
    """What a call of the main agent gave."""
    result = results(live)[number]
    assert result.ok, result.error
    return result.structured


def problem(live: Any, number: int = -1) -> str:
    """What was wrong with a call of the main agent."""
    result = results(live)[number]
    assert result.error is not None
    return result.error.message


@tool(access="read")
async def look() -> str:
    """Look."""
    return "seen"


@tool(access="write")
async def change() -> str:
    """Change."""
    return "changed"


def outcomes(live: Session, name: str) -> list[str]:
    """What the calls of a subagent gave, each as its text or error code."""
    child = next(one for one in live.supervisor.subagents.values() if one.name == name)
    parts: list[Any] = [part for m in child.session.state.messages if m.role == "tool" for part in m.parts]
    return [part.error.code if part.error else "ok" for part in parts]


class Trap:
    """Work that never ends, and knows who is in it."""

    def __init__(self, count: int = 1) -> None:
        self.inside = 0
        self.left = 0
        self.full = anyio.Event()
        self._count = count

    async def speak(self, request: ModelRequest) -> Step:
        """A model that never answers."""
        await self.stay()
        raise AssertionError

    async def stay(self) -> None:
        """Never end."""
        self.inside += 1
        if self.inside >= self._count:
            self.full.set()
        try:
            await anyio.sleep_forever()
        finally:
            self.left += 1


def statuses(live: Session) -> dict[str, str]:
    """Each subagent's status by its name."""
    return {child.name: child.status for child in live.supervisor.subagents.values()}
