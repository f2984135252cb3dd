"""An editor: the client side of the public library, speaking with `jaato acp` as a process of its own."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from acp.client.connection import ClientSideConnection
from acp.connection import StreamDirection, StreamEvent
from acp.exceptions import RequestError
from acp.helpers import text_block
from acp.stdio import spawn_agent_process
from tests.cli.environment import CliEnvironment
from tests.cli.warm import warm

from acp import schema

PATIENCE_S = 60.0
Choose = Callable[[schema.ToolCallUpdate, list[schema.PermissionOption]], str | None]


class Terminal:
    """A program of the editor: what it has printed, and whether the agent needs it no more."""

    def __init__(self, process: asyncio.subprocess.Process, command: list[str]) -> None:
        self.process = process
        self.command = command
        self.output = ""
        self.released = False
        self.ended = asyncio.ensure_future(self._read())

    async def _read(self) -> int:
        assert self.process.stdout is not None
        while data := await self.process.stdout.read(65536):
            self.output += data.decode()
        return await self.process.wait()


class TerminalHost:
    """The terminals of an editor, by id."""

    def __init__(self) -> None:
        self.terminals: dict[str, Terminal] = {}
        self.env: dict[str, str] = {}
        self.cwd = ""
        """The environment of terminals, and the directory that they begin in."""
        self.changed = asyncio.Event()

    async def create_terminal(
        self, session_id: str, command: str, args: list[str] | None = None, **_: Any
    ) -> schema.CreateTerminalResponse:
        process = await asyncio.create_subprocess_exec(
            command,
            *(args or []),
            env=self.env,
            cwd=self.cwd,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        terminal = Terminal(process, [command, *(args or [])])
        self.terminals[f"t{len(self.terminals) + 1}"] = terminal
        self.changed.set()
        return schema.CreateTerminalResponse(terminal_id=f"t{len(self.terminals)}")

    async def wait_for_terminal_exit(
        self, session_id: str, terminal_id: str, **_: Any
    ) -> schema.WaitForTerminalExitResponse:
        code = await self.terminals[terminal_id].ended
        return schema.WaitForTerminalExitResponse(
            exit_code=code if code >= 0 else None, signal=None if code >= 0 else signal.Signals(-code).name
        )

    async def release_terminal(self, session_id: str, terminal_id: str, **_: Any) -> None:
        terminal = self.terminals[terminal_id]
        terminal.released = True
        if terminal.process.returncode is None:
            terminal.process.kill()
        self.changed.set()

    async def kill_terminal(self, session_id: str, terminal_id: str, **_: Any) -> None:
        raise AssertionError("a terminal is killed by its user alone")

    async def terminal_output(self, session_id: str, terminal_id: str, **_: Any) -> Any:
        raise AssertionError("the output is known to the server")

    async def close_terminals(self) -> None:
        """End the programs of all terminals."""
        for terminal in self.terminals.values():
            if terminal.process.returncode is None:
                terminal.process.kill()
            await terminal.ended


class Editor(TerminalHost):
    """What the editor shows and answers. `choose` gives the option of a permission request, None leaves it open."""

    def __init__(self, choose: Choose = lambda _call, _options: "allow_once") -> None:
        super().__init__()
        self.choose = choose
        self.updates: list[tuple[str, Any]] = []
        self.requests: list[tuple[schema.ToolCallUpdate, list[schema.PermissionOption]]] = []
        self.forms: list[Any] = []
        self.form_answer: dict[str, Any] = {}
        self.buffers: dict[str, str] = {}
        """The open files by path, with their text."""
        self.file_requests: list[tuple[str, str]] = []
        self.withdrawn: list[Any] = []
        """The ids of requests that the agent has withdrawn."""
        self.open: set[Any] = set()
        """The ids of permission requests that were neither answered nor withdrawn."""
        self.decided = asyncio.Event()
        """Set it when `choose` gives another answer to open requests."""
        self.agent: ClientSideConnection
        self.process: asyncio.subprocess.Process

    async def request_permission(
        self,
        session_id: str,
        tool_call: schema.ToolCallUpdate,
        options: list[schema.PermissionOption],
        **_: Any,
    ) -> schema.RequestPermissionResponse:
        self.requests.append((tool_call, options))
        self.changed.set()
        while (chosen := self.choose(tool_call, options)) is None:
            await self.decided.wait()
        if chosen == "cancelled":
            return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        outcome = schema.AllowedOutcome(outcome="selected", option_id=str(chosen))
        return schema.RequestPermissionResponse(outcome=outcome)

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append((session_id, update))
        self.changed.set()

    async def create_elicitation(self, message: str, mode: Any, **_: Any) -> Any:
        self.forms.append((message, mode))
        return schema.AcceptElicitationResponse(action="accept", content=self.form_answer)

    async def read_text_file(self, session_id: str, path: str, **_: Any) -> schema.ReadTextFileResponse:
        self.file_requests.append(("read", path))
        if path not in self.buffers:
            raise RequestError.resource_not_found(path)
        return schema.ReadTextFileResponse(content=self.buffers[path])

    async def write_text_file(self, session_id: str, path: str, content: str, **_: Any) -> None:
        self.file_requests.append(("write", path))
        self.buffers[path] = content
        Path(path).write_text(content, newline="")

    # --- files -------------------------------------------------------------------------------------------------------

    def edit(self, path: Path, text: str) -> None:
        """Have unsaved text in a buffer."""
        self.buffers[str(path)] = text

    def on_connect(self, conn: Any) -> None:
        """The connection is known by its return value."""

    def observe(self, event: StreamEvent) -> None:
        """Note which requests are open, and what the library does not handle yet."""
        method, request = event.message.get("method"), event.message.get("id")
        if event.direction is not StreamDirection.INCOMING:
            self.open.discard(request if method is None else None)
        elif method == "session/request_permission":
            self.open.add(request)
        elif method == "$/cancel_request":
            self.withdrawn.append(event.message["params"]["requestId"])
            self.open.discard(event.message["params"]["requestId"])
            self.changed.set()

    # --- what is shown -----------------------------------------------------------------------------------------------

    def of(self, kind: str, session_id: str | None = None) -> list[Any]:
        """The updates of one kind."""
        return [
            one for where, one in self.updates if one.session_update == kind and session_id in (None, where)
        ]

    def text(self, kind: str = "agent_message_chunk", session_id: str | None = None) -> str:
        """The text of all chunks of a kind."""
        return "".join(one.content.text for one in self.of(kind, session_id))

    def call(self, title: str) -> dict[str, Any]:
        """The call whose title contains this, with its changes applied, and `states` with each status in order."""
        start = next(one for one in self.of("tool_call") if title in one.title)
        shown: dict[str, Any] = start.model_dump(exclude_unset=True)
        shown["states"] = [start.status]
        for change in self.of("tool_call_update"):
            if change.tool_call_id == start.tool_call_id:
                found = change.model_dump(exclude_unset=True)
                shown.update(found)
                shown["states"].append(found.get("status"))
        return shown

    async def wait(self, condition: Callable[[], Any]) -> None:
        """Wait until a condition holds."""
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                self.changed.clear()
                try:
                    async with asyncio.timeout(0.5):
                        await self.changed.wait()
                except TimeoutError:
                    pass  # it may be a file that is waited for

    # --- what is asked -----------------------------------------------------------------------------------------------

    async def new(self, desk: CliEnvironment, servers: list[Any] | None = None) -> str:
        """A new session of the workspace."""
        made = await self.agent.new_session(cwd=str(desk.work), mcp_servers=servers or [])
        return made.session_id

    async def say(self, session_id: str, text: str) -> schema.PromptResponse:
        """A prompt of text, to its end."""
        async with asyncio.timeout(PATIENCE_S):
            return await self.agent.prompt(session_id=session_id, prompt=[text_block(text)])


def agent_command(desk: CliEnvironment, command: list[str] | None, *words: str) -> list[str]:
    """What starts an agent: a command, or else a fork of a process that has loaded it, where that makes no difference."""
    if command is None and desk.forks(desk.env):
        return warm().relay(words)
    return [*(command or desk.command), *words]


@asynccontextmanager
async def editing(
    desk: CliEnvironment,
    *flags: str,
    choose: Choose | None = None,
    forms: bool = False,
    files: str = "",
    writes_only: bool = False,
    terminal: bool = False,
    editor: Editor | None = None,
    meta: dict[str, Any] | None = None,
    command: list[str] | None = None,
    name: str = "",
    **environ: str,
) -> AsyncIterator[Editor]:
    """An editor that is connected to an agent of its own, which has ended by itself afterwards."""
    editor = editor or (Editor() if choose is None else Editor(choose))
    editor.env, editor.cwd = desk.env, str(desk.work)
    command = agent_command(desk, command, "acp", *flags)
    with open(desk.root / "acp.log", "ab") as log:
        async with spawn_agent_process(
            cast("Any", editor),
            command[0],
            *command[1:],
            env={**desk.env, **environ},
            cwd=str(desk.work),
            transport_kwargs={"stderr": log, "limit": 64_000_000},
            use_unstable_protocol=True,
            observers=[editor.observe],
        ) as (agent, process):
            editor.agent, editor.process = agent, process
            elicitation = schema.ElicitationCapabilities(form=schema.ElicitationFormCapabilities())
            capabilities = schema.ClientCapabilities(
                elicitation=elicitation if forms else None,
                fs=schema.FileSystemCapabilities(
                    read_text_file=bool(files), write_text_file=writes_only or files == "write"
                ),
                terminal=terminal,
                field_meta=meta,
            )
            async with asyncio.timeout(PATIENCE_S):
                hello = await agent.initialize(
                    protocol_version=1,
                    client_capabilities=capabilities,
                    client_info=schema.Implementation(name=name, version="1") if name else None,
                )
            assert hello.protocol_version == 1
            try:
                yield editor
            finally:
                await editor.close_terminals()
            assert process.stdin is not None
            process.stdin.close()
            async with asyncio.timeout(PATIENCE_S):
                assert await process.wait() == 0, (desk.root / "acp.log").read_text()


def run(story: Any) -> None:
    """Run what happens in a test, on an event loop of its own."""
    asyncio.run(story)
