"""Call one tool from the command line: run it through the pipeline, show progress, ask questions, print the result."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from jaato.abc.asker import Clarification
from jaato.cli.arguments.values import parse_object, read_input
from jaato.cli.exit_codes import DENIED, ERROR, OK, USAGE, print_message
from jaato.cli.output.console import print_json, print_line, printable, visible
from jaato.cli.repl.editor import LineReader
from jaato.cli.repl.questions import parse_reply, question_lines
from jaato.cli.sources.source_commands import SourceCommands
from jaato.errors import ToolError
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

EXIT_CODES = {
    "permission_denied": DENIED,
    "mcp_definition_held": DENIED,
    "arguments_invalid": USAGE,
    "mcp_server_unusable": USAGE,
    "permission.denied": DENIED,
    "registry_unusable": USAGE,
    "tool.invalid_args": USAGE,
}
"""The exit code of a failed call, by the problem's code; else 1."""


class OneCall:
    """The pipeline's steps for one tool. The user allows the call by typing it; a rule can still deny it."""

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
        """No tool needs to be activated."""
        return None

    async def permit(self, call: Call, tool: Tool) -> Decision | None:
        """Check the rules."""
        return await self._gate.check(call, tool)

    async def record_start(self, call: Call, tool: Tool, permission: Permission | None) -> None:
        """Not recorded, as there is no session."""

    async def invoke(self, call: Call, tool: Tool) -> Any:
        """Run the tool, without a timeout."""
        return await tool.run(call.arguments, call)

    async def enrich(self, call: Call, tool: Tool, outcome: Outcome) -> Outcome:
        """The result, unchanged."""
        return outcome

    async def record_end(self, call: Call, outcome: Outcome) -> None:
        """Not recorded, as there is no session."""

    def record_end_now(self, call: Call, outcome: Outcome) -> None:
        """Not recorded, as there is no session."""

    def interrupts(self, error: BaseException) -> bool:
        """Ctrl-C ends the command."""
        return isinstance(error, (asyncio.CancelledError, KeyboardInterrupt))


class CallTerminal:
    """The terminal of a call: progress and questions on stderr, answers from stdin, media kept in memory."""

    def __init__(self) -> None:
        self._blobs: dict[str, bytes] = {}
        self._reader: LineReader | None = None

    def show(self, text: str) -> None:
        """Print progress."""
        sys.stderr.write(printable(text))
        sys.stderr.flush()

    def keep(self, data: bytes | Path) -> str:
        """Keep media until the command ends; return its hash."""
        content = data if isinstance(data, bytes) else data.read_bytes()
        handle = hashlib.sha256(content).hexdigest()
        self._blobs[handle] = content
        return handle

    async def clarify(self, asked: Clarification) -> list[str | None] | None:
        """Ask the user, one line for each question; None when the input ends before all are answered."""
        self.show(f"{visible(asked.context)}\n" if asked.context else "")
        if self._reader is None:
            self._reader = LineReader()
        answers: list[str | None] = []
        for question in asked.questions:
            self.show("\n".join(map(visible, question_lines(question))))
            line = await self._reader.read()
            if not sys.stdin.isatty():
                self.show("\n")
            if line is None:
                return None
            answers.append(parse_reply(question, line))
        return answers

    def media(self, outcome: Outcome) -> list[dict[str, Any]]:
        """The media of a result, in base64."""
        value = outcome.value
        found = (
            [(one, self._blobs.get(one.blob, b"")) for one in value.media]
            if isinstance(value, Output)
            else []
        )
        return [
            {"type": one.mime_type, "size_bytes": len(data), "base64": base64.b64encode(data).decode()}
            for one, data in found
        ]


def parse_arguments(text: str | None) -> dict[str, Any]:
    """The arguments of a call, from JSON text or from stdin for `-`. Raises `ConfigError`."""
    if text == "-":
        text = read_input("-")
    if not text or not text.strip():
        return {}
    return parse_object(text, "The arguments")


async def call_tool(
    commands: SourceCommands[C], tool: Tool, arguments: dict[str, Any], *, stream: bool, ask: bool
) -> int:
    """Call a tool and print its result; return the exit code. `stream` prints progress on stderr; `ask` lets the tool ask
    questions."""
    terminal = CallTerminal()
    output = StreamRedactor(commands.secrets)
    call = Call(
        id=new_id("c"),
        name=tool.name,
        arguments=arguments,
        caller="user",
        output=(lambda text: terminal.show(output.feed(text))) if stream else no_output,
        keep=terminal.keep,
        services={"clarify": terminal.clarify} if ask else {},
        workspace=commands.workspace,
    )
    outcome = await run(call, OneCall(tool, commands.settings, commands.workspace))
    terminal.show(output.end())
    redact_outcome(outcome, commands.secrets)
    return print_outcome(outcome, terminal.media(outcome), as_json=commands.args.json)


def redact_outcome(outcome: Outcome, secrets: Redactor) -> None:
    """Redact the secrets in an outcome."""
    if outcome.problem is not None:
        message = secrets.mask(outcome.problem.message)
        outcome.problem = msgspec.structs.replace(outcome.problem, message=message)
    if isinstance(outcome.value, Output):
        text, structured = secrets.mask(outcome.value.text), secrets.mask_data(outcome.value.structured)
        outcome.value = replace(outcome.value, text=text, structured=structured)


def print_outcome(outcome: Outcome, media: list[dict[str, Any]], *, as_json: bool) -> int:
    """Print the result or failure of a call; return the exit code."""
    problem, value = outcome.problem, outcome.value
    text = value.text if isinstance(value, Output) else "" if value is None else str(value)
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
            print_message(f"{one['type']}, {one['size_bytes']:,} bytes; --json prints it in base64")
    if outcome.ok:
        return OK
    if problem is not None and not as_json:
        print_message(problem.message)
    return EXIT_CODES.get(problem.code, ERROR) if problem is not None else ERROR
