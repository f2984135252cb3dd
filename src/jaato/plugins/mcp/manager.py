"""`MCPClientManager`: MCP servers for programs without an event loop; every method blocks until it has its answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from jaato import settings
from jaato.plugins.mcp.calls import CallContext, output_of, prompt_output, resource_output, validate_output
from jaato.plugins.mcp.directory import Directory
from jaato.plugins.mcp.manifest import Manifest, ToolEntry
from jaato.plugins.mcp.pool import Request, SessionServers, fetch_manifest, send_request
from jaato.protocol.ids import new_id
from jaato.tools.call import Call, Output, no_blobs
from jaato.tools.remote.sources import source_context


class MCPClientManager:
    """The servers that a workspace and its user have configured. They start lazily; `close` releases them.

    There is no model and no permission check: the program itself decides what is called. `keep` stores the bytes of
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
        self._servers = SessionServers(self._directory, lambda _name: None)

    def list_servers(self) -> dict[str, str]:
        """The state of each server: configured, known, started, failed, needs login, needs trust, switched off. Starts nothing."""
        return {name: self._servers.state(name)[0] for name in self._directory.sources}

    def connect(self, server: str) -> Manifest:
        """Start a server, or fetch the lists of a running one again. Raises `ToolError`s."""
        return self._servers.submit(server, fetch_manifest).result()

    def list_tools(self, server: str) -> list[ToolEntry]:
        """The tools of a server that may be called; it is started if nothing is known of it. Raises `ToolError`s."""
        config = self._directory.entry(server)
        if self._directory.review(config) is None:
            self.connect(server)
        review = self._directory.review(config)
        return [] if review is None else review.manifest.tools

    def call_tool(self, server: str, tool: str, args: dict[str, Any] | None = None) -> Output:
        """Call a tool. Raises `ServerRefusal` when the tool reports an error, and other `ToolError`s."""
        entry = self._directory.tool(server, tool)
        if entry is None:
            self.connect(server)
            entry = self._directory.tool(server, tool)
        if entry is None:
            raise self._directory.missing_tool(server, tool)
        call = self._call(tool, args or {})
        result = self._ask(server, lambda client: client.call(tool, call.arguments, CallContext(call)))
        return validate_output(entry, output_of(result, call))

    def read_resource(self, server: str, uri: str) -> Output:
        """Read a resource. Raises `ToolError`s."""
        call = self._call("read", {})
        return resource_output(self._ask(server, lambda client: client.read(uri, CallContext(call))), call)

    def get_prompt(self, server: str, name: str, arguments: dict[str, str] | None = None) -> Output:
        """Get a prompt with its arguments filled in. Raises `ToolError`s."""
        call = self._call("prompt", {})
        return prompt_output(
            self._ask(server, lambda client: client.prompt(name, arguments or {}, CallContext(call))), call
        )

    def close(self) -> None:
        """Release all servers; those without another user stop soon."""
        self._servers.leave()

    def __enter__(self) -> MCPClientManager:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, server: str, do: Request[Any]) -> Any:
        return self._servers.submit(server, partial(send_request, do)).result()

    def _call(self, name: str, arguments: dict[str, Any]) -> Call:
        return Call(
            new_id("c"), name, arguments, keep=self._keep, workspace=self._directory.context.workspace
        )
