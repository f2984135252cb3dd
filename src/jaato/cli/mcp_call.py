"""One call made by the person at the terminal: the pipeline's steps, and what the call may show and ask there."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import sys
from pathlib import Path
from typing import Any

from jaato.abc.asker import Clarification
from jaato.cli.asking import reply_to
from jaato.cli.lines import Lines
from jaato.cli.screen import printable, visible
from jaato.errors import ToolError
from jaato.protocol.events import Permission
from jaato.runtime.assemble import policy_for
from jaato.runtime.blueprint import Blueprint
from jaato.settings import Settings
from jaato.tools.call import Call, Outcome, Output
from jaato.tools.catalog import Found
from jaato.tools.control_names import control_names
from jaato.tools.permissions import Decision, Gate
from jaato.tools.tool import Tool


class OneCall:
    """The pipeline's steps for one tool. Who types a call allows it; what a rule denies stays denied."""

    def __init__(self, tool: Tool, settings: Settings, workspace: Path) -> None:
        self._tool = tool
        policy = policy_for(Blueprint(workspace=workspace, yes=True), settings, workspace)
        self._gate = Gate(
            policy,
            workspace=workspace,
            protected=(settings.state_dir, settings.config_dir),
            control_names=control_names(tuple(settings["control_files"])),
        )

    def find(self, name: str) -> Found | None:
        """The one tool."""
        return Found(self._tool, {}) if name == self._tool.name else None

    def refuse(self, tool: Tool, call: Call) -> ToolError | None:
        """Nothing has to be activated first."""
        return None

    async def permit(self, call: Call, tool: Tool) -> Decision | None:
        """Whether a rule denies it."""
        return await self._gate.check(call, tool)

    def started(self, call: Call, tool: Tool, permission: Permission | None) -> None:
        """There is no session to note it in."""

    async def invoke(self, call: Call, tool: Tool) -> Any:
        """Wait for it, however long it takes."""
        return await tool.run(call.arguments, call)

    async def enrich(self, call: Call, tool: Tool, outcome: Outcome) -> Outcome:
        """The result as it is."""
        return outcome

    def ended(self, call: Call, outcome: Outcome) -> None:
        """There is no session to note it in."""

    def interrupts(self, error: BaseException) -> bool:
        """Ctrl-C ends the command."""
        return isinstance(error, (asyncio.CancelledError, KeyboardInterrupt))


class Terminal:
    """What a call shows and asks: progress and questions on stderr, answers from stdin, media kept in memory."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}
        self._lines: Lines | None = None

    def show(self, text: str) -> None:
        """Progress of the call."""
        sys.stderr.write(printable(text))
        sys.stderr.flush()

    def keep(self, data: bytes | Path) -> str:
        """Keep bytes until the command ends; gives their handle."""
        content = data if isinstance(data, bytes) else data.read_bytes()
        handle = hashlib.sha256(content).hexdigest()
        self._kept[handle] = content
        return handle

    async def clarify(self, asked: Clarification) -> list[str | None] | None:
        """Ask the person, a line for each question; None when the input ends before all are answered."""
        self.show(f"{visible(asked.context)}\n" if asked.context else "")
        if self._lines is None:
            self._lines = Lines()
        answers: list[str | None] = []
        for question in asked.questions:
            self.show(shown(question))
            line = await self._lines.read()
            if not sys.stdin.isatty():
                self.show("\n")
            if line is None:
                return None
            answers.append(reply_to(question, line))
        return answers

    def text(self, outcome: Outcome) -> str:
        """The text of a result."""
        value = outcome.value
        if isinstance(value, Output):
            return value.text
        return "" if value is None else str(value)

    def media(self, outcome: Outcome) -> list[dict[str, Any]]:
        """The images and sounds of a result, in base64."""
        value = outcome.value
        if not isinstance(value, Output):
            return []
        return [
            {
                "type": one.mime_type,
                "size_bytes": len(self._kept.get(one.blob, b"")),
                "base64": base64.b64encode(self._kept.get(one.blob, b"")).decode(),
            }
            for one in value.media
        ]


def shown(question: dict[str, Any]) -> str:
    """A question with its choices and the place for the answer."""
    lines = [visible(str(question.get("question", "")))]
    lines += [
        f"  {number}. {visible(str(choice))}"
        for number, choice in enumerate(question.get("choices") or [], 1)
    ]
    default = question.get("default")
    lines.append(f"answer [{visible(str(default))}]: " if default else "answer (empty: no answer): ")
    return "\n".join(lines)
