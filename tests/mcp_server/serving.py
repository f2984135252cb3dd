"""What tests of the MCP server share: a door to a workspace of its own, clients at it, and the server as a process."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as mcp
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from tests.cli.warm import warm

from jaato.protocol.events import Event
from jaato.runtime.session_options import SessionOptions
from jaato.server.mcp.handlers import Handlers
from jaato.server.tool_sessions import Offer, ToolSessions
from jaato.settings import environment
from jaato.storage.sqlite import SqliteStore
from jaato.tools.tool import Tool

ROOT = Path(__file__).parents[2]
ERAS = ("legacy", "auto")
"""How the SDK's client speaks the protocol with the handshake, and the one without."""

NOISY = '''
"""A plugin that prints where it can."""
import atexit, os, subprocess, sys
from jaato.abc.plugin import Plugin
from jaato.tools.tool import tool

PLUGIN_KIND = "tool"
print("printed at import")
atexit.register(print, "printed at the end")

class Noisy(Plugin):
    """Prints."""

    name = "noisy"

    @tool(access="read", core=True)
    def shout(self) -> str:
        """Print everywhere."""
        print("printed by a tool", flush=True)
        os.write(1, b"written by a tool\\n")
        subprocess.run(["echo", "printed by a child"], check=True)
        return f"stdin said {sys.stdin.read()!r}"
'''


class House:
    """One user's machine below a directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.work = root / "work"
        self.home = root / "home"
        self.state = self.home / ".local" / "state" / "jaato"
        self.work.mkdir()
        self.home.mkdir()
        self.env = {
            "HOME": str(self.home),
            "PATH": environment()["PATH"],
            "JAATO_SANDBOX": "full",  # the tests look for processes by their ids outside
            "PYTHONPATH": str(ROOT / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
        }

    def command(self, *flags: str) -> list[str]:
        """How the server is started."""
        return [sys.executable, "-m", "jaato", *self.words(*flags)]

    def words(self, *flags: str) -> list[str]:
        """The same, without what leads to `jaato`."""
        return ["mcp", "serve", "--workspace", str(self.work), *flags]

    def ended(self, *flags: str) -> subprocess.CompletedProcess[bytes]:
        """The server with nothing on stdin, to its end."""
        return warm().run(self.words(*flags), data=None, cwd=self.work, env=self.env, timeout_s=60)

    def start(self, *flags: str, fresh: bool = False) -> subprocess.Popen[bytes]:
        """The server with pipes for its three streams: forked from a process that has loaded it, or a `fresh` one."""
        pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        if fresh:
            return subprocess.Popen(self.command(*flags), env=self.env, bufsize=0, **pipes)
        return warm().start(self.words(*flags), cwd=self.work, env=self.env, bufsize=0, **pipes)

    def parameters(self, *flags: str, fresh: bool = False) -> StdioServerParameters:
        """The same, as the SDK's client wants it; one that is not fresh is forked at the word of a small program."""
        command, *args = self.command(*flags) if fresh else warm().relay(self.words(*flags))
        return StdioServerParameters(command=command, args=args, env=self.env, cwd=self.work)

    def client(self, mode: str, *flags: str, fresh: bool = False, **more: Any) -> Client:
        """The SDK's client of a server that it starts."""
        return Client(stdio_client(self.parameters(*flags, fresh=fresh)), mode=mode, **more)

    def tool_sessions(
        self, *tools: Callable[..., Any] | Tool, offer: Offer | None = None, **more: Any
    ) -> ToolSessions:
        """A door in this process; `tools` are offered beside the built-in ones, and run without asking."""
        blueprint = SessionOptions(
            workspace=self.work, tools=tools, state_dir=self.state, environ=self.env, **more
        )
        return ToolSessions.open(blueprint, offer or Offer())

    @asynccontextmanager
    async def visited(
        self,
        mode: str,
        *tools: Callable[..., Any] | Tool,
        offer: Offer | None = None,
        client: dict[str, Any] | None = None,
        **more: Any,
    ) -> AsyncIterator[Client]:
        """A client at a door of this process."""
        tool_sessions = self.tool_sessions(*tools, offer=offer, **more)
        try:
            info = mcp.Implementation(name="tester", version="1")
            async with Client(
                Handlers(tool_sessions).server(), mode=mode, client_info=info, **(client or {})
            ) as one:
                yield one
        finally:
            await tool_sessions.close()

    def events(self) -> list[Event]:
        """The log of the only session there is."""
        store = SqliteStore(self.state / "jaato.db")
        try:
            (session,) = store.sessions(None, limit=10)
            return [event for event in store.read(session.id) if isinstance(event, Event)]
        finally:
            store.close()


class Served:
    """The server over HTTP, as a process."""

    def __init__(self, house: House, *flags: str, fresh: bool = False) -> None:
        flags = ("--http", ":0", *flags)
        streams: dict[str, Any] = {"stderr": subprocess.PIPE}
        self.process: subprocess.Popen[bytes] = (
            subprocess.Popen(house.command(*flags), env=house.env, **streams)
            if fresh
            else warm().start(house.words(*flags), cwd=house.work, env=house.env, **streams)
        )
        assert self.process.stderr is not None
        self.said = self.process.stderr.readline().decode()
        found = re.search(r"(http://127\.0\.0\.1:(\d+)/mcp); the token is in (.+)$", self.said.strip())
        assert found, self.said + self.process.stderr.read().decode()
        self.url, self.port, self.token_file = found[1], int(found[2]), Path(found[3])
        self.token = self.token_file.read_text().strip()

    def stop(self) -> tuple[int, str]:
        """End it as an operator does; gives its exit code and what it said on stderr since."""
        self.process.terminate()
        _, said = self.process.communicate(timeout=60)
        return self.process.returncode, said.decode()


def text_of(result: mcp.CallToolResult) -> str:
    """The text a client's model reads."""
    return "\n".join(part.text for part in result.content if isinstance(part, mcp.TextContent))


def names(tools: Sequence[mcp.Tool]) -> list[str]:
    """The names of listed tools."""
    return [one.name for one in tools]


def answering(*answers: mcp.ElicitResult, asked: list[str] | None = None) -> Callable[..., Any]:
    """A user who gives these answers, one a question; `asked` is filled with the questions."""
    left = list(answers)

    async def elicit(_context: Any, params: Any) -> mcp.ElicitResult:
        if asked is not None:
            asked.append(params.message)
        return left.pop(0)

    return elicit


def decides(decision: str, **more: str) -> mcp.ElicitResult:
    """A user who accepts the form with this decision."""
    return mcp.ElicitResult(action="accept", content={"decision": decision, **more})
