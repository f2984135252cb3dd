"""`MCPClientManager`: MCP servers for programs without an event loop; every method blocks until it has its answer."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from jaato import settings
from jaato.plugins.mcp.directory import Directory
from jaato.plugins.mcp.elicitation import CallContext
from jaato.plugins.mcp.errors import ServerUnusable
from jaato.plugins.mcp.manifest import Manifest, ToolEntry
from jaato.plugins.mcp.pool import SessionServers
from jaato.plugins.mcp.tools import checked_output
from jaato.protocol.ids import new_id
from jaato.tools.call import Call, Output, no_blobs
from jaato.tools.remote.directory import source_context

if TYPE_CHECKING:
    from jaato.plugins.mcp.client import McpClient
    from jaato.plugins.mcp.server import McpServer

R = TypeVar("R")


class MCPClientManager:
    """The servers that a workspace and its user have configured. They start when first used; `close` lets go of them.

    No model and no permission stands between: the program itself decides what is called. `keep` takes the bytes of
    images and files and returns a handle for them; without it they are left out.
    """

    def __init__(
        self,
        workspace: str | Path | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        keep: Callable[[bytes | Path], str] = no_blobs,
    ) -> None:
        environ = settings.environment() if environ is None else environ
        self._keep = keep
        self._directory = Directory(source_context(Path(workspace or Path.cwd()).resolve(), environ))
        self._host = SessionServers(self._directory, lambda _name: None)

    def list_servers(self) -> dict[str, str]:
        """How each server stands: configured, known, started, failed, needs login, needs trust, switched off. Starts nothing."""
        return {name: self._host.state(name)[0] for name in self._directory.sources}

    def connect(self, server: str) -> Manifest:
        """Start a server, or ask a running one anew, what it offers. Raises `ToolError`s."""

        async def connected(one: McpServer) -> Manifest:
            connection = await one.connected(patient=False)
            return await connection.refresh()

        return self._host.start(server, connected).result()

    def list_tools(self, server: str) -> list[ToolEntry]:
        """The tools of a server that may be called; it is started if nothing is known of it. Raises `ToolError`s."""
        config = self._directory.entry(server)
        if self._directory.judgement(config) is None:
            self.connect(server)
        judged = self._directory.judgement(config)
        return [] if judged is None else judged.manifest.tools

    def call_tool(self, server: str, tool: str, args: dict[str, Any] | None = None) -> Output:
        """Call a tool. Raises `ServerRefusal` when the tool says that it failed, and other `ToolError`s."""
        from jaato.plugins.mcp.results import output_of

        entry = self._tool(server, tool)
        call = self._call(tool, args or {})
        result = self._ask(
            server, lambda connection: connection.call(tool, call.arguments, CallContext(call))
        )
        return checked_output(entry, output_of(result, call))

    def read_resource(self, server: str, uri: str) -> Output:
        """Read a resource. Raises `ToolError`s."""
        from jaato.plugins.mcp.results import resource_output

        call = self._call("read", {})
        return resource_output(self._ask(server, lambda one: one.read(uri, CallContext(call))), call)

    def get_prompt(self, server: str, name: str, arguments: dict[str, str] | None = None) -> Output:
        """A prompt, filled in. Raises `ToolError`s."""
        from jaato.plugins.mcp.results import prompt_output

        call = self._call("prompt", {})
        return prompt_output(
            self._ask(server, lambda one: one.prompt(name, arguments or {}, CallContext(call))), call
        )

    def close(self) -> None:
        """Let go of all servers; those nobody else uses end soon."""
        self._host.leave()

    def __enter__(self) -> MCPClientManager:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _tool(self, server: str, tool: str) -> ToolEntry:
        config = self._directory.entry(server)
        judged = self._directory.judgement(config)
        if judged is None or judged.tool(tool) is None:
            self.connect(server)
            judged = self._directory.judgement(config)
        found = judged.tool(tool) if judged else None
        if found is None:
            unknown = f"The MCP server {server!r} has not said what it offers."
            raise ServerUnusable(judged.missing(server, tool) if judged else unknown)
        return found

    def _ask(self, server: str, do: Callable[[McpClient], Coroutine[Any, Any, R]]) -> R:
        async def asked(one: McpServer) -> R:
            result = await do(await one.connected())
            one.answered()
            return result

        return self._host.start(server, asked).result()

    def _call(self, name: str, arguments: dict[str, Any]) -> Call:
        return Call(
            new_id("c"), name, arguments, keep=self._keep, workspace=self._directory.context.workspace
        )
