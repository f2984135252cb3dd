"""What the tests of waypoints in a session share: who answers, what calls returned, what the user types."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.kit import call, results

from jaato.abc.asker import Answer, Question
from jaato.agent.session import Session
from jaato.protocol.messages import Text, ToolResult
from jaato.tools.permissions.gate import Policy

S4 = pytest.mark.spec("S4", "11. Waypoints with Shared Ownership")
C7 = pytest.mark.spec("C7", "Context, sessions, enrichment")
PLUGINS = ("introspection", "file_edit", "waypoint", "session", "permission")
NAMES = ["create_waypoint", "restore_waypoint", "delete_waypoint", "list_waypoints", "waypoint_info"]
FILES = ["writeNewFile", "updateFile", "removeFile", "moveFile", "askPermission"]
ACTIVATE = call("get_tool_schemas", names=[*NAMES, *FILES])


class User:
    """Answers permission questions and keeps them."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.questions: list[Question] = []

    def ask(self, question: Question) -> Answer | None:
        """The next answer; None when there is none left."""
        self.questions.append(question)
        return Answer(answer=self.answers.pop(0), by="user") if self.answers else None


def asking(user: User, **document: Any) -> dict[str, Any]:
    """A session whose user is asked about what writes, but not about the file tools."""
    document = {"whitelist": {"tools": FILES}} | document
    return {"policy": Policy.of(document), "asker": user}


def data(result: ToolResult) -> Any:
    """What a tool returned."""
    assert result.ok, result.error
    text = "".join(part.text for part in result.content if isinstance(part, Text))
    return result.structured if result.structured is not None else json.loads(text)


async def typed(live: Session, line: str) -> str:
    """What the user's command says."""
    said = await live.run_command("waypoint", line)
    assert isinstance(said, str)
    return said


async def turn(live: Session) -> list[ToolResult]:
    """Run a turn; the results of its calls."""
    before = len(results(live))
    await live.post("go on")
    return results(live)[before:]
