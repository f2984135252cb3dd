"""One call made by the person at the terminal: the pipeline's steps, what the call may show and ask there, and how it went."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from jaato.abc.asker import Clarification
from jaato.cli.ending import DENIED, ERROR, OK, USAGE, say
from jaato.cli.output.tables import print_json, print_line
from jaato.cli.output.terminal import printable, visible
from jaato.cli.repl.questions import reply_to
from jaato.cli.repl.terminal_input import Lines
from jaato.cli.sources.sources import SourceCommands
from jaato.errors import ConfigError, ToolError
from jaato.protocol.events import Permission
from jaato.protocol.ids import new_id
from jaato.runtime.policy_setup import policy_for
from jaato.runtime.session_options import SessionOptions
from jaato.settings import Settings
from jaato.tools.call import Call, Outcome, Output, no_output
from jaato.tools.catalog import ToolMatch
from jaato.tools.filesystem.control_files import control_names
from jaato.tools.permissions.gate import Decision, Gate
from jaato.tools.pipeline import run
from jaato.tools.redaction.redactor import Redactor, StreamRedactor
from jaato.tools.remote.fields import C
from jaato.tools.tool import Tool

MAX_STDIN_BYTES = 4_000_000
CODES = {
    "permission_denied": DENIED,
    "mcp_definition_held": DENIED,
    "arguments_invalid": USAGE,
    "mcp_server_unusable": USAGE,
    "permission.denied": DENIED,
    "registry_unusable": USAGE,
    "tool.invalid_args": USAGE,
}
"""How a call ends that failed, by the problem's code; else 1."""


class OneCall:
    """The pipeline's steps for one tool. Who types a call allows it; what a rule denies stays denied."""

    def __init__(self, tool: Tool, settings: Settings, workspace: Path) -> None:
        self._tool = tool
        policy = policy_for(SessionOptions(workspace=workspace, yes=True), settings, workspace)
        self._gate = Gate(
            policy,
            workspace=workspace,
            protected=(settings.state_dir, settings.config_dir),
            control_names=control_names(tuple(settings["control_files"])),
        )

    def find(self, name: str) -> ToolMatch | None:
        """The one tool."""
        return ToolMatch(self._tool, {}) if name == self._tool.name else None

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


def arguments_of(text: str | None) -> dict[str, Any]:
    """The arguments of a call from JSON text, or from stdin for `-`. Raises `ConfigError`."""
    if text == "-":
        data = sys.stdin.buffer.read(MAX_STDIN_BYTES + 1)
        if len(data) > MAX_STDIN_BYTES:
            raise ConfigError(f"More than {MAX_STDIN_BYTES:,} bytes of arguments came on stdin.")
        text = data.decode("utf-8", "replace")
    if not text or not text.strip():
        return {}
    try:
        arguments = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"The arguments are not JSON: {error}.") from None
    if not isinstance(arguments, dict):
        raise ConfigError('The arguments are a JSON object, such as {"a": 1}.')
    return arguments


async def call_tool(
    commands: SourceCommands[C], tool: Tool, arguments: dict[str, Any], *, stream: bool, ask: bool
) -> int:
    """One call of one tool, through the pipeline: valid, permitted, run; its result on stdout, what it says while it is at
    work on stderr. `ask` lets it ask back. Gives the exit code."""
    terminal = Terminal()
    output = StreamRedactor(commands.secrets)
    call = Call(
        id=new_id("c"),
        name=tool.name,
        arguments=arguments,
        door="user",
        output=(lambda text: terminal.show(output.feed(text))) if stream else no_output,
        keep=terminal.keep,
        services={"clarify": terminal.clarify} if ask else {},
        workspace=commands.workspace,
    )
    outcome = await run(call, OneCall(tool, commands.settings, commands.workspace))
    terminal.show(output.end())
    return show_outcome(masked(outcome, commands.secrets), terminal, as_json=commands.args.json)


def masked(outcome: Outcome, secrets: Redactor) -> Outcome:
    """How a call ended, without what was secret in what it was asked with."""
    if outcome.problem is not None:
        message = secrets.mask(outcome.problem.message)
        outcome.problem = msgspec.structs.replace(outcome.problem, message=message)
    if isinstance(outcome.value, Output):
        text, structured = secrets.mask(outcome.value.text), secrets.mask_data(outcome.value.structured)
        outcome.value = replace(outcome.value, text=text, structured=structured)
    return outcome


def show_outcome(outcome: Outcome, terminal: Terminal, *, as_json: bool) -> int:
    """Show how a call went; gives the exit code."""
    problem, value = outcome.problem, outcome.value
    text = value.text if isinstance(value, Output) else "" if value is None else str(value)
    media = terminal.media(outcome)
    if as_json:
        print_json(
            {
                "ok": outcome.ok,
                "text": text,
                "structured": getattr(value, "structured", None),
                "media": media,
                "error": {"code": problem.code, "message": problem.message} if problem else None,
                "duration_s": round(outcome.duration_s, 3),
            }
        )
    elif outcome.ok:
        if text:
            print_line(text)
        for one in media:
            say(f"{one['type']}, {one['size_bytes']:,} bytes; --json gives it in base64")
    if outcome.ok:
        return OK
    if problem is not None and not as_json:
        say(problem.message)
    return CODES.get(problem.code, ERROR) if problem is not None else ERROR
